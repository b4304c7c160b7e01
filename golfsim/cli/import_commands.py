"""Commands that translate configurations of other simulators: import peersim."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from golfsim.cli import completion
from golfsim.cli.common import writing
from golfsim.core.errors import UserError


def peersim(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Configuration of PeerSim or GoLF.", autocompletion=completion.configurations
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Scenario file to write. Default: print the scenario.")
    ] = None,
    define: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help="Value of a placeholder such as ${NAME}, or of a property instead of the one of the file. Repeatable.",
        ),
    ] = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Translate a configuration of PeerSim or GoLF into a scenario, and report each line that is left out."""
    from golfsim.importing.peersim import translate

    if out is not None and out.exists():
        raise UserError(f"{out} already exists", hint="choose another name for --out, or remove the file")
    folder = (out.parent if out is not None else Path()).absolute()
    done = translate(_text(file), str(file), _defined(define), _places(file, folder))
    if out is None:
        print(done.text, end="")
        print(f"{file}: {done.summary()}", file=sys.stderr)
        return
    with writing(out):
        out.write_text(done.text, encoding="utf-8")
    print(*done.notes, sep="\n", end="\n" * bool(done.notes))
    print(f"{file}: {done.summary()}", f"written: {out}", f"next: golfsim check {out}", sep="\n")


def _text(file: Path) -> str:
    """Return the content of a file; PeerSim reads it in the encoding of the system."""
    from golfsim.core.paths import unreadable

    if why := unreadable(file):
        raise UserError(f"{file}: {why}", hint="expected a configuration file of PeerSim")
    content = file.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _defined(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--define {one}: expected NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _places(file: Path, folder: Path) -> Callable[[str], str | None]:
    """Return a function that finds a data file, and gives its path from a folder.

    The paths of a configuration begin at the folder in which the simulator ran: it may be this one, that of the
    configuration, or one above.
    """
    here = file.absolute().parent

    def place(name: str) -> str | None:
        for start in (Path().absolute(), here, *here.parents):
            if (start / name).is_file():
                return Path(os.path.relpath(start / name, folder)).as_posix()
        return None

    return place
