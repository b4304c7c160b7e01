"""Read what runs have written: logs, and tables of nodes and links."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.core.errors import UserError
from golfsim.sim.log import ABOUT, COLUMNS, LOG, NOTE, no_such_table, noted
from golfsim.sim.tables import beside, columns_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Piece:
    """A run's log to be loaded, and what stands in further columns of its rows."""

    file: Path
    values: dict[str, Any]


def load(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """The rows of all runs that the scenarios at or below the paths ask for, as one tidy DataFrame.

    Its columns are run, seed, cycle, layer, metric and value; `path`, the run's folder below the given path; and a
    column for each key that a sweep varies. Runs of an earlier version of a scenario, which may still lie there, are
    left out; and so are runs that were interrupted or failed, unless `unfinished` is true.
    """
    return frame_of(_all_pieces(paths, unfinished))


def load_nodes(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """What became of the nodes that the runs at or below the paths followed, with the further columns of `load`.

    Its own columns are run, seed, cycle, layer, node (the user's number), online, and error: NaN where the node had no
    model to be measured, e.g. since it was offline.
    """
    return _load_further("nodes", paths, unfinished)


def load_links(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """Who knew whom in the runs at or below the paths: run, seed, cycle, layer, source, target and those of `load`."""
    return _load_further("links", paths, unfinished)


def _load_further(name: str, paths: tuple[str | Path, ...], unfinished: bool) -> pd.DataFrame:
    found = further(name, _all_pieces(paths, unfinished))
    if found is None:
        raise no_such_table(name)
    return found


def further(name: str, pieces: list[Piece]) -> pd.DataFrame | None:
    """The rows of a table beside some logs; None where none of them has it."""
    files = [Piece(beside(piece.file, name), piece.values) for piece in pieces]
    there = [piece for piece in files if piece.file.is_file()]
    return frame_of(there, columns_of(name)) if there else None


def _all_pieces(paths: tuple[str | Path, ...], unfinished: bool) -> list[Piece]:
    pieces = [piece for path in map(Path, paths) for piece in pieces_of(path, unfinished)]
    if not pieces:
        raise UserError("nothing to load", hint="name a folder of results, e.g. results/quickstart", docs="reports")
    return pieces


def pieces_of(path: Path, unfinished: bool = False) -> list[Piece]:
    """The logs of the runs that the scenarios at or below a path ask for."""
    from golfsim.core.paths import INDEX
    from golfsim.runs.store import WHOLE, Store

    if path.is_file():
        return [Piece(path, {"path": ""} | _point(path.parent))]
    roots = [file.parent for file in sorted(path.rglob(INDEX)) if Store(file.parent).planned()]
    found = [piece for root in roots for piece in Store(root).pieces(path, unfinished)]
    logs = [file for file in sorted(path.rglob(LOG)) if not any(root in file.parents for root in roots)]
    kept = [file for file in logs if unfinished or about(file.parent).get("status", WHOLE[0]) in WHOLE]
    found += [Piece(file, {"path": str(file.parent.relative_to(path))} | _point(file.parent)) for file in kept]
    if not found:
        raise UserError(f"{path}: {_why_nothing(path, bool(roots or logs))}")
    return found


def _why_nothing(path: Path, indexed: bool) -> str:
    if not path.exists():
        return "there is no such file or folder"
    return "no run is whole yet; unfinished=True loads what is there" if indexed else f"no {LOG} here or below"


def frame_of(pieces: list[Piece], columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """The rows of all pieces; where one lacks a column of another, it has no value there."""
    import pandas as pd
    import pyarrow as pa

    tables, notes = zip(*(_rows_of(piece.file, list(columns)) for piece in pieces), strict=True)
    sizes = [table.num_rows for table in tables]
    whole: pd.DataFrame = pa.concat_tables(tables).unify_dictionaries().to_pandas()
    words = [column for column in ("layer", "metric") if column in columns]
    whole[words] = whole[words].astype("category")
    for name in dict.fromkeys(name for piece in pieces for name in piece.values):
        values = [_plain(piece.values.get(name)) for piece in pieces]
        if name in ("run", "seed"):
            whole[name] = np.repeat(np.array(values, np.int32 if name == "run" else np.int64), sizes)
        else:  # numbers, texts and nothing may stand side by side
            codes, different = pd.factorize(pd.Series(values, dtype=object))
            whole[name] = pd.Categorical.from_codes(codes.repeat(sizes), different.infer_objects())
    return noted(whole, notes)


def _plain(value: Any) -> Any:
    """Lists and tables as text."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _rows_of(file: Path, columns: list[str]) -> tuple[Any, str]:
    """The rows of a log or of a table beside it, and its note."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            table = parquet.read(columns=columns)
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: not a log of golfsim: {str(error).splitlines()[0]}") from None
    if table.column_names != columns:
        raise UserError(f"{file}: not a log of golfsim: expected the columns {', '.join(columns)}")
    note = (table.schema.metadata or {}).get(NOTE.encode(), b"").decode()
    return table.replace_schema_metadata(None), note


def _point(folder: Path) -> dict[str, Any]:
    """What tells this run's point of a sweep from the others."""
    found = about(folder).get("point")
    return found if isinstance(found, dict) else {}


def about(folder: Path) -> dict[str, Any]:
    """What `run.json` says; nothing where it cannot be read."""
    try:
        found = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
