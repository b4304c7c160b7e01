"""Pages of a reproduction for a repository: one of all items, one per paper with its curves, and the tables.

Each page is one small file that loads nothing. It states date, version, code and machine, and no folder of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.core.memory import readable
from golfsim.core.provenance import processor
from golfsim.core.words import counted
from golfsim.report import fitting, page, sections, verdicts
from golfsim.report.reproduce import scenario_of
from golfsim.runs import results

if TYPE_CHECKING:
    from golfsim.comparing.verdict import WordTable
    from golfsim.report import Drawing
    from golfsim.report.published import Item, Paper
    from golfsim.report.reproduce import Reproduced

LARGEST = 3_000_000  # bytes of a page
MOST_FIGURES = 4  # of a scenario
MOST_ROWS = 60  # of a table of last values
TABLES = ("verdicts", "reasons", "origin")  # the blocks of a README that are replaced
Origin = list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Curves:
    """A scenario of a paper: its items, its runs, its figures and its last values."""

    scenario: str
    items: list[Item]
    summary: str
    figures: list[tuple[str, str, page.Picture]]  # title, caption, picture
    finals: WordTable | None


def refuse_a_part(folder: Path, quick: bool, items: list[str]) -> None:
    """Refuse to replace the tables of a README by those of a part of the experiments, or of a small version."""
    marked = [file for file in _readmes(folder) if any(_block(name).search(_text(file)) for name in TABLES)]
    if marked and (quick or items):
        raise UserError(
            f"--publish {folder}: {marked[0].name} has the table of all experiments, which this command would replace",
            hint="publish all of them, without --quick, or choose another folder",
        )


def publish(found: list[Reproduced], folder: Path, quick: bool) -> list[Path]:
    """Write the pages and the tables of a reproduction into a folder. Return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {one: results.find([one]) for one in _folders(found)}
    origin = origin_of(runs.values())
    texts = {"reproduction.html": verdicts.html(found, quick, origin), "verdicts.md": verdicts.markdown(found)}
    for paper in verdicts.papers(found):
        own = [one for one in found if one.item.source == paper.id]
        texts[f"{paper.id.lower()}.html"] = paper_page(paper, own, runs, quick)
    for name, text in texts.items():
        _write(folder / name, text)
    changed = [file for file in _readmes(folder) if _filled(file, found, origin)]
    return [*(folder / name for name in texts), *changed]


def too_large(files: Iterable[Path]) -> list[Path]:
    """Return the pages that are larger than a page of a repository should be."""
    return [file for file in files if file.suffix == ".html" and file.stat().st_size > LARGEST]


def _folders(found: list[Reproduced]) -> list[Path]:
    return list(dict.fromkeys(folder for one in found if one.judged for folder in one.folders))


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def paper_page(paper: Paper, own: list[Reproduced], runs: dict[Path, results.Results], quick: bool) -> str:
    """Return the page of a paper: the curves of each of its scenarios."""
    used = {folder: runs[folder] for folder in _folders(own)}
    return page.rendered(
        "paper.html",
        title=f"{paper.id}: curves of the reproduced experiments",
        reference=paper.reference,
        counts=verdicts.in_words(verdicts.total(own)),
        quick=quick,
        not_run=[one for one in own if not one.judged],
        parts=[_curves(folder, found, own) for folder, found in used.items()],
        origin=origin_of(used.values()),
    )


def _curves(folder: Path, found: results.Results, own: list[Reproduced]) -> Curves:
    keys = sections.factors(found)
    table = sections.finals(found.frame, keys)
    users = [one for one in own if folder in one.folders]
    main = next((one.picture for one in users if one.folders[0] == folder and _of_its_own(one.item)), None)
    drawn = [(one.title, one.caption, page.drawn(one)) for one in _chosen(fitting(found.frame), main is not None)]
    if main is not None:
        drawn.insert(0, ("The figure of the scenario", "The metric and keys that the scenario states in [plot].", main))
    few = table if len(table.rows) <= MOST_ROWS else None
    return Curves(folder.name, [one.item for one in users], sections.summary(found, keys, {}), drawn, few)


def _of_its_own(item: Item) -> bool:
    """Return whether the figure of an item is another one than the convergence curves that every page has."""
    return item.picture == "scatter" or scenario_of(item, False).plot.kind not in ("convergence", "none")


def _chosen(drawings: list[Drawing], has_main: bool) -> list[Drawing]:
    """Return the first figures of a scenario: curves, and a heat map only if the scenario has no figure of its own."""
    left_out = ("messages", "bytes", *(("heat",) if has_main else ()))
    return [one for one in drawings if one.animate is None and not one.name.startswith(left_out)][:MOST_FIGURES]


def origin_of(found: Iterable[results.Results]) -> Origin:
    """Return date, versions, code, machine, number and time of runs; several values if runs differ."""
    about = [run.about for one in found for run in one.runs]
    seconds = sum(sum(one.get("times", {}).get(key, 0.0) for key in ("setup_s", "cycles_s")) for one in about)
    rows = [
        ("date", [datetime.now(UTC).strftime("%Y-%m-%d")]),
        ("versions", sections.each(about, "versions")),
        ("code", sections.counts_of(str(one["code"]) for one in about if "code" in one)),
        ("machine", sections.counts_of(_machine(one["machine"]) for one in about if "machine" in one)),
        ("runs", [f"{counted(len(about), 'run')}, {duration(seconds)} in total"]),
    ]
    return [(name, values) for name, values in rows if values]


def _machine(about: dict[str, Any]) -> str:
    """Return a machine in words; the memory is known if it is this one."""
    parts = [str(about.get("processor", "")), counted(int(about.get("cores") or 1), "core")]
    if about.get("processor") == processor() and about.get("cores") == os.cpu_count():
        with suppress(OSError, ValueError, AttributeError):
            parts.append(f"{readable(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))} of memory")
    system = str(about.get("system", "")).partition("-")[0]  # without the version and the build of its kernel
    return ", ".join(filter(None, [*parts, system]))


def duration(seconds: float) -> str:
    """Return a duration in words: seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# Tables in a README


def _readmes(folder: Path) -> list[Path]:
    """Return the README of a folder and of the one above, as far as they exist."""
    files = (folder / "README.md", folder.resolve().parent / "README.md")
    return [file for file in files if file.is_file()]


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)


def _filled(file: Path, found: list[Reproduced], origin: Origin) -> bool:
    """Replace the marked blocks of a README. Return whether it has any."""
    first, _, second = verdicts.markdown(found).partition("\n\n")
    made = "".join(f"- {name}: {'; '.join(values)}\n" for name, values in origin)
    before = text = _text(file)
    for name, content in zip(TABLES, (first + "\n", second, made), strict=True):
        text = _block(name).sub(lambda _, content=content: f"\n{content}\n", text)  # type: ignore[misc]
    if text != before:
        _write(file, text)
    return text != before
