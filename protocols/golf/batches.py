"""Golf for learners that update many models at once: messages of different receivers arrive together.

The messages of a turn are divided into levels (`golfsim.core.threads.levels`): in a level no message changes a model
that another one reads or changes. So the result is that of one message after the other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.core.threads import levels
from golfsim.learning.many import Together, learn_many
from golfsim.learning.merging import merge_in, share_of
from golfsim.learning.packing import pack
from golfsim.learning.updates import copy_model, keep_model
from golfsim.network.adversaries import HONEST, Forgery, forge
from protocols.golf.receiving import (
    ALGORITHM1,
    MEAN,
    MU,
    OWN,
    UM,
    Messages,
    Models,
    Reception,
    Scratch,
    clip_model,
    merge_with_own,
    remember,
)

BYTES = 2**27  # of models that are updated at once


class Level(NamedTuple):
    """The messages of a level, and the models of their receivers: row k is that of event k."""

    dst: NDArray[np.int32]
    uses: NDArray[np.bool_]  # whether the receiver uses the message
    sent_age: NDArray[np.int32]  # of the received model
    age: NDArray[np.int32]  # of the model before the update
    fresh: NDArray[np.float32]  # the models to update
    received: NDArray[np.float32]  # as they arrived; no rows if they are not needed
    other: NDArray[np.float32]  # the last received models; no rows if these are not updated
    other_age: NDArray[np.int32]


@kernel
def open_messages(events, lo, hi, messages, models, how, forgery, old, cycle, level):
    """Take the messages of events lo … hi−1, and prepare the models that their receivers update.

    Parameters
    ----------
    events : array of int32
        The messages in the order in which they arrive.
    lo, hi : int
        The range of events.
    messages : Messages
        The messages.
    models : Models
        The models of all nodes; the ages of parts are changed in place.
    how : Reception
        How models are merged, and what messages carry.
    forgery : Forgery
        What adversarial senders do in this cycle.
    old : array of float32, shape (rows, features)
        The stored old models of adversarial senders.
    cycle : int
        The current cycle.
    level : Level
        What has arrived; filled here.
    """
    merging, packing = how.merging, how.packing
    incoming = np.empty((1, models.w.shape[1]), np.float32)
    out = np.empty((1, models.w.shape[1]), np.float32)
    divided = models.part_age.shape[0] > 0
    for place in range(lo, hi):
        k, e = place - lo, events[place]
        j, row = messages.dst[e], np.int64(messages.row[e])
        age = messages.age[row]
        if forgery.kind.size > 0 and forgery.kind[messages.sender[e]] != HONEST:
            forge(forgery, messages.sender[e], cycle, messages.w, row, old, incoming)
        else:
            copy_model(messages.w, row, incoming)
        if packing.on:
            number, link = messages.number[e], messages.link[e]
            pack(packing, incoming, 0, 1, cycle, messages.sender[e], number, messages.part[e], link)
        if merging.clip > 0:
            clip_model(incoming, merging.clip)
        part = messages.part[e] if divided else np.int32(0)
        part_age = messages.part_age[row, part] if divided else age
        uses = not merging.older or part_age >= (models.part_age[j, part] if divided else models.age[j])
        level.dst[k], level.uses[k], level.sent_age[k] = j, uses, age
        if messages.used.size > 0:
            messages.used[e] = uses
        if uses and merging.variant == OWN:
            level.age[k] = merge_with_own(incoming, 0, age, part, part_age, j, models, how, out)
            keep_model(out, level.fresh, k)
        elif uses:
            level.age[k] = age
            keep_model(incoming, level.fresh, k)
            if merging.variant == MU:
                copy_model(models.last, np.int64(j), out)
                last_age = models.last_age[j]
                merge_in(how.rule, incoming, 0, out, 0, share_of(age, last_age, merging.by_age), 1)
                keep_model(out, level.fresh, k)
                level.age[k] = max(age, last_age)
            if merging.variant == UM:
                copy_model(models.last, np.int64(j), out)
                keep_model(out, level.other, k)
                level.other_age[k] = models.last_age[j]
            if merging.variant in (MU, UM):
                keep_model(incoming, level.received, k)


@kernel
def close_messages(models, how, level, new_age, scratch):
    """Store the updated models at their nodes.

    Parameters
    ----------
    models : Models
        The models of all nodes; changed in place.
    how : Reception
        How models are merged.
    level : Level
        What has arrived, with updated models.
    new_age : array of int32, shape (events,)
        The ages of the updated models.
    scratch : Scratch
        Working memory.
    """
    merging = how.merging
    for k in range(level.dst.size):
        if not level.uses[k]:
            continue
        j, age, fresh = np.int64(level.dst[k]), new_age[k], scratch.fresh
        copy_model(level.fresh, k, fresh)
        if merging.variant == OWN and models.part_age.shape[0] > 0:
            for p in range(models.part_age.shape[1]):
                models.part_age[j, p] += age - level.age[k]
        if merging.variant == UM:
            other_age = level.other_age[k]
            merge_in(how.rule, level.other, k, fresh, 0, share_of(other_age, age, merging.by_age), 1)
            age = max(other_age, age)
        if merging.variant in (MU, UM):
            copy_model(level.received, k, scratch.other)
            keep_model(scratch.other, models.last, j)
            models.last_age[j] = level.sent_age[k]
        if merging.variant == ALGORITHM1 and merging.merge == MEAN:
            merge_in(how.rule, fresh, 0, models.w, j, share_of(age, models.age[j], merging.by_age), 1)
            age = max(age, models.age[j])
        elif merging.merge == MEAN:
            keep_model(fresh, models.w, j)
        models.age[j] = age if merging.merge == MEAN else max(age, models.age[j])
        if merging.cache > 0:
            remember(models, j, j, merging, scratch)


def receive_in_batches(
    together: Together,
    how: Reception,
    messages: Messages,
    models: Models,
    forgery: Forgery,
    old: NDArray[np.float32],
    cycle: int,
    live: bool,
    one_by_one: bool,
) -> None:
    """Receive messages as `protocols.golf.receiving.receive` does, with a learner that updates many models at once.

    Parameters
    ----------
    together : Together
        How models are updated.
    how : Reception
        How models are merged, and what messages carry.
    messages : Messages
        The messages.
    models : Models
        The models of all nodes; changed in place.
    forgery : Forgery
        What adversarial senders do in this cycle.
    old : array of float32, shape (rows, features)
        The stored old models of adversarial senders.
    cycle : int
        The current cycle.
    live : bool
        Whether a message carries the model of its sender at the time when it is processed.
    one_by_one : bool
        Whether messages must be processed one after the other.
    """
    number, width = messages.dst.size, models.w.shape[1]
    if one_by_one:
        events, edges = np.arange(number, dtype=np.int32), np.arange(number + 1)
    else:
        events, edges = levels(len(models.w), messages.row if live else None, messages.dst)
    most = max(1, BYTES // (4 * width))
    incoming, fresh, other = (np.empty((1, width), np.float32) for _ in range(3))
    scratch = Scratch(incoming, fresh, other, np.empty(how.merging.cache, np.float32))
    for start, stop in pairwise(edges.tolist()):
        for lo in range(start, stop, most):
            level = _level(min(lo + most, stop) - lo, width, how.merging.variant)
            open_messages(events, lo, lo + level.dst.size, messages, models, how, forgery, old, cycle, level)
            new_age = _learn(together, level, level.fresh, level.age)
            if how.merging.variant == UM:
                level = level._replace(other_age=_learn(together, level, level.other, level.other_age))
            close_messages(models, how, level, new_age, scratch)


def _level(events: int, width: int, variant: int) -> Level:
    """Return arrays for the messages of a level."""
    received, other = events if variant in (MU, UM) else 0, events if variant == UM else 0
    return Level(
        np.empty(events, np.int32), np.empty(events, np.bool_), np.empty(events, np.int32), np.empty(events, np.int32),
        np.empty((events, width), np.float32), np.empty((received, width), np.float32),
        np.empty((other, width), np.float32), np.empty(events, np.int32),
    )  # fmt: skip


def _learn(together: Together, level: Level, w: NDArray[np.float32], age: NDArray[np.int32]) -> NDArray[np.int32]:
    """Update the models of the messages that are used, and return the new ages of all."""
    used = np.flatnonzero(level.uses)
    models, new_age, ages = w[used], age.copy(), age[used]
    learn_many(together, models, ages, level.dst[used])
    w[used], new_age[used] = models, ages
    return new_age
