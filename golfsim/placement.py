"""Who holds which records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golfsim import rng
from golfsim.errors import UserError
from golfsim.settings import NodesConfig


def node_count(config: NodesConfig, records: int | None) -> int:
    """The number of nodes: as given, or as many as the records fill."""
    if config.number is not None:
        return config.number
    assert records is not None
    if records < config.records:
        raise UserError(f"{records} records do not fill one node of {config.records}", key="nodes.records")
    return records // config.records


def place(config: NodesConfig, records: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Spread records over nodes at random: (records in the order of the nodes, how many each node gets)."""
    nodes = node_count(config, records)
    wanted = nodes * config.records
    if wanted < records and not config.leave_out:
        raise UserError(
            f"{nodes} nodes of {config.records} records hold {wanted} of the {records} records",
            key="nodes.number" if config.number is not None else "nodes.records",
            hint="say leave_out = true in [nodes] to leave the others out, or change the numbers",
        )
    if wanted > records and not config.repeat:
        raise UserError(
            f"{nodes} nodes of {config.records} records need {wanted} records; there are {records}",
            key="nodes.number",
            hint="say repeat = true in [nodes] to use records more than once, or change the numbers",
        )
    shuffled = rng.permutation(rng.key(seed, "nodes", "placement"), 0, records).astype(np.int64)
    return np.resize(shuffled, wanted), np.full(nodes, config.records, np.int64)


def by_node(
    rows: NDArray[np.int64], counts: NDArray[np.int64], label: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same placement in the world's numbering: (records in the order of the nodes, where each node's end)."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    stop = np.cumsum(counts[label])
    within = np.arange(rows.size) - np.repeat(stop - counts[label], counts[label])
    return rows[np.repeat(starts[label], counts[label]) + within], stop.astype(np.int64)
