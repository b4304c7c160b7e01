"""The metric and the layer of `[plot]` are checked before anything runs."""

import pytest
from helpers import HERE, learning_tree, tree

from golfsim.core.errors import UserError
from golfsim.scenario.model import Scenario
from golfsim.sim import plot_check

PEERS = {"name": "peers", "use": "newscast", "view": 4}
LEARNING = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
OWN = {"name": "mine", "use": "user_protocols/averaging.py:Averaging", "peers": "peers"}


def check(made, **plot):
    plot_check.check(Scenario.of(made | {"plot": plot}, HERE))


@pytest.mark.parametrize("metric", ["error", "error.mean", "error.q95", "messages.sent", "online", "voted_error"])
def test_a_metric_that_a_layer_has_is_accepted_with_or_without_mean(metric):
    check(learning_tree(PEERS, LEARNING), metric=metric)


def test_a_metric_that_no_layer_has_is_refused_with_the_list():
    with pytest.raises(UserError, match="no layer has the metric “eror”") as caught:
        check(learning_tree(PEERS, LEARNING), metric="eror")
    assert caught.value.key == "plot.metric"
    assert caught.value.hint.startswith("did you mean “error”? valid: accuracy, age, bytes.sent, error, ")


@pytest.mark.parametrize(
    ("metric", "observe"),
    [
        ("auc", {"metrics": ["auc"]}),
        ("links.dead", {"overlay": 1}),
        ("indegree", {"overlay": 1}),
        ("membership.advantage", {"attacks": ["membership"]}),
    ],
)
def test_a_metric_that_observe_does_not_ask_for_is_refused(metric, observe):
    check(learning_tree(PEERS, LEARNING, observe=observe), metric=metric)
    with pytest.raises(UserError, match=f"no layer has the metric “{metric}”"):
        check(learning_tree(PEERS, LEARNING, observe={"every": 1}), metric=metric)


def test_a_layer_has_only_its_own_metrics():
    check(learning_tree(PEERS, LEARNING), metric="error", layer="learning")
    with pytest.raises(UserError, match="“peers” does not have the metric “error”"):
        check(learning_tree(PEERS, LEARNING), metric="error", layer="peers")
    with pytest.raises(UserError, match="there is no layer “learnin”") as caught:
        check(learning_tree(PEERS, LEARNING), layer="learnin")
    assert (caught.value.key, caught.value.hint) == ("plot.layer", "did you mean “learning”?")


def test_a_metric_of_the_authors_own_is_known_if_it_is_declared():
    check(tree(PEERS, OWN), metric="variance.mean")
    with pytest.raises(UserError, match="“varianze”"):
        check(tree(PEERS, OWN), metric="varianze")


def test_a_layer_that_declares_nothing_may_have_any_metric(tmp_path):
    text = (HERE / "user_protocols/averaging.py").read_text(encoding="utf-8")
    silent = text.replace("    metrics = (Metric(", "    other = (Metric(")
    (tmp_path / "silent.py").write_text(silent, encoding="utf-8")
    made = tree(PEERS, OWN | {"use": "silent.py:Averaging"}, plot={"metric": "weight"})
    plot_check.check(Scenario.of(made, tmp_path))


def test_a_metric_of_one_point_of_a_sweep_suffices():
    made = learning_tree(PEERS, LEARNING, sweep={"observe.metrics": [[], ["auc"]]})
    check(made, metric="auc")
    with pytest.raises(UserError, match="“f1”"):
        check(made, metric="f1")


def test_several_metrics_are_all_checked():
    made = learning_tree(PEERS, LEARNING, sweep={"learning.lambda": [0.1, 0.01]})
    lines = {"kind": "lines", "x": "learning.lambda", "lines": "metric"}
    check(made, metric=["error", "voted_error"], **lines)
    with pytest.raises(UserError, match="“voted_eror”"):
        check(made, metric=["error", "voted_eror"], **lines)


@pytest.mark.parametrize("reference", [20, 5.0, "loose"])
def test_a_reference_is_a_value_of_the_axis_or_of_the_lines(reference):
    made = tree(PEERS) | {"sweep": {"peers.view": [5, 20]}, "case": [{"label": "loose"}, {"label": "tight"}]}
    check(made, kind="lines", x="peers.view", lines="case", metric="messages.sent", reference=reference)


@pytest.mark.parametrize("reference", [6, "lose", float("inf")])
def test_a_reference_that_does_not_occur_is_refused_with_the_values(reference):
    made = tree(PEERS) | {"sweep": {"peers.view": [5, 20]}, "case": [{"label": "loose"}, {"label": "tight"}]}
    with pytest.raises(UserError, match=r"neither a value of “peers\.view” nor of “case”") as caught:
        check(made, kind="lines", x="peers.view", lines="case", reference=reference)
    assert (caught.value.key, caught.value.hint) == ("plot.reference", "expected one of: 5, 20, loose, tight")


def test_only_lines_have_a_reference():
    with pytest.raises(UserError, match="reference: only for kind = “lines”"):
        check(tree(PEERS), kind="convergence", reference=1)
