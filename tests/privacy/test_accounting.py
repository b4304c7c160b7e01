"""The ε of many visits at a δ: never above the sum, tight for equal visits, above the truth for others."""

import math

import naive
import numpy as np
import pytest
from helpers import finished, learning_tree, simulation
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from golfsim.core.errors import UserError
from golfsim.privacy import gaussian
from golfsim.privacy.accounting import AtDelta, spent, together
from golfsim.privacy.ledger import HalvingSchedule, Ledger, UniformSchedule
from golfsim.runs.single import guarantees, privacy
from golfsim.sim.metric_catalogue import of_scenario
from golfsim.sim.observers import accountable

DELTAS = st.sampled_from([1e-10, 1e-6, 1e-3, 0.1])


def test_a_thousand_visits_of_ten_spend_a_ninth_of_their_sum():
    found = together([(0.01, 1000)], 1e-5)
    assert found == pytest.approx(1.1977, abs=1e-4)
    assert naive.equal_responses_delta(1000, 0.01, found) <= 1e-5
    assert naive.equal_responses_delta(1000, 0.01, found * 0.9999) > 1e-5


@given(st.integers(1, 300), st.floats(1e-4, 3), DELTAS)
def test_equal_visits_are_composed_exactly(number, epsilon, delta):
    number = min(number, int(200 / epsilon))  # e^ε must be in the range of double precision
    found = together([(epsilon, number)], delta)
    assert 0 <= found <= number * epsilon
    assert naive.equal_responses_delta(number, epsilon, found) <= delta * (1 + 1e-9)
    if 1e-6 < found < number * epsilon * (1 - 1e-5):
        assert naive.equal_responses_delta(number, epsilon, found * (1 - 1e-4)) > delta * (1 - 0.02)


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=9), DELTAS)
def test_different_visits_are_never_stated_below_the_truth(epsilons, delta):
    found = together([(epsilon, 1) for epsilon in epsilons], delta)
    assert found <= math.fsum(epsilons)
    assert naive.responses_delta(epsilons, found) <= delta * (1 + 1e-9) + 1e-15
    loose = found - (len(epsilons) + 1) * max(epsilons) / 4096 - 1e-4 * found
    if loose > 1e-6 and delta >= 1e-6:
        assert naive.responses_delta(epsilons, loose) > delta * 0.98


@given(st.floats(0.1, 5), st.integers(1, 60), DELTAS)
def test_a_halving_schedule_is_never_stated_below_the_truth_nor_above_the_sum(epsilon, visits, delta):
    ledger = Ledger(HalvingSchedule(kind="halving"), epsilon, 1)
    ledger.visits[:] = visits
    (found,) = spent([ledger], delta)
    assert found <= ledger.spent()[0] * (1 + 1e-12)
    first = [epsilon / 2**t for t in range(1, min(visits, 9) + 1)]
    assert naive.responses_delta(first, found) <= delta * (1 + 1e-9) + 1e-15


def test_a_larger_delta_and_fewer_visits_cost_less():
    found = [together([(0.1, number)], delta) for number, delta in ((100, 1e-6), (100, 1e-3), (50, 1e-3), (0, 1e-3))]
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0


def test_edges():
    assert together([], 1e-5) == 0
    assert together([(0.5, 3)], 0) == 1.5
    assert together([(math.inf, 1)], 1e-5) == math.inf
    assert together([(0.1, 2), (0.1, 3)], 1e-5) == together([(0.1, 5)], 1e-5)
    for wrong in (1e-11, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="expected δ"):
            together([(0.1, 1)], wrong)


def test_each_record_has_the_epsilon_of_its_own_visits_in_all_ledgers():
    ledgers = [
        Ledger(UniformSchedule(kind="uniform", visits=20), 2.0, 3),
        Ledger(HalvingSchedule(kind="halving"), 1, 3),
    ]
    ledgers[0].visits[:] = [0, 20, 20]
    ledgers[1].visits[:] = [0, 0, 2]
    found = spent(ledgers, 1e-3)
    both = together([(0.1, 20), (0.5, 1), (0.25, 1)], 1e-3)
    assert found.tolist() == [0, together([(0.1, 20)], 1e-3), both]


# ------------------------------------------------------------------------------------------------ runs

PEERS = {"name": "peers", "use": "uniform"}
NOISY = {"name": "noisy", "use": "golf", "peers": "peers", "records": "raw", "epsilon": 5.0}
VISITS = {"schedule": {"kind": "uniform", "visits": 40}}
DATA = {"set": "random", "train": 30, "test": 20, "scale": ["minmax", "l1"]}


def table(*layers, **changes):
    return learning_tree(*layers, **({"data": DATA, "cycles": 30, "privacy": {"delta": 1e-5}} | changes))


def test_the_log_has_the_epsilon_of_the_visits_that_happened():
    made = finished(table(PEERS, NOISY | VISITS))
    layer, last = made.layer("noisy"), made.latest["noisy"]
    found = [together([(5.0 / 40, int(number))], 1e-5) for number in layer.ledger.visits]
    assert last["spent.delta.mean"] == pytest.approx(np.mean(found))
    assert last["spent.delta.max"] == max(found) < last["spent.max"]
    assert guarantees(made)["noisy"].endswith(f"; {AtDelta(max(found), 1e-5)}")
    assert privacy(made)["noisy"]["at_delta"]["epsilon"] == max(found)
    assert {"spent.delta.mean", "spent.delta.max"} <= {metric.name for metric in of_scenario(made.scenario)["noisy"]}


def test_layers_that_use_the_same_records_are_composed_together():
    made = finished(table(PEERS, NOISY | VISITS, NOISY | VISITS | {"name": "other"}))
    both = [made.layer(name).ledger.visits for name in ("noisy", "other")]
    found = max(together([(0.125, int(sum(pair)))], 1e-5) for pair in zip(*both, strict=True))
    assert guarantees(made)["together"].endswith(f"; {AtDelta(found, 1e-5)}")


def test_without_a_delta_nothing_is_stated():
    made = finished(table(PEERS, NOISY | VISITS, privacy={}))
    assert "spent.delta.mean" not in made.latest["noisy"]
    assert "δ" not in guarantees(made)["noisy"]


@pytest.mark.parametrize(
    "changes",
    [
        {"data": DATA | {"bounds": "train"}},  # the bounds are not accounted for
        {"nodes": {"number": 60, "repeat": True}},  # a record is used at two nodes
    ],
)
def test_where_the_budget_is_not_the_proven_epsilon_nothing_is_stated(changes):
    made = simulation(table(PEERS, NOISY | VISITS, **changes))
    assert accountable(made.layer("noisy")) == []


@pytest.mark.parametrize("delta", [0.0, 1.0, 1e-11, "small"])
def test_a_delta_that_cannot_be_accounted_for_is_refused(delta):
    with pytest.raises(UserError, match=r"privacy\.delta"):
        simulation(table(PEERS, NOISY | VISITS, privacy={"delta": delta}))


NORMAL = {"delta": 1e-5, "epsilon": 2.0, "records": 1}


def gaussian_ledger(visits, **changes):
    return Ledger(UniformSchedule(kind="uniform", visits=visits), **(NORMAL | changes))


def test_gaussian_visits_share_the_square_of_mu_and_end_at_their_epsilon():
    ledger = gaussian_ledger(4)
    ledger.visits[:] = 4
    assert ledger.spent().tolist() == pytest.approx([2.0], rel=1e-5)
    assert ledger.spent()[0] <= 2
    assert ledger.mu(1) == pytest.approx(ledger.mu(4) / 2)
    assert ledger.releases(4) == [(0.0, 4)]
    assert spent([ledger], 1e-5).tolist() == ledger.spent().tolist()
    assert spent([ledger], 1e-7)[0] > 2


@pytest.mark.parametrize("kind", ["uniform", "halving"])
def test_several_gaussian_ledgers_are_one_of_the_root_of_their_squares(kind):
    schedule = UniformSchedule(kind="uniform", visits=3) if kind == "uniform" else HalvingSchedule(kind="halving")
    ledgers = [Ledger(schedule, **(NORMAL | {"epsilon": e})) for e in (1.0, 3.0)]
    for ledger in ledgers:
        ledger.visits[:] = 3
    mu = math.hypot(*(ledger.mu(3) for ledger in ledgers))
    assert spent(ledgers, 1e-5)[0] == gaussian.epsilon_of(mu, 1e-5)


def test_gaussian_and_pure_visits_compose_between_the_larger_and_the_sum():
    normal, pure = gaussian_ledger(1), Ledger(UniformSchedule(kind="uniform", visits=10), 3.0, 1)
    normal.visits[:], pure.visits[:] = 1, 10
    both = spent([normal, pure], 1e-5)[0]
    assert max(spent([normal], 1e-5)[0], spent([pure], 1e-5)[0]) < both < 5.0
    # The exact δ of both at this ε, by an integral over the Gaussian loss for each number of wrong responses.
    assert joint_delta(normal.mu(1), 0.3, 10, both) <= 1e-5
    assert joint_delta(normal.mu(1), 0.3, 10, both * 0.995) > 1e-5


def joint_delta(mu, epsilon, number, at):
    """δ of Gaussian noise with μ and `number` random responses with ε each, at an ε."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    wrong = np.arange(number + 1)
    weights = stats.binom.pmf(wrong, number, 1 - p)
    losses = (number - 2 * wrong) * epsilon
    # Given the loss of the responses, the pair is e^loss times as likely: δ(ε − loss) of the Gaussian part remains.
    return sum(w * _delta(mu, at - loss) for w, loss in zip(weights, losses, strict=True))


def _delta(mu, epsilon):
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


def test_a_pure_label_beside_gaussian_noise_is_a_part_of_epsilon():
    ledger = gaussian_ledger(1, pure=0.5)
    ledger.visits[:] = 1
    assert ledger.mu(1) == gaussian.mu_of(1.5, 1e-5)
    assert ledger.releases(1) == [(0.5, 1)]
    assert 1.999 < ledger.spent()[0] <= 2
    assert spent([ledger], 1e-5)[0] <= 2
