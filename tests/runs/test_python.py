"""golfsim as a package: its names, the progress of runs in a terminal and in a notebook, results of several folders."""

import html
import os
import pty
import subprocess
import sys

import pytest
from helpers import apart, learning_tree

import golfsim
from golfsim.core.errors import UserError
from golfsim.privacy.mechanisms import Guarantee
from golfsim.runs import results
from golfsim.scenario.model import Scenario

PEERS = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
SMALL = learning_tree(PEERS, GOLF, cycles=3)


def python(code, **how):
    """Run code in a separate process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **how)


def test_dir_lists_the_api_before_anything_is_imported():
    listed = set(python("import golfsim; print(*dir(golfsim))").stdout.split())
    assert listed == set(golfsim.__all__)
    assert {"Scenario", "Simulation", "GossipClassifier", "run", "load", "plot"} <= listed
    for name in listed:
        assert getattr(golfsim, name) is not None


RUN = f"""
import golfsim
golfsim.run(golfsim.Scenario.of({SMALL!r}), progress=PROGRESS)
"""


@apart
@pytest.mark.parametrize("progress", [True, False])
def test_a_call_from_python_shows_a_bar_in_a_terminal_and_nothing_elsewhere(progress):
    code = RUN.replace("PROGRESS", str(progress))
    done = python(code)
    assert (done.stdout, done.stderr) == ("", "")
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=env, check=True)
    os.write(theirs, b"end")
    seen = os.read(ours, 65536).decode()
    assert ("cycle 3/3" in seen) == progress
    assert (seen == "end") != progress


@pytest.mark.slow
def test_a_notebook_shows_one_display_that_is_updated(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    again = "golfsim.run(golfsim.Scenario.of({!r}), progress={});"
    several = SMALL | {"runs": 3, "name": "<b>three</b>"}
    cells = ["import golfsim", again.format(SMALL, True), again.format(several, True), again.format(SMALL, False)]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute(cwd=str(tmp_path))
    displays = [[out for out in cell.outputs if out.output_type == "display_data"] for cell in book.cells]
    assert [len(found) for found in displays] == [0, 1, 1, 0]
    one, three = displays[1][0].data, displays[2][0].data
    assert one["text/plain"].startswith("run 1/1  cycle 3/3")
    assert one["text/html"].startswith('<progress value="3" max="3"></progress> run 1/1  cycle 3/3')
    assert three["text/plain"].startswith("3/3 runs")
    assert '<progress value="3" max="3">' in three["text/html"]
    errors = [out for cell in book.cells for out in cell.outputs if out.output_type == "error"]
    assert errors == []


def test_rows_of_several_folders_name_their_folder(tmp_path):
    golfsim.run(Scenario.of(SMALL), tmp_path / "a")
    golfsim.run(Scenario.of(SMALL | {"sweep": {"peers.view": [3, 4]}}), tmp_path / "b")
    both = golfsim.load(tmp_path / "a", tmp_path / "b")
    assert both.groupby("results", observed=True)["peers.view"].unique().map(sorted).to_dict() == {
        "a": [5], "b": [3, 4],
    }  # fmt: skip
    assert len(both) == len(golfsim.load(tmp_path / "a")) + len(golfsim.load(tmp_path / "b"))
    assert both.equals(results.find([tmp_path / "a", tmp_path / "b"]).frame)
    assert "results" not in golfsim.load(tmp_path / "a")
    with pytest.raises(UserError, match="a folder is given twice"):
        golfsim.load(tmp_path / "a", tmp_path / "a")


def test_folders_of_the_same_name_are_told_apart_by_their_paths(tmp_path):
    for folder in ("x/same", "y/same"):
        golfsim.run(Scenario.of(SMALL), tmp_path / folder)
    both = golfsim.load(tmp_path / "x/same", tmp_path / "y/same")
    assert set(both["results"]) == {str(tmp_path / "x/same"), str(tmp_path / "y/same")}


HOSTILE = "<script>alert(1)</script> & “co”"


def test_objects_have_a_short_text_and_an_escaped_table():
    scenario = Scenario.of(SMALL | {"name": HOSTILE, "sweep": {"peers.view": [3, 4]}})
    simulation = golfsim.Simulation(Scenario.of(SMALL | {"name": HOSTILE}))
    guarantee = Guarantee(None, "node", HOSTILE)
    for shown in (scenario, simulation, guarantee):
        assert len(repr(shown)) < 200
        assert HOSTILE in repr(shown)
        assert "<script>" not in shown._repr_html_()
        assert html.escape(HOSTILE) in shown._repr_html_()


def test_the_text_of_a_scenario_states_runs_data_layers_and_sweep():
    keys = {"runs": 3, "sweep": {"zip": [{"peers.view": [3, 4], "seed": [1, 2]}], "cycles": [2, 5]}}
    scenario = Scenario.of(SMALL | keys)
    layers = "peers (newscast) → learning (golf)"
    assert repr(scenario) == (
        f"<Scenario “a test”: 3 runs of 3 cycles, seed 1, random, {layers}, sweep of peers.view, seed, cycles>"
    )
    assert str(scenario) == repr(scenario)
    cases = Scenario.of(SMALL | {"case": [{"label": "a"}, {"label": "b", "cycles": 2}]})
    assert repr(cases) == f"<Scenario “a test”: 1 run of 3 cycles, seed 1, random, {layers}, 2 cases>"


def test_the_text_of_a_simulation_follows_its_cycles():
    simulation = golfsim.Simulation(Scenario.of(SMALL))
    layers = "peers (newscast) → learning (golf)"
    assert repr(simulation) == (f"<Simulation of “a test”: run 1 with seed 1, cycle 0 of 3, 40 nodes, {layers}>")
    for _ in simulation:
        pass
    assert "cycle 3 of 3, finished, 40 of 40 nodes online" in repr(simulation)
    assert f"{simulation.latest['learning']['error.mean']:.4f}" in simulation._repr_html_()


def test_a_guarantee_is_shown_as_it_is_stated():
    assert repr(Guarantee(2.0)) == "<Guarantee: ε = 2 per record, proven>"
    assert repr(Guarantee(None)) == "<Guarantee: not private>"
    assert '<td style="text-align:left">2</td>' in Guarantee(2.0)._repr_html_()
    for none in (Guarantee(None), Guarantee(float("inf")), Guarantee(2.0, note="stays", released=False)):
        assert "none proven" in none._repr_html_()


def test_compare_is_a_function_of_the_package_whatever_was_imported_before():
    code = "import golfsim.comparing.verdict, golfsim.comparing.comparison as c; print(golfsim.compare is c.compare)"
    assert python(code).stdout == "True\n"
    assert python("import golfsim; print(callable(golfsim.compare))").stdout == "True\n"


def test_two_folders_are_compared_from_python(tmp_path):
    for name, view in (("a", 5), ("b", 10)):
        golfsim.run(Scenario.of(SMALL | {"runs": 3, "protocol": [PEERS | {"view": view}, GOLF]}), tmp_path / name)
    found = golfsim.compare(golfsim.load(tmp_path / "a", tmp_path / "b"), by="results")
    assert set(found.strategies) == {"a", "b"}
