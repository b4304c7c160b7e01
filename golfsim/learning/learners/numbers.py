"""Learners of numbers: linear regression."""

from __future__ import annotations

from typing import NamedTuple

from golfsim.core.kernels import inlined, leaf
from golfsim.core.simd import dot_at, fused
from golfsim.learning.online import GradientConfig, GradientLearner, Shape


class Plane(NamedTuple):
    """The numbers of linear regression."""

    lam: float
    offset: float
    features: int


@inlined
def _gradient(s, w, i, x, r, label, out, work):
    error = dot_at(w, i, 0, x, r, 0, s.features) + w[i, s.features] - label
    for f in range(s.features):
        out[0, f] = fused(error, x[r, f], out[0, f])
    out[0, s.features] += error


@leaf
def _scores(s, w, i, x, r, out, o, room):
    out[o, 0] = dot_at(w, i, 0, x, r, 0, s.features) + w[i, s.features]


class LinearRegression(GradientLearner[GradientConfig]):
    """linear regression with a bias, for labels that are numbers; the loss is half the squared error."""

    Config = GradientConfig
    Numbers = Plane
    task = "numbers"
    gradient, scores = _gradient, _scores

    def parameters(self, records: Shape) -> int:
        """Return the number of weights, with the bias."""
        return records.features + 1

    def numbers(self, records: Shape, lam: float, offset: float) -> Plane:
        """Return the number of features."""
        return Plane(lam, offset, records.features)
