"""Generate data sets: `random` (Hegedűs & Jelasity 2017), `separable` and `inseparable` (Veldhuizen 2020).

`mooc` has its own module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = tuple[NDArray[np.float64], NDArray[np.int32]]


def two_gaussians(records: int, rng: np.random.Generator, details: Mapping[str, Any]) -> Points:
    """Draw points from one Gaussian per class, in equal numbers."""
    y = (np.arange(records) % 2).astype(np.int32)
    means = np.array(details["means"], dtype=np.float64)
    return means[y] + details["sigma"] * rng.standard_normal((records, means.shape[1])), y


def separable(records: int, rng: np.random.Generator, details: Mapping[str, Any]) -> Points:
    """Draw points uniformly on the unit sphere, outside a margin around a random separator through the origin.

    With `ball`, the points are drawn uniformly in the unit ball.
    """
    separator = _on_sphere(1, details["dimensions"], rng)[0]
    draw = _in_ball if details.get("ball") else _on_sphere
    x = np.empty((0, details["dimensions"]))
    while len(x) < records:
        more = draw(records, details["dimensions"], rng)
        x = np.concatenate((x, more[np.abs(_along(more, separator)) > details["margin"]]))
    x = x[:records]
    return x, (_along(x, separator) > 0).astype(np.int32)


def inseparable(records: int, rng: np.random.Generator, details: Mapping[str, Any]) -> Points:
    """Draw separable points, then flip some labels near the separator of a support vector machine."""
    from sklearn.svm import LinearSVC

    x, y = separable(records, rng, details)
    if y.min() == y.max():
        return x, y
    machine = LinearSVC(C=details["cost"], fit_intercept=False, dual=False, max_iter=10_000).fit(x, y)
    best = machine.coef_[0] / math.sqrt(np.square(machine.coef_[0]).sum())
    near = np.abs(_along(x, best)) < details["flip_margin"]
    flipped = near & (rng.random(records) < details["flip_share"])
    return x, np.where(flipped, 1 - y, y).astype(np.int32)


def _on_sphere(number: int, dimensions: int, rng: np.random.Generator) -> NDArray[np.float64]:
    points = rng.standard_normal((number, dimensions))
    return np.asarray(points / np.sqrt(np.square(points).sum(axis=1, keepdims=True)))


def _in_ball(number: int, dimensions: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a direction and a distance r per point, with r^dimensions uniform: volume grows with this power of r."""
    from golfsim.core.maths import power_of

    points = _on_sphere(number, dimensions, rng)
    return points * power_of(rng.random((number, 1)), 1 / dimensions)


def _along(x: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scalar product of each point with a direction."""
    from golfsim.core.maths import product

    return product(x, direction[None])[:, 0]


def course(records: int, rng: np.random.Generator, details: Mapping[str, Any]) -> Points:
    """Generate the students of a course; its modules are imported only when they are needed."""
    from golfsim.data.course import generated

    return generated.records(records, rng, details)


GENERATORS: dict[str, Callable[[int, np.random.Generator, Mapping[str, Any]], Points]] = {
    "random": two_gaussians,
    "separable": separable,
    "inseparable": inseparable,
    "mooc": course,
}


def features_of(reader: str, number: int) -> tuple[str, ...]:
    """Return the names of the features of a generated set."""
    if reader == "mooc":
        from golfsim.data.course import generated

        return generated.FEATURIZER.names
    return tuple(f"x{column}" for column in range(number))
