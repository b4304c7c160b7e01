"""Measure available and used memory, and format sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CGROUP = Path("/sys/fs/cgroup")
GROUPS = Path("/proc/self/cgroup")
STRAIGHT, STEEPEST = 2.4, 4.4  # growth from two to four nodes over that from one to two: 2 for a line, 4 for a parabola
SAME = 0.3  # relative difference up to which two curvatures count as equal
CLOSER = 4  # this many times more nodes are tried before a run is refused
UNLIMITED = 1 << 60  # bytes; version 1 of control groups reports about 2⁶³ where there is no limit


def size_of(*arrays: tuple[Any, ...]) -> int:
    """Return the bytes of arrays, each given as (type, length, length, …): ``size_of((np.float32, nodes, features))``.

    A type may also be a number of bytes.
    """
    import numpy as np

    return sum((of if isinstance(of, int) else np.dtype(of).itemsize) * math.prod(shape) for of, *shape in arrays)


def available() -> int:
    """Return the number of bytes that this process can use now, within its limits and without swapping."""
    import psutil

    return max(0, min([int(psutil.virtual_memory().available), *_left_by_limits(), *_left_by_cgroup()]))


def _left_by_limits() -> list[int]:
    """Return the bytes of address space and data that `ulimit` still allows."""
    import psutil

    try:
        import resource
    except ImportError:  # not on every system
        return []
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    if limits == [resource.RLIM_INFINITY] * 2:
        return []  # the common case: to ask what the process holds takes longer than all else of a small run
    held = psutil.Process().memory_info()
    has = (held.vms, getattr(held, "data", held.rss))
    return [limit - int(have) for limit, have in zip(limits, has, strict=True) if limit != resource.RLIM_INFINITY]


def _left_by_cgroup() -> list[int]:
    """Return the bytes that the control groups of this process (a container or a service) still allow.

    Both versions of control groups count, and the groups above that of this process, down to the top.
    """
    found: list[int] = []
    with suppress(OSError):
        for line in GROUPS.read_text().splitlines():
            _, kinds, group = line.split(":", 2)
            if not kinds:
                found += _left_along(CGROUP, group, "memory.max", "memory.current")
            elif "memory" in kinds.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
                found += _left_along(CGROUP / "memory", group, *names)
    return found


def _left_along(top: Path, group: str, most: str, now: str) -> list[int]:
    """Return what is left in a group and in those above it; inside a container, its own group is the top."""
    found = []
    place = top / group.strip("/")
    for folder in (place, *place.parents):
        with suppress(OSError, ValueError):  # no such group here, or “max”
            limit = int((folder / most).read_text())
            if limit < UNLIMITED:
                found.append(limit - int((folder / now).read_text()))
        if folder == top:
            break
    return found


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Measure the peak of what the block allocates: call the yielded function within or after the block."""
    import tracemalloc

    tracemalloc.start()
    found: list[int] = []
    try:
        yield lambda: found[0] if found else tracemalloc.get_traced_memory()[1]
    finally:
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


def extrapolated(peak: Callable[[int], int], few: int, nodes: int, enough: float = math.inf) -> int:
    """Extrapolate the memory of `nodes` nodes from that of `few` nodes, twice as many, four times as many, …

    Memory grows linearly or quadratically. But the set-up, e.g. reading the data, may need more than a few nodes and
    hide them. Therefore the trial sizes are doubled until two estimates agree or lie on a line. Also, the memory of a
    few nodes may stop growing, as that of an attack on a sample does. Therefore more nodes are tried before the
    forecast states that there is not `enough`.
    """
    found, before, closer = [peak(few), peak(2 * few), peak(4 * few)], -1.0, CLOSER * few
    while True:
        slope, bend = _slope_and_bend(few, *found[-3:])
        sure = bend == 0 or (bend > 0 and abs(bend - before) < SAME * bend)
        before, bend, more = bend, max(bend, 0.0), nodes - 4 * few
        needed = int(found[-1] + (slope + bend * 2 * few) * more + bend * more**2)
        if (sure and (needed <= enough or few >= closer)) or 8 * few > nodes // 2:
            return needed
        few *= 2
        found.append(peak(4 * few))


def _slope_and_bend(few: int, one: int, two: int, four: int) -> tuple[float, float]:
    """Return slope and curvature of the curve through the memory of `few` nodes, twice and four times as many.

    A curvature of −1 means that it is neither a line nor a parabola.
    """
    first, second = two - one, four - two  # their ratio is 2 for a line, and up to 4 for a parabola
    slope = second / (2 * few)
    if second <= 0 or second > STEEPEST * first:
        return slope, -1.0
    return slope, (slope - first / few) / (3 * few) if second > STRAIGHT * first else 0.0


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Let the code inside raise MemoryError if it allocates more than a number of bytes; it is for code of others.

    The limit is that of the process, so what other threads allocate in the meantime counts, too.
    """
    import psutil

    try:
        import resource
    except ImportError:  # not on every system
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(psutil.Process().memory_info().vms) + size
    known = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([limit, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def used() -> int:
    """Return the number of bytes that this process uses now."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def most_used() -> int:
    """Return the peak memory use of this process in bytes; the current use if the system does not report the peak.

    The `ru_maxrss` of getrusage is not used, since it includes the memory of the parent process at the start.
    """
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return used()


def readable(size: int) -> str:
    """Format a number of bytes for readers."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
