"""Fitting models for all nodes at once: against scikit-learn and references, and how far a record moves a model."""

import math

import naive
import numpy as np
import pytest
from helpers import JIT, needs_jit

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.learning import erm
from golfsim.learning.erm import Solver, descent, newton
from golfsim.learning.erm.descent import Descent
from golfsim.learning.erm.newton import HUBER, LOGISTIC, Loss
from golfsim.learning.erm.nodes import Part, cross_validate
from golfsim.protocol.records import Rows

KINDS = {"logistic": Loss(LOGISTIC, 0.5), "huber": Loss(HUBER, 0.5)}
KEY = rng.key(1, "erm", "test")


def problem(random, counts, features, classes=2):
    """Records of length at most 1 for nodes that have so many each; labels that the features tell, but not quite."""
    total = sum(counts)
    x = random.standard_normal((total, features))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    score = x @ random.standard_normal((features, classes)) + 0.3 * random.standard_normal((total, classes))
    stop = np.cumsum(counts)
    return Rows(x.astype(np.float32), score.argmax(axis=1).astype(np.int32), stop - counts, stop, False)


def everybody(rows):
    return np.arange(rows.first.size, dtype=np.int32)


def signed(rows, node, model=0, models=1):
    """y·x of a node's records for one of its models."""
    mine = slice(rows.first[node], rows.stop[node])
    sides = [naive.signs(label, models)[model] for label in rows.label[mine]]
    return np.array(sides)[:, None] * rows.x[mine].astype(np.float64)


# The minimum


@pytest.mark.parametrize("lam", [1.0, 0.05, 1e-3])
@pytest.mark.parametrize(("n", "features"), [(12, 1), (40, 5), (5, 9), (33, 8)])
def test_logistic_weights_are_those_of_scikit_learn(rng, n, features, lam):
    from sklearn.linear_model import LogisticRegression

    rows = problem(rng, [n, n + 3], features)
    w = erm.fit(everybody(rows), rows, 1, KINDS["logistic"], np.full(2, lam))
    for node in range(2):
        mine = slice(rows.first[node], rows.stop[node])
        machine = LogisticRegression(
            C=1 / (len(rows.x[mine]) * lam), fit_intercept=False, tol=1e-10, max_iter=10_000, solver="newton-cholesky"
        )
        theirs = machine.fit(rows.x[mine].astype(np.float64), rows.label[mine]).coef_[0]
        assert w[node, 0] == pytest.approx(theirs, abs=1e-4)
        assert np.linalg.norm(theirs) > 0.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lam", [1.0, 0.02, 1e-3, 1e-6])
def test_every_model_is_that_of_the_reference(rng, kind, lam):
    rows = problem(rng, [9, 30, 17], 4, classes=3)
    w = erm.fit(everybody(rows), rows, 3, KINDS[kind], np.full(3, lam))
    for node in range(3):
        for model in range(3):
            ref = naive.erm_minimum(signed(rows, node, model, 3), lam, kind)
            assert np.linalg.norm(w[node, model] - ref) <= 1e-9 / lam


@pytest.mark.parametrize("kind", KINDS)
def test_a_linear_term_and_the_nodes_own_ridge_are_in_the_objective(rng, kind):
    rows = problem(rng, [20, 20], 3)
    ridge, b = np.array([0.1, 0.4]), rng.standard_normal((2, 1, 3))
    w = erm.fit(everybody(rows), rows, 1, KINDS[kind], ridge, b)
    for node in range(2):
        ref = naive.erm_minimum(signed(rows, node), ridge[node], kind, b[node, 0])
        assert w[node, 0] == pytest.approx(ref, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
def test_the_gradient_is_as_short_as_asked_for(rng, kind, tolerance):
    rows = problem(rng, [25], 6)
    w = erm.fit(everybody(rows), rows, 1, KINDS[kind], np.array([0.01]), solver=Solver(tolerance))
    assert np.linalg.norm(naive.erm_gradient(w[0, 0], signed(rows, 0), 0.01, kind)) <= tolerance * 1.001 + 1e-15


def test_more_features_than_records_are_no_trouble(rng):
    rows = problem(rng, [1, 2, 3], 40 if JIT else 12)
    w = erm.fit(everybody(rows), rows, 1, KINDS["logistic"], np.full(3, 0.1))
    for node in range(3):
        assert w[node, 0] == pytest.approx(naive.erm_minimum(signed(rows, node), 0.1, "logistic"), abs=1e-7)


def test_long_and_ill_conditioned_problems_are_solved(rng):
    n = 1200 if JIT else 40  # more than a chunk of the Hessian
    rows = problem(rng, [n], 6)
    rows.x[:, 1] = rows.x[:, 0] * np.float32(0.999)
    for lam in (1e-8, 1e-3):
        w = erm.fit(everybody(rows), rows, 1, KINDS["logistic"], np.array([lam]))
        assert np.linalg.norm(naive.erm_gradient(w[0, 0], signed(rows, 0), lam, "logistic")) <= 1.001e-9


def test_signs_may_be_folded_in_already(rng):
    rows = problem(rng, [15], 4, classes=3)
    z = np.stack([signed(rows, 0, model, 3) for model in range(3)], axis=1).reshape(-1, 4).astype(np.float32)
    folded = Rows(z, rows.label[:0], rows.first, rows.stop, True)
    plain, other = (erm.fit(everybody(rows), r, 3, KINDS["logistic"], np.array([0.1])) for r in (rows, folded))
    assert plain.tobytes() == other.tobytes()


def test_a_node_without_records_has_a_model_of_zeros(rng):
    rows = problem(rng, [4, 0, 4], 2)
    w = erm.fit(everybody(rows), rows, 1, KINDS["logistic"], np.full(3, 0.1))
    assert not w[1].any()
    assert w[0].any()
    assert w[2].any()


def test_only_the_records_of_a_part_are_used(rng):
    rows = problem(rng, [12, 12], 3)
    part = erm.parts(everybody(rows), rows, 3, KEY)
    for inside in (True, False):
        w = erm.fit(everybody(rows), rows, 1, KINDS["logistic"], np.full(2, 0.1), part=Part(part, 1, inside))
        for node in range(2):
            mine = (part[rows.first[node] : rows.stop[node]] == 1) == inside
            assert w[node, 0] == pytest.approx(naive.erm_minimum(signed(rows, node)[mine], 0.1, "logistic"), abs=1e-7)


def test_a_fit_that_does_not_converge_is_an_error_that_names_the_node(rng):
    rows = problem(rng, [9, 9, 9], 3)
    nodes = np.array([2, 1], np.int32)
    with pytest.raises(
        UserError, match=r"node 2 .* above the tolerance .* \(2 of 2 nodes did not converge\)"
    ) as caught:
        erm.fit(nodes, rows, 1, KINDS["logistic"], np.full(2, 0.1), solver=Solver(1e-9, most=1, layer="mine"))
    assert caught.value.key == "mine.tolerance"
    assert "use a larger tolerance" in str(caught.value)


def test_any_number_of_threads_gives_the_same_bits(rng):
    rows = problem(rng, list(range(1, 14)), 5, classes=3)
    nodes, lam = everybody(rows)[::-1].copy(), np.full(13, 0.01)
    for kind in KINDS.values():
        one, three = (erm.fit(nodes, rows, 3, kind, lam, solver=Solver(threads=t)) for t in (1, 3))
        assert one.tobytes() == three.tobytes()
    one, three = (erm.fit_with_lasso(nodes, rows, 3, KINDS["logistic"], lam, Solver(threads=t)) for t in (1, 3))
    assert one.tobytes() == three.tobytes()
    one, three = (erm.fit_as_published(nodes, rows, 3, KINDS["logistic"], lam, Descent(4), KEY, t) for t in (1, 3))
    assert one.tobytes() == three.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_and_their_slopes_are_those_of_the_reference(kind):
    margin = np.array([-40.0, -3, 0, 0.4, 0.5, 0.9, 1, 1.2, 1.5, 1.7, 40])
    slope, bend = np.empty(margin.size), np.empty(margin.size)
    newton.slopes(KINDS[kind], margin, margin.size, slope)
    newton.curvatures(KINDS[kind], margin, margin.size, bend)
    assert [newton.loss_of(KINDS[kind], m) for m in margin] == pytest.approx([naive.loss(m, kind) for m in margin])
    assert slope == pytest.approx([naive.loss_slope(m, kind) for m in margin])
    assert bend == pytest.approx([naive.loss_bend(m, kind) for m in margin])
    assert bend.max() <= KINDS[kind].curvature


# How far one record moves a model


def neighbours(random, n, features):
    """Two data sets that differ in one record: sometimes drawn alike, sometimes as far apart as can be."""
    rows = problem(random, [n, n], features)
    x, label = rows.x, rows.label
    x[:] /= np.maximum(np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True), 1e-9).astype(np.float32)
    if random.random() < 0.5:  # records that all but vanish leave the other one to move the model alone
        x *= np.float32(random.random())
    x[n:], label[n:] = x[:n], label[:n]
    place = random.integers(n)
    direction = random.standard_normal(features)
    x[place] = direction / np.linalg.norm(direction)
    x[n + place] = x[place] if random.random() < 0.5 else -x[place]
    label[place], label[n + place] = 1, (0 if (x[n + place] == x[place]).all() else 1)
    return rows


@needs_jit
@pytest.mark.parametrize(("kind", "reached"), [("logistic", 0.45), ("huber", 0.9)])
def test_one_record_never_moves_the_minimum_by_more_than_two_over_n_lambda(rng, kind, reached):
    shares = []
    for _ in range(400):
        n, features, lam = int(rng.integers(1, 30)), int(rng.integers(1, 8)), 10 ** rng.uniform(-4, 1)
        w = erm.fit(np.arange(2, dtype=np.int32), neighbours(rng, n, features), 1, KINDS[kind], np.full(2, lam))
        # Records are in single precision: a length of 1 may measure a little more.
        shares.append(np.linalg.norm(w[0] - w[1]) / (2 * (1 / n + 1e-9) / lam * (1 + 1e-6)))
    assert max(shares) <= 1
    assert max(shares) > reached  # the pairs are hard enough that a wrong bound would be noticed


@pytest.mark.parametrize("form", ["mean", "sum"])
def test_lasso_moves_by_far_more_than_two_over_n_lambda(form):
    """Two features that are all but alike: one record decides which of them carries the whole weight."""
    n, lam = 100, 0.1
    x = np.full((2 * n, 2), math.sqrt(0.5), np.float32)
    x[0], x[n] = (0.8, 0.6), (0.6, 0.8)
    rows = Rows(x, np.ones(2 * n, np.int32), np.array([0, n]), np.array([n, 2 * n]), False)
    mean = np.full(2, lam if form == "mean" else lam / n)
    lasso = erm.fit_with_lasso(everybody(rows), rows, 1, KINDS["logistic"], mean, Solver())
    ridge = erm.fit(everybody(rows), rows, 1, KINDS["logistic"], np.full(2, lam))
    bound = 2 / (n * lam)
    assert np.linalg.norm(lasso[0] - lasso[1]) > 10 * bound
    assert np.linalg.norm(ridge[0] - ridge[1]) < bound


# Lasso


@pytest.mark.parametrize("lam", [0.3, 0.02, 0.002])
def test_lasso_weights_are_those_of_the_reference(rng, lam):
    rows = problem(rng, [25, 14], 4)
    w = erm.fit_with_lasso(everybody(rows), rows, 1, KINDS["logistic"], np.full(2, lam), Solver(1e-10))
    for node in range(2):
        ref = naive.lasso_minimum(signed(rows, node), lam, "logistic", 12_000)
        assert w[node, 0] == pytest.approx(ref, abs=1e-4)
        assert ((w[node, 0] == 0) == (ref == 0)).all()


def test_lasso_of_a_hard_problem_is_solved(rng):
    rows = problem(rng, [60], 8)
    w = erm.fit_with_lasso(everybody(rows), rows, 1, KINDS["logistic"], np.array([1e-5]), Solver())
    gradient = naive.erm_gradient(w[0, 0], signed(rows, 0), 0.0, "logistic")
    assert abs(gradient).max() <= 1e-5 + 1e-8
    assert gradient[w[0, 0] != 0] == pytest.approx(-1e-5 * np.sign(w[0, 0])[w[0, 0] != 0], abs=1e-8)


# The source's descent


def descents(rng, lam, batch, penalty, tie):
    """Return models of two nodes, and those of the reference."""
    rows = problem(rng, [20, 11], 3)
    how = Descent(batch, penalty == "share", tie == "largest")
    w = erm.fit_as_published(everybody(rows), rows, 1, KINDS["logistic"], np.full(2, lam), how, KEY)
    fold = erm.parts(everybody(rows), rows, 3, KEY)
    expected = []
    for node in range(2):
        yx, mine = signed(rows, node), fold[rows.first[node] : rows.stop[node]]
        with np.errstate(over="ignore", invalid="ignore"):
            gamma = naive.best_rate(yx, mine, lam, batch, descent.SGD_RATES, penalty, tie)
        expected.append(naive.descend(yx, lam, gamma, batch, 100, 0.01, penalty))
    return w[:, 0], np.array(expected)


@pytest.mark.parametrize("tie", ["smallest", "largest"])
@pytest.mark.parametrize("penalty", ["share", "full"])
@pytest.mark.parametrize("lam", [0.01, 0.5, 4.0])
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_the_mini_batch_descent_is_that_of_the_reference(rng, lam, batch, penalty, tie):
    w, expected = descents(rng, lam, batch, penalty, tie)
    assert w == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_equally_good_learning_rates_lead_to_different_models_by_the_two_rules(rng):
    seed = int(rng.integers(1 << 30))
    smallest, largest = (descents(np.random.default_rng(seed), 0.5, 7, "share", t)[0] for t in ("smallest", "largest"))
    assert not np.allclose(smallest, largest)


def test_shares_of_the_penalty_lead_to_the_minimum_and_the_printed_rule_to_that_of_a_larger_lambda(rng):
    yx = signed(problem(rng, [20], 3), 0)
    for penalty, times in ("share", 1), ("full", 4):  # 20 records in batches of 5: four steps per epoch
        w = naive.descend(yx, 1.0, 1e-2, 5, 2000, 0, penalty)
        assert w == pytest.approx(naive.erm_minimum(yx, 2 * times / 20, "logistic"), abs=0.01)
        assert np.linalg.norm(w - naive.erm_minimum(yx, 2 * (5 - times) / 20, "logistic")) > 0.1


def test_the_descent_stops_early_where_newton_goes_on(rng):
    rows = problem(rng, [20], 3)
    early = erm.fit_as_published(everybody(rows), rows, 1, KINDS["logistic"], np.array([0.1]), Descent(5), KEY)
    exact = erm.fit(everybody(rows), rows, 1, KINDS["logistic"], np.array([0.01]))
    assert np.linalg.norm(early - exact) > 1e-3


# Choosing λ


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("per_sum", [False, True])
def test_cross_validation_counts_the_mistakes_of_the_reference(rng, classes, per_sum):
    models = 1 if classes == 2 else classes
    rows = problem(rng, [12, 17], 3, classes)
    grid, folds = np.array([0.5, 0.03]), 4
    fold = erm.parts(everybody(rows), rows, folds, KEY)
    wrong, reached = np.zeros((2, 2), np.int64), np.zeros(2)
    what = (everybody(rows), 0, 2, rows, fold, folds, models, KINDS["logistic"], grid, per_sum, 1e-9, 100)
    cross_validate(*what, wrong, reached)
    for node in range(2):
        mine = slice(rows.first[node], rows.stop[node])
        x, label, part = rows.x[mine].astype(np.float64), rows.label[mine], fold[mine]
        for g, lam in enumerate(grid):
            lam_for = (lambda n, lam=lam: 2 * lam / n) if per_sum else (lambda n, lam=lam: lam)
            assert wrong[node, g] == naive.fold_mistakes(x, label, part, lam_for, "logistic", models)
    assert wrong.any()


def test_the_largest_of_equally_good_lambdas_is_taken():
    x = np.array([[1.0], [0.9], [-1.0], [-0.8]], np.float32)  # any λ separates these
    rows = Rows(x, np.array([1, 1, 0, 0], np.int32), np.array([0]), np.array([4]), False)
    grid = np.array([0.1, 0.001, 10.0, 1.0])
    assert erm.best_lambda(everybody(rows), rows, 1, KINDS["logistic"], grid, 2, KEY, Solver()) == [10.0]


def test_the_lambda_with_the_fewest_mistakes_is_taken(rng):
    rows = problem(rng, [25], 2)
    rows.x[:] *= np.float32(0.05)
    rows.label[:] = rows.x[:, 0] > 0
    rows.x[:3] *= 20  # three long records with a wrong label outvote the others when λ is large
    rows.label[:3] = 1 - rows.label[:3]
    grid = np.array([100.0, 1e-5])
    part = erm.parts(everybody(rows), rows, 5, KEY)
    wrong = [naive.fold_mistakes(rows.x, rows.label, part, lambda n, lam=lam: lam, "logistic", 1) for lam in grid]
    assert wrong[0] != wrong[1]
    chosen = erm.best_lambda(everybody(rows), rows, 1, KINDS["logistic"], grid, 5, KEY, Solver(1e-8))
    assert chosen == grid[np.argmin(wrong)]


def test_parts_are_of_equal_size_and_at_random(rng):
    rows = problem(rng, [10, 7, 0, 9], 2)
    part = erm.parts(everybody(rows), rows, 3, KEY)
    for node, sizes in enumerate([[4, 3, 3], [3, 2, 2], [0, 0, 0], [3, 3, 3]]):
        assert np.bincount(part[rows.first[node] : rows.stop[node]], minlength=3).tolist() == sizes
    assert part.tolist() != erm.parts(everybody(rows), rows, 3, KEY + np.uint64(1)).tolist()
    assert part.tolist() == erm.parts(everybody(rows), rows, 3, KEY).tolist()


@pytest.mark.parametrize("classes", [2, 4])
def test_mistakes_are_those_of_the_reference(rng, classes):
    models = 1 if classes == 2 else classes
    rows = problem(rng, [9, 14], 3, classes)
    part = Part(erm.parts(everybody(rows), rows, 2, KEY), 1, True)
    w = rng.standard_normal((2, models, 3))
    wrong = [
        sum(naive.predict(w[node], rows.x[r]) != rows.label[r] for r in range(*span) if part.of[r] == 1)
        for node, span in enumerate(zip(rows.first, rows.stop, strict=True))
    ]
    assert erm.mistakes(everybody(rows), rows, part, w).tolist() == wrong
    assert 0 < sum(wrong) < math.inf
