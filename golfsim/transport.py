"""Messages on their way: loss, delay, partition, and the mailbox that keeps what is under way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim import rng
from golfsim.errors import UserError
from golfsim.kernels import kernel
from golfsim.memory import available, readable
from golfsim.parallel import over_ranges
from golfsim.rng import draw, unit
from golfsim.settings import Settings, Share
from golfsim.state import Stateful

if TYPE_CHECKING:
    from golfsim.protocol import Protocol
    from golfsim.world import World

SENT, DELIVERED, LOST, BYTES = range(4)


@kernel
def send_all(key, cycle, k, src, dst, online, at_once, loss, side, arrives):
    """Which messages arrive: (how many were sent, how many were not lost). A message to another side is lost."""
    sent = passed = 0
    for e in range(dst.size):
        j = dst[e]
        passes = j >= 0
        sent += passes
        if passes and loss > 0:
            passes = unit(draw(key, cycle, src[e], 2 * k[e % k.size])) >= loss
        if passes and side.size > 0:
            passes = side[src[e]] == side[j]
        if passes and at_once:
            passes = online[j]
        arrives[e] = passes
        passed += passes
    return sent, passed


@kernel
def draw_lags(key, cycle, k, src, shortest, cumulative, lag):
    """How many cycles each message is under way, by the cumulative probabilities of the possible delays."""
    for e in range(src.size):
        u = unit(draw(key, cycle, src[e], 2 * k[e % k.size] + 1))
        lag[e] = shortest + min(np.searchsorted(cumulative, u), cumulative.size - 1)


LONGEST_DELAY = 100_000
Cycles = Annotated[int, Field(ge=1, le=LONGEST_DELAY)]


class DelayConfig(Settings):
    """A distribution of delays, rounded up to whole cycles and cut off at a maximum."""

    kind: Literal["lognormal", "exponential"]
    max: Cycles = Field(description="the longest delay in cycles; longer draws count as this")
    mu: float = Field(0.0, ge=-50, le=50, description="lognormal: mean of the logarithm of the delay in cycles")
    sigma: float = Field(1.0, ge=0, le=10, description="lognormal: standard deviation of that logarithm")
    mean: float = Field(1.0, gt=0, le=1e9, description="exponential: mean delay in cycles")

    def cumulative(self) -> NDArray[np.float64]:
        """The probability of a delay of at most 1, 2, … cycles."""
        from scipy.special import ndtr

        t = np.arange(1, self.max + 1)
        if self.kind == "exponential":
            below = -np.expm1(-t / self.mean)
        elif self.sigma == 0:
            below = (np.log(t) >= self.mu).astype(float)
        else:
            below = np.asarray(ndtr((np.log(t) - self.mu) / self.sigma))
        below[-1] = 1
        return below


class PartitionConfig(Settings):
    """A share of the nodes is cut off from the others between two cycles: no message crosses."""

    share: Share = Field(description="the share of the nodes on the smaller side")
    start: int = Field(alias="from", ge=1, description="the first cycle of the cut")
    until: int = Field(ge=1, description="the last cycle of the cut")
    contacts: int = Field(
        0, ge=0, description="when the cut heals, so many nodes of the cut-off side learn of a node of the other side"
    )

    @model_validator(mode="after")
    def _window(self) -> PartitionConfig:
        if self.until < self.start:
            raise ValueError(f"“until” ({self.until}) lies before “from” ({self.start})")
        return self


class TransportConfig(Settings):
    """`[transport]`: what happens to messages on their way."""

    loss: Share = Field(0.0, description="the probability that a message is lost")
    delay: Annotated[int, Field(ge=0, le=LONGEST_DELAY)] | tuple[Cycles, Cycles] | DelayConfig = Field(
        0,
        description="cycles under way: 0 (effective at once), a fixed number, [from, to] with equal probability, "
        "or a distribution with a maximum",
    )
    partition: tuple[PartitionConfig, ...] = Field((), description="cuts of the network")

    @model_validator(mode="after")
    def _order_of_delays(self) -> TransportConfig:
        if isinstance(self.delay, tuple) and self.delay[0] > self.delay[1]:
            raise ValueError(f"delay: expected [from, to] with from ≤ to; got {list(self.delay)}")
        return self

    def faults(self) -> frozenset[str]:
        """What messages may suffer: of loss, delay and partition."""
        asked = {"loss": self.loss > 0, "delay": self.delay != 0, "partition": bool(self.partition)}
        return frozenset(name for name, there in asked.items() if there)

    def lags(self) -> tuple[int, NDArray[np.float64]]:
        """The shortest delay, and the probability of at most that many, one more, … cycles."""
        if isinstance(self.delay, DelayConfig):
            return 1, self.delay.cumulative()
        low, high = (self.delay, self.delay) if isinstance(self.delay, int) else self.delay
        return low, np.arange(1, high - low + 2) / (high - low + 1)


EVERYWHERE = np.empty(0, np.int8)
NO_PAIRS = np.empty((0, 2), np.int32)


class Transport(Stateful):
    """Carries the messages of all layers and counts them: sent = delivered + lost + under way, always."""

    def __init__(self, config: TransportConfig, seed: int, layers: list[str]) -> None:
        self._config = config
        self._shortest, self._cumulative = config.lags()
        self._row = {name: row for row, name in enumerate(layers)}
        self._seed = seed
        self._world: World | None = None
        self._sides: list[NDArray[np.int8]] = []
        self._reserved = 0  # bytes for messages under way, all layers
        self.counts = np.zeros((len(layers), 4), np.int64)

    @property
    def longest(self) -> int:
        """The most cycles a message can be under way; 0 when messages take effect at once."""
        return self._shortest + self._cumulative.size - 1

    @property
    def delays(self) -> tuple[int, NDArray[np.float64]]:
        """The shortest delay, and the probabilities of that many, one more, … cycles."""
        return self._shortest, np.diff(self._cumulative, prepend=0.0)

    @property
    def faults(self) -> frozenset[str]:
        """What messages may suffer."""
        return self._config.faults()

    @property
    def loss(self) -> float:
        """The probability that a message is lost."""
        return self._config.loss

    def attach(self, world: World) -> None:
        """Tell the transport which nodes there are."""
        self._world = world
        everyone = np.arange(world.nodes, dtype=np.int32)
        for number, cut in enumerate(self._config.partition):
            chosen = rng.sample(self._cut_key(number), 0, everyone, round(cut.share * world.nodes))
            side = np.zeros(world.nodes, np.int8)
            side[chosen] = 1
            self._sides.append(side)

    def reserve(self, messages: int, rows: dict[str, NDArray[Any]]) -> None:
        """Refuse a mailbox that does not fit into memory beside the others."""
        need = messages * (24 + sum(int(np.prod(row.shape[1:])) * row.itemsize for row in rows.values()))
        self._reserved += need
        if messages >= 2**31 or self._reserved > available():
            raise UserError(
                f"up to {messages:,} messages can be under way, which needs {readable(need)} of memory, "
                f"{readable(self._reserved)} with all layers; {readable(available())} are available",
                key="transport.delay",
                hint="shorten the longest delay, or simulate fewer nodes",
            )

    @property
    def world(self) -> World:
        """The world it carries messages in."""
        assert self._world is not None
        return self._world

    def side(self) -> NDArray[np.int8]:
        """The side of each node in this cycle; empty while the network is whole."""
        cycle, found = self.world.cycle, EVERYWHERE
        for cut, side in zip(self._config.partition, self._sides, strict=True):
            if cut.start <= cycle <= cut.until:
                found = side if found.size == 0 else (2 * found + side).astype(np.int8)
        return found

    def introductions(self) -> NDArray[np.int32]:
        """Pairs (node, contact) of nodes that learn of one on the other side, now that a cut has healed."""
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
        layer: Protocol[Any],
        kind: str,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        bytes_each: int,
        k: int | NDArray[np.int64] = 0,
    ) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
        """Send a message from each src to its dst (−1: none): which arrive, and after how many cycles (None: at once).

        `k` tells apart several messages of one kind that a node sends in one cycle: one number for all, or one each.
        """
        world, key = self.world, self._key(layer, kind)
        k = np.atleast_1d(np.asarray(k, np.int64))
        arrives = np.empty(dst.size, np.bool_)
        at_once = self.longest == 0
        sent, passed = send_all(
            key, world.cycle, k, src, dst, world.online, at_once, self._config.loss, self.side(), arrives
        )
        self.count(layer, sent=sent, delivered=passed if at_once else 0, lost=sent - passed, size=bytes_each)
        return arrives, None if at_once else self._lags(key, src, k)

    def lags(self, layer: Protocol[Any], kind: str, senders: NDArray[np.int32]) -> NDArray[np.int32]:
        """How many cycles messages sent now are under way; for layers whose senders are not nodes."""
        return self._lags(self._key(layer, kind), senders, np.zeros(1, np.int64))

    def _lags(self, key: np.uint64, senders: NDArray[np.int32], k: NDArray[np.int64]) -> NDArray[np.int32]:
        lag = np.empty(senders.size, np.int32)
        draw_lags(key, self.world.cycle, k, senders, self._shortest, self._cumulative, lag)
        return lag

    def lost_on_the_way(self, layer: Protocol[Any], kind: str, src: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which messages would be lost whatever their receiver; for kernels that choose receivers as they go.

        Such a kernel looks at `side` and counts for itself, see `count`.
        """
        if self._config.loss == 0:
            return np.zeros(src.size, np.bool_)
        return rng.uniform(self._key(layer, kind), src, self.world.cycle) < self._config.loss

    def count(self, layer: Protocol[Any], *, sent: int, delivered: int, lost: int, size: int = 0) -> None:
        """Add to a layer's counters; `size` is the bytes of each message sent."""
        self.counts[self._row[layer.name]] += (sent, delivered, lost, sent * size)

    def totals(self, layer: str) -> dict[str, int]:
        """A layer's counters so far, by metric."""
        sent, delivered, lost, size = (int(n) for n in self.counts[self._row[layer]])
        return {
            "messages.sent": sent,
            "messages.delivered": delivered,
            "messages.lost": lost,
            "messages.under_way": sent - delivered - lost,
            "bytes.sent": size,
        }

    def _key(self, layer: Protocol[Any], kind: str) -> np.uint64:
        return rng.key(self._seed, layer.name, f"transport.{kind}")


@kernel
def post(cycle, lag, src, dst, arrives, box_src, box_dst, following, head, tail, free, count, slots):
    """Put each message that arrives into a free slot and at the end of the queue of its cycle."""
    n = 0
    for e in range(dst.size):
        if arrives[e]:
            count -= 1
            slot = free[count]
            queue = (cycle + lag[e]) % head.size
            box_src[slot], box_dst[slot], following[slot] = src[e], dst[e], -1
            if tail[queue] >= 0:
                following[tail[queue]] = slot
            else:
                head[queue] = slot
            tail[queue] = slot
            slots[n] = slot
            n += 1
    return count, n


@kernel
def collect(queue, online, side, box_src, box_dst, following, head, tail, free, count, slots):
    """Empty a queue in sending order; a message whose receiver is offline or behind a cut is lost."""
    n = lost = 0
    slot = head[queue]
    while slot >= 0:
        free[count] = slot
        count += 1
        if online[box_dst[slot]] and (side.size == 0 or side[box_src[slot]] == side[box_dst[slot]]):
            slots[n] = slot
            n += 1
        else:
            lost += 1
        slot = following[slot]
    head[queue] = tail[queue] = -1
    return count, n, lost


@kernel
def copy_rows(source, row, target, slot, lo, hi):
    """target[slot[e]] = source[row[e]] for e of lo … hi−1."""
    for e in range(lo, hi):
        target[slot[e]] = source[row[e]]


class Mailbox(Stateful):
    """The messages of one layer that are under way, with the rows they carry as these were when sent.

    Rows live in slots; the slots due in one cycle form a queue in sending order. `rows` are arrays like those that
    will be sent: their row shape and type are taken. `each` is how many messages a node sends in a cycle at most.
    """

    def __init__(self, layer: Protocol[Any], world: World, each: int = 1, **rows: NDArray[Any]) -> None:
        longest = world.transport.longest
        capacity = world.nodes * longest * each
        self._layer = layer
        world.transport.reserve(capacity, rows)
        self.src = np.zeros(capacity, np.int32)
        self.dst = np.zeros(capacity, np.int32)
        self.following = np.full(capacity, -1, np.int32)
        self.head = np.full(longest + 1, -1, np.int32)
        self.tail = np.full(longest + 1, -1, np.int32)
        self.free = np.arange(capacity, dtype=np.int32)
        self.free_count = capacity
        self.number = np.zeros(capacity, np.int64)  # of each message, in sending order
        self.sent = 0
        self.collected = 0
        self._names = tuple(rows)
        for name, like in rows.items():
            setattr(self, name, np.zeros((capacity, *like.shape[1:]), like.dtype))

    @property
    def under_way(self) -> int:
        """How many messages are in it."""
        return self.dst.size - self.free_count

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> NDArray[Any]: ...

    def put(
        self,
        world: World,
        lag: NDArray[np.int32],
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        arrives: NDArray[np.bool_],
        row: NDArray[np.int32] | None = None,
        **rows_of: NDArray[Any],
    ) -> NDArray[np.int32]:
        """Post the messages that arrive, each with a copy of a row of every array: its sender's, or the one given.

        Returns the slots they are kept in, in sending order.
        """
        slots = np.empty(dst.size, np.int32)
        if arrives.sum() > self.free_count:
            raise RuntimeError(f"{self._layer.name}: more messages than its mailbox was made for; see `each`")
        self.free_count, n = post(
            world.cycle, lag, src, dst, arrives, self.src, self.dst, self.following, self.head, self.tail, self.free,
            self.free_count, slots,
        )  # fmt: skip
        slots = slots[:n]
        self.number[slots] = np.arange(self.sent, self.sent + n)
        self.sent += n
        senders = self.src[slots] if row is None else row[arrives]
        for name in self._names:
            source, target = flat(rows_of[name]), flat(getattr(self, name))
            over_ranges(world.threads, partial(copy_rows, source, senders, target, slots), 0, n)
        return slots

    def due(self, world: World) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """What is to be delivered now, in sending order: (slots, receivers); slots are valid until the next `put`."""
        slots = np.empty(self.dst.size - self.free_count, np.int32)
        n = 0
        last = min(world.cycle, self.collected + self.head.size - 1)
        for cycle in range(self.collected + 1, last + 1):
            self.free_count, more, lost = collect(
                cycle % self.head.size, world.online, world.transport.side(), self.src, self.dst, self.following,
                self.head, self.tail, self.free, self.free_count, slots[n:],
            )  # fmt: skip
            world.transport.count(self._layer, sent=0, delivered=more, lost=lost)
            n += more
        slots = slots[:n]
        if last > self.collected + 1:  # the layer has rested: several cycles' mail is due
            slots = slots[np.argsort(self.number[slots])]
        self.collected = world.cycle
        return slots, self.dst[slots]


def flat(rows: NDArray[Any]) -> NDArray[Any]:
    """A view with one row of numbers an entry."""
    return rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
