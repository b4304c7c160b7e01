"""Compute elementary functions and matrix products with the same bits on every processor.

numpy and BLAS choose their code by the processor, and the results differ in the last bits. The functions here use only
sums, products, divisions and square roots, whose rounding IEEE 754 defines. They can be used in kernels, and a compiler
can vectorise a loop over them.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import inlined, kernel, leaf
from golfsim.core.simd import dot_between, fused, load, spread, store, zeros

MANTISSA = 52  # bits
BIAS = 1023
LEAST = np.float64(math.sqrt(0.5)).view(np.int64)  # the bits of the smallest number of [√½, √2)
LN_2 = math.log(2)
LN_2_HIGH = 0.6931467056274414  # the first twenty bits of ln 2: its product with an integer k below 2¹¹ is exact
LN_2_LOW = 4.7493250390316726e-07  # the rest
ROUND = 1.5 * 2.0**MANTISSA  # adding this number rounds to an integer
ROUND_BITS = np.float64(ROUND).view(np.int64)


@inlined
def _polynomial(x, c0, c1, c2, c3, c4, c5):
    """Return c0 + c1·x + … + c5·x⁵ for numbers or vectors."""
    return fused(fused(fused(fused(fused(c5, x, c4), x, c3), x, c2), x, c1), x, c0)


@inlined
def exp(x):
    """Return e^x as 2^k·e^r, with an integer k, r between ±ln(2)/2, and a Taylor series for e^r."""
    y = min(max(np.float64(x), -746.0), 710.0)
    shifted = fused(y, 1 / LN_2, ROUND)
    k = np.float64(shifted).view(np.int64) - ROUND_BITS
    turns = ROUND - shifted
    r = fused(turns, LN_2_LOW, fused(turns, LN_2_HIGH, y))
    rest = _polynomial(r, 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600, 1 / 6227020800)
    rest = fused(rest, r, 1 / 5040)
    value = 1 + fused(r * r, _polynomial(r, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, rest), r)
    half = k >> 1
    value *= np.int64((half + BIAS) << MANTISSA).view(np.float64)
    return value * np.int64((k - half + BIAS) << MANTISSA).view(np.float64) if x == x else value * x


@inlined
def log(u):
    """Return the natural logarithm of a positive number that is not below 2⁻¹⁰²².

    u = m·2^e with m in [√½, √2), and ln m = t + t³·P(t²) with t = 2(m−1)/(m+1). P is the minimax polynomial of degree
    6; its relative error is 1.3·10⁻¹⁸. Its first coefficients are close to those of the series: 1/12, 1/80, 1/448.
    Processors without AVX-512 can neither shift signed words in vector registers nor convert them to floating point. So
    e is shifted together with its bias, and converted by manipulating its bits.
    """
    bits = np.float64(u).view(np.int64)
    above = np.uint64(bits - LEAST + (BIAS << MANTISSA)) >> np.uint64(MANTISSA)  # e + BIAS
    e = np.int64(np.int64(above) + (ROUND_BITS - BIAS)).view(np.float64) - ROUND
    m = np.int64(bits - ((np.int64(above) - BIAS) << MANTISSA)).view(np.float64)
    t = (m - 1) / fused(m, 0.5, 0.5)
    w = t * t
    rest = fused(fused(4.515365570774097e-06, w, 1.86939093319672e-05), w, 8.878693519310506e-05)
    rest = fused(fused(rest, w, 0.0004340273158817971), w, 0.0022321428704990703)
    rest = fused(fused(rest, w, 0.012499999999817086), w, 0.08333333333333418)
    return fused(e, LN_2, fused(t * w, rest, t))


@inlined
def dot(x, y):
    """Return the scalar product of two vectors, in the precision of the first."""
    return dot_between(x, 0, y, 0, 0, x.size)


@inlined
def log1p(x):
    """Return ln(1 + x) for x ≥ 0, with a correction for the rounding of 1 + x."""
    u = 1 + x
    return log(u) + (x - (u - 1)) / u


@inlined
def power(u, exponent):
    """Return the power of a positive number."""
    return exp(exponent * log(u))


@inlined
def cos_of_turns(u):
    """Return cos(2πu) for u from 0 to 1, by Taylor series around the nearest quarter of a turn."""
    quarters = 4 * np.float64(u)
    shifted = quarters + ROUND
    quarter = (np.float64(shifted).view(np.int64) - ROUND_BITS) & 3
    a = (quarters - (shifted - ROUND)) * (math.pi / 2)
    z = a * a
    cosine = _polynomial(z, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200, 1 / 20922789888000, 0.0)
    cosine = fused(fused(fused(fused(cosine, z, -1 / 720), z, 1 / 24), z, -1 / 2), z, 1.0)
    sine = _polynomial(z, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000, 1 / 355687428096000, 0.0)
    sine = fused(a * z, fused(fused(fused(sine, z, -1 / 5040), z, 1 / 120), z, -1 / 6), a)
    size = sine if quarter & 1 == 1 else cosine
    return -size if quarter == 1 or quarter == 2 else size


# ------------------------------------------------------------------------------------------------------------- arrays


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
    """Return the natural logarithm of each number of an array; the logarithm of 0 is −∞."""
    numbers = np.asarray(x, np.float64)
    found = _filled(_fill_log, np.where(numbers > 0, numbers, 1.0))
    return np.where(numbers > 0, found, -np.inf)


def power_of(x: Any, exponent: float) -> NDArray[np.float64]:
    """Return the positive power of each number of an array; all numbers must be at least 0."""
    return exp_of(exponent * np.maximum(log_of(x), -1e300))


def _filled(fill: Any, x: Any) -> NDArray[np.float64]:
    numbers = np.ascontiguousarray(x, np.float64)
    out = np.empty_like(numbers)
    fill(numbers.reshape(-1), out.reshape(-1))
    return out


# ---------------------------------------------------------------------------------------------------- matrix products

ROWS, COLUMNS = 4, 16  # the shape of a tile whose sums stay in registers


@kernel
def _products(a, b, out):
    """Compute out[i, j] = Σ a[i, f]·b[j, f], added in the order of f.

    The shape of `out` is padded to multiples of ROWS and COLUMNS.
    """
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
                s0 = fused(spread(a[i0, f], COLUMNS), right, s0)
                s1 = fused(spread(a[i1, f], COLUMNS), right, s1)
                s2 = fused(spread(a[i2, f], COLUMNS), right, s2)
                s3 = fused(spread(a[i3, f], COLUMNS), right, s3)
            store(out, i, j, s0)
            store(out, i + 1, j, s1)
            store(out, i + 2, j, s2)
            store(out, i + 3, j, s3)


def _padded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a·bᵀ of shape (rows of a, rows of b); each sum is taken in the order of the columns, for all shapes.

    Both arrays have the same floating-point type, and the result has it, too.
    """
    if len(b) < min(len(a), COLUMNS):  # the longer side uses the vector registers
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
    """Replace a positive definite matrix by its lower Cholesky factor, in place."""
    for j in range(len(a)):
        for i in range(j, len(a)):
            left = a[i, j] - dot_between(a, i, a, j, 0, j)
            a[i, j] = np.sqrt(left) if i == j else left / a[j, j]


@leaf
def substitute(factor, b):
    """Replace b by the solution x of (L·Lᵀ)x = b for a lower Cholesky factor L."""
    for i in range(b.size):
        b[i] = (b[i] - dot_between(factor, i, b, 0, 0, i)) / factor[i, i]
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
