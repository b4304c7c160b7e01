"""The simplest loops that do the work of a protocol, as a reference: no layers, no faults, no counters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from golfsim.core.kernels import kernel
from golfsim.core.rng import below, draw
from golfsim.core.simd import dot, prefetch
from golfsim.protocol.loading import find
from golfsim.protocol.views import random_views

AHEAD = 8  # events
KEY = np.uint64(1)


@kernel
def change_rows(rows, cycle):
    """Increment as many random rows as there are, one after the other: a bound by memory, since nothing is computed."""
    for i in range(len(rows)):
        prefetch(rows, below(draw(KEY, cycle, i + AHEAD, 0), len(rows)))
        j = below(draw(KEY, cycle, i, 0), len(rows))
        for f in range(rows.shape[1]):
            rows[j, f] += 1


@kernel
def golf_cycle(w, age, x, sign, peer, cycle, lam):
    """Run a cycle: each node sends its model to a random peer, which updates it and averages it with its own.

    Parameters
    ----------
    w : array of float32, shape (nodes, features)
        The models.
    age : array of int32, shape (nodes,)
        Number of updates of each model.
    x : array of float32, shape (nodes, features)
        One record per node.
    sign : array of float32, shape (nodes,)
        The labels, 1 or −1.
    peer : array of int32, shape (nodes,)
        Working space for the chosen peers.
    cycle : int
        The number of the cycle.
    lam : float
        The regularisation λ.
    """
    for i in range(len(w)):
        j = below(draw(KEY, cycle, i, 0), len(w) - 1)
        peer[i] = j + (j >= i)
    for i in range(len(w)):
        if i + AHEAD < len(w):
            prefetch(w, peer[i + AHEAD])
            prefetch(x, peer[i + AHEAD])
        j, t = peer[i], age[i] + 1
        step = np.float32(sign[j] / (lam * t)) if dot(w, i, x, j) * sign[j] < 1 else np.float32(0)
        decay, half = np.float32(1 - 1 / t), np.float32(0.5)
        for f in range(w.shape[1]):
            w[j, f] = half * w[j, f] + half * (decay * w[i, f] + step * x[j, f])
        age[j] = max(age[j], t)


def golf(nodes: int, features: int) -> Callable[[], None]:
    """Return a function that runs one cycle of Golf on random records, one per node."""
    rng = np.random.default_rng(1)
    x = rng.random((nodes, features), np.float32) / features
    sign = np.where(rng.random(nodes) < 0.4, 1, -1).astype(np.float32)
    w, age = np.zeros_like(x), np.zeros(nodes, np.int32)
    peer, cycle = np.empty(nodes, np.int32), iter(range(1, 2**30))
    return lambda: golf_cycle(w, age, x, sign, peer, next(cycle), 1e-4)


def newscast(nodes: int, view: int) -> Callable[[], None]:
    """Return a function that runs one cycle of Newscast: only the merge of the protocol, in a loop."""
    layer = find("newscast", Path())
    module = sys.modules[layer.__module__]
    lay, merge, descriptor, expect = module.lay, module.merge, module.descriptor, module.expect
    together = module.TOGETHER

    @numba.njit(nogil=True, error_model="numpy", _nrt=False)
    def cycle(views, everyone, now, pair):
        for i in range(len(views)):
            if i % together == 0:
                expect(views, everyone, i + together, now, KEY, pair)
            j = views[i, below(draw(KEY, now, i, 0), views.shape[1])] & 0xFFFF_FFFF
            lay(views, i, pair, 0, i)
            lay(views, j, pair, 1, j)
            merge(pair, draw(KEY, now, i, 1) & 1 == 1, 1, views, i, j)
            views[i, 0] = descriptor(now, j)
            views[j, 0] = descriptor(now, i)

    views, everyone = np.full((nodes, view), -1, np.int64), np.arange(nodes, dtype=np.int32)
    random_views(views, everyone, everyone, 0, KEY, 1, views.shape[1])
    pair, now = module.room(view), iter(range(2, 2**30))
    return lambda: cycle(views, everyone, next(now), pair)
