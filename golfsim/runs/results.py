"""Folders of results: the rows of all runs, and what is known about each run and its scenario."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.core.paths import text_of
from golfsim.core.tables import flat
from golfsim.runs.logs import NOT_POINT, Piece, about, frame_of, further, pieces_of
from golfsim.sim.log import SCENARIO

if TYPE_CHECKING:
    import pandas as pd

RESULTS = "results"  # the column that distinguishes folders
DATA = ("data.set", "data.file")  # keys that state the training data


@dataclass(frozen=True)
class Run:
    """One complete run: its log, and the values that distinguish its point of a sweep."""

    piece: Piece

    @property
    def point(self) -> dict[str, Any]:
        """The values that distinguish its point from the others."""
        return {key: value for key, value in self.piece.values.items() if key not in NOT_POINT}

    @cached_property
    def about(self) -> dict[str, Any]:
        """The content of `run.json`; empty if there is none."""
        return about(self.piece.file.parent)

    @cached_property
    def keys(self) -> dict[str, Any]:
        """The keys of its scenario by path, with all defaults explicit; keys of a layer begin with its name."""
        with suppress(OSError, ValueError):
            return _keys(text_of(self.piece.file.parent / SCENARIO))
        return {}


@cache
def _keys(text: str) -> dict[str, Any]:
    """Return the keys of a scenario in TOML by path. Cached, since the runs of a point share it."""
    try:
        return dict(flat(tomllib.loads(text)))
    except tomllib.TOMLDecodeError:
        return {}


@dataclass(frozen=True)
class Results:
    """The runs of one or several folders of results."""

    paths: tuple[Path, ...]
    runs: tuple[Run, ...]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows of all runs, as in `golfsim.load`; with several folders also `results`, the folder."""
        return frame_of([run.piece for run in self.runs])

    def further(self, name: str) -> pd.DataFrame | None:
        """Return the rows of a table next to the logs (`nodes` or `links`), or None if no run has it."""
        return further(name, [run.piece for run in self.runs])

    @property
    def points(self) -> list[Run]:
        """One run per point."""
        return list({json.dumps(run.point, default=str): run for run in reversed(self.runs)}.values())[::-1]


def find(paths: Sequence[str | Path], unfinished: bool = False) -> Results:
    """Return the complete runs of the scenarios of some folders; with `unfinished`, incomplete runs, too."""
    found = {label: pieces_of(path, unfinished) for label, path in labels(paths).items()}
    runs = [
        Run(replace(piece, values=piece.values | ({RESULTS: label} if len(found) > 1 else {})))
        for label, pieces in found.items()
        for piece in pieces
    ]
    return Results(tuple(map(Path, paths)), tuple(_completed(runs) if len(found) > 1 else runs))


def labels(paths: Sequence[str | Path]) -> dict[str, Path]:
    """Return folders by a short name: their own, or the complete path if two have the same name."""
    folders = [Path(path) for path in paths]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError("a folder is given twice", hint="give different folders of results")
    names = [folder.resolve().name for folder in folders]
    return {str(f) if names.count(name) > 1 else name: f for f, name in zip(folders, names, strict=True)}


def _completed(runs: list[Run]) -> Iterable[Run]:
    """Add to each run the keys that other folders vary, since folders may vary different keys.

    The training data are stated for all runs, so that runs on different data are not taken for the same.
    """
    varied = dict.fromkeys(key for run in runs for key in (*DATA, *run.point))
    for run in runs:
        more = {key: run.keys[key] for key in varied if key not in run.point and key in run.keys}
        yield Run(replace(run.piece, values=run.piece.values | more))
