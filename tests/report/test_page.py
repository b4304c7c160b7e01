"""Pages: what they say, that nothing in them comes from elsewhere or runs by itself, and how they do in a browser."""

import base64
import io
import json
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import command, learning_tree

from golfsim import cli
from golfsim.comparing import comparison
from golfsim.report import Drawing, fitting, page, sections
from golfsim.runs import results, single
from golfsim.runs.store import Store
from golfsim.scenario.model import Scenario

HOSTILE = "<script>alert(1)</script> \"quoted\" 'single' </script><img src=x onerror=alert(2)> {{ 7*7 }} ü ☃ $\\frac{$"
NAME = f"A study {HOSTILE}"
PEERS = {"name": "peers", "use": "newscast", "view": 5}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 5.0}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
WIDTHS = (360, 1600)

# Hostile labels are longer than a figure is wide.
pytestmark = pytest.mark.filterwarnings("ignore:constrained_layout not applied")


def scenario(**tables):
    cases = [{"label": "private"}, {"label": HOSTILE, "learning.records": "raw"}]
    sweep = {"data.train": [40, 60]}
    data = {"set": "random", "train": 60, "test": 30, "scale": ["minmax", "l1"]}
    keys = {"data": data, "name": NAME, "cycles": 20, "runs": 3, "case": cases, "sweep": sweep}
    return learning_tree(PEERS, PUBLISHED, GOLF, **(keys | tables))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of two cases at two sizes, three runs each; then one more run that is made out to have failed."""
    place = tmp_path_factory.mktemp("pages") / "study"
    made = single.run(Scenario.of(scenario()), place)
    assert made["seed"].nunique() == 3
    told = Store(place)
    entry = next(iter(told.entries().values()))
    about = place / entry.folder / "run.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"status": "failed"}))
    told.record([replace(entry, status="failed", error=f"Error: {HOSTILE}")])
    return place


@pytest.fixture(scope="module")
def text(folder):
    return page.html(results.find([folder]))


@pytest.fixture(scope="module")
def file(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


class Reader(HTMLParser):
    """What a browser would see: elements with their attributes, and the text in sections."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.said, self.section, self.inside = [], {}, "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        self.section = dict(attrs).get("id", self.section) if tag == "section" else self.section

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.handle_data(" ")

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.said[self.section] = self.said.get(self.section, "") + data


@pytest.fixture(scope="module")
def reader(text):
    return Reader(text)


# --- What it says


def test_each_strategy_has_its_guarantee(reader):
    said = re.sub(r"\s+", " ", reader.said["guarantees"])
    assert "private published ε = 5 per record, proven" in said
    assert "learning not private" in said
    assert "together not private" in said


def test_a_guarantee_that_depends_on_a_key_is_reported_for_each_of_its_values(tmp_path):
    values = {"sweep": {"published.epsilon": [1.0, 8.0], "data.train": [40, 60]}, "case": [], "runs": 1, "cycles": 2}
    single.run(Scenario.of(scenario(**values)), tmp_path)
    promises = [p for p in sections.guarantees(results.find([tmp_path]), None) if p.layer == "published"]
    assert [(p.guarantee, p.where) for p in promises] == [
        ("ε = 1 per record, proven", "published.epsilon = 1"),
        ("ε = 8 per record, proven", "published.epsilon = 8"),
    ]
    assert {p.kind for p in promises} == {"private"}


def test_what_is_common_stands_there_once_and_what_differs_in_a_table(folder):
    found = results.find([folder])
    common = tomllib.loads(sections.common(found))
    assert common["cycles"] == 20
    assert "train" not in common["data"]
    learning = next(table for table in common["protocol"] if table["name"] == "learning")
    assert learning["use"] == "golf"
    assert "records" not in learning
    varies, by_case = sections.differing(found)
    assert varies.rows == (("case", f"private, {HOSTILE}"), ("data.train", "40, 60"))
    assert by_case.title == "By case"
    assert by_case.header == ("key", "private", HOSTILE)
    assert by_case.rows == (("learning.records", "published", "raw"),)


def test_last_values_are_means_with_intervals_over_runs(folder):
    found = results.find([folder])
    table = sections.finals(found.frame, ["case", "data.train"])
    rows = found.frame
    rows = rows[(rows["metric"] == "accuracy.mean") & (rows["case"] == "private") & (rows["data.train"] == 60)]
    last = rows[rows["cycle"] == 20]["value"].to_numpy()
    assert len(last) == 3
    row = next(row for row in table.rows if row[:3] == ("private", "60", "learning"))
    half = 4.302653 * last.std(ddof=1) / 3**0.5
    assert row[table.header.index("accuracy")] == f"{last.mean():.4f} ± {half:.4f}"
    assert row[table.header.index("runs")] == "3"


def test_provenance_states_versions_seeds_data_code_and_commands(reader, folder):
    said = reader.said["provenance"]
    about = json.loads(next(folder.rglob("run.json")).read_text())
    for word in (about["versions"]["numpy"], about["data_sha256"], about["code"], "1–3", f"golfsim report {folder}"):
        assert word in said


def test_the_command_of_the_runs_makes_these_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my study").mkdir()
    Path("my study/s.toml").write_text(Scenario.of(learning_tree(PEERS, GOLF | {"records": "raw"})).dump())
    changes = ["--set", "name=it's $(touch PWN); a test", "--set", "cycles=3", "--set", 'sweep={"peers.view" = [3, 4]}']
    assert command(capsys, monkeypatch, "run", "my study/s.toml", "--workers", 1, *changes)[0] == 0
    made = {str(path) for path in Path("results").rglob("run.json")}
    assert len(made) == 2
    rows = dict(sections.provenance(results.find(["results/s"]), "golfsim report"))
    (line,) = rows["command of the runs"]
    words = subprocess.run(
        ["sh", "-c", f'set -- {line}; printf "%s\\0" "$@"'], capture_output=True, text=True, check=True
    )
    shutil.move("results/s", "results/before")
    assert command(capsys, monkeypatch, *words.stdout.split("\0")[1:-1])[0] == 0
    # The name of a folder is a hash of everything that the rows depend on.
    assert {str(path) for path in Path("results/s").rglob("run.json")} == made
    assert not Path("PWN").exists()


def test_a_scenario_that_was_made_in_python_has_no_command_of_its_runs(folder):
    rows = dict(sections.provenance(results.find([folder]), "golfsim report"))
    assert "command of the runs" not in rows


def test_keys_that_vary_together_are_counted_once(tmp_path):
    zipped = [{"learning.lambda": [0.1, 0.01, 0.001], "peers.view": [3, 4, 5]}]
    keys = {"cycles": 2, "sweep": {"zip": zipped, "data.train": [40, 60]}}
    single.run(Scenario.of(learning_tree(PEERS, GOLF | {"records": "raw"}, **keys)), tmp_path)
    found = results.find([tmp_path])
    said = sections.summary(found, sections.factors(found), {})
    assert "6 runs at 6 points (3 of learning.lambda with peers.view × 2 of data.train)" in said


def test_an_incomplete_grid_is_not_said_to_be_a_product():
    assert sections._grid([["1", "1", "2"], ["x", "y", "y"]], ["a", "b"]) == "2 of a, 2 of b"
    assert sections._grid([["1", "1", "2", "2"], ["x", "y", "x", "y"]], ["a", "b"]) == "2 of a × 2 of b"


def test_a_chart_has_the_bands_that_its_caption_explains(folder):
    shown = [page._shown(drawing) for drawing in fitting(results.find([folder]).frame)]
    charts = [figure for figure in shown if figure.chart]
    assert charts
    for figure in charts:
        for columns, words in (({"low", "high"}, "Dark bands"), ({"q05", "q95"}, "Light bands")):
            has = {column for curve in figure.chart["curves"] for column in columns if column in curve}
            assert has == (columns if words in figure.caption else set()), figure.name


def test_failures_are_reported_and_left_out(reader):
    assert "Error: " + HOSTILE in reader.said["failures"]
    assert "11 runs at 4 points" in reader.said[""]
    assert "Not included: 1 failed." in reader.said[""]


def test_data_behind_figures_can_be_taken_away(reader, folder):
    links = {a["download"]: a["href"] for tag, a in reader.elements if tag == "a"}
    assert {"convergence.csv", "last-values.csv"} <= set(links)
    data = pd.read_csv(io.BytesIO(base64.b64decode(links["convergence.csv"].partition("base64,")[2])))
    assert list(data.columns)[:5] == ["cycle", "curve", "mean", "low", "high"]
    rows = results.find([folder]).frame
    rows = rows[(rows["metric"] == "error.mean") & (rows["case"] == "private") & (rows["data.train"] == 60)]
    expected = rows[rows["cycle"] == 20]["value"].mean()
    (found,) = data[
        (data["cycle"] == 20) & (data["curve"].str.startswith("private") & data["curve"].str.endswith("60"))
    ]["mean"]
    assert found == pytest.approx(expected)


def test_two_folders_are_distinguished_and_compared(tmp_path, capsys, monkeypatch):
    one = {"sweep": {}, "case": [], "cycles": 10, "runs": 6}
    single.run(Scenario.of(scenario(**one)), tmp_path / "private")
    protocols = [PEERS, GOLF | {"records": "raw"}]
    single.run(Scenario.of(scenario(**one, protocol=protocols)), tmp_path / "open")
    folders = [str(tmp_path / "private"), str(tmp_path / "open")]
    monkeypatch.setattr(sys, "argv", ["golfsim", "compare", *folders, "--json"])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    found = json.loads(capsys.readouterr().out)
    assert found["by"] == "results"
    assert set(found["strategies"]) == {"private", "open"}
    assert found["pairs"][0]["pairs"] == 6
    out = tmp_path / "out.html"
    monkeypatch.setattr(
        sys, "argv", ["golfsim", "report", *folders, "--out", str(out), "--title", "Both", "--target", "0.6"]
    )
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    reader = Reader(out.read_text(encoding="utf-8"))
    assert "published.epsilon" in reader.said["scenario"]
    assert found["sentence"] in reader.said["comparison"]
    assert "To reach accuracy = 0.6" in reader.said["cost"]
    assert "<title>Both</title>" in out.read_text(encoding="utf-8")


def test_the_cost_to_reach_a_target_is_reported_on_request(folder, reader):
    assert "cost" not in reader.said
    asked = Reader(page.html(results.find([folder]), target=0.7))
    found = comparison.compare(results.find([folder]).frame, target=0.7).costs
    said = " ".join(asked.said["cost"].split())
    assert len(found) == 4
    for cost in found:
        words = f"{cost.block} {cost.strategy} {cost.reached} of {cost.runs}"
        assert " ".join(words.split()) in said
    assert f"{folder} --target 0.7" in asked.said["provenance"]


def test_the_cost_of_one_strategy_alone_is_reported_too(tmp_path):
    single.run(Scenario.of(scenario(sweep={}, case=[], cycles=10, runs=2)), tmp_path)
    asked = Reader(page.html(results.find([tmp_path]), target=0.6))
    assert "learning 2 of 2" in " ".join(asked.said["cost"].split())
    assert "comparison" not in asked.said


def test_folders_on_different_data_are_not_taken_for_the_same(tmp_path):
    one = {"sweep": {}, "case": [], "cycles": 2, "runs": 1}
    data = {"scale": ["minmax", "l1"], "test": 30, "train": 60}
    for name in ("random", "spambase"):
        single.run(Scenario.of(scenario(**one, data=data | {"set": name})), tmp_path / name)
    found = results.find([tmp_path / "random", tmp_path / "spambase"])
    assert set(found.frame["data.set"]) == {"random", "spambase"}
    assert "nothing in common" in page.html(found)


def test_a_figure_that_is_not_curves_has_no_chart():
    data = pd.DataFrame({"cycle": [1], "curve": ["a"], "mean": [0.5], "low": [np.nan], "high": [np.nan]})
    curves = Drawing("name", "title", "caption", lambda: None, data, "curves", bands=frozenset({"runs"}))
    assert page._chart(curves, "y")["curves"][0]["low"] == [None]
    assert page._chart(Drawing("name", "title", "caption", lambda: None, data, "picture"), "y") is None
    twice = pd.concat([data, data])
    assert page._chart(Drawing("name", "title", "caption", lambda: None, twice, "curves"), "y") is None


# --- That it is safe and whole


def test_nothing_comes_from_elsewhere(reader):
    for tag, attributes in reader.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, name)
        assert not [name for name in attributes if name.startswith("on")]
    assert ("iframe", {}) not in reader.elements


def test_text_of_scenarios_is_text(reader, text):
    scripts = [attributes.get("type", "code") for tag, attributes in reader.elements if tag == "script"]
    assert set(scripts[:-1]) == {"application/json"}
    assert scripts[-1] == "code"
    assert not [a for tag, a in reader.elements if tag == "img" and not a["src"].startswith("data:image/")]
    assert text.count("<script>alert(1)") == 0
    assert "{{ 7*7 }}" in reader.said[""]


def test_the_wheel_has_what_pages_need():
    here = Path(page.__file__).parent
    project = tomllib.loads((here.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "golfsim" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {path.name for path in (here / "static").iterdir()} >= {
        "uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE", "charts.js", "page.css",
    }  # fmt: skip
    assert "1.6.32" in (here / "static" / "uPlot.iife.min.js").read_text(encoding="utf-8")[:100]


# --- In a browser


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium (Debian: apt-get install chromium)")
    with sync.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser, file):
    """Open the page; at the end nothing was complained about, executed or asked for."""
    pages = []

    def open_(width=1200, **how):
        tab = browser.new_page(viewport={"width": width, "height": 800}, **how)
        tab.heard = []
        tab.on("console", lambda message: tab.heard.append(message.text))
        tab.on("pageerror", lambda error: tab.heard.append(str(error)))
        tab.on("dialog", lambda dialog: (tab.heard.append("a dialog"), dialog.dismiss()))
        tab.on("request", lambda request: request.url.startswith("data:") or tab.heard.append(request.url))
        tab.goto(file.as_uri())
        pages.append(tab)
        return tab

    yield open_
    for tab in pages:
        assert tab.heard == [file.as_uri()]
        tab.close()


def drawn(tab):
    """The pixels of the first chart."""
    return tab.evaluate("document.querySelector('.chart canvas').toDataURL()")


def chart(tab, what):
    """Something of the first chart, by a JavaScript path."""
    return tab.evaluate(f"document.querySelector('figure[data-chart]').chart.{what}")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_opens_with_every_figure_and_without_sideways_scrolling(opened, width):
    tab = opened(width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    figures = tab.locator("figure")
    assert figures.count() >= 2
    for place in range(figures.count()):
        shown = figures.nth(place).locator("canvas:visible, img:visible").first
        box = shown.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 50
        assert box["x"] + box["width"] <= width + 1
    assert tab.locator("figure[data-chart] img.picture").first.is_hidden()


def test_hostile_text_is_shown_as_it_is(opened):
    tab = opened()
    assert tab.locator("h1").inner_text() == re.sub(r"\s+", " ", NAME)
    assert tab.title() == NAME
    assert HOSTILE in tab.locator("#guarantees").inner_text()
    assert HOSTILE in tab.locator("button.curve").nth(2).inner_text()
    assert HOSTILE in tab.locator("#failures").inner_text()


def test_no_script_but_ours_may_run_even_if_one_got_in(opened):
    tab = opened()
    script = "const script = document.createElement('script'); script.textContent = 'window.got_in = 1';"
    tab.evaluate(f"() => {{ {script} document.body.append(script); }}")
    assert tab.evaluate("window.got_in") is None
    assert all("Content Security Policy" in text for text in tab.heard[1:])
    assert len(tab.heard) > 1
    del tab.heard[1:]


def test_a_curve_is_switched_off_and_on_by_its_name(opened):
    tab = opened()
    before, button = drawn(tab), tab.locator("button.curve").first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert chart(tab, "plot.series.map(s => s.show)")[1:11] == [False] * 5 + [True] * 5
    assert drawn(tab) != before
    button.click()
    tab.mouse.move(1, 1)
    assert drawn(tab) == before
    tab.locator("button.none").first.click()
    assert not any(chart(tab, "plot.series.map(s => s.show)")[1:])
    tab.locator("button.all").first.click()
    assert all(chart(tab, "plot.series.map(s => s.show)"))


def test_the_axis_of_cycles_is_logarithmic_or_linear(opened):
    tab = opened()
    before, button = drawn(tab), tab.locator("button.axis").first
    assert chart(tab, "plot.scales.x.distr") == 3
    tab.locator("button.curve").first.click()
    button.click()
    assert chart(tab, "plot.scales.x.distr") == 1
    assert button.get_attribute("aria-pressed") == "false"
    assert chart(tab, "plot.series[1].show") is False  # what was switched off stays off
    assert drawn(tab) != before


def in_view(tab):
    """Where on the screen the first chart is: the mouse reaches nothing else."""
    over = tab.locator(".u-over").first
    over.scroll_into_view_if_needed()
    return over.bounding_box()


def dragged(tab):
    """Drag over the middle third of the first chart."""
    box = in_view(tab)
    tab.mouse.move(box["x"] + box["width"] / 3, box["y"] + 40)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 2 / 3, box["y"] + 40, steps=5)
    tab.mouse.up()


def test_dragging_zooms_and_a_button_or_a_double_click_resets(opened):
    tab = opened()
    whole = chart(tab, "plot.scales.x.min"), chart(tab, "plot.scales.x.max")
    assert whole == (1, 20)
    reset = tab.locator("button.reset").first
    assert reset.is_disabled()
    for undo in (reset.click, tab.locator(".u-over").first.dblclick):
        dragged(tab)
        assert chart(tab, "plot.scales.x.min") == pytest.approx(20 ** (1 / 3), rel=0.02)
        assert chart(tab, "plot.scales.x.max") == pytest.approx(20 ** (2 / 3), rel=0.02)
        assert reset.is_enabled()
        undo()
        assert (chart(tab, "plot.scales.x.min"), chart(tab, "plot.scales.x.max")) == whole
        assert chart(tab, "plot.scales.y.min") == 0
        assert reset.is_disabled()


def test_pointing_at_a_cycle_shows_its_values(opened):
    tab = opened()
    box = in_view(tab)
    tab.mouse.move(box["x"] + box["width"] - 1, box["y"] + 40)
    assert tab.locator(".legend .cycle").first.inner_text() == "cycle 20"
    value = chart(tab, "data.curves[0].mean.at(-1)")
    assert float(tab.locator(".legend .value").first.inner_text()) == pytest.approx(value, rel=1e-3)


def test_a_button_brings_the_picture_back(opened):
    tab = opened()
    figure, swap = tab.locator("figure[data-chart]").first, tab.locator("button.swap").first
    swap.click()
    assert figure.locator("img.picture").is_visible()
    assert figure.locator(".chart").is_hidden()
    swap.click()
    assert figure.locator("img.picture").is_hidden()
    assert figure.locator(".chart canvas").bounding_box()["width"] > 100


def test_the_chart_follows_the_width_of_the_window(opened):
    tab = opened(1600)
    wide = tab.locator(".chart canvas").first.bounding_box()["width"]
    tab.set_viewport_size({"width": 360, "height": 700})
    for _ in range(100):  # waiting in the page itself would need a script that its policy forbids
        if tab.locator(".chart canvas").first.bounding_box()["width"] < wide / 2:
            break
        tab.wait_for_timeout(50)
    assert tab.locator(".chart canvas").first.bounding_box()["width"] < wide / 2
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", WIDTHS)
def test_without_scripts_all_figures_are_pictures(opened, width):
    tab = opened(width, java_script_enabled=False)
    pictures = tab.locator("figure img.picture")
    assert pictures.count() == tab.locator("figure").count()
    for place in range(pictures.count()):
        assert pictures.nth(place).is_visible()
        assert pictures.nth(place).bounding_box()["height"] > 50
    assert tab.locator(".controls").first.is_hidden()


def test_on_paper_figures_are_pictures(opened):
    tab = opened()
    tab.emulate_media(media="print")
    assert tab.locator("figure img.picture").first.is_visible()
    assert tab.locator(".chart").first.is_hidden()


def test_data_are_downloaded_under_their_name(opened):
    tab = opened()
    with tab.expect_download() as waiting:
        tab.locator("a[download='convergence.csv']").click()
    assert waiting.value.suggested_filename == "convergence.csv"
    assert Path(waiting.value.path()).read_text().startswith("cycle,curve,mean,low,high")


# --- Pictures that are enlarged, panels, narrow screens


def test_a_picture_is_enlarged_by_a_click_and_closed_by_escape_or_a_click(opened):
    tab = opened()
    picture, large = tab.locator("figure:not([data-chart]) img.picture").first, tab.locator("dialog.large")
    assert large.is_hidden()
    small = picture.bounding_box()["width"]
    picture.click()
    assert large.is_visible()
    assert large.locator("img").bounding_box()["width"] > small
    assert large.locator("img").get_attribute("src") == picture.get_attribute("src")
    tab.keyboard.press("Escape")
    assert large.is_hidden()
    picture.click()
    large.locator("img").click()
    assert large.is_hidden()


@pytest.mark.parametrize("key", ["Enter", " "])
def test_a_picture_is_enlarged_with_the_keyboard(opened, key):
    tab = opened()
    picture, large = tab.locator("figure:not([data-chart]) img.picture").first, tab.locator("dialog.large")
    picture.focus()
    tab.keyboard.press(key)
    assert large.is_visible()
    assert tab.evaluate("document.activeElement.textContent") == "close"
    tab.keyboard.press("Enter")
    assert large.is_hidden()
    assert tab.evaluate("document.activeElement.tagName") == "IMG", "the focus returns"


@pytest.fixture(scope="module")
def panels(tmp_path_factory):
    """A page of more curves than one panel holds, and one of an overlay."""
    place = tmp_path_factory.mktemp("panels")
    values = {"sweep": {"peers.view": [3, 6, 9], "learning.lambda": [0.1, 0.01, 0.001]}, "case": []}
    observe = {"every": 1, "nodes": 10, "overlay": 1}
    golf = [PEERS, GOLF | {"records": "raw"}]
    single.run(Scenario.of(learning_tree(*golf, cycles=4, runs=1, name=HOSTILE, **values)), place / "many")
    single.run(Scenario.of(learning_tree(*golf, cycles=4, runs=3, observe=observe)), place / "one")
    for name in ("many", "one"):
        page.write([place / name], place / f"{name}.html")
    return place


def charts_of(folder):
    found = results.find([folder])
    return {d.name: page._chart(d, "y") for d in fitting(found.frame) if page._chart(d, "y")}


def test_panels_are_charts_with_the_same_cycles_curves_and_colours(panels):
    chart = charts_of(panels / "many")["convergence"]
    assert [panel["title"] for panel in chart["panels"]] == ["view = 3", "view = 6", "view = 9"]
    looks = [[(curve["name"], curve["colour"]) for curve in panel["curves"]] for panel in chart["panels"]]
    assert looks[0] == looks[1] == looks[2]
    rows = results.find([panels / "many"]).frame
    rows = rows[(rows["metric"] == "error.mean") & (rows["peers.view"] == 6) & (rows["learning.lambda"] == 0.01)]
    curve = next(curve for curve in chart["panels"][1]["curves"] if "0.01" in curve["name"])
    assert curve["mean"] == pytest.approx(rows.sort_values("cycle")["value"].tolist(), rel=1e-5)


def test_an_overlay_over_time_is_a_chart_with_its_bands(panels):
    chart = charts_of(panels / "one")["overlay"]
    assert len(chart["panels"]) > 1
    assert chart["label"] == "", "the panels show different quantities"
    assert {"low", "q05"} & set(chart["panels"][0]["curves"][0])


@pytest.mark.parametrize("width", [420, 1200])
@pytest.mark.parametrize("name", ["many", "one"])
def test_panels_in_a_browser_share_their_legend(browser, panels, name, width):
    tab = browser.new_page(viewport={"width": width, "height": 800})
    heard = []
    tab.on("pageerror", lambda error: heard.append(str(error)))
    tab.goto((panels / f"{name}.html").as_uri())
    figure = tab.locator("figure#figure-convergence" if name == "many" else "figure#figure-overlay")
    count = figure.locator(".panel").count()
    assert count > 1
    assert figure.locator(".panel canvas:visible").count() == count
    chart = f"document.querySelector('#{figure.get_attribute('id')}').chart"
    tops = tab.evaluate(f"{chart}.plots.map(plot => plot.scales.y.max)")
    assert (len(set(tops)) == 1) == (name == "many"), "one quantity has one axis"
    figure.locator("button.curve").first.click()
    assert tab.evaluate(f"{chart}.plots.map(plot => plot.series[1].show)") == [False] * count
    over = figure.locator(".u-over").nth(1)
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 2, box["y"] + 30)
    title = tab.evaluate(f"{chart}.panels[1].title")
    assert figure.locator(".legend .cycle").inner_text() == f"{title}, cycle 4"
    figure.locator("button.swap").click()
    assert figure.locator("img.picture").is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert heard == []
    tab.close()


def test_a_wide_table_scrolls_in_its_box_on_a_narrow_screen(opened):
    tab = opened(420)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 420
    boxes = tab.evaluate("[...document.querySelectorAll('.box')].map(b => [b.scrollWidth, b.clientWidth, b.tabIndex])")
    assert any(inside > seen for inside, seen, _ in boxes)
    assert {tab_index for *_, tab_index in boxes} == {0}, "the keyboard scrolls them, too"
