"""Draw noise inside kernels: Laplace, Gamma-norm, shares of it, and random response."""

from __future__ import annotations

import numpy as np

from golfsim.core.kernels import inlined, leaf
from golfsim.core.maths import cos_of_turns, log, power
from golfsim.core.rng import STEP, draw, mix, stream, unit


@inlined
def exponential(h):
    """A draw as an exponential number of mean 1."""
    return -log(unit(h))


@inlined
def laplace(h):
    """A draw as a Laplace number of scale 1: a random sign and an exponential."""
    size = exponential(h)
    return size if h & 1 == 1 else -size


@inlined
def normal(first, second):
    """Two draws as a standard normal number (Box–Muller)."""
    return np.sqrt(2 * exponential(first)) * cos_of_turns(unit(second))


@leaf
def add_laplace(key, cycle, node, k, scale, out, row):
    """Add independent Laplace numbers to a row; they are draws k, k+1, … of (cycle, node)."""
    state = stream(key, cycle, node, k)
    for f in range(out.shape[1]):
        out[row, f] += out.dtype.type(scale * laplace(mix(state)))
        state += STEP


@leaf
def add_gamma_norm(key, cycle, node, k, scale, out, row):
    """Add a vector of uniform direction whose length is Gamma(d, scale) to a row; it takes draws k … k+3d−1."""
    features = out.shape[1]
    square = length = 0.0
    for f in range(features):
        h = k + 3 * f
        coordinate = normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        square += coordinate * coordinate
        length += exponential(draw(key, cycle, node, h + 2))
    factor = scale * length / np.sqrt(square)
    for f in range(features):
        h = k + 3 * f
        coordinate = normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        out[row, f] += out.dtype.type(factor * coordinate)


@leaf
def gamma(key, cycle, node, k, shape):
    """A Gamma number of scale 1 (Marsaglia & Tsang 2000); it takes draws k, k+1, … , fewer than 64 of them."""
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
    """Add one of several shares whose sum has a uniform direction and a Gamma(d, scale) length; see `gamma` for draws.

    Noise of density ∝ exp(−‖x‖/s) is √(2s²G)·N(0, I) with G ~ Gamma((d+1)/2), and Gamma numbers can be divided.
    """
    features = out.shape[1]
    mixed = gamma(key, cycle, node, k, (features + 1) / (2 * shares))
    factor = scale * np.sqrt(2 * mixed)
    for f in range(features):
        h = k + 64 + 2 * f
        coordinate = normal(draw(key, cycle, node, h), draw(key, cycle, node, h + 1))
        out[row, f] += out.dtype.type(factor * coordinate)


@inlined
def respond(h, second, value, values, truth):
    """k-ary random response: the value with probability `truth`, else one of the others alike."""
    if unit(h) < truth:
        return value
    other = np.int64(unit(second) * (values - 1))
    return other + (other >= value)
