"""The scenario reference as a page, from what `golfsim list` explains: it cannot fall behind the program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from golfsim.scenario import catalogue

HEAD = """\
# Scenario reference

All tables and keys of a scenario file, from the program itself: `golfsim list` says the same in the terminal, and
`golfsim schema` says it to an editor. A key that is neither required nor has a default may be left out.

A **path** names a key in `--set`, `[sweep]` and `[[case]]`: its first word is a layer's name, else a top-level key
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
    "settings": "The tables of a file. `protocol` has what every layer has.",
    "protocols": "`use = …` of a `[[protocol]]`.",
    "learners": "`learner = …` of Golf and random walks.",
    "churn": "`kind = …` of `[churn]` or of several `[[churn]]`.",
    "splits": "`split = { kind = … }` of `[nodes]`.",
    "sizes": "`records = { kind = … }` of `[nodes]`.",
    "datasets": "`set = …` of `[data]`.",
    "scenarios": "They run by name: `golfsim run quickstart`.",
}


def page() -> str:
    """The whole page."""
    sections = (part for topic in TITLES for part in _section(topic))
    return "\n".join([HEAD, *sections]) + "\n"


def write(path: Path, text: str) -> None:
    """Write a generated page, unless the file has this text already: then nothing has to be built again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _section(topic: str) -> Iterable[str]:
    yield f"## {TITLES[topic]}\n\n{ABOUT[topic]}\n"
    entries = catalogue.TOPICS[topic]()
    if not any(entry["settings"] for entry in entries):
        yield table(("name", "what it is"), [(f"`{e['name']}`", e["about"]) for e in entries])
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
    """Return a table in Markdown; a bar inside a cell would end it."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
