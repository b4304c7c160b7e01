"""Published results of the papers, from `reports/published/*.toml`.

A source has items (a table, a figure); an item has a scenario, values and claims. See `reports/published/README.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError, nearest
from golfsim.core.paths import shipped
from golfsim.core.words import listed

CLOSE = 0.01  # an error rate at most this far from the published one agrees, whatever the spread over runs


@dataclass(frozen=True)
class Value:
    """A published number, and the place of the new value in a log."""

    layer: str
    metric: str
    published: float
    where: Mapping[str, Any] = field(default_factory=dict)
    cycle: int | None = None  # default: the last one
    std: float | None = None  # over the published runs
    peer_std: float | None = None  # over the published peers
    runs: int = 10  # of the source
    close: float = CLOSE
    as_published: bool = True  # the scenario follows the rule of the source; a corrected rule may differ
    comparable: bool = True
    reason: str = ""  # why it cannot be compared, or why it differs
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A finding as text, and the check of a log, if there is one."""

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
    also: tuple[str, ...] = ()  # further scenarios, whose logs are joined with that of the first
    standard_error: float | None = None  # of the means over runs, at most
    note: str = ""
    picture: str = ""  # “scatter”: records and lines per point; default: the figure of the scenario

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The names of its scenarios, also if they are files of a user."""
        return tuple(Path(name).stem for name in (self.scenario, *self.also))


@dataclass(frozen=True)
class Paper:
    """A paper with its items."""

    id: str
    title: str
    authors: tuple[str, ...]
    year: int
    items: tuple[Item, ...]

    @property
    def reference(self) -> str:
        """The reference as text: authors, year, title."""
        *first, last = self.authors
        return f"{' and '.join(filter(None, [', '.join(first), last]))} ({self.year}): {self.title}"

    @property
    def short(self) -> str:
        """The id, the last names of the authors, and the year."""
        last = [name.partition(" (")[0].split()[-1] for name in self.authors]  # without a remark in brackets
        return f"{self.id} ({listed(last, '&')} {self.year})"


def sources() -> dict[str, Paper]:
    """Return all sources by their id."""
    found = {}
    for path in sorted((shipped("reports") / "published").glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        head = table["source"]
        items = tuple(_item(item, head["id"]) for item in table.get("item", ()))
        found[head["id"]] = Paper(head["id"], head["title"], tuple(head["authors"]), head["year"], items)
    return found


def _item(table: dict[str, Any], source: str) -> Item:
    table = dict(table)
    values = tuple(Value(**value) for value in table.pop("value", ()))
    claims = tuple(Claim(**claim) for claim in table.pop("claim", ()))
    for key in ("quick", "changes", "also"):
        if key in table:
            table[key] = tuple(table[key])
    return Item(source=source, values=values, claims=claims, **table)


def chosen(names: list[str]) -> list[Item]:
    """Return the items with the given ids or of the given sources; all items by default."""
    everything = {item.id: item for source in sources().values() for item in source.items}
    if not names:
        return list(everything.values())
    found: dict[str, Item] = {}
    for name in names:
        part = {i: item for i, item in everything.items() if name in (i, item.source) or i.startswith(f"{name}.")}
        if not part:
            valid = [*sources(), *everything]
            raise UserError(f"no source or item is called “{name}”", hint=nearest(name, valid))
        found |= part
    return list(found.values())
