"""Models from moments in closed form: against the references, scikit-learn, and pure noise."""

import warnings

import naive
import numpy as np
import pytest
from helpers import learning_tree, needs_jit, simulation
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import NearestCentroid

from golfsim.learning.closed_form import Settings, centroid, lda, unpack
from golfsim.protocol.moments import Precision, summed

FITS = [centroid, lda]


def noisy(seed, classes=3, features=3, number=400, noise=0.1, answers=0.05):
    """Numbers of records with noise, and the precision they have."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, classes, number)
    x = rng.normal(size=(classes, features))[label] * 0.3 + rng.normal(size=(number, features)) * 0.2
    z = x + noise * rng.normal(size=x.shape)
    indicator = np.eye(classes)[label] + answers * rng.normal(size=(number, classes))
    each = [
        (e, np.outer(e, one), np.outer(one, one) - noise**2 * np.eye(features))
        for e, one in zip(indicator, z, strict=True)
    ]
    return naive.moments(each, True), Precision(True, answers, noise**2, noise**2), x


def scores(w, x):
    return x @ w[:, :-1].T + w[:, -1]


def compared(found, expected):
    """Scores that may differ by a number that is equal for all classes; for two classes only their difference."""
    if found.shape[1] == 1:
        return found[:, 0], expected[:, 1] - expected[:, 0]
    return found - found[:, :1], expected - expected[:, :1]


def parts(numbers, classes, features):
    found = unpack(numbers, classes, features)
    return found.number, found.counts, found.squares, found.blocks, found.second


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    classes=st.sampled_from([2, 3, 5]),
    number=st.sampled_from([6, 30, 400]),
    noise=st.sampled_from([0.05, 0.3, 2.0]),
    answers=st.sampled_from([0.0, 0.05, 0.5, 3.0]),
    shrink=st.sampled_from([0.0, 0.5, 1.0, 4.0]),
)
def test_both_fits_are_those_of_the_references(seed, classes, number, noise, answers, shrink):
    numbers, precision, x = noisy(seed, classes, 3, number, noise, answers)
    count, counts, squares, blocks, second = parts(numbers, classes, 3)
    sound = counts * (counts - 1) + count * answers**2 > 1e-9  # not: a class of one record, whose variance is unknown
    if not sound[counts > answers * np.sqrt(count)].all():
        return
    settings = Settings(precision, shrink=shrink)
    ours = scores(centroid(numbers, classes, 3, settings), x)
    theirs = naive.centroid_scores(x, count, counts, squares, blocks, answers, shrink)
    assert np.subtract(*compared(ours, theirs)) == pytest.approx(0, abs=1e-9)
    ours = scores(lda(numbers, classes, 3, settings), x)
    theirs = naive.lda_scores(x, count, counts, squares, blocks, second, answers, noise**2, noise**2, shrink)
    assert np.subtract(*compared(ours, theirs)) == pytest.approx(0, abs=1e-6)
    unknown = Settings(precision._replace(counted=False))
    ours = scores(lda(numbers, classes, 3, unknown), x)
    if classes == 2:  # as published: blocks of yx with the same half of the record each
        blocks = np.array([blocks[0] - blocks[1], blocks[1] - blocks[0]]) / 2
    theirs = naive.least_squares_scores(x, count, blocks, second, noise**2, noise**2)
    assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("fit", FITS)
def test_means_over_nodes_give_the_model_of_sums(fit):
    numbers, precision, _ = noisy(3)
    of_sums = fit(numbers, 3, 3, Settings(precision))
    assert fit(numbers / 50, 3, 3, Settings(precision, nodes=50)) == pytest.approx(of_sums, rel=1e-9)


@pytest.mark.parametrize("fit", FITS)
def test_without_records_the_model_is_zero(fit):
    assert not fit(np.zeros_like(noisy(1)[0]), 3, 3, Settings()).any()


def test_a_class_of_which_too_few_records_are_known_has_the_common_mean():
    numbers, precision, _ = noisy(5, answers=0.2)
    for few in (-1.0, 0.0, 0.19 * np.sqrt(400)):
        numbers[2] = few  # the number of records of the second class
        w = centroid(numbers, 3, 3, Settings(precision))
        assert not w[1].any()
        assert w[0].any()
        assert np.isfinite(lda(numbers, 3, 3, Settings(precision))).all()


def test_a_class_mean_that_is_nearer_than_its_error_has_no_influence():
    """Squared lengths of 1 per record are all noise if the means differ by less than 1/20."""
    number, classes, features = 300, 3, 4
    means = 0.25 + 0.01 * np.random.default_rng(1).normal(size=(classes, features))
    blocks = 100 * means
    numbers = np.array([number, *[100.0] * classes, *[100.0] * classes, *blocks.ravel()])
    w = centroid(numbers, classes, features, Settings(Precision(True, 0.01, 1.0)))
    assert not w[:, :-1].any()
    exact = centroid(numbers, classes, features, Settings(Precision()))
    assert exact.any()


def test_without_any_class_mean_the_class_with_the_most_records_is_chosen():
    numbers = np.array([300, 80, 120, 100, *[100.0] * 3, *[20.0, 30.0, 25.0]])
    w = centroid(numbers, 3, 1, Settings(Precision(True, 0.01, 1.0)))
    assert not w[:, 0].any()
    assert w[:, 1].argmax() == 1
    two = centroid(np.array([300, 180, 120, *[100.0] * 2, *[45.0, 30.0]]), 2, 1, Settings(Precision(True, 0.01, 1.0)))
    assert two[0, 0] == 0 > two[0, 1]


def test_pure_noise_is_shrunk_to_about_nothing():
    """For means of pure noise in 100 dimensions the factor is below .35 in all but one of 10⁴ cases of a class."""
    rng, number, features = np.random.default_rng(7), 300, 100
    label, z = rng.integers(0, 3, number), rng.normal(size=(number, features))
    each = [(np.eye(3)[y], np.outer(np.eye(3)[y], one), np.zeros((1, 1))) for y, one in zip(label, z, strict=True)]
    numbers = naive.moments(each, False)
    shrunk, plain = (centroid(numbers, 3, features, Settings(p)) for p in (Precision(True, 0.0, 1.0), Precision()))
    length = [np.linalg.norm(w[:, :-1], axis=1) for w in (shrunk, plain)]
    assert (length[0] < 0.35 * length[1]).all()


@needs_jit
@pytest.mark.parametrize("name", ["segmentation", "spambase"])
def test_without_noise_the_models_are_those_of_scikit_learn(name):
    data = {"set": name, "scale": ["minmax", "l1"], "bounds": "train"}
    made = simulation(
        learning_tree({"name": "best", "use": "optimum", "records": "raw"}, data=data, nodes={"records": 1})
    )
    raw, nodes = made.raw, np.arange(made.world.nodes, dtype=np.int32)
    x, y, classes = raw.rows.x.astype(np.float64), raw.rows.label, raw.classes
    numbers = summed(raw, made.world, nodes, True)

    def chosen(w):
        found = scores(w, x)
        return found.argmax(axis=1) if len(w) > 1 else (found[:, 0] >= 0).astype(int)

    moments = numbers[: width_without_second(classes, raw.features)]
    assert (chosen(centroid(moments, classes, raw.features, Settings())) == nearest(x, y)).all()
    # scikit-learn needs features without linear dependence; the class that LDA chooses does not depend on the others.
    columns = independent(x)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x[:, columns], y).predict(x[:, columns])
    assert (chosen(lda(numbers, classes, raw.features, Settings())) == theirs).mean() > 0.999
    if classes == 2:
        theirs = LinearRegression(fit_intercept=False).fit(x, 2 * y - 1).predict(x) >= 0
        assert (chosen(lda(numbers, 2, raw.features, Settings(Precision(False)))) == theirs).all()


def width_without_second(classes, features):
    return 1 + 2 * classes + classes * features


def nearest(x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a feature without variance
        return NearestCentroid().fit(x, y).predict(x)


def independent(x):
    """Columns that are no linear function of the ones before, and the constant."""
    chosen, basis = [], [np.ones(len(x)) / np.sqrt(len(x))]
    for column in range(x.shape[1]):
        rest = x[:, column].copy()
        for vector in basis * 2:
            rest -= (rest @ vector) * vector
        if np.linalg.norm(rest) > 1e-5 * np.linalg.norm(x):
            chosen.append(column)
            basis.append(rest / np.linalg.norm(rest))
    return chosen
