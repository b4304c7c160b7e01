"""Every node fits a linear model on its own records, optionally with noise that makes the model private.

Output and objective perturbation follow Chaudhuri, Monteleoni & Sarwate (2011); the variants of Asplund & Frøystad
(2015) and Veldhuizen (2020) are also available, and Gaussian noise in the model. The number of records of a node is
treated as public.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.maths import log_of
from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.core.threads import over_ranges
from golfsim.learning import erm
from golfsim.learning.erm import Floats, Solver, Weights
from golfsim.learning.erm.descent import Descent
from golfsim.learning.erm.newton import LOSSES, Loss
from golfsim.learning.erm.nodes import Part
from golfsim.privacy.choice import DeltaConfig
from golfsim.privacy.ledger import BUDGET_METRICS, Ledger, UniformSchedule
from golfsim.privacy.mechanisms import ROUNDING, GammaNorm, Gaussian, Guarantee
from golfsim.privacy.noise import GAMMA_NORM, GAUSSIAN, LAPLACE, add_noise
from golfsim.protocol.base import Audited, Disclosure, Layer, LayerConfig
from golfsim.protocol.canaries import Canaries, closer
from golfsim.protocol.learner import Learner, score
from golfsim.protocol.records import Published, Records, Rows, longest, ranges, refuse_unfit

if TYPE_CHECKING:
    from golfsim.network.world import World

GRIDS = {"mean": tuple(10.0**e for e in range(-4, 1)), "sum": tuple(2.0**e for e in range(-8, 9))}
COVER = 0.01  # the share of ε that covers the inexact minimum of a perturbed objective
CROWD = 32  # the least number of records of a node in an audit
PULL = 8  # the number of records times λ in an audit: then one record cannot make the model classify it correctly
LARGEST_CROWD = 2000
EFFORT = 4  # a record moves a logistic model less than its sensitivity, which is therefore harder to see
TRIALS = 1 << 30  # fits with this number and above are trials to choose λ; their noise is drawn separately
FITTED = 2  # models per node in the cycle that fits them: the layer's, and the fits
Nodes = NDArray[np.int32]


@kernel
def perturb_fits(nodes, lo, hi, number, models, kind, scale, key, w):
    """Add noise to row e·models + m of w, for model m of nodes[e].

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes that have fitted a model.
    lo, hi : int
        The range of `nodes`.
    number : array of int32, shape (nodes,)
        The number of each fit, which selects the draws.
    models : int
        The number of linear models per node.
    kind : int
        The kind of noise: LAPLACE, GAMMA_NORM or GAUSSIAN.
    scale : array of float64, shape (nodes,)
        The scale of the noise; 0: no noise.
    key : uint64
        The key of the draws.
    w : array of float64, shape (nodes · models, features)
        The models; changed in place.
    """
    for e in range(lo, hi):
        for m in range(models if scale[e] > 0 else 0):
            add_noise(kind, key, number[e], nodes[e], m * 3 * w.shape[1], scale[e], w, e * models + m)


class Objective(NamedTuple):
    """The perturbation of an objective: b·w/n with ‖b‖ ~ Gamma(d, scale), and Δ/2·‖w‖²."""

    scale: Floats
    delta: Floats
    epsilon: Floats  # the ε that is proven for the exact minimum


def objective_2011(epsilon: float, c: float, n: Floats, lam: Floats) -> Objective:
    """Return the perturbation of algorithm 2 of Chaudhuri, Monteleoni & Sarwate (2011).

    The Jacobian uses a part of ε; the noise depends on the rest, ε'.
    """
    if math.isinf(epsilon):
        return Objective(np.zeros(n.size), np.zeros(n.size), np.full(n.size, math.inf))
    c *= (1 + ROUNDING) ** 2
    rest = epsilon - 2 * log_of(1 + c / (n * lam))
    delta = np.where(rest > 0, 0.0, c / (n * math.expm1(epsilon / 4)) - lam)
    rest = np.where(rest > 0, rest, epsilon / 2)
    return Objective(2 * (1 + ROUNDING) / rest, delta, np.full(n.size, epsilon))


def objective_2008(epsilon: float, c: float, n: Floats, lam: Floats, divisor: Floats | None = None) -> Objective:
    """Return the perturbation of Chaudhuri & Monteleoni (2008).

    It ignores the Jacobian, which costs up to ln(1 + c/(nλ)) in addition to ε. A source that divides the noise by
    another number than n, the `divisor`, adds n/divisor times the noise, which costs divisor/n times ε.
    """
    divisor = n if divisor is None else divisor
    scale = np.full(n.size, 0.0 if math.isinf(epsilon) else 2 / epsilon) * (n / divisor)
    true = epsilon * (divisor / n) * (1 + ROUNDING) + log_of(1 + c * (1 + ROUNDING) ** 2 / (n * lam))
    return Objective(scale, np.zeros(n.size), true)


class RegularisedErmConfig(LayerConfig, DeltaConfig):
    """The objective, the solver and the noise of the models that nodes fit."""

    records: Layer[Records[Any]] = Field("raw", validate_default=True, description="the records to fit models to")
    loss: Literal["logistic", "huber"] = Field(
        "logistic", description="logistic regression, or a support vector machine with Huber's smooth hinge"
    )
    huber: float = Field(0.5, gt=0, description="half the width of the quadratic part of Huber's loss")
    lam: Annotated[float, Field(gt=0)] | Literal["cv", "private"] = Field(
        alias="lambda",
        description="the regularisation λ; “cv”: each node chooses λ by cross-validation on its own records, which is "
        "not private; “private”: the exponential mechanism chooses λ, which costs lambda_epsilon",
    )
    lambda_form: Literal["mean", "sum"] = Field(
        "mean",
        description="the objective that λ belongs to: mean loss + (λ/2)‖w‖² (“mean”), or Σ loss + λ‖w‖² as in the "
        "sources (“sum”), which equals the first with 2λ/n (Lasso: mean loss + λΣ|w|, or Σ loss + λΣ|w|); the log has "
        "both values",
    )
    grid: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        None,
        min_length=1,
        description="the values of λ to choose from; default: 10^-4 … 1, or 2^-8 … 2^8 in the form “sum”",
    )
    folds: int = Field(10, ge=2, description="the number of folds of the cross-validation that chooses λ")
    lambda_epsilon: float | None = Field(
        None, ge=1e-6, allow_inf_nan=True, description="the ε of a private choice of λ, in addition to epsilon"
    )
    solver: Literal["exact", "as-published"] = Field(
        "exact",
        description="Newton’s method, or the mini-batch descent of Asplund & Frøystad (2015), which is not private",
    )
    batch: int | None = Field(
        None,
        ge=1,
        description="as-published: the number of records per step of the descent, which the source does not state",
    )
    batch_penalty: Literal["share", "full"] = Field(
        "share",
        description="as-published: the part of the penalty in a step with b of n records: its share b/n, so that an "
        "epoch has the gradient of the objective, or all of it (“full”), as the source prints, which makes λ n/b times "
        "as large",
    )
    rate_tie: Literal["smallest", "largest"] = Field(
        "smallest",
        description="as-published: the learning rate γ to take if several have the fewest errors; the source states no "
        "rule",
    )
    penalty: Literal["l2", "lasso"] = Field(
        "l2", description="the penalty: L2, or Lasso as in Veldhuizen (2020), which is not private"
    )
    noise: Literal["none", "output", "gaussian", "objective"] = Field(
        "none",
        description="where noise is added: nowhere, to the model, or to the objective; “output” is noise with pure ε, "
        "and “gaussian” is Gaussian noise in the model, with which ε holds at `delta`",
    )
    rule: Literal["corrected", "as-published"] = Field(
        "corrected",
        description="the amount of noise: what ε needs, or that of the sources; then golfsim reports the true ε",
    )
    noise_records: int | None = Field(
        None,
        ge=1,
        description="rule = “as-published”: the number of records N by which the noise is divided, for a source that "
        "takes the size of the complete set instead of the training records; golfsim reports the true ε; default: the "
        "number of records of the node",
    )
    zero_label: Literal[0, 1] | None = Field(
        None,
        description="reproduction of Veldhuizen (2020) on real data: the class (the first is 0, the second 1) whose "
        "records have the label 0 in a loss that is defined for −1 and +1; their loss is constant, so they do not "
        "influence the model; default: none",
    )
    epsilon: float | None = Field(
        None, ge=1e-6, allow_inf_nan=True, description="the budget ε of each record (or node); inf: no noise"
    )
    unit: Literal["record", "node"] = Field(
        "record", description="what ε protects: one record, or all records of a node"
    )
    tolerance: float = Field(
        1e-9,
        gt=0,
        description="the length of the gradient at which a fit stops; the noise covers the remaining inaccuracy",
    )
    min_records: int = Field(
        1, ge=1, description="the smallest number of records of a node that fits a model; others have no model"
    )
    refits: int = Field(
        1,
        ge=1,
        description="with noise: the number of fits that ε is divided over; a node fits again when its records have "
        "changed; without noise there is no limit",
    )

    @model_validator(mode="after")
    def _noise(self) -> RegularisedErmConfig:
        noisy = self.noise != "none"
        if noisy != (self.epsilon is not None):
            raise ValueError("epsilon: required with noise, and not allowed without")
        if self.noise == "objective" and self.unit == "node":
            raise ValueError("unit: noise in the objective protects one record; to protect nodes use noise = “output”")
        if self.noise == "objective" and (self.solver != "exact" or self.penalty != "l2"):
            raise ValueError("noise: objective perturbation needs the exact solver and the penalty l2")
        if noisy and self.penalty == "lasso" and self.rule == "corrected":
            raise ValueError(
                "penalty: no noise makes Lasso provably private; rule = “as-published” runs it, not private"
            )
        if self.gaussian and self.rule == "as-published":
            raise ValueError("rule: no source has Gaussian noise; “as-published” needs noise = “output” or “objective”")
        return self

    @model_validator(mode="before")
    @classmethod
    def _no_gaussian_objective(cls, given: Any) -> Any:
        delta = given.get("delta") if isinstance(given, dict) else None
        if isinstance(delta, float) and given.get("noise") == "objective":
            raise ValueError(
                "delta: noise in the objective is never Gaussian; noise = “gaussian” adds Gaussian noise to the model"
            )
        return given

    @model_validator(mode="after")
    def _as_in_a_source(self) -> RegularisedErmConfig:
        if self.noise_records is not None and (self.noise == "none" or self.rule == "corrected"):
            raise ValueError("noise_records: needs noise = “output” or “objective” and rule = “as-published”")
        if self.zero_label is not None and (self.solver != "exact" or isinstance(self.lam, str)):
            raise ValueError("zero_label: needs solver = “exact” and a number for lambda")
        return self

    @model_validator(mode="after")
    def _lambda(self) -> RegularisedErmConfig:
        plain = self.solver == "exact" and self.penalty == "l2"
        if self.solver != "exact" and self.penalty != "l2":
            raise ValueError("solver: the mini-batch descent needs the penalty l2")
        if (self.solver == "as-published") != (self.batch is not None):
            raise ValueError("batch: required with solver = “as-published”, and not allowed otherwise")
        if self.solver == "as-published" and self.noise != "none" and self.rule == "corrected":
            raise ValueError(
                "rule: no noise makes a descent that stops early provably private; rule = “as-published” runs it"
            )
        if self.penalty == "lasso" and self.loss != "logistic":
            raise ValueError("penalty: Lasso needs the logistic loss")
        if isinstance(self.lam, str) and not plain:
            raise ValueError(
                "lambda: “cv” and “private” need the exact solver and the penalty l2; otherwise give a number"
            )
        if (self.lam == "private") != (self.lambda_epsilon is not None):
            raise ValueError("lambda_epsilon: required with lambda = “private”, and not allowed otherwise")
        if self.lam == "private" and not (self.noise != "none" and self.rule == "corrected" and self.unit == "record"):
            raise ValueError("lambda: a private choice needs noise, rule = “corrected” and unit = “record”")
        return self

    @property
    def choices(self) -> Floats:
        """The values of λ to choose from, in the form of the scenario."""
        return np.array(self.grid or GRIDS[self.lambda_form])

    def as_mean(self, lam: Floats, n: Floats) -> Floats:
        """Convert λ from the form of the scenario to that of the mean loss."""
        factor = 2 if self.penalty == "l2" else 1
        return np.asarray(factor * lam / n if self.lambda_form == "sum" else lam)

    def as_sum(self, lam: Floats, n: Floats) -> Floats:
        """Convert λ from the form of the mean loss to that of the sum of losses."""
        return np.asarray(lam * n / (2 if self.penalty == "l2" else 1))


class RegularisedErm(Learner[RegularisedErmConfig]):
    """Each node fits a linear model to its own records once it is online and has enough of them."""

    Config = RegularisedErmConfig
    accepts = frozenset({"loss", "delay", "partition"})
    secret = frozenset({"noise", "objective", "choice"})
    metrics = (
        Metric("lambda.mean", "The mean λ of the nodes that have a model, in an objective with the mean of losses."),
        Metric("lambda.sum", "The mean λ of the nodes that have a model, in an objective with the sum of losses."),
        *BUDGET_METRICS,
    )

    def setup(self, world: World) -> None:
        """Allocate the models, which are not fitted yet, and create a ledger if there is noise."""
        config, rows = self.config, self.config.records.rows
        self._noisy = config.noise != "none"
        loose = config.rule == "as-published" and config.noise == "output"  # the true ε accounts for longer records
        if self._noisy and not loose:
            refuse_unfit(config.records, "l2", self.name, "noise")
        self._length = longest(config.records, "l2") if loose else 1.0
        if isinstance(config.lam, str) and rows.folded:
            raise UserError(
                f"“{config.records.name}” has no labels, which the choice of λ needs",
                key=f"{self.name}.lambda",
                hint="give a number",
            )
        if config.zero_label is not None and (rows.folded or config.records.models > 1):
            raise UserError(
                f"“{config.records.name}” does not have records of two classes with their labels",
                key=f"{self.name}.zero_label",
                hint='use "raw" records of a set with two classes, or remove zero_label',
            )
        self._loss = Loss(LOSSES[config.loss], config.huber)
        self._solver = Solver(config.tolerance, threads=world.threads, layer=self.name)
        self.w = np.zeros((world.nodes, config.records.models, config.records.features))
        self.lam = np.zeros(world.nodes)  # of the mean loss; 0 for nodes without a model
        self.fits = np.zeros(world.nodes, np.int32)
        self.first, self.stop = np.zeros(world.nodes, np.int64), np.zeros(world.nodes, np.int64)  # fitted records
        self.choice = np.full(world.nodes, -1, np.int32)  # the index of λ in the grid; −1: not chosen yet
        self.worst_fit = 0.0  # the largest true ε of a fit
        units = 0 if not self._noisy else rows.label.size if config.unit == "record" else world.nodes
        fits = UniformSchedule(kind="uniform", visits=config.refits)
        self.ledger = Ledger(fits, config.epsilon or 0.0, units, config.delta or 0.0)
        private = units if config.lam == "private" else 0
        self.lambda_ledger = Ledger(UniformSchedule(kind="uniform", visits=1), config.lambda_epsilon or 0.0, private)

    def memory(self, world: World) -> int:
        """Return the bytes of the models, of the fits of all nodes at once, and of the ledger."""
        records, nodes = self.config.records, world.nodes
        model = size_of((np.float64, records.models, records.features))
        perturbed = model if self.config.noise == "objective" else 0
        charged = 0 if self.config.noise == "none" else 28 * int(records.capacity().sum())
        zeroed = 0 if self.config.zero_label is None else size_of((np.float32, *records.rows.x.shape))
        return nodes * (FITTED * model + perturbed + 50) + charged + zeroed

    def start(self, world: World, nodes: Nodes) -> None:
        """Delete the models of these nodes. The spent budget stays."""
        self.w[nodes] = self.lam[nodes] = self.first[nodes] = self.stop[nodes] = 0

    def step(self, world: World) -> None:
        """Fit the models of nodes that have none, or whose records have changed."""
        rows = self.config.records.rows
        nodes = self._due(world.order, rows)
        if nodes.size:
            rows = self._with_zero_label(rows)
            self._spend(nodes, rows)
            n = (rows.stop - rows.first)[nodes].astype(float)
            given = self._lambda_for(nodes, rows, n)
            epsilon = (self.config.epsilon or math.inf) / self.config.refits  # Gaussian noise divides μ² instead
            self.lam[nodes] = self.config.as_mean(given, n)
            self.w[nodes] = self._fitted(nodes, rows, n, given, epsilon)
            self.first[nodes], self.stop[nodes] = rows.first[nodes], rows.stop[nodes]

    def _due(self, nodes: Nodes, rows: Rows) -> Nodes:
        first, stop = rows.first[nodes], rows.stop[nodes]
        due = (stop - first >= self.config.min_records) & ((self.first[nodes] != first) | (self.stop[nodes] != stop))
        may = self.fits[nodes] < self.config.refits if self._noisy else True
        return np.asarray(nodes[due & may], np.int32)

    def _with_zero_label(self, rows: Rows) -> Rows:
        """Return the records as the loss uses them: y·x is 0 for a record with label 0, whose length is then 0."""
        zero = self.config.zero_label
        if zero is None:
            return rows
        return rows._replace(x=np.where((rows.label == zero)[:, None], np.float32(0), rows.x))

    def _spend(self, nodes: Nodes, rows: Rows) -> None:
        self.fits[nodes] += 1
        if self._noisy:
            charged = self.ledger.charge(self._units(nodes, rows))
            assert charged.all()  # `_due` returns only nodes with enough budget

    def _units(self, nodes: Nodes, rows: Rows) -> NDArray[Any]:
        return nodes if self.config.unit == "node" else ranges(rows.first[nodes], rows.stop[nodes])

    # Choosing λ

    def _lambda_for(self, nodes: Nodes, rows: Rows, n: Floats) -> Floats:
        """Return λ of each node, in the form of the scenario."""
        config = self.config
        if config.lam == "cv":
            per_sum, key = config.lambda_form == "sum", self.key("folds")
            models, solver = config.records.models, self._solver
            return erm.best_lambda(nodes, rows, models, self._loss, config.choices, config.folds, key, solver, per_sum)
        if config.lam == "private":
            self._choose_privately(nodes, rows, n)
            return np.asarray(config.choices[self.choice[nodes]])
        return np.full(nodes.size, config.lam)

    def _choose_privately(self, nodes: Nodes, rows: Rows, n: Floats) -> None:
        """Choose λ from the grid for nodes that have not chosen yet (Chaudhuri et al. 2011, section 6).

        The records of a node are divided into disjoint parts. A private model is fitted on each part, with one λ of the
        grid each. Their mistakes on the last part are counted, and the exponential mechanism chooses. A record is in
        one part only, so it is charged lambda_epsilon once.
        """
        new = self.choice[nodes] < 0
        nodes, n, grid = nodes[new], n[new], self.config.choices
        if not nodes.size:
            return
        charged = self.lambda_ledger.charge(self._units(nodes, rows))
        assert charged.all()  # a node chooses once
        part = erm.parts(nodes, rows, grid.size + 1, self.key("parts"))
        tested = Part(part, grid.size, True)
        wrong = np.empty((nodes.size, grid.size))
        for g, lam in enumerate(grid):
            w = self._tried(nodes, rows, n, lam, Part(part, g, True))
            wrong[:, g] = erm.mistakes(nodes, rows, tested, w, self._solver.threads)
        self.choice[nodes] = exponential_choice(wrong, self.config.lambda_epsilon or 0.0, self.key("choice"), nodes)

    def _tried(self, nodes: Nodes, rows: Rows, n: Floats, lam: float, part: Part) -> Weights:
        """Return private models of one part of each node's records, with the λ that applies to all its records."""
        owner = np.repeat(np.arange(nodes.size), rows.stop[nodes] - rows.first[nodes])
        used = part.of[ranges(rows.first[nodes], rows.stop[nodes])] == part.number
        size = np.maximum(np.bincount(owner, used, nodes.size), 1)
        mean = self.config.as_mean(np.full(nodes.size, lam), n)
        number = np.full(nodes.size, TRIALS + part.number, np.int32)
        return self._private(nodes, rows, size, mean, self.config.lambda_epsilon or 0.0, number, part)

    # Fitting, with noise

    def _fitted(self, nodes: Nodes, rows: Rows, n: Floats, given: Floats, epsilon: float) -> Weights:
        config, models = self.config, self.config.records.models
        lam = config.as_mean(given, n)
        number = self.fits[nodes]
        if config.solver == "exact" and config.penalty == "l2" and config.rule == "corrected":
            return self._private(nodes, rows, n, lam, epsilon, number, erm.EVERYTHING)
        if config.noise == "objective":
            return self._with_objective(nodes, rows, n, lam, epsilon, number, erm.EVERYTHING)
        if config.penalty == "lasso":
            w = erm.fit_with_lasso(nodes, rows, models, self._loss, lam, self._solver)
        elif config.solver == "as-published":
            total, key = config.as_sum(lam, n), self.key("rate")
            how = Descent(config.batch or 1, config.batch_penalty == "share", config.rate_tie == "largest")
            w = erm.fit_as_published(nodes, rows, models, self._loss, total, how, key, self._solver.threads)
        else:
            w = erm.fit(nodes, rows, models, self._loss, lam, solver=self._solver)
        return self._as_published(nodes, n, given, lam, epsilon, w)

    def _private(
        self, nodes: Nodes, rows: Rows, n: Floats, lam: Floats, epsilon: float, number: Nodes, part: Part
    ) -> Weights:
        """Return exact models with the noise that ε needs (none for ε = ∞)."""
        models = self.config.records.models
        if self.config.noise == "objective":
            return self._with_objective(nodes, rows, n, lam, epsilon, number, part)
        w = erm.fit(nodes, rows, models, self._loss, lam, solver=self._solver, part=part)
        if self.config.gaussian and part is erm.EVERYTHING:  # the trials of a λ have pure ε
            return self._perturbed("noise", nodes, number, self._sensitivity(n, lam) * self._deviation(), w, GAUSSIAN)
        scale = self._sensitivity(n, lam) * GammaNorm(epsilon=epsilon / models, sensitivity=1).scale
        return self._perturbed("noise", nodes, number, scale, w)

    def _deviation(self) -> float:
        """Return the standard deviation of Gaussian noise for a sensitivity of 1; models and fits share μ²."""
        config = self.config
        assert config.epsilon is not None
        assert config.delta is not None
        all_of_budget = Gaussian(epsilon=config.epsilon, delta=config.delta, sensitivity=1)
        return all_of_budget.scale * math.sqrt(config.records.models * config.refits)

    def _sensitivity(self, n: Floats, lam: Floats) -> Floats:
        """Return the sensitivity of the computed minimum: 2/(nλ) per record or 2/λ per node, plus 2τ/λ (solver)."""
        changed = 1 / n if self.config.unit == "record" else np.ones(n.size)
        return np.asarray(2 * (self._length * changed + self.config.tolerance) / lam)

    def _with_objective(
        self, nodes: Nodes, rows: Rows, n: Floats, lam: Floats, epsilon: float, number: Nodes, part: Part
    ) -> Weights:
        """Return minima of perturbed objectives.

        The computed point lies within τ/(λ+Δ) of the exact minimum, at a place that depends on the records. So one
        hundredth of ε pays for noise in the model that covers twice this distance: the exact minimum is private, and
        with this noise the computed point is private as well.
        """
        models, published = self.config.records.models, self.config.rule == "as-published"
        each, c = epsilon / models, self._loss.curvature
        if published:
            objective = objective_2008(each, c, n, lam, self._divisor(n))
        else:
            objective = objective_2011((1 - COVER) * each, c, n, lam)
        linear = self._perturbed("objective", nodes, number, objective.scale, np.zeros((nodes.size, *self.w.shape[1:])))
        linear /= n[:, None, None]
        ridge = lam + objective.delta
        w = erm.fit(nodes, rows, models, self._loss, ridge, linear, self._solver, part)
        self.worst_fit = max(self.worst_fit, models * float((objective.epsilon + COVER * each).max()))
        cover = GammaNorm(epsilon=COVER * each, sensitivity=1).scale * 2 * self.config.tolerance / ridge
        return self._perturbed("noise", nodes, number, cover, w)

    def _as_published(self, nodes: Nodes, n: Floats, given: Floats, lam: Floats, epsilon: float, w: Weights) -> Weights:
        """Add the published noise of scale 2/(Nελ), λ as given: Laplace per coordinate, or Gamma-norm for Lasso."""
        if math.isinf(epsilon):
            self.worst_fit = math.inf
            return w
        models = self.config.records.models
        scale = 2 * models / (self._divisor(n) * epsilon * given)
        kind = GAMMA_NORM if self.config.penalty == "lasso" else LAPLACE
        moved = math.sqrt(w.shape[2]) * self._sensitivity(n, lam) * (1 + ROUNDING)  # in L1 length
        self.worst_fit = max(self.worst_fit, models * float((moved / scale).max()))
        return self._perturbed("noise", nodes, self.fits[nodes], scale, w, kind)

    def _divisor(self, n: Floats) -> Floats:
        """Return the number of records by which a source divides the noise."""
        return n if self.config.noise_records is None else np.full(n.size, float(self.config.noise_records))

    def _perturbed(
        self, purpose: str, nodes: Nodes, number: Nodes, scale: Floats, w: Weights, kind: int = GAMMA_NORM
    ) -> Weights:
        flat, key, models = w.reshape(-1, w.shape[2]), self.key(purpose), w.shape[1]
        over_ranges(
            self._solver.threads,
            lambda lo, hi: perturb_fits(nodes, lo, hi, number, models, kind, scale, key, flat),
            0,
            nodes.size,
        )
        return w

    # Guarantee and metrics

    def value_width(self, second: bool) -> int:
        """Return the number of weights of a model."""
        return self.config.records.models * self.config.records.features

    def values(self, world: World, nodes: Nodes, second: bool) -> Floats:
        """Return the models of these nodes, zeros for a node without a model."""
        return self.w[nodes].reshape(nodes.size, self.value_width(second))

    @property
    def touches_private_data(self) -> bool:
        """Whether a model leaves its node; without noise none does."""
        return self.config.noise != "none"

    @property
    def withholds(self) -> bool:
        """Whether its models are of private records and have no noise."""
        return self.config.noise == "none" and not isinstance(self.config.records, Published)

    def released(self) -> NDArray[np.float64]:
        """Return the noisy models and the chosen λ; without noise no model leaves its node."""
        return np.concatenate([self.w.ravel(), self.choice]) if self._noisy else np.empty(0)

    def evidence(self) -> Floats | None:
        """Return how much closer the model at each canary is to a fit with its first content; and the chosen λ."""
        canaries = self._canaries
        if canaries is None or not self._noisy:
            return None
        inside, outside = self.candidates(canaries)
        laplace = self.config.noise == "output" and self.config.rule == "as-published" and self.config.penalty == "l2"
        found = closer(
            self.w[canaries.node],
            inside,
            outside,
            GAUSSIAN if self.config.gaussian else LAPLACE if laplace else GAMMA_NORM,
        )
        return np.stack([found, self.choice[canaries.node].astype(float)], axis=1)

    def candidates(self, canaries: Canaries) -> tuple[Weights, Weights]:
        """Return exact fits at the nodes of canaries, with λ as it was used: with their first content, and second."""
        nodes, found = canaries.node, []
        lam = np.where(self.lam[nodes] > 0, self.lam[nodes], 1.0)
        if self.config.lam == "cv":  # chosen by the records of each node, and not released
            n = (self.stop - self.first)[nodes].astype(float)
            lam = self.config.as_mean(np.full(nodes.size, float(np.median(self.config.choices))), np.maximum(n, 1))
        for side in canaries.candidates(self.config.records.rows):
            rows, models = self._with_zero_label(side), self.config.records.models
            if self.config.penalty == "lasso":
                w = erm.fit_with_lasso(nodes, rows, models, self._loss, lam, self._solver)
            else:
                w = erm.fit(nodes, rows, models, self._loss, lam + self._ridge(nodes, rows), solver=self._solver)
            found.append(w)
        return found[0], found[1]

    def _ridge(self, nodes: Nodes, rows: Rows) -> Floats:
        """Return Δ, which a perturbed objective adds to λ."""
        config, n = self.config, (rows.stop - rows.first)[nodes].astype(float)
        if config.noise != "objective" or config.rule == "as-published":
            return np.zeros(nodes.size)
        epsilon = (1 - COVER) * (config.epsilon or math.inf) / config.refits / config.records.models
        return objective_2011(epsilon, self._loss.curvature, n, self.lam[nodes]).delta

    def disclosure(self) -> Disclosure:
        """Return that each node releases its noisy model."""
        return Disclosure("the model of each node with noise", "nobody")

    def audited(self) -> Audited:
        """Return an audit of one node, with enough records per λ of the grid for one of them to oppose the others."""
        config, records = self.config, CROWD
        if config.lam == "private":
            records = CROWD * (config.choices.size + 1)
        elif not isinstance(config.lam, str) and config.lambda_form == "mean":
            records = max(CROWD, min(math.ceil(PULL / config.lam), LARGEST_CROWD))
        return Audited(nodes=1, records=records, cycles=1, norm="l2", changes={"min_records": 1}, effort=EFFORT)

    def guarantee(self) -> Guarantee:
        """Return ε per record or node over all fits and models; for published rules, the true ε."""
        config, records = self.config, self.config.records
        if config.noise == "none":
            kept = Guarantee(None, note="the model never leaves its node", released=False)
            return records.guarantee() if isinstance(records, Published) else kept
        asked = (config.epsilon or 0.0) + (config.lambda_epsilon or 0.0)
        if config.rule == "corrected" and config.solver == "exact" and config.lam != "cv":
            return records.guarantee_of(asked, config.unit, config.delta or 0.0, config.lambda_epsilon or 0.0)
        why = self._why_not_private()
        if why:
            return Guarantee(None, config.unit, f"{why} (ε = {asked:g}{config.at_delta} was requested)")
        true = records.guarantee_of(self.worst_fit * config.refits, config.unit)
        return Guarantee(true.epsilon, true.unit, true.note or f"as published, for a requested ε = {asked:g}")

    def _why_not_private(self) -> str:
        if self.config.penalty == "lasso":
            return "Lasso’s minimum has no bounded sensitivity"
        if self.config.solver == "as-published":
            return "a descent that stops early has no bounded sensitivity"
        return "λ was chosen on the records without accounting" if self.config.lam == "cv" else ""

    def observe(self, world: World) -> dict[str, float]:
        """Return the mean λ of the nodes that have a model, in both forms, and the spent budget."""
        holders = np.flatnonzero(self.lam > 0)
        found: dict[str, float] = {}
        if holders.size:
            lam, n = self.lam[holders], (self.stop - self.first)[holders].astype(float)
            found = {"lambda.mean": float(lam.mean()), "lambda.sum": float(self.config.as_sum(lam, n).mean())}
        return found | self.ledger.metrics(self.lambda_ledger.spent() if self.config.lam == "private" else None)

    def holders(self, world: World) -> NDArray[np.int32]:
        """Return the online nodes that have a model."""
        holders = super().holders(world)
        return holders[self.lam[holders] > 0]

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of a copy of the models in both precisions, and of one byte per score."""
        of = self.config.records
        return size_of((12, nodes, of.models, of.features), (1, records, nodes, of.models))

    def answers(self) -> int:
        """Return one score per linear model."""
        return self.config.records.models

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of all models, by one matrix product."""
        return score(self.w[nodes].astype(np.float32), x)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of fits of each node."""
        return self.fits[nodes]


def exponential_choice(wrong: Floats, epsilon: float, key: np.uint64, nodes: Nodes) -> NDArray[np.int64]:
    """Choose for each row a column with probability ∝ exp(−ε·wrong/2), by the exponential mechanism.

    See McSherry & Talwar (2007); the choice is drawn by Gumbel's trick.
    """
    if math.isinf(epsilon):
        return np.asarray(wrong.argmin(axis=1))
    chance = np.stack([rng.uniform(key, nodes, k=g) for g in range(wrong.shape[1])], axis=1)
    return np.asarray((-epsilon * wrong / 2 - log_of(-log_of(chance))).argmax(axis=1))
