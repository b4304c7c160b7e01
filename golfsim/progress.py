"""What a run shows while it runs: a live bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from golfsim.engine import Simulation

SECONDS_BETWEEN_LINES = 5.0
REFRESHES_A_SECOND = 10

Told = Callable[[str, int, int | None], None]


class Progress:
    """Is told about each cycle of each run; `point` names the run's point of a sweep."""

    def begin(self, simulation: Simulation, point: str = "") -> None:
        """A run begins."""

    def cycle(self, simulation: Simulation) -> None:
        """A cycle is done."""

    def end(self, simulation: Simulation) -> None:
        """The run is over, finished or not."""


class Silent(Progress):
    """Shows nothing."""


def last_error(simulation: Simulation) -> str:
    """The error measured last, of the first learning layer."""
    for metrics in simulation.latest.values():
        if "error.mean" in metrics:
            return f"error {metrics['error.mean']:.4f}"
    return ""


class Clock:
    """How fast a run is; its first cycle, in which kernels are compiled, does not count."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self._first: tuple[int, float] | None = None

    def tick(self, cycle: int) -> None:
        """A cycle is done."""
        self._first = self._first or (cycle, time.monotonic())

    def rate(self, cycle: int) -> float | None:
        """Cycles a second; None until two cycles are done."""
        if self._first is None or cycle <= self._first[0]:
            return None
        return (cycle - self._first[0]) / max(time.monotonic() - self._first[1], 1e-9)

    def words(self, cycle: int, cycles: int) -> tuple[str, str]:
        """Rate and time left."""
        rate = self.rate(cycle)
        if rate is None:
            return "", ""
        left = timedelta(seconds=round((cycles - cycle) / rate))
        return f"{rate:.0f} cycles/s" if rate >= 10 else f"{rate:.2g} cycles/s", f"{left} left"


class Lines(Progress):
    """A line every few seconds."""

    def begin(self, simulation: Simulation, point: str = "") -> None:
        """Note the time."""
        self._point = point
        self._clock = Clock()
        self._told = self._clock.begun

    def cycle(self, simulation: Simulation) -> None:
        """Print a line when the last one is old enough."""
        self._clock.tick(simulation.world.cycle)
        if time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            self._print(simulation, *self._clock.words(simulation.world.cycle, simulation.scenario.cycles))

    def end(self, simulation: Simulation) -> None:
        """Print the last line."""
        rate, _ = self._clock.words(simulation.world.cycle, simulation.scenario.cycles)
        self._print(simulation, rate, f"{time.monotonic() - self._clock.begun:.1f} s")

    def _print(self, simulation: Simulation, rate: str, duration: str) -> None:
        scenario = simulation.scenario
        words = [
            self._point,
            f"run {simulation.run}/{scenario.runs}",
            f"cycle {simulation.world.cycle}/{scenario.cycles}",
        ]
        words += [rate, duration, last_error(simulation)]
        print("  ".join(word for word in words if word), file=sys.stderr, flush=True)


class Bar(Progress):
    """A live bar with cycle, rate, time left and the last error."""

    def begin(self, simulation: Simulation, point: str = "") -> None:
        """Show an empty bar."""
        from rich import progress
        from rich.console import Console

        scenario = simulation.scenario
        self._bar = progress.Progress(
            progress.TextColumn("run {task.fields[run]}"),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("cycle {task.completed:.0f}/{task.total:.0f}"),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TextColumn("{task.fields[left]}"),
            progress.TextColumn("{task.fields[error]}"),
            console=Console(stderr=True),
            auto_refresh=False,
            expand=True,
        )
        self._clock = Clock()
        self._shown = 0.0
        fields: dict[str, Any] = {
            "run": f"{simulation.run}/{scenario.runs} {point}".strip(),
            "rate": "starting …",
            "left": "",
            "error": "",
        }
        self._task = self._bar.add_task("", total=scenario.cycles, **fields)
        self._bar.start()

    def cycle(self, simulation: Simulation) -> None:
        """Redraw a few times a second."""
        self._clock.tick(simulation.world.cycle)
        if time.monotonic() - self._shown >= 1 / REFRESHES_A_SECOND:
            self._shown = time.monotonic()
            self._draw(simulation, *self._clock.words(simulation.world.cycle, simulation.scenario.cycles))

    def end(self, simulation: Simulation) -> None:
        """Leave the last state on the screen."""
        rate, _ = self._clock.words(simulation.world.cycle, simulation.scenario.cycles)
        self._draw(simulation, rate, f"{time.monotonic() - self._clock.begun:.1f} s")
        self._bar.stop()

    def _draw(self, simulation: Simulation, rate: str, left: str) -> None:
        error = last_error(simulation)
        self._bar.update(self._task, completed=simulation.world.cycle, rate=rate, left=left, error=error, refresh=True)


def for_this_output() -> Progress:
    """A bar in a terminal, else lines."""
    return Bar() if _in_terminal() else Lines()


def _in_terminal() -> bool:
    if not sys.stderr.isatty():
        return False
    from rich.console import Console

    return not Console(stderr=True).is_dumb_terminal


@contextmanager
def downloading() -> Iterator[Told]:
    """Show downloads: a bar for each file in a terminal, else a line for each."""
    if not _in_terminal():
        yield _a_line_each()
        return
    from rich import progress
    from rich.console import Console

    columns = ("{task.description}", progress.BarColumn(), progress.DownloadColumn(), progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def told(file: str, so_far: int, in_all: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file)
            bar.update(tasks[file], completed=so_far, total=in_all)

        yield told


def _a_line_each() -> Told:
    seen: set[str] = set()

    def told(file: str, so_far: int, in_all: int | None) -> None:
        if file not in seen:
            seen.add(file)
            size = f" ({in_all / 1e6:.1f} MB)" if in_all else ""
            print(f"fetching {file}{size}", file=sys.stderr, flush=True)

    return told
