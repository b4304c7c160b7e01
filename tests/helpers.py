"""Small scenarios, worlds and layers to test with."""

import copy
import io
import sys
import tarfile
from pathlib import Path

import numba
import numpy as np
import pytest

from golfsim import cli
from golfsim.learning.loading import make
from golfsim.learning.online import Shape
from golfsim.network.transport import Transport, TransportConfig
from golfsim.network.world import World
from golfsim.protocol.base import LayerConfig
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import RawRecords
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from golfsim.testing import state

HERE = Path(__file__).parent
JIT = not numba.config.DISABLE_JIT
needs_jit = pytest.mark.skipif(not JIT, reason="too large for kernels that are not compiled")
# What happens in other processes: their lines are not counted, so it need not run again with kernels as plain Python.
apart = pytest.mark.needs_jit

HEAVY = {"numba", "pandas", "matplotlib", "seaborn", "scipy", "sklearn", "pyarrow", "networkx"}  # slow to import
ERROR = 5e-4  # the probability that an audit of a right mechanism fails, for another seed
# χ² and Kolmogorov–Smirnov tests fail below this p-value: one in a thousand right programs, for another seed.
ALPHA = 1e-3

AVERAGING = {"name": "averaging", "use": "user_protocols/averaging.py:Averaging", "peers": "peers"}


def tree(*layers, nodes=30, cycles=6, **tables):
    """A scenario without data as a dictionary; `nodes` is a number or a table, `tables` are top-level keys."""
    base = {
        "name": "a test",
        "seed": 1,
        "cycles": cycles,
        "nodes": {"number": nodes} if isinstance(nodes, int) else nodes,
        "protocol": [dict(layer) for layer in layers],
        "observe": {"every": 1, "nodes": 10},
    }
    return copy.deepcopy(base | tables)


def rule_of(learner, lam, one_by_one, offset=0.0, features=1, classes=2, **keys):
    """The rule of a learner, given by its name or as a table, for records of a shape."""
    shape = Shape(features, classes, 1 if classes == 2 else classes)
    return make(learner).rule(shape, lam, one_by_one, offset, **keys)


def learning_tree(*layers, number=40, **tables):
    """A scenario with a number of nodes that hold two records each, of two Gaussians."""
    data = {"set": "random", "train": 2 * number, "test": 30, "scale": ["minmax"]}
    return tree(*layers, **({"data": data, "nodes": {"records": 2}} | tables))


def simulation(scenario_tree, **how):
    """A run of a scenario given as a dictionary; its files are relative to tests/."""
    return Simulation(Scenario.of(scenario_tree, HERE), **how)


def finished(scenario_tree, **how):
    """A run of a scenario that has come to its end."""
    run = simulation(scenario_tree, **how)
    for _ in run:
        pass
    return run


def assert_same_state(one, other):
    """Bit for bit."""
    left, right = state(one), state(other)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name] == right[name], name


def command(capsys, monkeypatch, *words):
    """Run a command in this process: (exit status, output, errors)."""
    monkeypatch.setattr(sys, "argv", ["golfsim", *map(str, words)])
    try:
        code = cli.main()
    except SystemExit as end:
        code = end.code
    return code or 0, *capsys.readouterr()


def make_world(
    nodes, *, seed=1, threads=1, shuffled=False, churn=(), adversary=(), layers=("layer",), folder=HERE, **transport
):
    """A world before its first cycle; `transport` are the keys of that table."""
    return World(
        nodes,
        seed,
        threads=threads,
        shuffled=shuffled,
        transport=Transport(TransportConfig(**transport), seed, list(layers)),
        churn_configs=tuple(churn),
        adversaries=tuple(adversary),
        folder=folder,
    )


def at_cycle(world, cycle, online=None):
    """Set a world's cycle and who is online, without churn having a say."""
    world.cycle = cycle
    world.online = np.ones(world.nodes, np.bool_) if online is None else np.asarray(online, np.bool_)
    world.order = np.flatnonzero(world.online).astype(np.int32)
    return world


def make_layer(protocol, world, name="layer", seed=1, folder=HERE, **keys):
    """A layer of its own, set up."""
    layer = protocol(name, protocol.Config(name=name, use="test", **keys), seed, folder)
    layer.setup(world)
    return layer


def make_raw(records, classes):
    """A raw layer from (xs, labels) for each node."""
    counts = [len(labels) for _, labels in records]
    x = np.concatenate([np.asarray(xs, np.float32) for xs, _ in records])
    label = np.concatenate([np.asarray(labels, np.int32) for _, labels in records])
    return RawRecords(x, label, np.array(counts, np.int64), classes)


class GivenPeers(Overlay[LayerConfig]):
    """An overlay that answers what the test says: `_peer[i]` for node i."""

    Config = LayerConfig
    accepts = frozenset({"loss", "delay"})

    def choose(self, world, nodes, key, k=0):
        return self._peer[nodes]

    def links(self, world):
        return None


def p_of_chi_square(counts, expected=None):
    """The p-value of counts that should be equally (or as expected) frequent."""
    from scipy.stats import chisquare

    return chisquare(np.ravel(counts), None if expected is None else np.ravel(expected)).pvalue


def archive_of(*members):
    """An archive of (header, content) pairs."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    file.seek(0)
    return tarfile.open(fileobj=file)
