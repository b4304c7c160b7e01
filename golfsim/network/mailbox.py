"""Store messages in transit, with their content."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.simd import prefetch
from golfsim.core.state import Stateful
from golfsim.core.threads import over_ranges
from golfsim.network.delivery import Wire, reaches
from golfsim.network.transport import Named

if TYPE_CHECKING:
    from golfsim.network.world import World


AHEAD = 8  # messages
SLOT = 24 + 4  # bytes per slot: sender, receiver, cycle, free slots, number; and its place in a queue
IN_HAND = 45  # bytes per message that is being sent or received


NO_SLOTS = np.empty(0, np.int32)


@kernel
def post(cycle, lag, src, dst, arrives, row, box_src, box_dst, box_due, free, count, slots, rows):
    """Put each message that arrives into a free slot.

    Parameters
    ----------
    cycle : int
        The current cycle.
    lag : array of int32, shape (messages,)
        The delay of each message in cycles.
    src, dst : array of int32, shape (messages,)
        The sender and the receiver of each message.
    arrives : array of bool, shape (messages,)
        Which messages are not lost.
    row : array of int32, shape (messages,)
        The row that each message carries.
    box_src, box_dst, box_due : array of int32, shape (capacity,)
        Sender, receiver and cycle of delivery, per slot; filled here.
    free : array of int32, shape (capacity,)
        The free slots are the first `count` entries.
    count : int
        The number of free slots.
    slots, rows : array of int32, shape (messages,)
        The slot and the row of each message that arrives, in sending order; filled here.

    Returns
    -------
    stored, count : int
        The number of stored messages and the number of slots that remain free (−1: there were too few).
    """
    n = 0
    for e in range(dst.size):
        if arrives[e]:
            if count == 0:
                return n, -1
            count -= 1
            slot = free[count]
            box_src[slot], box_dst[slot], box_due[slot] = src[e], dst[e], cycle + lag[e]
            slots[n], rows[n] = slot, row[e]
            n += 1
    return n, count


@kernel
def sort_by_due(slots, due, first, edges, out):
    """Sort slots by the cycle in which they are due, in sending order within a cycle.

    `out` is filled with the sorted slots, and `edges` with the place in `out` where each cycle begins.
    """
    for slot in slots:
        edges[due[slot] - first + 1] += 1
    for cycle in range(1, edges.size):
        edges[cycle] += edges[cycle - 1]
    place = edges.copy()
    for slot in slots:
        out[place[due[slot] - first]] = slot
        place[due[slot] - first] += 1


@kernel
def collect(slots, wire, box_src, box_dst, free, count, kept):
    """Free the slots of messages that are due. A message to an offline node or across a cut is lost.

    Parameters
    ----------
    slots : array of int32
        The slots of the messages that are due.
    wire : Wire
        The rule that decides which receivers can be reached.
    box_src, box_dst : array of int32, shape (capacity,)
        Sender and receiver, per slot.
    free : array of int32, shape (capacity,)
        The free slots are the first `count` entries; changed in place.
    count : int
        The number of free slots.
    kept : array of int32
        The slots of the messages that are delivered; filled here.

    Returns
    -------
    delivered, count : int
        The number of delivered messages, and of free slots.
    """
    n = 0
    for slot in slots:
        free[count] = slot
        count += 1
        if reaches(wire, box_src[slot], box_dst[slot]):
            kept[n] = slot
            n += 1
    return n, count


@leaf
def copy_rows(source, row, target, slot, lo, hi):
    """Copy row[e] of the source to slot[e] of the target, for e = lo … hi−1.

    Parameters
    ----------
    source, target : array, shape (rows, numbers) and (slots, numbers)
        The arrays to copy from and to.
    row, slot : array of int32, shape (messages,)
        The row and the slot of each message.
    lo, hi : int
        The range of messages.
    """
    for e in range(lo, hi):
        if e + AHEAD < hi:
            prefetch(source, row[e + AHEAD])
            prefetch(target, slot[e + AHEAD])
        for f in range(source.shape[1]):
            target[slot[e], f] = source[row[e], f]


class Mailbox(Stateful):
    """The messages of one layer that are in transit, with copies of the rows that they carry, made when sent.

    Rows are stored in slots. `rows` are arrays with the row shape and type of the rows that will be sent. `each` is the
    largest number of messages that a node sends in a cycle.
    """

    def __init__(self, layer: Named, world: World, each: int = 1, **rows: NDArray[Any]) -> None:
        capacity = world.nodes * world.transport.longest * each
        self._layer = layer
        world.transport.reserve(capacity, rows)
        self.src = np.zeros(capacity, np.int32)
        self.dst = np.zeros(capacity, np.int32)
        self.due_at = np.zeros(capacity, np.int32)
        self.free = np.arange(capacity, dtype=np.int32)
        self.free_count = capacity
        self.number = np.zeros(capacity, np.int64)  # of each message, in sending order
        self.sent = 0
        self.collected = 0
        self._queues: dict[int, list[NDArray[np.int32]]] = {}  # slots by the cycle they are due in, in sending order
        for name, like in rows.items():
            setattr(self, name, np.zeros((capacity, *like.shape[1:]), like.dtype))

    @staticmethod
    def memory(world: World, row: int, each: int = 1) -> int:
        """Return the bytes of a mailbox for rows of this many bytes, and of the messages of one cycle."""
        messages, longest = world.nodes * each, world.transport.longest
        return messages * (longest * (SLOT + row) + IN_HAND) if longest else 0

    @property
    def under_way(self) -> int:
        """The number of messages in transit."""
        return self.dst.size - self.free_count

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> NDArray[Any]: ...

    def put(
        self,
        world: World,
        lag: NDArray[np.int32],
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        arrives: NDArray[np.bool_],
        row: NDArray[np.int32] | None = None,
        **rows_of: NDArray[Any],
    ) -> NDArray[np.int32]:
        """Store the messages that arrive, each with a copy of one row of every array.

        Parameters
        ----------
        world : World
            The world, which has the current cycle.
        lag : array of int32, shape (messages,)
            The delay of each message in cycles.
        src, dst : array of int32, shape (messages,)
            The sender and the receiver of each message.
        arrives : array of bool, shape (messages,)
            Which messages are not lost.
        row : array of int32, shape (messages,), optional
            The row that each message carries; default: the row of its sender.
        **rows_of : array
            The arrays to copy rows from, by the names given to the constructor.

        Returns
        -------
        slots : array of int32
            The slots of the stored messages, in sending order. The caller fills all arrays that are not in `rows_of`.
        """
        slots, rows = np.empty(dst.size, np.int32), np.empty(dst.size, np.int32)
        n, self.free_count = post(
            world.cycle, lag, src, dst, arrives, src if row is None else row, self.src, self.dst, self.due_at,
            self.free, self.free_count, slots, rows,
        )  # fmt: skip
        if self.free_count < 0:
            raise RuntimeError(f"{self._layer.name}: more messages than its mailbox has room for; increase `each`")
        slots = slots[:n]
        self.number[slots] = np.arange(self.sent, self.sent + n)
        self.sent += n
        self._enqueue(slots, world.cycle + 1, world.transport.longest)
        for name, source in rows_of.items():
            over_ranges(world.threads, partial(copy_rows, flat(source), rows, flat(getattr(self, name)), slots), 0, n)
        return slots

    def _enqueue(self, slots: NDArray[np.int32], first: int, cycles: int) -> None:
        """Append slots, in sending order, to the queues of the cycles in which they are due, from `first` on."""
        edges, by_due = np.zeros(cycles + 1, np.int64), np.empty(slots.size, np.int32)
        sort_by_due(slots, self.due_at, first, edges, by_due)
        for cycle, (start, stop) in enumerate(pairwise(edges.tolist()), first):
            if start < stop:
                self._queues.setdefault(cycle, []).append(by_due[start:stop])

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore a state, and put the messages in transit into their queues."""
        super().restore(arrays)
        used = np.ones(self.free.size, np.bool_)
        used[self.free[: self.free_count]] = False
        slots = np.flatnonzero(used).astype(np.int32)
        slots = slots[np.argsort(self.number[slots])]
        self._queues.clear()
        if slots.size:
            first = int(self.due_at[slots].min())
            self._enqueue(slots, first, int(self.due_at[slots].max()) - first + 1)

    def due(self, world: World, wire: Wire | None = None) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the slots and receivers of the messages that are delivered now, in sending order.

        The slots are valid until the next `put`. `wire` is the rule that decides which receivers can be reached;
        default: `world.transport.reach()`.
        """
        cycles = range(self.collected + 1, world.cycle + 1)
        queued = [NO_SLOTS, *(part for cycle in cycles for part in self._queues.pop(cycle, ()))]
        slots = np.concatenate(queued)
        if len(cycles) > 1:  # the layer did not act for some cycles: the messages of several cycles are due
            slots = slots[np.argsort(self.number[slots])]
        self.collected = world.cycle
        kept = np.empty(slots.size, np.int32)
        n, self.free_count = collect(
            slots,
            world.transport.reach() if wire is None else wire,
            self.src,
            self.dst,
            self.free,
            self.free_count,
            kept,
        )
        world.transport.count(self._layer, sent=0, delivered=n, lost=slots.size - n)
        return kept[:n], self.dst[kept[:n]]


def flat(rows: NDArray[Any]) -> NDArray[Any]:
    """Return a two-dimensional view of an array, with one row of numbers per entry."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))
