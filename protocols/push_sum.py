"""Push-sum: all nodes learn the mean of their values from shares of them (Kempe, Dobra & Gehrke 2003)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import inlined, kernel
from golfsim.core.metrics import Metric
from golfsim.core.simd import prefetch
from golfsim.network.delivery import arrives
from golfsim.network.mailbox import Mailbox
from golfsim.protocol.averages import METRICS, NUMBER, Averages, AveragesConfig, Floats, Nodes

if TYPE_CHECKING:
    from golfsim.network.world import World

AHEAD = 8  # messages
LEAST = 1e-200  # a smaller weight gives no estimate: value and weight have lost digits


@inlined
def halve(value, weight, i):
    """Halve the row and the weight of a node."""
    for f in range(value.shape[1]):
        value[i, f] /= 2
    weight[i] /= 2


@inlined
def add(source, source_weight, i, value, weight, j):
    """Add row i of one array to row j of another, with the weights.

    Parameters
    ----------
    source : array of float64, shape (rows, numbers)
        The rows to add.
    source_weight : array of float64, shape (rows,)
        Their weights.
    i : int
        The row to add.
    value : array of float64, shape (nodes, numbers)
        The rows of the nodes; changed in place.
    weight : array of float64, shape (nodes,)
        Their weights; changed in place.
    j : int
        The row that is changed.
    """
    for f in range(value.shape[1]):
        value[j, f] += source[i, f]
    weight[j] += source_weight[i]


@kernel
def push(value, weight, order, peer, since, begun, wire):
    """Let each node in turn halve its row and its weight, and give one half to its peer at once.

    A node keeps everything if its peer refuses, since it takes no part in the epoch.

    Parameters
    ----------
    value : array of float64, shape (nodes, numbers)
        The row of each node; changed in place.
    weight : array of float64, shape (nodes,)
        The weight of each node; changed in place.
    order : array of int32
        The online nodes, in acting order.
    peer : array of int32, shape of `order`
        The peer of each node, or −1.
    since : array of int32, shape (nodes,)
        The last cycle in which each node came online.
    begun : int
        The cycle in which the epoch began; nodes that came online later take no part.
    wire : Wire
        The rule that decides which messages arrive.
    """
    for e in range(order.size):
        if e + AHEAD < order.size and peer[e + AHEAD] >= 0:
            prefetch(value, peer[e + AHEAD])
        i, j = order[e], peer[e]
        if j < 0 or since[i] > begun:
            continue
        there = arrives(wire, i, j, 0)
        if there and since[j] > begun:
            continue
        halve(value, weight, i)
        if there:
            add(value, weight, i, value, weight, j)


@kernel
def halve_all(value, weight, order, peer):
    """Halve the row and the weight of each node that has a peer, to which it sends the other half."""
    for e in range(order.size):
        if peer[e] >= 0:
            halve(value, weight, order[e])


@kernel
def absorb(value, weight, since, begun, slots, dst, number, oldest, sent_value, sent_weight):
    """Add what arrives in messages to the receivers, in sending order.

    A message of an earlier epoch is ignored, and one to a node that takes no part in the epoch is refused.

    Parameters
    ----------
    value : array of float64, shape (nodes, numbers)
        The row of each node; changed in place.
    weight : array of float64, shape (nodes,)
        The weight of each node; changed in place.
    since : array of int32, shape (nodes,)
        The last cycle in which each node came online.
    begun : int
        The cycle in which the epoch began.
    slots, dst : array of int32, shape (messages,)
        The slot and the receiver of each message.
    number : array of int64, shape (slots,)
        The number of the message in each slot.
    oldest : int
        The number of the first message of this epoch.
    sent_value : array of float64, shape (slots, numbers)
        The rows in the messages.
    sent_weight : array of float64, shape (slots,)
        The weights in the messages.
    """
    for e in range(slots.size):
        if e + AHEAD < slots.size:
            prefetch(value, dst[e + AHEAD])
            prefetch(sent_value, slots[e + AHEAD])
        if number[slots[e]] >= oldest and since[dst[e]] <= begun:
            add(sent_value, sent_weight, slots[e], value, weight, dst[e])


@kernel
def total(numbers, places):
    """Return the sum of the numbers at some places, in this order."""
    found = 0.0
    for place in places:
        found += numbers[place]
    return found


class PushSum(Averages[AveragesConfig]):
    """Each cycle every node keeps half of its value and of its weight, and sends the other half to a random peer.

    Weights are 1 at the start. The estimate is the value divided by the weight. The sums of all values and of all
    weights, the mass, stay the same with any delay of messages. A lost message loses mass: a part of the value, and
    the same part of the weight.
    """

    Config = AveragesConfig
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (
        *METRICS,
        Metric(
            "mass",
            "The weight of the nodes that take part and of messages in transit, divided by the number of these nodes. "
            "It is 1 as long as no message is lost and no node leaves.",
        ),
    )

    def setup(self, world: World) -> None:
        """Allocate the values and weights."""
        super().setup(world)
        self.weight = np.zeros(world.nodes)
        self.oldest = 0  # the number of the first message of this epoch
        if world.transport.longest:
            self.mail = Mailbox(self, world, value=self.value, weight=self.weight)

    def memory(self, world: World) -> int:
        """Return the bytes of values and weights, in the nodes and in transit."""
        of = self.config.of
        row = NUMBER * (1 + (1 if of is None else of.value_width(self.config.moments == 2)))
        return super().memory(world) + NUMBER * world.nodes + Mailbox.memory(world, row)

    def start(self, world: World, nodes: Nodes) -> None:
        """Give the nodes their first values with weight 1, or nothing until they take their numbers."""
        self.weight[nodes] = 0.0
        super().start(world, nodes)

    def take(self, world: World, nodes: Nodes, restart: bool = False) -> None:
        """Give the nodes their own numbers with weight 1."""
        super().take(world, nodes, restart)
        self.weight[nodes] = 1.0

    def step(self, world: World) -> None:
        """Receive what is due, then let every node that takes part send a half."""
        begins = self.begin_turn(world)
        if world.transport.longest:
            self.oldest = self.mail.sent if begins else self.oldest
            slots, receivers = self.mail.due(world)
            absorb(
                self.value, self.weight, world.since, self.since, slots, receivers, self.mail.number, self.oldest,
                self.mail.value, self.mail.weight,
            )  # fmt: skip
        nodes = world.order
        peer = self.config.peers.choose(world, nodes, self.key("peer"))
        if world.transport.longest:
            self._mail(world, nodes, peer)
        else:
            wire = world.transport.wire(self, "half", self.message_bytes(1))
            push(self.value, self.weight, nodes, peer, world.since, self.since, wire)
        self.end_turn(world)

    def _mail(self, world: World, nodes: Nodes, peer: Nodes) -> None:
        """Send halves that arrive in a later cycle."""
        peer = np.where(world.since[nodes] <= self.since, peer, np.int32(-1))
        arrives, lag = world.transport.send(self, "half", nodes, peer, self.message_bytes(1))
        assert lag is not None
        halve_all(self.value, self.weight, nodes, peer)
        self.mail.put(world, lag, nodes, peer, arrives, value=self.value, weight=self.weight)

    def current(self, nodes: Nodes) -> Floats:
        """Return the values divided by the weights, 0 where a weight is too small."""
        weight = np.where(self._usable(nodes), self.weight[nodes], np.inf)
        return np.asarray(self.value[nodes] / weight[:, None])

    def _usable(self, nodes: Nodes) -> NDArray[np.bool_]:
        return np.asarray(self.weight[nodes] > LEAST)

    def moving(self, world: World) -> NDArray[np.int32]:
        """Return the slots of the messages of this epoch that are in transit."""
        used = np.ones(self.mail.free.size, np.bool_)
        used[self.mail.free[: self.mail.free_count]] = False
        return np.flatnonzero(used & (self.mail.number >= self.oldest)).astype(np.int32)

    def observe(self, world: World) -> dict[str, float]:
        """Return the moments of the estimates, and the mass that is left."""
        nodes = self.taking_part(world)
        if not nodes.size:
            return super().observe(world)
        mass = float(total(self.weight, np.sort(nodes)))
        if world.transport.longest:
            mass += float(total(self.mail.weight, self.moving(world)))
        return super().observe(world) | {"mass": mass / nodes.size}
