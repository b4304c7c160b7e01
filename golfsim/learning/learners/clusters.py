"""Online k-means: a model is k centroids, which are matched to each other before two models are merged.

After Berta, Hegedűs & Ormándi (ESANN 2014). The text of the paper could not be read; the rules are those of GoLF's
classes `KMeans` and `HungarianMatchingKMeans`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from golfsim.core.kernels import inlined, leaf
from golfsim.core.simd import fused, load, spread, total, zeros
from golfsim.learning.online import LearnerConfig, OnlineLearner, Shape

FARTHEST = np.float32(-3e38)  # the score of a centroid that is not there


class Centroids(NamedTuple):
    """The numbers of k-means."""

    lam: float
    offset: float
    features: int
    clusters: int
    share: float  # of the way to a record that the nearest centroid moves
    matched: bool  # whether centroids are matched before they are merged


@inlined
def squared_distance(w, i, p, x, r, q, size):
    """Return the squared distance between `size` numbers of two rows, from place p and from place q on.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The first array.
    i, p : int
        Its row, and the place of the first number.
    x : array of float32, shape (rows, numbers)
        The second array.
    r, q : int
        Its row, and the place of the first number.
    size : int
        The number of numbers.
    """
    eight, minus, f = zeros(w, 8), spread(np.float32(-1), 8), 0
    while f + 8 <= size:
        apart = fused(minus, load(x, r, q + f, 8), load(w, i, p + f, 8))
        eight = fused(apart, apart, eight)
        f += 8
    found = total(eight)
    while f < size:
        one = w[i, p + f] - x[r, q + f]
        found = fused(one, one, found)
        f += 1
    return found


@inlined
def is_there(s, w, i, c):
    """Return whether model i has centroid c; a model begins without any."""
    return w[i, c * (s.features + 1) + s.features] > 0


@inlined
def _gaps(s, w, i):
    """Return the number of centroids that a model lacks."""
    found = 0
    for c in range(s.clusters):
        found += not is_there(s, w, i, c)
    return found


@inlined
def _fill_gap(s, w, i, x, r, q):
    """Make F numbers the first centroid that the model in row i lacks, unless one of its centroids is equal to them."""
    gap, size = -1, s.features + 1
    for c in range(s.clusters):
        if not is_there(s, w, i, c):
            gap = c if gap < 0 else gap
        elif squared_distance(w, i, c * size, x, r, q, s.features) == 0:
            return
    if gap >= 0:
        for f in range(s.features):
            w[i, gap * size + f] = x[r, q + f]
        w[i, gap * size + s.features] = 1


@inlined
def _update(s, w, i, t, rows, first, stop, room):
    size, share = s.features + 1, np.float32(s.share)
    for r in range(first, stop):
        if _gaps(s, w, i) > 0:
            _fill_gap(s, w, i, rows.x, r, 0)
        else:
            nearest, shortest = 0, squared_distance(w, i, 0, rows.x, r, 0, s.features)
            for c in range(1, s.clusters):
                distance = squared_distance(w, i, c * size, rows.x, r, 0, s.features)
                if distance < shortest:
                    nearest, shortest = c, distance
            p, keep = nearest * size, np.float32(1) - share
            for f in range(s.features):
                w[i, p + f] = fused(share, rows.x[r, f], keep * w[i, p + f])


@leaf
def _scores(s, w, i, x, r, out, o, room):
    for c in range(s.clusters):
        there = is_there(s, w, i, c)
        p = c * (s.features + 1)
        out[o, c] = max(-squared_distance(w, i, p, x, r, 0, s.features), FARTHEST) if there else FARTHEST


@leaf
def assign(work, k):
    """Find the assignment of rows to columns with the smallest sum of costs: the Hungarian method in O(k³).

    `work` holds the costs from place k on, row by row. The column of row c is written to place c. Behind the costs
    there is room for six times k + 1 numbers (after Jonker & Volgenant 1987, with columns and rows numbered from 1).
    """
    u = k + k * k
    v, row_of, way, least, used = u + k + 1, u + 2 * (k + 1), u + 3 * (k + 1), u + 4 * (k + 1), u + 5 * (k + 1)
    for place in range(u, used + k + 1):
        work[0, place] = 0
    for row in range(1, k + 1):
        work[0, row_of] = row
        for column in range(k + 1):
            work[0, least + column], work[0, used + column] = np.inf, 0
        at = 0
        while work[0, row_of + at] != 0:
            work[0, used + at] = 1
            r, smallest, following = int(work[0, row_of + at]), np.float32(np.inf), 0
            for column in range(1, k + 1):
                if work[0, used + column] == 0:
                    cost = work[0, k + (r - 1) * k + column - 1] - work[0, u + r] - work[0, v + column]
                    if cost < work[0, least + column]:
                        work[0, least + column], work[0, way + column] = cost, at
                    if following == 0 or work[0, least + column] < smallest:
                        smallest, following = work[0, least + column], column
            for column in range(k + 1):
                if work[0, used + column] != 0:
                    work[0, u + int(work[0, row_of + column])] += smallest
                    work[0, v + column] -= smallest
                else:
                    work[0, least + column] -= smallest
            at = following
        while at != 0:
            before = int(work[0, way + at])
            work[0, row_of + at] = work[0, row_of + before]
            at = before
    for column in range(1, k + 1):
        work[0, int(work[0, row_of + column]) - 1] = column - 1


@leaf
def match(s, a, i, b, j, work):
    """Write the number of the centroid of model i of a that each centroid of model j of b is matched with.

    The sum of the squared distances between matched centroids is as small as possible. If the nearest centroids are all
    different, they are the answer.

    Parameters
    ----------
    s : Centroids
        The numbers of the learner.
    a, b : arrays of float32, shape (rows, numbers)
        The models.
    i, j : int
        The rows of the two models.
    work : array of float32, shape (1, numbers)
        Working memory; its first k numbers are the result.
    """
    k, size = s.clusters, s.features + 1
    for c in range(k):
        nearest = 0
        for d in range(k):
            cost = squared_distance(b, j, c * size, a, i, d * size, s.features)
            work[0, k + c * k + d] = cost
            if cost < work[0, k + c * k + nearest]:
                nearest = d
        work[0, c] = nearest
    for c in range(1, k):
        for other in range(c):
            if work[0, c] == work[0, other]:
                assign(work, k)
                return


@inlined
def _merge(s, a, i, b, j, share, room):
    work, size, rest = room.work, s.features + 1, np.float32(1) - share
    if _gaps(s, b, j) > 0:
        for c in range(s.clusters):
            if is_there(s, a, i, c):
                _fill_gap(s, b, j, a, i, c * size)
    elif _gaps(s, a, i) == 0:
        if s.matched:
            match(s, a, i, b, j, work)
        for c in range(s.clusters):
            q = int(work[0, c]) * size if s.matched else c * size
            for f in range(s.features):
                b[j, c * size + f] = fused(share, a[i, q + f], rest * b[j, c * size + f])


class KMeansConfig(LearnerConfig):
    """The settings of k-means."""

    clusters: int | None = Field(
        None, ge=1, le=256, description="the number k of clusters; default: the number of classes of the data"
    )
    window: float = Field(
        100.0,
        ge=2,
        le=1e9,
        description="about how many records a centroid is the mean of: the nearest one moves 2/window of the way to a "
        "record",
    )
    match: Literal["optimal", "order"] = Field(
        "optimal",
        description="which centroids two models average: those of the assignment with the smallest sum of squared "
        "distances (“optimal”), or those with the same number (“order”)",
    )


class KMeans(OnlineLearner[KMeansConfig]):
    """k-means clustering, online: the nearest centroid moves towards the record (Berta et al. 2014). No labels."""

    Config = KMeansConfig
    Numbers = Centroids
    task = "clusters"
    update, scores, merge = _update, _scores, _merge

    def outputs(self, records: Shape) -> int:
        """Return one score per cluster: minus the squared distance to its centroid."""
        return records.classes if self.config.clusters is None else self.config.clusters

    def shape(self, records: Shape) -> tuple[int, int]:
        """Return one row: each centroid, followed by 1, or by 0 as long as it is not there."""
        return 1, self.outputs(records) * (records.features + 1)

    def numbers(self, records: Shape, lam: float, offset: float) -> Centroids:
        """Return the sizes, and the share of the way that a centroid moves."""
        config = self.config
        matched = config.match == "optimal"
        return Centroids(lam, offset, records.features, self.outputs(records), 2 / config.window, matched)

    def room(self, records: Shape) -> int:
        """Return what matching two models needs: distances, and numbers per centroid."""
        k = self.outputs(records)
        return k + k * k + 6 * (k + 1)
