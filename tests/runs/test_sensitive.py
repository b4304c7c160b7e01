"""Which files hold raw records or allow their reconstruction: the list in run.json, against the files of real runs."""

import io
import json
import re
import sqlite3
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers import HERE, command, tree

from golfsim.core import rng
from golfsim.privacy.mechanisms import Laplace
from golfsim.privacy.noise import add_laplace
from golfsim.runs import batch
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.progress import Silent
from golfsim.scenario.model import Scenario

SEED = 470_011
PEERS = {"name": "peers", "use": "newscast", "view": 5}
CLEAR = {"name": "clear", "use": "data_perturbation", "epsilon": float("inf")}
NOISY = {"name": "noisy", "use": "data_perturbation", "epsilon": 2.0}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
QUOTING = """
from typing import Any
from golfsim.protocol import Layer, LayerConfig, Protocol
from golfsim.protocol.records import Records

class Settings(LayerConfig):
    records: Layer[Records[Any]]

class Quoting(Protocol[Settings]):
    Config = Settings

    def step(self, world):
        raise ValueError(f"this record is wrong: {self.config.records.rows.x[0].tolist()}")
"""
TEXT = re.compile(r"-?\d+\.?\d*(?:[eE][+-]?\d+)?")


class Stopping(Silent):
    """Interrupts the run after its third cycle."""

    def __init__(self, interrupt):
        self._interrupt = interrupt

    def cycle(self, task, cycle, error):
        super().cycle(task, cycle, error)
        self._interrupt.asked |= cycle >= 3


@pytest.fixture
def records(tmp_path):
    """A file of private records, each of L1 length 1."""
    x = np.random.default_rng(5).random((40, 4))
    x = (x / x.sum(axis=1, keepdims=True)).round(7)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(y=[0, 1] * 20)
    frame.to_csv(tmp_path / "own.csv", index=False)
    return frame


def scenario(folder, *layers, **tables):
    data = {"file": "own.csv", "label": "y", "test": 0.2, "scale": ["l1"], "bounds": "public"}
    observe = {"every": 1, "nodes": 5, "draw": True, "attacks": ["label", "membership"]}
    base = {"data": data, "nodes": {"records": 2}, "seed": SEED, "observe": observe, "cycles": 6}
    return Scenario.of(tree(PEERS, *layers, **(base | tables)), folder)


def numbers(path):
    """All numbers of a file, whatever its format, in single precision; and its text."""
    content = path.read_bytes()
    if content[:4] == b"PAR1":
        table = pq.read_table(path)
        arrays = [np.asarray(column) for column in table.columns]
        text = str(table.schema.metadata)
    elif b"golfsim checkpoint" in content[:40]:
        arrays, text = list(np.load(_after_head(path), allow_pickle=False).values()), ""
    elif path.suffix == ".npy":
        arrays, text = [np.load(path)], ""
    elif content[:6] == b"SQLite":
        with sqlite3.connect(path) as index:
            rows = [row for name in ("runs", "plan") for row in index.execute(f"select * from {name}")]
        arrays, text = [], str(rows)
    else:
        arrays, text = [], content.decode("utf-8", "replace")
    found = [a.ravel().astype(np.float32) for a in arrays if a.dtype.kind in "fiu"]
    with np.errstate(all="ignore"):  # digits of a hash can be too large a number
        found.append(np.array([float(n) for n in TEXT.findall(text)], np.float64).astype(np.float32))
    return np.unique(np.abs(np.concatenate(found)))


def _after_head(path):
    content = path.read_bytes()
    return io.BytesIO(content[content.index(b"PK\x03\x04") :])


def holding(folder, records):
    """The files below a folder that hold all numbers of some record."""
    x = records[list("abcd")].to_numpy(np.float32)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path for path in files if np.isin(x, numbers(path)).all(axis=1).any()}


def with_seed(folder):
    """The files below a folder in which the seed stands."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path for path in files if np.float32(SEED) in numbers(path)}


def listed(run, path):
    """Whether the run.json of a run lists a file."""
    names = json.loads((run / "run.json").read_text())["sensitive_files"]
    return any(fnmatch(str(path), str((run / name).resolve())) for name in names)


def runs_of(folder):
    return [path.parent for path in folder.rglob("run.json")]


def test_a_complete_run_holds_no_raw_record_and_lists_all_files_with_its_seed(tmp_path, records):
    out = tmp_path / "results"
    batch.run(scenario(tmp_path, CLEAR, NOISY, GOLF, sweep={"clear.norm": ["l1"]}), out, batch.Execution(workers=1))
    (run,) = runs_of(out)
    assert {path.name for path in run.iterdir()} == {
        "log.parquet", "nodes.parquet", "links.parquet", "spent.parquet", "scenario.toml", "run.json",
    }  # fmt: skip
    assert holding(out, records) == set()
    seeded = with_seed(out)
    assert {path.name for path in seeded} == {path.name for path in run.iterdir()} | {"index.sqlite"}
    assert all(listed(run, path) for path in seeded)


def interrupted(folder, out, *layers):
    interrupt = Interrupt()
    batch.run(scenario(folder, *layers), out, batch.Execution(workers=1), Stopping(interrupt), interrupt)
    (run,) = runs_of(out)
    return run


def test_checkpoints_of_an_interrupted_run_hold_records_and_are_listed(tmp_path, records):
    run = interrupted(tmp_path, tmp_path / "results", CLEAR, GOLF)
    found = holding(tmp_path / "results", records)
    assert found
    assert {path.name.partition("-")[0] for path in found} == {"checkpoint"}
    assert all(listed(run, path) for path in found | with_seed(tmp_path / "results"))


def test_seed_and_checkpoint_together_give_the_records_that_noise_should_hide(tmp_path, records):
    run = interrupted(tmp_path, tmp_path / "results", NOISY)
    assert holding(tmp_path / "results", records) == set()
    (file,) = (path for path in run.glob("checkpoint-*"))
    noisy = np.load(_after_head(file))["state/layer.noisy/z"].astype(np.float32)
    noise = np.zeros_like(noisy)
    seed = json.loads((run / "run.json").read_text())["seed"]
    for row in range(len(noisy)):
        key, scale = rng.key(seed, "noisy", "noise"), Laplace(epsilon=2.0, sensitivity=2.0).scale
        add_laplace(key, 0, row, 0, scale, noise, row)
    true = records[list("abcd")].to_numpy()
    distance = np.abs(np.abs(noisy - noise)[:, None] - true[None]).max(axis=2).min(axis=1)
    assert distance.max() < 1e-5
    assert listed(run, file)


def test_a_failure_that_quotes_a_record_stands_in_listed_files_only(tmp_path, records):
    (tmp_path / "quoting.py").write_text(QUOTING)
    out = tmp_path / "results"
    layer = {"name": "quoting", "use": "quoting.py:Quoting", "records": "raw"}
    batch.run(scenario(tmp_path, layer, runs=2), out, batch.Execution(workers=1))
    found = holding(out, records)
    assert {path.name for path in found} == {"run.json", "error.txt", "index.sqlite"}
    for run in runs_of(out):
        assert all(listed(run, path) for path in found if path.parent in (run, out))


def test_the_cache_holds_records_only_where_the_page_says(tmp_path, records, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    batch.run(scenario(tmp_path, GOLF, runs=2), tmp_path / "results", batch.Execution(workers=2))
    given = tree(PEERS, GOLF, nodes={"records": 2}, data={"test": 0.2, "scale": ["l1"]})
    Scenario.of(given, tmp_path, data=records, label="y")
    folders = {path.relative_to(tmp_path / "cache").parts[0] for path in holding(tmp_path / "cache", records)}
    assert folders == {"arrays", "given"}
    page = (HERE.parent / "docs/safety.md").read_text(encoding="utf-8")
    assert all(f"`{folder}/`" in page for folder in folders)


def test_a_run_without_data_has_no_sensitive_file(tmp_path):
    batch.run(Scenario.of(tree(PEERS), tmp_path), tmp_path / "results", batch.Execution(workers=1))
    (run,) = runs_of(tmp_path / "results")
    assert json.loads((run / "run.json").read_text())["sensitive_files"] == {}


def test_exports_hold_neither_records_nor_the_seed(tmp_path, records, capsys, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "s.toml").write_text(scenario(tmp_path, NOISY).dump())
    monkeypatch.chdir(out)
    for name in ("export-published", "export-overlay"):
        assert command(capsys, monkeypatch, name, tmp_path / "s.toml")[0] == 0
    assert {path.name for path in out.iterdir()} == {"published.parquet", "overlay.graphml"}
    assert holding(out, records) == set()
    assert with_seed(out) == set()


def test_the_page_names_every_file_that_run_json_lists(tmp_path, records):
    run = interrupted(tmp_path, tmp_path / "results", CLEAR)
    page = (HERE.parent / "docs/safety.md").read_text(encoding="utf-8")
    names = json.loads((run / "run.json").read_text())["sensitive_files"]
    assert all(f"`{Path(name).name}`" in page for name in names)
