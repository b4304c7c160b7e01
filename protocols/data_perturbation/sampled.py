"""The mode “sampled”: each node samples coordinates of its records and publishes them as symbols.

A record x ≥ 0 of L1 length at most 1 is a distribution over its features; what is missing to length 1 is spread evenly.
A sample J of it with the label y is one of D = c·d symbols. It is published through a channel that is ε/s-private, for
s samples. The estimate of e_y ⊗ x by one report is (1[r is named] − q)/(p − q) for each symbol r. It is unbiased for
e_y ⊗ e_J, and E[e_J] = x. Let T be the variance of the estimate of a one-hot vector, summed over all D symbols:

    T = (p(1 − p) + (D − 1)q(1 − q)) / (p − q)².

The noise of the channel is independent of J, so the mean of s samples has the mean square error

    (1 − ‖x‖² + T(ε/s)) / s ≤ (1 − 1/d + T(ε/s)) / s,

since ‖x‖² ≥ 1/d for a record of length 1. This bound needs no data: `samples = "auto"` and `channel = "auto"` minimise
it. Features that may be negative have symbols with a sign, D = 2cd. Then the rest is spread over both signs and adds
nothing on average, so that 1 takes the place of 1 − 1/d; T leaves out how + and − of a feature depend on each other.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.memory import size_of
from golfsim.core.state import Stateful
from golfsim.core.threads import over_ranges
from golfsim.privacy.mechanisms import PQ, RandomResponse, Subset, total_variance
from golfsim.privacy.strings import LANES
from golfsim.protocol.moments import Precision, width
from golfsim.protocol.records import Rows
from golfsim.protocol.symbols import NONE, Symbols, symbols_of
from protocols.data_perturbation.sampling import Channel, add_values, count_named, publish_symbols

Kind = Literal["auto", "response", "unary", "subset"]
MOST_SAMPLES = 256  # that “auto” tries
PER_RECORD = 56  # bytes: the channel of each record, and the two constants of its estimate


class Report(NamedTuple):
    """The probabilities that a report names the true symbol and another one; its size, 0 for perturbed bits."""

    p: float
    q: float
    size: int


def report(kind: str, epsilon: float, values: int) -> Report:
    """Return the report of a channel with this ε."""
    if kind == "unary":
        bits = PQ.best(epsilon, values)
        return Report(bits.p, bits.q, 0)
    one = RandomResponse(epsilon=epsilon, values=values) if kind == "response" else Subset.best(epsilon, values)
    return Report(one.p, one.q, one.size if isinstance(one, Subset) else 1)


def count_variance(found: Report, values: int, groups: int) -> float:
    """Return the variance of the estimate from the number of named symbols of a group, as a mean over equal groups.

    Groups are the symbols of a class, or those of a feature. One group has the true symbol.
    """
    p, q, size = found
    each = values // groups
    if size == 0:
        own, other = p * (1 - p) + (each - 1) * q * (1 - q), each * q * (1 - q)
    else:
        own, other = (1 - (each - 1) / (values - 1)) ** 2 * p * (1 - p), (each / (values - 1)) ** 2 * p * (1 - p)
        for taken, chance in ((size - 1, p), (size, 1 - p)):
            own += chance * _drawn_variance(taken, each - 1, values - 1)
            other += chance * _drawn_variance(taken, each, values - 1)
    return (own + (groups - 1) * other) / groups / (p - q) ** 2


def _drawn_variance(taken: int, marked: int, all_: int) -> float:
    """Return the variance of the number of marked ones among some that are drawn without repetition."""
    share = marked / all_
    return taken * share * (1 - share) * (all_ - taken) / max(all_ - 1, 1)


class Problem(NamedTuple):
    """What the choice of channel and samples depends on; nothing of it is private."""

    epsilons: tuple[float, ...]  # different ε of records
    counts: tuple[int, ...]  # how many records have each
    features: int
    classes: int
    signed: bool

    @property
    def values(self) -> int:
        """The number of symbols."""
        return self.features * self.classes * (2 if self.signed else 1)

    def error(self, kind: str, samples: int) -> float:
        """Return the bound of the mean square error of the estimate of e_y ⊗ x, summed over all records."""
        sampling = 1.0 if self.signed else 1 - 1 / self.features
        total = 0.0
        for epsilon, count in zip(self.epsilons, self.counts, strict=True):
            found = report(kind, epsilon / samples, self.values)
            total += count * (sampling + total_variance(found.p, found.q, self.values)) / samples
        return total


@lru_cache(maxsize=64)
def chosen(problem: Problem, kind: Kind, samples: int | Literal["auto"]) -> tuple[str, int]:
    """Return the channel and the number of samples of the least error among those that the settings allow."""
    kinds = ("response", "unary", "subset") if kind == "auto" else (kind,)
    numbers = range(1, MOST_SAMPLES + 1) if samples == "auto" else (samples,)
    found = [(problem.error(each, number), number, place) for number in numbers for place, each in enumerate(kinds)]
    _, number, place = min(found)
    return kinds[place], number


class Storage(NamedTuple):
    """How reports are stored: as numbers of symbols, or as strings if these are shorter or the channel needs them."""

    as_bits: bool
    places: int  # of a report


def storage(reports: list[Report], values: int) -> Storage:
    """Return the smaller storage for reports of these sizes."""
    longest, words = max(each.size for each in reports), -(-values // LANES)
    bits = longest == 0 or 4 * longest > 8 * words
    return Storage(bits, words if bits else longest)


class Sampled(Stateful):
    """The published symbols of all records."""

    def __init__(self, problem: Problem, which: NDArray[np.int64], kind: Kind, samples: int | Literal["auto"]) -> None:
        self._problem, self._which, self._size = problem, which, which.size
        self._kind, self._samples = chosen(problem, kind, samples)
        self._reports = [report(self._kind, each / self._samples, problem.values) for each in problem.epsilons]
        self._storage = storage(self._reports, problem.values)

    @property
    def samples(self) -> int:
        """The number of samples of each record."""
        return self._samples

    def memory(self) -> int:
        """Return the bytes of the reports, and of the constants of each record."""
        return size_of((8 if self._storage.as_bits else 4, self._size, self._width), (PER_RECORD, self._size))

    @property
    def _width(self) -> int:
        return self._samples * self._storage.places

    def allocate(self, key: np.uint64) -> None:
        """Allocate the reports: none yet."""
        shape = self._size, self._width
        bits = self._storage.as_bits
        self.reports = np.zeros(shape, np.uint64) if bits else np.full(shape, NONE, np.int32)
        p, q, size = (np.array(column)[self._which] for column in zip(*self._reports, strict=True))
        signs = int(self._problem.signed)
        self._channel = Channel(p, q, size.astype(np.int64), self._problem.values, self._samples, signs)
        self._low, self._gain = -q / (p - q), 1 / (p - q) / self._samples
        self._key = key

    @property
    def x(self) -> Symbols:
        """The symbols, for kernels."""
        classes, features = self._problem.classes, self._problem.features
        shape = self._size * (1 if classes == 2 else classes), features
        return Symbols(self.reports, self._low, self._gain, shape, classes, self._samples, self._channel.signs)

    def publish(self, threads: int, records: NDArray[np.int64], rows: Rows) -> None:
        """Publish records."""

        def run(lo: int, hi: int) -> None:
            publish_symbols(records, lo, hi, rows, self._channel, self._key, self.reports)

        over_ranges(threads, run, 0, records.size)

    def decoded(self, records: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return the estimated features, and the class whose symbols are named most often."""
        classes = self._problem.classes
        named = np.empty((records.size, classes))
        sums = np.empty((records.size, self._problem.features), np.float32)
        count_named(self.x, records, named, sums)
        if classes == 2:  # as with dense vectors, a tie goes to class 1 of two, else to the lowest class
            return sums, (named[:, 1] >= named[:, 0]).astype(np.int32)
        return sums, np.asarray(named.argmax(axis=1), np.int32)

    def released(self) -> NDArray[np.float64]:
        """Return for each report and each symbol whether it is named: this is exactly what is published."""
        named, ends = symbols_of(self.x, np.arange(self._size))
        bits = np.zeros((ends.size, self._problem.values))
        bits[np.repeat(np.arange(ends.size), np.diff(ends, prepend=0)), named] = 1
        return bits.ravel()

    def counts(self, records: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how many reports of each of these records name each symbol."""
        named, ends = symbols_of(self.x, records)
        report = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
        found = np.zeros((records.size, self._problem.values))
        np.add.at(found, (report // self._samples, named), 1)
        return found

    def precision(self) -> Precision:
        """Return how noisy the moments are.

        One sample estimates a feature with a variance of at most v, as a mean over features: that of the channel, and
        1/d for the sampling. The mean of s samples has v/s. An entry of x·xᵀ is a mean over s(s − 1) products of
        different samples.
        """
        problem, samples = self._problem, self._samples
        indicator = feature = square = 0.0
        for found, count in zip(self._reports, problem.counts, strict=True):
            one = self._feature_variance(found)
            share = count / sum(problem.counts)
            indicator += share * count_variance(found, problem.values, problem.classes) / samples
            feature += share * one / samples
            square += share * one**2 / max(samples * (samples - 1), 1)
        return Precision(True, math.sqrt(indicator), math.sqrt(square), feature)

    def _feature_variance(self, found: Report) -> float:
        problem = self._problem
        if problem.signed:  # without the covariance of + and −
            return (total_variance(found.p, found.q, problem.values) + 1) / problem.features
        return count_variance(found, problem.values, problem.features) + 1 / problem.features

    def values(
        self, threads: int, nodes: NDArray[np.int32], first: NDArray[np.int64], stop: NDArray[np.int64], second: bool,
        layer: str,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the sums over the published records of each node; see `add_values`."""
        if second and self._samples < 2:
            raise UserError(
                "second moments need two samples of each record, and one is published",
                key=f"{layer}.samples",
                hint="use samples = 2",
            )
        out = np.zeros((nodes.size, width(self._problem.classes, self._problem.features, second)))
        over_ranges(threads, lambda lo, hi: add_values(nodes, lo, hi, first, stop, self.x, second, out), 0, nodes.size)
        return out


def sampled(
    *, epsilon: float, shares: NDArray[np.float64], features: int, classes: int, signed: bool, kind: Kind,
    samples: int | Literal["auto"],
) -> Sampled:  # fmt: skip
    """Return the storage for records that each have a share of ε.

    Parameters
    ----------
    epsilon : float
        The ε of a record or node.
    shares : array of float64, shape (records,)
        The share of ε of each record.
    features, classes : int
        The numbers of features and classes.
    signed : bool
        Whether features may be negative.
    kind : str
        The channel, or “auto”.
    samples : int or str
        The number of samples of each record, or “auto”.
    """
    found, which, counts = np.unique(shares, return_inverse=True, return_counts=True)
    if not found.size:
        found, counts = np.ones(1), np.ones(1, np.int64)
    epsilons = tuple((epsilon * found).tolist())
    problem = Problem(epsilons, tuple(counts.tolist()), features, classes, signed)
    return Sampled(problem, which.astype(np.int64), kind, samples)
