"""k-means: its updates, the matching of centroids, merges, and normalised mutual information."""

import naive
import numpy as np
import pytest
from helpers import finished, learning_tree, needs_jit, rule_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score

from golfsim.core.simd import dot_at
from golfsim.learning.kinds import with_room
from golfsim.learning.learners.clusters import FARTHEST, assign, squared_distance
from golfsim.learning.merging import merge_in
from golfsim.learning.updates import scores_of, update
from golfsim.protocol.records import Rows
from golfsim.sim.metrics import nmi

SEEDS = st.integers(0, 10**6)
PEERS = {"name": "peers", "use": "uniform"}
GOLF = {"name": "golf", "use": "golf", "peers": "peers", "records": "raw"}


def centroids_of(row, features):
    """The centroids of a model, None where one is missing."""
    parts = row.reshape(-1, features + 1)
    return [part[:-1].astype(float) if part[-1] else None for part in parts]


def model_of(centroids, features):
    row = [np.append(np.zeros(features), 0) if c is None else np.append(c, 1) for c in centroids]
    return np.concatenate(row).astype(np.float32)[None]


def some_model(rng, k, features, missing=0):
    made = [rng.normal(size=features).astype(np.float32) for _ in range(k)]
    return [None if c >= k - missing else one for c, one in enumerate(made)]


def rule(k, features, **table):
    return with_room(rule_of({"use": "kmeans", "clusters": k} | table, 1.0, True, features=features, classes=3))


@settings(max_examples=30)
@given(seed=SEEDS, k=st.integers(1, 5), features=st.integers(1, 20), window=st.sampled_from([2.0, 10.0, 100.0]))
def test_a_model_takes_its_first_records_as_centroids_and_then_moves_the_nearest(seed, k, features, window):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3 * k, features)).astype(np.float32)
    x[1] = x[0]  # a record that is a centroid already
    rows = Rows(x, np.zeros(len(x), np.int32), np.array([0]), np.array([len(x)]), False)
    out = np.empty((1, k * (features + 1)), np.float32)
    assert update(np.zeros_like(out), 0, np.int32(5), rows, 0, rule(k, features, window=window), out) == 5 + len(x)
    expected = naive.k_means([None] * k, x.astype(float), 2 / window)
    for got, ref in zip(centroids_of(out[0], features), expected, strict=True):
        assert (got is None) == (ref is None)
        assert got is None or np.allclose(got, ref, atol=1e-4)


@settings(max_examples=50)
@given(seed=SEEDS, k=st.integers(1, 6), features=st.integers(1, 10), share=st.sampled_from([0.0, 0.25, 0.5]))
def test_centroids_are_matched_before_they_are_averaged(seed, k, features, share):
    rng = np.random.default_rng(seed)
    mine, theirs = some_model(rng, k, features), some_model(rng, k, features)
    a, b = model_of(theirs, features), model_of(mine, features)
    merge_in(rule(k, features), a, 0, b, 0, np.float32(share), 1)
    pairs = naive.best_matching(mine, theirs)
    expected = [share * theirs[d] + (1 - share) * mine[c] for c, d in enumerate(pairs)]
    assert np.allclose(np.stack(centroids_of(b[0], features)), np.stack(expected), atol=1e-4)
    b = model_of(mine, features)
    merge_in(rule(k, features, match="order"), a, 0, b, 0, np.float32(share), 1)
    assert np.allclose(
        np.stack(centroids_of(b[0], features)), share * np.stack(theirs) + (1 - share) * np.stack(mine), atol=1e-4
    )


@given(seed=SEEDS, k=st.integers(2, 5), lacks=st.integers(1, 4), other_lacks=st.integers(0, 4))
def test_a_model_without_all_centroids_takes_those_of_the_other(seed, k, lacks, other_lacks):
    rng = np.random.default_rng(seed)
    lacks, other_lacks = min(lacks, k), min(other_lacks, k)
    mine, theirs = some_model(rng, k, 3, lacks), some_model(rng, k, 3, other_lacks)
    if lacks < k and other_lacks < k:
        theirs[0] = mine[0]
    b = model_of(mine, 3)
    merge_in(rule(k, 3), model_of(theirs, 3), 0, b, 0, np.float32(0.5), 1)
    new = [one for one in theirs if one is not None and not any(m is not None and (m == one).all() for m in mine)]
    expected = [one for one in mine if one is not None] + new[:lacks]
    got = [one for one in centroids_of(b[0], 3) if one is not None]
    assert np.allclose(np.array(got).reshape(-1, 3), np.array(expected).reshape(-1, 3))
    full = model_of(some_model(rng, k, 3), 3)
    if other_lacks:
        kept = full.copy()
        merge_in(rule(k, 3), model_of(theirs, 3), 0, full, 0, np.float32(0.5), 1)
        assert (full == kept).all()  # nothing is averaged with what is not there


@settings(max_examples=50)
@given(seed=SEEDS, k=st.integers(1, 12), whole=st.booleans())
def test_the_assignment_is_that_of_scipy(seed, k, whole):
    rng = np.random.default_rng(seed)
    costs = (rng.integers(0, 5, (k, k)) if whole else rng.random((k, k))).astype(np.float32)
    work = np.zeros((1, k + k * k + 6 * (k + 1)), np.float32)
    work[0, k : k + k * k] = costs.ravel()
    assign(work, k)
    columns = work[0, :k].astype(int)
    assert sorted(columns) == list(range(k))
    assert costs[np.arange(k), columns].sum() == pytest.approx(costs[linear_sum_assignment(costs)].sum(), abs=1e-4)


@given(seed=SEEDS, size=st.integers(0, 40))
def test_squared_distances_are_sums_of_squares(seed, size):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 2, size + 3)).astype(np.float32)
    got = squared_distance(a, 1, 2, b, 0, 1, size)
    assert got == pytest.approx(np.square(a[1, 2 : 2 + size] - b[0, 1 : 1 + size]).sum(), rel=1e-4)
    assert dot_at(a, 1, 2, b, 0, 1, size) == pytest.approx(a[1, 2 : 2 + size] @ b[0, 1 : 1 + size], abs=1e-4)


def test_scores_are_minus_the_squared_distances_and_lowest_where_there_is_no_centroid():
    w = model_of([np.array([1.0, 2.0]), None, np.array([0.0, 0.0])], 2)
    out = np.empty((1, 3), np.float32)
    scores_of(rule(3, 2), w, 0, np.array([[1.0, 0.0]], np.float32), 0, out, 0)
    assert out[0].tolist() == [-4, FARTHEST, -1]


@settings(max_examples=30)
@given(seed=SEEDS, clusters=st.integers(1, 6), classes=st.integers(2, 5), records=st.integers(1, 60))
def test_mutual_information_is_that_of_scikit_learn(seed, clusters, classes, records):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, records).astype(np.int32)
    predicted = rng.integers(0, clusters, (records, 3)).astype(np.int32)
    predicted[:, 2] = y % clusters
    for found, one in zip(nmi(predicted, y, clusters, classes), predicted.T, strict=True):
        assert found == pytest.approx(normalized_mutual_info_score(y, one), abs=1e-9)
        assert found == pytest.approx(naive.mutual_information(one.tolist(), y.tolist()), abs=1e-9)


def test_a_layer_of_clusters_has_no_error_and_finds_the_two_gaussians():
    tree = learning_tree(PEERS, GOLF | {"learner": "kmeans"}, cycles=60, number=200)
    run = finished(
        tree | {"observe": {"every": 60, "nodes": "all", "metrics": ["auc", "roc"], "attacks": ["membership"]}}
    )
    found = run.latest["golf"]
    assert not any(name.startswith(("error", "accuracy", "auc", "roc", "membership")) for name in found)
    assert found["nmi.mean"] > 0.5
    assert found["nmi.std"] < 0.2


def test_a_single_cluster_tells_nothing():
    tree = learning_tree(PEERS, GOLF | {"learner": {"use": "kmeans", "clusters": 1}}, cycles=3)
    assert finished(tree).latest["golf"]["nmi.mean"] == 0


@needs_jit
def test_matching_is_what_makes_merging_work():
    """Models whose first records differ have their centroids in different orders: without matching they collapse."""
    data = {"set": "segmentation", "train": 600, "test": 200, "test_seed": 1, "scale": ["minmax"]}
    found = {}
    for match in ("optimal", "order"):
        layer = GOLF | {"learner": {"use": "kmeans", "match": match}, "variant": "mu"}
        tree = learning_tree(PEERS, layer, cycles=60, data=data, nodes={"records": 1})
        found[match] = finished(tree | {"observe": {"every": 60, "nodes": 50}}).latest["golf"]["nmi.mean"]
    assert found["optimal"] > found["order"]
