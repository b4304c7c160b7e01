"""kill -9 at random moments, a full disk, a folder that cannot be written: nothing lost, nothing double, same bits."""

import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest

from golfsim.core.errors import UserError
from golfsim.runs import batch
from golfsim.runs.logs import load
from golfsim.runs.store import Store
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint

CODE = "from golfsim.cli import main; main()"
SINGLE = """
name = "survival"
seed = 3
cycles = 30_000
order = "shuffled"
[nodes]
number = 40
[churn]
kind = "rate"
leave = 0.1
rejoin = 0.3
[transport]
loss = 0.1
delay = [1, 3]
[[protocol]]
name = "peers"
use = "newscast"
view = 5
[observe]
overlay = 5_000
"""
SWEEP = (
    SINGLE.replace("delay = [1, 3]", "").replace("30_000", "8_000")
    + """
[sweep]
"transport.loss" = [0.0, 0.2]
"peers.view" = [4, 5, 6]
"""
)


def golfsim_run(file, out, *words):
    command = [sys.executable, "-c", CODE, "run", file, "--out", out, "--checkpoint-every", "0.05", *words]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def rows(folder):
    return {str(f.parent.relative_to(folder)): f.read_bytes() for f in folder.rglob("log.parquet")}


def until_killed(run, folder, moment, early):
    """Kill a run at a random moment: soon after its start, or soon after it has saved its state once more."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("checkpoint-*")}
    limit = time.monotonic() + 120
    while run.poll() is None and not early and time.monotonic() < limit:
        if any(before.get(path) is None for path in folder.rglob("checkpoint-*")):
            break
        time.sleep(0.01)
    time.sleep(moment)
    run.send_signal(signal.SIGKILL)
    _, err = run.communicate()
    return run.returncode != 0, err


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize(("text", "words"), [(SINGLE, ()), (SWEEP, ("--workers", "2"))], ids=["one run", "a sweep"])
def test_killed_at_random_moments_it_ends_as_if_nothing_had_happened(tmp_path, text, words):
    file = tmp_path / "s.toml"
    file.write_text(text)
    batch.run(Scenario.load(file), tmp_path / "straight", batch.Execution())
    moments = random.Random(5)
    kills, told, folder = 0, "", tmp_path / "killed"
    for attempt in range(8):
        whole = set(rows(folder))
        early = attempt % 3 == 2
        killed, err = until_killed(
            golfsim_run(file, folder, *words), folder, (2 if early else 0.4) * moments.random(), early
        )
        kills, told = kills + killed, told + err
        assert whole <= set(rows(folder))  # what was whole stays there
    run = golfsim_run(file, folder, *words)
    _, err = run.communicate(timeout=300)
    assert run.returncode == 0
    assert kills >= 4
    assert (told + err).count("resumed after cycle") >= 2
    assert rows(folder) == rows(tmp_path / "straight")
    assert load(folder).equals(load(tmp_path / "straight"))
    assert not list(folder.rglob("checkpoint-*"))


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SINGLE.replace("30_000", "300"))
    scenario = Scenario.load(file)
    straight = batch.run(scenario, tmp_path / "straight", batch.Execution())
    ((task, _),) = straight.outcomes.values()
    folder = tmp_path / "r" / task.folder.name

    from golfsim.sim.simulation import Simulation

    simulation = Simulation(scenario)
    for cycle in simulation:
        if cycle in (100, 200, 250):
            checkpoint.keep(simulation, folder)
        if cycle == 250:
            break
    first, second = sorted(folder.glob("checkpoint-*"))  # the oldest of the three is gone
    assert (first.name, second.name) == ("checkpoint-000000000200", "checkpoint-000000000250")
    second.write_bytes(second.read_bytes()[:-1])
    run = golfsim_run(file, tmp_path / "r")
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0
    assert f"{second}: damaged: the checksum is wrong; this checkpoint is ignored" in err
    assert "resumed after cycle 200" in err
    assert rows(tmp_path / "r") == rows(tmp_path / "straight")


def test_a_full_disk_is_told_and_leaves_no_half_file(tmp_path):
    """The operating system refuses to write more than a few bytes into any file, as on a disk without space."""
    file = tmp_path / "s.toml"
    file.write_text(SINGLE.replace("30_000", "50"))
    (tmp_path / "r").mkdir()
    Store(tmp_path / "r").record([])
    Store(tmp_path / "r").ask_for("s.toml", [])  # the index is there

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    command = [sys.executable, "-c", CODE, "run", str(file), "--out", str(tmp_path / "r")]
    ended = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=120, check=False)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "cannot write to" in ended.stderr
    left = [path for path in (tmp_path / "r").rglob("*") if path.is_file() and path.name != "index.sqlite"]
    assert [path for path in left if path.name.startswith(".") or path.name in ("log.parquet", "run.json")] == []
    batch.run(Scenario.load(file), tmp_path / "r", batch.Execution())
    assert len(rows(tmp_path / "r")) == 1


def test_a_full_disk_during_a_checkpoint_is_noted_and_the_run_goes_on(tmp_path, monkeypatch):
    file = tmp_path / "s.toml"
    file.write_text(SINGLE.replace("30_000", "50"))
    notes = []

    class Noting(batch.Progress):
        def note(self, text):
            notes.append(text)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save", full)
    made = batch.run(Scenario.load(file), tmp_path / "r", batch.Execution(checkpoint_every=0.0), Noting())
    assert [outcome.status for _, outcome in made.outcomes.values()] == ["finished"]
    assert notes[0] == "no checkpoint after cycle 1: No space left on device"


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SINGLE)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):  # for the superuser nothing is read-only but what has no place for files at all
        locked = tmp_path / "file"
        locked.write_text("")
    begun = time.monotonic()
    with pytest.raises(UserError, match="cannot write to"):
        batch.run(Scenario.load(file), locked / "r", batch.Execution())
    assert time.monotonic() - begun < 30
