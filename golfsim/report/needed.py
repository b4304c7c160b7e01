"""Compute the ε that a strategy needs for a share of the accuracy of a reference, e.g. of learning without noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from golfsim.core.errors import UserError, listed
from golfsim.report import numbers
from golfsim.report.grids import ends, epsilon_of, is_level

if TYPE_CHECKING:
    import pandas as pd


def needed(
    frame: pd.DataFrame, reference: str | float, share: float = 0.9, epsilon: str | None = None, by: str = "case",
    metric: str = "accuracy",
) -> pd.DataFrame:  # fmt: skip
    """Return the smallest ε from which on each strategy has a share of the metric of a reference.

    Means over runs at the last cycle are compared. Between two values of ε the mean is interpolated over the logarithm
    of ε. There is one row per strategy that depends on ε and combination of the other keys of the sweep.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    reference : str or float
        The strategy whose metric is the reference: a value of `by`.
    share : float
        The share of the metric of the reference that is wanted.
    epsilon : str, optional
        The key of ε. Default: the ε that the sweep varies.
    by : str
        The key whose values are strategies.
    metric : str
        The metric; larger values are better.

    Returns
    -------
    DataFrame
        Columns: `panel` (the other keys), `strategy`, `wanted` (the value to reach), `epsilon` (infinite: it is not
        reached) and `measured` (whether ε is inside the measured range, and not at most its smallest value).
    """
    import pandas as pd

    x = epsilon or epsilon_of(frame)
    found = []
    for panel, part in numbers.facets(frame, metric, [x, by]):
        rows = ends(part, metric, [by, x])
        known = rows[by].dropna().unique().tolist()
        if reference not in known:
            raise UserError(f"no strategy is called “{reference}”", hint=listed(str(reference), list(map(str, known))))
        wanted = share * float(rows.loc[rows[by] == reference, "value"].mean())
        for name in known:
            own = rows[rows[by] == name]
            mean = own.groupby(x, observed=True)["value"].mean().sort_index()
            if mean.size > 1 and not is_level(own, x):
                at, inside = _from(mean.index.to_numpy(float), mean.to_numpy(float), wanted)
                found.append((panel, name, wanted, at, inside))
    return pd.DataFrame(found, columns=["panel", "strategy", "wanted", "epsilon", "measured"])


def _from(x: np.ndarray, y: np.ndarray, wanted: float) -> tuple[float, bool]:
    """Return the smallest x from which on y is at least `wanted`, and whether it is above the smallest x."""
    below = np.flatnonzero(y < wanted)
    if not below.size:
        return float(x[0]), False
    last = int(below[-1])
    if last == x.size - 1:
        return math.inf, True
    if math.isinf(x[last + 1]):
        return math.inf, True
    part = (wanted - y[last]) / (y[last + 1] - y[last])
    return float(x[last] * (x[last + 1] / x[last]) ** part), True
