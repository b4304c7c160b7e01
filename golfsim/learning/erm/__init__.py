"""Minimise the regularised empirical risk: fit linear models for every node on the node's own records.

The objective is mean loss + (λ/2)‖w‖² (+ b·w). Newton's method minimises it until the length of the gradient is at most
the tolerance. The records of a node are stored feature by feature and multiplied by their signs. Margins, gradient and
Hessian are then long sums over records, which use vector registers. Nodes are independent of each other, so any
division over threads gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.threads import over_ranges
from golfsim.core.words import counted
from golfsim.learning.erm.descent import SGD_FOLDS, SGD_RATES, Descent
from golfsim.learning.erm.fits import Lasso, Method, MiniBatchDescent, Ridge, fit_nodes
from golfsim.learning.erm.newton import Loss
from golfsim.learning.erm.nodes import Part, count_mistakes, cross_validate
from golfsim.protocol.records import Rows, ranges

Weights = NDArray[np.float64]  # [nodes, models, features]
Floats = NDArray[np.float64]
EVERYTHING = Part(np.zeros(0, np.int32), 0, True)


class Solver(NamedTuple):
    """Settings of the solver."""

    tolerance: float = 1e-9  # largest length of the gradient at a solution
    most: int = 500  # largest number of steps
    threads: int = 1
    layer: str = ""  # the layer that error messages name


def fit(
    nodes: NDArray[np.int32],
    rows: Rows,
    models: int,
    loss: Loss,
    ridge: Floats,
    linear: Weights | None = None,
    solver: Solver | None = None,
    part: Part = EVERYTHING,
) -> Weights:
    """Return for each node and model the w that minimises mean loss + (ridge/2)‖w‖² + linear·w over its records.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes.
    rows : Rows
        The records of all nodes.
    models : int
        The number of linear models per node.
    loss : Loss
        The loss function.
    ridge : array of float64, shape (nodes,)
        The regularisation of each node.
    linear : array of float64, shape (nodes, models, features)
        The linear term; default: none.
    solver : Solver
        The settings of the solver.
    part : Part
        The records to use; default: all records of a node.

    Returns
    -------
    array of float64, shape (nodes, models, features)
    """
    solver = solver or Solver()
    term = np.zeros((0, 0)) if linear is None else np.ascontiguousarray(linear).reshape(nodes.size * models, -1)
    method = Ridge(loss, ridge, term, solver.tolerance, solver.most)
    w, reached = _fitted(nodes, rows, models, part, method, solver.threads)
    _refuse_unsolved(nodes, reached, solver)
    return w


def fit_with_lasso(
    nodes: NDArray[np.int32], rows: Rows, models: int, loss: Loss, lam: Floats, solver: Solver
) -> Weights:
    """Return for each node and model the w that minimises mean loss + λΣ|w| over its records.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes.
    rows : Rows
        The records of all nodes.
    models : int
        The number of linear models per node.
    loss : Loss
        The loss function.
    lam : array of float64, shape (nodes,)
        The λ of each node.
    solver : Solver
        The settings of the solver.

    Returns
    -------
    array of float64, shape (nodes, models, features)
    """
    method = Lasso(loss, lam, np.zeros((0, 0)), solver.tolerance, solver.most)
    w, reached = _fitted(nodes, rows, models, EVERYTHING, method, solver.threads)
    _refuse_unsolved(nodes, reached, solver)
    return w


def fit_as_published(
    nodes: NDArray[np.int32],
    rows: Rows,
    models: int,
    loss: Loss,
    lam: Floats,
    how: Descent,
    key: np.uint64,
    threads: int = 1,
) -> Weights:
    """Return the models of Asplund & Frøystad (2015): mini-batch descent that stops before the minimum is reached.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes.
    rows : Rows
        The records of all nodes.
    models : int
        The number of linear models per node.
    loss : Loss
        The loss function.
    lam : array of float64, shape (nodes,)
        The λ of each node in the objective Σ loss + λ‖w‖².
    how : Descent
        The size of a mini-batch, its part of the penalty, and the choice among equally good learning rates.
    key : uint64
        The key of the random folds by which the learning rate is chosen.
    threads : int
        The number of threads.

    Returns
    -------
    array of float64, shape (nodes, models, features)
    """
    method = MiniBatchDescent(loss, lam, parts(nodes, rows, SGD_FOLDS, key), np.array(SGD_RATES), how)
    return _fitted(nodes, rows, models, EVERYTHING, method, threads)[0]


def best_lambda(
    nodes: NDArray[np.int32],
    rows: Rows,
    models: int,
    loss: Loss,
    grid: Floats,
    folds: int,
    key: np.uint64,
    solver: Solver,
    per_sum: bool = False,
) -> Floats:
    """Return for each node the λ of the grid with the fewest errors in cross-validation; the largest one if several.

    This uses the records themselves, so it must spend privacy budget if they are private.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes.
    rows : Rows
        The records of all nodes.
    models : int
        The number of linear models per node.
    loss : Loss
        The loss function.
    grid : array of float64, shape (grid,)
        The values of λ to choose from.
    folds : int
        The number of folds.
    key : uint64
        The key of the random folds.
    solver : Solver
        The settings of the solver.
    per_sum : bool
        Whether λ belongs to Σ loss + λ‖w‖² instead of mean loss + (λ/2)‖w‖².

    Returns
    -------
    array of float64, shape (nodes,)
    """
    falling = np.sort(grid)[::-1].copy()
    wrong, reached = np.zeros((nodes.size, grid.size), np.int64), np.zeros((nodes.size, 1))
    fold = parts(nodes, rows, folds, key)

    def run(lo: int, hi: int) -> None:
        cross_validate(
            nodes,
            lo,
            hi,
            rows,
            fold,
            folds,
            models,
            loss,
            falling,
            per_sum,
            solver.tolerance,
            solver.most,
            wrong,
            reached[:, 0],
        )

    over_ranges(solver.threads, run, 0, nodes.size, smallest=1)
    _refuse_unsolved(nodes, reached, solver)
    return np.asarray(falling[wrong.argmin(axis=1)])


def mistakes(nodes: NDArray[np.int32], rows: Rows, part: Part, w: Weights, threads: int = 1) -> NDArray[np.int64]:
    """Return the number of records of a part that the models of each node classify wrongly, among its own records."""
    wrong = np.zeros(nodes.size, np.int64)
    flat = w.reshape(-1, w.shape[2])
    over_ranges(
        threads, lambda lo, hi: count_mistakes(nodes, lo, hi, rows, part, w.shape[1], flat, wrong), 0, nodes.size
    )
    return wrong


def parts(nodes: NDArray[np.int32], rows: Rows, number: int, key: np.uint64) -> NDArray[np.int32]:
    """Divide the records of each node at random into a number of parts whose sizes differ by at most 1."""
    found = np.zeros(int(rows.stop.max(initial=0)), np.int32)
    first, stop = rows.first[nodes], rows.stop[nodes]
    records, owner = ranges(first, stop), np.repeat(np.arange(nodes.size), stop - first)
    order = np.lexsort((rng.uniform(key, records.astype(np.int32)), owner))
    rank = np.arange(records.size) - np.repeat(np.cumsum(stop - first) - (stop - first), stop - first)
    found[records[order]] = rank % number
    return found


def _fitted(
    nodes: NDArray[np.int32], rows: Rows, models: int, part: Part, method: Method, threads: int
) -> tuple[Weights, Floats]:
    """Return the models of all nodes by a method, and how far from the minimum each is."""
    w, reached = np.zeros((nodes.size * models, rows.x.shape[1])), np.zeros((nodes.size, models))

    def run(lo: int, hi: int) -> None:
        fit_nodes(nodes, lo, hi, rows, part, method, w, reached)

    over_ranges(threads, run, 0, nodes.size, smallest=1)
    return w.reshape(nodes.size, models, -1), reached


def _refuse_unsolved(nodes: NDArray[np.int32], reached: Floats, solver: Solver) -> None:
    """Raise an error if a fit did not converge: its guarantees, privacy in particular, hold only at the minimum."""
    worst = reached.max(axis=1, initial=0)
    unsolved = np.flatnonzero(~(worst <= solver.tolerance))
    if unsolved.size:
        node, length = int(nodes[unsolved[0]]), worst[unsolved[0]]
        raise UserError(
            f"the fit of node {node} did not converge in {counted(solver.most, 'step')}: the length of the gradient is "
            f"{length:.3g}, above the tolerance of {solver.tolerance:.3g} ({unsolved.size} of "
            f"{counted(nodes.size, 'node')} did not converge)",
            key=f"{solver.layer}.tolerance" if solver.layer else None,
            hint="use a larger tolerance, or a larger λ: problems with a small λ are harder to solve",
        )
