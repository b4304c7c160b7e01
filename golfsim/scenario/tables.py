"""Define the tables `[observe]`, `[plot]` and `[stop]` of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from golfsim.core.settings import Settings

MOST_DRAWN = 500  # nodes: drawings of larger networks are unreadable


class TargetConfig(Settings):
    """The (ε, δ) that the noise of a layer is computed for."""

    epsilon: float = Field(ge=1e-6, description="the ε of all visits of a record together")
    delta: float = Field(ge=1e-10, lt=1, description="the δ at which this ε holds")


class PrivacyConfig(Settings):
    """`[privacy]`: how the guarantees of private layers are stated."""

    delta: float | None = Field(
        None,
        ge=1e-10,
        lt=1,
        description="δ: private layers also state the ε that the visits which happened have together at this δ, in the "
        "log (`spent.delta.mean`, `spent.delta.max`) and in `run.json`; default: the δ of the target, else only pure "
        "ε, which adds up",
    )
    target: TargetConfig | None = Field(
        None,
        description='a layer with `epsilon = "target"` gets the least noise with which all visits that its schedule '
        "allows have this (ε, δ) together",
    )

    @property
    def stated_delta(self) -> float | None:
        """The δ at which private layers state an ε, if any."""
        return self.target.delta if self.delta is None and self.target is not None else self.delta


class ObserveConfig(Settings):
    """`[observe]`: what is measured, when, and on how many nodes."""

    every: Annotated[int, Field(ge=1)] | Literal["log"] = Field(
        "log",
        description="number of cycles between measurements, or “log” for log-spaced cycles; the last cycle is always "
        "measured",
    )
    nodes: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        100, description="number of online nodes, drawn at random for each measurement, that predict the test set"
    )
    metrics: tuple[Literal["auc", "f1", "log-loss", "confusion", "roc", "mean-model", "optimum"], ...] = Field(
        (),
        description="metrics in addition to error and accuracy. “log-loss” is for learners whose scores are "
        "logarithms of odds: logistic, softmax, mlp. The confusion matrix and the ROC curve are those of one node. For "
        "layers that learn by gradient descent: the error of the mean of all models (“mean-model”), and "
        "the error of, and the distance to, the optimum on the records that the layer learns from (“optimum”)",
    )
    test: Literal["all", "own"] = Field(
        "all",
        description="the test records of a node: “all”, or its “own” ones, for nodes whose records differ: each test "
        "record belongs to the node of a training record of the same class, or of the same value with a split by a "
        "column. Then the log also has the mean over the worst tenth of the nodes",
    )
    node: int | None = Field(
        None,
        ge=0,
        description="number of the node for the confusion matrix and the ROC curve; default: the first measured node",
    )
    attacks: tuple[Literal["label", "membership", "attribute", "inversion"], ...] = Field(
        (),
        description="attacks to run at each measurement: guess labels from published records (“label”), "
        "distinguish training records from other records (“membership”), guess a sensitive feature of a record of "
        "which all else is known (“attribute”), or reconstruct records from the models that single nodes receive "
        "(“inversion”)",
    )
    sensitive: str | Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="with the attack “attribute”: the sensitive feature, by its name or its number from 0; required "
        "there",
    )
    attackers: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        1,
        description="with the attack “inversion”: the number of nodes, drawn once, that use what they receive; each "
        "for itself, and the results are averaged",
    )
    collude: bool = Field(False, description="with the attack “inversion”: the attackers share what they receive")
    overlay: Annotated[int, Field(ge=1)] | Literal["log"] | None = Field(
        None,
        description="number of cycles between measurements of the overlays (degrees, clustering, paths, dead links), "
        "or “log”; the in-degrees of all online nodes are also stored, in `degrees.parquet`; default: never",
    )
    overlay_nodes: int = Field(
        100,
        ge=1,
        description="number of nodes, drawn at random for each measurement, for the clustering and the path length of "
        "an overlay",
    )
    follow: int | None = Field(
        None,
        ge=1,
        description="number of nodes, drawn once, whose online state and error are stored at each measurement, in "
        "`nodes.parquet`",
    )
    draw: bool = Field(
        False,
        description="store the links of all overlays at each measurement, in `links.parquet`, and follow all nodes; "
        f"for at most {MOST_DRAWN} nodes",
    )

    @model_validator(mode="after")
    def _attacked(self) -> ObserveConfig:
        if ("attribute" in self.attacks) != (self.sensitive is not None):
            what = 'required with the attack “attribute”, e.g. sensitive = "age"'
            raise ValueError(f"sensitive: {what if self.sensitive is None else 'only with the attack “attribute”'}")
        for key in ("attackers", "collude"):  # a scenario with explicit defaults has both
            changed = getattr(self, key) != type(self).model_fields[key].default
            if changed and "inversion" not in self.attacks:
                raise ValueError(f"{key}: only with the attack “inversion”")
        return self

    @model_validator(mode="after")
    def _whole_test_set(self) -> ObserveConfig:
        whole = sorted({"auc", "f1", "confusion", "roc"} & set(self.metrics))
        if self.test == "own" and whole:
            raise ValueError(f"metrics: “{whole[0]}” needs test = “all”; a node may have own test records of one class")
        return self

    @model_validator(mode="after")
    def _followed_once(self) -> ObserveConfig:
        if self.draw and self.follow is not None:
            raise ValueError("follow: “draw” follows all nodes; remove this key")
        return self


PLOT_KEYS = {
    "rows": ("heatmap",),
    "columns": ("heatmap",),
    "x": ("lines", "bars", "privacy-utility"),
    "lines": ("lines",),
    "reference": ("lines",),
    "x_scale": ("convergence", "lines"),
    "y_scale": ("convergence", "lines"),
}


OPTIONAL_PLOT_KEYS = {
    ("x", "convergence"),
    ("lines", "bars"),
    ("lines", "privacy-utility"),
    ("reference", "lines"),
    *((key, kind) for key in ("x_scale", "y_scale") for kind in ("convergence", "lines")),
}


class PlotConfig(Settings):
    """`[plot]`: the plot that is drawn at the end of a run."""

    kind: Literal["convergence", "heatmap", "lines", "bars", "privacy-utility", "none"] = Field(
        "convergence",
        description="“convergence”: curves of a metric over cycles. “heatmap”, “lines”, “bars”: the last cycle over a "
        "sweep as heat map, lines, or points with error bars. “privacy-utility”: accuracy over ε, with the attacks "
        "below. “none”: no plot",
    )
    metric: str | tuple[str, ...] | None = Field(
        None,
        description="the metric to draw, as mean over nodes and runs, with or without “.mean”; several metrics are "
        "distinguished by “metric” in rows, columns or lines. Default: accuracy; for convergence the error or, without "
        "a layer that learns, the overlay, else the first metric of the layers",
    )
    layer: str | None = Field(None, description="the layer to draw; default: all layers that have the metric")
    rows: str | None = Field(
        None, description="heatmap: the key that varies between rows, or “case”, or “metric”; required there"
    )
    columns: str | None = Field(
        None, description="heatmap: the key that varies between columns, or “case”, or “metric”; required there"
    )
    x: str | None = Field(
        None,
        description="lines, bars, privacy-utility: the key along the x axis; required there. convergence: “cycle” "
        "(default), or “messages” or “bytes”, the total that the layer has sent",
    )
    lines: str | None = Field(
        None,
        description="lines, bars, privacy-utility: the key that varies between lines, or “case”, “layer” or “metric”; "
        "required for lines",
    )
    reference: Annotated[float, Field(allow_inf_nan=True)] | str | None = Field(
        None,
        description="lines: a value of x or of lines that the others are compared with, e.g. inf for an ε without "
        "noise; of x: a dashed horizontal line per line; of lines: this line is dashed and grey",
    )
    x_scale: Literal["linear", "log"] | None = Field(
        None,
        description="convergence, lines: the scale of the x axis. Default for convergence: logarithmic, unless an "
        "event is late; for lines: logarithmic if the values differ by a factor of eight or more",
    )
    y_scale: Literal["linear", "log"] | None = Field(
        None, description="convergence, lines: the scale of the y axis; default: linear. A logarithmic axis omits zeros"
    )

    @model_validator(mode="after")
    def _keys(self) -> PlotConfig:
        for key, kinds in PLOT_KEYS.items():
            given, optional = getattr(self, key) is not None, (key, self.kind) in OPTIONAL_PLOT_KEYS
            if given != (self.kind in kinds) and not optional:
                allowed = [*kinds, *(kind for other, kind in sorted(OPTIONAL_PLOT_KEYS) if other == key)]
                belongs = " or ".join(f"“{kind}”" for kind in allowed)
                raise ValueError(f"{key}: only for kind = {belongs}" if given else f"{key}: required for this kind")
        if self.kind == "convergence" and self.x not in (None, "cycle", "messages", "bytes"):
            raise ValueError(f"x: for convergence “cycle”, “messages” or “bytes”; got “{self.x}”")
        if isinstance(self.metric, tuple) and "metric" not in (self.lines, self.rows, self.columns):
            raise ValueError("metric: several metrics need lines, rows or columns = “metric”")
        return self


class StopConfig(Settings):
    """`[stop]`: end a run before its last cycle."""

    when: str = Field(description="a condition on a metric of a layer, e.g. “learning.error.mean < 0.1”")
