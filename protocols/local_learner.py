"""Every node learns from its own records only: what a node can do without the others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.kernels import kernel
from golfsim.core.rng import draw
from golfsim.core.threads import over_ranges
from golfsim.learning.kinds import with_room
from golfsim.learning.linear import Descent, LearningConfig, linear
from golfsim.learning.many import refuse_batches_of_its_own, update_many, without_noise
from golfsim.learning.minibatches import Batch, drawn_batch, room_for_batches, size_of_batch, take_one
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Disclosure
from golfsim.protocol.records import Published

if TYPE_CHECKING:
    from golfsim.network.world import World


@kernel
def make_steps(nodes, w, models, age, rows, rule, steps, size, key, cycle, fresh, span, lo, hi):
    """Let nodes update their models by batches of their own records.

    Parameters
    ----------
    nodes : array of int32
        The nodes.
    w : array of float32, shape (nodes · models, numbers)
        The models of all nodes; changed in place.
    models : int
        The number of rows of a model.
    age : array of int32, shape (nodes,)
        The ages of the models; changed in place.
    rows : Rows
        The records.
    rule : Rule
        The update rule.
    steps : int
        The number of updates of each node.
    size : int
        The number of records of a batch; WHOLE: all of a node.
    key, cycle
        Of the draws that choose batches.
    fresh, span : arrays
        Working memory, of this thread.
    lo, hi : int
        The range of nodes.
    """
    rule = with_room(rule)
    for place in range(lo, hi):
        node = nodes[place]
        start, own = np.int64(node) * models, age[node]
        for k in range(steps):
            own = take_one(w, start, own, rows, node, rule, size, draw(key, cycle, node, k), fresh, span)
        age[node] = own


@kernel
def draw_batches(nodes, rows, size, key, cycle, k, first, stop):
    """Draw the batch of each node for its k-th update, as `make_steps` does.

    Parameters
    ----------
    nodes : array of int32, shape (nodes,)
        The nodes.
    rows : Rows
        The records.
    size : int
        The number of records of a batch; WHOLE: all of a node.
    key, cycle
        Of the draws.
    k : int
        The number of the update in this cycle.
    first, stop : array of int64, shape (nodes,)
        The records of each batch; filled here.
    """
    for e in range(nodes.size):
        first[e], stop[e] = drawn_batch(rows, nodes[e], size, draw(key, cycle, nodes[e], k))


class LocalLearnerConfig(LearningConfig):
    """The settings of nodes that learn alone."""

    steps: int = Field(1, ge=1, le=1_000_000, description="the number of updates of each online node per cycle")
    batch: Batch = Field(
        "all",
        description="the records of an update: “all” records of the node, or this many; a node's records are divided "
        "into batches, one of which is drawn for each update",
    )


C = TypeVar("C", bound=LocalLearnerConfig)


class OwnModels(Descent[C]):
    """A layer in which every node has a model and updates it by its own records."""

    batches = True

    def setup(self, world: World) -> None:
        """Give all nodes the first model."""
        refuse_batches_of_its_own(self.config.learner, self.name)
        self.allocate(world, world.nodes)

    def memory(self, world: World) -> int:
        """Return the bytes of the models."""
        return self.size_of_models(world.nodes)

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give these nodes the first model."""
        self.w[nodes] = self._initial
        for array in (self.age, *([self.kept] if hasattr(self, "kept") else [])):
            array[nodes] = 0

    def learn_alone(self, world: World) -> None:
        """Let every online node update its model."""
        config, rule, models = self.config, self.rule(), self.w.shape[1]
        key, size = self.key("batch"), size_of_batch(config.batch)
        if config.learner.batched:
            self._learn_together(world, key, size)
            return

        def run(lo: int, hi: int) -> None:
            room = room_for_batches(models, self.w.shape[2])
            steps = partial(make_steps, world.order, linear(self.w), models, self.age, config.records.rows, rule)
            steps(config.steps, size, key, world.cycle, *room, lo, hi)

        over_ranges(world.threads, run, 0, world.order.size)

    def _learn_together(self, world: World, key: np.uint64, size: int) -> None:
        """Update models as `make_steps` does, with a learner that updates many models at once."""
        rows, nodes = self.config.records.rows, world.order
        how = without_noise(self.config.learner, self._seen, rows, self.rule(), world.threads)
        for k in range(self.config.steps):
            first, stop = np.empty(nodes.size, np.int64), np.empty(nodes.size, np.int64)
            draw_batches(nodes, rows, size, key, world.cycle, k, first, stop)
            update_many(how, linear(self.w), self.age, nodes, (first, stop))


class LocalLearner(OwnModels[LocalLearnerConfig]):
    """Every node learns from its own records, and nothing is sent."""

    Config = LocalLearnerConfig
    accepts = frozenset({"loss", "delay", "partition"})

    def step(self, world: World) -> None:
        """Let every online node update its model."""
        self.learn_alone(world)

    @property
    def touches_private_data(self) -> bool:
        """Whether a model leaves its node; none does."""
        return False

    @property
    def withholds(self) -> bool:
        """Whether its models are of private records."""
        return not isinstance(self.config.records, Published)

    def guarantee(self) -> Guarantee:
        """Return that models stay at their nodes, or the guarantee of published records."""
        kept = Guarantee(None, note="the model never leaves its node", released=False)
        return kept if self.withholds else super().guarantee()

    def disclosure(self) -> Disclosure:
        """Return that nothing is released."""
        return Disclosure("nothing", "nobody")

    def released(self) -> NDArray[Any]:
        """Return nothing: no model leaves its node."""
        return np.empty(0)
