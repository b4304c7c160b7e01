"""Curves over cycles: convergence (also as small multiples), spent ε, messages, churn, and the overlay."""

from __future__ import annotations

import textwrap
from functools import partial
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError, listed
from golfsim.report import numbers
from golfsim.report.events import logarithmic, mark, markers
from golfsim.report.style import (  # fmt: skip
    COLUMN,
    DASHES,
    GREY,
    HEIGHT,
    PAGE,
    beneath,
    cycles,
    head,
    legend,
    lines_of,
    look,
    panel,
    panels,
    plain,
    say,
    styled,
    thousands,
    width_of,
    within,
    within_shares,
)
from golfsim.sim.events import events_of
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 1e-4  # of a logarithmic axis of what was sent, at least: nodes that save tokens send almost nothing at first
MOST_BANDS = 3  # curves with bands of their nodes, which are wide
MOST_INTERVALS = 6  # curves with bands of their runs
MOST_BARS = 8  # curves with intervals at some cycles
BARS = 5  # intervals per curve, if they are not a band
HIDDEN = 0.25  # share of cycles in which the band of a curve may contain another curve, if there are three or more
MOST_NAMED = 6  # curves whose names are written at their ends
LONGEST_NAME = 16  # letters that fit next to the axes
LINE_HEIGHT = 0.07  # of a label, as a share of the axes
FLAT = 100  # ratio of two curves above which the axis is logarithmic
LEGEND_LINE = 0.13  # inches
LETTERS = 13  # of titles per inch
MEANINGS = ("mean over nodes and 10 runs", "95 % interval of the mean", "5–95 % of the nodes")
NODES, RUNS = 0.16, 0.35  # opacity of bands: of the nodes, of the runs


OVER = {"cycle": "cycle", "messages": "messages sent", "bytes": "bytes sent"}  # axes of curves, and their labels


def convergence(
    frame: pd.DataFrame,
    metric: str = "error",
    *,
    over: str = "cycle",
    log: bool | None = None,
    y_log: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw one curve over cycles per layer that has the metric and per point of a sweep.

    The line is the mean over nodes and runs. The dark band (three runs or more) is the 95 % confidence interval of that
    mean over runs, by Student's t. If such bands would hide each other, the intervals are bars at some cycles. The
    light band contains 90 % of the nodes of a run: from the 5 % to the 95 % quantile, averaged over runs. It is left
    out where it would hide other curves. Crashes, joins and partitions are marked. The axis of cycles is logarithmic
    unless `log` is False, or an event is so late that it would not be visible.

    With `over` “messages” or “bytes” the x axis is what all nodes of the layer have sent by then, as mean over runs. If
    it is logarithmic, it begins at a ten-thousandth of its end at the earliest.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    metric : str
        The metric, with or without `.mean`.
    over : str
        The x axis: “cycle”, “messages” or “bytes”.
    log : bool, optional
        Whether the x axis is logarithmic. Default: unless an event is late.
    y_log : bool
        Whether the y axis is logarithmic.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    if over not in OVER:
        raise UserError(f"there is no axis “{over}”", hint=listed(over, OVER))
    if over == "cycle":
        rows, found, events = numbers.per_curve(frame, metric), numbers.curves(frame, metric), events_of(frame)
    else:
        rows, found, events = *numbers.over_sent(frame, metric, over), []
    names = list(dict.fromkeys(found["curve"]))
    direct = over == "cycle" and ax is None and 1 < len(names) <= MOST_NAMED and max(map(len, names)) <= LONGEST_NAME
    shown = bands(found)
    with styled():
        handles = [*_meaning(found, shown), *markers(events, found["cycle"].max())]
        words = [*([] if direct or len(names) == 1 else names), *(str(handle.get_label()) for handle in handles)]
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * (1 + lines_of(words, COLUMN - 0.5)))
        before = len(ax.lines)
        draw_curves(ax, rows, found, names, shown)
        own = ax.lines[before : before + len(names)]
        cycles(ax, logarithmic(log, events, found["cycle"]))
        if over != "cycle" and ax.get_xscale() == "log":
            ax.set_xlim(left=max(ax.get_xlim()[0], found["cycle"].max() * SHOWN))
            cycles(ax)  # new ticks
        ax.set_xlabel(OVER[over])
        ax.set_ylabel(numbers.label_of(metric))
        _ground(ax, y_log)
        within_shares(ax, metric)
        mark(ax, events, found["cycle"].max())
        if len(own) > 1 and not direct:
            handles = [*own, *handles]
        if handles:
            legend(ax, handles)
        if direct:
            ax.set_xlim(right=found["cycle"].max())  # names begin where the axes end
            _name_the_ends(ax, own)
        head(ax, note_of(frame))
    return ax


def draw_curves(ax: Axes, rows: pd.DataFrame, found: pd.DataFrame, names: list[str], shown: set[str]) -> None:
    """Draw the curves of one metric.

    Parameters
    ----------
    ax : Axes
        The axes to draw on.
    rows : DataFrame
        The values of all runs, as `numbers.per_curve` returns them.
    found : DataFrame
        The means and intervals of the same curves, as `numbers.curves` returns them.
    names : list of str
        The names of all curves of the figure; the place of a name determines colour, dash and marker.
    shown : set of str
        What to draw around the means, as `bands` returns it.
    """
    for place, name in enumerate(names if "nodes" in shown else []):
        curve = found[found["curve"] == name]
        if (curve["q95"] > curve["q05"]).any():
            ax.fill_between(curve["cycle"], curve["q05"], curve["q95"], color=look(place).colour, alpha=NODES, lw=0)
    _means(ax, rows, names, "runs" in shown)
    if "bars" in shown:
        _bars(ax, found, names)


def _means(ax: Axes, rows: pd.DataFrame, names: list[str], intervals: bool, thin: bool = False) -> None:
    """Draw the mean over runs of each curve, with its 95 % interval as a band if asked for."""
    import numpy as np
    import seaborn as sns

    rows = rows[np.isfinite(rows["value"])]  # a curve without a finite value, such as ε = ∞, has no line
    own = [name for name in names if (rows["curve"] == name).any()]
    if not own:
        return
    share = numbers.is_share(str(rows["metric"].iloc[0]))
    before, palette = len(ax.lines), [look(names.index(name)).colour for name in own]
    sns.lineplot(
        rows, x="cycle", y="value", hue="curve", hue_order=own, palette=palette,
        errorbar=partial(numbers.student, share=share) if intervals else None, err_kws={"alpha": RUNS, "lw": 0},
        legend=False, ax=ax,
    )  # fmt: skip
    for line, name in zip(ax.lines[before:], own, strict=True):
        how, points = look(names.index(name)), len(line.get_xdata())  # type: ignore[arg-type]
        line.set(label=plain(name), linestyle=":" if thin else how.dash, linewidth=0.8 if thin else 1.3)
        if points == 1 or len(names) > len(DASHES):  # dashes alone do not distinguish the curves
            line.set(marker=how.marker, markevery=max(1, points // 8), markeredgecolor=how.colour)


def _bars(ax: Axes, found: pd.DataFrame, names: list[str]) -> None:
    """Draw intervals at some cycles, which differ between curves, so that bars do not lie on each other."""
    import numpy as np

    for place, name in enumerate(names):
        curve = found[(found["curve"] == name) & (found["high"] > found["low"])]
        wanted = (np.arange(BARS) + (place + 0.5) / len(names)) / BARS * (len(curve) - 1)
        some = curve.iloc[np.unique(wanted.round().astype(int))] if len(curve) else curve
        style: Any = {"ls": "", "color": look(place).colour, "elinewidth": 0.8, "capsize": 1.5}
        ax.errorbar(some["cycle"], some["mean"], numbers.halves(some), **style)


def bands(found: pd.DataFrame) -> set[str]:
    """Return what a figure of these curves shows around the means, without bands that would hide each other.

    “nodes” are bands of the nodes, “runs” are bands of the intervals over runs, and “bars” are these intervals at some
    cycles.
    """
    shown = set()
    if "q05" in found:
        wide = found.loc[found["q95"] > found["q05"], "curve"].nunique()
        if 0 < wide <= MOST_BANDS and (wide < MOST_BANDS or _hidden(found, "q05", "q95") <= HIDDEN):
            shown.add("nodes")
    sure = found.loc[found["high"] > found["low"], "curve"].nunique()
    clear = sure < MOST_BANDS or (sure <= MOST_INTERVALS and _hidden(found, "low", "high") <= HIDDEN)
    if sure and (clear or sure <= MOST_BARS):
        shown.add("runs" if clear else "bars")
    return shown


def _hidden(found: pd.DataFrame, low: str, high: str) -> float:
    """Return the share of pairs of a cycle and another curve that the band of one curve contains, at its largest."""
    columns = ["cycle", "curve", "mean", low, high]
    pairs = found[columns].merge(found[["cycle", "curve", "mean"]], on="cycle", suffixes=("", "_of_other"))
    pairs = pairs[pairs["curve"] != pairs["curve_of_other"]]
    inside = pairs["mean_of_other"].between(pairs[low], pairs[high])
    return float(inside.groupby(pairs["curve"], observed=True).mean().max()) if len(pairs) else 0.0


def _ground(ax: Axes, log: bool = False) -> None:
    """Let the axis begin at zero, after everything is drawn: fixed limits do not grow. If logarithmic, omit zeros."""
    if log:
        ax.set_yscale("log", nonpositive="mask")
    else:
        ax.set_ylim(bottom=min(0.0, ax.dataLim.y0))


def _meaning(found: pd.DataFrame, drawn: set[str]) -> list[Any]:
    """Return legend entries in grey that explain lines, bands and bars of all curves."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    over = " and ".join(filter(None, ["nodes" if "q05" in found else "", _runs(found)]))
    handles: list[Any] = [Line2D([], [], color=GREY, label=f"mean over {over}")] if over else []
    if "runs" in drawn:
        handles.append(Patch(color=GREY, alpha=RUNS + NODES, lw=0, label=MEANINGS[1]))
    if "bars" in drawn:
        handles.append(Line2D([], [], color=GREY, marker="|", ls="", ms=7, label=MEANINGS[1]))
    if "nodes" in drawn:
        averaged = ", mean over runs" if found["runs"].max() > 1 else ""
        handles.append(Patch(color=GREY, alpha=NODES + 0.05, lw=0, label=f"{MEANINGS[2]}{averaged}"))
    return handles


def _runs(found: pd.DataFrame) -> str:
    """Return the number of runs of a mean as text; a stopped run is missing in later cycles."""
    least, most = int(found["runs"].min()), int(found["runs"].max())
    return "" if most == 1 else f"{most} runs" if least == most else f"{least}–{most} runs"


def _name_the_ends(ax: Axes, curves: Any) -> None:
    """Write the name of each curve at its right end; names that would overlap are moved apart."""
    scale, limits = ax.yaxis.get_transform().transform, ax.get_ylim()
    bottom, top = map(scale, limits)
    ends: list[Any] = sorted(((line.get_xydata()[-1], line) for line in curves), key=lambda end: end[0][1])
    heights = apart([float(scale(max(y, limits[0])) - bottom) / (top - bottom) for (_, y), _ in ends])
    for ((x, _), line), height in zip(ends, heights, strict=True):
        ax.annotate(
            str(line.get_label()), (x, height), xycoords=("data", "axes fraction"), xytext=(4, 0),
            textcoords="offset points", color=line.get_color(), va="center", annotation_clip=False, fontsize=7,
        )  # fmt: skip


def apart(heights: list[float]) -> list[float]:
    """Move increasing heights as little as possible, so that they are one line apart and none is below the axes."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _first(groups[-1]) < _first(groups[-2]) + LINE_HEIGHT * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_first(group) + LINE_HEIGHT * place for group in groups for place in range(len(group))]


def _first(group: list[float]) -> float:
    """Return the height of the lowest label of a group, which is centred on its curves within the axes."""
    return max(0.0, sum(group) / len(group) - LINE_HEIGHT * (len(group) - 1) / 2)


def small_multiples(
    frame: pd.DataFrame,
    over: str,
    metric: str = "error",
    *,
    columns: int = 3,
    log: bool | None = None,
    y_log: bool = False,
    figure: Figure | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one convergence panel per value of a key, e.g. `data.set` or an ε.

    Lines and bands are those of `convergence`. A curve has the same colour in all panels.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    over : str
        The key whose values get one panel each.
    metric : str
        The metric, with or without `.mean`.
    columns : int
        The largest number of panels per row.
    log : bool, optional
        Whether the axis of cycles is logarithmic. Default: unless an event is late.
    y_log : bool
        Whether the y axis is logarithmic.
    figure : Figure, optional
        The figure to draw on. Default: a new one.
    ax : Axes, optional
        Axes whose place in their figure the panels take.

    Returns
    -------
    Axes
        The given axes, or the first ones; their figure has all of them.
    """
    found, events = multiples(frame, over, metric), events_of(frame)
    titles, names = list(dict.fromkeys(found["panel"])), list(dict.fromkeys(found["curve"]))
    rows, columns = -(-len(titles) // columns), min(columns, len(titles))
    width, shown, last = max(COLUMN, PAGE * columns / 3), _all_bands(found), found["cycle"].max()
    with styled():
        handles = [*_meaning(found, shown), *markers(events, last)]
        words = [*names, *(str(handle.get_label()) for handle in handles)]
        height = 1.6 * rows + 0.3 + LEGEND_LINE * lines_of(words, width)
        axes = panels(figure or within(ax), rows, columns, (width, height), sharey=True, sharex=True)
        for one, value in zip(axes.flat, _values(frame, over), strict=False):
            _panel(one, frame, over, value, metric, (found, names, shown))
        cycles(axes[0, 0], logarithmic(log, events, found["cycle"]))  # shared; after the curves, which seaborn needs
        for one, value in zip(axes.flat, _values(frame, over), strict=False):
            mark(one, events_of(frame[frame[over] == value]), last)
            one.set(xlabel="cycle", ylabel=numbers.label_of(metric))
        _hide(axes.flat[len(titles) :])
        _ground(axes[0, 0], y_log)
        within_shares(axes[0, 0], metric)
        _trim(axes)
        lines = {str(line.get_label()): line for one in axes.flat for line in one.lines} if len(names) > 1 else {}
        curves_ = [lines[plain(name)] for name in names if plain(name) in lines]
        beneath(axes[0, 0].figure, [*curves_, *handles], most=3)
        say(axes[0, 0].figure, note_of(frame))
    return ax or axes[0, 0]


def _values(frame: pd.DataFrame, over: str) -> list[Any]:
    return list(dict.fromkeys(frame[over].dropna()))


def _all_bands(found: pd.DataFrame) -> set[str]:
    """Return what all panels show around the means: bands only if they hide nothing in any panel."""
    each = [bands(part) for _, part in found.groupby("panel", observed=True, sort=False)]
    shown = set.union(*each)
    nodes = {"nodes"} & shown if all("nodes" in one for one in each) else set()
    return nodes | ({"bars"} if "bars" in shown else {"runs"} & shown)


def multiples(frame: pd.DataFrame, over: str, metric: str = "error") -> pd.DataFrame:
    """Return the curves of all panels; the column `panel` has the value of the key."""
    import pandas as pd

    numbers.refuse_unknown(frame, [over])
    keys = _keys_within(frame, over, metric)
    named = []
    for value in _values(frame, over):
        part = frame[frame[over] == value]
        if numbers.logged(frame, metric) in set(part["metric"]):
            named.append(numbers.curves(part, metric, keys).assign(panel=numbers.value_of(over, value)))
    return pd.concat(named, ignore_index=True)


def _keys_within(frame: pd.DataFrame, over: str, metric: str) -> list[str]:
    """Return the keys that distinguish curves in all panels, so that a curve has one name in all of them."""
    return [key for key in numbers.keys_of(numbers.rows_of(frame, metric)) if key != over]


def _panel(
    ax: Axes,
    frame: pd.DataFrame,
    over: str,
    value: Any,
    metric: str,
    whole: tuple[pd.DataFrame, list[str], set[str]],
) -> None:
    """Draw one of several panels.

    Parameters
    ----------
    ax : Axes
        The axes to draw on.
    frame : DataFrame
        The log.
    over : str
        The key of the panels.
    value : Any
        Its value in this panel.
    metric : str
        The metric.
    whole : tuple
        The curves of all panels, their names, and what is shown around the means.
    """
    found, names, shown = whole
    title = numbers.value_of(over, value)
    own = found[found["panel"] == title]
    if len(own):
        rows = numbers.per_curve(frame[frame[over] == value], metric, _keys_within(frame, over, metric))
        draw_curves(ax, rows, own, names, shown)
    inches = width_of(ax.figure) / ax.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
    ax.set_title(textwrap.fill(plain(title), max(8, int(inches * LETTERS))))


def _hide(axes: Any) -> None:
    for ax in axes:
        ax.set_visible(False)


def _trim(axes: Any, shared: str = "xy") -> None:
    """Show the labels of shared axes only at the bottom and, unless only `x` is shared, at the left."""
    for ax in axes.flat:
        below = [other for other in axes.flat if other.get_visible() and _is_below(other, ax)]
        if "y" in shared:
            ax.label_outer()
        ax.set_xlabel("" if below else "cycle")
        ax.tick_params(labelbottom=not below)


def _is_below(one: Axes, other: Axes) -> bool:
    a, b = one.get_subplotspec(), other.get_subplotspec()
    return a is not None and b is not None and a.colspan == b.colspan and a.rowspan.start > b.rowspan.start


def spent(frame: pd.DataFrame, *, log: bool | None = None, ax: Axes | None = None) -> Axes:
    """Draw the ε that records have spent: mean over records (line) and maximum (thin, dotted), as means over runs."""
    return _over_time(frame, _spent(frame), "ε spent", log, ax)


def spent_curves(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the curves of the ε that records have spent: the mean over records, and the maximum if it differs."""
    return {name: numbers.means(rows) for name, rows in _spent(frame).items()}


def _spent(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    mean, most = (numbers.per_curve(frame, f"spent.{name}") for name in ("mean", "max"))
    same = mean["value"].reset_index(drop=True).equals(most["value"].reset_index(drop=True))
    return {"mean over records": mean} | ({} if same else {"maximum": most})


def messages(frame: pd.DataFrame, *, unit: str = "messages", log: bool | None = None, ax: Axes | None = None) -> Axes:
    """Draw what each layer sends per cycle, and what is lost of it (thin, dotted); `unit` is “messages” or “bytes”."""
    if unit not in ("messages", "bytes"):
        raise UserError(f"the unit must be “messages” or “bytes”; got “{unit}”")
    return _over_time(frame, _rates(frame, unit), f"{unit} per cycle", log, ax)


def message_rates(frame: pd.DataFrame, unit: str = "messages") -> dict[str, pd.DataFrame]:
    """Return the curves of what is sent per cycle and, if any message is lost, of what is lost."""
    return {name: numbers.means(rows) for name, rows in _rates(frame, unit).items()}


def _rates(frame: pd.DataFrame, unit: str) -> dict[str, pd.DataFrame]:
    busy = sending(frame)
    found = {"sent": numbers.rates(busy, f"{unit}.sent")}
    if unit == "messages" and (busy.loc[busy["metric"] == "messages.lost", "value"] > 0).any():
        found["lost"] = numbers.rates(busy, "messages.lost")
    return found


def sending(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of layers that send messages."""
    sent = frame[(frame["metric"] == "messages.sent") & (frame["value"] > 0)]
    if sent.empty:
        raise UserError("no layer sends messages")
    return frame[frame["layer"].isin(sent["layer"].unique())]


def online(frame: pd.DataFrame, *, log: bool | None = None, ax: Axes | None = None) -> Axes:
    """Draw the number of nodes online, as mean over runs."""
    return _over_time(frame, {"": numbers.per_curve(frame, "online")}, "nodes online", log, ax)


def _over_time(
    frame: pd.DataFrame, parts: dict[str, pd.DataFrame], label: str, log: bool | None, ax: Axes | None
) -> Axes:
    """Draw curves of one or two metrics; those of the second are thin and dotted."""
    tables, events = [numbers.means(rows) for rows in parts.values()], events_of(frame)
    names, last = list(dict.fromkeys(tables[0]["curve"])), tables[0]["cycle"].max()
    shown = intervals(*tables)
    with styled():
        handles = [*_kinds(list(parts)), *markers(events, last)]
        words = [*(names if len(names) > 1 else []), *(str(handle.get_label()) for handle in handles)]
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * lines_of(words, COLUMN - 0.5))
        before = len(ax.lines)
        for second, (rows, found) in enumerate(zip(parts.values(), tables, strict=True)):
            _means(ax, rows, names, "runs" in shown, bool(second))
            if "bars" in shown:
                _bars(ax, found, names)
        own = ax.lines[before : before + len(names)] if len(names) > 1 else []
        cycles(ax, logarithmic(log, events, tables[0]["cycle"]))
        ax.set_ylabel(label)
        _upwards(ax, tables[0])
        mark(ax, events, last)
        if own or handles:
            legend(ax, [*own, *handles])
        head(ax, note_of(frame))
    return ax


def intervals(*parts: pd.DataFrame) -> set[str]:
    """Return what a figure of plain curves shows around the means: intervals over runs as bands, bars, or not."""
    shown = set.union(*(bands(part) for part in parts))
    return {"bars"} if "bars" in shown else shown & {"runs"}


def _upwards(ax: Axes, found: pd.DataFrame) -> None:
    """Let an axis of counts begin at zero; make it logarithmic if some curves would otherwise be invisible."""
    from matplotlib.ticker import FuncFormatter

    typical = found[found["mean"] > 0].groupby("curve", observed=True)["mean"].median()
    if typical.max() > FLAT * typical.min():
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, ax.get_ylim()[1] * 1.05)
    largest = ax.get_ylim()[1] if ax.get_yscale() == "linear" else None
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: thousands(value, largest)))


def _kinds(kinds: list[str]) -> list[Any]:
    """Return legend entries for the meaning of thick and thin lines."""
    from matplotlib.lines import Line2D

    looks = zip(kinds if len(kinds) > 1 else [], "-:", (1.3, 0.8), strict=False)
    return [Line2D([], [], color=GREY, label=kind, ls=dash, lw=width) for kind, dash, width in looks]


OVERLAY = {
    "indegree": "in-degree",
    "path_length": "path length",
    "clustering": "clustering",
    "links.dead": "share of dead links",
}


def overlay(
    frame: pd.DataFrame, *, log: bool | None = None, figure: Figure | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the overlay over time: in-degree (mean and 5–95 % of the nodes), path length, clustering, dead links.

    Return the given axes, whose place the panels take, or the first ones; their figure has all of them.
    """
    shown, events = overlay_parts(frame), events_of(frame)
    if not shown:
        raise UserError("no overlay was measured", hint="add overlay = 1 (or “log”) to [observe] and run again")
    found = overlay_numbers(frame)
    names, last = list(dict.fromkeys(found["curve"])), found["cycle"].max()
    with styled():
        rows, columns = -(-len(shown) // 2), min(2, len(shown))
        handles = [*_overlay_meaning(frame), *markers(events, last)]
        words = [*(names if len(names) > 1 else []), *(str(handle.get_label()) for handle in handles)]
        width = PAGE * 0.72 if columns > 1 else COLUMN
        tall = (1.6 if rows > 1 else HEIGHT) * rows + 0.3 + LEGEND_LINE * lines_of(words, width)
        axes = panels(figure or within(ax), rows, columns, (width, tall), sharex=True)
        for one, name in zip(axes.flat, shown, strict=False):
            _overlay_panel(one, frame, name, names)
        cycles(axes[0, 0], logarithmic(log, events, found["cycle"]))  # shared; after the curves, which seaborn needs
        for one in axes.flat:
            mark(one, events, last)
            one.set_xlabel("cycle")
        _hide(axes.flat[len(shown) :])
        _trim(axes, "x")
        lines = {str(line.get_label()): line for one in axes.flat for line in one.lines} if len(names) > 1 else {}
        curves_ = [lines[plain(name)] for name in names if plain(name) in lines]
        if curves_ or handles:
            beneath(axes[0, 0].figure, [*curves_, *handles], most=3)
        say(axes[0, 0].figure, note_of(frame))
    return ax or axes[0, 0]


def _overlay_meaning(frame: pd.DataFrame) -> list[Any]:
    """Return legend entries for the bands of all panels."""
    found = [numbers.curves(frame, name) for name in overlay_parts(frame)]
    every = [
        handle for part in found for handle in _meaning(part, bands(part)) if handle.get_label()[:9] != "mean over"
    ]
    meant = {(type(handle), str(handle.get_label())): handle for handle in every}
    return list(meant.values())


def overlay_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of all panels of `overlay`; the column `what` names the panel."""
    import pandas as pd

    parts = [numbers.curves(frame, name).assign(what=OVERLAY[name]) for name in overlay_parts(frame)]
    return pd.concat(parts, ignore_index=True)


def both_numbers(parts: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the curves of one or two metrics in one table; the name of the second metric follows that of its curve."""
    import pandas as pd

    first, *more = parts.values()
    named = [part.assign(curve=part["curve"] + f", {name}") for name, part in zip(list(parts)[1:], more, strict=True)]
    return pd.concat([first, *named], ignore_index=True) if named else first


def overlay_parts(frame: pd.DataFrame) -> list[str]:
    """Return what an overlay was measured by: the panels of `overlay`."""
    return [name for name in OVERLAY if numbers.has(frame, name) or numbers.has(frame, f"{name}.mean")]


def overlay_bands(frame: pd.DataFrame) -> set[str]:
    """Return what the panels of `overlay` show around the means."""
    return set.union(*(bands(numbers.curves(frame, name)) for name in overlay_parts(frame)))


def _overlay_panel(ax: Axes, frame: pd.DataFrame, name: str, names: list[str]) -> None:
    found = numbers.curves(frame, name)
    draw_curves(ax, numbers.per_curve(frame, name), found, names, bands(found))
    ax.set_ylabel(OVERLAY[name])
    low, high = float(found["mean"].min()), float(found["mean"].max())
    if name == "indegree":
        _ground(ax)
    else:
        ax.set_ylim(0 if low < high / 2 or high == 0 else None, 1 if high == 0 else None)
