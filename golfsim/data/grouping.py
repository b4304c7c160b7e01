"""Reduce features to few values: groups of categories, and intervals of numbers (Cyphers 2017, section 7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest

if TYPE_CHECKING:
    from golfsim.data.cards import Card

Cuts = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Grouping:
    """The columns that become features: numbers cut into intervals, and categories in groups.

    All categories that are in no group form one more group, the last one.
    """

    numeric: tuple[str, ...]
    categories: Mapping[str, tuple[tuple[str, ...], ...]]

    @property
    def features(self) -> tuple[str, ...]:
        """All features, in the order of their codes."""
        return (*self.numeric, *self.categories)

    @staticmethod
    def of_card(card: Card) -> Grouping:
        """Return the grouping that a data card defines in `details.grouping`."""
        table = card.details.get("grouping")
        if table is None:
            raise UserError(
                f"“{card.name}” does not define how its columns become features of few values",
                key="data.set",
                hint="its card needs [details.grouping], as in data/adult.toml",
            )
        groups = {name: tuple(map(tuple, groups)) for name, groups in table["categories"].items()}
        return Grouping(tuple(table["numeric"]), groups)


@dataclass(frozen=True)
class Coded:
    """Records as small integers, shape (records, features), with the number of possible values per feature."""

    codes: NDArray[np.int32]
    alphabets: NDArray[np.int64]
    features: tuple[str, ...]


def coded(columns: Mapping[str, NDArray[Any]], grouping: Grouping, cuts: Cuts) -> Coded:
    """Return raw columns as codes: the bin of a number (a bin starts at its cut), or the group of a category."""
    missing = [name for name in grouping.features if name not in columns]
    if missing:
        hint = nearest(missing[0], columns)
        raise UserError(f"there is no column “{missing[0]}”, which is needed as a feature", key="data.set", hint=hint)
    blocks = [np.searchsorted(cuts[name], columns[name], side="right") for name in grouping.numeric]
    blocks += [group_codes(columns[name], groups) for name, groups in grouping.categories.items()]
    sizes = [len(cuts[name]) + 1 for name in grouping.numeric]
    sizes += [len(groups) + 1 for groups in grouping.categories.values()]
    return Coded(np.stack(blocks, axis=1).astype(np.int32), np.array(sizes, np.int64), grouping.features)


def group_codes(values: NDArray[Any], groups: tuple[tuple[str, ...], ...]) -> NDArray[np.int64]:
    """Return the group of each value; values in no group, and missing values, belong to the last group."""
    out = np.full(values.shape, len(groups))
    for code, group in enumerate(groups):
        for name in group:
            out[values == name] = code
    return out
