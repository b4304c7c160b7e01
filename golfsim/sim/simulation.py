"""The cycle loop and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from golfsim.core.errors import UserError
from golfsim.core.provenance import code_version
from golfsim.data import loading, scaling
from golfsim.data.placement import FeatureSkewSplit, Placement, place, skewed
from golfsim.network.transport import Transport
from golfsim.network.world import World
from golfsim.protocol.base import Protocol
from golfsim.protocol.records import About, RawRecords
from golfsim.scenario.model import Scenario
from golfsim.sim.invariants import Watch, check_models
from golfsim.sim.log import Log
from golfsim.sim.observers import Observer, TestSet


class Simulation:
    """One run of a scenario.

    Iterate over it to look at arrays while it runs; each turn is a cycle::

        for cycle in Simulation(scenario):
            ...

    With `paranoid` all that must hold is checked after each cycle, see `golfsim.sim.invariants`.
    """

    def __init__(self, scenario: Scenario, run: int = 1, threads: int = 1, paranoid: bool = False) -> None:
        self.scenario = scenario
        self.run = run
        self.seed = scenario.seed + run - 1
        self.finished = False
        data = loading.load(scenario.data, self.seed, scenario.folder, run) if scenario.data else None
        placement = place(scenario.nodes, data.y, data.classes, data.columns, self.seed) if data else None
        names = [str(table["name"]) for table in scenario.protocol]
        self.world = World(
            placement.counts.size if placement else scenario.nodes.number or 0,
            self.seed,
            threads=threads,
            shuffled=scenario.order == "shuffled",
            transport=Transport(scenario.transport, self.seed, names),
            churn_configs=scenario.churn,
            adversaries=scenario.adversary,
            folder=scenario.folder,
        )
        self.raw = self._raw(data, placement) if data and placement else None
        self.layers = scenario.stack(self.seed, self.raw)
        self.data_digest = data.digest if data else ""
        self.features = data.features if data else ()
        self.scaling = data.steps if data else ()
        test = TestSet(data.test_x, data.test_y, len(data.classes)) if data else None
        self.observer = Observer(scenario.observe, self.seed, scenario.cycles, test, self.raw)
        self.log = Log(run, self.seed, data.note if data else "")
        self.log.tables = self.observer.tables(self.world, names)
        self.latest: dict[str, dict[str, float]] = {}
        self.world.has_apart = any(layer.apart for layer in self.layers.values())
        for layer in self.layers.values():
            layer.setup(self.world)
        self._watch = Watch(self.world, self.layers, self.raw) if paranoid else None

    def _raw(self, data: loading.Dataset, placement: Placement) -> RawRecords:
        config = self.scenario.nodes
        placement = placement.renumbered(self.world.label)
        x = data.x[placement.rows]
        if isinstance(config.split, FeatureSkewSplit):
            group = np.repeat(placement.group, placement.counts)
            assert self.scenario.data is not None
            if "bias" in self.scenario.data.scale:
                what = "features are skewed after scaling, and a bias that varies is none"
                raise UserError(what, key="nodes.split", hint="leave “bias” out of scale in [data]")
            x = scaling.to_length(skewed(x, config.split, group, self.seed), self.scenario.data)
        return RawRecords(
            x,
            data.y[placement.rows],
            placement.counts,
            len(data.classes),
            seed=self.seed,
            arrival=config.arrival,
            copies=int(np.bincount(placement.rows).max(initial=1)),
            caveat=scaling.caveat(self.scenario.data) if self.scenario.data else "",
            about=self._about(data),
        )

    def _about(self, data: loading.Dataset) -> About:
        config = self.scenario.data
        assert config is not None
        moved = isinstance(self.scenario.nodes.split, FeatureSkewSplit)
        return About(data.features, None if moved else scaling.span(config), loading.grouping(config))

    def layer(self, name: str) -> Protocol[Any]:
        """A layer by its name."""
        return self.layers[name]

    def __iter__(self) -> Iterator[int]:
        while not self.finished:
            self.step()
            yield self.world.cycle

    def step(self) -> None:
        """One cycle: who is online, each layer over all online nodes, then the observers."""
        self.begin_cycle()
        self.world.settle()

    def begin_cycle(self) -> None:
        """One cycle, the last of which may still go on beside the next one: for those who only count cycles.

        With several threads a layer that stands apart (Newscast) has its turn while another (Golf) still works on what
        it chose in the cycle before; whoever looks at arrays calls `step`, or `world.settle` first.
        """
        world = self.world
        if self._watch:
            world.settle()
            self._watch.begin()
        world.advance()
        if self.raw:
            self.raw.step(world)
        if world.fresh.size:
            world.settle()
            for layer in self.layers.values():
                layer.start(world, world.fresh)
        for layer in self.layers.values():
            if layer.acts(world.cycle):
                if not layer.apart:
                    world.settle()
                layer.step(world)
        self.finished = self._looked_at(world.cycle >= self.scenario.cycles)

    def _looked_at(self, last: bool) -> bool:
        """Check and measure what this cycle asks for; whether the run ends with it."""
        world, due = self.world, self.observer.due(self.world.cycle)
        if self._watch or due or last:
            world.settle()
        if self._watch:
            self._watch.end()
        if due or last:
            check_models(world, self.layers)
        return (world.order.size > 0 and due and self._observe()) or last

    def _observe(self) -> bool:
        self.latest = self.observer.measure(self.world, self.layers)
        self.log.add(self.world.cycle, self.latest)
        self.observer.fill(self.log.tables, self.world, self.layers)
        condition = self.scenario.condition
        if condition is None:
            return False
        value = self.latest[condition.layer].get(condition.metric)
        return value is not None and condition.holds(value)

    def identity(self) -> dict[str, str]:
        """What a checkpoint must have in common with the run that resumes from it."""
        scenario = hashlib.sha256(json.dumps(self.scenario.essence(), sort_keys=True).encode()).hexdigest()
        return {"scenario": scenario, "seed": str(self.seed), "data": self.data_digest, "code": code_version()}

    def _parts(self) -> dict[str, Any]:
        models = {f"churn.{i}": model for i, model in enumerate(self.world.churn)}
        raw = {"raw": self.raw} if self.raw else {}
        tables = {f"table.{name}": table for name, table in self.log.tables.items()}
        layers = {f"layer.{name}": layer for name, layer in self.layers.items()}
        return {"world": self.world} | models | raw | layers | tables

    def state(self) -> dict[str, Any]:
        """Everything that the next cycle depends on, and the rows so far, as arrays by name."""
        self.world.settle()
        arrays = {f"{part}/{key}": a for part, owner in self._parts().items() for key, a in owner.state().items()}
        rows = {"cycles": self.log.cycles, "names": self.log.names, "values": self.log.values}
        arrays["log"] = np.frombuffer(json.dumps(rows).encode(), np.uint8)
        return arrays | {"finished": np.array(self.finished)}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take over a state that `state` gave."""
        for part, owner in self._parts().items():
            prefix = f"{part}/"
            owner.restore({key[len(prefix) :]: a for key, a in arrays.items() if key.startswith(prefix)})
        rows = json.loads(bytes(arrays["log"]))
        self.log.cycles, self.log.values = rows["cycles"], rows["values"]
        self.log.names = [(layer, metric) for layer, metric in rows["names"]]
        self.finished = bool(arrays["finished"])
        self.world.arrange()
