"""Which figures make sense for what a log has, each with a title, a caption and the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from golfsim.report import curves, figures, grids, judgement, networks, numbers, style
from golfsim.report.captions import bands, bars, capital, caption, who
from golfsim.sim.log import note_of, noted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Kind = Literal["curves", "picture", "animation"]
MOST_CURVES = 8
MOST_PANELS = 6
MOST_ROWS = 20  # of a table
OTHER_METRICS = ("voted_error", "auc", "f1")
MOST_DRAWN = 3  # overlays or layers that get a picture each


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn: `data` are the numbers it shows."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Axes]
    data: pd.DataFrame
    kind: Kind = "curves"
    animate: Callable[[Path], Any] | None = None

    def save(self, folder: Path) -> list[Path]:
        """Write it as PNG and SVG; an animation as a GIF."""
        if self.animate is None:
            return style.save(self.draw(), folder, self.name)
        path = folder / f"{self.name}.gif"
        self.animate(path)
        return [path]


def fitting(frame: pd.DataFrame, nodes: pd.DataFrame | None = None, links: pd.DataFrame | None = None) -> list[Drawing]:
    """The figures that make sense for a log, and for the tables beside it."""
    parts = (_convergence, _over_sweeps, _over_time, _overlay, _judged)
    found = [drawing for part in parts for drawing in part(frame)]
    found += _followed(nodes) if nodes is not None and len(nodes) else []
    found += _drawn(links, nodes) if links is not None and len(links) else []
    return found


# Over cycles


def _several_cycles(frame: pd.DataFrame, metric: str) -> bool:
    """Whether the metric is a curve anywhere, and not only single points."""
    rows = frame[(frame["metric"] == metric) & frame["value"].notna()]
    if rows.empty:
        return False
    groups = rows.groupby([*numbers.varied(rows), "layer"], observed=True, dropna=False)
    return bool(groups["cycle"].nunique().max() > 1)


def _convergence(frame: pd.DataFrame) -> Iterator[Drawing]:
    for metric in ("error", *OTHER_METRICS):
        if _several_cycles(frame, f"{metric}.mean"):
            yield _convergence_of(frame, metric)


def _convergence_of(frame: pd.DataFrame, metric: str) -> Drawing:
    label, over = numbers.label_of(metric), figures.splitting(frame, metric)
    found = numbers.curves(frame, metric) if over is None else curves.multiples(frame, over, metric)
    names = found["curve"].nunique()
    panels = f" in a panel for each value of {over}" if over else ""
    what = f"{capital(label)} after each measured cycle, {names} curve{'s' if names > 1 else ''}{panels}."
    text = caption(frame, what, who(frame, of_nodes=True), bands(found))
    title = "Convergence" if metric == "error" else capital(label)
    name = "convergence" if metric == "error" else f"convergence-{metric}"
    return Drawing(name, title, text, partial(figures.curves_of, frame, metric), found)


def _over_time(frame: pd.DataFrame) -> Iterator[Drawing]:
    if _several_cycles(frame, "spent.mean") and _few(frame, "spent.mean") is not None:
        both = curves.spent_numbers(frame)
        what = "The ε that records have spent so far: mean over records, and the largest."
        yield Drawing(
            "spent", "Spent ε", caption(frame, what, who(frame), bands(both)), partial(curves.spent, frame), both
        )
    if frame.loc[frame["metric"] == "online", "value"].nunique() > 1 and (found := _few(frame, "online")) is not None:
        what = "How many nodes are online after each measured cycle."
        yield Drawing(
            "online", "Churn", caption(frame, what, who(frame), bands(found)), partial(curves.online, frame), found
        )
    sent = frame[(frame["metric"] == "messages.sent") & (frame["value"] > 0)]
    if sent["cycle"].nunique() > 1 and _few(curves.sending(frame), "messages.sent") is not None:
        what = "Messages that each layer sends a cycle, averaged since the cycle measured before."
        found = numbers.rates(curves.sending(frame), "messages.sent")
        yield Drawing(
            "messages",
            "Messages",
            caption(frame, what, who(frame), bands(found)),
            partial(curves.messages, frame),
            found,
        )


def _few(frame: pd.DataFrame, metric: str) -> pd.DataFrame | None:
    """The curves of a metric, unless there are too many for a picture."""
    found = numbers.plain_metric(frame, metric)
    return found if found["curve"].nunique() <= MOST_CURVES else None


def _overlay(frame: pd.DataFrame) -> Iterator[Drawing]:
    if not numbers.has(frame, "indegree.mean"):
        return
    found = numbers.curves(frame, "indegree")
    if found["curve"].nunique() > MOST_CURVES:
        return
    what = "In-degree, mean path length, clustering and the share of dead links of each overlay, between nodes online."
    if found["cycle"].nunique() > 1:
        text = caption(frame, what, who(frame))
        draw, data = partial(curves.overlay, frame), curves.overlay_numbers(frame)
        yield Drawing("overlay", "The overlay over time", text, draw, data, "picture")
    what = (
        "The share of nodes with at most so many links to them after the last measured cycle, as far as quantiles tell."
    )
    degrees = networks.logged_degrees(frame)
    text = caption(frame, what, who(frame))
    yield Drawing("degrees", "Degree distribution", text, partial(networks.degrees, frame), degrees)


# Over a sweep


def _over_sweeps(frame: pd.DataFrame) -> Iterator[Drawing]:
    metric = "accuracy" if numbers.has(frame, "accuracy.mean") else "error"
    if not numbers.has(frame, f"{metric}.mean"):
        return
    rows = numbers.rows_of(frame, metric)
    keys = numbers.keys_of(rows)
    count = {key: int(rows[key].nunique()) for key in keys}
    x = next((key for key in keys if _is_number(rows, key)), None)
    if x is not None:
        by = _telling(keys, count, x)
        if prod(count[key] for key in keys if key not in (x, by)) <= MOST_PANELS:
            yield _against(frame, metric, x, by)
    if len([key for key in keys if key != "layer"]) > 1:
        yield from _map(frame, metric, keys, count)


def _is_number(rows: pd.DataFrame, key: str) -> bool:
    return key != "layer" and all(isinstance(v, int | float) and not isinstance(v, bool) for v in rows[key].unique())


def _telling(keys: list[str], count: dict[str, int], x: str) -> str | None:
    """The key that tells lines apart: the case, or the one with the most values that still can be."""
    others = [key for key in keys if key != x and count[key] <= MOST_CURVES]
    return "case" if "case" in others else max(others, key=lambda key: count[key], default=None)


def _against(frame: pd.DataFrame, metric: str, x: str, by: str | None) -> Drawing:
    """The end of runs over a number: ε with the attack beneath, a size, or anything else with error bars."""
    others = [key for key in numbers.keys_of(numbers.rows_of(frame, metric)) if key not in (x, by)]
    found = numbers.last_means(frame, metric, [*([by] if by else []), x, *others])
    what = f"{capital(numbers.label_of(metric))} at the end of each run over {x}{f', by {by}' if by else ''}."
    if x.rpartition(".")[2] == "epsilon":
        beneath = (
            "Beneath, the share of labels that the best linear guess recovers from what was published."
            if numbers.has(frame, "label.linear")
            else ""
        )
        text = caption(frame, what, beneath, who(frame, of_nodes=True), bars(found))
        draw = partial(grids.privacy_utility, frame, x, by, metric)
        return Drawing("privacy-utility", "Privacy and utility", text, draw, found, "picture")
    if x in grids.SIZES:
        text = caption(frame, what, who(frame, of_nodes=True), bars(found))
        draw = partial(grids.learning_curve, frame, x, by, metric)
        return Drawing("learning-curve", "Learning curve", text, draw, found, "picture")
    if others:
        text = caption(frame, what, who(frame, of_nodes=True), bars(found))
        return Drawing("lines", f"Over {x}", text, partial(grids.lines, frame, x, by, metric), found, "picture")
    text = caption(
        frame, what, who(frame, of_nodes=True), bars(found), "Light bars are standard deviations over nodes."
    )
    found = grids.spreads(frame, x, by, metric)
    return Drawing("bars", f"Over {x}", text, partial(grids.bars, frame, x, by, metric), found, "picture")


def _map(frame: pd.DataFrame, metric: str, keys: list[str], count: dict[str, int]) -> Iterator[Drawing]:
    own = [key for key in keys if key != "layer"]
    rows = next((key for key in own if key.rpartition(".")[2] == "epsilon"), own[0])
    others = [key for key in own if key != rows]
    columns = "case" if "case" in others else max(others, key=lambda key: count[key])
    if max(count[rows], count[columns]) > 20 or prod(count[k] for k in keys if k not in (rows, columns)) > MOST_PANELS:
        return
    what = f"{capital(numbers.label_of(metric))} at the end of each run by {rows} and {columns}."
    found = numbers.last_means(frame, metric, [rows, columns, *(k for k in keys if k not in (rows, columns))])
    text = caption(frame, what, who(frame, of_nodes=True))
    yield Drawing("heatmap", "Heat-map", text, partial(grids.heatmap, frame, rows, columns, metric), found, "picture")


# One classifier


def _judged(frame: pd.DataFrame) -> Iterator[Drawing]:
    names = frame["metric"].astype(str)
    yield from _matrices(frame[names.str.match(judgement.CELL)])
    if (
        names.str.match(judgement.POINT).any()
        and (found := judgement.roc_points(frame))["curve"].nunique() <= MOST_CURVES
    ):
        what = "The ROC curve of one node at the end of each run."
        text = caption(frame, what, who(frame))
        yield Drawing("roc", "ROC curve", text, partial(judgement.roc, frame), found, "picture")
    if _several_cycles(frame, "accuracy.mean") and numbers.curves(frame, "accuracy")["curve"].nunique() <= MOST_ROWS:
        yield _times(frame)


def _matrices(frame: pd.DataFrame) -> Iterator[Drawing]:
    """A confusion matrix for each layer at each point, unless they are too many to look at."""
    if frame.empty:
        return
    keys = numbers.distinct(frame, numbers.varied(frame))
    points = list(frame.groupby(["layer", *keys], observed=True, sort=False, dropna=False))
    for place, ((layer, *values), part) in enumerate(points if len(points) <= MOST_PANELS else [], 1):
        name = f"confusion-{layer}" + (f"-{place}" if keys else "")
        yield _matrix(noted(part, [note_of(frame)]), str(layer), numbers.named(keys, values), name)


def _matrix(frame: pd.DataFrame, layer: str, point: str, name: str) -> Drawing:
    found = judgement.confusion_counts(frame, layer)
    what = f"How many test records of each class one node of “{layer}” predicts to be of each, at the end of each run."
    text = caption(frame, what, "Shades are shares of the actual class.", who(frame))
    draw = partial(judgement.confusion, frame, layer)
    title = f"Confusion matrix of {layer}" + (f", {point}" if point else "")
    return Drawing(name, title, text, draw, found.reset_index(), "picture")


def _times(frame: pd.DataFrame) -> Drawing:
    """Thresholds are shares of the best accuracy seen, rounded: they fit whatever the problem."""
    best = float(numbers.curves(frame, "accuracy")["mean"].max())
    thresholds = tuple(dict.fromkeys(round(best * share, 2) for share in (0.8, 0.9, 0.95)))
    found = numbers.time_to(frame, thresholds)
    what = "The first measured cycle in which the mean accuracy over nodes is at least so high: median over runs."
    some = (
        "Fractions say how many of the runs get there, where not all do."
        if (found["reached"] < found["runs"]).any()
        else ""
    )
    text = caption(frame, what, some, who(frame, mean=False))
    draw = partial(judgement.time_table, frame, thresholds)
    return Drawing("time-to-accuracy", "Time to accuracy", text, draw, found, "picture")


# Single nodes


def _followed(nodes: pd.DataFrame) -> Iterator[Drawing]:
    learnt = nodes.dropna(subset="error")
    for layer in list(dict.fromkeys(map(str, learnt["layer"])))[:MOST_DRAWN]:
        own, _ = networks.one_layer(nodes, layer, "error")
        if own["cycle"].nunique() > 1:
            yield _raster(nodes, own, layer)


def _raster(nodes: pd.DataFrame, own: pd.DataFrame, layer: str) -> Drawing:
    many, run = own["node"].nunique(), own["run"].iloc[0]
    what = f"The error of {many:,} nodes of “{layer}” after each measured cycle of run {run}; grey: offline."
    draw = partial(networks.raster, nodes, layer)
    return Drawing(f"raster-{layer}", f"Nodes of {layer}", caption(nodes, what), draw, own, "picture")


def _drawn(links: pd.DataFrame, nodes: pd.DataFrame | None) -> Iterator[Drawing]:
    for layer in list(dict.fromkeys(map(str, links["layer"])))[:MOST_DRAWN]:
        own, _ = networks.one_layer(links, layer)
        yield _network(links, nodes, own, layer)
        if own["cycle"].nunique() > 1:
            yield _moving(links, nodes, own, layer)


def _network(links: pd.DataFrame, nodes: pd.DataFrame | None, own: pd.DataFrame, layer: str) -> Drawing:
    end = own[own["cycle"] == own["cycle"].max()]
    cycle, run = end["cycle"].iloc[0], end["run"].iloc[0]
    what = f"Who knows whom in “{layer}” after cycle {cycle} of run {run}: {len(end):,} links."
    hollow = "Hollow nodes are offline." if nodes is not None else ""
    draw = partial(networks.drawing, links, nodes, layer=layer)
    return Drawing(f"network-{layer}", f"The network of {layer}", caption(links, what, hollow), draw, end, "picture")


def _moving(links: pd.DataFrame, nodes: pd.DataFrame | None, own: pd.DataFrame, layer: str) -> Drawing:
    shown, run = len(networks.some_cycles(own)), own["run"].iloc[0]
    what = f"Who knows whom in “{layer}” over {shown} cycles of run {run}, each node always at the same place."
    draw = partial(networks.drawing, links, nodes, layer=layer)
    write = partial(networks.animation, links, nodes, layer=layer)
    return Drawing(
        f"moving-{layer}", f"The network of {layer} over time", caption(links, what), draw, own, "animation", write
    )
