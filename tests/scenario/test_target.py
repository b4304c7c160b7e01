"""`epsilon = "target"`: the least noise with which all visits have a given (ε, δ) together."""

import math

import pytest

from golfsim import Scenario
from golfsim.core.errors import UserError
from golfsim.privacy import gaussian
from golfsim.privacy.accounting import budget_for, of_visits
from golfsim.privacy.ledger import HalvingSchedule, Ledger, UniformSchedule

WALK = {"name": "walk", "use": "gradient_perturbation", "peers": "peers", "records": "raw", "epsilon": "target"}
PEERS = {"name": "peers", "use": "uniform"}
DATA = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l2"]}
TARGET = {"epsilon": 2.0, "delta": 1e-5}


def scenario(*layers, **tables):
    tree = {"name": "t", "seed": 1, "cycles": 2, "data": DATA, "nodes": {"records": 1}}
    return Scenario.of(tree | {"protocol": [PEERS, *layers], "privacy": {"target": TARGET}} | tables)


def budget(found):
    return found._layers[1]["epsilon"]


@pytest.mark.parametrize("visits", [1, 50, 2000])
def test_pure_visits_use_the_target_up(visits):
    schedule = UniformSchedule(kind="uniform", visits=visits)
    found = budget(scenario(WALK | {"schedule": {"kind": "uniform", "visits": visits}}))
    assert found == budget_for(2.0, 1e-5, schedule)
    spent = of_visits([Ledger(schedule, found, 1)], [visits], 1e-5)
    assert 2 * (1 - 2e-3) <= spent <= 2
    assert visits == 1 or found > 2  # composition at a δ proves more than the sum


def test_a_halving_schedule_has_a_target_too():
    found = budget_for(2.0, 1e-5, HalvingSchedule(kind="halving"))
    ledger = Ledger(HalvingSchedule(kind="halving"), found, 1)
    assert 1.99 <= of_visits([ledger], [ledger.most], 1e-5) <= 2


def test_gaussian_noise_has_the_target_itself_and_its_delta():
    layer = WALK | {"noise": "gaussian", "norm": "l2", "schedule": {"kind": "uniform", "visits": 1000}}
    table = scenario(layer)._layers[1]
    assert (table["epsilon"], table["delta"]) == (2.0, 1e-5)
    ledger = Ledger(UniformSchedule(kind="uniform", visits=1000), 2.0, 1, 1e-5)
    assert ledger.mu(1000) == gaussian.mu_of(2.0, 1e-5)
    assert ledger.mu(10) == pytest.approx(ledger.mu(1000) / 10)


def test_the_epsilon_at_the_delta_of_the_target_is_stated():
    assert scenario(WALK).privacy.stated_delta == 1e-5
    assert scenario(WALK, privacy={"target": TARGET, "delta": 1e-3}).privacy.stated_delta == 1e-3
    assert scenario(WALK | {"epsilon": 1.0}, privacy={}).privacy.stated_delta is None


def test_a_sweep_may_vary_the_target():
    found = scenario(WALK).change({"privacy.target.epsilon": 4.0})
    assert budget(found) > budget(scenario(WALK))


@pytest.mark.parametrize(
    ("layers", "tables", "words"),
    [
        ([WALK], {"privacy": {}}, "no valid target"),
        ([WALK], {"privacy": {"target": {"epsilon": -1, "delta": 1e-5}}}, "privacy.target.epsilon: expected at least"),
        ([WALK, WALK | {"name": "second"}], {}, "two layers cannot both have the target"),
        ([{"name": "erm", "use": "averaging", "peers": "peers", "epsilon": "target"}], {}, "no visits of records"),
    ],
)
def test_what_has_no_target_is_told_with_its_key(layers, tables, words):
    with pytest.raises(UserError, match=words):
        scenario(*layers, **tables)


def test_without_noise_a_budget_is_infinite():
    ledger = Ledger(UniformSchedule(kind="uniform", visits=3), math.inf, 2, 1e-5)
    assert ledger.mu(1) == math.inf
    assert ledger.spent().tolist() == [0, 0]
