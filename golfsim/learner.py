"""What a learning layer is: a model at every node that can be asked for scores."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.protocol import LayerConfig, Protocol

C = TypeVar("C", bound=LayerConfig)


class Learner(Protocol[C]):
    """A layer whose nodes hold models."""

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The score of each record by each node's models: [records, nodes, models]."""
        raise NotImplementedError

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """How many updates each node's model has seen."""
        raise NotImplementedError

    def votes(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.int32] | None:
        """The class that each node's remembered models vote for, [records, nodes]; None without such a memory."""
        return None


def classify(scores: NDArray[np.float32]) -> NDArray[np.int32]:
    """From scores [..., models] to classes: the sign for one model (0 counts as positive), else the largest."""
    if scores.shape[-1] == 1:
        return (scores[..., 0] >= 0).astype(np.int32)
    return np.asarray(scores.argmax(axis=-1), np.int32)
