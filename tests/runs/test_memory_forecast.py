"""How much memory a run will need is told before it starts, for every protocol, and what does not fit is refused."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from entries import ENTRIES, accepted, scenario
from helpers import HERE, tree
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core import memory
from golfsim.core.errors import UserError
from golfsim.runs import batch, dry_run, memory_forecast
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from golfsim.testing import DATA

NEWSCAST = {"name": "peers", "use": "newscast", "view": 20}
LARGER = 6000
SHARE = 0.25  # by which a prediction may be wrong
MEASURED = [
    "uniform", "static_overlay", "newscast", "golf, everything remembered", "golf over newscast", "random_walk",
    "data_perturbation", "regularised_erm", "group_aggregation", "group_aggregation by gossip",
]  # fmt: skip


def peak(table):
    """The largest amount of memory that a run allocates at a time."""
    tracemalloc.start()
    try:
        run = Simulation(Scenario.of(table, HERE))
        for _ in run:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.needs_jit
@pytest.mark.parametrize("delayed", [False, True], ids=["at once", "delayed"])
@pytest.mark.parametrize("name", MEASURED)
def test_the_memory_of_small_networks_predicts_that_of_a_large_one(name, delayed, monkeypatch):
    entry = ENTRIES[name]
    transport = accepted(entry, probed=False) if delayed else {}
    if delayed and "delay" not in transport:
        pytest.skip("accepts no delay")
    monkeypatch.setattr(memory_forecast, "used", lambda: 0)
    table = scenario(entry, probed=False, number=LARGER, cycles=3, transport=transport)
    foreseen = memory_forecast._carried_on(Scenario.of(table, HERE), LARGER, 1, False)
    assert foreseen == pytest.approx(peak(table), rel=SHARE)


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

    found = memory_forecast.carried_on(peak, few, nodes)
    last = max(tried) // 4
    lost = bend and needed(4 * last) - needed(2 * last) <= 2.4 * (needed(2 * last) - needed(last))  # hardly bent as yet
    assert lost or found == pytest.approx(needed(nodes), rel=0.02)
    assert max(tried) <= nodes // 2


def test_what_stops_growing_is_seen_before_a_run_is_refused():
    def peak(nodes):
        return 10**6 + 30 * nodes + 200 * min(nodes, 4000)

    assert memory_forecast.carried_on(peak, 1000, 64_000) > 3 * peak(64_000)
    enough = memory_forecast.carried_on(peak, 1000, 64_000, enough=2 * peak(64_000))
    assert enough == pytest.approx(peak(64_000), rel=0.01)


def test_what_needs_little_is_not_measured(monkeypatch):
    monkeypatch.setattr(memory_forecast, "_carried_on", None)
    assert memory_forecast.predicted(Scenario.of(tree(NEWSCAST, nodes=1000), HERE)) is None


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


def test_a_dry_run_reports_that_a_run_does_not_fit_without_a_trial(little, tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "try_out", None)
    told = dry_run.text(dry_run.of(Scenario.of(tree(NEWSCAST, nodes=1000), HERE), tmp_path / "r", batch.Execution()))
    assert "the run would be refused: it needs about" in told
    assert "97.7 KiB available" in told


def test_workers_are_fewer_where_more_do_not_fit_and_refused_where_they_were_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_forecast, "predicted", lambda *_: 40)
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


def test_limits_of_the_process_and_of_its_group_count(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available() == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() > 10**6


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_the_most_memory_a_process_held_is_its_own_and_not_that_of_who_started_it():
    code = "from golfsim.core.memory import most_used; held = bytearray(2**27); del held; print(most_used())"
    command = [sys.executable, "-c", code]
    ours = np.ones(2**26)  # half a GiB
    told = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert ours.all()
    assert 2**27 < told < 2**28
