"""Compute sums over records that estimate first and second moments of the true records, also from noisy ones.

The numbers of a node are, in this order: the number of records; per class the estimated number of records and the
squared length of the estimated block; the block of each class, which estimates e_y ⊗ x; and, with second moments, the
upper triangle of x·xᵀ row by row. All are sums over the records of the node. The page “Privacy” derives them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.threads import over_ranges

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.protocol.base import Protocol
    from golfsim.protocol.records import Rows

ROOM = 1 << 25  # bytes that the numbers of some nodes may take while they are added
Norm = Literal["l1", "l2", "gaussian"]


class Precision(NamedTuple):
    """What is known about the noise of the moments without looking at them.

    `counted` is whether the numbers of records per class are estimates. If they are not, only differences of blocks
    are estimates: yx for two classes, and 2·block − x for more. `indicator` is the standard deviation of the class
    indicator of one record. An entry of x·xᵀ outside the diagonal has the variance `spread`² + 2·`variance`·‖x‖²/d, as
    a mean over entries: the first part is that of the product of the noise of two features, and `variance` is that of
    the noise of one feature.
    """

    counted: bool = True
    indicator: float = 0.0
    spread: float = 0.0
    variance: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether the records have no noise."""
        return self.indicator == 0 and self.spread == 0


class Noise(NamedTuple):
    """The noise of each record: the probability of a true label, and the variance of each estimated feature."""

    truth: NDArray[np.float64]
    variance: NDArray[np.float64]


@leaf
def decode_labelled(rows, record, truth, indicator, blocks, x):
    """Compute class indicators (1[y = m] − q)/(p − q), the blocks indicator · x, and x, from features and a label.

    Parameters
    ----------
    rows : Rows
        The records.
    record : int
        The record.
    truth : float
        The probability p that the label is true; q is that of each other label.
    indicator : array of float64, shape (classes,)
        The estimated class indicators; filled here.
    blocks : array of float64, shape (classes, features)
        The estimated blocks; filled here.
    x : array of float64, shape (features,)
        The estimated features; filled here.
    """
    classes = indicator.size
    other = (1 - truth) / (classes - 1)
    for m in range(classes):
        indicator[m] = ((1.0 if rows.label[record] == m else 0.0) - other) / (truth - other)
    for f in range(x.size):
        x[f] = rows.x[record, f]
        for m in range(classes):
            blocks[m, f] = indicator[m] * x[f]


@leaf
def decode_folded(rows, record, indicator, blocks, x):
    """Compute the same from vectors that contain the sign: yx for two classes, else 2·block − x for each class.

    For more than two classes the vectors add up to (2 − c)·x, and the sum of a block is its class indicator. For two
    classes only the difference of the blocks is known. It is divided equally between the blocks, and so is the record.

    Parameters
    ----------
    rows : Rows
        The records.
    record : int
        The record.
    indicator : array of float64, shape (classes,)
        The estimated class indicators; filled here.
    blocks : array of float64, shape (classes, features)
        The estimated blocks; filled here.
    x : array of float64, shape (features,)
        The estimated features, for two classes multiplied by y; filled here.
    """
    classes = indicator.size
    for m in range(classes):
        indicator[m] = 0.5 if classes == 2 else 0.0
    for f in range(x.size):
        if classes == 2:
            x[f] = rows.x[record, f]
            blocks[0, f], blocks[1, f] = -x[f] / 2, x[f] / 2
            continue
        total = 0.0
        for m in range(classes):
            total += rows.x[record * classes + m, f]
        x[f] = total / (2 - classes)
        for m in range(classes):
            blocks[m, f] = (rows.x[record * classes + m, f] + x[f]) / 2
            indicator[m] += blocks[m, f]


@leaf
def add_record(indicator, blocks, x, variance, second, out, row):
    """Add the numbers of one record to those of its node.

    Parameters
    ----------
    indicator : array of float64, shape (classes,)
        The estimated class indicators.
    blocks : array of float64, shape (classes, features)
        The estimated blocks.
    x : array of float64, shape (features,)
        The estimated features.
    variance : float
        The variance of each estimated feature, which is subtracted from the diagonal of x·xᵀ.
    second : bool
        Whether to add x·xᵀ.
    out : array of float64, shape (nodes, width)
        The numbers; changed in place.
    row : int
        The row of `out`.
    """
    classes, features = blocks.shape
    out[row, 0] += 1
    k = 1 + 2 * classes
    for m in range(classes):
        square = 0.0
        for f in range(features):
            square += blocks[m, f] * blocks[m, f]
            out[row, k + f] += blocks[m, f]
        out[row, 1 + m] += indicator[m]
        out[row, 1 + classes + m] += square
        k += features
    if second:
        for f in range(features):
            out[row, k] -= variance
            for g in range(f, features):
                out[row, k + g - f] += x[f] * x[g]
            k += features - f


@kernel
def add_moments(rows, nodes, lo, hi, classes, noise, second, out):
    """Compute the numbers of some nodes.

    Parameters
    ----------
    rows : Rows
        The records.
    nodes : array of int32
        The nodes.
    lo, hi : int
        The range of `nodes`.
    classes : int
        The number of classes.
    noise : Noise
        The noise of each record.
    second : bool
        Whether to compute second moments.
    out : array of float64, shape (nodes, width)
        The numbers of each node; zeros, filled here.
    """
    features = rows.x.shape[1]
    indicator, blocks, x = np.empty(classes), np.empty((classes, features)), np.empty(features)
    for place in range(lo, hi):
        node = nodes[place]
        for record in range(rows.first[node], rows.stop[node]):
            if rows.folded:
                decode_folded(rows, record, indicator, blocks, x)
            else:
                decode_labelled(rows, record, noise.truth[record], indicator, blocks, x)
            add_record(indicator, blocks, x, noise.variance[record], second, out, place)


@kernel
def add_rows(rows, lo, hi, total):
    """Add all rows to the columns lo … hi−1 of a total, in the order of the rows."""
    for row in range(len(rows)):
        for column in range(lo, hi):
            total[column] += rows[row, column]


def width(classes: int, features: int, second: bool) -> int:
    """Return how many numbers `values` returns per node."""
    return 1 + 2 * classes + classes * features + (features * (features + 1) // 2 if second else 0)


def moments(
    rows: Rows, nodes: NDArray[np.int32], classes: int, noise: Noise, second: bool, threads: int
) -> NDArray[np.float64]:
    """Return the numbers [nodes, width] of some nodes.

    Parameters
    ----------
    rows : Rows
        The records.
    nodes : array of int32
        The nodes.
    classes : int
        The number of classes.
    noise : Noise
        The noise of each record.
    second : bool
        Whether to compute second moments.
    threads : int
        The number of threads.
    """
    out = np.zeros((nodes.size, width(classes, rows.x.shape[1], second)))
    over_ranges(threads, lambda lo, hi: add_moments(rows, nodes, lo, hi, classes, noise, second, out), 0, nodes.size, 1)
    return out


def summed(layer: Protocol[Any], world: World, nodes: NDArray[np.int32], second: bool) -> NDArray[np.float64]:
    """Return the sum of the numbers of some nodes, added in the order of `nodes`.

    The numbers of a few nodes at a time are in memory; how many these are does not change the sum.
    """
    total = np.zeros(layer.value_width(second))
    for lo in range(0, nodes.size, at_once(total.size)):
        numbers = layer.values(world, nodes[lo : lo + at_once(total.size)], second)
        over_ranges(world.threads, lambda a, b, rows=numbers: add_rows(rows, a, b, total), 0, total.size)  # type: ignore[misc]
    return total


def at_once(numbers: int) -> int:
    """Return the number of nodes, each with this many numbers, that are in memory at the same time."""
    return max(1, ROOM // (8 * numbers))


# ----------------------------------------------------------------------------------------------------------- variances


def coordinate_variance(norm: Norm, scale: NDArray[np.float64], features: int) -> NDArray[np.float64]:
    """Return the variance of each coordinate of Laplace (“l1”), Gamma-norm (“l2”) or Gaussian noise of some scales."""
    return {"l1": 2, "l2": features + 1, "gaussian": 1}[norm] * scale * scale


def indicator_variance(truth: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Return the variance of the class indicators of a label with random response, as a mean over the classes."""
    other = (1 - truth) / (classes - 1)
    return (truth * (1 - truth) + (classes - 1) * other * (1 - other)) / (classes * (truth - other) ** 2)


def product_variance(norm: Norm, variance: NDArray[np.float64], features: int, vectors: int = 1) -> NDArray[np.float64]:
    """Return the variance of the product of the noise of two features, from that of the noise of one feature.

    This noise is the sum of that of some vectors. Two coordinates of Gamma-norm noise are uncorrelated, but their
    squares are not.
    """
    return (1 + 2 / ((features + 1) * vectors) if norm == "l2" else 1.0) * variance * variance


def mean_of(numbers: NDArray[np.float64]) -> float:
    """Return the mean with the same bits on every processor; 0 without numbers."""
    return math.fsum(numbers.tolist()) / max(numbers.size, 1)
