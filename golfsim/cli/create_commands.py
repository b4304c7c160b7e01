"""Commands that create files: data fetch, new protocol, new scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from golfsim.cli import completion
from golfsim.cli.common import writing

Into = Annotated[Path, typer.Option(metavar="DIR", help="Folder to write to.")]


def fetch(
    name: Annotated[
        str, typer.Argument(help="Data set that is not bundled, e.g. mnist.", autocompletion=completion.sets)
    ],
) -> None:
    """Download a data set into the cache and verify its checksum. An interrupted download resumes."""
    from golfsim.data import fetch as fetching
    from golfsim.runs import progress

    with progress.downloading() as told:
        path = fetching.fetch(name, told)
    print(f"{name} is in {path}")


def new_protocol(
    name: Annotated[str, typer.Argument(help="Name of the protocol, e.g. push_sum.")], into: Into = Path()
) -> None:
    """Create a small working protocol with a scenario and a test."""
    _write_new("protocol", name, into)
    print(f"next: golfsim run {into / name}.toml; then edit {into / name}.py (golfsim help protocols)")


def new_scenario(
    name: Annotated[str, typer.Argument(help="Name of the scenario, e.g. my_study.")], into: Into = Path()
) -> None:
    """Create a small working scenario with a test."""
    _write_new("scenario", name, into)
    print(f"next: golfsim run {into / name}.toml; then edit it (golfsim help scenarios)")


def _write_new(kind: str, name: str, folder: Path) -> None:
    from golfsim.cli import scaffold

    with writing(folder):
        written = scaffold.new(kind, name, folder)
    print("written: " + ", ".join(str(path) for path in written))
    print(f"test it: pytest {folder / f'test_{name}.py'}")
