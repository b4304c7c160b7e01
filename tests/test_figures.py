"""Figures: they draw what the frame says, and leave matplotlib as it was."""

import copy

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from golfsim.errors import UserError
from golfsim.report import figures
from golfsim.settings import PlotConfig

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
    assert ax.get_ylabel() == "auc"
    assert not ax.collections
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected(1, 0.5))


def test_a_metric_that_no_layer_has_is_told():
    with pytest.raises(UserError, match="no layer has the metric “eror”") as caught:
        figures.convergence(frame("learning"), "eror")
    assert caught.value.hint == "did you mean “error”?"


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


def test_png_and_svg_are_written_and_the_svg_is_the_same_each_time(tmp_path):
    first, second = (figures.save(figures.convergence(frame("a", "b")), tmp_path, name) for name in ("one", "two"))
    assert [path.name for path in first] == ["one.png", "one.svg"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    svg = first[1].read_text(encoding="utf-8")
    assert "<svg" in svg
    assert ">cycle<" in svg
    assert svg == second[1].read_text(encoding="utf-8")


def test_bands_that_would_hide_each_other_are_left_out():
    def frame_of(curves):
        rows = [
            {"run": 1, "seed": 1, "cycle": 1, "layer": f"layer{i}", "metric": f"error.{name}", "value": value}
            for i in range(curves)
            for name, value in (("mean", 0.2), ("q05", 0.1), ("q95", 0.3))
        ]
        return pd.DataFrame(rows)

    for curves, bands in ((1, 1), (3, 3), (4, 0)):
        ax = figures.convergence(frame_of(curves))
        assert len(ax.collections) == bands
        mpl.pyplot.close(ax.figure)


def swept(**columns):
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


def drawn(ax):
    """The panels of a figure: title, and for each line its name and heights."""
    return {
        panel.get_title(): {bar.get_label(): list(bar.lines[0].get_ydata()) for bar in panel.containers}
        for panel in ax.figure.axes
    }


def test_only_the_layer_that_is_asked_for_is_drawn():
    plot = PlotConfig(kind="lines", x="x", lines="case", metric="error", layer="b")
    rows = swept(x=[1.0, 2.0], case=["one", "one"])
    assert drawn(figures.of(plot, rows)) == {"": {"one": [11.0, 12.0]}}
    with pytest.raises(UserError, match="no layer is called “c”"):
        figures.of(PlotConfig(layer="c"), rows)


def test_several_metrics_or_layers_are_lines_of_their_own():
    rows = swept(x=[1.0, 2.0])
    by_metric = figures.lines(figures.only(rows, "a"), "x", "metric", ("error", "local_error"))
    assert drawn(by_metric) == {"": {"error": [1.0, 2.0], "local_error": [1.0, 2.0]}}
    assert by_metric.get_ylabel() == "error"
    assert drawn(figures.lines(rows, "x", "layer", "error")) == {"": {"a": [1.0, 2.0], "b": [11.0, 12.0]}}
    with pytest.raises(UserError, match="no layer has the metric “auc”"):
        figures.lines(rows, "x", "metric", ("error", "auc"))
    with pytest.raises(ValueError, match="several of them need"):
        PlotConfig(kind="lines", x="x", lines="case", metric=("error", "auc"))


def test_a_key_that_goes_with_those_shown_makes_no_panels():
    rows = swept(x=[1.0, 2.0], goes_with_x=[5.0, 6.0])
    assert drawn(figures.lines(figures.only(rows, "a"), "x", "layer", "error")) == {"": {"a": [1.0, 2.0]}}
    panels = swept(x=[1.0, 2.0, 1.0, 2.0], rule=["right", "right", "wrong", "wrong"], goes_with_rule=[1, 1, 2, 2])
    found = drawn(figures.lines(figures.only(panels, "a"), "x", "layer", "error"))
    assert found == {"right": {"a": [1.0, 2.0]}, "wrong": {"a": [3.0, 4.0]}}


def test_a_short_axis_has_ticks_at_its_values_and_a_long_one_at_decades():
    def ticks(values):
        ax = figures.lines(figures.only(swept(x=values), "a"), "x", "layer", "error")
        ax.figure.draw_without_rendering()
        return {text.get_text() for text in ax.get_xticklabels()} | {t.get_text() for t in ax.get_xticklabels("minor")}

    assert ticks([5.0, 10.0, 50.0]) - {""} == {"5", "10", "50"}
    assert {"1", "100"} <= ticks([1.0, 10.0, 100.0, 1000.0])
