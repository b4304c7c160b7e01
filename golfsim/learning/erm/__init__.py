"""Regularised empirical risk minimisation: a linear model for every node, fitted on the node's own records.

The objective is mean loss + (λ/2)‖w‖² (+ b·w), minimised by Newton's method until the gradient is as short as asked.
A node's records are laid out feature by feature, signs folded in: then margins, gradient and Hessian are long sums over
records, which fill vector registers. Nodes are independent of each other, so any division over threads gives the same
bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.threads import over_ranges
from golfsim.learning.erm.descent import SGD_FOLDS, SGD_RATES, fit_by_descent
from golfsim.learning.erm.lasso import fit_lasso
from golfsim.learning.erm.newton import Loss
from golfsim.learning.erm.nodes import Part, count_mistakes, cross_validate, fit_nodes
from golfsim.protocol.records import Rows, ranges

Weights = NDArray[np.float64]  # [nodes, models, features]
Floats = NDArray[np.float64]
EVERYTHING = Part(np.zeros(0, np.int32), 0, True)


class Solver(NamedTuple):
    """How exactly to solve, in how many steps at the most, on how many threads, and for which layer."""

    tolerance: float = 1e-9
    most: int = 500
    threads: int = 1
    layer: str = ""


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
    """For each node and model the w that minimises mean loss + (ridge/2)‖w‖² + linear·w over the node's records."""
    solver = solver or Solver()
    w, reached = _room(nodes, models, rows)
    term = np.zeros((0, 0)) if linear is None else np.ascontiguousarray(linear).reshape(w.shape)

    def run(lo: int, hi: int) -> None:
        fit_nodes(nodes, lo, hi, rows, part, loss, ridge, term, solver.tolerance, solver.most, w, reached)

    over_ranges(solver.threads, run, 0, nodes.size, smallest=1)
    _refuse_unsolved(nodes, reached, solver)
    return w.reshape(nodes.size, models, -1)


def fit_with_lasso(
    nodes: NDArray[np.int32], rows: Rows, models: int, loss: Loss, lam: Floats, solver: Solver
) -> Weights:
    """For each node and model the w that minimises mean loss + λΣ|w|."""
    w, reached = _room(nodes, models, rows)

    def run(lo: int, hi: int) -> None:
        fit_lasso(nodes, lo, hi, rows, loss, lam, solver.tolerance, solver.most, w, reached)

    over_ranges(solver.threads, run, 0, nodes.size, smallest=1)
    _refuse_unsolved(nodes, reached, solver)
    return w.reshape(nodes.size, models, -1)


def fit_as_published(
    nodes: NDArray[np.int32],
    rows: Rows,
    models: int,
    loss: Loss,
    lam: Floats,
    batch: int,
    key: np.uint64,
    threads: int = 1,
) -> Weights:
    """The models of Asplund & Frøystad (2015): mini-batch descent that stops early; `lam` is that of Σ loss + λ‖w‖²."""
    w, _ = _room(nodes, models, rows)
    fold, rates = parts(nodes, rows, SGD_FOLDS, key), np.array(SGD_RATES)

    def run(lo: int, hi: int) -> None:
        fit_by_descent(nodes, lo, hi, rows, models, fold, rates, batch, lam, loss, w)

    over_ranges(threads, run, 0, nodes.size, smallest=1)
    return w.reshape(nodes.size, models, -1)


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
    """For each node the λ of the grid with the fewest mistakes in cross-validation; the largest of equals.

    It looks at the records themselves, so it has to be paid for where these are private.
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
    """How many of its own records of a part each node's models get wrong."""
    wrong = np.zeros(nodes.size, np.int64)
    flat = w.reshape(-1, w.shape[2])
    over_ranges(
        threads, lambda lo, hi: count_mistakes(nodes, lo, hi, rows, part, w.shape[1], flat, wrong), 0, nodes.size
    )
    return wrong


def parts(nodes: NDArray[np.int32], rows: Rows, number: int, key: np.uint64) -> NDArray[np.int32]:
    """Divide each node's records into so many parts of equal size (but for one), at random."""
    found = np.zeros(int(rows.stop.max(initial=0)), np.int32)
    first, stop = rows.first[nodes], rows.stop[nodes]
    records, owner = ranges(first, stop), np.repeat(np.arange(nodes.size), stop - first)
    order = np.lexsort((rng.uniform(key, records.astype(np.int32)), owner))
    rank = np.arange(records.size) - np.repeat(np.cumsum(stop - first) - (stop - first), stop - first)
    found[records[order]] = rank % number
    return found


def _room(nodes: NDArray[np.int32], models: int, rows: Rows) -> tuple[Floats, Floats]:
    return np.zeros((nodes.size * models, rows.x.shape[1])), np.zeros((nodes.size, models))


def _refuse_unsolved(nodes: NDArray[np.int32], reached: Floats, solver: Solver) -> None:
    """An unsolved problem is no result: what is said of it, privacy above all, holds for the minimum."""
    worst = reached.max(axis=1, initial=0)
    unsolved = np.flatnonzero(~(worst <= solver.tolerance))
    if unsolved.size:
        node, length = int(nodes[unsolved[0]]), worst[unsolved[0]]
        raise UserError(
            f"the fit of node {node} ends with a gradient of length {length:.3g} after {solver.most} steps; at most "
            f"{solver.tolerance:.3g} is asked for ({unsolved.size} of {nodes.size} nodes)",
            key=f"{solver.layer}.tolerance" if solver.layer else None,
            hint="raise the tolerance, or λ: the smaller λ, the harder the problem",
        )
