"""T-Man: an overlay in which nodes find their neighbours in a topology (Jelasity, Montresor & Babaoglu 2009)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.errors import UserError
from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.protocol import (
    Layer,
    Overlay,
    ViewConfig,
    ViewOverlay,
    World,
    answer_arrives,
    arrives,
    below,
    draw,
    inlined,
    integers,
    kernel,
    leaf,
    prefetch,
)  # fmt: skip
from golfsim.protocol.views import NONE, PEER, TIME, as_links, choose_from_views, descriptor, known, live_peer

if TYPE_CHECKING:
    from scipy.sparse import csr_array

RING, LINE, TORUS, TREE = range(4)
KINDS = {"ring": RING, "sorted-ring": RING, "line": LINE, "torus": TORUS, "tree": TREE}
DEGREE = {RING: 2, LINE: 2, TORUS: 4, TREE: 3}
IDS = 2**52  # random positions on a sorted ring are below
BEHIND = 2**62  # added to the distance of a node on the second side
BYTES = 16  # per descriptor: number, time stamp, position


class Space(NamedTuple):
    """The topology: its kind, the length of a ring (or of a torus in rows), and the columns of a torus."""

    kind: int
    length: int
    columns: int


class Side(NamedTuple):
    """Scratch memory for the nearest descriptors on one side, with their distances."""

    words: NDArray[np.int64]
    far: NDArray[np.int64]


class Room(NamedTuple):
    """Scratch memory: descriptors to be ranked, the two sides, and what a request (row 0) and its answer carry."""

    words: NDArray[np.int64]
    ahead: Side
    behind: Side
    carried: NDArray[np.int64]


def room(view: int, carried: int) -> Room:
    """Return scratch memory for views and messages of these lengths."""
    most = view + carried + 1
    ahead, behind = (Side(np.empty(most, np.int64), np.empty(most, np.int64)) for _ in range(2))
    return Room(np.empty(most, np.int64), ahead, behind, np.empty((2, carried), np.int64))


@inlined
def around(a, b, length):
    """Return the distance from a to b in the nearer direction of a ring."""
    ahead = b - a if b >= a else b - a + length
    return min(ahead, length - ahead)


@inlined
def distance(space, a, b):
    """Return how far position b is from position a; a ring and a line have two sides, and `BEHIND` marks the second."""
    if space.kind == RING:
        ahead = b - a if b >= a else b - a + space.length
        return ahead if 2 * ahead <= space.length else space.length - ahead + BEHIND
    if space.kind == LINE:
        return b - a if b >= a else a - b + BEHIND
    if space.kind == TORUS:
        rows = around(a // space.columns, b // space.columns, space.length)
        return rows + around(a % space.columns, b % space.columns, space.columns)
    left, right, hops = a + 1, b + 1, np.int64(0)  # in a binary tree node n > 1 has the parent n // 2
    while left != right:
        if left > right:
            left //= 2
        else:
            right //= 2
        hops += 1
    return hops


@inlined
def put(side, n, most, word, far):
    """Put a descriptor into its place among the n nearest ones of a side; keep at most `most`, and return how many."""
    if n == most and (side.far[n - 1] < far or (side.far[n - 1] == far and side.words[n - 1] & PEER < word & PEER)):
        return n
    place = min(n, most - 1)
    while place > 0 and (
        side.far[place - 1] > far or (side.far[place - 1] == far and side.words[place - 1] & PEER > word & PEER)
    ):
        side.far[place], side.words[place] = side.far[place - 1], side.words[place - 1]
        place -= 1
    side.far[place], side.words[place] = far, word
    return min(n + 1, most)


@inlined
def rank(space, position, owner, scratch, n, out, row):
    """Write those that a node prefers of the first n descriptors of the scratch memory, the two sides in turn.

    Parameters
    ----------
    space : Space
        The topology.
    position : array of int64, shape (nodes,)
        The position of each node.
    owner : int
        The node whose preference counts.
    scratch : Room
        Scratch memory, with the descriptors.
    n : int
        Their number.
    out : array of int64, shape (rows, places)
        Where the descriptors are written; empty places at the end are filled with `NONE`.
    row : int
        The row that is written.

    Returns
    -------
    kept : int
        The number of descriptors that are written.
    """
    most = out.shape[1]
    first = second = 0
    for k in range(n):
        word = scratch.words[k]
        far = distance(space, position[owner], position[word & PEER])
        if far < BEHIND:
            first = put(scratch.ahead, first, most, word, far)
        else:
            second = put(scratch.behind, second, most, word, far)
    p = q = 0
    for place in range(most):
        if p < first and (p <= q or q == second):
            out[row, place] = scratch.ahead.words[p]
            p += 1
        elif q < second:
            out[row, place] = scratch.behind.words[q]
            q += 1
        else:
            out[row, place] = NONE
    return p + q


@inlined
def pack(space, position, views, i, j, now, oldest, scratch, row):
    """Write the descriptors that j prefers, of those that i has and of its own, into a row of what is carried.

    Parameters
    ----------
    space : Space
        The topology.
    position : array of int64, shape (nodes,)
        The position of each node.
    views : array of int64, shape (nodes, view)
        The descriptors of each node.
    i, j : int
        The sender and the receiver.
    now, oldest : int
        The time stamp of a new descriptor, and of the oldest one that counts.
    scratch : Room
        Scratch memory.
    row : int
        0 for a request, 1 for an answer.

    Returns
    -------
    sent : int
        The number of descriptors.
    """
    scratch.words[0] = descriptor(now, i)
    n = 1
    for place in range(known(views, i)):
        word = views[i, place]
        if word & PEER != j and word >> TIME >= oldest:
            scratch.words[n] = word
            n += 1
    return rank(space, position, j, scratch, n, scratch.carried, row)


@inlined
def take_in(space, position, views, i, oldest, scratch, row, n):
    """Merge descriptors into view i, the fresher one of two of the same peer, and keep those that i prefers.

    Parameters
    ----------
    space : Space
        The topology.
    position : array of int64, shape (nodes,)
        The position of each node.
    views : array of int64, shape (nodes, view)
        The descriptors of each node, in the order of preference; changed in place.
    i : int
        The node.
    oldest : int
        The time stamp of the oldest descriptor that counts.
    scratch : Room
        Scratch memory, with the new descriptors in a row of what is carried.
    row, n : int
        The row, and the number of descriptors in it.
    """
    words = scratch.words
    total = 0
    for place in range(known(views, i)):
        if views[i, place] >> TIME >= oldest:
            words[total] = views[i, place]
            total += 1
    for e in range(n):
        word = scratch.carried[row, e]
        if word & PEER == i or word >> TIME < oldest:
            continue
        place = 0
        while place < total and words[place] & PEER != word & PEER:
            place += 1
        words[place] = max(words[place], word) if place < total else word
        total = max(total, place + 1)
    rank(space, position, i, scratch, total, views, i)


@leaf
def take_samples(space, position, views, nodes, peers, now, oldest, scratch):
    """Merge random peers into the views.

    Parameters
    ----------
    space : Space
        The topology.
    position : array of int64, shape (nodes of the network,)
        The position of each node.
    views : array of int64, shape (nodes of the network, view)
        The descriptors of each node; changed in place.
    nodes : array of int32
        The nodes that have drawn peers.
    peers : array of int32, shape (samples, nodes)
        The peers, or −1.
    now, oldest : int
        The time stamp of the new descriptors, and of the oldest one that counts.
    scratch : Room
        Scratch memory.
    """
    for e in range(nodes.size):
        n = 0
        for k in range(peers.shape[0]):
            if peers[k, e] >= 0:
                scratch.carried[0, n] = descriptor(now, peers[k, e])
                n += 1
        take_in(space, position, views, nodes[e], oldest, scratch, 0, n)


@leaf
def exchange(space, position, views, order, psi, oracle, oldest, wires, key, scratch):
    """Let each node in turn exchange descriptors with one of the ψ peers that it prefers (section 3 of the paper).

    Parameters
    ----------
    space : Space
        The topology.
    position : array of int64, shape (nodes,)
        The position of each node.
    views : array of int64, shape (nodes, view)
        The descriptors of each node, in the order of preference; changed in place.
    order : array of int32
        The online nodes, in acting order.
    psi : int
        The number of peers among which a node chooses.
    oracle : bool
        Whether an offline peer is replaced by the next online one of the view.
    oldest : int
        The time stamp of the oldest descriptor that counts.
    wires : tuple of Wire
        The rules that decide which requests and answers arrive.
    key : uint64
        Of the draws.
    scratch : Room
        Scratch memory.
    """
    request, answer = wires
    now = request.cycle
    for e in range(order.size):
        i = np.int64(order[e])
        size = known(views, i)
        if size == 0:
            continue
        index = below(draw(key, now, i, 0), min(psi, size))
        j = live_peer(views, i, index, size, request.online, oracle)
        if j < 0:
            continue
        prefetch(views, j)
        sent = pack(space, position, views, i, j, now, oldest, scratch, 0)
        if not arrives(request, i, j, 0):
            continue
        returned = pack(space, position, views, j, i, now, oldest, scratch, 1)
        take_in(space, position, views, j, oldest, scratch, 0, sent)
        if answer_arrives(answer, j, i, 0):
            take_in(space, position, views, i, oldest, scratch, 1, returned)


@kernel
def count_missing(views, nodes, targets):
    """Return the number of target links (−1: none), and of those whose end is not in the view of the node."""
    links = missing = 0
    for e in range(nodes.size):
        for target in targets[e]:
            links += target >= 0
            missing += target >= 0
            for word in views[nodes[e]]:
                missing -= target >= 0 and word >= 0 and word & PEER == target
    return links, missing


class TManConfig(ViewConfig):
    """T-Man's settings."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that names random peers: the peer sampling service")
    topology: Literal["ring", "sorted-ring", "line", "torus", "tree"] = Field(
        "ring",
        description="the topology to build: a ring, a line, a torus or a binary tree of the numbers of the nodes, or a "
        "ring of random numbers in rising order (“sorted-ring”)",
    )
    message: int = Field(20, ge=1, le=1000, description="m of the paper: the number of descriptors per message")
    psi: int = Field(10, ge=1, description="ψ of the paper: a node chooses its peer among the ψ that it prefers")
    initial: int | None = Field(
        None, ge=1, le=1000, description="the number of random peers that a new node starts with; default: a full view"
    )
    samples: int = Field(1, ge=0, le=100, description="the number of random peers that each node adds per cycle")
    lifetime: int | None = Field(
        None,
        ge=1,
        description="a descriptor is forgotten this many cycles after its node has made it, so that nodes that left "
        "are forgotten; default: never",
    )
    columns: int | None = Field(None, ge=1, description="the columns of the torus; default: the torus is a square")
    neighbours: int | None = Field(
        None,
        ge=1,
        description="other layers choose among this many preferred peers; default: 2, 3 in a tree, 4 on a torus",
    )


class TMan(ViewOverlay[TManConfig]):
    """Nodes rank descriptors by their distance in a topology, and keep those of the nearest nodes.

    Each cycle a node chooses one of the peers that it prefers, and the two send each other the descriptors that the
    other one prefers. A view is in the order of preference. On rings and lines both sides are ranked in turn.
    """

    Config = TManConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (
        Metric("links.missing", "The number of target links between online nodes that no view has.", "links", "down"),
        Metric(
            "links.missing_share",
            "The share of target links between online nodes that no view has.",
            "share of links",
            "down",
        ),
        Metric(
            "links.complete",
            "The first cycle after which no target link was missing; the current cycle as long as one is missing.",
            "cycles",
            "down",
        ),
    )

    def setup(self, world: World) -> None:
        """Allocate empty views, and place the nodes in the topology."""
        super().setup(world)
        self.converged = 0
        kind, size = KINDS[self.config.topology], world.nodes
        columns = self._columns(size) if kind == TORUS else 1
        self._space = Space(kind, IDS if self.config.topology == "sorted-ring" else size // columns, columns)
        self._position = world.label.astype(np.int64)
        if self.config.topology == "sorted-ring":
            self._position = integers(self.key("position"), np.arange(size, dtype=np.int32), IDS)
        self._by_position = np.argsort(self._position, kind="stable").astype(np.int32)
        self._neighbours = self.config.neighbours or DEGREE[kind]
        self._initial = self.config.initial or self.config.view
        self._sample_room = room(self.config.view, max(self.config.samples, self._initial))
        self._room = room(self.config.view, self.config.message)
        self._bytes = BYTES * self.config.message

    def _columns(self, nodes: int) -> int:
        columns = self.config.columns or math.isqrt(nodes)
        if nodes % columns:
            raise UserError(
                f"{nodes} nodes do not fill a torus of {columns} columns",
                key=f"{self.name}.columns",
                hint="choose a number of columns that divides the number of nodes",
            )
        return columns

    def memory(self, world: World) -> int:
        """Return the bytes of the views, of the positions, and of the targets and samples of a turn."""
        samples = max(self.config.samples, self.config.initial or self.config.view)
        return super().memory(world) + size_of((np.int64, 4, world.nodes), (np.int32, samples + 1, world.nodes))

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give the nodes a view of random peers."""
        self.views[nodes] = NONE
        self._take_samples(world, nodes, self._initial, self._start_key)

    def step(self, world: World) -> None:
        """Let the nodes add random peers and exchange descriptors; note when no target link is missing."""
        self._take_samples(world, world.order, self.config.samples, self.key("sample"))
        self._exchange(world)
        if not self.converged and world.order.size and self.missing(world)[1] == 0:
            self.converged = world.cycle

    def choose(
        self, world: World, nodes: NDArray[np.int32], key: np.uint64, k: int | NDArray[np.int64] = 0
    ) -> NDArray[np.int32]:
        """Choose a random one of the peers that each node prefers."""
        nodes, numbers = self.numbers(world, nodes, k)
        peer = np.empty(nodes.size, np.int32)
        near = np.ascontiguousarray(self.views[:, : self._neighbours])
        choose_from_views(near, nodes, world.presence(), world.cycle, key, numbers, self._oracle, peer)
        return peer

    def links(self, world: World) -> csr_array:
        """Return the peers that each node prefers, as many as other layers choose among."""
        return as_links(self.views[:, : self._neighbours], world.nodes)

    def links_of(self, world: World, nodes: NDArray[np.int32]) -> csr_array:
        """Return the peers that some nodes prefer."""
        return as_links(self.views[nodes, : self._neighbours], world.nodes)

    def targets(self, world: World) -> NDArray[np.int32]:
        """Return the neighbours of each online node in the topology of the online nodes, in the order of `world.order`.

        On rings and lines these are the nearest online nodes on both sides, on a torus and in a tree those of the
        neighbours that are online. −1: there is none.
        """
        if self._space.kind in (TORUS, TREE):
            return self._of_numbers(world)
        there = self._by_position[world.online[self._by_position]]
        after, before = np.roll(there, -1), np.roll(there, 1)
        if self._space.kind == LINE and there.size:
            after[-1] = before[0] = NONE
        after[after == there] = NONE
        before[(before == there) | (before == after)] = NONE
        found = np.empty((world.nodes, 2), np.int32)
        found[there] = np.column_stack([after, before])
        return found[world.order]

    def _of_numbers(self, world: World) -> NDArray[np.int32]:
        place, size = self._position[world.order], world.nodes
        if self._space.kind == TORUS:
            columns, start = self._space.columns, place - place % self._space.columns
            across = [start + (place + step) % columns for step in (1, -1)]
            numbers = np.column_stack([*across, (place + columns) % size, (place - columns) % size])
        else:
            numbers = np.column_stack([(place + 1) // 2 - 1, 2 * place + 1, 2 * place + 2])
        numbers[(numbers < 0) | (numbers >= size) | (numbers == place[:, None])] = NONE
        for column in range(1, numbers.shape[1]):  # on a torus of two rows both neighbours in a column are the same
            numbers[(numbers[:, :column] == numbers[:, [column]]).any(axis=1), column] = NONE
        found = np.where(numbers >= 0, self._by_position[numbers], NONE).astype(np.int32)
        return np.where((found >= 0) & world.online[found], found, np.int32(NONE))

    def missing(self, world: World) -> tuple[int, int]:
        """Return the number of target links between online nodes, and of those that are not in the views."""
        return count_missing(self.views, world.order, self.targets(world))  # type: ignore[no-any-return]

    def observe(self, world: World) -> dict[str, float]:
        """Return the missing target links, and when none was missing for the first time."""
        links, missing = self.missing(world)
        return {
            "links.missing": float(missing),
            "links.missing_share": missing / max(links, 1),
            "links.complete": float(self.converged or world.cycle),
        }

    def _exchange(self, world: World) -> None:
        wires = tuple(world.transport.wire(self, kind, self._bytes) for kind in ("request", "answer"))
        exchange(
            self._space, self._position, self.views, world.order, self.config.psi, self._oracle, self._oldest(world),
            wires, self._exchange_key, self._room,
        )  # fmt: skip

    def _oldest(self, world: World) -> int:
        """Return the time stamp of the oldest descriptor that counts."""
        return 0 if self.config.lifetime is None else max(0, world.cycle - self.config.lifetime)

    def _take_samples(self, world: World, nodes: NDArray[np.int32], number: int, key: np.uint64) -> None:
        if number == 0 or nodes.size == 0:
            return
        asking = world.order if nodes.size == world.order.size else nodes
        peers = [self.config.peers.choose(world, asking, key, k) for k in range(number)]
        take_samples(
            self._space, self._position, self.views, asking, np.stack(peers), world.cycle, self._oldest(world),
            self._sample_room,
        )  # fmt: skip
