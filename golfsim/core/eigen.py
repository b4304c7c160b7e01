"""Compute eigenvalues and eigenvectors of symmetric matrices with the same bits on every processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf

SWEEPS = 60  # at most; ten are enough for most matrices
NEGLIGIBLE = 2.0**-104  # squared: the part of the length of a matrix that counts as rounding


@leaf
def rotate(a, vectors, p, q):
    """Make a[p, q] zero by a rotation of the coordinates p and q (Golub & Van Loan 2013, section 8.5)."""
    theta = (a[q, q] - a[p, p]) / (2 * a[p, q])
    tangent = (1 if theta >= 0 else -1) / (abs(theta) + np.sqrt(theta * theta + 1))
    cosine = 1 / np.sqrt(tangent * tangent + 1)
    sine = tangent * cosine
    for k in range(len(a)):
        left, right = a[p, k], a[q, k]
        a[p, k] = cosine * left - sine * right
        a[q, k] = sine * left + cosine * right
        left, right = vectors[p, k], vectors[q, k]
        vectors[p, k] = cosine * left - sine * right
        vectors[q, k] = sine * left + cosine * right
    for k in range(len(a)):
        left, right = a[k, p], a[k, q]
        a[k, p] = cosine * left - sine * right
        a[k, q] = sine * left + cosine * right


@kernel
def diagonalise(a, vectors):
    """Rotate a symmetric matrix until only its diagonal is left; row k of `vectors` becomes the k-th eigenvector."""
    for _ in range(SWEEPS):
        inside = outside = 0.0
        for p in range(len(a)):
            inside += a[p, p] * a[p, p]
            for q in range(p + 1, len(a)):
                outside += 2 * a[p, q] * a[p, q]
        if outside <= NEGLIGIBLE * (inside + outside):
            break
        for p in range(len(a)):
            for q in range(p + 1, len(a)):
                if a[p, q] * a[p, q] > NEGLIGIBLE * NEGLIGIBLE * (inside + outside):
                    rotate(a, vectors, p, q)


def eigen(a: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues of a symmetric matrix, and its eigenvectors as rows, by cyclic Jacobi rotations."""
    diagonal, vectors = np.array(a, np.float64, order="C"), np.eye(len(a))
    diagonalise(diagonal, vectors)
    return np.diagonal(diagonal).copy(), vectors
