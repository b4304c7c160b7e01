"""Provide the base class of layers that learn models online: by single records or small batches of them."""

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
from golfsim.learning.kinds import Rule, stand_at, with_room
from golfsim.learning.lambda_choice import published_lambda
from golfsim.learning.loading import Learns
from golfsim.learning.many import many_scores, refuse_several_updates
from golfsim.learning.online import Shape
from golfsim.learning.updates import Noise, Seen, scores_of
from golfsim.learning.watching import LARGEST_KEPT, MOST, Arrivals, closer_updates
from golfsim.privacy.mechanisms import Guarantee
from golfsim.privacy.noise import LAPLACE
from golfsim.protocol.base import Disclosure, Layer, LayerConfig
from golfsim.protocol.learner import Learner, Tie, score
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Published, Records
from golfsim.protocol.symbols import add

if TYPE_CHECKING:
    from golfsim.learning.exposure import Exposure
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


class LearningConfig(LayerConfig):
    """Settings of layers that update models by records."""

    records: Layer[Records[Any]] = Field(description="the records that models are updated with; “raw” is not private")
    learner: Learns = Field(
        "pegasos",
        validate_default=True,
        description="the learner (`golfsim list learners`): its name, a class of yours as “my_learner.py:MyLearner”, "
        'or a table with settings of its own: { use = "mlp", hidden = [32] }',
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
    tie: Tie | None = Field(
        None,
        description="the class that a zero score, equal scores or equal votes mean: the last one, the first one, a "
        "random one (always the same one per record and node), or for votes the one with the largest sum of scores; "
        "default: the last one of two classes, otherwise the first one",
    )

    @model_validator(mode="after")
    def _used(self) -> LearningConfig:
        for key, name in (("lambda", "lam"), ("offset", "offset")):
            given = name in self.model_fields_set and (key == "lambda" or self.offset != 0)
            if given and key not in self.learner.uses and not (key == "lambda" and self.learner.config.use == "mean"):
                raise ValueError(f"{key}: the learner “{self.learner.config.use}” has none")
        if self.lam == "published-cv" and not self.learner.linear:
            raise ValueError("lambda: “published-cv” requires a linear learner")
        batch = getattr(self, "batch", None)
        if batch == "one-by-one" and getattr(self.learner.config, "batch", None) is not None:
            raise ValueError('batch = "one-by-one" and the batch of the learner exclude each other')
        return self


class DescentConfig(LearningConfig):
    """Settings of layers whose nodes send models, and update what they receive with all their records."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that selects the receivers of models")
    batch: Literal["mini-batch", "one-by-one"] = Field(
        "mini-batch", description="make one update with all records of a node, or one update per record"
    )


D = TypeVar("D", bound=LearningConfig)
F = TypeVar("F", np.float32, np.float64)


@kernel
def fill_scores(w, x, rule, nodes, out):
    """Compute the scores of records by the models in the rows of w, with the learner's kernel.

    Parameters
    ----------
    w : array of float32, shape (models, numbers)
        The models.
    x : array of float32, shape (records, features)
        The records.
    rule : Rule
        The rule with the learner and its numbers.
    nodes : array of int, shape (models,)
        The node that predicts with each model, for learners that keep something at nodes.
    out : array of float32, shape (records · models, scores)
        The scores; filled here.
    """
    own = with_room(rule)
    for r in range(x.shape[0]):
        for i in range(w.shape[0]):
            stand_at(own, nodes[i])
            scores_of(own, w, i, x, r, out, r * w.shape[0] + i)


class Descent(Learner[D]):
    """A layer of models `w` [holders, rows, numbers]; the age of a model is its number of updates.

    A linear model has one row per linear model and one number per feature. All others have a single row.
    """

    batches: ClassVar[bool] = False  # whether it can use a learner that updates many models at once
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("lambda", 'The λ that was chosen on published records; with `lambda = "published-cv"`.'),
    )

    def allocate(self, world: World, holders: int) -> None:
        """Allocate the first models of a number of holders, and what each node keeps."""
        config = self.config
        config.learner.check_labels(config.records, self.name)
        if config.learner.batched and not self.batches:
            what = f"“{self.config.use}” cannot learn with a PyTorch module"
            hint = "use a layer that `golfsim help torch` lists, or another learner"
            raise UserError(what, key=f"{self.name}.learner", hint=hint, docs="torch")
        config.learner.fits(config.records, self.name)
        self._seen = self._shape_of_records()
        self._initial = config.learner.initial(self._seen, self.key("initial"))
        self.w = np.repeat(self._initial[None], holders, axis=0)
        self.age = np.zeros(holders, np.int32)
        self.lam = 0.0 if config.lam == "published-cv" else float(config.lam)  # 0: not chosen yet
        self.offset = UNKNOWN if config.offset == "published" else float(config.offset)
        if config.offset == "published" and not isinstance(config.records, Published):
            raise UserError(
                f"“{config.records.name}” is not published: the length of private records is not known",
                key=f"{self.name}.offset",
                hint="set offset to a number, or learn from a layer that publishes its records",
            )
        self._rule: Rule | None = None  # not known yet
        kept = config.learner.kept(self._seen)
        if kept:
            self.kept = np.zeros((world.nodes, kept), np.float32)
        self._message_bytes = int(np.prod(self.w.shape[1:])) * self.w.itemsize + self.age.itemsize

    def size_of_models(self, holders: int) -> int:
        """Return the bytes of the models of a number of holders, with their ages."""
        rows, numbers = self.config.learner.shape(self._shape_of_records())
        return size_of((np.float32, holders, rows, numbers), (np.int32, holders))

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of a copy of the models, and of one byte per score."""
        return self.size_of_models(nodes) + records * nodes * self.answers()

    def answers(self) -> int:
        """Return the number of scores per record: one per linear model, or what the learner states."""
        return self.config.learner.outputs(self._shape_of_records())

    @property
    def task(self) -> str:
        """What the scores are for."""
        return self.config.learner.task

    @property
    def probabilities(self) -> Literal["", "each", "all"]:
        """Whether scores are logarithms of odds; linear models have one for each class against the others."""
        learner = self.config.learner
        return "" if not learner.probabilities else "each" if learner.linear else "all"

    def _shape_of_records(self) -> Shape:
        records = self.config.records
        return Shape(records.features, records.classes, records.models, records.items)

    def rule(self) -> Rule:
        """Return the update rule; the first call chooses λ and t₀ if they follow from published records."""
        if self._rule is None:
            found = self._new_rule()
            if self.lam > 0 and self.offset != UNKNOWN:
                self._rule = found
        else:
            found = self._rule
        return found._replace(room=found.room._replace(own=self.kept)) if hasattr(self, "kept") else found

    def _new_rule(self) -> Rule:
        learner = self.config.learner
        if self.lam == 0:
            self.lam = published_lambda(self.config.records, learner, self.key("lambda"), self.name) or 0.0
        without_records = 1.0  # never used: without published records there are no updates
        lam = self.lam or without_records
        if self.offset == UNKNOWN:
            rows = self.config.records.rows
            square = float(mean_square(rows, self.config.records.models if rows.folded else 1))
            self.offset = UNKNOWN if square == UNKNOWN else square / lam
        one_by_one = getattr(self.config, "batch", None) == "one-by-one"
        norm = getattr(self.config, "norm", "l2")
        return learner.rule(self._seen, lam, one_by_one, max(self.offset, 0.0), norm)

    def refuse_unbounded(self) -> None:
        """Refuse noise in gradients of which no largest length is known."""
        if self.config.learner.bound() is None:
            name = self.config.learner.config.use
            fields = type(self.config.learner.config).model_fields
            raise UserError(
                f"the gradients of “{name}” have no largest length, so no noise protects a record",
                key=f"{self.name}.learner",
                hint=f'use learner = {{ use = "{name}", clip = 1.0 }}' if "clip" in fields else "use another learner",
                docs="privacy",
            )
        if self.config.learner.batched:
            refuse_several_updates(self.config.learner, self.name)

    def watched(self, noise: Noise, world: World, updates: int = 1) -> Noise:
        """Return this perturbation, which also keeps the first updates at the nodes of canaries; call in `setup`."""
        self._arrivals: Arrivals | None = None
        if self._canaries is None:
            return noise
        if self.config.learner.batched:
            what = "the audit with one run does not see the updates of a PyTorch module"
            raise UserError(what, key=f"{self.name}.learner", hint="audit without --one-run", docs="privacy")
        room = LARGEST_KEPT // max(1, 2 * self.w[0].nbytes * self._canaries.node.size)
        self._kept = Seen.at(self._canaries.node, world.nodes, max(1, min(updates, MOST, room)), self.w.shape[1:])
        if self._canaries.observers is not None:
            self._arrivals = Arrivals(self._canaries, self._kept, world.nodes)
        return noise._replace(seen=self._kept)

    def evidence(self) -> NDArray[np.float64] | None:
        """Return how much closer the updates at each canary are to those with its first content.

        For some observers only, return the coordinates of what they receive in which a canary can differ.
        """
        if self._canaries is None or not hasattr(self, "_kept") or not self._kept.kept.any():
            return None
        if self._arrivals is not None:
            return self._arrivals.evidence(self._canaries)
        kind = getattr(self.config, "noise_kind", LAPLACE)
        return closer_updates(self._kept, self._canaries, self.config.records.rows, self.rule(), kind)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the records that the layer learns from."""
        return self.config.records.guarantee()

    def disclosure(self) -> Disclosure:
        """Return that models are sent as they are."""
        return Disclosure("models without noise", "all nodes")

    def expose(self, exposure: Exposure, world: World) -> bool:
        """Add what attackers see of records from now on, and return whether the layer can do so."""
        return False

    def observe(self, world: World) -> dict[str, float]:
        """Return the chosen λ if `lambda` is “published-cv”."""
        return {"lambda": self.lam} if self.config.lam == "published-cv" else {}

    def released(self) -> NDArray[np.float64]:
        """Return all models as nodes send them, if the layer uses private data."""
        return self.w.ravel().astype(np.float64) if self.touches_private_data else np.empty(0)

    @property
    def tie(self) -> Tie | None:
        """Which class a zero score or a tie of votes means."""
        return self.config.tie

    def models(self, holders: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the models that predict, [holders, models, features]."""
        return self.w[holders]

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of the models of these nodes."""
        return self.scores_by(self.models(nodes), x, nodes if self.at_nodes else None)

    def scores_for(
        self, holders: NDArray[np.int32], nodes: NDArray[np.int32], x: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the scores of the models of some holders, for nodes that may keep something in addition to it."""
        return self.scores_by(self.models(holders), x, nodes)

    def scores_by(
        self, models: NDArray[np.float32], x: NDArray[np.float32], nodes: NDArray[np.int32] | None = None
    ) -> NDArray[np.float32]:
        """Return the scores [records, holders, scores] of records by some models [holders, rows, numbers].

        `nodes` are those that predict; a learner that keeps something at nodes needs them.
        """
        if self.config.learner.linear:
            return score(models, x)
        if self.config.learner.batched:
            return many_scores(self.config.learner, self._seen, models[:, 0], x)
        outputs = self.config.learner.outputs(self._seen)  # `answers` also counts votes
        out = np.empty((len(x), len(models), outputs), np.float32)
        nodes = np.zeros(len(models), np.int32) if nodes is None else nodes
        fill_scores(linear(models), x, self.rule(), nodes, out.reshape(-1, out.shape[-1]))
        return out

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of updates of each model."""
        return self.age[nodes]


def linear(w: NDArray[F]) -> NDArray[F]:
    """Return a view with one row per linear model."""
    return w.reshape(w.size // w.shape[-1], w.shape[-1])
