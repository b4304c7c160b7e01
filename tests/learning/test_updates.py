"""One update of a model by a node's records."""

from unittest import mock

import naive
import numpy as np
import pytest
from helpers import rule_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from golfsim.learning.updates import update
from golfsim.protocol.records import Rows

SEEDS = st.integers(0, 10**6)


class Case:
    """A model, the records of three nodes, and a rule. Node 1 is the one that updates."""

    def __init__(self, seed, models, features, records, folded):
        rng = np.random.default_rng(seed)
        counts = np.array([2, records, 1])
        stop = np.cumsum(counts)
        slices = models if folded else 1
        x = rng.normal(size=(stop[-1], slices, features)).astype(np.float32)
        label = rng.integers(0, max(models, 2), stop[-1]).astype(np.int32)
        self.rows = Rows(x.reshape(-1, features), label, stop - counts, stop, folded)
        self.x = x
        self.w = rng.normal(size=(models, features)).astype(np.float32)
        self.mine = slice(stop[0], stop[1])

    def run(self, rule, age):
        out = np.full_like(self.w, np.nan)
        new_age = update(self.w, 0, np.int32(age), self.rows, 1, rule, out)
        return out, new_age

    def reference(self, learner, lam, age, one_by_one):
        """By naive.update; with the sign folded in, a model at a time with records of class 1."""
        x, label = self.x[self.mine].astype(np.float64), self.rows.label[self.mine]
        start = self.w.astype(np.float64)
        if not self.rows.folded:
            return naive.update((start, age), x[:, 0], label, lam, learner, not one_by_one)
        single = [
            naive.update((start[[m]], age), x[:, m], np.ones_like(label), lam, learner, not one_by_one)
            for m in range(len(start))
        ]
        return np.concatenate([weights for weights, _ in single]), single[0][1]


JUMPS = {"pegasos": 1, "perceptron": 0}  # the margin at which the step size jumps


def jump_distance(learner, run):
    """How near a margin comes to a jump of the step size, in units of its rounding error: there float32 may err."""
    distances, original = [np.inf], naive.LEARNERS[learner]

    def recording(w, x, y, t, lam):
        distances.append(abs(np.dot(w, y * x) - JUMPS[learner]) / (1 + np.abs(w * x).sum()))
        return original(w, x, y, t, lam)

    with mock.patch.dict(naive.LEARNERS, {learner: recording}):
        run()
    return min(distances)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("learner", naive.LEARNERS)
@settings(max_examples=25)
@given(
    seed=SEEDS,
    models=st.sampled_from([1, 3, 4]),
    features=st.integers(1, 9),
    records=st.integers(0, 5),
    lam=st.sampled_from([1e-4, 0.03, 1.0, 10.0]),
    age=st.sampled_from([0, 1, 2, 7, 1000]),
)
def test_an_update_is_that_of_the_papers(learner, one_by_one, folded, seed, models, features, records, lam, age):
    case = Case(seed, models, features, records, folded)
    assume(learner not in JUMPS or jump_distance(learner, lambda: case.reference(learner, lam, age, one_by_one)) > 1e-5)
    ref, ref_age = case.reference(learner, lam, age, one_by_one)
    with np.errstate(over="ignore"):  # exp of a huge margin: infinite, as it should be
        comp, comp_age = case.run(rule_of(learner, lam, one_by_one), age)
    assert comp_age == ref_age
    largest_step = 1 / (lam * (age + 1)) if learner in ("pegasos", "logistic") else 1
    assert np.allclose(comp, ref, rtol=1e-5, atol=1e-5 * (np.abs(case.w).max() + 4 * largest_step))


@pytest.mark.parametrize("learner", naive.LEARNERS)
@pytest.mark.parametrize("one_by_one", [True, False])
def test_an_update_changes_neither_the_model_it_starts_from_nor_the_records(learner, one_by_one):
    case = Case(seed=5, models=3, features=4, records=3, folded=False)
    w, x = case.w.copy(), case.rows.x.copy()
    case.run(rule_of(learner, 0.1, one_by_one), age=2)
    assert (case.w == w).all()
    assert (case.rows.x == x).all()


@pytest.mark.parametrize("learner", naive.LEARNERS)
def test_a_node_without_records_leaves_model_and_age_as_they_are(learner):
    case = Case(seed=6, models=1, features=3, records=0, folded=False)
    out, age = case.run(rule_of(learner, 0.1, False), age=4)
    assert (out == case.w).all()
    assert age == 4


@pytest.mark.parametrize(("sign", "rest"), [(1, 0.0), (-1, 1.0)])
def test_logistic_regression_survives_a_huge_margin(sign, rest):
    rows = Rows(np.ones((1, 1), np.float32), np.array([1], np.int32), np.array([0]), np.array([1]), False)
    w, out = np.full((1, 1), sign * 1e6, np.float32), np.empty((1, 1), np.float32)
    with np.errstate(over="ignore"):
        update(w, 0, np.int32(1), rows, 0, rule_of("logistic", 1.0, False), out)
    assert out[0, 0] == pytest.approx(sign * 5e5 + rest / 2)


def test_the_mean_of_yx_is_what_the_mean_learner_holds_after_one_pass(rng):
    x = rng.normal(size=(50, 1, 4)).astype(np.float32)
    label = rng.integers(0, 3, 50).astype(np.int32)
    rows = Rows(x[:, 0], label, np.array([0]), np.array([50]), False)
    out = np.zeros((3, 4), np.float32)
    assert update(out.copy(), 0, np.int32(0), rows, 0, rule_of("mean", 1.0, True), out) == 50
    signs = np.where(label[:, None] == np.arange(3), 1, -1)
    assert out == pytest.approx((signs[:, :, None] * x).mean(axis=0), abs=1e-6)
