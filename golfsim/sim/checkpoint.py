"""The whole state of a run in one file: arrays without pickle, checksummed, versioned, written aside and renamed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.core.memory import available, readable

if TYPE_CHECKING:
    from golfsim.sim.simulation import Simulation

MAGIC = b"golfsim checkpoint 1\n"
DIGEST = 64
KEPT = 2  # checkpoints of a run: the last one, and one more in case that is damaged


def save(simulation: Simulation, path: Path) -> None:
    """Write the state of a run between two cycles."""
    arrays: dict[str, Any] = {f"state/{key}": value for key, value in simulation.state().items()}
    arrays["about"] = np.frombuffer(json.dumps(simulation.identity()).encode(), np.uint8)
    write_whole(path, lambda aside: _write(aside, arrays))


def _write(path: Path, arrays: dict[str, Any]) -> None:
    """Stream the arrays into the file, then their checksum into its head: nothing is held in memory twice."""
    with path.open("w+b") as file:
        file.write(MAGIC + b"0" * DIGEST)
        np.savez(file, allow_pickle=False, **arrays)
        digest = _digest(file)
        file.seek(len(MAGIC))
        file.write(digest)


def _digest(file: IO[bytes]) -> bytes:
    """The checksum of all that stands behind the head."""
    total = hashlib.sha256()
    file.seek(len(MAGIC) + DIGEST)
    while part := file.read(1 << 20):
        total.update(part)
    return total.hexdigest().encode()


def load(simulation: Simulation, path: Path) -> None:
    """Bring a freshly built run to the state in the file; refuse a damaged file or another run's."""
    arrays, about = _read(path)
    if about != simulation.identity():
        differing = [key for key, value in simulation.identity().items() if about.get(key) != value]
        raise UserError(f"{path}: the checkpoint of another run: {', '.join(differing)} differ")
    try:
        simulation.restore({key.removeprefix("state/"): value for key, value in arrays.items()})
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{path}: does not fit this scenario: {error}") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with path.open("rb") as file:
            return _parts(path, file)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: damaged: {error}") from None


def _parts(path: Path, file: IO[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    if file.read(len(MAGIC)) != MAGIC:
        raise UserError(f"{path}: not a checkpoint of this version of golfsim")
    digest = file.read(DIGEST)
    if _digest(file) != digest:
        raise UserError(f"{path}: damaged: its checksum is wrong")
    file.seek(len(MAGIC) + DIGEST)
    with zipfile.ZipFile(file) as packed:
        unfolded = sum(member.file_size for member in packed.infolist())
    if unfolded > available():
        what = f"needs {readable(unfolded)} of memory, {readable(available())} available"
        raise UserError(f"{path}: {what}")
    file.seek(len(MAGIC) + DIGEST)
    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    return arrays, dict(json.loads(bytes(arrays.pop("about"))))


# The checkpoints in the folder of a run


def keep(simulation: Simulation, folder: Path) -> None:
    """Write one more checkpoint of a run into its folder, and delete those that are no longer needed."""
    folder.mkdir(parents=True, exist_ok=True)
    save(simulation, folder / f"checkpoint-{simulation.world.cycle:012}")
    for old in _kept(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def _kept(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first."""
    return sorted(folder.glob("checkpoint-*"), reverse=True)


def resumed(build: Callable[[], Simulation], folder: Path) -> tuple[Simulation, list[str]]:
    """A run at its newest checkpoint that can be used, or at its beginning; and what there is to say about it."""
    simulation, notes = build(), []
    for path in _kept(folder):
        try:
            load(simulation, path)
        except UserError as error:
            notes.append(f"{error}; going on without it")
            simulation = build()  # half of a state may have been taken over
        else:
            return simulation, [*notes, f"resumed after cycle {simulation.world.cycle}"]
    return simulation, notes


def forget(folder: Path) -> None:
    """Delete the checkpoints of a run that is whole, also those that a killed process has not finished."""
    for path in [*_kept(folder), *folder.glob(".checkpoint-*")]:
        path.unlink(missing_ok=True)
