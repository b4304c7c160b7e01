"""The speed of gossip: relative to bare loops and to memory, with several threads, with faults, and its growth."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from golfsim.bench import bare
from golfsim.bench.timing import GOLF, NEWSCAST, UNIFORM, Row, best_of, race, scenario
from golfsim.sim.simulation import Simulation

COPY_BYTES = 1 << 28
SIZES = (4140, 100_000, 1_000_000)
HARD = {
    "transport": {"loss": 0.5, "delay": [1, 10]},
    "churn": [{"kind": "lognormal", "online": 0.9, "mu": 5.0, "sigma": 1.0}],
}
FEWEST, MOST = 6, 16  # cycles per measurement: work that overlaps with the next cycle appears from the second on
AVERAGED = 100_000  # nodes
OVERLAID = 20_000  # nodes
SETTLED = 25  # cycles until as many messages arrive as are sent


def copying() -> Callable[[], None]:
    """Return a function that copies more memory than any cache holds."""
    source, target = np.ones(COPY_BYTES // 8), np.empty(COPY_BYTES // 8)
    return lambda: np.copyto(target, source)


def memory() -> Iterator[Row]:
    """Measure the speed of memory: bytes read and written per second by a copy."""
    yield {"name": "memory copy", "GB/s": round(2 * COPY_BYTES / best_of(copying()) / 1e9, 2)}


def cycles(simulation: Simulation, count: int) -> Callable[[], None]:
    """Return a function that runs this many cycles."""

    def run() -> None:
        for _ in range(count):
            simulation.step(settle=False)
        simulation.pipeline.settle()

    return run


def at_a_time(nodes: int) -> int:
    """Return how many cycles are timed together."""
    return max(FEWEST, min(MOST, 200_000 // nodes))


def protocols() -> Iterator[Row]:
    """Measure Newscast, Golf, and Golf over Newscast on one and two threads, relative to bare loops."""
    for nodes in SIZES:
        yield from _at_size(nodes)


def _at_size(nodes: int) -> Iterator[Row]:
    count = at_a_time(nodes)
    stacks = {"Newscast": [NEWSCAST], "Golf": [UNIFORM, GOLF], "Golf over Newscast": [NEWSCAST, GOLF]}
    runs = {name: cycles(Simulation(scenario(nodes, layers)), count) for name, layers in stacks.items()}
    runs["two threads"] = cycles(Simulation(scenario(nodes, [NEWSCAST, GOLF]), threads=2), count)
    loops = {"bare Newscast": bare.newscast(nodes, 20), "bare Golf": bare.golf(nodes, 57)}
    runs |= {name: _repeated(run, count) for name, run in loops.items()}
    seconds = {name: found / count for name, found in race(runs).items()}
    alone = {"Newscast": seconds["bare Newscast"], "Golf": seconds["bare Golf"]}
    for name, bound in (alone | {"Golf over Newscast": sum(alone.values())}).items():
        row = {"name": name, "nodes": nodes, "node-cycles/s": round(nodes / seconds[name])}
        yield row | {"bare loops/s": round(nodes / bound), "share": round(bound / seconds[name], 2)}
    faster = seconds["Golf over Newscast"] / seconds["two threads"]
    yield {
        "name": "Golf over Newscast, two threads",
        "nodes": nodes,
        "node-cycles/s": round(nodes / seconds["two threads"]),
        "× one thread": round(faster, 2),
    }


def _repeated(run: Callable[[], None], count: int) -> Callable[[], None]:
    def several() -> None:
        for _ in range(count):
            run()

    return several


def faults() -> Iterator[Row]:
    """Measure Golf over Newscast with loss 0.5, delays of 1 to 10 cycles and churn, relative to no faults."""
    for nodes in SIZES[:2]:
        count = at_a_time(nodes)
        trees: dict[str, dict[str, Any]] = {"without": {}, "with": HARD}
        made = {name: Simulation(scenario(nodes, [NEWSCAST, GOLF], tree)) for name, tree in trees.items()}
        for simulation in made.values():
            cycles(simulation, SETTLED)()
        seconds = race({name: cycles(simulation, count) for name, simulation in made.items()})
        rate, share = round(nodes * count / seconds["with"]), round(seconds["without"] / seconds["with"], 2)
        yield {"name": "Golf over Newscast, faults", "nodes": nodes, "node-cycles/s": rate, "of faultless": share}


def averages(numbers: int = 8) -> Iterator[Row]:
    """Measure averaging and push-sum on one thread. They average models that Golf makes in the first cycle."""
    for use in ("averaging", "push_sum"):
        means = {"name": "means", "use": use, "peers": "peers", "of": "learning"}
        with tempfile.TemporaryDirectory() as folder:
            simulation = Simulation(_synthetic(Path(folder), AVERAGED, numbers, 2, [GOLF | {"until": 1}, means]))
        count = at_a_time(AVERAGED)
        rate = round(AVERAGED * count / best_of(cycles(simulation, count)))
        yield {"name": f"{use}, {numbers} numbers", "nodes": AVERAGED, "node-cycles/s": rate}


MESSAGES: dict[str, dict[str, Any]] = {
    "token accounts": {"flow": {"kind": "randomised", "capacity": 20, "spend": 10}},
    "ten parts": {"message": {"parts": 10}, "average": "age"},
    "largest tenth": {"message": {"top": 0.1}},
    "8 bits": {"message": {"codec": "quantised"}},
}


def messages() -> Iterator[Row]:
    """Measure Golf with token accounts and smaller messages on one thread, relative to complete models in each turn."""
    own = GOLF | {"variant": "own"}
    stacks = {"complete": own} | {name: own | settings for name, settings in MESSAGES.items()}
    made = {name: Simulation(scenario(AVERAGED, [UNIFORM, golf])) for name, golf in stacks.items()}
    for simulation in made.values():
        cycles(simulation, SETTLED)()
    count = at_a_time(AVERAGED)
    seconds = race({name: cycles(simulation, count) for name, simulation in made.items()})
    for name in MESSAGES:
        rate, share = round(AVERAGED * count / seconds[name]), round(seconds["complete"] / seconds[name], 2)
        yield {"name": f"Golf, {name}", "nodes": AVERAGED, "node-cycles/s": rate, "of complete": share}


def overlays() -> Iterator[Row]:
    """Measure overlays that exchange more than a view, matchings, and services over overlays, on one thread."""
    tman: dict[str, Any] = {"name": "tman", "use": "tman", "peers": "peers", "view": 20}
    news: dict[str, Any] = {"name": "news", "use": "broadcast", "peers": "peers", "mode": "push-pull", "epoch": 20}
    stacks: dict[str, list[dict[str, Any]]] = {
        "CYCLON, view 20": [{"name": "peers", "use": "cyclon", "view": 20}],
        "T-Man, view 20": [UNIFORM, tman],
        "T-Man, view 100": [UNIFORM, tman | {"view": 100, "initial": 20}],
        "HyParView": [{"name": "peers", "use": "hyparview"}],
        "broadcast": [UNIFORM, news],
        "broadcast over matchings": [{"name": "peers", "use": "matching"}, news],
    }
    for name, layers in stacks.items():
        simulation = Simulation(scenario(OVERLAID, layers))
        cycles(simulation, SETTLED)()
        rate = round(OVERLAID * FEWEST / best_of(cycles(simulation, FEWEST)))
        yield {"name": name, "nodes": OVERLAID, "node-cycles/s": rate}


def large_models(nodes: int = 8000, features: int = 784, classes: int = 10) -> Iterator[Row]:
    """Measure Golf with models of the size of MNIST, relative to the speed of memory.

    Each event reads the model of the sender, reads and writes that of the receiver, and reads a record.
    """
    each = 4 * features * (3 * classes + 1)
    for threads in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            simulation = Simulation(_synthetic(Path(folder), nodes, features, classes, [GOLF]), threads=threads)
        seconds = race({"golf": simulation.step, "copy": copying()})
        share = each * nodes / seconds["golf"] / (2 * COPY_BYTES / seconds["copy"])
        row = {"name": f"Golf, {features} × {classes}", "nodes": nodes, "threads": threads}
        yield row | {"node-cycles/s": round(nodes / seconds["golf"]), "of memory copy": round(share, 2)}


def _synthetic(folder: Path, nodes: int, features: int, classes: int, layers: list[dict[str, Any]]) -> Any:
    rng = np.random.default_rng(1)
    file = folder / "records.npz"
    np.savez(file, x=rng.random((nodes + 10, features), np.float32), y=np.arange(nodes + 10) % classes)
    data = {"file": str(file), "scale": ["l1"], "test": 10}
    return scenario(nodes, [UNIFORM, *layers], {"data": data, "nodes": {"records": 1}})


def growth() -> Iterator[Row]:
    """Measure how the cost of a node-cycle grows with the size of the view and with the size of the model."""
    for view in (5, 10, 20, 30, 40, 60, 100):
        run = cycles(Simulation(scenario(20_000, [NEWSCAST | {"view": view}])), 4)
        yield {"name": "Newscast by view", "view": view, "ns per node": round(best_of(run) / 4 / 20_000 * 1e9)}
    for features, classes in ((10, 2), (57, 2), (200, 2), (784, 2), (57, 3), (57, 10), (784, 10)):
        nodes = max(1000, 2_000_000 // (features * (1 if classes == 2 else classes)))
        with tempfile.TemporaryDirectory() as folder:
            simulation = Simulation(_synthetic(Path(folder), nodes, features, classes, [GOLF]))
        row = {"name": "Golf by model", "features": features, "classes": classes, "nodes": nodes}
        yield row | {"ns per node": round(best_of(simulation.step) / nodes * 1e9)}
