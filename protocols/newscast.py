"""Newscast: an overlay that repairs itself by exchanging fresh descriptors (Jelasity & van Steen 2002)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core.kernels import OVERLOADED, inlined, leaf
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
    """Working memory for the merge of two views.

    `words` has the descriptors of each view, ended by NONE. `peers` has their peers; its last entry is a node that the
    other view must not contribute (the barred node). `expected` has the likely partners of the next exchanges.
    """

    words: NDArray[np.int64]
    peers: NDArray[np.int32]
    expected: NDArray[np.int64]


class Views32(NamedTuple):
    """A pair of views whose peers are compared in 32 lanes."""

    words: NDArray[np.int64]
    peers: NDArray[np.int32]
    expected: NDArray[np.int64]


class Views64(NamedTuple):
    """A pair of views whose peers are compared in 64 lanes."""

    words: NDArray[np.int64]
    peers: NDArray[np.int32]
    expected: NDArray[np.int64]


def room(longest: int) -> Views | Views32 | Views64:
    """Return working memory for two views of at most `longest` descriptors; its type selects how peers are compared."""
    kind, lanes = (Views32, 32) if longest < 32 else (Views64, 64) if longest < 64 else (Views, longest + 1)
    words, peers = np.full((2, longest + 2), NONE, np.int64), np.full((2, lanes), NONE, np.int32)
    return kind(words, peers, np.empty(TOGETHER, np.int64))


@inlined
def lay(views, row, pair, side, barred, after=0):
    """Copy a view into one side of a pair, and set the node that the other view must not contribute.

    Parameters
    ----------
    views : array of int64, shape (rows, view)
        The views.
    row : int
        The row of the view to copy.
    pair : Views, Views32 or Views64
        The working memory; changed in place.
    side : int
        The side of the pair, 0 or 1.
    barred : int
        The node that the other view must not contribute.
    after : int
        The first place of the view in the pair.
    """
    for k in range(views.shape[1]):
        pair.words[side, after + k] = views[row, k]
        pair.peers[side, after + k] = np.int32(views[row, k])
    pair.words[side, after + views.shape[1]] = NONE
    pair.peers[side, pair.peers.shape[1] - 1] = np.int32(barred)


@inlined
def among_32(pair, side, first, peer):
    """Compute `is_among` in 32 lanes."""
    counted = ((np.uint64(1) << np.uint64(first)) - np.uint64(1)) | np.uint64(1 << 31)
    return equal_32(pair.peers, side, peer) & counted != 0


@inlined
def among_64(pair, side, first, peer):
    """Compute `is_among` in 64 lanes."""
    counted = ((np.uint64(1) << np.uint64(first)) - np.uint64(1)) | np.uint64(1 << 63)
    return equal_64(pair.peers, side, peer) & counted != 0


@inlined
def among_any(pair, side, first, peer):
    """Compute `is_among` one peer at a time."""
    found = peer == pair.peers[side, pair.peers.shape[1] - 1]
    for k in range(first):
        found |= pair.peers[side, k] == peer
    return found


AMONG = {Views32: among_32, Views64: among_64, Views: among_any}


def is_among(pair: Any, side: int, first: int, peer: int) -> Any:
    """Return whether a peer is among the first `first` peers of one side, or is barred."""
    return AMONG[type(pair)](pair, side, first, peer)


@overload(is_among, jit_options=OVERLOADED)
def _compiled_is_among(pair, side, first, peer):
    return AMONG[pair.instance_class].py_func


@inlined
def merge(pair, a_wins_tie, n, views, row, other_row):
    """Write the freshest descriptors of two views into two rows, without barred nodes and repetitions.

    Only time stamps are compared; descriptors with equal time stamps are taken from the two views in turn. No view has
    a peer twice, so a descriptor is a repetition if its peer is among those taken from the other view. It is random
    which view comes next. So the code has no branch on it, and fetches the next words of both views beforehand.

    Parameters
    ----------
    pair : Views, Views32 or Views64
        The two views.
    a_wins_tie : bool
        Whether the first descriptor of two with equal time stamps is taken from the first view.
    n : int
        The first place to write to.
    views : array of int64, shape (rows, view)
        The views of all nodes; changed in place.
    row, other_row : int
        The two rows to write; they may be equal.
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
    """Prefetch the views of the likely partners of the next nodes.

    The processor has to look up the memory page of each view, and waits for it. It can look up several pages at once,
    so these are requested together first, and then all cache lines of the views. It has about twenty outstanding
    requests for cache lines, which are the lines of five views.

    Parameters
    ----------
    views : array of int64, shape (nodes, view)
        The views of all nodes.
    order : array of int32
        The online nodes in acting order.
    first : int
        The place in `order` of the first of the next nodes.
    now : int
        The current cycle.
    key : uint64
        The key of the draws of peers.
    pair : Views, Views32 or Views64
        The working memory.
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
    views : array of int64, shape (nodes, view)
        The descriptors of each node, freshest first; changed in place.
    order : array of int32
        The online nodes in acting order.
    request, answer : Wire
        The rules that decide which messages arrive. The random draw for an answer is that of the node that asked.
    key : uint64
        The key of the draws of peers and of ties.
    oracle : bool
        Whether an offline peer is replaced by an online one of the view.
    pair : Views, Views32 or Views64
        The working memory for a merge.
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
    """Let delayed messages arrive in turn: each receiver merges the sender's view and a fresh descriptor of the sender.

    A request is answered with the view of the receiver before the merge.

    Parameters
    ----------
    views : array of int64, shape (nodes, view)
        The descriptors of each node, freshest first; changed in place.
    slots, receiver : array of int32, shape (messages,)
        The mailbox slot and the receiver of each message.
    sender, stamp : array of int32, shape (slots,)
        The sender of the message in each slot, and the cycle in which it was sent.
    carried : array of int64, shape (slots, view)
        The view that the message in each slot carries.
    answers : array of bool, shape (slots,)
        Whether the message in each slot is an answer.
    now : int
        The current cycle.
    key : uint64
        The key of the draws of ties.
    before : array of int64, shape (requests, view)
        The views before the merge, one row per request; filled here.
    pair : Views, Views32 or Views64
        The working memory for a merge.
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
    """Let each node exchange views with its contact, and return the number of exchanges.

    Parameters
    ----------
    views : array of int64, shape (nodes, view)
        The descriptors of each node, freshest first; changed in place.
    nodes, contacts : array of int32, shape (pairs,)
        The nodes, and the contact of each (−1: none).
    now : int
        The current cycle.
    key : uint64
        The key of the draws of ties.
    pair : Views, Views32 or Views64
        The working memory for a merge.
    """
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
    """A view of (peer, time stamp) descriptors; each cycle every node merges its view with that of a random peer.

    As in PeerSim's SimpleNewscast, both nodes keep the freshest descriptors and a fresh descriptor of each other. With
    delays a request carries a copy of the sender's view and a fresh descriptor of the sender, and so does the answer.
    """

    Config = ViewConfig
    accepts = frozenset({"loss", "delay", "partition"})
    overlaps = True

    def setup(self, world: World) -> None:
        """Allocate empty views, and a mailbox if messages have delays."""
        super().setup(world)
        self._room = room(self.config.view + 1)  # a message also has a descriptor of its sender
        if world.transport.longest:
            self.mail = Mailbox(
                self,
                world,
                each=2 * self.config.times,
                carried=self.views,
                stamp=np.empty(0, np.int32),
                answer=np.empty(0, np.bool_),
            )

    def memory(self, world: World) -> int:
        """Return the bytes of the views and of the mailbox."""
        return super().memory(world) + Mailbox.memory(world, 8 * self.config.view + 5, each=2 * self.config.times)

    def _now(self, world: World) -> int:
        """Return the time stamp of this turn: the number of turns so far."""
        return (world.cycle - 1) * self.config.times + world.turn + 1

    def _time_of_contacts(self, world: World) -> int:
        return self._now(world) - 1

    def _meet(self, world: World, nodes: NDArray[np.int32], contacts: NDArray[np.int32]) -> int:
        return int(meet(self.views, nodes, contacts, self._now(world), self._exchange_key, self._room))

    def _exchange(self, world: World) -> None:
        if world.transport.longest:
            self._exchange_by_mail(world)
            return
        wires = (
            world.transport.wire(self, kind, self._bytes)._replace(cycle=self._now(world))
            for kind in ("request", "answer")
        )
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
            self.views, slots, receiver, mail.src, mail.stamp, mail.carried, mail.answer, self._now(world),
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
        """Send views: the rows `row` of `carried`."""
        arrives, lag = world.transport.send(self, kind, src, dst, self._bytes, k=np.arange(src.size))
        assert lag is not None
        slots = self.mail.put(world, lag, src, dst, arrives, row=row, carried=carried)
        self.mail.stamp[slots] = self._now(world)
        self.mail.answer[slots] = kind == "answer"
