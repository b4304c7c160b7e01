"""The application: all commands, in the order of `golfsim --help`.

The commands import heavy modules late, so that `golfsim --help` answers at once.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from golfsim._version import __version__
from golfsim.cli import (
    create_commands,
    export_commands,
    import_commands,
    manual,
    measure_commands,
    plot_commands,
    reference_commands,
    results_commands,
    run_commands,
    scenario_commands,
    share_commands,
)
from golfsim.cli.flags import Command, Group
from golfsim.core.errors import UserError

app = typer.Typer(
    cls=Group,
    help="Simulate gossip protocols, draw convergence curves, and compare strategies and their privacy.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(cls=Group, help="Manage data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")
new_app = typer.Typer(
    cls=Group, help="Create a protocol, a learner or a scenario of your own, with its test.", no_args_is_help=True
)
app.add_typer(new_app, name="new")
export_app = typer.Typer(cls=Group, help="Copy complete runs to an experiment tracker.", no_args_is_help=True)
app.add_typer(export_app, name="export")
import_app = typer.Typer(cls=Group, help="Translate configurations of other simulators.", no_args_is_help=True)
app.add_typer(import_app, name="import")


def _version(asked: bool) -> None:
    if asked:
        print(f"golfsim {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


for command in (
    run_commands.run,
    run_commands.status,
    results_commands.compare,
    results_commands.report,
    plot_commands.plot,
    results_commands.reproduce,
    share_commands.pack,
    scenario_commands.check,
    scenario_commands.describe,
    export_commands.export_overlay,
    export_commands.export_published,
    reference_commands.schema,
):
    app.command()(command)
app.command(name="list")(reference_commands.list_)
app.command()(measure_commands.audit)
app.command(name="help")(reference_commands.help_)
app.command()(measure_commands.bench)
data_app.command()(create_commands.fetch)
new_app.command(name="protocol")(create_commands.new_protocol)
new_app.command(name="learner")(create_commands.new_learner)
new_app.command(name="scenario")(create_commands.new_scenario)
for tracker in (share_commands.mlflow, share_commands.wandb, share_commands.tensorboard):
    export_app.command()(tracker)
import_app.command()(import_commands.peersim)
for group in (app, data_app, new_app, export_app, import_app):
    for registered in group.registered_commands:
        registered.cls = Command


def main() -> None:
    """Run the console script. A mistake of the user ends in a message, never in a traceback."""
    warnings.showwarning = _warn  # type: ignore[assignment]
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a stream of a test, or none
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app(prog_name="golfsim")
        sys.stdout.flush()
    except UserError as error:
        _fail(f"{'' if error.placed else 'golfsim: '}{error}{manual.more(error.docs)}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _leave_output()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _leave_output()
        _fail(f"golfsim: cannot write: {error.strerror}")
    except Exception as error:
        from golfsim.runs import single

        if single.in_users_code(error) is None:
            raise
        _fail(f"{single.explained(error)}{manual.more('protocols')}")


def _warn(message: Any, category: type[Warning], *place: Any) -> None:
    """Print a warning of golfsim in one line, without the place in the code."""
    if issubclass(category, UserWarning):
        print(f"warning: {message}", file=sys.stderr)


def _leave_output() -> None:
    """Write nothing more to an output that takes nothing, also not at the end of the program."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)
