"""How much memory there is, and how to say how much is needed."""

from __future__ import annotations


def available() -> int:
    """Bytes that could be used now without swapping, within the limits set on this process."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        import resource
    except ImportError:  # not on every system
        return free
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return free
    return min(free, max(soft - int(psutil.Process().memory_info().vms), 0))


def readable(size: int) -> str:
    """A number of bytes for people."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
