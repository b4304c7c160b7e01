"""The log of a run: tidy rows, files that are whole or not there, and loading them again."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import golfsim
from golfsim.core.columns import COLUMNS
from golfsim.core.errors import UserError
from golfsim.core.files import forget_unfinished, write_whole
from golfsim.core.provenance import about_this_machine
from golfsim.runs.logs import load
from golfsim.sim.log import Log


def small_log(run=1, seed=7):
    log = Log(run, seed)
    log.add(1, {"world": {"online": 3}, "learning": {"error.mean": 0.5, "error.std": 0.25}})
    log.add(10, {"world": {"online": 2}, "learning": {"error.mean": np.float32(0.125), "error.std": float("nan")}})
    return log


def test_each_value_is_a_row():
    frame = small_log().frame()
    assert tuple(frame.columns) == COLUMNS
    assert frame.drop(columns=["run", "seed"]).astype(object).iloc[[0, 4]].values.tolist() == [
        [1, "world", "online", 3.0],
        [10, "learning", "error.mean", 0.125],
    ]
    assert set(frame["run"]) == {1}
    assert set(frame["seed"]) == {7}
    assert len(frame) == 6


def test_what_is_written_is_what_is_loaded(tmp_path):
    log = small_log()
    log.write(tmp_path / "a" / "run-1", "name = 'ε'\n", {"seed": 7})
    frame = load(tmp_path)
    pd.testing.assert_frame_equal(frame.drop(columns="path"), log.frame(), check_categorical=False)
    assert set(frame["path"]) == {"a/run-1"}
    assert (tmp_path / "a/run-1/scenario.toml").read_text(encoding="utf-8") == "name = 'ε'\n"
    about = json.loads((tmp_path / "a/run-1/run.json").read_text())
    assert (about["seed"], sorted(about["sha256"])) == (7, ["log.parquet", "scenario.toml"])
    names = sorted(path.name for path in (tmp_path / "a/run-1").iterdir())
    assert names == ["log.parquet", "run.json", "scenario.toml"]


def test_the_parquet_file_knows_scenario_and_seed(tmp_path):
    small_log().write(tmp_path, "name = 'a'\n", {})
    metadata = pq.read_schema(tmp_path / "log.parquet").metadata
    assert metadata[b"golfsim.scenario"] == b"name = 'a'\n"
    assert metadata[b"golfsim.seed"] == b"7"


def test_a_log_without_rows_can_be_written_and_loaded(tmp_path):
    Log(1, 1).write(tmp_path, "", {})
    frame = load(tmp_path)
    assert len(frame) == 0
    assert list(frame.columns) == [*COLUMNS, "path"]


def test_runs_of_several_folders_are_loaded_as_one_frame(tmp_path):
    for run, name in enumerate(["a", "b", "c"], 1):
        log = small_log(run, run + 6)
        log.add(20, {name: {f"only_{name}": 1.0}})
        log.write(tmp_path / name, "", {})
    frame = load(tmp_path / "a", tmp_path)
    assert len(frame) == 4 * 7
    assert frame.groupby("run").size().to_dict() == {1: 14, 2: 7, 3: 7}
    assert isinstance(frame["layer"].dtype, pd.CategoricalDtype)
    assert set(frame.loc[frame["run"] == 3, "layer"]) == {"world", "learning", "c"}
    assert set(frame["path"]) == {".", "a", "b", "c"}


def test_a_single_file_can_be_loaded(tmp_path):
    small_log().write(tmp_path, "", {})
    assert len(golfsim.load(tmp_path / "log.parquet")) == 6


def no_log(folder):
    folder.mkdir()


def no_parquet(folder):
    folder.mkdir()
    (folder / "log.parquet").write_text("hello")


def half_a_log(folder):
    small_log().write(folder, "", {})
    whole = (folder / "log.parquet").read_bytes()
    (folder / "log.parquet").write_bytes(whole[: len(whole) // 2])


def other_columns(folder):
    folder.mkdir()
    pq.write_table(pa.table({"run": [1], "x": [2]}), folder / "log.parquet")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "there is no such file or folder"),
        (no_log, "no log.parquet here or below"),
        (no_parquet, "log.parquet: not a golfsim log"),
        (half_a_log, "log.parquet: damaged: its checksum is not that in run.json"),
        (other_columns, "log.parquet: not a golfsim log"),
    ],
)
def test_a_folder_that_cannot_be_loaded_is_named_in_the_error(tmp_path, make, message):
    make(tmp_path / "results")
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path / "results")
    assert str(tmp_path / "results") in str(caught.value)


def test_loading_without_a_folder_is_refused():
    with pytest.raises(UserError, match="nothing to load"):
        load()


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")

    def fail(path):
        path.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(file, fail)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_unfinished_file_is_deleted_only_if_its_process_has_ended(tmp_path):
    seen = []

    def write(path):
        (tmp_path / ".left.x.part").write_text("by a killed process")
        forget_unfinished(tmp_path)
        seen.extend(file.name for file in tmp_path.iterdir())
        path.write_text("new")

    write_whole(tmp_path / "file", write)
    assert len(seen) == 1
    assert seen[0].startswith(".file.")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "new"


def test_versions_and_machine_are_known():
    about = about_this_machine()
    assert about["versions"]["golfsim"] == golfsim.__version__
    assert about["versions"].keys() >= {"python", "numpy", "numba", "scipy", "pandas", "pyarrow"}
    assert about["machine"]["processor"]
    assert about["machine"]["cores"] >= 1
