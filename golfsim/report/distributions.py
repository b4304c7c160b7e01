"""Distributions: paired differences by seed, errors over nodes, ε spent by record, times to a target."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.comparing.comparison import compare, matched
from golfsim.comparing.paired import Numbers, interval
from golfsim.comparing.strategies import last
from golfsim.core.errors import UserError, nearest
from golfsim.report import numbers
from golfsim.report.style import (  # fmt: skip
    COLUMN,
    GREY,
    HEIGHT,
    PAGE,
    head,
    legend,
    lines_of,
    look,
    panel,
    plain,
    short,
    styled,
    within_shares,
)
from golfsim.report.style import (
    cycles as cycle_axis,
)
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LEGEND_LINE = 0.13  # inches
MOST_CYCLES = 5  # that a figure shows unless cycles are chosen
QUARTERS = {"whislo": "q05", "q1": "q25", "med": "q50", "q3": "q75", "whishi": "q95"}
NEVER = 100.0  # times the last cycle: where a run that never reaches the target is, outside of the figure


# Paired differences


def differences(
    frame: pd.DataFrame, by: str | None = None, metric: str = "accuracy", layer: str | None = None,
    *, baseline: str | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the differences between strategies in runs with the same seed, one point per seed and pair.

    The large marker is the mean, and its bar the 95 % bootstrap interval, both as `golfsim.compare` reports them.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    by : str, optional
        The key whose values are the strategies. All other keys that vary form blocks. Default: found from the log.
    metric : str
        The metric to compare, at the last observed cycle.
    layer : str, optional
        Compare this layer only.
    baseline : str, optional
        The strategy with which all others are compared. Default: all pairs.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    import seaborn as sns

    found = paired(frame, by, metric, layer, baseline)
    pairs, blocks = list(dict.fromkeys(found["pair"])), list(dict.fromkeys(found["block"]))
    letters = max(max(map(len, pair.split("\n"))) for pair in pairs)
    looks = [look(place) for place in range(len(blocks))]
    spread = 0.8 * (len(blocks) - 1) / len(blocks)  # as far apart as the points of seeds
    how: Any = {"data": found, "x": "difference", "y": "pair", "hue": "block", "order": pairs, "hue_order": blocks}
    colours = [one.colour for one in looks]
    with styled():
        width = min(PAGE, COLUMN + max(0.0, 0.05 * (letters - 12)))
        ax = panel(ax, width, 0.75 + len(pairs) * (0.26 + 0.12 * len(blocks)) + LEGEND_LINE * (2 + len(blocks) // 3))
        ax.axvline(0, color=GREY, lw=0.8, ls=":")
        sns.stripplot(
            **how, dodge=len(blocks) > 1, jitter=False, palette=colours, size=3, alpha=0.45, legend=False, ax=ax
        )
        sns.pointplot(
            **how, dodge=spread or False, palette=colours, markers=[one.marker for one in looks], linestyle="none",
            errorbar=_bootstrap, capsize=0.08, markersize=4.5, err_kws={"linewidth": 1}, legend=False, ax=ax,
        )  # fmt: skip
        ax.set(xlabel=f"difference in {numbers.label_of(metric)}, first − second", ylabel="")
        ax.grid(visible=False, axis="y")
        legend(ax, _explained(looks, blocks), 1 if letters > 12 else None)
        head(ax, note_of(frame))
    return ax


def _explained(looks: list[Any], blocks: list[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    named = zip(looks, blocks, strict=True) if len(blocks) > 1 else ()
    handles = [Line2D([], [], color=one.colour, marker=one.marker, ls="", label=plain(block)) for one, block in named]
    handles.append(Line2D([], [], color=GREY, marker="o", ms=3, alpha=0.6, ls="", label="one seed"))
    handles.append(Line2D([], [], color=GREY, marker="|", ms=7, ls="", label="95 % interval of the mean"))
    return handles


def _bootstrap(values: Any) -> tuple[float, float]:
    return interval(np.asarray(values, np.float64)) or (math.nan, math.nan)


def paired(
    frame: pd.DataFrame, by: str | None = None, metric: str = "accuracy", layer: str | None = None,
    baseline: str | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return the differences of pairs of strategies by seed: one, other, pair, block, seed, difference.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    by, metric, layer : str, optional
        What is compared, as in `golfsim.compare`.
    baseline : str, optional
        The strategy with which all others are compared. Default: all pairs.
    """
    import pandas as pd

    found = compare(frame, by, metric, layer, baseline=baseline)
    curves = matched(frame, by, metric, layer, baseline)[-1].curves
    tables = []
    for test in found.pairs:
        left, right = curves[test.one, test.block], curves[test.other, test.block]
        seeds = sorted(set(left) & set(right))
        values: Numbers = np.array([last(left[seed]) - last(right[seed]) for seed in seeds])
        about = {"one": test.one, "other": test.other, "pair": f"{_brief(test.one)}\n− {_brief(test.other)}"}
        tables.append(pd.DataFrame({"seed": seeds, "difference": values, "block": _brief(test.block)} | about))
    return pd.concat(tables, ignore_index=True)


def _brief(name: str) -> str:
    """Return the name of a strategy or block with short keys: “ε = 1” for “published.epsilon = 1”."""
    return plain(re.sub(r"([\w.-]+) = ", lambda key: f"{short(key[1])} = ", name))


# Errors over nodes


def errors(
    table: pd.DataFrame, cycles: Sequence[int] | None = None, layer: str | None = None, metric: str = "error",
    *, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the distribution of errors over nodes after some cycles.

    From the table of followed nodes, a violin is the distribution over all of them that have a model, of all runs, with
    its quartiles. From a log, which has quantiles only, a box has the quartiles of the measured nodes and its whiskers
    the 5 % and 95 % quantiles, averaged over runs. The figure states which of them it shows.

    Parameters
    ----------
    table : DataFrame
        The followed nodes, as `golfsim.load_nodes` returns them, or the log.
    cycles : sequence of int, optional
        The measured cycles to show. Default: at most five, log-spaced.
    layer : str, optional
        The learning layer. Default: all of them.
    metric : str
        The metric, if the table is a log.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    logged = "metric" in table
    rows = table if layer is None else _of_layer(table, layer)
    found = error_quantiles(rows, cycles, metric) if logged else node_errors(rows, cycles)
    names, when = list(dict.fromkeys(found["curve"])), sorted(set(found["cycle"]))
    what = "quartiles and 5–95 % of the measured nodes" if logged else "all followed nodes, with quartiles"
    with styled():
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * (1 + lines_of(names, COLUMN - 0.5)))
        (_boxes if logged else _violins)(ax, found, names, when)
        ax.set_xticks(range(len(when)), list(map(str, when)))
        ax.set(xlabel="cycle", ylabel=numbers.label_of(metric), xlim=(-0.6, len(when) - 0.4))
        ax.grid(visible=False, axis="x")
        within_shares(ax, metric)
        legend(ax, [*_patches(names if len(names) > 1 else []), *_patches([what], GREY)])
        head(ax, note_of(table))
    return ax


def _of_layer(table: pd.DataFrame, layer: str) -> pd.DataFrame:
    rows = table[table["layer"] == layer]
    if rows.empty:
        raise UserError(f"there is no layer “{layer}”", hint=nearest(layer, map(str, table["layer"].unique())))
    return rows


def _patches(names: list[str], colour: str = "") -> list[Any]:
    from matplotlib.patches import Patch

    looks = [colour or look(place).colour for place in range(len(names))]
    return [Patch(color=one, alpha=0.5, lw=0, label=plain(name)) for one, name in zip(looks, names, strict=True)]


def node_errors(nodes: pd.DataFrame, cycles: Sequence[int] | None = None) -> pd.DataFrame:
    """Return the errors of followed nodes after some cycles, with the name of their curve."""
    rows = nodes.dropna(subset="error")
    if rows.empty:
        raise UserError("no followed node has an error", hint="follow nodes of a scenario with a learning layer")
    rows = rows[rows["cycle"].isin(chosen(rows, cycles))]
    keys = numbers.keys_of(rows) or ["layer"]
    return rows.assign(curve=[numbers.named(keys, values) for values in rows[keys].itertuples(index=False)])


def error_quantiles(frame: pd.DataFrame, cycles: Sequence[int] | None = None, metric: str = "error") -> pd.DataFrame:
    """Return the quantiles over nodes after some cycles, averaged over runs: one column per quantile."""
    name = numbers.bare(metric)
    rows = numbers.rows_of(frame, metric)
    keys = numbers.keys_of(rows) or ["layer"]
    rows = frame[frame["metric"].isin([f"{name}.{part}" for part in QUARTERS.values()])]
    if rows.empty:
        raise UserError(f"the log has no quantiles of “{metric}” over nodes")
    rows = rows[rows["cycle"].isin(chosen(rows, cycles))]
    part = rows["metric"].astype(str).str.removeprefix(f"{name}.")
    rows = rows.assign(part=part, curve=[numbers.named(keys, values) for values in rows[keys].itertuples(index=False)])
    return rows.pivot_table(index=["curve", "cycle"], columns="part", values="value", sort=False).reset_index()


def chosen(rows: pd.DataFrame, cycles: Sequence[int] | None, most: int = MOST_CYCLES) -> list[int]:
    """Return the given cycles, which must have been measured, or some of all measured cycles, log-spaced."""
    measured = sorted(set(rows["cycle"].tolist()))
    for cycle in cycles or ():
        if cycle not in measured:
            close = min(measured, key=lambda known: abs(known - cycle))
            raise UserError(f"cycle {cycle} was not measured", hint=f"the nearest measured cycle is {close}")
    if cycles:
        return [int(cycle) for cycle in dict.fromkeys(cycles)]
    wanted = np.geomspace(max(measured[0], 1), measured[-1], min(most, len(measured)))
    near = {min(measured, key=lambda known: abs(math.log(max(known, 1) / want))) for want in wanted}
    return sorted(int(cycle) for cycle in near)


def _violins(ax: Axes, found: pd.DataFrame, names: list[str], when: list[int]) -> None:
    import seaborn as sns

    sns.violinplot(
        data=found, x="cycle", y="error", hue="curve", order=when, hue_order=names, cut=0, density_norm="width",
        inner="quart", palette=[look(place).colour for place in range(len(names))], alpha=0.5, linewidth=0.7,
        legend=False, ax=ax,
    )  # fmt: skip


def _boxes(ax: Axes, found: pd.DataFrame, names: list[str], when: list[int]) -> None:
    for place, name in enumerate(names):
        rows, colour = found[found["curve"] == name], look(place).colour
        shift = (place - (len(names) - 1) / 2) * 0.8 / len(names)
        at = [when.index(cycle) + shift for cycle in rows["cycle"]]
        boxes = [{key: row[part] for key, part in QUARTERS.items()} for row in rows.to_dict("records")]
        ax.bxp(
            boxes, positions=at, widths=0.55 / len(names), showfliers=False, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": colour, "alpha": 0.5, "lw": 0}, medianprops={"color": colour},
            whiskerprops={"color": colour}, capprops={"color": colour},
        )  # fmt: skip


# Cumulative distributions


def spent_by_record(spent: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of the ε that records have spent by the end of all runs.

    `spent` is the table that `golfsim.load_spent` or `simulation.log.spent()` returns. Where a node is the unit, the
    distribution is that of nodes. A layer whose ε is infinite is left out.
    """
    found = spent_curves(spent)
    units = {True: "nodes", False: "records"}
    unit = " or ".join(dict.fromkeys(units[bool(one)] for one in found["by_node"]))
    with styled():
        names = list(dict.fromkeys(found["curve"]))
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * lines_of(names, COLUMN - 0.5))
        _cumulated(ax, found, "spent", names, "count")
        ax.set(
            xlabel="ε spent", ylabel=f"cumulative share of {unit}", xlim=(0, float(found["spent"].max()) * 1.03 or 1)
        )
        head(ax, note_of(spent))
    return ax


def spent_curves(spent: pd.DataFrame) -> pd.DataFrame:
    """Return the finite values of spent ε with the name of their curve."""
    rows: pd.DataFrame = spent[np.isfinite(spent["spent"])]
    if rows.empty:
        raise UserError("no layer here spends a finite ε")
    keys = numbers.keys_of(rows) or ["layer"]
    return rows.assign(curve=[numbers.named(keys, values) for values in rows[keys].itertuples(index=False)])


def reaching(
    table: pd.DataFrame, target: float, metric: str = "accuracy", layer: str | None = None,
    *, log: bool = True, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the share of runs, or of followed nodes, that have reached a target by each cycle.

    It is the cumulative distribution of the time to the target. Runs that never reach it count, too, so that a curve
    may end below 1.

    Parameters
    ----------
    table : DataFrame
        The log, for runs (the mean over nodes reaches the target), or the followed nodes, as `golfsim.load_nodes`
        returns them, for nodes (the error of a node reaches it).
    target : float
        The target: at least this value, or at most for metrics that end in “error”.
    metric : str
        The metric; “accuracy” or “error” for followed nodes.
    layer : str, optional
        The learning layer. Default: all of them.
    log : bool
        Whether the axis of cycles is logarithmic.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    found = reached(table if layer is None else _of_layer(table, layer), target, metric)
    end, unit = float(table["cycle"].max()), "runs" if "metric" in table else "followed nodes"
    sizes = found.groupby("curve", sort=False)["cycle"].agg(["count", "size"])  # `count` leaves out NaN
    words = {name: f"{name} ({there} of {size})" for name, there, size in sizes.itertuples()}
    drawn = found.assign(curve=found["curve"].map(words), cycle=found["cycle"].fillna(end * NEVER))
    sign = "≤" if numbers.bare(metric).endswith("error") else "≥"
    with styled():
        ax = panel(ax, COLUMN, HEIGHT + LEGEND_LINE * lines_of(list(words.values()), COLUMN - 0.5))
        _cumulated(ax, drawn, "cycle", list(words.values()))
        ax.set_xlim((float(table["cycle"].min()) / 1.1, end * 1.03) if log else (0, end * 1.01))
        cycle_axis(ax, log)
        ax.set_ylabel(f"share of {unit} with\n{numbers.label_of(metric)} {sign} {target:g}")
        head(ax, note_of(table))
    return ax


def reached(table: pd.DataFrame, target: float, metric: str = "accuracy") -> pd.DataFrame:
    """Return the first measured cycle in which each run (or followed node) reaches a target; NaN if it never does."""
    falling, unit = numbers.bare(metric).endswith("error"), ["run"]
    if "metric" in table:
        rows = numbers.rows_of(table, metric)
    else:
        if metric not in ("accuracy", "error"):
            raise UserError(f"followed nodes have no “{metric}”", hint="choose “accuracy” or “error”")
        rows = table.assign(value=table["error"] if falling else 1 - table["error"])
        unit = ["run", "node"]
    keys = numbers.keys_of(rows) or ["layer"]
    good = rows["value"] <= target if falling else rows["value"] >= target
    first = rows.assign(cycle=rows["cycle"].where(good)).groupby(
        [*keys, *unit], observed=True, sort=False, dropna=False
    )
    found = first["cycle"].min().reset_index()
    return found.assign(curve=[numbers.named(keys, values) for values in found[keys].itertuples(index=False)])


def _cumulated(ax: Axes, found: pd.DataFrame, x: str, names: list[str], weights: str | None = None) -> None:
    """Draw empirical cumulative distributions, and their legend if there are several."""
    import seaborn as sns

    for place, name in enumerate(names):
        how = look(place)
        sns.ecdfplot(
            data=found[found["curve"] == name].astype({x: float}), x=x, weights=weights, color=how.colour, ls=how.dash,
            label=plain(name), legend=False, ax=ax,
        )  # fmt: skip
    ax.set_ylim(0, 1.02)
    legend(ax, list(ax.lines[len(ax.lines) - len(names) :]))
