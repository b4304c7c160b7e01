"""Provide the base class of layers with one model that all nodes use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.learning.linear import Descent, LearningConfig
from golfsim.learning.many import refuse_batches_of_its_own

if TYPE_CHECKING:
    from golfsim.network.world import World

C = TypeVar("C", bound=LearningConfig)


class SharedModel(Descent[C]):
    """A layer with a single model, in row 0 of `w`. Every node predicts with it, so all online nodes are measured."""

    batches = True

    def setup(self, world: World) -> None:
        """Allocate the model."""
        refuse_batches_of_its_own(self.config.learner, self.name)
        self.allocate(world, 1)

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return no arrays: the model belongs to no node."""
        return {}

    def models(self, holders: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the model, once per node."""
        return np.repeat(self.w, holders.size, axis=0)

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of the model, which are computed once for all nodes."""
        return np.repeat(self.scores_by(self.w, x), nodes.size, axis=1)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of updates of the model, for each node."""
        return np.repeat(self.age, nodes.size)

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of the model, and of the scores before they are repeated."""
        return self.size_of_models(1) + 4 * records * self.answers()
