"""The contract of protocols: what every layer of a stack must do."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
from pydantic import BaseModel

from golfsim.core import rng, threads
from golfsim.protocol.base import Protocol
from golfsim.protocol.loading import find
from golfsim.protocol.overlay import Overlay
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint
from golfsim.sim.simulation import Simulation

NODES = 61  # a number that no other dimension of a state has
CYCLES = 6
CHURN = {"kind": "rate", "leave": 0.2, "rejoin": 0.3}
DATA = {"set": "random", "test": 30, "scale": ["minmax", "l1"]}  # private layers need records of length 1
FAULTS: dict[str, dict[str, Any]] = {
    "loss": {"loss": 0.3},
    "delay": {"delay": [1, 4]},
    "partition": {"partition": [{"share": 0.4, "from": 2, "until": 4, "contacts": 3}]},
}
BYSTANDERS = ({"name": "bystander", "use": "newscast", "view": 3}, {"name": "onlooker", "use": "uniform"})
SUBJECT = "subject"  # the name of the tested layer

Table = Mapping[str, Any]
Tree = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """The layer to be tested: the smallest table that runs it, and what it needs."""

    layer: Table  # without a name
    below: tuple[Table, ...] = ()  # the layers that it builds on
    above: tuple[Table, ...] = ()  # layers that show in the log what it does
    data: bool = False  # it needs records
    once: bool | int = False  # it acts only the first time, or in so many turns, as long as no node comes online
    folder: Path = Path()  # where the paths of its files begin

    @property
    def protocol(self) -> type[Protocol[Any]]:
        """The class of the layer."""
        return find(str(self.layer["use"]), self.folder)

    def tree(self, *, number: int = NODES, seen: bool = True, **tables: Any) -> Tree:
        """Return a scenario in which the layer is called “subject”; `seen`: with the layers above."""
        base: Tree = {
            "name": "the contract",
            "seed": 1,
            "cycles": CYCLES,
            "nodes": {"records": 2} if self.data else {"number": number},
            "protocol": [*self.below, {"name": SUBJECT} | dict(self.layer), *(self.above if seen else ())],
            "observe": {"every": 1, "nodes": 10},
        }
        if self.data:
            base["data"] = DATA | {"train": 2 * number}
        return copy.deepcopy(base | tables)

    def accepted(self, *faults: str, seen: bool = True) -> Tree:
        """Return a `[transport]` table with those of the faults that all layers accept."""
        layers = [*self.below, self.layer, *(self.above if seen else ())]
        common = frozenset.intersection(*(find(str(table["use"]), self.folder).accepts for table in layers))
        return {key: value for fault in faults if fault in common for key, value in FAULTS[fault].items()}

    def simulation(self, tree: Tree, number_of_threads: int = 1) -> Simulation:
        """Return a run of a scenario before its first cycle."""
        return Simulation(Scenario.of(tree, self.folder), threads=number_of_threads)

    def finished(self, tree: Tree, number_of_threads: int = 1) -> Simulation:
        """Return a run of a scenario after its last cycle."""
        run = self.simulation(tree, number_of_threads)
        for _ in run:
            pass
        return run


def contract(
    layer: Table,
    below: Sequence[Table] = (),
    *,
    above: Sequence[Table] = (),
    data: bool = False,
    once: bool | int = False,
    folder: str | Path = ".",
) -> None:
    """Run every check of the contract on a protocol; raise AssertionError with the name of the first that fails.

    Parameters
    ----------
    layer : dict
        The smallest table of the protocol that a scenario file would have, without a name.
    below : list of dict
        The tables of the layers that it refers to, lowest first, each with its name.
    above : list of dict
        Further layers, e.g. one whose metrics show what the tested layer does. They refer to it as “subject”.
    data : bool
        Whether the protocol needs records. The raw records of the nodes are called “raw”.
    once : bool or int
        Whether it acts only the first time, as long as no node comes online; or the number of turns in which it acts.
    folder : path
        Where relative paths of the tables begin, as a scenario file's folder.
    """
    subject = Subject(layer, tuple(below), tuple(above), data, once, Path(folder))
    for name, check in CHECKS.items():
        try:
            check(subject)
        except Exception as error:
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            raise AssertionError(f"the contract is broken: {name}: {kind}{error}") from error


def rows(run: Simulation) -> list[tuple[Any, ...]]:
    """Return the log of a run in a form that can be compared: NaN equals NaN."""
    return list(zip(run.log.cycles, run.log.names, map(repr, run.log.values), strict=True))


def known_state(run: Simulation) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a run's state by name, without the rows of nodes that were never online."""
    for name, array in run.state().items():
        by_node = name.startswith("layer.") and name.count("/") == 1 and array.shape[:1] == (run.world.nodes,)
        yield name, array[run.world.seen] if by_node else array


def state(run: Simulation) -> dict[str, tuple[Any, ...]]:
    """Return the state of a run in a form that can be compared bit for bit."""
    return {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in known_state(run)}


def _choices(run: Simulation) -> list[int]:
    """Return the peers that an overlay chooses; its rows and its state may not show them."""
    layer, world = run.layer(SUBJECT), run.world
    return layer.choose(world, world.order, layer.key("contract")).tolist() if isinstance(layer, Overlay) else []


def _same(one: Simulation, other: Simulation, what: str) -> None:
    assert rows(one) == rows(other), f"{what} give other rows"
    left, right = state(one), state(other)
    differing = [name for name in left.keys() | right.keys() if left.get(name) != right.get(name)]
    assert not differing, f"{what} give another state: {', '.join(sorted(differing))}"
    assert _choices(one) == _choices(other), f"{what} give other peers"


def same_seed(subject: Subject) -> None:
    """Check that the same seed gives the same rows and the same state."""
    tree = subject.tree(churn=CHURN, transport=subject.accepted("loss", "delay"))
    one, other = subject.finished(tree), subject.finished(tree)
    assert len(rows(one)) >= CYCLES, "the log is empty"
    _same(one, other, "two runs with the same seed")


def another_seed(subject: Subject) -> None:
    """Check that another seed gives other rows, another state or other peers, and rows of the same metrics."""
    one, other = (subject.finished(subject.tree(seed=seed)) for seed in (1, 2))
    assert one.log.names == other.log.names, "another seed gives other metrics"
    differ = rows(one) != rows(other) or state(one) != state(other) or _choices(one) != _choices(other)
    assert differ, "another seed gives the same: draw random numbers with self.key(purpose)"


@contextmanager
def _small_shares() -> Iterator[None]:
    """Divide also small networks among threads."""
    before, threads.SMALLEST_SHARE = threads.SMALLEST_SHARE, 4
    try:
        yield
    finally:
        threads.SMALLEST_SHARE = before


def any_number_of_threads(subject: Subject) -> None:
    """Check that one, two and four threads give the same bits."""
    for faults in ((), ("loss",), ("loss", "delay")):
        transport = subject.accepted(*faults, seen=False)
        tree = subject.tree(seen=False, number=301, cycles=5, churn=CHURN, transport=transport)
        with _small_shares():
            one, two, four = (subject.finished(tree, number) for number in (1, 2, 4))
        _same(one, two, "one thread and two")
        _same(one, four, "one thread and four")


def per_node(layer: Protocol[Any]) -> dict[str, Any]:
    """Return the arrays of a layer's state that have one row per node."""
    return {name: array for name, array in layer.state().items() if array.ndim and len(array) == NODES}


def offline_nodes_rest(subject: Subject) -> None:
    """Check that the state of an offline node does not change, and that nothing becomes NaN or infinite."""
    for order in ("fixed", "shuffled"):
        transport = subject.accepted("loss", "delay", seen=False)
        run = subject.simulation(subject.tree(seen=False, cycles=15, churn=CHURN, transport=transport, order=order))
        layer = run.layer(SUBJECT)
        while not run.finished:
            before = {name: array.copy() for name, array in per_node(layer).items()}
            run.step()
            offline, known = ~run.world.online, run.world.seen
            for name, array in per_node(layer).items():
                same = array[offline].tobytes() == before[name][offline].tobytes()
                assert same, f"{name} of an offline node changes in cycle {run.world.cycle}"
                finite = array.dtype.kind != "f" or np.isfinite(array[known]).all()
                assert finite, f"{name} is not finite in cycle {run.world.cycle}"
        assert np.isfinite(run.log.values).all(), "a metric is not finite"


def few_nodes(subject: Subject) -> None:
    """Check that the run continues when only one node is online, and when none is."""
    for left in (0, 1):
        crash = {"kind": "crash", "at": 3, "number": NODES - left}
        run = subject.finished(subject.tree(churn=crash, transport=subject.accepted("loss", "delay")))
        assert run.world.cycle == CYCLES
        assert set(run.log.cycles) == ({1, 2, 3, 4, 5, 6} if left else {1, 2}), "rows are missing"


def faults(subject: Subject) -> None:
    """Check that a fault of the network is refused with a message, or that messages add up.

    They add up if sent = delivered + lost + in transit.
    """
    for fault, transport in FAULTS.items():
        tree = subject.tree(seen=False, cycles=12, transport=transport)
        layers = [*subject.below, {"name": SUBJECT} | dict(subject.layer)]
        refusing = [str(t["name"]) for t in layers if fault not in find(str(t["use"]), subject.folder).accepts]
        if refusing:
            text = "; ".join(complaint(subject, lambda tree: None, tree))
            assert any(f"transport.{fault}: “{name}”" in text for name in refusing), f"{fault} is not refused: {text}"
            continue
        _adds_up(subject.finished(tree), fault)


def _adds_up(run: Simulation, fault: str) -> None:
    totals = run.world.transport.totals(SUBJECT)
    delivered, lost, moving = (totals[f"messages.{what}"] for what in ("delivered", "lost", "under_way"))
    assert min(delivered, lost, moving) >= 0
    assert delivered + lost + moving == totals["messages.sent"], f"messages do not add up with {fault}: {totals}"
    assert moving == run.layer(SUBJECT).under_way(), "messages in transit are not those in the mailboxes"
    if totals["messages.sent"]:
        assert delivered > 0, f"no message arrives with {fault}"
        assert moving > 0 if fault == "delay" else lost > 0, f"{fault} does not show"


def resumed(subject: Subject) -> None:
    """Check that an interrupted and resumed run ends as an uninterrupted one, with any number of threads."""
    tree = subject.tree(churn=CHURN, transport=subject.accepted("loss", "delay"), order="shuffled")
    straight = subject.finished(tree)
    for at in (1, 4):
        half = subject.simulation(tree)
        for _ in range(at):
            half.step()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(half, Path(folder, "state"))
            for number in (1, 2):
                again = subject.simulation(tree, number)
                checkpoint.load(again, Path(folder, "state"))
                assert list(again) == list(range(at + 1, CYCLES + 1))
                _same(again, straight, f"a run resumed after cycle {at} and an uninterrupted one")


def schedule(subject: Subject) -> None:
    """Check that a layer acts only in the cycles of its schedule."""
    scheduled = replace(subject, layer=dict(subject.layer) | {"first": 3, "until": 7, "every": 2})
    run = scheduled.simulation(scheduled.tree(seen=False, cycles=10))
    changed = []
    run.step()
    layer, transport = run.layer(SUBJECT), run.world.transport
    while not run.finished:
        before = {name: array.tobytes() for name, array in layer.state().items()}
        sent = transport.totals(SUBJECT)["messages.sent"]
        run.step()
        after = {name: array.tobytes() for name, array in layer.state().items()}
        if after != before or transport.totals(SUBJECT)["messages.sent"] != sent:
            changed.append(run.world.cycle)
    turns = [3, 5, 7][: int(subject.once) or None]
    expected = turns if layer.state() else []
    assert changed == expected, f"it acts in cycles {changed}, not in {expected}"


def mail_after_a_rest(subject: Subject) -> None:
    """Check that a layer that rests gets the messages of earlier cycles when it acts again."""
    if not subject.accepted("delay", seen=False):
        return
    for every, delay in ((2, 1), (3, 1), (4, 2), (5, 3)):
        rests = replace(subject, layer=dict(subject.layer) | {"every": every})
        run = rests.simulation(rests.tree(seen=False, cycles=1 + every, transport={"delay": delay}))  # two turns
        run.step()
        first_turn = run.world.transport.totals(SUBJECT)["messages.sent"]
        while not run.finished:
            run.step()
        delivered = run.world.transport.totals(SUBJECT)["messages.delivered"]
        assert delivered == first_turn, f"{delivered} of {first_turn} messages arrive"


def other_layers(subject: Subject) -> None:
    """Check that further layers in the stack change none of its numbers."""
    tree = subject.tree(churn=CHURN, transport=subject.accepted("loss"))
    alone = subject.finished(tree)
    first, last = BYSTANDERS
    crowded = subject.finished(tree | {"protocol": [first, *tree["protocol"], last]})
    names = {table["name"] for table in BYSTANDERS}
    assert [row for row in rows(crowded) if row[1][0] not in names] == rows(alone)


def public_state(subject: Subject) -> None:
    """Check that public attributes are arrays, numbers or mailboxes."""
    run = subject.simulation(subject.tree())
    run.step()
    for name, array in run.layer(SUBJECT).state().items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype.kind in "biuf", f"{name} has type {array.dtype}"


def own_draws(subject: Subject) -> None:
    """Check that its keys depend on the seed of the run, its name and the purpose."""
    run = Simulation(Scenario.of(subject.tree(seed=5), subject.folder), run=3)
    for name, layer in run.layers.items():
        assert layer.key("some purpose") == rng.key(7, name, "some purpose")


def complaint(subject: Subject, change: Callable[[Tree], Any], tree: Tree | None = None) -> list[str]:
    """Return the messages about a scenario in which the table of the subject has been changed."""
    tree = tree or subject.tree(seen=False)
    change(next(layer for layer in tree["protocol"] if layer["name"] == SUBJECT))
    try:
        Scenario.of(tree, subject.folder)
    except ScenarioError as error:
        return error.messages
    raise AssertionError("a wrong scenario is not refused")


def keys_of(subject: Subject) -> dict[str, Any]:
    """Return the fields of its settings by their key in a scenario file."""
    return {field.alias or name: field for name, field in subject.protocol.Config.model_fields.items()}


def _one(messages: list[str], *parts: str) -> None:
    assert len(messages) == 1, messages
    for part in parts:
        assert part in messages[0], messages[0]


def unknown_key(subject: Subject) -> None:
    """Check that an unknown key is refused, and that the nearest one is named."""
    _one(complaint(subject, lambda layer: layer.update(evry=2)), "subject.evry: unknown key", "every")


def _takes_tables(kind: Any) -> bool:
    """Return whether a value of this type may be a table."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return True
    return get_origin(kind) is dict or any(_takes_tables(one) for one in get_args(kind))


def wrong_types(subject: Subject) -> None:
    """Check that a value of a wrong type is refused with its key, and that no value is converted."""
    for key, field in keys_of(subject).items():
        if key not in ("name", "use"):
            wrong = 3 if _takes_tables(field.annotation) or field.discriminator else {"not": "this"}
            messages = complaint(subject, lambda layer, key=key, wrong=wrong: layer.update({key: wrong}))  # type: ignore[misc]
            _one(messages, f"subject.{key}: expected")
    for value in ("2", 2.0, True):
        messages = complaint(subject, lambda layer, value=value: layer.update(every=value))  # type: ignore[misc]
        _one(messages, "subject.every: expected an integer")


def missing_keys(subject: Subject) -> None:
    """Check that a missing required key is named, and that all other keys have defaults."""
    required = {key for key, field in keys_of(subject).items() if field.is_required()} - {"name", "use"}
    assert required <= set(subject.layer), f"the smallest table lacks {required - set(subject.layer)}"
    for key in sorted(required):
        _one(complaint(subject, lambda layer, key=key: layer.pop(key)), f"subject.{key}: missing")  # type: ignore[misc]


CHECKS: dict[str, Callable[[Subject], None]] = {
    check.__name__: check
    for check in (
        same_seed, another_seed, any_number_of_threads, offline_nodes_rest, few_nodes, faults, resumed, schedule,
        mail_after_a_rest, other_layers, public_state, own_draws, unknown_key, wrong_types, missing_keys,
    )
}  # fmt: skip
