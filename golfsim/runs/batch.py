"""Execute all runs of a scenario: in this process, in local worker processes, or on a Dask cluster."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from golfsim.core.errors import UserError
from golfsim.core.words import counted
from golfsim.data import loading
from golfsim.runs import memory_forecast, single
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.logs import frame_of
from golfsim.runs.progress import Progress, Silent
from golfsim.runs.single import SECONDS_BETWEEN_CHECKPOINTS, Outcome, Reporting, Task
from golfsim.runs.store import Entry, Planned, Store, plan
from golfsim.scenario import sweep
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint

if TYPE_CHECKING:
    import pandas as pd

NAMED = 5  # failures that are listed at the end


@dataclass(frozen=True)
class Execution:
    """Where and how the runs of a scenario are executed. None of this changes a result."""

    workers: int | None = 1  # processes; None: one per core
    threads: int | None = None  # per worker; None: as many as keep all cores busy
    scheduler: str | None = None  # the address of a Dask scheduler, or "local" for a cluster on this machine
    force: bool = False  # repeat runs that are complete
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS
    paranoid: bool = False  # check invariants after each cycle

    def shares(self, tasks: int) -> tuple[int, int]:
        """Return the number of workers and of threads per worker that use all cores without oversubscription."""
        workers = max(1, min(self.workers or cores(), tasks))
        return workers, self.threads or max(1, cores() // workers)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Made:
    """The outcome of all runs of a scenario."""

    store: Store
    runs: list[Planned]
    outcomes: dict[str, tuple[Task, Outcome]]  # by hash; without the runs that were complete before

    @property
    def failures(self) -> list[tuple[Task, Outcome]]:
        """The runs that failed."""
        return [(task, outcome) for task, outcome in self.outcomes.values() if outcome.status == "failed"]

    def frame(self) -> pd.DataFrame | None:
        """Return the rows of all complete runs, or None if there are none."""
        known = self.store.entries()
        found = [piece for r in self.runs if (piece := self.store.piece(known.get(r.hash), r.values)) is not None]
        return frame_of(found) if found else None

    def complaint(self) -> str:
        """Return the failures as text: the most frequent first, each with one run in which it occurred."""
        counts = Counter(outcome.error for _, outcome in self.failures)
        lines = [f"{len(self.failures)} of {len(self.runs)} runs failed:"] if len(self.runs) > 1 else []
        for error, count in counts.most_common(NAMED):
            task = next(task for task, outcome in self.failures if outcome.error == error)
            where = ", ".join(f"{key} = {value}" for key, value in task.point.values.items())
            times = f" ({count} times)" if count > 1 else ""
            lines.append(f"{where + ', ' if where else ''}run {task.run}{times}: {error}" if lines else error)
        more = len(counts) - NAMED
        return "\n".join([*lines, f"and {counted(more, 'more kind')} of failure"] if more > 0 else lines)


def run(
    scenario: Scenario, out: Path, how: Execution, shown: Progress | None = None, interrupt: Interrupt | None = None
) -> Made:
    """Execute all runs of a scenario that are not complete yet."""
    with single.telling(scenario):
        runs = plan(sweep.points(scenario))
    single.prepare(out)
    store, shown = Store(out), shown or Silent()
    try:
        there = store.ask_for(Path(scenario.file).name, runs)
        tasks = to_do(runs, {} if how.force else there, out, how)
        for entry in () if how.force else there.values():
            checkpoint.forget(out / entry.folder)  # of a repetition that was interrupted
        shown.plan(len(runs), len(runs) - len(tasks))
        for path in sorted({path for task in tasks for path in task.point.scenario.code_files()}):
            for note in single.code_notes(path):
                shown.note(note)
        with single.telling(scenario):
            how = _within_memory(tasks, how, shown)
        made = Made(store, runs, {})
        with recording(store) as record:
            for task, outcome in execute(tasks, how, shown, interrupt or Interrupt(), only=len(runs) == 1):
                made.outcomes[task.hash] = (task, outcome)
                record(_entry(task, outcome, out))
                shown.end(task, outcome)
    except OSError as error:
        if single.in_users_code(error):
            raise
        raise single.cannot_write(out, error) from None
    finally:
        shown.close()
    return made


def _within_memory(tasks: list[Task], how: Execution, shown: Progress) -> Execution:
    """Reduce the number of workers to what fits into memory.

    It is an error if not even one run fits, or if the user asked for more workers than fit.
    """
    if not tasks or how.scheduler not in (None, "local"):
        return how
    workers, asked = memory_forecast.fitting(tasks, how), how.shares(len(tasks))[0]
    if workers < asked and how.workers is not None:
        raise UserError(
            f"{asked} workers do not fit into memory; at most {workers} can run",
            key="nodes",
            hint=f"--workers {workers}",
        )
    if workers < asked:
        shown.note(f"using {workers} of {asked} workers, since more do not fit into memory")
    return replace(how, workers=workers)


@contextmanager
def recording(store: Store) -> Iterator[Callable[[Entry], None]]:
    """Record the outcomes of runs within one second; a transaction per run would take as long as a small run."""
    new: list[Entry] = []
    busy, over = threading.Lock(), threading.Event()

    def flush() -> None:
        with busy:
            entries = list(new)
            store.record(entries)
            del new[: len(entries)]

    def write_now_and_then() -> None:
        while not over.wait(1):
            with suppress(OSError):  # the last call below reports it
                flush()

    writer = threading.Thread(target=write_now_and_then, daemon=True)
    writer.start()
    try:
        yield new.append
    finally:
        over.set()
        writer.join()
        flush()


def to_do(runs: list[Planned], there: dict[str, Entry], out: Path, how: Execution) -> list[Task]:
    """Return the runs that are not complete; runs with the same content only once."""
    missing = {planned.hash: planned for planned in reversed(runs) if planned.hash not in there}
    missing = {hash_: missing[hash_] for hash_ in dict.fromkeys(r.hash for r in runs) if hash_ in missing}
    _, threads = how.shares(len(missing)) if how.scheduler in (None, "local") else (0, how.threads or 1)
    return [
        Task(r.point, r.run, r.hash, out.absolute() / r.folder, threads, how.checkpoint_every, how.paranoid)
        for r in missing.values()
    ]


def _entry(task: Task, outcome: Outcome, out: Path) -> Entry:
    folder = str(task.folder.relative_to(out.absolute()))
    return Entry(task.hash, folder, outcome.status, outcome.error, outcome.cycle, outcome.seconds)


def execute(
    tasks: list[Task], how: Execution, shown: Progress, interrupt: Interrupt, only: bool = False
) -> Iterator[tuple[Task, Outcome]]:
    """Execute the runs and yield each with its outcome when it ends. After an interruption, no further run starts.

    Parameters
    ----------
    tasks : list of Task
        The runs to execute.
    how : Execution
        Workers, threads and scheduler.
    shown : Progress
        Receives the start and the cycles of each run.
    interrupt : Interrupt
        Set by Ctrl-C.
    only : bool
        Whether this is the only run of the scenario; its exception is then raised with its traceback.
    """
    if not tasks:
        return
    if how.scheduler is not None:
        from golfsim.runs import cluster

        yield from cluster.execute(tasks, how.scheduler, how.shares(len(tasks)), shown, interrupt)
    elif (workers := how.shares(len(tasks))[0]) > 1:
        from golfsim.runs import workers as local

        folder = tasks[0].point.scenario.folder
        configs = {str(t.point.scenario.data): t.point.scenario.data for t in tasks if t.point.scenario.data}
        yield from local.execute(tasks, workers, loading.share(configs.values(), folder), shown, interrupt)
    else:
        yield from here(tasks, shown, interrupt, only)


def here(tasks: list[Task], shown: Progress, interrupt: Interrupt, only: bool) -> Iterator[tuple[Task, Outcome]]:
    """Execute one run after the other in this process; the exception of an only run is raised, for its traceback."""
    for task in tasks:
        if interrupt.asked:
            return
        shown.begin(task)
        told = Reporting(lambda cycle, error, task=task: shown.cycle(task, cycle, error), shown.note)  # type: ignore[misc]
        try:
            outcome = (single.perform if only else single.attempt)(task, told, interrupt)
        except Exception as error:
            yield task, Outcome("failed", error=single.explained(error))
            raise
        yield task, outcome
