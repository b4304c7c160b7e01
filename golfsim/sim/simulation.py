"""Run the cycles of a simulation; `golfsim.sim.build` creates its parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from golfsim.core import notebook
from golfsim.core.provenance import code_version
from golfsim.core.words import counted
from golfsim.protocol.base import Protocol
from golfsim.protocol.checking import check_layer, check_state
from golfsim.scenario.model import Scenario
from golfsim.sim.build import Built, build
from golfsim.sim.events import of_scenario
from golfsim.sim.invariants import Watch, check_models
from golfsim.sim.log import Log
from golfsim.sim.observers import spent_by_unit
from golfsim.sim.pipeline import Pipeline
from golfsim.sim.tables import FINAL


class Simulation:
    """One run of a scenario.

    Iterate over it to read arrays while it runs; each iteration is a cycle::

        for cycle in Simulation(scenario):
            ...

    With `paranoid` all invariants are checked after each cycle, see `golfsim.sim.invariants`. `prepare` may change the
    parts of the run before the layers are set up.
    """

    def __init__(
        self,
        scenario: Scenario,
        run: int = 1,
        threads: int = 1,
        paranoid: bool = False,
        prepare: Callable[[Built], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self.run = run
        self.seed = scenario.seed + run - 1
        self.finished = False
        built = build(scenario, self.seed, run, threads)
        if prepare:
            prepare(built)
        self.world, self.raw, self.layers = built.world, built.raw, built.layers
        self.data_digest, self.features, self.scaling = built.digest, built.features, built.scaling
        self.observer = built.observer
        self.log = Log(run, self.seed, built.note, built.classes, of_scenario(scenario))
        self.log.tables = self.observer.tables(self.world, list(self.layers))
        self.latest: dict[str, dict[str, float]] = {}
        self.world.pipeline = self.pipeline = Pipeline(self.layers.values(), threads)
        for layer in self.layers.values():
            layer.setup(self.world)
            check_state(layer)
        self.observer.attach(self.world, self.layers)
        self._watch = Watch(self.world, self.layers, self.raw) if paranoid else None

    def __repr__(self) -> str:
        return f"<Simulation of “{self.scenario.name}”: {', '.join(self._summary().values())}>"

    def _repr_html_(self) -> str:
        return notebook.table(f"Simulation of “{self.scenario.name}”", self._summary() | self._metrics())

    def _summary(self) -> dict[str, str]:
        """Return the state of the run as text."""
        world, nodes = self.world, counted(self.world.nodes, "node")
        layers = " → ".join(f"{name} ({layer.config.use})" for name, layer in self.layers.items())
        return {
            "run": f"run {self.run} with seed {self.seed}",
            "cycle": f"cycle {world.cycle} of {self.scenario.cycles}{', finished' if self.finished else ''}",
            "nodes": f"{world.online.sum()} of {nodes} online" if world.cycle else nodes,
        } | ({"layers": layers} if layers else {})

    def _metrics(self) -> dict[str, str]:
        """Return the last measured error of each learning layer as text."""
        found = {name: metrics["error.mean"] for name, metrics in self.latest.items() if "error.mean" in metrics}
        return {f"error of {name}": f"{error:.4f}" for name, error in found.items()}

    def layer(self, name: str) -> Protocol[Any]:
        """Return a layer by its name."""
        return self.layers[name]

    def __iter__(self) -> Iterator[int]:
        while not self.finished:
            self.step()
            yield self.world.cycle

    def step(self, settle: bool = True) -> None:
        """Run one cycle: update which nodes are online, let each layer act at all online nodes, then measure.

        Without `settle` the end of the cycle may overlap with the next one, for programs that only count cycles.
        """
        world, pipeline = self.world, self.pipeline
        if self._watch:
            pipeline.settle()
            self._watch.begin()
        world.advance()
        self._renew()
        for layer in self.layers.values():
            if layer.acts(world.cycle):
                pipeline.turn(layer, world)
        if world.cycle == 1:
            pipeline.settle()
            for layer in self.layers.values():
                check_layer(layer, world)
        self.finished = self._checked_and_observed(world.cycle >= self.scenario.cycles)
        if self.finished:
            self._account()
        if settle:
            pipeline.settle()

    def _renew(self) -> None:
        """Let records arrive, and reset the nodes that need new state."""
        world = self.world
        if self.raw and self.raw.changes(world):
            self.pipeline.settle()
            self.raw.step(world)
        starting = [(layer, nodes) for layer in self.layers.values() if (nodes := layer.to_start(world)).size]
        if starting:
            self.pipeline.settle()
            for layer, nodes in starting:
                layer.start(world, nodes)

    def _checked_and_observed(self, last: bool) -> bool:
        """Check and measure if this cycle is due, and return whether the run ends with this cycle."""
        world, due = self.world, self.observer.due(self.world.cycle)
        if self._watch or due or last:
            self.pipeline.settle()
        if self._watch:
            self._watch.end()
        if due or last:
            check_models(world, self.layers)
        return (world.order.size > 0 and due and self._observe()) or last

    def _account(self) -> None:
        """Store the ε that records or nodes have spent by the end of the run."""
        found = spent_by_unit(self.world, self.layers)
        if found is not None:
            self.log.tables[FINAL] = found

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
        """Return the properties that a checkpoint must share with the run that resumes from it."""
        scenario = hashlib.sha256(json.dumps(self.scenario.essence(), sort_keys=True).encode()).hexdigest()
        return {"scenario": scenario, "seed": str(self.seed), "data": self.data_digest, "code": code_version()}

    def _parts(self) -> dict[str, Any]:
        models = {f"churn.{i}": model for i, model in enumerate(self.world.churn)}
        raw = {"raw": self.raw} if self.raw else {}
        tables = {f"table.{name}": table for name, table in self.log.tables.items() if name != FINAL}
        layers = {f"layer.{name}": layer for name, layer in self.layers.items()}
        exposed = {f"exposure.{name}": exposure for name, exposure in self.observer.exposures.items()}
        return {"world": self.world} | models | raw | layers | tables | exposed

    def state(self) -> dict[str, Any]:
        """Return everything that the next cycle depends on, and the rows so far, as arrays by name."""
        self.pipeline.settle()
        arrays = {f"{part}/{key}": a for part, owner in self._parts().items() for key, a in owner.state().items()}
        rows = {"cycles": self.log.cycles, "names": self.log.names, "values": self.log.values}
        arrays["log"] = np.frombuffer(json.dumps(rows).encode(), np.uint8)
        return arrays | {"finished": np.array(self.finished)}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore a state that `state` has returned."""
        for part, owner in self._parts().items():
            prefix = f"{part}/"
            owner.restore({key[len(prefix) :]: a for key, a in arrays.items() if key.startswith(prefix)})
        rows = json.loads(bytes(arrays["log"]))
        self.log.cycles, self.log.values = rows["cycles"], rows["values"]
        self.log.names = [(layer, metric) for layer, metric in rows["names"]]
        self.finished = bool(arrays["finished"])
        self.world.arrange()
