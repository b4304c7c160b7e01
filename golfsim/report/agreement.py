"""Compare a log with published results: values within statistical error, claims by their checks.

`reports/published/README.md` states the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.report.checks import asked_of, cells, rows_at
from golfsim.report.numbers import CONFIDENCE, LEAST, value_of
from golfsim.report.published import Claim, Value
from golfsim.report.small_plots import Mark

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["agrees", "differs", "cannot be compared"]
UNEXPLAINED = "not explained"
HALF = (1 + CONFIDENCE) / 2  # the quantile of a two-sided interval
WIDE = 3  # times `close`: with a larger statistical error, agreement has no meaning
TINY = 1e-300


@dataclass(frozen=True)
class TooFew:
    """The mean over runs with the largest standard error, if that exceeds the one that an item asks for."""

    error: float
    runs: int
    needed: int

    def __str__(self) -> str:
        """State how many runs are needed."""
        return f"the standard error of a mean is {self.error:.2g} with {self.runs} runs; about {self.needed} are needed"


@dataclass(frozen=True)
class Judged:
    """A published value or claim, the new value, and the verdict."""

    what: str
    published: str
    ours: str
    verdict: Verdict
    reason: str = ""
    as_published: bool = True
    mark: Mark | None = None  # of a value
    sides: tuple[tuple[float, ...], ...] = ()  # the numbers of a claim: one curve, or two that are compared
    too_few: TooFew | None = None


def too_few(means: Iterable[NDArray[np.float64]], largest: float | None) -> TooFew | None:
    """Return the mean that needs the most runs for a standard error of at most `largest`; None if all have it.

    With fewer than three runs nothing is known about the standard error.
    """
    if largest is None:
        return None
    found = [
        TooFew(float(runs.std(ddof=1)) / math.sqrt(runs.size), runs.size, math.ceil(runs.var(ddof=1) / largest**2))
        for runs in means
        if runs.size >= LEAST
    ]
    return max((one for one in found if one.error > largest), key=lambda one: one.needed, default=None)


def judge_value(frame: pd.DataFrame, value: Value, standard_error: float | None = None) -> Judged:
    """Compare the mean over our runs with a published number."""
    rows = rows_at(frame, value.where, value.layer, value.metric, value.cycle)
    ours = rows.groupby("seed")["value"].mean().to_numpy(float)
    verdict, reason = _verdict_at(abs(float(ours.mean()) - value.published), margin(ours, value), value)
    few = too_few([ours], standard_error)
    if few is not None and verdict == "agrees":
        verdict, reason = "cannot be compared", str(few)
    published = f"{value.published:g}" + (f" (sd {value.std:g})" if value.std is not None else "")
    error = float(ours.std(ddof=1)) / math.sqrt(ours.size) if ours.size > 1 else 0.0
    mark = Mark(value.published, value.std or 0.0, float(ours.mean()), error, value.metric)
    return Judged(_what(value), published, _mean(ours), verdict, reason, value.as_published, mark, too_few=few)


def _verdict_at(apart: float, chance: float, value: Value) -> tuple[Verdict, str]:
    """Return whether two means with this distance agree, and if not, why."""
    if not value.comparable:
        return "cannot be compared", value.reason
    if apart <= value.close:
        return "agrees", ""
    if apart > chance:
        return "differs", value.reason or UNEXPLAINED
    if chance > WIDE * value.close:
        return "cannot be compared", f"the runs vary too much: the statistical error is ± {chance:.2g}"
    return "agrees", ""


def _what(value: Value) -> str:
    where = ", ".join(f"{key} = {v}" for key, v in value.where.items())
    return f"{value.layer} {value.metric}{' at ' + where if where else ''}{': ' + value.note if value.note else ''}"


def _mean(ours: NDArray[np.float64]) -> str:
    digits = 4 if abs(ours.mean()) < 10 else 1
    error = f" ± {ours.std(ddof=1) / math.sqrt(ours.size):.{digits}f}" if ours.size > 1 else ""
    return f"{ours.mean():.{digits}f}{error}"


def margin(ours: NDArray[np.float64], value: Value) -> float:
    """Return the statistical error of two means: half of the 95 % interval of their difference.

    Welch's t is used if the source states its standard deviation. Otherwise its runs are assumed to vary as ours do.
    With fewer than three runs, our standard deviation counts as 0.
    """
    from scipy.stats import t

    runs = ours.size
    own = float(ours.var(ddof=1)) if runs >= LEAST else 0.0
    if value.std is None:
        return float(t.ppf(HALF, max(runs - 1, 1)) * math.sqrt(own / runs + own / value.runs))
    parts = [(own / runs, runs - 1), (value.std**2 / value.runs, value.runs - 1)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / max(sum(part**2 / max(of, 1) for part, of in parts), TINY)
    return float(t.ppf(HALF, max(freedom, 1)) * math.sqrt(variance))


def judge_claim(frame: pd.DataFrame, claim: Claim, standard_error: float | None = None) -> Judged:
    """Check a claim with a log."""
    if claim.check is None:
        return Judged(claim.text, "", "", "cannot be compared", claim.reason or "a log cannot answer it")
    rule, asked, rest = asked_of(claim.check)
    holds, sides = rule(frame, asked, **rest)
    verdict, reason = _verdict_of(holds, claim)
    shown = " against ".join(map(_shown, sides))
    drawn = tuple(tuple(map(float, side)) for side in sides) if any(len(side) > 1 for side in sides) else ()
    few = too_few(cells(frame, asked, rest), standard_error)
    return Judged(claim.text, "", shown, verdict, reason, sides=drawn, too_few=few)


def _verdict_of(holds: bool | None, claim: Claim) -> tuple[Verdict, str]:
    if holds is None:
        chance = "it holds in these runs, but is not statistically significant"
        return "cannot be compared", f"{chance}; {claim.reason}" if claim.reason else chance
    return ("agrees", "") if holds else ("differs", claim.reason or UNEXPLAINED)


def _shown(values: pd.Series[float]) -> str:
    words = [f"{value_of('', key).removeprefix(' = ')}: {_digits(v)}" for key, v in values.items()]
    return words[0].partition(": ")[2] if len(words) == 1 else ", ".join(words)


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) > 1 and float(value).is_integer() else f"{value:.3f}"
