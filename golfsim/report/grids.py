"""Final values of runs over a sweep: heat maps, lines, privacy–utility curves, learning curves, error bars."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.report import numbers
from golfsim.report.style import (  # fmt: skip
    COLOURS,
    COLUMN,
    GREY,
    HEIGHT,
    PAGE,
    Look,
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
    width_of,
    within,
    within_shares,
)
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Interval = Callable[[Any], tuple[float, float]]

LEGEND_LINE = 0.13  # inches
LETTERS = 12  # of tick labels per inch
LARGEST_CELL = 0.62  # inches of a cell's width
LINE_SHIFT = 0.012  # between lines, as a share of the axis: error bars at one value would hide each other
REFERENCE = Look(GREY, (0, (5, 2.5)), "")  # of a line that the others are compared with
ROUNDING = 1e-12  # relative error of a mean
BARS = "95 % interval of the mean, {} runs"
ATTACK_LABELS = {
    "label.linear": "share of labels\nrecovered",
    "membership.advantage": "membership\nadvantage",
    "attribute.correct": "share of values\nguessed",
    "inversion.cosine": "cosine of\nreconstruction",
}
BASES = {
    "label.linear": "label.base",
    "attribute.correct": "attribute.base",
    "inversion.cosine": "inversion.base",
}  # what is guessed without the attack
ATTACKS = tuple(ATTACK_LABELS)  # metrics that are drawn below the accuracy
GUESSED = "guessed without the attack"
SIZES = ("data.train", "nodes.records", "nodes.number")  # possible horizontal axes of a learning curve


def sure(metric: str) -> Interval:
    """Return the function that computes the 95 % interval of a mean over runs, for `errorbar` of seaborn."""
    import pandas as pd

    def of(values: Any) -> tuple[float, float]:
        rows = pd.DataFrame({"value": values, "all": 0})
        found = numbers.bounded(numbers.interval(rows, ["all"]), metric).iloc[0]
        mean = float(found["mean"])
        spare = ROUNDING * abs(mean)  # seaborn computes the mean again, in another order
        return min(float(found["low"]), mean - spare), max(float(found["high"]), mean + spare)

    return of


def ends(frame: pd.DataFrame, metric: str, keys: list[str]) -> pd.DataFrame:
    """Return the metric at the last cycle of each run; the keys must exist."""
    numbers.refuse_unknown(frame, keys)
    rows = numbers.rows_of(frame, metric)
    return numbers.last(rows, str(rows["metric"].iloc[0]))


def heatmap(
    frame: pd.DataFrame, rows: str, columns: str, metric: str = "accuracy",
    *, figure: Figure | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the mean of the metric over runs per pair of values, with one panel per combination of the other keys.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    rows, columns : str
        The keys whose values are the rows and the columns.
    metric : str
        The metric, at the last cycle of each run.
    figure, ax : Figure or Axes, optional
        The figure, or the axes in whose place, the panels are drawn. Default: a new figure.

    Returns
    -------
    Axes
        The first panel; its figure has all of them.
    """
    parts = numbers.facets(frame, metric, [rows, columns])
    tables = [grid(part, rows, columns, metric) for _, part in parts]
    across = min(len(parts), 3)
    down = -(-len(parts) // across)
    with styled():
        wide = min(PAGE, across * (LARGEST_CELL * max(table.shape[1] for table in tables) + 0.4) + 0.8)
        slanted = max(len(number(value)) for table in tables for value in table.columns)
        tall = down * (0.22 * max(table.shape[0] for table in tables) + 0.4 + 0.045 * min(slanted, 60)) + 0.3
        axes = panels(figure or within(ax), down, across, (max(wide, 2.2), tall), sharey=True)
        limits = limits_of(tables)
        for ax_, (title, _), table in zip(axes.flat, parts, tables, strict=False):
            _map(ax_, table, limits)
            ax_.set(title=plain(title), xlabel=short(columns) if _numeric(table.columns) else "")
            ax_.set_ylabel(short(rows) if ax_ in axes[:, 0] else "")
        _hide(axes.flat[len(parts) :])
        image = axes[0, 0].collections[0]
        axes[0, 0].figure.colorbar(image, ax=axes, label=numbers.label_of(metric), aspect=30, pad=0.02)
        say(axes[0, 0].figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def _hide(axes: Any) -> None:
    for ax in axes:
        ax.set_visible(False)


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


def _map(ax: Axes, table: pd.DataFrame, limits: tuple[float, float]) -> None:
    """Draw one map with its values as text; all maps have the same colour scale."""
    import seaborn as sns

    low, high = limits
    digits = 2 if limits == (0.0, 1.0) else 3
    words = table.map(lambda value: f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.4g}")
    sns.heatmap(
        table.astype(float), ax=ax, cmap=COLOURS, vmin=low, vmax=high, annot=words, fmt="", cbar=False,
        annot_kws={"fontsize": 6.5}, xticklabels=list(map(number, table.columns)),
        yticklabels=list(map(number, table.index)),
    )  # fmt: skip
    slant = max(len(number(value)) for value in table.columns) > 4
    ax.tick_params(length=0)
    for tick in ax.get_xticklabels():
        tick.set(rotation=45 if slant else 0, ha="right" if slant else "center", rotation_mode="anchor")
    for tick in ax.get_yticklabels():
        tick.set_rotation(0)
    ax.grid(visible=False)


def _cells(table: pd.DataFrame) -> list[tuple[tuple[int, int], float]]:
    values = table.to_numpy(float)
    places = [(row, column) for row in range(values.shape[0]) for column in range(values.shape[1])]
    return [(place, float(values[place])) for place in places if not math.isnan(values[place])]


def _numeric(values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def lines(
    frame: pd.DataFrame, x: str, by: str | None = None, metric: str = "accuracy",
    *, reference: float | str | None = None, x_log: bool | None = None, y_log: bool = False,
    figure: Figure | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the mean of the metric over runs against a key, with 95 % intervals.

    There is one line per case (or per value of the key `by`), and one panel per combination of the other keys. A line
    whose runs do not depend on the key, such as a baseline without privacy over ε, is horizontal.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    x : str
        The key of the horizontal axis; its values must be numbers.
    by : str, optional
        The key whose values are lines. Default: the case, if there are several.
    metric : str
        The metric, at the last cycle of each run.
    reference : float or str, optional
        A value of `x` or of `by`, for example an infinite ε, that the others are compared with. Of `x`: the mean of
        each line at this value is a dashed horizontal line of the same colour. Of `by`: this line is dashed and grey.
    x_log : bool, optional
        Whether the horizontal axis is logarithmic. Default: if its values differ by a factor of eight or more.
    y_log : bool
        Whether the vertical axis is logarithmic.
    figure, ax : Figure or Axes, optional
        The figure, or the axes in whose place, the panels are drawn. Default: a new figure.

    Returns
    -------
    Axes
        The first panel; its figure has all of them.
    """
    by = by or _cases(frame)
    parts = _panels_of(frame, metric, x, by)
    rows = numbers.rows_of(frame, metric)
    across_x = _refers(rows, x, by, reference)
    across = min(len(parts), 3)
    down = -(-len(parts) // across)
    with styled():
        names = _names(rows, by)
        words = [*names.values(), BARS.format(10)]
        width = max(COLUMN, PAGE * across / 3)
        tall = down * 1.9 + 0.3 + 0.15 * lines_of(words, width)
        axes = panels(figure or within(ax), down, across, (width, tall), sharey=True)
        for ax_, (title, part) in zip(axes.flat, parts, strict=False):
            own = ends(part, metric, [by, x] if by else [x])
            if across_x:
                own = _dashed(ax_, own, x, by, names, reference)
            _against(ax_, own, x, by, names, metric, None if across_x else reference, x_log)
            if y_log:
                ax_.set_yscale("log", nonpositive="mask")
            ax_.set(title=plain(title), ylabel=numbers.label_of(metric) if ax_ in axes[:, 0] else "")
        within_shares(axes, metric)
        _hide(axes.flat[len(parts) :])
        meaning = [_reference_of(x, reference)] if across_x else []
        handles = [*_handles(axes.flat, by), *meaning, _bars_of(frame, metric)]
        beneath(axes[0, 0].figure, handles, 3, _heading(by, names))
        say(axes[0, 0].figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def _refers(rows: pd.DataFrame, x: str, by: str | None, reference: float | str | None) -> bool:
    """Return whether the reference is a value of x (and not of the lines); refuse a value of neither."""
    keys = [key for key in (x, by) if key is not None and reference is not None and key in rows]
    found = [key for key in keys if (rows[key] == reference).any()]
    if keys and not found:
        known = sorted({str(value) for key in keys for value in rows[key].dropna()})
        hint = f"its values are {', '.join(known)}"
        raise UserError(f"no line and no value of “{x}” is “{reference}”", key="plot.reference", hint=hint)
    return bool(found) and found[0] == x


def _dashed(ax: Axes, rows: pd.DataFrame, x: str, by: str | None, names: dict[Any, str], reference: Any) -> Any:
    """Draw each line's mean at the reference as a dashed horizontal line, and return the other rows.

    Parameters
    ----------
    ax : Axes
        The axes to draw on.
    rows : DataFrame
        The values at the end of runs, as `ends` returns them.
    x, by : str
        The keys of the horizontal axis and of the lines.
    names : dict
        The names of the lines by value; their order determines their colours.
    reference : float or str
        The value of x.
    """
    here = rows[x] == reference
    for place, name in enumerate(names):
        values = rows.loc[here & (rows[by] == name) if by else here, "value"]
        if len(values):
            ax.axhline(values.mean(), color=look(place).colour, ls=REFERENCE.dash, lw=0.9)
    return rows[~here]


def _reference_of(x: str, reference: Any) -> Any:
    """Return the legend entry of dashed horizontal lines."""
    from matplotlib.lines import Line2D

    label = plain(numbers.value_of(x, reference))
    return Line2D([], [], color=GREY, ls=REFERENCE.dash, lw=0.9, label=label)


def _panels_of(frame: pd.DataFrame, metric: str, x: str, by: str | None) -> list[tuple[str, pd.DataFrame]]:
    """Return the parts of the log for the panels; rows without a value of the key x are in all of them."""
    return numbers.facets(frame, metric, [x, by] if by else [x])


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


def _against(
    ax: Axes,
    rows: pd.DataFrame,
    x: str,
    by: str | None,
    names: dict[Any, str],
    metric: str,
    reference: float | str | None = None,
    log: bool | None = None,
) -> None:
    """Draw lines of means with intervals over a key; infinity is at the right, one step beyond the largest number.

    Parameters
    ----------
    ax : Axes
        The axes to draw on.
    rows : DataFrame
        The values at the end of runs, as `ends` returns them.
    x, by : str
        The keys of the horizontal axis and of the lines.
    names : dict
        The names of the lines by value; their order determines how they look.
    metric : str
        The metric, whose intervals may be bounded.
    reference : float or str, optional
        The value of `by` whose line is dashed and grey.
    log : bool, optional
        Whether the horizontal axis is logarithmic. Default: see `is_log`.
    """
    parts = {name: rows[rows[by] == name] if by else rows for name in names}
    level = {name for name, part in parts.items() if len(part) and is_level(part, x)}
    if level == {name for name, part in parts.items() if len(part)}:  # nothing depends on the key: points, not levels
        level = {name for name in level if parts[name][x].isna().all()}
    ticks = sorted({float(v) for name, part in parts.items() if name not in level for v in part[x]})
    spots = places(ticks or sorted({float(v) for v in rows[x].dropna()}) or [1.0])
    log = is_log(spots) if log is None else log and min(spots.values()) > 0
    drawn = [name for name, part in parts.items() if len(part) and name not in level]
    for place, (name, label) in enumerate(names.items()):
        if name in level:
            _level(ax, parts[name], place, label, metric)
        elif name in drawn:
            shift = (drawn.index(name) - (len(drawn) - 1) / 2) * LINE_SHIFT
            how = REFERENCE if name == reference else look(place)
            at = {value: moved(spot, spots, shift, log) for value, spot in spots.items()}
            _line(ax, parts[name], at, how, label, x, metric)
    if ticks:
        _scale(ax, ticks, spots, short(x), log)
    ax.set(xlabel=short(x), ylabel="")


def is_level(part: pd.DataFrame, x: str) -> bool:
    """Return whether the runs of a line do not depend on a key: they do not have it, or each seed has one run.

    A frame without the folders of runs (`path`) is judged by its values.
    """
    if part[x].isna().all():
        return True
    seed = "seed" if "seed" in part else "run"
    same = part.groupby(seed, observed=True)["path" if "path" in part else "value"].nunique().max() == 1
    return bool(part[x].nunique() > 1 and same)


def _level(ax: Axes, part: pd.DataFrame, place: int, label: str, metric: str) -> None:
    """Draw a line that does not depend on the key: horizontal, with the interval of its mean as a band."""
    how, seed = look(place), "seed" if "seed" in part else "run"
    values = part.drop_duplicates(seed)["value"]
    low, high = sure(metric)(values)
    ax.axhline(values.mean(), color=how.colour, ls=how.dash, label=label)
    if high > low:
        ax.axhspan(low, high, color=how.colour, alpha=0.15, lw=0)


def _line(ax: Axes, part: pd.DataFrame, at: dict[float, float], how: Look, label: str, x: str, metric: str) -> None:
    """Draw one line of means with intervals.

    Parameters
    ----------
    ax : Axes
        The axes to draw on.
    part : DataFrame
        The values at the end of the runs of the line.
    at : dict of float to float
        The position on the axis by value of the key.
    how : Look
        Its colour, dash and marker.
    label : str
        Its name.
    x, metric : str
        The key of the horizontal axis, and the metric.
    """
    import seaborn as sns

    sns.lineplot(
        data=part.assign(at=part[x].astype(float).map(at).astype(float)), x="at", y="value", errorbar=sure(metric),
        err_style="bars", err_kws={"capsize": 1.5, "elinewidth": 0.7}, color=how.colour, ls=how.dash,
        marker=how.marker, markersize=3.5, markeredgewidth=0, label=label, legend=False, ax=ax,
    )  # fmt: skip


def is_log(spots: dict[float, float]) -> bool:
    """Return whether the axis of these positions is logarithmic: they differ by a factor of eight or more."""
    return min(spots.values()) > 0 and max(spots.values()) >= 8 * min(spots.values())


def moved(at: float, spots: dict[float, float], shift: float, log: bool) -> float:
    """Return a position moved by a share of the axis."""
    low, high = min(spots.values()), max(spots.values())
    return at * (high / low) ** shift if log else at + (high - low) * shift


def places(values: list[float]) -> dict[float, float]:
    """Return the positions of values along an axis: infinity is one step beyond the largest number."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return {value: 1.0 for value in values}
    step = 2.5 if min(finite) > 0 else 1
    return {value: value if math.isfinite(value) else max(finite) * step for value in values}


def _scale(ax: Axes, ticks: list[float], spots: dict[float, float], label: str, log: bool) -> None:
    """Set the scale of an axis, with the values as ticks."""
    from matplotlib.ticker import NullLocator

    if log:
        ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    most = max(3, min(9, int(_width(ax) * LETTERS) // (1 + max(len(number(value)) for value in ticks))))
    kept = thinned(ticks, spots, log=log, most=most)
    ax.set_xticks([spots[value] for value in kept], [number(value) for value in kept])
    ax.set_xlabel(label)


def _width(ax: Axes) -> float:
    """Return the approximate width of a panel in inches."""
    place = ax.get_subplotspec()
    return width_of(ax.figure) / (place.get_gridspec().ncols if place is not None else 1)


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
    *, figure: Figure | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the final metric against the amount of training data, as `lines` does.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    x : str, optional
        The key of the size. Default: the size that the sweep varies.
    by : str, optional
        The key whose values are lines. Default: the case, if there are several.
    metric : str
        The metric, at the last cycle of each run.
    figure, ax : Figure or Axes, optional
        The figure, or the axes in whose place, the panels are drawn. Default: a new figure.
    """
    found = x or next((key for key in SIZES if key in numbers.varied(frame)), None)
    if found is None:
        raise UserError("the sweep varies no size", hint=f"a learning curve needs a sweep over {' or '.join(SIZES)}")
    return lines(frame, found, by, metric, figure=figure, ax=ax)


def privacy_utility(
    frame: pd.DataFrame, epsilon: str | None = None, by: str | None = None, metric: str = "accuracy",
    *, figure: Figure | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw accuracy over ε and below, as far as they were measured, the attacks.

    These are label recovery, membership, attribute inference and inversion.

    Values are means over runs with 95 % intervals. There is one line per case (or per value of the key `by`), and one
    column per combination of the other keys. A line whose runs do not depend on ε, such as a baseline without privacy,
    is horizontal. Dotted lines are what is guessed without the attack.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    epsilon : str, optional
        The key of ε. Default: the ε that the sweep varies.
    by : str, optional
        The key whose values are lines. Default: the case, if there are several.
    metric : str
        The metric of the upper panels, at the last cycle of each run.
    figure, ax : Figure or Axes, optional
        The figure, or the axes in whose place, the panels are drawn. Default: a new figure.

    Returns
    -------
    Axes
        The first panel; its figure has all of them.
    """
    x, by = epsilon or epsilon_of(frame), by or _cases(frame)
    parts = _panels_of(frame, metric, x, by)
    attacked = [attack for attack in ATTACKS if numbers.has(frame, attack)]
    with styled():
        names = _names(numbers.rows_of(frame, metric), by)
        words = [*names.values(), BARS.format(10), GUESSED]
        width = max(COLUMN, min(PAGE, 0.3 + 2.25 * len(parts)))
        tall = 2.0 + 1.2 * len(attacked) + 0.15 * lines_of(words, width)
        axes = panels(figure or within(ax), 1 + len(attacked), len(parts), (width, tall), sharey="row", sharex="col")
        for column, (title, part) in enumerate(parts):
            _against(axes[0, column], ends(part, metric, [by, x] if by else [x]), x, by, names, metric)
            axes[0, column].set(title=plain(title), xlabel="" if attacked else short(x))
            for row, attack in enumerate(attacked, 1):
                _attack(axes[row, column], part, attack, (x, by, names))
                axes[row, column].set_xlabel(short(x) if row == len(attacked) else "")
        axes[0, 0].set_ylabel(numbers.label_of(metric))
        within_shares(axes[:1], metric)
        for row, attack in enumerate(attacked, 1):
            axes[row, 0].set_ylabel(ATTACK_LABELS[attack])
            within_shares(axes[row : row + 1], attack)
        handles = [
            *_handles(axes.flat, by),
            _bars_of(frame, metric),
            *_guess(any(attack in BASES for attack in attacked)),
        ]
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
    """Draw an attack over ε, with what is guessed without it."""
    x, by, names = how
    _against(ax, numbers.last(part, attack), x, by, names, attack)
    if attack in BASES:
        ax.axhline(numbers.last(part, BASES[attack])["value"].mean(), color=GREY, ls=":", lw=1)


def _guess(attacked: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=GREY, ls=":", lw=1, label=GUESSED)] if attacked else []


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
            _spread(ax, part, [values.index(value) + shift for value in part[x]], place, metric)
        dots = _dots(ax, frame, values, names, x, by, metric)
        ax.set(xlabel=short(x), ylabel=numbers.label_of(metric), xlim=(-0.6, len(values) - 0.4))
        within_shares(ax, metric)
        ax.grid(visible=False, axis="x")
        spread = _spread_bar() if (means["std"] > 0).any() else []
        legend(ax, [*dots, _bars_of(frame, metric), *spread])
        head(ax, note_of(frame))
    return ax


def spreads(frame: pd.DataFrame, x: str, by: str | None, metric: str) -> pd.DataFrame:
    """Return per key values the mean over runs with its interval, and the standard deviation over nodes."""
    keys = [by, x] if by else [x]
    means = numbers.last_means(frame, metric, keys)
    peers = numbers.interval(numbers.last(frame, f"{metric.removesuffix('.mean')}.std"), keys)[[*keys, "mean"]]
    return means.merge(peers.rename(columns={"mean": "std"}), on=keys, how="left")


def _sortable(value: Any) -> tuple[bool, Any]:
    return (False, value) if isinstance(value, int | float) else (True, 0)


def _spread(ax: Axes, part: pd.DataFrame, at: list[float], place: int, metric: str) -> None:
    """Draw the standard deviation over nodes as light, wide bars, which end at 0 and 1 for shares."""
    low, high = part["mean"] - part["std"], part["mean"] + part["std"]
    if numbers.is_share(metric):
        low, high = low.clip(0, 1), high.clip(0, 1)
    ax.vlines(at, low, high, color=look(place).colour, alpha=0.3, lw=4)


def _dots(
    ax: Axes, frame: pd.DataFrame, values: list[Any], names: list[Any], x: str, by: str | None, metric: str
) -> list[Any]:
    """Draw means with their intervals. Return the entries of the legend, if there are several kinds of points.

    Parameters
    ----------
    ax : Axes
        The axes to draw on.
    frame : DataFrame
        The log.
    values, names : list
        The values of the keys x and by, in order.
    x, by, metric : str
        The keys of the horizontal axis and of the kinds of points, and the metric.
    """
    import seaborn as sns
    from matplotlib.lines import Line2D

    rows = ends(frame, metric, [by, x] if by else [x])
    looks = [look(place) for place in range(len(names))]
    shown = rows.assign(at=rows[x].map(number).astype(str), kind=rows[by].map(number).astype(str) if by else "")
    sns.pointplot(
        data=shown, x="at", y="value", hue="kind", order=list(map(number, values)),
        hue_order=[number(name) for name in names], palette=[how.colour for how in looks],
        markers=[how.marker for how in looks], linestyle="none", dodge=0.6 * (len(names) - 1) / len(names) or False,
        errorbar=sure(metric), capsize=0.08, markersize=3.5, err_kws={"linewidth": 1}, legend=False, ax=ax,
    )  # fmt: skip
    named = zip(looks, names, strict=True) if len(names) > 1 else ()
    return [
        Line2D([], [], color=how.colour, marker=how.marker, ls="", label=plain(numbers.value_of(by or "", n)))
        for how, n in named
    ]


def _spread_bar() -> list[Any]:
    """Return the legend entry that explains the light bars."""
    from matplotlib.patches import Patch

    return [Patch(color=GREY, alpha=0.3, lw=0, label="± standard deviation over nodes")]
