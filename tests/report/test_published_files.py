"""What the papers found, as reports/published has it, can be compared with what the scenarios log."""

import tomllib

import pytest
from helpers import HERE

from golfsim.core.paths import shipped_scenarios
from golfsim.report import published
from golfsim.report.checks import in_full
from golfsim.runs.logs import _plain
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points
from golfsim.sim.metric_catalogue import of_scenario

FOLDER = HERE.parent / "reports" / "published"
FILES = sorted(FOLDER.rglob("*.toml"))
EACH = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)

KINDS = {
    "falls-with": {"x", "by"},
    "rises-with": {"x", "by"},
    "flat-within": {"x", "within"},
    "below": {"left", "right"},
    "alike": {"left", "right", "within"},
    "best-at": {"x", "low", "high"},
    "best-grows": {"x", "along", "order"},
    "between": {"low", "high"},
}


def items(file):
    return tomllib.loads(file.read_text())["item"]


def points_of(item):
    """The points of all scenarios of an item, with the values by which a selection finds them."""
    scenarios = {
        name: Scenario.load(name, item.get("changes", ())) for name in (item["scenario"], *item.get("also", ()))
    }
    more = {name: {"scenario": name} if "also" in item else {} for name in scenarios}
    found = [(name, point) for name, one in scenarios.items() for point in points(one)]
    return [({key: _plain(value) for key, value in point.values.items()} | more[name], point) for name, point in found]


def selections(item):
    """(where, layer, metric) of all that an item selects."""
    for value in item.get("value", ()):
        yield value["where"], value["layer"], value["metric"]
    for check in (claim["check"] for claim in item.get("claim", ()) if "check" in claim):
        parts = [{"where": {check["along"]: value}} for value in check.get("order", ())]
        for side in [check[name] for name in ("left", "right") if name in check] or parts or [{}]:
            if "value" not in side:
                where = check.get("where", {}) | side.get("where", {})
                yield where, side.get("layer", check.get("layer")), side.get("metric", check.get("metric"))


def test_all_sources_are_there():
    assert [file.stem for file in FILES] == [
        "a15", "b14", "c17", "d18", "d20", "d23", "d87", "h16", "h17", "h21", "j05", "j09", "k20", "l07", "o13",
        "v20",
    ]  # fmt: skip


@EACH
def test_a_source_says_what_it_is_and_every_item_has_a_name_of_its_own(file):
    source = tomllib.loads(file.read_text())["source"]
    assert set(source) == {"id", "title", "authors", "year"}
    names = [item["id"] for item in items(file)]
    assert len(set(names)) == len(names)
    assert all(name.startswith(source["id"]) for name in names)


@EACH
def test_an_item_has_a_scenario_and_something_to_compare(file):
    for item in items(file):
        assert item["what"], item["id"]
        assert item.get("value") or item.get("claim"), item["id"]
        assert {item["scenario"], *item.get("also", ())} <= set(shipped_scenarios()), item["id"]


@EACH
def test_a_check_is_of_a_known_kind_and_has_its_keys(file):
    for item in items(file):
        for claim in item.get("claim", ()):
            assert claim["text"], item["id"]
            check = claim.get("check", {"kind": "below", "left": {}, "right": {}})
            missing = KINDS[check["kind"]] - set(check)
            assert not missing, (item["id"], claim["text"])


@EACH
def test_a_selection_names_columns_values_layers_and_metrics_that_the_scenario_has(file):
    for item in items(file):
        if item["scenario"] not in shipped_scenarios():
            continue
        found = points_of(item)
        for where, layer, metric in selections(item):
            chosen = [point for values, point in found if all(values.get(key) == where[key] for key in where)]
            assert chosen, (item["id"], where)
            logged = [known(metric, layer, point.scenario) for point in chosen]
            assert any(logged), (item["id"], layer, metric)
            assert "case" not in where or all(logged), (item["id"], layer, metric)


def known(metric, layer, scenario):
    """Whether a layer logs a metric, as it or the observer declares it."""
    logged = of_scenario(scenario).get(layer, ())
    return any(one.matches(name) for one in logged for name in (in_full(metric), metric))


def test_the_short_name_of_a_source_has_the_last_names_of_its_authors():
    assert published.sources()["A15"].short == "A15 (Asplund & Frøystad 2015)"
