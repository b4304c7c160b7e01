"""Bounds on ε from guesses about coins: the statistics of the audit with one run, without any run."""

import math

import numpy as np
import pytest

from golfsim.audit import guesses
from golfsim.privacy import gaussian

# Computed with jax-privacy 2.0.0 (jax_privacy/auditing.py: _one_run_p_value, _epsilon_one_run, whose bounds have a
# tolerance of 1e-6; the last one by CanaryScoreAuditor.epsilon_one_run): canaries, guesses, right ones, ε or error, δ.
P_VALUES = {
    (100, 60, 45, 1.0, 0.0): 0.4352225944801336,
    (1000, 400, 300, 1.0, 1e-5): 0.21420791202771178,
    (1000, 1000, 750, 0.5, 1e-4): 0.001247536750372762,
    (50, 50, 50, 2.0, 1e-3): 0.01257004317486291,
    (2000, 300, 280, 2.5, 1e-6): 0.32009014203984526,
    (500, 200, 140, 0.8, 1e-2): 1.0,
}
BOUNDS = {
    (100, 60, 45, 0.05, 0.0): 0.5817074921988111,
    (1000, 400, 300, 0.05, 1e-5): 0.9035143928157686,
    (1000, 1000, 750, 0.05, 1e-4): 0.9736099152949622,
    (50, 50, 50, 0.05, 1e-3): 2.6391863661955948,
    (2000, 300, 280, 0.001, 1e-6): 1.9551649223019785,
    (500, 200, 140, 0.05, 1e-3): 0.4959171622545703,
    (1000, 1000, 731, 0.05, 0.0): 0.8806030968229921,
    (500, 200, 100, 0.05, 0.0): 0.0,
    (1000, 450, 360, 0.05, 1e-5): 1.1875537428604412,
}


@pytest.mark.parametrize("case", P_VALUES, ids=str)
def test_probabilities_of_right_guesses_are_those_of_another_program(case):
    canaries, made, right, epsilon, delta = case
    assert guesses.p_value(right, made, canaries, epsilon, delta) == pytest.approx(P_VALUES[case], rel=1e-9)


@pytest.mark.parametrize("case", BOUNDS, ids=str)
def test_lower_bounds_are_those_of_another_program(case):
    canaries, made, right, error, delta = case
    assert guesses.lower_bound(right, made, canaries, error, delta) == pytest.approx(BOUNDS[case], abs=3e-6)


@pytest.mark.parametrize(("right", "made", "canaries", "delta"), [(9, 12, 20, 0.01), (3, 8, 8, 0.003), (0, 5, 9, 0.1)])
def test_the_probability_is_that_of_the_theorem_with_the_maximum_over_all_i(right, made, canaries, delta):
    """Written from theorem 5.2 with plain sums."""
    chance = math.e / (1 + math.e)

    def at_least(v):
        return sum(math.comb(made, k) * chance**k * (1 - chance) ** (made - k) for k in range(max(v, 0), made + 1))

    worst = max((at_least(right - i) - at_least(right)) / i for i in range(1, canaries + 1))
    expected = min(1.0, at_least(right) + 2 * canaries * delta * worst)
    assert guesses.p_value(right, made, canaries, 1.0, delta) == pytest.approx(expected, rel=1e-12)


def test_the_highest_scores_are_guessed_in_and_the_lowest_out():
    assert guesses.guess(np.array([0.3, -2.0, 5.0, 0.1, 4.0]), 2, 1).tolist() == [0, -1, 1, 0, 1]
    assert guesses.guess(np.zeros(3), 1, 1).tolist() == [-1, 0, 1]
    assert guesses.guess(np.arange(3.0), 0, 0).tolist() == [0, 0, 0]


# Mechanisms of known ε


def responses(rng, canaries, epsilon):
    """The coins of randomised response, and its outputs."""
    coins = rng.random(canaries) < 0.5
    right = rng.random(canaries) < 1 / (1 + math.exp(-epsilon))
    return coins, (coins == right).astype(float)[:, None]


def gaussians(rng, canaries, mu):
    coins = rng.random(canaries) < 0.5
    return coins, (rng.normal(size=canaries) + mu * coins)[:, None]


@pytest.mark.parametrize("error", [0.05, 0.2])
def test_a_bound_on_randomised_response_is_above_its_epsilon_as_seldom_as_stated(rng, error):
    # The number of errors has a binomial distribution with at most this rate: more come once in 1000 seeds.
    from scipy.stats import binom

    wrong = sum(guesses.guessed(*responses(rng, 400, 1.0)[::-1], error).bound > 1.0 for _ in range(200))
    assert wrong <= binom.ppf(0.999, 200, error)


def test_a_thousand_guesses_about_randomised_response_show_most_of_its_epsilon(rng):
    """All of them guessed without a choice, and half of them where the others choose (median of 40 seeds: .76)."""
    found = [guesses.guessed(*responses(rng, 1000, 1.0)[::-1], 0.05).bound for _ in range(20)]
    assert np.median(found) > 0.7
    coins, output = responses(rng, 1000, 1.0)
    assert guesses.lower_bound(int((coins == (output[:, 0] > 0)).sum()), 1000, 1000, 0.05) > 0.7


@pytest.mark.parametrize(("mu", "least"), [(0.25, 0.0), (0.5, 0.1)])
def test_gaussian_noise_is_not_seen_to_exceed_its_epsilon_and_a_fifth_of_it_is_found_out(rng, mu, least):
    """With δ the bound is loose: the stated ε at δ = 1e-5 is that of rare outputs. 0.1 % of seeds fail."""
    stated = gaussian.epsilon_of(mu, 1e-5)
    assert least <= guesses.guessed(*gaussians(rng, 4000, mu)[::-1], 0.001, 1e-5).bound <= stated
    assert guesses.guessed(*gaussians(rng, 4000, 5 * mu)[::-1], 0.001, 1e-5).bound > stated


def laplace(rng, canaries, scale):
    coins = rng.random(canaries) < 0.5
    return coins, rng.laplace(np.where(coins, 1.0, -1.0), scale)[:, None]


def test_half_of_laplace_noise_is_found_out(rng):
    assert 0.4 < guesses.guessed(*laplace(rng, 2000, 2.0)[::-1], 0.001).bound <= 1.0
    assert guesses.guessed(*laplace(rng, 2000, 1.0)[::-1], 0.001).bound > 1.0


def test_a_score_of_several_numbers_is_learned(rng):
    """No number alone tells much: 16 numbers with a sixteenth of the squared distance each."""
    coins = rng.random(4000) < 0.5
    numbers = rng.normal(size=(4000, 16)) + 2.0 / 4 * coins[:, None]
    found = guesses.guessed(numbers, coins, 0.05)
    assert found.bound > guesses.guessed(numbers[:, :1], coins, 0.05).bound + 0.5


def test_numbers_that_say_nothing_give_no_bound(rng):
    coins = rng.random(400) < 0.5
    for numbers in (np.empty((400, 0)), np.zeros((400, 3)), rng.normal(size=(400, 2))):
        assert guesses.guessed(numbers, coins, 0.001).bound == 0
    assert guesses.guessed(np.empty((400, 0)), coins, 0.05).score == guesses.NOTHING


def test_no_bound_exceeds_what_this_number_of_canaries_can_show(rng):
    coins = rng.random(400) < 0.5
    found = guesses.guessed(coins[:, None].astype(float), coins, 0.05)
    assert found.right == found.made
    assert (
        0
        < found.bound
        <= guesses.ceiling(400, 0.05)
        == pytest.approx(math.log(0.05 ** (1 / 200) / (1 - 0.05 ** (1 / 200))))
    )
