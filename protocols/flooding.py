"""Flooding: messages travel over the links of an overlay to all nodes that they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.errors import UserError
from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.core.rng import below, draw, integers
from golfsim.network.delivery import SENT, arrives
from golfsim.protocol import Layer, LayerConfig, Overlay, Protocol, kernel

if TYPE_CHECKING:
    from golfsim.network.world import World


@kernel
def flood(start, neighbour, source, first_k, fanout, wire, key, hops, sender, queue, places):
    """Send one message from a source: each node that receives it passes it on once, but not to where it came from.

    Parameters
    ----------
    start : array of int, shape (nodes + 1,)
        The links of node i are neighbour[start[i]] … neighbour[start[i+1]−1].
    neighbour : array of int
        The neighbours of all nodes.
    source : int
        The node that sends first.
    first_k : int
        The number of the first draw, and of the first message, of each node.
    fanout : int
        A node passes a message on to this many random neighbours; 0: to all.
    wire : Wire
        The rule that decides which messages arrive.
    key : uint64
        Of the draws.
    hops : array of int32, shape (nodes,)
        Filled with the number of hops to each node, or −1.
    sender, queue : array of int32, shape (nodes,)
        Scratch memory: from whom each node has the message, and the nodes that have it.
    places : array of int64
        Scratch memory for the links of a node.

    Returns
    -------
    reached, longest : int
        The number of nodes that have the message, and the largest number of hops.
    """
    hops[:] = -1
    hops[source], sender[source], queue[0] = 0, -1, source
    read, write = 0, 1
    while read < write:
        node = queue[read]
        read += 1
        n = 0
        for place in range(start[node], start[node + 1]):
            if neighbour[place] != sender[node]:
                places[n] = place
                n += 1
        for k in range(min(fanout, n) if fanout > 0 else n):
            if fanout > 0:
                other = k + below(draw(key, wire.cycle, node, first_k + k), n - k)
                places[k], places[other] = places[other], places[k]
            peer = neighbour[places[k]]
            if arrives(wire, node, peer, first_k + k) and hops[peer] < 0:
                hops[peer], sender[peer], queue[write] = hops[node] + 1, node, peer
                write += 1
    return write, np.int64(hops[queue[write - 1]])


class FloodingConfig(LayerConfig):
    """The settings of flooding."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay over whose links messages travel")
    messages: int = Field(1, ge=1, le=1000, description="the number of messages per turn, each of a random online node")
    fanout: int | None = Field(
        None, ge=1, description="a node passes a message on to this many random neighbours; default: to all"
    )
    size: int = Field(8, ge=1, description="the bytes of a message")


class Flooding(Protocol[FloodingConfig]):
    """In each turn random nodes send a message, and each node that receives one for the first time passes it on.

    A message is faster than a cycle: it reaches all nodes that it can reach within the turn. So the share of nodes that
    it reaches shows how well the overlay connects the online nodes at this moment.
    """

    Config = FloodingConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (
        Metric(
            "flood.reached",
            "The share of online nodes that a message reaches: the mean over the messages of the last turn.",
            "share of online nodes",
            "up",
        ),
        Metric("flood.reached_min", "The smallest share of a message of the last turn.", "share of online nodes", "up"),
        Metric("flood.hops", "The largest number of hops of a message: the mean over messages.", "hops"),
        Metric("flood.sent", "The number of times that a node sends a message: the mean over nodes and messages."),
    )

    def setup(self, world: World) -> None:
        """Allocate the results of the last turn."""
        self.share, self.least, self.hops, self.traffic = 0.0, 0.0, 0.0, 0.0
        self._hops, self._sender, self._queue = (np.empty(world.nodes, np.int32) for _ in range(3))

    def memory(self, world: World) -> int:
        """Return the bytes of the scratch memory."""
        return size_of((np.int32, 3, world.nodes), (np.int32, 3, self.config.peers.most_links(world)))

    def step(self, world: World) -> None:
        """Send the messages of this turn."""
        links = self.config.peers.links(world)
        if links is None:
            raise UserError(
                f"“{self.config.peers.name}” stores no links that a message could travel over",
                key=f"{self.name}.peers",
                hint="choose an overlay with links, for example “hyparview”, “newscast” or “static_overlay”",
            )
        online, messages = np.sort(world.order), self.config.messages
        if online.size == 0:
            return
        wire = world.transport.wire(self, "message", self.config.size)
        most, before = int(np.diff(links.indptr).max(initial=0)), int(wire.counts[SENT])
        numbers = np.arange(messages, dtype=np.int32)
        sources = online[integers(self.key("source"), numbers, online.size, world.cycle)]
        found = np.empty((messages, 2))
        for number, source in enumerate(sources):
            found[number] = flood(
                links.indptr, links.indices, source, number * most, self.config.fanout or 0, wire,
                self.key("neighbour"), self._hops, self._sender, self._queue, np.empty(most, np.int64),
            )  # fmt: skip
        self._note(found, online.size, int(wire.counts[SENT]) - before)

    def _note(self, found: NDArray[np.float64], online: int, sent: int) -> None:
        self.share = float(found[:, 0].sum()) / (len(found) * online)
        self.least = float(found[:, 0].min()) / online
        self.hops = float(found[:, 1].sum()) / len(found)
        self.traffic = sent / (len(found) * online)

    def observe(self, world: World) -> dict[str, float]:
        """Return how far the messages of the last turn went, and what they cost."""
        return {
            "flood.reached": self.share,
            "flood.reached_min": self.least,
            "flood.hops": self.hops,
            "flood.sent": self.traffic,
        }
