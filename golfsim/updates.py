"""One step of stochastic gradient descent on a node's records: Pegasos, logistic regression, the mean of yx.

All three have the form w ← (1 − 1/t)·w + step·yx (Hegedűs & Jelasity 2017, equations 8 and 11); they differ in the
step, which depends on the margin w·yx.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from golfsim.kernels import kernel
from golfsim.records import sign_for

PEGASOS, LOGISTIC, MEAN = range(3)

LEARNERS = {
    "pegasos": (PEGASOS, "linear SVM: step 1/(λt) while the margin is below 1 (Shalev-Shwartz et al. 2011)"),
    "logistic": (LOGISTIC, "logistic regression: step σ(−margin)/(λt)"),
    "mean": (MEAN, "the running mean of yx for each class, the limit of large λ: step 1/t, whatever the margin"),
}


class Rule(NamedTuple):
    """How a model is updated."""

    learner: int
    lam: float
    one_by_one: bool  # else all records of a node form one mini-batch


@kernel
def step_size(rule, margin, t):
    """How far the t-th update moves along yx."""
    if rule.learner == PEGASOS:
        return 1 / (rule.lam * t) if margin < 1 else 0.0
    if rule.learner == LOGISTIC:
        return 1 / (rule.lam * t) / (1 + np.exp(np.float64(margin)))
    return 1.0 / t


@kernel
def dot(a, b):
    """The scalar product of two rows."""
    total = np.float32(0)
    for f in range(a.size):
        total += a[f] * b[f]
    return total


@kernel
def move(w, decay, step, x, out):
    """out = decay·w + step·x."""
    for f in range(w.size):
        out[f] = decay * w[f] + step * x[f]


@kernel
def update(w, age, rows, node, rule, out):
    """Write into `out` the model `w` (of `age` updates) after an update by a node's records; returns its new age."""
    first, stop = rows.first[node], rows.stop[node]
    if first == stop:
        out[:] = w
        return age
    models = w.shape[0]
    size = 1 if rule.one_by_one else stop - first
    for record in range(first, stop):
        fresh_step = rule.one_by_one or record == first
        age += fresh_step
        decay = np.float32(1 - 1 / age) if fresh_step else np.float32(1)
        for m in range(models):
            x = rows.x[record, m if rows.folded else 0]
            before = out[m] if rule.one_by_one and record > first else w[m]
            base = w[m] if record == first else out[m]
            sign = sign_for(rows, record, m, models)
            step = step_size(rule, sign * dot(before, x), age) / size
            move(base, decay, np.float32(step * sign), x, out[m])
    return age
