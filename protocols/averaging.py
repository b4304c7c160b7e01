"""Push-pull averaging: all nodes learn the mean of their values (Jelasity, Montresor & Babaoglu 2005)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.kernels import inlined, kernel
from golfsim.core.maths import exp_of, log_of
from golfsim.core.metrics import Metric
from golfsim.core.rng import integers
from golfsim.core.simd import fused, load, prefetch, spread, store
from golfsim.network.delivery import answer_arrives, arrives
from golfsim.protocol.averages import LANES, METRICS, Averages, AveragesConfig, mean_of, moments_of

if TYPE_CHECKING:
    from golfsim.network.world import World

AHEAD = 8  # exchanges
EQUAL = 2.0**-46  # values are equal up to rounding if they deviate from their mean by this part of it


@inlined
def take_mean(value, i, j, both):
    """Replace row j by the mean of rows i and j, and with `both` also row i."""
    numbers = value.shape[1]
    together = numbers - numbers % LANES
    for f in range(0, together, LANES):
        summed = fused(load(value, i, f, 8), spread(1.0, 8), load(value, j, f, 8))
        half = fused(summed, spread(0.5, 8), spread(0.0, 8))
        store(value, j, f, half)
        if both:
            store(value, i, f, half)
    for f in range(together, numbers):
        mean = (value[i, f] + value[j, f]) / 2
        value[j, f] = mean
        if both:
            value[i, f] = mean


@kernel
def push_pull(value, order, peer, since, begun, request, reply, atomic, several):
    """Let each node in turn exchange its row with its peer; a node that gets the other row takes the mean.

    A node that takes no part in the epoch begins no exchange, and refuses those of others.

    Parameters
    ----------
    value : array of float64, shape (nodes, numbers)
        The row of each node; changed in place.
    order : array of int32
        The nodes that begin an exchange, in acting order.
    peer : array of int32, shape of `order`
        The peer of each node, or −1.
    since : array of int32, shape (nodes,)
        The last cycle in which each node came online.
    begun : int
        The cycle in which the epoch began; nodes that came online later take no part.
    request, reply : Wire
        The rules that decide which messages arrive.
    atomic : bool
        Whether a reply always arrives, so that both nodes take the mean or neither does.
    several : bool
        Whether a node may begin several exchanges.
    """
    for e in range(order.size):
        if e + AHEAD < order.size and peer[e + AHEAD] >= 0:
            prefetch(value, peer[e + AHEAD])
        i, j, k = order[e], peer[e], e if several else 0
        if j < 0 or since[i] > begun or not arrives(request, i, j, k) or since[j] > begun:
            continue
        take_mean(value, i, j, atomic or answer_arrives(reply, j, i, k))


class AveragingConfig(AveragesConfig):
    """The settings of averaging."""

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


class Averaging(Averages[AveragingConfig]):
    """Each cycle every node exchanges values with a random peer, and both take the mean of the two.

    A value is a number, or a row of numbers of the layer `of`. The convergence factor is the variance of the values
    after a turn, divided by that before the turn. It is measured over the nodes that take part in the turn, and until
    all values are equal up to rounding.
    """

    Config = AveragingConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (
        *METRICS,
        Metric(
            "factor.cycle",
            "The convergence factor of the last turn: the variance after it, divided by that before it.",
            better="down",
        ),
        Metric("factor.mean", "The geometric mean of the convergence factors of all turns.", better="down"),
    )

    def setup(self, world: World) -> None:
        """Allocate the values."""
        super().setup(world)
        self.factor = 0.0  # of the last turn; 0: the values were equal
        self.turns = 0  # turns before which values differed, and the sum of the logarithms of their factors
        self.log_factors = 0.0

    def step(self, world: World) -> None:
        """Let every online node exchange values, and measure the factor."""
        self.begin_turn(world)
        several, atomic = self.config.initiators == "random", self.config.exchange == "atomic"
        order, k = self._drawn(world) if several else (world.order, 0)
        peer = self.config.peers.choose(world, order, self.key("peer"), k)
        request, reply = (world.transport.wire(self, kind, self.message_bytes()) for kind in ("request", "reply"))
        nodes = self.taking_part(world)
        mean, before = moments_of(self.value, nodes)
        push_pull(self.value, order, peer, world.since, self.since, request, reply, atomic, several)
        self._count(mean_of(mean**2), before, moments_of(self.value, nodes)[1])
        self.end_turn(world)

    def _drawn(self, world: World) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return as many random online nodes as are online, and a number for the exchange that each begins."""
        places = np.arange(world.order.size, dtype=np.int32)
        drawn = integers(self.key("initiator"), places, places.size, world.cycle)
        return np.sort(world.order)[drawn], places.astype(np.int64)

    def _count(self, square: float, before: float, after: float) -> None:
        """Count the factor of a turn, unless the values before it were equal up to rounding.

        `square` is the mean of the squared means of the numbers.
        """
        self.factor = 0.0
        if min(before, after) > EQUAL**2 * square:
            self.factor = after / before
            self.turns += 1
            self.log_factors += float(log_of(np.array([self.factor]))[0])

    def observe(self, world: World) -> dict[str, float]:
        """Return the moments and extremes of the values, and the factors if there was a turn that has one."""
        found = super().observe(world)
        if self.factor > 0:
            found["factor.cycle"] = self.factor
        if self.turns:
            found["factor.mean"] = float(exp_of(np.array([self.log_factors / self.turns]))[0])
        return found
