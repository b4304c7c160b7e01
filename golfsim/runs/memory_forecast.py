"""Forecast the memory of a run before it starts.

The forecast is measured: the same scenario is set up with a few small numbers of nodes and run for a few cycles. The
peak of allocated memory is measured, and its growth with the number of nodes is extrapolated to the real number. So the
forecast works for every protocol, including those of users. Memory that kernels allocate inside is not measured; it is
small. Mailboxes count with their maximal size.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from typing import TYPE_CHECKING, NamedTuple

from golfsim.core.errors import UserError
from golfsim.core.memory import available, readable, used
from golfsim.data import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from golfsim.runs.batch import Execution
    from golfsim.runs.single import Task
    from golfsim.scenario.model import Scenario

LEAST = 24  # bytes per node that even a world without layers needs
MOST = 256  # bytes per feature of the model of a node that a run rarely exceeds: below, nothing is measured
WORTH_MEASURING = 1 / 8  # of the available memory
CYCLES = 2
SECONDS = 5.0  # maximal duration of a trial, checked after each cycle
PARTS = 64  # the smallest trial has this many times fewer nodes than the run
FEWEST, MANY = 1000, 50_000  # nodes of the smallest trial
STRAIGHT, STEEPEST = 2.4, 4.4  # growth from two to four nodes over that from one to two: 2 for a line, 4 for a parabola
SAME = 0.3  # relative difference up to which two curvatures count as equal
CLOSER = 4  # this many times more nodes are tried before a run is refused


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
        return cls(nodes, 1 if classes == 2 else classes, features)

    @property
    def work(self) -> float:
        """The approximate work of a cycle; only ratios matter."""
        return float(self.nodes * self.models * self.features)


def largest(tasks: Sequence[Task]) -> Task:
    """Return the run that needs most memory."""
    sizes = {id(task.point): Size.of(task.point.scenario).work for task in tasks}
    return max(tasks, key=lambda task: sizes[id(task.point)] * (1 + longest_delay(task.point.scenario)))


def longest_delay(scenario: Scenario) -> int:
    """Return the maximal number of cycles that a message is in transit."""
    shortest, cumulative = scenario.transport.lags()
    return shortest + cumulative.size - 1


def fitting(tasks: Sequence[Task], how: Execution) -> int:
    """Return how many of the requested workers fit into memory; it is an error if not even one does."""
    workers, threads = how.shares(len(tasks))
    task = largest(tasks)
    need = predicted(task.point.scenario, threads, how.paranoid, available() / workers)
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
    """Return an approximate upper bound of the memory of a run in bytes; None if it is small or cannot be predicted.

    A forecast above `enough` (default: all available memory) is measured again with more nodes.
    """
    size = Size.of(scenario)
    if size.nodes * LEAST > available():
        return size.nodes * LEAST
    each = MOST * size.models * size.features * (1 + longest_delay(scenario))
    if size.nodes * each < WORTH_MEASURING * available():
        return None
    try:
        return _carried_on(scenario, size.nodes, threads, paranoid, available() if enough is None else enough)
    except (UserError, MemoryError):  # the run itself reports it with more detail
        return None


def _carried_on(scenario: Scenario, nodes: int, threads: int, paranoid: bool, enough: float = math.inf) -> int:
    def peak(trial: int) -> int:
        tracemalloc.start()
        try:
            _tried(_smaller(scenario, nodes, trial), threads, paranoid)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = min(max(nodes // PARTS, min(FEWEST, nodes // 8), 1), MANY)
    _tried(_smaller(scenario, nodes, few), threads, paranoid)  # compiles kernels and reads data; not measured
    found = carried_on(peak, few, nodes, enough - used())
    loading.forget_drawn()
    return used() + found


def carried_on(peak: Callable[[int], int], few: int, nodes: int, enough: float = math.inf) -> int:
    """Extrapolate the memory of `nodes` nodes from that of `few` nodes, twice as many, four times as many, …

    Memory grows linearly or quadratically. But the set-up, e.g. reading the data, may need more than a few nodes and
    hide them. Therefore the trial sizes are doubled until two estimates agree or lie on a line. Also, the memory of a
    few nodes may stop growing, as that of an attack on a sample does. Therefore more nodes are tried before the
    forecast states that there is not `enough`.
    """
    found, before, closer = [peak(few), peak(2 * few), peak(4 * few)], -1.0, CLOSER * few
    while True:
        slope, bend = _slope_and_bend(few, *found[-3:])
        sure = bend == 0 or (bend > 0 and abs(bend - before) < SAME * bend)
        before, bend, more = bend, max(bend, 0.0), nodes - 4 * few
        needed = int(found[-1] + (slope + bend * 2 * few) * more + bend * more**2)
        if (sure and (needed <= enough or few >= closer)) or 8 * few > nodes // 2:
            return needed
        few *= 2
        found.append(peak(4 * few))


def _slope_and_bend(few: int, one: int, two: int, four: int) -> tuple[float, float]:
    """Return slope and curvature of the curve through the memory of `few` nodes, twice and four times as many.

    A curvature of −1 means that it is neither a line nor a parabola.
    """
    first, second = two - one, four - two  # their ratio is 2 for a line, and up to 4 for a parabola
    slope = second / (2 * few)
    if second <= 0 or second > STEEPEST * first:
        return slope, -1.0
    return slope, (slope - first / few) / (3 * few) if second > STRAIGHT * first else 0.0


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
