"""Kernels that check every index: `golfsim run --debug`."""

import json
import os
import subprocess
import sys

import pytest
from helpers import needs_jit

pytestmark = needs_jit

MINE = """
import numpy as np
from golfsim.core.rng import item
from golfsim.core.simd import load, store
from golfsim.privacy.noise import add_laplace
from golfsim.protocol import LayerConfig, Protocol, inlined, kernel


@inlined
def change(value, i):
    value[i] += 1


@kernel
def change_all(value, table, order):
    for e in range(order.size):
        {line}


class Mine(Protocol[LayerConfig]):
    Config = LayerConfig

    def setup(self, world):
        self.value = np.zeros(world.nodes)
        self.table = np.zeros((world.nodes, 8), np.float32)

    def start(self, world, nodes):
        self.value[nodes] = 0

    def step(self, world):
        change_all(self.value, self.table, world.order)
"""
SCENARIO = """
name = "mine"
seed = 1
cycles = 2
[nodes]
number = 20
[[protocol]]
name = "mine"
use = "mine.py:Mine"
"""
LINE = 17  # of the statement in `change_all`


def run(folder, line, *words):
    (folder / "mine.py").write_text(MINE.format(line=line))
    (folder / "mine.toml").write_text(SCENARIO)
    command = [sys.executable, "-m", "golfsim", "run", "mine.toml", *words]
    environment = {key: value for key, value in os.environ.items() if key != "GOLFSIM_DEBUG"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("line", "place", "index", "size"),
    [
        ("value[order[e] + 1] += 1", f"{LINE}: in change_all", 20, 20),
        ("value[order[e] - 1] += 1", f"{LINE}: in change_all", -1, 20),
        ("table[e, 8] = 1", f"{LINE}: in change_all", 8, 8),
        ("change(value, order[e] + 5)", "11: in change", 20, 20),
    ],
)
def test_the_first_wrong_index_ends_the_run_with_kernel_line_and_index(tmp_path, line, place, index, size):
    done = run(tmp_path, line, "--debug")
    assert done.returncode == 2
    message = f"mine.py:{place}: index {index} is out of range: this axis has size {size}"
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_lanes_beyond_a_row_are_found(tmp_path):
    done = run(tmp_path, "store(table, e, 4, load(table, e, 4, 8))", "--debug")
    assert "index 11 is out of range: this axis has size 8" in done.stderr


def test_an_index_in_a_function_that_the_compiler_chooses_by_type_is_checked(tmp_path):
    done = run(tmp_path, "value[e] += item(table, e + 1)[0]", "--debug")
    assert "index 20 is out of range: this axis has size 20" in done.stderr


def test_kernels_with_checks_draw_noise(tmp_path):
    done = run(tmp_path, "add_laplace(np.uint64(1), 1, e, 0, 1.0, table, e)", "--debug")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["--debug"], ["--paranoid"], ["--debug", "--workers", "2", "--set", "runs=2"]])
def test_a_run_with_checks_writes_the_same_rows(tmp_path, words):
    plain = run(tmp_path, "value[order[e]] += 1", "--out", "plain", *words[3:])
    checked = run(tmp_path, "value[order[e]] += 1", "--out", "checked", *words)
    assert (plain.returncode, checked.returncode) == (0, 0), checked.stderr
    logs = [
        sorted(file.read_bytes() for file in (tmp_path / name).rglob("log.parquet")) for name in ("plain", "checked")
    ]
    assert len(logs[0]) > 0
    assert logs[0] == logs[1]
    about = json.loads(next((tmp_path / "checked").rglob("run.json")).read_text())
    assert about["status"] == "finished"
