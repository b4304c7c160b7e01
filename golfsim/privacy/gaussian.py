"""Compute the exact (ε, δ) of Gaussian noise (Balle & Wang 2018).

Gaussian noise of standard deviation σ on a quantity of L2 sensitivity Δ reveals as much as a normal random number of
mean 0 or μ = Δ/σ and variance 1. Several such releases together reveal as much as one with √(μ₁² + μ₂² + …) (Dong, Roth
& Su 2022), also if a later release depends on the outputs of earlier ones. All results are rounded to the safe side.
"""

from __future__ import annotations

import math
from functools import lru_cache

DIGITS = 6
HALVINGS = 200  # of an interval: more than a floating-point number can resolve


def rounded(value: float, up: bool, digits: int = DIGITS) -> float:
    """Return the number of some digits next to a positive value: it is the same on all processors."""
    if not (value > 0 and math.isfinite(value)):
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return (math.ceil if up else math.floor)(value / step) * step


def delta_of(mu: float, epsilon: float) -> float:
    """Return the smallest δ for which Gaussian noise with μ = Δ/σ is (ε, δ)-private: Theorem 8 of Balle & Wang."""
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    inside = float(log_ndtr(mu / 2 - epsilon / mu))
    outside = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return max(0.0, -math.expm1(min(outside - inside, 0.0)) * math.exp(inside))


@lru_cache(maxsize=4096)
def epsilon_of(mu: float, delta: float) -> float:
    """Return an ε for which Gaussian noise with μ = Δ/σ is (ε, δ)-private, rounded up to six digits."""
    if mu == 0:
        return 0.0
    if math.isinf(mu) or delta == 0:
        return math.inf
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu  # the mean of the privacy loss and one standard deviation of it
    while delta_of(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(mu, middle) > delta else (low, middle)
    return rounded(high, up=True)


@lru_cache(maxsize=4096)
def mu_of(epsilon: float, delta: float) -> float:
    """Return a μ for which Gaussian noise is (ε, δ)-private, rounded down to six digits."""
    if math.isinf(epsilon):
        return math.inf
    low, high = 0.0, 1.0
    while delta_of(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return rounded(low, up=False)
