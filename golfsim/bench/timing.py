"""Timing: the minimum of several measurements; functions to compare are called in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from golfsim.scenario.model import Scenario

Row = dict[str, Any]
SECONDS_A_CASE = 1.5
FEWEST_TRIES = 4

NEWSCAST: dict[str, Any] = {"name": "peers", "use": "newscast", "view": 20}
UNIFORM: dict[str, Any] = {"name": "peers", "use": "uniform"}
GOLF: dict[str, Any] = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "learner": "pegasos"}
SPAMBASE = {"set": "spambase", "scale": ["minmax", "l1"]}


def scenario(nodes: int, layers: list[dict[str, Any]], more: dict[str, Any] | None = None) -> Scenario:
    """Return a scenario with this many nodes and these layers, without observation; `more` adds tables."""
    data = {"data": SPAMBASE} if any("records" in layer for layer in layers) else {}
    return Scenario.of(
        {"name": "benchmark", "seed": 1, "cycles": 2**30, "nodes": {"number": nodes, "repeat": True, "leave_out": True}}
        | {"protocol": layers, "observe": {"every": 2**30}}
        | data
        | (more or {})
    )


def race(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return seconds of the quickest call of each function, called in turns so that disturbances affect all equally.

    The first call of each function, which compiles, does not count.
    """
    for run in runs.values():
        run()
    tries: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + SECONDS_A_CASE * len(runs)
    while time.perf_counter() < end or len(next(iter(tries.values()))) < FEWEST_TRIES:
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            tries[name].append(time.perf_counter() - begun)
    return {name: min(found) for name, found in tries.items()}


def best_of(run: Callable[[], Any]) -> float:
    """Return seconds of the quickest of several calls."""
    return race({"": run})[""]
