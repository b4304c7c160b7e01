"""Packets under way through circuits of relays: each hop is a message, and may be lost, late, or find nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.state import Stateful

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.protocol.base import Protocol
    from golfsim.protocol.overlay import Overlay

WAITING, UNDER_WAY, HELD, ARRIVED, LOST = range(5)

TRIES = 16  # times that a sender asks the overlay for a relay it has not got yet
QUANTILES = (0.05, 0.5, 0.95)

Numbers = NDArray[np.int64]  # of packets


@dataclass(frozen=True)
class Rules:
    """How packets travel; `stagger` and `second` are those of `circuits.Timing`."""

    relays: int
    size: int  # bytes, the same for all packets on all hops
    stagger: int
    absolute: bool  # the stagger window is the same for all packets, and does not begin when each comes
    second: int


class Packets(Stateful):
    """The packets of a layer, each with its circuit; packet e is sent by node e mod nodes.

    A relay sends a packet on in the turn in which it comes; the last one holds it back for the stagger window. A
    relay that is offline when a packet comes, or when it should send on what it holds, has lost it.
    """

    def __init__(self, layer: Protocol[Any], world: World, number: int, rules: Rules) -> None:
        self._layer, self._rules, self._nodes = layer, rules, world.nodes
        self._stagger_key = layer.key("stagger")
        self.status = np.zeros(number, np.int8)
        self.hop = np.zeros(number, np.int16)  # which of its relays a packet goes to next; after the last: the end
        self.relay = np.full((number, rules.relays), -1, np.int32)
        self.due = np.zeros(number, np.int32)
        self.sent = np.zeros(number, np.int32)  # the cycle
        self.held = np.zeros(number, np.int32)  # for how many cycles, by the last relay
        self.arrived = np.zeros(number, np.int32)  # the cycle

    def depart(self, world: World, packets: Numbers, relay: NDArray[np.int32], end: int, opened: int) -> None:
        """Send packets out, each through its relays [packets, relays], to the node at the end."""
        self.relay[packets] = relay
        self.sent[packets] = world.cycle
        self._send(world, packets, end, opened)

    def move(self, world: World, end: int, opened: int) -> None:
        """Deliver what is due, and let last relays send on what they have held long enough."""
        due = self.due <= world.cycle
        coming, leaving = (np.flatnonzero((self.status == what) & due) for what in (UNDER_WAY, HELD))
        src, dst = self._ends(coming, end)
        there = world.transport.deliver(self._layer, src, dst)
        self.status[coming[~there]] = LOST
        self._leave(world, leaving, end, opened)
        self._reach(world, coming[there], end, opened)

    def _ends(self, packets: Numbers, end: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Where each packet comes from, and where it goes."""
        stops = np.column_stack([packets % self._nodes, self.relay[packets], np.full(packets.size, end)])
        hop, row = self.hop[packets], np.arange(packets.size)
        return stops[row, hop].astype(np.int32), stops[row, hop + 1].astype(np.int32)

    def _send(self, world: World, packets: Numbers, end: int, opened: int) -> None:
        if not packets.size:
            return
        src, dst = self._ends(packets, end)
        k = packets * (self._rules.relays + 1) + self.hop[packets]
        arrives, lag = world.transport.send(self._layer, "packet", src, dst, self._rules.size, k)
        self.status[packets] = np.where(arrives, UNDER_WAY, LOST)
        if lag is None:
            self._reach(world, packets[arrives], end, opened)
        else:
            self.due[packets] = world.cycle + lag

    def _reach(self, world: World, packets: Numbers, end: int, opened: int) -> None:
        """Packets come to their next stop."""
        at_end = self.hop[packets] == self._rules.relays
        self.status[packets[at_end]] = ARRIVED
        self.arrived[packets[at_end]] = world.cycle
        on = packets[~at_end]
        self.hop[on] += 1
        last = (self.hop[on] == self._rules.relays) & (self._rules.stagger > 0)
        self._hold(world, on[last], end, opened)
        self._send(world, on[~last], end, opened)

    def _hold(self, world: World, packets: Numbers, end: int, opened: int) -> None:
        if not packets.size:
            return
        wait = rng.integers(self._stagger_key, packets.astype(np.int32), self._rules.stagger)
        begin = opened + self._rules.second if self._rules.absolute else world.cycle
        self.status[packets] = HELD
        self.due[packets] = begin + wait
        self.held[packets] = -world.cycle  # made up for when it leaves
        self._leave(world, packets[self.due[packets] <= world.cycle], end, opened)

    def _leave(self, world: World, packets: Numbers, end: int, opened: int) -> None:
        there = world.online[self.relay[packets, -1]] if packets.size else np.zeros(0, np.bool_)
        self.status[packets[~there]] = LOST
        self.held[packets] += world.cycle
        self._send(world, packets[there], end, opened)

    def metrics(self) -> dict[str, float]:
        """What was sent and what came of it, in packets and cycles."""
        sent, arrived = self.sent > 0, self.status == ARRIVED
        found = {
            "packets.sent": float(sent.sum()),
            "packets.delivered": float(arrived.sum()),
            "packets.lost": float((self.status == LOST).sum()),
            "packets.bytes": float(self._rules.size),
            "onion.layers": float(sent.sum() * (self._rules.relays + 1)),
        }
        if sent.any():
            found["delivery.mean"] = float(arrived[sent].mean())
        if arrived.any():
            latency = self.arrived[arrived] - self.sent[arrived]
            found |= {"latency.mean": float(latency.mean()), "hops.mean": float(self._rules.relays + 1)}
            found |= {f"latency.q{round(100 * q):02}": float(np.quantile(latency, q)) for q in QUANTILES}
        return found


def draw_circuits(
    world: World,
    overlay: Overlay[Any],
    key: np.uint64,
    row: int,
    nodes: NDArray[np.int32],
    relays: int,
    aggregator: int,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Relays for a packet of each node, all different, neither it nor the aggregator; and who has found enough.

    A sender draws its relays from those it knows. `row` tells apart several packets of a node in one cycle.
    """
    relay = np.full((nodes.size, relays), -1, np.int32)
    for place in range(relays):
        for attempt in range(TRIES):
            without = np.flatnonzero(relay[:, place] < 0)
            if not without.size:
                break
            drawn = overlay.choose(world, nodes[without], key, (row * relays + place) * TRIES + attempt)
            fits = (drawn >= 0) & (drawn != aggregator) & (drawn != nodes[without])
            fits &= (relay[without] != drawn[:, None]).all(axis=1)
            relay[without[fits], place] = drawn[fits]
    return relay, np.asarray((relay >= 0).all(axis=1))
