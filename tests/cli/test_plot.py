"""golfsim plot: one figure of results, or one line about what is wrong."""

from functools import partial
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot
import pytest
from helpers import HERE, command, learning_tree

import golfsim
from golfsim.cli import completion, plot_commands
from golfsim.report import style
from golfsim.runs import single
from golfsim.scenario.model import Scenario

PEERS = {"name": "peers", "use": "newscast", "view": 4}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 1.0}
LEARNING = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
DATA = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A sweep over ε with two cases, in which half of the nodes crash."""
    folder = tmp_path_factory.mktemp("plot") / "results"
    how = {
        "observe": {"every": 1, "overlay": 1, "attacks": ["label"], "metrics": ["confusion", "roc"]},
        "sweep": {"published.epsilon": [1.0, 10.0]},
        "case": [{"label": "calm"}, {"label": "half crash", "churn": [{"kind": "crash", "at": 3, "share": 0.5}]}],
    }
    single.run(Scenario.of(learning_tree(PEERS, PUBLISHED, LEARNING, data=DATA, cycles=4, **how), HERE), folder)
    return folder


@pytest.fixture
def plot(capsys, monkeypatch, results, tmp_path):
    """Run the command in a folder of its own: (exit status, output, errors)."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    yield partial(command, capsys, monkeypatch, "plot", results)
    mpl.pyplot.close("all")


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the figures that the command writes."""
    found = []
    save = style.saved
    monkeypatch.setattr(style, "saved", lambda ax, paths: found.append(ax) or save(ax, paths))
    return found


@pytest.mark.parametrize("kind", plot_commands.KINDS)
def test_every_kind_can_be_drawn(plot, kind):
    options = {
        "heatmap": ["--x", "epsilon", "--by", "case"],
        "lines": ["--x", "epsilon", "--by", "case"],
        "bars": ["--x", "epsilon", "--by", "case"],
        "learning-curve": ["--x", "epsilon"],
        "confusion": ["--where", "epsilon=1", "--where", "case=calm"],
        "differences": ["--by", "case"],
        "time-to-target": ["--target", "0.5"],
    }
    code, out, err = plot("--kind", kind, *options.get(kind, []))
    assert (code, out) == (0, f"figure in {kind}.pdf\n"), err
    assert Path(f"{kind}.pdf").read_bytes().startswith(b"%PDF")


def test_rows_curves_and_panels_are_those_that_are_asked_for(plot, drawn):
    assert plot("--metric", "accuracy.mean", "--where", "epsilon=10", "--by", "case", "-o", "a.png")[0] == 0
    assert [line.get_label() for line in drawn[0].lines[:2]] == ["calm", "half crash"]
    assert drawn[0].get_ylabel() == "accuracy"
    assert (
        plot("--metric", "links.dead", "--layer", "peers", "--where", "epsilon=1", "--col", "case", "-o", "b.svg")[0]
        == 0
    )
    assert [ax.get_title() for ax in drawn[1].figure.axes] == ["calm", "half crash"]


@pytest.mark.parametrize("unit", ["messages", "bytes"])
def test_curves_can_be_drawn_over_what_was_sent(plot, drawn, results, unit):
    assert plot("--metric", "accuracy", "--x", unit, "--where", "epsilon=10", "-o", "a.png")[0] == 0
    assert drawn[0].get_xlabel() == f"{unit} sent"
    log = golfsim.load(results)
    log = log[(log["published.epsilon"] == 10) & (log["layer"] == "learning")]
    for line, case in zip(drawn[0].lines[:2], ["calm", "half crash"], strict=True):
        rows = log[log["case"] == case].set_index("metric")
        assert line.get_xdata() == pytest.approx(rows.loc[f"{unit}.sent", "value"].to_numpy())
        assert line.get_ydata() == pytest.approx(rows.loc["accuracy.mean", "value"].to_numpy())
    ends = [line.get_xdata()[-1] for line in drawn[0].lines[:2]]
    assert ends[1] < ends[0]  # after the crash fewer nodes send


@pytest.mark.parametrize(
    ("words", "name", "start"),
    [
        (["-o", "a.png"], "a.png", b"\x89PNG"),
        (["-o", "a.svg"], "a.svg", b"<?xml"),
        (["-o", "a", "--format", "pdf"], "a.pdf", b"%PDF"),
        (["--format", "png"], "online.png", b"\x89PNG"),
    ],
)
def test_the_format_is_that_of_the_ending_or_of_the_option(plot, words, name, start):
    assert plot("--kind", "online", *words)[0] == 0
    assert Path(name).read_bytes().startswith(start)


@pytest.mark.parametrize(("width", "inches"), [("column", 3.4), ("page", 7.0)])
def test_a_figure_has_the_width_of_a_column_or_of_a_page(plot, drawn, width, inches):
    assert plot("--width", width)[0] == 0
    assert drawn[0].figure.get_figwidth() == inches


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "pie"], "--kind: there is no “pie”; valid: convergence, heatmap, "),
        (["--metric", "acuracy"], "no layer has the metric “acuracy”; did you mean “accuracy”? valid: accuracy, age, "),
        (["--layer", "learnin"], "--layer: there is no layer “learnin”; did you mean “learning”? valid: "),
        (["--where", "epsilon"], "--where: expected KEY=VALUE; got “epsilon”"),
        (["--where", "epsilon=5"], "--where: no run has published.epsilon = 5; valid: 1.0, 10.0"),
        (["--where", "epsilo=5"], "--where: there is no key “epsilo”; valid: "),
        (["--by", "case"], "--by: curves also differ in published.epsilon; choose one value with --where, e.g. "),
        (["--by", "cas"], "--by: there is no key “cas”; did you mean “case”? valid: case, "),
        (["--col", "cas"], "--col: there is no key “cas”"),
        (["--x", "epsilon"], "--x: there is no “epsilon”; valid: cycle, messages, bytes"),
        (["--x", "bytes", "--col", "case"], "--x: curves over what was sent have one panel; leave --col out"),
        (["--x", "bytes", "--metric", "label.linear"], "sends no messages; draw this figure over cycles"),
        (["--kind", "lines"], "--kind lines needs --x; the sweep varies: case, published.epsilon"),
        (["--kind", "heatmap", "--x", "epsilon"], "--kind heatmap needs --x and --by; the sweep varies: "),
        (["--kind", "overlay", "--metric", "error"], "--metric: not for --kind overlay; "),
        (["--width", "wide"], "--width: there is no “wide”; valid: column, page"),
        (["--format", "gif"], "--format: there is no “gif”; valid: png, svg, pdf"),
        (["-o", "a.gif"], "a.gif: unknown format “.gif”; valid endings: png, svg, pdf, or state --format"),
        (["-o", "a.png", "--format", "pdf"], "--format: “pdf” is not the ending of a.png; state only one of the two"),
    ],
)
def test_a_mistake_is_reported_in_one_line(plot, words, message):
    code, out, err = plot(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert len([line for line in err.splitlines() if "more: golfsim help" not in line]) == 1
    assert not list(Path().iterdir())


def test_names_are_completed():
    assert completion.figures("con") == ["confusion", "convergence"]
    assert completion.formats("p") == ["pdf", "png"]
    assert completion.widths("") == ["column", "page"]


def test_folders_that_vary_different_keys_share_an_axis(capsys, monkeypatch, drawn, tmp_path):
    monkeypatch.chdir(tmp_path)
    private = LEARNING | {"records": "raw", "batch": "mini-batch", "epsilon": 1.0}
    stacks = {
        "records": ([PUBLISHED, LEARNING], {"published.epsilon": [1.0, 10.0]}),
        "gradients": ([private], {"learning.epsilon": [1.0, 10.0]}),
        "plain": ([LEARNING | {"records": "raw"}], {}),
    }
    for name, (layers, swept) in stacks.items():
        tree = learning_tree(PEERS, *layers, data=DATA, cycles=2, sweep=swept)
        single.run(Scenario.of(tree, HERE), tmp_path / name)
    words = ["--kind", "lines", "--x", "epsilon", "--by", "results", "--metric", "accuracy"]
    code, _, err = command(capsys, monkeypatch, "plot", *stacks, *words)
    assert code == 0, err
    lines = {line.get_label(): list(line.get_xdata()) for line in drawn[0].lines if line.get_label() in stacks}
    assert len(lines["records"]) == len(lines["gradients"]) == 2
    assert lines["plain"] == [0, 1], "a horizontal line"
