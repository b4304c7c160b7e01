"""Choose λ, the shrinkage of class means, or the learner, on published records.

These can be used without limit, so this spends no privacy budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.learning.closed_form import FITS, SECOND, Settings
from golfsim.learning.kinds import Rule
from golfsim.learning.loading import make
from golfsim.learning.online import OnlineLearner, Shape
from golfsim.learning.updates import amend
from golfsim.protocol.learner import classify, score
from golfsim.protocol.moments import summed
from golfsim.protocol.records import Published, Records, Rows, ranges

if TYPE_CHECKING:
    from golfsim.network.world import World

GRID = tuple(10.0**exponent for exponent in range(-6, 3))
SHRINKS = (1.0, 0.0, 0.5, 2.0, 4.0)  # the first of equally good ones is chosen
HELD_OUT = 0.2
PASSES = 5


@kernel
def train(records, rows, rule, w):
    """Update a model by single records, in the given order."""
    age = 0
    for record in records:
        age = amend(w, 0, w.shape[0], age, rows, record, record + 1, rule)


def published_lambda(records: Records[Any], learner: OnlineLearner[Any], key: np.uint64, layer: str) -> float | None:
    """Return the λ of the grid whose model agrees best with held-out published records; None without records.

    The class that the model predicts for the decoded features is compared with the decoded label. Both are noisy, but
    equally so for every λ. So the ranking approximates that of the original records.
    """
    published = refuse_private(records, "λ", f"{layer}.lambda", "set lambda to a number")
    rows = records.rows
    there = ranges(rows.first, rows.stop)
    if there.size < 2:
        return None
    order = there[rng.permutation(key, 0, there.size)]
    cut = max(int(HELD_OUT * there.size), 1)
    test, training = order[:cut], order[cut:]
    passes = _in_passes(training, key)
    x, label = published.decoded(test)
    shape = Shape(records.features, records.classes, records.models)
    rules = [learner.rule(shape, lam, True) for lam in GRID]
    agreement = [_agreement(passes, rows, rule, records.models, x, label) for rule in rules]
    return GRID[int(np.argmax(agreement))]


def refuse_private(records: Records[Any], what: str, key: str, instead: str) -> Published[Any]:
    """Return the records if they are published; refuse to choose something on others."""
    if not isinstance(records, Published):
        raise UserError(
            f"“{records.name}” is not published: choosing {what} on private records would spend privacy budget",
            key=key,
            hint=f"{instead}, or learn from a layer that publishes its records",
        )
    return records


class Choice(NamedTuple):
    """A learner with its λ or its shrinkage; 0 in the place of a setting that it does not have."""

    learner: str
    lam: float = 0.0
    shrink: float = 0.0


class Offer(NamedTuple):
    """What to choose from."""

    learners: tuple[str, ...]
    lams: tuple[float, ...] = ()  # for learners that have λ
    shrinks: tuple[float, ...] = (1.0,)  # for learners in closed form

    def choices(self) -> list[Choice]:
        """Return all choices, the first of equally good ones first."""
        found = []
        for learner in self.learners:
            if learner in FITS:
                found += [Choice(learner, shrink=shrink) for shrink in self.shrinks]
            else:
                found += [Choice(learner, lam) for lam in (self.lams[:1] if learner == "mean" else self.lams)]
        return found


def published_learner(records: Published[Any], world: World, offer: Offer, key: np.uint64) -> Choice | None:
    """Return the choice whose model agrees best with held-out published records.

    All published records of a fifth of the nodes are held out. The result is None if fewer than two nodes have
    published records. Of equally good learners the first one is returned.

    Parameters
    ----------
    records : Published
        The published records.
    world : World
        The world.
    offer : Offer
        What to choose from.
    key : uint64
        The key of the draws.
    """
    rows = records.rows
    nodes = np.flatnonzero(rows.stop > rows.first).astype(np.int32)
    if nodes.size < 2:
        return None
    nodes = nodes[rng.permutation(key, 0, nodes.size)]
    test, training = (np.sort(part) for part in np.split(nodes, [max(int(HELD_OUT * nodes.size), 1)]))
    x, label = records.decoded(ranges(rows.first[test], rows.stop[test]))
    passes = _in_passes(ranges(rows.first[training], rows.stop[training]), key)
    choices, agreement = offer.choices(), []
    for choice in choices:
        if choice.learner in FITS:
            agreement.append(_agreement_in_closed_form(records, world, training, choice, x, label))
        else:
            shape = Shape(records.features, records.classes, records.models)
            rule = make(choice.learner).rule(shape, choice.lam, True)
            agreement.append(_agreement(passes, rows, rule, records.models, x, label))
    return choices[int(np.argmax(agreement))]


def fitted(
    records: Records[Any], world: World, nodes: NDArray[np.int32], learner: str, shrink: float = 1.0
) -> NDArray[np.float64]:
    """Return the model [models, features + 1] in closed form of the records of some nodes."""
    numbers = summed(records, world, nodes, SECOND[learner])
    settings = Settings(records.precision(), shrink=shrink)
    return FITS[learner](numbers, records.classes, records.features, settings)


def _in_passes(training: NDArray[np.int64], key: np.uint64) -> NDArray[np.int64]:
    """Return the records several times, each time in another order."""
    return np.concatenate([training[rng.permutation(key, lap + 1, training.size)] for lap in range(PASSES)])


def _agreement_in_closed_form(
    records: Records[Any],
    world: World,
    training: NDArray[np.int32],
    choice: Choice,
    x: NDArray[np.float32],
    label: NDArray[np.int32],
) -> float:
    """Return the share of records with whose label a model agrees that was fitted to the records of other nodes."""
    w = fitted(records, world, training, choice.learner, choice.shrink).astype(np.float32)
    return float((classify(score(w[None, :, :-1], x) + w[:, -1])[:, 0] == label).mean())


def _agreement(
    passes: NDArray[np.int64],
    rows: Rows,
    rule: Rule,
    models: int,
    x: NDArray[np.float32],
    label: NDArray[np.int32],
) -> float:
    """Return the share of held-out records for which a newly trained model agrees with the label."""
    w = np.zeros((models, x.shape[1]), np.float32)
    train(passes, rows, rule, w)
    return float((classify(score(w[None], x))[:, 0] == label).mean())
