"""Compute linear models from the moments of records in closed form, with what is known about their noise.

The moments are sums over records, see `golfsim.protocol.moments`. The page “Privacy” derives every formula.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.eigen import eigen
from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.maths import log_of, product
from golfsim.core.simd import dot
from golfsim.protocol.moments import Precision

if TYPE_CHECKING:
    from golfsim.protocol.records import Records

ROUNDING = 2.0**-53  # of a sum of numbers, relative, per number
Array = NDArray[np.float64]


class Settings(NamedTuple):
    """What a fit knows in addition to the numbers: their precision, and how many nodes they are the mean of."""

    precision: Precision = Precision()
    nodes: float = 1.0  # 1: the numbers are sums
    shrink: float = 1.0  # how strongly class means are moved to the common mean; 1: as the known noise asks for


class Moments(NamedTuple):
    """The numbers by their meaning; `second` is the symmetric matrix Σ x·xᵀ, or empty."""

    number: float
    counts: Array  # [classes]
    squares: Array  # [classes]
    blocks: Array  # [classes, features]
    second: Array  # [features, features]


class Means(NamedTuple):
    """The common mean of all records, the deviation of each class mean from it, and the error of this deviation."""

    common: Array  # [features]
    deviation: Array  # [classes, features]; 0 for a class of which too few records are known
    variance: Array  # [classes]; of all features together
    factor: Array  # [classes]; by which the deviation is shrunk
    counts: Array  # [classes]; 0 for a class of which too few records are known
    share: Array  # [classes]; positive estimates of the shares of the classes


@kernel
def row_dots(a, b, out):
    """Compute the scalar product of each row of a with that of b."""
    for i in range(len(a)):
        out[i] = dot(a, i, b, i)


def _dots(a: Array, b: Array) -> Array:
    out = np.empty(len(a))
    row_dots(np.ascontiguousarray(a), np.ascontiguousarray(np.broadcast_to(b, a.shape)), out)
    return out


def _added(rows: Array) -> Array:
    """Return the sum of the rows, added in their order."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total


def unpack(numbers: Array, classes: int, features: int, nodes: float = 1.0) -> Moments:
    """Return sums by their meaning, from one row of numbers that are sums, or means over some nodes."""
    numbers = np.asarray(numbers, np.float64) * nodes
    edges = np.cumsum([1, classes, classes, classes * features])
    number, counts, squares, blocks, upper = np.split(numbers, edges)
    second = np.zeros((features, features) if upper.size else (0, 0))
    if upper.size:
        rows, columns = np.triu_indices(features)
        second[rows, columns] = second[columns, rows] = upper
    return Moments(float(number[0]), counts, squares, blocks.reshape(classes, features), second)


def means_of(moments: Moments, precision: Precision, shrink: float = 1.0) -> Means:
    """Return the means of the classes, and the variance of their estimates; the factors are for `shrink` times it.

    A class whose estimated number of records is at most its own standard error gets the common mean.
    """
    number, counts = moments.number, moments.counts
    error = precision.indicator * math.sqrt(number)
    known = counts > error
    common = _added(moments.blocks) / number
    counts = np.where(known, counts, 0.0)
    means = moments.blocks / np.where(known, counts, 1.0)[:, None]
    deviation = np.where(known[:, None], means - common, 0.0)
    variance = np.zeros(counts.size)
    if not precision.exact:
        doubt = number * precision.indicator**2  # of the estimated number of records
        divisor = counts * (counts - 1) + doubt
        sound = known & (divisor > 0)
        left = moments.squares + (doubt - counts) * _dots(means, means)
        variance = np.where(sound, np.maximum(left, 0.0) / np.where(sound, divisor, 1.0), np.inf)
    lengths = _dots(deviation, deviation)
    removed = shrink * variance if shrink > 0 else np.zeros(counts.size)
    kept = lengths > removed
    factor = np.where(kept, 1 - np.where(kept, removed, 0.0) / np.where(kept, lengths, 1.0), 0.0)
    return Means(common, deviation, variance, factor, counts, _shares(moments, error))


def _shares(moments: Moments, error: float) -> Array:
    """Return the share of each class, shrunk towards equal shares if the estimated numbers of records have an error.

    The share of a class is at least that of one record, or of the error.
    """
    number, classes = moments.number, moments.counts.size
    deviation = moments.counts / number - 1 / classes
    length, variance = float(_dots(deviation[None], deviation)[0]), classes * (error / number) ** 2
    factor = 1 - variance / length if length > variance else 0.0
    return np.maximum(1 / classes + factor * deviation, max(error, 1.0) / number)


def centroid(numbers: Array, classes: int, features: int, settings: Settings) -> Array:
    """Return models [models, features + 1] that choose the nearest class mean; the last number is a bias.

    Means with noise are shrunk towards the common mean. If nothing is left of any class mean, the models choose the
    class with the most records.
    """
    moments = unpack(numbers, classes, features, settings.nodes)
    if moments.number <= 0:
        return _models(np.zeros((classes, features)), np.zeros(classes))
    means = means_of(moments, settings.precision, settings.shrink)
    w = means.factor[:, None] * means.deviation
    bias = -_dots(w, w) / 2 - _dots(w, means.common)
    return _models(w, bias if means.factor.any() else means.share)


def lda(numbers: Array, classes: int, features: int, settings: Settings) -> Array:
    """Return the models [models, features + 1] of linear discriminant analysis; the last number is a bias.

    If the numbers of records per class are not known, these are the models of least squares, without a bias.
    """
    moments, precision = unpack(numbers, classes, features, settings.nodes), settings.precision
    if moments.number <= 0:
        return _models(np.zeros((classes, features)), np.zeros(classes))
    if not precision.counted:
        return _least_squares(moments, precision)
    means = means_of(moments, precision, settings.shrink)
    w = means.factor[:, None] * means.deviation
    solved = _divided(_within(moments, means), w, moments, precision)
    return _models(solved, -_dots(solved, w) / 2 - _dots(solved, means.common) + log_of(means.share))


def _within(moments: Moments, means: Means) -> Array:
    """Return the covariance within classes: that of all records, without that of the class means."""
    share = means.counts / moments.number
    scaled = (np.sqrt(share)[:, None] * means.deviation).T
    within = moments.second / moments.number - means.common[:, None] * means.common - product(scaled, scaled)
    variance = np.where(np.isfinite(means.variance), means.variance, 0.0)
    return np.asarray(within + math.fsum((share * variance).tolist()) / len(within) * np.eye(len(within)))


def _least_squares(moments: Moments, precision: Precision) -> Array:
    """Return the least squares fit of the sign of each one-vs-all problem."""
    blocks, features = moments.blocks, moments.blocks.shape[1]
    signed = blocks[1:] - blocks[:1] if len(blocks) == 2 else 2 * blocks - _added(blocks)
    w = _divided(moments.second / moments.number, signed / moments.number, moments, precision)
    return np.hstack([w, np.zeros((len(w), 1))]).reshape(-1, features + 1)


def _divided(matrix: Array, vectors: Array, moments: Moments, precision: Precision) -> Array:
    """Return the inverse of a symmetric matrix times each vector.

    Eigenvalues are known up to an error: that of the noise, or that of rounding. The directions of those that are not
    larger are unknown, but their sum is known well: they are replaced by their mean, or by the error of a single entry
    if that is larger.
    """
    values, axes = eigen(matrix)
    rounding = moments.number * ROUNDING * float(np.abs(values).max())
    entry = max(_error_of_entry(moments, precision), rounding)
    if entry == 0:
        return np.zeros_like(vectors)
    small = values <= 2 * entry * math.sqrt(len(matrix))
    mean = math.fsum(values[small].tolist()) / max(int(np.count_nonzero(small)), 1)
    inverted = np.where(small, max(mean, entry), values)
    return product(product(vectors, axes) / inverted, np.ascontiguousarray(axes.T))


def _error_of_entry(moments: Moments, precision: Precision) -> float:
    """Return the standard error of an entry of the mean of x·xᵀ outside the diagonal."""
    length = max(math.fsum(np.diagonal(moments.second).tolist()) / moments.number, 0.0)
    variance = precision.spread**2 + 2 * precision.variance * length / len(moments.second)
    return math.sqrt(variance / moments.number)


def _models(w: Array, bias: Array) -> Array:
    """Return one model per class, or the difference of the two."""
    models = np.hstack([w, bias[:, None]])
    return models[1:] - models[:1] if len(models) == 2 else models


FITS = {"centroid": centroid, "lda": lda}
SECOND = {"centroid": False, "lda": True}  # which of them needs second moments


def lacking(records: Records[Any], learner: str) -> str:
    """Return which numbers records lack that a learner needs; empty if none."""
    if not records.value_width(SECOND[learner]):
        return "second moments" if SECOND[learner] else "moments"
    return "" if learner == "lda" or records.precision().counted else "class means"


def refuse_unknown(records: Records[Any], learner: str, key: str) -> None:
    """Refuse records without the moments that a learner needs."""
    missing = lacking(records, learner)
    if missing:
        raise UserError(
            f"“{learner}” needs {missing}, which cannot be estimated from “{records.name}”",
            key=key,
            hint='publish with mode = "label+features", or "sampled" with samples = 2, or choose another learner',
            docs="privacy",
        )
