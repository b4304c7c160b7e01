"""Encode records as small integers, one per column.

AnonML asks for combinations of few values (Cyphers 2017, sections 7.1 and 7.2). They are computed from the features
that learners see, in the same way for every data set: a feature named ``column=value`` is one category of a column, and
every other feature is a number, which is cut into bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.core.kernels import kernel
from golfsim.data.grouping import Grouping

NUMBER = -1  # in place of a code: the column is a number


class Columns(NamedTuple):
    """The columns; column c consists of the features feature[start[c]] … feature[start[c+1]−1]."""

    start: NDArray[np.int64]
    feature: NDArray[np.int64]
    code: NDArray[np.int32]  # the code of each of these features if it is not 0; NUMBER for a number
    other: NDArray[np.int32]  # the code of each column if all its features are 0
    cut: NDArray[np.int64]  # the row of the cuts that belongs to each column; −1 for categories


@kernel
def write_codes(x, records, columns, cuts, codes):
    """Write the codes of all columns for some rows of x; a bin starts at its cut."""
    for r in range(records.size):
        for c in range(columns.other.size):
            code = columns.other[c]
            for place in range(columns.start[c], columns.start[c + 1]):
                value = x[records[r], columns.feature[place]]
                if columns.code[place] == NUMBER:
                    code = np.searchsorted(cuts[columns.cut[c]], value, side="right")
                elif value > 0:
                    code = columns.code[place]
            codes[r, c] = code


@dataclass(frozen=True)
class Coder:
    """The names of the columns, and the rule that computes their codes from features."""

    names: tuple[str, ...]
    alphabets: NDArray[np.int64]  # the number of values of each column
    numbers: NDArray[np.int64]  # the features that are numbers, in the order of the rows of cuts
    columns: Columns

    def codes(
        self, x: NDArray[np.float32], cuts: NDArray[np.float64], records: NDArray[np.int64] | None = None
    ) -> NDArray[np.int32]:
        """Return the codes [records, columns] of some rows of x, or of all."""
        records = np.arange(len(x)) if records is None else records
        out = np.empty((records.size, len(self.names)), np.int32)
        write_codes(x, records, self.columns, cuts, out)
        return out

    @property
    def numeric(self) -> NDArray[np.int64]:
        """The columns that are numbers, in the order of `numbers`."""
        return np.flatnonzero(self.columns.cut >= 0)


Blocks = dict[str, list[tuple[int, str]]]


def blocks_of(features: Sequence[str]) -> Blocks:
    """Return the features of each column, each with its category (empty for a number)."""
    found: Blocks = {}
    for place, name in enumerate(features):
        column, _, value = name.partition("=")
        found.setdefault(column, []).append((place, value))
    return found


def coder_of(
    features: Sequence[str],
    bins: int,
    grouping: Grouping | None = None,
    categories: Mapping[str, tuple[tuple[str, ...], ...]] | None = None,
) -> Coder:
    """Return the coder of the columns that a grouping names, or of all columns.

    Groups of categories in `categories` replace those of the grouping.
    """
    blocks, groups = blocks_of(features), (dict(grouping.categories) if grouping else {}) | dict(categories or {})
    names = grouping.features if grouping else tuple(blocks)
    _refuse_unknown([*names, *groups], blocks)
    parts = [_column(blocks[name], groups.get(name), bins) for name in names]
    is_number = np.array([part.code[0] == NUMBER for part in parts])
    columns = Columns(
        start=np.cumsum([0, *(len(part.feature) for part in parts)], dtype=np.int64),
        feature=np.concatenate([part.feature for part in parts]),
        code=np.concatenate([part.code for part in parts]),
        other=np.array([part.values - 1 for part in parts], np.int32),
        cut=np.where(is_number, np.cumsum(is_number) - 1, -1),
    )
    numbers = columns.feature[columns.code == NUMBER]
    return Coder(names, np.array([part.values for part in parts], np.int64), numbers, columns)


class _Part(NamedTuple):
    feature: NDArray[np.int64]
    code: NDArray[np.int32]
    values: int


def _column(block: list[tuple[int, str]], groups: tuple[tuple[str, ...], ...] | None, bins: int) -> _Part:
    """Return one column: a number with `bins` values, or a category with one value per group and one for the rest.

    Without groups every category is a group.
    """
    feature = np.array([place for place, _ in block], np.int64)
    if block[0][1] == "":
        return _Part(feature[:1], np.array([NUMBER], np.int32), bins)
    groups = tuple((value,) for _, value in block) if groups is None else groups
    code = {value: number for number, group in enumerate(groups) for value in group}
    return _Part(feature, np.array([code.get(value, len(groups)) for _, value in block], np.int32), len(groups) + 1)


def _refuse_unknown(names: Sequence[str], blocks: Blocks) -> None:
    missing = [name for name in names if name not in blocks]
    if missing:
        hint = nearest(missing[0], blocks)
        raise UserError(f"the data have no column “{missing[0]}”", key="categories", hint=hint)
