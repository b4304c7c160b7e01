"""Scale records: features to [0, 1], groups of features to their sums, records to norm 1, and an added bias."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.data.cards import Card
from golfsim.data.config import DataConfig
from golfsim.data.files import Unscaled

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


Bounds = tuple[Floats, Floats]


Step = Callable[[Floats], Floats]  # a scaling step; a function of this module or a partial of one, to be picklable


CHUNK = 4096  # records scaled at a time


EQUAL = 1e-10  # a smaller deviation, relative to the mean, is rounding


BIAS = "1"  # the name of the feature that is always 1


def span(config: DataConfig) -> tuple[float, float] | None:
    """Return the range of every feature after scaling, for any records; None if the scaling ensures no range."""
    last = config.scale[config.scale.index("standard") :] if "standard" in config.scale else ()
    if last and not set(last) & {*_LENGTHS, "minmax"}:
        return None
    after = config.scale[config.scale.index("pool") :] if "pool" in config.scale else ()
    if after and not set(after) & set(_LENGTHS):
        return (0.0, float(_largest(config))) if "minmax" in config.scale else None
    if "minmax" in config.scale:
        return 0.0, 1.0
    return (-1.0, 1.0) if config.scale else None


def _largest(config: DataConfig) -> int:
    """Return the number of features of the largest group of the step “pool”."""
    return config.pool**2 if isinstance(config.pool, int) else max(map(len, config.groups.values()), default=1)


def width(config: DataConfig, features: int) -> int:
    """Return the number of features after scaling."""
    if isinstance(config.pool, int):
        features //= config.pool**2
    return (len(config.groups) or features) + config.scale.count("bias")


def names(config: DataConfig, features: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the features after scaling."""
    if "pool" in config.scale:
        features = tuple(name for name, _ in _groups(config, features))
    return (*features, *(BIAS for name in config.scale if name == "bias"))


def _groups(config: DataConfig, features: tuple[str, ...]) -> list[tuple[str, list[int]]]:
    """Return the groups of features that the step “pool” adds up, with their names."""
    if config.pool is None or isinstance(config.pool, int):
        return _blocks(len(features), config.pool or 1)
    place = {name: f for f, name in enumerate(features)}
    named = [name for group in config.groups.values() for name in group]
    unknown = [name for name in named if name not in place]
    if unknown:
        raise UserError(f"there is no feature “{unknown[0]}”", key="data.pool", hint=nearest(unknown[0], features))
    missing = [name for name in features if name not in named]
    if missing:
        hint = "put every feature into one group; a group may have one feature"
        raise UserError(f"the feature “{missing[0]}” is in no group", key="data.pool", hint=hint)
    return [(name, [place[each] for each in group]) for name, group in config.groups.items()]


def _blocks(features: int, size: int) -> list[tuple[str, list[int]]]:
    """Return the blocks of size × size pixels of a square image, row by row."""
    side = math.isqrt(features)
    if side * side != features or side % size:
        sides = [str(k) for k in range(2, side + 1) if side * side == features and side % k == 0]
        possible = f"for {side} × {side} pixels use {', '.join(sides)}" if sides else "name the groups of features"
        what = f"{features} features are not a square image whose sides are divisible by {size}"
        raise UserError(what, key="data.pool", hint=possible)
    across = range(0, side, size)
    return [
        (
            f"block {row // size},{column // size}",
            [(row + r) * side + column + c for r in range(size) for c in range(size)],
        )
        for row in across
        for column in across
    ]


def scaling_steps(config: DataConfig, card: Card | None, raw: Unscaled, train: Indices) -> list[Step]:
    """Return the scaling steps of `[data]`, with their bounds."""
    steps: list[Step] = []
    for position, name in enumerate(config.scale):
        if name == "pool":
            steps.append(_pool(_groups(config, raw.features)))
            continue
        if name not in ("minmax", "standard"):
            steps.append(_with_bias if name == "bias" else _LENGTHS[name])
            continue
        if "bias" in config.scale[:position]:
            raise UserError(f"{name} would set the bias to 0", key="data.scale", hint=f"put bias after {name}")
        if name == "standard":
            steps.append(_standard(*_moments(raw.x, train, steps)))
            continue
        if config.bounds != "train" and position:
            raise UserError(
                "public bounds apply to the unscaled features only", key="data.scale", hint="put minmax first"
            )
        seen = config.bounds == "train"
        steps.append(_minmax(_seen(raw.x, train, steps) if seen else _public(card, raw, config.stated_bounds)))
    return steps


def _public(card: Card | None, raw: Unscaled, stated: Mapping[str, tuple[float, float]]) -> Bounds:
    """Return the bounds of each feature from the scenario or, if it states none, from the card."""
    if stated:
        _check_stated(stated, raw.features)
        return _by_feature(stated, raw.features)
    if card is None or not card.bounds:
        whose = f"“{card.name}”" if card else "your own file"
        hint = 'state them: bounds = [0, 1]; bounds = "train" reads the training records, which is not private'
        raise UserError(f"{whose} has no public bounds for minmax", key="data.bounds", hint=hint)
    return _by_feature(card.bounds, raw.features)


def _by_feature(bounds: Mapping[str, tuple[float, float]], features: tuple[str, ...]) -> Bounds:
    pairs = [bounds.get(name, bounds.get("default")) for name in features]
    low, high = np.array(pairs, dtype=np.float64).T
    return low, high


def _check_stated(stated: Mapping[str, tuple[float, float]], features: tuple[str, ...]) -> None:
    unknown = [name for name in stated if name not in (*features, "default")]
    if unknown:
        raise UserError(f"there is no feature “{unknown[0]}”", key="data.bounds", hint=nearest(unknown[0], features))
    missing = [name for name in features if name not in stated]
    if missing and "default" not in stated:
        what = f"the feature “{missing[0]}” has no bounds"
        raise UserError(what, key="data.bounds", hint="add default = [low, high] for all features that are not named")


def _seen(x: NDArray[Any], train: Indices, steps: list[Step]) -> Bounds:
    """Return the minimum and maximum of each feature of the training records, after `steps`."""
    low, high = np.full(_width(x, steps), np.inf), np.full(_width(x, steps), -np.inf)
    for _, part in _in_chunks(x, train, steps):
        np.minimum(low, part.min(axis=0), out=low)
        np.maximum(high, part.max(axis=0), out=high)
    return low, high


def _moments(x: NDArray[Any], train: Indices, steps: list[Step]) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each feature of the training records, after `steps`.

    Records are added one after the other, so the bits are the same on every machine.
    """
    number = max(len(train), 1)
    mean, square = np.zeros(_width(x, steps)), np.zeros(_width(x, steps))
    for _, part in _in_chunks(x, train, steps):
        mean += np.add.accumulate(part)[-1]
    mean /= number
    for _, part in _in_chunks(x, train, steps):
        off = part - mean
        square += np.add.accumulate(off * off)[-1]
    return mean, np.sqrt(square / number)


def scale_rows(x: NDArray[Any], rows: Indices, steps: Sequence[Step]) -> NDArray[np.float32]:
    """Return some rows of x after scaling."""
    out = np.empty((len(rows), _width(x, steps)), dtype=np.float32)
    for place, part in _in_chunks(x, rows, steps):
        out[place] = part
    return out


def _width(x: NDArray[Any], steps: Sequence[Step]) -> int:
    """Return the number of features after some steps."""
    return functools.reduce(lambda part, step: step(part), steps, np.zeros((0, x.shape[1]))).shape[1]


def _in_chunks(x: NDArray[Any], rows: Indices, steps: Sequence[Step]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    for start in range(0, len(rows), CHUNK):
        place = slice(start, min(start + CHUNK, len(rows)))
        part = x[rows[place]].astype(np.float64)
        for step in steps:
            part = step(part)
        yield place, part


def _minmax(bounds: Bounds) -> Step:
    """Return the step that maps each feature from its bounds to [0, 1].

    Values outside the bounds, also those of test records, are clipped. Constant features become 0.
    """
    low, high = bounds
    return functools.partial(_to_unit, low, np.where(high > low, high - low, np.inf))


def _to_unit(low: Floats, width: Floats, x: Floats) -> Floats:
    return np.clip((x - low) / width, 0, 1)


def _standard(mean: Floats, deviation: Floats) -> Step:
    """Return the step that maps each feature to mean 0 and standard deviation 1. Constant features become 0."""
    return functools.partial(_in_deviations, mean, np.where(deviation > EQUAL * np.abs(mean), deviation, np.inf))


def _in_deviations(mean: Floats, deviation: Floats, x: Floats) -> Floats:
    return (x - mean) / deviation


def _pool(groups: list[tuple[str, list[int]]]) -> Step:
    """Return the step that replaces features by the sums of groups."""
    sizes = [len(members) for _, members in groups]
    padded = np.full((len(groups), max(sizes)), -1, np.int64)
    for place, (_, members) in enumerate(groups):
        padded[place, : len(members)] = members
    return functools.partial(_pooled, padded)


def _pooled(members: Indices, x: Floats) -> Floats:
    """Add the features of each group in their order; −1 is no feature."""
    out = np.zeros((len(x), len(members)))
    for column in members.T:
        there = column >= 0
        out[:, there] += x[:, column[there]]
    return out


def _with_bias(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack((x, np.ones(len(x))))


def _divided(x: NDArray[np.float64], length: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / np.where(length > 0, length, 1)[:, None]


def _l1(x: Floats) -> Floats:
    return _divided(x, np.abs(x).sum(axis=1))


def _lengths(x: Floats) -> Floats:
    return np.asarray(np.sqrt(np.square(x).sum(axis=1)))


def _l2(x: Floats) -> Floats:
    return _divided(x, _lengths(x))


def _clip_l2(x: Floats) -> Floats:
    return _divided(x, np.maximum(_lengths(x), 1))


_LENGTHS: dict[str, Step] = {"l1": _l1, "l2": _l2, "clip-l2": _clip_l2}


def to_length(x: NDArray[np.float32], config: DataConfig) -> NDArray[np.float32]:
    """Scale records that were changed after scaling to the norm that `[data]` requires."""
    return scaled(x, [_LENGTHS[name] for name in config.scale if name in _LENGTHS])


def scaled(x: NDArray[Any], steps: Sequence[Step]) -> NDArray[np.float32]:
    """Return records after scaling steps, e.g. new records scaled like the training records of a model."""
    return scale_rows(x, np.arange(len(x)), steps)
