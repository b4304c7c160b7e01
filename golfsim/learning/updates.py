"""One step of stochastic gradient descent on a node's records: Pegasos, logistic regression, the mean of yx.

All three have the form w ← (1 − 1/t)·w + step·yx (Hegedűs & Jelasity 2017, equations 8 and 11); they differ in the
step, which depends on the margin w·yx.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from golfsim.core.kernels import inlined, leaf
from golfsim.core.maths import exp
from golfsim.core.simd import dot, fused
from golfsim.privacy.ledger import may_visit, spend
from golfsim.privacy.mechanisms import ROUNDING
from golfsim.privacy.noise import add_gamma_norm, add_laplace
from golfsim.protocol.records import sign_for

PEGASOS, LOGISTIC, MEAN = range(3)

LEARNERS = {
    "pegasos": (PEGASOS, "linear SVM: step 1/(λt) while the margin is below 1 (Shalev-Shwartz et al. 2011)"),
    "logistic": (LOGISTIC, "logistic regression: step σ(−margin)/(λt)"),
    "mean": (MEAN, "the running mean of yx for each class, the limit of large λ: step 1/t, whatever the margin"),
}


LARGEST_MARGIN = 700.0  # beyond it the exponential leaves the range of numbers, and the step is 0 in any case
L1, L2 = range(2)
NORMS = {"l1": L1, "l2": L2}


class Noise(NamedTuple):
    """How gradients are perturbed; `on` is false where they are not."""

    on: bool
    norm: int
    per_record: bool  # the unit is a record: the mean over k records moves k times less
    key: np.uint64


class Rule(NamedTuple):
    """How a model is updated."""

    learner: int
    lam: float
    one_by_one: bool  # else all records of a node form one mini-batch


@inlined
def rate(rule, t):
    """The learning rate of the t-th update."""
    return 1.0 / t if rule.learner == MEAN else 1 / (rule.lam * t)


@inlined
def step_size(rule, margin, t):
    """How far the t-th update moves along yx."""
    if rule.learner == PEGASOS:
        return rate(rule, t) if margin < 1 else 0.0
    if rule.learner == LOGISTIC:
        return rate(rule, t) / (1 + exp(min(np.float64(margin), LARGEST_MARGIN)))
    return rate(rule, t)


# Kernels take an array and the number of a row, not the row: a slice costs more than the loop over a short row.


@inlined
def move(w, i, decay, step, x, j, out, m):
    """out[m] = decay·w[i] + step·x[j]."""
    for f in range(w.shape[1]):
        out[m, f] = fused(step, x[j, f], decay * w[i, f])


@inlined
def nudge(out, m, decay, step, x, j):
    """out[m] = decay·out[m] + step·x[j], in place."""
    for f in range(out.shape[1]):
        out[m, f] = fused(step, x[j, f], decay * out[m, f])


@inlined
def copy_model(w, start, out):
    """out = the rows of w from `start` on."""
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
    """Update a model in its place by one record after the other; returns its new age.

    The model is the rows of w from `start` on, one for each of its linear models, and has seen `age` updates.
    """
    slices = models if rows.folded else 1
    for record in range(first, stop):
        age += 1
        decay = np.float32(1 - 1 / age)
        for m in range(models):
            r = record * slices + (m if rows.folded else 0)
            sign = sign_for(rows, record, m, models)
            step = step_size(rule, sign * dot(w, start + m, rows.x, r), age)
            nudge(w, start + m, decay, np.float32(step * sign), rows.x, r)
    return age


@leaf
def update(w, start, age, rows, node, rule, out):
    """Write into `out` a model after an update by a node's records; returns its new age."""
    first, stop = rows.first[node], rows.stop[node]
    if first == stop:
        copy_model(w, start, out)
        return age
    models = out.shape[0]
    slices = models if rows.folded else 1
    together = first + 1 if rule.one_by_one else stop
    size = together - first
    age += 1
    decay = np.float32(1 - 1 / age)
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
    """Whom a visit to a node is charged to: all its records, or the node itself."""
    if noise.per_record:
        return rows.first[node], rows.stop[node]
    return np.int64(node), np.int64(node) + 1


@inlined
def charge(rows, node, noise, budget):
    """Spend what a visit to a node costs, and tell its ε: 0 where there is no record, or too little left."""
    if rows.first[node] == rows.stop[node]:
        return 0.0
    if not noise.on:
        return np.inf
    lo, hi = units(rows, node, noise)
    return spend(budget, lo, hi) if may_visit(budget, lo, hi) else 0.0


@leaf
def perturb_gradient(w, start, models, age, rows, node, rule, noise, budget, epsilon):
    """Add to a model the noise of its last update, which is that of the gradient times the learning rate.

    The gradient of a record is at most as long as the record, and that at most 1; so the mean over k records has a
    sensitivity of 2/k for one record and of 2 for all.
    """
    lo, hi = units(rows, node, noise)
    sensitivity = 2.0 * (1 + ROUNDING) / (hi - lo)
    scale = rate(rule, age) * sensitivity / (epsilon / models)
    if scale > 0:
        for m in range(models):
            k = m * 3 * w.shape[1]
            if noise.norm == L1:
                add_laplace(noise.key, budget.visits[lo], lo, k, scale, w, start + m)
            else:
                add_gamma_norm(noise.key, budget.visits[lo], lo, k, scale, w, start + m)


@leaf
def learn(w, start, age, rows, node, rule, noise, budget, out):
    """An update that spends the records' budget and perturbs the mean gradient, where the strategy asks for it.

    Where the rest of a budget is too small the model moves on unchanged.
    """
    epsilon = charge(rows, node, noise, budget)
    if epsilon == 0:
        copy_model(w, start, out)
        return age
    age = update(w, start, age, rows, node, rule, out)
    if noise.on:
        perturb_gradient(out, 0, out.shape[0], age, rows, node, rule, noise, budget, epsilon)
    return age


@leaf
def learn_in_place(w, start, age, rows, node, rule, noise, budget, fresh):
    """`learn` for a model that takes the place of the old one; `fresh` is room for it where a mini-batch needs both."""
    first, stop, models = rows.first[node], rows.stop[node], fresh.shape[0]
    if stop - first > 1 and not rule.one_by_one:
        age = learn(w, start, age, rows, node, rule, noise, budget, fresh)
        keep_model(fresh, w, start)
        return age
    epsilon = charge(rows, node, noise, budget)
    if epsilon == 0:
        return age
    age = amend(w, start, models, age, rows, first, stop, rule)
    if noise.on:
        perturb_gradient(w, start, models, age, rows, node, rule, noise, budget, epsilon)
    return age
