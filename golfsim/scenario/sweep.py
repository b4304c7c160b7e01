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

from golfsim.core.columns import ABOUT_LAYERS, COLUMNS
from golfsim.core.errors import UserError, nearest
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
    judged: str | None = None  # the layer whose model is judged; None: all layers with models

    @cached_property
    def text(self) -> str:
        """Its scenario as TOML with explicit defaults."""
        return self.scenario.dump()

    @cached_property
    def packed(self) -> dict[str, Any]:
        """Its content in types of JSON, for another process."""
        return {"values": self.values, "scenario": self.scenario.packed(), "folder": self.folder, "judged": self.judged}

    @classmethod
    def unpacked(cls, parts: dict[str, Any]) -> Point:
        """Return the point that `packed` describes."""
        return cls(parts["values"], _scenario(parts["scenario"]), parts["folder"], parts["judged"])

    @property
    def columns(self) -> dict[str, Any]:
        """Its values for the rows of its runs, with what figures need: the judged layer and the labels of layers."""
        more = {"judged": self.judged, "label": self.scenario.labels}
        return self.values | {key: value for key, value in more.items() if value}

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
    found: list[Point] = []
    told: set[str] = set()
    names = _Names()
    cases, axes = _cases(scenario), _axes(scenario)
    number = math.prod([len(cases), *map(len, axes)])
    if number > MOST_POINTS:
        what = f"the sweep has {number} points; at most {MOST_POINTS} are supported"
        raise UserError(what, key="sweep", hint="vary fewer keys, or let lists vary together in a zip group")
    plain = scenario
    if (scenario.sweep or scenario.case) and not all(case.own_layers for case in cases):
        plain = scenario.change({"sweep": {}, "case": []})
    for case, combination in itertools.product(cases, list(itertools.product(*axes))):
        values = case.values | {key: value for part in combination for key, value in part[0].items()}
        changes = case.changes | {key: value for part in combination for key, value in part[1].items()}
        where = f"{scenario.file}, at " + ", ".join(f"{k} = {v}" for k, v in values.items())
        if repr(values) in told:
            raise UserError("two points of the sweep are equal", key="sweep", hint="remove the value that occurs twice")
        told.add(repr(values))
        if case.own_layers:
            made = scenario.in_case(case.number, changes, where)
        else:
            made = plain.change(changes, where=where) if changes else plain
        found.append(Point(values, made, names.of(values), _judged(case, made)))
    return found


def _judged(case: _Case, scenario: Scenario) -> str | None:
    """Return the layer whose model is judged: as stated, or the highest one if the case has layers of its own."""
    if case.judged is None:
        return scenario.learners[-1] if case.own_layers and scenario.learners else None
    if case.judged not in scenario.layer_names:
        what, hint = f"there is no layer “{case.judged}”", nearest(str(case.judged), scenario.layer_names)
        raise UserError(what, key=f"case.{case.number}.judged", hint=hint)
    return case.judged


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


@dataclass(frozen=True)
class _Case:
    """One case: the values that identify it, the changes that it makes, and the layer that is judged."""

    values: Changes
    changes: Changes
    number: int = 0
    own_layers: bool = False
    judged: str | None = None


def _cases(scenario: Scenario) -> list[_Case]:
    if not scenario.case:
        return [_Case({}, {})]
    found = []
    for number, table in enumerate(scenario.case):
        changes = dict(table)
        label, judged, layers = (changes.pop(key, None) for key in ("label", "judged", "layers"))
        if not isinstance(label, str) or not label:
            raise UserError("missing: a case needs a label for plots", key=f"case.{number}.label")
        if layers is not None and "protocol" in changes:
            hint = "`layers` are added to the stack of the file, `protocol` replaces it"
            raise UserError("the case has both `layers` and `protocol`", key=f"case.{number}.layers", hint=hint)
        if judged is not None and not isinstance(judged, str):
            raise UserError("expected the name of a layer", key=f"case.{number}.judged")
        found.append(_Case({"case": label}, changes, number, layers is not None, judged))
    return found


def _axes(scenario: Scenario) -> list[list[tuple[Changes, Changes]]]:
    axes = []
    for key, values in scenario.sweep.items():
        groups = values if key == "zip" and isinstance(values, tuple) else ({key: values},)
        for group in groups:
            axes.append([(_named(point), point) for point in _zipped(group, key)])
    return axes


def _named(point: Changes) -> Changes:
    """Return the values that identify a point; a variable has its own name, unless a column of the log has it."""
    taken = {*Scenario.model_fields, *COLUMNS, *ABOUT_LAYERS, "path", "results"}
    names = {key: key.removeprefix(f"{variables.TABLE}.") for key in point}
    return {key if names[key] in taken else names[key]: value for key, value in point.items()}


def _zipped(group: Any, key: str) -> list[Changes]:
    if not isinstance(group, dict) or not all(isinstance(v, tuple) and v for v in group.values()):
        raise UserError("expected a list of values", key=f"sweep.{key}", hint='e.g. "published.epsilon" = [1, 5, 10]')
    if len({len(values) for values in group.values()}) != 1:
        raise UserError("the lists of a zip group have different lengths", key=f"sweep.{key}")
    return [dict(zip(group, values, strict=True)) for values in zip(*group.values(), strict=True)]
