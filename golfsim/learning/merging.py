"""Merge two models: their mean, weighted by their ages or not, or the learner's own merge.

The limit on the difference of ages (Danner, Hegedűs & Jelasity 2023) is that of gossipy's LimitedMergeMixin; the text
of the paper was not at hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from golfsim.core.kernels import OVERLOADED, inlined, leaf
from golfsim.core.simd import fused
from golfsim.learning.kinds import Rule, learner_of
from golfsim.learning.updates import decay_of


@inlined
def share_of(age, other_age, by_age):
    """Return the weight of a model in a mean with another one."""
    if by_age and age + other_age > 0:
        return np.float32(age / (age + other_age))
    return np.float32(0.5)


@inlined
def limited_share_of(age, other_age, by_age, limit):
    """Return the weight as `share_of` does, or 1 or 0 if the ages differ by more than a limit; −1: no limit."""
    if limit >= 0 and abs(age - other_age) > limit:
        return np.float32(age > other_age)
    return share_of(age, other_age, by_age)


@inlined
def mix_in(a, i, b, j, share, models):
    """Replace the model at row j of b by its mean with the model at row i of a, which has the weight `share`.

    Parameters
    ----------
    a, b : array of float32, shape (rows, features)
        The models, one row per linear model; b is changed in place.
    i, j : int
        The first rows of the two models.
    share : float32
        The weight of the model in a.
    models : int
        The number of linear models per model.
    """
    rest = np.float32(1) - share
    for m in range(models):
        for f in range(b.shape[1]):
            b[j + m, f] = fused(share, a[i + m, f], rest * b[j + m, f])


def merge_in(rule: Rule, a: Any, i: Any, b: Any, j: Any, share: Any, models: Any) -> None:
    """Merge as `mix_in` does, or by the learner's own kernel if it has one.

    Parameters
    ----------
    rule : Rule
        The update rule, which has the learner.
    a, b : array of float32, shape (rows, numbers)
        The models; b is changed in place.
    i, j : int
        The first rows of the two models.
    share : float32
        The weight of the model in a.
    models : int
        The number of rows per model.
    """
    learner = learner_of(rule)
    if learner.merge is None:
        mix_in(a, i, b, j, share, models)
    else:
        learner.merge(learner.Numbers(*rule.numbers), a, i, b, j, share, rule.room)


@overload(merge_in, jit_options=OVERLOADED)
def _compiled_merge_in(rule, a, i, b, j, share, models):
    kernel, numbers = learner_of(rule).merge, learner_of(rule).Numbers
    if kernel is None:
        return lambda rule, a, i, b, j, share, models: mix_in(a, i, b, j, share, models)
    return lambda rule, a, i, b, j, share, models: kernel(numbers(*rule.numbers), a, i, b, j, share, rule.room)


@inlined
def mix_in_carried(a, i, b, j, share, models):
    """Mix as `mix_in` does the numbers that a message carries; the others are NaN in a.

    Parameters
    ----------
    a, b : array of float32, shape (rows, numbers)
        The models; b is changed in place.
    i, j : int
        The first rows of the two models.
    share : float32
        The weight of the model in a.
    models : int
        The number of rows per model.
    """
    rest = np.float32(1) - share
    for m in range(models):
        for f in range(b.shape[1]):
            if a[i + m, f] == a[i + m, f]:
                b[j + m, f] = fused(share, a[i + m, f], rest * b[j + m, f])


@leaf
def _temper_linear(rule, before, after, t, ages, node):
    parts = ages.shape[1]
    whole = np.float64(1) - np.float64(decay_of(rule, t))
    for part in range(parts):
        mine = np.float64(1) - np.float64(decay_of(rule, ages[node, part]))
        if ages[node, part] != t and whole > 0:
            factor = np.float32(mine / whole)
            for m in range(after.shape[0]):
                for f in range(part, after.shape[1], parts):
                    after[m, f] = fused(factor, after[m, f] - before[m, f], before[m, f])


@leaf
def _temper_never(rule, before, after, t, ages, node):
    pass


def temper(rule: Rule, before: Any, after: Any, t: Any, ages: Any, node: Any) -> None:
    """Scale the change of each part of a linear model to the step size that belongs to the part's own age.

    The step size of a linear learner is proportional to 1 − decay. Other learners have one step size for all parts.

    Parameters
    ----------
    rule : Rule
        The update rule.
    before, after : array of float32, shape (rows, numbers)
        The model before and after its t-th update; `after` is changed in place.
    t : int
        The age of the model, including this update.
    ages : array of int32, shape (nodes, parts)
        The age of each part at each node, including this update.
    node : int
        The node.
    """
    (_temper_linear if learner_of(rule).linear else _temper_never)(rule, before, after, t, ages, node)


@overload(temper, jit_options=OVERLOADED)
def _compiled_temper(rule, before, after, t, ages, node):
    chosen = _temper_linear if learner_of(rule).linear else _temper_never
    return lambda rule, before, after, t, ages, node: chosen(rule, before, after, t, ages, node)
