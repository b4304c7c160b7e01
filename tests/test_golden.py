"""The kept logs in tests/golden: the same bits on the processor they were recorded on, close to them elsewhere."""

import os
import subprocess
import sys
from collections import defaultdict

import golden
import numpy as np
import pytest
from helpers import HERE, JIT, needs_jit
from test_contract import ENTRIES

EACH = pytest.mark.parametrize("name", ENTRIES)
# Another processor or compiler rounds otherwise. A margin may then fall on the other side of 1, and from there on a
# model is another one: the mean over the cycles of a metric stays about the same.
NEAR, NEAR_SHARE = 0.05, 0.1


def by_metric(lines):
    """The mean of each metric over the cycles."""
    found = defaultdict(list)
    for key, value in golden.values(lines).items():
        found[key.partition(" ")[2]].append(value)
    return {metric: np.mean(numbers) for metric, numbers in found.items()}


@EACH
def test_a_log_is_that_which_is_kept(name):
    recorded_at, kept = golden.read(name)
    lines = list(golden.lines_of(name))
    assert golden.values(lines).keys() == golden.values(kept).keys()
    if JIT and recorded_at == golden.here():
        assert lines == kept, "explain it in CHANGELOG.md and record anew: python tests/golden.py"
    else:
        assert by_metric(lines) == pytest.approx(by_metric(kept), rel=NEAR_SHARE, abs=NEAR)


def test_every_kept_log_is_of_a_protocol():
    assert sorted(golden.FOLDER.glob("*.txt")) == sorted(golden.file_of(name) for name in ENTRIES)


@needs_jit
def test_kernels_as_plain_python_give_the_same_numbers_but_for_rounding(tmp_path):
    """In single precision, after eight cycles: counts are the same, and all else within a ten-thousandth."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, HERE / "golden.py", tmp_path], env=environment, check=True)
    for name in ENTRIES:
        plain = golden.values(golden.read(name, tmp_path)[1])
        assert golden.values(golden.lines_of(name)) == pytest.approx(plain, rel=1e-4, abs=1e-6), name


@needs_jit
def test_code_that_is_compiled_and_code_that_is_loaded_give_the_same_bits(tmp_path):
    """Of the copies of a kernel in its callers the linker takes the first that is loaded: all have to round alike."""
    names = ["regularised_erm with noise", "group_aggregation, sums in the clear", "golf over newscast"]
    environment = os.environ | {"GOLFSIM_CACHE": str(tmp_path / "cache")}
    for folder in ("compiled", "loaded"):
        subprocess.run([sys.executable, HERE / "golden.py", tmp_path / folder, *names], env=environment, check=True)
    for name in names:
        assert golden.read(name, tmp_path / "compiled") == golden.read(name, tmp_path / "loaded"), name
