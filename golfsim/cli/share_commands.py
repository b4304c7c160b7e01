"""Commands that hand results to other programs and people: export to trackers, pack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from golfsim.cli.common import writing
from golfsim.cli.options import Code, Set
from golfsim.core.words import counted

if TYPE_CHECKING:
    from golfsim.share.exported import Sent

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")]
Group = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the group of runs. Default: the name of the folder.")
]


def mlflow(
    folder: Folder,
    uri: Annotated[
        str, typer.Option(metavar="URI", help="Address of an MLflow server or database. Default: a local file.")
    ] = "sqlite:///mlflow.db",
    group: Group = None,
) -> None:
    """Copy the complete runs to MLflow; the group becomes an experiment."""
    from golfsim.share import exported, to_mlflow

    _report(to_mlflow.export(exported.of(folder, group), uri), f"MLflow at {uri}")


def wandb(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="Folder in which the folder “wandb” is written.")] = Path("."),
    group: Group = None,
) -> None:
    """Write the complete runs as offline runs of Weights & Biases. Nothing is sent; “wandb sync” sends them."""
    from golfsim.share import exported, to_wandb

    with writing(out):
        sent = to_wandb.export(exported.of(folder, group), out)
    _report(sent, str(out / "wandb"))
    print(f"to send them: wandb sync {out / 'wandb' / to_wandb.ALL}")


def tensorboard(
    folder: Folder,
    logdir: Annotated[Path, typer.Option(help="Folder of event files, for tensorboard --logdir.")] = Path("runs"),
    group: Group = None,
) -> None:
    """Write the complete runs as event files of TensorBoard, one folder per run."""
    from golfsim.share import exported, to_tensorboard

    with writing(logdir):
        sent = to_tensorboard.export(exported.of(folder, group), logdir)
    _report(sent, str(logdir))


def _report(sent: Sent, where: str) -> None:
    known = f"; {counted(sent.known, 'run')} of this folder existed before" if sent.known else ""
    print(f"{counted(sent.new, 'new run')} in {where}{known}")


def pack(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Zip file to write. Default: NAME.zip (the name of DIR).")] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scenario file of the runs. Default: the one that run.json names."),
    ] = None,
    author: Annotated[list[str], typer.Option(metavar="NAME", help="Author, for the citation. Can be repeated.")] = [],  # noqa: B006 - typer wants a plain default
    licence: Annotated[
        str | None,
        typer.Option("--license", metavar="SPDX", help="Licence of scenario and results, e.g. CC-BY-4.0."),
    ] = None,
    wheel: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Wheel of golfsim to include, so that no source is needed.")
    ] = None,
    allow_code: Code = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Pack results, scenario, page, versions and a README with commands into one zip, for an archive or a review.

    Records, checkpoints and caches are not packed. Incomplete or damaged results are refused.
    """
    from golfsim.share import pack
    from golfsim.share.experiment import Asked

    target = out or Path(f"{folder.resolve().name}.zip")
    with writing(target):
        asked = Asked(folder, scenario, tuple(set_), allow_code)
        files = pack.write(asked, target, pack.Terms(tuple(author), licence, wheel))
    print(f"{counted(files, 'file')} in {target}")
