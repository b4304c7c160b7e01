"""Measure overlays: degrees, clustering, paths, components, dead links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError, nearest
from golfsim.core.kernels import kernel
from golfsim.core.metrics import Metric

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World
    from golfsim.protocol.overlay import Overlay

Metrics = dict[str, float]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
METRICS = (
    Metric("links.dead", "The share of links of online nodes that point to offline nodes.", "share of links", "down"),
    Metric(
        "views.stale", "The share of online nodes that have a link to an offline node.", "share of online nodes", "down"
    ),
    Metric(
        "views.dead", "The share of online nodes that have no link to an online node.", "share of online nodes", "down"
    ),
    Metric("indegree", "The number of online nodes that have a link to the node.", "nodes", summary=True),
    Metric("indegree.min", "The smallest in-degree.", "nodes"),
    Metric("indegree.max", "The largest in-degree.", "nodes"),
    Metric("indegree.q99", "The in-degree that 99 % of the nodes do not exceed.", "nodes"),
    Metric("degree", "The number of online neighbours of the node if links have no direction.", "nodes", summary=True),
    Metric("degree.min", "The smallest degree.", "nodes"),
    Metric("degree.max", "The largest degree.", "nodes"),
    Metric("degree.q99", "The degree that 99 % of the nodes do not exceed.", "nodes"),
    Metric(
        "clustering",
        "The mean share of pairs of a node's neighbours that are neighbours of each other, over sampled nodes.",
        "share of pairs",
    ),
    Metric(
        "path_length", "The mean length of the shortest paths from sampled nodes to all nodes that they reach.", "links"
    ),
    Metric("components", "The number of connected components of the online nodes.", "components", "down"),
)  # of overlays that store links


@kernel
def distances_from(start, neighbour, source, distance, queue):
    """Search breadth-first; return the number of other nodes that are reached and the sum of their distances."""
    distance[:] = -1
    distance[source] = 0
    queue[0] = source
    read, write, total = 0, 1, 0
    while read < write:
        node = queue[read]
        read += 1
        total += distance[node]
        for place in range(start[node], start[node + 1]):
            other = neighbour[place]
            if distance[other] < 0:
                distance[other] = distance[node] + 1
                queue[write] = other
                write += 1
    return write - 1, total


def measure(overlay: Overlay[Any], world: World, key: np.uint64, sample: int) -> Metrics:
    """Return all metrics of the overlay between online nodes.

    Clustering and paths are measured at `sample` random nodes, or at all nodes if there are fewer.
    """
    links = overlay.links(world)
    if links is None:
        return {}
    online = np.flatnonzero(world.online).astype(np.int32)
    alive = links[online][:, online]
    places = rng.sample(key, world.cycle, np.arange(online.size, dtype=np.int32), sample)
    graph = undirected(alive)
    return (
        dead_links(links[online], world.online)
        | spread("indegree", np.bincount(alive.indices, minlength=online.size))
        | spread("degree", np.diff(graph.indptr))
        | {"clustering": clustering(graph, places), "path_length": path_length(graph, places)}
        | {"components": float(components(graph))}
    )


def in_degrees(overlay: Overlay[Any], world: World) -> NDArray[np.int64] | None:
    """Return the in-degree of each online node among online nodes; None if the overlay stores no links."""
    links = overlay.links(world)
    if links is None:
        return None
    source = np.repeat(world.online, np.diff(links.indptr))
    return np.asarray(np.bincount(links.indices[source], minlength=world.nodes)[world.online], np.int64)


def undirected(links: csr_array) -> csr_array:
    """Return the graph without directions."""
    both: csr_array = (links + links.T).tocsr()
    both.data = np.ones(both.nnz, np.int32)
    both.sort_indices()
    return both


def spread(name: str, values: NDArray[Any]) -> Metrics:
    """Return the mean, standard deviation, extremes and quantiles of a degree."""
    found = {f"{name}.mean": values.mean(), f"{name}.std": values.std(), f"{name}.min": values.min()}
    found[f"{name}.max"] = values.max()
    quantiles = zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)
    found |= {f"{name}.q{round(100 * q):02}": v for q, v in quantiles}
    return {metric: float(value) for metric, value in found.items()}


def dead_links(links: csr_array, online: NDArray[np.bool_]) -> Metrics:
    """Return the shares of dead links, of views with a dead link, and of views with dead links only."""
    dead = ~online[links.indices]
    size = np.diff(links.indptr)
    ends = np.concatenate([[0], np.cumsum(dead)])
    gone = ends[links.indptr[1:]] - ends[links.indptr[:-1]]
    return {
        "links.dead": float(dead.mean()) if dead.size else 0.0,
        "views.stale": float((gone > 0).mean()),
        "views.dead": float((gone == size).mean()),
    }


def clustering(graph: csr_array, nodes: NDArray[np.int32]) -> float:
    """Return the mean share of pairs of neighbours that know each other; 0 for nodes with fewer than two neighbours."""
    rows = graph[nodes]
    degree = np.diff(rows.indptr)
    closed = np.asarray((rows @ graph).multiply(rows).sum(axis=1)).ravel()
    return float(np.mean(closed / np.maximum(degree * (degree - 1.0), 1)))


def path_length(graph: csr_array, sources: NDArray[np.int32]) -> float:
    """Return the mean distance from the sources to the nodes that they reach; NaN if they reach none."""
    nodes = graph.shape[0]
    distance, queue = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    found = [distances_from(graph.indptr, graph.indices, source, distance, queue) for source in sources]
    reached = sum(count for count, _ in found)
    return sum(total for _, total in found) / reached if reached else float("nan")


def components(graph: csr_array) -> int:
    """Return the number of connected components."""
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(graph, directed=False)[0])


def write_graphml(overlay: Overlay[Any], world: World, path: Any) -> int:
    """Write the overlay as GraphML, with the labels of nodes, and return the number of links."""
    import networkx as nx

    links = overlay.links(world)
    if links is None:
        raise UserError(f"“{overlay.name}” stores no links: every node knows all others")
    graph = nx.DiGraph()
    label = world.label.tolist()
    for node in np.argsort(world.label):
        graph.add_node(label[node], online=bool(world.online[node]))
    source = np.repeat(np.arange(world.nodes), np.diff(links.indptr))
    graph.add_edges_from((label[a], label[b]) for a, b in zip(source, links.indices, strict=True))
    nx.write_graphml(graph, path)
    return int(graph.number_of_edges())


def find(layers: dict[str, Any], name: str | None, world: World) -> Overlay[Any]:
    """Return the overlay with this name, or the first one that stores links."""
    from golfsim.protocol.overlay import Overlay

    overlays = {key: layer for key, layer in layers.items() if isinstance(layer, Overlay)}
    if name is None and overlays:
        name = next((key for key, layer in overlays.items() if layer.links(world) is not None), next(iter(overlays)))
    if name not in overlays:
        raise UserError(f"there is no overlay “{name}”", hint=nearest(str(name), overlays))
    return overlays[name]
