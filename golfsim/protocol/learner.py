"""What a learning layer is: a model at every node that can be asked for scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core.maths import product
from golfsim.protocol.base import LayerConfig, Protocol

if TYPE_CHECKING:
    from golfsim.network.world import World

C = TypeVar("C", bound=LayerConfig)


class Learner(Protocol[C]):
    """A layer whose nodes have models."""

    at_nodes: ClassVar[bool] = True  # whether the model of holder i is that of node i

    @property
    def probabilities(self) -> Literal["", "each", "all"]:
        """Whether scores are logarithms of odds: those of each class against the others, or those of all classes."""
        return ""

    @property
    def task(self) -> str:
        """What the scores are for: “classes”, or what a learner states."""
        return "classes"

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the score of each record by the models of each node: [records, nodes, models]."""
        raise NotImplementedError

    def scores_for(
        self, holders: NDArray[np.int32], nodes: NDArray[np.int32], x: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the score of each record by the model of each holder, as the node with the same place predicts it."""
        return self.scores(holders, x)

    def answers(self) -> int:
        """Return how many numbers `scores` and `others` return per record and node."""
        return 1

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes that `scores` and `others` need for this many nodes and records, without their results."""
        return 4 * records * nodes

    def holders(self, world: World) -> NDArray[np.int32]:
        """Return the nodes whose models are measured: the online nodes that follow the protocol."""
        return np.flatnonzero(world.online & world.tampering.honest()).astype(np.int32)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of updates of the model of each node."""
        raise NotImplementedError

    def others(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> dict[str, NDArray[np.int32]]:
        """Return classes [records, nodes] predicted in other ways, by name; −1 if a node has no such prediction."""
        return {}


def classify(scores: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return classes from scores [..., models]: by sign for one model (0 is positive), else by the largest score."""
    if scores.shape[-1] == 1:
        return (scores[..., 0] >= 0).astype(np.int32)
    return np.asarray(scores.argmax(axis=-1), np.int32)


def score(w: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores [records, holders, models] of records by linear models [holders, models, features]."""
    holders, models, features = w.shape
    return product(x, w.reshape(holders * models, features)).reshape(len(x), holders, models)
