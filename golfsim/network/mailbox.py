"""Keep messages in transit, with what they carry."""

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
from golfsim.network.delivery import reaches
from golfsim.network.transport import Named

if TYPE_CHECKING:
    from golfsim.network.world import World


AHEAD = 8  # messages


NO_SLOTS = np.empty(0, np.int32)


@kernel
def post(cycle, lag, src, dst, arrives, row, box_src, box_dst, box_due, free, count, slots, rows):
    """Put each message that arrives into a free slot: how many, and how many slots are free then (−1: too few).

    Notes slots and rows of the messages, in sending order.
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
    """Write the slots in the order they are due in, those of one cycle in sending order, and where each begins."""
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
    """Free the slots of messages that are due; one whose receiver is offline or behind a cut is lost."""
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
    """target[slot[e]] = source[row[e]] for e of lo … hi−1."""
    for e in range(lo, hi):
        if e + AHEAD < hi:
            prefetch(source, row[e + AHEAD])
            prefetch(target, slot[e + AHEAD])
        for f in range(source.shape[1]):
            target[slot[e], f] = source[row[e], f]


class Mailbox(Stateful):
    """The messages of one layer that are under way, with the rows they carry as these were when sent.

    Rows live in slots. `rows` are arrays like those that will be sent: their row shape and type are taken. `each` is
    how many messages a node sends in a cycle at most.
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

    @property
    def under_way(self) -> int:
        """How many messages are in it."""
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
        """Post the messages that arrive, each with a copy of a row of every array: its sender's, or the one given.

        Returns the slots they are kept in, in sending order; what is not copied from rows is for the caller to fill in.
        """
        slots, rows = np.empty(dst.size, np.int32), np.empty(dst.size, np.int32)
        n, self.free_count = post(
            world.cycle, lag, src, dst, arrives, src if row is None else row, self.src, self.dst, self.due_at,
            self.free, self.free_count, slots, rows,
        )  # fmt: skip
        if self.free_count < 0:
            raise RuntimeError(f"{self._layer.name}: more messages than its mailbox was made for; see `each`")
        slots = slots[:n]
        self.number[slots] = np.arange(self.sent, self.sent + n)
        self.sent += n
        self._enqueue(slots, world.cycle + 1, world.transport.longest)
        for name, source in rows_of.items():
            over_ranges(world.threads, partial(copy_rows, flat(source), rows, flat(getattr(self, name)), slots), 0, n)
        return slots

    def _enqueue(self, slots: NDArray[np.int32], first: int, cycles: int) -> None:
        """Append slots, in sending order, to the queues of the cycles they are due in: `first` and those after it."""
        edges, by_due = np.zeros(cycles + 1, np.int64), np.empty(slots.size, np.int32)
        sort_by_due(slots, self.due_at, first, edges, by_due)
        for cycle, (start, stop) in enumerate(pairwise(edges.tolist()), first):
            if start < stop:
                self._queues.setdefault(cycle, []).append(by_due[start:stop])

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take over a state, and put what is under way into its queues."""
        super().restore(arrays)
        used = np.ones(self.free.size, np.bool_)
        used[self.free[: self.free_count]] = False
        slots = np.flatnonzero(used).astype(np.int32)
        slots = slots[np.argsort(self.number[slots])]
        self._queues.clear()
        if slots.size:
            first = int(self.due_at[slots].min())
            self._enqueue(slots, first, int(self.due_at[slots].max()) - first + 1)

    def due(self, world: World) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """What is to be delivered now, in sending order: (slots, receivers); slots are valid until the next `put`."""
        cycles = range(self.collected + 1, world.cycle + 1)
        queued = [NO_SLOTS, *(part for cycle in cycles for part in self._queues.pop(cycle, ()))]
        slots = np.concatenate(queued)
        if len(cycles) > 1:  # the layer has rested: several cycles' mail is due
            slots = slots[np.argsort(self.number[slots])]
        self.collected = world.cycle
        kept = np.empty(slots.size, np.int32)
        n, self.free_count = collect(
            slots, world.transport.reach(), self.src, self.dst, self.free, self.free_count, kept
        )
        world.transport.count(self._layer, sent=0, delivered=n, lost=slots.size - n)
        return kept[:n], self.dst[kept[:n]]


def flat(rows: NDArray[Any]) -> NDArray[Any]:
    """A view with one row of numbers an entry."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))
