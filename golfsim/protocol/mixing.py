"""Send to all neighbours in an overlay, with weights for means: the entries of a mixing matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.protocol.overlay import Overlay

if TYPE_CHECKING:
    from golfsim.network.world import World

ALL_TO_ALL = 1000  # nodes, if each has all others as neighbours
DEGREE = 4  # bytes: the number of neighbours of the sender, for the weights
LINK, LINK_KEPT = 36, 14  # bytes per link: while links are sorted and weighed in each cycle, and if they stay


class Links(NamedTuple):
    """Both directions of all links of an overlay, sorted by receiver, then by sender."""

    src: NDArray[np.int32]
    dst: NDArray[np.int32]


@kernel
def weigh(src, dst, degree, uniform, weight):
    """Compute the entry of the mixing matrix of each link.

    Parameters
    ----------
    src, dst : array of int32, shape (links,)
        The sender and the receiver of each link.
    degree : array of int64, shape (nodes,)
        The number of neighbours of each node.
    uniform : bool
        1/(1 + degree of the receiver) in place of the weights of Metropolis and Hastings, 1/(1 + larger degree).
    weight : array of float64, shape (links,)
        The entries; filled here.
    """
    for e in range(src.size):
        mine = degree[dst[e]]
        weight[e] = 1 / (1 + (mine if uniform else max(mine, degree[src[e]])))


def most_messages(peers: Overlay[Any], world: World) -> int:
    """Return the largest number of messages of a cycle in which all nodes send to all neighbours."""
    return 2 * peers.most_links(world) or min(world.nodes, ALL_TO_ALL) ** 2


def memory_of_links(peers: Overlay[Any], world: World) -> int:
    """Return the bytes of the links of an overlay in both directions, with their weights."""
    return (LINK_KEPT if peers.fixed else LINK) * most_messages(peers, world)


class Neighbours:
    """The links of an overlay in both directions; they are sorted once if the overlay does not change.

    Parameters
    ----------
    peers : Overlay
        The overlay.
    key : str
        The setting that names it, for messages.
    """

    def __init__(self, peers: Overlay[Any], key: str) -> None:
        self._peers, self._key = peers, key
        self._fixed: Links | None = None
        self._all_to_all = False

    def links(self, world: World) -> Links:
        """Return the links of nodes that may send: with an oracle only those between online nodes."""
        peers = self._peers
        if self._fixed is None or not (peers.fixed or self._all_to_all):
            found = peers.links(world)
            self._all_to_all = found is None
            if found is None:
                self._refuse_many(world.nodes)
                everyone = np.arange(world.nodes)
                self._fixed = both_ways(world.nodes * np.arange(world.nodes + 1), np.tile(everyone, world.nodes))
            else:
                self._fixed = both_ways(found.indptr, found.indices)
        links = self._fixed
        if getattr(peers.config, "liveness", "oracle") != "oracle":
            return links
        there = world.online[links.src] & world.online[links.dst]
        return Links(links.src[there], links.dst[there])

    def weighted(
        self, world: World, uniform: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Return the sender, the receiver and the weight of each message of a cycle, sorted by receiver."""
        links = self.links(world)
        degree = np.bincount(links.dst, minlength=world.nodes)
        weight = np.empty(links.src.size)
        weigh(links.src, links.dst, degree, uniform, weight)
        sends = world.online[links.src]
        return links.src[sends], links.dst[sends], weight[sends]

    def _refuse_many(self, nodes: int) -> None:
        if nodes > ALL_TO_ALL:
            raise UserError(
                f"with “{self._peers.name}” every node has all others as neighbours, and there are {nodes:,} "
                f"nodes; expected at most {ALL_TO_ALL:,}",
                key=self._key,
                hint="use static_overlay, newscast or cyclon as peers",
            )


def both_ways(start: NDArray[Any], neighbour: NDArray[Any]) -> Links:
    """Return links in both directions, without loops: a node answers whom it does not know."""
    nodes = start.size - 1
    one = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(start))
    other = neighbour.astype(np.int64)
    apart = one != other
    one, other = one[apart], other[apart]
    both = np.unique(np.concatenate([one * nodes + other, other * nodes + one]))
    return Links((both % nodes).astype(np.int32), (both // nodes).astype(np.int32))
