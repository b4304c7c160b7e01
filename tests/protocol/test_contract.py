"""One contract for every protocol, ours and a user's. A new protocol joins with an entry in `entries.ENTRIES`."""

import naive
import pytest
from entries import ENTRIES, scenario, subject
from helpers import HERE, needs_jit, simulation

from golfsim.protocol.loading import installed
from golfsim.runs import batch
from golfsim.scenario.model import Scenario
from golfsim.testing import CHECKS, contract


def test_every_installed_protocol_has_an_entry():
    assert set(installed()) <= {entry.layer["use"] for entry in ENTRIES.values()}


# Threads wait for each other where kernels are plain Python: there they divide nothing.
ONCE_COMPILED = {"any_number_of_threads": needs_jit}


@pytest.mark.parametrize("check", [pytest.param(name, marks=ONCE_COMPILED.get(name, ())) for name in CHECKS])
@pytest.mark.parametrize("name", ENTRIES)
def test_every_protocol_keeps_the_contract(name, check):
    CHECKS[check](subject(ENTRIES[name]))


def test_keys_are_those_of_the_reference():
    run = simulation(scenario(ENTRIES["golf"], seed=5), run=3)
    for name, layer in run.layers.items():
        assert int(layer.key("some purpose")) == naive.key(7, name, "some purpose")


@needs_jit
def test_one_and_two_workers_give_the_same_log_of_every_protocol(tmp_path):
    cases = [{"label": name, "protocol": scenario(entry)["protocol"]} for name, entry in ENTRIES.items()]
    many = Scenario.of(scenario(ENTRIES["golf"], number=31, cycles=4, case=cases), HERE)
    logs = [{}, {}]
    for workers, log in enumerate(logs, start=1):
        batch.run(many, tmp_path / str(workers), batch.Execution(workers=workers, threads=1))
        folder = tmp_path / str(workers)
        log |= {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("log.parquet")}
    assert len(logs[0]) == len(ENTRIES)
    assert logs[0] == logs[1]


def test_push_pull_averaging_is_that_of_the_reference():
    table = scenario(ENTRIES["a user's own"], transport={"loss": 0.2})
    run = simulation(table)
    run.step()
    for cycle in range(2, 7):
        before = run.layer("subject").value.copy()
        run.step()
        peers = run.layer("peers").choose(run.world, run.world.order, run.layer("subject").key("peer"))
        key = naive.key(1, "subject", "transport.exchange")
        arrives = [naive.uniform(naive.draw(key, cycle, i, 0)) >= 0.2 for i in run.world.order]
        assert run.layer("subject").value.tolist() == naive.push_pull(before, run.world.order, peers, arrives)
    assert run.log.values[-1] < run.log.values[0] / 10


BREAKS = {
    "draws from numpy": (
        "same_seed",
        "self.value[nodes] = np.random.default_rng().random(nodes.size)",
    ),
    "always starts with the same": ("another_seed", "self.value[nodes] = nodes"),
}
BROKEN_STEPS = {
    "touches offline nodes": ("offline_nodes_rest", "self.value += 1"),
    "is not saved": ("resumed", "self._n = getattr(self, '_n', 0) + 1; self.value[world.order] += self._n"),
    "needs a second node": ("few_nodes", "self.value[world.order] /= world.order.size - 1"),
    "loses count": ("faults", "world.transport.count(self, sent=3, delivered=1, lost=1)"),
}
MINE = """
import numpy as np
from golfsim.protocol import LayerConfig, Protocol, uniform


class Mine(Protocol[LayerConfig]):
    Config = LayerConfig
    accepts = frozenset({{"loss"}})

    def setup(self, world):
        self.value = np.zeros(world.nodes)

    def start(self, world, nodes):
        {start}

    def step(self, world):
        {step}

    def observe(self, world):
        return {{"mean": float(self.value[world.online].mean())}}
"""
START, STEP = "self.value[nodes] = uniform(self.key('start'), nodes)", "self.value[world.order] += 1"


def mine(folder, start=START, step=STEP):
    (folder / "mine.py").write_text(MINE.format(start=start, step=step))
    contract({"use": "mine.py:Mine"}, folder=folder)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_author_calls_the_contract_from_an_own_test(tmp_path):
    assert mine(tmp_path) is None, "it raises where a check fails, as the next tests see"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_start_breaks_the_contract(tmp_path, broken):
    check, start = BREAKS[broken]
    with pytest.raises(AssertionError, match=f"the contract is broken: {check}"):
        mine(tmp_path, start=start)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("broken", BROKEN_STEPS)
def test_a_broken_step_breaks_the_contract(tmp_path, broken):
    check, step = BROKEN_STEPS[broken]
    with pytest.raises(AssertionError, match=f"the contract is broken: {check}"):
        mine(tmp_path, step=step)
