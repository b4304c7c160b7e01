"""Every metric of a log is declared with its meaning, and every declared metric is logged."""

import golden
import pytest
from entries import ENTRIES, GOLF, VIEWS, scenario
from helpers import AVERAGING, HERE, finished

from golfsim.cli import manual
from golfsim.comparing.strategies import WORDS, better_of
from golfsim.core.metrics import SUMMARY, Metric
from golfsim.protocol.loading import find, installed
from golfsim.sim import metric_catalogue, observers

PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 20.0}
EVERYTHING = golden.ATTACKED | {"every": 2, "nodes": 10, "overlay": 2}


def observed():
    """A run with all options of `[observe]`."""
    layers = (VIEWS, PUBLISHED, GOLF | {"name": "learning", "records": "published", "cache": 2})
    return golden.learning(*layers, cycles=4, observe=EVERYTHING)


def of_log(tree, logged):
    """(protocol, metric) for each row of a log; None stands for the protocol of the world."""
    uses = {layer["name"]: layer["use"] for layer in tree["protocol"]} | {"world": None}
    return {(uses[layer], metric) for layer, metric in logged}


def kept(name):
    rows = (line.split() for line in golden.read(name) if not line.startswith("state "))
    return of_log(golden.LOGS[name](), [(layer, metric) for _, layer, metric, *_ in rows])


def measured(tree):
    return of_log(tree, finished(tree).log.names)


@pytest.fixture(scope="module")
def logged():
    """(protocol, metric) of all kept logs, of the contract's protocols, and of a run with everything observed."""
    several = {"set": "segmentation", "train": 100, "test": 60, "scale": ["minmax", "l1"]}  # seven classes
    classes = golden.learning(VIEWS, GOLF | {"name": "learning"}, data=several, cycles=2, observe={"metrics": ["roc"]})
    line = golden.learning(VIEWS, GOLF | {"name": "learning"}, cycles=2, observe={"metrics": ["mean-model"]})
    line |= {"data": {"set": "random", "train": 100, "test": 60}}  # two features
    own = {"test": "own", "metrics": ["log-loss"]}
    odds = golden.learning(VIEWS, GOLF | {"name": "learning", "learner": "logistic"}, cycles=2, observe=own)
    clusters = GOLF | {"name": "learning", "learner": {"use": "kmeans", "clusters": 3}}
    alone = golden.learning(VIEWS, clusters, data=several, cycles=2, observe={"test": "own"})
    runs = map(measured, (observed(), classes, line, odds, alone))
    found = set().union(*(kept(name) for name in golden.LOGS), *runs)
    return found.union(*(measured(scenario(entry)) for entry in ENTRIES.values()))


def declared(use):
    return observers.WORLD_METRICS if use is None else metric_catalogue.of_layer(find(use, HERE))


def test_every_metric_of_every_log_is_declared_for_its_layer(logged):
    users = {
        layer["use"] for entry in ENTRIES.values() for layer in (*entry.below, entry.layer) if ".py:" in layer["use"]
    }
    assert {use for use, _ in logged} == {None, *installed(), *users}
    unknown = {(use, name) for use, name in logged if not any(metric.matches(name) for metric in declared(use))}
    assert unknown == set()


def test_no_log_has_two_declarations_of_one_metric(logged):
    twice = {(use, name) for use, name in logged if sum(metric.matches(name) for metric in declared(use)) > 1}
    assert twice == set()


def test_every_declared_metric_is_logged(logged):
    of_use = {use: declared(use) for use, _ in logged}
    everything = {metric for metrics in of_use.values() for metric in metrics}
    for metric in everything:
        seen = {name for use, name in logged if metric in of_use[use] and metric.matches(name)}
        assert len(seen) >= len(metric.names), metric.name


@pytest.mark.parametrize("use", [*installed(), AVERAGING["use"]])
def test_a_declaration_is_complete(use):
    for metric in find(use, HERE).metrics:
        assert metric.name
        assert metric.about.endswith(".")
        assert metric.better in ("up", "down", "")


def test_names_with_numbers_and_summaries_match_what_a_log_calls_them():
    roc, error = Metric("roc.at_{share}", "…"), Metric("error", "…", summary=True)
    assert [roc.matches(name) for name in ("roc.at_0.05", "roc.at_", "roc.at_{share}", "roc.at_x")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert error.names == tuple(f"error.{part}" for part in SUMMARY)
    assert [error.matches(name) for name in ("error.mean", "error.q05", "error", "voted_error.mean")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_the_list_and_the_page_have_every_metric_once_per_layer():
    entries, page = metric_catalogue.metrics(), manual.text_of("metrics")
    assert {entry["layer"] for entry in entries} >= {"world", "every layer", "learning layers", "golf", "anonml"}
    assert len({(entry["layer"], entry["name"]) for entry in entries}) == len(entries)
    for entry in entries:
        assert page.count(f"| `{metric_catalogue.shown(entry)}` | {entry['about']} |") >= 1
    assert page.count("\n| `") == len(entries)


def test_what_a_metric_declares_does_not_contradict_the_words_of_its_name():
    for entry in metric_catalogue.metrics():
        words = {part for word in entry["name"].split(".") for part in (*word.split("_"), word)}
        by_words = {direction for direction, known in WORDS.items() if words & known}
        if by_words and entry["better"]:
            assert {better_of(name) for name in names_of(entry)} == by_words, entry["name"]


def names_of(entry):
    return Metric(entry["name"], entry["about"], summary=entry["summary"]).names
