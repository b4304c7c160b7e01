"""What a run shows while it runs: a live bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from golfsim.engine import Simulation

SECONDS_BETWEEN_LINES = 5.0
REFRESHES_A_SECOND = 10


class Progress:
    """Is told about each cycle of each run."""

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


class Lines(Progress):
    """A line every few seconds."""

    def begin(self, simulation: Simulation, point: str = "") -> None:
        """Note the time."""
        self._point = point
        self._begun = self._told = time.monotonic()

    def cycle(self, simulation: Simulation) -> None:
        """Print a line when the last one is old enough."""
        if time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._print(simulation)

    def end(self, simulation: Simulation) -> None:
        """Print the last line."""
        self._print(simulation)

    def _print(self, simulation: Simulation) -> None:
        self._told = time.monotonic()
        scenario, cycle = simulation.scenario, simulation.world.cycle
        rate = cycle / max(self._told - self._begun, 1e-9)
        left = (scenario.cycles - cycle) / rate if rate and not simulation.finished else 0.0
        words = [
            self._point, f"run {simulation.run}/{scenario.runs}", f"cycle {cycle}/{scenario.cycles}", f"{rate:.0f} cycles/s",
            f"{left:.0f} s left", last_error(simulation),
        ]  # fmt: skip
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
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[error]}"),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._bar.start()
        self._begun = self._shown = time.monotonic()
        fields: dict[str, Any] = {"run": f"{simulation.run}/{scenario.runs} {point}".strip(), "rate": "", "error": ""}
        self._task = self._bar.add_task("", total=scenario.cycles, **fields)

    def cycle(self, simulation: Simulation) -> None:
        """Redraw a few times a second."""
        if time.monotonic() - self._shown >= 1 / REFRESHES_A_SECOND:
            self._draw(simulation)

    def end(self, simulation: Simulation) -> None:
        """Leave the last state on the screen."""
        self._draw(simulation)
        self._bar.stop()

    def _draw(self, simulation: Simulation) -> None:
        self._shown = time.monotonic()
        cycle = simulation.world.cycle
        rate = f"{cycle / max(self._shown - self._begun, 1e-9):.0f} cycles/s"
        self._bar.update(self._task, completed=cycle, rate=rate, error=last_error(simulation), refresh=True)


def for_this_output() -> Progress:
    """A bar in a terminal, else lines."""
    return Bar() if sys.stderr.isatty() else Lines()
