"""Export of published records for other programs: Parquet with the guarantee in its metadata."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.core.errors import UserError, nearest
from golfsim.core.files import write_whole
from golfsim.protocol.records import Published, ranges

if TYPE_CHECKING:
    from golfsim.sim.simulation import Simulation

WARNING = (
    "for research, not for release: the noise is simulated, and anyone who knows or guesses the seed can remove it"
)


def find(simulation: Simulation, name: str | None) -> Published[Any]:
    """Return the publishing layer of that name, or the only one."""
    layers = {key: layer for key, layer in simulation.layers.items() if isinstance(layer, Published)}
    if name is None and len(layers) == 1:
        return next(iter(layers.values()))
    if name not in layers:
        what = "several layers publish records" if layers else "no layer publishes records"
        hint = nearest(name or "", layers) if layers else "add a layer that publishes, e.g. data_perturbation"
        raise UserError(f"there is no publishing layer “{name}”" if name else what, hint=hint)
    return layers[name]


def write(simulation: Simulation, layer: Published[Any], features: tuple[str, ...], path: Path) -> int:
    """Write one row per published vector and return their number.

    A row has the node, the record, the binary problem (or the label), and the published features.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, models = layer.rows, layer.models
    records = ranges(rows.first, rows.stop)
    node = simulation.world.label[np.repeat(np.arange(simulation.world.nodes), rows.stop - rows.first)]
    slices = models if rows.folded else 1
    places = (records[:, None] * slices + np.arange(slices)).ravel()
    columns: dict[str, Any] = {"node": np.repeat(node, slices), "record": np.repeat(records, slices)}
    if rows.folded:
        columns["problem"] = np.tile(np.arange(slices), records.size)
    else:
        columns["label"] = rows.label[records]
    columns |= {name: rows.x[places, f] for f, name in enumerate(features)}
    # Neither the seed nor the scenario, which contains it: with them the noise could be computed and removed.
    about = {"golfsim.guarantee": str(layer.guarantee()), "golfsim.warning": WARNING}
    table = pa.table(columns).replace_schema_metadata(about)
    write_whole(path, lambda aside: pq.write_table(table, aside, compression="zstd"))
    return int(table.num_rows)
