"""Update, fit, combine and tune models; everything that an author of a learner imports, in one place.

The base classes with their settings come from `golfsim.learning.online`. Kernels, and functions with the same bits on
every machine, come from `golfsim.core`.
"""

from golfsim.core.kernels import inlined, leaf
from golfsim.core.maths import exp, log
from golfsim.core.rng import uniform
from golfsim.core.simd import dot_at, fused
from golfsim.learning.online import (
    GradientConfig,
    GradientLearner,
    LearnerConfig,
    LinearLearner,
    OnlineLearner,
    Regularised,
    Shape,
    spread_evenly,
)

__all__ = [
    "GradientConfig", "GradientLearner", "LearnerConfig", "LinearLearner", "OnlineLearner", "Regularised", "Shape",
    "dot_at", "exp", "fused", "inlined", "leaf", "log", "spread_evenly", "uniform",
]  # fmt: skip
