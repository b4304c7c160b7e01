"""Runs of a scenario, from the checked scenario to the written log."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from golfsim.engine import Simulation
from golfsim.errors import UserError, nearest
from golfsim.learner import Learner
from golfsim.log import about_this_machine, joined, with_values
from golfsim.mechanisms import Guarantee
from golfsim.progress import Progress, Silent
from golfsim.records import Records
from golfsim.scenario import Scenario
from golfsim.sweep import Point, points

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Interrupt:
    """Set by the first Ctrl-C: the cycle under way is finished, then the run ends. The second one ends it at once."""

    asked: bool = field(default=False)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Take Ctrl-C as a request while a scenario runs; leave it alone outside the main thread."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def run(scenario: Scenario, out: str | Path | None = None, *, threads: int = 1) -> pd.DataFrame:
    """Run all runs of a scenario and return their log; with `out`, also write it there."""
    with listening() as interrupt:
        logs = list(frames(scenario, out, threads, Silent(), interrupt))
    if interrupt.asked:
        raise KeyboardInterrupt
    return joined(logs)


def frames(
    scenario: Scenario, out: str | Path | None, threads: int, progress: Progress, interrupt: Interrupt
) -> Iterator[pd.DataFrame]:
    """The logs of all runs, each with the values of its point of a sweep as columns."""
    for point, simulation in simulations(scenario, out, threads, progress, interrupt):
        yield with_values(simulation.log.frame(), point.values)


def simulations(
    scenario: Scenario, out: str | Path | None, threads: int, progress: Progress, interrupt: Interrupt
) -> Iterator[tuple[Point, Simulation]]:
    """Run one point and one seed after the other; each comes back when its log is written."""
    with telling(scenario):
        found = points(scenario)
    if out is not None:
        prepare(Path(out))
    for point in found:
        for number in range(1, point.scenario.runs + 1):
            if interrupt.asked:
                return
            yield point, one(point, number, out, threads, progress, interrupt)


def one(
    point: Point, number: int, out: str | Path | None, threads: int, progress: Progress, interrupt: Interrupt
) -> Simulation:
    """Run one seed of one point, and write its log."""
    begun = time.perf_counter()
    with telling(point.scenario):
        simulation = Simulation(point.scenario, number, threads)
    ready = time.perf_counter()
    progress.begin(simulation, ", ".join(map(str, point.values.values())))
    status = "failed"
    try:
        with telling(point.scenario):
            status = cycle_through(simulation, progress, interrupt)
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        progress.end(simulation)
        times = {"setup_s": ready - begun, "cycles_s": time.perf_counter() - ready}
        if out is not None:
            write(simulation, run_folder(out, point, number), {"status": status, "point": point.values}, threads, times)
    return simulation


def prepare(out: Path) -> None:
    """Make the folder for results, and find out before a long run whether it can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except (OSError, ValueError) as error:
        raise cannot_write(out, error) from None


def cannot_write(folder: Path, error: Exception) -> UserError:
    """What to say when results cannot be kept."""
    why = getattr(error, "strerror", None) or error
    return UserError(f"cannot write to {folder}: {why}", hint="choose another place with --out")


@contextmanager
def telling(scenario: Scenario) -> Iterator[None]:
    """Add file and line to a mistake that shows only when the scenario runs."""
    try:
        yield
    except UserError as error:
        raise scenario.located(error) from None
    except MemoryError as error:
        what = f"not enough memory: {error}"
        raise scenario.located(UserError(what, key="nodes", hint="try fewer nodes")) from None


def cycle_through(simulation: Simulation, progress: Progress, interrupt: Interrupt) -> str:
    """Run all cycles, or those up to an interruption: finished, stopped (by the condition) or interrupted."""
    for _ in simulation:
        check_metric(simulation)
        progress.cycle(simulation)
        if interrupt.asked and not simulation.finished:
            return "interrupted"
    return "finished" if simulation.world.cycle >= simulation.scenario.cycles else "stopped"


def check_metric(simulation: Simulation) -> None:
    """Refuse a stop condition on a metric that its layer does not have."""
    condition = simulation.scenario.condition
    if condition is not None and simulation.latest and simulation.observer.due(simulation.world.cycle, whole=True):
        metrics = simulation.latest[condition.layer]
        if condition.metric not in metrics:
            what = f"“{condition.layer}” has no metric “{condition.metric}”"
            raise UserError(what, key="stop.when", hint=nearest(condition.metric, metrics))


def run_folder(out: str | Path, point: Point, number: int) -> Path:
    """The folder of one run."""
    return Path(out) / point.folder / f"run-{number:0{len(str(point.scenario.runs))}}"


def guarantees(simulation: Simulation) -> dict[str, str]:
    """What each layer that uses somebody's data provably gives, and what all of them give together."""
    layers = {name: layer for name, layer in simulation.layers.items() if isinstance(layer, Learner | Records)}
    found = {name: str(layer.guarantee()) for name, layer in layers.items()}
    private = [layer.guarantee() for layer in layers.values() if layer.touches_private_data]
    return found | ({"together": str(together(private))} if len(private) > 1 else {})


def together(parts: list[Guarantee]) -> Guarantee:
    """The guarantee of several layers that use the same private records: ε adds up, for one unit."""
    if any(part.epsilon is None for part in parts) or len({part.unit for part in parts}) > 1:
        return Guarantee(None)
    return Guarantee(sum(part.epsilon or 0.0 for part in parts), parts[0].unit)


def write(simulation: Simulation, folder: Path, outcome: dict[str, Any], threads: int, times: dict[str, float]) -> None:
    """Write log, scenario and `run.json`; `outcome` is the run's status and its point of a sweep."""
    scenario = simulation.scenario
    about: dict[str, Any] = outcome | {
        "name": scenario.name,
        "run": simulation.run,
        "seed": simulation.seed,
        "cycles": simulation.world.cycle,
        "nodes": simulation.world.nodes,
        "threads": threads,
        "scenario_file": scenario.file,
        "data_sha256": simulation.data_digest,
        "guarantees": guarantees(simulation),
        "times": {name: round(seconds, 3) for name, seconds in times.items()},
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    try:
        simulation.log.write(folder, scenario.dump(), about | about_this_machine())
    except OSError as error:
        raise cannot_write(folder, error) from None
