"""Read the data sets that have a card, from the files that are bundled, installed or fetched."""

from __future__ import annotations

import csv
import functools
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.arrays import arrays_of
from golfsim.core.errors import UserError
from golfsim.core.files import checksum
from golfsim.data.cards import Card, card_of, data_folder
from golfsim.data.fetch import damaged, folder_of
from golfsim.data.files import Unscaled


def read_card(card: Card) -> Unscaled:
    """Read the records of a set with a card, and compare them with the card."""
    raw = _READERS[card.reader](card)
    _check(card, raw)
    return raw


def _check(card: Card, raw: Unscaled) -> None:
    """Compare the records with the sizes and class counts of the card."""
    sides = [("training", raw.x, raw.y, card.records, card.counts)]
    if raw.test_x is not None and raw.test_y is not None:
        sides.append(("test", raw.test_x, raw.test_y, card.test_records, card.test_counts))
    for side, x, y, records, counts in sides:
        if y.ndim != 1 or not np.isin(y, np.arange(len(card.classes))).all() or x.dtype.kind not in "biuf":
            raise _damaged(card, f"the {side} records are no numbers, or belong to no class")
        found = tuple(np.bincount(y, minlength=len(card.classes)).tolist())
        if x.shape != (records, card.features) or (counts is not None and found != counts):
            raise _damaged(card, f"the {side} records are {x.shape} with classes {found}")
    low, high = card.details.get("positive_share", (0, 1))
    if not low <= float(np.mean(raw.y == 1)) <= high:
        raise _damaged(card, f"{np.mean(raw.y == 1):.1%} of the records are “{card.classes[1]}”")


def _damaged(card: Card, what: str) -> UserError:
    again = f"delete {folder_of(card)} and run: golfsim data fetch {card.name}" if card.kind == "fetched" else ""
    return UserError(f"“{card.name}” is damaged: {what}", key="data.set", hint=again or "install golfsim again")


def _bundled(card: Card) -> Path:
    file = card.files[0]
    path = data_folder() / str(file["name"])
    if not path.is_file():
        raise _damaged(card, f"{file['name']} is missing")
    if checksum(path) != file["sha256"]:
        raise _damaged(card, f"{file['name']} has the wrong checksum")
    return path


def _fetched(card: Card) -> Path:
    why = damaged(card, folder_of(card))
    if why and folder_of(card).is_dir():
        raise _damaged(card, why)
    if why:
        raise UserError(
            f"“{card.name}” has not been fetched yet", key="data.set", hint=f"run: golfsim data fetch {card.name}"
        )
    return folder_of(card)


def _read_arrays(card: Card) -> Unscaled:
    with np.load(_bundled(card), allow_pickle=False) as archive:
        features = tuple(archive["features"].tolist())
        return Unscaled(archive["x"], archive["y"].astype(np.int32), features, card.classes)


def _read_wdbc(card: Card) -> Unscaled:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = tuple(str(name) for name in found.feature_names[: card.features])
    return Unscaled(found.data[:, : card.features], (1 - found.target).astype(np.int32), names, card.classes)


def _read_mnist(card: Card) -> Unscaled:
    folder = _fetched(card)
    images = [_idx(folder / f"{part}-images-idx3-ubyte", 16).reshape(-1, 784) for part in ("train", "t10k")]
    labels = [_idx(folder / f"{part}-labels-idx1-ubyte", 8).astype(np.int32) for part in ("train", "t10k")]
    names = tuple(f"pixel {row},{column}" for row in range(28) for column in range(28))
    return Unscaled(images[0], labels[0], names, card.classes, images[1], labels[1])


def _idx(path: Path, header: int) -> NDArray[np.uint8]:
    return np.frombuffer(path.read_bytes(), dtype=np.uint8, offset=header)


def _read_susy(card: Card) -> Unscaled:
    path = _fetched(card) / card.files[0]["name"]
    try:
        found = arrays_of(path, ("x", "y"))
        return Unscaled(found["x"], found["y"].astype(np.int32), tuple(card.details["names"]), card.classes)
    except Exception as error:  # a damaged file may cause any error of zipfile, zlib and numpy
        raise _damaged(card, f"{type(error).__name__}: {error}") from error


def _read_adult(card: Card) -> Unscaled:
    return _adult(card, card, lambda name, values: (values[:, None], [name]))


def _read_a9a(card: Card) -> Unscaled:
    """Return Platt's binary features: numbers cut at the card's (inclusive) upper bounds, categories one-hot."""

    def cut(name: str, values: NDArray[np.int64]) -> tuple[NDArray[Any], list[str]]:
        cuts = card.details["cuts"][name]
        bins = np.searchsorted(cuts, values, side="left")
        names = [f"{name}<={bound}" for bound in cuts] + [f"{name}>{cuts[-1]}"]
        return bins[:, None] == np.arange(len(names)), names

    return _adult(card, card_of("adult"), cut)


def _adult(card: Card, adult: Card, number: Callable[[str, NDArray[Any]], tuple[NDArray[Any], list[str]]]) -> Unscaled:
    """Return Adult's records: categories one-hot in the order of its documentation, numbers by `number`.

    A missing category is all zeros.
    """
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
    return Unscaled(
        x[~is_test], y[~is_test], tuple(features), card.classes, x[is_test], y[is_test], columns, test_columns
    )


@functools.lru_cache(maxsize=1)
def _adult_table(path: Path, text: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return the columns of Adult's file, cached for the runs of a sweep."""
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


_READERS: dict[str, Callable[[Card], Unscaled]] = {
    "arrays": _read_arrays,
    "adult": _read_adult,
    "a9a": _read_a9a,
    "wdbc": _read_wdbc,
    "mnist": _read_mnist,
    "susy": _read_susy,
}
