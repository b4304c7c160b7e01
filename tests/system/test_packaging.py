"""The wheel is all that a user needs: installed alone, it runs by name what comes with it."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from helpers import HERE, needs_jit

import golfsim

pytestmark = [pytest.mark.slow, needs_jit]


def done(*words, **how):
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **how)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The programs of an environment that has our wheel, made from the sdist, and otherwise only what it depends on."""
    folder = tmp_path_factory.mktemp("packaging")
    done(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=HERE.parent)
    (sdist,) = folder.glob("*.tar.gz")
    done("tar", "xf", sdist, "-C", folder)
    source = folder / sdist.name.removesuffix(".tar.gz")
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv").glob("lib/*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]  # without their .pth files: not the sources
    (packages / "others.pth").write_text("\n".join(others))
    python, (wheel,) = folder / "venv/bin/python", folder.glob("*.whl")
    done(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    return python.parent


@pytest.fixture
def golfsim_(installed, tmp_path):
    """The installed command, run in an empty folder."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return lambda *words, **more: done(installed / "golfsim", *words, cwd=tmp_path, env=clean | more)


def test_the_installed_package_is_the_one_that_runs(installed, tmp_path):
    code = "import golfsim, protocols; print(golfsim.__file__, protocols.__file__, sep='\\n')"
    for file in done(installed / "python", "-I", "-c", code, cwd=tmp_path).split():
        assert installed.parent in Path(file).parents


def test_the_quickstart_runs_by_its_name(golfsim_, tmp_path):
    short = ["--set", "cycles=5", "--set", "data.train=300"]  # small enough for plain Python: compiling takes longer
    told = golfsim_("run", "quickstart", *short, NUMBA_DISABLE_JIT="1")
    assert told == "results in results/quickstart\n"
    assert golfsim.load(tmp_path / "results/quickstart")["cycle"].max() == 5
    assert (tmp_path / "results/quickstart/convergence,cycles=5,data.train=300.png").is_file()
    about = json.loads(next((tmp_path / "results/quickstart").rglob("run.json")).read_text())
    assert about["scenario_file"].endswith("golfsim/_scenarios/quickstart.toml")


def test_what_is_shipped_is_all_there(golfsim_):
    assert golfsim_("--version") == f"golfsim {golfsim.__version__}\n"
    shipped = sorted(file.stem for file in (HERE.parent / "scenarios").rglob("*.toml"))
    assert [entry["name"] for entry in json.loads(golfsim_("list", "scenarios", "--json"))] == shipped
    assert all(one["fine"] for one in json.loads(golfsim_("check", *shipped, "--json")))
    assert golfsim_("help", "safety") == (HERE.parent / "docs/safety.md").read_text(encoding="utf-8")
    assert golfsim_("schema") == (HERE.parent / "scenarios/scenario.schema.json").read_text(encoding="utf-8")


def test_a_new_protocol_passes_its_test_without_the_source_tree(golfsim_, installed, tmp_path):
    golfsim_("new", "protocol", "push_sum")
    told = done(installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_push_sum.py", cwd=tmp_path)
    assert "5 passed" in told


def test_every_kind_of_a_new_protocol_is_shipped(golfsim_):
    for kind in ("overlay", "learner"):
        golfsim_("new", "protocol", f"my_{kind}", "--kind", kind)
        assert golfsim_("check", f"my_{kind}.toml") == f"my_{kind}.toml: fine\n"
