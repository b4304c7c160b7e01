"""What a node of Golf does with the models that it receives: kernels over the models of all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core.kernels import OVERLOADED, inlined, kernel, leaf
from golfsim.core.simd import fused, prefetch_item
from golfsim.learning.kinds import Rule, with_room
from golfsim.learning.merging import limited_share_of, merge_in, mix_in_carried, share_of, temper
from golfsim.learning.packing import (
    Packing,
    pack,
)
from golfsim.learning.updates import (
    Noise,
    copy_model,
    decay_of,
    keep_model,
    learn,
    step_size,
)
from golfsim.network.adversaries import HONEST, forge
from golfsim.privacy.ledger import Budget
from golfsim.protocol.records import sign_for
from golfsim.protocol.symbols import add_named, are_symbols, dot, ground_of, models_of, prefetch

if TYPE_CHECKING:
    pass

ALGORITHM1, RW, MU, UM, OWN = range(5)
VARIANTS = {"algorithm1": ALGORITHM1, "rw": RW, "mu": MU, "um": UM, "own": OWN}
MEAN, MEDIAN, TRIMMED = range(3)
MERGES = {"mean": MEAN, "median": MEDIAN, "trimmed-mean": TRIMMED}


class Models(NamedTuple):
    """The models of all nodes, for kernels: one row per linear model; `last` and `cache` are empty if not needed."""

    w: NDArray[np.float32]  # [nodes · models, features]
    age: NDArray[np.int32]
    last: NDArray[np.float32]
    last_age: NDArray[np.int32]
    cache: NDArray[np.float32]  # [nodes · remembered · models, features]
    cached: NDArray[np.int32]  # the number of models that each node has put into its cache so far
    part_age: NDArray[np.int32]  # [nodes, parts]; empty if models are not divided


class Messages(NamedTuple):
    """Models that arrive: message e carries model row[e] of w from node sender[e] to node dst[e]."""

    row: NDArray[np.int32]
    sender: NDArray[np.int32]
    dst: NDArray[np.int32]
    w: NDArray[np.float32]
    age: NDArray[np.int32]
    part_age: NDArray[np.int32]  # [rows, parts], of the models in w; no rows if models are not divided
    part: NDArray[np.int32]  # the part that each message carries
    number: NDArray[np.int64]  # of each message among those that its sender sends in this cycle
    link: NDArray[np.int64]  # on which each message travels; of codecs that need it
    used: NDArray[np.bool_]  # whether each message has changed its receiver's model; filled if it has entries


class Scratch(NamedTuple):
    """Working memory for models."""

    incoming: NDArray[np.float32]
    fresh: NDArray[np.float32]
    other: NDArray[np.float32]
    sorted_values: NDArray[np.float32]


class Merging(NamedTuple):
    """How a node combines a received model with its own."""

    models: int  # the number of linear models per model
    cache: int  # the number of models in the cache
    variant: int
    by_age: bool
    merge: int  # the mean, or a robust mean of the cache
    clip: float  # the largest length of a received model; 0: no limit
    limit: int  # the largest difference of ages in a mean; −1: no limit
    older: bool  # whether a received model that is younger than the own one is ignored
    partial: bool  # whether received models may lack numbers


class Reception(NamedTuple):
    """Everything that determines how a node processes a received model."""

    rule: Rule
    merging: Merging
    noise: Noise
    budget: Budget
    packing: Packing


class FewMessages(NamedTuple):
    """What the most common case needs of `Messages`: handing over an array takes time in each call of a kernel."""

    row: NDArray[np.int32]
    dst: NDArray[np.int32]
    w: NDArray[np.float32]
    age: NDArray[np.int32]


class FewModels(NamedTuple):
    """What the most common case needs of `Models`."""

    w: NDArray[np.float32]
    age: NDArray[np.int32]


@leaf
def clip_model(w, longest):
    """Scale the rows of a model down to the largest allowed length."""
    for m in range(w.shape[0]):
        length = np.sqrt(dot(w, m, w, m))
        factor = np.float32(longest / length) if length > longest else np.float32(1)
        for f in range(w.shape[1]):
            w[m, f] = factor * w[m, f]


@leaf
def robust_mean(cache, start, filled, merge, sorted_values, out):
    """Compute the coordinate-wise median of models, or their mean without the smallest and largest quarter.

    Parameters
    ----------
    cache : array of float32, shape (rows, features)
        The cached models, one row per linear model.
    start : int
        The first row of the node's cached models.
    filled : int
        The number of cached models.
    merge : int
        MEDIAN or TRIMMED.
    sorted_values : array of float32, shape (cache,)
        Working memory.
    out : array of float32, shape (models, features)
        The result; filled here.
    """
    cut = (filled - 1) // 2 if merge == MEDIAN else filled // 4
    models = out.shape[0]
    for m in range(models):
        for f in range(out.shape[1]):
            for k in range(filled):
                value = cache[start + k * models + m, f]
                place = k
                while place > 0 and sorted_values[place - 1] > value:
                    sorted_values[place] = sorted_values[place - 1]
                    place -= 1
                sorted_values[place] = value
            total = np.float32(0)
            for k in range(cut, filled - cut):
                total += sorted_values[k]
            out[m, f] = total / np.float32(filled - 2 * cut)


@inlined
def merge_with_own(w, row, age, part, part_age, j, models, how, out):
    """Merge a received model with the one of node j into `out`, and return the age of the merge.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The received models, one row per linear model.
    row, age : int
        The first row of the received model, and its age.
    part, part_age : int
        The part that the message carries, and its age; if models are divided.
    j : int
        The receiving node.
    models : Models
        The models of all nodes.
    how : Reception
        How models are merged.
    out : array of float32, shape (models, features)
        The merged model; filled here.
    """
    merging, mine = how.merging, np.int64(j) * how.merging.models
    copy_model(models.w, mine, out)
    if models.part_age.shape[0] > 0:
        share = limited_share_of(part_age, models.part_age[j, part], merging.by_age, merging.limit)
        models.part_age[j, part] = max(part_age, models.part_age[j, part])
    else:
        share = limited_share_of(age, models.age[j], merging.by_age, merging.limit)
    if merging.partial:
        mix_in_carried(w, row, out, 0, share, merging.models)
    else:
        merge_in(how.rule, w, row, out, 0, share, merging.models)
    return max(age, models.age[j])


@leaf
def take_by_merging(w, row, age, part, part_age, j, models, rows, how, scratch):
    """Let node j merge a received model with its own, and update the merge.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The received models, one row per linear model.
    row, age : int
        The first row of the received model, and its age.
    part, part_age : int
        The part that the message carries, and its age; if models are divided.
    j : int
        The receiving node.
    models : Models
        The models of all nodes; changed in place.
    rows : Rows
        The records of the nodes.
    how : Reception
        The update rule, the merge, the noise and the budget.
    scratch : Scratch
        Working memory.
    """
    merging, fresh, merged = how.merging, scratch.fresh, scratch.other
    old_age = merge_with_own(w, row, age, part, part_age, j, models, how, merged)
    new_age = learn(merged, 0, old_age, rows, j, how.rule, how.noise, how.budget, fresh)
    if models.part_age.shape[0] > 0 and new_age > old_age:
        for p in range(models.part_age.shape[1]):
            models.part_age[j, p] += new_age - old_age
        temper(how.rule, merged, fresh, new_age, models.part_age, j)
    keep_model(fresh, models.w, np.int64(j) * merging.models)
    models.age[j] = new_age


@leaf
def take(w, row, age, j, models, rows, how, scratch):
    """Let node j receive a model.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The received models, one row per linear model.
    row : int
        The first row of the received model.
    age : int
        The age of the received model.
    j : int
        The receiving node.
    models : Models
        The models of all nodes; changed in place.
    rows : Rows
        The records of the nodes.
    how : Reception
        The update rule, the merge, the noise and the budget.
    scratch : Scratch
        Working memory.
    """
    merging, fresh, other = how.merging, scratch.fresh, scratch.other
    mine, by_age, count = np.int64(j) * merging.models, merging.by_age, merging.models
    if merging.variant == MU:
        copy_model(models.last, mine, other)
        merge_in(how.rule, w, row, other, 0, share_of(age, models.last_age[j], by_age), count)
        other_age = max(age, models.last_age[j])
        new_age = learn(other, 0, other_age, rows, j, how.rule, how.noise, how.budget, fresh)
    else:
        new_age = learn(w, row, age, rows, j, how.rule, how.noise, how.budget, fresh)
    if merging.variant == UM:
        other_age = learn(models.last, mine, models.last_age[j], rows, j, how.rule, how.noise, how.budget, other)
        merge_in(how.rule, other, 0, fresh, 0, share_of(other_age, new_age, by_age), count)
        new_age = max(other_age, new_age)
    if merging.variant in (MU, UM):
        copy_model(w, row, other)
        keep_model(other, models.last, mine)
        models.last_age[j] = age
    if merging.variant == ALGORITHM1 and merging.merge == MEAN:
        merge_in(how.rule, fresh, 0, models.w, mine, share_of(new_age, models.age[j], by_age), count)
        new_age = max(new_age, models.age[j])
    elif merging.merge == MEAN:
        keep_model(fresh, models.w, mine)
    models.age[j] = new_age if merging.merge == MEAN else max(new_age, models.age[j])


@leaf
def remember(models, j, mine, merging, scratch):
    """Put the new model of node j into its cache in place of the oldest one; compute a robust merge from the cache."""
    oldest = (np.int64(j) * merging.cache + models.cached[j] % merging.cache) * merging.models
    if merging.merge == MEAN:
        copy_model(models.w, mine, scratch.fresh)
    keep_model(scratch.fresh, models.cache, oldest)
    models.cached[j] += 1
    if merging.merge != MEAN:
        filled = min(models.cached[j], merging.cache)
        robust_mean(models.cache, mine * merging.cache, filled, merging.merge, scratch.sorted_values, scratch.fresh)
        keep_model(scratch.fresh, models.w, mine)


AHEAD = 8  # events; the places of their records are fetched twice as far ahead


@inlined
def look_ahead(place, hi, events, messages, models, rows, count):
    """Prefetch the models and records of the next events.

    Parameters
    ----------
    place, hi : int
        The place of the current event, and the end of the range.
    events : array of int32
        The messages in the order in which they arrive.
    messages : Messages
        The messages.
    models : Models
        The models of all nodes.
    rows : Rows
        The records of the nodes.
    count : int
        The number of linear models per model.
    """
    if place + 2 * AHEAD < hi:
        far = messages.dst[events[place + 2 * AHEAD]]
        prefetch_item(rows.first, far)
        prefetch_item(rows.stop, far)
        near = messages.dst[events[place + AHEAD]]
        prefetch(messages.w, np.int64(messages.row[events[place + AHEAD]]) * count)
        prefetch(models.w, np.int64(near) * count)
        prefetch(rows.x, rows.first[near] * (count if rows.folded else 1))
        prefetch_item(models.age, near)
        prefetch_item(rows.label, rows.first[near])


@kernel
def receive(events, lo, hi, messages, models, rows, how, forgery, old, cycle):
    """Let the messages of events lo … hi−1 arrive.

    Parameters
    ----------
    events : array of int32
        The messages in the order in which they arrive.
    lo, hi : int
        The range of events.
    messages : Messages
        The messages.
    models : Models
        The models of all nodes; changed in place.
    rows : Rows
        The records of the nodes.
    how : Reception
        The update rule, the merge, the noise and the budget.
    forgery : Forgery
        What adversarial senders do in this cycle.
    old : array of float32, shape (rows, features)
        The stored old models of adversarial senders.
    cycle : int
        The current cycle.
    """
    shape = (how.merging.models, models.w.shape[1])
    scratch = Scratch(
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
        np.empty(how.merging.cache, np.float32),
    )
    how = Reception(with_room(how.rule), how.merging, how.noise, how.budget, how.packing)
    receive_all(events, lo, hi, messages, models, rows, how, forgery, old, cycle, scratch)


@leaf
def receive_all(events, lo, hi, messages, models, rows, how, forgery, old, cycle, scratch):
    """Run the loop of `receive`.

    Parameters
    ----------
    events : array of int32
        The messages in the order in which they arrive.
    lo, hi : int
        The range of events.
    messages : Messages
        The messages.
    models : Models
        The models of all nodes; changed in place.
    rows : Rows
        The records of the nodes.
    how : Reception
        The update rule, the merge, the noise and the budget.
    forgery : Forgery
        What adversarial senders do in this cycle.
    old : array of float32, shape (rows, features)
        The stored old models of adversarial senders.
    cycle : int
        The current cycle.
    scratch : Scratch
        Working memory.
    """
    merging, packing = how.merging, how.packing
    count, clip = merging.models, merging.clip
    for place in range(lo, hi):
        look_ahead(place, hi, events, messages, models, rows, count)
        e = events[place]
        j, start = messages.dst[e], np.int64(messages.row[e]) * count
        age = messages.age[messages.row[e]]
        lies = forgery.kind.size > 0 and forgery.kind[messages.sender[e]] != HONEST
        changed = lies or clip > 0 or packing.on
        if lies:
            forge(forgery, messages.sender[e], cycle, messages.w, start, old, scratch.incoming)
        elif changed:
            copy_model(messages.w, start, scratch.incoming)
        if packing.on:
            number, link = messages.number[e], messages.link[e]
            pack(packing, scratch.incoming, 0, count, cycle, messages.sender[e], number, messages.part[e], link)
        if clip > 0:
            clip_model(scratch.incoming, clip)
        divided = models.part_age.shape[0] > 0
        part = messages.part[e] if divided else np.int32(0)
        part_age = messages.part_age[messages.row[e], part] if divided else age
        uses = not merging.older or part_age >= (models.part_age[j, part] if divided else models.age[j])
        if uses and merging.variant == OWN:
            if changed:
                take_by_merging(scratch.incoming, 0, age, part, part_age, j, models, rows, how, scratch)
            else:
                take_by_merging(messages.w, start, age, part, part_age, j, models, rows, how, scratch)
        elif uses:
            if changed:
                take(scratch.incoming, 0, age, j, models, rows, how, scratch)
            else:
                take(messages.w, start, age, j, models, rows, how, scratch)
        if uses and merging.cache > 0:
            remember(models, j, np.int64(j) * count, merging, scratch)
        if messages.used.size > 0:
            messages.used[e] = uses


@kernel
def update_first(nodes, models, rows, how):
    """Update the models of some nodes with their own records.

    Parameters
    ----------
    nodes : array of int32
        The nodes.
    models : Models
        The models of all nodes; changed in place.
    rows : Rows
        The records of the nodes.
    how : Reception
        The update rule, the noise and the budget.
    """
    fresh = np.empty((how.merging.models, models.w.shape[1]), np.float32)
    how = Reception(with_room(how.rule), how.merging, how.noise, how.budget, how.packing)
    for j in nodes:
        mine = np.int64(j) * how.merging.models
        models.age[j] = learn(models.w, mine, models.age[j], rows, j, how.rule, how.noise, how.budget, fresh)
        keep_model(fresh, models.w, mine)


@inlined
def _join_dense(w, i, x, record, models, j, decay, step, share):
    rest = np.float32(1) - share
    for f in range(w.shape[1]):
        moved = fused(step, x[record, f], decay * w[i, f])
        models.w[j, f] = fused(share, moved, rest * models.w[j, f])


@inlined
def _join_symbols(w, i, x, record, models, j, decay, step, share):
    rest, ground = np.float32(1) - share, np.float32(ground_of(x, record // models_of(x)))
    for f in range(w.shape[1]):
        moved = fused(step, ground, decay * w[i, f])
        models.w[j, f] = fused(share, moved, rest * models.w[j, f])
    add_named(models.w, j, share * step, x, record)


def join(w: Any, i: Any, x: Any, record: Any, models: Any, j: Any, decay: Any, step: Any, share: Any) -> None:
    """Replace row j of the models by its mean with row i of w after an update with a record.

    Parameters
    ----------
    w : array of float32, shape (rows, features)
        The received models.
    i : int
        The row of w.
    x : array of float32, shape (records, features), or Symbols
        The records.
    record : int
        The row of x.
    models : Models
        The models of all nodes; changed in place.
    j : int
        The row of the models.
    decay, step : float32
        The factors of the update: decay · w + step · x.
    share : float32
        The weight of the updated model in the mean.
    """
    (_join_symbols if are_symbols(x) else _join_dense)(w, i, x, record, models, j, decay, step, share)


@overload(join, jit_options=OVERLOADED)
def _compiled_join(w, i, x, record, models, j, decay, step, share):
    chosen = _join_symbols if are_symbols(x) else _join_dense
    return lambda w, i, x, record, models, j, decay, step, share: chosen(w, i, x, record, models, j, decay, step, share)


@inlined
def step_for(messages, row, rows, record, m, count, rule, age):
    """Return the step size of linear model m for a record, and the row of the record's vector.

    Parameters
    ----------
    messages : Messages
        The received models.
    row : int
        The row of the linear model in the messages.
    rows : Rows
        The records.
    record : int
        The record.
    m : int
        The number of the linear model.
    count : int
        The number of linear models per model.
    rule : Rule
        The update rule.
    age : int
        The age of the model, including this update.
    """
    place = record * count + m if rows.folded else record
    sign = sign_for(rows, record, m, count)
    margin = sign * dot(messages.w, row, rows.x, place)
    return np.float32(step_size(rule, margin, age) * sign), place


@leaf
def receive_plainly(events, lo, hi, messages, models, rows, rule, merging):
    """Compute `receive` for the most common case in one pass over the rows, with bitwise equal results.

    A node updates the received model with its only record and takes the mean with its own model. There are no
    adversaries, no cache and no noise.

    Parameters
    ----------
    events : array of int32
        The messages in the order in which they arrive.
    lo, hi : int
        The range of events.
    messages : FewMessages
        The messages.
    models : FewModels
        The models of all nodes; changed in place.
    rows : Rows
        The records of the nodes.
    rule : Rule
        The update rule.
    merging : Merging
        How models are merged.
    """
    count = merging.models
    for place in range(lo, hi):
        look_ahead(place, hi, events, messages, models, rows, count)
        e = events[place]
        j, start, age = np.int64(messages.dst[e]), np.int64(messages.row[e]) * count, messages.age[messages.row[e]]
        record = rows.first[j]
        learns = rows.stop[j] > record
        age += learns
        share = share_of(age, models.age[j], merging.by_age)
        for m in range(count):
            mine = j * count + m
            if learns:
                step, vector = step_for(messages, start + m, rows, record, m, count, rule, age)
                join(messages.w, start + m, rows.x, vector, models, mine, decay_of(rule, age), step, share)
            else:
                join(messages.w, start + m, messages.w, start + m, models, mine, np.float32(1), np.float32(0), share)
        models.age[j] = max(age, models.age[j])
