"""Compute how much Gaussian noise that is shared in pairs protects a node (see the page “Privacy”).

Every node adds its own noise of variance a². Both nodes of a pair know a normal number of variance (r·a)²: one of them
adds it, the other one subtracts it. Against an observer who knows the noise of all nodes that collude, the noise of the
others has the covariance a²·(I + r²·L), where L is the Laplacian of the graph of pairs between them. So a value that
moves by Δ is protected as by noise of variance a²/e, where e is the node's diagonal entry of the inverse of I + r²·L.
This entry is 1 divided by the electrical conductance from the node to the ground, in a network where each pair has the
conductance r² and each node a conductance of 1 to the ground.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golfsim.privacy.gaussian import rounded

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SLACK = 1e-9  # a bound on the rounding error of the closed form, relative
INVERTED = 1e-5  # the same of an inverse, for r ≤ 1000
MOST = 5000  # nodes of a matrix that is inverted


def conductance(nodes: int, ratio: float) -> float:
    """Return the smallest conductance to the ground of a node that is connected with nodes−1 others, however they are.

    `ratio` is r. The smallest one is that of the end of a path: it is 1 with one node, and at most `nodes`.
    """
    square, found = ratio * ratio, 1.0
    for _ in range(nodes - 1):
        found = 1.0 + square * found / (square + found)
    return found * (1 - SLACK)


def components(pairs: csr_array) -> NDArray[np.int32]:
    """Return the number of the connected component of each node, and −1 for a node without pairs."""
    from scipy.sparse.csgraph import connected_components

    found = connected_components(pairs, directed=False)[1]
    return np.where(np.diff(pairs.indptr) > 0, found, -1).astype(np.int32)


def sizes(pairs: csr_array) -> NDArray[np.int64]:
    """Return the number of nodes of the connected component of each node."""
    component = components(pairs)
    count = np.bincount(component[component >= 0], minlength=1)
    return np.where(component >= 0, count[component], 1)


def exposures(pairs: csr_array, ratio: float) -> NDArray[np.float64]:
    """Return the exact exposure of each node: the diagonal of the inverse of I + r²·L, never too small.

    `pairs` is the symmetric adjacency matrix of the nodes that do not collude. 1: a node has only its own noise.
    """
    if pairs.shape[0] > MOST:
        raise ValueError(f"{pairs.shape[0]} nodes; at most {MOST}")
    linked = (pairs.toarray() > 0) * (ratio * ratio)
    inverse = np.linalg.inv(np.diag(1.0 + linked.sum(axis=1)) - linked)
    return np.array([min(1.0, rounded(e * (1 + INVERTED), up=True)) for e in np.diagonal(inverse).tolist()])
