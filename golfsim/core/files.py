"""Write files atomically: under a temporary name, then renamed, so that incomplete files are never visible."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def _to_disk(path: str) -> None:
    """Wait until a file is on the disk: if it were renamed earlier, it could be empty after a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file under a temporary name and rename it, so that an incomplete file is never visible."""
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
