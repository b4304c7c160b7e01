"""The same runs on a Dask cluster: a real scheduler and real worker processes, one of which is killed in the middle."""

import signal
import time
from contextlib import contextmanager, nullcontext

import pytest
from helpers import AVERAGING, HERE, tree

from golfsim.core.errors import UserError
from golfsim.runs import batch, cluster, connection
from golfsim.scenario.model import Scenario

distributed = pytest.importorskip("distributed", reason='pip install "golfsim[cluster]"')
from clusters import Processes  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.needs_jit]

PEERS = {"name": "peers", "use": "uniform"}


def scenario(**tables):
    sweep = {"transport.loss": [0.0, 0.3]}
    table = tree(PEERS, AVERAGING, nodes=20, **({"runs": 3, "cycles": 20, "sweep": sweep} | tables))
    return Scenario.of(table, HERE)


def rows(folder):
    return {str(f.parent.relative_to(folder)): f.read_bytes() for f in folder.rglob("log.parquet")}


@contextmanager
def started(folder):
    """The address of a scheduler, and its two worker processes."""
    processes = Processes(folder)
    address = processes.scheduler()
    workers = [processes.worker() for _ in range(2)]
    processes.wait_for(2)
    yield address, workers
    processes.end()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """One cluster for all tests that leave it as it was: to start its processes takes longer than the tests."""
    with started(tmp_path_factory.mktemp("cluster")) as (address, _):
        yield address


def test_a_cluster_gives_the_same_rows(address, tmp_path):
    batch.run(scenario(), tmp_path / "here", batch.Execution())
    made = batch.run(scenario(), tmp_path / "there", batch.Execution(scheduler=address))
    assert not made.failures
    assert len(made.outcomes) == 6
    assert rows(tmp_path / "here") == rows(tmp_path / "there")
    assert batch.run(scenario(), tmp_path / "there", batch.Execution(scheduler=address)).outcomes == {}


@pytest.fixture
def mortal(tmp_path):
    with started(tmp_path) as cluster:
        yield cluster


def test_a_worker_that_dies_loses_only_its_runs_which_are_taken_again(mortal, tmp_path):
    address, workers = mortal
    long = scenario(cycles=8_000)
    ended = []

    class Killing(batch.Progress):
        def end(self, task, outcome):
            super().end(task, outcome)
            if not ended:
                workers[0].send_signal(signal.SIGKILL)
            ended.append(outcome.status)

    made = batch.run(long, tmp_path / "there", batch.Execution(scheduler=address), Killing())
    assert workers[0].wait(timeout=10) == -signal.SIGKILL
    assert workers[1].poll() is None
    assert not made.failures
    assert ended == ["finished"] * 6
    batch.run(long, tmp_path / "here", batch.Execution())
    assert rows(tmp_path / "here") == rows(tmp_path / "there")


def test_results_come_back_also_without_a_common_file_system(address, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_visible", lambda tasks: nullcontext("/nowhere/mark"))
    batch.run(scenario(), tmp_path / "there", batch.Execution(scheduler=address))
    batch.run(scenario(), tmp_path / "here", batch.Execution())
    assert rows(tmp_path / "here") == rows(tmp_path / "there")


def test_a_failed_run_is_reported_from_the_cluster_too(address, tmp_path):
    broken = scenario(stop={"when": "averaging.nothing > 0"}, runs=1)
    made = batch.run(broken, tmp_path, batch.Execution(scheduler=address))
    assert len(made.failures) == 2
    assert "has no metric “nothing”" in made.complaint()


class Counting(batch.Progress):
    def plan(self, runs, there):
        super().plan(runs, there)
        self.most = 0

    def begin(self, task):
        super().begin(task)
        self.most = max(self.most, len(self.under_way))


def test_as_many_runs_are_said_to_be_running_as_the_cluster_has_threads(address, tmp_path):
    shown = Counting()
    batch.run(scenario(), tmp_path, batch.Execution(scheduler=address), shown)
    assert (shown.most, shown.done, shown.under_way) == (2, 6, {})


def test_the_cluster_keeps_nothing_of_runs_that_have_come_back(address, tmp_path):
    """Else it would make them again when the worker that keeps them dies."""
    kept = []

    class Looking(batch.Progress):
        def end(self, task, outcome):
            super().end(task, outcome)
            with distributed.Client(address) as client:
                names = {key for keys in client.has_what().values() for key in keys}
            kept.append(len([name for name in names if name.startswith("golfsim-")]))

    batch.run(scenario(cycles=2000), tmp_path, batch.Execution(scheduler=address), Looking())
    assert max(kept) <= 3


PROTOCOL = """
from golfsim.protocol import LayerConfig, Protocol

class Counting(Protocol[LayerConfig]):
    Config = LayerConfig

    def observe(self, world):
        return {{"count": {count}}}
"""


def test_a_protocol_next_to_the_scenario_is_found_and_its_changes_are_noticed(address, tmp_path, monkeypatch):
    table = tree({"name": "mine", "use": "mine.py:Counting"}, nodes=3, runs=4)
    (tmp_path / "here").mkdir()
    for count in (1, 22):
        (tmp_path / "here/mine.py").write_text(PROTOCOL.format(count=count))
        monkeypatch.chdir(tmp_path / "here")
        frame = batch.run(Scenario.of(table), tmp_path / "r", batch.Execution(scheduler=address)).frame()
        assert set(frame.loc[frame["metric"] == "count", "value"]) == {count}


def test_a_run_that_every_worker_refuses_fails_with_the_reason(address, tmp_path, monkeypatch):
    from golfsim.runs import store

    monkeypatch.setattr(store, "code_version", lambda: "another")
    made = batch.run(scenario(runs=1), tmp_path, batch.Execution(scheduler=address))
    assert len(made.failures) == 2
    assert "workers of a cluster need the same golfsim" in made.complaint()


def test_a_scheduler_that_does_not_answer_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "SECONDS_TO_CONNECT", 1)
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9") as caught:
        batch.run(scenario(), tmp_path, batch.Execution(scheduler="tcp://127.0.0.1:9"))
    assert "tcp://node1:8786" in str(caught.value)
    assert time.monotonic() - begun < 60
