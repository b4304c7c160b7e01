"""Comparing strategies: the statistics are right by hand, the better one wins, and equal ones do not."""

import csv
import io
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

from golfsim.comparing import comparison as comparing
from golfsim.comparing import publication, verdict
from golfsim.comparing.paired import holm, interval, rank_biserial, runs_needed, student, wilcoxon
from golfsim.comparing.strategies import Curve, area, direction, reach
from golfsim.core.errors import UserError

CYCLES = [1, 10, 100]


def runs(value, seeds=range(1, 9), cycles=CYCLES, layer="learning", metric="accuracy.mean", **point):
    """Rows of runs: the metric is `value` (or value(seed)) at the last cycle and lower by .1 at each one before."""
    rows = []
    for seed, (place, cycle) in itertools.product(seeds, enumerate(cycles)):
        final = value(seed) if callable(value) else value
        run = {"run": seed, "seed": seed, "cycle": cycle, "layer": layer} | point
        rows += [
            run | {"metric": metric, "value": final - 0.1 * (len(cycles) - 1 - place)},
            run | {"metric": "messages.sent", "value": 10.0 * cycle},
            run | {"metric": "bytes.sent", "value": 1000.0 * cycle},
        ]
    return pd.DataFrame(rows)


def log(*parts):
    return pd.concat(parts, ignore_index=True)


def noisy(mean, spread, rng):
    """Values that are the same for the same seed."""
    values = {seed: mean + spread * rng.standard_normal() for seed in range(1, 100)}
    return lambda seed: values[seed]


# --- Statistics, by hand


def by_flipping(d):
    """Wilcoxon's p as it is defined: how many of all ways to give signs are as far out."""
    d = np.array([x for x in d if x != 0])
    size = np.abs(d)
    ranks = np.array([(size < x).sum() + ((size == x).sum() + 1) / 2 for x in size])
    middle = ranks.sum() / 2
    far = abs(ranks[d > 0].sum() - middle)
    sums = [ranks[list(signs)].sum() for signs in itertools.product([False, True], repeat=len(d))]
    return np.mean([abs(s - middle) >= far - 1e-9 for s in sums])


@pytest.mark.parametrize(
    "d",
    [
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        [0.3, -0.1, 0.2, 0.5, -0.4, 0.7, 0.9],
        [0.1, 0.1, 0.2, 0.2, -0.1, 0.3, 0.4, 0.4],  # ties
        [0.0, 0.1, 0.0, -0.2, 0.3, 0.4, 0.5],  # zeros
        [0.0, 0.1, 0.1, -0.1, 0.3, 0.3, 0.5, 0.5, 0.1, 0.1],  # both
    ],
)
def test_wilcoxon_is_exact_with_ties_and_zeros(d):
    assert wilcoxon(np.array(d)) == pytest.approx(by_flipping(d))


def test_differences_that_differ_only_by_rounding_are_ties():
    rounded = np.array([0.1 + 0.2 - 0.3, 0.3 - 0.1, 0.2, 0.4 - 0.2, -0.1])
    assert wilcoxon(rounded) == pytest.approx(by_flipping([0, 0.2, 0.2, 0.2, -0.1]))


def test_many_pairs_with_ties_are_close_to_the_exact_value(rng):
    d = np.round(rng.normal(0.3, 1, 14), 1)
    d[d == 0] = 0.1
    assert len(np.unique(np.abs(d))) < 14
    assert wilcoxon(d) == pytest.approx(by_flipping(d), abs=0.01)


def test_no_difference_at_all_is_no_evidence():
    assert wilcoxon(np.zeros(8)) == 1
    assert rank_biserial(np.zeros(8)) == 0
    assert interval(np.zeros(8)) == (0, 0)


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04 times 4, 3, 2, 1: .02, .03, .06, .04, and never below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1, 1]
    assert holm([]) == []


def test_the_effect_is_the_share_of_ranks_in_favour_minus_that_against():
    assert rank_biserial(np.array([0.1, 0.2, 0.3])) == 1
    assert rank_biserial(np.array([-0.1, -0.2, -0.3])) == -1
    assert rank_biserial(np.array([-0.1, 0.2, 0.3, 0.0])) == pytest.approx((5 - 1) / 6)


def test_the_bootstrap_interval_is_that_of_all_resamples_and_always_the_same():
    d = np.array([0.0, 0.1, 0.4, 0.7])
    means = [np.mean(sample) for sample in itertools.product(d, repeat=4)]
    assert interval(d) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.026)  # means are multiples of .025
    assert interval(d) == interval(d)
    assert interval(d[:1]) is None


def test_students_interval_by_hand_and_none_of_what_is_infinite():
    # 1, 2, 3: standard deviation 1, t(.975, 2) = 4.302653
    assert student(np.array([1.0, 2.0, 3.0])) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5))
    assert student(np.array([1.0])) is None
    assert student(np.array([1.0, math.inf])) is None


def curve(values, cycles=(1, 10, 100)):
    cycles = np.array(cycles, float)
    return Curve(cycles, np.array(values, float), 10 * cycles, 100 * cycles)


def test_the_target_is_reached_between_observations_on_a_line_in_log_cycles():
    assert reach(curve([0.5, 0.7, 0.9]), 0.8, "higher") == pytest.approx((10**1.5, 10**2.5, 10**3.5))
    assert reach(curve([0.5, 0.3, 0.1]), 0.2, "lower") == pytest.approx((10**1.5, 10**2.5, 10**3.5))


def test_the_first_time_counts_and_never_is_infinite():
    assert reach(curve([0.5, 0.9, 0.2]), 0.9, "higher")[0] == pytest.approx(10)
    assert reach(curve([0.95, 0.1, 0.2]), 0.9, "higher")[0] == 1
    assert reach(curve([0.1, 0.2, 0.3]), 0.9, "higher") == (math.inf,) * 3
    assert reach(curve([0.1, 0.2, 0.3]), 0.05, "lower") == (math.inf,) * 3


def test_the_area_is_the_mean_over_log_cycles():
    assert area(curve([0.0, 1.0, 1.0]), 1, 100) == pytest.approx(0.75)
    assert area(curve([0.0, 1.0, 1.0]), 10, 100) == pytest.approx(1)
    assert area(curve([0.0, 1.0, 1.0]), 10**0.5, 10) == pytest.approx(0.75)


# --- Strategies, blocks, pairs


def test_the_better_strategy_wins_and_by_how_much(rng):
    base = noisy(0.8, 0.05, rng)
    found = comparing.compare(
        log(runs(base, case="plain"), runs(lambda s: base(s) + 0.03 + 0.001 * s, case="good")), target=0.8
    )
    assert found.strategies == ("good", "plain")
    (pair,) = found.pairs
    assert (pair.one, pair.other, pair.pairs) == ("good", "plain", 8)
    assert pair.difference == pytest.approx(0.03 + 0.001 * 4.5)
    assert 0.031 < pair.low < pair.difference < pair.high < 0.038
    assert pair.p == pair.p_holm == pytest.approx(2**-7)
    assert pair.effect == 1
    assert "“good” has the best accuracy.mean" in verdict.sentence(found)
    assert "(Holm), statistically significant" in verdict.sentence(found)


def test_pairing_finds_a_difference_that_is_smaller_than_the_spread_over_seeds(rng):
    base = noisy(0.5, 0.2, rng)
    found = comparing.compare(log(runs(base, case="a"), runs(lambda s: base(s) + 0.01, case="b")))
    assert found.strategies[0] == "b"
    assert found.pairs[0].significant
    spans = {final.strategy: (final.low, final.high) for final in found.finals}
    assert spans["b"][0] < spans["a"][1]  # their own intervals overlap


def test_lower_is_better_for_errors_and_the_other_way_round():
    rows = [runs(0.1, metric="error.mean", case="few"), runs(0.3, metric="error.mean", case="many")]
    assert comparing.compare(log(*rows), metric="error").strategies == ("few", "many")
    assert comparing.compare(log(*rows), metric="error", better="higher").strategies == ("many", "few")
    assert [direction(m) for m in ("voted_error.mean", "bytes.sent", "auc.mean")] == ["lower", "lower", "higher"]
    with pytest.raises(UserError, match="it is unknown whether") as caught:
        direction("walkers")
    assert "--better" in caught.value.hint


def test_equal_strategies_have_no_winner_in_nineteen_of_twenty_families(rng):
    families = 200  # of 12 comparisons of 10 pairs each; Wilcoxon's discrete p stays below its level
    wrong = sum(min(holm([wilcoxon(rng.standard_normal(10)) for _ in range(12)])) < 0.05 for _ in range(families))
    assert wrong / families <= 0.05 + 3 * (0.05 * 0.95 / families) ** 0.5


def test_equal_strategies_are_said_to_be_equal():
    found = comparing.compare(log(runs(0.8, case="a"), runs(0.8, case="b")))
    assert found.pairs[0].p_holm == 1
    assert found.pairs[0].zeros == 8
    assert "share the first rank" in verdict.sentence(found)


def test_data_sets_are_blocks_and_ranks_go_over_them(rng):
    wins = {"good": (0.9, 0.8, 0.7, 0.5), "fair": (0.8, 0.7, 0.6, 0.6), "poor": (0.7, 0.6, 0.5, 0.4)}
    parts = [
        runs(noisy(value, 1e-3, rng), case=case, **{"data.set": data})
        for case, values in wins.items()
        for data, value in zip("wxyz", values, strict=True)
    ]
    found = comparing.compare(log(*parts))
    assert found.blocks == ("w", "x", "y", "z")
    assert [(rank.strategy, rank.mean, rank.best) for rank in found.ranks] == [
        ("good", 1.25, 3), ("fair", 1.75, 1), ("poor", 3.0, 0),
    ]  # fmt: skip
    # Friedman by hand: 12 / (4·3·4) Σ R² − 3·4·4 with R = 5, 7, 12 gives 6.5; χ² with two degrees: e^(−6.5/2)
    assert found.friedman == pytest.approx(math.exp(-6.5 / 2))
    assert len(found.pairs) == 12
    assert len(found.overall) == 3
    over = {(pair.one, pair.other): pair.difference for pair in found.overall}
    assert over["good", "poor"] == pytest.approx(0.175, abs=2e-3)
    assert "best in 3 of 4 data sets" in verdict.sentence(found)


def test_holm_counts_all_pairs_and_blocks(rng):
    parts = [
        runs(noisy(value, 1e-3, rng), case=case, **{"data.set": data})
        for case, value in {"a": 0.9, "b": 0.8, "c": 0.7}.items()
        for data in "xy"
    ]
    found = comparing.compare(log(*parts))
    assert [pair.p for pair in found.pairs] == pytest.approx([2**-7] * 6)
    assert [pair.p_holm for pair in found.pairs] == pytest.approx([6 * 2**-7] * 6)


def test_too_few_pairs_are_said_to_be_too_few():
    few = [runs(lambda s: 0.8 + s / 100, range(1, 6), case="a"), runs(lambda s: 0.5 + s / 50, range(1, 6), case="b")]
    found = comparing.compare(log(*few))
    assert found.pairs[0].p == 2**-4  # as far out as five pairs can be
    assert found.pairs[0].low is not None
    assert "too few for a statistical test" in verdict.sentence(found)
    assert "cannot fall below 0.05" in " ".join(verdict.notes(found))


def test_too_many_comparisons_for_the_runs_are_reported():
    parts = [
        runs(lambda s, v=v, d=data: v + s / 1000 * v + ord(d) / 1000, range(1, 8), case=case, **{"data.set": data})
        for case, v in {"a": 0.9, "b": 0.8, "c": 0.7}.items()
        for data in "xy"
    ]
    assert "no corrected p by block can fall below 0.094" in " ".join(verdict.notes(comparing.compare(log(*parts))))


def test_seeds_that_have_no_counterpart_are_named_and_left_out():
    found = comparing.compare(log(runs(0.9, range(1, 10), case="a"), runs(lambda s: s / 20, range(3, 13), case="b")))
    assert found.pairs[0].pairs == 7
    assert found.pairs[0].difference == pytest.approx(0.9 - np.mean(range(3, 10)) / 20)
    assert "“a” lacks seeds 10, 11, 12" in found.missing
    assert "“b” lacks seeds 1, 2" in found.missing
    assert "Left out: “b” lacks seeds 1, 2." in verdict.notes(found)


def test_a_block_that_one_strategy_lacks_is_named():
    x, y = {"data.set": "x"}, {"data.set": "y"}
    found = comparing.compare(log(runs(0.9, case="a", **x), runs(0.8, case="b", **x), runs(0.8, case="a", **y)))
    assert found.blocks == ("x",)
    assert found.missing == ("no runs of “b” at y",)


def test_what_has_nothing_in_common_is_not_compared():
    parts = [runs(0.9, case="a", **{"data.set": "x"}), runs(0.8, case="b", **{"data.set": "y"})]
    with pytest.raises(UserError, match="nothing in common: “a” has x; “b” has y"):
        comparing.compare(log(*parts))
    with pytest.raises(UserError, match="no two strategies have a run with the same seed"):
        comparing.compare(log(runs(0.9, range(1, 5), case="a"), runs(0.9, range(5, 9), case="b")))


def test_layers_of_strategies_may_have_different_names():
    found = comparing.compare(log(runs(0.9, case="a", layer="Golf"), runs(0.8, case="b", layer="walk")))
    assert found.blocks == ("",)
    assert len(found.pairs) == 1


def test_layers_are_strategies_where_nothing_else_varies_and_blocks_where_all_have_several():
    both = [runs(0.9, layer="Golf"), runs(0.8, layer="walk")]
    assert comparing.compare(log(*both)).strategies == ("Golf", "walk")
    cases = [part.assign(case=case) for case in "ab" for part in both]
    assert comparing.compare(log(*cases)).blocks == ("Golf", "walk")
    assert comparing.compare(log(*cases), layer="walk").blocks == ("",)


def test_a_run_that_has_one_layer_each_way_needs_no_block_for_it():
    parts = [
        runs(0.9 - ord(c) / 1000, results=r, case=c, layer=layer)
        for r in "ab"
        for c, layer in (("x", "Golf"), ("y", "walk"))
    ]
    assert comparing.compare(log(*parts), by="results").blocks == ("x", "y")


def test_infinite_values_are_left_out():
    rows = log(runs(0.9, case="a"), runs(0.8, case="b"))
    rows.loc[(rows["cycle"] == 100) & (rows["metric"] == "accuracy.mean") & (rows["case"] == "a"), "value"] = math.inf
    assert comparing.compare(rows).pairs[0].difference == pytest.approx(0.0)  # .8 at cycle 10


def test_keys_that_vary_together_count_once():
    parts = [
        runs(v, **{"a.learner": w, "b.learner": w, "data.set": d})
        for w, v in {"x": 0.9, "y": 0.8}.items()
        for d in "mn"
    ]
    found = comparing.compare(log(*parts))
    assert found.by == "a.learner"
    assert found.strategies == ("a.learner = x", "a.learner = y")
    assert found.block_keys == ("data.set",)


def test_the_key_of_strategies_must_be_stated_if_several_keys_vary():
    parts = [
        runs(0.9 / (1 + 1 / epsilon), view=view, epsilon=epsilon) for view in (1, 2) for epsilon in (0.5, math.inf)
    ]
    with pytest.raises(UserError, match="several keys vary") as caught:
        comparing.compare(log(*parts))
    assert caught.value.hint == "choose one: --by view or --by epsilon"
    assert comparing.compare(log(*parts), by="view").blocks == ("ε = 0.5", "ε = ∞")
    with pytest.raises(UserError, match="the results have no key “vew”") as caught:
        comparing.compare(log(*parts), by="vew")
    assert caught.value.hint == "did you mean “view”?"


def test_one_strategy_alone_is_not_compared():
    with pytest.raises(UserError, match="only one strategy"):
        comparing.compare(runs(0.9))
    with pytest.raises(UserError, match="no layer has the metric “acuracy”") as caught:
        comparing.compare(runs(0.9), metric="acuracy")
    assert caught.value.hint == "did you mean “accuracy”?"


def test_a_median_run_that_never_reaches_the_target_is_reported_as_never():
    found = comparing.compare(
        log(runs(lambda s: 0.95 if s < 4 else 0.5, case="a"), runs(lambda s: 0.95 if s < 7 else 0.5, case="b")),
        target=0.9,
    )
    costs = {cost.strategy: cost for cost in found.costs}
    assert (costs["a"].reached, costs["a"].cycles) == (3, None)
    assert (costs["b"].reached, costs["b"].cycles) == (6, pytest.approx(10**1.5))
    assert costs["b"].messages == pytest.approx(10**2.5)
    (table,) = [table for table in verdict.tables(found) if table.title.startswith("To reach")]
    assert ("a", "3 of 8", "never", "never", "never") in table.rows


def test_one_strategy_alone_has_a_cost():
    (cost,) = comparing.costs(runs(0.9), 0.8)
    assert (cost.strategy, cost.reached, cost.cycles) == ("learning", 8, pytest.approx(10))
    assert (cost.messages, cost.bytes) == (pytest.approx(100), pytest.approx(10_000))
    (table,) = [verdict.cost_table([cost], "accuracy", 0.8)]
    assert table.rows == (("learning", "8 of 8", "10.0", "100", "10\N{NO-BREAK SPACE}000"),)


def test_json_has_neither_nan_nor_infinity():
    found = comparing.compare(log(runs(0.9, [1], case="a"), runs(0.8, [1], case="b")), target=0.99)
    text = json.dumps(found.as_dict(), allow_nan=False)
    assert json.loads(text)["pairs"][0]["low"] is None


# --- Strategies of different kinds


def test_only_the_judged_layer_of_a_case_is_compared():
    parts = [
        runs(0.7, case="groups", layer="local", judged="group"),
        runs(0.9, case="groups", layer="group", judged="group"),
        runs(0.8, case="gossip", layer="golf", judged="golf"),
    ]
    found = comparing.compare(log(*parts))
    assert found.blocks == ("",)
    assert found.pairs[0].difference == pytest.approx(0.1)
    assert comparing.compare(log(*parts), layer=["local", "golf"]).pairs[0].difference == pytest.approx(0.1)
    assert comparing.compare(log(*parts), layer=["local", "golf"]).strategies == ("gossip", "groups")


def test_layers_that_no_case_judges_stay_if_the_judged_layer_lacks_the_metric():
    parts = [
        runs(0.5, case="a", layer="published", judged="golf", metric="spent.max"),
        runs(0.4, case="b", layer="published", judged="golf", metric="spent.max"),
    ]
    assert comparing.compare(log(*parts), metric="spent.max").strategies == ("b", "a")


def test_a_strategy_that_is_left_out_is_reported_at_the_top(capsys):
    x, y = {"data.set": "x"}, {"data.set": "y"}
    parts = [runs(0.9, case="a", **x), runs(0.8, case="b", **x), runs(0.7, case="c", **y)]
    found = comparing.compare(log(*parts))
    assert found.left_out == ("“c” has y, and the other strategies have x",)
    lines = [str(part) for part in verdict.rendered(found)]
    assert lines[1] == "Not compared: “c” has y, and the other strategies have x."


def test_folders_with_different_keys_are_compared_at_equal_values():
    parts = [runs(0.9 + e / 100, results="a", **{"published.epsilon": e}) for e in (1, 2)]
    parts += [runs(0.8 + e / 100, results="b", **{"learning.epsilon": e}) for e in (1, 2)]
    found = comparing.compare(log(*parts))
    assert found.blocks == ("ε = 1", "ε = 2")
    assert {pair.block: round(pair.difference, 9) for pair in found.pairs} == {"ε = 1": 0.1, "ε = 2": 0.1}


def test_a_strategy_without_a_key_is_in_all_blocks_of_that_key():
    parts = [runs(0.7 + e / 100, results="a", **{"published.epsilon": e}) for e in (1, 2)]
    found = comparing.compare(log(*parts, runs(0.9, results="plain")), baseline="plain")
    assert found.blocks == ("published.epsilon = 1", "published.epsilon = 2")
    assert [round(pair.difference, 9) for pair in found.pairs] == [-0.19, -0.18]


def test_a_strategy_on_other_data_is_never_in_their_blocks():
    parts = [runs(0.7, results="a", **{"data.set": "x"}), runs(0.9, results="b", **{"data.file": "y.csv"})]
    with pytest.raises(UserError, match="nothing in common"):
        comparing.compare(log(*parts))


def test_only_pairs_with_the_baseline_are_tested_and_counted():
    parts = [runs(lambda s, v=v: v + s * v / 1000, case=c) for c, v in {"a": 0.9, "b": 0.8, "plain": 0.95}.items()]
    found = comparing.compare(log(*parts), baseline="plain")
    assert [(pair.one, pair.other) for pair in found.pairs] == [("a", "plain"), ("b", "plain")]
    assert found.pairs[0].p_holm == pytest.approx(2 * 2 ** (1 - 8))
    assert [rank.strategy for rank in found.ranks] == ["a", "b"]
    assert verdict.sentence(found).startswith("“a” has the best accuracy.mean of 2 strategies. Its difference to the")
    with pytest.raises(UserError, match="no strategy “plian”"):
        comparing.compare(log(*parts), baseline="plian")


def test_equal_blocks_count_once():
    parts = [runs(v, case=c, view=view) for c, v in {"a": 0.9, "b": 0.8}.items() for view in (1, 2)]
    found = comparing.compare(log(*parts))
    assert found.blocks == ("view = 1",)
    assert found.overall == ()
    assert found.missing == ("“view = 2” has the same runs as “view = 1” and counts once",)


def test_labels_take_the_place_of_the_names_of_layers():
    parts = [runs(0.9, layer="golf", label="Golf, merged"), runs(0.8, layer="walk", label=None)]
    assert comparing.compare(log(*parts)).strategies == ("Golf, merged", "walk")


@pytest.mark.parametrize("comparisons", [1, 2, 3, 6, 12, 100])
def test_the_runs_needed_are_the_fewest_whose_smallest_corrected_p_is_significant(comparisons):
    needed = runs_needed(comparisons)
    for pairs in (needed - 1, needed):
        smallest = wilcoxon(np.arange(1.0, pairs + 1))
        assert (holm([smallest] * comparisons)[0] < 0.05) == (pairs == needed)


# --- For papers and spreadsheets


def test_csv_has_one_line_per_block_and_strategy_with_its_difference_to_the_reference():
    parts = [
        runs(lambda s, v=v, d=d: v + s * v / 1000 - d / 100, case=c, view=d)
        for c, v in {"a": 0.9, "b, c": 0.8}.items()
        for d in (1, 2)
    ]
    found = comparing.compare(log(*parts))
    rows = list(csv.DictReader(io.StringIO(publication.as_csv(found))))
    assert [(row["block"], row["strategy"]) for row in rows] == [
        (f"view = {d}", c) for d in (1, 2) for c in ("a", "b, c")
    ]
    pair = found.pairs[0]
    assert {row["reference"] for row in rows} == {"a"}
    assert float(rows[1]["difference"]) == -pair.difference
    assert (float(rows[1]["difference_low"]), float(rows[1]["difference_high"])) == (-pair.high, -pair.low)
    assert float(rows[1]["p_holm"]) == pair.p_holm
    assert rows[0]["difference"] == ""


def test_latex_marks_the_best_and_the_significant_and_escapes():
    parts = [
        runs(lambda s, v=v: v + s * v / 1000, case=c) for c, v in {"50 % & more_a": 0.9, "ε": 0.8, "p": 0.95}.items()
    ]
    text = publication.as_latex(comparing.compare(log(*parts), baseline="p"))
    assert r"50 \% \& more\_a & \textbf{0.9041} $\pm$" in text
    assert r"$\varepsilon$ & 0.8036 $\pm$" in text
    assert text.count(r"$^{*}$") == 2
    assert text.index(r"$\varepsilon$ &") < text.rindex(r"\midrule") < text.index("p & 0.9543")
