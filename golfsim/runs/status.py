"""The state of a folder of results: which runs are complete, running, failed or missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError
from golfsim.core.paths import INDEX
from golfsim.core.words import counted
from golfsim.runs.logs import NOT_POINT, damage
from golfsim.runs.store import SHORT, WHOLE, Entry, Store

STATES = ("complete", "damaged", "interrupted", "failed", "running", "missing")
NAMED = 10  # points and failures that are listed


def of(folder: Path, verify: bool = False) -> dict[str, Any]:
    """Return the numbers of runs by state, in total and per point of a sweep, and the failures.

    With `verify`, the files of complete runs are compared with their checksums.
    """
    roots = [file.parent for file in sorted(folder.rglob(INDEX))]
    if not roots:
        what = "no golfsim results here" if folder.exists() else "there is no such folder"
        raise UserError(f"{folder}: {what}", hint="give the folder that golfsim run printed", docs="sweeps")
    points: dict[str, Counter[str]] = {}
    failures, older = [], 0
    for root in roots:
        store = Store(root)
        asked, begun = store.planned(), {file.parent.name[-SHORT:] for file in root.rglob("run-*/checkpoint-*")}
        older += len(store.entries().keys() - {hash_ for hash_, _, _ in asked})
        for hash_, values, entry in asked:
            point = ", ".join(f"{key} = {value}" for key, value in values.items() if key not in NOT_POINT)
            state = _state(entry, hash_[:SHORT] in begun)
            wrong = damage(root / entry.folder) if verify and entry and state == "complete" else ""
            if wrong:
                state = "damaged"
                failures.append({"state": state, "point": point, "run": values["run"], "error": wrong})
            points.setdefault(point, Counter())[state] += 1
            if entry and state == "failed":
                failures.append({"state": state, "point": point, "run": values["run"], "error": entry.error})
    total = sum(points.values(), Counter())
    return {
        "runs": {state: total[state] for state in STATES},
        "points": {point: dict(counts) for point, counts in points.items()},
        "failures": failures,
        "older": older,
    }


def _state(entry: Entry | None, begun: bool) -> str:
    if entry is not None:
        state = "complete" if entry.status in WHOLE else entry.status
        return state if state in STATES else "missing"
    return "running" if begun else "missing"


def text(folder: Path, found: dict[str, Any]) -> str:
    """Return the state as text."""
    counts = {state: number for state, number in found["runs"].items() if number}
    states = ", ".join(f"{n} {state}" for state, n in counts.items())
    states = states or "the index is damaged; golfsim run rebuilds it"
    lines = [f"{folder}: {counted(sum(counts.values()), 'run')}: {states}"]
    unfinished = {p: c for p, c in found["points"].items() if set(c) != {"complete"}}
    for point, numbers in list(unfinished.items())[:NAMED] if len(found["points"]) > 1 else ():
        lines.append(f"  {point}: " + ", ".join(f"{n} {state}" for state, n in numbers.items()))
    lines += [f"  … and {counted(len(unfinished) - NAMED, 'more point')}"] if len(unfinished) > NAMED else []
    for failure in found["failures"][:NAMED]:
        where = f"{failure['point']}, " if failure["point"] else ""
        lines.append(f"  {failure['state']}: {where}run {failure['run']}: {failure['error']}")
    if found["older"]:
        lines.append(f"  also in this folder: {counted(found['older'], 'run')} of earlier versions of the scenario")
    if set(counts) - {"complete"}:
        lines.append("  golfsim run with the same scenario completes the missing runs")
    return "\n".join(lines)
