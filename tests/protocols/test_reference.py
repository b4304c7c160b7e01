"""The reference: other learners on all raw records, the same as those of scikit-learn, and never private."""

import numpy as np
import pytest
from helpers import HERE, learning_tree
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from golfsim.core import rng
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from protocols import reference

KEYS = rng.key(1, "a", "sample"), rng.key(1, "a", "tree")


@pytest.fixture(scope="module")
def records():
    draw = np.random.default_rng(3)
    x = draw.random((300, 4), np.float32)
    y = ((x[:, 0] > 0.5) ^ (x[:, 1] > 0.3)) | (draw.random(300) < 0.1)
    return x, y.astype(np.int32)


def run(cycles=1, data=None, **settings):
    layer = {"name": "reference", "use": "reference", "trees": 5} | settings
    made = learning_tree(layer, cycles=cycles, number=40, **({"data": data} if data else {}))
    simulation = Simulation(Scenario.of(made, HERE))
    for _ in simulation:
        pass
    return simulation


def test_gradient_boosting_is_that_of_friedman(records):
    x, y = records
    ours = reference.gradient_boosting(x, y, 20, 3)(x)
    theirs = GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0).fit(x, y).decision_function(x)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_adaboost_is_that_of_freund_and_schapire(records):
    x, y = records
    stumps = DecisionTreeClassifier(max_depth=2, random_state=0)
    theirs = AdaBoostClassifier(stumps, n_estimators=15, random_state=0).fit(x, y)
    ours = reference.adaboost(x, y, 15, 2)(x)
    assert ((ours >= 0) == (theirs.predict(x) == 1)).all()
    np.testing.assert_allclose(
        ours / np.abs(ours).max(), (d := theirs.decision_function(x)) / np.abs(d).max(), atol=1e-6
    )


def test_logistic_regression_minimises_the_mean_loss_with_a_penalised_intercept(records):
    x, y = records
    ones = np.hstack([x, np.ones((len(x), 1))])
    theirs = LogisticRegression(C=1 / (0.01 * len(x)), fit_intercept=False, tol=1e-10, max_iter=1000).fit(ones, y)
    np.testing.assert_allclose(reference.logistic(x, y, 0.01)(x), theirs.decision_function(ones), atol=1e-4)


@pytest.mark.parametrize("features", [None, "sqrt"])
def test_bagging_is_the_mean_of_trees_on_samples_with_replacement(records, features):
    x, y = records
    one, two = (reference.bagging(x, y, trees, None, features, KEYS, 1, 0)(x) for trees in (1, 2))
    again = reference.bagging(x, y, 2, None, features, KEYS, 1, 0, threads=2)(x)
    assert set(np.unique(one)) == {-0.5, 0.5}, "a tree without a limit separates the classes"
    left_out = ((one >= 0) != y).mean()
    assert 0 < left_out < 0.25, "a sample leaves out a third of the records, and some of them are mistaken"
    assert set(np.unique(two)) == {-0.5, 0.0, 0.5}
    np.testing.assert_array_equal(two, again)


def test_trees_that_know_one_class_only_are_sure_of_it():
    x = np.zeros((5, 1), np.float32)
    for label, expected in ((0, -0.5), (1, 0.5)):
        y = np.full(5, label, np.int32)
        assert (reference.bagging(x, y, 3, None, None, KEYS, 1, 0)(x) == expected).all()


@pytest.mark.parametrize("learner", ["forest", "bagging", "adaboost", "boosting", "logistic"])
def test_every_learner_has_a_model_of_all_records_after_the_first_turn(learner):
    layer = run(cycles=2, learner=learner).layer("reference")
    assert (layer.fits, layer.collected.all()) == (1, True)
    assert str(layer.guarantee()) == "not private: a reference: one place has all raw records"
    assert layer.touches_private_data
    assert layer.disclosure().released == "all raw records"


def test_columns_are_those_of_the_card():
    layer = run(data={"set": "adult", "scale": ["minmax"], "train": 80, "test": 20}).layer("reference")
    x = layer.config.records.rows.x
    found = layer.table(x)
    assert found.shape == (80, 5 + 4 + 3 + 3 + 3 + 2 + 2 + 2)
    np.testing.assert_array_equal(found[:, :5].sum(axis=1), x[:, layer._coder.numbers].sum(axis=1))
    assert (found[:, 5:].sum(axis=1) == 7).all(), "one group of each of seven columns"
    unchanged = run(data={"set": "adult", "scale": ["minmax"], "train": 80, "test": 20}, grouping="none")
    assert unchanged.layer("reference").table(x).shape == (80, 105)
