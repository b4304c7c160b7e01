"""The figures that suit a log, each with a title, a caption and its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from golfsim.core.words import counted
from golfsim.report import curves, distributions, figures, grids, judgement, networks, numbers, style
from golfsim.report.captions import bands, bars, capital, caption, who
from golfsim.sim.log import note_of, noted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Kind = Literal["curves", "picture", "animation"]
UNSAFE = re.compile(r"[^\w.-]")  # characters that a name of a file should not have
MOST_CURVES = 8
MOST_PANELS = 6
MOST_ROWS = 20  # of a table
OTHER_METRICS = ("nmi", "rmse", "voted_error", "auc", "f1", "label.linear", "membership.advantage")
MOST_OWN = 6  # metrics of the layers' own that get one figure each
MOST_DRAWN = 3  # overlays or layers that get one figure each


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn; `data` are the numbers that it shows."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Axes]
    data: pd.DataFrame
    kind: Kind = "curves"
    animate: Callable[[Path], Any] | None = None
    bands: frozenset[str] = frozenset()  # around curves: “runs”, “nodes”

    def save(self, folder: Path) -> list[Path]:
        """Write the figure as PNG and SVG, an animation as GIF. Return the files."""
        if self.animate is None:
            return style.save(self.draw(), folder, self.name)
        path = folder / f"{self.name}.gif"
        self.animate(path)
        return [path]


def fitting(
    frame: pd.DataFrame, nodes: pd.DataFrame | None = None, links: pd.DataFrame | None = None,
    degrees: pd.DataFrame | None = None, spent: pd.DataFrame | None = None,
) -> list[Drawing]:  # fmt: skip
    """Return the figures that suit a log and the tables next to it."""
    parts = (_convergence, _over_sweeps, _over_time, _overlay, _judged)
    found = [drawing for part in parts for drawing in part(frame)]
    found += _degrees(degrees) if degrees is not None and len(degrees) else []
    found += _spent(spent) if spent is not None and len(spent) else []
    found += _followed(nodes) if nodes is not None and len(nodes) else []
    found += _drawn(links, nodes) if links is not None and len(links) else []
    return found


# Over cycles


def _several_cycles(frame: pd.DataFrame, metric: str) -> bool:
    """Return whether the metric has several cycles at any point, and not only single values."""
    rows = frame[(frame["metric"] == metric) & frame["value"].notna()]
    if rows.empty:
        return False
    groups = rows.groupby([*numbers.varied(rows), "layer"], observed=True, dropna=False)
    return bool(groups["cycle"].nunique().max() > 1)


def _convergence(frame: pd.DataFrame) -> Iterator[Drawing]:
    own = numbers.own_metrics(frame)[:MOST_OWN]
    for metric in dict.fromkeys(("error", *OTHER_METRICS, *own)):
        if _several_cycles(frame, f"{metric}.mean") or _several_cycles(frame, metric):
            yield _convergence_of(frame, metric)


def _convergence_of(frame: pd.DataFrame, metric: str) -> Drawing:
    label, over = numbers.label_of(metric), figures.splitting(frame, metric)
    found = numbers.curves(frame, metric) if over is None else curves.multiples(frame, over, metric)
    names = found["curve"].nunique()
    panels = f", with one panel per value of {over}" if over else ""
    what = f"{capital(label)} after each measured cycle: {counted(names, 'curve')}{panels}."
    shown = frozenset(curves.bands(found))
    text = caption(frame, what, who(frame, of_nodes=numbers.over_nodes(frame, metric)), bands(found, shown))
    title = "Convergence" if metric == "error" else capital(label)
    name = "convergence" if metric == "error" else f"convergence-{UNSAFE.sub('_', metric)}"
    return Drawing(name, title, text, partial(figures.curves_of, frame, metric), found, bands=shown)


def _over_time(frame: pd.DataFrame) -> Iterator[Drawing]:
    if _several_cycles(frame, "spent.mean") and _few(frame, "spent.mean") is not None:
        parts = curves.spent_curves(frame)
        also = "; thin dotted lines are the maximum" if len(parts) > 1 else ""
        what = f"The ε that records have spent so far, as mean over records{also}."
        yield _plain(frame, "spent", "Spent ε", what, partial(curves.spent, frame), parts)
    if frame.loc[frame["metric"] == "online", "value"].nunique() > 1 and (found := _few(frame, "online")) is not None:
        what = "The number of nodes online after each measured cycle."
        yield _plain(frame, "online", "Churn", what, partial(curves.online, frame), {"": found})
    sent = frame[(frame["metric"] == "messages.sent") & (frame["value"] > 0)]
    if sent["cycle"].nunique() > 1 and _few(curves.sending(frame), "messages.sent") is not None:
        parts = curves.message_rates(frame)
        also = " Thin dotted lines are messages that are lost." if len(parts) > 1 else ""
        what = (
            f"Messages that each layer sends per cycle, averaged over the cycles since the previous measurement.{also}"
        )
        yield _plain(frame, "messages", "Messages", what, partial(curves.messages, frame), parts)


def _plain(
    frame: pd.DataFrame, name: str, title: str, what: str, draw: Callable[[], Axes], parts: dict[str, pd.DataFrame]
) -> Drawing:
    """Return the figure of one or two metrics over cycles.

    Parameters
    ----------
    frame : DataFrame
        The log.
    name, title : str
        The name of its file, and its title.
    what : str
        The sentence of the caption that states what is drawn.
    draw : callable
        The function that draws it.
    parts : dict of str to DataFrame
        The curves by metric.
    """
    shown, found = frozenset(curves.intervals(*parts.values())), curves.both_numbers(parts)
    return Drawing(name, title, caption(frame, what, who(frame), bands(found, shown)), draw, found, bands=shown)


def _few(frame: pd.DataFrame, metric: str) -> pd.DataFrame | None:
    """Return the curves of a metric, or None if there are too many for one figure."""
    found = numbers.curves(frame, metric)
    return found if found["curve"].nunique() <= MOST_CURVES else None


def _overlay(frame: pd.DataFrame) -> Iterator[Drawing]:
    if not numbers.has(frame, "indegree.mean"):
        return
    found = numbers.curves(frame, "indegree")
    if found["curve"].nunique() > MOST_CURVES:
        return
    if found["cycle"].nunique() > 1:
        *first, last = (curves.OVERLAY[part] for part in curves.overlay_parts(frame))
        what = f"{capital(' and '.join(filter(None, [', '.join(first), last])))} of each overlay, among online nodes."
        text = caption(frame, what, who(frame), bands(found, curves.overlay_bands(frame)))
        draw, data = partial(curves.overlay, frame), curves.overlay_numbers(frame)
        shown = frozenset(curves.overlay_bands(frame))
        yield Drawing("overlay", "Overlay over time", text, draw, data, "picture", bands=shown)


def _degrees(degrees: pd.DataFrame) -> Iterator[Drawing]:
    found = networks.degree_counts(degrees)
    if found["curve"].nunique() <= MOST_PANELS:
        what = "The cumulative distribution of the in-degree: the share of online nodes with at most this in-degree."
        draw = partial(networks.degrees, degrees)
        yield Drawing("degrees", "Degree distribution", caption(degrees, what), draw, found, "picture")


def _spent(spent: pd.DataFrame) -> Iterator[Drawing]:
    if (spent["spent"] < float("inf")).any() and (found := distributions.spent_curves(spent))["spent"].nunique() > 1:
        unit = "nodes" if found["by_node"].all() else "records"
        what = f"The cumulative distribution of the ε that {unit} have spent by the end of the runs."
        draw = partial(distributions.spent_by_record, spent)
        yield Drawing("spent-by-record", "ε spent by record", caption(spent, what), draw, found, "picture")


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
    """Return the key that distinguishes lines: the case, or the key with the most values that suit one panel."""
    others = [key for key in keys if key != x and count[key] <= MOST_CURVES]
    return "case" if "case" in others else max(others, key=lambda key: count[key], default=None)


def _against(frame: pd.DataFrame, metric: str, x: str, by: str | None) -> Drawing:
    """Return the figure of final values over a numeric key: ε with the attack below, a size, or any other number."""
    others = [key for key in numbers.keys_of(numbers.rows_of(frame, metric)) if key not in (x, by)]
    found = numbers.last_means(frame, metric, [*([by] if by else []), x, *others])
    what = f"{capital(numbers.label_of(metric))} at the end of each run over {x}{f', by {by}' if by else ''}."
    if x.rpartition(".")[2] == "epsilon":
        beneath = (
            "Below: the share of labels that the best linear attack recovers from the published records. "
            "The dotted line is the share of the largest class."
            if numbers.has(frame, "label.linear")
            else ""
        )
        members = (
            "The membership advantage is the true positive rate minus the false positive rate of an attacker who "
            "separates training from test records; 0 is guessing."
            if numbers.has(frame, "membership.advantage")
            else ""
        )
        values = (
            "The share of values guessed is that of records whose sensitive feature is guessed correctly by one "
            "who knows all else about them."
            if numbers.has(frame, "attribute.correct")
            else ""
        )
        inverted = (
            "The cosine is that between records and what attackers reconstruct of them, over the exposed records."
            if numbers.has(frame, "inversion.cosine")
            else ""
        )
        text = caption(frame, what, beneath, members, values, inverted, who(frame, of_nodes=True), bars(found))
        draw = partial(grids.privacy_utility, frame, x, by, metric)
        return Drawing("privacy-utility", "Privacy and utility", text, draw, found, "picture")
    if x in grids.SIZES:
        text = caption(frame, what, who(frame, of_nodes=True), bars(found))
        draw = partial(grids.learning_curve, frame, x, by, metric)
        return Drawing("learning-curve", "Learning curve", text, draw, found, "picture")
    if others:
        text = caption(frame, what, who(frame, of_nodes=True), bars(found))
        return Drawing("lines", f"Over {x}", text, partial(grids.lines, frame, x, by, metric), found, "picture")
    spread = grids.spreads(frame, x, by, metric)
    light = "Light bars show the standard deviation over nodes." if (spread["std"] > 0).any() else ""
    text = caption(frame, what, who(frame, of_nodes=True), bars(found), light)
    found = spread
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
    yield Drawing("heatmap", "Heat map", text, partial(grids.heatmap, frame, rows, columns, metric), found, "picture")


# One classifier


def _judged(frame: pd.DataFrame) -> Iterator[Drawing]:
    names = frame["metric"].astype(str)
    yield from _matrices(frame[names.str.match(judgement.CELL)])
    if (
        names.str.match(judgement.POINT).any()
        and (found := judgement.roc_points(frame))["curve"].nunique() <= MOST_CURVES
    ):
        what = "The ROC curve of one node at the end of each run; the dotted line is a random guess."
        text = caption(frame, what, who(frame), bands(found, judgement.roc_bands(found)))
        yield Drawing("roc", "ROC curve", text, partial(judgement.roc, frame), found, "picture")
    if _several_cycles(frame, "accuracy.mean") and numbers.curves(frame, "accuracy")["curve"].nunique() <= MOST_ROWS:
        yield _times(frame)


def _matrices(frame: pd.DataFrame) -> Iterator[Drawing]:
    """Yield one confusion matrix per layer and point, unless there are too many."""
    if frame.empty:
        return
    keys = numbers.distinct(frame, numbers.varied(frame))
    points = list(frame.groupby(["layer", *keys], observed=True, sort=False, dropna=False))
    for place, ((layer, *values), part) in enumerate(points if len(points) <= MOST_PANELS else [], 1):
        name = f"confusion-{layer}" + (f"-{place}" if keys else "")
        yield _matrix(noted(part, [note_of(frame)]), str(layer), numbers.named(keys, values), name)


def _matrix(frame: pd.DataFrame, layer: str, point: str, name: str) -> Drawing:
    found = judgement.confusion_counts(frame, layer)
    what = (
        f"The number of test records by actual and predicted class, for one node of “{layer}” at the end of each run."
    )
    text = caption(frame, what, "The shade is the share of the actual class.", who(frame))
    draw = partial(judgement.confusion, frame, layer)
    title = f"Confusion matrix of {layer}" + (f", {point}" if point else "")
    return Drawing(name, title, text, draw, found.reset_index(), "picture")


def _times(frame: pd.DataFrame) -> Drawing:
    """Return the table of times to accuracy. Thresholds are rounded shares of the best accuracy, for any problem."""
    best = float(numbers.curves(frame, "accuracy")["mean"].max())
    thresholds = tuple(dict.fromkeys(round(best * share, 2) for share in (0.8, 0.9, 0.95)))
    found = numbers.time_to(frame, thresholds)
    what = "The first measured cycle in which the mean accuracy over nodes reaches the threshold: median over runs."
    some = (
        "Numbers in brackets state how many runs reach it, if not all do."
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
    if learnt["cycle"].nunique() > 1 and distributions.node_errors(nodes)["curve"].nunique() <= MOST_DRAWN:
        what = "The distribution of the error over all followed nodes with a model, of all runs, with its quartiles."
        draw, data = partial(distributions.errors, nodes), distributions.node_errors(nodes)
        yield Drawing("errors", "Errors of nodes", caption(nodes, what), draw, data, "picture")


def _raster(nodes: pd.DataFrame, own: pd.DataFrame, layer: str) -> Drawing:
    many, run = own["node"].nunique(), own["run"].iloc[0]
    nodes_ = f"{many:,} node{'s' * (many != 1)}"
    grey = "" if own["online"].all() else "; grey: offline"
    what = f"The error of {nodes_} of “{layer}” after each measured cycle of run {run}{grey}."
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
    what = f"The overlay “{layer}” after cycle {cycle} of run {run}: {len(end):,} link{'s' * (len(end) != 1)}."
    away = nodes is not None and not nodes.loc[(nodes["cycle"] == cycle) & (nodes["run"] == run), "online"].all()
    hollow = "Hollow nodes are offline." if away else ""
    draw = partial(networks.drawing, links, nodes, layer=layer)
    return Drawing(f"network-{layer}", f"Network of {layer}", caption(links, what, hollow), draw, end, "picture")


def _moving(links: pd.DataFrame, nodes: pd.DataFrame | None, own: pd.DataFrame, layer: str) -> Drawing:
    shown, run = len(networks.some_cycles(own)), own["run"].iloc[0]
    what = f"The overlay “{layer}” over {counted(shown, 'cycle')} of run {run}; each node has a fixed position."
    draw = partial(networks.drawing, links, nodes, layer=layer)
    write = partial(networks.animation, links, nodes, layer=layer)
    return Drawing(
        f"moving-{layer}", f"Network of {layer} over time", caption(links, what), draw, own, "animation", write
    )
