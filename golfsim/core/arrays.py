"""Read the arrays of .npz files, which may be damaged or forged."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LAST_CHARACTER = 0x10FFFF


def arrays_of(path: Path, wanted: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return those arrays of a file that are `wanted` and exist.

    A damaged file may cause any error of zipfile, zlib and numpy. ValueError: a member is no array of numbers or text.
    """
    if not zipfile.is_zipfile(path):
        raise ValueError("not an archive of arrays")
    with np.load(path, allow_pickle=False) as archive:
        return {name: _checked(name, archive[name]) for name in archive.files if name in wanted}


def _checked(name: str, found: Any) -> NDArray[Any]:
    """Return a member; numpy reads one without the header of an array as bytes, and text without looking at it."""
    if not isinstance(found, np.ndarray) or found.dtype.kind == "V":
        raise ValueError(f"“{name}” is no array of numbers or text")
    if found.dtype.kind == "U":
        codes = np.frombuffer(found.tobytes(), np.dtype(np.uint32).newbyteorder(found.dtype.byteorder))
        if (codes > LAST_CHARACTER).any() or (codes >> 11 == 0xD800 >> 11).any():  # beyond Unicode, or half a character
            raise ValueError(f"the text in “{name}” has characters that do not exist")
    return found
