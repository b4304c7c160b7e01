"""Checks of claims: standard deviations over runs, joined logs, the best value along a key, standard errors."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from golfsim.core.errors import UserError
from golfsim.report import checks, reproduce
from golfsim.report.agreement import judge_claim, judge_value, too_few
from golfsim.report.published import Claim, Item, Value


def log(cells, layer="learning", metric="error.mean", **more):
    """A log in which each case has the given values, one per seed."""
    rows = [
        (seed, seed, 10, layer, metric, value, case)
        for case, values in cells.items()
        for seed, value in enumerate(values, start=1)
    ]
    return pd.DataFrame(rows, columns=["run", "seed", "cycle", "layer", "metric", "value", "case"]).assign(**more)


def claim(kind, metric="error", **check):
    return Claim("a claim", {"kind": kind, "layer": "learning", "metric": metric} | check)


def case(name, **more):
    return {"where": {"case": name}} | more


RANDOM = np.random.default_rng(7)
CALM, WILD = RANDOM.normal(0.3, 0.01, 20), RANDOM.normal(0.2, 0.05, 20)


def verdict(frame, asked):
    return judge_claim(frame, asked).verdict


def test_the_spread_over_runs_is_compared_instead_of_the_mean():
    frame = log({"calm": CALM, "wild": WILD})
    sides = {"left": case("calm"), "right": case("wild")}
    assert verdict(frame, claim("below", **sides)) == "differs", "the means"
    assert verdict(frame, claim("below", of="std", **sides)) == "agrees"
    assert verdict(frame, claim("below", of="std", by=0.05, **sides)) == "differs"
    assert verdict(frame, claim("alike", of="std", within=0.01, **sides)) == "differs"
    assert verdict(frame, claim("alike", of="std", within=0.06, **sides)) == "agrees"
    apart = {"left": case("calm", of="std"), "right": case("wild", of="std")}
    assert verdict(frame, claim("below", **apart)) == "agrees", "a side may state it, too"
    with pytest.raises(UserError, match="the same “of”"):
        judge_claim(frame, claim("below", left=case("calm", of="std"), right=case("wild")))


@pytest.mark.parametrize(
    ("kind", "more", "holds"),
    [
        ("rises-with", {"x": "case"}, True),
        ("falls-with", {"x": "case"}, False),
        ("flat-within", {"x": "case", "within": 0.001}, False),
        ("flat-within", {"x": "case", "within": 0.1}, True),
        ("between", {"where": {"case": "noise 10"}, "low": 0.03, "high": 0.08}, True),
        ("between", {"where": {"case": "noise 2"}, "low": 0.03, "high": 0.08}, False),
    ],
)
def test_the_spread_over_runs_is_followed_over_a_key(kind, more, holds):
    frame = log({"noise 10": WILD, "noise 2": CALM})
    assert verdict(frame, claim(kind, of="std", **more)) == ("agrees" if holds else "differs")


def test_one_run_has_no_spread():
    with pytest.raises(UserError, match="at least two runs"):
        judge_claim(log({"a": [0.1]}), claim("between", of="std", low=0))
    with pytest.raises(UserError, match="expected “mean” or “std”"):
        judge_claim(log({"a": [0.1]}), claim("between", of="sdt", low=0))


def test_a_smaller_spread_is_not_said_of_what_may_be_chance():
    """Of 400 pairs of equal spread, about 2.5 % may seem to differ in this direction; 20 or more have P < .003."""
    rng = np.random.default_rng(3)
    claimed = [
        verdict(log(dict(zip("ab", one, strict=True))), claim("below", of="std", left=case("a"), right=case("b")))
        for one in rng.normal(size=(400, 2, 8)) + rng.normal(size=(400, 1, 8))  # seeds that both have in common
    ]
    assert claimed.count("agrees") < 20
    assert claimed.count("cannot be compared") > 100
    assert claimed.count("differs") > 100


def test_the_test_of_two_spreads_is_that_of_pitman_and_morgan():
    rng = np.random.default_rng(5)
    left = rng.normal(size=(30, 12))
    right = 0.5 * left + rng.normal(size=(30, 12))
    for one, other in zip(left, right, strict=True):
        expected = scipy.stats.pearsonr(one + other, one - other).pvalue
        assert checks._ratio_by_chance(one, other) == (expected > 0.05)
    assert checks._ratio_by_chance(np.array([1.0, 2.0]), np.array([1.0, 20.0])), "two runs say nothing"
    assert not checks._ratio_by_chance(np.zeros(5), np.arange(5.0)), "one side does not vary at all"
    assert checks._ratio_by_chance(np.arange(5.0), np.arange(5.0) + 1)


def test_a_metric_that_is_one_number_per_layer_has_no_mean_over_nodes():
    frame = log({"near": CALM, "far": CALM + 1}, metric="consensus")
    assert verdict(frame, claim("below", "consensus", left=case("near"), right=case("far"))) == "agrees"
    assert verdict(frame, claim("below", "consensus", left=case("far"), right=case("near"))) == "differs"


def test_a_side_may_be_a_constant():
    frame = log({"calm": CALM, "wild": WILD})
    assert verdict(frame, claim("below", left=case("calm"), right={"value": 0.35})) == "agrees"
    assert verdict(frame, claim("below", left={"value": 0.35}, right=case("calm"))) == "differs"
    assert (
        verdict(frame, claim("below", left=case("wild"), right={"value": WILD.mean() + 0.01})) == "cannot be compared"
    )
    assert verdict(frame, claim("alike", left=case("calm"), right={"value": 0.3}, within=0.01)) == "agrees"
    assert verdict(frame, claim("below", of="std", left=case("calm"), right={"value": 0.03})) == "agrees"
    assert verdict(frame, claim("below", of="std", left={"value": 0.01}, right=case("wild"))) == "agrees"
    assert (
        verdict(frame, claim("below", of="std", left=case("wild"), right={"value": 1.1 * WILD.std()}))
        == "cannot be compared"
    )
    with pytest.raises(UserError, match="must not be a constant"):
        judge_claim(frame, claim("below", left={"value": 1}, right={"value": 2}))


def test_the_logs_of_several_scenarios_are_joined_and_told_apart():
    more = {"layer": pd.CategoricalDtype(), "metric": pd.CategoricalDtype()}
    parts = {"svm": log({"a": [0.1, 0.11, 0.1]}), "logistic": log({"a": [0.2, 0.22, 0.2]}, metric="loss.mean")}
    parts["logistic"]["metric"] = "error.mean"
    frame = reproduce.joined({name: one.astype(more) for name, one in parts.items()})
    sides = {"left": {"where": {"scenario": "svm"}}, "right": {"where": {"scenario": "logistic"}}}
    assert verdict(frame, claim("below", **sides)) == "agrees"
    assert verdict(frame, claim("below", left=sides["right"], right=sides["left"])) == "differs"


def sets(best):
    """A log of accuracies in which each data set has its best batch; “data” has no batch and is best of all."""
    cells = {
        name: {f"batch {b}": [0.9 - 0.1 * abs(np.log10(b / at)) + 0.001 * s for s in range(4)] for b in (1, 5, 10, 100)}
        for name, at in best.items()
    }
    logs = [log(one | {"data": [1.0] * 4}, metric="accuracy.mean", data=name) for name, one in cells.items()]
    return pd.concat(logs)


GROWS = {"x": "case", "along": "data", "order": ["small", "middle", "large"], "metric": "accuracy"}


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        ({"small": 1, "middle": 5, "large": 100}, "agrees"),
        ({"small": 5, "middle": 5, "large": 10}, "agrees"),
        ({"small": 5, "middle": 1, "large": 10}, "differs"),
        ({"small": 10, "middle": 10, "large": 10}, "differs"),
        ({"small": 100, "middle": 10, "large": 1}, "differs"),
    ],
)
def test_the_best_value_of_one_key_grows_along_another(best, expected):
    judged = judge_claim(sets(best), claim("best-grows", **GROWS))
    assert judged.verdict == expected
    assert judged.sides == (tuple(float(best[name]) for name in GROWS["order"]),)
    assert judged.ours.startswith(f"small: {best['small']}")


def test_the_best_value_does_not_grow_by_chance():
    frame = sets({"small": 1, "middle": 5, "large": 10})
    noisy = (frame["data"] == "large") & (frame["case"] == "batch 10")
    frame.loc[noisy, "value"] += 0.5 * (-1.0) ** frame.loc[noisy, "run"]
    assert verdict(frame, claim("best-grows", **GROWS)) == "cannot be compared"


def test_a_missing_data_set_is_named():
    with pytest.raises(UserError, match="large"):
        judge_claim(sets({"small": 1, "middle": 5}), claim("best-grows", **GROWS))


def test_a_text_has_one_number_at_most():
    assert [checks.number_in(text) for text in ("batch 10", "2^-", "1e-3", "data", 5)] == [10, 2, 0.001, None, 5]
    with pytest.raises(UserError, match="several numbers"):
        checks.number_in("2 of 3")


def test_a_value_whose_standard_error_is_too_large_does_not_agree_by_luck():
    frame = log({"a": [0.1, 0.3, 0.2, 0.15, 0.25]})  # sd .079, standard error .035
    value = Value("learning", "error", 0.2, {"case": "a"})
    assert judge_value(frame, value).verdict == "agrees"
    judged = judge_value(frame, value, standard_error=0.01)
    assert judged.verdict == "cannot be compared"
    assert judged.reason == "the standard error of a mean is 0.035 with 5 runs; about 63 are needed"
    assert judge_value(frame, value, standard_error=0.04).verdict == "agrees"
    assert judge_value(frame, Value("learning", "error", 0.9, {"case": "a"}), 0.01).verdict == "differs"


def test_an_item_states_how_many_runs_a_standard_error_needs():
    cells = {"a": [0.1, 0.3, 0.2, 0.15, 0.25], "b": [0.2, 0.2, 0.21, 0.2, 0.2]}
    claims = (claim("below", left=case("b"), right={"value": 0.3}), claim("below", left=case("a"), right=case("b")))
    item = Item("X1-1", "Table 1", "x", "X1", claims=claims, standard_error=0.01)
    rows = list(reproduce.judged(item, log(cells)))
    assert [row.too_few and row.too_few.needed for row in rows] == [None, 63]
    made = reproduce.Reproduced(item, rows, runs=5)
    assert made.precision == (
        "The standard error is to be at most 0.01. It is larger for 1 of 2 values and claims: about 63 runs are needed."
    )
    assert too_few([np.array([0.1, 0.9])], 0.01) is None, "nothing is known of two runs"
