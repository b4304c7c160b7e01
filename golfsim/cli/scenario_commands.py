"""Commands about a scenario before it runs: check, describe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from golfsim.cli import completion, manual
from golfsim.cli.common import loaded
from golfsim.cli.options import Code, File, Json, Set
from golfsim.core.errors import UserError


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Scenario files, or names of shipped scenarios.", autocompletion=completion.files
        ),
    ],
    json_: Json = False,
    allow_code: Code = False,
) -> None:
    """Check scenario files without running them."""
    found = []
    for file in files:
        found.append(_checked(file, allow_code))
        if not json_:
            _print_checked(found[-1])
    if json_:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    if not all(one["fine"] for one in found):
        raise typer.Exit(2)


def _checked(file: Path, allow_code: bool) -> dict[str, Any]:
    """Check a file. Return whether it is fine; if not, all problems and the page of the manual about them."""
    from golfsim.runs import single
    from golfsim.scenario import sweep

    try:
        scenario = loaded(file, [], allow_code)
        with single.telling(scenario):
            return {"file": str(file), "fine": True, "points": len(sweep.points(scenario))}
    except UserError as error:
        problems = getattr(error, "messages", [str(error)])
        return {"file": str(file), "fine": False, "problems": problems, "help": error.docs}


def _print_checked(one: dict[str, Any]) -> None:
    if one["fine"]:
        print(f"{one['file']}: fine" + (f", {one['points']} points" if one["points"] > 1 else ""))
    else:
        print("\n".join(one["problems"]) + manual.more(one["help"]), file=sys.stderr)


def describe(
    file: File,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the figure. Default: results/NAME (the name of the file).")
    ] = None,
    allow_code: Code = False,
    json_: Json = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Show how records are distributed over nodes, and how many nodes are online in each cycle, without running."""
    from golfsim.cli import preview as describing
    from golfsim.runs import single

    scenario = loaded(file, set_, allow_code)
    folder = out or Path("results") / file.stem
    with single.telling(scenario):
        found = describing.describe(scenario)
    if json_:
        return print(json.dumps(describing.figures(found), ensure_ascii=False))
    print(describing.text(found))
    single.prepare(folder)
    describing.save(found, folder / "describe.png")
    print(f"figure in {folder / 'describe.png'}")
