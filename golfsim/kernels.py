"""The one decorator that compiles a kernel, and where compiled code is kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

PACKAGE = Path(__file__).parent
ROOTS = (PACKAGE, PACKAGE.parent / "protocols")
UNUSED_DAYS = 30

# A sum may be reordered to fill vector registers; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "nsz", "contract"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a module-level function over arrays and scalars: no GIL, cached on disk, division as in numpy."""
    folder = cache_folder(Path(function.__code__.co_filename))
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}
    if folder is None:
        return numba.njit(**options)(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before


def user_cache() -> Path:
    """The folder for all that can be made again: ``$GOLFSIM_CACHE``, or the system's place for caches."""
    import platformdirs

    return Path(os.environ.get("GOLFSIM_CACHE") or platformdirs.user_cache_dir("golfsim"))


def cache_folder(source: Path) -> Path | None:
    """The folder for the compiled code of a source file, private to the user; None where none can be written.

    numba looks only at the file a function stands in, but a kernel also contains the kernels it calls from other
    files. So the folder's name is a hash of all our sources and, for a user's file, of the Python files beside it.
    """
    ours = any(root in source.parents for root in ROOTS)
    return _folder_for(None if ours else source.parent)


@cache
def _folder_for(beside: Path | None) -> Path | None:
    sources = [path for root in ROOTS for path in sorted(root.rglob("*.py"))]
    sources += sorted(beside.glob("*.py")) if beside else []
    folder = user_cache() / "kernels" / digest_of(sources)
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _forget_unused(folder.parent)
        os.utime(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def digest_of(files: Iterable[Path]) -> str:
    """A hash of names and contents of files."""
    digest = hashlib.blake2b(digest_size=12)
    for path in files:
        digest.update(path.name.encode() + b"\0")
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _forget_unused(folder: Path) -> None:
    for old in folder.iterdir():
        if time.time() - old.stat().st_mtime > UNUSED_DAYS * 86400:
            shutil.rmtree(old, ignore_errors=True)
