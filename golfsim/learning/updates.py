"""Update models by the records of a node, with or without noise in the gradient.

Linear learners have the form w ← decay·w + step·yx (Hegedűs & Jelasity 2017, equations 8 and 11). They differ in the
step size, which depends on the margin w·yx. All other learners update a row of parameters by kernels of their own. The
compiler chooses by the type of the rule.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core.kernels import OVERLOADED, inlined, leaf
from golfsim.core.simd import fused
from golfsim.learning.gradients import descend, mean_gradient
from golfsim.learning.kinds import Rule, learner_of, stand_at
from golfsim.privacy.ledger import Budget, may_visit, spend
from golfsim.privacy.mechanisms import ROUNDING
from golfsim.privacy.noise import GAUSSIAN, add_noise
from golfsim.protocol.records import Rows, sign_for
from golfsim.protocol.symbols import add_named, are_symbols, dot, ground_of, models_of

if TYPE_CHECKING:
    from golfsim.privacy.mechanisms import Guarantee, Unit
    from golfsim.protocol.records import Records


class Seen(NamedTuple):
    """The first updates at some nodes, for audits: the model that was received, and what was made of it."""

    place: NDArray[np.int32]  # of each node among those that are watched, or −1; empty: no node is watched
    kept: NDArray[np.int32]  # [watched]: the number of updates that were kept
    age: NDArray[np.int32]  # [watched, updates]: of the received model
    before: NDArray[np.float32]  # [watched, updates, rows, features]
    after: NDArray[np.float32]

    @classmethod
    def at(cls, nodes: NDArray[np.int32], of: int, updates: int, shape: tuple[int, ...]) -> Seen:
        """Return the memory for the first updates at some of `of` nodes, of models of this shape."""
        place = np.full(of, -1, np.int32)
        place[nodes] = np.arange(nodes.size)
        models = [np.zeros((nodes.size, updates, *shape), np.float32) for _ in range(2)]
        return cls(place, np.zeros(nodes.size, np.int32), np.zeros((nodes.size, updates), np.int32), *models)


UNSEEN = Seen.at(np.zeros(0, np.int32), 0, 0, (0, 0))


class Noise(NamedTuple):
    """The perturbation of gradients."""

    on: bool  # whether gradients are perturbed
    kind: int  # of `golfsim.privacy.noise`
    per_record: bool  # the unit is a record: the sensitivity of the mean over k records is k times smaller
    key: np.uint64
    seen: Seen = UNSEEN


Sharing = Literal["shared", "as-coded"]
SHARING = (
    "“shared”: the c one-versus-all problems share ε, so each has ε/c (as published); “as-coded”: each problem has the "
    "complete ε, as in the program of the authors, so the true ε is c·ε"
)


def spent_on_all(epsilon: float, rule: Sharing, models: int) -> float:
    """Return the ε that the noisy gradients of all one-versus-all problems spend together.

    `noisy_update` gives each problem the same part of it.
    """
    return epsilon * models if rule == "as-coded" else epsilon


def guarantee_of_gradients(
    records: Records[Any], epsilon: float, rule: Sharing, unit: Unit, delta: float = 0.0
) -> Guarantee:
    """Return the guarantee of noisy gradients: the visits of a record compose sequentially, records in parallel."""
    proven = records.guarantee_of(spent_on_all(epsilon, rule, records.models), unit, delta)
    if rule == "shared" or records.models == 1 or math.isinf(epsilon):
        return proven
    each = f"{epsilon:g} for each of {records.models} one-versus-all problems"
    return replace(proven, note=f"{proven.note}; {each}" if proven.note else each)


def decay_of(rule: Rule, t: Any) -> Any:
    """Return the factor by which the t-th update shrinks a linear model."""
    learner = learner_of(rule)
    return learner.decay(learner.Numbers(*rule.numbers), t)


@overload(decay_of, jit_options=OVERLOADED)
def _compiled_decay(rule, t):
    kernel, numbers = learner_of(rule).decay, learner_of(rule).Numbers
    return lambda rule, t: kernel(numbers(*rule.numbers), t)


def reach_of(rule: Rule, t: Any) -> Any:
    """Return the largest step size of the t-th update of a linear model."""
    learner = learner_of(rule)
    return learner.reach(learner.Numbers(*rule.numbers), t)


@overload(reach_of, jit_options=OVERLOADED)
def _compiled_reach(rule, t):
    kernel, numbers = learner_of(rule).reach, learner_of(rule).Numbers
    return lambda rule, t: kernel(numbers(*rule.numbers), t)


def step_size(rule: Rule, margin: Any, t: Any) -> Any:
    """Return the step size of the t-th update of a linear model along yx."""
    learner = learner_of(rule)
    return learner.step(learner.Numbers(*rule.numbers), margin, t)


@overload(step_size, jit_options=OVERLOADED)
def _compiled_step(rule, margin, t):
    kernel, numbers = learner_of(rule).step, learner_of(rule).Numbers
    return lambda rule, margin, t: kernel(numbers(*rule.numbers), margin, t)


# Arguments are an array and the number of a row, not the row: a slice costs more than the loop over a short row.


@inlined
def _move_dense(w, i, decay, step, x, j, out, m):
    for f in range(w.shape[1]):
        out[m, f] = fused(step, x[j, f], decay * w[i, f])


@inlined
def _move_symbols(w, i, decay, step, x, j, out, m):
    ground = np.float32(ground_of(x, j // models_of(x)))
    for f in range(w.shape[1]):
        out[m, f] = fused(step, ground, decay * w[i, f])
    add_named(out, m, step, x, j)


def move(w: Any, i: Any, decay: Any, step: Any, x: Any, j: Any, out: Any, m: Any) -> None:
    """Compute out[m] = decay·w[i] + step·x[j].

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    i : int
        The row of w.
    decay, step : float32
        The factors.
    x : array of float32, shape (rows, features), or Symbols
        The records.
    j : int
        The row of x.
    out : array of float32, shape (rows, features)
        The output; may be w if the rows are the same.
    m : int
        The row of out.
    """
    (_move_symbols if are_symbols(x) else _move_dense)(w, i, decay, step, x, j, out, m)


@overload(move, jit_options=OVERLOADED)
def _compiled_move(w, i, decay, step, x, j, out, m):
    chosen = _move_symbols if are_symbols(x) else _move_dense
    return lambda w, i, decay, step, x, j, out, m: chosen(w, i, decay, step, x, j, out, m)


@inlined
def nudge(out, m, decay, step, x, j):
    """Compute out[m] = decay·out[m] + step·x[j] in place.

    Parameters
    ----------
    out : array of float32, shape (rows, features)
        The models.
    m : int
        The row of out.
    decay, step : float32
        The factors.
    x : array of float32, shape (rows, features), or Symbols
        The records.
    j : int
        The row of x.
    """
    move(out, m, decay, step, x, j, out, m)


@inlined
def copy_model(w, start, out):
    """Copy the rows of w from `start` on into `out`."""
    for m in range(out.shape[0]):
        for f in range(out.shape[1]):
            out[m, f] = w[start + m, f]


@inlined
def keep_model(fresh, w, start):
    """Write a model into the rows of w from `start` on."""
    for m in range(fresh.shape[0]):
        for f in range(fresh.shape[1]):
            w[start + m, f] = fresh[m, f]


def renew(w: Any, i: Any, t: Any, rows: Rows, first: Any, stop: Any, rule: Rule) -> None:
    """Make the t-th update of a model that is not linear, in place, with a learner's own kernel or by its gradient.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models.
    i : int
        The first row of the model.
    t : int
        The number of the update; the first one is 1.
    rows : Rows
        The records.
    first, stop : int
        The records to use: first … stop−1.
    rule : Rule
        The update rule.
    """
    learner = learner_of(rule)
    if learner.update is None:
        _renew_by_gradient(w, i, t, rows, first, stop, rule)
    else:
        learner.update(learner.Numbers(*rule.numbers), w, i, t, rows, first, stop, rule.room)


@overload(renew, jit_options=OVERLOADED)
def _compiled_renew(w, i, t, rows, first, stop, rule):
    kernel, numbers = learner_of(rule).update, learner_of(rule).Numbers
    if kernel is None:
        return lambda w, i, t, rows, first, stop, rule: _renew_by_gradient(w, i, t, rows, first, stop, rule)
    return lambda w, i, t, rows, first, stop, rule: kernel(
        numbers(*rule.numbers), w, i, t, rows, first, stop, rule.room
    )


def scores_of(rule: Rule, w: Any, i: Any, x: Any, r: Any, out: Any, o: Any) -> None:
    """Write the scores of record r by the model in row i of w into row o of `out`; of learners that are not linear.

    Parameters
    ----------
    rule : Rule
        The rule with the learner and its numbers.
    w : array of float32, shape (models, numbers)
        The models.
    i : int
        The row of the model.
    x : array of float32, shape (records, features)
        The records.
    r : int
        The record.
    out : array of float32, shape (rows, scores)
        The scores.
    o : int
        The row that is filled.
    """
    learner = learner_of(rule)
    learner.scores(learner.Numbers(*rule.numbers), w, i, x, r, out, o, rule.room)


@overload(scores_of, jit_options=OVERLOADED)
def _compiled_scores(rule, w, i, x, r, out, o):
    kernel, numbers = learner_of(rule).scores, learner_of(rule).Numbers
    return lambda rule, w, i, x, r, out, o: kernel(numbers(*rule.numbers), w, i, x, r, out, o, rule.room)


@leaf
def _renew_by_gradient(w, i, t, rows, first, stop, rule):
    mean_gradient(w, i, rows, first, stop, rule)
    descend(w, i, t, rule)


@leaf
def _amend_linear(w, start, models, age, rows, first, stop, rule):
    slices = models if rows.folded else 1
    for record in range(first, stop):
        age += 1
        decay = decay_of(rule, age)
        for m in range(models):
            r = record * slices + (m if rows.folded else 0)
            sign = sign_for(rows, record, m, models)
            step = step_size(rule, sign * dot(w, start + m, rows.x, r), age)
            nudge(w, start + m, decay, np.float32(step * sign), rows.x, r)
    return age


@leaf
def _amend_any(w, start, models, age, rows, first, stop, rule):
    for record in range(first, stop):
        age += 1
        renew(w, start, age, rows, record, record + 1, rule)
    return age


def amend(w: Any, start: Any, models: Any, age: Any, rows: Rows, first: Any, stop: Any, rule: Rule) -> Any:
    """Update a model in place by one record after the other and return its new age.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    models : int
        The number of linear models.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    first, stop : int
        The records to use: first … stop−1.
    rule : Rule
        The update rule.
    """
    return (_amend_linear if learner_of(rule).linear else _amend_any)(w, start, models, age, rows, first, stop, rule)


@overload(amend, jit_options=OVERLOADED)
def _compiled_amend(w, start, models, age, rows, first, stop, rule):
    chosen = _amend_linear if learner_of(rule).linear else _amend_any
    return lambda w, start, models, age, rows, first, stop, rule: chosen(w, start, models, age, rows, first, stop, rule)


@leaf
def _update_linear(w, start, age, rows, node, rule, out):
    first, stop = rows.first[node], rows.stop[node]
    if first == stop:
        copy_model(w, start, out)
        return age
    models = out.shape[0]
    slices = models if rows.folded else 1
    together = first + 1 if rule.one_by_one else stop
    size = together - first
    age += 1
    decay = decay_of(rule, age)
    for m in range(models):
        for record in range(first, together):
            r = record * slices + (m if rows.folded else 0)
            sign = sign_for(rows, record, m, models)
            step = np.float32(step_size(rule, sign * dot(w, start + m, rows.x, r), age) / size * sign)
            if record == first:
                move(w, start + m, decay, step, rows.x, r, out, m)
            else:
                nudge(out, m, np.float32(1), step, rows.x, r)
    return _amend_linear(out, 0, models, age, rows, together, stop, rule)


@leaf
def _update_any(w, start, age, rows, node, rule, out):
    first, stop = rows.first[node], rows.stop[node]
    copy_model(w, start, out)
    stand_at(rule, node)
    if rule.one_by_one:
        return _amend_any(out, 0, 1, age, rows, first, stop, rule)
    if first < stop:
        age += 1
        renew(out, 0, age, rows, first, stop, rule)
    return age


def update(w: Any, start: Any, age: Any, rows: Rows, node: Any, rule: Rule, out: Any) -> Any:
    """Write a model after an update by the records of a node into `out`, and return its new age.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used.
    rule : Rule
        The update rule.
    out : array of float32, shape (models, features)
        The output.
    """
    return (_update_linear if learner_of(rule).linear else _update_any)(w, start, age, rows, node, rule, out)


@overload(update, jit_options=OVERLOADED)
def _compiled_update(w, start, age, rows, node, rule, out):
    chosen = _update_linear if learner_of(rule).linear else _update_any
    return lambda w, start, age, rows, node, rule, out: chosen(w, start, age, rows, node, rule, out)


@inlined
def units(rows, node, noise):
    """Return the range of units that a visit to a node is charged to: all its records, or the node itself."""
    if noise.per_record:
        return rows.first[node], rows.stop[node]
    return np.int64(node), np.int64(node) + 1


@inlined
def charge(rows, node, noise, budget):
    """Charge a visit to a node and return its ε; 0 if the node has no records or too little budget."""
    if rows.first[node] == rows.stop[node]:
        return 0.0
    if not noise.on:
        return np.inf
    lo, hi = units(rows, node, noise)
    return spend(budget, lo, hi) if may_visit(budget, lo, hi) else 0.0


@leaf
def _noisy_linear(w, start, age, rows, node, rule, noise, budget, epsilon, out):
    first, stop = rows.first[node], rows.stop[node]
    lo, hi = units(rows, node, noise)
    models = out.shape[0]
    slices = models if rows.folded else 1
    age += 1
    decay = decay_of(rule, age)
    part = np.sqrt(np.float64(models)) if noise.kind == GAUSSIAN else np.float64(models)
    scale = reach_of(rule, age) * 2.0 * (1 + ROUNDING) / (hi - lo) / (epsilon / part)
    for m in range(models):
        for f in range(out.shape[1]):
            out[m, f] = 0
        for record in range(first, stop):
            r = record * slices + (m if rows.folded else 0)
            sign = sign_for(rows, record, m, models)
            step = step_size(rule, sign * dot(w, start + m, rows.x, r), age) / (stop - first) * sign
            nudge(out, m, np.float32(1), np.float32(step), rows.x, r)
        k = m * 3 * out.shape[1]
        add_noise(noise.kind, noise.key, budget.visits[lo], lo, k, scale, out, m)
        nudge(out, m, np.float32(1), decay, w, start + m)
    return age


@leaf
def _noisy_descent(w, start, age, rows, node, rule, noise, budget, epsilon, out):
    first, stop = rows.first[node], rows.stop[node]
    lo, hi = units(rows, node, noise)
    age += 1
    mean_gradient(w, start, rows, first, stop, rule)
    scale = rule.steps.clip * 2.0 * (1 + ROUNDING) / (hi - lo) / epsilon
    add_noise(noise.kind, noise.key, budget.visits[lo], lo, 0, scale, rule.room.gradient, 0)
    copy_model(w, start, out)
    descend(out, 0, age, rule)
    return age


@leaf
def _noisy_never(w, start, age, rows, node, rule, noise, budget, epsilon, out):
    return age


def _noisy(rule: Any) -> Any:
    """Return the noisy update of a learner; layers refuse noise for a learner whose gradient has no bound."""
    learner = learner_of(rule)
    by_gradient = getattr(learner, "gradient", None) is not None
    return _noisy_linear if learner.linear else _noisy_descent if by_gradient else _noisy_never


def noisy_update(
    w: Any,
    start: Any,
    age: Any,
    rows: Rows,
    node: Any,
    rule: Rule,
    noise: Noise,
    budget: Budget,
    epsilon: Any,
    out: Any,
) -> Any:
    """Write a model after an update by the perturbed mean gradient of the records of a node; return its new age.

    The length of the gradient of a record is at most that of the record, which is at most 1. So the mean over k records
    has a sensitivity of 2/k with respect to one record, and of 2 with respect to all records. The gradient is perturbed
    and rounded before the model is added: so the bits of the new model depend on the records through it only.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used; it has at least one.
    rule : Rule
        The update rule.
    noise : Noise
        The perturbation.
    budget : Budget
        The visits of all units; the number of visits selects the random numbers.
    epsilon : float
        The ε that was charged for the update; with Gaussian noise its μ.
    out : array of float32, shape (models, features)
        The output.
    """
    return _noisy(rule)(w, start, age, rows, node, rule, noise, budget, epsilon, out)


@overload(noisy_update, jit_options=OVERLOADED)
def _compiled_noisy_update(w, start, age, rows, node, rule, noise, budget, epsilon, out):
    chosen = _noisy(rule)
    return lambda w, start, age, rows, node, rule, noise, budget, epsilon, out: chosen(
        w, start, age, rows, node, rule, noise, budget, epsilon, out
    )


@leaf
def keep_seen(seen, node, w, start, age, out):
    """Keep an update at a watched node.

    Parameters
    ----------
    seen : Seen
        What is kept; changed in place.
    node : int
        The node.
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model that was received.
    age : int
        The age of this model.
    out : array of float32, shape (models, features)
        The model after the update.
    """
    place = seen.place[node]
    if place < 0 or seen.kept[place] == seen.age.shape[1]:
        return
    number = seen.kept[place]
    seen.age[place, number] = age
    for m in range(out.shape[0]):
        for f in range(out.shape[1]):
            seen.before[place, number, m, f] = w[start + m, f]
            seen.after[place, number, m, f] = out[m, f]
    seen.kept[place] += 1


@leaf
def learn(w, start, age, rows, node, rule, noise, budget, out):
    """Write an updated model into `out` and return its age; spend budget and perturb the gradient if `noise` is on.

    If the remaining budget is too small, the model is copied unchanged.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used.
    rule : Rule
        The update rule.
    noise : Noise
        The perturbation.
    budget : Budget
        The visits of all units, changed in place.
    out : array of float32, shape (models, features)
        The output.
    """
    epsilon = charge(rows, node, noise, budget)
    if epsilon == 0:
        copy_model(w, start, out)
        return age
    if epsilon < np.inf:
        new_age = noisy_update(w, start, age, rows, node, rule, noise, budget, epsilon, out)
    else:
        new_age = update(w, start, age, rows, node, rule, out)
    if noise.seen.place.size > 0:
        keep_seen(noise.seen, node, w, start, age, out)
    return new_age


@leaf
def learn_in_place(w, start, age, rows, node, rule, noise, budget, fresh):
    """Update a model in place as `learn` does, and return its age.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The models, changed in place.
    start : int
        The first row of the model, which has one row per linear model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node whose records are used.
    rule : Rule
        The update rule.
    noise : Noise
        The perturbation.
    budget : Budget
        The visits of all units, changed in place.
    fresh : array of float32, shape (models, features)
        Temporary memory for the new model of a mini-batch or with noise, which needs the old model, too.
    """
    first, stop, models = rows.first[node], rows.stop[node], fresh.shape[0]
    if noise.on or noise.seen.place.size > 0 or (stop - first > 1 and not rule.one_by_one):
        age = learn(w, start, age, rows, node, rule, noise, budget, fresh)
        keep_model(fresh, w, start)
        return age
    stand_at(rule, node)
    return amend(w, start, models, age, rows, first, stop, rule)
