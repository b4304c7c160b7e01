"""The transport of messages: loss, delay, partition, and the counters of every layer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.maths import exp_of, log_of
from golfsim.core.memory import available, readable
from golfsim.core.metrics import Metric
from golfsim.core.rng import draw, unit
from golfsim.core.settings import Settings, Share
from golfsim.core.state import Stateful
from golfsim.network.delivery import Wire, reach_all, send_all

if TYPE_CHECKING:
    from golfsim.network.world import World


class Named(Protocol):
    """A sender of messages: a layer, of which only the name is needed."""

    name: str


METRICS = (
    Metric(
        "messages.sent",
        "The number of messages that the layer has sent since the run began.",
        "messages",
        "down",
    ),
    Metric("messages.delivered", "The number of messages of the layer that have been delivered.", "messages"),
    Metric(
        "messages.lost",
        "The number of messages of the layer that have been lost: by chance, at a cut, or to an offline receiver.",
        "messages",
        "down",
    ),
    Metric("messages.under_way", "The number of messages of the layer that are in transit now.", "messages"),
    Metric("bytes.sent", "The total size of the messages that the layer has sent.", "bytes", "down"),
)  # of every layer


@kernel
def draw_lags(key, cycle, k, src, wanted, shortest, cumulative, lag):
    """Draw the delay of each wanted message, in cycles.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle : int
        The current cycle.
    k : array of int64, shape (1,) or (messages,)
        The number of each message among those that its sender sends in this cycle, or one number for all.
    src : array of int32, shape (messages,)
        The sender of each message.
    wanted : array of bool, shape (messages,)
        The messages whose delay is drawn.
    shortest : int
        The shortest delay.
    cumulative : array of float64
        The probability of a delay of at most `shortest`, `shortest` + 1, … cycles.
    lag : array of int32, shape (messages,)
        The delays; filled here.
    """
    last = cumulative.size - 1
    for e in range(src.size):
        if wanted[e]:
            u = unit(draw(key, cycle, src[e], 2 * k[e if k.size > 1 else 0] + 1))
            more = min(np.int64(u * cumulative.size), last)  # already the result if all delays have equal probability
            while more > 0 and u <= cumulative[more - 1]:
                more -= 1
            while more < last and u > cumulative[more]:
                more += 1
            lag[e] = shortest + more


LONGEST_DELAY = 100_000
Cycles = Annotated[int, Field(ge=1, le=LONGEST_DELAY)]


class DelayConfig(Settings):
    """A distribution of delays, rounded up to an integer number of cycles and limited to a maximum."""

    kind: Literal["lognormal", "exponential"]
    max: Cycles = Field(description="the longest delay in cycles; longer draws are set to this value")
    mu: float = Field(0.0, ge=-50, le=50, description="lognormal: the mean of the logarithm of the delay in cycles")
    sigma: float = Field(1.0, ge=0, le=10, description="lognormal: the standard deviation of this logarithm")
    mean: float = Field(1.0, gt=0, le=1e9, description="exponential: the mean delay in cycles")

    def cumulative(self) -> NDArray[np.float64]:
        """Return the probability of a delay of at most 1, 2, … cycles."""
        from scipy.special import ndtr

        t = np.arange(1, self.max + 1)
        if self.kind == "exponential":
            below = 1 - exp_of(-t / self.mean)
        elif self.sigma == 0:
            below = (log_of(t) >= self.mu).astype(float)
        else:
            below = np.asarray(ndtr((log_of(t) - self.mu) / self.sigma))
        below[-1] = 1
        return below


class PartitionConfig(Settings):
    """A cut between a share of the nodes and all other nodes, from one cycle to another: no message crosses it."""

    share: Share = Field(description="the share of the nodes on the smaller side")
    start: int = Field(alias="from", ge=1, description="the first cycle of the cut")
    until: int = Field(ge=1, description="the last cycle of the cut")
    contacts: int = Field(
        0,
        ge=0,
        description="the number of nodes on the smaller side that learn of a node on the other side when the cut ends",
    )

    @model_validator(mode="after")
    def _window(self) -> PartitionConfig:
        if self.until < self.start:
            raise ValueError(f"“until” ({self.until}) lies before “from” ({self.start})")
        return self


class TransportConfig(Settings):
    """`[transport]`: loss, delay and partition of messages."""

    loss: Share = Field(0.0, description="the probability that a message is lost")
    delay: Annotated[int, Field(ge=0, le=LONGEST_DELAY)] | tuple[Cycles, Cycles] | DelayConfig = Field(
        0,
        description="the number of cycles that a message is in transit: 0 (it arrives in the same cycle), a fixed "
        "number, [from, to] with equal probabilities, or a distribution with a maximum",
    )
    partition: tuple[PartitionConfig, ...] = Field((), description="the cuts of the network")

    @model_validator(mode="after")
    def _order_of_delays(self) -> TransportConfig:
        if isinstance(self.delay, tuple) and self.delay[0] > self.delay[1]:
            raise ValueError(f"delay: expected [from, to] with from ≤ to; got {list(self.delay)}")
        return self

    def faults(self) -> frozenset[str]:
        """Return the faults that messages may have: some of loss, delay and partition."""
        asked = {"loss": self.loss > 0, "delay": self.delay != 0, "partition": bool(self.partition)}
        return frozenset(name for name, there in asked.items() if there)

    def lags(self) -> tuple[int, NDArray[np.float64]]:
        """Return the shortest delay, and the probabilities of at most this delay, at most one cycle more, …"""
        if isinstance(self.delay, DelayConfig):
            return 1, self.delay.cumulative()
        low, high = (self.delay, self.delay) if isinstance(self.delay, int) else self.delay
        return low, np.arange(1, high - low + 2) / (high - low + 1)


NOTHING = np.empty(0, np.bool_)
EVERYWHERE = np.empty(0, np.int8)
NO_PAIRS = np.empty((0, 2), np.int32)


class Transport(Stateful):
    """Carry the messages of all layers and count them: sent = delivered + lost + in transit, at all times."""

    def __init__(self, config: TransportConfig, seed: int, layers: list[str]) -> None:
        self._config = config
        self._shortest, self._cumulative = config.lags()
        self._row = {name: row for row, name in enumerate(layers)}
        self._seed = seed
        self._world: World | None = None
        self._sides: list[NDArray[np.int8]] = []
        self._reserved = 0  # bytes for messages in transit, all layers
        self.counts = np.zeros((len(layers), 4), np.int64)

    @property
    def longest(self) -> int:
        """The longest delay of a message in cycles; 0 if messages arrive in the cycle in which they are sent."""
        return self._shortest + self._cumulative.size - 1

    @property
    def delays(self) -> tuple[int, NDArray[np.float64]]:
        """The shortest delay, and the probabilities of this delay, of one cycle more, …"""
        return self._shortest, np.diff(self._cumulative, prepend=0.0)

    @property
    def faults(self) -> frozenset[str]:
        """The faults that messages may have."""
        return self._config.faults()

    def attach(self, world: World) -> None:
        """Connect the transport to a world and draw the sides of its cuts."""
        self._world = world
        everyone = np.arange(world.nodes, dtype=np.int32)
        for number, cut in enumerate(self._config.partition):
            chosen = rng.sample(self._cut_key(number), 0, everyone, round(cut.share * world.nodes))
            side = np.zeros(world.nodes, np.int8)
            side[chosen] = 1
            self._sides.append(side)

    def reserve(self, messages: int, rows: dict[str, NDArray[Any]]) -> None:
        """Refuse a mailbox that does not fit into memory together with those of the other layers."""
        need = messages * (24 + sum(int(np.prod(row.shape[1:])) * row.itemsize for row in rows.values()))
        self._reserved += need
        if messages >= 2**31 or self._reserved > available():
            raise UserError(
                f"up to {messages:,} messages can be in transit, which needs {readable(need)} of memory, "
                f"{readable(self._reserved)} with all layers; {readable(available())} are available",
                key="transport.delay",
                hint="shorten the longest delay, or simulate fewer nodes",
            )

    @property
    def world(self) -> World:
        """The world in which it carries messages."""
        assert self._world is not None
        return self._world

    def side(self) -> NDArray[np.int8]:
        """Return the side of each node in this cycle; empty if there is no cut."""
        cycle, found = self.world.cycle, EVERYWHERE
        for cut, side in zip(self._config.partition, self._sides, strict=True):
            if cut.start <= cycle <= cut.until:
                found = side if found.size == 0 else (2 * found + side).astype(np.int8)
        return found

    def introductions(self) -> NDArray[np.int32]:
        """Return pairs (node, contact) of nodes that get to know a node of the other side, after a cut has ended."""
        pairs = [NO_PAIRS]
        for number, (cut, side) in enumerate(zip(self._config.partition, self._sides, strict=True)):
            if self.world.cycle == cut.until + 1:
                pairs.append(self._pairs(self._cut_key(number), side, cut.contacts))
        return np.concatenate(pairs)

    def _pairs(self, key: np.uint64, side: NDArray[np.int8], wanted: int) -> NDArray[np.int32]:
        online = np.flatnonzero(self.world.online).astype(np.int32)
        inside, outside = online[side[online] == 1], online[side[online] == 0]
        if not (inside.size and outside.size):
            return NO_PAIRS
        nodes = rng.sample(key, self.world.cycle, inside, wanted)
        return np.column_stack([nodes, outside[rng.integers(key, nodes, outside.size, self.world.cycle, 1)]])

    def _cut_key(self, number: int) -> np.uint64:
        return rng.key(self._seed, "transport", f"partition.{number}")

    def send(
        self,
        layer: Named,
        kind: str,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        bytes_each: int | NDArray[np.int64],
        k: int | NDArray[np.int64] = 0,
    ) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
        """Send a message from each src to its dst.

        Parameters
        ----------
        layer : Named
            The layer that sends.
        kind : str
            The kind of message.
        src, dst : array of int32, shape (messages,)
            The sender and the receiver of each message (−1: no message).
        bytes_each : int or array of int64, shape (messages,)
            The size of a message in bytes: one for all, or one per message.
        k : int or array of int64, shape (messages,)
            Distinguishes messages of one kind that a node sends in one cycle: one number for all, or one per message.

        Returns
        -------
        arrives : array of bool, shape (messages,)
            Which messages arrive.
        lag : array of int32, shape (messages,), or None
            The delay of each message in cycles; None if messages arrive in this cycle.
        """
        sizes = bytes_each if isinstance(bytes_each, np.ndarray) else None
        wire = self.wire(layer, kind, 0 if isinstance(bytes_each, np.ndarray) else bytes_each)
        k = np.atleast_1d(np.asarray(k, np.int64))
        arrives = np.empty(dst.size, np.bool_)
        wrong = send_all(wire, k, node_numbers(src, "src"), node_numbers(dst, "dst"), self.world.nodes, arrives)
        if wrong >= 0:
            raise IndexError(f"dst: there is no node {wrong}, only 0 … {self.world.nodes - 1}")
        if sizes is not None:
            wire.counts[3] += sizes[np.asarray(dst) >= 0].sum()
        return arrives, None if wire.at_once else self._lags(wire.key, src, k, arrives)

    def wire(self, layer: Named, kind: str, bytes_each: int) -> Wire:
        """Return the delivery rule for one kind of message in this cycle, for kernels that choose receivers themselves.

        In the kernel `golfsim.network.delivery.arrives` applies the rule and counts the message.
        """
        at_once = self.longest == 0
        online = self.world.presence() if at_once else NOTHING
        key, counts = self._key(layer, kind), self.counts[self._row[layer.name]]
        return Wire(key, self.world.cycle, self._config.loss, online, self.side(), at_once, bytes_each, counts)

    def reach(self) -> Wire:
        """Return the rule for messages that were sent earlier and are due now. It has no random loss."""
        world = self.world
        return Wire(np.uint64(0), world.cycle, 0.0, world.presence(), self.side(), True, 0, np.zeros(4, np.int64))

    def deliver(self, layer: Named, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which of the messages that are due now reach their receivers, and count them."""
        there = np.empty(dst.size, np.bool_)
        reach_all(self.reach(), src, dst, there)
        arrived = int(there.sum())
        self.count(layer, sent=0, delivered=arrived, lost=dst.size - arrived)
        return there

    def lags(self, layer: Named, kind: str, senders: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the delays of messages that are sent now, for layers whose senders are not nodes."""
        return self._lags(self._key(layer, kind), senders, np.zeros(1, np.int64), np.ones(senders.size, np.bool_))

    def _lags(
        self, key: np.uint64, senders: NDArray[np.int32], k: NDArray[np.int64], wanted: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        lag = np.zeros(senders.size, np.int32)
        draw_lags(key, self.world.cycle, k, senders, wanted, self._shortest, self._cumulative, lag)
        return lag

    def count(self, layer: Named, *, sent: int, delivered: int, lost: int, size: int = 0) -> None:
        """Add to the counters of a layer; `size` is the number of bytes per message sent."""
        self.counts[self._row[layer.name]] += (sent, delivered, lost, sent * size)

    def totals(self, layer: str) -> dict[str, int]:
        """Return the counters of a layer, by metric."""
        sent, delivered, lost, size = (int(n) for n in self.counts[self._row[layer]])
        return {
            "messages.sent": sent,
            "messages.delivered": delivered,
            "messages.lost": lost,
            "messages.under_way": sent - delivered - lost,
            "bytes.sent": size,
        }

    def _key(self, layer: Named, kind: str) -> np.uint64:
        turn = self.world.turn
        return _key(self._seed, layer.name, f"{kind}\x1fturn {turn}" if turn else kind)


def node_numbers(nodes: Any, name: str) -> NDArray[np.int32]:
    """Return node numbers as kernels need them; refuse anything that is not an array of integers."""
    if getattr(nodes, "dtype", None) == np.int32 and nodes.ndim == 1:
        return nodes  # type: ignore[no-any-return]
    array = np.asarray(nodes)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        what = f"{name}: expected one node number per entry (int32); got {array.dtype} with {array.ndim} dimensions"
        raise TypeError(what)
    return np.asarray(array, np.int32)


@lru_cache(4096)
def _key(seed: int, layer: str, kind: str) -> np.uint64:
    return rng.key(seed, layer, f"transport.{kind}")
