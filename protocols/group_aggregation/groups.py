"""Groups of nodes, and kernels for their members: form groups; send, sum, perturb and receive models."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.rng import below, draw
from golfsim.network.adversaries import HONEST, forge
from golfsim.network.delivery import count, passes
from golfsim.privacy.noise import add_noise, add_share_of_gamma_norm

NOBODY = -1
SHARE = 3  # a share of Gamma-norm noise, besides the kinds of `golfsim.privacy.noise`
Nodes = NDArray[np.int32]


@kernel
def join_over_views(order, start, neighbour, pool, able, wire, size, group_of):
    """Let nodes in acting order propose themselves as curators to the nodes that they know.

    A proposal goes to random members of the view, one after the other, until enough have joined. A node that is able
    and in no group joins. If the proposal or the answer is lost, it does not. The members of a group that stays too
    small are free again.

    Parameters
    ----------
    order : array of int32
        The online nodes in acting order.
    start, neighbour : array of int64
        The graph: node i knows neighbour[start[i]] … neighbour[start[i+1]−1]. Empty: all nodes know the pool.
    pool : array of int64
        The online nodes.
    able : array of bool, shape (nodes,)
        Which nodes may be in a group.
    wire : Wire
        The rule that decides which messages arrive, and counts them; its key is also used to draw members.
    size : int
        The number of members of a group, the curator included.
    group_of : array of int32, shape (nodes,)
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
    """Write the model that each node sends: its own, or what an adversarial node sends in place of it.

    Parameters
    ----------
    nodes : array of int32, shape (senders,)
        The nodes that send.
    forgery : Forgery
        What adversarial nodes do in this cycle.
    cycle : int
        The current cycle.
    w : array of float64, shape (nodes · models, features)
        The models of all nodes, one row per linear model.
    old : array of float64, shape (rows, features)
        The stored old models of adversarial nodes.
    out : array of float64, shape (senders, models, features)
        The models that are sent; filled here.
    """
    for e in range(nodes.size):
        i = nodes[e]
        start = np.int64(i) * out.shape[1]
        if forgery.kind.size > 0 and forgery.kind[i] != HONEST:
            forge(forgery, i, cycle, w, start, old, out[e])
        else:
            for m in range(out.shape[1]):  # in a loop, which compiles much faster than a slice
                for f in range(out.shape[2]):
                    out[e, m, f] = w[start + m, f]


@kernel
def plain_sums(members, edges, arrived, sent, sums):
    """Add up the models that have arrived in each group; group g has members edges[g] … edges[g+1]−1."""
    for g in range(sums.shape[0]):
        for e in range(edges[g], edges[g + 1]):
            if arrived[e]:
                sums[g] += sent[members[e]]


@leaf
def mistakes(published, model, rows, node):
    """Return the number of records of a node that a model classifies incorrectly."""
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
    """Return the place for a new model: a free place, or that of the oldest or worst model; −1 if the new one is worst.

    Parameters
    ----------
    node, model : int
        The node and the new model.
    held : array of int32, shape (nodes, room)
        The models that each node stores; −1: a free place.
    received : array of int32, shape (nodes,)
        The number of models that each node has stored so far.
    by_score : bool
        Whether the model with the most mistakes is replaced; otherwise it is the oldest.
    published : array of float32, shape (published, models, features)
        The published models.
    rows : Rows
        The records of the nodes.
    """
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
    """Let each node store a model, unless it has received the model before.

    Parameters
    ----------
    nodes : array of int32, shape (messages,)
        The receivers.
    models : array of int64, shape (messages,)
        The published model that each receives.
    hops : array of int16, shape (messages,)
        The number of hops of each model, for gossip.
    by_score : bool
        Whether a full node replaces the model with the most mistakes; otherwise it replaces the oldest.
    published : array of float32, shape (published, models, features)
        The published models.
    rows : Rows
        The records of the nodes.
    heard : array of uint8, shape (nodes, bytes)
        One bit per model that a node has received; empty if no model can come twice. Changed in place.
    held : array of int32, shape (nodes, room)
        The models that each node stores; changed in place.
    distance : array of int16, shape (nodes, room)
        The hops of models that are to be forwarded; changed in place.
    received : array of int32, shape (nodes,)
        The number of models that each node has stored so far; changed in place.
    """
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
    """Add noise to models; it depends on the node and the cycle.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes that add noise.
    cycle : int
        The current cycle.
    kind : int
        LAPLACE, GAMMA_NORM, GAUSSIAN, or SHARE for a share of Gamma-norm noise.
    scale : array of float64, shape (nodes,)
        The scale of the noise; 0: no noise.
    honest : int
        For SHARE, the number of shares that make up the complete noise.
    key : uint64
        The key of the draws.
    w : array of float64, shape (nodes, models, features)
        The models; changed in place.
    """
    features = w.shape[2]
    for e in range(nodes.size):
        for m in range(w.shape[1] if scale[e] > 0 else 0):
            k = m * (64 + 3 * features)
            if kind == SHARE:
                add_share_of_gamma_norm(key, cycle, nodes[e], k, scale[e], honest, w[e], m)
            else:
                add_noise(kind, key, cycle, nodes[e], k, scale[e], w[e], m)


class Groups(NamedTuple):
    """A set of groups: their curators, and the members of all groups; group g has members edges[g] … edges[g+1]−1."""

    curators: Nodes
    members: Nodes
    edges: NDArray[np.int64]

    def each(self, of_group: NDArray[Any]) -> NDArray[Any]:
        """Return for each member the value of its group."""
        return np.repeat(of_group, np.diff(self.edges))

    def number(self, of_member: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of marked members of each group."""
        total = np.concatenate([[0], np.cumsum(of_member)])
        return np.asarray(np.diff(total[self.edges]), np.int64)

    def only(self, groups: NDArray[np.bool_]) -> Groups:
        """Return the marked groups."""
        members = self.members[self.each(groups)]
        return Groups(self.curators[groups], members, edges_of(np.diff(self.edges)[groups]))

    def less(self, members: NDArray[np.bool_]) -> Groups:
        """Return the same groups with the marked members only."""
        return Groups(self.curators, self.members[members], edges_of(self.number(members)))


def edges_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each of several consecutive parts of these sizes begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
