"""Pages of a reproduction for a repository: small, of one file each, and without traces of the machine."""

import getpass
import re
import shutil
import socket
from pathlib import Path

import pytest
from helpers import HERE

from golfsim.core.errors import UserError
from golfsim.report import publishing, reproduce
from golfsim.report.published import Claim, Item, sources
from golfsim.runs import batch
from golfsim.runs.interrupt import Interrupt

REPORTS = HERE.parent / "reports"
COMMITTED = sorted(REPORTS.glob("*.html"))
LOADED = re.compile(r"""(?:src|href)=["']?(?!data:|#|[a-z0-9]+\.html)[^"'\s>]+|url\((?!data:)""")
SMALL = """
name = "small"
seed = 1
cycles = 20
runs = 3
[data]
set = "spambase"
[nodes]
number = 50
records = 1
leave_out = true
[[protocol]]
use = "newscast"
name = "peers"
view = 5
[[protocol]]
use = "golf"
name = "learning"
peers = "peers"
records = "raw"
"""


@pytest.fixture(scope="module")
def repeated(tmp_path_factory):
    """Two items of a paper that were run, and one whose scenario does not exist."""
    folder = tmp_path_factory.mktemp("again")
    (folder / "small.toml").write_text(SMALL)
    check = {"kind": "between", "layer": "learning", "metric": "error", "low": 0, "high": 1}
    claims = (Claim("it learns", check),)
    file = str(folder / "small.toml")
    items = [
        Item("H17-1", "Curves", file, "H17", claims=claims, standard_error=0.001),
        Item("H17-2", "Fewer runs", file, "H17", claims=claims, changes=("runs=1",)),
        Item("H17-3", "Nothing", str(folder / "no_such_scenario.toml"), "H17", claims=claims),
    ]
    how = {"quick": False, "shown": lambda name: batch.Silent(), "interrupt": Interrupt()}
    return list(reproduce.reproduce(items, folder / "out", batch.Execution(), **how))


@pytest.fixture
def written(repeated, tmp_path):
    return publishing.publish(repeated, tmp_path / "reports", quick=False)


def blameless(page):
    """Check what every page of a repository must have and must not have."""
    assert page.stat().st_size < publishing.LARGEST
    text = page.read_text(encoding="utf-8")
    assert LOADED.findall(text) == []
    shown = re.sub(r'data:[^"]*', "", text)
    for trace in (str(Path.home()), "/tmp/", "/home/", f"{Path(__file__).parents[2]}/", socket.gethostname()):
        assert trace not in shown, trace
    for word in ("date", "versions", "code", "machine", "runs"):
        assert f"<dt>{word}</dt>" in text
    return text


@pytest.mark.needs_jit
def test_a_reproduction_is_published_as_small_pages_without_traces_of_the_machine(written):
    assert [file.name for file in written] == ["reproduction.html", "verdicts.md", "h17.html"]
    for page in written[::2]:
        text = blameless(page)
        assert re.search(r"<dd>20\d\d-\d\d-\d\d</dd>", text)
        assert re.search(r"<dd>4 runs, \d+ s in total</dd>", text)
        assert re.search(r"\b\d+ cores?, \d", text), "with memory"
        body = re.sub(r'data:[^"]*', "", text.partition("<main>")[2].partition("</main>")[0])
        assert not re.search(rf"\b{re.escape(getpass.getuser())}\b", body)


@pytest.mark.needs_jit
def test_the_page_of_a_paper_has_the_curves_of_each_scenario(written):
    text = written[2].read_text(encoding="utf-8")
    assert "István Hegedűs and Márk Jelasity (2017)" in text
    sections = re.findall(r'<section id="part-\d+">.*?</section>', text, re.DOTALL)
    assert len(sections) == 2, "one per folder: changes make another one"
    assert "3 runs; 20 cycles, 50 nodes" in sections[0]
    assert "0-1 error on the test set" in sections[0]
    assert all("<img" in section for section in sections)
    assert "<code>runs=1</code>" in sections[1]
    assert "H17-3 was not run" in text


@pytest.mark.needs_jit
def test_a_published_page_opens_in_a_browser_and_loads_nothing(written):
    sync = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium (Debian: apt-get install chromium)")
    with sync.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for file in written[::2]:
            tab = running.new_page(viewport={"width": 420, "height": 800})
            heard = []
            tab.on("console", lambda message, heard=heard: heard.append(message.text))
            tab.on("pageerror", lambda error, heard=heard: heard.append(str(error)))
            tab.on("request", lambda one, heard=heard: one.url.startswith("data:") or heard.append(one.url))
            tab.goto(file.as_uri())
            assert heard == [file.as_uri()]
            assert tab.evaluate("document.documentElement.scrollWidth") == 420, "nothing overflows"
            assert tab.evaluate("[...document.querySelectorAll('.picture')].every(image => image.naturalWidth > 0)")
        running.close()


BLOCKS = "# Title\n\n" + "".join(f"<!-- {n} -->\nold\n<!-- /{n} -->\n\n" for n in publishing.TABLES) + "The end.\n"


@pytest.mark.needs_jit
def test_marked_tables_of_a_readme_are_replaced_and_nothing_else(repeated, tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "README.md").write_text(BLOCKS)
    (tmp_path / "README.md").write_text("Nothing is marked here.\n")
    files = publishing.publish(repeated, folder, quick=False)
    assert files[-1] == folder / "README.md"
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "old" not in text
    assert text.startswith("# Title\n\n<!-- verdicts -->\n\n| source | items |")
    assert text.endswith("<!-- /origin -->\n\nThe end.\n")
    assert "| H17 (Hegedűs & Jelasity 2017) | 3 | 2 | 0 | 0 | H17-3 |" in text
    assert re.search(r"- date: 20\d\d-\d\d-\d\d\n- versions: golfsim ", text)
    assert (tmp_path / "README.md").read_text() == "Nothing is marked here.\n"
    again = publishing.publish(repeated, folder, quick=False)
    assert [file.name for file in again] == [file.name for file in files][:3], "nothing has changed"


def test_a_part_does_not_replace_the_table_of_all_experiments(tmp_path):
    publishing.refuse_a_part(tmp_path / "new", True, ["V20"])
    (tmp_path / "README.md").write_text(BLOCKS)
    for quick, items in ((True, []), (False, ["V20"])):
        with pytest.raises(UserError, match="has the table of all experiments"):
            publishing.refuse_a_part(tmp_path, quick, items)
    publishing.refuse_a_part(tmp_path, False, [])


def block(file, name):
    return publishing._block(name).search(file.read_text(encoding="utf-8"))[0].strip()


def test_the_tables_of_the_readmes_are_those_of_the_verdicts():
    first, second = (REPORTS / "verdicts.md").read_text(encoding="utf-8").strip().split("\n\n")
    assert block(HERE.parent / "README.md", "verdicts") == first
    assert block(REPORTS / "README.md", "verdicts") == first
    assert block(REPORTS / "README.md", "reasons") == second


@pytest.mark.skipif(not COMMITTED, reason="no page is published yet")
def test_the_published_pages_are_small_and_have_no_traces_of_a_machine():
    assert {"reproduction", "a15", "c17", "h17", "v20"} <= {page.stem for page in COMMITTED}
    assert {page.stem for page in COMMITTED} <= {"reproduction", *map(str.lower, sources())}
    for page in COMMITTED:
        assert "This is the quick version" not in blameless(page)


def test_a_message_names_files_without_their_folders():
    text = "/srv/me/x.toml:3: data.set: “a/b/c” at 1/50, C:\\\\me\\\\y.toml, see https://a.org/b/c and docs/a.md"
    assert reproduce.without_folders(text.replace("\\\\", "\\")) == (
        "x.toml:3: data.set: “a/b/c” at 1/50, y.toml, see https://a.org/b/c and docs/a.md"
    )
