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
    peer_std: float | None = None  # over the published peers
    runs: int = 10  # of the source
    close: float = CLOSE
    as_published: bool = True  # ours follows the source's rule; a corrected one may well differ
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
    authors: tuple[str, ...]
    year: int
    items: tuple[Item, ...]


def sources() -> dict[str, Source]:
    """All sources by their id."""
    found = {}
    for path in sorted((shipped("reports") / "published").glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        head = table["source"]
        items = tuple(_item(item, head["id"]) for item in table.get("item", ()))
        found[head["id"]] = Source(head["id"], head["title"], tuple(head["authors"]), head["year"], items)
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
    as_published: bool = True


def in_full(metric: str) -> str:
    """The name of a metric in the log: without a point it stands for the mean over nodes."""
    return metric if "." in metric else f"{metric}.mean"


def rows_at(frame: pd.DataFrame, where: Mapping[str, Any], layer: str, metric: str, cycle: int | None) -> pd.DataFrame:
    """The rows of a metric at one point of a sweep, at a cycle or each run's last; an error names what is not there."""
    rows = frame[(frame["layer"] == layer) & (frame["metric"] == in_full(metric))]
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
    return Judged(what, published, shown, verdict, value.reason if verdict != "agrees" else "", value.as_published)


def judge_claim(frame: pd.DataFrame, claim: Claim) -> Judged:
    """What a log says about a claim."""
    if claim.check is None:
        return Judged(claim.text, "", "", "cannot be compared", claim.reason or "it cannot be asked of a log")
    check = dict(claim.check)
    kind = check.pop("kind")
    if kind not in CHECKS:
        raise UserError(f"there is no check “{kind}”", hint=nearest(kind, list(CHECKS)))
    place: dict[str, Any] = {"layer": "", "metric": ""}
    place |= {key: check.pop(key) for key in ("layer", "metric", "where", "cycle") if key in check}
    asked = Asked(**place)
    holds, shown = CHECKS[kind](frame, asked, **check)
    return Judged(claim.text, "", shown, "agrees" if holds else "differs", "" if holds else claim.reason)


@dataclass(frozen=True)
class Asked:
    """Where a check looks in a log."""

    layer: str
    metric: str
    where: Mapping[str, Any] = field(default_factory=dict)
    cycle: int | None = None

    def also(self, more: Mapping[str, Any]) -> Asked:
        """The same with some of it given anew; values in `where` are added."""
        kept = {"layer": self.layer, "metric": self.metric, "cycle": self.cycle} | dict(more)
        return Asked(**(kept | {"where": {**self.where, **more.get("where", {})}}))

    def means(self, frame: pd.DataFrame, along: str | None) -> pd.Series[float]:
        """The mean over runs for each value of a key, in rising order; one value without a key."""
        rows = rows_at(frame, self.where, self.layer, self.metric, self.cycle)
        if along is None:
            return rows.groupby("metric", observed=True)["value"].mean()
        if along not in rows:
            raise UserError(f"the log has no “{along}”", hint=nearest(along, [str(c) for c in frame.columns]))
        means = rows.astype({along: object}).groupby(along, observed=True)["value"].mean()
        return means.sort_index() if all(isinstance(v, float | int) for v in means.index) else means


def _shown(values: pd.Series[float]) -> str:
    words = [f"{key:g}: {v:.3f}" if isinstance(key, float) else f"{key}: {v:.3f}" for key, v in values.items()]
    return words[0].partition(": ")[2] if len(words) == 1 else ", ".join(words)


Answer = tuple[bool, str]


def _falls(frame: pd.DataFrame, asked: Asked, x: str, by: float = 0.0, slack: float = 0.0, sign: int = 1) -> Answer:
    values = asked.means(frame, x)
    steps = sign * np.diff(values.to_numpy())
    return bool((steps <= slack).all() and -steps.sum() >= by and steps.sum() < 0), _shown(values)


def _rises(frame: pd.DataFrame, asked: Asked, x: str, by: float = 0.0, slack: float = 0.0) -> Answer:
    return _falls(frame, asked, x, by, slack, sign=-1)


def _flat(
    frame: pd.DataFrame, asked: Asked, x: str, within: float, low: float = -math.inf, high: float = math.inf
) -> Answer:
    values = asked.means(frame, x)
    inside = values[[not isinstance(v, float | int) or low <= v <= high for v in values.index]]
    return bool(inside.max() - inside.min() <= within), _shown(values)


def _sides(frame: pd.DataFrame, asked: Asked, left: Any, right: Any, along: str | None) -> tuple[Any, str]:
    """The difference of two sides, right − left, at each value of a key that both have."""
    one, other = (asked.also(side).means(frame, along) for side in (left, right))
    difference = (other - one if along else other.reset_index(drop=True) - one.reset_index(drop=True)).dropna()
    if difference.empty:
        raise UserError("the two sides have nothing in common")
    return difference, f"{_shown(one)} against {_shown(other)}"


def _below(
    frame: pd.DataFrame, asked: Asked, left: Any, right: Any, by: float = 0.0, along: str | None = None
) -> Answer:
    difference, shown = _sides(frame, asked, left, right, along)
    return bool((difference > by).all()), shown


def _alike(frame: pd.DataFrame, asked: Asked, left: Any, right: Any, within: float, along: str | None = None) -> Answer:
    difference, shown = _sides(frame, asked, left, right, along)
    return bool((difference.abs() <= within).all()), shown


def _best(frame: pd.DataFrame, asked: Asked, x: str, low: float = -math.inf, high: float = math.inf) -> Answer:
    values = asked.means(frame, x)
    place = values.idxmin() if "error" in asked.metric else values.idxmax()
    return bool(low <= float(str(place)) <= high), _shown(values)


def _between(frame: pd.DataFrame, asked: Asked, low: float = -math.inf, high: float = math.inf) -> Answer:
    values = asked.means(frame, None)
    return bool(values.between(low, high).all()), _shown(values)


CHECKS: dict[str, Callable[..., Answer]] = {
    "falls-with": _falls, "rises-with": _rises, "flat-within": _flat, "below": _below, "alike": _alike,
    "best-at": _best, "between": _between,
}  # fmt: skip
