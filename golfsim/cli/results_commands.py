"""Commands about results: compare, report, reproduce."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from golfsim.cli import completion
from golfsim.cli.common import writing
from golfsim.cli.options import By, Json, Results, Target
from golfsim.core.errors import UserError


def compare(
    results: Results,
    by: By = None,
    metric: Annotated[
        str,
        typer.Option(help="Metric to compare, at the last observed cycle.", autocompletion=completion.metrics),
    ] = "accuracy",
    layer: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare only this layer; may be repeated. Default: the judged layer of each case, or else all layers "
            "that have the metric."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare all other strategies with this one, e.g. one without privacy.")
    ] = None,
    target: Target = None,
    better: Annotated[
        str | None,
        typer.Option(
            metavar="higher|lower",
            help="Whether higher or lower values are better. Needed if golfsim does not know this for the metric.",
        ),
    ] = None,
    json_: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print one line per block and strategy as CSV.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a table for LaTeX (package booktabs).")] = False,
) -> None:
    """Compare strategies, paired over seeds: which one is best, by how much, and whether this is significant."""
    from golfsim.comparing import comparison as comparing
    from golfsim.comparing import privacy_table, publication, verdict
    from golfsim.runs import results as found_in

    if better not in (None, "higher", "lower"):
        raise UserError(f"--better: expected “higher” or “lower”; got “{better}”")
    if json_ + csv + latex > 1:
        raise UserError("--json, --csv and --latex exclude each other")
    there = found_in.find(results)
    found = comparing.compare(there.frame, by, metric, layer, target, better, baseline)  # type: ignore[arg-type]
    rows = privacy_table.privacy_rows(there, found.by)
    if json_:
        reported = {"sentence": verdict.sentence(found)} | found.as_dict() | {"privacy": [asdict(row) for row in rows]}
        return print(json.dumps(reported, indent=2, ensure_ascii=False))
    if csv or latex:
        return print((publication.as_csv if csv else publication.as_latex)(found), end="")
    from rich.console import Console

    Console(highlight=False).print(*verdict.rendered(found, privacy_table.privacy_columns(rows)), sep="\n")


def report(
    results: Results,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page. Default: the names of the scenarios.")] = None,
    by: By = None,
    target: Target = None,
) -> None:
    """Write one self-contained HTML page: figures, tables, guarantees, comparison, provenance."""
    from golfsim.report import page

    with writing(out):
        page.write(results, out, title, by, target)
    print(f"report in {out}")


def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE|ID]…", help="Sources, e.g. A15, or single tables and figures, e.g. A15-T6.9. Default: all."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and of the page.")] = Path("results/reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Run a small version of each experiment.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of worker processes.")] = None,
    publish: Annotated[
        Path | None,
        typer.Option(
            help="Also write the pages for a repository into this folder: all verdicts, the curves of each paper, and "
            "verdicts.md. Marked tables in its README.md and in the one above are replaced."
        ),
    ] = None,
) -> None:
    """Repeat the experiments of the papers, and write a page that compares the published values with the new ones."""
    from golfsim.report import published, publishing, verdicts
    from golfsim.report import reproduce as again
    from golfsim.runs import batch, progress
    from golfsim.runs.interrupt import listening

    chosen = published.chosen(items or [])
    if publish is not None:
        publishing.refuse_a_part(publish, quick, items or [])
    found = []
    with listening() as interrupt:
        how = batch.Execution(workers)
        shown = lambda name: progress.for_this_output()  # noqa: E731 - each item has its own progress bar
        for one in again.reproduce(chosen, out, how, quick=quick, shown=shown, interrupt=interrupt):
            print(f"{one.item.id}: {verdicts.in_words(one.verdicts()) or one.why_not}", flush=True)
            if one.precision:
                print(f"    {one.precision}", flush=True)
            found.append(one)
    if interrupt.asked:
        print("interrupted; the same command resumes", file=sys.stderr)
        raise typer.Exit(130)
    with writing(out):
        page, table = verdicts.write(found, out, quick)
    print(f"page in {page}, table of verdicts in {table}")
    if publish is not None:
        with writing(publish):
            files = publishing.publish(found, publish, quick)
        print(f"published: {', '.join(map(str, files))}")
        for file in publishing.too_large(files):
            print(f"{file} has {file.stat().st_size / 1e6:.1f} MB, more than a page should have", file=sys.stderr)
