"""Define `[data]`: the records of a scenario, and how they are scaled."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, model_validator

from golfsim.core.settings import FileName, Settings

Interval = tuple[float, float]
Index = Annotated[int, Field(ge=0, lt=2**31)]
Task = Literal["classification", "regression", "ratings"]
MOST_CATEGORIES = 1000  # of a text column


class DataConfig(Settings):
    """`[data]`: the records and how they are scaled."""

    set: str | None = Field(None, description="name of a data set that has a card (`golfsim list datasets`)")
    file: FileName | None = Field(
        None,
        description="your own data in place of `set`: a CSV, Parquet, npz or svmlight file; the path is relative to "
        "the scenario file",
    )
    format: Literal["csv", "parquet", "npz", "svmlight"] | None = Field(
        None, description="the format of `file` and `test_file`; default: their extension decides"
    )
    task: Task | None = Field(
        None,
        description="what the labels of `file` are: classes, numbers (“regression”), or “ratings” of items by users: "
        "MovieLens' u.data, ratings.dat or ratings.csv, or a CSV file with the columns user, item and rating; default: "
        "classes, or what the card of `set` states",
    )
    label: str | None = Field(None, description="the label column of `file` (CSV, Parquet); default: the last column")
    classes: tuple[str | int, ...] | None = Field(
        None,
        min_length=2,
        description="the possible labels of `file`, known without the records; default: the labels that occur in it, "
        "which no guarantee covers",
    )
    categories: dict[str, Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_CATEGORIES)]] | None = Field(
        None,
        description="the possible values of each text column of `file`, known without the records: a table by column; "
        "default: the values that occur in it, which no guarantee covers",
    )
    indices: tuple[Index, Index] | None = Field(
        None,
        description="the first and the last feature index of an svmlight file, known without the records; default: "
        "those that occur in it, which no guarantee covers",
    )
    test_file: FileName | None = Field(None, description="a file with the test records, in the format of `file`")
    split: Literal["clean", "as-published"] = Field(
        "clean", description="the split into training and test records: that of the card, or that of the papers"
    )
    train: int | None = Field(
        None,
        ge=1,
        description="number of training records to use (or to generate); with `folds` and shuffle = false: number of "
        "rows to divide into folds",
    )
    test: int | float | None = Field(
        None,
        gt=0,
        description="number of records, or share below 1, held out for testing; default: the value of the card",
    )
    test_seed: int | None = Field(
        None, ge=0, description="seed of the split, equal in all runs; default: each run uses its own seed"
    )
    folds: int | None = Field(
        None,
        ge=2,
        description="number of folds of a cross-validation, in place of `test`: consecutive runs hold out one fold "
        "each; after all folds the records are shuffled again",
    )
    shuffle: bool = Field(
        True,
        description="whether the rows for training and testing are drawn at random; false: in the order of the file "
        "(for a generated set, the order in which it is generated), the first rows are for training and the last for "
        "testing; with `folds`, the first `train` rows (default: all rows) are divided into folds at random, and each "
        "of these rows is tested once. [nodes] assigns training records to nodes as usual",
    )
    scale: tuple[Literal["minmax", "standard", "pool", "l1", "l2", "clip-l2", "bias"], ...] = Field(
        (),
        description="scaling steps in order: “minmax” scales each feature to [0, 1]; “standard” to mean 0 and variance "
        "1 of the training records, which is not private; “pool” adds groups of features; "
        "“l1” and “l2” scale each record to L1 or L2 norm 1; “clip-l2” clips it to L2 norm at most 1; “bias” appends a "
        "feature that is always 1",
    )
    pool: Annotated[int, Field(ge=2)] | dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] | None = Field(
        None,
        description="the groups of the step “pool”: k for blocks of k × k pixels of a square image, or a table of the "
        "names of groups with their features. Each feature is in one group, so the L1 length of features that are not "
        "negative stays the same",
    )
    bounds: Literal["public", "train"] | Interval | dict[str, Interval] = Field(
        "public",
        description="the bounds of minmax: those of the card (“public”; values outside are clipped), those of the "
        "training set (“train”), or bounds that you know independently of the records: [low, high], or a table by "
        "feature, with “default” for all other features",
    )

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.set is None) == (self.file is None):
            raise ValueError("expected either “set” or “file”")
        if self.format is not None and self.file is None:
            raise ValueError("format: requires file")
        return self

    @model_validator(mode="after")
    def _labels(self) -> DataConfig:
        if self.task is not None and self.set is not None:
            raise ValueError("task: the card of the set states it; remove this key")
        for key in ("classes",) if self.task == "regression" else ("classes", "label", "categories", "indices"):
            if self.task in ("regression", "ratings") and getattr(self, key) is not None:
                raise ValueError(f"{key}: not for task = “{self.task}”")
        if self.task == "ratings" and self.scale:
            raise ValueError("scale: ratings have no features to scale")
        return self

    @model_validator(mode="after")
    def _distinct_values(self) -> DataConfig:
        lists = {"classes": self.class_names or ()}
        lists |= {f"categories.{column}": values for column, values in (self.categories or {}).items()}
        for key, values in lists.items():
            value, times = Counter(values).most_common(1)[0] if values else ("", 1)
            if times > 1:
                raise ValueError(f"{key}: “{value}” occurs {times} times")
        if self.indices is not None and self.indices[0] > self.indices[1]:
            raise ValueError("indices: expected the first index, then the last; got {}, {}".format(*self.indices))
        return self

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The stated classes as texts."""
        return None if self.classes is None else tuple(map(str, self.classes))

    @model_validator(mode="after")
    def _rising_bounds(self) -> DataConfig:
        for name, (low, high) in self.stated_bounds.items():
            if low >= high:
                raise ValueError(f"bounds: expected lower bound < upper bound for {name}; got {low:g}, {high:g}")
        return self

    @property
    def stated_bounds(self) -> dict[str, Interval]:
        """The bounds that the scenario states, by feature, with “default” for all other features."""
        if isinstance(self.bounds, tuple):
            return {"default": self.bounds}
        return self.bounds if isinstance(self.bounds, dict) else {}

    @model_validator(mode="after")
    def _one_way_to_test(self) -> DataConfig:
        for key in ("test", "test_file"):
            if self.folds is not None and getattr(self, key) is not None:
                raise ValueError(f"folds: “folds” and “{key}” both define the test records; remove one of them")
        for step in ("bias", "pool"):
            if self.scale.count(step) > 1:
                raise ValueError(f"scale: “{step}” can occur only once")
        return self

    @model_validator(mode="after")
    def _pooled(self) -> DataConfig:
        if ("pool" in self.scale) != (self.pool is not None):
            raise ValueError("pool: expected both “pool” in scale and the groups in pool, e.g. pool = 2")
        if "pool" in self.scale and "bias" in self.scale[: self.scale.index("pool")]:
            raise ValueError("scale: “pool” would add the bias to features; put bias after pool")
        members = [feature for group in self.groups.values() for feature in group]
        repeated = [feature for feature, times in Counter(members).items() if times > 1]
        if repeated:
            raise ValueError(f"pool: the feature “{repeated[0]}” is in two groups; each feature can be in one")
        return self

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The groups of features that the scenario names."""
        return self.pool if isinstance(self.pool, dict) else {}
