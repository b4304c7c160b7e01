"""Golf: gossip learning with linear models on random walks (Ormándi, Hegedűs & Jelasity 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.kernels import kernel
from golfsim.learner import Learner, classify
from golfsim.overlay import Overlay
from golfsim.parallel import as_if_one_by_one
from golfsim.protocol import Layer, LayerConfig
from golfsim.records import Records
from golfsim.transport import Mailbox
from golfsim.updates import LEARNERS, Rule, update

if TYPE_CHECKING:
    from golfsim.world import World

ALGORITHM1, RW, MU, UM = range(4)
VARIANTS = {"algorithm1": ALGORITHM1, "rw": RW, "mu": MU, "um": UM}


class Models(NamedTuple):
    """The models of all nodes, for kernels; `last` and `cache` have no rows where they are not needed."""

    w: NDArray[np.float32]  # [nodes, models, features]
    age: NDArray[np.int32]
    last: NDArray[np.float32]
    last_age: NDArray[np.int32]
    cache: NDArray[np.float32]  # [nodes, remembered, models, features]
    cached: NDArray[np.int32]  # how many models each node has put there so far


@kernel
def share_of(age, other_age, by_age):
    """The weight of a model in a mean with another one."""
    if by_age and age + other_age > 0:
        return np.float32(age / (age + other_age))
    return np.float32(0.5)


@kernel
def average(a, age_a, b, age_b, by_age, out):
    """Write the mean of two models into `out`; the age is the older one's."""
    share = share_of(age_a, age_b, by_age)
    rest = np.float32(1) - share
    for m in range(a.shape[0]):
        for f in range(a.shape[1]):
            out[m, f] = share * a[m, f] + rest * b[m, f]
    return max(age_a, age_b)


@kernel
def receive(events, lo, hi, row, dst, sent_w, sent_age, models, rows, rule, variant, by_age):
    """Messages lo … hi−1 arrive: number e carries the model sent_w[row[e]] to node dst[e]."""
    fresh = np.empty(sent_w.shape[1:], np.float32)
    other = np.empty(sent_w.shape[1:], np.float32)
    for place in range(lo, hi):
        e = events[place]
        j = dst[e]
        w, age = sent_w[row[e]], sent_age[row[e]]
        if variant == ALGORITHM1:
            fresh_age = update(w, age, rows, j, rule, fresh)
            new_age = average(fresh, fresh_age, models.w[j], models.age[j], by_age, models.w[j])
        elif variant == RW:
            new_age = update(w, age, rows, j, rule, fresh)
            models.w[j] = fresh
        elif variant == MU:
            other_age = average(w, age, models.last[j], models.last_age[j], by_age, other)
            new_age = update(other, other_age, rows, j, rule, fresh)
        else:
            fresh_age = update(w, age, rows, j, rule, fresh)
            other_age = update(models.last[j], models.last_age[j], rows, j, rule, other)
            new_age = average(fresh, fresh_age, other, other_age, by_age, fresh)
        if variant in (MU, UM):
            models.last[j] = w
            models.last_age[j] = age
            models.w[j] = fresh
        models.age[j] = new_age
        if models.cache.shape[1] > 0:
            models.cache[j, models.cached[j] % models.cache.shape[1]] = models.w[j]
            models.cached[j] += 1


class GolfConfig(LayerConfig):
    """Golf's settings."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that names the receiver of each model")
    records: Layer[Records[Any]] = Field(description="the records that models are updated with; “raw” is not private")
    learner: Literal["pegasos", "logistic", "mean"] = Field("pegasos", description="how a record changes a model")
    lam: float = Field(1e-4, alias="lambda", gt=0, description="the regularisation λ; the step is 1/(λt)")
    variant: Literal["algorithm1", "rw", "mu", "um"] = Field(
        "algorithm1",
        description="what a node makes of a received model: update it and average with the current one (Hegedűs & "
        "Jelasity 2017); only update it; merge it with the last received, then update; update both, then merge",
    )
    average: Literal["plain", "age"] = Field("plain", description="two models count alike, or by their age")
    batch: Literal["mini-batch", "one-by-one"] = Field(
        "mini-batch", description="several records of a node make one update together, or one each"
    )
    cache: int = Field(0, ge=0, description="remember so many of the last models for voted prediction")


class Golf(Learner[GolfConfig]):
    """Each cycle every node sends its model to a peer, which updates it with its own records and keeps the result."""

    Config = GolfConfig
    accepts = frozenset({"loss", "delay"})

    def setup(self, world: World) -> None:
        """All models zero."""
        config = self.config
        shape = (config.records.models, config.records.features)
        remembers_last = config.variant in ("mu", "um")
        self.w = np.zeros((world.nodes, *shape), np.float32)
        self.age = np.zeros(world.nodes, np.int32)
        self.last = np.zeros((world.nodes if remembers_last else 0, *shape), np.float32)
        self.last_age = np.zeros(world.nodes if remembers_last else 0, np.int32)
        self.cache = np.zeros((world.nodes, config.cache, *shape), np.float32)
        self.cached = np.zeros(world.nodes if config.cache else 0, np.int32)
        if world.transport.longest:
            self.mail = Mailbox(self, world, w=self.w, age=self.age)
        self._rule = Rule(LEARNERS[config.learner][0], config.lam, config.batch == "one-by-one")
        self._peer_key = self.key("peer")
        self._bytes = self.w[0].nbytes + self.age.itemsize

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Begin with the zero model, also as the last received one and in the cache."""
        for array in (self.w, self.age, self.last, self.last_age, self.cache):
            if len(array):
                array[nodes] = 0
        if self.cached.size:
            self.cached[nodes] = 1

    def step(self, world: World) -> None:
        """Take in what is due, then let everybody send."""
        if world.transport.longest:
            slots, receivers = self.mail.due(world)
            self._receive(world, slots, receivers, self.mail.w, self.mail.age)
        peer = self.config.peers.choose(world, world.order, self._peer_key)
        arrives, lag = world.transport.send(self, "model", world.order, peer, self._bytes)
        if lag is not None:
            self.mail.put(world, lag, world.order, peer, arrives, w=self.w, age=self.age)
        else:
            self._receive(world, world.order[arrives], peer[arrives], self.w, self.age, live=True)

    def _receive(
        self, world: World, row: NDArray[np.int32], dst: NDArray[np.int32], w: Any, age: Any, live: bool = False
    ) -> None:
        models = Models(self.w, self.age, self.last, self.last_age, self.cache, self.cached)
        rows, variant, by_age = self.config.records.rows, VARIANTS[self.config.variant], self.config.average == "age"

        def run(events: NDArray[np.int64], lo: int, hi: int) -> None:
            receive(events, lo, hi, row, dst, w, age, models, rows, self._rule, variant, by_age)

        as_if_one_by_one(world.threads, run, world.nodes, row if live else None, dst)

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """One matrix product for all nodes and models."""
        return score(self.w[nodes], x)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Updates on the way of each node's model."""
        return self.age[nodes]

    def votes(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.int32] | None:
        """The majority of the remembered models; a tie goes to class 1 of two, else to the lowest class."""
        if not self.config.cache:
            return None
        models = self.config.records.models
        total = np.zeros((len(x), nodes.size, max(models, 2)), np.int32)
        for place in range(self.config.cache):
            chosen = classify(score(self.cache[nodes, place], x))
            there = self.cached[nodes] > place
            total += (chosen[..., None] == np.arange(max(models, 2))) & there[:, None]
        if models == 1:
            return (total[..., 1] >= total[..., 0]).astype(np.int32)
        return np.asarray(total.argmax(axis=-1), np.int32)


def score(w: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The scores of records by models: [records, nodes, models]."""
    nodes, models, features = w.shape
    return (x @ w.reshape(nodes * models, features).T).reshape(len(x), nodes, models)
