"""A fixed graph from a networkx generator, from a file, or with random neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.errors import UserError, nearest
from golfsim.core.kernels import kernel
from golfsim.core.memory import extrapolated, traced
from golfsim.core.paths import unreadable
from golfsim.core.rng import below, draw, item
from golfsim.core.settings import FileName
from golfsim.core.words import counted
from golfsim.data import generators
from golfsim.data.graphs import most_edges, read_adjacency, read_edges
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.overlay import Overlay

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World


EDGE = 66  # bytes per edge while edges are sorted: several copies of two numbers
FEW = 500  # nodes of the smallest graph that is measured


@kernel
def choose_neighbour(start, neighbour, nodes, online, cycle, key, k, oracle, peer):
    """Choose a random neighbour of each node.

    Parameters
    ----------
    start : array of int64, shape (nodes + 1,)
        The neighbours of node i are neighbour[start[i]] … neighbour[start[i+1]−1].
    neighbour : array of int32
        The neighbours of all nodes.
    nodes : array of int32
        The nodes that choose.
    online : array of bool, shape (nodes,)
        Which nodes are online.
    cycle : int
        The current cycle.
    key : uint64
        The key of the draws.
    k : int, or array of int64 with the shape of `nodes`
        The number of the draw in this cycle, one for all nodes or one per node.
    oracle : bool
        Whether only online neighbours are chosen.
    peer : array of int32, shape of `nodes`
        The chosen neighbours, or −1 if there is none; filled here.
    """
    for e in range(nodes.size):
        i = nodes[e]
        count = start[i + 1] - start[i]
        if oracle:
            count = 0
            for place in range(start[i], start[i + 1]):
                count += online[neighbour[place]]
        peer[e] = -1
        if count > 0:
            left = below(draw(key, cycle, i, item(k, e)), count)
            for place in range(start[i], start[i + 1]):
                if not oracle or online[neighbour[place]]:
                    if left == 0:
                        peer[e] = neighbour[place]
                        break
                    left -= 1


@kernel
def random_neighbours(key, out):
    """Draw `out.shape[1]` different random neighbours for each node, by rejection."""
    nodes, wanted = out.shape
    for i in range(nodes):
        n = k = 0
        while n < wanted:
            peer = below(draw(key, 0, i, k), nodes)
            k += 1
            fresh = peer != i
            for m in range(n):
                fresh &= out[i, m] != peer
            if fresh:
                out[i, n] = peer
                n += 1


class StaticOverlayConfig(LayerConfig):
    """The graph, by exactly one of `generator`, `file` and `neighbours`."""

    generator: str | None = Field(
        None,
        description="the name of a networkx generator, e.g. “random_regular_graph”; its `n` is the number of nodes",
    )
    arguments: dict[str, Any] = Field({}, description="the other arguments of the generator, e.g. { d = 20 }")
    file: FileName | None = Field(
        None,
        description="a file with an edge list (two node numbers per line; # begins a comment), or with an adjacency "
        "matrix of scipy.sparse (.npz); the path is relative to the scenario file",
    )
    neighbours: int | None = Field(None, ge=1, description="k-out graph: the number of random neighbours per node")
    directed: bool = Field(False, description="read the edges of `file` as directed")
    liveness: Literal["oracle", "none"] = Field(
        "oracle",
        description="“oracle”: choose among online neighbours only; “none”: choose among all neighbours, and lose "
        "messages to offline ones",
    )

    @model_validator(mode="after")
    def _one_graph(self) -> StaticOverlayConfig:
        if sum(source is not None for source in (self.generator, self.file, self.neighbours)) != 1:
            raise ValueError("expected exactly one of “generator”, “file” and “neighbours”")
        return self


class StaticOverlay(Overlay[StaticOverlayConfig]):
    """A graph that does not change. Nodes in a file or a generator have the numbers of `world.label`."""

    Config = StaticOverlayConfig
    accepts = frozenset({"loss", "delay", "partition"})
    fixed = True

    def setup(self, world: World) -> None:
        """Create the graph in the internal numbers of the nodes."""
        self._oracle = self.config.liveness == "oracle"
        if self.config.neighbours is not None:
            edges = self._random_edges(world.nodes, self.config.neighbours)
        else:
            edges = self._labelled_edges(world)
        self._start, self._neighbour = _rows(edges, world.nodes)

    def memory(self, world: World) -> int:
        """Return the bytes of the edges while they are sorted; those of a generator are measured with fewer nodes."""
        config = self.config
        if config.neighbours is not None:
            return EDGE * world.nodes * config.neighbours
        if config.file is not None:
            return EDGE * (1 if config.directed else 2) * most_edges(self._folder / config.file)
        if "n" in config.arguments or "n" not in generators.arguments_of(self._generator()):
            return self._peak(world.nodes)
        return extrapolated(self._peak, min(FEW, max(1, world.nodes // 8)), world.nodes)

    def most_links(self, world: World) -> int:
        """Return the number of edges; for a generator, an upper bound from its memory."""
        return (self.memory(world) or 0) // EDGE

    def _peak(self, nodes: int) -> int:
        """Return the largest number of bytes that a graph of the generator needs until its edges are sorted."""
        with traced() as peak:
            _rows(self._generate(nodes)[0], nodes)
        return peak()

    def choose(
        self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int | NDArray[np.int64] = 0
    ) -> NDArray[np.int32]:
        """Return a random neighbour of each node."""
        nodes, numbers = self.numbers(world, nodes, k)
        peer = np.empty(nodes.size, np.int32)
        choose_neighbour(
            self._start, self._neighbour, nodes, world.online, world.cycle, key, numbers, self._oracle, peer
        )
        return peer

    def links(self, world: World) -> csr_array:
        """Return the graph."""
        from scipy.sparse import csr_array

        ones = np.ones(self._neighbour.size, np.int8)
        return csr_array((ones, self._neighbour, self._start), shape=(world.nodes, world.nodes))

    def _random_edges(self, nodes: int, wanted: int) -> NDArray[np.int64]:
        if wanted >= nodes:
            raise self._wrong("neighbours", f"{wanted} different neighbours per node need more than {nodes} nodes")
        out = np.empty((nodes, wanted), np.int64)
        random_neighbours(self.key("graph"), out)
        return np.column_stack([np.repeat(np.arange(nodes), wanted), out.ravel()])

    def _labelled_edges(self, world: World) -> NDArray[np.int64]:
        if self.config.file is not None:
            edges, directed = self._read(self._folder / self.config.file, world.nodes), self.config.directed
        else:
            edges, directed = self._generate(world.nodes)
        node_of = np.empty(world.nodes, np.int64)
        node_of[world.label] = np.arange(world.nodes)
        edges = node_of[edges]
        return edges if directed else np.vstack([edges, edges[:, ::-1]])

    def _read(self, path: Path, nodes: int) -> NDArray[np.int64]:
        if why := unreadable(path):
            raise self._wrong("file", f"{path}: {why}")
        try:
            return read_adjacency(path, nodes) if path.suffix == ".npz" else read_edges(path, nodes)
        except OSError as error:
            raise self._wrong("file", f"{path}: {error.strerror or error}") from None
        except ValueError as error:
            raise self._wrong("file", f"{path}: {error}") from None

    def _generate(self, nodes: int) -> tuple[NDArray[np.int64], bool]:
        import networkx as nx

        name, generator = self.config.generator, self._generator()
        try:
            graph = generators.call(generator, nodes, int(self.key("graph")) % 2**32, self.config.arguments)
        except generators.TooLarge as error:
            raise self._wrong("arguments", f"networkx.{name} {error}, the network has {nodes} nodes") from None
        except Exception as error:  # of the generator, for arguments that it does not expect
            what = f"networkx.{name}: {type(error).__name__}: {error}"
            raise self._wrong("arguments", what) from None
        if not isinstance(graph, nx.Graph):
            raise self._wrong("generator", f"networkx.{name} returned a {type(graph).__name__}, not a graph")
        if graph.number_of_nodes() != nodes:
            what = f"networkx.{name} returned {counted(graph.number_of_nodes(), 'node')}, the network has {nodes}"
            raise self._wrong("arguments", what)
        number = {node: i for i, node in enumerate(graph)}
        edges = [(number[a], number[b]) for a, b in graph.edges()]
        return np.array(edges, np.int64).reshape(-1, 2), graph.is_directed()

    def _generator(self) -> Any:
        import networkx as nx

        name = self.config.generator or ""
        generator = getattr(nx, name, None)
        if not callable(generator) or not name.endswith("_graph"):
            names = [n for n in dir(nx) if n.endswith("_graph")]
            raise self._wrong("generator", f"networkx has no generator “{name}”", nearest(name, names))
        return generator

    def _wrong(self, key: str, what: str, hint: str | None = None) -> UserError:
        return UserError(what, key=f"{self.name}.{key}", hint=hint)


def _rows(edges: NDArray[np.int64], nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return edges as rows of neighbours: sorted, without loops and repetitions."""
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    start = np.searchsorted(edges[:, 0], np.arange(nodes + 1))
    return start.astype(np.int64), edges[:, 1].astype(np.int32)
