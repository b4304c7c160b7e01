"""Show what makes the ε of strategies comparable: its unit, what is released, who must be trusted, what is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from golfsim.comparing.strategies import label
from golfsim.comparing.verdict import WordTable
from golfsim.core.words import listed
from golfsim.privacy.accounting import AtDelta

if TYPE_CHECKING:
    import pandas as pd

    from golfsim.runs.results import Results, Run

NOTHING = "–"
MOST_COLUMNS = 4  # strategies next to each other in a terminal
PROVEN, NOT_PROVEN = "proven", "not proven"
SPENT = ("spent.mean", "spent.max")
HEADER = (
    "strategy", "ε stated", "unit", "what is released", "who must be trusted", "ε spent, mean", "largest", "guarantee",
)  # fmt: skip


@dataclass(frozen=True)
class PrivacyRow:
    """One strategy: values as text, which differ between its runs only if several are listed."""

    strategy: str
    stated: str
    unit: str
    released: str
    trust: str
    spent_mean: str
    spent_max: str
    guarantee: str


def privacy_rows(results: Results, by: str | None) -> list[PrivacyRow]:
    """Return one row per strategy, a value of the key `by`; none if no run uses private records.

    The layers of a strategy that use private records are in one row.
    """
    strategies: dict[str, list[Run]] = {}
    for run in results.runs:
        strategies.setdefault(label(by, run.point[by]) if by in run.point else "all", []).append(run)
    if not any(_layers(run) for run in results.runs):
        return []
    frame = results.frame
    return [_row(strategy, runs, frame) for strategy, runs in strategies.items()]


def _row(strategy: str, runs: list[Run], frame: pd.DataFrame) -> PrivacyRow:
    layers = [table for run in runs for table in _layers(run)]
    if not layers:
        known = all("privacy" in run.about for run in runs)
        text = "no private record is used" if known else "not stated in these results"
        return PrivacyRow(strategy, NOTHING, NOTHING, text, NOTHING, NOTHING, NOTHING, NOTHING)
    guarantees = [*(_guarantee(table) for table in layers), *_at_delta(layers)]
    rows = frame[frame["path"].isin({run.piece.values["path"] for run in runs})]
    spent = rows[rows["metric"].isin(SPENT)]
    last = spent[spent["cycle"] == spent.groupby(["path", "layer"], observed=True)["cycle"].transform("max")]
    mean, largest = (last.loc[last["metric"] == name, "value"] for name in SPENT)
    return PrivacyRow(
        strategy,
        _numbers([table.get("stated") for table in layers]),
        _words([table.get("unit") for table in layers]),
        _words([table.get("released") for table in layers]),
        _words([table.get("trust") for table in layers]),
        _numbers(mean.tolist()),
        _numbers(largest.tolist()),
        _words(guarantees),
    )


def _layers(run: Run) -> list[dict[str, Any]]:
    return [table for table in run.about.get("privacy", {}).values() if isinstance(table, dict)]


def _guarantee(table: dict[str, Any]) -> str:
    proven, note = table.get("proven"), str(table.get("note") or "")
    if proven is None and table.get("stated") is None:
        return note or "none"
    if proven is None:
        return f"{NOT_PROVEN}: {note}" if note else NOT_PROVEN
    other = "" if proven == table.get("stated") else f", ε = {proven:g}"
    central = (table.get("central") or {}).get("text", "")
    at = f" at δ = {table['delta']:g}" if table.get("delta") else ""
    return f"{PROVEN}{other}{at}" + (f": {note}" if note else "") + (f"; {central}" if central else "")


def _at_delta(layers: Sequence[dict[str, Any]]) -> list[str]:
    """Return the largest ε at each δ that layers state for the visits that happened."""
    largest: dict[float, float] = {}
    for table in layers:
        if found := table.get("at_delta"):
            largest[found["delta"]] = max(found["epsilon"], largest.get(found["delta"], 0.0))
    return [str(AtDelta(epsilon, delta)) for delta, epsilon in largest.items()]


def _words(values: Sequence[Any]) -> str:
    return "; ".join(dict.fromkeys(str(value) for value in values if value)) or NOTHING


def _numbers(values: Sequence[Any]) -> str:
    """Return the smallest and the largest number, if they differ."""
    found = sorted({float(f"{value:.4g}") for value in values if value is not None and value == value})
    if not found:
        return NOTHING
    return listed([f"{value:g}" for value in found]) if len(found) <= 2 else f"{found[0]:g} … {found[-1]:g}"


def privacy_columns(rows: list[PrivacyRow]) -> list[WordTable]:
    """Return the rows as columns of narrow tables, for a terminal."""
    whole = [privacy_table(rows[start : start + MOST_COLUMNS]) for start in range(0, len(rows), MOST_COLUMNS)]
    return [
        WordTable(
            table.title, ("", *(row[0] for row in table.rows)), tuple(zip(HEADER, *table.rows, strict=True))[1:], 9
        )
        for table in whole
    ]


def privacy_table(rows: list[PrivacyRow]) -> WordTable:
    """Return the rows as a table of texts."""
    cells = tuple(
        (r.strategy, r.stated, r.unit, r.released, r.trust, r.spent_mean, r.spent_max, r.guarantee) for r in rows
    )
    return WordTable("What makes ε comparable", HEADER, cells, len(HEADER))
