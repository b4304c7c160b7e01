"""Invariants that must hold after each cycle for every protocol; checked by `golfsim run --paranoid`.

The checks never change a run, so its log stays the same. They need memory for a copy of the state of all nodes, and
time to read all of it. One check, that models are finite, is cheap and is made at every measurement of every run: see
`check_models`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.words import counted
from golfsim.network.mailbox import flat
from golfsim.privacy.ledger import Ledger
from golfsim.protocol.learner import Learner
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Published, RawRecords

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.protocol.base import Protocol

Layers = dict[str, "Protocol[Any]"]
TOLERANCE = 1e-9  # relative tolerance of the spent ε, which is computed from integer numbers of visits
PART = 1 << 16  # the number of values per step: they fit into the processor's cache
ROOM = "scale the features (scale in [data]), or use a larger lambda or epsilon"


class Violation(UserError):
    """A violated invariant: which one, in which layer, at which node, in which cycle.

    Parameters
    ----------
    invariant : str
        The name of the invariant.
    layer : str
        The name of the layer.
    where : str
        The node, or the place in an array.
    cycle : int
        The cycle after which the invariant does not hold.
    what : str
        What was found.
    hint : str, optional
        What the user can do.
    """

    def __init__(self, invariant: str, layer: str, where: str, cycle: int, what: str, hint: str | None = None) -> None:
        super().__init__(f"{invariant}: {where}, cycle {cycle}: {what}", key=layer, hint=hint)
        self.invariant, self.cycle = invariant, cycle


class Watch:
    """Compare the state of a run before and after each cycle."""

    def __init__(self, world: World, layers: Layers, raw: RawRecords | None) -> None:
        self._world, self._layers, self._raw = world, layers, raw
        self._nodes: dict[str, dict[str, NDArray[Any]]] = {}
        self._visits: dict[str, dict[str, NDArray[Any]]] = {}
        self._counts = world.transport.counts.copy()

    def begin(self) -> None:
        """Copy the state of the nodes and of the ledgers before a cycle."""
        for name, layer in self._layers.items():
            self._nodes[name] = {key: array.copy() for key, array in layer.of_nodes(self._world).items()}
            self._visits[name] = {key: ledger.visits.copy() for key, ledger in layer.parts(Ledger)}
        self._counts = self._world.transport.counts.copy()

    def end(self) -> None:
        """Check all invariants after the cycle."""
        for name, layer in self._layers.items():
            self._offline_untouched(name, layer)
            self._views(name, layer)
            self._ledgers(name, layer)
            self._messages(name, layer)
        check_models(self._world, self._layers)

    def _offline_untouched(self, name: str, layer: Protocol[Any]) -> None:
        away = np.flatnonzero(~self._world.online)
        for key, array in layer.of_nodes(self._world).items():
            now, before = flat(array[away]), flat(self._nodes[name][key][away])
            same = (now == before) | ((now != now) & (before != before))
            for row in np.flatnonzero(~same.all(axis=1))[:1]:
                self._refuse("offline nodes untouched", name, away[row], f"“{key}” of an offline node has changed")

    def _views(self, name: str, layer: Protocol[Any]) -> None:
        links = layer.links(self._world) if isinstance(layer, Overlay) else None
        if links is None:
            return
        owner = np.repeat(np.arange(self._world.nodes), np.diff(links.indptr))
        for place in np.flatnonzero(owner == links.indices)[:1]:
            self._refuse("views", name, owner[place], "the view contains the node itself")
        order = np.lexsort((links.indices, owner))
        peer = links.indices[order]
        twice = (owner[1:] == owner[:-1]) & (peer[1:] == peer[:-1])
        for place in np.flatnonzero(twice)[:1]:
            who = self._world.label[peer[place]]
            self._refuse("views", name, owner[place], f"the view contains node {who} twice")

    def _ledgers(self, name: str, layer: Protocol[Any]) -> None:
        for key, ledger in layer.parts(Ledger):
            budget, visits = ledger.budget, ledger.visits
            wrong = {
                "has spent less than in the cycle before": visits < self._visits[name][key],
                f"was used more than {counted(budget.visits_allowed, 'time')}": visits > budget.visits_allowed,
                f"has spent more than ε = {ledger.total:g}": ledger.spent() > ledger.total * (1 + TOLERANCE),
            }
            for what, where in wrong.items():
                for at in np.flatnonzero(where)[:1]:
                    self._refuse("ledger", name, self._owner(ledger, int(at)), f"“{key}” {at} {what}")

    def _owner(self, ledger: Ledger, at: int) -> int:
        """Return the node of an entry of a ledger, which has one entry per record or one per node."""
        if self._raw is not None and ledger.visits.size == self._raw.capacity().sum():
            return int(np.searchsorted(np.cumsum(self._raw.capacity()), at, side="right"))
        return min(at, self._world.nodes - 1)

    def _messages(self, name: str, layer: Protocol[Any]) -> None:
        transport, row = self._world.transport, list(self._layers).index(name)
        total = transport.totals(name)
        left, kept = total["messages.under_way"], layer.under_way()
        if (transport.counts[row] < self._counts[row]).any():
            self._refuse("messages conserved", name, None, "a counter of messages has decreased")
        if left != kept:
            words = ", ".join(f"{total[f'messages.{what}']} {what}" for what in ("sent", "delivered", "lost"))
            self._refuse("messages conserved", name, None, f"{words}: expected {left} in transit; found {kept}")

    def _refuse(self, invariant: str, layer: str, node: Any, what: str) -> None:
        where = "all nodes" if node is None else f"node {self._world.label[node]}"
        raise Violation(invariant, layer, where, self._world.cycle, what)


def check_models(world: World, layers: Layers) -> None:
    """Refuse models and published records that are not finite, so that no curve hides an overflow."""
    for name, layer in layers.items():
        if isinstance(layer, Learner | Published):
            for key, array in _arrays(layer):
                by_node = len(array) == world.nodes and key in layer.of_nodes(world)
                for row in _not_finite(array, world.seen if by_node else None):
                    where = f"node {world.label[row]}" if by_node else f"“{key}” {row}"
                    raise Violation("models finite", name, where, world.cycle, _overflow(key, array[row]), ROOM)


def _arrays(layer: Protocol[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the floating-point arrays of a layer. Single numbers are left out: they may be infinite, like ε."""
    for key, array in layer.arrays().items():  # models in a mailbox are checked when they have arrived
        if array.dtype.kind == "f" and array.ndim and array.size:
            yield key, array


def _not_finite(array: NDArray[Any], among: NDArray[np.bool_] | None) -> Iterator[int]:
    """Yield the first row with a number that is not finite, if any; with `among`, only of the marked rows."""
    rows = flat(array)
    step = max(1, PART // max(rows.shape[1], 1))
    for lo in range(0, len(rows), step):
        part = np.isfinite(rows[lo : lo + step])
        if not part.all():
            wrong = ~part.all(axis=1) if among is None else ~part.all(axis=1) & among[lo : lo + step]
            if wrong.any():
                yield lo + int(np.argmax(wrong))
                return


def _overflow(key: str, row: NDArray[Any]) -> str:
    values = np.ravel(row)
    place = int(np.argmax(~np.isfinite(values)))
    return f"“{key}” is {values[place]} at index {place}: overflow beyond ±{np.finfo(values.dtype).max:.2g}"
