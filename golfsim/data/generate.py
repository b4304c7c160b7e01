"""Generate data sets: `random` (Hegedűs & Jelasity 2017), `separable` and `inseparable` (Veldhuizen 2020).

`plane` has numbers for labels, and `ratings` the ratings of items by users. `mooc` has its own module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError

Points = tuple[NDArray[np.float64], NDArray[Any]]


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


def plane(records: int, rng: np.random.Generator, details: Mapping[str, Any]) -> Points:
    """Draw points uniformly, with a number per point: a linear function of its features, and noise."""
    from golfsim.core.maths import product

    weights = np.array([details["weights"]], np.float64)
    x = rng.random((records, weights.shape[1]))
    noise = details["sigma"] * rng.standard_normal(records)
    return x, (product(x, weights)[:, 0] + details["intercept"] + noise).astype(np.float32)


def ratings(records: int, rng: np.random.Generator, details: Mapping[str, Any]) -> Points:
    """Draw pairs of a user and an item, each pair once, with a rating.

    Item number r is chosen in proportion to 1/(r + 1)^popularity. The rating is rounded to halves from 1 to 5.
    """
    from golfsim.core.maths import power_of

    users, items, rank = details["users"], details["items"], details["rank"]
    if records > users * items // 4:
        what = f"{users} users cannot rate {items} items {records} times: at most a quarter of all pairs is rated"
        raise UserError(what, key="data.train", hint=f"use at most {users * items // 4} records")
    edges = np.cumsum(1.0 / power_of(np.arange(1, items + 1), details["popularity"]))
    pairs = np.empty(0, np.int64)
    while pairs.size < records:
        user = rng.integers(0, users, 2 * records)
        item = np.minimum(np.searchsorted(edges, rng.random(2 * records) * edges[-1]), items - 1)
        pairs = np.concatenate([pairs, user * items + item])
        _, first = np.unique(pairs, return_index=True)
        pairs = pairs[np.sort(first)]
    user, item = np.divmod(pairs[:records], items)
    biases = (
        scale * rng.standard_normal(size)
        for size, scale in ((users, details["user_bias"]), (items, details["item_bias"]))
    )
    of_user, of_item = biases
    tastes, traits = rng.standard_normal((users, rank)), rng.standard_normal((items, rank))
    fit = np.zeros(records)
    for part in range(rank):
        fit += tastes[user, part] * traits[item, part]
    found = details["mean"] + of_user[user] + of_item[item] + details["taste"] * fit / math.sqrt(rank)
    found += details["noise"] * rng.standard_normal(records)
    return np.stack([user, item], axis=1).astype(np.float64), np.clip(np.rint(2 * found) / 2, 1, 5).astype(np.float32)


def course(records: int, rng: np.random.Generator, details: Mapping[str, Any]) -> Points:
    """Generate the students of a course; its modules are imported only when they are needed."""
    from golfsim.data.course import generated

    return generated.records(records, rng, details)


GENERATORS: dict[str, Callable[[int, np.random.Generator, Mapping[str, Any]], Points]] = {
    "random": two_gaussians,
    "separable": separable,
    "inseparable": inseparable,
    "mooc": course,
    "plane": plane,
    "ratings": ratings,
}


def features_of(reader: str, number: int) -> tuple[str, ...]:
    """Return the names of the features of a generated set."""
    if reader == "mooc":
        from golfsim.data.course import generated

        return generated.FEATURIZER.names
    return ("item",) if reader == "ratings" else tuple(f"x{column}" for column in range(number))
