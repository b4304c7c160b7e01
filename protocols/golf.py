"""Golf: gossip learning with linear models on random walks (Ormándi, Hegedűs & Jelasity 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.kernels import OVERLOADED, inlined, kernel, leaf
from golfsim.core.metrics import Metric
from golfsim.core.simd import fused, prefetch_item
from golfsim.core.threads import as_if_one_by_one
from golfsim.learning.kinds import Rule, learner_of, with_room
from golfsim.learning.linear import Descent, DescentConfig, linear
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
from golfsim.network.mailbox import Mailbox
from golfsim.privacy.ledger import BUDGET_METRICS, Budget, Ledger, Schedule, UniformSchedule, visits_of
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Audited, Disclosure
from golfsim.protocol.learner import classify
from golfsim.protocol.records import refuse_unfit, sign_for
from golfsim.protocol.symbols import add_named, are_symbols, dot, ground_of, models_of, prefetch

if TYPE_CHECKING:
    from golfsim.network.world import World

ALGORITHM1, RW, MU, UM = range(4)
TURN = 20  # bytes per node: receivers, what arrives, and the order of deliveries
VARIANTS = {"algorithm1": ALGORITHM1, "rw": RW, "mu": MU, "um": UM}
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


class Messages(NamedTuple):
    """Models that arrive: message e carries model row[e] of w from node sender[e] to node dst[e]."""

    row: NDArray[np.int32]
    sender: NDArray[np.int32]
    dst: NDArray[np.int32]
    w: NDArray[np.float32]
    age: NDArray[np.int32]


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


class Reception(NamedTuple):
    """Everything that determines how a node processes a received model."""

    rule: Rule
    merging: Merging
    noise: Noise
    budget: Budget


@inlined
def share_of(age, other_age, by_age):
    """Return the weight of a model in a mean with another one."""
    if by_age and age + other_age > 0:
        return np.float32(age / (age + other_age))
    return np.float32(0.5)


@inlined
def mix_in(a, i, age_a, b, j, age_b, models, by_age):
    """Replace the model at row j of b by its mean with the model at row i of a, and return the larger age.

    Parameters
    ----------
    a, b : array of float32, shape (rows, features)
        The models, one row per linear model; b is changed in place.
    i, j : int
        The first rows of the two models.
    age_a, age_b : int
        The ages of the two models.
    models : int
        The number of linear models per model.
    by_age : bool
        Whether the models are weighted by their ages.
    """
    share = share_of(age_a, age_b, by_age)
    rest = np.float32(1) - share
    for m in range(models):
        for f in range(b.shape[1]):
            b[j + m, f] = fused(share, a[i + m, f], rest * b[j + m, f])
    return max(age_a, age_b)


def merge_in(rule: Rule, a: Any, i: Any, age_a: Any, b: Any, j: Any, age_b: Any, models: Any, by_age: Any) -> Any:
    """Merge as `mix_in` does, or by the learner's own kernel if it has one; return the larger age.

    Parameters
    ----------
    rule : Rule
        The update rule, which has the learner.
    a, b : array of float32, shape (rows, numbers)
        The models; b is changed in place.
    i, j : int
        The first rows of the two models.
    age_a, age_b : int
        The ages of the two models.
    models : int
        The number of rows per model.
    by_age : bool
        Whether the models are weighted by their ages.
    """
    learner = learner_of(rule)
    if learner.merge is None:
        return mix_in(a, i, age_a, b, j, age_b, models, by_age)
    learner.merge(learner.Numbers(*rule.numbers), a, i, b, j, share_of(age_a, age_b, by_age), rule.room)
    return max(age_a, age_b)


@overload(merge_in, jit_options=OVERLOADED)
def _compiled_merge_in(rule, a, i, age_a, b, j, age_b, models, by_age):
    kernel, numbers = learner_of(rule).merge, learner_of(rule).Numbers
    if kernel is None:
        return lambda rule, a, i, age_a, b, j, age_b, models, by_age: mix_in(a, i, age_a, b, j, age_b, models, by_age)

    def merged(rule, a, i, age_a, b, j, age_b, models, by_age):
        kernel(numbers(*rule.numbers), a, i, b, j, share_of(age_a, age_b, by_age), rule.room)
        return max(age_a, age_b)

    return merged


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
    mine = np.int64(j) * merging.models
    if merging.variant == MU:
        copy_model(models.last, mine, other)
        other_age = merge_in(how.rule, w, row, age, other, 0, models.last_age[j], merging.models, merging.by_age)
        new_age = learn(other, 0, other_age, rows, j, how.rule, how.noise, how.budget, fresh)
    else:
        new_age = learn(w, row, age, rows, j, how.rule, how.noise, how.budget, fresh)
    if merging.variant == UM:
        other_age = learn(models.last, mine, models.last_age[j], rows, j, how.rule, how.noise, how.budget, other)
        new_age = merge_in(how.rule, other, 0, other_age, fresh, 0, new_age, merging.models, merging.by_age)
    if merging.variant in (MU, UM):
        copy_model(w, row, other)
        keep_model(other, models.last, mine)
        models.last_age[j] = age
    if merging.variant == ALGORITHM1 and merging.merge == MEAN:
        new_age = merge_in(how.rule, fresh, 0, new_age, models.w, mine, models.age[j], merging.models, merging.by_age)
    elif merging.merge == MEAN:
        keep_model(fresh, models.w, mine)
    models.age[j] = new_age if merging.merge == MEAN else max(new_age, models.age[j])
    if merging.cache > 0:
        remember(models, j, mine, merging, scratch)


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
    how = Reception(with_room(how.rule), how.merging, how.noise, how.budget)
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
    count, clip = how.merging.models, how.merging.clip
    for place in range(lo, hi):
        look_ahead(place, hi, events, messages, models, rows, count)
        e = events[place]
        j, start = messages.dst[e], np.int64(messages.row[e]) * count
        age = messages.age[messages.row[e]]
        lies = forgery.kind.size > 0 and forgery.kind[messages.sender[e]] != HONEST
        if lies:
            forge(forgery, messages.sender[e], cycle, messages.w, start, old, scratch.incoming)
        elif clip > 0:
            copy_model(messages.w, start, scratch.incoming)
        if clip > 0:
            clip_model(scratch.incoming, clip)
        if lies or clip > 0:
            take(scratch.incoming, 0, age, j, models, rows, how, scratch)
        else:
            take(messages.w, start, age, j, models, rows, how, scratch)


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


class GolfConfig(DescentConfig):
    """The settings of Golf."""

    variant: Literal["algorithm1", "rw", "mu", "um"] = Field(
        "algorithm1",
        description="what a node does with a received model: update it and average it with the current one "
        "(“algorithm1”, Hegedűs & Jelasity 2017); only update it (“rw”); merge it with the last received model, then "
        "update (“mu”); update both, then merge (“um”)",
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


class Golf(Descent[GolfConfig]):
    """Gossip learning: each cycle every node sends its model to a peer, which updates it with its own records."""

    Config = GolfConfig
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
    )

    def setup(self, world: World) -> None:
        """Give all nodes the first model."""
        config = self.config
        self.allocate(world, world.nodes)
        shape = self.w.shape[1:]
        remembers_last = config.variant in ("mu", "um")
        self.last = np.repeat(self._initial[None], world.nodes if remembers_last else 0, axis=0)
        self.last_age = np.zeros(world.nodes if remembers_last else 0, np.int32)
        self.cache = np.zeros((world.nodes, config.cache, *shape), np.float32)
        self.cached = np.zeros(world.nodes if config.cache else 0, np.int32)
        if world.transport.longest:
            self.mail = Mailbox(self, world, w=self.w, age=self.age)
        self.old = np.zeros((world.tampering.keeps_old().size, *shape), np.float32)
        self.old_kept = np.zeros(len(self.old), np.bool_)
        self._merging = Merging(
            shape[0], config.cache, VARIANTS[config.variant], config.average == "age", MERGES[config.merge],
            config.clip or 0.0,
        )  # fmt: skip
        private = config.epsilon is not None
        if private:
            refuse_unfit(config.records, config.norm, self.name)
            self.refuse_unbounded()
        units = config.records.rows.label.size if config.unit == "record" else world.nodes
        spent = spent_on_all(config.epsilon or 0.0, config.rule, config.records.models)
        self.ledger = Ledger(config.schedule, spent, units if private else 0)
        self._noise = Noise(private, NORMS[config.norm], config.unit == "record", self.key("noise"))
        self._peer_key = self.key("peer")
        usual = config.variant == "algorithm1" and not config.cache and config.clip is None and config.epsilon is None
        usual = usual and config.learner.linear
        self._plain = usual and int(config.records.capacity().max(initial=0)) <= 1

    def memory(self, world: World) -> int:
        """Return the bytes of the models: current, last received, cached and in transit."""
        config, one, nodes = self.config, self.size_of_models(1), world.nodes
        stored = nodes * (1 + (config.variant in ("mu", "um")) + config.cache) + world.tampering.keeps_old().size
        units = int(config.records.capacity().sum()) if config.unit == "record" else nodes
        budget = 4 * units if config.epsilon is not None else 0
        return stored * one + Mailbox.memory(world, one) + nodes * TURN + budget

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give these nodes the first model, also as the last received one; empty the cache."""
        self.w[nodes] = self._initial
        if len(self.last):
            self.last[nodes] = self._initial
        kept = [self.kept] if hasattr(self, "kept") else []
        for array in (self.age, self.last_age, self.cache, *kept):
            if len(array):
                array[nodes] = 0
        if self.cached.size:
            self.cached[nodes] = 1

    def step(self, world: World) -> None:
        """Receive the messages that are due, then let every node send its model."""
        forgery = self._forgery(world)
        if world.transport.longest:
            slots, receivers = self.mail.due(world)
            senders = self.mail.src[slots]
            messages = Messages(slots, senders, receivers, self.mail.w, self.mail.age)
            self._receive(world.cycle, world.threads, messages, as_sent(forgery))
        peer = self.config.peers.choose(world, world.order, self._peer_key)
        arrives, lag = world.transport.send(self, "model", world.order, peer, self._message_bytes)
        if lag is not None:
            slots = self.mail.put(world, lag, world.order, peer, arrives, w=self.w, age=self.age)
            forge_rows(
                forgery, self.mail.src[slots], world.cycle, slots, linear(self.mail.w), linear(self.old), len(self.w[0])
            )
        else:
            self._deliver(world, peer, arrives, forgery)

    def _deliver(self, world: World, peer: NDArray[np.int32], arrives: NDArray[np.bool_], forgery: Forgery) -> None:
        """Let messages arrive in this cycle, in parallel with the next layer unless models are large."""
        cycle, order, alone = world.cycle, world.order, self.w[0].nbytes > LARGE or not world.pipeline.active
        threads = world.threads if alone else max(1, world.threads - 1)

        def receive() -> None:
            senders = order[arrives]
            messages = Messages(senders, senders, peer[arrives], self.w, self.age)
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
        models = Models(linear(self.w), self.age, linear(self.last), self.last_age, linear(self.cache), self.cached)
        messages = messages._replace(w=linear(messages.w))
        rows = self.config.records.rows
        how = Reception(self.rule(), self._merging, self._noise, self.ledger.budget)

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
        """Return the metrics, with the spent budget if gradients are perturbed."""
        return super().observe(world) | self.ledger.metrics()

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
