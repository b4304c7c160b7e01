"""Every node makes its model in closed form from its estimates of means over all records."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.errors import UserError
from golfsim.core.memory import size_of
from golfsim.learning.closed_form import FITS, SECOND, Settings, refuse_unknown
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.averages import Averages, Floats, Nodes
from golfsim.protocol.base import Disclosure, Layer, LayerConfig
from golfsim.protocol.learner import Learner, score
from golfsim.protocol.records import Records

if TYPE_CHECKING:
    from golfsim.network.world import World


class AveragedModelConfig(LayerConfig):
    """Where the means come from, and the learner."""

    averages: Layer[Averages[Any]] = Field(description="the layer that averages the numbers of records")
    learner: Literal["centroid", "lda"] = Field(
        "centroid",
        description="“centroid”: the nearest class mean; “lda”: linear discriminant analysis, which needs moments = 2 "
        "in the layer of averages",
    )


class AveragedModel(Learner[AveragedModelConfig]):
    """A node's model is computed from its estimates of the means of numbers of the records; it sends nothing.

    Models are computed only for nodes that are measured. How well the means are known depends on the number of nodes
    that take part. It is taken from the simulation; nodes could estimate it by counting.
    """

    Config = AveragedModelConfig
    accepts = frozenset({"loss", "delay", "partition"})

    def setup(self, world: World) -> None:
        """Check that the means are those of records, and allocate the ages."""
        self._records = self._averaged()
        refuse_unknown(self._records, self.config.learner, f"{self.name}.learner")
        self.age = np.zeros(world.nodes, np.int32)  # the number of turns with an estimate
        self._fitted: tuple[Floats, list[Settings], NDArray[np.float32]] | None = None  # the last models
        self._fitting = Lock()

    def _averaged(self) -> Records[Any]:
        """Return the records whose numbers are averaged; refuse layers of averages that do not serve the learner."""
        averages, second = self.config.averages, SECOND[self.config.learner]
        of = averages.config.of
        if not isinstance(of, Records):
            raise UserError(
                f"“{averages.name}” does not average numbers of records",
                key=f"{self.name}.averages",
                hint=f'name a layer of records in {averages.name}.of: "raw", or what a layer publishes of them',
            )
        if second and averages.config.moments == 1:
            raise UserError(
                f"“{averages.name}” averages no second moments, which “{self.config.learner}” needs",
                key=f"{self.name}.learner",
                hint=f"set {averages.name}.moments to 2",
            )
        return of

    def memory(self, world: World) -> int:
        """Return the bytes of the ages."""
        return 4 * world.nodes

    def start(self, world: World, nodes: Nodes) -> None:
        """Set the ages of these nodes to zero."""
        self.age[nodes] = 0

    def step(self, world: World) -> None:
        """Count the turns in which nodes have an estimate."""
        self.age[world.order] += self.config.averages.known(world.order)

    def holders(self, world: World) -> Nodes:
        """Return the online nodes that have an estimate."""
        holders = super().holders(world)
        return holders[self.config.averages.known(holders)]

    def answers(self) -> int:
        """Return one score per linear model."""
        return self.config.averages.config.of.models  # type: ignore[no-any-return]

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of estimates and models of these nodes, and of records with a constant."""
        averages = self.config.averages
        of = averages.config.of
        width = of.value_width(averages.config.moments == 2)
        models = size_of((12, nodes, of.models, of.features + 1))
        return models + size_of((np.float64, 2, nodes, width), (np.float32, records, of.features + 1))

    def models(self, nodes: Nodes) -> NDArray[np.float32]:
        """Return the models [nodes, models, features + 1] of these nodes, the bias last."""
        numbers, known = self.config.averages.estimates(nodes), self._settings(nodes)
        with self._fitting:
            last = self._fitted
            if last is None or known != last[1] or not np.array_equal(numbers, last[0]):
                last = self._fitted = numbers.copy(), known, self._fit(numbers, known)
            return last[2]

    def _settings(self, nodes: Nodes) -> list[Settings]:
        """Return the precision of the numbers, and the number of nodes that each node has the mean of."""
        precision, counts = self.config.averages.precision(), self.config.averages.participants(nodes)
        return [Settings(precision, count) for count in counts.tolist()]

    def _fit(self, numbers: Floats, known: list[Settings]) -> NDArray[np.float32]:
        of, fit = self._records, FITS[self.config.learner]
        w = np.empty((len(numbers), of.models, of.features + 1), np.float32)
        for row, (own, settings) in enumerate(zip(numbers, known, strict=True)):
            w[row] = fit(own, of.classes, of.features, settings)
        return w

    def scores(self, nodes: Nodes, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of all models, by one matrix product."""
        with_one = np.hstack([x, np.ones((len(x), 1), np.float32)])
        return score(self.models(nodes), with_one)

    def ages(self, nodes: Nodes) -> Nodes:
        """Return the number of turns in which each node had an estimate."""
        return self.age[nodes]

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the averages."""
        return self.config.averages.guarantee()

    def disclosure(self) -> Disclosure:
        """Return what the layer of averages releases; the model itself stays at its node."""
        return self.config.averages.disclosure()
