"""Histograms from perturbed one-hot strings: how AnonML collects data (Cyphers 2017, sections 6.1, 7.3 and 7.4).

Each peer of a partition is asked for some subsets of its features. Its values and its label are one cell of a
histogram of m cells; it sends a string of m bits, perturbed so that no string tells much about the cell. The sums of
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
from golfsim.core.rng import draw, unit
from golfsim.core.threads import SMALLEST_SHARE, in_threads
from golfsim.privacy.mechanisms import PQ, RandomResponse
from golfsim.privacy.noise import respond

LANES = 64  # bits of a word; also the draws that a word may take


class Plan(NamedTuple):
    """How the reports for each histogram are perturbed; histogram h has the cells first[h] … first[h+1]−1."""

    first: NDArray[np.int64]
    single: NDArray[np.bool_]  # random response: exactly one bit of a string is set
    p: NDArray[np.float64]
    q: NDArray[np.float64]


class Reports(NamedTuple):
    """What peers are asked for: report e is number[e] of peer[e] and belongs into cell value[e] of its histogram."""

    peer: NDArray[np.int32]
    number: NDArray[np.int32]
    histogram: NDArray[np.int32]
    value: NDArray[np.int32]


@leaf
def lanes_of(values, word):
    """The lanes of a word that belong to a string of so many bits, as ones."""
    left = values - LANES * word
    full = ~np.uint64(0)
    return full if left >= LANES else full >> np.uint64(LANES - left)


@leaf
def rare_ones(key, cycle, peer, k, q, lanes):
    """A word whose lanes are one with probability q each; it takes draws k … k+63 at most.

    Each lane draws a binary fraction and is one where that is below q. All lanes draw their next digit at once, until
    the digits have decided every lane: about log₂(lanes) + 1 draws, and exact to 64 digits.
    """
    digits = np.uint64(q * 2.0**64)
    ones, undecided = np.uint64(0), lanes
    while undecided != 0 and digits != 0:
        word = np.uint64(draw(key, cycle, peer, k))
        if digits >> np.uint64(63) == 1:
            ones |= undecided & ~word
            undecided &= word
        else:
            undecided &= ~word
        digits <<= np.uint64(1)
        k += 1
    return ones


@leaf
def first_draw(number):
    """Of a peer's report: they are 2³² apart, whatever the lengths of strings; 64 for the value, 64 for each word."""
    return np.int64(number) << np.int64(32)


@leaf
def answer(key, cycle, peer, number, value, values, p):
    """The one value that random response sends."""
    k = first_draw(number)
    return respond(draw(key, cycle, peer, k), draw(key, cycle, peer, k + 1), value, values, p)


@leaf
def perturbed_word(key, cycle, peer, number, value, values, p, q, word):
    """Bits 64·word … 64·word + 63 of a string whose bits are perturbed one by one (Cyphers 2017, section 7.3.3)."""
    k = first_draw(number)
    bits = rare_ones(key, cycle, peer, k + LANES * (word + 1), q, lanes_of(values, word))
    if value // LANES == word:
        own = np.uint64(1) << np.uint64(value % LANES)
        kept = unit(draw(key, cycle, peer, k)) < p
        bits = bits | own if kept else bits & ~own
    return bits


@leaf
def add_word(bits, first, stop, counts):
    """Add the bits of a word to the counts of the cells first, first+1, …, at most up to `stop`."""
    for lane in range(min(LANES, stop - first)):
        counts[first + lane] += np.int64((bits >> np.uint64(lane)) & np.uint64(1))


@kernel
def perturb_counts(key, cycle, reports, accepted, lo, hi, plan, counts, arrived):
    """Draw the strings of the accepted ones of reports lo … hi−1, add them up, and count them."""
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
    """The strings of reports lo … hi−1 themselves, as packets carry them: row e of `out`, 64 bits a word."""
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
    """Add up strings that packets carried; what comes out equals `perturb_counts` for honest peers."""
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
    """How a one-hot string of `values` bits is perturbed: its one stays with probability p, a zero becomes one with q.

    Random response sends one value, so its bits are not independent; the probability of each bit alone is p or q too.
    """

    kind: Kind
    values: int
    p: float
    q: float

    @property
    def single(self) -> bool:
        """Is exactly one bit of each string set?"""
        return self.kind == "random-response"

    @property
    def epsilon(self) -> float:
        """The ε that p and q provably give."""
        return RandomResponse.epsilon_of(self.p, self.values) if self.single else PQ.epsilon_of(self.p, self.q)

    def rms_error(self, records: int) -> float:
        """The root mean square L2 error of the estimated shares of all values (Cyphers 2017, equation 7.2).

        It adds up the variances of the single cells, n_i p(1−p) + (n−n_i) q(1−q), and covariances have no part in
        that: so it holds for random response too, with q = (1−p)/(m−1).
        """
        return PQ(p=self.p, q=self.q).rms_error(self.values, records)


def perturbation(name: str, *, epsilon: float, values: int, as_published: bool = False) -> Perturbation:
    """The perturbation of that name for ε and strings of so many bits; `best` is the one of least expected error.

    `as_published` takes the source's p of random response, from ε = ln(m p/(1−p)), which gives a little less ε.
    """
    if not epsilon > 0:
        raise UserError(f"ε is {epsilon:g}", key="epsilon", hint="it has to be above 0; inf stands for no noise")
    if values < 2:
        raise UserError(f"a histogram of {values} cell", hint="two cells are the least that a report can tell apart")
    if name == "best":
        known = [p for p in (_of_kind(kind, epsilon, values, as_published) for kind in KINDS) if p.p > p.q]
        return min(known, key=lambda p: p.rms_error(1))
    if name not in KINDS:
        raise UserError(f"there is no perturbation “{name}”", key="perturbation", hint=nearest(name, [*KINDS, "best"]))
    found = _of_kind(next(kind for kind in KINDS if kind == name), epsilon, values, as_published)
    if found.p <= found.q:
        raise UserError(
            f"with the published p, random response of {values} values at ε = {epsilon:g} says less than nothing",
            key="epsilon",
            hint=f"ε has to be above ln({values}/{values - 1}) = {math.log(values / (values - 1)):.3g}, "
            "or leave as-published out",
        )
    return found


def _of_kind(kind: Kind, epsilon: float, values: int, as_published: bool) -> Perturbation:
    if kind == "random-response":
        lies = values * math.exp(-epsilon)
        p = 1 / (1 + lies) if as_published else RandomResponse(epsilon=epsilon, values=values).p
        return Perturbation(kind, values, p, (1 - p) / (values - 1))
    bits = PQ.rappor(epsilon) if kind == "rappor" else PQ.best(epsilon, values)
    return Perturbation(kind, values, bits.p, bits.q)


def plan_of(perturbations: Sequence[Perturbation]) -> Plan:
    """The plan for histograms that are perturbed so."""
    sizes = [p.values for p in perturbations]
    return Plan(
        np.cumsum([0, *sizes], dtype=np.int64),
        np.array([p.single for p in perturbations], np.bool_),
        np.array([p.p for p in perturbations], np.float64),
        np.array([p.q for p in perturbations], np.float64),
    )


# Collecting


def report(key: np.uint64, cycle: int, peer: int, number: int, value: int, how: Perturbation) -> NDArray[np.uint64]:
    """One peer's perturbed string, as words of 64 bits: a function of key, cycle, peer and number alone."""
    one = Reports(*(np.array([x], np.int32) for x in (peer, number, 0, value)))
    return words_of(key, cycle, one, plan_of([how])).ravel()


def words_of(key: np.uint64, cycle: int, reports: Reports, plan: Plan) -> NDArray[np.uint64]:
    """The perturbed strings of reports, as words of 64 bits: a row each."""
    out = np.zeros((reports.peer.size, -(-int(np.diff(plan.first).max()) // LANES)), np.uint64)
    write_strings(key, cycle, reports, 0, reports.peer.size, plan, out)
    return out


def bits_of(strings: NDArray[np.uint64], values: int) -> NDArray[np.bool_]:
    """Words of strings [… , words] as single bits [… , values]."""
    lanes = strings[..., None] >> np.arange(LANES, dtype=np.uint64) & np.uint64(1)
    return lanes.reshape(*strings.shape[:-1], strings.shape[-1] * LANES)[..., :values].astype(np.bool_)


def collect(
    key: np.uint64, cycle: int, reports: Reports, accepted: NDArray[np.bool_], plan: Plan, threads: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sums of all accepted strings, a number a cell, and the number of strings of each histogram."""
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
    """The unbiased estimate (ñ − qn)/(p − q) of each histogram (Cyphers 2017, section 7.3.4)."""
    sizes = np.diff(plan.first)
    p, q, n = (np.repeat(x, sizes) for x in (plan.p, plan.q, arrived))
    return np.split((counts - q * n) / (p - q), plan.first[1:-1])


def project(histogram: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest histogram without negative cells that sums to `total` (Duchi et al. 2008, figure 1)."""
    if total <= 0:
        return np.zeros_like(histogram)
    falling = np.sort(histogram)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = np.flatnonzero(falling > excess)[-1]
    return np.asarray(np.maximum(histogram - excess[kept], 0), np.float64)


def clip(histogram: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Negative cells as 0, the others scaled to sum to `total`.

    Cyphers (2017) divides an estimate by its sum and does not say what becomes of negative cells; to sample from it
    they have to be 0.
    """
    positive = np.maximum(histogram, 0)
    whole = positive.sum()
    return positive * (total / whole) if whole > 0 else np.full_like(positive, total / positive.size)


# Partitions, subsets, cells


def partition(key: np.uint64, cycle: int, peers: int, parts: int) -> NDArray[np.int32]:
    """The partition of each peer: at random, all of the same size but for one."""
    out = np.empty(peers, np.int32)
    out[rng.permutation(key, cycle, peers)] = np.arange(peers) % parts
    return out


def draw_subsets(
    key: np.uint64, cycle: int, parts: int, features: int, size: int, number: int | None = None
) -> list[list[NDArray[np.int32]]]:
    """For each partition, subsets of so many features that do not overlap; as many as fit where no number is given."""
    fit = features // size
    number = fit if number is None else number
    if not 0 < number <= fit:
        raise UserError(
            f"{number} subsets of {size} features each do not fit into {features} features",
            key="subsets",
            hint=f"at most {fit} subsets of {size} do not overlap" if fit else f"take at most {features} a subset",
        )
    orders = [rng.permutation(draw_key(key, part), cycle, features) for part in range(parts)]
    return [[np.sort(order[size * j : size * (j + 1)]) for j in range(number)] for order in orders]


def draw_key(key: np.uint64, number: int) -> np.uint64:
    """One of many keys made from one."""
    return rng.key(int(key), "derived", str(number))


def cells(alphabets: NDArray[Any], classes: int) -> int:
    """The length m of a string: how many combinations of values and a label there are."""
    return int(np.prod(alphabets, dtype=np.int64)) * classes


def strides(alphabets: NDArray[Any]) -> NDArray[np.int64]:
    """How far apart, in combinations of values, the values of each feature are; the last feature's are neighbours."""
    return np.cumprod([1, *alphabets[:0:-1]], dtype=np.int64)[::-1]


def encode(
    codes: NDArray[np.int32], labels: NDArray[np.int32], alphabets: NDArray[Any], classes: int
) -> NDArray[np.int32]:
    """The cell of each record's values [n, features] and label; cells that differ in the label alone are neighbours."""
    return np.asarray((codes * strides(alphabets)).sum(axis=1) * classes + labels, np.int32)


def decode(
    cell: NDArray[np.int32], alphabets: NDArray[Any], classes: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The values [n, features] and the label of each cell."""
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
    """What every peer is asked for; peer i has record i, and is of partition part[i]."""
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
    """What a record's answers cost together: the sum over its strings and over the cuts it was asked about."""
    return math.fsum([*histograms, *cuts.values()])


def attribute_epsilon(
    histograms: Sequence[float], subsets: Sequence[Sequence[int]], cuts: Mapping[int, float]
) -> float:
    """The published budget (Cyphers 2017, equation 7.4): the largest cost of any one attribute or of the label.

    It is the ε of a single attribute, if all others are independent of it; a record's is `record_epsilon`.
    """
    by_feature = dict(cuts)
    for epsilon, subset in zip(histograms, subsets, strict=True):
        for feature in subset:
            by_feature[int(feature)] = by_feature.get(int(feature), 0.0) + epsilon
    return max([math.fsum(histograms), *by_feature.values()])
