"""CYCLON: an overlay in which nodes swap parts of their views (Voulgaris, Gavidia & van Steen 2005)."""

from __future__ import annotations

import numpy as np
from pydantic import Field, model_validator

from golfsim.core.rng import STEP, below, mix, stream
from golfsim.protocol import ViewConfig, ViewOverlay, World, answer_arrives, arrives, inlined, leaf, prefetch
from golfsim.protocol.views import NONE, PEER, TIME, descriptor, known


@inlined
def choose_some(views, i, size, wanted, state, out):
    """Move random descriptors of view i to its first places, and copy them.

    Parameters
    ----------
    views : array of int64, shape (nodes, view)
        The views of all nodes; changed in place.
    i : int
        The node.
    size : int
        The number of descriptors in its view.
    wanted : int
        The number of descriptors to choose.
    state : uint64
        The state of the random stream before the first draw.
    out : array of int64
        The chosen descriptors; filled here.
    """
    for place in range(wanted):
        other = place + below(mix(state), size - place)
        state += STEP
        out[place], views[i, other] = views[i, other], views[i, place]
        views[i, place] = out[place]


@inlined
def take_in(views, i, carried, count, sent):
    """Put descriptors into view i: first into empty places, then in place of the sent ones, which are at the beginning.

    Descriptors of the node itself and of peers in the view are ignored.
    """
    size = known(views, i)
    for e in range(count):
        peer = np.int32(carried[e])
        twice = peer == i
        for place in range(size):
            twice |= np.int32(views[i, place]) == peer
        if not twice and size < views.shape[1]:
            views[i, size] = carried[e]
            size += 1
        elif not twice and sent > 0:
            sent -= 1
            views[i, sent] = carried[e]


@leaf
def shuffle(views, order, wires, key, room):
    """Let each node in turn swap descriptors with the oldest peer in its view (section 2.3 of the paper).

    The wires decide which requests and answers arrive. `room` is working memory for the descriptors of a request and of
    its answer.
    """
    (request, answer), (there, back) = wires, room
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
        sent = min(there.size - 1, size)
        choose_some(views, i, size, sent, stream(key, request.cycle, i, 0), there)
        if not arrives(request, i, j, 0):
            continue
        there[sent] = descriptor(0, i)
        known_to_j = known(views, j)
        returned = min(back.size, known_to_j)
        choose_some(views, j, known_to_j, returned, stream(key, request.cycle, i, there.size), back)
        take_in(views, j, there, sent + 1, returned)
        if answer_arrives(answer, j, i, 0):
            take_in(views, i, back, returned, sent)


class CyclonConfig(ViewConfig):
    """CYCLON's settings."""

    shuffle: int = Field(8, ge=1, description="the number of descriptors per message; at most the length of the view")

    @model_validator(mode="after")
    def _fits(self) -> CyclonConfig:
        if self.shuffle > self.view:
            raise ValueError(f"shuffle: expected at most the length of the view ({self.view}); got {self.shuffle}")
        return self


class Cyclon(ViewOverlay[CyclonConfig]):
    """A view of (peer, age) descriptors; each cycle every node swaps some of them with the oldest peer in its view.

    This is the enhanced shuffling of the paper. A peer that does not answer is removed. A node joins with one contact.
    """

    Config = CyclonConfig
    accepts = frozenset({"loss", "partition"})

    def _exchange(self, world: World) -> None:
        wires = tuple(world.transport.wire(self, kind, 8 * self.config.shuffle) for kind in ("request", "answer"))
        shuffle(self.views, world.order, wires, self._exchange_key, tuple(np.empty((2, self.config.shuffle), np.int64)))
