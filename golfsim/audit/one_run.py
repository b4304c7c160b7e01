"""The audit with one run: canaries in the scenario as it is, each with one of two contents by a coin.

A canary is one record, or all records of one node, whichever the guarantee protects. Its coin replaces this unit by the
first content (“in”) or by the second one (“out”), so the data sets for the two results of a coin are neighbours. The
scenario then runs once, with its overlay, churn, losses and sizes. What is released about each canary serves to guess
its coin, see `golfsim.audit.guesses`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.audit import guesses
from golfsim.audit.auditing import MOST_TELLING, NOTHING, TOGETHER
from golfsim.audit.findings import Bound, Findings
from golfsim.audit.network import audible
from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.words import counted
from golfsim.privacy.mechanisms import Guarantee, Unit
from golfsim.protocol.base import Protocol
from golfsim.protocol.canaries import Canaries, Content
from golfsim.protocol.records import RawRecords
from golfsim.runs import single
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import Point, points
from golfsim.sim.build import Built
from golfsim.sim.simulation import Simulation

if TYPE_CHECKING:
    from rich.table import Table

Layers = dict[str, Protocol[Any]]
EVERYBODY, NODE = "everybody", "node"
USUAL = 1000  # canaries


class View(NamedTuple):
    """Who observes: all nodes (None), or a number of them that reveal to each other what reaches them."""

    name: str
    observers: int | None

    @classmethod
    def of(cls, text: str) -> View:
        """Return the view that a user asks for."""
        if text == EVERYBODY:
            return cls(text, None)
        found = re.fullmatch(r"(\d+) colluders?", text.strip())
        number = 1 if text == NODE else int(found[1]) if found else 0
        if not number:
            what = f"expected “{EVERYBODY}”, “{NODE}” or a number as in “10 colluders”, got “{text}”"
            raise UserError(what, key="--view")
        return cls(text if text == NODE else counted(number, "colluder"), number)


@dataclass(frozen=True)
class Finding(Bound):
    """What one run shows."""

    view: str
    score: str
    canaries: int  # in the run
    tested: int  # of these, the canaries whose coins are guessed
    made: int  # guesses
    right: int


class OneRun(Findings[Finding]):
    """The findings of one run per point and unit."""


class Watched(NamedTuple):
    """What a run released about its canaries: for each private layer its guarantee, and numbers [canaries, numbers]."""

    coins: NDArray[np.bool_]
    stated: dict[str, Guarantee]
    evidence: dict[str, NDArray[np.float64]]


def audit(
    scenario: Scenario,
    *,
    canaries: int = USUAL,
    seed: int | None = None,
    confidence: float = 0.95,
    every_point: bool = False,
    view: str = EVERYBODY,
) -> OneRun:
    """Audit all private layers of a scenario with one run per point and unit; see the module docstring.

    Parameters
    ----------
    scenario : Scenario
        The scenario; all points of its sweep are considered.
    canaries : int
        The number of canaries, at most one per node.
    seed : int, optional
        Seed of the run, of the coins, and of the choice of nodes. Default: the seed of the scenario.
    confidence : float
        Confidence level of all lower bounds together.
    every_point : bool
        Audit all points of a sweep. Otherwise, of points that differ only in numbers, audit only the one whose ε an
        audit estimates best.
    view : str
        Who observes: “everybody”, “node” or “N colluders”.
    """
    observed = View.of(view)
    if seed is not None:
        scenario = scenario.change({"seed": seed})
    watched = [
        (", ".join(map(str, point.values.values())), unit, _watched(point.scenario, layers, unit, canaries, observed))
        for point in _chosen(points(scenario), every_point)
        for unit, layers in _by_unit(private_layers(point.scenario)).items()
    ]
    subjects = [(point, unit, run, layers) for point, unit, run in watched for layers in _subjects(run)]
    error = (1 - confidence) / max(len(subjects), 1)
    found = tuple(_found(point, unit, run, layers, observed, error) for point, unit, run, layers in subjects)
    most = max((run.coins.size for _, _, run in watched), default=canaries)
    return OneRun(found, confidence, guesses.ceiling(most, error))


# What is audited


def private_layers(scenario: Scenario) -> Layers:
    """Return the private layers of a scenario, which are not set up."""
    everything = scenario.stack(scenario.seed, RawRecords.stand_in() if scenario.data else None)
    return {name: layer for name, layer in everything.items() if layer.touches_private_data and audible(layer)}


def _by_unit(layers: Layers) -> dict[Unit, Layers]:
    found: dict[Unit, Layers] = {}
    for name, layer in layers.items():
        found.setdefault(getattr(layer.config, "unit", "record"), {})[name] = layer
    return found


def _chosen(found: list[Point], every_point: bool) -> list[Point]:
    if every_point:
        return found
    kinds: dict[str, list[Point]] = {}
    for point in found:
        kinds.setdefault(point.kind, []).append(point)
    return [min(alike, key=_hard_to_see) for alike in kinds.values()]


def _hard_to_see(point: Point) -> float:
    """Return the mean distance (in log ε) of the budgets from the ε that an audit estimates best."""
    budgets = [getattr(layer.config, "epsilon", None) for layer in private_layers(point.scenario).values()]
    far = [abs(math.log(each / MOST_TELLING)) for each in budgets if each is not None and math.isfinite(each)]
    return sum(far) / len(far) if far else math.inf


def _subjects(run: Watched) -> Iterator[tuple[str, ...]]:
    """Yield each layer, and all of them together if there are several."""
    yield from ((name,) for name in run.stated)
    if len(run.stated) > 1:
        yield tuple(run.stated)


# The run


def _watched(scenario: Scenario, layers: Layers, unit: Unit, number: int, view: View) -> Watched:
    """Run a scenario once with canaries, and return what was released about them."""
    if view.observers is not None:
        _refuse_public(layers, view)
    coins: list[NDArray[np.bool_]] = []

    def prepare(built: Built) -> None:
        assert built.raw is not None
        placed = place(built.raw, scenario.seed, unit, number, contents(built.raw, layers), view.observers)
        coins.append(
            rng.uniform(rng.key(scenario.seed, "audit", "coin"), np.arange(placed.node.size, dtype=np.int32)) < 0.5
        )
        placed.plant(built.raw.rows, coins[0])
        for name in layers:
            built.layers[name].watch(placed)

    simulation = Simulation(scenario, prepare=prepare)
    for _ in simulation:
        pass
    seen: dict[str, NDArray[np.float64]] = {}
    for name in layers:
        found = simulation.layers[name].evidence()
        seen[name] = np.empty((coins[0].size, 0)) if found is None else found
    return Watched(coins[0], {name: simulation.layers[name].guarantee() for name in layers}, seen)


def _refuse_public(layers: Layers, view: View) -> None:
    for name, layer in layers.items():
        if not layer.seen_in_part:
            what = f"all nodes see everything that “{name}” releases, so there is no view of {view.name} alone"
            raise UserError(what, key="--view", hint=f"use --view {EVERYBODY}", docs="privacy")


def place(
    raw: RawRecords, seed: int, unit: Unit, number: int, content: tuple[Content, Content], observers: int | None
) -> Canaries:  # fmt: skip
    """Choose the nodes of canaries at random, one canary per node.

    Parameters
    ----------
    raw : RawRecords
        The records of all nodes.
    seed : int
        Seed of the choice.
    unit : str
        “record”: a canary is the first record of its node; “node”: all its records.
    number : int
        The number of canaries; at most one per node that has records.
    content : tuple of Content
        The two contents of a canary.
    observers : int, optional
        The number of nodes that observe and have no canary.
    """
    counts = raw.capacity()
    order = rng.permutation(rng.key(seed, "audit", "canaries"), 0, counts.size)
    watching = None if observers is None else np.sort(order[:observers]).astype(np.int32)
    free = order[observers or 0 :]
    nodes = free[counts[free] > 0][:number].astype(np.int32)
    if nodes.size < guesses.FEWEST:
        what = f"at least {guesses.FEWEST} nodes with records are needed for canaries, and there are {nodes.size}"
        raise UserError(what, key="nodes", hint="audit without --one-run, or simulate more nodes", docs="privacy")
    first = (np.cumsum(counts) - counts)[nodes]
    stop = first + (counts[nodes] if unit == "node" else 1)
    return Canaries(nodes, first, stop, *content, watching)


def contents(raw: RawRecords, layers: Layers) -> tuple[Content, Content]:
    """Return two contents of length 1 whose distance is the largest in the length that the layers limit."""
    axes = np.eye(2, max(raw.rows.x.shape[1], 1), dtype=np.float32)
    lengths = {getattr(layer.config, "norm", layer.audited().norm) for layer in layers.values()}
    other = axes[0] if "l2" in lengths or not axes[1].any() else axes[1]
    return Content(axes[0], 1), Content(other, 0)


# What it shows


def _found(
    point: str, unit: Unit, run: Watched, layers: tuple[str, ...], view: View, error: float
) -> Finding:  # fmt: skip
    stated = single.together([run.stated[name] for name in layers]) if len(layers) > 1 else run.stated[layers[0]]
    evidence = np.concatenate([run.evidence[name] for name in layers], axis=1)
    seen = guesses.guessed(evidence, run.coins, error, stated.delta)
    finite = None if stated.epsilon is None or math.isinf(stated.epsilon) else stated.epsilon
    name = layers[0] if len(layers) == 1 else TOGETHER
    return Finding(
        point, name, unit, finite, stated.delta, stated.note, seen.bound, view.name, seen.score, run.coins.size,
        seen.canaries, seen.made, seen.right,
    )  # fmt: skip


# How it is reported


def rendered(found: OneRun) -> Table:
    """Return the findings as a table for the terminal; a lower bound above the stated ε is red."""
    from rich.table import Table
    from rich.text import Text

    several = len({row.point for row in found.findings}) > 1
    titles = ("layer", "unit", "stated ε", f"lower bound on ε ({found.confidence:g})", "view", "canaries", "guesses")
    table = Table(*(["point"] if several else []), *titles, box=None, pad_edge=False)
    for row in found.findings:
        stated = "none" if row.stated is None else f"{row.stated:.4g}" + (f", δ = {row.delta:g}" if row.delta else "")
        guessed = f"{row.right} of {row.made} right"
        words = (row.layer, row.unit, stated, f"{row.bound:.3f}", row.view, str(row.canaries), guessed)
        style = "bold red" if row.broken else ""
        table.add_row(*(Text(word, style) for word in ((row.point, *words) if several else words)))
    return table


def summary(found: OneRun) -> str:
    """Return the conclusion of the audit as text."""
    if not found.findings:
        return "no layer uses private data: there is nothing to audit"
    lines = [
        f"broken: “{row.layer}” states ε = {row.stated:g}, but its ε is at least {row.bound:.3f}"
        for row in found.findings
        if row.broken
    ] or ["no lower bound exceeds the stated ε"]
    lines += [
        f"“{row.layer}” released nothing about canaries that this audit observes"
        for row in found.findings
        if row.score == NOTHING
    ]
    if any(row.stated is None or row.stated > found.ceiling for row in found.findings):
        lines.append(
            f"with this number of canaries, no lower bound can exceed {found.ceiling:.3g}; use more canaries, or audit "
            "without --one-run, for a larger ε"
        )
    return "\n".join(lines)
