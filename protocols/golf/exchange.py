"""What attackers learn from the models that they exchange with a node of Golf (see `golfsim.learning.exposure`).

An attacker sends its model to a node, which updates it, and may later receive the model of that node. It can subtract
everything but the update if it knows all other models that the node has used:

- `rw`: none. The answer is the update of the attacker's model.
- `algorithm1` and `own`: the node's model before. The node must have sent it to the attacker.
- `mu` and `um`: the model that the node has received before. It must have come from the attacker, too.

The first model of every node is public. A message from anyone else in between makes the node's model unknown again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golfsim.learning.exposure import NOBODY, Exposure, Note
from golfsim.learning.merging import limited_share_of, share_of
from golfsim.learning.updates import decay_of, reach_of
from protocols.golf.receiving import ALGORITHM1, MU, OWN, RW, UM

if TYPE_CHECKING:
    from golfsim.learning.kinds import Rule
    from golfsim.protocol.records import Rows
    from protocols.golf.receiving import Merging

Known = tuple[NDArray[np.float64], int]  # a model and its age


class Exchange:
    """Follow the messages that attackers send and receive.

    Parameters
    ----------
    exposure : Exposure
        What attackers know; changed here.
    initial : array of float32, shape (models, features)
        The first model of all nodes, which is public.
    merging : Merging
        How nodes merge models.
    updated_first : bool
        Whether nodes update the first model before they send it.
    """

    def __init__(self, exposure: Exposure, initial: NDArray[np.float32], merging: Merging, updated_first: bool) -> None:
        self._exposure, self._merging, self._updated_first = exposure, merging, updated_first
        self._initial = initial.astype(np.float64)

    def restart(self, nodes: NDArray[np.int32]) -> None:
        """Note that these nodes have the first model again."""
        self._exposure.version[nodes] += 1
        self._exposure.public[nodes] = self._exposure.version[nodes]

    def involved(self, sender: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return which messages attackers send or receive."""
        group = self._exposure.group
        return np.flatnonzero((group[sender] != NOBODY) | (group[dst] != NOBODY))

    def of_others(self, dst: NDArray[np.int32]) -> None:
        """Note that these nodes have received models that no attacker knows."""
        np.add.at(self._exposure.version, dst, 1)

    def message(
        self, sender: int, dst: int, w: NDArray[np.float32], age: int, learned: bool, rule: Rule, rows: Rows
    ) -> None:
        """Note that a model has arrived, and what the attackers at either end learn from it.

        Parameters
        ----------
        sender, dst : int
            The sender and the receiver.
        w : array of float32, shape (models, features)
            The model as it arrived.
        age : int
            Its age.
        learned : bool
            Whether the receiver has updated it.
        rule : Rule
            The update rule.
        rows : Rows
            The records of the nodes.
        """
        version, group, model = self._exposure.version, self._exposure.group, w.astype(np.float64)
        listener, speaker = int(group[dst]), int(group[sender])
        if listener not in (NOBODY, speaker):
            self._hear(sender, listener, (model, age), rule, rows)
        expected = None
        if speaker not in (NOBODY, listener) and learned:
            expected = self._expected(dst, speaker, (model, age), rule)
        version[dst] += 1
        if speaker not in (NOBODY, listener):
            self._exposure.notes("last")[dst, speaker] = Note(model, (float(age), float(version[dst]), 0.0))
        if expected is not None:
            base, size = expected
            self._exposure.notes("expected")[dst, speaker] = Note(base, (size, float(version[dst]), 0.0))

    def _hear(self, sender: int, group: int, model: Known, rule: Rule, rows: Rows) -> None:
        """Let a group subtract what it expects of a node without the update, and note the model of the node."""
        version = float(self._exposure.version[sender])
        known, expected = self._exposure.notes("known"), self._exposure.notes("expected")
        told = (sender, group) in known and known[sender, group].numbers[1] == version
        note = expected.pop((sender, group), None)
        if note is None and self._updated_first and not told and version == self._exposure.public[sender]:
            note = Note(float(decay_of(rule, 1)) * self._initial, (float(reach_of(rule, 1)), version, 0.0))
        if note is not None and note.numbers[1] == version:
            largest = max(float(np.abs(model[0]).max()), float(np.abs(note.w).max()))
            self._exposure.add(group, sender, model[0] - note.w, note.numbers[0], largest, rows)
        known[sender, group] = Note(model[0], (float(model[1]), version, 0.0))

    def _expected(self, node: int, group: int, received: Known, rule: Rule) -> tuple[NDArray[np.float64], float] | None:
        """Return the node's model after it receives one, without the step along its record, and the largest step.

        None: it depends on a model that the group does not know.
        """
        w, age = received
        merging, variant = self._merging, self._merging.variant
        if variant == RW:
            return self._after(w, age + 1, rule)
        other = self._look_up("last" if variant in (MU, UM) else "known", node, group)
        if other is None:
            return None
        if variant == MU:
            share = float(share_of(age, other[1], merging.by_age))
            return self._after(share * w + (1 - share) * other[0], max(age, other[1]) + 1, rule)
        if variant == OWN:
            share = float(limited_share_of(age, other[1], merging.by_age, merging.limit))
            return self._after(share * w + (1 - share) * other[0], max(age, other[1]) + 1, rule)
        fresh, size = self._after(w, age + 1, rule)
        if variant == ALGORITHM1:
            share = float(share_of(age + 1, other[1], merging.by_age))
            return share * fresh + (1 - share) * other[0], share * size
        older, step = self._after(other[0], other[1] + 1, rule)
        share = float(share_of(other[1] + 1, age + 1, merging.by_age))
        return share * older + (1 - share) * fresh, share * step + (1 - share) * size

    def _after(self, w: NDArray[np.float64], age: int, rule: Rule) -> tuple[NDArray[np.float64], float]:
        """Return a model after an update without its step, and the largest step."""
        return float(decay_of(rule, age)) * w, float(reach_of(rule, age))

    def _look_up(self, name: str, node: int, group: int) -> Known | None:
        """Return what a group knows of a node: its own model, or the last model that it has received."""
        version, note = self._exposure.version[node], self._exposure.notes(name).get((node, group))
        if note is not None and note.numbers[1] == version:
            return note.w, int(note.numbers[0])
        if version == self._exposure.public[node] and not (name == "known" and self._updated_first):
            return self._initial, 0
        return None
