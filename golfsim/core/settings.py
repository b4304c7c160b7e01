"""The checked tables of a scenario file, each with what its keys mean."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Interval = tuple[float, float]
MOST_DRAWN = 500  # nodes of a network of which a drawing still shows anything


class Settings(BaseModel):
    """A table of a scenario file: frozen, unknown keys refused, no conversion of types, no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class DataConfig(Settings):
    """`[data]`: which records there are and how they are scaled."""

    set: str | None = Field(None, description="name of a data set that has a card (`golfsim list datasets`)")
    file: str | None = Field(
        None, description="your own data instead: a CSV, Parquet, npz or svmlight file, relative to the scenario file"
    )
    label: str | None = Field(None, description="the label column of `file` (CSV, Parquet); default: the last one")
    test_file: str | None = Field(None, description="the test records of `file`, in the same format")
    split: Literal["clean", "as-published"] = Field(
        "clean", description="the card's split into training and test records, or the one of the papers"
    )
    train: int | None = Field(None, ge=1, description="keep (or generate) this many training records")
    test: int | float | None = Field(
        None, gt=0, description="hold out this number (or share, below 1) of records for testing; default: the card's"
    )
    test_seed: int | None = Field(
        None, ge=0, description="seed of the split, the same in all runs; default: each run splits by its own seed"
    )
    folds: int | None = Field(
        None,
        ge=2,
        description="cross-validation instead of `test`: so many runs after each other hold out one fold each, then "
        "the records are shuffled anew",
    )
    scale: tuple[Literal["minmax", "l1", "l2", "clip-l2", "bias"], ...] = Field(
        (),
        description="steps in order: features to [0, 1]; records to L1 or L2 length 1, or clipped to L2 length 1; "
        "“bias” appends a feature that is always 1",
    )
    bounds: Literal["public", "train"] | Interval | dict[str, Interval] = Field(
        "public",
        description="where min-max takes its bounds: the card (values clipped), or the training set; or bounds that "
        "you know without looking at the records: [low, high], or a table of them by feature, “default” for the others",
    )

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.set is None) == (self.file is None):
            raise ValueError("expected either “set” or “file”")
        return self

    @model_validator(mode="after")
    def _rising_bounds(self) -> DataConfig:
        for name, (low, high) in self.stated_bounds.items():
            if low >= high:
                raise ValueError(f"bounds: expected a larger upper than lower bound for {name}; got {low:g}, {high:g}")
        return self

    @property
    def stated_bounds(self) -> dict[str, Interval]:
        """The bounds that the scenario itself states, by feature, “default” for the others."""
        if isinstance(self.bounds, tuple):
            return {"default": self.bounds}
        return self.bounds if isinstance(self.bounds, dict) else {}

    @model_validator(mode="after")
    def _one_way_to_test(self) -> DataConfig:
        for key in ("test", "test_file"):
            if self.folds is not None and getattr(self, key) is not None:
                raise ValueError(f"folds: says which records are for testing; leave out either it or “{key}”")
        if self.scale.count("bias") > 1:
            raise ValueError("scale: one “bias” is enough")
        return self


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
