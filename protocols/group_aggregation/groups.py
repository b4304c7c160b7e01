"""Groups of nodes and what is done for each of their members: they form, send, sum up, perturb and receive models."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.rng import below, draw
from golfsim.network.adversaries import HONEST, forge
from golfsim.network.delivery import count, passes
from golfsim.privacy.noise import add_gamma_norm, add_laplace, add_share_of_gamma_norm

NOBODY = -1
GAMMA, LAPLACE, SHARE = range(3)
Nodes = NDArray[np.int32]


@kernel
def join_over_views(order, start, neighbour, pool, able, wire, size, group_of):
    """Let nodes in acting order propose themselves as curators to the nodes that they know.

    A proposal goes to random members of the view, one after the other, until enough have joined. A node that is able
    and in no group joins. If the proposal or the answer is lost, it does not. The members of a group that stays too
    small are free again.

    Parameters
    ----------
    order : int32 array
        The online nodes in acting order.
    start, neighbour : int64 array
        Who knows whom: node i knows neighbour[start[i]] … neighbour[start[i+1]−1]. No entries: all know the pool.
    pool : int64 array
        The online nodes.
    able : bool array, [nodes]
        Who may be in a group.
    wire : Wire
        Decides which messages arrive, and counts them; its key is also that of the draws of members.
    size : int
        The number of members of a group, the curator included.
    group_of : int32 array, [nodes]
        The curator of each node's group, or −1; changed in place.
    """
    joined = np.empty(size, np.int32)
    view = np.empty(pool.size if start.size == 0 else np.diff(start).max(), np.int32)
    for i in order:
        if not able[i] or group_of[i] >= 0:
            continue
        known = view.size if start.size == 0 else start[i + 1] - start[i]
        for place in range(known):
            view[place] = pool[place] if start.size == 0 else neighbour[start[i] + place]
        joined[0] = i
        members = 1
        for place in range(known):
            if members == size:
                break
            other = place + below(draw(wire.key, wire.cycle, i, 3 * place), known - place)
            view[place], view[other] = view[other], view[place]
            j = view[place]
            if j == i:
                continue
            if not count(wire, passes(wire, i, j, i, 3 * place + 1)):
                continue
            answered = count(wire, passes(wire, j, i, i, 3 * place + 2))
            if answered and able[j] and group_of[j] < 0:
                joined[members] = j
                members += 1
        if members == size:
            for e in range(members):
                group_of[joined[e]] = i


@kernel
def as_members_send(nodes, forgery, cycle, w, old, out):
    """The model that each of the nodes sends: its own, or what a bad peer sends in place of it."""
    for e in range(nodes.size):
        i = nodes[e]
        start = np.int64(i) * out.shape[1]
        if forgery.kind.size > 0 and forgery.kind[i] != HONEST:
            forge(forgery, i, cycle, w, start, old, out[e])
        else:
            out[e] = w[start : start + out.shape[1]]


@kernel
def plain_sums(members, edges, arrived, sent, sums):
    """Each group's sum of what has arrived; group g has members edges[g] … edges[g+1]−1."""
    for g in range(sums.shape[0]):
        for e in range(edges[g], edges[g + 1]):
            if arrived[e]:
                sums[g] += sent[members[e]]


@leaf
def mistakes(published, model, rows, node):
    """How many of a node's records a model puts into a wrong class."""
    wrong = 0
    for r in range(rows.first[node], rows.stop[node]):
        best, highest = 0, -np.inf
        for m in range(published.shape[1]):
            score = 0.0
            for f in range(published.shape[2]):
                score += np.float64(published[model, m, f]) * np.float64(rows.x[r, f])
            if score > highest:
                best, highest = m, score
        if published.shape[1] == 1:
            best = 1 if highest >= 0 else 0
        wrong += best != rows.label[r]
    return wrong


@leaf
def place_for(node, model, held, received, by_score, published, rows):
    """Where a node puts a model: a free place, or that of the oldest, or of the worst; −1 if it is worst itself."""
    room = held.shape[1]
    place = received[node] % room
    if by_score and held[node, place] != NOBODY:
        worst, place = mistakes(published, model, rows, node), -1
        for other in range(room):
            wrong = mistakes(published, held[node, other], rows, node)
            if wrong > worst:
                worst, place = wrong, other
    return place


@kernel
def receive(nodes, models, hops, by_score, published, rows, heard, held, distance, received):
    """Give each node a model; what it has heard of before (a bit for each model, where that can be) it leaves."""
    for e in range(nodes.size):
        i, model = nodes[e], models[e]
        if heard.size > 0:
            bit = np.uint8(1 << (model & 7))
            if heard[i, model >> 3] & bit:
                continue
            heard[i, model >> 3] |= bit
        place = place_for(i, model, held, received, by_score, published, rows)
        if place >= 0:
            held[i, place], distance[i, place] = model, hops[e]
            received[i] += 1


@kernel
def perturb_models(nodes, cycle, kind, scale, honest, key, w):
    """Add noise to the models w [nodes, models, features]: functions of the node and the cycle."""
    features = w.shape[2]
    for e in range(nodes.size):
        for m in range(w.shape[1] if scale[e] > 0 else 0):
            k = m * (64 + 3 * features)
            if kind == LAPLACE:
                add_laplace(key, cycle, nodes[e], k, scale[e], w[e], m)
            elif kind == SHARE:
                add_share_of_gamma_norm(key, cycle, nodes[e], k, scale[e], honest, w[e], m)
            else:
                add_gamma_norm(key, cycle, nodes[e], k, scale[e], w[e], m)


class Groups(NamedTuple):
    """Some groups: their curators, and the members of one after the other; group g has edges[g] … edges[g+1]−1."""

    curators: Nodes
    members: Nodes
    edges: NDArray[np.int64]

    def each(self, of_group: NDArray[Any]) -> NDArray[Any]:
        """For each member what its group has."""
        return np.repeat(of_group, np.diff(self.edges))

    def number(self, of_member: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many members of each group are so."""
        total = np.concatenate([[0], np.cumsum(of_member)])
        return np.asarray(np.diff(total[self.edges]), np.int64)

    def only(self, groups: NDArray[np.bool_]) -> Groups:
        """Those of the groups."""
        members = self.members[self.each(groups)]
        return Groups(self.curators[groups], members, edges_of(np.diff(self.edges)[groups]))

    def less(self, members: NDArray[np.bool_]) -> Groups:
        """The same groups with those of their members."""
        return Groups(self.curators, self.members[members], edges_of(self.number(members)))


def edges_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of several runs of such sizes begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
