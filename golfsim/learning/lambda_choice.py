"""Choose λ on published records; these can be used without limit, so this spends no privacy budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.learning.updates import Rule, amend
from golfsim.protocol.learner import classify, score
from golfsim.protocol.records import Published, Records, Rows, ranges

GRID = tuple(10.0**exponent for exponent in range(-6, 3))
HELD_OUT = 0.2
PASSES = 5


@kernel
def train(records, rows, rule, w):
    """Update a model by single records, in the given order."""
    age = 0
    for record in records:
        age = amend(w, 0, w.shape[0], age, rows, record, record + 1, rule)


def published_lambda(records: Records[Any], learner: int, key: np.uint64, layer: str) -> float | None:
    """Return the λ of the grid whose model agrees best with held-out published records; None without records.

    The class that the model predicts for the decoded features is compared with the decoded label. Both are noisy, but
    equally so for every λ. So the ranking approximates that of the original records.
    """
    if not isinstance(records, Published):
        raise UserError(
            f"“{records.name}” is not published: choosing λ on private records would spend privacy budget",
            key=f"{layer}.lambda",
            hint="set lambda to a number, or learn from a layer that publishes its records",
        )
    rows = records.rows
    there = ranges(rows.first, rows.stop)
    if there.size < 2:
        return None
    order = there[rng.permutation(key, 0, there.size)]
    cut = max(int(HELD_OUT * there.size), 1)
    test, training = order[:cut], order[cut:]
    passes = np.concatenate([training[rng.permutation(key, lap + 1, training.size)] for lap in range(PASSES)])
    x, label = records.decoded(test)
    agreement = [_agreement(passes, rows, Rule(learner, lam, True), records.models, x, label) for lam in GRID]
    return GRID[int(np.argmax(agreement))]


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
