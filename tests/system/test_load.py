"""Large networks within a stated memory, each in a process of its own with a limit: GOLFSIM_LOAD=1 pytest -m load

RLIMIT_DATA limits what a process may write to (heap and private mappings), whatever it maps besides. The limits are
those that hold today. Each run also tells how well its need was predicted.
"""

import json
import os
import subprocess
import sys

import pytest

GIB = 2**30
NEWSCAST_10M = 4 * GIB
GOLF_1M = 8 * GIB // 10
CODE = """
import json, resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from golfsim import need
from golfsim.sim.simulation import Simulation
from golfsim.core.memory import most_used
from golfsim.scenario.model import Scenario
scenario = Scenario.of(json.loads(sys.argv[2]))
foreseen = need._carried_on(scenario, need.Size.of(scenario).nodes, 1, False)
run = Simulation(scenario)
for cycle in run:
    pass
print(json.dumps([cycle, run.world.nodes, foreseen, most_used()]))
"""
PEERS = {"name": "peers", "use": "newscast", "view": 20}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
BASE = {"name": "load", "seed": 1, "cycles": 3, "observe": {"every": 3}}


def scenario(nodes, learning):
    if not learning:
        return BASE | {"nodes": {"number": nodes}, "protocol": [PEERS]}
    data = {"set": "random", "train": nodes, "test": 1000, "scale": ["minmax", "l1"]}
    return BASE | {"data": data, "nodes": {"records": 1}, "protocol": [PEERS, GOLF]}


@pytest.mark.load
@pytest.mark.needs_jit
@pytest.mark.skipif(not os.environ.get("GOLFSIM_LOAD"), reason="set GOLFSIM_LOAD=1")
@pytest.mark.parametrize(
    ("nodes", "learning", "limit"),
    [(10_000_000, False, NEWSCAST_10M), (1_000_000, True, GOLF_1M)],
    ids=["Newscast of 10 million", "Golf over Newscast of a million"],
)
def test_a_large_network_runs_within_its_memory_and_the_prediction_is_near(nodes, learning, limit):
    command = [sys.executable, "-c", CODE, str(limit), json.dumps(scenario(nodes, learning))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    cycle, made, foreseen, largest = json.loads(ended.stdout.splitlines()[-1])
    print(f"{made} nodes: {largest / GIB:.2f} GiB, {foreseen / GIB:.2f} foreseen")
    assert (cycle, made) == (3, nodes)
    assert largest < limit
    assert foreseen == pytest.approx(largest, rel=0.25)
