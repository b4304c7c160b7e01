"""Check that the layers of a scenario have what its table `[plot]` names, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from golfsim.core.errors import UserError, listed, nearest
from golfsim.scenario import sweep
from golfsim.sim import metric_catalogue

if TYPE_CHECKING:
    from golfsim.core.metrics import Metric
    from golfsim.scenario.model import Scenario
    from golfsim.scenario.tables import PlotConfig


def check(scenario: Scenario) -> None:
    """Refuse a layer, a metric or a reference of `[plot]` that no point of the scenario has."""
    plot = scenario.plot
    if plot.reference is not None:
        _check_reference(plot, scenario)
    if plot.kind == "none" or (plot.metric is None and plot.layer is None):
        return
    first: UserError | None = None
    for point in _points(scenario):
        error = _problem(plot, point)
        if error is None:
            return
        first = first or error
    assert first is not None
    raise first


def _check_reference(plot: PlotConfig, scenario: Scenario) -> None:
    """Refuse a reference that is neither a value of x nor of lines, which vary in the sweep or between cases."""
    points = [point.values for point in sweep.points(scenario)]
    found = list(dict.fromkeys(point[key] for key in (plot.x, plot.lines) for point in points if key in point))
    if plot.reference not in found:
        known = ", ".join(str(value) for value in found)
        raise UserError(
            f"“{plot.reference}” is neither a value of “{plot.x}” nor of “{plot.lines}”",
            key="plot.reference",
            hint=f"expected one of: {known}" if known else "add it to [sweep], or as a case",
        )


def _points(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario itself, which suffices in most cases, and then all points of its sweep."""
    yield scenario
    if scenario.case or scenario.sweep:
        yield from (point.scenario for point in sweep.points(scenario))


def _problem(plot: PlotConfig, scenario: Scenario) -> UserError | None:
    """Return what the layers of a scenario lack; None also if a layer does not declare its metrics."""
    stack, known = [str(table["name"]) for table in scenario.protocol], metric_catalogue.of_scenario(scenario)
    wanted = [plot.layer] if plot.layer else [*stack, metric_catalogue.WORLD]
    if plot.layer and plot.layer not in (*stack, metric_catalogue.WORLD):
        return UserError(f"there is no layer “{plot.layer}”", key="plot.layer", hint=nearest(plot.layer, stack))
    if any(name not in known for name in wanted):
        return None
    found = [metric for name in wanted for metric in known[name]]
    for metric in (plot.metric,) if isinstance(plot.metric, str) else plot.metric or ():
        if not _has(found, metric):
            who = f"“{plot.layer}” does not have" if plot.layer else "no layer has"
            valid = sorted({one.name.removesuffix(".mean") for one in found if "{" not in one.name})
            return UserError(f"{who} the metric “{metric}”", key="plot.metric", hint=listed(metric, valid))
    return None


def _has(found: list[Metric], metric: str) -> bool:
    names = (f"{metric}.mean", metric, metric.removesuffix(".mean"))
    return any(one.matches(name) for one in found for name in names)
