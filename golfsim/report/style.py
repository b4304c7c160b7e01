"""One style for all figures: sizes of a two-column paper, and colours that are distinct for all readers and in grey."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.core.errors import UserError
from golfsim.report.numbers import is_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # widths in inches: of one column of a paper, and of both
HEIGHT = 2.3
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,  # long enough to distinguish dashes
    "figure.titlesize": 7,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "golfsim",
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,  # fonts are embedded as TrueType: publishers refuse the default, Type 3
    "ps.fonttype": 42,
    "savefig.dpi": 300,
}
# Okabe & Ito, without yellow, which is hard to see on paper; green is late, since some readers confuse it with blue
PALETTE = ("#0072B2", "#D55E00", "#000000", "#CC79A7", "#009E73", "#56B4E9", "#E69F00", "#7F7F7F")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))  # distinct curves in grey print
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
COLOURS = "viridis"  # of maps: monotonic in lightness, so that grey print preserves the order, and without grey
GREY = "0.35"
OFFLINE = "0.85"
GRID = "make them with plt.subplots or figure.add_subplot"
NOTE_STYLE: Any = {"fontsize": 7, "color": GREY, "wrap": True}
KEYS = {"nodes.number": "nodes", "nodes.records": "records per node", "data.train": "training records"}
FORMATS = ("png", "svg", "pdf")
SHARE_MARGIN = 0.03
LONGEST = 44  # letters of a label: what fits into a column of a paper


@dataclass(frozen=True)
class Look:
    """Colour, dash and marker of a curve."""

    colour: str
    dash: Any
    marker: str


def look(number: int) -> Look:
    """Return the look of the curve with this number: the first 280 differ, and the first 35 also in grey."""
    return Look(PALETTE[number % len(PALETTE)], DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)])


@contextmanager
def styled() -> Iterator[None]:
    """Set our style while a figure is drawn; afterwards, also after an error, restore all settings."""
    import matplotlib.pyplot as plt

    plt.draw_if_interactive()  # loads the backend: that of a notebook becomes interactive, and must stay so afterwards
    with plt.rc_context(STYLE):
        yield


def panel(ax: Axes | None, width: float = COLUMN, height: float = HEIGHT) -> Axes:
    """Return the given axes in our style, or those of a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else _dressed(ax)


def _dressed(ax: Axes) -> Axes:
    """Give axes of the user's own our fonts, lines and grid, and a layout in which a legend below them finds room."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[:].set_linewidth(STYLE["axes.linewidth"])
    ax.tick_params(labelsize=STYLE["xtick.labelsize"])
    for text, key in ((ax.xaxis.label, "axes.labelsize"), (ax.yaxis.label, "axes.labelsize"), (ax.title, "font.size")):
        text.set_fontsize(STYLE[key])
    ax.grid(visible=True, alpha=STYLE["grid.alpha"], linewidth=STYLE["grid.linewidth"])
    ax.set_axisbelow(True)
    _lay_out(ax)
    return ax


def _lay_out(ax: Axes) -> None:
    figure: Any = ax.figure
    if figure.get_layout_engine() is None and ax.get_subplotspec() is not None:
        figure.figure.set_layout_engine("constrained")


def within(ax: Axes | None) -> Any:
    """Return a figure in the place of axes of the user's own, for several panels; the axes become invisible."""
    if ax is None:
        return None
    place, figure = ax.get_subplotspec(), ax.figure
    if place is None:
        raise UserError("these axes have no place in a grid, which a figure of several panels needs", hint=GRID)
    _lay_out(ax)
    ax.set_axis_off()
    return figure.add_subfigure(place)


def panels(figure: Figure | None, rows: int, columns: int, size: tuple[float, float], **how: Any) -> Any:
    """Return rows × columns of axes in the given figure, or in a new one of this size."""
    import matplotlib.pyplot as plt

    if figure is None:
        figure = plt.figure(figsize=size, layout="constrained")
    return figure.subplots(rows, columns, squeeze=False, **how)


def width_of(figure: Any) -> float:
    """Return the width of a figure, or of a part of one, in inches."""
    return float(figure.bbox.width / figure.figure.dpi)


def plain(text: Any) -> str:
    """Return a text of the user as a label: shortened if it is long, and never interpreted as a formula."""
    words = " ".join(str(text).split())
    short = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    return short.replace("$", r"\$")


def number(value: Any) -> str:
    """Return a value of a sweep as a label: 1000 for 1000.0, ∞ for inf."""
    if not isinstance(value, float):
        return plain(value)
    whole = value.is_integer() and abs(value) < 1e6
    return f"{value:.0f}" if whole else f"{value:.3g}".replace("inf", "∞")


def short(key: str) -> str:
    """Return the axis label of a key: its special name if it has one, otherwise its last word."""
    word = key.rpartition(".")[2].replace("_", " ").replace("epsilon", "ε").replace("lambda", "λ")
    return KEYS.get(key, plain(word))


def say(figure: Figure, note: str) -> None:
    """Write the note of the data above all panels."""
    if note:
        figure.suptitle(plain_lines(note), x=0.01, ha="left", **NOTE_STYLE)


def plain_lines(note: str) -> str:
    """Return a note of several lines that is not interpreted as a formula."""
    return note.replace("$", r"\$")


def head(ax: Axes, note: str) -> None:
    """Write the note of the data above one panel; without a note, an existing title stays."""
    if note:
        ax.set_title(plain_lines(note), loc="left", **NOTE_STYLE)


def legend(ax: Axes, handles: list[Any], columns: int | None = None) -> None:
    """Draw a legend below the axes and their labels, where it hides nothing; inside axes that no layout moves."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = ax.figure
    words = [str(handle.get_label()) for handle in handles]
    if ax.get_subplotspec() is None:
        ax.legend(handles, [shown(word) for word in words], loc="best", frameon=True)
        return
    below = ax.transAxes + ScaledTranslation(0, -0.42, figure.dpi_scale_trans)
    ax.legend(
        handles, [shown(word) for word in words], loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below,
        borderaxespad=0, borderpad=0, ncols=columns or columns_for(words, _room_below(ax)),
    )  # fmt: skip


def _room_below(ax: Axes) -> float:
    """Return how wide a legend below axes can be, in inches."""
    place: Any = ax.get_subplotspec()
    return float(width_of(ax.figure) * len(place.colspan) / place.get_gridspec().ncols - 0.5)


def columns_for(words: list[str], inches: float, most: int = 4) -> int:
    """Return how many columns of a legend fit into a width; a column is as wide as its longest text."""
    lengths = np.array([len(word) for word in words])
    for columns in range(min(len(words), most), 1, -1):
        parts = np.array_split(lengths, columns)  # as a legend fills its columns
        if sum(0.6 + 0.055 * int(part.max()) for part in parts) <= inches:
            return columns
    return 1


def lines_of(words: list[str], inches: float) -> int:
    """Return the number of lines of a legend with these texts."""
    return -(-len(words) // columns_for(words, inches)) if words else 0


def shown(word: str) -> str:
    """Return a name for a legend, in which a leading underscore would hide it."""
    return f"\u200a{word}" if word.startswith("_") else word


def beneath(figure: Figure, handles: list[Any], most: int = 4, title: str = "") -> None:
    """Draw a legend for all panels, below them."""
    words = [str(handle.get_label()) for handle in handles]
    columns = columns_for(words, width_of(figure), most)
    figure.legend(
        handles, [shown(word) for word in words], loc="outside lower center", ncols=columns, title=title or None
    )


def within_shares(axes: Any, metric: str) -> None:
    """Limit an axis of shares to 0 and 1."""
    for ax in np.ravel(axes) if is_share(metric) else ():
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, -SHARE_MARGIN), min(high, 1 + SHARE_MARGIN))


def cycles(ax: Axes, log: bool = True) -> None:
    """Set up the axis of cycles."""
    if log:
        ax.set_xscale("log")
        _plain_ticks(ax.xaxis)
    ax.set_xlabel("cycle")


def _plain_ticks(axis: Any) -> None:
    """Set ticks 1, 10, 100 instead of powers; on an axis of a few decades also values in between."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    narrow = low > 0 and high / low < 150
    steps = (1, 2, 3, 5) if high < 10 * low else (1, 2, 5) if narrow else (1,)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: thousands(value)))
    axis.set_minor_formatter(NullFormatter())


def thousands(value: float, largest: float | None = None) -> str:
    """Return a count as a tick label: in thousands or millions if the largest tick is that large."""
    largest = abs(value) if largest is None else largest
    if value == 0 or largest < 10_000:
        return f"{value:g}"
    return f"{value / 1e6:g}M" if largest >= 1e6 else f"{value / 1000:g}k"


def save(ax: Axes, folder: Path, name: str) -> list[Path]:
    """Write the figure of the axes as PNG, SVG and PDF, and close it."""
    return saved(ax, [folder / f"{name}.{kind}" for kind in FORMATS])


def saved(ax: Axes, paths: list[Path]) -> list[Path]:
    """Write the figure of the axes to files, in the formats of their endings, and close it."""
    import matplotlib.pyplot as plt

    figure: Any = ax.figure.figure
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # the same figure gives the same bytes
    with styled():
        for path in paths:
            figure.savefig(path, metadata=dates.get(path.suffix))
    plt.close(figure)
    return paths
