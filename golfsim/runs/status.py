"""What there is in a folder of results: which runs are whole, under way, failed, or missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError
from golfsim.core.paths import INDEX
from golfsim.core.words import counted
from golfsim.runs.store import SHORT, WHOLE, Entry, Store

STATES = ("whole", "interrupted", "failed", "under way", "missing")
NAMED = 10  # points and failures that are listed


def of(folder: Path) -> dict[str, Any]:
    """Numbers of runs by state, in all and for each point of a sweep; and the failures."""
    roots = [file.parent for file in sorted(folder.rglob(INDEX))]
    if not roots:
        what = "no results of golfsim here" if folder.exists() else "there is no such folder"
        raise UserError(f"{folder}: {what}", hint="name the folder that golfsim run printed", docs="sweeps")
    points: dict[str, Counter[str]] = {}
    failures, older = [], 0
    for root in roots:
        store = Store(root)
        asked, begun = store.planned(), {file.parent.name[-SHORT:] for file in root.rglob("run-*/checkpoint-*")}
        older += len(store.entries().keys() - {hash_ for hash_, _, _ in asked})
        for hash_, values, entry in asked:
            point = ", ".join(f"{key} = {value}" for key, value in values.items() if key not in ("run", "seed"))
            state = _state(entry, hash_[:SHORT] in begun)
            points.setdefault(point, Counter())[state] += 1
            if entry and state == "failed":
                failures.append({"point": point, "run": values["run"], "error": entry.error})
    total = sum(points.values(), Counter())
    return {
        "runs": {state: total[state] for state in STATES},
        "points": {point: dict(counts) for point, counts in points.items()},
        "failures": failures,
        "older": older,
    }


def _state(entry: Entry | None, begun: bool) -> str:
    if entry is not None:
        return "whole" if entry.status in WHOLE else entry.status
    return "under way" if begun else "missing"


def text(folder: Path, found: dict[str, Any]) -> str:
    """The same for people."""
    counts = {state: number for state, number in found["runs"].items() if number}
    states = ", ".join(f"{n} {state}" for state, n in counts.items())
    states = states or "the index is damaged, golfsim run makes it again"
    lines = [f"{folder}: {counted(sum(counts.values()), 'run')}: {states}"]
    unfinished = {p: c for p, c in found["points"].items() if set(c) != {"whole"}}
    for point, numbers in list(unfinished.items())[:NAMED] if len(found["points"]) > 1 else ():
        lines.append(f"  {point}: " + ", ".join(f"{n} {state}" for state, n in numbers.items()))
    lines += [f"  … and {len(unfinished) - NAMED} more points"] if len(unfinished) > NAMED else []
    for failure in found["failures"][:NAMED]:
        where = f"{failure['point']}, " if failure["point"] else ""
        lines.append(f"  failed: {where}run {failure['run']}: {failure['error']}")
    if found["older"]:
        lines.append(f"  {found['older']} runs of earlier versions of the scenario lie there too")
    if set(counts) - {"whole"}:
        lines.append("  golfsim run on the same scenario makes what is not whole")
    return "\n".join(lines)
