"""Which figures fit a log, and golfsim.plot."""

import copy
import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot
import pandas as pd
import pytest
from helpers import HERE, finished, learning_tree, tree

import golfsim
from golfsim.report import Drawing, curves, fitting
from golfsim.runs import single
from golfsim.scenario.model import Scenario
from golfsim.sim.log import noted

PEERS = {"name": "peers", "use": "newscast", "view": 4}
LEARNING = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 1.0}
DATA = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}


@pytest.fixture(autouse=True)
def _closed():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


@pytest.fixture(scope="module")
def whole():
    """A run that has everything but a sweep."""
    observe = {"every": 1, "nodes": 10, "overlay": 1, "draw": True, "metrics": ["auc", "f1", "confusion", "roc"]}
    return finished(learning_tree(PEERS, LEARNING, churn={"kind": "crash", "at": 3, "share": 0.5}, observe=observe))


@pytest.fixture(scope="module")
def drawings(whole):
    return fitting(whole.log.frame(), whole.log.nodes(), whole.log.links(), whole.log.degrees())


def test_a_run_with_everything_gets_every_figure_once(drawings):
    names = [drawing.name for drawing in drawings]
    assert names == [
        "convergence",
        "convergence-auc",
        "convergence-f1",
        "online",
        "messages",
        "overlay",
        "confusion-learning",
        "roc",
        "time-to-accuracy",
        "degrees",
        "raster-learning",
        "errors",
        "network-peers",
        "moving-peers",
    ]


def test_all_of_them_can_be_written_and_nothing_global_is_altered(drawings, tmp_path):
    before = copy.deepcopy(dict(mpl.rcParams))
    for drawing in drawings:
        paths = drawing.save(tmp_path)
        kinds = [".gif"] if drawing.kind == "animation" else [".png", ".svg", ".pdf"]
        assert [path.suffix for path in paths] == kinds, drawing.name
        assert all(path.stat().st_size > 1000 for path in paths)
        assert len(drawing.data), drawing.name
    assert dict(mpl.rcParams) == before
    assert not mpl.pyplot.get_fignums()


def test_captions_are_sentences_that_say_over_how_many_nodes_and_runs(drawings):
    by_name = {drawing.name: drawing for drawing in drawings}
    assert "over 10 measured nodes, one run, with 20 to 40 nodes online." in by_name["convergence"].caption
    assert "Light bands contain 90 %" in by_name["convergence"].caption
    assert "Dark bands" not in by_name["convergence"].caption
    assert "The error of 40 nodes" in by_name["raster-learning"].caption
    assert all(drawing.caption.endswith(".") and drawing.caption[0] != " " for drawing in drawings)


def test_a_log_without_a_learner_gets_no_learning_figures():
    names = [drawing.name for drawing in fitting(finished(tree(PEERS)).log.frame())]
    assert names == ["messages"]


def test_a_log_without_a_learner_gets_the_figures_of_its_overlay_and_of_the_metrics_of_its_layers():
    own = {"name": "mine", "use": "user_protocols/averaging.py:Averaging", "peers": "peers"}
    run = finished(tree(PEERS, own, observe={"every": 1, "overlay": 1}))
    drawings = fitting(run.log.frame(), degrees=run.log.degrees())
    found = {drawing.name: drawing for drawing in drawings}
    assert list(found) == ["convergence-variance", "messages", "overlay", "degrees"]
    assert found["convergence-variance"].title == "Variance"
    assert "measured nodes" not in found["convergence-variance"].caption


def test_attacks_on_members_are_drawn_over_cycles_as_those_on_labels():
    layers = [PEERS, PUBLISHED, LEARNING | {"records": "published"}]
    observe = {"every": 1, "attacks": ["label", "membership"]}
    frame = finished(learning_tree(*layers, data=DATA, observe=observe)).log.frame()
    names = [drawing.name for drawing in fitting(frame)]
    assert names[:3] == ["convergence", "convergence-label.linear", "convergence-membership.advantage"]


def test_attacks_on_members_are_below_the_accuracy_over_epsilon():
    layers = [PEERS, PUBLISHED, LEARNING | {"records": "published"}]
    how = {"observe": {"every": 6, "attacks": ["label", "membership"]}, "sweep": {"published.epsilon": [1.0, 10.0]}}
    found = {d.name: d for d in fitting(single.run(Scenario.of(learning_tree(*layers, data=DATA, **how), HERE)))}
    assert "membership advantage" in found["privacy-utility"].caption
    labels = [ax.get_ylabel() for ax in found["privacy-utility"].draw().figure.axes]
    assert labels == ["accuracy", "share of labels\nrecovered", "membership\nadvantage"]


def test_every_figure_and_caption_has_the_note(drawings, whole):
    frames = [
        noted(table.copy(), ["stand-in for other data"])
        for table in (whole.log.frame(), whole.log.nodes(), whole.log.links())
    ]
    for drawing in fitting(*frames):
        figure = drawing.draw().figure
        said = figure.get_suptitle() + "".join(ax.get_title(loc="left") for ax in figure.axes)
        assert "stand-in for other data" in said, drawing.name
        assert "stand-in for other data" in drawing.caption
        mpl.pyplot.close(figure)


@pytest.fixture(scope="module")
def swept():
    layers = [PEERS, PUBLISHED, LEARNING | {"records": "published"}]
    how = {"observe": {"every": 6, "attacks": ["label"]}, "runs": 3}
    sweep = {"published.epsilon": [1.0, 10.0], "learning.learner": ["pegasos", "logistic"]}
    return single.run(Scenario.of(learning_tree(*layers, data=DATA, sweep=sweep, **how), HERE))


def test_a_sweep_of_single_cycles_gets_figures_of_its_end(swept):
    found = {drawing.name: drawing for drawing in fitting(swept)}
    assert list(found) == ["privacy-utility", "heatmap"]
    assert "3 runs of each point of the sweep" in found["privacy-utility"].caption
    assert len(found["heatmap"].data) == len(found["privacy-utility"].data) == 4
    for drawing in found.values():
        assert drawing.draw().figure.axes


def test_an_empty_log_gets_nothing():
    empty = pd.DataFrame({name: [] for name in ("run", "seed", "cycle", "layer", "metric", "value")})
    assert fitting(empty) == []
    assert isinstance(Drawing("a", "b", "c", lambda: None, empty), Drawing)


def test_figures_are_imported_when_they_are_asked_for():
    there = "print('matplotlib' in sys.modules)"
    code = f"import sys, golfsim; {there}; golfsim.plot.convergence; {there}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]  # not even then: only when something is drawn


def test_plot_has_every_figure(whole):
    assert all(callable(getattr(golfsim.plot, name)) for name in golfsim.plot.__all__)
    ax = golfsim.plot.convergence(whole.log.frame())
    assert ax.get_xlabel() == "cycle"


def test_the_numbers_behind_the_overlay_are_those_of_all_its_panels(drawings):
    (overlay,) = [drawing for drawing in drawings if drawing.name == "overlay"]
    assert overlay.kind == "picture"  # a chart would show but one of them
    assert set(overlay.data["what"]) == {"in-degree", "path length", "clustering", "share of dead links"}


def test_every_case_gets_its_confusion_matrix(tmp_path):
    cases = [{"label": "private"}, {"label": "open", "learning.records": "raw"}]
    observe = {"every": 1, "metrics": ["confusion"]}
    layers = (PEERS, PUBLISHED, LEARNING | {"records": "published"})
    keys = {"case": cases, "observe": observe, "data": DATA, "cycles": 3}
    frame = single.run(Scenario.of(learning_tree(*layers, **keys)), tmp_path)
    found = [d for d in fitting(frame) if d.name.startswith("confusion")]
    assert [d.title for d in found] == [f"Confusion matrix of learning, {case}" for case in ("private", "open")]
    for drawing in found:
        assert drawing.data.drop(columns="actual").to_numpy().sum() == 30
        assert drawing.draw().get_xlabel() == "predicted class"


def test_the_largest_spent_epsilon_is_behind_the_figure_as_well():
    rows = [
        (1, cycle, "walk", f"spent.{name}", share * cycle)
        for cycle in (1, 2) for name, share in (("mean", 1.0), ("max", 2.0))
    ]  # fmt: skip
    (spent,) = fitting(pd.DataFrame(rows, columns=["run", "cycle", "layer", "metric", "value"]))
    assert set(spent.data["curve"]) == {"walk", "walk, maximum"}


def bands_in(axes):
    """The bands that a figure of curves shows, by their opacity."""
    found = {collection.get_alpha() for ax in axes for collection in ax.collections}
    return {word for word, alpha in (("Dark bands", curves.RUNS), ("Light bands", curves.NODES)) if alpha in found}


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("many", [1, 2, 4, 7])
def test_a_caption_explains_the_bands_that_are_drawn_and_no_others(runs, many):
    layers = [PEERS, PUBLISHED, LEARNING | {"records": "published"}]
    sweep = {"learning.lambda": [10.0**-n for n in range(many)]}
    observe = {"every": 1, "nodes": 10, "overlay": 1}
    churn = {"kind": "crash", "at": 3, "share": 0.5}
    transport = {"loss": 0.2} if many == 2 else {}
    how = {"observe": observe, "runs": runs, "churn": churn, "transport": transport, "sweep": sweep}
    frame = single.run(Scenario.of(learning_tree(*layers, data=DATA, **how), HERE))
    drawn = [drawing for drawing in fitting(frame) if drawing.kind == "curves" or drawing.name == "overlay"]
    assert {"convergence", "online"} <= {drawing.name for drawing in drawn}
    for drawing in drawn:
        figure = drawing.draw().figure
        said = {words for words in ("Dark bands", "Light bands") if words in drawing.caption}
        assert said == bands_in(figure.axes), drawing.name
        thin = any((line.get_linestyle(), line.get_linewidth()) == (":", 0.8) for line in figure.axes[0].lines)
        assert ("hin dotted" in drawing.caption) == (thin and drawing.name in ("messages", "spent"))
        mpl.pyplot.close(figure)


def test_captions_mention_offline_nodes_only_if_there_are_some(drawings):
    observe = {"every": 1, "nodes": 10, "draw": True}
    online = finished(learning_tree(PEERS, LEARNING, observe=observe)).log
    captions = {drawing.name: drawing.caption for drawing in fitting(online.frame(), online.nodes(), online.links())}
    away = {drawing.name: drawing.caption for drawing in drawings}
    for name in ("raster-learning", "network-peers"):
        assert "offline" in away[name]
        assert "offline" not in captions[name]


def test_the_epsilon_of_records_is_drawn_where_it_differs():
    walk = {"name": "walk", "use": "gradient_perturbation", "peers": "peers", "records": "raw", "epsilon": 8.0}
    run = finished(learning_tree(PEERS, walk | {"schedule": {"kind": "uniform", "visits": 4}}, data=DATA, cycles=40))
    (drawing,) = (one for one in fitting(run.log.frame(), spent=run.log.spent()) if one.name == "spent-by-record")
    assert "ε that records have spent" in drawing.caption
    assert drawing.draw().get_ylabel() == "cumulative share of records"
    same = finished(learning_tree(PUBLISHED, data=DATA)).log  # every record has spent the same
    assert "spent-by-record" not in [one.name for one in fitting(same.frame(), spent=same.spent())]
