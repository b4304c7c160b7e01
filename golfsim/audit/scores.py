"""Scores of what was released: numbers that are large where one of two data sets is the likelier one.

The most telling score is the likelihood ratio, which is not known. Some guesses at it are made from one part of the
outputs; which of them tells most shows on another part. Whatever is guessed, a bound from a third part holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]

BINS = 16
FINEST = 1e-4  # of a column's spread: less is rounding of single precision, not noise


def guesses(one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """Scores of outputs [runs, numbers] with their names, guessed from outputs on both data sets."""
    innovate = innovations(one, other)
    views: dict[str, Score] = {"numbers": lambda x: x, "innovations": innovate}
    for name, view in views.items():
        a, b = view(one), view(other)
        for kept in _most_telling(a, b):
            yield f"{len(kept)} {name}, bin by bin", _then(view, kept, bin_by_bin(a[:, kept], b[:, kept]))
        for order in (1, 2):
            yield f"L{order} distance of {name}", _then(view, slice(None), nearer(a, b, order))
    direction = innovate(one).mean(axis=0) - innovate(other).mean(axis=0)
    yield "the best direction", lambda x: innovate(x) @ direction


def _then(view: Score, columns: list[int] | slice, score: Score) -> Score:
    return lambda x: score(view(x)[:, columns])


def innovations(one: Floats, other: Floats) -> Score:
    """What is new in each number, given those before it: its rest after the best linear guess from them.

    Noise that is carried on, as in a model that is updated again and again, is taken off so, and the noise of every
    step stands alone. The numbers have a spread of about 1 each.
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


def distance(one: Floats, other: Floats) -> float:
    """How far the two middles are apart, by the spread of each number around them."""
    apart = one.mean(axis=0) - other.mean(axis=0)
    spread = np.sqrt((one.var(axis=0) + other.var(axis=0)) / 2)
    return float(np.linalg.norm(apart / np.maximum(spread, FINEST * np.abs(apart).max(initial=FINEST))))


def _most_telling(one: Floats, other: Floats) -> list[list[int]]:
    """The single number that tells most, the two, four, … that do, and all of them."""
    apart = [float(np.abs(bin_by_bin(one[:, [j]], other[:, [j]])(np.concatenate([one, other])[:, [j]])).mean())
             for j in range(one.shape[1])]  # fmt: skip
    order = np.argsort(apart)[::-1].tolist()
    sizes = [2**k for k in range(len(order).bit_length()) if 2**k < len(order)]
    return [order[:size] for size in (*sizes, len(order))]


def bin_by_bin(one: Floats, other: Floats) -> Score:
    """The sum of each number's log-likelihood ratio, as counted in bins: right for independent numbers."""
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
    """How much nearer an output is to the middle of the first data set's than to that of the other's."""
    here, there = np.median(one, axis=0), np.median(other, axis=0)
    return lambda x: np.asarray(
        np.linalg.norm(x - there, order, axis=1) - np.linalg.norm(x - here, order, axis=1), np.float64
    )
