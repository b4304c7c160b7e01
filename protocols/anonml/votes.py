"""Learn from estimated histograms: one classifier per histogram, and their weighted vote (Cyphers 2017, section 6.2).

A histogram counts combinations of few values and a binary label, so its classifier is a table: the probability of class
1 for each combination. It is learned from the cells as weighted records, or from records sampled from the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel, leaf
from golfsim.core.maths import exp, factorise, log1p, substitute
from golfsim.core.rng import below, draw, unit
from golfsim.core.threads import in_threads, over_ranges
from golfsim.core.words import counted
from protocols.anonml.histograms import draw_key, strides

STEPS = 60  # the most steps of Newton's method; about ten are usual
SMALLEST_SLOPE = 1e-10
SLACK = 1e-13  # rounding may increase the loss by this much at the minimum
F1, AUC, ACCURACY = range(3)
METRICS = {"f1": F1, "auc": AUC, "accuracy": ACCURACY}

Table = NDArray[np.float64]


class Ensemble(NamedTuple):
    """Classifiers with their scores; member i uses the features feature[start[i]] … feature[start[i+1]−1]."""

    start: NDArray[np.int64]
    feature: NDArray[np.int32]
    stride: NDArray[np.int64]  # of each of these features in the member's table
    first: NDArray[np.int64]  # where each member's table begins
    table: NDArray[np.float64]  # the probability of class 1
    score: NDArray[np.float64]


# Logistic regression


@leaf
def margin(design, row, w):
    """Return the score of a row."""
    z = 0.0
    for f in range(w.size):
        z += design[row, f] * w[f]
    return z


@leaf
def sigmoid(z):
    """Return 1/(1 + e^−z), without overflow for any z."""
    e = exp(-abs(z))
    return 1 / (1 + e) if z >= 0 else e / (1 + e)


@leaf
def regularised_loss(design, share, lam, w):
    """Return the mean logistic loss of cells with shares [cells, 2] of the records, plus λ/2 |w|²."""
    loss = 0.0
    for f in range(w.size):
        loss += lam / 2 * w[f] * w[f]
    for c in range(design.shape[0]):
        z = margin(design, c, w)
        flat = log1p(exp(-abs(z)))
        loss += share[c, 0] * (max(z, 0.0) + flat) + share[c, 1] * (max(-z, 0.0) + flat)
    return loss


@leaf
def derivatives(design, share, lam, w, gradient, hessian):
    """Write the derivatives of the regularised loss, and return the largest absolute entry of the gradient.

    Parameters
    ----------
    design : array of float64, shape (cells, columns)
        The combinations of values as rows of zeros and ones.
    share : array of float64, shape (cells, 2)
        The share of the records per cell and class.
    lam : float
        The regularisation λ.
    w : array of float64, shape (columns,)
        The weights.
    gradient : array of float64, shape (columns,)
        The gradient; filled here.
    hessian : array of float64, shape (columns, columns)
        The Hessian, its lower triangle; filled here.
    """
    d = w.size
    for f in range(d):
        gradient[f] = lam * w[f]
        for g in range(d):
            hessian[f, g] = lam if f == g else 0.0
    for c in range(design.shape[0]):
        both = share[c, 0] + share[c, 1]
        p = sigmoid(margin(design, c, w))
        for f in range(d):
            if design[c, f] != 0:
                gradient[f] += design[c, f] * (p * both - share[c, 1])
                for g in range(f + 1):
                    hessian[f, g] += both * p * (1 - p) * design[c, f] * design[c, g]
    steepest = 0.0
    for f in range(d):
        steepest = max(steepest, abs(gradient[f]))
    return steepest


@kernel
def newton(design, share, lam, w):
    """Move w to the minimum of the regularised loss by Newton's method; a step that increases the loss is halved."""
    gradient, tried, hessian = np.empty_like(w), np.empty_like(w), np.empty((w.size, w.size))
    loss = regularised_loss(design, share, lam, w)
    for _ in range(STEPS):
        if derivatives(design, share, lam, w, gradient, hessian) < SMALLEST_SLOPE:
            return
        factorise(hessian)
        substitute(hessian, gradient)
        scale, reached = 1.0, np.inf
        while reached > loss + SLACK and scale > 1e-9:
            for f in range(w.size):
                tried[f] = w[f] - scale * gradient[f]
            reached = regularised_loss(design, share, lam, tried)
            scale /= 2
        for f in range(w.size):  # in a loop, which compiles much faster than a slice
            w[f] = tried[f]
        loss = reached


@kernel
def logistic_tables(design, shares, lam, tables):
    """Write the table of a logistic regression for each set of shares [sets, cells, 2]."""
    w = np.zeros(design.shape[1])
    for s in range(shares.shape[0]):
        newton(design, shares[s], lam, w)
        for c in range(design.shape[0]):
            tables[s, c] = sigmoid(margin(design, c, w))


# Decision trees


@leaf
def impurity(zeros, ones):
    """Return the Gini impurity (the probability that two records differ) times the weight."""
    return 2 * zeros * ones / (zeros + ones) if zeros + ones > 0 else 0.0


@leaf
def best_split(design, share, node, this):
    """Return the column whose split has the least impurity; −1 if no column divides the weight."""
    best, least = -1, np.inf
    for f in range(1, design.shape[1]):
        zeros = ones = zeros_in = ones_in = 0.0
        for c in range(design.shape[0]):
            if node[c] == this:
                zeros += share[c, 0]
                ones += share[c, 1]
                zeros_in += share[c, 0] * design[c, f]
                ones_in += share[c, 1] * design[c, f]
        left = impurity(zeros_in, ones_in) + impurity(zeros - zeros_in, ones - ones_in)
        if 0 < zeros_in + ones_in < zeros + ones and left < least:
            best, least = f, left
    return best


@kernel
def tree_tables(design, shares, depth, tables):
    """Write the table of a decision tree (Breiman et al. 1984) for each set of shares; a depth below 0 is no limit.

    Nodes are split as long as they contain both classes and some column divides their weight.
    """
    cells = design.shape[0]
    node, level = np.empty(cells, np.int64), np.empty(2 * cells, np.int64)
    for s in range(shares.shape[0]):
        node[:] = 0
        level[0], nodes, this = 0, 1, 0
        while this < nodes:
            inside = node == this
            zeros, ones = shares[s][inside, 0].sum(), shares[s][inside, 1].sum()
            mixed = zeros > 0 and ones > 0 and level[this] != depth
            column = best_split(design, shares[s], node, this) if mixed else -1
            if column < 0:
                tables[s][inside] = ones / (zeros + ones) if zeros + ones > 0 else 0.5
                this += 1
                continue
            node[inside & (design[:, column] > 0)] = nodes
            level[this] += 1
            level[nodes] = level[this]
            nodes += 1


# Samples and folds


@kernel
def sample_cells(key, cycle, member, cumulative, records, counts):
    """Sample records from a histogram and count them per cell.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle, member : int
        The cycle and the member, which select the draws.
    cumulative : array of float64, shape (cells,)
        The cumulative sums of the histogram.
    records : int
        The number of records to sample.
    counts : array of float64, shape (cells,)
        The counts; changed in place.
    """
    for r in range(records):
        place = unit(draw(key, cycle, member, r)) * cumulative[-1]
        counts[min(np.searchsorted(cumulative, place, side="right"), counts.size - 1)] += 1


@kernel
def split_cells(key, cycle, member, weights, folds):
    """Divide the weight of each cell among folds (rows of `folds`): each of its records goes to a random fold.

    A weight that is not an integer is rounded up to a number of records of equal weight.
    """
    for c in range(weights.size):
        records = np.int64(np.ceil(weights[c]))
        for r in range(records):
            fold = below(draw(key, cycle, member, (np.int64(c) << np.int64(32)) + r), folds.shape[0])
            folds[fold, c] += weights[c] / records


# Scores


@leaf
def f1_of(table, held):
    """Return the F1 score of class 1 for weights [cells, 2]; 0/0 is 0."""
    right = either = 0.0
    for c in range(table.size):
        if table[c] >= 0.5:
            right += held[c, 1]
            either += held[c, 0]
        either += held[c, 1]
    # F1 = 2·right / (2·right + wrong): the denominator counts predicted or true ones, and the right ones twice.
    return 2 * right / (either + right) if either + right > 0 else 0.0


@leaf
def accuracy_of(table, held):
    """Return the share of the weight that is classified correctly; 0 if there is no weight."""
    right = whole = 0.0
    for c in range(table.size):
        right += held[c, 1] if table[c] >= 0.5 else held[c, 0]
        whole += held[c, 0] + held[c, 1]
    return right / whole if whole > 0 else 0.0


@kernel
def auc_of(table, held):
    """Return the share of pairs in which class 1 has the higher score; ties count one half.

    The result is one half if a class has no weight.
    """
    order = np.argsort(table)
    below_it = pairs = won = tied_0 = tied_1 = 0.0
    for place in range(table.size):
        c = order[place]
        if place > 0 and table[c] > table[order[place - 1]]:
            won += tied_1 * (below_it + tied_0 / 2)
            below_it += tied_0
            tied_0 = tied_1 = 0.0
        tied_0 += held[c, 0]
        tied_1 += held[c, 1]
    won += tied_1 * (below_it + tied_0 / 2)
    pairs = held[:, 0].sum() * held[:, 1].sum()
    return won / pairs if pairs > 0 else 0.5


@kernel
def mean_score(metric, tables, held):
    """Return the mean score of tables [folds, cells] on the held-out weights [folds, cells, 2]."""
    total = 0.0
    for fold in range(tables.shape[0]):
        if metric == F1:
            total += f1_of(tables[fold], held[fold])
        elif metric == AUC:
            total += auc_of(tables[fold], held[fold])
        else:
            total += accuracy_of(tables[fold], held[fold])
    return total / tables.shape[0]


@kernel
def add_votes(ensemble, codes, lo, hi, soft, out):
    """Write the weighted vote of all members on records lo … hi−1: + score for class 1, − score for class 0.

    Parameters
    ----------
    ensemble : Ensemble
        The members.
    codes : array of int32, shape (records, columns)
        The codes of the records.
    lo, hi : int
        The range of records.
    soft : bool
        Whether members vote with their probability of class 1; otherwise with 0 or 1.
    out : array of float64, shape (records,)
        The votes; filled here.
    """
    for r in range(lo, hi):
        total = 0.0
        for i in range(ensemble.score.size):
            cell = ensemble.first[i]
            for f in range(ensemble.start[i], ensemble.start[i + 1]):
                cell += codes[r, ensemble.feature[f]] * ensemble.stride[f]
            p = ensemble.table[cell]
            vote = p if soft else (1.0 if p >= 0.5 else 0.0)
            total += ensemble.score[i] * (2 * vote - 1)
        out[r] = total


# Training


@dataclass(frozen=True)
class Training:
    """The settings of the training and scoring of members."""

    learner: Literal["logistic", "tree"] = "logistic"
    records: Literal["weighted", "synthetic"] = "weighted"  # the cells, or the same number of records sampled from them
    metric: Literal["f1", "auc", "accuracy"] = "f1"
    folds: int = 5
    lam: float = 1e-3
    depth: int | None = None  # of a tree
    balanced: bool = True  # both classes have equal weight in training; scores use the original weights


def design_of(alphabets: NDArray[Any]) -> NDArray[np.float64]:
    """Return all combinations of values as rows of zeros and ones: a constant, and all but one value per feature."""
    combinations = np.arange(int(np.prod(alphabets)))
    columns = [np.ones((combinations.size, 1))]
    for size, stride in zip(alphabets, strides(alphabets), strict=True):
        columns.append(combinations[:, None] // stride % size == np.arange(1, size))
    return np.hstack(columns, dtype=np.float64)


def train(
    histograms: Sequence[NDArray[np.float64]],
    subsets: Sequence[NDArray[np.int32]],
    alphabets: NDArray[np.int64],
    how: Training,
    key: np.uint64,
    cycle: int = 0,
    threads: int = 1,
) -> Ensemble:
    """Return the ensemble with one trained and scored member per histogram.

    Parameters
    ----------
    histograms : sequence of arrays of float64
        One histogram per member, over a subset of features and two classes; no cell is negative.
    subsets : sequence of arrays of int32
        The features of each histogram.
    alphabets : array of int64, shape (columns,)
        The number of values of each column.
    how : Training
        The settings.
    key : uint64
        The key of the draws.
    cycle : int
        The cycle, which selects the draws.
    threads : int
        The number of threads.
    """
    _check(histograms, subsets, alphabets, how)

    def member(i: int) -> tuple[Table, float]:
        return train_member(histograms[i], alphabets[subsets[i]], how, key, cycle, i)

    tables, scores = zip(*in_threads(threads, member, range(len(subsets))), strict=True)
    return Ensemble(
        start=np.cumsum([0, *map(len, subsets)], dtype=np.int64),
        feature=np.concatenate(subsets).astype(np.int32),
        stride=np.concatenate([strides(alphabets[subset]) for subset in subsets]),
        first=np.cumsum([0, *map(len, tables)], dtype=np.int64)[:-1],
        table=np.concatenate(tables),
        score=np.array(scores, np.float64),
    )


def _check(
    histograms: Sequence[NDArray[np.float64]],
    subsets: Sequence[NDArray[np.int32]],
    alphabets: NDArray[np.int64],
    how: Training,
) -> None:
    if how.folds < 2:
        raise UserError(
            f"got {counted(how.folds, 'fold')} of a cross-validation", key="folds", hint="expected at least 2"
        )
    if not how.lam > 0:
        raise UserError(f"λ is {how.lam:g}", key="lambda", hint="it must be above 0; 1e-6 has almost no effect")
    for histogram, subset in zip(histograms, subsets, strict=True):
        if histogram.size != 2 * np.prod(alphabets[subset]):
            raise UserError(
                f"the histogram of the features {subset.tolist()} has {counted(histogram.size, 'cell')}",
                hint="members learn two classes: expected twice the product of the numbers of values of the features",
            )


def train_member(
    histogram: NDArray[np.float64], alphabets: NDArray[np.int64], how: Training, key: np.uint64, cycle: int, member: int
) -> tuple[Table, float]:
    """Return the table of a member, and its score by cross-validation on the same noisy histogram.

    Parameters
    ----------
    histogram : array of float64, shape (cells,)
        The estimated histogram.
    alphabets : array of int64
        The number of values of each of its features.
    how : Training
        The settings.
    key : uint64
        The key of the draws.
    cycle, member : int
        The cycle and the member, which select the draws.
    """
    histogram = _training_counts(histogram, how, key, cycle, member)
    held = np.zeros((how.folds, histogram.size))
    split_cells(draw_key(key, 0), cycle, member, histogram, held)
    seen = np.concatenate([histogram[None], histogram - held]).reshape(how.folds + 1, -1, 2)
    seen = np.maximum(seen, 0)  # rounding may make differences slightly negative
    shares = _shares(seen, how.balanced)
    tables = _LEARNERS[how.learner](design_of(alphabets), shares, how)
    tables[shares.sum(axis=(1, 2)) == 0] = 0.5
    score = mean_score(METRICS[how.metric], tables[1:], held.reshape(how.folds, -1, 2))
    return tables[0], float(score) if histogram.any() else 0.0


def _training_counts(
    histogram: NDArray[np.float64], how: Training, key: np.uint64, cycle: int, member: int
) -> NDArray[np.float64]:
    if how.records == "weighted" or not histogram.any():
        return histogram
    counts = np.zeros_like(histogram)
    records = round(float(histogram.sum()))
    sample_cells(draw_key(key, 1), cycle, member, np.cumsum(histogram), records, counts)
    return counts


def _shares(weights: NDArray[np.float64], balanced: bool) -> NDArray[np.float64]:
    """Return weights [sets, cells, 2] as shares with sum 1 (if there is any weight); balanced: 1/2 for each class."""
    total = weights.sum(axis=(1, 2), keepdims=True)
    if balanced:
        of_class = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(of_class > 0, of_class, 1)
        total = weights.sum(axis=(1, 2), keepdims=True)
    return weights / np.where(total > 0, total, 1)


def _logistic(design: NDArray[np.float64], shares: NDArray[np.float64], how: Training) -> NDArray[np.float64]:
    tables = np.empty(shares.shape[:2])
    logistic_tables(design, shares, how.lam, tables)
    return tables


def _trees(design: NDArray[np.float64], shares: NDArray[np.float64], how: Training) -> NDArray[np.float64]:
    tables = np.empty(shares.shape[:2])
    tree_tables(design, shares, -1 if how.depth is None else how.depth, tables)
    return tables


_LEARNERS: dict[str, Callable[..., NDArray[np.float64]]] = {"logistic": _logistic, "tree": _trees}


# Voting


def votes(ensemble: Ensemble, codes: NDArray[np.int32], *, soft: bool = False, threads: int = 1) -> NDArray[np.float64]:
    """Return Σ s_i g_i − Σ s_i (1 − g_i) for the codes of records [n, features] (Cyphers 2017, section 6.2).

    Members vote 0 or 1; with `soft` they vote with their probabilities of class 1, which ranks records more finely.
    """
    out = np.empty(len(codes))
    over_ranges(threads, lambda lo, hi: add_votes(ensemble, codes, lo, hi, soft, out), 0, len(codes))
    return out


def classify(vote: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return class 1 if the vote is not negative, else class 0 (Cyphers 2017, equation 6.2)."""
    return (vote >= 0).astype(np.int32)
