"""One style for all figures: sizes of a two-column paper, colours that stay apart for everybody, and in grey."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
    "legend.handlelength": 2.6,  # long enough to tell dashes apart
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
    "savefig.dpi": 300,
}
# Okabe & Ito, without the yellow that vanishes on paper; green is late, since some people take it for the blue
PALETTE = ("#0072B2", "#D55E00", "#000000", "#CC79A7", "#009E73", "#56B4E9", "#E69F00", "#7F7F7F")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))  # curves stay apart in grey print
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
COLOURS = "cividis"  # of maps: even in lightness, so that grey print keeps the order
GREY = "0.35"
OFFLINE = "0.85"
NOTE_STYLE: Any = {"fontsize": 7, "color": GREY, "wrap": True}
KEYS = {"nodes.number": "nodes", "nodes.records": "records a node", "data.train": "training records"}
SHARES = ("error", "voted_error", "accuracy", "auc", "f1", "label.linear")  # metrics between 0 and 1
SHARE_MARGIN = 0.03
LONGEST = 44  # letters of a label: what fits into a column of a paper


@dataclass(frozen=True)
class Look:
    """How one of several curves looks."""

    colour: str
    dash: Any
    marker: str


def look(number: int) -> Look:
    """The look of the curve with that number: no two of the first 280 are alike, nor of the first 35 in grey."""
    return Look(PALETTE[number % len(PALETTE)], DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)])


@contextmanager
def styled() -> Iterator[None]:
    """Our style while a figure is drawn; afterwards, whatever happens, all is as it was."""
    import matplotlib.pyplot as plt

    plt.draw_if_interactive()  # wakes the backend: a notebook's becomes interactive then, which must outlast the style
    with plt.rc_context(STYLE):
        yield


def panel(ax: Axes | None, width: float = COLUMN, height: float = HEIGHT) -> Axes:
    """The axes given, or those of a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


def panels(figure: Figure | None, rows: int, columns: int, size: tuple[float, float], **how: Any) -> Any:
    """Rows × columns of axes in the figure given, or in a new one of that size."""
    import matplotlib.pyplot as plt

    if figure is None:
        figure = plt.figure(figsize=size, layout="constrained")
    return figure.subplots(rows, columns, squeeze=False, **how)


def plain(text: Any) -> str:
    """A word of the user's as a label: shortened where it is endless, and never taken for a formula."""
    words = " ".join(str(text).split())
    short = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    return short.replace("$", r"\$")


def number(value: Any) -> str:
    """A value of a sweep as a label: 1000 for 1000.0, ∞ for inf."""
    if not isinstance(value, float):
        return plain(value)
    whole = value.is_integer() and abs(value) < 1e6
    return f"{value:.0f}" if whole else f"{value:.3g}".replace("inf", "∞")


def short(key: str) -> str:
    """What stands at the axis of a key: its own name where it has one, else its last word."""
    word = key.rpartition(".")[2].replace("_", " ").replace("epsilon", "ε").replace("lambda", "λ")
    return KEYS.get(key, plain(word))


def say(figure: Figure, note: str) -> None:
    """Above all panels, what a picture of these data has to say."""
    if note:
        figure.suptitle(plain_lines(note), x=0.01, ha="left", **NOTE_STYLE)


def plain_lines(note: str) -> str:
    """A note of several lines, none of which is a formula."""
    return note.replace("$", r"\$")


def head(ax: Axes, note: str) -> None:
    """Above one panel, what a picture of these data has to say; a title that is there already is else kept."""
    if note:
        ax.set_title(plain_lines(note), loc="left", **NOTE_STYLE)


def legend(ax: Axes, handles: list[Any], columns: int | None = None) -> None:
    """A key beneath the axes and their labels, where it hides nothing."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = ax.figure
    words = [str(handle.get_label()) for handle in handles]
    below = ax.transAxes + ScaledTranslation(0, -0.42, figure.dpi_scale_trans)
    ax.legend(
        handles, [shown(word) for word in words], loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below,
        borderaxespad=0, borderpad=0, ncols=columns or columns_for(words, figure.get_figwidth() - 0.5),
    )  # fmt: skip


def columns_for(words: list[str], inches: float, most: int = 4) -> int:
    """How many columns of a key fit into a width; a column is as wide as its longest word."""
    lengths = np.array([len(word) for word in words])
    for columns in range(min(len(words), most), 1, -1):
        parts = np.array_split(lengths, columns)  # as a legend fills its columns
        if sum(0.6 + 0.055 * int(part.max()) for part in parts) <= inches:
            return columns
    return 1


def lines_of(words: list[str], inches: float) -> int:
    """How many lines a key of these words takes."""
    return -(-len(words) // columns_for(words, inches)) if words else 0


def shown(word: str) -> str:
    """A name in a key, where a leading underscore would hide it."""
    return f"\u200a{word}" if word.startswith("_") else word


def beneath(figure: Figure, handles: list[Any], most: int = 4, title: str = "") -> None:
    """A key for all panels, below them."""
    words = [str(handle.get_label()) for handle in handles]
    columns = columns_for(words, figure.get_figwidth(), most)
    figure.legend(
        handles, [shown(word) for word in words], loc="outside lower center", ncols=columns, title=title or None
    )


def within_shares(axes: Any, metric: str) -> None:
    """An axis of shares ends at 0 and 1: the interval of a few runs may reach beyond, no value does."""
    for ax in np.ravel(axes) if metric in SHARES else ():
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, -SHARE_MARGIN), min(high, 1 + SHARE_MARGIN))


def cycles(ax: Axes, log: bool = True) -> None:
    """The axis of time."""
    if log:
        ax.set_xscale("log")
        _plain_ticks(ax.xaxis)
    ax.set_xlabel("cycle")


def _plain_ticks(axis: Any) -> None:
    """1, 10, 100 instead of powers; where the axis spans less than a decade, values in between."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    narrow = low > 0 and high / low < 150
    steps = (1, 2, 3, 5) if high < 10 * low else (1, 2, 5) if narrow else (1,)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: thousands(value)))
    axis.set_minor_formatter(NullFormatter())


def thousands(value: float, largest: float | None = None) -> str:
    """A count as a tick label: in thousands, or millions, where the largest one beside it is that large."""
    largest = abs(value) if largest is None else largest
    if value == 0 or largest < 10_000:
        return f"{value:g}"
    return f"{value / 1e6:g}M" if largest >= 1e6 else f"{value / 1000:g}k"


def save(ax: Axes, folder: Path, name: str) -> list[Path]:
    """Write the figure of the axes as PNG and SVG and close it."""
    import matplotlib.pyplot as plt

    figure: Any = ax.figure
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    with styled():
        for path in paths:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return paths
