"""Linear learners that differ in the step size: Pegasos, logistic regression, running means, perceptron, Adaline."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pydantic import Field

from golfsim.core.kernels import inlined
from golfsim.core.maths import exp
from golfsim.learning.online import LearnerConfig, LinearLearner, Shape

LARGEST_MARGIN = 700.0  # beyond it the exponential overflows, and the step size is 0


@inlined
def _falling_rate(s, t):
    return 1 / (s.lam * (t + s.offset))


@inlined
def _falling_decay(s, t):
    return np.float32(1 - 1 / (t + s.offset))


@inlined
def _pegasos(s, margin, t):
    return _falling_rate(s, t) if margin < 1 else 0.0


class Pegasos(LinearLearner[LearnerConfig]):
    """linear SVM: step size 1/(λt) if the margin is below 1 (Shalev-Shwartz et al. 2011)."""

    uses = frozenset({"lambda", "offset"})
    step, decay, reach = _pegasos, _falling_decay, _falling_rate


@inlined
def _logistic(s, margin, t):
    return _falling_rate(s, t) / (1 + exp(min(np.float64(margin), LARGEST_MARGIN)))


class Logistic(LinearLearner[LearnerConfig]):
    """logistic regression: step size σ(−margin)/(λt)."""

    probabilities = True
    uses = frozenset({"lambda", "offset"})
    step, decay, reach = _logistic, _falling_decay, _falling_rate


@inlined
def _running(s, margin, t):
    return 1.0 / t


@inlined
def _running_rate(s, t):
    return 1.0 / t


class Mean(LinearLearner[LearnerConfig]):
    """running mean of yx for each class, the limit of large λ: step size 1/t for any margin."""

    step, decay, reach = _running, _falling_decay, _running_rate


class Constant(NamedTuple):
    """The numbers of learners with a constant rate."""

    lam: float
    offset: float
    rate: float
    clip: float  # the largest |1 − margin|; infinite: no limit


@inlined
def _keep(s, t):
    return np.float32(1)


@inlined
def _constant_rate(s, t):
    return s.rate


@inlined
def _perceptron(s, margin, t):
    return s.rate if margin <= 0 else 0.0


class PerceptronConfig(LearnerConfig):
    """The settings of the perceptron."""

    rate: float = Field(1.0, gt=0, le=1e6, description="the step size η; without noise all values learn the same")


class Perceptron(LinearLearner[PerceptronConfig]):
    """perceptron: step size η if the margin is not positive (Rosenblatt 1958)."""

    Config = PerceptronConfig
    Numbers = Constant
    step, decay, reach = _perceptron, _keep, _constant_rate

    def numbers(self, records: Shape, lam: float, offset: float) -> Constant:
        """Return the rate."""
        return Constant(lam, offset, self.config.rate, 1.0)


@inlined
def _adaline(s, margin, t):
    return s.rate * max(min(1.0 - margin, s.clip), -s.clip)


@inlined
def _clipped_rate(s, t):
    return s.rate * s.clip


class AdalineConfig(LearnerConfig):
    """The settings of Adaline."""

    rate: float = Field(0.1, gt=0, le=1e6, description="the learning rate η")
    clip: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="the largest |1 − margin| that a step uses, so that the gradient of a record of length 1 is not "
        "longer. Required for noise in gradients",
    )


class Adaline(LinearLearner[AdalineConfig]):
    """Adaline: step size η·(1 − margin), the least-mean-squares rule (Widrow & Hoff 1960)."""

    Config = AdalineConfig
    Numbers = Constant
    step, decay, reach = _adaline, _keep, _clipped_rate

    def numbers(self, records: Shape, lam: float, offset: float) -> Constant:
        """Return the rate and the limit of the error."""
        return Constant(lam, offset, self.config.rate, np.inf if self.config.clip is None else float(self.config.clip))

    def bound(self) -> float | None:
        """Return the largest length of a step divided by the rate."""
        return self.config.clip
