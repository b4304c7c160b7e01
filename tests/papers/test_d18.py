"""D18: models walk faster with token accounts, at no higher cost, and do not die out; a short form of its scenario."""

import pytest
from helpers import needs_jit

from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points
from golfsim.sim.simulation import Simulation

NODES, TURNS = 300, 25
SEED = 11  # of none of the published runs


@pytest.fixture(scope="module")
def ended():
    """Updates per model and messages sent after 25 turns of 300 nodes, by case and loss."""
    changes = {"cycles": 100 * TURNS, "data.train": NODES, "seed": SEED, "runs": 1, "observe.every": 100 * TURNS}
    found = {}
    for point in points(Scenario.load("d18_walks", changes)):
        case, loss = point.values["case"], point.values["transport.loss"]
        if case.split(",")[0] in ("proactive", "randomised", "reactive"):
            run = Simulation(point.scenario)
            for _ in run:
                pass
            sent = run.world.transport.totals("learning")["messages.sent"]
            found[case.split(",")[0], loss] = (run.latest["learning"]["age.mean"], sent)
    return found


@needs_jit
def test_nodes_with_accounts_make_many_times_as_many_updates_as_proactive_ones(ended):
    """At least a third of the factor 24 (± 2), which 1000 nodes have after 50 turns."""
    assert ended["randomised", 0.0][0] > 8 * ended["proactive", 0.0][0]
    assert ended["randomised", 0.0][0] < ended["reactive", 0.0][0]


@needs_jit
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_nodes_with_accounts_send_no_more_than_proactive_ones(ended, loss):
    assert ended["proactive", loss][1] == NODES * TURNS
    assert ended["randomised", loss][1] < NODES * TURNS


@needs_jit
def test_only_reactive_messages_die_out(ended):
    """A walk sends ten messages until one is lost, in the mean; many end earlier, as younger models do."""
    assert ended["reactive", 0.1][1] < 3000
    assert ended["reactive", 0.1][0] < ended["proactive", 0.1][0]
    assert ended["randomised", 0.1][0] > 4 * ended["proactive", 0.1][0]
