"""Uniform peer sampling from all online nodes: the peer sampling service as an oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golfsim.protocol.base import LayerConfig
from golfsim.protocol.overlay import Overlay, choose_from_all, choose_from_pool

if TYPE_CHECKING:
    from golfsim.network.world import World


class Uniform(Overlay[LayerConfig]):
    """Every node knows all online nodes; nothing is stored or sent."""

    Config = LayerConfig
    accepts = frozenset({"loss", "delay", "partition"})

    def memory(self, world: World) -> int:
        """Return the bytes of one peer per node."""
        return 4 * world.nodes

    def choose(
        self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int | NDArray[np.int64] = 0
    ) -> NDArray[np.int32]:
        """Return for each node a random other node that is online."""
        nodes, numbers = self.numbers(world, nodes, k)
        peer = np.empty(nodes.size, np.int32)
        if 1 < world.nodes == world.order.size:
            choose_from_all(nodes, world.nodes, world.cycle, key, numbers, peer)
        else:
            choose_from_pool(nodes, np.sort(world.order), world.cycle, key, numbers, peer)
        return peer

    def links(self, world: World) -> None:
        """Return None: every node knows all others."""
        return None
