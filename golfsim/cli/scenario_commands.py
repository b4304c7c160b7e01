"""Commands about a scenario before it runs: check, describe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from golfsim.cli import completion, manual
from golfsim.cli.common import loaded
from golfsim.cli.options import Code, File, Json, Set
from golfsim.core.errors import UserError

if TYPE_CHECKING:
    from golfsim.scenario.model import Scenario


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Scenario files, or names of shipped scenarios.", autocompletion=completion.files
        ),
    ],
    json_: Json = False,
    allow_code: Code = False,
    data: Annotated[bool, typer.Option(help="Also read the data, and place the records on nodes.")] = True,
) -> None:
    """Check scenario files, and the data that they name, without running them."""
    found = []
    for file in files:
        found.append(_checked(file, allow_code, data))
        if not json_:
            _print_checked(found[-1])
    if json_:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    if not all(one["fine"] for one in found):
        raise typer.Exit(2)


def _checked(file: Path, allow_code: bool, data: bool) -> dict[str, Any]:
    """Check a file. Return whether it is fine; if not, all problems and the page of the manual about them."""
    from golfsim.comparing.planning import too_few_runs
    from golfsim.runs import single
    from golfsim.scenario import sweep
    from golfsim.sim import plot_check

    try:
        scenario = loaded(file, [], allow_code)
        for path in scenario.code_files():
            print(*single.code_notes(path), sep="\n", file=sys.stderr)
        with single.telling(scenario):
            points = sweep.points(scenario)
            plot_check.check(scenario)
            notes = _check_data([point.scenario for point in points]) if data else []
            notes += [note] if (note := too_few_runs(points)) else []
            return {"file": str(file), "fine": True, "points": len(points), "notes": notes}
    except UserError as error:
        problems = getattr(error, "messages", [str(error)])
        return {"file": str(file), "fine": False, "problems": problems, "help": error.docs}


def _check_data(scenarios: list[Scenario]) -> list[str]:
    """Read, split and place the records of scenarios; return notes about sets that are not here."""
    from golfsim.data import loading
    from golfsim.data.placement import place

    done, notes = set(), dict[str, None]()
    for scenario in scenarios:
        asked = scenario.data.model_dump_json() + scenario.nodes.model_dump_json() if scenario.data else ""
        if scenario.data is None or asked in done:
            continue
        done.add(asked)
        kind = loading.kind(scenario.data)
        if kind == "missing":
            notes[f"“{scenario.data.set}” has not been fetched, so its records were not checked"] = None
        elif kind != "generated":
            found = loading.load(scenario.data, scenario.seed, scenario.folder)
            place(scenario.nodes, found.y, found.classes, found.columns, scenario.seed)
    return list(notes)


def _print_checked(one: dict[str, Any]) -> None:
    if one["fine"]:
        print(f"{one['file']}: fine" + (f", {one['points']} points" if one["points"] > 1 else ""))
        print(*(f"  {note}" for note in one["notes"]), sep="\n", end="\n" * bool(one["notes"]))
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
