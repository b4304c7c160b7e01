"""Write a scenario as TOML, with the line of the configuration next to each setting."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

WIDTH = 100
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass
class Table:
    """A table of a scenario: its settings in order, and for each where it comes from."""

    header: str
    settings: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, value: Any, origin: str = "") -> None:
        """Add a setting, or replace it."""
        self.settings[key] = value
        self.origins[key] = origin

    def lines(self) -> list[str]:
        """Return the table as lines of TOML."""
        found = [f"[{self.header}]"] if self.header else []
        for key, value in self.settings.items():
            origin = self.origins[key]
            found.append(f"{key} = {value_of(value)}" + (f"  # {plain(origin)}" if origin else ""))
        return found


def value_of(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {value_of(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(value_of, value)) + "]"
    return repr(value)


def plain(text: str) -> str:
    """Return text that may stand in a comment."""
    return CONTROL.sub("?", text)


def comments(paragraphs: Iterable[str]) -> list[str]:
    """Return paragraphs as comments, each with further lines indented."""
    found = []
    for text in paragraphs:
        wrapped = textwrap.wrap(plain(text), WIDTH, subsequent_indent="    ", break_on_hyphens=False) or [""]
        found += [f"# {line}".rstrip() for line in wrapped]
    return found


def document(head: Iterable[str], tables: Iterable[Table]) -> str:
    """Return a complete file."""
    parts = ["\n".join(comments(head)), *("\n".join(table.lines()) for table in tables if table.settings)]
    return "\n\n".join(parts) + "\n"
