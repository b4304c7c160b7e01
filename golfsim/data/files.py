"""Read a user's own file as a data set: CSV, Parquet, npz or svmlight, chosen by the extension of the file."""

from __future__ import annotations

import functools
import hashlib
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from golfsim.core.arrays import arrays_of
from golfsim.core.errors import UserError, nearest
from golfsim.core.memory import at_most, available, readable
from golfsim.core.paths import MISSING, unreadable
from golfsim.core.words import counted
from golfsim.data import public
from golfsim.data.config import MOST_CATEGORIES, DataConfig
from golfsim.data.public import Source

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 100_000  # of a table: each column is processed separately
LONGEST_HEADER = 1 << 26  # bytes
DENSE_BYTES = 17  # per value of a sparse file while it becomes dense and is checked
NO_VALUE = (  # values that pandas takes as missing by default
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
ABSENT = ("NoneType", "NAType", "NaTType")  # the types of missing values
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Unscaled:
    """Records as read from a source, before they are split and scaled."""

    x: NDArray[Any]
    y: NDArray[Any]  # codes of classes as int32, or numbers as float32
    features: tuple[str, ...]
    classes: tuple[str, ...]  # empty if the labels are numbers
    test_x: NDArray[Any] | None = None
    test_y: NDArray[Any] | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    test_columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of test_x, if it exists

    def digest(self) -> str:
        """Return a hash of all arrays and names."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        total = hashlib.sha256(repr((self.features, self.classes)).encode())
        for array in (self.x, self.y, self.test_x, self.test_y, *self.columns.values(), *self.test_columns.values()):
            if array is not None:
                total.update(f"{array.dtype.str}{array.shape}".encode())
                total.update(np.ascontiguousarray(array).data if array.size else b"")
        return total.hexdigest()


def read(config: DataConfig, folder: Path) -> Unscaled:
    """Read `data.file` and, if given, `data.test_file`; paths are relative to `folder`."""
    assert config.file is not None
    paths = [_existing(config.file, folder, "data.file")]
    if config.test_file is not None:
        paths.append(_existing(config.test_file, folder, "data.test_file"))
        if config.format is None and paths[0].suffix.lower() != paths[1].suffix.lower():
            _refuse("data.test_file", "the extensions of test_file and file differ", "use the same format for both")
    if config.task == "ratings":
        return _read_ratings(paths)
    form = public.form_of(paths[0].name, config.format)
    read_paths = _READERS.get(form or "")
    if read_paths is None:
        hint = f"state it in data.format: {', '.join(_READERS)}; known extensions: {' '.join(public.FORMATS)}"
        _refuse("data.file", f"{paths[0].name} has an unknown format", hint)
    return read_paths(paths, config)


def _refuse(key: str, what: str, hint: str | None = None) -> NoReturn:
    raise UserError(what, key=key, hint=hint)


def _existing(name: str, folder: Path, key: str) -> Path:
    path = folder / name
    why = unreadable(path)
    if why == MISSING:
        _refuse(key, f"there is no file {path}", "the path is relative to the scenario file")
    if why:
        _refuse(key, f"{path}: {why}")
    _refuse_huge(path, path.stat().st_size, key)
    return path


def _refuse_huge(path: Path, size: int, key: str = "data.file") -> None:
    """Reject a file that does not fit into memory before it is read: small files can expand to very large arrays."""
    if size > available():
        _refuse(
            key,
            f"{path.name} expands to {readable(size)}; {readable(available())} of memory are available",
            "use fewer records or features",
        )


def _opened(read_one: Callable[[Path], Any], path: Path, key: str) -> Any:
    """Return what `read_one` reads from `path`; report any error of a library as unreadable content."""
    try:
        with at_most(available()):  # a small file can expand to very large arrays
            return read_one(path)
    except UserError as error:
        _refuse(key, error.what, error.hint)
    except MemoryError:
        _refuse(key, f"{path.name} does not fit into memory", "use fewer records or features")
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        _refuse(key, f"cannot read {path.name} as {path.suffix}: {reason}", "check format and extension of the file")


def _keys(paths: list[Path]) -> list[tuple[Path, str]]:
    return list(zip(paths, ("data.file", "data.test_file"), strict=False))


def _sources(paths: list[Path]) -> list[Source]:
    return [Source(key, path.name) for path, key in _keys(paths)]


# Tables: CSV and Parquet


def _read_table(paths: list[Path], config: DataConfig) -> Unscaled:
    _no_indices(config)
    stated = config.categories
    form = public.form_of(paths[0].name, config.format)
    read_one = functools.partial(_table, as_text=stated or (), form=form)
    tables = [_opened(read_one, path, key) for path, key in _keys(paths)]
    label = _label_of(tables[0], config.label)
    if len(tables) == 2 and set(tables[0].columns) != set(tables[1].columns):
        odd = sorted(set(tables[0].columns) ^ set(tables[1].columns))
        _refuse("data.test_file", f"its columns differ from those of data.file: {', '.join(odd[:5])}")
    public.check_columns(stated or {}, list(tables[0].columns), label)
    labels = [table.pop(label).to_numpy() for table in tables]
    categories = _categories(tables[0]) if stated is None else stated
    arrays, columns = [], []
    for table, source in zip(tables, _sources(paths), strict=True):
        if table.empty:
            _refuse(source.key, "there are no records")
        _check_missing(table, source.key)
        text = {name: public.texts(table[name].to_numpy()) for name in categories}
        if stated is not None:
            public.check_categories(text, stated, source)
            public.check_numbers(table.drop(columns=list(text)), source)
        arrays.append(_encoded(table[list(tables[0].columns)], text, categories, source.key))
        columns.append(text)
    names: list[str] = []
    for column in tables[0].columns:
        names += [f"{column}={value}" for value in categories[column]] if column in categories else [column]
    found = _assembled(arrays, labels, tuple(names), columns[0], config, _sources(paths))
    return replace(found, test_columns=columns[1] if columns[1:] else {})


def _check_missing(table: pd.DataFrame, key: str) -> None:
    for name in table.columns:
        missing = table[name].isna()
        if missing.any():
            row = int(np.flatnonzero(missing)[0]) + 1
            _refuse(key, f"column “{name}” has no value in record {row}", "add the value, or remove the record")


def _table(path: Path, as_text: Iterable[str], form: str | None) -> pd.DataFrame:
    """Return the table of a file. In a CSV, the columns `as_text` are read as they are, also “NA” and numbers."""

    if form == "parquet":
        _refuse_wide_parquet(path)
        table = _parquet(path)
    else:
        _refuse_wide(path, _header_columns(path))
        table = _csv(path, set(as_text))
    table.columns = table.columns.astype(str)
    if form == "csv" and len(table.columns) and all(map(_is_number, table.columns)):
        raise UserError(
            f"{path.name} has no header: its first line has only numbers",
            key="data.file",
            hint="add a first line with the names of the columns",
        )
    return table


def _csv(path: Path, as_text: set[str]) -> pd.DataFrame:
    import pandas as pd

    options: dict[str, Any] = {}
    if as_text:
        header = pd.read_csv(path, skipinitialspace=True, nrows=0).columns
        missing = {name: NO_VALUE for name in header if name not in as_text}
        options = {"dtype": dict.fromkeys(as_text, str), "keep_default_na": False, "na_values": missing}
    table: pd.DataFrame = pd.read_csv(path, skipinitialspace=True, low_memory=False, **options)
    return table


def _refuse_wide(path: Path, columns: int) -> None:
    if columns > MOST_COLUMNS:
        _refuse(
            "data.file", f"{path.name} has more than {MOST_COLUMNS} columns", "npz and svmlight files may have more"
        )


def _header_columns(path: Path) -> int:
    """Return the number of columns in the first line of a CSV file, of which at most LONGEST_HEADER bytes are read."""
    with path.open("rb") as file:
        return file.readline(LONGEST_HEADER).count(b",") + 1


def _parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file; repeated text is stored once, since a small file can state a long text for every record."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    is_text = (pa.types.is_string, pa.types.is_large_string)
    text = [part.name for part in pq.read_schema(path) if any(is_one(part.type) for is_one in is_text)]
    table: pd.DataFrame = pq.read_table(path, read_dictionary=text).to_pandas()
    for name in table.columns.intersection(text):
        longest = max(map(len, table[name].cat.categories), default=0)
        _refuse_huge(path, 4 * longest * len(table))  # as an array of texts of equal length
        table[name] = table[name].astype(object)
    return table


def _refuse_wide_parquet(path: Path) -> None:
    import pyarrow.parquet as pq

    about = pq.read_metadata(path)
    _refuse_wide(path, about.num_columns)
    _refuse_huge(path, about.num_rows * about.num_columns * 8)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _label_of(table: pd.DataFrame, label: str | None) -> str:
    names = list(table.columns)
    if label is not None and label not in names:
        _refuse("data.label", f"there is no column “{label}” in data.file", nearest(label, names))
    if len(names) < 2:
        _refuse(
            "data.file",
            f"found {counted(len(names), 'column')}: at least a label and a feature are required",
            "in CSV files, commas must separate the columns",
        )
    return label if label is not None else names[-1]


def _categories(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the values, in sorted order, of each column that is not numeric."""
    found = {}
    for name in table.columns:
        column = table[name]
        if public.has_numbers(column):
            continue
        try:
            distinct = list(column.dropna().unique())
        except TypeError:  # lists and tables cannot be compared
            distinct = [None]
        if not all(isinstance(value, str) for value in distinct):
            _refuse("data.file", f"column “{name}” is neither numbers nor text", "convert it to numbers, or remove it")
        values = sorted(distinct)
        if len(values) > MOST_CATEGORIES:
            _refuse(
                "data.file",
                f"column “{name}” is text with {len(values)} different values",
                "correct text in a column of numbers, or remove the column",
            )
        found[name] = values
    return found


def _encoded(
    table: pd.DataFrame, text: Mapping[str, NDArray[np.str_]], categories: Mapping[str, Sequence[str]], key: str
) -> NDArray[np.float64]:
    """Return a table as numbers: its `text` is one-hot over `categories`, and all zeros for any other value."""
    import pandas as pd

    if not categories and all(map(pd.api.types.is_numeric_dtype, table.dtypes)):
        return table.to_numpy(dtype=np.float64)
    blocks = []
    for name in table.columns:
        column = table[name]
        if name in categories:
            blocks.append(text[name][:, None] == np.array(categories[name], dtype=str))
        elif pd.api.types.is_numeric_dtype(column):
            blocks.append(column.to_numpy(dtype=np.float64)[:, None])
        else:
            _refuse(key, f"column “{name}” has numbers in data.file but text in this file")
    return np.concatenate(blocks, axis=1, dtype=np.float64)


# Arrays: npz and svmlight


def _read_npz(paths: list[Path], config: DataConfig) -> Unscaled:
    _no_table(config)
    _no_indices(config)
    found = [_opened(_arrays, path, key) for path, key in _keys(paths)]
    own_test = "test_x" in found[0]
    if own_test and len(found) == 2:
        _refuse("data.test_file", "data.file already contains test_x and test_y", "remove test_file")
    pairs = [(arrays["x"], arrays["y"]) for arrays in found]
    if own_test:
        pairs.append((found[0]["test_x"], found[0].get("test_y")))
    for x, y in pairs:
        if y is None or x.ndim != 2 or y.ndim != 1 or len(x) != len(y) or x.dtype.kind not in "biuf":
            what = "x must be numbers of shape (records, features), y labels of shape (records,); so test_x and test_y"
            _refuse("data.file", what)
    names = tuple(f"x{column}" for column in range(pairs[0][0].shape[1]))
    sources = _sources([*paths, paths[0]] if own_test else paths)
    return _assembled([x for x, _ in pairs], [y for _, y in pairs], names, {}, config, sources)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(path) as packed:
        _refuse_huge(path, sum(member.file_size for member in packed.infolist()))
        names = [member.filename.removesuffix(".npy") for member in packed.infolist()]
    if not {"x", "y"} <= set(names):
        what = f"{path.name} has the arrays {', '.join(names) or '(none)'}"
        raise UserError(what, key="data.file", hint="x and y are required")
    return arrays_of(path, ("x", "y", "test_x", "test_y"))


def _no_table(config: DataConfig) -> None:
    if config.label is not None:
        _refuse("data.label", "only CSV and Parquet files have label columns", "remove label")
    if config.categories is not None:
        _refuse("data.categories", "only CSV and Parquet files have text columns", "remove categories")


def _no_indices(config: DataConfig) -> None:
    if config.indices is not None:
        _refuse("data.indices", "only svmlight files have feature indices", "remove indices")


def _read_svmlight(paths: list[Path], config: DataConfig) -> Unscaled:
    from sklearn.datasets import load_svmlight_files

    _no_table(config)
    stated = config.indices

    def read_all(_: Path) -> Any:
        return load_svmlight_files([str(path) for path in paths], zero_based="auto" if stated is None else True)

    for path, key in _keys(paths):
        if path.stat().st_size == 0:
            _refuse(key, f"{path.name} is empty")
    found = _opened(read_all, paths[0], "data.file")
    sparse, labels = found[0::2], found[1::2]
    if stated is not None:
        sparse = [public.within(x, stated, source) for x, source in zip(sparse, _sources(paths), strict=True)]
    for (path, key), x in zip(_keys(paths), sparse, strict=False):
        _refuse_huge(path, DENSE_BYTES * x.shape[0] * x.shape[1], key)  # models need dense records
    names = tuple(f"x{column}" for column in range(sparse[0].shape[1]))
    return _assembled([x.toarray() for x in sparse], labels, names, {}, config, _sources(paths))


# Ratings

RATING_COLUMNS = {"user": ("user", "userId", "user_id"), "item": ("item", "movieId", "item_id"), "rating": ("rating",)}
SEPARATORS = {".data": "\t", ".dat": "::"}  # of files without a header: user, item, rating, time


def _read_ratings(paths: list[Path]) -> Unscaled:
    """Read ratings; items get numbers in the order of their names, and users are a column to place records by."""
    tables = [_opened(_ratings, path, key) for path, key in _keys(paths)]
    items = np.unique(np.concatenate([item for _, item, _ in tables]))
    x = [np.searchsorted(items, item).astype(np.float64)[:, None] for _, item, _ in tables]
    y = [_quantities(rating, source) for (_, _, rating), source in zip(tables, _sources(paths), strict=True)]
    found = Unscaled(x[0], y[0], ("item",), (), columns={"user": tables[0][0]})
    return found if len(x) == 1 else replace(found, test_x=x[1], test_y=y[1], test_columns={"user": tables[1][0]})


def _ratings(path: Path) -> tuple[NDArray[np.str_], NDArray[np.str_], NDArray[Any]]:
    """Return the users, the items, which are numbered as texts, and the ratings of a file."""
    import pandas as pd

    suffix = path.suffix.lower()
    if suffix == ".csv":
        table = pd.read_csv(path, skipinitialspace=True)
    elif suffix in SEPARATORS:
        table = pd.read_csv(path, sep=SEPARATORS[suffix], engine="python", header=None)
        table.columns = [*RATING_COLUMNS, *map(str, table.columns[3:])][: table.shape[1]]
    else:
        valid = " ".join([".csv", *SEPARATORS])
        raise UserError(f"{path.name} has an unknown format for ratings", hint=f"valid extensions: {valid}")
    found = []
    for column, known in RATING_COLUMNS.items():
        name = next((one for one in known if one in table.columns), None)
        if name is None:
            raise UserError(f"there is no column for the {column}", hint=f"call it {' or '.join(known)}")
        if table[name].isna().any() or table.empty:
            raise UserError(f"column “{name}” has no value in some record", hint="remove the record")
        found.append(table[name].to_numpy())
    return public.texts(found[0]), public.texts(found[1]), found[2]


# What all formats share


def _assembled(
    arrays: list[Any],
    labels: list[NDArray[Any]],
    names: tuple[str, ...],
    columns: Mapping[str, NDArray[Any]],
    config: DataConfig,
    sources: list[Source],
) -> Unscaled:
    """Return the records of one source, or of two, for training and for testing, with their labels as codes.

    Parameters
    ----------
    arrays
        The features per source, shape (records, features).
    labels
        The labels per source, shape (records,).
    names
        The names of the features.
    columns
        The text columns of the training records.
    config
        The table `[data]`: what the labels are, and the stated classes, if any.
    sources
        The key and the file of each source.
    """
    for x, source in zip(arrays, sources, strict=True):
        _check_values(x, names, source.key)
    classes, y = config.class_names, list[NDArray[Any]]()
    if config.task == "regression":
        classes, y = (), [_quantities(part, source) for part, source in zip(labels, sources, strict=True)]
    elif classes is None:
        values = _class_values(labels[0], "data.file")
        classes = tuple(map(public.named, values))
        y = [_indexed(part, values, source.key) for part, source in zip(labels, sources, strict=True)]
    else:
        y = [_stated_codes(part, classes, source) for part, source in zip(labels, sources, strict=True)]
    raw = Unscaled(arrays[0], y[0], names, classes, columns=columns)
    return replace(raw, test_x=arrays[1], test_y=y[1]) if len(arrays) == 2 else raw


def _quantities(labels: NDArray[Any], source: Source) -> NDArray[np.float32]:
    """Return labels that are numbers."""
    found = _comparable(labels, source.key)
    if found.dtype.kind not in "biuf":
        _refuse(
            source.key, f"the label “{found[0]}” is no number", "set label = … to a column of numbers, or remove task"
        )
    with np.errstate(over="ignore"):
        y = found.astype(np.float32)
    if not np.isfinite(y).all():
        _refuse(source.key, "a label is too large for single precision", "divide the labels by a number")
    return y


def _stated_codes(labels: NDArray[Any], classes: tuple[str, ...], source: Source) -> NDArray[np.int32]:
    texts = public.texts(_comparable(labels, source.key))
    return public.codes(texts, classes, "the label", "data.classes", source)


def _check_values(x: NDArray[Any], names: tuple[str, ...], key: str) -> None:
    if x.shape[0] == 0 or x.shape[1] == 0:
        _refuse(key, "there are no records" if x.shape[0] == 0 else "there are no features")
    if x.shape[1] != len(names):
        _refuse(key, f"found {x.shape[1]} features; the training records have {len(names)}")
    with np.errstate(invalid="ignore"):
        bad = np.argwhere(~(np.abs(x.astype(np.float64, copy=False)) <= LARGEST))
    if len(bad):
        row, column = bad[0]
        _refuse(
            key,
            f"feature “{names[column]}” is {x[row, column]} in record {row + 1}",
            "correct the value, or remove the record",
        )


def _class_values(labels: NDArray[Any], key: str) -> NDArray[Any]:
    labels = _comparable(labels, key)
    values = np.unique(labels)
    if len(values) < 2:
        _refuse(
            key, f"all records belong to one class ({public.named(values[0])})", "at least two classes are required"
        )
    if labels.dtype.kind == "f" and not (values == np.rint(values)).all():
        _refuse(
            key,
            f"the label is a quantity ({values[0]:g} … {values[-1]:g}), not a class",
            "set label = … to the right column, or task = “regression”",
        )
    return values


def _comparable(labels: NDArray[Any], key: str) -> NDArray[Any]:
    """Return labels as text or numbers; raise an error if one is missing or of another kind."""
    if labels.dtype.kind in "biu":
        return labels
    for record, label in enumerate(labels, start=1):
        if wrong := _wrong_label(label):
            _refuse(key, f"record {record} {wrong}", "correct the label, or remove the record")
    return labels if labels.dtype.kind == "f" else labels.astype(str)


def _wrong_label(label: Any) -> str:
    """Return what is wrong with a label, which may be any value of a table; integers may have any size."""
    if isinstance(label, float | np.floating) and not np.isfinite(label):
        return "has no label" if np.isnan(label) else "has an infinite label"
    if isinstance(label, str | int | float | np.number | np.bool_) and not isinstance(label, np.timedelta64):
        return ""
    kind = type(label).__name__
    return "has no label" if kind in ABSENT else f"has a label that is neither a number nor text ({kind})"


def _indexed(labels: NDArray[Any], values: NDArray[Any], key: str) -> NDArray[np.int32]:
    labels = _comparable(labels, key)
    if (labels.dtype.kind == "U") != (values.dtype.kind == "U") or not np.isin(labels, values).all():
        strange = labels[~np.isin(labels, values)]
        shown = f": {public.named(strange[0])}" if len(strange) else ""
        _refuse(key, f"found a label that does not occur in data.file{shown}")
    return np.searchsorted(values, labels).astype(np.int32)


_READERS: dict[str, Callable[[list[Path], DataConfig], Unscaled]] = {
    "csv": _read_table,
    "parquet": _read_table,
    "npz": _read_npz,
    "svmlight": _read_svmlight,
}
