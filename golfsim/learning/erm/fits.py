"""Fit the models of many nodes by one of three methods, in one loop over nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.learning.erm.descent import SGD_EPOCHS, SGD_STOP, Descent, best_rate, descend
from golfsim.learning.erm.lasso import lasso
from golfsim.learning.erm.newton import LANES, FitRoom, Loss, make_scratch, minimise, padded
from golfsim.learning.erm.nodes import Part, count, lay_out, most_records

Floats = NDArray[np.float64]


class Ridge(NamedTuple):
    """Minimise mean loss + (ridge/2)‖w‖² + linear·w by Newton's method."""

    loss: Loss
    ridge: Floats  # of each node
    linear: Floats  # row e·models + m for model m of node e; no rows: no such term
    tolerance: float  # length of the gradient at which the iteration ends
    most: int  # largest number of steps


class Lasso(NamedTuple):
    """Minimise mean loss + λΣ|w| by proximal Newton steps."""

    loss: Loss
    lam: Floats  # of each node
    nothing: Floats  # no rows: there is no linear term
    tolerance: float
    most: int


class MiniBatchDescent(NamedTuple):
    """Follow the mini-batch descent of Asplund & Frøystad (2015), with their choice of the learning rate."""

    loss: Loss
    lam: Floats  # of each node
    fold: NDArray[np.int32]  # of each record
    rates: Floats  # the learning rates to choose from, in increasing order
    how: Descent


class Problem(NamedTuple):
    """One model of one node to be fitted, and the memory for it."""

    rows: Any  # the records of all nodes
    part: Part  # the records to use
    place: int  # of the node in the list of nodes
    node: int
    m: int  # which linear model
    models: int  # the number of linear models per node
    n: int  # the number of records
    z: NDArray[np.float32]  # the records times their signs, feature by feature, padded; a view of `flat`
    flat: NDArray[np.float32]
    model: Floats  # the initial model, changed in place
    scratch: FitRoom


@kernel
def _by_newton(method, p):
    row, size = p.place * p.models + p.m, p.z.shape[1]
    ridge, linear, tolerance = method.ridge[p.place], method.linear, method.tolerance
    return minimise(p.z, p.n, size, ridge, linear, row, method.loss, tolerance, method.most, p.model, p.scratch)


@kernel
def _by_lasso(method, p):
    lam, size = method.lam[p.place], p.z.shape[1]
    tolerance, most = method.tolerance, method.most
    return lasso(p.z, p.n, size, lam, method.nothing, method.loss, tolerance, most, p.model, p.scratch)


@kernel
def _by_descent(method, p):
    lam, loss, how, size = method.lam[p.place], method.loss, method.how, p.z.shape[1]
    gamma = best_rate(
        p.rows, p.node, p.m, p.models, method.fold, method.rates, how, lam, loss, p.flat, p.model, p.scratch
    )
    lay_out(p.rows, p.node, p.m, p.models, p.part, p.z)  # choosing the rate has used the same memory
    p.model[:] = 0
    descend(p.z, p.n, size, how, gamma, lam, SGD_EPOCHS, SGD_STOP, loss, p.model, p.scratch)
    return 0.0


Method = Ridge | Lasso | MiniBatchDescent
METHODS = {Ridge: _by_newton, Lasso: _by_lasso, MiniBatchDescent: _by_descent}


def solve(method: Method, problem: Problem) -> Any:
    """Fit a model by a method, and return how far from the minimum it is."""
    return METHODS[type(method)](method, problem)


@overload(solve)
def _compiled_solve(method, problem):
    chosen = METHODS[method.instance_class]
    return lambda method, problem: chosen(method, problem)


@kernel
def fit_nodes(nodes, lo, hi, rows, part, method, w, reached):
    """Fit the models of nodes lo … hi−1 of the list.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The list of nodes.
    lo, hi : int
        The range of the list to fit.
    rows : Rows
        The records of all nodes.
    part : Part
        The records to use.
    method : Ridge, Lasso or MiniBatchDescent
        The method with its settings.
    w : array of float64, shape (nodes · models, features)
        The output: row e·models + m is model m of nodes[e].
    reached : array of float64, shape (nodes, models)
        The output: how far from the minimum each model is.
    """
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
                problem = Problem(rows, part, e, nodes[e], m, models, n, z, flat, model, scratch)
                reached[e, m] = solve(method, problem)
            for f in range(w.shape[1]):
                w[e * models + m, f] = model[f]
