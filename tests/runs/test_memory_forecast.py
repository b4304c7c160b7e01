"""How much memory a run will need is told before it starts, for every protocol, and what does not fit is refused."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from entries import ENTRIES, GOLF, LOCAL, PEERS, accepted, scenario
from helpers import HERE, tree
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core import memory
from golfsim.core.errors import UserError
from golfsim.data import loading
from golfsim.runs import batch, dry_run, memory_forecast
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from golfsim.testing import DATA

NEWSCAST = {"name": "peers", "use": "newscast", "view": 20}
LARGER = 6000
SHARE = 0.25  # by which a prediction may be wrong
SPAM = {"set": "spambase", "scale": ["minmax", "l1"]}
WIDE = {
    "golf, all nodes observed": (GOLF, {"number": 4200}, {"nodes": "all"}, {}),
    "golf, cache of 30": (GOLF | {"variant": "um", "cache": 30}, {"number": 4200}, {}, {}),
    "golf, records more than once": (GOLF, {"number": 20_000, "records": 3}, {}, {}),
    "golf, delays": (GOLF, {"number": 10_000}, {}, {"delay": {"kind": "exponential", "mean": 2.0, "max": 6}}),
    "local models, all nodes observed": (LOCAL, {"number": 4200, "records": 3}, {"nodes": "all"}, {}),
}
GRAPHS = {
    "random_regular_graph": {"d": 10},
    "barabasi_albert_graph": {"m": 5},
    "gnp_random_graph": {"p": 0.002},
    "watts_strogatz_graph": {"k": 6, "p": 0.1},
    "hypercube_graph": {"n": 12},
    "powerlaw_cluster_graph": {"m": 4, "p": 0.1},
    "cycle_graph": {},
    "star_graph": {"n": 4095},
    "random_geometric_graph": {"radius": 0.02},
}
WALK = {"name": "subject", "use": "random_walk", "peers": "peers", "records": "raw"}


def peak(table):
    """The largest amount of memory that a run allocates at a time, once kernels are compiled and data files read."""
    for _ in Simulation(Scenario.of(table | {"seed": 2}, HERE)):
        pass
    with memory.traced() as found:
        for _ in Simulation(Scenario.of(table, HERE)):
            pass
    loading.forget_drawn()
    return found()


@pytest.mark.needs_jit
@pytest.mark.parametrize("delayed", [False, True], ids=["at once", "delayed"])
@pytest.mark.parametrize("name", ENTRIES)
def test_what_layers_state_is_the_memory_of_a_run(name, delayed):
    entry = ENTRIES[name]
    transport = accepted(entry, probed=False) if delayed else {}
    if delayed and "delay" not in transport:
        pytest.skip("accepts no delay")
    table = scenario(entry, probed=False, number=LARGER, cycles=3, transport=transport)
    stated = memory_forecast.stated(Scenario.of(table, HERE))
    if name == "a user's own":
        assert stated is None
    else:
        assert stated == pytest.approx(peak(table), rel=SHARE)


@pytest.mark.needs_jit
@pytest.mark.parametrize("name", WIDE)
def test_what_layers_state_is_the_memory_of_a_run_with_many_features(name):
    layer, nodes, observe, transport = WIDE[name]
    table = tree(
        PEERS, {"name": "subject"} | layer, data=SPAM, cycles=2, observe={"every": 1} | observe, transport=transport
    ) | {"nodes": {"repeat": True} | nodes}
    assert memory_forecast.stated(Scenario.of(table, HERE)) == pytest.approx(peak(table), rel=SHARE)


@pytest.mark.needs_jit  # no kernels: counting lines takes memory, too
@pytest.mark.parametrize("name", GRAPHS)
def test_the_memory_of_a_graph_is_foreseen(name):
    layer = {"name": "peers", "use": "static_overlay", "generator": name, "arguments": GRAPHS[name]}
    table = tree(layer, nodes=4096, cycles=1)
    assert memory_forecast.stated(Scenario.of(table, HERE)) == pytest.approx(peak(table), rel=SHARE)


@pytest.mark.needs_jit
@pytest.mark.parametrize("name", ["random", "separable", "inseparable"])
def test_the_memory_of_a_generated_set_is_foreseen(name):
    data = {"set": name, "train": 30_000, "test": 100, "scale": []}
    walk = {"name": "subject", "use": "random_walk", "peers": "peers", "records": "raw"}
    table = tree(PEERS, walk, data=data, cycles=1, nodes={"records": 1})
    assert memory_forecast.stated(Scenario.of(table, HERE)) == pytest.approx(peak(table), rel=SHARE)


GIB = 2**30


@pytest.mark.needs_jit  # fifty million nodes are shuffled
@pytest.mark.parametrize(
    ("layer", "nodes", "least"),
    [
        (GOLF | {"cache": 20_000}, {"number": 8000, "repeat": True}, 30 * GIB),
        (GOLF, {"number": 50_000_000, "repeat": True}, 20 * GIB),
        (LOCAL, {"number": 30_000_000, "repeat": True}, 20 * GIB),
    ],
)
def test_what_is_much_too_large_is_foreseen_at_once(layer, nodes, least):
    table = tree(PEERS, {"name": "subject"} | layer, data=SPAM, cycles=1) | {"nodes": nodes}
    assert memory_forecast.predicted(Scenario.of(table, HERE)) > least


@pytest.mark.needs_jit
def test_a_layer_that_states_nothing_is_measured_with_fewer_nodes(monkeypatch):
    monkeypatch.setattr(memory_forecast, "used", lambda: 0)
    monkeypatch.setattr(memory_forecast, "WORTH_MEASURING", 0)
    entry = ENTRIES["a user's own"]
    table = scenario(entry, probed=False, number=LARGER, cycles=3)
    assert memory_forecast.predicted(Scenario.of(table, HERE)) == pytest.approx(peak(table), rel=SHARE)


@given(
    few=st.integers(1, 1000),
    constant=st.integers(0, 10**6),
    slope=st.integers(1, 10**4),
    bend=st.sampled_from([0, 1, 3]),
    hidden=st.sampled_from([0, 3, 5]),
)
def test_a_line_and_a_parabola_are_carried_on_also_where_reading_the_data_hides_their_beginning(
    few, constant, slope, bend, hidden
):
    nodes, tried = 128 * few, []

    def needed(nodes):
        return constant + slope * nodes + bend * nodes**2

    def peak(nodes):
        tried.append(nodes)
        return max(needed(nodes), needed(hidden * few) if hidden else 0)

    found = memory.extrapolated(peak, few, nodes)
    last = max(tried) // 4
    lost = bend and needed(4 * last) - needed(2 * last) <= 2.4 * (needed(2 * last) - needed(last))  # hardly bent as yet
    assert lost or found == pytest.approx(needed(nodes), rel=0.02)
    assert max(tried) <= nodes // 2


def test_what_stops_growing_is_seen_before_a_run_is_refused():
    def peak(nodes):
        return 10**6 + 30 * nodes + 200 * min(nodes, 4000)

    assert memory.extrapolated(peak, 1000, 64_000) > 3 * peak(64_000)
    enough = memory.extrapolated(peak, 1000, 64_000, enough=2 * peak(64_000))
    assert enough == pytest.approx(peak(64_000), rel=0.01)


def test_a_small_run_of_a_layer_that_states_nothing_is_not_measured(monkeypatch):
    monkeypatch.setattr(memory_forecast, "_measured", None)
    table = scenario(ENTRIES["a user's own"], probed=False, number=100, cycles=3)
    assert memory_forecast.predicted(Scenario.of(table, HERE)) is None


@pytest.fixture
def little(monkeypatch):
    """So much memory that a run of a thousand nodes does not fit."""
    monkeypatch.setattr(memory_forecast, "available", lambda: 100_000)
    monkeypatch.setattr(dry_run, "available", lambda: 100_000)
    monkeypatch.setattr(memory_forecast, "used", lambda: 10)


def test_a_run_that_does_not_fit_is_refused_before_it_starts(little, tmp_path):
    with pytest.raises(ScenarioError, match=r"nodes: needs about \d+ KiB of memory, 97\.7 KiB available"):
        batch.run(Scenario.of(tree(NEWSCAST, nodes=1000), HERE), tmp_path / "r", batch.Execution())
    assert not list(tmp_path.rglob("log.parquet"))


@pytest.mark.parametrize("views", [[2, 200], [200, 2]])
def test_a_sweep_is_refused_if_any_of_its_runs_does_not_fit(views, monkeypatch, tmp_path):
    monkeypatch.setattr(memory_forecast, "available", lambda: 400_000)
    monkeypatch.setattr(memory_forecast, "used", lambda: 10)
    table = tree(NEWSCAST, nodes=1000, cycles=1)
    assert batch.run(Scenario.of(table | {"sweep": {"peers.view": [2, 3]}}, HERE), tmp_path / "r", batch.Execution())
    with pytest.raises(ScenarioError, match=r"nodes: needs about .* of memory, 391 KiB available"):
        batch.run(Scenario.of(table | {"sweep": {"peers.view": views}}, HERE), tmp_path / "s", batch.Execution())
    assert not list((tmp_path / "s").rglob("log.parquet"))


def test_the_memory_of_a_dry_run_is_that_of_the_run_that_needs_most(monkeypatch, tmp_path):
    monkeypatch.setattr(dry_run, "try_out", lambda task: (1.0, 1.0, 1000))
    sweep = {"peers.view": [2, 200]}
    found = [
        dry_run.of(Scenario.of(tree(NEWSCAST, nodes=10_000) | {"sweep": one}, HERE), tmp_path, batch.Execution())
        for one in ({"peers.view": [200]}, sweep)
    ]
    alone, together = (one["cost"]["memory"] for one in found)
    assert together == pytest.approx(alone, rel=0.1)
    assert alone > 10_000 * 200 * 4


def test_a_dry_run_reports_that_a_run_does_not_fit_without_a_trial(little, tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "try_out", None)
    told = dry_run.text(dry_run.of(Scenario.of(tree(NEWSCAST, nodes=1000), HERE), tmp_path / "r", batch.Execution()))
    assert "the run would be refused: it needs about" in told
    assert "97.7 KiB available" in told


def test_workers_are_fewer_where_more_do_not_fit_and_refused_where_they_were_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_forecast, "most", lambda *_: 40)
    monkeypatch.setattr(memory_forecast, "available", lambda: 100)
    monkeypatch.setattr(batch, "cores", lambda: 3)
    scenario = Scenario.of(tree(NEWSCAST, nodes=5, cycles=1, runs=3), HERE)
    with pytest.raises(UserError, match="3 workers do not fit into memory; at most 2 can run\n    --workers 2"):
        batch.run(scenario, tmp_path / "r", batch.Execution(workers=3))
    assert len(batch.run(scenario, tmp_path / "r", batch.Execution(workers=None)).outcomes) == 3


def test_more_nodes_than_any_memory_holds_are_refused_at_once():
    found = memory_forecast.predicted(Scenario.of(tree(NEWSCAST, nodes=2**31 - 1), HERE))
    assert found is None or found > 2**35


def test_data_that_nodes_share_out_is_made_smaller_with_them():
    table = scenario(ENTRIES["golf"], number=4000)
    small = memory_forecast._smaller(Scenario.of(table, HERE), 4000, 500)
    assert small.data.train == 1000
    repeated = table | {"nodes": {"records": 2, "number": 4000, "repeat": True}, "data": DATA | {"train": 100}}
    small = memory_forecast._smaller(Scenario.of(repeated, HERE), 4000, 500)
    assert (small.nodes.number, small.data.train) == (500, 100)


VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def limits(folder, most, now, names=("memory.max", "memory.current")):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, (most, now), strict=True):
        (folder / name).write_text(f"{value}\n")


def test_limits_of_control_groups_count_up_to_the_top(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "groups")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "mine")
    (tmp_path / "mine").write_text("0::/user/job\n")
    limits(tmp_path / "groups", 5000, 2000)  # as a container sees it
    assert memory.available() == 3000
    limits(tmp_path / "groups" / "user", 4000, 2000)
    limits(tmp_path / "groups" / "user" / "job", "max", 2000)
    assert memory.available() == 2000
    (tmp_path / "mine").write_text("0::/elsewhere\n")
    (tmp_path / "groups" / "memory.max").write_text("max\n")
    assert memory.available() > 10**6


def test_limits_of_the_first_version_of_control_groups_count(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "mine")
    (tmp_path / "mine").write_text("12:cpu,cpuacct:/job\n5:memory:/job\n1:name=systemd:/job\n")
    limits(tmp_path / "memory" / "job", 7000, 3000, VERSION_1)
    assert memory.available() == 4000
    limits(tmp_path / "memory" / "job", 2**63 - 4096, 3000, VERSION_1)
    assert memory.available() > 10**6


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_the_most_memory_a_process_held_is_its_own_and_not_that_of_who_started_it():
    code = "from golfsim.core.memory import most_used; held = bytearray(2**27); del held; print(most_used())"
    command = [sys.executable, "-c", code]
    ours = np.ones(2**26)  # half a GiB
    told = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert ours.all()
    assert 2**27 < told < 2**28
