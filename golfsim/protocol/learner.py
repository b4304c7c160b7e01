"""What a learning layer is: a model at every node that can be asked for scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.core.maths import product
from golfsim.core.rng import draw, unit
from golfsim.protocol.base import LayerConfig, Protocol

if TYPE_CHECKING:
    from golfsim.network.world import World

C = TypeVar("C", bound=LayerConfig)
Tie = Literal["last", "first", "random", "by-score"]


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

    @property
    def tie(self) -> Tie | None:
        """Which class a zero score or a tie of votes means; None: class 1 of two, otherwise the lowest class."""
        return None

    def classes(
        self, scores: NDArray[np.float32], nodes: NDArray[np.int32], x: NDArray[np.float32]
    ) -> NDArray[np.int32]:
        """Return the classes [records, nodes] of records x from the scores of the models of these nodes."""
        return classify(scores, self.tie, self.toss(nodes, x, scores.shape[-1]))

    def toss(self, nodes: NDArray[np.int32], x: NDArray[np.float32], classes: int) -> NDArray[np.float64] | None:
        """Return a random number per record, node and class, if they decide ties.

        It is a function of the seed, the layer, the record and the node. So a node always decides in the same way.
        """
        if self.tie != "random":
            return None
        chance = np.empty((len(x), nodes.size, classes))
        toss(np.ascontiguousarray(x).view(np.uint32), nodes, self.key("tie"), chance)
        return chance

    def others(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> dict[str, NDArray[np.int32]]:
        """Return classes [records, nodes] predicted in other ways, by name; −1 if a node has no such prediction."""
        return {}


def classify(
    scores: NDArray[np.floating[Any]], tie: Tie | None = None, chance: NDArray[np.float64] | None = None
) -> NDArray[np.int32]:
    """Return classes from scores [..., models]: by sign for one model, else by the largest score.

    By default a zero score is positive, and the first of several largest scores counts. `tie` chooses otherwise; with
    “random” the numbers in `chance`, of the shape of the scores, decide. “by-score” is the default here, since the
    scores are what is equal.
    """
    if scores.shape[-1] > 1:
        return largest(scores, "first" if tie in (None, "by-score") else tie, chance)
    if tie == "first":
        return (scores[..., 0] > 0).astype(np.int32)
    if tie == "random":
        assert chance is not None
        return np.where(scores[..., 0] == 0, chance[..., 0] >= 0.5, scores[..., 0] > 0).astype(np.int32)
    return (scores[..., 0] >= 0).astype(np.int32)


def largest(values: NDArray[Any], tie: Tie, by: NDArray[np.float64] | None = None) -> NDArray[np.int32]:
    """Return the place of the largest value in the last dimension.

    Of several, `tie` takes the first or the last one, or the one with the largest number in `by`.
    """
    if tie == "first":
        return np.asarray(values.argmax(axis=-1), np.int32)
    if tie == "last":
        return np.asarray(values.shape[-1] - 1 - values[..., ::-1].argmax(axis=-1), np.int32)
    assert by is not None
    tied = values == values.max(axis=-1, keepdims=True)
    return np.asarray(np.where(tied, by, -np.inf).argmax(axis=-1), np.int32)


@kernel
def toss(words, nodes, key, chance):
    """Draw a number for each record, node and class; it does not depend on the other records and nodes of the call."""
    for r in range(words.shape[0]):
        record = draw(key, 0, 0, 0)
        for f in range(words.shape[1]):
            record = draw(record, words[r, f], 0, 0)
        for n in range(nodes.size):
            for m in range(chance.shape[2]):
                chance[r, n, m] = unit(draw(record, 0, nodes[n], m))


def score(w: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores [records, holders, models] of records by linear models [holders, models, features]."""
    holders, models, features = w.shape
    return product(x, w.reshape(holders * models, features)).reshape(len(x), holders, models)
