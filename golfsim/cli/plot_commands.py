"""The command that draws one figure of results: plot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from golfsim.cli import completion
from golfsim.cli.common import writing
from golfsim.core.errors import UserError, listed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from golfsim.runs.results import Results

KINDS = completion.FIGURES
SWEPT = ("heatmap", "lines", "bars", "privacy-utility", "learning-curve")  # figures of last values over a sweep
FORMATS = completion.FORMATS
DIFFERENCES = "differences"
TABLES = {"errors": "nodes", "time-to-target": "", "spent-by-record": "spent", "degrees": "degrees"}  # … of a kind


def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders of results.")],
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND", help=f"Kind of the figure: {', '.join(KINDS)}.", autocompletion=completion.figures
        ),
    ] = "convergence",
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric to draw, with or without “.mean”. Default: that of the kind, e.g. error for convergence.",
            autocompletion=completion.metrics,
        ),
    ] = None,
    layer: Annotated[
        list[str], typer.Option(metavar="NAME", help="Draw this layer only. Can be repeated. Default: all layers.")
    ] = [],  # noqa: B006 - typer wants a plain default
    where: Annotated[
        list[str],
        typer.Option(metavar="KEY=VALUE", help="Draw only runs with this value, e.g. epsilon=10. Can be repeated."),
    ] = [],  # noqa: B006 - typer wants a plain default
    x: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Key along the x axis, or between columns. For convergence: cycle, messages or bytes (sent).",
        ),
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="KEY", help="Key that distinguishes curves, or rows.")] = None,
    col: Annotated[str | None, typer.Option(metavar="KEY", help="Key with one panel per value.")] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Strategy that differences are relative to. Default: all pairs.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(metavar="VALUE", help="Value of the metric to reach, for time-to-target.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="png|svg|pdf",
            help="Format of the file. Default: by the ending of the file, else PDF.",
            autocompletion=completion.formats,
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            metavar="column|page",
            help="Width of one column or of the page of a paper.",
            autocompletion=completion.widths,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write. Default: KIND.pdf.")
    ] = None,
) -> None:
    """Draw one figure of results, for a paper."""
    _among("--kind", kind, KINDS)
    path = _file(out, format_, kind)
    if width is not None:
        _among("--width", width, completion.WIDTHS)
    from golfsim.comparing.strategies import merged
    from golfsim.report import style
    from golfsim.runs import results

    found = results.find(folders)
    with _in_one_line():
        asked = {"--metric": metric, "--x": x, "--by": by, "--col": col, "--baseline": baseline, "--target": target}
        _refuse(kind, asked)
        if kind in TABLES:
            ax = _of_table(_table(found, kind, layer, where), kind, metric, target)
        elif kind == DIFFERENCES:
            ax = _paired(_chosen(found.frame, layer, where), metric, by, baseline)
        else:
            ax = _drawn(_chosen(merged(found.frame), layer, where), kind, metric, x, by, col)
    if width is not None:
        _resize(ax, style.COLUMN if width == "column" else style.PAGE)
    with writing(path):
        style.saved(ax, [path])
    print(f"figure in {path}")


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Report an error with its hint in one line."""
    try:
        yield
    except UserError as error:
        raise UserError("; ".join(filter(None, [error.what, error.hint])), docs=error.docs) from None


def _among(option: str, word: str, valid: tuple[str, ...]) -> None:
    if word not in valid:
        raise UserError(f"{option}: there is no “{word}”; {listed(word, valid)}")


def _file(out: Path | None, format_: str | None, kind: str) -> Path:
    """Return the file to write; its ending and the format must agree."""
    if format_ is not None:
        _among("--format", format_, FORMATS)
    path = out or Path(f"{kind}.{format_ or 'pdf'}")
    ending = path.suffix.removeprefix(".").lower()
    if ending in FORMATS and format_ not in (None, ending):
        raise UserError(f"--format: “{format_}” is not the ending of {path}; state only one of the two")
    if ending in FORMATS:
        return path
    if format_ is None:
        raise UserError(
            f"{path}: unknown format “{path.suffix}”; valid endings: {', '.join(FORMATS)}, or state --format"
        )
    return path.with_name(f"{path.name}.{format_}")


def _chosen(frame: pd.DataFrame, layers: list[str], where: list[str]) -> pd.DataFrame:
    """Return the rows of the layers and points that the command line asks for."""
    known = [str(name) for name in frame["layer"].unique()]
    for name in layers:
        if name not in known:
            raise UserError(f"--layer: there is no layer “{name}”; {listed(name, known)}")
    frame = frame[frame["layer"].isin([*layers, "world"])] if layers else frame
    for condition in where:
        frame = _filtered(frame, condition)
    return frame


def _filtered(frame: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Return the rows that have a value: KEY=VALUE, where the last word of a key suffices."""
    word, sign, text = condition.partition("=")
    if not sign:
        raise UserError(f"--where: expected KEY=VALUE; got “{condition}”")
    key = _key(frame, word.strip(), "--where")
    values = list(dict.fromkeys(frame[key].dropna()))
    chosen = [value for value in values if _equal(value, text.strip())]
    if not chosen:
        raise UserError(f"--where: no run has {key} = {text.strip()}; {listed(text.strip(), map(str, values))}")
    return frame[frame[key].isin(chosen)]


def _equal(value: Any, text: str) -> bool:
    """Return whether a value of a sweep is the one that was typed."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower() == text.lower() if isinstance(value, bool) else str(value) == text
    try:
        return float(text) == value
    except ValueError:
        return False


def _key(frame: pd.DataFrame, word: str, option: str) -> str:
    """Return the column that a key means: its complete name, or its last word if no other key has the same."""
    from golfsim.report.numbers import varied

    columns = [*varied(frame), "run", "seed", "layer"]
    every = [name for name in frame.columns if name not in ("cycle", "metric", "value", "path")]
    if word in every:
        return word
    close = [key for key in every if key.rpartition(".")[2] == word]
    if len(close) == 1:
        return close[0]
    known = ", ".join(close) if close else ""
    why = f"several keys end in “{word}”: {known}" if close else f"there is no key “{word}”; {listed(word, columns)}"
    raise UserError(f"{option}: {why}")


def _drawn(frame: pd.DataFrame, kind: str, metric: str | None, x: str | None, by: str | None, col: str | None) -> Axes:
    """Draw a figure of a kind.

    Parameters
    ----------
    frame : DataFrame
        The rows to draw.
    kind : str
        The kind of the figure.
    metric : str, optional
        The metric; every kind has a default.
    x, by, col : str, optional
        The keys along the axis, of curves and of panels.
    """
    from golfsim.report import curves, figures

    if kind == "convergence" and x is not None:
        _among("--x", x, tuple(curves.OVER))
    x, by, col = (
        key if key is None or (option == "--x" and kind == "convergence") else _key(frame, key, option)
        for key, option in ((x, "--x"), (by, "--by"), (col, "--col"))
    )
    if kind in SWEPT:
        return _over_sweep(frame, kind, metric, x, by)  # with one panel per value of all other keys
    chosen: dict[str, Any] = {} if metric is None else {"metric": metric}
    if kind == "convergence":
        return _curves(frame, metric, x, by, col)
    kinds: dict[str, Callable[..., Axes]] = {
        "messages": figures.messages, "online": figures.online, "overlay": figures.overlay, "spent": figures.spent,
        "confusion": figures.confusion, "roc": figures.roc, "time-to-accuracy": figures.time_table,
    }  # fmt: skip
    return kinds[kind](frame, **chosen)


TAKES: dict[str, tuple[str, ...]] = {
    "convergence": ("--metric", "--x", "--by", "--col"),
    "bars": ("--metric", "--x", "--by"),
    **dict.fromkeys(("heatmap", "lines", "privacy-utility", "learning-curve"), ("--metric", "--x", "--by", "--col")),
    "time-to-accuracy": ("--metric",),
    "differences": ("--metric", "--by", "--baseline"),
    "errors": ("--metric",),
    "time-to-target": ("--metric", "--target"),
}  # the options that a kind of figure takes; others would be ignored


def _refuse(kind: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        if value is not None and option not in TAKES.get(kind, ()):
            takes = ", ".join(TAKES.get(kind, ())) or "none of them"
            raise UserError(f"{option}: not for --kind {kind}; of {', '.join(options)} it takes {takes}")


def _table(found: Results, kind: str, layers: list[str], where: list[str]) -> pd.DataFrame:
    """Return the table next to the logs that a figure needs; errors are also drawn from the log."""
    from golfsim.sim.log import no_such_table

    name = TABLES[kind]
    table = found.further(name) if name else found.frame
    if table is None and kind == "errors":
        table = found.frame
    if table is None:
        raise no_such_table(name)
    return _chosen(table, layers, where)


def _of_table(table: pd.DataFrame, kind: str, metric: str | None, target: float | None) -> Axes:
    from golfsim.report import distributions, networks

    chosen: dict[str, Any] = {} if metric is None else {"metric": metric}
    if kind == "errors":
        return distributions.errors(table, **chosen)
    if kind == "time-to-target":
        if target is None:
            raise UserError("--kind time-to-target needs --target, e.g. --target 0.8")
        return distributions.reaching(table, target, **chosen)
    return networks.degrees(table) if kind == "degrees" else distributions.spent_by_record(table)


def _paired(frame: pd.DataFrame, metric: str | None, by: str | None, baseline: str | None) -> Axes:
    from golfsim.report import distributions

    by = None if by is None else _key(frame, by, "--by")
    return distributions.differences(frame, by, metric or "accuracy", baseline=baseline)


def _curves(frame: pd.DataFrame, metric: str | None, x: str | None, by: str | None, col: str | None) -> Axes:
    from golfsim.report import figures, numbers

    if metric is None and (x or by or col) is None:
        return figures.usual(frame)
    if x not in (None, "cycle") and col is not None:
        raise UserError("--x: curves over what was sent have one panel; leave --col out")
    metric = metric or "error"
    if by is not None:
        rest = [key for key in numbers.keys_of(numbers.rows_of(frame, metric)) if key not in (by, col)]
        if rest:
            hint = f"choose one value with --where, e.g. --where {rest[0]}={next(iter(frame[rest[0]].dropna()))}"
            raise UserError(f"--by: curves also differ in {', '.join(rest)}; {hint}, or one panel per value with --col")
    if col is not None:
        return figures.small_multiples(frame, col, metric)
    over = x or "cycle"
    return figures.convergence(frame, metric, over=over) if by is not None else figures.curves_of(frame, metric, over)


def _over_sweep(frame: pd.DataFrame, kind: str, metric: str | None, x: str | None, by: str | None) -> Axes:
    from golfsim.report import figures, numbers

    chosen: dict[str, Any] = {} if metric is None else {"metric": metric}
    if kind in ("learning-curve", "privacy-utility"):
        draw: Callable[..., Axes] = figures.learning_curve if kind == "learning-curve" else figures.privacy_utility
        return draw(frame, x, by, **chosen)
    keys = numbers.varied(frame)
    if x is None or (kind == "heatmap" and by is None):
        needed = "--x and --by" if kind == "heatmap" else "--x"
        raise UserError(f"--kind {kind} needs {needed}; the sweep varies: {', '.join(keys) or 'nothing'}")
    if kind == "heatmap":
        return figures.heatmap(frame, str(by), x, **chosen)
    return (figures.lines if kind == "lines" else figures.bars)(frame, x, by, **chosen)


def _resize(ax: Axes, inches: float) -> None:
    """Set the width of a figure; its height stays."""
    figure: Any = ax.figure.figure
    figure.set_figwidth(inches)
