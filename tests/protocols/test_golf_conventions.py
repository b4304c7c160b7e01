"""The conventions of other simulators in Golf: turns, waiting models, first updates, ties; against plain references."""

import naive
import numpy as np
import pytest
from helpers import HERE, GivenPeers, at_cycle, finished, learning_tree, make_layer, make_raw, make_world, simulation

from golfsim.core.errors import UserError
from golfsim.protocol.learner import classify, largest
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from protocols.golf import Golf

NODES, FEATURES, LAM = 7, 3, 0.1
VIEWS = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
CHURN = {"kind": "rate", "leave": 0.3, "rejoin": 0.5}


def build(records, delay=0, **keys):
    world = make_world(NODES, delay=delay, layers=["learning"])
    peers = make_layer(GivenPeers, world, "peers")
    golf = make_layer(Golf, world, "learning", peers=peers, records=make_raw(records, 2), **{"lambda": LAM} | keys)
    golf.start(world, np.arange(NODES, dtype=np.int32))
    return world, peers, golf


def some_records(rng):
    return [(rng.normal(size=(n, FEATURES)), rng.integers(0, 2, n)) for n in (1, 2, 0, 1, 3, 1, 1)]


def some_peers(rng):
    peer = (np.arange(NODES) + rng.integers(1, NODES, NODES)) % NODES
    return np.where(rng.random(NODES) < 0.2, -1, peer).astype(np.int32)


def assert_models(golf, models):
    for i, (w, age) in enumerate(models):
        assert golf.age[i] == age
        assert golf.w[i] == pytest.approx(w, rel=1e-4, abs=1e-4)


def first_models(records, batch):
    zero = (np.zeros((1, FEATURES)), 0)
    return [naive.update(zero, xs, labels, LAM, "pegasos", batch) for xs, labels in records]


@pytest.mark.parametrize("batch", [True, False])
def test_the_first_update_is_one_with_the_own_records(rng, batch):
    records = some_records(rng)
    _, _, golf = build(records, initial_update=True, cache=2, batch="mini-batch" if batch else "one-by-one")
    models = first_models(records, batch)
    assert_models(golf, models)
    assert np.array_equal(golf.cache[:, 0], golf.w)


def test_the_variant_own_with_a_first_update_is_the_rule_of_gossipy(rng):
    """gossipy: `_merge` takes the mean and the larger count, `_update` then learns from one record after the other."""
    records = some_records(rng)
    world, peers, golf = build(records, variant="own", initial_update=True, batch="one-by-one")
    models = first_models(records, False)
    for cycle in range(1, 8):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
        for i, j in enumerate(peers._peer):
            if j >= 0:
                merged = naive.merge(models[j], models[i])
                models[j] = naive.update(merged, *records[j], LAM, "pegasos", False)
    assert_models(golf, models)


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("variant", ["algorithm1", "mu"])
def test_a_waiting_model_is_used_at_the_next_turn_and_only_the_last_one(rng, delay, variant):
    records = some_records(rng)
    world, peers, golf = build(records, delay=delay, receive="next-turn", variant=variant)
    states = [naive.start(1, FEATURES) for _ in range(NODES)]
    waiting, under_way = {}, {}
    for cycle in range(1, 12):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
        waiting |= under_way.pop(cycle, {}) if delay else {}
        for j, model in waiting.items():
            states[j] = naive.on_receive(states[j], model, *records[j], variant, LAM, "pegasos")
        waiting = {}
        arrives = {int(j): states[i].current for i, j in enumerate(peers._peer) if j >= 0}
        (under_way.setdefault(cycle + delay, {}) if delay else waiting).update(arrives)
    assert_models(golf, [state.current for state in states])
    assert golf.waits.sum() == len(waiting)


def test_a_node_that_returns_sends_at_once_and_counts_its_interval_from_then():
    layer = GOLF | {"on_return": "send", "period": 3.0, "phase": "random"}
    run = simulation(learning_tree(VIEWS, layer, churn=CHURN, cycles=30))
    golf, sent = run.layer("learning"), []
    senders = golf.senders
    golf.senders = lambda world: sent.append(senders(world)) or sent[-1]
    for _ in run:
        back = np.setdiff1d(run.world.came, run.world.first)
        assert set(back.tolist()) <= set(sent[-1].tolist())
    assert run.world.transport.totals("learning")["messages.sent"] <= sum(each.size for each in sent)


@pytest.mark.parametrize(
    "settings",
    [
        {"on_return": "send", "jitter": 0.1},
        {"period": 0.5, "message": {"parts": 2}, "variant": "own"},
        {"receive": "next-turn", "jitter": 0.2, "jitter_of": "node", "initial_update": True},
        {"tie": "random", "cache": 4, "period": 2.0, "phase": "random", "epsilon": 5.0, "initial_update": True},
    ],
)
@pytest.mark.parametrize("transport", [{"loss": 0.2}, {"delay": [1, 4]}])
def test_runs_are_the_same_on_any_number_of_threads_and_resumed(settings, transport):
    table = learning_tree(
        VIEWS, GOLF | settings, churn=CHURN, transport=transport, cycles=8,
        adversary=[{"kind": "noise", "share": 0.2}], data={"set": "random", "train": 80, "test": 30,
                                                           "scale": ["minmax", "l1"]},
    )  # fmt: skip
    one, three = (finished(table, threads=n, paranoid=True) for n in (1, 3))
    assert one.log.values == three.log.values
    half = simulation(table)
    for _ in range(4):
        half.step()
    resumed = Simulation(Scenario.of(table, HERE))
    resumed.restore({name: np.copy(array) for name, array in half.state().items()})
    for _ in resumed:
        pass
    assert resumed.log.values == one.log.values


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"receive": "next-turn", "flow": {"kind": "simple", "capacity": 3}}, "receive: “next-turn”"),
        ({"receive": "next-turn", "message": {"codec": "float16"}}, "receive: “next-turn”"),
        ({"jitter": 0.1, "flow": {"kind": "simple", "capacity": 3}}, "flow: a token is earned once"),
        ({"jitter_of": "node"}, "jitter_of: requires jitter"),
        ({"period": 0.01}, "period"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, what):
    with pytest.raises(UserError, match=what):
        simulation(learning_tree(VIEWS, GOLF | settings))


# ------------------------------------------------------------------------------------------------ ties


def test_ties_of_scores_go_where_the_setting_says():
    one = np.array([[[0.0]], [[-0.0]], [[1.0]], [[-1.0]]], np.float32)
    assert classify(one)[:, 0].tolist() == classify(one, "last")[:, 0].tolist() == [1, 1, 1, 0]
    assert classify(one, "first")[:, 0].tolist() == [0, 0, 1, 0]
    chance = np.array([0.2, 0.8, 0.2, 0.8]).reshape(4, 1, 1)
    assert classify(one, "random", chance)[:, 0].tolist() == [0, 1, 1, 0]
    three = np.array([[[2, 2, 1]], [[0, 0, 0]], [[1, 3, 2]]], np.float32)
    assert classify(three)[:, 0].tolist() == classify(three, "first")[:, 0].tolist() == [0, 0, 1]
    assert classify(three, "last")[:, 0].tolist() == [1, 2, 1]
    chance = np.array([[[0.1, 0.5, 0.9]], [[0.1, 0.9, 0.5]], [[0.9, 0.1, 0.5]]])
    assert classify(three, "random", chance)[:, 0].tolist() == [1, 1, 1]
    assert largest(np.array([2, 2, 1]), "by-score", np.array([-5.0, -4.0, 9.0])) == 1


@pytest.mark.parametrize(("tie", "error"), [(None, "y"), ("last", "y"), ("first", "n"), ("random", "?")])
def test_the_zero_model_names_the_class_of_the_setting(tie, error):
    settings = {"tie": tie} if tie else {}
    run = simulation(learning_tree(VIEWS, GOLF | settings | {"first": 9}, cycles=2, nodes={"records": 2}))
    run.step()
    found = run.latest["learning"]["error.mean"]
    share = float((run.observer._test.y == 0).mean())
    assert found == pytest.approx({"y": share, "n": 1 - share}[error]) if error != "?" else 0.4 < found < 0.6


@pytest.mark.parametrize("tie", ["last", "first", "random", "by-score"])
def test_votes_that_tie_are_decided_by_the_setting(rng, tie):
    records = some_records(rng)
    _, _, golf = build(records, cache=2, tie=tie)
    nodes = np.arange(NODES, dtype=np.int32)
    golf.cache[:] = rng.normal(size=golf.cache.shape)
    golf.cached[:] = 2
    x = rng.normal(size=(200, FEATURES)).astype(np.float32)
    votes = golf.others(nodes, x)["voted"]
    scores = np.einsum("rf,npf->rnp", x, golf.cache[:, :, 0])
    tied = (scores >= 0).sum(axis=-1) == 1
    assert (votes[~tied] == (scores.sum(axis=-1) >= 0)[~tied]).all()
    expected = {"last": np.ones_like(votes), "first": np.zeros_like(votes), "by-score": scores.sum(axis=-1) >= 0}
    if tie == "random":
        assert 0.4 < votes[tied].mean() < 0.6
        assert np.array_equal(golf.others(nodes[2:4], x[50:60])["voted"], votes[50:60, 2:4])
    else:
        assert (votes[tied] == expected[tie][tied]).all()
