"""Load data sets: read records from a card or a user's file, hold out test records, and scale."""

from __future__ import annotations

import functools
import hashlib
import math
import struct
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.memory import available, readable
from golfsim.core.paths import private
from golfsim.core.words import counted
from golfsim.data import array_cache, files, public
from golfsim.data.cards import Card, card_of, cards, data_folder
from golfsim.data.config import DataConfig, Task
from golfsim.data.fetch import complete, folder_of
from golfsim.data.files import Unscaled
from golfsim.data.generate import GENERATORS, features_of
from golfsim.data.known_sets import read_card
from golfsim.data.scaling import Indices, Step, names, scale_rows, scaling_steps

if TYPE_CHECKING:
    from golfsim.data.grouping import Grouping

__all__ = ["Card", "Dataset", "cards", "load"]

# Bytes per feature of a generated record, with its scaled copy, while the set is generated
DRAWN_BYTES = {"random": 20, "separable": 38, "inseparable": 38, "mooc": 2640, "plane": 20, "ratings": 200}


@dataclass(frozen=True)
class Dataset:
    """Records ready for learning: training records, in random order unless `shuffle` is false, and test records.

    Both are scaled in the same way.
    """

    name: str
    x: NDArray[np.float32]
    y: NDArray[Any]  # codes of classes as int32, or numbers as float32
    test_x: NDArray[np.float32]
    test_y: NDArray[Any]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    digest: str
    columns: Mapping[str, NDArray[Any]]
    test_columns: Mapping[str, NDArray[Any]]
    note: str = ""  # shown in every figure
    steps: tuple[Step, ...] = ()  # the scaling steps
    task: Task = "classification"
    items: int = 0  # of ratings


def load(config: DataConfig, seed: int, folder: Path, run: int = 1) -> Dataset:
    """Read, split and scale the records that `[data]` describes; `folder` is that of the scenario file.

    The split, and generated records, depend only on `test_seed`, or on `seed` if it is not given. With `folds`, all
    runs of one shuffle share a seed: that of the first run plus the number of the shuffle.
    """
    shuffling, fold = divmod(run - 1, config.folds or 1)
    common = seed - (run - 1) + shuffling if config.folds else seed
    seed = common if config.test_seed is None else config.test_seed
    card = card_of(config.set) if config.set is not None else None
    raw, held_out = _from_card(card, config, seed, folder) if card else _from_file(config, folder)
    overlap = card is not None and _has_repeats(card) and config.split == "as-published"
    if config.folds:
        train, test = _folded(raw, config, overlap, fold, _generator(seed, f"shuffling {shuffling}"))
    else:
        train, test = _split(raw, config, held_out, overlap, _generator(seed, "split"))
    if not len(test):
        raise UserError("no records are left for testing", key="data.test", hint="use a larger number or share")
    task = task_of(config)
    if task == "classification" and len(np.unique(raw.y[train])) < 2:
        what = f"all training records ({len(train)}) belong to one class"
        raise UserError(what, key="data.train", hint="use more training records")
    test_x, test_y = (raw.x, raw.y) if raw.test_x is None or raw.test_y is None else (raw.test_x, raw.test_y)
    test_columns = raw.columns if raw.test_y is None else raw.test_columns
    if task == "ratings" and config.scale:
        raise UserError("ratings have no features to scale", key="data.scale", hint="remove scale")
    items = max(int(x.max(initial=-1)) + 1 for x in (raw.x, test_x)) if task == "ratings" else 0
    steps = scaling_steps(config, card, raw, train)
    return Dataset(
        name=config.set or Path(config.file or "").stem,
        x=scale_rows(raw.x, train, steps),
        y=raw.y[train],
        test_x=scale_rows(test_x, test, steps),
        test_y=test_y[test],
        features=names(config, raw.features),
        classes=raw.classes,
        digest=raw.digest(),
        columns={name: values[train] for name, values in raw.columns.items()},
        test_columns={name: values[test] for name, values in test_columns.items()},
        note=card.note if card else "",
        steps=tuple(steps),
        task=task,
        items=items,
    )


def task_of(config: DataConfig) -> Task:
    """Return what the labels are."""
    return card_of(config.set).task if config.set is not None else config.task or "classification"


def _generator(seed: int, purpose: str) -> np.random.Generator:
    words = hashlib.sha256(repr((seed, purpose)).encode()).digest()
    return np.random.default_rng(list(struct.unpack("<8I", words)))


# Reading a set once, and sharing it with other processes

Key = tuple[str, ...]
shared: dict[Key, Path] = {}  # sets that another process has written for memory mapping, see `share`


def digest(config: DataConfig, folder: Path) -> str:
    """Return a hash of the records that `[data]` reads and of their card.

    The records of a generated set follow from the card and the seed, so only the card is hashed.
    """
    card = card_of(config.set) if config.set is not None else None
    found = "generated" if card and card.kind == "generated" else _read(card, config, folder).digest()
    told = (card.records, card.classes, card.held_out, card.bounds, card.details, card.note) if card else config.task
    return f"{found} {hashlib.sha256(repr(told).encode()).hexdigest()}"


def grouping(config: DataConfig) -> Grouping | None:
    """Return which columns become features of few values, and their groups, if the card of the set defines them."""
    from golfsim.data.grouping import Grouping

    card = card_of(config.set) if config.set is not None else None
    return Grouping.of_card(card) if card and "grouping" in card.details else None


def caveat(config: DataConfig, folder: Path) -> str:
    """Return what was read from the private records before any layer ran, and is not accounted for."""
    return public.caveat(config, _read(None, config, folder).columns if config.file is not None else ())


def shape(config: DataConfig, folder: Path) -> tuple[int, int, int]:
    """Return the approximate number of training records, features and classes; no test records are held out."""
    card = card_of(config.set) if config.set is not None else None
    if card:
        return config.train or card.records, card.features, len(card.classes)
    raw = _read(None, config, folder)
    return config.train or len(raw.y), raw.x.shape[1], len(raw.classes)


def items(config: DataConfig, folder: Path) -> int:
    """Return the number of items that are rated; 0 unless labels are ratings."""
    if task_of(config) != "ratings":
        return 0
    card = card_of(config.set) if config.set is not None else None
    return int(card.details["items"]) if card else int(_read(None, config, folder).x.max()) + 1


def values_of(config: DataConfig, column: str, folder: Path) -> int | None:
    """Return the number of values of a column, or None if it is not known without generating the records."""
    card = card_of(config.set) if config.set is not None else None
    if card and card.kind == "generated":
        return int(card.details["users"]) if card.task == "ratings" else None
    columns = _read(card, config, folder).columns
    return len(np.unique(columns[column])) if column in columns else None


def kind(config: DataConfig) -> Literal["file", "bundled", "computed", "installed", "generated", "fetched", "missing"]:
    """Return where the records of `[data]` come from; “missing”: from a set that has not been fetched."""
    card = card_of(config.set) if config.set is not None else None
    if card is None:
        return "file"
    return "missing" if card.kind == "fetched" and not complete(card) else card.kind


def memory(config: DataConfig) -> tuple[int, int]:
    """Return the bytes for generating a set, and those of what is kept of it for other runs with the same seed.

    They are 0 for a file, which has already been read to know its shape.
    """
    card = card_of(config.set) if config.set is not None else None
    if not (card and card.kind == "generated"):
        return 0, 0
    records, _ = _to_generate(card, config)
    return records * (card.features * DRAWN_BYTES[card.reader] + 8), records * (card.features * 8 + 4)


def test_records(config: DataConfig, folder: Path) -> int:
    """Return the approximate number of test records."""
    records = shape(config, folder)[0]
    card = card_of(config.set) if config.set is not None else None
    test = config.test if config.test is not None else card.held_out if card else None
    if config.folds:
        return records // config.folds
    if test is None:
        raw = _read(card, config, folder)
        return 0 if raw.test_y is None else len(raw.test_y)
    return int(test) if test >= 1 else math.ceil(records * test / (1 - test)) if test < 1 else 0


def share(configs: Iterable[DataConfig], folder: Path) -> dict[Key, Path]:
    """Write the sets that the configs read to the cache, so that other processes can map them into memory."""
    found = {}
    for config in configs:
        card = card_of(config.set) if config.set is not None else None
        if not (card and card.kind == "generated"):
            raw = _read(card, config, folder)
            with suppress(OSError):  # no space: each process will read the set itself
                found[_key(card, config, folder)] = array_cache.stored(raw, private("arrays"))
    return found


def _read(card: Card | None, config: DataConfig, folder: Path) -> Unscaled:
    """Return the records of a set with a card or of a user's file, cached for the runs of a sweep."""
    key = _key(card, config, folder)
    if key not in _kept_sets:
        _kept_sets.pop(next(iter(_kept_sets)), None) if len(_kept_sets) >= KEPT_SETS else None
        found = _mapped(shared[key]) if key in shared else None
        _kept_sets[key] = found or (read_card(card) if card else files.read(config, folder))
    return _kept_sets[key]


def _mapped(place: Path) -> Unscaled | None:
    """Return the arrays of another process, or None with a warning if they are damaged."""
    try:
        return array_cache.mapped(place)
    except array_cache.Damaged as damage:
        warnings.warn(f"{damage}; the set is read from its source", stacklevel=2)
        return None


KEPT_SETS = 4
_kept_sets: dict[Key, Unscaled] = {}


def _key(card: Card | None, config: DataConfig, folder: Path) -> Key:
    """Return a key that identifies a set, including the time and size of its files."""
    if card:
        place = folder_of(card) if card.kind == "fetched" else data_folder()
        return ("card", card.name, str(place), *(_version_of(place / str(file["name"])) for file in card.files))
    files = [folder / name for name in (config.file, config.test_file) if name is not None]
    stated = (config.task, config.label, config.class_names, config.categories, config.indices)
    return ("file", repr(stated), *(_version_of(file) for file in files))


def _version_of(file: Path) -> str:
    stat = file.stat() if file.is_file() else None
    return f"{file.resolve()} {stat and (stat.st_mtime_ns, stat.st_size)}"


# What a card describes


def _from_card(card: Card, config: DataConfig, seed: int, folder: Path) -> tuple[Unscaled, int | float | None]:
    for name in ("label", "classes", "categories", "indices", "test_file"):
        if getattr(config, name) is not None:
            raise UserError(f"“{name}” is only for your own file, not for a set with a card", key=f"data.{name}")
    if card.kind == "generated":
        return _generated(card, config, seed)
    raw = _read(card, config, folder)
    if _has_repeats(card) and config.split == "clean":
        raw = _without_repeats(raw)
    return raw, config.test if config.test is not None else card.held_out


def _from_file(config: DataConfig, folder: Path) -> tuple[Unscaled, int | float | None]:
    if config.split == "as-published":
        raise UserError("your own file has no published split", key="data.split", hint="remove split")
    raw = _read(None, config, folder)
    if raw.test_x is None and config.test is None and config.folds is None:
        raise UserError(
            "the test records are not defined",
            key="data.test",
            hint="use test = 0.2 to hold out a fifth of the records, or test_file, or folds",
        )
    return raw, config.test


def _generated(card: Card, config: DataConfig, seed: int) -> tuple[Unscaled, int]:
    """Draw the points for training and testing together."""
    records, held_out = _to_generate(card, config)
    return _drawn(card.name, records, seed), held_out


def _to_generate(card: Card, config: DataConfig) -> tuple[int, int]:
    """Return the number of records to generate, and of test records among them; refuse what does not fit."""
    test = config.test if config.test is not None else card.held_out
    assert test is not None
    if config.train is None or config.folds:
        records = card.records
        held_out = _number(test, records)
    else:
        held_out = math.ceil(round(config.train * test / (1 - test), 6)) if test < 1 else _number(test, None)
        records = config.train + held_out
    size = records * card.features * DRAWN_BYTES[card.reader]
    if size > available():
        raise UserError(
            f"{records} generated records need {readable(size)} of memory; {readable(available())} are available",
            key="data.test" if config.train is None or held_out > config.train else "data.train",
            hint="generate fewer records",
        )
    return records, held_out


@functools.lru_cache(maxsize=64)  # seeds: the points of a sweep share them
def _drawn(name: str, records: int, seed: int) -> Unscaled:
    """Return the points of a generated set, cached since runs that share a seed share the points."""
    card = card_of(name)
    x, y = GENERATORS[card.reader](records, _generator(seed, "generate"), card.details)
    for array in (x, y):
        array.setflags(write=False)
    columns = {"user": x[:, 0].astype(np.int64)} if card.task == "ratings" else {}
    x = x[:, 1:] if columns else x
    return Unscaled(x, y, features_of(card.reader, x.shape[1]), card.classes, columns=columns)


def forget_drawn() -> None:
    """Remove the generated points from the cache that runs share."""
    _drawn.cache_clear()


def _has_repeats(card: Card) -> bool:
    return bool(card.details.get("repeated_records"))


def _without_repeats(raw: Unscaled) -> Unscaled:
    """Return each distinct record once, in the order of first occurrence."""
    _, first = np.unique(raw.x, axis=0, return_index=True)
    first.sort()
    return Unscaled(raw.x[first], raw.y[first], raw.features, raw.classes)


# Holding out test records


def _split(
    raw: Unscaled, config: DataConfig, held_out: int | float | None, overlap: bool, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return the rows for training, in random order, and for testing; without `shuffle`, the first and the last rows.

    With `overlap`, test records are also training records.
    """
    order = _order(len(raw.y), config, rng)
    if raw.test_y is not None:
        number = _number(config.test, len(raw.test_y), spare=0) if config.test else None
        test = None if number is None else _order(len(raw.test_y), config, rng)[:number]
        return _kept(order, config.train), np.arange(len(raw.test_y)) if test is None else np.sort(test)
    assert held_out is not None
    number = _number(held_out, len(order))
    if overlap:
        return _kept(order, config.train), _per_class(order, raw.y, number)
    if not config.shuffle:
        return _kept(order[: len(order) - number], config.train), order[len(order) - number :]
    return _kept(order[number:], config.train), np.sort(order[:number])


def _order(rows: int, config: DataConfig, rng: np.random.Generator) -> Indices:
    return rng.permutation(rows) if config.shuffle else np.arange(rows)


def _folded(
    raw: Unscaled, config: DataConfig, overlap: bool, fold: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return the rows for training, in random order, and those of one fold for testing.

    Without `shuffle`, only the first `train` rows are divided into folds, and training rows keep their order.
    """
    folds = config.folds or 1
    if raw.test_y is not None or overlap:
        own = "the published split has" if overlap else "this set has"
        raise UserError(f"{own} its own test records", key="data.folds", hint="remove folds")
    divided = len(raw.y) if config.shuffle else len(_kept(np.arange(len(raw.y)), config.train, "record"))
    if divided < folds:
        what = f"{counted(divided, 'record')} cannot be divided into {folds} folds"
        raise UserError(what, key="data.folds", hint="use fewer folds")
    parts = np.array_split(rng.permutation(divided), folds)
    rest = np.concatenate([part for number, part in enumerate(parts) if number != fold])
    return (_kept(rest, config.train) if config.shuffle else np.sort(rest)), np.sort(parts[fold])


def _number(test: int | float, records: int | None, spare: int = 1) -> int:
    """Return a number or share of `records` as a number; at least `spare` of them must be left."""
    number = math.ceil(round(test * records, 6)) if test < 1 and records is not None else int(test)
    if test >= 1 and number != test:
        raise UserError(f"{test} is neither a share below 1 nor an integer", key="data.test")
    if records is not None and number > records - spare:
        what = f"{counted(number, 'test record')} exceed the available records"
        raise UserError(what, key="data.test", hint=f"use at most {records - spare}")
    return number


def _kept(rows: Indices, train: int | None, what_they_are: str = "training record") -> Indices:
    if train is not None and train > len(rows):
        what = f"there are only {counted(len(rows), what_they_are)}"
        raise UserError(what, key="data.train", hint=f"use at most {len(rows)}")
    return rows[:train]


def _per_class(order: Indices, y: NDArray[np.int32], number: int) -> Indices:
    """Return equally many rows of each class, `number` in total."""
    classes = np.unique(y)
    return np.sort(np.concatenate([order[y[order] == label][: number // len(classes)] for label in classes]))
