"""The privacy audit: how much ε a strategy is seen to spend at least, beside the ε that it states.

A scenario's private layers run again and again in a network of a few nodes, on two neighbouring data sets. Which two
is found by a first, short round over pairs that are the worst by construction and over random ones. Then the outputs
of the worst pair are divided: one quarter to guess what tells the two data sets apart, one to choose the most telling
event, and one half to bound its probabilities. So nothing that was tried before has a say in the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.audit import bounds, neighbours, scores
from golfsim.audit.bounds import Floats
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
SHORT = 50  # the first round has for each pair so many times fewer runs than the main one, and
FEWEST_SHORT = 10  # at least these
TOGETHER = "together"
TRIED = 1000  # about so many events are chosen from: rare ones, which look good by chance, have to be that much better
NOTHING = "nothing was released"
MOST_TELLING = 1.0  # the ε that an audit sees best: with more, events of the other data set become rare
Outputs = tuple[dict[str, Floats], dict[str, Floats]]  # on either data set, by layer: [runs, numbers]


@dataclass(frozen=True)
class Finding:
    """What an audit found about one layer, or about all together, at one point of a scenario."""

    point: str
    layer: str
    unit: Unit
    stated: float | None
    note: str
    bound: float
    pair: str
    score: str
    runs: int  # on each of the two data sets

    @property
    def broken(self) -> bool:
        """Whether more was seen to be spent than is stated."""
        return self.stated is not None and self.bound > self.stated


@dataclass(frozen=True)
class Audit:
    """All findings; they hold together with this confidence."""

    findings: tuple[Finding, ...]
    confidence: float
    ceiling: float  # no bound of so many runs can be above

    @property
    def broken(self) -> bool:
        """Whether any layer spends more than it states."""
        return any(finding.broken for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        found = [asdict(finding) | {"broken": finding.broken} for finding in self.findings]
        return {"confidence": self.confidence, "ceiling": self.ceiling, "broken": self.broken, "findings": found}


@dataclass(frozen=True)
class Subject:
    """What a finding is about: layers of a network that share a unit, and what is stated of them."""

    point: str
    network: Network
    layers: tuple[str, ...]
    guarantee: Guarantee

    @property
    def name(self) -> str:
        """The layer's, or what stands for all of them."""
        return self.layers[0] if len(self.layers) == 1 else TOGETHER

    def of(self, outputs: Outputs) -> tuple[Floats, Floats]:
        """All that these layers released on either data set, without repetition and what is the same in every run."""
        one, other = (np.concatenate([side[name] for name in self.layers], axis=1) for side in outputs)
        both = np.concatenate([one, other])
        columns = np.sort(np.unique(both, axis=1, return_index=True)[1])
        columns = columns[(both != both[0]).any(axis=0)[columns]]
        return one[:, columns], other[:, columns]


Pairs = Callable[[Audited], list[NeighbouringPair]]


def all_pairs(size: Audited) -> list[NeighbouringPair]:
    """The worst by construction, and some that nobody thought of."""
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
    """Audit all private layers of a scenario; see the module for how.

    Of points of a sweep that differ in nothing but numbers only the one whose ε an audit sees best is tried, unless
    `every_point` is asked for. `pairs` are what the first round chooses from.
    """
    subjects = list(_subjects(points(scenario), every_point))
    return audited(subjects, runs, scenario.seed if seed is None else seed, confidence, pairs)


def audited(subjects: list[Subject], runs: int, seed: int = 1, confidence: float = 0.95, pairs: Pairs = all_pairs
            ) -> Audit:  # fmt: skip
    """Audit these layers; what is found holds for all of them with this confidence."""
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
    """Each private layer of a scenario, and all of one unit together if there are several."""
    network = Network(scenario)
    if not network.private:
        return []
    stated = network.guarantees(neighbours.constructed(network.size.features, network.size.norm)[0])
    found = [Subject(name, network, (layer,), guarantee) for layer, guarantee in stated.items()]
    for unit in dict.fromkeys(guarantee.unit for guarantee in stated.values()):
        layers = tuple(layer for layer, guarantee in stated.items() if guarantee.unit == unit)
        if len(layers) > 1:
            found.append(Subject(name, network, layers, together([stated[layer] for layer in layers])))
    return found


def hard_to_see(subjects: list[Subject]) -> float:
    """How far from what an audit sees best the stated ε are, of those that are stated."""
    stated = [subject.guarantee.epsilon for subject in subjects]
    far = [
        abs(math.log(epsilon / MOST_TELLING)) for epsilon in stated if epsilon is not None and 0 < epsilon < math.inf
    ]
    return sum(far) / len(far) if far else math.inf


# How it is audited


def _found(subject: Subject, runs: int, seed: int, error: float, pairs: Pairs) -> Finding:
    network, unit = subject.network, subject.guarantee.unit
    pair = _worst_pair(subject, pairs(network.size), max(runs // SHORT, FEWEST_SHORT), seed)
    one, other = subject.of(_outputs(network, pair, unit, runs, seed, ("one", "other")))
    name, bound = tell_apart(one, other, error)
    stated = subject.guarantee.epsilon
    finite = None if stated is None or math.isinf(stated) else stated
    return Finding(subject.point, subject.name, unit, finite, subject.guarantee.note, bound, pair.name, name, runs)


def _outputs(
    network: Network, pair: NeighbouringPair, unit: Unit, runs: int, seed: int, purposes: tuple[str, str]
) -> Outputs:
    """What all layers release in many runs on either data set, each with the noise of its purpose and number."""
    sides = []
    for side, purpose in enumerate(purposes):
        layers = network.stack(pair, side, unit)
        noise = (int(rng.key(seed, "audit", f"{purpose} {number}")) for number in range(runs))
        found = [network.run(layers, each) for each in noise]
        sides.append({name: np.array([one[name] for one in found]) for name in network.private})
    return sides[0], sides[1]


def _worst_pair(subject: Subject, pairs: list[NeighbouringPair], runs: int, seed: int) -> NeighbouringPair:
    """The node and the pair that a few runs tell apart best; both data sets have the same noise, against chance."""
    network, unit = subject.network, subject.guarantee.unit

    def apart(pair: NeighbouringPair) -> float:
        return scores.distance(*subject.of(_outputs(network, pair, unit, runs, seed, ("pair", "pair"))))

    node = max((-1, 0), key=lambda node: apart(pairs[0]._replace(node=node))) if network.size.nodes > 1 else -1
    there = [pair._replace(node=node) for pair in pairs]
    return max(there, key=apart) if len(there) > 1 else there[0]


def tell_apart(one: Floats, other: Floats, error: float) -> tuple[str, float]:
    """A lower bound on ε from outputs [runs, numbers] on two data sets, and the score that it is due to."""
    if not one.shape[1]:
        return NOTHING, 0.0
    (fit, choose, test), (fit_n, choose_n, test_n) = (_quarters_and_half(outputs) for outputs in (one, other))
    best: tuple[float, str, scores.Score, float, bool] | None = None
    for name, score in scores.guesses(fit, fit_n):
        for turned in (False, True):
            event = bounds.best_event(*_scored(score, choose, choose_n, turned), error / TRIED)
            if best is None or event.bound > best[0]:
                best = event.bound, name, score, event.threshold, turned
    assert best is not None
    _, name, score, threshold, turned = best
    found = bounds.bounds_at(*_scored(score, test, test_n, turned), threshold, error)
    return name, max(0.0, float(found[0]))


def _scored(score: scores.Score, one: Floats, other: Floats, turned: bool) -> tuple[Floats, Floats]:
    """Scores of both; turned, they are large where the other data set is the likelier one, which then comes first."""
    return (-score(other), -score(one)) if turned else (score(one), score(other))


def _quarters_and_half(outputs: Floats) -> Iterable[Floats]:
    return np.split(outputs, [len(outputs) // 4, len(outputs) // 2])


# How it is told


def rendered(found: Audit) -> Table:
    """A table for a terminal: what is broken is red."""
    from rich.table import Table
    from rich.text import Text

    several = len({row.point for row in found.findings}) > 1
    titles = ("layer", "unit", "stated ε", f"ε is at least ({found.confidence:g})", "worst pair", "runs")
    table = Table(*(["point"] if several else []), *titles, box=None, pad_edge=False)
    for row in found.findings:
        stated = "nothing" if row.stated is None else f"{row.stated:.4g}"
        words = (row.layer, row.unit, stated, f"{row.bound:.3f}", row.pair, f"2 × {row.runs}")
        style = "bold red" if row.broken else ""
        table.add_row(*(Text(word, style) for word in ((row.point, *words) if several else words)))
    return table


def summary(found: Audit) -> str:
    """What the table means."""
    if not found.findings:
        return "no layer uses private data: there is nothing to audit"
    broken = [row for row in found.findings if row.broken]
    lines = [f"broken: “{row.layer}” states ε = {row.stated:g} and spends at least {row.bound:.3f}" for row in broken]
    if not broken:
        lines.append("nothing was seen to spend more than it states")
    lines += [f"“{row.layer}” released nothing that an audit can see" for row in found.findings if row.score == NOTHING]
    seldom = [row for row in found.findings if row.stated is not None and row.stated > found.ceiling]
    if seldom or any(row.stated is None for row in found.findings):
        lines.append(f"so many runs cannot show more than ε = {found.ceiling:.3g}; more need more runs")
    return "\n".join(lines)
