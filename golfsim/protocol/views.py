"""What overlays have in common whose nodes keep a small view of other nodes (Newscast, CYCLON).

A view is a row of words. A word, the descriptor of a peer, has a time (a stamp or an age) in its upper half and the
number of the peer in its lower half. −1 stands for an empty place; empty places are at the end of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.kernels import inlined, kernel
from golfsim.core.memory import size_of
from golfsim.core.rng import below, draw, item
from golfsim.network.transport import NO_PAIRS
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.overlay import Overlay, random_contacts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World

NONE = -1
TIME = 32  # the bits that the time stands above
PEER = 0xFFFF_FFFF


@inlined
def descriptor(time, peer):
    """Return a time and a peer as one word."""
    return (np.int64(time) << TIME) | np.int64(peer)


@inlined
def known(views, i):
    """Return how many descriptors view i has."""
    n = views.shape[1]
    while n > 0 and views[i, n - 1] < 0:
        n -= 1
    return n


@inlined
def live_peer(views, i, index, size, online, oracle):
    """Return the peer at an index; with the oracle, the nearest online one at a later place, then at an earlier one.

    Parameters
    ----------
    views : int64 array, [nodes, view]
        The descriptors of each node.
    i, index, size : int
        The view, the place in it, and its number of descriptors.
    online : bool array, [nodes] or [0]
        Who is online; no entries while all nodes are.
    oracle : bool
        Whether an offline peer is replaced.
    """
    peer = views[i, index] & PEER
    if not oracle or online.size == 0 or online[peer]:
        return peer
    for later in range(index + 1, size):
        if online[views[i, later] & PEER]:
            return views[i, later] & PEER
    for earlier in range(index - 1, -1, -1):
        if online[views[i, earlier] & PEER]:
            return views[i, earlier] & PEER
    return np.int64(NONE)


@kernel
def lonely(views, nodes, online, out):
    """Write which nodes have no online node in their view."""
    for e in range(nodes.size):
        out[e] = True
        for word in views[nodes[e]]:
            out[e] &= word < 0 or not online[word & PEER]


@kernel
def choose_from_views(views, nodes, online, cycle, key, k, oracle, peer):
    """Choose a random peer from the view of each node, or −1.

    Parameters
    ----------
    views : int64 array, [nodes of the network, view]
        The descriptors of each node.
    nodes : int32 array, [nodes]
        The nodes that need a peer.
    online : bool array, [nodes of the network] or [0]
        Who is online; no entries while all nodes are.
    cycle, key
        Of the draws.
    k : int, or int64 array, [nodes]
        The number of the draw in this cycle, one for all nodes or one per node.
    oracle : bool
        Whether an offline peer is replaced by an online one of the view.
    peer : int32 array, [nodes]
        Filled with the chosen peers.
    """
    for e in range(nodes.size):
        size = known(views, nodes[e])
        peer[e] = NONE
        if size > 0:
            index = below(draw(key, cycle, nodes[e], item(k, e)), size)
            peer[e] = live_peer(views, nodes[e], index, size, online, oracle)


@kernel
def random_views(views, nodes, pool, time, key, cycle, most):
    """Fill the views of some nodes with different random members of the pool, without the node itself (by rejection).

    Parameters
    ----------
    views : int64 array, [nodes of the network, view]
        The descriptors of each node.
    nodes, pool : int32 array
        Whose views are filled, and who may be in them.
    time : int
        The time in the new descriptors.
    key, cycle
        Of the draws.
    most : int
        The largest number of descriptors per view.
    """
    for e in range(nodes.size):
        i = nodes[e]
        views[i] = NONE
        n = k = 0
        wanted = min(most, pool.size - 1)
        while n < wanted:
            peer = pool[below(draw(key, cycle, i, k), pool.size)]
            k += 1
            fresh = peer != i
            for m in range(n):
                fresh &= views[i, m] != descriptor(time, peer)
            if fresh:
                views[i, n] = descriptor(time, peer)
                n += 1


@inlined
def add(views, i, word):
    """Put a descriptor into view i unless its peer is there: into an empty place, or in place of the last one."""
    size = known(views, i)
    for place in range(size):
        if views[i, place] & PEER == word & PEER:
            return
    views[i, min(size, views.shape[1] - 1)] = word


@kernel
def introduce(views, nodes, contacts, time):
    """Let pairs of nodes put each other into their views."""
    for e in range(nodes.size):
        add(views, nodes[e], descriptor(time, contacts[e]))
        add(views, contacts[e], descriptor(time, nodes[e]))


class ViewConfig(LayerConfig):
    """The settings of an overlay whose nodes keep views."""

    view: int = Field(ge=1, le=1000, description="the number of descriptors that a node keeps")
    liveness: Literal["oracle", "none"] = Field(
        "oracle",
        description="if a chosen peer is offline: “oracle” takes an online one of the view instead, as PeerSim does; "
        "with “none” the message is lost",
    )

    contacts: int = Field(
        1,
        ge=1,
        description="the number of random online nodes in the view of a node that joins, or that returns with new "
        "state; at most the length of the view",
    )


C = TypeVar("C", bound=ViewConfig)


class ViewOverlay(Overlay[C]):
    """An overlay whose nodes keep views. A subclass says how nodes exchange descriptors."""

    repeats = True

    def setup(self, world: World) -> None:
        """Allocate empty views."""
        self.views = np.full((world.nodes, self.config.view), NONE, np.int64)
        self.last_turn = 0
        self._oracle = self.config.liveness == "oracle"
        self._exchange_key, self._start_key = self.key("exchange"), self.key("start")
        self._bytes = 8 * self.config.view

    def memory(self, world: World) -> int:
        """Return the bytes of the views, and of one peer per node."""
        return size_of((np.int64, world.nodes, self.config.view), (np.int32, 3, world.nodes))

    def most_links(self, world: World) -> int:
        """Return the number of links if all views are full."""
        return world.nodes * self.config.view

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give the first nodes random views, and each later node online contacts."""
        newcomer = np.zeros(world.nodes, np.bool_)
        newcomer[nodes] = True
        settled, time = world.online & ~newcomer, self._time_of_contacts(world)
        if not settled.any():
            pool = np.flatnonzero(world.online).astype(np.int32)
            random_views(self.views, nodes, pool, time, self._start_key, world.cycle, self.config.view)
            return
        if self.config.contacts > 1:
            self._fill(world, nodes, time)
            return
        contacts = random_contacts(world, nodes, settled, self._start_key)
        self.views[nodes] = NONE
        self.views[nodes, 0] = np.where(contacts < 0, NONE, (np.int64(time) << TIME) | contacts)

    def _fill(self, world: World, nodes: NDArray[np.int32], time: int) -> None:
        """Give nodes that join several random online contacts, on their side of a cut."""
        side = world.transport.side()
        for value in np.unique(side[nodes]) if side.size else [0]:
            mine = side == value if side.size else np.ones(world.nodes, np.bool_)
            pool = np.flatnonzero(world.online & mine).astype(np.int32)
            most = min(self.config.contacts, self.config.view)
            random_views(self.views, nodes[mine[nodes]], pool, time, self._start_key, world.cycle, most)

    def step(self, world: World) -> None:
        """Introduce nodes that returned and know no online node, and nodes after a cut; then let all exchange."""
        self._introduce(world, self._contacts_of_lonely(world))
        if world.turn == 0:
            self._introduce(world, world.transport.introductions())
        self._exchange(world)

    def choose(
        self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int | NDArray[np.int64] = 0
    ) -> NDArray[np.int32]:
        """Choose a random peer of each node's view."""
        nodes, numbers = self.numbers(world, nodes, k)
        peer = np.empty(nodes.size, np.int32)
        choose_from_views(self.views, nodes, world.presence(), world.cycle, key, numbers, self._oracle, peer)
        return peer

    def links(self, world: World) -> csr_array:
        """Return who is in whose view."""
        return as_links(self.views, world.nodes)

    def links_of(self, world: World, nodes: NDArray[np.int32]) -> csr_array:
        """Return who is in the views of some nodes."""
        return as_links(self.views[nodes], world.nodes)

    def _time_of_contacts(self, world: World) -> int:
        """Return the time in the descriptors that a node starts with."""
        return 0

    def _exchange(self, world: World) -> None:
        """Let each online node exchange descriptors once."""
        raise NotImplementedError

    def _meet(self, world: World, nodes: NDArray[np.int32], contacts: NDArray[np.int32]) -> int:
        """Let pairs of nodes (contact −1: none) put each other into their views, and return how many did."""
        there = contacts >= 0
        introduce(self.views, nodes[there], contacts[there], self._time_of_contacts(world))
        return int(there.sum())

    def _introduce(self, world: World, pairs: NDArray[np.int32]) -> None:
        if len(pairs):
            met = self._meet(world, pairs[:, 0], pairs[:, 1])
            world.transport.count(self, sent=2 * met, delivered=2 * met, lost=0, size=self._bytes)

    def _contacts_of_lonely(self, world: World) -> NDArray[np.int32]:
        """Return pairs: a node that came online since the last turn and knows no online node, and a random contact."""
        last, self.last_turn = self.last_turn, world.cycle
        if world.last_came <= last:
            return NO_PAIRS
        came = np.flatnonzero(world.online & (world.since > last)).astype(np.int32)
        alone = np.empty(came.size, np.bool_)
        lonely(self.views, came, world.online, alone)
        nodes = came[alone]
        return np.column_stack([nodes, random_contacts(world, nodes, world.online, self._start_key, 1)])


def as_links(views: NDArray[np.int64], nodes: int) -> csr_array:
    """Return views as a sparse matrix: one row per view, one column per node of the network."""
    from scipy.sparse import csr_array

    there = views >= 0
    start = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    peer = (views[there] & PEER).astype(np.int32)
    return csr_array((np.ones(peer.size, np.int8), peer, start), shape=(len(views), nodes))
