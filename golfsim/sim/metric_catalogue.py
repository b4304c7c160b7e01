"""The catalogue of all metrics that golfsim logs, for the command line, the manual and comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.metrics import SUMMARY, Metric
from golfsim.learning.linear import Descent
from golfsim.network import transport
from golfsim.privacy.ledger import BUDGET_METRICS, DELTA_METRICS
from golfsim.protocol import base, loading
from golfsim.protocol.learner import Learner
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Published, RawRecords
from golfsim.scenario.catalogue import Entry
from golfsim.scenario.reference import table
from golfsim.sim import attacks, attribute, inversion, mean_model, observers, overlay_stats
from golfsim.sim import metrics as predictions

if TYPE_CHECKING:
    from golfsim.scenario.model import Scenario

WORLD, EVERY_LAYER, LEARNING, OVERLAYS = "world", "every layer", "learning layers", "overlays"
DESCENT, PUBLISHED, PRIVATE = "gradient descent", "published records", "private layers"
JUDGING = (*observers.CLASSES, *observers.CLUSTERS, *observers.NUMBERS)
KINDS: dict[type[base.Protocol[Any]], tuple[str, tuple[Metric, ...]]] = {
    Learner: (
        LEARNING,
        (*JUDGING, *observers.METRICS, *predictions.METRICS, *attacks.MEMBERSHIP_METRICS, *attribute.METRICS),
    ),
    Descent: (DESCENT, (*mean_model.MEAN_METRICS, *mean_model.OPTIMUM_METRICS, *inversion.METRICS)),
    Overlay: (OVERLAYS, overlay_stats.METRICS),
    Published: (PUBLISHED, (*attacks.LABEL_METRICS, *attribute.METRICS, *inversion.METRICS)),
}  # what the simulator measures of a layer, by its kind

HEAD = f"""\
# Metrics

The log of a run has one row per cycle, layer and metric. This page lists the metrics by the layers that have them, from
the declarations in the code; `golfsim list metrics` prints the same list.

A metric with `.*` at its end has one value per node. The log has its mean, standard deviation and quantiles over nodes,
each under its own name. So `error.*` stands for
{", ".join(f"`error.{part}`" for part in SUMMARY)}.
A name in braces stands for a number. The last column is `up` where a larger value is better, and `down` where a smaller
one is. It is empty where this depends on the question.

These names are used

- in `[stop]`, in full and after the name of the layer: `when = "learning.error.mean < 0.1"`,
- in `[plot]`, in full or, for a mean, without `.mean`: `metric = "error"`,
- in `golfsim plot --metric` and `golfsim compare --metric`, in the same way,
- in the column `metric` of the table that `golfsim.load` returns.

A protocol of your own declares its metrics in the class attribute `metrics`, a tuple of `golfsim.protocol.Metric`.
"""
TITLES = {
    WORLD: ("The world", "The log has these metrics under the layer name `world`."),
    EVERY_LAYER: ("Every layer", "Counts of the transport, for each layer separately."),
    LEARNING: (
        "Learning layers",
        "Every layer whose nodes have models. `[observe]` sets how many models are measured. The metrics from `auc` to "
        "`roc` need `metrics = […]` there, `membership` and `attribute` need `attacks = […]`.",
    ),
    DESCENT: (
        "Layers that learn by gradient descent",
        'Every layer of Golf or of a random walk, with `metrics = ["mean-model"]` in `[observe]`, or with `"optimum"` '
        "there. The optimum is the model with the smallest objective on all records that the layer learns from, with "
        "its learner and its λ. It is what the layer converges to. `inversion` needs `attacks`, and linear models that "
        "learn from private records.",
    ),
    OVERLAYS: ("Overlays", "Every overlay that stores links, in the cycles that `overlay` in `[observe]` asks for."),
    PUBLISHED: (
        "Published records",
        'Every layer that publishes records, with `attacks = ["label", "attribute", "inversion"]` in `[observe]`.',
    ),
    PRIVATE: (
        "Private layers",
        "Every layer with a budget whose guarantee is proven, with `delta` in `[privacy]`.",
    ),
}


def of_layer(protocol: type[base.Protocol[Any]]) -> tuple[Metric, ...]:
    """Return all metrics that the log may have of a layer of this protocol."""
    of_kind = (metric for kind, (_, found) in KINDS.items() if issubclass(protocol, kind) for metric in found)
    at_delta = DELTA_METRICS if set(BUDGET_METRICS) <= set(protocol.metrics) else ()
    return (*transport.METRICS, *of_kind, *protocol.metrics, *at_delta)


def of_scenario(scenario: Scenario) -> dict[str, list[Metric]]:
    """Return the metrics that the log of a scenario has, by layer: those that its layers declare and `[observe]` asks
    for. A layer that measures something and declares no metric is not included, since its metrics are unknown.
    """
    layers = scenario.stack(scenario.seed, RawRecords.stand_in() if scenario.data else None)
    found = {name: _asked(scenario, layer) for name, layer in layers.items() if not _undeclared(layer)}
    return found | {WORLD: list(observers.WORLD_METRICS)}


def _undeclared(layer: base.Protocol[Any]) -> bool:
    return type(layer).observe is not base.Protocol.observe and not layer.metrics


def _asked(scenario: Scenario, layer: base.Protocol[Any]) -> list[Metric]:
    """Return the metrics of a layer without those that `[observe]` does not ask for."""
    observe, protocol = scenario.observe, type(layer)
    task = layer.task if isinstance(layer, Learner) else ""
    measured: dict[tuple[Metric, ...], bool] = {
        observers.METRICS: scenario.data is not None,
        mean_model.MEAN_METRICS: scenario.data is not None and "mean-model" in observe.metrics,
        mean_model.OPTIMUM_METRICS: scenario.data is not None and "optimum" in observe.metrics,
        attacks.MEMBERSHIP_METRICS: "membership" in observe.attacks,
        attacks.LABEL_METRICS: "label" in observe.attacks,
        attribute.METRICS: "attribute" in observe.attacks,
        inversion.METRICS: "inversion" in observe.attacks,
        DELTA_METRICS: scenario.privacy.delta is not None,
        overlay_stats.METRICS: observe.overlay is not None,
    }
    absent = {metric.name for group, there in measured.items() if not there for metric in group}
    of_task = observers.BY_TASK.get(task, ()) if scenario.data is not None else ()
    absent |= {metric.name for metric in JUDGING if metric not in of_task}
    if observe.test == "all" and task != "ratings":
        absent |= {metric.name for metric in JUDGING if metric.name.endswith(".worst_tenth")}
    absent |= {
        metric.name
        for metric in predictions.METRICS
        if metric.name.split(".")[0].replace("_", "-") not in observe.metrics
    }
    return [metric for metric in of_layer(protocol) if metric.name not in absent or metric in protocol.metrics]


def find(logged: str) -> Metric | None:
    """Return the metric with this name in a log, if golfsim or an installed protocol declares it."""
    return next((metric for _, metric in _declared() if metric.matches(logged)), None)


def metrics() -> list[Entry]:
    """Return all metrics, by the layers that have them."""
    return [
        {"name": metric.name, "layer": layer, "about": metric.about, "unit": metric.unit}
        | {"better": metric.better, "summary": metric.summary, "settings": []}
        for layer, metric in _declared()
    ]


def page() -> str:
    """Return the complete page of the manual."""
    layers = dict.fromkeys(layer for layer, _ in _declared())
    return "\n".join([HEAD, *(part for layer in layers for part in _section(layer))])


def shown(entry: Entry) -> str:
    """Return the name of a metric for readers, with `.*` where the log has several names."""
    return f"{entry['name']}{'.*' if entry['summary'] else ''}"


def _declared() -> Iterator[tuple[str, Metric]]:
    """Yield every declared metric with its layer; protocols come last, since they have to be loaded."""
    yield from ((WORLD, metric) for metric in observers.WORLD_METRICS)
    yield from ((EVERY_LAYER, metric) for metric in transport.METRICS)
    yield from ((layer, metric) for layer, found in KINDS.values() for metric in found)
    yield from ((PRIVATE, metric) for metric in DELTA_METRICS)
    yield from _of_protocols()


@cache
def _of_protocols() -> tuple[tuple[str, Metric], ...]:
    return tuple((name, metric) for name in loading.installed() for metric in loading.find(name, Path()).metrics)


def _section(layer: str) -> Iterator[str]:
    title, about = TITLES.get(layer, (f"`{layer}`", ""))
    yield f"## {title}\n"
    if about:
        yield f"{about}\n"
    rows = [(f"`{shown(e)}`", e["about"], e["unit"], e["better"]) for e in metrics() if e["layer"] == layer]
    yield table(("name", "meaning", "unit", "better"), rows)
