"""Forecast the memory of a run before it starts.

Each layer states the bytes of its arrays (`Protocol.memory`), and so do the records and the observer; the sum is the
forecast. A layer of a user may state nothing. Then the same scenario is set up with a few small numbers of nodes and
run for a few cycles, the peak of allocated memory is measured, and its growth with the number of nodes is extrapolated
to the real number. Mailboxes count with their maximal size. Memory that kernels allocate inside is small and not
counted.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from golfsim.core.errors import UserError
from golfsim.core.memory import available, extrapolated, readable, size_of, traced, used
from golfsim.data import loading, scaling
from golfsim.data.placement import BySplit
from golfsim.network.transport import Transport
from golfsim.network.world import World
from golfsim.protocol.base import Protocol
from golfsim.protocol.records import About, RawRecords
from golfsim.sim.observers import Observer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from golfsim.runs.batch import Execution
    from golfsim.runs.single import Task
    from golfsim.scenario.model import Scenario

LEAST = 24  # bytes per node that even a world without layers needs
OF_WORLD = 34  # bytes per node of a world: who is online, the order of nodes, and numbers while it is drawn
OF_RECORD = 24  # bytes per record of a node, while records are placed
MOST = 256  # bytes per feature of the model of a node that a run rarely exceeds: below, nothing is measured
WORTH_MEASURING = 1 / 8  # of the available memory
CYCLES = 2
SECONDS = 5.0  # maximal duration of a trial, checked after each cycle
PARTS = 64  # the smallest trial has this many times fewer nodes than the run
FEWEST, MANY = 1000, 50_000  # nodes of the smallest trial


class Size(NamedTuple):
    """The size of a scenario: nodes, linear models per node, and features per model."""

    nodes: int
    models: int
    features: int

    @classmethod
    def of(cls, scenario: Scenario) -> Size:
        """Return the size. Test records are not held out, so nodes that follow from the data are slightly too many."""
        if scenario.data is None:
            return cls(scenario.nodes.number or 1, 1, 1)
        records, features, classes = loading.shape(scenario.data, scenario.folder)
        each = scenario.nodes.records if isinstance(scenario.nodes.records, int) else 1
        nodes = scenario.nodes.number or max(1, records // max(each, 1))
        split = scenario.nodes.split
        if isinstance(split, BySplit) and scenario.nodes.number is None:
            nodes = loading.values_of(scenario.data, split.column, scenario.folder) or nodes
        return cls(nodes, 1 if classes in (0, 2) else classes, features)

    @property
    def work(self) -> float:
        """The approximate work of a cycle; only ratios matter."""
        return float(self.nodes * self.models * self.features)


def most(tasks: Sequence[Task], threads: int = 1, paranoid: bool = False, enough: float | None = None) -> int | None:
    """Return the approximate memory in bytes of the run that needs most; None if it cannot be predicted.

    All points are compared by what their layers state. Of the points with a layer that states nothing, the one with the
    largest models and mailboxes is measured.
    """
    scenarios = list({id(task.point): task.point.scenario for task in tasks}.values())
    known = [_known(scenario, threads, paranoid) for scenario in scenarios]
    found = [used() + bytes_ for bytes_ in known if bytes_ is not None]
    others = [scenario for bytes_, scenario in zip(known, scenarios, strict=True) if bytes_ is None]
    if others:
        measured = _unknown(max(others, key=_at_most), threads, paranoid, enough)
        found += [] if measured is None else [measured]
    return max(found, default=None)


def longest_delay(scenario: Scenario) -> int:
    """Return the maximal number of cycles that a message is in transit."""
    shortest, cumulative = scenario.transport.lags()
    return shortest + cumulative.size - 1


def fitting(tasks: Sequence[Task], how: Execution) -> int:
    """Return how many of the requested workers fit into memory; it is an error if not even one does."""
    workers, threads = how.shares(len(tasks))
    need = most(tasks, threads, how.paranoid, available() / workers)
    if need is None or workers * need <= available():
        return workers
    if need > available():
        raise too_large(need)
    return max(1, available() // need)


def too_large(need: int) -> UserError:
    """Return the error about a run that does not fit into memory."""
    what = f"needs about {readable(need)} of memory, {readable(available())} available"
    return UserError(what, key="nodes", hint="simulate fewer nodes")


def predicted(scenario: Scenario, threads: int = 1, paranoid: bool = False, enough: float | None = None) -> int | None:
    """Return the approximate memory of a run in bytes; None if it cannot be predicted.

    A measured forecast above `enough` (default: all available memory) is measured again with more nodes.
    """
    found = _known(scenario, threads, paranoid)
    return _unknown(scenario, threads, paranoid, enough) if found is None else used() + found


def _unknown(scenario: Scenario, threads: int, paranoid: bool, enough: float | None) -> int | None:
    """Return the approximate memory of a run with a layer that states nothing."""
    if _at_most(scenario) < WORTH_MEASURING * available():
        return None
    nodes = Size.of(scenario).nodes
    try:
        return _measured(scenario, nodes, threads, paranoid, available() if enough is None else enough)
    except (UserError, MemoryError):  # the run itself reports it with more detail
        return None


def _known(scenario: Scenario, threads: int, paranoid: bool) -> int | None:
    """Return the bytes that a run states, or a bound if not even its nodes fit; None if it states nothing."""
    least = Size.of(scenario).nodes * LEAST
    if least > available():
        return least
    try:
        return stated(scenario, threads, paranoid)
    except (UserError, MemoryError):  # the run itself reports it with more detail
        return None


def _at_most(scenario: Scenario) -> float:
    """Return the bytes that a run rarely exceeds, whatever its layers are."""
    return Size.of(scenario).work * MOST * (1 + longest_delay(scenario))


def stated(scenario: Scenario, threads: int = 1, paranoid: bool = False) -> int | None:
    """Return the bytes that all layers, the records and the observer state; None if a layer states nothing."""
    size = Size.of(scenario)
    world = World(
        size.nodes,
        scenario.seed,
        threads=threads,
        shuffled=False,
        transport=Transport(scenario.transport, scenario.seed, [str(table["name"]) for table in scenario.protocol]),
        adversaries=scenario.adversary,
    )
    raw, placing, tests = _outline(scenario, size)
    layers = scenario.stack(scenario.seed, raw)
    found = [_of_layer(layer, world) for layer in layers.values()]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    copies = 3 if paranoid else 1  # of the state: before and after each cycle
    observer = Observer(scenario.observe, scenario.seed, scenario.cycles, None)
    running = copies * sum(known) + observer.memory(world, layers, tests)
    generating, kept = loading.memory(scenario.data) if scenario.data else (0, 0)
    return max(generating, kept + size.nodes * OF_WORLD + (raw.memory(world) if raw else 0) + max(placing, running))


def _of_layer(layer: Protocol[Any], world: World) -> int | None:
    """Return what a layer states; nothing if it needs what a user's layer below knows only after its `setup`."""
    try:
        return layer.memory(world)
    except (AttributeError, NotImplementedError):
        return None


def _outline(scenario: Scenario, size: Size) -> tuple[RawRecords | None, int, int]:
    """Return records of the right shape without content, the bytes for placing them, and the number of test records."""
    if scenario.data is None:
        return None, 0, 0
    there, features, classes = loading.shape(scenario.data, scenario.folder)
    features = scaling.width(scenario.data, features)
    each = scenario.nodes.records if isinstance(scenario.nodes.records, int) else max(1, there // size.nodes)
    records = size.nodes * each
    names = tuple(f"x{column}" for column in range(features))
    items = loading.items(scenario.data, scenario.folder)
    about = About(names, scaling.span(scenario.data), loading.grouping(scenario.data), items)
    tests = loading.test_records(scenario.data, scenario.folder)
    placing = size_of((np.float32, there + tests, features), (OF_RECORD, records))
    return RawRecords.outline(records, features, classes, size.nodes, about), placing, tests


def _measured(scenario: Scenario, nodes: int, threads: int, paranoid: bool, enough: float = math.inf) -> int:
    def peak(trial: int) -> int:
        with traced() as found:
            _tried(_smaller(scenario, nodes, trial), threads, paranoid)
        return found()

    few = min(max(nodes // PARTS, min(FEWEST, nodes // 8), 1), MANY)
    _tried(_smaller(scenario, nodes, few), threads, paranoid)  # compiles kernels and reads data; not measured
    found = extrapolated(peak, few, nodes, enough - used())
    loading.forget_drawn()
    return used() + found


def _smaller(scenario: Scenario, nodes: int, wanted: int) -> Scenario:
    """Return the same scenario with the wanted number of nodes, and as many records per node."""
    config = scenario.nodes
    changes: dict[str, int] = {} if config.number is None else {"nodes.number": wanted}
    if scenario.data is not None and not config.repeat:
        records, _, _ = loading.shape(scenario.data, scenario.folder)
        each = config.records if isinstance(config.records, int) else None
        changes["data.train"] = each * wanted if each else max(2, records * wanted // nodes)
    return scenario.change(changes)


def _tried(scenario: Scenario, threads: int, paranoid: bool) -> None:
    from golfsim.sim.simulation import Simulation

    begun = time.monotonic()
    simulation = Simulation(scenario, threads=threads, paranoid=paranoid)
    for cycle in simulation:
        if cycle >= CYCLES or time.monotonic() - begun > SECONDS:
            return
