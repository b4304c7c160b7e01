"""Eigenvalues and eigenvectors by rotations, against LAPACK."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.eigen import eigen


@given(
    seed=st.integers(0, 10**6), size=st.integers(1, 12), rank=st.integers(0, 12), scale=st.sampled_from([1e-9, 1, 1e6])
)
def test_a_symmetric_matrix_is_its_eigenvectors_times_eigenvalues(seed, size, rank, scale):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, rank))
    a = scale * (factor * rng.choice([-1.0, 1.0], rank)) @ factor.T
    a = (a + a.T) / 2
    before = a.copy()
    values, vectors = eigen(a)
    assert (a == before).all()
    length = max(np.abs(a).max(), 1e-300)
    assert vectors @ vectors.T == pytest.approx(np.eye(size), abs=1e-12)
    assert vectors.T @ np.diag(values) @ vectors / length == pytest.approx(a / length, abs=1e-12)
    assert np.sort(values) / length == pytest.approx(np.linalg.eigvalsh(a) / length, abs=1e-12)
