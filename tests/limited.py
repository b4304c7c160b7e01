"""A child process with limits of memory and time, in which input is tried that might bring it down."""

import multiprocessing
import resource
import traceback
from pathlib import Path

from fuzzing import SECONDS, tried

from golfsim.core.errors import UserError
from golfsim.scenario.model import Scenario

MEMORY = 2**31  # that one input may need in addition to what the process needs anyway


class Limited:
    """Tries scenarios in another process; a crash of it is an outcome as any other."""

    def __init__(self):
        self._process = None

    def outcome(self, tree, folder):
        """Return what happens: “fine”, “refused”, “traceback” or “crash”, and the messages about it."""
        if self._process is None:
            self._start()
        self._pipe.send((tree, folder))
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            status, self._process = self._process.exitcode, None
            return "crash", [f"exit status {status}"]

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()  # else its end would not be noticed

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _serve(pipe):
    tried_once = False
    while True:
        tree, folder = pipe.recv()
        if tried_once:  # all modules are loaded and kernels compiled
            _limit(resource.RLIMIT_AS, _size() + MEMORY)
            _limit(resource.RLIMIT_CPU, int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + SECONDS)
        pipe.send(_outcome(tree, folder))
        tried_once = True


def _limit(what, value):
    resource.setrlimit(what, (value, resource.RLIM_INFINITY))


def _size():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _outcome(tree, folder):
    try:
        tried(Scenario.of(tree, folder))
    except UserError as error:
        return "refused", list(getattr(error, "messages", [str(error)]))
    except BaseException:
        return "traceback", [traceback.format_exc()]
    return "fine", []
