"""What a shell offers, as bash asks for it."""

import os
import subprocess
import sys

import pytest
from helpers import HEAVY, apart, learning_tree

import golfsim
from golfsim.cli import completion
from golfsim.core.metrics import SUMMARY
from golfsim.scenario.model import Scenario
from golfsim.sim.log import LOG


def offered(folder, *words):
    """What bash would offer for the last of the words, in a folder."""
    typed = {"COMP_WORDS": " ".join(["golfsim", *words]), "COMP_CWORD": str(len(words))}
    asked = os.environ | typed | {"_GOLFSIM_COMPLETE": "complete_bash"}
    command = [sys.executable, "-c", "from golfsim.cli import main; main()"]
    found = subprocess.run(command, env=asked, cwd=folder, capture_output=True, text=True, check=True)
    return found.stdout.split()


@apart
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("run", "quick"), ["quickstart"]),
        (("check", "quickstart", "half"), ["half_dies"]),
        (("list", "pro"), ["protocols"]),
        (("list", "protocols", "new"), ["newscast"]),
        (("list", "datasets", "spam"), ["spambase"]),
        (("list", "churn", "log"), []),
        (("data", "fetch", "mn"), ["mnist"]),
        (("help", "priv"), ["privacy"]),
        (("import", "pe"), ["peersim"]),
        (("new", "pro"), ["protocol"]),
        (("new", "protocol", "mine", "--kind", ""), ["learner", "overlay", "plain"]),
        (("new", "protocol", "mine", "--kind", "o"), ["overlay"]),
    ],
)
def test_the_tab_key_completes_names(words, wanted, tmp_path):
    assert offered(tmp_path, *words) == wanted


def test_the_tab_key_completes_the_users_own_files_too(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    for file in ("quick.toml", "quick.txt", "folder/deep.toml"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    assert completion.files("quick") == ["quick.toml", "quickstart"]
    assert completion.files("fo") == ["folder/"]
    assert completion.files("folder/") == ["folder/deep.toml"]
    assert completion.files("nowhere/") == []


def test_the_tab_key_completes_configurations_of_other_simulators(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    for file in ("config-1.txt", "configs/a.cfg", "conf.toml"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    assert completion.configurations("conf") == ["config-1.txt", "configs/"]
    assert completion.configurations("configs/") == ["configs/a.cfg"]
    assert completion.configurations("nowhere/") == []


@apart
def test_completion_loads_nothing_heavy():
    code = "import sys; from golfsim.cli import completion as c; c.named('protocols', ''); c.files('')"
    code += "; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "golfsim.cli.completion" in found
    assert (HEAVY | {"numpy", "pydantic"}) & set(found) == set()


@apart
def test_a_file_name_is_completed_so_that_a_shell_does_not_execute_it(tmp_path):
    for name in ("zz$(touch PWN).toml", "zz`touch PWN`.toml", "zz; touch PWN.toml", "zz'.toml", "zz\n.toml"):
        (tmp_path / name).write_text("")
    environment = os.environ | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    asked = environment | {"COMP_WORDS": "golfsim run zz", "COMP_CWORD": "2", "_GOLFSIM_COMPLETE": "complete_bash"}
    command = [sys.executable, "-c", "from golfsim.cli import main; main()"]
    done = subprocess.run(command, env=asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()
    assert len(words) == 4
    for word in words:
        printed = subprocess.run(["bash", "-c", f"printf %s {word}"], cwd=tmp_path, capture_output=True, text=True)
        assert (tmp_path / printed.stdout).is_file(), word
    assert not (tmp_path / "PWN").exists()


@apart
def test_the_tab_key_completes_the_keys_of_a_scenario_with_their_values(tmp_path):
    assert offered(tmp_path, "run", "quickstart", "--set", "cyc") == ["cycles=1000"]
    assert offered(tmp_path, "run", "quickstart", "--set", "ru") == ["runs=1"], "a default"
    found = offered(tmp_path, "describe", "quickstart", "--set", "peers.")
    assert "peers.view=20" in found
    assert all(word.startswith("peers.") for word in found)
    assert offered(tmp_path, "run", "--set", "cyc") == ["cycles="], "no scenario is typed yet"
    assert offered(tmp_path, "run", "no_such_file", "--set", "cyc") == ["cycles="]
    assert set(completion.USUAL) < set(Scenario.model_fields)
    assert str(Scenario.model_fields["runs"].default) == completion.USUAL["runs"]


@apart
def test_a_value_is_completed_so_that_a_shell_does_not_execute_it(tmp_path):
    (tmp_path / "s.toml").write_text('name = "$(touch PWN); `touch PWN` it"\ncycles = 3\n')
    asked = os.environ | {"COMP_WORDS": "golfsim run s.toml --set na", "COMP_CWORD": "4"}
    command = [sys.executable, "-c", "from golfsim.cli import main; main()"]
    done = subprocess.run(
        command, env=asked | {"_GOLFSIM_COMPLETE": "complete_bash"}, cwd=tmp_path, capture_output=True, text=True
    )
    (word,) = done.stdout.splitlines()
    printed = subprocess.run(["bash", "-c", f"printf %s {word}"], cwd=tmp_path, capture_output=True, text=True)
    assert printed.stdout == "name=$(touch PWN); `touch PWN` it"
    assert not (tmp_path / "PWN").exists()


@apart
def test_the_tab_key_completes_the_metrics_of_results(tmp_path):
    peers, golf = {"name": "peers", "use": "uniform"}, {"name": "model", "use": "golf", "peers": "peers"}
    golfsim.run(Scenario.of(learning_tree(peers, golf | {"records": "raw"}, cycles=2)), tmp_path / "r")
    assert offered(tmp_path, "compare", "r", "--metric", "acc") == ["accuracy"]
    assert offered(tmp_path, "compare", "r", "--metric", "accuracy.") == sorted(f"accuracy.{part}" for part in SUMMARY)
    assert "messages.sent" in offered(tmp_path, "compare", "r", "--metric", "mess")
    assert offered(tmp_path, "compare", "nowhere", "--metric", "acc") == []
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / LOG).write_bytes(b"not a log")
    assert offered(tmp_path, "compare", "damaged", "--metric", "acc") == []
