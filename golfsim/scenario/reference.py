"""Generate the scenario reference from the texts of `golfsim list`, so that it always agrees with the program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from golfsim.scenario import catalogue

HEAD = """\
# Scenario reference

All tables and keys of a scenario file. This page is generated from the program: `golfsim list` shows the same texts in
the terminal, and `golfsim schema` writes them for editors. A key that is not required and has no default is optional.

A **path** names a key in `--set`, `[sweep]` and `[[case]]`. Its first word is the name of a layer or a top-level key
(`learning.learner`, `transport.loss`, `churn.0.leave`).
"""
TITLES = {
    "settings": "Tables",
    "protocols": "Protocols",
    "learners": "Update rules",
    "churn": "Churn models",
    "splits": "Splits",
    "sizes": "Distributions of sizes",
    "datasets": "Data sets",
    "scenarios": "Shipped scenarios",
}
ABOUT = {
    "settings": "The tables of a scenario file. `protocol` lists the settings that all layers share.",
    "protocols": "The values of `use = …` in `[[protocol]]`.",
    "learners": "The values of `learner = …` of Golf and random walks.",
    "churn": "The values of `kind = …` in `[churn]`, or in several `[[churn]]` tables.",
    "splits": "The values of `split = { kind = … }` in `[nodes]`.",
    "sizes": "The values of `records = { kind = … }` in `[nodes]`.",
    "datasets": "The values of `set = …` in `[data]`.",
    "scenarios": "Run a shipped scenario by its name: `golfsim run quickstart`.",
}


def page() -> str:
    """Return the complete page."""
    sections = (part for topic in TITLES for part in _section(topic))
    return "\n".join([HEAD, *sections]) + "\n"


def write(path: Path, text: str) -> None:
    """Write a generated page, unless the file is up to date: an unchanged file is not built again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _section(topic: str) -> Iterable[str]:
    yield f"## {TITLES[topic]}\n\n{ABOUT[topic]}\n"
    entries = catalogue.TOPICS[topic]()
    if not any(entry["settings"] for entry in entries):
        yield table(("name", "description"), [(f"`{e['name']}`", e["about"]) for e in entries])
        return
    for entry in entries:
        yield f"### {_heading(topic, entry['name'])}\n\n{_sentence(entry['about'])}\n"
        if entry["settings"]:
            yield table(("key", "value", "meaning"), [_row(setting) for setting in entry["settings"]])


def _heading(topic: str, name: str) -> str:
    if topic != "settings":
        return f"`{name}`"
    return "The top level" if name.startswith("(") else f"`[{name}]`"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _row(setting: dict[str, Any]) -> tuple[str, str, str]:
    kind = setting["type"]
    if setting["required"]:
        kind += ", **required**"
    elif "default" in setting:
        kind += f"; default `{json.dumps(setting['default'], ensure_ascii=False)}`"
    return f"`{setting['name']}`", kind, setting["about"]


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown; bars inside cells are escaped."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
