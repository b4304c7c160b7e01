"""Take the first Ctrl-C as a request to stop after the current cycle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType


@dataclass
class Interrupt:
    """Set by the first Ctrl-C: the cycle under way is finished, then the run ends. The second one ends it at once."""

    asked: bool = field(default=False)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Take Ctrl-C as a request while a scenario runs; leave it alone outside the main thread."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
