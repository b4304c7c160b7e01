"""What a records layer is: the training records of the nodes, as learners may see them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import inlined
from golfsim.core.memory import size_of
from golfsim.data.placement import ArrivalConfig
from golfsim.privacy.mechanisms import ROUNDING, Guarantee, Unit
from golfsim.protocol.base import LayerConfig, Protocol
from golfsim.protocol.moments import Noise, Precision, moments, width

if TYPE_CHECKING:
    from golfsim.data.grouping import Grouping
    from golfsim.network.world import World

C = TypeVar("C", bound=LayerConfig)


class Rows(NamedTuple):
    """The records for kernels; node i has rows first[i] … stop[i]−1.

    With one slice per record, the label gives the sign for each model. With one slice per record and model (row
    record · models + model of x), the slices already contain the sign (`folded`).
    """

    x: Any  # [records · slices, features]: an array of float32, or `golfsim.protocol.symbols.Symbols`
    label: NDArray[Any]  # codes of classes as int32, or numbers as float32
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    folded: bool


@inlined
def sign_for(rows, record, model, models):
    """Return +1 if the record is on the positive side of the one-vs-all problem of this model, else −1."""
    if rows.folded:
        return np.float32(1)
    positive = rows.label[record] == (1 if models == 1 else model)
    return np.float32(1) if positive else np.float32(-1)


class Records(Protocol[C]):
    """A layer with records. `models` is 1 for two classes, else the number of classes."""

    @property
    def rows(self) -> Rows:
        """The records, for kernels."""
        raise NotImplementedError

    @property
    def classes(self) -> int:
        """The number of classes; 0 if the labels are numbers."""
        raise NotImplementedError

    @property
    def models(self) -> int:
        """The number of linear models that separate the classes; 1 if the labels are numbers."""
        return 1 if self.classes in (0, 2) else self.classes

    @property
    def items(self) -> int:
        """The number of items that are rated, if the labels are ratings."""
        return 0

    @property
    def features(self) -> int:
        """The number of features."""
        return int(self.rows.x.shape[1])

    def capacity(self) -> NDArray[np.int64]:
        """Return the number of records that each node will ever have."""
        raise NotImplementedError

    def precision(self) -> Precision:
        """Return what is known about the noise of the moments that `values` returns, if it returns any."""
        raise self.lacks("precision", "returns numbers by value_width() and values(), but not what noise they have")

    @property
    def copies(self) -> int:
        """The largest number of nodes that hold the same record."""
        return 1

    @property
    def caveat(self) -> str:
        """What was computed from the private records before, and is not accounted for."""
        return ""

    def guarantee_of(self, epsilon: float, unit: Unit, delta: float = 0.0) -> Guarantee:
        """Return the guarantee of a strategy that spends ε (at a δ) on each record (or node) of this layer."""
        if self.caveat:
            at = f" at δ = {delta:g}" if delta else ""
            return Guarantee(None, unit, f"ε = {epsilon:g}{at} per {unit} except for {self.caveat}")
        if unit == "record" and self.copies > 1:
            note = f"{epsilon:g} at each of up to {self.copies} nodes that hold it"
            # δ of a chain of changes: each further one multiplies by e^ε (Dwork & Roth 2014, theorem 2.2).
            grown = math.fsum(math.exp(min(k * epsilon, 700.0)) for k in range(self.copies)) * delta if delta else 0.0
            return Guarantee(epsilon * self.copies if grown < 1 else None, unit, note, delta=min(grown, 1.0))
        return Guarantee(epsilon, unit, delta=delta)


class Published(Records[C]):
    """Records that everyone may see and use."""

    def decoded(self, records: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return the best guess of the features and the label of each record from what was published of it."""
        raise NotImplementedError


def ranges(start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all numbers of the ranges start … stop−1, one after the other."""
    size = stop - start
    return np.asarray(np.arange(int(size.sum())) + np.repeat(start - (np.cumsum(size) - size), size), np.int64)


def fingerprint(rows: Rows) -> NDArray[np.int64]:
    """Return numbers that change when records are added or removed, or when labels change."""
    labels = rows.label * np.arange(1, rows.label.size + 1, dtype=np.int64)
    return np.array([rows.first.sum(), rows.stop.sum(), labels.sum()], np.int64)


def longest(records: Records[Any], norm: str) -> float:
    """Return the length of the longest record, and at least 1."""
    x = records.rows.x
    with np.errstate(over="ignore"):  # then it is infinite, and refused as such
        length = np.abs(x).sum(axis=1) if norm == "l1" else np.sqrt(np.square(x).sum(axis=1))
    return max(1.0, float(length.max(initial=0.0)))


def refuse_unfit(records: Records[Any], norm: str, layer: str, key: str = "norm", any_length: bool = False) -> None:
    """Refuse records that noise cannot protect.

    These are records that are already published, and records longer than 1, unless the strategy protects records of
    any length. `key` is the setting of the layer that states the length.
    """
    if isinstance(records, Published):
        raise UserError(
            f"“{records.name}” is already published: more noise does not protect it",
            key=f"{layer}.records",
            hint='protect "raw", or learn from the published records without noise',
            docs="privacy",
        )
    length = 0.0 if any_length else longest(records, norm)
    if length > 1 + ROUNDING / 2:
        raise UserError(
            f"the longest record has {norm.upper()} length {length:.6g}; the guarantee needs at most 1",
            key=f"{layer}.{key}",
            hint=f'add "{norm}" to scale in [data]',
            docs="privacy",
        )


class About(NamedTuple):
    """What is public about records: the names of features, their range after scaling, groups of values."""

    features: tuple[str, ...] = ()
    span: tuple[float, float] | None = None  # None: no range is known without the records
    grouping: Grouping | None = None
    items: int = 0  # of ratings


LARGEST = 2**60  # numbers of an array, also of one that takes no memory


class RawRecords(Records[LayerConfig]):
    """The nodes' own records, unprotected: a layer that learns from them is not private.

    With an arrival schedule a node starts with a part of its records and receives more; the oldest may be removed.
    """

    def __init__(
        self,
        x: NDArray[np.float32],
        label: NDArray[Any],
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
        """Return how messages refer to this layer."""
        return "raw"

    @classmethod
    def stand_in(cls) -> RawRecords:
        """Return a layer without records, to check a scenario before its data is loaded."""
        return cls(np.zeros((0, 1), np.float32), np.zeros(0, np.int32), np.zeros(0, np.int64), 2)

    @classmethod
    def outline(cls, records: int, features: int, classes: int, nodes: int, about: About | None = None) -> RawRecords:
        """Return a layer of records with this shape that takes no memory: all records are the same zeros."""
        records = min(records, LARGEST // max(features, 1))
        x = np.broadcast_to(np.zeros(features, np.float32), (records, features))
        counts = np.full(nodes, records // max(nodes, 1), np.int64)
        label = np.zeros(1, np.int32 if classes else np.float32)
        return cls(x, np.broadcast_to(label, records), counts, classes, about=about)

    def memory(self, world: World) -> int:
        """Return the bytes of the records, and of where those of each node begin and end."""
        return size_of((np.float32, *self._x.shape), (np.int32, self._label.size), (np.int64, 4, world.nodes))

    def changes(self, world: World) -> bool:
        """Return whether records arrive or labels change in this cycle."""
        flips = world.tampering.flips[self._flipped :]
        return self._arrival is not None or any(start <= world.cycle for start, _ in flips)

    def step(self, world: World) -> None:
        """Let records arrive and be removed, and let adversarial peers change their labels."""
        if self._arrival:
            self._arrive(self._arrival, world.cycle)
        for start, nodes in world.tampering.flips[self._flipped :]:
            if start <= world.cycle:
                self._flip(nodes)
                self._flipped += 1

    def capacity(self) -> NDArray[np.int64]:
        """Return the number of records that each node will ever have."""
        return self._counts

    def value_width(self, second: bool) -> int:
        """Return how many numbers the moments of a node have."""
        return width(self._classes, self._x.shape[1], second)

    def values(self, world: World, nodes: NDArray[np.int32], second: bool) -> NDArray[np.float64]:
        """Return the moments of the records of each node."""
        exact = Noise(np.ones(self._label.size), np.zeros(self._label.size))
        return moments(self.rows, nodes, self._classes, exact, second, world.threads)

    def precision(self) -> Precision:
        """Return that the moments are exact."""
        return Precision()

    def published_by(self, layer: Records[Any]) -> NDArray[np.bool_]:
        """Return which records a higher layer has published so far."""
        rows = layer.rows
        there = np.zeros(self._label.size + 1, np.int64)
        np.add.at(there, rows.first, 1)
        np.add.at(there, rows.stop, -1)
        return np.asarray(np.cumsum(there)[:-1] > 0)

    def class_counts(self) -> NDArray[np.int64]:
        """Return the number of records per node and class, including those that will arrive later.

        Records whose labels are numbers are all of one class.
        """
        if not self._classes:
            return self._counts[:, None]
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
        """Replace each label of these nodes by the next class: with two classes, by the other one."""
        if not self._classes:
            what = "the labels are numbers, which adversaries cannot replace by another class"
            raise UserError(what, key="adversary.kind", hint="choose another kind of adversary")
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
    def items(self) -> int:
        """The number of items that are rated, if the labels are ratings."""
        return self._about.items

    @property
    def copies(self) -> int:
        """The largest number of nodes that hold the same record."""
        return self._copies

    @property
    def caveat(self) -> str:
        """What was computed from the private records before, and is not accounted for."""
        return self._caveat

    @property
    def about(self) -> About:
        """What is public about the records."""
        return self._about
