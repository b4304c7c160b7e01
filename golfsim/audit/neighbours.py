"""Neighbouring data sets: they differ in one record, or in all records of one node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OPPOSED = (0.25, 0.4, 0.55)  # components of records that a model of the other records misclassifies


class Record(NamedTuple):
    """Features of norm at most 1, and a label."""

    x: NDArray[np.float32]
    label: int


class NeighbouringPair(NamedTuple):
    """A record as it is in each of two data sets, and the value of all other records (`crowd`)."""

    name: str
    one: Record
    other: Record
    crowd: Record
    node: int = -1  # the node of the record; default: the last one

    @property
    def sides(self) -> tuple[Record, Record]:
        """The record in each data set."""
        return self.one, self.other


def constructed(features: int, norm: str) -> list[NeighbouringPair]:
    """Return pairs of records at maximal distance, with other records that agree, oppose or are orthogonal."""
    axes = np.eye(max(features, 2), features, dtype=np.float32)
    first, second = axes[0], axes[1]
    changes = {
        "different label": (Record(first, 1), Record(first, 0)),
        "different features and label": (Record(first, 1), Record(second, 0)),
        "different features": (Record(first, 1), Record(second, 1)),
        "opposite features": (Record(first, 1), Record(-first, 1)),
        "opposite features, different label": (Record(first, 1), Record(-first, 0)),
        "zero features": (Record(first, 1), Record(0 * first, 1)),
    }
    for share in OPPOSED:
        aside = np.sqrt(1 - share**2) * second
        both = _to_length(np.array([aside - share * first, -aside - share * first]), norm)
        changes[f"both opposed to the first axis by {share:g}"] = Record(both[0], 1), Record(both[1], 1)
    crowds = {"agree": Record(first, 1), "oppose": Record(first, 0), "are orthogonal": Record(second, 1)}
    return [
        NeighbouringPair(f"{change}; others {crowd}", *records, others)
        for change, records in changes.items()
        for crowd, others in crowds.items()
    ]


def _to_length(x: NDArray[Any], norm: str) -> NDArray[np.float32]:
    """Return records of norm 1, or just below it in single precision."""
    length = np.linalg.norm(x, 1 if norm == "l1" else 2, axis=-1, keepdims=True)
    return np.asarray(x / (length * (1 + 1e-6)), np.float32)


def drawn(features: int, norm: str, number: int) -> list[NeighbouringPair]:
    """Return random pairs with random other records, drawn with a fixed seed."""
    rng = np.random.default_rng(number)
    signed = rng.exponential(size=(number, 3, features)) * rng.choice([-1, 1], (number, 3, features))
    x = _to_length(signed, norm)
    labels = rng.integers(0, 2, (number, 3))
    records = [[Record(x[n, k], int(labels[n, k])) for k in range(3)] for n in range(number)]
    return [
        NeighbouringPair(f"random pair {n + 1}", one, other, crowd) for n, (one, other, crowd) in enumerate(records)
    ]
