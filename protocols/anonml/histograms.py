"""Histograms from perturbed one-hot strings: how AnonML collects data (Cyphers 2017, sections 6.1, 7.3 and 7.4).

Each peer of a partition answers for some subsets of its features. Its values and its label select one cell of a
histogram of m cells. It sends a string of m bits, perturbed so that a string reveals little about the cell. The sums of
the strings, corrected for the perturbation, estimate the histogram.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError, nearest
from golfsim.core.kernels import kernel, leaf
from golfsim.core.threads import SMALLEST_SHARE, in_threads
from golfsim.core.words import counted
from golfsim.privacy.mechanisms import PQ, RandomResponse, exp
from golfsim.privacy.strings import LANES, answer, perturbed_word


class Plan(NamedTuple):
    """The perturbation of each histogram; histogram h has the cells first[h] … first[h+1]−1."""

    first: NDArray[np.int64]
    single: NDArray[np.bool_]  # whether exactly one bit of a string is set (random response)
    p: NDArray[np.float64]
    q: NDArray[np.float64]


class Reports(NamedTuple):
    """The reports of peers: report e is number[e] of peer[e], and its true cell is value[e] of its histogram."""

    peer: NDArray[np.int32]
    number: NDArray[np.int32]
    histogram: NDArray[np.int32]
    value: NDArray[np.int32]


@leaf
def add_word(bits, first, stop, counts):
    """Add the bits of a word to the counts of the cells first, first+1, …, up to stop−1."""
    for lane in range(min(LANES, stop - first)):
        counts[first + lane] += np.int64((bits >> np.uint64(lane)) & np.uint64(1))


@kernel
def perturb_counts(key, cycle, reports, accepted, lo, hi, plan, counts, arrived):
    """Draw the strings of the accepted reports among lo … hi−1, add them up, and count them.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle : int
        The cycle, which selects the draws.
    reports : Reports
        The reports.
    accepted : array of bool, shape (reports,)
        Which reports are accepted.
    lo, hi : int
        The range of reports.
    plan : Plan
        The perturbation of each histogram.
    counts : array of int64, shape (cells,)
        The sums of the strings of all histograms; changed in place.
    arrived : array of int64, shape (histograms,)
        The number of strings per histogram; changed in place.
    """
    for e in range(lo, hi):
        if not accepted[e]:
            continue
        h, peer, number, value = reports.histogram[e], reports.peer[e], reports.number[e], reports.value[e]
        first, stop, p, q = plan.first[h], plan.first[h + 1], plan.p[h], plan.q[h]
        arrived[h] += 1
        if plan.single[h]:
            counts[first + answer(key, cycle, peer, number, value, stop - first, p)] += 1
            continue
        for start in range(first, stop, LANES):
            word = (start - first) // LANES
            bits = perturbed_word(key, cycle, peer, number, value, stop - first, p, q, word)
            add_word(bits, start, stop, counts)


@kernel
def write_strings(key, cycle, reports, lo, hi, plan, out):
    """Write the strings of reports lo … hi−1, as packets carry them: row e of `out`, 64 bits per word.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle : int
        The cycle, which selects the draws.
    reports : Reports
        The reports.
    lo, hi : int
        The range of reports.
    plan : Plan
        The perturbation of each histogram.
    out : array of uint64, shape (reports, words)
        The strings; filled here.
    """
    for e in range(lo, hi):
        h, peer, number, value = reports.histogram[e], reports.peer[e], reports.number[e], reports.value[e]
        values, p, q = plan.first[h + 1] - plan.first[h], plan.p[h], plan.q[h]
        for word in range((values + LANES - 1) // LANES):
            if plan.single[h]:
                sent = answer(key, cycle, peer, number, value, values, p)
                here = sent // LANES == word
                out[e, word] = np.uint64(1) << np.uint64(sent % LANES) if here else np.uint64(0)
            else:
                out[e, word] = perturbed_word(key, cycle, peer, number, value, values, p, q, word)


@kernel
def add_strings(strings, histogram, accepted, plan, counts, arrived):
    """Add up the strings of packets; for honest peers the result equals that of `perturb_counts`.

    Parameters
    ----------
    strings : array of uint64, shape (packets, words)
        The strings.
    histogram : array of int32, shape (packets,)
        The histogram of each string.
    accepted : array of bool, shape (packets,)
        Which packets are accepted.
    plan : Plan
        The perturbation of each histogram.
    counts : array of int64, shape (cells,)
        The sums of the strings of all histograms; changed in place.
    arrived : array of int64, shape (histograms,)
        The number of strings per histogram; changed in place.
    """
    for e in range(histogram.size):
        h = histogram[e]
        if accepted[e]:
            arrived[h] += 1
            for start in range(plan.first[h], plan.first[h + 1], LANES):
                add_word(strings[e, (start - plan.first[h]) // LANES], start, plan.first[h + 1], counts)


# Perturbation

Kind = Literal["random-response", "rappor", "pq"]
KINDS: tuple[Kind, ...] = ("random-response", "pq", "rappor")


@dataclass(frozen=True)
class Perturbation:
    """The perturbation of a one-hot string: its one stays with probability p, a zero becomes one with probability q.

    Random response sends one value, so its bits are not independent; but the probability of each single bit is also p
    or q.
    """

    kind: Kind
    values: int
    p: float
    q: float

    @property
    def single(self) -> bool:
        """Whether exactly one bit of each string is set."""
        return self.kind == "random-response"

    @property
    def epsilon(self) -> float:
        """The proven ε of p and q."""
        return RandomResponse.epsilon_of(self.p, self.values) if self.single else PQ.epsilon_of(self.p, self.q)

    def rms_error(self, records: int) -> float:
        """Return the root mean square L2 error of the estimated shares of all values (Cyphers 2017, equation 7.2).

        It is a sum over the variances of the single cells, n_i p(1−p) + (n−n_i) q(1−q), without covariances. So it
        also holds for random response, with q = (1−p)/(m−1).
        """
        return PQ(p=self.p, q=self.q).rms_error(self.values, records)


def perturbation(name: str, *, epsilon: float, values: int, as_published: bool = False) -> Perturbation:
    """Return the perturbation with this name for ε and strings of `values` bits.

    `best` is the one with the smallest expected error. `as_published` uses the source's p of random response, from
    ε = ln(m p/(1−p)), which has a slightly smaller true ε.
    """
    if not epsilon > 0:
        raise UserError(f"ε is {epsilon:g}", key="epsilon", hint="it must be above 0; inf means no noise")
    if values < 2:
        raise UserError(f"a histogram has {counted(values, 'cell')}", hint="expected at least 2 cells")
    if name == "best":
        known = [p for p in (_of_kind(kind, epsilon, values, as_published) for kind in KINDS) if p.p > p.q]
        return min(known, key=lambda p: p.rms_error(1))
    if name not in KINDS:
        raise UserError(f"there is no perturbation “{name}”", key="perturbation", hint=nearest(name, [*KINDS, "best"]))
    found = _of_kind(next(kind for kind in KINDS if kind == name), epsilon, values, as_published)
    if found.p <= found.q:
        raise UserError(
            f"with the published p, random response of {values} values at ε = {epsilon:g} carries no information",
            key="epsilon",
            hint=f"ε must be above ln({values}/{values - 1}) = {math.log(values / (values - 1)):.3g}, "
            'or use rule = "corrected"',
        )
    return found


def _of_kind(kind: Kind, epsilon: float, values: int, as_published: bool) -> Perturbation:
    if kind == "random-response":
        lies = values * exp(-epsilon)
        p = 1 / (1 + lies) if as_published else RandomResponse(epsilon=epsilon, values=values).p
        return Perturbation(kind, values, p, (1 - p) / (values - 1))
    bits = PQ.rappor(epsilon) if kind == "rappor" else PQ.best(epsilon, values)
    return Perturbation(kind, values, bits.p, bits.q)


def plan_of(perturbations: Sequence[Perturbation]) -> Plan:
    """Return the plan of histograms with these perturbations."""
    sizes = [p.values for p in perturbations]
    return Plan(
        np.cumsum([0, *sizes], dtype=np.int64),
        np.array([p.single for p in perturbations], np.bool_),
        np.array([p.p for p in perturbations], np.float64),
        np.array([p.q for p in perturbations], np.float64),
    )


# Collecting


def report(key: np.uint64, cycle: int, peer: int, number: int, value: int, how: Perturbation) -> NDArray[np.uint64]:
    """Return the perturbed string of one peer, as words of 64 bits.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle, peer, number : int
        The cycle, the peer and the number of its report, which select the draws.
    value : int
        The true value.
    how : Perturbation
        The perturbation.
    """
    one = Reports(*(np.array([x], np.int32) for x in (peer, number, 0, value)))
    return words_of(key, cycle, one, plan_of([how])).ravel()


def words_of(key: np.uint64, cycle: int, reports: Reports, plan: Plan) -> NDArray[np.uint64]:
    """Return the perturbed strings of reports, as words of 64 bits, one row per report."""
    out = np.zeros((reports.peer.size, -(-int(np.diff(plan.first).max()) // LANES)), np.uint64)
    write_strings(key, cycle, reports, 0, reports.peer.size, plan, out)
    return out


def bits_of(strings: NDArray[np.uint64], values: int) -> NDArray[np.bool_]:
    """Convert words of strings [… , words] to single bits [… , values]."""
    lanes = strings[..., None] >> np.arange(LANES, dtype=np.uint64) & np.uint64(1)
    return lanes.reshape(*strings.shape[:-1], strings.shape[-1] * LANES)[..., :values].astype(np.bool_)


def collect(
    key: np.uint64, cycle: int, reports: Reports, accepted: NDArray[np.bool_], plan: Plan, threads: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sum of all accepted strings, one number per cell, and the number of strings of each histogram.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle : int
        The cycle, which selects the draws.
    reports : Reports
        The reports.
    accepted : array of bool, shape (reports,)
        Which reports are accepted.
    plan : Plan
        The perturbation of each histogram.
    threads : int
        The number of threads.
    """
    shares = min(threads, max(1, reports.peer.size // SMALLEST_SHARE))
    edges = [reports.peer.size * share // shares for share in range(shares + 1)]

    def part(bounds: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        counts, arrived = np.zeros(plan.first[-1], np.int64), np.zeros(plan.p.size, np.int64)
        perturb_counts(key, cycle, reports, accepted, *bounds, plan, counts, arrived)
        return counts, arrived

    parts = in_threads(shares, part, list(pairwise(edges)))
    return sum(counts for counts, _ in parts), sum(arrived for _, arrived in parts)  # type: ignore[return-value]


# Estimating


def estimate(counts: NDArray[np.int64], arrived: NDArray[np.int64], plan: Plan) -> list[NDArray[np.float64]]:
    """Return the unbiased estimate (ñ − qn)/(p − q) of each histogram (Cyphers 2017, section 7.3.4)."""
    sizes = np.diff(plan.first)
    p, q, n = (np.repeat(x, sizes) for x in (plan.p, plan.q, arrived))
    return np.split((counts - q * n) / (p - q), plan.first[1:-1])


def project(histogram: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return the nearest histogram without negative cells that sums to `total` (Duchi et al. 2008, figure 1)."""
    if total <= 0:
        return np.zeros_like(histogram)
    falling = np.sort(histogram)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = np.flatnonzero(falling > excess)[-1]
    return np.asarray(np.maximum(histogram - excess[kept], 0), np.float64)


def clip(histogram: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Set negative cells to 0, and scale the others to sum to `total`.

    Cyphers (2017) divides an estimate by its sum and does not state how negative cells are treated; to sample from the
    estimate they must be 0.
    """
    positive = np.maximum(histogram, 0)
    whole = positive.sum()
    return positive * (total / whole) if whole > 0 else np.full_like(positive, total / positive.size)


# Partitions, subsets, cells


def partition(key: np.uint64, cycle: int, peers: int, parts: int) -> NDArray[np.int32]:
    """Draw the partition of each peer; the sizes of partitions differ by at most one."""
    out = np.empty(peers, np.int32)
    out[rng.permutation(key, cycle, peers)] = np.arange(peers) % parts
    return out


def draw_subsets(
    key: np.uint64, cycle: int, parts: int, features: int, size: int, number: int | None = None
) -> list[list[NDArray[np.int32]]]:
    """Draw, for each partition, subsets of features that do not overlap.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle : int
        The cycle, which selects the draws.
    parts : int
        The number of partitions.
    features : int
        The number of features.
    size : int
        The number of features per subset.
    number : int or None
        The number of subsets per partition; None: as many as fit.
    """
    fit = features // size
    number = fit if number is None else number
    if not 0 < number <= fit:
        raise UserError(
            f"{counted(number, 'subset')} of {counted(size, 'feature')} each cannot be drawn without overlap from "
            f"{counted(features, 'feature')}",
            key="subsets",
            hint=f"use at most {counted(fit, 'subset')} of {size}" if fit else f"use at most {features} per subset",
        )
    orders = [rng.permutation(draw_key(key, part), cycle, features) for part in range(parts)]
    return [[np.sort(order[size * j : size * (j + 1)]) for j in range(number)] for order in orders]


def draw_key(key: np.uint64, number: int) -> np.uint64:
    """Return a key derived from another key and a number."""
    return rng.key(int(key), "derived", str(number))


def cells(alphabets: NDArray[Any], classes: int) -> int:
    """Return the length m of a string: the number of combinations of values and a label."""
    return int(np.prod(alphabets, dtype=np.int64)) * classes


def strides(alphabets: NDArray[Any]) -> NDArray[np.int64]:
    """Return the distance between consecutive values of each feature, in combinations; it is 1 for the last feature."""
    return np.cumprod([1, *alphabets[:0:-1]], dtype=np.int64)[::-1]


def encode(
    codes: NDArray[np.int32], labels: NDArray[np.int32], alphabets: NDArray[Any], classes: int
) -> NDArray[np.int32]:
    """Return the cell of the values [n, features] and label of each record; the label varies fastest."""
    return np.asarray((codes * strides(alphabets)).sum(axis=1) * classes + labels, np.int32)


def decode(
    cell: NDArray[np.int32], alphabets: NDArray[Any], classes: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the values [n, features] and the label of each cell."""
    values = cell[:, None] // classes // strides(alphabets) % alphabets
    return np.asarray(values, np.int32), np.asarray(cell % classes, np.int32)


def reports_of(
    part: NDArray[np.int32],
    subsets: list[list[NDArray[np.int32]]],
    codes: NDArray[np.int32],
    labels: NDArray[np.int32],
    alphabets: NDArray[Any],
    classes: int,
) -> Reports:
    """Return the reports of all peers; peer i has record i.

    Parameters
    ----------
    part : array of int32, shape (peers,)
        The partition of each peer.
    subsets : list of lists of arrays of int32
        The subsets of features of each partition.
    codes : array of int32, shape (records, columns)
        The codes of the records.
    labels : array of int32, shape (records,)
        The labels of the records.
    alphabets : array of int64, shape (columns,)
        The number of values of each column.
    classes : int
        The number of classes.
    """
    columns: list[list[NDArray[np.int32]]] = []
    for g, own in enumerate(subsets):
        peers = np.flatnonzero(part == g).astype(np.int32)
        for j, subset in enumerate(own):
            value = encode(codes[peers][:, subset], labels[peers], alphabets[subset], classes)
            number = np.full(peers.size, j, np.int32)
            columns.append([peers, number, np.full(peers.size, len(columns), np.int32), value])
    return Reports(*(np.concatenate(column) for column in zip(*columns, strict=True)))


# Budget


def record_epsilon(histograms: Sequence[float], cuts: Mapping[int, float]) -> float:
    """Return the ε of all answers of a record: the sum over its strings and over its answers about cuts."""
    return math.fsum([*histograms, *cuts.values()])


def attribute_epsilon(
    histograms: Sequence[float], subsets: Sequence[Sequence[int]], cuts: Mapping[int, float]
) -> float:
    """Return the published budget (Cyphers 2017, equation 7.4): the largest cost of a single attribute or of the label.

    It is the ε of a single attribute if all others are independent of it. The ε of a record is `record_epsilon`.
    """
    by_feature = dict(cuts)
    for epsilon, subset in zip(histograms, subsets, strict=True):
        for feature in subset:
            by_feature[int(feature)] = by_feature.get(int(feature), 0.0) + epsilon
    return max([math.fsum(histograms), *by_feature.values()])
