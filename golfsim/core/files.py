"""Write files atomically: under a temporary name, then renamed, so that incomplete files are never visible."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

UNUSED_DAYS = 30


def _to_disk(path: str) -> None:
    """Wait until a file is on the disk: if it were renamed earlier, it could be empty after a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """Return the permissions that the user does not want new files to have."""
    with _lock:  # the only way to read it is to set it
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


_lock = threading.Lock()


def forget_unused(folder: Path) -> None:
    """Delete the folders below a folder of the cache that were not used for UNUSED_DAYS days."""
    for old in folder.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > UNUSED_DAYS * 86400:
                shutil.rmtree(old, ignore_errors=True)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


UNFINISHED = ".part"


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file under a temporary name and rename it, so that an incomplete file is never visible."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    try:
        _lock_file(handle)
        write(Path(aside))
        os.chmod(aside, 0o666 & ~_umask())
        _to_disk(aside)
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
    finally:
        os.close(handle)


def forget_unfinished(folder: Path) -> None:
    """Delete the temporary files in a folder whose process was killed; a process that still writes holds a lock."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError), path.open("rb") as stream:
            if _lock_file(stream.fileno()):
                path.unlink()


def _lock_file(handle: int) -> bool:
    """Lock an open file until it is closed. Return False if another process has locked it, or if it is impossible."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
