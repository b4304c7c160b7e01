"""The nodes: which are online, in which order they act, and the transport of their messages."""

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
    """Do all work of a turn within the turn. `golfsim.sim.pipeline.Pipeline` lets some of it overlap."""

    active = False  # whether `later` postpones work

    def later(self, work: Callable[[], None]) -> None:
        """Do a piece of work that ends a layer's turn."""
        work()

    def settle(self) -> None:
        """Wait until all work is done."""


class World(Stateful):
    """The state that all layers share.

    In a fixed order nodes act by ascending internal number. Internal numbers are random, so the number of a node in
    files and in the log (`label`) does not determine when it acts.

    `came` has the nodes that came online in this cycle, `first` those of them that were never online before, and
    `fresh` those that need new state: the nodes in `first`, and nodes that are reset when they return.

    Parameters
    ----------
    nodes : int
        The number of nodes.
    seed : int
        The seed of the run.
    threads : int
        The number of threads that layers may use.
    shuffled : bool
        Whether the order of nodes is drawn in every cycle.
    transport : Transport
        The transport of messages.
    churn_configs : tuple of ChurnConfig
        The churn models.
    adversaries : tuple of AdversaryConfig
        The adversarial nodes.
    folder : Path
        The folder of the scenario, for files with relative paths.
    """

    _not_state = frozenset(
        {
            "nodes",
            "threads",
            "seed",
            "label",
            "order",
            "came",
            "first",
            "fresh",
            "churn",
            "tampering",
            "pipeline",
            "turn",
        }
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
        self.turn = 0  # the number of the turn within this cycle, of a layer that takes several
        self.label = rng.permutation(rng.key(seed, "world", "label"), 0, nodes)
        self.online = np.zeros(nodes, np.bool_)
        self.seen = np.zeros(nodes, np.bool_)
        self.since = np.zeros(nodes, np.int32)  # the last cycle in which each node came online
        self.last_came = 0  # the last cycle in which any node came online
        self.restarts = np.zeros(nodes, np.bool_)  # the nodes that will be reset when they are online again
        self.order = self.came = self.first = self.fresh = NOBODY
        self.churn: list[churn.Churn[Any]] = churn.build(churn_configs, seed, self.label, folder)
        self.tampering = Tampering(adversaries, seed, nodes)
        self.transport = transport
        self._order_key = rng.key(seed, "world", "order")
        self._shuffled = shuffled
        self.pipeline = AtOnce()
        transport.attach(self)

    def advance(self) -> None:
        """Begin the next cycle: update which nodes are online, which came online now, and the order of nodes."""
        self.cycle += 1
        if self.churn or self.cycle == 1:
            self._update_online()
        else:
            self.came = self.first = self.fresh = NOBODY
        self.arrange()

    def presence(self) -> NDArray[np.bool_]:
        """Return which nodes are online, for kernels. The array is empty if all are, which saves a look-up per peer."""
        return EVERYBODY if self.order.size == self.nodes else self.online

    def _update_online(self) -> None:
        self._step_churn()
        before, now = self.online, churn.all_up(self.churn, self.nodes)
        came = now & ~before
        for model in self.churn:
            came[model.renewed] = now[model.renewed]
        self.came = np.flatnonzero(came).astype(np.int32)
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
        """Update all churn models to this cycle, and note the nodes that one of them resets."""
        for model in self.churn:
            before = model.up.copy() if model.afresh else model.up
            model.step(self.cycle)
            if model.afresh:
                self.restarts |= model.up & ~before
                self.restarts[model.renewed] = True

    def arrange(self) -> None:
        """Put the online nodes in the order in which they act."""
        if self._shuffled or self.order is NOBODY:
            self.order = np.flatnonzero(self.online).astype(np.int32)
        if self._shuffled:
            self.order = self.order[rng.permutation(self._order_key, self.cycle, self.order.size)]
