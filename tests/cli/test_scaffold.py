"""What `golfsim new` writes works as it is, and nothing of the user's is ever lost to it."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
from helpers import HERE, command, needs_jit

from golfsim.cli import scaffold
from golfsim.core.errors import UserError
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

WRITERS = {kind: partial(scaffold.new_protocol, kind=kind) for kind in scaffold.KINDS}
WRITERS |= {"scenario": scaffold.new_scenario, "gradient": scaffold.new_learner}
FAULTS = {
    "gradient": ("-2 * short * y", "2 * short * y"),
    "plain": ("(value[i] + value[j]) / 2", "value[i]"),
    "overlay": ("views[i, place] = offered", "views[i, place] = i"),
    "learner": ("rate * y /", "-rate * y /"),
}


def outcome_of(folder, name, *options):
    """Return how the test that was written ends, in its own process and folder."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{name}.py", *options]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@needs_jit
@pytest.mark.parametrize(
    ("kind", "tests", "name"),
    [
        ("plain", 5, "something_new"),
        ("plain", 5, "x2"),
        ("overlay", 5, "something_new"),
        ("learner", 5, "x2"),
        ("scenario", 2, "something_new"),
        ("scenario", 2, "x2"),
        ("gradient", 4, "something_new"),
    ],
)
def test_what_is_written_passes_its_own_test(kind, tests, name, tmp_path):
    WRITERS[kind](name, tmp_path)
    ended = outcome_of(tmp_path, name)
    assert f"{tests} passed" in ended.stdout, ended.stdout + ended.stderr


@needs_jit
def test_a_pytorch_module_that_is_written_passes_its_own_test(tmp_path):
    pytest.importorskip("torch", reason='pip install "golfsim[torch]"')
    scaffold.new_learner("some_net", tmp_path, torch=True)
    ended = outcome_of(tmp_path, "some_net")
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr
    file = tmp_path / "some_net.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("torch.relu(self.hidden(x))", "torch.rand_like(self.hidden(x))"), encoding="utf-8")
    assert "the contract is broken" in outcome_of(tmp_path, "some_net").stdout


@needs_jit
@pytest.mark.parametrize(
    ("kind", "seen"),
    [("plain", "4 failed"), ("overlay", "4 failed"), ("learner", "2 failed, 2 passed"), ("gradient", "3 failed")],
)
def test_the_test_of_a_new_protocol_notices_a_fault(kind, seen, tmp_path):
    """All tests but the contract, which is kept: the fault is what only this protocol does."""
    WRITERS[kind]("faulty", tmp_path)
    file = tmp_path / "faulty.py"
    text = file.read_text(encoding="utf-8")
    assert text.count(FAULTS[kind][0]) == 1
    file.write_text(text.replace(*FAULTS[kind]), encoding="utf-8")
    ended = outcome_of(tmp_path, "faulty", "-k", "not keeps_the_contract")
    assert ended.returncode == 1
    assert f"{seen}, 1 deselected" in ended.stdout, ended.stdout + ended.stderr


@needs_jit
@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_the_test_of_a_new_protocol_notices_a_breach_of_the_contract(kind, tmp_path):
    WRITERS[kind]("careless", tmp_path)
    file = tmp_path / "careless.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("accepts = frozenset({", 'accepts = frozenset({"delay", '), encoding="utf-8")
    ended = outcome_of(tmp_path, "careless", "-k", "keeps_the_contract")
    assert "the contract is broken" in ended.stdout, ended.stdout + ended.stderr
    assert "1 failed, 4 deselected" in ended.stdout


@pytest.mark.parametrize("name", ["x", "push_sum", "a_long_name_of_a_protocol_with_many_words"])
@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_written_is_in_the_house_style(kind, name, tmp_path):
    WRITERS[kind](name, tmp_path)
    config = ["--config", str(HERE.parent / "pyproject.toml")]
    for words in (["check", "--ignore", "D1"], ["format", "--check"]):
        ended = subprocess.run(
            [sys.executable, "-m", "ruff", *words, *config, "."],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
def test_new_protocols_are_fully_typed(tmp_path):
    kinds = (*scaffold.KINDS, "gradient")
    for kind in kinds:
        WRITERS[kind](f"my_{kind}", tmp_path)
    config = ["--config-file", str(HERE.parent / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    files = [f"my_{kind}.py" for kind in kinds]
    words = [sys.executable, "-m", "mypy", *config, *files]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "no issues found in 4 source files" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize("kind", [*scaffold.KINDS, "gradient"])
def test_the_texts_fit_the_name(kind, tmp_path):
    written = {path.name: path.read_text(encoding="utf-8") for path in WRITERS[kind]("push_sum", tmp_path)}
    code, table = written["push_sum.py"], written["push_sum.toml"]
    assert code.startswith('"""Push sum: ')
    assert "class PushSum(" in code
    assert '    """Push sum. In this template ' in code
    assert "replace it by your own" in code
    assert table.splitlines()[1].startswith("# Push sum")
    assert "# Claim of the template, which " in table
    assert "$" not in code + table + written["test_push_sum.py"]


@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_new_protocols_declare_their_metrics(kind, tmp_path):
    WRITERS[kind]("measured", tmp_path)
    changes = {"cycles": 2, "observe.every": 1, "nodes.number": 20}
    if kind == "learner":
        changes = {"cycles": 2, "observe.every": 1, "data.train": 20}
    run = Simulation(Scenario.load(tmp_path / "measured.toml", changes))
    run.step()
    layer = run.layer("measured")
    assert {metric.name for metric in layer.metrics} == set(layer.observe(run.world)) != set()


def test_an_unknown_kind_is_refused_with_the_nearest_one(tmp_path, capsys, monkeypatch):
    words = ("new", "protocol", "mine", "--kind", "overlai", "--into", tmp_path)
    status, _, err = command(capsys, monkeypatch, *words)
    assert status == 2
    assert "there is no kind “overlai” of protocol" in err
    assert "did you mean “overlay”?" in err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", WRITERS)
def test_editors_find_the_schema_next_to_the_scenario(kind, tmp_path):
    WRITERS[kind]("study", tmp_path)
    first, second = (tmp_path / "study.toml").read_text().splitlines()[:2]
    assert first == "#:schema scenario.schema.json"
    assert second.startswith("# ")
    assert json.loads((tmp_path / "scenario.schema.json").read_text())["title"] == "Scenario"
    assert Scenario.load(tmp_path / "study.toml").name == "Study"


def test_a_schema_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "scenario.schema.json").write_text("{}")
    written = scaffold.new_scenario("study", tmp_path)
    assert tmp_path / "scenario.schema.json" not in written
    assert (tmp_path / "scenario.schema.json").read_text() == "{}"


@pytest.mark.parametrize("kind", scaffold.KINDS)
@pytest.mark.parametrize("there", ["study.py", "study.toml", "test_study.py"])
def test_nothing_is_overwritten(there, kind, tmp_path):
    (tmp_path / there).write_text("mine")
    with pytest.raises(UserError, match=f"already exists: .*{there}"):
        scaffold.new_protocol("study", tmp_path, kind)
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
        ("layer", "would have a class “Layer”, which is also the name of a class that it imports"),
        ("any", "would have a class “Any”, which is also the name of a class that it imports"),
    ],
)
def test_a_name_that_would_not_work_is_refused(name, why, tmp_path):
    with pytest.raises(UserError, match=why):
        scaffold.new_protocol(name, tmp_path / "new")
    assert os.listdir(tmp_path) == []
