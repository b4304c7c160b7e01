"""Packs: what is in them, what never is, what is refused, and whether they give the same rows again."""

import json
import re
import shlex
import shutil
import zipfile
from functools import partial
from importlib import metadata

import numpy as np
import pytest
import tomlkit
from helpers import AVERAGING, HERE, command, learning_tree, tree

import golfsim
from golfsim.core.files import checksum
from golfsim.core.provenance import ROOTS
from golfsim.runs import same
from golfsim.scenario.model import Scenario

UNIFORM = {"name": "peers", "use": "uniform"}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "records": "raw", "epsilon": 5.0}
PRIVATE = learning_tree(
    UNIFORM,
    PUBLISHED,
    GOLF | {"records": "published"},
    number=20,
    cycles=3,
    runs=2,
    sweep={"published.epsilon": [1.0, 10.0]},
    data={"set": "random", "train": 40, "test": 30, "scale": ["minmax", "l1"]},
)
ALWAYS = {
    "README.md", "LICENSE", "CITATION.cff", "ro-crate-metadata.json", "requirements.lock", "report.html",
    "results/index.sqlite", "results/convergence.png", "results/convergence.svg", "results/convergence.pdf",
}  # fmt: skip
OF_A_RUN = ("log.parquet", "run.json", "scenario.toml", "spent.parquet")


@pytest.fixture
def golfsim_(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in an empty folder: (exit status, output, errors)."""
    monkeypatch.chdir(tmp_path)
    return partial(command, capsys, monkeypatch)


def written(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomlkit.dumps(table), encoding="utf-8")
    return path


@pytest.fixture
def private(golfsim_, tmp_path):
    """The results of a small sweep."""
    written(tmp_path / "private.toml", PRIVATE)
    assert golfsim_("run", "private.toml", "--workers", 1)[0] == 0
    return tmp_path / "results/private"


@pytest.fixture
def own(golfsim_, tmp_path):
    """The results of a scenario with its own protocol and with a trace in another folder, and data."""
    written(
        tmp_path / "study/own.toml",
        tree(UNIFORM, AVERAGING | {"use": "averaging.py:Averaging"}, nodes=3, cycles=4)
        | {"churn": {"kind": "trace", "file": "../traces/three_nodes.csv"}, "plot": {"kind": "none"}},
    )
    shutil.copy(HERE / "user_protocols/averaging.py", tmp_path / "study")
    shutil.copytree(HERE / "traces", tmp_path / "traces")
    assert golfsim_("run", "study/own.toml")[0] == 0
    return tmp_path / "results/own"


def unpacked(file, folder):
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
        return set(archive.namelist())


def commands(folder):
    """The commands of a README."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.search(r"```sh\n(.*?)\n```", text, re.DOTALL)[1].splitlines()]


def follow(folder, golfsim_, monkeypatch):
    """Run those commands of a README that are golfsim's; return the outcome of the last one."""
    monkeypatch.chdir(folder)
    ours = [words[1:] for words in commands(folder) if words[0] == "golfsim"]
    outcomes = [golfsim_(*words) for words in ours]
    assert [code for code, _, _ in outcomes[:-1]] == [0] * (len(ours) - 1)
    return outcomes[-1]


# Repetition


def test_the_commands_of_the_readme_give_the_same_rows(golfsim_, private, tmp_path, monkeypatch):
    assert golfsim_("pack", private)[:2] == (0, "27 files in private.zip\n")
    unpacked("private.zip", tmp_path / "new")
    shutil.rmtree(private)
    (tmp_path / "private.toml").unlink()
    assert follow(tmp_path / "new", golfsim_, monkeypatch)[:2] == (0, "results and again: the same rows in 4 runs\n")
    first, *_ = commands(tmp_path / "new")
    assert first == ["python3", "-m", "venv", "venv"]


def test_own_code_and_traces_are_packed_where_the_scenario_finds_them(golfsim_, own, tmp_path, monkeypatch):
    assert golfsim_("pack", own, "--scenario", "study/own.toml")[0] == 0
    names = unpacked("own.zip", tmp_path / "new")
    assert {name for name in names if name.startswith("scenario/")} == {
        "scenario/study/own.toml", "scenario/study/averaging.py", "scenario/traces/three_nodes.csv",
    }  # fmt: skip
    for folder in ("study", "traces", "results"):
        shutil.rmtree(tmp_path / folder)
    assert follow(tmp_path / "new", golfsim_, monkeypatch)[:2] == (0, "results and again: the same rows in 1 run\n")


def test_changes_of_the_command_line_are_part_of_the_commands(golfsim_, tmp_path, monkeypatch):
    written(tmp_path / "small.toml", tree(UNIFORM, nodes=5, cycles=2) | {"plot": {"kind": "none"}})
    golfsim_("run", "small.toml", "--set", "cycles=3", "--set", "name=three cycles")
    code, _, err = golfsim_("pack", "results/small")
    assert code == 2
    assert "small.toml does not make the runs in results/small: different runs: 1 of 1" in err
    assert "repeat the --set options" in err
    assert golfsim_("pack", "results/small", "--set", "cycles=3", "--set", "name=three cycles")[0] == 0
    unpacked("small.zip", tmp_path / "new")
    changes = ["--set", "cycles=3", "--set", "name=three cycles"]
    assert ["golfsim", "run", "scenario/small.toml", "--out", "again", *changes] in commands(tmp_path / "new")
    assert follow(tmp_path / "new", golfsim_, monkeypatch)[0] == 0


def test_the_scenario_of_a_run_serves_where_there_was_no_file(golfsim_, tmp_path):
    golfsim.run(Scenario.of(tree(UNIFORM, nodes=5, cycles=2)), tmp_path / "r")
    code, _, err = golfsim_("pack", "r")
    assert code == 2
    resolved = re.search(r"--scenario (\S+)", err)[1]
    assert golfsim_("pack", "r", "--scenario", resolved)[0] == 0


def test_points_with_equal_runs_stay_several(golfsim_, tmp_path):
    cases = [{"label": "one", "name": "a"}, {"label": "two", "name": "b"}]
    written(tmp_path / "equal.toml", tree(UNIFORM, nodes=5, cycles=2) | {"plot": {"kind": "none"}, "case": cases})
    golfsim_("run", "equal.toml")
    assert len(list((tmp_path / "results/equal").rglob("run.json"))) == 1
    golfsim_("pack", "results/equal")
    unpacked("equal.zip", tmp_path / "new")
    assert same.differences(tmp_path / "results/equal", tmp_path / "new/results") == (2, [])


def test_the_same_content_gives_the_same_bytes(golfsim_, private, tmp_path):
    golfsim_("pack", private, "--out", "one.zip")
    shutil.copytree(private, tmp_path / "copy", copy_function=shutil.copy)  # other times, another order
    shutil.move(private, tmp_path / "old")
    shutil.move(tmp_path / "copy", private)
    golfsim_("pack", private, "--out", "two.zip")
    one, two = (zipfile.ZipFile(tmp_path / f"{name}.zip") for name in ("one", "two"))
    assert {name: one.read(name) for name in one.namelist()} == {name: two.read(name) for name in two.namelist()}
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


# Content


def test_a_pack_has_these_files_and_no_others(golfsim_, private, tmp_path):
    run = next(private.rglob("run-1-*"))
    for stray in (private / "notes.txt", private / "records.csv", run / "checkpoint-3.npz", run / "records.parquet"):
        stray.write_text("secret")
    golfsim_("pack", private)
    runs = {path.parent.relative_to(private) for path in private.rglob("run.json")}
    assert len(runs) == 4
    assert unpacked("private.zip", tmp_path / "new") == ALWAYS | {"scenario/private.toml"} | {
        f"results/{run}/{name}" for run in runs for name in OF_A_RUN
    }


def test_records_of_the_user_are_described_but_not_packed(golfsim_, tmp_path):
    rng = np.random.default_rng(1)
    lines = [f"{a:.3f},{b:.3f},{int(a > b)}" for a, b in rng.random((60, 2))]
    (tmp_path / "people.csv").write_text("a,b,label\n" + "\n".join(lines) + "\n")
    data = {"file": "people.csv", "test": 20, "scale": ["minmax"], "bounds": [0.0, 1.0]}
    written(tmp_path / "mine.toml", tree(UNIFORM, GOLF, nodes={"records": 2}, cycles=2, data=data))
    assert golfsim_("run", "mine.toml")[0] == 0
    assert golfsim_("pack", "results/mine")[0] == 0
    names = unpacked("mine.zip", tmp_path / "new")
    assert not [name for name in names if "people" in name]
    content = b"".join(path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file())
    assert lines[0].encode() not in content
    readme = (tmp_path / "new/README.md").read_text(encoding="utf-8")
    assert "store it as `scenario/people.csv`" in readme
    assert checksum(tmp_path / "people.csv") in readme


def test_the_readme_has_claims_needs_and_data(golfsim_, private, tmp_path):
    golfsim_("pack", private)
    unpacked("private.zip", tmp_path / "new")
    readme = (tmp_path / "new/README.md").read_text(encoding="utf-8")
    frame = golfsim.load(private)
    last = frame[(frame["metric"] == "accuracy.mean") & (frame["cycle"] == 3) & (frame["published.epsilon"] == 10)]
    (row,) = [line for line in readme.splitlines() if line.startswith("| 10 | learning |")]
    assert float(row.split("|")[5].split("±")[0]) == pytest.approx(last["value"].mean(), abs=1e-3)
    assert "ε = 10 per record, proven" in readme
    times = [json.loads(path.read_text())["times"] for path in private.rglob("run.json")]
    total = sum(one["setup_s"] + one["cycles_s"] for one in times)
    assert f"time of the runs: {total:.1f} s in total" in readme
    assert "(`random`). golfsim generates it from the seed." in readme


def test_a_bundled_set_is_named_with_its_checksum(golfsim_, tmp_path):
    data = {"set": "spambase", "train": 40, "scale": ["minmax"]}
    written(tmp_path / "spam.toml", tree(UNIFORM, GOLF, nodes={"records": 2}, cycles=1, data=data))
    golfsim_("run", "spam.toml")
    golfsim_("pack", "results/spam")
    unpacked("spam.zip", tmp_path / "new")
    readme = (tmp_path / "new/README.md").read_text(encoding="utf-8")
    assert "SHA-256 `02478f9bc30f889d1a0f92f37ee5ac48b6c88446d41ba4127251991484701036`" in readme
    assert "CC BY 4.0" in readme
    assert "CC BY 4.0" in (tmp_path / "new/LICENSE").read_text(encoding="utf-8")


def test_no_path_of_this_machine_is_packed(golfsim_, own, tmp_path):
    golfsim_("pack", own, "--scenario", tmp_path / "study/own.toml")
    unpacked("own.zip", tmp_path / "new")
    for path in (tmp_path / "new").rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes(), path
    about = json.loads(next((tmp_path / "new").rglob("run.json")).read_text())
    assert about["scenario_file"] == "scenario/study/own.toml"
    assert about["code_files"] == ["scenario/study/averaging.py"]


def test_the_lock_file_has_the_versions_in_use(golfsim_, private, tmp_path):
    golfsim_("pack", private)
    unpacked("private.zip", tmp_path / "new")
    first, *lines = (tmp_path / "new/requirements.lock").read_text().splitlines()
    assert first.startswith("# ")
    found = dict(line.split("==") for line in lines if "@" not in line)
    for name in ("numpy", "numba", "llvmlite", "scipy", "pyarrow"):
        assert found[name] == metadata.version(name)
    assert list(found) == sorted(found)
    assert not found.keys() & {"pytest", "ruff", "mypy"}


def test_the_crate_names_every_file(golfsim_, own, tmp_path):
    shutil.move(tmp_path / "study/own.toml", tmp_path / "study/own study.toml")
    words = ("--author", "Ada Lovelace", "--license", "CC-BY-4.0")
    assert golfsim_("pack", own, "--scenario", "study/own study.toml", *words)[0] == 0
    names = unpacked("own.zip", tmp_path / "new")
    graph = {one["@id"]: one for one in json.loads((tmp_path / "new/ro-crate-metadata.json").read_text())["@graph"]}
    parts = [part["@id"] for part in graph["./"]["hasPart"]]
    assert {part.replace("%20", " ") for part in parts} == names - {"ro-crate-metadata.json"}
    assert graph["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert graph["#author-1"]["name"] == "Ada Lovelace"
    assert 'name: "Ada Lovelace"' in (tmp_path / "new/CITATION.cff").read_text()
    assert graph["scenario/study/own%20study.toml"]["@type"] == "File"


def test_the_crate_is_read_by_its_own_library(golfsim_, private, tmp_path):
    rocrate = pytest.importorskip("rocrate.rocrate")
    golfsim_("pack", private)
    names = unpacked("private.zip", tmp_path / "new")
    crate = rocrate.ROCrate(tmp_path / "new")
    assert {entity.id for entity in crate.data_entities} == names - {"ro-crate-metadata.json"}
    assert crate.name == "a test"
    assert crate.mainEntity.id == "scenario/private.toml"


def test_citation_and_licence_of_the_users_repository_are_taken(golfsim_, private, tmp_path):
    (tmp_path / "CITATION.cff").write_text("title: mine\n")
    (tmp_path / "LICENSE.md").write_text("my licence\n")
    golfsim_("pack", private)
    unpacked("private.zip", tmp_path / "new")
    assert (tmp_path / "new/CITATION.cff").read_text() == "title: mine\n"
    assert (tmp_path / "new/LICENSE").read_text() == "my licence\n"


# What is refused


def refused(outcome):
    code, out, err = outcome
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    return err


def test_damaged_results_are_refused(golfsim_, private, tmp_path):
    log = next(private.rglob("log.parquet"))
    log.write_bytes(log.read_bytes()[:-1] + b"x")
    err = refused(golfsim_("pack", private))
    assert "3 complete, 1 damaged" in err
    assert "its checksum is not that in run.json" in err
    assert not (tmp_path / "private.zip").exists()


def test_a_run_without_checksums_is_refused(golfsim_, private):
    about = next(private.rglob("run.json"))
    about.write_text(json.dumps(json.loads(about.read_text()) | {"sha256": {}}))
    assert "run.json has no checksum of log.parquet" in refused(golfsim_("pack", private))


def test_incomplete_results_are_refused(golfsim_, private):
    shutil.rmtree(next(private.rglob("run-2-*")))
    assert "3 complete, 1 missing" in refused(golfsim_("pack", private))


def test_a_changed_scenario_is_refused(golfsim_, private, tmp_path):
    written(tmp_path / "private.toml", PRIVATE | {"cycles": 4})
    assert "does not make the runs in" in refused(golfsim_("pack", private))


def test_other_versions_are_refused(golfsim_, private):
    about = next(private.rglob("run.json"))
    known = json.loads(about.read_text())
    about.write_text(json.dumps(known | {"versions": known["versions"] | {"numpy": "1.0"}}))
    assert "a run was made with numpy 1.0, but" in refused(golfsim_("pack", private))


def test_code_is_executed_only_if_the_user_names_the_scenario(golfsim_, own, tmp_path):
    file = tmp_path / "study/averaging.py"
    file.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n" + file.read_text())
    assert "loading them executes them" in refused(golfsim_("pack", own))
    assert not (tmp_path / "executed").exists()


def test_an_absolute_path_is_refused(golfsim_, tmp_path):
    churn = {"kind": "trace", "file": str(HERE / "traces/three_nodes.csv")}
    written(tmp_path / "far.toml", tree(UNIFORM, nodes=3, cycles=2) | {"churn": churn, "plot": {"kind": "none"}})
    assert golfsim_("run", "far.toml")[0] == 0
    assert "an absolute path that does not exist on other machines" in refused(golfsim_("pack", "results/far"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--license", "my own"], "expected an SPDX identifier"),
        (["--wheel", "private.toml"], "expected a wheel of golfsim"),
        (["--scenario", "nothing.toml"], "No such file"),
        (["--out", "no/such/folder/x.zip"], "cannot write to no/such/folder/x.zip"),
    ],
)
def test_a_wrong_option_is_refused(golfsim_, private, words, message):
    assert message in refused(golfsim_("pack", private, *words))


def test_a_folder_of_several_results_is_refused(golfsim_, private, tmp_path):
    shutil.copytree(private, tmp_path / "results/other")
    assert "is not one folder of results" in refused(golfsim_("pack", "results"))
    assert "no golfsim results here" in refused(golfsim_("pack", next(private.rglob("run-1-*"))))


# The comparison of rows


def test_the_first_row_that_differs_is_shown(golfsim_, private, tmp_path):
    written(tmp_path / "lossy.toml", PRIVATE | {"transport": {"loss": 0.5}})
    golfsim_("run", "lossy.toml")
    code, out, _ = golfsim_("status", private, "--same", "results/lossy")
    assert code == 1
    assert f"{private} and results/lossy differ:\n  published.epsilon = 1.0, run = 1, seed = 1: log, row " in out
    found = json.loads(golfsim_("status", private, "--same", "results/lossy", "--json")[1])
    assert found["runs"] == 4
    assert len(found["differences"]) == 4


def test_runs_that_only_one_folder_has_are_named(golfsim_, private, tmp_path):
    written(tmp_path / "fewer.toml", PRIVATE | {"runs": 1})
    golfsim_("run", "fewer.toml")
    code, out, _ = golfsim_("status", private, "--same", "results/fewer")
    assert code == 1
    assert out.splitlines()[1:] == [
        f"  only in {private}: published.epsilon = {epsilon}, run = 2, seed = 2" for epsilon in (1.0, 10.0)
    ]


def test_rows_of_nodes_and_links_are_compared_too(golfsim_, tmp_path):
    base = PRIVATE | {"observe": {"every": 1, "nodes": 10, "follow": 5}}
    written(tmp_path / "a.toml", base)
    golfsim_("run", "a.toml")
    written(tmp_path / "b.toml", base | {"observe": base["observe"] | {"follow": 4}})
    golfsim_("run", "b.toml")
    assert "nodes: " in golfsim_("status", "results/a", "--same", "results/b")[1]


def wheel_of(path, change=b""):
    """A wheel with the sources of golfsim, which were perhaps changed."""
    with zipfile.ZipFile(path, "w") as archive:
        for root in ROOTS:
            for file in root.rglob("*.py"):
                archive.writestr(str(file.relative_to(root.parent)), file.read_bytes() + change)
    return path


def test_a_wheel_of_these_sources_is_packed_and_no_other(golfsim_, private, tmp_path):
    good = wheel_of(tmp_path / f"golfsim-{golfsim.__version__}-py3-none-any.whl")
    assert golfsim_("pack", private, "--wheel", good)[0] == 0
    assert f"wheels/{good.name}" in unpacked("private.zip", tmp_path / "new")
    assert ["pip", "install", "--find-links", "wheels", "-r", "requirements.lock"] in commands(tmp_path / "new")
    assert "its sources differ" in refused(golfsim_("pack", private, "--wheel", wheel_of(good, b"\n# other\n")))
