"""Compare strategies: which one is best, by how much, and whether the difference is statistically significant.

Runs with the same seed have the same split of the data, the same network and the same churn. Therefore strategies are
compared in pairs of runs with the same seed. The test is Wilcoxon's signed-rank test. The interval is a paired
bootstrap of the mean difference. Holm's correction covers all comparisons of a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.comparing.paired import (  # fmt: skip
    DIGITS,
    LEVEL,
    Numbers,
    holm,
    interval,
    rank_biserial,
    rounded,
    student,
    wilcoxon,
)
from golfsim.comparing.strategies import (
    Better,
    Curve,
    Curves,
    Key,
    Shared,
    area,
    block_keys,
    default_by,
    direction,
    every_curve,
    last,
    reach,
    rows_of,
    shared,
    shown,
)
from golfsim.core.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

ALL = ""  # the block of a comparison over all blocks


@dataclass(frozen=True)
class Final:
    """A strategy in a block: the metric at the last observed cycle (mean and 95 % interval over runs), and the area."""

    strategy: str
    block: str
    runs: int
    mean: float
    low: float | None
    high: float | None
    area: float | None  # the mean over log cycles, within the cycles that all strategies of the block have


@dataclass(frozen=True)
class Cost:
    """The cost of a strategy to reach the target: medians over runs; a run that never reaches it counts as ∞."""

    strategy: str
    block: str
    runs: int
    reached: int
    cycles: float | None  # None: never
    messages: float | None
    bytes: float | None


@dataclass(frozen=True)
class PairTest:
    """The test of two strategies in a block or over all blocks; `difference` is the mean over seeds of one − other."""

    one: str
    other: str
    block: str
    pairs: int
    zeros: int  # pairs without a difference, which the test omits
    difference: float
    low: float | None
    high: float | None
    effect: float  # matched-pairs rank-biserial correlation: 1 if `one` has the larger value in every pair
    p: float
    p_holm: float = math.nan

    @property
    def significant(self) -> bool:
        """Whether the difference is statistically significant after the correction for all comparisons of the table."""
        return self.p_holm < LEVEL


@dataclass(frozen=True)
class Rank:
    """A strategy over all blocks that have all strategies: how often it has the best mean, and its mean rank."""

    strategy: str
    mean: float
    best: int


@dataclass(frozen=True)
class Question:
    """What is compared."""

    by: str
    metric: str
    better: Better
    target: float | None
    baseline: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The comparison of some strategies, which are in the order of their ranks."""

    by: str
    metric: str
    better: Better
    target: float | None
    baseline: str | None  # the strategy that all others are compared with; None: all pairs are compared
    strategies: tuple[str, ...]
    blocks: tuple[str, ...]
    block_keys: tuple[str, ...]  # the keys that distinguish blocks
    finals: tuple[Final, ...]
    pairs: tuple[PairTest, ...]
    overall: tuple[PairTest, ...]  # over all blocks; empty if there is only one
    costs: tuple[Cost, ...]
    ranks: tuple[Rank, ...]
    friedman: float | None  # p of Friedman's test; None with fewer than three strategies or blocks
    left_out: tuple[str, ...]  # strategies without a block in common with the others, and why, as text
    missing: tuple[str, ...]  # what else could not be paired, as text

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for programs, with None in place of NaN and infinity."""
        return _finite(asdict(self))  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def compare(
    frame: pd.DataFrame,
    by: str | None = None,
    metric: str = "accuracy",
    layer: str | Sequence[str] | None = None,
    target: float | None = None,
    better: Better | None = None,
    baseline: str | None = None,
) -> Comparison:
    """Compare the strategies in a tidy log.

    Parameters
    ----------
    frame : DataFrame
        The log, as `golfsim.load` returns it.
    by : str, optional
        The key whose values are the strategies. All other keys that vary form blocks. Default: found from the log.
    metric : str
        The metric to compare, at the last observed cycle.
    layer : str or sequence of str, optional
        Compare these layers only. Default: the judged layer of a case; otherwise all layers that have the metric.
    target : float, optional
        Also report cycles, messages and bytes until the metric reaches this value.
    better : {"higher", "lower"}, optional
        Whether higher or lower values are better. Default: known for the metric.
    baseline : str, optional
        The strategy with which all others are compared, e.g. one without privacy. Default: all pairs are compared.
    """
    by, name, keys, found = matched(frame, by, metric, layer, baseline)
    return _compared(found, keys, Question(by, name, better or direction(name), target, baseline))


def matched(
    frame: pd.DataFrame, by: str | None, metric: str, layer: str | Sequence[str] | None, baseline: str | None
) -> tuple[str, str, tuple[str, ...], Shared]:
    """Return the key of strategies, the complete name of the metric, the keys of blocks, and the matched curves.

    The parameters are those of `compare`.
    """
    layers = [layer] if isinstance(layer, str) else list(layer or ())
    frame = shown(frame, metric) if not layers else shown(frame.drop(columns="judged", errors="ignore"), metric)
    rows, name = rows_of(frame, metric, layers)
    by = by or default_by(rows)
    curves = every_curve(frame, rows, name, by)
    return by, name, tuple(block_keys(rows, by)), shared(curves, baseline)


def costs(frame: pd.DataFrame, target: float, by: str = "layer", metric: str = "accuracy") -> tuple[Cost, ...]:
    """Return the cost of each strategy to reach a target. Unlike `compare`, this also works for a single strategy."""
    frame = shown(frame, metric)
    rows, name = rows_of(frame, metric)
    asked = Question(by, name, direction(name), target)
    return _costs(list(every_curve(frame, rows, name, by).items()), asked)


def _compared(found: Shared, keys: tuple[str, ...], asked: Question) -> Comparison:
    curves = found.curves
    blocks = list(dict.fromkeys(block for _, block in curves))
    base = asked.baseline
    ranks, p = _ranking({key: runs for key, runs in curves.items() if key[0] != base}, blocks, asked.better)
    strategies = [*(rank.strategy for rank in ranks), *([] if base is None else [base])]
    pairs = [pair for b in blocks for pair in _pairs(curves, strategies, [b], b, base)]
    overall = _pairs(curves, strategies, blocks, ALL, base) if len(blocks) > 1 else []
    if not pairs:
        hint = "run them with the same `seed`"
        raise UserError("no two strategies have a run with the same seed", hint=hint, docs="reports")
    finals = [final for block in blocks for final in _finals(curves, block, strategies)]
    return Comparison(
        **asdict(asked), strategies=tuple(strategies), blocks=tuple(blocks), block_keys=keys, finals=tuple(finals),
        pairs=_corrected(pairs), overall=_corrected(overall), costs=_costs(_ordered(curves, blocks, strategies), asked),
        ranks=tuple(ranks), friedman=p, left_out=tuple(found.left_out), missing=tuple(found.missing),
    )  # fmt: skip


def _ordered(
    curves: Curves, blocks: list[str], strategies: list[str]
) -> list[tuple[tuple[str, str], dict[int, Curve]]]:
    keys = [(strategy, block) for block in blocks for strategy in strategies]
    return [(key, curves[key]) for key in keys if key in curves]


def _finals(curves: Curves, block: str, strategies: list[str]) -> Iterable[Final]:
    """Yield the final values of each strategy of a block."""
    here = _ordered(curves, [block], strategies)
    low = max(curve.cycles[0] for _, runs in here for curve in runs.values())
    high = min(curve.cycles[-1] for _, runs in here for curve in runs.values())
    for (strategy, _), runs in here:
        values = np.array([last(curve) for curve in runs.values()])
        areas = [area(curve, low, high) for curve in runs.values()] if low < high else []
        low_mean, high_mean = student(values) or (None, None)
        mean_area = float(np.mean(areas)) if areas else None
        yield Final(strategy, block, len(runs), float(values.mean()), low_mean, high_mean, mean_area)


def _costs(runs: list[tuple[Key, dict[int, Curve]]], asked: Question) -> tuple[Cost, ...]:
    target = asked.target
    return () if target is None else tuple(_cost(key, curves, target, asked.better) for key, curves in runs)


def _cost(key: Key, runs: dict[int, Curve], target: float, better: Better) -> Cost:
    found = np.array([reach(curve, target, better) for curve in runs.values()])
    # The upper one of two middle runs: their mean would be ∞ if one of them never reaches the target.
    cycles, messages, sizes = (_or_never(np.sort(column)[len(column) // 2]) for column in found.T)
    return Cost(*key, len(runs), int(np.isfinite(found[:, 0]).sum()), cycles, messages, sizes)


def _or_never(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _pairs(curves: Curves, strategies: list[str], blocks: list[str], name: str, baseline: str | None) -> list[PairTest]:
    """Test all pairs of strategies, better rank first, or all pairs with the baseline, which comes last.

    Differences are averaged over the blocks that both have.
    """
    found = []
    for one, other in itertools.combinations(strategies, 2):
        if baseline not in (None, other):
            continue
        shared = [block for block in blocks if (one, block) in curves and (other, block) in curves]
        differences = [_differences(curves[one, block], curves[other, block]) for block in shared]
        seeds = set.intersection(*(set(d) for d in differences)) if differences else set()
        if seeds:
            means = np.array([np.mean([d[seed] for d in differences]) for seed in sorted(seeds)])
            found.append(_pair(one, other, name, means))
    return found


def _differences(one: dict[int, Curve], other: dict[int, Curve]) -> dict[int, float]:
    return {seed: last(curve) - last(other[seed]) for seed, curve in one.items() if seed in other}


def _pair(one: str, other: str, block: str, d: Numbers) -> PairTest:
    zeros = int((rounded(d) == 0).sum())
    low, high = interval(d) or (None, None)
    return PairTest(one, other, block, d.size, zeros, float(d.mean()), low, high, rank_biserial(d), wilcoxon(d))


def _corrected(pairs: list[PairTest]) -> tuple[PairTest, ...]:
    return tuple(replace(pair, p_holm=p) for pair, p in zip(pairs, holm([pair.p for pair in pairs]), strict=True))


def _ranking(curves: Curves, blocks: list[str], better: Better) -> tuple[list[Rank], float | None]:
    """Return the strategies by mean rank, best first, and Friedman's p.

    Blocks that lack a strategy count only if every block lacks one.
    """
    from scipy.stats import friedmanchisquare, rankdata

    strategies = list(dict.fromkeys(strategy for strategy, _ in curves))
    means = {key: float(np.mean([last(curve) for curve in runs.values()])) for key, runs in curves.items()}
    whole = [block for block in blocks if all((strategy, block) in curves for strategy in strategies)]
    worst = -math.inf if better == "higher" else math.inf
    table = np.array([[means.get((s, b), worst) for s in strategies] for b in whole or blocks])
    ranks = rankdata(np.round(-table if better == "higher" else table, DIGITS), axis=1)
    best = ranks == ranks.min(axis=1, keepdims=True)
    found = [Rank(s, float(ranks[:, n].mean()), int(best[:, n].sum())) for n, s in enumerate(strategies)]
    varies = len(strategies) > 2 and len(whole) > 2 and np.ptp(ranks) > 0
    p = float(friedmanchisquare(*table.T).pvalue) if varies else None
    return sorted(found, key=lambda rank: rank.mean), p
