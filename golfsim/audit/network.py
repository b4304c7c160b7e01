"""The private layers of a scenario in a network of a few nodes, run many times with different noise.

The attacker knows everything except the noise: which nodes met, which groups formed, what was asked. Therefore all of
that is equal in every run, and only what a layer declares as secret is redrawn. No node leaves and no message is lost,
which can only reveal more. Every node can meet every other node, whatever the overlay.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.audit.neighbours import NeighbouringPair, Record
from golfsim.core.errors import UserError
from golfsim.data import loading, scaling
from golfsim.network.transport import Transport, TransportConfig
from golfsim.network.world import World
from golfsim.privacy.accounting import spent
from golfsim.privacy.mechanisms import Guarantee, Unit
from golfsim.protocol.base import Audited, Protocol, with_layers_below
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import About, RawRecords
from golfsim.scenario.model import Scenario
from golfsim.sim.observers import accountable

Layers = dict[str, Protocol[Any]]
SCHEDULE = ("first", "until", "every")


class Network:
    """What an audit runs: the private layers of a scenario, the layers below them, and sizes that suit all of them."""

    def __init__(self, scenario: Scenario) -> None:
        everything = scenario.stack(scenario.seed, RawRecords.stand_in() if scenario.data else None)
        self.private = [name for name, layer in everything.items() if layer.touches_private_data and audible(layer)]
        needed = {name for each in self.private for name in with_layers_below(everything[each])}
        wanted = {name: everything[name].audited() for name in everything if name in needed}
        self.scenario = _with_changes(scenario, everything, wanted) if needed else scenario
        self.size = _largest([wanted[name] for name in wanted if not isinstance(everything[name], Overlay)])
        self.classes = loading.shape(scenario.data, scenario.folder)[2] if scenario.data else 2

    def stack(self, pair: NeighbouringPair, side: int, unit: Unit) -> Layers:
        """Return the layers over one of two neighbouring data sets; each run sets them up again."""
        return self.scenario.stack(self.scenario.seed, self._raw(pair, pair.sides[side], unit))

    def _raw(self, pair: NeighbouringPair, changed: Record, unit: Unit) -> RawRecords:
        nodes, each = self.size.nodes, self.size.records
        x, label = np.tile(pair.crowd.x, (nodes * each, 1)), np.full(nodes * each, pair.crowd.label, np.int32)
        start = pair.node % nodes * each
        rows = slice(start, start + (each if unit == "node" else 1))
        x[rows], label[rows] = changed
        data = self.scenario.data
        about = About(tuple(f"feature {f}" for f in range(self.size.features)), scaling.span(data) if data else None)
        caveat = loading.caveat(data, self.scenario.folder) if data else ""
        return RawRecords(x, label, np.full(nodes, each), self.classes, self.scenario.seed, caveat=caveat, about=about)

    def _world(self) -> World:
        names = [str(table["name"]) for table in self.scenario.protocol]
        seed, shuffled = self.scenario.seed, self.scenario.order == "shuffled"
        transport = Transport(TransportConfig(), seed, names)
        return World(self.size.nodes, seed, threads=1, shuffled=shuffled, transport=transport)

    def run(self, layers: Layers, noise: int) -> dict[str, NDArray[np.float64]]:
        """Run once. Return the numbers that each private layer released in all cycles."""
        world = self._world()
        for layer in layers.values():
            layer.redraw_secrets(noise)
            layer.setup(world)
        released: dict[str, list[NDArray[np.float64]]] = {name: [] for name in self.private}
        for _ in range(self.size.cycles):
            world.advance()
            for layer in layers.values():
                if world.fresh.size:
                    layer.start(world, layer.to_start(world))
                layer.step(world)
            for name in self.private:
                released[name].append(layers[name].released())
        return {name: np.concatenate(parts) for name, parts in released.items()}

    def guarantees(self, pair: NeighbouringPair) -> tuple[dict[str, Guarantee], dict[str, Guarantee]]:
        """Return what each private layer states after a run: its guarantee, and that at the δ of `[privacy]`.

        Layers whose guarantee already has this δ, or that state nothing at a δ, are not in the second one.
        """
        layers = self.stack(pair, 0, "record")
        self.run(layers, 0)
        stated = {name: layers[name].guarantee() for name in self.private}
        delta = self.scenario.privacy.stated_delta
        if delta is None:
            return stated, {}
        ledgers = {name: accountable(layers[name]) for name in self.private if stated[name].delta != delta}
        note = "for the visits of the audit"
        return stated, {
            name: Guarantee(float(spent(found, delta).max()), stated[name].unit, note, delta=delta)
            for name, found in ledgers.items()
            if found
        }


def audible(layer: Protocol[Any]) -> bool:
    """Return whether a layer learns classes, as the records of an audit have them; refuse others that state an ε."""
    if getattr(layer, "task", "classes") in ("classes", "clusters"):
        return True
    if getattr(layer.config, "epsilon", None) is not None:
        what = f"the records of an audit have classes, and “{layer.name}” learns numbers"
        raise UserError(what, key=f"{layer.name}.learner", hint="audit the layer with a learner of classes")
    return False


def _largest(wanted: list[Audited]) -> Audited:
    """Return the smallest size that suits all layers, with records that suit all."""
    sizes = np.array([each[:4] for each in wanted] or [Audited()[:4]]).max(axis=0)
    norm: Literal["l1", "l2"] = "l2" if {each.norm for each in wanted} == {"l2"} else "l1"
    nodes, records, features, cycles = sizes.tolist()
    effort = max((each.effort for each in wanted), default=1)
    return Audited(nodes, records, features, cycles, norm, effort=effort)


def _with_changes(scenario: Scenario, layers: Layers, wanted: dict[str, Audited]) -> Scenario:
    tables = [dict(table) for table in scenario.protocol if table["name"] in wanted]
    for place, table in enumerate(tables):
        name = str(table["name"])
        if isinstance(layers[name], Overlay):
            tables[place] = {"name": name, "use": "uniform"}
        else:
            changed = {key: v for key, v in table.items() if key not in SCHEDULE} | wanted[name].changes
            tables[place] = {key: value for key, value in changed.items() if value is not None}
    return scenario.change({"protocol": tables, "churn": [], "adversary": [], "transport": {}, "sweep": {}, "case": []})
