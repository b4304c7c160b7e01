"""Runs on a Dask cluster: the same runs, sent to a scheduler that distributes them to its workers.

A worker returns the files of its run as bytes, so no common file system is necessary. If the workers can see the
results folder, they also store their checkpoints there, and a run that was lost with its worker resumes from the last
checkpoint.
"""

from __future__ import annotations

import logging
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.core.paths import private
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.sensitive import TRACE
from golfsim.runs.single import Outcome, Reporting, Task, attempt
from golfsim.runs.workers import next_of
from golfsim.sim.log import ABOUT, LOG, SCENARIO
from golfsim.sim.tables import FILES

if TYPE_CHECKING:
    from golfsim.runs.progress import Progress

Files = dict[str, bytes]
SECONDS_TO_CONNECT = 30
KEPT = (SCENARIO, LOG, *FILES.values(), TRACE, ABOUT)  # written in this order: the last file makes a run complete


def execute(
    tasks: list[Task], address: str, shares: tuple[int, int], shown: Progress, interrupt: Interrupt
) -> Iterator[tuple[Task, Outcome]]:
    """Submit the runs and write the files that the workers return; `local` starts a cluster on this machine."""
    with _client(address, shares) as client, _visible(tasks) as mark:
        ended: SimpleQueue[Any] = SimpleQueue()
        waiting = {_submit(client, task, mark, ended): task for task in tasks}
        begun = _begin({}, waiting, client, shown)
        while waiting and not interrupt.asked:
            if (future := next_of(ended)) is not None:
                task = waiting.pop(future)
                yield task, _outcome(task, future)
                future.release()  # otherwise the cluster would store its files, and repeat the run if they are lost
                begun.pop(task.hash, None)
                _begin(begun, waiting, client, shown)
        client.cancel(list(waiting))


def _submit(client: Any, task: Task, mark: str, ended: SimpleQueue[Any]) -> Any:
    future = client.submit(remote, task, mark, key=f"golfsim-{task.hash}", pure=False)
    future.add_done_callback(ended.put)
    return future


def _begin(begun: dict[str, Task], waiting: dict[Any, Task], client: Any, shown: Progress) -> dict[str, Task]:
    """Show as many runs as running as the cluster has threads; it starts them in this order."""
    room = sum(client.nthreads().values()) - len(begun)
    following = (task for task in waiting.values() if task.hash not in begun)
    for task in islice(following, max(room, 0)):
        begun[task.hash] = task
        shown.begin(task)
    return begun


@contextmanager
def _client(address: str, shares: tuple[int, int]) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UserError("a cluster needs Dask", hint='pip install "golfsim[cluster]"', docs="cluster") from None
    try:
        if address == "local":
            with _deaf():
                cluster: Any = LocalCluster(
                    n_workers=shares[0], threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR,
                    local_directory=str(private("dask")),  # where workers store pickles that they load later
                )  # fmt: skip
        else:
            cluster = address
        client = Client(cluster, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        hint = "give the address that dask-scheduler prints, e.g. --scheduler tcp://node1:8786"
        raise UserError(f"no Dask scheduler answers at {address}: {error}", hint=hint, docs="cluster") from None
    try:
        yield client
    finally:
        client.close()
        if address == "local":
            cluster.close()


@contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that are started here ignore Ctrl-C, which is meant for this process only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _visible(tasks: list[Task]) -> Iterator[str]:
    """Create a file in the results folder by which a worker recognises whether it sees the same folder."""
    folder = _common(tasks)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".visible-") as mark:
        yield mark.name


def _common(tasks: list[Task]) -> Path | None:
    """Return the results folder: the nearest existing folder above all runs."""
    found = next((folder for folder in tasks[0].folder.parents if folder.is_dir()), None) if tasks else None
    return found


def _outcome(task: Task, future: Any) -> Outcome:
    """Return how a run ended, after its files were written here."""
    if future.status != "finished":
        return Outcome("failed", error=f"the cluster gave up the run: {future.exception()}")
    outcome, files = future.result()
    task.folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if name in files:
            content = files[name]
            write_whole(task.folder / name, lambda path, content=content: path.write_bytes(content))  # type: ignore[misc]
    assert isinstance(outcome, Outcome)
    return outcome


# In the worker


def remote(task: Task, mark: str) -> tuple[Outcome, Files]:
    """Execute a run on a worker. Return its outcome and the files that it has written."""
    _one_blas_thread()
    with tempfile.TemporaryDirectory() as aside:
        here = task if Path(mark).exists() else replace(task, folder=Path(aside))
        outcome = attempt(here, Reporting(), Interrupt())
        return outcome, {name: (here.folder / name).read_bytes() for name in KEPT if (here.folder / name).exists()}


@cache
def _one_blas_thread() -> None:
    """Set one thread for BLAS permanently: runs in other threads of this worker must not see another number."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")
