"""Let each node take its turns by a clock of its own: with a period, a phase, and intervals that vary.

Time is counted in cycles: cycle c lasts from c until c + 1, and a node whose turn is at time t acts in cycle ⌊t⌋. So a
node acts once per cycle without these settings, and otherwise less often, or several times in the same cycle.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.kernels import kernel
from golfsim.core.maths import cos_of_turns, log
from golfsim.core.rng import draw, unit
from golfsim.core.state import Stateful

if TYPE_CHECKING:
    from golfsim.network.world import World

SHORTEST = 0.5  # of a period


@kernel
def set_next(nodes, due, turns, period, jitter, fixed, key):
    """Set the time of the next turn of some nodes: one interval later.

    Parameters
    ----------
    nodes : array of int32
        The nodes.
    due : array of float64, shape (nodes of the network,)
        The time of the next turn of each node; changed in place.
    turns : array of int32, shape (nodes of the network,)
        The number of intervals of each node so far; changed in place.
    period : float
        The mean interval, in cycles.
    jitter : float
        The standard deviation of the intervals, as a share of the period.
    fixed : bool
        Whether all intervals of a node are equal.
    key : uint64
        The key of the draws.
    """
    for i in nodes:
        factor = 1.0
        if jitter > 0:
            number = 0 if fixed else turns[i] + 1
            radius = np.sqrt(-2 * log(unit(draw(key, number, i, 0))))
            factor = max(1 + jitter * (radius * cos_of_turns(unit(draw(key, number, i, 1)))), SHORTEST)
        due[i] += factor * period
        turns[i] += 1


class Clock(Stateful):
    """The time of the next turn of each node.

    Parameters
    ----------
    nodes : int
        The number of nodes of the network.
    period : float
        The mean interval between two turns of a node, in cycles.
    random_phase : bool
        Whether the first turn of a node is at a random time of its first period, or at once.
    jitter : float
        The standard deviation of the intervals, as a share of the period.
    fixed : bool
        Whether each node has one interval for all of its turns.
    at_return : bool
        Whether a node that returns takes a turn at once and then waits for an interval, or keeps its times.
    key : uint64
        The key of the draws.
    """

    def __init__(
        self, nodes: int, *, period: float, random_phase: bool, jitter: float, fixed: bool, at_return: bool,
        key: np.uint64,
    ) -> None:  # fmt: skip
        self.due = np.zeros(nodes)  # 0: the node was never online
        self.turns = np.zeros(nodes, np.int32)
        self.asked = 0  # the last cycle in which nodes took turns
        self._period, self._jitter, self._fixed = period, jitter, fixed
        self._random_phase, self._at_return = random_phase, at_return
        self._key = key

    @staticmethod
    def most(period: float, jitter: float, at_return: bool) -> int:
        """Return the largest number of turns of a node in a cycle."""
        return math.ceil((2 if jitter or at_return else 1) / period)

    def senders(self, world: World) -> NDArray[np.int32]:
        """Return the nodes that act in this cycle, by the times of their turns; a node may occur several times.

        Turns at the same time are in acting order. Turns while a node was offline are left out.
        """
        nodes, cycle = world.order, world.cycle
        self._begin(world, nodes)
        while (missed := nodes[self.due[nodes] < cycle]).size:
            self._set_next(missed)
        acting, times = [nodes[:0]], [self.due[:0]]
        while (now := nodes[self.due[nodes] < cycle + 1]).size:
            acting.append(now)
            times.append(self.due[now])
            self._set_next(now)
        found = np.concatenate(acting)
        place = np.empty(world.nodes, np.int64)
        place[nodes] = np.arange(nodes.size)
        return found[np.lexsort((place[found], np.concatenate(times)))]

    def _begin(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Set the first turn of nodes that are online for the first time, and of those that return."""
        last, self.asked = self.asked, world.cycle
        if self._at_return:
            back = nodes[(world.since[nodes] > last) & (self.due[nodes] > 0)]
            self.due[back] = world.cycle
        new = nodes[self.due[nodes] == 0]
        phase = rng.uniform(self._key, new) * self._period if self._random_phase else 0.0
        self.due[new] = world.cycle + phase

    def _set_next(self, nodes: NDArray[np.int32]) -> None:
        set_next(nodes, self.due, self.turns, self._period, self._jitter, self._fixed, self._key)
