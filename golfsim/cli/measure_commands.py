"""Commands that measure: audit (privacy), bench (speed)."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from golfsim.cli.options import File, Json, Set
from golfsim.core.errors import UserError, nearest


def audit(
    file: File,
    runs: Annotated[int, typer.Option(min=100, help="Number of runs on each of two neighbouring data sets.")] = 4000,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the noise. Default: the seed of the scenario.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999999, help="Confidence level of all lower bounds together.")
    ] = 0.95,
    every_point: Annotated[
        bool,
        typer.Option("--every-point", help="Audit all points of a sweep, including those that differ only in numbers."),
    ] = False,
    one_run: Annotated[
        bool, typer.Option("--one-run", help="Run the scenario once as it is, with canaries at many nodes.")
    ] = False,
    canaries: Annotated[
        int | None,
        typer.Option(min=40, help="With --one-run: number of canaries, at most one per node. Default: 1000."),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="everybody|node|'N colluders'",
            help="With --one-run: who observes: everybody (default), one node, or N nodes that collude.",
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Estimate an empirical lower bound on the ε of a private strategy, and compare it with the stated ε.

    The private layers run many times in a network of a few nodes, on data sets that differ in one record (or node).
    With --one-run the scenario runs once as it is, with a canary at each of many nodes. The exit status is 1 if a lower
    bound exceeds the stated ε.
    """
    from golfsim.audit import auditing
    from golfsim.audit import one_run as with_canaries
    from golfsim.runs import single
    from golfsim.scenario.model import Scenario

    if not one_run and (canaries is not None or view is not None):
        raise UserError("--canaries and --view belong to the audit with one run", hint="add --one-run", docs="privacy")
    scenario = Scenario.load(file, set_)
    how: dict[str, Any] = {"seed": seed, "confidence": confidence, "every_point": every_point}
    found: auditing.Audit | with_canaries.OneRun
    with single.telling(scenario):
        if one_run:
            found = with_canaries.audit(
                scenario, canaries=canaries or with_canaries.USUAL, view=view or with_canaries.EVERYBODY, **how
            )
        else:
            found = auditing.audit(scenario, runs=runs, **how)
    if json_:
        print(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        from rich.console import Console

        console = Console(highlight=False)
        if isinstance(found, with_canaries.OneRun):
            console.print(with_canaries.rendered(found))
            print(with_canaries.summary(found))
        else:
            console.print(auditing.rendered(found))
            print(auditing.summary(found))
    if found.broken:
        raise typer.Exit(1)


def bench(
    sections: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION]…", help="Sections to measure. Default: all but growth and large."),
    ] = None,
    json_: Json = False,
) -> None:
    """Measure the speed of golfsim on this machine, and compare it with minimal loops and with a memory copy."""
    from golfsim import bench as benchmark

    for name in sections or ():
        if name not in benchmark.SECTIONS:
            raise UserError(f"unknown section “{name}”", hint=nearest(name, benchmark.SECTIONS))
    rows = []
    for row in benchmark.measure(sections or benchmark.USUAL):
        rows.append(row)
        if not json_:
            print(benchmark.line(row), flush=True)
    if json_:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
