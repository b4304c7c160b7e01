"""Neighbouring data sets: one record, or all records of one node, is another one; all others are the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Record(NamedTuple):
    """Features of length 1 at the most, and a label."""

    x: NDArray[np.float32]
    label: int


class NeighbouringPair(NamedTuple):
    """A record as it is in one data set and in the other, and what all other records are."""

    name: str
    one: Record
    other: Record
    crowd: Record
    node: int = -1  # whose record it is: the last one's

    @property
    def sides(self) -> tuple[Record, Record]:
        """The record in either data set."""
        return self.one, self.other


def constructed(features: int, norm: str) -> list[NeighbouringPair]:
    """Pairs that lie as far apart as records can, among others that pull a model to either side or across."""
    axes = np.eye(max(features, 2), features, dtype=np.float32)
    first, second = axes[0], axes[1]
    changes = {
        "another label": (Record(first, 1), Record(first, 0)),
        "another record, another label": (Record(first, 1), Record(second, 0)),
        "another record": (Record(first, 1), Record(second, 1)),
        "the opposite record": (Record(first, 1), Record(-first, 1)),
        "the opposite record, another label": (Record(first, 1), Record(-first, 0)),
        "no record to speak of": (Record(first, 1), Record(0 * first, 1)),
    }
    aside = _to_length(np.array([-0.55 * first + 0.83 * second, -0.55 * first - 0.83 * second]), norm)
    changes["both against most others"] = Record(aside[0], 1), Record(aside[1], 1)
    crowds = {"for it": Record(first, 1), "against it": Record(first, 0), "across": Record(second, 1)}
    return [
        NeighbouringPair(f"{change}, others {crowd}", *records, others)
        for change, records in changes.items()
        for crowd, others in crowds.items()
    ]


def _to_length(x: NDArray[Any], norm: str) -> NDArray[np.float32]:
    """Records of length 1, or just below it in single precision."""
    length = np.linalg.norm(x, 1 if norm == "l1" else 2, axis=-1, keepdims=True)
    return np.asarray(x / (length * (1 + 1e-6)), np.float32)


def drawn(features: int, norm: str, number: int) -> list[NeighbouringPair]:
    """Random pairs among random others, always the same ones: what nobody thought of."""
    rng = np.random.default_rng(number)
    signed = rng.exponential(size=(number, 3, features)) * rng.choice([-1, 1], (number, 3, features))
    x = _to_length(signed, norm)
    labels = rng.integers(0, 2, (number, 3))
    records = [[Record(x[n, k], int(labels[n, k])) for k in range(3)] for n in range(number)]
    return [
        NeighbouringPair(f"random pair {n + 1}", one, other, crowd) for n, (one, other, crowd) in enumerate(records)
    ]
