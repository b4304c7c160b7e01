"""Matrix factorisation for recommendation, each user a node: items travel, and what describes a user stays with it.

After Hegedűs, Berta, Kocsis, Benczúr & Jelasity (ACM TIST 2016). Only the abstract could be read; the rules are those
of GoLF's classes `RecSysModel` and `MergeableRecSys`, with a bias for each item, as in gossipy's `MFModelHandler`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core import rng
from golfsim.core.kernels import inlined, leaf
from golfsim.core.simd import fused
from golfsim.learning.online import LearnerConfig, OnlineLearner, Shape

BESIDE = 2  # numbers of a user beside the vector: the bias, and whether it is known


class Factors(NamedTuple):
    """The numbers of matrix factorisation."""

    lam: float
    offset: float
    rank: int
    rate: float
    fade: float


@inlined
def rating(s, own, n, w, i, item):
    """Return the predicted rating of an item by user n: both biases, and the product of both vectors.

    Parameters
    ----------
    s : Factors
        The numbers of the learner.
    own : array of float32, shape (nodes, rank + 2)
        The vector and the bias of each user.
    n : int
        The user.
    w : array of float32, shape (rows, numbers)
        The models.
    i : int
        The row of the model.
    item : int
        The item.
    """
    p = item * (s.rank + 1)
    found = own[n, s.rank] + w[i, p + s.rank]
    for f in range(s.rank):
        found = fused(own[n, f], w[i, p + f], found)
    return found


@inlined
def _update(s, w, i, t, rows, first, stop, room):
    own, n, rank = room.own, room.node[0], s.rank
    if own[n, rank + 1] == 0 and first < stop:
        total = np.float32(0)
        for r in range(first, stop):
            total += rows.label[r]
        own[n, rank], own[n, rank + 1] = total / np.float32(stop - first), 1
    rate = np.float32(s.rate / (1 + s.fade * (t - 1)))
    keep = np.float32(1) - rate * np.float32(s.lam)
    for r in range(first, stop):
        item = int(rows.x[r, 0])
        p = item * (rank + 1)
        step = rate * (rows.label[r] - rating(s, own, n, w, i, item))
        for f in range(rank):
            mine, theirs = own[n, f], w[i, p + f]
            own[n, f] = fused(step, theirs, keep * mine)
            w[i, p + f] = fused(step, mine, keep * theirs)
        own[n, rank] += step
        w[i, p + rank] = fused(keep, w[i, p + rank], step)


@leaf
def _scores(s, w, i, x, r, out, o, room):
    out[o, 0] = rating(s, room.own, room.node[0], w, i, int(x[r, 0]))


class FactorsConfig(LearnerConfig):
    """The settings of matrix factorisation."""

    rank: int = Field(5, ge=1, le=1000, description="the length k of the vectors of items and users")
    rate: float = Field(0.02, gt=0, le=1e6, description="the learning rate η")
    fade: float = Field(0.0, ge=0, description="how the rate of update t falls: η/(1 + fade·(t − 1)); 0: constant")


class Factorisation(OnlineLearner[FactorsConfig]):
    """matrix factorisation of ratings, each user a node, which keeps its own vector (Hegedűs et al. 2016)."""

    Config = FactorsConfig
    Numbers = Factors
    task = "ratings"
    uses = frozenset({"lambda"})
    update, scores = _update, _scores

    def shape(self, records: Shape) -> tuple[int, int]:
        """Return one row: the vector of each item, followed by its bias."""
        return 1, records.items * (self.config.rank + 1)

    def kept(self, records: Shape) -> int:
        """Return the length of a user's vector, its bias, and whether this is known."""
        return self.config.rank + BESIDE

    def outputs(self, records: Shape) -> int:
        """Return one score: the rating."""
        return 1

    def numbers(self, records: Shape, lam: float, offset: float) -> Factors:
        """Return the length of vectors, and the rate."""
        return Factors(lam, offset, self.config.rank, self.config.rate, self.config.fade)

    def initial(self, records: Shape, key: np.uint64) -> NDArray[np.float32]:
        """Return random vectors of items, the same at all nodes, of length about 1, and biases of zero.

        Users' vectors begin at zero, so the first steps change these only.
        """
        rank = self.config.rank
        numbers = np.arange(records.items * rank, dtype=np.int32)
        model = np.zeros((records.items, rank + 1), np.float32)
        model[:, :rank] = ((2 * rng.uniform(key, numbers) - 1) * math.sqrt(3 / rank)).reshape(records.items, rank)
        return model.reshape(1, -1)
