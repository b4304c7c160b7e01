"""Symbols: sampled coordinates through a private channel, against the references and against dense vectors."""

import itertools
import math

import naive
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, finished, make_layer, make_raw, make_world, needs_jit, rule_of, simulation, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from golfsim.core import threads
from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.simd import dot as dense_dot
from golfsim.learning import optimum
from golfsim.learning.linear import mean_square
from golfsim.learning.optimum import OBJECTIVES
from golfsim.learning.updates import move, nudge, update
from golfsim.privacy.mechanisms import PQ, RandomResponse, Subset, total_variance
from golfsim.privacy.strings import write_subset
from golfsim.protocol.records import About, RawRecords, Rows
from golfsim.protocol.symbols import Symbols, add, dot, number, symbols_of, vectors_of
from golfsim.scenario.messages import ScenarioError
from protocols.data_perturbation import DataPerturbation
from protocols.data_perturbation.sampled import MOST_SAMPLES, Problem, chosen, report, sampled
from protocols.golf.receiving import Models, join

PEERS = {"name": "peers", "use": "uniform"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 6.0, "mode": "sampled"}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
TWO = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
SEVEN = {"set": "segmentation", "train": 120, "test": 40, "scale": ["minmax", "l1"], "bounds": "train"}
CHANNELS = ["response", "unary", "subset"]
SEEDS = st.integers(0, 10**6)


def raw_of(x, labels, classes, span=(0.0, 1.0), counts=None):
    """Records of nodes with one record each, or with so many."""
    counts = np.ones(len(x), np.int64) if counts is None else np.array(counts)
    about = About(span=span)
    return RawRecords(np.asarray(x, np.float32), np.asarray(labels, np.int32), counts, classes, about=about)


def publish(raw, workers=1, **keys):
    """A layer that has published everything."""
    world = make_world(raw.capacity().size, threads=workers)
    layer = make_layer(DataPerturbation, world, records=raw, **({"mode": "sampled"} | keys))
    layer.step(at_cycle(world, 1))
    return layer


def reports_of(layer):
    """[records][samples] sets of symbols."""
    x = layer.rows.x
    found, ends = symbols_of(x, np.arange(len(x.reports)))
    sets = [set(part.tolist()) for part in np.split(found, ends[:-1])]
    return [sets[start : start + x.samples] for start in range(0, len(sets), x.samples)]


def short_records(rng, n, d, signed):
    """Records of L1 length at most 1, one of them of zeros."""
    x = rng.random((n, d)) * (rng.choice([-1, 1], (n, d)) if signed else 1)
    x *= rng.uniform(0.3, 1, (n, 1)) / np.abs(x).sum(axis=1, keepdims=True)
    x[0] = 0
    return x.astype(np.float32)


# Mechanisms


@pytest.mark.parametrize(("values", "size"), [(4, 1), (4, 2), (5, 2), (5, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_subset_selection_has_exactly_the_probabilities_of_its_definition(values, size, epsilon):
    one = Subset(epsilon=epsilon, values=values, size=size)
    expected, subsets = naive.subset_probabilities(values, size, epsilon)
    inside = one.p / math.comb(values - 1, size - 1)
    outside = (1 - one.p) / math.comb(values - 1, size)
    ours = np.array([[inside if truth in s else outside for s in subsets] for truth in range(values)])
    assert ours == pytest.approx(expected)
    assert naive.worst_ratio(expected) == pytest.approx(epsilon)
    assert one.q == pytest.approx(sum(expected[0][k] for k, s in enumerate(subsets) if 1 in s))
    assert Subset.epsilon_of(one.p, values, size) == pytest.approx(epsilon)
    if size == 1:
        response = RandomResponse(epsilon=epsilon, values=values)
        assert (one.p, one.q) == pytest.approx((response.p, response.q))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
def test_the_total_variance_is_that_of_all_answers(epsilon):
    values = 5
    subset = Subset.best(epsilon, values)
    probability, subsets = naive.subset_probabilities(values, subset.size, epsilon)
    pq = PQ.best(epsilon, values)
    answers = [{b for b in range(values) if a >> b & 1} for a in range(2**values)]
    for one, rows, sets in (
        (subset, probability, subsets), (pq, naive.bit_probabilities(values, pq.p, pq.q), answers)
    ):  # fmt: skip
        truth = np.eye(values)[2]
        estimates = np.array([[(b in s) - one.q for b in range(values)] for s in sets]) / (one.p - one.q)
        assert rows[2] @ estimates == pytest.approx(truth)
        exact = rows[2] @ np.square(estimates - truth).sum(axis=1)
        assert total_variance(one.p, one.q, values) == pytest.approx(exact)
    assert pq.rms_error(values, 1) == pytest.approx(math.sqrt(total_variance(pq.p, pq.q, values)))


@given(st.floats(0.01, 12), st.integers(2, 400))
def test_the_best_subset_has_less_variance_than_every_other_size_and_channel(epsilon, values):
    def variance(one):
        return total_variance(one.p, one.q, values)

    best = variance(Subset.best(epsilon, values))
    sizes = range(1, values)
    assert best <= min(variance(Subset(epsilon=epsilon, values=values, size=k)) for k in sizes) * (1 + 1e-9)
    assert best <= variance(RandomResponse(epsilon=epsilon, values=values)) * (1 + 1e-9)


def test_without_noise_every_channel_names_the_symbol_itself():
    for kind in CHANNELS:
        found = report(kind, math.inf, 30)
        assert (found.p, found.q) == (1, 0)
        assert found.size == (0 if kind == "unary" else 1)


@needs_jit
@pytest.mark.parametrize("size", [1, 2, 3])
def test_subsets_are_drawn_with_their_probabilities_in_both_forms(size):
    values, truth, n = 5, 3, 20_000
    probability, subsets = naive.subset_probabilities(values, size, 1.0)
    p = Subset(epsilon=1.0, values=values, size=size).p
    numbers, bits = np.full((n, size), -1, np.int32), np.zeros((n, 1), np.uint64)
    for place in range(n):
        for out in (numbers, bits):
            write_subset(np.uint64(7), 0, place, 0, truth, values, p, size, out, place, 0)
    assert (np.diff(numbers, axis=1) > 0).all()
    assert (np.sum(np.uint64(1) << numbers.astype(np.uint64), axis=1, dtype=np.uint64) == bits[:, 0]).all()
    rows = [subsets.index(tuple(row)) for row in numbers.tolist()]
    assert stats.chisquare(np.bincount(rows, minlength=len(subsets)), probability[truth] * n).pvalue > ALPHA


# What is published


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("unit", ["record", "node"])
def test_what_is_published_is_that_of_the_reference(rng, classes, signed, channel, unit):
    d, counts = 7, [2, 0, 1, 3]
    x, labels = short_records(rng, 6, d, signed), rng.integers(0, classes, 6)
    raw = raw_of(x, labels, classes, (-1.0, 1.0) if signed else (0.0, 1.0), counts)
    layer = publish(raw, epsilon=4.0, unit=unit, channel=channel, samples=2)
    values, key = classes * d * (2 if signed else 1), naive.key(1, "layer", "noise")
    owner_has = np.repeat(counts, counts) if unit == "node" else np.ones(6)
    reports = reports_of(layer)
    vectors = vectors_of(layer.rows.x, layer.models, np.arange(6))
    features, decoded = layer.decoded(np.arange(6))
    for record in range(6):
        p, q, size = report(channel, 4.0 / 2 / owner_has[record], values)
        for sample in range(2):
            f, negative = naive.coordinate(key, record, sample, x[record], signed)
            symbol = naive.symbol_of(labels[record], f, negative, d, signed)
            if channel == "unary":
                bits = naive.bitwise_string(key, 0, record, sample, symbol, values, p, q)
                expected = {b for b, bit in enumerate(bits) if bit}
            else:
                expected = naive.chosen_subset(key, record, sample, symbol, values, p, size)
            assert reports[record][sample] == expected
        blocks = naive.symbol_estimate(reports[record], p, q, classes, d, signed)
        assert vectors[record] == pytest.approx(naive.against_others(blocks), rel=1e-5, abs=1e-4)
        assert features[record] == pytest.approx(blocks.sum(axis=0), rel=1e-5, abs=1e-4)
        named = [
            sum(s // (d * (2 if signed else 1)) == y for s in itertools.chain(*reports[record])) for y in range(classes)
        ]
        assert decoded[record] == (named[1] >= named[0] if classes == 2 else np.argmax(named))
    assert layer.released().sum() == sum(len(s) for both in reports for s in both)
    assert layer.released().size == 6 * 2 * values


@needs_jit
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("channel", CHANNELS)
def test_the_estimate_is_unbiased_and_has_the_stated_variance(channel, signed):
    n, d, classes, s, epsilon = 40_000, 4, 3, 2, 2.0
    x = np.array([0.5, -0.2 if signed else 0.2, 0.1, 0.0], np.float32)
    layer = publish(raw_of(np.tile(x, (n, 1)), np.ones(n), classes, (-1.0 if signed else 0.0, 1.0)),
                    epsilon=epsilon, channel=channel, samples=s)  # fmt: skip
    world, everybody = make_world(n), np.arange(n, dtype=np.int32)
    found = layer.values(world, everybody, False)
    blocks = found[:, 1 + 2 * classes :]
    completed = x + (0 if signed else 0.2 / d)
    truth = np.zeros((classes, d))
    truth[1] = completed
    # A mean of 40,000 is normal: 15 numbers within 4.5 of their standard errors, but once in 10,000 seeds.
    error = blocks.std(axis=0) / math.sqrt(n)
    assert (np.abs(blocks.mean(axis=0) - truth.ravel()) < 4.5 * error).all()
    labels = found[:, 1 : 1 + classes]
    assert (np.abs(labels.mean(axis=0) - [0, 1, 0]) < 4.5 * labels.std(axis=0) / math.sqrt(n)).all()
    values = classes * d * (2 if signed else 1)
    p, q, _ = report(channel, epsilon / s, values)
    if not signed:  # with signs T leaves out covariances
        expected = (1 - np.square(completed).sum() + total_variance(p, q, values)) / s
        squares = np.square(blocks - truth.ravel()).sum(axis=1)
        assert abs(squares.mean() - expected) < 4.5 * squares.std() / math.sqrt(n)
        problem = Problem((epsilon,), (1,), d, classes, signed)
        assert expected <= problem.error(channel, s)


def test_the_numbers_of_a_node_are_the_sums_over_its_records(rng):
    counts, classes, d = [2, 0, 3], 3, 4
    raw = raw_of(short_records(rng, 5, d, False), rng.integers(0, classes, 5), classes, counts=counts)
    layer = publish(raw, epsilon=3.0, channel="subset", samples=3)
    p, q, _ = report("subset", 1.0, classes * d)
    everybody = np.array([2, 0, 1], np.int32)
    found = layer.values(make_world(3), everybody, True)
    assert found.shape == (3, layer.value_width(True))
    upper = np.triu_indices(d)
    for row, node in enumerate(everybody):
        expected = np.zeros(found.shape[1])
        for record in range(sum(counts[:node]), sum(counts[: node + 1])):
            reports = reports_of(layer)[record]
            blocks = naive.symbol_estimate(reports, p, q, classes, d, False)
            own = [naive.symbol_estimate([one], p, q, classes, d, False).sum(axis=0) for one in reports]
            pairs = [np.outer(own[a], own[b]) for a in range(3) for b in range(3) if a != b]
            second = np.mean(pairs, axis=0)
            expected += np.concatenate(
                [[1], blocks.sum(axis=1), np.square(blocks).sum(axis=1), blocks.ravel(), second[upper]]
            )
        assert found[row] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    few = layer.values(make_world(3), everybody, False)
    assert (few == found[:, : few.shape[1]]).all()


@needs_jit
def test_second_moments_are_unbiased():
    n, x = 40_000, np.array([0.5, 0.3, 0.2], np.float32)
    layer = publish(raw_of(np.tile(x, (n, 1)), np.ones(n), 2), epsilon=4.0, samples=2)
    found = layer.values(make_world(n), np.arange(n, dtype=np.int32), True)[:, 1 + 4 + 6 :]
    expected = np.outer(x, x)[np.triu_indices(3)]
    assert (np.abs(found.mean(axis=0) - expected) < 4.5 * found.std(axis=0) / math.sqrt(n)).all()


def test_second_moments_need_two_samples(rng):
    layer = publish(raw_of(short_records(rng, 3, 2, False), [0, 1, 1], 2), epsilon=1.0, samples=1)
    with pytest.raises(UserError, match="two samples") as caught:
        layer.values(make_world(3), np.arange(3, dtype=np.int32), True)
    assert caught.value.key == "layer.samples"
    assert caught.value.hint == "use samples = 2"


# The choice of channel and samples


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 20.0, 100.0])
@pytest.mark.parametrize("signed", [False, True])
def test_auto_has_the_least_error_of_all_channels_and_numbers_of_samples(epsilon, signed):
    problem = Problem((epsilon,), (1,), 19, 7, signed)
    kind, samples = chosen(problem, "auto", "auto")
    least = min(problem.error(each, s) for each in CHANNELS for s in range(1, MOST_SAMPLES + 1))
    assert problem.error(kind, samples) == least
    assert 1 <= samples < MOST_SAMPLES
    for each in CHANNELS:
        alone = chosen(problem, each, "auto")
        assert alone[0] == each
        assert problem.error(*alone) == min(problem.error(each, s) for s in range(1, MOST_SAMPLES + 1))


def test_the_choice_weighs_the_epsilon_of_all_records_of_nodes():
    both = Problem((1.0, 40.0), (1, 3), 10, 2, False)
    parts = [Problem((1.0,), (1,), 10, 2, False), Problem((40.0,), (3,), 10, 2, False)]
    for s in (1, 4):
        assert both.error("subset", s) == pytest.approx(sum(part.error("subset", s) for part in parts))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0])
@pytest.mark.parametrize("channel", ["auto", "unary"])
def test_mnist_takes_much_less_than_a_gibibyte(epsilon, channel):
    raw = RawRecords.outline(60_000, 784, 10, 60_000, About(span=(0.0, 1.0)))
    world = make_world(60_000)
    settings = {"name": "layer", "use": "test", "mode": "sampled", "records": raw, "channel": channel}
    layer = DataPerturbation("layer", DataPerturbation.Config(epsilon=epsilon, **settings), 1)
    if channel == "unary":  # every sample is a string of 7840 bits
        layer = DataPerturbation("layer", DataPerturbation.Config(epsilon=epsilon, samples=4, **settings), 1)
    assert layer.memory(world) < 2**30 / 2


def test_the_memory_is_that_of_the_arrays(rng):
    raw = raw_of(short_records(rng, 50, 6, False), rng.integers(0, 3, 50), 3)
    for keys in ({"epsilon": 6.0}, {"epsilon": 0.5}, {"epsilon": 6.0, "channel": "unary", "samples": 2}):
        layer = publish(raw, **keys)
        x, channel = layer.rows.x, layer.sampled._channel
        arrays = [x.reports, x.low, x.gain, channel.p, channel.q, channel.size]
        stated = layer.memory(make_world(50))
        assert sum(array.nbytes for array in arrays) <= stated
        assert x.reports.nbytes + 100 * 50 >= stated


# Operations on symbols against dense vectors


class Case:
    """Symbols of a few records with all vectors as an array."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.classes, self.d, n = int(rng.integers(2, 5)), int(rng.integers(1, 40)), int(rng.integers(1, 5))
        signed = bool(rng.integers(2))
        keys = {"epsilon": float(rng.uniform(0.5, 12)), "samples": int(rng.integers(1, 4))}
        layer = sampled(
            shares=1 / rng.integers(1, 3, n), features=self.d, classes=self.classes, signed=signed,
            kind=str(rng.choice(CHANNELS)), **keys,
        )  # fmt: skip
        layer.allocate(np.uint64(seed))
        every = np.arange(n)
        self.label = rng.integers(0, self.classes, n).astype(np.int32)
        raw = Rows(short_records(rng, n, self.d, signed), self.label, every, every + 1, False)
        layer.publish(1, every, raw)
        self.models = 1 if self.classes == 2 else self.classes
        self.x = layer.x
        self.dense = vectors_of(self.x, self.models, every).reshape(-1, self.d)
        self.rows = Rows(self.x, self.label[:0], np.array([0]), np.array([n]), True)
        self.row = int(rng.integers(n * self.models))
        self.w = rng.normal(size=(self.models + 1, self.d)).astype(np.float32)
        self.close = {"rel": 1e-3, "abs": 1e-4 * (1 + float(np.abs(self.dense).max())) * self.d}


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_operations_on_symbols_are_those_on_dense_vectors(seed):
    case = Case(seed)
    x, dense, row, w, close = case.x, case.dense, case.row, case.w, case.close
    assert x.shape == dense.shape
    assert dot(w, 1, x, row) == pytest.approx(dot(w, 1, dense, row), **close)
    assert dot(w, 1, dense, row) == dense_dot(w, 1, dense, row)
    exact = w[1].astype(np.float64)
    assert [number(x, row, f) for f in range(case.d)] == pytest.approx(dense[row], **close)
    one, other = exact.copy(), exact.copy()
    add(one, 0.3, x, row)
    add(other, 0.3, dense, row)
    assert one == pytest.approx(other, **close)
    half, part, share = np.float32(0.5), np.float32(-0.7), np.float32(0.25)
    age, none = np.zeros(0, np.int32), np.zeros((0, 1), np.float32)
    found = []
    for vectors in (x, dense):
        moved, nudged, joined = w.copy(), w.copy(), w.copy()
        move(w, 1, half, part, vectors, row, moved, 0)
        nudge(nudged, 1, half, part, vectors, row)
        join_rows(w, vectors, row, Models(joined, age, none, age, none, age, age[:, None]), half, part, share)
        found.append(np.concatenate([moved, nudged, joined]))
    assert found[0] == pytest.approx(found[1], **close)


@kernel
def join_rows(w, x, row, models, decay, step, share):
    join(w, 1, x, row, models, 0, decay, step, share)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from(sorted(naive.LEARNERS)), st.booleans())
def test_updates_with_symbols_are_those_with_dense_vectors(seed, learner, one_by_one):
    case = Case(seed)
    rule = rule_of(learner, 10.0, one_by_one)
    found = []
    for vectors in (case.x, case.dense):
        out = np.empty((case.models, case.d), np.float32)
        age = update(case.w, 0, np.int32(3), case.rows._replace(x=vectors), 0, rule, out)
        found.append((age, out))
    assert found[0][0] == found[1][0]
    scale = case.close | {"abs": 10 * case.close["abs"]}
    if learner not in ("pegasos", "perceptron"):  # whose step jumps
        assert found[0][1] == pytest.approx(found[1][1], **scale)


@needs_jit
@pytest.mark.parametrize("learner", sorted(OBJECTIVES))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("channel", ["subset", "unary"])
def test_the_optimum_on_symbols_is_that_on_dense_vectors(rng, learner, classes, channel):
    n = 60
    layer = publish(
        raw_of(short_records(rng, n, 5, False), rng.integers(0, classes, n), classes),
        epsilon=8.0, channel=channel, samples=2,
    )  # fmt: skip
    dense = layer.rows._replace(x=vectors_of(layer.rows.x, layer.models, np.arange(n)).reshape(-1, 5))
    one, other = (optimum.fit(rows, layer.models, learner, 0.5) for rows in (layer.rows, dense))
    assert one == pytest.approx(other, rel=1e-2, abs=1e-3 * np.abs(other).max())
    assert mean_square(layer.rows, layer.models) == pytest.approx(mean_square(dense, layer.models), rel=1e-4)


@pytest.mark.parametrize("data", [TWO, SEVEN], ids=["two classes", "seven"])
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"variant": "um", "cache": 3},
        {"merge": "median", "cache": 3},
        {"lambda": "published-cv"},
        {"offset": "published", "learner": "logistic"},
        {"use": "random_walk", "average": "second-half"},
    ],
    ids=str,
)
def test_every_way_of_learning_takes_symbols(data, keys):
    run = finished(tree(PEERS, PUBLISHED, GOLF | keys, data=data, nodes={"records": 2}, cycles=4))
    assert np.isfinite(run.layer("learning").w).all()
    assert np.abs(run.layer("learning").w).max() > 0


def test_local_models_are_fitted_to_symbols():
    local = {"name": "local", "use": "regularised_erm", "lambda": 0.1, "records": "published"}
    run = finished(tree(PEERS, PUBLISHED, local, data=SEVEN, nodes={"records": 20}, cycles=2))
    assert np.isfinite(run.layer("local").w).all()


# Threads, attacks, what is refused


@pytest.mark.parametrize("channel", CHANNELS)
def test_any_number_of_threads_publishes_the_same(monkeypatch, rng, channel):
    monkeypatch.setattr(threads, "SMALLEST_SHARE", 4)
    raw = raw_of(short_records(rng, 40, 5, False), rng.integers(0, 3, 40), 3)
    one, three = (publish(raw, workers, epsilon=3.0, channel=channel) for workers in (1, 3))
    assert one.sampled.reports.tobytes() == three.sampled.reports.tobytes()
    world = make_world(40, threads=3)
    everybody = np.arange(40, dtype=np.int32)
    assert one.values(make_world(40), everybody, False).tobytes() == three.values(world, everybody, False).tobytes()


@needs_jit
def test_a_label_is_recovered_as_often_as_the_formula_says():
    data = {"set": "segmentation", "scale": ["minmax", "l1"], "bounds": "train"}
    layer = PUBLISHED | {"epsilon": 4.0, "samples": 1, "channel": "response"}
    run = finished(tree(layer, data=data, nodes={}, cycles=1, observe={"every": 1, "attacks": ["label"]}))
    p, q, _ = report("response", 4.0, 7 * 19)
    # The label is right if the symbol is the true one, or one of the d − 1 others of the same class.
    expected = p + (19 - 1) * q
    records = run.raw.rows.label.size
    spread = math.sqrt(expected * (1 - expected) / records)
    assert run.latest["published"]["label.sum"] == pytest.approx(expected, abs=4 * spread)  # one in 15,000 seeds


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"norm": "l2"}, 'requires norm = "l1"'),
        ({"samples": 0}, "samples"),
        ({"channel": "laplace"}, "channel"),
        ({"mode": "joint", "samples": 2}, 'require mode = "sampled"'),
        ({"mode": "joint", "channel": "unary"}, 'require mode = "sampled"'),
        ({"label_epsilon": 1.0}, "label_epsilon"),
    ],
)
def test_impossible_settings_are_refused(keys, what):
    with pytest.raises(ScenarioError, match=what):
        simulation(tree(PEERS, PUBLISHED | keys, data=TWO, nodes={"records": 2}))


def test_records_longer_than_1_are_refused():
    with pytest.raises(UserError, match="the guarantee needs at most 1"):
        simulation(tree(PUBLISHED, data=TWO | {"scale": ["minmax"]}, nodes={"records": 2}))


@pytest.mark.parametrize("unit", ["record", "node"])
def test_the_guarantee_is_epsilon_for_the_unit(unit):
    run = finished(tree(PEERS, PUBLISHED | {"unit": unit}, GOLF, data=TWO, nodes={"records": 2}))
    for name in ("published", "learning"):
        assert str(run.layer(name).guarantee()) == f"ε = 6 per {unit}, proven"
    assert run.latest["published"]["spent.max"] == 6.0
    assert run.layer("published").disclosure().released == "sampled coordinates with noise"


def test_features_have_signs_unless_their_range_is_known_to_be_positive():
    for scale, signs in ((["minmax", "l1"], 0), (["l1"], 1)):
        run = simulation(tree(PUBLISHED, data=TWO | {"scale": scale}, nodes={"records": 2}))
        assert run.layer("published").rows.x.signs == signs


def test_rows_are_symbols_and_raw_records_are_not(rng):
    raw = make_raw([(short_records(rng, 2, 3, False), [0, 1])], 2)
    assert isinstance(publish(raw, epsilon=1.0).rows.x, Symbols)
    assert not isinstance(publish(raw, epsilon=1.0, mode="joint").rows.x, Symbols)
