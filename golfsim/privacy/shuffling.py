"""Compute the central (ε, δ) of shuffled reports, each of which is locally private (the shuffle model).

FMT21 is Feldman, McMillan & Talwar, "Hiding among the clones", 2021. Its reduction holds for every ε₀-private report.
Each other report is a clone with probability e^−ε₀, and a clone could as well be the report of the person who is to be
protected. With C clones the observer sees C + 1 bits without their senders. `docs/privacy.md` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from golfsim.privacy.gaussian import rounded

LARGEST = 30.0  # above this ε₀ a clone is too rare for any number of reports, and the result is ε₀
SLACK = 1e-8  # a relative error of the binomial probabilities, which is added to δ
STEPS = 40  # of the search for ε


def closed_form(reports: int, epsilon: float, delta: float) -> float | None:
    """Return the central ε by theorem 3.1 of FMT21, at most ε₀; None where ε₀ > ln(n/(16 ln(4/δ))).

    `reports` is the number n of shuffled reports, and `epsilon` is the ε₀ of each of them. The theorem needs 2 in the
    place of 4, the program of its authors needs 4; this function uses the stricter condition.
    """
    _check(epsilon, delta)
    if reports < 1 or epsilon > math.log(reports / (16 * math.log(4 / delta))):
        return None
    grown = math.exp(epsilon)
    root = 8 * math.sqrt(grown * math.log(4 / delta) / reports)
    return min(epsilon, math.log1p((grown - 1) / (grown + 1) * (root + 8 * grown / reports)))


def numerical(reports: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the central ε of n shuffled reports, each with ε₀ = `epsilon`; at most ε₀."""
    _check(epsilon, delta)
    return among_clones(reports - 1, math.exp(-epsilon), epsilon, delta)


def among_clones(others: int, share: float, epsilon: float, delta: float) -> float:
    """Return an upper bound on the central ε if each of the other reports is a clone with probability `share`.

    A share below e^−ε₀ serves an observer who can exclude some of the reports.
    """
    if others < 1 or share <= 0 or delta <= 0 or epsilon > LARGEST:
        return epsilon
    low, high = 0.0, epsilon
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(others, share, epsilon, middle, delta) <= delta else (middle, high)
    return high


def divergence(others: int, share: float, epsilon: float, central: float, delta: float) -> float:
    """Return an upper bound on the δ that belongs to a central ε (the hockey-stick divergence of the reduction).

    Numbers of clones that have together a probability of about δ/1000 are counted as if they revealed everything.

    Parameters
    ----------
    others : int
        The number of other reports.
    share : float
        The probability that one of them is a clone.
    epsilon : float
        The local ε₀, at most 30.
    central : float
        The central ε, from 0 to ε₀.
    delta : float
        The δ that decides how many terms are summed.
    """
    from scipy.stats import binom

    law = binom(others, min(share, 1.0))
    first, last = int(law.ppf(delta / 2000)), int(law.isf(delta / 2000))
    clones = np.arange(max(first, 0), last + 1)
    true = 1 / (1 + math.exp(-epsilon))  # the probability that the person's bit is the true one
    false, factor = math.exp(-epsilon) * true, math.exp(central)
    won, lost = true - factor * false, factor * true - false
    if won <= 0:
        return 0.0  # the local guarantee
    # The sum is over the outputs whose probabilities differ by a factor above e^ε: those with this many ones or more.
    ones = np.floor((clones + 1) * lost / (won + lost)) + 1
    more, fewer = (_at_least(ones - less, clones) for less in (1, 0))
    each = np.maximum(won * more - lost * fewer, 0.0) + SLACK * (won * more + lost * fewer)
    outside = float(law.cdf(clones[0] - 1) + law.sf(clones[-1]))
    return float((law.pmf(clones) * each).sum()) * (1 + SLACK) + outside * (1 + SLACK)


def _at_least(ones: NDArray[np.float64], bits: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability that fair bits have at least this number of ones."""
    from scipy.special import betainc

    inside = np.clip(ones, 1, np.maximum(bits, 1))
    found = betainc(inside, np.maximum(bits, 1) - inside + 1, 0.5)
    return np.where(ones <= 0, 1.0, np.where(ones > bits, 0.0, found))


@lru_cache(maxsize=256)
def local_of(reports: int, central: float, delta: float) -> float:
    """Return a local ε₀ for which n shuffled reports have this central ε at δ, rounded down to six digits.

    It is the largest one that a search finds, at most 30, and at least the central ε itself.
    """
    _check(central, delta)
    low, high = central, LARGEST
    if reports < 2 or not low < high:
        return central
    for _ in range(STEPS):
        middle = (low + high) / 2
        fits = divergence(reports - 1, math.exp(-middle), middle, central, delta) <= delta
        low, high = (middle, high) if fits else (low, middle)
    return max(central, rounded(low, up=False))


def composed(epsilons: Sequence[float], local: float) -> float:
    """Return the ε of several shuffled reports of one person: their sum, at most the sum of their local ε.

    If each of k reports is shuffled independently among those of its own question, and has δ/k, the sum belongs to δ.
    """
    return min(math.fsum(epsilons), local)


def _check(epsilon: float, delta: float) -> None:
    if not (epsilon >= 0 and 0 < delta < 1):
        raise ValueError(f"expected ε ≥ 0 and 0 < δ < 1; got ε = {epsilon:g}, δ = {delta:g}")
