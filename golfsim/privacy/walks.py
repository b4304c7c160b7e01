"""Compute what each node reveals to each other node if a model with noise walks over the network.

A node sees the model only when it has the token (Cyffers & Bellet 2022). Between the update of node u and the next
visit to an observer, other nodes update the model and add noise of their own. If these updates do not increase the
distance of two models, the noise of all of them hides the update of u: privacy amplification by iteration (Feldman,
Mironov, Talwar & Thakurta 2018, theorem 22). The page “Privacy” has the theorem and its assumptions.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel
from golfsim.core.state import Stateful
from golfsim.privacy import gaussian

PAIR = 56  # bytes per observer and node while its ε is computed
GRID = 1000  # values of μ for which ε is computed
Floats = NDArray[np.float64]


class Updates(NamedTuple):
    """The updates with noise of all walkers, in their order; the first `size[0]` entries are used."""

    walker: NDArray[np.int32]
    node: NDArray[np.int32]
    square: Floats  # the variance that the update added to each coordinate of the model
    mu: Floats  # the largest change of the model by one unit, in standard deviations of this noise
    firm: NDArray[np.bool_]  # whether the update increases no distance of two models
    size: NDArray[np.int64]  # [1]


@kernel
def see(updates, walker, row, last, seen):
    """Let an observer see the model of a walker: account for all updates since it saw this model the last time.

    Updates of one node that the observer sees together count as one with the sum of their μ.

    Parameters
    ----------
    updates : Updates
        The updates so far.
    walker : int
        The walker.
    row : int
        The row of the observer.
    last : array of int64, shape (observers, walkers)
        The number of updates of all walkers when each observer saw each model the last time; changed in place.
    seen : array of float64, shape (observers, nodes)
        The sum of the squares of μ that each observer has seen of each node; changed in place.
    """
    together = np.zeros(seen.shape[1])
    variance, firm = 0.0, True  # of the updates after this one, and whether they hide it
    for e in range(updates.size[0] - 1, last[row, walker] - 1, -1):
        if updates.walker[e] == walker:
            variance = updates.square[e] + (variance if firm else 0.0)
            together[updates.node[e]] += updates.mu[e] * np.sqrt(updates.square[e] / variance)
            firm = updates.firm[e]
    for e in range(last[row, walker], updates.size[0]):
        if updates.walker[e] == walker:
            node = updates.node[e]
            seen[row, node] += together[node] * together[node]
            together[node] = 0.0
    last[row, walker] = updates.size[0]


@kernel
def arrive_at(path, place, updates, last, seen):
    """Let the observers among the nodes that have a token see its model.

    Parameters
    ----------
    path : array of int32, shape (walkers,)
        The node of each walker; −1: none.
    place : array of int32, shape (nodes,)
        The row of each observer; −1 for all other nodes.
    updates : Updates
        The updates so far.
    last : array of int64, shape (observers, walkers)
        See `see`; changed in place.
    seen : array of float64, shape (observers, nodes)
        See `see`; changed in place.
    """
    for walker in range(path.size):
        if path[walker] >= 0 and place[path[walker]] >= 0:
            see(updates, walker, place[path[walker]], last, seen)


@kernel
def add_updates(path, place, changed, square, mu, firm, updates, last):
    """Add the updates of a hop. Observers know the noise of their own updates, and so the model after them.

    Parameters
    ----------
    path : array of int32, shape (walkers,)
        The node of each walker; −1: none.
    place : array of int32, shape (nodes,)
        The row of each observer; −1 for all other nodes.
    changed : array of bool, shape (walkers,)
        Whether the model of each walker was updated.
    square : array of float64, shape (walkers,)
        The variance that the update added to each coordinate.
    mu : float
        The largest change of the model by one unit, in standard deviations of this noise.
    firm : array of bool, shape (walkers,)
        Whether the update increases no distance of two models.
    updates : Updates
        The updates; changed in place.
    last : array of int64, shape (observers, walkers)
        See `see`; changed in place.
    """
    for walker in range(path.size):
        if changed[walker]:
            e = updates.size[0]
            updates.walker[e], updates.node[e] = walker, path[walker]
            updates.square[e], updates.mu[e], updates.firm[e] = square[walker], mu, firm[walker]
            updates.size[0] += 1
            if place[path[walker]] >= 0:
                last[place[path[walker]], walker] = updates.size[0]


class Account(Stateful):
    """What some observers have seen of each node: the sums of the squares of μ.

    Parameters
    ----------
    observers : array of int32
        The observers.
    nodes : int
        The number of nodes.
    walkers : int
        The number of walkers.
    most : int
        The largest number of updates of all walkers together.
    """

    def __init__(self, observers: NDArray[np.int32], nodes: int, walkers: int, most: int) -> None:
        self._observers = observers
        self._place = np.full(nodes, -1, np.int32)
        self._place[observers] = np.arange(observers.size)
        self.walker, self.node = np.zeros(most, np.int32), np.zeros(most, np.int32)
        self.square, self.mu, self.firm = np.zeros(most), np.zeros(most), np.zeros(most, np.bool_)
        self.size = np.zeros(1, np.int64)
        self.last = np.zeros((observers.size, walkers), np.int64)
        self.seen = np.zeros((observers.size, nodes))

    @staticmethod
    def memory(observers: int, nodes: int, walkers: int, most: int) -> int:
        """Return the bytes of an account of this size."""
        return 25 * most + PAIR * observers * nodes + 8 * observers * walkers + 4 * nodes

    @property
    def observers(self) -> NDArray[np.int32]:
        """The observers."""
        return self._observers

    @property
    def _updates(self) -> Updates:
        return Updates(self.walker, self.node, self.square, self.mu, self.firm, self.size)

    def arrive(self, path: NDArray[np.int32]) -> None:
        """Let the observers among these nodes see the tokens, before they update them."""
        arrive_at(path, self._place, self._updates, self.last, self.seen)

    def update(self, path: NDArray[np.int32], changed: NDArray[np.bool_], noise: Floats, mu: float, firm: Any) -> None:
        """Add the updates of a hop.

        Parameters
        ----------
        path : array of int32, shape (walkers,)
            The node of each walker; −1: none.
        changed : array of bool, shape (walkers,)
            Whether the model of each walker was updated.
        noise : array of float64, shape (walkers,)
            The standard deviation of what the update added to each coordinate.
        mu : float
            The largest change of the model by one unit, in these standard deviations.
        firm : array of bool, shape (walkers,)
            Whether the update increases no distance of two models.
        """
        add_updates(path, self._place, changed, noise * noise, mu, firm, self._updates, self.last)


@lru_cache(maxsize=4096)
def epsilon_of(rho: float, delta: float) -> float:
    """Return an ε at δ of a mechanism whose Rényi divergence of order α is at most αρ, rounded up to six digits."""
    from dp_accounting.rdp import rdp_privacy_accountant

    if rho == 0:
        return 0.0
    orders = 1 + np.geomspace(1e-3, 1e4, 400)
    found, _ = rdp_privacy_accountant.compute_epsilon(orders, rho * orders, delta)
    return gaussian.rounded(float(found), up=True)


def epsilons(seen: Floats, mu: float, local: float, delta: float) -> Floats:
    """Return an ε at δ for each sum of squares of μ, and never more than the local ε.

    Parameters
    ----------
    seen : array of float64
        The sums.
    mu : float
        The μ of the local guarantee. Roots are rounded up to a thousandth of it.
    local : float
        The local ε.
    delta : float
        The δ.
    """
    step = np.minimum(np.ceil(np.sqrt(seen) / mu * GRID - 1e-9), GRID).astype(np.int64)
    places, which = np.unique(step, return_inverse=True)
    table = [
        local if place == GRID else min(local, epsilon_of((mu * place / GRID) ** 2 / 2, delta))
        for place in places.tolist()
    ]
    return np.array(table)[which].reshape(seen.shape)


def steady(rate: Any, lam: float, length: float) -> Any:
    """Return whether gradient steps of these rates on the regularised logistic loss increase no distance.

    The loss is (λ + ‖x‖²/4)-smooth and convex, so this holds for rates of at most 2/(λ + ‖x‖²/4) (Nesterov 2004).
    """
    return rate * (lam + length * length / 4) <= 2 * (1 - math.ldexp(1.0, -20))
