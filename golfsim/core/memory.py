"""Measure available and used memory, and format sizes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


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
    held = psutil.Process().memory_info()
    limits = [(resource.RLIMIT_AS, held.vms), (resource.RLIMIT_DATA, getattr(held, "data", held.rss))]
    soft = [(resource.getrlimit(kind)[0], int(have)) for kind, have in limits]
    return [limit - have for limit, have in soft if limit != resource.RLIM_INFINITY]


def _left_by_cgroup() -> list[int]:
    """Return the bytes that the control group of this process (a container or a service) still allows."""
    with suppress(OSError, ValueError):
        group = Path("/proc/self/cgroup").read_text().split("::", 1)[1].split("\n")[0].strip("/")
        folder = CGROUP / group if (CGROUP / group / "memory.max").exists() else CGROUP
        return [int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())]
    return []


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
