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


# Folders whose tests need few kernels.
FEW = {"cli", "comparing", "core", "data", "importing", "report", "scenario", "share"}


@pytest.hookimpl(trylast=True)  # only tests that are selected
def pytest_collection_modifyitems(items):
    """Begin with the kept logs, which compile all kernels, and put tests that need few kernels in the middle.

    Of two workers one begins in the middle. So it loads most of the kernels that the other one has compiled meanwhile.
    """
    first, few, others = [], [], []
    for item in items:
        kind = first if item.path.name == "test_golden.py" else few if item.path.parent.name in FEW else others
        kind.append(item)
    middle = max(len(items) // 2 - len(first), 0)
    items[:] = [*first, *others[:middle], *few, *others[middle:]]
