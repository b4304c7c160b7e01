"""Accept data from Python in place of files: a DataFrame or arrays as records, networkx graphs as overlays.

The data is written to the cache, under a hash of its content, and the scenario names that file. From then on it is
treated like any other file: workers read it, an interrupted run continues, and a run is identified by its content.
"""

from __future__ import annotations

import copy
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.core.errors import UserError, nearest
from golfsim.core.files import write_whole
from golfsim.core.paths import cannot_cache
from golfsim.data.fetch import cache_folder

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    Records = pd.DataFrame | tuple[Any, Any]  # a table, or features and labels

GRAPH = "static_overlay"  # the protocol that takes a graph


def tree_with(
    tree: Mapping[str, Any],
    data: Records | None,
    test_data: Records | None,
    label: str | None,
    graphs: Mapping[str, nx.Graph],
) -> dict[str, Any]:
    """Return a copy of a scenario's tree that names the files of the given data and graphs."""
    named: dict[str, Any] = copy.deepcopy(dict(tree))
    if data is not None:
        both = {"file": data, "test_file": test_data}
        files = {key: str(records_file(given, f"data.{key}")) for key, given in both.items() if given is not None}
        named["data"] = _table(named) | files | ({"label": label} if label is not None else {})
    elif test_data is not None or label is not None:
        raise UserError("test_data and label need data, which is not given", key="data")
    for name, graph in graphs.items():
        _layer(named, name).update(file=str(graph_file(graph, name)), directed=graph.is_directed())
    return named


def _table(tree: Mapping[str, Any]) -> dict[str, Any]:
    table = dict(tree.get("data", {}))
    for key in ("set", "file", "test_file"):
        if key in table:
            raise UserError("the data is passed from Python: remove this key", key=f"data.{key}")
    return table


def _layer(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the table of the overlay that a graph is for."""
    layers = {str(layer.get("name")): layer for layer in tree.get("protocol", ()) if isinstance(layer, dict)}
    if name not in layers:
        raise UserError(f"a graph is given for “{name}”, but no layer has this name", hint=nearest(name, layers))
    layer: dict[str, Any] = layers[name]
    if layer.setdefault("use", GRAPH) != GRAPH:
        raise UserError("only a static overlay accepts a graph", key=f"{name}.use", hint=f'use = "{GRAPH}"')
    for key in ("generator", "file", "neighbours"):
        if key in layer:
            raise UserError("the graph is passed from Python: remove this key", key=f"{name}.{key}")
    return layer


def records_file(given: Records, key: str) -> Path:
    """Write records to the cache and return the path of their file."""
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        return _kept(_parquet(given, key), ".parquet")
    if isinstance(given, tuple) and len(given) == 2:
        return _kept(_npz(*given, key), ".npz")
    raise UserError("expected a DataFrame, or a pair (features, labels)", key=key)


def _parquet(frame: pd.DataFrame, key: str) -> bytes:
    frame = frame.rename(columns=str)
    if not frame.columns.is_unique:
        raise UserError("two columns of the DataFrame have the same name", key=key)
    try:
        return frame.to_parquet(index=False)
    except (ValueError, TypeError, OverflowError) as error:  # pyarrow's errors are of these kinds
        raise UserError(f"the DataFrame cannot be stored as Parquet: {str(error).splitlines()[0]}", key=key) from None


def _npz(features: Any, labels: Any, key: str) -> bytes:
    x, y = np.asarray(features), np.asarray(labels)
    if y.dtype.kind == "O" and all(isinstance(label, str) for label in y.ravel()):
        y = y.astype(str)
    if x.dtype.kind not in "biuf" or y.dtype.kind not in "biufU":
        raise UserError("features must be numbers, labels numbers or text", key=key)
    file = io.BytesIO()
    np.savez(file, x=x, y=y)
    return file.getvalue()


def graph_file(graph: nx.Graph, name: str) -> Path:
    """Write a graph's adjacency matrix to the cache and return the path of its file."""
    import networkx as nx
    from scipy.sparse import save_npz

    if not isinstance(graph, nx.Graph):
        raise UserError(f"expected a networkx graph for “{name}”; got a {type(graph).__name__}", key=f"{name}.file")
    if not graph or set(graph) != set(range(len(graph))):
        raise UserError(
            f"the nodes of the graph for “{name}” must be the numbers 0 … {max(len(graph), 1) - 1}",
            key=f"{name}.file",
            hint="networkx.convert_node_labels_to_integers(graph) numbers them",
        )
    matrix = nx.to_scipy_sparse_array(graph, nodelist=range(len(graph)), dtype=np.int32, weight=None, format="csr")
    matrix.sum_duplicates()
    matrix.data[:] = 1
    file = io.BytesIO()
    save_npz(file, matrix)
    return _kept(file.getvalue(), ".npz")


def _kept(content: bytes, suffix: str) -> Path:
    """Return the path of a file with this content in the cache; write it if it does not exist."""
    try:
        folder = cache_folder() / "given"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / (hashlib.sha256(content).hexdigest()[:32] + suffix)
        if not path.is_file():
            write_whole(path, lambda aside: aside.write_bytes(content))
    except OSError as error:
        raise cannot_cache(error) from None
    return path
