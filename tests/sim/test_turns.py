"""Several turns of a layer per cycle, and what a layer keeps of a node that returns."""

import numpy as np
import pytest
from helpers import HERE, finished, learning_tree, simulation, tree

from golfsim.core.errors import UserError
from golfsim.protocol.turns import further_turn
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

VIEWS = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
CHURN = {"kind": "rate", "leave": 0.3, "rejoin": 0.5}


def test_a_layer_takes_so_many_turns_with_draws_of_their_own():
    once, often = (finished(tree(VIEWS | {"times": n}, cycles=4)) for n in (1, 5))
    sent = [run.world.transport.totals("peers")["messages.sent"] for run in (once, often)]
    assert sent[1] == 5 * sent[0]
    overlay = simulation(tree(VIEWS | {"times": 3})).layer("peers")
    keys = [overlay._exchange_key]
    world = make(overlay)
    for turn in (1, 2):
        with further_turn(overlay, world, turn):
            keys.append(overlay._exchange_key)
            assert overlay.key("exchange") == overlay._exchange_key
            assert world.turn == turn
    assert len({int(key) for key in keys}) == 3
    assert overlay._exchange_key == keys[0]
    assert world.turn == 0


def make(overlay):
    """The world of a run of the overlay alone."""
    return simulation(tree(VIEWS)).world


def test_keys_inside_tables_and_parts_are_those_of_the_turn_too():
    run = simulation(learning_tree(VIEWS, GOLF | {"times": 2, "flow": {"kind": "simple", "capacity": 3}}))
    golf = run.layer("learning")
    first = golf._noise, golf.flow._turn_key, golf.flow._answer_key
    with further_turn(golf, run.world, 1):
        assert golf._noise.key == golf.key("noise") != first[0].key
        assert golf.flow._turn_key == golf.key("turn") != first[1]
    assert (golf._noise, golf.flow._turn_key, golf.flow._answer_key) == first


@pytest.mark.parametrize("transport", [{}, {"loss": 0.2}, {"loss": 0.2, "delay": [1, 3]}])
def test_runs_with_several_turns_are_the_same_on_any_number_of_threads_and_resumed(transport):
    table = learning_tree(VIEWS | {"times": 4}, GOLF | {"times": 2}, churn=CHURN, transport=transport, cycles=8)
    runs = [finished(table, threads=n, paranoid=True) for n in (1, 3)]
    assert runs[0].log.values == runs[1].log.values
    half = simulation(table)
    for _ in range(4):
        half.step()
    resumed = Simulation(Scenario.of(table, HERE))
    resumed.restore({name: np.copy(array) for name, array in half.state().items()})
    for _ in resumed:
        pass
    assert resumed.log.values == runs[0].log.values


def test_a_protocol_whose_draws_do_not_belong_to_a_turn_takes_one():
    with pytest.raises(UserError, match="“uniform” takes one turn per cycle; got 2"):
        simulation(tree({"name": "peers", "use": "uniform", "times": 2}))


@pytest.mark.parametrize("by_churn", ["keep", "afresh"])
@pytest.mark.parametrize("by_layer", ["churn", "keep", "afresh"])
def test_a_layer_decides_what_a_node_keeps(by_churn, by_layer):
    layer = GOLF | {"on_return_state": by_layer}
    run = simulation(learning_tree(VIEWS, layer, churn=CHURN | {"return": by_churn}, cycles=10))
    golf, started = run.layer("learning"), []
    start = golf.start
    golf.start = lambda world, nodes: (started.append(nodes.tolist()), start(world, nodes))
    for _ in run:
        world = run.world
        wanted = world.came if by_layer == "afresh" or (by_layer, by_churn) == ("churn", "afresh") else world.first
        assert sorted(started.pop() if started else []) == sorted(wanted.tolist())


def test_a_node_that_returns_gets_as_many_contacts_as_asked_for():
    settings = {"on_return_state": "afresh", "contacts": 4}
    run = simulation(tree(VIEWS | settings, churn=CHURN, nodes=40))
    overlay, start, seen = run.layer("peers"), run.layer("peers").start, []

    def started(world, nodes):
        start(world, nodes)
        if world.cycle > 1:
            views = overlay.views[nodes]
            peers = views & 0xFFFF_FFFF
            assert (views >= 0).sum(axis=1).tolist() == [4] * nodes.size
            assert world.online[peers[views >= 0]].all()
            assert all(node not in row[:4] and len(set(row[:4])) == 4 for node, row in zip(nodes, peers, strict=True))
            seen.append(nodes.size)

    overlay.start = started
    for _ in run:
        pass
    assert sum(seen) > 10
