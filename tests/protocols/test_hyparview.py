"""HyParView against its paper and a plain reference, and the overlay that it makes."""

import naive
import numpy as np
import pytest
from helpers import at_cycle, finished, make_layer, make_world, needs_jit, simulation, tree
from hypothesis import given
from hypothesis import strategies as st

from protocols.hyparview import HyParView, Wires

KINDS = Wires._fields


def hyparview(**settings):
    return {"name": "peers", "use": "hyparview"} | settings


def lists(rows):
    """Rows as lists; nothing may come after an empty place."""
    found = [[int(peer) for peer in row if peer >= 0] for row in rows]
    for row, kept in zip(rows, found, strict=True):
        assert row.tolist() == kept + [-1] * (len(row) - len(kept))
    return found


def some_links(draws, nodes, size):
    """Symmetric links in random order, with at most `size` per node."""
    views = [[] for _ in range(nodes)]
    for a, b in draws.integers(0, nodes, (2 * nodes, 2)):
        if a != b and b not in views[a] and len(views[a]) < size and len(views[b]) < size:
            views[a].append(int(b))
            views[b].append(int(a))
    return views


@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(2, 16),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 6)),
    walks=st.tuples(st.integers(1, 4), st.integers(0, 3)),
    shuffled=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    loss=st.sampled_from([0.0, 0.3]),
    cut=st.booleans(),
)
def test_a_cycle_is_that_of_the_paper(seed, nodes, sizes, walks, shuffled, loss, cut):
    draws = np.random.default_rng(seed)
    cuts = {"partition": ({"share": 0.5, "from": 1, "until": 99},)} if cut else {}
    world = make_world(nodes, seed=seed, loss=loss, **cuts)
    layer = make_layer(
        HyParView, world, seed=seed, view=sizes[0], passive=sizes[1], active_walk=walks[0], passive_walk=walks[1],
        shuffle_active=shuffled[0], shuffle_passive=shuffled[1],
    )  # fmt: skip
    active, passive = some_links(draws, nodes, sizes[0]), []
    for i in range(nodes):
        others = [int(j) for j in draws.permutation(nodes) if j != i and j not in active[i]]
        passive.append(others[: draws.integers(0, sizes[1] + 1)])
    for rows, views in ((layer.views, active), (layer.passive, passive)):
        for row, view in zip(rows, views, strict=True):
            row[: len(view)] = view
    layer.contact[:] = np.where(
        draws.random(nodes) < 0.3, (np.arange(nodes) + draws.integers(1, nodes, nodes)) % nodes, -1
    )
    keys = {kind: naive.key(seed, "layer", f"transport.{kind}") for kind in KINDS}
    for cycle in range(3, 7):
        at_cycle(world, cycle, draws.random(nodes) < 0.8)
        world.order = draws.permutation(world.order).astype(np.int32)
        side, online, sent = world.transport.side(), world.online, []

        def reach(src, dst, side=side, online=online):
            return bool(online[dst]) and (side.size == 0 or side[src] == side[dst])

        def arrives(kind, by, k, src, dst, cycle=cycle, side=side, online=online, sent=sent, reach=reach):
            there = (
                reach(src, dst)
                if kind == "disconnect"
                else naive.arrives(keys[kind], cycle, src, dst, by, k, loss, online, side)
            )
            sent.append((kind, there))
            return there

        contact = [int(node) if node >= 0 else None for node in layer.contact]
        slow = naive.HyParView(
            lists(layer.views), lists(layer.passive), sizes, walks, shuffled, cycle,
            naive.key(seed, "layer", "exchange"), arrives, reach,
        )  # fmt: skip
        left = slow.cycle(world.order.tolist(), contact)
        before = world.transport.counts[0].copy()
        layer._exchange(world)
        assert lists(layer.views) == slow.active
        assert lists(layer.passive) == slow.passive
        assert layer.contact.tolist() == [-1 if node is None else node for node in left]
        carried = 8 * (1 + sum(shuffled))
        size = sum(carried if kind in ("shuffle", "reply") else 8 for kind, _ in sent)
        passed = sum(there for _, there in sent)
        assert (world.transport.counts[0] - before).tolist() == [len(sent), passed, len(sent) - passed, size]


HARD = {
    "churn": {"kind": "rate", "leave": 0.15, "rejoin": 0.4},
    "transport": {"loss": 0.2, "partition": [{"share": 0.4, "from": 10, "until": 20}]},
}


@pytest.mark.parametrize("faults", [{}, HARD], ids=["calm", "faults"])
def test_links_go_both_ways_and_views_are_disjoint(faults):
    run = simulation(tree(hyparview(view=4, passive=8), nodes=50, cycles=40, **faults))
    for _ in run:
        layer, world = run.layer("peers"), run.world
        active, passive = lists(layer.views), lists(layer.passive)
        for i in range(50):
            assert i not in active[i] + passive[i]
            assert len({*active[i], *passive[i]}) == len(active[i]) + len(passive[i])
        links = layer.links(world).toarray()[np.ix_(world.online, world.online)]
        assert (links == links.T).all()


def test_chosen_peers_are_active_peers():
    run = finished(tree(hyparview(), nodes=40, cycles=10))
    links = run.layer("peers").links(run.world).toarray()
    for k in range(10):
        peer = run.layer("peers").choose(run.world, run.world.order, np.uint64(5), k)
        assert links[run.world.order, peer].all()


def test_broken_links_are_noticed_before_anybody_acts():
    world = make_world(4)
    layer = make_layer(HyParView, world, rejoin=False)
    for i, peers in enumerate(([1, 2, 3], [0], [3, 0], [2])):  # 3 has ended its link to 0; 1 is offline
        layer.views[i, : len(peers)] = peers
    at_cycle(world, 2, [True, False, True, True])
    layer._exchange = lambda world: None
    layer.step(world)
    assert lists(layer.views) == [[2], [0], [3, 0], [2]]


def test_nodes_join_one_after_the_other_and_late_ones_through_any_node():
    world = make_world(300)
    layer = make_layer(HyParView, world)
    at_cycle(world, 1, np.arange(300) < 200)
    layer.start(world, world.order)
    first = layer.contact[:200]
    assert first[0] == -1
    assert (first[1:] < np.arange(1, 200)).all()
    assert (first[1:] >= 0).all()
    assert 0.3 < np.mean(first[1:] / np.arange(1, 200)) < 0.7
    at_cycle(world, 2)
    layer.start(world, np.arange(200, 300, dtype=np.int32))
    assert (layer.contact[200:] < 200).all()
    assert len(set(layer.contact[200:].tolist())) > 50


def test_a_node_that_knows_nobody_joins_again_if_it_may():
    for rejoin in (True, False):
        run = simulation(tree(hyparview(rejoin=rejoin), nodes=20, cycles=12))
        for _ in range(5):
            run.step()
        layer = run.layer("peers")
        for i in range(20):
            for rows in (layer.views, layer.passive):
                row = [peer for peer in rows[i] if peer not in (-1, 7)]
                rows[i] = row + [-1] * (rows.shape[1] - len(row))
        layer.views[7] = layer.passive[7] = -1
        for _ in range(5):
            run.step()
        assert (layer.views[7] >= 0).any() == rejoin


def crash(share, seed=1, nodes=2000, **settings):
    """The share of nodes that floods reach in the cycles after a crash, and the latest overlay metrics."""
    floods = {"name": "floods", "use": "flooding", "peers": "peers", "messages": 10}
    run = simulation(
        tree(
            hyparview(rejoin=False, **settings), floods, nodes=nodes, cycles=24, seed=seed,
            churn={"kind": "crash", "at": 20, "share": share}, observe={"every": 1, "overlay": 24},
        )
    )  # fmt: skip
    return [run.latest["floods"]["flood.reached"] for _ in run], run.latest["peers"]


@needs_jit
@pytest.mark.parametrize(("share", "least"), [(0.5, 0.999), (0.8, 0.99), (0.9, 0.9)])
def test_floods_reach_the_nodes_that_survive_a_massive_crash(share, least):
    reached, overlay = crash(share)
    assert reached[18] == 1
    assert reached[20] >= least
    assert overlay["links.dead"] == 0


@needs_jit
def test_active_views_are_nearly_full_and_the_overlay_is_like_a_random_graph():
    # A random graph with five links per node has the clustering 5/2000 = .0025.
    _, overlay = crash(0.0)
    assert overlay["components"] == 1
    assert overlay["degree.mean"] > 4.9
    assert overlay["degree.max"] <= 5
    assert overlay["clustering"] < 0.01
