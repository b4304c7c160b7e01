"""Define privacy mechanisms with a proven ε: Laplace, Gamma-norm, Gaussian, random response, RAPPOR, (p,q), subsets.

A mechanism computes its noise from ε and a sensitivity, and computes ε from given parameters. ε = ∞ means no noise.
Units and composition are the responsibility of the code that uses a mechanism; see `Guarantee`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from golfsim.core import notebook
from golfsim.privacy import gaussian

Unit = Literal["record", "node"]

# Records are stored in single precision, so the length of a record can exceed 1 by rounding. The scale accounts for it.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Guarantee:
    """The proven privacy guarantee of a strategy; `epsilon` is None if no finite ε is proven."""

    epsilon: float | None
    unit: Unit = "record"
    note: str = ""
    released: bool = True  # False: nothing that was computed from private records leaves a node
    delta: float = 0.0  # 0: pure ε

    def __str__(self) -> str:
        if not self.released:
            return f"not applicable: {self.note}"
        if self.epsilon is None or math.isinf(self.epsilon):
            return f"not private{': ' + self.note if self.note else ''}"
        at = f", δ = {self.delta:g}" if self.delta else ""
        return f"ε = {self.epsilon:g}{at} per {self.unit}, proven{': ' + self.note if self.note else ''}"

    def __repr__(self) -> str:
        return f"<Guarantee: {self}>"

    def _repr_html_(self) -> str:
        proven = self.released and self.epsilon is not None and math.isfinite(self.epsilon)
        rows = {"ε": f"{self.epsilon:g}" if proven else "none proven", "unit": self.unit}
        rows |= {"δ": f"{self.delta:g}"} if proven and self.delta else {}
        return notebook.table(str(self), rows | ({"note": self.note} if self.note else {}))


@dataclass(frozen=True)
class Central:
    """A proven central (ε, δ), which holds in addition to a local ε and under the assumptions of its note."""

    epsilon: float
    delta: float
    unit: Unit = "record"
    note: str = ""

    def __str__(self) -> str:
        # Rounded up, so that the printed value is proven, too.
        above = _rounded_up(self.epsilon)
        return f"central ε = {above:g}, δ = {self.delta:g} per {self.unit}{': ' + self.note if self.note else ''}"


@dataclass(frozen=True)
class Pairwise:
    """The proven (ε, δ) from one node to another for the messages that arrived, in addition to a local ε."""

    mean: float
    largest: float
    delta: float
    unit: Unit = "record"
    observers: int = 0  # the nodes whose view was computed

    def __str__(self) -> str:
        numbers = f"mean ε = {_rounded_up(self.mean):g}, largest ε = {_rounded_up(self.largest):g}"
        return (
            f"from node to node: {numbers}, δ = {self.delta:g} per {self.unit}, for what each of {self.observers} "
            f"nodes received, if nodes do not collude"
        )


def _rounded_up(value: float) -> float:
    """Return the smallest number of four digits that is at least a positive value."""
    step = 10.0 ** (math.floor(math.log10(value)) - 3) if value > 0 else 1.0
    return math.ceil(value / step) * step


@dataclass(frozen=True, kw_only=True)
class Laplace:
    """Laplace noise on each coordinate, for an L1 sensitivity (Dwork et al. 2006)."""

    epsilon: float
    sensitivity: float

    @property
    def scale(self) -> float:
        """The scale of the noise; 0 if ε is infinite."""
        return 0.0 if math.isinf(self.epsilon) else self.sensitivity * (1 + ROUNDING) / self.epsilon

    @staticmethod
    def epsilon_of(scale: float, sensitivity: float) -> float:
        """Return the ε of a noise scale."""
        return math.inf if scale == 0 else sensitivity / scale


class GammaNorm(Laplace):
    """Noise of uniform direction and Gamma(d, scale) length, for an L2 sensitivity (Chaudhuri & Monteleoni 2008)."""


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Normally distributed noise on each coordinate, for an L2 sensitivity (exact: Balle & Wang 2018)."""

    epsilon: float
    delta: float
    sensitivity: float

    @property
    def mu(self) -> float:
        """The sensitivity in standard deviations of the noise."""
        return gaussian.mu_of(self.epsilon, self.delta)

    @property
    def scale(self) -> float:
        """The standard deviation of the noise; 0 if ε is infinite."""
        return 0.0 if math.isinf(self.epsilon) else self.sensitivity * (1 + ROUNDING) / self.mu

    @staticmethod
    def epsilon_of(scale: float, sensitivity: float, delta: float) -> float:
        """Return the ε of a standard deviation at this δ."""
        return math.inf if scale == 0 else gaussian.epsilon_of(sensitivity / scale, delta)


def exp(x: float) -> float:
    """Return e^x with the same bits on every machine: probabilities of mechanisms decide what is published."""
    from golfsim.core.maths import exp_of

    return float(exp_of([x])[0])


def errors_of_bits(p: float, q: float, values: int) -> float:
    """Return the variance of the bits of a report, summed over all values: p for the true one, q for each other."""
    return (values - 1) * q * (1 - q) + p * (1 - p)


def total_variance(p: float, q: float, values: int) -> float:
    """Return the variance of (1[reported] − q)/(p − q), the estimate of a one-hot vector, summed over all values."""
    return errors_of_bits(p, q, values) / ((p - q) * (p - q)) if p > q else math.inf


@dataclass(frozen=True, kw_only=True)
class RandomResponse:
    """k-ary random (or randomised) response: the true value with probability p, else another of the `values`.

    The other values have equal probabilities.
    """

    epsilon: float
    values: int

    @property
    def p(self) -> float:
        """The probability of the true value: e^ε / (e^ε + m − 1)."""
        return 1.0 if math.isinf(self.epsilon) else 1 / (1 + (self.values - 1) * exp(-self.epsilon))

    @property
    def q(self) -> float:
        """The probability of each other value."""
        return (1 - self.p) / (self.values - 1)

    @staticmethod
    def epsilon_of(p: float, values: int) -> float:
        """Return the ε for a probability p of the true value: ln((m−1)p/(1−p))."""
        return math.inf if p >= 1 else math.log((values - 1) * p / (1 - p))


@dataclass(frozen=True, kw_only=True)
class PQ:
    """Perturb each bit of a one-hot string independently: a 1 stays 1 with probability p, a 0 becomes 1 with q."""

    p: float
    q: float

    @staticmethod
    def epsilon_of(p: float, q: float) -> float:
        """Return the ε for p and q: ln(p(1−q)/((1−p)q))."""
        return math.inf if p >= 1 or q <= 0 else math.log(p * (1 - q) / ((1 - p) * q))

    @classmethod
    def rappor(cls, epsilon: float) -> PQ:
        """Return one-time RAPPOR (Erlingsson et al. 2014): q = 1 − p, ε = 2 ln(p/(1−p))."""
        p = 1 / (1 + exp(-epsilon / 2))
        return cls(p=p, q=1 - p)

    @classmethod
    def best(cls, epsilon: float, values: int) -> PQ:
        """Return the p and q of least expected error for strings of `values` bits (Cyphers 2017, equation 7.3)."""
        # The formula uses e^−ε and computes 1 − p separately: for large ε nothing overflows or is lost by rounding.
        f, others = exp(-epsilon), values - 1
        if f == 0:
            return cls(p=1.0, q=0.0)
        root = math.sqrt(others * (f + f * f * f) + (others * others + 1) * (f * f))
        lie = (root - others * f - f * f) / (1 - f * f)
        return cls(p=1 - lie, q=(1 - lie) * f / ((1 - lie) * f + lie))

    def rms_error(self, values: int, records: int) -> float:
        """Return the root mean square error of the estimated shares of all values (Cyphers 2017, equation 7.2)."""
        p, q = self.p, self.q
        return math.sqrt(errors_of_bits(p, q, values)) / ((p - q) * math.sqrt(records))


@dataclass(frozen=True, kw_only=True)
class Subset:
    """A subset of `size` of the `values`, which contains the true value with probability p (Ye & Barg 2018).

    All subsets with the true value have the same probability, and so have all others. With size 1 it is k-ary random
    response.
    """

    epsilon: float
    values: int
    size: int

    @property
    def p(self) -> float:
        """The probability that the subset contains the true value: k e^ε / (k e^ε + m − k)."""
        return 1 / (1 + (self.values - self.size) / self.size * exp(-self.epsilon))

    @property
    def q(self) -> float:
        """The probability that it contains one other value: (p(k−1) + (1−p)k)/(m−1) = (k − p)/(m − 1)."""
        return (self.size - self.p) / (self.values - 1)

    @staticmethod
    def epsilon_of(p: float, values: int, size: int) -> float:
        """Return the ε for a probability p of the true value: ln(p(m−k)/((1−p)k))."""
        return math.inf if p >= 1 else math.log(p * (values - size) / ((1 - p) * size))

    @classmethod
    def best(cls, epsilon: float, values: int) -> Subset:
        """Return the size of least variance: one of the integers next to m/(e^ε + 1), and at least 1."""
        wanted = values * exp(-epsilon) / (1 + exp(-epsilon))
        sizes = {max(1, math.floor(wanted)), max(1, math.ceil(wanted))}
        found = [cls(epsilon=epsilon, values=values, size=size) for size in sorted(sizes)]
        return min(found, key=lambda one: total_variance(one.p, one.q, values))
