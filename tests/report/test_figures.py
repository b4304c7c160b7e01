"""Figures: they draw what the frame says, and leave matplotlib as it was."""

import copy
import math
import os
import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from golfsim.core.errors import UserError
from golfsim.report import curves, figures, numbers, style
from golfsim.scenario.tables import PlotConfig

CYCLES = [1, 10, 100, 1000]
STATISTICS = {"mean": 0.5, "q05": 0.4, "q95": 0.75}


def frame(*layers, runs=1, metric="error", cycles=CYCLES):
    """A log in which a layer's curve starts at its number (1, 2, …) and falls with the cycle; runs differ by 0.1."""
    rows = [
        (run, cycle, layer, f"{metric}.{name}", share * number / (1 + np.log10(cycle)) + 0.1 * (run - 1))
        for run in range(1, runs + 1)
        for number, layer in enumerate(layers, 1)
        for cycle in cycles
        for name, share in STATISTICS.items()
    ] + [(1, cycle, "world", "online", 5.0) for cycle in cycles]
    found = pd.DataFrame(rows, columns=["run", "cycle", "layer", "metric", "value"])
    return found.astype({"layer": "category", "metric": "category"})


@pytest.fixture(autouse=True)
def _as_installed():
    """Each test begins with matplotlib's own settings and leaves no figure."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        yield
    mpl.pyplot.close("all")


def expected(number, share):
    return [share * number / (1 + np.log10(cycle)) for cycle in CYCLES]


def band(collection):
    """Lower and upper edge of a band, by cycle."""
    points = collection.get_paths()[0].vertices
    return [(min(points[points[:, 0] == c, 1]), max(points[points[:, 0] == c, 1])) for c in CYCLES]


def test_a_curve_is_the_mean_and_its_band_the_quantiles():
    ax = figures.convergence(frame("learning"))
    (line,) = ax.lines
    assert list(line.get_xdata()) == CYCLES
    np.testing.assert_allclose(line.get_ydata(), expected(1, 0.5))
    (collection,) = ax.collections
    np.testing.assert_allclose(band(collection), list(zip(expected(1, 0.4), expected(1, 0.75), strict=True)))


def test_a_curve_without_a_finite_value_has_no_line_and_no_other_curve_takes_its_look():
    rows = frame("a", "b", "c")
    rows.loc[rows["layer"] == "a", "value"] = math.inf
    lines = figures.convergence(rows).lines
    assert [line.get_label() for line in lines] == ["b", "c"]
    assert [line.get_color() for line in lines] == [style.look(place).colour for place in (1, 2)]


def test_runs_are_averaged():
    ax = figures.convergence(frame("learning", runs=3))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.array(expected(1, 0.5)) + 0.1)
    assert "3 runs" in ax.get_legend().get_texts()[0].get_text()


def test_each_layer_has_a_curve_of_its_own_look_with_its_name_at_the_end():
    ax = figures.convergence(frame("a", "b", "c"))
    assert [line.get_label() for line in ax.lines] == ["a", "b", "c"]
    for number, line in enumerate(ax.lines, 1):
        np.testing.assert_allclose(line.get_ydata(), expected(number, 0.5))
    assert len({line.get_linestyle() for line in ax.lines}) == 3
    assert len({to_rgb(line.get_color()) for line in ax.lines}) == 3
    assert [(text.get_text(), text.xy[0]) for text in ax.texts] == [("a", 1000), ("b", 1000), ("c", 1000)]


def test_names_do_not_lie_upon_each_other():
    rows = pd.concat([frame(name) for name in "abcd"])
    heights = sorted(text.xy[1] for text in figures.convergence(rows).texts)
    assert len(heights) == 4
    assert min(np.diff(heights)) >= figures.LINE_HEIGHT * 0.999


def test_axes_are_labelled_and_there_is_no_title():
    ax = figures.convergence(frame("learning"))
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("cycle", "0-1 error on the test set", "")
    assert ax.get_xscale() == "log"
    assert ax.get_ylim()[0] == 0
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mean over nodes", "5–95 % of the nodes"]


def test_another_metric_can_be_drawn_and_without_quantiles():
    rows = frame("learning", metric="auc")
    ax = figures.convergence(rows[~rows["metric"].isin(["auc.q05", "auc.q95"])], "auc")
    assert ax.get_ylabel() == "area under the ROC curve"
    assert not ax.collections
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected(1, 0.5))


def test_a_metric_that_no_layer_has_is_reported():
    with pytest.raises(UserError, match="no layer has the metric “eror”") as caught:
        figures.convergence(frame("learning"), "eror")
    assert caught.value.hint == "did you mean “error”? valid: error, online"


def one_number(metric, runs=3):
    """A log with one number per layer and cycle, as an author's own protocol has it."""
    rows = [(run, cycle, "mine", metric, run / cycle) for run in range(1, runs + 1) for cycle in CYCLES]
    return pd.DataFrame(rows, columns=["run", "cycle", "layer", "metric", "value"])


@pytest.mark.parametrize("name", ["weight", "weight.mean", "links.dead"])
@pytest.mark.parametrize("asked", ["{}", "{}.mean"])
def test_a_metric_of_the_authors_own_is_drawn_with_or_without_mean_in_its_name(name, asked):
    ax = figures.convergence(one_number(name), asked.format(name.removesuffix(".mean")))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [2 / cycle for cycle in CYCLES])
    assert ax.get_ylabel() == {"links.dead": "share of dead links"}.get(name, "weight")


@pytest.mark.parametrize("asked", ["weight", "weight.mean"])
def test_such_a_metric_is_drawn_over_a_sweep_as_well(asked):
    rows = pd.concat([one_number("weight").assign(size=size) for size in (1, 2)], ignore_index=True)
    lines = figures.lines(rows, "size", metric=asked).lines
    np.testing.assert_allclose(np.asarray(lines[0].get_ydata(), float), [2 / 1000, 2 / 1000])


def test_the_plot_of_a_scenario_has_the_stated_metric_and_layer_also_over_cycles():
    rows = pd.concat([frame("a", "b", metric=metric) for metric in ("error", "accuracy")])
    ax = figures.of(PlotConfig(metric="accuracy", layer="b"), rows)
    assert ax.get_ylabel() == "accuracy"
    assert [line.get_label() for line in ax.lines] == ["b"]
    assert figures.of(PlotConfig(), rows).get_ylabel() == "0-1 error on the test set"


def test_without_an_error_the_plot_is_that_of_the_overlay_or_of_the_first_own_metric():
    sent = one_number("messages.sent").assign(value=1.0)
    dead = one_number("links.dead")
    assert figures.of(PlotConfig(), pd.concat([sent, dead])).get_ylabel() == "share of dead links"
    assert figures.of(PlotConfig(), pd.concat([sent, one_number("weight")])).get_ylabel() == "weight"
    assert figures.of(PlotConfig(), sent).get_ylabel() == "messages per cycle"


def test_axes_of_the_users_own_are_drawn_into():
    _, axes = mpl.pyplot.subplots(1, 2)
    assert figures.convergence(frame("learning"), ax=axes[1]) is axes[1]
    assert not axes[0].lines
    assert len(axes[1].lines) == 1


def test_a_run_of_one_cycle_shows_a_point():
    ax = figures.convergence(frame("learning", cycles=[1]))
    assert ax.lines[0].get_marker() == "o"


def test_nothing_global_is_altered(tmp_path):
    before = copy.deepcopy(dict(mpl.rcParams))
    rows = frame("a", "b")
    untouched = rows.copy()
    figures.save(figures.convergence(rows), tmp_path, "figure")
    assert dict(mpl.rcParams) == before
    assert not mpl.pyplot.get_fignums()
    pd.testing.assert_frame_equal(rows, untouched)


def test_png_svg_and_pdf_are_written_and_the_same_each_time(tmp_path):
    first, second = (figures.save(figures.convergence(frame("a", "b")), tmp_path, name) for name in ("one", "two"))
    assert [path.name for path in first] == ["one.png", "one.svg", "one.pdf"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    svg = first[1].read_text(encoding="utf-8")
    assert "<svg" in svg
    assert ">cycle<" in svg
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_bands_that_would_hide_each_other_are_left_out():
    def frame_of(curves, apart):
        rows = [
            {
                "run": 1,
                "seed": 1,
                "cycle": 1,
                "layer": f"layer{i}",
                "metric": f"error.{name}",
                "value": value + i * apart,
            }
            for i in range(curves)
            for name, value in (("mean", 0.2), ("q05", 0.1), ("q95", 0.3))
        ]
        return pd.DataFrame(rows)

    for count, apart, bands in ((1, 0, 1), (2, 0, 2), (3, 0, 0), (3, 0.3, 3), (4, 0.3, 0)):
        ax = figures.convergence(frame_of(count, apart))
        assert len(ax.collections) == bands
        mpl.pyplot.close(ax.figure)


def test_with_three_runs_the_dark_band_is_students_interval_of_the_mean():
    rows = frame("learning", runs=3)
    found = numbers.curves(rows)
    half = 4.302652729911275 * 0.1 / math.sqrt(3)  # t of two degrees of freedom, times the standard error
    np.testing.assert_allclose(found["high"] - found["mean"], half)
    light, dark = figures.convergence(rows).collections
    np.testing.assert_allclose(band(dark), list(zip(found["low"], found["high"], strict=True)))
    np.testing.assert_allclose(band(light), list(zip(found["q05"], found["q95"], strict=True)))
    texts = [text.get_text() for text in mpl.pyplot.gca().get_legend().get_texts()]
    assert texts == ["mean over nodes and 3 runs", "95 % interval of the mean", "5–95 % of the nodes, mean over runs"]


def test_two_runs_have_no_interval():
    assert numbers.curves(frame("learning", runs=2))["high"].isna().all()
    assert len(figures.convergence(frame("learning", runs=2)).collections) == 1


def test_a_run_that_stopped_early_is_reported():
    rows = frame("learning", runs=3)
    rows = rows[(rows["run"] < 3) | (rows["cycle"] < 100)]
    ax = figures.convergence(rows)
    assert ax.get_legend().get_texts()[0].get_text() == "mean over nodes and 2–3 runs"
    assert numbers.curves(rows)["runs"].tolist() == [3, 3, 2, 2]


def swept(key="data.set", values=("a", "b"), **how):
    parts = [frame("learning", **how).assign(**{key: value}) for value in values]
    return pd.concat(parts, ignore_index=True)


def test_small_multiples_have_a_panel_for_each_value_and_the_same_look_in_all():
    rows = pd.concat([swept().assign(epsilon=e) for e in (1.0, math.inf)], ignore_index=True)
    ax = curves.small_multiples(rows, "data.set")
    panels = [panel for panel in ax.figure.axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == ["a", "b"]
    assert [line.get_label() for line in panels[1].lines] == ["ε = 1", "ε = ∞"]
    for panel in panels:
        np.testing.assert_allclose(panel.lines[1].get_ydata(), expected(1, 0.5))
        assert panel.get_ylim()[0] == 0
        assert panel.get_ylim()[1] >= 0.5
    assert [to_rgb(line.get_color()) for line in panels[0].lines] == [
        to_rgb(line.get_color()) for line in panels[1].lines
    ]


def test_a_key_that_does_not_vary_is_reported():
    with pytest.raises(UserError, match=r"does not vary “data\.st”") as caught:
        curves.small_multiples(swept(), "data.st")
    assert "data.set" in caught.value.hint


def test_keys_that_vary_together_are_reported_once():
    rows = swept("a.learner", ("x", "y"))
    rows["b.learner"] = rows["a.learner"]
    assert set(numbers.curves(rows)["curve"]) == {"x", "y"}


def test_many_curves_become_small_multiples():
    rows = pd.concat([swept(values=("a", "b", "c")).assign(case=case) for case in "vwxyz"], ignore_index=True)
    assert figures.splitting(rows, "error") == "case"
    assert len(figures.curves_of(rows).figure.axes) == 6  # two rows of three, one of them hidden
    assert len(figures.curves_of(swept()).figure.axes) == 1


def counter(values, metric="messages.sent", layer="peers"):
    rows = [(1, cycle, layer, metric, float(value)) for cycle, value in values.items()]
    return pd.DataFrame(rows, columns=["run", "cycle", "layer", "metric", "value"])


def test_messages_are_those_sent_per_cycle_since_the_last_measurement():
    ax = curves.messages(counter({1: 10, 2: 30, 10: 110}))
    assert list(ax.lines[0].get_ydata()) == [10, 20, 10]
    assert ax.get_ylabel() == "messages per cycle"
    with pytest.raises(UserError, match="no layer sends messages"):
        curves.messages(counter({1: 0, 2: 0}))
    with pytest.raises(UserError, match="got “letters”"):
        curves.messages(counter({1: 1}), unit="letters")


def test_lost_messages_are_drawn_where_there_are_any():
    rows = pd.concat([counter({1: 10, 2: 20}), counter({1: 0, 2: 3}, "messages.lost")])
    sent, lost = curves.messages(rows).lines
    assert list(sent.get_ydata()) == [10, 10]
    assert list(lost.get_ydata()) == [0, 3]
    assert sent.get_linestyle() != lost.get_linestyle()


def test_spent_and_online_are_drawn_as_they_are():
    rows = pd.concat([counter({1: 1, 5: 3}, "spent.mean"), counter({1: 2, 5: 4}, "spent.max")])
    assert [list(line.get_ydata()) for line in curves.spent(rows).lines] == [[1, 3], [2, 4]]
    assert list(curves.online(counter({1: 7, 2: 5}, "online", "world")).lines[0].get_ydata()) == [7, 5]


def test_an_overlay_that_was_not_measured_is_reported():
    with pytest.raises(UserError, match="no overlay was measured"):
        curves.overlay(frame("learning"))


def test_the_overlay_has_a_panel_for_each_figure_that_was_measured():
    rows = pd.concat([frame("peers", metric="indegree"), counter(dict.fromkeys(CYCLES, 0.25), "links.dead")])
    ax = curves.overlay(rows)
    shown = [panel for panel in ax.figure.axes if panel.get_visible()]
    assert [panel.get_ylabel() for panel in shown] == ["in-degree", "share of dead links"]
    np.testing.assert_allclose(shown[1].lines[0].get_ydata(), 0.25)


# The style


@pytest.mark.parametrize("fails", [False, True])
def test_the_style_is_gone_afterwards_whatever_happens(fails, monkeypatch):
    before = copy.deepcopy(dict(mpl.rcParams))
    if fails:
        monkeypatch.setattr(curves, "head", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            figures.convergence(frame("a"))
    else:
        with style.styled():
            assert mpl.rcParams["font.size"] == style.STYLE["font.size"]
    assert dict(mpl.rcParams) == before


def test_curves_stay_apart_in_grey():
    looks = [style.look(number) for number in range(35)]
    assert len({(str(one.dash), one.marker) for one in looks}) == 35
    assert len({str(one.dash) for one in looks[:5]}) == 5


# Machado, Oliveira & Fernandes 2009, severity 1.0, on linear RGB
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("kind", DEFICIENCIES)
def test_the_first_colours_stay_apart_for_everybody(kind):
    linear = np.array([to_rgb(colour) for colour in style.PALETTE[:4]]) ** 2.2
    seen = np.clip(linear @ np.array(DEFICIENCIES[kind]).T, 0, 1) ** (1 / 2.2)
    distances = [np.linalg.norm(a - b) for place, a in enumerate(seen) for b in seen[:place]]
    assert min(distances) > 0.15


@pytest.mark.parametrize(
    "name", ["costs $5 or $6", "_hidden", "a_b^c{d", "λ → ∞ 値", "x" * 500, "two\nlines", "\\frac"]
)
def test_odd_names_are_drawn_as_they_are(tmp_path, name):
    rows = pd.concat([swept(values=(name, "other with a name that does not fit beside"))], ignore_index=True)
    paths = figures.save(figures.convergence(rows), tmp_path, "odd")
    svg = paths[1].read_text(encoding="utf-8")
    shown = " ".join(name.split())
    assert (shown if len(shown) <= style.LONGEST else shown[: style.LONGEST - 1] + "…") in svg.replace("\u200a", "")


def test_a_metric_without_numeric_values_is_reported():
    rows = frame("learning")
    with pytest.raises(UserError, match="has no numeric value"):
        figures.convergence(rows.assign(value=float("nan")))
    with pytest.raises(UserError, match="no layer has the metric"):
        figures.convergence(rows.iloc[:0])


def test_a_value_that_is_missing_leaves_a_gap_in_the_runs_only():
    rows = frame("learning", runs=2)
    rows.loc[(rows["run"] == 1) & (rows["cycle"] == 10) & (rows["metric"] == "error.mean"), "value"] = float("nan")
    found = numbers.curves(rows)
    assert found["runs"].tolist() == [2, 1, 2, 2]
    assert found["mean"][1] == pytest.approx(expected(1, 0.5)[1] + 0.1)


def test_names_at_the_ends_move_as_little_as_may_be():
    assert curves.apart([0.1, 0.5]) == [0.1, 0.5]
    near = curves.apart([0.5, 0.5, 0.5])
    assert near == pytest.approx([0.5 - curves.LINE_HEIGHT, 0.5, 0.5 + curves.LINE_HEIGHT])
    assert min(curves.apart([0.0, 0.0, 0.0, 0.01])) == 0


# What a scenario asks for


def pointed(**columns):
    """A log of two layers at points of a sweep, one for each place of the columns; values are 1, 2, … and 10 more."""
    size = len(next(iter(columns.values())))
    rows = [
        (run, 3, layer, f"{metric}.mean", float(place + 1) + 10 * (layer == "b"), *(c[place] for c in columns.values()))
        for run in (1, 2)
        for layer in "ab"
        for metric in ("error", "local_error")
        for place in range(size)
    ]
    return pd.DataFrame(rows, columns=["run", "cycle", "layer", "metric", "value", *columns])


def heights(ax):
    """The lines of all panels of a figure: name and heights."""
    panels = [panel for panel in ax.figure.axes if panel.get_visible()]
    return [{line.get_label(): list(line.get_ydata()) for line in named_lines(panel)} for panel in panels]


def named_lines(panel):
    """The lines without error bars, which have no name."""
    return [line for line in panel.lines if not line.get_label().startswith("_")]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_scales_of_the_axes_are_those_of_the_scenario(scale):
    rows = pointed(x=[1.0, 20.0], case=["one", "one"])
    for plot in (
        PlotConfig(kind="lines", x="x", lines="case", metric="error", x_scale=scale, y_scale=scale),
        PlotConfig(metric="error", x_scale=scale, y_scale=scale),
    ):
        ax = figures.of(plot, rows)
        assert (ax.get_xscale(), ax.get_yscale()) == (scale, scale)


def test_on_a_logarithmic_axis_a_name_is_at_the_height_of_its_curve():
    rows = frame("a", "b", cycles=(1, 2))
    ax = figures.of(PlotConfig(metric="error", y_scale="log"), rows)
    bottom, top = map(math.log, ax.get_ylim())
    ends = {line.get_label(): line.get_ydata()[-1] for line in named_lines(ax)}
    for name in ax.texts:
        if name.get_text() in ends:
            at = (math.log(ends[name.get_text()]) - bottom) / (top - bottom)
            assert name.xy[1] == pytest.approx(at, abs=0.06)


def test_only_the_layer_that_is_asked_for_is_drawn():
    plot = PlotConfig(kind="lines", x="x", lines="case", metric="error", layer="b")
    rows = pointed(x=[1.0, 2.0], case=["one", "one"])
    assert heights(figures.of(plot, rows)) == [{"one": [11.0, 12.0]}]
    with pytest.raises(UserError, match="no layer is called “c”"):
        figures.of(PlotConfig(layer="c"), rows)


def test_several_metrics_or_layers_are_lines_of_their_own():
    rows = pointed(x=[1.0, 2.0])
    several = PlotConfig(kind="lines", x="x", lines="metric", metric=("error", "local_error"), layer="a")
    assert heights(figures.of(several, rows)) == [{"error": [1.0, 2.0], "local error": [1.0, 2.0]}]
    layers = PlotConfig(kind="lines", x="x", lines="layer", metric="error")
    assert heights(figures.of(layers, rows)) == [{"a": [1.0, 2.0], "b": [11.0, 12.0]}]
    with pytest.raises(UserError, match="no layer has the metric “auc”"):
        figures.of(PlotConfig(kind="lines", x="x", lines="metric", metric=("error", "auc")), rows)
    with pytest.raises(ValueError, match="several metrics need"):
        PlotConfig(kind="lines", x="x", lines="case", metric=("error", "auc"))


def test_a_key_that_goes_with_those_shown_makes_no_panels():
    rules = {"rule": ["right", "right", "wrong", "wrong"], "goes_with_rule": [1, 1, 2, 2]}
    found = figures.lines(figures.only(pointed(x=[1.0, 2.0] * 2, **rules), "a"), "x", "rule", "error")
    assert heights(found) == [{"right": [1.0, 2.0], "wrong": [3.0, 4.0]}]


def test_a_line_looks_the_same_in_all_panels_and_the_key_names_those_of_all():
    columns = {"panel": ["p", "p", "q", "q"], "rule": ["a", "a", "b", "b"]}
    rows = figures.only(pointed(x=[1.0, 2.0] * 2, **columns, also=[1, 2, 1, 2]), "a")
    rows = pd.concat([rows, rows[rows["panel"] == "p"].assign(rule="b", value=9.0)])
    ax = figures.lines(rows.drop(columns="also"), "x", "rule", "error")
    looks = {}
    for panel in ax.figure.axes:
        for line in named_lines(panel):
            looks.setdefault(line.get_label(), set()).add(to_rgb(line.get_color()))
    assert {name: len(colours) for name, colours in looks.items()} == {"a": 1, "b": 1}
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()][:2] == ["a", "b"]


def test_a_notebooks_backend_that_becomes_interactive_with_its_first_figure_stays_so(tmp_path):
    backend = "import matplotlib\nfrom matplotlib.backends.backend_agg import *\nmatplotlib.interactive(True)\n"
    (tmp_path / "waking.py").write_text(backend)
    code = """if True:
        import matplotlib
        from golfsim import plot
        from golfsim.report.style import panel
        with plot.styled():
            panel(None)
        print(matplotlib.is_interactive())
    """
    where = os.environ | {"MPLBACKEND": "module://waking", "PYTHONPATH": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", code], env=where, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"


def strategies(count, spread, runs=3):
    """Curves that lie close together, of runs that differ by `spread`."""
    rows = [
        (run, cycle, f"strategy {n}", "error.mean", 0.3 + 0.01 * n + spread * run)
        for n in range(count) for run in range(1, runs + 1) for cycle in range(1, 31)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["run", "cycle", "layer", "metric", "value"])


def test_intervals_of_five_strategies_are_bars_at_different_cycles_where_bands_would_hide_each_other():
    ax = figures.convergence(strategies(5, 0.05))
    bars = [container.lines[2][0].get_segments() for container in ax.containers]
    assert len(bars) == 5
    assert all(len(own) == curves.BARS for own in bars)
    places = [segment[0][0] for own in bars for segment in own]
    assert len(set(places)) == len(places)
    assert "95 % interval of the mean" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert curves.bands(numbers.curves(strategies(5, 0.05))) == {"bars"}
    assert curves.bands(numbers.curves(strategies(5, 0.0001))) == {"runs"}  # narrow bands hide nothing
    assert curves.bands(numbers.curves(strategies(9, 0.05))) == set()


def test_an_interval_of_shares_stays_within_0_and_1_and_that_of_other_metrics_does_not():
    rows = strategies(1, 0.0)
    rows["value"] = rows["run"].map({1: 0.0, 2: 0.01, 3: 0.9})
    assert numbers.curves(rows)[["low", "high"]].iloc[0].tolist() == [0, 1]
    (dark,) = figures.convergence(rows).collections
    heights = dark.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0, 1)
    free = numbers.curves(rows.assign(metric="age.mean"), "age")
    assert free["low"].max() < 0
    assert free["high"].min() > 1


def test_the_drawn_interval_is_that_of_the_numbers():
    rows = frame("learning", runs=4)
    values = rows[(rows["metric"] == "error.mean") & (rows["cycle"] == 10)]["value"]
    found = numbers.curves(rows).set_index("cycle").loc[10]
    np.testing.assert_allclose(numbers.student(values), (found["low"], found["high"]))


def test_a_curve_has_one_name_and_colour_in_all_panels_also_where_others_are_missing():
    points = [("x", 1.0), ("x", 2.0), ("y", 2.0)]
    rows = pd.concat([frame("a").assign(case=case, epsilon=e) for case, e in points], ignore_index=True)
    ax = curves.small_multiples(rows, "case")
    first, second = (panel for panel in ax.figure.axes if panel.get_visible())
    assert [line.get_label() for line in second.lines] == ["ε = 2"]
    assert to_rgb(second.lines[0].get_color()) == to_rgb(first.lines[1].get_color())


def happening(rows, *events):
    rows.attrs["golfsim.events"] = [dict(zip(("kind", "from", "until"), event, strict=True)) for event in events]
    return rows


def test_crashes_and_partitions_are_marked_and_named_in_the_legend():
    rows = happening(frame("learning"), ("crash", 10, 10), ("partition", 20, 100), ("joins", 5000, 6000))
    ax = figures.convergence(rows)
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words[-2:] == ["crash, cycle 10", "partition, cycles 20–100"]  # the run has ended before the joins
    assert ax.lines[-1].get_xdata() == [10, 10]
    (span,) = [patch for patch in ax.patches if patch.get_hatch()]
    assert (span.get_x(), span.get_x() + span.get_width()) == (20, 100)


def test_the_axis_is_linear_if_an_event_is_late():
    assert figures.convergence(happening(frame("a"), ("crash", 10, 10))).get_xscale() == "log"
    late = happening(frame("a"), ("crash", 500, 500))
    assert figures.convergence(late).get_xscale() == "linear"
    assert figures.convergence(late, log=True).get_xscale() == "log"


def test_an_event_of_one_case_is_marked_in_its_panel_only():
    rows = happening(swept(key="case"), ("crash", 10, 10))
    rows.attrs["golfsim.events"][0]["where"] = {"case": "b"}
    ax = curves.small_multiples(rows, "case")
    assert [len(panel.lines) for panel in ax.figure.axes] == [1, 2]


def test_own_axes_get_our_style_and_a_legend_that_overlaps_nothing():
    figure, axes = mpl.pyplot.subplots(2, 2, figsize=(7, 6))
    many = strategies(5, 0.05)
    for ax in axes.flat:
        assert figures.convergence(many, ax=ax) is ax
    figure.canvas.draw()
    ax = axes[0, 0]
    assert not ax.spines["top"].get_visible()
    assert ax.xaxis.label.get_size() == 8
    assert ax.get_xticklabels()[0].get_size() == 7
    boxes = [one.get_legend().get_window_extent() for one in axes.flat]
    others = [one.get_window_extent() for one in axes.flat]
    assert not any(box.overlaps(other) for box in boxes for other in others)
    assert all(box.y0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)


@pytest.mark.parametrize("draw", [lambda rows, ax: curves.small_multiples(rows, "data.set", ax=ax),
                                  lambda rows, ax: curves.overlay(rows, ax=ax)])  # fmt: skip
def test_several_panels_take_the_place_of_own_axes_which_are_returned(draw):
    rows = swept()
    dead = rows[rows["metric"] == "error.mean"].assign(metric="links.dead")
    _, axes = mpl.pyplot.subplots(1, 2, figsize=(8, 3))
    assert draw(pd.concat([rows, dead], ignore_index=True), axes[1]) is axes[1]
    figure = axes[1].figure
    figure.canvas.draw()
    (part,) = figure.subfigs
    inside = [one for one in part.axes if one.get_visible()]
    assert any(one.lines for one in inside)
    assert all(one.get_window_extent().x0 > axes[0].get_window_extent().x1 for one in inside)


def test_fonts_are_embedded_in_a_pdf_as_truetype(tmp_path):
    path = figures.save(figures.convergence(frame("a")), tmp_path, "figure")[2]
    content = path.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/FontFile2" in content  # an embedded TrueType font
    assert b"/CIDFontType2" in content
    assert b"/Type3" not in content
