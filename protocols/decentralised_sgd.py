"""Decentralised stochastic gradient descent: local updates, then averages with all neighbours (Lian et al. 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.kernels import kernel
from golfsim.core.metrics import Metric
from golfsim.core.simd import prefetch
from golfsim.core.threads import over_ranges
from golfsim.learning.kinds import with_room
from golfsim.learning.linear import linear
from golfsim.learning.merging import merge_in
from golfsim.learning.packing import ALL, MessageConfig, nothing_remembered, pack_rows, packing_of
from golfsim.network.adversaries import forge_rows
from golfsim.protocol.base import Layer
from golfsim.protocol.mixing import DEGREE, Neighbours, memory_of_links
from golfsim.protocol.overlay import Overlay
from protocols.local_learner import LocalLearnerConfig, OwnModels

if TYPE_CHECKING:
    from golfsim.network.world import World


@kernel
def mix(nodes, first, src, weight, sent, age_before, w, age, models, rule, lo, hi):
    """Let nodes take the weighted mean of their own model and the ones that they have received.

    The own model also has the weights of the messages that did not arrive.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes.
    first : array of int64, shape (nodes + 1,)
        The messages to nodes[e] are first[e] … first[e+1]−1.
    src : array of int32, shape (messages,)
        Their senders.
    weight : array of float64, shape (messages,)
        The entries of the mixing matrix.
    sent : array of float32, shape (all nodes · models, numbers)
        The models as they are sent.
    age_before : array of int32, shape (all nodes,)
        Their ages.
    w : array of float32, shape (all nodes · models, numbers)
        The models; changed in place.
    age : array of int32, shape (all nodes,)
        Their ages: the largest of those that are averaged; changed in place.
    models : int
        The number of rows of a model.
    rule : Rule
        The update rule, which has the learner.
    lo, hi : int
        The range of nodes.
    """
    rule = with_room(rule)
    for e in range(lo, hi):
        i = np.int64(nodes[e])
        total = 1.0
        for message in range(first[e], first[e + 1]):
            total -= weight[message]
        for message in range(first[e], first[e + 1]):
            if message + 1 < first[e + 1]:
                prefetch(sent, np.int64(src[message + 1]) * models)
            total += weight[message]
            merge_in(
                rule, sent, np.int64(src[message]) * models, w, i * models, np.float32(weight[message] / total), models
            )
            age[i] = max(age[i], age_before[src[message]])


@kernel
def spread_of(w, nodes, models):
    """Return the mean squared distance of the models of some nodes to their mean.

    Parameters
    ----------
    w : array of float32, shape (all nodes · models, numbers)
        The models.
    nodes : array of int32
        The nodes, at least one.
    models : int
        The number of rows of a model.
    """
    total = 0.0
    for m in range(models):
        for f in range(w.shape[1]):
            centre = 0.0
            for i in nodes:
                centre += w[np.int64(i) * models + m, f]
            centre /= nodes.size
            for i in nodes:
                total += (w[np.int64(i) * models + m, f] - centre) ** 2
    return total / nodes.size


class DecentralisedSGDConfig(LocalLearnerConfig):
    """The settings of decentralised SGD."""

    peers: Layer[Overlay[Any]] = Field(
        description="the overlay whose links are used, in both directions; with “uniform” all nodes are neighbours, "
        "at most 1000"
    )
    mixing: Literal["metropolis-hastings", "uniform"] = Field(
        "metropolis-hastings",
        description="the weight of a neighbour: 1/(1 + the larger number of neighbours of the two nodes), by which the "
        "mean of all models does not change, or 1/(1 + the receiver's number of neighbours)",
    )
    message: MessageConfig | None = Field(None, description="how models are encoded; default: 32 bits per number")

    @model_validator(mode="after")
    def _complete(self) -> DecentralisedSGDConfig:
        if self.message is not None and self.message.select != ALL:
            raise ValueError("message: nodes send complete models; remove “parts”, “sample” and “top”")
        if self.message is not None and self.message.codec == "pivot":
            raise ValueError("message: all neighbours get the same numbers; use “float16” or “quantised”")
        return self


class DecentralisedSGD(OwnModels[DecentralisedSGDConfig]):
    """Each cycle every online node updates its model, sends it to all neighbours, and averages what it receives.

    The nodes act at the same time: all models are sent before any of them is averaged.
    """

    Config = DecentralisedSGDConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (
        *OwnModels.metrics,
        Metric(
            "consensus",
            "The mean squared distance of the models of online nodes to their mean; 0 if all nodes agree.",
            "",
            "down",
        ),
    )

    def setup(self, world: World) -> None:
        """Give all nodes the first model."""
        super().setup(world)
        config, shape = self.config, self.w.shape[1:]
        model = config.message.size(*shape) if config.message else self._message_bytes
        self._message_bytes = model + DEGREE
        self._packing = packing_of(config.message, self.key("message"), shape[1], nothing_remembered(shape[1]))
        self._neighbours = Neighbours(config.peers, f"{self.name}.peers")
        self._sent = np.zeros_like(self.w)  # in the last cycle
        self.old = np.zeros((world.tampering.keeps_old().size, *shape), np.float32)
        self.old_kept = np.zeros(len(self.old), np.bool_)

    def memory(self, world: World) -> int:
        """Return the bytes of the models before and after they are averaged, and of the links."""
        models = 2 * world.nodes + world.tampering.keeps_old().size
        return self.size_of_models(models) + memory_of_links(self.config.peers, world)

    def step(self, world: World) -> None:
        """Let all nodes learn, then let them average."""
        self.learn_alone(world)
        src, dst, weight = self._neighbours.weighted(world, self.config.mixing == "uniform")
        arrives, _ = world.transport.send(self, "model", src, dst, self._message_bytes, dst.astype(np.int64))
        self._mix(world, src[arrives], dst[arrives], weight[arrives])

    def _mix(self, world: World, src: NDArray[np.int32], dst: NDArray[np.int32], weight: NDArray[np.float64]) -> None:
        """Average models by the messages that have arrived, which are sorted by receiver."""
        sent, age, models = self._as_sent(world), self.age.copy(), self.w.shape[1]
        nodes = np.flatnonzero(world.online).astype(np.int32)
        first = np.append(np.searchsorted(dst, nodes), dst.size).astype(np.int64)
        w, rule = linear(self.w), self.rule()

        def run(lo: int, hi: int) -> None:
            mix(nodes, first, src, weight, sent, age, w, self.age, models, rule, lo, hi)

        over_ranges(world.threads, run, 0, nodes.size)

    def _as_sent(self, world: World) -> NDArray[np.float32]:
        """Return a copy of all models, as their neighbours get them."""
        if len(self.old):
            begins = ~self.old_kept & (world.tampering.since_old() <= world.cycle)
            self.old[begins] = self.w[world.tampering.keeps_old()[begins]]
            self.old_kept |= begins
        self._sent[:] = self.w
        sent, models, nodes = linear(self._sent), self.w.shape[1], world.order
        forgery = world.tampering.forgery(world.cycle)
        forge_rows(forgery, nodes, world.cycle, nodes, sent, linear(self.old), models)
        if self._packing.on:
            nothing = np.zeros(nodes.size, np.int64)
            pack_rows(self._packing, sent, nodes, models, world.cycle, nodes, nothing, nothing, nothing)
        return sent

    def released(self) -> NDArray[np.float64]:
        """Return the models as nodes have sent them in this cycle, if the layer uses private data."""
        return self._sent.ravel().astype(np.float64) if self.touches_private_data else np.empty(0)

    def observe(self, world: World) -> dict[str, float]:
        """Return how far models are from their mean."""
        nodes = np.flatnonzero(world.online).astype(np.int32)
        found = spread_of(linear(self.w), nodes, self.w.shape[1]) if nodes.size else 0.0
        return super().observe(world) | {"consensus": float(found)}
