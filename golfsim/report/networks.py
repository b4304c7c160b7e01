"""Figures of nodes and links: degrees, a raster of nodes over time, drawings and animations of small networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.report import numbers
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

LOGGED = {"min": 0.0, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95, "q99": 0.99, "max": 1.0}
FRAMES = 60  # of an animation
SEED = 1  # of the positions of nodes


def degrees(frame: pd.DataFrame, cycle: int | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of in-degrees after a cycle (default: the last one).

    From a log, the curve joins the measured extremes and quantiles (means over runs) of the online nodes by straight
    lines. From links it is exact, over all nodes with a link in either direction.
    """
    exact = "source" in frame
    found = in_degrees(frame, cycle) if exact else logged_degrees(frame, cycle)
    names = list(dict.fromkeys(found["curve"]))
    with styled():
        ax = panel(ax, COLUMN, HEIGHT + 0.13 * len(names))
        for place, name in enumerate(names):
            curve, how = found[found["curve"] == name], look(place)
            ax.plot(
                curve["degree"],
                curve["share"],
                ls=how.dash,
                color=how.colour,
                marker=None if exact else how.marker,
                drawstyle="steps-post" if exact else None,
                label=plain(name),
            )
        ax.set(xlabel="in-degree", ylabel="cumulative share of nodes", ylim=(0, 1.02))
        ax.locator_params(axis="x", integer=True)
        legend(ax, ax.lines[len(ax.lines) - len(names) :])
        head(ax, note_of(frame))
    return ax


def logged_degrees(frame: pd.DataFrame, cycle: int | None = None) -> pd.DataFrame:
    """Return in-degrees by share of nodes, per overlay after a cycle, from the quantiles in a log."""
    if not numbers.has(frame, "indegree.mean"):
        raise UserError("no overlay was measured", hint="add overlay = 1 (or “log”) to [observe] and run again")
    rows = frame[frame["metric"].isin([f"indegree.{name}" for name in LOGGED])]
    rows = rows[rows["cycle"] == _cycle_of(rows, cycle)]
    keys = numbers.keys_of(rows) or ["layer"]
    found = rows.groupby([*keys, "metric"], observed=True, sort=False, dropna=False)["value"].mean().reset_index()
    share = found["metric"].astype(str).str.removeprefix("indegree.").map(LOGGED)
    names = [
        f"{numbers.named(keys, values)}, cycle {_cycle_of(rows, cycle)}"
        for values in found[keys].itertuples(index=False)
    ]
    found = found.assign(curve=names, share=share, degree=found["value"])
    return found[["curve", "degree", "share"]].sort_values("share", kind="stable", ignore_index=True)


def in_degrees(links: pd.DataFrame, cycle: int | None = None) -> pd.DataFrame:
    """Return in-degrees by share of nodes, per overlay after the first cycle and after the given one."""
    import pandas as pd

    found = []
    for layer, own in links.groupby("layer", observed=True, sort=False):
        for when in dict.fromkeys([int(own["cycle"].min()), _cycle_of(own, cycle)]):
            degree, share = _distribution(own[own["cycle"] == when])
            found.append(pd.DataFrame({"curve": f"{layer}, cycle {when}", "degree": degree, "share": share}))
    return pd.concat(found, ignore_index=True)


def _distribution(links: pd.DataFrame) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the degrees 0, 1, … and the share of nodes with at most this degree, over all runs."""
    nodes = {(run, node) for end in ("source", "target") for run, node in zip(links["run"], links[end], strict=True)}
    counts = links.groupby(["run", "target"], observed=True).size().to_numpy()
    of = np.bincount(np.concatenate([counts, np.zeros(len(nodes) - counts.size, int)]))
    return np.arange(of.size), np.cumsum(of) / of.sum()


def _cycle_of(rows: pd.DataFrame, cycle: int | None) -> int:
    """Return the given cycle if it was measured; by default the last one."""
    measured = sorted(set(rows["cycle"].tolist()))
    if cycle is not None and cycle not in measured:
        close = min(measured, key=lambda known: abs(known - cycle))
        raise UserError(f"cycle {cycle} was not measured", hint=f"the nearest measured cycle is {close}")
    return int(measured[-1] if cycle is None else cycle)


def raster(nodes: pd.DataFrame, layer: str | None = None, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the error of each followed node after each cycle of the first run; grey while it is offline.

    White means that a node is online but has no model to measure.
    """
    own, name = one_layer(nodes, layer, "error")
    table = own.pivot_table(index="node", columns="cycle", values="error", observed=True, dropna=False)
    online = own.pivot_table(index="node", columns="cycle", values="online", observed=True).reindex_like(table)
    with styled():
        ax = panel(ax, COLUMN, HEIGHT + 0.3)
        edges, rows = between(table.columns.to_numpy(float), log), np.arange(len(table) + 1)
        off = np.ma.masked_where(online.to_numpy(float) == 1, np.zeros(table.shape))
        ax.pcolormesh(edges, rows, off, cmap=_flat(OFFLINE), rasterized=True)
        image = ax.pcolormesh(edges, rows, np.ma.masked_invalid(table.to_numpy(float)), cmap=COLOURS, rasterized=True)
        ax.set_yticks(*_some([str(node) for node in table.index]))
        cycles(ax, log)
        ax.grid(visible=False)
        ax.set_ylabel("node")
        ax.figure.colorbar(image, ax=ax, label=f"error ({plain(name)})", pad=0.02)
        head(ax, note_of(nodes))
    return ax


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
    return ax


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
    """Return a position in the plane per node, by a spring layout; a link of more cycles is a stronger spring."""
    import networkx as nx

    times = links.groupby(["source", "target"], observed=True).size().reset_index()
    graph = nx.Graph()
    graph.add_nodes_from(sorted(set(nodes["node"].tolist())) if nodes is not None else [])
    graph.add_weighted_edges_from(times.itertuples(index=False))
    found = nx.spring_layout(graph, seed=SEED, iterations=100, k=1.6 / max(graph.number_of_nodes(), 1) ** 0.5)
    at = np.array([found[node] for node in graph.nodes])
    at = (at - at.min(axis=0)) / np.maximum(np.ptp(at, axis=0), 1e-9)  # fill the complete figure
    return {int(node): place for node, place in zip(graph.nodes, at, strict=True)}
