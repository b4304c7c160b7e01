"""What the papers published, from `reports/published/*.toml`, and whether a log agrees with it.

A source has items (a table, a figure); an item has a scenario, values and claims. See `reports/published/README.md`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from golfsim.errors import UserError, nearest
from golfsim.places import shipped

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["agrees", "differs", "cannot be compared"]
CLOSE = 0.01  # an error rate within this of the published one agrees, whatever the spread over runs
SIGMAS = 2.0  # else within so many standard errors of the difference


@dataclass(frozen=True)
class Value:
    """A published number, and where ours is found in a log."""

    layer: str
    metric: str
    published: float
    where: Mapping[str, Any] = field(default_factory=dict)
    cycle: int | None = None  # default: the last one
    std: float | None = None  # over the published runs
    runs: int = 10  # of the source
    close: float = CLOSE
    corrected: bool = False  # ours follows the corrected rule, so that it may well differ
    comparable: bool = True
    reason: str = ""  # why it cannot be compared, or why it differs
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A finding in words, and how a log is asked about it, if it can be."""

    text: str
    check: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True)
class Item:
    """A table, a figure or an experiment of a source."""

    id: str
    what: str
    scenario: str
    source: str
    values: tuple[Value, ...] = ()
    claims: tuple[Claim, ...] = ()
    quick: tuple[str, ...] = ("runs=2",)
    changes: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Source:
    """A paper."""

    id: str
    title: str
    authors: str
    year: int
    items: tuple[Item, ...]


def sources() -> dict[str, Source]:
    """All sources by their id."""
    found = {}
    for path in sorted((shipped("reports") / "published").glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        head = table["source"]
        items = tuple(_item(item, head["id"]) for item in table.get("item", ()))
        found[head["id"]] = Source(head["id"], head["title"], head["authors"], head["year"], items)
    return found


def _item(table: dict[str, Any], source: str) -> Item:
    table = dict(table)
    values = tuple(Value(**value) for value in table.pop("value", ()))
    claims = tuple(Claim(**claim) for claim in table.pop("claim", ()))
    for key in ("quick", "changes"):
        if key in table:
            table[key] = tuple(table[key])
    return Item(source=source, values=values, claims=claims, **table)


def chosen(names: list[str]) -> list[Item]:
    """The items of the sources or with the ids that are asked for; all without any."""
    everything = {item.id: item for source in sources().values() for item in source.items}
    if not names:
        return list(everything.values())
    found: dict[str, Item] = {}
    for name in names:
        part = {i: item for i, item in everything.items() if name in (i, item.source) or i.startswith(f"{name}.")}
        if not part:
            valid = [*sources(), *everything]
            raise UserError(f"nothing is published under “{name}”", hint=nearest(name, valid))
        found |= part
    return list(found.values())


# Asking a log


@dataclass(frozen=True)
class Judged:
    """A published value or claim beside ours."""

    what: str
    published: str
    ours: str
    verdict: Verdict
    reason: str = ""
    corrected: bool = False


def rows_at(frame: pd.DataFrame, where: Mapping[str, Any], layer: str, metric: str, cycle: int | None) -> pd.DataFrame:
    """The rows of a metric at one point of a sweep, at a cycle or each run's last; an error names what is not there."""
    rows = frame[(frame["layer"] == layer) & (frame["metric"] == metric)]
    for key, value in where.items():
        if key not in frame:
            raise UserError(f"the log has no “{key}”", hint=nearest(key, [str(c) for c in frame.columns]))
        rows = rows[_equal(rows[key], value)]
    if rows.empty:
        raise UserError(f"nothing of “{layer}” has “{metric}” where {dict(where)}")
    at = rows.groupby("seed")["cycle"].transform("max") if cycle is None else cycle
    return rows[rows["cycle"] == at]


def _equal(column: pd.Series[Any], value: Any) -> Any:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return column.map(lambda x: (isinstance(x, float | int) and math.isclose(x, value)) or x == value).astype(bool)
    return column.astype(str) == str(value)


def judge_value(frame: pd.DataFrame, value: Value) -> Judged:
    """Our mean over runs beside a published number."""
    where = ", ".join(f"{key} = {v}" for key, v in value.where.items())
    what = f"{value.layer} {value.metric}{' at ' + where if where else ''}{': ' + value.note if value.note else ''}"
    ours = rows_at(frame, value.where, value.layer, value.metric, value.cycle)["value"].to_numpy(float)
    mean, error = float(ours.mean()), float(ours.std(ddof=1) / math.sqrt(ours.size)) if ours.size > 1 else math.nan
    theirs = (value.std or 0.0) / math.sqrt(value.runs)
    spread = SIGMAS * math.hypot(theirs, 0.0 if math.isnan(error) else error)
    near = abs(mean - value.published) <= max(value.close, spread)
    verdict: Verdict = "cannot be compared" if not value.comparable else "agrees" if near else "differs"
    shown = f"{mean:.4f}" + ("" if math.isnan(error) else f" ± {error:.4f}")
    published = f"{value.published:g}" + (f" (sd {value.std:g})" if value.std is not None else "")
    return Judged(what, published, shown, verdict, value.reason if verdict != "agrees" else "", value.corrected)


def judge_claim(frame: pd.DataFrame, claim: Claim) -> Judged:
    """What a log says about a claim."""
    if claim.check is None:
        return Judged(claim.text, "", "", "cannot be compared", claim.reason or "it cannot be asked of a log")
    check = dict(claim.check)
    kind = check.pop("kind")
    if kind not in CHECKS:
        raise UserError(f"there is no check “{kind}”", hint=nearest(kind, list(CHECKS)))
    holds, shown = CHECKS[kind](frame, **check)
    return Judged(claim.text, "", shown, "agrees" if holds else "differs", "" if holds else claim.reason)


def series(
    frame: pd.DataFrame, along: str, layer: str, metric: str, where: Mapping[str, Any], cycle: int | None = None
) -> pd.Series[float]:
    """The mean over runs of a metric for each value of a key, in rising order of the key."""
    rows = rows_at(frame, where, layer, metric, cycle)
    means = rows.astype({along: object}).groupby(along, observed=True)["value"].mean()
    return means.sort_index() if all(isinstance(v, float | int) for v in means.index) else means


def _shown(values: pd.Series[float]) -> str:
    return ", ".join(f"{key:g}: {v:.3f}" if isinstance(key, float) else f"{key}: {v:.3f}" for key, v in values.items())


Check = Callable[..., tuple[bool, str]]


def falls(frame: pd.DataFrame, *, along: str, layer: str, metric: str, slack: float = 0.01, **more: Any) -> Any:
    """The metric never rises along the key by more than the slack, and falls over all."""
    values = series(frame, along, layer, metric, more.get("where", {}), more.get("cycle"))
    steps = np.diff(values.to_numpy())
    return bool((steps <= slack).all() and values.iloc[-1] < values.iloc[0]), _shown(values)


def rises(frame: pd.DataFrame, *, along: str, layer: str, metric: str, slack: float = 0.01, **more: Any) -> Any:
    """The metric never falls along the key by more than the slack, and rises over all."""
    values = series(frame, along, layer, metric, more.get("where", {}), more.get("cycle"))
    steps = np.diff(values.to_numpy())
    return bool((steps >= -slack).all() and values.iloc[-1] > values.iloc[0]), _shown(values)


def flat(frame: pd.DataFrame, *, along: str, layer: str, metric: str, within: float, **more: Any) -> Any:
    """The metric differs by no more than `within` over all values of the key."""
    values = series(frame, along, layer, metric, more.get("where", {}), more.get("cycle"))
    return bool(values.max() - values.min() <= within), _shown(values)


def between(
    frame: pd.DataFrame, *, layer: str, metric: str, low: float = -math.inf, high: float = math.inf, **more: Any
) -> Any:
    """The metric's mean lies between two numbers."""
    found = rows_at(frame, more.get("where", {}), layer, metric, more.get("cycle"))["value"].mean()
    return bool(low <= found <= high), f"{found:.4f}"


def less(frame: pd.DataFrame, *, this: Mapping[str, Any], that: Mapping[str, Any], slack: float = 0.0) -> Any:
    """One metric's mean is below another one's; each names where, layer and metric."""
    found = [
        rows_at(frame, side.get("where", {}), side["layer"], side["metric"], side.get("cycle"))["value"].mean()
        for side in (this, that)
    ]
    return bool(found[0] <= found[1] + slack), f"{found[0]:.4f} and {found[1]:.4f}"


def best(
    frame: pd.DataFrame, *, along: str, layer: str, metric: str, at: list[Any], largest: bool = False, **more: Any
) -> Any:
    """The best value of the metric (the smallest, unless `largest`) is found at one of the given values of the key."""
    values = series(frame, along, layer, metric, more.get("where", {}), more.get("cycle"))
    place = values.idxmax() if largest else values.idxmin()
    return bool(any(_same(place, wanted) for wanted in at)), _shown(values)


def _same(one: Any, other: Any) -> bool:
    both = isinstance(one, float | int) and isinstance(other, float | int)
    return math.isclose(one, other) if both else str(one) == str(other)


CHECKS: dict[str, Check] = {
    "falls": falls, "rises": rises, "flat": flat, "between": between, "less": less, "best": best,
}  # fmt: skip
