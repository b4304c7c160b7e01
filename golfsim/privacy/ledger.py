"""What every record (or every node, where that is the unit) has spent of its privacy budget.

Visits are counted as integers and ε is derived from them: a running sum of floating-point numbers would lose the last
of k visits for many k. Whoever touches private data spends first and touches after, by `Ledger.charge` or, in kernels,
by `may_visit` and `spend`. Nothing else writes visits; a test holds that.
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

UNIFORM, HALVING = range(2)
BUDGET_METRICS = (
    Metric("spent.mean", "The mean ε that a record (or a node, where this is the unit) has spent.", "ε", "down"),
    Metric("spent.max", "The largest ε that a record (or node) has spent.", "ε", "down"),
    Metric("spent.exhausted", "The share of records (or nodes) that have no budget left.", "share of records", "down"),
)
LAST_HALVING = 60  # visits: later ones would cost nothing, and their noise leave the range of single precision


class UniformSchedule(Settings):
    """ε/k for each of k visits, then the record is never touched again."""

    kind: Literal["uniform"]
    visits: int = Field(1, ge=1, description="how often a record may be used")


class HalvingSchedule(Settings):
    """ε/2^t for the t-th visit: endless, with ever more noise."""

    kind: Literal["halving"]


Schedule = Annotated[UniformSchedule | HalvingSchedule, Field(discriminator="kind")]


def visits_of(schedule: UniformSchedule | HalvingSchedule, most: int = 8) -> int:
    """How many visits spend the budget, or nearly so (of halves, four leave a sixteenth); at most so many."""
    return min(schedule.visits, most) if isinstance(schedule, UniformSchedule) else 4


class Budget(NamedTuple):
    """A schedule as kernels see it, with the visits so far of every record."""

    kind: int
    visits_allowed: int
    epsilon: float
    visits: NDArray[np.int32]


@inlined
def may_visit(budget, first, stop):
    """Whether all records first … stop−1 have budget left for one more visit."""
    allowed = True
    for record in range(first, stop):
        allowed &= budget.visits[record] < budget.visits_allowed
    return allowed


@inlined
def spend(budget, first, stop):
    """Charge records for a visit; returns the ε of the least that any of them is charged."""
    least = budget.epsilon
    for record in range(first, stop):
        budget.visits[record] += 1
        if budget.kind == UNIFORM:
            charge = budget.epsilon / budget.visits_allowed
        else:
            charge = math.ldexp(budget.epsilon, -int(budget.visits[record]))
        least = min(least, charge)
    return least


class Ledger(Stateful):
    """The visits of every record under a schedule; kept through churn, afresh or not, and in checkpoints."""

    def __init__(self, schedule: UniformSchedule | HalvingSchedule, epsilon: float, records: int) -> None:
        self._halving = isinstance(schedule, HalvingSchedule)
        self._allowed = LAST_HALVING if isinstance(schedule, HalvingSchedule) else schedule.visits
        self._epsilon = epsilon
        self.visits = np.zeros(records, np.int32)

    @property
    def budget(self) -> Budget:
        """The ledger for kernels."""
        return Budget(HALVING if self._halving else UNIFORM, self._allowed, self._epsilon, self.visits)

    def left(self, units: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of these records (or nodes) have budget left for one more visit."""
        return np.asarray(self.visits[units] < self._allowed)

    def charge(self, units: NDArray[Any]) -> NDArray[np.bool_]:
        """Charge each of these records (or nodes) one visit where its budget allows it; return which were charged."""
        if np.unique(units).size != np.size(units):
            raise ValueError("a record is charged twice in one call: only one of the two would be counted")
        may = self.left(units)
        self.visits[units[may]] += 1
        return may

    def spent(self) -> NDArray[np.float64]:
        """The ε that each record has spent."""
        if math.isinf(self._epsilon):
            return np.where(self.visits > 0, math.inf, 0.0)
        share = 1 - np.ldexp(1.0, -self.visits) if self._halving else self.visits / self._allowed
        return np.asarray(self._epsilon * share)

    def metrics(self, besides: NDArray[np.float64] | None = None) -> dict[str, float]:
        """Mean and largest ε spent (and `besides`), and the share of records that may not be used any more."""
        spent = self.spent() if besides is None else self.spent() + besides
        if not spent.size:
            return {}
        exhausted = float((self.visits >= self._allowed).mean())
        return {"spent.mean": float(spent.mean()), "spent.max": float(spent.max()), "spent.exhausted": exhausted}
