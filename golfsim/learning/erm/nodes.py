"""Each node's own records, laid out for a fit; fits and cross-validation of many nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.simd import dot_between
from golfsim.learning.erm.newton import LANES, make_scratch, minimise, padded
from golfsim.protocol.records import sign_for


class Part(NamedTuple):
    """Which of a node's records are used: those of a part, or all others; without `of` all of them."""

    of: NDArray[np.int32]  # the part of each record
    number: int
    inside: bool


@leaf
def uses(part, record):
    """Whether a record is among those of a part."""
    return part.of.size == 0 or (part.of[record] == part.number) == part.inside


@leaf
def count(rows, node, part):
    """How many of a node's records are used."""
    n = 0
    for record in range(rows.first[node], rows.stop[node]):
        n += uses(part, record)
    return n


@leaf
def lay_out(rows, node, model, models, part, z):
    """z[f, i] = y·x of the i-th record that is used, with the sign it has for this model; 0 in the padding."""
    i = 0
    features = rows.x.shape[1]
    slices = models if rows.folded else 1
    for record in range(rows.first[node], rows.stop[node]):
        if uses(part, record):
            sign = sign_for(rows, record, model, models)
            row = record * slices + (model if rows.folded else 0)
            for f in range(features):
                z[f, i] = sign * rows.x[row, f]
            i += 1
    for f in range(z.shape[0]):
        for j in range(i if f < features else 0, z.shape[1]):
            z[f, j] = 0


@kernel
def most_records(nodes, lo, hi, rows):
    """The largest number of records of any of these nodes, padded."""
    most = 0
    for e in range(lo, hi):
        most = max(most, rows.stop[nodes[e]] - rows.first[nodes[e]])
    return padded(most, LANES)


@kernel
def fit_nodes(nodes, lo, hi, rows, part, loss, ridge, linear, tolerance, most, w, reached):
    """Fit the models of nodes lo … hi−1 of the list; row e·models + m of w and of `linear` is model m of nodes[e]."""
    models, features = reached.shape[1], padded(rows.x.shape[1], LANES // 2)
    largest = most_records(nodes, lo, hi, rows)
    flat, model = np.empty(features * largest, np.float32), np.empty(features)
    scratch = make_scratch(features, largest)
    for e in range(lo, hi):
        n = count(rows, nodes[e], part)
        size = padded(n, LANES)
        z = flat[: features * size].reshape(features, size)
        for m in range(models):
            model[:] = 0
            reached[e, m] = 0
            if n > 0:
                lay_out(rows, nodes[e], m, models, part, z)
                row = e * models + m
                reached[e, m] = minimise(z, n, size, ridge[e], linear, row, loss, tolerance, most, model, scratch)
            for f in range(w.shape[1]):
                w[e * models + m, f] = model[f]


# ----------------------------------------------------------------------------------------------------- cross-validation


@leaf
def class_of(w, start, models, x, record):
    """The class that the models in rows start … of w give a record: the sign for one model, else the largest score."""
    best, found = -np.inf, 0
    for m in range(models):
        total = dot_between(w, start + m, x, record, 0, x.shape[1])
        if models == 1:
            return 1 if total >= 0 else 0
        if total > best:
            best, found = total, m
    return found


@leaf
def mistakes_of(w, start, models, rows, node, part):
    """How many of the node's records of a part the models in rows start … of w give a wrong class."""
    wrong = 0
    for record in range(rows.first[node], rows.stop[node]):
        if uses(part, record):
            wrong += class_of(w, start, models, rows.x, record) != rows.label[record]
    return wrong


@kernel
def count_mistakes(nodes, lo, hi, rows, part, models, w, wrong):
    """The mistakes of each node's models on the node's own records of a part."""
    for e in range(lo, hi):
        wrong[e] = mistakes_of(w, e * models, models, rows, nodes[e], part)


@kernel
def cross_validate(nodes, lo, hi, rows, fold, folds, models, loss, grid, per_sum, tolerance, most, wrong, reached):
    """Count wrong[e, g], the mistakes of node e on its left-out folds with the g-th λ; the grid falls.

    Each λ starts from the model of the one before. `per_sum`: λ belongs to Σ loss + λ‖w‖² of the training records.
    """
    features = padded(rows.x.shape[1], LANES // 2)
    largest = most_records(nodes, lo, hi, rows)
    flat, w = np.empty(features * largest, np.float32), np.empty((grid.size * models, features))
    scratch, linear = make_scratch(features, largest), np.empty((0, 0))
    for e in range(lo, hi):
        wrong[e, :] = 0
        reached[e] = 0
        for left_out in range(folds):
            n = count(rows, nodes[e], Part(fold, left_out, False))
            size = padded(n, LANES)
            z = flat[: features * size].reshape(features, size)
            w[:] = 0
            for m in range(models if n > 0 else 0):
                lay_out(rows, nodes[e], m, models, Part(fold, left_out, False), z)
                for g in range(grid.size):
                    row = g * models + m
                    if g > 0:
                        w[row] = w[row - models]
                    ridge = 2 * grid[g] / n if per_sum else grid[g]
                    length = minimise(z, n, size, ridge, linear, 0, loss, tolerance, most, w[row], scratch)
                    reached[e] = max(reached[e], length)
            for g in range(grid.size):
                wrong[e, g] += mistakes_of(w, g * models, models, rows, nodes[e], Part(fold, left_out, True))
