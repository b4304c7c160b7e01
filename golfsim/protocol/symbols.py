"""Published symbols in the place of vectors, and the operations of learners on both.

A symbol is a class y and a feature f, with a sign if features may be negative. A report names some symbols. The
estimate of e_y ⊗ x from the reports of a record has the number `low` for each symbol, plus `gain` for each report that
names it; with signs, the number of a feature is that of its + minus that of its −. The vector of class m is
its block of the estimate minus all other blocks. These vectors have as many numbers as there are features, but learners
need only the symbols that are named: the operations here expand them inside kernels.

Each operation takes vectors of either kind. The compiler chooses by their type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core import simd
from golfsim.core.kernels import OVERLOADED, inlined, kernel
from golfsim.core.simd import fused, load, lowest_bit, spread, store, total

WORD = 64  # bits
NONE = -1  # a place of a report that names no symbol


class Symbols(NamedTuple):
    """The reports of all records; symbol ((y·d + f) << signs) + 1[negative] is class y and feature f of d.

    Reports are the numbers of symbols in ascending order, filled with NONE, or strings with one bit per symbol.
    """

    reports: NDArray[np.int32] | NDArray[np.uint64]  # [records, samples · places], numbers or words of a string
    low: NDArray[np.float64]  # per record: the estimate for a symbol that no report names
    gain: NDArray[np.float64]  # per record: what each naming adds
    shape: tuple[int, int]  # that of the vectors: (records · models, features)
    classes: int
    samples: int  # reports per record
    signs: int  # 1 if symbols have a sign, else 0


def are_symbols(x: Any) -> bool:
    """Return whether vectors, or the type of vectors in compiled code, are symbols."""
    return isinstance(x, Symbols) or getattr(x, "instance_class", None) is Symbols


# ------------------------------------------------------------------------------------------------------- one report


@inlined
def models_of(x):
    """Return the number of vectors per record: 1 for two classes, else the number of classes."""
    return 1 if x.classes == 2 else x.classes


@inlined
def places_of(x):
    """Return the number of places of a report."""
    return x.reports.shape[1] // x.samples


def _word(reports: Any, record: Any, place: Any) -> Any:
    """Return a word of a string, or 1 for a number of a symbol and 0 for none; by the type of the reports."""
    return reports[record, place] if reports.dtype == np.uint64 else np.uint64(reports[record, place] != NONE)


@overload(_word, jit_options=OVERLOADED)
def _compiled_word(reports, record, place):
    if reports.dtype.bitwidth == WORD:
        return lambda reports, record, place: reports[record, place]
    return lambda reports, record, place: np.uint64(reports[record, place] != NONE)


def _named(reports: Any, record: Any, place: Any, inside: Any, bit: Any) -> Any:
    """Return the number of the symbol of a bit of a word, which is word `inside` of its string."""
    return inside * WORD + bit if reports.dtype == np.uint64 else np.int64(reports[record, place])


@overload(_named, jit_options=OVERLOADED)
def _compiled_named(reports, record, place, inside, bit):
    if reports.dtype.bitwidth == WORD:
        return lambda reports, record, place, inside, bit: inside * WORD + bit
    return lambda reports, record, place, inside, bit: np.int64(reports[record, place])


@inlined
def first_word(x, record, place):
    """Return the symbols that the place of a report names, as bits of a word."""
    return _word(x.reports, record, place)


@inlined
def take_symbol(x, record, place, word):
    """Return the class, the feature and the sign (±1) of the first symbol of a word, and the rest of the word."""
    inside = place % places_of(x)
    symbol = _named(x.reports, record, place, inside, lowest_bit(word))
    pair = symbol >> x.signs
    label = pair // x.shape[1]
    sign = 1 - 2 * (symbol & x.signs)
    return label, pair - label * x.shape[1], sign, word & (word - np.uint64(1))


@inlined
def level_of(x, record):
    """Return the estimate for a feature of a class that no sample names: + and − are equal then."""
    return 0.0 if x.signs == 1 else x.low[record]


@inlined
def ground_of(x, record):
    """Return the number of a vector at a feature that no sample names: that of a block minus all other blocks."""
    return level_of(x, record) * (2 - x.classes)


@inlined
def side_of(x, label, m):
    """Return +1 if vector m adds the block of a class, and −1 if it subtracts it."""
    return 1 if label == (1 if x.classes == 2 else m) else -1


# ------------------------------------------------------------------------------- operations on vectors of either kind


@inlined
def _dot_symbols(w, i, x, row, lo, hi):
    record, m = row // models_of(x), row % models_of(x)
    counted = everything = w.dtype.type(0)
    ground = ground_of(x, record)
    if ground != 0:
        for f in range(lo, hi):
            everything += total(load(w, i, f, 1))
    for place in range(x.reports.shape[1]):
        word = first_word(x, record, place)
        while word != 0:
            label, f, sign, word = take_symbol(x, record, place, word)
            if lo <= f < hi:
                counted += w.dtype.type(sign * side_of(x, label, m)) * total(load(w, i, f, 1))
    return w.dtype.type(ground) * everything + w.dtype.type(x.gain[record]) * counted


@inlined
def add_named(out, i, factor, x, row):
    """Add factor · gain at each feature that a report names, with its sign and side, to a row in place.

    Parameters
    ----------
    out : array of float, one- or two-dimensional
        The array.
    i : int
        The row of the array; not used if it is one-dimensional.
    factor : float
        The factor.
    x : Symbols
        The vectors.
    row : int
        The row of the vectors.
    """
    record, m = row // models_of(x), row % models_of(x)
    each = spread(out.dtype.type(factor * x.gain[record]), 1)
    for place in range(x.reports.shape[1]):
        word = first_word(x, record, place)
        while word != 0:
            label, f, sign, word = take_symbol(x, record, place, word)
            side = out.dtype.type(sign * side_of(x, label, m))
            store(out, i, f, fused(spread(side, 1), each, load(out, i, f, 1)))


@inlined
def _add_symbols(out, factor, x, row):
    ground = out.dtype.type(ground_of(x, row // models_of(x)))
    if ground != 0:
        for f in range(out.size):
            out[f] = fused(factor, ground, out[f])
    add_named(out, 0, factor, x, row)


@inlined
def _add_dense(out, factor, x, row):
    for f in range(out.size):
        out[f] = fused(factor, out.dtype.type(x[row, f]), out[f])


@inlined
def _prefetch_symbols(x, row):
    simd.prefetch(x.reports, row // models_of(x))


@inlined
def _number_of_symbols(x, row, feature):
    record, m = row // models_of(x), row % models_of(x)
    count = 0
    for place in range(x.reports.shape[1]):
        word = first_word(x, record, place)
        while word != 0:
            label, f, sign, word = take_symbol(x, record, place, word)
            if f == feature:
                count += sign * side_of(x, label, m)
    return ground_of(x, record) + x.gain[record] * count


def dot_between(w: Any, i: Any, x: Any, row: Any, lo: Any, hi: Any) -> Any:
    """Return the scalar product of items lo … hi−1 of a row of w and of a vector, in the precision of w.

    Parameters
    ----------
    w : array of float32 or float64, one- or two-dimensional
        The models.
    i : int
        The row of w; not used if w is one-dimensional.
    x : array of float32 or float64, or Symbols
        The vectors, not more precise than w.
    row : int
        The row of the vectors.
    lo, hi : int
        The range of items.
    """
    return (_dot_symbols if are_symbols(x) else simd.dot_between)(w, i, x, row, lo, hi)


@overload(dot_between, jit_options=OVERLOADED)
def _compiled_dot_between(w, i, x, row, lo, hi):
    chosen = _dot_symbols if are_symbols(x) else simd.dot_between
    return lambda w, i, x, row, lo, hi: chosen(w, i, x, row, lo, hi)


@inlined
def dot(w, i, x, row):
    """Return the scalar product of row i of w and of a vector."""
    return dot_between(w, i, x, row, 0, w.shape[1])


def add(out: Any, factor: Any, x: Any, row: Any) -> None:
    """Add factor · x[row] to a vector of the type of the factor in place; with dense vectors each sum is rounded once.

    Parameters
    ----------
    out : array of float32 or float64, shape (features,)
        The array.
    factor : float32 or float64
        The factor.
    x : array of float32 or float64, or Symbols
        The vectors.
    row : int
        The row of the vectors.
    """
    (_add_symbols if are_symbols(x) else _add_dense)(out, factor, x, row)


@overload(add, jit_options=OVERLOADED)
def _compiled_add(out, factor, x, row):
    chosen = _add_symbols if are_symbols(x) else _add_dense
    return lambda out, factor, x, row: chosen(out, factor, x, row)


def prefetch(x: Any, row: Any) -> None:
    """Ask the processor to load a vector into its cache; no value changes."""
    (_prefetch_symbols if are_symbols(x) else simd.prefetch)(x, row)


@overload(prefetch, jit_options=OVERLOADED)
def _compiled_prefetch(x, row):
    chosen = _prefetch_symbols if are_symbols(x) else simd.prefetch
    return lambda x, row: chosen(x, row)


def number(x: Any, row: Any, f: Any) -> Any:
    """Return item f of a vector; for symbols this takes as long as all items."""
    return _number_of_symbols(x, row, f) if are_symbols(x) else x[row, f]


@overload(number, jit_options=OVERLOADED)
def _compiled_number(x, row, f):
    if are_symbols(x):
        return lambda x, row, f: _number_of_symbols(x, row, f)
    return lambda x, row, f: x[row, f]


@kernel
def _expand(x, records, slices, out):
    for place in range(records.size):
        for m in range(slices):
            add(out[place, m], np.float32(1), x, records[place] * slices + m)


def vectors_of(x: Any, slices: int, records: NDArray[Any]) -> NDArray[np.float32]:
    """Return the vectors of some records as an array, shape (records, slices, features)."""
    if not are_symbols(x):
        dense: NDArray[np.float32] = x.reshape(-1, slices, x.shape[1])[records]
        return dense
    out = np.zeros((len(records), slices, x.shape[1]), np.float32)
    _expand(x, np.asarray(records, np.int64), slices, out)
    return out


@kernel
def list_symbols(x, records, out, ends):
    """Write the symbols that each report names, in ascending order; report e ends before `ends[e]`.

    Parameters
    ----------
    x : Symbols
        The published symbols.
    records : array of int64
        The records.
    out : array of int32
        The numbers of the symbols; filled here if it has room, else they are only counted.
    ends : array of int64, shape (records · samples,)
        The ends of the reports in `out`; filled here.
    """
    taken = 0
    for place in range(records.size):
        record = records[place]
        for column in range(x.reports.shape[1]):
            word = first_word(x, record, column)
            while word != 0:
                label, f, sign, word = take_symbol(x, record, column, word)
                if out.size > 0:
                    out[taken] = ((label * x.shape[1] + f) << x.signs) + (1 if sign < 0 else 0)
                taken += 1
            ends[place * x.samples + column // places_of(x)] = taken


def symbols_of(x: Symbols, records: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the symbols that the reports of some records name, and where the symbols of each report end."""
    ends = np.zeros(len(records) * x.samples, np.int64)
    list_symbols(x, records, np.empty(0, np.int32), ends)
    out = np.empty(int(ends.max(initial=0)), np.int32)
    list_symbols(x, records, out, ends)
    return out, ends
