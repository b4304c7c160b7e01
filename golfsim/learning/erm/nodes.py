"""Fit and cross-validate the models of many nodes, each on the node's own records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.learning.erm.newton import LANES, make_scratch, minimise, padded
from golfsim.protocol.records import sign_for
from golfsim.protocol.symbols import dot_between, number


class Part(NamedTuple):
    """The records of a node that are used: those of one part, or all others; all records if `of` is empty."""

    of: NDArray[np.int32]  # the part of each record
    number: int
    inside: bool  # use the records of the part; else all others


@leaf
def uses(part, record):
    """Return whether a record is used."""
    return part.of.size == 0 or (part.of[record] == part.number) == part.inside


@leaf
def count(rows, node, part):
    """Return the number of records of a node that are used."""
    n = 0
    for record in range(rows.first[node], rows.stop[node]):
        n += uses(part, record)
    return n


@leaf
def lay_out(rows, node, model, models, part, z):
    """Set z[f, i] to feature f of the i-th used record times its sign for a model, and the padding to 0.

    Parameters
    ----------
    rows : Rows
        The records of all nodes.
    node : int
        The node whose records are used.
    model, models : int
        The linear model, and the number of linear models.
    part : Part
        The records to use.
    z : array of float32, shape (padded features, padded records)
        The output.
    """
    i = 0
    features = rows.x.shape[1]
    slices = models if rows.folded else 1
    for record in range(rows.first[node], rows.stop[node]):
        if uses(part, record):
            sign = sign_for(rows, record, model, models)
            row = record * slices + (model if rows.folded else 0)
            for f in range(features):
                z[f, i] = sign * np.float32(number(rows.x, row, f))
            i += 1
    for f in range(z.shape[0]):
        for j in range(i if f < features else 0, z.shape[1]):
            z[f, j] = 0


@kernel
def most_records(nodes, lo, hi, rows):
    """Return the largest number of records of nodes lo … hi−1 of the list, padded."""
    most = 0
    for e in range(lo, hi):
        most = max(most, rows.stop[nodes[e]] - rows.first[nodes[e]])
    return padded(most, LANES)


# ----------------------------------------------------------------------------------------------------- cross-validation


@leaf
def class_of(w, start, models, x, record):
    """Return the class of a record by the models in rows start … of w: by sign for one model, else by largest score."""
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
    """Return the number of records of a part, among those of a node, that models classify wrongly.

    Parameters
    ----------
    w : array of float64, shape (rows, features)
        The models.
    start : int
        The first row of the models.
    models : int
        The number of linear models.
    rows : Rows
        The records of all nodes.
    node : int
        The node whose records are classified.
    part : Part
        The records to use.
    """
    wrong = 0
    for record in range(rows.first[node], rows.stop[node]):
        if uses(part, record):
            wrong += class_of(w, start, models, rows.x, record) != rows.label[record]
    return wrong


@kernel
def count_mistakes(nodes, lo, hi, rows, part, models, w, wrong):
    """Count the errors of the models of nodes lo … hi−1 of the list on the nodes' own records of a part.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The list of nodes.
    lo, hi : int
        The range of the list.
    rows : Rows
        The records of all nodes.
    part : Part
        The records to use.
    models : int
        The number of linear models per node.
    w : array of float64, shape (nodes · models, features)
        The models: row e·models + m is model m of nodes[e].
    wrong : array of int64, shape (nodes,)
        The output.
    """
    for e in range(lo, hi):
        wrong[e] = mistakes_of(w, e * models, models, rows, nodes[e], part)


@kernel
def cross_validate(nodes, lo, hi, rows, fold, folds, models, loss, grid, per_sum, tolerance, most, wrong, reached):
    """Count the errors wrong[e, g] of nodes[e] on its left-out folds with the g-th λ, for nodes lo … hi−1 of the list.

    The fit for each λ starts from the model of the previous one.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The list of nodes.
    lo, hi : int
        The range of the list.
    rows : Rows
        The records of all nodes.
    fold : array of int32, shape (records,)
        The fold of each record.
    folds : int
        The number of folds.
    models : int
        The number of linear models per node.
    loss : Loss
        The loss function.
    grid : array of float64, shape (grid,)
        The values of λ in descending order.
    per_sum : bool
        Whether λ belongs to Σ loss + λ‖w‖² of the training records instead of mean loss + (λ/2)‖w‖².
    tolerance : float
        The length of the gradient at which a fit ends.
    most : int
        The largest number of steps per fit.
    wrong : array of int64, shape (nodes, grid)
        The output: the number of errors.
    reached : array of float64, shape (nodes,)
        The output: the largest final length of the gradient over all fits of a node.
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
