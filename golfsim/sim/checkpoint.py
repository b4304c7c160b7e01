"""Checkpoints: the complete state of a run in one file.

The file has a version and a checksum, and its arrays are stored without pickle. It is written under a temporary name
and renamed when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from golfsim.core.errors import UserError
from golfsim.core.files import forget_unfinished, write_whole
from golfsim.core.memory import available, readable

if TYPE_CHECKING:
    from golfsim.sim.simulation import Simulation

MAGIC = b"golfsim checkpoint 1\n"
DIGEST = 64
UNPACKING = (zipfile.BadZipFile, zlib.error, OverflowError)
KEPT = 2  # checkpoints per run: the last one, and one more in case the last one is damaged


def save(simulation: Simulation, path: Path) -> None:
    """Write the state of a run between two cycles."""
    arrays: dict[str, Any] = {f"state/{key}": value for key, value in simulation.state().items()}
    arrays["about"] = np.frombuffer(json.dumps(simulation.identity()).encode(), np.uint8)
    write_whole(path, lambda aside: _write(aside, arrays))


def _write(path: Path, arrays: dict[str, Any]) -> None:
    """Write the arrays, then their checksum into the head of the file. No array is copied in memory."""
    with path.open("w+b") as file:
        file.write(MAGIC + b"0" * DIGEST)
        np.savez(file, allow_pickle=False, **arrays)
        digest = _digest(file)
        file.seek(len(MAGIC))
        file.write(digest)


def _digest(file: IO[bytes]) -> bytes:
    """Return the checksum of everything after the head."""
    total = hashlib.sha256()
    file.seek(len(MAGIC) + DIGEST)
    while part := file.read(1 << 20):
        total.update(part)
    return total.hexdigest().encode()


def load(simulation: Simulation, path: Path) -> None:
    """Set a newly built run to the state in the file; refuse a damaged file and the checkpoint of another run."""
    arrays, about = _read(path)
    if about != simulation.identity():
        differing = [key for key, value in simulation.identity().items() if about.get(key) != value]
        raise UserError(f"{path}: the checkpoint belongs to another run: different {', '.join(differing)}")
    try:
        simulation.restore({key.removeprefix("state/"): value for key, value in arrays.items()})
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: the checkpoint does not match this scenario: {error}") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with path.open("rb") as file:
            return _parts(path, file)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, RuntimeError, MemoryError, *UNPACKING) as error:
        raise UserError(f"{path}: damaged: {error}") from None


def _parts(path: Path, file: IO[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    if file.read(len(MAGIC)) != MAGIC:
        raise UserError(f"{path}: not a checkpoint of this version of golfsim")
    digest = file.read(DIGEST)
    if _digest(file) != digest:
        raise UserError(f"{path}: damaged: the checksum is wrong")
    file.seek(len(MAGIC) + DIGEST)
    with zipfile.ZipFile(file) as packed:
        unfolded = sum(member.file_size for member in packed.infolist())
    if unfolded > available():
        what = f"needs {readable(unfolded)} of memory; {readable(available())} are available"
        raise UserError(f"{path}: {what}")
    file.seek(len(MAGIC) + DIGEST)
    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    return arrays, dict(json.loads(bytes(arrays.pop("about"))))


# The checkpoints in the folder of a run


def keep(simulation: Simulation, folder: Path) -> None:
    """Write a checkpoint of a run into its folder, and delete the oldest checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    save(simulation, folder / f"checkpoint-{simulation.world.cycle:012}")
    for old in _kept(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def _kept(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, newest first."""
    return sorted(folder.glob("checkpoint-*"), reverse=True)


def resumed(build: Callable[[], Simulation], folder: Path) -> tuple[Simulation, list[str]]:
    """Return a run at its newest usable checkpoint, or at its beginning, and notes for the user."""
    simulation, notes = build(), []
    for path in _kept(folder):
        try:
            load(simulation, path)
        except UserError as error:
            notes.append(f"{error}; this checkpoint is ignored")
            simulation = build()  # a part of the state may have been restored
        else:
            return simulation, [*notes, f"resumed after cycle {simulation.world.cycle}"]
    return simulation, notes


def forget(folder: Path) -> None:
    """Delete the checkpoints of a run that is complete, and all unfinished files of killed processes."""
    for path in _kept(folder):
        path.unlink(missing_ok=True)
    forget_unfinished(folder)
