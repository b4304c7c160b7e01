"""Fit one linear model on the records of all nodes: the minimum that gossip learning approaches.

The objective is mean loss + (λ/2)‖w‖² over all records of a layer, as in Hegedűs & Jelasity (2017): the hinge loss of a
support vector machine (Pegasos), or the logistic loss. L-BFGS minimises it (Liu & Nocedal 1989). The hinge loss is
replaced by Huber's loss, whose width decreases until the duality gap of the hinge loss is small. So the result comes
with a proof of how far its objective is from the minimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel, leaf
from golfsim.core.simd import dot_between
from golfsim.core.threads import in_threads
from golfsim.core.words import counted
from golfsim.learning.erm.newton import HUBER, LOGISTIC, Loss, loss_of, slope_of
from golfsim.protocol.records import Rows, sign_for
from golfsim.protocol.symbols import add
from golfsim.protocol.symbols import dot_between as dot_vector

OBJECTIVES = ("pegasos", "logistic", "mean")  # learners whose objective has an optimum here
REMEMBERED = 12  # pairs of steps and changes of the gradient
ARMIJO = 1e-4  # the least decrease of the objective, as a share of what its slope promises
SHORTENED = 40  # times that a step is halved at most
WIDEST, NARROWED = 0.5, 4.0  # half the width of Huber's loss at first, and by how much it decreases
INNER = 0.25  # share of the tolerance that the minimisation of a smooth loss may use
MOST = 5000  # evaluations of the objective


class Objective(NamedTuple):
    """The mean loss of one linear model over the records of all nodes, with a regularisation."""

    rows: Rows
    model: int  # which linear model
    models: int  # the number of linear models
    records: int
    lam: float


class Room(NamedTuple):
    """Temporary memory of a minimisation."""

    gradient: NDArray[np.float64]
    trial: NDArray[np.float64]
    trial_gradient: NDArray[np.float64]
    direction: NDArray[np.float64]
    steps: NDArray[np.float64]  # [remembered, features]
    changes: NDArray[np.float64]  # of the gradient
    products: NDArray[np.float64]  # of a step and its change
    shares: NDArray[np.float64]


@leaf
def evaluate(objective, loss, w, gradient):
    """Compute the gradient at w; return the objective, and an upper bound of its distance to the minimum.

    The slopes α of the loss are feasible for the dual problem, whose value is at most the minimum. For Huber's loss the
    bound is that of the hinge loss.

    Parameters
    ----------
    objective : Objective
        The records and the regularisation.
    loss : Loss
        The loss function.
    w : array of float64, shape (features,)
        The model.
    gradient : array of float64, shape (features,)
        The gradient of the objective at w; filled here.
    """
    rows, model, models = objective.rows, objective.model, objective.models
    slices = models if rows.folded else 1
    total = hinge = dual = 0.0
    for f in range(w.size):
        gradient[f] = 0.0
    for node in range(rows.first.size):
        for record in range(rows.first[node], rows.stop[node]):
            r = record * slices + (model if rows.folded else 0)
            sign = np.float64(sign_for(rows, record, model, models))
            margin = sign * dot_vector(w, 0, rows.x, r, 0, w.size)
            slope = slope_of(loss, margin)
            total += loss_of(loss, margin)
            hinge += max(1 - margin, 0.0)
            dual -= slope
            if slope != 0:
                add(gradient, slope * sign, rows.x, r)
    square = pulled = left = 0.0
    for f in range(w.size):
        pull = gradient[f] / objective.records
        gradient[f] = pull + objective.lam * w[f]
        square += w[f] * w[f]
        pulled += pull * pull
        left += gradient[f] * gradient[f]
    penalty = objective.lam / 2 * square
    if loss.kind == LOGISTIC:
        return total / objective.records + penalty, left / (2 * objective.lam)
    gap = (hinge - dual) / objective.records + penalty + pulled / (2 * objective.lam)
    return total / objective.records + penalty, gap


@leaf
def find_direction(room, stored, newest):
    """Compute direction = −H·gradient, with the inverse Hessian H of the remembered steps (Liu & Nocedal 1989)."""
    size = room.gradient.size
    for f in range(size):
        room.direction[f] = -room.gradient[f]
    for back in range(stored):
        k = (newest - back) % REMEMBERED
        room.shares[k] = dot_between(room.steps, k, room.direction, 0, 0, size) / room.products[k]
        for f in range(size):
            room.direction[f] -= room.shares[k] * room.changes[k, f]
    if stored > 0:
        factor = room.products[newest] / dot_between(room.changes, newest, room.changes, newest, 0, size)
        for f in range(size):
            room.direction[f] *= factor
    for back in range(stored - 1, -1, -1):
        k = (newest - back) % REMEMBERED
        share = room.shares[k] - dot_between(room.changes, k, room.direction, 0, 0, size) / room.products[k]
        for f in range(size):
            room.direction[f] += share * room.steps[k, f]


@leaf
def remember(room, w, place):
    """Store the step from w to the trial with the change of the gradient; return whether they can be used."""
    for f in range(w.size):
        room.steps[place, f] = room.trial[f] - w[f]
        room.changes[place, f] = room.trial_gradient[f] - room.gradient[f]
    room.products[place] = dot_between(room.steps, place, room.changes, place, 0, w.size)
    length = dot_between(room.changes, place, room.changes, place, 0, w.size)
    return room.products[place] > 1e-12 * length


@leaf
def go_along(objective, loss, value, w, share, room):
    """Shorten a step until the objective decreases; return the objective and the gap there, and the evaluations.

    Parameters
    ----------
    objective : Objective
        The records and the regularisation.
    loss : Loss
        The loss function.
    value : float
        The objective at w.
    w : array of float64, shape (features,)
        The model.
    share : float
        The share of the step to try first.
    room : Room
        The direction of the step; receives the trial and its gradient.
    """
    slope = dot_between(room.direction, 0, room.gradient, 0, 0, w.size)
    after, gap = value, np.inf
    for tried in range(1, SHORTENED + 1):
        for f in range(w.size):
            room.trial[f] = w[f] + share * room.direction[f]
        after, gap = evaluate(objective, loss, room.trial, room.trial_gradient)
        if after <= value + ARMIJO * share * slope:
            return after, gap, tried
        share /= 2
    return after, gap, SHORTENED


@leaf
def descend(objective, loss, tolerance, most, w, room):
    """Minimise a smooth objective by L-BFGS; return the gap and the number of evaluations.

    It ends when a bound of the distance to the minimum is at most the tolerance, as a share of the objective.

    Parameters
    ----------
    objective : Objective
        The records and the regularisation.
    loss : Loss
        The loss function.
    tolerance : float
        The largest distance to the minimum, as a share of the objective.
    most : int
        The largest number of evaluations.
    w : array of float64, shape (features,)
        The model; changed in place.
    room : Room
        Temporary memory.
    """
    value, gap = evaluate(objective, loss, w, room.gradient)
    used, stored, newest = 1, 0, -1
    while used < most:
        square = dot_between(room.gradient, 0, room.gradient, 0, 0, w.size)
        smooth = square / (2 * objective.lam)  # the distance to the minimum of the smooth loss is at most this
        if gap <= tolerance * value or smooth <= INNER * tolerance * value:
            break
        find_direction(room, stored, newest)
        share = 1.0 if stored > 0 else 1 / max(1.0, np.sqrt(square))
        after, found, tried = go_along(objective, loss, value, w, share, room)
        used += tried
        if not after < value:  # the objective has reached the precision of its numbers
            break
        if remember(room, w, (newest + 1) % REMEMBERED):
            newest, stored = (newest + 1) % REMEMBERED, min(stored + 1, REMEMBERED)
        value, gap = after, found
        for f in range(w.size):
            w[f] = room.trial[f]
            room.gradient[f] = room.trial_gradient[f]
    return gap / value, used


@kernel
def minimise(objective, kind, tolerance, most, w):
    """Fit one linear model; return an upper bound of its distance to the minimum, as a share of the objective.

    Parameters
    ----------
    objective : Objective
        The records and the regularisation.
    kind : int
        LOGISTIC, or HUBER for the hinge loss.
    tolerance : float
        The largest distance to the minimum, as a share of the objective.
    most : int
        The largest number of evaluations of the objective.
    w : array of float64, shape (features,)
        The initial model; changed in place.
    """
    size = w.size
    room = Room(
        np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty((REMEMBERED, size)),
        np.empty((REMEMBERED, size)), np.empty(REMEMBERED), np.empty(REMEMBERED),
    )  # fmt: skip
    width = WIDEST
    gap, used = descend(objective, Loss(kind, width), tolerance, most, w, room)
    while kind == HUBER and gap > tolerance and used < most and width > 1e-9:
        width /= NARROWED
        gap, more = descend(objective, Loss(kind, width), tolerance, most - used, w, room)
        used += more
    return gap


@kernel
def mean_vector(objective, w):
    """Compute the mean of yx over all records, for one linear model."""
    evaluate(objective, Loss(HUBER, WIDEST), np.zeros(w.size), w)
    for f in range(w.size):
        w[f] = -w[f]  # at the zero model every record is on the steep side of the loss


def fit(
    rows: Rows, models: int, learner: str, lam: float, tolerance: float = 1e-4, threads: int = 1, layer: str = ""
) -> NDArray[np.float64]:
    """Return the models with the smallest objective over all records; the mean of yx for the learner “mean”.

    Parameters
    ----------
    rows : Rows
        The records of all nodes.
    models : int
        The number of linear models.
    learner : str
        The update rule whose limit is wanted: pegasos, logistic or mean.
    lam : float
        The regularisation λ.
    tolerance : float
        The largest distance of the objective to its minimum, as a share of the objective.
    threads : int
        The number of threads; each fits other models.
    layer : str
        The layer that an error message names.

    Returns
    -------
    array of float64, shape (models, features)
    """
    number = int((rows.stop - rows.first).sum())
    w = np.zeros((models, rows.x.shape[1]))
    if number == 0:
        return w

    def run(model: int) -> float:
        objective = Objective(rows, model, models, number, lam)
        if learner == "mean":
            mean_vector(objective, w[model])
            return 0.0
        return float(minimise(objective, HUBER if learner == "pegasos" else LOGISTIC, tolerance, MOST, w[model]))

    worst = max(in_threads(threads, run, range(models)))
    if not worst <= tolerance:
        raise UserError(
            f"the fit did not converge in {counted(MOST, 'evaluation')} of the objective: it is at most "
            f"{worst:.2g} of the objective above the minimum, and the tolerance is {tolerance:.2g}",
            key=f"{layer}.tolerance" if layer else None,
            hint="use a larger tolerance, or a larger λ: problems with a small λ are harder to solve",
        )
    return w
