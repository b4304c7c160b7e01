"""Check `[data]`: which records there are, and how they are scaled."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from golfsim.core.settings import Settings

Interval = tuple[float, float]


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
