"""Fit Lasso models, which minimise mean loss + λΣ|w|."""

from __future__ import annotations

import numpy as np

from golfsim.core.kernels import leaf
from golfsim.learning.erm.newton import curvatures, go, hessian_of, keep, loss_of


@leaf
def shrunk(value, by):
    """Return the value moved towards 0 by `by` (soft thresholding)."""
    return max(value - by, 0.0) if value > 0 else min(value + by, 0.0)


@leaf
def distance_from_best(w, gradient, lam):
    """Return the length of the proximal gradient step from w, which is 0 at the minimum."""
    square = 0.0
    for f in range(w.size):
        move = w[f] - shrunk(w[f] - gradient[f], lam)
        square += move * move
    return np.sqrt(square)


@leaf
def lasso_step(hessian, n, gradient, w, lam, tolerance, product, step):
    """Compute the step to the minimum of the quadratic model plus λΣ|w|, by cyclic coordinate descent.

    Parameters
    ----------
    hessian : array of float64, shape (features, features)
        The lower triangle of n times the Hessian.
    n : int
        The number of records.
    gradient : array of float64, shape (features,)
        The gradient of the mean loss at w.
    w : array of float64, shape (features,)
        The current model.
    lam : float
        The λ of the objective.
    tolerance : float
        The largest change of a gradient coordinate at which the descent ends.
    product : array of float64, shape (features,)
        Temporary memory for the Hessian times the step.
    step : array of float64, shape (features,)
        The output.
    """
    for f in range(w.size):
        step[f] = product[f] = 0.0
    for _ in range(500):
        largest = 0.0
        for f in range(w.size):
            bend = hessian[f, f] / n
            if bend > 0:
                here = w[f] + step[f]
                change = shrunk(here - (gradient[f] + product[f]) / bend, lam / bend) - here
                step[f] += change
                for k in range(w.size):
                    product[k] += (hessian[k, f] if k >= f else hessian[f, k]) / n * change
                largest = max(largest, abs(change) * bend)
        if largest <= tolerance:
            break


@leaf
def lasso_objective(loss, n, lam, share, w, scratch):
    """Return mean loss + λΣ|w| after a share of the step.

    Parameters
    ----------
    loss : Loss
        The loss function.
    n : int
        The number of records.
    lam : float
        The λ of the objective.
    share : float
        The share of the step, from 0 to 1.
    w : array of float64, shape (features,)
        The model before the step.
    scratch : FitRoom
        The step, and the margins before the step and after the complete step.
    """
    total = 0.0
    for i in range(n):
        total += loss_of(loss, scratch.margin[i] + share * (scratch.trial_margin[i] - scratch.margin[i])) / n
    for f in range(w.size):
        total += lam * abs(w[f] + share * scratch.step[f])
    return total


@leaf
def lasso(z, n, size, lam, nothing, loss, tolerance, most, w, scratch):
    """Minimise mean loss + λΣ|w| by proximal Newton steps (Lee, Sun & Saunders 2014).

    Return the remaining distance from the minimum, see `distance_from_best`.

    Parameters
    ----------
    z : array of float32, shape (features, size)
        The records times their signs, feature by feature, padded with zeros.
    n, size : int
        The number of records, without and with padding.
    lam : float
        The λ of the objective.
    nothing : array of float64, shape (0, 0)
        The linear term, which this objective does not have.
    loss : Loss
        The loss function.
    tolerance : float
        The distance from the minimum at which the iteration ends.
    most : int
        The largest number of steps.
    w : array of float64, shape (features,)
        The initial model, changed in place.
    scratch : FitRoom
        Temporary memory.
    """
    for f in range(w.size):
        scratch.step[f] = 0.0
    go(z, n, size, 0.0, nothing, 0, loss, 0.0, w, scratch)
    keep(z, size, w, scratch)
    left = distance_from_best(w, scratch.gradient, lam)
    for _ in range(most):
        if left <= tolerance:
            break
        curvatures(loss, scratch.margin, size, scratch.curvature)
        hessian_of(z, size, 0.0, scratch)
        lasso_step(scratch.hessian, n, scratch.gradient, w, lam, 0.01 * min(left, lam), scratch.trial, scratch.step)
        go(z, n, size, 0.0, nothing, 0, loss, 1.0, w, scratch)
        start = lasso_objective(loss, n, lam, 0.0, w, scratch)
        share = 1.0
        while share > 1e-9 and lasso_objective(loss, n, lam, share, w, scratch) > start * (1 + 1e-15):
            share /= 2
        if share < 1:
            go(z, n, size, 0.0, nothing, 0, loss, share, w, scratch)
        keep(z, size, w, scratch)
        left = distance_from_best(w, scratch.gradient, lam)
    return left
