"""The smallest table that runs each protocol, for the contract, kept logs, audits and fuzzers."""

from dataclasses import dataclass

from helpers import AVERAGING, HERE, learning_tree, tree

from golfsim.protocol.loading import find
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Records
from golfsim.testing import DATA, NODES, Subject


@dataclass(frozen=True)
class Entry:
    """The smallest table that runs a protocol, the layers it builds on, and whether it needs data."""

    layer: dict
    below: tuple = ()
    data: bool = False
    once: bool | int = False  # it acts the first time only (or so many times), as long as nobody comes

    @property
    def protocol(self):
        return find(self.layer["use"], HERE)


PEERS = {"name": "peers", "use": "uniform"}
VIEWS = {"name": "peers", "use": "newscast", "view": 5}
GRAPH = {"name": "graph", "use": "static_overlay", "neighbours": 4}
GOLF = {"use": "golf", "peers": "peers", "records": "raw"}
RANDOMISED = {"kind": "randomised", "capacity": 6, "spend": 3}
GAUSSIAN = {"noise": "gaussian", "delta": 1e-5}
OUTPUT = {"use": "regularised_erm", "lambda": 0.01, "noise": "output", "epsilon": 5.0}
ANONML = {"use": "anonml", "peers": "peers", "epsilon": 5.0, "partitions": 2, "groups": 3}
CIRCUITS = {
    "cuts": "exact", "relays": 2, "window": 20, "stagger": 2, "staggering": "delay", "deadline": 3, "colluding": 0.3,
    "repeats": 0.2, "outsiders": 0.2, "forgeries": 0.2,
}  # fmt: skip
LOCAL = {"name": "local", "use": "regularised_erm", "lambda": 0.1}
GROUPS = {"use": "group_aggregation", "local": "local", "group": 4, "epsilon": 5.0}
GIVEN = {"name": "given", "use": "user_protocols/numbers.py:Given"}
SUMS = {"name": "sums", "use": "user_protocols/numbers.py:Sums"}
MEANS = {"name": "means", "use": "averaging", "peers": "peers", "of": "sums", "epoch": 3}
NOISY = {"use": "noisy_mean", "epsilon": 4.0}
GOSSIPED = {"use": "muffliato", "of": "raw", "epsilon": 20.0, "delta": 1e-5}
OVER_VIEWS = {"peers": "peers", "formation": "overlay"}

ENTRIES = {
    "uniform": Entry({"use": "uniform"}),
    "static_overlay": Entry({"use": "static_overlay", "neighbours": 4}),
    "newscast": Entry({"use": "newscast", "view": 6}),
    "cyclon": Entry({"use": "cyclon", "view": 6, "shuffle": 3}),
    "matching": Entry({"use": "matching"}),
    "hyparview": Entry({"use": "hyparview", "view": 3, "passive": 7, "shuffle_active": 2, "shuffle_passive": 2}),
    "tman": Entry({"use": "tman", "peers": "peers", "view": 6, "message": 5, "psi": 3, "lifetime": 8}, (VIEWS,)),
    "tman, a tree": Entry({"use": "tman", "peers": "peers", "topology": "tree", "view": 6}, (PEERS,)),
    "broadcast": Entry({"use": "broadcast", "peers": "peers", "mode": "push-pull"}, (VIEWS,)),
    "broadcast, rumour mongering": Entry(
        {"use": "broadcast", "peers": "peers", "mode": "rumour", "stop": "coin", "epoch": 12}, (PEERS,)
    ),
    "broadcast, random initiators": Entry(
        {"use": "broadcast", "peers": "peers", "initiators": "random", "sources": 2, "epoch": 9}, (PEERS,)
    ),
    "flooding": Entry({"use": "flooding", "peers": "peers", "messages": 2, "fanout": 2}, (VIEWS,)),
    "averaging": Entry({"use": "averaging", "peers": "peers"}, (PEERS,)),
    "averaging of a peak, random initiators": Entry(
        {"use": "averaging", "peers": "peers", "initial": "peak", "initiators": "random"}, (VIEWS,)
    ),
    "averaging of rows": Entry({"use": "averaging", "peers": "peers", "of": "given"}, (PEERS, GIVEN)),
    "averaging of records, epochs": Entry(
        {"use": "averaging", "peers": "peers", "of": "sums", "moments": 2, "epoch": 3}, (PEERS, SUMS), data=True
    ),
    "push_sum": Entry({"use": "push_sum", "peers": "peers"}, (PEERS,)),
    "push_sum counts, epochs": Entry({"use": "push_sum", "peers": "peers", "initial": "count", "epoch": 4}, (VIEWS,)),
    "push_sum of records, epochs": Entry(
        {"use": "push_sum", "peers": "peers", "of": "sums", "epoch": 3}, (PEERS, SUMS), data=True
    ),
    "muffliato": Entry({"use": "muffliato", "peers": "graph", "epsilon": 2.0, "delta": 1e-5, "steps": 6}, (GRAPH,)),
    "muffliato of records, pairwise": Entry(
        GOSSIPED | {"peers": "peers", "moments": 2, "steps": 5, "account": "pairwise"}, (VIEWS,), data=True
    ),
    "muffliato of nodes, some observers": Entry(
        GOSSIPED | {"peers": "graph", "unit": "node", "steps": 4, "account": 3}, (GRAPH,), data=True
    ),
    "averaged_model": Entry({"use": "averaged_model", "averages": "means"}, (PEERS, SUMS, MEANS), data=True),
    "averaged_model, mean of noisy models": Entry(
        {"use": "averaged_model", "averages": "means", "learner": "mean"},
        (PEERS, OUTPUT | {"name": "noisy"}, MEANS | {"of": "noisy"}),
        data=True,
    ),
    "noisy_mean": Entry(NOISY | {"unit": "node"}, data=True, once=True),
    "noisy_mean of a curator": Entry(NOISY | {"trust": "curator", "moments": 2}, data=True, once=True),
    "noisy_mean of honest nodes": Entry(NOISY | {"trust": "honest", "honest": 5}, data=True, once=True),
    "noisy_mean with correlated noise": Entry(
        NOISY | {"trust": "correlated", "honest": 5, "peers": "graph"}, (GRAPH,), data=True, once=2
    ),
    "noisy_mean with correlated noise, for given colluders": Entry(
        NOISY | {"trust": "correlated", "colluding": 0.2, "peers": "graph"}, (GRAPH,), data=True, once=2
    ),
    "golf": Entry(GOLF, (PEERS,), data=True),
    "golf, everything remembered": Entry(GOLF | {"variant": "mu", "cache": 3}, (PEERS,), data=True),
    "golf over newscast": Entry(GOLF, (VIEWS,), data=True),
    "golf with noisy gradients": Entry(GOLF | {"epsilon": 5.0}, (PEERS,), data=True),
    "golf with token accounts and parts": Entry(
        GOLF | {"variant": "own", "average": "age", "limit": 3, "flow": RANDOMISED, "message": {"parts": 2}},
        (PEERS,),
        data=True,
    ),
    "golf, largest changes": Entry(
        GOLF | {"variant": "own", "message": {"top": 0.5, "codec": "quantised", "bits": 4}}, (VIEWS,), data=True
    ),
    "random_walk": Entry(GOLF | {"use": "random_walk"}, (PEERS,), data=True),
    "random_walk, averaged": Entry(
        GOLF | {"use": "random_walk", "average": "second-half", "offset": 100.0}, (PEERS,), data=True
    ),
    "optimum": Entry({"use": "optimum", "records": "raw"}, data=True, once=True),
    "optimum, centroid": Entry({"use": "optimum", "records": "raw", "learner": "centroid"}, data=True, once=True),
    "gradient_perturbation": Entry(GOLF | {"use": "gradient_perturbation", "epsilon": 5.0}, (PEERS,), data=True),
    "data_perturbation": Entry({"use": "data_perturbation", "epsilon": 5.0}, data=True, once=True),
    "gradient_perturbation, gaussian": Entry(
        GOLF
        | {"use": "gradient_perturbation", "epsilon": 5.0, "noise": "gaussian", "delta": 1e-5, "norm": "l2"}
        | {"learner": "mean", "account": 3, "schedule": {"kind": "uniform", "visits": 3}},
        (PEERS,),
        data=True,
    ),
    "data_perturbation, gaussian": Entry(
        {"use": "data_perturbation", "epsilon": 5.0, "noise": "gaussian", "delta": 1e-5, "norm": "l2"},
        data=True,
        once=True,
    ),
    "data_perturbation, sampled": Entry(
        {"use": "data_perturbation", "epsilon": 5.0, "mode": "sampled"}, data=True, once=True
    ),
    "data_perturbation, sampled as perturbed bits of a node": Entry(
        {
            "use": "data_perturbation",
            "epsilon": 8.0,
            "mode": "sampled",
            "samples": 2,
            "channel": "unary",
            "unit": "node",
        },
        data=True,
        once=True,
    ),
    "regularised_erm": Entry({"use": "regularised_erm", "lambda": 0.01}, data=True, once=True),
    "regularised_erm with noise": Entry(OUTPUT, data=True, once=True),
    "regularised_erm with gaussian noise": Entry(OUTPUT | GAUSSIAN, data=True, once=True),
    "regularised_erm, perturbed objective": Entry(OUTPUT | {"noise": "objective"}, data=True, once=True),
    "anonml": Entry(ANONML | {"window": 20, "deadline": 1}, (PEERS,), data=True),
    "anonml through circuits": Entry(ANONML | CIRCUITS, (VIEWS,), data=True),
    "reference": Entry({"use": "reference", "trees": 5}, data=True, once=True),
    "federated_averaging": Entry({"use": "federated_averaging", "records": "raw"}, data=True),
    "federated_averaging, epochs": Entry(
        {
            "use": "federated_averaging",
            "records": "raw",
            "clients": 20,
            "epochs": 3,
            "batch": 1,
            "deadline": 3,
            "message": {"codec": "quantised"},
        },
        data=True,
    ),
    "decentralised_sgd": Entry({"use": "decentralised_sgd", "peers": "graph", "records": "raw"}, (GRAPH,), data=True),
    "decentralised_sgd over newscast": Entry(
        {
            "use": "decentralised_sgd",
            "peers": "peers",
            "records": "raw",
            "steps": 2,
            "batch": 1,
            "mixing": "uniform",
            "message": {"codec": "float16"},
        },
        (VIEWS,),
        data=True,
    ),
    "local_learner": Entry({"use": "local_learner", "records": "raw"}, data=True),
    "central_learner": Entry({"use": "central_learner", "records": "raw"}, data=True),
    "group_aggregation": Entry(GROUPS, (LOCAL,), data=True),
    "group_aggregation, sums in the clear": Entry(GROUPS | {"sum": "plain", "quorum": 2}, (LOCAL,), data=True),
    "group_aggregation with gaussian noise": Entry(
        GROUPS | GAUSSIAN | {"aggregation_epsilon": 2.0, "trust": "curator", "quorum": 3}, (LOCAL,), data=True
    ),
    "group_aggregation with gaussian shares": Entry(
        GROUPS | GAUSSIAN | {"trust": "honest", "honest": 3}, (LOCAL,), data=True
    ),
    "group_aggregation over newscast": Entry(GROUPS | OVER_VIEWS, (VIEWS, LOCAL), data=True),
    "group_aggregation, sums in the clear over newscast": Entry(
        GROUPS | OVER_VIEWS | {"sum": "plain"}, (VIEWS, LOCAL), data=True
    ),
    "group_aggregation by gossip": Entry(
        GROUPS | OVER_VIEWS | {"publish": "gossip", "quorum": 2, "cap": 2}, (VIEWS, LOCAL), data=True
    ),
    "a user's own": Entry({key: AVERAGING[key] for key in ("use", "peers")}, (PEERS,)),
}
FAULTS = {"loss": {"loss": 0.3}, "delay": {"delay": [1, 4]}}


def probe(protocol):
    """A layer that shows in the log what a layer without metrics of its own does."""
    if issubclass(protocol, Overlay):
        return [AVERAGING | {"name": "probe", "peers": "subject"}]
    if issubclass(protocol, Records):
        return [GOLF | {"name": "probe", "records": "subject"}]
    return []


def scenario(entry, *, probed=True, number=NODES, **tables):
    """The entry's protocol as the layer “subject”, among all that it needs."""
    above = probe(entry.protocol) if probed else []
    below = list(entry.below)
    if probed and issubclass(entry.protocol, Records) and not any(layer["name"] == "peers" for layer in below):
        below.append(PEERS)
    layers = [*below, {"name": "subject"} | entry.layer, *above]
    if entry.data:
        return learning_tree(*layers, number=number, data=DATA | {"train": 2 * number}, **tables)
    return tree(*layers, nodes=number, **tables)


def accepted(entry, faults=("loss", "delay"), probed=True):
    """The transport with those of the faults that all layers accept."""
    layers = [*entry.below, entry.layer, *(probe(entry.protocol) if probed else [])]
    common = frozenset.intersection(*(find(layer["use"], HERE).accepts for layer in layers))
    return {key: value for fault in faults if fault in common for key, value in FAULTS[fault].items()}


def subject(entry):
    """An entry as the contract takes it."""
    below = list(entry.below)
    if issubclass(entry.protocol, Records) and not any(layer["name"] == "peers" for layer in below):
        below.append(PEERS)
    return Subject(entry.layer, tuple(below), tuple(probe(entry.protocol)), entry.data, entry.once, HERE)
