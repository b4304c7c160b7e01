"""Golf: gossip learning with linear models on random walks (Ormándi, Hegedűs & Jelasity 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import OVERLOADED, inlined, kernel, leaf
from golfsim.core.metrics import Metric
from golfsim.core.simd import fused, prefetch_item
from golfsim.core.threads import as_if_one_by_one
from golfsim.learning.batches import Together
from golfsim.learning.kinds import Rule, with_room
from golfsim.learning.linear import Descent, DescentConfig, linear
from golfsim.learning.merging import limited_share_of, merge_in, mix_in_carried, share_of, temper
from golfsim.learning.packing import (
    ALL,
    CODECS,
    PIVOT,
    TOP,
    Memory,
    MessageConfig,
    Packing,
    find_links,
    nothing_remembered,
    pack,
    pack_rows,
    packing_of,
)
from golfsim.learning.updates import (
    NORMS,
    SHARING,
    Noise,
    Sharing,
    copy_model,
    decay_of,
    guarantee_of_gradients,
    keep_model,
    learn,
    spent_on_all,
    step_size,
)
from golfsim.network.adversaries import HONEST, Forgery, as_sent, forge, forge_rows
from golfsim.network.flow import METRICS as FLOW_METRICS
from golfsim.network.flow import Flow, FlowConfig, count_up
from golfsim.network.mailbox import Mailbox
from golfsim.privacy.ledger import BUDGET_METRICS, Budget, Ledger, Schedule, UniformSchedule, visits_of
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Audited, Disclosure
from golfsim.protocol.learner import classify
from golfsim.protocol.records import refuse_unfit, sign_for
from golfsim.protocol.symbols import add_named, are_symbols, dot, ground_of, models_of, prefetch

if TYPE_CHECKING:
    from golfsim.network.world import World

ALGORITHM1, RW, MU, UM, OWN = range(5)
TURN = 20  # bytes per node: receivers, what arrives, and the order of deliveries
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


LARGE = 4096  # bytes of a model
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
def receive_plainly(events, lo, hi, messages, models, rows, how):
    """Compute `receive` for the most common case in one pass over the rows, with bitwise equal results.

    A node updates the received model with its only record and takes the mean with its own model. There are no
    adversaries, no cache and no noise.

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
        The update rule and the merge.
    """
    count = how.merging.models
    for place in range(lo, hi):
        look_ahead(place, hi, events, messages, models, rows, count)
        e = events[place]
        j, start, age = np.int64(messages.dst[e]), np.int64(messages.row[e]) * count, messages.age[messages.row[e]]
        record = rows.first[j]
        learns = rows.stop[j] > record
        age += learns
        share = share_of(age, models.age[j], how.merging.by_age)
        for m in range(count):
            mine = j * count + m
            if learns:
                step, vector = step_for(messages, start + m, rows, record, m, count, how.rule, age)
                join(messages.w, start + m, rows.x, vector, models, mine, decay_of(how.rule, age), step, share)
            else:
                join(messages.w, start + m, messages.w, start + m, models, mine, np.float32(1), np.float32(0), share)
        models.age[j] = max(age, models.age[j])


NOBODY = np.empty(0, np.int32)
NO_NUMBERS = np.empty(0, np.int64)
NO_PARTS = np.empty((0, 1), np.int32)
UNUSED = np.empty(0, np.bool_)


class GolfConfig(DescentConfig):
    """The settings of Golf."""

    variant: Literal["algorithm1", "rw", "mu", "um", "own"] = Field(
        "algorithm1",
        description="what a node does with a received model: update it and average it with the current one "
        "(“algorithm1”, Hegedűs & Jelasity 2017); only update it (“rw”); merge it with the last received model, then "
        "update (“mu”); update both, then merge (“um”); merge it with the current one, then update (“own”, Hegedűs, "
        "Danner & Jelasity 2021)",
    )
    limit: int | None = Field(
        None,
        ge=0,
        description="with variant = “own”: the largest difference of ages of two models that are merged; if they "
        "differ more, the older model replaces the other one (Danner, Hegedűs & Jelasity 2023); default: no limit",
    )
    accept: Literal["all", "older"] = Field(
        "all",
        description="“older”: ignore a received model with fewer updates than the node's own, as in the random walks "
        "of Danner & Jelasity 2018",
    )
    flow: FlowConfig | None = Field(
        None,
        description="when nodes send: with token accounts a node also answers received models; default: one message "
        "per turn",
    )
    message: MessageConfig | None = Field(
        None, description="what a message carries of a model, and how it is encoded; default: all numbers in 32 bits"
    )
    average: Literal["plain", "age"] = Field(
        "plain", description="weigh two models equally in a mean, or in proportion to their ages"
    )
    cache: int = Field(
        0, ge=0, description="the number of recent models that a node stores, for voted prediction or a robust merge"
    )
    merge: Literal["mean", "median", "trimmed-mean"] = Field(
        "mean",
        description="a defence against adversarial nodes: in place of the mean of two models use the coordinate-wise "
        "median of the updated models in the cache, or their mean without the smallest and largest quarter (needs "
        "algorithm1 and a cache of 3 or more)",
    )
    epsilon: float | None = Field(
        None,
        ge=1e-6,
        allow_inf_nan=True,
        description="the budget ε of each record (or node), for noise in each gradient; default: no noise",
    )
    rule: Sharing = Field("shared", description=f"with epsilon: {SHARING}")
    schedule: Schedule = Field(
        UniformSchedule(kind="uniform", visits=1),
        description="with epsilon: how the budget is divided over the visits of a record",
    )
    norm: Literal["l1", "l2"] = Field(
        "l1",
        description="with epsilon: “l1” adds Laplace noise, for records of L1 length ≤ 1; “l2” adds Gamma-norm noise, "
        "for L2 length ≤ 1",
    )
    unit: Literal["record", "node"] = Field(
        "record", description="with epsilon: what ε protects, one record or all records of a node"
    )
    clip: float | None = Field(
        None, gt=0, description="a defence against adversarial nodes: the largest L2 length of received models"
    )

    @model_validator(mode="after")
    def _robust(self) -> GolfConfig:
        if self.merge != "mean" and (self.variant != "algorithm1" or self.cache < 3):
            raise ValueError(f'merge = "{self.merge}" needs variant = "algorithm1" and a cache of 3 or more')
        if self.epsilon is not None and self.batch != "mini-batch":
            raise ValueError('epsilon needs batch = "mini-batch": one noisy update with all records of a node')
        return self

    @model_validator(mode="after")
    def _merged_with_own(self) -> GolfConfig:
        if self.variant != "own":
            if self.limit is not None:
                raise ValueError('limit needs variant = "own", which merges a received model with the current one')
            if self._partial:
                raise ValueError(
                    'message: a part of a model needs variant = "own", which merges it with the current one'
                )
        elif self._partial and self.clip is not None:
            raise ValueError("clip: the length of a part of a model is not that of the model")
        return self

    @property
    def _partial(self) -> bool:
        return self.message is not None and self.message.select != ALL


class Golf(Descent[GolfConfig]):
    """Gossip learning: each cycle every node sends its model to a peer, which updates it with its own records."""

    Config = GolfConfig
    batches = True
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (
        *Descent.metrics,
        Metric(
            "voted_error",
            "The share of test records that the vote of a node's stored models classifies incorrectly; with `cache`.",
            "share of test records",
            "down",
            True,
        ),
        *BUDGET_METRICS,
        *FLOW_METRICS,
    )

    def setup(self, world: World) -> None:
        """Give all nodes the first model."""
        config = self.config
        self.allocate(world, world.nodes)
        shape = self.w.shape[1:]
        self._set_up_messages(world)
        remembers_last = config.variant in ("mu", "um")
        self.last = np.repeat(self._initial[None], world.nodes if remembers_last else 0, axis=0)
        self.last_age = np.zeros(world.nodes if remembers_last else 0, np.int32)
        self.cache = np.zeros((world.nodes, config.cache, *shape), np.float32)
        self.cached = np.zeros(world.nodes if config.cache else 0, np.int32)
        if world.transport.longest:
            beside = {"part_age": self._part_age, "part": self._no_part} if self._parts > 1 else {}
            self.mail = Mailbox(self, world, each=self._each, w=self.w, age=self.age, **beside)
        self.old = np.zeros((world.tampering.keeps_old().size, *shape), np.float32)
        self.old_kept = np.zeros(len(self.old), np.bool_)
        self._merging = Merging(
            shape[0], config.cache, VARIANTS[config.variant], config.average == "age", MERGES[config.merge],
            config.clip or 0.0, -1 if config.limit is None else config.limit, config.accept == "older", config._partial,
        )  # fmt: skip
        private = config.epsilon is not None
        if private:
            refuse_unfit(config.records, config.norm, self.name)
            self.refuse_unbounded()
        units = config.records.rows.label.size if config.unit == "record" else world.nodes
        spent = spent_on_all(config.epsilon or 0.0, config.rule, config.records.models)
        self.ledger = Ledger(config.schedule, spent, units if private else 0)
        self._noise = Noise(private, NORMS[config.norm], config.unit == "record", self.key("noise"))
        self._peer_key, self._part_key = self.key("peer"), self.key("part")
        usual = config.variant == "algorithm1" and not config.cache and config.clip is None and config.epsilon is None
        usual = usual and config.learner.linear and config.message is None
        usual = usual and config.flow is None and config.accept == "all"
        self._plain = usual and int(config.records.capacity().max(initial=0)) <= 1

    def _set_up_messages(self, world: World) -> None:
        """Allocate the token accounts, the ages of parts, and what codecs remember."""
        config, (rows, numbers) = self.config, self.w.shape[1:]
        message = config.message or MessageConfig()
        self._parts = message.parts or 1
        if self._parts > numbers:
            what = f"a model has {numbers} numbers per row; they cannot be divided into {self._parts} parts"
            raise UserError(what, key=f"{self.name}.message.parts", hint=f"use at most {numbers} parts")
        if config._partial and config.learner.merge is not None:
            what = f"“{config.learner.config.use}” merges complete models only"
            raise UserError(what, key=f"{self.name}.message", hint="leave parts, sample and top out")
        self._part_age, self._no_part = NO_PARTS, np.zeros(world.nodes, np.int32)
        if self._parts > 1:
            self._part_age = self.part_age = np.zeros((world.nodes, self._parts), np.int32)
        if config.flow is not None:
            if config.flow.kind == "reactive" and not world.transport.longest:
                what = "without delay a message and all answers to it arrive in the same turn, which never ends"
                raise UserError(what, key=f"{self.name}.flow.kind", hint="set delay in [transport], or another kind")
            self.flow = Flow(config.flow, self, world.nodes, self._parts)
        self._each = self.flow.most() if config.flow is not None else 1
        if config.message is not None:
            self._message_bytes = message.size(rows, numbers)
        memory = nothing_remembered(numbers)
        if message.select == TOP:
            self.reference = np.zeros((world.nodes, rows, numbers), np.float32)
            memory = memory._replace(reference=linear(self.reference))
        if CODECS[message.codec] == PIVOT:
            links = self._fixed_links(world)
            self.estimate = np.zeros((links, rows, numbers), np.float32)
            self.link_step, self.moved = np.ones_like(self.estimate), np.zeros(self.estimate.shape, np.bool_)
            moved = self.moved.reshape(-1, numbers)
            memory = Memory(memory.reference, linear(self.estimate), linear(self.link_step), moved)
        self._packing = packing_of(config.message, self.key("message"), numbers, memory)

    def _fixed_links(self, world: World) -> int:
        """Return the number of links of the overlay; refuse an overlay whose links change, and delays."""
        peers, key = self.config.peers, f"{self.name}.message.codec"
        if not peers.fixed:
            what = f"“pivot” needs links that stay; those of “{peers.name}” change"
            raise UserError(what, key=key, hint="use a static_overlay as peers, or another codec")
        if world.transport.longest:
            what = "“pivot” needs both ends of a link to agree on the last message, so messages may have no delay"
            raise UserError(what, key=key, hint="remove delay from [transport], or use another codec")
        links = peers.links(world)
        assert links is not None
        self._start_of, self._neighbour = links.indptr.astype(np.int64), links.indices.astype(np.int32)
        return int(self._neighbour.size)

    def memory(self, world: World) -> int:
        """Return the bytes of the models: current, last received, cached and in transit."""
        config, one, nodes = self.config, self.size_of_models(1), world.nodes
        stored = nodes * (1 + (config.variant in ("mu", "um")) + config.cache) + world.tampering.keeps_old().size
        units = int(config.records.capacity().sum()) if config.unit == "record" else nodes
        budget = 4 * units if config.epsilon is not None else 0
        return (
            stored * one + Mailbox.memory(world, one, self._most_sent()) + nodes * TURN + budget + self._beside(world)
        )

    def _most_sent(self) -> int:
        config = self.config
        parts = (config.message.parts if config.message is not None else None) or 1
        return 1 if config.flow is None else Flow(config.flow, self, 0, parts).most()

    def _beside(self, world: World) -> int:
        """Return the bytes of accounts, ages of parts, and what codecs remember."""
        message, one = self.config.message or MessageConfig(), self.size_of_models(1)
        accounts = 8 * world.nodes * (message.parts or 1) if self.config.flow is not None or message.parts else 0
        stored = world.nodes * one if message.select == TOP else 0
        if CODECS[message.codec] == PIVOT:
            stored += 3 * self.config.peers.most_links(world) * one
        return accounts + stored

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give these nodes the first model, also as the last received one; empty the cache."""
        self.w[nodes] = self._initial
        if len(self.last):
            self.last[nodes] = self._initial
        kept = [self.kept] if hasattr(self, "kept") else []
        for array in (self.age, self.last_age, self.cache, self._part_age, self._packing.memory.reference, *kept):
            if len(array):
                array[nodes] = 0
        if self.config.flow is not None:
            self.flow.start(nodes)
        if self.cached.size:
            self.cached[nodes] = 1

    def step(self, world: World) -> None:
        """Receive the messages that are due, then let every node send its model."""
        forgery = self._forgery(world)
        if self.config.flow is not None or self.config.message is not None:
            self._exchange(world, forgery)
            return
        if world.transport.longest:
            self._receive(world.cycle, world.threads, self._due(world), as_sent(forgery))
        nodes = self.senders(world)
        peer = self.config.peers.choose(world, nodes, self._peer_key)
        arrives, lag = world.transport.send(self, "model", nodes, peer, self._message_bytes)
        if lag is not None:
            slots = self.mail.put(world, lag, nodes, peer, arrives, w=self.w, age=self.age)
            forge_rows(
                forgery, self.mail.src[slots], world.cycle, slots, linear(self.mail.w), linear(self.old), len(self.w[0])
            )
        else:
            self._deliver(world, nodes, peer, arrives, forgery)

    def _due(self, world: World) -> Messages:
        """Return the messages that are due."""
        slots, receivers = self.mail.due(world)
        part_age, part = (self.mail.part_age, self.mail.part[slots]) if self._parts > 1 else (NO_PARTS, NOBODY)
        return Messages(
            slots, self.mail.src[slots], receivers, self.mail.w, self.mail.age, part_age, part, NO_NUMBERS, NO_NUMBERS,
            UNUSED,
        )  # fmt: skip

    def _exchange(self, world: World, forgery: Forgery) -> None:
        """Receive and send where nodes have token accounts, or where messages are packed.

        With delays, nodes first answer the messages that are due. Without, the answers to the messages of a turn are
        sent after all of these have arrived, then the answers to the answers, until no node answers.
        """
        sent, asked = np.zeros(world.nodes, np.int64), np.zeros(world.nodes, np.int64)
        nodes = self.senders(world)
        part = rng.integers(self._part_key, nodes, self._parts, world.cycle).astype(np.int32)
        if self.config.flow is not None:
            sends = self.flow.senders(world.cycle, nodes, part)
            nodes, part = nodes[sends], part[sends]
        if world.transport.longest:
            due = self._due(world)
            more, more_parts = self._received(world, due, as_sent(forgery), asked, live=False)
            nodes, part = np.concatenate([more, nodes]), np.concatenate([more_parts, part])
            self._send(world, nodes, part, forgery, sent)
            return
        while nodes.size:
            messages = self._send(world, nodes, part, forgery, sent)
            nodes, part = self._received(world, messages, forgery, asked, live=True)

    def _send(
        self, world: World, nodes: NDArray[np.int32], part: NDArray[np.int32], forgery: Forgery, sent: NDArray[np.int64]
    ) -> Messages:
        """Send a message from each of these nodes, which may occur several times; return those that arrive at once.

        `sent` counts the messages that each node has sent in this cycle.
        """
        number = np.empty(nodes.size, np.int64)
        count_up(nodes, sent, number)
        peer = self.config.peers.choose(world, nodes, self._peer_key, number)
        arrives, lag = world.transport.send(self, "model", nodes, peer, self._message_bytes, number)
        link = np.full(nodes.size, -1, np.int64)
        if self._packing.codec == PIVOT:
            find_links(self._start_of, self._neighbour, nodes, peer, link)
        nodes, peer, part = nodes[arrives], peer[arrives], part[arrives]
        number, link = number[arrives], link[arrives]
        if lag is None:
            used = np.empty(nodes.size if self.config.flow is not None else 0, np.bool_)
            return Messages(nodes, nodes, peer, self.w, self.age, self._part_age, part, number, link, used)
        beside = {"part_age": self._part_age} if self._parts > 1 else {}
        slots = self.mail.put(
            world, lag[arrives], nodes, peer, np.ones(nodes.size, np.bool_), w=self.w, age=self.age, **beside
        )
        if self._parts > 1:
            self.mail.part[slots] = part
        w, rows = linear(self.mail.w), len(self.w[0])
        forge_rows(forgery, nodes, world.cycle, slots, w, linear(self.old), rows)
        if self._packing.on:
            pack_rows(self._packing, w, slots, rows, world.cycle, nodes, number, part, link)
        return Messages(slots, nodes, peer, self.w, self.age, self._part_age, part, number, link, UNUSED)

    def _received(
        self, world: World, messages: Messages, forgery: Forgery, asked: NDArray[np.int64], live: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Receive messages, and return the nodes that answer, once per answer, with the part that they answer with."""
        size = messages.dst.size
        if self.config.flow is not None:
            messages = messages._replace(used=np.empty(size, np.bool_))
        if self._parts == 1:
            messages = messages._replace(part=np.zeros(size, np.int32))
        alone = self._packing.select == TOP and self.config.flow is not None  # a node may send twice in a row
        self._receive(world.cycle, 1 if alone else world.threads, messages, forgery, live)
        if self.config.flow is None:
            return NOBODY, NOBODY
        answers = self.flow.answers(world.cycle, messages.dst, messages.part, messages.used, asked)
        return np.repeat(messages.dst, answers), np.repeat(messages.part, answers)

    def _deliver(
        self,
        world: World,
        nodes: NDArray[np.int32],
        peer: NDArray[np.int32],
        arrives: NDArray[np.bool_],
        forgery: Forgery,
    ) -> None:
        """Let messages arrive in this cycle, in parallel with the next layer unless models are large."""
        batched = self.config.learner.batched  # several threads of its own
        cycle, alone = world.cycle, self.w[0].nbytes > LARGE or batched or not world.pipeline.active
        threads = world.threads if alone else max(1, world.threads - 1)

        def receive() -> None:
            senders = nodes[arrives]
            messages = Messages(
                senders, senders, peer[arrives], self.w, self.age, NO_PARTS, NOBODY, NO_NUMBERS, NO_NUMBERS, UNUSED
            )
            self._receive(cycle, threads, messages, forgery, live=True)

        if alone:
            receive()
        else:
            world.pipeline.later(receive)

    def _forgery(self, world: World) -> Forgery:
        if not len(self.old):
            return world.tampering.forgery(world.cycle)
        begins = ~self.old_kept & (world.tampering.since_old() <= world.cycle)
        self.old[begins] = self.w[world.tampering.keeps_old()[begins]]
        self.old_kept |= begins
        return world.tampering.forgery(world.cycle)

    def _receive(self, cycle: int, threads: int, messages: Messages, forgery: Forgery, live: bool = False) -> None:
        """Receive messages; `live`: a message carries its sender's model at the time when it is processed."""
        models = Models(
            linear(self.w), self.age, linear(self.last), self.last_age, linear(self.cache), self.cached, self._part_age
        )
        messages = messages._replace(w=linear(messages.w))
        rows = self.config.records.rows
        packing = self._packing._replace(on=self._packing.on and live)  # others were packed when they were sent
        how = Reception(self.rule(), self._merging, self._noise, self.ledger.budget, packing)
        if self.config.learner.batched:
            from protocols.golf_batches import receive_in_batches

            together = Together(self.config.learner, self._seen, rows, how.rule, how.noise, how.budget, threads)
            alone = packing.select == TOP and self.config.flow is not None  # a node may send twice in a row
            receive_in_batches(together, how, messages, models, forgery, linear(self.old), cycle, live, alone)
            return

        def run(events: NDArray[np.int32], lo: int, hi: int) -> None:
            if self._plain and not forgery.kind.size:
                receive_plainly(events, lo, hi, messages, models, rows, how)
            else:
                receive(events, lo, hi, messages, models, rows, how, forgery, linear(self.old), cycle)

        as_if_one_by_one(threads, run, len(self.w), messages.row if live else None, messages.dst)

    def value_width(self, second: bool) -> int:
        """Return the number of weights of a model."""
        return self.config.records.models * self.config.records.features

    def values(self, world: World, nodes: NDArray[np.int32], second: bool) -> NDArray[np.float64]:
        """Return the models of these nodes."""
        return self.w[nodes].reshape(nodes.size, self.value_width(second)).astype(np.float64)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the records, or that of the noise in the gradients."""
        config = self.config
        if config.epsilon is None:
            return super().guarantee()
        return guarantee_of_gradients(config.records, config.epsilon, config.rule, config.unit)

    def disclosure(self) -> Disclosure:
        """Return that models are released, with noise in each gradient if there is an ε."""
        noisy = Disclosure("models with noise in each gradient", "nobody")
        return super().disclosure() if self.config.epsilon is None else noisy

    def audited(self) -> Audited:
        """Return an audit of two nodes that exchange models until the budget is spent, and once more."""
        return Audited(cycles=visits_of(self.config.schedule) + 1)

    def observe(self, world: World) -> dict[str, float]:
        """Return the metrics, with the spent budget if gradients are perturbed, and tokens if there are accounts."""
        found = super().observe(world) | self.ledger.metrics()
        return found if self.config.flow is None else found | self.flow.metrics(world.online)

    def others(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> dict[str, NDArray[np.int32]]:
        """Return the classes by the vote of the cached models, if there is a cache."""
        return {"voted": self._voted(nodes, x)} if self.config.cache else {}

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of a copy of the models, and of the votes of cached models."""
        votes = 18 * max(self.config.records.models, 2) if self.config.cache else 0
        return super().memory_of_scores(nodes, records) + votes * records * nodes

    def answers(self) -> int:
        """Return one score per linear model, and a vote."""
        return super().answers() + (self.config.cache > 0)

    def _voted(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the majority class; a tie goes to class 1 of two, otherwise to the lowest class."""
        models = self.config.records.models
        total = np.zeros((len(x), nodes.size, max(models, 2)), np.int32)
        for place in range(self.config.cache):
            chosen = classify(self.scores_by(self.cache[nodes, place], x))
            there = self.cached[nodes] > place
            total += (chosen[..., None] == np.arange(max(models, 2))) & there[:, None]
        if models == 1:
            return (total[..., 1] >= total[..., 0]).astype(np.int32)
        return np.asarray(total.argmax(axis=-1), np.int32)
