"""Update models by stochastic gradient descent on the records of a node: Pegasos, logistic regression, the mean of yx.

All three have the form w ← (1 − 1/t)·w + step·yx (Hegedűs & Jelasity 2017, equations 8 and 11). They differ in the
step size, which depends on the margin w·yx.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numba.extending import overload

from golfsim.core.kernels import OVERLOADED, inlined, leaf
from golfsim.core.maths import exp
from golfsim.core.simd import fused
from golfsim.privacy.ledger import may_visit, spend
from golfsim.privacy.mechanisms import ROUNDING
from golfsim.privacy.noise import add_gamma_norm, add_laplace
from golfsim.protocol.records import sign_for
from golfsim.protocol.symbols import add_named, are_symbols, dot, ground_of, models_of

if TYPE_CHECKING:
    from golfsim.privacy.mechanisms import Guarantee, Unit
    from golfsim.protocol.records import Records

PEGASOS, LOGISTIC, MEAN = range(3)

LEARNERS = {
    "pegasos": (PEGASOS, "linear SVM: step size 1/(λt) if the margin is below 1 (Shalev-Shwartz et al. 2011)"),
    "logistic": (LOGISTIC, "logistic regression: step size σ(−margin)/(λt)"),
    "mean": (MEAN, "running mean of yx for each class, the limit of large λ: step size 1/t for any margin"),
}


LARGEST_MARGIN = 700.0  # beyond it the exponential overflows, and the step size is 0
L1, L2 = range(2)
NORMS = {"l1": L1, "l2": L2}


class Noise(NamedTuple):
    """The perturbation of gradients."""

    on: bool  # whether gradients are perturbed
    norm: int
    per_record: bool  # the unit is a record: the sensitivity of the mean over k records is k times smaller
    key: np.uint64


Sharing = Literal["shared", "as-coded"]
SHARING = (
    "“shared”: the c one-versus-all problems share ε, so each has ε/c (as published); “as-coded”: each problem has the "
    "complete ε, as in the program of the authors, so the true ε is c·ε"
)


def spent_on_all(epsilon: float, rule: Sharing, models: int) -> float:
    """Return the ε that the noisy gradients of all one-versus-all problems spend together.

    `noisy_update` gives each problem the same part of it.
    """
    return epsilon * models if rule == "as-coded" else epsilon


def guarantee_of_gradients(records: Records[Any], epsilon: float, rule: Sharing, unit: Unit) -> Guarantee:
    """Return the guarantee of noisy gradients: the visits of a record compose sequentially, records in parallel."""
    proven = records.guarantee_of(spent_on_all(epsilon, rule, records.models), unit)
    if rule == "shared" or records.models == 1 or math.isinf(epsilon):
        return proven
    each = f"{epsilon:g} for each of {records.models} one-versus-all problems"
    return replace(proven, note=f"{proven.note}; {each}" if proven.note else each)


class Rule(NamedTuple):
    """The update rule of a model."""

    learner: int
    lam: float
    one_by_one: bool  # one update per record; else all records of a node form one mini-batch
    offset: float = 0.0  # t₀ in the learning rate 1/(λ(t + t₀))


@inlined
def rate(rule, t):
    """Return the learning rate of the t-th update."""
    return 1.0 / t if rule.learner == MEAN else 1 / (rule.lam * (t + rule.offset))


@inlined
def decay_of(rule, t):
    """Return the factor by which the t-th update shrinks a model."""
    return np.float32(1 - 1 / (t + rule.offset))


@inlined
def step_size(rule, margin, t):
    """Return the step size of the t-th update along yx."""
    if rule.learner == PEGASOS:
        return rate(rule, t) if margin < 1 else 0.0
    if rule.learner == LOGISTIC:
        return rate(rule, t) / (1 + exp(min(np.float64(margin), LARGEST_MARGIN)))
    return rate(rule, t)


# Arguments are an array and the number of a row, not the row: a slice costs more than the loop over a short row.


@inlined
def _move_dense(w, i, decay, step, x, j, out, m):
    for f in range(w.shape[1]):
        out[m, f] = fused(step, x[j, f], decay * w[i, f])


@inlined
def _move_symbols(w, i, decay, step, x, j, out, m):
    ground = np.float32(ground_of(x, j // models_of(x)))
    for f in range(w.shape[1]):
        out[m, f] = fused(step, ground, decay * w[i, f])
    add_named(out, m, step, x, j)


def move(w: Any, i: Any, decay: Any, step: Any, x: Any, j: Any, out: Any, m: Any) -> None:
    """Compute out[m] = decay·w[i] + step·x[j].

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    i : int
        The row of w.
    decay, step : float32
        The factors.
    x : array of float32, shape (rows, features), or Symbols
        The records.
    j : int
        The row of x.
    out : array of float32, shape (rows, features)
        The output; may be w if the rows are the same.
    m : int
        The row of out.
    """
    (_move_symbols if are_symbols(x) else _move_dense)(w, i, decay, step, x, j, out, m)


@overload(move, jit_options=OVERLOADED)
def _compiled_move(w, i, decay, step, x, j, out, m):
    chosen = _move_symbols if are_symbols(x) else _move_dense
    return lambda w, i, decay, step, x, j, out, m: chosen(w, i, decay, step, x, j, out, m)


@inlined
def nudge(out, m, decay, step, x, j):
    """Compute out[m] = decay·out[m] + step·x[j] in place.

    Parameters
    ----------
    out : array of float32, shape (rows, features)
        The models.
    m : int
        The row of out.
    decay, step : float32
        The factors.
    x : array of float32, shape (rows, features), or Symbols
        The records.
    j : int
        The row of x.
    """
    move(out, m, decay, step, x, j, out, m)


@inlined
def copy_model(w, start, out):
    """Copy the rows of w from `start` on into `out`."""
    for m in range(out.shape[0]):
        for f in range(out.shape[1]):
            out[m, f] = w[start + m, f]


@inlined
def keep_model(fresh, w, start):
    """Write a model into the rows of w from `start` on."""
    for m in range(fresh.shape[0]):
        for f in range(fresh.shape[1]):
            w[start + m, f] = fresh[m, f]


@leaf
def amend(w, start, models, age, rows, first, stop, rule):
    """Update a model in place by one record after the other and return its new age.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    models : int
        The number of linear models.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    first, stop : int
        The records to use: first … stop−1.
    rule : Rule
        The update rule.
    """
    slices = models if rows.folded else 1
    for record in range(first, stop):
        age += 1
        decay = decay_of(rule, age)
        for m in range(models):
            r = record * slices + (m if rows.folded else 0)
            sign = sign_for(rows, record, m, models)
            step = step_size(rule, sign * dot(w, start + m, rows.x, r), age)
            nudge(w, start + m, decay, np.float32(step * sign), rows.x, r)
    return age


@leaf
def update(w, start, age, rows, node, rule, out):
    """Write a model after an update by the records of a node into `out`, and return its new age.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used.
    rule : Rule
        The update rule.
    out : array of float32, shape (models, features)
        The output.
    """
    first, stop = rows.first[node], rows.stop[node]
    if first == stop:
        copy_model(w, start, out)
        return age
    models = out.shape[0]
    slices = models if rows.folded else 1
    together = first + 1 if rule.one_by_one else stop
    size = together - first
    age += 1
    decay = decay_of(rule, age)
    for m in range(models):
        for record in range(first, together):
            r = record * slices + (m if rows.folded else 0)
            sign = sign_for(rows, record, m, models)
            step = np.float32(step_size(rule, sign * dot(w, start + m, rows.x, r), age) / size * sign)
            if record == first:
                move(w, start + m, decay, step, rows.x, r, out, m)
            else:
                nudge(out, m, np.float32(1), step, rows.x, r)
    return amend(out, 0, models, age, rows, together, stop, rule)


@inlined
def units(rows, node, noise):
    """Return the range of units that a visit to a node is charged to: all its records, or the node itself."""
    if noise.per_record:
        return rows.first[node], rows.stop[node]
    return np.int64(node), np.int64(node) + 1


@inlined
def charge(rows, node, noise, budget):
    """Charge a visit to a node and return its ε; 0 if the node has no records or too little budget."""
    if rows.first[node] == rows.stop[node]:
        return 0.0
    if not noise.on:
        return np.inf
    lo, hi = units(rows, node, noise)
    return spend(budget, lo, hi) if may_visit(budget, lo, hi) else 0.0


@leaf
def noisy_update(w, start, age, rows, node, rule, noise, budget, epsilon, out):
    """Write a model after an update by the perturbed mean gradient of the records of a node; return its new age.

    The length of the gradient of a record is at most that of the record, which is at most 1. So the mean over k records
    has a sensitivity of 2/k with respect to one record, and of 2 with respect to all records. The gradient is perturbed
    and rounded before the model is added: so the bits of the new model depend on the records through it only.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used; it has at least one.
    rule : Rule
        The update rule.
    noise : Noise
        The perturbation.
    budget : Budget
        The visits of all units; the number of visits selects the random numbers.
    epsilon : float
        The ε that was charged for the update.
    out : array of float32, shape (models, features)
        The output.
    """
    first, stop = rows.first[node], rows.stop[node]
    lo, hi = units(rows, node, noise)
    models = out.shape[0]
    slices = models if rows.folded else 1
    age += 1
    decay = decay_of(rule, age)
    scale = rate(rule, age) * 2.0 * (1 + ROUNDING) / (hi - lo) / (epsilon / models)
    for m in range(models):
        for f in range(out.shape[1]):
            out[m, f] = 0
        for record in range(first, stop):
            r = record * slices + (m if rows.folded else 0)
            sign = sign_for(rows, record, m, models)
            step = step_size(rule, sign * dot(w, start + m, rows.x, r), age) / (stop - first) * sign
            nudge(out, m, np.float32(1), np.float32(step), rows.x, r)
        k = m * 3 * out.shape[1]
        if noise.norm == L1:
            add_laplace(noise.key, budget.visits[lo], lo, k, scale, out, m)
        else:
            add_gamma_norm(noise.key, budget.visits[lo], lo, k, scale, out, m)
        nudge(out, m, np.float32(1), decay, w, start + m)
    return age


@leaf
def learn(w, start, age, rows, node, rule, noise, budget, out):
    """Write an updated model into `out` and return its age; spend budget and perturb the gradient if `noise` is on.

    If the remaining budget is too small, the model is copied unchanged.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used.
    rule : Rule
        The update rule.
    noise : Noise
        The perturbation.
    budget : Budget
        The visits of all units, changed in place.
    out : array of float32, shape (models, features)
        The output.
    """
    epsilon = charge(rows, node, noise, budget)
    if epsilon == 0:
        copy_model(w, start, out)
        return age
    if epsilon < np.inf:
        return noisy_update(w, start, age, rows, node, rule, noise, budget, epsilon, out)
    return update(w, start, age, rows, node, rule, out)


@leaf
def learn_in_place(w, start, age, rows, node, rule, noise, budget, fresh):
    """Update a model in place as `learn` does, and return its age.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models, changed in place.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used.
    rule : Rule
        The update rule.
    noise : Noise
        The perturbation.
    budget : Budget
        The visits of all units, changed in place.
    fresh : array of float32, shape (models, features)
        Temporary memory for the new model of a mini-batch or with noise, which needs the old model, too.
    """
    first, stop, models = rows.first[node], rows.stop[node], fresh.shape[0]
    if noise.on or (stop - first > 1 and not rule.one_by_one):
        age = learn(w, start, age, rows, node, rule, noise, budget, fresh)
        keep_model(fresh, w, start)
        return age
    return amend(w, start, models, age, rows, first, stop, rule)
