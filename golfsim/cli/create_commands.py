"""Commands that create files: data fetch, new protocol, new learner, new scenario."""

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
    """Download a data set into the cache and verify its checksum. An interrupted download resumes.

    A file without a published checksum is compared with its first download.
    """
    from golfsim.data import fetch as fetching
    from golfsim.data.cards import card_of
    from golfsim.data.first_download import notes
    from golfsim.runs import progress

    with progress.downloading() as told:
        path = fetching.fetch(name, told)
    print("\n".join([f"{name} is in {path}", *notes(card_of(name))]))


def new_protocol(
    name: Annotated[str, typer.Argument(help="Name of the protocol, e.g. push_sum.")],
    kind: Annotated[
        str,
        typer.Option(
            metavar="|".join(completion.KINDS),
            help="Template to start from: nodes that average numbers, an overlay, or nodes that learn.",
            autocompletion=completion.kinds,
        ),
    ] = completion.KINDS[0],
    into: Into = Path(),
) -> None:
    """Create a small working protocol with a scenario and a test."""
    from golfsim.cli import scaffold

    with writing(into):
        _report(scaffold.new_protocol(name, into, kind), into / f"test_{name}.py")
    print(f"next: golfsim run {into / name}.toml; then edit {into / name}.py (golfsim help protocols)")


def new_learner(
    name: Annotated[str, typer.Argument(help="Name of the learner, e.g. hinge_with_bias.")],
    torch: Annotated[bool, typer.Option("--torch", help="Write a PyTorch module instead of kernels.")] = False,
    into: Into = Path(),
) -> None:
    """Create a small working learner with a scenario and a test."""
    from golfsim.cli import scaffold

    with writing(into):
        _report(scaffold.new_learner(name, into, torch), into / f"test_{name}.py")
    page = "torch" if torch else "learners"
    print(f"next: golfsim run {into / name}.toml; then edit {into / name}.py (golfsim help {page})")


def new_scenario(
    name: Annotated[str, typer.Argument(help="Name of the scenario, e.g. my_study.")], into: Into = Path()
) -> None:
    """Create a small working scenario with a test."""
    from golfsim.cli import scaffold

    with writing(into):
        _report(scaffold.new_scenario(name, into), into / f"test_{name}.py")
    print(f"next: golfsim run {into / name}.toml; then edit it (golfsim help scenarios)")


def _report(written: list[Path], test: Path) -> None:
    print("written: " + ", ".join(str(path) for path in written))
    print(f"test it: pytest {test}")
