"""Figures of an overlay against networkx and the plain reference; export as GraphML."""

import math

import naive
import networkx as nx
import numpy as np
import pytest
from helpers import at_cycle, finished, make_layer, make_world, needs_jit, simulation, tree
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array

from golfsim.core.errors import UserError
from golfsim.core.rng import key
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.overlay import Overlay
from golfsim.scenario.model import Scenario
from golfsim.sim import overlay_stats
from golfsim.sim.simulation import Simulation

KEY = key(1, "observe", "overlay")
VIEWS = {"name": "peers", "use": "newscast", "view": 5}


class GivenLinks(Overlay[LayerConfig]):
    """An overlay that has the links the test says."""

    def links(self, world):
        peers = np.array([peer for view in self._views for peer in view], np.int32)
        start = np.concatenate([[0], np.cumsum([len(view) for view in self._views])])
        return csr_array((np.ones(peers.size, np.int8), peers, start), shape=(world.nodes, world.nodes))


def overlay_of(views, online):
    world = at_cycle(make_world(len(views)), 4, online)
    layer = make_layer(GivenLinks, world)
    layer._views = views
    return layer, world


def measured(views, online, sample=10**6):
    return overlay_stats.measure(*overlay_of(views, online), KEY, sample)


def alive(views, online):
    """The views of the online nodes without dead links, renumbered."""
    nodes = np.flatnonzero(online).tolist()
    return [[nodes.index(peer) for peer in views[node] if online[peer]] for node in nodes]


def as_graph(views):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(views)))
    graph.add_edges_from((i, j) for i, view in enumerate(views) for j in view)
    return graph


@st.composite
def networks(draw):
    """Random views, some of them empty, and who is online: at least one node."""
    nodes = draw(st.integers(1, 18))
    others = [[j for j in range(nodes) if j != i] for i in range(nodes)]
    views = [draw(st.lists(st.sampled_from(peers), unique=True, max_size=6)) if peers else [] for peers in others]
    online = draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes).filter(any))
    return views, np.array(online)


@given(networks())
def test_degrees_clustering_paths_and_components_are_the_plain_references(network):
    views, online = network
    found, rest = measured(views, online), alive(views, online)
    degree = [len(neighbours) for neighbours in naive.neighbours(rest)]
    for name, values in (("indegree", naive.in_degrees(rest)), ("degree", degree)):
        assert found[f"{name}.mean"] == pytest.approx(np.mean(values))
        assert found[f"{name}.std"] == pytest.approx(np.std(values))
        assert found[f"{name}.min"] == min(values)
        assert found[f"{name}.max"] == max(values)
        assert found[f"{name}.q25"] == pytest.approx(np.quantile(values, 0.25))
        assert found[f"{name}.q99"] == pytest.approx(np.quantile(values, 0.99))
    assert found["clustering"] == pytest.approx(naive.clustering(rest))
    assert found["path_length"] == pytest.approx(naive.path_length(rest, range(len(rest))), nan_ok=True)
    assert found["components"] == naive.components(rest)


@given(networks())
def test_clustering_paths_and_components_are_networkxs(network):
    views, online = network
    found = measured(views, online)
    graph = as_graph(alive(views, online)).to_undirected()
    assert found["clustering"] == pytest.approx(nx.average_clustering(graph))
    assert found["components"] == nx.number_connected_components(graph)
    lengths = [hops for _, reached in nx.all_pairs_shortest_path_length(graph) for hops in reached.values() if hops]
    assert found["path_length"] == pytest.approx(np.mean(lengths) if lengths else math.nan, nan_ok=True)


@given(networks())
def test_dead_links_and_stale_views_are_counted(network):
    views, online = network
    found = measured(views, online)
    seen = [view for view, there in zip(views, online, strict=True) if there]
    links = [peer for view in seen for peer in view]
    assert found["links.dead"] == pytest.approx(np.mean([not online[peer] for peer in links]) if links else 0)
    assert found["views.stale"] == pytest.approx(np.mean([any(not online[peer] for peer in view) for view in seen]))
    assert found["views.dead"] == pytest.approx(np.mean([all(not online[peer] for peer in view) for view in seen]))


def test_only_a_network_in_which_nobody_reaches_anybody_has_no_path_length():
    found = measured([[], [], []], [True, True, True])
    assert math.isnan(found.pop("path_length"))
    assert np.isfinite(list(found.values())).all()
    assert found["components"] == 3


def test_one_node_is_one_component():
    found = measured([[]], [True])
    assert found["components"] == 1
    assert found["degree.mean"] == found["clustering"] == found["links.dead"] == 0
    assert found["views.dead"] == 1, "its view holds nobody alive"


def test_an_overlay_in_which_everybody_knows_everybody_has_no_figures():
    world = at_cycle(make_world(5), 1)
    layer = make_layer(GivenLinks, world)
    layer.links = lambda world: None
    assert overlay_stats.measure(layer, world, KEY, 10) == {}


def test_a_sample_of_sources_estimates_clustering_and_paths():
    rng = np.random.default_rng(3)
    nodes = 150
    views = [rng.choice(np.delete(np.arange(nodes), i), 4, replace=False).tolist() for i in range(nodes)]
    online = np.ones(nodes, bool)
    whole = measured(views, online)
    layer, world = overlay_of(views, online)
    parts = []
    for cycle in range(1, 41):
        world.cycle = cycle
        parts.append(overlay_stats.measure(layer, world, KEY, 20))
    for name in ("clustering", "path_length"):
        values = [part[name] for part in parts]
        assert np.std(values) > 0, "another sample each time"
        assert np.mean(values) == pytest.approx(whole[name], abs=4 * np.std(values) / np.sqrt(40))
    for name in set(whole) - {"clustering", "path_length"}:
        assert {part[name] for part in parts} == {whole[name]}


def test_a_sampled_source_reaches_as_the_plain_reference_says():
    rng = np.random.default_rng(4)
    views = [rng.choice(np.delete(np.arange(30), i), 2, replace=False).tolist() for i in range(30)]
    graph = overlay_stats.undirected(overlay_of(views, np.ones(30, bool))[0].links(make_world(30)))
    sets = naive.neighbours(views)
    for sources in ([3], [0, 7, 20]):
        nodes = np.array(sources, np.int32)
        assert overlay_stats.path_length(graph, nodes) == pytest.approx(naive.path_length(views, sources))
        expected = np.mean([naive.local_clustering(sets, source) for source in sources])
        assert overlay_stats.clustering(graph, nodes) == pytest.approx(expected)


# ------------------------------------------------------------------------------------------------ in a run


def test_overlays_are_measured_when_asked_and_only_then():
    run = simulation(tree(VIEWS, cycles=12, observe={"every": 3, "overlay": 4}))
    seen = {}
    for cycle in run:
        seen[cycle] = run.latest.get("peers", {})
        run.latest = {}
    assert [cycle for cycle, metrics in seen.items() if metrics] == [3, 4, 6, 8, 9, 12]
    assert [cycle for cycle, metrics in seen.items() if "clustering" in metrics] == [4, 8, 12]


def test_without_being_asked_no_overlay_is_measured():
    assert "clustering" not in finished(tree(VIEWS)).latest["peers"]


def test_measuring_changes_nothing():
    plain, watched = finished(tree(VIEWS)), finished(tree(VIEWS, observe={"every": 1, "overlay": 1}))
    assert np.array_equal(plain.layers["peers"].views, watched.layers["peers"].views)


def test_figures_of_newscast_under_churn_are_those_of_its_views():
    churn = {"kind": "rate", "leave": 0.3, "rejoin": 0.3}
    run = simulation(tree(VIEWS | {"liveness": "none"}, nodes=25, cycles=10, churn=churn, observe={"overlay": 1}))
    dead = []
    for _ in run:
        views = [[int(word & 0xFFFFFFFF) for word in view if word >= 0] for view in run.layers["peers"].views]
        online, found = run.world.online, run.latest["peers"]
        rest = alive(views, online)
        assert found["indegree.mean"] == pytest.approx(np.mean(naive.in_degrees(rest)))
        assert found["components"] == naive.components(rest)
        links = [peer for view, there in zip(views, online, strict=True) if there for peer in view]
        assert found["links.dead"] == pytest.approx(np.mean(~online[links]))
        dead.append(found["links.dead"])
    assert max(dead) > 0.1


@needs_jit
def test_a_random_graph_has_binomial_in_degrees():
    layer = {"name": "peers", "use": "static_overlay", "neighbours": 10}
    run = finished(tree(layer, nodes=3000, cycles=1, observe={"overlay": 1}))
    found = run.latest["peers"]
    law = stats.binom(2999, 10 / 2999)
    assert found["indegree.mean"] == 10
    # The variance of a sample of 3000 with kurtosis near 3 has a relative error of √(2/3000).
    assert found["indegree.std"] ** 2 == pytest.approx(law.var(), rel=4 * np.sqrt(2 / 3000))
    assert found["indegree.q50"] == law.ppf(0.5)


# ------------------------------------------------------------------------------------------------ GraphML


def test_a_graph_written_as_graphml_is_the_overlay_by_the_users_numbers(tmp_path):
    churn = {"kind": "rate", "leave": 0.3, "rejoin": 0.3}
    run = finished(tree(VIEWS, nodes=20, cycles=5, churn=churn))
    layer, world = run.layers["peers"], run.world
    links = overlay_stats.write_graphml(layer, world, tmp_path / "overlay.graphml")
    graph = nx.read_graphml(tmp_path / "overlay.graphml", node_type=int)
    assert sorted(graph.nodes) == list(range(20))
    assert {node: data["online"] for node, data in graph.nodes(data=True)} == {
        int(label): bool(online) for label, online in zip(world.label, world.online, strict=True)
    }
    expected = {
        (int(world.label[i]), int(world.label[word & 0xFFFFFFFF]))
        for i, view in enumerate(layer.views)
        for word in view
        if word >= 0
    }
    assert set(graph.edges) == expected
    assert graph.number_of_edges() == links == len(expected)
    assert graph.is_directed()


def test_a_static_graph_is_exported_with_the_edges_of_its_file(tmp_path):
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n2 3\n")
    layer = {"name": "peers", "use": "static_overlay", "file": "edges.txt", "directed": True}
    run = Simulation(Scenario.of(tree(layer, nodes=5, cycles=1), tmp_path))
    for _ in run:
        pass
    overlay_stats.write_graphml(run.layers["peers"], run.world, tmp_path / "out.graphml")
    graph = nx.read_graphml(tmp_path / "out.graphml", node_type=int)
    assert sorted(graph.edges) == [(0, 1), (1, 2), (2, 3)]
    assert sorted(graph.nodes) == [0, 1, 2, 3, 4]


def test_an_overlay_in_which_everybody_knows_everybody_cannot_be_written(tmp_path):
    run = finished(tree({"name": "all", "use": "uniform"}))
    with pytest.raises(UserError, match="“all” stores no links"):
        overlay_stats.write_graphml(run.layers["all"], run.world, tmp_path / "out.graphml")


def test_an_overlay_is_found_by_its_name_or_is_the_first():
    run = simulation(tree(VIEWS, VIEWS | {"name": "others"}))
    layers = run.layers
    assert overlay_stats.find(layers, None, run.world) is layers["peers"]
    assert overlay_stats.find(layers, "others", run.world) is layers["others"]
    with pytest.raises(UserError, match=r"(?s)no overlay “other”.*did you mean “others”"):
        overlay_stats.find(layers, "other", run.world)


def test_the_first_overlay_that_stores_links_is_found():
    run = simulation(tree({"name": "all", "use": "uniform"}, VIEWS))
    layers = run.layers
    assert overlay_stats.find(layers, None, run.world) is layers["peers"]
