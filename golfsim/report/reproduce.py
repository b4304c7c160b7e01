"""Repeat the published experiments, and compare the published results with the new ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from golfsim.core.errors import UserError
from golfsim.core.paths import shipped_scenarios
from golfsim.core.words import counted
from golfsim.data import fetch
from golfsim.data.cards import cards
from golfsim.report import sections
from golfsim.report.agreement import Judged, Verdict, judge_claim, judge_value
from golfsim.report.numbers import LEAST
from golfsim.report.published import Item
from golfsim.runs import batch, results
from golfsim.runs.interrupt import Interrupt
from golfsim.runs.store import WHOLE
from golfsim.scenario import sweep
from golfsim.scenario.model import Scenario

if TYPE_CHECKING:
    import pandas as pd

    from golfsim.report.page import Picture
    from golfsim.runs.progress import Progress


FOLDERS = re.compile(r"(?<![\w.:/])(?:[A-Za-z]:)?(?:[/\\][\w.@+~-]+)+[/\\]")  # of an absolute path


@dataclass(frozen=True)
class Reproduced:
    """An item, its verdicts, and the folders of its runs: one per scenario."""

    item: Item
    judged: list[Judged]
    folders: tuple[Path, ...] = ()
    runs: int = 0
    promises: list[sections.Promise] = field(default_factory=list)
    picture: Picture | None = None
    why_not: str = ""
    beside: Picture | None = None  # published and new values over a numeric key
    lacking: tuple[str, ...] = ()  # data sets that are not fetched
    executed: int = 0  # runs of all points
    seconds: float = 0.0  # of all runs

    def verdicts(self) -> Counter[Verdict]:
        """Count the values and claims that agree, differ, or cannot be compared."""
        return Counter(judged.verdict for judged in self.judged)

    @property
    def precision(self) -> str:
        """The standard error that the item asks for, and how many of its values and claims have a larger one."""
        limit, few = self.item.standard_error, [one.too_few for one in self.judged if one.too_few]
        if limit is None or not self.judged:
            return ""
        if self.runs < LEAST:
            return f"The standard error is to be at most {limit:g}; {counted(self.runs, 'run')} cannot show this."
        if not few:
            return f"All means over runs have a standard error of at most {limit:g}."
        needed = max(one.needed for one in few)
        of = f"{len(few)} of {len(self.judged)} values and claims"
        return f"The standard error is to be at most {limit:g}. It is larger for {of}: about {needed} runs are needed."


def reproduce(
    items: list[Item],
    out: Path,
    how: batch.Execution,
    *,
    quick: bool,
    shown: Callable[[str], Progress],
    interrupt: Interrupt,
) -> Iterator[Reproduced]:
    """Run the scenario of each item (complete runs are not repeated) and compare its log with the source.

    Parameters
    ----------
    items : list of Item
        The items to repeat.
    out : Path
        The folder of the runs.
    how : Execution
        Workers, threads and scheduler.
    quick : bool
        Whether to run a small version of each experiment.
    shown : callable
        Returns the progress display of an item, given its id.
    interrupt : Interrupt
        Set by Ctrl-C; no further item starts then.
    """
    for item in items:
        if interrupt.asked:
            return
        try:
            yield _one(item, out / ("quick" if quick else "runs"), how, quick, shown, interrupt)
        except UserError as error:
            yield Reproduced(item, [], why_not=without_folders(str(error)))


def _one(
    item: Item, base: Path, how: batch.Execution, quick: bool, shown: Callable[[str], Progress], interrupt: Interrupt
) -> Reproduced:
    names = (item.scenario, *item.also)
    missing = lacking(one for name in names for one in data_sets(scenario_of(item, quick, name)))
    scenarios = {name: scenario_of(item, quick, name, missing) for name in names}
    if missing and data_sets(scenarios[item.scenario]) <= set(missing):
        return Reproduced(item, [], why_not=needed(missing), lacking=missing)
    folders = {name: folder_of(item, name, base) for name in scenarios}
    made = {n: batch.run(one, folders[n], how, shown(item.id), interrupt) for n, one in scenarios.items()}
    complaint = without_folders("\n".join(one.complaint() for one in made.values() if one.failures))
    frames = {name: frame for name, one in made.items() if (frame := one.frame()) is not None}
    if item.scenario not in frames:
        raise UserError(complaint)
    rows = list(judged(item, joined(frames) if item.also else frames[item.scenario], complaint or needed(missing)))
    return Reproduced(
        item,
        rows,
        tuple(folders.values()),
        frames[item.scenario]["seed"].nunique(),
        promises([folders[name] for name in frames]),
        picture(item, scenarios[item.scenario], frames[item.scenario]),
        complaint,
        beside(item, rows),
        missing,
        *_spent(made.values()),
    )


def _spent(made: Iterable[batch.Made]) -> tuple[int, float]:
    """Return the number of complete runs, and the seconds that they took."""
    known = [(one, one.store.entries()) for one in made]
    ran = [entries[hash_] for one, entries in known for hash_ in {r.hash for r in one.runs} & entries.keys()]
    complete = [entry.seconds for entry in ran if entry.status in WHOLE]
    return len(complete), sum(complete)


def folder_of(item: Item, scenario: str, base: Path) -> Path:
    """Return the folder of the runs of a scenario; an item with changes has a folder of its own."""
    return (base / item.id if item.changes else base) / Path(scenario).stem


def joined(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several scenarios, with the name of the scenario as a column."""
    import pandas as pd

    plain = [
        frame.astype({"layer": object, "metric": object}).assign(scenario=Path(name).stem)
        for name, frame in frames.items()
    ]
    for frame in plain:
        frame.attrs = {}
    return pd.concat(plain, ignore_index=True)


def data_sets(scenario: Scenario) -> set[str]:
    """Return the names of the data sets that a scenario uses."""
    data = (point.scenario.data for point in sweep.points(scenario))
    return {one.set for one in data if one is not None and one.set is not None}


def lacking(names: Iterable[str]) -> tuple[str, ...]:
    """Return which data sets must be fetched first."""
    known = [cards()[name] for name in sorted(set(names)) if name in cards()]
    return tuple(card.name for card in known if card.kind == "fetched" and fetch.damaged(card, fetch.folder_of(card)))


def needed(missing: Iterable[str]) -> str:
    """Return which data sets are not fetched, and the commands that fetch them."""
    return "; ".join(f"“{name}” is not fetched: golfsim data fetch {name}" for name in missing)


def without_folders(text: str) -> str:
    """Return a message without the folders of this machine: files by their names alone."""
    return FOLDERS.sub("", text)


def beside(item: Item, rows: list[Judged]) -> Picture | None:
    """Return the figure of published and new values over a numeric key; None if they form no curve."""
    from golfsim.report import page, side_by_side

    found = [(value, row.mark) for value, row in zip(item.values, rows, strict=False) if row.mark is not None]
    ax = side_by_side.curves(found)
    return page.small_picture_of(ax) if ax is not None else None


def promises(folders: list[Path]) -> list[sections.Promise]:
    """Return the guarantee of each layer per case, and at which points, if not at all."""
    found = results.find(folders)
    return sections.guarantees(found, sections.usual(sections.factors(found)))


def picture(item: Item, scenario: Scenario, frame: pd.DataFrame) -> Picture | None:
    """Return the figure of the item or of its scenario; None if there is none, or if the log is too small for it."""
    from golfsim.report import figures, page, scatter

    if item.picture == "scatter":
        return page.small_picture_of(scatter.scatters(scatter.planes_of(scenario)))
    if scenario.plot.kind == "none" or not (frame["metric"] == "error.mean").any():
        return None
    try:
        return page.small_picture_of(figures.of(scenario.plot, frame))
    except UserError:
        return None


def scenario_of(item: Item, quick: bool, name: str = "", without: Collection[str] = ()) -> Scenario:
    """Return a scenario of an item (by default the first) with its changes, and with those of `quick`.

    Data sets in `without` are left out of the sweep, unless none remains.
    """
    file = shipped_scenarios().get(name or item.scenario, Path(name or item.scenario))
    changes = [*item.changes, *(item.quick if quick else ())]
    found = Scenario.load(file, changes)
    sets = found.sweep.get("data.set")
    rest = [one for one in sets if one not in without] if isinstance(sets, list | tuple) else []
    if not without or not rest:
        return found
    return Scenario.load(file, [*changes, f"sweep.data.set={json.dumps(rest)}"])


def judged(item: Item, frame: pd.DataFrame, missing: str = "") -> Iterator[Judged]:
    """Yield the verdicts of all values and claims of an item, also for those that the log cannot answer.

    `missing` states why some runs do not exist.
    """
    asked: list[tuple[str, Callable[[], Judged]]] = [
        *((f"{one.layer} {one.metric}", partial(judge_value, frame, one, item.standard_error)) for one in item.values),
        *((one.text, partial(judge_claim, frame, one, item.standard_error)) for one in item.claims),
    ]
    for what, ask in asked:
        try:
            yield ask()
        except UserError as error:
            reason = f"{error}{'; ' + missing if missing else ''}"
            yield Judged(what, "", "", "cannot be compared", reason)
