"""Layers that promise numbers by `value_width`, and lack a method that goes with it."""

from typing import Any

import numpy as np
from pydantic import Field

from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Layer, LayerConfig, Protocol
from golfsim.protocol.records import Published, Records


class LackingConfig(LayerConfig):
    """The records to publish."""

    records: Layer[Records[Any]] = Field("raw", validate_default=True, description="the records")


class Promises(Published[LackingConfig]):
    """Records as they are, with moments of which nobody knows the noise."""

    Config = LackingConfig
    accepts = frozenset({"loss", "delay", "partition"})

    @property
    def rows(self):
        return self.config.records.rows

    @property
    def classes(self):
        return self.config.records.classes

    def capacity(self):
        return self.config.records.capacity()

    def guarantee(self):
        return Guarantee(None)

    def value_width(self, second):
        return 4

    def values(self, world, nodes, second):
        return np.zeros((nodes.size, 4))


class Empty(Protocol[LayerConfig]):
    """A layer that says how many numbers a node has, but not which."""

    Config = LayerConfig

    def value_width(self, second):
        return 2
