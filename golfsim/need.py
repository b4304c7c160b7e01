"""How much memory a run will need, before it starts.

Nothing is declared and nothing guessed: the same scenario is set up with some small numbers of nodes and run for a few
cycles, the largest amount that is allocated at a time is measured, and what grows with the number of nodes is carried
on to the real one. So it holds for every protocol, a user's own too. What kernels allocate inside is not seen; it is
little. Mailboxes count as large as they can get.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING, NamedTuple

from golfsim import datasets
from golfsim.errors import UserError
from golfsim.memory import available, readable, used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from golfsim.batch import How
    from golfsim.runner import Task
    from golfsim.scenario import Scenario

LEAST = 24  # bytes a node that even a world without layers needs
MOST = 256  # bytes for each feature of a node's model that a run hardly exceeds: below, nothing is measured
WORTH_MEASURING = 1 / 8  # of what is available
CYCLES = 2
SECONDS = 5.0  # that a trial may take, when a cycle is over
PARTS = 64  # the smallest trial has so much fewer nodes
FEWEST, MANY = 1000, 50_000  # nodes of the smallest trial


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
        records, features, classes = datasets.shape(scenario.data, scenario.folder)
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


def fitting(tasks: Sequence[Task], how: How) -> int:
    """How many of the workers asked for fit into memory at a time; an error where not even one does."""
    workers, threads = how.shares(len(tasks))
    task = largest(tasks)
    need = predicted(task.point.scenario, threads, how.paranoid)
    if need is None or workers * need <= available():
        return workers
    if need > available():
        raise too_large(need)
    return max(1, available() // need)


def too_large(need: int) -> UserError:
    """What to say of a run that does not fit."""
    what = f"needs about {readable(need)} of memory, {readable(available())} available"
    return UserError(what, key="nodes", hint="simulate fewer nodes")


def predicted(scenario: Scenario, threads: int = 1, paranoid: bool = False) -> int | None:
    """Bytes that a run will need at the most, roughly; None where it is little, or cannot be told beforehand."""
    size = Size.of(scenario)
    if size.nodes * LEAST > available():
        return size.nodes * LEAST
    each = MOST * size.models * size.features * (1 + longest_delay(scenario))
    if size.nodes * each < WORTH_MEASURING * available():
        return None
    try:
        return _carried_on(scenario, size.nodes, threads, paranoid)
    except (UserError, MemoryError):  # it will be told by the run itself, and better
        return None


def _carried_on(scenario: Scenario, nodes: int, threads: int, paranoid: bool) -> int:
    few = min(max(nodes // PARTS, min(FEWEST, nodes // 8), 1), MANY)
    peaks = []
    for times in (0, 1, 2, 4):  # the first time kernels are compiled and data is read: that does not count
        small = _smaller(scenario, nodes, few * max(times, 1))
        tracemalloc.start() if times else None
        try:
            _tried(small, threads, paranoid)
            peaks.append(tracemalloc.get_traced_memory()[1] if times else 0)
        finally:
            tracemalloc.stop()
    datasets.forget_drawn()
    _, one, two, four = peaks
    return used() + _line_or_parabola(few, one, two, four, nodes)


def _smaller(scenario: Scenario, nodes: int, wanted: int) -> Scenario:
    """The same with so many nodes, each with as many records."""
    config = scenario.nodes
    changes: dict[str, int] = {} if config.number is None else {"nodes.number": wanted}
    if scenario.data is not None and not config.repeat:
        records, _, _ = datasets.shape(scenario.data, scenario.folder)
        each = config.records if isinstance(config.records, int) else None
        changes["data.train"] = each * wanted if each else max(2, records * wanted // nodes)
    return scenario.change(changes)


def _tried(scenario: Scenario, threads: int, paranoid: bool) -> None:
    from golfsim.engine import Simulation

    begun = time.monotonic()
    simulation = Simulation(scenario, threads=threads, paranoid=paranoid)
    for cycle in simulation:
        if cycle >= CYCLES or time.monotonic() - begun > SECONDS:
            return


def _line_or_parabola(few: int, one: int, two: int, four: int, nodes: int) -> int:
    """What is needed at so many nodes, from what is needed at `few` of them, twice and four times as many."""
    slope = (four - two) / (2 * few)
    bend = 0.0
    if four - two > 2.4 * (two - one) > 0:  # a line has 2, a parabola 4
        bend = ((four - two) / (2 * few) - (two - one) / few) / (3 * few)
        slope += bend * 2 * few
    more = nodes - 4 * few
    return int(four + slope * more + bend * more**2)
