"""Paired differences, errors over nodes, spent ε and times to a target."""

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest

from golfsim.comparing import compare
from golfsim.core.errors import UserError
from golfsim.report import distributions


@pytest.fixture(autouse=True)
def _closed():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


def log(values):
    """Rows from (case, seed, cycle, accuracy)."""
    rows = pd.DataFrame(values, columns=["case", "seed", "cycle", "value"])
    return rows.assign(run=rows["seed"], layer="learning", metric="accuracy.mean")


GAIN = {1: 0.1, 2: 0.2, 3: 0.15, 4: -0.05}
TWO = log(
    [(c, s, cycle, 0.5 + (GAIN[s] if c == "good" and cycle == 9 else 0)) for c in ("bad", "good") for s in GAIN
     for cycle in (1, 9)]
)  # fmt: skip


def test_every_seed_has_a_point_and_the_mean_and_interval_are_those_of_compare():
    ax = distributions.differences(TWO, "case")
    (points,) = (part for part in ax.collections if len(part.get_offsets()))
    assert sorted(points.get_offsets()[:, 0]) == pytest.approx(sorted(GAIN.values()))
    (test,) = compare(TWO, "case").pairs
    mean = next(line for line in ax.lines if line.get_marker() == "o" and len(line.get_xdata()) == 1)
    assert mean.get_xdata()[0] == pytest.approx(test.difference)
    bar = next(line.get_xdata() for line in ax.lines if len(line.get_xdata()) > 2)
    assert (min(bar), max(bar)) == pytest.approx((test.low, test.high))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["good\n− bad"]


def test_only_pairs_with_the_baseline_are_drawn_and_it_is_subtracted():
    three = pd.concat([TWO, TWO[TWO["case"] == "good"].assign(case="best", value=0.9)])
    found = distributions.paired(three, "case", baseline="good")
    assert sorted(set(zip(found["one"], found["other"], strict=True))) == [("bad", "good"), ("best", "good")]
    assert found[found["one"] == "bad"]["difference"].tolist() == pytest.approx([-GAIN[s] for s in GAIN])
    assert len(set(distributions.paired(three, "case")["pair"])) == 3
    with pytest.raises(UserError, match="no strategy “goo”"):
        distributions.paired(three, "case", baseline="goo")


def test_blocks_are_kept_apart_and_keys_are_short():
    blocks = pd.concat([TWO.assign(**{"p.epsilon": e}, value=TWO["value"] - 0.01 / e) for e in (1.0, 10.0)])
    found = distributions.paired(blocks, "case")
    assert list(dict.fromkeys(found["block"])) == ["ε = 1", "ε = 10"]
    texts = [text.get_text() for text in distributions.differences(blocks, "case").get_legend().get_texts()]
    assert texts == ["ε = 1", "ε = 10", "one seed", "95 % interval of the mean"]


def nodes():
    """Node i has the error i/10, in cycle 10 half of it; node 4 has no model in the first cycle."""
    rows = [
        (run, cycle, "learning", node, True, np.nan if (node, cycle) == (4, 1) else node / 10 / (1 + (cycle == 10)))
        for run in (1, 2) for cycle in (1, 3, 10) for node in range(5)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["run", "cycle", "layer", "node", "online", "error"])


def test_errors_of_all_followed_nodes_are_shown_at_the_chosen_cycles():
    found = distributions.node_errors(nodes(), (1, 10))
    assert found[found["cycle"] == 10]["error"].tolist() == pytest.approx([0, 0.05, 0.1, 0.15, 0.2] * 2)
    assert len(found[found["cycle"] == 1]) == 8
    ax = distributions.errors(nodes(), (1, 10))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "10"]
    medians = [line.get_ydata()[0] for line in ax.lines[1::3]]
    assert medians == pytest.approx([0.15, 0.1])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["all followed nodes, with quartiles"]
    with pytest.raises(UserError, match="cycle 7 was not measured"):
        distributions.errors(nodes(), (7,))
    with pytest.raises(UserError, match="no layer “learnin”"):
        distributions.errors(nodes(), layer="learnin")


def test_from_a_log_errors_are_quantiles_and_the_figure_states_it():
    parts = {"mean": 0.5, "q05": 0.1, "q25": 0.3, "q50": 0.5, "q75": 0.6, "q95": 0.9}
    rows = [
        {"run": run, "cycle": cycle, "layer": "learning", "metric": f"error.{part}", "value": value / cycle}
        for run in (1, 2) for cycle in (1, 2) for part, value in parts.items()
    ]  # fmt: skip
    ax = distributions.errors(pd.DataFrame(rows))
    assert "quartiles and 5–95 % of the measured nodes" in [text.get_text() for text in ax.get_legend().get_texts()]
    heights = sorted(float(line.get_ydata()[0]) for line in ax.lines if len(set(line.get_ydata())) == 1)
    assert heights == pytest.approx([0.05, 0.1, 0.25, 0.45, 0.5, 0.9])  # medians and the ends of whiskers
    with pytest.raises(UserError, match="no quantiles"):
        distributions.errors(pd.DataFrame(rows[:1]))


def test_log_spaced_cycles_are_chosen_among_those_measured():
    rows = pd.DataFrame({"cycle": [1, 2, 5, 10, 20, 50, 100, 1000]})
    assert distributions.chosen(rows, None, 4) == [1, 10, 100, 1000]
    assert distributions.chosen(rows[:1], None) == [1]


def test_spent_epsilon_is_weighted_by_the_number_of_records():
    table = pd.DataFrame(
        {
            "run": 1,
            "cycle": 9,
            "layer": ["a", "a", "b"],
            "by_node": False,
            "spent": [0.0, 2.0, np.inf],
            "count": [3, 1, 4],
        }
    )
    ax = distributions.spent_by_record(table)
    (line,) = ax.lines
    at = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert at[0.0] == pytest.approx(0.75)
    assert at[2.0] == pytest.approx(1)
    assert ax.get_ylabel() == "cumulative share of records"
    assert distributions.spent_by_record(table.assign(by_node=True)).get_ylabel() == "cumulative share of nodes"
    with pytest.raises(UserError, match="finite ε"):
        distributions.spent_by_record(table[2:])


def test_runs_that_never_reach_the_target_count():
    runs = ({1: 0.5, 9: 0.8}, {1: 0.8, 9: 0.7}, {1: 0.5, 9: 0.6})
    rows = log([("one", seed, cycle, value) for seed, curve in enumerate(runs) for cycle, value in curve.items()])
    found = distributions.reached(rows, 0.75)
    assert found["cycle"].tolist()[:2] == [9, 1]
    assert np.isnan(found["cycle"].iloc[2])
    ax = distributions.reaching(rows, 0.75)
    (line,) = ax.lines
    inside = [share for at, share in zip(line.get_xdata(), line.get_ydata(), strict=True) if 0 < at <= ax.get_xlim()[1]]
    assert inside == pytest.approx([1 / 3, 2 / 3])
    assert line.get_label() == "learning (2 of 3)"
    assert ax.get_ylabel() == "share of runs with\naccuracy ≥ 0.75"


def test_the_time_of_followed_nodes_is_that_of_their_own_errors():
    found = distributions.reached(nodes(), 0.1, "error")
    assert found[found["run"] == 1].set_index("node")["cycle"].reindex(range(4)).tolist()[:3] == [1, 1, 10]
    assert np.isnan(found[found["node"] == 3]["cycle"]).all()
    assert "followed nodes" in distributions.reaching(nodes(), 0.1, "error").get_ylabel()
    with pytest.raises(UserError, match="have no “auc”"):
        distributions.reaching(nodes(), 0.1, "auc")
