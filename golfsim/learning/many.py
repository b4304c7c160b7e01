"""Learners that update many models at once, with array libraries instead of kernels: for example PyTorch modules.

A kernel cannot call such a library. So a layer collects the updates that do not depend on each other, and `learn_many`
makes them together. The learner only computes gradients and scores. Budget, noise, clipping, ages and optimisers are
golfsim's own, the same as for all other learners with a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.threads import in_threads
from golfsim.learning.gradients import descend
from golfsim.learning.kinds import Rule, with_room
from golfsim.learning.online import GradientConfig, GradientLearner, Shape
from golfsim.learning.updates import Noise, charge, units
from golfsim.privacy.ledger import Budget
from golfsim.privacy.mechanisms import ROUNDING
from golfsim.privacy.noise import add_noise
from golfsim.protocol.records import Rows

TOGETHER = 64  # models per call of the library
RECORDS = 2048  # records per call, of all models; a single model may have more

C = TypeVar("C", bound=GradientConfig)


class BatchedLearner(GradientLearner[C]):
    """A learner without kernels: its methods work on many models, one in each row of an array.

    All results must be functions of the arguments, with the same bits in every thread.
    """

    batched = True

    def gradients(
        self,
        records: Shape,
        w: NDArray[np.float32],
        x: NDArray[np.float32],
        label: NDArray[np.int32],
        share: NDArray[np.float32],
        limit: Limit | None,
    ) -> NDArray[np.float32]:
        """Return the gradient of the loss of each model, summed over its records.

        Model k is w[k], and its records are x[k] with labels label[k] and weights share[k]; a record of weight 0 fills
        the place of one that is not there. With a limit the gradient of each record is clipped before it is weighted.
        """
        raise NotImplementedError

    def scores_many(self, records: Shape, w: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores [records, models, scores] of records x by the models w."""
        raise NotImplementedError

    def updates(self) -> tuple[int | None, int]:
        """Return how many records an update uses (None: all of a node), and how often a node goes over its records."""
        return None, 1


class Limit(NamedTuple):
    """The largest length of the gradient of a record."""

    clip: float
    l1: bool  # whether this length is the L1 length


def many_scores(
    learner: Any, records: Shape, models: NDArray[np.float32], x: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the scores [records, models, scores] of records by models [models, numbers]."""
    found: NDArray[np.float32] = learner.scores_many(records, models[:, : learner.parameters(records)], x)
    return found


def refuse_several_updates(learner: Any, layer: str) -> None:
    """Refuse noise for a learner that makes several updates with the records of a node: a visit pays for one."""
    if learner.updates() != (None, 1):
        what = "noise in gradients needs one update with all records of a node per visit"
        raise UserError(what, key=f"{layer}.learner", hint="remove batch and epochs from the learner", docs="privacy")


def refuse_batches_of_its_own(learner: Any, layer: str) -> None:
    """Refuse a learner that divides the records of a node into batches, for layers that do so themselves."""
    if learner.batched and learner.updates() != (None, 1):
        what = "this layer decides itself which records an update uses"
        hint = "remove batch and epochs from the learner, and set those of the layer"
        raise UserError(what, key=f"{layer}.learner", hint=hint, docs="torch")


@kernel
def charge_visits(rows, nodes, noise, budget, epsilon, number):
    """Charge visits to nodes, one after the other.

    Parameters
    ----------
    rows : Rows
        The records of the nodes.
    nodes : array of int32, shape (visits,)
        The visited nodes; a node may occur several times.
    noise : Noise
        The perturbation of gradients.
    budget : Budget
        The visits of all units; changed in place.
    epsilon : array of float64, shape (visits,)
        The ε of each visit; infinite: no noise; 0: there are no records, or too little budget. Filled here.
    number : array of int32, shape (visits,)
        How often the unit has been visited, including this visit; it selects the random numbers. Filled here.
    """
    for e in range(nodes.size):
        epsilon[e] = charge(rows, nodes[e], noise, budget)
        number[e] = 0
        if noise.on and epsilon[e] > 0:
            number[e] = budget.visits[units(rows, nodes[e], noise)[0]]


@kernel
def perturb(rows, nodes, number, epsilon, noise, clip, gradient):
    """Perturb the mean gradient of each node, as `golfsim.learning.updates.noisy_update` does.

    Parameters
    ----------
    rows : Rows
        The records of the nodes.
    nodes : array of int32, shape (visits,)
        The visited nodes.
    number : array of int32, shape (visits,)
        The number of each visit.
    epsilon : array of float64, shape (visits,)
        The ε of each visit.
    noise : Noise
        The perturbation.
    clip : float
        The largest length of the gradient of a record.
    gradient : array of float32, shape (visits, parameters)
        The mean gradients; changed in place.
    """
    for e in range(nodes.size):
        lo, hi = units(rows, nodes[e], noise)
        scale = clip * 2.0 * (1 + ROUNDING) / (hi - lo) / epsilon[e]
        add_noise(noise.kind, noise.key, number[e], lo, 0, scale, gradient, e)


@kernel
def descend_all(w, places, age, gradient, rule):
    """Change models by their gradients, each by the rule of the optimiser, and count the updates.

    Parameters
    ----------
    w : array of float32, shape (models, numbers)
        The models; changed in place.
    places : array of int64, shape (updates,)
        The row of each model, without repetition.
    age : array of int32, shape (models,)
        The number of updates of each model; changed in place.
    gradient : array of float32, shape (updates, parameters)
        The gradients.
    rule : Rule
        The update rule.
    """
    own = with_room(rule)
    for e in range(places.size):
        i = places[e]
        for f in range(gradient.shape[1]):
            own.room.gradient[0, f] = gradient[e, f]
        age[i] += 1
        descend(w, i, age[i], own)


@kernel
def add_clipped(one, model, share, clip, l1, out):
    """Add the gradients of single records to those of their models, after scaling down those that are too long.

    A gradient whose length is not a finite number is left out: its length cannot be limited.

    Parameters
    ----------
    one : array of float32, shape (records, parameters)
        The gradient of each record.
    model : array of int64, shape (records,)
        The row of `out` that it belongs to.
    share : array of float32, shape (records,)
        The weight of each record.
    clip : float
        The largest length.
    l1 : bool
        Whether this length is the L1 length.
    out : array of float64, shape (models, parameters)
        The sums; changed in place. In single precision the rounding of many terms would exceed what noise accounts for.
    """
    for r in range(model.size):
        length = 0.0
        for f in range(one.shape[1]):
            value = np.float64(one[r, f])
            length += abs(value) if l1 else value * value
        if not l1:
            length = np.sqrt(length)
        if share[r] > 0 and length < np.inf:
            factor = share[r] * (clip / length if length > clip else 1.0)
            for f in range(one.shape[1]):
                out[model[r], f] += factor * one[r, f]


class Step(NamedTuple):
    """Updates that do not depend on each other: of model places[e] by records first[e] … stop[e]−1 of nodes[e]."""

    places: NDArray[np.int64]
    nodes: NDArray[np.int32]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    epsilon: NDArray[np.float64]
    number: NDArray[np.int32]

    def chosen(self, which: Any) -> Step:
        """Return some of the updates."""
        return Step(*(column[which] for column in self))


class Together(NamedTuple):
    """Everything that determines how models are updated together."""

    learner: Any
    records: Shape
    rows: Rows
    rule: Rule
    noise: Noise
    budget: Budget
    threads: int


def learn_many(how: Together, w: NDArray[np.float32], age: NDArray[np.int32], nodes: NDArray[np.int32]) -> None:
    """Update model w[e] by the records of nodes[e], in place, as `golfsim.learning.updates.learn` does for one model.

    Models are divided into calls of the library by their number and records, not by threads. So the bits do not depend
    on the number of threads.
    """
    rows = how.rows
    epsilon, number = np.empty(nodes.size), np.empty(nodes.size, np.int32)
    charge_visits(rows, nodes, how.noise, how.budget, epsilon, number)
    places = np.flatnonzero(epsilon > 0)
    visited = nodes[places]
    all_of = Step(places, visited, rows.first[visited], rows.stop[visited], epsilon[places], number[places])
    size, rounds = how.learner.updates()
    for step in _steps(all_of, 1 if how.rule.one_by_one else size, rounds):
        _update_all(how, w, age, step)


def without_noise(learner: Any, records: Shape, rows: Rows, rule: Rule, threads: int) -> Together:
    """Return how models are updated together, without noise and budget."""
    budget = Budget(0, 0, 0.0, np.zeros(0, np.int32))
    return Together(learner, records, rows, rule, Noise(False, 0, False, np.uint64(0)), budget, threads)


def update_many(
    how: Together,
    w: NDArray[np.float32],
    age: NDArray[np.int32],
    places: NDArray[Any],
    spans: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """Make one update without noise of some models, each by a range of records.

    Parameters
    ----------
    how : Together
        Everything that determines how models are updated.
    w : array of float32, shape (models, numbers)
        The models; changed in place.
    age : array of int32, shape (models,)
        The number of their updates; changed in place.
    places : array of integers, shape (updates,)
        The models to update, without repetition.
    spans : two arrays of int64, shape (updates,)
        The records of each update: the first one, and the one after the last one. An empty range changes nothing.
    """
    _update_all(how, w, age, _without_noise(places, *spans))


def pass_many(
    how: Together,
    w: NDArray[np.float32],
    age: NDArray[np.int32],
    places: NDArray[Any],
    nodes: NDArray[np.int32],
    batches: tuple[int | None, int],
) -> None:
    """Update models by all batches of the records of nodes, in the order of the records, without noise.

    Parameters
    ----------
    how : Together
        Everything that determines how models are updated.
    w : array of float32, shape (models, numbers)
        The models; changed in place.
    age : array of int32, shape (models,)
        The number of their updates; changed in place.
    places : array of integers, shape (nodes,)
        The model that learns from each node, without repetition.
    nodes : array of int32, shape (nodes,)
        The nodes.
    batches : (int or None, int)
        The number of records per batch (None: all of a node), and the number of passes.
    """
    step = _without_noise(places, how.rows.first[nodes], how.rows.stop[nodes])
    for part in _steps(step, *batches):
        _update_all(how, w, age, part)


def _without_noise(places: NDArray[Any], first: NDArray[np.int64], stop: NDArray[np.int64]) -> Step:
    """Return updates without noise, of the models that have records."""
    some = first < stop
    number = int(some.sum())
    unused = np.zeros(number, np.int32)
    return Step(places[some].astype(np.int64), unused, first[some], stop[some], np.full(number, np.inf), unused)


def _steps(whole: Step, size: int | None, rounds: int) -> Iterator[Step]:
    """Yield the updates of all models, one of each at a time: mini-batches in the order of the records."""
    if size is None:
        yield from (whole for _ in range(rounds))
        return
    batches = -(-(whole.stop - whole.first) // size)
    for number in range(int(batches.max(initial=0)) * rounds):
        step, each = whole.chosen(number < batches * rounds), batches[number < batches * rounds]
        first = step.first + number % each * size
        yield step._replace(first=first, stop=np.minimum(first + size, step.stop))


def padded(records: int) -> int:
    """Return how many places a model with this many records gets: at most a third of them remain empty."""
    power = 1 << max(records - 1, 0).bit_length()
    return 3 * power // 4 if power > 2 and records <= 3 * power // 4 else power


def _update_all(how: Together, w: NDArray[np.float32], age: NDArray[np.int32], step: Step) -> None:
    """Make one update of each model of a step."""
    learner, records, rows, rule = how.learner, how.records, how.rows, how.rule
    parameters, clip = learner.parameters(records), rule.steps.clip
    limit = Limit(clip, rule.steps.l1) if clip > 0 else None

    def update(part: Step) -> None:
        size = part.stop - part.first
        place = np.arange(int(size.max()) if part.places.size == 1 else padded(int(size.max())))
        index = part.first[:, None] + np.minimum(place, size[:, None] - 1)
        share = np.where(place < size[:, None], 1 / size[:, None], 0).astype(np.float32)
        models = w[part.places, :parameters]
        gradient = learner.gradients(records, models, rows.x[index], rows.label[index], share, limit)
        if np.isfinite(part.epsilon).any():  # all of them: the ε of a layer is finite or not
            perturb(rows, part.nodes, part.number, part.epsilon, how.noise, clip, gradient)
        descend_all(w, part.places, age, gradient, rule)

    in_threads(how.threads, update, list(_parts(step)))


def _parts(step: Step) -> Iterator[Step]:
    """Divide a step into calls of the library, of models with about as many records."""
    if not step.places.size:
        return
    wide = np.array([padded(int(size)) for size in step.stop - step.first])
    for width in np.unique(wide):
        these = np.flatnonzero(wide == width)
        each = max(1, min(TOGETHER, RECORDS // int(width)))
        for lo in range(0, these.size, each):
            yield step.chosen(these[lo : lo + each])
