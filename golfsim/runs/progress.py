"""Progress of runs: a live bar in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from golfsim.data.fetch import Downloaded
    from golfsim.runs.single import Outcome, Task
    from golfsim.sim.simulation import Simulation

SECONDS_BETWEEN_LINES = 5.0
REFRESHES_A_SECOND = 10
SECONDS_BETWEEN_UPDATES = 0.3  # of the display in a notebook


COMPILING = "compiling kernels (first run only)"
EARLY = 30.0  # seconds; until then less than this part of a run does not predict the remaining time
LITTLE = 0.05


class Progress:
    """Receives the events of each run, and counts runs."""

    def plan(self, runs: int, there: int) -> None:
        """Start with a number of runs, of which `there` are complete already."""
        self.runs, self.there = runs, there
        self.done, self.failed = there, 0
        self.under_way: dict[str, tuple[Task, int]] = {}  # by hash: the run, and its cycle
        self._earlier: dict[str, float] = {}  # by hash: the share of a resumed run that was complete before
        self._begun = time.monotonic()
        self._noted: set[str] = set()

    def begin(self, task: Task) -> None:
        """Note that a run begins."""
        self.under_way[task.hash] = (task, 0)

    def cycle(self, task: Task, cycle: int, error: str) -> None:
        """Note that a cycle is complete; `error` is the last measured error as text."""
        self.under_way[task.hash] = (task, cycle)
        self._earlier.setdefault(task.hash, (cycle - 1) / task.point.scenario.cycles)

    def end(self, task: Task, outcome: Outcome) -> None:
        """Note that a run has ended, complete or not."""
        self.under_way.pop(task.hash, None)
        self.done += outcome.whole
        self.failed += outcome.status == "failed"

    def note(self, text: str) -> None:
        """Show a message, e.g. that a run is resumed; warnings and the message about compilation are shown once."""
        if text not in self._noted:
            self._say(text)
        if text == COMPILING or text.startswith("warning: "):
            self._noted.add(text)

    def _say(self, text: str) -> None: ...

    def close(self) -> None:
        """End the display."""

    def words(self) -> str:
        """Return the progress of all runs as text: complete, running, failed, time left."""
        parts = [f"{self.done}/{self.runs} runs", f"{len(self.under_way)} running"]
        parts += [f"{self.failed} failed"] if self.failed else []
        return "  ".join([*parts, self.left()]).rstrip()

    def left(self) -> str:
        """Return the time left as text, estimated from complete runs and the cycles of running ones."""
        over = self.done + self.failed
        share = sum(cycle / task.point.scenario.cycles for task, cycle in self.under_way.values())
        new = over - self.there + share - sum(self._earlier.values())
        passed = time.monotonic() - self._begun
        enough = 1 if self.runs > 1 else LITTLE  # the first of several runs may compile kernels
        if new < (enough if passed < EARLY else 1e-3) or over == self.runs:
            return ""
        seconds = passed * max(self.runs - over - share, 0) / new
        return f"{timedelta(seconds=round(seconds))} left"


class Silent(Progress):
    """Shows nothing."""


def last_error(simulation: Simulation) -> str:
    """Return the last measured error of the first learning layer as text."""
    for metrics in simulation.latest.values():
        if "error.mean" in metrics:
            return f"error {metrics['error.mean']:.4f}"
    return ""


class Clock:
    """The speed of a run; its first cycle, in which kernels are compiled, does not count."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self._first: tuple[int, float] | None = None

    def tick(self, cycle: int) -> None:
        """Note that a cycle is complete."""
        self._first = self._first or (cycle, time.monotonic())

    def rate(self, cycle: int) -> float | None:
        """Return the cycles per second, or None until two cycles are complete."""
        if self._first is None or cycle <= self._first[0]:
            return None
        return (cycle - self._first[0]) / max(time.monotonic() - self._first[1], 1e-9)

    def words(self, cycle: int, cycles: int) -> tuple[str, str]:
        """Return rate and time left as text; the time left is empty as long as too little of the run is complete."""
        rate = self.rate(cycle)
        if rate is None or self._first is None:
            return "", ""
        share, passed = (cycle - self._first[0]) / cycles, time.monotonic() - self._first[1]
        known = share >= (LITTLE if passed < EARLY else 0)
        left = f"{timedelta(seconds=round((cycles - cycle) / rate))} left" if known else ""
        return f"{rate:.0f} cycles/s" if rate >= 10 else f"{rate:.2g} cycles/s", left


class Lines(Progress):
    """Prints a line every few seconds: about the only run, or about all runs together."""

    def plan(self, runs: int, there: int) -> None:
        """Start the clock."""
        super().plan(runs, there)
        self._clock = Clock()
        self._told = self._clock.begun

    def cycle(self, task: Task, cycle: int, error: str) -> None:
        """Print a line when the last one is old enough."""
        super().cycle(task, cycle, error)
        self._clock.tick(cycle)
        if self._due():
            self._show(task, self._line(task, cycle, error, *self._clock.words(cycle, task.point.scenario.cycles)))

    def end(self, task: Task, outcome: Outcome) -> None:
        """Print the last line."""
        cycles = task.point.scenario.cycles
        super().end(task, outcome)
        if self.runs == 1 and outcome.cycle:
            rate, _ = self._clock.words(outcome.cycle, cycles)
            duration = f"{time.monotonic() - self._clock.begun:.1f} s"
            self._show(task, self._line(task, outcome.cycle, outcome.measured, rate, duration))
        elif self.runs > 1 and (self.done + self.failed == self.runs or self._due()):
            self._show(task, self.words())

    def _due(self) -> bool:
        return time.monotonic() - self._told >= SECONDS_BETWEEN_LINES

    def _show(self, task: Task, line: str) -> None:
        self._told = time.monotonic()
        self.note(line)

    def _line(self, task: Task, cycle: int, error: str, rate: str, left: str) -> str:
        if self.runs > 1:
            return self.words()
        words = [f"run {task.run}/1", f"cycle {cycle}/{task.point.scenario.cycles}", rate, left, error]
        return "  ".join(word for word in words if word)

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Notebook(Lines):
    """Shows a bar and a line in the output of a notebook cell, and updates them; needs no widgets."""

    _handle: Any = None

    def _due(self) -> bool:
        return time.monotonic() - self._told >= SECONDS_BETWEEN_UPDATES

    def _show(self, task: Task, line: str) -> None:
        from IPython.display import display

        self._told = time.monotonic()
        cycle, cycles = self.under_way.get(task.hash, (task, task.point.scenario.cycles))[1], task.point.scenario.cycles
        value, most = (cycle, cycles) if self.runs == 1 else (self.done + self.failed, self.runs)
        shown = f'<progress value="{value}" max="{most}"></progress> {html.escape(line)}'
        content = {"text/plain": line, "text/html": shown}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def _say(self, text: str) -> None:
        print(text, flush=True)


class Bar(Progress):
    """Draws a live bar: of the cycles of the only run, or of all runs with one line per running run."""

    def plan(self, runs: int, there: int) -> None:
        """Show an empty bar."""
        from rich import progress
        from rich.console import Console

        super().plan(runs, there)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("{task.fields[words]}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
            expand=True,
        )
        self._clock = Clock()
        self._shown = 0.0
        self._rows: dict[str, Any] = {}
        self._all = self._bar.add_task("all", total=runs, completed=there, words="starting …", visible=runs > 1)
        self._bar.start()

    def begin(self, task: Task) -> None:
        """Add a line for the run."""
        super().begin(task)
        name = f"run {task.run}/{task.point.scenario.runs}"
        label = f"{name} {', '.join(map(str, task.point.values.values()))}"[:40].strip()
        self._rows[task.hash] = self._bar.add_task(label, total=task.point.scenario.cycles, words="starting …")
        self._draw(now=True)

    def cycle(self, task: Task, cycle: int, error: str) -> None:
        """Redraw a few times per second."""
        super().cycle(task, cycle, error)
        self._clock.tick(cycle)
        rate, left = self._clock.words(cycle, task.point.scenario.cycles) if self.runs == 1 else ("", "")
        self._row(task, cycle, rate, left, error)
        self._draw()

    def end(self, task: Task, outcome: Outcome) -> None:
        """Remove the line of the run, unless it is the only one."""
        super().end(task, outcome)
        if self.runs == 1:
            rate, _ = self._clock.words(outcome.cycle, task.point.scenario.cycles)
            duration = f"{time.monotonic() - self._clock.begun:.1f} s"
            self._row(task, outcome.cycle, rate, duration, outcome.measured)
        elif task.hash in self._rows:
            self._bar.remove_task(self._rows.pop(task.hash))
        self._draw(now=self.runs == 1)

    def _say(self, text: str) -> None:
        """Print a message above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the last state on the screen."""
        for row in self._rows.values():
            if self.runs > 1:
                self._bar.remove_task(row)
        self._rows = {} if self.runs > 1 else self._rows
        self._draw(now=True)
        self._bar.stop()

    def _row(self, task: Task, cycle: int, *words: str) -> None:
        text = "  ".join(word for word in (f"cycle {cycle}/{task.point.scenario.cycles}", *words) if word)
        self._bar.update(self._rows[task.hash], completed=cycle, words=text)

    def _draw(self, now: bool = False) -> None:
        if now or time.monotonic() - self._shown >= 1 / REFRESHES_A_SECOND:
            self._shown = time.monotonic()
            self._bar.update(self._all, completed=self.done + self.failed, words=self.words())
            self._bar.refresh()


def for_this_output() -> Progress:
    """Return a bar in a terminal, otherwise lines."""
    return Bar() if _in_terminal() else Lines()


def for_python() -> Progress:
    """Return a display for calls from Python: in a notebook or a terminal; nothing elsewhere."""
    if _in_notebook():
        return Notebook()
    return Bar() if _in_terminal() else Silent()


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook. IPython is not imported if nobody else did so."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


def _in_terminal() -> bool:
    if not sys.stderr.isatty():
        return False
    from rich.console import Console

    return not Console(stderr=True).is_dumb_terminal


@contextmanager
def downloading() -> Iterator[Downloaded]:
    """Show downloads: one bar per file in a terminal, otherwise one line per file."""
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


def _a_line_each() -> Downloaded:
    seen: set[str] = set()

    def told(file: str, so_far: int, in_all: int | None) -> None:
        if file not in seen:
            seen.add(file)
            size = f" ({in_all / 1e6:.1f} MB)" if in_all else ""
            print(f"downloading {file}{size}", file=sys.stderr, flush=True)

    return told
