"""Figures from a tidy log: each function takes a DataFrame and returns matplotlib Axes; nothing global is altered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "svg.fonttype": "none",
    "svg.hashsalt": "golfsim",
    "savefig.dpi": 200,
}
DASHES = ["-", "--", "-.", ":"]


def convergence(frame: pd.DataFrame, metric: str = "error", ax: Axes | None = None) -> Axes:
    """A curve for each learning layer over cycles: the mean over runs, and the band where 90 % of the nodes are."""
    import matplotlib.pyplot as plt
    import seaborn as sns

    with plt.rc_context(STYLE):
        if ax is None:
            ax = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
        wide = frame.pivot_table(
            index=["layer", "cycle"], columns="metric", values="value", aggfunc="mean", observed=True
        )
        layers = list(wide[f"{metric}.mean"].dropna().index.unique("layer"))
        colours = sns.color_palette("colorblind", len(layers))
        for layer, colour, dash in zip(layers, colours, DASHES * len(layers), strict=False):
            curve = wide.loc[layer]
            ax.fill_between(curve.index, curve[f"{metric}.q05"], curve[f"{metric}.q95"], color=colour, alpha=0.2, lw=0)
            ax.plot(curve.index, curve[f"{metric}.mean"], dash, color=colour, label=layer)
        ax.set(xscale="log", xlabel="cycle", ylabel=f"0-1 {metric}" if metric == "error" else metric)
        ax.set_ylim(bottom=0)
        if len(layers) > 1:
            ax.legend(frameon=False)
    return ax


def save(ax: Axes, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG and close it."""
    import matplotlib.pyplot as plt

    figure: Any = ax.figure
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    with plt.rc_context(STYLE):
        for path in paths:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return paths
