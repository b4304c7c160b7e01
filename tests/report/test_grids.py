"""Figures of the end of runs over a sweep."""

import math

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest

from golfsim.core.errors import UserError
from golfsim.report import figures, grids, numbers, style
from golfsim.scenario.tables import PlotConfig


@pytest.fixture(autouse=True)
def _closed():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


def log(points, runs=3, layers=("learning",), metrics=("accuracy",), extra=()):
    """A log with one cycle before the last: a value is that of its point, plus 0.01 a run, plus 0.1 a layer."""
    rows = []
    for point, value in points:
        for run in range(1, runs + 1):
            for number, layer in enumerate(layers):
                for metric in metrics:
                    own = value + 0.01 * (run - 2) + 0.1 * number
                    for cycle, name, what in ((1, "mean", -1.0), (9, "mean", own), (9, "std", 0.05)):
                        rows.append(
                            point
                            | {"run": run, "cycle": cycle, "layer": layer, "metric": f"{metric}.{name}", "value": what}
                        )
                for name, what in extra:
                    rows.append(point | {"run": run, "cycle": 9, "layer": "published", "metric": name, "value": what})
    return pd.DataFrame(rows)


def lines_of(ax):
    """The lines of means, without error bars and horizontal lines."""
    return [line for line in ax.lines if not str(line.get_label()).startswith("_") and len(line.get_xdata()) > 1]


def grid(sets=("a",)):
    values = [(e, b) for e in (1.0, 10.0, math.inf) for b in (1, 5)]
    return [
        ({"p.epsilon": e, "n.batch": b, "data.set": s}, 0.3 + 0.1 * place)
        for s in sets
        for place, (e, b) in enumerate(values)
    ]


def test_a_map_has_the_mean_over_runs_of_the_last_cycle_and_infinity_on_top():
    table = grids.grid(log(grid()), "p.epsilon", "n.batch", "accuracy")
    assert list(table.index) == [math.inf, 10, 1]
    np.testing.assert_allclose(table.to_numpy(), [[0.7, 0.8], [0.5, 0.6], [0.3, 0.4]])
    ax = grids.heatmap(log(grid()), "p.epsilon", "n.batch")
    np.testing.assert_allclose(ax.collections[0].get_array(), table.to_numpy())
    assert [text.get_text() for text in ax.get_yticklabels()] == ["∞", "10", "1"]
    assert sorted(text.get_text() for text in ax.texts) == ["0.30", "0.40", "0.50", "0.60", "0.70", "0.80"]


def test_other_keys_and_layers_get_panels_and_are_not_averaged():
    rows = log(grid(sets=("a", "b")), layers=("x", "y"))
    ax = grids.heatmap(rows, "p.epsilon", "n.batch")
    panels = ax.figure.axes[:4]
    assert [panel.get_title() for panel in panels] == ["x, a", "y, a", "x, b", "y, b"]
    tops = {panel.get_title(): float(panel.collections[0].get_array()[0, 0]) for panel in panels}
    assert tops["x, a"] == pytest.approx(0.7)
    assert tops["y, a"] == pytest.approx(0.8)


def test_a_cell_without_a_run_stays_empty():
    ax = grids.heatmap(log(grid()[:-1]), "p.epsilon", "n.batch")
    assert len(ax.texts) == 5


def test_lines_have_the_interval_of_the_mean_and_infinity_a_step_beyond():
    ax = grids.lines(log(grid()), "p.epsilon", "n.batch")
    line, other = lines_of(ax)
    np.testing.assert_allclose(np.sqrt(line.get_xdata() * other.get_xdata()), [1, 10, 25])
    assert (line.get_xdata() < other.get_xdata()).all()  # so that no error bar hides another one
    np.testing.assert_allclose(line.get_ydata().astype(float), [0.3, 0.5, 0.7])
    (bars,) = ax.containers[0].lines[2]
    half = 4.302652729911275 * 0.01 / math.sqrt(3)
    low, high = bars.get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(half)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "10", "∞"]


def test_privacy_and_utility_share_the_axis_of_epsilon():
    extra = [("label.linear", 0.9), ("label.base", 0.6), ("label.sum", 0.7)]
    ax = grids.privacy_utility(log(grid(), extra=extra), by="n.batch")
    above, beneath = ax.figure.axes
    assert above is ax
    np.testing.assert_allclose(lines_of(above)[1].get_ydata().astype(float), [0.4, 0.6, 0.8])
    np.testing.assert_allclose(lines_of(beneath)[1].get_ydata().astype(float), 0.9)
    assert beneath.get_xlabel() == "ε"
    assert any(np.allclose(line.get_ydata(), 0.6) and len(line.get_ydata()) == 2 for line in beneath.lines)
    assert len(grids.privacy_utility(log(grid()), by="n.batch").figure.axes) == 1


def test_cases_are_lines_unless_another_key_is_asked_for():
    rows = log([({"case": case, "p.epsilon": e}, 0.5) for case in ("one", "other") for e in (1.0, 10.0)])
    for ax in (grids.privacy_utility(rows), grids.lines(rows, "p.epsilon")):
        assert len(ax.figure.axes) == 1
        assert [line.get_label() for line in lines_of(ax)] == ["one", "other"]


def test_lines_look_as_the_same_curves_do_elsewhere_whatever_else_the_log_holds():
    rows = log([({"p.epsilon": e}, 0.5) for e in (1.0, 10.0)], layers=("x", "y"))
    other = rows.assign(layer="below", metric="sent")
    ax = grids.lines(pd.concat([other, rows]), "p.epsilon", "layer")
    assert [line.get_color() for line in lines_of(ax)] == [style.look(0).colour, style.look(1).colour]


def test_an_interval_and_the_axis_of_shares_end_at_one():
    rows = log([({"p.epsilon": e}, 0.98) for e in (1.0, 10.0)])
    rows.loc[rows["run"] == 1, "value"] = 0.2
    ax = grids.lines(rows, "p.epsilon")
    low, high = ax.get_ylim()
    assert -0.05 < low < 0.2
    assert 0.98 < high < 1.05
    low, high = ax.containers[0].lines[2][0].get_segments()[0][:, 1]
    assert (low, high) == (0, 1)
    counts = rows.assign(metric=rows["metric"].str.replace("accuracy", "age"))
    assert grids.lines(counts, "p.epsilon", metric="age").containers[0].lines[2][0].get_segments()[0][1, 1] > 1.5


def test_without_an_epsilon_in_the_sweep_the_key_is_asked_for():
    rows = log([({"n.batch": b}, 0.5) for b in (1, 2)])
    with pytest.raises(UserError, match="varies no ε"):
        grids.privacy_utility(rows)
    with pytest.raises(UserError, match="varies no size"):
        grids.learning_curve(rows)


def test_a_learning_curve_runs_over_the_size_that_varies():
    rows = log([({"data.train": n}, 1 / n) for n in (10, 100, 1000)], metrics=("error",))
    ax = grids.learning_curve(rows)
    assert list(ax.lines[0].get_xdata()) == [10, 100, 1000]
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel() == "0-1 error on the test set"


def test_where_points_have_different_numbers_of_runs_the_legend_says_so():
    rows = log([({"g.group": g}, 0.1 * g) for g in (10, 2, 5)], metrics=("error",))
    ax = grids.bars(rows[(rows["g.group"] != 5) | (rows["run"] < 3)], "g.group")
    assert "95 % interval of the mean, 2 to 3 runs" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_bars_have_the_interval_and_the_spread_of_nodes():
    rows = log([({"g.group": g}, 0.1 * g) for g in (10, 2, 5)], layers=("local", "group"), metrics=("error",))
    ax = grids.bars(rows, "g.group")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "5", "10"]
    means = [line.get_ydata() for line in ax.lines if line.get_marker() == style.look(0).marker]
    assert sorted(means[0]) == pytest.approx([0.2, 0.5, 1.0])
    spread = {round(float(part[:, 1].mean()), 3): part[:, 1] for part in ax.collections[0].get_segments()}
    assert spread[0.2] == pytest.approx([0.15, 0.25])
    assert spread[0.975] == pytest.approx([0.95, 1])  # a share is at most 1
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["local", "group", "95 % interval of the mean, 3 runs", "± standard deviation over nodes"]


def test_ticks_that_would_run_into_each_other_are_left_out():
    ticks = [1.0, 1.05, 50.0, 100.0]
    kept = grids.thinned(ticks, {t: t for t in ticks}, log=False)
    assert kept[-1] == 100
    assert len(kept) == 3


@pytest.mark.parametrize("kind", ["lines", "bars", "privacy-utility"])
def test_a_scenario_can_ask_for_the_picture(kind):
    rows = log([({"p.epsilon": e, "case": c}, 0.5) for e in (1.0, 2.0) for c in "ab"])
    plot = PlotConfig(kind=kind, x="p.epsilon", lines="case")
    assert figures.of(plot, rows).get_ylabel() == "accuracy"


@pytest.mark.parametrize(
    ("keys", "about"),
    [
        ({"kind": "bars"}, "x: required"),
        ({"kind": "lines", "x": "a"}, "lines: required"),
        ({"kind": "heatmap", "rows": "a"}, "columns: required"),
        ({"kind": "convergence", "lines": "a"}, "lines: only for kind"),
        ({"kind": "privacy-utility", "x": "a", "rows": "b"}, "rows: only for kind"),
    ],
)
def test_a_picture_has_the_keys_it_needs_and_no_others(keys, about):
    with pytest.raises(ValueError, match=about):
        PlotConfig(**keys)


def test_without_a_second_key_bars_and_privacy_have_one_line():
    assert PlotConfig(kind="bars", x="a").lines is None
    assert numbers.last_means(log([({"a.b": 1}, 0.5), ({"a.b": 2}, 0.7)]), "accuracy", ["a.b"])[
        "mean"
    ].tolist() == pytest.approx([0.5, 0.7])


def test_values_that_lie_close_get_colours_of_their_own_and_a_third_digit():
    close = [({"p.epsilon": e, "n.batch": 1, "data.set": "a"}, v) for e, v in ((1.0, 0.152), (10.0, 0.171))]
    ax = grids.heatmap(log(close, metrics=("error",)), "p.epsilon", "data.set", "error")
    assert ax.collections[0].get_clim() == pytest.approx((0.152, 0.171))
    assert sorted(text.get_text() for text in ax.texts) == ["0.152", "0.171"]
    far = grids.heatmap(log([*close, (close[0][0] | {"p.epsilon": 5.0}, 0.9)], runs=1), "p.epsilon", "data.set")
    assert far.collections[0].get_clim() == (0, 1)


def test_words_say_what_they_are_values_of():
    points = [
        ({"p.epsilon": e, "group.trust": t, "data.set": s}, 0.5)
        for e in (1000.0, 8000.0) for t in ("none", "all") for s in ("adult", "spambase")
    ]  # fmt: skip
    ax = grids.lines(log(points), "p.epsilon", "data.set")
    assert [axes.get_title() for axes in ax.figure.axes] == ["trust: none", "trust: all"]
    assert ax.figure.legends[0].get_title().get_text() == ""
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1000", "8000"]
    other = grids.lines(log(points), "p.epsilon", "group.trust")
    assert [axes.get_title() for axes in other.figure.axes] == ["adult", "spambase"]
    assert other.figure.legends[0].get_title().get_text() == "trust"


def test_several_errors_side_by_side_are_called_errors():
    rows = log([({"nodes.records": n}, 0.5) for n in (10, 20)], metrics=("local_error", "error"))
    plot = PlotConfig(kind="lines", x="nodes.records", lines="metric", metric=("local_error", "error"))
    ax = figures.of(plot, rows)
    assert ax.get_ylabel() == "0-1 error on the test set"
    assert ax.get_xlabel() == "records per node"


def test_a_legend_has_as_many_columns_as_fit():
    names = ["logistic", "output", "a name that is nearly as long as one column"]
    assert style.columns_for(names, 7.0) == 3
    assert style.columns_for(names, 4.2) == 2
    assert style.columns_for(names, 3.0) == 1


@pytest.mark.parametrize("stated", [True, False])
def test_a_baseline_that_does_not_depend_on_epsilon_is_a_horizontal_line(stated):
    points = [({"case": "private", "p.epsilon": e}, v) for e, v in ((1.0, 0.5), (10.0, 0.6), (100.0, 0.8))]
    constant = [1.0, 10.0, 100.0] if stated else [math.nan]
    points += [({"case": "no privacy", "p.epsilon": e}, 0.9) for e in constant]
    ax = grids.privacy_utility(log(points), "p.epsilon")
    level = next(line for line in ax.lines if line.get_label() == "no privacy")
    np.testing.assert_allclose(level.get_ydata(), [0.9, 0.9])
    assert list(level.get_xdata()) == [0, 1]  # from one side of the axes to the other
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "10", "100"]
    names = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert names[:2] == ["private", "no privacy"]
    low, high = grids.sure("accuracy")([0.89, 0.9, 0.91])
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert (band.y0, band.y1) == pytest.approx((low, high))


def test_a_figure_of_several_panels_fits_into_axes_or_a_figure_of_the_users():
    rows = log(grid(sets=("a", "b")))
    figure, (left, right) = mpl.pyplot.subplots(1, 2, figsize=(9, 3))
    for draw in (lambda ax: grids.heatmap(rows, "p.epsilon", "n.batch", ax=ax),
                 lambda ax: grids.lines(rows, "p.epsilon", "n.batch", ax=ax)):  # fmt: skip
        first = draw(left)
        assert first.figure.figure is figure
        assert [panel.get_title() for panel in first.figure.axes[:2]] == ["a", "b"]
    own = mpl.pyplot.figure()
    assert grids.privacy_utility(rows, by="n.batch", figure=own).figure is own
    assert right.axison
    assert not left.axison


def test_a_reference_along_the_axis_is_a_dashed_level_in_the_colour_of_each_line():
    ax = grids.lines(log(grid()), "p.epsilon", "n.batch", reference=math.inf)
    curves = lines_of(ax)[-2:]
    levels = [line for line in ax.lines if list(line.get_xdata()) == [0, 1]]
    assert [level.get_ydata()[0] for level in levels] == pytest.approx([0.7, 0.8])
    assert [level.get_color() for level in levels] == [curve.get_color() for curve in curves]
    assert all(level.is_dashed() for level in levels)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "10"], "the reference is no point of the axis"
    assert "ε = ∞" in [text.get_text() for text in ax.figure.legends[0].get_texts()]


def test_a_reference_among_the_lines_is_dashed_and_grey():
    ax = grids.lines(log(grid()), "n.batch", "p.epsilon", reference=math.inf)
    plain, _, dashed = lines_of(ax)
    assert (dashed.get_label(), dashed.get_color(), dashed.is_dashed()) == ("ε = ∞", grids.GREY, True)
    assert plain.get_color() != grids.GREY
    np.testing.assert_allclose(dashed.get_ydata().astype(float), [0.7, 0.8])


def test_a_reference_that_the_log_does_not_have_is_refused():
    with pytest.raises(UserError, match=r"no line and no value of “p\.epsilon” is “3”"):
        grids.lines(log(grid()), "p.epsilon", "n.batch", reference=3)


def test_an_interval_that_ends_at_the_mean_is_drawn_despite_rounding():
    # The mean of these values by seaborn is not that of a sum in another order; a share above 1 has no upper interval.
    values = np.random.default_rng(3).random((20, 9)) * 0.3 + 1.3
    rows = [
        {"seed": s, "run": s, "cycle": 1, "layer": "a", "metric": "error.mean", "value": v, "nodes.number": k}
        for s, of_seed in enumerate(values)
        for k, v in enumerate(of_seed)
    ]
    assert grids.lines(pd.DataFrame(rows), "nodes.number", metric="error").lines
