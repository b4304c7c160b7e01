"""Read a graph from a list of edges or from a matrix that scipy.sparse saves, and check it before anything uses it.

A wrong row pointer in such a matrix makes compiled code of scipy write outside its arrays.
"""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.arrays import arrays_of
from golfsim.core.memory import available, readable
from golfsim.core.paths import unreadable

FIELDS = {"csr": ("indptr", "indices"), "csc": ("indptr", "indices"), "coo": ("row", "col")}
Edges = NDArray[np.int64]


def read_edges(path: Path, nodes: int) -> Edges:
    """Return the edges [edges, 2] of a text file with two node numbers per line; raise ValueError if it is none."""
    with path.open(encoding="utf-8") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty file is a graph without edges
        lines = (line if line.isascii() else line.encode("latin-1", "replace").decode("latin-1") for line in stream)
        try:  # numpy reads outside its tables at characters above U+00FF, and may crash
            edges = np.loadtxt(lines, dtype=np.int64, usecols=(0, 1), ndmin=2, comments="#").reshape(-1, 2)
        except ValueError as error:
            raise ValueError(f"expected two node numbers per line: {error}") from None
    return _edges(edges[:, 0], edges[:, 1], nodes)


def read_adjacency(path: Path, nodes: int) -> Edges:
    """Return the edges [edges, 2] of a matrix in the csr, csc or coo format; raise ValueError if it is none."""
    arrays = _arrays(path)
    form = _format(arrays)
    shape = tuple(_numbers(arrays, "shape").tolist())
    if shape != (nodes, nodes):
        raise ValueError(f"the matrix is {' × '.join(map(str, shape))}, the network has {nodes} nodes")
    first, second = (_numbers(arrays, name) for name in FIELDS[form])
    if form == "coo":
        return _edges(first, second, nodes)
    rows = _rows(first, second.size, nodes)
    return _edges(rows, second, nodes) if form == "csr" else _edges(second, rows, nodes)


def most_edges(path: Path) -> int:
    """Return a bound on the number of edges in a file: from the sizes of its arrays, or four bytes per line.

    A file that cannot be read, such as a pipe, is not opened: the error is reported when the graph is read.
    """
    if unreadable(path):
        return 0
    try:
        if path.suffix != ".npz":
            return path.stat().st_size // 4
        with zipfile.ZipFile(path) as packed:
            return max((member.file_size for member in packed.infolist()), default=0) // 4
    except Exception:  # a damaged file; reading it reports why
        return 0


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(member.file_size for member in packed.infolist())
        if size > available():
            raise ValueError(f"it unpacks to {readable(size)}, {readable(available())} are available")
        return arrays_of(path, {"format", "shape", *(name for names in FIELDS.values() for name in names)})
    except ValueError:
        raise
    except Exception as error:  # a damaged file may cause any error of zipfile, zlib and numpy
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"not a matrix in the format of scipy.sparse: {why}") from None


def _format(arrays: dict[str, NDArray[Any]]) -> str:
    found = arrays["format"].item() if "format" in arrays and arrays["format"].size == 1 else ""
    name = found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)
    if name not in FIELDS:
        raise ValueError(f"expected a matrix that scipy.sparse.save_npz wrote as {', '.join(FIELDS)}; got “{name}”")
    return name


def _numbers(arrays: dict[str, NDArray[Any]], name: str) -> NDArray[np.int64]:
    found = arrays.get(name)
    if found is None or found.ndim != 1 or found.dtype.kind not in "iu":
        raise ValueError(f"expected whole numbers in “{name}”")
    return found.astype(np.int64)


def _rows(start: NDArray[np.int64], size: int, nodes: int) -> NDArray[np.int64]:
    """Return the row of each entry from where rows begin."""
    if start.size != nodes + 1 or start[0] != 0 or start[-1] != size or (np.diff(start) < 0).any():
        raise ValueError(f"“indptr” does not divide {size} entries into {nodes} rows")
    return np.repeat(np.arange(nodes, dtype=np.int64), np.diff(start))


def _edges(first: NDArray[np.int64], second: NDArray[np.int64], nodes: int) -> Edges:
    if first.size != second.size:
        raise ValueError(f"{first.size} rows and {second.size} columns")
    edges = np.column_stack([first, second])
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        bad = edges.min() if edges.min() < 0 else edges.max()
        raise ValueError(f"there is no node {bad}: nodes have the numbers 0 … {nodes - 1}")
    return edges
