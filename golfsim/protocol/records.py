"""What a records layer is: the training records of the nodes, as learners may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import inlined
from golfsim.data.placement import ArrivalConfig
from golfsim.privacy.mechanisms import ROUNDING, Guarantee, Unit
from golfsim.protocol.base import LayerConfig, Protocol

if TYPE_CHECKING:
    from golfsim.data.grouping import Grouping
    from golfsim.network.world import World

C = TypeVar("C", bound=LayerConfig)


class Rows(NamedTuple):
    """What a kernel needs of a records layer; node i has rows first[i] … stop[i]−1.

    With one slice a record the label gives the sign for each model; with a slice for each model (row record · models +
    model of x) the sign is already in it (`folded`).
    """

    x: NDArray[np.float32]  # [records · slices, features]
    label: NDArray[np.int32]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    folded: bool


@inlined
def sign_for(rows, record, model, models):
    """+1 or −1: is the record on the positive side of this model's one-vs-all problem?"""
    if rows.folded:
        return np.float32(1)
    positive = rows.label[record] == (1 if models == 1 else model)
    return np.float32(1) if positive else np.float32(-1)


class Records(Protocol[C]):
    """A layer that holds records. `models` is 1 for two classes, else the number of classes."""

    @property
    def rows(self) -> Rows:
        """The records, for kernels."""
        raise NotImplementedError

    @property
    def classes(self) -> int:
        """The number of classes."""
        raise NotImplementedError

    @property
    def models(self) -> int:
        """How many linear models tell the classes apart."""
        return 1 if self.classes == 2 else self.classes

    @property
    def features(self) -> int:
        """The number of features."""
        return int(self.rows.x.shape[1])

    def capacity(self) -> NDArray[np.int64]:
        """How many records each node will ever have."""
        raise NotImplementedError

    @property
    def copies(self) -> int:
        """How many nodes hold the same record at the most."""
        return 1

    @property
    def caveat(self) -> str:
        """What was asked of the private records before, and not accounted for."""
        return ""

    def guarantee_of(self, epsilon: float, unit: Unit) -> Guarantee:
        """What a strategy that spends ε on each record (or node) of this layer gives in all."""
        if self.caveat:
            return Guarantee(None, unit, f"as published, ε = {epsilon:g} per {unit} but for {self.caveat}")
        if unit == "record" and self.copies > 1:
            return Guarantee(
                epsilon * self.copies, unit, f"{epsilon:g} at each of up to {self.copies} nodes that hold it"
            )
        return Guarantee(epsilon, unit)


class Published(Records[C]):
    """Records that anybody may see and use at will."""

    def decoded(self, records: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The best guess of features and label of each record that what was published of it alone allows."""
        raise NotImplementedError


def ranges(start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """All numbers of the ranges start … stop−1, one after the other."""
    size = stop - start
    return np.asarray(np.arange(int(size.sum())) + np.repeat(start - (np.cumsum(size) - size), size), np.int64)


def longest(records: Records[Any], norm: str) -> float:
    """The length of the longest record, and 1 at the least."""
    x = records.rows.x
    with np.errstate(over="ignore"):  # then it is infinite, and refused as such
        length = np.abs(x).sum(axis=1) if norm == "l1" else np.sqrt(np.square(x).sum(axis=1))
    return max(1.0, float(length.max(initial=0.0)))


def refuse_unfit(records: Records[Any], norm: str, layer: str, key: str = "norm") -> None:
    """Refuse records that noise cannot protect.

    Those longer than 1, since the sensitivity of every private strategy rests on that length; and those that are
    published already. `key` is the layer's setting that asks for the length.
    """
    if isinstance(records, Published):
        raise UserError(
            f"“{records.name}” is published already: more noise protects nobody",
            key=f"{layer}.records",
            hint='protect "raw", or learn from the published records without noise',
            docs="privacy",
        )
    length = longest(records, norm)
    if length > 1 + ROUNDING / 2:
        raise UserError(
            f"the longest record has {norm.upper()} length {length:.6g}; the guarantee needs at most 1",
            key=f"{layer}.{key}",
            hint=f'add "{norm}" to scale in [data]',
            docs="privacy",
        )


class About(NamedTuple):
    """What is public about records: their features' names, the range that scaling keeps them in, groups of values."""

    features: tuple[str, ...] = ()
    span: tuple[float, float] | None = None  # None: no range is known without looking at the records
    grouping: Grouping | None = None


class RawRecords(Records[LayerConfig]):
    """The nodes' own records, unprotected: what learns from this layer is not private.

    With an arrival schedule a node's rows begin as a part of its records and grow; the oldest may be retired.
    """

    def __init__(
        self,
        x: NDArray[np.float32],
        label: NDArray[np.int32],
        counts: NDArray[np.int64],
        classes: int,
        seed: int = 0,
        arrival: ArrivalConfig | None = None,
        copies: int = 1,
        caveat: str = "",
        about: About | None = None,
    ) -> None:
        super().__init__("raw", LayerConfig(name="raw", use="raw"), seed)
        self._x = x
        self._label = label
        self._classes = classes
        self._arrival = arrival
        self._copies = copies
        self._caveat = caveat
        self._about = about or About()
        self._counts = counts
        self._begin = np.cumsum(counts) - counts
        self._flipped = 0
        self.first = self._begin.copy()
        self.stop = self._begin + (0 if arrival else counts)

    @classmethod
    def kind(cls) -> str:
        """What messages call this layer."""
        return "raw"

    @classmethod
    def stand_in(cls) -> RawRecords:
        """A raw layer without records, for checking a scenario before its data is loaded."""
        return cls(np.zeros((0, 1), np.float32), np.zeros(0, np.int32), np.zeros(0, np.int64), 2)

    def changes(self, world: World) -> bool:
        """Return whether records arrive or labels are turned in this cycle."""
        flips = world.tampering.flips[self._flipped :]
        return self._arrival is not None or any(start <= world.cycle for start, _ in flips)

    def step(self, world: World) -> None:
        """Let records arrive and retire, and bad peers turn their labels."""
        if self._arrival:
            self._arrive(self._arrival, world.cycle)
        for start, nodes in world.tampering.flips[self._flipped :]:
            if start <= world.cycle:
                self._flip(nodes)
                self._flipped += 1

    def capacity(self) -> NDArray[np.int64]:
        """How many records each node will ever have."""
        return self._counts

    def published_by(self, layer: Records[Any]) -> NDArray[np.bool_]:
        """Which of the records a layer above has published so far."""
        rows = layer.rows
        there = np.zeros(self._label.size + 1, np.int64)
        np.add.at(there, rows.first, 1)
        np.add.at(there, rows.stop, -1)
        return np.asarray(np.cumsum(there)[:-1] > 0)

    def class_counts(self) -> NDArray[np.int64]:
        """How many records of each class each node has, those that are still to arrive included."""
        node = np.repeat(np.arange(self._counts.size), self._counts)
        counts = np.zeros((self._counts.size, self._classes), np.int64)
        np.add.at(counts, (node, self._label), 1)
        return counts

    def _arrive(self, arrival: ArrivalConfig, cycle: int) -> None:
        nodes = np.arange(self._counts.size, dtype=np.int32)
        phase = rng.uniform(self.key("arrival"), nodes)
        have = np.floor(arrival.start * self._counts) + np.floor(arrival.rate * (cycle - 1) + phase)
        self.stop[:] = self._begin + np.minimum(have.astype(np.int64), self._counts)
        if arrival.keep is not None:
            np.maximum(self._begin, self.stop - arrival.keep, out=self.first)

    def _flip(self, nodes: NDArray[np.int32]) -> None:
        """Each label of these nodes becomes the next class: with two classes, the other one."""
        for node in nodes:
            rows = slice(self._begin[node], self._begin[node] + self._counts[node])
            self._label[rows] = (self._label[rows] + 1) % self._classes

    @property
    def rows(self) -> Rows:
        """The records, for kernels."""
        return Rows(self._x, self._label, self.first, self.stop, False)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self._classes

    @property
    def copies(self) -> int:
        """How many nodes hold the same record at the most."""
        return self._copies

    @property
    def caveat(self) -> str:
        """What was asked of the private records before, and not accounted for."""
        return self._caveat

    @property
    def about(self) -> About:
        """What is public about the records."""
        return self._about
