"""One model that is fitted to the records of all nodes at once: the limit that gossip learning approaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.learning import optimum
from golfsim.learning.lambda_choice import published_lambda
from golfsim.learning.updates import LEARNERS
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Disclosure, Layer, LayerConfig
from golfsim.protocol.learner import Learner, score
from golfsim.protocol.records import Records, fingerprint

if TYPE_CHECKING:
    from golfsim.network.world import World


class OptimumConfig(LayerConfig):
    """The records and the objective."""

    records: Layer[Records[Any]] = Field(description="the records of all nodes; “raw” is not private")
    learner: Literal["pegasos", "logistic", "mean"] = Field(
        "pegasos",
        description="the objective: that of Pegasos (hinge loss), of logistic regression, or the mean of yx",
    )
    lam: Annotated[float, Field(gt=0)] | Literal["published-cv"] = Field(
        1e-4,
        alias="lambda",
        description="the regularisation λ; “published-cv” chooses λ on held-out published records, which spends no "
        "privacy budget",
    )
    tolerance: float = Field(
        1e-3,
        gt=0,
        lt=1,
        description="the largest distance of the objective to its minimum, as a share of the objective; the duality "
        "gap proves it",
    )


class Optimum(Learner[OptimumConfig]):
    """A model that minimises the objective over all records that its layer has, fitted again when they change."""

    Config = OptimumConfig
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (
        Metric("records", "The number of records that the model was fitted to.", "records"),
        Metric("lambda", 'The λ that was chosen on published records; with `lambda = "published-cv"`.'),
    )

    def setup(self, world: World) -> None:
        """Set the model to zero."""
        records = self.config.records
        self.w = np.zeros((1, records.models, records.features), np.float32)
        self.fits = np.zeros(1, np.int32)
        self.fitted = np.zeros(3, np.int64)  # what identifies the records of the last fit
        self.lam = 0.0 if self.config.lam == "published-cv" else float(self.config.lam)  # 0: not chosen yet

    def memory(self, world: World) -> int:
        """Return the bytes of the model and of a fit."""
        records = self.config.records
        vectors = 5 + 2 * optimum.REMEMBERED
        return size_of((12, records.models, records.features), (np.float64, vectors * world.threads, records.features))

    def step(self, world: World) -> None:
        """Fit the model if records were added or removed."""
        rows = self.config.records.rows
        now = fingerprint(rows)
        lam = self._lambda() if now[0] != now[1] else 0.0
        if lam > 0 and (now != self.fitted).any():
            self.fitted[:] = now
            config, models = self.config, self.w.shape[1]
            self.w[0] = optimum.fit(rows, models, config.learner, lam, config.tolerance, world.threads, self.name)
            self.fits += 1

    def _lambda(self) -> float:
        if self.lam == 0:
            learner = LEARNERS[self.config.learner][0]
            self.lam = published_lambda(self.config.records, learner, self.key("lambda"), self.name) or 0.0
        return self.lam

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return no arrays: the model belongs to no node."""
        return {}

    def holders(self, world: World) -> NDArray[np.int32]:
        """Return the only model, once it is fitted."""
        return np.flatnonzero(self.fits > 0).astype(np.int32)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the records that the model is fitted to."""
        return self.config.records.guarantee()

    def disclosure(self) -> Disclosure:
        """Return that the model is released as it is."""
        return Disclosure("a model without noise", "the central learner")

    def released(self) -> NDArray[np.float64]:
        """Return the model, if it is fitted to private records."""
        return self.w.ravel().astype(np.float64) if self.touches_private_data else np.empty(0)

    def observe(self, world: World) -> dict[str, float]:
        """Return the number of records, and λ if it was chosen."""
        found = {"records": float(self.fitted[1] - self.fitted[0])}
        return found | ({"lambda": self.lam} if self.config.lam == "published-cv" else {})

    def answers(self) -> int:
        """Return one score per linear model."""
        return self.config.records.models

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return one byte per score."""
        return records * self.config.records.models

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of the model."""
        return score(self.w[nodes], x)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of fits."""
        return self.fits[nodes]
