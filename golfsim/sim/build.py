"""Build a run from a scenario: its data, the world, the layers and the observer, before the first cycle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.data import loading, scaling
from golfsim.data.placement import BySplit, FeatureSkewSplit, Placement, deciding, place, place_tests, skewed
from golfsim.learning.linear import Descent
from golfsim.network.transport import Transport
from golfsim.network.world import World
from golfsim.protocol.base import Protocol
from golfsim.protocol.learner import Learner
from golfsim.protocol.records import About, RawRecords
from golfsim.scenario.model import Scenario
from golfsim.sim.observers import Observer, TestSet


class Built(NamedTuple):
    """The parts of a run. The layers are not set up yet."""

    world: World
    raw: RawRecords | None
    layers: dict[str, Protocol[Any]]
    observer: Observer
    digest: str = ""  # of the data
    features: tuple[str, ...] = ()
    scaling: tuple[scaling.Step, ...] = ()
    note: str = ""  # a statement that every figure of the data must show
    classes: tuple[str, ...] = ()


def build(scenario: Scenario, seed: int, run: int, threads: int) -> Built:
    """Load the data of a scenario, place it on nodes, and build the world and the stack."""
    data = loading.load(scenario.data, seed, scenario.folder, run) if scenario.data else None
    if data is None or scenario.data is None:
        world = _world(scenario, seed, threads, scenario.nodes.number or 0)
        observer = Observer(scenario.observe, seed, scenario.cycles, None, delta=scenario.privacy.stated_delta)
        return Built(world, None, scenario.stack(seed, None), observer)
    if data.task == "ratings" and not (isinstance(scenario.nodes.split, BySplit) and scenario.nodes.number is None):
        what = "the ratings of a user belong to one node, the user's"
        raise UserError(what, key="nodes.split", hint='set split = { kind = "by", column = "user" }, and no number')
    placement = place(scenario.nodes, data.y, data.classes, data.columns, seed)
    world = _world(scenario, seed, threads, placement.counts.size)
    placement = placement.renumbered(world.label)
    raw = _raw(scenario, seed, data, placement)
    test = _tests(scenario, seed, data, placement)
    scale = tuple(scenario.data.scale)
    observer = Observer(scenario.observe, seed, scenario.cycles, test, raw, scenario.privacy.stated_delta, scale)
    layers = scenario.stack(seed, raw)
    refuse_unfit_layers(layers, raw, data.task, "log-loss" in scenario.observe.metrics)
    return Built(
        world, raw, layers, observer, data.digest, data.features, data.steps, data.note, data.classes
    )  # fmt: skip


def refuse_unfit_layers(layers: dict[str, Protocol[Any]], raw: RawRecords, task: str, log_loss: bool) -> None:
    """Refuse layers that cannot use the labels of the data or the models below, and an undefined log loss."""
    for layer in layers.values():
        below = [value for value in vars(layer.config).values() if isinstance(value, Protocol)]
        able = isinstance(layer, Descent)  # its learner checks the labels
        if task != "classification" and not able and (isinstance(layer, Learner) or raw in below):
            raise UserError(
                f"“{layer.config.use}” needs records with classes; the labels of the data are "
                f"{'ratings' if task == 'ratings' else 'numbers'}",
                key=f"{layer.name}.use",
                hint="use golf or random_walk with a learner for such labels",
                docs="learners",
            )
        unfit = [one for one in below if isinstance(one, Learner) and one.task != "classes"]
        if unfit and isinstance(layer, Learner):
            what = f"“{layer.config.use}” needs models that predict classes; those of “{unfit[0].name}” do not"
            raise UserError(what, key=f"{layer.name}.use", docs="learners")
        if log_loss and isinstance(layer, Learner) and not layer.probabilities:
            raise UserError(
                f"the scores of “{layer.name}” are no logarithms of odds, so there is no log loss",
                key="observe.metrics",
                hint="remove “log-loss”, or use the learner logistic, softmax or mlp",
                docs="learners",
            )


def _world(scenario: Scenario, seed: int, threads: int, nodes: int) -> World:
    return World(
        nodes,
        seed,
        threads=threads,
        shuffled=scenario.order == "shuffled",
        transport=Transport(scenario.transport, seed, [str(table["name"]) for table in scenario.protocol]),
        churn_configs=scenario.churn,
        adversaries=scenario.adversary,
        folder=scenario.folder,
    )


def _raw(scenario: Scenario, seed: int, data: loading.Dataset, placement: Placement) -> RawRecords:
    """Return the layer of the nodes' own records."""
    assert scenario.data is not None
    moved = isinstance(scenario.nodes.split, FeatureSkewSplit)
    span = None if moved else scaling.span(scenario.data)
    return RawRecords(
        _features(scenario, seed, data.x[placement.rows], np.repeat(placement.group, placement.counts)),
        data.y[placement.rows],
        placement.counts,
        len(data.classes),
        seed=seed,
        arrival=scenario.nodes.arrival,
        copies=int(np.bincount(placement.rows).max(initial=1)),
        caveat=loading.caveat(scenario.data, scenario.folder),
        about=About(data.features, span, loading.grouping(scenario.data), data.items),
    )


def _tests(scenario: Scenario, seed: int, data: loading.Dataset, placement: Placement) -> TestSet:
    """Return the test records, which belong to nodes if the scenario asks for it."""
    classes = len(data.classes)
    if scenario.observe.test == "all" and data.task != "ratings":
        return TestSet(data.test_x, data.test_y, classes)
    train, test = (
        deciding(scenario.nodes, y, columns, classes)
        for y, columns in ((data.y, data.columns), (data.test_y, data.test_columns))
    )
    node = place_tests(placement, (train, test), seed)
    kept = node >= 0
    if not kept.any():
        what = "no test record belongs to a node: none has a value that a training record has"
        raise UserError(what, key="observe.test", hint="use more training records, or test = “all”")
    x = _features(scenario, seed, data.test_x[kept], placement.group[node[kept]])
    return TestSet(x, data.test_y[kept], classes, node[kept])


def _features(scenario: Scenario, seed: int, x: NDArray[np.float32], group: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the features of records, with the skew that the scenario asks for, given the group of each record."""
    split = scenario.nodes.split
    if not isinstance(split, FeatureSkewSplit):
        return x
    assert scenario.data is not None
    if "bias" in scenario.data.scale:
        what = "features are skewed after scaling, which would make the bias differ between groups of nodes"
        raise UserError(what, key="nodes.split", hint="leave “bias” out of scale in [data]")
    return scaling.to_length(skewed(x, split, group, seed), scenario.data)
