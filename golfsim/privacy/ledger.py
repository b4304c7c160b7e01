"""Account for the privacy budget that every record (or every node, where that is the unit) has spent.

Visits are counted as integers, and ε is derived from them: because of rounding, a running sum of floating-point numbers
would refuse the last of k visits for many k. Code that uses private data must first spend budget, by `Ledger.charge`
or, in kernels, by `may_visit` and `spend`. No other code writes visits; a test ensures this.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.kernels import inlined
from golfsim.core.metrics import Metric
from golfsim.core.settings import Settings
from golfsim.core.state import Stateful
from golfsim.privacy import gaussian

UNIFORM, HALVING, UNIFORM_SQUARES, HALVING_SQUARES = range(4)  # squares: μ² is divided, for Gaussian noise
BUDGET_METRICS = (
    Metric("spent.mean", "The mean ε that a record (or a node, where this is the unit) has spent.", "ε", "down"),
    Metric("spent.max", "The largest ε that a record (or node) has spent.", "ε", "down"),
    Metric("spent.exhausted", "The share of records (or nodes) that have no budget left.", "share of records", "down"),
)
DELTA_METRICS = (
    Metric(
        "spent.delta.mean",
        "The mean ε that a record (or a node, where this is the unit) has spent, at the δ of `[privacy]`.",
        "ε",
        "down",
    ),
    Metric("spent.delta.max", "The largest ε that a record (or node) has spent, at this δ.", "ε", "down"),
)  # of layers with a budget and a proven guarantee, if [privacy] asks for them
ROOT_OF_HALF = math.sqrt(0.5)
LAST_HALVING = 60  # visits: later visits would cost nothing, and their noise would exceed the range of single precision


class UniformSchedule(Settings):
    """Spend ε/k for each of k visits; after these the record is never used again."""

    kind: Literal["uniform"]
    visits: int = Field(1, ge=1, description="number of times that a record may be used")


class HalvingSchedule(Settings):
    """Spend ε/2^t for the t-th visit: the number of visits is unlimited, and the noise grows with each visit."""

    kind: Literal["halving"]


Schedule = Annotated[UniformSchedule | HalvingSchedule, Field(discriminator="kind")]


def visits_of(schedule: UniformSchedule | HalvingSchedule, most: int = 8) -> int:
    """Return the number of visits, at most `most`, that spend the budget.

    Under a halving schedule it is 4, which leaves a sixteenth of the budget.
    """
    return min(schedule.visits, most) if isinstance(schedule, UniformSchedule) else 4


class Budget(NamedTuple):
    """A schedule in the form that kernels use, with the number of visits of every record.

    Visits share ε or, for Gaussian noise, the square of μ.
    """

    kind: int
    visits_allowed: int
    epsilon: float  # or μ
    visits: NDArray[np.int32]


@inlined
def may_visit(budget, first, stop):
    """Return whether all records first … stop−1 have budget left for one more visit."""
    allowed = True
    for record in range(first, stop):
        allowed &= budget.visits[record] < budget.visits_allowed
    return allowed


@inlined
def spend(budget, first, stop):
    """Charge records first … stop−1 for one visit and return the smallest ε (or μ) that is charged to any of them."""
    least = budget.epsilon
    for record in range(first, stop):
        budget.visits[record] += 1
        visit = int(budget.visits[record])
        if budget.kind == UNIFORM:
            charge = budget.epsilon / budget.visits_allowed
        elif budget.kind == HALVING:
            charge = math.ldexp(budget.epsilon, -visit)
        elif budget.kind == UNIFORM_SQUARES:
            charge = budget.epsilon / np.sqrt(np.float64(budget.visits_allowed))
        else:
            charge = math.ldexp(budget.epsilon, -(visit // 2)) * (ROOT_OF_HALF if visit % 2 else 1.0)
        least = min(least, charge)
    return least


class Ledger(Stateful):
    """Count the visits of every record under a schedule.

    The counts are part of checkpoints. They survive churn, also when a node that returns has lost its other state.

    Parameters
    ----------
    schedule : UniformSchedule or HalvingSchedule
        How visits share the budget.
    epsilon : float
        The ε of all visits of a record together.
    records : int
        The number of records, or of nodes.
    delta : float
        The δ at which ε holds, with Gaussian noise: visits then share the square of μ. 0: pure ε.
    pure : float
        The part of ε that visits spend without δ, by other means than Gaussian noise.
    mu : float, optional
        The μ of the Gaussian noise of all visits together. Default: what ε − pure allows at δ.
    """

    def __init__(
        self,
        schedule: UniformSchedule | HalvingSchedule,
        epsilon: float,
        records: int,
        delta: float = 0.0,
        pure: float = 0.0,
        mu: float | None = None,
    ) -> None:
        self._halving = isinstance(schedule, HalvingSchedule)
        self._allowed = LAST_HALVING if isinstance(schedule, HalvingSchedule) else schedule.visits
        self._epsilon, self._delta = epsilon, delta
        self._pure = pure if delta else epsilon
        self._mu = 0.0
        if delta:
            allowed = math.inf if math.isinf(epsilon) else gaussian.mu_of(epsilon - pure, delta)
            self._mu = allowed if mu is None else mu
        self.visits = np.zeros(records, np.int32)

    @property
    def total(self) -> float:
        """The ε that all visits of a record spend together."""
        return self._epsilon

    @property
    def most(self) -> int:
        """The number of visits that a record can have."""
        return self._allowed

    @property
    def delta(self) -> float:
        """The δ at which this ε holds; 0: pure ε."""
        return self._delta

    @property
    def budget(self) -> Budget:
        """The ledger for kernels."""
        if self._delta:
            return Budget(HALVING_SQUARES if self._halving else UNIFORM_SQUARES, self._allowed, self._mu, self.visits)
        return Budget(HALVING if self._halving else UNIFORM, self._allowed, self._epsilon, self.visits)

    def left(self, units: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of these records (or nodes) have budget left for one more visit."""
        return np.asarray(self.visits[units] < self._allowed)

    def charge(self, units: NDArray[Any]) -> NDArray[np.bool_]:
        """Charge each of these records (or nodes) one visit where its budget allows it; return which were charged."""
        if np.unique(units).size != np.size(units):
            raise ValueError("a record occurs twice in one call of `charge`: only one visit would be counted")
        may = self.left(units)
        self.visits[units[may]] += 1
        return may

    def spent(self) -> NDArray[np.float64]:
        """Return the ε that each record has spent; with Gaussian noise that of its visits together, at the δ."""
        if math.isinf(self._epsilon):
            return np.where(self.visits > 0, math.inf, 0.0)
        if self._delta:
            number, which = np.unique(self.visits, return_inverse=True)
            return np.array([self._spent_by(visits) for visits in number.tolist()])[which]
        return np.asarray(self._epsilon * self._share(self.visits))

    def _share(self, visits: Any) -> Any:
        """Return the share of the budget that is spent by this many visits."""
        return 1 - np.ldexp(1.0, -visits) if self._halving else visits / self._allowed

    def _spent_by(self, visits: int) -> float:
        pure = self._pure * float(self._share(visits))
        return min(self._epsilon, pure + gaussian.epsilon_of(self.mu(visits), self._delta))

    def mu(self, visits: int) -> float:
        """Return the μ of the releases with Gaussian noise that this many visits of a record made together."""
        return self._mu * math.sqrt(float(self._share(visits)))

    def releases(self, visits: int) -> list[tuple[float, int]]:
        """Return the pure ε of each release that this many visits made, with the number of these releases."""
        if not self._halving:
            return [(self._pure / self._allowed, visits)]
        return [(math.ldexp(self._pure, -number), 1) for number in range(1, visits + 1)]

    def metrics(self, besides: NDArray[np.float64] | None = None) -> dict[str, float]:
        """Return the mean and the maximum of the spent ε, and the share of records whose budget is exhausted.

        `besides` is an additional ε per record that was spent elsewhere.
        """
        spent = self.spent() if besides is None else self.spent() + besides
        if not spent.size:
            return {}
        exhausted = float((self.visits >= self._allowed).mean())
        return {"spent.mean": float(spent.mean()), "spent.max": float(spent.max()), "spent.exhausted": exhausted}
