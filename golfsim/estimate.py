"""What a scenario will cost, before it runs: its runs, and time and memory from a short trial of the largest."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from golfsim import need, runner, sweep
from golfsim.batch import How, to_do
from golfsim.engine import Simulation
from golfsim.errors import UserError
from golfsim.memory import available, readable
from golfsim.need import Size
from golfsim.runner import Task
from golfsim.scenario import Scenario
from golfsim.store import Planned, Store, plan
from golfsim.workers import python

TRIAL_SECONDS = 3.0


def told(scenario: Scenario, out: Path, how: How) -> str:
    """The runs that a scenario asks for, and what those that are missing will cost."""
    with runner.telling(scenario):
        runs = plan(sweep.points(scenario))
    there = {} if how.force else Store(out).whole(runs)
    tasks = to_do(runs, there, out, how)
    lines = [f"{len(runs)} runs, {len(runs) - len(tasks)} of them are there already"]
    return "\n".join([*lines, *_points(runs, set(there)), *(_cost(tasks, how) if tasks else ())])


def _points(runs: list[Planned], there: set[str]) -> list[str]:
    """A line for each point: its values, its seeds, and how many runs of it are there."""
    found: dict[str, list[Planned]] = {}
    for planned in runs:
        found.setdefault(json.dumps(planned.point.values, ensure_ascii=False), []).append(planned)
    lines = []
    for members in found.values():
        words = ", ".join(f"{key} = {value}" for key, value in members[0].point.values.items()) or "one point"
        done = sum(planned.hash in there for planned in members)
        seeds = f"seed {members[0].seed}" + (f" to {members[-1].seed}" if len(members) > 1 else "")
        lines.append(f"  {words}: {seeds}" + (f" ({done} there)" if done else ""))
    return lines


def _cost(tasks: list[Task], how: How) -> list[str]:
    most = need.predicted(need.largest(tasks).point.scenario, how.shares(len(tasks))[1], how.paranoid)
    if most is not None and most > available():
        return [f"{need.too_large(most).what}: it would be refused"]
    sizes = {id(task.point): Size.of(task.point.scenario).work for task in tasks}
    largest = max(tasks, key=lambda task: sizes[id(task.point)] * task.point.scenario.cycles)
    setup, a_cycle, memory = try_out(largest)
    unit = sizes[id(largest.point)]
    work = sum((setup + a_cycle * t.point.scenario.cycles) * sizes[id(t.point)] / unit for t in tasks)
    workers, threads = how.shares(len(tasks))
    words = ", ".join(f"{key} = {value}" for key, value in largest.point.values.items())
    lines = [
        f"about {timedelta(seconds=round(work / workers) or 1)} with {workers} workers of {threads} threads and "
        f"{readable(memory)} of memory each, judged by a trial of the largest run{': ' + words if words else ''}"
    ]
    if workers * memory > available():
        fitting = max(1, available() // memory)
        lines.append(f"only {readable(available())} of memory are available: take --workers {fitting}")
    return lines


def try_out(task: Task) -> tuple[float, float, int]:
    """Seconds of setting up, seconds a cycle, and bytes of memory at the most; in a process of its own."""
    ended = subprocess.run(
        python("golfsim.estimate", "trial"), input=json.dumps(task.packed()).encode(), capture_output=True, check=False
    )
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").strip().splitlines() or ["it was ended"]
        raise UserError(f"the trial of the largest run failed: {lines[-1]}", hint="the list of runs needs no trial")
    setup, a_cycle, memory = json.loads(ended.stdout.splitlines()[-1])
    return float(setup), float(a_cycle), int(memory)


def trial() -> None:
    """The process of a trial: a short run to compile what is needed, then one that counts."""
    import psutil

    task = Task.unpacked(json.load(sys.stdin.buffer))
    try:
        _tried(task, 0.0)
        setup, a_cycle = _tried(task, TRIAL_SECONDS)
    except UserError as error:
        sys.exit(str(error))
    try:
        import resource

        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    except ImportError:  # not on every system
        memory = psutil.Process().memory_info().rss
    print(json.dumps([setup, a_cycle, memory]))


def _tried(task: Task, seconds: float) -> tuple[float, float]:
    begun = time.perf_counter()
    with runner.telling(task.point.scenario):
        simulation = Simulation(task.point.scenario, task.run, task.threads)
        ready = time.perf_counter()
        for _ in simulation:
            if time.perf_counter() - ready > seconds:
                break
    return ready - begun, (time.perf_counter() - ready) / simulation.world.cycle
