"""Fit one model to all raw records in one place: a reference that is never private.

The learners are the ensembles of trees that are usual elsewhere: bagging (Breiman 1996), random forests (Breiman 2001),
AdaBoost (Freund & Schapire 1997) and gradient boosting (Friedman 2001), and logistic regression. scikit-learn grows the
single trees. Samples, weights and sums are computed here, so that no result depends on how a processor computes
exponentials.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core import rng
from golfsim.core.maths import exp_of, log_of, product
from golfsim.core.memory import size_of
from golfsim.learning import erm
from golfsim.learning.erm.newton import LOSSES, Loss
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Disclosure, Layer, LayerConfig
from golfsim.protocol.learner import Learner
from golfsim.protocol.records import RawRecords, Rows, ranges
from protocols.anonml.coding import coder_of

if TYPE_CHECKING:
    from golfsim.network.world import World

Numbers = NDArray[np.float64]
Table = NDArray[np.float32]
Model = Callable[[Table], Numbers]  # the scores of records; class 1 if not negative
SAMPLED = 37  # bytes per record: whether it is collected, its label, its weight in a sample, and numbers meanwhile
SEEDS = 2**31 - 1  # of the choice of features in trees
RATE = 0.1  # the learning rate of gradient boosting
DEPTHS = {"adaboost": 1, "boosting": 3}
LEAST = 1e-10  # a share of mistakes, or a curvature, that is not 0


class ReferenceConfig(LayerConfig):
    """The learner of the reference."""

    records: Layer[RawRecords] = Field("raw", validate_default=True, description="the records to learn from")
    learner: Literal["forest", "bagging", "adaboost", "boosting", "logistic"] = Field(
        "forest",
        description="“forest”: a random forest; “bagging”: trees on bootstrap samples; “adaboost”: weighted trees; "
        "“boosting”: gradient boosting with the logistic loss; “logistic”: logistic regression",
    )
    trees: int = Field(100, ge=1, le=10_000, description="the number of trees")
    depth: int | None = Field(
        None, ge=1, description="the largest depth of a tree; default: 1 for adaboost, 3 for boosting, else no limit"
    )
    lam: float = Field(1e-4, gt=0, alias="lambda", description="logistic: the regularisation λ, of the mean loss")
    grouping: Literal["card", "none"] = Field(
        "card", description="use the columns and groups of categories of the data card, or all features unchanged"
    )

    @property
    def deepest(self) -> int | None:
        """The largest depth of a tree."""
        return self.depth if self.depth is not None else DEPTHS.get(self.learner)


class Reference(Learner[ReferenceConfig]):
    """One place collects the raw records of all nodes and fits one model to them; nothing is protected.

    Records of offline nodes are included, and no message is simulated. All nodes have the same model, so the model of
    one node is measured.
    """

    Config = ReferenceConfig
    accepts = frozenset({"loss", "delay", "partition"})

    def setup(self, world: World) -> None:
        """Allocate what the model depends on: the collected records and their labels."""
        label = self.config.records.rows.label
        self.collected = np.zeros(label.size, np.bool_)
        self.label = np.zeros(label.size, np.int32)
        self.fits = 0
        self._models: list[Model] = []  # fitted when they are asked for, once for all threads that ask
        self._fitting = Lock()
        about = self.config.records.about
        grouped = self.config.grouping == "card" and about.grouping is not None
        self._coder = coder_of(about.features, 2, about.grouping) if grouped else None

    def memory(self, world: World) -> int:
        """Return the bytes of the collected records, of their columns, and of a sample; trees are not counted."""
        records, features = int(self.config.records.capacity().sum()), self.config.records.features
        return size_of((SAMPLED, records), (8, records, features))

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return nothing: all arrays are per record."""
        return {}

    def step(self, world: World) -> None:
        """Collect all records that nodes have; a change of them makes a new model necessary."""
        rows = self.config.records.rows
        here = np.zeros_like(self.collected)
        here[ranges(rows.first, rows.stop)] = True
        if not here.any() or (np.array_equal(here, self.collected) and np.array_equal(rows.label, self.label)):
            return
        self.collected[:], self.label[:] = here, rows.label
        self.fits += 1
        self._models = []

    # Learning

    def table(self, x: Table) -> Table:
        """Return the numbers and the groups of categories of the card, one column per group; or all features."""
        if self._coder is None:
            return x
        coder, cuts = self._coder, np.zeros((self._coder.numbers.size, 1))
        codes = coder.codes(x, cuts)
        categories = np.flatnonzero(coder.columns.cut < 0)
        groups = [codes[:, [c]] == np.arange(coder.alphabets[c]) for c in categories]
        return np.ascontiguousarray(np.hstack([x[:, coder.numbers], *groups], dtype=np.float32))

    def _fitted(self) -> list[Model]:
        """Return one model per class against all others; for two classes one model."""
        with self._fitting:
            if not self._models:
                self._models = self._newly_fitted()
        return self._models

    def _newly_fitted(self) -> list[Model]:
        x, records = self.table(self.config.records.rows.x[self.collected]), self.config.records
        label = self.label[self.collected]
        positive = [1] if records.models == 1 else range(records.classes)
        return [self._fit(x, (label == c).astype(np.int32), m) for m, c in enumerate(positive)]

    def _fit(self, x: Table, y: NDArray[np.int32], model: int) -> Model:
        config = self.config
        if config.learner == "logistic":
            return logistic(x, y, config.lam, self.name)
        if config.learner == "adaboost":
            return adaboost(x, y, config.trees, config.deepest)
        if config.learner == "boosting":
            return gradient_boosting(x, y, config.trees, config.deepest)
        features = "sqrt" if config.learner == "forest" else None
        keys = self.key("sample"), self.key("tree")
        return bagging(x, y, config.trees, config.deepest, features, keys, self.fits, model)

    def holders(self, world: World) -> NDArray[np.int32]:
        """Return the first of the online nodes, if there is a model."""
        return super().holders(world)[: 1 if self.fits else 0]

    def answers(self) -> int:
        """Return one score per class, or one for two classes."""
        return self.config.records.models

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of the columns of records, and of their scores in double precision."""
        return 8 * records * (self.config.records.features + nodes * self.answers())

    def scores(self, nodes: NDArray[np.int32], x: Table) -> NDArray[np.float32]:
        """Return the score of each record, the same for all nodes."""
        columns = self.table(x)
        found = np.stack([model(columns) for model in self._fitted()], axis=1).astype(np.float32)
        return np.repeat(found[:, None, :], nodes.size, axis=1)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of models so far."""
        return np.full(nodes.size, self.fits, np.int32)

    # Privacy

    def released(self) -> Numbers:
        """Return all collected records with their labels."""
        x = self.config.records.rows.x[self.collected]
        return np.concatenate([x.ravel(), self.label[self.collected]]).astype(np.float64)

    def guarantee(self) -> Guarantee:
        """Return that nothing is protected."""
        return Guarantee(None, "record", "a reference: one place has all raw records")

    def disclosure(self) -> Disclosure:
        """Return that all records are released."""
        return Disclosure("all raw records", "the place that collects them")


# Learners; each returns the function that scores records


def bagging(
    x: Table,
    y: NDArray[np.int32],
    trees: int,
    depth: int | None,
    features: str | None,
    keys: tuple[np.uint64, np.uint64],
    cycle: int,
    model: int,
) -> Model:
    """Fit trees to bootstrap samples; the score is the mean probability of class 1, less one half.

    Parameters
    ----------
    x : array of float32, shape (records, columns)
        The records.
    y : array of int32, shape (records,)
        The labels, 0 or 1.
    trees : int
        The number of trees.
    depth : int, optional
        Their largest depth.
    features : {"sqrt"}, optional
        How many columns each split considers; default: all.
    keys : pair of uint64
        The keys of the samples, and of the columns that splits consider.
    cycle, model : int
        The number of the fit and of the model, which select the draws.
    """
    from sklearn.tree import DecisionTreeClassifier

    everyone = np.arange(len(x), dtype=np.int32)
    seeds = rng.integers(keys[1], np.arange(trees, dtype=np.int32), SEEDS, cycle, model)

    def grown(tree: int) -> Any:
        drawn = rng.integers(keys[0], everyone, len(x), cycle, model * trees + tree)
        weight = np.bincount(drawn, minlength=len(x)).astype(np.float64)
        one = DecisionTreeClassifier(max_depth=depth, max_features=features, random_state=int(seeds[tree]))
        return one.fit(x[weight > 0], y[weight > 0], weight[weight > 0])

    grown_trees = [grown(tree) for tree in range(trees)]

    def score(records: Table) -> Numbers:
        total = np.zeros(len(records))
        for tree in grown_trees:
            total += _share_of_ones(tree, records)
        return total / trees - 0.5

    return score


def _share_of_ones(tree: Any, records: Table) -> Numbers:
    """Return the probability of class 1 by a tree, which may know one class only."""
    known = list(tree.classes_)
    return np.asarray(tree.predict_proba(records)[:, known.index(1)] if 1 in known else np.zeros(len(records)))


def adaboost(x: Table, y: NDArray[np.int32], trees: int, depth: int | None) -> Model:
    """Fit trees one after the other, each to weights that are larger for records which the last one has mistaken.

    The score is Σ α_t h_t with h_t = ±1 and α_t = ln((1 − e_t)/e_t)/2, for the weighted share e_t of mistakes.
    """
    from sklearn.tree import DecisionTreeClassifier

    weight = np.full(len(x), 1 / len(x))
    grown: list[tuple[float, Any]] = []
    for _ in range(trees):
        tree = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(x, y, weight)
        wrong = tree.predict(x) != y
        share = float(np.clip(weight[wrong].sum() / weight.sum(), LEAST, 1 - LEAST))
        alpha = float(log_of([(1 - share) / share])[0]) / 2
        grown.append((alpha, tree))
        if share <= LEAST or share >= 0.5:
            break
        weight *= np.where(wrong, *exp_of([alpha, -alpha]))
        weight /= weight.sum()

    def score(records: Table) -> Numbers:
        total = np.zeros(len(records))
        for alpha, tree in grown:
            total += alpha * np.where(tree.predict(records) == 1, 1.0, -1.0)
        return total

    return score


def gradient_boosting(x: Table, y: NDArray[np.int32], trees: int, depth: int | None) -> Model:
    """Fit regression trees to gradients of the logistic loss, with Newton steps in their leaves; score: log-odds."""
    from sklearn.tree import DecisionTreeRegressor

    share = float(np.clip(y.mean(), LEAST, 1 - LEAST))
    start = float(log_of([share / (1 - share)])[0])
    odds, grown = np.full(len(x), start), []
    for _ in range(trees):
        p = 1 / (1 + exp_of(-odds))
        tree = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(x, y - p)
        leaf, size = tree.apply(x), tree.tree_.node_count
        slope, curve = np.bincount(leaf, y - p, size), np.bincount(leaf, p * (1 - p), size)
        step = RATE * slope / np.maximum(curve, LEAST)
        odds += step[leaf]
        grown.append((tree, step))

    def score(records: Table) -> Numbers:
        total = np.full(len(records), start)
        for tree, step in grown:
            total += step[tree.apply(records)]
        return total

    return score


def logistic(x: Table, y: NDArray[np.int32], lam: float, layer: str = "") -> Model:
    """Fit a logistic regression with an intercept by Newton's method."""
    rows = Rows(_with_one(x), y, np.zeros(1, np.int64), np.array([len(x)]), False)
    loss, solver = Loss(LOSSES["logistic"], 0.5), erm.Solver(layer=layer)
    w = erm.fit(np.zeros(1, np.int32), rows, 1, loss, np.array([lam]), solver=solver)[0]
    return lambda records: product(_with_one(records).astype(np.float64), w)[:, 0]


def _with_one(x: Table) -> Table:
    return np.hstack([x, np.ones((len(x), 1), np.float32)])
