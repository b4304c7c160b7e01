"""What a layer of averages is: every node estimates the mean over nodes of numbers that each of them has.

Epochs follow section 4 of Jelasity, Montresor & Babaoglu (2005): the protocol restarts at all online nodes every k
cycles, so that the estimates follow a network that changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.metrics import Metric
from golfsim.core.rng import sample, uniform
from golfsim.core.simd import fused, load, spread, store
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Disclosure, Layer, LayerConfig, Protocol
from golfsim.protocol.moments import Precision
from golfsim.protocol.overlay import Overlay

if TYPE_CHECKING:
    from golfsim.network.world import World

NUMBER = 8  # bytes of a number
EPOCH = 4  # bytes of the number of an epoch in a message
COUNTS = 8  # bytes per node with epochs: those it has completed, and how many nodes its estimate is a mean of
TURN = 12  # bytes per node: initiators, their peers, and nodes that are measured
LANES = 8  # numbers that are added at once
ALWAYS = 2**31 - 1  # without epochs: every online node takes part, whenever it came online

Floats = NDArray[np.float64]
Nodes = NDArray[np.int32]


@kernel
def moments(value, nodes, mean):
    """Write the mean of each number over some nodes, and return the variance, as its mean over the numbers.

    The sum of each number is in the order of `nodes`; eight numbers are added at once.
    """
    numbers, count = value.shape[1], max(nodes.size, 1)
    variance = np.zeros(numbers)
    together = numbers - numbers % LANES
    one = spread(1.0, 8)
    for f in range(0, together, LANES):
        sums = spread(0.0, 8)
        for i in nodes:
            sums = fused(load(value, i, f, 8), one, sums)
        store(mean, 0, f, sums)
    for f in range(together, numbers):
        mean[f] = 0.0
        for i in nodes:
            mean[f] += value[i, f]
    for f in range(numbers):
        mean[f] /= count
    for f in range(0, together, LANES):
        sums, middle = spread(0.0, 8), load(mean, 0, f, 8)
        for i in nodes:
            off = fused(middle, spread(-1.0, 8), load(value, i, f, 8))
            sums = fused(off, off, sums)
        store(variance, 0, f, sums)
    for f in range(together, numbers):
        for i in nodes:
            variance[f] += (value[i, f] - mean[f]) ** 2
    total = 0.0
    for f in range(numbers):
        total += variance[f] / count
    return total / max(numbers, 1)


def moments_of(value: Floats, nodes: Nodes) -> tuple[Floats, float]:
    """Return the mean of each number over some nodes, and the mean of their variances."""
    mean = np.empty(value.shape[1])
    return mean, float(moments(value, nodes, mean))


def mean_of(numbers: Floats) -> float:
    """Return the mean of some numbers, added in their order."""
    total = 0.0
    for number in numbers.tolist():
        total += number
    return total / max(numbers.size, 1)


class AveragesConfig(LayerConfig):
    """What is averaged, among which peers, and when the protocol restarts."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that peers are chosen from")
    of: Layer[Protocol[Any]] | None = Field(
        None,
        description="the layer whose numbers are averaged: records, or models; a node takes its numbers at its first "
        "turn, or at the start of each epoch; default: the values that `initial` describes",
    )
    moments: Literal[1, 2] = Field(
        1, description="of: 2 averages the second moments of records as well, which some learners need"
    )
    initial: Literal["uniform", "peak", "count"] = Field(
        "uniform",
        description="the values at the start: random numbers between 0 and 1 (“uniform”); the number of nodes at "
        "one random node and 0 at all others (“peak”), so that the mean is 1; or 1 at one random node and 0 at all "
        "others (“count”), so that the number of nodes is 1 divided by the mean",
    )
    epoch: int | None = Field(
        None,
        ge=1,
        description="the number of cycles after which all online nodes start again from their own numbers; nodes that "
        "come online later take no part until then; default: no restart",
    )

    @model_validator(mode="after")
    def _source(self) -> AveragesConfig:
        if self.of is not None and "initial" in self.model_fields_set:
            raise ValueError("initial: not allowed with of, which gives the values at the start")
        if self.of is None and self.moments == 2:
            raise ValueError("moments: 2 needs of, a layer with second moments")
        return self


A = TypeVar("A", bound=AveragesConfig)

METRICS = (
    Metric("value.mean", "The mean of the values of online nodes; of rows of numbers, the mean over all numbers."),
    Metric(
        "value.variance",
        "The variance of the values of online nodes; of rows of numbers, its mean over the numbers.",
        better="down",
    ),
    Metric("value.min", "The smallest value of an online node."),
    Metric("value.max", "The largest value of an online node."),
    Metric(
        "value.shift",
        "The squared difference of the mean from that of the first values, times the number of first values, "
        "divided by their variance. If nodes crash or messages are lost, its mean over runs is N·Var(μ)/σ₀².",
        better="down",
    ),
    Metric("estimate.mean", "The mean of the estimates of the last complete epoch of online nodes."),
    Metric(
        "estimate.variance", "The variance of the estimates of the last complete epoch of online nodes.", better="down"
    ),
    Metric("size.mean", "The mean of the estimates of the number of nodes; with initial = “count”.", "nodes"),
    Metric(
        "size.std",
        "The standard deviation over nodes of the estimates of the number of nodes; with initial = “count”.",
        "nodes",
        "down",
    ),
)


class Averages(Protocol[A]):
    """A layer whose nodes estimate the mean over nodes of rows of numbers.

    With epochs, the estimate of a node is that of the last epoch in which it took part until the end. A node takes part
    in an epoch if it was online in the first turn of the epoch and has been online since.
    """

    def setup(self, world: World) -> None:
        """Allocate the values, and the estimates of the last epoch."""
        config, width = self.config, self._width()
        self.value = np.zeros((world.nodes, width))
        self.started = 0  # the number of first values; their means and variance
        self.first_mean = np.zeros(width)
        self.first_variance = 0.0
        if config.epoch is not None:
            self.begun = 0  # the cycle of the first turn of the epoch
            self.estimate = np.zeros((world.nodes, width))
            self.complete = np.zeros(world.nodes, np.int32)  # the number of epochs that each node has completed
            self.averaged = np.zeros(world.nodes, np.int32)  # the number of first values of the epoch of its estimate
        elif config.of is not None:
            self.ready = np.zeros(world.nodes, np.bool_)  # the nodes that have taken their numbers

    def _width(self) -> int:
        of = self.config.of
        if of is None:
            return 1
        width = of.value_width(self.config.moments == 2)
        if width == 0:
            raise UserError(
                f"“{of.name}” has no numbers to average",
                key=f"{self.name}.of",
                hint="name a layer of records, or a layer whose nodes have models",
            )
        return width

    def memory(self, world: World) -> int:
        """Return the bytes of the values, of the estimates of the last epoch, and of a turn."""
        of = self.config.of
        width = 1 if of is None else of.value_width(self.config.moments == 2)
        copies = 1 + (self.config.epoch is not None) + (of is not None)  # numbers that are read are a copy
        epochs = COUNTS if self.config.epoch is not None else 0
        return (copies * NUMBER * width + TURN + epochs) * world.nodes

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return the values and estimates of the nodes."""
        return {name: array for name, array in self.arrays().items() if name != "first_mean"}

    def message_bytes(self, more: int = 0) -> int:
        """Return the size of a message with a row of numbers and some more, and with the epoch if there are any."""
        return NUMBER * (self.value.shape[1] + more) + (EPOCH if self.config.epoch is not None else 0)

    # The numbers of the nodes, and epochs

    def start(self, world: World, nodes: Nodes) -> None:
        """Give the nodes their first values. The peak is among the nodes that start first."""
        if self.config.epoch is not None:
            self.estimate[nodes] = self.complete[nodes] = self.averaged[nodes] = 0
        if self.config.of is None:
            self.take(world, nodes)
        else:
            self.value[nodes] = 0
            if self.config.epoch is None:
                self.ready[nodes] = False

    def take(self, world: World, nodes: Nodes, restart: bool = False) -> None:
        """Give the nodes their own numbers. The first nodes, and those of a restart, are the first values."""
        config, first = self.config, restart or not self.started
        if config.of is not None:
            self.value[nodes] = config.of.values(world, nodes, config.moments == 2)
        elif config.initial == "uniform":
            self.value[nodes, 0] = uniform(self.key("init"), nodes)
        else:
            self.value[nodes] = 0.0
            if first:
                draw = self._epoch_of(world.cycle) if restart else 0
                peak = sample(self.key("init"), draw, np.sort(nodes), 1)
                self.value[peak] = nodes.size if config.initial == "peak" else 1.0
        if first and nodes.size:
            self.started = int(nodes.size)
            self.first_mean[:], self.first_variance = moments_of(self.value, nodes)

    def _epoch_of(self, cycle: int) -> int:
        return (cycle - self.config.first) // (self.config.epoch or ALWAYS)

    def begin_turn(self, world: World) -> bool:
        """Let nodes take their numbers if it is time; return whether an epoch begins in this turn."""
        if self.config.epoch is not None:
            if self.begun and self._epoch_of(self.begun) == self._epoch_of(world.cycle):
                return False
            self.begun = world.cycle
            self.take(world, world.order, restart=True)
            return True
        if self.config.of is not None:
            new = world.order[~self.ready[world.order]]
            self.take(world, new)
            self.ready[new] = True
        return False

    def end_turn(self, world: World) -> None:
        """Keep the estimates of an epoch after its last turn."""
        if self.config.epoch is None:
            return
        if self._epoch_of(world.cycle + self.config.every) != self._epoch_of(self.begun):
            nodes = self.taking_part(world)
            nodes = nodes[self._usable(nodes)]
            self.estimate[nodes] = self.current(nodes)
            self.complete[nodes] += 1
            self.averaged[nodes] = self.started

    @property
    def since(self) -> int:
        """The last cycle in which a node may have come online if it takes part."""
        return ALWAYS if self.config.epoch is None else self.begun

    def taking_part(self, world: World) -> Nodes:
        """Return the online nodes that take part, in acting order."""
        if self.config.epoch is not None:
            everyone = world.last_came <= self.begun
            return world.order if everyone else world.order[world.since[world.order] <= self.begun]
        everyone = self.config.of is None or bool(self.ready[world.order].all())
        return world.order if everyone else world.order[self.ready[world.order]]

    # Estimates

    def current(self, nodes: Nodes) -> Floats:
        """Return the running estimates [nodes, numbers] of these nodes, in this epoch."""
        return self.value[nodes]

    def _usable(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return which of the nodes have a running estimate, if they take part."""
        return np.ones(nodes.size, np.bool_)

    def estimates(self, nodes: Nodes) -> Floats:
        """Return the estimates [nodes, numbers] of these nodes; with epochs, those of the last complete epoch."""
        return self.current(nodes) if self.config.epoch is None else self.estimate[nodes]

    def participants(self, nodes: Nodes) -> Nodes:
        """Return how many nodes the estimate of each of these nodes is a mean of; the nodes themselves do not know it.

        It is the number of first values of the epoch; without epochs, that of the nodes that have their numbers.
        """
        if self.config.epoch is not None:
            return self.averaged[nodes]
        count = self.started if self.config.of is None else int(np.count_nonzero(self.ready))
        return np.full(nodes.size, count, np.int32)

    def known(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return which of these nodes have an estimate."""
        if self.config.epoch is not None:
            return np.asarray(self.complete[nodes] > 0)
        usable = self._usable(nodes)
        return usable if self.config.of is None else usable & self.ready[nodes]

    def precision(self) -> Precision:
        """Return what is known about the noise of the numbers of records."""
        of: Any = self.config.of
        found: Precision = of.precision()
        return found

    def observe(self, world: World) -> dict[str, float]:
        """Return the moments and extremes of the values, of the last estimates, and the size of the network."""
        nodes = self.taking_part(world)
        nodes = nodes[self._usable(nodes)]
        found = self._of_values(self.current(nodes)) if nodes.size else {}
        online = world.order[self.known(world.order)]
        if self.config.epoch is not None and online.size:
            mean, variance = moments_of(self.estimate, online)
            found |= {"estimate.mean": mean_of(mean), "estimate.variance": variance}
        return found | (self._of_sizes(online) if self.config.initial == "count" else {})

    def _of_values(self, values: Floats) -> dict[str, float]:
        mean, variance = moments_of(values, np.arange(len(values), dtype=np.int32))
        found = {
            "value.mean": mean_of(mean),
            "value.variance": variance,
            "value.min": float(values.min()),
            "value.max": float(values.max()),
        }
        if self.first_variance > 0:
            shift = mean_of((mean - self.first_mean) ** 2)
            found["value.shift"] = self.started * shift / self.first_variance
        return found

    def _of_sizes(self, nodes: Nodes) -> dict[str, float]:
        """Return the mean and the standard deviation of 1 divided by the estimates that are not 0."""
        share = self.estimates(nodes)
        size = 1 / share[share[:, 0] > 0]
        if not size.size:
            return {}
        mean, variance = moments_of(size, np.arange(len(size), dtype=np.int32))
        return {"size.mean": float(mean[0]), "size.std": float(np.sqrt(variance))}

    # Privacy

    def guarantee(self) -> Guarantee:
        """Return the guarantee of what is averaged; a mean of private numbers has none, since peers see the numbers."""
        of = self.config.of
        if of is None or not self.touches_private_data:
            return super().guarantee() if of is None else of.guarantee()
        return Guarantee(None, note=f"the numbers of “{of.name}” are averaged without noise")

    def disclosure(self) -> Disclosure:
        """Return that numbers are sent as they are."""
        of = self.config.of
        return super().disclosure() if of is None else Disclosure("means of the numbers of nodes", "all nodes")

    def released(self) -> Floats:
        """Return all values as nodes send them, if they were computed from private data."""
        return self.value.ravel() if self.touches_private_data else np.empty(0)
