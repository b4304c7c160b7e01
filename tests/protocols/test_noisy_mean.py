"""Means with Gaussian noise: what is sent, how much noise is in it, what it protects, and what happens without some."""

import math

import naive
import numpy as np
import pytest
from helpers import (
    ALPHA,
    ERROR,
    HERE,
    GivenPeers,
    at_cycle,
    finished,
    learning_tree,
    make_layer,
    make_raw,
    make_world,
    needs_jit,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array

from golfsim.audit import bounds
from golfsim.core.errors import UserError
from golfsim.privacy import correlated, gaussian
from golfsim.privacy.mechanisms import ROUNDING
from golfsim.runs.single import guarantees
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from protocols import noisy_mean
from protocols.noisy_mean import NoisyMean

DELTA = 1e-5
SPHERE = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l2"]}
GRAPH = {"name": "graph", "use": "static_overlay", "neighbours": 4}
MEAN = {"name": "mean", "use": "noisy_mean", "epsilon": 4.0}
MODEL = {"name": "learning", "use": "averaged_model", "averages": "mean"}
PAIRS = {"trust": "correlated", "honest": 10, "peers": "graph"}


class Graph(GivenPeers):
    """An overlay with the links that the test states."""

    fixed = True
    _links = None

    def links(self, world):
        return self._links


def graph(nodes, edges):
    """A fixed overlay with some edges, given in one direction."""
    layer = Graph("graph", GivenPeers.Config(name="graph", use="test"), 1)
    if edges is not None:
        one, other = np.array(edges).reshape(-1, 2).T
        layer._links = csr_array((np.ones(one.size, np.int8), (one, other)), shape=(nodes, nodes))
    return layer


def unit_records(rng, nodes, each=1, features=3, classes=2):
    """A raw layer with records of L2 length 1."""
    x = rng.normal(size=(nodes, each, features))
    x /= np.linalg.norm(x, axis=2, keepdims=True) * (1 + 1e-6)
    return make_raw([(x[i], rng.integers(0, classes, each)) for i in range(nodes)], classes)


def turns(world, layer, cycles=2, online=None):
    """Run a layer for some cycles."""
    for cycle in range(1, cycles + 1):
        at_cycle(world, cycle, None if online is None else online[cycle - 1])
        layer.step(world)
    return layer


def mean_of(raw, *, edges=None, cycles=2, online=None, loss=0.0, seed=1, **keys):
    """A layer of its own over records, after some cycles."""
    nodes = raw.capacity().size
    world = make_world(nodes, loss=loss)
    peers = {"peers": graph(nodes, edges)} if keys.get("trust") == "correlated" else {}
    layer = make_layer(NoisyMean, world, seed=seed, of=raw, **peers, **({"epsilon": 4.0} | keys))
    world.since[:] = 1
    return turns(world, layer, cycles, online)


# What is sent


@pytest.mark.parametrize("moments", [1, 2])
@pytest.mark.parametrize("trust", ["local", "honest", "curator", "correlated"])
def test_values_and_mean_are_those_of_the_reference(rng, trust, moments):
    nodes, edges = 7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (5, 6)]
    raw = unit_records(rng, nodes, each=2)
    honest = {"honest": 3} if trust in ("honest", "correlated") else {}
    layer = mean_of(raw, edges=edges, trust=trust, moments=moments, **honest)
    keys = naive.key(1, "layer", "noise"), naive.key(1, "layer", "pair")
    sigma = noise_for(4.0, math.sqrt(6) * (1 + ROUNDING) if moments == 2 else 2.0)
    records = [(raw.rows.x[2 * i : 2 * i + 2], raw.rows.label[2 * i : 2 * i + 2]) for i in range(nodes)]
    rows, total = naive.noisy_rows(records, 2, moments == 2, trust, sigma, 3, 30.0, edges, *keys)
    if layer.value.size:
        np.testing.assert_allclose(layer.value, rows, rtol=0, atol=sigma * 2**-22)
    np.testing.assert_allclose(layer.mean[layer._columns] * nodes, total, rtol=0, atol=nodes * sigma * 2**-22)
    assert layer.counted == nodes


def noise_for(epsilon, sensitivity):
    """The complete noise."""
    return sensitivity * (1 + ROUNDING) / gaussian.mu_of(epsilon, DELTA)


def test_without_noise_the_mean_is_exact_and_every_trust_gives_it(rng):
    raw = unit_records(rng, 9, each=3)
    exact = raw.values(make_world(9), np.arange(9, dtype=np.int32), True).mean(axis=0)
    for keys in ({"trust": "local"}, {"trust": "curator"}, {"trust": "honest", "honest": 2}):
        layer = mean_of(raw, epsilon=math.inf, moments=2, **keys)
        kept = layer._columns
        np.testing.assert_allclose(layer.mean[kept], exact[kept], atol=1e-12)
        assert layer.mean[0] == exact[0]
        assert layer.noise < 1e-12
        assert layer.precision().exact


@settings(max_examples=200)
@given(data=st.data(), features=st.integers(1, 5), classes=st.integers(2, 3))
def test_no_record_moves_the_numbers_by_more_than_the_stated_sensitivity(data, features, classes):
    def record():
        x = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=features, max_size=features)), np.float32)
        x = x / max(1.0, float(np.linalg.norm(x)))
        return x, data.draw(st.integers(0, classes - 1))

    one, other = record(), record()
    for second, most in ((False, 2.0), (True, math.sqrt(6))):
        moved = naive.released_moments([one[0]], [one[1]], classes, second) - naive.released_moments(
            [other[0]], [other[1]], classes, second
        )
        assert np.linalg.norm(moved) <= most * (1 + 1e-6)


def test_the_stated_sensitivities_are_reached():
    e1, e2 = np.eye(2)
    moved = [naive.released_moments([x], [y], 2, s) for x, y, s in ((e1, 0, False), (-e1, 0, False))]
    assert np.linalg.norm(moved[0] - moved[1]) == pytest.approx(2)
    moved = [naive.released_moments([x], [y], 2, True) for x, y in ((e1, 0), (e2, 1))]
    assert np.linalg.norm(moved[0] - moved[1]) == pytest.approx(math.sqrt(6))


# How much noise there is


@needs_jit
@pytest.mark.parametrize(
    ("keys", "share"),
    [
        ({"trust": "curator"}, 1.0),
        ({"trust": "honest", "honest": 400}, 800 / 400),
        ({"trust": "local"}, 800),
        ({"trust": "correlated", "honest": 400}, 800 / 400),
    ],
    ids=lambda k: k.get("trust") if isinstance(k, dict) else "",
)
def test_the_sum_has_the_noise_of_its_trust(rng, keys, share):
    raw = unit_records(rng, 800, features=60)
    ring = [(i, (i + 1) % 800) for i in range(800)]
    layer = mean_of(raw, edges=ring, **keys)
    sigma = noise_for(4.0, 2.0)
    exact = raw.values(make_world(800), np.arange(800, dtype=np.int32), False).sum(axis=0)[layer._columns]
    noise = layer.mean[layer._columns] * 800 - exact
    own = share if keys["trust"] != "correlated" else 800 / correlated.conductance(400, 4000.0)
    assert stats.kstest(noise / (sigma * math.sqrt(own)), "norm").pvalue > ALPHA
    assert layer.variance == pytest.approx(own * sigma**2, rel=1e-6)
    assert layer.noise == pytest.approx(math.sqrt((noise**2).mean()) / 800, rel=1e-6)


@needs_jit
def test_noise_of_pairs_has_the_covariance_of_the_graph(rng):
    edges, ratio = [(0, 1), (1, 2), (2, 0), (2, 3)], 3.0
    raw = make_raw([(np.zeros((1, 9)), [0])] * 4, 2)
    found = np.concatenate(
        [mean_of(raw, edges=edges, trust="correlated", honest=4, ratio=ratio, seed=s).value[None] for s in range(500)]
    )
    own = noise_for(4.0, 2.0) / math.sqrt(correlated.conductance(4, ratio))
    wanted = own**2 * naive.noise_covariance(4, edges, ratio)
    noise = found[:, :, 1:].transpose(0, 2, 1).reshape(-1, 4)
    estimate = noise.T @ noise / len(noise)
    # The standard error of an entry is at most √(2/9500) of the product of standard deviations: 1.5 %.
    scale = np.sqrt(np.outer(np.diagonal(wanted), np.diagonal(wanted)))
    assert np.abs((estimate - wanted) / scale).max() < 0.07


# What it protects


@settings(max_examples=100)
@given(nodes=st.integers(1, 9), ratio=st.floats(0.05, 100), seed=st.integers(0, 10**6))
def test_no_connected_graph_protects_less_than_the_end_of_a_path(nodes, ratio, seed):
    rng = np.random.default_rng(seed)
    tree = [(i, int(rng.integers(0, i))) for i in range(1, nodes)]
    more = [(i, j) for i in range(nodes) for j in range(i) if rng.random() < 0.2]
    worst = 1 / correlated.conductance(nodes, ratio)
    exposed = np.diagonal(np.linalg.inv(naive.noise_covariance(nodes, sorted({*tree, *more}), ratio)))
    assert exposed.max() <= worst * (1 + 1e-6)
    path = [(i, i + 1) for i in range(nodes - 1)]
    assert np.linalg.inv(naive.noise_covariance(nodes, path, ratio))[0, 0] == pytest.approx(worst, rel=1e-6)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), ratio=st.floats(0.1, 30))
def test_missing_values_never_protect_less(seed, ratio):
    rng = np.random.default_rng(seed)
    edges = [(i, j) for i in range(8) for j in range(i) if rng.random() < 0.4]
    covariance = naive.noise_covariance(8, edges, ratio)
    seen = np.flatnonzero(rng.random(8) < 0.7)
    inside = np.diagonal(np.linalg.inv(covariance[np.ix_(seen, seen)]))
    assert (inside <= np.diagonal(np.linalg.inv(covariance))[seen] * (1 + 1e-9)).all()


def test_the_conductance_of_a_path_by_hand():
    assert correlated.conductance(1, 5.0) == pytest.approx(1)
    assert correlated.conductance(2, 1.0) == pytest.approx(1.5)
    assert correlated.conductance(3, 1.0) == pytest.approx(1.6)
    assert correlated.conductance(50, 1e5) == pytest.approx(50, rel=1e-4)
    assert correlated.conductance(10**4, 2.0) == pytest.approx((1 + math.sqrt(17)) / 2)


def test_exact_exposures_are_those_of_the_inverse(rng):
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (4, 5)]
    pairs = graph(7, edges)._links
    found = correlated.exposures(csr_array(pairs + pairs.T), 7.0)
    wanted = np.diagonal(np.linalg.inv(naive.noise_covariance(7, edges, 7.0)))
    np.testing.assert_allclose(found, wanted, rtol=3e-5)
    assert (found >= wanted * (1 - 1e-12)).all()
    assert found[6] == 1
    assert correlated.sizes(csr_array(pairs + pairs.T)).tolist() == [4, 4, 4, 4, 2, 2, 1]


def stated_mu(layer, edges, colluders, nodes):
    """The largest Δ²·[Σ⁻¹]_uu of the nodes that do not collude, from the noise that the layer adds."""
    pairs = csr_array(graph(nodes, edges)._links + graph(nodes, edges)._links.T)
    own, between = layer._scales(nodes, pairs)
    others = [i for i in range(nodes) if i not in colluders]
    return naive.worst_mu(own, between, edges, others, 2.0 * (1 + ROUNDING))


def test_the_noise_for_honest_nodes_is_enough_whoever_colludes(rng):
    nodes = 12
    edges = [(i, (i + k) % nodes) for i in range(nodes) for k in (1, 3)]
    layer = mean_of(unit_records(rng, nodes), edges=edges, trust="correlated", honest=6, ratio=5.0)
    target, checked = gaussian.mu_of(4.0, DELTA), 0
    for _ in range(200):
        colluders = set(rng.choice(nodes, rng.integers(0, 7), replace=False).tolist())
        if naive.smallest_component(nodes, edges, colluders) >= 6:
            checked += 1
            assert stated_mu(layer, edges, colluders, nodes) <= target * (1 + 1e-6)
    assert checked > 20


def test_a_node_in_a_small_component_adds_its_complete_noise(rng):
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5)]
    layer = mean_of(unit_records(rng, 7), edges=edges, trust="correlated", honest=4)
    pairs = csr_array(graph(7, edges)._links + graph(7, edges)._links.T)
    own, _ = layer._scales(7, pairs)
    assert own[4:] == pytest.approx(noise_for(4.0, 2.0))
    assert own[:4] == pytest.approx(noise_for(4.0, 2.0) / 2, rel=2e-3)
    assert stated_mu(layer, edges, set(), 7) <= gaussian.mu_of(4.0, DELTA) * (1 + 1e-6)


def test_the_noise_for_given_colluders_is_exact(rng):
    nodes = 30
    edges = sorted({tuple(sorted(rng.choice(nodes, 2, replace=False).tolist())) for _ in range(60)})
    layer = mean_of(unit_records(rng, nodes), edges=edges, trust="correlated", colluding=0.3)
    colluders = set(layer._colluders(nodes).tolist())
    assert len(colluders) == 9
    found, target = stated_mu(layer, edges, colluders, nodes), gaussian.mu_of(4.0, DELTA)
    assert target * (1 - 1e-4) < found <= target * (1 + 1e-6)


def test_a_star_protects_its_centre_by_the_formula_of_the_page():
    ratio, leaves = 3.0, 5
    exposed = np.linalg.inv(naive.noise_covariance(leaves + 1, [(0, i + 1) for i in range(leaves)], ratio))[0, 0]
    assert exposed == pytest.approx(1 / (1 + leaves * ratio**2 / (1 + ratio**2)))


# What an observer can tell: a broken variant is found out

TRIANGLES = 20_000
DELTA_OF_AUDIT = 0.05
KINDS = [
    {"trust": "local"},
    {"trust": "curator"},
    {"trust": "honest", "honest": 3},
    {"trust": "correlated", "honest": 3},
]
by_kind = pytest.mark.parametrize("keys", KINDS, ids=lambda keys: keys["trust"])


def outputs(keys, x, seed):
    """What an observer sees [runs, values] of three nodes, of which the first one has the record x, of class 1.

    Triangles of nodes are independent runs of what nodes send; a mean needs runs of its own.
    """
    sent = keys["trust"] in ("local", "correlated")
    triangles, runs = (TRIANGLES, 1) if sent else (1, 4000)
    first = np.arange(0, 3 * triangles, 3)
    edges = np.concatenate([np.stack([first + i, first + j], axis=1) for i, j in TRIANGLE])
    raw = make_raw([(np.full((1, 1), x if i % 3 == 0 else 1.0), [1]) for i in range(3 * triangles)], 2)
    peers = {"peers": graph(3 * triangles, edges)} if keys["trust"] == "correlated" else {}
    world, found = make_world(3 * triangles), []
    for run in range(runs):
        world.since[:] = 1
        layer = make_layer(
            NoisyMean, world, seed=seed + run, of=raw, epsilon=1.0, delta=DELTA_OF_AUDIT, **peers, **keys
        )
        found.append(turns(world, layer).released().reshape(triangles, -1, 4)[:, :, 3])  # the block of class 1
    return np.concatenate(found)


TRIANGLE = [(0, 1), (1, 2), (2, 0)]


def lower_bound(keys, ratio=30.0):
    """The lower bound on ε at δ; the attacker knows all but the noise, whose covariance weights what is seen."""
    one, other = (outputs(keys, x, seed) for x, seed in ((1.0, 1), (-1.0, 10**6)))
    weights = {
        "local": [1, 0, 0],
        "correlated": np.linalg.inv(naive.noise_covariance(3, TRIANGLE, ratio))[0],
    }.get(keys["trust"], [1])
    scores = one @ np.array(weights), other @ np.array(weights)
    (train, test), (train_n, test_n) = (np.array_split(score, 2) for score in scores)
    event = bounds.best_event(train, train_n, ERROR, DELTA_OF_AUDIT)
    return float(bounds.bounds_at(test, test_n, event.threshold, ERROR, DELTA_OF_AUDIT)[0])


@needs_jit
@by_kind
def test_an_observer_cannot_tell_more_than_epsilon(keys):
    assert 0.3 < lower_bound(keys) <= 1.0


@needs_jit
@by_kind
def test_half_of_the_noise_is_found_out(keys, monkeypatch):
    monkeypatch.setattr(noisy_mean.NoisyMeanConfig, "sensitivity", 1.0)
    assert lower_bound(keys) > 1.0


@needs_jit
def test_noise_of_pairs_that_is_left_out_is_found_out(monkeypatch):
    monkeypatch.setattr(noisy_mean, "add_pair_noise", lambda *_: None)
    assert lower_bound(KINDS[-1], ratio=0.0) > 1.0


@needs_jit
def test_own_noise_that_is_left_out_is_found_out(monkeypatch):
    monkeypatch.setattr(noisy_mean, "add_own_noise", lambda *_: None)
    assert lower_bound(KINDS[-1]) > 1.0


# Nodes that are missing


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_noise_of_missing_nodes_stays_in_the_mean(rng, loss):
    raw = unit_records(rng, 40)
    edges = [(i, (i + k) % 40) for i in range(40) for k in (1, 7)]
    online = [np.ones(40, bool), rng.random(40) > 0.2]
    layer = mean_of(raw, edges=edges, trust="correlated", honest=10, ratio=5.0, online=online, loss=loss)
    here = [i for i in range(40) if layer.value[i].any()]
    assert set(here) <= set(np.flatnonzero(online[1] & layer.agreed).tolist())
    assert layer.counted <= len(here)
    if loss == 0:
        missing = set(np.flatnonzero(~online[1]).tolist())
        assert layer.open == sum((i in missing) != (j in missing) for i, j in edges) > 0
        own = noise_for(4.0, 2.0) ** 2 / correlated.conductance(10, 5.0)
        assert layer.variance == pytest.approx(own * (layer.counted + 25 * layer.open), rel=1e-6)
    else:
        assert layer.counted < len(here)


def test_a_node_that_was_away_has_lost_its_keys(rng):
    raw = unit_records(rng, 6)
    world = make_world(6)
    ring = [(i, (i + 1) % 6) for i in range(6)]
    layer = make_layer(NoisyMean, world, of=raw, epsilon=4.0, trust="correlated", honest=2, peers=graph(6, ring))
    world.since[:] = [1, 1, 1, 1, 1, 2]
    turns(world, layer)
    assert layer.counted == 5
    assert layer.open == 2


def test_too_few_nodes_give_no_secure_sum(rng):
    online = [np.arange(8) < 3] * 2
    layer = mean_of(unit_records(rng, 8), trust="honest", honest=4, online=online)
    assert layer.counted == 0
    assert not layer.ledger.visits.any()
    assert not layer.known(np.arange(8, dtype=np.int32)).any()


def test_a_mean_that_was_lost_is_sent_again(rng):
    layer = mean_of(unit_records(rng, 60), trust="curator", loss=0.5, cycles=1)
    assert 0 < layer.got.sum() < 60
    assert 0 < layer.counted < 60
    layer = mean_of(unit_records(rng, 60), trust="curator", loss=0.5, cycles=30)
    assert layer.got.all()
    assert layer.ledger.visits.tolist() == [1] * 60


# What is stated


@pytest.mark.parametrize("keys", [{"trust": "local"}, {"trust": "curator"}, {"trust": "honest", "honest": 4}, PAIRS])
def test_the_guarantee_states_delta_unit_and_assumption(keys):
    layers = ([GRAPH] if "peers" in keys else []) + [MEAN | keys, MODEL]
    run = finished(learning_tree(*layers, data=SPHERE, cycles=3, nodes={"records": 2}))
    stated = guarantees(run)
    assert stated["mean"].startswith("ε = 4, δ = 1e-05 per record, proven")
    assert stated["learning"] == stated["mean"]
    if "honest" in keys:
        assert "do not collude" in stated["mean"]
    assert run.log.values


def test_a_record_at_several_nodes_moves_the_mean_as_often(rng):
    raw = unit_records(rng, 6)
    raw._copies = 3
    stated = mean_of(raw, trust="curator").guarantee()
    assert stated.epsilon == pytest.approx(gaussian.epsilon_of(3 * gaussian.mu_of(4.0, DELTA), DELTA), rel=1e-4)
    assert "3 nodes" in stated.note


def test_scaling_by_private_bounds_is_stated():
    tree = learning_tree(MEAN, MODEL, data=SPHERE | {"bounds": "train"}, cycles=2)
    assert guarantees(finished(tree))["mean"].startswith("not private")


def test_a_node_as_the_unit_gets_noise_for_all_its_records(rng):
    raw = unit_records(rng, 5, each=3)
    assert mean_of(raw, unit="node")._sigma == pytest.approx(3 * noise_for(4.0, 2.0))
    assert mean_of(raw)._sigma == pytest.approx(noise_for(4.0, 2.0))


def test_models_know_the_noise_of_the_mean(rng):
    tree = learning_tree(MEAN | {"trust": "curator", "moments": 2}, MODEL | {"learner": "lda"}, data=SPHERE, cycles=2)
    run = finished(tree)
    layer, precision = run.layer("mean"), run.layer("mean").precision()
    assert precision.indicator == precision.spread == pytest.approx(math.sqrt(layer.variance / 80))
    assert run.layer("learning")._settings(np.zeros(1, np.int32))[0].precision == precision
    classes, d = 2, run.layer("mean").config.of.features
    counts = layer.mean[1 : 1 + classes] * layer.counted
    blocks = layer.mean[1 + 2 * classes : 1 + 2 * classes + classes * d].reshape(classes, d) * layer.counted
    squares = layer.mean[1 + classes : 1 + 2 * classes] * layer.counted
    np.testing.assert_allclose(squares, d * layer.variance + (blocks**2).sum(axis=1) / counts, rtol=1e-9)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"trust": "correlated", "honest": 3}, "peers: required"),
        ({"trust": "local", "peers": "graph"}, "peers: required"),
        ({"trust": "honest"}, "honest: required"),
        ({"trust": "curator", "honest": 3}, "honest: required"),
        ({"trust": "correlated", "peers": "graph"}, "either honest or colluding"),
        (PAIRS | {"colluding": 0.1}, "either honest or colluding"),
        ({"trust": "local", "ratio": 3.0}, "require trust"),
        ({"trust": "correlated", "peers": "graph", "colluding": 0.1, "ratio": 2000.0}, "at most 1000"),
    ],
)
def test_settings_that_do_not_fit_are_refused(keys, words):
    with pytest.raises(ScenarioError, match=words):
        Scenario.of(learning_tree(GRAPH, MEAN | keys, data=SPHERE), HERE).stack(1)


def test_unfit_records_and_graphs_are_refused(rng):
    raw = unit_records(rng, 4)
    long = make_raw([(2 * np.ones((1, 2)), [0])] * 4, 2)
    with pytest.raises(UserError, match="longest record"):
        mean_of(long)
    with pytest.raises(UserError, match="expected at most 4"):
        mean_of(raw, trust="honest", honest=5)
    moving = graph(4, [(0, 1)])
    type(moving).fixed = False
    try:
        with pytest.raises(UserError, match="change"):
            mean_of(raw, trust="correlated", honest=2, edges=[(0, 1)])
    finally:
        type(moving).fixed = True


def test_without_a_graph_all_nodes_are_neighbours_if_they_are_few(rng, monkeypatch):
    layer = mean_of(unit_records(rng, 5), trust="correlated", honest=5)
    assert layer.counted == 5
    monkeypatch.setattr(noisy_mean, "MOST_LINKED", 4)
    with pytest.raises(UserError, match="neighbours of each other"):
        mean_of(unit_records(rng, 5), trust="correlated", honest=5)
    monkeypatch.setattr(correlated, "MOST", 2)
    with pytest.raises(UserError, match="exact calculation"):
        mean_of(unit_records(rng, 4), edges=[(0, 1), (1, 2), (2, 3)], trust="correlated", colluding=0.0)
