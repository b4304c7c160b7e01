"""Mistakes in a protocol of the user's own are found at the start, with file and line."""

import numpy as np
import pytest

from golfsim.core.errors import UserError
from golfsim.runs.single import explained
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

GOOD = """
import numpy as np
from pydantic import Field
from golfsim.protocol import LayerConfig, Protocol, uniform


class MineConfig(LayerConfig):
    largest: float = Field(1.0, description="the largest number")


class Mine(Protocol[MineConfig]):
    Config = MineConfig
    accepts = frozenset({"loss"})

    def setup(self, world):
        self.value = np.zeros(world.nodes)

    def start(self, world, nodes):
        self.value[nodes] = uniform(self.key("start"), nodes)

    def step(self, world):
        self.value[world.order] += 1

    def observe(self, world):
        return {"mean": float(self.value.mean())}

    def _helper(self):
        return 1
"""
TREE = {
    "name": "mine",
    "seed": 1,
    "cycles": 3,
    "nodes": {"number": 5},
    "protocol": [{"name": "mine", "use": "mine.py:Mine"}],
    "observe": {"every": 3},
}


def run(folder, *changes):
    """Run a protocol with some lines of it changed for one cycle."""
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.py").write_text(text)
    simulation = Simulation(Scenario.of(TREE, folder))
    simulation.step()
    return simulation


def line_of(folder, part):
    lines = (folder / "mine.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if part in line)


def test_a_right_protocol_runs(tmp_path):
    assert run(tmp_path).world.cycle == 1


MISTAKES = {
    "a misspelt hook": (
        [("def step(self, world)", "def stepp(self, world)")],
        "def stepp",
        "golfsim never calls “stepp”\n    did you mean “step”?",
    ),
    "another misspelt hook": (
        [("def observe(self, world)", "def obseve(self, world)")],
        "def obseve",
        "golfsim never calls “obseve”\n    did you mean “observe”?",
    ),
    "a hook with too few arguments": (
        [
            (
                "def start(self, world, nodes):\n        self.value[nodes]",
                "def start(self, world):\n        self.value[:]",
            )
        ],
        "def start",
        "start takes too few arguments\n    expected start(self, world, nodes)",
    ),
    "no Config": ([("    Config = MineConfig\n", "")], "class Mine(", "class Mine has no Config"),
    "no Config and no brackets": (
        [("    Config = MineConfig\n", ""), ("Protocol[MineConfig]", "Protocol")],
        "class Mine(",
        "add this line to the class: Config = MineConfig",
    ),
    "a list as state": (
        [("self.value = np.zeros(world.nodes)", "self.value = np.zeros(world.nodes)\n        self.heard = []")],
        "self.heard = []",
        "Mine.heard is a list",
    ),
    "a dictionary made in a turn": (
        [("self.value[world.order] += 1", "self.value[world.order] += 1\n        self.seen = {}")],
        "self.seen = {}",
        "Mine.seen is a dict",
    ),
    "observe returns nothing": (
        [('return {"mean": float(self.value.mean())}', "pass")],
        "def observe",
        "expected a dictionary of numbers by name; it returned NoneType",
    ),
    "observe returns a number": (
        [('return {"mean": float(self.value.mean())}', "return 3.0")],
        "def observe",
        "expected a dictionary of numbers by name; it returned float 3.0",
    ),
    "a metric that is an array": (
        [("float(self.value.mean())", "self.value")],
        "def observe",
        "“mean” is a ndarray, not a number",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_in_the_first_cycle_with_file_and_line(tmp_path, mistake):
    changes, place, message = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        run(tmp_path, *changes)
    text = str(caught.value)
    assert f"mine.py:{line_of(tmp_path, place)}: " in text
    assert message in text


SEND = "self.value[world.order] += 1"


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        ("np.zeros(world.order.size)", "TypeError: dst: expected one node number per entry (int32); got float64"),
        ("world.order + 3", "IndexError: dst: there is no node 5, only 0 … 4"),
    ],
)
def test_wrong_receivers_are_refused_with_the_line_that_sends_to_them(tmp_path, peer, message):
    with pytest.raises((TypeError, IndexError)) as caught:
        run(tmp_path, (SEND, f'world.transport.send(self, "m", world.order, {peer}, 8)'))
    text = explained(caught.value)
    assert f"mine.py:{line_of(tmp_path, 'transport.send')}: in step: {message}" in text


def test_an_overlay_asked_for_the_same_node_and_k_twice_refuses(tmp_path):
    tree = TREE | {"protocol": [{"name": "peers", "use": "newscast", "view": 3}]}
    simulation = Simulation(Scenario.of(tree, tmp_path))
    simulation.step()
    layer, world = simulation.layer("peers"), simulation.world
    twice = np.array([1, 1, 2], np.int32)
    for k in (0, np.array([4, 4, 4])):
        with pytest.raises(ValueError, match=r"the same \(node, k\) twice"):
            layer.choose(world, twice, layer.key("x"), k)
    several = layer.choose(world, twice, layer.key("x"), np.array([0, 1, 0]))
    one = [layer.choose(world, twice[e : e + 1], layer.key("x"), k)[0] for e, k in enumerate((0, 1, 0))]
    assert several.tolist() == one
    with pytest.raises(ValueError, match="k has 2 entries for 3 nodes"):
        layer.choose(world, twice, layer.key("x"), np.array([0, 1]))


@pytest.mark.parametrize("line", ["np.random.random(3)", "import random", "from numpy.random import default_rng"])
def test_random_numbers_that_the_seed_does_not_determine_are_warned_about(tmp_path, line):
    from golfsim.runs.single import code_notes

    run(tmp_path, (SEND, f"{SEND}\n        {line}"))
    (warning,) = code_notes(tmp_path / "mine.py")[1:]
    assert f"mine.py:{line_of(tmp_path, line)}: warning: " in warning


def test_a_helper_with_a_name_of_its_own_is_fine(tmp_path):
    assert run(tmp_path, ("def _helper", "def steps")).world.cycle == 1
