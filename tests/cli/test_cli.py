"""The commands as a user meets them: output, messages, exit status, progress, Ctrl-C."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from entries import PEERS
from helpers import AVERAGING, HERE, command, learning_tree, tree

import golfsim
from golfsim.cli import app, flags, manual, run_commands
from golfsim.core.errors import UserError
from golfsim.runs import batch, progress, single
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.logs import load
from golfsim.scenario import catalogue, pages
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

SHIPPED, DOCS = HERE.parent / "scenarios", HERE.parent / "docs"
UNIFORM = {"name": "peers", "use": "uniform"}
NEWSCAST = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
AVERAGES = AVERAGING | {"use": "averaging.py:Averaging"}


def written(path, table):
    import tomlkit

    path.write_text(tomlkit.dumps(table), encoding="utf-8")
    return path


@pytest.fixture
def learning(tmp_path):
    """The file of a small scenario that learns."""
    return written(tmp_path / "small.toml", learning_tree(NEWSCAST, GOLF, cycles=4))


@pytest.fixture
def averaging(tmp_path):
    """The file of a small scenario without data."""
    shutil.copy(HERE / "user_protocols/averaging.py", tmp_path)
    return written(tmp_path / "average.toml", tree(UNIFORM, AVERAGES, nodes=10, cycles=5))


@pytest.fixture
def golfsim_(capsys, monkeypatch):
    """Run a command in this process: (exit status, output, errors)."""
    return partial(command, capsys, monkeypatch)


def run_at(results, number=1):
    """The folder of a run; its name ends in a hash of its content."""
    (found,) = results.glob(f"run-{number}-????????")
    return found


def about(results, number=1):
    return json.loads((run_at(results, number) / "run.json").read_text())


def process(*words, **how):
    """Run a command as a process of its own, as the console script does."""
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    command = [sys.executable, "-c", "from golfsim.cli import main; main()", *map(str, words)]
    return subprocess.Popen(command, text=how["stderr"] == subprocess.PIPE, **how)


# run


def test_a_run_leaves_log_scenario_facts_and_figure(golfsim_, learning, tmp_path):
    more = ["--threads", 2, "--set", "cycles=3", "--set", "runs=2"]
    code, out, err = golfsim_("run", learning, "--out", tmp_path / "r", *more)
    assert (code, out) == (0, f"results in {tmp_path / 'r'}\n")
    assert "Traceback" not in err
    files = sorted(str(path.relative_to(tmp_path / "r")) for path in (tmp_path / "r").rglob("*.*"))
    folders = [run_at(tmp_path / "r", run).name for run in (1, 2)]
    figure = "convergence,cycles=3,runs=2"
    assert files == [f"{figure}.pdf", f"{figure}.png", f"{figure}.svg", "index.sqlite"] + [
        f"{folder}/{name}" for folder in folders for name in ("log.parquet", "run.json", "scenario.toml")
    ]
    facts = about(tmp_path / "r", 2)
    assert {key: facts[key] for key in ("status", "run", "seed", "cycles", "nodes", "threads")} == {
        "status": "finished", "run": 2, "seed": 2, "cycles": 3, "nodes": 40, "threads": 2,
    }  # fmt: skip
    assert facts["scenario_file"] == str(learning)
    assert facts["command"] == f"golfsim run {learning} --set cycles=3 --set runs=2"
    assert facts["times"].keys() == {"setup_s", "cycles_s"}
    frame = load(tmp_path / "r")
    measured = set(zip(frame["run"], frame["seed"], frame["cycle"], strict=True))
    assert measured == {(run, run, cycle) for run in (1, 2) for cycle in (1, 2, 3)}
    assert Scenario.load(run_at(tmp_path / "r") / "scenario.toml").cycles == 3


def test_the_figure_is_of_this_run_whatever_else_lies_in_the_folder(golfsim_, learning, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(run_commands, "_draw", lambda plot, frame, folder: seen.append(frame["run"].nunique()))
    golfsim_("run", learning, "--out", tmp_path / "r", "--set", "runs=10", "--set", "cycles=1")
    golfsim_("run", learning, "--out", tmp_path / "r", "--set", "runs=2", "--set", "cycles=1")
    assert seen == [10, 2]


def test_a_run_with_nothing_to_do_says_so_and_where_the_figure_is(golfsim_, learning, averaging, tmp_path):
    words = ["run", learning, "--workers", 1, "--out", tmp_path / "r"]
    _, out, _ = golfsim_(*words)
    assert "nothing to do" not in out
    code, out, err = golfsim_(*words)
    assert (code, err) == (0, "")
    assert out == (
        "nothing to do: the run of this scenario is complete (--force repeats it)\n"
        f"figure in {tmp_path / 'r/convergence.png'}\nresults in {tmp_path / 'r'}\n"
    )
    assert (tmp_path / "r/convergence.png").is_file()
    more = [*words, "--set", "runs=2"]
    assert "nothing to do" not in golfsim_(*more)[1], "one of two runs"
    assert golfsim_(*more)[1].startswith(
        "nothing to do: all 2 runs of this scenario are complete (--force repeats them)"
    )
    assert "nothing to do" not in golfsim_(*words, "--force")[1]


def test_a_scenario_without_a_figure_names_none(golfsim_, averaging, tmp_path):
    words = ["run", averaging, "--out", tmp_path / "r", "--set", "plot.kind=none"]
    golfsim_(*words)
    _, out, _ = golfsim_(*words)
    assert "nothing to do" in out
    assert "figure" not in out


def test_a_scenario_without_a_learner_gets_its_figure_too(golfsim_, averaging, tmp_path):
    written(averaging, tree(NEWSCAST, AVERAGES, nodes=10, cycles=5))
    assert golfsim_("run", averaging, "--out", tmp_path / "r")[0] == 0
    assert "variance" in (tmp_path / "r/convergence.svg").read_text(encoding="utf-8")
    assert golfsim_("run", averaging, "--out", tmp_path / "r", "--set", "observe.overlay=1")[0] == 0
    assert "share of dead links" in (tmp_path / "r/convergence,observe.overlay=1.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_metric_to_plot_that_no_layer_has_is_refused_before_the_run(golfsim_, averaging, tmp_path, command):
    table = tomllib.loads(averaging.read_text()) | {"plot": {"metric": "varianse"}}
    out = ["--out", tmp_path / "r"] if command == "run" else []
    code, _, err = golfsim_(command, written(averaging, table), *out)
    assert code == 2
    assert "plot.metric: no layer has the metric “varianse”\n    did you mean “variance”? valid: bytes.sent, " in err
    assert not (tmp_path / "r").exists()


def test_results_go_to_the_working_folder_by_default(golfsim_, averaging, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = golfsim_("run", "average.toml")
    assert (code, out) == (0, "results in results/average\n")
    assert load(tmp_path / "results/average")["run"].unique().tolist() == [1]


def test_a_run_that_its_condition_ends_is_stopped(golfsim_, averaging, tmp_path):
    table = tomllib.loads(averaging.read_text()) | {"stop": {"when": "world.online > 0"}}
    code, _, _ = golfsim_("run", written(averaging, table), "--out", tmp_path / "r")
    facts = about(tmp_path / "r")
    assert (code, facts["status"], facts["cycles"]) == (0, "stopped", 1)


def test_a_condition_on_an_unknown_metric_is_reported(golfsim_, averaging, tmp_path):
    code, _, err = golfsim_("run", averaging, "--set", "stop.when=averaging.varianc < 0", "--out", tmp_path / "r")
    assert code == 2
    assert "stop.when: “averaging” has no metric “varianc”\n    did you mean “variance”?" in err
    assert about(tmp_path / "r")["status"] == "failed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nodes.number=10", "10 nodes of 2 records hold only 20 of the 80 records\n    set leave_out = true"),
        ("nodes.number=99", "99 nodes of 2 records need 198 records; the data has 80\n    set repeat = true"),
    ],
)
def test_a_mistake_that_appears_only_with_the_data_has_its_place(golfsim_, learning, tmp_path, change, message):
    code, out, err = golfsim_("run", learning, "--out", tmp_path / "r", "--set", change)
    assert (code, out) == (2, "")
    assert err.startswith(f"--set {change}: nodes.number: {message}")


def test_a_network_too_large_for_the_memory_is_reported(golfsim_, averaging, tmp_path, monkeypatch):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 36 TiB")

    monkeypatch.setattr(single, "Simulation", full)
    code, _, err = golfsim_("run", averaging, "--out", tmp_path / "r")
    assert code == 2
    assert "nodes: not enough memory: Unable to allocate 36 TiB" in err


def test_results_that_cannot_be_written_are_reported_before_the_run(golfsim_, averaging, tmp_path, monkeypatch):
    monkeypatch.setattr(single, "Simulation", None)
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nowhere"):
        code, _, err = golfsim_("run", averaging, "--out", out)
        assert code == 2
        assert err.startswith(f"golfsim: cannot write to {out}: ")
        assert "--out" in err.splitlines()[1]


FAULTY = """
from golfsim.protocol import LayerConfig, Protocol

class Faulty(Protocol):
    Config = LayerConfig

    def step(self, world):
        if world.cycle == 3:
            return {}["nothing"]
"""


def test_a_fault_of_a_users_protocol_is_reported_with_its_line_and_the_log_is_kept(golfsim_, tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    file = written(tmp_path / "s.toml", tree({"name": "mine", "use": "faulty.py:Faulty"}, nodes=3))
    code, _, err = golfsim_("run", file, "--out", tmp_path / "r")
    assert code == 2
    assert f"{tmp_path / 'faulty.py'}:9: in step: KeyError: 'nothing'" in err.splitlines()
    assert set(load(tmp_path / "r", unfinished=True)["cycle"]) == {1, 2}
    assert about(tmp_path / "r")["status"] == "failed"


def test_a_fault_of_our_own_is_not_hidden(golfsim_, averaging, tmp_path, monkeypatch):
    monkeypatch.setattr(single, "Simulation", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        golfsim_("run", averaging, "--out", tmp_path / "r")


def test_golfsim_run_gives_the_rows_that_the_command_writes(averaging, tmp_path, golfsim_):
    golfsim_("run", averaging, "--out", tmp_path / "r")
    rows = golfsim.run(Scenario.load(averaging), tmp_path / "again")
    for folder in ("r", "again"):
        pd.testing.assert_frame_equal(load(tmp_path / folder).drop(columns="path"), rows, check_categorical=False)


# check, schema, list, help, new


def test_a_shipped_scenario_is_found_by_its_name(golfsim_, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert golfsim_("check", "quickstart") == (0, "quickstart: fine\n", "")
    assert golfsim_("describe", "quickstart")[:2] == (0, golfsim_("describe", SHIPPED / "quickstart.toml")[1])
    assert (tmp_path / "results/quickstart/describe.png").is_file()


def test_a_file_of_the_users_comes_before_a_shipped_one(golfsim_, averaging, monkeypatch):
    monkeypatch.chdir(averaging.parent)
    averaging.rename("quickstart")
    assert Scenario.load("quickstart").name == "a test"


def test_a_name_that_is_neither_a_file_nor_shipped_is_reported(golfsim_, averaging, monkeypatch):
    monkeypatch.chdir(averaging.parent)
    for name, close in (("quikstart", "quickstart"), ("average", "average.toml")):
        code, _, err = golfsim_("run", name)
        assert code == 2
        assert err.startswith(f"{name}: No such file or directory\n    did you mean “{close}”?")


def test_check_reports_problems_as_json(golfsim_, learning, tmp_path):
    bad = written(tmp_path / "bad.toml", tomllib.loads(learning.read_text()) | {"cycels": 3, "seed": -1})
    code, out, err = golfsim_("check", "half_dies", bad, "--json")
    fine, wrong = json.loads(out)
    assert (code, err) == (2, "")
    assert fine == {"file": "half_dies", "fine": True, "points": 1, "notes": []}
    assert (wrong["file"], wrong["fine"], wrong["help"]) == (str(bad), False, "scenarios")
    assert ["cycels: unknown key" in text or "seed: expected" in text for text in wrong["problems"]] == [True, True]


def test_lists_are_for_programs_too(golfsim_):
    topics = json.loads(golfsim_("list", "--json")[1])
    assert [topic["name"] for topic in topics] == [*catalogue.TOPICS, "metrics"]
    (error,) = json.loads(golfsim_("list", "metrics", "error.mean", "--json")[1])
    assert (error["name"], error["layer"], error["better"]) == ("error", "learning layers", "down")
    (newscast,) = json.loads(golfsim_("list", "protocols", "newscast", "--json")[1])
    assert next(setting for setting in newscast["settings"] if setting["name"] == "view")["required"] is True
    names = [entry["name"] for entry in json.loads(golfsim_("list", "scenarios", "--json")[1])]
    assert names == sorted(file.stem for file in SHIPPED.rglob("*.toml"))


def test_a_description_is_for_programs_too(golfsim_, learning, tmp_path):
    code, out, _ = golfsim_("describe", learning, "--json", "--out", tmp_path / "r")
    found = json.loads(out)
    assert code == 0
    assert (found["nodes"], sum(found["records"]), len(found["online"])) == (40, 80, 4)
    assert not (tmp_path / "r").exists()


def test_a_dry_run_is_for_programs_too(golfsim_, averaging, tmp_path):
    words = ["run", averaging, "--out", tmp_path / "r", "--json"]
    code, out, _ = golfsim_(*words, "--dry-run", "--set", "runs=2")
    found = json.loads(out)
    assert (code, found["runs"], found["there"]) == (0, 2, 0)
    assert found["points"] == [{"values": {}, "seeds": [1, 2], "there": 0}]
    assert found["cost"]["seconds"] > 0
    code, _, err = golfsim_(*words)
    assert (code, err.splitlines()[0]) == (2, "golfsim: --json requires --dry-run")


def test_the_manual_is_at_hand(golfsim_):
    code, out, _ = golfsim_("help")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(
        {page.stem for page in DOCS.glob("*.md")} | {"scenarios", "metrics"}
    )
    assert "| `learner` |" in golfsim_("help", "scenarios")[1], "generated, also where no page was built"
    assert "| `error.*` |" in golfsim_("help", "metrics")[1]
    assert golfsim_("help", "safety")[1] == (DOCS / "safety.md").read_text(encoding="utf-8")
    assert json.loads(golfsim_("help", "privacy", "--json")[1])["page"] == "privacy"
    code, _, err = golfsim_("help", "privaci")
    assert (code, err) == (2, "golfsim: the manual has no page “privaci”\n    did you mean “privacy”?\n")


def person(*words, **environment):
    """What a person in a terminal sees of a command: all three streams are a terminal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"} | environment
    ended = process(*words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    with suppress(OSError):
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    ended.wait(timeout=60)
    return ended.returncode, seen.decode()


def test_a_page_of_the_manual_goes_through_the_pager_of_a_terminal(tmp_path):
    pager = tmp_path / "my pager"
    pager.write_text("#!/bin/sh\nprintf 'PAGED\\n'\nhead -n 30 | tail -n 3\n")
    pager.chmod(0o755)
    code, seen = person("help", "safety", PAGER=f"'{pager}'")
    assert code == 0
    assert seen.startswith("PAGED")
    assert 1 < seen.count("\n") <= 4, "the pager decides what is shown; one that stops early is no error"
    for plain in ("", "/no/such/program"):
        code, seen = person("help", "safety", PAGER=plain)
        assert (code, "Traceback" in seen) == (0, False)
        assert "PAGED" not in seen
        assert seen.count("\n") > 50
    code, seen = person("help", "safety", PAGER=f"'{pager}'", TERM="dumb")
    assert (code, "PAGED" in seen) == (0, False)


def test_a_page_that_is_not_read_in_a_terminal_has_no_pager(golfsim_, monkeypatch):
    monkeypatch.setenv("PAGER", "/no/such/program")
    assert golfsim_("help", "safety")[1] == (DOCS / "safety.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (r"\Pr[M(D) \in S] \le e^{\varepsilon} \Pr[M(D') \in S]", "Pr[M(D) ∈ S] ≤ e^ε Pr[M(D') ∈ S]"),
        (r"\frac{2}{\lambda} \left(\frac{1}{n} + \tau\right) \frac{c}{\varepsilon_A}", "2/λ (1/n + τ) c/ε_A"),
        (r"\ln\left(\frac{(m-1)p}{1-p}\right)", "ln((m−1)p/(1−p))"),
        (r"\frac{\varepsilon}{\sqrt{8d}} + \sqrt{d}\,x", "ε/√(8d) + √d x"),
        (r"(\lambda/2){\lVert w \rVert}^2 \le e^{\varepsilon/4} - 10^{-5}", "(λ/2)‖w‖² ≤ e^(ε/4) − 10⁻⁵"),
        (r"A_0^{-1} x_{t-1} n_{\min} \sum_{t \text{ uses } u} w_i", "A₀⁻¹ x_(t−1) n_min Σ_(t uses u) w_i"),
    ],
)
def test_formulas_are_readable_in_a_terminal(tex, shown):
    assert manual.unicode_of(tex) == shown


def test_a_page_has_formulas_in_unicode_and_its_code_as_it_is():
    displayed = "$$\n\\begin{aligned}\na &= b \\\\\n&= c .\n\\end{aligned}\n$$"
    page = f"With $\\varepsilon/2$ each:\n\n{displayed}\n\n`$HOME` costs $1$\n"
    shown = "With ε/2 each:\n\n```text\na = b\n= c.\n```\n\n`$HOME` costs 1\n"
    code = "\n```console\n$ golfsim list\n$ golfsim help\n```\n"
    assert manual.without_latex(page + code) == shown + code


def test_no_page_shows_latex_in_a_terminal():
    for name in manual.pages():
        text = manual.CODE.sub("", manual.text_of(name))
        assert not re.search(r"\$|\\[a-zA-Z]", text), name
    formulas = "".join(manual.CODE.sub("", page.read_text(encoding="utf-8")) for page in DOCS.glob("*.md"))
    handled = {"aligned", "begin", "binom", "end", "frac", "lVert", "left", "mathrm", "operatorname", "rVert", "right"}
    handled |= {"sqrt", "text", "tfrac", "widehat", *manual.ACCENTS}
    assert set(re.findall(r"\\([A-Za-z]+)", formulas)) <= set(manual.SYMBOLS) | handled
    assert manual.unicode_of(r"\binom{n-1}{k} \hat\mu \widehat{x x^\top}") == "C(n−1, k) μ\u0302 est(x x^T)"


def test_an_error_names_the_page_that_explains_it(golfsim_, learning, tmp_path):
    noisy = tomllib.loads(learning.read_text())
    noisy["protocol"][1] |= {"epsilon": 1.0}
    _, _, err = golfsim_("run", written(tmp_path / "noisy.toml", noisy), "--out", tmp_path / "r")
    assert "the guarantee needs at most 1" in err
    assert err.endswith("\n    more: golfsim help privacy\n")
    _, _, err = golfsim_("run", learning, "--set", "sweep.cycles=3")
    assert err.endswith("\n    more: golfsim help sweeps\n")


@pytest.mark.parametrize(
    ("path", "page"),
    [
        (("seed",), "scenarios"),
        (("sweep", "cycles"), "sweeps"),
        (("case", 0, "label"), "sweeps"),
        (("plot", "rows"), "reports"),
        (("protocol", 1, "epsilon"), "privacy"),
        (("data", "bounds"), "privacy"),
        (("protocol", 0, "use"), "protocols"),
    ],
)
def test_every_key_has_its_page(path, page):
    assert pages.page_for(path) == page


def test_no_page_is_named_that_is_not_there():
    assert manual.more("privacy") == "\n    more: golfsim help privacy"
    assert manual.more("no such page") == manual.more(None) == ""


def test_new_shows_the_written_files_and_the_next_step(golfsim_, tmp_path):
    code, out, _ = golfsim_("new", "protocol", "push_sum", "--into", tmp_path / "mine")
    assert code == 0
    assert sorted(file.name for file in (tmp_path / "mine").iterdir()) == [
        "push_sum.py", "push_sum.toml", "scenario.schema.json", "test_push_sum.py",
    ]  # fmt: skip
    written_, test, following = out.splitlines()
    assert written_.startswith(f"written: {tmp_path}/mine/push_sum.py, ")
    assert test == f"test it: pytest {tmp_path}/mine/test_push_sum.py"
    assert following.startswith(f"next: golfsim run {tmp_path}/mine/push_sum.toml")
    assert golfsim_("new", "scenario", "study", "--into", tmp_path / "mine")[0] == 0
    code, _, err = golfsim_("new", "protocol", "push_sum", "--into", tmp_path / "mine")
    assert (code, "already exists" in err) == (2, True)


def test_check_reports_each_file_and_fails_if_one_is_wrong(golfsim_, learning, tmp_path):
    bad = written(tmp_path / "bad.toml", tomllib.loads(learning.read_text()) | {"cycels": 3})
    code, out, err = golfsim_("check", learning, bad, tmp_path / "none.toml", tmp_path)
    assert (code, out) == (2, f"{learning}: fine\n")
    assert [line.split(": ")[0] for line in err.splitlines() if line[0] != " "] == [
        f"{bad}:{bad.read_text().splitlines().index('cycels = 3') + 1}", str(tmp_path / "none.toml"), str(tmp_path),
    ]  # fmt: skip
    assert golfsim_("check", learning)[0] == 0


TABLE = "age,job,class\n" + "".join(f"{n},{n % 3},{n % 2}\n" for n in range(40))
DATA_PROBLEMS = {
    "the label column is missing": (TABLE, {"label": "klass"}, "data.label: there is no column “klass”"),
    "a value is missing": (TABLE.replace("7,1,1", "7,,1"), {"label": "class"}, "“job” has no value in record 8"),
    "no test records": (TABLE, {"label": "class", "test": 40}, "data.test"),
    "too few records": (TABLE, {"label": "class", "train": 999}, "data.train"),
}


@pytest.mark.parametrize("problem", DATA_PROBLEMS)
def test_check_looks_into_data_files(golfsim_, tmp_path, problem):
    table, settings, message = DATA_PROBLEMS[problem]
    own = {"name": "own", "seed": 1, "cycles": 3, "nodes": {"records": 1}, "protocol": [PEERS]}
    own["data"] = {"file": "table.csv", "scale": [], "test": 0.2} | settings
    (tmp_path / "table.csv").write_text(table)
    code, _, err = golfsim_("check", written(tmp_path / "s.toml", own))
    assert code == 2
    assert message in err
    assert golfsim_("check", "--no-data", tmp_path / "s.toml")[0] == 0


def test_check_says_which_code_it_loads_and_which_set_is_not_here(golfsim_, tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "empty"))
    (tmp_path / "mine.py").write_text(
        "from golfsim.protocol import LayerConfig, Protocol\nclass Mine(Protocol[LayerConfig]):\n    pass\n"
    )
    own = {"name": "own", "seed": 1, "cycles": 3, "nodes": {"records": 1}, "data": {"set": "mnist"}}
    own["protocol"] = [{"name": "mine", "use": "mine.py:Mine"}]
    code, out, err = golfsim_("check", written(tmp_path / "s.toml", own))
    assert code == 0
    assert f"this scenario runs code from {tmp_path / 'mine.py'}" in err
    assert "“mnist” has not been fetched, so its records were not checked" in out


def test_check_runs_nothing(golfsim_, learning, monkeypatch):
    monkeypatch.setattr(Simulation, "__init__", None)
    assert golfsim_("check", learning)[0] == 0


def test_schema_is_printed_as_json(golfsim_):
    code, out, _ = golfsim_("schema")
    assert code == 0
    assert "lambda" in json.loads(out)["$defs"]["protocol.golf"]["properties"]


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("topic", ["protocols", "datasets", "learners", "churn", "splits", "settings", "metrics"])
def test_lists_fit_the_terminal(golfsim_, monkeypatch, topic, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = golfsim_("list", topic)
    assert code == 0
    assert out.count("\n") >= 1
    assert max(map(len, out.splitlines())) <= columns


def test_a_list_shows_type_default_and_meaning(golfsim_, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = golfsim_("list", "protocols", "newscast")
    assert "view      integer from 1 to 1000, required     the number of descriptors that a node keeps" in out
    assert 'liveness  "oracle" | "none", default "oracle"  if a chosen peer is offline' in out
    assert "golf" not in out


def test_list_without_arguments_shows_the_topics(golfsim_):
    code, out, _ = golfsim_("list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:3] == ["protocols", "datasets", "learners"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "protocol"], "unknown topic “protocol”\n    did you mean “protocols”?"),
        (["list", "metrics", "eror"], "“eror” is not among the metrics\n    did you mean “error”?"),
        (["list", "protocols", "newcast"], "“newcast” is not among the protocols\n    did you mean “newscast”?"),
        (["data", "fetch", "mnst"], "there is no data set “mnst”\n    did you mean “mnist”?"),
        (["data", "fetch", "spambase"], "“spambase” is bundled: nothing to fetch"),
    ],
)
def test_a_wrong_name_is_reported_with_the_nearest_one(golfsim_, words, message):
    code, _, err = golfsim_(*words)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    "words",
    [["rnu"], ["run"], ["run", "x.toml", "--thread", 2], ["run", "x.toml", "--threads", 0], ["check"], ["data"]],
)
def test_a_wrong_command_line_is_refused(golfsim_, words):
    code, out, err = golfsim_(*words)
    assert code == 2
    assert "Usage: golfsim" in out + err


def test_version_and_help(golfsim_):
    assert golfsim_("--version") == (0, f"golfsim {golfsim.__version__}\n", "")
    code, out, _ = golfsim_("--help")
    assert code == 0
    assert all(word in out for word in ("run", "check", "schema", "list", "data", "bench"))


EVERY_HELP = [
    [], ["run"], ["check"], ["compare"], ["status"], ["report"], ["audit"], ["data"], ["data", "fetch"],
    ["new", "protocol"], ["export", "mlflow"],
]  # fmt: skip


@pytest.mark.parametrize("words", EVERY_HELP, ids=" ".join)
def test_the_help_of_a_flag_has_no_type(golfsim_, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = golfsim_(*words, "--help")
    assert code == 0
    assert "bool" not in out.lower()
    assert "Show this message and exit." in out


def test_no_command_shows_types_of_flags():
    groups = (app.app, *(group.typer_instance for group in app.app.registered_groups))
    commands = [command for group in groups for command in group.registered_commands]
    assert len(commands) > 15
    assert {command.cls for command in commands} == {flags.Command}


# the real process


def test_a_bad_scenario_ends_a_process_with_status_2_and_a_message(tmp_path):
    file = written(tmp_path / "s.toml", {"name": "a", "seed": "x", "cycles": 1, "nodes": {"number": 3}})
    ended = process("run", file)
    out, err = ended.communicate(timeout=60)
    assert (ended.returncode, out) == (2, "")
    assert err.startswith(f'{file}:2: seed: expected an integer; got "x"\n    seed of the first run')
    assert "Traceback" not in err


def test_a_reader_who_stops_early_sees_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    ended = process("schema", stdout=writer)
    os.close(writer)
    _, err = ended.communicate(timeout=60)
    assert ended.returncode != 0
    assert "Traceback" not in err


def begun(file, out):
    """A long run as a process, once it has begun to listen to Ctrl-C."""
    ended = process("run", file, "--out", out, "--set", "cycles=2_000_000", "--checkpoint-every", 0)
    limit = time.monotonic() + 60
    while not list(out.glob("*/checkpoint-*")) and ended.poll() is None and time.monotonic() < limit:
        time.sleep(0.02)
    return ended


def test_ctrl_c_leaves_a_valid_log_up_to_that_cycle(averaging, tmp_path):
    ended = begun(averaging, tmp_path / "r")
    ended.send_signal(signal.SIGINT)
    _, err = ended.communicate(timeout=60)
    assert ended.returncode == 130
    assert "Traceback" not in err
    assert err.endswith(f"interrupted; complete runs are in {tmp_path / 'r'}; the same command resumes the others\n")
    facts = about(tmp_path / "r")
    assert facts["status"] == "interrupted"
    cycles = facts["cycles"]
    assert 1 <= cycles < 2_000_000
    straight = golfsim.run(Scenario.load(averaging, {"cycles": cycles}))
    with pytest.raises(UserError, match="no run is complete yet"):
        load(tmp_path / "r")
    so_far = load(tmp_path / "r", unfinished=True)
    pd.testing.assert_frame_equal(so_far, straight.assign(path=so_far["path"]), check_categorical=False)


def test_the_runs_after_an_interrupted_one_do_not_begin(averaging, tmp_path):
    interrupt = Interrupt()

    class Impatient(progress.Progress):
        def cycle(self, task, cycle, error):
            if task.run == 2 and cycle == 3:
                interrupt(signal.SIGINT, None)

    scenario = Scenario.load(averaging, {"runs": 4})
    made = batch.run(scenario, tmp_path / "r", batch.Execution(), Impatient(), interrupt)
    assert [(outcome.status, outcome.cycle) for _, outcome in made.outcomes.values()] == [
        ("finished", 5),
        ("interrupted", 3),
    ]
    assert [about(tmp_path / "r", run)["status"] for run in (1, 2)] == ["finished", "interrupted"]
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


# progress


def on_a_terminal(command, words):
    """What a command writes when its standard error is a terminal."""
    ours, theirs = pty.openpty()
    ended = command(*words, stderr=theirs, env=os.environ | {"TERM": "xterm", "COLUMNS": "100"})
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    ended.communicate(timeout=60)
    return ended.returncode, seen.decode()


def test_a_terminal_shows_a_live_bar(learning, tmp_path):
    code, seen = on_a_terminal(process, ["run", learning, "--out", tmp_path / "r", "--set", "cycles=30"])
    assert code == 0
    assert "━" in seen
    last = seen[seen.rindex("run 1/1") :]
    assert "30/30" in last
    assert "cycles/s" in last
    assert "error 0." in last


def test_lines_are_plain_elsewhere(golfsim_, learning, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    _, _, err = golfsim_("run", learning, "--out", tmp_path / "r")
    lines = err.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("run 1/1  cycle 1/4  error ")
    assert lines[1].startswith("run 1/1  cycle 2/4  ")
    assert [word in lines[1] for word in (" cycles/s  ", " left  error 0.")] == [True, True]
    assert "left" not in lines[-1]
    assert "\x1b" not in err


def test_lines_come_no_more_often_than_they_should(golfsim_, learning, tmp_path):
    _, _, err = golfsim_("run", learning, "--out", tmp_path / "r", "--set", "cycles=50")
    assert len(err.splitlines()) < 5


def test_the_clock_leaves_out_the_first_cycle(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = progress.Clock()
    assert clock.words(0, 101) == ("", "")
    now[0] = 30.0
    clock.tick(1)
    assert clock.words(1, 101) == ("", "")
    now[0] = 32.0
    clock.tick(5)
    assert clock.words(5, 51) == ("2 cycles/s", "0:00:23 left")
    now[0] = 31.0
    assert clock.words(41, 101) == ("40 cycles/s", "0:00:02 left")


def test_the_time_left_is_not_shown_before_it_means_something(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = progress.Clock()
    clock.tick(1)
    now[0] = 2.0
    assert clock.words(5, 101) == ("2 cycles/s", ""), "less than a twentieth"
    assert clock.words(7, 101)[1] == "0:00:31 left"
    now[0] = 31.0
    assert clock.words(5, 1001) == ("0.13 cycles/s", "2:08:39 left"), "half a minute is enough"


def test_the_error_shown_is_that_of_the_first_learning_layer():
    metrics = {"world": {"online": 1.0}, "a": {"error.mean": 0.25}, "b": {"error.mean": 0.5}}
    assert progress.last_error(SimpleNamespace(latest=metrics)) == "error 0.2500"
    assert progress.last_error(SimpleNamespace(latest={})) == ""


def test_without_a_terminal_downloads_are_shown_in_one_line_per_file(capsys):
    with progress.downloading() as told:
        for so_far in (0, 10, 20):
            told("a.gz", so_far, 2_500_000)
        told("b.gz", 0, None)
    assert capsys.readouterr().err == "downloading a.gz (2.5 MB)\ndownloading b.gz\n"


def test_a_users_error_shows_key_and_hint():
    assert str(UserError("bad", key="a.b", hint="do this")) == "a.b: bad\n    do this"
    assert str(UserError("bad")) == "bad"


def test_an_unknown_benchmark_is_reported(golfsim_):
    code, _, err = golfsim_("bench", "protokols")
    assert (code, err.splitlines()[:2]) == (
        2, ["golfsim: unknown section “protokols”", "    did you mean “protocols”?"],
    )  # fmt: skip


@pytest.mark.parametrize("words", [["check"], ["run"], ["describe"], ["audit"]])
@pytest.mark.parametrize("file", [".", "/", ""])
def test_a_folder_is_no_scenario(golfsim_, words, file):
    code, _, err = golfsim_(*words, file)
    assert (code, "this is a folder, not a file" in err) == (2, True)


def test_a_pipe_or_a_device_is_refused_and_not_read_for_ever(golfsim_, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    for file in (tmp_path / "pipe.toml", "/dev/zero"):
        code, _, err = golfsim_("check", file)
        assert (code, "this is a pipe or a device, not a file" in err) == (2, True)


def a_process(*words, **how):
    return subprocess.run([sys.executable, "-m", "golfsim", *words], stderr=subprocess.PIPE, text=True, **how)


def test_an_output_without_unicode_gets_replacements():
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = a_process("list", "protocols", stdout=subprocess.PIPE, env=plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_in_one_line():
    with open("/dev/full", "w") as full:
        done = a_process("list", "protocols", stdout=full)
    assert (done.returncode, done.stderr) == (2, "golfsim: cannot write: No space left on device\n")


def test_the_figure_of_a_variant_does_not_overwrite_that_of_the_file(learning, golfsim_, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    variants = [[], ["--set", "cycles=3"], ["--set", "name=a/b"], ["--set", "name=a?b"], ["--set", f"name={'x' * 300}"]]
    for number, options in enumerate(variants, 1):
        assert golfsim_("run", learning, "--workers", 1, *options)[0] == 0
        pictures = sorted(path.name for path in (tmp_path / "results/small").glob("*.png"))
        assert len(pictures) == number
    assert {"convergence.png", "convergence,cycles=3.png"} <= set(pictures)
