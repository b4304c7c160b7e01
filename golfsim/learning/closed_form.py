"""Make linear models from means of numbers of the records, in closed form."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Learner = Literal["centroid", "lda"]


def width(classes: int, features: int, second: bool) -> int:
    """Return how many numbers records have: count, classes, squared lengths, features by class, second moments."""
    return 1 + 2 * classes + classes * features + (features * (features + 1) // 2 if second else 0)


def fit(
    numbers: NDArray[np.float64], classes: int, features: int, learner: Learner = "centroid"
) -> NDArray[np.float64]:
    """Return linear models [models, features + 1], the bias last, from the means (or sums) of numbers of records.

    The score of a class is w·x − ‖w‖²/2 with the mean w of its records. A class without records has the score 0.
    """
    share = numbers[1 : 1 + classes]
    blocks = numbers[1 + 2 * classes :][: classes * features].reshape(classes, features)
    w = np.zeros((classes, features + 1))
    for c in range(classes):
        if share[c] > 0:
            w[c, :-1] = blocks[c] / share[c]
            square = 0.0
            for value in w[c, :-1].tolist():
                square += value * value
            w[c, -1] = -square / 2
    return w[1:] - w[:1] if classes == 2 else w
