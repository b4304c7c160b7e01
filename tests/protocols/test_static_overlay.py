"""Fixed graphs."""

import re

import networkx as nx
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, make_layer, make_world, p_of_chi_square, simulation, tree
from scipy.stats import chi2

from golfsim.core import rng as draws
from golfsim.core.errors import UserError
from golfsim.data.graphs import read_adjacency
from golfsim.scenario.messages import ScenarioError
from protocols.static_overlay import StaticOverlay

KEY = draws.key(1, "learning", "peer")


def build(nodes=10, online=None, **keys):
    world = at_cycle(make_world(nodes, layers=["peers"]), 1, online)
    return world, make_layer(StaticOverlay, world, "peers", **keys)


def labelled_links(world, layer):
    """The links in the user's numbering."""
    i, j = layer.links(world).nonzero()
    return {(int(world.label[a]), int(world.label[b])) for a, b in zip(i, j, strict=True)}


def edge_file(folder, text):
    (folder / "edges.txt").write_text(text)
    return {"file": "edges.txt", "folder": folder}


def test_an_edge_list_has_the_users_numbers(tmp_path):
    edges = {(0, 1), (1, 2), (5, 2), (7, 3)}
    world, layer = build(**edge_file(tmp_path, "# a comment\n" + "".join(f"{a} {b}\n" for a, b in edges)))
    assert (world.label != np.arange(10)).any()
    assert labelled_links(world, layer) == edges | {(b, a) for a, b in edges}


def test_an_edge_list_may_be_directed(tmp_path):
    world, layer = build(**edge_file(tmp_path, "0 1\n1 2\n2 0\n1 0\n"), directed=True)
    assert labelled_links(world, layer) == {(0, 1), (1, 2), (2, 0), (1, 0)}


def test_loops_and_repeated_edges_do_not_count(tmp_path):
    world, layer = build(**edge_file(tmp_path, "0 1\n0 1 # again\n1 0\n3 3\n"))
    assert labelled_links(world, layer) == {(0, 1), (1, 0)}
    assert layer.links(world).nnz == 2


def test_a_generators_graph_is_networkxs():
    world, layer = build(12, generator="circular_ladder_graph", arguments={"n": 6})
    graph = nx.circular_ladder_graph(6)
    assert labelled_links(world, layer) == {pair for a, b in graph.edges for pair in ((a, b), (b, a))}


def test_a_directed_generators_edges_keep_their_direction():
    world, layer = build(30, generator="gn_graph")
    links = labelled_links(world, layer)
    assert len(links) == 29
    assert not any((b, a) in links for a, b in links)


def test_a_random_generator_draws_from_the_seed_of_the_run():
    def graph(seed):
        world = at_cycle(make_world(20), 1)
        layer = make_layer(
            StaticOverlay, world, "peers", seed=seed, generator="random_regular_graph", arguments={"d": 4}
        )
        assert (layer.links(world).sum(axis=1) == 4).all()
        return labelled_links(world, layer)

    assert graph(1) == graph(1)
    assert graph(1) != graph(2)


def test_random_neighbours_are_different_others_and_uniform():
    counts = np.zeros((8, 8))
    for seed in range(700):
        world = at_cycle(make_world(8), 1)
        links = make_layer(StaticOverlay, world, "peers", seed=seed, neighbours=3).links(world).toarray()
        assert (links.sum(axis=1) == 3).all()
        counts += links
    assert (counts.diagonal() == 0).all()
    # Each row's counts vary less than independent ones would (three of seven): by (1 − 3/7), times 7/6.
    off = counts[~np.eye(8, dtype=bool)].reshape(8, 7)
    chi_square = ((off - 300) ** 2 / 300).sum() / (1 - 3 / 7) * 6 / 7
    assert chi2.sf(chi_square, 8 * 6) > ALPHA
    assert chi2.cdf(chi_square, 8 * 6) > ALPHA


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize(("liveness", "reachable"), [("oracle", [1, 4, 7]), ("none", [1, 3, 4, 7])])
def test_a_node_chooses_uniformly_among_its_neighbours_and_with_the_oracle_among_live_ones(
    tmp_path, liveness, reachable, k
):
    world, layer = build(**edge_file(tmp_path, "0 1\n0 3\n0 4\n0 7\n2 1\n"), liveness=liveness)
    node_of = np.argsort(world.label)
    online = np.ones(10, bool)
    online[node_of[3]] = False
    asking = np.array([node_of[0]], np.int32)
    drawn = [world.label[layer.choose(at_cycle(world, c, online), asking, KEY, k)[0]] for c in range(1, 4001)]
    found, counts = np.unique(drawn, return_counts=True)
    assert found.tolist() == reachable
    assert p_of_chi_square(counts) > ALPHA


def test_choices_differ_by_k(tmp_path):
    world, layer = build(50, neighbours=20)
    one, two = (layer.choose(world, world.order, KEY, k) for k in (0, 1))
    assert (one != two).any()


@pytest.mark.parametrize("liveness", ["oracle", "none"])
def test_who_has_nobody_to_choose_chooses_minus_one(tmp_path, liveness):
    world, layer = build(**edge_file(tmp_path, "0 1\n"), liveness=liveness)
    node_of = np.argsort(world.label)
    online = np.ones(10, bool)
    online[node_of[1]] = False
    at_cycle(world, 1, online)
    alone, widowed = layer.choose(world, node_of[[5, 0]].astype(np.int32), KEY)
    assert alone == -1
    assert widowed == (-1 if liveness == "oracle" else node_of[1])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0 10\n", "no node 10"),
        ("0 -1\n", "no node -1"),
        ("0 1\n2\n", "two node numbers"),
        ("0 a\n", "two node numbers"),
        ("0.5 1\n", "two node numbers"),
        (None, "No such file"),
    ],
)
def test_a_bad_edge_list_is_the_users_error_at_the_key_of_the_file(tmp_path, text, complaint):
    if text is not None:
        (tmp_path / "edges.txt").write_text(text)
    with pytest.raises(UserError, match=complaint) as caught:
        build(file="edges.txt", folder=tmp_path)
    assert caught.value.key == "peers.file"


@pytest.mark.filterwarnings("ignore:loadtxt")
def test_an_empty_edge_list_is_a_graph_without_edges(tmp_path):
    world, layer = build(**edge_file(tmp_path, "# nothing\n"))
    assert layer.links(world).nnz == 0
    assert (layer.choose(world, world.order, KEY) == -1).all()


@pytest.mark.parametrize(
    ("keys", "key", "complaint"),
    [
        ({"generator": "random_regular_grph"}, "generator", "random_regular_graph"),
        ({"generator": "Graph"}, "generator", "no generator"),
        ({"generator": "random_regular_graph"}, "arguments", "d"),
        ({"generator": "random_regular_graph", "arguments": {"d": 3.5}}, "arguments", ""),
        ({"generator": "random_regular_graph", "arguments": {"d": 11}}, "arguments", "d"),
        ({"generator": "cycle_graph", "arguments": {"n": 7}}, "arguments", "7 nodes, the network has 10"),
        ({"generator": "watts_strogatz_graph", "arguments": {"k": 4, "q": 0.1}}, "arguments", "q"),
        ({"neighbours": 10}, "neighbours", "10 different neighbours"),
    ],
)
def test_a_bad_generator_is_the_users_error_at_its_key(keys, key, complaint):
    with pytest.raises(UserError) as caught:
        build(**keys)
    assert caught.value.key == f"peers.{key}"
    assert complaint in str(caught.value)


@pytest.mark.parametrize("keys", [{}, {"neighbours": 2, "generator": "cycle_graph"}])
def test_a_graph_comes_from_exactly_one_source(keys):
    with pytest.raises(ScenarioError, match="exactly one of"):
        simulation(tree({"name": "peers", "use": "static_overlay"} | keys))


def npz(folder, **changes):
    """A ring of four nodes as scipy.sparse saves it, with some arrays changed."""
    arrays = {
        "format": np.array(b"csr"), "shape": np.array([4, 4]), "data": np.ones(4), "indices": np.array([1, 2, 3, 0]),
        "indptr": np.arange(5),
    }  # fmt: skip
    path = folder / "graph.npz"
    np.savez(path, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return path


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_an_adjacency_matrix_of_scipy_is_read_in_each_format(tmp_path, form):
    from scipy.sparse import csr_array, save_npz

    ring = np.roll(np.eye(4), 1, axis=1)
    save_npz(tmp_path / "graph.npz", csr_array(ring).asformat(form))
    assert sorted(map(tuple, read_adjacency(tmp_path / "graph.npz", 4).tolist())) == [(0, 1), (1, 2), (2, 3), (3, 0)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": np.array([0, 1, 2, 3, 2**40])}, "“indptr” does not divide 4 entries into 4 rows"),
        ({"indptr": np.array([0, 3, 1, 2, 4])}, "“indptr” does not divide"),
        ({"indptr": np.array([0, 4])}, "“indptr” does not divide"),
        ({"indptr": np.array([0.0, 1, 2, 3, 4])}, "expected whole numbers in “indptr”"),
        ({"indptr": None}, "expected whole numbers in “indptr”"),
        ({"indices": np.array([1, 2, 3, 9])}, "there is no node 9"),
        ({"indices": np.array([1, 2, 3, -1])}, "there is no node -1"),
        ({"shape": np.array([4, 5])}, "the matrix is 4 × 5, the network has 4 nodes"),
        ({"shape": None}, "expected whole numbers in “shape”"),
        ({"format": np.array(b"dia")}, "got “dia”"),
        ({"format": np.array(["csr", "csr"])}, "expected a matrix"),
    ],
)
def test_a_damaged_adjacency_matrix_is_refused_before_scipy_sees_it(tmp_path, changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_adjacency(npz(tmp_path, **changes), 4)


def test_an_adjacency_matrix_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "graph.npz").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(ValueError, match="not a zip file"):
        read_adjacency(tmp_path / "graph.npz", 4)
