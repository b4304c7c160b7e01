"""Build a run from a scenario: its data, the world, the layers and the observer, before the first cycle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.data import loading, scaling
from golfsim.data.placement import FeatureSkewSplit, Placement, place, skewed
from golfsim.network.transport import Transport
from golfsim.network.world import World
from golfsim.protocol.base import Protocol
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
    if data is None:
        world = _world(scenario, seed, threads, scenario.nodes.number or 0)
        observer = Observer(scenario.observe, seed, scenario.cycles, None, delta=scenario.privacy.delta)
        return Built(world, None, scenario.stack(seed, None), observer)
    placement = place(scenario.nodes, data.y, data.classes, data.columns, seed)
    world = _world(scenario, seed, threads, placement.counts.size)
    raw = _raw(scenario, seed, data, placement.renumbered(world.label))
    test = TestSet(data.test_x, data.test_y, len(data.classes))
    observer = Observer(scenario.observe, seed, scenario.cycles, test, raw, scenario.privacy.delta)
    return Built(
        world, raw, scenario.stack(seed, raw), observer, data.digest, data.features, data.steps, data.note, data.classes
    )  # fmt: skip


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
        _features(scenario, seed, data.x[placement.rows], placement),
        data.y[placement.rows],
        placement.counts,
        len(data.classes),
        seed=seed,
        arrival=scenario.nodes.arrival,
        copies=int(np.bincount(placement.rows).max(initial=1)),
        caveat=loading.caveat(scenario.data, scenario.folder),
        about=About(data.features, span, loading.grouping(scenario.data)),
    )


def _features(scenario: Scenario, seed: int, x: NDArray[np.float32], placement: Placement) -> NDArray[np.float32]:
    """Return the features of the nodes' records, with the skew that the scenario asks for."""
    split = scenario.nodes.split
    if not isinstance(split, FeatureSkewSplit):
        return x
    assert scenario.data is not None
    if "bias" in scenario.data.scale:
        what = "features are skewed after scaling, which would make the bias differ between groups of nodes"
        raise UserError(what, key="nodes.split", hint="leave “bias” out of scale in [data]")
    group = np.repeat(placement.group, placement.counts)
    return scaling.to_length(skewed(x, split, group, seed), scenario.data)
