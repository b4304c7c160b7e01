"""Gossip learning as a scikit-learn classifier: `fit` runs a scenario, and `guarantee_` is its proven guarantee."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from golfsim.core.errors import UserError, nearest
from golfsim.core.maths import product
from golfsim.data import scaling
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.learner import classify
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

Layers = list[dict[str, Any]]

STRATEGIES = ("golf", "data_perturbation", "gradient_perturbation", "regularised_erm", "group_aggregation")
MODES = {  # the first mode is the default
    "data_perturbation": ("per-class", "joint", "label+features", "sampled"),
    "regularised_erm": ("objective", "output"),
}
FITTED = ("regularised_erm", "group_aggregation")  # by an exact solver, not by descent; the noise needs L2 norm 1
GROUP = 10  # default number of nodes that share the records of a group


def _gives_probabilities(classifier: Any) -> bool:
    """Return whether the models are logistic; the error says what to do otherwise."""
    if classifier.strategy in FITTED or classifier.learner == "logistic":
        return True
    raise AttributeError(
        f"{classifier.strategy} with learner={classifier.learner!r} has no probabilities: use learner='logistic', or "
        "decision_function"
    )


class GossipClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier that simulated peers learn from their private records.

    `fit` places the records on simulated nodes, runs the protocols of the strategy and stores the model of one node.
    The method `scenario` returns what is run. The noise is simulated: it is for research, not for release.

    The guarantee covers what `fit` does with the records, and nothing before it. A scaler, an imputer or a selection of
    features that is fitted on the same records, for example in a pipeline, is a query on them without noise, and
    `guarantee_` does not include it. Use `bounds`, or transformations that are fixed without the records.

    Parameters
    ----------
    strategy : str
        The protocols that learn. “golf”: models walk from node to node. “data_perturbation”: every record is published
        once with noise, and Golf learns from the published records. “gradient_perturbation”: one model visits every
        node once, and each gradient is noisy. “regularised_erm”: one node has all records and fits a model with noise.
        “group_aggregation”: each node fits its own model, and groups publish the noisy mean without a trusted party.
    epsilon : float, optional
        The privacy budget of each record. None: no noise, and no privacy.
    bounds : pair of float or of array of shape (n_features,), optional
        The range of the features, known without using the records. Values outside are clipped. None: the range of the
        training records, which is a query without noise; then the guarantee is “not private”.
    classes : array of shape (n_classes,), optional
        The possible labels, known without using the records; `fit` refuses any other label. None: the labels of the
        training records, which is a query without noise; then the guarantee is “not private”.
    mode : str, optional
        “per-class” (default), “joint”, “label+features” or “sampled” for data_perturbation; “objective” (default) or
        “output” for regularised_erm.
    learner : {"pegasos", "logistic", "mean"}
        How a record changes a model, for golf, data_perturbation and gradient_perturbation.
    lam : float or “published-cv”, optional
        The regularisation λ. None: 1e-4 for gradient descent, 0.01 for fitted models. With “published-cv”,
        data_perturbation chooses it on published records, without additional privacy cost.
    cycles : int
        The number of cycles that golf and data_perturbation learn; the other strategies need a single round.
    records_per_node : int, optional
        None: one record per node; ten nodes for group_aggregation; all records on one node for regularised_erm.
    random_state : int, RandomState or None
        The seed.

    Attributes
    ----------
    guarantee_ : Guarantee
        The proven guarantee for everything that other nodes have seen, including the model. `guarantee_.epsilon` is
        None if nothing is proven; then `guarantee_.note` says why. The number of records and features is public.
    coef_ : array of shape (1, n_features_in_ + 1) or (n_classes, n_features_in_ + 1)
        The model: one row for two classes, otherwise one row per class. The last column belongs to a constant feature.
    scenario_ : str
        The scenario that was run, as TOML.
    classes_ : array of shape (n_classes,)
        The class labels, sorted.
    n_features_in_ : int
        The number of features.
    """

    def __init__(
        self,
        strategy: str = "golf",
        *,
        epsilon: float | None = None,
        bounds: Any = None,
        classes: Any = None,
        mode: str | None = None,
        learner: str = "pegasos",
        lam: float | str | None = None,
        cycles: int = 100,
        records_per_node: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.strategy = strategy
        self.epsilon = epsilon
        self.bounds = bounds
        self.classes = classes
        self.mode = mode
        self.learner = learner
        self.lam = lam
        self.cycles = cycles
        self.records_per_node = records_per_node
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> GossipClassifier:
        """Let the nodes learn from the records."""
        X, codes = self._validated(X, y)
        tree = self._tree(*X.shape)
        with _told(), tempfile.TemporaryDirectory() as folder:
            # A scenario must have test records. The first record takes their place; nothing is learned from them.
            np.savez(Path(folder) / "records.npz", x=X, y=codes, test_x=X[:1], test_y=codes[:1])
            tree["data"]["file"] = "records.npz"
            simulation = Simulation(Scenario.of(tree, folder))
            for _ in simulation:
                pass
        self.coef_ = _model(simulation)
        self.guarantee_ = _guarantee(simulation.layers["model"].guarantee())
        self.scenario_ = simulation.scenario.dump()
        self._scaling = simulation.scaling
        return self

    def scenario(self, X: Any, y: Any, test: int | float = 0.2) -> Scenario:
        """Return the scenario that `fit` runs, with a part of the records held out as test set.

        It can be used with `golfsim.run` and in sweeps. The records are stored in the cache of golfsim.
        """
        X, codes = clone(self)._validated(X, y)
        held_out = test if test >= 1 else math.ceil(test * len(X))
        tree = self._tree(max(1, len(X) - int(held_out)), X.shape[1])
        tree["data"]["test"] = test
        tree["observe"] = {"nodes": 100}
        with _told():
            return Scenario.of(tree, data=(X, codes))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each record: its sign decides between two classes, the row maximum between several."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        scores: NDArray[np.float64] = product(scaling.scaled(X, self._scaling).astype(np.float64), self.coef_)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each record: shape (n_records, n_classes), in order of `classes_`.

        Only logistic models have probabilities: those of regularised_erm and group_aggregation, and those of the other
        strategies with ``learner="logistic"``. For more than two classes there is one model per class, and their
        probabilities are divided by their sum. A model with noise has the probabilities that its noisy coefficients
        state; they are not calibrated.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        shares: NDArray[np.float64] = softmax(log_expit(scores), axis=1)
        return shares

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class of each record."""
        scores = self.decision_function(X)
        found: NDArray[Any] = self.classes_[classify(scores.reshape(len(scores), -1).astype(np.float64))]
        return found

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if self.classes is None:
            self.classes_, codes = np.unique(y, return_inverse=True)
        else:
            self.classes_ = self._stated_classes()
            codes = _coded(y, self.classes_)
        if len(self.classes_) < 2:
            raise ValueError(f"all records are of one class, {self.classes_[0]!r}: at least two classes are needed")
        return X, codes

    def _stated_classes(self) -> NDArray[Any]:
        stated = np.unique(np.asarray(self.classes))
        if len(stated) < 2:
            raise ValueError(f"classes: at least two different classes are needed; got {self.classes!r}")
        return stated

    def _tree(self, records: int, features: int) -> dict[str, Any]:
        """Return the scenario for this number of training records and features, without the path of the data."""
        self._check()
        length = "clip-l2" if self.strategy in FITTED else "l1"
        bounds = "train" if self.bounds is None else _stated(self.bounds, features)
        rounds = {"golf": self.cycles, "data_perturbation": self.cycles, "group_aggregation": 3}
        public = {} if self.classes is None else {"classes": list(range(len(self._stated_classes())))}
        number = self._nodes(records)
        evenly = {"number": number, "records": {"kind": "uniform", "min": 1, "max": 1}}
        return {
            "name": f"GossipClassifier: {self.strategy}",
            "seed": int(check_random_state(self.random_state).randint(2**31 - 1)),
            "cycles": rounds.get(self.strategy, 1),
            "data": {"scale": ["minmax", "bias", length], "bounds": bounds} | public,
            "nodes": {"records": 1} if number == records else evenly,
            "protocol": getattr(self, f"_{self.strategy}")(number),
            "observe": {"every": rounds.get(self.strategy, 1), "nodes": 1},
        }

    def _nodes(self, records: int) -> int:
        """Return the number of nodes that share this number of records."""
        if self.records_per_node is not None:
            return max(1, records // self.records_per_node)
        return min(records, {"regularised_erm": 1, "group_aggregation": GROUP}.get(self.strategy, records))

    def _check(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"unknown strategy {self.strategy!r}: {nearest(str(self.strategy), STRATEGIES)}")
        if self.mode is not None and self.mode not in MODES.get(self.strategy, ()):
            valid = ", ".join(MODES.get(self.strategy, ())) or "none"
            raise ValueError(f"{self.strategy} has no mode {self.mode!r}; valid: {valid}")
        if self.records_per_node is not None and self.records_per_node < 1:
            raise ValueError(f"records_per_node must be at least 1; got {self.records_per_node}")

    # The layers of each strategy; the last layer is called “model”.

    @property
    def _budget(self) -> float:
        return math.inf if self.epsilon is None else float(self.epsilon)

    def _descent(self, use: str, **keys: Any) -> Layers:
        lam = {} if self.lam is None else {"lambda": self.lam}
        model = {"name": "model", "use": use, "peers": "peers", "learner": self.learner}
        return [{"name": "peers", "use": "uniform"}, model | lam | keys]

    def _local(self, **keys: Any) -> dict[str, Any]:
        return {"use": "regularised_erm", "lambda": 0.01 if self.lam is None else self.lam} | keys

    def _golf(self, number: int) -> Layers:
        noise = {} if self.epsilon is None else {"epsilon": self._budget}
        return self._descent("golf", records="raw", **noise)

    def _data_perturbation(self, number: int) -> Layers:
        published = {"name": "published", "use": "data_perturbation", "epsilon": self._budget}
        mode = {} if self.mode is None else {"mode": self.mode}
        return [published | mode, *self._descent("golf", records="published")]

    def _gradient_perturbation(self, number: int) -> Layers:
        once = {"path": "tour", "hops": "all"}
        return self._descent("gradient_perturbation", records="raw", epsilon=self._budget, **once)

    def _regularised_erm(self, number: int) -> Layers:
        noise = {} if self.epsilon is None else {"noise": self.mode or MODES[self.strategy][0], "epsilon": self._budget}
        return [self._local(name="model", **noise)]

    def _group_aggregation(self, number: int) -> Layers:
        model = {"name": "model", "use": "group_aggregation", "local": "local", "predict": "aggregated"}
        return [self._local(name="local"), model | {"group": number, "epsilon": self._budget}]


@contextmanager
def _told() -> Iterator[None]:
    """Raise a mistake in the parameters as ValueError, as scikit-learn does."""
    try:
        yield
    except UserError as error:
        raise ValueError(str(error)) from error


def _coded(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return labels as positions in the stated classes; raise an error for any other label."""
    position = {label: code for code, label in enumerate(classes.tolist())}
    codes = np.array([position.get(label, -1) for label in y.tolist()], np.int64)
    if (codes < 0).any():
        record = int(np.argmax(codes < 0))
        stated = ", ".join(map(repr, position))
        raise ValueError(f"classes: y[{record}] is {y.tolist()[record]!r}, but only {stated} are stated")
    return codes


def _guarantee(found: Guarantee) -> Guarantee:
    """Return the guarantee of a layer as that of its model, with the names of parameters in place of settings."""
    if not found.released:
        return Guarantee(None, found.unit, "the model has no noise")
    return replace(found, note=found.note.replace("data.", ""))


def _stated(bounds: Any, features: int) -> Any:
    """Return bounds as a scenario states them: one pair for all features, or one pair per feature."""
    low, high = (np.asarray(side, dtype=np.float64) for side in bounds)
    if low.ndim == high.ndim == 0:
        return [float(low), float(high)]
    low, high = np.broadcast_to(low, features), np.broadcast_to(high, features)
    return {f"x{f}": [float(low[f]), float(high[f])] for f in range(features)}


def _model(simulation: Simulation) -> NDArray[np.float64]:
    """Return the model [linear models, features] of one random node, or the published model of a group."""
    layer: Any = simulation.layers["model"]
    holders = layer.holders(simulation.world)
    if not holders.size:
        raise ValueError("no node has a model at the end")
    found = layer.published[0] if hasattr(layer, "published") else layer.w[holders[0]]
    return np.array(found, np.float64)
