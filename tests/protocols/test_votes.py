"""Classifiers of histogram cells against plain references, and what their vote makes of Adult."""

import math
from pathlib import Path

import naive
import numpy as np
import pytest
from helpers import ALPHA, JIT, needs_jit, p_of_chi_square

from golfsim.core import rng as counters
from golfsim.core.errors import UserError
from golfsim.data import loading
from golfsim.data.cards import card_of
from golfsim.data.config import DataConfig
from golfsim.data.grouping import Grouping, coded
from protocols.anonml.histograms import (
    cells,
    collect,
    decode,
    draw_key,
    draw_subsets,
    estimate,
    partition,
    perturbation,
    plan_of,
    project,
    reports_of,
)
from protocols.anonml.quantiles import cuts_of, exact_cuts, private_cuts
from protocols.anonml.votes import (
    METRICS,
    Ensemble,
    Training,
    classify,
    design_of,
    mean_score,
    newton,
    sample_cells,
    split_cells,
    train,
    train_member,
    tree_tables,
    votes,
)

KEY = counters.key(1, "votes", "test")
ALPHABETS = np.array([3, 2, 2])


def noisy_histogram(rng, alphabets=ALPHABETS, n=500.0):
    """Class 1 is likelier for larger codes; a few cells are empty."""
    codes, label = decode(np.arange(cells(alphabets, 2), dtype=np.int32), alphabets, 2)
    weight = np.exp((2 * label - 1) * (codes.sum(axis=1) - 1.5)) * rng.uniform(0.2, 1, len(label))
    weight[rng.integers(0, len(label), 3)] = 0
    return project(weight / weight.sum() * n, n)


# Learners


def test_combinations_are_a_constant_and_all_values_but_the_first():
    assert design_of(np.array([2, 3])).tolist() == [
        [1, 0, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 0, 1],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 0, 1],
    ]


@pytest.mark.parametrize("lam", [1e-1, 1e-3, 1e-6])
def test_logistic_regression_on_cells_is_the_minimum_of_the_reference(rng, lam):
    histogram, design = noisy_histogram(rng), design_of(ALPHABETS)
    w = np.zeros(design.shape[1])
    newton(design, (histogram / histogram.sum()).reshape(-1, 2), lam, w)
    expected = naive.logistic_minimum(np.repeat(design, 2, axis=0), np.tile([0, 1], len(design)), histogram, lam)
    assert w == pytest.approx(expected, abs=1e-3)
    residual = (1 / (1 + np.exp(-design @ w)) * histogram.reshape(-1, 2).sum(axis=1) - histogram[1::2]) @ design
    assert residual / histogram.sum() + lam * w == pytest.approx(0, abs=1e-9)


def test_logistic_regression_of_separable_cells_comes_to_an_end():
    design, share = design_of(np.array([2])), np.array([[0.5, 0.0], [0.0, 0.5]])
    w = np.zeros(2)
    newton(design, share, 1e-6, w)
    assert np.isfinite(w).all()
    assert (design @ w > 5).tolist() == [False, True]


@pytest.mark.parametrize("depth", [1, 2, None])
def test_a_tree_on_cells_is_the_tree_of_scikit_learn(rng, depth):
    from sklearn.tree import DecisionTreeClassifier

    for _ in range(20 if JIT else 5):
        histogram, design = noisy_histogram(rng), design_of(ALPHABETS)
        share = (histogram / histogram.sum()).reshape(1, -1, 2)
        table = np.empty((1, len(design)))
        tree_tables(design, share, -1 if depth is None else depth, table)
        x, y, seen = np.repeat(design, 2, axis=0), np.tile([0, 1], len(design)), histogram > 0
        tree = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(x[seen], y[seen], histogram[seen])
        known = share[0].sum(axis=1) > 0
        assert table[0][known] == pytest.approx(tree.predict_proba(design)[known, 1])


def test_a_tree_splits_where_no_single_column_helps():
    design, share = design_of(np.array([2, 2])), np.array([[[0.25, 0], [0, 0.25], [0, 0.25], [0.25, 0]]])
    table = np.empty((1, 4))
    tree_tables(design, share, -1, table)
    assert table.tolist() == [[0, 1, 1, 0]]


# Samples, folds, scores


def test_synthetic_records_are_as_frequent_as_their_cells(rng):
    histogram = noisy_histogram(rng)
    counts = np.zeros_like(histogram)
    n = 20_000 if JIT else 2000
    sample_cells(KEY, 0, 0, np.cumsum(histogram), n, counts)
    assert counts.sum() == n
    assert (counts[histogram == 0] == 0).all()
    kept = histogram > 0
    assert p_of_chi_square(counts[kept], histogram[kept] / histogram.sum() * n) > ALPHA
    other = np.zeros_like(histogram)
    sample_cells(KEY, 0, 1, np.cumsum(histogram), n, other)
    assert (other != counts).any()


def test_folds_share_out_each_cell_as_the_reference_does(rng):
    histogram = noisy_histogram(rng, n=120.0)
    held = np.zeros((4, histogram.size))
    split_cells(KEY, 2, 7, histogram, held)
    assert held == pytest.approx(naive.folds(KEY, 2, 7, histogram, 4))
    assert held.sum(axis=0) == pytest.approx(histogram)


@pytest.mark.parametrize("metric", list(METRICS))
def test_scores_of_weighted_cells_are_those_of_so_many_records(rng, metric):
    for _ in range(10):
        held = rng.integers(0, 5, (8, 2)).astype(float)
        table = rng.choice([0.1, 0.3, 0.5, 0.7, 0.9], 8)
        scores = np.repeat(np.repeat(table, 2), held.ravel().astype(int))
        y = np.repeat(np.tile([0, 1], 8), held.ravel().astype(int))
        hard = (scores >= 0.5).astype(int)
        expected = {"f1": naive.f1(hard, y), "auc": naive.auc(scores, y), "accuracy": (hard == y).mean()}[metric]
        assert mean_score(METRICS[metric], table[None], held[None]) == pytest.approx(expected)


def test_scores_of_nothing_are_those_of_a_guess():
    nothing, table = np.zeros((1, 4, 2)), np.full((1, 4), 0.7)
    assert [mean_score(METRICS[m], table, nothing) for m in ("f1", "auc", "accuracy")] == [0, 0.5, 0]


@pytest.mark.parametrize("learner", ["logistic", "tree"])
def test_a_member_is_scored_on_records_that_it_did_not_see(rng, learner):
    # Labels have nothing to do with the values, so a member that has seen the records looks better than it is.
    alphabets = np.array([4, 4, 4])
    histogram = rng.multinomial(60, np.full(cells(alphabets, 2), 1 / cells(alphabets, 2))).astype(float)
    table, score = train_member(histogram, alphabets, Training(learner, metric="accuracy"), KEY, 0, 0)
    on_seen = mean_score(METRICS["accuracy"], table[None], histogram.reshape(1, -1, 2))
    assert on_seen > {"logistic": 0.6, "tree": 0.8}[learner]
    assert score < 0.6


@pytest.mark.parametrize("records", ["weighted", "synthetic"])
@pytest.mark.parametrize("learner", ["logistic", "tree"])
def test_a_member_finds_what_its_histogram_shows(rng, learner, records):
    histogram = noisy_histogram(rng)
    table, score = train_member(histogram, ALPHABETS, Training(learner, records), KEY, 0, 0)
    share = histogram[1::2] / np.maximum(histogram.reshape(-1, 2).sum(axis=1), 1e-9)
    assert np.corrcoef(table, share)[0, 1] > 0.8
    assert 0.6 < score < 1


def test_balanced_classes_vote_for_the_rare_one_as_well(rng):
    histogram = np.array([900.0, 50.0, 100.0, 60.0])
    balanced, _ = train_member(histogram, np.array([2]), Training(balanced=True), KEY, 0, 0)
    plain, score = train_member(histogram, np.array([2]), Training(balanced=False), KEY, 0, 0)
    assert (balanced >= 0.5).tolist() == [False, True]
    assert (plain < 0.5).all()
    assert score == 0


@pytest.mark.parametrize("learner", ["logistic", "tree"])
@pytest.mark.parametrize("records", ["weighted", "synthetic"])
def test_a_member_without_reports_has_no_say(learner, records):
    table, score = train_member(np.zeros(8), np.array([2, 2]), Training(learner, records), KEY, 0, 0)
    assert (table.tolist(), score) == ([0.5] * 4, 0)


@pytest.mark.parametrize("learner", ["logistic", "tree"])
def test_a_member_that_has_seen_one_class_votes_for_it(learner):
    table, _ = train_member(np.array([0.0, 40, 0, 60]), np.array([2]), Training(learner), KEY, 0, 0)
    assert (table > 0.9).all()


# Ensembles


def test_the_vote_is_that_of_the_source(rng):
    subsets = [np.array([0, 2], np.int32), np.array([1], np.int32)]
    histograms = [noisy_histogram(rng, ALPHABETS[subset], 90.0) for subset in subsets]
    ensemble = train(histograms, subsets, ALPHABETS, Training(), KEY)
    codes = np.stack([rng.integers(0, a, 40) for a in ALPHABETS], axis=1).astype(np.int32)
    tables = [
        train_member(h, ALPHABETS[s], Training(), KEY, 0, i)
        for i, (h, s) in enumerate(zip(histograms, subsets, strict=True))
    ]
    for record, vote, soft in zip(codes, votes(ensemble, codes), votes(ensemble, codes, soft=True), strict=True):
        p = [tables[0][0][record[0] * 2 + record[2]], tables[1][0][record[1]]]
        assert vote == pytest.approx(naive.ensemble_score(ensemble.score, [x >= 0.5 for x in p]))
        assert soft == pytest.approx(naive.ensemble_score(ensemble.score, p))
    assert classify(np.array([-0.1, 0.0, 0.1])).tolist() == [0, 1, 1]


@pytest.mark.parametrize("how", [Training(), Training("tree", "synthetic", "auc")], ids=["logistic", "tree"])
def test_ensembles_do_not_depend_on_threads(rng, how):
    subsets = [np.array([i % 3], np.int32) for i in range(6)]
    histograms = [noisy_histogram(rng, ALPHABETS[subset]) for subset in subsets]
    one, two = (train(histograms, subsets, ALPHABETS, how, KEY, threads=threads) for threads in (1, 2))
    for ours, theirs in zip(one, two, strict=True):
        assert ours.tolist() == theirs.tolist()
    codes = np.stack([rng.integers(0, a, 2000) for a in ALPHABETS], axis=1).astype(np.int32)
    assert votes(one, codes).tolist() == votes(two, codes, threads=2).tolist()
    assert isinstance(one, Ensemble)


def test_what_cannot_be_trained_is_refused():
    subset, histogram = [np.array([0], np.int32)], [np.ones(6)]
    with pytest.raises(UserError, match="at least 2"):
        train(histogram, subset, ALPHABETS, Training(folds=1), KEY)
    with pytest.raises(UserError, match="λ is 0"):
        train(histogram, subset, ALPHABETS, Training(lam=0.0), KEY)
    with pytest.raises(UserError, match="two classes"):
        train([np.ones(9)], subset, ALPHABETS, Training(), KEY)


def test_derived_keys_differ():
    assert len({int(draw_key(KEY, number)) for number in range(100)}) == 100


# Adult, from end to end


@pytest.fixture(scope="module")
def adult():
    return loading.load(DataConfig(set="adult"), 1, Path())


def trial(data, epsilon, size, number, parts, how, seed):
    """The AUC of an ensemble on Adult's test records, as in Cyphers (2017), figure 8-2."""
    card, n = card_of("adult"), len(data.y)
    grouping = Grouping.of_card(card)
    keys = {name: counters.key(seed, "trial", name) for name in ("order", "answers", "bits", "draws", "train")}
    cuts, response = {}, perturbation("random-response", epsilon=epsilon, values=2)
    for k, name in enumerate(grouping.numeric):
        if math.isinf(epsilon):
            cuts[name] = exact_cuts(data.columns[name])
            continue
        order = counters.permutation(keys["order"], k, n)
        searches = private_cuts(data.columns[name], order, card.bounds[name], response, key=keys["answers"], k=k)
        cuts[name] = cuts_of(searches)
    seen, test = coded(data.columns, grouping, cuts), coded(data.test_columns, grouping, cuts)
    subsets = draw_subsets(keys["draws"], 0, parts, seen.alphabets.size, size, number)
    members = [subset for own in subsets for subset in own]
    part = partition(keys["draws"], 1, n, parts)
    reports = reports_of(part, subsets, seen.codes, data.y, seen.alphabets, 2)
    hows = [perturbation("best", epsilon=epsilon, values=cells(seen.alphabets[s], 2)) for s in members]
    plan = plan_of(hows)
    counts, arrived = collect(keys["bits"], 0, reports, np.ones(reports.peer.size, np.bool_), plan)
    histograms = [project(h, float(m)) for h, m in zip(estimate(counts, arrived, plan), arrived, strict=True)]
    ensemble = train(histograms, members, seen.alphabets, how, keys["train"])
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(data.test_y, votes(ensemble, test.codes, soft=True))


@needs_jit
@pytest.mark.parametrize("learner", ["logistic", "tree"])
def test_c17_8_2_the_auc_rises_with_epsilon_to_that_without_noise(adult, learner):
    def auc(epsilon, *setting):
        return np.mean([trial(adult, epsilon, *setting, Training(learner), seed) for seed in range(6)])

    for setting in ((3, 2, 5), (1, 2, 20)):
        noisy, milder, mild, none = (auc(epsilon, *setting) for epsilon in (0.05, 0.5, 4.0, math.inf))
        assert noisy < milder < mild
        assert mild == pytest.approx(none, abs=0.015)
        assert none > 0.85
