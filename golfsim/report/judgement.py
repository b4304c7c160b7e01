"""Quality of a classifier: confusion matrix, ROC curve, and the time to reach a threshold."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError, nearest
from golfsim.report import numbers
from golfsim.report.style import COLUMN, GREY, head, legend, look, panel, plain, styled
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

CELL = re.compile(r"confusion\.actual_(\d+)\.predicted_(\d+)$")
POINT = re.compile(r"roc\.at_(\d\.\d+)$")
MOST_BANDS = 3
MOST_COUNTS = 12  # with more classes, counts do not fit into the cells


def confusion(frame: pd.DataFrame, layer: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the final confusion matrix of one node: counts (means over runs), shaded by share of the actual class."""
    table = confusion_counts(frame, layer)
    share = table.div(table.sum(axis=1).clip(lower=1), axis=0).to_numpy()
    size = len(table)
    with styled():
        side = min(COLUMN, 1.3 + 0.42 * size)
        ax = panel(ax, side + 0.5, side)
        image = ax.imshow(share, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        if size <= MOST_COUNTS:
            _write(ax, table.to_numpy(float), share)
        ax.set(xlabel="predicted class", ylabel="actual class", xticks=range(size), yticks=range(size))
        ax.grid(visible=False)
        ax.figure.colorbar(image, ax=ax, label="share of the actual class", pad=0.03)
        head(ax, note_of(frame))
    return ax


def _write(ax: Axes, counts: Any, share: Any) -> None:
    """Write the counts into their cells."""
    for row in range(len(counts)):
        for column in range(len(counts)):
            colour = "w" if share[row, column] > 0.5 else "k"
            size = 7 if len(counts) < 6 else 5.5
            ax.text(column, row, f"{counts[row, column]:.0f}", ha="center", va="center", fontsize=size, color=colour)


def confusion_counts(frame: pd.DataFrame, layer: str | None = None) -> pd.DataFrame:
    """Return the counts by actual × predicted class at the last cycle, as means over runs, of one point of a sweep."""
    rows = _matching(frame, CELL, layer, "confusion")
    if numbers.varied(rows):
        raise UserError(
            "a confusion matrix needs a single point of a sweep",
            hint=f"choose one value of {', '.join(numbers.varied(rows))}",
        )
    parts = rows["metric"].astype(str).str.extract(CELL).astype(int)
    means = rows.assign(actual=parts[0], predicted=parts[1])
    return means.pivot_table(index="actual", columns="predicted", values="value", aggfunc="mean", observed=True)


def _matching(frame: pd.DataFrame, pattern: re.Pattern[str], layer: str | None, name: str) -> pd.DataFrame:
    """Return the rows of matching metrics at the last cycle of each run."""
    rows = frame[frame["metric"].astype(str).str.match(pattern)]
    if rows.empty:
        raise UserError(f"no {name} was measured", hint=f'add metrics = ["{name}"] to [observe] and run again')
    if layer is None and name == "confusion":
        layer = str(rows["layer"].iloc[0])
    if layer is not None and layer not in set(rows["layer"]):
        raise UserError(f"“{layer}” has no {name}", hint=nearest(layer, map(str, rows["layer"].unique())))
    rows = rows if layer is None else rows[rows["layer"] == layer]
    groups = rows.groupby([*numbers.varied(rows), "layer", "run"], observed=True, dropna=False)
    return rows[rows["cycle"] == groups["cycle"].transform("max")]


def roc(frame: pd.DataFrame, layer: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the final ROC curve of one node per layer and point: mean over runs with its 95 % interval."""
    found = roc_points(frame, layer)
    names = list(dict.fromkeys(found["curve"]))
    with styled():
        ax = panel(ax, COLUMN - 0.4, COLUMN - 0.6 + 0.13 * len(names))
        for place, name in enumerate(names):
            curve, how = found[found["curve"] == name], look(place)
            ax.plot(curve["false"], curve["mean"], ls=how.dash, color=how.colour, label=plain(name))
            if roc_bands(found) and (curve["high"] > curve["low"]).any():
                low, high = curve["low"].clip(0, 1), curve["high"].clip(0, 1)
                ax.fill_between(curve["false"], low, high, color=how.colour, alpha=0.25, lw=0)
        own = ax.lines[len(ax.lines) - len(names) :]
        ax.plot([0, 1], [0, 1], color=GREY, ls=":", lw=0.8, label="random guess")
        ax.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        ax.set_aspect("equal")
        legend(ax, [*own, ax.lines[-1]])
        head(ax, note_of(frame))
    return ax


def roc_bands(found: pd.DataFrame) -> set[str]:
    """Return which bands a figure of ROC curves has: intervals over runs, unless there are too many curves."""
    return {"runs"} if found["curve"].nunique() <= MOST_BANDS and (found["high"] > found["low"]).any() else set()


def roc_points(frame: pd.DataFrame, layer: str | None = None) -> pd.DataFrame:
    """Return the true positive rate by false positive rate for each curve; it may begin with a vertical step."""
    rows = _matching(frame, POINT, layer, "roc")
    rows = rows.assign(false=rows["metric"].astype(str).str.extract(POINT)[0].astype(float))
    keys = [key for key in numbers.keys_of(rows) if key != "false"] or ["layer"]
    found = numbers.interval(rows, [*keys, "false"])
    names = [numbers.named(keys, values) for values in found[keys].itertuples(index=False)]
    return found.assign(curve=names).sort_values("false", kind="stable", ignore_index=True)


def time_table(
    frame: pd.DataFrame, thresholds: Sequence[float] = (0.8, 0.85, 0.9), metric: str = "accuracy",
    *, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw a table of the cycles in which curves first reach thresholds; `numbers.time_to` returns a DataFrame."""
    cells = time_cells(numbers.time_to(frame, thresholds, metric))
    with styled():
        first = max(len(str(name)) for name in cells.index)
        ax = panel(ax, min(7.0, 0.5 + 0.065 * first + 0.95 * len(cells.columns)), 0.45 + 0.2 * (len(cells) + 1))
        ax.axis("off")
        sign = "≤" if metric.endswith("error") else "≥"
        heads = [f"{sign} {value:g}" for value in cells.columns]
        rows = [[plain(name), *row] for name, row in zip(cells.index, cells.to_numpy().tolist(), strict=True)]
        widths = [0.065 * first + 0.3, *[0.95] * len(heads)]
        table = ax.table(
            rows,
            colLabels=[numbers.label_of(metric), *heads],
            loc="center",
            cellLoc="right",
            colLoc="right",
            colWidths=[w / sum(widths) for w in widths],
        )
        _rule(table, len(cells))
        head(ax, note_of(frame))
    return ax


def time_cells(found: pd.DataFrame) -> pd.DataFrame:
    """Return the median cycle per curve and threshold as text, with the share of runs that reach it if not all do."""
    words = [_when(row) for row in found.to_dict("records")]
    return found.assign(text=words).pivot_table(
        index="curve", columns="threshold", values="text", aggfunc="first", sort=False
    )


def _when(row: dict[Any, Any]) -> str:
    median = f"{row['cycle']:g}" if math.isfinite(row["cycle"]) else "never" if not row["reached"] else "–"
    return median if row["reached"] in (0, row["runs"]) else f"{median} ({row['reached']}/{row['runs']})"


def _rule(table: Any, rows: int) -> None:
    """Draw the lines of a table as in a book: above and below the header, and at the end."""
    table.auto_set_font_size(False)
    for (row, column), cell in table.get_celld().items():
        cell.set(edgecolor="k", linewidth=0.6, fontsize=7)
        cell.visible_edges = "TB" if row == 0 else "B" if row == rows else ""
        if column == 0:
            cell.set_text_props(ha="left")
