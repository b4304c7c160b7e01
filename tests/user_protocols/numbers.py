"""Layers that offer numbers per node, as small as possible: given numbers, and sums over records that are published."""

from typing import Any

import numpy as np
from pydantic import Field

from golfsim.core.metrics import Metric
from golfsim.core.rng import uniform
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Layer, LayerConfig, Protocol
from golfsim.protocol.moments import Precision
from golfsim.protocol.records import Published, Records

WIDTH = Metric("width", "The number of numbers of a node.")


class GivenConfig(LayerConfig):
    """How many numbers."""

    width: int = Field(3, ge=0, description="the numbers of each node")


class Given(Protocol[GivenConfig]):
    """Numbers between 0 and 1 for each node, in each coordinate shifted by its number."""

    Config = GivenConfig
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (WIDTH,)

    def value_width(self, second):
        return self.config.width * (2 if second else 1)

    def values(self, world, nodes, second):
        width = self.value_width(second)
        return np.stack([f + uniform(self.key("given"), nodes, k=f) for f in range(width)], axis=1)

    def memory(self, world):
        return 0

    def observe(self, world):
        return {"width": self.config.width}


class SumsConfig(LayerConfig):
    """The records to publish."""

    records: Layer[Records[Any]] = Field("raw", validate_default=True, description="the records")


class Sums(Published[SumsConfig]):
    """Publish the records as they are (with an ε that a test may state), and offer sums over those of each node."""

    Config = SumsConfig
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (WIDTH,)

    @property
    def rows(self):
        return self.config.records.rows

    @property
    def classes(self):
        return self.config.records.classes

    def capacity(self):
        return self.config.records.capacity()

    def guarantee(self):
        return Guarantee(7.0)

    def value_width(self, second):
        c, d = self.classes, self.features
        return 1 + 2 * c + c * d + (d * (d + 1) // 2 if second else 0)

    def values(self, world, nodes, second):
        c, d, rows = self.classes, self.features, self.rows
        found = np.zeros((len(nodes), self.value_width(second)))
        upper = np.triu_indices(d)
        for own, i in zip(found, nodes, strict=True):
            for r in range(rows.first[i], rows.stop[i]):
                x, y = rows.x[r].astype(float), rows.label[r]
                own[0] += 1
                own[1 + y] += 1
                own[1 + c + y] += sum(v * v for v in x.tolist())
                own[1 + 2 * c + y * d :][:d] += x
                if second:
                    own[1 + 2 * c + c * d :] += np.outer(x, x)[upper]
        return found

    def precision(self):
        return Precision()

    def memory(self, world):
        return 0

    def released(self):
        return self.rows.x.ravel().astype(np.float64)

    def observe(self, world):
        return {"width": float(self.value_width(False))}
