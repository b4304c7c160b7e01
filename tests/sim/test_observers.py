"""What is measured."""

from itertools import pairwise

import naive
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, learning_tree, make_world, p_of_chi_square, simulation, tree
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from golfsim.core.errors import UserError
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.learner import Learner, classify
from golfsim.scenario.tables import ObserveConfig
from golfsim.sim.metrics import auc, confusion, f1, roc, summary
from golfsim.sim.observers import CHUNK, Due, Observer, TestSet, predict

CASES = st.tuples(st.integers(0, 10**6), st.sampled_from([2, 3, 5]), st.integers(5, 40), st.integers(1, 4))


def some_scores(case):
    """Scores with many ties, and labels: (scores[records, nodes, models], y, classes)."""
    seed, classes, records, nodes = case
    rng = np.random.default_rng(seed)
    models = 1 if classes == 2 else classes
    scores = rng.integers(-3, 4, (records, nodes, models)).astype(np.float32)
    return scores, rng.integers(0, classes, records).astype(np.int32), classes


@given(CASES)
def test_classes_are_the_sign_or_the_highest_score(case):
    scores, _, _ = some_scores(case)
    ref = [[naive.predict(models[:, None], [1.0]) for models in nodes] for nodes in scores.astype(float)]
    assert classify(scores).tolist() == ref


@given(CASES)
def test_auc_is_that_of_the_pairs_and_of_scikit_learn(case):
    scores, y, classes = some_scores(case)
    problems = [(0, y == 1)] if classes == 2 else [(m, y == m) for m in range(classes)]
    problems = [(m, positive) for m, positive in problems if 0 < positive.sum() < len(y)]
    for node, area in enumerate(auc(scores, y)):
        if not problems:
            assert np.isnan(area)
            continue
        ref = [naive.auc(scores[:, node, m].tolist(), positive.astype(int)) for m, positive in problems]
        sklearn = [metrics.roc_auc_score(positive, scores[:, node, m]) for m, positive in problems]
        assert area == pytest.approx(np.mean(ref))
        assert area == pytest.approx(np.mean(sklearn))


@given(CASES)
def test_f1_is_that_of_scikit_learn_when_all_classes_occur(case):
    scores, y, classes = some_scores(case)
    y[:classes] = np.arange(classes)
    predicted = classify(scores)
    for node, score in enumerate(f1(predicted, y, classes)):
        how = {"average": "binary"} if classes == 2 else {"average": "macro"}
        assert score == pytest.approx(metrics.f1_score(y, predicted[:, node], zero_division=0, **how))
        assert score == pytest.approx(naive.f1(predicted[:, node], y, classes))


def test_f1_takes_the_mean_over_classes_that_occur_or_are_predicted():
    y, predicted = np.array([0, 0, 1, 1], np.int32), np.array([[0], [0], [1], [1]], np.int32)
    expected = naive.f1(predicted[:, 0], y, classes=3)
    assert expected == metrics.f1_score(y, predicted[:, 0], average="macro") == 1
    assert f1(predicted, y, 3)[0] == expected


def test_f1_without_positives_is_zero():
    assert f1(np.zeros((3, 2), np.int32), np.zeros(3, np.int32), 2).tolist() == [0, 0]


@given(CASES)
def test_the_confusion_matrix_is_that_of_scikit_learn(case):
    scores, y, classes = some_scores(case)
    for predicted in classify(scores).T:
        found = confusion(predicted, y, classes)
        ref = metrics.confusion_matrix(y, predicted, labels=range(classes))
        assert len(found) == classes**2
        for (actual, guess), count in np.ndenumerate(ref):
            assert found[f"confusion.actual_{actual}.predicted_{guess}"] == count


def test_each_of_several_classes_has_an_roc_curve_against_all_others(rng):
    scores, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    found = roc(scores, y)
    for number in range(3):
        own = roc(scores[:, number : number + 1], (y == number).astype(int))
        assert len(own) == 21
        assert {f"roc.class_{number}.{name.removeprefix('roc.')}": value for name, value in own.items()}.items() <= (
            found.items()
        )
    assert len(roc(scores, np.where(y == 2, 1, y))) == 2 * 21  # no test record has the class 2


@given(CASES)
def test_the_roc_curve_is_that_of_scikit_learn(case):
    scores, y, _ = some_scores(case)
    y = y % 2
    found = roc(scores[:, 0, :1], y)
    if y.min() == y.max():
        assert found == {}
        return
    false, true, _ = metrics.roc_curve(y, scores[:, 0, 0], drop_intermediate=False)
    assert len(found) == 21
    for percent in range(0, 101, 5):
        last = int(np.flatnonzero(false <= percent / 100 + 1e-12).max())
        value = true[last]
        if last + 1 < len(false):
            value += (true[last + 1] - value) * (percent / 100 - false[last]) / (false[last + 1] - false[last])
        assert found[f"roc.at_{percent / 100:.2f}"] == pytest.approx(value, abs=1e-9)


def test_a_summary_has_mean_spread_and_quantiles(rng):
    values = rng.normal(size=101)
    found = summary("error", values)
    assert found["error.mean"] == pytest.approx(sum(values) / 101)
    assert found["error.std"] == pytest.approx(np.sqrt(sum((values - values.mean()) ** 2) / 101))
    ordered = np.sort(values)
    for percent in (5, 25, 50, 75, 95):
        assert found[f"error.q{percent:02}"] == ordered[percent]
    assert len(found) == 7


class Fixed(Learner[LayerConfig]):
    """Models that the test gives; node i votes for class i modulo 2."""

    def __init__(self, w):
        super().__init__("learning", LayerConfig(name="learning", use="test"), 1)
        self.w = w

    def scores(self, nodes, x):
        return np.einsum("rf,nmf->rnm", x, self.w[nodes])

    def ages(self, nodes):
        return nodes + 100

    def others(self, nodes, x):
        return {"voted": np.tile(nodes % 2, (len(x), 1)).astype(np.int32)}


def measured(rng, classes, metric_names=("auc", "f1"), nodes="all", online=None, records=50, threads=1, node=None):
    models = 1 if classes == 2 else classes
    world = at_cycle(make_world(12, layers=["learning"], threads=threads), 5, online)
    layer = Fixed(rng.normal(size=(12, models, 3)).astype(np.float32))
    test = TestSet(
        rng.normal(size=(records, 3)).astype(np.float32), rng.integers(0, classes, records).astype(np.int32), classes
    )
    config = ObserveConfig(every=1, nodes=nodes, metrics=metric_names, node=node)
    found = Observer(config, 1, 10, test).measure(world, {"learning": layer})
    return found, layer, test


@pytest.mark.parametrize("classes", [2, 3])
def test_the_error_is_the_share_of_wrong_predictions_of_the_nodes_online(rng, classes):
    online = np.arange(12) % 3 > 0
    found, layer, test = measured(rng, classes, online=online)
    errors = [naive.error(layer.w[i], test.x, test.y) for i in np.flatnonzero(online)]
    learning = found["learning"]
    assert learning["error.mean"] == pytest.approx(np.mean(errors))
    assert learning["error.std"] == pytest.approx(np.std(errors))
    assert learning["error.q50"] == pytest.approx(np.median(errors))
    assert learning["accuracy.mean"] == pytest.approx(1 - np.mean(errors))
    assert learning["age.mean"] == pytest.approx(100 + np.flatnonzero(online).mean())
    wrong_votes = [np.mean(test.y != i % 2) for i in np.flatnonzero(online)]
    assert learning["voted_error.mean"] == pytest.approx(np.mean(wrong_votes))
    scores = layer.scores(np.flatnonzero(online), test.x)
    assert learning["auc.mean"] == pytest.approx(auc(scores, test.y).mean())
    assert learning["f1.mean"] == pytest.approx(f1(classify(scores), test.y, classes).mean())
    assert found["world"] == {"online": 8.0}
    assert learning["messages.sent"] == 0


def test_auc_and_f1_are_measured_on_request_only(rng):
    found, _, _ = measured(rng, 2, metric_names=())
    assert not any(name.startswith(("auc", "f1")) for name in found["learning"])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_chosen_node_is_measured_whether_it_was_drawn_or_not(rng, classes):
    label = make_world(12, layers=["learning"]).label
    for node in range(12):
        found, layer, test = measured(rng, classes, ("confusion", "roc"), nodes=2, node=node)
        scores = layer.scores(np.flatnonzero(label == node), test.x)[:, 0]
        expected = confusion(classify(scores), test.y, classes) | roc(scores, test.y)
        assert len([name for name in expected if name.startswith("roc")]) == 21 * (1 if classes == 2 else 3)
        one = {name: value for name, value in found["learning"].items() if name.startswith(("confusion", "roc"))}
        assert one == expected


def test_without_a_choice_the_first_node_measured_is_shown(rng):
    found, layer, test = measured(rng, 2, ("confusion",))
    shown = {name: value for name, value in found["learning"].items() if name.startswith("confusion")}
    assert shown == confusion(classify(layer.scores(np.array([0]), test.x))[:, 0], test.y, 2)


def test_a_chosen_node_that_is_not_there_is_not_shown_and_one_that_cannot_be_is_refused(rng):
    gone = int(make_world(12, layers=["learning"]).label[4])
    found, _, _ = measured(rng, 2, ("confusion", "roc"), node=gone, online=np.arange(12) != 4)
    assert not any(name.startswith(("confusion", "roc")) for name in found["learning"])
    with pytest.raises(UserError, match="there is no node 12"):
        measured(rng, 2, ("roc",), node=12)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_predictions_come_in_chunks_and_keep_the_order_of_the_records(rng, threads):
    layer = Fixed(rng.normal(size=(6, 1, 3)).astype(np.float32))
    x = rng.normal(size=(2 * CHUNK + 7, 3)).astype(np.float32)
    nodes = np.array([4, 1], np.int32)
    scores, others = predict(layer, nodes, x, threads)
    assert scores == pytest.approx(layer.scores(nodes, x), abs=1e-5)
    assert others["voted"].shape == (2 * CHUNK + 7, 2)


@pytest.mark.parametrize("cycles", [1, 2, 9, 100, 1000, 12345])
def test_log_spaced_cycles_are_evenly_spaced_on_a_logarithmic_axis(cycles):
    due = [cycle for cycle in range(1, cycles + 1) if cycle in Due("log", cycles)]
    assert due[0] == 1
    assert due[-1] == cycles
    late = np.array([cycle for cycle in due[:-1] if cycle > 50])
    assert np.allclose(np.diff(np.log10(late)), 1 / 20, atol=0.02)
    assert set(range(1, min(cycles, 8))) <= set(due)


@given(st.integers(1, 60), st.integers(1, 200))
def test_every_kth_cycle_and_the_last_are_due(every, cycles):
    due = {cycle for cycle in range(1, cycles + 1) if cycle in Due(every, cycles)}
    assert due == {c for c in range(1, cycles + 1) if c % every == 0 or c == cycles}


LEARNER = Learner("learning", LayerConfig(name="learning", use="none"), seed=1)


def samples(cycles, online=None, nodes=3, of=8):
    world = make_world(of)
    observer = Observer(ObserveConfig(every=1, nodes=nodes), 1, 10, None)
    return [observer._sample(at_cycle(world, cycle, online), LEARNER).tolist() for cycle in range(1, cycles + 1)]


def test_the_sampled_nodes_are_drawn_afresh_each_cycle_and_uniformly_among_those_online():
    online = np.arange(8) != 5
    drawn = samples(3500, online)
    assert all(len(set(nodes)) == 3 and 5 not in nodes for nodes in drawn)
    triples = [tuple(nodes) for nodes in drawn]
    counts = [triples.count(triple) for triple in set(triples)]
    assert len(counts) == 35
    assert p_of_chi_square(counts) > ALPHA
    repeats = sum(one == two for one, two in pairwise(drawn))
    assert repeats < 3500 / 35 + 3.3 * 10  # √100 = 10


def test_all_nodes_or_too_many_means_all_that_are_online():
    online = np.arange(8) % 2 == 0
    assert samples(1, online, nodes="all") == samples(1, online, nodes=99) == [[0, 2, 4, 6]]


STACK = (
    {"name": "peers", "use": "newscast", "view": 5},
    {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "cache": 3},
)


def test_an_observer_changes_no_state():
    run = simulation(learning_tree(*STACK, churn={"kind": "rate", "leave": 0.2, "rejoin": 0.4}))
    for _ in range(4):
        run.step()
    before = {name: array.copy() for name, array in run.state().items()}
    first = run.observer.measure(run.world, run.layers)
    assert run.observer.measure(run.world, run.layers) == first
    after = run.state()
    assert before.keys() == after.keys()
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_rare_measurements_have_the_same_values():
    often, seldom = (
        simulation(learning_tree(*STACK, cycles=9, observe={"every": every, "nodes": 5, "metrics": ["auc", "f1"]}))
        for every in (1, 4)
    )
    for run in (often, seldom):
        for _ in run:
            pass
    frames = [run.log.frame() for run in (often, seldom)]
    assert sorted(frames[1].cycle.unique()) == [4, 8, 9]
    kept = frames[0][frames[0].cycle.isin([4, 8, 9])].reset_index(drop=True)
    assert kept[["cycle", "value"]].equals(frames[1][["cycle", "value"]])
    assert (kept.metric.astype(str) == frames[1].metric.astype(str)).all()


def test_nobody_is_observed_while_nobody_is_online():
    run = simulation(tree({"name": "peers", "use": "uniform"}, churn={"kind": "crash", "at": 3, "share": 1.0}))
    for _ in run:
        pass
    assert run.world.cycle == 6
    assert set(run.log.cycles) == {1, 2}


def test_a_run_stops_after_the_cycle_that_fulfils_its_condition():
    averaging = {"name": "averaging", "use": "user_protocols/averaging.py:Averaging", "peers": "peers"}
    run = simulation(
        tree({"name": "peers", "use": "uniform"}, averaging, cycles=50, stop={"when": "averaging.variance < 0.001"})
    )
    cycles = list(run)
    frame = run.log.frame()
    variance = frame[frame.metric == "variance"].set_index("cycle").value
    assert len(cycles) < 50
    assert variance[cycles[-1]] < 0.001 <= variance[cycles[-2]]
    assert (frame[frame.cycle == cycles[-1]].layer == "world").any()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("classes", [2, 3])
def test_each_node_is_judged_on_its_own_records_if_it_has_some(rng, classes, threads):
    world = at_cycle(make_world(25, layers=["learning"], threads=threads), 5)
    layer = Fixed(rng.normal(size=(25, 1 if classes == 2 else classes, 3)).astype(np.float32))
    x, y = rng.normal(size=(200, 3)).astype(np.float32), rng.integers(0, classes, 200).astype(np.int32)
    node = rng.integers(0, 23, 200).astype(np.int32)  # the last two nodes have none
    found = Observer(ObserveConfig(every=1, nodes="all", test="own"), 1, 10, TestSet(x, y, classes, node))
    learning = found.measure(world, {"learning": layer})["learning"]
    errors = [naive.error(layer.w[i], x[node == i], y[node == i]) for i in range(25) if (node == i).any()]
    assert learning["measured"] == len(errors) <= 23
    assert learning["error.mean"] == pytest.approx(np.mean(errors))
    assert learning["error.worst_tenth"] == pytest.approx(np.mean(sorted(errors)[-3:]))
    assert learning["accuracy.worst_tenth"] == pytest.approx(1 - np.mean(sorted(errors)[-3:]))
    votes = [np.mean(y[node == i] != i % 2) for i in range(25) if (node == i).any()]
    assert learning["voted_error.mean"] == pytest.approx(np.mean(votes))


SPLITS = [
    {"kind": "iid"},
    {"kind": "label-skew", "alpha": 0.1},
    {"kind": "classes-per-node", "classes": 1},
    {"kind": "feature-skew", "groups": 2, "shift": 5.0},
]


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split["kind"])
def test_own_test_records_are_distributed_as_the_training_records(split):
    layers = {"name": "peers", "use": "uniform"}, {"name": "g", "use": "golf", "peers": "peers", "records": "raw"}
    nodes = {"number": 20, "records": 4, "split": split}
    run = simulation(learning_tree(*layers, nodes=nodes, observe={"every": 1, "nodes": "all", "test": "own"}))
    test, rows = run.observer._test, run.raw.rows
    assert test.node.size == len(test.y) == 30
    for node in np.unique(test.node):
        mine = slice(rows.first[node], rows.stop[node])
        tested = np.bincount(test.y[test.of(node)], minlength=2)
        assert (tested <= np.bincount(rows.label[mine], minlength=2)).all() or split["kind"] == "feature-skew"
        if split["kind"] == "feature-skew":  # groups lie far apart
            assert np.abs(test.x[test.of(node)] - rows.x[mine].mean(axis=0)).max() < 2
    run.step()
    assert {"error.worst_tenth", "accuracy.worst_tenth"} <= run.latest["g"].keys()


def test_own_test_records_are_those_of_the_column_that_records_are_placed_by():
    from golfsim.data.placement import NodesConfig, Placement, deciding, place_tests

    config = NodesConfig(number=3, split={"kind": "by", "column": "who"})
    train, test = np.array(["a", "b", "b", "c"]), np.array(["c", "b", "b", "b", "z", "a"])
    known = tuple(deciding(config, np.zeros(len(who), np.int32), {"who": who}, 2) for who in (train, test))
    placement = Placement(np.array([1, 0, 3, 2]), np.array([1, 2, 1]), np.zeros(3, np.int64))
    node = place_tests(placement, known, 1)
    assert node[[0, 4, 5]].tolist() == [1, -1, 1]
    assert set(node[1:4]) == {0, 2}


def test_what_needs_all_test_records_is_refused_with_own_ones():
    with pytest.raises(ValueError, match="needs test"):
        ObserveConfig(test="own", metrics=("auc",))
