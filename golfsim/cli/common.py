"""Steps that several commands share: load a scenario, print, write files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from golfsim.scenario.model import Scenario

T = TypeVar("T")


def loaded(file: Path, changes: list[str], allow_code: bool) -> Scenario:
    """Load a scenario, and print a note about each file of the user's own code that it runs."""
    from golfsim.runs import single
    from golfsim.scenario.model import Scenario

    scenario = Scenario.load(file, changes, allow_code=allow_code)
    for path in scenario.code_files():
        print(*single.code_notes(path), sep="\n", file=sys.stderr)
    return scenario


def show(found: T, as_json: bool, text: Callable[[T], str]) -> None:
    """Print what was found, as JSON for programs or as text."""
    print(json.dumps(found, indent=2, ensure_ascii=False) if as_json else text(found))


def print_entries(entries: list[dict[str, Any]]) -> None:
    """Print names and explanations; where there are settings, one paragraph per name."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)
    if not any(entry["settings"] for entry in entries):
        table = Table.grid(padding=(0, 2, 0, 0))
        for entry in entries:
            table.add_row(Text(entry["name"], "bold"), Text(entry["about"]))
        return console.print(table)
    for entry in entries:
        console.print(Text.assemble((entry["name"], "bold"), "  ", entry["about"]))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(max_width=max(console.width * 3 // 10, 20))
        for setting in entry["settings"]:
            table.add_row(*(Text(word) for word in (setting["name"], _type_of(setting), setting["about"])))
        console.print(Padding(table, (0, 0, 1, 4)))


def _type_of(setting: dict[str, Any]) -> str:
    default = f", default {json.dumps(setting['default'], ensure_ascii=False)}" if "default" in setting else ""
    return f"{setting['type']}{', required' if setting['required'] else default}"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report a failure to write the path as a message."""
    from golfsim.runs import single

    try:
        yield
    except OSError as error:
        raise single.cannot_write(path, error) from None
