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

from golfsim import rng
from golfsim.errors import UserError
from golfsim.kernels import kernel, leaf
from golfsim.parallel import over_ranges
from golfsim.records import Rows, ranges, sign_for

LOGISTIC, HUBER = range(2)
LOSSES = {"logistic": LOGISTIC, "huber": HUBER}

LANES = 8  # records are padded to a multiple of this, features to half of it
CHUNK = 512  # records whose part of the Hessian is summed up in single precision
SAFE_RIDGE = 1e-5  # below, rounding of a single-precision Hessian is felt; it is then summed in double precision
GOOD_RATE = 0.3  # a factorised Hessian that shrinks the gradient to this part or less is used once more

SGD_RATES = (1e-2, 1e-1, 1.0, 1e1, 1e2)  # the source's γ
SGD_FOLDS = 3
SGD_EPOCHS = 100
SGD_STOP = 0.01
DIVERGED = 1e100  # a squared length that no sensible model has


class Loss(NamedTuple):
    """Which loss of the margin y·w·x; the Huber loss is quadratic within `half_width` of margin 1."""

    kind: int
    half_width: float

    @property
    def curvature(self) -> float:
        """The largest second derivative: c of Chaudhuri et al. 2011."""
        return 0.25 if self.kind == LOGISTIC else 1 / (2 * self.half_width)


class Part(NamedTuple):
    """Which of a node's records are used: those of a part, or all others; without `of` all of them."""

    of: NDArray[np.int32]  # the part of each record
    number: int
    inside: bool


class Scratch(NamedTuple):
    """Room for one fit."""

    margin: NDArray[np.float64]  # a value for each record
    slope: NDArray[np.float64]
    curvature: NDArray[np.float64]
    trial_margin: NDArray[np.float64]
    trial: NDArray[np.float64]  # a value for each feature
    gradient: NDArray[np.float64]
    trial_gradient: NDArray[np.float64]
    step: NDArray[np.float64]
    hessian: NDArray[np.float64]
    factor: NDArray[np.float64]
    weighted: NDArray[np.float32]
    weighted_exactly: NDArray[np.float64]


# ------------------------------------------------------------------------------------------------- the loss of a margin


@leaf
def loss_of(loss, margin):
    """The loss: ln(1 + e^−m), or Huber's (Chaudhuri et al. 2011, equation 7)."""
    if loss.kind == LOGISTIC:
        return max(-margin, 0.0) + np.log1p(np.exp(-abs(margin)))
    h = loss.half_width
    if margin > 1 + h:
        return 0.0
    return 1 - margin if margin < 1 - h else (1 + h - margin) * (1 + h - margin) / (4 * h)


@leaf
def slopes(loss, margin, size, slope):
    """The derivative of the loss at each margin."""
    h = loss.half_width
    if loss.kind == LOGISTIC:
        for i in range(size):
            e = np.exp(-abs(margin[i]))
            slope[i] = -(e if margin[i] > 0 else 1.0) / (1 + e)
    else:
        for i in range(size):
            slope[i] = -min(max((1 + h - margin[i]) / (2 * h), 0.0), 1.0)


@leaf
def curvatures(loss, margin, size, curvature):
    """The second derivative of the loss at each margin."""
    h = loss.half_width
    if loss.kind == LOGISTIC:
        for i in range(size):
            e = np.exp(-abs(margin[i]))
            curvature[i] = e / ((1 + e) * (1 + e))
    else:
        for i in range(size):
            curvature[i] = 1 / (2 * h) if abs(1 - margin[i]) <= h else 0.0


# ----------------------------------------------------------------------------- sums over records; z is [features, size]


@leaf
def margins(z, w, size, out):
    """The margin of each record: w·z, four features at a time."""
    for i in range(size):
        out[i] = 0.0
    for f in range(0, z.shape[0], 4):
        a, b, c, d = w[f], w[f + 1], w[f + 2], w[f + 3]
        for i in range(size):
            out[i] += (a * z[f, i] + b * z[f + 1, i]) + (c * z[f + 2, i] + d * z[f + 3, i])


@leaf
def gradient_at(z, n, size, ridge, linear, row, slope, w, out):
    """The gradient of the objective from the slopes at w; returns its length."""
    square = 0.0
    for f in range(0, z.shape[0], 4):
        a = b = c = d = 0.0
        for i in range(size):
            a += slope[i] * z[f, i]
            b += slope[i] * z[f + 1, i]
            c += slope[i] * z[f + 2, i]
            d += slope[i] * z[f + 3, i]
        out[f], out[f + 1], out[f + 2], out[f + 3] = a / n, b / n, c / n, d / n
    for f in range(z.shape[0]):
        out[f] += ridge * w[f] + (linear[row, f] if f < linear.shape[1] else 0.0)
        square += out[f] * out[f]
    return np.sqrt(square)


@leaf
def add_products(u, z, lo, hi, zero, out):
    """Add Σ u[a]·z[b] over records lo … hi−1 to out[a, b], b ≤ a, in tiles of 4 × 2 that stay in registers."""
    for a in range(0, z.shape[0], 4):
        for b in range(0, a + 4, 2):
            s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = zero
            for i in range(lo, hi):
                left, right = z[b, i], z[b + 1, i]
                u0, u1, u2, u3 = u[a, i - lo], u[a + 1, i - lo], u[a + 2, i - lo], u[a + 3, i - lo]
                s00 += u0 * left
                s01 += u0 * right
                s10 += u1 * left
                s11 += u1 * right
                s20 += u2 * left
                s21 += u2 * right
                s30 += u3 * left
                s31 += u3 * right
            out[a, b] += s00
            out[a, b + 1] += s01
            out[a + 1, b] += s10
            out[a + 1, b + 1] += s11
            out[a + 2, b] += s20
            out[a + 2, b + 1] += s21
            out[a + 3, b] += s30
            out[a + 3, b + 1] += s31


@leaf
def weigh(z, lo, hi, weight, u):
    """u = weight·z for records lo … hi−1."""
    for f in range(z.shape[0]):
        for i in range(lo, hi):
            u[f, i - lo] = weight[i] * z[f, i]


@leaf
def hessian_of(z, size, ridge, scratch):
    """The lower triangle of Σ curvature·z·zᵀ; in single precision within a chunk unless the ridge is too small."""
    for a in range(z.shape[0]):
        for b in range(z.shape[0]):
            scratch.hessian[a, b] = 0.0
    for lo in range(0, size, CHUNK):
        hi = min(lo + CHUNK, size)
        if ridge >= SAFE_RIDGE:
            weigh(z, lo, hi, scratch.curvature, scratch.weighted)
            add_products(scratch.weighted, z, lo, hi, np.float32(0), scratch.hessian)
        else:
            weigh(z, lo, hi, scratch.curvature, scratch.weighted_exactly)
            add_products(scratch.weighted_exactly, z, lo, hi, 0.0, scratch.hessian)


# ------------------------------------------------------------------------------------------------------ Newton's method


@leaf
def cholesky(hessian, n, ridge, factor):
    """The lower factor of hessian/n + ridge·I; a pivot is at least the ridge, whatever rounding makes of it."""
    features = factor.shape[0]
    for j in range(features):
        pivot = hessian[j, j] / n + ridge
        for k in range(j):
            pivot -= factor[j, k] * factor[j, k]
        root = np.sqrt(max(pivot, ridge))
        factor[j, j] = root
        i = j + 1
        while i + 3 < features:
            a, b, c, d = hessian[i, j] / n, hessian[i + 1, j] / n, hessian[i + 2, j] / n, hessian[i + 3, j] / n
            for k in range(j):
                a -= factor[i, k] * factor[j, k]
                b -= factor[i + 1, k] * factor[j, k]
                c -= factor[i + 2, k] * factor[j, k]
                d -= factor[i + 3, k] * factor[j, k]
            factor[i, j], factor[i + 1, j], factor[i + 2, j], factor[i + 3, j] = a / root, b / root, c / root, d / root
            i += 4
        while i < features:
            a = hessian[i, j] / n
            for k in range(j):
                a -= factor[i, k] * factor[j, k]
            factor[i, j] = a / root
            i += 1


@leaf
def newton_step(factor, gradient, step):
    """step = −(L·Lᵀ)⁻¹·gradient."""
    features = factor.shape[0]
    for i in range(features):
        total = -gradient[i]
        for k in range(i):
            total -= factor[i, k] * step[k]
        step[i] = total / factor[i, i]
    for i in range(features - 1, -1, -1):
        step[i] /= factor[i, i]
        for k in range(i):
            step[k] -= factor[i, k] * step[i]


@leaf
def derivative_along(loss, n, ridge, linear, row, share, w, scratch):
    """The derivative, along the step, of the objective after a share of it; margins are linear in the share."""
    total = 0.0
    for i in range(n):
        change = scratch.trial_margin[i] - scratch.margin[i]
        margin = scratch.margin[i] + share * change
        if loss.kind == LOGISTIC:
            e = np.exp(-abs(margin))
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
    """How far to go: the whole step where the objective still falls there, else near where it stops falling.

    The objective is convex: it has fallen wherever its derivative along the step is not positive yet.
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
    """Margins, slopes and gradient after a share of the step, into the places for trials; returns the length."""
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
    """Minimise mean loss + ridge/2·‖w‖² + linear[row]·w from w on; returns the length of the gradient reached.

    A step that halves the gradient is taken. A factorised Hessian serves for several steps while it shrinks the
    gradient well; where it does not, it is computed anew, and where that does not help the step is shortened.
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


# ----------------------------------------------------------------------------------------------------- a node's records


@leaf
def padded(number, multiple):
    """The next multiple."""
    return (number + multiple - 1) // multiple * multiple


@leaf
def uses(part, record):
    """Whether a record is among those of a part."""
    return part.of.size == 0 or (part.of[record] == part.number) == part.inside


@leaf
def count(rows, node, part):
    """How many of a node's records are used."""
    n = 0
    for record in range(rows.first[node], rows.stop[node]):
        n += uses(part, record)
    return n


@leaf
def lay_out(rows, node, model, models, part, z):
    """z[f, i] = y·x of the i-th record that is used, with the sign it has for this model; 0 in the padding."""
    i = 0
    features = rows.x.shape[1]
    slices = models if rows.folded else 1
    for record in range(rows.first[node], rows.stop[node]):
        if uses(part, record):
            sign = sign_for(rows, record, model, models)
            row = record * slices + (model if rows.folded else 0)
            for f in range(features):
                z[f, i] = sign * rows.x[row, f]
            i += 1
    for f in range(z.shape[0]):
        for j in range(i if f < features else 0, z.shape[1]):
            z[f, j] = 0


@kernel
def make_scratch(features, size):
    """Room for a fit of so many features and records, padding included."""
    return Scratch(
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


@kernel
def most_records(nodes, lo, hi, rows):
    """The largest number of records of any of these nodes, padded."""
    most = 0
    for e in range(lo, hi):
        most = max(most, rows.stop[nodes[e]] - rows.first[nodes[e]])
    return padded(most, LANES)


@kernel
def fit_nodes(nodes, lo, hi, rows, part, loss, ridge, linear, tolerance, most, w, reached):
    """Fit the models of nodes lo … hi−1 of the list; row e·models + m of w and of `linear` is model m of nodes[e]."""
    models, features = reached.shape[1], padded(rows.x.shape[1], LANES // 2)
    largest = most_records(nodes, lo, hi, rows)
    flat, model = np.empty(features * largest, np.float32), np.empty(features)
    scratch = make_scratch(features, largest)
    for e in range(lo, hi):
        n = count(rows, nodes[e], part)
        size = padded(n, LANES)
        z = flat[: features * size].reshape(features, size)
        for m in range(models):
            model[:] = 0
            reached[e, m] = 0
            if n > 0:
                lay_out(rows, nodes[e], m, models, part, z)
                row = e * models + m
                reached[e, m] = minimise(z, n, size, ridge[e], linear, row, loss, tolerance, most, model, scratch)
            for f in range(w.shape[1]):
                w[e * models + m, f] = model[f]


# ----------------------------------------------------------------------------------------------------- cross-validation


@leaf
def class_of(w, start, models, x, record):
    """The class that the models in rows start … of w give a record: the sign for one model, else the largest score."""
    best, found = -np.inf, 0
    for m in range(models):
        total = 0.0
        for f in range(x.shape[1]):
            total += w[start + m, f] * x[record, f]
        if models == 1:
            return 1 if total >= 0 else 0
        if total > best:
            best, found = total, m
    return found


@leaf
def mistakes_of(w, start, models, rows, node, part):
    """How many of the node's records of a part the models in rows start … of w give a wrong class."""
    wrong = 0
    for record in range(rows.first[node], rows.stop[node]):
        if uses(part, record):
            wrong += class_of(w, start, models, rows.x, record) != rows.label[record]
    return wrong


@kernel
def count_mistakes(nodes, lo, hi, rows, part, models, w, wrong):
    """The mistakes of each node's models on the node's own records of a part."""
    for e in range(lo, hi):
        wrong[e] = mistakes_of(w, e * models, models, rows, nodes[e], part)


@kernel
def cross_validate(nodes, lo, hi, rows, fold, folds, models, loss, grid, per_sum, tolerance, most, wrong, reached):
    """Count wrong[e, g], the mistakes of node e on its left-out folds with the g-th λ; the grid falls.

    Each λ starts from the model of the one before. `per_sum`: λ belongs to Σ loss + λ‖w‖² of the training records.
    """
    features = padded(rows.x.shape[1], LANES // 2)
    largest = most_records(nodes, lo, hi, rows)
    flat, w = np.empty(features * largest, np.float32), np.empty((grid.size * models, features))
    scratch, linear = make_scratch(features, largest), np.empty((0, 0))
    for e in range(lo, hi):
        wrong[e, :] = 0
        reached[e] = 0
        for left_out in range(folds):
            n = count(rows, nodes[e], Part(fold, left_out, False))
            size = padded(n, LANES)
            z = flat[: features * size].reshape(features, size)
            w[:] = 0
            for m in range(models if n > 0 else 0):
                lay_out(rows, nodes[e], m, models, Part(fold, left_out, False), z)
                for g in range(grid.size):
                    row = g * models + m
                    if g > 0:
                        w[row] = w[row - models]
                    ridge = 2 * grid[g] / n if per_sum else grid[g]
                    length = minimise(z, n, size, ridge, linear, 0, loss, tolerance, most, w[row], scratch)
                    reached[e] = max(reached[e], length)
            for g in range(grid.size):
                wrong[e, g] += mistakes_of(w, g * models, models, rows, nodes[e], Part(fold, left_out, True))


# ---------------------------------------------------------------------------------------------------------------- Lasso


@leaf
def shrunk(value, by):
    """The value, moved towards 0 by so much."""
    return max(value - by, 0.0) if value > 0 else min(value + by, 0.0)


@leaf
def distance_from_best(w, gradient, lam):
    """How far the point is from one that a proximal gradient step leaves alone."""
    square = 0.0
    for f in range(w.size):
        move = w[f] - shrunk(w[f] - gradient[f], lam)
        square += move * move
    return np.sqrt(square)


@leaf
def lasso_step(hessian, n, gradient, w, lam, tolerance, product, step):
    """The step to the minimum of the quadratic model plus λΣ|w|, by cyclic coordinate descent."""
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
    """Mean loss + λΣ|w| after a share of the step."""
    total = 0.0
    for i in range(n):
        total += loss_of(loss, scratch.margin[i] + share * (scratch.trial_margin[i] - scratch.margin[i])) / n
    for f in range(w.size):
        total += lam * abs(w[f] + share * scratch.step[f])
    return total


@leaf
def lasso(z, n, size, lam, nothing, loss, tolerance, most, w, scratch):
    """Minimise mean loss + λΣ|w| by proximal Newton steps (Lee, Sun & Saunders 2014); returns the distance left.

    `nothing` stands for the linear term that this objective does not have.
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


@kernel
def fit_lasso(nodes, lo, hi, rows, loss, lam, tolerance, most, w, reached):
    """The Lasso models of nodes lo … hi−1 of the list, as `fit_nodes`."""
    models, features = reached.shape[1], padded(rows.x.shape[1], LANES // 2)
    part, nothing = Part(np.empty(0, np.int32), 0, True), np.empty((0, 0))
    largest = most_records(nodes, lo, hi, rows)
    flat, model = np.empty(features * largest, np.float32), np.empty(features)
    scratch = make_scratch(features, largest)
    for e in range(lo, hi):
        n = count(rows, nodes[e], part)
        size = padded(n, LANES)
        z = flat[: features * size].reshape(features, size)
        for m in range(models):
            model[:] = 0
            reached[e, m] = 0
            if n > 0:
                lay_out(rows, nodes[e], m, models, part, z)
                reached[e, m] = lasso(z, n, size, lam[e], nothing, loss, tolerance, most, model, scratch)
            for f in range(w.shape[1]):
                w[e * models + m, f] = model[f]


# --------------------------------------------------------------------------------- the mini-batch descent of the source


@leaf
def summed_objective(loss, n, lam, w, margin):
    """Σ loss + λ‖w‖² (Asplund & Frøystad 2015, equation 3.7, as a minimum)."""
    total = 0.0
    for i in range(n):
        total += loss_of(loss, margin[i])
    for f in range(w.size):
        total += lam * w[f] * w[f]
    return total


@leaf
def descend(z, n, size, batch, gamma, lam, epochs, stop, loss, w, scratch):
    """Mini-batch descent on Σ loss + λ‖w‖² (Asplund & Frøystad 2015, equation 3.8 with its signs mended).

    A step is α·(Σ over the batch of the loss's gradient + 2λw), α = γ/(1 + γλt) with t the epoch, from 0. It ends after
    a step that changes the objective by less than `stop`, and where the model runs away.
    """
    margins(z, w, size, scratch.margin)
    before = summed_objective(loss, n, lam, w, scratch.margin)
    for epoch in range(epochs):
        alpha = gamma / (1 + gamma * lam * epoch)
        for lo in range(0, n, batch):
            slopes(loss, scratch.margin, size, scratch.slope)
            square = 0.0
            for f in range(w.size):
                total = 0.0
                for i in range(lo, min(lo + batch, n)):
                    total += scratch.slope[i] * z[f, i]
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
    """How many records a model does not put on their side."""
    margins(z, w, size, scratch.margin)
    wrong = 0
    for i in range(n):
        wrong += not scratch.margin[i] > 0
    return wrong


@kernel
def best_rate(rows, node, m, models, fold, rates, batch, lam, loss, flat, w, scratch):
    """The γ with the fewest mistakes on left-out folds after one epoch on the others; the first of equals."""
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


@kernel
def fit_by_descent(nodes, lo, hi, rows, models, fold, rates, batch, lam, loss, w):
    """The source's models of nodes lo … hi−1 of the list; `lam` belongs to the sum of losses."""
    features = padded(rows.x.shape[1], LANES // 2)
    everything = Part(np.empty(0, np.int32), 0, True)
    largest = most_records(nodes, lo, hi, rows)
    flat, model = np.empty(features * largest, np.float32), np.empty(features)
    scratch = make_scratch(features, largest)
    for e in range(lo, hi):
        n = count(rows, nodes[e], everything)
        size = padded(n, LANES)
        z = flat[: features * size].reshape(features, size)
        for m in range(models):
            gamma = best_rate(rows, nodes[e], m, models, fold, rates, batch, lam[e], loss, flat, model, scratch)
            lay_out(rows, nodes[e], m, models, everything, z)
            model[:] = 0
            descend(z, n, size, batch, gamma, lam[e], SGD_EPOCHS, SGD_STOP, loss, model, scratch)
            for f in range(w.shape[1]):
                w[e * models + m, f] = model[f]


# ------------------------------------------------------------------------------------------------ for all nodes at once

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
