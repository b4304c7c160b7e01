"""Published values and claims held against a log."""

import math

import pandas as pd
import pytest

from golfsim.errors import UserError
from golfsim.report import published
from golfsim.report.published import Claim, Value, chosen, judge_claim, judge_value


def frame(error, runs=4, spread=0.0, cycles=(1, 10)):
    """A log of a sweep over ε; `error` gives the last value for each ε, earlier cycles are worse by 1."""
    rows = [
        (run, run, cycle, "learning", "error.mean", value + (cycle != cycles[-1]) + spread * (-1) ** run, eps)
        for eps, value in error.items()
        for run in range(1, runs + 1)
        for cycle in cycles
    ]
    return pd.DataFrame(rows, columns=["run", "seed", "cycle", "layer", "metric", "value", "epsilon"])


def value(number, **more):
    return Value("learning", "error.mean", number, **({"where": {"epsilon": 1.0}} | more))


def test_a_value_is_the_mean_of_the_last_cycle_at_its_point():
    log = frame({1.0: 0.2, 5.0: 0.1}, spread=0.03)
    judged = judge_value(log, value(0.2))
    assert judged.ours.startswith("0.2000 ± ")
    assert judged.verdict == "agrees"
    assert judge_value(log, value(1.2, cycle=1)).verdict == "agrees"


@pytest.mark.parametrize(
    ("number", "more", "verdict"),
    [
        (0.2, {}, "agrees"),
        (0.2099, {}, "agrees"),
        (0.215, {}, "differs"),
        (0.215, {"std": 0.05}, "agrees"),  # within two standard errors of ten published runs
        (0.25, {"std": 0.05}, "differs"),
        (0.25, {"close": 0.06}, "agrees"),
        (0.9, {"comparable": False, "reason": "λ is not stated"}, "cannot be compared"),
    ],
)
def test_a_value_agrees_when_it_is_close_or_within_the_spread(number, more, verdict):
    assert judge_value(frame({1.0: 0.2}), value(number, **more)).verdict == verdict


def test_our_own_spread_counts_as_well():
    assert judge_value(frame({1.0: 0.2}, runs=4, spread=0.04), value(0.22)).verdict == "agrees"
    assert judge_value(frame({1.0: 0.2}, runs=100, spread=0.04), value(0.22)).verdict == "differs"


def test_a_reason_is_given_only_where_it_is_needed():
    reasons = [judge_value(frame({1.0: 0.2}), value(n, reason="a corrected formula")).reason for n in (0.2, 0.3)]
    assert reasons == ["", "a corrected formula"]


def claim(kind, **check):
    return Claim("a claim", {"kind": kind, "layer": "learning", "metric": "error.mean"} | check)


FALLING = {1.0: 0.4, 5.0: 0.3, 50.0: 0.1, math.inf: 0.05}
UNEVEN = {1.0: 0.4, 5.0: 0.45, 50.0: 0.1}


@pytest.mark.parametrize(
    ("error", "asked", "holds"),
    [
        (FALLING, claim("falls", along="epsilon"), True),
        (UNEVEN, claim("falls", along="epsilon"), False),
        (UNEVEN, claim("falls", along="epsilon", slack=0.06), True),
        (FALLING, claim("rises", along="epsilon"), False),
        (FALLING, claim("flat", along="epsilon", within=0.36), True),
        (FALLING, claim("flat", along="epsilon", within=0.34), False),
        (FALLING, claim("between", where={"epsilon": 5.0}, low=0.29, high=0.31), True),
        (FALLING, claim("between", where={"epsilon": 5.0}, high=0.2), False),
        (UNEVEN, claim("best", along="epsilon", at=[50.0]), True),
        (UNEVEN, claim("best", along="epsilon", at=[50.0], largest=True), False),
    ],
)
def test_a_claim_holds_or_not(error, asked, holds):
    judged = judge_claim(frame(error), asked)
    assert judged.verdict == ("agrees" if holds else "differs")
    assert judged.ours


def test_two_sides_are_compared():
    sides = [{"where": {"epsilon": e}, "layer": "learning", "metric": "error.mean"} for e in (50.0, 1.0)]
    for this, that, verdict in ((*sides, "agrees"), (*sides[::-1], "differs")):
        asked = Claim("smaller", {"kind": "less", "this": this, "that": that})
        assert judge_claim(frame(FALLING), asked).verdict == verdict


def test_what_a_log_does_not_have_is_told():
    with pytest.raises(UserError, match="has no “epsilo”"):
        judge_value(frame(FALLING), value(0.1, where={"epsilo": 1.0}))
    with pytest.raises(UserError, match="nothing of “learning”"):
        judge_value(frame(FALLING), value(0.1, where={"epsilon": 2.0}))
    with pytest.raises(UserError, match="there is no check “fals”"):
        judge_claim(frame(FALLING), claim("fals", along="epsilon"))


def test_a_claim_without_a_check_cannot_be_compared():
    assert judge_claim(frame(FALLING), Claim("it looks nice")).verdict == "cannot be compared"


PUBLISHED = """
[source]
id = "X1"
title = "A paper"
authors = "Somebody"
year = 2001

[[item]]
id = "X1-1"
what = "Table 1"
scenario = "x.toml"
quick = ["runs=1"]

[[item.value]]
layer = "learning"
metric = "error.mean"
published = 0.1

[[item.claim]]
text = "it falls"

[[item]]
id = "X1-2"
what = "Figure 1"
scenario = "y.toml"
"""


def test_files_are_read_and_chosen_from(tmp_path, monkeypatch):
    (tmp_path / "published").mkdir()
    (tmp_path / "published/x1.toml").write_text(PUBLISHED)
    monkeypatch.setattr(published, "shipped", lambda name: tmp_path)
    assert [item.id for item in chosen([])] == ["X1-1", "X1-2"]
    assert [item.id for item in chosen(["X1"])] == ["X1-1", "X1-2"]
    (item,) = chosen(["X1-1"])
    assert item.values[0].published == 0.1
    assert item.claims[0].text == "it falls"
    assert item.quick == ("runs=1",)
    with pytest.raises(UserError, match="nothing is published under “X2”"):
        chosen(["X2"])
