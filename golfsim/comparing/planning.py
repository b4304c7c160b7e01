"""State before a run whether its number of runs is enough for statistical tests."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any

from golfsim.comparing.paired import LEVEL, runs_needed
from golfsim.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from golfsim.scenario.sweep import Point


def too_few_runs(points: Sequence[Point]) -> str:
    """Return that a comparison of the cases of a sweep needs more runs; an empty text if the runs are enough.

    Each case is compared with each other case at each combination of the other values.
    """
    cases = {point.values["case"] for point in points if "case" in point.values}
    if len(cases) < 2:
        return ""
    blocks = len({_others(point.values) for point in points})
    comparisons, runs = comb(len(cases), 2) * blocks, min(point.scenario.runs for point in points)
    needed = runs_needed(comparisons)
    if runs >= needed:
        return ""
    return (
        f"golfsim compare makes {counted(comparisons, 'comparison')} of these {len(cases)} cases; a p below {LEVEL:g} "
        f"after Holm's correction needs at least {needed} runs, or {runs_needed((len(cases) - 1) * blocks)} with "
        f"--baseline (runs = {runs})"
    )


def _others(values: dict[str, Any]) -> str:
    return str({key: value for key, value in values.items() if key != "case"})
