"""Search the cuts of all numeric features together, with one group of peers per step (Cyphers 2017, section 7.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.state import Stateful
from protocols.anonml.histograms import Perturbation
from protocols.anonml.quantiles import QuantileSearch, count_greater, exact_cuts


class CutSearch(Stateful):
    """The current cuts of each numeric feature, and the answers of the current groups of peers.

    Each peer is in one group and is asked once, about one cut of every feature. With more than two bins the peers are
    divided among the cuts, whose groups are asked in parallel. The answers equal those of `quantiles.private_cuts`.

    Parameters
    ----------
    peers : int
        The number of peers.
    features : array of int64
        The numeric features.
    bins : int
        The number of bins per feature.
    groups : int
        The number of groups per cut, one per step of the search.
    span : tuple of float
        The range of the features.
    response : Perturbation
        The random response of the answers.
    as_published : bool
        Whether the search is that of the source.
    keys : tuple of uint64
        The keys of the order of peers and of the answers.
    """

    def __init__(
        self,
        peers: int,
        features: NDArray[np.int64],
        bins: int,
        groups: int,
        span: tuple[float, float],
        response: Perturbation,
        as_published: bool,
        keys: tuple[np.uint64, np.uint64],
    ) -> None:
        order_key, self._key = keys
        self._features, self._bins, self._span = features, bins, span
        self._response, self._as_published = response, as_published
        self._cut_of, self._group_of = np.empty(peers, np.int32), np.empty(peers, np.int32)
        for number, asked in enumerate(np.array_split(rng.permutation(order_key, 0, peers), bins - 1)):
            self._cut_of[asked] = number
            for group, members in enumerate(np.array_split(asked, groups)):
                self._group_of[members] = group
        starts = [self._search(number) for number in range(bins - 1)]
        self.value = np.tile([search.value for search in starts], (features.size, 1))
        self.step = np.tile([search.step for search in starts], (features.size, 1))
        self.greater = np.zeros(self.value.shape, np.int64)
        self.answers = np.zeros(bins - 1, np.int64)

    def _search(self, number: int) -> QuantileSearch:
        return QuantileSearch(*self._span, self._response, 1 - (number + 1) / self._bins, self._as_published)

    def group(self, number: int) -> NDArray[np.int32]:
        """Return the peers of a group, for all cuts."""
        return np.flatnonzero(self._group_of == number).astype(np.int32)

    def count(self, peers: NDArray[np.int32], x: NDArray[np.float32], record: NDArray[np.int32]) -> None:
        """Add the perturbed answers of these peers; `record` has the record of each peer."""
        values = np.zeros(record.size)
        for number in range(self._bins - 1):
            asked = peers[self._cut_of[peers] == number]
            self.answers[number] += asked.size
            for place, feature in enumerate(self._features):
                values[asked] = x[record[asked], feature]
                threshold, p = self.value[place, number], self._response.p
                self.greater[place, number] += count_greater(self._key, 0, asked, place, values, threshold, p)

    def move(self) -> None:
        """Move all cuts according to the answers of the current groups, and delete these answers."""
        for number, answers in enumerate(self.answers):
            for place, greater in enumerate(self.greater[:, number]):
                search = self._search(number)
                search.value, search.step = float(self.value[place, number]), float(self.step[place, number])
                search.update(int(greater), int(answers))
                self.value[place, number], self.step[place, number] = search.value, search.step
        self.greater[:] = 0
        self.answers[:] = 0

    def exact(self, x: NDArray[np.float32]) -> None:
        """Use the exact quantiles of the records, which is not private."""
        for place, feature in enumerate(self._features):
            self.value[place] = exact_cuts(x[:, feature], self._bins)

    @property
    def cuts(self) -> NDArray[np.float64]:
        """The cuts of each feature in ascending order, which noise may have changed."""
        return np.sort(self.value, axis=1)
