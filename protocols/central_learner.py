"""One model that learns from the records of all online nodes, one after the other: an upper reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from golfsim.core import rng
from golfsim.core.kernels import kernel
from golfsim.core.memory import size_of
from golfsim.learning.kinds import with_room
from golfsim.learning.linear import LearningConfig, linear
from golfsim.learning.many import update_many, without_noise
from golfsim.learning.shared import SharedModel
from golfsim.learning.updates import amend
from golfsim.protocol.base import Disclosure
from golfsim.protocol.records import ranges

if TYPE_CHECKING:
    from golfsim.network.world import World

COLLECTED = 24  # bytes per record: its number, its place in a random order, and where they are put together


@kernel
def learn_in_order(w, models, age, rows, order, rule):
    """Update a model by one record after the other.

    Parameters
    ----------
    w : array of float32, shape (models, numbers)
        The model; changed in place.
    models : int
        The number of rows of the model.
    age : array of int32, shape (1,)
        The number of its updates; changed in place.
    rows : Rows
        The records.
    order : array of int64
        The records to use, in this order.
    rule : Rule
        The update rule.
    """
    rule = with_room(rule)
    for record in order:
        age[0] = amend(w, 0, models, age[0], rows, record, record + 1, rule)


class CentralLearnerConfig(LearningConfig):
    """The settings of the central learner."""

    per_cycle: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        "all",
        description="how many different records, drawn at random, the model learns from per cycle; “all”: one pass "
        "over the records of all online nodes, in random order",
    )


class CentralLearner(SharedModel[CentralLearnerConfig]):
    """One place has the records of all online nodes, and learns from them in random order. A reference: not private."""

    Config = CentralLearnerConfig
    accepts = frozenset({"loss", "delay", "partition"})

    def memory(self, world: World) -> int:
        """Return the bytes of the model and of the order of the records."""
        return self.size_of_models(1) + size_of((COLLECTED, int(self.config.records.capacity().sum())))

    def step(self, world: World) -> None:
        """Update the model by records of the online nodes."""
        rows = self.config.records.rows
        records = ranges(rows.first[world.online], rows.stop[world.online])
        order = records[rng.permutation(self.key("order"), world.cycle, records.size)]
        if self.config.per_cycle != "all":
            order = order[: self.config.per_cycle]
        if self.config.learner.batched:
            how = without_noise(self.config.learner, self._seen, rows, self.rule(), world.threads)
            for first in order[:, None].astype(np.int64):
                update_many(how, linear(self.w), self.age, np.zeros(1, np.int64), (first, first + 1))
        else:
            learn_in_order(linear(self.w), self.w.shape[1], self.age, rows, order, self.rule())

    def disclosure(self) -> Disclosure:
        """Return that all records are collected."""
        return Disclosure("all records", "the place that collects them")
