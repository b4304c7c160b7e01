"""Every node fits a linear model on its own records, with noise that makes the model private where asked for.

Output and objective perturbation as in Chaudhuri, Monteleoni & Sarwate (2011), and as published by Asplund & Frøystad
(2015) and Veldhuizen (2020). The number of a node's records counts as public.
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
from golfsim.core.metrics import Metric
from golfsim.core.threads import over_ranges
from golfsim.learning import erm
from golfsim.learning.erm import Floats, Solver, Weights
from golfsim.learning.erm.newton import LOSSES, Loss
from golfsim.learning.erm.nodes import Part
from golfsim.privacy.ledger import BUDGET_METRICS, Ledger, UniformSchedule
from golfsim.privacy.mechanisms import ROUNDING, GammaNorm, Guarantee
from golfsim.privacy.noise import add_gamma_norm, add_laplace
from golfsim.protocol.base import Audited, Layer, LayerConfig
from golfsim.protocol.learner import Learner, score
from golfsim.protocol.records import Published, Records, Rows, longest, ranges, refuse_unfit

if TYPE_CHECKING:
    from golfsim.network.world import World

GRIDS = {"mean": tuple(10.0**e for e in range(-4, 1)), "sum": tuple(2.0**e for e in range(-8, 9))}
COVER = 0.01  # the share of ε that pays for the minimum of a perturbed objective being found inexactly
CROWD = 32  # records of a node in an audit
TRIALS = 1 << 30  # fits with this number and up are made to choose λ: their noise is drawn apart
Nodes = NDArray[np.int32]


@kernel
def perturb_fits(nodes, lo, hi, number, models, laplace, scale, key, w):
    """Add noise to row e·models + m of w for model m of nodes[e]: a function of the node and the fit's number."""
    for e in range(lo, hi):
        for m in range(models if scale[e] > 0 else 0):
            k = m * 3 * w.shape[1]
            if laplace:
                add_laplace(key, number[e], nodes[e], k, scale[e], w, e * models + m)
            else:
                add_gamma_norm(key, number[e], nodes[e], k, scale[e], w, e * models + m)


class Objective(NamedTuple):
    """How an objective is perturbed: by b·w/n with ‖b‖ ~ Gamma(d, scale), and by Δ/2·‖w‖²."""

    scale: Floats
    delta: Floats
    epsilon: Floats  # that this provably gives, at the exact minimum


def objective_2011(epsilon: float, c: float, n: Floats, lam: Floats) -> Objective:
    """Chaudhuri, Monteleoni & Sarwate 2011, algorithm 2: ε' is what ε leaves after the Jacobian's share."""
    if math.isinf(epsilon):
        return Objective(np.zeros(n.size), np.zeros(n.size), np.full(n.size, math.inf))
    c *= (1 + ROUNDING) ** 2
    rest = epsilon - 2 * log_of(1 + c / (n * lam))
    delta = np.where(rest > 0, 0.0, c / (n * math.expm1(epsilon / 4)) - lam)
    rest = np.where(rest > 0, rest, epsilon / 2)
    return Objective(2 * (1 + ROUNDING) / rest, delta, np.full(n.size, epsilon))


def objective_2008(epsilon: float, c: float, n: Floats, lam: Floats) -> Objective:
    """Chaudhuri & Monteleoni 2008: without the Jacobian, which costs up to ln(1 + c/(nλ)) more than ε."""
    scale = np.full(n.size, 0.0 if math.isinf(epsilon) else 2 / epsilon)
    true = epsilon * (1 + ROUNDING) + log_of(1 + c * (1 + ROUNDING) ** 2 / (n * lam))
    return Objective(scale, np.zeros(n.size), true)


class RegularisedErmConfig(LayerConfig):
    """What is fitted, how, and how it is protected."""

    records: Layer[Records[Any]] = Field("raw", validate_default=True, description="the records that models fit")
    loss: Literal["logistic", "huber"] = Field(
        "logistic", description="logistic regression, or a support vector machine with Huber's smooth hinge"
    )
    huber: float = Field(0.5, gt=0, description="half the width of the part of Huber's loss that is quadratic")
    lam: Annotated[float, Field(gt=0)] | Literal["cv", "private"] = Field(
        alias="lambda",
        description="the regularisation λ; “cv”: chosen by each node on its own records, unaccounted; “private”: "
        "chosen by the exponential mechanism, which costs lambda_epsilon",
    )
    lambda_form: Literal["mean", "sum"] = Field(
        "mean",
        description="which objective λ belongs to: mean loss + (λ/2)‖w‖², or the sources’ Σ loss + λ‖w‖², which is "
        "the former with 2λ/n (Lasso: mean loss + λΣ|w|, or Σ loss + λΣ|w|); the log has both",
    )
    grid: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        None, min_length=1, description="the λ to choose from; default: 10^-4 … 1, or 2^-8 … 2^8 in the form “sum”"
    )
    folds: int = Field(10, ge=2, description="of the cross-validation that chooses λ")
    lambda_epsilon: float | None = Field(
        None, ge=1e-6, allow_inf_nan=True, description="what a private choice of λ costs, besides epsilon"
    )
    solver: Literal["exact", "as-published"] = Field(
        "exact", description="Newton’s method, or the mini-batch descent of Asplund & Frøystad (2015), not private"
    )
    batch: int | None = Field(
        None, ge=1, description="as-published: records a step of the descent; the source does not say how many"
    )
    penalty: Literal["l2", "lasso"] = Field("l2", description="Lasso as in Veldhuizen (2020) is not private")
    noise: Literal["none", "output", "objective"] = Field(
        "none", description="where the noise is: nowhere, in the model, or in the objective"
    )
    rule: Literal["corrected", "as-published"] = Field(
        "corrected", description="how much noise: as much as ε needs, or as the sources have it, with the true ε told"
    )
    epsilon: float | None = Field(
        None, ge=1e-6, allow_inf_nan=True, description="the budget of each record (or node); inf: no noise"
    )
    unit: Literal["record", "node"] = Field(
        "record", description="what ε protects: one record, or all records of a node"
    )
    tolerance: float = Field(
        1e-9, gt=0, description="the length of the gradient at which a fit ends; the noise covers what it leaves open"
    )
    min_records: int = Field(1, ge=1, description="nodes with fewer records take no part and hold no model")
    refits: int = Field(
        1,
        ge=1,
        description="with noise: how many fits ε is divided over; a node fits again when its records have changed. "
        "Without noise there is no limit",
    )

    @model_validator(mode="after")
    def _noise(self) -> RegularisedErmConfig:
        noisy = self.noise != "none"
        if noisy != (self.epsilon is not None):
            raise ValueError("epsilon: belongs to noise = “output” or “objective”, which need it")
        if self.noise == "objective" and self.unit == "node":
            raise ValueError("unit: noise in the objective protects a record; for whole nodes use noise = “output”")
        if self.noise == "objective" and (self.solver != "exact" or self.penalty != "l2"):
            raise ValueError("noise: objective perturbation needs the exact minimum and the penalty l2")
        if noisy and self.penalty == "lasso" and self.rule == "corrected":
            raise ValueError("penalty: no noise is known to cover Lasso; rule = “as-published” runs it, not private")
        return self

    @model_validator(mode="after")
    def _lambda(self) -> RegularisedErmConfig:
        plain = self.solver == "exact" and self.penalty == "l2"
        if self.solver != "exact" and self.penalty != "l2":
            raise ValueError("solver: the mini-batch descent has the penalty l2")
        if (self.solver == "as-published") != (self.batch is not None):
            raise ValueError("batch: belongs to solver = “as-published”, which needs it")
        if self.solver == "as-published" and self.noise != "none" and self.rule == "corrected":
            raise ValueError(
                "rule: no noise is known to cover a descent that stops early; rule = “as-published” runs it"
            )
        if self.penalty == "lasso" and self.loss != "logistic":
            raise ValueError("penalty: Lasso goes with the logistic loss")
        if isinstance(self.lam, str) and not plain:
            raise ValueError("lambda: is chosen with the exact solver and the penalty l2 only; give a number")
        if (self.lam == "private") != (self.lambda_epsilon is not None):
            raise ValueError("lambda_epsilon: belongs to lambda = “private”, which needs it")
        if self.lam == "private" and not (self.noise != "none" and self.rule == "corrected" and self.unit == "record"):
            raise ValueError("lambda: a private choice needs noise by the corrected rule, and unit = “record”")
        return self

    @property
    def choices(self) -> Floats:
        """The λ to choose from, as they are given."""
        return np.array(self.grid or GRIDS[self.lambda_form])

    def as_mean(self, lam: Floats, n: Floats) -> Floats:
        """The given λ as that of the mean loss."""
        factor = 2 if self.penalty == "l2" else 1
        return np.asarray(factor * lam / n if self.lambda_form == "sum" else lam)

    def as_sum(self, lam: Floats, n: Floats) -> Floats:
        """The λ of the sum of losses that belongs to one of the mean."""
        return np.asarray(lam * n / (2 if self.penalty == "l2" else 1))


class RegularisedErm(Learner[RegularisedErmConfig]):
    """A model at each node, fitted in the node's first turn online with enough records, and kept."""

    Config = RegularisedErmConfig
    accepts = frozenset({"loss", "delay", "partition"})
    secret = frozenset({"noise", "objective", "choice"})
    metrics = (
        Metric("lambda.mean", "The mean λ of the nodes that have a model, in an objective with the mean of losses."),
        Metric("lambda.sum", "The mean λ of the nodes that have a model, in an objective with the sum of losses."),
        *BUDGET_METRICS,
    )

    def setup(self, world: World) -> None:
        """No models yet; a ledger where there is noise."""
        config, rows = self.config, self.config.records.rows
        self._noisy = config.noise != "none"
        loose = config.rule == "as-published" and config.noise == "output"  # then the true ε tells what lengths cost
        if self._noisy and not loose:
            refuse_unfit(config.records, "l2", self.name, "noise")
        self._length = longest(config.records, "l2") if loose else 1.0
        if isinstance(config.lam, str) and rows.folded:
            raise UserError(
                f"“{config.records.name}” has no labels to count mistakes with",
                key=f"{self.name}.lambda",
                hint="give a number",
            )
        self._loss = Loss(LOSSES[config.loss], config.huber)
        self._solver = Solver(config.tolerance, threads=world.threads, layer=self.name)
        self.w = np.zeros((world.nodes, config.records.models, config.records.features))
        self.lam = np.zeros(world.nodes)  # of the mean loss; 0 where nothing is fitted
        self.fits = np.zeros(world.nodes, np.int32)
        self.first, self.stop = np.zeros(world.nodes, np.int64), np.zeros(world.nodes, np.int64)  # fitted records
        self.choice = np.full(world.nodes, -1, np.int32)  # of a λ of the grid that was paid for
        self.worst_fit = 0.0  # the largest ε that a fit has truly cost
        units = 0 if not self._noisy else rows.label.size if config.unit == "record" else world.nodes
        self.ledger = Ledger(UniformSchedule(kind="uniform", visits=config.refits), config.epsilon or 0.0, units)
        private = units if config.lam == "private" else 0
        self.lambda_ledger = Ledger(UniformSchedule(kind="uniform", visits=1), config.lambda_epsilon or 0.0, private)

    def start(self, world: World, nodes: Nodes) -> None:
        """Without a model. What was spent stays spent."""
        self.w[nodes] = self.lam[nodes] = self.first[nodes] = self.stop[nodes] = 0

    def step(self, world: World) -> None:
        """Fit the models of those that have none, or one of other records than they have now."""
        rows = self.config.records.rows
        nodes = self._due(world.order, rows)
        if nodes.size:
            self._spend(nodes, rows)
            n = (rows.stop - rows.first)[nodes].astype(float)
            given = self._lambda_for(nodes, rows, n)
            epsilon = (self.config.epsilon or math.inf) / self.config.refits
            self.lam[nodes] = self.config.as_mean(given, n)
            self.w[nodes] = self._fitted(nodes, rows, n, given, epsilon)
            self.first[nodes], self.stop[nodes] = rows.first[nodes], rows.stop[nodes]

    def _due(self, nodes: Nodes, rows: Rows) -> Nodes:
        first, stop = rows.first[nodes], rows.stop[nodes]
        due = (stop - first >= self.config.min_records) & ((self.first[nodes] != first) | (self.stop[nodes] != stop))
        may = self.fits[nodes] < self.config.refits if self._noisy else True
        return np.asarray(nodes[due & may], np.int32)

    def _spend(self, nodes: Nodes, rows: Rows) -> None:
        self.fits[nodes] += 1
        if self._noisy:
            charged = self.ledger.charge(self._units(nodes, rows))
            assert charged.all()  # `_due` names only nodes whose budget allows it

    def _units(self, nodes: Nodes, rows: Rows) -> NDArray[Any]:
        return nodes if self.config.unit == "node" else ranges(rows.first[nodes], rows.stop[nodes])

    # Which λ

    def _lambda_for(self, nodes: Nodes, rows: Rows, n: Floats) -> Floats:
        """The λ of each node in the form of the scenario."""
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
        """Choose λ of the grid where that was not done before (Chaudhuri et al. 2011, section 6).

        A node's records are divided into disjoint parts. One λ is tried on each, privately; the last part counts the
        mistakes, and the exponential mechanism chooses. A record is in one part, so it pays lambda_epsilon once.
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
        """Private models of a part of each node's records, with the λ that all its records would have."""
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
            w = erm.fit_as_published(
                nodes, rows, models, self._loss, total, config.batch or 1, key, self._solver.threads
            )
        else:
            w = erm.fit(nodes, rows, models, self._loss, lam, solver=self._solver)
        return self._as_published(nodes, n, given, lam, epsilon, w)

    def _private(
        self, nodes: Nodes, rows: Rows, n: Floats, lam: Floats, epsilon: float, number: Nodes, part: Part
    ) -> Weights:
        """Exact models with as much noise as ε needs (none for ε = ∞)."""
        models = self.config.records.models
        if self.config.noise == "objective":
            return self._with_objective(nodes, rows, n, lam, epsilon, number, part)
        w = erm.fit(nodes, rows, models, self._loss, lam, solver=self._solver, part=part)
        scale = self._sensitivity(n, lam) * GammaNorm(epsilon=epsilon / models, sensitivity=1).scale
        return self._perturbed("noise", nodes, number, scale, w)

    def _sensitivity(self, n: Floats, lam: Floats) -> Floats:
        """How far the found minimum moves at the most: 2/(nλ) for a record, 2/λ for all, and 2τ/λ for the solver."""
        changed = 1 / n if self.config.unit == "record" else np.ones(n.size)
        return np.asarray(2 * (self._length * changed + self.config.tolerance) / lam)

    def _with_objective(
        self, nodes: Nodes, rows: Rows, n: Floats, lam: Floats, epsilon: float, number: Nodes, part: Part
    ) -> Weights:
        """Minima of perturbed objectives.

        What is found lies within τ/(λ+Δ) of the minimum, depending on the records. So a hundredth of ε goes into
        noise in the model that covers twice this: given the minimum, which is private, that makes private what is
        found.
        """
        models, published = self.config.records.models, self.config.rule == "as-published"
        each = epsilon / models
        form = objective_2008 if published else objective_2011
        objective = form(each if published else (1 - COVER) * each, self._loss.curvature, n, lam)
        linear = self._perturbed("objective", nodes, number, objective.scale, np.zeros((nodes.size, *self.w.shape[1:])))
        linear /= n[:, None, None]
        ridge = lam + objective.delta
        w = erm.fit(nodes, rows, models, self._loss, ridge, linear, self._solver, part)
        self.worst_fit = max(self.worst_fit, models * float((objective.epsilon + COVER * each).max()))
        cover = GammaNorm(epsilon=COVER * each, sensitivity=1).scale * 2 * self.config.tolerance / ridge
        return self._perturbed("noise", nodes, number, cover, w)

    def _as_published(self, nodes: Nodes, n: Floats, given: Floats, lam: Floats, epsilon: float, w: Weights) -> Weights:
        """Noise of the scale 2/(nελ) with λ as it is given: on each coordinate, or for Lasso of that Gamma-norm."""
        if math.isinf(epsilon):
            self.worst_fit = math.inf
            return w
        models = self.config.records.models
        scale = 2 * models / (n * epsilon * given)
        lasso = self.config.penalty == "lasso"
        moved = math.sqrt(w.shape[2]) * self._sensitivity(n, lam) * (1 + ROUNDING)  # in L1 length
        self.worst_fit = max(self.worst_fit, models * float((moved / scale).max()))
        return self._perturbed("noise", nodes, self.fits[nodes], scale, w, laplace=not lasso)

    def _perturbed(
        self, purpose: str, nodes: Nodes, number: Nodes, scale: Floats, w: Weights, laplace: bool = False
    ) -> Weights:
        flat, key, models = w.reshape(-1, w.shape[2]), self.key(purpose), w.shape[1]
        over_ranges(
            self._solver.threads,
            lambda lo, hi: perturb_fits(nodes, lo, hi, number, models, laplace, scale, key, flat),
            0,
            nodes.size,
        )
        return w

    # What is said of it

    @property
    def touches_private_data(self) -> bool:
        """With noise: without it no model leaves its node."""
        return self.config.noise != "none"

    def released(self) -> NDArray[np.float64]:
        """The noisy models, and which λ was chosen; without noise no model leaves its node."""
        return np.concatenate([self.w.ravel(), self.choice]) if self._noisy else np.empty(0)

    def audited(self) -> Audited:
        """One node with so many records that one of them can go against the others, for each λ of a private choice."""
        parts = self.config.choices.size + 1 if self.config.lam == "private" else 1
        return Audited(nodes=1, records=CROWD * parts, cycles=1, norm="l2", changes={"min_records": 1})

    def guarantee(self) -> Guarantee:
        """ε per record or node over all fits and models; for rules as published, the ε that they truly give."""
        config, records = self.config, self.config.records
        if config.noise == "none":
            kept = Guarantee(None, note="every node keeps its model to itself")
            return records.guarantee() if isinstance(records, Published) else kept
        asked = (config.epsilon or 0.0) + (config.lambda_epsilon or 0.0)
        if config.rule == "corrected" and config.solver == "exact" and config.lam != "cv":
            return records.guarantee_of(asked, config.unit)
        why = self._why_not_private()
        if why:
            return Guarantee(None, config.unit, f"{why} (ε = {asked:g} was asked for)")
        true = records.guarantee_of(self.worst_fit * config.refits, config.unit)
        return Guarantee(true.epsilon, true.unit, true.note or f"as published, where ε = {asked:g} was asked for")

    def _why_not_private(self) -> str:
        if self.config.penalty == "lasso":
            return "Lasso’s minimum has no bounded sensitivity"
        if self.config.solver == "as-published":
            return "a descent that stops early has no bounded sensitivity"
        return "λ was chosen on the records themselves, unaccounted" if self.config.lam == "cv" else ""

    def observe(self, world: World) -> dict[str, float]:
        """The mean λ of those that have a model, in both forms, and what was spent."""
        holders = np.flatnonzero(self.lam > 0)
        found: dict[str, float] = {}
        if holders.size:
            lam, n = self.lam[holders], (self.stop - self.first)[holders].astype(float)
            found = {"lambda.mean": float(lam.mean()), "lambda.sum": float(self.config.as_sum(lam, n).mean())}
        return found | self.ledger.metrics(self.lambda_ledger.spent() if self.config.lam == "private" else None)

    def holders(self, world: World) -> NDArray[np.int32]:
        """The online nodes that have fitted a model."""
        holders = super().holders(world)
        return holders[self.lam[holders] > 0]

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """One matrix product for all models."""
        return score(self.w[nodes].astype(np.float32), x)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """How often each node has fitted a model."""
        return self.fits[nodes]


def exponential_choice(wrong: Floats, epsilon: float, key: np.uint64, nodes: Nodes) -> NDArray[np.int64]:
    """For each row a column with probability ∝ exp(−ε·wrong/2) (McSherry & Talwar 2007; drawn by Gumbel's trick)."""
    if math.isinf(epsilon):
        return np.asarray(wrong.argmin(axis=1))
    chance = np.stack([rng.uniform(key, nodes, k=g) for g in range(wrong.shape[1])], axis=1)
    return np.asarray((-epsilon * wrong / 2 - log_of(-log_of(chance))).argmax(axis=1))
