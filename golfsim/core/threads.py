"""Run kernels that release the GIL in Python threads, with the same results for any number of threads."""

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

SMALLEST_SHARE = 256  # events: for fewer, starting a thread costs more than it saves


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="golfsim")


def in_threads(threads: int, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return `[function(item) for item in items]`, computed on a number of threads."""
    if threads == 1:
        return [function(item) for item in items]
    return list(_pool(threads).map(function, items))


Work = Callable[[], None]
Done = SimpleQueue[BaseException | None]


@cache
def _helper() -> SimpleQueue[tuple[Work, Done]]:
    """Start a thread that runs the work in its queue; for work of less than a millisecond a pool is too slow."""
    queue: SimpleQueue[tuple[Work, Done]] = SimpleQueue()

    def serve() -> None:
        while True:
            work, done = queue.get()
            try:
                work()
                done.put(None)
            except BaseException as error:  # raised in the thread that waits for the work
                done.put(error)

    Thread(target=serve, name="golfsim second thread", daemon=True).start()
    return queue


class Beside:
    """Run at most one piece of work in a second thread until its result is needed."""

    def __init__(self) -> None:
        self._done: Done = SimpleQueue()
        self._busy = False

    def begin(self, work: Work) -> None:
        """Start a piece of work after the previous one has ended."""
        self.end()
        self._busy = True
        _helper().put((work, self._done))

    def end(self) -> None:
        """Wait until the work has ended; raise its error, if any."""
        if self._busy:
            self._busy = False
            error = self._done.get()
            if error is not None:
                raise error


def over_ranges(
    threads: int, run: Callable[[int, int], Any], start: int, stop: int, smallest: int | None = None
) -> None:
    """Call `run(lo, hi)` for disjoint ranges that cover start … stop−1, on a number of threads.

    `smallest` is the smallest length of a range; a small value is useful if each item is much work.
    """
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
    """Sort events into levels of events without conflicts; return the events by level and the edges of the levels.

    Event e reads node reads[e] (None: no node) and changes node writes[e]. The level of an event is one above the
    highest level of all earlier events that it conflicts with. So running level after level gives the same result as
    running the events one after the other.
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
    """Call `run(events, lo, hi)` for all events, on a number of threads, as if the events ran one after the other."""
    if threads == 1 or writes.size < 2 * SMALLEST_SHARE:
        run(np.arange(writes.size, dtype=np.int32), 0, writes.size)
        return
    events, edges = levels(nodes, reads, writes)
    for start, stop in pairwise(edges):
        over_ranges(threads, lambda lo, hi: run(events, lo, hi), int(start), int(stop))
