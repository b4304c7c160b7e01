"""Fit the models of many nodes by one of three methods, in one loop over nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.learning.erm.descent import SGD_EPOCHS, SGD_STOP, best_rate, descend
from golfsim.learning.erm.lasso import lasso
from golfsim.learning.erm.newton import LANES, Loss, make_scratch, minimise, padded
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
    rates: Floats  # the learning rates to choose from
    batch: int


@kernel
def _by_newton(method, rows, e, node, m, models, part, n, z, flat, model, scratch):
    """Fit one model by Newton's method; the parameters are those of `solve`."""
    row = e * models + m
    return minimise(
        z,
        n,
        z.shape[1],
        method.ridge[e],
        method.linear,
        row,
        method.loss,
        method.tolerance,
        method.most,
        model,
        scratch,
    )


@kernel
def _by_lasso(method, rows, e, node, m, models, part, n, z, flat, model, scratch):
    """Fit one model by proximal Newton steps; the parameters are those of `solve`."""
    return lasso(
        z, n, z.shape[1], method.lam[e], method.nothing, method.loss, method.tolerance, method.most, model, scratch
    )


@kernel
def _by_descent(method, rows, e, node, m, models, part, n, z, flat, model, scratch):
    """Fit one model by mini-batch descent; the parameters are those of `solve`."""
    lam, loss = method.lam[e], method.loss
    gamma = best_rate(rows, node, m, models, method.fold, method.rates, method.batch, lam, loss, flat, model, scratch)
    lay_out(rows, node, m, models, part, z)  # choosing the rate has used the same memory
    model[:] = 0
    descend(z, n, z.shape[1], method.batch, gamma, lam, SGD_EPOCHS, SGD_STOP, loss, model, scratch)
    return 0.0


Method = Ridge | Lasso | MiniBatchDescent
METHODS = {Ridge: _by_newton, Lasso: _by_lasso, MiniBatchDescent: _by_descent}


def solve(
    method: Any, rows: Any, e: int, node: int, m: int, models: int, part: Part, n: int, z: Any, flat: Any, model: Any,
    scratch: Any,
) -> Any:  # fmt: skip
    """Fit model m of a node by a method, and return how far from the minimum it is.

    Parameters
    ----------
    method : Ridge, Lasso or MiniBatchDescent
        The method with its settings.
    rows : Rows
        The records of all nodes.
    e, node : int
        The place of the node in the list of nodes, and its number.
    m, models : int
        The linear model to fit, and the number of linear models.
    part : Part
        The records to use.
    n : int
        The number of these records.
    z : array of float32, shape (padded features, padded records)
        The records times their signs, feature by feature; a view of `flat`.
    flat : array of float32
        The memory for records.
    model : array of float64, shape (padded features,)
        The initial model, changed in place.
    scratch : FitRoom
        Temporary memory.
    """
    return METHODS[type(method)](method, rows, e, node, m, models, part, n, z, flat, model, scratch)


@overload(solve)
def _compiled_solve(method, rows, e, node, m, models, part, n, z, flat, model, scratch):
    chosen = METHODS[method.instance_class]
    return lambda method, rows, e, node, m, models, part, n, z, flat, model, scratch: chosen(
        method, rows, e, node, m, models, part, n, z, flat, model, scratch
    )


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
                reached[e, m] = solve(method, rows, e, nodes[e], m, models, part, n, z, flat, model, scratch)
            for f in range(w.shape[1]):
                w[e * models + m, f] = model[f]
