"""The privacy audit: an empirical lower bound on the ε of a strategy, next to the ε that it states.

The private layers of a scenario run many times in a network of a few nodes, on two neighbouring data sets. A first,
short round chooses these two among pairs that are the worst by construction and random pairs. Then the outputs of the
chosen pair are divided. One quarter serves to find scores that distinguish the two data sets, one quarter to choose the
event that distinguishes them best, and one half to bound the probabilities of that event. So the choices do not affect
the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from golfsim.audit import bounds, neighbours, scores
from golfsim.audit.bounds import Floats
from golfsim.audit.findings import Bound, Findings
from golfsim.audit.neighbours import NeighbouringPair
from golfsim.audit.network import Network
from golfsim.core import rng
from golfsim.privacy.mechanisms import Guarantee, Unit
from golfsim.protocol.base import Audited
from golfsim.runs.single import together
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import Point, points

if TYPE_CHECKING:
    from rich.table import Table

RANDOM_PAIRS = 6
SHORT = 50  # the first round has this many times fewer runs per pair than the main round,
FEWEST_SHORT = 10  # but at least this many
TOGETHER = "together"
TRIED = 1000  # approximate number of candidate events: it corrects for rare events that look good by chance
NOTHING = "nothing was released"
STRANGE, SURE = 3.0, 6.0  # standard errors by which lowest bits differ: it is looked at again, it is no chance
MORE = 8  # times as many runs to look again
MOST_TELLING = 1.0  # the ε that an audit estimates best: above, events of the other data set become rare
Outputs = tuple[dict[str, Floats], dict[str, Floats]]  # on each data set, by layer: [runs, numbers]


@dataclass(frozen=True)
class Finding(Bound):
    """The result of an audit by many small runs."""

    pair: str
    score: str
    runs: int  # on each of the two data sets


class Audit(Findings[Finding]):
    """The findings of an audit by many small runs."""


@dataclass(frozen=True)
class Subject:
    """What a finding is about: layers of a network with the same unit, and their stated guarantee."""

    point: str
    network: Network
    layers: tuple[str, ...]
    guarantee: Guarantee

    @property
    def name(self) -> str:
        """The name of the layer, or “together” for several layers."""
        return self.layers[0] if len(self.layers) == 1 else TOGETHER

    def of(self, outputs: Outputs) -> tuple[Floats, Floats]:
        """Return what these layers released on both data sets, without repeated and without constant columns."""
        one, other = (np.concatenate([side[name] for name in self.layers], axis=1) for side in outputs)
        both = np.concatenate([one, other])
        columns = np.sort(np.unique(both, axis=1, return_index=True)[1])
        columns = columns[(both != both[0]).any(axis=0)[columns]]
        return one[:, columns], other[:, columns]


Pairs = Callable[[Audited], list[NeighbouringPair]]


def all_pairs(size: Audited) -> list[NeighbouringPair]:
    """Return the pairs that are the worst by construction, and some random pairs."""
    return neighbours.constructed(size.features, size.norm) + neighbours.drawn(size.features, size.norm, RANDOM_PAIRS)


def audit(
    scenario: Scenario,
    *,
    runs: int = 4000,
    seed: int | None = None,
    confidence: float = 0.95,
    every_point: bool = False,
    pairs: Pairs = all_pairs,
) -> Audit:
    """Audit all private layers of a scenario. The module docstring describes the method.

    Parameters
    ----------
    scenario : Scenario
        The scenario; all points of its sweep are considered.
    runs : int
        Number of runs on each of the two neighbouring data sets; layers that fit models use several times as many.
    seed : int, optional
        Seed of the noise. Default: the seed of the scenario.
    confidence : float
        Confidence level of all lower bounds together.
    every_point : bool
        Audit all points of a sweep. Otherwise, of points that differ only in numbers, audit only the one whose ε an
        audit estimates best.
    pairs : callable
        Returns the candidate pairs of the first round, given the size of the network.
    """
    subjects = list(_subjects(points(scenario), every_point))
    return audited(subjects, runs, scenario.seed if seed is None else seed, confidence, pairs)


def audited(subjects: list[Subject], runs: int, seed: int = 1, confidence: float = 0.95, pairs: Pairs = all_pairs
            ) -> Audit:  # fmt: skip
    """Audit these layers; `confidence` is that of all lower bounds together."""
    error = (1 - confidence) / 2 / max(len(subjects), 1)
    found = tuple(_found(subject, runs, seed, error, pairs) for subject in subjects)
    return Audit(found, confidence, bounds.ceiling(runs - runs // 2, error))


# What is audited


def _subjects(found: list[Point], every_point: bool) -> Iterator[Subject]:
    chosen = [subjects_of(point.scenario, ", ".join(map(str, point.values.values()))) for point in found]
    if not every_point:
        kinds: dict[str, list[list[Subject]]] = {}
        for point, subjects in zip(found, chosen, strict=True):
            kinds.setdefault(point.kind, []).append(subjects)
        chosen = [min(alike, key=hard_to_see) for alike in kinds.values()]
    for subjects in chosen:
        yield from subjects


def subjects_of(scenario: Scenario, name: str = "") -> list[Subject]:
    """Return each private layer of a scenario, and all layers with the same unit together if there are several.

    With a δ in `[privacy]`, a layer occurs a second time, with the ε at this δ of the visits that the audit makes.
    """
    network = Network(scenario)
    if not network.private:
        return []
    stated, at_delta = network.guarantees(neighbours.constructed(network.size.features, network.size.norm)[0])
    each = [*stated.items(), *at_delta.items()]
    found = [Subject(name, network, (layer,), guarantee) for layer, guarantee in each]
    for unit in dict.fromkeys(guarantee.unit for guarantee in stated.values()):
        layers = tuple(layer for layer, guarantee in stated.items() if guarantee.unit == unit)
        if len(layers) > 1:
            found.append(Subject(name, network, layers, together([stated[layer] for layer in layers])))
    return found


def hard_to_see(subjects: list[Subject]) -> float:
    """Return the mean distance (in log ε) of the stated ε from the ε that an audit estimates best."""
    stated = [subject.guarantee.epsilon for subject in subjects]
    far = [
        abs(math.log(epsilon / MOST_TELLING)) for epsilon in stated if epsilon is not None and 0 < epsilon < math.inf
    ]
    return sum(far) / len(far) if far else math.inf


# How it is audited


def _found(subject: Subject, runs: int, seed: int, error: float, pairs: Pairs) -> Finding:
    network, unit = subject.network, subject.guarantee.unit
    pair = _worst_pair(subject, pairs(network.size), max(runs // SHORT, FEWEST_SHORT), seed)
    runs *= network.size.effort
    one, other = subject.of(_outputs(network, pair, unit, runs, seed, ("one", "other")))
    delta = subject.guarantee.delta
    name, bound = tell_apart(one, other, error, delta)
    stated = subject.guarantee.epsilon
    finite = None if stated is None or math.isinf(stated) else stated
    note = subject.guarantee.note
    return Finding(subject.point, subject.name, unit, finite, delta, note, bound, pair.name, name, runs)


def _outputs(
    network: Network, pair: NeighbouringPair, unit: Unit, runs: int, seed: int, purposes: tuple[str, str]
) -> Outputs:
    """Return what all layers release in many runs on both data sets.

    Parameters
    ----------
    network : Network
        The private layers and their sizes.
    pair : NeighbouringPair
        The two neighbouring data sets.
    unit : Unit
        Whether the data sets differ in one record or in one node.
    runs : int
        Number of runs on each data set.
    seed : int
        Seed of the noise.
    purposes : tuple of str
        The random streams of the two data sets: equal names give equal noise.
    """
    sides = []
    for side, purpose in enumerate(purposes):
        layers = network.stack(pair, side, unit)
        noise = (int(rng.key(seed, "audit", f"{purpose} {number}")) for number in range(runs))
        found = [network.run(layers, each) for each in noise]
        sides.append({name: np.array([one[name] for one in found]) for name in network.private})
    return sides[0], sides[1]


def _worst_pair(subject: Subject, pairs: list[NeighbouringPair], runs: int, seed: int) -> NeighbouringPair:
    """Return the pair, with its node, that a few runs distinguish best, with equal noise on both data sets.

    A pair whose lowest bits differ is preferred: there noise was not rounded, and bits reveal more than numbers do.
    """
    network, unit = subject.network, subject.guarantee.unit

    def outputs(pair: NeighbouringPair, runs: int) -> tuple[Floats, Floats]:
        return subject.of(_outputs(network, pair, unit, runs, seed, ("pair", "pair")))

    def first(node: int) -> float:
        return scores.distance(*outputs(pairs[0]._replace(node=node), runs))

    node = max((-1, 0), key=first) if network.size.nodes > 1 else -1
    there = [pair._replace(node=node) for pair in pairs]
    if len(there) == 1:
        return there[0]
    seen = [outputs(pair, runs) for pair in there]
    strange = [scores.surprise_in_bits(*one) for one in seen]
    most = there[int(np.argmax(strange))]
    if max(strange) > STRANGE and scores.surprise_in_bits(*outputs(most, MORE * runs)) > SURE:
        return most
    return there[int(np.argmax([scores.distance(*one) for one in seen]))]


def tell_apart(one: Floats, other: Floats, error: float, delta: float = 0.0) -> tuple[str, float]:
    """Return the best score and a lower bound on ε at a δ, from outputs [runs, numbers] on two data sets."""
    if not one.shape[1]:
        return NOTHING, 0.0
    (fit, choose, test), (fit_n, choose_n, test_n) = (_quarters_and_half(outputs) for outputs in (one, other))
    best: tuple[float, str, scores.Score, float, bool] | None = None
    for name, score in scores.guesses(fit, fit_n):
        for turned in (False, True):
            event = bounds.best_event(*_scored(score, choose, choose_n, turned), error / TRIED, delta)
            if best is None or event.bound > best[0]:
                best = event.bound, name, score, event.threshold, turned
    assert best is not None
    _, name, score, threshold, turned = best
    found = bounds.bounds_at(*_scored(score, test, test_n, turned), threshold, error, delta)
    return name, max(0.0, float(found[0]))


def _scored(score: scores.Score, one: Floats, other: Floats, turned: bool) -> tuple[Floats, Floats]:
    """Return the scores of both outputs; `turned` exchanges the data sets and the sign of the score."""
    return (-score(other), -score(one)) if turned else (score(one), score(other))


def _quarters_and_half(outputs: Floats) -> Iterable[Floats]:
    return np.split(outputs, [len(outputs) // 4, len(outputs) // 2])


# How it is reported


def rendered(found: Audit) -> Table:
    """Return the findings as a table for the terminal; a lower bound above the stated ε is red."""
    from rich.table import Table
    from rich.text import Text

    several = len({row.point for row in found.findings}) > 1
    titles = ("layer", "unit", "stated ε", f"lower bound on ε ({found.confidence:g})", "worst pair", "runs")
    table = Table(*(["point"] if several else []), *titles, box=None, pad_edge=False)
    for row in found.findings:
        stated = "none" if row.stated is None else f"{row.stated:.4g}" + (f", δ = {row.delta:g}" if row.delta else "")
        words = (row.layer, row.unit, stated, f"{row.bound:.3f}", row.pair, f"2 × {row.runs}")
        style = "bold red" if row.broken else ""
        table.add_row(*(Text(word, style) for word in ((row.point, *words) if several else words)))
    return table


def summary(found: Audit) -> str:
    """Return the conclusion of the audit as text."""
    if not found.findings:
        return "no layer uses private data: there is nothing to audit"
    broken = [row for row in found.findings if row.broken]
    lines = [
        f"broken: “{row.layer}” states ε = {row.stated:g}, but its ε is at least {row.bound:.3f}" for row in broken
    ]
    if not broken:
        lines.append("no lower bound exceeds the stated ε")
    lines += [
        f"“{row.layer}” released nothing that the audit observes" for row in found.findings if row.score == NOTHING
    ]
    seldom = [row for row in found.findings if row.stated is not None and row.stated > found.ceiling]
    if seldom or any(row.stated is None for row in found.findings):
        lines.append(
            f"with this number of runs, no lower bound can exceed {found.ceiling:.3g}; use more runs for a larger ε"
        )
    return "\n".join(lines)
