"""The speed of the perturbation strategies and of the fits of single nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

from golfsim.bench.timing import GOLF, Row, best_of, scenario
from golfsim.learning import erm
from golfsim.learning.erm.newton import LOGISTIC, Loss
from golfsim.protocol.loading import find
from golfsim.protocol.records import Rows
from golfsim.sim.simulation import Simulation


def rows() -> Iterator[Row]:
    """Yield all results."""
    yield noisy_updates(float("inf"))
    yield noisy_updates(2.0**35)
    yield sklearn_updates()
    yield published_numbers()
    for epsilon in (10.0, 1.0):
        yield published_symbols(epsilon)
    yield perturbed_bits(16)
    yield perturbed_bits(256)
    yield fits()


def noisy_updates(epsilon: float) -> Row:
    """Measure updates per second of gradient descent on a tour over Spambase, on one thread."""
    walk = {"name": "learning", "use": "gradient_perturbation", "peers": "peers", "records": "raw", "path": "tour"}
    privacy = {"hops": "all", "epsilon": epsilon, "schedule": {"kind": "uniform", "visits": 2**30}}
    simulation = Simulation(scenario(4140, [{"name": "peers", "use": "uniform"}, walk | privacy]))
    seconds = best_of(simulation.step)
    noise = "no noise" if epsilon == float("inf") else "Laplace"
    return {"name": f"gradient steps, {noise}", "updates/s": round(4140 / seconds)}


def sklearn_updates() -> Row:
    """Measure updates per second of scikit-learn's SGDClassifier (hinge) on the same records, from later epochs."""
    from sklearn.linear_model import SGDClassifier

    records = Simulation(scenario(4140, [{"name": "peers", "use": "uniform"}, GOLF])).layer("learning").config.records
    x, y, epochs = records.rows.x.astype(np.float64), records.rows.label, 40

    def fit(count: int) -> None:
        SGDClassifier(alpha=1e-4, max_iter=count, tol=None, fit_intercept=False).fit(x, y)

    seconds = (best_of(lambda: fit(epochs + 1)) - best_of(lambda: fit(1))) / epochs
    return {"name": "scikit-learn SGDClassifier", "updates/s": round(len(x) / seconds)}


def published_numbers() -> Row:
    """Measure noisy numbers per second of data perturbation on one thread: 10 classes of 784 features, as MNIST."""
    layer = find("data_perturbation", Path())
    publish = sys.modules[layer.__module__].publish_per_class
    records, classes, features = 500, 10, 784
    x = np.full((records, features), 1 / features, np.float32)
    label, every = np.arange(records, dtype=np.int32) % classes, np.arange(records)
    rows = Rows(x, label, every, every + 1, False)
    z = np.empty((records * classes, features), np.float32)
    seconds = best_of(lambda: publish(every, 0, records, rows, classes, 0, np.ones(records), np.uint64(1), z))
    return {"name": "published numbers", "numbers/s": round(z.size / seconds)}


def published_symbols(epsilon: float) -> Row:
    """Measure symbols per second of data perturbation on one thread: 10 classes of 784 features, as MNIST.

    At ε = 10 a symbol is published by random response, at ε = 1 as a subset of 2109 of 7840 symbols.
    """
    module = import_module(find("data_perturbation", Path()).__module__.rpartition(".")[0] + ".sampled")
    records, classes, features = 2000, 10, 784
    x = np.full((records, features), 1 / features, np.float32)
    label, every = np.arange(records, dtype=np.int32) % classes, np.arange(records)
    layer = module.sampled(
        epsilon=epsilon, shares=np.ones(records), features=features, classes=classes, signed=False, kind="auto",
        samples=1,
    )  # fmt: skip

    def publish() -> None:
        layer.allocate(np.uint64(1))
        layer.publish(1, every, Rows(x, label, every, every + 1, False))

    return {"name": f"published symbols, ε = {epsilon:g}", "symbols/s": round(records / best_of(publish))}


def perturbed_bits(values: int) -> Row:
    """Measure bits per second of perturbed one-hot strings of this length, drawn and counted on one thread."""
    histograms = import_module(find("anonml", Path()).__module__.rpartition(".")[0] + ".histograms")
    plan = histograms.plan_of([histograms.perturbation("pq", epsilon=1.0, values=values)])
    peers = np.arange((1 << 22) // values, dtype=np.int32)
    reports, accepted = histograms.Reports(peers, peers * 0, peers * 0, peers % values), np.ones(peers.size, np.bool_)
    seconds = best_of(lambda: histograms.collect(np.uint64(1), 0, reports, accepted, plan))
    return {"name": f"perturbed bits, strings of {values}", "bits/s": round(peers.size * values / seconds)}


def fits(nodes: int = 10_000, records: int = 300, features: int = 58, threads: int = 2) -> Row:
    """Measure logistic regressions per second, all nodes in one call, and the ratio to scikit-learn per node.

    scikit-learn fits a sample of the same nodes on one thread (for problems of this size more threads are slower), to
    its own, larger tolerance.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    lam, sample = 0.01, range(0, nodes, max(nodes // 100, 1))
    rows = spam_like(nodes, records, features)
    everybody, ridge = np.arange(nodes, dtype=np.int32), np.full(nodes, lam)
    loss, solver = Loss(LOGISTIC, 0.5), erm.Solver(threads=threads)
    ours = best_of(lambda: erm.fit(everybody, rows, 1, loss, ridge, solver=solver)) / nodes

    def theirs() -> None:
        for node in sample:
            mine = slice(rows.first[node], rows.stop[node])
            machine = LogisticRegression(C=1 / (records * lam), fit_intercept=False, max_iter=1000)
            machine.fit(rows.x[mine], rows.label[mine])

    with threadpool_limits(1):
        ratio = best_of(theirs) / len(sample) / ours
    name = f"fits of {records} × {features}"
    return {"name": name, "nodes": nodes, "threads": threads, "fits/s": round(1 / ours), "× sklearn": round(ratio, 1)}


def spam_like(nodes: int, records: int, features: int) -> Rows:
    """Return sparse non-negative records of L2 norm 1; a linear model predicts nine of ten labels correctly."""
    rng = np.random.default_rng(1)
    x = np.empty((nodes * records, features), np.float32)
    label = np.empty(len(x), np.int32)
    weights = rng.standard_normal(features)
    for start in range(0, len(x), 2**16):
        part = rng.random((min(2**16, len(x) - start), features), np.float32) ** 8
        part /= np.linalg.norm(part, axis=1, keepdims=True)
        x[start : start + len(part)] = part
        noisy = part @ weights + 0.15 * rng.standard_normal(len(part))
        label[start : start + len(part)] = noisy > np.median(noisy)
    first = np.arange(0, len(x), records)
    return Rows(x, label, first, first + records, False)
