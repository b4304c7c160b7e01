"""Perfect matchings as peer sampling: in each cycle the online nodes form random pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.memory import size_of
from golfsim.core.rng import below, draw
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.overlay import Overlay

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World

MOST = 100  # matchings per call


@kernel
def pair_up(pool, key, cycle, k, partner):
    """Draw a random matching: shuffle the pool (Fisher–Yates), and pair the first with the second, and so on.

    Parameters
    ----------
    pool : array of int32
        The nodes; changed in place.
    key, cycle, k
        Of the draws.
    partner : array of int32, shape (nodes,)
        Filled with the partner of each node, or −1.
    """
    partner[:] = -1
    for place in range(pool.size - 1, 0, -1):
        other = below(draw(key, cycle, place, k), place + 1)
        pool[place], pool[other] = pool[other], pool[place]
    for place in range(1, pool.size, 2):
        partner[pool[place - 1]], partner[pool[place]] = pool[place], pool[place - 1]


class Matching(Overlay[LayerConfig]):
    """In each cycle the online nodes form random pairs: a node is the peer of its peer. Nothing is stored or sent.

    All layers get the same pairs, whatever the key of their draws. Each k draws another matching of the cycle, and so
    does each further turn of a layer in the cycle. If the number of online nodes is odd, one of them has no peer.
    """

    Config = LayerConfig
    accepts = frozenset({"loss", "delay", "partition"})

    def setup(self, world: World) -> None:
        """Forget the pairs of earlier cycles."""
        self._drawn = (-1, -1, -1)
        self._partner = np.empty(world.nodes, np.int32)

    def memory(self, world: World) -> int:
        """Return the bytes of the partner and the place of each node."""
        return size_of((np.int32, 3, world.nodes))

    def most_links(self, world: World) -> int:
        """Return the number of links: one per node."""
        return world.nodes

    def choose(
        self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int | NDArray[np.int64] = 0
    ) -> NDArray[np.int32]:
        """Return the partner of each node in matching k of this turn, or −1."""
        nodes, numbers = self.numbers(world, nodes, k)
        if isinstance(numbers, int):
            return self._matching(world, numbers)[nodes]
        wanted = np.unique(numbers)
        if wanted.size > MOST:
            raise UserError(
                f"a layer asks for {wanted.size:,} matchings in one cycle; at most {MOST} can be drawn",
                key=self.name,
                hint="give that layer another overlay, for example “uniform”",
            )
        peer = np.empty(nodes.size, np.int32)
        for number in wanted.tolist():
            peer[numbers == number] = self._matching(world, number)[nodes[numbers == number]]
        return peer

    def links(self, world: World) -> csr_array:
        """Return the pairs of matching 0 of this turn."""
        from scipy.sparse import csr_array

        partner = self._matching(world, 0)
        there = np.flatnonzero(partner >= 0)
        start = np.concatenate([[0], np.cumsum(partner >= 0)])
        ones = np.ones(there.size, np.int8)
        return csr_array((ones, partner[there], start), shape=(world.nodes, world.nodes))

    def _matching(self, world: World, k: int) -> NDArray[np.int32]:
        """Return the partner of each node; the last matching is remembered."""
        if self._drawn != (world.cycle, world.turn, k):
            key = self._key_of("matching", world.turn)
            pair_up(np.sort(world.order), key, world.cycle, k, self._partner)
            self._drawn = (world.cycle, world.turn, k)
        return self._partner
