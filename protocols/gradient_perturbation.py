"""Gradient descent on a walk, with noise on every gradient (Song, Chaudhuri & Sarwate 2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.errors import UserError
from golfsim.core.rng import sample
from golfsim.learning.learners.steps import Logistic, Mean
from golfsim.learning.updates import SHARING, Noise, Sharing, guarantee_of_gradients, reach_of, spent_on_all
from golfsim.privacy import walks
from golfsim.privacy.choice import NoiseConfig, or_target
from golfsim.privacy.ledger import BUDGET_METRICS, Budget, Ledger, Schedule, UniformSchedule, visits_of
from golfsim.privacy.mechanisms import ROUNDING, Guarantee, Pairwise
from golfsim.privacy.pairwise import METRICS as PAIRWISE_METRICS
from golfsim.protocol.base import Disclosure
from golfsim.protocol.moments import mean_of
from golfsim.protocol.records import refuse_unfit
from protocols.random_walk import Walk, WalkConfig

if TYPE_CHECKING:
    from golfsim.network.world import World


MOST_VISITS = 10_000  # of a record, where what nodes learn is computed


class GradientPerturbationConfig(WalkConfig, NoiseConfig):
    """The settings of a walk with noisy gradients."""

    epsilon: float = Field(
        ge=1e-6,
        allow_inf_nan=True,
        description="the budget ε of each record (or node); inf: no noise; “target”: the one for the target of "
        "`[privacy]`",
        json_schema_extra=or_target,
    )
    rule: Sharing = Field("shared", description=SHARING)
    schedule: Schedule = Field(
        UniformSchedule(kind="uniform", visits=1), description="how the budget is divided over the visits of a record"
    )
    norm: Literal["l1", "l2"] = Field(
        "l1", description="“l1”: Laplace noise, for records of L1 length ≤ 1; “l2”: Gamma-norm noise, for L2 length ≤ 1"
    )
    unit: Literal["record", "node"] = Field(
        "record", description="what ε protects: one record, or all records of a node"
    )
    batch: Literal["mini-batch"] = Field("mini-batch", description="make one update with all records of a node")
    account: int | None = Field(
        None,
        ge=1,
        description="with Gaussian noise and the learner “logistic” or “mean”: for this many nodes, drawn at random, "
        "compute what they learn about each other node from the tokens that they really had",
    )

    @model_validator(mode="after")
    def _accounted(self) -> GradientPerturbationConfig:
        if self.account is None:
            return self
        if not self.gaussian or math.isinf(self.epsilon):
            raise ValueError('account: needs noise = "gaussian" and a finite epsilon')
        if not isinstance(self.schedule, UniformSchedule) or self.schedule.visits > MOST_VISITS:
            raise ValueError(f"account: needs a uniform schedule of at most {MOST_VISITS} visits")
        if self.average != "none" or self.restart == "afresh":
            raise ValueError('account: needs average = "none", and no restart = "afresh"')
        return self


class GradientPerturbation(Walk[GradientPerturbationConfig]):
    """Mini-batch gradient descent on a random walk; noise is added to the mean gradient of each node's records."""

    Config = GradientPerturbationConfig
    metrics = (*Walk.metrics, *BUDGET_METRICS, *PAIRWISE_METRICS)

    def setup(self, world: World) -> None:
        """Check that no record is longer than the guarantee allows, and create the ledger."""
        super().setup(world)
        config = self.config
        self.refuse_unbounded()
        refuse_unfit(config.records, config.norm, self.name, any_length=config.learner.clips)
        units = config.records.rows.label.size if config.unit == "record" else world.nodes
        spent = spent_on_all(config.epsilon, config.rule, config.records.models)
        self.ledger = Ledger(config.schedule, spent, units, config.delta or 0.0)
        noise = Noise(True, config.noise_kind, config.unit == "record", self.key("noise"))
        self._noise = self.watched(noise, world, visits_of(config.schedule))
        self._ages = self.age
        if config.account is not None:
            if not isinstance(config.learner, Logistic | Mean):
                what = f"what nodes learn about each other is not known for “{config.learner.config.use}”"
                hint = "use the learner “logistic” or “mean”, whose updates bring two models closer, or remove account"
                raise UserError(what, key=f"{self.name}.account", hint=hint, docs="privacy")
            everyone = np.arange(world.nodes, dtype=np.int32)
            drawn = sample(self.key("observers"), 0, everyone, min(config.account, world.nodes))
            self.account = walks.Account(np.sort(drawn), world.nodes, config.walkers, self._most_updates(world))

    def memory(self, world: World) -> int:
        """Return the bytes of the walks and of the ledger."""
        units = int(self.config.records.capacity().sum()) if self.config.unit == "record" else world.nodes
        account = self.config.account
        if account is None:
            return super().memory(world) + 4 * units
        observers, most = min(account, world.nodes), self._most_updates(world)
        more = walks.Account.memory(observers, world.nodes, self.config.walkers, most)
        return super().memory(world) + 4 * units + more

    def _most_updates(self, world: World) -> int:
        """Return the largest number of updates: every one is a visit of all units of a node."""
        assert isinstance(self.config.schedule, UniformSchedule)
        return world.nodes * self.config.schedule.visits

    # What a node learns about other nodes

    @property
    def _followed(self) -> bool:
        return super()._followed or self.config.account is not None

    def _before(self, path: NDArray[np.int32]) -> None:
        super()._before(path)
        if self.config.account is not None:
            self.account.arrive(path)
            self._ages = self.age.copy()

    def _after(self, path: NDArray[np.int32]) -> None:
        super()._after(path)
        if self.config.account is None:
            return
        changed, rule, rows = self.age != self._ages, self.rule(), self.config.records.rows
        rate = np.array([reach_of(rule, age) if new else 0.0 for age, new in zip(self.age, changed, strict=True)])
        units = rows.stop[path] - rows.first[path] if self.config.unit == "record" else np.ones(path.size)
        mu = self.ledger.mu(1)
        noise = rate * 2 * (1 + ROUNDING) * math.sqrt(self.config.records.models) / (np.maximum(units, 1) * mu)
        firm = np.ones(path.size, np.bool_)
        if isinstance(self.config.learner, Logistic):
            firm = walks.steady(rate, self.config.learner.Numbers(*rule.numbers).lam, 1 + ROUNDING)
        self.account.update(path, changed, noise, mu, firm)

    def pairwise(self) -> Pairwise | None:
        """Return the ε from node to node for the tokens that nodes had; None if it is not asked for, or not proven."""
        config, stated, of = self.config, self.guarantee(), self.config.records
        if config.account is None or stated.epsilon is None or (config.unit == "record" and of.copies > 1):
            return None
        assert config.delta is not None
        found = walks.epsilons(self.account.seen, self.ledger.mu(self.ledger.most), config.epsilon, config.delta)
        pair = np.broadcast_to(of.capacity() > 0, found.shape).copy()
        pair[np.arange(len(pair)), self.account.observers] = False
        these = found[pair]
        return Pairwise(mean_of(these), float(these.max(initial=0)), config.delta, stated.unit, len(pair))

    def _privacy(self) -> tuple[Noise, Budget]:
        return self._noise, self.ledger.budget

    def _visits_allowed(self) -> int:
        return visits_of(self.config.schedule)

    def guarantee(self) -> Guarantee:
        """Return ε per record or node."""
        config = self.config
        return guarantee_of_gradients(config.records, config.epsilon, config.rule, config.unit, config.delta or 0.0)

    def disclosure(self) -> Disclosure:
        """Return that models with noisy gradients are released."""
        return Disclosure("models with noise in each gradient", "nobody")

    def observe(self, world: World) -> dict[str, float]:
        """Return the metrics of a walk, the spent budget, and the ε from node to node."""
        found = self.pairwise()
        more = {} if found is None else {"pairwise.epsilon.mean": found.mean, "pairwise.epsilon.max": found.largest}
        return super().observe(world) | self.ledger.metrics() | more
