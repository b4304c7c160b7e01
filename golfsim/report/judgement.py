"""Quality of a classifier: confusion matrix, ROC curve, and the time to reach a threshold."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError, nearest
from golfsim.report import numbers
from golfsim.report.style import COLUMN, GREY, PAGE, head, legend, look, panel, plain, styled
from golfsim.sim.log import classes_of, note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

CELL = re.compile(r"confusion\.actual_(\d+)\.predicted_(\d+)$")
POINT = re.compile(r"roc\.(?:class_(\d+)\.)?at_(\d\.\d+)$")
MACRO = "mean over classes"
MOST_BANDS = 3
BAND = 0.25  # opacity
MOST_CLASSES = 7  # with a curve each
MOST_COUNTS = 12  # with more classes, counts do not fit into the cells
LONG = 5  # letters of a class name above which names are slanted


def confusion(
    frame: pd.DataFrame, layer: str | None = None, classes: Sequence[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the final confusion matrix of one node: counts (means over runs), shaded by share of the actual class.

    Parameters
    ----------
    frame : DataFrame
        The log of one point of a sweep, with `metrics = ["confusion"]` in `[observe]`.
    layer : str, optional
        The learning layer. Default: the first one.
    classes : sequence of str, optional
        The names of the classes. Default: those that the log states.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    import seaborn as sns

    table = confusion_counts(frame, layer)
    share = table.div(table.sum(axis=1).clip(lower=1), axis=0)
    size, names = len(table), class_names(frame, table.columns, classes)
    letters = max(map(len, names))
    with styled():
        side = min(COLUMN, 1.3 + 0.42 * size)
        ax = panel(ax, side + 0.5 + 0.05 * letters, side + (0.04 * letters if letters > LONG else 0))
        sns.heatmap(
            share, ax=ax, cmap="Greys", vmin=0, vmax=1, square=True, xticklabels=names, yticklabels=names,
            annot=table.map(lambda count: f"{count:.0f}") if size <= MOST_COUNTS else False, fmt="",
            annot_kws={"fontsize": 7 if size < 6 else 5.5},
            cbar_kws={"label": "share of the actual class", "pad": 0.03},
        )  # fmt: skip
        ax.set(xlabel="predicted class", ylabel="actual class")
        _turn(ax, letters > LONG)
        ax.grid(visible=False)
        head(ax, note_of(frame))
    return ax


def class_names(frame: pd.DataFrame, numbers_: Any, classes: Sequence[str] | None = None) -> list[str]:
    """Return the names of some classes: those given, those that the log states, or else their numbers."""
    names = list(classes if classes is not None else classes_of(frame))
    if classes is not None and len(names) <= max(numbers_):
        raise UserError(f"expected the names of {max(numbers_) + 1} classes; got {len(names)}")
    return [plain(names[number] if number < len(names) else number) for number in numbers_]


def _turn(ax: Axes, slanted: bool) -> None:
    """Set the names of rows upright, and those of columns slanted if they are long."""
    ax.tick_params(length=0)
    for tick in ax.get_xticklabels():
        tick.set(rotation=45 if slanted else 0, ha="right" if slanted else "center", rotation_mode="anchor")
    for tick in ax.get_yticklabels():
        tick.set_rotation(0)


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
    """Draw the final ROC curve of one node per layer and point: mean over runs with its 95 % interval.

    With more than two classes, each class is compared with all others, and the macro curve is the mean over classes. If
    several layers or points have such curves, or there are more than seven classes, only the macro curves are drawn.
    """
    import seaborn as sns
    from matplotlib.patches import Patch

    found = roc_points(frame, layer)
    names = list(dict.fromkeys(found["curve"]))
    with styled():
        ax = panel(ax, COLUMN - 0.4, COLUMN - 0.6 + 0.13 * len(names))
        for place, name in enumerate(names):
            curve, how = found[found["curve"] == name], look(place)
            single = len(names) > 1 and name not in set(found.loc[found["macro"], "curve"]) and found["macro"].any()
            width = 0.8 if single else 1.6 if found["macro"].any() else None
            sns.lineplot(
                data=curve, x="false", y="mean", color=how.colour, ls=how.dash, lw=width, label=plain(name),
                legend=False, sort=False, estimator=None, ax=ax,
            )  # fmt: skip
            if roc_bands(found) and (curve["high"] > curve["low"]).any():
                ax.fill_between(curve["false"], curve["low"], curve["high"], color=how.colour, alpha=BAND, lw=0)
        own = ax.lines[len(ax.lines) - len(names) :]
        ax.plot([0, 1], [0, 1], color=GREY, ls=":", lw=0.8, label="random guess")
        ax.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        ax.set_aspect("equal")
        band = [Patch(color=GREY, alpha=BAND, lw=0, label="95 % interval of the mean")] if roc_bands(found) else []
        legend(ax, [*own, ax.lines[-1], *band])
        head(ax, note_of(frame))
    return ax


def roc_bands(found: pd.DataFrame) -> set[str]:
    """Return which bands a figure of ROC curves has: intervals over runs, unless there are too many curves."""
    return {"runs"} if found["curve"].nunique() <= MOST_BANDS and (found["high"] > found["low"]).any() else set()


def roc_points(frame: pd.DataFrame, layer: str | None = None) -> pd.DataFrame:
    """Return the true positive rate by false positive rate for each curve; it may begin with a vertical step.

    `macro` states whether a curve is the mean over classes.
    """
    import pandas as pd

    rows = _matching(frame, POINT, layer, "roc")
    parts = rows["metric"].astype(str).str.extract(POINT)
    rows = rows.assign(number=pd.to_numeric(parts[0]), false=parts[1].astype(float))
    keys = [key for key in numbers.keys_of(rows) if key not in ("false", "number")] or ["layer"]
    several = rows["number"].notna().any()
    rows = rows.assign(curve=_curve_names(rows, keys), macro=bool(several))
    drawn = [_macro(rows)] if several else [rows]
    if several and rows["curve"].nunique() == 1 and rows["number"].nunique() <= MOST_CLASSES:
        names = class_names(frame, range(int(rows["number"].max()) + 1))
        drawn = [_macro(rows).assign(curve=MACRO)]
        drawn += [rows.assign(curve=rows["number"].map(lambda number: names[int(number)]), macro=False)]
    found = numbers.interval(pd.concat(drawn), ["curve", "macro", "false"])
    found = found.assign(low=found["low"].clip(0, 1), high=found["high"].clip(0, 1))
    order = {name: place for place, name in enumerate(dict.fromkeys(pd.concat(drawn)["curve"]))}
    return found.sort_values(
        ["curve", "false"], kind="stable", ignore_index=True, key=lambda v: v.map(order) if v.name == "curve" else v
    )


def _curve_names(rows: pd.DataFrame, keys: list[str]) -> list[str]:
    return [numbers.named(keys, values) for values in rows[keys].itertuples(index=False)]


def _macro(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over classes per run, and state in the name of the curve that it is one."""
    means = rows.groupby(["curve", "run", "false"], observed=True, sort=False)["value"].mean().reset_index()
    return means.assign(curve=means["curve"] + f", {MACRO}", macro=True)


def time_table(
    frame: pd.DataFrame, thresholds: Sequence[float] = (0.8, 0.85, 0.9), metric: str = "accuracy",
    *, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw a table of the cycles in which curves first reach thresholds: medians over runs.

    `time_to` returns the numbers as a DataFrame, and `reaching` draws their distribution over runs.
    """
    cells = time_cells(numbers.time_to(frame, thresholds, metric), int(numbers.rows_of(frame, metric)["cycle"].max()))
    sign = "≤" if numbers.bare(metric).endswith("error") else "≥"
    heads = ["median cycle", *(f"{short_label(metric)} {sign} {value:g}" for value in cells.columns)]
    rows = [[plain(name), *row] for name, row in zip(cells.index, cells.to_numpy().tolist(), strict=True)]
    letters = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    widths = [0.25 + 0.062 * count for count in letters]
    with styled():
        ax = panel(ax, min(PAGE, sum(widths)), 0.3 + 0.2 * (len(cells) + 1))
        ax.axis("off")
        shares = [width / sum(widths) for width in widths]
        table = ax.table(rows, colLabels=heads, loc="center", cellLoc="right", colLoc="right", colWidths=shares)
        table.scale(1, 1.15)
        _rule(table, len(cells))
        head(ax, note_of(frame))
    return ax


def short_label(metric: str) -> str:
    """Return the name of a metric for the head of a column."""
    return plain(numbers.bare(metric).replace("_", " "))


def time_cells(found: pd.DataFrame, last: int) -> pd.DataFrame:
    """Return the median cycle per curve and threshold as text.

    If not all runs reach the threshold, the text states how many do. If half of them or more do not, the median is
    later than the last cycle.
    """
    words = [_when(row, last) for row in found.to_dict("records")]
    return found.assign(text=words).pivot_table(
        index="curve", columns="threshold", values="text", aggfunc="first", sort=False
    )


def _when(row: dict[Any, Any], last: int) -> str:
    if not row["reached"]:
        return "never"
    median = f"{row['cycle']:g}" if math.isfinite(row["cycle"]) else f"> {last}"
    return median if row["reached"] == row["runs"] else f"{median} ({row['reached']} of {row['runs']} runs)"


def _rule(table: Any, rows: int) -> None:
    """Draw the lines of a table as in a book: above and below the header, and at the end."""
    table.auto_set_font_size(False)
    for (row, column), cell in table.get_celld().items():
        cell.set(edgecolor="k", linewidth=0.6, fontsize=7)
        cell.visible_edges = "TB" if row == 0 else "B" if row == rows else ""
        if column == 0:
            cell.set_text_props(ha="left")
