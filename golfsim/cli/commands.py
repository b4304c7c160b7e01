"""The commands. Heavy imports are late: `golfsim --help` answers at once."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from golfsim._version import __version__
from golfsim.cli import completion, manual
from golfsim.core.errors import UserError, nearest

if TYPE_CHECKING:
    import pandas as pd

    from golfsim.scenario.model import Scenario
    from golfsim.scenario.tables import PlotConfig
    from golfsim.sim.simulation import Simulation

T = TypeVar("T")

app = typer.Typer(
    help="Simulate gossip protocols, draw convergence curves, and compare strategies for privacy.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Manage data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")
new_app = typer.Typer(help="Create a protocol or a scenario of your own, with its test.", no_args_is_help=True)
app.add_typer(new_app, name="new")

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
    list[str], typer.Option("--set", metavar="PATH=VALUE", help="Change a key of the scenario, e.g. --set cycles=50.")
]

Results = Annotated[list[Path], typer.Argument(metavar="RESULTS…", help="Folders of results.")]
By = Annotated[
    str | None, typer.Option(metavar="KEY", help="Key that distinguishes strategies: a swept key, “case” or “layer”.")
]
Target = Annotated[
    float | None,
    typer.Option(metavar="VALUE", help="Also report cycles, messages and bytes until the metric reaches this value."),
]


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


@app.command()
def run(
    file: File,
    out: Annotated[Path | None, typer.Option(help="Folder of the results. Default: results/NAME.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of worker processes. Default: one per core.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads per worker. Default: cores divided by workers.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler, e.g. tcp://node1:8786; “local” starts one."),
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
        bool, typer.Option("--paranoid", help="Check invariants after each cycle. Slow; repeats all runs.")
    ] = False,
    allow_code: Code = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Run a scenario: execute the runs that are not complete yet, write their logs and draw the figure.

    The number of workers and threads does not change any result. An interrupted run resumes from its checkpoint.
    """
    from golfsim.runs import batch, progress
    from golfsim.runs.interrupt import listening
    from golfsim.scenario.model import Scenario

    scenario = Scenario.load(file, set_, allow_code=allow_code)
    folder = out or Path("results") / file.stem
    how = batch.Execution(workers, threads, scheduler, force or paranoid, checkpoint_every, paranoid)
    if dry_run:
        from golfsim.runs import dry_run as estimate

        return _tell(estimate.of(scenario, folder, how), json_, estimate.text)
    if json_:
        raise UserError("--json belongs to --dry-run", hint="golfsim status DIR --json tells what has become of a run")
    _import_meanwhile(scenario.plot)
    with listening() as interrupt:
        made = batch.run(scenario, folder, how, progress.for_this_output(), interrupt)
    if interrupt.asked:
        print(f"interrupted; complete runs are in {folder}; the same command resumes the others", file=sys.stderr)
        raise typer.Exit(130)
    frame = made.frame()
    if frame is not None:
        _draw(scenario.plot, frame, folder)
    print(f"results in {folder}")
    if made.failures:
        print(made.complaint(), file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")],
    json_: Json = False,
) -> None:
    """Show which runs are complete, running, failed or missing."""
    from golfsim.runs import status

    _tell(status.of(folder), json_, lambda found: status.text(folder, found))


def _tell(found: T, as_json: bool, text: Callable[[T], str]) -> None:
    """Print what was found, for programs or for people."""
    print(json.dumps(found, indent=2, ensure_ascii=False) if as_json else text(found))


@app.command()
def compare(
    results: Results,
    by: By = None,
    metric: Annotated[str, typer.Option(help="Metric to compare, at the last observed cycle.")] = "accuracy",
    layer: Annotated[
        str | None, typer.Option(help="Compare this layer only. Default: all layers that have the metric.")
    ] = None,
    target: Target = None,
    better: Annotated[
        str | None,
        typer.Option(
            metavar="higher|lower", help="Whether higher or lower values are better. Default: known for the metric."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Compare strategies, paired over seeds: which one is best, by how much, and whether it is significant."""
    from golfsim.compare import comparison as comparing
    from golfsim.compare import verdict
    from golfsim.runs import results as found_in

    if better not in (None, "higher", "lower"):
        raise UserError(f"--better: expected “higher” or “lower”; got “{better}”")
    found = comparing.compare(found_in.find(results).frame, by, metric, layer, target, better)  # type: ignore[arg-type]
    if json_:
        told = {"sentence": verdict.sentence(found)} | found.as_dict()
        return print(json.dumps(told, indent=2, ensure_ascii=False))
    from rich.console import Console

    Console(highlight=False).print(*verdict.rendered(found), sep="\n")


@app.command()
def report(
    results: Results,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page. Default: the names of the scenarios.")] = None,
    by: By = None,
    target: Target = None,
) -> None:
    """Write one self-contained HTML page: figures, tables, guarantees, comparison, provenance."""
    from golfsim.report import page

    with _writing(out):
        page.write(results, out, title, by, target)
    print(f"report in {out}")


@app.command()
def reproduce(
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[H17|A15|C17|V20|ID]…", help="Papers or single items. Default: all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and of the page.")] = Path("results/reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Run a small version of each experiment.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of worker processes.")] = None,
) -> None:
    """Repeat the experiments of the papers, and write a page that compares published values with ours."""
    from golfsim.report import published
    from golfsim.report import reproduce as again
    from golfsim.runs import batch, progress
    from golfsim.runs.interrupt import listening

    chosen = published.chosen(items or [])
    found = []
    with listening() as interrupt:
        how = batch.Execution(workers)
        shown = lambda name: progress.for_this_output()  # noqa: E731 - each item has a bar of its own
        for one in again.reproduce(chosen, out, how, quick=quick, shown=shown, interrupt=interrupt):
            words = ", ".join(f"{count} {kind}" for kind, count in one.verdicts().items()) or one.why_not
            print(f"{one.item.id}: {words}", flush=True)
            found.append(one)
    if interrupt.asked:
        print("interrupted; the same command resumes", file=sys.stderr)
        raise typer.Exit(130)
    with _writing(out):
        page, table = again.write(found, out, quick)
    print(f"page in {page}, verdicts as a table in {table}")


def _import_meanwhile(plot: PlotConfig) -> None:
    """Import what a picture needs in a thread of its own: kernels leave the interpreter to others."""

    def imports() -> None:
        with suppress(Exception):  # told when it is imported in earnest
            for name in ("pandas", "golfsim.report.figures", "matplotlib.pyplot", "scipy.special"):
                importlib.import_module(name)

    if plot.kind != "none":
        threading.Thread(target=imports, name="golfsim imports", daemon=True).start()


def _draw(plot: PlotConfig, frame: pd.DataFrame, folder: Path) -> None:
    if plot.kind != "none" and (frame["metric"] == "error.mean").any():
        from golfsim.report import figures

        with _writing(folder):
            figures.save(figures.of(plot, frame), folder, plot.kind)


@app.command()
def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Scenario files, or names of shipped scenarios.", autocompletion=completion.files
        ),
    ],
    json_: Json = False,
    allow_code: Code = False,
) -> None:
    """Check scenario files without running them."""
    found = []
    for file in files:
        found.append(_checked(file, allow_code))
        if not json_:
            _print_checked(found[-1])
    if json_:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    if not all(one["fine"] for one in found):
        raise typer.Exit(2)


def _checked(file: Path, allow_code: bool) -> dict[str, Any]:
    """Whether a file is fine; if not, all that is wrong with it, and the page of the manual about it."""
    from golfsim.runs import single
    from golfsim.scenario import sweep

    try:
        scenario = _loaded(file, [], allow_code)
        with single.telling(scenario):
            return {"file": str(file), "fine": True, "points": len(sweep.points(scenario))}
    except UserError as error:
        problems = getattr(error, "messages", [str(error)])
        return {"file": str(file), "fine": False, "problems": problems, "help": error.docs}


def _print_checked(one: dict[str, Any]) -> None:
    if one["fine"]:
        print(f"{one['file']}: fine" + (f", {one['points']} points" if one["points"] > 1 else ""))
    else:
        print("\n".join(one["problems"]) + manual.more(one["help"]), file=sys.stderr)


@app.command()
def describe(
    file: File,
    out: Annotated[Path | None, typer.Option(help="Folder of the figure. Default: results/NAME.")] = None,
    allow_code: Code = False,
    json_: Json = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Show how records are distributed over nodes and who is online when, without running."""
    from golfsim.cli import preview as describing
    from golfsim.runs import single

    scenario = _loaded(file, set_, allow_code)
    folder = out or Path("results") / file.stem
    with single.telling(scenario):
        found = describing.describe(scenario)
    if json_:
        return print(json.dumps(describing.figures(found), ensure_ascii=False))
    print(describing.text(found))
    single.prepare(folder)
    describing.save(found, folder / "describe.png")
    print(f"drawn in {folder / 'describe.png'}")


@app.command()
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

    scenario = _loaded(file, set_, allow_code)
    simulation, overlay = _run_to(scenario, cycle, lambda run: overlay_stats.find(run.layers, layer, run.world))
    with _writing(out):
        links = overlay_stats.write_graphml(overlay, simulation.world, out)
    print(f"{links} links after cycle {simulation.world.cycle} in {out}")


@app.command()
def export_published(
    file: File,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("published.parquet"),
    layer: Annotated[str | None, typer.Option(help="Layer to export. Default: the only publishing layer.")] = None,
    cycle: Annotated[int, typer.Option(min=1, help="Cycle after which to export.")] = 1,
    allow_code: Code = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Run a scenario up to a cycle and export the published records with their guarantee."""
    from golfsim.cli import export

    simulation, published = _run_to(_loaded(file, set_, allow_code), cycle, lambda run: export.find(run, layer))
    with _writing(out):
        rows = export.write(simulation, published, simulation.features, out)
    print(f"{rows} published vectors in {out}: {published.guarantee()}")


def _loaded(file: Path, changes: list[str], allow_code: bool) -> Scenario:
    """A scenario, with a note of the user's own code that it runs."""
    from golfsim.scenario.model import Scenario

    scenario = Scenario.load(file, changes, allow_code=allow_code)
    for path in scenario.code_files():
        print(f"runs the code of {path}", file=sys.stderr)
    return scenario


def _run_to(scenario: Scenario, cycle: int | None, find: Callable[[Simulation], T]) -> tuple[Simulation, T]:
    """Run a scenario up to a cycle (None: the last); also what `find` finds in it, before the run begins."""
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


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    from golfsim.runs import single

    try:
        yield
    except OSError as error:
        raise single.cannot_write(path, error) from None


@app.command()
def schema() -> None:
    """Print the JSON schema of scenario files, which editors use (`#:schema` line)."""
    from golfsim.cli import scaffold

    print(scaffold.schema_text(), end="")


@app.command(name="list")
def list_(
    topic: Annotated[
        str | None, typer.Argument(help="Topic to list. Default: the topics.", autocompletion=completion.topics)
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show this entry only.",
            autocompletion=lambda ctx, incomplete: completion.named(ctx.params.get("topic"), incomplete),
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """List protocols, data sets, learners, churn models, splits, settings or metrics, with their keys."""
    entries = _listed(topic, name)
    if json_:
        return print(json.dumps(entries, indent=2, ensure_ascii=False))
    return _print_metrics(entries) if topic == "metrics" else _print_entries(entries)


def _listed(topic: str | None, name: str | None) -> list[dict[str, Any]]:
    from golfsim.scenario import catalogue
    from golfsim.sim import metric_catalogue

    topics = catalogue.TOPICS | {"metrics": metric_catalogue.metrics}
    if topic is None:
        return catalogue.topics(topics)
    if topic not in topics:
        raise UserError(f"there is no list of “{topic}”", hint=nearest(topic, topics))
    entries = topics[topic]()
    if topic == "metrics" and name is not None and (found := metric_catalogue.find(name)):
        name = found.name  # “error.mean” is in the log, “error” in the list
    if name is not None and name not in (names := [entry["name"] for entry in entries]):
        raise UserError(f"“{name}” is not among the {topic}", hint=nearest(name, names))
    return [entry for entry in entries if name in (None, entry["name"])]


def _print_metrics(entries: list[dict[str, Any]]) -> None:
    """Print a table of metrics for each layer."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from golfsim.core.metrics import SUMMARY
    from golfsim.sim import metric_catalogue

    console = Console(highlight=False)
    for layer in dict.fromkeys(entry["layer"] for entry in entries):
        rows = [
            [metric_catalogue.shown(entry), *(entry[key] for key in ("about", "unit", "better"))]
            for entry in entries
            if entry["layer"] == layer
        ]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        name, unit = (max(len(row[place]) for row in rows) for place in (0, 2))
        table.add_column("name", width=min(max(name, 4), console.width // 3))
        table.add_column("meaning")
        table.add_column("unit", width=min(max(unit, 4), console.width // 5))
        table.add_column("better", width=6)
        for row in rows:
            table.add_row(*(Text(cell, overflow="fold") for cell in row))
        console.print(Text(layer, "bold"))
        console.print(Padding(table, (0, 0, 1, 4)))
    if any(entry["summary"] for entry in entries):
        print(f".* stands for {', '.join(SUMMARY)} over nodes")


def _print_entries(entries: list[dict[str, Any]]) -> None:
    """Names and explanations; where there are settings, a paragraph for each name."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)
    if not any(entry["settings"] for entry in entries):
        table = Table.grid(padding=(0, 2, 0, 0))
        for entry in entries:
            table.add_row(Text(entry["name"], "bold"), Text(entry["about"]))
        return console.print(table)
    for entry in entries:
        console.print(Text.assemble((entry["name"], "bold"), "  ", entry["about"]))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(max_width=max(console.width * 3 // 10, 20))
        for setting in entry["settings"]:
            table.add_row(*(Text(word) for word in (setting["name"], _type_of(setting), setting["about"])))
        console.print(Padding(table, (0, 0, 1, 4)))


def _type_of(setting: dict[str, Any]) -> str:
    default = f", default {json.dumps(setting['default'], ensure_ascii=False)}" if "default" in setting else ""
    return f"{setting['type']}{', required' if setting['required'] else default}"


@app.command()
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
        bool, typer.Option("--every-point", help="Audit all points of a sweep, also those that differ only in numbers.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    set_: Set = [],  # noqa: B006 - typer wants a plain default
) -> None:
    """Estimate an empirical lower bound on the ε of a private strategy, and compare it with the stated ε.

    The private layers run many times in a network of a few nodes, on data sets that differ in one record (or node).
    The exit status is 1 if a lower bound exceeds the stated ε.
    """
    from golfsim.audit import auditing
    from golfsim.runs import single
    from golfsim.scenario.model import Scenario

    scenario = Scenario.load(file, set_)
    with single.telling(scenario):
        found = auditing.audit(scenario, runs=runs, seed=seed, confidence=confidence, every_point=every_point)
    if json_:
        print(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        from rich.console import Console

        Console(highlight=False).print(auditing.rendered(found))
        print(auditing.summary(found))
    if found.broken:
        raise typer.Exit(1)


@data_app.command()
def fetch(
    name: Annotated[
        str, typer.Argument(help="Data set that is not bundled, e.g. mnist.", autocompletion=completion.sets)
    ],
) -> None:
    """Download a data set into the cache, with checksums; an interrupted download resumes."""
    from golfsim.data import fetch as fetching
    from golfsim.runs import progress

    with progress.downloading() as told:
        path = fetching.fetch(name, told)
    print(f"{name} is in {path}")


Into = Annotated[Path, typer.Option(metavar="DIR", help="Folder to write to.")]


@new_app.command(name="protocol")
def new_protocol(
    name: Annotated[str, typer.Argument(help="Name of the protocol, e.g. push_sum.")], into: Into = Path()
) -> None:
    """Create a small working protocol with a scenario and a test."""
    _write_new("protocol", name, into)
    print(f"next: golfsim run {into / name}.toml; then change {into / name}.py (golfsim help protocols)")


@new_app.command(name="scenario")
def new_scenario(
    name: Annotated[str, typer.Argument(help="Name of the scenario, e.g. my_study.")], into: Into = Path()
) -> None:
    """Create a small working scenario with a test."""
    _write_new("scenario", name, into)
    print(f"next: golfsim run {into / name}.toml; then change it (golfsim help scenarios)")


def _write_new(kind: str, name: str, folder: Path) -> None:
    from golfsim.cli import scaffold

    with _writing(folder):
        written = scaffold.new(kind, name, folder)
    print("written: " + ", ".join(str(path) for path in written))
    print(f"test it: pytest {folder / f'test_{name}.py'}")


@app.command(name="help")
def help_(
    page: Annotated[
        str | None, typer.Argument(help="Page to show. Default: a list of all pages.", autocompletion=completion.pages)
    ] = None,
    json_: Json = False,
) -> None:
    """Show a page of the manual."""
    if page is None:
        return print(json.dumps(manual.titles(), ensure_ascii=False)) if json_ else _print_entries(manual.titles())
    text = manual.text_of(page)
    if json_ or not sys.stdout.isatty():
        return print(json.dumps({"page": page, "text": text}, ensure_ascii=False) if json_ else text, end="")
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


@app.command()
def bench(
    sections: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION]…", help="Sections to measure. Default: all but growth and large."),
    ] = None,
    json_: Json = False,
) -> None:
    """Measure the speed of golfsim on this machine, as ratios to bare loops and to a memory copy."""
    from golfsim import bench as benchmark

    for name in sections or ():
        if name not in benchmark.SECTIONS:
            raise UserError(f"there is no section “{name}”", hint=nearest(name, benchmark.SECTIONS))
    rows = []
    for row in benchmark.measure(sections or benchmark.USUAL):
        rows.append(row)
        if not json_:
            print(benchmark.line(row), flush=True)
    if json_:
        print(json.dumps(rows, indent=2, ensure_ascii=False))


def main() -> None:
    """The console script: a user's mistake ends in a message, never in a traceback."""
    try:
        app(prog_name="golfsim")
    except UserError as error:
        _fail(f"{'' if error.placed else 'golfsim: '}{error}{manual.more(error.docs)}")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from golfsim.runs import single

        if single.in_users_code(error) is None:
            raise
        _fail(f"{single.explained(error)}{manual.more('protocols')}")


def _fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)
