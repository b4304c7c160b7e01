"""CYCLON: an overlay in which nodes swap parts of their views (Voulgaris, Gavidia & van Steen 2005)."""

from __future__ import annotations

import numpy as np
from pydantic import Field, model_validator

from golfsim.core.rng import STEP, below, mix, stream
from golfsim.protocol import ViewConfig, ViewOverlay, World, answer_arrives, arrives, inlined, leaf, prefetch
from golfsim.protocol.views import NONE, PEER, TIME, descriptor, known


@inlined
def choose_some(views, i, most, state, out):
    """Bring random descriptors of view i to its first places, copy them, and return their number."""
    size = known(views, i)
    for place in range(min(most, size)):
        other = place + below(mix(state), size - place)
        state += STEP
        out[place], views[i, other] = views[i, other], views[i, place]
        views[i, place] = out[place]
    for place in range(min(most, size), out.size):
        out[place] = NONE
    return min(most, size)


@inlined
def take_in(views, i, carried, peers, sent):
    """Put new peers into view i: into empty places, then in place of the first `sent`; `peers` is scratch memory."""
    size = known(views, i)
    for place in range(views.shape[1]):
        peers[place] = np.int32(views[i, place])
    for word in carried:
        twice = np.int32(word) == i
        for place in range(peers.size):
            twice |= peers[place] == np.int32(word)
        if word < 0 or twice or (size == views.shape[1] and sent == 0):
            continue
        place = size if size < views.shape[1] else sent - 1
        sent -= size == views.shape[1]
        size = max(size, place + 1)
        views[i, place], peers[place] = word, np.int32(word)


@leaf
def shuffle(views, order, wires, key, room):
    """Let each node in turn swap descriptors with the oldest peer in its view (section 2.3 of the paper).

    The wires decide which requests and answers arrive. `room` is for what a request and its answer carry.
    """
    (request, answer), (there, back), peers = wires, room[0], room[1]
    for e in range(order.size):
        i = np.int64(order[e])
        size = known(views, i)
        if size == 0:
            continue
        oldest, highest = 0, np.int64(0)
        for place in range(size):
            views[i, place] += np.int64(1) << TIME
            if views[i, place] >> TIME > highest:
                oldest, highest = place, views[i, place] >> TIME
        j = views[i, oldest] & PEER  # its descriptor leaves the view
        prefetch(views, j)
        views[i, oldest], views[i, size - 1] = views[i, size - 1], NONE
        sent = choose_some(views, i, there.size - 1, stream(key, request.cycle, i, 0), there)
        if not arrives(request, i, j, 0):
            continue
        there[sent] = descriptor(0, i)
        returned = choose_some(views, j, back.size, stream(key, request.cycle, i, there.size), back)
        take_in(views, j, there, peers, returned)
        if answer_arrives(answer, j, i, 0):
            take_in(views, i, back, peers, sent)


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
        room = (tuple(np.empty((2, self.config.shuffle), np.int64)), np.empty(self.config.view, np.int32))
        shuffle(self.views, world.order, wires, self._exchange_key, room)
