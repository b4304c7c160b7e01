"""Files that are written aside and renamed, so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def _to_disk(path: str) -> None:
    """Wait until a file is on the disk: renamed before that, it could be empty after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file aside and rename it, so that nobody ever sees half of it."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(aside))
        os.chmod(aside, 0o644)
        _to_disk(aside)
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
