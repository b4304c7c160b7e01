"""Attacks that show what ε means: guess labels from published records, or decide which records were used to train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.maths import product, solve
from golfsim.core.metrics import Metric
from golfsim.protocol.symbols import vectors_of

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.protocol.learner import Learner
    from golfsim.protocol.records import Published, RawRecords

Metrics = dict[str, float]
SAMPLE = 4000  # records per attack
LABEL_METRICS = (
    Metric(
        "label.sum",
        "The share of labels that the sign of the sum of the published numbers reveals.",
        "share of records",
        "down",
    ),
    Metric(
        "label.linear",
        "The share of labels that a ridge regression on the published numbers predicts correctly.",
        "share of records",
        "down",
    ),
    Metric(
        "label.base",
        "The share of the most frequent label, which is guessed correctly without any data.",
        "share of records",
    ),
)  # of layers that publish records
MEMBERSHIP_METRICS = (
    Metric(
        "membership.advantage",
        "The advantage of an attacker who separates training from test records by the confidence of models: "
        "the true positive rate minus the false positive rate at the best threshold; 0 is guessing.",
        "difference of shares",
        "down",
    ),
)  # of learning layers


def label_recovery(published: Published[Any], raw: RawRecords, key: np.uint64, world: World) -> Metrics:
    """Return the shares of labels that are guessed correctly from the published data of a record.

    `label.sum` guesses by the sign of the sum: features are not negative and sum to 1, so Σ yx = y. `label.linear` is a
    ridge regression from the published numbers to the label. It is fitted on one half of the records, with known
    labels, and tested on the other half. `label.base` is the share of the largest class, which needs no data.
    """
    records = np.flatnonzero(raw.published_by(published)).astype(np.int32)
    chosen = rng.sample(key, world.cycle, records, SAMPLE)
    if chosen.size < 4:
        return {}
    seen, truth = _what_is_seen(published, chosen), raw.rows.label[chosen]
    half = rng.permutation(key, world.cycle, chosen.size)
    train, test = half[: chosen.size // 2], half[chosen.size // 2 :]
    return {
        "label.sum": float((published.decoded(chosen.astype(np.int64))[1] == truth).mean()),
        "label.linear": float((ridge(seen[train], truth[train], seen[test], raw.classes) == truth[test]).mean()),
        "label.base": float(np.bincount(truth).max() / truth.size),
    }


def _slices(published: Published[Any], records: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the published data of records, shape (records, slices, features)."""
    rows = published.rows
    return vectors_of(rows.x, published.models if rows.folded else 1, records)


def _what_is_seen(published: Published[Any], records: NDArray[np.int32]) -> NDArray[np.float64]:
    z = _slices(published, records)
    seen = z.reshape(len(z), -1).astype(np.float64)
    if published.rows.folded:
        return seen
    given = published.rows.label[records][:, None] == np.arange(published.classes)
    return np.hstack([seen, given * np.abs(seen).max()])


def ridge(x: NDArray[Any], y: NDArray[Any], test: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Predict classes by ridge regression to ±1 targets, in the primal or the dual form, whichever is smaller."""
    target = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
    mean, offset = x.mean(axis=0), target.mean(axis=0)
    x, test, target = x - mean, test - mean, target - offset
    penalty = max(float(np.square(x).sum()) / max(x.shape), 1e-12)
    if x.shape[1] <= x.shape[0]:
        weights = solve(product(x.T, x.T) + penalty * np.eye(x.shape[1]), product(x.T, target.T))
    else:
        weights = product(x.T, solve(product(x, x) + penalty * np.eye(x.shape[0]), target).T)
    return np.asarray((product(test, weights.T) + offset).argmax(axis=1), np.int64)


def membership(
    layer: Learner[Any], holders: NDArray[np.int32], members: tuple[Any, Any], others: tuple[Any, Any]
) -> Metrics:
    """Return how well a threshold on a model's confidence in the true class separates training from test records.

    The advantage is the largest difference of the two rates over all thresholds, for the mean confidence over the
    observed models; 0 is guessing.
    """
    inside, outside = (confidence(layer, holders, x, y) for x, y in (members, others))
    both = np.sort(np.concatenate([inside, outside]))
    below_in = np.searchsorted(np.sort(inside), both, side="right") / inside.size
    below_out = np.searchsorted(np.sort(outside), both, side="right") / outside.size
    return {"membership.advantage": float(np.max(below_out - below_in, initial=0.0))}


def confidence(
    layer: Learner[Any], holders: NDArray[np.int32], x: NDArray[np.float32], y: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return the score of the true class minus the largest other score, by the mean of the models."""
    scores = layer.scores(holders, x).astype(np.float64).mean(axis=1)
    if scores.shape[1] == 1:
        return np.asarray(scores[:, 0] * (2 * y - 1))
    own = scores[np.arange(len(y)), y]
    scores[np.arange(len(y)), y] = -np.inf
    return np.asarray(own - scores.max(axis=1))
