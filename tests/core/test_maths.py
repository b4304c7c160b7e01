"""Sums, products and elementary functions: right, and the same bits as slow references written from the rule."""

import math

import naive
import numpy as np
import pytest
from helpers import JIT, needs_jit
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core import maths
from golfsim.core.kernels import kernel
from golfsim.core.simd import dot, dot_between

FEW_ULPS = 4 * np.finfo(np.float64).eps


@kernel
def all_dots(a, b, out):
    for i in range(len(a)):
        out[i] = dot(a, i, b, i)


@kernel
def all_cosines(u, out):
    for i in range(u.size):
        out[i] = maths.cos_of_turns(u[i])


@kernel
def all_log1p(x, out):
    for i in range(x.size):
        out[i] = maths.log1p(x[i])


def same(found, expected):
    """Whether numbers have the same bits; without compiled kernels products are rounded apart from sums."""
    if JIT:
        return found == expected
    return found == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 57, 100])
def test_a_scalar_product_has_the_bits_of_sixteen_lanes_added_in_halves(features, dtype, rng):
    a, b = (rng.standard_normal((20, features)).astype(dtype) for _ in range(2))
    out = np.empty(20, dtype)
    all_dots(a, b, out)
    assert same(out.tolist(), [naive.dot_in_lanes(x, y) for x, y in zip(a, b, strict=True)])


@pytest.mark.parametrize(("lo", "hi"), [(0, 57), (0, 8), (5, 5), (3, 9), (8, 41)])
def test_a_scalar_product_covers_just_its_range_in_double_precision(lo, hi, rng):
    a, b = rng.standard_normal((2, 57)), rng.standard_normal((2, 57)).astype(np.float32)
    found = dot_between(a, 1, b, 0, lo, hi)
    assert same(found, naive.dot_in_lanes(a[1, lo:hi], b[0, lo:hi].astype(np.float64)))
    assert found == dot_between(a[1], 0, b, 0, lo, hi)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 17, 5), (40, 2, 57), (16, 4, 1), (0, 3, 2), (33, 50, 20)])
def test_a_matrix_product_adds_in_the_order_of_the_columns(shape, dtype, rng):
    rows, columns, features = shape
    a, b = rng.standard_normal((rows, features)).astype(dtype), rng.standard_normal((columns, features)).astype(dtype)
    found = maths.product(a, b)
    assert found.dtype == dtype
    assert found.shape == (rows, columns)
    assert same(found.ravel().tolist(), naive.product(a, b).ravel().tolist())


def test_a_row_of_a_product_does_not_depend_on_the_other_rows(rng):
    a, b = rng.standard_normal((30, 57)).astype(np.float32), rng.standard_normal((70, 57)).astype(np.float32)
    whole = maths.product(a, b)
    for i, j in ((0, 0), (29, 69), (13, 31)):
        assert maths.product(a[i : i + 1], b[j : j + 1]) == whole[i, j]


def test_the_exponential_is_right_within_an_ulp_or_two_from_end_to_end(rng):
    x = np.concatenate([rng.uniform(-708, 709, 20_000), rng.uniform(-1, 1, 20_000), [0.0, -0.0, 1e-300, -1e-17]])
    expected = np.array([math.exp(number) for number in x])
    assert np.max(np.abs(maths.exp_of(x) / expected - 1)) <= FEW_ULPS


@needs_jit
def test_the_exponential_beyond_the_ends_is_infinite_zero_or_no_number():
    assert maths.exp_of([-1e9, 1e9, -math.inf, math.inf]).tolist() == [0, math.inf, 0, math.inf]
    assert np.isnan(maths.exp_of([math.nan])).all()


def test_the_logarithm_is_right_within_an_ulp_or_two(rng):
    x = np.exp(rng.uniform(-700, 700, 20_000))
    expected = np.array([math.log(number) for number in x])
    assert np.max(np.abs(maths.log_of(x) / expected - 1)) <= FEW_ULPS
    assert maths.log_of([0.0, 1.0]).tolist() == [-math.inf, 0.0]


def test_ln_of_one_plus_a_small_number_keeps_its_digits(rng):
    x = np.concatenate([np.exp(rng.uniform(-80, 3, 20_000)), [0.0]])
    out = np.empty_like(x)
    all_log1p(x, out)
    expected = np.array([math.log1p(number) for number in x])
    assert np.all(np.abs(out - expected) <= FEW_ULPS * expected)


def test_cosines_are_right_to_the_last_digits(rng):
    u = np.concatenate([rng.random(20_000), np.arange(9) / 8])
    out = np.empty_like(u)
    all_cosines(u, out)
    assert out == pytest.approx([math.cos(2 * math.pi * turn) for turn in u], abs=1e-15)
    assert out[-9::2].tolist() == [1, 0, -1, 0, 1]


@given(st.floats(1e-6, 1e6), st.floats(0.01, 20))
def test_powers_agree_with_the_library(base, exponent):
    assert maths.power_of([base], exponent)[0] == pytest.approx(base**exponent, rel=1e-13)


def test_zero_to_a_power_is_zero():
    assert maths.power_of([0.0], 0.5).tolist() == [0.0]


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_equations_are_solved(size, rng):
    half, b = rng.standard_normal((size, size)), rng.standard_normal((size, 3))
    a = half @ half.T + np.eye(size)
    assert a @ maths.solve(a, b) == pytest.approx(b, abs=1e-9)
