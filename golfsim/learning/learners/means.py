"""The nearest class mean, online: sums over records of each class, which are averaged when models are merged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from golfsim.core.kernels import inlined, leaf
from golfsim.core.simd import dot_at, fused
from golfsim.learning.online import LearnerConfig, OnlineLearner, Shape

BESIDE = 3  # numbers of a class beside its sum: weight, squared weights, squared lengths
NOTHING = np.float32(-3e38)  # the score of a class without records
LEAST = 1e-4  # of the squared weight: below it there are not two records


class Sums(NamedTuple):
    """The numbers of the nearest class mean."""

    lam: float
    offset: float
    features: int
    classes: int
    outputs: int


@inlined
def _update(s, w, i, t, rows, first, stop, room):
    for r in range(first, stop):
        p = rows.label[r] * (s.features + BESIDE)
        q = p + s.features
        for f in range(s.features):
            w[i, p + f] += rows.x[r, f]
        w[i, q] += np.float32(1)
        w[i, q + 1] += np.float32(1)
        w[i, q + 2] += dot_at(rows.x, r, 0, rows.x, r, 0, s.features)


@inlined
def closeness(s, w, i, c, x, r):
    """Return how close record r is to the mean of class c: μ·x − |μ|²/2, the larger the closer.

    The squared length of a mean of few records is too large on average. With weights w of the records x, and their sum
    N, the mean of (|Σ w·x|² − Σ w²|x|²)/(N² − Σ w²) is the squared length of the true mean.

    Parameters
    ----------
    s : Sums
        The numbers of the learner.
    w : array of float32, shape (rows, numbers)
        The models.
    i : int
        The row of the model.
    c : int
        The class.
    x : array of float32, shape (records, features)
        The records.
    r : int
        The record.
    """
    p = c * (s.features + BESIDE)
    q = p + s.features
    number = w[i, q]
    if number <= 0:
        return NOTHING
    square, own = dot_at(w, i, p, w, i, p, s.features), number * number - w[i, q + 1]
    if own > np.float32(LEAST) * number * number:
        length = max((square - w[i, q + 2]) / own, np.float32(0))
    else:
        length = square / (number * number)
    return dot_at(w, i, p, x, r, 0, s.features) / number - length / np.float32(2)


@leaf
def _scores(s, w, i, x, r, out, o, room):
    if s.outputs == 1:
        against, towards = closeness(s, w, i, 0, x, r), closeness(s, w, i, 1, x, r)
        if against == NOTHING or towards == NOTHING:
            out[o, 0] = np.float32(towards != NOTHING) - np.float32(against != NOTHING)
        else:
            out[o, 0] = towards - against
    else:
        for c in range(s.outputs):
            out[o, c] = closeness(s, w, i, c, x, r)


@inlined
def _merge(s, a, i, b, j, share, room):
    rest, size = np.float32(1) - share, s.features + BESIDE
    for c in range(s.classes):
        for f in range(s.features + 1):
            p = c * size + f
            b[j, p] = fused(share, a[i, p], rest * b[j, p])
        for f in range(s.features + 1, size):
            p = c * size + f
            b[j, p] = fused(share * share, a[i, p], rest * rest * b[j, p])


class Centroid(OnlineLearner[LearnerConfig]):
    """nearest class mean: running means of the records of each class, with the lengths of means of few corrected."""

    Numbers = Sums
    independent = True
    update, scores, merge = _update, _scores, _merge

    def shape(self, records: Shape) -> tuple[int, int]:
        """Return one row: for each class the sum of its records, their weight, squared weights and squared lengths."""
        return 1, records.classes * (records.features + BESIDE)

    def numbers(self, records: Shape, lam: float, offset: float) -> Sums:
        """Return the sizes."""
        return Sums(lam, offset, records.features, records.classes, records.models)
