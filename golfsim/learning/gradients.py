"""Update models by the gradient of a loss: the mean gradient of records, clipped if asked for, and what it changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from golfsim.core.kernels import OVERLOADED, inlined, leaf
from golfsim.core.maths import power
from golfsim.core.simd import fused
from golfsim.learning.kinds import Rule, learner_of
from golfsim.learning.online import ADAM, MOMENTUM

TINY = 1e-8  # ε of Adam


def add_gradient(rule: Rule, w: Any, i: Any, rows: Any, record: Any, out: Any) -> None:
    """Add the gradient of the loss of a record to row 0 of `out`, by the learner's kernel.

    Parameters
    ----------
    rule : Rule
        The update rule, which has the learner.
    w : array of float32, shape (rows, numbers)
        The models.
    i : int
        The row of the model.
    rows : Rows
        The records.
    record : int
        The record.
    out : array of float32, shape (1, parameters)
        The gradient; changed in place.
    """
    learner = learner_of(rule)
    numbers = learner.Numbers(*rule.numbers)
    learner.gradient(numbers, w, i, rows.x, record, rows.label[record], out, rule.room.work)


@overload(add_gradient, jit_options=OVERLOADED)
def _compiled_gradient(rule, w, i, rows, record, out):
    kernel, numbers = learner_of(rule).gradient, learner_of(rule).Numbers
    return lambda rule, w, i, rows, record, out: kernel(
        numbers(*rule.numbers), w, i, rows.x, record, rows.label[record], out, rule.room.work
    )


@inlined
def length_of(vector, l1):
    """Return the L1 or the L2 length of row 0, summed in float64: privacy depends on it."""
    total = 0.0
    for f in range(vector.shape[1]):
        value = np.float64(vector[0, f])
        total += abs(value) if l1 else value * value
    return total if l1 else np.sqrt(total)


@leaf
def mean_gradient(w, i, rows, first, stop, rule):
    """Write the mean gradient of records to the room of a rule; the gradient of each record is clipped if asked for.

    A gradient that overflows cannot be clipped; it counts as zero, since a noisy sum with it would reveal its record.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models.
    i : int
        The row of the model.
    rows : Rows
        The records.
    first, stop : int
        The records to use: first … stop−1.
    rule : Rule
        The update rule.
    """
    mean, one, clip = rule.room.gradient, rule.room.one, rule.steps.clip
    for f in range(mean.shape[1]):
        mean[0, f] = 0
    share = np.float32(1 / (stop - first))
    for record in range(first, stop):
        if clip > 0:
            for f in range(one.shape[1]):
                one[0, f] = 0
            add_gradient(rule, w, i, rows, record, one)
            length = length_of(one, rule.steps.l1)
            factor = np.float32(clip / length) if length > clip else np.float32(1)
            if length < np.inf:
                for f in range(mean.shape[1]):
                    mean[0, f] = fused(factor, one[0, f], mean[0, f])
        else:
            add_gradient(rule, w, i, rows, record, mean)
    for f in range(mean.shape[1]):
        mean[0, f] *= share


@leaf
def descend(w, i, t, rule):
    """Change the model in row i by the gradient in the room of a rule, as its t-th update.

    A model has its parameters, followed by what the optimiser remembers: the sum of gradients v and, with Adam, the
    mean squared gradient.
    """
    gradient, s = rule.room.gradient, rule.steps
    size = gradient.shape[1]
    rate, lam = np.float32(s.rate / (1 + s.fade * (t - 1))), np.float32(s.lam)
    if s.optimiser == ADAM:
        first, second = np.float32(s.momentum), np.float32(s.second)
        scale = np.float32(1 / (1 - power(s.momentum, t)) if s.momentum > 0 else 1.0)
        wide = np.float32(1 / (1 - power(s.second, t)) if s.second > 0 else 1.0)
        for f in range(size):
            g = fused(lam, w[i, f], gradient[0, f])
            v = fused(first, w[i, size + f], (np.float32(1) - first) * g)
            before = max(w[i, 2 * size + f], np.float32(0))  # a forged model may have a negative one
            q = fused(second, before, (np.float32(1) - second) * (g * g))
            w[i, size + f], w[i, 2 * size + f] = v, q
            w[i, f] -= rate * (v * scale) / (np.sqrt(q * wide) + np.float32(TINY))
    elif s.optimiser == MOMENTUM:
        decay = np.float32(s.momentum)
        for f in range(size):
            v = fused(decay, w[i, size + f], fused(lam, w[i, f], gradient[0, f]))
            w[i, size + f] = v
            w[i, f] = fused(-rate, v, w[i, f])
    else:
        keep = np.float32(1) - rate * lam
        for f in range(size):
            w[i, f] = fused(-rate, gradient[0, f], keep * w[i, f])
