"""The tables beside the log: nodes that are followed, and links to be drawn."""

import numpy as np
import pytest
from helpers import HERE, finished, learning_tree, simulation, tree

import golfsim
from golfsim.core.errors import UserError
from golfsim.protocol.learner import classify
from golfsim.runs import cluster, single
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint
from golfsim.sim.log import classes_of, note_of

PEERS = {"name": "peers", "use": "newscast", "view": 4}
LEARNING = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
DATA = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
CHURN = {"kind": "rate", "leave": 0.2, "rejoin": 0.4}


def followed(**observe):
    return learning_tree(PEERS, LEARNING, cycles=8, churn=CHURN, observe={"every": 2, "nodes": 5} | observe)


def tables(run):
    """All tables, for comparison bit for bit."""
    return {name: {c: a.tobytes() for c, a in table.state().items()} for name, table in run.log.tables.items()}


def test_without_being_asked_for_there_are_no_tables(tmp_path):
    run = finished(followed())
    assert run.log.tables == {}
    with pytest.raises(UserError, match="no run here has stored its nodes") as caught:
        run.log.nodes()
    assert "follow = 100" in caught.value.hint


def test_the_same_nodes_are_followed_in_each_measured_cycle():
    frame = finished(followed(follow=7)).log.nodes()
    groups = frame.groupby("cycle")["node"].apply(list)
    assert groups.index.tolist() == [2, 4, 6, 8]
    assert len(set(groups.iloc[0])) == 7
    assert all(nodes == sorted(groups.iloc[0]) for nodes in groups)
    assert list(frame.columns) == ["run", "seed", "cycle", "layer", "node", "online", "error"]


def test_who_is_followed_is_drawn_by_the_seed():
    chosen = [tuple(finished(followed(follow=7), run=run).log.nodes()["node"][:7]) for run in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_a_followed_node_has_the_error_of_its_own_model_by_the_users_number():
    run = finished(followed(follow=1000))
    frame = run.log.nodes()
    now = frame[frame["cycle"] == 8].set_index("node")
    world, layer, test = run.world, run.layer("learning"), run.observer._test
    assert len(now) == world.nodes
    assert 0 < now["online"].sum() < world.nodes
    for node in range(world.nodes):
        row = now.loc[world.label[node]]
        assert row["online"] == world.online[node]
        predicted = classify(layer.scores(np.array([node], np.int32), test.x))[:, 0]
        if world.online[node]:
            assert row["error"] == (predicted != test.y).mean()
        else:
            assert np.isnan(row["error"])


def test_following_changes_no_other_number():
    plain, more = finished(followed()), finished(followed(draw=True))
    assert plain.log.frame().equals(more.log.frame())


def test_links_are_those_of_the_overlay_by_the_users_numbers():
    run = finished(followed(draw=True))
    frame = run.log.links()
    now = frame[frame["cycle"] == 8]
    matrix = run.layer("peers").links(run.world).tocoo()
    label = run.world.label
    expected = sorted(zip(label[matrix.row].tolist(), label[matrix.col].tolist(), strict=True))
    assert list(zip(now["source"], now["target"], strict=True)) == expected
    assert len(run.log.nodes()) == 4 * run.world.nodes


def test_without_a_learner_only_the_online_state_is_followed():
    run = finished(tree(PEERS, observe={"every": 1, "follow": 3}, churn=CHURN))
    frame = run.log.nodes()
    assert set(frame["layer"]) == {"world"}
    assert frame["error"].isna().all()
    assert len(frame) == 3 * 6


def test_a_large_network_is_not_drawn():
    with pytest.raises(UserError, match="501 nodes are too many to draw") as caught:
        simulation(tree(PEERS, nodes=501, observe={"draw": True}))
    assert caught.value.key == "observe.draw"
    assert "links" in simulation(tree(PEERS, nodes=500, observe={"draw": True})).log.tables


def test_to_draw_and_to_follow_some_contradict_each_other():
    with pytest.raises(UserError, match="follows all nodes"):
        Scenario.of(followed(draw=True, follow=3), HERE)


@pytest.mark.parametrize("threads", [2, 3])
def test_tables_are_the_same_for_any_number_of_threads(threads):
    assert tables(finished(followed(draw=True), threads=threads)) == tables(finished(followed(draw=True)))


@pytest.mark.parametrize("at", [1, 3, 4, 7])
def test_tables_survive_an_interruption_bit_for_bit(tmp_path, at):
    half = simulation(followed(draw=True))
    for _ in range(at):
        half.step()
    checkpoint.save(half, tmp_path / "state")
    resumed = simulation(followed(draw=True), threads=2)
    checkpoint.load(resumed, tmp_path / "state")
    assert tables(resumed) == tables(half)
    for _ in resumed:
        pass
    whole = finished(followed(draw=True))
    assert tables(resumed) == tables(whole)
    assert resumed.log.nodes().equals(whole.log.nodes())
    assert len(whole.log.links())


def test_a_sweep_is_loaded_with_its_columns_and_only_runs_that_have_the_table(tmp_path):
    swept = followed(follow=4) | {"runs": 2, "sweep": {"peers.view": [3, 5]}}
    single.run(Scenario.of(swept, HERE), tmp_path / "one")
    single.run(Scenario.of(followed(), HERE), tmp_path / "two")
    frame = golfsim.load_nodes(tmp_path)
    assert frame.groupby(["peers.view", "run"], observed=True).size().tolist() == [16] * 4
    assert frame["path"].nunique() == 4
    with pytest.raises(UserError, match="has stored its links"):
        golfsim.load_links(tmp_path)
    with pytest.raises(UserError, match="has stored its nodes"):
        golfsim.load_nodes(tmp_path / "two")


def test_what_is_loaded_is_what_was_kept_with_its_note(tmp_path):
    data = {"set": "mooc", "train": 20, "test": 20, "scale": ["minmax"]}
    scenario = Scenario.of(followed(draw=True) | {"data": data, "nodes": {"records": 1}}, HERE)
    single.run(scenario, tmp_path)
    run = golfsim.Simulation(scenario)
    for _ in run:
        pass
    for loaded, kept in (
        (golfsim.load_nodes(tmp_path), run.log.nodes()),
        (golfsim.load_links(tmp_path), run.log.links()),
    ):
        assert "generated" in note_of(loaded)
        assert note_of(loaded) == note_of(kept)
        for column in kept.columns:
            assert loaded[column].astype(str).tolist() == kept[column].astype(str).tolist(), column


def test_a_cluster_sends_the_tables_back():
    assert {"nodes.parquet", "links.parquet"} < set(cluster.KEPT)
    assert cluster.KEPT[-1] == "run.json"


BUDGET = {"name": "walk", "use": "gradient_perturbation", "peers": "peers", "records": "raw", "epsilon": 8.0}
VISITS = {"schedule": {"kind": "uniform", "visits": 4}}


def test_the_epsilon_of_every_record_is_stored_once_at_the_end(tmp_path):
    scenario = Scenario.of(learning_tree(PEERS, BUDGET | VISITS, cycles=40, data=DATA), HERE)
    run = golfsim.Simulation(scenario)
    for _ in run:
        pass
    frame, ledger = run.log.spent(), run.layer("walk").ledger
    assert frame["cycle"].unique().tolist() == [40]
    found = dict(zip(frame["spent"], frame["count"], strict=True))
    assert found == {2.0 * k: int((ledger.visits == k).sum()) for k in range(5) if (ledger.visits == k).any()}
    assert len(found) > 2
    assert frame["count"].sum() == 80
    assert not frame["by_node"].any()
    assert not [name for name in run.state() if "spent" in name]  # it follows from the ledger
    golfsim.run(scenario, tmp_path)
    stored = golfsim.load_spent(tmp_path)
    assert stored[frame.columns.tolist()].to_dict("list") == frame.to_dict("list")


def test_ledgers_of_one_layer_add_up_and_a_run_without_a_budget_has_no_table():
    chosen = {"name": "local", "use": "regularised_erm", "epsilon": 2.0, "lambda": "private", "lambda_epsilon": 1.0}
    noisy = chosen | {"noise": "output", "loss": "logistic"}
    run = finished(learning_tree(noisy, cycles=2, data=DATA, nodes={"records": 20}))
    frame = run.log.spent()
    assert frame["spent"].max() == pytest.approx(run.latest["local"]["spent.max"])
    weighted = (frame["spent"] * frame["count"]).sum() / frame["count"].sum()
    assert weighted == pytest.approx(run.latest["local"]["spent.mean"])
    with pytest.raises(UserError, match="spent by record"):
        finished(followed()).log.spent()


def test_in_degrees_of_all_online_nodes_are_counted_when_overlays_are_measured(tmp_path):
    run = finished(followed(overlay=2, draw=True))
    degrees, links = run.log.degrees(), run.log.links()
    online = run.log.nodes().query("online").groupby("cycle")["node"].apply(set)
    for cycle, part in degrees.groupby("cycle"):
        here = links[links["cycle"] == cycle]
        alive = here[here["source"].isin(online[cycle]) & here["target"].isin(online[cycle])]
        counts = alive.groupby("target").size().reindex(sorted(online[cycle]), fill_value=0)
        assert dict(zip(part["degree"], part["count"], strict=True)) == counts.value_counts().to_dict()
    assert degrees["cycle"].unique().tolist() == [2, 4, 6, 8]
    frame = run.log.frame()
    mean = frame[(frame["metric"] == "indegree.mean") & (frame["cycle"] == 8)]["value"].item()
    last = degrees[degrees["cycle"] == 8]
    assert (last["degree"] * last["count"]).sum() / last["count"].sum() == pytest.approx(mean)


def test_a_log_states_the_names_of_its_classes(tmp_path):
    iris = {"set": "segmentation", "train": 80, "test": 30, "scale": ["minmax"]}
    scenario = Scenario.of(learning_tree(PEERS, LEARNING, cycles=2, data=iris), HERE)
    names = classes_of(golfsim.run(scenario, tmp_path))
    assert len(names) > 2
    assert names == classes_of(golfsim.load(tmp_path))
    assert names == classes_of(finished(learning_tree(PEERS, LEARNING, cycles=2, data=iris)).log.frame())
    other = Scenario.of(learning_tree(PEERS, LEARNING, cycles=2, name="other"), HERE)
    golfsim.run(other, tmp_path / "other")
    assert classes_of(golfsim.load(tmp_path)) == []  # they differ
