"""The log of a run: tidy rows in Parquet, the scenario as run, and metadata of the run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.columns import COLUMNS
from golfsim.core.errors import UserError
from golfsim.core.files import checksum, write_whole
from golfsim.sim.events import Event, marked
from golfsim.sim.tables import NodeTable, beside

if TYPE_CHECKING:
    import pandas as pd

LOG, SCENARIO, ABOUT = "log.parquet", "scenario.toml", "run.json"
TEXT = "golfsim.scenario"  # in the metadata of a log: the scenario as run
NOTE = "golfsim.note"  # in the metadata of a log and in the attrs of its frame
CLASSES = "golfsim.classes"  # likewise: the names of the classes


class Log:
    """The rows of one run, in memory until they are written; `note` is a statement that every figure must show."""

    def __init__(
        self, run: int, seed: int, note: str = "", classes: Sequence[str] = (), events: Sequence[Event] = ()
    ) -> None:
        self.run = run
        self.seed = seed
        self.note = note
        self.classes = list(classes)
        self.events = list(events)  # that figures mark
        self.cycles: list[int] = []
        self.names: list[tuple[str, str]] = []  # layer, metric
        self.values: list[float] = []
        self.tables: dict[str, NodeTable] = {}  # written to separate files next to the log

    def add(self, cycle: int, found: dict[str, dict[str, float]]) -> None:
        """Add the metrics of one cycle, by layer."""
        for layer, metrics in found.items():
            self.cycles += [cycle] * len(metrics)
            self.names += [(layer, metric) for metric in metrics]
            self.values += [float(value) for value in metrics.values()]

    def frame(self) -> pd.DataFrame:
        """Return the rows as a DataFrame."""
        return marked(noted(self._table().to_pandas(), [self.note], [self.classes]), [({}, self.events)])

    def nodes(self) -> pd.DataFrame:
        """Return the states of the followed nodes: cycle, layer, node, online, error."""
        return self._further("nodes")

    def links(self) -> pd.DataFrame:
        """Return the links of the overlays: cycle, layer, source, target."""
        return self._further("links")

    def degrees(self) -> pd.DataFrame:
        """Return the in-degrees of the overlays: cycle, layer, degree, count (of online nodes with this in-degree)."""
        return self._further("degrees")

    def spent(self) -> pd.DataFrame:
        """Return the ε spent by the end of the run: cycle, layer, by_node, spent, count (of records or nodes)."""
        return self._further("spent")

    def _further(self, name: str) -> pd.DataFrame:
        if name not in self.tables:
            raise no_such_table(name)
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
        """Write the folder of the run; every file is either complete or absent."""
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        about_log = {TEXT: scenario, "golfsim.seed": str(self.seed), NOTE: self.note}
        about_log[CLASSES] = json.dumps(self.classes, ensure_ascii=False)
        table = self._table().replace_schema_metadata(about_log)
        write_whole(folder / SCENARIO, lambda path: path.write_text(scenario, encoding="utf-8"))
        write_whole(folder / LOG, lambda path: pq.write_table(table, path, compression="zstd"))
        for name, further in self.tables.items():
            self._write_further(folder, name, further)
        names = [SCENARIO, LOG, *(beside(folder / LOG, name).name for name in self.tables)]
        about = about | {"sha256": {name: checksum(folder / name) for name in names}}
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        write_whole(
            folder / ABOUT, lambda path: path.write_text(text, encoding="utf-8")
        )  # last: it marks a complete run

    def _write_further(self, folder: Path, name: str, table: NodeTable) -> None:
        import pyarrow.parquet as pq

        rows = table.rows(self.run, self.seed).replace_schema_metadata({NOTE: self.note})
        write_whole(beside(folder / LOG, name), lambda path: pq.write_table(rows, path, compression="zstd"))


def no_such_table(name: str) -> UserError:
    """Return the error for runs that have not stored a table."""
    if name == "spent":
        return UserError(
            "no run here has stored the ε spent by record", hint="complete runs of private layers store it"
        )
    key = {"nodes": "follow = 100", "links": "draw = true", "degrees": "overlay = 1"}[name]
    return UserError(f"no run here has stored its {name}", hint=f"add {key} to [observe] and run again")


def noted(frame: pd.DataFrame, notes: Iterable[str], classes: Sequence[Sequence[str]] = ()) -> pd.DataFrame:
    """Return the frame with the notes that every figure of it must show, each once, and the names of its classes.

    Logs whose classes differ have no names in common.
    """
    frame.attrs[NOTE] = "\n".join(dict.fromkeys(line for note in notes for line in note.splitlines()))
    if len({tuple(names) for names in classes}) == 1 and classes[0]:
        frame.attrs[CLASSES] = list(classes[0])
    return frame


def classes_of(frame: pd.DataFrame) -> list[str]:
    """Return the names of the classes, or an empty list if the logs do not state them or differ."""
    return list(frame.attrs.get(CLASSES, []))


def note_of(frame: pd.DataFrame) -> str:
    """Return the note that every figure of the frame must show, e.g. that its data are generated."""
    return str(frame.attrs.get(NOTE, ""))
