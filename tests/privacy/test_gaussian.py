"""The exact (ε, δ) of Gaussian noise, against numerical integrals and dp-accounting."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from golfsim.privacy import gaussian
from golfsim.privacy.mechanisms import ROUNDING, Gaussian, Guarantee


def hockey_stick(mu, epsilon):
    """∫ max(0, p − e^ε q) over the normal densities of means 0 and μ: the definition of δ."""
    begin = epsilon / mu + mu / 2  # where p = e^ε q
    found = integrate.quad(
        lambda x: stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x), begin, begin + mu + 40, epsabs=1e-14
    )
    return found[0]


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_delta_is_the_integral_of_the_definition(mu, epsilon):
    assert gaussian.delta_of(mu, epsilon) == pytest.approx(hockey_stick(mu, epsilon), rel=1e-6, abs=1e-13)


@settings(max_examples=60)
@given(epsilon=st.floats(1e-3, 50), delta=st.floats(1e-10, 0.4))
def test_a_mu_is_private_and_a_little_more_is_not(epsilon, delta):
    mu = gaussian.mu_of(epsilon, delta)
    assert gaussian.delta_of(mu, epsilon) <= delta
    assert gaussian.delta_of(mu * (1 + 1e-4), epsilon) > delta
    assert gaussian.epsilon_of(mu, delta) <= epsilon * (1 + 1e-5) + 1e-9
    assert gaussian.delta_of(mu, gaussian.epsilon_of(mu, delta)) <= delta


@pytest.mark.parametrize(("sigma", "delta"), [(0.5, 1e-5), (1.0, 1e-5), (4.0, 1e-6), (20.0, 1e-3)])
def test_it_is_what_dp_accounting_states(sigma, delta):
    from dp_accounting.pld import privacy_loss_distribution as pld

    stated = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4).get_epsilon_for_delta(delta)
    ours = gaussian.epsilon_of(1 / sigma, delta)
    assert ours == pytest.approx(stated, rel=2e-5, abs=2e-6)  # ours is rounded up to six digits


def test_a_thousand_visits_at_ten_need_sixteen_standard_deviations():
    assert math.sqrt(1000) / gaussian.mu_of(10, 1e-5) == pytest.approx(15.81, abs=0.01)


def test_edges():
    assert gaussian.epsilon_of(0, 1e-5) == 0
    assert gaussian.epsilon_of(1, 0) == math.inf
    assert gaussian.epsilon_of(math.inf, 1e-5) == math.inf
    assert gaussian.epsilon_of(1e-6, 1e-3) == 0  # δ alone covers it
    assert gaussian.mu_of(math.inf, 1e-5) == math.inf
    assert gaussian.delta_of(0, 1) == 0
    assert gaussian.delta_of(math.inf, 1) == 1


def test_the_mechanism_adds_the_noise_of_its_mu():
    mechanism = Gaussian(epsilon=1, delta=1e-5, sensitivity=2)
    assert mechanism.scale == pytest.approx(2 * (1 + ROUNDING) / gaussian.mu_of(1, 1e-5))
    assert Gaussian.epsilon_of(mechanism.scale, 2, 1e-5) <= 1
    assert Gaussian(epsilon=math.inf, delta=1e-5, sensitivity=2).scale == 0
    assert Gaussian.epsilon_of(0, 2, 1e-5) == math.inf


def test_a_guarantee_states_its_delta():
    assert str(Guarantee(1.0, delta=1e-5)) == "ε = 1, δ = 1e-05 per record, proven"
    assert "δ" in Guarantee(1.0, delta=1e-5)._repr_html_()
    assert "δ" not in str(Guarantee(1.0))


@pytest.mark.parametrize("up", [True, False])
def test_rounding_goes_to_the_safe_side(up):
    for value in np.random.default_rng(1).lognormal(0, 5, 300).tolist():
        found = gaussian.rounded(value, up)
        assert found >= value if up else found <= value
        assert found == pytest.approx(value, rel=1e-5)
