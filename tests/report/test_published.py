"""Published values and claims held against a log."""

import math
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from golfsim.core.errors import UserError
from golfsim.data import fetch
from golfsim.report import published, reproduce, side_by_side, small_plots, verdicts
from golfsim.report.agreement import judge_claim, judge_value, margin
from golfsim.report.published import Claim, Item, Value, chosen
from golfsim.report.sections import Promise
from golfsim.runs import batch
from golfsim.runs.interrupt import Interrupt


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
        (0.215, {"std": 0.03}, "agrees"),  # within the 95 % interval of ten published runs
        (0.25, {"std": 0.05}, "differs"),
        (0.25, {"close": 0.06}, "agrees"),
        (0.9, {"comparable": False, "reason": "λ is not stated"}, "cannot be compared"),
    ],
)
def test_a_value_agrees_when_it_is_close_or_within_the_spread(number, more, verdict):
    assert judge_value(frame({1.0: 0.2}), value(number, **more)).verdict == verdict


def test_our_own_spread_counts_as_well():
    many = {"runs": 1000}  # of the source
    assert judge_value(frame({1.0: 0.2}, runs=4, spread=0.015), value(0.215, **many)).verdict == "agrees"
    assert judge_value(frame({1.0: 0.2}, runs=100, spread=0.015), value(0.215, **many)).verdict == "differs"


def test_a_source_that_gives_no_spread_is_taken_to_vary_as_we_do():
    log = frame({1.0: 0.2}, runs=1000, spread=0.04)
    verdicts = [judge_value(log, value(0.22, runs=runs)).verdict for runs in (8, 10, 20)]
    assert verdicts == ["agrees", "agrees", "differs"]  # 1.96 · .04 / √runs is .028, .025, .0175
    assert judge_value(log, value(0.22, runs=10, std=0.01)).verdict == "differs"


def test_where_chance_may_do_nearly_anything_nothing_is_said():
    judged = judge_value(frame({1.0: 0.2}, runs=4, spread=0.08), value(0.25))
    assert judged.verdict == "cannot be compared"
    assert judged.reason == "the runs vary too much: the statistical error is ± 0.17"
    assert judge_value(frame({1.0: 0.2}, runs=4, spread=0.08), value(0.205)).verdict == "agrees"


def test_two_runs_have_no_spread():
    assert judge_value(frame({1.0: 0.2}, runs=2, spread=0.04), value(0.22)).verdict == "differs"


def test_the_margin_is_that_of_welchs_test():
    ours, theirs = np.random.default_rng(1).normal(0, [[1.0], [3.0]], (2, 12))
    sizes = value(0.0, std=theirs.std(ddof=1), runs=12)
    interval = scipy.stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert margin(ours, sizes) == pytest.approx((interval.high - interval.low) / 2)


def test_a_reason_is_given_only_where_it_is_needed():
    reasons = [judge_value(frame({1.0: 0.2}), value(n, reason="a corrected formula")).reason for n in (0.2, 0.3)]
    assert reasons == ["", "a corrected formula"]
    assert judge_value(frame({1.0: 0.2}), value(0.3)).reason == "not explained"


def claim(kind, **check):
    return Claim("a claim", {"kind": kind, "layer": "learning", "metric": "error.mean"} | check)


FALLING = {1.0: 0.4, 5.0: 0.3, 50.0: 0.1, math.inf: 0.05}
UNEVEN = {1.0: 0.4, 5.0: 0.45, 50.0: 0.1}


@pytest.mark.parametrize(
    ("error", "asked", "holds"),
    [
        (FALLING, claim("falls-with", x="epsilon"), True),
        (FALLING, claim("falls-with", x="epsilon", by=0.34), True),
        (FALLING, claim("falls-with", x="epsilon", by=0.36), False),
        (UNEVEN, claim("falls-with", x="epsilon"), False),
        (UNEVEN, claim("falls-with", x="epsilon", slack=0.06), True),
        ({1.0: 0.2, 5.0: 0.2}, claim("falls-with", x="epsilon"), False),
        (FALLING, claim("rises-with", x="epsilon"), False),
        ({1.0: 0.2, 5.0: 0.3}, claim("rises-with", x="epsilon", by=0.09), True),
        (FALLING, claim("flat-within", x="epsilon", within=0.36), True),
        (FALLING, claim("flat-within", x="epsilon", within=0.34), False),
        (FALLING, claim("flat-within", x="epsilon", within=0.11, low=1, high=5), True),
        (FALLING, claim("between", where={"epsilon": 5.0}, low=0.29, high=0.31), True),
        (FALLING, claim("between", where={"epsilon": 5.0}, high=0.2), False),
        (UNEVEN, claim("best-at", x="epsilon", low=10, high=100), True),
        (UNEVEN, claim("best-at", x="epsilon", high=10), False),
    ],
)
def test_a_claim_holds_or_not(error, asked, holds):
    judged = judge_claim(frame(error), asked)
    assert judged.verdict == ("agrees" if holds else "differs")
    assert judged.ours


def at(epsilon):
    return {"where": {"epsilon": epsilon}}


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (claim("below", left=at(50.0), right=at(1.0)), "agrees"),
        (claim("below", left=at(50.0), right=at(1.0), by=0.31), "differs"),
        (claim("below", left=at(1.0), right=at(50.0)), "differs"),
        (claim("alike", left=at(1.0), right=at(5.0), within=0.11), "agrees"),
        (claim("alike", left=at(1.0), right=at(5.0), within=0.09), "differs"),
    ],
)
def test_two_sides_are_compared(asked, verdict):
    assert judge_claim(frame(FALLING), asked).verdict == verdict


def test_two_sides_are_compared_along_a_key():
    log = pd.concat([frame(FALLING).assign(case="a"), frame({e: v + 0.1 for e, v in FALLING.items()}).assign(case="b")])
    sides = {"left": {"where": {"case": "a"}}, "right": {"where": {"case": "b"}}, "along": "epsilon"}
    assert judge_claim(log, claim("below", by=0.09, **sides)).verdict == "agrees"
    log.loc[(log["case"] == "b") & (log["epsilon"] == 5.0), "value"] -= 0.2
    assert judge_claim(log, claim("below", by=0.09, **sides)).verdict == "differs"


def test_below_is_not_said_of_what_may_be_chance():
    apart = {"left": at(5.0), "right": at(1.0)}
    log = frame({1.0: 0.2, 5.0: 0.19}, runs=10)
    noise = 0.03 * (-1.0) ** log["run"]
    log["value"] += noise.where(log["epsilon"] == 5.0, 0)
    assert judge_claim(log, claim("below", **apart)).verdict == "cannot be compared"
    assert judge_claim(log, claim("below", by=-0.01, **apart)).verdict == "agrees"
    assert judge_claim(log, claim("below", left=at(1.0), right=at(5.0))).verdict == "differs"
    log["value"] += noise.where(log["epsilon"] == 1.0, 0)  # the same in both: by seed they always differ by .01
    assert judge_claim(log, claim("below", **apart)).verdict == "agrees"


def test_a_metric_without_a_point_is_the_mean_over_nodes():
    assert judge_value(frame({1.0: 0.2}), Value("learning", "error", 0.2)).verdict == "agrees"


def test_what_a_log_does_not_have_is_reported():
    with pytest.raises(UserError, match="has no “epsilo”"):
        judge_value(frame(FALLING), value(0.1, where={"epsilo": 1.0}))
    with pytest.raises(UserError, match="layer “learning” has no metric"):
        judge_value(frame(FALLING), value(0.1, where={"epsilon": 2.0}))
    with pytest.raises(UserError, match="unknown check “fals”"):
        judge_claim(frame(FALLING), claim("fals", x="epsilon"))


def test_a_claim_without_a_check_cannot_be_compared():
    assert judge_claim(frame(FALLING), Claim("it looks nice")).verdict == "cannot be compared"


PUBLISHED = """
[source]
id = "X1"
title = "A paper"
authors = ["Somebody"]
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
    with pytest.raises(UserError, match="no source or item is called “X2”"):
        chosen(["X2"])


def test_a_page_compares_published_and_new_values_and_escapes_them():
    item = Item("X1-1", "Table <b>1</b>", "x.toml", "X1")
    rows = [judge_value(frame({1.0: 0.2}), value(n, reason="<script>")) for n in (0.2, 0.5)]
    page = verdicts.html([reproduce.Reproduced(item, rows), reproduce.Reproduced(item, [])], quick=True)
    assert "Table &lt;b&gt;1&lt;/b&gt;" in page
    assert "&lt;script&gt;" in page
    (script,) = re.findall("<script>", page)
    assert page.index(script) > page.index("</main>"), "ours"
    assert "Of their values and claims, 1 agrees, 1 differs." in page
    assert "This is the quick version" in page


def test_a_page_names_the_papers_with_their_references():
    (item,) = chosen(["V20-T2"])
    page = verdicts.html([reproduce.Reproduced(item, [])], quick=False)
    assert page.count("D. Veldhuizen (2020): Handling privacy preservation for binary classification data.") == 2
    papers = published.sources()
    assert papers["H17"].reference.startswith("István Hegedűs and Márk Jelasity (2017): Differentially Private")
    assert "Cyphers" not in page, "only the papers of the page"


def test_a_value_is_a_small_plot_of_the_published_and_the_new_number():
    row = judge_value(frame({1.0: 0.2}), value(0.5, std=0.1))
    assert (row.mark.published, row.mark.published_error) == (0.5, 0.1)
    assert row.mark.new == pytest.approx(0.2, abs=0.01)
    drawn = small_plots.marks(row.mark, 0.0, 1.0, "<b>")
    x = float(re.search(r'<circle cx="([\d.]+)"', drawn)[1])
    diamond = float(re.search(r'<polygon points="([\d.]+),', drawn)[1])
    inside = small_plots.WIDTH - 2 * small_plots.EDGE
    assert [(x - small_plots.EDGE) / inside, (diamond - small_plots.EDGE) / inside] == pytest.approx(
        [row.mark.new, 0.5], abs=0.01
    )
    assert "<b>" not in drawn
    assert "&lt;b&gt;" in drawn


def test_a_claim_is_a_small_plot_in_place_of_a_string_of_numbers():
    claim = published.Claim("it falls", {"kind": "falls-with", "layer": "learning", "metric": "error", "x": "epsilon"})
    row = judge_claim(frame({1.0: 0.3, 2.0: 0.2, 4.0: 0.1}), claim)
    assert row.sides == (pytest.approx((0.3, 0.2, 0.1), abs=0.02),)
    drawn = small_plots.curves(row.sides, row.ours)
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', drawn)]
    assert heights == sorted(heights), "downwards"
    assert len(heights) == 3
    item = Item("X1-1", "Table 1", "x.toml", "X1")
    page = verdicts.html([reproduce.Reproduced(item, [row])], quick=False)
    assert drawn in page
    assert f"<td>{row.ours}</td>" not in page


def test_published_values_over_a_key_are_a_curve_next_to_the_new_ones():
    log = frame({1.0: 0.3, 2.0: 0.2, 4.0: 0.1})
    values = tuple(value(n, where={"epsilon": eps}) for eps, n in ((4.0, 0.15), (1.0, 0.35), (2.0, 0.25)))
    item = Item("X1-1", "Table 1", "x.toml", "X1", values=values)
    rows = list(reproduce.judged(item, log))
    ax = side_by_side.curves([(one, row.mark) for one, row in zip(values, rows, strict=True)])
    lines = {bars.get_label(): bars.lines[0].get_xydata() for bars in ax.containers}
    published_, new = lines["learning error.mean, published"], lines["learning error.mean, new"]
    assert published_ == pytest.approx(np.array([[1.0, 0.35], [2.0, 0.25], [4.0, 0.15]]))
    assert new == pytest.approx(np.array([[1.0, 0.3], [2.0, 0.2], [4.0, 0.1]]))
    found = reproduce.Reproduced(item, rows, beside=reproduce.beside(item, rows))
    assert "X1-1: published and new values" in verdicts.html([found], quick=False)
    assert reproduce.beside(Item("X1-2", "Table 2", "x.toml", "X1", values=values[:1]), rows[:1]) is None


def test_a_page_states_every_guarantee_and_where_it_holds():
    told = [Promise("all", "group", f"ε = {n} per record, proven", f"group.epsilon = {n}") for n in (1, 8)]
    item = Item("X1-1", "Table 1", "x.toml", "X1")
    page = verdicts.html([reproduce.Reproduced(item, [], promises=told)], quick=False)
    for promise in told:
        assert f">{promise.guarantee}</span></td><td>{promise.where}</td>" in page


def test_the_table_of_verdicts_has_one_line_per_source_and_one_per_reason(tmp_path):
    items = [Item(f"{source}-1", "Table 1", "x.toml", source) for source in ("X1", "X1", "Y2")]
    lasso, other = (judge_value(frame({1.0: 0.2}), value(0.5, reason=why)) for why in ("Lasso | L1", ""))
    right = judge_value(frame({1.0: 0.2}), value(0.2))
    rows = [[right, lasso, lasso], [lasso, other], []]
    found = [reproduce.Reproduced(item, judged) for item, judged in zip(items, rows, strict=True)]
    page, table = verdicts.write(found, tmp_path / "new", quick=False)
    assert page.name == "reproduction.html"
    assert table.read_text(encoding="utf-8").splitlines() == [
        "| source | items | agrees | differs | cannot be compared | not run |",
        "|---|---:|---:|---:|---:|---|",
        "| X1 | 2 | 1 | 4 | 0 |  |",
        "| Y2 | 1 | 0 | 0 | 0 | Y2-1 |",
        "",
        "| why | where | values and claims that differ |",
        "|---|---|---:|",
        "| Lasso \\| L1 | X1-1 | 3 |",
        "| not explained | X1-1 | 1 |",
    ]


@pytest.mark.slow
@pytest.mark.needs_jit
def test_an_item_is_run_again_and_judged(tmp_path):
    (item,) = chosen(["V20-T2"])
    (one,) = reproduce.reproduce(
        [item], tmp_path, batch.Execution(), quick=True, shown=lambda name: batch.Silent(), interrupt=Interrupt()
    )
    assert one.runs == 2
    assert len(one.judged) == len(item.values) + len(item.claims)
    assert one.verdicts()["agrees"] >= 3
    assert any("not private: Lasso" in promise.guarantee for promise in one.promises)
    assert one.why_not == ""


def test_what_cannot_be_run_is_reported_and_stops_nothing(tmp_path):
    nowhere = Item("X1-1", "Table 1", "there_is_no_such_scenario", "X1")
    (one,) = reproduce.reproduce(
        [nowhere], tmp_path, batch.Execution(), quick=True, shown=lambda name: batch.Silent(), interrupt=Interrupt()
    )
    assert "there_is_no_such_scenario" in one.why_not
    assert one.judged == []


SMALL = """
name = "small"
seed = 1
cycles = 2
runs = 2
[data]
set = "spambase"
[nodes]
number = 50
records = 1
leave_out = true
[[protocol]]
use = "newscast"
name = "peers"
view = 5
[[protocol]]
use = "golf"
name = "learning"
peers = "peers"
records = "raw"
"""


def again(items, out, quick=False):
    how = {"quick": quick, "shown": lambda name: batch.Silent(), "interrupt": Interrupt()}
    return list(reproduce.reproduce(items, out, batch.Execution(), **how))


@pytest.mark.needs_jit
def test_items_with_changes_have_folders_of_their_own_and_scenarios_are_joined(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    file = str(tmp_path / "small.toml")
    between = Claim("it learns", {"kind": "between", "layer": "learning", "metric": "error", "low": 0, "high": 1})
    plain = Item("X1-1", "Table 1", file, "X1", claims=(between,))
    fewer = Item("X1-2", "Table 2", file, "X1", claims=(between,), changes=("runs=1",))
    one, other = again([plain, fewer], tmp_path / "out")
    assert (one.runs, one.executed, other.runs, other.executed) == (2, 2, 1, 1)
    assert one.seconds > 0
    assert one.folders != other.folders
    assert other.folders == (tmp_path / "out/runs/X1-2/small",)
    (tmp_path / "other.toml").write_text(SMALL.replace("seed = 1", "seed = 2"))
    sides = {"left": {"where": {"scenario": "small"}}, "right": {"where": {"scenario": "other"}}, "within": 1}
    alike = Claim("they are alike", {"kind": "alike", "layer": "learning", "metric": "error"} | sides)
    both = Item("X1-3", "Table 3", file, "X1", claims=(alike,), also=(str(tmp_path / "other.toml"),))
    (joined,) = again([both], tmp_path / "out")
    assert [row.verdict for row in joined.judged] == ["agrees"]
    assert (joined.runs, joined.executed) == (2, 4)
    assert [folder.name for folder in joined.folders] == ["small", "other"]


@pytest.mark.needs_jit
def test_an_item_whose_data_are_not_fetched_is_not_run_and_states_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "folder_of", lambda card: tmp_path / "nothing")
    (tmp_path / "small.toml").write_text(SMALL.replace("spambase", "susy"))
    (tmp_path / "partly.toml").write_text(SMALL + '[sweep]\n"data.set" = ["spambase", "susy"]\n')
    check = {"kind": "between", "layer": "learning", "metric": "error", "low": 0, "high": 1}
    claims = tuple(Claim(name, check | {"where": {"data.set": name}}) for name in ("spambase", "susy"))
    files = [Item("X1-1", "T", str(tmp_path / f"{n}.toml"), "X1", claims=claims) for n in ("small", "partly")]
    none, some = again(files, tmp_path / "out")
    assert none.judged == []
    assert none.why_not == "“susy” is not fetched: golfsim data fetch susy"
    assert [row.verdict for row in some.judged] == ["agrees", "cannot be compared"]
    assert some.judged[1].reason.endswith("golfsim data fetch susy")
    assert "| X1-1 (susy), X1-1 (susy) |" in verdicts.markdown([none, some])
