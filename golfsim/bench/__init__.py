"""Benchmarks of the simulator on this machine, as ratios to bare loops and to a memory copy where machines differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from golfsim.bench import gossip, learners, start, strategies
from golfsim.bench.timing import Row

SECTIONS: dict[str, Callable[[], Iterator[Row]]] = {
    "memory": gossip.memory,
    "protocols": gossip.protocols,
    "faults": gossip.faults,
    "averages": gossip.averages,
    "messages": gossip.messages,
    "overlays": gossip.overlays,
    "models": gossip.large_models,
    "learners": learners.learners,
    "observing": start.observing,
    "strategies": strategies.rows,
    "starts": start.starts,
    "growth": gossip.growth,
    "large": start.large,
}
USUAL = tuple(name for name in SECTIONS if name not in ("growth", "large"))


def measure(sections: Iterable[str] = USUAL) -> Iterator[Row]:
    """Yield the results of these sections, one after the other."""
    for name in sections:
        yield from SECTIONS[name]()


def line(row: Row) -> str:
    """Return a result as one line of text."""
    rest = (f"{key} {value:,}" for key, value in row.items() if key != "name")
    return f"{row['name']:34}" + "   ".join(rest)
