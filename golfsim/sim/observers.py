"""Measure a run: the error of sampled nodes, messages, and the metrics of each layer. Observers never change a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.metrics import Metric
from golfsim.core.threads import in_threads
from golfsim.learning.exposure import Exposure
from golfsim.learning.linear import Descent
from golfsim.privacy import accounting
from golfsim.privacy.ledger import Ledger
from golfsim.protocol.checking import check_observed
from golfsim.protocol.learner import Learner
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Published, RawRecords
from golfsim.scenario.tables import MOST_DRAWN, ObserveConfig
from golfsim.sim import attacks, attribute, inversion, overlay_stats
from golfsim.sim.invariants import ROOM
from golfsim.sim.mean_model import MeanModel
from golfsim.sim.metrics import Metrics, auc, confusion, f1, log_loss, nmi, rmse_and_mae, roc, summary, worst_tenth
from golfsim.sim.tables import FINAL, WORLD, NodeTable

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.protocol.base import Protocol

POINTS_A_DECADE = 20
AGE_AFTER = frozenset({"accuracy", "nmi", "mae"})  # the place of the age in the log
RISING = frozenset({"accuracy", "nmi"})  # of what a larger value is better
MEASURED_LINK = 100  # bytes per link while degrees, clustering and paths are measured
PREDICTED = 8  # bytes per score: in a chunk, and in the array of all chunks
CHUNK = 1024  # test records per matrix product; fixed, since the last bits of a product depend on its shape
WORLD_METRICS = (Metric("online", "The number of nodes that are online.", "nodes"),)
METRICS = (
    Metric(
        "age",
        "The number of updates of a model, or what the layer counts instead: fits, received models, packets.",
        "updates",
        summary=True,
    ),
    Metric("measured", "The number of models that were measured on the test records.", "models"),
)  # of learning layers
WORST = "; the mean over the tenth of the nodes where it is worst, if nodes have test records of their own."


def _judging(name: str, about: str, unit: str, better: Literal["up", "down"]) -> tuple[Metric, Metric]:
    """Return a metric of each node, and that of the worst tenth of the nodes."""
    return Metric(name, f"{about}.", unit, better, True), Metric(f"{name}.worst_tenth", f"{about}{WORST}", unit, better)


CLASSES = (
    *_judging(
        "error", "The share of test records that a model classifies incorrectly", "share of test records", "down"
    ),
    *_judging("accuracy", "The share of test records that a model classifies correctly", "share of test records", "up"),
)
CLUSTERS = _judging(
    "nmi",
    "The normalised mutual information of the clusters of the test records and their classes",
    "share of the mean entropy",
    "up",
)
NUMBERS = (
    *_judging(
        "rmse", "The root of the mean squared difference between predicted and true numbers", "as the label", "down"
    ),
    *_judging("mae", "The mean absolute difference between predicted and true numbers", "as the label", "down"),
)
BY_TASK = {
    "classes": CLASSES,
    "clusters": CLUSTERS,
    "numbers": NUMBERS,
    "ratings": NUMBERS,
}  # of learning layers, by what their models are for
OF_WORST = frozenset(metric.name for found in BY_TASK.values() for metric in found)


@dataclass(frozen=True)
class Due:
    """The cycles after which to measure: every k-th cycle or log-spaced cycles, and always the last one.

    Membership is computed per cycle, so that no list of all cycles is needed.
    """

    every: int | str
    cycles: int

    def __contains__(self, cycle: int) -> bool:
        return cycle == self.cycles or (cycle in self._spaced if self.every == "log" else cycle % int(self.every) == 0)

    @cached_property
    def _spaced(self) -> frozenset[int]:
        points = math.floor(POINTS_A_DECADE * math.log10(self.cycles) + 1e-9)
        return frozenset(round(10 ** (k / POINTS_A_DECADE)) for k in range(points + 1))


@dataclass(frozen=True)
class TestSet:
    """The records that sampled nodes predict."""

    __test__ = False
    x: NDArray[np.float32]
    y: NDArray[np.int32]
    classes: int
    node: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))  # of each; empty: all nodes have all

    @property
    def by_node(self) -> bool:
        """Whether each record belongs to a node."""
        return self.node.size > 0

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        order = np.argsort(self.node, kind="stable")
        return order, self.node[order]

    def of(self, node: int) -> NDArray[np.int64]:
        """Return the records that a node predicts."""
        if not self.by_node:
            return np.arange(len(self.y))
        order, nodes = self._sorted
        return order[slice(*np.searchsorted(nodes, [node, node + 1]))]


class Observer:
    """Measure all layers of a run in the cycles that the scenario asks for."""

    def __init__(
        self,
        config: ObserveConfig,
        seed: int,
        cycles: int,
        test: TestSet | None,
        raw: RawRecords | None = None,
        delta: float | None = None,
        scale: tuple[str, ...] = (),
    ) -> None:
        self._config = config
        self._delta = delta
        self._key = rng.key(seed, "observe", "sample")
        self._due = Due(config.every, cycles)
        self._overlay_due = Due(config.overlay, cycles) if config.overlay else frozenset[int]()
        self._overlay_key = rng.key(seed, "observe", "overlay")
        self._attack_key = rng.key(seed, "observe", "attack")
        self._test = test
        self._raw = raw
        self._follow_key = rng.key(seed, "observe", "follow")
        self._mean_model = MeanModel(config.metrics)
        self._attacker_key = rng.key(seed, "observe", "attackers")
        self.exposures: dict[str, Exposure] = {}  # what attackers have seen of each layer
        self._sensitive: attribute.Sensitive | None = None
        if config.sensitive is not None and raw is not None and test is not None:
            self._sensitive = attribute.sensitive(config.sensitive, raw.about.features, test.x, scale)

    def attach(self, world: World, layers: dict[str, Protocol[Any]]) -> None:
        """Let attackers look at the messages of layers that learn from private records, if the scenario asks for it."""
        if "inversion" not in self._config.attacks or self._raw is None:
            return
        if not world.tampering.honest().all():
            what = "the attack “inversion” is not defined with nodes that send false models"
            raise UserError(what, key="observe.attacks", hint="remove “inversion”, or [[adversary]]", docs="privacy")
        group = inversion.groups(self._attacker_key, world.nodes, self._config.attackers, self._config.collude)
        for name, layer in layers.items():
            if isinstance(layer, Descent) and layer.config.records is self._raw and layer.task == "classes":
                exposure = Exposure(group)
                if layer.expose(exposure, world):
                    self.exposures[name] = exposure

    def memory(self, world: World, layers: dict[str, Protocol[Any]], tests: int) -> int:
        """Return the bytes that measuring one layer needs at most: its predictions of test records, or its links."""
        found = [0]
        wanted = world.nodes if isinstance(self._config.nodes, str) else min(self._config.nodes, world.nodes)
        nodes = max(wanted, min(self._config.follow or 0, world.nodes))
        for layer in layers.values():
            if isinstance(layer, Learner):
                chunk = layer.memory_of_scores(nodes, min(tests, CHUNK)) * min(world.threads, -(-tests // CHUNK))
                found.append(chunk + PREDICTED * layer.answers() * tests * nodes)
            if isinstance(layer, Overlay) and self._config.overlay:
                found.append(MEASURED_LINK * layer.most_links(world))
            if isinstance(layer, Descent) and "inversion" in self._config.attacks:
                asked = self._config.attackers
                watching = world.nodes if isinstance(asked, str) else min(asked, world.nodes)
                records, events = int(layer.config.records.capacity().sum()), world.nodes * self._due.cycles
                found.append(inversion.memory(layer.size_of_models(1) // 4, events, records, watching))
        return max(found)

    def tables(self, world: World, layers: list[str]) -> dict[str, NodeTable]:
        """Return the empty tables that the scenario asks for in addition to the log."""
        if self._config.draw and world.nodes > MOST_DRAWN:
            what = f"{world.nodes:,} nodes are too many to draw; at most {MOST_DRAWN} nodes can be drawn"
            raise UserError(what, key="observe.draw", hint="simulate fewer nodes, or use follow = 100 and overlay = 1")
        asked = {"nodes": self._config.draw or self._config.follow is not None, "links": self._config.draw}
        asked["degrees"] = self._config.overlay is not None
        return {name: NodeTable(name, layers) for name, wanted in asked.items() if wanted}

    def fill(self, tables: dict[str, NodeTable], world: World, layers: dict[str, Protocol[Any]]) -> None:
        """Add the current nodes, links and in-degrees to the tables, if this cycle is measured."""
        if world.cycle in self._due and "nodes" in tables:
            self._follow(tables["nodes"], world, layers)
        if world.cycle in self._due and "links" in tables:
            self._draw(tables["links"], world, layers)
        if world.cycle in self._overlay_due and "degrees" in tables:
            _count_degrees(tables["degrees"], world, layers)

    def _follow(self, table: NodeTable, world: World, layers: dict[str, Protocol[Any]]) -> None:
        nodes = self._followed(world)
        learners = {name: layer for name, layer in layers.items() if isinstance(layer, Learner)}
        seen = {"node": world.label[nodes], "online": world.online[nodes]}
        for name, layer in learners.items() if self._test is not None else ():
            table.add(world.cycle, name, **seen, error=self._errors(world, layer, nodes))
        if not learners or self._test is None:
            table.add(world.cycle, WORLD, **seen, error=np.full(nodes.size, np.nan))

    def _followed(self, world: World) -> NDArray[np.int32]:
        """Return the followed nodes, the same in all cycles, sorted by label."""
        everyone = np.arange(world.nodes, dtype=np.int32)
        chosen = everyone if self._config.draw else rng.sample(self._follow_key, 0, everyone, self._config.follow or 0)
        return np.asarray(chosen[np.argsort(world.label[chosen])], np.int32)

    def _errors(self, world: World, layer: Learner[Any], nodes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the error of each node; NaN if it has no model."""
        assert self._test is not None
        able = np.isin(nodes, layer.holders(world))
        error = np.full(nodes.size, np.nan)
        if able.any() and (layer.at_nodes or not self._test.by_node):
            error[able] = self._judged(world, layer, nodes[able], self._test).get("error", np.nan)
        return error

    def _draw(self, table: NodeTable, world: World, layers: dict[str, Protocol[Any]]) -> None:
        for name, layer in layers.items():
            links = layer.links(world) if isinstance(layer, Overlay) else None
            if links is not None:
                source = world.label[np.repeat(np.arange(world.nodes), np.diff(links.indptr))]
                target = world.label[links.indices]
                order = np.lexsort((target, source))
                table.add(world.cycle, name, source=source[order], target=target[order])

    def due(self, cycle: int, whole: bool = False) -> bool:
        """Return whether to measure after this cycle; `whole`: all layers, not only overlays."""
        return cycle in self._due or (not whole and cycle in self._overlay_due)

    def measure(self, world: World, layers: dict[str, Protocol[Any]]) -> dict[str, Metrics]:
        """Return all current metrics, by layer."""
        found: dict[str, Metrics] = {"world": {"online": float(world.order.size)}}
        for name, layer in layers.items():
            found[name] = dict(world.transport.totals(name))
            if world.cycle in self._due:
                found[name] |= self._of_layer(world, layer)
            if isinstance(layer, Overlay) and world.cycle in self._overlay_due:
                found[name] |= overlay_stats.measure(layer, world, self._overlay_key, self._config.overlay_nodes)
        return found

    def _of_layer(self, world: World, layer: Protocol[Any]) -> Metrics:
        found = layer.observe(world)
        check_observed(layer, found)
        if self._delta is not None and (ledgers := accountable(layer)):
            found = found | accounting.metrics(ledgers, self._delta)
        if isinstance(layer, Learner) and self._test is not None:
            nodes = self._sample(world, layer)
            if nodes.size:
                judged = self._judged(world, layer, nodes, self._test)
                measured = max((int((~np.isnan(values)).sum()) for values in judged.values()), default=0)
                learning = self._learning(world, layer, nodes, self._test, judged)
                found = learning | self._membership(world, layer, nodes) | found
                found |= self._mean_model.measure(world, layer, nodes, self._test)
                found["measured"] = float(measured)
                found |= self._by_models(world, layer, nodes)
        if isinstance(layer, Published) and self._raw is not None:
            found |= self._by_records(world, layer, self._raw)
        if self._raw is not None and layer.name in self.exposures:
            found |= inversion.of_models(self.exposures[layer.name], self._raw, self._guess())
        return found

    def _by_records(self, world: World, layer: Published[Any], raw: RawRecords) -> Metrics:
        """Return the success of the attacks on published records."""
        found = Metrics()
        if "label" in self._config.attacks:
            found |= attacks.label_recovery(layer, raw, self._attack_key, world)
        if self._sensitive is not None and self._test is not None:
            test = self._test.x, self._test.y
            found |= attribute.of_published(layer, raw, self._sensitive, test, self._attack_key, world)
        if "inversion" in self._config.attacks:
            found |= inversion.of_published(layer, raw, self._attack_key, world, self._guess())
        return found

    def _by_models(self, world: World, layer: Learner[Any], nodes: NDArray[np.int32]) -> Metrics:
        """Return how often the models of a layer that learns from private records reveal the sensitive feature."""
        if self._sensitive is None or self._raw is None or self._test is None:
            return {}
        if layer.task != "classes" or not layer.touches_private_data:
            return {}
        test = self._test.x, self._test.y
        return attribute.of_models(layer, nodes, self._raw, self._sensitive, test, self._attack_key, world)

    def _guess(self) -> NDArray[np.float64] | None:
        """Return the mean test record, which an attacker would guess without messages."""
        if self._test is None or not len(self._test.x):
            return None
        return np.asarray(self._test.x.astype(np.float64).mean(axis=0))

    def _membership(self, world: World, layer: Learner[Any], nodes: NDArray[np.int32]) -> Metrics:
        if "membership" not in self._config.attacks or self._raw is None or self._test is None:
            return {}
        if layer.task != "classes":
            return {}
        rows = self._raw.rows
        everyone = np.arange(rows.label.size, dtype=np.int32)
        chosen = rng.sample(self._attack_key, world.cycle, everyone, len(self._test.y))
        members = rows.x[chosen], rows.label[chosen]
        return attacks.membership(layer, nodes, members, (self._test.x, self._test.y))

    def _sample(self, world: World, layer: Learner[Any]) -> NDArray[np.int32]:
        holders, wanted = layer.holders(world), self._config.nodes
        return holders if isinstance(wanted, str) else rng.sample(self._key, world.cycle, holders, wanted)

    def _learning(
        self,
        world: World,
        layer: Learner[Any],
        nodes: NDArray[np.int32],
        test: TestSet,
        judged: dict[str, NDArray[np.float64]],
    ) -> Metrics:
        metrics = Metrics()
        for name, values in judged.items():
            able = ~np.isnan(values)
            if able.any() or name == "auc":
                metrics |= summary(name, values[able] if able.any() else values)
            if test.by_node and able.any() and name in OF_WORST:
                metrics[f"{name}.worst_tenth"] = worst_tenth(values[able], name in RISING)
            if name in AGE_AFTER:
                metrics |= summary("age", layer.ages(nodes))
        return metrics | self._of_one_node(world, layer, nodes, test)

    def _judged(
        self, world: World, layer: Learner[Any], nodes: NDArray[np.int32], test: TestSet
    ) -> dict[str, NDArray[np.float64]]:
        """Return the metrics of each node; NaN where a node has no such prediction or, if it has its own, no record."""
        if not test.by_node:
            return self._values(layer, nodes, None, test.x, test.y, test.classes, world.threads)
        holders = nodes
        if not layer.at_nodes:  # each node predicts with the model of one of the holders
            able = np.flatnonzero(world.online & world.tampering.honest()).astype(np.int32)
            wanted = self._config.nodes
            nodes = able if isinstance(wanted, str) else rng.sample(self._key, world.cycle, able, wanted)
            holders = np.resize(holders, nodes.size)

        def alone(place: int) -> dict[str, NDArray[np.float64]]:
            one, mine = slice(place, place + 1), test.of(int(nodes[place]))
            return self._values(layer, holders[one], nodes[one], test.x[mine], test.y[mine], test.classes, 1)

        places = [place for place, node in enumerate(nodes) if test.of(int(node)).size]
        with _numpy_blas().limit(limits=1, user_api="blas"):
            found = in_threads(world.threads, alone, places)
        values: dict[str, NDArray[np.float64]] = {}
        for place, one in zip(places, found, strict=True):
            for name, value in one.items():
                values.setdefault(name, np.full(nodes.size, np.nan))[place] = value[0]
        return values

    def _values(
        self,
        layer: Learner[Any],
        holders: NDArray[np.int32],
        nodes: NDArray[np.int32] | None,
        x: NDArray[np.float32],
        y: NDArray[np.int32],
        classes: int,
        threads: int,
    ) -> dict[str, NDArray[np.float64]]:
        """Return the metrics of each node on some records, with the model of the holder in the same place."""
        scores, others = predict(layer, holders, x, threads, nodes)
        if layer.task == "clusters":
            return {"nmi": nmi(scores.argmax(axis=-1).astype(np.int32), y, scores.shape[2], classes)}
        if layer.task != "classes":
            return rmse_and_mae(scores, y)
        predicted = layer.classes(scores, holders, x)
        error = (predicted != y[:, None]).mean(axis=0)
        found = {"error": error, "accuracy": 1 - error}
        for name, chosen in others.items():
            wrong = (chosen != y[:, None]).mean(axis=0)
            found[f"{name}_error"] = np.where((chosen >= 0).all(axis=0), wrong, np.nan)
        if "auc" in self._config.metrics:
            found["auc"] = auc(scores, y)
        if "f1" in self._config.metrics:
            found["f1"] = f1(predicted, y, classes)
        if "log-loss" in self._config.metrics:
            found["log_loss"] = log_loss(scores, y, layer.probabilities == "each")
        return found

    def _of_one_node(self, world: World, layer: Learner[Any], nodes: NDArray[np.int32], test: TestSet) -> Metrics:
        """Return the confusion matrix and the ROC curve of the node in the scenario, or of the first measured node."""
        wanted, found = self._config.node, Metrics()
        if not {"confusion", "roc"} & set(self._config.metrics) or layer.task != "classes":
            return found
        if wanted is not None and wanted >= world.nodes:
            raise UserError(
                f"there is no node {wanted}: nodes have the numbers 0 … {world.nodes - 1}", key="observe.node"
            )
        holders = layer.holders(world)
        one = nodes[:1] if wanted is None else holders[world.label[holders] == wanted]
        if one.size:  # otherwise it has no model, or is offline
            scores, _ = predict(layer, one, test.x, world.threads)
            if "confusion" in self._config.metrics:
                found |= confusion(layer.classes(scores, one, test.x)[:, 0], test.y, test.classes)
            if "roc" in self._config.metrics:
                found |= roc(scores[:, 0], test.y)
        return found


def _count_degrees(table: NodeTable, world: World, layers: dict[str, Protocol[Any]]) -> None:
    """Add the number of online nodes by in-degree, per overlay that stores links."""
    for name, layer in layers.items():
        found = overlay_stats.in_degrees(layer, world) if isinstance(layer, Overlay) else None
        if found is not None:
            degree, count = np.unique(found, return_counts=True)
            table.add(world.cycle, name, degree=degree, count=count)


def ledgers_of(layer: Protocol[Any]) -> list[Ledger]:
    """Return the ledgers of a layer; none if they count different units."""
    found = [part for part in vars(layer).values() if isinstance(part, Ledger) and part.visits.size]
    return found if len({ledger.visits.size for ledger in found}) == 1 else []


def accountable(layer: Protocol[Any]) -> list[Ledger]:
    """Return the ledgers of a layer whose guarantee is proven, and is what one unit of them spends at most."""
    ledgers, proven = ledgers_of(layer), layer.guarantee().epsilon
    budget = math.fsum(ledger.total for ledger in ledgers)
    return ledgers if proven is not None and math.isclose(proven, budget, rel_tol=1e-9) else []


def spent_by_unit(world: World, layers: dict[str, Protocol[Any]]) -> NodeTable | None:
    """Return the number of records (or nodes, where that is the unit) by spent ε; None if no layer spends any.

    The ledgers of a layer add up. A layer whose ledgers count different units has no rows.
    """
    table, found = NodeTable(FINAL, list(layers)), False
    for name, layer in layers.items():
        ledgers = ledgers_of(layer)
        if ledgers:
            spent, count = np.unique(sum(ledger.spent() for ledger in ledgers), return_counts=True)
            by_node = np.full(spent.size, layer.guarantee().unit == "node")
            table.add(world.cycle, name, spent=spent, count=count, by_node=by_node)
            found = True
    return table if found else None


@cache
def _numpy_blas() -> Any:
    """Return the controller of numpy's BLAS library. It is cached: finding it takes longer than a small product."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def predict(
    layer: Learner[Any],
    holders: NDArray[np.int32],
    x: NDArray[np.float32],
    threads: int,
    nodes: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.float32], dict[str, NDArray[np.int32]]]:
    """Return the scores of all test records, and classes predicted in other ways.

    The records are processed in chunks of fixed size, with one BLAS thread each.
    """
    parts = [x[lo : lo + CHUNK] for lo in range(0, len(x), CHUNK)]
    with _numpy_blas().limit(limits=1, user_api="blas"):
        scores = np.concatenate(in_threads(threads, lambda part: _finite_scores(layer, holders, nodes, part), parts))
        others = in_threads(threads, lambda part: layer.others(holders, part), parts)
    return scores, {name: np.concatenate([part[name] for part in others]) for name in others[0]}


def _finite_scores(
    layer: Learner[Any], holders: NDArray[np.int32], nodes: NDArray[np.int32] | None, x: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the scores; refuse an overflow, which can happen although model and record are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = layer.scores(holders, x) if nodes is None else layer.scores_for(holders, nodes, x)
    if not np.isfinite(scores).all():
        what = "the scores of its models overflow: the model or the records are too large for single precision"
        raise UserError(what, key=layer.name, hint=ROOM)
    return scores
