"""Federated averaging, decentralised SGD, local and central learners against the papers' algorithms."""

import naive
import numpy as np
import pytest
from helpers import HERE, assert_same_state, at_cycle, finished, learning_tree, make_layer, make_raw, make_world, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.learning import loading as learners
from golfsim.network.adversaries import AdversaryConfig
from golfsim.protocol import mixing
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from protocols.central_learner import CentralLearner
from protocols.decentralised_sgd import DecentralisedSGD
from protocols.federated_averaging import FederatedAveraging
from protocols.local_learner import LocalLearner
from protocols.static_overlay import StaticOverlay
from protocols.uniform import Uniform

NODES, FEATURES, LAM = 12, 3, 0.1
COUNTS = [1, 2, 0, 1, 3, 5, 1, 2, 1, 4, 0, 2]
LEARNERS = [(2, "pegasos"), (3, "logistic"), (2, "adaline")]
SPAM = {"set": "spambase", "train": 400, "scale": ["minmax", "l1"]}
GRAPH = {"name": "graph", "use": "static_overlay", "neighbours": 3}


def some_records(rng, classes, counts=COUNTS):
    return [(rng.normal(size=(n, FEATURES)), rng.integers(0, classes, n)) for n in counts]


def build(protocol, world, records, classes, learner="pegasos", **keys):
    """A layer of one of the protocols, with its nodes started."""
    lam = {"lambda": LAM} if learner in naive.OF_THE_PAPERS else {}
    layer = make_layer(protocol, world, "learning", records=make_raw(records, classes), learner=learner, **lam, **keys)
    layer.start(world, np.arange(world.nodes, dtype=np.int32))
    return layer


def zero(layer):
    return np.zeros(layer.w.shape[1:]), 0


def assert_model(layer, model, node=0):
    assert layer.age[node] == model[1]
    assert layer.w[node] == pytest.approx(model[0], rel=1e-4, abs=1e-4)


# Federated averaging


@pytest.mark.parametrize(("epochs", "batch"), [(1, "all"), (3, "all"), (2, 1), (2, 2)])
@pytest.mark.parametrize(("classes", "learner"), LEARNERS)
def test_a_round_is_that_of_the_paper(rng, classes, learner, epochs, batch):
    loss, records = 0.3, some_records(rng, classes)
    world = make_world(NODES, loss=loss, layers=["learning"])
    layer = build(FederatedAveraging, world, records, classes, learner, clients=6, epochs=epochs, batch=batch)
    down, up = (naive.key(1, "learning", f"transport.{kind}") for kind in ("download", "upload"))
    model, sent, used = zero(layer), 0, []
    for cycle in range(1, 8):
        online = rng.random(NODES) < 0.8
        layer.step(at_cycle(world, cycle, online))
        chosen = layer.client[layer.client >= 0].tolist()
        assert len(chosen) == len(set(chosen)) == min(6, online.sum())
        assert online[chosen].all()
        got = [i for i in chosen if naive.uniform(naive.draw(down, cycle, i, 0)) >= loss]
        came = [i for i in got if naive.uniform(naive.draw(up, cycle, i, 0)) >= loss]
        size = None if batch == "all" else batch
        trained = [naive.epochs(model, *records[i], LAM, learner, size, epochs) for i in came]
        model = naive.federated_mean(model, trained, [len(records[i][0]) for i in came])
        sent += len(chosen) + len(got)
        used.append(sum(len(records[i][0]) > 0 for i in came))
        assert_model(layer, model)
        assert layer.observe(world) == {"rounds": cycle, "clients": used[-1]}
    totals = world.transport.totals("learning")
    assert totals["messages.sent"] == sent
    assert 0 < totals["messages.lost"] < sent
    assert len(set(used)) > 1


class Server:
    """Rounds of federated averaging whose messages take time, one dictionary per message."""

    def __init__(self, model, records, learner, delay, loss, deadline):
        self.model, self.records, self.learner = model, records, learner
        self.delay, self.loss, self.deadline = delay, loss, deadline
        self.moving, self.round, self.begun, self.came = [], 0, None, {}
        self.keys = {kind: naive.key(1, "learning", f"transport.{kind}") for kind in ("download", "upload")}

    def send(self, cycle, kind, node, content=None):
        key, (low, high) = self.keys[kind], self.delay
        if naive.uniform(naive.draw(key, cycle, node, 0)) >= self.loss:
            lag = low + naive.below(naive.draw(key, cycle, node, 1), high - low + 1)
            message = {"kind": kind, "node": node, "due": cycle + lag, "round": self.round, "content": content}
            self.moving.append(message)

    def receive(self, cycle, online):
        due = [message for message in self.moving if message["due"] <= cycle]
        self.moving = [message for message in self.moving if message["due"] > cycle]
        for message in due:
            node = message["node"]
            if online[node] and message["round"] == self.round and self.begun:
                if message["kind"] == "upload":
                    self.came[node] = message["content"]
                else:
                    trained = naive.epochs(self.model, *self.records[node], LAM, self.learner, None, 1)
                    self.send(cycle, "upload", node, trained)
        late = self.deadline is not None and self.begun and cycle - self.begun >= self.deadline
        if self.begun and (late or not any(message["round"] == self.round for message in self.moving)):
            nodes = sorted(self.came)
            sizes = [len(self.records[node][0]) for node in nodes]
            self.model = naive.federated_mean(self.model, [self.came[node] for node in nodes], sizes)
            self.round, self.begun, self.came = self.round + 1, None, {}


@pytest.mark.parametrize("deadline", [None, 4, 1])
@pytest.mark.parametrize("delay", [(2, 2), (1, 4)])
def test_rounds_whose_messages_take_time_are_those_of_the_reference(rng, delay, deadline):
    loss, records = 0.2, some_records(rng, 2)
    world = make_world(NODES, loss=loss, delay=delay, layers=["learning"])
    layer = build(FederatedAveraging, world, records, 2, "logistic", clients=5, deadline=deadline)
    server = Server(zero(layer), records, "logistic", delay, loss, deadline)
    for cycle in range(1, 60):
        online = rng.random(NODES) < 0.8
        layer.step(at_cycle(world, cycle, online))
        server.receive(cycle, online)
        if layer.begun == cycle:
            server.begun = cycle
            for node in layer.client[layer.client >= 0].tolist():
                server.send(cycle, "download", node)
        assert layer.rounds == server.round
        assert layer.under_way() == len(server.moving)
        assert_model(layer, server.model)
    assert server.round > 5
    assert (server.model[1] > 0) == (deadline != 1), "nobody can answer within a cycle"


def test_a_client_that_leaves_before_its_upload_has_arrived_is_lost(rng):
    world = make_world(2, delay=2, layers=["learning"])
    layer = build(FederatedAveraging, world, some_records(rng, 2, [1, 1]), 2, share=1.0)
    for cycle, online in enumerate([(1, 1), (1, 1), (1, 1), (1, 1), (1, 0)], 1):
        layer.step(at_cycle(world, cycle, online))
    assert (layer.rounds, layer.used) == (1, 1)
    assert world.transport.totals("learning")["messages.lost"] == 1


def test_the_server_is_on_the_larger_side_of_a_cut(rng):
    world = make_world(NODES, partition=({"share": 0.25, "from": 1, "until": 1},), layers=["learning"])
    layer = build(FederatedAveraging, world, some_records(rng, 2, [1] * NODES), 2, share=1.0)
    layer.step(at_cycle(world, 1))
    assert layer.client[layer.came].tolist() == np.flatnonzero(world.transport.side() == 0).tolist()
    assert layer.used == 9
    assert world.transport.totals("learning")["messages.lost"] == 3
    layer.step(at_cycle(world, 2))
    assert layer.used == NODES


@pytest.mark.parametrize(("keys", "online", "clients"), [
    ({"share": 0.25}, 12, 3), ({"share": 0.01}, 12, 1), ({"share": 1.0}, 5, 5), ({"clients": 7}, 5, 5), ({}, 12, 1),
])  # fmt: skip
def test_a_round_has_the_clients_that_the_settings_ask_for(rng, keys, online, clients):
    world = make_world(NODES, layers=["learning"])
    layer = build(FederatedAveraging, world, some_records(rng, 2, [1] * NODES), 2, **keys)
    drawn = set()
    for cycle in range(1, 30):
        layer.step(at_cycle(world, cycle, np.arange(NODES) < online))
        assert layer.used == clients
        drawn |= set(layer.client[layer.client >= 0].tolist())
    assert drawn == set(range(online))


def test_without_clients_there_is_no_round(rng):
    world = make_world(NODES, layers=["learning"])
    layer = build(FederatedAveraging, world, some_records(rng, 2), 2)
    layer.step(at_cycle(world, 1, np.zeros(NODES)))
    assert (layer.rounds, layer.age[0]) == (0, 0)


@pytest.mark.parametrize("delay", [0, 1])
def test_the_bytes_are_those_of_models_in_both_directions(rng, delay):
    for message, model in ((None, 4 * FEATURES + 4), ({"codec": "float16"}, 2 * FEATURES + 4)):
        world = make_world(NODES, delay=delay, layers=["learning"])
        layer = build(FederatedAveraging, world, some_records(rng, 2, [1] * NODES), 2, share=0.5, message=message)
        for cycle in range(1, 1 + 2 * delay + 1):
            layer.step(at_cycle(world, cycle))
        again = 6 * model if delay else 0  # the next round begins in the cycle in which the last upload arrives
        assert world.transport.totals("learning")["bytes.sent"] == 6 * (model + model + 4) + again


def test_models_are_encoded_in_both_directions(rng):
    world, records = make_world(1, layers=["learning"]), [(rng.normal(size=(1, FEATURES)), np.array([1]))]
    plain, half = (
        build(FederatedAveraging, world, records, 2, message=message) for message in (None, {"codec": "float16"})
    )
    for layer in (plain, half):
        layer.step(at_cycle(world, 1))
    assert half.w[0] == pytest.approx(plain.w[0], rel=1e-3)
    assert (half.w[0] == plain.w[0].astype(np.float16)).all()
    assert (half.w[0] != plain.w[0]).any()
    half.w[:] = 1 + 2**-14  # not a number of 16 bits
    half.step(at_cycle(world, 2))
    assert (half.sent == 1).all()


@pytest.mark.parametrize("delay", [0, 1])
def test_adversarial_clients_send_something_else(rng, delay):
    def after(rounds, **adversary):
        adversaries = [AdversaryConfig(share=1.0, **adversary)] if adversary else []
        world = make_world(NODES, delay=delay, adversary=adversaries, layers=["learning"])
        layer = build(FederatedAveraging, world, records, 2, "logistic", share=1.0)
        for cycle in range(1, rounds * (1 + 2 * delay) + 1 - delay * (rounds - 1)):
            layer.step(at_cycle(world, cycle))
        assert layer.rounds == rounds
        return layer.w[0].copy()

    records = some_records(rng, 2)
    honest = after(1)
    assert after(1, kind="negative") == pytest.approx(-honest, rel=1e-6)
    assert after(2, kind="old", **{"from": 1 + delay}) == pytest.approx(0 * honest)
    noise = after(1, kind="noise", scale=100.0)
    assert np.linalg.norm(noise) > 5 * np.linalg.norm(honest)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"share": 0.5, "clients": 3}, "at most one of “share” and “clients”"),
        ({"message": {"parts": 2}}, "complete models"),
        ({"message": {"codec": "pivot"}}, "links that stay"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(rng, keys, what):
    with pytest.raises(ValueError, match=what):
        build(FederatedAveraging, make_world(NODES, layers=["learning"]), some_records(rng, 2), 2, **keys)


@settings(max_examples=25)
@given(
    delay=st.sampled_from([0, 1, [1, 4]]),
    loss=st.sampled_from([0.0, 0.4]),
    cut=st.sampled_from([[], [{"share": 0.4, "from": 2, "until": 5}]]),
    deadline=st.sampled_from([None, 1, 3]),
    every=st.sampled_from([1, 3]),
    seed=st.integers(0, 10**6),
)
def test_every_message_is_of_a_round_and_no_round_has_more_than_two_per_client(delay, loss, cut, deadline, every, seed):
    layer = {"name": "learning", "use": "federated_averaging", "records": "raw", "clients": 9, "every": every}
    transport = {"delay": delay, "loss": loss, "partition": cut}
    layer |= {"deadline": deadline} if deadline else {}
    churn = {"kind": "rate", "leave": 0.2, "rejoin": 0.3}
    run = Simulation(
        Scenario.of(learning_tree(layer, cycles=15, seed=seed, churn=churn, transport=transport), HERE), threads=2
    )
    for _ in run:
        totals, found = run.world.transport.totals("learning"), run.layer("learning")
        moving = found.mail.under_way if delay else 0
        assert totals["messages.sent"] == totals["messages.delivered"] + totals["messages.lost"] + moving
        assert totals["messages.sent"] <= 2 * 9 * (found.rounds + (found.begun > 0))
        assert found.used <= 9
    assert totals["messages.sent"] > 0


# Decentralised SGD


def network(name, world, **arguments):
    """A fixed graph, and the neighbours of each node."""
    graph = make_layer(StaticOverlay, world, "graph", generator=name, arguments=arguments)
    links = graph.links(world).toarray() > 0
    assert (links == links.T).all()
    return graph, [set(np.flatnonzero(row).tolist()) for row in links]


def online_only(neighbours, online):
    return [{j for j in mine if online[j]} if online[i] else set() for i, mine in enumerate(neighbours)]


@pytest.mark.parametrize("mixing", ["metropolis-hastings", "uniform"])
@pytest.mark.parametrize(("steps", "batch"), [(1, "all"), (3, 1), (2, 2)])
@pytest.mark.parametrize(("classes", "learner"), LEARNERS)
def test_a_cycle_of_decentralised_sgd_is_that_of_the_papers(rng, classes, learner, steps, batch, mixing):
    loss, records = 0.2, some_records(rng, classes)
    world = make_world(NODES, loss=loss, layers=["learning"])
    graph, neighbours = network("barabasi_albert_graph", world, m=3)
    layer = build(
        DecentralisedSGD, world, records, classes, learner, peers=graph, steps=steps, batch=batch, mixing=mixing
    )
    wire, chooses = naive.key(1, "learning", "transport.model"), naive.key(1, "learning", "batch")
    models, sent, lost = [zero(layer)] * NODES, 0, 0
    for cycle in range(1, 8):
        online = rng.random(NODES) < 0.8
        layer.step(at_cycle(world, cycle, online))
        for i in np.flatnonzero(online):
            for k in range(steps):
                parts = naive.batches(len(records[i][0]), None if batch == "all" else batch)
                if parts:
                    lo, hi = parts[naive.below(naive.draw(chooses, cycle, i, k), len(parts))]
                    xs, labels = (part[lo:hi] for part in records[i])
                    models[i] = naive.update(models[i], xs, labels, LAM, learner, True)
        there = online_only(neighbours, online)
        pairs = [(j, i) for i in range(NODES) for j in there[i]]
        arrived = {(j, i) for j, i in pairs if naive.uniform(naive.draw(wire, cycle, j, 2 * i)) >= loss}
        models = naive.mixed(models, naive.mixing_matrix(there, mixing), arrived)
        sent, lost = sent + len(pairs), lost + len(pairs) - len(arrived)
        for i in range(NODES):
            assert_model(layer, models[i], i)
    totals = world.transport.totals("learning")
    assert (totals["messages.sent"], totals["messages.lost"]) == (sent, lost)
    assert totals["bytes.sent"] == sent * (4 * layer.w[0].size + 4 + 4)
    assert lost > 0


def consensus(name, size, arguments, mixing="metropolis-hastings"):
    """A layer whose nodes have no records, and the mixing matrix of its graph."""
    world = make_world(size, layers=["learning"])
    graph, neighbours = network(name, world, **arguments)
    empty = [(np.zeros((0, FEATURES)), np.zeros(0, np.int32))] * size
    layer = build(DecentralisedSGD, world, empty, 2, peers=graph, mixing=mixing)
    return world, layer, naive.mixing_matrix(neighbours, mixing)


NETWORKS = [
    ("cycle_graph", 16, {}),
    ("grid_2d_graph", 20, {"m": 4, "n": 5, "periodic": True}),
    ("complete_graph", 8, {}),
    ("barabasi_albert_graph", 30, {"m": 2}),
]


@pytest.mark.parametrize(("name", "size", "arguments"), NETWORKS)
def test_without_gradients_the_distance_to_consensus_shrinks_by_the_second_eigenvalue(rng, name, size, arguments):
    world, layer, matrix = consensus(name, size, arguments)
    values, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(values))
    assert values[order[0]] == pytest.approx(1)
    second = values[order[1]]
    # The slowest direction shrinks by exactly this factor, and no model by less.
    layer.w[:, 0] = vectors[:, order[1], None]
    layer.w[:, 0, 1:] = rng.normal(size=(size, FEATURES - 1))
    middle = layer.w.mean(axis=0)
    for cycle in range(1, 4):
        before, spread = layer.w.astype(np.float64), layer.observe(world)["consensus"] if cycle > 1 else np.inf
        layer.step(at_cycle(world, cycle))
        squares = [np.square(w - w.mean(axis=0)).sum(axis=0)[0] for w in (before, layer.w.astype(np.float64))]
        assert squares[1][0] == pytest.approx(second**2 * squares[0][0], rel=1e-4, abs=1e-9)
        assert (squares[1] <= second**2 * squares[0] + 1e-6).all()
        assert layer.observe(world)["consensus"] == pytest.approx(squares[1].sum() / size, rel=1e-5, abs=1e-9)
        assert layer.observe(world)["consensus"] <= spread
    assert layer.w.mean(axis=0) == pytest.approx(middle, abs=1e-6), "the mean stays"


def test_uniform_weights_change_the_mean_where_degrees_differ(rng):
    world, layer, matrix = consensus("star_graph", 6, {"n": 5}, "uniform")
    first = rng.normal(size=layer.w.shape).astype(np.float32)
    layer.w[:] = first
    layer.step(at_cycle(world, 1))
    assert layer.w[:, 0] == pytest.approx(matrix @ first[:, 0], abs=1e-5)
    assert np.abs(layer.w.mean(axis=0) - first.mean(axis=0)).max() > 0.01


def test_messages_that_are_lost_do_not_change_models_that_agree(rng):
    world = make_world(NODES, loss=0.5, layers=["learning"])
    graph, _ = network("barabasi_albert_graph", world, m=3)
    layer = build(DecentralisedSGD, world, some_records(rng, 2, [0] * NODES), 2, peers=graph)
    layer.w[:] = [1.0, -2.0, 3.0]
    for cycle in range(1, 10):
        layer.step(at_cycle(world, cycle, rng.random(NODES) < 0.7))
    assert layer.w[:, 0] == pytest.approx(np.tile([1.0, -2.0, 3.0], (NODES, 1)), rel=1e-6)


def test_a_link_that_one_node_knows_is_used_in_both_directions():
    layers = ({"name": "peers", "use": "newscast", "view": 4}, {
        "name": "learning", "use": "decentralised_sgd", "peers": "peers", "records": "raw",
    })  # fmt: skip
    run = finished(learning_tree(*layers, cycles=1))
    known = run.layer("peers").links(run.world).toarray() > 0
    assert (known != known.T).any()
    assert run.world.transport.totals("learning")["messages.sent"] == (known | known.T).sum()


def test_without_a_liveness_oracle_messages_to_offline_neighbours_are_lost(rng):
    sent = {}
    for liveness in ("oracle", "none"):
        world = make_world(NODES, layers=["learning"])
        graph = make_layer(StaticOverlay, world, "graph", generator="cycle_graph", liveness=liveness)
        layer = build(DecentralisedSGD, world, some_records(rng, 2), 2, peers=graph)
        layer.step(at_cycle(world, 1, np.arange(NODES) < 9))
        sent[liveness] = world.transport.totals("learning")["messages.sent"]
        lost = world.transport.totals("learning")["messages.lost"]
        assert lost == (0 if liveness == "oracle" else sent["none"] - sent["oracle"])
    assert sent["none"] == 9 * 2 > sent["oracle"]


@pytest.mark.parametrize("kind", ["negative", "old", "noise"])
def test_neighbours_of_an_adversary_average_what_it_sends_and_it_does_not(rng, kind):
    world = make_world(NODES, adversary=[AdversaryConfig(kind=kind, number=1, scale=9.0)], layers=["learning"])
    graph, neighbours = network("cycle_graph", world)
    layer = build(DecentralisedSGD, world, some_records(rng, 2, [0] * NODES), 2, peers=graph)
    (bad,) = np.flatnonzero(~world.tampering.honest())
    first = rng.normal(size=layer.w.shape).astype(np.float32)
    layer.w[:] = first
    layer.step(at_cycle(world, 1))
    honest = [(w, 0) for w in first]
    matrix = naive.mixing_matrix(neighbours, "metropolis-hastings")
    all_pairs = {(j, i) for i in range(NODES) for j in neighbours[i]}
    expected = naive.mixed(honest, matrix, all_pairs)
    for i in range(NODES):
        as_if_honest = layer.w[i] == pytest.approx(expected[i][0], abs=1e-5)
        assert as_if_honest == (bad not in neighbours[i] or kind == "old"), i
    if kind == "negative":
        lies = naive.mixed([(-w if j == bad else w, 0) for j, (w, _) in enumerate(honest)], matrix, all_pairs)
        for i in neighbours[bad]:
            assert layer.w[i] == pytest.approx(lies[i][0], abs=1e-5)


def test_with_uniform_peers_all_nodes_are_neighbours_unless_there_are_many(rng, monkeypatch):
    world = make_world(NODES, layers=["learning"])
    layer = build(DecentralisedSGD, world, some_records(rng, 2), 2, peers=make_layer(Uniform, world, "peers"))
    for cycle, online in ((1, NODES), (2, 5)):
        before = world.transport.totals("learning")["messages.sent"]
        layer.step(at_cycle(world, cycle, np.arange(NODES) < online))
        assert world.transport.totals("learning")["messages.sent"] - before == online * (online - 1)
        assert np.ptp(layer.w[:online], axis=0) == pytest.approx(0, abs=1e-5)
    monkeypatch.setattr(mixing, "ALL_TO_ALL", NODES - 1)
    layer = build(DecentralisedSGD, world, some_records(rng, 2), 2, peers=make_layer(Uniform, world, "peers"))
    with pytest.raises(UserError, match="every node has all others") as error:
        layer.step(at_cycle(world, 3))
    assert error.value.key == "learning.peers"


# One node alone, and one place with everything


@pytest.mark.parametrize("batch", ["all", 1, 2])
@pytest.mark.parametrize(("classes", "learner"), LEARNERS)
def test_a_local_learner_uses_its_own_records_only(rng, classes, learner, batch):
    records, world = some_records(rng, classes), make_world(NODES, layers=["learning"])
    layer = build(LocalLearner, world, records, classes, learner, steps=2, batch=batch)
    models, key = [zero(layer)] * NODES, naive.key(1, "learning", "batch")
    for cycle in range(1, 6):
        online = rng.random(NODES) < 0.8
        layer.step(at_cycle(world, cycle, online))
        for i in np.flatnonzero(online):
            for k in range(2):
                parts = naive.batches(len(records[i][0]), None if batch == "all" else batch)
                if parts:
                    lo, hi = parts[naive.below(naive.draw(key, cycle, i, k), len(parts))]
                    models[i] = naive.update(models[i], *(part[lo:hi] for part in records[i]), LAM, learner, True)
        for i in range(NODES):
            assert_model(layer, models[i], i)
    assert world.transport.totals("learning")["messages.sent"] == 0
    assert layer.age.max() == 2 * 5


@pytest.mark.parametrize("per_cycle", ["all", 4])
@pytest.mark.parametrize(("classes", "learner"), LEARNERS)
def test_a_central_learner_takes_the_records_of_online_nodes_in_random_order(rng, classes, learner, per_cycle):
    records, world = some_records(rng, classes), make_world(NODES, layers=["learning"])
    layer = build(CentralLearner, world, records, classes, learner, per_cycle=per_cycle)
    model, key = zero(layer), naive.key(1, "learning", "order")
    for cycle in range(1, 5):
        online = rng.random(NODES) < 0.7
        layer.step(at_cycle(world, cycle, online))
        there = [(x, label) for i in np.flatnonzero(online) for x, label in zip(*records[i], strict=True)]
        order = naive.permutation(key, cycle, len(there))
        for r in order if per_cycle == "all" else order[:per_cycle]:
            x, label = there[r]
            model = naive.update(model, [x], [label], LAM, learner, True)
        assert_model(layer, model)


@pytest.mark.parametrize("use", ["federated_averaging", "central_learner"])
def test_every_node_predicts_with_the_shared_model(use):
    layer = {"name": "learning", "use": use, "records": "raw"}
    run = finished(learning_tree(layer, cycles=3, churn={"kind": "rate", "leave": 0.2, "rejoin": 0.2}))
    found = run.latest["learning"]
    assert found["measured"] == 10
    assert found["error.std"] == found["age.std"] == 0
    observe = {"every": 3, "nodes": "all", "test": "own"}
    own = finished(learning_tree(layer, cycles=3, data=SPAM, nodes={"records": 20}, observe=observe))
    assert own.latest["learning"]["error.std"] > 0, "nodes have other test records, although they have one model"


LAYERS = {
    "federated_averaging": {"clients": 8, "batch": 1},
    "decentralised_sgd": {"peers": "graph"},
    "local_learner": {"steps": 2, "batch": 1},
    "central_learner": {"per_cycle": 20},
}


@pytest.mark.parametrize("learner", sorted(learners.installed()))
@pytest.mark.parametrize("use", LAYERS)
def test_any_learner_works_and_two_threads_give_the_same_bits(use, learner):
    layer = {"name": "learning", "use": use, "records": "raw", "learner": learner} | LAYERS[use]
    table = learning_tree(GRAPH, layer, number=600, cycles=3)
    try:
        one, two = (finished(table, threads=threads) for threads in (1, 2))
    except UserError as error:
        pytest.skip(f"records of this kind do not fit: {error}")
    assert_same_state(one, two)
    assert np.isfinite(one.layer("learning").w).all()
    assert one.layer("learning").w.any()


@pytest.mark.parametrize("use", LAYERS)
def test_what_is_learned_from_published_records_has_their_guarantee(use):
    published = {"name": "published", "use": "data_perturbation", "epsilon": 4.0}
    for records, epsilon in (("raw", None), ("published", 4.0)):
        layer = {"name": "learning", "use": use, "records": records} | LAYERS[use]
        data = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
        run = finished(learning_tree(published, GRAPH, layer, data=data, cycles=2))
        found = run.layer("learning")
        assert found.guarantee().epsilon == epsilon
        assert found.disclosure().released
        assert found.withholds == (use == "local_learner" and records == "raw")


def test_nodes_without_data_are_refused_with_the_key():
    layer = {"name": "learning", "use": "federated_averaging", "records": "raw"}
    with pytest.raises(Exception, match=r"learning\.records"):
        Scenario.of(tree(layer), HERE)
