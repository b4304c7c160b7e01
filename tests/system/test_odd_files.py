"""Names that are no UTF-8, pipes and devices in the place of files, and a cache that cannot take another file."""

import os
import re
import resource
import shutil
import subprocess
import sys

import pytest
import tomlkit
from helpers import needs_jit, tree

BAD = os.fsdecode(b"caf\xe9")
PEERS = {"name": "peers", "use": "uniform"}
VIEWS = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "learner": "pegasos"}
RECORDS = "a,b,label\n" + "".join(f"{i},{i % 3},{i % 2}\n" for i in range(40))
DATA = {"file": "d.csv", "label": "label", "test": 0.2}


def golfsim(folder, *words, limit=None, **environment):
    def within_limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-m", "golfsim", *words], cwd=folder, capture_output=True, timeout=120, check=False,
        env=os.environ | environment, preexec_fn=within_limit if limit else None,
    )  # fmt: skip
    return done.returncode, done.stderr.decode("utf-8", "replace")


def refused(folder, *words):
    status, message = golfsim(folder, *words)
    assert status == 2, message
    assert "Traceback" not in message
    return message


@pytest.fixture
def folder(tmp_path):
    try:
        (tmp_path / BAD).mkdir()
    except OSError:
        pytest.skip("this file system has no names that are not UTF-8")
    table = tomlkit.dumps(tree(PEERS, GOLF, data=DATA, nodes={"records": 1}, runs=2))
    for place in (tmp_path, tmp_path / BAD):
        (place / "s.toml").write_text(table)
        (place / "d.csv").write_text(RECORDS)
    (tmp_path / f"{BAD}.toml").write_text(table)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("run", f"{BAD}.toml"),
        ("check", f"{BAD}.toml"),
        ("describe", f"{BAD}.toml"),
        ("run", f"{BAD}/s.toml"),
        ("run", f"{BAD}/s.toml", "--workers", "2"),
        ("run", "s.toml", "--out", f"{BAD}-results"),
        ("run", "s.toml", "--out", f"{BAD}/results"),
        ("run", "s.toml", "--set", f"data.file={BAD}/d.csv"),
        ("run", "s.toml", "--set", f"name={BAD}"),
    ],
    ids=lambda words: " ".join(words).encode("ascii", "replace").decode(),
)
def test_names_that_are_not_utf_8_are_refused_in_a_message(folder, words):
    assert "not UTF-8 text" in refused(folder, *words)


@pytest.mark.slow
def test_a_current_folder_that_is_not_utf_8_is_refused_in_a_message(folder):
    assert "not UTF-8 text" in refused(folder / BAD, "run", "s.toml")


@pytest.mark.slow
@needs_jit
def test_names_that_are_not_utf_8_in_the_environment_are_no_matter(folder):
    cache = str(folder / f"{BAD}-cache")
    scenario = tree(PEERS, runs=2)
    (folder / "p.toml").write_text(tomlkit.dumps(scenario))
    status, message = golfsim(folder, "run", "p.toml", "--workers", "2", GOLFSIM_CACHE=cache, SOMETHING=BAD)
    assert status == 0, message


PIPES = {
    "data": (tree(PEERS, GOLF, data=DATA | {"file": "{}.csv"}, nodes={"records": 1}), "data.file"),
    "parquet": (tree(PEERS, GOLF, data=DATA | {"file": "{}.parquet"}, nodes={"records": 1}), "data.file"),
    "npz": (tree(PEERS, GOLF, data={"file": "{}.npz", "test": 0.2}, nodes={"records": 1}), "data.file"),
    "svmlight": (tree(PEERS, GOLF, data={"file": "{}.svm", "test": 0.2}, nodes={"records": 1}), "data.file"),
    "test data": (tree(PEERS, GOLF, data=DATA | {"test_file": "{}.csv"}, nodes={"records": 1}), "data.test_file"),
    "trace": (tree(PEERS, churn=[{"kind": "trace", "file": "{}.csv"}]), "churn"),
    "edges": (tree({"name": "peers", "use": "static_overlay", "file": "{}.txt"}), "peers.file"),
    "matrix": (tree({"name": "peers", "use": "static_overlay", "file": "{}.npz"}), "peers.file"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("place", PIPES)
def test_a_pipe_or_a_device_is_refused_before_it_is_read(tmp_path, place, kind):
    table, key = PIPES[place]
    text = tomlkit.dumps(table).replace("{}", kind)
    (name,) = re.findall(rf"{kind}\.\w+", text)
    os.mkfifo(tmp_path / name) if kind == "pipe" else (tmp_path / name).symlink_to("/dev/zero")
    (tmp_path / "d.csv").write_text(RECORDS)
    (tmp_path / "s.toml").write_text(text)
    message = refused(tmp_path, "run", "s.toml")
    assert key in message
    assert "this is a pipe or a device, not a file" in message


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_code_is_not_read_from_a_pipe_or_a_device(tmp_path, kind):
    os.mkfifo(tmp_path / "mine.py") if kind == "pipe" else (tmp_path / "mine.py").symlink_to("/dev/zero")
    (tmp_path / "s.toml").write_text(tomlkit.dumps(tree({"name": "mine", "use": "mine.py:Mine"})))
    assert "mine.use" in refused(tmp_path, "run", "s.toml", "--allow-code")


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_results_are_not_read_from_a_pipe_or_a_device(tmp_path, kind):
    (tmp_path / "s.toml").write_text(tomlkit.dumps(tree(VIEWS, nodes=10, cycles=2)))
    assert golfsim(tmp_path, "run", "s.toml", "--out", "whole")[0] == 0
    (run,) = (tmp_path / "whole").glob("run-*")
    for name in ("run.json", "log.parquet", "scenario.toml"):
        shutil.rmtree(tmp_path / "r", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "r")
        file = tmp_path / "r" / run.name / name
        file.unlink()
        os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
        for words in (("status", "r", "--verify"), ("report", "r")):
            status, message = golfsim(tmp_path, *words)  # it fails after two minutes
            assert status in (0, 1, 2)
            assert "Traceback" not in message


@pytest.mark.slow
@needs_jit
def test_files_have_no_permission_that_the_umask_takes_away(tmp_path):
    (tmp_path / "d.csv").write_text(RECORDS)
    layers = (PEERS, {"name": "published", "use": "data_perturbation", "epsilon": 1.0})
    data = DATA | {"scale": ["minmax", "l1"], "bounds": {"default": [0, 40]}, "classes": ["0", "1"], "categories": {}}
    (tmp_path / "s.toml").write_text(tomlkit.dumps(tree(*layers, data=data, nodes={"records": 1}, runs=2)))
    before = {path for path in tmp_path.rglob("*")}
    mask = os.umask(0o077)
    try:
        environment = {"GOLFSIM_CACHE": str(tmp_path / "cache")}
        for words in (("run", "s.toml", "--workers", "2"), ("export-published", "s.toml"), ("report", "results/s")):
            status, message = golfsim(tmp_path, *words, **environment)
            assert status == 0, message
    finally:
        os.umask(mask)
    made = {path for path in tmp_path.rglob("*")} - before
    assert {"log.parquet", "run.json", "x.npy", "published.parquet", "report.html"} <= {path.name for path in made}
    assert [path for path in made if path.stat().st_mode & 0o077] == []


@pytest.mark.slow
@needs_jit
def test_a_cache_without_room_is_one_line_that_names_it(tmp_path):
    """The largest size of a file stands for a full disk: the compiled code does not fit, the results do."""
    (tmp_path / "s.toml").write_text(tomlkit.dumps(tree(VIEWS, runs=2)))
    cache = tmp_path / "cache"
    how = ("run", "s.toml", "--workers", "2", "--threads", "1")
    status, message = golfsim(tmp_path, *how, limit=1 << 15, GOLFSIM_CACHE=str(cache))
    assert status == 0, message
    (line,) = [line for line in message.splitlines() if "warning" in line]
    assert line.startswith(f"warning: compiled code is not stored: cannot write to the cache {cache}: ")
    assert "set GOLFSIM_CACHE to another folder" in line
    assert "Traceback" not in message
