"""Newscast: an overlay that mends itself by exchanging fresh descriptors (Jelasity & van Steen 2002)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.kernels import inlined, kernel, leaf
from golfsim.core.rng import below, draw
from golfsim.core.simd import equal_32, equal_64, prefetch, prefetch_start
from golfsim.network.mailbox import Mailbox
from golfsim.network.transport import NO_PAIRS
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.overlay import Overlay, choose_from_pool

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World

# A descriptor is one word, the time stamp above the peer's number; a view is a row of them, freshest first. No
# descriptor is −1, which is older than any.
NONE = -1
STAMP = 32
PEER = 0xFFFF_FFFF


AHEAD = 8  # messages
TOGETHER = 5  # exchanges whose partners are fetched together


class Views(NamedTuple):
    """Two views side by side, for a merge: their words, ended by NONE; the peers in them, and last who must not be.

    Besides, who is expected to take part in the next exchanges.
    """

    words: NDArray[np.int64]
    peers: NDArray[np.int32]
    expected: NDArray[np.int64]


class Views32(NamedTuple):
    """A pair whose peers fill 32 lanes of a comparison."""

    words: NDArray[np.int64]
    peers: NDArray[np.int32]
    expected: NDArray[np.int64]


class Views64(NamedTuple):
    """A pair whose peers fill 64 lanes."""

    words: NDArray[np.int64]
    peers: NDArray[np.int32]
    expected: NDArray[np.int64]


def room(longest: int) -> Views | Views32 | Views64:
    """Room for two views of at most so many descriptors; its type tells the compiler how peers are compared."""
    kind, lanes = (Views32, 32) if longest < 32 else (Views64, 64) if longest < 64 else (Views, longest + 1)
    words, peers = np.full((2, longest + 2), NONE, np.int64), np.full((2, lanes), NONE, np.int32)
    return kind(words, peers, np.empty(TOGETHER, np.int64))


@inlined
def descriptor(stamp, peer):
    """Time stamp and peer as one word."""
    return (np.int64(stamp) << STAMP) | np.int64(peer)


@inlined
def known(views, i):
    """How many descriptors view i has."""
    n = views.shape[1]
    while n > 0 and views[i, n - 1] < 0:
        n -= 1
    return n


@inlined
def live_peer(views, i, index, size, online, oracle):
    """The peer at an index; with the oracle, the nearest one online among older entries, then among younger ones.

    `online` has no entries while everybody is.
    """
    peer = views[i, index] & PEER
    if not oracle or online.size == 0 or online[peer]:
        return peer
    for older in range(index + 1, size):
        if online[views[i, older] & PEER]:
            return views[i, older] & PEER
    for younger in range(index - 1, -1, -1):
        if online[views[i, younger] & PEER]:
            return views[i, younger] & PEER
    return np.int64(NONE)


@inlined
def lay(views, row, pair, side, barred, after=0):
    """Put a view into a pair, after so many words, and whom the other view may not bring."""
    for k in range(views.shape[1]):
        pair.words[side, after + k] = views[row, k]
        pair.peers[side, after + k] = np.int32(views[row, k])
    pair.words[side, after + views.shape[1]] = NONE
    pair.peers[side, pair.peers.shape[1] - 1] = np.int32(barred)


@inlined
def among_32(pair, side, first, peer):
    """`is_among` in 32 lanes."""
    counted = ((np.uint64(1) << np.uint64(first)) - np.uint64(1)) | np.uint64(1 << 31)
    return equal_32(pair.peers, side, peer) & counted != 0


@inlined
def among_64(pair, side, first, peer):
    """`is_among` in 64 lanes."""
    counted = ((np.uint64(1) << np.uint64(first)) - np.uint64(1)) | np.uint64(1 << 63)
    return equal_64(pair.peers, side, peer) & counted != 0


@inlined
def among_any(pair, side, first, peer):
    """`is_among` one by one."""
    found = peer == pair.peers[side, pair.peers.shape[1] - 1]
    for k in range(first):
        found |= pair.peers[side, k] == peer
    return found


AMONG = {Views32: among_32, Views64: among_64, Views: among_any}


def is_among(pair: Any, side: int, first: int, peer: int) -> Any:
    """Whether a peer is among the first so many of one side, or barred."""
    return AMONG[type(pair)](pair, side, first, peer)


@overload(is_among, jit_options={"_nrt": False, "forceinline": True})
def _compiled_is_among(pair, side, first, peer):
    return AMONG[pair.instance_class].py_func


@inlined
def merge(pair, a_wins_tie, n, views, row, other_row):
    """Write the freshest descriptors of a pair without the barred and repetitions into two rows, from place n on.

    Only time stamps are compared; equal ones are taken from the two views in turn. No view repeats anybody, so a word
    repeats another if its peer is among those taken from the other view. Which view comes next is as random as a coin:
    so nothing here branches on it, and the words after the next are fetched before it is known.
    """
    p = q = np.int64(0)
    a, b = pair.words[0, 0], pair.words[1, 0]
    size = views.shape[1]
    while n < size:
        next_a, next_b = pair.words[0, p + 1], pair.words[1, q + 1]
        tie = (a >> STAMP) == (b >> STAMP)
        if tie and a < 0:
            break
        take_a = ((a >> STAMP) > (b >> STAMP)) | (tie & a_wins_tie)
        a_wins_tie = a_wins_tie ^ tie
        word = a if take_a else b
        repeated = is_among(pair, np.int64(take_a), q if take_a else p, np.int32(word))
        views[row, n] = word
        views[other_row, n] = word
        n += not repeated
        p += take_a
        q += not take_a
        a = next_a if take_a else a
        b = b if take_a else next_b
    for k in range(n, size):
        views[row, k] = NONE
        views[other_row, k] = NONE


@inlined
def expect(views, order, first, now, key, pair):
    """Bring the views that the nodes from a place of the order on will most likely exchange with into the cache.

    Where a view lies in memory has to be looked up (its page), and the processor does not go on until it knows: it can
    look up several at once, so they are asked for together, and only then all of their lines. It waits for some twenty
    lines at a time, which is as many as five views have.
    """
    if first + TOGETHER > order.size:
        return
    for k in range(TOGETHER):
        i = order[first + k]
        word = views[i, below(draw(key, now, i, 0), views.shape[1])]
        pair.expected[k] = word & PEER if word >= 0 else i
        prefetch_start(views, pair.expected[k])
    for k in range(TOGETHER):
        prefetch(views, pair.expected[k])


@leaf
def exchange(views, order, online, side, now, key, oracle, request_lost, answer_lost, pair):
    """Each node in turn exchanges views with a random peer of its view: how many requests, delivered, answered.

    `online` has no entries while everybody is, those lost none while none can be.
    """
    requests = arrived = answered = 0
    for e in range(order.size):
        if e % TOGETHER == 0:
            expect(views, order, e + TOGETHER, now, key, pair)
        i = np.int64(order[e])
        size = known(views, i)
        if size == 0:
            continue
        j = live_peer(views, i, below(draw(key, now, i, 0), size), size, online, oracle)
        if j < 0:
            continue
        requests += 1
        lost = (request_lost.size > 0 and request_lost[e]) or (online.size > 0 and not online[j])
        if lost or (side.size > 0 and side[i] != side[j]):
            continue
        arrived += 1
        answers = answer_lost.size == 0 or not answer_lost[e]
        answered += answers
        lay(views, i, pair, 0, i)
        lay(views, j, pair, 1, j)
        merge(pair, draw(key, now, i, 1) & 1 == 1, 1, views, j, i if answers else j)
        views[j, 0] = descriptor(now, i)
        if answers:
            views[i, 0] = descriptor(now, j)
    return requests, arrived, answered


@leaf
def take_in(views, slots, receiver, sender, stamp, carried, answers, now, key, before, pair):
    """Delayed messages arrive in turn: each receiver merges a fresh descriptor of the sender and what is carried.

    A request is answered with the view as it was before, which is written into `before`, one row a request.
    """
    asked = 0
    for e in range(slots.size):
        if e + AHEAD < slots.size:
            prefetch(views, receiver[e + AHEAD])
            prefetch(carried, slots[e + AHEAD])
        r, slot = np.int64(receiver[e]), slots[e]
        if not answers[slot]:
            for k in range(views.shape[1]):
                before[asked, k] = views[r, k]
            asked += 1
        pair.words[0, 0] = descriptor(stamp[slot], sender[slot])
        pair.peers[0, 0] = sender[slot]
        lay(carried, slot, pair, 0, r, 1)
        lay(views, r, pair, 1, r)
        merge(pair, draw(key, now, e, 1) & 1 == 1, 0, views, r, r)


@leaf
def meet(views, nodes, contacts, now, key, pair):
    """Each node exchanges views with the contact it was given, if any; returns how many did."""
    met = 0
    for e in range(nodes.size):
        i, j = np.int64(nodes[e]), np.int64(contacts[e])
        if j >= 0:
            lay(views, i, pair, 0, i)
            lay(views, j, pair, 1, j)
            merge(pair, draw(key, now, i, 2) & 1 == 1, 1, views, i, j)
            views[i, 0] = descriptor(now, j)
            views[j, 0] = descriptor(now, i)
            met += 1
    return met


@kernel
def lonely(views, nodes, online, out):
    """Which nodes have nobody online in their view."""
    for e in range(nodes.size):
        out[e] = True
        for word in views[nodes[e]]:
            out[e] &= word < 0 or not online[word & PEER]


@kernel
def choose_from_views(views, nodes, online, cycle, key, k, oracle, peer):
    """A random peer of each node's view, or −1; `online` has no entries while everybody is."""
    for e in range(nodes.size):
        size = known(views, nodes[e])
        peer[e] = NONE
        if size > 0:
            index = below(draw(key, cycle, nodes[e], k), size)
            peer[e] = live_peer(views, nodes[e], index, size, online, oracle)


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

    As in PeerSim's SimpleNewscast: both keep the freshest descriptors, and a fresh one of each other. When messages
    take time, a request carries the sender's view and a fresh descriptor of the sender, as they were when sent; so does
    the answer.
    """

    Config = NewscastConfig
    accepts = frozenset({"loss", "delay", "partition"})
    apart = True

    def setup(self, world: World) -> None:
        """All views empty."""
        self.views = np.full((world.nodes, self.config.view), NONE, np.int64)
        self.last_turn = 0
        self._oracle = self.config.liveness == "oracle"
        self._exchange_key, self._start_key = self.key("exchange"), self.key("start")
        self._bytes = 8 * self.config.view
        self._pair = room(self.config.view + 1)  # what is carried has a descriptor of its sender besides
        if world.transport.longest:
            self.mail = Mailbox(
                self, world, each=2, carried=self.views, stamp=np.empty(0, np.int32), answer=np.empty(0, np.bool_)
            )

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """The first nodes get random views; whoever comes later knows one live contact."""
        newcomer = np.zeros(world.nodes, np.bool_)
        newcomer[nodes] = True
        settled = world.online & ~newcomer
        if not settled.any():
            random_views(self.views, nodes, np.flatnonzero(world.online).astype(np.int32), self._start_key, world.cycle)
            return
        contacts = self._contacts(world, nodes, settled, 0)
        self.views[nodes] = NONE
        self.views[nodes, 0] = np.where(contacts < 0, NONE, (np.int64(world.cycle - 1) << STAMP) | contacts)

    def step(self, world: World) -> None:
        """Whoever came back to nobody it knows meets a live contact, as after a cut; then everybody exchanges once."""
        self._introduce(world, self._contacts_of_lonely(world))
        self._introduce(world, world.transport.introductions())
        if world.transport.longest:
            self._exchange_by_mail(world)
        else:
            self._exchange(world)

    def _introduce(self, world: World, pairs: NDArray[np.int32]) -> None:
        """Let pairs of nodes exchange views."""
        if len(pairs):
            met = meet(self.views, pairs[:, 0], pairs[:, 1], world.cycle, self._exchange_key, self._pair)
            world.transport.count(self, sent=2 * met, delivered=2 * met, lost=0, size=self._bytes)

    def _contacts_of_lonely(self, world: World) -> NDArray[np.int32]:
        """Pairs of a node that came since the last turn and knows nobody online, and a random node of its side."""
        last, self.last_turn = self.last_turn, world.cycle
        if world.last_came <= last:
            return NO_PAIRS
        came = np.flatnonzero(world.online & (world.since > last)).astype(np.int32)
        alone = np.empty(came.size, np.bool_)
        lonely(self.views, came, world.online, alone)
        nodes = came[alone]
        return np.column_stack([nodes, self._contacts(world, nodes, world.online, 1)])

    def _contacts(self, world: World, nodes: NDArray[np.int32], among: NDArray[np.bool_], k: int) -> NDArray[np.int32]:
        """A random contact for each node among the nodes marked that no cut separates from it, or −1."""
        side = world.transport.side()
        contacts = np.full(nodes.size, NONE, np.int32)
        for value in np.unique(side[nodes]) if side.size else [0]:
            mine = side[nodes] == value if side.size else np.ones(nodes.size, np.bool_)
            pool = np.flatnonzero(among & (side == value if side.size else True)).astype(np.int32)
            found = np.empty(int(mine.sum()), np.int32)
            choose_from_pool(nodes[mine], pool, world.cycle, self._start_key, k, found)
            contacts[mine] = found
        return contacts

    def _exchange(self, world: World) -> None:
        transport = world.transport
        requests, arrived, answered = exchange(
            self.views, world.order, world.presence(), transport.side(), world.cycle, self._exchange_key, self._oracle,
            transport.lost_on_the_way(self, "request", world.order),
            transport.lost_on_the_way(self, "answer", world.order), self._pair,
        )  # fmt: skip
        sent, delivered = requests + arrived, arrived + answered
        transport.count(self, sent=sent, delivered=delivered, lost=sent - delivered, size=self._bytes)

    def _exchange_by_mail(self, world: World) -> None:
        mail = self.mail
        slots, receiver = mail.due(world)
        asked = ~mail.answer[slots]
        src, dst = receiver[asked], mail.src[slots[asked]]
        before = np.empty((src.size, self.config.view), np.int64)
        take_in(
            self.views, slots, receiver, mail.src, mail.stamp, mail.carried, mail.answer, world.cycle,
            self._exchange_key, before, self._pair,
        )  # fmt: skip
        self._post(world, "answer", src, dst, before, np.arange(src.size, dtype=np.int32))
        peer = self.choose(world, world.order, self._exchange_key)
        self._post(world, "request", world.order, peer, self.views, world.order)

    def _post(
        self,
        world: World,
        kind: str,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        carried: NDArray[np.int64],
        row: NDArray[np.int32],
    ) -> None:
        """Send views, the rows given of `carried`."""
        arrives, lag = world.transport.send(self, kind, src, dst, self._bytes, k=np.arange(src.size))
        assert lag is not None
        slots = self.mail.put(world, lag, src, dst, arrives, row=row, carried=carried)
        self.mail.stamp[slots] = world.cycle
        self.mail.answer[slots] = kind == "answer"

    def choose(self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int = 0) -> NDArray[np.int32]:
        """A random peer of each node's view."""
        peer = np.empty(nodes.size, np.int32)
        choose_from_views(self.views, nodes, world.presence(), world.cycle, key, k, self._oracle, peer)
        return peer

    def links(self, world: World) -> csr_array:
        """Who is in whose view."""
        return _links(self.views, world.nodes)

    def links_of(self, world: World, nodes: NDArray[np.int32]) -> csr_array:
        """Who is in the views of some nodes."""
        return _links(self.views[nodes], world.nodes)


def _links(views: NDArray[np.int64], nodes: int) -> csr_array:
    from scipy.sparse import csr_array

    there = views >= 0
    start = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    peer = (views[there] & PEER).astype(np.int32)
    return csr_array((np.ones(peer.size, np.int8), peer, start), shape=(len(views), nodes))
