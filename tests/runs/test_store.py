"""The results folder: which runs are there, and which a scenario asks for now."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from importlib import metadata

import pytest
from helpers import AVERAGING, HERE, apart, tree

import golfsim
from golfsim.core.errors import UserError
from golfsim.data import loading
from golfsim.protocol import loading as loading_of_protocols
from golfsim.protocol.loading import installed
from golfsim.runs import batch, status, store
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.logs import load
from golfsim.runs.store import Entry, Store, plan
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points

PEERS = {"name": "peers", "use": "uniform"}
SWEEP = {"transport.loss": [0.0, 0.5]}
ROOT = HERE.parent


def scenario(**tables):
    return Scenario.of(tree(PEERS, AVERAGING, nodes=10, **({"runs": 2, "sweep": SWEEP} | tables)), HERE)


def hashes(**tables):
    return [planned.hash for planned in plan(points(scenario(**tables)))]


def made(folder, *, force=False, **tables):
    """The (loss, run) of the runs that had to be made."""
    found = batch.run(scenario(**tables), folder, batch.Execution(force=force))
    return [(task.point.values["transport.loss"], task.run) for task, _ in found.outcomes.values()]


ALL = [(0.0, 1), (0.0, 2), (0.5, 1), (0.5, 2)]


def test_every_run_has_a_hash_of_its_own():
    assert len(set(hashes())) == 4
    assert hashes() == hashes()


@pytest.mark.parametrize("change", [{"name": "another"}, {"plot": {"kind": "none"}}])
def test_what_only_names_or_draws_is_no_part_of_the_content(change):
    assert hashes(**change) == hashes()


@pytest.mark.parametrize("change", [{"cycles": 7}, {"order": "shuffled"}, {"observe": {"every": 2}}])
def test_what_changes_rows_changes_every_hash(change):
    assert not set(hashes(**change)) & set(hashes())


def test_the_content_is_that_of_the_seed_and_not_of_the_runs_number():
    assert hashes(seed=1)[1] == hashes(seed=2)[0]


def test_other_sources_are_another_content(monkeypatch):
    before = hashes()
    monkeypatch.setattr(store, "code_version", lambda: "another")
    assert not set(hashes()) & set(before)


def test_the_files_that_a_scenario_names_are_part_of_the_content(tmp_path):
    trace = tmp_path / "trace.csv"
    table = tree(PEERS, nodes=3, churn={"kind": "trace", "file": "trace.csv"})

    def content():
        return store.content_of(Scenario.of(table, tmp_path))

    trace.write_text("node,from,until\n0,1,2\n")
    before = content()
    trace.write_text("node,from,until\n0,1,3\n")
    assert content() != before


def test_a_users_protocol_and_all_files_next_to_it_are_part_of_the_content(tmp_path):
    source = (HERE / "user_protocols/averaging.py").read_text()
    (tmp_path / "mine.py").write_text(source)
    table = tree(PEERS, AVERAGING | {"use": "mine.py:Averaging"}, nodes=3)
    before = store.content_of(Scenario.of(table, tmp_path))
    (tmp_path / "helper.py").write_text("x = 1\n")
    assert store.content_of(Scenario.of(table, tmp_path)) != before


def test_the_data_is_part_of_the_content(tmp_path):
    table = tree(PEERS, data={"file": "d.csv", "test": 0.5})
    del table["nodes"]

    def content(last):
        (tmp_path / "d.csv").write_text(f"a,b,label\n1,2,x\n2,3,y\n3,4,x\n4,{last},y\n")
        return store.content_of(Scenario.of(table, tmp_path))

    assert content(5) != content(6)


def test_a_run_that_is_there_is_not_run_again(tmp_path):
    assert made(tmp_path) == ALL
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("log.parquet")}
    assert made(tmp_path) == []
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("log.parquet")} == before
    assert made(tmp_path, force=True) == ALL


def test_a_changed_key_runs_only_what_changed(tmp_path):
    made(tmp_path)
    assert made(tmp_path, sweep={"transport.loss": [0.0, 0.7]}) == [(0.7, 1), (0.7, 2)]
    assert made(tmp_path, runs=3) == [(0.0, 3), (0.5, 3)]


def test_loading_gives_what_was_asked_for_last_and_nothing_older(tmp_path):
    made(tmp_path)
    made(tmp_path, runs=1, cycles=3, sweep={"transport.loss": [0.5]})
    frame = load(tmp_path)
    assert set(zip(frame["transport.loss"], frame["run"], strict=True)) == {(0.5, 1)}
    assert frame["cycle"].max() == 3
    assert made(tmp_path) == []  # what was there before is still there
    assert len(load(tmp_path)["path"].unique()) == 4


def test_points_of_the_same_content_are_run_once_and_loaded_each(tmp_path):
    cases = [{"label": "a"}, {"label": "b", "transport.loss": 0.0}]
    found = batch.run(scenario(case=cases, sweep={}), tmp_path, batch.Execution())
    assert len(found.outcomes) == 2
    frame = load(tmp_path)
    assert set(zip(frame["case"], frame["run"], strict=True)) == {(c, r) for c in "ab" for r in (1, 2)}
    assert len(found.frame()) == len(frame)


def test_a_run_whose_log_is_gone_is_run_again(tmp_path):
    made(tmp_path)
    next(tmp_path.glob("*loss=0.5/run-2-*/log.parquet")).unlink()
    assert made(tmp_path) == [(0.5, 2)]


@pytest.mark.parametrize("damage", [lambda f: f.unlink(), lambda f: f.write_bytes(b"no index" * 1000)])
def test_a_lost_or_damaged_index_is_made_again(tmp_path, damage):
    made(tmp_path)
    rows = load(tmp_path)
    damage(tmp_path / store.INDEX)
    assert len(load(tmp_path)) == len(rows)
    assert made(tmp_path) == []
    assert load(tmp_path).equals(rows)


def test_interrupted_and_failed_runs_are_run_again(tmp_path):
    made(tmp_path)
    place = Store(tmp_path)
    entries = list(place.entries().values())
    for entry, state in zip(entries, ["interrupted", "failed"], strict=False):
        file = tmp_path / entry.folder / "run.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"status": state}))
        place.record([Entry(entry.hash, entry.folder, state)])
    assert len(load(tmp_path)["path"].unique()) == 2
    assert len(load(tmp_path, unfinished=True)["path"].unique()) == 4
    assert len(made(tmp_path)) == 2


WRITE = """
import sys
from pathlib import Path
from golfsim.runs.store import Entry, Store
place, who = Store(Path(sys.argv[1])), sys.argv[2]
for n in range(40):
    place.record([Entry(f"{who}-{n}", "folder", "finished")])
"""


@apart
def test_several_processes_may_write_at_once(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, tmp_path, str(who)]) for who in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0, 0]
    assert len(Store(tmp_path).entries()) == 160


def test_an_index_that_is_held_for_too_long_is_reported(tmp_path, monkeypatch):
    place = Store(tmp_path)
    place.record([Entry("a", "f", "finished")])
    real = sqlite3.connect
    monkeypatch.setattr(store.sqlite3, "connect", lambda *a, **k: real(*a, **(k | {"timeout": 0.1})))
    holder = real(place.index)
    holder.execute("begin exclusive")
    with pytest.raises(UserError, match=r"cannot write to .*locked"):
        batch.run(scenario(), tmp_path, batch.Execution())
    holder.close()


def test_seeds_may_be_swept(tmp_path):
    found = batch.run(scenario(sweep={"seed": [5, 9]}), tmp_path, batch.Execution())
    for frame in (found.frame(), load(tmp_path)):
        assert set(zip(frame["seed"], frame["run"], strict=True)) == {(5, 1), (6, 2), (9, 1), (10, 2)}


# What must not be taken for something else


def test_the_content_does_not_depend_on_where_golfsim_is_installed(tmp_path):
    """In a folder called “report” too, other sources are another content."""
    place = tmp_path / "report"
    for folder in ("golfsim", "protocols", "data"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))

    before = own_hashes(place)
    assert before[0] == store.code_version()
    (place / "golfsim/sim/simulation.py").write_text("# other\n")
    assert own_hashes(place)[0] != before[0]


def own_hashes(place):
    """The hash that names runs and the folder of compiled code, as golfsim in another place sees them."""
    code = (
        "from golfsim.core import kernels, provenance; print(provenance.code_version()); print(kernels._folder_for(''))"
    )
    environment = os.environ | {"PYTHONPATH": str(place), "GOLFSIM_CACHE": str(place / "cache")}
    return subprocess.check_output([sys.executable, "-P", "-c", code], env=environment, text=True).splitlines()


@apart
@pytest.mark.parametrize(
    ("file", "run_changes", "code_changes"),
    [
        ("golfsim/cli/app.py", False, False),
        ("golfsim/runs/status.py", False, False),
        ("golfsim/report/page.py", False, False),
        ("golfsim/scenario/model.py", True, False),
        ("golfsim/core/rng.py", True, True),
        ("golfsim/privacy/ledger.py", True, True),
        ("protocols/report.py", True, True),
        ("protocols/anonml/votes.py", True, True),
    ],
)
def test_hashes_know_packages(file, run_changes, code_changes, tmp_path):
    for folder in ("golfsim", "protocols", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = own_hashes(tmp_path)
    with (tmp_path / file).open("a", encoding="utf-8") as source:
        source.write("\n# another line\n")
    run, code = (one != other for one, other in zip(own_hashes(tmp_path), before, strict=True))
    assert (run, code) == (run_changes, code_changes)


def test_what_a_card_says_is_part_of_the_content(monkeypatch):
    table = tree(PEERS, data={"set": "spambase", "scale": ["minmax"]}, nodes={})
    before = store.content_of(Scenario.of(table))
    card = replace(loading.card_of("spambase"), bounds={"default": (0.0, 7.0)})
    monkeypatch.setattr(loading, "card_of", lambda name: card)
    assert store.content_of(Scenario.of(table)) != before


def test_the_sources_of_another_packages_protocol_are_part_of_the_content(tmp_path, monkeypatch):
    (tmp_path / "offered.py").write_text((HERE / "user_protocols/averaging.py").read_text())
    monkeypatch.syspath_prepend(tmp_path)
    point = metadata.EntryPoint("offered", "offered:Averaging", "golfsim.protocols")
    monkeypatch.setattr(
        loading_of_protocols, "installed", lambda: {"uniform": installed()["uniform"], "offered": point}
    )
    table = tree(PEERS, AVERAGING | {"use": "offered"}, nodes=3)
    before = store.content_of(Scenario.of(table))
    (tmp_path / "helper.py").write_text("x = 1\n")
    assert store.content_of(Scenario.of(table)) != before


COUNTING = """
from golfsim.protocol import LayerConfig, Protocol

class Counting(Protocol[LayerConfig]):
    Config = LayerConfig

    def observe(self, world):
        return {{"count": {count}}}
"""


def count_of(frame):
    return set(frame.loc[frame["metric"] == "count", "value"])


def test_a_protocol_that_is_changed_while_python_runs_is_reloaded(tmp_path):
    """Else rows of the old source would stand under the hash of the new one."""
    table = tree({"name": "mine", "use": "mine.py:Counting"}, nodes=3)
    for count in (1, 22):
        (tmp_path / "mine.py").write_text(COUNTING.format(count=count))
        assert count_of(golfsim.run(Scenario.of(table, tmp_path), tmp_path / "r")) == {count}


def test_the_imports_of_a_changed_protocol_are_reloaded_too(tmp_path):
    table = tree({"name": "mine", "use": "mine.py:Counting"}, nodes=3)
    (tmp_path / "mine.py").write_text("import aside_of_mine\n" + COUNTING.format(count="aside_of_mine.COUNT"))
    for count in (1, 22):
        (tmp_path / "aside_of_mine.py").write_text(f"COUNT = {count}\n")
        assert count_of(golfsim.run(Scenario.of(table, tmp_path), tmp_path / "r")) == {count}


def test_a_run_whose_files_change_before_it_begins_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text(COUNTING.format(count=1))
    table = tree({"name": "mine", "use": "mine.py:Counting"}, nodes=3, runs=3)

    class Editing(batch.Progress):
        def end(self, task, outcome):
            super().end(task, outcome)
            (tmp_path / "mine.py").write_text(COUNTING.format(count=22))

    made = batch.run(Scenario.of(table, tmp_path), tmp_path / "r", batch.Execution(), Editing())
    assert [outcome.status for _, outcome in made.outcomes.values()] == ["finished", "failed", "failed"]
    assert "differs from the one that the run was planned with" in made.complaint()
    assert count_of(load(tmp_path / "r")) == {1}


# The index


def damaged_inside(file):
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"garbage!" * ((len(content) - 4096) // 8))


def of_another_version(file):
    with closing(sqlite3.connect(file)) as index:
        index.execute("alter table plan drop column seed")


def half_written(file):
    """What a process leaves that is killed in the middle of a transaction."""
    code = (
        "import os, sqlite3, sys\nindex = sqlite3.connect(sys.argv[1])\nindex.execute('pragma cache_size = 1')\n"
        "index.execute('begin')\nindex.execute('delete from plan')\n"
        "index.executemany('insert into runs values (?, 1, 2, 3, 4, 5)', [(str(n) * 99,) for n in range(3000)])\n"
        "os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, file], check=False)
    assert file.with_name(store.INDEX + "-journal").exists()


@pytest.mark.parametrize("damage", [damaged_inside, of_another_version, half_written])
def test_an_index_that_cannot_be_used_is_made_again(tmp_path, damage):
    made(tmp_path)
    rows = load(tmp_path)
    damage(tmp_path / store.INDEX)
    assert made(tmp_path) == []
    assert load(tmp_path).equals(rows)


def test_what_a_killed_process_has_left_half_done_is_undone_for_readers_too(tmp_path):
    made(tmp_path)
    rows = load(tmp_path)
    half_written(tmp_path / store.INDEX)
    assert status.of(tmp_path)["runs"]["complete"] == 4
    assert load(tmp_path).equals(rows)


def test_a_lost_index_costs_nothing_also_where_runs_have_other_names_now(tmp_path):
    made(tmp_path)
    (tmp_path / store.INDEX).unlink()
    assert len(made(tmp_path, runs=10)) == 16  # run-1 is run-01 now


def test_runs_that_the_index_has_not_heard_of_are_found(tmp_path):
    """As after kill -9 in the second after they ended."""
    made(tmp_path)
    rows = load(tmp_path)
    with closing(sqlite3.connect(tmp_path / store.INDEX)) as index, index:
        index.execute("delete from runs")
    assert status.of(tmp_path)["runs"]["complete"] == 4
    assert load(tmp_path).equals(rows)


def test_the_index_hears_of_a_run_within_seconds_also_if_no_other_one_ends(tmp_path):
    with batch.recording(Store(tmp_path)) as record:
        record(Entry("a", "f", "finished"))
        record(Entry("b", "f", "finished"))
        limit = time.monotonic() + 20
        while len(Store(tmp_path).entries()) < 2 and time.monotonic() < limit:
            time.sleep(0.1)
        assert len(Store(tmp_path).entries()) == 2


def test_only_complete_runs_are_loaded_even_without_an_index(tmp_path):
    made(tmp_path)
    file = next(tmp_path.glob("*loss=0.5/run-2-*/run.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"status": "interrupted"}))
    (tmp_path / store.INDEX).unlink()
    assert len(load(tmp_path)["path"].unique()) == 3
    assert len(load(tmp_path / "transport.loss=0.5")["path"].unique()) == 1
    assert len(load(tmp_path, unfinished=True)["path"].unique()) == 4


def test_a_complete_run_stays_complete_when_its_repetition_is_interrupted(tmp_path):
    made(tmp_path)
    rows = load(tmp_path)
    interrupt = Interrupt()

    class Impatient(batch.Progress):
        def cycle(self, task, cycle, error):
            interrupt.asked = cycle == 3

    again = batch.run(scenario(), tmp_path, batch.Execution(force=True), Impatient(), interrupt)
    assert [outcome.status for _, outcome in again.outcomes.values()] == ["interrupted"]
    assert load(tmp_path).equals(rows)
    assert status.of(tmp_path)["runs"]["complete"] == 4


def test_the_state_of_thousands_of_missing_runs_is_reported_at_once(tmp_path):
    Store(tmp_path).ask_for("s", plan(points(scenario(runs=3000))))
    for number in range(500):
        (tmp_path / f"p/run-{number}-00000000").mkdir(parents=True)
    begun = time.monotonic()
    assert status.of(tmp_path)["runs"]["missing"] == 6000
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("label", ["..", ".hidden", "index.sqlite", "漢" * 150, "a/b\\c:d*?"])
def test_any_label_makes_a_folder_inside_the_results(tmp_path, label):
    out = tmp_path / "r"
    found = batch.run(scenario(sweep={}, case=[{"label": label}]), out, batch.Execution())
    assert not found.failures
    assert [file.name for file in tmp_path.iterdir()] == ["r"]
    assert load(out)["case"].unique().tolist() == [label]


def test_only_settings_that_name_files_are_taken_for_files(tmp_path):
    """`golfsim run s.toml > log` in the scenario's folder: observe.every = “log” is no file."""
    from golfsim.runs.store import content_of

    table = tree({"name": "peers", "use": "newscast", "view": 3}, observe={"every": "log"})
    before = content_of(Scenario.of(table, tmp_path))
    for name in ("log", "peers", "newscast", "oracle", "fixed", "none"):
        (tmp_path / name).write_text("anything")
    assert content_of(Scenario.of(table, tmp_path)) == before
    (tmp_path / "trace.csv").write_text("node,from,until\n0,1,5\n")
    traced = table | {"churn": {"kind": "trace", "file": "trace.csv", "assign": "repeat"}}
    first = content_of(Scenario.of(traced, tmp_path))
    (tmp_path / "trace.csv").write_text("node,from,until\n0,1,6\n")
    assert content_of(Scenario.of(traced, tmp_path)) != first
