"""Export of published records for other programs: Parquet with the guarantee in its metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import chacha
from golfsim.core.errors import UserError, nearest
from golfsim.core.files import write_whole
from golfsim.protocol.base import with_layers_below
from golfsim.protocol.records import Published, ranges
from golfsim.protocol.symbols import Symbols, are_symbols, symbols_of

if TYPE_CHECKING:
    from golfsim.sim.simulation import Simulation

WARNING = (
    "for research, not for release: see “Limits of the guarantees” in docs/privacy.md; every further export of the "
    "same records spends ε again"
)
OWN_COLUMNS = ("node", "record", "problem", "label")


def prepare(simulation: Simulation, name: str | None) -> Published[Any]:
    """Return the publishing layer of that name, or the only one, and give it noise that nobody can repeat.

    The secret comes from the operating system, is new in every call, and is stored only in memory. All layers are set
    up again, so the simulation must be before its first cycle.
    """
    layer, secret = _find(simulation, name), chacha.new_secret()
    for below in with_layers_below(layer).values():
        below.redraw_secrets(secret)
    for each in simulation.layers.values():
        each.setup(simulation.world)
    return layer


def _find(simulation: Simulation, name: str | None) -> Published[Any]:
    layers = {key: layer for key, layer in simulation.layers.items() if isinstance(layer, Published)}
    if name is None and len(layers) == 1:
        return next(iter(layers.values()))
    if name not in layers:
        what = "several layers publish records" if layers else "no layer publishes records"
        hint = nearest(name or "", layers) if layers else "add a layer that publishes, e.g. data_perturbation"
        raise UserError(f"there is no publishing layer “{name}”" if name else what, hint=hint)
    return layers[name]


def column_names(features: Iterable[str]) -> list[str]:
    """Return the column of each feature: its name, or, where a column of that name exists, “feature_” and its name."""
    names = list(features)
    taken, columns = {*OWN_COLUMNS, *names}, list[str]()
    for name in names:
        column = name
        if name in OWN_COLUMNS or name in columns:
            while column in taken:
                column = f"feature_{column}"
        taken.add(column)
        columns.append(column)
    return columns


def write(simulation: Simulation, layer: Published[Any], features: tuple[str, ...], path: Path) -> int:
    """Write one row per published vector and return their number.

    A row has the node, the record, the binary problem (or the label), and the published features. Published symbols
    have one row per report, with the symbols that it names. Only a layer from `prepare` is written: the noise of any
    other layer follows from the seed.
    """
    import pyarrow as pa

    _refuse_noise_of_the_seed(layer)
    rows, models = layer.rows, layer.models
    records = ranges(rows.first, rows.stop)
    node = simulation.world.label[np.repeat(np.arange(simulation.world.nodes), rows.stop - rows.first)]
    named = column_names(features)
    about = {
        "golfsim.guarantee": str(layer.guarantee()),
        "golfsim.warning": WARNING,
        "golfsim.features": json.dumps(dict(zip(named, features, strict=True)), ensure_ascii=False),
    }
    if are_symbols(rows.x):
        columns, more = _symbols(rows.x, records, node)
        return _written(pa.table(columns).replace_schema_metadata(about | more), path)
    slices = models if rows.folded else 1
    places = (records[:, None] * slices + np.arange(slices)).ravel()
    columns = {"node": np.repeat(node, slices), "record": np.repeat(records, slices)}
    if rows.folded:
        columns["problem"] = np.tile(np.arange(slices), records.size)
    else:
        columns["label"] = rows.label[records]
    columns |= {column: rows.x[places, f] for f, column in enumerate(named)}
    return _written(pa.table(columns).replace_schema_metadata(about), path)


def _symbols(x: Symbols, records: NDArray[np.int64], node: NDArray[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return one row per report: the symbols that it names, and the constants of the estimate; and what they mean."""
    symbols, ends = symbols_of(x, records)
    columns = {
        "node": np.repeat(node, x.samples),
        "record": np.repeat(records, x.samples),
        "sample": np.tile(np.arange(x.samples), records.size),
        "symbols": np.split(symbols, ends[:-1]) if ends.size else [],
        "low": np.repeat(x.low[records], x.samples),
        "gain": np.repeat(x.gain[records] * x.samples, x.samples),
    }
    signs = 1 << x.signs
    code = f"(class * {x.shape[1]} + feature){' * 2 + (1 if negative else 0)' if x.signs else ''}"
    estimate = "a report estimates low for each symbol, plus gain for each symbol that it names"
    about = {"classes": x.classes, "features": x.shape[1], "signs": signs, "symbol": code, "estimate": estimate}
    return columns, {"golfsim.symbols": json.dumps(about)}


def _written(table: Any, path: Path) -> int:
    """Write a table and return the number of its rows."""
    import pyarrow.parquet as pq

    write_whole(path, lambda aside: pq.write_table(table, aside, compression="zstd"))
    return int(table.num_rows)


def _refuse_noise_of_the_seed(layer: Published[Any]) -> None:
    """Refuse a layer that states a guarantee and has not asked for a secret key."""
    epsilon = layer.guarantee().epsilon
    private = epsilon is not None and not math.isinf(epsilon)
    if private and not any(each.unrepeatable for each in with_layers_below(layer).values()):
        raise UserError(
            f"the noise of “{layer.name}” follows from the seed of the scenario, so an export would not be private",
            key=layer.name,
            hint="draw the noise with self.key(purpose), for a purpose that the class names in `secret`",
            docs="privacy",
        )
