"""Votes of several linear models at one node, and what a tie means."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim import rng
from golfsim.learner import classify, score

Tie = Literal["first", "last", "random", "score"]
Numbers = NDArray[Any]

NUDGE = 1e-5  # decides ties, and no more: far below the weight of one vote among thousands


def vote(w: Numbers, weight: Numbers, x: Numbers, tie: Tie, key: np.uint64) -> Numbers:
    """The weighted majority of models w [models of all nodes, linear, features] as scores [records, nodes, linear].

    `weight` [nodes, models of all nodes] says who asks whom; a node without any weight has no opinion: 0. What counts
    is each model's class, but its score decides between records with equal votes, and, by the rule "score", ties.
    """
    raw = score(w, x)  # [records, all models, linear]
    whole = weight.sum(axis=1)
    share = weight / np.where(whole > 0, whole, 1)[:, None]
    votes, lean = _weighed(ballot(raw), share), _weighed(np.tanh(raw), share)
    preference = NUDGE * _preference(votes, lean, x, tie, key)
    return votes + np.where(whole > 0, 1, 0)[None, :, None] * (preference + NUDGE**2 * lean)


def _weighed(values: Numbers, share: Numbers) -> Numbers:
    """Each node's mean of values [records, all models, linear]."""
    return np.asarray(np.einsum("rml,nm->rnl", values.astype(np.float64), share, optimize=True))


def ballot(raw: Numbers) -> Numbers:
    """Each model's vote: ±1 for one linear model, else 1 for its class."""
    if raw.shape[-1] == 1:
        return np.where(raw >= 0, np.float32(1), np.float32(-1))
    chosen = classify(raw)[..., None]
    return np.asarray(np.arange(raw.shape[-1]) == chosen, np.float32)


def _preference(votes: Numbers, lean: Numbers, x: Numbers, tie: Tie, key: np.uint64) -> Numbers:
    """In which direction a tie falls, of size 1 at the most."""
    linear = votes.shape[-1]
    if tie == "score":
        return lean
    if tie == "random":
        chance = rng.uniform(key, _fingerprint(x))[:, None, None]
        turned = (np.arange(linear) / linear + chance) % 1
        return np.where(chance < 0.5, -1.0, 1.0) if linear == 1 else np.asarray(turned)
    rising: Numbers = np.arange(1, linear + 1) / linear
    return rising if tie == "last" else -rising


def _fingerprint(x: Numbers) -> NDArray[np.int32]:
    """A number for each record that depends on nothing but its features."""
    words = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    odd = 2 * rng.permutation(np.uint64(7), 0, words.shape[1]).astype(np.uint64) + np.uint64(0x9E3779B1)
    return np.asarray(((words * odd).sum(axis=1, dtype=np.uint64) >> np.uint64(33)).astype(np.int32))
