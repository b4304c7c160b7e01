"""Scenarios with thousands of mistakes or points: the work grows with their number, and messages stay short."""

import cProfile
import pstats
from contextlib import suppress

import pytest
import tomlkit
from helpers import tree

from golfsim.scenario import sweep
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.scenario.source import MOST_LISTED

PEERS = {"name": "peers", "use": "uniform"}


def with_unknown_keys(number):
    return tree(PEERS) | {f"unknown{i}": 1 for i in range(number)}


def with_unknown_keys_of_a_layer(number):
    return tree(PEERS | {f"unknown{i}": 1 for i in range(number)})


def with_points(number):
    return tree(PEERS, sweep={"seed": list(range(number))})


def with_equal_names(number):
    """The names of folders are cut: all of them begin in the same way."""
    cases = [{"label": "x" * 200 + str(i), "seed": i} for i in range(number)]
    return tree(PEERS, case=cases)


def calls(table, file):
    """Return the number of calls that checking a scenario takes; the first time, more is imported."""
    file.write_text(tomlkit.dumps(table))
    with cProfile.Profile() as profile, suppress(ScenarioError):
        sweep.points(Scenario.load(file))
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize(
    "made", [with_unknown_keys, with_unknown_keys_of_a_layer, with_points, with_equal_names], ids=lambda f: f.__name__
)
def test_twice_as_many_take_twice_the_work(tmp_path, made):
    calls(made(30), tmp_path / "first.toml")
    few, many = (calls(made(number), tmp_path / f"{number}.toml") for number in (400, 1600))
    assert many < 4.5 * few


def test_a_long_list_of_problems_is_cut(tmp_path):
    (tmp_path / "s.toml").write_text(tomlkit.dumps(with_unknown_keys(1500)))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(tmp_path / "s.toml")
    assert len(caught.value.messages) == MOST_LISTED + 1
    assert caught.value.messages[-1] == f"{tmp_path / 's.toml'}: and 1,480 more problems"
    (tmp_path / "s.toml").write_text(tomlkit.dumps(with_unknown_keys(MOST_LISTED)))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(tmp_path / "s.toml")
    assert len(caught.value.messages) == MOST_LISTED


def test_a_point_does_not_carry_the_lines_of_all_points(tmp_path):
    (tmp_path / "s.toml").write_text(tomlkit.dumps(with_points(1000)))
    points = sweep.points(Scenario.load(tmp_path / "s.toml"))
    assert len(points[7].scenario.packed()) < 3000
