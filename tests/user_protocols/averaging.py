"""A protocol as its author writes it: DESIGN.md's example, word for word but for the imports."""

from typing import Any

import numpy as np

from golfsim.core.kernels import kernel
from golfsim.core.metrics import Metric
from golfsim.core.rng import uniform
from golfsim.protocol.base import Layer, LayerConfig, Protocol
from golfsim.protocol.overlay import Overlay


@kernel
def push_pull(value, order, peer, arrives):
    for e in range(order.size):
        if arrives[e]:
            i, j = order[e], peer[e]
            value[i] = value[j] = (value[i] + value[j]) / 2


class AveragingConfig(LayerConfig):
    peers: Layer[Overlay[Any]]  # in the file a name; here the layer


class Averaging(Protocol[AveragingConfig]):
    """Push-pull averaging (Jelasity, Montresor, Babaoglu 2005)."""

    Config = AveragingConfig
    accepts = frozenset({"loss"})
    metrics = (Metric("variance", "The variance of the values of online nodes.", better="down"),)

    def setup(self, world):
        self.value = np.empty(world.nodes)

    def start(self, world, nodes):
        self.value[nodes] = uniform(self.key("init"), nodes)

    def step(self, world):
        peer = self.config.peers.choose(world, world.order, self.key("peer"))
        arrives, _ = world.transport.send(self, "exchange", world.order, peer, 8)
        push_pull(self.value, world.order, peer, arrives)

    def observe(self, world):
        return {"variance": float(self.value[world.online].var())}
