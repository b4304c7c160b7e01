"""Logs of every protocol and learner, kept to see when a number changes; `python tests/golden.py` records them.

A run has some hundred cycles on records of 57 features, so that a difference in the last bit of a sum has the time to
become a difference in a log. A file has one line per row: cycle, layer, metric, the value exactly (in hexadecimal) and
for reading. Last come hashes of all state. On every processor the lines have to be the same to the last bit.
`tests/system/test_golden.py` says where that holds and how it is seen.
"""

import argparse
import hashlib
import re
from importlib import metadata
from pathlib import Path

from entries import ENTRIES, GOLF, GROUPS, LOCAL, PEERS, VIEWS, accepted, scenario
from helpers import finished, learning_tree

from golfsim.core.kernels import TARGET
from golfsim.testing import known_state

FOLDER = Path(__file__).parent / "golden"
PACKAGES = ("numpy", "numba", "llvmlite", "scipy")
CHURN = {"kind": "rate", "leave": 0.1, "rejoin": 0.5}
SPAM = {"set": "spambase", "train": 122, "test": 200, "scale": ["minmax", "l1"]}
THREE = {"set": "segmentation", "train": 122, "test": 200, "scale": ["minmax", "l2"]}
PLANE = {"set": "plane", "train": 122, "test": 200, "scale": ["l1"]}
RATED = {"set": "ratings", "train": 300, "test": 100}
OBSERVE = {"every": 100, "nodes": 20}
LONG = {"cycles": 300, "observe": OBSERVE}
SHORT = {"cycles": 8, "observe": {"every": 4, "nodes": 10}}
ATTACKED = {
    "attacks": ["label", "membership"],
    "metrics": ["auc", "f1", "confusion", "roc", "mean-model", "optimum"],
}
NORMAL = {"noise": "gaussian", "delta": 1e-5, "norm": "l2"}
INVERTED = OBSERVE | {
    "attacks": ["attribute", "inversion"],
    "sensitive": "word_freq_george",
    "attackers": 10,
    "collude": True,
}
ONE = {"nodes": {"records": 1}}
GRAPH = {"name": "peers", "use": "static_overlay", "neighbours": 5}
SESSIONS = {
    "churn": [{"kind": "lognormal", "online": 0.8, "mu": 2.0, "sigma": 1.0}],
    "transport": {"loss": 0.2, "delay": {"kind": "lognormal", "mu": 0.5, "sigma": 1.0, "max": 20}},
}
WEIBULL = {
    "churn": [{"kind": "weibull", "online": 0.7, "scale": 5.0, "shape": 0.6}],
    "transport": {"delay": {"kind": "exponential", "mean": 2.0, "max": 20}},
}


def of_entry(entry, *, data=None, **tables):
    """The scenario of the contract for a protocol, with churn and all faults that it accepts."""
    made = scenario(entry, churn=CHURN, transport=accepted(entry), **tables)
    return made | {"data": data} if data and entry.data else made


def learning(*layers, data=SPAM, **tables):
    """A scenario of a learner."""
    return learning_tree(*layers, data=data, **(LONG | tables))


def golf(**settings):
    return GOLF | {"name": "subject"} | settings


def without_peers(**settings):
    return {"name": "subject", "records": "raw"} | settings


def published(**settings):
    return {"name": "published", "use": "data_perturbation", "epsilon": 20.0} | settings


def erm(**settings):
    return {"name": "subject", "use": "regularised_erm", "lambda": 0.01} | settings


MORE = {
    "golf with noisy gradients, at a delta": lambda: learning(
        VIEWS, golf(epsilon=5.0, schedule={"kind": "uniform", "visits": 12}), privacy={"delta": 1e-5}
    ),
    "golf with gaussian gradients, halving, three classes": lambda: learning(
        VIEWS,
        golf(epsilon=5.0, schedule={"kind": "halving"}, **NORMAL),
        data=THREE,
        privacy={"delta": 1e-5},
    ),
    "gradient_perturbation, gaussian, for a target": lambda: learning(
        PEERS,
        golf(
            use="gradient_perturbation",
            epsilon="target",
            noise="gaussian",
            norm="l2",
            schedule={"kind": "uniform", "visits": 50},
        ),
        privacy={"target": {"epsilon": 8.0, "delta": 1e-5}},
    ),
    "published with gaussian noise, label and features": lambda: learning(
        PEERS,
        published(mode="label+features", **NORMAL),
        golf(records="published", learner="logistic"),
        {"name": "means", "use": "optimum", "records": "published", "learner": "lda"},
        data=THREE,
    ),
    "golf, one record per node": lambda: learning(VIEWS, golf(), **ONE),
    "golf, logistic, sessions": lambda: learning(VIEWS, golf(learner="logistic"), **ONE, **SESSIONS),
    "golf, turns of its own, the way of golf": lambda: learning(
        VIEWS | {"times": 3, "liveness": "none", "on_return_state": "afresh", "contacts": 4},
        golf(variant="mu", jitter=0.1, on_return="send", cache=5, tie="first"),
        churn=[{"kind": "diurnal", "online": 0.7, "amplitude": 0.2, "period": 24, "session": 8.0, "zones": 3}],
        transport={"loss": 0.2, "delay": [1, 3]},
        **ONE,
    ),
    "golf, turns of its own, the way of gossipy": lambda: learning(
        PEERS,
        golf(variant="own", initial_update=True, jitter=0.1, jitter_of="node", batch="one-by-one", tie="random"),
        data=SPAM | {"scale": ["standard"]},
        churn=[{"kind": "trace", "file": "traces/three_nodes.csv", "assign": "sample", "after": "repeat"}],
    ),
    "golf, models wait": lambda: learning(
        PEERS, golf(receive="next-turn", cache=4, tie="by-score", period=2.0, phase="random"), churn=[CHURN]
    ),
    "golf, mean, weibull": lambda: learning(PEERS, golf(learner="mean", average="age"), **ONE, **WEIBULL),
    "golf, three classes, update then merge": lambda: learning(
        PEERS, golf(variant="um"), data=THREE, nodes={"records": 2, "split": {"kind": "label-skew", "alpha": 0.5}}
    ),
    "golf, median against noise": lambda: learning(
        PEERS, golf(merge="median", cache=5, clip=100.0), adversary=[{"kind": "noise", "share": 0.2, "scale": 10.0}]
    ),
    "golf, perceptron, merge then update": lambda: learning(VIEWS, golf(learner="perceptron", variant="mu")),
    "golf, adaline with noise": lambda: learning(
        PEERS,
        golf(
            learner={"use": "adaline", "rate": 0.05, "clip": 1.0},
            epsilon=50.0,
            schedule={"kind": "uniform", "visits": 50},
        ),
    ),
    "golf, kmeans, matched": lambda: learning(
        VIEWS, golf(learner={"use": "kmeans", "clusters": 4, "window": 20}, variant="mu"), data=THREE, **SESSIONS
    ),
    "golf, centroid, own test records": lambda: learning(
        PEERS,
        golf(learner="centroid", variant="um"),
        golf(name="odds", learner="logistic"),
        data=THREE,
        nodes={"records": 2, "split": {"kind": "label-skew", "alpha": 0.5}},
        observe=OBSERVE | {"test": "own"},
    ),
    "golf, linear regression with noise": lambda: learning(
        PEERS,
        golf(
            learner={"use": "linear_regression", "clip": 1.0},
            epsilon=50.0,
            schedule={"kind": "uniform", "visits": 50},
        ),
        data=PLANE,
    ),
    "golf, matrix factorisation": lambda: learning(
        VIEWS,
        golf(learner={"use": "matrix_factorisation", "rank": 2, "fade": 0.01}, **{"lambda": 0.05}),
        data=RATED,
        nodes={"split": {"kind": "by", "column": "user"}},
        cycles=60,
        observe={"every": 20, "nodes": "all"},
    ),
    "golf, softmax, three classes": lambda: learning(
        PEERS, golf(learner={"use": "softmax", "rate": 0.5, "fade": 0.01}, batch="one-by-one"), data=THREE
    ),
    "golf, softmax, log loss": lambda: learning(
        PEERS, golf(learner={"use": "softmax", "rate": 0.5}), observe=OBSERVE | {"metrics": ["log-loss"]}
    ),
    "golf, mlp with adam, three classes": lambda: learning(
        PEERS,
        golf(
            learner={"use": "mlp", "hidden": [8, 5], "rate": 0.01, "optimiser": "adam", "activation": "tanh"},
            **{"lambda": 0.001},
        ),
        data=THREE,
    ),
    "golf, simple accounts, younger models ignored": lambda: learning(
        VIEWS,
        golf(flow={"kind": "simple", "capacity": 10}, accept="older", variant="rw"),
        **ONE,
        churn=CHURN,
        transport={"loss": 0.1},
    ),
    "golf, generalised accounts, limit, three classes": lambda: learning(
        VIEWS,
        golf(
            flow={"kind": "generalised", "capacity": 10, "spend": 3},
            variant="own",
            limit=20,
            average="age",
            learner="logistic",
        ),
        data=THREE,
        **SESSIONS,
    ),
    "golf, messages that answer messages": lambda: learning(
        PEERS, golf(flow={"kind": "reactive"}, variant="rw"), **ONE, transport={"delay": [1, 3]}
    ),
    "golf, samples in sixteen bits": lambda: learning(
        PEERS, golf(variant="own", message={"sample": 0.2, "codec": "float16"}), **ONE, **WEIBULL
    ),
    "golf, pivot over a graph": lambda: learning(
        GRAPH,
        golf(variant="own", message={"codec": "pivot"}),
        churn=CHURN | {"return": "afresh"},
        transport={"loss": 0.1},
    ),
    "golf, ten parts quantised": lambda: learning(
        PEERS,
        golf(variant="own", average="age", message={"parts": 10, "codec": "quantised", "bits": 6}),
        **ONE,
        adversary=[{"kind": "noise", "share": 0.1, "scale": 10.0}],
    ),
    "gradient_perturbation, mlp": lambda: learning(
        PEERS,
        golf(
            use="gradient_perturbation",
            learner={"use": "mlp", "hidden": [6], "optimiser": "momentum", "clip": 0.5},
            epsilon=50.0,
            norm="l2",
            schedule={"kind": "uniform", "visits": 50},
        ),
    ),
    "federated_averaging, mlp, three classes": lambda: learning(
        without_peers(
            use="federated_averaging",
            learner={"use": "mlp", "hidden": [6], "rate": 0.5},
            share=0.5,
            epochs=2,
            batch=1,
        ),
        data=THREE,
        transport={"loss": 0.2},
    ),
    "decentralised_sgd, attacked": lambda: learning(
        {"name": "graph", "use": "static_overlay", "neighbours": 3},
        golf(use="decentralised_sgd", learner="logistic") | {"peers": "graph"},
        adversary=[{"kind": "noise", "share": 0.1, "scale": 0.1}, {"kind": "old", "share": 0.1, "from": 50}],
    ),
    "golf with noisy gradients, inverted": lambda: learning(
        PEERS, golf(variant="rw", epsilon=50.0, schedule={"kind": "uniform", "visits": 50}), observe=INVERTED, **ONE
    ),
    "random_walk, logistic, inverted": lambda: learning(
        PEERS,
        golf(use="random_walk", learner="logistic", walkers=4),
        data=THREE,
        observe=INVERTED | {"sensitive": 5},
        **ONE,
    ),
    "published records, inverted": lambda: learning(
        published(mode="label+features"), cycles=3, observe=OBSERVE | {"attacks": INVERTED["attacks"], "sensitive": 5}
    ),
    "golf, noise for l2": lambda: learning(
        PEERS, golf(epsilon=50.0, norm="l2", schedule={"kind": "uniform", "visits": 50})
    ),
    "random_walk, matrix factorisation": lambda: learning(
        VIEWS,
        golf(
            use="random_walk",
            walkers=40,
            learner={"use": "matrix_factorisation", "rank": 2, "fade": 0.01},
            **{"lambda": 0.05},
        ),
        data=RATED,
        nodes={"split": {"kind": "by", "column": "user"}},
        cycles=60,
        observe={"every": 20, "nodes": "all"},
    ),
    "random_walk, logistic": lambda: learning(VIEWS, golf(use="random_walk", learner="logistic", hops=3)),
    "gradient_perturbation, l2": lambda: learning(
        PEERS, golf(use="gradient_perturbation", epsilon=50.0, norm="l2", schedule={"kind": "uniform", "visits": 50})
    ),
    "published per class, attacked": lambda: learning(
        PEERS, published(), golf(records="published"), observe=OBSERVE | ATTACKED
    ),
    "published jointly, three classes": lambda: learning(
        PEERS, published(mode="joint", norm="l2"), golf(records="published", learner="logistic"), data=THREE
    ),
    "published label and features": lambda: learning(
        PEERS,
        published(mode="label+features", norm="l2"),
        golf(records="published", **{"lambda": "published-cv"}),
        data=THREE,
    ),
    "published symbols, three classes": lambda: learning(
        PEERS,
        published(mode="sampled", epsilon=6.0, samples=2, channel="subset"),
        golf(records="published", learner="logistic"),
        data=THREE | {"scale": ["minmax", "l1"]},
        observe=OBSERVE | {"attacks": ["label"]},
    ),
    "optimum, three classes, chosen lambda": lambda: learning(
        published(mode="label+features", norm="l2"),
        {"name": "subject", "use": "optimum", "records": "published", "lambda": "published-cv"},
        data=THREE,
        cycles=3,
    ),
    "optimum, lda of three classes": lambda: learning(
        published(mode="label+features", norm="l2"),
        {"name": "subject", "use": "optimum", "records": "published", "learner": "lda"},
        data=THREE,
        cycles=3,
    ),
    "optimum, best of two classes": lambda: learning(
        published(),
        {"name": "subject", "use": "optimum", "records": "published", "learner": "best", "shrink": "published-cv"},
        cycles=3,
    ),
    "regularised_erm, huber, three classes": lambda: learning(erm(loss="huber"), data=THREE, cycles=3),
    "regularised_erm, lasso": lambda: learning(erm(penalty="lasso"), cycles=3),
    "regularised_erm, descent": lambda: learning(
        erm(solver="as-published", batch=1, batch_penalty="full", lambda_form="sum"), cycles=3
    ),
    "regularised_erm, descent with shares": lambda: learning(
        erm(solver="as-published", batch=2, rate_tie="largest", lambda_form="sum"), cycles=3
    ),
    "regularised_erm, private lambda": lambda: learning(
        erm(noise="output", epsilon=20.0, lambda_epsilon=5.0, **{"lambda": "private"}), nodes={"records": 61}, cycles=3
    ),
    "groups, votes with random ties": lambda: learning(
        LOCAL, {"name": "subject"} | GROUPS | {"tie": "random"}, cycles=30
    ),
}
SHORT_LOGS = {name: lambda entry=entry: of_entry(entry, **SHORT) for name, entry in ENTRIES.items()}
LOGS = {name: lambda entry=entry: of_entry(entry, data=SPAM, **LONG) for name, entry in ENTRIES.items()} | MORE


def here():
    """What numbers could depend on, for whoever has to find out why one has changed."""
    packages = " ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    return [f"# compiled for: {TARGET}", f"# packages: {packages}"]


def file_of(name, folder=FOLDER):
    return folder / f"{re.sub(r'[^a-z0-9]+', '_', name)}.txt"


def lines_of(tree):
    """The log and the state of a run."""
    run = finished(tree)
    log = zip(run.log.cycles, run.log.names, map(float, run.log.values), strict=True)
    for cycle, (layer, metric), value in log:
        yield f"{cycle} {layer} {metric} {value.hex()} {value:.6g}"
    for part, array in known_state(run):
        if part.startswith("layer."):
            yield f"state {part} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def record(folder, logs):
    """Write the files of some logs."""
    folder.mkdir(exist_ok=True)
    for name, make in logs.items():
        text = "\n".join([f"# {name}", *here(), *lines_of(make())]) + "\n"
        file_of(name, folder).write_text(text, encoding="utf-8")


def read(name, folder=FOLDER):
    """The lines of a file without what its numbers could depend on."""
    lines = file_of(name, folder).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def values(lines):
    """The value of each cycle, layer and metric."""
    rows = [line.rsplit(" ", 2) for line in lines if not line.startswith("state ")]
    return {key: float.fromhex(exact) for key, exact, _ in rows}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, help="where to write; default: all kept logs are replaced")
    arguments.add_argument("names", nargs="*", help="the logs to write; default: all")
    given = arguments.parse_args()
    if given.folder is None:
        for old in FOLDER.glob("*.txt"):
            old.unlink()
    record(given.folder or FOLDER, {name: LOGS[name] for name in given.names or LOGS})
