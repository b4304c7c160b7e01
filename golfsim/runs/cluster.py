"""Runs on a Dask cluster: the same runs, sent to a scheduler that distributes them to its workers.

A worker returns the files of its run as bytes, so no common file system is necessary. If the workers can see the
results folder, they also store their checkpoints there, and a run that was lost with its worker resumes from the last
checkpoint. Only workers with the same sources, libraries and files as this process execute runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.core.provenance import about_this_machine, code_version
from golfsim.runs import connection
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.sensitive import TRACE
from golfsim.runs.single import Outcome, Reporting, Task, attempt, check_content
from golfsim.runs.workers import next_of
from golfsim.sim.log import ABOUT, LOG, SCENARIO
from golfsim.sim.tables import FILES

if TYPE_CHECKING:
    from golfsim.runs.progress import Progress

Files = dict[str, bytes]
Identity = dict[str, str]
KEPT = (SCENARIO, LOG, *FILES.values(), TRACE, ABOUT)  # written in this order: the last file makes a run complete
SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class Refusal:
    """The answer of a worker that must not execute a run: its address and the reason."""

    worker: str
    reason: str


@dataclass(frozen=True)
class Submission:
    """A run for the cluster: the workers that may execute it (None: all), and those that have refused it."""

    task: Task
    number: int = 1
    allowed: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()


def execute(
    tasks: list[Task], address: str, shares: tuple[int, int], shown: Progress, interrupt: Interrupt
) -> Iterator[tuple[Task, Outcome]]:
    """Submit the runs and write the files that the workers return; `local` starts a cluster on this machine."""
    with connection.client(address, shares[0]) as client, _visible(tasks) as mark:
        yield from _Sweep(_Workers(client, address, shown), mark).results(tasks, interrupt)


class _Workers:
    """The workers of a cluster, as seen by its scheduler, and which of them are unlike this process."""

    def __init__(self, client: Any, address: str, shown: Progress) -> None:
        self.client, self.shown = client, shown
        self._address = address
        self._threads: dict[str, int] = {}  # by worker
        self._like: dict[str, bool] = {}  # by worker: whether it has the same sources and libraries
        self._noted: set[str] = set()

    def ask(self, question: Callable[[], Any]) -> Any:
        """Return what a call of Dask returns; raise one clear error if the scheduler was lost."""
        why: object = ""
        try:
            if self.client.status == "running":
                return question()
        except Exception as error:  # Dask raises errors of many kinds after a connection was lost
            why = error
        reason = f" ({type(why).__name__}: {str(why).partition(chr(10))[0]})" if why else ""
        raise UserError(
            f"the connection to the Dask scheduler at {self._address} was lost{reason}; complete runs are stored",
            hint="start the scheduler again and repeat the command: complete runs are not repeated",
            docs="cluster",
        )

    def look(self) -> None:
        """Ask the scheduler for its workers, and each new worker for its sources and libraries."""
        self._threads = self.ask(self.client.nthreads)
        new = [worker for worker in self._threads if worker not in self._like]
        answers = self.ask(lambda: self.client.run(identity, workers=new, on_error="return")) if new else {}
        for worker, answer in answers.items():
            if not isinstance(answer, OSError):  # otherwise the worker has ended in the meantime
                reason = difference(answer, identity())
                self._like[worker] = not reason
                self.note(worker, reason)

    def note(self, worker: str, reason: str) -> None:
        """Warn once that a worker executes no runs, or not all of them."""
        if reason and worker not in self._noted:
            self._noted.add(worker)
            self.shown.note(f"warning: runs are left to other workers than {worker}: {reason}")

    @property
    def right(self) -> frozenset[str]:
        """The workers that may execute runs."""
        return frozenset(worker for worker in self._threads if self._like.get(worker))

    @property
    def all_right(self) -> bool:
        """Whether every worker may execute runs."""
        return all(self._like.get(worker) for worker in self._threads)

    @property
    def room(self) -> int:
        """The number of runs that the cluster can execute at the same time."""
        return sum(self._threads[worker] for worker in self.right)

    def check(self) -> None:
        """Refuse a cluster on which no run can be executed; one without workers may still receive some."""
        if not self._threads:
            self.shown.note(f"the Dask scheduler at {self._address} has no workers yet; the runs wait for them")
        elif not self.right:
            raise UserError(
                f"no worker of the Dask scheduler at {self._address} can execute these runs",
                hint="install the same golfsim, numpy, numba and scipy on the workers as here",
                docs="cluster",
            )


class _Sweep:
    """The runs that a cluster executes."""

    def __init__(self, workers: _Workers, mark: str) -> None:
        self._workers, self._mark = workers, mark
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self._waiting: dict[Any, Submission] = {}  # by Dask's future
        self._held: list[Submission] = []  # until there is a worker that may execute them
        self._begun: set[str] = set()  # hashes of the runs that are shown as running

    def results(self, tasks: list[Task], interrupt: Interrupt) -> Iterator[tuple[Task, Outcome]]:
        """Yield each run with its outcome when it ends."""
        self._workers.look()
        self._workers.check()
        looked = time.monotonic()
        for task in tasks:
            self._submit(Submission(task))
        while (self._waiting or self._held) and not interrupt.asked:
            self._show_begun()
            if (future := next_of(self._ended)) in self._waiting:
                submission = self._waiting.pop(future)
                outcome = self._outcome(submission, future)
                future.release()  # otherwise the cluster would store its files, and repeat the run if they are lost
                if outcome is not None:
                    self._begun.discard(submission.task.hash)
                    yield submission.task, outcome
            if time.monotonic() - looked > SECONDS_BETWEEN_LOOKS:
                self._workers.look()
                self._submit_again()
                looked = time.monotonic()
        self._cancel(list(self._waiting))

    def _submit(self, submission: Submission) -> None:
        """Submit a run to all workers, or to those that may execute it if there are other workers."""
        allowed = None
        if submission.refused or not self._workers.all_right:
            allowed = self._workers.right - submission.refused
        if allowed == frozenset():
            self._held.append(submission)
            return
        client, key = self._workers.client, f"golfsim-{submission.task.hash}-{submission.number}"
        names = None if allowed is None else sorted(allowed)
        arguments = (submission.task, self._mark, identity())
        future = self._workers.ask(lambda: client.submit(remote, *arguments, key=key, pure=False, workers=names))
        self._waiting[future] = replace(submission, number=submission.number + 1, allowed=allowed)
        future.add_done_callback(self._ended.put)

    def _submit_again(self) -> None:
        """Submit the runs that no worker could execute, and those whose workers have all ended."""
        right = self._workers.right
        stranded = [future for future, s in self._waiting.items() if s.allowed is not None and not s.allowed & right]
        again = self._held + [self._waiting.pop(future) for future in stranded]
        self._cancel(stranded)
        self._held = []
        for submission in again:
            self._submit(submission)

    def _cancel(self, futures: list[Any]) -> None:
        if futures:
            self._workers.ask(lambda: self._workers.client.cancel(futures))

    def _show_begun(self) -> None:
        """Show as many runs as running as the cluster has threads; it starts them in this order."""
        following = (s.task for s in self._waiting.values() if s.task.hash not in self._begun)
        for task in islice(following, max(self._workers.room - len(self._begun), 0)):
            self._begun.add(task.hash)
            self._workers.shown.begin(task)

    def _outcome(self, submission: Submission, future: Any) -> Outcome | None:
        """Return how a run ended, after its files were written here; None if it is left to other workers."""
        if future.status != "finished":
            return self._given_up(submission, self._workers.ask(future.exception))
        answer = self._workers.ask(future.result)
        return self._refused(submission, answer) if isinstance(answer, Refusal) else _written(submission.task, *answer)

    def _given_up(self, submission: Submission, error: object) -> Outcome | None:
        """Submit a run again if a worker that is unlike this process may have had it; otherwise it has failed."""
        self._workers.look()
        if submission.allowed is None and not self._workers.all_right:
            self._submit(submission)
            return None
        return Outcome("failed", error=f"the cluster gave up the run: {error}")

    def _refused(self, submission: Submission, answer: Refusal) -> Outcome | None:
        """Submit a run again that a worker has refused; it has failed if all have refused it."""
        self._workers.note(answer.worker, answer.reason)
        refused = submission.refused | {answer.worker}
        if self._workers.right and not self._workers.right - refused:
            return Outcome("failed", error=answer.reason)
        self._submit(replace(submission, refused=refused))
        return None


def _written(task: Task, outcome: Outcome, files: Files) -> Outcome:
    """Write the files of a run that a worker has returned."""
    task.folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if name in files:
            content = files[name]
            write_whole(task.folder / name, lambda path, content=content: path.write_bytes(content))  # type: ignore[misc]
    return outcome


@contextmanager
def _visible(tasks: list[Task]) -> Iterator[str]:
    """Create a file in the results folder by which a worker recognises whether it sees the same folder."""
    folder = next((folder for folder in tasks[0].folder.parents if folder.is_dir()), None) if tasks else None
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".visible-") as mark:
        yield mark.name


# In both processes


def identity() -> Identity:
    """Return the versions that the rows of a run depend on: of golfsim and its sources, of libraries, of the target."""
    about = about_this_machine()
    libraries = {name: about["versions"][name] for name in ("numpy", "numba", "scipy")}
    return {"golfsim": code_version(), **libraries, "code compiled for": about["compiled_for"]}


def difference(theirs: Identity | Exception, ours: Identity) -> str:
    """Return how the identity of a worker, or the error it gave instead, differs from ours; empty if it does not."""
    if isinstance(theirs, Exception):
        return f"it has no golfsim like this one ({type(theirs).__name__}: {str(theirs).partition(chr(10))[0]})"
    found = [f"{name} {theirs.get(name)} instead of {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
    return f"it has {', '.join(found)}" if found else ""


# In the worker


def remote(task: Task, mark: str, like: Identity) -> tuple[Outcome, Files] | Refusal:
    """Execute a run on a worker. Return its outcome and the files that it has written, or that it is refused."""
    reason = difference(identity(), like) or _other_content(task)
    if reason:
        from distributed import get_worker

        return Refusal(get_worker().address, reason)
    _one_blas_thread()
    with tempfile.TemporaryDirectory() as aside:
        here = task if Path(mark).exists() else replace(task, folder=Path(aside))
        outcome = attempt(here, Reporting(), Interrupt())
        return outcome, {name: (here.folder / name).read_bytes() for name in KEPT if (here.folder / name).exists()}


def _other_content(task: Task) -> str:
    """Return why this worker would execute another run than the one that was planned."""
    try:
        check_content(task)
    except UserError as error:
        return str(error)
    return ""


@cache
def _one_blas_thread() -> None:
    """Set one thread for BLAS permanently: runs in other threads of this worker must not see another number."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")
