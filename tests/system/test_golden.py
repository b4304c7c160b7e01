"""The kept logs in tests/golden: the same bits on every processor."""

import os
import platform
import shutil
import subprocess
import sys

import golden
import pytest
from entries import ENTRIES
from helpers import HERE, needs_jit

from golfsim.core.paths import user_cache
from golfsim.learning import loading as learners
from golfsim.protocol.loading import installed

EACH = pytest.mark.parametrize("name", golden.LOGS)
X86 = platform.machine() in ("x86_64", "AMD64")


@needs_jit
@EACH
def test_a_log_is_that_which_is_kept(name):
    lines, kept = list(golden.lines_of(golden.LOGS[name]())), golden.read(name)
    assert lines == kept, "explain it in CHANGELOG.md and record it: python tests/golden.py"


def test_every_kept_log_is_one_of_those_that_are_run():
    assert sorted(golden.FOLDER.glob("*.txt")) == sorted(golden.file_of(name) for name in golden.LOGS)


def test_there_is_a_log_of_every_protocol_and_of_every_learner():
    layers = [layer for make in golden.LOGS.values() for layer in make()["protocol"]]
    assert {layer["use"] for layer in layers} >= set(installed())
    learned = {learners.learner_named(layer) or "pegasos" for layer in layers if layer["use"] == "golf"}
    assert learned == set(learners.installed())


def record(folder, cache, *names, command=(sys.executable,), **environment):
    """Record logs in a process of its own."""
    environment = os.environ | {"GOLFSIM_CACHE": str(cache)} | environment
    done = subprocess.run(
        [*command, HERE / "golden.py", folder, *names], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@needs_jit
def test_kernels_as_plain_python_give_the_same_numbers_but_for_rounding(tmp_path):
    """In single precision, after eight cycles: counts are the same, and all else within a ten-thousandth."""
    script = "import golden, pathlib, sys; golden.record(pathlib.Path(sys.argv[1]), golden.SHORT_LOGS)"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", script, tmp_path], env=environment, cwd=HERE, check=True)
    for name in ENTRIES:
        plain = golden.values(golden.read(name, tmp_path))
        found = golden.values(golden.lines_of(golden.SHORT_LOGS[name]()))
        assert found == pytest.approx(plain, rel=1e-4, abs=1e-6), name


@needs_jit
@pytest.mark.long
def test_code_that_is_compiled_and_code_that_is_loaded_give_the_same_bits(tmp_path):
    """Of the copies of a kernel in its callers the linker takes the first that is loaded: all have to round alike."""
    names = ["regularised_erm with noise", "golf over newscast"]
    for folder in ("compiled", "loaded"):
        record(tmp_path / folder, tmp_path / "cache", *names)
    for name in names:
        assert golden.read(name, tmp_path / "compiled") == golden.read(name, tmp_path / "loaded") == golden.read(name)


# Without 512-bit registers, and without those of 256 bits, numpy and BLAS choose other code.
OTHERS = {
    "numpy without AVX-512": {
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "compiled for this processor": {"GOLFSIM_CPU": "native"},
}
FEW = ("golf, logistic, sessions", "published per class, attacked", "regularised_erm with noise")


@needs_jit
@pytest.mark.long
@pytest.mark.parametrize("other", OTHERS)
def test_other_code_of_the_libraries_and_another_target_give_the_same_bits(other, tmp_path):
    record(tmp_path, user_cache(), *FEW, **OTHERS[other])
    for name in FEW:
        assert golden.read(name, tmp_path) == golden.read(name), name


LEARNED = ("golf, one record per node", "golf, logistic, sessions", "golf, mean, weibull")
EMULATED = {
    "Haswell": (*LEARNED, "published per class, attacked", "gradient_perturbation, l2"),
    "EPYC-Rome": (*LEARNED, "regularised_erm with noise"),
}
EACH_PROCESSOR = pytest.mark.parametrize("processor", EMULATED)
CODE = """
import sys
import numpy as np
from golfsim.core import maths
x = np.linspace(0.1, 3.0, 50)
maths.exp_of(x), maths.log_of(x), maths.product(x.reshape(5, 10), x.reshape(10, 5))
for kernel in (maths._fill_exp, maths._fill_log, maths._products):
    (code,) = kernel.inspect_asm().values()
    sys.stdout.write(code)
"""


def emulated(test):
    """Mark a test that needs an emulator."""
    for mark in (
        pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="no qemu-x86_64 (Debian package qemu-user)"),
        pytest.mark.skipif(not X86, reason="emulates x86-64 processors on x86-64"),
        pytest.mark.emulated,
        needs_jit,
    ):
        test = mark(test)
    return test


def python_on(processor):
    return "qemu-x86_64", "-cpu", processor, sys.executable


@emulated
@EACH_PROCESSOR
def test_an_emulated_processor_gives_the_same_bits(processor, tmp_path):
    """It loads kernels that were compiled outside the emulator, where compiling them takes minutes."""
    names = EMULATED[processor]
    record(tmp_path / "here", user_cache(), *names)
    record(tmp_path / "there", user_cache(), *names, command=python_on(processor))
    for name in names:
        assert golden.read(name, tmp_path / "there") == golden.read(name), name


@emulated
@EACH_PROCESSOR
def test_an_emulated_processor_compiles_the_same_code(processor, tmp_path):
    def code(cache, *command):
        environment = os.environ | {"GOLFSIM_CACHE": str(tmp_path / cache)}
        return subprocess.check_output([*command, "-c", CODE], env=environment, cwd=HERE.parent, text=True)

    here, there = code("here", sys.executable), code("there", *python_on(processor))
    assert here == there
    assert "vfmadd" in here
