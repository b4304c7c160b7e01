"""The one rule that decides whether a message arrives, asked in Python and inside kernels."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest
from helpers import at_cycle, make_world
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.kernels import kernel
from golfsim.network.delivery import BYTES, DELIVERED, LOST, SENT, Wire, answer_arrives, arrives, send_all

LAYER = SimpleNamespace(name="layer")


@kernel
def ask_all(request, answer, order, peer, k, asked, answered):
    """Let each node ask its peer, which answers."""
    for e in range(order.size):
        asked[e] = arrives(request, order[e], peer[e], k)
        answered[e] = asked[e] and answer_arrives(answer, peer[e], order[e], k)


def a_network(seed, loss, cut, delay=0):
    """A world of twelve nodes, some of them offline, and a peer for each online node."""
    draws = np.random.default_rng(seed)
    cuts = {"partition": ({"share": 0.5, "from": 1, "until": 9},)} if cut else {}
    world = at_cycle(make_world(12, seed=seed, loss=loss, delay=delay, **cuts), 3, draws.random(12) < 0.8)
    return world, draws.integers(0, 12, world.order.size).astype(np.int32)


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from([0.0, 0.3, 1.0]),
    cut=st.booleans(),
    delay=st.sampled_from([0, 2]),
    k=st.integers(0, 5),
)
def test_a_kernel_and_python_decide_as_the_reference_does_and_count_the_same(seed, loss, cut, delay, k):
    world, peer = a_network(seed, loss, cut, delay)
    side = world.transport.side()
    online = world.online if delay == 0 else np.ones(12, np.bool_)
    keys = {kind: naive.key(seed, "layer", f"transport.{kind}") for kind in ("request", "answer")}
    request, answer = (world.transport.wire(LAYER, kind, 5) for kind in keys)
    asked, answered = np.zeros((2, world.order.size), np.bool_)
    ask_all(request, answer, world.order, peer, k, asked, answered)
    links = list(zip(world.order, peer, strict=True))
    expected = [naive.arrives(keys["request"], 3, i, j, i, k, loss, online, side) for i, j in links]
    back = [naive.arrives(keys["answer"], 3, j, i, i, k, loss, online, side) for i, j in links]
    assert asked.tolist() == expected
    assert answered.tolist() == [there and again for there, again in zip(expected, back, strict=True)]
    sent, passed = world.order.size + asked.sum(), asked.sum() + answered.sum()
    counts = world.transport.counts[0].copy()
    assert (counts[SENT], counts[LOST], counts[BYTES]) == (sent, sent - passed, 5 * sent)
    assert counts[DELIVERED] == (passed if delay == 0 else 0)
    if delay == 0:
        there, _ = world.transport.send(LAYER, "request", world.order, peer, 5, k)
        assert there.tolist() == expected
        more = world.transport.counts[0] - counts
        assert more.tolist() == [world.order.size, asked.sum(), world.order.size - asked.sum(), 5 * world.order.size]


def test_several_messages_of_a_node_are_lost_separately():
    world, _ = a_network(1, 0.5, False)
    wire = world.transport.wire(LAYER, "request", 5)
    drawn = {bool(arrives(wire, 0, 0, k)) for k in range(20)}
    assert drawn == {True, False}


def test_a_message_that_is_due_reaches_who_is_online_on_the_same_side_and_is_counted():
    world, _ = a_network(3, 0.9, True)
    src, dst = np.arange(12, dtype=np.int32), np.roll(np.arange(12, dtype=np.int32), 1)
    side = world.transport.side()
    there = world.transport.deliver(LAYER, src, dst)
    assert there.tolist() == (world.online[dst] & (side[src] == side[dst])).tolist()
    assert set(there.tolist()) == {True, False}
    assert world.transport.counts[0].tolist() == [0, there.sum(), (~there).sum(), 0]


@pytest.mark.parametrize("wrong", [np.array([0.0, 1.0]), np.zeros((2, 1), np.int32), np.array([True, False])])
def test_node_numbers_of_a_wrong_type_are_refused(wrong):
    world, _ = a_network(1, 0.0, False)
    with pytest.raises(TypeError, match="dst: expected one node number per entry"):
        world.transport.send(LAYER, "request", np.arange(2, dtype=np.int32), wrong, 5)


def test_other_integers_are_taken_as_node_numbers():
    world, _ = a_network(1, 0.0, False)
    there, _ = world.transport.send(LAYER, "request", np.arange(2), np.array([1, 0], np.int64), 5)
    assert there.shape == (2,)


@kernel
def send_one(wire, src, dst, k):
    return arrives(wire, src, dst, k)


def a_wire(loss=0.0, nodes=4, cycle=2, size=5):
    """A rule of its own: all nodes are online, and there is no cut."""
    online, side = np.ones(nodes, np.bool_), np.empty(0, np.int8)
    return Wire(np.uint64(77), cycle, loss, online, side, True, size, np.zeros(4, np.int64))


def sent(wire, src, dst, *k, nodes=4):
    """What `send_all` returns, and which messages arrive."""
    out = np.zeros(len(dst), np.bool_)
    wrong = send_all(wire, np.array(k, np.int64), np.array(src, np.int32), np.array(dst, np.int32), nodes, out)
    return wrong, out.tolist()


@pytest.mark.parametrize("k", [0, 3])
def test_a_message_is_lost_if_its_draw_is_below_the_loss_and_not_if_both_are_equal(k):
    drawn = naive.uniform(naive.draw(77, 2, 1, 2 * k))
    for loss, there in ((drawn, True), (np.nextafter(drawn, 1), False)):
        wire = a_wire(float(loss))
        assert send_one(wire, 1, 0, k) == there
        assert sent(wire, [1], [0], k) == (-1, [there])
        assert wire.counts.tolist() == [2, 2 * there, 2 * (not there), 10]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_each_of_several_messages_has_its_own_number(numbers, loss):
    src, dst = np.arange(len(numbers)) % 2, np.zeros(len(numbers), int)
    online = np.ones(4, np.bool_)
    expected = [naive.arrives(77, 2, i, 0, i, k, loss, online, []) for i, k in zip(src, numbers, strict=True)]
    assert sent(a_wire(loss), src, dst, *numbers) == (-1, expected)
    shared = [naive.arrives(77, 2, i, 0, i, numbers[0], loss, online, []) for i in src]
    assert sent(a_wire(loss), src, dst, numbers[0]) == (-1, shared)


def test_no_message_is_sent_to_no_node_and_node_0_is_a_node():
    wire = a_wire()
    assert sent(wire, [3, 2, 1], [-1, 0, 3], 0) == (-1, [False, True, True])
    assert wire.counts.tolist() == [2, 2, 0, 10]


def test_a_receiver_that_does_not_exist_is_named():
    assert sent(a_wire(), [0, 1, 2], [3, 4, 5], 0)[0] == 4
    assert sent(a_wire(), [0, 1], [3, 9], 0)[0] == 9
    assert sent(a_wire(), [0], [0], 0, nodes=1)[0] == -1
    world, _ = a_network(1, 0.0, False)
    with pytest.raises(IndexError, match=r"dst: there is no node 12, only 0 … 11"):
        world.transport.send(LAYER, "request", np.arange(2), np.array([1, 12]), 5)
