"""Check the tables `[observe]`, `[plot]` and `[stop]` of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from golfsim.core.settings import Settings

MOST_DRAWN = 500  # nodes of a network of which a drawing still shows anything


class ObserveConfig(Settings):
    """`[observe]`: when and on how many nodes curves are measured."""

    every: Annotated[int, Field(ge=1)] | Literal["log"] = Field(
        "log", description="measure every so many cycles, or at log-spaced ones; the last cycle always"
    )
    nodes: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        100, description="how many online nodes are drawn each time to predict the test set"
    )
    metrics: tuple[Literal["auc", "f1", "confusion", "roc"], ...] = Field(
        (), description="measured besides error and accuracy; confusion matrix and ROC curve of one node"
    )
    node: int | None = Field(
        None, ge=0, description="the number of the node of confusion matrix and ROC curve; default: the first measured"
    )
    attacks: tuple[Literal["label", "membership"], ...] = Field(
        (), description="tried each time: guess labels from what was published; tell training records from others"
    )
    overlay: Annotated[int, Field(ge=1)] | Literal["log"] | None = Field(
        None, description="when overlays are measured: degrees, clustering, paths, dead links; default: never"
    )
    overlay_nodes: int = Field(
        100, ge=1, description="how many nodes are drawn each time for the overlay's clustering and path length"
    )
    follow: int | None = Field(
        None,
        ge=1,
        description="keep the online state and the error of so many nodes, drawn once, each time: `nodes.parquet`",
    )
    draw: bool = Field(
        False,
        description=f"keep who knows whom, and follow all nodes, each time: `links.parquet`; up to {MOST_DRAWN} nodes",
    )

    @model_validator(mode="after")
    def _followed_once(self) -> ObserveConfig:
        if self.draw and self.follow is not None:
            raise ValueError("follow: with “draw” all nodes are followed; leave it out")
        return self


PLOT_KEYS = {
    "rows": ("heatmap",),
    "columns": ("heatmap",),
    "x": ("lines", "bars", "privacy-utility"),
    "lines": ("lines",),
}


OPTIONAL_PLOT_KEYS = {("lines", "bars"), ("lines", "privacy-utility")}


class PlotConfig(Settings):
    """`[plot]`: the picture that a run ends with."""

    kind: Literal["convergence", "heatmap", "lines", "bars", "privacy-utility", "none"] = Field(
        "convergence",
        description="curves over cycles; the last cycle over a sweep as heat-map, lines, error bars, or accuracy over "
        "ε with label recovery beneath; nothing",
    )
    metric: str | tuple[str, ...] = Field(
        "accuracy",
        description="all but curves: the metric, its mean over nodes and runs; or several, told apart by “metric”",
    )
    layer: str | None = Field(None, description="the only layer that is drawn; default: all that have the metric")
    rows: str | None = Field(None, description="heat-map: the key that varies from row to row, or “case”, “metric”")
    columns: str | None = Field(
        None, description="heat-map: the key that varies from column to column, or “case”, “metric”"
    )
    x: str | None = Field(None, description="lines, bars, privacy-utility: the key along the axis")
    lines: str | None = Field(
        None, description="the same: the key that tells lines apart, or “case”, “layer”, “metric”; lines needs it"
    )

    @model_validator(mode="after")
    def _keys(self) -> PlotConfig:
        for key, kinds in PLOT_KEYS.items():
            given, optional = getattr(self, key) is not None, (key, self.kind) in OPTIONAL_PLOT_KEYS
            if given != (self.kind in kinds) and not optional:
                belongs = " or ".join(f"“{kind}”" for kind in kinds)
                raise ValueError(f"{key}: belongs to kind = {belongs}, which needs it")
        if isinstance(self.metric, tuple) and "metric" not in (self.lines, self.rows, self.columns):
            raise ValueError("metric: several of them need lines, rows or columns = “metric”")
        return self


class StopConfig(Settings):
    """`[stop]`: end a run before its last cycle."""

    when: str = Field(description="a condition on a metric of a layer, e.g. “learning.error.mean < 0.1”")
