"""What `golfsim new` writes works as it is, and nothing of the user's is ever lost to it."""

import json
import os
import subprocess
import sys

import pytest
from helpers import HERE, needs_jit

from golfsim.cli import scaffold
from golfsim.core.errors import UserError
from golfsim.scenario.model import Scenario


def outcome_of(folder, name):
    """How the test of what was written ends, in a process and a folder of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{name}.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@needs_jit
@pytest.mark.parametrize(("kind", "tests"), [("protocol", 6), ("scenario", 2)])
def test_what_is_written_passes_its_own_test(kind, tests, tmp_path):
    scaffold.new(kind, "something_new", tmp_path)
    ended = outcome_of(tmp_path, "something_new")
    assert f"{tests} passed" in ended.stdout, ended.stdout + ended.stderr


@needs_jit
def test_the_test_of_a_new_protocol_notices_a_fault(tmp_path):
    scaffold.new("protocol", "faulty", tmp_path)
    file = tmp_path / "faulty.py"
    file.write_text(file.read_text().replace("(value[i] + value[j]) / 2", "value[i]"))
    ended = outcome_of(tmp_path, "faulty")
    assert ended.returncode == 1
    assert "4 failed, 2 passed" in ended.stdout


@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_what_is_written_is_in_the_house_style(kind, tmp_path):
    scaffold.new(kind, "styled", tmp_path)
    config = ["--config", str(HERE.parent / "pyproject.toml")]
    for words in (["check", "--ignore", "D1"], ["format", "--check"]):
        ended = subprocess.run(
            [sys.executable, "-m", "ruff", *words, *config, "."],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_editors_find_the_schema_next_to_the_scenario(kind, tmp_path):
    scaffold.new(kind, "study", tmp_path)
    first, second = (tmp_path / "study.toml").read_text().splitlines()[:2]
    assert first == "#:schema scenario.schema.json"
    assert second.startswith("# ")
    assert json.loads((tmp_path / "scenario.schema.json").read_text())["title"] == "Scenario"
    assert Scenario.load(tmp_path / "study.toml").name == "Study"


def test_a_schema_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "scenario.schema.json").write_text("{}")
    written = scaffold.new("scenario", "study", tmp_path)
    assert tmp_path / "scenario.schema.json" not in written
    assert (tmp_path / "scenario.schema.json").read_text() == "{}"


@pytest.mark.parametrize("there", ["study.py", "study.toml", "test_study.py"])
def test_nothing_is_overwritten(there, tmp_path):
    (tmp_path / there).write_text("mine")
    with pytest.raises(UserError, match=f"already exists: .*{there}"):
        scaffold.new("protocol", "study", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("1st", "cannot be the name of a Python file"),
        ("push-sum", "cannot be the name of a Python file"),
        ("Push", "cannot be the name of a Python file"),
        ("../out", "cannot be the name of a Python file"),
        ("", "cannot be the name of a Python file"),
        ("class", "cannot be the name of a Python file"),
        ("test_it", "pytest would take “test_it” for a test"),
        ("random", "is the name of an installed module"),
        ("golfsim", "is the name of an installed module"),
        ("churn", "is a reserved word in scenario files"),
        ("peers", "is a reserved word in scenario files"),
    ],
)
def test_a_name_that_would_not_work_is_refused(name, why, tmp_path):
    with pytest.raises(UserError, match=why):
        scaffold.new("protocol", name, tmp_path / "new")
    assert os.listdir(tmp_path) == []
