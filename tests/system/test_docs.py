"""What the pages show is so: files are written, commands run in order, and what they print is what the page says.

In a page, a block whose first line is a comment with a file's name is that file (“# more of NAME”: it is appended). A
`console` block has commands after “$ ” and what they print; “…” stands for anything. A `python` block is run, one that
begins with “# not run here” is only compiled. A `pycon` block has statements after “>>> ” and what they print. A `toml`
block is a scenario if it has `cycles`, else a part of one.
"""

import contextlib
import doctest
import io
import json
import math
import os
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from helpers import needs_jit

from golfsim.cli.app import app
from golfsim.scenario.model import Scenario

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (more of )?([\w-]+\.(?:py|toml|csv|txt))\n")
NUMBER = r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def pages_with(*languages):
    found = [page for page in PAGES if any(language in languages for language, _ in blocks(page))]
    return pytest.mark.parametrize("page", found, ids=lambda page: page.name)


def commands(block):
    """Each command with what the page says that it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def words_of(text):
    """Words and numbers without what a table draws around them: the width of a column depends on its numbers."""
    return " ".join(re.sub("[━┃│╇┼─]", " ", text).split())


def pattern(shown):
    """A pattern for printed text: any number for a number, any space for a space, anything for “…”."""
    wild = {"…": ".*?"}
    parts = re.split(rf"({NUMBER}|\s+|…)", shown)
    return "".join(
        f"({NUMBER})"
        if re.fullmatch(NUMBER, part)
        else r"\s+"
        if part.isspace()
        else wild.get(part[:1], re.escape(part))
        for part in parts
    )


def alike(shown, printed):
    """Whether a page tells what was printed; numbers may differ by 5 % or 0.01, since architectures do."""
    shown, printed = words_of(shown), words_of(printed)
    found = re.fullmatch(pattern(shown), printed, re.DOTALL)
    numbers = re.findall(NUMBER, shown)
    return found is not None and all(
        math.isclose(float(ours), float(theirs), rel_tol=0.05, abs_tol=0.01)
        for ours, theirs in zip(numbers, found.groups(), strict=True)
    )


def shell(command, folder):
    here = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80", "MPLBACKEND": "Agg"}
    return subprocess.run(command, shell=True, cwd=folder, env=os.environ | here, capture_output=True, text=True)


def run(command, printed, folder):
    """A command that fails must print its complaint, as the page says."""
    done = shell(command, folder)
    out = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    assert alike(printed, out), f"$ {command}\n{out}{done.stderr}"
    assert done.returncode == 0 or printed.strip()


def write(block, folder):
    """Write a block that names its file; whether it does."""
    named = FILE.match(block)
    if named:
        with (folder / named[2]).open("a" if named[1] else "w", encoding="utf-8") as file:
            file.write(block)
    return named is not None


def talk(block, names):
    """Run the statements of a `pycon` block one after the other; each must print what the page says."""
    for example in doctest.DocTestParser().get_examples(block):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, "a block of the page", "single"), names)
        assert alike(example.want, printed.getvalue()), f">>> {example.source}{printed.getvalue()}"


def perform(language, block, folder, names):
    if write(block, folder):
        return
    if language == "console":
        for command, printed in commands(block):
            run(command, printed, folder)
    elif language == "pycon":
        talk(block, names)
    elif language in ("python", "{code-cell}"):
        code = compile(block, "a block of the page", "exec")
        if not block.startswith("# not run here"):
            exec(code, names)


@needs_jit
@pytest.mark.slow
@pages_with("console", "python", "pycon", "{code-cell}")
def test_the_examples_of_a_page_do_what_it_says(page, tmp_path, monkeypatch):
    found = blocks(page)
    assert found
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    names = {"__name__": "a page"}
    for language, block in found:
        perform(language, block, tmp_path, names)


@pages_with("toml")
def test_scenarios_of_a_page_are_fine(page, tmp_path):
    for language, block in blocks(page):
        write(block, tmp_path)
        if language == "toml":
            tree = tomllib.loads(block)
            assert tree
            if "cycles" in tree:
                Scenario.of(tree, tmp_path)


def test_the_scenario_behind_the_first_picture_is_fine():
    assert Scenario.load(ROOT / "docs" / "images" / "result.toml").runs == 5


def test_notebooks_are_kept_without_outputs():
    found = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))
    cells = [cell for file in found for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]
    assert len(found) == 4
    assert [cell["source"] for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


COMMANDS = typer.main.get_command(app).commands
NAMED = re.compile(r"(?:^\$ |^ {4}|`)golfsim ([a-z][\w-]*)([^`\n#]*)", re.MULTILINE)


def options_of(command):
    below = getattr(command, "commands", {}).values()
    return {option for one in (command, *below) for parameter in one.params for option in parameter.opts}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_commands_and_options_that_exist(page):
    for name, rest in NAMED.findall(page.read_text(encoding="utf-8")):
        assert name in COMMANDS, name
        assert set(re.findall(r"(?<=\s)--[\w-]+", rest)) <= options_of(COMMANDS[name]), f"{name}{rest}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("error 0.100 of 5", "error 0.101  of 5", True),
        ("error 0.100", "error 0.150", False),
        ("runs … done", "runs 3\nare done", True),
        ("a 1\nb 2", "a 1", False),
        ("cycle 30", "cycle 60", False),
        ("a ┃ b\n━━╇━━\n1 │ 2", "a  ┃ b\n━━━╇━━\n1.0│ 2", True),
    ],
)
def test_what_a_page_shows_is_compared_number_by_number(shown, printed, same):
    assert alike(shown, printed) == same


def test_the_scenario_reference_has_every_key_of_every_layer_and_table():
    from golfsim.cli import manual
    from golfsim.scenario import catalogue, reference

    page = manual.text_of("scenarios")
    entries = [entry for topic in catalogue.TOPICS.values() for entry in topic()]
    keys = {setting["name"] for entry in entries for setting in entry["settings"]}
    assert len(keys) > 100
    assert [name for name in keys if f"| `{name}` |" not in page] == []
    assert [topic for topic in catalogue.TOPICS if topic not in reference.TITLES] == []


def test_everything_on_the_api_page_has_an_example():
    import golfsim

    found = blocks(ROOT / "docs" / "api.md")
    without = [one for (language, one), (after, _) in pairwise(found) if language == "{eval-rst}" and after != "pycon"]
    assert without == []
    assert found[-1][0] == "pycon"
    examples = "".join(block for language, block in found if language == "pycon")
    names = {name for name in golfsim.__all__ if name != "__version__"} | {
        f"plot.{name}" for name in golfsim.plot.__all__
    }
    assert [name for name in sorted(names) if not re.search(rf"\bgolfsim\.{name}\b", examples)] == []


def test_the_gallery_has_the_code_of_every_figure():
    import golfsim

    code = "".join(block for language, block in blocks(ROOT / "docs" / "gallery.md") if language == "{code-cell}")
    assert [name for name in golfsim.plot.__all__ if f"golfsim.plot.{name}(" not in code] == []
