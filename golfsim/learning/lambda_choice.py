"""Choosing λ on published records: what is published may be used at will, so this costs no privacy."""

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
    """Sequential updates by single records, in the order given."""
    age = 0
    for record in records:
        age = amend(w, 0, w.shape[0], age, rows, record, record + 1, rule)


def published_lambda(records: Records[Any], learner: int, key: np.uint64, layer: str) -> float | None:
    """The λ of the grid whose model agrees best with published records that it was not trained on; None without any.

    What agrees are classes: the model's for the decoded features, and the decoded label. Both are noisy, alike for
    every λ, so that the ranking is that of the records themselves, as far as the noise lets one see it.
    """
    if not isinstance(records, Published):
        raise UserError(
            f"“{records.name}” is not published: choosing λ on private records would have to be paid for",
            key=f"{layer}.lambda",
            hint="give a number, or learn from a layer that publishes",
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
    w = np.zeros((models, x.shape[1]), np.float32)
    train(passes, rows, rule, w)
    return float((classify(score(w[None], x))[:, 0] == label).mean())
