"""Tables that a run may write next to its log: single nodes, links and in-degrees of overlays, spent ε."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

WORLD = "world"  # in place of a layer if no layer learns
COLUMNS: dict[str, dict[str, type[np.generic]]] = {
    "nodes": {"cycle": np.int32, "layer": np.int32, "node": np.int32, "online": np.bool_, "error": np.float64},
    "links": {"cycle": np.int32, "layer": np.int32, "source": np.int32, "target": np.int32},
    "degrees": {"cycle": np.int32, "layer": np.int32, "degree": np.int32, "count": np.int64},
    "spent": {"cycle": np.int32, "layer": np.int32, "by_node": np.bool_, "spent": np.float64, "count": np.int64},
}
FINAL = "spent"  # the table that is computed once, at the end of a run, from its state
FILES = {name: f"{name}.parquet" for name in COLUMNS}


class NodeTable:
    """The rows of one table of a run, in memory until they are written. In memory layers are stored as numbers."""

    def __init__(self, name: str, layers: list[str]) -> None:
        self.name = name
        self._layers = [WORLD, *layers]
        self._parts: dict[str, list[NDArray[Any]]] = {column: [] for column in COLUMNS[name]}

    def add(self, cycle: int, layer: str, **columns: NDArray[Any]) -> None:
        """Add the rows of one layer after one cycle."""
        size = len(next(iter(columns.values())))
        known = {"cycle": np.full(size, cycle), "layer": np.full(size, self._layers.index(layer))}
        for column, kind in COLUMNS[self.name].items():
            self._parts[column].append((known | columns)[column].astype(kind))

    def state(self) -> dict[str, Any]:
        """Return the rows so far, one array per column."""
        columns = COLUMNS[self.name].items()
        return {column: np.concatenate([np.empty(0, kind), *self._parts[column]]) for column, kind in columns}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore rows that `state` has returned."""
        for column, kind in COLUMNS[self.name].items():
            if arrays[column].dtype != kind:
                raise ValueError(f"{self.name}.{column}: expected {np.dtype(kind)}; found {arrays[column].dtype}")
            self._parts[column] = [arrays[column]]

    def rows(self, run: int, seed: int) -> pa.Table:
        """Return the rows as they are written, with the run and its seed."""
        import pyarrow as pa

        found = self.state()
        size = found["cycle"].size
        layer = pa.DictionaryArray.from_arrays(found.pop("layer"), self._layers)
        about = {"run": np.full(size, run, np.int32), "seed": np.full(size, seed, np.int64)}
        columns = about | {"cycle": found.pop("cycle"), "layer": layer} | found
        return pa.table(columns)


def columns_of(name: str) -> list[str]:
    """Return the columns of a table as it is written."""
    return ["run", "seed", *COLUMNS[name]]


def beside(log: Path, name: str) -> Path:
    """Return the path of the table that belongs to a log."""
    return log.with_name(FILES[name])
