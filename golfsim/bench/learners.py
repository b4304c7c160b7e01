"""The speed of each learner in Golf, on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from golfsim.bench.timing import GOLF, UNIFORM, Row, best_of, scenario
from golfsim.learning.loading import installed
from golfsim.sim.simulation import Simulation

NODES = 4140
CYCLES = 4  # per measurement
PLAIN = {"set": "random", "scale": ["minmax"]}  # two features, two classes
TABLES: dict[str, Any] = {"adaline": {"rate": 0.01}, "mlp": {"hidden": [32]}}  # of learners that need settings
DATA: dict[str, Any] = {
    "kmeans": {"data": PLAIN},
    "linear_regression": {"data": {"set": "plane"}},
    "matrix_factorisation": {"data": {"set": "ratings"}, "nodes": {"split": {"kind": "by", "column": "user"}}},
}  # of learners that do not learn from Spambase


def learners() -> Iterator[Row]:
    """Measure node-cycles per second of Golf with each learner: a message, an update and a merge per node."""
    for name in installed():
        layer = GOLF | {"learner": {"use": name} | TABLES.get(name, {})}
        simulation = Simulation(scenario(NODES, [UNIFORM, layer], DATA.get(name)))

        def run(simulation: Simulation = simulation) -> None:
            for _ in range(CYCLES):
                simulation.step(settle=False)
            simulation.pipeline.settle()

        nodes = simulation.world.nodes
        rate = round(nodes * CYCLES / best_of(run))
        yield {"name": f"Golf, {name}", "nodes": nodes, "node-cycles/s": rate}
