"""Read the files of runs: logs, and the tables next to them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.core.columns import ABOUT_LAYERS, COLUMNS
from golfsim.core.errors import UserError
from golfsim.core.files import checksum
from golfsim.core.paths import text_of
from golfsim.sim import events
from golfsim.sim.log import ABOUT, CLASSES, LOG, NOTE, TEXT, no_such_table, noted
from golfsim.sim.tables import beside, columns_of

if TYPE_CHECKING:
    import pandas as pd

NOT_POINT = ("path", "run", "seed", *ABOUT_LAYERS)


@dataclass(frozen=True)
class Piece:
    """The log file of a run, and the values of the additional columns of its rows."""

    file: Path
    values: dict[str, Any]


def load(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """Return the rows of all runs of the scenarios at or below the paths, as one tidy DataFrame.

    Its columns are run, seed, cycle, layer, metric and value; `path`, the folder of the run below the given path; and
    one column per key that a sweep varies. With several paths, the column `results` has the name of the path that a row
    comes from (the complete path if two have the same name), keys that only one of them varies have a value in all
    rows, and `data.set` or `data.file` states the training data. Runs of earlier versions of a scenario are left out.
    Runs that were interrupted or failed are left out as well, unless `unfinished` is true.
    """
    return frame_of(_all_pieces(paths, unfinished))


def load_nodes(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """Return the rows of the followed nodes of the runs at or below the paths, with the additional columns of `load`.

    Its own columns are run, seed, cycle, layer, node (the user's number), online, and error. The error is NaN if the
    node had no model to measure, e.g. because it was offline.
    """
    return _load_further("nodes", paths, unfinished)


def load_links(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """Return the links of the overlays in the runs at or below the paths.

    The columns are run, seed, cycle, layer, source and target, and the additional columns of `load`.
    """
    return _load_further("links", paths, unfinished)


def load_degrees(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """Return the in-degrees of the overlays in the runs at or below the paths, over all online nodes.

    The columns are run, seed, cycle, layer, degree and count (the number of online nodes with this in-degree), and the
    additional columns of `load`. Runs with `overlay` in `[observe]` store them.
    """
    return _load_further("degrees", paths, unfinished)


def load_spent(*paths: str | Path, unfinished: bool = False) -> pd.DataFrame:
    """Return the ε that records have spent by the end of the runs at or below the paths.

    The columns are run, seed, cycle, layer, by_node (whether a node is the unit, and not a record), spent, count (the
    number of records or nodes that have spent this ε), and the additional columns of `load`.
    """
    return _load_further("spent", paths, unfinished)


def _load_further(name: str, paths: tuple[str | Path, ...], unfinished: bool) -> pd.DataFrame:
    found = further(name, _all_pieces(paths, unfinished))
    if found is None:
        raise no_such_table(name)
    return found


def further(name: str, pieces: list[Piece]) -> pd.DataFrame | None:
    """Return the rows of a table stored next to some logs, or None if none of them has it."""
    files = [Piece(beside(piece.file, name), piece.values) for piece in pieces]
    there = [piece for piece in files if piece.file.is_file()]
    return frame_of(there, columns_of(name)) if there else None


def _all_pieces(paths: tuple[str | Path, ...], unfinished: bool) -> list[Piece]:
    from golfsim.runs.results import find

    if not paths:
        raise UserError("nothing to load", hint="name a folder of results, e.g. results/quickstart", docs="reports")
    return [run.piece for run in find(paths, unfinished).runs]


def pieces_of(path: Path, unfinished: bool = False) -> list[Piece]:
    """Return the logs of the runs of the scenarios at or below a path."""
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
    return "no run is complete yet; unfinished=True loads incomplete runs" if indexed else f"no {LOG} here or below"


def frame_of(pieces: list[Piece], columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Return the rows of all pieces; a piece that lacks a column of another one has no value there."""
    import pandas as pd
    import pyarrow as pa

    pieces, tables, notes, classes, happened = _readable(pieces, list(columns))
    sizes = [table.num_rows for table in tables]
    whole: pd.DataFrame = pa.concat_tables(tables).unify_dictionaries().to_pandas()
    words = [column for column in ("layer", "metric") if column in columns]
    whole[words] = whole[words].astype("category")
    for name in dict.fromkeys(name for piece in pieces for name in piece.values):
        values = [piece.values.get(name) if name == "label" else _plain(piece.values.get(name)) for piece in pieces]
        if name == "label":
            whole[name] = _labels(whole["layer"], values, sizes)
        elif name in ("run", "seed"):
            whole[name] = np.repeat(np.array(values, np.int32 if name == "run" else np.int64), sizes)
        else:  # numbers, texts and missing values may occur in one column
            codes, different = pd.factorize(pd.Series(values, dtype=object))
            whole[name] = pd.Categorical.from_codes(codes.repeat(sizes), different.infer_objects())
    points = [{key: value for key, value in piece.values.items() if key not in NOT_POINT} for piece in pieces]
    return events.marked(noted(whole, notes, classes), zip(points, happened, strict=True))


def _readable(
    pieces: list[Piece], columns: list[str]
) -> tuple[list[Piece], list[Any], list[str], list[Sequence[str]], list[list[events.Event]]]:
    """Return the pieces that can be read, with rows, notes, classes and events.

    A damaged run is named in a warning and left out.
    """
    found, errors = [], []
    for piece in pieces:
        try:
            found.append((piece, *_rows_of(piece.file, columns)))
        except UserError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    for wrong in errors:
        warnings.warn(f"{wrong.what}; this run is left out, and golfsim run repeats it", stacklevel=4)
    readable, tables, notes, classes, happened = zip(*found, strict=True)
    return list(readable), list(tables), list(notes), list(classes), list(happened)


def _labels(layers: pd.Series, labels: list[Any], sizes: list[int]) -> pd.Series:
    """Return the label of each row's layer; a piece has a table of labels by layer, or none."""
    import pandas as pd

    names = layers.to_numpy(object)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    found = np.full(len(names), None, object)
    for piece, table in enumerate(labels):
        here = slice(starts[piece], starts[piece + 1])
        known = {str(key): str(value) for key, value in table.items()} if isinstance(table, dict) else {}
        found[here] = [known.get(name) for name in names[here]] if known else None
    return pd.Series(pd.Categorical(found))


def _plain(value: Any) -> Any:
    """Return lists and tables as text, other values unchanged."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _rows_of(file: Path, columns: list[str]) -> tuple[Any, str, list[str], list[events.Event]]:
    """Return the rows of a log or of a table next to it, its note, the names of its classes, and its events."""
    import pyarrow.parquet as pq

    expected = about(file.parent).get("sha256", {}).get(file.name)
    try:
        if expected is not None and checksum(file) != expected:
            raise UserError(f"{file}: damaged: its checksum is not that in {ABOUT}")
        with pq.ParquetFile(file) as parquet:
            table = parquet.read(columns=columns)
        if table.column_names != columns:
            raise UserError(f"{file}: not a golfsim log: expected the columns {', '.join(columns)}")
        wrong = [name for name in columns if not _fits(name, table.schema.field(name).type)]
    except UserError:
        raise
    except Exception as error:  # whatever a damaged file makes of the library
        raise UserError(f"{file}: not a golfsim log: {(str(error) or type(error).__name__).splitlines()[0]}") from None
    if wrong:
        raise UserError(f"{file}: not a golfsim log: the column “{wrong[0]}” has another type")
    metadata = table.schema.metadata or {}
    note, scenario = (metadata.get(name.encode(), b"").decode("utf-8", "replace") for name in (NOTE, TEXT))
    classes = _classes(metadata.get(CLASSES.encode(), b""))
    return table.replace_schema_metadata(None), note, classes, events.of_text(scenario)


def _classes(stated: bytes) -> list[str]:
    """Return the names of the classes in the metadata of a log; none if they are damaged."""
    try:
        found = json.loads(stated.decode("utf-8", "replace") or "[]")
    except ValueError:
        return []
    return [str(name) for name in found] if isinstance(found, list) else []


def _fits(column: str, kind: Any) -> bool:
    """Return whether a column has the type that golfsim writes."""
    import pyarrow.types as types

    if column in ("layer", "metric"):
        return bool(types.is_dictionary(kind)) and bool(types.is_string(kind.value_type))
    if column in ("value", "error", "spent"):
        return bool(types.is_float64(kind))
    return bool(types.is_boolean(kind) if column in ("online", "by_node") else types.is_integer(kind))


def _point(folder: Path) -> dict[str, Any]:
    """Return the values by which the point of this run differs from other points of the sweep."""
    found = about(folder).get("point")
    return found if isinstance(found, dict) else {}


# The types of what others read from run.json: a value of another type counts as missing.
ABOUT_TYPES: dict[str, type | tuple[type, ...]] = {
    "status": str, "error": str, "hash": str, "cycles": int, "nodes": int, "run": int, "seed": int, "point": dict,
    "guarantees": dict, "privacy": dict, "times": dict, "sha256": dict, "name": str, "scenario_file": str,
    "code_files": list,
}  # fmt: skip


def about(folder: Path) -> dict[str, Any]:
    """Return the content of `run.json` without values of a wrong type; an empty table if it cannot be read."""
    try:
        found = json.loads(text_of(folder / ABOUT))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, ABOUT_TYPES.get(key, object))}


def damage(folder: Path) -> str:
    """Return what is wrong with the files of a run by the checksums in its `run.json`, or an empty text."""
    for name, expected in about(folder).get("sha256", {}).items():
        file = folder / Path(str(name)).name
        if not file.is_file():
            return f"{file}: missing"
        if checksum(file) != expected:
            return f"{file}: damaged: its checksum is not that in {ABOUT}"
    return ""
