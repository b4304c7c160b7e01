"""The nodes: who is online, who acts in which order, and what carries their messages."""

from __future__ import annotations

import numpy as np

from golfsim import rng
from golfsim.churn import Churn, all_up
from golfsim.state import Stateful
from golfsim.transport import Transport

NOBODY = np.empty(0, np.int32)


class World(Stateful):
    """All that layers share.

    A node's number is its phase: in a fixed order nodes act by rising number. The numbering is random, so that a
    user's number of a node (`label`) says nothing about when it acts.
    """

    _not_state = frozenset({"nodes", "threads", "seed", "label", "order", "came", "first", "churn"})

    def __init__(
        self, nodes: int, seed: int, *, threads: int, shuffled: bool, churn: list[Churn], transport: Transport
    ) -> None:
        self.nodes = nodes
        self.seed = seed
        self.threads = threads
        self.cycle = 0
        self.label = rng.permutation(rng.key(seed, "world", "label"), 0, nodes)
        self.online = np.zeros(nodes, np.bool_)
        self.seen = np.zeros(nodes, np.bool_)
        self.order = self.came = self.first = NOBODY
        self.churn = churn
        self.transport = transport
        self._order_key = rng.key(seed, "world", "order")
        self._shuffled = shuffled
        transport.attach(self)

    def advance(self) -> None:
        """Begin the next cycle: who is online, who has just come, who acts when."""
        self.cycle += 1
        for model in self.churn:
            model.step(self)
        if self.churn or self.cycle == 1:
            self._update_online()
        else:
            self.came = self.first = NOBODY
        self.arrange()

    def _update_online(self) -> None:
        before, now = self.online, all_up(self.churn, self.nodes)
        self.came = np.flatnonzero(now & ~before).astype(np.int32)
        self.first = self.came[~self.seen[self.came]]
        self.seen[self.first] = True
        self.online = now
        self.order = NOBODY

    def arrange(self) -> None:
        """Put the online nodes in acting order."""
        if self._shuffled or self.order is NOBODY:
            self.order = np.flatnonzero(self.online).astype(np.int32)
        if self._shuffled:
            self.order = self.order[rng.permutation(self._order_key, self.cycle, self.order.size)]
