"""What an overlay is: a layer that tells every node whom it can talk to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.core.rng import below, draw
from golfsim.protocol.base import LayerConfig, Protocol

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World

C = TypeVar("C", bound=LayerConfig)


@kernel
def choose_from_pool(nodes, pool, cycle, key, k, peer):
    """For each node a random member of the pool (in rising order) other than itself, or −1."""
    for e in range(nodes.size):
        i = nodes[e]
        place = np.searchsorted(pool, i)
        inside = place < pool.size and pool[place] == i
        others = pool.size - inside
        peer[e] = -1
        if others > 0:
            index = below(draw(key, cycle, i, k), others)
            peer[e] = pool[index + 1 if inside and index >= place else index]


@kernel
def choose_from_all(nodes, count, cycle, key, k, peer):
    """The same where everybody is in the pool: 0 … count−1."""
    for e in range(nodes.size):
        index = below(draw(key, cycle, nodes[e], k), count - 1)
        peer[e] = index + (index >= nodes[e])


class Overlay(Protocol[C]):
    """A layer that other layers ask for peers."""

    def choose(self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int = 0) -> NDArray[np.int32]:
        """A random neighbour for each node, or −1 where it knows nobody it could send to.

        An overlay without a liveness oracle may name a neighbour that is offline: the message is then sent and lost.
        """
        raise NotImplementedError

    def links(self, world: World) -> csr_array | None:
        """Who knows whom, a row a node; None where everybody knows everybody."""
        raise NotImplementedError

    def links_of(self, world: World, nodes: NDArray[np.int32]) -> csr_array | None:
        """The rows of `links` of some nodes."""
        links = self.links(world)
        return None if links is None else links[nodes]
