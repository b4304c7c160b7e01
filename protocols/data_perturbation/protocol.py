"""Each node publishes a noisy version of its records once; other layers learn from it (Hegedűs & Jelasity 2017)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.kernels import kernel, leaf
from golfsim.core.memory import size_of
from golfsim.core.rng import draw
from golfsim.core.threads import over_ranges
from golfsim.privacy import shuffling
from golfsim.privacy.choice import NoiseConfig, or_target
from golfsim.privacy.ledger import BUDGET_METRICS, Ledger, UniformSchedule
from golfsim.privacy.mechanisms import Central, GammaNorm, Gaussian, Guarantee, Laplace, RandomResponse
from golfsim.privacy.noise import LAPLACE, add_noise, respond
from golfsim.protocol.base import Disclosure, Layer, LayerConfig
from golfsim.protocol.canaries import closer
from golfsim.protocol.moments import (
    Noise,
    Norm,
    Precision,
    coordinate_variance,
    indicator_variance,
    mean_of,
    moments,
    product_variance,
    width,
)
from golfsim.protocol.records import Published, RawRecords, Records, Rows, ranges, refuse_unfit, sign_for
from protocols.data_perturbation.sampled import Kind, Sampled, sampled

if TYPE_CHECKING:
    from golfsim.network.world import World

PER_RECORD = 62  # bytes: scale, variance, probability of a true label, visits, label, numbers while it is published
VISITED = 8  # bytes: visits, and numbers while symbols are published
ONCE = ("label+features", "as-coded")  # modes that publish one noisy x for all one-versus-all problems, and a label


@leaf
def perturb_record(key, record, part, kind, scale, out, row):
    """Add noise to one part of a record; the noise depends on the record only, so it is the same each time.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    record : int
        The record.
    part : int
        The part of the record, which selects the draws.
    kind : int
        The kind of noise: LAPLACE, GAMMA_NORM or GAUSSIAN.
    scale : float
        The scale of the noise; 0: no noise.
    out : array of float32, shape (rows, features)
        The vectors; changed in place.
    row : int
        The row of `out`.
    """
    if scale > 0:
        draws = 1 if kind == LAPLACE else 3
        add_noise(kind, key, 0, record, part * draws * out.shape[1], scale, out, row)


@kernel
def publish_per_class(records, lo, hi, rows, models, kind, scale, key, z):
    """Publish z[m] = s_m·x + noise, separately for each one-versus-all problem m.

    Parameters
    ----------
    records : array of int64
        The records to publish.
    lo, hi : int
        The range of `records`.
    rows : Rows
        The true records.
    models : int
        The number of one-versus-all problems.
    kind : int
        The kind of noise: LAPLACE, GAMMA_NORM or GAUSSIAN.
    scale : array of float64, shape (records,)
        The scale of the noise of each record.
    key : uint64
        The key of the draws.
    z : array of float32, shape (records · models, features)
        The published vectors; filled here.
    """
    for place in range(lo, hi):
        record = records[place]
        for m in range(models):
            sign = sign_for(rows, record, m, models)
            row = record * models + m
            for f in range(z.shape[1]):
                z[row, f] = sign * rows.x[record, f]
            perturb_record(key, record, m, kind, scale[record], z, row)


@kernel
def publish_joint(records, lo, hi, rows, models, kind, scale, key, z):
    """Publish e_y ⊗ x + noise once; the vector of class m is its block minus all other blocks.

    Parameters
    ----------
    records : array of int64
        The records to publish.
    lo, hi : int
        The range of `records`.
    rows : Rows
        The true records.
    models : int
        The number of classes.
    kind : int
        The kind of noise: LAPLACE, GAMMA_NORM or GAUSSIAN.
    scale : array of float64, shape (records,)
        The scale of the noise of each record.
    key : uint64
        The key of the draws.
    z : array of float32, shape (records · models, features)
        The vectors of each record and class; filled here.
    """
    blocks = np.empty((models, z.shape[1]), np.float32)
    total = np.empty(z.shape[1], np.float32)
    for place in range(lo, hi):
        record = records[place]
        total[:] = 0
        for m in range(models):
            inside = rows.label[record] == m
            for f in range(z.shape[1]):
                blocks[m, f] = rows.x[record, f] if inside else np.float32(0)
            perturb_record(key, record, m, kind, scale[record], blocks, m)
            for f in range(z.shape[1]):
                total[f] += blocks[m, f]
        for m in range(models):
            for f in range(z.shape[1]):
                z[record * models + m, f] = 2 * blocks[m, f] - total[f]


@kernel
def publish_label_and_features(records, lo, hi, rows, classes, kind, scale, truth, key, z, label):
    """Publish the label by random response, and x + noise once for all one-versus-all problems.

    Parameters
    ----------
    records : array of int64
        The records to publish.
    lo, hi : int
        The range of `records`.
    rows : Rows
        The true records.
    classes : int
        The number of classes.
    kind : int
        The kind of noise: LAPLACE, GAMMA_NORM or GAUSSIAN.
    scale : array of float64, shape (records,)
        The scale of the noise of each record.
    truth : array of float64, shape (records,)
        The probability that the label of each record is published unchanged.
    key : uint64
        The key of the draws.
    z : array of float32, shape (records, features)
        The published features; filled here.
    label : array of int32, shape (records,)
        The published labels; filled here.
    """
    for place in range(lo, hi):
        record = records[place]
        for f in range(z.shape[1]):
            z[record, f] = rows.x[record, f]
        perturb_record(key, record, 0, kind, scale[record], z, record)
        first, second = draw(key, 1, record, 0), draw(key, 1, record, 1)
        label[record] = respond(first, second, rows.label[record], classes, truth[record])


class DataPerturbationConfig(LayerConfig, NoiseConfig):
    """The settings of data perturbation."""

    records: Layer[Records[Any]] = Field("raw", validate_default=True, description="the records to publish")
    epsilon: float = Field(
        ge=1e-6,
        allow_inf_nan=True,
        description="the budget ε of each record (or node); inf: no noise; “target”: the one for the target of "
        "`[privacy]`",
        json_schema_extra=or_target,
    )
    mode: Literal["per-class", "joint", "label+features", "as-coded", "sampled"] = Field(
        "per-class",
        description="“per-class”: yx for each of c one-versus-all problems, each with ε/c (as published); “joint”: "
        "e_y ⊗ x once with the complete ε; “label+features”: the label by random response, and x once; “as-coded”: x "
        "once with the complete ε and the true label, as in the program of the authors: the label is not private; "
        "“sampled”: coordinates that are drawn from x, each with the label, as symbols through a private channel",
    )
    samples: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto",
        description="sampled: how many coordinates of each record are published, each with ε/samples; “auto”: the "
        "number with the least mean square error by formula, at most 256",
    )
    channel: Kind = Field(
        "auto",
        description="sampled: how a symbol is published: by k-ary random response (“response”), as a string of "
        "perturbed bits (“unary”), or as a subset of all symbols (“subset”); “auto”: the one of least variance",
    )
    shuffle_delta: float | None = Field(
        None,
        ge=1e-10,
        lt=1,
        description="sampled: the reports of all records arrive in random order and without their senders; epsilon is "
        "then the central ε at this δ, and each report has the largest local ε for which it holds",
    )
    label_epsilon: float | None = Field(
        None,
        gt=0,
        description="label+features: the ε of the label; default: the ε of 99 % true labels, at most a quarter of ε",
    )
    norm: Literal["l1", "l2"] = Field(
        "l1", description="“l1”: Laplace noise, for records of L1 length ≤ 1; “l2”: Gamma-norm noise, for L2 length ≤ 1"
    )
    unit: Literal["record", "node"] = Field(
        "record", description="what ε protects: one record, or all records of a node"
    )

    @model_validator(mode="after")
    def _parts(self) -> DataPerturbationConfig:
        if self.label_epsilon is not None and not (self.mode == "label+features" and self.label_epsilon < self.epsilon):
            raise ValueError('label_epsilon requires mode = "label+features" and must be below epsilon')
        if self.mode != "sampled" and (self.samples != "auto" or self.channel != "auto"):
            raise ValueError('samples and channel require mode = "sampled"')
        if self.shuffle_delta is not None and (self.mode != "sampled" or self.unit != "record"):
            raise ValueError('shuffle_delta requires mode = "sampled" and unit = "record"')
        if self.mode == "sampled" and self.norm != "l1":
            raise ValueError('mode = "sampled" requires norm = "l1": a record of L1 length 1 is a distribution')
        if self.gaussian and self.mode == "as-coded":
            raise ValueError('noise: “gaussian” is not possible with mode = "as-coded"')
        return self

    def epsilon_of_label(self, classes: int) -> float:
        """Return the part of a record's ε that is spent on its label; infinite if the label is published as it is."""
        if self.mode == "as-coded":
            return math.inf
        if self.mode != "label+features":
            return 0.0
        if self.label_epsilon is not None or math.isinf(self.epsilon):
            return self.label_epsilon or self.epsilon
        return min(self.epsilon / 4, math.log(99 * (classes - 1)))


class DataPerturbation(Published[DataPerturbationConfig]):
    """Each node publishes noisy copies of its records, once, when it first comes online or when a record arrives."""

    Config = DataPerturbationConfig
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = BUDGET_METRICS

    def setup(self, world: World) -> None:
        """Allocate the published records: none yet."""
        config = self.config
        rows = config.records.rows
        refuse_unfit(config.records, config.norm, self.name)
        self._classes, self._folded = config.records.classes, config.mode not in ONCE
        slices = self.models if self._folded else 1
        self._sampling = config.mode == "sampled"
        records = 0 if self._sampling else rows.label.size
        self.z = np.zeros((records * slices, rows.x.shape[1]), np.float32)
        if self._sampling:
            self.sampled = self._sampler()
            self.sampled.allocate(self.key("noise"))
        self.label = np.zeros(0 if self._folded else rows.label.size, np.int32)
        self.first, self.stop = rows.first.copy(), rows.first.copy()
        spent = math.inf if config.mode == "as-coded" else self._local_epsilon()
        if config.shuffle_delta is not None:
            self.together = 0  # records that were published in the first cycle in which any was
        label = config.epsilon_of_label(self._classes)
        once = UniformSchedule(kind="uniform", visits=1)
        self.ledger = Ledger(once, spent, rows.label.size, config.delta or 0.0, label)
        self._noise_key = self.key("noise")
        if not self._sampling:
            self._plan(rows)

    def memory(self, world: World) -> int:
        """Return the bytes of the published records, and of noise scales, labels and ledger per record."""
        slices = self.models if self.config.mode not in ONCE else 1
        records, features = int(self.config.records.capacity().sum()), self.config.records.features
        if self.config.mode == "sampled":
            return self._sampler().memory() + size_of((VISITED, records), (np.int64, 2, world.nodes))
        return size_of((np.float32, records * slices, features), (PER_RECORD, records), (np.int64, 2, world.nodes))

    def _local_epsilon(self) -> float:
        """Return the ε of a published record; if a shuffler is trusted, it is larger than the central ε."""
        config = self.config
        if config.shuffle_delta is None:
            return config.epsilon
        return shuffling.local_of(int(config.records.capacity().sum()), config.epsilon, config.shuffle_delta)

    def _sampler(self) -> Sampled:
        """Return the storage of symbols, with the channel and the number of samples; neither depends on records."""
        config, records = self.config, self.config.records
        span = records.about.span if isinstance(records, RawRecords) else None
        return sampled(
            epsilon=self._local_epsilon(),
            shares=self._shares(),
            features=records.features,
            classes=records.classes,
            signed=span is None or span[0] < 0,
            kind=config.channel,
            samples=config.samples,
        )

    def _plan(self, rows: Rows) -> None:
        """Compute the scale of the noise and the probability of a true label, for each record."""
        config = self.config
        share = self._shares()
        label_epsilon = config.epsilon_of_label(self._classes)
        rest = config.epsilon if math.isinf(label_epsilon) else config.epsilon - label_epsilon
        self._scale = self._scale_for(rest, self.models if config.mode == "per-class" else 1, share)
        shares, which = np.unique(share, return_inverse=True)
        self._truth = np.array([RandomResponse(epsilon=label_epsilon * s, values=self._classes).p for s in shares])[
            which
        ]
        self._noise = Noise(self._truth, self._factors()[0] * self._variance())

    def _scale_for(self, epsilon: float, parts: int, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scale of the noise of each record, whose parts share ε; Gaussian noise shares the square of μ."""
        if self.config.gaussian:
            assert self.config.delta is not None
            one = Gaussian(epsilon=epsilon, delta=self.config.delta, sensitivity=2.0)
            return np.asarray(one.scale * math.sqrt(parts) / np.sqrt(share))
        kind: type[Laplace | GammaNorm] = Laplace if self.config.norm == "l1" else GammaNorm
        return np.asarray(kind(epsilon=epsilon / parts, sensitivity=2.0).scale / share)

    @property
    def _norm(self) -> Norm:
        """How the noise is distributed, for variances."""
        return "gaussian" if self.config.gaussian else self.config.norm

    def _variance(self) -> NDArray[np.float64]:
        """Return the variance of each coordinate of the noise of each record."""
        return coordinate_variance(self._norm, self._scale, self.config.records.features)

    def _factors(self) -> tuple[float, float]:
        """Return the variance of an estimated feature and of a coordinate of a block, as multiples of that variance.

        For more than two classes both are linear functions of the noise of all vectors.
        """
        if not self._folded or self.models == 1:
            return 1.0, 1.0
        if self.config.mode == "joint":
            return float(self.models), 1.0
        feature = self.models / (self.models - 2) ** 2
        return feature, (1 - 2 / (self.models - 2) + feature) / 4

    def value_width(self, second: bool) -> int:
        """Return how many numbers the estimated moments of a node have; one sample shows no second moments."""
        if second and self.config.mode == "sampled" and self._sampler().samples < 2:
            return 0
        return width(self.classes, self.features, second)

    def values(self, world: World, nodes: NDArray[np.int32], second: bool) -> NDArray[np.float64]:
        """Return the moments of the records of each node, estimated from what is published."""
        if self._sampling:
            return self.sampled.values(world.threads, nodes, self.first, self.stop, second, self.name)
        return moments(self.rows, nodes, self.classes, self._noise, second, world.threads)

    def precision(self) -> Precision:
        """Return how noisy the moments are; the sum of a block of L1 length 1 shows the class of a record."""
        if self._sampling:
            return self.sampled.precision()
        norm, variance = self._norm, self._noise.variance
        spread = math.sqrt(mean_of(product_variance(norm, variance, self.features, self.models if self._folded else 1)))
        if self._folded:
            indicator = self._factors()[1] * self.features * self._variance()
        else:
            indicator = indicator_variance(self._truth, self.classes)
        counted = not self._folded or (norm == "l1" and self.models > 1)
        return Precision(counted, math.sqrt(mean_of(indicator)), spread, mean_of(variance))

    def _shares(self) -> NDArray[np.float64]:
        """Return the share of ε of each record."""
        if self.config.unit == "node":
            return 1 / self._records_of_owner()
        return np.ones(int(self.config.records.capacity().sum()))

    def _records_of_owner(self) -> NDArray[np.float64]:
        counts = np.maximum(self.config.records.capacity(), 1)
        return np.repeat(counts, self.config.records.capacity()).astype(float)

    def step(self, world: World) -> None:
        """Publish the records of online nodes that have not been published yet."""
        rows = self.config.records.rows
        nodes = world.order
        behind = nodes[self.stop[nodes] < rows.stop[nodes]]
        if behind.size:
            records = ranges(np.maximum(self.stop[behind], rows.first[behind]), rows.stop[behind])
            records = records[self.ledger.charge(records)]
            if self.config.shuffle_delta is not None and not self.together:
                self.together = records.size
            self._publish(world, records, rows)
            self.stop[behind] = rows.stop[behind]
        np.minimum(rows.first, self.stop, out=self.first)

    def _publish(self, world: World, records: NDArray[np.int64], rows: Rows) -> None:
        if self._sampling:
            self.sampled.publish(world.threads, records, rows)
            return
        kind = self.config.noise_kind
        publish = publish_joint if self._joint else publish_per_class

        def run(lo: int, hi: int) -> None:
            if self._folded:
                publish(records, lo, hi, rows, self.models, kind, self._scale, self._noise_key, self.z)
            else:
                publish_label_and_features(
                    records,
                    lo,
                    hi,
                    rows,
                    self._classes,
                    kind,
                    self._scale,
                    self._truth,
                    self._noise_key,
                    self.z,
                    self.label,
                )

        over_ranges(world.threads, run, 0, records.size)

    @property
    def rows(self) -> Rows:
        """The records that are published so far."""
        label = self.config.records.rows.label[:0] if self._folded else self.label
        return Rows(self.sampled.x if self._sampling else self.z, label, self.first, self.stop, self._folded)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.config.records.classes

    def decoded(self, records: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return features and labels computed from the published vectors.

        Features are not negative, so the block with the largest sum determines the class, and with it the sign of each
        block.
        """
        if self._sampling:
            return self.sampled.decoded(records)
        if not self._folded:
            return self.z[records], self.label[records]
        z = self.z.reshape(-1, self.models, self.z.shape[1])[records]
        sums = z.sum(axis=2)
        if self.models == 1:
            label = (sums[:, 0] >= 0).astype(np.int32)
            return z[:, 0] * (2 * label - 1)[:, None].astype(np.float32), label
        label = np.asarray(sums.argmax(axis=1), np.int32)
        return (2 * z[np.arange(len(z)), label] - z.sum(axis=1)) / np.float32(self.models), label

    def misfit(self, records: NDArray[Any], x: NDArray[np.float64], label: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return how improbable the published numbers are, given these features and labels.

        It is the length of the noise in the norm of its density, of all parts together. In the mode “sampled” it is the
        distance to the decoded features.
        """
        if self._sampling:
            return super().misfit(records, x, label)
        if not self._folded:
            noise = (self.z[records] - x)[:, None]
        else:
            z = self.z.reshape(-1, self.models, self.z.shape[1])[records].astype(np.float64)
            own = label[:, None] == (1 if self.models == 1 else np.arange(self.models))
            if self.config.mode == "joint" and self.models > 1:
                z = (z + z.sum(axis=1, keepdims=True) / (2 - self.models)) / 2
                noise = z - np.where(own[:, :, None], x[:, None], 0.0)
            else:
                noise = z - np.where(own, 1.0, -1.0)[:, :, None] * x[:, None]
        if self.config.gaussian:
            return np.asarray((noise * noise).sum(axis=(1, 2)))
        if self.config.norm == "l1":
            return np.asarray(np.abs(noise).sum(axis=(1, 2)))
        return np.asarray(np.sqrt((noise * noise).sum(axis=2)).sum(axis=1))

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return how many records of each node are published; all other arrays are per record, or copies."""
        return {"stop": self.stop}

    @property
    def features(self) -> int:
        """The number of features: that of the records."""
        return self.config.records.features

    def capacity(self) -> NDArray[np.int64]:
        """Return the number of records that each node will have at the end."""
        return self.config.records.capacity()

    def released(self) -> NDArray[np.float64]:
        """Return what was published; in joint mode the blocks before they are combined, and symbols as bits."""
        if self._sampling:
            return self.sampled.released()
        return np.concatenate([self._apart(self.z.astype(np.float64)).ravel(), self.label])

    def evidence(self) -> NDArray[np.float64] | None:
        """Return how much closer what is published of each canary is to its first content; symbols as bits."""
        canaries = self._canaries
        if canaries is None:
            return None
        records = canaries.records
        if self._sampling:
            return canaries.mean(self.sampled.counts(records))
        clean = [self._without_noise(side, records) for side in canaries.candidates(self.config.records.rows)]
        vectors = [self._apart(z)[records].astype(np.float64) for z in (self.z, clean[0][0], clean[1][0])]
        numbers = [closer(vectors[0], vectors[1], vectors[2], self.config.noise_kind)]
        if not self._folded:
            label = self.label[records]
            numbers.append((label == clean[0][1][records]) * 1.0 - (label == clean[1][1][records]))
        return canaries.mean(np.stack(numbers, axis=1))

    def _without_noise(
        self, rows: Rows, records: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:  # fmt: skip
        """Return what would be published of some records without noise."""
        kind, key, z, label = self.config.noise_kind, self._noise_key, np.zeros_like(self.z), np.zeros_like(self.label)
        none, sure = np.zeros(rows.label.size), np.ones(rows.label.size)
        if self._folded:
            publish = publish_joint if self._joint else publish_per_class
            publish(records, 0, records.size, rows, self.models, kind, none, key, z)
        else:
            publish_label_and_features(
                records, 0, records.size, rows, self._classes, kind, none, sure, key, z, label
            )  # fmt: skip
        return z, label

    @property
    def _joint(self) -> bool:
        return self.config.mode == "joint" and self.models > 1

    def _apart(self, z: NDArray[Any]) -> NDArray[Any]:
        """Return the vectors of each record, [records, vectors, features], which have independent noise."""
        z = z.reshape(-1, self.models if self._folded else 1, z.shape[1])
        return (z + z.sum(axis=1, keepdims=True) / (2 - self.models)) / 2 if self._joint else z

    def guarantee(self) -> Guarantee:
        """Return ε per record or node: everything is published once. As coded, ε covers the features only."""
        config = self.config
        label = config.epsilon_of_label(config.records.classes)
        proven = config.records.guarantee_of(self._local_epsilon(), config.unit, config.delta or 0.0, label)
        if self.config.mode != "as-coded" or math.isinf(self.config.epsilon):
            return proven
        features = proven.note if proven.epsilon is None else f"ε = {proven.epsilon:g} per {proven.unit}"
        return Guarantee(None, proven.unit, f"label not private; for the features only: {features}")

    def central(self) -> Central | None:
        """Return the central ε of the records that were published together, if a shuffler is trusted."""
        delta, local = self.config.shuffle_delta, self._local_epsilon()
        records = self.config.records
        if delta is None or not self.together or records.caveat or records.copies > 1 or math.isinf(local):
            return None
        note = f"if the reports of {self.together} records, published together, arrive shuffled and without senders"
        return Central(shuffling.numerical(self.together, local, delta), delta, note=note)

    def disclosure(self) -> Disclosure:
        """Return that noisy records are released."""
        if self.config.mode == "sampled":
            trusted = "nobody" if self.config.shuffle_delta is None else "the shuffler"
            return Disclosure("sampled coordinates with noise", trusted)
        labels = ", labels without noise" if self.config.mode == "as-coded" else ""
        return Disclosure(f"records with noise{labels}", "nobody")

    def observe(self, world: World) -> dict[str, float]:
        """Return the spent budget."""
        return self.ledger.metrics()
