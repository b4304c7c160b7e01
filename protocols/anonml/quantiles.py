"""Quantiles of private numbers: a private binary search for cuts (Cyphers 2017, section 7.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel, leaf
from golfsim.core.rng import draw, unit
from protocols.anonml.histograms import Perturbation

if TYPE_CHECKING:
    pass

Cuts = Mapping[str, NDArray[np.float64]]


@leaf
def is_greater(key, cycle, peer, k, value, threshold, p):
    """Return a peer's answer whether its value is above the threshold; it is true with probability p.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle, peer, k : int
        The cycle, the peer and the number of the draw.
    value : float
        The value of the peer.
    threshold : float
        The threshold.
    p : float
        The probability of a true answer.
    """
    told = unit(draw(key, cycle, peer, k)) < p
    return (value > threshold) == told


@kernel
def count_greater(key, cycle, peers, k, values, threshold, p):
    """Return the number of peers that answer that their value is greater.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle : int
        The cycle.
    peers : array of int32
        The peers that are asked.
    k : int
        The number of the draw of each peer.
    values : array of float64
        The value of each peer, by its number.
    threshold : float
        The threshold.
    p : float
        The probability of a true answer.
    """
    greater = 0
    for peer in peers:
        greater += is_greater(key, cycle, peer, k, values[peer], threshold, p)
    return greater


# Cuts


@dataclass
class QuantileSearch:
    """Binary search for a quantile by private answers, with one group of peers per step (Cyphers 2017, algorithm 1).

    `above` is the wanted share of values that are greater: 1/2 for the median. `response` is random response of two
    values. The published search starts at (high − low)/2 and uses the noisy share, which is biased towards 1/2. By
    default the search starts in the middle, and the share is corrected first; `as_published` selects the published one.
    """

    low: float
    high: float
    response: Perturbation
    above: float = 0.5
    as_published: bool = False
    value: float = field(init=False)
    step: float = field(init=False)
    _groups: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise UserError(
                f"the range of a quantile is from {self.low:g} to {self.high:g}", hint="expected the lower bound first"
            )
        self.step = (self.high - self.low) / 2
        self.value = self.step if self.as_published else self.low + self.step

    def update(self, greater: int, answers: int) -> None:
        """Move according to the answers of a group of peers; without answers do nothing."""
        if answers == 0:
            return
        self._groups.append(answers)
        share, error = self._share(greater / answers), self.response.rms_error(answers)
        self.step /= 2
        if share - error > self.above:
            self.value += self.step
        elif share + error < self.above:
            self.value -= self.step

    def _share(self, noisy: float) -> float:
        if self.as_published:
            return noisy
        return (noisy - self.response.q) / (self.response.p - self.response.q)

    def margin(self, failure: float = 0.01) -> float:
        """Return a bound on the distance of the share of greater values from `above`, within `step` of the found value.

        If many values are equal, the share may also jump over this range there. The search moves in the right direction
        wherever the share differs from `above` by more than the tolerated error plus the largest error of the answers.
        So it stays within `step` of a place where the difference is smaller. The largest error is Hoeffding's (1963)
        bound for all groups at once: peers are a random sample, and so are their answers. The bound fails with
        probability `failure`. Without answers, and for the published search, there is no bound: the result is 1.
        """
        if self.as_published or not self._groups:
            return 1.0
        groups, least = len(self._groups), min(self._groups)
        largest = math.sqrt(math.log(2 * groups / failure) / (2 * least)) / (self.response.p - self.response.q)
        return self.response.rms_error(least) + largest


def private_cuts(
    values: NDArray[Any],
    order: NDArray[np.int32],
    bounds: tuple[float, float],
    response: Perturbation,
    *,
    key: np.uint64,
    cycle: int = 0,
    k: int = 0,
    bins: int = 2,
    groups: int = 10,
    as_published: bool = False,
) -> list[QuantileSearch]:
    """Return the finished searches for the cuts between bins of equal shares. Each peer answers once.

    Parameters
    ----------
    values : array
        The value of each peer, by its number.
    order : array of int32
        The peers in random order. Each cut asks a separate part of them.
    bounds : tuple of float
        The range of the values.
    response : Perturbation
        The random response of the answers.
    key : uint64
        The key of the draws.
    cycle, k : int
        The cycle and the number of the draw.
    bins : int
        The number of bins.
    groups : int
        The number of groups per cut, one per step of the search.
    as_published : bool
        Whether the search is that of the source.
    """
    searches = []
    for cut, asked in enumerate(np.array_split(order, bins - 1), start=1):
        search = QuantileSearch(*bounds, response, 1 - cut / bins, as_published)
        for group in np.array_split(asked, groups):
            search.update(int(count_greater(key, cycle, group, k, values, search.value, response.p)), group.size)
        searches.append(search)
    return searches


def cuts_of(searches: list[QuantileSearch]) -> NDArray[np.float64]:
    """Return the found cuts in ascending order, which noise may have changed."""
    return np.array(sorted(search.value for search in searches), np.float64)


def exact_cuts(values: NDArray[Any], bins: int = 2) -> NDArray[np.float64]:
    """Return the cuts between bins of equal shares from the exact values. They are not private; a reference only.

    A cut at the smallest value would leave the first bin empty, so it moves to the next larger value.
    """
    shares = np.arange(1, bins) / bins
    cuts = np.asarray(np.quantile(values, shares, method="inverted_cdf"), np.float64)
    higher = values[values > values.min()]
    return np.maximum(cuts, higher.min()) if higher.size else cuts


# Codes
