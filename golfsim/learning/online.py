"""What an online learner is: a class with its settings and the kernels that change a model by records.

A model is a row of numbers at each node. Layers such as Golf decide which node updates which model, and when. A learner
decides how: by `LinearLearner` for linear models, one per class, by `GradientLearner` for any model whose loss has a
gradient, or by `OnlineLearner` for everything else. Kernels get the learner's numbers `s` (its class `Numbers`), and an
array with the number of a row instead of the row.
"""

from __future__ import annotations

import math
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.errors import UserError
from golfsim.core.provenance import ROOTS, digest_of
from golfsim.core.settings import Settings
from golfsim.learning.kinds import Room, Rule, kind_of
from golfsim.protocol.symbols import are_symbols

if TYPE_CHECKING:
    from golfsim.protocol.records import Records

Task = Literal["classes", "clusters", "numbers", "ratings"]
LABELS = {"classes": "classes", "clusters": "classes, to judge clusters by", "numbers": "numbers", "ratings": "ratings"}


class LearnerConfig(Settings):
    """The settings that every learner has: its name."""

    use: str = Field(description="a learner (`golfsim list learners`), or a class of yours: “my_learner.py:MyLearner”")


C = TypeVar("C", bound=LearnerConfig)


class Regularised(NamedTuple):
    """The numbers that a layer gives to each learner; those of a learner begin with them."""

    lam: float
    offset: float = 0.0  # t₀ in the learning rate 1/(λ(t + t₀))


class Shape(NamedTuple):
    """What a learner must know of records."""

    features: int
    classes: int
    models: int  # the number of linear models that separate the classes
    items: int = 0  # that are rated, if labels are ratings


class OnlineLearner(Generic[C]):
    """A learner. Subclasses assign kernels over a model, which is row i of w.

    `update(s, w, i, t, rows, first, stop, room)` makes the t-th update of the model by the records first … stop−1,
    where t = 1, 2, …; `scores(s, w, i, x, r, out, o, room)` writes the scores of record r into row o of `out`, and
    `merge(s, a, i, b, j, share, room)`, if there is one, replaces the model in row j of b by the merge with the one in
    row i of a, which has the weight `share`. Without `merge` it is the weighted mean.
    """

    Config: ClassVar[type[LearnerConfig]] = LearnerConfig
    Numbers: ClassVar[type[Any]] = Regularised
    linear: ClassVar[bool] = False
    batched: ClassVar[bool] = False  # it has no kernels, but methods over many models (golfsim.learning.many)
    task: ClassVar[Task] = "classes"  # what the scores are for
    independent: ClassVar[bool] = False  # `merge` takes two models as made from different records
    probabilities: ClassVar[bool] = False  # whether scores are logarithms of odds, so that there is a log loss
    uses: ClassVar[frozenset[str]] = frozenset()  # the settings of layers that it uses: lambda, offset
    update: ClassVar[Any] = None
    scores: ClassVar[Any] = None
    merge: ClassVar[Any] = None

    def __init__(self, config: C) -> None:
        self.config = config
        cls = type(self)
        name = f"{cls.__module__}_{cls.__qualname__}_{source_digest(cls.__module__)}"
        self._kind = kind_of(cls, re.sub(r"\W", "_", name))

    def __repr__(self) -> str:
        return f"<learner {self.config.use}>"

    def shape(self, records: Shape) -> tuple[int, int]:
        """Return the rows of a model and the numbers per row."""
        raise NotImplementedError

    def outputs(self, records: Shape) -> int:
        """Return the number of scores per record."""
        return records.models

    def numbers(self, records: Shape, lam: float, offset: float) -> Any:
        """Return the numbers for kernels, of the class `Numbers`."""
        return self.Numbers(lam, offset)

    def initial(self, records: Shape, key: np.uint64) -> NDArray[np.float32]:
        """Return the model that each node starts with."""
        return np.zeros(self.shape(records), np.float32)

    def room(self, records: Shape) -> int:
        """Return how many numbers of working memory an update and the scores need."""
        return 0

    def kept(self, records: Shape) -> int:
        """Return how many numbers each node keeps in addition to the model and never sends."""
        return 0

    def bound(self) -> float | None:
        """Return the largest length of the gradient of a record of length 1; None: there is none."""
        return None

    @property
    def clips(self) -> bool:
        """Whether the gradient of a record has the length `bound`, however long the record is."""
        return False

    def fits(self, records: Records[Any], layer: str) -> None:
        """Refuse records that it cannot learn from."""
        if records.rows.folded or are_symbols(records.rows.x):
            raise UserError(
                f"“{self.config.use}” needs records with features and a label; “{records.name}” publishes others",
                key=f"{layer}.records",
                hint='use a linear learner, or mode = "label+features" of data_perturbation',
            )

    def check_labels(self, records: Records[Any], layer: str) -> None:
        """Refuse records whose labels are of another kind than those that it learns from."""
        there = "ratings" if records.items else "classes" if records.classes else "numbers"
        if there != ("classes" if self.task == "clusters" else self.task):
            fitting = {"classes": "pegasos", "numbers": "linear_regression", "ratings": "matrix_factorisation"}[there]
            raise UserError(
                f"“{self.config.use}” needs labels that are {LABELS[self.task]}; those of the data are {there}",
                key=f"{layer}.learner",
                hint=f"use learner = “{fitting}”, or set task in [data] if the labels are something else",
                docs="learners",
            )

    def steps(self, lam: float, norm: str) -> Any:
        """Return how a gradient changes a model, if it has one."""
        return ()

    def rule(self, records: Shape, lam: float, one_by_one: bool, offset: float = 0.0, norm: str = "l2") -> Rule:
        """Return what kernels need to update a model."""
        numbers = tuple(self.numbers(records, lam, offset))
        if self.linear:
            return Rule(self._kind, one_by_one, numbers)
        width = self.parameters(records)
        room = Room(
            np.zeros((0, self.kept(records)), np.float32),
            np.zeros((1, width), np.float32),
            np.zeros((1, width), np.float32),
            np.zeros((1, self.room(records)), np.float32),
            np.zeros(1, np.int64),
        )
        return Rule(self._kind, one_by_one, numbers, self.steps(lam, norm), room)

    def parameters(self, records: Shape) -> int:
        """Return how many numbers a gradient has."""
        return 0

    def as_setting(self) -> Any:
        """Return the learner as a scenario writes it: its name, or a table if it has settings of its own."""
        table = self.config.model_dump(mode="json", by_alias=True, exclude_none=True)
        return table if len(table) > 1 else self.config.use


class LinearLearner(OnlineLearner[C]):
    """A learner of linear models, one row per class, or a single one for two classes.

    The t-th update with a record x of class y = ±1 is w ← decay·w + step·yx, where the margin is y·w·x. Subclasses
    assign the kernels `step(s, margin, t)`, `decay(s, t)` and `reach(s, t)`, the largest step that is possible.
    """

    linear = True
    step: ClassVar[Any] = None
    decay: ClassVar[Any] = None
    reach: ClassVar[Any] = None

    def shape(self, records: Shape) -> tuple[int, int]:
        """Return one row per linear model, with a weight for each feature."""
        return records.models, records.features

    def fits(self, records: Records[Any], layer: str) -> None:
        """Accept all records."""

    def bound(self) -> float | None:
        """Return that `reach` is right."""
        return 1.0


SGD, MOMENTUM, ADAM = range(3)
OPTIMISERS = {"sgd": SGD, "momentum": MOMENTUM, "adam": ADAM}
STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # numbers that a model has beside each parameter


class Steps(NamedTuple):
    """How a gradient changes a model."""

    optimiser: int
    rate: float
    fade: float
    lam: float
    momentum: float
    second: float
    clip: float  # the largest length of the gradient of a record; 0: no limit
    l1: bool  # whether this length is the L1 length


class GradientConfig(LearnerConfig):
    """The settings of learners with a gradient."""

    rate: float = Field(0.1, gt=0, le=1e6, description="the learning rate η")
    fade: float = Field(0.0, ge=0, description="how the rate of update t falls: η/(1 + fade·(t − 1)); 0: constant")
    optimiser: Literal["sgd", "momentum", "adam"] = Field(
        "sgd",
        description="what a gradient does: a step against it (“sgd”), against its decaying sum (“momentum”), or Adam "
        "(Kingma & Ba 2015). The sums belong to the model: they are sent and merged with it",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="the decay β₁ of the sum of gradients (momentum, adam)")
    second: float = Field(0.999, ge=0, lt=1, description="the decay β₂ of the mean squared gradient (adam)")
    clip: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="the largest length of the gradient of a record; longer ones are scaled down. Required for noise "
        "in gradients",
    )


G = TypeVar("G", bound=GradientConfig)


class GradientLearner(OnlineLearner[G]):
    """A learner whose model is one row of parameters, with a loss that has a gradient.

    Subclasses assign the kernels `gradient(s, w, i, x, r, label, out, work)`, which adds the gradient of the loss of
    record r to row 0 of `out`, and `scores`.
    """

    Config: ClassVar[type[GradientConfig]] = GradientConfig
    uses = frozenset({"lambda"})
    gradient: ClassVar[Any] = None

    def parameters(self, records: Shape) -> int:
        """Return the number of parameters."""
        raise NotImplementedError

    def shape(self, records: Shape) -> tuple[int, int]:
        """Return one row: the parameters, and what the optimiser remembers of each."""
        return 1, self.parameters(records) * (1 + STATES[self.config.optimiser])

    def bound(self) -> float | None:
        """Return the length that gradients are clipped to."""
        return self.config.clip

    @property
    def clips(self) -> bool:
        """Whether gradients are clipped."""
        return self.config.clip is not None

    def steps(self, lam: float, norm: str) -> Steps:
        """Return how a gradient changes a model."""
        c = self.config
        clip = 0.0 if c.clip is None else float(c.clip)
        return Steps(OPTIMISERS[c.optimiser], c.rate, c.fade, lam, c.momentum, c.second, clip, norm == "l1")


def spread_evenly(fan_in: int, fan_out: int) -> float:
    """Return the largest initial weight between two layers of neurons (Glorot & Bengio 2010)."""
    return math.sqrt(6 / (fan_in + fan_out))


@cache
def source_digest(module: str) -> str:
    """Return a hash of the Python files next to a user's learner; golfsim's own are part of the version of all code."""
    source = Path(sys.modules[module].__file__ or "")
    return "" if any(root in source.parents for root in ROOTS) else digest_of(sorted(source.parent.glob("*.py")))
