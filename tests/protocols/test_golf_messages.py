"""Golf with token accounts, parts of models and encoded messages, against plain versions."""

import math

import naive
import numpy as np
import pytest
from entries import PEERS, VIEWS
from helpers import (
    GivenPeers,
    assert_same_state,
    at_cycle,
    finished,
    learning_tree,
    make_layer,
    make_raw,
    make_world,
    simulation,
)

from golfsim.core import threads
from golfsim.core.errors import UserError
from golfsim.learning.packing import MessageConfig
from golfsim.sim import checkpoint
from golfsim.testing import rows
from protocols.golf import Golf
from protocols.static_overlay import StaticOverlay

NODES, FEATURES, LAM = 9, 5, 0.1
ONE = {"rel": 1e-4, "abs": 1e-4}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
GRAPH = {"name": "peers", "use": "static_overlay", "neighbours": 3}
SIMPLE = {"kind": "simple", "capacity": 4}
GENERALISED = {"kind": "generalised", "capacity": 6, "spend": 2}
RANDOMISED = {"kind": "randomised", "capacity": 6, "spend": 3}
FLOWS = [SIMPLE, GENERALISED, RANDOMISED]
BY_KIND = pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow["kind"])


def some_records(rng, classes=2):
    """Records of several nodes, one of which has none."""
    counts = [1, 2, 0, 1, 3, 1, 1, 2, 1]
    return [(rng.normal(size=(n, FEATURES)), rng.integers(0, classes, n)) for n in counts]


def build(records, classes=2, delay=0, loss=0.0, **keys):
    """A world and a Golf layer whose peers the test names."""
    world = make_world(NODES, delay=delay, loss=loss, layers=["learning"])
    peers = make_layer(GivenPeers, world, "peers")
    keys = {"lambda": LAM, "variant": "own"} | keys
    golf = make_layer(Golf, world, "learning", peers=peers, records=make_raw(records, classes), **keys)
    golf.start(world, np.arange(NODES, dtype=np.int32))
    return world, peers, golf


def some_peers(rng):
    """A peer for each node other than itself, here and there nobody."""
    peer = (np.arange(NODES) + rng.integers(1, NODES, NODES)) % NODES
    return np.where(rng.random(NODES) < 0.2, -1, peer).astype(np.int32)


def models(golf):
    """The models as pairs (w, age)."""
    return [(golf.w[i].astype(float), int(golf.age[i])) for i in range(NODES)]


def assert_models(golf, states):
    for i, (w, age) in enumerate(states):
        assert golf.age[i] == age
        assert golf.w[i] == pytest.approx(w, **ONE)


# ------------------------------------------------------------------------------------------------ merging


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("average", ["plain", "age"])
def test_a_model_that_is_much_older_replaces_the_other_one(rng, average, limit):
    records = some_records(rng)
    world, peers, golf = build(records, limit=limit, average=average)
    states, replaced = models(golf), 0
    for cycle in range(1, 12):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
        for i in world.order:
            if (j := peers._peer[i]) >= 0:
                replaced += abs(states[i][1] - states[j][1]) > limit
                merged = naive.limited_merge(states[i], states[j], limit, average)
                states[j] = naive.update(merged, *records[j], LAM, "pegasos", True)
        assert_models(golf, states)
    assert replaced > 0


@pytest.mark.parametrize("variant", ["rw", "own"])
def test_younger_models_can_be_ignored(rng, variant):
    records = some_records(rng)
    world, peers, golf = build(records, variant=variant, accept="older")
    states, ignored = models(golf), 0
    for cycle in range(1, 12):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
        for i in world.order:
            j = peers._peer[i]
            if j >= 0 and states[i][1] >= states[j][1]:
                came = states[i] if variant == "rw" else naive.merge(states[i], states[j])
                states[j] = naive.update(came, *records[j], LAM, "pegasos", True)
            ignored += j >= 0 and states[i][1] < states[j][1]
        assert_models(golf, states)
    assert ignored > 0


# ------------------------------------------------------------------------------------------------ token accounts


def keys_of(golf):
    return golf.key("turn"), golf.key("answer"), naive.key(1, "learning", "transport.model")


@BY_KIND
@pytest.mark.parametrize("accept", ["all", "older"])
def test_nodes_with_accounts_send_and_answer_as_in_the_plain_version(rng, flow, accept):
    loss, records = 0.2, some_records(rng)
    world, peers, golf = build(records, loss=loss, flow=flow, accept=accept)
    turn, answer, transport = keys_of(golf)
    states, tokens, total, waves = models(golf), [0] * NODES, 0, 0
    for cycle in range(1, 25):
        online = rng.random(NODES) < 0.8
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle, online))

        def take(i, j):
            useful = accept == "all" or states[i][1] >= states[j][1]
            if useful:
                states[j] = naive.update(naive.merge(states[i], states[j]), *records[j], LAM, "pegasos", True)
            return useful

        tokens, sent = naive.token_cycle(
            flow,
            tokens,
            world.order.tolist(),
            lambda i, k: int(peers._peer[i]),
            lambda i, j, k: naive.arrives(transport, cycle, i, j, i, k, loss, online, ()),  # noqa: B023
            take,
            cycle,
            turn,
            answer,
        )
        waves += max(sent) > 1
        total += sum(n for i, n in enumerate(sent) if peers._peer[i] >= 0)
        assert golf.flow.tokens.tolist() == tokens
        assert_models(golf, states)
    counts = world.transport.totals("learning")
    assert counts["messages.sent"] == total
    assert counts["bytes.sent"] == total * (FEATURES * 4 + 4)
    assert waves > 3


@BY_KIND
def test_with_delays_nodes_answer_what_is_due_and_then_have_their_turn(rng, flow):
    loss, records = 0.2, some_records(rng)
    world, peers, golf = build(records, delay=(1, 3), loss=loss, flow=flow)
    turn, answer, transport = keys_of(golf)
    states, tokens, post = models(golf), [0] * NODES, naive.Mailbox()
    for cycle in range(1, 30):
        online = rng.random(NODES) < 0.8
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle, online))
        sent, received, waiting = [0] * NODES, [0] * NODES, []
        due = post.deliver(cycle, online)
        for _, j, model in due:
            states[j] = naive.update(naive.merge(model, states[j]), *records[j], LAM, "pegasos", True)
        for _, j, _ in due:
            h = naive.draw(answer, cycle, j, received[j])
            number, tokens[j] = naive.token_answer(flow, tokens[j], True, h)
            received[j] += 1
            waiting += [j] * number
        for i in world.order:
            sends, tokens[i] = naive.token_turn(flow, tokens[i], naive.draw(turn, cycle, i, 0))
            waiting += [i] * sends
        for i in waiting:
            k, j = sent[i], int(peers._peer[i])
            sent[i] += 1
            if j >= 0:
                arrives = naive.uniform(naive.draw(transport, cycle, i, 2 * k)) >= loss
                lag = 1 + naive.below(naive.draw(transport, cycle, i, 2 * k + 1), 3)
                post.send(cycle + lag, i, j, states[i], arrives)
        assert golf.flow.tokens.tolist() == tokens
        assert_models(golf, states)
    assert world.transport.totals("learning")["messages.sent"] == post.sent > 100


@BY_KIND
@pytest.mark.parametrize("transport", [{}, {"loss": 0.3}, {"delay": [1, 4]}])
def test_nodes_send_at_most_one_message_per_turn_and_the_tokens_of_their_accounts(flow, transport):
    run = simulation(learning_tree(PEERS, GOLF | {"flow": flow}, number=30, cycles=40, transport=transport))
    for cycle in run:
        sent = run.world.transport.totals("learning")["messages.sent"]
        tokens = run.layer("learning").flow.tokens
        assert sent == 30 * cycle - tokens.sum()  # an oracle of peers: who sends always has a receiver
        assert tokens.min() >= 0
        assert tokens.max() <= flow["capacity"]


def test_a_proactive_account_changes_nothing():
    plain = finished(learning_tree(PEERS, GOLF, cycles=10, transport={"loss": 0.2}))
    flow = finished(learning_tree(PEERS, GOLF | {"flow": {"kind": "proactive"}}, cycles=10, transport={"loss": 0.2}))
    assert (plain.layer("learning").w == flow.layer("learning").w).all()
    assert plain.world.transport.totals("learning") == flow.world.transport.totals("learning")


def test_messages_that_answer_messages_die_out_if_they_are_lost():
    reactive = GOLF | {"flow": {"kind": "reactive"}}
    run = simulation(learning_tree(PEERS, reactive, number=50, cycles=120, transport={"delay": 1, "loss": 0.1}))
    under_way = []
    for _ in run:
        under_way.append(run.world.transport.totals("learning")["messages.under_way"])
    assert under_way[0] >= 35
    assert under_way == sorted(under_way, reverse=True)
    assert under_way[-1] == 0  # the last of 50 walks, each with .9^120: one right program in 6000 fails
    assert not run.layer("learning").flow.tokens.any()


def test_without_losses_walks_go_on_for_ever():
    reactive = GOLF | {"flow": {"kind": "reactive"}, "variant": "rw"}
    run = finished(learning_tree(PEERS, reactive, number=50, cycles=60, transport={"delay": 1}))
    totals = run.world.transport.totals("learning")
    assert totals["messages.sent"] == 50 * 60
    assert totals["messages.under_way"] == 50


@pytest.mark.parametrize("answer", [{"delay": [1, 3]}, {}])
def test_a_node_that_returns_afresh_has_no_tokens(answer):
    churn = [{"kind": "rate", "leave": 0.2, "rejoin": 0.5, "return": "afresh"}]
    run = simulation(learning_tree(PEERS, GOLF | {"flow": SIMPLE}, churn=churn, cycles=30, transport=answer))
    seen = 0
    for _ in run:
        came = getattr(run.world, "came", np.empty(0, np.int32))
        seen += len(came)
        assert run.layer("learning").flow.tokens.max() <= SIMPLE["capacity"]
    golf = run.layer("learning")
    golf.flow.tokens[:] = 3
    golf.start(run.world, np.array([4], np.int32))
    assert golf.flow.tokens[4] == 0
    assert (np.delete(golf.flow.tokens, 4) == 3).all()
    assert seen > 0


def test_only_those_send_by_themselves_that_the_layer_names(rng):
    class Half(Golf):
        """Nodes with even numbers have no turn of their own."""

        def senders(self, world):
            return world.order[world.order % 2 == 1]

    world = make_world(NODES, layers=["learning"])
    peers = make_layer(GivenPeers, world, "peers")
    half = make_layer(
        Half, world, "learning", peers=peers, records=make_raw(some_records(rng), 2), flow=SIMPLE, **{"lambda": LAM}
    )
    half.start(world, np.arange(NODES, dtype=np.int32))
    peers._peer = ((np.arange(NODES) + 2) % 8).astype(np.int32)  # odd to odd
    for cycle in range(1, 12):
        half.step(at_cycle(world, cycle))
    assert (half.flow.tokens[::2] == 0).all()
    assert world.transport.totals("learning")["messages.sent"] == 11 * 4 - half.flow.tokens.sum()


# ------------------------------------------------------------------------------------------------ parts


@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("batch", ["mini-batch", "one-by-one"])
@pytest.mark.parametrize(("classes", "learner"), [(2, "pegasos"), (3, "logistic")])
def test_each_part_of_a_model_has_an_age_and_a_step_of_its_own(rng, classes, learner, batch, limit):
    parts, records = 3, some_records(rng, classes)
    world, peers, golf = build(
        records, classes, message={"parts": parts}, average="age", batch=batch, learner=learner, limit=limit
    )
    states = [naive.Divided(w, age, (0,) * parts) for w, age in models(golf)]
    bytes_ = 0
    for cycle in range(1, 12):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
        for i in world.order:
            part = naive.below(naive.draw(golf.key("part"), cycle, i, 0), parts)
            if (j := peers._peer[i]) >= 0:
                bytes_ += 10 + 4 * golf.w.shape[1] * len(range(part, FEATURES, parts))
                states[j] = naive.take_part(
                    states[j], states[i], part, *records[j], LAM, learner, batch == "mini-batch", "age",
                    math.inf if limit is None else limit,
                )  # fmt: skip
        assert golf.part_age.tolist() == [list(state.ages) for state in states]
        for i, state in enumerate(states):
            assert golf.age[i] == state.age
            assert golf.w[i] == pytest.approx(state.w, rel=1e-3, abs=1e-3)
    assert world.transport.totals("learning")["bytes.sent"] == bytes_
    assert (golf.part_age < golf.age[:, None]).any()


def test_a_part_has_an_account_of_its_own_and_is_answered_by_the_same_part(rng):
    parts, records = 2, some_records(rng)
    world, peers, golf = build(records, message={"parts": parts}, flow=GENERALISED)
    tokens = np.zeros((NODES, parts), int)
    turn, answer, _ = keys_of(golf)
    for cycle in range(1, 25):
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle))
        waiting, received = [], [0] * NODES
        for i in world.order:
            part = naive.below(naive.draw(golf.key("part"), cycle, i, 0), parts)
            sends, tokens[i, part] = naive.token_turn(GENERALISED, tokens[i, part], naive.draw(turn, cycle, i, 0))
            waiting += [(i, part)] * sends
        while waiting:
            arrived = [(peers._peer[i], part) for i, part in waiting if peers._peer[i] >= 0]
            waiting = []
            for j, part in arrived:
                h = naive.draw(answer, cycle, j, received[j])
                number, tokens[j, part] = naive.token_answer(GENERALISED, tokens[j, part], True, h)
                received[j] += 1
                waiting += [(j, part)] * number
        assert golf.flow.tokens.reshape(NODES, parts).tolist() == tokens.tolist()


@pytest.mark.parametrize("transport", [{}, {"delay": [1, 3], "loss": 0.2}])
def test_a_part_is_never_older_than_the_model(transport):
    golf = GOLF | {"variant": "own", "average": "age", "message": {"parts": 2}, "flow": RANDOMISED}
    run = simulation(learning_tree(VIEWS, golf, cycles=25, transport=transport))
    for _ in run:
        layer = run.layer("learning")
        assert (layer.part_age <= layer.age[:, None]).all()
    assert (layer.part_age < layer.age[:, None]).any()


# ------------------------------------------------------------------------------------------------ encoded messages

ENCODINGS = {
    "sample": {"sample": 0.4},
    "largest": {"top": 0.4},
    "half": {"codec": "float16"},
    "quantised": {"codec": "quantised", "bits": 3},
    "largest, quantised": {"top": 0.6, "codec": "quantised", "bits": 4},
}


def encoded(message, w, key, cycle, sender, references):
    """What the receiver gets of a model, row by row."""
    config, found = MessageConfig(**message), []
    size = config.carried(FEATURES)
    for m, row in enumerate(w):
        k = 2 * FEATURES * m
        if config.sample:
            row = naive.sampled(row, size, key, cycle, sender, k)
        if config.top:
            row = naive.largest(row, size, references[sender, m])
        if config.codec == "float16":
            row = naive.half(np.float32(row))
        if config.codec == "quantised":
            row = naive.quantised(row, config.bits, key, cycle, sender, k + FEATURES)
        if config.top:
            references[sender, m] = np.where(np.isnan(row), references[sender, m], row)
        found.append(row)
    return np.array(found)


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("delay", [0, 1])
def test_a_node_merges_what_a_message_carries(rng, name, delay):
    message, records = ENCODINGS[name], some_records(rng, 3)
    world, peers, golf = build(records, 3, delay=delay, message=message)
    golf.w[:] = rng.normal(size=golf.w.shape)
    key, rows_ = golf.key("message"), golf.w.shape[1]
    states, references, post = models(golf), np.zeros((NODES, rows_, FEATURES)), naive.Mailbox()
    for cycle in range(1, 8):
        online = rng.random(NODES) < 0.8
        peers._peer = some_peers(rng)
        golf.step(at_cycle(world, cycle, online))

        def take(j, w, age):
            own, own_age = states[j]
            merged = np.where(np.isnan(w), own, (w + own) / 2)
            states[j] = naive.update((merged, max(age, own_age)), *records[j], LAM, "pegasos", True)

        for _, j, (w, age) in post.deliver(cycle, online):
            take(j, w, age)
        for i in world.order:
            j = peers._peer[i]
            if j >= 0 and (delay or online[j]):
                w = encoded(message, states[i][0], key, cycle, i, references)
                if delay:
                    post.send(cycle + delay, i, j, (w, states[i][1]))
                else:
                    take(j, w, states[i][1])
        # a rounding at random may fall on the other side by the last bit of single precision: none did
        assert_models(golf, states)
        if "top" in message:
            assert golf.reference == pytest.approx(references, rel=1e-4, abs=1e-4)
    sent = world.transport.totals("learning")
    assert sent["bytes.sent"] == sent["messages.sent"] * MessageConfig(**message).size(rows_, FEATURES) > 0


@pytest.mark.parametrize("variant", ["algorithm1", "rw", "mu", "um"])
def test_other_variants_take_encoded_models_that_are_complete(variant):
    golf = GOLF | {"variant": variant, "message": {"codec": "quantised", "bits": 12}}
    coarse = finished(learning_tree(PEERS, golf, cycles=8)).layer("learning")
    fine = finished(learning_tree(PEERS, GOLF | {"variant": variant}, cycles=8)).layer("learning")
    assert (coarse.age == fine.age).all()
    assert (coarse.w != fine.w).any()
    largest = float(np.abs(fine.w).max())
    assert coarse.w == pytest.approx(fine.w, abs=0.05 * largest)


def graph(rng, records, **keys):
    """Golf over a static graph of all pairs of nodes."""
    world = make_world(NODES, layers=["learning"], **keys)
    peers = make_layer(StaticOverlay, world, "peers", generator="complete_graph")
    golf = make_layer(
        Golf, world, "learning", peers=peers, records=make_raw(records, 2), variant="own",
        message={"codec": "pivot"}, **{"lambda": LAM},
    )  # fmt: skip
    golf.start(world, np.arange(NODES, dtype=np.int32))
    return world, golf


@pytest.mark.parametrize("loss", [0.0, 0.4])
def test_both_ends_of_each_link_agree_on_the_estimates(rng, loss):
    records = some_records(rng)
    world, golf = graph(rng, records, loss=loss)
    transport = naive.key(1, "learning", "transport.model")
    ends = {}  # of the receivers: they see bits only
    states = models(golf)
    for cycle in range(1, 15):
        world = at_cycle(world, cycle)
        peer = golf.config.peers.choose(world, world.order, golf.key("peer"))
        golf.step(world)
        for i, j in zip(world.order, peer, strict=True):
            if naive.arrives(transport, cycle, i, j, i, 0, loss, world.online, ()):
                link = ends.setdefault((i, j), [naive.Pivot() for _ in range(FEATURES)])
                bits = [end.encode(float(np.float32(x))) for end, x in zip(link, states[i][0][0], strict=True)]
                w = np.array([[end.decode(bit) for end, bit in zip(link, bits, strict=True)]])
                merged = naive.merge((w, states[i][1]), states[j])
                states[j] = naive.update(merged, *records[j], LAM, "pegasos", True)
        assert_models(golf, states)
    sent = world.transport.totals("learning")
    assert sent["bytes.sent"] == sent["messages.sent"] * (4 + 1)


def test_a_node_that_starts_afresh_forgets_its_links_and_so_do_their_other_ends(rng):
    world, golf = graph(rng, some_records(rng))
    for cycle in range(1, 15):
        golf.step(at_cycle(world, cycle))
    before = golf.estimate.copy()
    golf.start(world, np.array([4], np.int32))
    links = golf.config.peers.links(world)
    source, target = np.repeat(np.arange(NODES), np.diff(links.indptr)), links.indices
    forgotten = (source == 4) | (target == 4)
    assert before[forgotten].any()
    assert not golf.estimate[forgotten].any()
    assert not golf.moved[forgotten].any()
    assert (golf.link_step[forgotten] == 1).all()
    assert (golf.estimate[~forgotten] == before[~forgotten]).all()


@pytest.mark.parametrize("message", [{"top": 0.4}, {"codec": "pivot"}, {"codec": "float16"}, {"sample": 0.4}])
def test_an_adversary_encodes_the_model_that_it_sends(message):
    """If all nodes send the negative of their models, that is what arrives: never the model itself."""
    everybody = [{"kind": "negative", "share": 1.0}]
    golf = GOLF | {"variant": "own", "message": message, "learner": "mean"}
    lying = simulation(learning_tree(GRAPH, golf, cycles=6, adversary=everybody))
    for _ in lying:
        pass
    honest = finished(learning_tree(GRAPH, golf, cycles=6))
    assert (lying.layer("learning").w != honest.layer("learning").w).any()
    if "top" in message:
        reference, w = lying.layer("learning").reference, honest.layer("learning").w
        assert (reference * w)[np.abs(w) > 0.1].mean() < 0


# ------------------------------------------------------------------------------------------------ the same rows

EVERYTHING = {
    "simple": {"flow": SIMPLE},
    "randomised, parts": {"variant": "own", "average": "age", "flow": RANDOMISED, "message": {"parts": 2}},
    "generalised, largest": {"variant": "own", "flow": GENERALISED, "message": {"top": 0.5, "codec": "float16"}},
    "largest": {"variant": "own", "message": {"top": 0.5}},
    "pivot, tokens": {"variant": "own", "flow": SIMPLE, "message": {"codec": "pivot"}},
    "pivot": {"message": {"codec": "pivot"}},
    "quantised sample": {"variant": "own", "message": {"sample": 0.5, "codec": "quantised"}},
    "limit": {"variant": "own", "limit": 2, "average": "age", "accept": "older", "flow": RANDOMISED},
}
CHURN = [{"kind": "rate", "leave": 0.1, "rejoin": 0.5, "return": "afresh"}]


def whole(settings, **tables):
    """A run with churn, loss and, where it is allowed, delays."""
    delay = {} if settings.get("message", {}).get("codec") == "pivot" else {"delay": [1, 3]}
    how = {"churn": CHURN, "transport": {"loss": 0.1} | delay, "order": "shuffled", "cycles": 14} | tables
    return learning_tree(GRAPH, GOLF | settings, number=60, **how)


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("delayed", [False, True])
def test_any_number_of_threads_gives_the_same_state(name, delayed, monkeypatch):
    monkeypatch.setattr(threads, "SMALLEST_SHARE", 4)
    settings = EVERYTHING[name]
    tables = {} if delayed else {"transport": {"loss": 0.1}}
    one, two = (finished(whole(settings, **tables), threads=number) for number in (1, 2))
    assert one.layer("learning").w.any()
    assert rows(one) == rows(two)
    assert_same_state(one, two)


@pytest.mark.parametrize("name", EVERYTHING)
def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path, name):
    tree = whole(EVERYTHING[name])
    half = simulation(tree)
    for _ in range(6):
        half.step()
    checkpoint.save(half, tmp_path / "state")
    resumed = simulation(tree)
    checkpoint.load(resumed, tmp_path / "state")
    assert_same_state(resumed, half)
    assert list(resumed) == list(range(7, 15))
    complete = finished(tree)
    assert rows(resumed) == rows(complete)
    assert_same_state(resumed, complete)


def test_noise_in_gradients_is_spent_as_without_parts_and_accounts():
    noisy = GOLF | {"variant": "own", "epsilon": 5.0, "schedule": {"kind": "uniform", "visits": 3}}
    noisy |= {"flow": SIMPLE, "message": {"parts": 2}}
    run = simulation(
        learning_tree(
            PEERS, noisy, cycles=12, data={"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
        )
    )
    for _ in run:
        assert run.layer("learning").ledger.metrics()["spent.max"] <= 5.0
    assert run.layer("learning").ledger.metrics()["spent.max"] == pytest.approx(5.0)


# ------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("settings", "tables", "message"),
    [
        ({"flow": {"kind": "reactive"}}, {}, "which never ends"),
        ({"limit": 2}, {}, 'limit needs variant = "own"'),
        ({"message": {"parts": 2}}, {}, 'a part of a model needs variant = "own"'),
        ({"variant": "own", "clip": 1.0, "message": {"top": 0.5}}, {}, "the length of a part of a model"),
        ({"variant": "own", "message": {"parts": 9}}, {}, "cannot be divided into 9 parts"),
        ({"message": {"codec": "pivot"}, "peers": "views"}, {}, "“pivot” needs links that stay"),
        ({"message": {"codec": "pivot"}}, {"transport": {"delay": 1}}, "messages may have no delay"),
        ({"message": {"codec": "pivot", "bits": 2}}, {}, "“bits” needs codec"),
        ({"flow": {"kind": "generalised", "capacity": 3, "spend": 4}}, {}, r"spend (4) is larger than capacity (3)"),
        ({"flow": {"kind": "tokens"}}, {}, "flow"),
    ],
)
def test_a_mistake_is_reported_with_its_key(settings, tables, message):
    views = {"name": "views", "use": "newscast", "view": 5}
    with pytest.raises(UserError) as error:
        simulation(learning_tree(GRAPH, views, GOLF | settings, **tables))
    assert message in f"{error.value} {error.value.hint}"
    assert "learning" in str(error.value) or "learning" in str(error.value.key)
