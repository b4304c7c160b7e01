"""Records of two features in the plane, with the lines that separate them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.report.numbers import named
from golfsim.report.style import (  # fmt: skip
    COLUMN,
    MARKERS,
    PAGE,
    PALETTE,
    beneath,
    head,
    legend,
    look,
    panel,
    panels,
    plain,
    say,
    styled,
    within,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from golfsim.scenario.model import Scenario
    from golfsim.sim.simulation import Simulation

Line = tuple[float, float, float]  # a, b, c of a·x + b·y + c = 0
MOST_POINTS = 1000  # of a figure
MOST_FITTED = 2000  # records for LibSVM, whose time grows with their square
INNER = (1, 99)  # percentiles of the records that a figure shows: strong noise has distant outliers


@dataclass(frozen=True)
class Plane:
    """Records of two features, original or published, and lines by name."""

    x: NDArray[Any]  # [records, 2]
    labels: NDArray[Any]
    lines: dict[str, Line]
    names: tuple[str, str] = ("first feature", "second feature")
    note: str = ""


def scatter(
    x: NDArray[Any], labels: NDArray[Any], lines: Mapping[str, Line] | None = None,
    *, names: tuple[str, str] = ("first feature", "second feature"), note: str = "", ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw records of two features by class, with separating lines a·x + b·y + c = 0.

    At most a thousand records are drawn, and the axes cover the central 98 % of the records.

    Parameters
    ----------
    x : array of shape (records, 2)
        The features.
    labels : array of shape (records,)
        The classes.
    lines : mapping of str to (a, b, c), optional
        The lines by name.
    names : pair of str
        The names of the features.
    note : str
        A note above the figure.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    x, labels = np.asarray(x), np.asarray(labels)
    if x.ndim != 2 or x.shape[1] != 2 or len(x) != len(labels) or not len(x):
        raise UserError(f"expected records of two features with one label each; got {x.shape} and {labels.shape}")
    chosen = np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(int)
    with styled():
        ax = panel(ax, COLUMN, COLUMN)
        for place, one in enumerate(np.unique(labels)):
            own = chosen[labels[chosen] == one]
            _draw_class(ax, x[own], place, plain(f"class {one}"))
        _window(ax, x)
        for place, (name, line) in enumerate((lines or {}).items(), 4):
            _draw_line(ax, line, plain(name), place)
        ax.set(xlabel=plain(names[0]), ylabel=plain(names[1]))
        legend(ax, [*ax.collections, *ax.lines])
        head(ax, note)
    return ax


def _draw_class(ax: Axes, x: NDArray[Any], place: int, name: str) -> None:
    """Draw the records of one class: filled or hollow, so that classes are distinct in grey print."""
    colour = PALETTE[place % len(PALETTE)]
    how: Any = {"facecolors": colour if place % 2 == 0 else "none", "edgecolors": colour, "linewidths": 0.5}
    ax.scatter(x[:, 0], x[:, 1], s=7, marker=MARKERS[place % len(MARKERS)], alpha=0.6, label=name, **how)


def _window(ax: Axes, x: NDArray[Any]) -> None:
    """Set the limits of the axes: most of the records, and a margin."""
    low, high = np.percentile(x, INNER, axis=0)
    margin = 0.08 * np.maximum(high - low, 1e-9)
    ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1]))


def _draw_line(ax: Axes, line: Line, name: str, place: int) -> None:
    a, b, c = line
    if not (np.isfinite([a, b, c]).all() and (a or b)):
        raise UserError(f"“{name}” is not a line: {a:g}·x + {b:g}·y + {c:g} = 0")
    nearest = np.array([a, b]) * -c / (a * a + b * b)  # the point of the line that is nearest to the origin
    how = look(place)
    ax.axline(
        (nearest[0], nearest[1]), (nearest[0] - b, nearest[1] + a), color=how.colour, ls=how.dash, lw=1.4, label=name
    )


def scatters(planes: Mapping[str, Plane], *, figure: Figure | None = None, ax: Axes | None = None) -> Axes:
    """Draw several planes side by side, each with its name, in a figure or in the place of axes.

    Return the first axes; its figure has all of them.
    """
    across = min(len(planes), 3)
    down = -(-len(planes) // across)
    with styled():
        axes = panels(figure or within(ax), down, across, (PAGE * across / 3, 2.2 * down + 0.3))
        for one, (name, plane) in zip(axes.flat, planes.items(), strict=False):
            scatter(plane.x, plane.labels, plane.lines, names=plane.names, ax=one)
            one.set_title(plain(name))
            one.get_legend().remove()
        for unused in axes.flat[len(planes) :]:
            unused.set_visible(False)
        first = axes[0, 0]
        beneath(first.figure, [*first.collections, *first.lines])
        say(first.figure, next(iter(planes.values())).note)
    return first  # type: ignore[no-any-return]


def planes_of(scenario: Scenario) -> dict[str, Plane]:
    """Return the records and lines of the first run of each point of a sweep."""
    from golfsim.scenario.sweep import points
    from golfsim.sim.simulation import Simulation

    found = {}
    for point in points(scenario):
        simulation = Simulation(point.scenario)
        for _ in simulation:
            pass
        found[named(list(point.values), list(point.values.values()))] = plane_of(simulation)
    return found


def plane_of(simulation: Simulation, layer: str | None = None, *, published: bool = True) -> Plane:
    """Return the records of a run and two separating lines: of the learning layer and of LibSVM.

    The line of the learning layer is the mean over all nodes that hold a model. With `published`, records are those of
    the publishing layer, x plus noise. If it publishes the product of label and features, this is multiplied by the
    label again. LibSVM (scikit-learn's SVC with a linear kernel) is fitted on the same records, at most two thousand.
    """
    learner = _learner(simulation, layer)
    x, labels = _records(simulation, published)
    lines = {learner.name: _line_of(learner, simulation), "LibSVM": libsvm(x, labels)}
    names = tuple(simulation.features[:2]) if len(simulation.features) >= 2 else Plane.names
    return Plane(x, labels, lines, (str(names[0]), str(names[1])), simulation.log.note)


def _learner(simulation: Simulation, name: str | None) -> Any:
    from golfsim.protocol.learner import Learner

    found = {key: layer for key, layer in simulation.layers.items() if isinstance(layer, Learner)}
    if (name is not None and name not in found) or not found:
        raise UserError(f"there is no learning layer{f' “{name}”' if name else ''}")
    return found[name] if name else next(iter(found.values()))


def _records(simulation: Simulation, published: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    from golfsim.protocol.records import Published
    from golfsim.protocol.symbols import vectors_of

    raw = simulation.raw
    if raw is None or raw.features != 2 or raw.classes != 2:
        raise UserError("a scatter plot needs records of two features and two classes")
    layer = next((one for one in simulation.layers.values() if isinstance(one, Published)), None)
    if layer is None or not published:
        return raw.rows.x, raw.rows.label
    there = np.flatnonzero(raw.published_by(layer))
    sign = np.where(raw.rows.label == 1, 1, -1)[there, None] if layer.rows.folded else 1
    labels = raw.rows.label if layer.rows.folded else layer.rows.label
    return vectors_of(layer.rows.x, 1, there)[:, 0] * sign, labels[there]


def _line_of(learner: Any, simulation: Simulation) -> Line:
    """Return the line of a linear model, from its scores at the unit vectors and at the origin."""
    holders = learner.holders(simulation.world)
    if not holders.size:
        raise UserError(f"no node holds a model of “{learner.name}”")
    units = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    origin, a, b = learner.scores(holders, units).astype(np.float64).mean(axis=1)[:, 0]
    return float(a - origin), float(b - origin), float(origin)


def libsvm(x: NDArray[Any], labels: NDArray[Any]) -> Line:
    """Return the line of a linear support vector machine, fitted on at most two thousand of the records."""
    from sklearn.svm import SVC

    chosen = np.linspace(0, len(x) - 1, min(len(x), MOST_FITTED)).astype(int)
    if np.unique(labels[chosen]).size < 2:
        raise UserError("all records are of one class, so no line separates them")
    model = SVC(kernel="linear").fit(x[chosen], labels[chosen])
    return float(model.coef_[0, 0]), float(model.coef_[0, 1]), float(model.intercept_[0])
