"""Draw perturbed one-hot strings and answers: randomised response, perturbed bits, and subsets.

A report of m values is one of them (randomised response), a string of m bits that are perturbed one by one, or a subset
of the values. Strings have 64 bits per word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from golfsim.core.kernels import OVERLOADED, inlined, leaf
from golfsim.core.rng import below, draw, unit
from golfsim.privacy.noise import respond

LANES = 64  # the bits of a word, and the largest number of draws per word


@leaf
def lanes_of(values, word):
    """Return a word with ones in the lanes that belong to a string of `values` bits."""
    left = values - LANES * word
    full = ~np.uint64(0)
    return full if left >= LANES else full >> np.uint64(LANES - left)


@leaf
def rare_ones(key, cycle, peer, k, q, lanes):
    """Return a word whose lanes are one with probability q each; it uses at most the draws k … k+63.

    Each lane draws a binary fraction and is one if the fraction is below q. All lanes draw their next digit at once,
    until the digits have decided every lane. This takes about log₂(lanes) + 1 draws and is exact to 64 digits.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle, peer, k : int
        The cycle, the peer and the number of the first draw.
    q : float
        The probability of a one.
    lanes : uint64
        The lanes to draw, as ones.
    """
    digits = np.uint64(q * 2.0**64)
    ones, undecided = np.uint64(0), lanes
    while undecided != 0 and digits != 0:
        word = np.uint64(draw(key, cycle, peer, k))
        if digits >> np.uint64(63) == 1:
            ones |= undecided & ~word
            undecided &= word
        else:
            undecided &= ~word
        digits <<= np.uint64(1)
        k += 1
    return ones


@leaf
def first_draw(number):
    """Return the number of the first draw of a report.

    Reports are 2³² draws apart, for strings of any length: 64 draws for the value, and 64 for each word.
    """
    return np.int64(number) << np.int64(32)


@leaf
def answer(key, cycle, peer, number, value, values, p):
    """Return the value that random response sends.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle, peer, number : int
        The cycle, the peer and the number of its report.
    value : int
        The true value.
    values : int
        The number of values.
    p : float
        The probability of the true value.
    """
    k = first_draw(number)
    return respond(draw(key, cycle, peer, k), draw(key, cycle, peer, k + 1), value, values, p)


@leaf
def perturbed_word(key, cycle, peer, number, value, values, p, q, word):
    """Return bits 64·word … 64·word + 63 of a string whose bits are perturbed one by one (Cyphers 2017, section 7.3.3).

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle, peer, number : int
        The cycle, the peer and the number of its report.
    value : int
        The true value: the bit that is set.
    values : int
        The length of the string.
    p, q : float
        The probabilities that a set bit and an unset bit are sent as set.
    word : int
        The number of the word.
    """
    k = first_draw(number)
    bits = rare_ones(key, cycle, peer, k + LANES * (word + 1), q, lanes_of(values, word))
    if value // LANES == word:
        own = np.uint64(1) << np.uint64(value % LANES)
        kept = unit(draw(key, cycle, peer, k)) < p
        bits = bits | own if kept else bits & ~own
    return bits


def _put(out: Any, row: Any, start: Any, taken: Any, value: Any) -> Any:
    """Add a value to a set and return whether it is new; `out` has numbers in ascending order, or bits."""
    return (_put_bit if out.dtype == np.uint64 else _put_number)(out, row, start, taken, value)


@inlined
def _put_number(out, row, start, taken, value):
    place = start + taken
    while place > start and out[row, place - 1] > value:
        place -= 1
    if place > start and out[row, place - 1] == value:
        return False
    for later in range(start + taken, place, -1):
        out[row, later] = out[row, later - 1]
    out[row, place] = value
    return True


@inlined
def _put_bit(out, row, start, taken, value):
    place, bit = start + value // LANES, np.uint64(1) << np.uint64(value % LANES)
    new = out[row, place] & bit == 0
    out[row, place] |= bit
    return new


@overload(_put, jit_options=OVERLOADED)
def _compiled_put(out, row, start, taken, value):
    chosen = _put_bit if out.dtype.bitwidth == LANES else _put_number
    return lambda out, row, start, taken, value: chosen(out, row, start, taken, value)


@leaf
def write_subset(key, cycle, peer, number, value, values, p, size, out, row, start):
    """Write a subset of the values that contains the true one with probability p; each such subset is as likely.

    The others are chosen without repetition by Floyd's algorithm (Bentley & Floyd 1987). A subset is written in
    ascending order, or as bits, so that the order reveals nothing.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    cycle, peer, number : int
        The cycle, the peer and the number of its report.
    value : int
        The true value.
    values : int
        The number of values.
    p : float
        The probability of the true value.
    size : int
        The size of the subset.
    out : array of int32 (numbers) or uint64 (strings, filled with zeros)
        The output.
    row, start : int
        The row of the output, and the first column of the report.
    """
    k = first_draw(number)
    taken = 0
    if unit(draw(key, cycle, peer, k)) < p:
        _put(out, row, start, taken, value)
        taken = 1
    for last in range(values - 1 - size + taken, values - 1):
        k += 1
        other = below(draw(key, cycle, peer, k), last + 1)
        if not _put(out, row, start, taken, other + (other >= value)):
            _put(out, row, start, taken, last + (last >= value))
        taken += 1
