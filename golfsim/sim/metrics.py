"""Compute metrics of predictions: summaries over nodes, AUC, F1, confusion matrix, ROC curve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import inlined, kernel
from golfsim.core.maths import exp, log, log1p, log_of
from golfsim.core.metrics import QUANTILES, Metric

Metrics = dict[str, float]


SMALLEST = 2.0**-1022
FALSE_POSITIVES = np.linspace(0, 1, 21)
METRICS = (
    Metric(
        "auc",
        "The area under the ROC curve; with more than two classes the mean over one-versus-rest problems.",
        "area from 0 to 1",
        "up",
        True,
    ),
    Metric(
        "f1",
        "The F1 score of class 1; with more than two classes the mean over the classes that occur or are predicted.",
        "score from 0 to 1",
        "up",
        True,
    ),
    Metric(
        "log_loss",
        "The mean of minus the natural logarithm of the probability that a model gives to the true class.",
        "nats per test record",
        "down",
        True,
    ),
    Metric(
        "confusion.actual_{a}.predicted_{p}",
        "The number of test records of class a that one node predicts to be of class p.",
        "test records",
    ),
    Metric(
        "roc.at_{share}",
        "The share of true positives of one node at this share of false positives, with two classes.",
        "share of positive test records",
        "up",
    ),
    Metric(
        "roc.class_{c}.at_{share}",
        "The same for class c against all other classes, with more than two classes.",
        "share of test records of the class",
        "up",
    ),
)  # of learning layers, if [observe] asks for them


def summary(name: str, values: NDArray[Any]) -> Metrics:
    """Return the mean, standard deviation and quantiles over nodes."""
    found = {f"{name}.mean": float(values.mean()), f"{name}.std": float(values.std())}
    quantiles = np.quantile(values, QUANTILES)
    return found | {f"{name}.q{round(100 * q):02}": float(v) for q, v in zip(QUANTILES, quantiles, strict=True)}


def nmi(predicted: NDArray[np.int32], y: NDArray[np.int32], clusters: int, classes: int) -> NDArray[np.float64]:
    """Return the normalised mutual information of the clusters of each node and the classes.

    It is the mutual information divided by the mean of both entropies; 0 if all records are in one cluster.
    """
    found = []
    for one in predicted.T:
        counts = np.bincount(one * classes + y, minlength=clusters * classes).reshape(clusters, classes)
        joint, rows, columns = (_entropy(c, y.size) for c in (counts, counts.sum(axis=1), counts.sum(axis=0)))
        shared, mean = rows + columns - joint, (rows + columns) / 2
        found.append(max(shared, 0.0) / mean if mean > 0 else 1.0)
    return np.array(found)


def _entropy(counts: NDArray[np.int64], total: int) -> float:
    share = counts[counts > 0] / total
    return -math.fsum((share * log_of(share)).tolist())


@inlined
def softplus(s):
    """Return log(1 + e^s)."""
    return max(s, 0.0) + log1p(exp(-abs(s)))


@kernel
def add_log_loss(scores, y, each, loss):
    """Add minus the logarithm of the probability of the true class of each record, per node, in order.

    Scores [records, nodes, models] are logarithms of odds. With one model they are those of class 1. Otherwise they are
    those of all classes (softmax) or, if `each`, of each class against the others, whose probabilities are divided by
    their sum.
    """
    records, nodes, models = scores.shape
    for r in range(records):
        for n in range(nodes):
            if models == 1:
                s = np.float64(scores[r, n, 0]) if y[r] == 1 else -np.float64(scores[r, n, 0])
                loss[n] += softplus(-s)
            elif each:
                total = 0.0
                for c in range(models):
                    total += exp(-softplus(-np.float64(scores[r, n, c])))
                loss[n] += softplus(-np.float64(scores[r, n, y[r]])) + log(max(total, SMALLEST))
            else:
                largest = scores[r, n, 0]
                for c in range(1, models):
                    largest = max(largest, scores[r, n, c])
                total = 0.0
                for c in range(models):
                    total += exp(np.float64(scores[r, n, c]) - np.float64(largest))
                loss[n] += log(total) + np.float64(largest) - np.float64(scores[r, n, y[r]])


def log_loss(scores: NDArray[np.float32], y: NDArray[np.int32], each: bool) -> NDArray[np.float64]:
    """Return the mean log loss of each node."""
    loss = np.zeros(scores.shape[1])
    add_log_loss(scores, y, each, loss)
    return loss / len(y)


@kernel
def add_errors(scores, y, squares, distances):
    """Add the squared and the absolute differences between scores [records, nodes] and numbers, per node, in order."""
    for r in range(scores.shape[0]):
        for n in range(scores.shape[1]):
            apart = np.float64(scores[r, n]) - np.float64(y[r])
            squares[n] += apart * apart
            distances[n] += abs(apart)


def rmse_and_mae(scores: NDArray[np.float32], y: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the root of the mean squared error, and the mean absolute error, of the scores of each node."""
    squares, distances = np.zeros((2, scores.shape[1]))
    add_errors(scores[:, :, 0], y, squares, distances)
    return {"rmse": np.sqrt(squares / len(y)), "mae": distances / len(y)}


def worst_tenth(values: NDArray[np.float64], rising: bool) -> float:
    """Return the mean of the worst tenth of some values, and at least of one; `rising`: larger values are better."""
    number = -(-values.size // 10)
    return float(np.sort(values)[:number].mean() if rising else np.sort(values)[-number:].mean())


def auc(scores: NDArray[np.float32], y: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the area under the ROC curve of each node.

    With more than two classes it is the mean over the one-versus-rest problems.
    """
    from scipy.stats import rankdata

    models = scores.shape[2]
    areas = []
    for model in range(models):
        positive = y == (1 if models == 1 else model)
        pairs = positive.sum() * (~positive).sum()
        ranks = rankdata(scores[:, :, model], axis=0)[positive].sum(axis=0)
        if pairs:
            areas.append((ranks - positive.sum() * (positive.sum() + 1) / 2) / pairs)
    return np.mean(areas, axis=0) if areas else np.full(scores.shape[1], np.nan)


def confusion(predicted: NDArray[np.int32], y: NDArray[np.int32], classes: int) -> Metrics:
    """Return the confusion matrix: the number of test records per true and predicted class."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (y, predicted), 1)
    return {f"confusion.actual_{a}.predicted_{p}": float(counts[a, p]) for a in range(classes) for p in range(classes)}


def roc(scores: NDArray[Any], y: NDArray[np.int32]) -> Metrics:
    """Return the ROC curve of one node: true positive rates at fixed false positive rates.

    Rates are interpolated between thresholds. With more than two classes there is one curve per class, which compares
    the class with all others. A class that has no test record, or all of them, has no curve.
    """
    models = scores.shape[1]
    names = ["roc"] if models == 1 else [f"roc.class_{number}" for number in range(models)]
    found: Metrics = {}
    for model, name in enumerate(names):
        rates = _roc(scores[:, model], y == (1 if models == 1 else model))
        found |= {f"{name}.at_{share:.2f}": float(rate) for share, rate in zip(FALSE_POSITIVES, rates, strict=False)}
    return found


def _roc(scores: NDArray[Any], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    falling = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[falling]) != 0, True)  # of records with the same score
    hits = np.append(0, np.cumsum(positive[falling])[last])
    misses = np.append(0, np.cumsum(~positive[falling])[last])
    if not (hits[-1] and misses[-1]):
        return np.empty(0)
    return np.asarray(np.interp(FALSE_POSITIVES, misses / misses[-1], hits / hits[-1]))


def f1(predicted: NDArray[np.int32], y: NDArray[np.int32], classes: int) -> NDArray[np.float64]:
    """Return the F1 score of class 1 for each node.

    With more than two classes it is the mean over the classes that occur or are predicted.
    """
    found = []
    for one in [1] if classes == 2 else range(classes):
        hit, true = predicted == one, (y == one)[:, None]
        both = hit.sum(axis=0) + true.sum()
        score = 2 * (hit & true).sum(axis=0) / np.maximum(both, 1)
        found.append(score if classes == 2 else np.where(both > 0, score, np.nan))
    return np.asarray(np.nanmean(found, axis=0))
