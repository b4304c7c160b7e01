"""Commands that export the state of a simulation after a cycle: export-overlay, export-published."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from golfsim.cli.common import loaded, writing
from golfsim.cli.options import Code, File, Set
from golfsim.core.words import counted

if TYPE_CHECKING:
    from golfsim.scenario.model import Scenario
    from golfsim.sim.simulation import Simulation

T = TypeVar("T")


def export_overlay(
    file: File,
    out: Annotated[Path, typer.Option(help="GraphML file to write.")] = Path("overlay.graphml"),
    layer: Annotated[str | None, typer.Option(help="Overlay to export. Default: the first one.")] = None,
    cycle: Annotated[
        int | None, typer.Option(min=1, help="Cycle after which to export. Default: the last one.")
    ] = None,
    allow_code: Code = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Run a scenario up to a cycle and export its overlay as GraphML."""
    from golfsim.sim import overlay_stats

    scenario = loaded(file, set_, allow_code)
    simulation, overlay = run_to(scenario, cycle, lambda run: overlay_stats.find(run.layers, layer, run.world))
    with writing(out):
        links = overlay_stats.write_graphml(overlay, simulation.world, out)
    print(f"{counted(links, 'link')} after cycle {simulation.world.cycle} in {out}")


def export_published(
    file: File,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("published.parquet"),
    layer: Annotated[str | None, typer.Option(help="Layer to export. Default: the only publishing layer.")] = None,
    cycle: Annotated[int, typer.Option(min=1, help="Cycle after which to export.")] = 1,
    allow_code: Code = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Run a scenario up to a cycle and export the published records with their guarantee.

    The noise comes from a new secret of the operating system, not from the seed, so an export cannot be repeated. Every
    further export of the same records spends ε again.
    """
    from golfsim.cli import export

    simulation, published = run_to(loaded(file, set_, allow_code), cycle, lambda run: export.prepare(run, layer))
    with writing(out):
        rows = export.write(simulation, published, simulation.features, out)
    print(f"{counted(rows, 'published vector')} in {out}: {published.guarantee()}")
    for name, column in zip(simulation.features, export.column_names(simulation.features), strict=True):
        if column != name:
            print(f"feature “{name}” is column “{column}”", file=sys.stderr)


def run_to(scenario: Scenario, cycle: int | None, find: Callable[[Simulation], T]) -> tuple[Simulation, T]:
    """Run a scenario up to a cycle (None: the last one). Return it with what `find` found before the first cycle."""
    from golfsim.core.memory import available
    from golfsim.runs import memory_forecast, single
    from golfsim.sim.simulation import Simulation

    with single.telling(scenario):
        if (most := memory_forecast.predicted(scenario)) is not None and most > available():
            raise memory_forecast.too_large(most)
        simulation = Simulation(scenario)
        found = find(simulation)
        for done in simulation:
            if done == cycle:
                break
    return simulation, found
