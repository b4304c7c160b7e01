"""When nodes take their turns, against a list of times made one after the other."""

import naive
import numpy as np
import pytest
from helpers import at_cycle, make_world

from golfsim.network.clock import Clock

NODES, CYCLES = 6, 40
KEY = np.uint64(5)


def turns(clock, world, online):
    """The nodes that act in each cycle; online[c] says who is online in cycle c + 1."""
    found, before = [], np.zeros(world.nodes, np.bool_)
    for cycle, there in enumerate(online, 1):
        at_cycle(world, cycle, there)
        world.since[there & ~before] = cycle
        before = there
        found.append(clock.senders(world).tolist())
    return found


@pytest.mark.parametrize("at_return", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        {"period": 1.0},
        {"period": 3.0, "random_phase": True},
        {"period": 1.0, "jitter": 0.1},
        {"period": 1.0, "jitter": 0.3, "random_phase": True},
        {"period": 2.5, "jitter": 0.2, "fixed": True},
        {"period": 0.3, "jitter": 0.2},
    ],
)
def test_nodes_act_at_the_times_of_their_clocks(how, at_return):
    how = {"random_phase": False, "jitter": 0.0, "fixed": False} | how
    world = make_world(NODES)
    online = np.random.default_rng(1).random((CYCLES, NODES)) < 0.8
    online[:, 0] = True
    found = turns(Clock(NODES, at_return=at_return, key=KEY, **how), world, online)
    expected = [[] for _ in range(CYCLES)]
    for node in range(NODES):
        joined = int(np.argmax(online[:, node])) + 1
        came = [c + 1 for c in range(joined, CYCLES) if online[c, node] and not online[c - 1, node]]
        times = naive.turn_times(KEY, node, joined, online[:, node], returns=came if at_return else (), **how)
        for time in times:
            if online[int(time) - 1, node]:
                expected[int(time) - 1].append((time, node))
    assert found == [[node for _, node in sorted(each)] for each in expected]


def test_with_a_period_of_one_cycle_everybody_acts_once_in_acting_order():
    world = make_world(NODES, shuffled=True)
    clock = Clock(NODES, period=1.0, random_phase=False, jitter=0.0, fixed=False, at_return=False, key=KEY)
    for _ in range(5):
        world.advance()
        assert clock.senders(world).tolist() == world.order.tolist()


def test_the_mean_interval_is_the_period_and_its_deviation_the_jitter():
    world, cycles = make_world(2000), 60
    clock = Clock(2000, period=1.0, random_phase=True, jitter=0.1, fixed=False, at_return=False, key=KEY)
    sent = sum(len(each) for each in turns(clock, world, np.ones((cycles, 2000), np.bool_)))
    spread = np.sqrt(2000 * (cycles * 0.01 + 1 / 6))  # of renewals in a window, and of the phases
    assert abs(sent - 2000 * cycles) < 5 * spread


@pytest.mark.parametrize(("period", "jitter", "back"), [(1.0, 0.0, False), (1.0, 1.0, True), (0.3, 0.5, True)])
def test_no_node_acts_more_often_than_a_mailbox_has_room_for(period, jitter, back):
    world = make_world(NODES)
    online = np.random.default_rng(2).random((200, NODES)) < 0.7
    clock = Clock(NODES, period=period, random_phase=False, jitter=jitter, fixed=False, at_return=back, key=KEY)
    most = max(np.bincount(each).max(initial=0) for each in turns(clock, world, online) if each)
    assert most <= Clock.most(period, jitter, back)
