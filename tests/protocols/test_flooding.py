"""Flooding against a plain search, and what it says about an overlay."""

import naive
import numpy as np
import pytest
from helpers import at_cycle, finished, make_layer, make_world, simulation, tree
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from protocols.flooding import Flooding
from protocols.static_overlay import StaticOverlay


@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(4, 16),
    messages=st.integers(1, 3),
    loss=st.sampled_from([0.0, 0.4]),
    cut=st.booleans(),
)
def test_messages_travel_as_in_a_plain_search(seed, nodes, messages, loss, cut):
    draws = np.random.default_rng(seed)
    cuts = {"partition": ({"share": 0.5, "from": 1, "until": 99},)} if cut else {}
    world = make_world(nodes, seed=seed, loss=loss, **cuts)
    graph = make_layer(StaticOverlay, world, name="graph", seed=seed, neighbours=2)
    layer = make_layer(Flooding, world, seed=seed, peers=graph, messages=messages)
    at_cycle(world, 3, draws.random(nodes) < 0.8)
    if not world.online.any():
        world.online[0] = True
        world.order = np.zeros(1, np.int32)
    world.order = draws.permutation(world.order).astype(np.int32)
    online = np.flatnonzero(world.online)
    links = [row.tolist() for row in np.split(graph._neighbour, graph._start[1:-1])]
    key, sent, found = naive.key(seed, "layer", "transport.message"), [], []
    for number in range(messages):
        u = naive.uniform(naive.draw(naive.key(seed, "layer", "source"), 3, number, 0))
        source = int(online[int(u * online.size)])

        def arrives(src, dst, place, number=number):
            k = number * 2 + place
            sent.append(naive.arrives(key, 3, src, dst, src, k, loss, world.online, world.transport.side()))
            return sent[-1]

        found.append(naive.flood(links, source, arrives))
    layer.step(world)
    result = layer.observe(world)
    assert result["flood.reached"] == pytest.approx(np.mean([len(hops) for hops in found]) / online.size)
    assert result["flood.reached_min"] == pytest.approx(min(len(hops) for hops in found) / online.size)
    assert result["flood.hops"] == pytest.approx(np.mean([max(hops.values()) for hops in found]))
    assert result["flood.sent"] == pytest.approx(len(sent) / messages / online.size)
    assert world.transport.counts[0][:3].tolist() == [len(sent), sum(sent), len(sent) - sum(sent)]


def test_a_ring_is_reached_over_half_of_its_length_and_a_cut_of_it_in_part():
    ring = {"name": "ring", "use": "static_overlay", "generator": "cycle_graph"}
    run = finished(tree(ring, {"name": "all", "use": "flooding", "peers": "ring"}, nodes=30, cycles=2))
    expected = {"flood.reached": 1, "flood.reached_min": 1, "flood.hops": 15, "flood.sent": 31 / 30}
    assert {name: run.latest["all"][name] for name in expected} == pytest.approx(expected)
    path = ring | {"generator": "path_graph"}
    broken = {"churn": {"kind": "crash", "at": 2, "share": 0.2}}
    run = simulation(tree(path, {"name": "all", "use": "flooding", "peers": "ring"}, nodes=30, cycles=3, **broken))
    shares = [run.latest["all"]["flood.reached"] for _ in run]
    assert shares[0] == 1
    assert shares[2] < 1


def test_a_fanout_bounds_the_messages_of_a_node():
    graph = {"name": "graph", "use": "static_overlay", "neighbours": 10}
    found = {}
    for fanout in (1, 3, None):
        flooding = {"name": "all", "use": "flooding", "peers": "graph", "messages": 20}
        flooding |= {"fanout": fanout} if fanout else {}
        found[fanout] = finished(tree(graph, flooding, nodes=200, cycles=1)).latest["all"]
    assert found[1]["flood.reached"] < 0.3
    assert found[3]["flood.reached"] > 0.8
    assert found[None]["flood.reached"] == 1
    assert found[3]["flood.sent"] == pytest.approx(3 * found[3]["flood.reached"], rel=1e-9)
    assert found[None]["flood.sent"] > 9


def test_an_overlay_without_links_is_refused():
    run = simulation(tree({"name": "peers", "use": "uniform"}, {"name": "all", "use": "flooding", "peers": "peers"}))
    with pytest.raises(UserError, match="“peers” stores no links") as refused:
        run.step()
    assert refused.value.key == "all.peers"
