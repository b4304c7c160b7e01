"""Final values of runs over a sweep: heat maps, lines, privacy–utility curves, learning curves, error bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.report import numbers
from golfsim.report.style import (  # fmt: skip
    COLOURS,
    COLUMN,
    GREY,
    HEIGHT,
    PAGE,
    beneath,
    head,
    legend,
    lines_of,
    look,
    number,
    panel,
    panels,
    plain,
    say,
    short,
    styled,
    within_shares,
)
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND_LINE = 0.13  # inches
LETTERS = 12  # of tick labels per inch
LARGEST_CELL = 0.62  # inches of a cell's width
BARS = "95 % interval of the mean, {} runs"
RECOVERY = {"label.linear": "best linear guess", "label.sum": "sign of the sum", "label.base": "largest class"}
ATTACK_LABELS = {"label.linear": "share of labels recovered", "membership.advantage": "membership advantage"}
ATTACKS = tuple(ATTACK_LABELS)  # metrics that are drawn below the accuracy
SIZES = ("data.train", "nodes.records", "nodes.number")  # possible horizontal axes of a learning curve


def heatmap(
    frame: pd.DataFrame, rows: str, columns: str, metric: str = "accuracy", *, figure: Figure | None = None
) -> Axes:
    """Draw the mean of the metric over runs per pair of values, with one panel per combination of the other keys.

    Return the first axes; its figure has all of them.
    """
    parts = numbers.facets(frame, metric, [rows, columns])
    tables = [grid(part, rows, columns, metric) for _, part in parts]
    across = min(len(parts), 3)
    down = -(-len(parts) // across)
    with styled():
        wide = min(PAGE, across * (LARGEST_CELL * max(table.shape[1] for table in tables) + 0.4) + 0.8)
        slanted = max(len(number(value)) for table in tables for value in table.columns)
        tall = down * (0.22 * max(table.shape[0] for table in tables) + 0.4 + 0.045 * min(slanted, 60)) + 0.3
        axes = panels(figure, down, across, (max(wide, 2.2), tall), sharey=True)
        limits = limits_of(tables)
        for ax, (title, _), table in zip(axes.flat, parts, tables, strict=False):
            image = _map(ax, table, short(rows) if ax in axes[:, 0] else "", limits)
            ax.set(title=plain(title), xlabel=short(columns) if _numeric(table.columns) else "")
        for ax in axes.flat[len(parts) :]:
            ax.set_visible(False)
        axes[0, 0].figure.colorbar(image, ax=axes, label=numbers.label_of(metric), aspect=30, pad=0.02)
        say(axes[0, 0].figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def grid(frame: pd.DataFrame, rows: str, columns: str, metric: str) -> pd.DataFrame:
    """Return the mean of the metric over runs as a table.

    Numeric keys increase upwards and to the right; other values are in the order of the sweep.
    """
    means = numbers.last_means(frame, metric, [rows, columns])
    table = means.pivot_table(index=rows, columns=columns, values="mean", observed=True, sort=False)
    up, right = _in_order(table.index)[:: -1 if _numeric(table.index) else 1], _in_order(table.columns)
    return table.reindex(index=up, columns=right)


def _in_order(values: Any) -> list[Any]:
    return sorted(values) if _numeric(values) else list(values)


def limits_of(tables: list[pd.DataFrame]) -> tuple[float, float]:
    """Return the limits of the colour scale: 0 and 1 if shares cover more than half of it, otherwise the extremes."""
    values = [float(value) for table in tables for _, value in _cells(table)]
    low, high = min(values), max(values)
    return (0.0, 1.0) if low >= 0 and high <= 1 and high - low > 0.5 else (low, high if high > low else low + 1)


def _map(ax: Axes, table: pd.DataFrame, label: str, limits: tuple[float, float]) -> Any:
    """Draw one map with its values as text; all maps have the same colour scale."""
    low, high = limits
    image = ax.imshow(table.to_numpy(float), cmap=COLOURS, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    digits = 2 if limits == (0.0, 1.0) else 3
    for (row, column), value in _cells(table):
        dark = value - low < (high - low) / 2
        word = f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.4g}"
        ax.text(column, row, word, ha="center", va="center", fontsize=6.5, color="w" if dark else "k")
    ax.set_xticks(range(table.shape[1]), [number(value) for value in table.columns])
    if max(len(number(value)) for value in table.columns) > 4:
        ax.tick_params(axis="x", rotation=45)
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    ax.set_yticks(range(table.shape[0]), [number(value) for value in table.index])
    ax.set_ylabel(label)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return image


def _cells(table: pd.DataFrame) -> list[tuple[tuple[int, int], float]]:
    values = table.to_numpy(float)
    places = [(row, column) for row in range(values.shape[0]) for column in range(values.shape[1])]
    return [(place, float(values[place])) for place in places if not math.isnan(values[place])]


def _numeric(values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def lines(
    frame: pd.DataFrame, x: str, by: str | None = None, metric: str = "accuracy", *, figure: Figure | None = None
) -> Axes:
    """Draw the mean of the metric over runs against a key, with 95 % intervals.

    There is one line per case (or per value of the key `by`), and one panel per combination of the other keys. Return
    the first axes; its figure has all of them.
    """
    by = by or _cases(frame)
    parts = numbers.facets(frame, metric, [x, by] if by else [x])
    across = min(len(parts), 3)
    down = -(-len(parts) // across)
    with styled():
        names = _names(numbers.rows_of(frame, metric), by)
        words = [*names.values(), BARS.format(10)]
        width = max(COLUMN, PAGE * across / 3)
        tall = down * 1.9 + 0.3 + 0.15 * lines_of(words, width)
        axes = panels(figure, down, across, (width, tall), sharey=True)
        for ax, (title, part) in zip(axes.flat, parts, strict=False):
            _against(ax, numbers.last_means(part, metric, [by, x] if by else [x]), x, by, names)
            ax.set(title=plain(title), ylabel=numbers.label_of(metric) if ax in axes[:, 0] else "")
        within_shares(axes, metric)
        for ax in axes.flat[len(parts) :]:
            ax.set_visible(False)
        beneath(axes[0, 0].figure, [*_handles(axes.flat, by), _bars_of(frame, metric)], 3, _heading(by, names))
        say(axes[0, 0].figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def _cases(frame: pd.DataFrame) -> str | None:
    return "case" if "case" in numbers.varied(frame) else None


def _names(frame: pd.DataFrame, by: str | None) -> dict[Any, str]:
    """Return the names of lines by value; a line looks the same in all panels."""
    if by is None or by not in frame:
        return {"": ""}
    return {value: plain(numbers.value_of(by, value)) for value in dict.fromkeys(frame[by].dropna())}


def _heading(by: str | None, names: dict[Any, str]) -> str:
    """Return the title of a legend: the key of its values, unless they are numbers, cases or data sets."""
    telling = by is None or by in numbers.TELLING or any(isinstance(name, int | float) for name in names)
    return "" if telling else short(str(by))


def _against(ax: Axes, means: pd.DataFrame, x: str, by: str | None, names: dict[Any, str]) -> None:
    """Draw lines of means with intervals over a key; infinity is at the right, one step beyond the largest number."""
    ticks = sorted(float(value) for value in set(means[x]))
    spots = places(ticks)
    for place, (name, label) in enumerate(names.items()):
        curve = (means[means[by] == name] if by else means).astype({x: float}).sort_values(x)
        if curve.empty:
            continue
        how = look(place)
        at = [spots[value] for value in curve[x]]
        ax.errorbar(
            at, curve["mean"], numbers.halves(curve), ls=how.dash, color=how.colour, marker=how.marker, label=label,
            capsize=1.5, elinewidth=0.7, ms=3,
        )  # fmt: skip
    _scale(ax, ticks, spots, short(x))


def places(values: list[float]) -> dict[float, float]:
    """Return the positions of values along an axis: infinity is one step beyond the largest number."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return {value: 1.0 for value in values}
    step = 2.5 if min(finite) > 0 else 1
    return {value: value if math.isfinite(value) else max(finite) * step for value in values}


def _scale(ax: Axes, ticks: list[float], spots: dict[float, float], label: str) -> None:
    """Use a logarithmic axis if values differ by a factor of eight or more, with the values as ticks."""
    from matplotlib.ticker import NullLocator

    at = [spots[value] for value in ticks]
    if min(at) > 0 and max(at) >= 8 * min(at):
        ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    most = max(3, min(9, int(_width(ax) * LETTERS) // (1 + max(len(number(value)) for value in ticks))))
    kept = thinned(ticks, spots, log=ax.get_xscale() == "log", most=most)
    ax.set_xticks([spots[value] for value in kept], [number(value) for value in kept])
    ax.set_xlabel(label)


def _width(ax: Axes) -> float:
    """Return the approximate width of a panel in inches."""
    place, figure = ax.get_subplotspec(), ax.figure
    return figure.get_figwidth() / (place.get_gridspec().ncols if place is not None else 1)  # type: ignore[union-attr]


def thinned(ticks: list[float], spots: dict[float, float], log: bool, most: int = 9) -> list[float]:
    """Return the values whose labels do not overlap; the last value is always included."""
    place = {value: math.log(spots[value]) if log else spots[value] for value in ticks}
    span = (max(place.values()) - min(place.values())) or 1.0
    kept = [ticks[-1]]
    for value in reversed(ticks[:-1]):
        if place[kept[-1]] - place[value] >= span / most:
            kept.append(value)
    return kept[::-1]


def _handles(panels_: Any, by: str | None) -> list[Any]:
    """Return the lines of all panels, each once."""
    found: dict[str, Any] = {}
    for ax in panels_ if by else ():
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values())


def _bars_of(frame: pd.DataFrame, metric: str) -> Any:
    """Return the legend entry that explains the error bars."""
    from matplotlib.lines import Line2D

    rows = numbers.rows_of(frame, metric)
    keys = numbers.varied(rows) or ["metric"]
    counts = rows.groupby(keys, observed=True, dropna=False)["run"].nunique()
    least, most = int(counts.min()), int(counts.max())
    runs = f"{most}" if least == most else f"{least} to {most}"
    barred = most >= numbers.LEAST
    text = BARS.format(runs) if barred else f"mean over {runs} runs" if most > 1 else "one run"
    return Line2D([], [], color=GREY, marker="|" if barred else ".", ls="", ms=7 if barred else 4, label=text)


def learning_curve(
    frame: pd.DataFrame, x: str | None = None, by: str | None = None, metric: str = "error",
    *, figure: Figure | None = None,
) -> Axes:  # fmt: skip
    """Draw the final metric against the amount of training data; by default the size that the sweep varies."""
    found = x or next((key for key in SIZES if key in numbers.varied(frame)), None)
    if found is None:
        raise UserError("the sweep varies no size", hint=f"a learning curve needs a sweep over {' or '.join(SIZES)}")
    return lines(frame, found, by, metric, figure=figure)


def privacy_utility(
    frame: pd.DataFrame, epsilon: str | None = None, by: str | None = None, metric: str = "accuracy",
    *, figure: Figure | None = None,
) -> Axes:  # fmt: skip
    """Draw accuracy over ε and below, as far as they were measured, label recovery and the membership attack.

    Values are means over runs with 95 % intervals. There is one line per case (or per value of the key `by`), and one
    column per combination of the other keys. The dotted line is the share of the largest class. Return the first axes;
    its figure has all of them.
    """
    x, by = epsilon or epsilon_of(frame), by or _cases(frame)
    parts = numbers.facets(frame, metric, [x, by] if by else [x])
    attacked = [attack for attack in ATTACKS if numbers.has(frame, attack)]
    with styled():
        names = _names(numbers.rows_of(frame, metric), by)
        words = [*names.values(), BARS.format(10), "share of the largest class"]
        width = max(COLUMN, min(PAGE, 0.3 + 2.25 * len(parts)))
        tall = 2.0 + 1.2 * len(attacked) + 0.15 * lines_of(words, width)
        axes = panels(figure, 1 + len(attacked), len(parts), (width, tall), sharey="row", sharex="col")
        for column, (title, part) in enumerate(parts):
            _against(axes[0, column], numbers.last_means(part, metric, [by, x] if by else [x]), x, by, names)
            axes[0, column].set(title=plain(title), xlabel="" if attacked else short(x))
            for row, attack in enumerate(attacked, 1):
                _attack(axes[row, column], part, attack, (x, by, names))
                axes[row, column].set_xlabel(short(x) if row == len(attacked) else "")
        axes[0, 0].set_ylabel(numbers.label_of(metric))
        within_shares(axes[:1], metric)
        for row, attack in enumerate(attacked, 1):
            axes[row, 0].set_ylabel(ATTACK_LABELS[attack])
            within_shares(axes[row : row + 1], attack)
        handles = [*_handles(axes.flat, by), _bars_of(frame, metric), *_guess(ATTACKS[0] in attacked)]
        beneath(axes[0, 0].figure, handles, 3, _heading(by, names))
        say(axes[0, 0].figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def epsilon_of(frame: pd.DataFrame) -> str:
    """Return the key of the ε that the sweep varies."""
    found = [key for key in numbers.varied(frame) if key.rpartition(".")[2] == "epsilon"]
    if not found:
        raise UserError("the sweep varies no ε", hint='state the key, e.g. epsilon="published.epsilon"')
    return found[0]


def _attack(ax: Axes, part: pd.DataFrame, attack: str, how: tuple[str, str | None, dict[Any, str]]) -> None:
    """Draw an attack over ε; for labels with the share of the largest class, which needs no data."""
    x, by, names = how
    found = numbers.interval(numbers.last(part, attack), [by, x] if by else [x])
    _against(ax, numbers.bounded(found, attack), x, by, names)
    if attack == ATTACKS[0]:
        ax.axhline(numbers.last(part, "label.base")["value"].mean(), color=GREY, ls=":", lw=1)


def _guess(attacked: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=GREY, ls=":", lw=1, label="share of the largest class")] if attacked else []


def bars(frame: pd.DataFrame, x: str, by: str | None = None, metric: str = "error", *, ax: Axes | None = None) -> Axes:
    """Draw the final metric per value of a key, e.g. the size of groups.

    The dark bar is the 95 % interval of the mean over runs. The light, wide bar is the standard deviation over nodes,
    averaged over runs.
    """
    by = by or ("layer" if "layer" in numbers.keys_of(numbers.rows_of(frame, metric)) else None)
    means = spreads(frame, x, by, metric)
    values = list(dict.fromkeys(sorted(means[x], key=_sortable)))
    names = list(dict.fromkeys(means[by])) if by else [""]
    with styled():
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * (2 + lines_of([str(name) for name in names], COLUMN - 0.5)))
        for place, name in enumerate(names):
            part = means[means[by] == name] if by else means
            shift = (place - (len(names) - 1) / 2) * 0.6 / len(names)
            _whiskers(ax, part, [values.index(value) + shift for value in part[x]], place, name)
        ax.set_xticks(range(len(values)), [number(value) for value in values])
        ax.set(xlabel=short(x), ylabel=numbers.label_of(metric), xlim=(-0.6, len(values) - 0.4))
        within_shares(ax, metric)
        ax.grid(visible=False, axis="x")
        spread = _spread_bar() if (means["std"] > 0).any() else []
        legend(ax, [*_dots(ax, names), _bars_of(frame, metric), *spread])
        head(ax, note_of(frame))
    return ax


def spreads(frame: pd.DataFrame, x: str, by: str | None, metric: str) -> pd.DataFrame:
    """Return per key values the mean over runs with its interval, and the standard deviation over nodes."""
    keys = [by, x] if by else [x]
    means = numbers.last_means(frame, metric, keys)
    peers = numbers.interval(numbers.last(frame, f"{metric}.std"), keys)[[*keys, "mean"]]
    return means.merge(peers.rename(columns={"mean": "std"}), on=keys, how="left")


def _sortable(value: Any) -> tuple[bool, Any]:
    return (False, value) if isinstance(value, int | float) else (True, 0)


def _whiskers(ax: Axes, part: pd.DataFrame, at: list[float], place: int, name: Any) -> None:
    how = look(place)
    ax.errorbar(at, part["mean"], part["std"].fillna(0), ls="", color=how.colour, alpha=0.3, elinewidth=4)
    ax.errorbar(
        at, part["mean"], numbers.halves(part), ls="", color=how.colour, marker=how.marker,
        capsize=2, elinewidth=1, label=plain(number(name)),
    )  # fmt: skip


def _dots(ax: Axes, names: list[Any]) -> list[Any]:
    from matplotlib.lines import Line2D

    looks = [(look(place), name) for place, name in enumerate(names)] if len(names) > 1 else []
    return [
        Line2D([], [], color=how.colour, marker=how.marker, ls="", label=plain(number(name))) for how, name in looks
    ]


def _spread_bar() -> list[Any]:
    """Return the legend entry that explains the light bars."""
    from matplotlib.patches import Patch

    return [Patch(color=GREY, alpha=0.3, lw=0, label="± standard deviation over nodes")]
