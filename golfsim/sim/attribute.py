"""The attack “attribute”: guess a feature of a record from everything else about it and from what was released.

The attacker knows the label and all other features of a record, and public records: those of the test set. It guesses
whether the sensitive feature is above the median of the public records.

Records that are scaled to length 1 are known up to their length: otherwise the other features would determine the
sensitive one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError, listed
from golfsim.core.metrics import Metric
from golfsim.data.scaling import BIAS
from golfsim.sim.attacks import SAMPLE, Metrics, confidence, ridge

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.protocol.learner import Learner
    from golfsim.protocol.records import Published, RawRecords

KEY = "observe.sensitive"
CANDIDATES = 16  # values on each side of the median that published records are compared with
METRICS = (
    Metric(
        "attribute.correct",
        "The share of records of which an attacker, who knows the label and all other features, guesses correctly "
        "whether the sensitive feature is above its median: from published records, or else from models.",
        "share of records",
        "down",
    ),
    Metric(
        "attribute.base",
        "The share of records on the more frequent side of the median, which is guessed correctly without any data.",
        "share of records",
    ),
    Metric(
        "attribute.known",
        "The share that a ridge regression on the label and the other features guesses correctly; it is fitted on the "
        "test records, and uses nothing that was released.",
        "share of records",
    ),
)  # of layers that publish records, and of layers that learn from private ones


@dataclass(frozen=True)
class Sensitive:
    """The sensitive feature, and what is public about it."""

    feature: int
    median: float  # values above it are the upper side
    low: NDArray[np.float64]  # public values on the lower side, sorted
    high: NDArray[np.float64]
    length: str  # “l1”, “l2”: records have length 1; “”: any length
    fixed: NDArray[np.bool_]  # features that scaling to length 1 leaves alone: the bias

    def above(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which records are on the upper side."""
        return np.asarray(x[:, self.feature] > self.median)

    def known(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the attacker knows of records: all but the sensitive feature, divided by their length."""
        rest = x.astype(np.float64)
        rest[:, self.feature] = 0
        if self.length:
            part = np.where(self.fixed, 0.0, rest)
            size = np.abs(part).sum(axis=1) if self.length == "l1" else np.sqrt((part * part).sum(axis=1))
            rest = np.where(self.fixed, rest, part / np.where(size > 0, size, 1.0)[:, None])
        return rest

    def candidate(self, known: NDArray[np.float64], value: float) -> NDArray[np.float64]:
        """Return the records with this value of the sensitive feature, scaled to length 1 if the others are."""
        left = 1.0
        if self.length == "l1":
            left = max(1 - abs(value), 0.0)
        elif self.length == "l2":
            left = float(np.sqrt(max(1 - value * value, 0.0)))
        x = np.where(self.fixed, known, left * known)
        x[:, self.feature] = value
        return x

    def central(self) -> tuple[float, float]:
        """Return the median value of each side."""
        return float(self.low[self.low.size // 2]), float(self.high[self.high.size // 2])


def sensitive(
    wanted: str | int, names: tuple[str, ...], test: NDArray[np.float32], scale: tuple[str, ...]
) -> Sensitive:
    """Return the sensitive feature that a scenario names, with its public values.

    Parameters
    ----------
    wanted : str or int
        The name of the feature, or its number, from 0.
    names : tuple of str
        The names of all features, if there are any.
    test : array of float32, shape (records, features)
        The public records.
    scale : tuple of str
        The scaling steps of the data.
    """
    features = test.shape[1]
    if isinstance(wanted, str):
        if wanted not in names:
            raise UserError(f"there is no feature “{wanted}”", key=KEY, hint=listed(wanted, names))
        feature = names.index(wanted)
    elif not 0 <= wanted < features:
        raise UserError(f"there is no feature {wanted}: features have the numbers 0 … {features - 1}", key=KEY)
    else:
        feature = wanted
    values = np.sort(test[:, feature].astype(np.float64))
    if not values.size or values[0] == values[-1]:
        what = "all test records have the same value of the sensitive feature, so there is nothing to guess"
        raise UserError(what, key=KEY, hint="name another feature", docs="privacy")
    median = float(values[values.size // 2])
    if median == values[-1]:
        median = float(values[values < median][-1])
    lengths = [name for name in scale if name in ("l1", "l2")]
    bias = np.array([name == BIAS for name in names[:features]] or np.zeros(features), np.bool_)
    return Sensitive(
        feature, median, values[values <= median], values[values > median], lengths[-1] if lengths else "", bias
    )


def _spread(values: NDArray[np.float64]) -> list[float]:
    """Return at most CANDIDATES different values, the smallest and the largest among them."""
    distinct = np.unique(values)
    places = np.linspace(0, distinct.size - 1, min(CANDIDATES, distinct.size)).round().astype(np.int64)
    return [float(value) for value in distinct[places]]


def _base(what: Sensitive, raw: RawRecords, chosen: NDArray[np.int32], test: tuple[Any, Any]) -> Metrics:
    """Return how often the side is guessed without what was released."""
    truth, classes = what.above(raw.rows.x[chosen]), max(raw.classes, 1)
    found = {"attribute.base": float(max(truth.mean(), 1 - truth.mean()))}
    if raw.classes:
        public, private = (
            np.hstack([what.known(x), label[:, None] == np.arange(classes)])
            for x, label in (test, (raw.rows.x[chosen], raw.rows.label[chosen]))
        )
        guessed = ridge(public, what.above(test[0]).astype(np.int64), private, 2)
        found["attribute.known"] = float((guessed == truth).mean())
    return found


def of_published(
    published: Published[Any], raw: RawRecords, what: Sensitive, test: tuple[Any, Any], key: np.uint64, world: World
) -> Metrics:
    """Return how often the side is guessed correctly by the likelihood of the published record.

    Parameters
    ----------
    published : Published
        The layer that has published records.
    raw : RawRecords
        The true records.
    what : Sensitive
        The sensitive feature.
    test : tuple of arrays
        The features and labels of the public records.
    key : uint64
        The key of the draws.
    world : World
        The world.
    """
    records = np.flatnonzero(raw.published_by(published)).astype(np.int32)
    chosen = rng.sample(key, world.cycle, records, SAMPLE)
    if not chosen.size:
        return {}
    known, label = what.known(raw.rows.x[chosen]), raw.rows.label[chosen]
    low, high = (
        np.min([published.misfit(chosen, what.candidate(known, value), label) for value in _spread(side)], axis=0)
        for side in (what.low, what.high)
    )
    guessed = high < low
    correct = float((guessed == what.above(raw.rows.x[chosen])).mean())
    return {"attribute.correct": correct} | _base(what, raw, chosen, test)


def of_models(
    layer: Learner[Any],
    holders: NDArray[np.int32],
    raw: RawRecords,
    what: Sensitive,
    test: tuple[Any, Any],
    key: np.uint64,
    world: World,
) -> Metrics:
    """Return how often the side is guessed correctly by the confidence of models in the true class of both candidates.

    Parameters
    ----------
    layer : Learner
        The layer with the models.
    holders : array of int32
        The nodes (or walkers) whose models the attacker sees.
    raw : RawRecords
        The true records.
    what : Sensitive
        The sensitive feature.
    test : tuple of arrays
        The features and labels of the public records.
    key : uint64
        The key of the draws.
    world : World
        The world.
    """
    everyone = np.arange(raw.rows.label.size, dtype=np.int32)
    chosen = rng.sample(key, world.cycle, everyone, SAMPLE)
    if not chosen.size:
        return {}
    known, label = what.known(raw.rows.x[chosen]), raw.rows.label[chosen]
    low, high = (
        confidence(layer, holders, what.candidate(known, value).astype(np.float32), label) for value in what.central()
    )
    correct = float(((high > low) == what.above(raw.rows.x[chosen])).mean())
    return {"attribute.correct": correct} | _base(what, raw, chosen, test)
