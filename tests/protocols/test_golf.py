"""Golf against the papers' algorithms, and what it learns."""

from functools import cache

import naive
import numpy as np
import pytest
from helpers import (
    HERE,
    GivenPeers,
    assert_same_state,
    at_cycle,
    finished,
    make_layer,
    make_raw,
    make_world,
    needs_jit,
    simulation,
    tree,
)

from golfsim.core.threads import in_threads
from golfsim.data import loading
from golfsim.data.config import DataConfig
from protocols.golf import Golf

NODES, FEATURES, LAM = 9, 3, 0.1


def some_records(rng, classes):
    """Records of several nodes, one of which has none."""
    counts = [1, 2, 0, 1, 3, 1, 1, 2, 1]
    return [(rng.normal(size=(n, FEATURES)), rng.integers(0, classes, n)) for n in counts]


def build(records, classes, delay=0, loss=0.0, **keys):
    """A world and a Golf layer whose peers the test names."""
    world = make_world(NODES, delay=delay, loss=loss, layers=["learning"])
    peers = make_layer(GivenPeers, world, "peers")
    golf = make_layer(
        Golf, world, "learning", peers=peers, records=make_raw(records, classes), **{"lambda": LAM} | keys
    )
    golf.start(world, np.arange(NODES, dtype=np.int32))
    return world, peers, golf


def some_peers(rng):
    """A peer for each node other than itself, here and there nobody."""
    peer = (np.arange(NODES) + rng.integers(1, NODES, NODES)) % NODES
    return np.where(rng.random(NODES) < 0.2, -1, peer).astype(np.int32)


def assert_equal(golf, states):
    """Current models, last received ones and caches."""
    for i, state in enumerate(states):
        assert golf.age[i] == state.current[1]
        assert golf.w[i] == pytest.approx(state.current[0], rel=1e-4, abs=1e-4)
        if len(golf.last):
            assert golf.last_age[i] == state.last[1]
            assert golf.last[i] == pytest.approx(state.last[0], rel=1e-4, abs=1e-4)
        size = golf.cache.shape[1]
        if size:
            assert min(golf.cached[i], size) == len(state.cache)
            oldest = max(golf.cached[i] - size, 0)
            for age, (weights, _) in enumerate(state.cache):
                assert golf.cache[i, (oldest + age) % size] == pytest.approx(weights, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("cache", [0, 1, 3])
@pytest.mark.parametrize("batch", ["mini-batch", "one-by-one"])
@pytest.mark.parametrize("average", ["plain", "age"])
@pytest.mark.parametrize("variant", naive.VARIANTS)
def test_golf_is_the_algorithm_of_the_papers(rng, variant, average, batch, cache):
    for classes, learner in [(2, "pegasos"), (3, "logistic"), (3, "mean")]:
        records = some_records(rng, classes)
        world, peers, golf = build(
            records, classes, variant=variant, average=average, batch=batch, cache=cache, learner=learner
        )
        states = [naive.start(golf.config.records.models, FEATURES)] * NODES
        for cycle in range(1, 6):
            online = rng.random(NODES) < 0.8
            peers._peer = some_peers(rng)
            golf.step(at_cycle(world, cycle, online))
            peer = [j if j >= 0 and online[j] else -1 for j in peers._peer[world.order]]
            states = naive.golf_cycle(
                states, world.order, peer, records, variant, LAM, learner, batch == "mini-batch", average, cache or 1
            )
            assert_equal(golf, states)


@pytest.mark.parametrize("variant", naive.VARIANTS)
def test_a_delayed_model_arrives_as_it_was_sent(rng, variant):
    delay, loss = (1, 4), 0.3
    records = some_records(rng, 2)
    world, peers, golf = build(records, 2, delay, loss, variant=variant)
    key = naive.key(1, "learning", "transport.model")
    states, post = [naive.start(1, FEATURES)] * NODES, naive.Mailbox()
    for cycle in range(1, 25):
        online = rng.random(NODES) < 0.7
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle, online))
        for _, j, message in post.deliver(cycle, online):
            states[j] = naive.on_receive(states[j], message, *records[j], variant, LAM, "pegasos")
        for i in world.order:
            if (j := peers._peer[i]) >= 0:
                arrives = naive.uniform(naive.draw(key, cycle, i, 0)) >= loss
                lag = 1 + naive.below(naive.draw(key, cycle, i, 1), 4)
                post.send(cycle + lag, i, j, states[i].current, arrives)
        assert_equal(golf, states)
    counts = world.transport.totals("learning")
    assert counts["messages.sent"] == post.sent
    assert counts["messages.delivered"] == post.delivered > 20
    assert counts["messages.lost"] == post.lost > 20
    assert counts["messages.under_way"] == post.under_way > 0


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("cycles", [0, 1, 2, 3, 6])
def test_the_voted_prediction_is_the_majority_of_the_remembered_models(rng, classes, cycles):
    records = some_records(rng, classes)
    world, peers, golf = build(records, classes, cache=4, learner="mean")
    states = [naive.start(golf.config.records.models, FEATURES)] * NODES
    for cycle in range(1, cycles + 1):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
        states = naive.golf_cycle(states, world.order, peers._peer, records, "algorithm1", LAM, "mean", cache=4)
    x = rng.normal(size=(20, FEATURES)).astype(np.float32)
    nodes = np.array([0, 3, 4, 8], np.int32)
    assert golf.others(nodes, x)["voted"].tolist() == [[naive.voted(states[i].cache, row) for i in nodes] for row in x]


def test_without_a_cache_nobody_votes(rng):
    _, _, golf = build(some_records(rng, 2), 2)
    assert golf.others(np.array([0], np.int32), np.ones((1, FEATURES), np.float32)) == {}


def test_scores_are_scalar_products_of_the_nodes_asked_for(rng):
    _, _, golf = build(some_records(rng, 3), 3)
    golf.w[:] = rng.normal(size=golf.w.shape)
    x, nodes = rng.normal(size=(5, FEATURES)).astype(np.float32), np.array([7, 2], np.int32)
    assert golf.scores(nodes, x) == pytest.approx(np.einsum("rf,nmf->rnm", x, golf.w[nodes]), abs=1e-5)


def test_a_node_that_starts_afresh_has_the_zero_model_and_the_others_keep_theirs(rng):
    world, peers, golf = build(some_records(rng, 2), 2, variant="mu", cache=2)
    for cycle in range(1, 8):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
    before = golf.w.copy()
    golf.start(world, np.array([4], np.int32))
    for array in (golf.w, golf.last, golf.cache):
        assert not array[4].any()
    assert (golf.age[4], golf.last_age[4], golf.cached[4]) == (0, 0, 1)
    others = np.arange(NODES) != 4
    assert (golf.w[others] == before[others]).all()


DATA = {"set": "spambase", "scale": ["minmax", "l1"]}


@cache
def central_error(seed):
    """The test error of one Pegasos model after 200,000 steps, each with a random training record of the same split."""
    data = loading.load(DataConfig(set="spambase", scale=("minmax", "l1")), seed, HERE)
    x, y = data.x.astype(np.float64), np.where(data.y == 1, 1.0, -1.0)
    w, lam = np.zeros(x.shape[1]), 1e-4
    for t, r in enumerate(np.random.default_rng(1).integers(0, len(x), 200_000), 1):
        inside = y[r] * (x[r] @ w) < 1
        w *= 1 - 1 / t
        if inside:
            w += y[r] / (lam * t) * x[r]
    return np.mean((data.test_x @ w >= 0) != (data.test_y == 1))


def learned(variant, seed, peers):
    """The mean error of the nodes after Golf on Spambase, one record a node, as in scenarios/quickstart.toml."""
    golf = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "variant": variant}
    run = finished(
        tree({"name": "peers"} | peers, golf, seed=seed, cycles=1000, data=DATA, nodes={}, observe={"every": 1000})
    )
    assert run.world.nodes == 4140
    return run.latest["learning"]["error.mean"]


def errors(variant, seeds, peers):
    """(mean error of the nodes, error of a central learner on the same split), in the mean over seeds."""
    nodes = in_threads(2, lambda seed: learned(variant, seed, peers), seeds)
    return np.mean(nodes), np.mean([central_error(seed) for seed in seeds])


@needs_jit
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "peers"),
    [
        ("algorithm1", {"use": "newscast", "view": 20}),
        ("mu", {"use": "uniform"}),
        ("um", {"use": "uniform"}),
    ],
)
def test_on_spambase_all_nodes_come_to_the_error_of_a_central_learner(variant, peers):
    nodes, central = errors(variant, [1, 2, 3, 4], peers)
    # PRIVACY.md: .083 with sd .018 over splits, from ten splits. The difference of its mean and that of four splits has
    # sd .018·√(1/10 + 1/4) = .0107; three of these are .032: fails for one right program in 370, with other seeds.
    assert nodes == pytest.approx(0.083, abs=0.032)
    assert central == pytest.approx(0.083, abs=0.032)
    # Nodes minus central on the same split, measured over 8 seeds: .001 to .004, sd at most .0086. The sd of a mean of
    # four is .0043; .004 and three of these: one in 740.
    assert abs(nodes - central) < 0.017


@needs_jit
@pytest.mark.slow
def test_on_spambase_walks_that_never_merge_have_learned_less_by_then():
    nodes, central = errors("rw", [1, 2], {"use": "uniform"})
    # A walk has made 1000 steps. Measured over 8 seeds: .128, sd .012; above the central learner by .054, sd .008.
    # Three sd of a mean of two are .026 and .017, one in 370. Answering "mail" always errs in .394.
    assert nodes == pytest.approx(0.128, abs=0.026)
    assert nodes - central == pytest.approx(0.054, abs=0.017)


@needs_jit
@pytest.mark.parametrize("average", ["plain", "age"])
@pytest.mark.parametrize("learner", ["pegasos", "logistic", "mean"])
@pytest.mark.parametrize("records", ["raw", "published"])
@pytest.mark.parametrize("data", ["spambase", "segmentation"])
def test_the_kernel_of_the_commonest_case_has_the_bits_of_the_general_one(data, records, learner, average):
    golf = {"name": "learning", "use": "golf", "peers": "peers", "records": records, "learner": learner}
    layers = (
        {"name": "peers", "use": "uniform"},
        {"name": "published", "use": "data_perturbation", "epsilon": 50.0},
        golf | {"average": average},
    )
    config = {"set": data, "train": 150, "test": 10, "scale": ["minmax", "l1"]}
    runs = []
    for plain in (True, False):
        run = simulation(tree(*layers, data=config, nodes={"records": 1}, cycles=30))
        assert run.layer("learning")._plain
        run.layer("learning")._plain = plain
        for _ in run:
            pass
        runs.append(run)
    assert runs[0].layer("learning").w.any()
    assert_same_state(*runs)
