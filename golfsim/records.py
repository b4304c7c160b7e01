"""What a records layer is: the training records of the nodes, as learners may see them."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.kernels import kernel
from golfsim.protocol import LayerConfig, Protocol

C = TypeVar("C", bound=LayerConfig)


class Rows(NamedTuple):
    """What a kernel needs of a records layer; node i has rows first[i] … stop[i]−1.

    With one slice a record (`x[r, 0]`) the label gives the sign for each model; with a slice for each model the sign
    is already in it (`folded`).
    """

    x: NDArray[np.float32]  # [records, slices, features]
    label: NDArray[np.int32]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    folded: bool


@kernel
def sign_for(rows, record, model, models):
    """+1 or −1: is the record on the positive side of this model's one-vs-all problem?"""
    if rows.folded:
        return np.float32(1)
    positive = rows.label[record] == (1 if models == 1 else model)
    return np.float32(1) if positive else np.float32(-1)


class Records(Protocol[C]):
    """A layer that holds records. `models` is 1 for two classes, else the number of classes."""

    @property
    def rows(self) -> Rows:
        """The records, for kernels."""
        raise NotImplementedError

    @property
    def classes(self) -> int:
        """The number of classes."""
        raise NotImplementedError

    @property
    def models(self) -> int:
        """How many linear models tell the classes apart."""
        return 1 if self.classes == 2 else self.classes

    @property
    def features(self) -> int:
        """The number of features."""
        return int(self.rows.x.shape[2])


class Raw(Records[LayerConfig]):
    """The nodes' own records, unprotected: what learns from this layer is not private."""

    def __init__(self, x: NDArray[np.float32], label: NDArray[np.int32], stop: NDArray[np.int64], classes: int) -> None:
        super().__init__("raw", LayerConfig(name="raw", use="raw"), seed=0)
        self._x = x[:, None, :]
        self._label = label
        self._classes = classes
        self.stop = stop
        self.first = np.concatenate([[0], stop]).astype(np.int64)[: stop.size]

    @classmethod
    def stand_in(cls) -> Raw:
        """A raw layer without records, for checking a scenario before its data is loaded."""
        nothing: Any = np.zeros
        return cls(nothing((0, 1), np.float32), nothing(0, np.int32), nothing(0, np.int64), 2)

    @property
    def rows(self) -> Rows:
        """The records, for kernels."""
        return Rows(self._x, self._label, self.first, self.stop, False)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self._classes
