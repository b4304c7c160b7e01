"""What a layer of means is: every node knows an estimate of the mean over nodes of rows of numbers."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.protocol.base import LayerConfig, Protocol
from golfsim.protocol.moments import Precision

M = TypeVar("M", bound=LayerConfig)


class Means(Protocol[M]):
    """A layer whose settings `of` and `moments` say which numbers it has the means of."""

    def estimates(self, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the estimates [nodes, numbers] of these nodes."""
        raise NotImplementedError

    def participants(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return how many nodes the estimate of each of these nodes is a mean of."""
        raise NotImplementedError

    def known(self, nodes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which of these nodes have an estimate."""
        raise NotImplementedError

    def precision(self) -> Precision:
        """Return what is known about the noise of means of moments: here, that of the records."""
        found: Precision = self.config.of.precision()  # type: ignore[attr-defined]
        return found
