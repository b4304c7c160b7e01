"""Push-pull averaging: all nodes learn the mean of their values (Jelasity, Montresor & Babaoglu 2005)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.kernels import kernel
from golfsim.core.maths import exp_of, log_of
from golfsim.core.metrics import Metric
from golfsim.core.rng import integers, sample, uniform
from golfsim.network.delivery import answer_arrives, arrives
from golfsim.protocol.base import Layer, LayerConfig, Protocol
from golfsim.protocol.overlay import Overlay

if TYPE_CHECKING:
    from golfsim.network.world import World

BYTES = 8  # a value
TURN = 12  # bytes per node: initiators, their peers, and the values of online nodes while they are measured
EQUAL = 2.0**-46  # values are equal up to rounding if they deviate from their mean by this part of it


@kernel
def push_pull(value, order, peer, request, reply, atomic, several):
    """Let each node in turn exchange values with its peer; a node that gets the other value takes the mean.

    Parameters
    ----------
    value : array of float64, shape (nodes,)
        The value of each node; changed in place.
    order : array of int32
        The nodes that begin an exchange, in acting order.
    peer : array of int32, shape of `order`
        The peer of each node, or −1.
    request, reply : Wire
        The rules that decide which messages arrive.
    atomic : bool
        Whether a reply always arrives, so that both nodes take the mean or neither does.
    several : bool
        Whether a node may begin several exchanges.
    """
    for e in range(order.size):
        i, j, k = order[e], peer[e], e if several else 0
        if j < 0 or not arrives(request, i, j, k):
            continue
        mean = (value[i] + value[j]) / 2
        value[j] = mean
        if atomic or answer_arrives(reply, j, i, k):
            value[i] = mean


@kernel
def moments(value, nodes):
    """Return the mean and the variance of the values of some nodes, summed in the order of `nodes`."""
    total = 0.0
    for e in range(nodes.size):
        total += value[nodes[e]]
    count = max(nodes.size, 1)
    mean = total / count
    squares = 0.0
    for e in range(nodes.size):
        squares += (value[nodes[e]] - mean) ** 2
    return mean, squares / count


class AveragingConfig(LayerConfig):
    """The settings of averaging."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that peers are chosen from")
    initial: Literal["uniform", "peak"] = Field(
        "uniform",
        description="the values at the start: random numbers between 0 and 1 (“uniform”), or the number of nodes at "
        "one random node and 0 at all others (“peak”), so that the mean is 1",
    )
    initiators: Literal["each", "random"] = Field(
        "each",
        description="who begins an exchange: each online node once per cycle (“each”), or as many nodes as are online, "
        "drawn with replacement (“random”)",
    )
    exchange: Literal["messages", "atomic"] = Field(
        "messages",
        description="what `transport.loss` applies to: the request and the reply (“messages”), where a lost reply "
        "leaves the sender with its old value and changes the sum of all values; or the link (“atomic”), where both "
        "nodes take the mean or neither does",
    )


class Averaging(Protocol[AveragingConfig]):
    """Each cycle every node exchanges values with a random peer, and both take the mean of the two.

    The convergence factor is the variance of the values after a turn, divided by that before the turn. It is measured
    over the nodes that are online in the turn, and until all values are equal up to rounding.
    """

    Config = AveragingConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (
        Metric("value.mean", "The mean of the values of online nodes."),
        Metric("value.variance", "The variance of the values of online nodes.", better="down"),
        Metric("value.min", "The smallest value of an online node."),
        Metric("value.max", "The largest value of an online node."),
        Metric(
            "value.shift",
            "The squared difference of the mean from that of the first values, times the number of first values, "
            "divided by their variance. If nodes crash or replies are lost, its mean over runs is N·Var(μ)/σ₀².",
            better="down",
        ),
        Metric(
            "factor.cycle",
            "The convergence factor of the last turn: the variance after it, divided by that before it.",
            better="down",
        ),
        Metric("factor.mean", "The geometric mean of the convergence factors of all turns.", better="down"),
    )

    def setup(self, world: World) -> None:
        """Allocate the values."""
        self.value = np.zeros(world.nodes)
        self.started = 0  # the number of first values; their mean and variance
        self.first_mean = self.first_variance = 0.0
        self.factor = 0.0  # of the last turn; 0: the values were equal
        self.turns = 0  # turns before which values differed, and the sum of the logarithms of their factors
        self.log_factors = 0.0

    def memory(self, world: World) -> int:
        """Return the bytes of the values and of a turn."""
        return (BYTES + TURN) * world.nodes

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give the nodes their first values. The peak is among the nodes that start first."""
        if self.config.initial == "uniform":
            self.value[nodes] = uniform(self.key("init"), nodes)
        else:
            self.value[nodes] = 0.0
            if not self.started:
                self.value[sample(self.key("init"), 0, nodes, 1)] = nodes.size
        if not self.started and nodes.size:
            self.started = int(nodes.size)
            self.first_mean, self.first_variance = moments(self.value, nodes)

    def step(self, world: World) -> None:
        """Let every online node exchange values, and measure the factor."""
        several, atomic = self.config.initiators == "random", self.config.exchange == "atomic"
        order, k = self._drawn(world) if several else (world.order, 0)
        peer = self.config.peers.choose(world, order, self.key("peer"), k)
        request, reply = (world.transport.wire(self, kind, BYTES) for kind in ("request", "reply"))
        mean, before = moments(self.value, world.order)
        push_pull(self.value, order, peer, request, reply, atomic, several)
        self._count(mean, before, moments(self.value, world.order)[1])

    def _drawn(self, world: World) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return as many random online nodes as are online, and a number for the exchange that each begins."""
        places = np.arange(world.order.size, dtype=np.int32)
        drawn = integers(self.key("initiator"), places, places.size, world.cycle)
        return np.sort(world.order)[drawn], places.astype(np.int64)

    def _count(self, mean: float, before: float, after: float) -> None:
        """Count the factor of a turn, unless the values before it were equal up to rounding."""
        self.factor = 0.0
        if min(before, after) > (EQUAL * mean) ** 2:
            self.factor = after / before
            self.turns += 1
            self.log_factors += float(log_of(np.array([self.factor]))[0])

    def observe(self, world: World) -> dict[str, float]:
        """Return the moments and extremes of the values, and the factors if there was a turn that has one."""
        mean, variance = moments(self.value, world.order)
        values = self.value[world.order]
        found = {
            "value.mean": mean,
            "value.variance": variance,
            "value.min": float(values.min()),
            "value.max": float(values.max()),
        }
        if self.first_variance > 0:
            found["value.shift"] = self.started * (mean - self.first_mean) ** 2 / self.first_variance
        if self.factor > 0:
            found["factor.cycle"] = self.factor
        if self.turns:
            found["factor.mean"] = float(exp_of(np.array([self.log_factors / self.turns]))[0])
        return found
