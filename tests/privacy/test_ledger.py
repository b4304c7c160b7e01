"""What records spend of their budgets."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from golfsim.core.kernels import kernel
from golfsim.privacy.ledger import HalvingSchedule, Ledger, Schedule, UniformSchedule, may_visit, spend, visits_of

SCHEDULES = st.one_of(st.just(("halving",)), st.tuples(st.just("uniform"), st.integers(1, 6)))


def ledger(schedule, epsilon, records=1):
    """Schedules are written as the reference writes them."""
    if schedule[0] == "halving":
        return Ledger(HalvingSchedule(kind="halving"), epsilon, records)
    return Ledger(UniformSchedule(kind="uniform", visits=schedule[1]), epsilon, records)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0, 0.3])
def test_a_uniform_schedule_spends_exactly_epsilon_in_its_visits_and_not_one_more(epsilon):
    for k in range(1, 201):
        book = ledger(("uniform", k), epsilon)
        charges = []
        while may_visit(book.budget, 0, 1):
            before = book.spent()[0]
            charges.append(spend(book.budget, 0, 1))
            assert before < book.spent()[0] <= epsilon
        assert len(charges) == k
        assert book.spent()[0] == epsilon
        assert charges == [epsilon / k] * k
        assert math.fsum(charges) <= epsilon * (1 + 1e-9)


def test_a_running_sum_would_lose_visits():
    """Why visits are counted: with sums compared to ε, some k end a visit early or late."""

    def visits(k):
        total, made = 0.0, 0
        while total + 1.0 / k <= 1.0:
            total += 1.0 / k
            made += 1
        return made

    assert any(visits(k) != k for k in range(1, 201))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_a_halving_schedule_stays_below_epsilon_for_ever(epsilon):
    book = ledger(("halving",), epsilon)
    for visit in range(1, 41):
        assert may_visit(book.budget, 0, 1)
        assert spend(book.budget, 0, 1) == epsilon / 2**visit
        assert book.spent()[0] == float(epsilon * (1 - naive.Fraction(1, 2**visit)))
        assert book.spent()[0] < epsilon
    assert book.metrics()["spent.exhausted"] == 0


def test_a_halving_schedule_ends_after_60_visits():
    book = ledger(("halving",), 1.0, 2)
    for visit in range(60):
        assert may_visit(book.budget, 0, 1), visit
        spend(book.budget, 0, 1)
    assert not may_visit(book.budget, 0, 1)
    assert book.left(np.arange(2)).tolist() == [False, True]
    assert book.metrics()["spent.exhausted"] == 0.5


def test_a_uniform_schedule_has_one_visit_unless_it_states_another_number_and_never_none():
    read = TypeAdapter(Schedule).validate_python
    assert read({"kind": "uniform"}).visits == 1
    assert read({"kind": "uniform", "visits": 1}).visits == 1
    assert isinstance(read({"kind": "halving"}), HalvingSchedule)
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        read({"kind": "uniform", "visits": 0})


def test_the_visits_that_spend_the_budget_are_those_of_the_schedule_up_to_a_limit():
    assert [visits_of(UniformSchedule(kind="uniform", visits=k)) for k in (1, 7, 8, 9, 20)] == [1, 7, 8, 8, 8]
    assert visits_of(UniformSchedule(kind="uniform", visits=20), 12) == 12
    visits = visits_of(HalvingSchedule(kind="halving"))
    book = ledger(("halving",), 1.0)
    for _ in range(visits):
        spend(book.budget, 0, 1)
    assert book.spent()[0] == 15 / 16


def test_a_record_beyond_its_budget_is_exhausted_too():
    book = ledger(("uniform", 2), 1.0, 4)
    book.visits[:] = [1, 2, 3, 9]
    units = np.arange(4)
    assert [may_visit(book.budget, unit, unit + 1) for unit in units] == [True, False, False, False]
    assert book.left(units).tolist() == [True, False, False, False]
    assert book.metrics()["spent.exhausted"] == 0.75
    assert book.charge(units).tolist() == [True, False, False, False]
    assert book.visits.tolist() == [2, 2, 3, 9]


@given(
    schedule=SCHEDULES,
    epsilon=st.sampled_from([0.3, 1.0, 7.0]),
    ranges=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4)), max_size=30),
)
def test_visits_and_charges_are_those_of_the_reference(schedule, epsilon, ranges):
    book, reference = ledger(schedule, epsilon, 12), naive.Ledger(schedule, epsilon, 12)
    for first, size in ranges:
        expected = reference.visit(range(first, first + size))
        before = book.visits.copy()
        allowed = may_visit(book.budget, first, first + size)
        assert (book.visits == before).all()  # to look costs nothing
        assert allowed == (expected is not None)
        if allowed:
            assert spend(book.budget, first, first + size) == pytest.approx(expected, rel=1e-12)
        assert book.visits.tolist() == reference.visits
        exact = [float(reference.spent(record)) for record in range(12)]
        assert book.spent() == pytest.approx(exact, rel=1e-12)
        assert book.spent().max() <= epsilon


def test_a_visit_to_several_records_has_the_epsilon_of_the_poorest():
    book = ledger(("halving",), 8.0, 3)
    book.visits[:] = [0, 2, 1]
    assert spend(book.budget, 0, 3) == 1.0  # 4, 1 and 2 are what they could bear
    assert book.visits.tolist() == [1, 3, 2]
    assert book.spent().tolist() == [4.0, 7.0, 6.0]


def test_one_exhausted_record_closes_its_whole_batch():
    book = ledger(("uniform", 2), 1.0, 3)
    book.visits[:] = [0, 2, 0]
    assert not may_visit(book.budget, 0, 3)
    assert may_visit(book.budget, 0, 1)
    assert not may_visit(book.budget, 1, 2)
    assert may_visit(book.budget, 2, 3)


def test_metrics_are_mean_and_largest_epsilon_and_the_share_of_the_exhausted():
    book = ledger(("uniform", 4), 8.0, 4)
    book.visits[:] = [0, 1, 3, 4]
    assert book.metrics() == {"spent.mean": 4.0, "spent.max": 8.0, "spent.exhausted": 0.25}


def test_metrics_include_what_was_spent_elsewhere():
    book = ledger(("uniform", 4), 8.0, 4)
    book.visits[:] = [0, 1, 3, 4]
    assert book.metrics(np.array([3.0, 1.0, 3.0, 1.0])) == {
        "spent.mean": 6.0,
        "spent.max": 9.0,
        "spent.exhausted": 0.25,
    }


def test_a_ledger_without_records_has_no_metrics():
    assert ledger(("uniform", 1), 0.0, 0).metrics() == {}


@pytest.mark.parametrize("schedule", [("uniform", 3), ("halving",)])
def test_an_infinite_budget_charges_infinity_and_is_all_or_nothing(schedule):
    book = ledger(schedule, math.inf, 2)
    assert book.spent().tolist() == [0, 0]
    assert spend(book.budget, 0, 1) == math.inf
    assert book.spent().tolist() == [math.inf, 0]


def test_visits_are_integers_and_are_the_whole_state():
    book = ledger(("uniform", 3), 1.0, 5)
    assert book.visits.dtype.kind == "i"
    assert list(book.state()) == ["visits"]
    spend(book.budget, 1, 3)
    other = ledger(("uniform", 3), 1.0, 5)
    other.restore(book.state())
    assert other.spent().tolist() == book.spent().tolist() == [0, 1 / 3, 1 / 3, 0, 0]


@kernel
def visit_twos(budget, charged):
    """Visit records in pairs until one of a pair is exhausted, and write the ε of each visit."""
    visits = 0
    for first in range(0, budget.visits.size - 1, 2):
        while visits < charged.size and may_visit(budget, first, first + 2):
            charged[visits] = spend(budget, first, first + 2)
            visits += 1
    return visits


@pytest.mark.parametrize("schedule", [("uniform", 3), ("halving",)])
def test_a_kernel_visits_and_charges_as_the_reference_does(schedule):
    book, reference = ledger(schedule, 2.0, 6), naive.Ledger(schedule, 2.0, 6)
    for first in (1, 1, 5):
        spend(book.budget, first, first + 1)
        reference.visit(range(first, first + 1))
    charged, expected = np.zeros(20), []
    visits = visit_twos(book.budget, charged)
    for first in (0, 2, 4):
        while len(expected) < 20 and (charge := reference.visit(range(first, first + 2))) is not None:
            expected.append(float(charge))
    assert charged[:visits].tolist() == pytest.approx(expected, rel=1e-12)
    assert book.visits.tolist() == reference.visits


def test_what_kernels_spend_is_what_the_ledger_shows():
    book = ledger(("uniform", 3), 1.0, 2)
    assert np.shares_memory(book.budget.visits, book.visits)


def test_a_charge_returns_which_records_were_charged_and_stops_at_the_budget():
    book = Ledger(UniformSchedule(kind="uniform", visits=2), 1.0, 4)
    assert book.charge(np.array([0, 1])).tolist() == [True, True]
    assert book.charge(np.array([1, 2])).tolist() == [True, True]
    assert book.charge(np.array([1, 3])).tolist() == [False, True]
    assert book.visits.tolist() == [1, 2, 1, 1]
    assert book.left(np.arange(4)).tolist() == [True, False, True, True]


def test_nobody_is_charged_twice_in_one_call():
    book = Ledger(UniformSchedule(kind="uniform", visits=5), 1.0, 4)
    with pytest.raises(ValueError, match="occurs twice"):
        book.charge(np.array([1, 1]))
    assert not book.visits.any()
