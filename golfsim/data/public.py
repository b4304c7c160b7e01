"""What is public about a user's own file: its classes, categories and feature indices, if `[data]` states them.

What is read from the private records instead is a query without noise, and every guarantee of the run says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.data.config import DataConfig

if TYPE_CHECKING:
    import pandas as pd

FEW = 10  # values or columns that a message lists
SVMLIGHT = (".svm", ".libsvm", ".svmlight", ".txt")
FORMATS = {".csv": "csv", ".parquet": "parquet", ".npz": "npz", **dict.fromkeys(SVMLIGHT, "svmlight")}


def form_of(file: str, form: str | None) -> str | None:
    """Return the format of a file: the stated one, or that of its extension; None: unknown."""
    return form or next((found for end, found in FORMATS.items() if file.lower().endswith(end)), None)


class Source(NamedTuple):
    """A file of records, for messages: the key that names it, and its name."""

    key: str
    file: str

    def refuse(self, record: int, what: str, hint: str) -> UserError:
        """Return the error of a record, which is counted from 0."""
        return UserError(f"{self.file}, record {record + 1}: {what}", key=self.key, hint=hint)


def caveat(config: DataConfig, text_columns: Iterable[str]) -> str:
    """Return what was read from the private records and is not accounted for, to follow “except for”.

    `text_columns` are the columns of the user's own file that become one feature per category.
    """
    seen = dict(_seen(config, list(text_columns)))
    if not seen:
        return ""
    stated = [f"data.{key}" for key in seen if key != "scale"]
    how = f"if they are public, state {_listed(stated)}" if stated else "“minmax” with public bounds reads none"
    return f"{_listed(list(seen.values()))}, which were read from the private records and are not accounted for ({how})"


def _seen(config: DataConfig, text_columns: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each setting that is not stated, with what was read from the records in its place."""
    if config.bounds == "train" and "minmax" in config.scale:
        yield "bounds", "the training set's min-max bounds"
    if "standard" in config.scale:
        yield "scale", "the training set's means and variances"
    if config.file is None:
        return
    if config.classes is None:
        yield "classes", "the classes"
    if config.categories is None and text_columns:
        yield "categories", f"the categories of {_listed(_quoted(text_columns))}"
    if config.indices is None and form_of(config.file, config.format) == "svmlight":
        yield "indices", "the feature indices"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _quoted(names: Sequence[str]) -> list[str]:
    return [f"“{name}”" for name in names[:FEW]] + (["…"] if len(names) > FEW else [])


def named(value: Any) -> str:
    """Return a label or a category as text; integers that are stored as floating-point numbers are integers."""
    if not isinstance(value, np.floating):
        return str(value)
    return f"{value:.0f}" if value.is_integer() else f"{value:g}"


def texts(values: NDArray[Any]) -> NDArray[np.str_]:
    """Return values as texts."""
    if values.dtype.kind != "f":
        return values.astype(str)
    found, inverse = np.unique(values, return_inverse=True)
    return np.array([named(value) for value in found], dtype=str)[inverse]


def codes(values: NDArray[np.str_], stated: Sequence[str], what: str, key: str, source: Source) -> NDArray[np.int32]:
    """Return the position of each value in a stated list; raise an error for a value that is not in it.

    `what` has the values, and `key` is the setting that states the list, for messages.
    """
    found, inverse = np.unique(values, return_inverse=True)
    position = {value: code for code, value in enumerate(stated)}
    known = np.array([position.get(str(value), -1) for value in found], np.int32)[inverse]
    if (known < 0).any():
        record = int(np.argmax(known < 0))
        raise source.refuse(
            record,
            f"{what} is “{values[record]}”, but {key} lists only {', '.join(_quoted(stated))}",
            f"correct the value, or add it to {key} if it is known without the records",
        )
    return known


def check_columns(stated: Mapping[str, Any], columns: Sequence[str], label: str) -> None:
    """Raise an error if `data.categories` names the label, or something that is not a column."""
    for name in stated:
        if name == label:
            hint = "state its values as classes in [data]"
            raise UserError(f"“{name}” is the label", key="data.categories", hint=hint)
        if name not in columns:
            what = f"there is no column “{name}” in data.file"
            raise UserError(what, key="data.categories", hint=nearest(name, columns))


def check_categories(
    categories: Mapping[str, NDArray[np.str_]], stated: Mapping[str, Sequence[str]], source: Source
) -> None:
    """Raise an error for a category, in the columns of `categories`, that is not stated."""
    for name, values in categories.items():
        codes(values, stated[name], f"column “{name}”", f"data.categories.{name}", source)


def has_numbers(column: pd.Series) -> bool:
    """Return whether a column has real numbers only."""
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column)


def check_numbers(table: pd.DataFrame, source: Source) -> None:
    """Raise an error for a text in a column for which no categories are stated."""
    for name in table.columns:
        if not has_numbers(table[name]):
            values = table[name].to_numpy()
            record = next((row for row, value in enumerate(values) if not _is_number(value)), 0)
            raise source.refuse(
                record,
                f"column “{name}” is “{values[record]}”, and data.categories does not list this column",
                "correct the value if it must be a number; otherwise state the categories of the column",
            )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def within(x: Any, indices: tuple[int, int], source: Source) -> Any:
    """Return a sparse matrix from its first to its last stated column; raise an error for a value outside."""
    first, last = indices
    outside = np.flatnonzero((x.indices < first) | (x.indices > last))
    if outside.size:
        raise source.refuse(
            int(np.searchsorted(x.indptr, outside[0], side="right")) - 1,
            f"the feature index {x.indices[outside[0]]} is not from {first} to {last}, as data.indices states",
            "correct the record, or state other indices if they are known without the records",
        )
    x.resize((x.shape[0], last + 1))
    return x[:, first:]
