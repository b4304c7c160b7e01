"""The page and the tables of a reproduction: published and new results, and how many agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from golfsim.core.files import write_whole
from golfsim.core.words import counted
from golfsim.report import published, small_plots
from golfsim.report.agreement import Judged, Verdict
from golfsim.report.published import CLOSE

if TYPE_CHECKING:
    from markupsafe import Markup

    from golfsim.report.reproduce import Reproduced

FULL, QUICK = ("reproduction.html", "verdicts.md"), ("quick.html", "quick.md")
KINDS: tuple[Verdict, ...] = ("agrees", "differs", "cannot be compared")
SEVERAL: dict[Verdict, str] = {"agrees": "agree", "differs": "differ", "cannot be compared": "cannot be compared"}


def in_words(counts: Counter[Verdict]) -> str:
    """Return numbers of verdicts as text: “2 agree, 1 differs”."""
    return ", ".join(f"{counts[kind]} {SEVERAL[kind] if counts[kind] > 1 else kind}" for kind in KINDS if counts[kind])


def write(found: list[Reproduced], out: Path, quick: bool) -> tuple[Path, Path]:
    """Write the page, and the verdicts as a table in Markdown. Return both paths."""
    out.mkdir(parents=True, exist_ok=True)
    page, table = (out / name for name in (QUICK if quick else FULL))
    text, verdicts = html(found, quick), markdown(found)
    write_whole(page, lambda path: path.write_text(text, encoding="utf-8"))
    write_whole(table, lambda path: path.write_text(verdicts, encoding="utf-8"))
    return page, table


def html(found: list[Reproduced], quick: bool, origin: Sequence[tuple[str, list[str]]] = ()) -> str:
    """Return the page: published and new results, item by item; `origin` states when and how the runs were made."""
    from golfsim.report import page

    items, sources = len(found), len(_sources(found))
    return page.rendered(
        "reproduction.html",
        title="Reproduction of published experiments",
        summary=f"{counted(items, 'item')} (tables, figures and experiments) of {counted(sources, 'source')}. "
        f"Of their values and claims, {in_words(total(found)) or 'none was compared'}.",
        quick=quick,
        origin=origin,
        sources=by_source(found),
        found=found,
        kinds=KINDS,
        close=CLOSE,
        classes={"agrees": "private", "differs": "open", "cannot be compared": ""},
        papers={paper.id: paper.reference for paper in papers(found)},
        small=_small,
    )


def total(found: list[Reproduced]) -> Counter[Verdict]:
    """Count the verdicts of several items."""
    return sum((one.verdicts() for one in found), Counter())


def papers(found: list[Reproduced]) -> list[published.Paper]:
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
    head = ["| source | items | agrees | differs | cannot be compared | not run |"]
    lines = head + ["|---|---:|---:|---:|---:|---|"] + [one.line() for one in by_source(found)]
    if reasons := _reasons(found):
        lines += ["", "| why | where | values and claims that differ |", "|---|---|---:|"]
        lines += [f"| {_cell(why)} | {', '.join(items)} | {items.total()} |" for why, items in reasons.items()]
    return "\n".join(lines) + "\n"


def _sources(found: list[Reproduced]) -> list[str]:
    return list(dict.fromkeys(one.item.source for one in found))


@dataclass(frozen=True)
class OfSource:
    """The verdicts of a source, and its items that were not run, or not on all data sets."""

    id: str
    items_: int
    counts: Counter[Verdict]
    not_run: str

    def line(self) -> str:
        """Return a line of the table in Markdown."""
        paper = published.sources().get(self.id)
        numbers = [str(self.items_), *(str(self.counts[kind]) for kind in KINDS)]
        return f"| {paper.short if paper else self.id} | {' | '.join(numbers)} | {self.not_run} |"


def by_source(found: list[Reproduced]) -> list[OfSource]:
    """Return the verdicts of each source, in the order of the items."""
    groups = {source: [one for one in found if one.item.source == source] for source in _sources(found)}
    return [
        OfSource(source, len(own), total(own), ", ".join(filter(None, map(_not_run, own))))
        for source, own in groups.items()
    ]


def _not_run(one: Reproduced) -> str:
    """Return the item if it was not run, with the data sets that are not fetched; empty if it was run completely."""
    sets = f" ({', '.join(one.lacking)})" if one.lacking else ""
    return f"{one.item.id}{sets}" if sets or not one.judged else ""


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
