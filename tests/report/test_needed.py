"""The ε that a strategy needs for a share of the accuracy of a reference."""

import math

import pandas as pd
import pytest

from golfsim.core.errors import UserError
from golfsim.report.needed import needed

NO = math.nan


def log(rows, **more):
    """The last rows of runs: (case, ε, values of the runs)."""
    found = [
        {"case": case, "epsilon": epsilon, "run": run, "value": value}
        for case, epsilon, values in rows
        for run, value in enumerate(values, 1)
    ]
    return pd.DataFrame(found).assign(cycle=9, layer="learning", metric="accuracy.mean", **more)


EXACT = ("exact", NO, [0.9, 1.0, 1.1])


def test_epsilon_is_interpolated_over_its_logarithm():
    found = needed(log([EXACT, ("noisy", 1.0, [0.7]), ("noisy", 100.0, [1.1])]), "exact", 0.9)
    assert found.loc[0, ["strategy", "wanted", "epsilon", "measured"]].tolist() == [
        "noisy",
        0.9,
        pytest.approx(10),
        True,
    ]


def test_an_accuracy_that_falls_again_counts_from_where_it_stays():
    rows = [("noisy", 1.0, [0.95]), ("noisy", 10.0, [0.8]), ("noisy", 100.0, [0.9]), ("noisy", 1000.0, [0.95])]
    assert needed(log([EXACT, *rows]), "exact", 0.9)["epsilon"].tolist() == [pytest.approx(100)]


def test_the_smallest_epsilon_is_a_bound_and_an_accuracy_that_is_never_reached_needs_infinity():
    rows = [("good", 1.0, [0.95]), ("good", 10.0, [1.0]), ("bad", 1.0, [0.1]), ("bad", 10.0, [0.2])]
    found = needed(log([EXACT, *rows]), "exact").set_index("strategy")
    assert found.loc["good", ["epsilon", "measured"]].tolist() == [1, False]
    assert found.loc["bad", "epsilon"] == math.inf
    only_without_noise = [("noisy", 1.0, [0.1]), ("noisy", math.inf, [1.0])]
    assert needed(log([EXACT, *only_without_noise]), "exact")["epsilon"].tolist() == [math.inf]


def test_each_data_set_has_a_row_and_its_own_reference():
    parts = [
        log([("exact", NO, [a]), ("noisy", 1.0, [0.1]), ("noisy", 10.0, [0.9])], set=s) for s, a in (("x", 1), ("y", 2))
    ]
    frame = pd.concat(parts).rename(columns={"set": "data.set"})
    found = needed(frame, "exact", 0.9)
    assert found["panel"].tolist() == ["x", "y"]
    assert found["wanted"].tolist() == [0.9, 1.8]
    assert found["epsilon"].tolist() == [pytest.approx(10), math.inf]


def test_a_strategy_that_does_not_depend_on_epsilon_needs_none():
    level = [("level", epsilon, [0.95, 0.9, 1.0]) for epsilon in (1.0, 10.0)]
    found = needed(log([EXACT, *level, ("noisy", 1.0, [0.1]), ("noisy", 10.0, [1.0])]), "exact")
    assert found["strategy"].tolist() == ["noisy"]


def test_an_unknown_reference_is_refused():
    with pytest.raises(UserError, match="no strategy is called “exakt”"):
        needed(log([EXACT, ("noisy", 1.0, [0.7])]), "exakt")
