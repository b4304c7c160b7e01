"""Confusion matrix, ROC curve, time to accuracy, and the plane of two features."""

import math

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from helpers import finished, learning_tree

from golfsim.core.errors import UserError
from golfsim.report import judgement, numbers, scatter
from golfsim.scenario.model import Scenario
from golfsim.sim.log import noted


@pytest.fixture(autouse=True)
def _closed():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


def log(values, layer="learning"):
    """Rows from (run, cycle, metric, value)."""
    return pd.DataFrame(
        [(r, c, layer, m, v) for r, c, m, v in values], columns=["run", "cycle", "layer", "metric", "value"]
    )


COUNTS = [[30, 10], [5, 55]]
MATRIX = log(
    [
        (run, cycle, f"confusion.actual_{a}.predicted_{p}", COUNTS[a][p] + 2 * (run - 1) if cycle == 9 else 0.0)
        for run in (1, 2)
        for cycle in (1, 9)
        for a in (0, 1)
        for p in (0, 1)
    ]
)


def test_a_confusion_matrix_is_the_mean_over_runs_at_the_end():
    assert judgement.confusion_counts(MATRIX).to_numpy().tolist() == [[31, 11], [6, 56]]
    ax = judgement.confusion(MATRIX)
    assert [text.get_text() for text in ax.texts] == ["31", "11", "6", "56"]
    np.testing.assert_allclose(ax.collections[0].get_array(), [[31 / 42, 11 / 42], [6 / 62, 56 / 62]])


def test_points_of_a_sweep_are_not_mixed_in_one_matrix():
    with pytest.raises(UserError, match="a single point of a sweep"):
        judgement.confusion(pd.concat([MATRIX.assign(case=case) for case in "ab"]))
    with pytest.raises(UserError, match="“other” has no confusion"):
        judgement.confusion(MATRIX, "other")
    with pytest.raises(UserError, match="no roc was measured"):
        judgement.roc(MATRIX)


def test_an_roc_curve_is_the_mean_over_runs():
    rows = log([(run, 5, f"roc.at_{x:.2f}", min(1.0, x + 0.1 * run)) for run in (1, 2, 3) for x in (0, 0.5, 1)])
    curve, guessing = judgement.roc(rows).lines
    np.testing.assert_allclose(curve.get_xdata(), [0, 0.5, 1])
    np.testing.assert_allclose(curve.get_ydata(), [0.2, 0.7, 1])
    assert list(guessing.get_ydata()) == [0, 1]


def test_a_confusion_matrix_has_the_names_of_the_classes():
    ax = judgement.confusion(noted(MATRIX.copy(), [], [["mail", "spam"]]))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["mail", "spam"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["mail", "spam"]
    stated = judgement.confusion(MATRIX, classes=("no", "yes"))
    assert [tick.get_text() for tick in stated.get_xticklabels()] == ["no", "yes"]
    assert [tick.get_text() for tick in judgement.confusion(MATRIX).get_xticklabels()] == ["0", "1"]
    with pytest.raises(UserError, match="names of 2 classes; got 1"):
        judgement.confusion(MATRIX, classes=("no",))


def many_classes(layers=("learning",)):
    shares = [(k, x, min(1.0, x + 0.1 * k)) for k in range(3) for x in (0.0, 0.5, 1.0)]
    parts = [
        log([(run, 5, f"roc.class_{k}.at_{x:.2f}", v) for run in (1, 2) for k, x, v in shares], layer)
        for layer in layers
    ]
    return noted(pd.concat(parts), [], [["red", "green", "blue"]])


def test_several_classes_have_a_curve_each_and_their_mean():
    *curves, guessing = judgement.roc(many_classes()).lines
    assert [line.get_label() for line in curves] == ["mean over classes", "red", "green", "blue"]
    np.testing.assert_allclose(curves[0].get_ydata(), [0.1, 0.6, 1])
    np.testing.assert_allclose(curves[3].get_ydata(), [0.2, 0.7, 1])
    assert guessing.get_label() == "random guess"


def test_of_several_layers_with_several_classes_only_the_means_are_drawn():
    *curves, _ = judgement.roc(many_classes(("one", "other"))).lines
    assert [line.get_label() for line in curves] == ["one, mean over classes", "other, mean over classes"]
    np.testing.assert_allclose(curves[1].get_ydata(), [0.1, 0.6, 1])


def test_a_threshold_that_few_runs_reach_is_reached_later_than_the_last_cycle():
    rows = accuracies([{1: 0.5, 20: 0.9}, {1: 0.5, 20: 0.6}, {1: 0.5, 20: 0.6}])
    cells = judgement.time_table(rows, (0.9,)).tables[0].get_celld()
    assert cells[1, 1].get_text().get_text() == "> 20 (1 of 3 runs)"


def accuracies(runs):
    return log([(run, c, "accuracy.mean", v) for run, curve in enumerate(runs, 1) for c, v in curve.items()])


def test_the_time_to_an_accuracy_is_the_median_of_first_cycles():
    rows = accuracies([{1: 0.5, 10: 0.9, 20: 0.7}, {1: 0.8, 10: 0.8, 20: 0.9}, {1: 0.1, 10: 0.2, 20: 0.3}])
    found = numbers.time_to(rows, (0.7, 0.9, 0.95)).set_index("threshold")
    assert found["cycle"].tolist() == [10, 20, math.inf]
    assert found["reached"].tolist() == [2, 2, 0]
    assert found.loc[0.7, ["first", "slowest"]].tolist() == [1, 10]
    words = judgement.time_cells(found.reset_index(), 20)
    assert words.iloc[0].tolist() == ["10 (2 of 3 runs)", "20 (2 of 3 runs)", "never"]
    cells = judgement.time_table(rows, (0.7,)).tables[0].get_celld()
    assert [cells[0, 1].get_text().get_text(), cells[1, 1].get_text().get_text()] == [
        "accuracy ≥ 0.7",
        "10 (2 of 3 runs)",
    ]


def test_an_error_is_reached_from_above():
    rows = accuracies([{1: 0.5, 10: 0.1}]).assign(metric="error.mean")
    assert numbers.time_to(rows, (0.2,), "error")["cycle"].tolist() == [10]


def test_a_scatter_plot_has_the_records_of_each_class_and_the_lines():
    x, labels = np.array([[0, 1], [0, 2], [3, 0.0]]), np.array([0, 0, 1])
    ax = scatter.scatter(x, labels, {"a line": (1, -2, 3), "upright": (1, 0, -2)})
    assert [np.asarray(part.get_offsets()).tolist() for part in ax.collections] == [[[0, 1], [0, 2]], [[3, 0]]]
    for line, (a, b, c) in zip(ax.lines, ((1, -2, 3), (1, 0, -2)), strict=True):
        for place in (line.get_xy1(), line.get_xy2()):
            assert a * place[0] + b * place[1] + c == pytest.approx(0)
    with pytest.raises(UserError, match="is not a line"):
        scatter.scatter(x, labels, {"nothing": (0, 0, 1)})
    with pytest.raises(UserError, match="two features"):
        scatter.scatter(np.zeros((3, 4)), labels)


LAYERS = (
    {"name": "peers", "use": "uniform"},
    {"name": "published", "use": "data_perturbation", "epsilon": 50.0},
    {"name": "learning", "use": "golf", "peers": "peers", "records": "published"},
)
DATA = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}


def test_the_plane_of_a_run_has_its_published_records_and_lines_that_separate_them():
    run = finished(learning_tree(*LAYERS, data=DATA, cycles=20))
    plane, raw = scatter.plane_of(run), scatter.plane_of(run, published=False)
    assert plane.x.shape == raw.x.shape == (80, 2)
    assert set(plane.lines) == {"learning", "LibSVM"}
    noise = np.abs(plane.x - raw.x)
    assert 0 < np.median(noise) < 0.3  # x plus noise, and not the product with the label
    for a, b, c in raw.lines.values():
        assert ((raw.x @ [a, b] + c >= 0) == (raw.labels == 1)).mean() > 0.95


def test_the_planes_of_a_sweep_stand_side_by_side_under_one_key():
    sweep = {"published.epsilon": [math.inf, 1.0]}
    planes = scatter.planes_of(Scenario.of(learning_tree(*LAYERS, data=DATA, cycles=5, sweep=sweep)))
    assert list(planes) == ["ε = ∞", "ε = 1"]
    ax = scatter.scatters(planes)
    assert [axes.get_title() for axes in ax.figure.axes] == ["ε = ∞", "ε = 1"]
    (key,) = ax.figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["class 0", "class 1", "learning", "LibSVM"]


def test_a_plane_needs_two_features_and_a_learner():
    with pytest.raises(UserError, match="no learning layer"):
        scatter.plane_of(finished(learning_tree(*LAYERS[:2], data=DATA)))
    spam = {"set": "spambase", "train": 40, "test": 30, "scale": ["minmax", "l1"]}
    with pytest.raises(UserError, match="two features"):
        scatter.plane_of(finished(learning_tree(*LAYERS, data=spam)))
    with pytest.raises(UserError, match="one class"):
        scatter.libsvm(np.zeros((3, 2)), np.zeros(3))
