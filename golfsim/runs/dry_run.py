"""Estimate what a scenario costs: its runs, and time and memory from a forecast and a trial of the largest one."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError
from golfsim.core.kernels import when_compiling
from golfsim.core.memory import available, most_used, readable
from golfsim.core.words import counted
from golfsim.runs import memory_forecast, single
from golfsim.runs.batch import Execution, to_do
from golfsim.runs.memory_forecast import Size
from golfsim.runs.single import Task
from golfsim.runs.store import Planned, Store, plan
from golfsim.scenario import sweep
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

TRIAL_SECONDS = 3.0
TRIAL_SHARE = 0.1  # of the cycles, so that a dry run is quicker than the run
LEAST_CYCLES = 5


def of(scenario: Scenario, out: Path, how: Execution) -> dict[str, Any]:
    """Return the runs of a scenario, and the estimated cost of those that are not complete."""
    with single.telling(scenario):
        runs = plan(sweep.points(scenario))
    there = {} if how.force else Store(out).whole(runs)
    tasks = to_do(runs, there, out, how)
    found = {"runs": len(runs), "there": len(runs) - len(tasks), "points": _points(runs, set(there))}
    return found | ({"cost": _cost(tasks, how)} if tasks else {})


def text(found: dict[str, Any]) -> str:
    """Return the estimate as text."""
    lines = [f"{counted(found['runs'], 'run')}, {found['there']} complete"]
    for point in found["points"]:
        ends = dict.fromkeys((point["seeds"][0], point["seeds"][-1]))
        seeds = f"seed{'s' * (len(ends) > 1)} {' to '.join(map(str, ends))}"
        done = f" ({point['there']} complete)" if point["there"] else ""
        lines.append(f"  {_words(point['values']) or 'one point'}: {seeds}{done}")
    return "\n".join([*lines, *_cost_in_words(found["cost"])] if "cost" in found else lines)


def _words(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in values.items())


def _points(runs: list[Planned], there: set[str]) -> list[dict[str, Any]]:
    """Return the values, the seeds and the number of complete runs of each point."""
    found: dict[str, list[Planned]] = {}
    for planned in runs:
        found.setdefault(json.dumps(planned.point.values, ensure_ascii=False), []).append(planned)
    return [
        {
            "values": members[0].point.values,
            "seeds": [planned.seed for planned in members],
            "there": sum(planned.hash in there for planned in members),
        }
        for members in found.values()
    ]


def _cost(tasks: list[Task], how: Execution) -> dict[str, Any]:
    most = memory_forecast.most(tasks, how.shares(len(tasks))[1], how.paranoid)
    if most is not None and most > available():
        return {"refused": memory_forecast.too_large(most).what}
    sizes = {id(task.point): Size.of(task.point.scenario).work for task in tasks}
    largest = max(tasks, key=lambda task: sizes[id(task.point)] * task.point.scenario.cycles)
    setup, a_cycle, memory = try_out(largest)
    unit = sizes[id(largest.point)]
    work = sum((setup + a_cycle * t.point.scenario.cycles) * sizes[id(t.point)] / unit for t in tasks)
    workers, threads = how.shares(len(tasks))
    return {
        "seconds": work / workers,
        "workers": workers,
        "threads": threads,
        "memory": max(memory, most or 0),
        "available": available(),
        "judged_by": largest.point.values,
    }


def _cost_in_words(cost: dict[str, Any]) -> list[str]:
    if "refused" in cost:
        return [f"the run would be refused: it {cost['refused']}"]
    workers, memory, there = cost["workers"], cost["memory"], cost["available"]
    words = _words(cost["judged_by"])
    lines = [
        f"about {timedelta(seconds=round(cost['seconds']) or 1)} with {counted(workers, 'worker')} "
        f"({counted(cost['threads'], 'thread')} and {readable(memory)} of memory per worker), "
        f"estimated from a trial of the largest run{': ' + words if words else ''}"
    ]
    if workers * memory > there:
        fitting = max(1, there // memory)
        lines.append(f"only {readable(there)} of memory is available: use --workers {fitting}")
    return lines


def try_out(task: Task) -> tuple[float, float, int]:
    """Measure seconds of set-up, seconds per cycle and the peak of memory of this process in bytes.

    A trial that compiles kernels is repeated, since a run finds them compiled.
    """
    compiled: list[None] = []
    try:
        with when_compiling(lambda: compiled.append(None)):
            found = _tried(task)
        setup, a_cycle = _tried(task) if compiled else found
    except Exception as error:
        what = f"the trial of the largest run failed: {single.explained(error)}"
        raise UserError(what, hint="a run would fail in the same way") from error
    return setup, a_cycle, most_used()


def _tried(task: Task) -> tuple[float, float]:
    """Run the first cycles, which take a small part of the time of the run, and measure them."""
    begun = time.perf_counter()
    with single.telling(task.point.scenario):
        simulation = Simulation(task.point.scenario, task.run, task.threads)
        ready = time.perf_counter()
        for cycle in simulation:
            if cycle >= LEAST_CYCLES and (
                cycle >= TRIAL_SHARE * simulation.scenario.cycles or time.perf_counter() - ready > TRIAL_SECONDS
            ):
                break
    return ready - begun, (time.perf_counter() - ready) / simulation.world.cycle
