"""Where compiled code is kept, and when it is made anew."""

import os
import platform
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest
from helpers import needs_jit

from golfsim.core import kernels, provenance
from golfsim.core.paths import user_cache

CALLER = """
from callee import twice
from golfsim.core.kernels import kernel

@kernel
def caller(x):
    return twice(x) + 1
"""
CALLEE = """
from golfsim.core.kernels import kernel

@kernel
def twice(x):
    return {factor} * x
"""
ASK = """
from caller import caller
print(caller(10), sum(caller.stats.cache_hits.values()), sum(caller.stats.cache_misses.values()))
"""


def ask(folder, cache, script=ASK):
    """Run a script beside the user's files in a process of its own: its words."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"GOLFSIM_CACHE": str(cache), "PYTHONPATH": path}
    command = [sys.executable, "-B", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, umask=0)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def users_folder(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "caller.py").write_text(CALLER)
    (folder / "callee.py").write_text(CALLEE.format(factor=2))
    return folder


@needs_jit
def test_compiled_code_is_private_and_recompiled_when_a_file_of_the_same_folder_changes(users_folder, tmp_path):
    cache = tmp_path / "cache"
    assert ask(users_folder, cache) == ["21", "0", "1"]
    assert ask(users_folder, cache) == ["21", "1", "0"]
    before = set((cache / "kernels").iterdir())
    for kept in before:
        assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert any(kept.rglob("*.nbc") for kept in before)

    unchanged = (users_folder / "caller.py").stat()
    (users_folder / "callee.py").write_text(CALLEE.format(factor=3))
    assert (users_folder / "caller.py").stat().st_mtime_ns == unchanged.st_mtime_ns
    assert ask(users_folder, cache) == ["31", "0", "1"]
    assert len(set((cache / "kernels").iterdir()) - before) == 1
    assert not list(users_folder.glob("__pycache__/*.nb*"))


@needs_jit
def test_without_a_folder_to_write_to_kernels_still_work(users_folder, tmp_path):
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    assert ask(users_folder, blocked) == ["21", "0", "1"]
    assert ask(users_folder, blocked) == ["21", "0", "1"]
    assert not list(tmp_path.rglob("*.nb*"))


FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # less than any compiled code
"""


@needs_jit
def test_a_kernel_that_cannot_be_stored_on_a_full_disk_still_works(users_folder, tmp_path):
    cache = tmp_path / "cache"
    assert ask(users_folder, cache, FULL + ASK) == ["21", "0", "1"]
    assert not list(cache.rglob("*.nbc"))
    assert ask(users_folder, cache) == ["21", "0", "1"]
    assert ask(users_folder, cache) == ["21", "1", "0"]


def test_a_folder_that_is_not_writable_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path))
    kernels._folder_for.cache_clear()
    try:
        assert kernels.cache_folder(Path(kernels.__file__)) is not None
        kernels._folder_for.cache_clear()
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # the tests may run as root, who may write anywhere
        assert kernels.cache_folder(Path(kernels.__file__)) is None
    finally:
        kernels._folder_for.cache_clear()


def fresh_folder(source):
    kernels._folder_for.cache_clear()
    return kernels.cache_folder(source)


def test_the_folder_changes_with_names_and_contents_of_the_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a.py").write_text("1")
    try:
        seen = [fresh_folder(mine / "a.py")]
        assert fresh_folder(mine / "a.py") == seen[0]
        (mine / "note.txt").write_text("not a source")
        assert fresh_folder(mine / "a.py") == seen[0]
        (mine / "b.py").write_text("2")
        seen.append(fresh_folder(mine / "a.py"))
        (mine / "b.py").write_text("3")
        seen.append(fresh_folder(mine / "a.py"))
        (mine / "b.py").rename(mine / "c.py")
        seen.append(fresh_folder(mine / "a.py"))
        seen.append(fresh_folder(Path(kernels.__file__)))
        assert len(set(seen)) == 5
    finally:
        kernels._folder_for.cache_clear()


def test_our_own_sources_are_in_the_hash_of_every_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    ours = tmp_path / "golfsim"
    (ours / "core").mkdir(parents=True)
    (ours / "core" / "module.py").write_text("1")
    for module in (kernels, provenance):
        monkeypatch.setattr(module, "ROOTS", (ours, tmp_path / "protocols"))
    mine = tmp_path / "mine"
    mine.mkdir()
    try:
        before = fresh_folder(ours / "core" / "module.py"), fresh_folder(mine / "a.py")
        (ours / "core" / "module.py").write_text("2")
        after = fresh_folder(ours / "core" / "module.py"), fresh_folder(mine / "a.py")
        assert before[0] != after[0]
        assert before[1] != after[1]
    finally:
        kernels._folder_for.cache_clear()


def test_folders_that_nobody_used_for_a_month_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path))
    old, young = tmp_path / "kernels" / "old", tmp_path / "kernels" / "young"
    for folder, days in ((old, 31), (young, 29)):
        folder.mkdir(parents=True)
        used = folder.stat().st_mtime - days * 86400
        os.utime(folder, (used, used))
    try:
        used = fresh_folder(Path(kernels.__file__))
    finally:
        kernels._folder_for.cache_clear()
    assert used.is_dir()
    assert young.is_dir()
    assert not old.exists()


@needs_jit
def test_a_kernel_releases_the_gil_divides_as_numpy_does_and_takes_sums_as_written():
    from golfsim.core.simd import dot

    assert dot.targetoptions["nogil"]
    assert dot.targetoptions["error_model"] == "numpy"
    assert "fastmath" not in dot.targetoptions


EXCHANGE = """
import sys
from pathlib import Path
import numpy as np
from golfsim.protocol import find
module = sys.modules[find(USE, Path.cwd(), allow_code=True).__module__]
nobody = np.full(1, -1, np.int32)
print(module.meet(np.full((1, 3), -1), np.zeros(1, np.int32), nobody, 1, np.uint64(1), module.room(4)))
"""


@pytest.mark.needs_jit
def test_a_file_of_ours_may_be_named_by_its_path_and_by_its_name(tmp_path):
    import protocols.newscast

    source = Path(protocols.newscast.__file__)
    for use in (f"{source}:Newscast", "newscast"):
        assert ask(tmp_path, tmp_path / "cache", EXCHANGE.replace("USE", repr(use))) == ["0"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users with numbers")
def test_without_a_home_the_cache_is_a_private_folder_among_the_temporary_files(tmp_path, monkeypatch):
    blocked = tmp_path / "a file, not a home"
    blocked.write_text("")
    monkeypatch.delenv("GOLFSIM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = user_cache()
    assert folder == tmp_path / f"golfsim-{os.geteuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="is not private"):
        user_cache()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="is not private"):
        user_cache()


TARGET = "from golfsim.core.kernels import TARGET, kernel; print(TARGET.replace(' ', '_'))"
BASELINE = {"x86_64": "x86-64-v3"}.get(platform.machine(), "generic")


def target(tmp_path, script=TARGET, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | environment, cwd=tmp_path, capture_output=True, text=True
    )
    return done.stdout.strip() or done.stderr.strip()


@needs_jit
def test_kernels_are_compiled_for_the_same_processor_everywhere_unless_asked_otherwise(tmp_path):
    assert target(tmp_path, GOLFSIM_CPU="") == BASELINE
    assert target(tmp_path, GOLFSIM_CPU="native").startswith("native:")
    assert "GOLFSIM_CPU is “fast”" in target(tmp_path, GOLFSIM_CPU="fast")


@needs_jit
def test_the_target_is_that_of_the_code_and_not_of_this_processor(tmp_path):
    script = """
import golfsim.core.rng
golfsim.core.rng.permutation(1, 1, 10)
codegen = golfsim.core.rng._shuffle.targetctx.codegen()
print(codegen._get_host_cpu_name(), repr(codegen._tm_features))
"""
    assert target(tmp_path, script, GOLFSIM_CPU="").split() == [BASELINE, "''"]


@needs_jit
def test_a_program_that_has_compiled_before_keeps_its_compiler_and_that_is_recorded(tmp_path):
    before = "import numba; numba.njit(lambda x: x + 1)(1); "
    assert target(tmp_path, before + TARGET, GOLFSIM_CPU="").startswith("native:")


def test_a_run_records_what_it_was_compiled_for():
    from golfsim.core.provenance import about_this_machine

    assert about_this_machine()["compiled_for"] == kernels.TARGET


@kernels.inlined
def times(x, factor):
    return factor * x


@kernels.inlined
def entry(pair, place):
    return pair[place]


def call_with_constants(x):
    pair = ((1, 2), 0.5)  # of different types: which one is taken has to be known to the compiler
    return times(x, 2) + times(x, 3) + times(x, factor=x) + entry(pair, 1) + entry(pair, 0)[1]


@needs_jit
def test_a_kernel_is_compiled_once_for_all_constants_unless_it_needs_them():
    assert numba.njit(call_with_constants)(10) == 20 + 30 + 100 + 0.5 + 2
    assert len(times.signatures) == 1
    assert len(entry.signatures) == 2


SMALL = """
name = "small"
seed = 1
cycles = 2
runs = 2
[nodes]
number = 10
[[protocol]]
name = "peers"
use = "newscast"
view = 4
"""


@needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_first_run_says_once_that_it_compiles_and_a_second_one_does_not(workers, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    words = [sys.executable, "-m", "golfsim", "run", str(file), "--workers", workers, "--force"]
    said = []
    for _ in range(2):
        environment = os.environ | {"GOLFSIM_CACHE": str(tmp_path / "cache"), "GOLFSIM_CPU": ""}
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr.count("compiling kernels (first run only)"))
    assert said == [1, 0]
