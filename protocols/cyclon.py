"""CYCLON: an overlay in which nodes swap parts of their views (Voulgaris, Gavidia & van Steen 2005)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, model_validator

from golfsim.core.kernels import inlined, leaf
from golfsim.core.rng import STEP, below, mix, stream
from golfsim.core.simd import prefetch
from golfsim.network.delivery import answer_arrives, arrives
from golfsim.protocol.views import NONE, PEER, TIME, ViewConfig, ViewOverlay, descriptor, known

if TYPE_CHECKING:
    from golfsim.network.world import World

THERE, BACK = range(2)


@inlined
def put_first(views, i, size, wanted, state):
    """Bring `wanted` random descriptors of view i to its first places; `state` is that of the first draw."""
    for place in range(wanted):
        other = place + below(mix(state), size - place)
        state += STEP
        views[i, place], views[i, other] = views[i, other], views[i, place]


@inlined
def take_in(views, i, received, carried, count, sent):
    """Put the descriptors that a message carries into view i: into empty places, then in place of those sent.

    The node itself and peers that it knows are left out. The descriptors that were sent are in the first places.
    """
    size = known(views, i)
    for e in range(count):
        peer = np.int32(carried[received, e])
        twice = peer == i
        for place in range(size):
            twice |= np.int32(views[i, place]) == peer
        if not twice and size < views.shape[1]:
            views[i, size] = carried[received, e]
            size += 1
        elif not twice and sent > 0:
            sent -= 1
            views[i, sent] = carried[received, e]


@leaf
def shuffle(views, order, wires, key, room):
    """Let each node in turn swap descriptors with the peer that it has known longest (section 2.3 of the paper).

    The wires decide which requests and answers arrive, and count them. `room` [2, length] is for what a request and its
    answer carry.
    """
    (request, answer), length = wires, room.shape[1]
    for e in range(order.size):
        i = np.int64(order[e])
        size = known(views, i)
        if size == 0:
            continue
        oldest = 0
        for place in range(size):
            views[i, place] += np.int64(1) << TIME
            oldest = place if views[i, place] >> TIME > views[i, oldest] >> TIME else oldest
        j = views[i, oldest] & PEER
        prefetch(views, j)
        size -= 1  # the descriptor of the partner leaves the view
        views[i, oldest], views[i, size] = views[i, size], NONE
        sent = min(length - 1, size)
        put_first(views, i, size, sent, stream(key, request.cycle, i, 0))
        if not arrives(request, i, j, 0):
            continue
        for place in range(sent):
            room[THERE, place] = views[i, place]
        room[THERE, sent] = descriptor(0, i)
        known_to_j = known(views, j)
        returned = min(length, known_to_j)
        put_first(views, j, known_to_j, returned, stream(key, request.cycle, i, length))
        for place in range(returned):
            room[BACK, place] = views[j, place]
        take_in(views, j, THERE, room, sent + 1, returned)
        if answer_arrives(answer, j, i, 0):
            take_in(views, i, BACK, room, returned, sent)


class CyclonConfig(ViewConfig):
    """CYCLON's settings."""

    shuffle: int = Field(8, ge=1, description="the number of descriptors that nodes swap, at most the view")

    @model_validator(mode="after")
    def _fits(self) -> CyclonConfig:
        if self.shuffle > self.view:
            raise ValueError(f"shuffle: expected at most the view ({self.view}); got {self.shuffle}")
        return self


class Cyclon(ViewOverlay[CyclonConfig]):
    """A view of (peer, age) descriptors; each cycle every node swaps some of them with the peer that it knows longest.

    This is the enhanced shuffling of the paper. A peer that does not answer is forgotten. In the paper a node joins by
    random walks; here it starts with one contact.
    """

    Config = CyclonConfig
    accepts = frozenset({"loss", "partition"})

    def _exchange(self, world: World) -> None:
        wires = tuple(world.transport.wire(self, kind, 8 * self.config.shuffle) for kind in ("request", "answer"))
        shuffle(self.views, world.order, wires, self._exchange_key, np.empty((2, self.config.shuffle), np.int64))
