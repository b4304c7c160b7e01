"""Messages on their way: loss, delay, and the mailbox that keeps what is under way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim import rng
from golfsim.kernels import kernel
from golfsim.parallel import over_ranges
from golfsim.rng import below, draw, unit
from golfsim.settings import TransportConfig
from golfsim.state import Stateful

if TYPE_CHECKING:
    from golfsim.protocol import Protocol
    from golfsim.world import World

SENT, DELIVERED, LOST, BYTES = range(4)


@kernel
def send_all(key, cycle, k, src, dst, online, at_once, loss, arrives):
    """Which messages arrive: (how many were sent, how many were not lost)."""
    sent = passed = 0
    for e in range(dst.size):
        j = dst[e]
        passes = j >= 0
        sent += passes
        if passes and loss > 0:
            passes = unit(draw(key, cycle, src[e], 2 * k)) >= loss
        if passes and at_once:
            passes = online[j]
        arrives[e] = passes
        passed += passes
    return sent, passed


@kernel
def draw_lags(key, cycle, k, src, shortest, longest, lag):
    """How many cycles each message is under way."""
    for e in range(src.size):
        lag[e] = shortest + below(draw(key, cycle, src[e], 2 * k + 1), longest - shortest + 1)


class Transport(Stateful):
    """Carries the messages of all layers and counts them: sent = delivered + lost + under way, always."""

    def __init__(self, config: TransportConfig, seed: int, layers: list[str]) -> None:
        delay = config.delay
        self._loss = config.loss
        self._shortest, self._longest = (delay, delay) if isinstance(delay, int) else delay
        self._row = {name: row for row, name in enumerate(layers)}
        self._seed = seed
        self._world: World | None = None
        self.counts = np.zeros((len(layers), 4), np.int64)

    @property
    def longest(self) -> int:
        """The most cycles a message can be under way; 0 when messages take effect at once."""
        return self._longest

    def attach(self, world: World) -> None:
        """Tell the transport who is online."""
        self._world = world

    def send(
        self,
        layer: Protocol[Any],
        kind: str,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        bytes_each: int,
        k: int = 0,
    ) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
        """Send a message from each src to its dst (−1: none): which arrive, and after how many cycles (None: at once).

        `k` tells apart several messages of one kind that a node sends in one cycle.
        """
        world = self._world
        assert world is not None
        key = self._key(layer, kind)
        arrives = np.empty(dst.size, np.bool_)
        at_once = self._longest == 0
        sent, passed = send_all(key, world.cycle, k, src, dst, world.online, at_once, self._loss, arrives)
        self.count(layer, sent=sent, delivered=passed if at_once else 0, lost=sent - passed, size=bytes_each)
        if at_once:
            return arrives, None
        lag = np.empty(src.size, np.int32)
        draw_lags(key, world.cycle, k, src, self._shortest, self._longest, lag)
        return arrives, lag

    def lost_on_the_way(self, layer: Protocol[Any], kind: str, src: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which messages would be lost whatever their receiver; for kernels that choose receivers as they go.

        Such a kernel counts for itself, see `count`.
        """
        assert self._world is not None
        if self._loss == 0:
            return np.zeros(src.size, np.bool_)
        return rng.uniform(self._key(layer, kind), src, self._world.cycle) < self._loss

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
def collect(queue, online, box_dst, following, head, tail, free, count, slots):
    """Empty a queue in sending order; a message whose receiver is offline is lost."""
    n = lost = 0
    slot = head[queue]
    while slot >= 0:
        free[count] = slot
        count += 1
        if online[box_dst[slot]]:
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
    will be sent: their row shape and type are taken.
    """

    def __init__(self, layer: Protocol[Any], world: World, **rows: NDArray[Any]) -> None:
        longest = world.transport.longest
        capacity = world.nodes * longest
        self._layer = layer
        self.src = np.zeros(capacity, np.int32)
        self.dst = np.zeros(capacity, np.int32)
        self.following = np.full(capacity, -1, np.int32)
        self.head = np.full(longest + 1, -1, np.int32)
        self.tail = np.full(longest + 1, -1, np.int32)
        self.free = np.arange(capacity, dtype=np.int32)
        self.free_count = capacity
        self.collected = 0
        self._names = tuple(rows)
        for name, like in rows.items():
            setattr(self, name, np.zeros((capacity, *like.shape[1:]), like.dtype))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> NDArray[Any]: ...

    def put(
        self,
        world: World,
        lag: NDArray[np.int32],
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        arrives: NDArray[np.bool_],
        **rows_of: NDArray[Any],
    ) -> None:
        """Post the messages that arrive, each with a copy of its sender's row of every array."""
        slots = np.empty(dst.size, np.int32)
        self.free_count, n = post(
            world.cycle, lag, src, dst, arrives, self.src, self.dst, self.following, self.head, self.tail, self.free,
            self.free_count, slots,
        )  # fmt: skip
        slots = slots[:n]
        senders = self.src[slots]
        for name in self._names:
            source, target = flat(rows_of[name]), flat(getattr(self, name))
            over_ranges(world.threads, partial(copy_rows, source, senders, target, slots), 0, n)

    def due(self, world: World) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """What is to be delivered now, in sending order: (slots, receivers); slots are valid until the next `put`."""
        slots = np.empty(self.dst.size - self.free_count, np.int32)
        n = 0
        for cycle in range(max(self.collected + 1, world.cycle - self.head.size + 2), world.cycle + 1):
            self.free_count, more, lost = collect(
                cycle % self.head.size, world.online, self.dst, self.following, self.head, self.tail, self.free,
                self.free_count, slots[n:],
            )  # fmt: skip
            world.transport.count(self._layer, sent=0, delivered=more, lost=lost)
            n += more
        self.collected = world.cycle
        return slots[:n], self.dst[slots[:n]]


def flat(rows: NDArray[Any]) -> NDArray[Any]:
    """A view with one row of numbers an entry."""
    return rows.reshape(len(rows), -1)
