"""Noise, and the ε it provably gives: Laplace, Gamma-norm, random response, RAPPOR, (p,q).

A mechanism computes its noise from ε and a sensitivity, and says for given parameters which ε they give. ε = ∞ stands
for no noise at all. Units and composition are the business of whoever uses a mechanism; see `Guarantee`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from golfsim.core.kernels import inlined, leaf
from golfsim.core.maths import cos_of_turns, log, power
from golfsim.core.rng import STEP, draw, mix, stream, unit

Unit = Literal["record", "node"]

# Records are stored in single precision: a record of length 1 may measure a little more. The scale covers it.
ROUNDING = 1e-5


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


@dataclass(frozen=True)
class Guarantee:
    """What a strategy provably gives; `epsilon` is None where no finite ε is proven."""

    epsilon: float | None
    unit: Unit = "record"
    note: str = ""

    def __str__(self) -> str:
        if self.epsilon is None or math.isinf(self.epsilon):
            return f"not private{': ' + self.note if self.note else ''}"
        return f"ε = {self.epsilon:g} per {self.unit}, proven{': ' + self.note if self.note else ''}"


@dataclass(frozen=True, kw_only=True)
class Laplace:
    """Laplace noise on each coordinate, for an L1 sensitivity (Dwork et al. 2006)."""

    epsilon: float
    sensitivity: float

    @property
    def scale(self) -> float:
        """Of the noise; 0 when ε is infinite."""
        return 0.0 if math.isinf(self.epsilon) else self.sensitivity * (1 + ROUNDING) / self.epsilon

    @staticmethod
    def epsilon_of(scale: float, sensitivity: float) -> float:
        """The ε that a scale gives."""
        return math.inf if scale == 0 else sensitivity / scale


class GammaNorm(Laplace):
    """Noise of uniform direction and Gamma(d, scale) length, for an L2 sensitivity (Chaudhuri & Monteleoni 2008)."""


@dataclass(frozen=True, kw_only=True)
class RandomResponse:
    """k-ary random response: the true one of `values` with probability p, else another one at random."""

    epsilon: float
    values: int

    @property
    def p(self) -> float:
        """The probability of the truth: e^ε / (e^ε + m − 1)."""
        return 1.0 if math.isinf(self.epsilon) else 1 / (1 + (self.values - 1) * math.exp(-self.epsilon))

    @property
    def q(self) -> float:
        """The probability of each other value."""
        return (1 - self.p) / (self.values - 1)

    @staticmethod
    def epsilon_of(p: float, values: int) -> float:
        """The ε that a probability of the truth gives: ln((m−1)p/(1−p))."""
        return math.inf if p >= 1 else math.log((values - 1) * p / (1 - p))


@dataclass(frozen=True, kw_only=True)
class PQ:
    """Each bit of a one-hot string on its own: a one stays one with probability p, a zero becomes one with q."""

    p: float
    q: float

    @staticmethod
    def epsilon_of(p: float, q: float) -> float:
        """The ε that p and q give: ln(p(1−q)/((1−p)q))."""
        return math.inf if p >= 1 or q <= 0 else math.log(p * (1 - q) / ((1 - p) * q))

    @classmethod
    def rappor(cls, epsilon: float) -> PQ:
        """One-time RAPPOR (Erlingsson et al. 2014): q = 1 − p, ε = 2 ln(p/(1−p))."""
        p = 1 / (1 + math.exp(-epsilon / 2))
        return cls(p=p, q=1 - p)

    @classmethod
    def best(cls, epsilon: float, values: int) -> PQ:
        """The p and q of least expected error for strings of so many bits (Cyphers 2017, equation 7.3)."""
        # In e^−ε, and with 1 − p on its own: nothing overflows or is lost beside 1, however large ε is.
        f, others = math.exp(-epsilon), values - 1
        if f == 0:
            return cls(p=1.0, q=0.0)
        root = math.sqrt(others * (f + f**3) + (others**2 + 1) * f**2)
        lie = (root - others * f - f**2) / (1 - f**2)
        return cls(p=1 - lie, q=(1 - lie) * f / ((1 - lie) * f + lie))

    def rms_error(self, values: int, records: int) -> float:
        """The root mean square error of the estimated shares of all values (Cyphers 2017, equation 7.2)."""
        p, q = self.p, self.q
        return math.sqrt((values - 1) * q * (1 - q) + p * (1 - p)) / ((p - q) * math.sqrt(records))
