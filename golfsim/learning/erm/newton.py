"""Fit one linear model by Newton's method: minimise mean loss + (ridge/2)‖w‖² + b·w.

z [features, size] holds the records times their signs, feature by feature. Both dimensions are padded with zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.maths import exp, log1p
from golfsim.core.simd import dot_between, finish, fused, load, load_as, total, zeros

LOGISTIC, HUBER = range(2)
LOSSES = {"logistic": LOGISTIC, "huber": HUBER}

LANES = 8  # records are padded to a multiple of this, features to half of it
FEW = 4  # lanes of short sums in double precision
CHUNK = 512  # number of records whose part of the Hessian is summed in single precision
SAFE_RIDGE = 1e-5  # for a smaller ridge, rounding in single precision matters, and the Hessian has double precision
GOOD_RATE = 0.3  # a factorised Hessian that reduces the gradient to this share or less is used again


class Loss(NamedTuple):
    """A loss function of the margin y·w·x; the Huber loss is quadratic within `half_width` of margin 1."""

    kind: int
    half_width: float

    @property
    def curvature(self) -> float:
        """The largest second derivative: c of Chaudhuri et al. 2011."""
        return 0.25 if self.kind == LOGISTIC else 1 / (2 * self.half_width)


class FitRoom(NamedTuple):
    """Temporary memory for one fit."""

    margin: NDArray[np.float64]  # one value per record
    slope: NDArray[np.float64]
    curvature: NDArray[np.float64]
    trial_margin: NDArray[np.float64]
    trial: NDArray[np.float64]  # one value per feature
    gradient: NDArray[np.float64]
    trial_gradient: NDArray[np.float64]
    step: NDArray[np.float64]
    hessian: NDArray[np.float64]
    factor: NDArray[np.float64]
    weighted: NDArray[np.float32]
    weighted_exactly: NDArray[np.float64]


@leaf
def padded(number, multiple):
    """Return the smallest multiple that is at least `number`."""
    return (number + multiple - 1) // multiple * multiple


@kernel
def make_scratch(features, size):
    """Allocate memory for a fit with a number of features and records, including padding."""
    return FitRoom(
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(features),
        np.empty(features),
        np.empty(features),
        np.empty(features),
        np.empty((features, features)),
        np.zeros((features, features)),
        np.empty((features, CHUNK), np.float32),
        np.empty((features, CHUNK)),
    )


# ------------------------------------------------------------------------------------------------- the loss of a margin


@leaf
def loss_of(loss, margin):
    """Return the logistic loss ln(1 + e^−m), or the Huber loss (Chaudhuri et al. 2011, equation 7)."""
    if loss.kind == LOGISTIC:
        return max(-margin, 0.0) + log1p(exp(-abs(margin)))
    h = loss.half_width
    if margin > 1 + h:
        return 0.0
    return 1 - margin if margin < 1 - h else (1 + h - margin) * (1 + h - margin) / (4 * h)


@leaf
def slope_of(loss, margin):
    """Return the derivative of the loss at a margin."""
    if loss.kind == LOGISTIC:
        e = exp(-abs(margin))
        return -(e if margin > 0 else 1.0) / (1 + e)
    h = loss.half_width
    return -min(max((1 + h - margin) / (2 * h), 0.0), 1.0)


@leaf
def slopes(loss, margin, size, slope):
    """Compute the derivative of the loss at each margin."""
    h = loss.half_width
    if loss.kind == LOGISTIC:
        for i in range(size):
            e = exp(-abs(margin[i]))
            slope[i] = -(e if margin[i] > 0 else 1.0) / (1 + e)
    else:
        for i in range(size):
            slope[i] = -min(max((1 + h - margin[i]) / (2 * h), 0.0), 1.0)


@leaf
def curvatures(loss, margin, size, curvature):
    """Compute the second derivative of the loss at each margin."""
    h = loss.half_width
    if loss.kind == LOGISTIC:
        for i in range(size):
            e = exp(-abs(margin[i]))
            curvature[i] = e / ((1 + e) * (1 + e))
    else:
        for i in range(size):
            curvature[i] = 1 / (2 * h) if abs(1 - margin[i]) <= h else 0.0


# --------------------------------------------------------------------------------------------------- sums over records


@leaf
def margins(z, w, size, out):
    """Compute the margin w·z of each record, four features at a time."""
    for i in range(size):
        out[i] = 0.0
    for f in range(0, z.shape[0], 4):
        a, b, c, d = w[f], w[f + 1], w[f + 2], w[f + 3]
        for i in range(size):
            out[i] += (a * z[f, i] + b * z[f + 1, i]) + (c * z[f + 2, i] + d * z[f + 3, i])


@leaf
def gradient_at(z, n, size, ridge, linear, row, slope, w, out):
    """Compute the gradient of the objective from the slopes at w, and return its length.

    Parameters
    ----------
    z : array of float32, shape (features, size)
        The records times their signs, feature by feature, padded with zeros.
    n, size : int
        The number of records, without and with padding.
    ridge : float
        The regularisation.
    linear : array of float64, shape (rows, features without padding) or (0, 0)
        The linear terms of several models.
    row : int
        The row of `linear` to use.
    slope : array of float64, shape (size,)
        The derivative of the loss for each record.
    w : array of float64, shape (features,)
        The model.
    out : array of float64, shape (features,)
        The output.
    """
    square = 0.0
    for f in range(0, z.shape[0], 4):
        a = b = c = d = zeros(slope, LANES)
        for i in range(0, size, LANES):
            s = load(slope, 0, i, LANES)
            a = fused(s, load_as(slope, z, f, i, LANES), a)
            b = fused(s, load_as(slope, z, f + 1, i, LANES), b)
            c = fused(s, load_as(slope, z, f + 2, i, LANES), c)
            d = fused(s, load_as(slope, z, f + 3, i, LANES), d)
        out[f], out[f + 1], out[f + 2], out[f + 3] = total(a) / n, total(b) / n, total(c) / n, total(d) / n
    for f in range(z.shape[0]):
        out[f] += ridge * w[f] + (linear[row, f] if f < linear.shape[1] else 0.0)
        square += out[f] * out[f]
    return np.sqrt(square)


@leaf
def add_products(u, z, lo, hi, out):
    """Add Σ u[a]·z[b] over records lo … hi−1 to out[a, b], b ≤ a, in tiles of 4 × 2 that stay in registers."""
    for a in range(0, z.shape[0], 4):
        for b in range(0, a + 4, 2):
            s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = zeros(u, LANES)
            for i in range(lo, hi, LANES):
                left, right = load_as(u, z, b, i, LANES), load_as(u, z, b + 1, i, LANES)
                u0, u1 = load(u, a, i - lo, LANES), load(u, a + 1, i - lo, LANES)
                u2, u3 = load(u, a + 2, i - lo, LANES), load(u, a + 3, i - lo, LANES)
                s00 = fused(u0, left, s00)
                s01 = fused(u0, right, s01)
                s10 = fused(u1, left, s10)
                s11 = fused(u1, right, s11)
                s20 = fused(u2, left, s20)
                s21 = fused(u2, right, s21)
                s30 = fused(u3, left, s30)
                s31 = fused(u3, right, s31)
            out[a, b] += total(s00)
            out[a, b + 1] += total(s01)
            out[a + 1, b] += total(s10)
            out[a + 1, b + 1] += total(s11)
            out[a + 2, b] += total(s20)
            out[a + 2, b + 1] += total(s21)
            out[a + 3, b] += total(s30)
            out[a + 3, b + 1] += total(s31)


@leaf
def weigh(z, lo, hi, weight, u):
    """Compute u = weight·z for records lo … hi−1."""
    for f in range(z.shape[0]):
        for i in range(lo, hi):
            u[f, i - lo] = weight[i] * z[f, i]


@leaf
def hessian_of(z, size, ridge, scratch):
    """Compute the lower triangle of Σ curvature·z·zᵀ; within a chunk in single precision, unless the ridge is small."""
    for a in range(z.shape[0]):
        for b in range(z.shape[0]):
            scratch.hessian[a, b] = 0.0
    for lo in range(0, size, CHUNK):
        hi = min(lo + CHUNK, size)
        if ridge >= SAFE_RIDGE:
            weigh(z, lo, hi, scratch.curvature, scratch.weighted)
            add_products(scratch.weighted, z, lo, hi, scratch.hessian)
        else:
            weigh(z, lo, hi, scratch.curvature, scratch.weighted_exactly)
            add_products(scratch.weighted_exactly, z, lo, hi, scratch.hessian)


# ------------------------------------------------------------------------------------------------------ Newton's method


@leaf
def cholesky(hessian, n, ridge, factor):
    """Compute the lower Cholesky factor of hessian/n + ridge·I; a pivot is at least the ridge, despite rounding."""
    features = factor.shape[0]
    for j in range(features):
        pivot = hessian[j, j] / n + ridge - dot_between(factor, j, factor, j, 0, j)
        root = np.sqrt(max(pivot, ridge))
        factor[j, j] = root
        i = j + 1
        while i + 3 < features:
            a = b = c = d = zeros(factor, FEW)
            for k in range(0, j - j % FEW, FEW):
                row = load(factor, j, k, FEW)
                a = fused(load(factor, i, k, FEW), row, a)
                b = fused(load(factor, i + 1, k, FEW), row, b)
                c = fused(load(factor, i + 2, k, FEW), row, c)
                d = fused(load(factor, i + 3, k, FEW), row, d)
            k = j - j % FEW
            factor[i, j] = (hessian[i, j] / n - finish(a, factor, i, factor, j, k, j, 0)) / root
            factor[i + 1, j] = (hessian[i + 1, j] / n - finish(b, factor, i + 1, factor, j, k, j, 0)) / root
            factor[i + 2, j] = (hessian[i + 2, j] / n - finish(c, factor, i + 2, factor, j, k, j, 0)) / root
            factor[i + 3, j] = (hessian[i + 3, j] / n - finish(d, factor, i + 3, factor, j, k, j, 0)) / root
            i += 4
        while i < features:
            factor[i, j] = (hessian[i, j] / n - dot_between(factor, i, factor, j, 0, j)) / root
            i += 1


@leaf
def newton_step(factor, gradient, step):
    """Compute step = −(L·Lᵀ)⁻¹·gradient."""
    features = factor.shape[0]
    for i in range(features):
        step[i] = -(gradient[i] + dot_between(factor, i, step, 0, 0, i)) / factor[i, i]
    for i in range(features - 1, -1, -1):
        step[i] /= factor[i, i]
        for k in range(i):
            step[k] -= factor[i, k] * step[i]


@leaf
def derivative_along(loss, n, ridge, linear, row, share, w, scratch):
    """Return the derivative of the objective along the step, after a share of it; margins are linear in the share.

    Parameters
    ----------
    loss : Loss
        The loss function.
    n : int
        The number of records.
    ridge : float
        The regularisation.
    linear : array of float64, shape (rows, features without padding) or (0, 0)
        The linear terms of several models.
    row : int
        The row of `linear` to use.
    share : float
        The share of the step, from 0 to 1.
    w : array of float64, shape (features,)
        The model before the step.
    scratch : FitRoom
        The step, and the margins before the step and after the complete step.
    """
    total = 0.0
    for i in range(n):
        change = scratch.trial_margin[i] - scratch.margin[i]
        margin = scratch.margin[i] + share * change
        if loss.kind == LOGISTIC:
            e = exp(-abs(margin))
            total -= (e if margin > 0 else 1.0) / (1 + e) * change / n
        else:
            h = loss.half_width
            total -= min(max((1 + h - margin) / (2 * h), 0.0), 1.0) * change / n
    for f in range(w.size):
        b = linear[row, f] if f < linear.shape[1] else 0.0
        total += (ridge * (w[f] + share * scratch.step[f]) + b) * scratch.step[f]
    return total


@leaf
def share_of_step(loss, n, ridge, linear, row, w, scratch):
    """Return the share of the step to take: 1 if the objective still decreases there, else near its minimum.

    The objective is convex, so it is below its initial value wherever its derivative along the step is not positive.

    Parameters
    ----------
    loss : Loss
        The loss function.
    n : int
        The number of records.
    ridge : float
        The regularisation.
    linear : array of float64, shape (rows, features without padding) or (0, 0)
        The linear terms of several models.
    row : int
        The row of `linear` to use.
    w : array of float64, shape (features,)
        The model before the step.
    scratch : FitRoom
        The step, and the margins before the step and after the complete step.
    """
    start = derivative_along(loss, n, ridge, linear, row, 0.0, w, scratch)
    low, high, share = 0.0, 1.0, 1.0
    for _ in range(60):
        slope = derivative_along(loss, n, ridge, linear, row, share, w, scratch)
        if slope > 0:
            high = share
        elif share == 1.0 or slope > 0.5 * start:
            return share
        else:
            low = share
        share = (low + high) / 2
    return low


@leaf
def go(z, n, size, ridge, linear, row, loss, share, w, scratch):
    """Compute trial model, margins, slopes and gradient after a share of the step; return the length of the gradient.

    Parameters
    ----------
    z : array of float32, shape (features, size)
        The records times their signs, feature by feature, padded with zeros.
    n, size : int
        The number of records, without and with padding.
    ridge : float
        The regularisation.
    linear : array of float64, shape (rows, features without padding) or (0, 0)
        The linear terms of several models.
    row : int
        The row of `linear` to use.
    loss : Loss
        The loss function.
    share : float
        The share of the step, from 0 to 1.
    w : array of float64, shape (features,)
        The model before the step.
    scratch : FitRoom
        The step; receives the trial.
    """
    for f in range(z.shape[0]):
        scratch.trial[f] = w[f] + share * scratch.step[f]
    margins(z, scratch.trial, size, scratch.trial_margin)
    slopes(loss, scratch.trial_margin, size, scratch.slope)
    return gradient_at(z, n, size, ridge, linear, row, scratch.slope, scratch.trial, scratch.trial_gradient)


@leaf
def keep(z, size, w, scratch):
    """Make the trial the current model."""
    for f in range(z.shape[0]):
        w[f] = scratch.trial[f]
        scratch.gradient[f] = scratch.trial_gradient[f]
    for i in range(size):
        scratch.margin[i] = scratch.trial_margin[i]


@leaf
def minimise(z, n, size, ridge, linear, row, loss, tolerance, most, w, scratch):
    """Minimise mean loss + ridge/2·‖w‖² + linear[row]·w, starting at w, and return the length of the final gradient.

    A step that halves the gradient is accepted. A factorised Hessian is used for several steps as long as it reduces
    the gradient well. Otherwise it is computed again and, if that does not help, the step is shortened.

    Parameters
    ----------
    z : array of float32, shape (features, size)
        The records times their signs, feature by feature, padded with zeros.
    n, size : int
        The number of records, without and with padding.
    ridge : float
        The regularisation.
    linear : array of float64, shape (rows, features without padding) or (0, 0)
        The linear terms of several models.
    row : int
        The row of `linear` to use.
    loss : Loss
        The loss function.
    tolerance : float
        The length of the gradient at which the iteration ends.
    most : int
        The largest number of steps.
    w : array of float64, shape (features,)
        The initial model, changed in place.
    scratch : FitRoom
        Temporary memory.
    """
    for f in range(z.shape[0]):
        scratch.step[f] = 0.0
    length = go(z, n, size, ridge, linear, row, loss, 0.0, w, scratch)
    keep(z, size, w, scratch)
    good = False
    for _ in range(most):
        if length <= tolerance:
            break
        fresh = not good
        if fresh:
            curvatures(loss, scratch.margin, size, scratch.curvature)
            hessian_of(z, size, ridge, scratch)
            cholesky(scratch.hessian, n, ridge, scratch.factor)
        newton_step(scratch.factor, scratch.gradient, scratch.step)
        after = go(z, n, size, ridge, linear, row, loss, 1.0, w, scratch)
        if after > 0.5 * length and not (fresh and after <= tolerance):
            good = False
            if not fresh:
                continue
            share = share_of_step(loss, n, ridge, linear, row, w, scratch)
            if share < 1.0:
                after = go(z, n, size, ridge, linear, row, loss, share, w, scratch)
        good = after <= GOOD_RATE * length
        length = after
        keep(z, size, w, scratch)
    return length
