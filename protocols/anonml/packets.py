"""Packets in transit through circuits of relays. Each hop is a message, with loss, delay and churn."""

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

TRIES = 16  # how often a sender asks the overlay for a relay that differs from its other relays
QUANTILES = (0.05, 0.5, 0.95)

Numbers = NDArray[np.int64]  # of packets


@dataclass(frozen=True)
class Rules:
    """The rules of transport; `stagger` and `second` are those of `circuits.Timing`."""

    relays: int
    size: int  # bytes, the same for all packets on all hops
    stagger: int
    absolute: bool  # whether all packets have the same stagger window; otherwise it begins when a packet arrives
    second: int


class Packets(Stateful):
    """The packets of a layer, each with its circuit; packet e is sent by node e mod nodes.

    A relay forwards a packet in the turn in which it arrives; the last relay holds it for a time in the stagger window.
    The packet is lost if a relay is offline when the packet arrives or when it should be forwarded.
    """

    def __init__(self, layer: Protocol[Any], world: World, number: int, rules: Rules) -> None:
        self._layer, self._rules, self._nodes = layer, rules, world.nodes
        self._stagger_key = layer.key("stagger")
        self.status = np.zeros(number, np.int8)
        self.hop = np.zeros(number, np.int16)  # the next relay of a packet; after the last relay: the aggregator
        self.relay = np.full((number, rules.relays), -1, np.int32)
        self.due = np.zeros(number, np.int32)
        self.sent = np.zeros(number, np.int32)  # the cycle of sending
        self.held = np.zeros(number, np.int32)  # the number of cycles at the last relay
        self.arrived = np.zeros(number, np.int32)  # the cycle of arrival

    def depart(self, world: World, packets: Numbers, relay: NDArray[np.int32], end: int, opened: int) -> None:
        """Send packets, each through its relays [packets, relays], to the node `end`."""
        self.relay[packets] = relay
        self.sent[packets] = world.cycle
        self._send(world, packets, end, opened)

    def move(self, world: World, end: int, opened: int) -> None:
        """Deliver the packets that are due, and let last relays forward the packets whose time has come."""
        due = self.due <= world.cycle
        coming, leaving = (np.flatnonzero((self.status == what) & due) for what in (UNDER_WAY, HELD))
        src, dst = self._ends(coming, end)
        there = world.transport.deliver(self._layer, src, dst)
        self.status[coming[~there]] = LOST
        self._leave(world, leaving, end, opened)
        self._reach(world, coming[there], end, opened)

    def _ends(self, packets: Numbers, end: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the sender and the receiver of each packet on its current hop."""
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
        """Let packets arrive at their next relay, or at the end."""
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
        self.held[packets] = -world.cycle  # the cycle of departure is added when the packet leaves
        self._leave(world, packets[self.due[packets] <= world.cycle], end, opened)

    def _leave(self, world: World, packets: Numbers, end: int, opened: int) -> None:
        there = world.online[self.relay[packets, -1]] if packets.size else np.zeros(0, np.bool_)
        self.status[packets[~there]] = LOST
        self.held[packets] += world.cycle
        self._send(world, packets[there], end, opened)

    def metrics(self) -> dict[str, float]:
        """Return the numbers of sent, delivered and lost packets, and their latency in cycles."""
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
    """Draw the relays of one packet per node, from the peers that it knows.

    The relays of a packet are different, and neither the sender nor the aggregator.

    Parameters
    ----------
    world : World
        The world.
    overlay : Overlay
        The overlay that selects peers.
    key : uint64
        The key of the draws.
    row : int
        Distinguishes packets of a node in one cycle.
    nodes : array of int32, shape (nodes,)
        The senders.
    relays : int
        The number of relays per packet.
    aggregator : int
        The node of the aggregator.

    Returns
    -------
    relay : array of int32, shape (nodes, relays)
        The relays; −1: none found.
    ready : array of bool, shape (nodes,)
        Which nodes have found enough relays.
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
