"""Place records on nodes: how many records each node holds, which ones, and when they arrive.

Every placement is exact: each record is at exactly one node, unless the scenario allows to repeat it or leave it out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.errors import UserError, nearest
from golfsim.core.kernels import kernel
from golfsim.core.maths import exp_of, log_of, power_of
from golfsim.core.rng import draw, unit
from golfsim.core.settings import Settings
from golfsim.core.words import counted

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def fill(key, sizes, weights, stock_start, stock_stop, by_class, out):
    """Give each node its number of records, drawn by its class weights from the classes that have records left.

    A node whose classes are all exhausted takes records from the class with most records left.

    Parameters
    ----------
    key : uint64
        The key of the random numbers.
    sizes : array of int64, shape (nodes,)
        The number of records per node.
    weights : array of float64, shape (nodes, classes)
        The weight of each class per node.
    stock_start, stock_stop : arrays of int64, shape (classes,)
        The unused records of class c are by_class[stock_start[c]:stock_stop[c]]. `stock_start` is changed in place.
    by_class : array of int64, shape (records,)
        The records sorted by class, in random order within a class.
    out : array of int64, shape (sum of sizes,)
        The output: the records of all nodes, in the order of the nodes.
    """
    place = 0
    for node in range(sizes.size):
        for k in range(sizes[node]):
            total = 0.0
            for c in range(stock_start.size):
                if stock_start[c] < stock_stop[c]:
                    total += weights[node, c]
            chosen, largest = -1, 0
            left = unit(draw(key, 0, node, k)) * total
            for c in range(stock_start.size):
                stock = stock_stop[c] - stock_start[c]
                if total > 0 and stock > 0 and weights[node, c] > 0:
                    chosen = c
                    left -= weights[node, c]
                    if left < 0:
                        break
                elif total == 0 and stock > largest:
                    chosen, largest = c, stock
            out[place] = by_class[stock_start[chosen]]
            stock_start[chosen] += 1
            place += 1


class UniformSizes(Settings):
    """Uniformly distributed sizes between two bounds."""

    kind: Literal["uniform"]
    min: int = Field(ge=0, description="the smallest size, relative to `max`")
    max: int = Field(ge=1, description="the largest size, relative to `min`")

    @model_validator(mode="after")
    def _bounds(self) -> UniformSizes:
        if self.min > self.max:
            raise ValueError(f"min: expected at most {self.max}, the value of “max”; got {self.min}")
        return self

    def shares(self, u: Floats) -> Floats:
        """Return the sizes, up to a common factor, for uniform random numbers u."""
        return np.floor(self.min + u * (self.max - self.min + 1))


class LognormalSizes(Settings):
    """Log-normally distributed sizes."""

    kind: Literal["lognormal"]
    sigma: float = Field(ge=0, le=20, description="standard deviation of the logarithm of the size")

    def shares(self, u: Floats) -> Floats:
        """Return the sizes, up to a common factor, for uniform random numbers u."""
        from scipy.special import ndtri

        return exp_of(self.sigma * np.asarray(ndtri(u)))


class ZipfSizes(Settings):
    """Zipf-distributed sizes: the r-th largest node has 1/r^exponent times as many records as the largest."""

    kind: Literal["zipf"]
    exponent: float = Field(ge=0, le=20, description="the exponent; 0: all sizes are equal, 1: Zipf's law")

    def shares(self, u: Floats) -> Floats:
        """Return the sizes, up to a common factor; nodes are ranked in the order of u."""
        rank = np.argsort(np.argsort(u, kind="stable"), kind="stable") + 1
        return np.asarray(1.0 / power_of(rank, self.exponent), np.float64)


Sizes = Annotated[UniformSizes | LognormalSizes | ZipfSizes, Field(discriminator="kind")]


class IidSplit(Settings):
    """Records are assigned to nodes at random."""

    kind: Literal["iid"]


class LabelSkewSplit(Settings):
    """Each node has its own class shares, from a Dirichlet distribution around those of the data (Hsu et al. 2019)."""

    kind: Literal["label-skew"]
    alpha: float = Field(
        gt=0,
        allow_inf_nan=True,
        description="concentration of the Dirichlet distribution; small: nodes have few classes, large or inf: all "
        "nodes have the class shares of the data",
    )


class ClassesPerNodeSplit(Settings):
    """Each node has records of a few classes only; classes are distributed evenly over nodes."""

    kind: Literal["classes-per-node"]
    classes: int = Field(ge=1, description="number of classes per node")


class FeatureSkewSplit(Settings):
    """Records are assigned to nodes at random; each group of nodes has shifted or rotated features."""

    kind: Literal["feature-skew"]
    groups: int = Field(ge=1, description="number of groups of nodes, of equal size")
    shift: float = Field(
        0.0, ge=0, description="length of the random vector, one per group, that is added to the features"
    )
    rotation: float = Field(
        0.0,
        ge=0,
        le=360,
        description="angle in degrees; the features of group g are rotated by g times this angle, in random planes",
    )


class BySplit(Settings):
    """Records with the same value of a column stay together: each value has its own node or group of nodes."""

    kind: Literal["by"]
    column: str = Field(description="a column of the data, e.g. “occupation” of adult")


class Population(Settings):
    """A group of nodes with its own class shares and its own share of the records."""

    nodes: float = Field(gt=0, le=1, description="share of the nodes in this group")
    records: float | None = Field(
        None, ge=0, le=1, description="share of the records in this group; default: in proportion to the nodes"
    )
    classes: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {}, description="weights of the classes by name, e.g. { spam = 9, mail = 1 }; default: those of the data"
    )


class GroupsSplit(Settings):
    """A few populations, each with its own distribution."""

    kind: Literal["groups"]
    groups: tuple[Population, ...] = Field(min_length=1, description="the populations")

    @model_validator(mode="after")
    def _shares(self) -> GroupsSplit:
        if abs(sum(group.nodes for group in self.groups) - 1) > 1e-9:
            raise ValueError("the shares of the nodes must add up to 1 over all groups")
        given = [group.records for group in self.groups]
        if any(share is not None for share in given):
            if any(share is None for share in given):
                raise ValueError("state the share of the records for all groups, or for none")
            if abs(sum(share or 0 for share in given) - 1) > 1e-9:
                raise ValueError("the shares of the records must add up to 1 over all groups")
        return self


SplitConfig = Annotated[
    IidSplit | LabelSkewSplit | ClassesPerNodeSplit | FeatureSkewSplit | BySplit | GroupsSplit,
    Field(discriminator="kind"),
]


class ArrivalConfig(Settings):
    """Records that arrive over time."""

    start: float = Field(ge=0, le=1, description="the share of its records that a node has at the start")
    rate: float = Field(ge=0, description="mean number of records that arrive per node and cycle")
    keep: int | None = Field(
        None, ge=1, description="maximal number of records per node; the oldest records beyond it are retired"
    )


class NodesConfig(Settings):
    """`[nodes]`: number of nodes, and which node has which records."""

    number: int | None = Field(
        None, ge=1, lt=2**31, description="number of nodes; default: as many as there are records for"
    )
    records: Annotated[int, Field(ge=0)] | Sizes = Field(
        1, description="number of training records per node, or a distribution of sizes that uses all records"
    )
    split: SplitConfig = Field(IidSplit(kind="iid"), description="how records are distributed over nodes")
    arrival: ArrivalConfig | None = Field(
        None, description="let records arrive over time; default: all records are present at the start"
    )
    repeat: bool = Field(False, description="use records more than once if there are fewer records than the nodes need")
    leave_out: bool = Field(False, description="leave records out if there are more records than the nodes need")


@dataclass(frozen=True)
class Placement:
    """The records of all nodes, concatenated in the user's numbering; the number of records and the group per node."""

    rows: Ints
    counts: Ints
    group: Ints

    def renumbered(self, label: NDArray[np.int32]) -> Placement:
        """Return the same placement in the world's numbering, where node i is the user's node label[i]."""
        start = np.cumsum(self.counts) - self.counts
        counts = self.counts[label]
        within = np.arange(self.rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return Placement(self.rows[np.repeat(start[label], counts) + within], counts, self.group[label])


def place(
    config: NodesConfig,
    y: NDArray[Any],
    classes: tuple[str, ...],
    columns: Mapping[str, NDArray[Any]],
    seed: int,
) -> Placement:
    """Distribute records with labels y over nodes."""
    return _Placer(config, y, classes, columns, seed).placement()


class _Placer:
    def __init__(
        self,
        config: NodesConfig,
        y: NDArray[Any],
        classes: tuple[str, ...],
        columns: Mapping[str, NDArray[Any]],
        seed: int,
    ) -> None:
        self.config = config
        self.y = y
        self.classes = classes
        self.columns = columns
        self.seed = seed
        self.shuffled = rng.permutation(self.key("records"), 0, y.size).astype(np.int64)

    def key(self, purpose: str) -> np.uint64:
        return rng.key(self.seed, "nodes", purpose)

    def placement(self) -> Placement:
        split = self.config.split
        if not self.classes and isinstance(split, LabelSkewSplit | ClassesPerNodeSplit | GroupsSplit):
            what = f"the labels are numbers, so records cannot be placed by classes (“{split.kind}”)"
            raise UserError(what, key="nodes.split", hint="use “iid”, “feature-skew” or “by”")
        if isinstance(split, ClassesPerNodeSplit):
            return self._by_classes(split.classes)
        if isinstance(split, BySplit):
            return self._by_column(split.column)
        sizes = self._sizes()
        if isinstance(split, LabelSkewSplit):
            weights = self._dirichlet(split.alpha, sizes.size)
            return Placement(self._filled(sizes, weights), sizes, np.zeros(sizes.size, np.int64))
        if isinstance(split, GroupsSplit):
            return self._populations(split, sizes)
        groups = split.groups if isinstance(split, FeatureSkewSplit) else 1
        group = np.arange(sizes.size) * groups // sizes.size
        return Placement(np.resize(self.shuffled, sizes.sum()), sizes, group)

    def _sizes(self) -> Ints:
        """Return the number of records per node."""
        records, number = self.config.records, self.config.number
        if isinstance(records, int):
            return self._equal(records)
        if number is None:
            raise UserError("missing: a distribution of sizes needs the number of nodes", key="nodes.number")
        u = rng.uniform(self.key("sizes"), np.arange(number, dtype=np.int32))
        return apportion(self.y.size, records.shares(u))

    def _equal(self, each: int) -> Ints:
        config, records = self.config, self.y.size
        nodes = config.number if config.number is not None else records // max(each, 1)
        wanted = nodes * each
        if nodes == 0:
            what = f"{counted(records, 'record')} cannot fill one node of {counted(each, 'record')}"
            raise UserError(what, key="nodes.records")
        if wanted < records and not config.leave_out:
            raise UserError(
                f"{counted(nodes, 'node')} of {counted(each, 'record')} hold only {wanted} of the {records} records",
                key="nodes.number" if config.number is not None else "nodes.records",
                hint="set leave_out = true in [nodes] to leave out the other records, or change the numbers",
            )
        if wanted > records and not config.repeat:
            raise UserError(
                f"{counted(nodes, 'node')} of {counted(each, 'record')} need {wanted} records; the data has {records}",
                key="nodes.number",
                hint="set repeat = true in [nodes] to use records more than once, or change the numbers",
            )
        if wanted > records and not isinstance(config.split, IidSplit | FeatureSkewSplit):
            raise UserError(f"a {config.split.kind} split cannot repeat records", key="nodes.repeat")
        return np.full(nodes, each, np.int64)

    def _filled(self, sizes: Ints, weights: Floats) -> Ints:
        by_class = self.shuffled[np.argsort(self.y[self.shuffled], kind="stable")]
        counts = np.bincount(self.y, minlength=len(self.classes))
        stop = np.cumsum(counts)
        # Nodes draw in random order, so that no node is systematically among the last, which get the remaining classes.
        turn = rng.permutation(self.key("turns"), 0, sizes.size)
        out = np.empty(sizes.sum(), np.int64)
        fill(self.key("fill"), sizes[turn], weights[turn], stop - counts, stop, by_class, out)
        filled = Placement(out, sizes[turn], turn.astype(np.int64))
        back = np.empty(sizes.size, np.int32)
        back[turn] = np.arange(sizes.size)
        return filled.renumbered(back).rows

    def _dirichlet(self, alpha: float, nodes: int) -> Floats:
        """Return the class shares of each node, computed by logarithms to avoid underflow for small α."""
        from scipy.special import gammaincinv

        prior = np.bincount(self.y, minlength=len(self.classes)) / self.y.size
        if np.isinf(alpha):
            return np.tile(prior, (nodes, 1))
        everyone = np.arange(nodes, dtype=np.int32)
        logs = np.full((nodes, prior.size), -np.inf)
        for c in np.flatnonzero(prior):
            shape = alpha * prior[c]
            gamma = np.asarray(gammaincinv(shape + 1, rng.uniform(self.key("dirichlet"), everyone, int(c), 0)))
            logs[:, c] = log_of(gamma) + log_of(rng.uniform(self.key("dirichlet"), everyone, int(c), 1)) / shape
        weights = exp_of(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _populations(self, split: GroupsSplit, sizes: Ints) -> Placement:
        group = np.repeat(
            np.arange(len(split.groups)), apportion(sizes.size, np.array([g.nodes for g in split.groups]))
        )
        if split.groups[0].records is not None:
            shares = np.array([g.records for g in split.groups])
            sizes = apportion(int(sizes.sum()), shares[group] / np.bincount(group)[group])
        prior = np.bincount(self.y, minlength=len(self.classes)).astype(float)
        weights = np.array([self._weights(g, prior) for g in split.groups])
        return Placement(self._filled(sizes, weights[group]), sizes, group)

    def _weights(self, population: Population, prior: Floats) -> Floats:
        for name in population.classes:
            if name not in self.classes:
                hint = nearest(name, list(self.classes))
                raise UserError(f"there is no class “{name}”", key="nodes.split.groups", hint=hint)
        if not population.classes:
            return prior
        return np.array([population.classes.get(name, 0.0) for name in self.classes])

    def _by_classes(self, each: int) -> Placement:
        """Assign classes to nodes in turn, then distribute the records of each class evenly over its nodes."""
        number, c = self.config.number, len(self.classes)
        if number is None or not isinstance(self.config.records, int):
            what = "classes-per-node needs the number of nodes; the number of records per node follows from it"
            raise UserError(what, key="nodes.number")
        if each > c:
            raise UserError(f"the data has only {c} classes", key="nodes.split.classes")
        if number * each < c:
            what = f"{counted(number, 'node')} with {each} of the {c} classes each cannot hold all classes"
            raise UserError(what, key="nodes.number")
        deal = np.concatenate(
            [rng.permutation(self.key("classes"), turn, c) for turn in range(-(-number * each // c))]
        )[: number * each]
        holders = _without_repetition(deal.reshape(number, each))
        parts: list[list[Ints]] = [[] for _ in range(number)]
        for label in range(c):
            mine = self.shuffled[self.y[self.shuffled] == label]
            nodes = np.flatnonzero((holders == label).any(axis=1))
            for node, part in zip(nodes, np.array_split(mine, max(nodes.size, 1)), strict=True):
                parts[node].append(part)
        counts = np.array([sum(part.size for part in own) for own in parts])
        rows = np.concatenate([part for own in parts for part in own])
        return Placement(rows, counts, np.zeros(number, np.int64))

    def _by_column(self, column: str) -> Placement:
        """Assign nodes to the values of a column in proportion to their numbers of records, at least one each."""
        if column not in self.columns:
            known = nearest(column, list(self.columns)) or ("" if self.columns else "it has no columns to split by")
            raise UserError(f"the data has no column “{column}”", key="nodes.split.column", hint=known)
        values, group_of = np.unique(self.columns[column], return_inverse=True)
        totals = np.bincount(group_of)
        number = self.config.number if self.config.number is not None else values.size
        if number < values.size:
            what = f"“{column}” has {values.size} values, more than the number of nodes, {number}"
            raise UserError(what, key="nodes.number")
        nodes = 1 + apportion(number - values.size, np.maximum(totals - totals.sum() / number, 0) + 1e-12)
        order = self.shuffled[np.argsort(group_of[self.shuffled], kind="stable")]
        sizes = [apportion(int(total), np.ones(n)) for total, n in zip(totals, nodes, strict=True)]
        return Placement(order, np.concatenate(sizes), np.repeat(np.arange(values.size), nodes))


def place_tests(placement: Placement, known: tuple[NDArray[Any], NDArray[Any]], seed: int) -> NDArray[np.int32]:
    """Return the node that each test record belongs to: that of a random training record with the same value.

    So a node's test records have the classes of its training records. Each training record is drawn at most once until
    all with its value have been. A test record whose value no training record has belongs to no node: −1.

    Parameters
    ----------
    placement : Placement
        Where the training records are.
    known : pair of arrays
        What decides, of the training records and of the test records: their classes, or a column (`deciding`).
    seed : int
        The seed of the run.
    """
    train, test = known
    holder = np.repeat(np.arange(placement.counts.size), placement.counts)
    value = train[placement.rows]
    order = rng.permutation(rng.key(seed, "nodes", "tests"), 0, value.size)
    node = np.full(test.size, -1, np.int32)
    for one in np.unique(test):
        mine, there = np.flatnonzero(test == one), holder[order[value[order] == one]]
        if there.size:
            node[mine] = np.resize(there, mine.size)
    return node


def deciding(config: NodesConfig, y: NDArray[Any], columns: Mapping[str, NDArray[Any]], classes: int) -> NDArray[Any]:
    """Return what decides to which nodes records go: the column of a split by one, else their classes, if any."""
    split = config.split
    if isinstance(split, BySplit):
        return columns[split.column]
    return y if classes else np.zeros(len(y), np.int32)


def apportion(total: int, shares: Floats) -> Ints:
    """Return integers that are proportional to the shares and add up to the total (largest remainder method)."""
    exact = shares / shares.sum() * total if shares.sum() > 0 else np.full(shares.size, total / shares.size)
    whole: Ints = np.floor(exact).astype(np.int64)
    rest = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
    return whole


def _without_repetition(holders: Ints) -> Ints:
    """Swap classes between nodes until no node has a class twice."""
    number, each = holders.shape
    for node in range(number):
        for slot in range(each):
            if holders[node, slot] not in holders[node, :slot]:
                continue
            for other in range(number):
                swap = [s for s in range(each) if _swappable(holders, node, slot, other, s)]
                if swap:
                    a, b = holders[node, slot], holders[other, swap[0]]
                    holders[node, slot], holders[other, swap[0]] = b, a
                    break
    return holders


def _swappable(holders: Ints, node: int, slot: int, other: int, s: int) -> bool:
    mine, theirs = holders[node, slot], holders[other, s]
    return other != node and theirs not in holders[node] and mine not in holders[other]


def skewed(x: NDArray[np.float32], split: FeatureSkewSplit, group: Ints, seed: int) -> NDArray[np.float32]:
    """Shift and rotate the features of records by their group."""
    from scipy.special import ndtri

    key, features = rng.key(seed, "nodes", "feature-skew"), x.shape[1]
    columns = np.arange(features, dtype=np.int32)
    out = x.copy()
    planes = rng.permutation(key, split.groups, features)[: features // 2 * 2].reshape(-1, 2)
    for g in range(split.groups):
        mine = group == g
        direction = np.asarray(ndtri(rng.uniform(key, columns, g)))
        out[mine] += (split.shift * direction / math.sqrt(np.square(direction).sum())).astype(np.float32)
        angle = math.radians(split.rotation * g)
        cosine, sine = np.float64(math.cos(angle)), np.float64(math.sin(angle))
        a, b = out[np.ix_(mine, planes[:, 0])], out[np.ix_(mine, planes[:, 1])]
        out[np.ix_(mine, planes[:, 0])] = cosine * a - sine * b
        out[np.ix_(mine, planes[:, 1])] = sine * a + cosine * b
    return out
