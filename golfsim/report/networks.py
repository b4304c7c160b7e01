"""Figures of nodes and links: degrees, a raster of nodes over time, drawings and animations of small networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.report import numbers
from golfsim.report.distributions import chosen
from golfsim.report.style import (  # fmt: skip
    COLOURS,
    COLUMN,
    GREY,
    HEIGHT,
    OFFLINE,
    cycles,
    head,
    legend,
    look,
    panel,
    plain,
    plain_lines,
    styled,
)
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes

FRAMES = 60  # of an animation
SEED = 1  # of the positions of nodes
INNER = (0.02, 0.98)  # quantiles of positions between which a drawing is not compressed
LEAST_SPREAD = 20  # nodes of which some are outliers
DEGREE_CYCLES = 4  # that a figure of degrees shows unless cycles are chosen


def degrees(
    table: pd.DataFrame, nodes: pd.DataFrame | None = None, cycles: Sequence[int] | None = None,
    *, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the cumulative distribution of in-degrees after some cycles, over all nodes and runs.

    Of several cycles, the darker curves are the earlier ones.

    Parameters
    ----------
    table : DataFrame
        The in-degrees, as `golfsim.load_degrees` returns them, or the links, as `golfsim.load_links` returns them.
    nodes : DataFrame, optional
        With links: the nodes, as `golfsim.load_nodes` returns them. In-degrees are then those of the online nodes, from
        other online nodes. Without it, they are those of all nodes that have a link in any cycle.
    cycles : sequence of int, optional
        The measured cycles to show. Default: at most four, log-spaced.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    import seaborn as sns

    found = degree_counts(table, nodes, cycles)
    names, when = list(dict.fromkeys(found["curve"])), sorted(set(found["cycle"]))
    shades = sns.color_palette(COLOURS, len(when) + 1)[:-1]  # without yellow, which is hard to see on paper
    with styled():
        words = [f"{name}, cycle {cycle}" for name in names for cycle in when]
        ax = panel(ax, COLUMN, HEIGHT + 0.13 * len(words))
        for place, name in enumerate(names):
            for later, (shade, cycle) in enumerate(zip(shades, when, strict=True)):
                own = found[(found["curve"] == name) & (found["cycle"] == cycle)]
                colour = shade if len(when) > 1 else look(place).colour
                sns.ecdfplot(
                    data=own, x="degree", weights="count", color=colour,
                    ls=look(place if len(names) > 1 else later).dash, legend=False, ax=ax,
                    label=plain(f"{name}, cycle {cycle}"),
                )  # fmt: skip
        ax.set(xlabel="in-degree", ylabel="cumulative share of nodes", ylim=(0, 1.02))
        ax.locator_params(axis="x", integer=True)
        legend(ax, list(ax.lines[len(ax.lines) - len(words) :]))
        head(ax, note_of(table))
    return ax


def degree_counts(
    table: pd.DataFrame, nodes: pd.DataFrame | None = None, cycles: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return the number of nodes by in-degree, cycle and curve, over all runs."""
    if "metric" in table:
        hint = "give golfsim.load_degrees(…) or golfsim.load_links(…)"
        raise UserError("a log has quantiles of in-degrees only", hint=hint)
    rows = in_degrees(table, nodes) if "source" in table else table
    rows = rows[rows["cycle"].isin(chosen(rows, cycles, DEGREE_CYCLES))]
    keys = numbers.keys_of(rows) or ["layer"]
    rows = rows.assign(curve=[numbers.named(keys, values) for values in rows[keys].itertuples(index=False)])
    return rows.groupby(["curve", "cycle", "degree"], sort=False)["count"].sum().reset_index()


def in_degrees(links: pd.DataFrame, nodes: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the number of nodes by in-degree, per point, run, cycle and overlay, from links.

    With the table of nodes, only online nodes and the links between them count.
    """
    import pandas as pd

    keys = [*numbers.varied(links), "run"]
    found = []
    for values, own in links.groupby(keys, observed=True, sort=False, dropna=False):
        everyone = np.unique(own[["source", "target"]].to_numpy())
        there = None if nodes is None else _same(nodes, dict(zip(keys, values, strict=True)))
        for (layer, cycle), part in own.groupby(["layer", "cycle"], observed=True, sort=False):
            who = everyone if there is None else _online(there, cycle)
            alive = part[part["source"].isin(who) & part["target"].isin(who)]
            counts = np.bincount(np.searchsorted(who, alive["target"]), minlength=who.size)
            degree, count = np.unique(counts, return_counts=True)
            about: dict[str, Any] = dict(zip(keys, values, strict=True)) | {"layer": layer, "cycle": cycle}
            found.append(pd.DataFrame({"degree": degree, "count": count}).assign(**about))
    return pd.concat(found, ignore_index=True)


def _same(rows: pd.DataFrame, where: dict[str, Any]) -> pd.DataFrame:
    """Return the rows with these values; NaN equals NaN."""
    for key, value in where.items():
        rows = rows[rows[key].isna() if value != value else rows[key] == value]
    return rows


def _online(nodes: pd.DataFrame, cycle: Any) -> NDArray[Any]:
    return np.unique(nodes.loc[(nodes["cycle"] == cycle) & nodes["online"], "node"].to_numpy())


def _cycle_of(rows: pd.DataFrame, cycle: int | None) -> int:
    """Return the given cycle if it was measured; by default the last one."""
    return chosen(rows, [cycle])[0] if cycle is not None else int(rows["cycle"].max())


def raster(nodes: pd.DataFrame, layer: str | None = None, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the error of each followed node after each cycle of the first run; grey while it is offline.

    White means that a node is online but has no model to measure. The colours of errors contain no grey.
    """
    own, name = one_layer(nodes, layer, "error")
    table = own.pivot_table(index="node", columns="cycle", values="error", observed=True, dropna=False)
    online = own.pivot_table(index="node", columns="cycle", values="online", observed=True).reindex_like(table)
    with styled():
        ax = panel(ax, COLUMN, HEIGHT + 0.4)
        edges, rows = between(table.columns.to_numpy(float), log), np.arange(len(table) + 1)
        away, values = online.to_numpy(float) != 1, np.ma.masked_invalid(table.to_numpy(float))
        off = np.ma.masked_where(~away, np.zeros(table.shape))
        ax.pcolormesh(edges, rows, off, cmap=_flat(OFFLINE), rasterized=True)
        image = ax.pcolormesh(edges, rows, values, cmap=COLOURS, rasterized=True)
        ax.set_yticks(*_some([str(node) for node in table.index]))
        cycles(ax, log)
        ax.grid(visible=False)
        ax.set_ylabel("node")
        ax.figure.colorbar(image, ax=ax, label=f"error ({plain(name)})", pad=0.02)
        legend(ax, _states(bool(away.any()), bool((np.ma.getmaskarray(values) & ~away).any())))
        head(ax, note_of(nodes))
    return ax


def _states(offline: bool, without: bool) -> list[Any]:
    """Return the legend entries of cells that have no error."""
    from matplotlib.patches import Patch

    entries = {("offline", OFFLINE): offline, ("online, no model", "w"): without}
    return [Patch(fc=colour, ec=GREY, lw=0.4, label=name) for (name, colour), there in entries.items() if there]


def one_layer(rows: pd.DataFrame, layer: str | None, needed: str | None = None) -> tuple[pd.DataFrame, str]:
    """Return the rows of one layer in the first run at the first point; default: the first layer that has values."""
    usable = rows.dropna(subset=needed) if needed else rows
    if usable.empty:
        raise UserError("no followed node has an error", hint="follow nodes of a scenario with a learning layer")
    name = str(usable["layer"].iloc[0]) if layer is None else layer
    if name not in set(rows["layer"]):
        raise UserError(f"there is no layer “{name}”", hint=nearest(name, map(str, rows["layer"].unique())))
    own = rows[rows["layer"] == name]
    for key in [*numbers.varied(own), "run"]:
        own = own[own[key] == own[key].iloc[0]]
    return own, name


def between(values: NDArray[np.float64], log: bool) -> NDArray[np.float64]:
    """Return the edges of cells around values: half way between neighbours, on a linear or logarithmic axis."""
    if values.size == 1:
        return np.array([values[0] / 1.1, values[0] * 1.1]) if log else values[0] + np.array([-0.5, 0.5])
    place = np.log(values) if log else values
    middle = (place[1:] + place[:-1]) / 2
    edges = np.concatenate([[2 * place[0] - middle[0]], middle, [2 * place[-1] - middle[-1]]])
    return np.asarray(np.exp(edges) if log else edges)


def _flat(colour: str) -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([colour])


def _some(names: list[str], most: int = 8) -> tuple[list[float], list[str]]:
    """Return ticks for at most this number of rows."""
    step = max(1, -(-len(names) // most))
    return [place + 0.5 for place in range(0, len(names), step)], names[::step]


def drawing(
    links: pd.DataFrame, nodes: pd.DataFrame | None = None, cycle: int | None = None, layer: str | None = None,
    *, colour: str = "error", ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the overlay of the first run after a cycle. Offline nodes are hollow and grey.

    The positions come from a spring layout of the links of all cycles.

    Parameters
    ----------
    links : DataFrame
        The links, as `golfsim.load_links` returns them.
    nodes : DataFrame, optional
        The followed nodes, as `golfsim.load_nodes` returns them. Without it, all nodes count as online.
    cycle : int, optional
        The cycle. Default: the last one.
    layer : str, optional
        The overlay. Default: the first one.
    colour : {"error", "online"}
        What the colour of a node shows.
    ax : Axes, optional
        The axes to draw on. Default: a new figure.
    """
    scene = Scene(links, nodes, layer, colour)
    when = _cycle_of(scene.links, cycle)
    with styled():
        ax = panel(ax, COLUMN, COLUMN - 0.4)
        scene.draw(ax, when, key=True)
        note = note_of(links)
        ax.set_title(f"{plain_lines(note)}\n{scene.title(when)}" if note else scene.title(when), loc="left", fontsize=7)
        if scene.offline(when):
            legend(ax, [_hollow()])
    return ax


def _hollow() -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], marker="o", mfc="none", mec="0.6", ls="", label="offline")


def animation(
    links: pd.DataFrame, nodes: pd.DataFrame | None = None, path: str | Path | None = None, layer: str | None = None,
    *, colour: str = "error", per_second: int = 5,
) -> FuncAnimation:  # fmt: skip
    """Animate the drawing of a small network over its cycles.

    Parameters
    ----------
    links : DataFrame
        The links, as `golfsim.load_links` returns them.
    nodes : DataFrame, optional
        The followed nodes, as `golfsim.load_nodes` returns them. Without it, all nodes count as online.
    path : str or Path, optional
        A GIF file to write.
    layer : str, optional
        The overlay. Default: the first one.
    colour : {"error", "online"}
        What the colour of a node shows.
    per_second : int
        Frames per second.
    """
    import matplotlib.pyplot as plt
    from matplotlib.animation import FuncAnimation, PillowWriter

    scene = Scene(links, nodes, layer, colour)
    shown = some_cycles(scene.links)
    with styled():
        ax = panel(None, COLUMN, COLUMN - 0.2)
        scene.draw(ax, shown[0], key=True)
        above = f"{plain_lines(note_of(links))}\n" if note_of(links) else ""

        def turn(when: int) -> list[Any]:
            scene.draw(ax, when)
            ax.set_title(above + scene.title(when), loc="left", fontsize=7)
            return []

        turn(shown[0])

        moving = FuncAnimation(ax.figure, turn, frames=shown, interval=1000 / per_second)  # type: ignore[arg-type]
        if path is not None:
            moving.save(str(path), writer=PillowWriter(fps=per_second), dpi=150)
            plt.close(ax.figure)  # type: ignore[arg-type]
    return moving


def some_cycles(links: pd.DataFrame) -> list[int]:
    """Return the measured cycles, or evenly spaced ones of them if there are more than an animation has frames."""
    measured = np.array(sorted(set(links["cycle"].tolist())))
    return [int(cycle) for cycle in measured[np.linspace(0, measured.size - 1, min(measured.size, FRAMES)).astype(int)]]


class Scene:
    """A small network that can be drawn after any of its cycles, with a fixed position per node."""

    def __init__(self, links: pd.DataFrame, nodes: pd.DataFrame | None, layer: str | None, colour: str) -> None:
        if colour not in ("error", "online"):
            raise UserError(f"the colour must be “error” or “online”; got “{colour}”")
        self.links, self.name = one_layer(links, layer)
        learnt = nodes is not None and nodes["error"].notna().any()
        self.nodes = one_layer(nodes, None, "error" if learnt else None)[0] if nodes is not None else None
        self.by_error = colour == "error" and learnt
        self.place = places(self.links, self.nodes)
        self._drawn: list[Any] = []
        errors = self.nodes["error"].dropna() if self.nodes is not None and self.by_error else None
        self._range = (float(errors.min()), float(errors.max())) if errors is not None else (0.0, 1.0)

    def title(self, cycle: int) -> str:
        """Return the title: overlay, cycle, number of links."""
        count = int((self.links["cycle"] == cycle).sum())
        return f"{plain(self.name)} after cycle {cycle}: {count:,} link{'s' * (count != 1)}"

    def offline(self, cycle: int) -> bool:
        """Return whether any node is offline after a cycle."""
        return not self._seen(np.array(sorted(self.place)), cycle)[0].all()

    def draw(self, ax: Axes, cycle: int, key: bool = False) -> None:
        """Draw the network after a cycle, in place of the previous drawing."""
        for artist in self._drawn:
            artist.remove()
        self._drawn = [self._lines(ax, self.links[self.links["cycle"] == cycle])]
        self._drawn += self._points(ax, cycle)
        if key:
            self._frame(ax)

    def _frame(self, ax: Axes) -> None:
        ax.set(xticks=[], yticks=[], xlim=(-0.04, 1.04), ylim=(-0.04, 1.04))
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
        if self.by_error:
            ax.figure.colorbar(self._drawn[1], ax=ax, label="error", pad=0.02, shrink=0.8)

    def _lines(self, ax: Axes, links: pd.DataFrame) -> Any:
        from matplotlib.collections import LineCollection

        ends = [[self.place[a], self.place[b]] for a, b in zip(links["source"], links["target"], strict=True)]
        dark = float(np.clip(40 / max(len(ends), 1) ** 0.75, 0.04, 0.5))
        return ax.add_collection(LineCollection(ends, colors=GREY, linewidths=0.4, alpha=dark, zorder=1))

    def _points(self, ax: Axes, cycle: int) -> list[Any]:
        numbers_ = np.array(sorted(self.place))
        at = np.array([self.place[node] for node in numbers_])
        online, error = self._seen(numbers_, cycle)
        size = float(np.clip(2500 / len(at), 8, 60))
        how: Any = {"s": size, "zorder": 3, "linewidths": 0.4, "edgecolors": "k"}
        low, high = self._range
        colours: Any = (
            {"c": error[online], "cmap": COLOURS, "vmin": low, "vmax": high} if self.by_error else {"c": look(0).colour}
        )
        on = ax.scatter(at[online, 0], at[online, 1], **colours, **how, plotnonfinite=True)
        hollow: Any = {"s": size * 0.6, "zorder": 2, "facecolors": "none", "edgecolors": "0.6", "linewidths": 0.7}
        off = ax.scatter(at[~online, 0], at[~online, 1], **hollow)
        return [on, off]

    def _seen(self, numbers_: NDArray[Any], cycle: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which nodes are online after a cycle, and their errors; without a table of nodes, all are online."""
        if self.nodes is None:
            return np.ones(numbers_.size, np.bool_), np.full(numbers_.size, np.nan)
        now = self.nodes[self.nodes["cycle"] == cycle].set_index("node").reindex(numbers_)
        return now["online"].fillna(False).to_numpy(bool), now["error"].to_numpy(float)


def places(links: pd.DataFrame, nodes: pd.DataFrame | None = None) -> dict[int, NDArray[np.float64]]:
    """Return a position in the plane per node, by a spring layout; a link of more cycles is a stronger spring.

    Each connected component has an own layout and a square of an area that is proportional to its number of nodes, so
    that an isolated node does not compress the drawing of all others.
    """
    import networkx as nx

    times = links.groupby(["source", "target"], observed=True).size().reset_index()
    graph = nx.Graph()
    graph.add_nodes_from(sorted(set(nodes["node"].tolist())) if nodes is not None else [])
    graph.add_weighted_edges_from(times.itertuples(index=False))
    parts = sorted(nx.connected_components(graph), key=lambda part: (-len(part), min(part)))
    corners = packed([len(part) ** 0.5 for part in parts])
    found: dict[int, NDArray[np.float64]] = {}
    for part, (left, bottom) in zip(parts, corners, strict=True):
        own = graph.subgraph(sorted(part))
        spots = nx.spring_layout(own, seed=SEED, iterations=100, k=1.6 / len(part) ** 0.5)
        inner = spread_out(np.array([spots[node] for node in own.nodes]))
        gap, side = 0.15, len(part) ** 0.5
        at = np.array([left, bottom]) + gap + inner * max(side - 2 * gap, 0)
        found |= {int(node): place for node, place in zip(own.nodes, at, strict=True)}
    every = np.array(list(found.values()))
    low, size = every.min(axis=0), np.maximum(np.ptp(every, axis=0), 1e-9)  # fill the complete figure
    return {node: (found[node] - low) / size for node in sorted(found)}


def spread_out(at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positions in the unit square; the outermost ones are moved towards the others."""
    few = len(at) < LEAST_SPREAD
    low, high = (at.min(axis=0), at.max(axis=0)) if few else np.quantile(at, INNER, axis=0)
    inner = (at - low) / np.maximum(high - low, 1e-9)
    return np.asarray((np.clip(inner, -0.06, 1.06) + 0.06) / 1.12)


def packed(sides: list[float]) -> list[tuple[float, float]]:
    """Return the lower left corners of squares, largest first, in rows of about the same width from top to bottom."""
    width = max(sides[0], 1.05 * sum(side * side for side in sides) ** 0.5)
    found, left, top, row = [], 0.0, 0.0, sides[0]
    for side in sides:
        if left + side > width + 1e-9:
            left, top, row = 0.0, top - row, side
        found.append((left, top - side))
        left += side
    return found
