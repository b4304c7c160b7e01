"""Commands that run a scenario and show the state of its runs: run, status."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from golfsim.cli.common import show, writing
from golfsim.cli.options import Code, File, Json, Set
from golfsim.core.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from golfsim.scenario.model import Scenario
    from golfsim.scenario.tables import PlotConfig

LONGEST_NAME = 150  # bytes of the name of a figure


def run(
    file: File,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results. Default: results/NAME (the name of the file).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of worker processes. Default: one per core.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads per worker. Default: cores divided by workers.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address of a Dask scheduler, e.g. tcp://node1:8786. “local” starts one here."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and estimate time and memory, without running.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Repeat runs that are complete.")] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Time between checkpoints of a run.")
    ] = 180,
    paranoid: Annotated[
        bool,
        typer.Option("--paranoid", help="Check invariants after each cycle, and every index as --debug does."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Check every index of compiled kernels. Use it while you develop a protocol."),
    ] = False,
    allow_code: Code = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Run a scenario: execute the runs that are not complete yet, write their logs and draw the figure.

    The number of workers and threads does not change any result. An interrupted run resumes from its checkpoint.
    """
    if debug or paranoid:
        _check_indices(debug)
    from golfsim.runs import batch, progress, single
    from golfsim.runs.interrupt import listening
    from golfsim.scenario.model import Scenario
    from golfsim.sim import plot_check

    scenario = Scenario.load(file, set_, allow_code=allow_code)
    folder = out or Path("results") / file.stem
    how = batch.Execution(workers, threads, scheduler, force or paranoid or debug, checkpoint_every, paranoid)
    if dry_run:
        from golfsim.runs import dry_run as estimate

        return show(estimate.of(scenario, folder, how), json_, estimate.text)
    if json_:
        raise UserError("--json requires --dry-run", hint="golfsim status DIR --json shows the state of all runs")
    with single.telling(scenario):
        plot_check.check(scenario)
    _import_meanwhile(scenario.plot)
    with listening() as interrupt:
        made = batch.run(scenario, folder, how, progress.for_this_output(), interrupt)
    if interrupt.asked:
        print(f"interrupted; complete runs are in {folder}; the same command resumes the others", file=sys.stderr)
        raise typer.Exit(130)
    frame = made.frame()
    figure = _draw(scenario, frame, folder) if frame is not None else None
    if not made.outcomes:
        print(_nothing_to_do(len(made.runs), figure))
    print(f"results in {folder}")
    if made.failures:
        print(made.complaint(), file=sys.stderr)
        raise typer.Exit(1)


def _check_indices(asked: bool) -> None:
    """Let kernels check every index, here and in workers; they must not be compiled yet."""
    if "golfsim.core.kernels" not in sys.modules:
        os.environ["GOLFSIM_DEBUG"] = "1"
    elif asked and os.environ.get("GOLFSIM_DEBUG") != "1":
        raise UserError("kernels are loaded already", hint="set GOLFSIM_DEBUG=1 before golfsim is imported")


def _import_meanwhile(plot: PlotConfig) -> None:
    """Import what a figure needs in a separate thread: kernels release the interpreter lock."""

    def imports() -> None:
        with suppress(Exception):  # the error is reported when the module is used
            for name in ("pandas", "golfsim.report.figures", "matplotlib.pyplot", "scipy.special", "seaborn"):
                importlib.import_module(name)

    if plot.kind != "none":
        threading.Thread(target=imports, name="golfsim imports", daemon=True).start()


def _nothing_to_do(runs: int, figure: Path | None) -> str:
    what = "the run of this scenario is" if runs == 1 else f"all {runs} runs of this scenario are"
    done = f"nothing to do: {what} complete (--force repeats {'it' if runs == 1 else 'them'})"
    return f"{done}\nfigure in {figure}" if figure else done


def _draw(scenario: Scenario, frame: pd.DataFrame, folder: Path) -> Path | None:
    """Draw the figure of a scenario and return its file, or None if there is nothing to draw."""
    plot = scenario.plot
    if plot.kind != "none":
        from golfsim.report import figures

        if plot.kind == "convergence" and plot.metric is None and not figures.has_usual(frame):
            return None
        with writing(folder):
            return figures.save(figures.of(plot, frame), folder, _picture(plot.kind, scenario.options))[0]
    return None


def _picture(kind: str, options: tuple[str, ...]) -> str:
    """Return the name of the figure. Each combination of --set has its own, so that variants do not overwrite it."""
    text = ",".join([kind, *options])
    name = re.sub(r"[^\w.=,+-]+", "_", text).encode()[:LONGEST_NAME].decode(errors="ignore")
    exact = name == text
    return name if exact else f"{name}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the files of complete runs with their checksums.")
    ] = False,
    same: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="Compare all rows with those of another folder; end with 1 if they differ."),
    ] = None,
    json_: Json = False,
) -> None:
    """Show which runs are complete, running, failed or missing."""
    if same is not None:
        return _compare_rows(folder, same, json_)
    from golfsim.runs import status

    show(status.of(folder, verify), json_, lambda found: status.text(folder, found))


def _compare_rows(one: Path, other: Path, json_: bool) -> None:
    from golfsim.runs import same

    runs, found = same.differences(one, other)
    show({"runs": runs, "differences": found}, json_, lambda _: same.text(one, other, runs, found))
    if found:
        raise typer.Exit(1)
