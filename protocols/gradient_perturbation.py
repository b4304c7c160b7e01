"""Gradient descent on a walk, with noise on every gradient (Song, Chaudhuri & Sarwate 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from golfsim.learning.updates import SHARING, Noise, Sharing, guarantee_of_gradients, spent_on_all
from golfsim.privacy.choice import NoiseConfig, or_target
from golfsim.privacy.ledger import BUDGET_METRICS, Budget, Ledger, Schedule, UniformSchedule, visits_of
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Disclosure
from golfsim.protocol.records import refuse_unfit
from protocols.random_walk import Walk, WalkConfig

if TYPE_CHECKING:
    from golfsim.network.world import World


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


class GradientPerturbation(Walk[GradientPerturbationConfig]):
    """Mini-batch gradient descent on a random walk; noise is added to the mean gradient of each node's records."""

    Config = GradientPerturbationConfig
    metrics = (*Walk.metrics, *BUDGET_METRICS)

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

    def memory(self, world: World) -> int:
        """Return the bytes of the walks and of the ledger."""
        units = int(self.config.records.capacity().sum()) if self.config.unit == "record" else world.nodes
        return super().memory(world) + 4 * units

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
        """Return the metrics of a walk and the spent budget."""
        return super().observe(world) | self.ledger.metrics()
