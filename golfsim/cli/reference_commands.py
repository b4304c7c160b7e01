"""Commands to look things up: schema, list, help."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from golfsim.cli import completion, manual, paging
from golfsim.cli.common import print_entries
from golfsim.cli.options import Json
from golfsim.core.errors import UserError, nearest


def schema() -> None:
    """Print the JSON schema of scenario files. Editors check and complete keys with it."""
    from golfsim.cli import scaffold

    print(scaffold.schema_text(), end="")


def list_(
    topic: Annotated[
        str | None,
        typer.Argument(help="Topic, e.g. protocols. Default: list the topics.", autocompletion=completion.topics),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Entry to show, e.g. golf. Default: all entries of the topic.",
            autocompletion=lambda ctx, incomplete: completion.named(ctx.params.get("topic"), incomplete),
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """List protocols, data sets, learners, churn models, splits, settings, scenarios or metrics."""
    entries = _listed(topic, name)
    if json_:
        return print(json.dumps(entries, indent=2, ensure_ascii=False))
    return _print_metrics(entries) if topic == "metrics" else print_entries(entries)


def _listed(topic: str | None, name: str | None) -> list[dict[str, Any]]:
    from golfsim.scenario import catalogue
    from golfsim.sim import metric_catalogue

    topics = catalogue.TOPICS | {"metrics": metric_catalogue.metrics}
    if topic is None:
        return catalogue.topics(topics)
    if topic not in topics:
        raise UserError(f"unknown topic “{topic}”", hint=nearest(topic, topics))
    entries = topics[topic]()
    if topic == "metrics" and name is not None and (found := metric_catalogue.find(name)):
        name = found.name  # “error.mean” is in the log, “error” in the list
    if name is not None and name not in (names := [entry["name"] for entry in entries]):
        raise UserError(f"“{name}” is not among the {topic}", hint=nearest(name, names))
    return [entry for entry in entries if name in (None, entry["name"])]


def _print_metrics(entries: list[dict[str, Any]]) -> None:
    """Print a table of metrics for each layer."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from golfsim.core.metrics import SUMMARY
    from golfsim.sim import metric_catalogue

    console = Console(highlight=False)
    for layer in dict.fromkeys(entry["layer"] for entry in entries):
        rows = [
            [metric_catalogue.shown(entry), *(entry[key] for key in ("about", "unit", "better"))]
            for entry in entries
            if entry["layer"] == layer
        ]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        name, unit = (max(len(row[place]) for row in rows) for place in (0, 2))
        table.add_column("name", width=min(max(name, 4), console.width // 3))
        table.add_column("meaning")
        table.add_column("unit", width=min(max(unit, 4), console.width // 5))
        table.add_column("better", width=6)
        for row in rows:
            table.add_row(*(Text(cell, overflow="fold") for cell in row))
        console.print(Text(layer, "bold"))
        console.print(Padding(table, (0, 0, 1, 4)))
    if any(entry["summary"] for entry in entries):
        print(f".* stands for {', '.join(SUMMARY)} over nodes")


def help_(
    page: Annotated[
        str | None, typer.Argument(help="Page to show. Default: a list of all pages.", autocompletion=completion.pages)
    ] = None,
    json_: Json = False,
) -> None:
    """Show a page of the manual; in a terminal with the program in $PAGER, or less."""
    if page is None:
        return print(json.dumps(manual.titles(), ensure_ascii=False)) if json_ else print_entries(manual.titles())
    text = manual.text_of(page)
    if json_ or not sys.stdout.isatty():
        return print(json.dumps({"page": page, "text": text}, ensure_ascii=False) if json_ else text, end="")
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    if not paging.in_terminal():
        return console.print(Markdown(text))
    with console.capture() as shown:
        console.print(Markdown(text))
    return paging.page(shown.get())
