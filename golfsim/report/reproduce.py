"""The published experiments run again, and what was published beside what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.core.paths import shipped_scenarios
from golfsim.report import sections
from golfsim.report.agreement import Judged, Verdict, judge_claim, judge_value
from golfsim.report.published import CLOSE, Item
from golfsim.runs import batch, results
from golfsim.runs.interrupt import Interrupt
from golfsim.scenario.model import Scenario

if TYPE_CHECKING:
    import pandas as pd

    from golfsim.report.page import Picture
    from golfsim.runs.progress import Progress


FULL, QUICK = ("reproduction.html", "verdicts.md"), ("quick.html", "quick.md")
KINDS: tuple[Verdict, ...] = ("agrees", "differs", "cannot be compared")


@dataclass(frozen=True)
class Reproduced:
    """An item, what came of it, and where its runs are."""

    item: Item
    judged: list[Judged]
    folder: Path
    runs: int = 0
    promises: list[sections.Promise] = field(default_factory=list)
    picture: Picture | None = None
    why_not: str = ""

    def verdicts(self) -> Counter[Verdict]:
        """How many values and claims agree, differ, or cannot be compared."""
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
    """Run each item's scenario (what is there already is not run again) and hold its log against the source."""
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
    return Reproduced(
        item,
        list(judged(item, frame)),
        folder,
        frame["seed"].nunique(),
        promises(folder),
        picture(item, scenario, frame),
        made.complaint() if made.failures else "",
    )


def promises(folder: Path) -> list[sections.Promise]:
    """What each layer of each case guarantees, and where, if not at all points."""
    found = results.find([folder])
    return sections.guarantees(found, sections.usual(sections.factors(found)))


def picture(item: Item, scenario: Scenario, frame: pd.DataFrame) -> Picture | None:
    """The picture that the item or the scenario asks for; none where there is none, or the log is too small for it."""
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
    """An item's scenario, with its changes, and made small where that is asked for."""
    changes = [*item.changes, *(item.quick if quick else ())]
    return Scenario.load(shipped_scenarios().get(item.scenario, Path(item.scenario)), changes)


def judged(item: Item, frame: pd.DataFrame) -> Iterator[Judged]:
    """All values and claims of an item; what a log cannot answer is said so."""
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
    """Write the page, and the verdicts as a table in Markdown; where they are."""
    out.mkdir(parents=True, exist_ok=True)
    page, table = (out / name for name in (QUICK if quick else FULL))
    text, verdicts = html(found, quick), markdown(found)
    write_whole(page, lambda path: path.write_text(text, encoding="utf-8"))
    write_whole(table, lambda path: path.write_text(verdicts, encoding="utf-8"))
    return page, table


def html(found: list[Reproduced], quick: bool) -> str:
    """The page: what was published beside what came out, item by item."""
    from golfsim.report import page

    counts = sum((one.verdicts() for one in found), Counter())
    words = ", ".join(f"{counts[kind]} {kind if kind != 'agrees' else 'agree'}" for kind in KINDS if counts[kind])
    return page.rendered(
        "reproduction.html",
        title="Published experiments, run again",
        summary=f"{len(found)} tables, figures and experiments of {len({one.item.source for one in found})} sources: "
        f"of their values and claims {words}.",
        quick=quick,
        found=found,
        kinds=KINDS,
        close=CLOSE,
        classes={"agrees": "private", "differs": "open", "cannot be compared": ""},
    )


def markdown(found: list[Reproduced]) -> str:
    """The verdicts for a README: a line for each source, then one for each reason why something differs."""
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
    """Why values and claims differ, and how many of which item do so."""
    reasons: dict[str, Counter[str]] = {}
    for one in found:
        for row in one.judged:
            if row.verdict == "differs":
                reasons.setdefault(row.reason, Counter())[one.item.id] += 1
    return reasons


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
