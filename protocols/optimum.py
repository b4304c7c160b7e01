"""One model that is fitted to the records of all nodes at once: the limit that gossip learning approaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.learning import optimum
from golfsim.learning.closed_form import FITS, lacking, refuse_unknown
from golfsim.learning.lambda_choice import (
    GRID,
    SHRINKS,
    Choice,
    Offer,
    fitted,
    published_lambda,
    published_learner,
    refuse_private,
)
from golfsim.learning.loading import make
from golfsim.learning.optimum import OBJECTIVES
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Disclosure, Layer, LayerConfig
from golfsim.protocol.learner import Learner, score
from golfsim.protocol.moments import at_once
from golfsim.protocol.records import Records, fingerprint

if TYPE_CHECKING:
    from golfsim.network.world import World


LEARNED = (*OBJECTIVES, *FITS)  # what “best” chooses from; the number of a learner is its place here


class OptimumConfig(LayerConfig):
    """The records and the objective."""

    records: Layer[Records[Any]] = Field(description="the records of all nodes; “raw” is not private")
    learner: Literal["pegasos", "logistic", "mean", "centroid", "lda", "best"] = Field(
        "pegasos",
        description="the objective: that of Pegasos (hinge loss), of logistic regression, or the mean of yx; the "
        "nearest class mean (“centroid”) or linear discriminant analysis (“lda”), both corrected for known noise; "
        "“best”: the one that agrees best with held-out published records, which spends no privacy budget",
    )
    lam: Annotated[float, Field(gt=0)] | Literal["published-cv"] = Field(
        1e-4,
        alias="lambda",
        description="the regularisation λ; “published-cv” chooses λ on held-out published records, which spends no "
        "privacy budget",
    )
    shrink: Annotated[float, Field(ge=0, le=100)] | Literal["published-cv"] = Field(
        1.0,
        description="centroid, lda: how strongly class means are moved to the common mean; 1: as the known noise asks "
        "for, 0: not at all; “published-cv” chooses from 0, 1/2, 1, 2 and 4 on held-out published records, which "
        "spends no privacy budget",
    )
    tolerance: float = Field(
        1e-3,
        gt=0,
        lt=1,
        description="the largest distance of the objective to its minimum, as a share of the objective; the duality "
        "gap proves it",
    )

    @model_validator(mode="after")
    def _shrinks(self) -> OptimumConfig:
        if "shrink" in self.model_fields_set and self.learner in OBJECTIVES:
            raise ValueError('shrink requires learner = "centroid", "lda" or "best"')
        return self


class Optimum(Learner[OptimumConfig]):
    """A model that minimises the objective over all records that its layer has, fitted again when they change."""

    Config = OptimumConfig
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (
        Metric("records", "The number of records that the model was fitted to.", "records"),
        Metric(
            "lambda",
            'The λ that was chosen on published records; with `lambda = "published-cv"`. It is 0 if the chosen learner '
            "has none.",
        ),
        Metric(
            "learner",
            "The learner that was chosen on published records: 0 is “pegasos”, 1 “logistic”, 2 “mean”, 3 “centroid”, "
            '4 “lda”; with `learner = "best"`.',
        ),
        Metric(
            "shrink",
            'The shrinkage of class means that was chosen on published records; with `shrink = "published-cv"`. It is '
            "0 if the chosen learner has none.",
        ),
    )

    def setup(self, world: World) -> None:
        """Set the model to zero."""
        config, records = self.config, self.config.records
        self.w = np.zeros((1, records.models, records.features), np.float32)
        self.fits = np.zeros(1, np.int32)
        self.fitted = np.zeros(3, np.int64)  # what identifies the records of the last fit
        self.lam = 0.0 if config.lam == "published-cv" else float(config.lam)  # 0: not chosen yet
        if config.learner in FITS:
            refuse_unknown(records, config.learner, f"{self.name}.learner")
        if config.learner == "best" or config.learner in FITS:
            self.bias = np.zeros((1, records.models), np.float32)
        if config.learner == "best":
            self._published = refuse_private(records, "the learner", f"{self.name}.learner", "choose a learner")
            self.chosen = -1  # not chosen yet
        if config.shrink == "published-cv":
            self._published = refuse_private(records, "the shrinkage", f"{self.name}.shrink", "set shrink to a number")
            self.shrink = -1.0  # not chosen yet

    def memory(self, world: World) -> int:
        """Return the bytes of the model and of a fit."""
        records, learner = self.config.records, self.config.learner
        vectors = 5 + 2 * optimum.REMEMBERED
        model = size_of((12, records.models, records.features), (np.float64, vectors * world.threads, records.features))
        numbers = records.value_width(learner != "centroid")
        if learner in OBJECTIVES or not numbers:
            return model
        matrices = 0 if learner == "centroid" else 8 * records.features**2
        nodes = min(at_once(numbers), world.nodes)
        return model + size_of((np.float64, nodes + 3, numbers), (np.float64, matrices))

    def step(self, world: World) -> None:
        """Fit the model if records were added or removed."""
        rows = self.config.records.rows
        now = fingerprint(rows)
        if now[0] == now[1] or not (now != self.fitted).any():
            return
        choice = self._choice(world)
        if choice is None:
            return
        self.fitted[:] = now
        learner, models = choice.learner, self.w.shape[1]
        if learner in FITS:
            everyone = np.arange(world.nodes, dtype=np.int32)
            model = fitted(self.config.records, world, everyone, learner, choice.shrink)
            self.w[0], self.bias[0] = model[:, :-1], model[:, -1]
        else:
            self.w[0] = optimum.fit(rows, models, learner, choice.lam, self.config.tolerance, world.threads, self.name)
        self.fits += 1

    def _choice(self, world: World) -> Choice | None:
        """Return the learner with λ and shrinkage; None if there are too few published records to choose them."""
        config, records = self.config, self.config.records
        if config.learner == "best" or (config.learner in FITS and config.shrink == "published-cv"):
            if not self.fits.any():
                choice = published_learner(self._published, world, self._offer(), self.key("lambda"))
                if choice is None:
                    return None
                self._keep(choice)
            learner = LEARNED[self.chosen] if config.learner == "best" else config.learner
            return Choice(learner, self.lam, self._shrink())
        if self.lam == 0 and config.learner not in FITS:
            self.lam = published_lambda(records, make(config.learner), self.key("lambda"), self.name) or 0.0
        return Choice(config.learner, self.lam, self._shrink()) if self.lam > 0 or config.learner in FITS else None

    def _offer(self) -> Offer:
        config, records = self.config, self.config.records
        known = tuple(learner for learner in LEARNED if learner in OBJECTIVES or not lacking(records, learner))
        return Offer(
            known if config.learner == "best" else (config.learner,),
            GRID if config.lam == "published-cv" else (float(config.lam),),
            SHRINKS if config.shrink == "published-cv" else (float(config.shrink),),
        )

    def _keep(self, choice: Choice) -> None:
        """Store what was chosen."""
        if self.config.learner == "best":
            self.chosen, self.lam = LEARNED.index(choice.learner), choice.lam
        if self.config.shrink == "published-cv":
            self.shrink = choice.shrink

    def _shrink(self) -> float:
        return self.shrink if self.config.shrink == "published-cv" else float(self.config.shrink)

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
        if not self.touches_private_data:
            return np.empty(0)
        return np.concatenate([array.ravel().astype(np.float64) for array in (self.w, self._bias())])

    def _bias(self) -> NDArray[np.float32]:
        """Return the bias of each model; empty for learners without one."""
        return self.bias if hasattr(self, "bias") else np.empty(0, np.float32)

    def observe(self, world: World) -> dict[str, float]:
        """Return the number of records, and what was chosen."""
        found = {"records": float(self.fitted[1] - self.fitted[0])}
        if self.config.lam == "published-cv" and self.config.learner not in FITS:
            found["lambda"] = self.lam
        if self.config.shrink == "published-cv":
            found["shrink"] = self.shrink
        return found | ({"learner": float(self.chosen)} if self.config.learner == "best" else {})

    def answers(self) -> int:
        """Return one score per linear model."""
        return self.config.records.models

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return one byte per score."""
        return records * self.config.records.models

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of the model."""
        found = score(self.w[nodes], x)
        return found + self.bias[nodes] if hasattr(self, "bias") else found

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of fits."""
        return self.fits[nodes]
