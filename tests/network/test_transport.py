"""Loss, delay, and the mailbox."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, make_world, p_of_chi_square
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from golfsim.network.mailbox import Mailbox

LAYER = SimpleNamespace(name="layer")
NODES = 7


class Post:
    """Our mailbox and the reference, given the same messages; the world's cycle moves on, the layer acts when told."""

    def __init__(self, delay, seed, threads=1):
        self.rng = np.random.default_rng(seed)
        self.world = make_world(NODES, delay=delay, threads=threads)
        self.w = np.zeros((NODES, 2, 3), np.float32)
        self.age = np.zeros(NODES, np.int32)
        self.box = Mailbox(LAYER, self.world, w=self.w, age=self.age)
        self.reference = naive.Mailbox()

    def act(self, cycle, online):
        """What comes in now by ours and by the reference; then everybody online sends."""
        at_cycle(self.world, cycle, online)
        slots, receivers = self.box.due(self.world)
        ours = [
            (int(self.box.src[s]), int(j), (self.box.w[s].tolist(), int(self.box.age[s])))
            for s, j in zip(slots, receivers, strict=True)
        ]
        theirs = self.reference.deliver(cycle, online)
        self.send()
        return ours, theirs

    def send(self):
        world = self.world
        self.w[:] = self.rng.integers(0, 1000, self.w.shape)
        self.age[:] = self.rng.integers(0, 1000, NODES)
        src = self.rng.permutation(world.order).astype(np.int32)
        dst = self.rng.integers(-1, NODES, src.size).astype(np.int32)
        arrives, lag = world.transport.send(LAYER, "model", src, dst, 4)
        self.box.put(world, lag, src, dst, arrives, w=self.w, age=self.age)
        for e in range(src.size):
            if dst[e] >= 0:
                payload = (self.w[src[e]].tolist(), int(self.age[src[e]]))
                self.reference.send(world.cycle + int(lag[e]), int(src[e]), int(dst[e]), payload, bool(arrives[e]))
        self.w[:] = -1  # what was sent must not change with its sender

    def assert_counts(self):
        totals = self.world.transport.totals("layer")
        assert totals["messages.sent"] == self.reference.sent
        assert totals["messages.delivered"] == self.reference.delivered
        assert totals["messages.lost"] == self.reference.lost
        assert totals["messages.under_way"] == self.reference.under_way
        assert self.box.dst.size - self.box.free_count == self.reference.under_way


DELAYS = st.one_of(
    st.integers(1, 5), st.tuples(st.integers(1, 4), st.integers(0, 4)).map(lambda pair: (pair[0], sum(pair)))
)


@given(DELAYS, st.integers(0, 10**6), st.integers(1, 20))
def test_a_layer_that_acts_each_cycle_gets_what_is_due_in_sending_order(delay, seed, cycles):
    post = Post(delay, seed)
    for cycle in range(1, cycles + 1):
        ours, theirs = post.act(cycle, post.rng.random(NODES) < 0.7)
        assert ours == theirs
        post.assert_counts()


@given(DELAYS, st.integers(0, 10**6), st.lists(st.integers(1, 8), min_size=1, max_size=12))
def test_a_layer_that_rests_between_its_turns_gets_all_that_came_due_meanwhile(delay, seed, gaps):
    post = Post(delay, seed)
    for cycle in np.cumsum(gaps).tolist():
        ours, theirs = post.act(cycle, post.rng.random(NODES) < 0.7)
        assert sorted(ours) == sorted(theirs)
        post.assert_counts()


@given(DELAYS, st.integers(0, 10**6), st.lists(st.integers(1, 8), min_size=1, max_size=12))
def test_what_came_due_while_a_layer_rested_is_delivered_in_sending_order(delay, seed, gaps):
    post = Post(delay, seed)
    for cycle in np.cumsum(gaps).tolist():
        ours, theirs = post.act(cycle, post.rng.random(NODES) < 0.7)
        assert ours == theirs


def test_lags_are_uniform_over_their_range():
    post = Post((2, 5), 1)
    src, dst = np.arange(NODES, dtype=np.int32), np.zeros(NODES, np.int32)
    lags = [at_cycle(post.world, c).transport.send(LAYER, "model", src, dst, 1)[1] for c in range(700)]
    found, counts = np.unique(lags, return_counts=True)
    assert found.tolist() == [2, 3, 4, 5]
    assert p_of_chi_square(counts) > ALPHA


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("loss", [0.0, 0.1, 0.5, 1.0])
def test_the_share_that_is_lost_is_as_asked(loss, delay):
    nodes = 5000
    world = at_cycle(make_world(nodes, loss=loss, delay=delay), 3)
    arrives, _ = world.transport.send(LAYER, "model", world.order, np.roll(world.order, 1), 10)
    lost = int((~arrives).sum())
    assert binomtest(lost, nodes, loss).pvalue > ALPHA
    totals = world.transport.totals("layer")
    assert totals["messages.sent"] == nodes
    assert totals["messages.lost"] == lost
    assert totals["messages.delivered"] == (0 if delay else nodes - lost)
    assert totals["messages.under_way"] == (nodes - lost if delay else 0)
    assert totals["bytes.sent"] == 10 * nodes


def test_losses_are_drawn_from_layer_kind_cycle_sender_and_k():
    def lost(layer="layer", kind="model", cycle=1, k=0, src=range(200)):
        world = at_cycle(make_world(200, loss=0.5, layers=["layer", "other"]), cycle)
        src = np.array(src, np.int32)
        arrives, _ = world.transport.send(SimpleNamespace(name=layer), kind, src, (src + 1) % 200, 1, k)
        return arrives.tolist()

    assert lost() == lost()
    assert lost(src=range(199, -1, -1)) == lost()[::-1]
    others = [lost(layer="other"), lost(kind="answer"), lost(cycle=2), lost(k=1), lost()]
    assert len({tuple(drawn) for drawn in others}) == 5


def test_a_loss_is_that_of_the_draws():
    world = at_cycle(make_world(50, loss=0.3), 4)
    arrives, _ = world.transport.send(LAYER, "model", world.order, np.zeros(50, np.int32), 1, k=2)
    key = naive.key(1, "layer", "transport.model")
    assert arrives.tolist() == [naive.uniform(naive.draw(key, 4, i, 4)) >= 0.3 for i in range(50)]


def test_without_delay_a_message_to_nobody_is_not_sent_and_one_to_an_offline_node_is_lost():
    world = at_cycle(make_world(4), 1, [True, True, False, True])
    src, dst = np.array([0, 1, 3], np.int32), np.array([2, -1, 0], np.int32)
    arrives, lag = world.transport.send(LAYER, "model", src, dst, 8)
    assert arrives.tolist() == [False, False, True]
    assert lag is None
    assert world.transport.totals("layer") == {
        "messages.sent": 2,
        "messages.delivered": 1,
        "messages.lost": 1,
        "messages.under_way": 0,
        "bytes.sent": 16,
    }


def test_with_delay_it_matters_who_is_online_when_the_message_comes_in():
    world = make_world(3, delay=2)
    value = np.array([10.0, 20.0, 30.0])
    box = Mailbox(LAYER, world, value=value)
    at_cycle(world, 1, [True, False, True])
    src, dst = np.array([0, 2], np.int32), np.array([1, 0], np.int32)
    arrives, lag = world.transport.send(LAYER, "model", src, dst, 8)
    assert arrives.all()
    box.put(world, lag, src, dst, arrives, value=value)
    assert box.due(at_cycle(world, 2, [True, True, True]))[1].size == 0
    slots, receivers = box.due(at_cycle(world, 3, [False, True, True]))
    assert receivers.tolist() == [1]
    assert box.value[slots].tolist() == [10.0]
    assert world.transport.totals("layer")["messages.lost"] == 1


def test_layers_are_counted_apart():
    world = at_cycle(make_world(3, layers=["one", "two"]), 1)
    one, two = SimpleNamespace(name="one"), SimpleNamespace(name="two")
    world.transport.send(one, "model", world.order, np.array([1, 2, 0], np.int32), 5)
    world.transport.count(two, sent=7, delivered=4, lost=1, size=2)
    assert world.transport.totals("one")["messages.delivered"] == 3
    assert world.transport.totals("two") == {
        "messages.sent": 7,
        "messages.delivered": 4,
        "messages.lost": 1,
        "messages.under_way": 2,
        "bytes.sent": 14,
    }
