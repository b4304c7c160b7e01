"""Adversarial nodes: a share of the nodes flips labels, or sends something other than its model."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.kernels import kernel, leaf
from golfsim.core.rng import draw
from golfsim.core.settings import Settings, Share
from golfsim.privacy.noise import normal

HONEST, NEGATIVE, NOISE, OLD = range(4)
SENDS = {"negative": NEGATIVE, "noise": NOISE, "old": OLD}


class Forgery(NamedTuple):
    """What kernels need to know about adversarial senders; `kind` is empty if there are none."""

    kind: NDArray[np.int8]
    scale: NDArray[np.float32]  # of each node's noise
    old_row: NDArray[np.int32]  # the place of each node's old model
    key: np.uint64


@leaf
def forge(forgery, sender, cycle, w, start, old, out):
    """Write what an adversarial sender sends in place of its model.

    Parameters
    ----------
    forgery : Forgery
        What each node does in this cycle.
    sender : int
        The node that sends.
    cycle : int
        The current cycle.
    w : array of float32, shape (rows, features)
        The models, one row per linear model.
    start : int
        The first row of the sender's model.
    old : array of float32, shape (rows, features)
        The stored old models, one row per linear model.
    out : array of float32, shape (models, features)
        The model that is sent; filled here.
    """
    kind = forgery.kind[sender]
    kept = np.int64(forgery.old_row[sender]) * out.shape[0]
    for m in range(out.shape[0]):
        for f in range(out.shape[1]):
            if kind == NEGATIVE:
                out[m, f] = -w[start + m, f]
            elif kind == NOISE:
                k = 2 * (m * out.shape[1] + f)
                first, second = draw(forgery.key, cycle, sender, k), draw(forgery.key, cycle, sender, k + 1)
                out[m, f] = forgery.scale[sender] * np.float32(normal(first, second))
            elif kind == OLD:
                out[m, f] = old[kept + m, f]
            else:
                out[m, f] = w[start + m, f]


@kernel
def forge_rows(forgery, senders, cycle, slots, w, old, models):
    """Replace the models of adversarial senders in the mailbox slots of their new messages.

    Parameters
    ----------
    forgery : Forgery
        What each node does in this cycle.
    senders : array of int32, shape (messages,)
        The sender of each message.
    cycle : int
        The current cycle.
    slots : array of int32, shape (messages,)
        The mailbox slot of each message.
    w : array of float32, shape (slots · models, features)
        The models in the mailbox; changed in place.
    old : array of float32, shape (rows, features)
        The stored old models, one row per linear model.
    models : int
        The number of linear models per message.
    """
    scratch = np.empty((models, w.shape[1]), np.float32)
    if forgery.kind.size > 0:
        for e in range(senders.size):
            if forgery.kind[senders[e]] != HONEST:
                start = np.int64(slots[e]) * models
                forge(forgery, senders[e], cycle, w, start, old, scratch)
                for m in range(models):  # in a loop, which compiles much faster than a slice
                    for f in range(w.shape[1]):
                        w[start + m, f] = scratch[m, f]


class AdversaryConfig(Settings):
    """`[[adversary]]`: a share or a number of nodes that do not follow the protocol."""

    kind: Literal["flip-labels", "noise", "negative", "old"] = Field(
        description="what adversarial nodes do: train on the opposite label (the next class), or send Gaussian noise, "
        "the negative of their model, or their model of an earlier cycle"
    )
    share: Share | None = Field(None, description="the share of all nodes that is adversarial")
    number: int | None = Field(None, ge=0, description="the number of adversarial nodes")
    start: int = Field(
        1,
        alias="from",
        ge=1,
        description="the first cycle in which these nodes are adversarial; “old” sends the model of this cycle",
    )
    scale: float = Field(1.0, gt=0, le=1e6, description="noise: the standard deviation of each coordinate")

    @model_validator(mode="after")
    def _how_many(self) -> AdversaryConfig:
        if (self.share is None) == (self.number is None):
            raise ValueError("expected either “share” or “number”")
        return self


class Tampering:
    """The adversarial nodes and what each of them does.

    A node has at most one kind of adversarial behaviour. The choice of nodes depends on the seed only.
    """

    def __init__(self, configs: tuple[AdversaryConfig, ...], seed: int, nodes: int) -> None:
        self._nodes = nodes
        self._seed = seed
        self._key = rng.key(seed, "adversary", "noise")
        order = rng.permutation(rng.key(seed, "adversary", "who"), 0, nodes if configs else 0)
        self.members: list[tuple[AdversaryConfig, NDArray[np.int32]]] = []
        for config in configs:
            count = round((config.share or 0) * nodes) if config.number is None else config.number
            self.members.append((config, np.sort(order[:count])))
            order = order[count:]

    @property
    def flips(self) -> list[tuple[int, NDArray[np.int32]]]:
        """Pairs (cycle, nodes): from this cycle on these nodes train on wrong labels; earliest first."""
        found = [(config.start, nodes) for config, nodes in self.members if config.kind == "flip-labels"]
        return sorted(found, key=lambda flip: flip[0])

    def honest(self) -> NDArray[np.bool_]:
        """Return which nodes follow the protocol in all cycles."""
        honest = np.ones(self._nodes, np.bool_)
        for _, nodes in self.members:
            honest[nodes] = False
        return honest

    def keeps_old(self) -> NDArray[np.int32]:
        """Return the nodes that will send an old model, in the order in which the old models are stored."""
        old = [nodes for config, nodes in self.members if config.kind == "old"]
        return np.concatenate([np.empty(0, np.int32), *old])

    def since_old(self) -> NDArray[np.int32]:
        """Return, for each node of `keeps_old`, the cycle whose model it will send."""
        since = [np.full(nodes.size, config.start) for config, nodes in self.members if config.kind == "old"]
        return np.concatenate([np.empty(0, np.int64), *since]).astype(np.int32)

    def forgery(self, cycle: int, turn: int = 0) -> Forgery:
        """Return what senders do in this cycle, in a further turn with other noise."""
        acting = [(c, nodes) for c, nodes in self.members if c.kind in SENDS and c.start <= cycle]
        size = self._nodes if acting else 0
        kind, scale = np.zeros(size, np.int8), np.zeros(size, np.float32)
        row = np.zeros(size, np.int32)
        for config, nodes in acting:
            kind[nodes] = SENDS[config.kind]
            scale[nodes] = config.scale
        if size:
            row[self.keeps_old()] = np.arange(self.keeps_old().size)
        key = rng.key(self._seed, "adversary", f"noise\x1fturn {turn}") if turn else self._key
        return Forgery(kind, scale, row, key)


def as_sent(forgery: Forgery) -> Forgery:
    """Return a forgery without adversaries, for messages from the mailbox, which were forged when they were sent."""
    return Forgery(forgery.kind[:0], forgery.scale[:0], forgery.old_row[:0], forgery.key)
