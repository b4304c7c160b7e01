"""Bad peers: a share of the nodes that flip labels, or send something other than their model."""

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
    """What kernels need to know about senders that lie; `kind` has no entry where nobody does."""

    kind: NDArray[np.int8]
    scale: NDArray[np.float32]  # of each node's noise
    old_row: NDArray[np.int32]  # where each node's old model is kept
    key: np.uint64


@leaf
def forge(forgery, sender, cycle, w, start, old, out):
    """Write into `out` what a sender sends in place of its model, the rows of w from `start` on."""
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
    """Replace what liars have just put into the mailbox slots of their messages."""
    scratch = np.empty((models, w.shape[1]), np.float32)
    if forgery.kind.size > 0:
        for e in range(senders.size):
            if forgery.kind[senders[e]] != HONEST:
                start = np.int64(slots[e]) * models
                forge(forgery, senders[e], cycle, w, start, old, scratch)
                w[start : start + models] = scratch


class AdversaryConfig(Settings):
    """`[[adversary]]`: some nodes do not follow the protocol."""

    kind: Literal["flip-labels", "noise", "negative", "old"] = Field(
        description="train on the opposite label (the next class), or send Gaussian noise, the negative of the model, "
        "or the model of an earlier cycle"
    )
    share: Share | None = Field(None, description="the share of all nodes that does so")
    number: int | None = Field(None, ge=0, description="the number of nodes that do so")
    start: int = Field(
        1, alias="from", ge=1, description="the first cycle in which they do; “old” sends the model of then"
    )
    scale: float = Field(1.0, gt=0, le=1e6, description="noise: the standard deviation of each coordinate")

    @model_validator(mode="after")
    def _how_many(self) -> AdversaryConfig:
        if (self.share is None) == (self.number is None):
            raise ValueError("expected either “share” or “number”")
        return self


class Tampering:
    """Which node does what; a node does one kind of harm at the most. A function of the seed alone."""

    def __init__(self, configs: tuple[AdversaryConfig, ...], seed: int, nodes: int) -> None:
        self._nodes = nodes
        self._key = rng.key(seed, "adversary", "noise")
        order = rng.permutation(rng.key(seed, "adversary", "who"), 0, nodes if configs else 0)
        self.members: list[tuple[AdversaryConfig, NDArray[np.int32]]] = []
        for config in configs:
            count = round((config.share or 0) * nodes) if config.number is None else config.number
            self.members.append((config, np.sort(order[:count])))
            order = order[count:]

    @property
    def flips(self) -> list[tuple[int, NDArray[np.int32]]]:
        """(cycle, nodes) from which on nodes train on wrong labels, earliest first."""
        found = [(config.start, nodes) for config, nodes in self.members if config.kind == "flip-labels"]
        return sorted(found, key=lambda flip: flip[0])

    def honest(self) -> NDArray[np.bool_]:
        """The nodes that follow the protocol to the end."""
        honest = np.ones(self._nodes, np.bool_)
        for _, nodes in self.members:
            honest[nodes] = False
        return honest

    def keeps_old(self) -> NDArray[np.int32]:
        """The nodes that will send an old model, in the order in which those are kept."""
        old = [nodes for config, nodes in self.members if config.kind == "old"]
        return np.concatenate([np.empty(0, np.int32), *old])

    def since_old(self) -> NDArray[np.int32]:
        """For each of `keeps_old`, the cycle whose model it will send."""
        since = [np.full(nodes.size, config.start) for config, nodes in self.members if config.kind == "old"]
        return np.concatenate([np.empty(0, np.int64), *since]).astype(np.int32)

    def forgery(self, cycle: int) -> Forgery:
        """What senders do in this cycle."""
        acting = [(c, nodes) for c, nodes in self.members if c.kind in SENDS and c.start <= cycle]
        size = self._nodes if acting else 0
        kind, scale = np.zeros(size, np.int8), np.zeros(size, np.float32)
        row = np.zeros(size, np.int32)
        for config, nodes in acting:
            kind[nodes] = SENDS[config.kind]
            scale[nodes] = config.scale
        if size:
            row[self.keeps_old()] = np.arange(self.keeps_old().size)
        return Forgery(kind, scale, row, self._key)


def as_sent(forgery: Forgery) -> Forgery:
    """For messages from the mailbox: they were forged when they were sent."""
    return Forgery(forgery.kind[:0], forgery.scale[:0], forgery.old_row[:0], forgery.key)
