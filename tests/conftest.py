"""What all tests share: strict floating point, fixed hypothesis settings, one seeded generator."""

import gc

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Underflow stays allowed: a float32 model that decays towards 0 may well reach it.
np.seterr(divide="raise", over="raise", invalid="raise")

# The compiler makes millions of objects that stay: searching them for cycles as often as by default takes a tenth of
# the time of compiling.
gc.set_threshold(10_000, 20, 20)

settings.register_profile(
    "golfsim",
    derandomize=True,
    deadline=None,  # the first example of a kernel compiles it
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("golfsim")


@pytest.fixture
def rng():
    """A generator for test data; the same in each run of the tests."""
    return np.random.default_rng(20240229)
