"""Newscast: an overlay that mends itself by exchanging fresh descriptors (Jelasity & van Steen 2002)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.kernels import kernel
from golfsim.overlay import Overlay, choose_from_pool
from golfsim.protocol import LayerConfig
from golfsim.rng import below, draw

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.world import World

# A descriptor is one word, the time stamp above the peer's number; a view is a row of them, freshest first. No
# descriptor is −1, which is older than any.
NONE = -1
STAMP = 32
PEER = 0xFFFF_FFFF


@kernel
def descriptor(stamp, peer):
    """Time stamp and peer as one word."""
    return (np.int64(stamp) << STAMP) | np.int64(peer)


@kernel
def known(view):
    """How many descriptors a view has."""
    n = view.size
    while n > 0 and view[n - 1] < 0:
        n -= 1
    return n


@kernel
def live_peer(view, index, size, online, oracle):
    """The peer at an index; with the oracle, the nearest one online among older entries, then among younger ones."""
    peer = view[index] & PEER
    if not oracle or online[peer]:
        return peer
    for older in range(index + 1, size):
        if online[view[older] & PEER]:
            return view[older] & PEER
    for younger in range(index - 1, -1, -1):
        if online[view[younger] & PEER]:
            return view[younger] & PEER
    return np.int64(NONE)


@kernel
def merge(a, b, i, j, i_wins_tie, tail):
    """The freshest descriptors of two views without i, j and repetitions, from tail[1] on; returns where it ends.

    Only time stamps are compared; equal ones are taken from the two views in turn.
    """
    size = tail.size
    n, p, q = 1, 0, 0
    while n < size:
        from_a = a[p] if p < size else np.int64(NONE)
        from_b = b[q] if q < size else np.int64(NONE)
        stamp_a, stamp_b = from_a >> STAMP, from_b >> STAMP
        if stamp_a == stamp_b:
            if from_a < 0:
                break
            take_a = i_wins_tie
            i_wins_tie = not i_wins_tie
        else:
            take_a = stamp_a > stamp_b
        word = from_a if take_a else from_b
        p += take_a
        q += not take_a
        peer = word & PEER
        keep = peer != i and peer != j
        for k in range(1, n):
            keep &= (tail[k] & PEER) != peer
        tail[n] = word
        n += keep
    return n


@kernel
def adopt(view, stamp, partner, tail, n):
    """Set a view to a fresh descriptor of the partner and the merged tail."""
    view[0] = descriptor(stamp, partner)
    view[1:n] = tail[1:n]
    view[n:] = NONE


@kernel
def exchange(views, order, online, now, key, oracle, request_lost, answer_lost):
    """Each node in turn exchanges views with a random peer of its view: (requests, delivered, answers, delivered)."""
    tail = np.empty(views.shape[1], np.int64)
    requests = arrived = answered = 0
    for e in range(order.size):
        i = order[e]
        size = known(views[i])
        if size == 0:
            continue
        j = live_peer(views[i], below(draw(key, now, i, 0), size), size, online, oracle)
        if j < 0:
            continue
        requests += 1
        if request_lost[e] or not online[j]:
            continue
        arrived += 1
        n = merge(views[i], views[j], i, j, draw(key, now, i, 1) & 1 == 1, tail)
        adopt(views[j], now, i, tail, n)
        if not answer_lost[e]:
            adopt(views[i], now, j, tail, n)
            answered += 1
    return requests, arrived, answered


@kernel
def choose_from_views(views, nodes, online, cycle, key, k, oracle, peer):
    """A random peer of each node's view, or −1."""
    for e in range(nodes.size):
        view = views[nodes[e]]
        size = known(view)
        peer[e] = NONE
        if size > 0:
            peer[e] = live_peer(view, below(draw(key, cycle, nodes[e], k), size), size, online, oracle)


@kernel
def random_views(views, nodes, pool, key, cycle):
    """Fill views with different random members of the pool, without the node itself (by rejection)."""
    for e in range(nodes.size):
        i = nodes[e]
        views[i] = NONE
        n = k = 0
        wanted = min(views.shape[1], pool.size - 1)
        while n < wanted:
            peer = pool[below(draw(key, cycle, i, k), pool.size)]
            k += 1
            fresh = peer != i
            for m in range(n):
                fresh &= views[i, m] != descriptor(cycle - 1, peer)
            if fresh:
                views[i, n] = descriptor(cycle - 1, peer)
                n += 1


class NewscastConfig(LayerConfig):
    """Newscast's settings."""

    view: int = Field(ge=1, le=1000, description="how many descriptors a node keeps")
    liveness: Literal["oracle", "none"] = Field(
        "oracle",
        description="when the chosen peer is offline: try older, then younger entries as PeerSim does, "
        "or lose the exchange",
    )


class Newscast(Overlay[NewscastConfig]):
    """A view of (peer, time stamp) descriptors; each cycle every node merges views with a random peer of its own.

    As in PeerSim's SimpleNewscast: both keep the freshest descriptors, and a fresh one of each other.
    """

    Config = NewscastConfig
    accepts = frozenset({"loss"})

    def setup(self, world: World) -> None:
        """All views empty."""
        self.views = np.full((world.nodes, self.config.view), NONE, np.int64)
        self._oracle = self.config.liveness == "oracle"
        self._exchange_key, self._start_key = self.key("exchange"), self.key("start")

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """The first nodes get random views; whoever comes later knows one live contact."""
        newcomer = np.zeros(world.nodes, np.bool_)
        newcomer[nodes] = True
        settled = np.flatnonzero(world.online & ~newcomer).astype(np.int32)
        if settled.size == 0:
            random_views(self.views, nodes, np.flatnonzero(world.online).astype(np.int32), self._start_key, world.cycle)
            return
        self.views[nodes] = NONE
        contact = np.empty(nodes.size, np.int32)
        choose_from_pool(nodes, settled, world.cycle, self._start_key, 0, contact)
        self.views[nodes, 0] = (np.int64(world.cycle - 1) << STAMP) | contact

    def step(self, world: World) -> None:
        """Everybody exchanges once."""
        transport = world.transport
        requests, arrived, answered = exchange(
            self.views, world.order, world.online, world.cycle, self._exchange_key, self._oracle,
            transport.lost_on_the_way(self, "request", world.order),
            transport.lost_on_the_way(self, "answer", world.order),
        )  # fmt: skip
        sent, delivered = requests + arrived, arrived + answered
        size = 8 * self.config.view
        transport.count(self, sent=sent, delivered=delivered, lost=sent - delivered, size=size)

    def choose(self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int = 0) -> NDArray[np.int32]:
        """A random peer of each node's view."""
        peer = np.empty(nodes.size, np.int32)
        choose_from_views(self.views, nodes, world.online, world.cycle, key, k, self._oracle, peer)
        return peer

    def links(self, world: World) -> csr_array:
        """Who is in whose view."""
        from scipy.sparse import csr_array

        there = self.views >= 0
        start = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        peer = (self.views[there] & PEER).astype(np.int32)
        return csr_array((np.ones(peer.size, np.int8), peer, start), shape=(world.nodes, world.nodes))
