"""A page about results: a self-contained HTML file that opens from disk and loads nothing from the network.

Figures are in the page as images. If scripts may run, curves become interactive charts (uPlot). The templates escape
text from scenarios, and the content security policy of the page allows no script except ours.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim._version import __version__
from golfsim.comparing import comparison, privacy_table, verdict
from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.report import figures, fitting, numbers, sections, style
from golfsim.runs import results
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment
    from matplotlib.axes import Axes

    from golfsim.comparing.comparison import Comparison
    from golfsim.report import Drawing

HERE = Path(__file__).parent
CURVE_COLUMNS = ["cycle", "curve", "mean", "low", "high"]
PANELS = ("panel", "what")  # columns that name the panel of a curve
ENLARGE = "enlarge.js"
BANDS = {"runs": ("low", "high"), "nodes": ("q05", "q95")}
DPI, COLOURS = 130, 64  # of a small picture
HEAVY = 400_000  # bytes; a larger SVG is replaced by a PNG
PATTERNS = [[], [8, 5], [10, 4, 2, 4], [2, 4], [12, 3, 2, 3, 2, 3]]  # dashes of lines, as in the images


@dataclass(frozen=True)
class Shown:
    """A figure as the page shows it; all links are data URIs."""

    name: str
    title: str
    caption: str
    picture: str
    width: float  # CSS pixels
    csv: str
    chart: dict[str, Any] | None  # what the script draws, if the figure has a chart


def write(
    paths: Sequence[str | Path],
    out: Path,
    title: str | None = None,
    by: str | None = None,
    target: float | None = None,
) -> None:
    """Write a page about the results at some paths."""
    text = html(results.find(paths), title, by, target, out)
    write_whole(out, lambda path: path.write_text(text, encoding="utf-8"))


def html(
    found: results.Results,
    title: str | None = None,
    by: str | None = None,
    target: float | None = None,
    out: Path | None = None,
) -> str:
    """Return the page as HTML."""
    keys, frame = sections.factors(found), found.frame
    compared, why_not = _compared(frame, by)
    cost = _cost(frame, target, by or (compared.by if compared else None))
    states, failures = sections.troubles(found.paths)
    strategies = by or (compared.by if compared else sections.usual(keys))
    private = privacy_table.privacy_rows(found, strategies)
    script = "\n".join(map(_static, ("uPlot.iife.min.js", "charts.js", ENLARGE)))
    last = sections.finals(frame, keys)
    return _templates().get_template("page.html").render(
        title=title or _title(found),
        summary=sections.summary(found, keys, states),
        verdict=verdict.sentence(compared) if compared else "",
        note=note_of(frame),
        promises=sections.guarantees(found, strategies),
        privacy=privacy_table.privacy_table(private) if private else None,
        figures=[_shown(d) for d in fitting(frame, *map(found.further, ("nodes", "links", "degrees", "spent")))],
        finals=last,
        finals_csv=_uri("text/csv", _csv_of(last)),
        cost=cost,
        cost_note=verdict.cost_note(target) if target is not None else "",
        left_out=[f"Not compared: {text}." for text in compared.left_out] if compared else [],
        comparison=verdict.differences(compared) if compared else [],
        comparison_notes=verdict.notes(compared) if compared else [],
        why_not=why_not if len(found.points) > 1 else "",
        differing=sections.differing(found),
        common=sections.common(found),
        provenance=sections.provenance(found, _command(found, title, by, target, out)),
        failures=failures,
        style=_static("uPlot.min.css") + "\n" + _static("page.css"),
        script=script,
        script_hash=_hash(script),
        version=__version__,
    )  # fmt: skip


def rendered(template: str, **values: Any) -> str:
    """Render a template with some values, all of which are escaped."""
    style, script = _static("page.css"), _static(ENLARGE)
    shared = {"style": style, "script": script, "script_hash": _hash(script), "version": __version__}
    return _templates().get_template(template).render(**shared, **values)


def _hash(script: str) -> str:
    """Return the hash by which the content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = FileSystemLoader(HERE / "templates")
    return Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _static(name: str) -> str:
    return (HERE / "static" / name).read_text(encoding="utf-8").strip()


def _title(found: results.Results) -> str:
    names = dict.fromkeys(str(run.about["name"]) for run in found.points if "name" in run.about)
    return " · ".join(names) or ", ".join(path.name for path in found.paths)


def _command(found: results.Results, title: str | None, by: str | None, target: float | None, out: Path | None) -> str:
    options = [("--out", out), ("--title", title), ("--by", by), ("--target", target)]
    words = [*map(str, found.paths), *(str(word) for option in options if option[1] is not None for word in option)]
    return shlex.join(["golfsim", "report", *words])


def _compared(frame: pd.DataFrame, by: str | None) -> tuple[Comparison | None, str]:
    """Return the comparison of accuracy, or why there is none; without a layer that learns nothing is missing."""
    if not numbers.has(frame, "accuracy.mean") and (by is None or by in frame):
        return None, ""
    try:
        return comparison.compare(frame, by), ""
    except UserError as error:
        if by is not None and by not in frame:
            raise
        return None, str(error.what)


def _cost(frame: pd.DataFrame, target: float | None, by: str | None) -> verdict.WordTable | None:
    """Return the table of the cost to reach a target, if there is one."""
    if target is None:
        return None
    return verdict.cost_table(comparison.costs(frame, target, by or "layer"), "accuracy", target)


def _shown(drawing: Drawing) -> Shown:
    picture = _as_text(lambda: _saved(drawing))
    first = [column for column in CURVE_COLUMNS if column in drawing.data]
    data = drawing.data[[*first, *(column for column in drawing.data if column not in first)]]
    csv = _uri("text/csv", data.to_csv(index=False).encode())
    chart = _chart(drawing, picture.label)
    return Shown(drawing.name, drawing.title, drawing.caption, picture.uri, picture.width, csv, chart)


@dataclass(frozen=True)
class Picture:
    """A figure as a data URI, its width, and the label of its vertical axis."""

    uri: str
    width: float
    label: str


def drawn(drawing: Drawing) -> Picture:
    """Return a figure as a small picture."""
    return _as_text(lambda: small_picture_of(drawing.draw()))


def _as_text(draw: Callable[[], Picture]) -> Picture:
    import matplotlib.pyplot as plt

    with plt.rc_context():
        try:
            return draw()
        except ValueError:  # a label that looks like invalid mathematics: show it as plain text
            plt.rcParams["text.parse_math"] = False
            return draw()


def _saved(drawing: Drawing) -> Picture:
    still = picture_of(drawing.draw())
    return replace(still, uri=_moving(drawing) or still.uri)


def picture_of(ax: Axes) -> Picture:
    """Return the figure of some axes as SVG, or as PNG if the SVG is large; the figure is closed."""
    import matplotlib.pyplot as plt

    figure: Any = ax.figure
    try:
        svg = _bytes(figure, "svg")
        uri = _uri("image/svg+xml", svg) if len(svg) <= HEAVY else _uri("image/png", _bytes(figure, "png"))
        return Picture(uri, 96 * figure.get_size_inches()[0], ax.get_ylabel())
    finally:
        plt.close(figure)


def small_picture_of(ax: Axes) -> Picture:
    """Return the figure of some axes as SVG or as PNG with few colours, whichever is smaller; the figure is closed."""
    import matplotlib.pyplot as plt

    figure: Any = ax.figure.figure
    try:
        uris = [
            _uri("image/svg+xml", _bytes(figure, "svg")),
            _uri("image/png", _few_colours(_bytes(figure, "png", DPI))),
        ]
        return Picture(min(uris, key=len), 96 * figure.get_size_inches()[0], ax.get_ylabel())
    finally:
        plt.close(figure)


def _few_colours(png: bytes) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(file, "png", optimize=True)
    return file.getvalue()


def _moving(drawing: Drawing) -> str:
    """Return an animation as a data URI; an empty text for a still figure."""
    if drawing.animate is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        (file,) = drawing.save(Path(folder))
        return _uri("image/gif", file.read_bytes())


def _bytes(figure: Any, kind: str, dpi: float | None = None) -> bytes:
    """Return a figure as the bytes of a file; letters are paths, since a reader may not have the font."""
    import matplotlib.pyplot as plt

    file = io.BytesIO()
    with plt.rc_context(figures.STYLE | {"svg.fonttype": "path"} | ({"savefig.dpi": dpi} if dpi else {})):
        figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _csv_of(table: verdict.WordTable) -> bytes:
    import pandas as pd

    return pd.DataFrame(table.rows, columns=list(table.header)).to_csv(index=False).encode()


def _chart(drawing: Drawing, label: str) -> dict[str, Any] | None:
    """Return the data from which the script draws curves, in one panel or several.

    All panels have the same cycles and the same curves, in the same colours; null stands for a missing value.
    """
    data = drawing.data
    column = next((name for name in PANELS if name in data), None)
    keys = ["cycle", "curve", *([column] if column else [])]
    over_cycles = drawing.kind == "curves" or column == "what"
    if not over_cycles or not set(CURVE_COLUMNS) <= set(data) or data.duplicated(keys).any():
        return None
    cycles, names = sorted(data["cycle"].unique()), list(dict.fromkeys(data["curve"]))
    drawn = ["mean", *(name for band in BANDS if band in drawing.bands for name in BANDS[band] if name in data)]
    found: dict[str, Any] = {"cycles": _numbers(cycles), "label": label}
    if column is None:
        return found | {"curves": _curves(data, names, cycles, drawn)}
    parts = [(str(name), data[data[column] == name]) for name in dict.fromkeys(data[column])]
    panels: list[dict[str, Any]] = [
        {"title": title, "curves": _curves(part, names, cycles, drawn)} for title, part in parts
    ]
    looks = [{key: curve[key] for key in ("name", "colour", "dash")} for curve in panels[0]["curves"]]
    return found | {"label": label if column == "panel" else "", "curves": looks, "panels": panels}


def _curves(data: pd.DataFrame, names: list[Any], cycles: list[Any], drawn: list[str]) -> list[dict[str, Any]]:
    """Return the curves of one panel over all cycles."""
    wide = {column: data.pivot(index="cycle", columns="curve", values=column) for column in drawn}
    wide = {column: table.reindex(index=cycles, columns=names) for column, table in wide.items()}
    if "low" in wide and (data["mean"].dropna() >= 0).all():  # the interval of a non-negative value ends at 0
        wide["low"] = wide["low"].clip(lower=0)
    return [
        {"name": str(name), "colour": style.look(place).colour, "dash": PATTERNS[place % len(PATTERNS)]}
        | {column: _numbers(table[name]) for column, table in wide.items()}
        for place, name in enumerate(names)
    ]


def _numbers(values: Any) -> list[float | None]:
    """Return numbers with six digits, which is more than a screen shows; None for a missing value."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
