"""The README of a pack: claims, time and disk, commands, data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from golfsim.comparing import comparison, verdict
from golfsim.comparing.verdict import WordTable
from golfsim.core.errors import UserError
from golfsim.core.files import checksum
from golfsim.core.memory import readable
from golfsim.core.words import counted
from golfsim.data.cards import Card, card_of
from golfsim.report import sections
from golfsim.runs.results import Results
from golfsim.share import lock
from golfsim.share.experiment import Experiment
from golfsim.share.exported import seconds_of

AGAIN = "again"  # the folder of the repeated runs
HOW = {
    "bundled": "It comes with golfsim.",
    "computed": "golfsim computes it.",
    "installed": "It comes with a package of `requirements.lock`.",
    "generated": "golfsim generates it from the seed.",
    "fetched": "The commands below download it and compare its checksums.",
}


@dataclass(frozen=True)
class Content:
    """Everything that the README describes."""

    experiment: Experiment
    results: Results
    packages: dict[str, metadata.Distribution]
    parts: Sequence[tuple[str, str]]  # paths in the pack with their meaning
    bytes: int  # of the unpacked pack
    wheel: bool = False  # whether golfsim itself is in the pack

    @property
    def title(self) -> str:
        """The name of the scenario in one line."""
        return " ".join(self.experiment.scenario.name.split())

    @property
    def about(self) -> dict[str, Any]:
        """The content of `run.json` of the first run."""
        return self.results.runs[0].about

    @property
    def cards(self) -> list[Card]:
        """The cards of the data sets."""
        tables = [scenario.data for scenario in self.experiment.scenarios if scenario.data is not None]
        return [card_of(name) for name in dict.fromkeys(table.set for table in tables) if name is not None]


def text(content: Content) -> str:
    """Return the README as Markdown."""
    parts = [
        f"# {content.title}",
        f"The scenario and the results of {counted(len(content.results.runs), 'run')} of golfsim "
        f"{content.about.get('code', '')}, a simulator of gossip protocols.",
        *_claims(content),
        *_needs(content),
        *_commands(content),
        *_data(content),
        "## Files",
        "\n".join(f"- `{path}`: {what}" for path, what in content.parts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(content: Content) -> list[str]:
    results = content.results
    keys = sections.factors(results)
    last = sections.finals(results.frame, keys)
    spread = "Mean ± half of the 95 % interval over runs (one run: no interval), at the last observed cycle:"
    promises = sections.guarantees(results, sections.usual(keys))
    rows = tuple((p.strategy, p.layer, p.guarantee, p.where) for p in promises)
    return [
        "## Claims",
        "The commands below repeat all runs. On a processor of the same kind "
        f"(`{content.about.get('compiled_for', 'not recorded')}`) every row of the logs is the same.",
        _sentence(results),
        spread,
        markdown(last),
        "Guarantees:" if rows else "",
        markdown(WordTable("", ("strategy", "layer", "guarantee", "where"), rows, 4)) if rows else "",
    ]


def _sentence(results: Results) -> str:
    try:
        return verdict.sentence(comparison.compare(results.frame))
    except UserError:
        return ""


def markdown(table: WordTable) -> str:
    """Return a table as Markdown."""
    lines = [table.header, tuple("---" for _ in table.header), *table.rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _needs(content: Content) -> list[str]:
    seconds = [seconds_of(run) for run in content.results.runs]
    machine = content.about.get("machine", {})
    versions = content.about.get("versions", {})
    return [
        "## Time and disk",
        "\n".join([
            f"- time of the runs: {_seconds(sum(seconds))} in total, {_seconds(max(seconds))} for the longest run, "
            f"with {counted(int(content.about.get('threads', 1)), 'thread')} per run; compiling takes up to one minute",
            f"- measured on: {machine.get('processor')}, {counted(machine.get('cores') or 1, 'core')}, "
            f"{machine.get('system')}",
            f"- disk: {readable(content.bytes)} for this folder, as much for the repeated runs, and "
            f"{readable(lock.disk(content.packages))} for the packages",
            f"- Python {versions.get('python', '')}",
        ]),
    ]  # fmt: skip


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{math.ceil(seconds / 60)} min"


def commands(content: Content) -> list[str]:
    """Return the commands that repeat the runs and compare their rows."""
    experiment = content.experiment
    again = ["golfsim", "run", experiment.place_of_scenario, "--out", AGAIN]
    again += [word for change in experiment.asked.changes for word in ("--set", change)]
    again += ["--allow-code"] if experiment.outside else []
    return [
        "python3 -m venv venv",
        ". venv/bin/activate",
        f"pip install {'--find-links wheels ' if content.wheel else ''}-r requirements.lock",
        *(f"golfsim data fetch {card.name}" for card in content.cards if card.kind == "fetched"),
        shlex.join(again),
        f"golfsim status results --same {AGAIN}",
    ]


def _commands(content: Content) -> list[str]:
    version = f"golfsim {content.packages[lock.GOLFSIM].version}"
    install = "" if content.wheel else f" If pip does not find {version}, install it from its source before that."
    return [
        "## Commands",
        f"In this folder.{install}",
        "\n".join(["```sh", *commands(content), "```"]),
        "The last command compares all rows. It prints “the same rows” and ends with 0, or prints the first difference "
        "and ends with 1.",
        f"`golfsim report {AGAIN} --out {AGAIN}.html` writes the page of the repeated runs.",
    ]


def _data(content: Content) -> list[str]:
    lines = [line for card in content.cards for line in _of_card(card)]
    lines += [line for path in content.experiment.data for line in _of_file(content.experiment, path)]
    public = ", except the public sets that the wheel of golfsim contains" if content.wheel else ""
    return ["## Data", f"Records are not part of this folder{public}.", "\n".join(lines)] if lines else []


def _of_card(card: Card) -> Iterable[str]:
    yield f"- {card.title} (`{card.name}`). {HOW[card.kind]} Source: {card.source}. Licence: {card.licence}."
    for file in card.files:
        if "sha256" in file:
            yield f"    - `{file['name']}`, SHA-256 `{file['sha256']}`"


def _of_file(experiment: Experiment, path: Path) -> Iterable[str]:
    yield f"- a file of the authors. Obtain it from them, and store it as `{experiment.place(path)}`."
    yield f"    - `{path.name}`, {readable(path.stat().st_size)}, SHA-256 `{checksum(path)}`"
