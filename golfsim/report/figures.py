"""Figures from a tidy log: each function takes a DataFrame and returns matplotlib Axes; nothing global is altered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.errors import UserError, nearest
from golfsim.log import COLUMNS, note_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from golfsim.settings import PlotConfig

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
NOTE_STYLE: Any = {"fontsize": "small", "color": GREY, "wrap": True}
MOST_BANDS = 3
FEW_DECADES, MOST_TICKS = 30, 5
LINE_HEIGHT = 0.055  # of a label, as a share of the axes


def of(plot: PlotConfig, frame: pd.DataFrame) -> Axes:
    """The picture that a scenario asks for."""
    frame = frame if plot.layer is None else only(frame, plot.layer)
    if plot.kind == "heatmap":
        assert plot.rows is not None
        assert plot.columns is not None
        return heatmap(frame, plot.rows, plot.columns, plot.metric)
    if plot.kind == "lines":
        assert plot.x is not None
        assert plot.lines is not None
        return lines(frame, plot.x, plot.lines, plot.metric)
    return convergence(frame)


def only(frame: pd.DataFrame, layer: str) -> pd.DataFrame:
    """The rows of one layer."""
    rows = frame[frame["layer"] == layer]
    if rows.empty:
        known = [str(name) for name in frame["layer"].unique()]
        raise UserError(f"no layer is called “{layer}”", key="plot.layer", hint=nearest(layer, known))
    return rows


def convergence(frame: pd.DataFrame, metric: str = "error", ax: Axes | None = None) -> Axes:
    """A curve over cycles for each learning layer and each point of a sweep.

    The line is the mean over nodes and runs; the band is where 90 % of the nodes are.
    """
    import matplotlib.pyplot as plt
    import seaborn as sns

    curves = _curves(frame, metric)
    wide = _with_bands(curves, metric)
    with plt.rc_context(STYLE):
        if ax is None:
            ax = plt.subplots(figsize=(5 if len(curves) == 1 else 6.5, 3.2), layout="constrained")[1]
        colours = sns.color_palette("colorblind", len(curves))
        for (name, curve), colour, dash in zip(curves.items(), colours, DASHES * len(curves), strict=False):
            marker = "o" if len(curve) == 1 else None
            ax.plot(curve.index, curve[f"{metric}.mean"], dash, color=colour, marker=marker, label=name)
            if name in wide:
                ax.fill_between(
                    curve.index, curve[f"{metric}.q05"], curve[f"{metric}.q95"], color=colour, alpha=0.18, lw=0
                )
        _dress(ax, LABELS.get(metric, metric))
        _explain(ax, frame["run"].nunique())
        if len(curves) > 1:
            _name_the_ends(ax)
        if note_of(frame):
            ax.set_title(note_of(frame), loc="left", **NOTE_STYLE)
    return ax


def _with_bands(curves: dict[str, pd.DataFrame], metric: str) -> set[str]:
    """The curves whose nodes differ, unless these are so many that their bands would hide each other."""
    found = {
        name
        for name, curve in curves.items()
        if f"{metric}.q05" in curve and (curve[f"{metric}.q95"] > curve[f"{metric}.q05"]).any()
    }
    return found if len(found) <= MOST_BANDS else set()


def varied(frame: pd.DataFrame) -> list[str]:
    """The columns by which the points of a sweep differ."""
    extra = [name for name in frame.columns if name not in (*COLUMNS, "path")]
    return [name for name in extra if frame[name].nunique(dropna=False) > 1]


def _curves(frame: pd.DataFrame, metric: str) -> dict[str, pd.DataFrame]:
    """For each layer that has the metric, at each point, its statistics by cycle as means over runs."""
    points = varied(frame)
    keys = ["layer", *points]
    rows = frame[frame["metric"].astype(str).str.startswith(f"{metric}.")]
    if not (rows["metric"] == f"{metric}.mean").any():
        known = {str(name).removesuffix(".mean") for name in frame["metric"].unique() if str(name).endswith(".mean")}
        raise UserError(f"no layer has the metric “{metric}”", hint=nearest(metric, sorted(known)))
    layers = rows["layer"].nunique()
    found = {}
    for values, part in rows.groupby(keys, observed=True, sort=False):
        wide = part.pivot_table(index="cycle", columns="metric", values="value", aggfunc="mean", observed=True)
        words = [str(value) for value in values]
        found[", ".join(words if layers > 1 or not points else words[1:])] = wide
    return found


def last_means(frame: pd.DataFrame, metric: str | tuple[str, ...], keys: list[str]) -> pd.DataFrame:
    """Metrics at each point's last cycle: mean and standard error over runs, by the keys given."""
    wanted = {f"{name}.mean": name for name in ((metric,) if isinstance(metric, str) else metric)}
    rows = frame[frame["metric"].isin(wanted)]
    missing = set(wanted) - set(rows["metric"])
    if missing:
        raise UserError(f"no layer has the metric “{wanted[min(missing)]}”", key="plot.metric")
    unknown = [key for key in keys if key not in frame]
    if unknown:
        raise UserError(f"the sweep does not vary “{unknown[0]}”", hint=nearest(unknown[0], varied(frame)))
    groups = [*varied(frame), "run"]
    last = rows[rows["cycle"] == rows.groupby(groups, observed=True)["cycle"].transform("max")]
    last = last.assign(metric=last["metric"].astype(str).map(wanted))
    return last.groupby(keys, observed=True, sort=False)["value"].agg(["mean", "sem"]).reset_index()


def _facets(frame: pd.DataFrame, used: list[str]) -> list[tuple[str, pd.DataFrame]]:
    """The part of the log for each combination of the keys that a figure does not show by itself.

    A key that goes with those shown (λ with ε, in a zip group) needs no panels of its own.
    """
    shown = [key for key in used if key in varied(frame)]
    points = frame[varied(frame)].drop_duplicates()
    rest: list[str] = []
    for key in varied(frame):
        if key not in used and not _goes_with(points, [*shown, *rest], key):
            rest.append(key)
    if not rest:
        return [("", frame)]
    parts = frame.groupby(rest, observed=True, sort=False)
    return [(", ".join(map(str, values)), part) for values, part in parts]


def _goes_with(points: pd.DataFrame, shown: list[str], key: str) -> bool:
    if not shown:
        return False
    return bool((points.groupby(shown, observed=True, dropna=False)[key].nunique(dropna=False) == 1).all())


def heatmap(frame: pd.DataFrame, rows: str, columns: str, metric: str | tuple[str, ...] = "accuracy") -> Axes:
    """The metrics' means over runs for each pair of values, a panel for each combination of the other keys."""
    import matplotlib.pyplot as plt
    import seaborn as sns

    parts = _facets(frame, [rows, columns])
    label = _common(metric)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(parts), figsize=(0.6 + 3.3 * len(parts), 2.9), layout="constrained", squeeze=False
        )
        for ax, (title, part) in zip(axes[0], parts, strict=True):
            means = last_means(part, metric, [rows, columns])
            table = means.pivot_table(index=rows, columns=columns, values="mean", observed=True, sort=False)
            sns.heatmap(
                table, ax=ax, annot=True, fmt=".2f", vmin=0, vmax=1, cmap="cividis", cbar=ax is axes[0, -1],
                annot_kws={"size": 7}, cbar_kws={"label": label},
            )  # fmt: skip
            ax.set(title=title, xlabel="", ylabel=_short(rows) if ax is axes[0, 0] else "")
            ax.grid(visible=False)
            ax.set_yticklabels([_number(value) for value in table.index], rotation=0)
            ax.tick_params(axis="x", rotation=45)
        say(figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def lines(frame: pd.DataFrame, x: str, by: str, metric: str | tuple[str, ...] = "accuracy") -> Axes:
    """The metrics' means over runs against a key, with standard errors; a panel for each combination of the others."""
    import matplotlib.pyplot as plt
    import seaborn as sns

    parts = _facets(frame, [x, by])
    label = _common(metric)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(parts), figsize=(0.4 + 3 * len(parts), 3.6), layout="constrained", squeeze=False, sharey=True
        )
        for ax, (title, part) in zip(axes[0], parts, strict=True):
            means = last_means(part, metric, [by, x])
            names = list(dict.fromkeys(means[by]))
            colours = sns.color_palette("colorblind", len(names))
            for name, colour, dash in zip(names, colours, DASHES * len(names), strict=False):
                curve = means[means[by] == name].astype({x: float}).sort_values(x)
                ax.errorbar(
                    curve[x], curve["mean"], curve["sem"], fmt=dash, color=colour, label=str(name), capsize=2, lw=1.3
                )
            ax.set(title=title, xscale="log", xlabel=_short(x), ylabel=label if ax is axes[0, 0] else "")
            _tick(ax, means[x].astype(float).unique())
        handles, labels = axes[0, 0].get_legend_handles_labels()
        columns = min(len(labels), 3, 1 + len(parts))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        say(figure, note_of(frame))
    return axes[0, 0]  # type: ignore[no-any-return]


def _tick(ax: Axes, values: Any) -> None:
    """Ticks at decades, or where the axis has hardly any of these, at some of the values."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    if values.min() > 0 and values.max() / values.min() < FEW_DECADES:
        ax.set_xticks(sorted(values)[:: -(-len(values) // MOST_TICKS)])
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def say(figure: Figure, note: str) -> None:
    """Above all panels, what a picture of these data has to say."""
    if note:
        figure.suptitle(note, x=0.01, ha="left", **NOTE_STYLE)


def _number(value: Any) -> str:
    """A value of a sweep as a tick label: 100 for 100.0, ∞ for inf."""
    return f"{value:g}".replace("inf", "∞") if isinstance(value, float) else str(value)


def _common(metric: str | tuple[str, ...]) -> str:
    """What an axis is called: the metric, or the last word of several (local_error, error)."""
    return metric if isinstance(metric, str) else metric[0].rpartition("_")[2]


def _short(key: str) -> str:
    """A key's last word; ε for epsilon."""
    word = key.rpartition(".")[2]
    return "ε" if word == "epsilon" else word


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
