"""Scores of released numbers: a score is large if the first of two data sets is more likely.

The best score is the likelihood ratio, which is unknown. Several approximations of it are fitted on one part of the
outputs, and another part shows which of them distinguishes best. A bound from a third part is valid for any score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]

BINS = 16
FINEST = 1e-4  # of the spread of a column: less is rounding in single precision, not noise


def guesses(one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """Yield scores of outputs [runs, numbers] with their names, fitted on outputs on both data sets."""
    innovate = innovations(one, other)
    views: dict[str, Score] = {"numbers": lambda x: x, "innovations": innovate}
    for name, view in views.items():
        a, b = view(one), view(other)
        for kept in _most_telling(a, b):
            yield f"{len(kept)} {name}, bin by bin", _then(view, kept, bin_by_bin(a[:, kept], b[:, kept]))
        for order in (1, 2):
            yield f"L{order} distance of {name}", _then(view, slice(None), nearer(a, b, order))
    a, b = lowest_bits(one), lowest_bits(other)
    for kept in _most_telling(a, b):
        yield f"lowest bits of {len(kept)} numbers", _then(lowest_bits, kept, bin_by_bin(a[:, kept], b[:, kept]))
    direction = innovate(one).mean(axis=0) - innovate(other).mean(axis=0)
    yield "the best direction", lambda x: innovate(x) @ direction


def _then(view: Score, columns: list[int] | slice, score: Score) -> Score:
    return lambda x: score(view(x)[:, columns])


def innovations(one: Floats, other: Floats) -> Score:
    """Return the function to the innovations: the residual of each number after the best linear prediction.

    Each number is predicted from the numbers before it. This removes accumulated noise, as in a model that is updated
    repeatedly, and leaves the noise of each single step. Each innovation has a standard deviation of about 1.
    """
    within = np.concatenate([one - one.mean(axis=0), other - other.mean(axis=0)])
    spread = np.where(within.std(axis=0) > 0, within.std(axis=0), 1.0)
    covariance = np.cov(within / spread, rowvar=False).reshape(spread.size, spread.size)
    root = np.linalg.cholesky(covariance + FINEST**2 * np.eye(spread.size))
    centre = (one.mean(axis=0) + other.mean(axis=0)) / 2

    def new(x: Floats) -> Floats:
        rest = np.linalg.solve(root, ((x - centre) / spread).T).T
        return np.asarray(np.round(rest * np.diag(root), 4) / np.diag(root))

    return new


def lowest_bits(x: Floats) -> Floats:
    """Return the exponent of the lowest bit of each number that is set, and 0 for the number 0.

    The sum of two floating-point numbers is a multiple of the last place of the larger one. So without rounding to a
    grid, the lowest bits of a noisy number reveal the size of the number without noise (Mironov 2012).
    """
    mantissa, exponent = np.frexp(x)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    place = np.log2((whole & -whole).astype(np.float64), out=np.zeros(x.shape), where=whole != 0)
    return np.where(whole != 0, exponent - 53 + place, 0.0)


def surprise_in_bits(one: Floats, other: Floats) -> float:
    """Return the largest difference of mean lowest bits of a number, in standard errors."""
    a, b = lowest_bits(one), lowest_bits(other)
    error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / len(one))
    return float((np.abs(a.mean(axis=0) - b.mean(axis=0)) / np.maximum(error, FINEST)).max(initial=0.0))


def distance(one: Floats, other: Floats) -> float:
    """Return the distance of the two mean outputs, in units of the standard deviation of each number."""
    apart = one.mean(axis=0) - other.mean(axis=0)
    spread = np.sqrt((one.var(axis=0) + other.var(axis=0)) / 2)
    return float(np.linalg.norm(apart / np.maximum(spread, FINEST * np.abs(apart).max(initial=FINEST))))


def _most_telling(one: Floats, other: Floats) -> list[list[int]]:
    """Return the columns of the one, two, four, … numbers that distinguish the data sets best, and all columns."""
    apart = [float(np.abs(bin_by_bin(one[:, [j]], other[:, [j]])(np.concatenate([one, other])[:, [j]])).mean())
             for j in range(one.shape[1])]  # fmt: skip
    order = np.argsort(apart)[::-1].tolist()
    sizes = [2**k for k in range(len(order).bit_length()) if 2**k < len(order)]
    return [order[:size] for size in (*sizes, len(order))]


def bin_by_bin(one: Floats, other: Floats) -> Score:
    """Return the sum of log-likelihood ratios of all numbers, counted in bins: correct for independent numbers."""
    both = np.concatenate([one, other])
    edges = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1], method="lower")) for column in both.T]
    tables = [_log_ratio(*columns) for columns in zip(one.T, other.T, edges, strict=True)]

    def score(x: Floats) -> Floats:
        places = [np.searchsorted(edge, column, side="left") for edge, column in zip(edges, x.T, strict=True)]
        return np.asarray(
            np.sum([table[place] for table, place in zip(tables, places, strict=True)], axis=0), np.float64
        )

    return score


def _log_ratio(one: Floats, other: Floats, edges: Floats) -> Floats:
    counts = [np.bincount(np.searchsorted(edges, c, side="left"), minlength=edges.size + 1) for c in (one, other)]
    return np.asarray(np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5))


def nearer(one: Floats, other: Floats, order: int) -> Score:
    """Return the score by distance: how much nearer an output is to the median of the first data set's outputs."""
    here, there = np.median(one, axis=0), np.median(other, axis=0)
    return lambda x: np.asarray(
        np.linalg.norm(x - there, order, axis=1) - np.linalg.norm(x - here, order, axis=1), np.float64
    )
