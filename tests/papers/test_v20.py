"""Veldhuizen 2020 in short form: what the shipped scenarios give over few folds, and the claims.

“sd” is that of single folds, measured over the runs that the scenario files report.
"""

import numpy as np
import pytest
from helpers import needs_jit
from shipped import guarantee, point, runs_of

pytestmark = [needs_jit, pytest.mark.slow]

FOLDS = 40


def errors(name, runs, *layers, **values):
    return runs_of(point(name, **values), runs, *(f"{layer} error.mean" for layer in layers)).mean(axis=1)


def test_t2_objective_perturbation_has_the_published_errors_on_the_simulated_sets():
    # Published .031 and .051 (for ε that is not stated); here .0321 and .0564, sd .018 and .014: four sd of a mean.
    (separable,) = errors("v20_t2", FOLDS, "algorithm2", case="separable")
    assert separable == pytest.approx(0.032, abs=4 * 0.018 / np.sqrt(FOLDS))
    (inseparable,) = errors("v20_t2", FOLDS, "algorithm2", case="inseparable")
    assert inseparable == pytest.approx(0.056, abs=4 * 0.014 / np.sqrt(FOLDS))


def test_t2_logistic_regression_has_the_published_errors_on_the_simulated_sets():
    assert errors("v20_t2", 5, "logistic", case="separable") == pytest.approx(0.0, abs=0.001)
    # Published .035; here .0346, sd .004.
    assert errors("v20_t2", FOLDS, "logistic", case="inseparable") == pytest.approx(0.035, abs=0.003)


def test_the_printed_lasso_is_hardly_regularised_so_that_noise_cannot_hurt_it():
    # Published .029 and .062; by the printed objective 0 and .039: λ = 0.01 against a sum of 8000 losses.
    assert errors("v20_t2", 5, "algorithm1", case="separable") == pytest.approx(0.0, abs=0.002)
    assert errors("v20_t2", 10, "algorithm1", case="inseparable") < 0.05


def test_the_lasso_of_the_mean_suffers_from_noise_as_published():
    # Published .029 and .062; here .042 (sd .023) and .068 (sd .021) over 250 folds: four sd of a mean of FOLDS.
    for case, value, sd in (("separable", 0.042, 0.023), ("inseparable", 0.068, 0.021)):
        (found,) = errors("v20_forms", FOLDS, "algorithm1_mean", case=case)
        assert found == pytest.approx(value, abs=4 * sd / np.sqrt(FOLDS))


def test_f6_logistic_regression_of_fifty_records_is_wrong_as_often_as_the_paper_says_that_it_is_right():
    # Published .86, by a rule that is printed with the wrong sign; here .140 (sd .033), and 1 − .86 is .14.
    (found,) = errors("v20_f6", FOLDS, "logistic", nodes__records=50)
    assert found == pytest.approx(0.14, abs=4 * 0.033 / np.sqrt(FOLDS))


def test_with_the_right_noise_objective_perturbation_beats_output_perturbation():
    # Separable .135 (sd .05) against .037 (sd .018); inseparable .148 (sd .05) against .060 (sd .014).
    for case in ("separable", "inseparable"):
        output, objective = errors("v20_forms", 10, "output", "objective", case=case)
        assert output - objective > 0.03


def test_what_is_private_and_what_is_not():
    scenario = point("v20_forms", case="separable")
    assert guarantee(scenario, "output").epsilon == 0.1
    assert guarantee(scenario, "objective").epsilon == 0.1
    assert guarantee(scenario, "algorithm1").epsilon is None
    assert guarantee(scenario, "algorithm2").epsilon == pytest.approx(0.1041, abs=0.0005)


@pytest.mark.parametrize("case", ["separable", "inseparable"])
def test_f7_error_falls_as_epsilon_grows(case):
    layers = ("algorithm2", "output", "objective")
    small = errors("v20_f7", 10, *layers, case=case, algorithm1__epsilon=0.02)
    large = errors("v20_f7", 10, *layers, case=case, algorithm1__epsilon=1.0)
    assert (small - large > 0.03).all()  # each by .1 and more, sd of a mean of ten about .02


def test_f4_error_falls_with_the_size_of_the_training_set():
    layers = ("algorithm2", "output", "objective")
    few = errors("v20_f4", 10, *layers, case="inseparable", nodes__records=1000)
    many = errors("v20_f4", 10, *layers, case="inseparable", nodes__records=8000)
    assert (few - many > 0.03).all()
