"""A protocol that breaks what must always hold, in a way of the user's choice, from a cycle on."""

import numpy as np
from scipy.sparse import csr_array

from golfsim.network.mailbox import Mailbox
from golfsim.privacy.ledger import Ledger, UniformSchedule
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.learner import Learner
from golfsim.protocol.overlay import Overlay


class BrokenConfig(LayerConfig):
    """What goes wrong, when and where."""

    fault: str = "none"
    at: int = 1
    node: int = 0  # the user's number


class Broken(Overlay[BrokenConfig], Learner[BrokenConfig]):
    """Each node counts its cycles, spends a visit in the first one and sends itself a letter each time."""

    Config = BrokenConfig
    accepts = frozenset({"delay"})

    def setup(self, world):
        self.value = np.zeros(world.nodes)
        self.w = np.zeros((world.nodes, 1, 2), np.float32)
        self.ledger = Ledger(UniformSchedule(kind="uniform", visits=2), 1.0, world.nodes)
        self.mail = Mailbox(self, world, value=self.value)

    def step(self, world):
        self.mail.due(world)
        self.value[world.order] += 1
        self.ledger.visits[world.order] = np.minimum(self.ledger.visits[world.order] + 1, 2)
        arrives, lag = world.transport.send(self, "letter", world.order, world.order, 8)
        self.mail.put(world, lag, world.order, world.order, arrives, value=self.value)
        if world.cycle >= self.config.at:
            node = int(np.flatnonzero(world.label == self.config.node)[0])
            getattr(self, f"_{self.config.fault}", lambda *_: None)(world, node)

    def _touch(self, world, node):
        self.value[node] += 1

    def _refund(self, world, node):
        self.ledger.visits[node] -= 1

    def _overspend(self, world, node):
        self.ledger.visits[node] += 1

    def _overflow(self, world, node):
        self.w[node, 0, 1] = np.inf

    def _forget_a_letter(self, world, node):
        world.transport.count(self, sent=1, delivered=0, lost=0)

    def _count_backwards(self, world, node):
        world.transport.count(self, sent=-99, delivered=-99, lost=0)

    def choose(self, world, nodes, key, k=0):
        return nodes

    def links(self, world):
        node = int(np.flatnonzero(world.label == self.config.node)[0])
        others = [i for i in range(world.nodes) if i != node][:2]
        peers = {"know_itself": [others[0], node], "know_twice": [others[1], others[0], others[1]]}
        row = peers.get(self.config.fault, others) if world.cycle >= self.config.at else others
        start = np.where(np.arange(world.nodes + 1) > node, len(row), 0)
        return csr_array((np.ones(len(row), np.int8), np.array(row, np.int32), start), shape=(world.nodes,) * 2)
