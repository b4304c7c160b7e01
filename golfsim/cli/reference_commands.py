"""Commands to look things up: schema, list, help."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from golfsim.cli import completion, manual
from golfsim.cli.common import print_entries
from golfsim.cli.options import Json
from golfsim.core.errors import UserError, nearest


def schema() -> None:
    """Print the JSON schema of scenario files. Editors use it to check and complete keys (`#:schema` line)."""
    from golfsim.cli import scaffold

    print(scaffold.schema_text(), end="")


def list_(
    topic: Annotated[
        str | None, typer.Argument(help="Topic to list. Default: the topics.", autocompletion=completion.topics)
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show this entry only.",
            autocompletion=lambda ctx, incomplete: completion.named(ctx.params.get("topic"), incomplete),
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """List protocols, data sets, learners, churn models, splits or settings, with their keys."""
    entries = _listed(topic, name)
    print(json.dumps(entries, indent=2, ensure_ascii=False)) if json_ else print_entries(entries)


def _listed(topic: str | None, name: str | None) -> list[dict[str, Any]]:
    from golfsim.scenario import catalogue

    if topic is None:
        return catalogue.topics()
    if topic not in catalogue.TOPICS:
        raise UserError(f"unknown topic “{topic}”", hint=nearest(topic, catalogue.TOPICS))
    entries = {entry["name"]: entry for entry in catalogue.TOPICS[topic]()}
    if name is not None and name not in entries:
        raise UserError(f"“{name}” is not among the {topic}", hint=nearest(name, entries))
    return [entry for entry in entries.values() if name in (None, entry["name"])]


def help_(
    page: Annotated[
        str | None, typer.Argument(help="Page to show. Default: a list of all pages.", autocompletion=completion.pages)
    ] = None,
    json_: Json = False,
) -> None:
    """Show a page of the manual."""
    if page is None:
        return print(json.dumps(manual.titles(), ensure_ascii=False)) if json_ else print_entries(manual.titles())
    text = manual.text_of(page)
    if json_ or not sys.stdout.isatty():
        return print(json.dumps({"page": page, "text": text}, ensure_ascii=False) if json_ else text, end="")
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
