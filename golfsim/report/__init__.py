"""From the log to figures, and to pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_CURVES = 24


@dataclass(frozen=True)
class Drawing:
    """A figure that fits a log: what it is called and shows, how to draw it, and the data behind it.

    The data of `curves` have the columns cycle, curve, mean, low and high (no value where there is no band).
    """

    name: str
    title: str
    caption: str
    draw: Callable[[], Axes]
    data: pd.DataFrame
    kind: Literal["curves", "picture", "animation"]


def fitting(frame: pd.DataFrame, nodes: Any = None, links: Any = None) -> list[Drawing]:
    """The figures that a log has the data for."""
    return [*_convergence(frame), *_final(frame)]


def _convergence(frame: pd.DataFrame) -> Iterator[Drawing]:
    from golfsim.report import figures

    if not (frame["metric"] == "error.mean").any():
        return
    data = _long(figures._curves(frame, "error"))
    if data["curve"].nunique() <= MOST_CURVES:
        caption = "0-1 error on the test set: mean over nodes and runs; the band is where 90 % of the nodes are."
        yield Drawing("convergence", "Convergence", caption, lambda: figures.convergence(frame), data, "curves")


def _long(curves: dict[str, pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    names = {"error.mean": "mean", "error.q05": "low", "error.q95": "high"}
    parts = [curve.reindex(columns=list(names)).rename(columns=names).assign(curve=n) for n, curve in curves.items()]
    return pd.concat([part.reset_index() for part in parts])[["cycle", "curve", "mean", "low", "high"]]


def _final(frame: pd.DataFrame) -> Iterator[Drawing]:
    from golfsim.report import figures

    keys = figures.varied(frame)
    if len(keys) < 2 or not (frame["metric"] == "accuracy.mean").any():
        return
    data = figures.last_means(frame, "accuracy", keys[:2])
    caption = f"Accuracy at the last cycle by {keys[0]} and {keys[1]}, mean over runs."
    yield Drawing(
        "heatmap", "Accuracy at the end", caption, lambda: figures.heatmap(frame, keys[1], keys[0]), data, "picture"
    )
