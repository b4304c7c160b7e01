"""Folders of results that were damaged in any way: the damaged run is named, the others are read, `run` repeats it."""

import json
import shutil
import sqlite3
import warnings
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from entries import ENTRIES
from entries import scenario as contract_tree
from fuzzing import damaged, thorough
from helpers import HERE, command
from hypothesis import given
from hypothesis import strategies as st

import golfsim
from golfsim.core.errors import UserError
from golfsim.runs import batch
from golfsim.scenario.model import Scenario

TREE = contract_tree(ENTRIES["golf"], cycles=2, sweep={"subject.lambda": [0.1, 0.01]}, runs=2)
FILES = ("log.parquet", "run.json", "scenario.toml", "index.sqlite")
ODD = st.sampled_from([None, "", "text", -1, 2.5, [], {}, [1, [2]], {"a": {"b": None}}, True, 10**30, "\ud800", "\x00"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with four complete runs."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    batch.run(Scenario.of(TREE, HERE), folder, batch.Execution())
    return folder


def run_of(folder):
    return sorted(folder.rglob("run.json"))[0].parent


def change_json(draw, folder):
    file = run_of(folder) / "run.json"
    content = json.loads(file.read_text())
    kind = draw(st.sampled_from(["whole", "key", "inner"]))
    if kind == "whole":
        content = draw(ODD)
    else:
        key = draw(st.sampled_from(sorted(content)))
        inner = content[key] if kind == "inner" and isinstance(content[key], dict) and content[key] else None
        if inner is None:
            content[key] = draw(ODD)
        else:
            inner[draw(st.sampled_from(sorted(inner)))] = draw(ODD)
    file.write_text(json.dumps(content))


def change_index(draw, folder):
    table, columns = draw(
        st.sampled_from(
            [("runs", "hash folder status error cycles seconds"), ("plan", "file place hash point run seed")]
        )
    )
    column = draw(st.sampled_from(columns.split()))
    value = draw(st.sampled_from([None, "text", b"\xff\xfe", -1, 2.5, "[]", "null", "{", 2**40]))
    with closing(sqlite3.connect(folder / "index.sqlite")) as index, index:
        try:
            index.execute(f"update {table} set {column} = ? where rowid = 1", (value,))
        except sqlite3.DatabaseError:
            index.execute(f"delete from {table}")


def change_columns(draw, folder):
    file = run_of(folder) / "log.parquet"
    table = pq.read_table(file)
    name = draw(st.sampled_from(table.column_names))
    kind = draw(st.sampled_from(["text", "null", "gone", "list", "float"]))
    place, rows = table.column_names.index(name), table.num_rows
    if kind == "gone":
        table = table.drop_columns([name])
    else:
        value = {"text": "x", "null": None, "list": [1], "float": 0.5}[kind]
        table = table.set_column(place, name, pa.array([value] * rows))
    pq.write_table(table, file)


def change_bytes(draw, folder):
    name = draw(st.sampled_from(FILES))
    file = folder / name if name == "index.sqlite" else run_of(folder) / name
    file.write_bytes(draw(damaged(file.read_bytes())))


CHANGES = {"json": change_json, "index": change_index, "columns": change_columns, "bytes": change_bytes}
COMMANDS = {
    "status": ["status"], "status --verify": ["status", "--verify"], "compare": ["compare"],
    "report": ["report", "--out", "page.html"],
}  # fmt: skip


def copied(whole, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_damaged_results_ends_in_output_or_a_message(whole, name, change, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, *options = COMMANDS[name]

    @thorough(2 if first == "report" else 4)
    @given(st.data())
    def check(data):
        folder = copied(whole, tmp_path / "r")
        CHANGES[change](data.draw, folder)
        code, out, err = command(capsys, monkeypatch, first, folder, *options)
        assert "Traceback" not in out + err
        assert code == 0 or err.strip()

    check()


@pytest.mark.parametrize("change", CHANGES)
def test_the_rows_of_the_other_runs_are_read(whole, change, tmp_path):
    right = golfsim.load(whole).drop(columns="path")

    @thorough(8)
    @given(st.data())
    def check(data):
        folder = copied(whole, tmp_path / "r")
        CHANGES[change](data.draw, folder)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found = golfsim.load(folder)
            except UserError:
                return
        missing = len(right) - len(found)
        assert missing == 0 or missing % (len(right) // 4) == 0
        assert missing == 0 or told or change in ("index", "json", "bytes")
        seen = found[["run", "seed", "cycle", "layer", "metric", "value"]].astype({"layer": str, "metric": str})
        known = right[seen.columns].astype({"layer": str, "metric": str})
        assert len(seen.merge(known, how="inner")) >= len(seen)

    check()


@pytest.mark.parametrize("change", CHANGES)
def test_run_repeats_what_is_damaged_and_ends_with_the_same_rows(whole, change, tmp_path):
    right = golfsim.load(whole).drop(columns="path")
    scenario = Scenario.of(TREE, HERE)

    @thorough(2)
    @given(st.data())
    def check(data):
        folder = copied(whole, tmp_path / "r")
        CHANGES[change](data.draw, folder)
        made = batch.run(scenario, folder, batch.Execution())
        assert not made.failures
        found = golfsim.load(folder).drop(columns="path")
        order = ["subject.lambda", "run", "cycle", "layer", "metric"]
        left, other = (
            one.astype({"layer": str, "metric": str}).sort_values(order, ignore_index=True) for one in (found, right)
        )
        assert left[other.columns].astype(str).equals(other.astype(str))

    check()


def test_one_flipped_bit_in_a_log_is_noticed(whole, tmp_path):
    folder = copied(whole, tmp_path / "r")
    file = run_of(folder) / "log.parquet"
    content = bytearray(file.read_bytes())
    for place in range(100, len(content), 997):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.warns(UserWarning, match="its checksum is not that in run.json; this run is left out"):
            assert golfsim.load(folder)["path"].nunique() == 3


def test_status_names_the_damaged_run(whole, tmp_path, capsys, monkeypatch):
    folder = copied(whole, tmp_path / "r")
    assert "4 complete" in command(capsys, monkeypatch, "status", folder, "--verify")[1]
    file = run_of(folder) / "log.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    _, out, _ = command(capsys, monkeypatch, "status", folder, "--verify")
    assert "3 complete, 1 damaged" in out
    assert f"{file}: damaged" in out
