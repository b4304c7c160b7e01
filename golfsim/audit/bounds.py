"""Lower bounds on ε from scores of many outputs on two neighbouring data sets.

(ε, δ)-privacy states P[output in S on D] ≤ e^ε·P[output in S on D'] + δ for every set S. For one S, both probabilities
are bounded by the limits of Clopper & Pearson (1934), from outputs that were not used to choose S, each with an error
rate of `error`. Then ln((lower limit − δ) / upper limit) exceeds the true ε with probability 2·error at most.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
QUANTILES = np.concatenate([np.linspace(0.3, 0.95, 40), np.linspace(0.955, 0.9995, 30)])
TIES = 1e-9  # scores that differ only by rounding are on the same side of a threshold


def limits(hits: Any, n: int, error: float) -> tuple[Floats, Floats]:
    """Return the Clopper–Pearson limits of probabilities from `hits` in n, each wrong with probability ≤ `error`."""
    from scipy import stats

    hits = np.asarray(hits, np.float64)
    low = np.where(hits > 0, stats.beta.ppf(error, np.maximum(hits, 1), n - hits + 1), 0.0)
    high = np.where(hits < n, stats.beta.ppf(1 - error, hits + 1, np.maximum(n - hits, 1)), 1.0)
    return low, high


def bounds_at(one: Floats, other: Floats, thresholds: Any, error: float, delta: float = 0.0) -> Floats:
    """Return the lower bound on ε from each event “score ≥ threshold”, at a δ; −∞ if the event is too rare."""
    hits, others = (np.array([(scores >= t).sum() for t in np.atleast_1d(thresholds)]) for scores in (one, other))
    low, (_, high) = limits(hits, one.size, error)[0] - delta, limits(others, other.size, error)
    return np.log(low, out=np.full(low.shape, -math.inf), where=low > 0) - np.log(high)


class Threshold(NamedTuple):
    """The threshold with the largest lower bound, and this bound on the outputs that it was chosen on."""

    threshold: float
    bound: float


def best_event(one: Floats, other: Floats, error: float, delta: float = 0.0) -> Threshold:
    """Choose a threshold for scores that are large if the first data set is more likely."""
    thresholds = np.unique(np.quantile(np.concatenate([one, other]), QUANTILES, method="lower")) - TIES
    found = bounds_at(one, other, thresholds, error, delta)
    best = int(found.argmax())
    return Threshold(float(thresholds[best]), float(found[best]))


def lower_bound(one: Floats, other: Floats, error: float, delta: float = 0.0) -> float:
    """Return a lower bound on ε at a δ: one half of the scores chooses the threshold, the other half evaluates it."""
    (train, test), (train_n, test_n) = (np.array_split(scores, 2) for scores in (one, other))
    threshold = best_event(train, train_n, error, delta).threshold
    return float(bounds_at(test, test_n, threshold, error, delta)[0])


def ceiling(n: int, error: float) -> float:
    """Return the largest bound that n outputs per data set can give: all of one in the event, none of the other."""
    return float(np.log(limits(n, n, error)[0]) - np.log(limits(0, n, error)[1]))
