"""Provide the base class of layers that learn linear models by stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.core.simd import dot
from golfsim.learning.lambda_choice import published_lambda
from golfsim.learning.updates import LEARNERS, Rule
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Disclosure, Layer, LayerConfig
from golfsim.protocol.learner import Learner, score
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Published, Records
from golfsim.protocol.symbols import add

if TYPE_CHECKING:
    from golfsim.network.world import World


UNKNOWN = -1.0  # no record is published yet


@kernel
def mean_square(rows, slices):
    """Return the mean squared length of all vectors of the records; UNKNOWN without records."""
    total, number, own = 0.0, 0, np.empty((1, rows.x.shape[1]), np.float32)
    for node in range(rows.first.size):
        for r in range(rows.first[node] * slices, rows.stop[node] * slices):
            own[:] = 0
            add(own[0], np.float32(1), rows.x, r)
            total += dot(own, 0, own, 0)
            number += 1
    return total / number if number > 0 else UNKNOWN


class DescentConfig(LayerConfig):
    """Settings of layers that learn by stochastic gradient descent."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that selects the receivers of models")
    records: Layer[Records[Any]] = Field(description="the records that models are updated with; “raw” is not private")
    learner: Literal["pegasos", "logistic", "mean"] = Field(
        "pegasos", description="the update rule (`golfsim list learners`)"
    )
    lam: Annotated[float, Field(gt=0)] | Literal["published-cv"] = Field(
        1e-4,
        alias="lambda",
        description="the regularisation λ; the step size is 1/(λt). “published-cv” chooses λ on held-out published "
        "records, which spends no privacy budget",
    )
    offset: Annotated[float, Field(ge=0)] | Literal["published"] = Field(
        0.0,
        description="t₀ in the step size 1/(λ(t + t₀)): a large t₀ makes the first steps shorter. “published”: the "
        "mean squared length of the published records divided by λ, so that the first step is the inverse of it",
    )
    batch: Literal["mini-batch", "one-by-one"] = Field(
        "mini-batch", description="make one update with all records of a node, or one update per record"
    )

    @model_validator(mode="after")
    def _offset(self) -> DescentConfig:
        if self.offset != 0 and self.learner == "mean":
            raise ValueError("offset: the learner “mean” has no step size")
        return self


D = TypeVar("D", bound=DescentConfig)
F = TypeVar("F", np.float32, np.float64)


class Descent(Learner[D]):
    """A layer of linear models `w` [holders, models, features]; the age of a model is its number of updates."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("lambda", 'The λ that was chosen on published records; with `lambda = "published-cv"`.'),
    )

    def allocate(self, holders: int) -> None:
        """Allocate models of zeros for a number of holders."""
        config = self.config
        self.w = np.zeros((holders, config.records.models, config.records.features), np.float32)
        self.age = np.zeros(holders, np.int32)
        self.lam = 0.0 if config.lam == "published-cv" else float(config.lam)  # 0: not chosen yet
        self.offset = UNKNOWN if config.offset == "published" else float(config.offset)
        if config.offset == "published" and not isinstance(config.records, Published):
            raise UserError(
                f"“{config.records.name}” is not published: the length of private records is not known",
                key=f"{self.name}.offset",
                hint="set offset to a number, or learn from a layer that publishes its records",
            )
        self._message_bytes = int(np.prod(self.w.shape[1:])) * self.w.itemsize + self.age.itemsize

    def size_of_models(self, holders: int) -> int:
        """Return the bytes of the models of a number of holders, with their ages."""
        records = self.config.records
        return size_of((np.float32, holders, records.models, records.features), (np.int32, holders))

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of a copy of the models, and of one byte per score."""
        return self.size_of_models(nodes) + records * nodes * self.config.records.models

    def answers(self) -> int:
        """Return one score per linear model."""
        return self.config.records.models

    def rule(self) -> Rule:
        """Return the update rule; the first call chooses λ and t₀ if they follow from published records."""
        learner = LEARNERS[self.config.learner][0]
        if self.lam == 0:
            self.lam = published_lambda(self.config.records, learner, self.key("lambda"), self.name) or 0.0
        without_records = 1.0  # never used: without published records there are no updates
        lam = self.lam or without_records
        if self.offset == UNKNOWN:
            rows = self.config.records.rows
            square = float(mean_square(rows, self.config.records.models if rows.folded else 1))
            self.offset = UNKNOWN if square == UNKNOWN else square / lam
        return Rule(learner, lam, self.config.batch == "one-by-one", max(self.offset, 0.0))

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the records that the layer learns from."""
        return self.config.records.guarantee()

    def disclosure(self) -> Disclosure:
        """Return that models are sent as they are."""
        return Disclosure("models without noise", "all nodes")

    def observe(self, world: World) -> dict[str, float]:
        """Return the chosen λ if `lambda` is “published-cv”."""
        return {"lambda": self.lam} if self.config.lam == "published-cv" else {}

    def released(self) -> NDArray[np.float64]:
        """Return all models as nodes send them, if the layer uses private data."""
        return self.w.ravel().astype(np.float64) if self.touches_private_data else np.empty(0)

    def models(self, holders: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the models that predict, [holders, models, features]."""
        return self.w[holders]

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of all models, by one matrix product."""
        return score(self.models(nodes), x)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of updates of each model."""
        return self.age[nodes]


def linear(w: NDArray[F]) -> NDArray[F]:
    """Return a view with one row per linear model."""
    return w.reshape(w.size // w.shape[-1], w.shape[-1])
