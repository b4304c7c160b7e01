"""A lower bound on ε from guesses about many independent coins (Steinke, Nasr & Jagielski 2023).

A mechanism gets m fair coins; to turn one of them replaces a record (or all records of a node) by another. From the
output an attacker guesses some of the coins. If the mechanism is (ε, δ)-private, theorem 5.2 of the article bounds the
probability that v of r guesses are right, whatever the attacker does: with W ~ Binomial(r, e^ε/(1 + e^ε)) it is at most

    P[W ≥ v] + 2mδ · max over i = 1 … m of P[v > W ≥ v − i] / i .

So if this is at most `error`, the mechanism is not (ε, δ)-private, with confidence 1 − error. The attacker may know the
coins of other canaries: given these, the mechanism is (ε, δ)-private in the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.audit import scores
from golfsim.audit.scores import Floats, Score

SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)  # of the canaries: candidates for k+ and k−
CAUTION = 0.005  # the error rate of what candidates promise: it corrects for those that look good by chance
STEP = 0.05  # of ε, in the search for the first ε that is not rejected
HALVINGS = 40
FEWEST = 40  # canaries: with fewer, no part of them can show anything
FEW = 4  # numbers per canary: then each of them alone is a score, too
NOTHING = "nothing was released"  # also in `golfsim.audit.auditing`


def p_value(right: int, made: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the largest probability of at least `right` right guesses under (ε, δ)-privacy: theorem 5.2.

    Parameters
    ----------
    right : int
        The number of right guesses.
    made : int
        The number of guesses; for all other canaries none is made.
    canaries : int
        The number of canaries.
    epsilon, delta : float
        The privacy that is assumed.
    """
    from scipy.special import bdtrc

    chance = 1 / (1 + math.exp(-epsilon))
    if right == 0:
        return 1.0
    tail = float(bdtrc(right - 1, made, chance))
    if delta == 0:
        return tail
    fewer = np.arange(1, right + 1)  # a larger i has the same numerator as i = v
    between = np.append(bdtrc(right - fewer[:-1] - 1, made, chance), 1.0) - tail
    return min(1.0, tail + 2 * canaries * delta * float((between / fewer).max()))


def lower_bound(right: int, made: int, canaries: int, error: float, delta: float = 0.0) -> float:
    """Return an ε up to which (ε, δ)-privacy is rejected with an error rate of `error`; 0 if none is rejected.

    Every smaller ε is rejected as well, so the bound exceeds the true ε only if the true ε is rejected.
    """
    if delta == 0:
        return _without_delta(right, made, error)
    low = 0.0
    if p_value(right, made, canaries, low, delta) > error:
        return 0.0
    most = _without_delta(right, made, error)  # δ can only weaken the bound
    while low + STEP < most and p_value(right, made, canaries, low + STEP, delta) <= error:
        low += STEP
    high = min(low + STEP, most)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(right, made, canaries, middle, delta) <= error else (low, middle)
    return low


def _limit(right: Any, made: Any, error: float) -> Floats:
    """Return the lower limit of Clopper & Pearson (1934) for the probability of a right guess."""
    from scipy.special import betaincinv

    right, made = np.asarray(right, np.float64), np.asarray(made, np.float64)
    return np.where(right > 0, betaincinv(np.maximum(right, 1), np.maximum(made - right, 0) + 1, error), 0.0)


def _from_limit(limit: Floats) -> Floats:
    """Return the ε of the randomised response that is right with this probability; 0 below one half."""
    inside = np.clip(limit, 0.5, 1 - 2.0**-53)
    return np.log(inside) - np.log1p(-inside)


def _without_delta(right: int, made: int, error: float) -> float:
    """Return the bound for δ = 0."""
    return float(_from_limit(_limit(right, made, error)))


def ceiling(canaries: int, error: float) -> float:
    """Return the largest bound that this number of canaries can give for δ = 0: half of them, and all guesses right."""
    tested = canaries - canaries // 2
    return _without_delta(tested, tested, error)


class Guessed(NamedTuple):
    """How many coins an attacker guessed, how many of these guesses are right, and the bound that follows."""

    score: str
    canaries: int  # that the bound is computed from
    made: int
    right: int
    bound: float


def guess(score: Floats, most: int, least: int) -> NDArray[np.int8]:
    """Return +1 for the canaries of the highest scores, −1 for those of the lowest, and 0 (no guess) for the others."""
    order = np.argsort(score, kind="stable")
    found = np.zeros(score.size, np.int8)
    found[order[:least]] = -1
    found[order[score.size - most :]] = 1
    return found


def guessed(evidence: Floats, coins: NDArray[np.bool_], error: float, delta: float = 0.0) -> Guessed:
    """Return a lower bound on ε from the numbers [canaries, numbers] that were released about each canary.

    A quarter of the canaries serves to find scores, a quarter to choose a score and the numbers of guesses, and a half
    to bound ε. So the coins that are guessed have no influence on how they are guessed.
    """
    (fit, fit_coins), (choose, coins_there), (test, tested) = _quarters_and_half(evidence, coins)
    best = Choice(-1.0, 0.0, NOTHING, None, 0.0, 0.0)
    for name, score in _scores(fit[fit_coins], fit[~fit_coins]):
        promised = _best_shares(name, score, choose, coins_there, tested.size, error, delta)
        best = max(best, promised, key=lambda each: each[:2])
    if best.score is None:
        return Guessed(NOTHING, tested.size, 0, 0, 0.0)
    right, made = _counted(best.score(test), tested, best.most, best.least)
    return Guessed(best.name, tested.size, made, right, lower_bound(right, made, tested.size, error, delta))


class Choice(NamedTuple):
    """A score, and the shares of canaries that are guessed to be in and out, with the bound that is to be expected."""

    bound: float
    limit: float  # a lower limit of the probability of a right guess
    name: str
    score: Score | None
    most: float
    least: float


def _best_shares(
    name: str, score: Score, evidence: Floats, coins: NDArray[np.bool_], tests: int, error: float, delta: float
) -> Choice:  # fmt: skip
    """Return the shares of canaries whose guesses promise the largest bound from `tests` other canaries.

    Parameters
    ----------
    name : str
        The name of the score.
    score : callable
        The score, which was fitted on other canaries.
    evidence : array of float64, shape (canaries, numbers)
        What was released.
    coins : array of bool, shape (canaries,)
        Which canaries are in.
    tests : int
        The number of canaries that the bound will be computed from.
    error : float
        The error rate of the bound.
    delta : float
        The δ at which ε is bounded.
    """
    found = score(evidence)
    shares = list(itertools.product(SHARES, SHARES))[1:]
    counts = np.array([_counted(found, coins, *share) for share in shares])
    limit = _limit(counts[:, 0], counts[:, 1], CAUTION)
    made = np.array([_number(most, tests) + _number(least, tests) for most, least in shares])
    right = (limit * made).astype(np.int64)
    promised = _from_limit(_limit(right, made, error))
    best = Choice(-1.0, 0.0, name, score, 0.0, 0.0)
    for place in np.lexsort((limit, promised))[::-1]:
        if promised[place] < best.bound or (best.bound >= 0 and promised[place] == 0):
            break  # δ can only weaken a bound
        bound = lower_bound(int(right[place]), int(made[place]), tests, error, delta)
        best = max(best, Choice(bound, float(limit[place]), name, score, *shares[place]), key=lambda each: each[:2])
    return best


def _number(share: float, canaries: int) -> int:
    return int(share * canaries)


def _counted(score: Floats, coins: NDArray[np.bool_], most: float, least: float) -> tuple[int, int]:
    """Return the number of right guesses and of all guesses, for shares of the canaries."""
    said = guess(score, _number(most, score.size), _number(least, score.size))
    return int(((said > 0) & coins).sum() + ((said < 0) & ~coins).sum()), int((said != 0).sum())


def _scores(one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """Yield scores, given the numbers of canaries that are in and of those that are out."""
    for column in range(one.shape[1] if one.shape[1] <= FEW else 0):
        yield f"number {column + 1}", lambda x, column=column: x[:, column]  # type: ignore[misc]
    if min(len(one), len(other)) >= FEWEST // 8 and (np.concatenate([one, other]) != one[0]).any():
        yield from scores.guesses(one, other)


def _quarters_and_half(*arrays: NDArray[Any]) -> list[tuple[Any, ...]]:
    size = len(arrays[0])
    return list(zip(*(np.split(array, [size // 4, size // 2]) for array in arrays), strict=True))
