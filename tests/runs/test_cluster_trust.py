"""Who may use a Dask cluster of our own, and what a wrong worker or a lost scheduler does to a sweep."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
import tomlkit
from helpers import AVERAGING, HERE, tree

from golfsim.core.errors import UserError
from golfsim.runs import batch
from golfsim.scenario.model import Scenario

distributed = pytest.importorskip("distributed", reason='pip install "golfsim[cluster]"')
pytest.importorskip("cryptography", reason='pip install "golfsim[cluster]"')
from clusters import Processes  # noqa: E402
from distributed.security import Security  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.needs_jit]

CHECKOUT = HERE.parent
PEERS = {"name": "peers", "use": "uniform"}


def scenario(**tables):
    table = tree(PEERS, AVERAGING, **({"nodes": 20, "runs": 6, "cycles": 20} | tables))
    return Scenario.of(table, HERE)


def rows(folder):
    return {str(f.parent.relative_to(folder)): f.read_bytes() for f in folder.rglob("log.parquet")}


@pytest.fixture
def processes(tmp_path):
    started = Processes(tmp_path)
    yield started
    started.end()


class Notes(batch.Progress):
    """What a sweep reports, and a function that is called when the first run ends."""

    def __init__(self, at_first_end=lambda: None):
        self.notes, self.ended, self._at_first_end = [], [], at_first_end

    def end(self, task, outcome):
        super().end(task, outcome)
        self.ended.append(outcome.status)
        if len(self.ended) == 1:
            self._at_first_end()

    def _say(self, text):
        self.notes.append(text)


# A cluster on this machine


def listening():
    """The TCP addresses on which this process and its children listen."""
    me = psutil.Process()
    return {
        (connection.laddr.ip, connection.laddr.port)
        for process in (me, *me.children(recursive=True))
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


STRANGER = """
import sys
from distributed import Client
from distributed.security import Security
security = Security.temporary() if sys.argv[1].startswith("tls") else None
with Client(sys.argv[1], timeout=3, security=security) as client:
    client.run_on_scheduler(lambda trace: open(trace, "w").close(), sys.argv[2])
"""


def attacked(address, trace):
    """Try to run code through a port, as another process of this machine with a key of its own could."""
    command = [sys.executable, "-c", STRANGER, address, str(trace)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            return None


def test_the_attack_succeeds_on_a_scheduler_without_a_key(processes, tmp_path):
    assert attacked(processes.scheduler(), tmp_path / "ran") == 0
    assert (tmp_path / "ran").exists()


def test_no_other_process_runs_code_in_a_cluster_of_our_own(tmp_path):
    before = listening()
    seen = {}

    def attack():
        seen["ports"] = listening() - before
        seen["scheme"] = {distributed.default_client().scheduler_info()["address"].partition(":")[0]}
        for ip, port in seen["ports"]:
            for scheme in ("tcp", "tls"):
                seen[scheme, port] = attacked(f"{scheme}://{ip}:{port}", tmp_path / "ran")

    made = batch.run(
        scenario(runs=2, cycles=2000), tmp_path / "there", batch.Execution(workers=2, scheduler="local"), Notes(attack)
    )
    assert not made.failures
    assert not (tmp_path / "ran").exists()
    assert seen.pop("scheme") == {"tls"}
    ports = seen.pop("ports")
    assert {ip for ip, _ in ports} == {"127.0.0.1"}
    assert len(ports) == 5  # the scheduler, two workers, and the two processes that watch them; no web pages
    assert 0 not in seen.values()
    batch.run(scenario(runs=2, cycles=2000), tmp_path / "here", batch.Execution())
    assert rows(tmp_path / "here") == rows(tmp_path / "there")


# TLS of a running scheduler


@pytest.fixture
def certificates(tmp_path):
    """The configuration of Dask that names a key, for the environment."""
    security = Security.temporary()
    (tmp_path / "cert.pem").write_text(security.tls_ca_file)
    (tmp_path / "key.pem").write_text(security.tls_client_key)
    names = {"CA_FILE": "cert.pem"}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        names |= {f"{role}__CERT": "cert.pem", f"{role}__KEY": "key.pem"}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(tmp_path / file) for name, file in names.items()}


def command(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "golfsim", *map(str, words)], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | environment,
    )  # fmt: skip


def file_of(tmp_path, **tables):
    file = tmp_path / "s.toml"
    shutil.copy(HERE / "user_protocols/averaging.py", tmp_path)
    file.write_text(tomlkit.dumps(tree(PEERS, AVERAGING | {"use": "averaging.py:Averaging"}, nodes=20, **tables)))
    return file


def test_a_scheduler_with_tls_is_used_with_the_certificates_of_dasks_configuration(processes, certificates, tmp_path):
    address = processes.scheduler("--protocol", "tls", **certificates)
    assert address.startswith("tls://")
    processes.worker(**certificates)
    file = file_of(tmp_path, runs=2)
    done = command("run", file, "--out", tmp_path / "r", "--scheduler", address, **certificates)
    assert done.returncode == 0, done.stderr
    assert len(rows(tmp_path / "r")) == 2
    without = command("run", file, "--out", tmp_path / "q", "--scheduler", address)
    assert without.returncode == 2
    assert f"no Dask scheduler answers at {address}" in without.stderr
    assert "certificates in the configuration of Dask" in without.stderr
    assert "Traceback" not in without.stderr


# A worker that is unlike this process


def other_sources(folder, change=True):
    """A copy of golfsim, in which one source differs."""
    for name in ("golfsim", "protocols", "data"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").touch()
    with (folder / "golfsim/core/rng.py").open("a") as source:
        source.write("\n# another golfsim\n" if change else "")
    return {"PYTHONPATH": str(folder)}


def other_numba(folder):
    """The same sources, and a numba that states another version."""
    about = folder / "numba-0.0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.0.1\n")
    return {"PYTHONPATH": f"{folder}:{CHECKOUT}"}


def no_golfsim(folder):
    """A golfsim that cannot be imported."""
    (folder / "golfsim").mkdir(parents=True)
    (folder / "golfsim/__init__.py").write_text("raise ImportError('broken here')\n")
    return {"PYTHONPATH": str(folder)}


WRONG = {other_sources: "it has golfsim 0.1.0 ", other_numba: "it has numba 0.0.1 instead", no_golfsim: "broken here"}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_runs_of_a_wrong_worker_are_left_to_the_others(processes, tmp_path, wrong):
    address = processes.scheduler()
    processes.worker()
    processes.worker("--name", "wrong", **wrong(tmp_path / "wrong"))
    processes.wait_for(2)
    shown = Notes()
    made = batch.run(scenario(), tmp_path / "there", batch.Execution(scheduler=address), shown)
    assert not made.failures
    assert shown.ended == ["finished"] * 6
    (note,) = [note for note in shown.notes if note.startswith("warning")]
    assert note.startswith("warning: runs are left to other workers than tcp://127.0.0.1:")
    assert WRONG[wrong] in note
    batch.run(scenario(), tmp_path / "here", batch.Execution())
    assert rows(tmp_path / "here") == rows(tmp_path / "there")


def test_a_wrong_worker_that_comes_later_gets_no_runs_either(processes, tmp_path):
    address = processes.scheduler()
    processes.worker()
    processes.wait_for(1)
    other = other_sources(tmp_path / "wrong")

    def come():
        processes.worker(**other)
        processes.wait_for(2)

    shown = Notes(come)
    made = batch.run(scenario(cycles=2000), tmp_path / "there", batch.Execution(scheduler=address), shown)
    assert not made.failures
    assert shown.ended == ["finished"] * 6


def test_a_run_moves_to_a_new_worker_when_the_only_right_one_dies(processes, tmp_path):
    address = processes.scheduler()
    only = processes.worker()
    processes.worker(**other_sources(tmp_path / "wrong"))
    processes.wait_for(2)

    def replaced():
        only.kill()
        processes.worker()

    shown = Notes(replaced)
    made = batch.run(scenario(cycles=2000), tmp_path / "there", batch.Execution(scheduler=address), shown)
    assert not made.failures
    assert shown.ended == ["finished"] * 6


def test_a_cluster_without_a_right_worker_is_one_message(processes, tmp_path):
    address = processes.scheduler()
    processes.worker(**other_sources(tmp_path / "wrong"))
    processes.wait_for(1)
    with pytest.raises(
        UserError, match=r"no worker of the Dask scheduler at tcp://\S+ can execute these runs"
    ) as caught:
        batch.run(scenario(), tmp_path / "there", batch.Execution(scheduler=address))
    assert "install the same golfsim" in caught.value.hint


def test_a_worker_with_other_data_refuses_its_runs_which_are_left_to_the_others(processes, tmp_path):
    address = processes.scheduler()
    processes.worker()
    other = other_sources(tmp_path / "wrong", change=False)
    card = tmp_path / "wrong/data/spambase.toml"
    card.write_text(card.read_text().replace("held_out = 461", "held_out = 462"))
    processes.worker(**other)
    processes.wait_for(2)
    shown = Notes()
    with_data = scenario(data={"set": "spambase"}, nodes={"number": 20, "leave_out": True}, runs=4)
    made = batch.run(with_data, tmp_path / "there", batch.Execution(scheduler=address), shown)
    assert not made.failures
    assert shown.ended == ["finished"] * 4
    (note,) = [note for note in shown.notes if note.startswith("warning")]
    assert "differs from the one that the run was planned with" in note


# A scheduler that is lost


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_lost_scheduler_ends_in_one_line_and_finished_runs_stay(processes, tmp_path, kind):
    address = processes.scheduler()
    processes.worker()
    processes.wait_for(1)
    file, out = file_of(tmp_path, runs=60, cycles=3000), tmp_path / "r"
    over = threading.Event()

    def kill_after_the_first_run():
        while not (list(out.rglob("run.json")) or over.wait(0.05)):
            pass
        processes.process.send_signal(kind)

    thread = threading.Thread(target=kill_after_the_first_run)
    thread.start()
    done = command("run", file, "--out", out, "--scheduler", address)
    over.set()
    thread.join()
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"the connection to the Dask scheduler at {address} was lost" in done.stderr
    assert "complete runs are stored" in done.stderr
    assert "Traceback" not in done.stderr
    assert "distributed" not in done.stderr
    again = command("run", file, "--out", out)
    assert again.returncode == 0, again.stderr
    assert len(rows(Path(out))) == 60
