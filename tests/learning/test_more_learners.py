"""Nearest class means, linear regression, matrix factorisation, the data that they need, and log loss."""

import naive
import numpy as np
import pytest
from helpers import finished, learning_tree, rule_of, simulation
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from golfsim.core.errors import UserError
from golfsim.data.config import DataConfig
from golfsim.data.loading import load
from golfsim.learning.kinds import Room, with_room
from golfsim.learning.linear import fill_scores
from golfsim.learning.loading import make
from golfsim.learning.merging import merge_in
from golfsim.learning.online import Shape
from golfsim.learning.updates import scores_of, update
from golfsim.protocol.records import Rows
from golfsim.sim.metrics import log_loss, rmse_and_mae

SEEDS = st.integers(0, 10**6)
PEERS = {"name": "peers", "use": "uniform"}
GOLF = {"name": "golf", "use": "golf", "peers": "peers", "records": "raw"}
PLANE = {"set": "plane", "train": 200, "test": 100}
RATINGS = {"set": "ratings", "train": 900, "test": 300}
BY_USER = {"split": {"kind": "by", "column": "user"}}


def rows_of(x, label):
    return Rows(x.astype(np.float32), label, np.array([0]), np.array([len(x)]), False)


# Nearest class means


def means_rule(features, classes):
    return with_room(rule_of("centroid", 1.0, False, features=features, classes=classes))


def updated(rule, rows, size):
    out = np.empty((1, size), np.float32)
    update(np.zeros_like(out), 0, np.int32(0), rows, 0, rule, out)
    return out


def score(rule, w, x, outputs):
    out = np.empty((len(x), outputs), np.float32)
    for r in range(len(x)):
        scores_of(rule, w, 0, x.astype(np.float32), r, out, r)
    return out


@settings(max_examples=30)
@given(seed=SEEDS, features=st.integers(1, 20), classes=st.integers(2, 4), records=st.integers(1, 12))
def test_the_nearest_mean_has_the_largest_score(seed, features, classes, records):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(records, features)), rng.integers(0, classes, records).astype(np.int32)
    tested, rule = rng.normal(size=(5, features)), means_rule(features, classes)
    w = updated(rule, rows_of(x, y), classes * (features + 3))
    got = score(rule, w, tested, 1 if classes == 2 else classes)
    for one, values in zip(tested, got, strict=True):
        ref = naive.closeness_to_means(x, y, np.ones(records), classes, one)
        if classes == 2:
            expected = naive.difference_of_two(*ref)
            assert values[0] == pytest.approx(expected, abs=1e-3)
        else:
            assert [v for v in values if v > -1e38] == pytest.approx([v for v in ref if v is not None], abs=1e-3)


@settings(max_examples=20)
@given(seed=SEEDS, share=st.sampled_from([0.25, 0.5]))
def test_merged_means_are_those_of_all_records_with_their_weights(seed, share):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(12, 4)), (np.arange(12) % 3).astype(np.int32)
    rule = means_rule(4, 3)
    a, b = (updated(rule, rows_of(x[part], y[part]), 21) for part in (slice(0, 6), slice(6, 12)))
    merge_in(rule, a, 0, b, 0, np.float32(share), 1)
    weight = np.repeat([share, 1 - share], 6)
    one = rng.normal(size=4)
    expected = naive.closeness_to_means(x, y, weight, 3, one)
    assert score(rule, b, one[None], 3)[0] == pytest.approx(expected, abs=1e-3)


def test_the_squared_length_of_a_mean_of_few_records_is_right_on_average(rng):
    """Of 400 means of four records around (1, 0, …) the corrected one is 1; the plain one is 1 + 20/4 (5 σ)."""
    rule, found = means_rule(20, 3), []
    for _ in range(400):
        x = rng.normal(size=(4, 20)) + np.eye(20)[0]
        w = updated(rule, rows_of(x, np.zeros(4, np.int32)), 3 * 23)
        s, n = w[0, :20].astype(float), 4
        mean_score = score(rule, w, np.zeros((1, 20)), 3)[0, 0]
        found.append((-2 * mean_score, s @ s / n**2))
    corrected, plain = np.mean(found, axis=0)
    assert plain == pytest.approx(6, abs=0.5)
    assert corrected == pytest.approx(1.1, abs=0.5)  # never below 0, so a little above 1


# Linear regression


@settings(max_examples=20)
@given(seed=SEEDS, features=st.integers(1, 20), records=st.integers(1, 5))
def test_a_step_of_linear_regression_goes_against_the_slope_of_the_squared_error(seed, features, records):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(records, features)), rng.normal(size=records).astype(np.float32)
    rule = with_room(rule_of({"use": "linear_regression", "rate": 0.1}, 0.01, False, features=features, classes=0))
    w = rng.normal(size=(1, features + 1)).astype(np.float32)
    out = np.empty_like(w)
    update(w, 0, np.int32(0), rows_of(x, y), 0, rule, out)
    assert np.allclose(out[0], naive.regression_step(w[0].astype(float), x, y, 0.1, 0.01), atol=1e-4)
    scores = score(rule, w, x, 1)[:, 0]
    assert np.allclose(scores, x @ w[0, :-1] + w[0, -1], atol=1e-4)


def test_linear_regression_learns_the_plane():
    layer = GOLF | {"learner": {"use": "linear_regression", "rate": 0.3}}
    tree = learning_tree(PEERS, layer, data=PLANE, nodes={"records": 4}, cycles=300)
    found = finished(tree | {"observe": {"every": 300}}).latest["golf"]
    assert 0.09 < found["rmse.mean"] < 0.5  # the numbers have a standard deviation of 1.2, and noise of 0.1
    assert found["mae.mean"] < found["rmse.mean"]
    assert not any(name.startswith(("error", "accuracy")) for name in found)


@given(seed=SEEDS)
def test_errors_of_numbers_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    scores, y = rng.normal(size=(20, 3, 1)).astype(np.float32), rng.normal(size=20).astype(np.float32)
    found = rmse_and_mae(scores, y)
    for node in range(3):
        assert found["rmse"][node] == pytest.approx(metrics.mean_squared_error(y, scores[:, node, 0]) ** 0.5)
        assert found["mae"][node] == pytest.approx(metrics.mean_absolute_error(y, scores[:, node, 0]))


# Matrix factorisation


@settings(max_examples=20)
@given(seed=SEEDS, rank=st.integers(1, 4), node=st.integers(0, 2))
def test_a_user_s_visit_updates_the_items_it_rates_and_its_own_vector(seed, rank, node):
    rng = np.random.default_rng(seed)
    learner = make({"use": "matrix_factorisation", "rank": rank, "rate": 0.05, "fade": 0.1})
    shape = Shape(1, 0, 1, 6)
    rule = learner.rule(shape, 0.02, False)
    own = rng.normal(size=(3, rank + 2)).astype(np.float32)
    own[:, -1] = rng.integers(0, 2, 3)
    rule = with_room(rule._replace(room=rule.room._replace(own=own.copy())))
    w = rng.normal(size=(1, 6 * (rank + 1))).astype(np.float32)
    item, rating = rng.integers(0, 6, 9).astype(np.float32), rng.integers(1, 6, 9).astype(np.float32)
    first = np.array([0, 3, 6])
    out = np.empty_like(w)
    assert update(w, 0, np.int32(4), Rows(item[:, None], rating, first, first + 3, False), node, rule, out) == 5
    mine = slice(3 * node, 3 * node + 3)
    ref = naive.factorise(own[node], w[0], item[mine].astype(int), rating[mine], 0.05 / 1.4, 0.02)
    assert np.allclose(rule.room.own[node], ref[0], atol=1e-4)
    assert np.allclose(out[0], ref[1], atol=1e-4)
    others = np.arange(3) != node
    assert (rule.room.own[others] == own[others]).all()
    scores = np.empty((9 * 3, 1), np.float32)
    fill_scores(np.repeat(out, 3, axis=0), item[:, None], rule, np.arange(3), scores)
    for r in range(9):
        for n in range(3):
            expected = naive.rating(rule.room.own[n], out[0], int(item[r]))
            assert scores[3 * r + n, 0] == pytest.approx(expected, abs=1e-4)


def ratings_tree(**golf):
    layer = GOLF | {"learner": {"use": "matrix_factorisation", "rank": 3}, "lambda": 0.05} | golf
    return learning_tree(PEERS, layer, data=RATINGS, nodes=BY_USER, cycles=1)


def test_each_user_is_judged_on_its_own_ratings():
    run = finished(ratings_tree() | {"observe": {"every": 1, "nodes": "all"}})
    test, layer, found = run.observer._test, run.layers["golf"], run.latest["golf"]
    errors = []
    for node in np.unique(test.node):
        mine = test.of(node)
        own, model = layer.kept[node], layer.w[node].ravel()
        predicted = [naive.rating(own, model, int(item)) for item in test.x[mine, 0]]
        errors.append(np.sqrt(np.mean((predicted - test.y[mine]) ** 2)))
    assert found["rmse.mean"] == pytest.approx(np.mean(errors), abs=1e-4)
    assert found["measured"] == len(errors)
    users = run.observer._test.node.size
    assert users > 150  # of 300; the others are of users without a node


def test_what_describes_a_user_is_not_sent():
    run = finished(ratings_tree())
    layer = run.layers["golf"]
    assert layer.kept.any()
    assert layer._message_bytes == layer.w[0].nbytes + 4  # the items' numbers, and the age


def test_walks_over_users_are_judged_at_users():
    run = finished(ratings_tree(use="random_walk", walkers=3) | {"observe": {"every": 1, "nodes": 50}})
    assert run.latest["golf"]["measured"] > 0
    assert np.isfinite(run.latest["golf"]["rmse.mean"])


# Data whose labels are no classes


def refused(tree):
    with pytest.raises(UserError) as told:
        simulation(tree).step()
    return str(told.value)


def test_labels_that_do_not_fit_the_learner_are_refused():
    assert "needs labels that are classes; those of the data are numbers" in refused(
        learning_tree(PEERS, GOLF, data=PLANE)
    )
    assert "use learner = “linear_regression”" in refused(learning_tree(PEERS, GOLF, data=PLANE))
    numbers = GOLF | {"learner": "linear_regression"}
    assert "needs labels that are numbers; those of the data are classes" in refused(learning_tree(PEERS, numbers))
    assert "those of the data are ratings" in refused(learning_tree(PEERS, numbers, data=RATINGS, nodes=BY_USER))
    assert "to judge clusters by" in refused(learning_tree(PEERS, GOLF | {"learner": "kmeans"}, data=PLANE))


def test_layers_that_need_classes_refuse_numbers():
    numbers = GOLF | {"learner": "linear_regression"}
    erm = {"name": "erm", "use": "regularised_erm", "lambda": 0.1}
    published = {"name": "published", "use": "data_perturbation", "epsilon": 1.0}
    for layer in (erm, published):
        assert "needs records with classes" in refused(learning_tree(PEERS, numbers, layer, data=PLANE))
    skewed = {"number": 10, "records": 20, "split": {"kind": "label-skew", "alpha": 0.1}}
    assert "cannot be placed by classes" in refused(learning_tree(PEERS, numbers, data=PLANE, nodes=skewed))
    flips = learning_tree(PEERS, numbers, data=PLANE, adversary=[{"kind": "flip-labels", "share": 0.5}])
    assert "another kind of adversary" in refused(flips)


def test_ratings_are_placed_by_user():
    tree = ratings_tree() | {"nodes": {"records": 1}}
    assert 'split = { kind = "by", column = "user" }' in refused(tree)


def read(tmp_path, name, text, **keys):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load(DataConfig(file=name, shuffle=False, **keys), 1, tmp_path)


RATED = {
    "u.data": "7\t20\t3\t88\n7\t10\t5\t89\n8\t20\t1\t90\n",
    "ratings.dat": "7::20::3::88\n7::10::5::89\n8::20::1::90\n",
    "ratings.csv": "userId,movieId,rating,timestamp\n7,20,3,88\n7,10,5,89\n8,20,1,90\n",
    "own.csv": "rating,user,item\n3,7,20\n5,7,10\n1,8,20\n",
}


@pytest.mark.parametrize("name", RATED)
def test_ratings_are_read_in_the_formats_of_movielens(tmp_path, name):
    found = read(tmp_path, name, RATED[name], task="ratings", test=1)
    assert found.x[:, 0].tolist() == [1, 0]
    assert found.y.tolist() == [3, 5]
    assert found.columns["user"].tolist() == ["7", "7"]
    assert found.test_columns["user"].tolist() == ["8"]
    assert (found.items, found.task, found.classes) == (2, "ratings", ())


def test_files_with_numbers_and_ratings_that_cannot_be_used_are_refused(tmp_path):
    table = "a,b\n1,0.5\n2,0.25\n3,1\n"
    assert read(tmp_path, "a.csv", table, task="regression", test=1).y.tolist() == [0.5, 0.25]
    with pytest.raises(UserError, match="task = “regression”"):
        read(tmp_path, "a.csv", table, test=1)
    with pytest.raises(UserError, match="is no number"):
        read(tmp_path, "b.csv", "a,b\n1,x\n2,y\n", task="regression", test=1)
    with pytest.raises(UserError, match="no column for the item"):
        read(tmp_path, "c.csv", "user,film,rating\n1,2,3\n", task="ratings", test=1)
    with pytest.raises(UserError, match="unknown format for ratings"):
        read(tmp_path, "c.txt", "1 2 3", task="ratings", test=1)
    with pytest.raises(ValueError, match="not for task"):
        DataConfig(file="a.csv", task="regression", classes=("a", "b"))
    with pytest.raises(ValueError, match="no features to scale"):
        DataConfig(file="a.csv", task="ratings", scale=("l2",))


def test_generated_ratings_are_those_of_the_card():
    found = load(DataConfig(set="ratings", train=20_000, test=2000), 1, None)
    pairs = set(zip(found.columns["user"].tolist(), found.x[:, 0].tolist(), strict=True))
    assert len(pairs) == 20_000
    assert set(np.unique(found.y * 2)) <= set(range(2, 11))
    popular = np.sort(np.bincount(found.x[:, 0].astype(int)))[::-1]
    assert popular[:160].sum() > 0.35 * popular.sum()  # a tenth of the items has far more than a tenth of the ratings
    assert found.items <= 1600


# Log loss


@settings(max_examples=20)
@given(seed=SEEDS, classes=st.sampled_from([2, 3, 5]), each=st.booleans())
def test_log_loss_is_that_of_scikit_learn(seed, classes, each):
    rng = np.random.default_rng(seed)
    scores = (3 * rng.normal(size=(30, 2, 1 if classes == 2 else classes))).astype(np.float32)
    y = rng.integers(0, classes, 30).astype(np.int32)
    found = log_loss(scores, y, each)
    for node in range(2):
        raw = scores[:, node].astype(float)
        if classes == 2:
            one = 1 / (1 + np.exp(-raw))
            shares = np.hstack([1 - one, one])
        else:
            shares = 1 / (1 + np.exp(-raw)) if each else np.exp(raw - raw.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
        assert found[node] == pytest.approx(metrics.log_loss(y, shares, labels=range(classes)), rel=1e-4)


def test_log_loss_of_large_scores_is_finite():
    scores = np.array([[[1e30, -1e30, 0]], [[-1e5, -1e5, -1e5]]], np.float32)
    for each in (True, False):
        assert np.isfinite(log_loss(scores, np.array([1, 2], np.int32), each)).all()


def test_log_loss_is_refused_where_scores_are_no_log_odds():
    tree = learning_tree(PEERS, GOLF, cycles=2, observe={"every": 1, "metrics": ["log-loss"]})
    assert "no logarithms of odds" in refused(tree)
    tree["protocol"][1]["learner"] = "logistic"
    assert finished(tree).latest["golf"]["log_loss.mean"] > 0


def test_a_room_has_the_node():
    assert Room._fields[-1] == "node"
