"""Draw noise inside kernels: Laplace, Gamma-norm, shares of Gamma-norm, Gaussian, and random response.

Numbers with noise are rounded to a grid that depends on the scale of the noise only. The last bits of a sum of two
floating-point numbers reveal the terms (Mironov 2012): unrounded, they would reveal more than ε allows.

Every key may be the 64-bit key of a simulation or the `golfsim.core.chacha.SecretKey` of an export.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from golfsim.core.kernels import OVERLOADED, inlined, leaf
from golfsim.core.maths import cos_of_turns, log, power
from golfsim.core.rng import STEP, draw, is_secret, mix, stream, unit

ALMOST_ONE = 1 - 2.0**-53
LAPLACE, GAMMA_NORM, GAUSSIAN = range(3)  # kinds of noise
GRID = 24  # the step of the grid is at most 2⁻²⁴ of the scale of the noise


@inlined
def exponential(h):
    """Turn a draw into an exponential random number of mean 1.

    It uses 63 bits of the draw, all of them where the number is large: there `unit` would leave gaps wider than a grid.
    """
    return -log(min((np.float64(np.int64(h >> 1)) + 0.5) * 2.0**-63, ALMOST_ONE))


@inlined
def grid_of(scale):
    """Return the step of the grid for noise of this scale: a power of two."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - GRID)


@inlined
def on_grid(value, step):
    """Return the multiple of the step, a power of two, that is nearest to the value."""
    return np.rint(value / step) * step


@inlined
def laplace(h):
    """Turn a draw into a Laplace random number of scale 1: an exponential number with a random sign."""
    size = exponential(h)
    return size if h & 1 == 1 else -size


@inlined
def normal(first, second):
    """Turn two draws into a standard normal random number (Box–Muller)."""
    return np.sqrt(2 * exponential(first)) * cos_of_turns(unit(second))


@inlined
def _any_laplace_row(key, cycle, node, k, scale, out, row):
    step = grid_of(scale)
    for f in range(out.shape[1]):
        noise = scale * laplace(draw(key, cycle, node, k + f))
        out[row, f] = out.dtype.type(on_grid(out[row, f] + noise, step))


@inlined
def _fast_laplace_row(key, cycle, node, k, scale, out, row):
    # The same noise for a 64-bit key in an eighth less time: each state follows from the one before.
    state, step = stream(key, cycle, node, k), grid_of(scale)
    for f in range(out.shape[1]):
        out[row, f] = out.dtype.type(on_grid(out[row, f] + scale * laplace(mix(state)), step))
        state += STEP


def _laplace_row(key: Any, cycle: Any, node: Any, k: Any, scale: Any, out: Any, row: Any) -> None:
    """Add Laplace noise to a row; the compiler chooses by the type of the key."""
    _any_laplace_row(key, cycle, node, k, scale, out, row)


@overload(_laplace_row, jit_options=OVERLOADED)
def _compiled_laplace_row(key, cycle, node, k, scale, out, row):
    chosen = _any_laplace_row if is_secret(key) else _fast_laplace_row
    return lambda key, cycle, node, k, scale, out, row: chosen(key, cycle, node, k, scale, out, row)


@leaf
def add_laplace(key, cycle, node, k, scale, out, row):
    """Add independent Laplace noise to a row and round it to the grid; it uses the draws k, k+1, … of (cycle, node).

    Parameters
    ----------
    key : uint64
        The key of the random numbers.
    cycle, node, k : int
        The coordinates of the first draw.
    scale : float
        The scale of the noise.
    out : array of float, shape (rows, features)
        The array that is changed in place.
    row : int
        The row that receives the noise.
    """
    _laplace_row(key, cycle, node, k, scale, out, row)


@leaf
def add_gamma_norm(key, cycle, node, k, scale, out, row):
    """Add a vector of uniform direction and Gamma(d, scale) length to a row and round the row to the grid.

    The noise uses the draws k … k+3d−1.

    Parameters
    ----------
    key : uint64
        The key of the random numbers.
    cycle, node, k : int
        The coordinates of the first draw.
    scale : float
        The scale of the noise.
    out : array of float, shape (rows, d)
        The array that is changed in place.
    row : int
        The row that receives the noise.
    """
    features = out.shape[1]
    square = length = 0.0
    for f in range(features):
        h = k + 3 * f
        coordinate = normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        square += coordinate * coordinate
        length += exponential(draw(key, cycle, node, h + 2))
    factor, step = scale * length / np.sqrt(square), grid_of(scale)
    for f in range(features):
        h = k + 3 * f
        coordinate = normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        out[row, f] = out.dtype.type(on_grid(out[row, f] + factor * coordinate, step))


@leaf
def add_gaussian(key, cycle, node, k, scale, out, row):
    """Add independent Gaussian noise to a row and round the row to the grid; it uses the draws k … k+2d−1.

    Parameters
    ----------
    key : uint64
        The key of the random numbers.
    cycle, node, k : int
        The coordinates of the first draw.
    scale : float
        The standard deviation of the noise.
    out : array of float, shape (rows, d)
        The array that is changed in place.
    row : int
        The row that receives the noise.
    """
    step = grid_of(scale)
    for f in range(out.shape[1]):
        h = k + 2 * f
        noise = scale * normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        out[row, f] = out.dtype.type(on_grid(out[row, f] + noise, step))


@leaf
def add_noise(kind, key, cycle, node, k, scale, out, row):
    """Add noise of a kind to a row and round the row to the grid; it uses at most 3d draws, from k on.

    Parameters
    ----------
    kind : int
        LAPLACE, GAMMA_NORM or GAUSSIAN.
    key : uint64
        The key of the random numbers.
    cycle, node, k : int
        The coordinates of the first draw.
    scale : float
        The scale of the noise.
    out : array of float, shape (rows, d)
        The array that is changed in place.
    row : int
        The row that receives the noise.
    """
    if kind == LAPLACE:
        add_laplace(key, cycle, node, k, scale, out, row)
    elif kind == GAMMA_NORM:
        add_gamma_norm(key, cycle, node, k, scale, out, row)
    else:
        add_gaussian(key, cycle, node, k, scale, out, row)


@leaf
def gamma(key, cycle, node, k, shape):
    """Return a Gamma random number of scale 1 (Marsaglia & Tsang 2000); it uses fewer than 64 draws, from k on."""
    small = shape < 1
    d = (shape + 1 if small else shape) - 1 / 3
    value = d
    for attempt in range(20):
        h = k + 1 + 3 * attempt
        z = normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        root = 1 + z / np.sqrt(9 * d)
        v = root * root * root
        if v > 0 and -exponential(draw(key, cycle, node, h + 2)) < z * z / 2 + d - d * v + d * log(v):
            value = d * v
            break
    return value * power(unit(draw(key, cycle, node, k)), 1 / shape) if small else value


@leaf
def add_share_of_gamma_norm(key, cycle, node, k, scale, shares, out, row):
    """Add one of several shares of noise; the sum of all shares has a uniform direction and a Gamma(d, scale) length.

    Noise of density ∝ exp(−‖x‖/s) is √(2s²G)·N(0, I) with G ~ Gamma((d+1)/2), and the Gamma distribution is infinitely
    divisible. Each share is rounded to the grid, and so is their sum. The noise uses the draws of `gamma`, from k on,
    and the draws k+64 … k+64+2d−1.

    Parameters
    ----------
    key : uint64
        The key of the random numbers.
    cycle, node, k : int
        The coordinates of the first draw.
    scale : float
        The scale of the summed noise.
    shares : int
        The number of shares.
    out : array of float, shape (rows, d)
        The array that is changed in place.
    row : int
        The row that receives the noise.
    """
    features = out.shape[1]
    mixed = gamma(key, cycle, node, k, (features + 1) / (2 * shares))
    factor, step = scale * np.sqrt(2 * mixed), grid_of(scale)
    for f in range(features):
        h = k + 64 + 2 * f
        coordinate = normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        out[row, f] = out.dtype.type(on_grid(out[row, f] + factor * coordinate, step))


@inlined
def respond(h, second, value, values, truth):
    """Return the answer of k-ary random response: the value with probability `truth`, else one of the other values."""
    if unit(h) < truth:
        return value
    other = np.int64(unit(second) * (values - 1))
    return other + (other >= value)
