"""Many runs: in this process or in workers, with the same rows; failures that stop nobody; what is told about it."""

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from helpers import AVERAGING, HERE, JIT, apart, learning_tree, tree

from golfsim.core.errors import UserError
from golfsim.data import array_cache, loading
from golfsim.runs import batch, dry_run, progress, single, status, store
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.logs import load
from golfsim.scenario import sweep
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

PEERS = {"name": "peers", "use": "uniform"}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
FAULTY = """
from golfsim.protocol import LayerConfig, Protocol

class Config(LayerConfig):
    bad: bool = False

class Faulty(Protocol[Config]):
    Config = Config

    def step(self, world):
        if self.config.bad:
            raise KeyError("nothing")
"""
DEADLY = FAULTY.replace('raise KeyError("nothing")', "import os; os.kill(os.getpid(), 9)")


def scenario(**tables):
    return Scenario.of(tree(PEERS, AVERAGING, nodes=20, **({"runs": 4, "cycles": 20} | tables)), HERE)


def learning(**tables):
    data = {"set": "spambase", "train": 200, "scale": ["minmax", "l1"]}
    return Scenario.of(learning_tree(PEERS, GOLF, data=data, nodes={}, cycles=5, runs=3, **tables), HERE)


def faulty(folder, source=FAULTY, bad=(False, True), **tables):
    (folder / "faulty.py").write_text(source)
    layer = {"name": "mine", "use": "faulty.py:Faulty", "bad": False}
    return Scenario.of(tree(layer, nodes=3, sweep={"mine.bad": list(bad)}, **({"runs": 2} | tables)), folder)


class Seen(progress.Progress):
    """Notes what it is told."""

    def plan(self, runs, there):
        super().plan(runs, there)
        self.notes, self.ends, self.most = [], [], 0

    def begin(self, task):
        super().begin(task)
        self.most = max(self.most, len(self.under_way))

    def end(self, task, outcome):
        super().end(task, outcome)
        self.ends.append(outcome)

    def note(self, text):
        self.notes.append(text)


def rows(folder):
    """The log of each run, as bytes."""
    return {str(f.parent.relative_to(folder)): f.read_bytes() for f in folder.rglob("log.parquet")}


@pytest.mark.parametrize("make", [scenario, learning])
def test_any_number_of_workers_gives_the_same_rows(make, tmp_path):
    for workers in (1, 2, 3):
        batch.run(make(), tmp_path / str(workers), batch.Execution(workers=workers))
    assert rows(tmp_path / "1") == rows(tmp_path / "2") == rows(tmp_path / "3")
    assert len(rows(tmp_path / "1")) == make().runs


def test_workers_run_in_parallel_and_report_their_progress(tmp_path):
    seen = Seen()
    batch.run(scenario(cycles=300), tmp_path, batch.Execution(workers=2), seen)
    assert (seen.runs, seen.there, seen.done, seen.failed) == (4, 0, 4, 0)
    assert seen.most == 2
    assert [outcome.cycle for outcome in seen.ends] == [300] * 4
    assert not seen.under_way


def test_cores_are_not_oversubscribed(monkeypatch):
    monkeypatch.setattr(batch, "cores", lambda: 8)
    assert batch.Execution(workers=None).shares(100) == (8, 1)
    assert batch.Execution(workers=None).shares(3) == (3, 2)
    assert batch.Execution(workers=None).shares(1) == (1, 8)
    assert batch.Execution(workers=2).shares(100) == (2, 4)
    assert batch.Execution(workers=2, threads=1).shares(100) == (2, 1)


def test_data_is_read_once_and_mapped_into_the_workers(tmp_path, monkeypatch):
    config = learning().data
    shared = loading.share([config], HERE)
    monkeypatch.setattr(loading, "shared", shared)
    monkeypatch.setattr(loading, "_kept_sets", {})
    raw = loading._read(loading.card_of("spambase"), config, HERE)
    assert type(raw.x).__name__ == "memmap"
    monkeypatch.setattr(loading, "shared", {})
    monkeypatch.setattr(loading, "_kept_sets", {})
    plain = loading._read(loading.card_of("spambase"), config, HERE)
    assert type(plain.x).__name__ == "ndarray"
    assert (raw.x == plain.x).all()
    assert raw.digest() == plain.digest()
    assert (raw.features, raw.classes) == (plain.features, plain.classes)


def test_what_is_laid_out_for_others_is_all_that_was_read(tmp_path):
    plain = loading._read(loading.card_of("adult"), None, HERE)
    again = array_cache.mapped(array_cache.stored(plain, tmp_path))
    for name in ("x", "y", "test_x", "test_y"):
        assert (getattr(again, name) == getattr(plain, name)).all()
    for name in ("columns", "test_columns"):
        ours, theirs = getattr(again, name), getattr(plain, name)
        assert list(ours) == list(theirs)
        assert all((ours[column] == theirs[column]).all() for column in theirs)
    assert len(plain.test_columns) == 14


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
@pytest.mark.slow
def test_the_second_worker_does_not_compile_again(tmp_path, monkeypatch):
    """Each compiled function is written to the cache once: its file is never replaced."""
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    replaced = []
    known = {}
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            for file in (tmp_path / "cache").rglob("*.nbc"):
                try:
                    number = file.stat().st_ino
                except OSError:
                    continue
                if known.setdefault(file, number) != number:
                    replaced.append(file.name)
                    known[file] = number
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    batch.run(learning(), tmp_path / "r", batch.Execution(workers=2))
    stop.set()
    watcher.join()
    assert known
    assert replaced == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failed_run_does_not_stop_the_others(tmp_path, workers):
    made = batch.run(faulty(tmp_path), tmp_path / "r", batch.Execution(workers=workers))
    assert len(made.failures) == 2
    assert {task.point.values["mine.bad"] for task, _ in made.failures} == {True}
    assert load(tmp_path / "r")["mine.bad"].unique().tolist() == [False]
    complaint = made.complaint()
    assert complaint.startswith("2 of 4 runs failed:\nmine.bad = True, run ")
    assert re.search(r"\(2 times\): .*faulty.py:12: in step: KeyError: 'nothing'", complaint)
    (trace, _) = sorted((tmp_path / "r").rglob("error.txt"))
    assert "KeyError" in trace.read_text()


def test_a_last_run_that_fails_once_more_does_not_hide_those_that_are_there(tmp_path):
    scenario = faulty(tmp_path).change({"runs": 1})
    for _ in range(2):  # the second time it is the only one to be made
        made = batch.run(scenario, tmp_path / "r", batch.Execution(workers=1))
        assert len(made.failures) == 1
        assert made.frame()["mine.bad"].unique().tolist() == [False]


def test_the_most_frequent_failures_are_named_first_and_not_all(tmp_path):
    made = batch.run(faulty(tmp_path), tmp_path / "r", batch.Execution())
    task, outcome = made.failures[0]
    for n in range(8):
        for m in range(n):
            made.outcomes[f"{n}.{m}"] = (task, type(outcome)("failed", error=f"kind {n}"))
    lines = made.complaint().splitlines()
    assert len(lines) == 1 + batch.NAMED + 1
    assert "(7 times): kind 7" in lines[1]
    assert lines[-1] == "and 3 more kinds of failure"


def test_a_worker_that_dies_repeatedly_fails_only_its_own_run(tmp_path):
    seen = Seen()
    made = batch.run(faulty(tmp_path, DEADLY, runs=1), tmp_path / "r", batch.Execution(workers=2), seen)
    (failure,) = made.failures
    assert "its worker process died 3 times (status -9)" in failure[1].error
    assert sum("another worker resumes the run" in note for note in seen.notes) == 2
    assert load(tmp_path / "r")["mine.bad"].unique().tolist() == [False]


def test_a_killed_worker_loses_only_its_run_which_is_taken_up_again(tmp_path):
    straight = batch.run(scenario(cycles=4000), tmp_path / "a", batch.Execution(workers=2))
    killed = []

    class Killing(Seen):
        def cycle(self, task, cycle, error):
            super().cycle(task, cycle, error)
            if not killed:
                killed.extend(children_of(os.getpid()))
                os.kill(killed[0], signal.SIGKILL)

    seen = Killing()
    made = batch.run(scenario(cycles=4000), tmp_path / "b", batch.Execution(workers=2), seen)
    assert not made.failures
    assert not straight.failures
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


def children_of(process):
    """The worker processes of a process."""
    import psutil

    found = psutil.Process(process).children(recursive=True)
    return [child.pid for child in found if "golfsim.runs.workers" in " ".join(child.cmdline())]


@apart
def test_workers_end_with_their_master(tmp_path):
    import subprocess
    import sys

    import psutil

    code = "import sys\nfrom golfsim.cli import main\nmain()"
    (tmp_path / "s.toml").write_text(LONG)
    command = [sys.executable, "-c", code, "run", "s.toml", "--workers", "2", "--out", "r"]
    master = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 60
    while len(children_of(master.pid)) < 2 and time.monotonic() < limit:
        time.sleep(0.05)
    workers = [psutil.Process(pid) for pid in children_of(master.pid)]
    assert len(workers) == 2
    time.sleep(1)
    master.kill()
    master.wait()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []


LONG = """
name = "long"
seed = 1
cycles = 100_000_000
runs = 4
[nodes]
number = 20
[[protocol]]
name = "peers"
use = "uniform"
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_after_an_interruption_no_run_starts_and_the_rest_resumes_later(tmp_path, workers):
    interrupt = Interrupt()

    class Impatient(Seen):
        def end(self, task, outcome):
            super().end(task, outcome)
            interrupt.asked = True

    how = batch.Execution(workers=workers)
    each = scenario(cycles=5000 if workers == 2 else 500, runs=6)  # one run ends while another is in the middle
    first = batch.run(each, tmp_path / "a", how, Impatient(), interrupt)
    states = [outcome.status for _, outcome in first.outcomes.values()]
    assert states.count("finished") >= 1
    assert len(states) < 6
    assert set(states) <= {"finished", "interrupted"}
    seen = Seen()
    second = batch.run(each, tmp_path / "a", how, seen)
    assert len(second.outcomes) == 6 - states.count("finished")
    assert len([n for n in seen.notes if "resumed after cycle" in n]) == states.count("interrupted")
    batch.run(each, tmp_path / "b", batch.Execution())
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


def test_a_mistake_in_a_users_file_is_not_taken_for_results_that_cannot_be_written(tmp_path):
    source = FAULTY.replace('raise KeyError("nothing")', 'open("/nowhere/parameters.csv")')
    with pytest.raises(FileNotFoundError, match=r"parameters\.csv"):
        batch.run(faulty(tmp_path, source, bad=[True], runs=1), tmp_path / "r", batch.Execution())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_protocol_that_exits_fails_without_stopping_other_runs(tmp_path, workers):
    source = FAULTY.replace('raise KeyError("nothing")', "raise SystemExit(0)")
    made = batch.run(faulty(tmp_path, source), tmp_path / "r", batch.Execution(workers=workers))
    assert [outcome.error.split(": ", 1)[1] for _, outcome in made.failures] == ["in step: SystemExit: 0"] * 2


def test_without_a_cache_each_worker_reads_the_data_separately(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "file"))
    assert loading.share([learning().data], HERE) == {}


@apart
def test_workers_find_the_modules_that_their_master_finds(tmp_path):
    """A file of the user's called like a module of Python's is none of them; what a script adds to the path is."""
    import subprocess
    import sys

    (tmp_path / "random.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "s.toml").write_text(LONG.replace("100_000_000", "5"))
    script = (
        f"import sys\nsys.path.insert(0, {str(HERE.parent)!r})\nimport golfsim\n"
        "print(len(golfsim.run(golfsim.Scenario.load('s.toml'), workers=2)['run'].unique()))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", script]
    assert subprocess.check_output(command, cwd=tmp_path, env=environment, text=True) == "4\n"


def test_temporary_files_of_a_run_are_removed_when_it_is_complete(tmp_path):
    ((task, _),) = batch.run(scenario(runs=1), tmp_path, batch.Execution()).outcomes.values()
    for file in task.folder.iterdir():
        file.unlink()
    for name in (".checkpoint-000000000003.abc.part", ".log.parquet.x.part", "checkpoint-000000000003", "error.txt"):
        (task.folder / name).write_text("left by a process that was killed")
    batch.run(scenario(runs=1), tmp_path, batch.Execution())
    assert sorted(file.name for file in task.folder.iterdir()) == ["log.parquet", "run.json", "scenario.toml"]


def test_checkpoints_of_an_interrupted_repetition_are_removed_by_the_next_run(tmp_path):
    ((task, _),) = batch.run(scenario(runs=1), tmp_path, batch.Execution()).outcomes.values()
    for name in (".run.json.x.part", "checkpoint-000000000003"):
        (task.folder / name).write_text("left by `golfsim run --force` that was interrupted, then killed")
    assert batch.run(scenario(runs=1), tmp_path, batch.Execution()).outcomes == {}
    assert sorted(file.name for file in task.folder.iterdir()) == ["log.parquet", "run.json", "scenario.toml"]


def test_nothing_to_do_needs_no_cluster(tmp_path):
    batch.run(scenario(), tmp_path, batch.Execution())
    assert batch.run(scenario(), tmp_path, batch.Execution(scheduler="tcp://127.0.0.1:9")).outcomes == {}


def test_runs_on_a_cluster_have_one_thread_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "cores", lambda: 8)
    runs = store.plan(sweep.points(scenario(runs=2)))

    def threads(**how):
        return {task.threads for task in batch.to_do(runs, {}, tmp_path, batch.Execution(workers=None, **how))}

    assert (threads(), threads(scheduler="tcp://a:1"), threads(scheduler="tcp://a:1", threads=3)) == ({4}, {1}, {3})


# What is told


def test_the_time_left_counts_only_what_is_done_since_the_beginning(monkeypatch, tmp_path):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    runs = store.plan(sweep.points(scenario(runs=1, cycles=100)))
    (task,) = batch.to_do(runs, {}, tmp_path, batch.Execution())
    shown = progress.Progress()
    shown.plan(1, there=0)
    shown.begin(task)
    shown.cycle(task, 81, "")  # resumed after 80
    now[0] = 10.0
    shown.cycle(task, 90, "")
    assert shown.left() == "0:00:10 left"


def test_the_time_left_is_judged_by_what_is_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = progress.Progress()
    shown.plan(12, there=2)
    assert shown.words() == "2/12 runs  0 running"
    shown.done, shown.failed, now[0] = 6, 1, 10.0
    assert shown.words() == "6/12 runs  0 running  1 failed  0:00:10 left"


def test_the_time_left_of_several_runs_waits_for_the_first_one(monkeypatch, tmp_path):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    tasks = batch.to_do(store.plan(sweep.points(scenario(runs=4, cycles=100))), {}, tmp_path, batch.Execution())
    shown = progress.Progress()
    shown.plan(4, there=0)
    shown.begin(tasks[0])
    for cycle in range(1, 51):
        shown.cycle(tasks[0], cycle, "")
    now[0] = 10.0
    assert shown.left() == "", "half a run, which may have compiled kernels"
    shown.end(tasks[0], single.Outcome("finished", 100))
    assert shown.left() == "0:00:30 left"
    shown.done = 4
    assert shown.left() == "", "nothing is left"


def test_status_shows_the_state_of_all_runs(tmp_path):
    batch.run(faulty(tmp_path), tmp_path / "r", batch.Execution())
    found = status.of(tmp_path / "r")
    assert found["runs"] == {"complete": 2, "damaged": 0, "interrupted": 0, "failed": 2, "running": 0, "missing": 0}
    assert found["points"]["mine.bad = True"] == {"failed": 2}
    assert [failure["run"] for failure in found["failures"]] == [1, 2]
    text = status.text(tmp_path / "r", found)
    assert text.startswith(f"{tmp_path / 'r'}: 4 runs: 2 complete, 2 failed\n  mine.bad = True: 2 failed\n")
    assert "KeyError: 'nothing'" in text
    batch.run(faulty(tmp_path, bad=[False]), tmp_path / "r", batch.Execution())
    found = status.of(tmp_path / "r")
    assert found["runs"]["complete"] == 2
    assert found["older"] == 2
    assert json.loads(json.dumps(found)) == found


def test_status_of_something_else_is_reported(tmp_path):
    with pytest.raises(UserError, match="no golfsim results here"):
        status.of(tmp_path)
    with pytest.raises(UserError, match="there is no such folder"):
        status.of(tmp_path / "none")


def test_a_dry_run_lists_the_runs_and_writes_nothing(tmp_path):
    text = dry_run.text(
        dry_run.of(scenario(sweep={"transport.loss": [0.0, 0.5]}), tmp_path / "r", batch.Execution(workers=2))
    )
    lines = text.splitlines()
    assert lines[:3] == [
        "8 runs, 0 complete",
        "  transport.loss = 0.0: seeds 1 to 4",
        "  transport.loss = 0.5: seeds 1 to 4",
    ]
    cost = r"about 0:00:\d\d with 2 workers \(\d+ threads? and [\d.]+ [MG]iB of memory per worker\), .*"
    assert re.fullmatch(cost, lines[3])
    assert not (tmp_path / "r").exists()


def test_a_dry_run_knows_what_is_there(tmp_path):
    batch.run(scenario(runs=2), tmp_path, batch.Execution())
    assert dry_run.text(dry_run.of(scenario(runs=2), tmp_path, batch.Execution())).splitlines() == [
        "2 runs, 2 complete",
        "  one point: seeds 1 to 2 (2 complete)",
    ]


def test_the_trial_is_that_of_the_largest_run(tmp_path):
    table = scenario(runs=1, sweep={"nodes.number": [10, 300, 20]})
    assert dry_run.text(dry_run.of(table, tmp_path, batch.Execution())).endswith(": nodes.number = 300")


def test_a_trial_runs_a_small_part_of_the_cycles(tmp_path, monkeypatch):
    cycles = []

    class Counting(Simulation):
        def step(self, settle=True):
            super().step(settle)
            cycles.append(self.world.cycle)

    monkeypatch.setattr(dry_run, "Simulation", Counting)
    dry_run.of(scenario(runs=1, cycles=3000), tmp_path, batch.Execution())
    assert 5 <= max(cycles) <= 300
    assert len(cycles) in (max(cycles), 2 * max(cycles)), "twice only if kernels were compiled"
    cycles.clear()
    dry_run.of(scenario(runs=1, cycles=4), tmp_path, batch.Execution())
    assert max(cycles) == 4


def test_a_trial_that_fails_is_reported(tmp_path):
    with pytest.raises(UserError, match=r"the trial of the largest run failed: .*nothing"):
        dry_run.of(faulty(tmp_path, bad=[True]), tmp_path, batch.Execution())


def test_too_little_memory_is_predicted(tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "available", lambda: 300 * 2**20)
    text = dry_run.text(dry_run.of(scenario(), tmp_path, batch.Execution(workers=4)))
    assert text.splitlines()[-1].startswith("only 300 MiB of memory is available: use --workers ")


def test_ours_is_the_folder_we_say(tmp_path):
    made = batch.run(scenario(runs=1), tmp_path, batch.Execution())
    ((task, _),) = made.outcomes.values()
    assert Path(task.folder).parent == tmp_path
    assert (task.folder / "log.parquet").is_file()
