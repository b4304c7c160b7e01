"""Events of a scenario that figures mark on the axis of cycles: crashes, joins, partitions, limited churn."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from golfsim.scenario.model import Scenario

EVENTS = "golfsim.events"  # in the attrs of a frame
Event = dict[str, Any]  # kind, from, until and, if not all points of a sweep have the event, where: values by key
TABLES = re.compile(r"^\[\[(churn|transport\.partition)\]\]", re.MULTILINE)
NAMES = {"crash": "crash", "join": "joins"}  # of the kinds of churn; all others are “churn”


def of_scenario(scenario: Scenario) -> list[Event]:
    """Return the events of a scenario."""
    return of_tree(scenario.model_dump(mode="json", by_alias=True, include={"churn", "transport"}))


@lru_cache(maxsize=1024)
def of_text(text: str) -> list[Event]:
    """Return the events of a scenario in TOML with explicit defaults; none if it cannot be read."""
    if not TABLES.search(text):
        return []
    try:
        return of_tree(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        return []


def of_tree(tree: Mapping[str, Any]) -> list[Event]:
    """Return the events of the tables `[[churn]]` and `[[transport.partition]]`."""
    found = [_churn(table) for table in _tables(tree.get("churn"))]
    transport = tree.get("transport")
    cuts = _tables(transport.get("partition")) if isinstance(transport, dict) else []
    found += [{"kind": "partition", "from": cut.get("from"), "until": cut.get("until")} for cut in cuts]
    return [event for event in found if event is not None and isinstance(event["from"], int)]


def _tables(value: Any) -> list[dict[str, Any]]:
    return [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []


def _churn(table: Mapping[str, Any]) -> Event | None:
    """Return the event of a churn model; None for one that acts during the complete run."""
    first, last = (table.get("at"),) * 2 if table.get("kind") == "crash" else (table.get("from"), table.get("until"))
    if first == 1 and last is None:
        return None
    return {"kind": NAMES.get(str(table.get("kind")), "churn"), "from": first, "until": last}


def marked(frame: pd.DataFrame, points: Iterable[tuple[Mapping[str, Any], list[Event]]]) -> pd.DataFrame:
    """Return the frame with the events of each point of a sweep, for figures."""
    by_point = {json.dumps(dict(point), default=str): (dict(point), events) for point, events in points}
    every = list(by_point.values())
    distinct = {json.dumps(event, sort_keys=True): event for _, events in every for event in events}
    found = [{**event, **place} for event in distinct.values() for place in _places(event, every)]
    if found:
        frame.attrs[EVENTS] = found
    return frame


def _places(event: Event, every: list[tuple[dict[str, Any], list[Event]]]) -> list[Event]:
    """Return where an event occurs: everywhere, at some values of one key, or at single points."""
    having = [point for point, events in every if event in events]
    others = [point for point, events in every if event not in events]
    if not others:
        return [{}]
    for key in having[0]:
        values = list({repr(point.get(key)): point.get(key) for point in having}.values())
        if not any(point.get(key) in values for point in others):
            return [{"where": {key: value}} for value in values]
    return [{"where": point} for point in having]


def events_of(frame: pd.DataFrame) -> list[Event]:
    """Return the events of the runs in a frame, each once, in the order of their cycles."""
    found = [event for event in frame.attrs.get(EVENTS, []) if _is_in(frame, event.get("where", {}))]
    distinct = {(event["kind"], event["from"], event["until"]): event for event in found}
    return sorted(distinct.values(), key=lambda event: int(event["from"]))


def _is_in(frame: pd.DataFrame, where: Mapping[str, Any]) -> bool:
    """Return whether any row has these values; a column that the frame lacks excludes no row."""
    there = [frame[key] == value for key, value in where.items() if key in frame and not isinstance(value, list | dict)]
    if not there:
        return True
    for more in there[1:]:
        there[0] &= more
    return bool(there[0].any())
