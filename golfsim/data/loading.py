"""Data sets: reading what a card or a file of the user's describes, holding out test records, scaling."""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.core.memory import available, readable
from golfsim.core.settings import DataConfig
from golfsim.data import files
from golfsim.data.fetch import Card, cache_folder, card_of, cards, complete, data_folder, folder_of, sha256
from golfsim.data.files import Raw
from golfsim.data.generate import GENERATORS, features_of

if TYPE_CHECKING:
    from golfsim.data.grouping import Grouping

__all__ = ["Card", "Dataset", "cards", "load"]

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]
Step = Callable[[Floats], Floats]  # of a scaling; a module's own function or made of one, so that it can be pickled
DRAWN_BYTES = 12  # of each feature of a generated record: as drawn, and as scaled
CHUNK = 4096  # records that are scaled at a time
BIAS = "1"  # the name of the feature that is always 1


@dataclass(frozen=True)
class Dataset:
    """Records ready for learning: training records in random order, test records apart, both scaled alike."""

    name: str
    x: NDArray[np.float32]
    y: NDArray[np.int32]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int32]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    digest: str
    columns: Mapping[str, NDArray[Any]]
    test_columns: Mapping[str, NDArray[Any]]
    note: str = ""  # what every picture of it has to say
    steps: tuple[Step, ...] = ()  # of the scaling


def load(config: DataConfig, seed: int, folder: Path, run: int = 1) -> Dataset:
    """Read, split and scale what `[data]` describes; `folder` is the scenario file's.

    The split (and what is generated) is a function of `test_seed`, or else of `seed`, alone. With `folds` the runs of
    one shuffling have a seed in common, that of the first run and the number of the shuffling.
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
        raise UserError("so few that none is left for testing", key="data.test", hint="take more")
    if len(np.unique(raw.y[train])) < 2:
        raise UserError(f"the {len(train)} training records are all of one class", key="data.train", hint="take more")
    test_x, test_y = (raw.x, raw.y) if raw.test_x is None or raw.test_y is None else (raw.test_x, raw.test_y)
    test_columns = raw.columns if raw.test_y is None else raw.test_columns
    steps = _steps(config, card, raw, train)
    return Dataset(
        name=config.set or Path(config.file or "").stem,
        x=_scaled(raw.x, train, steps),
        y=raw.y[train],
        test_x=_scaled(test_x, test, steps),
        test_y=test_y[test],
        features=(*raw.features, *(BIAS for name in config.scale if name == "bias")),
        classes=raw.classes,
        digest=raw.digest(),
        columns={name: values[train] for name, values in raw.columns.items()},
        test_columns={name: values[test] for name, values in test_columns.items()},
        note=card.note if card else "",
        steps=tuple(steps),
    )


def _generator(seed: int, purpose: str) -> np.random.Generator:
    words = hashlib.sha256(repr((seed, purpose)).encode()).digest()
    return np.random.default_rng(list(struct.unpack("<8I", words)))


# Reading a set once, and sharing it with other processes

Key = tuple[str, ...]
shared: dict[Key, Path] = {}  # sets that another process has laid out for memory mapping, see `share`


def digest(config: DataConfig, folder: Path) -> str:
    """A hash of what `[data]` reads, and what its card says of it; generated sets are a function of card and seed."""
    card = card_of(config.set) if config.set is not None else None
    found = "generated" if card and card.kind == "generated" else _read(card, config, folder).digest()
    told = (card.records, card.classes, card.held_out, card.bounds, card.details, card.note) if card else None
    return f"{found} {hashlib.sha256(repr(told).encode()).hexdigest()}"


def span(config: DataConfig) -> tuple[float, float] | None:
    """The range that the scaling keeps every feature in, whatever the records are; None where it keeps none."""
    if "minmax" in config.scale:
        return 0.0, 1.0
    return (-1.0, 1.0) if config.scale else None


def caveat(config: DataConfig) -> str:
    """What the scaling asked of the private records, and nothing accounts for."""
    looked = config.bounds == "train" and "minmax" in config.scale
    return "the training set's min-max bounds, which are not accounted for" if looked else ""


def grouping(config: DataConfig) -> Grouping | None:
    """Which columns become features of few values, and their groups, where the set's card says so."""
    from golfsim.data.grouping import Grouping

    card = card_of(config.set) if config.set is not None else None
    return Grouping.of_card(card) if card and "grouping" in card.details else None


def shape(config: DataConfig, folder: Path) -> tuple[int, int, int]:
    """Training records, features and classes of what `[data]` reads; roughly, without holding out test records."""
    card = card_of(config.set) if config.set is not None else None
    if card:
        return config.train or card.records, card.features, len(card.classes)
    raw = _read(None, config, folder)
    return config.train or len(raw.y), raw.x.shape[1], len(raw.classes)


def share(configs: Iterable[DataConfig], folder: Path) -> dict[Key, Path]:
    """Lay out the sets that the configs read in the cache, so that other processes can map them into memory."""
    found = {}
    for config in configs:
        card = card_of(config.set) if config.set is not None else None
        if not (card and card.kind == "generated"):
            raw = _read(card, config, folder)
            with suppress(OSError):  # no place for it: each process will read it by itself
                found[_key(card, config, folder)] = raw.laid_out(cache_folder() / "arrays")
    return found


def _read(card: Card | None, config: DataConfig, folder: Path) -> Raw:
    """The records of a set with a card, or of a file of the user's; kept, since the runs of a sweep read them again."""
    key = _key(card, config, folder)
    if key not in _kept_sets:
        _kept_sets.pop(next(iter(_kept_sets)), None) if len(_kept_sets) >= KEPT_SETS else None
        if key in shared:
            _kept_sets[key] = Raw.mapped(shared[key])
        else:
            _kept_sets[key] = _read_card(card) if card else files.read(config, folder)
    return _kept_sets[key]


KEPT_SETS = 4
_kept_sets: dict[Key, Raw] = {}


def _key(card: Card | None, config: DataConfig, folder: Path) -> Key:
    """What tells sets apart, also by time and size of their files."""
    if card:
        place = folder_of(card) if card.kind == "fetched" else data_folder()
        return ("card", card.name, str(place), *(_version_of(place / str(file["name"])) for file in card.files))
    files = [folder / name for name in (config.file, config.test_file) if name is not None]
    return ("file", str(config.label), *(_version_of(file) for file in files))


def _version_of(file: Path) -> str:
    stat = file.stat() if file.is_file() else None
    return f"{file.resolve()} {stat and (stat.st_mtime_ns, stat.st_size)}"


def _read_card(card: Card) -> Raw:
    raw = _READERS[card.reader](card)
    _check(card, raw)
    return raw


# What a card describes


def _from_card(card: Card, config: DataConfig, seed: int, folder: Path) -> tuple[Raw, int | float | None]:
    for name in ("label", "test_file"):
        if getattr(config, name) is not None:
            raise UserError(f"“{name}” belongs to a file of your own, not to a set with a card", key=f"data.{name}")
    if card.kind == "generated":
        return _generated(card, config, seed)
    raw = _read(card, config, folder)
    if _has_repeats(card) and config.split == "clean":
        raw = _without_repeats(raw)
    return raw, config.test if config.test is not None else card.held_out


def _from_file(config: DataConfig, folder: Path) -> tuple[Raw, int | float | None]:
    if config.split == "as-published":
        raise UserError("a file of your own has no published split", key="data.split", hint="leave split out")
    raw = _read(None, config, folder)
    if raw.test_x is None and config.test is None and config.folds is None:
        raise UserError(
            "nothing says which records are for testing",
            key="data.test",
            hint="test = 0.2 holds out a fifth; or test_file, or folds",
        )
    return raw, config.test


def _generated(card: Card, config: DataConfig, seed: int) -> tuple[Raw, int]:
    """Draw as many points as are wanted for training and testing together."""
    test = config.test if config.test is not None else card.held_out
    assert test is not None
    if config.train is None or config.folds:
        records = card.records
        held_out = _number(test, records)
    else:
        held_out = math.ceil(round(config.train * test / (1 - test), 6)) if test < 1 else _number(test, None)
        records = config.train + held_out
    size = records * card.features * DRAWN_BYTES
    if size > available():
        raise UserError(
            f"{records} generated records need {readable(size)} of memory, {readable(available())} available",
            key="data.test" if config.train is None or held_out > config.train else "data.train",
            hint="generate fewer",
        )
    return _drawn(card.name, records, seed), held_out


@functools.lru_cache(maxsize=64)  # seeds: the points of a sweep share them
def _drawn(name: str, records: int, seed: int) -> Raw:
    """Points of a generated set; kept, since runs that share a seed share the points."""
    card = card_of(name)
    x, y = GENERATORS[card.reader](records, _generator(seed, "generate"), card.details)
    for array in (x, y):
        array.setflags(write=False)
    return Raw(x, y, features_of(card.reader, x.shape[1]), card.classes)


def forget_drawn() -> None:
    """Let go of the generated points that are kept for runs to share."""
    _drawn.cache_clear()


def _check(card: Card, raw: Raw) -> None:
    """Hold what was read against the card's sizes and class counts."""
    sides = [("training", raw.x, raw.y, card.records, card.counts)]
    if raw.test_x is not None and raw.test_y is not None:
        sides.append(("test", raw.test_x, raw.test_y, card.test_records, card.test_counts))
    for side, x, y, records, counts in sides:
        found = tuple(np.bincount(y, minlength=len(card.classes)).tolist())
        if x.shape != (records, card.features) or (counts is not None and found != counts):
            raise _damaged(card, f"the {side} records are {x.shape} with classes {found}")
    low, high = card.details.get("positive_share", (0, 1))
    if not low <= float(np.mean(raw.y == 1)) <= high:
        raise _damaged(card, f"{np.mean(raw.y == 1):.1%} of the records are “{card.classes[1]}”")


def _damaged(card: Card, what: str) -> UserError:
    again = f"delete {folder_of(card)} and run: golfsim data fetch {card.name}" if card.kind == "fetched" else ""
    return UserError(f"“{card.name}” is damaged: {what}", key="data.set", hint=again or "install golfsim again")


def _has_repeats(card: Card) -> bool:
    return bool(card.details.get("repeated_records"))


def _without_repeats(raw: Raw) -> Raw:
    """Each distinct record once, in the order of first appearance."""
    _, first = np.unique(raw.x, axis=0, return_index=True)
    first.sort()
    return Raw(raw.x[first], raw.y[first], raw.features, raw.classes)


def _bundled(card: Card) -> Path:
    file = card.files[0]
    path = data_folder() / str(file["name"])
    if not path.is_file():
        raise _damaged(card, f"{file['name']} is missing")
    if sha256(path) != file["sha256"]:
        raise _damaged(card, f"{file['name']} has the wrong checksum")
    return path


def _fetched(card: Card) -> Path:
    if not complete(card):
        raise UserError(
            f"“{card.name}” has not been fetched yet", key="data.set", hint=f"run: golfsim data fetch {card.name}"
        )
    return folder_of(card)


def _read_arrays(card: Card) -> Raw:
    with np.load(_bundled(card), allow_pickle=False) as archive:
        features = tuple(archive["features"].tolist())
        return Raw(archive["x"], archive["y"].astype(np.int32), features, card.classes)


def _read_wdbc(card: Card) -> Raw:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = tuple(str(name) for name in found.feature_names[: card.features])
    return Raw(found.data[:, : card.features], (1 - found.target).astype(np.int32), names, card.classes)


def _read_mnist(card: Card) -> Raw:
    folder = _fetched(card)
    images = [_idx(folder / f"{part}-images-idx3-ubyte", 16).reshape(-1, 784) for part in ("train", "t10k")]
    labels = [_idx(folder / f"{part}-labels-idx1-ubyte", 8).astype(np.int32) for part in ("train", "t10k")]
    names = tuple(f"pixel {row},{column}" for row in range(28) for column in range(28))
    return Raw(images[0], labels[0], names, card.classes, images[1], labels[1])


def _idx(path: Path, header: int) -> NDArray[np.uint8]:
    return np.frombuffer(path.read_bytes(), dtype=np.uint8, offset=header)


def _read_susy(card: Card) -> Raw:
    path = _fetched(card) / card.files[0]["name"]
    try:
        with np.load(path, allow_pickle=False) as archive:
            return Raw(archive["x"], archive["y"].astype(np.int32), tuple(card.details["names"]), card.classes)
    except (ValueError, KeyError, OSError) as error:
        raise _damaged(card, str(error)) from error


# Adult, and a9a which is computed from it


def _read_adult(card: Card) -> Raw:
    return _adult(card, card, lambda name, values: (values[:, None], [name]))


def _read_a9a(card: Card) -> Raw:
    """Platt's binary features: numbers cut at the card's (inclusive) upper bounds, categories one-hot."""

    def cut(name: str, values: NDArray[np.int64]) -> tuple[NDArray[Any], list[str]]:
        cuts = card.details["cuts"][name]
        bins = np.searchsorted(cuts, values, side="left")
        names = [f"{name}<={bound}" for bound in cuts] + [f"{name}>{cuts[-1]}"]
        return bins[:, None] == np.arange(len(names)), names

    return _adult(card, card_of("adult"), cut)


def _adult(card: Card, adult: Card, number: Callable[[str, NDArray[Any]], tuple[NDArray[Any], list[str]]]) -> Raw:
    """Adult's records: categories one-hot in the documentation's order (missing: all zeros), numbers by `number`."""
    categories = adult.details["categories"]
    table = dict(_adult_table(_bundled(adult), tuple(categories)))
    is_test = table.pop("split") == "test"
    y = (table.pop("income") == adult.classes[1]).astype(np.int32)
    blocks, features = [], []
    for name, values in table.items():
        block, names = _one_hot(name, values, categories[name]) if name in categories else number(name, values)
        blocks.append(block)
        features += names
    x = np.concatenate(blocks, axis=1, dtype=np.float32)
    columns, test_columns = ({name: values[side] for name, values in table.items()} for side in (~is_test, is_test))
    return Raw(x[~is_test], y[~is_test], tuple(features), card.classes, x[is_test], y[is_test], columns, test_columns)


@functools.lru_cache(maxsize=1)
def _adult_table(path: Path, text: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The columns of Adult's file; kept, since the runs of a sweep read it again and again."""
    with gzip.open(path, "rt", encoding="ascii", newline="") as lines:
        header, *records = csv.reader(lines)
    text = (*text, "income", "split")
    columns = zip(*records, strict=True)
    return {
        name: np.array(values) if name in text else np.array(values, dtype=np.int64)
        for name, values in zip(header, columns, strict=True)
    }


def _one_hot(name: str, values: NDArray[Any], categories: list[str]) -> tuple[NDArray[np.bool_], list[str]]:
    found = values[:, None] == np.array(categories)
    return found, [f"{name}={category}" for category in categories]


_READERS: dict[str, Callable[[Card], Raw]] = {
    "arrays": _read_arrays,
    "adult": _read_adult,
    "a9a": _read_a9a,
    "wdbc": _read_wdbc,
    "mnist": _read_mnist,
    "susy": _read_susy,
}


# Holding out test records


def _split(
    raw: Raw, config: DataConfig, held_out: int | float | None, overlap: bool, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Rows for training, in random order, and for testing; `overlap`: test records are also trained on."""
    order = rng.permutation(len(raw.y))
    if raw.test_y is not None:
        test = (
            rng.permutation(len(raw.test_y))[: _number(config.test, len(raw.test_y), spare=0)] if config.test else None
        )
        return _kept(order, config.train), np.arange(len(raw.test_y)) if test is None else np.sort(test)
    assert held_out is not None
    number = _number(held_out, len(order))
    if overlap:
        return _kept(order, config.train), _per_class(order, raw.y, number)
    return _kept(order[number:], config.train), np.sort(order[:number])


def _folded(raw: Raw, config: DataConfig, overlap: bool, fold: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows for training, in random order, and those of one fold for testing."""
    folds = config.folds or 1
    if raw.test_y is not None or overlap:
        own = "the published split has" if overlap else "this set has"
        raise UserError(f"{own} test records of its own", key="data.folds", hint="leave folds out")
    if len(raw.y) < folds:
        raise UserError(f"{len(raw.y)} records make no {folds} folds", key="data.folds", hint="take fewer folds")
    parts = np.array_split(rng.permutation(len(raw.y)), folds)
    rest = np.concatenate([part for number, part in enumerate(parts) if number != fold])
    return _kept(rest, config.train), np.sort(parts[fold])


def _number(test: int | float, records: int | None, spare: int = 1) -> int:
    """A number or share of `records` that leaves at least `spare` of them over."""
    number = math.ceil(round(test * records, 6)) if test < 1 and records is not None else int(test)
    if test >= 1 and number != test:
        raise UserError(f"{test} is neither a share below 1 nor a whole number", key="data.test")
    if records is not None and number > records - spare:
        raise UserError(f"{number} test records are too many", key="data.test", hint=f"at most {records - spare}")
    return number


def _kept(rows: Rows, train: int | None) -> Rows:
    if train is not None and train > len(rows):
        raise UserError(f"there are only {len(rows)} training records", key="data.train", hint=f"at most {len(rows)}")
    return rows[:train]


def _per_class(order: Rows, y: NDArray[np.int32], number: int) -> Rows:
    """As many rows of each class, `number` in all."""
    classes = np.unique(y)
    return np.sort(np.concatenate([order[y[order] == label][: number // len(classes)] for label in classes]))


# Scaling


def _steps(config: DataConfig, card: Card | None, raw: Raw, train: Rows) -> list[Step]:
    steps: list[Step] = []
    for position, name in enumerate(config.scale):
        if name != "minmax":
            steps.append(_with_bias if name == "bias" else _LENGTHS[name])
            continue
        if "bias" in config.scale[:position]:
            raise UserError("minmax would make the bias 0", key="data.scale", hint="put bias after minmax")
        if config.bounds != "train" and position:
            raise UserError(
                "public bounds are those of the features as they come", key="data.scale", hint="put minmax first"
            )
        seen = config.bounds == "train"
        steps.append(_minmax(_seen(raw.x, train, steps) if seen else _public(card, raw, config.stated_bounds)))
    return steps


def _public(card: Card | None, raw: Raw, stated: Mapping[str, tuple[float, float]]) -> Bounds:
    """The bounds of each feature: as the scenario states them, or else as the card does."""
    if stated:
        _check_stated(stated, raw.features)
        return _by_feature(stated, raw.features)
    if card is None or not card.bounds:
        whose = f"“{card.name}”" if card else "a file of your own"
        hint = 'state them: bounds = [0, 1]; bounds = "train" looks at the training records, which is not private'
        raise UserError(f"{whose} has no public bounds for minmax", key="data.bounds", hint=hint)
    return _by_feature(card.bounds, raw.features)


def _by_feature(bounds: Mapping[str, tuple[float, float]], features: tuple[str, ...]) -> Bounds:
    pairs = [bounds.get(name, bounds.get("default")) for name in features]
    low, high = np.array(pairs, dtype=np.float64).T
    return low, high


def _check_stated(stated: Mapping[str, tuple[float, float]], features: tuple[str, ...]) -> None:
    unknown = [name for name in stated if name not in (*features, "default")]
    if unknown:
        raise UserError(f"there is no feature “{unknown[0]}”", key="data.bounds", hint=nearest(unknown[0], features))
    missing = [name for name in features if name not in stated]
    if missing and "default" not in stated:
        what = f"there are none for the feature “{missing[0]}”"
        raise UserError(what, key="data.bounds", hint="default = [low, high] is for all that are not named")


def _seen(x: NDArray[Any], train: Rows, steps: list[Step]) -> Bounds:
    """The least and greatest value of each feature of the training records, after `steps`."""
    low, high = np.full(x.shape[1], np.inf), np.full(x.shape[1], -np.inf)
    for _, part in _in_chunks(x, train, steps):
        np.minimum(low, part.min(axis=0), out=low)
        np.maximum(high, part.max(axis=0), out=high)
    return low, high


def _scaled(x: NDArray[Any], rows: Rows, steps: Sequence[Step]) -> NDArray[np.float32]:
    width = x.shape[1] + sum(step is _with_bias for step in steps)
    out = np.empty((len(rows), width), dtype=np.float32)
    for place, part in _in_chunks(x, rows, steps):
        out[place] = part
    return out


def _in_chunks(x: NDArray[Any], rows: Rows, steps: Sequence[Step]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    for start in range(0, len(rows), CHUNK):
        place = slice(start, min(start + CHUNK, len(rows)))
        part = x[rows[place]].astype(np.float64)
        for step in steps:
            part = step(part)
        yield place, part


def _minmax(bounds: Bounds) -> Step:
    """Each feature from its bounds to [0, 1]; what lies outside, also of test records, is clipped; constants are 0."""
    low, high = bounds
    return functools.partial(_to_unit, low, np.where(high > low, high - low, np.inf))


def _to_unit(low: Floats, width: Floats, x: Floats) -> Floats:
    return np.clip((x - low) / width, 0, 1)


def _with_bias(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack((x, np.ones(len(x))))


def _divided(x: NDArray[np.float64], length: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / np.where(length > 0, length, 1)[:, None]


def _l1(x: Floats) -> Floats:
    return _divided(x, np.abs(x).sum(axis=1))


def _lengths(x: Floats) -> Floats:
    return np.asarray(np.sqrt(np.square(x).sum(axis=1)))


def _l2(x: Floats) -> Floats:
    return _divided(x, _lengths(x))


def _clip_l2(x: Floats) -> Floats:
    return _divided(x, np.maximum(_lengths(x), 1))


_LENGTHS: dict[str, Step] = {"l1": _l1, "l2": _l2, "clip-l2": _clip_l2}


def to_length(x: NDArray[np.float32], config: DataConfig) -> NDArray[np.float32]:
    """Records that were changed after scaling, brought to the length that `[data]` asks for again."""
    return scaled(x, [_LENGTHS[name] for name in config.scale if name in _LENGTHS])


def scaled(x: NDArray[Any], steps: Sequence[Step]) -> NDArray[np.float32]:
    """All of some records after the steps of a scaling, e.g. new ones as those that a model was learned from."""
    return _scaled(x, np.arange(len(x)), steps)
