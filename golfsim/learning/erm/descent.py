"""Fit models by the mini-batch descent of Asplund & Frøystad (2015), which stops before the minimum is reached."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from golfsim.core.kernels import kernel, leaf
from golfsim.core.simd import dot_between
from golfsim.learning.erm.newton import LANES, loss_of, margins, padded, slopes
from golfsim.learning.erm.nodes import Part, count, lay_out

SGD_RATES = (1e-2, 1e-1, 1.0, 1e1, 1e2)  # the values of γ in the paper
SGD_FOLDS = 3
SGD_EPOCHS = 100
SGD_STOP = 0.01
DIVERGED = 1e100  # a model with a larger squared length has diverged


class Descent(NamedTuple):
    """What the source does not state, or states in a form that is not consistent with its objective."""

    batch: int  # the number of records per mini-batch
    share: bool = True  # a batch has its share of the penalty, batch/n; otherwise every batch has all of it, as printed
    largest: bool = False  # of equally good values of γ, take the largest; otherwise the smallest


@leaf
def summed_objective(loss, n, lam, w, margin):
    """Return Σ loss + λ‖w‖² (Asplund & Frøystad 2015, equation 3.7, as an objective to minimise)."""
    total = 0.0
    for i in range(n):
        total += loss_of(loss, margin[i])
    for f in range(w.size):
        total += lam * w[f] * w[f]
    return total


@leaf
def descend(z, n, size, how, gamma, lam, epochs, stop, loss, w, scratch):
    """Minimise Σ loss + λ‖w‖² by mini-batch descent (Asplund & Frøystad 2015, equation 3.8 with corrected signs).

    A step with b of the n records is α·(Σ over the batch of the loss's gradient + 2λw·b/n), α = γ/(1 + γλt) with t the
    epoch, from 0. The equation of the source has 2λw in each step. An epoch of such steps has n/b times the gradient of
    the penalty, so it minimises Σ loss + (n/b)λ‖w‖². The descent ends after a step that changes the objective by less
    than `stop`, or if the model diverges.

    Parameters
    ----------
    z : array of float32, shape (padded features, size)
        The records times their signs, feature by feature, padded with zeros.
    n, size : int
        The number of records, without and with padding.
    how : Descent
        The size of a mini-batch, and its part of the penalty.
    gamma : float
        The initial learning rate.
    lam : float
        The λ of the objective.
    epochs : int
        The largest number of epochs.
    stop : float
        The smallest change of the objective per step; 0: run all epochs.
    loss : Loss
        The loss function.
    w : array of float64, shape (padded features,)
        The model, changed in place.
    scratch : FitRoom
        Temporary memory.
    """
    margins(z, w, size, scratch.margin)
    before = summed_objective(loss, n, lam, w, scratch.margin)
    for epoch in range(epochs):
        alpha = gamma / (1 + gamma * lam * epoch)
        for lo in range(0, n, how.batch):
            hi = min(lo + how.batch, n)
            pull = 2 * lam * (hi - lo) / n if how.share else 2 * lam
            slopes(loss, scratch.margin, size, scratch.slope)
            square = 0.0
            for f in range(w.size):
                total = dot_between(scratch.slope, 0, z, f, lo, hi)
                w[f] -= alpha * (total + pull * w[f])
                square += w[f] * w[f]
            if square > DIVERGED:
                return
            margins(z, w, size, scratch.margin)
            if stop > 0:
                after = summed_objective(loss, n, lam, w, scratch.margin)
                if abs(after - before) < stop:
                    return
                before = after


@leaf
def wrong_sides(z, n, size, w, scratch):
    """Return the number of records that a model does not put on the right side."""
    margins(z, w, size, scratch.margin)
    wrong = 0
    for i in range(n):
        wrong += not scratch.margin[i] > 0
    return wrong


@kernel
def best_rate(rows, node, m, models, fold, rates, how, lam, loss, flat, w, scratch):
    """Return the γ with the fewest errors on left-out folds after one epoch on the other folds.

    The source does not state which γ it takes if several have the fewest errors; `how` does.

    Parameters
    ----------
    rows : Rows
        The records of all nodes.
    node : int
        The node whose records are used.
    m, models : int
        The linear model to fit, and the number of linear models.
    fold : array of int32, shape (records,)
        The fold of each record.
    rates : array of float64, shape (rates,)
        The values of γ to choose from, in increasing order.
    how : Descent
        The size of a mini-batch, its part of the penalty, and the choice among equal values of γ.
    lam : float
        The λ of the objective.
    loss : Loss
        The loss function.
    flat : array of float32, shape (padded features · padded records,)
        Temporary memory for records.
    w : array of float64, shape (padded features,)
        Temporary memory for a model.
    scratch : FitRoom
        Temporary memory.
    """
    features, wrong = w.size, np.zeros(rates.size, np.int64)
    for left_out in range(SGD_FOLDS):
        rest, held = Part(fold, left_out, False), Part(fold, left_out, True)
        for r in range(rates.size):
            w[:] = 0
            n = count(rows, node, rest)
            size = padded(n, LANES)
            z = flat[: features * size].reshape(features, size)
            lay_out(rows, node, m, models, rest, z)
            descend(z, n, size, how, rates[r], lam, 1, 0.0, loss, w, scratch)
            n = count(rows, node, held)
            size = padded(n, LANES)
            z = flat[: features * size].reshape(features, size)
            lay_out(rows, node, m, models, held, z)
            wrong[r] += wrong_sides(z, n, size, w, scratch)
    chosen = 0
    for r in range(1, rates.size):
        if wrong[r] < wrong[chosen] or (how.largest and wrong[r] == wrong[chosen]):
            chosen = r
    return rates[chosen]
