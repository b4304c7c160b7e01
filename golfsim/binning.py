"""Features of few values: numbers cut at private quantiles, categories in groups (Cyphers 2017, sections 7.1, 7.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.errors import UserError, nearest
from golfsim.histograms import Perturbation
from golfsim.kernels import kernel, leaf
from golfsim.rng import draw, unit

if TYPE_CHECKING:
    from golfsim.fetch import Card

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


@dataclass(frozen=True)
class Grouping:
    """Which columns are features: numbers that are cut, and categories in groups; all unnamed ones are a last group."""

    numeric: tuple[str, ...]
    categories: Mapping[str, tuple[tuple[str, ...], ...]]

    @property
    def features(self) -> tuple[str, ...]:
        """All features, in the order of their codes."""
        return (*self.numeric, *self.categories)

    @staticmethod
    def of_card(card: Card) -> Grouping:
        """What a data card says under `details.grouping`."""
        table = card.details.get("grouping")
        if table is None:
            raise UserError(
                f"“{card.name}” does not say how its columns become features of few values",
                key="data.set",
                hint="its card needs [details.grouping], as in data/adult.toml",
            )
        groups = {name: tuple(map(tuple, groups)) for name, groups in table["categories"].items()}
        return Grouping(tuple(table["numeric"]), groups)


@dataclass(frozen=True)
class Coded:
    """Records as small integers [records, features], with the number of values that each feature can have."""

    codes: NDArray[np.int32]
    alphabets: NDArray[np.int64]
    features: tuple[str, ...]


def coded(columns: Mapping[str, NDArray[Any]], grouping: Grouping, cuts: Cuts) -> Coded:
    """Raw columns as codes: the bin of a number, where bins start at their cut; the group of a category."""
    missing = [name for name in grouping.features if name not in columns]
    if missing:
        hint = nearest(missing[0], columns)
        raise UserError(f"there is no column “{missing[0]}” to make a feature of", key="data.set", hint=hint)
    blocks = [np.searchsorted(cuts[name], columns[name], side="right") for name in grouping.numeric]
    blocks += [group_codes(columns[name], groups) for name, groups in grouping.categories.items()]
    sizes = [len(cuts[name]) + 1 for name in grouping.numeric]
    sizes += [len(groups) + 1 for groups in grouping.categories.values()]
    return Coded(np.stack(blocks, axis=1).astype(np.int32), np.array(sizes, np.int64), grouping.features)


def group_codes(values: NDArray[Any], groups: tuple[tuple[str, ...], ...]) -> NDArray[np.int64]:
    """The group that each value is in; values of none, missing ones too, are the last group."""
    out = np.full(values.shape, len(groups))
    for code, group in enumerate(groups):
        for name in group:
            out[values == name] = code
    return out
