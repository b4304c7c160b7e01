"""Compute the (ε, δ) of several releases that use the same record, in place of the sum of their ε.

A release of pure ε reveals at most as much as a random response with this ε, from which its output can be
produced (Kairouz, Oh & Viswanath 2015). So all releases together reveal at most as much as all responses, also if a
later release depends on the outputs of earlier ones; only their number and their ε must not. Gaussian noise has a known
privacy loss, too (`golfsim.privacy.gaussian`). The distributions of these losses are known, and dp-accounting adds them
up. Every rounding here increases ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.privacy import gaussian
from golfsim.privacy.ledger import Ledger, Schedule

Releases = tuple[tuple[float, int], ...]  # the ε of a release, and the number of releases with it
SMALLEST_DELTA = 1e-10  # below it, the rounding of the sums matters
SLACK = 1e-12  # a bound on this rounding, which is taken off δ
BUDGET_STEP = 1e-5  # the part of a budget that may remain unused
GRID = 4096  # steps of the loss of the largest release


def together(releases: Iterable[tuple[float, int]], delta: float, mu: float = 0.0) -> float:
    """Return an ε that releases satisfy together with this δ; it is never larger than the sum of their ε.

    Parameters
    ----------
    releases : iterable of (float, int)
        The pure ε of a release, and the number of releases with it.
    delta : float
        The δ, at least 1e-10. With 0 the result is the sum of the ε, which is infinite with Gaussian noise.
    mu : float
        The μ of all releases with Gaussian noise together: the root of the sum of their squares.
    """
    if delta and not SMALLEST_DELTA <= delta < 1:
        raise ValueError(f"expected δ = 0 or {SMALLEST_DELTA:g} ≤ δ < 1; got {delta:g}")
    merged: dict[float, int] = {}
    for epsilon, number in releases:
        if number > 0 and epsilon > 0:
            merged[epsilon] = merged.get(epsilon, 0) + number
    return _composed(tuple(sorted(merged.items())), mu, delta)


@lru_cache(maxsize=4096)
def _composed(releases: Releases, mu: float, delta: float) -> float:
    total = math.fsum(epsilon * number for epsilon, number in releases)
    if not releases or math.isinf(total) or math.isinf(mu):
        return total + gaussian.epsilon_of(mu, delta)
    if delta == 0:
        return total if mu == 0 else math.inf
    bound = total + gaussian.epsilon_of(mu, delta)
    return min(bound, gaussian.rounded(_of_losses(releases, mu, delta), up=True))


def _of_losses(releases: Releases, mu: float, delta: float) -> float:
    """Return the ε of random responses and of Gaussian noise.

    Losses are multiples of a step. With a single ε and no Gaussian noise this is the step, and nothing is rounded.
    Releases with less than a step count as one release with the sum of their ε.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    largest = releases[-1][0]
    step = largest if len(releases) == 1 and mu == 0 else max(largest, mu) / GRID
    small = math.fsum(epsilon * number for epsilon, number in releases if epsilon < step)
    found = None
    if mu > 0:
        found = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)
    for epsilon, number in (*((e, n) for e, n in releases if e >= step), (small, 1)):
        if epsilon > 0:
            one = pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(epsilon, 0), value_discretization_interval=step
            )
            several = one.self_compose(number) if number > 1 else one
            found = several if found is None else found.compose(several)
    assert found is not None
    with np.errstate(over="ignore"):  # of e^ε, if ε is some hundreds
        return max(0.0, float(found.get_epsilon_for_delta(delta - SLACK)))


@lru_cache(maxsize=256)
def budget_for(target: float, delta: float, schedule: Schedule, own_delta: float = 0.0) -> float:
    """Return the largest budget ε, of four digits, with which all visits of a record have the target ε at this δ.

    Parameters
    ----------
    target : float
        The ε of all visits together.
    delta : float
        The δ at which it holds.
    schedule : UniformSchedule or HalvingSchedule
        How visits share the budget.
    own_delta : float
        The δ of the budget, with Gaussian noise; 0: visits have pure ε.
    """

    def spent_by(budget: float) -> float:
        ledger = Ledger(schedule, budget, 1, own_delta)
        return of_visits([ledger], [ledger.most], delta)

    if own_delta == delta:
        return target
    low, high = 0.0, target
    while spent_by(high) <= target:
        low, high = high, 2 * high
    while high - low > BUDGET_STEP * high:
        middle = (low + high) / 2
        low, high = (middle, high) if spent_by(middle) <= target else (low, middle)
    return gaussian.rounded(low, up=False, digits=4)


class AtDelta(NamedTuple):
    """The ε of the visits that happened, at a δ."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g} at δ = {self.delta:g}, for the visits that happened"


def spent(ledgers: Sequence[Ledger], delta: float) -> NDArray[np.float64]:
    """Return the ε that each record (or node) has spent in several ledgers of the same units, at this δ.

    Units with the same visits share one computation.
    """
    visits = np.stack([ledger.visits for ledger in ledgers], axis=1)
    histories, which = np.unique(visits, axis=0, return_inverse=True)
    found = [of_visits(ledgers, history, delta) for history in histories.tolist()]
    return np.asarray(found, np.float64)[which.ravel()]


def of_visits(ledgers: Sequence[Ledger], visits: Sequence[int], delta: float) -> float:
    """Return the ε of a unit with these visits, one number per ledger, at this δ."""
    pure = [release for ledger, number in zip(ledgers, visits, strict=True) for release in ledger.releases(number)]
    mu = math.hypot(*(ledger.mu(number) for ledger, number in zip(ledgers, visits, strict=True)))
    return together(pure, delta, mu)


def metrics(ledgers: Sequence[Ledger], delta: float) -> dict[str, float]:
    """Return the mean and the maximum over records (or nodes) of the ε that they have spent at this δ."""
    found = spent(ledgers, delta)
    return {"spent.delta.mean": float(found.mean()), "spent.delta.max": float(found.max())}
