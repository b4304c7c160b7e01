"""Read data cards, which state the content and the source of each data set."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from golfsim.core.errors import UserError, nearest
from golfsim.core.paths import shipped
from golfsim.data.config import Task


@dataclass(frozen=True)
class Card:
    """The description of a data set; `data/README.md` explains the fields."""

    name: str
    title: str
    kind: Literal["bundled", "computed", "installed", "generated", "fetched"]
    reader: str
    source: str
    licence: str
    citation: str
    notes: str
    records: int
    features: int
    classes: tuple[str, ...]
    counts: tuple[int, ...] | None
    test_records: int
    test_counts: tuple[int, ...] | None
    held_out: int | float | None
    bounds: Mapping[str, tuple[float, float]]
    bounds_reason: str
    files: tuple[Mapping[str, Any], ...]
    sources: tuple[Mapping[str, Any], ...]
    details: Mapping[str, Any]
    stands_in_for: str = ""
    task: Task = "classification"  # what the labels are

    @property
    def note(self) -> str:
        """The note that every figure of the set shows: empty, unless the set replaces data that is not available."""
        return f"{self.name}: generated data in place of {self.stands_in_for}" if self.stands_in_for else ""


def data_folder() -> Path:
    """Return the folder of cards and bundled sets: next to the package in a checkout, inside it once installed."""
    return shipped("data")


@functools.cache
def cards() -> dict[str, Card]:
    """Return all data cards by name."""
    return {path.stem: _parse(path) for path in sorted(data_folder().glob("*.toml"))}


def card_of(name: str) -> Card:
    """Return the card of a data set; raise an error that names the nearest one if there is none."""
    if name not in cards():
        raise UserError(f"there is no data set “{name}”", key="data.set", hint=nearest(name, list(cards())))
    return cards()[name]


def _parse(path: Path) -> Card:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    bounds = {key: (float(low), float(high)) for key, (low, high) in table.pop("bounds", {}).items()}
    counts, test_counts = table.pop("counts", None), table.pop("test_counts", None)
    return Card(
        name=path.stem,
        classes=tuple(table.pop("classes")),
        counts=tuple(counts) if counts else None,
        test_counts=tuple(test_counts) if test_counts else None,
        test_records=table.pop("test_records", 0),
        held_out=table.pop("held_out", None),
        bounds=bounds,
        bounds_reason=table.pop("bounds_reason", ""),
        files=tuple(table.pop("files", ())),
        sources=tuple(table.pop("sources", ())),
        details=table.pop("details", {}),
        **table,
    )
