"""Compute what each node reveals to each other node if numbers with Gaussian noise are mixed by gossip.

Every node adds Gaussian noise to its own numbers once. Then, in each step, nodes send their current numbers and take
weighted means of what arrives. What an observer sees is linear in the first numbers with noise. Let A have one row
per message that the observer gets, and one row for its own number, which it knows. The messages reveal as much about
node u as a normal random number of variance 1 and mean 0 or μ·√s, where μ belongs to the noise of u alone and the share
s is the squared length of the projection of the unit vector of u onto the rows of A. This is exact, also for colluding
nodes (all their rows), lost messages and a network that changes. The page “Privacy” has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.core.metrics import Metric
from golfsim.core.simd import dot, fused, load, spread, store, total
from golfsim.core.threads import over_ranges
from golfsim.privacy import gaussian

if TYPE_CHECKING:
    from scipy.sparse import csr_array

METRICS = (
    Metric(
        "pairwise.epsilon.mean",
        "The mean over pairs of nodes of the ε, at the δ of the layer, that one reveals to the other.",
        better="down",
    ),
    Metric("pairwise.epsilon.max", "The largest ε that one node reveals to another.", better="down"),
)
LANES = 8
TILE = 4  # directions of the basis that are read at once
COLUMNS = 512  # of them
DEPENDENT = 1e-13  # a row depends on others if they leave less of its length: rounding leaves about 1e-15
SHORTER = 0.1  # a row that loses more of its length is projected once more, so that rounding does not matter
STAGE = 8  # steps of a changing network after which rows are replaced by a basis

Floats = NDArray[np.float64]


class Mixing(NamedTuple):
    """The messages that arrived in each step of gossip, and the weights with which their receivers used them.

    In step t, node i got the messages start[t, i] … start[t, i+1]−1, and kept its own number with the weight own[t, i].
    """

    start: NDArray[np.int64]  # [steps, nodes + 1]
    src: NDArray[np.int32]  # [messages]
    weight: Floats  # [messages]
    own: Floats  # [steps, nodes]

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.start)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return int(self.start.shape[1]) - 1

    @classmethod
    def of(cls, steps: Sequence[csr_array], repeat: int = 1) -> Mixing:
        """Return the messages of mixing matrices, one per step, all of them repeated a number of times.

        The entry (i, j) is the weight that node i gives to the number of node j. Rows add up to 1.
        """
        import scipy.sparse

        found, start, offset = [], [], 0
        for step in steps:
            matrix = scipy.sparse.csr_array(step)
            others = scipy.sparse.csr_array(matrix - scipy.sparse.diags_array(matrix.diagonal()))
            others.eliminate_zeros()
            others.sort_indices()
            found.append((others.indices.astype(np.int32), others.data.astype(np.float64), matrix.diagonal()))
            start.append(others.indptr.astype(np.int64) + offset)
            offset += others.indices.size
        parts = [np.concatenate(part) for part in list(zip(*found, strict=True))[:2]]
        once = cls(np.stack(start), parts[0], parts[1], np.stack([own for _, _, own in found]))
        return once.repeated(repeat)

    def repeated(self, times: int) -> Mixing:
        """Return the same steps a number of times. A single step is stored once."""
        shape = (times, *self.start.shape)
        if self.steps == 1:
            return self._replace(
                start=np.broadcast_to(self.start, (times, self.start.shape[1])),
                own=np.broadcast_to(self.own, (times, self.own.shape[1])),
            )
        return self._replace(
            start=np.broadcast_to(self.start, shape).reshape(-1, shape[2]), own=np.tile(self.own, (times, 1))
        )

    @property
    def fixed(self) -> bool:
        """Whether all steps are the same."""
        return self.start.strides[0] == 0 or self.steps == 1

    def matrix(self, step: int) -> csr_array:
        """Return the mixing matrix of a step."""
        import scipy.sparse

        first, last = int(self.start[step, 0]), int(self.start[step, -1])
        shape = (self.nodes, self.nodes)
        parts = (self.weight[first:last], self.src[first:last], self.start[step] - first)
        return scipy.sparse.csr_array(
            scipy.sparse.csr_array(parts, shape=shape) + scipy.sparse.diags_array(self.own[step])
        )

    def scaled(self, scale: Floats) -> Mixing:
        """Return the messages in units of the noise of each node: those of nodes with noise of different scales."""
        if np.all(scale == scale[0]):
            return self
        receiver = np.empty(self.src.size, np.int64)
        for row in self.start[:1] if self.fixed else self.start:
            receiver[row[0] : row[-1]] = np.repeat(np.arange(self.nodes), np.diff(row))
        return self._replace(weight=self.weight * scale[self.src] / scale[receiver])


@kernel
def project(basis, first, last, rows, lo, hi, coefficient):
    """Subtract from rows their projections onto a part of an orthonormal basis.

    Parameters
    ----------
    basis : array of float64, shape (directions, columns)
        The basis; the directions after `last` are zeros, and so are the columns that fill up a multiple of 8.
    first, last : int
        The part of the basis.
    rows : array of float64, shape (rows, columns)
        The rows; changed in place.
    lo, hi : int
        The range of rows.
    coefficient : array of float64, shape (rows, directions)
        Room for the scalar products.
    """
    columns = basis.shape[1]
    for v in range(lo, hi):
        for q in range(first, last + TILE):
            coefficient[v, q] = 0.0
    for begin in range(0, columns, COLUMNS):
        end = min(begin + COLUMNS, columns)
        for v in range(lo, hi):
            for q in range(first, last, TILE):
                a, b, c, d = spread(0.0, 8), spread(0.0, 8), spread(0.0, 8), spread(0.0, 8)
                for f in range(begin, end, LANES):
                    x = load(rows, v, f, 8)
                    a = fused(load(basis, q, f, 8), x, a)
                    b = fused(load(basis, q + 1, f, 8), x, b)
                    c = fused(load(basis, q + 2, f, 8), x, c)
                    d = fused(load(basis, q + 3, f, 8), x, d)
                coefficient[v, q] += total(a)
                coefficient[v, q + 1] += total(b)
                coefficient[v, q + 2] += total(c)
                coefficient[v, q + 3] += total(d)
    for begin in range(0, columns, COLUMNS):
        end = min(begin + COLUMNS, columns)
        for v in range(lo, hi):
            for q in range(first, last, TILE):
                a, b = spread(-coefficient[v, q], 8), spread(-coefficient[v, q + 1], 8)
                c, d = spread(-coefficient[v, q + 2], 8), spread(-coefficient[v, q + 3], 8)
                for f in range(begin, end, LANES):
                    x = fused(load(basis, q, f, 8), a, load(rows, v, f, 8))
                    x = fused(load(basis, q + 1, f, 8), b, x)
                    x = fused(load(basis, q + 2, f, 8), c, x)
                    store(rows, v, f, fused(load(basis, q + 3, f, 8), d, x))


@kernel
def shorten(rows, v, factor):
    """Multiply a row by a number."""
    for f in range(rows.shape[1]):
        rows[v, f] *= factor


@kernel
def extend(basis, rank, rows, count, coefficient):
    """Add the directions of some rows to an orthonormal basis, and return how many it has then.

    This is Gram–Schmidt in blocks. A row is projected again until it keeps most of its length.

    Parameters
    ----------
    basis : array of float64, shape (directions, columns)
        The basis, filled up with zeros; changed in place.
    rank : int
        The number of its directions.
    rows : array of float64, shape (rows, columns)
        The rows; changed in place.
    count : int
        The number of rows.
    coefficient : array of float64, shape (rows, directions)
        Room for scalar products.
    """
    for v in range(count):
        length = np.sqrt(dot(rows, v, rows, v))
        shorten(rows, v, 1 / length if length > DEPENDENT else 0.0)
    before = rank
    project(basis, 0, before, rows, 0, count, coefficient)
    for v in range(count):
        project(basis, before, rank, rows, v, v + 1, coefficient)
        last, length = 1.0, np.sqrt(dot(rows, v, rows, v))
        while length > DEPENDENT and length < SHORTER * last:
            project(basis, 0, rank, rows, v, v + 1, coefficient)
            last, length = length, np.sqrt(dot(rows, v, rows, v))
        if length > DEPENDENT:
            for f in range(basis.shape[1]):
                basis[rank, f] = rows[v, f] / length
            rank += 1
    return rank


@kernel
def through(start, src, weight, own, step, rows, lo, hi, out):
    """Multiply rows by the mixing matrix of a step: what was linear in the numbers after it is so in those before it.

    Parameters
    ----------
    start, src, weight, own : arrays
        The messages, see `Mixing`.
    step : int
        The step.
    rows : array of float64, shape (rows, columns)
        The rows.
    lo, hi : int
        The range of rows.
    out : array of float64, shape (rows, columns)
        The products, from row 0 on; filled here.
    """
    for v in range(lo, hi):
        for f in range(out.shape[1]):
            out[v - lo, f] = 0.0
        for i in range(own.shape[1]):
            number = rows[v, i]
            if number != 0.0:
                out[v - lo, i] += own[step, i] * number
                for m in range(start[step, i], start[step, i + 1]):
                    out[v - lo, src[m]] += weight[m] * number


@kernel
def add_seen(start, src, step, members, rows, count, marked):
    """Add the unit vector of each node whose number any of the members got in a step; return the number of rows.

    Parameters
    ----------
    start, src : arrays
        The messages, see `Mixing`.
    step : int
        The step.
    members : array of int32
        The nodes that share what they see.
    rows : array of float64, shape (rows, columns)
        The rows; zeros from `count` on; changed in place.
    count : int
        The number of rows.
    marked : array of bool, shape (nodes,)
        False for all nodes, before and after.
    """
    for c in members:
        marked[c] = True
    for c in members:
        for m in range(start[step, c], start[step, c + 1]):
            if not marked[src[m]]:
                marked[src[m]] = True
                rows[count, src[m]] = 1.0
                count += 1
    for c in members:
        marked[c] = False
        for m in range(start[step, c], start[step, c + 1]):
            marked[src[m]] = False
    return count


@kernel
def of_fixed(start, src, weight, own, members, most, out):
    """Compute the shares that a set of nodes gets if all steps are the same: a Krylov space, block by block.

    Parameters
    ----------
    start, src, weight, own : arrays
        The messages, see `Mixing`.
    members : array of int32
        The nodes that share what they see.
    most : int
        The largest number of rows that a basis can need.
    out : array of float64, shape (nodes,)
        The share of each node; filled here.
    """
    nodes = own.shape[1]
    columns = (nodes + LANES - 1) // LANES * LANES
    marked = np.zeros(nodes, np.bool_)
    size = members.size
    for c in members:
        size += start[0, c + 1] - start[0, c]
    basis, rows = np.zeros((most + size + TILE, columns)), np.zeros((size, columns))
    coefficient = np.empty((size, most + size + TILE))
    count = 0
    for c in members:
        rows[count, c] = 1.0
        count += 1
    count = add_seen(start, src, 0, members, rows, count, marked)
    begin, rank = 0, extend(basis, 0, rows, count, coefficient)
    for _ in range(1, len(start)):
        if rank == begin:
            break
        through(start, src, weight, own, 0, basis, begin, rank, rows)
        begin, rank = rank, extend(basis, rank, rows, rank - begin, coefficient)
    lengths(basis, rank, out)


@kernel
def of_changing(start, src, weight, own, members, most, out):
    """Compute the shares that a set of nodes gets, from the last step to the first.

    Parameters
    ----------
    start, src, weight, own : arrays
        The messages, see `Mixing`.
    members : array of int32
        The nodes that share what they see.
    most : int
        The largest number of rows that a basis can need.
    out : array of float64, shape (nodes,)
        The share of each node; filled here.
    """
    nodes, steps = own.shape[1], len(start)
    columns = (nodes + LANES - 1) // LANES * LANES
    marked = np.zeros(nodes, np.bool_)
    block = 0
    for step in range(steps):
        got = 0
        for c in members:
            got += start[step, c + 1] - start[step, c]
        block = max(block, got)
    size = most + STAGE * block + 1
    rows, other = np.zeros((size, columns)), np.zeros((size, columns))
    basis, coefficient = np.zeros((size + TILE, columns)), np.empty((size, size + TILE))
    count = 0
    for step in range(steps - 1, -1, -1):
        rows[count:] = 0.0
        count = add_seen(start, src, step, members, rows, count, marked)
        if (steps - step) % STAGE == 0 or step == 0:
            if step == 0:
                for c in members:
                    rows[:count, c] = 0.0
            basis[:] = 0.0
            count = extend(basis, 0, rows, count, coefficient)
            rows[:count] = basis[:count]
        if step > 0:
            through(start, src, weight, own, step - 1, rows, 0, count, other)
            rows, other = other, rows
    lengths(basis, count, out)
    for c in members:
        out[c] = 1.0


@kernel
def lengths(basis, rank, out):
    """Compute the squared length of the projection of each unit vector onto a basis."""
    out[:] = 0.0
    for q in range(rank):
        for u in range(out.size):
            out[u] += basis[q, u] * basis[q, u]
    for u in range(out.size):
        out[u] = min(out[u], 1.0)


@kernel
def of_sets(start, src, weight, own, first, members, most, lo, hi, out, fixed):
    """Compute the shares that some sets of nodes get.

    Parameters
    ----------
    start, src, weight, own : arrays
        The messages, see `Mixing`.
    first : array of int64, shape (sets + 1,)
        Set k has members[first[k]] … members[first[k+1]−1].
    members : array of int32
        The members of all sets.
    most : array of int64, shape (sets,)
        The largest number of rows that a basis can need.
    lo, hi : int
        The range of sets.
    out : array of float64, shape (sets, nodes)
        The shares; filled here.
    fixed : bool
        Whether all steps are the same.
    """
    for k in range(lo, hi):
        these = members[first[k] : first[k + 1]]
        if fixed:
            of_fixed(start, src, weight, own, these, most[k], out[k])
        else:
            of_changing(start, src, weight, own, these, most[k], out[k])


def shares(
    mixing: Mixing, observers: Sequence[Any] | NDArray[Any], scale: Floats | None = None, threads: int = 1
) -> Floats:
    """Return the share of the square of μ that each observer gets of each node.

    A row of the result takes about 2·n·(d·T)² operations, with n nodes, d messages per observer and step, and T steps,
    and two to three times as many if the network changes.

    Parameters
    ----------
    mixing : Mixing
        The messages that arrived.
    observers : sequence of int, or of sequences of int
        The observers. A sequence of nodes is a set that shares what it sees.
    scale : array of float64, shape (nodes,), optional
        The scale of the noise of each node, if they differ.
    threads : int
        The number of threads.

    Returns
    -------
    array of float64, shape (observers, nodes)
        The shares, from 0 to 1; 1 for the observers themselves.
    """
    sets = [np.unique(np.atleast_1d(np.asarray(nodes, np.int32))) for nodes in observers]
    out = np.zeros((len(sets), mixing.nodes))
    if not sets:
        return out
    mixing = mixing if scale is None else mixing.scaled(scale)
    first = np.cumsum([0, *(members.size for members in sets)])
    got = np.stack([np.diff(row) for row in mixing.start]).sum(axis=0) if mixing.steps else np.zeros(mixing.nodes)
    most = np.array([min(int(got[members].sum()) + members.size, mixing.nodes) for members in sets], np.int64)
    parts = (np.ascontiguousarray(mixing.start), mixing.src, mixing.weight, np.ascontiguousarray(mixing.own))

    def run(lo: int, hi: int) -> None:
        of_sets(*parts, first, np.concatenate(sets), most, lo, hi, out, mixing.fixed)

    over_ranges(threads, run, 0, len(sets), 1)
    return out


def as_published(mixing: Mixing, observer: int, power: int = 2) -> Floats:
    """Return what the formula of Muffliato has in the place of the share; it is no bound, and for reproduction only.

    The formula adds, for each message, the squared entry of a node in its row, divided by the squared length of the
    row (Cyffers, Even, Bellet & Massoulié 2022). With `power` = 1 entries are not squared.
    """
    found = np.zeros(mixing.nodes)
    for step in range(mixing.steps):
        senders = mixing.src[mixing.start[step, observer] : mixing.start[step, observer + 1]]
        rows = np.zeros((senders.size, mixing.nodes))
        rows[np.arange(senders.size), senders] = 1.0
        for before in range(step - 1, -1, -1):
            rows = np.asarray(mixing.matrix(before).T.dot(rows.T)).T
        found += (rows**power / (rows**2).sum(axis=1)[:, None]).sum(axis=0)
    return found


def renyi(share: Floats, mu: float, order: float) -> Floats:
    """Return the Rényi divergence of an order, for shares of noise with μ = Δ/σ."""
    return np.asarray(order * mu * mu * share / 2)


GRID = 1000  # values of μ for which ε is computed


def epsilons(share: Floats, mu: float, delta: float) -> Floats:
    """Return an ε at δ for each share of noise with μ = Δ/σ. μ is rounded up to a thousandth of it."""
    step = np.ceil(np.sqrt(share) * GRID - 1e-9).astype(np.int64)  # rounding must not move 1 up
    table = {place: gaussian.epsilon_of(mu * min(place, GRID) / GRID, delta) for place in np.unique(step).tolist()}
    places, which = np.unique(step, return_inverse=True)
    return np.array([table[place] for place in places.tolist()])[which].reshape(share.shape)


def by_distance(values: Floats, observers: Sequence[int], links: csr_array) -> dict[int, tuple[float, float, float]]:
    """Return the mean, the smallest and the largest value of the pairs at each distance in a graph."""
    from scipy.sparse.csgraph import dijkstra

    distance = dijkstra(links, directed=False, unweighted=True, indices=np.asarray(observers))
    found = {}
    for length in np.unique(distance[np.isfinite(distance)]).tolist():
        these = values[distance == length]
        if length > 0:
            found[int(length)] = (math.fsum(these.tolist()) / these.size, float(these.min()), float(these.max()))
    return found
