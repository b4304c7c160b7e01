"""The whole state of a run in one file: arrays without pickle, checksummed, versioned, written aside and renamed."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.errors import UserError
from golfsim.log import write_whole

if TYPE_CHECKING:
    from golfsim.engine import Simulation

MAGIC = b"golfsim checkpoint 1\n"
DIGEST = 64


def save(simulation: Simulation, path: Path) -> None:
    """Write the state of a run between two cycles."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {f"state/{key}": value for key, value in simulation.state().items()}
    arrays["about"] = np.frombuffer(json.dumps(simulation.identity()).encode(), np.uint8)
    np.savez(buffer, allow_pickle=False, **arrays)
    payload = buffer.getvalue()
    digest = hashlib.sha256(payload).hexdigest().encode()
    write_whole(path, lambda aside: aside.write_bytes(MAGIC + digest + payload))


def load(simulation: Simulation, path: Path) -> None:
    """Bring a freshly built run to the state in the file; refuse a damaged file or another run's."""
    arrays = _read(path)
    about = json.loads(bytes(arrays.pop("about")))
    if about != simulation.identity():
        differing = [key for key, value in simulation.identity().items() if about.get(key) != value]
        raise UserError(f"{path}: the checkpoint of another run: {', '.join(differing)} differ")
    try:
        simulation.restore({key.removeprefix("state/"): value for key, value in arrays.items()})
    except (ValueError, KeyError) as error:
        raise UserError(f"{path}: does not fit this scenario: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    start = len(MAGIC) + DIGEST
    if content[: len(MAGIC)] != MAGIC:
        raise UserError(f"{path}: not a checkpoint of this version of golfsim")
    if hashlib.sha256(content[start:]).hexdigest().encode() != content[len(MAGIC) : start]:
        raise UserError(f"{path}: damaged: its checksum is wrong")
    with np.load(io.BytesIO(content[start:]), allow_pickle=False) as file:
        return dict(file)
