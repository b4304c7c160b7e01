"""What Jelasity, Montresor & Babaoglu (2005) claim about averaging, in short forms of the shipped scenarios.

The standard deviations in the comments are over other seeds. A tolerance of four of them fails once in 16,000 tests.
"""

import math

import numpy as np
import pytest
from helpers import needs_jit

from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points
from golfsim.sim.simulation import Simulation

SEQUENCE = 1 / (2 * math.sqrt(math.e))
SEED = 501


def shortened(name, **changes):
    """The points of a scenario, by their values."""
    return {tuple(point.values.values()): point.scenario for point in points(Scenario.load(name, changes))}


def last(scenario, metric="factor.mean", seed=SEED):
    run = Simulation(scenario.change({"seed": seed}))
    for _ in run:
        pass
    return run.latest["averaging"][metric]


@needs_jit
def test_the_factor_on_the_complete_graph_is_that_of_the_theory_and_other_topologies_rank_as_published():
    # The standard deviation of a run of 10,000 nodes is .0011 on the complete graph and at most .006 elsewhere.
    factor = {case: last(scenario) for (case,), scenario in shortened("j05_topology", **{"observe.every": 20}).items()}
    assert factor["complete"] == pytest.approx(SEQUENCE, abs=0.0044)
    for near in ("random, 20 neighbours", "Newscast, view 30"):
        assert SEQUENCE < factor[near] < SEQUENCE + 0.02
    assert factor["Newscast, view 30"] < factor["scale-free"] < factor["small world, β = 0.25"] < factor["ring"]


@needs_jit
@pytest.mark.parametrize("failing", [0.0, 0.5, 0.9])
def test_where_links_fail_random_pairs_have_the_factor_of_the_theory_and_it_bounds_the_protocol(failing):
    # The standard deviation of a run is at most .004.
    found = shortened("j05_links")
    bound = math.exp(failing - 1)
    assert last(found[failing, "random"]) == pytest.approx(bound, abs=0.016)
    assert last(found[failing, "each"]) < bound + 0.005


@needs_jit
def test_the_mean_of_the_nodes_that_did_not_crash_varies_as_the_theory_says():
    # The mean of 100 squared shifts, each with √2 times its mean as standard deviation: four of them are .57.
    scenario = shortened("j05_crashes", **{"nodes.number": 2000})[0.1,]
    ratio = SEQUENCE / 0.9
    expected = 0.1 / 0.9 * (1 - ratio**20) / (1 - ratio)
    shifts = [last(scenario, "value.shift", seed) for seed in range(SEED, SEED + 100)]
    assert np.mean(shifts) == pytest.approx(expected, rel=0.57)


@needs_jit
def test_a_lost_reply_changes_the_mean_and_a_failed_link_does_not():
    found = shortened("j05_messages", **{"nodes.number": 1000})
    assert last(found[0.3, "atomic"], "value.mean") == pytest.approx(1, abs=1e-12)
    assert abs(last(found[0.3, "messages"], "value.mean") - 1) > 1e-3
