"""The checked tables of a scenario file, each with what its keys mean."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]


class Settings(BaseModel):
    """A table of a scenario file: frozen, unknown keys refused, no conversion of types, no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True, populate_by_name=True)


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
    scale: tuple[Literal["minmax", "l1", "l2", "clip-l2"], ...] = Field(
        (), description="steps in order: features to [0, 1]; records to L1 or L2 length 1, or clipped to L2 length 1"
    )
    bounds: Literal["public", "train"] = Field(
        "public", description="where min-max takes its bounds: the card (values clipped), or the training set"
    )

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.set is None) == (self.file is None):
            raise ValueError("expected either “set” or “file”")
        return self


class IidSplit(Settings):
    """Records go to nodes at random."""

    kind: Literal["iid"] = "iid"


SplitConfig = IidSplit


class NodesConfig(Settings):
    """`[nodes]`: how many nodes there are and who holds which records."""

    number: int | None = Field(None, ge=1, description="how many nodes; default: as many as the records fill")
    records: int = Field(1, ge=1, description="training records a node")
    split: SplitConfig = Field(IidSplit(), description="how records are spread over nodes")
    repeat: bool = Field(False, description="use records more than once when there are too few for `number` nodes")
    leave_out: bool = Field(False, description="leave records out when there are more than the nodes hold")


class CrashConfig(Settings):
    """A share or a number of nodes dies at a cycle and never comes back."""

    kind: Literal["crash"]
    at: int = Field(ge=1, description="the cycle in which they die")
    share: Share | None = Field(None, description="the share of all nodes that dies")
    number: int | None = Field(None, ge=0, description="the number of nodes that die")

    @model_validator(mode="after")
    def _how_many(self) -> CrashConfig:
        if (self.share is None) == (self.number is None):
            raise ValueError("expected either “share” or “number”")
        return self


class RateConfig(Settings):
    """Nodes leave and return independently, with fixed probabilities a cycle."""

    kind: Literal["rate"]
    leave: Share = Field(description="the probability that an online node leaves, a cycle")
    come_back: Share = Field(alias="return", description="the probability that an offline node returns, a cycle")
    online: Share | None = Field(None, description="the share online at first; default: the stationary one")


class LognormalConfig(Settings):
    """Online sessions of log-normal length; offline ones too, as long as the share online asks for."""

    kind: Literal["lognormal"]
    online: float = Field(gt=0, le=1, description="the share of the nodes that is online in the long run")
    mu: float = Field(description="mean of the logarithm of a session's length in cycles")
    sigma: float = Field(ge=0, description="standard deviation of that logarithm")


ChurnConfig = Annotated[CrashConfig | RateConfig | LognormalConfig, Field(discriminator="kind")]


class TransportConfig(Settings):
    """`[transport]`: what happens to messages on their way."""

    loss: Share = Field(0.0, description="the probability that a message is lost")
    delay: int | tuple[int, int] = Field(
        0, description="cycles under way: 0 (effective at once), a fixed number, or [from, to] with equal probability"
    )

    @model_validator(mode="after")
    def _order_of_delays(self) -> TransportConfig:
        shortest, longest = (self.delay, self.delay) if isinstance(self.delay, int) else self.delay
        if not 0 <= shortest <= longest < 2**20 or (shortest == 0 and longest > 0):
            raise ValueError("delay: expected 0 for all messages, or at least 1 for all: [from, to] with 1 ≤ from ≤ to")
        return self


class ObserveConfig(Settings):
    """`[observe]`: when and on how many nodes curves are measured."""

    every: Annotated[int, Field(ge=1)] | Literal["log"] = Field(
        "log", description="measure every so many cycles, or at log-spaced ones; the last cycle always"
    )
    nodes: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        100, description="how many online nodes are drawn each time to predict the test set"
    )
    metrics: tuple[Literal["auc", "f1"], ...] = Field((), description="measured besides error and accuracy")


class StopConfig(Settings):
    """`[stop]`: end a run before its last cycle."""

    when: str = Field(description="a condition on a metric of a layer, e.g. “learning.error.mean < 0.1”")
