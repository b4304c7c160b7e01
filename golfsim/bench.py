"""How fast the simulator is on this machine: node-cycles a second, the least disturbed of several tries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from golfsim.engine import Simulation
from golfsim.scenario import Scenario

Row = dict[str, Any]
COPY_BYTES = 1 << 28
SECONDS_A_CASE = 1.5

NEWSCAST = {"name": "peers", "use": "newscast", "view": 20}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "learner": "pegasos"}
SPAMBASE = {"set": "spambase", "scale": ["minmax", "l1"]}


def scenario(nodes: int, layers: list[dict[str, Any]]) -> Scenario:
    """A network of so many nodes without faults and without observation."""
    data = {"data": SPAMBASE} if any(layer["use"] == "golf" for layer in layers) else {}
    return Scenario.of(
        {"name": "benchmark", "seed": 1, "cycles": 2**30, "nodes": {"number": nodes, "repeat": True, "leave_out": True}}
        | {"protocol": layers, "observe": {"every": 2**30}}
        | data
    )


def best_of(run: Callable[[], Any]) -> float:
    """Seconds of the quickest of several calls; the first one, which compiles, does not count."""
    run()
    tries: list[float] = []
    end = time.perf_counter() + SECONDS_A_CASE
    while len(tries) < 3 or time.perf_counter() < end:
        begun = time.perf_counter()
        run()
        tries.append(time.perf_counter() - begun)
    return min(tries)


def copy_rate() -> Row:
    """What the memory allows: bytes read and written a second by a plain copy."""
    source, target = np.ones(COPY_BYTES // 8), np.empty(COPY_BYTES // 8)
    seconds = best_of(lambda: np.copyto(target, source))
    return {"name": "memory copy", "GB/s": round(2 * COPY_BYTES / seconds / 1e9, 2)}


def rate(name: str, nodes: int, layers: list[dict[str, Any]], threads: int) -> Row:
    """Node-cycles a second of a stack, whole cycles of the engine."""
    simulation = Simulation(scenario(nodes, layers), threads=threads)
    seconds = best_of(simulation.step)
    return {"name": name, "nodes": nodes, "threads": threads, "node-cycles/s": round(nodes / seconds)}


def measure(threads: int = 1) -> list[Row]:
    """All figures, slowest machine parts last."""
    uniform = {"name": "peers", "use": "uniform"}
    rows = [copy_rate()]
    for nodes in (4140, 100_000):
        rows.append(rate("Newscast, view 20", nodes, [NEWSCAST], threads))
        rows.append(rate("Golf + Pegasos, 57 features", nodes, [uniform, GOLF], threads))
        rows.append(rate("Golf + Pegasos over Newscast", nodes, [NEWSCAST, GOLF], threads))
    return rows


def table(rows: list[Row]) -> str:
    """The figures as text."""
    lines = []
    for row in rows:
        rest = (f"{key} {value:,}" for key, value in row.items() if key != "name")
        lines.append(f"{row['name']:32}" + "   ".join(rest))
    return "\n".join(lines)
