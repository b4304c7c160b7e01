"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from golfsim.cli import completion

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Scenario file, or the name of a shipped scenario (golfsim list scenarios).",
        autocompletion=completion.files,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Code = Annotated[bool, typer.Option("--allow-code", help="Allow protocol files outside the folder of the scenario.")]
Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a key, e.g. --set cycles=50. Can be repeated.",
        autocompletion=completion.settings,
    ),
]

Results = Annotated[
    list[Path],
    typer.Argument(metavar="RESULTS…", help="Folders of results. If there are several, each folder is one strategy."),
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Key that distinguishes strategies: a swept key, “case” or “layer”. Default: the one that varies.",
    ),
]
Target = Annotated[
    float | None,
    typer.Option(metavar="VALUE", help="Also report cycles, messages and bytes until the metric reaches this value."),
]
