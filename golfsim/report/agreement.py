"""Compare a log with published results: values within statistical error, claims by their checks.

`reports/published/README.md` states the rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.comparing.strategies import better_of
from golfsim.core.errors import UserError, nearest
from golfsim.report.numbers import CONFIDENCE, LEAST, interval, value_of
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


def in_full(metric: str) -> str:
    """Return the name of a metric in the log: without a dot it means the mean over nodes."""
    return metric if "." in metric else f"{metric}.mean"


def rows_at(frame: pd.DataFrame, where: Mapping[str, Any], layer: str, metric: str, cycle: int | None) -> pd.DataFrame:
    """Return the rows of a metric at one point of a sweep, at a cycle or at the last cycle of each run.

    It is an error if the log has no such key or no such rows.
    """
    rows = frame[(frame["layer"] == layer) & (frame["metric"] == in_full(metric))]
    for key, value in where.items():
        if key not in frame:
            raise UserError(f"the log has no “{key}”", hint=nearest(key, [str(c) for c in frame.columns]))
        rows = rows[_equal(rows[key], value)]
    if rows.empty:
        raise UserError(f"layer “{layer}” has no metric “{metric}” where {dict(where)}")
    at = rows.groupby("seed")["cycle"].transform("max") if cycle is None else cycle
    return rows[rows["cycle"] == at]


def _equal(column: pd.Series[Any], value: Any) -> Any:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return column.map(lambda x: (isinstance(x, float | int) and math.isclose(x, value)) or x == value).astype(bool)
    return column.astype(str) == str(value)


def judge_value(frame: pd.DataFrame, value: Value) -> Judged:
    """Compare the mean over our runs with a published number."""
    rows = rows_at(frame, value.where, value.layer, value.metric, value.cycle)
    ours = rows.groupby("seed")["value"].mean().to_numpy(float)
    verdict, reason = _verdict_at(abs(float(ours.mean()) - value.published), margin(ours, value), value)
    published = f"{value.published:g}" + (f" (sd {value.std:g})" if value.std is not None else "")
    error = float(ours.std(ddof=1)) / math.sqrt(ours.size) if ours.size > 1 else 0.0
    mark = Mark(value.published, value.std or 0.0, float(ours.mean()), error, value.metric)
    return Judged(_what(value), published, _mean(ours), verdict, reason, value.as_published, mark)


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


def judge_claim(frame: pd.DataFrame, claim: Claim) -> Judged:
    """Check a claim with a log."""
    if claim.check is None:
        return Judged(claim.text, "", "", "cannot be compared", claim.reason or "a log cannot answer it")
    check = dict(claim.check)
    kind = check.pop("kind")
    if kind not in CHECKS:
        raise UserError(f"unknown check “{kind}”", hint=nearest(kind, list(CHECKS)))
    place: dict[str, Any] = {"layer": "", "metric": ""}
    place |= {key: check.pop(key) for key in ("layer", "metric", "where", "cycle") if key in check}
    asked = Where(**place)
    holds, sides = CHECKS[kind](frame, asked, **check)
    verdict, reason = _verdict_of(holds, claim)
    shown = " against ".join(map(_shown, sides))
    drawn = tuple(tuple(map(float, side)) for side in sides) if any(len(side) > 1 for side in sides) else ()
    return Judged(claim.text, "", shown, verdict, reason, sides=drawn)


def _verdict_of(holds: bool | None, claim: Claim) -> tuple[Verdict, str]:
    if holds is None:
        chance = "it holds for the means, but is not statistically significant"
        return "cannot be compared", f"{chance}; {claim.reason}" if claim.reason else chance
    return ("agrees", "") if holds else ("differs", claim.reason or UNEXPLAINED)


@dataclass(frozen=True)
class Where:
    """The part of a log that a check uses."""

    layer: str
    metric: str
    where: Mapping[str, Any] = field(default_factory=dict)
    cycle: int | None = None

    def also(self, more: Mapping[str, Any]) -> Where:
        """Return the same part with some values replaced; values in `where` are added."""
        kept = {"layer": self.layer, "metric": self.metric, "cycle": self.cycle} | dict(more)
        return Where(**(kept | {"where": {**self.where, **more.get("where", {})}}))

    def by_seed(self, frame: pd.DataFrame, along: str | None) -> pd.Series[float]:
        """Return the metric per value of a key and seed; without a key, per seed."""
        rows = rows_at(frame, self.where, self.layer, self.metric, self.cycle).assign(all="all")
        if along is not None and along not in rows:
            raise UserError(f"the log has no “{along}”", hint=nearest(along, [str(c) for c in frame.columns]))
        key = along or "all"
        return rows.astype({key: object}).groupby([key, "seed"], observed=True)["value"].mean()

    def means(self, frame: pd.DataFrame, along: str | None) -> pd.Series[float]:
        """Return the mean over runs per value of a key, in increasing order; one value without a key."""
        means = self.by_seed(frame, along).groupby(level=0, observed=True).mean()
        return means.sort_index() if all(isinstance(v, float | int) for v in means.index) else means


def _shown(values: pd.Series[float]) -> str:
    words = [f"{value_of('', key).removeprefix(' = ')}: {v:.3f}" for key, v in values.items()]
    return words[0].partition(": ")[2] if len(words) == 1 else ", ".join(words)


# Whether it holds (None: not significant), and the numbers: of one curve, or of two that are compared.
Answer = tuple[bool | None, "list[pd.Series[float]]"]


def _falls(frame: pd.DataFrame, asked: Where, x: str, by: float = 0.0, slack: float = 0.0, sign: int = 1) -> Answer:
    values = asked.means(frame, x)
    steps = sign * np.diff(values.to_numpy())
    return bool((steps <= slack).all() and -steps.sum() >= by and steps.sum() < 0), [values]


def _rises(frame: pd.DataFrame, asked: Where, x: str, by: float = 0.0, slack: float = 0.0) -> Answer:
    return _falls(frame, asked, x, by, slack, sign=-1)


def _flat(
    frame: pd.DataFrame, asked: Where, x: str, within: float, low: float = -math.inf, high: float = math.inf
) -> Answer:
    values = asked.means(frame, x)
    inside = values[[not isinstance(v, float | int) or low <= v <= high for v in values.index]]
    return bool(inside.max() - inside.min() <= within), [values]


def _sides(
    frame: pd.DataFrame, asked: Where, left: Any, right: Any, along: str | None
) -> tuple[pd.DataFrame, list[pd.Series[float]]]:
    """Return the difference right − left at each value of a key that both sides have, and the means of both sides."""
    sides = [asked.also(side) for side in (left, right)]
    one, other = (side.by_seed(frame, along) for side in sides)
    difference = (other - one).dropna()
    if difference.empty:
        raise UserError("the two sides have no seed or value in common")
    rows = difference.rename("value").reset_index()
    return interval(rows, [along or "all"]), [side.means(frame, along) for side in sides]


def _below(
    frame: pd.DataFrame, asked: Where, left: Any, right: Any, by: float = 0.0, along: str | None = None
) -> Answer:
    found, shown = _sides(frame, asked, left, right, along)
    if not (found["mean"] > by).all():
        return False, shown
    chance = by >= 0 and (found["low"] <= 0).any()  # NaN with fewer than three runs, which is not ≤ 0
    return (None if chance else True), shown


def _alike(frame: pd.DataFrame, asked: Where, left: Any, right: Any, within: float, along: str | None = None) -> Answer:
    found, shown = _sides(frame, asked, left, right, along)
    return bool((found["mean"].abs() <= within).all()), shown


def _best(frame: pd.DataFrame, asked: Where, x: str, low: float = -math.inf, high: float = math.inf) -> Answer:
    values = asked.means(frame, x)
    place = values.idxmin() if better_of(in_full(asked.metric)) == "lower" else values.idxmax()
    return bool(low <= float(str(place)) <= high), [values]


def _between(frame: pd.DataFrame, asked: Where, low: float = -math.inf, high: float = math.inf) -> Answer:
    values = asked.means(frame, None)
    return bool(values.between(low, high).all()), [values]


CHECKS: dict[str, Callable[..., Answer]] = {
    "falls-with": _falls, "rises-with": _rises, "flat-within": _flat, "below": _below, "alike": _alike,
    "best-at": _best, "between": _between,
}  # fmt: skip
