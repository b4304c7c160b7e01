"""What every checked model of a scenario has in common, and the models that stand alone."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """A table of a scenario file: frozen, unknown keys refused, NaN and infinity refused."""

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
    scale: tuple[Literal["minmax", "l1", "l2", "clip-l2"], ...] = Field(
        (), description="steps in order: features to [0, 1]; records to L1 or L2 length 1, or clipped to L2 length 1"
    )
    bounds: Literal["public", "train"] = Field(
        "public", description="where min-max takes its bounds: the card (values clipped), or the training set"
    )
