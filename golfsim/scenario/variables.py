"""Variables of a scenario: one value that several settings refer to, e.g. one ε for all strategies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from golfsim.core.errors import UserError, nearest

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
REFERENCE = re.compile(rf"\$({NAME})(?:\s*([*/])\s*([0-9.eE+-]+))?")
TABLE = "variables"
UNTOUCHED = frozenset({TABLE, "sweep", "case", "name"})  # keys whose values are not settings of a run


def resolved(tree: Mapping[str, Any], report: Callable[[tuple[str | int, ...], UserError], None]) -> dict[str, Any]:
    """Return a tree with the value of a variable in place of “$name”, “$name * 2” or “$name / 2”.

    Text that begins with “$$” stands for the same text with one “$”. `report` receives each reference that is wrong,
    with its path; it stays as it is.
    """
    found = tree.get(TABLE)
    values = found if isinstance(found, Mapping) else {}

    def put(value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict):
            return {key: put(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [put(inner, (*path, place)) for place, inner in enumerate(value)]
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        if value.startswith("$$"):
            return value[1:]
        try:
            return _value(value, values)
        except UserError as error:
            report(path, error)
            return value

    return {key: value if key in UNTOUCHED else put(value, (key,)) for key, value in tree.items()}


def _value(text: str, values: Mapping[str, Any]) -> Any:
    parts = REFERENCE.fullmatch(text)
    if parts is None:
        hint = 'refer to a variable as "$name", "$name * 2" or "$name / 2"; "$$" stands for one "$"'
        raise UserError(f"“{text}” does not name a variable", hint=hint)
    name, sign, number = parts.groups()
    if name not in values:
        raise UserError(f"there is no variable “{name}”", hint=nearest(name, values) or f"add it to [{TABLE}]")
    value = values[name]
    if sign is None:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"the variable “{name}” is no number", hint=f"use “${name}” alone")
    factor = _number(number)
    if factor is None or (sign == "/" and factor == 0):
        raise UserError(f"“{number}” is no number to multiply with or to divide by")
    return value * factor if sign == "*" else value / factor


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
