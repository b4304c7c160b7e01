"""The time to start the program and to observe nodes, and the cost of ten million nodes, in separate processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from golfsim.bench import bare
from golfsim.bench.timing import GOLF, NEWSCAST, UNIFORM, Row, best_of, scenario
from golfsim.core.paths import shipped
from golfsim.runs.workers import python
from golfsim.sim.observers import Observer, TestSet
from golfsim.sim.simulation import Simulation

GIB = 2**30
MANY = 10_000_000

# A separate process prints: seconds of set-up, seconds of the quickest cycle, the peak of memory, and seconds to change
# as many random rows of the same size.
LARGE = """
import sys
from golfsim.bench import start
from golfsim.core.memory import most_used
name, nodes = sys.argv[-2], int(sys.argv[-1])
print(*start.cycles_of(name, nodes), most_used())
print(start.random_rows(name, nodes))
"""


def starts() -> Iterator[Row]:
    """Measure seconds of `golfsim --help` and of a warm quickstart, from the command to the written log and figure."""
    yield {"name": "golfsim --help", "seconds": round(min(_seconds("--help") for _ in range(5)), 2)}
    quickstart = str(shipped("scenarios") / "quickstart.toml")
    with tempfile.TemporaryDirectory() as folder:
        runs = [_seconds("run", quickstart, "--force", "--out", folder) for _ in range(4)]
        yield {"name": "quickstart, warm", "seconds": round(min(runs[1:]), 2)}


def _seconds(*words: str) -> float:
    begun = time.perf_counter()
    subprocess.run(python("golfsim.cli", "main") + list(words), check=True, capture_output=True)
    return time.perf_counter() - begun


def observing(features: int = 784, classes: int = 10, records: int = 10_000) -> Iterator[Row]:
    """Measure seconds to observe 100 nodes with models of the size of MNIST on 10,000 records."""
    rng = np.random.default_rng(1)
    simulation = Simulation(scenario(200, [UNIFORM, GOLF]))
    layer = simulation.layer("learning")
    simulation.step()  # before the models are replaced: its records have fewer features
    layer.w = rng.random((200, classes, features), np.float32)  # type: ignore[attr-defined]
    test = TestSet(rng.random((records, features), np.float32), np.arange(records, dtype=np.int32) % classes, classes)
    observer = Observer(simulation.scenario.observe.model_copy(update={"every": 1, "nodes": 100}), 1, 10, test)
    seconds = best_of(lambda: observer.measure(simulation.world, simulation.layers))
    yield {"name": "observing 100 nodes, 784 × 10", "records": records, "seconds": round(seconds, 3)}


def large() -> Iterator[Row]:
    """Measure ten million nodes: node-cycles per second, set-up and memory, each in a separate process."""
    for name in ("Newscast", "Golf"):
        for nodes in (MANY // 10, MANY):
            command = [sys.executable, "-c", LARGE, name, str(nodes)]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            setup, cycle, memory, bare = (float(word) for word in printed)
            row = {"name": f"{name}, alone", "nodes": nodes, "node-cycles/s": round(nodes / cycle)}
            row |= {"set-up s": round(setup, 1), "GiB": round(memory / GIB, 2)}
            yield row | {"random rows/s": round(nodes / bare), "share": round(bare / cycle, 2)}


def cycles_of(name: str, nodes: int) -> tuple[float, float]:
    """Return seconds of set-up with the first cycle, and seconds of the quickest of a few more cycles."""
    layers = {"Newscast": [NEWSCAST], "Golf": [UNIFORM, GOLF]}[name]
    begun = time.perf_counter()
    simulation = Simulation(scenario(nodes, layers))
    simulation.step()
    ready = time.perf_counter()
    tries = []
    for _ in range(4):
        start = time.perf_counter()
        simulation.step()
        tries.append(time.perf_counter() - start)
    return ready - begun, min(tries)


def random_rows(name: str, nodes: int) -> float:
    """Return seconds to read and write as many random rows as there are nodes, of the size of the protocol's state."""
    shape, kind = {"Newscast": ((nodes, 20), np.int64), "Golf": ((nodes, 57), np.float32)}[name]
    rows = np.ones(shape, kind)
    return best_of(lambda: bare.change_rows(rows, 1))
