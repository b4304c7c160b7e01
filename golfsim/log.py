"""The log of a run: tidy rows in Parquet, the scenario as run, and what is known about the run."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import golfsim
from golfsim.errors import UserError
from golfsim.tables import Table, beside, columns_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run", "seed", "cycle", "layer", "metric", "value")
LOG, SCENARIO, ABOUT = "log.parquet", "scenario.toml", "run.json"
NOTE = "golfsim.note"  # in the metadata of a log and in the attrs of its frame


class Log:
    """The rows of one run, in memory until they are written; `note` is what every picture of them has to say."""

    def __init__(self, run: int, seed: int, note: str = "") -> None:
        self.run = run
        self.seed = seed
        self.note = note
        self.cycles: list[int] = []
        self.names: list[tuple[str, str]] = []  # layer, metric
        self.values: list[float] = []
        self.tables: dict[str, Table] = {}  # written beside the log

    def add(self, cycle: int, found: dict[str, dict[str, float]]) -> None:
        """The metrics of one cycle, by layer."""
        for layer, metrics in found.items():
            self.cycles += [cycle] * len(metrics)
            self.names += [(layer, metric) for metric in metrics]
            self.values += [float(value) for value in metrics.values()]

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame."""
        return noted(self._table().to_pandas(), [self.note])

    def nodes(self) -> pd.DataFrame:
        """What became of the nodes that were followed: cycle, layer, node, online, error."""
        return self._further("nodes")

    def links(self) -> pd.DataFrame:
        """Who knew whom: cycle, layer, source, target."""
        return self._further("links")

    def _further(self, name: str) -> pd.DataFrame:
        if name not in self.tables:
            raise _without(name)
        return noted(self.tables[name].rows(self.run, self.seed).to_pandas(), [self.note])

    def _table(self) -> Any:
        import pyarrow as pa

        layers, metrics = [n[0] for n in self.names], [n[1] for n in self.names]
        columns = [
            pa.array([self.run] * len(self.values), pa.int32()),
            pa.array([self.seed] * len(self.values), pa.int64()),
            pa.array(self.cycles, pa.int32()),
            pa.array(layers, pa.string()).dictionary_encode(),
            pa.array(metrics, pa.string()).dictionary_encode(),
            pa.array(self.values, pa.float64()),
        ]
        return pa.table(columns, names=list(COLUMNS))

    def write(self, folder: Path, scenario: str, about: dict[str, Any]) -> None:
        """Write the run's folder: each file whole or not at all."""
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        about_log = {"golfsim.scenario": scenario, "golfsim.seed": str(self.seed), NOTE: self.note}
        table = self._table().replace_schema_metadata(about_log)
        write_whole(folder / SCENARIO, lambda path: path.write_text(scenario, encoding="utf-8"))
        write_whole(folder / LOG, lambda path: pq.write_table(table, path, compression="zstd"))
        for name, further in self.tables.items():
            self._write_further(folder, name, further)
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        write_whole(folder / ABOUT, lambda path: path.write_text(text, encoding="utf-8"))  # last: now the run is whole

    def _write_further(self, folder: Path, name: str, table: Table) -> None:
        import pyarrow.parquet as pq

        rows = table.rows(self.run, self.seed).replace_schema_metadata({NOTE: self.note})
        write_whole(beside(folder / LOG, name), lambda path: pq.write_table(rows, path, compression="zstd"))


def _to_disk(path: str) -> None:
    """Wait until a file is on the disk: renamed before that, it could be empty after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file aside and rename it, so that nobody ever sees half of it."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(aside))
        os.chmod(aside, 0o644)
        _to_disk(aside)
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise


@cache
def about_this_machine() -> dict[str, Any]:
    """Versions and machine, for `run.json`."""
    from golfsim.kernels import TARGET

    packages = ("numpy", "numba", "scipy", "pandas", "pyarrow")
    return {
        "versions": {"golfsim": golfsim.__version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
        "compiled_for": TARGET,
    }


def processor() -> str:
    """The processor's name, as well as it can be found."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


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
        raise _without(name)
    return found


def further(name: str, pieces: list[Piece]) -> pd.DataFrame | None:
    """The rows of a table beside some logs; None where none of them has it."""
    files = [Piece(beside(piece.file, name), piece.values) for piece in pieces]
    there = [piece for piece in files if piece.file.is_file()]
    return frame_of(there, columns_of(name)) if there else None


def _without(name: str) -> UserError:
    key = {"nodes": "follow = 100", "links": "draw = true"}[name]
    return UserError(f"no run here has kept its {name}", hint=f"put {key} into [observe] and run again")


def _all_pieces(paths: tuple[str | Path, ...], unfinished: bool) -> list[Piece]:
    pieces = [piece for path in map(Path, paths) for piece in pieces_of(path, unfinished)]
    if not pieces:
        raise UserError("nothing to load", hint="name a folder of results, e.g. results/quickstart", docs="reports")
    return pieces


def pieces_of(path: Path, unfinished: bool = False) -> list[Piece]:
    """The logs of the runs that the scenarios at or below a path ask for."""
    from golfsim.store import INDEX, WHOLE, Store

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


def noted(frame: pd.DataFrame, notes: Iterable[str]) -> pd.DataFrame:
    """The frame with what every picture of it has to say: each note once."""
    frame.attrs[NOTE] = "\n".join(dict.fromkeys(line for note in notes for line in note.splitlines()))
    return frame


def note_of(frame: pd.DataFrame) -> str:
    """What every picture of the frame has to say, e.g. that its data are generated in place of others."""
    return str(frame.attrs.get(NOTE, ""))
