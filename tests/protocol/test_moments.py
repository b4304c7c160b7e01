"""Moments of records: against the reference, unbiased in every mode, and as precise as stated."""

import math

import naive
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, make_layer, make_raw, make_world, needs_jit
from scipy.stats import norm as normal

from golfsim.protocol import moments
from golfsim.protocol.moments import at_once, summed, width
from protocols.data_perturbation import DataPerturbation

MODES = ["per-class", "joint", "label+features", "as-coded"]
FEATURES = 4


def records(rng, counts, classes, features=FEATURES, norm="l1"):
    """Records of length 1 without negative features."""

    def one(n):
        x = rng.random((n, features))
        length = x.sum(axis=1) if norm == "l1" else np.linalg.norm(x, axis=1)
        return (x / length[:, None]).astype(np.float32), rng.integers(0, classes, n)

    return make_raw([one(n) for n in counts], classes)


def published(raw, threads=1, **keys):
    """A layer that has published everything, and its world."""
    world = make_world(raw.capacity().size, threads=threads)
    layer = make_layer(DataPerturbation, world, records=raw, **keys)
    layer.step(at_cycle(world, 1))
    return layer, world


def everyone(world):
    return np.arange(world.nodes, dtype=np.int32)


def estimates(layer, raw, mode, norm, epsilon, owner_has):
    """The estimates of each record by the reference, from what is published."""
    classes, d, models = raw.classes, raw.features, raw.models
    slices = layer.rows.x.reshape(raw.rows.label.size, -1, d)
    for record, z in enumerate(slices):
        each = epsilon / owner_has[record]
        share = {"per-class": 1 / models, "label+features": 2 / 3}.get(mode, 1.0)
        variance, _ = naive.block_noise(mode, models, norm, 2 * (1 + 1e-5) / (each * share), d)
        if mode in ("label+features", "as-coded"):
            label_epsilon = math.inf if mode == "as-coded" else each / 3
            truth = 1.0 if mode == "as-coded" else naive.response_probabilities(classes, label_epsilon)[0, 0]
            label = layer.rows.label[record]
            yield naive.moments_of_label_and_features(z[0], label, classes, truth, variance)
        elif classes == 2:
            yield naive.moments_of_signed(z[0], variance)
        else:
            yield naive.moments_of_one_versus_all(z, variance)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("unit", ["record", "node"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_moments_of_a_node_are_those_of_the_reference(rng, classes, mode, norm, unit, second):
    counts = [2, 0, 1, 3]
    raw = records(rng, counts, classes, norm=norm)
    epsilon, owner_has = 3.0, np.repeat([2, 1, 3], [2, 1, 3]) if unit == "node" else np.ones(6)
    more = {"label_epsilon": 1.0} if mode == "label+features" else {}
    layer, world = published(raw, epsilon=epsilon, mode=mode, norm=norm, unit=unit, **more)
    found = layer.values(world, everyone(world), second)
    assert found.shape == (4, layer.value_width(second)) == (4, width(classes, FEATURES, second))
    each = list(estimates(layer, raw, mode, norm, epsilon, owner_has))
    for node, (lo, n) in enumerate(zip(np.cumsum(counts) - counts, counts, strict=True)):
        expected = naive.moments(each[lo : lo + n], second)
        assert found[node] == pytest.approx(expected if n else np.zeros(found.shape[1]), rel=1e-4, abs=1e-3)


def test_the_moments_of_raw_records_are_sums(rng):
    raw = records(rng, [2, 0, 1, 3], 3)
    world = make_world(4)
    found = raw.values(world, np.array([3, 0], np.int32), True)
    x, label = raw.rows.x.astype(np.float64), raw.rows.label
    for row, part in zip(found, [slice(3, 6), slice(0, 2)], strict=True):
        one_hot = np.eye(3)[label[part]]
        squares = one_hot.T @ (x[part] ** 2).sum(axis=1)
        second = (x[part].T @ x[part])[np.triu_indices(FEATURES)]
        expected = [len(one_hot), *one_hot.sum(axis=0), *squares, *(one_hot.T @ x[part]).ravel(), *second]
        assert row == pytest.approx(expected, rel=1e-12)


@needs_jit
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_every_entry_estimates_that_of_the_true_records(rng, classes, mode, norm):
    """The error rate is ALPHA per case: that of all entries together, for normal means of 6000 estimates."""
    few = records(rng, [12], classes, norm=norm)
    copies = make_raw([(few.rows.x, few.rows.label)] * 500, classes)
    layer, world = published(copies, epsilon=4.0, mode=mode, norm=norm)
    found = layer.values(world, everyone(world), True)
    true = few.values(make_world(1), np.zeros(1, np.int32), True)[0]
    blocks = 1 + 2 * classes
    upper = blocks + classes * FEATURES
    if not layer.precision().counted:  # then only differences of the blocks are estimates
        signed = [_signed(row[blocks:upper].reshape(classes, -1)) for row in (true, *found)]
        true, found = (
            np.append(signed[0].ravel(), true[upper:]),
            np.hstack([np.array(signed[1:]).reshape(500, -1), found[:, upper:]]),
        )
    else:
        squares = np.arange(1 + classes, blocks)
        true, found = np.delete(true, squares), np.delete(found, squares, axis=1)
    error = found.std(axis=0, ddof=1) / math.sqrt(500)
    bound = normal.isf(ALPHA / 2 / len(true))
    assert (np.abs(found.mean(axis=0) - true) <= bound * error + 1e-4).all()
    assert np.count_nonzero(error) >= FEATURES * (FEATURES + 1) / 2  # the test can fail


def _signed(blocks):
    return blocks[1:] - blocks[:1] if len(blocks) == 2 else 2 * blocks - blocks.sum(axis=0)


@needs_jit
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_stated_precision_is_that_of_the_estimates(rng, classes, mode, norm):
    """Ten per cent: the variance of a product of Laplace numbers over 20,000 records varies by about two."""
    nodes = 20_000
    corners = (np.eye(FEATURES)[np.arange(nodes) % FEATURES], np.arange(nodes) // FEATURES % classes)
    raw = make_raw([(corners[0][i : i + 1], corners[1][i : i + 1]) for i in range(nodes)], classes)
    layer, world = published(raw, epsilon=6.0, mode=mode, norm=norm)
    stated = layer.precision()
    off = layer.values(world, everyone(world), True) - raw.values(world, everyone(world), True)
    upper = off[:, 1 + 2 * classes + classes * FEATURES :]
    rows, columns = np.triu_indices(FEATURES)
    entry = math.sqrt(stated.spread**2 + 2 * stated.variance / FEATURES)  # of records of length 1
    assert entry == pytest.approx(math.sqrt((upper[:, rows != columns] ** 2).mean()), rel=0.1)
    if mode in ("label+features", "as-coded") or classes > 2:
        assert stated.indicator == pytest.approx(math.sqrt((off[:, 1 : 1 + classes] ** 2).mean()), rel=0.1)
    assert stated.counted == (mode in ("label+features", "as-coded") or (classes > 2 and norm == "l1"))


@needs_jit
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("channel", ["response", "unary", "subset"])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_stated_precision_of_symbols_is_that_of_the_estimates(rng, classes, channel, samples):
    """Of indicators it is exact, and ten per cent are five standard errors; of x·xᵀ it is a bound."""
    raw = records(rng, [1] * 20_000, classes)
    layer, world = published(raw, epsilon=4.0 * samples, mode="sampled", channel=channel, samples=samples)
    stated, second = layer.precision(), samples > 1
    off = layer.values(world, everyone(world), second) - raw.values(world, everyone(world), second)
    assert stated.counted
    assert stated.indicator == pytest.approx(math.sqrt((off[:, 1 : 1 + classes] ** 2).mean()), rel=0.1)
    assert layer.value_width(True) == (width(classes, FEATURES, True) if second else 0)
    if second:
        upper = off[:, 1 + 2 * classes + classes * FEATURES :]
        rows, columns = np.triu_indices(FEATURES)
        entry = math.sqrt((upper[:, rows != columns] ** 2).mean())
        length = np.square(raw.rows.x).sum(axis=1).mean()
        bound = math.sqrt(stated.spread**2 + 2 * stated.variance * length / FEATURES)
        assert 0.95 * entry <= bound <= 1.6 * entry


@pytest.mark.parametrize("norm", ["l1", "l2", "gaussian"])
def test_the_variance_of_a_coordinate_is_that_of_the_noise(norm):
    key, scale, d = naive.key(1, "layer", "noise"), 0.7, 5
    drawn = np.array([naive.NOISE[norm](key, 0, node, 0, d, scale) for node in range(4000)])
    stated = moments.coordinate_variance(norm, np.array([scale]), d)[0]
    # The kurtosis of Laplace numbers is 6, so their variance has a relative error of √(5/20000) = 1.6 %.
    assert (drawn**2).mean() == pytest.approx(stated, rel=0.06)


def test_without_noise_published_moments_are_those_of_the_records(rng):
    raw = records(rng, [3, 2], 4)
    for mode in MODES:
        layer, world = published(raw, epsilon=math.inf, mode=mode)
        assert layer.precision().exact
        expected = raw.values(world, everyone(world), True)
        assert layer.values(world, everyone(world), True) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("mode", ["joint", "label+features"])
def test_threads_and_chunks_do_not_change_a_bit(rng, monkeypatch, mode):
    raw = records(rng, [1, 2, 0, 3] * 200, 3)
    found = []
    for threads, room in ((1, 1 << 25), (2, 1 << 25), (2, 8 * 100 * width(3, FEATURES, True)), (1, 1)):
        monkeypatch.setattr(moments, "ROOM", room)
        layer, world = published(raw, threads, epsilon=2.0, mode=mode)
        found.append(summed(layer, world, everyone(world), True).tobytes())
    assert at_once(width(3, FEATURES, True)) == 1
    assert len(set(found)) == 1
