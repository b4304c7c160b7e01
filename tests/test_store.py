"""The results folder: which runs are there, and which a scenario asks for now."""

import json
import sqlite3
import subprocess
import sys

import pytest
from helpers import AVERAGING, HERE, tree

from golfsim import batch, store
from golfsim.errors import UserError
from golfsim.log import load
from golfsim.scenario import Scenario
from golfsim.store import Entry, Store, plan
from golfsim.sweep import points

PEERS = {"name": "peers", "use": "uniform"}
SWEEP = {"transport.loss": [0.0, 0.5]}


def scenario(**tables):
    return Scenario.of(tree(PEERS, AVERAGING, nodes=10, **({"runs": 2, "sweep": SWEEP} | tables)), HERE)


def hashes(**tables):
    return [planned.hash for planned in plan(points(scenario(**tables)))]


def made(folder, *, force=False, **tables):
    """The (loss, run) of the runs that had to be made."""
    found = batch.run(scenario(**tables), folder, batch.How(force=force))
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


def test_a_users_protocol_is_part_of_the_content_with_all_that_stands_beside_it(tmp_path):
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
    found = batch.run(scenario(case=cases, sweep={}), tmp_path, batch.How())
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
    for entry, status in zip(entries, ["interrupted", "failed"], strict=False):
        place.record([Entry(entry.hash, entry.folder, status)])
        file = tmp_path / entry.folder / "run.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"status": status}))
    assert len(load(tmp_path)["path"].unique()) == 2
    assert len(load(tmp_path, unfinished=True)["path"].unique()) == 4
    assert len(made(tmp_path)) == 2


WRITE = """
import sys
from pathlib import Path
from golfsim.store import Entry, Store
place, who = Store(Path(sys.argv[1])), sys.argv[2]
for n in range(40):
    place.record([Entry(f"{who}-{n}", "folder", "finished")])
"""


def test_several_processes_may_write_at_once(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, tmp_path, str(who)]) for who in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0, 0]
    assert len(Store(tmp_path).entries()) == 160


def test_an_index_that_is_held_for_too_long_is_told(tmp_path, monkeypatch):
    place = Store(tmp_path)
    place.record([Entry("a", "f", "finished")])
    real = sqlite3.connect
    monkeypatch.setattr(store.sqlite3, "connect", lambda *a, **k: real(*a, **(k | {"timeout": 0.1})))
    holder = real(place.index)
    holder.execute("begin exclusive")
    with pytest.raises(UserError, match=r"cannot write to .*locked"):
        batch.run(scenario(), tmp_path, batch.How())
    holder.close()


def test_seeds_may_be_swept(tmp_path):
    found = batch.run(scenario(sweep={"seed": [5, 9]}), tmp_path, batch.How())
    for frame in (found.frame(), load(tmp_path)):
        assert set(zip(frame["seed"], frame["run"], strict=True)) == {(5, 1), (6, 2), (9, 1), (10, 2)}
