"""Measure the mean of all models of a layer, and how far models are from the optimum on the records they learn from.

A single model of a random walk, or of a node in gossip learning, varies around the model that the protocol converges
to. The mean over all models shows whether the protocol converges, and to what.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.metrics import Metric
from golfsim.learning import optimum
from golfsim.learning.linear import Descent
from golfsim.protocol.records import fingerprint
from golfsim.sim.metrics import Metrics, summary

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.sim.observers import TestSet

SHARE = "share of test records"
NO_NODE = np.array([-1], np.int32)
MEAN_METRICS = (
    Metric("mean_model.error", "The error of the mean of all models of the layer.", SHARE, "down"),
    Metric("mean_model.accuracy", "The accuracy of the mean of all models of the layer.", SHARE, "up"),
    Metric(
        "mean_model.angle",
        "The direction of the mean of all models, for two features and two classes.",
        "degrees from the first axis",
    ),
)  # of layers that learn by gradient descent, with metrics = ["mean-model"]
OPTIMUM_METRICS = (
    Metric("optimum.error", "The error of the optimum on the records that the layer learns from.", SHARE, "down"),
    Metric("optimum.accuracy", "The accuracy of the optimum on the records that the layer learns from.", SHARE, "up"),
    Metric("mean_model.cosine", "The cosine of the angle between the mean of all models and the optimum.", "", "up"),
    Metric(
        "mean_model.distance",
        "The distance of the mean of all models to the optimum, as a share of the length of the optimum.",
        "share of the length",
        "down",
    ),
    Metric("cosine", "The cosine of the angle between a model and the optimum.", "", "up", True),
    Metric(
        "distance",
        "The distance of a model to the optimum, as a share of the length of the optimum.",
        "share of the length",
        "down",
        True,
    ),
)  # of the same layers, with metrics = ["optimum"]
CHUNK = 1024  # models that are added at once, so that no copy of all models is needed
TOLERANCE = 1e-3  # of the objective at the optimum

Model = NDArray[np.float64]  # [models, features]


class MeanModel:
    """The measurement of all layers of a run; an optimum is computed again only when the records have changed."""

    def __init__(self, wanted: tuple[str, ...]) -> None:
        self._mean, self._optimum = "mean-model" in wanted, "optimum" in wanted
        self._known: dict[tuple[str, str, float], tuple[NDArray[np.int64], Model]] = {}  # by records, learner and λ

    def measure(self, world: World, layer: Any, sampled: NDArray[np.int32], test: TestSet) -> Metrics:
        """Return the metrics that the scenario asks for; none of a layer without models of classes."""
        if not (self._mean or self._optimum) or not isinstance(layer, Descent) or not _has_mean(layer):
            return {}
        mean = mean_of(layer, layer.holders(world))
        found = _judged("mean_model", layer, mean, test) | _angle(mean) if self._mean else Metrics()
        best = self._best(world, layer) if self._optimum else None
        if best is None:
            return found
        cosine, distance = compare(layer.models(sampled).astype(np.float64), best)
        (at,), (away,) = compare(mean[None], best)
        found |= {"mean_model.cosine": float(at), "mean_model.distance": float(away)}
        return found | _judged("optimum", layer, best, test) | summary("cosine", cosine) | summary("distance", distance)

    def _best(self, world: World, layer: Descent[Any]) -> Model | None:
        """Return the optimum on the records of a layer; None without records."""
        records, learner = layer.config.records, layer.config.learner.config.use
        if learner not in optimum.OBJECTIVES:
            return None
        layer.rule()  # chooses λ, if it is not chosen yet
        lam = layer.lam or 1.0  # 0: there are no records yet
        now, key = fingerprint(records.rows), (records.name, learner, lam)
        if now[0] == now[1]:
            return None
        if key not in self._known or (self._known[key][0] != now).any():
            best = optimum.fit(records.rows, records.models, learner, lam, TOLERANCE, world.threads)
            self._known[key] = now, best
        return self._known[key][1]


def _has_mean(layer: Descent[Any]) -> bool:
    """Return whether the mean of models is a model: not of clusters, and not if nodes keep something as well."""
    return layer.task == "classes" and not hasattr(layer, "kept")


def mean_of(layer: Descent[Any], holders: NDArray[np.int32]) -> Model:
    """Return the mean of the models of some holders, added in the order of the list."""
    total = np.zeros(layer.w.shape[1:])
    for lo in range(0, holders.size, CHUNK):
        for model in layer.models(holders[lo : lo + CHUNK]):
            total += model
    return total / max(holders.size, 1)


def compare(models: NDArray[np.float64], best: Model) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosine of each model and an optimum, and their relative distance; for the zero model 0 and 1."""
    flat, to = models.reshape(len(models), -1), best.ravel()
    length = math.sqrt(_ordered(to * to))
    lengths = np.sqrt(np.array([_ordered(one * one) for one in flat]))
    products = np.array([_ordered(one * to) for one in flat])
    apart = np.sqrt(np.array([_ordered((one - to) ** 2) for one in flat]))
    return products / np.maximum(lengths * length, 1e-300), apart / max(length, 1e-300)


def _ordered(values: NDArray[np.float64]) -> float:
    """Return a sum that has the same bits on every processor."""
    return math.fsum(values.tolist())


def _judged(name: str, layer: Descent[Any], model: Model, test: TestSet) -> Metrics:
    scores = layer.scores_by(model.astype(np.float32)[None], test.x)
    predicted = layer.classes(scores, NO_NODE, test.x)[:, 0]
    error = float((predicted != test.y).mean())
    return {f"{name}.error": error, f"{name}.accuracy": 1 - error}


def _angle(model: Model) -> Metrics:
    if model.shape != (1, 2):
        return {}
    degrees = math.degrees(math.atan2(model[0, 1], model[0, 0]))
    return {"mean_model.angle": round(degrees, 6)}  # mathematical libraries differ in the last digits
