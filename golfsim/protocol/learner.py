"""What a learning layer is: a model at every node that can be asked for scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core.maths import product
from golfsim.protocol.base import LayerConfig, Protocol

if TYPE_CHECKING:
    from golfsim.network.world import World

C = TypeVar("C", bound=LayerConfig)


class Learner(Protocol[C]):
    """A layer whose nodes hold models."""

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The score of each record by each node's models: [records, nodes, models]."""
        raise NotImplementedError

    def holders(self, world: World) -> NDArray[np.int32]:
        """Those that have a model to be measured: the online nodes that follow the protocol."""
        return np.flatnonzero(world.online & world.tampering.honest()).astype(np.int32)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """How many updates each node's model has seen."""
        raise NotImplementedError

    def others(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> dict[str, NDArray[np.int32]]:
        """Classes [records, nodes] that nodes could predict in other ways, by name; −1 where a node cannot."""
        return {}


def classify(scores: NDArray[np.float32]) -> NDArray[np.int32]:
    """From scores [..., models] to classes: the sign for one model (0 counts as positive), else the largest."""
    if scores.shape[-1] == 1:
        return (scores[..., 0] >= 0).astype(np.int32)
    return np.asarray(scores.argmax(axis=-1), np.int32)


def score(w: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The scores of records by linear models [holders, models, features]: [records, holders, models]."""
    holders, models, features = w.shape
    return product(x, w.reshape(holders * models, features)).reshape(len(x), holders, models)
