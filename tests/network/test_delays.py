"""Messages on their way through a network with loss, delay and cuts."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest
from helpers import (
    ALPHA,
    GivenPeers,
    at_cycle,
    finished,
    learning_tree,
    make_layer,
    make_raw,
    make_world,
    needs_jit,
    simulation,
    tree,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from golfsim.core.errors import UserError
from golfsim.network import transport
from golfsim.network.mailbox import Mailbox
from golfsim.protocol.views import PEER, TIME
from golfsim.runs.single import run as run_scenario
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint
from golfsim.sim.simulation import Simulation
from protocols.golf import Golf
from protocols.newscast import Newscast

LAYER = SimpleNamespace(name="layer")
VIEWS = {"name": "peers", "use": "newscast", "view": 6}
UNIFORM = {"name": "peers", "use": "uniform"}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}


def config(**table):
    """A transport table as a scenario has it."""
    return Scenario.of(tree(UNIFORM, transport=table)).transport


def sent_lags(nodes, cycles, **table):
    """The lags of one message of each node a cycle."""
    world = make_world(nodes, **config(**table).model_dump(by_alias=True))
    everyone = np.arange(nodes, dtype=np.int32)
    lags = [
        at_cycle(world, cycle).transport.send(LAYER, "model", everyone, np.roll(everyone, 1), 1)[1]
        for cycle in range(1, cycles + 1)
    ]
    return np.concatenate(lags)


# ------------------------------------------------------------------------------------------------ how long


@pytest.mark.parametrize("delay", [1, 4])
def test_a_fixed_delay_is_that_of_every_message(delay):
    assert set(sent_lags(50, 3, delay=delay)) == {delay}


def test_without_a_delay_a_message_has_no_lag():
    world = at_cycle(make_world(3), 1)
    _, lag = world.transport.send(LAYER, "model", world.order, np.roll(world.order, 1), 1)
    assert lag is None
    assert world.transport.longest == 0


def test_a_delay_between_two_bounds_is_uniform():
    counts = np.bincount(sent_lags(1000, 5, delay=[3, 7]))
    assert counts[:3].sum() == 0
    assert counts.size == 8
    assert stats.chisquare(counts[3:]).pvalue > ALPHA


DISTRIBUTIONS = [
    pytest.param({"kind": "lognormal", "max": 9, "mu": 0.5, "sigma": 1.0}, stats.lognorm(s=1, scale=np.exp(0.5))),
    pytest.param({"kind": "lognormal", "max": 3, "mu": 2.0, "sigma": 0.5}, stats.lognorm(s=0.5, scale=np.exp(2))),
    pytest.param({"kind": "exponential", "max": 12, "mean": 2.5}, stats.expon(scale=2.5)),
]


@pytest.mark.parametrize(("delay", "distribution"), DISTRIBUTIONS)
def test_a_delay_from_a_distribution_is_rounded_up_and_cut_at_the_maximum(delay, distribution):
    lags = sent_lags(2000, 5, delay=delay)
    edges = np.arange(delay["max"] + 1)
    share = np.diff(distribution.cdf(edges))
    share[-1] += distribution.sf(delay["max"])
    counts = np.bincount(lags, minlength=edges.size)
    assert counts.size == edges.size
    assert counts[0] == 0
    assert stats.chisquare(counts[1:], share * lags.size).pvalue > ALPHA


def test_a_lognormal_delay_without_spread_is_fixed():
    assert set(sent_lags(20, 2, delay={"kind": "lognormal", "max": 9, "mu": float(np.log(3.5)), "sigma": 0})) == {4}


def test_lags_and_losses_of_a_message_are_independent():
    sent = []
    for loss in (0.3, 0):
        world = at_cycle(make_world(20_000, loss=loss, delay=(1, 2)), 1)
        sent.append(world.transport.send(LAYER, "model", world.order, np.roll(world.order, 1), 1))
    (arrives, lossy_lag), (everything, lag) = sent
    assert everything.all()
    assert (lossy_lag[arrives] == lag[arrives]).all()  # so what is lost would have taken as long without loss
    table = [[(arrives & (lag == days)).sum(), (~arrives & (lag == days)).sum()] for days in (1, 2)]
    assert stats.chi2_contingency(table).pvalue > ALPHA
    assert stats.binomtest(int((~arrives).sum()), arrives.size, 0.3).pvalue > ALPHA


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"delay": [5, 2]}, "from ≤ to"),
        ({"delay": [0, 2]}, "delay"),
        ({"delay": -1}, "delay"),
        ({"delay": {"kind": "lognormal", "mu": 1.0}}, "max"),
        ({"loss": 1.5}, "loss"),
        ({"partition": [{"share": 0.5, "from": 5, "until": 4}]}, "lies before"),
    ],
)
def test_an_impossible_transport_is_refused(table, message):
    with pytest.raises(UserError, match=message):
        config(**table)


# ------------------------------------------------------------------------------------------------ what is carried


def test_a_delayed_model_is_the_one_that_was_sent():
    world = make_world(2, delay=3)
    records = make_raw([(np.zeros((0, 2)), []), (np.zeros((0, 2)), [])], 2)
    peers = make_layer(GivenPeers, world)
    peers._peer = np.array([1, -1], np.int32)
    golf = make_layer(Golf, world, peers=peers, records=records, variant="rw")
    golf.w[0] = [[1, 2]]
    golf.age[0] = 5
    for cycle in range(1, 5):
        at_cycle(world, cycle)
        golf.step(world)
        golf.w[0] += 10  # the sender's model moves on
        golf.age[0] += 1
        assert golf.w[1].tolist() == ([[0, 0]] if cycle < 4 else [[1, 2]])
    assert golf.age[1] == 5
    assert world.transport.totals("layer")["messages.under_way"] == 3


def reference_run(records, peer_of, online_of, lags_of, cycles, variant):
    """Golf with delays by the plain references: states of all nodes after the last cycle, and the mailbox."""
    states = [naive.start(1, 2) for _ in records]
    box = naive.Mailbox()
    for cycle in range(1, cycles + 1):
        for _, dst, model in box.deliver(cycle, online_of(cycle)):
            xs, labels = records[dst]
            states[dst] = naive.on_receive(states[dst], model, xs, labels, variant, 1e-2, "pegasos")
        for node in np.flatnonzero(online_of(cycle)):
            if peer_of[node] >= 0:
                box.send(cycle + lags_of[cycle][node], node, peer_of[node], states[node].current)
    return states, box


@pytest.mark.parametrize("variant", ["algorithm1", "rw", "mu", "um"])
@pytest.mark.parametrize("threads", [1, 2])
def test_learning_with_delays_and_churn_is_what_the_plain_reference_computes(variant, threads, rng):
    nodes, cycles = 9, 12
    records = [(rng.normal(size=(2, 2)), rng.integers(0, 2, 2).tolist()) for _ in range(nodes)]
    peer = rng.permutation(nodes).astype(np.int32)
    peer[peer == np.arange(nodes)] = -1
    online = {cycle: rng.random(nodes) < 0.7 for cycle in range(1, cycles + 1)}
    world = make_world(nodes, delay=(1, 4), threads=threads)
    peers = make_layer(GivenPeers, world)
    peers._peer = peer
    keys = {"peers": peers, "records": make_raw(records, 2), "variant": variant, "lambda": 1e-2}
    golf = make_layer(Golf, world, **keys)
    lags = {}
    for cycle in range(1, cycles + 1):
        at_cycle(world, cycle, online[cycle])
        probe = at_cycle(make_world(nodes, delay=(1, 4)), cycle, online[cycle])
        _, lag = probe.transport.send(LAYER, "model", world.order, peer[world.order], 1)
        lags[cycle] = dict(zip(world.order.tolist(), lag.tolist(), strict=True))
        golf.step(world)
    states, box = reference_run(records, peer, online.__getitem__, lags, cycles, variant)
    assert np.allclose(golf.w, [state.current[0] for state in states], rtol=1e-4, atol=1e-4)
    assert golf.age.tolist() == [state.current[1] for state in states]
    totals = world.transport.totals("layer")
    assert totals["messages.delivered"] == box.delivered > 10
    assert totals["messages.lost"] == box.lost > 0
    assert totals["messages.under_way"] == box.under_way > 0


def test_messages_under_way_are_part_of_a_checkpoint(tmp_path):
    table = learning_tree(VIEWS, GOLF, number=30, cycles=14, transport={"delay": [2, 6], "loss": 0.2})
    whole = finished(table)
    part = simulation(table)
    for _ in range(7):
        part.step()
    assert part.world.transport.totals("learning")["messages.under_way"] > 30
    checkpoint.save(part, tmp_path / "half")
    again = simulation(table)
    checkpoint.load(again, tmp_path / "half")
    for _ in again:
        pass
    assert again.log.values == whole.log.values
    assert np.array_equal(again.layers["learning"].mail.w, whole.layers["learning"].mail.w)
    assert np.array_equal(again.layers["peers"].views, whole.layers["peers"].views)


def test_a_message_is_lost_when_its_receiver_is_offline_on_arrival():
    world = make_world(4, delay=2)
    box = Mailbox(LAYER, world, value=np.zeros(4))
    src, dst = np.array([0, 1], np.int32), np.array([2, 3], np.int32)
    at_cycle(world, 1, [True, True, False, True])  # the receiver need not be online when it is sent
    arrives, lag = world.transport.send(LAYER, "model", src, dst, 8)
    assert arrives.all()
    box.put(world, lag, src, dst, arrives, value=np.array([10.0, 11, 0, 0]))
    at_cycle(world, 2)
    assert box.due(world)[0].size == 0
    at_cycle(world, 3, [False, False, True, False])  # nor need the sender be, on arrival
    slots, receivers = box.due(world)
    assert receivers.tolist() == [2]
    assert box.value[slots].tolist() == [10]
    assert world.transport.totals("layer") == {
        "messages.sent": 2, "messages.delivered": 1, "messages.lost": 1, "messages.under_way": 0, "bytes.sent": 16,
    }  # fmt: skip


def test_what_came_due_while_a_layer_rested_long_is_delivered_in_its_next_turn():
    world = make_world(2, delay=(1, 3))
    box = Mailbox(LAYER, world, value=np.zeros(2))
    at_cycle(world, 1)
    box.due(world)
    for lag in (3, 1, 2):
        src, dst = np.array([0], np.int32), np.array([1], np.int32)
        box.put(world, np.array([lag], np.int32), src, dst, np.array([True]), value=np.array([lag, 0.0]))
    at_cycle(world, 6)
    slots, _ = box.due(world)
    assert box.value[slots].tolist() == [3, 1, 2], "in sending order"


# ------------------------------------------------------------------------------------------------ memory


# What a message of a model of two features needs: src, dst, when it is due, a free slot, its number, an age, the model.
BYTES = 4 + 4 + 4 + 4 + 8 + 4 + 2 * 4


def test_the_memory_of_messages_is_predicted_to_the_byte(monkeypatch):
    monkeypatch.setattr(transport, "available", lambda: 1000 * BYTES)
    mail = simulation(learning_tree(UNIFORM, GOLF, number=100, transport={"delay": 10})).layers["learning"].mail
    kept = [mail.src, mail.dst, mail.due_at, mail.free, mail.number, mail.w, mail.age]
    assert sum(array.nbytes for array in kept) == 1000 * BYTES


def test_more_messages_than_memory_are_refused_beforehand(monkeypatch):
    monkeypatch.setattr(transport, "available", lambda: 1000 * BYTES - 1)
    expected = (
        "up to 1,000 messages can be in transit, which needs 35.2 KiB of memory, 35.2 KiB with all layers; "
        "35.2 KiB are available"
    )
    with pytest.raises(UserError, match=expected) as error:
        simulation(learning_tree(UNIFORM, GOLF, number=100, transport={"delay": [3, 10]}))
    assert error.value.key == "transport.delay"
    assert "shorten the longest delay" in error.value.hint


def test_the_refusal_names_the_line_of_the_scenario(monkeypatch, tmp_path):
    monkeypatch.setattr(transport, "available", lambda: 1000)
    (tmp_path / "scenario.toml").write_text(
        'name = "x"\nseed = 1\ncycles = 2\n[nodes]\nnumber = 50\n[[protocol]]\nname = "p"\nuse = "newscast"\nview = 5\n'
        "[transport]\ndelay = 10\n"
    )
    with pytest.raises(UserError, match=r"(?s)scenario.toml:11: transport.delay: up to 1,000 messages.*shorten"):
        run_scenario(Scenario.load(tmp_path / "scenario.toml"))


def test_without_delays_nothing_is_predicted(monkeypatch):
    monkeypatch.setattr(transport, "available", lambda: 0)
    run = finished(learning_tree(VIEWS, GOLF, number=20, transport={"loss": 0.5}))
    assert run.world.cycle == run.scenario.cycles


def test_the_mailboxes_of_all_layers_together_must_fit(monkeypatch):
    monkeypatch.setattr(transport, "available", lambda: 1500 * BYTES)
    second = GOLF | {"name": "again"}
    with pytest.raises(UserError, match="in transit"):
        simulation(learning_tree(UNIFORM, GOLF, second, number=100, transport={"delay": 10}))


# ------------------------------------------------------------------------------------------------ Newscast


def assert_views_are_sound(views, now, online_ever):
    for node, view in enumerate(views):
        there = view[view >= 0]
        peers, stamps = there & PEER, there >> TIME
        assert (view[there.size :] == -1).all(), "descriptors stand at the front"
        assert (np.diff(stamps) <= 0).all(), "freshest first"
        assert np.unique(peers).size == peers.size, "nobody twice"
        assert node not in peers, "never itself"
        assert ((stamps >= 0) & (stamps <= now)).all()
        assert online_ever[peers].all(), "nobody who was never there"


@given(
    st.integers(1, 12),
    st.integers(1, 14),
    st.sampled_from([0, 1, 3, (1, 4), (2, 2)]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from(["oracle", "none"]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_newscast_counts_all_messages_and_has_valid_views_under_all_faults(
    nodes, view, delay, loss, liveness, cut, seed
):
    partition = ({"share": 0.4, "from": 3, "until": 5, "contacts": 2},) if cut else ()
    table = tree(
        VIEWS | {"view": view, "liveness": liveness}, nodes=nodes, cycles=10, seed=seed,
        churn={"kind": "rate", "leave": 0.3, "rejoin": 0.4},
        transport={"delay": list(delay) if isinstance(delay, tuple) else delay, "loss": loss, "partition": partition},
    )  # fmt: skip
    run = simulation(table)
    layer = run.layers["peers"]
    for cycle in run:
        counts = run.world.transport.totals("peers")
        assert min(counts.values()) >= 0
        assert counts["bytes.sent"] == 8 * view * counts["messages.sent"]
        waiting = layer.mail.dst.size - layer.mail.free_count if delay else 0
        assert counts["messages.under_way"] == waiting
        assert_views_are_sound(layer.views, cycle, run.world.seen)


def plain_views(views):
    return [[(int(word & PEER), int(word >> TIME)) for word in view if word >= 0] for view in views]


def test_a_delayed_request_brings_the_senders_view_as_it_was_and_is_answered_with_the_receivers():
    world = make_world(6, delay=2)
    layer = make_layer(Newscast, world, view=3)

    def words(*pairs):
        row = np.full(3, -1, np.int64)
        row[: len(pairs)] = [(stamp << TIME) | peer for peer, stamp in pairs]
        return row

    layer.views[0] = words((1, 3))
    layer.views[1] = words((4, 3), (5, 2))
    at_cycle(world, 4)
    world.order = np.array([0], np.int32)  # nobody else acts
    layer.step(world)
    assert world.transport.totals("layer")["messages.under_way"] == 1
    layer.views[0] = words((2, 5), (3, 5))  # changes afterwards are not seen
    at_cycle(world, 6, np.arange(6) == 1)
    world.order = np.empty(0, np.int32)
    layer.step(world)
    assert plain_views(layer.views)[1] == [(0, 4), (4, 3), (5, 2)], "a descriptor of the sender, of when it was sent"
    layer.views[1] = words((2, 7))
    at_cycle(world, 8, np.arange(6) == 0)
    world.order = np.empty(0, np.int32)
    layer.step(world)
    assert plain_views(layer.views)[0] == [(1, 6), (2, 5), (3, 5)], "node 1 of cycle 6, and its view of then"
    assert world.transport.totals("layer") == {
        "messages.sent": 2, "messages.delivered": 2, "messages.lost": 0, "messages.under_way": 0, "bytes.sent": 48,
    }  # fmt: skip


@pytest.mark.parametrize("delay", [0, 1, [1, 3]])
def test_requests_and_answers_are_lost_separately(delay):
    nodes, cycles, loss = 400, 12, 0.3
    table = tree(VIEWS, nodes=nodes, cycles=cycles, transport={"loss": loss, "delay": delay})
    if delay == 0:
        counts = finished(table).world.transport.totals("peers")
        requests = nodes * cycles  # everybody always knows somebody
        answers = counts["messages.sent"] - requests
        assert stats.binomtest(answers, requests, 1 - loss).pvalue > ALPHA  # one for each request that arrives
        answered = counts["messages.delivered"] - answers
        assert stats.binomtest(answered, answers, 1 - loss).pvalue > ALPHA
    else:
        counts = finished(table).world.transport.totals("peers")
        assert stats.binomtest(counts["messages.lost"], counts["messages.sent"], loss).pvalue > ALPHA


def lose(what, world, monkeypatch):
    """Let all messages of one kind get lost, and no other."""
    wire = world.transport.wire
    loss = {what: 1.0}
    monkeypatch.setattr(
        world.transport, "wire", lambda layer, kind, size: wire(layer, kind, size)._replace(loss=loss.get(kind, 0.0))
    )


def test_when_only_the_answer_is_lost_the_asked_node_has_learnt_and_the_asking_has_not(monkeypatch):
    world = at_cycle(make_world(4), 5)
    layer = make_layer(Newscast, world, view=3)
    layer.views[0, 0] = (np.int64(3) << TIME) | 1
    layer.views[1, 0] = (np.int64(4) << TIME) | 2
    world.order = np.array([0], np.int32)
    lose("answer", world, monkeypatch)
    layer.step(world)
    assert plain_views(layer.views)[0] == [(1, 3)]
    assert plain_views(layer.views)[1] == [(0, 5), (2, 4)]
    assert world.transport.totals("layer")["messages.sent"] == 2
    assert world.transport.totals("layer")["messages.lost"] == 1


def test_when_the_request_is_lost_nobody_has_learnt(monkeypatch):
    world = at_cycle(make_world(4), 5)
    layer = make_layer(Newscast, world, view=3)
    layer.views[0, 0] = (np.int64(3) << TIME) | 1
    world.order = np.array([0], np.int32)
    lose("request", world, monkeypatch)
    layer.step(world)
    assert plain_views(layer.views) == [[(1, 3)], [], [], []]
    assert world.transport.totals("layer")["messages.sent"] == world.transport.totals("layer")["messages.lost"] == 1


@needs_jit
@pytest.mark.parametrize("delay", [[1, 3], {"kind": "exponential", "max": 8, "mean": 2.0}])
def test_newscast_with_delays_stays_one_network(delay):
    table = tree(VIEWS | {"view": 20}, nodes=1000, cycles=40, transport={"delay": delay}, observe={"overlay": 40})
    figures = finished(table).latest["peers"]
    assert figures["components"] == 1
    assert figures["degree.min"] >= 20


# ------------------------------------------------------------------------------------------------ cuts


def halves(run):
    """The side of each node while the network is cut."""
    return run.world.transport._sides[0]


def cut_tree(*layers, contacts=0, until=34, cycles=60, share=0.5, nodes=120, **more):
    cut = {"share": share, "from": 4, "until": until, "contacts": contacts}
    return tree(*layers, nodes=nodes, cycles=cycles, **({"transport": {"partition": [cut]}} | more))


@pytest.mark.parametrize("share", [0.5, 0.25, 0.1])
def test_a_cut_takes_its_share_of_the_nodes(share):
    run = simulation(cut_tree(VIEWS, share=share, nodes=200))
    assert halves(run).sum() == round(200 * share)
    assert run.world.transport.side().size == 0
    for cycle in run:
        assert run.world.transport.side().size == (200 if 4 <= cycle <= 34 else 0)


@pytest.mark.parametrize("delay", [0, [1, 3]])
def test_no_message_crosses_a_cut(delay):
    table = learning_tree(
        UNIFORM, GOLF | {"variant": "rw"}, number=60, cycles=25,
        transport={"delay": delay, "partition": [{"share": 0.5, "from": 1, "until": 25}]},
    )  # fmt: skip
    run = simulation(table)
    inside = halves(run) == 1
    # With records of one feature a side, a model shows which side it has been on.
    run.raw._x[:] = 0
    run.raw._x[np.repeat(inside, run.raw._counts), 0] = 1
    run.raw._x[np.repeat(~inside, run.raw._counts), 1] = 1
    golf = run.layers["learning"]
    for _ in run:
        pass
    assert (golf.w[inside, 0, 1] == 0).all()
    assert (golf.w[~inside, 0, 0] == 0).all()
    assert (golf.w[inside, 0, 0] != 0).mean() > 0.5
    counts = run.world.transport.totals("learning")
    assert stats.binomtest(counts["messages.lost"], counts["messages.sent"], 30 / 59).pvalue > ALPHA


@pytest.mark.parametrize("delay", [0, 2])
def test_no_view_crosses_a_cut(delay):
    table = cut_tree(VIEWS | {"view": 20}, nodes=40, until=8, cycles=14)
    table["transport"]["delay"] = delay
    run = simulation(table)
    views, side = run.layers["peers"].views, halves(run)
    crossed = set()
    for cycle in run:
        # Descriptors that were made since the cut began, or since it healed.
        node, place = np.nonzero((views >= 0) & (views >> TIME >= (4 if cycle <= 8 else 9)))
        if (side[node] != side[views[node, place] & PEER]).any():
            crossed.add(cycle)
    assert not {cycle for cycle in crossed if 4 <= cycle <= 8}
    assert crossed, "and afterwards the two sides, who still know each other, talk again"


def test_what_is_under_way_when_the_cut_comes_is_lost():
    world = make_world(2, delay=3, partition=({"share": 0.5, "from": 3, "until": 9},))
    box = Mailbox(LAYER, world, value=np.zeros(2))
    at_cycle(world, 1)
    src, dst = np.array([0], np.int32), np.array([1], np.int32)
    arrives, lag = world.transport.send(LAYER, "model", src, dst, 8)
    assert arrives.all()
    box.put(world, lag, src, dst, arrives, value=np.array([1.0, 0]))
    for cycle in (2, 3, 4):
        slots, _ = box.due(at_cycle(world, cycle))
        assert slots.size == 0
    assert world.transport.totals("layer")["messages.lost"] == 1


@needs_jit
@pytest.mark.parametrize("delay", [0, [1, 2]])
@pytest.mark.parametrize(("contacts", "parts"), [(0, 2), (1, 1), (5, 1)])
def test_a_cut_makes_two_networks_and_only_a_contact_joins_them_again(delay, contacts, parts):
    table = cut_tree(VIEWS | {"view": 20}, nodes=200, contacts=contacts, until=80, cycles=110, observe={"overlay": 1})
    table["transport"]["delay"] = delay
    found = {}
    run = simulation(table)
    for cycle in run:
        found[cycle] = run.latest["peers"]["components"]
    assert found[3] == 1
    assert found[80] == 2
    assert found[110] == parts


def test_the_contacts_are_of_the_other_side_and_both_learn_of_each_other():
    run = simulation(cut_tree(VIEWS, contacts=3, until=60, cycles=70))
    for cycle in run:
        pairs = run.world.transport.introductions()
        assert len(pairs) == (3 if cycle == 61 else 0)
        if cycle == 61:
            side = halves(run)
            assert (side[pairs[:, 0]] == 1).all()
            assert (side[pairs[:, 1]] == 0).all()


def test_nobody_is_introduced_when_one_side_is_offline():
    world = make_world(10, partition=({"share": 0.5, "from": 1, "until": 2, "contacts": 3},))
    at_cycle(world, 3, world.transport._sides[0] == 1)
    assert world.transport.introductions().shape == (0, 2)


def test_two_cuts_at_once_make_four_parts():
    cuts = ({"share": 0.5, "from": 1, "until": 4}, {"share": 0.5, "from": 3, "until": 6})
    world = make_world(40, partition=cuts)
    parts = [np.unique(at_cycle(world, cycle).transport.side()).size for cycle in (1, 3, 4, 5, 7)]
    assert parts == [2, 4, 4, 2, 0]


def test_a_node_that_returns_during_a_cut_gets_no_contact_on_the_other_side():
    churn = {"kind": "rate", "leave": 0.5, "rejoin": 0.1}
    table = cut_tree(VIEWS | {"view": 3}, cycles=90, until=90, nodes=60, churn=churn)
    run = simulation(table)
    views = run.layers["peers"].views
    side = halves(run)
    for cycle in run:
        fresh = (views >= 0) & (views >> TIME == cycle)
        node, place = np.nonzero(fresh & (cycle >= 4))
        assert (side[node] == side[views[node, place] & PEER]).all(), cycle


def test_loss_delay_and_cut_are_refused_by_a_protocol_that_cannot_have_them(tmp_path):
    (tmp_path / "own.py").write_text(
        "from golfsim.protocol import LayerConfig, Protocol\n\n\nclass Own(Protocol[LayerConfig]):\n    pass\n"
    )
    layer = {"name": "own", "use": "own.py:Own"}
    for table in ({"loss": 0.1}, {"delay": 2}, {"partition": [{"share": 0.5, "from": 1, "until": 2}]}):
        with pytest.raises(UserError, match=rf"transport.{next(iter(table))}: “own” .* does not support"):
            Scenario.of(tree(layer, transport=table), tmp_path)
    Simulation(Scenario.of(tree(layer), tmp_path))


@pytest.mark.parametrize(
    ("delay", "bounds"),
    [(0, (0, 0)), (3, (3, 3)), ([2, 5], (2, 5)), ({"kind": "exponential", "max": 4, "mean": 9.0}, (1, 4)),
     ({"kind": "lognormal", "max": 5}, (1, 5)), ({"kind": "lognormal", "max": 5, "mu": 50.0, "sigma": 0}, (1, 5))],
)  # fmt: skip
def test_delays_have_bounds_and_their_shares_add_up_to_one(delay, bounds):
    shortest, cumulative = config(delay=delay).lags()
    assert (shortest, shortest + cumulative.size - 1) == bounds
    assert cumulative[-1] == 1
    assert (np.diff(cumulative) >= 0).all()
