"""Fit models by the mini-batch descent of Asplund & Frøystad (2015), which stops before the minimum is reached."""

from __future__ import annotations

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
def descend(z, n, size, batch, gamma, lam, epochs, stop, loss, w, scratch):
    """Minimise Σ loss + λ‖w‖² by mini-batch descent (Asplund & Frøystad 2015, equation 3.8 with corrected signs).

    A step is α·(Σ over the batch of the loss's gradient + 2λw), α = γ/(1 + γλt) with t the epoch, from 0. The descent
    ends after a step that changes the objective by less than `stop`, or if the model diverges.

    Parameters
    ----------
    z : array of float32, shape (padded features, size)
        The records times their signs, feature by feature, padded with zeros.
    n, size : int
        The number of records, without and with padding.
    batch : int
        The number of records per mini-batch.
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
        for lo in range(0, n, batch):
            slopes(loss, scratch.margin, size, scratch.slope)
            square = 0.0
            for f in range(w.size):
                total = dot_between(scratch.slope, 0, z, f, lo, min(lo + batch, n))
                w[f] -= alpha * (total + 2 * lam * w[f])
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
def best_rate(rows, node, m, models, fold, rates, batch, lam, loss, flat, w, scratch):
    """Return the γ with the fewest errors on left-out folds after one epoch on the other folds; the first if several.

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
        The values of γ to choose from.
    batch : int
        The number of records per mini-batch.
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
            descend(z, n, size, batch, rates[r], lam, 1, 0.0, loss, w, scratch)
            n = count(rows, node, held)
            size = padded(n, LANES)
            z = flat[: features * size].reshape(features, size)
            lay_out(rows, node, m, models, held, z)
            wrong[r] += wrong_sides(z, n, size, w, scratch)
    return rates[np.argmin(wrong)]
