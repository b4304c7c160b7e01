"""Store the arrays of data sets in the cache, where worker processes map them into memory.

The name of a folder is the hash of its content. The hash is computed again when the arrays are mapped, so changed or
damaged arrays are not used.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from golfsim.core.files import forget_unused
from golfsim.data.files import Unscaled


class Damaged(Exception):
    """The arrays in a folder are not those that were stored."""


def stored(raw: Unscaled, folder: Path) -> Path:
    """Write the arrays of a set for `mapped` below `folder`, unless they exist, and return their folder."""
    place = folder / raw.digest()
    if place.is_dir():
        try:
            mapped(place)
        except Damaged as damage:
            warnings.warn(f"{damage}; they are recreated", stacklevel=2)
            shutil.rmtree(place, ignore_errors=True)
    if not place.is_dir():
        _create(raw, place)
        forget_unused(folder)
    with suppress(OSError):
        os.utime(place)
    return place


def _create(raw: Unscaled, place: Path) -> None:
    aside = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        _save(raw, aside)
        with suppress(OSError):  # another process was faster
            os.replace(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _save(raw: Unscaled, folder: Path) -> None:
    arrays = {"x": raw.x, "y": raw.y, "test_x": raw.test_x, "test_y": raw.test_y}
    for side, columns in (("column", raw.columns), ("test-column", raw.test_columns)):
        arrays |= {f"{side}-{i}": columns[name] for i, name in enumerate(raw.columns) if name in columns}
    for name, array in arrays.items():
        if array is not None:
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    names = {"features": raw.features, "classes": raw.classes, "columns": list(raw.columns)}
    (folder / "names.json").write_text(json.dumps(names), encoding="utf-8")


def mapped(place: Path) -> Unscaled:
    """Return the records that `stored` wrote, mapped into memory that processes share; raise Damaged if they differ."""
    try:
        found = _mapped(place)
        right = found.digest() == place.name
    except Exception as error:  # damaged files may cause any error of numpy and json
        raise Damaged(f"the arrays in {place} cannot be read ({type(error).__name__}: {error})") from None
    if not right:
        raise Damaged(f"the arrays in {place} differ from their checksum")
    return found


def _mapped(place: Path) -> Unscaled:
    names = json.loads((place / "names.json").read_text(encoding="utf-8"))

    def array(name: str) -> Any:
        file = place / f"{name}.npy"
        return np.load(file, mmap_mode="r", allow_pickle=False) if file.is_file() else None

    def columns(side: str) -> dict[str, Any]:
        found = {name: array(f"{side}-{i}") for i, name in enumerate(names["columns"])}
        return {name: values for name, values in found.items() if values is not None}

    return Unscaled(
        array("x"), array("y"), tuple(names["features"]), tuple(names["classes"]),
        array("test_x"), array("test_y"), columns("column"), columns("test-column"),
    )  # fmt: skip
