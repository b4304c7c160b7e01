"""Draw what nodes reveal to each other: as a matrix, over the distance in the graph, and on the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.privacy.pairwise import by_distance
from golfsim.report.networks import places
from golfsim.report.style import COLOURS, GREY, PAGE, legend, look, panels, styled, within

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from scipy.sparse import csr_array

HIGH = 2.5  # inches
MOST = 2000  # nodes of a picture of the graph


def pairwise(
    values: NDArray[np.float64],
    observers: Sequence[int],
    links: csr_array,
    *,
    label: str = "ε",
    reference: NDArray[np.float64] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each node reveals to each observer: as a matrix, over distance, and on the graph for one observer.

    Parameters
    ----------
    values : array of float64, shape (observers, nodes)
        What observers get of nodes, e.g. from `golfsim.privacy.pairwise.epsilons`.
    observers : sequence of int
        The observers. The first one is that of the picture of the graph.
    links : csr_array, shape (nodes, nodes)
        The links of the graph.
    label : str
        What the values are.
    reference : array of float64, shape (observers, nodes), optional
        Other values, drawn dashed over distance, e.g. those of a published formula.
    ax : Axes, optional
        Axes whose place the panels take. Default: a new figure.
    """
    values, seen_by = np.asarray(values, np.float64), np.asarray(observers)
    if values.shape != (seen_by.size, links.shape[0]) or not seen_by.size:
        what = f"{values.shape[0]} × {values.shape[-1]} values for {seen_by.size} observers and {links.shape[0]} nodes"
        raise UserError(what, hint="expected one row per observer, and one column per node")
    own = np.arange(links.shape[0]) == seen_by[:, None]
    limits: Any = {"vmin": 0.0, "vmax": float(values[~own].max(initial=0.0)) or 1.0}
    with styled():
        matrix, curve, graph = panels(within(ax), 1, 3, (PAGE, HIGH))[0]
        image = matrix.imshow(
            np.where(own, np.nan, values), cmap=COLOURS, aspect="auto", interpolation="none", **limits
        )
        matrix.set(xlabel="node", ylabel="observer")
        matrix.grid(visible=False)
        matrix.figure.colorbar(image, ax=matrix, label=label)
        _curves(curve, [(label, values), ("published formula", reference)], seen_by, links)
        curve.set(xlabel="distance in the graph", ylabel=label)
        if links.shape[0] <= MOST:
            _picture(graph, values[0], int(observers[0]), links, limits)
        else:
            graph.set_visible(False)
    return matrix  # type: ignore[no-any-return]


def _curves(ax: Axes, curves: Any, observers: NDArray[Any], links: csr_array) -> None:
    """Draw means over distance, and the range of the first curve."""
    for place, (name, values) in enumerate(curves):
        if values is None:
            continue
        found = by_distance(values, observers.tolist(), links)
        distance, numbers, how = sorted(found), np.array([found[d] for d in sorted(found)]), look(place)
        ax.plot(distance, numbers[:, 0], color=how.colour, linestyle=how.dash, marker=how.marker, label=f"{name}, mean")
        if not place:
            ax.fill_between(
                distance, numbers[:, 1], numbers[:, 2], color=how.colour, alpha=0.2, label="from least to most"
            )
    ax.set_ylim(bottom=0)
    ax.set_xticks(distance)
    legend(ax, ax.get_legend_handles_labels()[0], columns=1)


def _picture(ax: Axes, values: NDArray[np.float64], observer: int, links: csr_array, limits: Any) -> None:
    """Draw the graph; the colour of a node is what the observer gets of it."""
    import pandas as pd
    from matplotlib.collections import LineCollection

    edges = links.tocoo()
    ends = np.unique(np.sort(np.column_stack([edges.row, edges.col]), axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    nodes = pd.DataFrame({"node": np.arange(links.shape[0])})
    at = places(pd.DataFrame(ends, columns=["source", "target"]), nodes)
    place = np.array([at[node] for node in range(links.shape[0])])
    ax.add_collection(LineCollection(place[ends], colors=GREY, linewidths=0.3, alpha=0.3, zorder=1))
    others = np.arange(links.shape[0]) != observer
    size = float(np.clip(1200 / len(place), 4, 40))
    ax.scatter(
        place[others, 0],
        place[others, 1],
        c=values[others],
        cmap=COLOURS,
        s=size,
        zorder=2,
        linewidths=0.2,
        edgecolors="k",
        **limits,
    )
    ax.scatter(
        place[observer, 0], place[observer, 1], c="w", marker="*", s=60, zorder=3, edgecolors="k", linewidths=0.6
    )
    ax.set(xticks=[], yticks=[], xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), title="what the star gets of each node")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
