"""What all layers that learn linear models by stochastic gradient descent have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.metrics import Metric
from golfsim.learning.lambda_choice import published_lambda
from golfsim.learning.updates import LEARNERS, Rule
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Layer, LayerConfig
from golfsim.protocol.learner import Learner, score
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Records

if TYPE_CHECKING:
    from golfsim.network.world import World


class DescentConfig(LayerConfig):
    """Whom to talk to, what to learn from, and how."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that tells where models go")
    records: Layer[Records[Any]] = Field(description="the records that models are updated with; “raw” is not private")
    learner: Literal["pegasos", "logistic", "mean"] = Field("pegasos", description="how a record changes a model")
    lam: Annotated[float, Field(gt=0)] | Literal["published-cv"] = Field(
        1e-4,
        alias="lambda",
        description="the regularisation λ; the step is 1/(λt). “published-cv” chooses it on held-out published "
        "records, at no cost in privacy",
    )
    batch: Literal["mini-batch", "one-by-one"] = Field(
        "mini-batch", description="several records of a node make one update together, or one each"
    )


D = TypeVar("D", bound=DescentConfig)


class Descent(Learner[D]):
    """A layer of linear models, `w` [holders, models, features], each with its age in updates."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("lambda", 'The λ that was chosen on published records; with `lambda = "published-cv"`.'),
    )

    def allocate(self, holders: int) -> None:
        """Zero models for so many holders."""
        config = self.config
        self.w = np.zeros((holders, config.records.models, config.records.features), np.float32)
        self.age = np.zeros(holders, np.int32)
        self.lam = 0.0 if config.lam == "published-cv" else float(config.lam)  # 0: not chosen yet
        self._message_bytes = int(np.prod(self.w.shape[1:])) * self.w.itemsize + self.age.itemsize

    def rule(self) -> Rule:
        """How models are updated; chooses λ the first time, where the scenario leaves that to the published records."""
        learner = LEARNERS[self.config.learner][0]
        if self.lam == 0:
            self.lam = published_lambda(self.config.records, learner, self.key("lambda"), self.name) or 0.0
        without_records = 1.0  # as long as nothing is published there is nothing to update with
        return Rule(learner, self.lam or without_records, self.config.batch == "one-by-one")

    def guarantee(self) -> Guarantee:
        """That of the records it learns from."""
        return self.config.records.guarantee()

    def observe(self, world: World) -> dict[str, float]:
        """The λ that was chosen, if it was."""
        return {"lambda": self.lam} if self.config.lam == "published-cv" else {}

    def released(self) -> NDArray[np.float64]:
        """All models, as they go from node to node."""
        return self.w.ravel().astype(np.float64) if self.touches_private_data else np.empty(0)

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """One matrix product for all models."""
        return score(self.w[nodes], x)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Updates on the way of each model."""
        return self.age[nodes]


def linear(w: NDArray[np.float32]) -> NDArray[np.float32]:
    """A view with a row for each linear model."""
    return w.reshape(w.size // w.shape[-1], w.shape[-1])
