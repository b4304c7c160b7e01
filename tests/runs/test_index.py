"""The index of a results folder, with runs that are written by hand."""

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from helpers import AVERAGING, HERE, tree

from golfsim.runs import store
from golfsim.runs.logs import checksum
from golfsim.runs.store import INDEX, Entry, Store, content_of, hash_of, plan
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points

PEERS = {"name": "peers", "use": "uniform"}
HASH = "0123456789abcdef" * 4


def planned(**tables):
    return plan(points(Scenario.of(tree(PEERS, AVERAGING, **({"nodes": 10} | tables)), HERE)))


def a_run(out, name=f"run-1-{HASH[:8]}", **about):
    """The files of a run."""
    (out / name).mkdir(parents=True)
    (out / name / "log.parquet").write_bytes(b"rows")
    content = {"hash": HASH, "status": "finished", "cycles": 5} | about
    (out / name / "run.json").write_text(json.dumps(content))
    return Entry(content["hash"], name, content["status"], content.get("error", ""), content["cycles"])


def change(out, statement, *values):
    with closing(sqlite3.connect(out / INDEX)) as index, index:
        index.execute(statement, values)


def asked(out, runs, file="s.toml"):
    return Store(out).ask_for(file, runs)


# What a scenario plans


def test_runs_are_numbered_from_1_and_each_has_the_next_seed():
    runs = planned(seed=7, runs=3, sweep={"transport.loss": [0.0, 0.5]})
    assert [(p.point.values["transport.loss"], p.run, p.seed) for p in runs] == [
        (loss, run, 6 + run) for loss in (0.0, 0.5) for run in (1, 2, 3)
    ]
    assert [hash_of(p.point.scenario, p.run) for p in runs] == [p.hash for p in runs]
    assert runs[1].values == {"transport.loss": 0.0, "run": 2, "seed": 8}


@pytest.mark.parametrize(("runs", "number"), [(1, "1"), (9, "1"), (10, "01"), (100, "001")])
def test_the_folder_of_a_run_has_its_number_and_8_digits_of_its_hash(runs, number):
    first = planned(runs=runs)[0]
    assert first.folder == f"run-{number}-{first.hash[:8]}"
    inside = planned(runs=runs, sweep={"transport.loss": [0.5]})[0]
    assert Path(inside.folder).parent == Path("transport.loss=0.5")


def test_with_folds_the_number_of_a_run_is_part_of_its_content():
    data = {"set": "random", "train": 20, "folds": 4}
    one, other = (planned(seed=seed, runs=2, data=data, nodes={"records": 2}) for seed in (1, 2))
    assert one[1].seed == other[0].seed
    assert one[1].hash != other[0].hash
    data = {"set": "random", "train": 20, "test": 4}
    one, other = (planned(seed=seed, runs=2, data=data, nodes={"records": 2}) for seed in (1, 2))
    assert one[1].hash == other[0].hash


@pytest.mark.parametrize("folds", [True, False])
def test_the_hash_of_a_run_is_that_of_its_content_its_seed_and_with_folds_its_number(folds):
    data = {"set": "random", "train": 20} | ({"folds": 4} if folds else {"test": 4})
    for p in planned(seed=3, runs=2, data=data, nodes={"records": 2}):
        text = f"{content_of(p.point.scenario)}\n{2 + p.run}\n{p.run if folds else 0}"
        assert p.hash == hashlib.sha256(text.encode()).hexdigest()


def test_the_order_of_the_keys_of_a_table_is_no_part_of_the_content():
    def content(**arguments):
        peers = {"name": "peers", "use": "static_overlay", "generator": "watts_strogatz_graph", "arguments": arguments}
        return content_of(Scenario.of(tree(peers, nodes=10), HERE))

    assert content(k=4, p=0.5) == content(p=0.5, k=4) != content(p=0.25, k=4)


def test_an_entry_and_a_planned_run_cannot_be_changed():
    entry = Entry("h", "f", "failed")
    assert (entry.error, entry.cycles, entry.seconds) == ("", 0, 0.0)
    with pytest.raises(FrozenInstanceError):
        entry.status = "finished"
    with pytest.raises(FrozenInstanceError):
        planned()[0].hash = HASH


# Reading


def test_a_folder_without_an_index_has_no_entries_and_reading_creates_none(tmp_path):
    place = Store(tmp_path)
    assert place.entries() == {}
    assert place.planned() == []
    place.record([])
    assert not list(tmp_path.iterdir())


def test_entries_are_what_was_recorded_last(tmp_path):
    one, other = Entry("a", "f", "failed", "it broke", 3, 1.5), Entry("b", "g", "finished", "", 9, 2.0)
    Store(tmp_path).record([one, other])
    assert Store(tmp_path).entries() == {"a": one, "b": other}
    Store(tmp_path).record([Entry("a", "f", "interrupted", "", 4, 2.5)])
    assert Store(tmp_path).entries() == {"a": Entry("a", "f", "interrupted", "", 4, 2.5), "b": other}


@pytest.mark.parametrize("column", ["folder", "status", "error", "cycles", "seconds"])
def test_an_entry_with_a_value_of_a_wrong_type_is_left_out(tmp_path, column):
    Store(tmp_path).record([Entry("a", "f", "failed"), Entry("b", "f", "failed")])
    change(tmp_path, f"update runs set {column} = ? where hash = 'a'", None)
    assert list(Store(tmp_path).entries()) == ["b"]


def test_text_in_the_index_that_is_no_utf_8_is_read_with_replacements(tmp_path):
    Store(tmp_path).record([Entry("a", "f", "failed")])
    change(tmp_path, "update runs set error = cast(? as text)", b"\xff!")
    assert Store(tmp_path).entries()["a"].error == "�!"


def test_planned_runs_are_in_the_order_of_files_and_of_their_plans_and_occur_once(tmp_path):
    first, second = planned(runs=2, seed=5), planned(runs=3, seed=4)
    asked(tmp_path, first, "b.toml")
    asked(tmp_path, second, "a.toml")
    assert [(hash_, values, entry) for hash_, values, entry in Store(tmp_path).planned()] == [
        *((p.hash, {"run": p.run, "seed": p.seed}, None) for p in second),
        *((p.hash, {"run": p.run, "seed": p.seed}, None) for p in first),
    ]
    asked(tmp_path, first, "a.toml")
    assert [hash_ for hash_, _, _ in Store(tmp_path).planned()] == [p.hash for p in first]


DAMAGED_PLANS = ["point = 'no JSON'", "point = '[1]'", "point = null", "run = 'x'", "seed = null", "hash = null"]
DEEP = "point = '" + "[" * 100_000 + "'"


@pytest.mark.parametrize("damage", [*DAMAGED_PLANS, DEEP], ids=[*DAMAGED_PLANS, "a table of great depth"])
def test_a_damaged_plan_is_not_read_and_is_made_again_next_to_the_old_one(tmp_path, damage):
    runs = planned(runs=2)
    asked(tmp_path, runs)
    asked(tmp_path, runs, "other.toml")
    Store(tmp_path).record([Entry(HASH, "f", "failed")])
    change(tmp_path, f"update plan set {damage} where place = 1")
    assert Store(tmp_path).planned() == []
    asked(tmp_path, runs)
    assert [hash_ for hash_, _, _ in Store(tmp_path).planned()] == [p.hash for p in runs]
    assert Store(tmp_path).entries() == {}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["index.damaged", INDEX]


def test_an_index_with_a_damaged_entry_is_made_again(tmp_path):
    runs = planned(runs=2)
    asked(tmp_path, runs)
    Store(tmp_path).record([Entry("a", "f", "failed")])
    asked(tmp_path, runs)
    assert not (tmp_path / "index.damaged").exists()
    change(tmp_path, "update runs set cycles = 'x'")
    asked(tmp_path, runs)
    assert (tmp_path / "index.damaged").exists()
    assert Store(tmp_path).entries() == {}


def test_an_index_that_is_locked_for_too_long_is_reported_by_readers_too(tmp_path, monkeypatch):
    Store(tmp_path).record([Entry("a", "f", "finished")])
    real = sqlite3.connect
    monkeypatch.setattr(store.sqlite3, "connect", lambda *a, **k: real(*a, **(k | {"timeout": 0.1})))
    with closing(real(tmp_path / INDEX)) as holder:
        holder.execute("begin exclusive")
        with pytest.raises(OSError, match=r"index\.sqlite: .*locked"):
            Store(tmp_path).entries()


def test_an_index_that_cannot_be_written_is_reported_with_its_name(tmp_path):
    (tmp_path / INDEX).mkdir()
    with pytest.raises(OSError, match=r"index\.sqlite: unable to open"):
        Store(tmp_path).record([Entry("a", "f", "finished")])
    assert Store(tmp_path).entries() == {}


def test_a_run_is_recorded_in_a_new_index_if_the_old_one_is_no_index(tmp_path):
    (tmp_path / INDEX).write_bytes(b"no index" * 1000)
    entry = Entry("a", "f", "finished", "", 5, 0.5)
    Store(tmp_path).record([entry])
    assert Store(tmp_path).entries() == {"a": entry}
    assert (tmp_path / "index.damaged").read_bytes() == b"no index" * 1000


@pytest.mark.parametrize("table", ["runs", "plan"])
@pytest.mark.parametrize("other", ["add column more", "add column aaa", "rename column hash to content"])
def test_an_index_with_other_columns_is_replaced(tmp_path, table, other):
    Store(tmp_path).record([Entry("a", "f", "finished")])
    change(tmp_path, f"alter table {table} {other}")
    Store(tmp_path).record([Entry("b", "f", "finished")])
    assert list(Store(tmp_path).entries()) == ["b"]
    assert (tmp_path / "index.damaged").is_file()


# Complete runs


@pytest.mark.parametrize("status", ["finished", "stopped"])
def test_a_complete_run_is_found_by_its_files_and_recorded(tmp_path, status):
    run = planned()[0]
    entry = a_run(tmp_path, f"somewhere/run-7-{run.hash[:8]}", hash=run.hash, status=status)
    assert Store(tmp_path).whole([run]) == {run.hash: entry}
    assert asked(tmp_path, [run]) == {run.hash: entry}
    assert Store(tmp_path).entries() == {run.hash: entry}
    assert Store(tmp_path).planned()[0][2] == entry


def test_what_the_index_knows_of_a_complete_run_is_kept(tmp_path):
    run = planned()[0]
    name = a_run(tmp_path, run.folder, hash=run.hash).folder
    entry = Entry(run.hash, name, "finished", "", 5, 12.5)  # run.json does not have the seconds
    Store(tmp_path).record([entry])
    assert asked(tmp_path, [run]) == {run.hash: entry}
    assert Store(tmp_path).entries() == {run.hash: entry}


def test_runs_that_are_not_complete_are_no_complete_runs(tmp_path):
    run, more = planned(runs=2)
    a_run(tmp_path, run.folder, hash=run.hash, status="interrupted", error="stopped by hand")
    assert asked(tmp_path, [run, more]) == {}
    expected = Entry(run.hash, run.folder, "interrupted", "stopped by hand", 5)
    assert [entry for _, _, entry in Store(tmp_path).planned()] == [expected, None]


def test_the_index_outranks_the_files_of_a_run_that_is_not_complete(tmp_path):
    run = planned()[0]
    a_run(tmp_path, run.folder, hash=run.hash, status="interrupted")
    failed = Entry(run.hash, run.folder, "failed", "no space")
    asked(tmp_path, [run])
    Store(tmp_path).record([failed])
    assert Store(tmp_path).planned()[0][2] == failed


def test_the_files_of_a_complete_run_outrank_the_index(tmp_path):
    run = planned()[0]
    asked(tmp_path, [run])
    Store(tmp_path).record([Entry(run.hash, run.folder, "failed", "no space")])
    entry = a_run(tmp_path, run.folder, hash=run.hash)
    assert Store(tmp_path).planned()[0][2] == entry
    assert asked(tmp_path, [run]) == {run.hash: entry}
    assert Store(tmp_path).entries() == {run.hash: entry}


def test_of_two_folders_the_complete_run_counts(tmp_path):
    run = planned()[0]
    a_run(tmp_path, f"a/run-1-{run.hash[:8]}", hash=run.hash, status="interrupted")
    entry = a_run(tmp_path, f"b/run-1-{run.hash[:8]}", hash=run.hash)
    a_run(tmp_path, f"c/run-1-{run.hash[:8]}", hash=run.hash, status="interrupted")
    assert asked(tmp_path, [run]) == {run.hash: entry}


def test_a_run_of_another_hash_is_another_run(tmp_path):
    run = planned()[0]
    a_run(tmp_path, run.folder, hash=run.hash[:8] + "0" * 56)
    assert asked(tmp_path, [run]) == {}
    assert Store(tmp_path).planned()[0][2] is None


@pytest.mark.parametrize("lacking", ["hash", "status", "cycles"])
def test_a_run_whose_description_lacks_something_is_not_complete(tmp_path, lacking):
    run = planned()[0]
    a_run(tmp_path, run.folder, hash=run.hash)
    file = tmp_path / run.folder / "run.json"
    file.write_text(json.dumps({key: v for key, v in json.loads(file.read_text()).items() if key != lacking}))
    assert asked(tmp_path, [run]) == {}


def test_a_complete_run_without_its_log_is_not_complete(tmp_path):
    run = planned()[0]
    Store(tmp_path).record([a_run(tmp_path, run.folder, hash=run.hash)])
    (tmp_path / run.folder / "log.parquet").unlink()
    assert asked(tmp_path, [run]) == {}
    assert Store(tmp_path).planned()[0][2] is None
    assert store.about_run(tmp_path / run.folder) == {}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_run_with_a_wrong_checksum_is_complete_only_for_readers_that_do_not_verify(tmp_path, recorded):
    run = planned()[0]
    asked(tmp_path, [run])
    entry = a_run(tmp_path, run.folder, hash=run.hash, sha256={"log.parquet": "0" * 64})
    Store(tmp_path).record([entry] if recorded else [])
    assert Store(tmp_path).planned()[0][2] == entry
    assert Store(tmp_path).planned(verify=True)[0][2] is None
    assert Store(tmp_path).whole([run]) == {}


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_damaged_run_does_not_hide_the_others(tmp_path, damaged):
    runs = planned(runs=2)
    wrong = {"sha256": {"log.parquet": "0" * 64}}
    entries = [a_run(tmp_path, p.folder, hash=p.hash, **(wrong if i == damaged else {})) for i, p in enumerate(runs)]
    assert Store(tmp_path).whole(runs) == {runs[1 - damaged].hash: entries[1 - damaged]}


def test_a_run_with_a_right_checksum_is_complete(tmp_path):
    run = planned()[0]
    a_run(tmp_path, "aside")
    right = checksum(tmp_path / "aside/log.parquet")
    entry = a_run(tmp_path, run.folder, hash=run.hash, sha256={"log.parquet": right})
    assert asked(tmp_path, [run]) == {run.hash: entry}
    assert Store(tmp_path).planned(verify=True)[0][2] == entry


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_complete_run_stays_complete_if_its_repetition_ends_early(tmp_path, status):
    entry = a_run(tmp_path)
    Store(tmp_path).record([Entry(HASH, entry.folder, status)])
    assert Store(tmp_path).entries() == {HASH: entry}


@pytest.mark.parametrize("there", [{"hash": "0" * 64}, {"hash": "f" * 64}, {"status": "interrupted"}])
def test_a_failed_run_is_recorded_if_its_folder_has_no_complete_run_of_its_hash(tmp_path, there):
    a_run(tmp_path, **there)
    failed = Entry(HASH, f"run-1-{HASH[:8]}", "failed", "no space", 2, 0.5)
    Store(tmp_path).record([failed])
    assert Store(tmp_path).entries() == {HASH: failed}


# Logs


def test_the_log_of_a_run_has_the_values_of_the_run_and_its_path_below_a_folder(tmp_path):
    out = tmp_path / "out"
    entry, place = a_run(out, f"p/run-1-{HASH[:8]}"), Store(out)
    file = out / entry.folder / "log.parquet"
    found = place.piece(entry, {"run": 1})
    assert (found.file, found.values) == (file, {"path": f"p/run-1-{HASH[:8]}", "run": 1})
    assert place.piece(entry, {}, tmp_path).values == {"path": f"out/p/run-1-{HASH[:8]}"}
    assert place.piece(None, {}) is None
    file.unlink()
    assert place.piece(entry, {}) is None


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_the_log_of_a_run_that_is_not_complete_is_read_only_if_it_is_wanted(tmp_path, status):
    entry, place = a_run(tmp_path, status=status), Store(tmp_path)
    assert place.piece(entry, {}) is None
    assert place.piece(entry, {}, unfinished=True) is not None
    assert place.piece(None, {}, unfinished=True) is None


def test_the_logs_of_a_folder_are_those_of_the_planned_runs_that_exist(tmp_path):
    first, second, third = planned(runs=3)
    a_run(tmp_path, "old/" + first.folder)
    a_run(tmp_path, first.folder, hash=first.hash)
    a_run(tmp_path, second.folder, hash=second.hash, status="interrupted")
    asked(tmp_path, [first, second, third])
    place = Store(tmp_path)
    assert [piece.values["path"] for piece in place.pieces(tmp_path)] == [first.folder]
    assert [piece.values["run"] for piece in place.pieces(tmp_path, unfinished=True)] == [1, 2]
