"""What an overlay is: a layer that names peers for the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.core.rng import below, draw, item
from golfsim.network.transport import node_numbers
from golfsim.protocol.base import LayerConfig, Protocol

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World

C = TypeVar("C", bound=LayerConfig)


@kernel
def choose_from_pool(nodes, pool, cycle, key, k, peer):
    """Choose a random member of the pool (in rising order) other than itself for each node, or −1.

    Parameters
    ----------
    nodes : int32 array, [nodes]
        The nodes that need a peer.
    pool : int32 array
        Who may be chosen, in rising order.
    cycle, key
        Of the draws.
    k : int, or int64 array, [nodes]
        The number of the draw in this cycle, one for all nodes or one per node.
    peer : int32 array, [nodes]
        Filled with the chosen peers.
    """
    for e in range(nodes.size):
        i = nodes[e]
        place = np.searchsorted(pool, i)
        inside = place < pool.size and pool[place] == i
        others = pool.size - inside
        peer[e] = -1
        if others > 0:
            index = below(draw(key, cycle, i, item(k, e)), others)
            peer[e] = pool[index + 1 if inside and index >= place else index]


@kernel
def choose_from_all(nodes, count, cycle, key, k, peer):
    """Choose as `choose_from_pool` does where all nodes are in the pool: 0 … count−1.

    Parameters
    ----------
    nodes : int32 array, [nodes]
        The nodes that need a peer.
    count : int
        The number of nodes of the network.
    cycle, key
        Of the draws.
    k : int, or int64 array, [nodes]
        The number of the draw in this cycle, one for all nodes or one per node.
    peer : int32 array, [nodes]
        Filled with the chosen peers.
    """
    for e in range(nodes.size):
        index = below(draw(key, cycle, nodes[e], item(k, e)), count - 1)
        peer[e] = index + (index >= nodes[e])


def random_contacts(
    world: World, nodes: NDArray[np.int32], among: NDArray[np.bool_], key: np.uint64, k: int = 0
) -> NDArray[np.int32]:
    """Choose a random contact for each node among the nodes that are marked and that no cut separates from it, or −1.

    With `among=world.online` it is a random online node, also where no overlay names one: a node that joins needs it.
    """
    side = world.transport.side()
    contacts = np.full(nodes.size, -1, np.int32)
    for value in np.unique(side[nodes]) if side.size else [0]:
        mine = side[nodes] == value if side.size else np.ones(nodes.size, np.bool_)
        pool = np.flatnonzero(among & (side == value if side.size else True)).astype(np.int32)
        found = np.empty(int(mine.sum()), np.int32)
        choose_from_pool(nodes[mine], pool, world.cycle, key, k, found)
        contacts[mine] = found
    return contacts


class Overlay(Protocol[C]):
    """A layer that other layers ask for peers."""

    fixed: ClassVar[bool] = False  # its links never change

    def choose(
        self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int | NDArray[np.int64] = 0
    ) -> NDArray[np.int32]:
        """Choose a random neighbour for each node, or −1 if the node knows no other.

        An overlay without a liveness oracle may name a neighbour that is offline: the message is then sent and lost.
        A node that needs several peers in a cycle asks with another k each time, or with an array of k, one per entry
        of `nodes`. The same (node, k) twice would be the same draw twice, and is refused.
        """
        raise NotImplementedError

    def most_links(self, world: World) -> int:
        """Return the largest number of links that the overlay can have, 0 if it stores none."""
        return 0

    def links(self, world: World) -> csr_array | None:
        """Return who knows whom, one row per node; None where all nodes know each other."""
        raise NotImplementedError

    def links_of(self, world: World, nodes: NDArray[np.int32]) -> csr_array | None:
        """Return the rows of `links` of some nodes."""
        links = self.links(world)
        return None if links is None else links[nodes]

    def numbers(
        self, world: World, nodes: NDArray[np.int32], k: int | NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], int | NDArray[np.int64]]:
        """Return nodes and k as kernels take them; refuse the same (node, k) twice, which would draw the same peer."""
        if nodes is world.order and isinstance(k, int):
            return nodes, k
        nodes, numbers = node_numbers(nodes, f"{self.name}.choose: nodes"), np.asarray(k, np.int64)
        if numbers.ndim and numbers.shape != nodes.shape:
            raise ValueError(f"{self.name}.choose: k has {numbers.size} entries for {nodes.size} nodes")
        pairs = np.column_stack([nodes, np.broadcast_to(numbers, nodes.shape)])
        if len(np.unique(pairs, axis=0)) < nodes.size:
            raise ValueError(f"{self.name}.choose: the same (node, k) twice; a node that asks twice needs another k")
        return nodes, numbers if numbers.ndim else int(numbers)
