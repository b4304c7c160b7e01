"""Nodes and links as pictures: degrees, a raster of nodes over time, small networks drawn and animated."""

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
SEED = 1  # of the places of nodes


def degrees(frame: pd.DataFrame, cycle: int | None = None, *, ax: Axes | None = None) -> Axes:
    """How in-degrees are distributed: the share of nodes with at most so many links to them.

    From a log it goes through the extremes and quantiles measured (means over runs, joined by straight lines), between
    nodes online; from links it is exact, over all nodes that know or are known. By default after the last cycle.
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
        ax.set(xlabel="in-degree", ylabel="share of nodes at or below", ylim=(0, 1.02))
        ax.locator_params(axis="x", integer=True)
        legend(ax, ax.lines[len(ax.lines) - len(names) :])
        head(ax, note_of(frame))
    return ax


def logged_degrees(frame: pd.DataFrame, cycle: int | None = None) -> pd.DataFrame:
    """In-degrees by share of nodes, of each overlay after a cycle, from the quantiles in a log."""
    if not numbers.has(frame, "indegree.mean"):
        raise UserError("no overlay was measured", hint="put overlay = 1 (or “log”) into [observe] and run again")
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
    """In-degrees by share of nodes, of each overlay after the first cycle and after the one named."""
    import pandas as pd

    found = []
    for layer, own in links.groupby("layer", observed=True, sort=False):
        for when in dict.fromkeys([int(own["cycle"].min()), _cycle_of(own, cycle)]):
            degree, share = _distribution(own[own["cycle"] == when])
            found.append(pd.DataFrame({"curve": f"{layer}, cycle {when}", "degree": degree, "share": share}))
    return pd.concat(found, ignore_index=True)


def _distribution(links: pd.DataFrame) -> tuple[NDArray[Any], NDArray[Any]]:
    """Degrees 0, 1, … and the share of nodes with at most as many, over all runs."""
    nodes = {(run, node) for end in ("source", "target") for run, node in zip(links["run"], links[end], strict=True)}
    counts = links.groupby(["run", "target"], observed=True).size().to_numpy()
    of = np.bincount(np.concatenate([counts, np.zeros(len(nodes) - counts.size, int)]))
    return np.arange(of.size), np.cumsum(of) / of.sum()


def _cycle_of(rows: pd.DataFrame, cycle: int | None) -> int:
    """The cycle asked for, if it was measured; by default the last one."""
    measured = sorted(set(rows["cycle"].tolist()))
    if cycle is not None and cycle not in measured:
        close = min(measured, key=lambda known: abs(known - cycle))
        raise UserError(f"cycle {cycle} was not measured", hint=f"the nearest one that was is {close}")
    return int(measured[-1] if cycle is None else cycle)


def raster(nodes: pd.DataFrame, layer: str | None = None, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """The error of each node that was followed after each cycle, of the first run; grey where it is offline.

    White is where a node is online and has no model to be measured.
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
    """The rows of one layer in the first run at the first point: that one, or the first that has values."""
    usable = rows.dropna(subset=needed) if needed else rows
    if usable.empty:
        raise UserError("no node that was followed has an error", hint="follow nodes of a scenario that learns")
    name = str(usable["layer"].iloc[0]) if layer is None else layer
    if name not in set(rows["layer"]):
        raise UserError(f"there is no layer “{name}”", hint=nearest(name, map(str, rows["layer"].unique())))
    own = rows[rows["layer"] == name]
    for key in [*numbers.varied(own), "run"]:
        own = own[own[key] == own[key].iloc[0]]
    return own, name


def between(values: NDArray[np.float64], log: bool) -> NDArray[np.float64]:
    """The edges of cells around values: half way to the neighbours, on the axis that is drawn."""
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
    """Ticks for at most that many of the rows."""
    step = max(1, -(-len(names) // most))
    return [place + 0.5 for place in range(0, len(names), step)], names[::step]


def drawing(
    links: pd.DataFrame, nodes: pd.DataFrame | None = None, cycle: int | None = None, layer: str | None = None,
    *, colour: str = "error", ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """The overlay of the first run after a cycle (by default the last); nodes coloured by error or online state.

    Nodes that are offline are hollow and grey. Places are found by springs along the links of all cycles.
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
    """The drawing of a small network over its cycles; with `path`, also written there as a GIF."""
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
    """The measured cycles, or as many of them, evenly, as an animation has pictures."""
    measured = np.array(sorted(set(links["cycle"].tolist())))
    return [int(cycle) for cycle in measured[np.linspace(0, measured.size - 1, min(measured.size, FRAMES)).astype(int)]]


class Scene:
    """A small network that can be drawn after any of its cycles, each node always at the same place."""

    def __init__(self, links: pd.DataFrame, nodes: pd.DataFrame | None, layer: str | None, colour: str) -> None:
        if colour not in ("error", "online"):
            raise UserError(f"nodes can be coloured by error or online, not by “{colour}”")
        self.links, self.name = one_layer(links, layer)
        learnt = nodes is not None and nodes["error"].notna().any()
        self.nodes = one_layer(nodes, None, "error" if learnt else None)[0] if nodes is not None else None
        self.by_error = colour == "error" and learnt
        self.place = places(self.links, self.nodes)
        self._drawn: list[Any] = []
        errors = self.nodes["error"].dropna() if self.nodes is not None and self.by_error else None
        self._range = (float(errors.min()), float(errors.max())) if errors is not None else (0.0, 1.0)

    def title(self, cycle: int) -> str:
        """What is seen."""
        count = int((self.links["cycle"] == cycle).sum())
        return f"{plain(self.name)} after cycle {cycle}: {count:,} links"

    def draw(self, ax: Axes, cycle: int, key: bool = False) -> None:
        """Draw the network as it was after a cycle, in place of what was drawn before."""
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
        """Who is online after a cycle, and their errors; without a table of nodes, everybody is."""
        if self.nodes is None:
            return np.ones(numbers_.size, np.bool_), np.full(numbers_.size, np.nan)
        now = self.nodes[self.nodes["cycle"] == cycle].set_index("node").reindex(numbers_)
        return now["online"].fillna(False).to_numpy(bool), now["error"].to_numpy(float)


def places(links: pd.DataFrame, nodes: pd.DataFrame | None = None) -> dict[int, NDArray[np.float64]]:
    """A place in the plane for each node: springs along links, the stronger the more cycles have the link."""
    import networkx as nx

    times = links.groupby(["source", "target"], observed=True).size().reset_index()
    graph = nx.Graph()
    graph.add_nodes_from(sorted(set(nodes["node"].tolist())) if nodes is not None else [])
    graph.add_weighted_edges_from(times.itertuples(index=False))
    found = nx.spring_layout(graph, seed=SEED, iterations=100, k=1.6 / max(graph.number_of_nodes(), 1) ** 0.5)
    at = np.array([found[node] for node in graph.nodes])
    at = (at - at.min(axis=0)) / np.maximum(np.ptp(at, axis=0), 1e-9)  # the whole picture is used
    return {int(node): place for node, place in zip(graph.nodes, at, strict=True)}
