"""Make messages smaller: send a part of a model, and encode its numbers with fewer bits.

A number that a message does not carry is NaN in the model that its receiver gets. A receiver merges only the others.
Parts of a model and the pivot codec are those of the program of Danner, Hegedűs & Jelasity (GoLF, PartitionedLogReg and
codecs.Pivot); the texts of their papers were not at hand.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.kernels import inlined, kernel, leaf
from golfsim.core.rng import below, draw, unit
from golfsim.core.settings import Settings

ALL, PARTS, SAMPLE, TOP = range(4)
FLOAT32, FLOAT16, QUANTISED, PIVOT = range(4)
CODECS = {"float32": FLOAT32, "float16": FLOAT16, "quantised": QUANTISED, "pivot": PIVOT}
LARGEST_HALF = 65504.0
SMALLEST_STEP = 2.0**-30
AGE, SEED, INDEX, SCALE, PART = 4, 8, 4, 4, 2  # bytes


class MessageConfig(Settings):
    """What a message carries of a model, and how its numbers are encoded."""

    parts: int | None = Field(
        None,
        ge=2,
        le=10_000,
        description="divide the model into this many parts, and send a random one; each part has an age of its own, "
        "by which it is merged",
    )
    sample: float | None = Field(None, gt=0, lt=1, description="send this share of the numbers, drawn at random")
    top: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="send this share of the numbers: those that differ most from what the node has sent of them before",
    )
    codec: Literal["float32", "float16", "quantised", "pivot"] = Field(
        "float32",
        description="how a number is encoded: in 32 or 16 bits; rounded at random to one of 2^bits values between "
        "minus and plus the largest number of the row, without bias (“quantised”); or in one bit that moves an "
        "estimate at both ends of the link (“pivot”, which needs an overlay whose links stay)",
    )
    bits: int | None = Field(None, ge=1, le=16, description="quantised: bits per number; default: 8")

    @model_validator(mode="after")
    def _one(self) -> MessageConfig:
        if sum(given is not None for given in (self.parts, self.sample, self.top)) > 1:
            raise ValueError("expected at most one of “parts”, “sample” and “top”")
        if self.bits is not None and self.codec != "quantised":
            raise ValueError('“bits” needs codec = "quantised"')
        return self

    @property
    def select(self) -> int:
        """Which numbers are sent."""
        chosen = {PARTS: self.parts, SAMPLE: self.sample, TOP: self.top}
        return next((kind for kind, given in chosen.items() if given is not None), ALL)

    def carried(self, numbers: int, part: int = 0) -> int:
        """Return how many numbers of a row with this many a message carries; part p has p, p + parts, p + 2 parts …"""
        share = self.sample or self.top
        return -(-(numbers - part) // (self.parts or 1)) if share is None else max(1, round(share * numbers))

    def size(self, rows: int, numbers: int, part: int = 0) -> int:
        """Return the bytes of a message with a model of this shape, or with a part of it."""
        each = self.carried(numbers, part)
        bits = {"float32": 32, "float16": 16, "quantised": self.bits or 8, "pivot": 1}[self.codec]
        data = -(-rows * each * bits // 8) + (rows * SCALE if self.codec == "quantised" else 0)
        beside = {ALL: 0, PARTS: PART + AGE, SAMPLE: SEED, TOP: rows * each * INDEX}[self.select]
        return AGE + data + beside


class Memory(NamedTuple):
    """What senders and links remember; arrays without rows where it is not needed."""

    reference: NDArray[np.float32]  # [nodes · models, numbers] for TOP: what each node has sent of each number
    estimate: NDArray[np.float32]  # [links · models, numbers] for PIVOT: at both ends of each link,
    step: NDArray[np.float32]  # the length and direction of the next move,
    moved: NDArray[np.bool_]  # and whether the last bit was a move


def nothing_remembered(numbers: int) -> Memory:
    """Return a memory without rows, for models with this many numbers per row."""
    empty = np.zeros((0, numbers), np.float32)
    return Memory(empty, empty, empty, np.zeros((0, numbers), np.bool_))


class Packing(NamedTuple):
    """What kernels need to pack a model."""

    on: bool  # else messages carry models as they are
    select: int
    parts: int
    size: int  # the numbers per row of a sample, or of the largest differences
    codec: int
    steps: int  # between the values of a quantised number
    key: np.uint64
    memory: Memory


@inlined
def to_half(x):
    """Return the nearest number that 16 bits can hold (IEEE 754 binary16, ties to even), at most ±65504."""
    if abs(x) >= np.float32(LARGEST_HALF):
        return np.float32(math.copysign(LARGEST_HALF, x))
    _, exponent = math.frexp(np.float64(x))
    unit_of = math.ldexp(1.0, max(exponent - 11, -24))
    return np.float32(np.rint(np.float64(x) / unit_of) * unit_of)


@inlined
def bits_of(x):
    """Return the bits of the absolute value of a number; they have the order of absolute values."""
    return np.float32(abs(x)).view(np.int32)


@inlined
def keep_part(w, row, parts, part):
    """Remove the numbers of a row that do not belong to a part."""
    kept = part
    for f in range(w.shape[1]):
        if f == kept:
            kept += parts
        else:
            w[row, f] = np.nan


@inlined
def keep_sample(w, row, size, key, cycle, sender, k):
    """Remove all but a random subset of the numbers of a row, of a fixed size (Knuth's selection sampling).

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models; changed in place.
    row : int
        The row.
    size : int
        The number of numbers that remain.
    key, cycle, sender, k
        Of the draws.
    """
    wanted = size
    for f in range(w.shape[1]):
        if below(draw(key, cycle, sender, k + f), w.shape[1] - f) < wanted:
            wanted -= 1
        else:
            w[row, f] = np.nan


@inlined
def keep_largest(w, row, size, reference, r):
    """Remove all but the numbers of a row that differ most from a reference; of equal differences the first ones.

    The bits of the smallest difference that remains are found one after the other.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models; changed in place.
    row : int
        The row.
    size : int
        The number of numbers that remain.
    reference : array of float32, shape (rows, numbers)
        The reference.
    r : int
        The row of the reference.
    """
    least = np.int32(0)
    for bit in range(30, -1, -1):
        tried, number = least | np.int32(1 << bit), 0
        for f in range(w.shape[1]):
            number += bits_of(w[row, f] - reference[r, f]) >= tried
        if number >= size:
            least = tried
    above = 0
    for f in range(w.shape[1]):
        above += bits_of(w[row, f] - reference[r, f]) > least
    equal = size - above
    for f in range(w.shape[1]):
        difference = bits_of(w[row, f] - reference[r, f])
        if difference < least or (difference == least and equal <= 0):
            w[row, f] = np.nan
        else:
            equal -= difference == least


@inlined
def quantise(w, row, steps, key, cycle, sender, k):
    """Round the numbers of a row at random, without bias, to equally spaced values between ± the largest one.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models; changed in place.
    row : int
        The row.
    steps : int
        The number of values, less one.
    key, cycle, sender, k
        Of the draws.
    """
    largest = np.float32(0)
    for f in range(w.shape[1]):
        if abs(w[row, f]) > largest:  # never if it is NaN
            largest = abs(w[row, f])
    if largest > 0:
        wide = 2 * np.float64(largest) / steps
        for f in range(w.shape[1]):
            place = (np.float64(w[row, f]) + largest) / wide
            if place == place:
                whole = min(np.floor(place), steps - 1.0)
                whole += unit(draw(key, cycle, sender, k + f)) < place - whole
                w[row, f] = np.float32(whole * wide - largest)


@inlined
def pivot(w, row, memory, link):
    """Replace the numbers of a row by the estimates of the receiver, which one bit per number has moved.

    The bit says whether the estimate plus the step is nearer to the number than the estimate. Then the estimate moves,
    and the step is doubled if it also moved before. Otherwise the step is halved and turned round.
    """
    for f in range(w.shape[1]):
        x = w[row, f]
        if x == x:
            old, step = memory.estimate[link, f], memory.step[link, f]
            moves = abs(old + step - x) < abs(old - x)
            if moves:
                memory.estimate[link, f] = old + step
                if memory.moved[link, f]:
                    memory.step[link, f] = np.float32(2) * step
            elif abs(step) > np.float32(SMALLEST_STEP):
                memory.step[link, f] = np.float32(-0.5) * step
            else:
                memory.step[link, f] = -step
            memory.moved[link, f] = moves
            w[row, f] = memory.estimate[link, f]


@leaf
def pack(packing, w, start, models, cycle, sender, number, part, link):
    """Replace a model by what its receiver gets of it.

    Parameters
    ----------
    packing : Packing
        What messages carry.
    w : array of float32, shape (rows, numbers)
        The models; changed in place.
    start : int
        The first row of the model.
    models : int
        The number of rows of the model.
    cycle : int
        The current cycle.
    sender : int
        The node that sends.
    number : int
        The number of the message among those that its sender sends in this cycle.
    part : int
        The part that is sent.
    link : int
        The number of the link from the sender to the receiver.
    """
    width = w.shape[1]
    for m in range(models):
        row, k = start + m, 2 * width * (np.int64(number) * models + m)
        own = np.int64(sender) * models + m
        if packing.select == PARTS:
            keep_part(w, row, packing.parts, part)
        elif packing.select == SAMPLE:
            keep_sample(w, row, packing.size, packing.key, cycle, sender, k)
        elif packing.select == TOP:
            keep_largest(w, row, packing.size, packing.memory.reference, own)
        if packing.codec == FLOAT16:
            for f in range(width):
                if w[row, f] == w[row, f]:
                    w[row, f] = to_half(w[row, f])
        elif packing.codec == QUANTISED:
            quantise(w, row, packing.steps, packing.key, cycle, sender, k + width)
        elif packing.codec == PIVOT:
            pivot(w, row, packing.memory, np.int64(link) * models + m)
        if packing.select == TOP:
            for f in range(width):
                if w[row, f] == w[row, f]:
                    packing.memory.reference[own, f] = w[row, f]


@kernel
def pack_rows(packing, w, slots, models, cycle, senders, number, part, link):
    """Pack models in mailbox slots.

    Parameters
    ----------
    packing : Packing
        What messages carry.
    w : array of float32, shape (slots · models, numbers)
        The models in the mailbox; changed in place.
    slots : array of int32, shape (messages,)
        The slot of each message.
    models : int
        The number of rows of a model.
    cycle : int
        The current cycle.
    senders, number, part, link : array, shape (messages,)
        The sender of each message, its number in this cycle, the part that it carries, and its link.
    """
    for e in range(slots.size):
        pack(packing, w, np.int64(slots[e]) * models, models, cycle, senders[e], number[e], part[e], link[e])


@kernel
def find_links(start, neighbour, src, dst, link):
    """Find the number of the link of each message, in rows of neighbours in rising order; −1 if there is none."""
    for e in range(src.size):
        lo, hi = start[src[e]], start[src[e] + 1]
        link[e] = -1
        if dst[e] >= 0:
            place = lo + np.searchsorted(neighbour[lo:hi], dst[e])
            if place < hi and neighbour[place] == dst[e]:
                link[e] = place


def packing_of(config: MessageConfig | None, key: np.uint64, numbers: int, memory: Memory) -> Packing:
    """Return the packing of models with this many numbers per row."""
    chosen = config or MessageConfig()
    steps, size = 2 ** (chosen.bits or 8) - 1, chosen.carried(numbers)
    return Packing(config is not None, chosen.select, chosen.parts or 1, size, CODECS[chosen.codec], steps, key, memory)
