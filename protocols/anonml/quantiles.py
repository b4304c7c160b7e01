"""Quantiles of numbers that nobody tells: a private binary search for cuts (Cyphers 2017, section 7.1)."""

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
    """A peer's answer whether its value is above the threshold: true with probability p. It takes draw k."""
    told = unit(draw(key, cycle, peer, k)) < p
    return (value > threshold) == told


@kernel
def count_greater(key, cycle, peers, k, values, threshold, p):
    """How many of these peers answer that theirs is greater; peer i has values[i]."""
    greater = 0
    for peer in peers:
        greater += is_greater(key, cycle, peer, k, values[peer], threshold, p)
    return greater


# Cuts


@dataclass
class QuantileSearch:
    """Binary search for a quantile by private answers, a group of peers a step (Cyphers 2017, algorithm 1).

    `above` is the share of values that are to be greater: 1/2 for the median. `response` is random response of two
    values. The published search starts at (high − low)/2 and compares the noisy share as it comes, which is pulled
    towards 1/2; here it starts in the middle and the share is corrected first, unless `as_published`.
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
                f"a quantile is searched from {self.low:g} to {self.high:g}", hint="the lower bound comes first"
            )
        self.step = (self.high - self.low) / 2
        self.value = self.step if self.as_published else self.low + self.step

    def update(self, greater: int, answers: int) -> None:
        """Move by what a group of peers answered; no answers tell nothing."""
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
        """How far the share of greater values may be from `above`, at a place within `step` of the found value.

        Where many values are equal the share may also jump over that range there. The search goes the right way
        wherever the share is further off than the tolerated error and the largest error of an answer together, so it
        never gets further than `step` away from where that is not so. The largest error is Hoeffding's (1963) bound
        for all groups at once: peers are a random sample, and so are their answers. It fails with that probability.
        Without answers, and for the published search, nothing is promised: 1.
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
    """The searches, finished, for the cuts between bins of equal shares; each peer answers once, with draw k.

    `order` has the peers in random order; each cut asks a part of its own of them, in so many groups.
    """
    searches = []
    for cut, asked in enumerate(np.array_split(order, bins - 1), start=1):
        search = QuantileSearch(*bounds, response, 1 - cut / bins, as_published)
        for group in np.array_split(asked, groups):
            search.update(int(count_greater(key, cycle, group, k, values, search.value, response.p)), group.size)
        searches.append(search)
    return searches


def cuts_of(searches: list[QuantileSearch]) -> NDArray[np.float64]:
    """Found cuts in rising order: noise may have crossed them."""
    return np.array(sorted(search.value for search in searches), np.float64)


def exact_cuts(values: NDArray[Any], bins: int = 2) -> NDArray[np.float64]:
    """Cuts between bins of equal shares, from the values themselves: not private, the reference for no noise.

    A cut at the least value would leave nothing below it, so it moves up to the next value there is.
    """
    shares = np.arange(1, bins) / bins
    cuts = np.asarray(np.quantile(values, shares, method="inverted_cdf"), np.float64)
    higher = values[values > values.min()]
    return np.maximum(cuts, higher.min()) if higher.size else cuts


# Codes
