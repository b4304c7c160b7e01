"""Repeat the published experiments, and compare the published results with the new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.core.paths import shipped_scenarios
from golfsim.core.words import counted
from golfsim.report import published, sections, small_plots
from golfsim.report.agreement import Judged, Verdict, judge_claim, judge_value
from golfsim.report.published import CLOSE, Item
from golfsim.runs import batch, results
from golfsim.runs.interrupt import Interrupt
from golfsim.scenario.model import Scenario

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

    from golfsim.report.page import Picture
    from golfsim.runs.progress import Progress


FULL, QUICK = ("reproduction.html", "verdicts.md"), ("quick.html", "quick.md")
KINDS: tuple[Verdict, ...] = ("agrees", "differs", "cannot be compared")
SEVERAL: dict[Verdict, str] = {"agrees": "agree", "differs": "differ", "cannot be compared": "cannot be compared"}


@dataclass(frozen=True)
class Reproduced:
    """An item, its verdicts, and the folder of its runs."""

    item: Item
    judged: list[Judged]
    folder: Path
    runs: int = 0
    promises: list[sections.Promise] = field(default_factory=list)
    picture: Picture | None = None
    why_not: str = ""
    beside: Picture | None = None  # published and new values over a numeric key

    def verdicts(self) -> Counter[Verdict]:
        """Count the values and claims that agree, differ, or cannot be compared."""
        return Counter(judged.verdict for judged in self.judged)


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
        folder = out / ("quick" if quick else "runs") / item.scenario
        try:
            yield _one(item, folder, how, quick, shown(item.id), interrupt)
        except UserError as error:
            yield Reproduced(item, [], folder, why_not=str(error))


def _one(
    item: Item, folder: Path, how: batch.Execution, quick: bool, shown: Progress, interrupt: Interrupt
) -> Reproduced:
    scenario = scenario_of(item, quick)
    made = batch.run(scenario, folder, how, shown, interrupt)
    frame = made.frame()
    if made.failures and frame is None:
        raise UserError(made.complaint())
    assert frame is not None
    rows = list(judged(item, frame))
    return Reproduced(
        item,
        rows,
        folder,
        frame["seed"].nunique(),
        promises(folder),
        picture(item, scenario, frame),
        made.complaint() if made.failures else "",
        beside(item, rows),
    )


def beside(item: Item, rows: list[Judged]) -> Picture | None:
    """Return the figure of published and new values over a numeric key; None if they form no curve."""
    from golfsim.report import page, side_by_side

    found = [(value, row.mark) for value, row in zip(item.values, rows, strict=False) if row.mark is not None]
    ax = side_by_side.curves(found)
    return page.picture_of(ax) if ax is not None else None


def in_words(counts: Counter[Verdict]) -> str:
    """Return numbers of verdicts as text: “2 agree, 1 differs”."""
    return ", ".join(f"{counts[kind]} {SEVERAL[kind] if counts[kind] > 1 else kind}" for kind in KINDS if counts[kind])


def promises(folder: Path) -> list[sections.Promise]:
    """Return the guarantee of each layer per case, and at which points, if not at all."""
    found = results.find([folder])
    return sections.guarantees(found, sections.usual(sections.factors(found)))


def picture(item: Item, scenario: Scenario, frame: pd.DataFrame) -> Picture | None:
    """Return the figure of the item or of its scenario; None if there is none, or if the log is too small for it."""
    from golfsim.report import figures, page, scatter

    if item.picture == "scatter":
        return page.picture_of(scatter.scatters(scatter.planes_of(scenario)))
    if scenario.plot.kind == "none" or not (frame["metric"] == "error.mean").any():
        return None
    try:
        return page.picture_of(figures.of(scenario.plot, frame))
    except UserError:
        return None


def scenario_of(item: Item, quick: bool) -> Scenario:
    """Return the scenario of an item with its changes, and with those of the small version if `quick`."""
    changes = [*item.changes, *(item.quick if quick else ())]
    return Scenario.load(shipped_scenarios().get(item.scenario, Path(item.scenario)), changes)


def judged(item: Item, frame: pd.DataFrame) -> Iterator[Judged]:
    """Yield the verdicts of all values and claims of an item, also for those that the log cannot answer."""
    for value in item.values:
        yield _asked(lambda value=value: judge_value(frame, value), f"{value.layer} {value.metric}")  # type: ignore[misc]
    for claim in item.claims:
        yield _asked(lambda claim=claim: judge_claim(frame, claim), claim.text)  # type: ignore[misc]


def _asked(ask: Callable[[], Judged], what: str) -> Judged:
    try:
        return ask()
    except UserError as error:
        return Judged(what, "", "", "cannot be compared", str(error))


def write(found: list[Reproduced], out: Path, quick: bool) -> tuple[Path, Path]:
    """Write the page, and the verdicts as a table in Markdown. Return both paths."""
    out.mkdir(parents=True, exist_ok=True)
    page, table = (out / name for name in (QUICK if quick else FULL))
    text, verdicts = html(found, quick), markdown(found)
    write_whole(page, lambda path: path.write_text(text, encoding="utf-8"))
    write_whole(table, lambda path: path.write_text(verdicts, encoding="utf-8"))
    return page, table


def html(found: list[Reproduced], quick: bool) -> str:
    """Return the page: published and new results, item by item."""
    from golfsim.report import page

    counts: Counter[Verdict] = sum((one.verdicts() for one in found), Counter())
    items, sources = len(found), len({one.item.source for one in found})
    return page.rendered(
        "reproduction.html",
        title="Reproduction of published experiments",
        summary=f"{counted(items, 'item')} (tables, figures and experiments) of {counted(sources, 'source')}. "
        f"Of their values and claims, {in_words(counts) or 'none was compared'}.",
        quick=quick,
        found=found,
        kinds=KINDS,
        close=CLOSE,
        classes={"agrees": "private", "differs": "open", "cannot be compared": ""},
        papers={paper.id: paper.reference for paper in _papers(found)},
        small=_small,
    )


def _papers(found: list[Reproduced]) -> list[published.Paper]:
    """Return the papers of some items, in the order of the items."""
    known = published.sources()
    return [known[source] for source in _sources(found) if source in known]


def _small(row: Judged, rows: list[Judged]) -> Markup | str:
    """Return a row of a table as a small plot; the values of one metric have the same axis. Empty: nothing to draw."""
    if row.sides:
        return small_plots.curves(row.sides, row.ours)
    if row.mark is None:
        return ""
    same = [other.mark.ends for other in rows if other.mark and other.mark.metric == row.mark.metric]
    text = f"published {row.published}, new {row.ours}"
    return small_plots.marks(row.mark, min(low for low, _ in same), max(high for _, high in same), text)


def markdown(found: list[Reproduced]) -> str:
    """Return the verdicts as Markdown tables: one line per source, then one line per reason of a difference."""
    head = ["| source | tables, figures, experiments | agrees | differs | cannot be compared | not run |"]
    lines = head + ["|---|---:|---:|---:|---:|---|"] + [_of_source(source, found) for source in _sources(found)]
    if reasons := _reasons(found):
        lines += ["", "| why | where | values and claims that differ |", "|---|---|---:|"]
        lines += [f"| {_cell(why)} | {', '.join(items)} | {items.total()} |" for why, items in reasons.items()]
    return "\n".join(lines) + "\n"


def _sources(found: list[Reproduced]) -> list[str]:
    return list(dict.fromkeys(one.item.source for one in found))


def _of_source(source: str, found: list[Reproduced]) -> str:
    own = [one for one in found if one.item.source == source]
    counts: Counter[Verdict] = sum((one.verdicts() for one in own), Counter())
    lacking = ", ".join(one.item.id for one in own if not one.judged)
    return f"| {source} | {len(own)} | " + " | ".join(str(counts[kind]) for kind in KINDS) + f" | {lacking} |"


def _reasons(found: list[Reproduced]) -> dict[str, Counter[str]]:
    """Return why values and claims differ, and how many of each item do so."""
    reasons: dict[str, Counter[str]] = {}
    for one in found:
        for row in one.judged:
            if row.verdict == "differs":
                reasons.setdefault(row.reason, Counter())[one.item.id] += 1
    return reasons


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
