"""The nodes: who is online, who acts in which order, and what carries their messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.state import Stateful
from golfsim.network import churn
from golfsim.network.adversaries import AdversaryConfig, Tampering
from golfsim.network.transport import Transport

EVERYBODY = np.empty(0, np.bool_)
NOBODY = np.empty(0, np.int32)


class AtOnce:
    """Do all work of a turn in the turn itself. `golfsim.sim.pipeline.Pipeline` lets some of it overlap."""

    active = False  # whether `later` postpones work

    def later(self, work: Callable[[], None]) -> None:
        """Do a piece of work that ends a layer's turn."""
        work()

    def settle(self) -> None:
        """Wait until all work is done."""


class World(Stateful):
    """All that layers share.

    A node's number is its phase: in a fixed order nodes act by rising number. The numbering is random, so that a
    user's number of a node (`label`) says nothing about when it acts.

    `came` are the nodes that came online in this cycle, `first` those of them that were never online before, and
    `fresh` those that need new state: the first ones, and those that come back afresh.
    """

    _not_state = frozenset(
        {"nodes", "threads", "seed", "label", "order", "came", "first", "fresh", "churn", "tampering", "pipeline"}
    )

    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        threads: int,
        shuffled: bool,
        transport: Transport,
        churn_configs: tuple[churn.ChurnConfig, ...] = (),
        adversaries: tuple[AdversaryConfig, ...] = (),
        folder: Path = Path(),
    ) -> None:
        self.nodes = nodes
        self.seed = seed
        self.threads = threads
        self.cycle = 0
        self.label = rng.permutation(rng.key(seed, "world", "label"), 0, nodes)
        self.online = np.zeros(nodes, np.bool_)
        self.seen = np.zeros(nodes, np.bool_)
        self.since = np.zeros(nodes, np.int32)  # the cycle in which each came online last
        self.last_came = 0  # the cycle in which anybody did
        self.restarts = np.zeros(nodes, np.bool_)  # who will start afresh when it is online again
        self.order = self.came = self.first = self.fresh = NOBODY
        self.churn: list[churn.Churn[Any]] = churn.build(churn_configs, seed, self.label, folder)
        self.tampering = Tampering(adversaries, seed, nodes)
        self.transport = transport
        self._order_key = rng.key(seed, "world", "order")
        self._shuffled = shuffled
        self.pipeline = AtOnce()
        transport.attach(self)

    def advance(self) -> None:
        """Begin the next cycle: who is online, who has just come, who acts when."""
        self.cycle += 1
        if self.churn or self.cycle == 1:
            self._update_online()
        else:
            self.came = self.first = self.fresh = NOBODY
        self.arrange()

    def presence(self) -> NDArray[np.bool_]:
        """Who is online, for kernels; without entries while everybody is, which saves them a look at each peer."""
        return EVERYBODY if self.order.size == self.nodes else self.online

    def _update_online(self) -> None:
        self._step_churn()
        before, now = self.online, churn.all_up(self.churn, self.nodes)
        self.came = np.flatnonzero(now & ~before).astype(np.int32)
        new = ~self.seen[self.came]
        self.first = self.came[new]
        self.fresh = self.came[new | self.restarts[self.came]]
        self.seen[self.first] = True
        self.since[self.came] = self.cycle
        self.last_came = self.cycle if self.came.size else self.last_came
        self.restarts[self.came] = False
        self.online = now
        self.order = NOBODY

    def _step_churn(self) -> None:
        """Bring all churn models to this cycle, and note whom one of them restarts afresh."""
        for model in self.churn:
            before = model.up.copy() if model.afresh else model.up
            model.step(self.cycle)
            if model.afresh:
                self.restarts |= model.up & ~before

    def arrange(self) -> None:
        """Put the online nodes in acting order."""
        if self._shuffled or self.order is NOBODY:
            self.order = np.flatnonzero(self.online).astype(np.int32)
        if self._shuffled:
            self.order = self.order[rng.permutation(self._order_key, self.cycle, self.order.size)]
