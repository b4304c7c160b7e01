"""What an audit sees of canaries in layers that update models: each update, or only the models that some nodes receive.

An update at the node of a canary is compared with the two updates that the model would get without noise, from the one
content of the canary and from the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.learning.kinds import Rule, learner_of, with_room
from golfsim.learning.updates import Seen, reach_of, update
from golfsim.protocol.canaries import Canaries, closer
from golfsim.protocol.records import Rows

Floats = NDArray[np.float64]
MOST = 8  # updates per canary that are kept,
LARGEST_KEPT = 2**30  # if they take no more bytes than this; one is always kept


@kernel
def update_again(seen, number, nodes, rows, rule, out):
    """Repeat the kept updates of one number at all watched nodes without noise, with these records.

    Parameters
    ----------
    seen : Seen
        The kept updates.
    number : int
        The number of the update at each node.
    nodes : array of int32, shape (watched,)
        The watched nodes.
    rows : Rows
        The records.
    rule : Rule
        The update rule.
    out : array of float32, shape (watched, models, features)
        The models after the update; those of nodes without it stay as they are.
    """
    rule = with_room(rule)
    for place in range(nodes.size):
        if number < seen.kept[place]:
            update(seen.before[place, number], 0, seen.age[place, number], rows, nodes[place], rule, out[place])


def reach(rule: Rule, age: int) -> float:
    """Return the largest change by an update of a model of this age, up to a factor that is the same for all ages."""
    if learner_of(rule).linear:
        return float(reach_of(rule, age + 1))
    return float(rule.steps.rate / (1 + rule.steps.fade * age)) if rule.steps else 1.0


def closer_updates(seen: Seen, canaries: Canaries, rows: Rows, rule: Rule, kind: int) -> Floats:
    """Return for each canary how much closer its updates are to those with the first content: [canaries, 1].

    Parameters
    ----------
    seen : Seen
        The kept updates.
    canaries : Canaries
        The canaries.
    rows : Rows
        The records.
    rule : Rule
        The update rule.
    kind : int
        The kind of noise.
    """
    found, sides = np.zeros((canaries.node.size, 1)), canaries.candidates(rows)
    for number in range(int(seen.kept.max(initial=0))):
        there = np.flatnonzero(seen.kept > number)
        clean = []
        for side in sides:
            out = np.zeros_like(seen.after[:, 0])
            update_again(seen, number, canaries.node, side, rule, out)
            clean.append(out[there].astype(np.float64))
        unit = np.array([reach(rule, int(age)) for age in seen.age[there, number]])
        scaled = [each / unit[:, None, None] for each in (seen.after[there, number].astype(np.float64), *clean)]
        found[there, 0] += closer(scaled[0], scaled[1], scaled[2], kind)
    return found


class Arrivals:
    """The models that the observers receive directly after an update at the node of a canary.

    For each canary the first such model counts. It is multiplied by its age, and what the observer knew before is
    subtracted: then the updates in between remain, if steps have the size 1/(λt).
    """

    def __init__(self, canaries: Canaries, seen: Seen, nodes: int) -> None:
        assert canaries.observers is not None
        self.observes = np.zeros(nodes, np.bool_)
        self.observes[canaries.observers] = True
        self.found: Floats = np.zeros(seen.after[:, 0].shape)
        self._there = np.zeros(canaries.node.size, np.bool_)
        self._seen = seen
        self._known: dict[int, Floats] = {}  # the model of each walker when it last was at an observer
        self._visited: dict[int, list[int]] = {}  # the canaries that each walker has visited since then

    def receive(self, sender: int, age: int, w: Floats, own_age: int, own: Floats) -> None:
        """Let an observer receive a model from a node."""
        place = int(self._seen.place[sender])
        if place >= 0 and self._seen.kept[place] and not self._there[place]:
            self._keep(place, age * w - own_age * own)

    def _keep(self, place: int, moved: Floats) -> None:
        self._there[place] = True
        self.found[place] = moved

    def arrive(self, walker: int, age: int, w: Floats) -> None:
        """Let a walker arrive at an observer."""
        moved = age * w.astype(np.float64)
        for place in self._visited.pop(walker, []):
            self._keep(place, moved - self._known.get(walker, np.zeros_like(moved)))
        self._known[walker] = moved

    def visit(self, walker: int, node: int) -> None:
        """Note that a walker has visited a node."""
        place = int(self._seen.place[node])
        if place >= 0 and self._seen.kept[place] and not self._there[place]:
            noted = self._visited.setdefault(walker, [])
            if place not in noted:
                noted.append(place)

    def evidence(self, canaries: Canaries) -> Floats:
        """Return the coordinates of these models in which a canary can differ: [canaries, numbers]."""
        features = canaries.inside.x.size
        axes = np.flatnonzero((canaries.inside.x != 0) | (canaries.outside.x != 0))
        shown = self.found[..., axes] if self.found[0].shape[-1] == features else self.found
        return np.asarray(shown.reshape(len(self.found), -1), np.float64)
