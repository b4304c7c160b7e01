"""Python threads over kernels that release the GIL, with the same numbers for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel

T = TypeVar("T")
R = TypeVar("R")

SMALLEST_SHARE = 256  # events below which handing them to a thread costs more than it saves


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="golfsim")


def in_threads(threads: int, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`[function(item) for item in items]`, on so many threads."""
    if threads == 1:
        return [function(item) for item in items]
    return list(_pool(threads).map(function, items))


Work = Callable[[], None]
Done = SimpleQueue[BaseException | None]


@cache
def _helper() -> SimpleQueue[tuple[Work, Done]]:
    """A thread that does what is put into its queue: for work of less than a millisecond a pool costs too much."""
    queue: SimpleQueue[tuple[Work, Done]] = SimpleQueue()

    def serve() -> None:
        while True:
            work, done = queue.get()
            try:
                work()
                done.put(None)
            except BaseException as error:  # told where somebody waits for it
                done.put(error)

    Thread(target=serve, name="golfsim beside", daemon=True).start()
    return queue


class Beside:
    """At most one piece of work that goes on in a thread of its own until somebody needs what comes of it."""

    def __init__(self) -> None:
        self._done: Done = SimpleQueue()
        self._busy = False

    def begin(self, work: Work) -> None:
        """Begin a piece of work, once the one before is done."""
        self.end()
        self._busy = True
        _helper().put((work, self._done))

    def end(self) -> None:
        """Wait until it is done."""
        if self._busy:
            self._busy = False
            error = self._done.get()
            if error is not None:
                raise error


def over_ranges(
    threads: int, run: Callable[[int, int], Any], start: int, stop: int, smallest: int | None = None
) -> None:
    """`run(lo, hi)` over parts of start … stop−1 that do not touch each other; `smallest`: where each is much work."""
    shares = min(threads, max(1, (stop - start) // (smallest or SMALLEST_SHARE)))
    edges = [start + (stop - start) * share // shares for share in range(shares + 1)]
    in_threads(min(threads, shares), lambda part: run(*part), list(pairwise(edges)))


@kernel
def _levels(reads, writes, last_read, last_write, level):
    deepest = -1
    for e in range(writes.size):
        i, j = reads[e], writes[e]
        depth = max(last_write[j], last_read[j]) + 1
        if i >= 0:
            depth = max(depth, last_write[i] + 1)
            last_read[i] = max(last_read[i], depth)
        last_write[j] = depth
        level[e] = depth
        deepest = max(deepest, depth)
    return deepest + 1


@kernel
def _sort_by_level(level, edges, events):
    for e in range(level.size):
        edges[level[e] + 1] += 1
    for depth in range(1, edges.size):
        edges[depth] += edges[depth - 1]
    place = edges.copy()
    for e in range(level.size):
        events[place[level[e]]] = e
        place[level[e]] += 1


def levels(
    nodes: int, reads: NDArray[np.int32] | None, writes: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Sort events into levels whose events do not touch each other: (events by level, edges of the levels).

    Event e reads node reads[e] (None: no node) and changes node writes[e]. An event stands one level above the
    highest earlier event that it conflicts with, so running level after level means the same as one by one.
    """
    level = np.empty(writes.size, np.int32)
    last_read, last_write = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    reads = np.full(writes.size, -1, np.int32) if reads is None else reads
    edges = np.zeros(_levels(reads, writes, last_read, last_write, level) + 1, np.int64)
    events = np.empty(writes.size, np.int32)
    _sort_by_level(level, edges, events)
    return events, edges


def as_if_one_by_one(
    threads: int,
    run: Callable[[NDArray[np.int32], int, int], Any],
    nodes: int,
    reads: NDArray[np.int32] | None,
    writes: NDArray[np.int32],
) -> None:
    """`run(events, lo, hi)` over all events on so many threads, with the meaning of one after the other."""
    if threads == 1 or writes.size < 2 * SMALLEST_SHARE:
        run(np.arange(writes.size, dtype=np.int32), 0, writes.size)
        return
    events, edges = levels(nodes, reads, writes)
    for start, stop in pairwise(edges):
        over_ranges(threads, lambda lo, hi: run(events, lo, hi), int(start), int(stop))
