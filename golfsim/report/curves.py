"""Curves over cycles: convergence (also as small multiples), spent ε, messages, churn, and the overlay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.report import numbers
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
    within_shares,
)
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BANDS = 3  # curves with bands of their nodes, which are wide
MOST_INTERVALS = 6
MOST_NAMED = 6  # curves whose names are written at their ends
LONGEST_NAME = 16  # letters that fit next to the axes
LINE_HEIGHT = 0.07  # of a label, as a share of the axes
FLAT = 100  # ratio of two curves above which the axis is logarithmic
LEGEND_LINE = 0.13  # inches
MEANINGS = ("mean over nodes and 10 runs", "95 % interval of the mean", "5–95 % of the nodes")
NODES, RUNS = 0.16, 0.35  # opacity of bands: of the nodes, of the runs


def convergence(frame: pd.DataFrame, metric: str = "error", *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw one curve over cycles per learning layer and point of a sweep.

    The line is the mean over nodes and runs. The dark band (three runs or more) is the 95 % confidence interval of that
    mean over runs, by Student's t. The light band contains 90 % of the nodes of a run: from the 5 % to the 95 %
    quantile, averaged over runs. Bands that would hide each other are left out.
    """
    found = numbers.curves(frame, metric)
    names = list(dict.fromkeys(found["curve"]))
    direct = 1 < len(names) <= MOST_NAMED and max(map(len, names)) <= LONGEST_NAME
    with styled():
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * (3 + (0 if direct else lines_of(names, COLUMN - 0.5))))
        draw_curves(ax, found, numbers.label_of(metric), log)
        _ground(ax)
        within_shares(ax, metric)
        own = ax.lines[len(ax.lines) - len(names) :]
        legend(ax, [*(own if len(names) > 1 and not direct else []), *_meaning(found, bands(found))])
        if direct:
            _name_the_ends(ax, own)
        head(ax, note_of(frame))
    return ax


def draw_curves(
    ax: Axes, found: pd.DataFrame, label: str, log: bool = True, start: int = 0, allowed: set[str] | None = None
) -> None:
    """Draw curves with their bands.

    Parameters
    ----------
    ax : Axes
        The axes to draw on.
    found : DataFrame
        The curves, as `numbers.curves` returns them.
    label : str
        The label of the vertical axis.
    log : bool
        Whether the axis of cycles is logarithmic.
    start : int
        The number of the first curve, which determines its colour, dash and marker.
    allowed : set of str, optional
        The bands to draw, “nodes” or “runs”. Default: those that would not hide each other.
    """
    names = list(dict.fromkeys(found["curve"]))
    shown = bands(found) if allowed is None else allowed
    for place, name in enumerate(names):
        curve, how = found[found["curve"] == name], look(start + place)
        marker = how.marker if _dotted(len(curve), start + len(names)) else None
        every = max(1, len(curve) // 8)
        style: Any = {"ls": how.dash, "marker": marker, "markevery": every, "label": plain(name)}
        ax.plot(curve["cycle"], curve["mean"], color=how.colour, **style)
        if "nodes" in shown and (curve["q95"] > curve["q05"]).any():
            ax.fill_between(curve["cycle"], curve["q05"], curve["q95"], color=how.colour, alpha=NODES, lw=0)
        if "runs" in shown and (curve["high"] > curve["low"]).any():
            ax.fill_between(curve["cycle"], curve["low"], curve["high"], color=how.colour, alpha=RUNS, lw=0)
    cycles(ax, log)
    ax.set_ylabel(label)


def bands(found: pd.DataFrame) -> set[str]:
    """Return which bands a figure of these curves has (“nodes”, “runs”), without those that would hide each other."""
    wide = set(found.loc[found["q95"] > found["q05"], "curve"]) if "q05" in found else set()
    sure = set(found.loc[found["high"] > found["low"], "curve"])
    shown = {"nodes": 0 < len(wide) <= MOST_BANDS, "runs": 0 < len(sure) <= MOST_INTERVALS}
    return {band for band, there in shown.items() if there}


def _ground(ax: Axes) -> None:
    """Let the axis begin at zero, after everything is drawn: fixed limits do not grow."""
    ax.set_ylim(bottom=min(0.0, ax.dataLim.y0))


def _dotted(points: int, curves: int) -> bool:
    """Return whether to draw markers: for a single point, and if dashes alone do not distinguish the curves."""
    return points == 1 or curves > len(DASHES)


def _meaning(found: pd.DataFrame, drawn: set[str]) -> list[Any]:
    """Return legend entries in grey that explain line and bands of all curves."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], color=GREY, label=f"mean over nodes{_and_runs(found)}")]
    if "runs" in drawn:
        handles.append(Patch(color=GREY, alpha=RUNS + NODES, lw=0, label=MEANINGS[1]))
    if "nodes" in drawn:
        averaged = ", mean over runs" if found["runs"].max() > 1 else ""
        handles.append(Patch(color=GREY, alpha=NODES + 0.05, lw=0, label=f"{MEANINGS[2]}{averaged}"))
    return handles


def _and_runs(found: pd.DataFrame) -> str:
    """Return the number of runs of a mean as text; a stopped run is missing in later cycles."""
    least, most = int(found["runs"].min()), int(found["runs"].max())
    if most == 1:
        return ""
    return f" and {most} runs" if least == most else f" and {least}–{most} runs"


def _name_the_ends(ax: Axes, curves: Any) -> None:
    """Write the name of each curve at its right end; names that would overlap are moved apart."""
    bottom, top = ax.get_ylim()
    ends: list[Any] = sorted(((line.get_xydata()[-1], line) for line in curves), key=lambda end: end[0][1])
    heights = apart([(y - bottom) / (top - bottom) for (_, y), _ in ends])
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
    log: bool = True,
    figure: Figure | None = None,
) -> Axes:
    """Draw one convergence panel per value of a key, e.g. `data.set` or an ε.

    Lines and bands are those of `convergence`.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    over : str
        The key whose values get one panel each.
    metric : str
        The metric, as a mean over nodes.
    columns : int
        The largest number of panels per row.
    log : bool
        Whether the axis of cycles is logarithmic.
    figure : Figure, optional
        The figure to draw on. Default: a new one.

    Returns
    -------
    Axes
        The first axes; its figure has all of them.
    """
    found = multiples(frame, over, metric)
    titles, names = list(dict.fromkeys(found["panel"])), list(dict.fromkeys(found["curve"]))
    rows, columns = -(-len(titles) // columns), min(columns, len(titles))
    width = max(COLUMN, PAGE * columns / 3)
    with styled():
        height = 1.6 * rows + 0.3 + LEGEND_LINE * lines_of([*names, *MEANINGS], width)
        axes = panels(figure, rows, columns, (width, height), sharey=True, sharex=True)
        for ax, title in zip(axes.flat, titles, strict=False):
            _panel(ax, found, title, names, numbers.label_of(metric), log)
        _hide(axes.flat[len(titles) :])
        _ground(axes[0, 0])
        within_shares(axes[0, 0], metric)
        _trim(axes)
        shown = {str(line.get_label()): line for ax in axes.flat for line in ax.lines} if len(names) > 1 else {}
        beneath(axes[0, 0].figure, [*shown.values(), *_meaning(found, bands(found))], most=3)
        say(axes[0, 0].figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def multiples(frame: pd.DataFrame, over: str, metric: str = "error") -> pd.DataFrame:
    """Return the curves of all panels; the column `panel` has the value of the key."""
    import pandas as pd

    numbers.refuse_unknown(frame, [over])
    values = list(dict.fromkeys(frame[over].dropna()))
    parts = [numbers.curves(frame[frame[over] == value], metric) for value in values]
    named = [part.assign(panel=numbers.value_of(over, value)) for part, value in zip(parts, values, strict=True)]
    return pd.concat(named, ignore_index=True)


def _panel(ax: Axes, found: pd.DataFrame, title: str, names: list[str], label: str, log: bool) -> None:
    """Draw one of several panels; a curve looks the same in all of them."""
    for place, name in enumerate(names):
        own = found[(found["panel"] == title) & (found["curve"] == name)]
        if len(own):
            draw_curves(ax, own, label, log, start=place, allowed=bands(found))
    ax.set_title(plain(title))


def _hide(axes: Any) -> None:
    for ax in axes:
        ax.set_visible(False)


def _trim(axes: Any) -> None:
    """Show the labels of shared axes only at the left and at the bottom."""
    for ax in axes.flat:
        below = [other for other in axes.flat if other.get_visible() and _is_below(other, ax)]
        ax.label_outer()
        if not below:
            ax.set_xlabel("cycle")
            ax.tick_params(labelbottom=True)


def _is_below(one: Axes, other: Axes) -> bool:
    a, b = one.get_subplotspec(), other.get_subplotspec()
    return a is not None and b is not None and a.colspan == b.colspan and a.rowspan.start > b.rowspan.start


def spent(frame: pd.DataFrame, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the ε that records have spent: mean over records (line) and maximum (thin, dotted), as means over runs."""
    return _over_time(frame, spent_curves(frame), "ε spent", log, ax)


def spent_curves(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the curves of the ε that records have spent: the mean over records, and the maximum if it differs."""
    mean, most = (numbers.curves(frame, f"spent.{name}") for name in ("mean", "max"))
    same = mean["mean"].equals(most["mean"])
    return {"mean over records": mean} | ({} if same else {"maximum": most})


def messages(frame: pd.DataFrame, *, unit: str = "messages", log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw what each layer sends per cycle, and what is lost of it (thin, dotted); `unit` is “messages” or “bytes”."""
    if unit not in ("messages", "bytes"):
        raise UserError(f"the unit must be “messages” or “bytes”; got “{unit}”")
    return _over_time(frame, message_rates(frame, unit), f"{unit} per cycle", log, ax)


def message_rates(frame: pd.DataFrame, unit: str = "messages") -> dict[str, pd.DataFrame]:
    """Return the curves of what is sent per cycle and, if any message is lost, of what is lost."""
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


def online(frame: pd.DataFrame, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the number of nodes online, as mean over runs."""
    return _over_time(frame, {"": numbers.curves(frame, "online")}, "nodes online", log, ax)


def _over_time(frame: pd.DataFrame, found: dict[str, pd.DataFrame], label: str, log: bool, ax: Axes | None) -> Axes:
    """Draw curves of one or two metrics; those of the second are thin and dotted."""
    names = list(dict.fromkeys(next(iter(found.values()))["curve"]))
    with styled():
        words = [*(names if len(names) > 1 else []), *(found if len(found) > 1 else [])]
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * lines_of(words, COLUMN - 0.5))
        for second, part in enumerate(found.values()):
            _lines(ax, part, names, bool(second))
        cycles(ax, log)
        ax.set_ylabel(label)
        _upwards(ax, next(iter(found.values())))
        _key(ax, names, list(found))
        head(ax, note_of(frame))
    return ax


def _lines(ax: Axes, found: pd.DataFrame, names: list[str], thin: bool) -> None:
    for place, name in enumerate(names):
        curve, how = found[found["curve"] == name], look(place)
        style: Any = {"ls": ":", "lw": 0.8} if thin else {"ls": how.dash}
        marker = how.marker if _dotted(len(curve), len(names)) else None
        ax.plot(
            curve["cycle"],
            curve["mean"],
            color=how.colour,
            label=plain(name),
            marker=marker,
            markevery=max(1, len(curve) // 8),
            **style,
        )
        if len(names) <= MOST_INTERVALS and (curve["high"] > curve["low"]).any():
            ax.fill_between(curve["cycle"], curve["low"], curve["high"], color=how.colour, alpha=RUNS, lw=0)


def intervals(*parts: pd.DataFrame) -> set[str]:
    """Return which bands a figure of plain curves has: those of the runs, unless there are too many curves."""
    sure = any((part["high"] > part["low"]).any() for part in parts)
    return {"runs"} if sure and parts[0]["curve"].nunique() <= MOST_INTERVALS else set()


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


def _key(ax: Axes, names: list[str], kinds: list[str]) -> None:
    """Draw a legend below the axes: the names of the curves, and the meaning of thick and thin lines."""
    from matplotlib.lines import Line2D

    first = len(ax.lines) - len(names) * len(kinds)
    handles: list[Any] = list(ax.lines[first : first + len(names)]) if len(names) > 1 else []
    for kind, dash, width in zip(kinds if len(kinds) > 1 else [], "-:", (1.3, 0.8), strict=False):
        handles.append(Line2D([], [], color=GREY, label=kind, ls=dash, lw=width))
    if handles:
        legend(ax, handles)


OVERLAY = {
    "indegree": "in-degree",
    "path_length": "path length",
    "clustering": "clustering",
    "links.dead": "share of dead links",
}


def overlay(frame: pd.DataFrame, *, log: bool = True, figure: Figure | None = None) -> Axes:
    """Draw the overlay over time: in-degree (mean and 5–95 % of the nodes), path length, clustering, dead links.

    Return the first axes; its figure has all of them.
    """
    shown = overlay_parts(frame)
    if not shown:
        raise UserError("no overlay was measured", hint="add overlay = 1 (or “log”) to [observe] and run again")
    with styled():
        rows = -(-len(shown) // 2)
        axes = panels(figure, rows, 2, (PAGE * 0.72, 1.6 * rows + 0.4), sharex=True)
        for ax, name in zip(axes.flat, shown, strict=False):
            _overlay_panel(ax, frame, name, log)
        _hide(axes.flat[len(shown) :])
        for ax in axes.flat[: max(0, len(shown) - 2)]:
            ax.set_xlabel("")
        handles = list(axes[0, 0].lines)
        if len(handles) > 1:
            beneath(axes[0, 0].figure, handles)
        say(axes[0, 0].figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def overlay_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of all panels of `overlay`; the column `what` names the panel."""
    import pandas as pd

    found = [numbers.curves(frame, "indegree").assign(what=OVERLAY["indegree"])]
    plain = [name for name in OVERLAY if name != "indegree" and numbers.has(frame, name)]
    found += [numbers.curves(frame, name).assign(what=OVERLAY[name]) for name in plain]
    return pd.concat(found, ignore_index=True)


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
    """Return which bands the panels of `overlay` have."""
    rest = [numbers.curves(frame, name) for name in overlay_parts(frame) if name != "indegree"]
    found = _degrees(frame)
    return bands(found) | (intervals(*rest) if rest else set())


def _degrees(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the curves of the in-degree. The bands of more than two are left out: they would hide each other."""
    found = numbers.curves(frame, "indegree")
    return found if found["curve"].nunique() <= 2 else found.assign(q05=float("nan"), q95=float("nan"))


def _overlay_panel(ax: Axes, frame: pd.DataFrame, name: str, log: bool) -> None:
    if name == "indegree":
        draw_curves(ax, _degrees(frame), OVERLAY[name], log)
        _ground(ax)
        return
    found = numbers.curves(frame, name)
    _lines(ax, found, list(dict.fromkeys(found["curve"])), thin=False)
    cycles(ax, log)
    ax.set_ylabel(OVERLAY[name])
    low, high = float(found["mean"].min()), float(found["mean"].max())
    ax.set_ylim(0 if low < high / 2 or high == 0 else None, 1 if high == 0 else None)
