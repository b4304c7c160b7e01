"""Runs of a scenario, from the checked scenario to the written log."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from golfsim.engine import Simulation
from golfsim.errors import UserError
from golfsim.log import about_this_machine
from golfsim.progress import Progress, Silent
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
        logs = [s.log.frame() for s in simulations(scenario, out, threads, Silent(), interrupt)]
    if interrupt.asked:
        raise KeyboardInterrupt
    import pandas as pd

    return pd.concat(logs, ignore_index=True)


def simulations(
    scenario: Scenario, out: str | Path | None, threads: int, progress: Progress, interrupt: Interrupt
) -> Iterator[Simulation]:
    """Run one point and one seed after the other; each comes back when its log is written."""
    try:
        found = points(scenario)
    except UserError as error:
        raise scenario.located(error) from None
    for point in found:
        for number in range(1, point.scenario.runs + 1):
            if interrupt.asked:
                return
            yield one(point, number, out, threads, progress, interrupt)


def one(
    point: Point, number: int, out: str | Path | None, threads: int, progress: Progress, interrupt: Interrupt
) -> Simulation:
    """Run one seed of one point, and write its log."""
    begun = time.perf_counter()
    try:
        simulation = Simulation(point.scenario, number, threads)
    except UserError as error:
        raise point.scenario.located(error) from None
    ready = time.perf_counter()
    progress.begin(simulation, ", ".join(str(value) for value in point.values.values()))
    try:
        for _ in simulation:
            progress.cycle(simulation)
            if interrupt.asked:
                break
    finally:
        progress.end(simulation)
        times = {"setup_s": ready - begun, "cycles_s": time.perf_counter() - ready}
        if out is not None and simulation.world.cycle:
            write(simulation, run_folder(out, point, number), point.values, threads, times)
    return simulation


def run_folder(out: str | Path, point: Point, number: int) -> Path:
    """The folder of one run."""
    return Path(out) / point.folder / f"run-{number:0{len(str(point.scenario.runs))}}"


def write(
    simulation: Simulation, folder: Path, values: dict[str, Any], threads: int, times: dict[str, float]
) -> None:
    """Write log, scenario and `run.json`."""
    scenario, cycle = simulation.scenario, simulation.world.cycle
    ended_early = "stopped" if simulation.finished else "interrupted"
    about: dict[str, Any] = {
        "name": scenario.name,
        "point": values,
        "status": "finished" if cycle >= scenario.cycles else ended_early,
        "run": simulation.run,
        "seed": simulation.seed,
        "cycles": cycle,
        "nodes": simulation.world.nodes,
        "threads": threads,
        "scenario_file": scenario.file,
        "data_sha256": simulation.data_digest,
        "times": {name: round(seconds, 3) for name, seconds in times.items()},
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    try:
        simulation.log.write(folder, scenario.dump(), about | about_this_machine())
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}", hint="choose another --out") from None
