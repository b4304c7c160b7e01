"""Draw random valid scenarios: every protocol, overlay, churn model, transport, adversary and placement of data."""

import copy

from entries import ENTRIES, PEERS, VIEWS
from entries import scenario as smallest
from helpers import HERE

from golfsim.core.errors import UserError
from golfsim.protocol.loading import find
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from golfsim.testing import DATA

TRIES = 200
NUMBERS = [7, 20, 61, 61, 300, 1100]
OVERLAYS = [
    PEERS,
    VIEWS,
    VIEWS | {"view": 2, "liveness": "none"},
    {"name": "peers", "use": "cyclon", "view": 6, "shuffle": 3},
    {"name": "peers", "use": "hyparview", "view": 3, "passive": 6},
    {"name": "peers", "use": "matching"},
    {"name": "peers", "use": "static_overlay", "neighbours": 4},
    {"name": "peers", "use": "static_overlay", "generator": "path_graph", "liveness": "none"},
]
CHURN = [
    {"kind": "rate", "leave": 0.2, "rejoin": 0.3},
    {"kind": "rate", "leave": 0.5, "rejoin": 0.9, "return": "afresh"},
    {"kind": "lognormal", "mu": 1.0, "sigma": 1.0, "online": 0.6},
    {"kind": "weibull", "shape": 0.6, "scale": 5.0, "online": 0.5},
    {"kind": "oscillating", "low": 0.2, "period": 5},
    {"kind": "crash", "at": 12, "share": 0.5},
    {"kind": "join", "share": 0.5, "until": 30},
    {"kind": "trace", "file": "traces/three_nodes.csv", "assign": "repeat"},
]
TRANSPORT = {
    "loss": [0.0, 0.2, 0.9],
    "delay": [0, 2, [1, 4], {"kind": "exponential", "max": 8, "mean": 2.0}, {"kind": "lognormal", "max": 9}],
    "partition": [[], [{"share": 0.3, "from": 5, "until": 25, "contacts": 2}]],
}
ADVERSARIES = [{"kind": kind, "share": 0.2, "from": 4} for kind in ("flip-labels", "noise", "negative", "old")]
NODES = [
    {"records": 2},
    {"records": 2, "split": {"kind": "label-skew", "alpha": 0.5}},
    {"records": 2, "split": {"kind": "feature-skew", "groups": 3, "shift": 0.5}},
    {"records": 2, "arrival": {"start": 0.5, "rate": 0.5}},
    {"number": 0, "records": {"kind": "lognormal", "sigma": 1.0}},
    {"number": 0, "records": {"kind": "zipf", "exponent": 1.0}},
]
SETS = ["random", "separable", "inseparable", "spambase", "segmentation"]
OBSERVE = [
    {},
    {"overlay": 20},
    {"follow": 3},
    {"metrics": ["auc", "f1", "confusion", "roc"]},
    {"draw": True},  # last: only for small networks
]
SWEEPS = [
    {},
    {"runs": 3},
    {"sweep": {"seed": [3, 4, 5]}},
    {"sweep": {"transport.loss": [0.0, 0.1]}, "runs": 2},
    {"sweep": {"zip": [{"seed": [1, 2], "cycles": [40, 60]}]}},
    {"case": [{"label": "one", "seed": 5}, {"label": "two", "seed": 6}, {"label": "three", "cycles": 30}]},
]


def draw(rng, name, several):
    """Return a valid scenario with one of the ENTRIES; with `several`, it has more than one run."""
    for _ in range(TRIES):
        tree = _drawn(rng, ENTRIES[name], several)
        try:
            Simulation(Scenario.of(copy.deepcopy(tree), HERE))
        except UserError:  # e.g. exact cuts, for which the range of the features must be public
            continue
        return tree
    raise AssertionError(f"no valid scenario of “{name}” in {TRIES} draws")


def _drawn(rng, entry, several):
    number, cycles = rng.choice(NUMBERS), rng.randint(40, 150)
    tree = smallest(entry, number=number, cycles=cycles, seed=rng.randrange(10**6))
    tree["order"] = rng.choice(["fixed", "shuffled"])
    tree["plot"] = {"kind": rng.choice(["none", "none", "none", "convergence"])}
    tree["observe"] = rng.choice(OBSERVE if number < 500 else OBSERVE[:-1])
    tree["observe"] = {"every": rng.choice([1, 10, "log"]), "nodes": 5} | tree["observe"]
    tree["churn"] = rng.sample(CHURN, rng.choice([0, 1, 1, 2]))
    tree["adversary"] = rng.sample(ADVERSARIES, rng.choice([0, 0, 1, 2]))
    if rng.random() < 0.1:
        tree["stop"] = {"when": "world.online < 4"}
    if rng.random() < 0.5:
        overlay = rng.choice(OVERLAYS)
        tree["protocol"] = [overlay if layer["name"] == "peers" else layer for layer in tree["protocol"]]
    if entry.data:
        tree["data"] = DATA | {"set": rng.choice(SETS), "train": 2 * number}
        nodes = rng.choice(NODES)
        tree["nodes"] = nodes | ({"number": number} if "number" in nodes else {})
    common = frozenset.intersection(*(find(layer["use"], HERE).accepts for layer in tree["protocol"]))
    tree["transport"] = {fault: rng.choice(TRANSPORT[fault]) for fault in sorted(common)}
    return copy.deepcopy(tree | rng.choice(SWEEPS[1:] if several else SWEEPS))
