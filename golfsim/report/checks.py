"""The checks of claims: a rule that holds for a log, does not hold, or may hold by chance.

`reports/published/README.md` states the rule of each kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.comparing.strategies import better_of
from golfsim.core.errors import UserError, nearest
from golfsim.report.numbers import CONFIDENCE, LEAST, interval

if TYPE_CHECKING:
    import pandas as pd

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ALL = "all"  # the column of a check that has no key
TAIL = (1 - CONFIDENCE) / 2

Numbers = NDArray[np.float64]
# Whether it holds (None: not significant), and the numbers: of one curve, or of two that are compared.
Answer = tuple[bool | None, "list[pd.Series[float]]"]


def in_full(metric: str) -> str:
    """Return the name of a metric in the log: without a dot it means the mean over nodes, if there is one."""
    return metric if "." in metric else f"{metric}.mean"


def rows_at(frame: pd.DataFrame, where: Mapping[str, Any], layer: str, metric: str, cycle: int | None) -> pd.DataFrame:
    """Return the rows of a metric at one point of a sweep, at a cycle or at the last cycle of each run.

    It is an error if the log has no such key or no such rows.
    """
    rows = frame[(frame["layer"] == layer) & frame["metric"].isin([in_full(metric), metric])]
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


@dataclass(frozen=True)
class Where:
    """The part of a log that a check uses, and what of the runs: their mean, or their standard deviation."""

    layer: str = ""
    metric: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    cycle: int | None = None
    of: Literal["mean", "std"] = "mean"

    def also(self, more: Mapping[str, Any]) -> Where:
        """Return the same part with some values replaced; values in `where` are added."""
        kept = {one.name: getattr(self, one.name) for one in fields(self)} | dict(more)
        return Where(**(kept | {"where": {**self.where, **more.get("where", {})}}))

    def by_seed(self, frame: pd.DataFrame, along: str | None) -> pd.Series[float]:
        """Return the metric per value of a key and seed; without a key, per seed."""
        rows = rows_at(frame, self.where, self.layer, self.metric, self.cycle).assign(**{ALL: ALL})
        if along is not None and along not in rows:
            raise UserError(f"the log has no “{along}”", hint=nearest(along, [str(c) for c in frame.columns]))
        key = along or ALL
        return rows.astype({key: object}).groupby([key, "seed"], observed=True)["value"].mean()

    def over_runs(self, frame: pd.DataFrame, along: str | None) -> pd.Series[float]:
        """Return the mean or standard deviation over runs per value of a key, in increasing order of the key."""
        if self.of not in ("mean", "std"):
            raise UserError(f"of: expected “mean” or “std”; got “{self.of}”")
        found = _by_number(self.by_seed(frame, along).groupby(level=0, observed=True).agg(self.of))
        if found.isna().any() and self.of == "std":
            raise UserError("a standard deviation over runs needs at least two runs")
        return found


def number_in(key: Any) -> float | None:
    """Return a value of a key as a number: itself, or the only number in a text; None for a text without a number."""
    if isinstance(key, float | int):
        return float(key)
    found = NUMBER.findall(str(key))
    if len(found) > 1:
        raise UserError(f"“{key}” has several numbers, so it has no place on an axis")
    return float(found[0]) if found else None


def _by_number(values: pd.Series[float]) -> pd.Series[float]:
    """Sort values by their keys, if all keys are numbers."""
    return values.sort_index() if all(isinstance(key, float | int) for key in values.index) else values


def _numbered(values: pd.Series[float]) -> pd.Series[float]:
    """Return values by the number of their key, in increasing order; texts without a number are left out."""
    places = [number_in(key) for key in values.index]
    kept = values[[place is not None for place in places]].set_axis([p for p in places if p is not None])
    if kept.empty:
        raise UserError(f"no value of the key has a number: {', '.join(map(str, values.index))}")
    return kept.sort_index()


def _falls(frame: pd.DataFrame, asked: Where, x: str, by: float = 0.0, slack: float = 0.0, sign: int = 1) -> Answer:
    values = _numbered(asked.over_runs(frame, x))
    steps = sign * np.diff(values.to_numpy())
    return bool((steps <= slack).all() and -steps.sum() >= by and steps.sum() < 0), [values]


def _rises(frame: pd.DataFrame, asked: Where, x: str, by: float = 0.0, slack: float = 0.0) -> Answer:
    return _falls(frame, asked, x, by, slack, sign=-1)


def _flat(
    frame: pd.DataFrame, asked: Where, x: str, within: float, low: float = -math.inf, high: float = math.inf
) -> Answer:
    values = asked.over_runs(frame, x)
    inside = values[[not isinstance(v, float | int) or low <= v <= high for v in values.index]]
    return bool(inside.max() - inside.min() <= within), [values]


def _between(frame: pd.DataFrame, asked: Where, low: float = -math.inf, high: float = math.inf) -> Answer:
    values = asked.over_runs(frame, None)
    return bool(values.between(low, high).all()), [values]


def _below(
    frame: pd.DataFrame, asked: Where, left: Any, right: Any, by: float = 0.0, along: str | None = None
) -> Answer:
    gaps, chance, shown = _gaps(frame, asked, left, right, along)
    if not all(gap > by for gap in gaps):
        return False, shown
    return (None if by >= 0 and any(chance) else True), shown


def _alike(frame: pd.DataFrame, asked: Where, left: Any, right: Any, within: float, along: str | None = None) -> Answer:
    gaps, _, shown = _gaps(frame, asked, left, right, along)
    return all(abs(gap) <= within for gap in gaps), shown


def _gaps(
    frame: pd.DataFrame, asked: Where, left: Any, right: Any, along: str | None
) -> tuple[list[float], list[bool], list[pd.Series[float]]]:
    """Return the difference right − left at each value of a key, whether it may be chance, and the curves shown.

    A side may be a constant: `{ value = 0.5 }`. Only seeds that both sides have are used.
    """
    import pandas as pd

    logged = {n: asked.also(side) for n, side in enumerate((left, right)) if "value" not in side}
    if len({side.of for side in logged.values()}) != 1:
        raise UserError("one side must not be a constant, and both must have the same “of”")
    pairs = pd.concat({n: side.by_seed(frame, along) for n, side in logged.items()}, axis=1, join="inner").dropna()
    if pairs.empty:
        raise UserError("the two sides have no seed or value in common")
    for n in {0, 1} - logged.keys():
        pairs[n] = float((left, right)[n]["value"])
    differences = _of_means if next(iter(logged.values())).of == "mean" else _of_deviations
    return *differences(pairs, [n not in logged for n in (0, 1)]), [s.over_runs(frame, along) for s in logged.values()]


def _of_means(pairs: pd.DataFrame, _: list[bool]) -> tuple[list[float], list[bool]]:
    """Return the differences of means, and whether the 95 % interval of each, seed by seed, includes 0."""
    rows = (pairs[1] - pairs[0]).rename("value").rename_axis(["key", "seed"]).reset_index()
    found = interval(rows, ["key"])
    return list(found["mean"]), list(found["low"] <= 0)  # NaN with fewer than three runs, which is not ≤ 0


def _of_deviations(pairs: pd.DataFrame, constant: list[bool]) -> tuple[list[float], list[bool]]:
    """Return the differences of standard deviations, and whether each may be chance."""
    gaps, chance = [], []
    for _, group in pairs.groupby(level=0, observed=True):
        left, right = group[0].to_numpy(float), group[1].to_numpy(float)
        one, other = (side[0] if constant[n] else side.std(ddof=1) for n, side in enumerate((left, right)))
        gaps.append(float(other - one))
        if any(constant):
            chance.append(_deviation_by_chance(one, other, left.size, constant[0]))
        else:
            chance.append(_ratio_by_chance(left, right))
    return gaps, chance


def _ratio_by_chance(left: Numbers, right: Numbers) -> bool:
    """Return whether two standard deviations over the same seeds may be equal: the test of Pitman and Morgan.

    Sum and difference of two variables are uncorrelated if and only if their variances are equal.
    """
    from scipy.special import stdtr

    runs = left.size
    if runs < LEAST:
        return True
    both = np.array([right + left, right - left])
    spread = both.std(axis=1)
    if not spread.all():  # the sides differ by a constant, or their sum is one
        return True
    r = float(np.corrcoef(both)[0, 1])
    if 1 - r * r < 1e-12:  # one side does not vary
        return False
    return bool(stdtr(runs - 2, -abs(r) * math.sqrt((runs - 2) / (1 - r * r))) > TAIL)


def _deviation_by_chance(one: float, other: float, runs: int, constant_first: bool) -> bool:
    """Return whether a standard deviation may be equal to a constant: the test of a variance by χ²."""
    from scipy.special import chdtr, chdtrc

    if runs < LEAST:
        return True
    constant, found = (one, other) if constant_first else (other, one)
    ratio = (runs - 1) * (found / max(constant, 1e-300)) ** 2
    return bool((chdtrc if constant_first else chdtr)(runs - 1, ratio) > TAIL)


def _best_of(values: pd.Series[float], asked: Where) -> float:
    """Return the key at which the mean over runs is best, as a number."""
    if asked.of != "mean":
        raise UserError("of: the best value is that of the mean over runs")
    ordered = _numbered(values)
    lower = better_of(in_full(asked.metric)) == "lower"
    return float(ordered.index[int(ordered.argmin() if lower else ordered.argmax())])


def _best(frame: pd.DataFrame, asked: Where, x: str, low: float = -math.inf, high: float = math.inf) -> Answer:
    values = asked.over_runs(frame, x)
    return bool(low <= _best_of(values, asked) <= high), [values]


def _best_grows(frame: pd.DataFrame, asked: Where, x: str, along: str, order: Sequence[Any]) -> Answer:
    """Check that the best `x` does not fall along the values in `order`, and that it grows from the first to the last.

    It may be chance unless, at the first and at the last value, the better of the two `x` is so significantly.
    """
    import pandas as pd

    parts = [asked.also({"where": {along: value}}) for value in order]
    best = [_best_of(part.over_runs(frame, x), asked) for part in parts]
    shown = [pd.Series(best, index=pd.Index(order, dtype=object))]
    if not (np.diff(best) >= 0).all() or best[-1] <= best[0]:
        return False, shown
    ends = ((parts[0], best[0], best[-1]), (parts[-1], best[-1], best[0]))
    return (None if any(_by_chance(part, frame, x, *pair) for part, *pair in ends) else True), shown


def _by_chance(asked: Where, frame: pd.DataFrame, x: str, better: float, worse: float) -> bool:
    """Return whether the metric may be equal at two values of `x`, of which the first has the better mean."""
    by_seed = asked.by_seed(frame, x)
    of = {number_in(key): by_seed[key] for key in by_seed.index.get_level_values(0).unique()}
    difference = (of[better] - of[worse]) * (-1 if better_of(in_full(asked.metric)) == "lower" else 1)
    rows = difference.dropna().rename("value").reset_index().assign(**{ALL: ALL})
    return bool((interval(rows, [ALL])["low"] <= 0).any())


CHECKS: dict[str, Callable[..., Answer]] = {
    "falls-with": _falls, "rises-with": _rises, "flat-within": _flat, "below": _below, "alike": _alike,
    "best-at": _best, "best-grows": _best_grows, "between": _between,
}  # fmt: skip
PLACE = ("layer", "metric", "where", "cycle", "of")


def asked_of(check: Mapping[str, Any]) -> tuple[Callable[..., Answer], Where, dict[str, Any]]:
    """Return the rule of a check, the part of the log that it uses, and its other keys."""
    rest = dict(check)
    kind = rest.pop("kind")
    if kind not in CHECKS:
        raise UserError(f"unknown check “{kind}”", hint=nearest(kind, list(CHECKS)))
    asked = Where(**{key: rest.pop(key) for key in PLACE if key in rest})
    return CHECKS[kind], asked, rest


def cells(frame: pd.DataFrame, asked: Where, rest: Mapping[str, Any]) -> Iterator[Numbers]:
    """Yield the runs behind each mean that a check uses."""
    sides = [asked.also(rest[name]) for name in ("left", "right") if "value" not in rest.get(name, {"value": 0})]
    parts = [asked.also({"where": {rest["along"]: value}}) for value in rest.get("order", ())]
    key = rest.get("along") if sides else rest.get("x")
    for part in sides or parts or [asked]:
        if part.of == "mean":
            for _, runs in part.by_seed(frame, key).groupby(level=0, observed=True):
                yield np.asarray(runs, np.float64)
