"""How much memory a run will need, before it starts.

Nothing is declared and nothing guessed: the same scenario is set up with some small numbers of nodes and run for a few
cycles, the largest amount that is allocated at a time is measured, and what grows with the number of nodes is carried
on to the real one. So it holds for every protocol, a user's own too. What kernels allocate inside is not seen; it is
little. Mailboxes count as large as they can get.
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

LEAST = 24  # bytes a node that even a world without layers needs
MOST = 256  # bytes for each feature of a node's model that a run hardly exceeds: below, nothing is measured
WORTH_MEASURING = 1 / 8  # of what is available
CYCLES = 2
SECONDS = 5.0  # that a trial may take, when a cycle is over
PARTS = 64  # the smallest trial has so much fewer nodes
FEWEST, MANY = 1000, 50_000  # nodes of the smallest trial
STRAIGHT, STEEPEST = 2.4, 4.4  # growth from two to four nodes over that from one to two: 2 for a line, 4 for a parabola
SAME = 0.3  # by which two bends may differ
CLOSER = 4  # times as many nodes are tried before a run is refused


class Size(NamedTuple):
    """How large a scenario is: nodes, linear models at each, and their features."""

    nodes: int
    models: int
    features: int

    @classmethod
    def of(cls, scenario: Scenario) -> Size:
        """Without holding out test records, so nodes are a few too many where they follow from the data."""
        if scenario.data is None:
            return cls(scenario.nodes.number or 1, 1, 1)
        records, features, classes = loading.shape(scenario.data, scenario.folder)
        each = scenario.nodes.records if isinstance(scenario.nodes.records, int) else 1
        nodes = scenario.nodes.number or max(1, records // max(each, 1))
        return cls(nodes, 1 if classes == 2 else classes, features)

    @property
    def work(self) -> float:
        """The work of a cycle, roughly; only ratios matter."""
        return float(self.nodes * self.models * self.features)


def largest(tasks: Sequence[Task]) -> Task:
    """The run that needs most."""
    sizes = {id(task.point): Size.of(task.point.scenario).work for task in tasks}
    return max(tasks, key=lambda task: sizes[id(task.point)] * (1 + longest_delay(task.point.scenario)))


def longest_delay(scenario: Scenario) -> int:
    """The most cycles that a message is under way."""
    shortest, cumulative = scenario.transport.lags()
    return shortest + cumulative.size - 1


def fitting(tasks: Sequence[Task], how: Execution) -> int:
    """How many of the workers asked for fit into memory at a time; an error where not even one does."""
    workers, threads = how.shares(len(tasks))
    task = largest(tasks)
    need = predicted(task.point.scenario, threads, how.paranoid, available() / workers)
    if need is None or workers * need <= available():
        return workers
    if need > available():
        raise too_large(need)
    return max(1, available() // need)


def too_large(need: int) -> UserError:
    """What to say of a run that does not fit."""
    what = f"needs about {readable(need)} of memory, {readable(available())} available"
    return UserError(what, key="nodes", hint="simulate fewer nodes")


def predicted(scenario: Scenario, threads: int = 1, paranoid: bool = False, enough: float | None = None) -> int | None:
    """Bytes that a run will need at the most, roughly; None where it is little, or cannot be told beforehand.

    What seems to be more than `enough`, by default all that there is, is looked at more closely.
    """
    size = Size.of(scenario)
    if size.nodes * LEAST > available():
        return size.nodes * LEAST
    each = MOST * size.models * size.features * (1 + longest_delay(scenario))
    if size.nodes * each < WORTH_MEASURING * available():
        return None
    try:
        return _carried_on(scenario, size.nodes, threads, paranoid, available() if enough is None else enough)
    except (UserError, MemoryError):  # it will be told by the run itself, and better
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
    _tried(_smaller(scenario, nodes, few), threads, paranoid)  # kernels are compiled and data is read: that counts not
    found = carried_on(peak, few, nodes, enough - used())
    loading.forget_drawn()
    return used() + found


def carried_on(peak: Callable[[int], int], few: int, nodes: int, enough: float = math.inf) -> int:
    """What is needed at so many nodes, from what is needed at `few` of them, twice as many, four times, …

    It grows as a line or as a parabola. But what comes first may need more than so few nodes do, and hide them, as
    reading the data does: there the numbers tried are doubled until they tell the same twice, or lie on a line. And
    what a few nodes need may not grow for ever, as an attack on a sample does not: before it is said that there is not
    `enough`, more are tried.
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
    """Of the curve through what `few` nodes need, twice and four times as many; −1: it is neither line nor parabola."""
    first, second = two - one, four - two  # a line has twice as much, a parabola up to four times
    slope = second / (2 * few)
    if second <= 0 or second > STEEPEST * first:
        return slope, -1.0
    return slope, (slope - first / few) / (3 * few) if second > STRAIGHT * first else 0.0


def _smaller(scenario: Scenario, nodes: int, wanted: int) -> Scenario:
    """The same with so many nodes, each with as many records."""
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
