"""Combine several linear models per node by votes, with rules for ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.protocol.learner import classify, score, toss

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Tie = Literal["first", "last", "random", "score"]
Numbers = NDArray[Any]
Nodes = NDArray[np.int32]

NUDGE = 1e-5  # decides ties only: far below the weight of one vote among thousands


def vote(w: Numbers, weight: csr_array, nodes: Nodes, x: Numbers, tie: Tie, key: np.uint64) -> Numbers:
    """Return the weighted majority vote of models as scores, shape (records, nodes, linear).

    Each model votes for one class. Its score only orders records with equal votes and, by the rule "score", decides
    ties. The result is 0 for a node without any weight.

    Parameters
    ----------
    w : array of float32, shape (models, linear, features)
        The models of all nodes, each with one or several linear models.
    weight : csr_array, shape (nodes, models)
        The weight of each model in the vote of each node.
    nodes : array of int32, shape (nodes,)
        The numbers of the nodes, for random ties.
    x : array of float32, shape (records, features)
        The records to classify.
    tie : {"first", "last", "random", "score"}
        The rule that decides ties.
    key : uint64
        The key of the random numbers for random ties.
    """
    raw = score(w, x)  # [records, all models, linear]
    whole = np.asarray(weight.sum(axis=1), np.float64)
    lone = np.where(whole > 0, whole, 1)[None, :, None]
    votes, lean = (_weighed(values, weight) / lone for values in (ballot(raw), bounded(raw)))
    preference = NUDGE * _preference(lean, nodes, x, tie, key)
    return np.asarray(votes + (whole > 0)[None, :, None] * (preference + NUDGE**2 * lean))


def _weighed(values: Numbers, weight: csr_array) -> Numbers:
    """Return the weighted sum per node of values [records, all models, linear]."""
    records, models, linear = values.shape
    flat = values.transpose(1, 0, 2).reshape(models, records * linear)
    found = np.zeros((weight.shape[0], records * linear))
    add_weighted(weight.indptr, weight.indices, weight.data, np.ascontiguousarray(flat), found)
    return found.reshape(-1, records, linear).transpose(1, 0, 2)


def bounded(raw: Numbers) -> Numbers:
    """Map scores to (−1, 1) and preserve their order; with noise, scores can be very large."""
    wide = raw.astype(np.float64)
    return np.asarray(wide / (1 + np.abs(wide)))


def ballot(raw: Numbers) -> Numbers:
    """Return the vote of each model: ±1 for one linear model, else 1 for its class and 0 for the others."""
    if raw.shape[-1] == 1:
        return np.where(raw >= 0, 1.0, -1.0)
    chosen = classify(raw)[..., None]
    return np.asarray(np.arange(raw.shape[-1]) == chosen, np.float64)


def _preference(lean: Numbers, nodes: Nodes, x: Numbers, tie: Tie, key: np.uint64) -> Numbers:
    """Return the preference that decides ties, between −1 and 1."""
    linear = lean.shape[-1]
    if tie == "score":
        return lean
    if tie == "random":
        chance = np.empty(lean.shape)
        toss(np.ascontiguousarray(x).view(np.uint32), nodes, key, chance)
        return np.where(chance < 0.5, -1.0, 1.0) if linear == 1 else chance
    rising: Numbers = np.arange(1, linear + 1) / linear
    return rising if tie == "last" else -rising


@kernel
def add_weighted(start, column, weight, values, out):
    """Add weight[k]·values[column[k]] to row r of the result, for each entry k of row r of a sparse matrix."""
    for r in range(out.shape[0]):
        for k in range(start[r], start[r + 1]):
            for c in range(out.shape[1]):
                out[r, c] += weight[k] * values[column[k], c]
