"""Data and graphs passed from Python are like files: runs know them by content, workers get them, mistakes are told."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from helpers import learning_tree, tree

import golfsim
from golfsim.core.errors import UserError
from golfsim.runs import batch, store
from golfsim.scenario import in_memory
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from golfsim.testing import rows

UNIFORM = {"name": "peers", "use": "uniform"}
GRAPH = {"name": "peers", "use": "static_overlay"}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(in_memory, "cache_folder", lambda: tmp_path / "cache")


@pytest.fixture
def table(rng):
    """Two classes that a feature tells apart, a column of text, and the label in the middle."""
    y = rng.integers(0, 2, 60)
    return pd.DataFrame({
        "size": y + rng.normal(0, 0.1, 60), "kind": np.where(y == 1, "spam", "ham"),
        "colour": np.where(rng.integers(0, 2, 60) == 1, "red", "blue"), 7: rng.integers(0, 9, 60),
    })  # fmt: skip


def learning(peers=UNIFORM, **more):
    data = {"test": 0.2, "test_seed": 1, "scale": ["minmax", "l1"], "bounds": "train"} | more
    return learning_tree(peers, GOLF, cycles=3, data=data, nodes={"records": 2})


def finished(scenario, run=1):
    simulation = Simulation(scenario, run)
    for _ in simulation:
        pass
    return simulation


# records


def test_a_data_frame_is_what_its_file_would_be(table, tmp_path):
    table.to_csv(tmp_path / "table.csv", index=False)
    of_file = Scenario.of(learning(file="table.csv", label="kind"), tmp_path)
    of_frame = Scenario.of(learning(), data=table, label="kind")
    assert rows(finished(of_frame)) == rows(finished(of_file))
    assert finished(of_frame).features == ("size", "colour=blue", "colour=red", "7")


def test_arrays_with_labels_in_words_are_data_too(table):
    x, y = table[["size", 7]], table["kind"]
    run = finished(Scenario.of(learning(), data=(x, y)))
    again = finished(Scenario.of(learning(), data=(x.to_numpy(), list(y))))
    assert rows(run) == rows(again)
    assert run.features == ("x0", "x1")


def test_test_records_can_be_given_apart(table):
    config = learning()
    del config["data"]["test"]
    run = finished(Scenario.of(config, data=table[:40], test_data=table[40:], label="kind"))
    assert run.raw.rows.label.size == 40


def test_a_run_is_known_by_the_data_that_was_given(table):
    other = table.assign(size=table["size"] + 1e-9)
    one, same, changed = (Scenario.of(learning(), data=t, label="kind") for t in (table, table.copy(), other))
    assert store.hash_of(one, 1) == store.hash_of(same, 1) != store.hash_of(changed, 1)


def test_the_table_of_the_caller_is_left_as_it_is(table):
    config = learning()
    before = table.copy()
    Scenario.of(config, data=table, label="kind")
    assert "file" not in config["data"]
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.slow
def test_workers_get_what_was_given_and_runs_that_are_there_are_not_made_again(table, tmp_path):
    ring = nx.cycle_graph(24)
    scenario = Scenario.of(learning(GRAPH) | {"runs": 2}, data=table, label="kind", graphs={"peers": ring})
    assert batch.run(scenario, tmp_path / "r", batch.Execution(workers=2)).failures == []
    again = Scenario.of(learning(GRAPH) | {"runs": 2}, data=table, label="kind", graphs={"peers": ring})
    assert batch.run(again, tmp_path / "r", batch.Execution(workers=2)).outcomes == {}
    assert golfsim.load(tmp_path / "r")["run"].nunique() == 2


@pytest.mark.parametrize(
    ("config", "more", "message"),
    [
        (learning(set="spambase"), {}, "data.set: the data is passed from Python"),
        (learning(), {"label": "knid"}, "there is no column “knid”"),
        (learning(), {"data": [[1, 2]]}, "expected a DataFrame, or a pair"),
        (learning(), {"data": ([["a"]], [1])}, "features must be numbers"),
        (learning(), {"data": ([[1.0]], [None])}, "labels numbers or text"),
        (learning(), {"data": None}, "need data, which is not given"),
        (learning(), {"data": pd.DataFrame([[1, 2]], columns=["a", "a"])}, "two columns .* have the same name"),
        (learning(), {"data": pd.DataFrame({"a": [1, "x", None]})}, "cannot be stored as Parquet"),
    ],
)
def test_data_that_does_not_fit_is_reported(table, config, more, message):
    with pytest.raises(UserError, match=message):
        Simulation(Scenario.of(config, **({"data": table, "label": "kind"} | more)))


# graphs


def links(scenario):
    """The graph of a run, by the user's numbers."""
    run = Simulation(scenario)
    world, found = run.world, run.layer("peers").links(run.world).tocoo()
    return set(zip(world.label[found.row].tolist(), world.label[found.col].tolist(), strict=True))


def both_ways(graph):
    return {pair for a, b in graph.edges for pair in ((a, b), (b, a))}


def test_a_graph_is_the_overlay():
    graph = nx.barabasi_albert_graph(30, 2, seed=1)
    assert links(Scenario.of(tree(GRAPH, nodes=30), graphs={"peers": graph})) == both_ways(graph)


def test_a_directed_graph_keeps_its_directions():
    graph = nx.gn_graph(30, seed=1)
    assert links(Scenario.of(tree(GRAPH, nodes=30), graphs={"peers": graph})) == set(graph.edges)


def test_weights_loops_and_parallel_edges_count_for_nothing():
    graph = nx.MultiGraph([(0, 1), (0, 1), (1, 1), (2, 3)])
    graph.add_edge(1, 2, weight=0)
    assert links(Scenario.of(tree(GRAPH, nodes=4), graphs={"peers": graph})) == both_ways(nx.path_graph(4))


def test_a_run_is_known_by_the_graph_that_was_given():
    one, same, other = (
        Scenario.of(tree(GRAPH, nodes=9), graphs={"peers": graph})
        for graph in (nx.cycle_graph(9), nx.cycle_graph(9), nx.path_graph(9))
    )
    assert store.hash_of(one, 1) == store.hash_of(same, 1) != store.hash_of(other, 1)


@pytest.mark.parametrize(
    ("config", "graph", "message"),
    [
        (tree(GRAPH, nodes=9), nx.path_graph(8), "the matrix is 8 × 8, the network has 9 nodes"),
        (tree(GRAPH, nodes=3), nx.Graph([("a", "b")]), "must be the numbers 0 … 1"),
        (tree(GRAPH, nodes=3), nx.Graph(), "must be the numbers"),
        (tree(GRAPH, nodes=3), [(0, 1)], "expected a networkx graph for “peers”; got a list"),
        (tree(UNIFORM, nodes=3), nx.path_graph(3), "peers.use: only a static overlay accepts a graph"),
        (
            tree(GRAPH | {"neighbours": 1}, nodes=3),
            nx.path_graph(3),
            "peers.neighbours: the graph is passed from Python",
        ),
        (tree({"name": "peer"}, nodes=3), nx.path_graph(3), "no layer has this name\n    did you mean “peer”?"),
    ],
)
def test_a_graph_that_does_not_fit_is_reported(config, graph, message):
    with pytest.raises(UserError) as raised:
        Simulation(Scenario.of(config, graphs={"peers": graph}))
    assert message in str(raised.value)


def test_a_matrix_that_is_none_is_reported(tmp_path):
    (tmp_path / "graph.npz").write_text("0 1")
    with pytest.raises(UserError, match=r"not a matrix in the format of scipy.sparse"):
        Simulation(Scenario.of(tree(GRAPH | {"file": "graph.npz"}, nodes=3), tmp_path))
