"""The log of a run: tidy rows in Parquet, the scenario as run, and what is known about the run."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golfsim
from golfsim.errors import UserError

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

    def add(self, cycle: int, found: dict[str, dict[str, float]]) -> None:
        """The metrics of one cycle, by layer."""
        for layer, metrics in found.items():
            self.cycles += [cycle] * len(metrics)
            self.names += [(layer, metric) for metric in metrics]
            self.values += [float(value) for value in metrics.values()]

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame."""
        return noted(self._table().to_pandas(), [self.note])

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
        write_whole(
            folder / ABOUT,
            lambda path: path.write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"),
        )
        write_whole(folder / LOG, lambda path: pq.write_table(table, path, compression="zstd"))


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file aside and rename it, so that nobody ever sees half of it."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(aside))
        os.chmod(aside, 0o644)
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise


def about_this_machine() -> dict[str, Any]:
    """Versions and machine, for `run.json`."""
    packages = ("numpy", "numba", "scipy", "pandas", "pyarrow")
    return {
        "versions": {"golfsim": golfsim.__version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
    }


def processor() -> str:
    """The processor's name, as well as it can be found."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def load(*paths: str | Path) -> pd.DataFrame:
    """All rows of all runs found at or below the paths, as one tidy DataFrame.

    Its columns are run, seed, cycle, layer, metric and value; `path`, the run's folder below the given path; and a
    column for each key that a sweep varies.
    """
    frames = []
    for path in map(Path, paths):
        for file in _logs_at(path):
            name = str(file.parent.relative_to(path)) if path.is_dir() else ""
            frame = _rows_of(file)
            frames.append(with_values(frame, {"path": name} | _point(file.parent)))
    if not frames:
        raise UserError("nothing to load", hint="name a folder of results, e.g. results/quickstart")
    return joined(frames)


def _logs_at(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.rglob(LOG))
    if not files:
        raise UserError(f"{path}: {f'no {LOG} here or below' if path.exists() else 'there is no such file or folder'}")
    return files


def _rows_of(file: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file, columns=list(COLUMNS))
        frame: pd.DataFrame = table.to_pandas()
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: not a log of golfsim: {str(error).splitlines()[0]}") from None
    if list(frame.columns) != list(COLUMNS):
        raise UserError(f"{file}: not a log of golfsim: expected the columns {', '.join(COLUMNS)}")
    return noted(frame, [(table.schema.metadata or {}).get(NOTE.encode(), b"").decode()])


def _point(folder: Path) -> dict[str, Any]:
    """What tells this run's point of a sweep from the others."""
    try:
        found = json.loads((folder / ABOUT).read_text(encoding="utf-8")).get("point", {})
    except (OSError, ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def noted(frame: pd.DataFrame, notes: Iterable[str]) -> pd.DataFrame:
    """The frame with what every picture of it has to say: each note once."""
    frame.attrs[NOTE] = "\n".join(dict.fromkeys(line for note in notes for line in note.splitlines()))
    return frame


def note_of(frame: pd.DataFrame) -> str:
    """What every picture of the frame has to say, e.g. that its data are generated in place of others."""
    return str(frame.attrs.get(NOTE, ""))


def with_values(frame: pd.DataFrame, values: dict[str, Any]) -> pd.DataFrame:
    """A log with the same value in every row of some further columns; lists and tables as text."""
    import pandas as pd

    plain = {key: json.dumps(v) if isinstance(v, list | tuple | dict) else v for key, v in values.items()}
    return frame.assign(**{key: pd.Categorical([value] * len(frame)) for key, value in plain.items()})


def joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Several logs as one; where one lacks a column of another, it has no value there."""
    import pandas as pd
    from pandas.api.types import union_categoricals

    notes = [note_of(frame) for frame in frames]
    frames = [frame for frame in frames if len(frame)] or frames[:1]  # where nobody ever was online there are no rows
    names = dict.fromkeys(str(name) for frame in frames for name in frame)
    columns: dict[str, Any] = {
        name: union_categoricals([frame[name].astype("category") for frame in frames]) for name in ("layer", "metric")
    }
    extra = [name for name in names if name not in COLUMNS]
    for name in extra:  # one value a frame; numbers, texts and nothing may stand side by side
        columns[name] = _one_a_frame(frames, name)
    whole = pd.concat([frame[["run", "seed", "cycle", "value"]] for frame in frames], ignore_index=True)
    return noted(whole.assign(**columns)[[*COLUMNS, *extra]], notes)


def _one_a_frame(frames: list[pd.DataFrame], name: str) -> Any:
    import pandas as pd

    values = [frame[name].iloc[0] if name in frame and len(frame) else None for frame in frames]
    codes, different = pd.factorize(pd.Series(values, dtype=object))
    return pd.Categorical.from_codes(codes.repeat([len(frame) for frame in frames]), different.infer_objects())
