"""Compare the rows of the runs in two folders of results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.columns import COLUMNS
from golfsim.core.words import counted
from golfsim.runs.logs import Piece, frame_of, further
from golfsim.runs.results import find
from golfsim.sim.tables import FILES, columns_of

if TYPE_CHECKING:
    import pandas as pd

NAMED = 10  # differences that are listed
TABLES = tuple(FILES)


def differences(one: Path, other: Path) -> tuple[int, list[str]]:
    """Return the number of runs of the first folder, and how the runs of the second differ from them.

    Runs are compared by point, number and seed, and bit for bit; missing values are equal.
    """
    left, right = (_by_name(folder) for folder in (one, other))
    found = [f"only in {one}: {name}" for name in left if name not in right]
    found += [f"only in {other}: {name}" for name in right if name not in left]
    for name in left:
        if name in right:
            found += [f"{name}: {text}" for text in _differing(left[name], right[name])]
    return len(left), found


def text(one: Path, other: Path, runs: int, found: list[str]) -> str:
    """Return the result of a comparison as text."""
    if not found:
        return f"{one} and {other}: the same rows in {counted(runs, 'run')}"
    more = [f"  … and {counted(len(found) - NAMED, 'more difference')}"] if len(found) > NAMED else []
    return "\n".join([f"{one} and {other} differ:", *(f"  {line}" for line in found[:NAMED]), *more])


def _by_name(folder: Path) -> dict[str, Piece]:
    return {_name(run.piece, run.point): run.piece for run in find([folder]).runs}


def _name(piece: Piece, point: dict[str, Any]) -> str:
    """Return the point, number and seed of a run as text."""
    frame = frame_of([piece])
    own = {key: piece.values.get(key, frame[key].iloc[0] if len(frame) else 0) for key in ("run", "seed")}
    return ", ".join(f"{key} = {value if isinstance(value, str) else json.dumps(value, default=int)}"
                     for key, value in (point | own).items())  # fmt: skip


def _differing(one: Piece, other: Piece) -> Iterator[str]:
    yield from _first("log", frame_of([one]), frame_of([other]), list(COLUMNS))
    for name in TABLES:
        left, right = further(name, [one]), further(name, [other])
        if left is not None and right is not None:
            yield from _first(name, left, right, list(columns_of(name)))
        elif (left is None) != (right is None):
            yield f"only one of them has stored its {name}"


def _first(name: str, one: pd.DataFrame, other: pd.DataFrame, columns: list[str]) -> Iterator[str]:
    """Yield the first difference of two tables."""
    left, right = one[columns].astype({"layer": str}), other[columns].astype({"layer": str})
    if len(left) != len(right):
        yield f"{name}: {counted(len(left), 'row')} and {len(right)}"
        return
    differs = ~((left == right) | (left.isna() & right.isna())).all(axis=1)
    if differs.any():
        row = int(differs.to_numpy().argmax())
        yield f"{name}, row {row + 1}: {_shown(left.iloc[row])} and {_shown(right.iloc[row])}"


def _shown(row: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in row.items() if key not in ("run", "seed"))
