"""Figures from a tidy log: each function takes a DataFrame and returns matplotlib Axes; nothing global is altered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.errors import UserError, nearest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "svg.fonttype": "none",
    "svg.hashsalt": "golfsim",
    "savefig.dpi": 200,
}
DASHES = ["-", "--", "-.", ":"]  # curves stay apart in grey print
LABELS = {"error": "0-1 error on the test set", "voted_error": "0-1 error of the vote", "age": "updates of a model"}
GREY = "0.35"
LINE_HEIGHT = 0.055  # of a label, as a share of the axes


def convergence(frame: pd.DataFrame, metric: str = "error", ax: Axes | None = None) -> Axes:
    """A curve for each learning layer over cycles: the mean over runs, and the band where 90 % of the nodes are."""
    import matplotlib.pyplot as plt
    import seaborn as sns

    curves = _curves(frame, metric)
    with plt.rc_context(STYLE):
        if ax is None:
            ax = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
        colours = sns.color_palette("colorblind", len(curves))
        for (layer, curve), colour, dash in zip(curves.items(), colours, DASHES * len(curves), strict=False):
            marker = "o" if len(curve) == 1 else None
            ax.plot(curve.index, curve[f"{metric}.mean"], dash, color=colour, marker=marker, label=layer)
            if f"{metric}.q05" in curve:
                ax.fill_between(
                    curve.index, curve[f"{metric}.q05"], curve[f"{metric}.q95"], color=colour, alpha=0.18, lw=0
                )
        _dress(ax, LABELS.get(metric, metric))
        _explain(ax, frame["run"].nunique())
        if len(curves) > 1:
            _name_the_ends(ax)
    return ax


def _curves(frame: pd.DataFrame, metric: str) -> dict[str, pd.DataFrame]:
    """For each layer that has the metric its statistics by cycle, as means over runs."""
    wide = frame.pivot_table(index=["layer", "cycle"], columns="metric", values="value", aggfunc="mean", observed=True)
    if f"{metric}.mean" not in wide:
        known = [name.removesuffix(".mean") for name in wide.columns if name.endswith(".mean")]
        raise UserError(f"no layer has the metric “{metric}”", hint=nearest(metric, known))
    wide = wide.dropna(subset=[f"{metric}.mean"])
    return {str(layer): wide.loc[layer] for layer in wide.index.unique("layer")}


def _dress(ax: Axes, label: str) -> None:
    from matplotlib.ticker import StrMethodFormatter

    ax.set(xscale="log", xlabel="cycle", ylabel=label)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.set_ylim(bottom=0)


def _explain(ax: Axes, runs: int) -> None:
    """A key in grey that says what line and band are, whatever the layer."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    mean = "mean over nodes" + (f" and {runs} runs" if runs > 1 else "")
    handles = [Line2D([], [], color=GREY, label=mean), Patch(color=GREY, alpha=0.25, lw=0, label="5–95 % of the nodes")]
    ax.legend(handles=handles if ax.collections else handles[:1], frameon=False, fontsize="small")


def _name_the_ends(ax: Axes) -> None:
    """Each curve's name at its right end, moved apart where they would overlap."""
    top = ax.get_ylim()[1]
    lowest = -1.0
    ends: list[Any] = [(line.get_xydata()[-1], line) for line in ax.lines]  # type: ignore[index]
    for (x, y), line in sorted(ends, key=lambda end: end[0][1]):
        lowest = max(y / top, lowest + LINE_HEIGHT)
        ax.annotate(
            str(line.get_label()),
            (x, lowest),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color=line.get_color(),
            va="center",
            annotation_clip=False,
        )


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
