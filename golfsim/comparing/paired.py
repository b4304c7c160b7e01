"""Statistics of paired differences: test, interval, effect size, and a correction for many comparisons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

LEVEL = 0.05
LEAST_PAIRS = 6  # with fewer, p of Wilcoxon's test cannot fall below .05: its minimum is 2 ** (1 - pairs)
MOST_FLIPS = 13  # up to this many pairs with ties, all signs are enumerated
RESAMPLES = 9999
BOOTSTRAP_SEED = 20170601
DIGITS = 12  # differences that agree in these decimals are ties: the rest is rounding


def wilcoxon(differences: Numbers) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test without zeros; p is exact where scipy supports it."""
    from scipy import stats

    d = rounded(differences)
    d = d[d != 0]
    if not d.size:
        return 1.0
    ties = len(np.unique(np.abs(d))) < d.size
    if not ties:
        return float(stats.wilcoxon(d, method="exact").pvalue)
    if d.size <= MOST_FLIPS:
        return float(stats.wilcoxon(d, method=stats.PermutationMethod(n_resamples=2**MOST_FLIPS)).pvalue)
    return float(stats.wilcoxon(d, method="approx", correction=True).pvalue)


def rounded(differences: Numbers) -> Numbers:
    """Return the differences without rounding errors."""
    return np.round(differences, DIGITS)


def rank_biserial(differences: Numbers) -> float:
    """Return the matched-pairs rank-biserial correlation (Kerby 2014).

    It is the favourable minus the unfavourable share of the rank sum.
    """
    from scipy.stats import rankdata

    d = rounded(differences)
    d = d[d != 0]
    ranks = rankdata(np.abs(d))
    return float((ranks * np.sign(d)).sum() / ranks.sum()) if d.size else 0.0


def interval(differences: Numbers) -> tuple[float, float] | None:
    """Return the 95 % percentile bootstrap interval of the mean, with a fixed seed; None for one number."""
    from scipy.stats import bootstrap

    if differences.size < 2:
        return None
    if np.ptp(rounded(differences)) == 0:
        return float(differences[0]), float(differences[0])
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    found = bootstrap(
        (differences,), np.mean, n_resamples=RESAMPLES, method="percentile", random_state=generator, vectorized=True
    ).confidence_interval
    return float(found.low), float(found.high)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values with Holm's (1979) correction, which may all be compared with the level at once."""
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, np.asarray(p, np.float64)[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(steps)
    return [float(value) for value in corrected]


def runs_needed(comparisons: int) -> int:
    """Return how many pairs of runs the smallest p needs to fall below the level after Holm's correction.

    The smallest p of the test is 2 ** (1 - pairs), and Holm multiplies the smallest of all p by their number.
    """
    return next(pairs for pairs in itertools.count(LEAST_PAIRS) if 2.0 ** (1 - pairs) * comparisons < LEVEL)


def student(values: Numbers) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean of independent runs (Student's t); None for one run or infinite values."""
    from scipy.stats import t

    if values.size < 2 or not np.isfinite(values).all():
        return None
    half = float(t.ppf(0.975, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size))
    return float(values.mean()) - half, float(values.mean()) + half
