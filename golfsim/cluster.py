"""Runs on a Dask cluster: the same runs, sent to a scheduler that hands them to its workers.

A worker sends the files of its run back as bytes, so results need no common file system. Where the results folder can
be seen from the workers, they also keep their checkpoints there, and a run that was lost with its worker goes on from
the last one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.errors import UserError
from golfsim.log import ABOUT, LOG, SCENARIO, write_whole
from golfsim.runner import TRACE, Interrupt, Outcome, Task, Told, attempt
from golfsim.tables import FILES

if TYPE_CHECKING:
    from golfsim.progress import Progress

Files = dict[str, bytes]
SECONDS_TO_CONNECT = 30
KEPT = (SCENARIO, LOG, *FILES.values(), TRACE, ABOUT)  # in this order: with the last one a run is whole


def execute(
    tasks: list[Task], address: str, shares: tuple[int, int], shown: Progress, interrupt: Interrupt
) -> Iterator[tuple[Task, Outcome]]:
    """Submit the runs and bring back what the workers write; `local` starts a cluster on this machine."""
    with _client(address, shares) as client, _visible(tasks) as mark:
        futures = {}
        for task in tasks:
            shown.begin(task)
            futures[client.submit(remote, task, mark, key=f"golfsim-{task.hash}", pure=False)] = task
        for future in _as_completed(futures, interrupt):
            yield futures[future], _outcome(futures[future], future)
        client.cancel(list(futures))


@contextmanager
def _client(address: str, shares: tuple[int, int]) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UserError("a cluster needs Dask", hint='pip install "golfsim[cluster]"') from None
    try:
        if address == "local":
            cluster: Any = LocalCluster(n_workers=shares[0], threads_per_worker=1, dashboard_address=None)
        else:
            cluster = address
        client = Client(cluster, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        hint = "give the address that dask-scheduler prints, e.g. --scheduler tcp://node1:8786"
        raise UserError(f"no Dask scheduler answers at {address}: {error}", hint=hint) from None
    try:
        yield client
    finally:
        client.close()
        if address == "local":
            cluster.close()


@contextmanager
def _visible(tasks: list[Task]) -> Iterator[str]:
    """A file in the results folder by which a worker can tell whether it sees the same folder."""
    folder = _common(tasks)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".visible-") as mark:
        yield mark.name


def _common(tasks: list[Task]) -> Path | None:
    """The results folder: the nearest one above all runs that is there."""
    found = next((folder for folder in tasks[0].folder.parents if folder.is_dir()), None) if tasks else None
    return found


def _as_completed(futures: dict[Any, Task], interrupt: Interrupt) -> Iterator[Any]:
    """Futures as they are done, until an interruption."""
    from distributed import TimeoutError, as_completed

    waiting = set(futures)
    while waiting and not interrupt.asked:
        with suppress(TimeoutError):
            for future in as_completed(waiting, timeout=0.5):
                waiting.discard(future)
                yield future
                if interrupt.asked:
                    return


def _outcome(task: Task, future: Any) -> Outcome:
    """How a run ended, with its files written here."""
    if future.status != "finished":
        return Outcome("failed", error=f"the cluster gave it up: {future.exception()}")
    outcome, files = future.result()
    task.folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if name in files:
            content = files[name]
            write_whole(task.folder / name, lambda path, content=content: path.write_bytes(content))  # type: ignore[misc]
    assert isinstance(outcome, Outcome)
    return outcome


# The worker's side


def remote(task: Task, mark: str) -> tuple[Outcome, Files]:
    """Make a run on a worker: what came of it, and the files it has written."""
    _one_blas_thread()
    with tempfile.TemporaryDirectory() as aside:
        here = task if Path(mark).exists() else replace(task, folder=Path(aside))
        outcome = attempt(here, Told(), Interrupt())
        return outcome, {name: (here.folder / name).read_bytes() for name in KEPT if (here.folder / name).exists()}


@cache
def _one_blas_thread() -> None:
    """For good: runs in other threads of this worker must not see another number in between."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")
