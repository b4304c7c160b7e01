"""Elementary functions and matrix products with the same bits on every processor.

numpy and BLAS choose their code by the processor, and its results differ in the last bits. Here everything is made of
sums, products, divisions and square roots, which IEEE 754 rounds in one way only. All functions may be used in kernels;
a loop over them fills vector registers.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from golfsim.kernels import inlined, kernel, leaf
from golfsim.simd import dot_until, load, spread, store, zeros

MANTISSA = 52  # bits
BIAS = 1023
LEAST = np.float64(math.sqrt(0.5)).view(np.int64)  # the bits of the smallest number of [√½, √2)
LN_2 = math.log(2)
LN_2_HIGH = 0.6931467056274414  # the first twenty bits of ln 2: times a whole number k below 2¹¹ it is exact
LN_2_LOW = 4.7493250390316726e-07  # the rest
ROUND = 1.5 * 2.0**MANTISSA  # a number plus this has no digits after the point
ROUND_BITS = np.float64(ROUND).view(np.int64)


@inlined
def exp(x):
    """Return e^x: e^x = 2^k·e^r with a whole k and r between ±ln(2)/2, and a Taylor series for e^r."""
    y = min(max(np.float64(x), -746.0), 710.0)
    shifted = y * (1 / LN_2) + ROUND
    k = np.float64(shifted).view(np.int64) - ROUND_BITS
    turns = shifted - ROUND
    r = (y - turns * LN_2_HIGH) - turns * LN_2_LOW
    rest = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600)))))
    rest = 1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * rest))))
    value = 1 + (r + r * r * rest)
    half = k >> 1
    value *= np.int64((half + BIAS) << MANTISSA).view(np.float64)
    return value * np.int64((k - half + BIAS) << MANTISSA).view(np.float64) if x == x else value * x


@inlined
def log(u):
    """Return the natural logarithm of a positive number that is not below 2⁻¹⁰²².

    u = m·2^e with m of [√½, √2), and ln m = 2(s + s³/3 + s⁵/5 + …) with s = (m−1)/(m+1), at most 0.172 in size: what
    follows the last term is below 2·10⁻¹⁷ of the sum.
    """
    bits = np.float64(u).view(np.int64)
    e = (bits - LEAST) >> MANTISSA
    m = np.int64(bits - (e << MANTISSA)).view(np.float64)
    s = (m - 1) / (m + 1)
    z = s * s
    rest = z * (1 / 17 + z * (1 / 19 + z * (1 / 21)))
    rest = z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + z * (1 / 15 + rest))))
    return np.float64(e) * LN_2 + 2 * (s + s * z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + rest))))


@inlined
def log1p(x):
    """Return ln(1 + x) for x of 0 and more; where 1 + x is rounded, what it lost is added."""
    u = 1 + x
    return log(u) + (x - (u - 1)) / u


@inlined
def power(u, exponent):
    """Return a positive number to any power."""
    return exp(exponent * log(u))


@inlined
def cos_of_turns(u):
    """Return cos(2πu) for u from 0 to 1: by Taylor series within an eighth of a turn of the nearest quarter."""
    quarters = 4 * np.float64(u)
    shifted = quarters + ROUND
    quarter = (np.float64(shifted).view(np.int64) - ROUND_BITS) & 3
    a = (quarters - (shifted - ROUND)) * (math.pi / 2)
    z = a * a
    cosine = 1 / 40320 - z * (1 / 3628800 - z * (1 / 479001600 - z * (1 / 87178291200 - z * (1 / 20922789888000))))
    cosine = 1 - z * (1 / 2 - z * (1 / 24 - z * (1 / 720 - z * cosine)))
    sine = 1 / 362880 - z * (1 / 39916800 - z * (1 / 6227020800 - z * (1 / 1307674368000 - z * (1 / 355687428096000))))
    sine = a - a * (z * (1 / 6 - z * (1 / 120 - z * (1 / 5040 - z * sine))))
    size = sine if quarter & 1 == 1 else cosine
    return -size if quarter == 1 or quarter == 2 else size


# ------------------------------------------------------------------------------------------------------- whole arrays


@kernel
def _fill_exp(x, out):
    for i in range(x.size):
        out[i] = exp(x[i])


@kernel
def _fill_log(x, out):
    for i in range(x.size):
        out[i] = log(x[i])


def exp_of(x: Any) -> NDArray[np.float64]:
    """Return e^x of each number of an array."""
    return _filled(_fill_exp, x)


def log_of(x: Any) -> NDArray[np.float64]:
    """Return the natural logarithm of each number of an array; that of 0 is −∞."""
    numbers = np.asarray(x, np.float64)
    found = _filled(_fill_log, np.where(numbers > 0, numbers, 1.0))
    return np.where(numbers > 0, found, -np.inf)


def power_of(x: Any, exponent: float) -> NDArray[np.float64]:
    """Return each number of an array, none below 0, to a positive power."""
    return exp_of(exponent * np.maximum(log_of(x), -1e300))


def _filled(fill: Any, x: Any) -> NDArray[np.float64]:
    numbers = np.ascontiguousarray(x, np.float64)
    out = np.empty_like(numbers)
    fill(numbers.reshape(-1), out.reshape(-1))
    return out


# ---------------------------------------------------------------------------------------------------- matrix products

ROWS, COLUMNS = 4, 16  # of a tile whose sums stay in registers


@kernel
def _products(a, b, out):
    """out[i, j] = Σ a[i, f]·b[j, f], added in the order of f; rows of a are padded to fours, columns to sixteens."""
    features = a.shape[1]
    tile = np.zeros((features, COLUMNS), a.dtype)
    for j in range(0, out.shape[1], COLUMNS):
        for column in range(COLUMNS):
            for f in range(features):
                tile[f, column] = b[j + column, f] if j + column < b.shape[0] else 0
        for i in range(0, out.shape[0], ROWS):
            s0 = s1 = s2 = s3 = zeros(a, COLUMNS)
            i0, i1, i2, i3 = i, min(i + 1, len(a) - 1), min(i + 2, len(a) - 1), min(i + 3, len(a) - 1)
            for f in range(features):
                right = load(tile, f, 0, COLUMNS)
                s0 = s0 + spread(a[i0, f], COLUMNS) * right
                s1 = s1 + spread(a[i1, f], COLUMNS) * right
                s2 = s2 + spread(a[i2, f], COLUMNS) * right
                s3 = s3 + spread(a[i3, f], COLUMNS) * right
            store(out, i, j, s0)
            store(out, i + 1, j, s1)
            store(out, i + 2, j, s2)
            store(out, i + 3, j, s3)


def _padded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a·bᵀ, [rows of a, rows of b]: each sum is taken in the order of the columns, whatever the shapes are.

    Both arrays are of the same floating-point type, and so is the result.
    """
    if len(a) > len(b):  # the longer side fills the registers
        return np.ascontiguousarray(product(b, a).T)
    if numba.config.DISABLE_JIT:
        found = np.zeros((len(a), len(b)), a.dtype)
        for f in range(a.shape[1]):
            found += a[:, f : f + 1] * b[:, f]
        return found
    out = np.empty((_padded(len(a), ROWS), _padded(len(b), COLUMNS)), a.dtype)
    if out.size:
        _products(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return np.ascontiguousarray(out[: len(a), : len(b)])


# --------------------------------------------------------------------------------------------------- linear equations


@leaf
def factorise(a):
    """Put Cholesky's lower factor of a positive definite matrix into its place."""
    for j in range(len(a)):
        for i in range(j, len(a)):
            left = a[i, j] - dot_until(a, i, a, j, j)
            a[i, j] = np.sqrt(left) if i == j else left / a[j, j]


@leaf
def substitute(factor, b):
    """Replace b by the solution x of (L·Lᵀ)x = b for a lower factor L."""
    for i in range(b.size):
        b[i] = (b[i] - dot_until(factor, i, b, 0, i)) / factor[i, i]
    for i in range(b.size - 1, -1, -1):
        b[i] /= factor[i, i]
        for k in range(i):
            b[k] -= factor[i, k] * b[i]


def solve(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the solution of a·x = b for a positive definite matrix a and each column of b."""
    factor, columns = np.array(a, order="C"), np.array(b.T, order="C")
    factorise(factor)
    for column in columns:
        substitute(factor, column)
    return columns.T
