"""The figure of a scenario, and all figure functions in one place: each takes a DataFrame and returns Axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from golfsim.core.errors import UserError, nearest
from golfsim.report import numbers
from golfsim.report.curves import (
    LINE_HEIGHT,
    convergence,
    messages,
    online,
    overlay,
    overlay_parts,
    small_multiples,
    spent,
)
from golfsim.report.grids import bars, heatmap, learning_curve, lines, privacy_utility
from golfsim.report.judgement import confusion, roc, time_table
from golfsim.report.networks import animation, degrees, drawing, raster
from golfsim.report.numbers import last_means, time_to, varied
from golfsim.report.scatter import plane_of, scatter
from golfsim.report.style import STYLE, save, say
from golfsim.sim.log import note_of, noted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from golfsim.scenario.tables import PlotConfig

__all__ = [
    "LINE_HEIGHT",
    "STYLE",
    "animation",
    "bars",
    "confusion",
    "convergence",
    "curves_of",
    "degrees",
    "drawing",
    "heatmap",
    "last_means",
    "learning_curve",
    "lines",
    "messages",
    "of",
    "online",
    "only",
    "overlay",
    "plane_of",
    "privacy_utility",
    "raster",
    "roc",
    "save",
    "say",
    "scatter",
    "side_by_side",
    "small_multiples",
    "spent",
    "time_table",
    "time_to",
    "usual",
    "varied",
]  # fmt: skip

MOST_CURVES = 8  # per panel
MEASURE = "measure"  # the column that distinguishes several metrics


def of(plot: PlotConfig, frame: pd.DataFrame) -> Axes:
    """Draw the figure that a scenario states in [plot]."""
    frame = frame if plot.layer is None else only(frame, plot.layer)
    if plot.kind == "convergence":
        if plot.metric is None and plot.x is None:
            return usual(frame)
        metric, x_log, y_log = str(plot.metric or "error"), _is_log(plot.x_scale), plot.y_scale == "log"
        return curves_of(frame, metric, plot.x or "cycle", x_log, y_log)
    metrics = (plot.metric or "accuracy",) if not isinstance(plot.metric, tuple) else plot.metric
    frame, metric = (frame, metrics[0]) if len(metrics) == 1 else side_by_side(frame, metrics)
    rows, columns, lines_ = (MEASURE if key == "metric" else key for key in (plot.rows, plot.columns, plot.lines))
    if plot.kind == "heatmap":
        assert rows is not None
        assert columns is not None
        return heatmap(frame, rows, columns, metric)
    assert plot.x is not None
    if plot.kind == "lines":
        x_log, y_log = _is_log(plot.x_scale), plot.y_scale == "log"
        return lines(frame, plot.x, lines_, metric, reference=plot.reference, x_log=x_log, y_log=y_log)
    kinds: dict[str, Callable[..., Axes]] = {"bars": bars, "privacy-utility": privacy_utility}
    return kinds[plot.kind](frame, plot.x, lines_, metric)


def _is_log(scale: str | None) -> bool | None:
    """Return whether an axis is stated to be logarithmic; None if nothing is stated."""
    return None if scale is None else scale == "log"


def usual(frame: pd.DataFrame) -> Axes:
    """Draw the curves that suit a log if no metric is stated.

    They are those of the error, else of the overlay, else of the first metric of the layers, else of the messages.
    """
    if numbers.has(frame, "error.mean"):
        return curves_of(frame)
    if overlay_parts(frame):
        return overlay(frame)
    own = numbers.own_metrics(frame)
    return curves_of(frame, own[0]) if own else messages(frame)


def has_usual(frame: pd.DataFrame) -> bool:
    """Return whether a log has anything that `usual` draws."""
    sent = frame.loc[frame["metric"] == "messages.sent", "value"]
    learned = numbers.has(frame, "error.mean") or bool(overlay_parts(frame))
    return learned or bool(numbers.own_metrics(frame)) or bool((sent > 0).any())


def only(frame: pd.DataFrame, layer: str) -> pd.DataFrame:
    """Return the rows of one layer."""
    rows = frame[frame["layer"] == layer]
    if rows.empty:
        known = [str(name) for name in frame["layer"].unique()]
        raise UserError(f"no layer is called “{layer}”", key="plot.layer", hint=nearest(layer, known))
    return rows


def side_by_side(frame: pd.DataFrame, metrics: tuple[str, ...]) -> tuple[pd.DataFrame, str]:
    """Return several metrics as one, distinguished by the column `measure`, and its name.

    The name is the common ending of all metrics if there is one, otherwise that of the first.
    """
    import pandas as pd

    least = min(metrics, key=len)
    name = least if all(metric.endswith(least) for metric in metrics) else metrics[0]
    parts = [
        numbers.rows_of(frame, metric).assign(**{MEASURE: numbers.bare(metric).replace("_", " ")}) for metric in metrics
    ]
    return noted(pd.concat(parts).assign(metric=f"{numbers.bare(name)}.mean"), [note_of(frame)]), name


def curves_of(
    frame: pd.DataFrame, metric: str = "error", over: str = "cycle", log: bool | None = None, y_log: bool = False
) -> Axes:
    """Draw convergence curves: in one panel, or in small multiples if there are too many for one.

    Curves over messages or bytes are always in one panel. `log` and `y_log` say whether the axes are logarithmic.
    """
    split = splitting(frame, metric) if over == "cycle" else None
    if split is None:
        return convergence(frame, metric, over=over, log=log, y_log=y_log)
    return small_multiples(frame, split, metric, log=log, y_log=y_log)


def splitting(frame: pd.DataFrame, metric: str) -> str | None:
    """Return the key whose values get one panel each, so that panels have few curves; None if one panel suffices."""
    rows = numbers.rows_of(frame, metric)
    keys = numbers.keys_of(rows)
    if len(rows[keys].drop_duplicates()) <= MOST_CURVES or len(keys) < 2:
        return None
    panels = {key: rows[key].nunique() for key in keys if key != "layer"}
    few = [key for key, count in panels.items() if count <= 12]
    return max(few or panels, key=lambda key: panels[key])
