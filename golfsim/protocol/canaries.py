"""Canaries: records that a coin replaces by others, so that an audit can guess the coins from what was released."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.privacy.noise import GAMMA_NORM, LAPLACE
from golfsim.protocol.records import Rows, ranges

Floats = NDArray[np.float64]


class Content(NamedTuple):
    """The features and the label that a canary has."""

    x: NDArray[np.float32]
    label: int


class Canaries(NamedTuple):
    """Units whose records are replaced by one of two contents: those of canary c are first[c] … stop[c]−1.

    Each canary has at least one record.
    """

    node: NDArray[np.int32]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    inside: Content
    outside: Content
    observers: NDArray[np.int32] | None = None  # the nodes whose messages count; None: everything that is released

    def plant(self, rows: Rows, inside: NDArray[np.bool_]) -> None:
        """Replace the records of all canaries in place; `inside` says which of them have the first content."""
        for first, stop, here in zip(self.first, self.stop, inside, strict=True):
            content = self.inside if here else self.outside
            rows.x[first:stop], rows.label[first:stop] = content

    def candidates(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return copies of the records: with all canaries inside, and with all canaries outside."""
        found = []
        for side in (True, False):
            copy = rows._replace(x=rows.x.copy(), label=rows.label.copy())
            self.plant(copy, np.full(self.node.size, side))
            found.append(copy)
        return found[0], found[1]

    @property
    def records(self) -> NDArray[np.int64]:
        """The records of all canaries, one canary after the other."""
        return ranges(self.first, self.stop)

    def mean(self, values: Floats) -> Floats:
        """Return the mean over the records of each canary, given values [records, numbers] of all `records`."""
        begin = np.cumsum(self.stop - self.first) - (self.stop - self.first)
        return np.asarray(np.add.reduceat(values, begin) / (self.stop - self.first)[:, None])


def closer(found: Floats, inside: Floats, outside: Floats, kind: int) -> Floats:
    """Return how much closer released vectors are to what the first content gives without noise than to the second.

    It is the logarithm of the likelihood ratio, up to a factor.

    Parameters
    ----------
    found : array of float64, shape (canaries, parts, numbers)
        What was released; each part has noise of its own.
    inside, outside : array of float64, shape (canaries, parts, numbers)
        What would be released without noise.
    kind : int
        The kind of noise: LAPLACE, GAMMA_NORM or GAUSSIAN.
    """

    def far(centre: Floats) -> Floats:
        apart = found - centre
        if kind == LAPLACE:
            return np.asarray(np.abs(apart).sum(axis=(1, 2)))
        squares = np.square(apart).sum(axis=2)
        return np.asarray((np.sqrt(squares) if kind == GAMMA_NORM else squares).sum(axis=1))

    return far(outside) - far(inside)
