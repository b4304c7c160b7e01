"""Connect to a Dask scheduler, or start one on this machine that only this process and its workers can use."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from golfsim.core.errors import UserError
from golfsim.core.paths import private

SECONDS_TO_CONNECT = 30
SECONDS_TO_CLOSE = 10
LOCAL = "local"
NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}


@contextmanager
def client(address: str, workers: int) -> Iterator[Any]:
    """Connect to the scheduler at `address`; `local` starts one with this number of worker processes."""
    with _silent():
        connected, cluster = _local(workers) if address == LOCAL else (_remote(address), None)
        try:
            yield connected
        finally:
            for opened in (connected, cluster):
                with suppress(OSError):  # a scheduler that was lost cannot be closed; TimeoutError is one of these
                    opened.close(timeout=SECONDS_TO_CLOSE) if opened is not None else None


def _remote(address: str) -> Any:
    """Return a client of a running scheduler, with the certificates that the configuration of Dask names."""
    try:
        from distributed import Client
    except ImportError:
        raise _not_installed() from None
    try:
        return Client(address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # the last two: TLS without a certificate
        hint = "give the address that the scheduler prints, e.g. --scheduler tcp://node1:8786"
        if address.startswith("tls://"):
            hint += "; TLS needs certificates in the configuration of Dask (distributed.comm.tls)"
        why = str(error).partition("\n")[0]
        raise UserError(f"no Dask scheduler answers at {address}: {why}", hint=hint, docs="cluster") from None


def _local(workers: int) -> tuple[Any, Any]:
    """Start a scheduler and workers on this machine, and return a client and the cluster.

    Connections need a key that is created here and exists only in the memory of these processes. Without it, any
    process of this machine could execute code in them. Their web pages, which need no key, are closed.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.security import Security

        security = Security.temporary()
    except ImportError:
        raise _not_installed() from None
    try:
        with _deaf(), dask.config.set(NO_PAGES):
            cluster: Any = LocalCluster(
                n_workers=workers, threads_per_worker=1, security=security, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
                local_directory=str(private("dask")),  # where workers store pickles that they load later
            )  # fmt: skip
        connected = Client(cluster, timeout=SECONDS_TO_CONNECT)
    except OSError as error:
        raise UserError(f"cannot start a Dask cluster on this machine: {error}", docs="cluster") from None
    cluster.scheduler.http_server.stop()
    connected.run(_close_page)
    return connected, cluster


def _close_page(dask_worker: Any) -> None:
    dask_worker.http_server.stop()


def _not_installed() -> UserError:
    return UserError("a cluster needs Dask and cryptography", hint='pip install "golfsim[cluster]"', docs="cluster")


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress the log messages of Dask in this process: what they report is reported by this program."""
    with suppress(ImportError):
        import distributed  # noqa: F401  # it sets the levels that are changed here
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]
    before = {name: logging.getLogger(name).level for name in (*names, "asyncio")}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


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
