"""The noise of each mechanism against its distribution, and the ε that its parameters give."""

import math
from dataclasses import FrozenInstanceError

import naive
import numpy as np
import pytest
from helpers import ALPHA, JIT, p_of_chi_square
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from golfsim.core import rng
from golfsim.core.maths import log
from golfsim.privacy.mechanisms import PQ, GammaNorm, Guarantee, Laplace, RandomResponse
from golfsim.privacy.noise import (
    GRID,
    add_gamma_norm,
    add_gaussian,
    add_laplace,
    add_share_of_gamma_norm,
    exponential,
    gamma,
    grid_of,
    laplace,
    normal,
    on_grid,
    respond,
)

KEY = rng.key(1, "noise", "test")
EPSILONS = [0.01, 0.5, math.log(2), 1.0, 3.0, 10.0, 50.0]


def word(value):
    return np.uint64(value) if JIT else value


def laplace_vector(d, scale, node=0, k=0):
    out = np.zeros((1, d), np.float32)
    add_laplace(KEY, 0, node, k, scale, out, 0)
    return out[0]


def gamma_norm_vectors(n, d, scale):
    out = np.zeros((n, d), np.float32)
    for row in range(n):
        add_gamma_norm(KEY, 0, row, 0, scale, out, row)
    return out


@given(st.floats(min_value=2.0**-53, max_value=2.0**53))
@example(1.0)
@example(math.sqrt(0.5))
@example(math.nextafter(math.sqrt(0.5), 0))
@example(0.5 * 2.0**-52)  # the smallest and the largest draw
@example(1 - 0.5 * 2.0**-52)
def test_a_logarithm_is_that_of_the_library_but_for_its_last_bits(u):
    assert log(np.float64(u)) == pytest.approx(math.log(u), rel=5e-16, abs=0)


# Distributions. Kolmogorov–Smirnov and χ² tests fail below a p-value of ALPHA: one right program in a thousand.


@pytest.mark.parametrize("scale", [0.04, 1.0, 700.0])
def test_laplace_noise_is_laplace_of_its_scale(scale):
    assert stats.kstest(laplace_vector(20_000, scale), stats.laplace(scale=scale).cdf).pvalue > ALPHA


def test_laplace_noise_of_another_scale_would_be_noticed():
    assert stats.kstest(laplace_vector(20_000, 1.1), stats.laplace.cdf).pvalue < ALPHA


def test_the_coordinates_of_laplace_noise_are_independent():
    noise = laplace_vector(20_000, 1.0)
    for lag in (1, 2, 57):
        assert stats.pearsonr(noise[:-lag], noise[lag:]).pvalue > ALPHA
        assert stats.pearsonr(abs(noise[:-lag]), abs(noise[lag:])).pvalue > ALPHA
    assert stats.spearmanr(noise, laplace_vector(20_000, 1.0, node=1)).pvalue > ALPHA


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_the_length_of_gamma_norm_noise_is_gamma_of_the_dimension(d):
    length = np.linalg.norm(gamma_norm_vectors(3000, d, 0.5), axis=1)
    assert stats.kstest(length, stats.gamma(d, scale=0.5).cdf).pvalue > ALPHA
    assert stats.kstest(length, stats.gamma(d + 1, scale=0.5).cdf).pvalue < ALPHA


@pytest.mark.parametrize("d", [2, 3, 8])
def test_the_direction_of_gamma_norm_noise_is_uniform(d):
    noise = gamma_norm_vectors(3000, d, 2.0)
    direction = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    slanted = np.ones(d) / math.sqrt(d)
    for projection in (*direction.T, direction @ slanted):
        # On a sphere the square of any coordinate is Beta(1/2, (d−1)/2), and both signs are alike.
        assert stats.kstest(projection**2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > ALPHA
        assert stats.binomtest(int((projection > 0).sum()), len(projection)).pvalue > ALPHA


def test_length_and_direction_of_gamma_norm_noise_are_independent():
    noise = gamma_norm_vectors(3000, 3, 1.0)
    length = np.linalg.norm(noise, axis=1)
    for coordinate in (noise / length[:, None]).T:
        assert stats.spearmanr(length, coordinate).pvalue > ALPHA
        assert stats.spearmanr(length, abs(coordinate)).pvalue > ALPHA


def test_in_one_dimension_gamma_norm_noise_is_laplace_noise():
    assert stats.kstest(gamma_norm_vectors(4000, 1, 1.5)[:, 0], stats.laplace(scale=1.5).cdf).pvalue > ALPHA


@pytest.mark.parametrize("shape", [0.05, 0.4, 0.99, 1.0, 1.5, 30.0])
def test_gamma_numbers_have_their_shape(shape):
    numbers = [gamma(KEY, 0, node, 0, shape) for node in range(4000)]
    assert stats.kstest(numbers, stats.gamma(shape).cdf).pvalue > ALPHA
    assert stats.kstest(numbers, stats.gamma(1.2 * shape).cdf).pvalue < ALPHA


def shared_out(n, d, scale, shares, given=None):
    """Sums of so many shares (or of `given` of them)."""
    out = np.zeros((n, d), np.float64)
    for row in range(n):
        for share in range(given or shares):
            add_share_of_gamma_norm(KEY, 1, row * shares + share, 0, scale, shares, out, row)
    return out


@pytest.mark.parametrize(("d", "shares"), [(1, 2), (2, 1), (2, 5), (3, 10), (8, 3)])
def test_shares_add_up_to_gamma_norm_noise_in_length_and_direction(d, shares):
    noise = shared_out(2000, d, 0.5, shares)
    length = np.linalg.norm(noise, axis=1)
    assert stats.kstest(length, stats.gamma(d, scale=0.5).cdf).pvalue > ALPHA
    for projection in (noise / length[:, None]).T if d > 1 else ():
        assert stats.kstest(projection**2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > ALPHA
    for coordinate in noise.T:
        assert stats.binomtest(int((coordinate > 0).sum()), len(coordinate)).pvalue > ALPHA
    if d > 1:
        assert stats.spearmanr(length, abs(noise[:, 0]) / length).pvalue > ALPHA


def test_one_share_too_few_would_be_noticed():
    length = np.linalg.norm(shared_out(2000, 3, 0.5, 4, given=3), axis=1)
    assert stats.kstest(length, stats.gamma(3, scale=0.5).cdf).pvalue < ALPHA


@pytest.mark.parametrize("shares", [1, 2, 7, 40])
def test_gamma_numbers_and_shares_are_those_of_the_reference_for_the_same_draws(shares):
    for node in range(20):
        assert gamma(KEY, 2, node, 5, 7 / shares) == pytest.approx(naive.gamma(KEY, 2, node, 5, 7 / shares), rel=1e-9)
        out = np.zeros((3, 6))
        add_share_of_gamma_norm(KEY, 2, node, 5, 0.3, shares, out, 1)
        reference = naive.share_of_gamma_norm(KEY, 2, node, 5, 6, 0.3, shares)
        assert out[1] == pytest.approx(naive.on_grid(reference, 0.3), rel=0, abs=1.01 * naive.grid_of(0.3))
        assert not out[[0, 2]].any()


@pytest.mark.parametrize("cycle", [0, 3])
def test_noise_is_that_of_the_reference_for_the_same_draws(cycle):
    adders = {"l1": add_laplace, "l2": add_gamma_norm, "gaussian": add_gaussian}
    for add, reference in ((adders[name], naive.NOISE[name]) for name in adders):
        out = np.full((3, 6), 7, np.float32)
        add(KEY, cycle, 12, 5, 0.3, out, 1)
        assert out[1] - 7 == pytest.approx(reference(KEY, cycle, 12, 5, 6, 0.3), abs=1e-5)
        assert (out[[0, 2]] == 7).all()


# What is released lies on a grid. Otherwise its last bits tell its terms (Mironov 2012).


ADDERS = {
    "laplace": add_laplace,
    "gamma": add_gamma_norm,
    "gaussian": add_gaussian,
    "share": lambda key, cycle, node, k, scale, out, row: add_share_of_gamma_norm(
        key, cycle, node, k, scale, 3, out, row
    ),
}


@given(st.floats(1e-30, 1e30))
@example(1.0)
@example(math.nextafter(1.0, 0))
def test_the_step_of_the_grid_is_the_largest_power_of_two_that_is_fine_enough(scale):
    assert grid_of(scale) == naive.grid_of(scale)
    assert 2.0 ** -(GRID + 1) < grid_of(scale) / scale <= 2.0**-GRID


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
@example(2.0**-25, 1.0)  # a tie
@example(3 * 2.0**-25, 1.0)
def test_a_number_on_the_grid_is_the_nearest(value, scale):
    assert on_grid(value, grid_of(scale)) == naive.on_grid([value], scale)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ADDERS)
@pytest.mark.parametrize("scale", [2e-4, 1.0, 50.0])
def test_whatever_gets_noise_lies_on_the_grid(kind, dtype, scale):
    values = np.array([0.0, 0.1, 1 / 3, -0.7, 1e-9, 123.456]) * scale
    for node in range(50):
        out = values.astype(dtype)[None].copy()
        ADDERS[kind](KEY, 0, node, 0, scale, out, 0)
        assert (np.float64(out) % grid_of(scale) == 0).all()
        noise = np.zeros((1, values.size))
        ADDERS[kind](KEY, 0, node, 0, scale, noise, 0)
        assert out[0] - values == pytest.approx(noise[0], abs=3e-7 * float(np.abs(out).max()) + grid_of(scale))


@pytest.mark.parametrize("kind", ADDERS)
def test_the_lowest_bits_do_not_depend_on_what_the_noise_hides(kind):
    """Without the grid, all bits of 0 + noise are bits of the noise, and 1 + noise has the coarser ones of 1."""

    def steps(value):
        found = np.full((4000, 1), value)
        for row in range(len(found)):
            ADDERS[kind](KEY, 0, row, 0, 1.0, found, row)
        return (found[:, 0] / grid_of(1.0)).astype(np.int64)

    for value in (0.0, 1.0, 1 / 3):
        for bit in range(8):
            assert p_of_chi_square(np.bincount(steps(value) >> bit & 1, minlength=2)) > ALPHA


def test_large_noise_is_as_finely_drawn_as_small_noise():
    """Where draws are small and noise is large, adjacent draws give different numbers less than a step apart."""
    for bits in range(26, 45):
        apart = exponential(word(2**bits)) - exponential(word(2**bits + 2))
        assert 0 < apart < 2.0**-GRID
        assert exponential(word(2**bits)) == pytest.approx(naive.exponential(2**bits), rel=1e-15)


@pytest.mark.parametrize("h", [0, 1, 2**12, 2**63, 2**64 - 2, 2**64 - 1])
def test_the_most_extreme_draws_give_finite_noise(h):
    assert math.isfinite(laplace(word(h)))
    assert laplace(word(h)) != 0
    for other in (0, 2**64 - 1):
        assert math.isfinite(normal(word(h), word(other)))
        assert math.isfinite(normal(word(other), word(h)))
        for values in (2, 3, 5, 10, 1000):
            assert 0 <= respond(word(h), word(other), values - 1, values, 0.5) < values


def test_the_largest_laplace_number_is_that_of_the_smallest_draw():
    assert laplace(word(0)) == pytest.approx(-64 * math.log(2))
    assert laplace(word(1)) == pytest.approx(64 * math.log(2))


# Scales


@pytest.mark.parametrize("mechanism", [Laplace, GammaNorm])
@pytest.mark.parametrize("sensitivity", [0.02, 1.0, 2.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_scale_is_sensitivity_over_epsilon_and_never_less(mechanism, sensitivity, epsilon):
    scale = mechanism(epsilon=epsilon, sensitivity=sensitivity).scale
    assert sensitivity / epsilon <= scale <= 1.0001 * sensitivity / epsilon
    # The scale allows for the rounding of records to single precision, so that a little less ε than asked for is given.
    given = mechanism.epsilon_of(scale, sensitivity)
    assert 0.9999 * epsilon <= given <= epsilon
    assert mechanism.epsilon_of(scale / 2, sensitivity) == pytest.approx(2 * given)


@pytest.mark.parametrize("mechanism", [Laplace, GammaNorm])
def test_an_infinite_epsilon_is_no_noise_at_all(mechanism):
    assert mechanism(epsilon=math.inf, sensitivity=2.0).scale == 0
    assert mechanism.epsilon_of(0.0, 2.0) == math.inf


@pytest.mark.parametrize("mechanism", [Laplace, GammaNorm])
def test_a_scale_of_one_has_the_epsilon_of_the_sensitivity(mechanism):
    assert mechanism.epsilon_of(1.0, 2.0) == 2.0


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        (Laplace, {"epsilon": 1.0, "sensitivity": 2.0}),
        (RandomResponse, {"epsilon": 1.0, "values": 3}),
        (PQ, {"p": 0.75, "q": 0.25}),
    ],
)
def test_the_parameters_of_a_mechanism_are_named_and_cannot_be_changed(mechanism, parameters):
    one = mechanism(**parameters)
    assert one == mechanism(**parameters)
    for name in parameters:
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, 0.5)
    with pytest.raises(TypeError, match="positional"):
        mechanism(*parameters.values())


@pytest.mark.parametrize(
    ("one", "parameters"),
    [
        (Laplace(epsilon=2.0, sensitivity=3.0), (0.5, 3.0)),
        (RandomResponse(epsilon=2.0, values=3), (0.75, 3)),
        (PQ(p=0.75, q=0.25), (0.6, 0.2)),
    ],
)
def test_a_mechanism_computes_the_epsilon_of_other_parameters_too(one, parameters):
    assert one.epsilon_of(*parameters) == type(one).epsilon_of(*parameters)


def test_a_guarantee_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Guarantee(1.0).epsilon = 0.5


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_density_ratio_of_laplace_noise_is_at_most_e_to_the_epsilon(epsilon):
    scale = Laplace(epsilon=epsilon, sensitivity=2.0).scale
    z = np.linspace(-30, 30, 100_001)
    ratio = stats.laplace.logpdf(z, 1, scale) - stats.laplace.logpdf(z, -1, scale)
    assert 0.999 * epsilon < ratio.max() <= epsilon


# Random response


@pytest.mark.parametrize("values", [2, 3, 10])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_random_response_has_the_probabilities_of_the_reference(values, epsilon):
    response = RandomResponse(epsilon=epsilon, values=values)
    expected = naive.response_probabilities(values, epsilon)
    assert response.p == pytest.approx(expected[0, 0])
    assert response.q == pytest.approx(expected[0, 1], rel=1e-4)
    assert response.p + (values - 1) * response.q == pytest.approx(1)
    assert naive.worst_ratio(expected) == pytest.approx(epsilon)


@pytest.mark.parametrize("values", [2, 3, 10])
@pytest.mark.parametrize("epsilon", EPSILONS[:-1])
def test_random_response_can_say_which_epsilon_a_probability_gives(values, epsilon):
    p = RandomResponse(epsilon=epsilon, values=values).p
    assert RandomResponse.epsilon_of(p, values) == pytest.approx(epsilon, rel=1e-6)


def test_random_response_is_the_truth_at_infinity_and_pure_chance_at_nothing():
    assert RandomResponse(epsilon=math.inf, values=4).p == 1
    assert RandomResponse(epsilon=math.inf, values=4).q == 0
    assert RandomResponse.epsilon_of(1.0, 4) == math.inf
    assert RandomResponse(epsilon=1e-12, values=4).p == pytest.approx(1 / 4)
    assert RandomResponse.epsilon_of(1 / 4, 4) == pytest.approx(0)


def answers(value, values, truth, n=6000):
    draws = [(word(rng.draw(KEY, 0, i, 0)), word(rng.draw(KEY, 0, i, 1))) for i in range(n)]
    found = [respond(first, second, value, values, truth) for first, second in draws]
    return np.bincount(np.array(found, np.int64), minlength=values)


@pytest.mark.parametrize(("value", "values"), [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (4, 7)])
def test_answers_are_as_frequent_as_random_response_says(value, values):
    epsilon = 1.2
    counts = answers(value, values, RandomResponse(epsilon=epsilon, values=values).p)
    expected = naive.response_probabilities(values, epsilon)[value] * counts.sum()
    assert p_of_chi_square(counts, expected) > ALPHA
    assert p_of_chi_square(counts, naive.response_probabilities(values, 1.5)[value] * counts.sum()) < ALPHA


def test_answers_are_always_true_when_the_truth_is_certain():
    assert answers(2, 5, 1.0, 500).tolist() == [0, 0, 500, 0, 0]
    assert answers(2, 5, 0.0, 500)[2] == 0


def test_an_answer_is_that_of_the_reference_for_the_same_draws():
    for i in range(200):
        first, second = naive.draw(KEY, 1, i, 0), naive.draw(KEY, 1, i, 1)
        truth = RandomResponse(epsilon=1.0, values=4).p
        assert respond(word(first), word(second), i % 4, 4, truth) == naive.respond(first, second, i % 4, 4, 1.0)


# Bits


@pytest.mark.parametrize(("p", "q"), [(0.75, 0.25), (0.5, 0.1), (0.9, 0.3)])
def test_the_epsilon_of_p_and_q_is_the_worst_ratio_of_answers(p, q):
    assert PQ.epsilon_of(p, q) == pytest.approx(naive.worst_ratio(naive.bit_probabilities(3, p, q)))


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.3), (0.6, 0.0), (1.0, 0.0)])
def test_a_bit_that_is_always_true_in_one_case_proves_no_epsilon(p, q):
    assert PQ.epsilon_of(p, q) == math.inf


@pytest.mark.parametrize("epsilon", EPSILONS[:-1])
def test_one_time_rappor_keeps_or_flips_each_bit_alike_and_gives_its_epsilon(epsilon):
    bits = PQ.rappor(epsilon)
    assert bits.q == pytest.approx(1 - bits.p)
    assert 2 * math.log(bits.p / (1 - bits.p)) == pytest.approx(epsilon, rel=1e-6)
    assert PQ.epsilon_of(bits.p, bits.q) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("values", [2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 8.0])
def test_the_best_p_is_the_one_that_a_numerical_search_finds(values, epsilon):
    bits = PQ.best(epsilon, values)
    assert bits.p == pytest.approx(naive.pq_best(epsilon, values), abs=1e-5)
    assert PQ.epsilon_of(bits.p, bits.q) == pytest.approx(epsilon, rel=1e-6)
    assert bits.rms_error(values, 1) <= PQ.rappor(epsilon).rms_error(values, 1) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_best_p_and_q_of_very_long_strings_are_those_of_oue(epsilon):
    bits = PQ.best(epsilon, 10**9)
    assert bits.p == pytest.approx(1 / 2, abs=1e-3)
    assert bits.q == pytest.approx(1 / (math.exp(epsilon) + 1), abs=1e-3)


def test_the_best_p_and_q_without_noise_are_the_truth():
    for bits in (PQ.best(math.inf, 5), PQ.rappor(math.inf)):
        assert (bits.p, bits.q) == (1, 0)
        assert PQ.epsilon_of(bits.p, bits.q) == math.inf
    assert PQ.best(math.inf, 5).rms_error(5, 10) == 0


@pytest.mark.parametrize("epsilon", [300.0, 1000.0])
def test_a_huge_epsilon_has_a_best_p_and_q_as_well(epsilon):
    bits = PQ.best(epsilon, 10)
    assert 0.5 < bits.p <= 1
    assert 0 <= bits.q < 1e-50


def test_the_rms_error_is_that_of_estimated_shares(rng):
    values, records, bits = 4, 200, PQ.best(1.0, 4)
    shares = np.array([0.5, 0.25, 0.25, 0.0])
    truth = np.repeat(np.arange(values), (shares * records).astype(int))
    one = np.where(truth[:, None] == np.arange(values), bits.p, bits.q)
    counts = (rng.random((4000, records, values)) < one).mean(axis=1)
    squares = np.square((counts - bits.q) / (bits.p - bits.q) - shares).sum(axis=1)
    # The mean of 4000 squared errors has a relative sd of 1.2 %; 4 % are three of these: fails once in 800 seeds.
    assert math.sqrt(squares.mean()) == pytest.approx(bits.rms_error(values, records), rel=0.02)
    assert bits.rms_error(values, 4 * records) == pytest.approx(bits.rms_error(values, records) / 2)


# What is said of it


@pytest.mark.parametrize(
    ("guarantee", "text"),
    [
        (Guarantee(None), "not private"),
        (Guarantee(None, note="raw records"), "not private: raw records"),
        (Guarantee(math.inf), "not private"),
        (
            Guarantee(None, note="no record leaves its node", released=False),
            "not applicable: no record leaves its node",
        ),
        (Guarantee(0.5), "ε = 0.5 per record, proven"),
        (Guarantee(50.0, "node"), "ε = 50 per node, proven"),
        (Guarantee(1.0, "node", "curator trusted"), "ε = 1 per node, proven: curator trusted"),
    ],
)
def test_a_guarantee_says_its_epsilon_and_unit_or_that_there_is_none(guarantee, text):
    assert str(guarantee) == text
