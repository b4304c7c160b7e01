"""Newscast: an overlay that mends itself by exchanging fresh descriptors (Jelasity & van Steen 2002)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core.kernels import inlined, leaf
from golfsim.core.rng import below, draw
from golfsim.core.simd import equal_32, equal_64, prefetch, prefetch_start
from golfsim.network.delivery import passes
from golfsim.network.mailbox import Mailbox
from golfsim.protocol.views import NONE, PEER, TIME, ViewConfig, ViewOverlay, descriptor, known, live_peer

if TYPE_CHECKING:
    from golfsim.network.world import World

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
        tie = (a >> TIME) == (b >> TIME)
        if tie and a < 0:
            break
        take_a = ((a >> TIME) > (b >> TIME)) | (tie & a_wins_tie)
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
def exchange(views, order, request, answer, key, oracle, pair):
    """Let each node in turn exchange views with a random peer; return the numbers of requests sent, arrived, answered.

    Parameters
    ----------
    views : int64 array, [nodes, view]
        The descriptors of each node, freshest first; changed in place.
    order : int32 array
        The online nodes in acting order.
    request, answer : Wire
        Decide which messages arrive. The draw about an answer is that of the node that asked.
    key : uint64
        Of the draws of peers and of ties.
    oracle : bool
        Whether an offline peer is replaced by an online one of the view.
    pair : Views, Views32 or Views64
        Room for a merge.
    """
    requests = arrived = answered = 0
    now, online = request.cycle, request.online
    safe = request.loss == 0 and online.size == 0 and request.side.size == 0  # every message arrives
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
        if not (safe or passes(request, i, j, i, 0)):
            continue
        arrived += 1
        answers = safe or passes(answer, j, i, i, 0)
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


class Newscast(ViewOverlay[ViewConfig]):
    """A view of (peer, time stamp) descriptors; each cycle every node merges views with a random peer of its own.

    As in PeerSim's SimpleNewscast: both keep the freshest descriptors, and a fresh one of each other. When messages
    take time, a request carries the sender's view and a fresh descriptor of the sender, as they were when sent; so does
    the answer.
    """

    Config = ViewConfig
    accepts = frozenset({"loss", "delay", "partition"})
    overlaps = True

    def setup(self, world: World) -> None:
        """Allocate empty views, and a mailbox where messages take time."""
        super().setup(world)
        self._room = room(self.config.view + 1)  # what is carried has a descriptor of its sender as well
        if world.transport.longest:
            self.mail = Mailbox(
                self, world, each=2, carried=self.views, stamp=np.empty(0, np.int32), answer=np.empty(0, np.bool_)
            )

    def _time_of_contacts(self, world: World) -> int:
        return world.cycle - 1

    def _meet(self, world: World, nodes: NDArray[np.int32], contacts: NDArray[np.int32]) -> int:
        return int(meet(self.views, nodes, contacts, world.cycle, self._exchange_key, self._room))

    def _exchange(self, world: World) -> None:
        if world.transport.longest:
            self._exchange_by_mail(world)
            return
        wires = (world.transport.wire(self, kind, self._bytes) for kind in ("request", "answer"))
        requests, arrived, answered = exchange(
            self.views, world.order, *wires, self._exchange_key, self._oracle, self._room
        )
        sent, delivered = requests + arrived, arrived + answered
        world.transport.count(self, sent=sent, delivered=delivered, lost=sent - delivered, size=self._bytes)

    def _exchange_by_mail(self, world: World) -> None:
        mail = self.mail
        slots, receiver = mail.due(world)
        asked = ~mail.answer[slots]
        src, dst = receiver[asked], mail.src[slots[asked]]
        before = np.empty((src.size, self.config.view), np.int64)
        take_in(
            self.views, slots, receiver, mail.src, mail.stamp, mail.carried, mail.answer, world.cycle,
            self._exchange_key, before, self._room,
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
