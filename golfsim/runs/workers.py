"""Local worker processes: each executes one run after the other and reports to this process.

Workers are new interpreters, never forks (a forked child inherits broken thread pools). They communicate through their
standard input and output, in lines of JSON; nothing that is read from a pipe is ever executed. A worker whose main
process has ended ends at once. If a worker dies, only the cycles since the last checkpoint are lost, and another worker
resumes its run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.single import Outcome, Reporting, Task, attempt

if TYPE_CHECKING:
    from golfsim.data.loading import Key
    from golfsim.runs.progress import Progress

TRIES = 3  # a run fails when its worker has died this many times
SECONDS_BETWEEN_REPORTS = 0.2
ONE_EACH = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Worker:
    """A worker process, as seen from the main process."""

    def __init__(self, shared: dict[Key, Path], events: SimpleQueue[tuple[Worker, str, Any]]) -> None:
        self.task: Task | None = None
        self._process = subprocess.Popen(
            python("golfsim.runs.workers", "serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict.fromkeys(ONE_EACH, "1"),
            start_new_session=True,  # Ctrl-C is for the main process, which stops its workers
        )
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()
        self.say("shared", [(key, str(place)) for key, place in shared.items()])

    def _listen(self, events: SimpleQueue[tuple[Worker, str, Any]]) -> None:
        for kind, what in _messages(self._process.stdout):
            events.put((self, kind, what))
        events.put((self, "died", self._process.wait()))

    def say(self, kind: str, what: Any = None) -> None:
        """Send a message; that a worker has ended is noticed elsewhere."""
        try:
            assert self._process.stdin is not None
            _say(self._process.stdin, kind, what)
        except OSError:
            pass

    def give(self, task: Task) -> None:
        """Let it execute a run."""
        self.task = task
        self.say("task", task.packed())

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()


def execute(
    tasks: list[Task], workers: int, shared: dict[Key, Path], shown: Progress, interrupt: Interrupt
) -> Iterator[tuple[Task, Outcome]]:
    """Execute the runs on a number of worker processes."""
    pool = _Pool(tasks, workers, shared, shown)
    try:
        yield from pool.results(interrupt)
    finally:
        pool.close()


class _Pool:
    def __init__(self, tasks: list[Task], workers: int, shared: dict[Key, Path], shown: Progress) -> None:
        self._waiting = deque(tasks)
        self._deaths: Counter[str] = Counter()
        self._kinds: set[str] = set()  # kinds of runs whose kernels are known to be compiled
        self._compiling: Task | None = None
        self._shared, self._shown = shared, shown
        self._events: SimpleQueue[tuple[Worker, str, Any]] = SimpleQueue()
        self._pool = [Worker(shared, self._events) for _ in range(workers)]

    def results(self, interrupt: Interrupt) -> Iterator[tuple[Task, Outcome]]:
        stopping = False
        self._hand_out()
        while any(worker.task for worker in self._pool):
            event = next_of(self._events)
            if interrupt.asked and not stopping:
                stopping = True
                self._waiting.clear()
                for worker in self._pool:
                    worker.say("stop")
            if event is not None:
                worker, kind, what = event
                yield from self._take(worker, kind, what, stopping)
                if not stopping:
                    self._hand_out()

    def _take(self, worker: Worker, kind: str, what: Any, stopping: bool) -> Iterator[tuple[Task, Outcome]]:
        task = worker.task
        if task is None or kind == "note":
            self._shown.note(what) if kind == "note" else self._replace(worker)
        elif kind == "cycle":
            self._compiled(task)
            self._shown.cycle(task, *what)
        elif kind == "done":
            worker.task = None
            self._compiled(task)
            yield task, Outcome(**what)
        else:
            worker.task = None
            self._compiled(task)
            self._replace(worker)
            self._deaths[task.hash] += 1
            if stopping:
                yield task, Outcome("interrupted")
            elif self._deaths[task.hash] < TRIES:
                self._shown.note(f"the worker of run {task.run} died (status {what}); another worker resumes the run")
                self._waiting.appendleft(task)
            else:
                error = f"its worker process died {TRIES} times (status {what}); there may not be enough memory"
                yield task, Outcome("failed", error=error)

    def _replace(self, worker: Worker) -> None:
        worker.end()
        self._pool[self._pool.index(worker)] = Worker(self._shared, self._events)

    def _compiled(self, task: Task) -> None:
        """Note that the kernels of a run of a new kind are compiled, so that other runs may use them."""
        if self._compiling is task:
            self._kinds.add(task.point.kind)
            self._compiling = None

    def _hand_out(self) -> None:
        """Give runs to idle workers; only one run at a time starts whose kernels may have to be compiled."""
        for worker in self._pool:
            task = None if worker.task else self._next_task()
            if task is not None:
                self._shown.begin(task)
                worker.give(task)

    def _next_task(self) -> Task | None:
        for place, task in enumerate(self._waiting):
            new = task.point.kind not in self._kinds
            if not (new and self._compiling):
                del self._waiting[place]
                self._compiling = task if new else self._compiling
                return task
        return None

    def close(self) -> None:
        for worker in self._pool:
            worker.end()


def next_of(events: SimpleQueue[Any]) -> Any:
    """Return the next event, or None after a short time, so that Ctrl-C is noticed."""
    from queue import Empty

    try:
        return events.get(timeout=0.1)
    except Empty:
        return None


# In both processes


def python(module: str, function: str) -> list[str]:
    """Return the command of a new interpreter that finds modules exactly where this one does."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import {function}; {function}()"
    return [sys.executable, "-P", "-c", code]


def _say(stream: IO[bytes], kind: str, what: Any) -> None:
    stream.write(json.dumps((kind, what)).encode() + b"\n")
    stream.flush()


def _messages(stream: IO[bytes] | None) -> Iterator[tuple[str, Any]]:
    """Yield the messages of the other process until it ends."""
    assert stream is not None
    with suppress(OSError, ValueError):
        for line in stream:
            kind, what = json.loads(line)
            yield kind, what


# In the worker


def serve() -> None:
    """Execute the runs that the main process sends, until it ends."""
    master = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the output of a protocol is not for the main process
    tasks: SimpleQueue[dict[str, Any]] = SimpleQueue()
    interrupt = Interrupt()
    warnings.showwarning = _warn  # type: ignore[assignment]
    threading.Thread(target=_obey, args=(tasks, interrupt), daemon=True).start()
    while True:
        _say(master, "done", vars(_made(tasks.get(), _telling(master), interrupt)))


def _warn(message: Any, *place: Any) -> None:
    """Print a warning in one line, without the place in the code."""
    print(f"warning: {message}", file=sys.stderr, flush=True)


def _made(packed: dict[str, Any], told: Reporting, interrupt: Interrupt) -> Outcome:
    try:
        task = Task.unpacked(packed)
    except UserError as error:  # a file that the scenario names has changed
        return Outcome("failed", error=str(error))
    return attempt(task, told, interrupt)


def _obey(tasks: SimpleQueue[dict[str, Any]], interrupt: Interrupt) -> None:
    from golfsim.data import loading

    try:
        for kind, what in _messages(sys.stdin.buffer):
            if kind == "task":
                tasks.put(what)
            elif kind == "stop":
                interrupt.asked = True
            elif kind == "shared":
                loading.shared.update({tuple(key): Path(place) for key, place in what})
    finally:
        os._exit(1)


def _telling(master: IO[bytes]) -> Reporting:
    told = [0.0, 0]  # when, and how often

    def cycle(number: int, error: str) -> None:
        if told[1] < 2 or time.monotonic() - told[0] >= SECONDS_BETWEEN_REPORTS:
            told[:] = [time.monotonic(), told[1] + 1]
            _say(master, "cycle", (number, error))

    return Reporting(cycle, lambda text: _say(master, "note", text))
