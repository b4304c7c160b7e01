"""Broadcast: one rumour spreads by push, pull, both, or rumour mongering (Demers et al. 1987)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.core.rng import draw, integers, sample, unit
from golfsim.network.delivery import answer_arrives, arrives
from golfsim.protocol import Layer, LayerConfig, Overlay, Protocol, kernel

if TYPE_CHECKING:
    from golfsim.network.world import World

REQUEST = 8  # bytes of a request or of feedback


@kernel
def spread(heard, begun, before, order, peer, push, pull, several, wires):
    """Let each node in turn tell its peer the rumour, or ask for it, and return how often the rumour was sent.

    Parameters
    ----------
    heard : array of int32, shape (nodes,)
        The cycle in which each node heard a rumour last; changed in place.
    begun : int
        The cycle in which this rumour began.
    before : int
        Nodes pass the rumour on if they heard it before this cycle.
    order, peer : array of int32
        The nodes that act, in this order, and their peers (−1: none).
    push, pull : bool
        Whether nodes that know the rumour send it, and whether the others ask for it.
    several : bool
        Whether a node may act several times.
    wires : tuple of Wire
        The rules that decide which rumours, requests and answers arrive.
    """
    rumour, request, answer = wires
    told = 0
    for e in range(order.size):
        i, j, k = order[e], peer[e], e if several else 0
        if j < 0:
            continue
        if begun <= heard[i] < before:
            if push:
                told += 1
                if arrives(rumour, i, j, k) and heard[j] < begun:
                    heard[j] = rumour.cycle
        elif pull and heard[i] < begun and arrives(request, i, j, k) and begun <= heard[j] < before:
            told += 1
            if answer_arrives(answer, j, i, k):
                heard[i] = rumour.cycle
    return told


@kernel
def monger(heard, contacts, begun, before, order, peer, feedback, chance, limit, several, wires, key):
    """Let each node that is interested in the rumour tell it to its peer, and return how often it was sent.

    Parameters
    ----------
    heard : array of int32, shape (nodes,)
        The cycle in which each node heard a rumour last; changed in place.
    contacts : array of int32, shape (nodes,)
        The counter of each node: a node loses interest when it reaches `limit`; changed in place.
    begun : int
        The cycle in which this rumour began.
    before : int
        Nodes pass the rumour on if they heard it before this cycle.
    order, peer : array of int32
        The nodes that act, in this order, and their peers (−1: none).
    feedback : bool
        Whether only contacts count whose peer answers that it knew the rumour already.
    chance : float
        The probability that a contact that counts ends the interest; 0: it increases the counter.
    limit : int
        k of the paper.
    several : bool
        Whether a node may act several times.
    wires : tuple of Wire
        The rules that decide which rumours and answers arrive.
    key : uint64
        Of the draws.
    """
    rumour, answer = wires
    told = 0
    for e in range(order.size):
        i, j, k = order[e], peer[e], e if several else 0
        if j < 0 or not begun <= heard[i] < before or contacts[i] >= limit:
            continue
        told += 1
        there = arrives(rumour, i, j, k)
        known = there and heard[j] >= begun
        if there and not known:
            heard[j], contacts[j] = rumour.cycle, 0
        if there and feedback:
            known = answer_arrives(answer, j, i, k) and known
        if known or not feedback:
            if chance == 0:
                contacts[i] += 1
            elif unit(draw(key, rumour.cycle, i, k)) < chance:
                contacts[i] = limit
    return told


class BroadcastConfig(LayerConfig):
    """The settings of broadcast."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that chooses the peers")
    mode: Literal["push", "pull", "push-pull", "rumour"] = Field(
        "push",
        description="“push”: nodes that know the rumour send it; “pull”: the others ask for it; “push-pull”: both; "
        "“rumour”: push, and a node loses interest in time (rumour mongering)",
    )
    sources: int = Field(1, ge=1, description="the number of random online nodes that know the rumour at first")
    epoch: int | None = Field(
        None, ge=1, description="a new rumour replaces the old one after this many cycles; default: there is only one"
    )
    initiators: Literal["each", "random"] = Field(
        "each",
        description="who acts: each online node once per cycle, with what it knew when the cycle began (“each”), or as "
        "many nodes as are online, drawn with replacement, one after the other (“random”)",
    )
    k: int = Field(2, ge=1, description="rumour mongering: how soon a node loses interest, by `stop`")
    stop: Literal["counter", "coin"] = Field(
        "counter",
        description="rumour mongering: a node loses interest after k contacts that count (“counter”), or after each of "
        "them with probability 1/k (“coin”)",
    )
    feedback: bool = Field(
        True,
        description="rumour mongering: only contacts count whose peer answers that it knew the rumour; if false, all "
        "contacts count (“blind”)",
    )
    size: int = Field(8, ge=1, description="the bytes of the rumour")


class Broadcast(Protocol[BroadcastConfig]):
    """A rumour spreads from its sources to all nodes. Each cycle every node contacts one peer.

    The sources hear the rumour in the first cycle, and pass it on from the next one. With rumour mongering nodes stop
    sooner or later, and the share of nodes that never hear the rumour is its residue.
    """

    Config = BroadcastConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (
        Metric("rumour.reached", "The share of online nodes that know the rumour.", "share of online nodes", "up"),
        Metric("rumour.residue", "The share of online nodes that do not know it.", "share of online nodes", "down"),
        Metric("rumour.interested", "The share of online nodes that know it and send it.", "share of online nodes"),
        Metric("rumour.sent", "The number of times it was sent, divided by that of online nodes.", "rumours", "down"),
        Metric("delay.mean", "The cycles until a node heard it: the mean of the nodes that know it.", "cycles", "down"),
        Metric("delay.max", "The cycles until the last node so far heard it.", "cycles", "down"),
    )

    def setup(self, world: World) -> None:
        """Allocate what the nodes know."""
        self.heard = np.zeros(world.nodes, np.int32)
        self.contacts = np.zeros(world.nodes, np.int32)
        self.begun = 0  # the cycle in which the rumour began; 0: there is none yet
        self.told = 0

    def memory(self, world: World) -> int:
        """Return the bytes of what the nodes know, and of who acts."""
        drawn = 2 * (self.config.initiators == "random")
        return size_of((np.int32, 4, world.nodes), (np.int64, drawn, world.nodes))

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Let the nodes know nothing."""
        self.heard[nodes] = self.contacts[nodes] = 0

    def step(self, world: World) -> None:
        """Let a new rumour begin, or let all nodes contact a peer."""
        over = self.config.epoch is not None and world.cycle - self.begun >= self.config.epoch
        if world.order.size and (self.begun == 0 or over):
            self._begin(world)
            return
        several = self.config.initiators == "random"
        order, k = self._drawn(world) if several else (world.order, 0)
        peer = self.config.peers.choose(world, order, self.key("peer"), k)
        before = world.cycle + several
        rumour, request, answer = (
            world.transport.wire(self, kind, size)
            for kind, size in (("rumour", self.config.size), ("request", REQUEST), ("answer", self._answer_bytes()))
        )
        if self.config.mode == "rumour":
            chance = 1 / self.config.k if self.config.stop == "coin" else 0.0
            self.told += monger(
                self.heard, self.contacts, self.begun, before, order, peer, self.config.feedback, chance, self.config.k,
                several, (rumour, answer), self.key("coin"),
            )  # fmt: skip
        else:
            push, pull = self.config.mode != "pull", self.config.mode != "push"
            wires = (rumour, request, answer)
            self.told += spread(self.heard, self.begun, before, order, peer, push, pull, several, wires)

    def _begin(self, world: World) -> None:
        """Tell the rumour to its sources."""
        self.begun, self.told = world.cycle, 0
        nodes = sample(self.key("source"), world.cycle, np.sort(world.order), self.config.sources)
        self.heard[nodes] = world.cycle
        self.contacts[nodes] = 0

    def _answer_bytes(self) -> int:
        return REQUEST if self.config.mode == "rumour" else self.config.size

    def _drawn(self, world: World) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return as many random online nodes as are online, and a number for each contact."""
        places = np.arange(world.order.size, dtype=np.int32)
        drawn = integers(self.key("initiator"), places, places.size, world.cycle)
        return np.sort(world.order)[drawn], places.astype(np.int64)

    def observe(self, world: World) -> dict[str, float]:
        """Return how far the rumour has spread, what it cost, and how long it took."""
        online = max(int(world.online.sum()), 1)
        knowing = world.online & (self.heard >= self.begun) & (self.begun > 0)
        asleep = (self.contacts >= self.config.k) & (self.config.mode == "rumour")
        delay = self.heard[knowing] - self.begun
        return {
            "rumour.reached": int(knowing.sum()) / online,
            "rumour.residue": 1 - int(knowing.sum()) / online,
            "rumour.interested": int((knowing & ~asleep).sum()) / online if self.config.mode != "pull" else 0.0,
            "rumour.sent": self.told / online,
            "delay.mean": float(delay.sum()) / max(delay.size, 1),
            "delay.max": float(delay.max(initial=0)),
        }
