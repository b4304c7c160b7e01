"""Update a model by parts of the records of a node: mini-batches of a fixed size, and passes over all of them."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.kernels import inlined, leaf
from golfsim.core.rng import below
from golfsim.learning.updates import amend, keep_model, update
from golfsim.protocol.records import Rows

WHOLE = 0  # the size of a batch with all records of a node
Batch = Annotated[int, Field(ge=1)] | Literal["all"]


def size_of_batch(batch: int | str) -> int:
    """Return the size of a batch for kernels."""
    return WHOLE if isinstance(batch, str) else batch


def room_for_batches(models: int, numbers: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return working memory for one thread: a model, and the range of a batch."""
    return np.empty((models, numbers), np.float32), np.empty(2, np.int64)


@inlined
def length_of_batch(size, number):
    """Return how many of a node's records a batch has."""
    return number if size == WHOLE else min(np.int64(size), number)


@leaf
def take_batch(w, start, age, rows, lo, hi, rule, fresh, span):
    """Update a model in place by one mini-batch and return its new age.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models; changed in place.
    start : int
        The first row of the model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    lo, hi : int
        The records of the batch: lo … hi−1.
    rule : Rule
        The update rule, which makes one update with all records of a node.
    fresh, span : arrays
        Working memory, from `room_for_batches`.
    """
    if hi - lo == 1:
        return amend(w, start, fresh.shape[0], age, rows, lo, hi, rule)
    span[0], span[1] = lo, hi
    part = Rows(rows.x, rows.label, span[:1], span[1:], rows.folded)
    age = update(w, start, age, part, 0, rule, fresh)
    keep_model(fresh, w, start)
    return age


@leaf
def take_all(w, start, age, rows, node, rule, size, fresh, span):
    """Update a model in place by each batch of a node's records, one after the other, and return its new age.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models; changed in place.
    start : int
        The first row of the model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node.
    rule : Rule
        The update rule.
    size : int
        The number of records of a batch; WHOLE: all.
    fresh, span : arrays
        Working memory, from `room_for_batches`.
    """
    lo, stop = rows.first[node], rows.stop[node]
    length = length_of_batch(size, stop - lo)
    while lo < stop:
        hi = min(lo + length, stop)
        age = take_batch(w, start, age, rows, lo, hi, rule, fresh, span)
        lo = hi
    return age


@inlined
def drawn_batch(rows, node, size, drawn):
    """Return the range of the batch of a node's records that a draw chooses; empty if the node has no records."""
    first, stop = rows.first[node], rows.stop[node]
    if first == stop:
        return first, stop
    length = length_of_batch(size, stop - first)
    batches = (stop - first + length - 1) // length
    lo = first + below(drawn, batches) * length
    return lo, min(lo + length, stop)


@leaf
def take_one(w, start, age, rows, node, rule, size, drawn, fresh, span):
    """Update a model in place by one batch of a node's records, which a draw chooses, and return its new age.

    Parameters
    ----------
    w : array of float32, shape (rows, numbers)
        The models; changed in place.
    start : int
        The first row of the model.
    age : int
        The number of updates of the model so far.
    rows : Rows
        The records.
    node : int
        The node.
    rule : Rule
        The update rule.
    size : int
        The number of records of a batch; WHOLE: all.
    drawn : uint64
        The draw.
    fresh, span : arrays
        Working memory, from `room_for_batches`.
    """
    lo, hi = drawn_batch(rows, node, size, drawn)
    if lo == hi:
        return age
    return take_batch(w, start, age, rows, lo, hi, rule, fresh, span)
