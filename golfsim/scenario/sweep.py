"""Expand a scenario file into the points of its sweep; each point is a scenario."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from golfsim.core.errors import UserError
from golfsim.core.paths import INDEX
from golfsim.scenario import variables
from golfsim.scenario.model import Scenario

Changes = dict[str, Any]
MOST_POINTS = 100_000


@dataclass(frozen=True)
class Point:
    """One combination of a sweep's values; `values` identifies it: the value of each swept key, and of `case`."""

    values: Changes
    scenario: Scenario
    folder: str  # its name: readable, and safe on every file system

    @cached_property
    def text(self) -> str:
        """Its scenario as TOML with explicit defaults."""
        return self.scenario.dump()

    @cached_property
    def packed(self) -> dict[str, Any]:
        """Its content in types of JSON, for another process."""
        return {"values": self.values, "scenario": self.scenario.packed(), "folder": self.folder}

    @classmethod
    def unpacked(cls, parts: dict[str, Any]) -> Point:
        """Return the point that `packed` describes."""
        return cls(parts["values"], _scenario(parts["scenario"]), parts["folder"])

    @cached_property
    def kind(self) -> str:
        """The scenario without its numbers: what decides which kernels its runs need."""
        return json.dumps(_shape(self.scenario.model_dump(mode="json", exclude={"name", "plot"})))


@lru_cache(maxsize=64)
def _scenario(text: str) -> Scenario:
    """Return the scenario of a JSON text, cached: the runs of a point share it."""
    return Scenario.unpacked(text)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shape(inner) for inner in value]
    return value if isinstance(value, str | bool) else type(value).__name__


def points(scenario: Scenario) -> list[Point]:
    """Return all combinations of each case with each value of each key; the keys of a zip group vary together."""
    plain = scenario.change({"sweep": {}, "case": []}) if scenario.sweep or scenario.case else scenario
    found: list[Point] = []
    told: set[str] = set()
    names = _Names()
    cases, axes = _cases(scenario), _axes(scenario)
    number = math.prod([len(cases), *map(len, axes)])
    if number > MOST_POINTS:
        what = f"the sweep has {number} points; at most {MOST_POINTS} are supported"
        raise UserError(what, key="sweep", hint="vary fewer keys, or let lists vary together in a zip group")
    for combination in itertools.product(cases, *axes):
        values = {key: value for part in combination for key, value in part[0].items()}
        changes = {key: value for part in combination for key, value in part[1].items()}
        where = f"{scenario.file}, at " + ", ".join(f"{k} = {v}" for k, v in values.items())
        if repr(values) in told:
            raise UserError("two points of the sweep are equal", key="sweep", hint="remove the value that occurs twice")
        told.add(repr(values))
        found.append(Point(values, plain.change(changes, where=where) if changes else plain, names.of(values)))
    return found


class _Names:
    """The names of the folders of points: unique, readable, and safe on every file system."""

    def __init__(self) -> None:
        self._taken = {INDEX}
        self._numbers: dict[str, Iterator[int]] = {}

    def of(self, values: Changes) -> str:
        """Return a name that no other point has."""
        words = [str(v) if k == "case" else f"{k}={v}" for k, v in values.items()]
        name = re.sub(r"^\.+|[^\w.=,+-]+", "_", ",".join(words)).encode()[:150].decode(errors="ignore")
        numbered = (f"{name}.{number}" for number in self._numbers.setdefault(name, itertools.count(2)))
        free = name if name not in self._taken else next(other for other in numbered if other not in self._taken)
        self._taken.add(free)
        return free


def _cases(scenario: Scenario) -> list[tuple[Changes, Changes]]:
    """Return (the values that identify the point, the changes that it makes) for each case."""
    if not scenario.case:
        return [({}, {})]
    found = []
    for number, table in enumerate(scenario.case):
        changes = dict(table)
        label = changes.pop("label", None)
        if not isinstance(label, str) or not label:
            raise UserError("missing: a case needs a label for plots", key=f"case.{number}.label")
        found.append(({"case": label}, changes))
    return found


def _axes(scenario: Scenario) -> list[list[tuple[Changes, Changes]]]:
    axes = []
    for key, values in scenario.sweep.items():
        groups = values if key == "zip" and isinstance(values, tuple) else ({key: values},)
        for group in groups:
            axes.append([(_named(point), point) for point in _zipped(group, key)])
    return axes


def _named(point: Changes) -> Changes:
    """Return the values that identify a point; a variable has its own name."""
    return {key.removeprefix(f"{variables.TABLE}."): value for key, value in point.items()}


def _zipped(group: Any, key: str) -> list[Changes]:
    if not isinstance(group, dict) or not all(isinstance(v, tuple) and v for v in group.values()):
        raise UserError("expected a list of values", key=f"sweep.{key}", hint='e.g. "published.epsilon" = [1, 5, 10]')
    if len({len(values) for values in group.values()}) != 1:
        raise UserError("the lists of a zip group have different lengths", key=f"sweep.{key}")
    return [dict(zip(group, values, strict=True)) for values in zip(*group.values(), strict=True)]
