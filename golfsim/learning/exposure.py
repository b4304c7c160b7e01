"""What attacking nodes learn about the record of another node from the models that they send and receive.

A linear model is updated as w' = decay·w + step·yx. A node that knows w and w' knows step·yx. The protocols find these
pairs among the messages that reach attackers, and add the differences here. No protocol reads them: they change no
number of a run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.state import Stateful
from golfsim.protocol.records import Rows

NOBODY = -1  # the group of nodes that do not attack
ROUNDING = 2.0**-20  # a difference below this share of a model is an error of rounding
Noted = dict[tuple[int, int], "Note"]


class Note(NamedTuple):
    """A model that attackers know, with three numbers that belong to it."""

    w: NDArray[np.float64]  # [models, features]
    numbers: tuple[float, float, float]


class Exposure(Stateful):
    """The differences that each group of attackers has seen, by record.

    Differences of the same record are added up, each divided by the largest step size of its update: so all have the
    same scale, also with noise.

    Parameters
    ----------
    group : array of int32, shape (nodes,)
        The group of each node; nodes of a group share what they see. NOBODY: the node does not attack.
    """

    def __init__(self, group: NDArray[np.int32]) -> None:
        self._group = group
        self._notes: dict[str, Noted] = {"found": {}}
        self.version = np.zeros(group.size, np.int64)  # of each node: how many messages have changed its model
        self.public = np.zeros(group.size, np.int64)  # the version in which everyone knows its model

    @property
    def group(self) -> NDArray[np.int32]:
        """The group of each node."""
        return self._group

    @property
    def found(self) -> Noted:
        """The sums of differences, by group and record."""
        return self._notes["found"]

    def notes(self, name: str) -> Noted:
        """Return what a protocol has noted under a name; it is part of checkpoints."""
        return self._notes.setdefault(name, {})

    def add(
        self, group: int, node: int, difference: NDArray[np.float64], size: float, largest: float, rows: Rows
    ) -> None:
        """Add what a group has seen of the update of a node, if the node has a single record.

        Parameters
        ----------
        group : int
            The group of attackers.
        node : int
            The node that made the update.
        difference : array of float64, shape (models, features)
            The difference that the update made.
        size : float
            The largest step size of the update.
        largest : float
            The largest number of the models that were subtracted.
        rows : Rows
            The records.
        """
        record = int(rows.first[node])
        if int(rows.stop[node]) - record != 1:
            return
        if float(np.abs(difference).max()) <= ROUNDING * largest:
            difference = np.zeros_like(difference)
        before = self.found.get((group, record))
        total = difference / (size if np.isfinite(size) else 1.0)
        seen = 1.0 if before is None else before.numbers[0] + 1
        self.found[group, record] = Note(total if before is None else before.w + total, (seen, 0.0, 0.0))

    def state(self) -> dict[str, Any]:
        """Return the versions and all notes as arrays."""
        arrays = super().state()
        for name, notes in self._notes.items():
            keys = sorted(notes)
            arrays[f"{name}/keys"] = np.array(keys, np.int64).reshape(-1, 2)
            arrays[f"{name}/numbers"] = np.array([notes[key].numbers for key in keys], np.float64).reshape(-1, 3)
            arrays[f"{name}/w"] = np.array([notes[key].w for key in keys], np.float64)
        return arrays

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore what `state` has returned."""
        super().restore({name: array for name, array in arrays.items() if "/" not in name})
        self._notes = {name.removesuffix("/keys"): {} for name in arrays if name.endswith("/keys")}
        for name, notes in self._notes.items():
            parts = (arrays[f"{name}/{part}"] for part in ("keys", "w", "numbers"))
            for (one, other), w, (a, b, c) in zip(
                *(part.tolist() if part.ndim == 2 else part for part in parts), strict=True
            ):
                notes[one, other] = Note(np.array(w), (a, b, c))
