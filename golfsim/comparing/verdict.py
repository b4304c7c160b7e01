"""A comparison as text and tables, for the terminal and for pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from golfsim.comparing.comparison import Comparison, Cost, PairTest
from golfsim.comparing.paired import LEAST_PAIRS, LEVEL, RESAMPLES, runs_needed
from golfsim.core.words import counted
from golfsim.runs.results import DATA

if TYPE_CHECKING:
    from rich.console import RenderableType

NEVER = "never"
BLOCK = "block"  # the header of the first column of a table with several blocks
NAMED = 5  # missing pairs that are listed


@dataclass(frozen=True)
class WordTable:
    """A table of texts with a title; the columns from index `numbers` on are numeric."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: int


def sentence(found: Comparison) -> str:
    """Return one sentence: which strategy is best, by how much, and whether that is statistically significant."""
    if found.baseline is not None:
        return _against_baseline(found, found.baseline)
    first, second = found.ranks[0], found.ranks[1]
    pair = _between(found, first.strategy, second.strategy)
    if first.mean == second.mean and (pair is None or pair.difference == 0):
        return f"“{first.strategy}” and “{second.strategy}” share the first rank in {found.metric}."
    return f"{_lead(found)} {_margin(found, pair)}"


def _against_baseline(found: Comparison, baseline: str) -> str:
    best = found.ranks[0].strategy
    pair = _between(found, best, baseline)
    if pair is None:
        return f"{_lead(found)} It has no seed in common with the baseline “{baseline}”."
    where = " over all of them" if len(found.blocks) > 1 else ""
    size = sizes([pair])[0]
    return f"{_lead(found)} Its difference to the baseline “{baseline}”{where} is {size}, {_chance(pair)}."


def _lead(found: Comparison) -> str:
    first, count = found.ranks[0], len(found.blocks)
    of = f" of {len(found.ranks)} strategies" if found.baseline is not None and len(found.ranks) > 1 else ""
    if count == 1:
        where = f" at {found.blocks[0]}" if found.blocks[0] else ""
        return f"“{first.strategy}” has the best {found.metric}{of}{where}."
    what = "data sets" if set(found.block_keys) <= set(DATA) else "blocks"
    return f"“{first.strategy}” is best in {first.best} of {count} {what} ({found.metric}, mean rank {first.mean:.2f})."


def _margin(found: Comparison, pair: PairTest | None) -> str:
    if pair is None:
        return f"It has no seed in common with “{found.ranks[1].strategy}”, the second best."
    where = " over all of them" if len(found.blocks) > 1 else ""
    size = sizes([pair])[0]
    return f"The difference to “{pair.other}”{where} is {size}, {_chance(pair)}."


def _chance(pair: PairTest) -> str:
    if pair.pairs - pair.zeros < LEAST_PAIRS:
        return f"from {counted(pair.pairs, 'pair')} of runs: too few for a statistical test"
    verdict = "statistically significant" if pair.significant else "not statistically significant"
    return f"p {p_value(pair.p_holm, '= ')} (Holm), {verdict}"


def _between(found: Comparison, one: str, other: str) -> PairTest | None:
    pairs = found.overall or found.pairs
    return next((pair for pair in pairs if (pair.one, pair.other) == (one, other)), None)


def notes(found: Comparison) -> list[str]:
    """Return explanations of the tables, and what was left out."""
    told = [
        f"{found.metric}: {found.better} is better; the value at the last observed cycle. Runs are paired by seed. "
        f"p: Wilcoxon's signed-rank test, corrected by Holm for {counted(len(found.pairs), 'comparison')} by block"
        + (f", and separately for {counted(len(found.overall), 'comparison')} over all blocks" if found.overall else "")
        + f". In brackets: 95 % bootstrap interval of the mean difference ({RESAMPLES} resamples; slightly too narrow "
        "for few runs). Effect: matched-pairs rank-biserial correlation, from −1 to 1. Area: mean over log cycles."
    ]
    told += [] if found.target is None else [cost_note(found.target)]
    return told + _limits(found) + [f"Left out: {text}." for text in _first(found.missing)]


def cost_note(target: float) -> str:
    """Return the explanation of a table of costs."""
    return (
        f"To reach {target:g}: medians over runs; a run that never reaches the target counts as ∞. "
        "Between observations the metric is interpolated linearly in log cycles. "
        "Messages and bytes are those of the layer itself."
    )


def _limits(found: Comparison) -> list[str]:
    """Return what this number of runs cannot show, however large the differences are."""
    few = [pair for pair in found.pairs if pair.pairs - pair.zeros < LEAST_PAIRS]
    least = min(2.0 ** (1 - pair.pairs) for pair in found.pairs) * len(found.pairs)
    needed = f"{runs_needed(len(found.pairs))} runs per strategy are needed for a corrected p below {LEVEL:g}"
    if few:
        return [
            f"{len(few)} of {counted(len(found.pairs), 'comparison')} {'has' if len(few) == 1 else 'have'} fewer than "
            f"{LEAST_PAIRS} pairs of runs that differ. There p cannot fall below {LEVEL:g}, however large the "
            f"difference is: see the intervals. With {counted(len(found.pairs), 'comparison')} at least {needed}."
        ]
    if least >= LEVEL:
        return [
            f"With {counted(len(found.pairs), 'comparison')} and this number of runs, no corrected p by block can fall "
            f"below {least:.2g}: at least {needed}, or fewer strategies."
        ]
    return []


def _first(missing: Iterable[str]) -> list[str]:
    told = list(missing)
    more = [f"{len(told) - NAMED} more"] if len(told) > NAMED else []
    return told[:NAMED] + more


def tables(found: Comparison) -> list[WordTable]:
    """Return all tables of a comparison."""
    cost = [] if found.target is None else [cost_table(found.costs, found.metric, found.target)]
    return [_finals(found), *differences(found), *cost]


def differences(found: Comparison) -> list[WordTable]:
    """Return the tables of differences between strategies and, with several blocks, of their ranks."""
    made = [_pairs("Differences over all blocks", found.overall, False)] if found.overall else []
    made += [_pairs("Differences by block" if found.overall else "Differences", found.pairs, len(found.blocks) > 1)]
    return made + ([_ranks(found)] if len(found.blocks) > 1 else [])


def _finals(found: Comparison) -> WordTable:
    blocks = len(found.blocks) > 1
    means = plus_minus([(final.mean, final.high) for final in found.finals])
    areas = numbers([final.area for final in found.finals])
    rows = tuple(
        (*([final.block] if blocks else []), final.strategy, str(final.runs), mean, area)
        for final, mean, area in zip(found.finals, means, areas, strict=True)
    )
    header = (*([BLOCK] if blocks else []), "strategy", "runs", f"{found.metric}, mean ± 95 %", "area")
    return WordTable("Last values", header, rows, 2 if blocks else 1)


def _pairs(title: str, pairs: Iterable[PairTest], blocks: bool) -> WordTable:
    pairs = list(pairs)
    rows = tuple(
        (*([pair.block] if blocks else []), f"{pair.one} − {pair.other}", str(pair.pairs), size, *_chances(pair))
        for pair, size in zip(pairs, sizes(pairs), strict=True)
    )
    header = ("strategies", "pairs", "difference [95 % interval]", "effect", "p", "p (Holm)")
    return WordTable(title, (*([BLOCK] if blocks else []), *header), rows, 2 if blocks else 1)


def _chances(pair: PairTest) -> tuple[str, str, str]:
    return f"{pair.effect:+.2f}", p_value(pair.p), p_value(pair.p_holm) + "*" * pair.significant


def cost_table(costs: Iterable[Cost], metric: str, target: float) -> WordTable:
    """Return the table of the cost to reach a target: cycles, messages, bytes."""
    costs = list(costs)
    blocks = len({cost.block for cost in costs}) > 1
    columns = [
        [number(getattr(cost, name), decimals, NEVER) for cost in costs]
        for name, decimals in (("cycles", 1), ("messages", 0), ("bytes", 0))
    ]
    rows = tuple(
        (*([cost.block] if blocks else []), cost.strategy, f"{cost.reached} of {cost.runs}", *sizes)
        for cost, *sizes in zip(costs, *columns, strict=True)
    )
    header = (*([BLOCK] if blocks else []), "strategy", "reached", "cycles", "messages", "bytes")
    return WordTable(f"To reach {metric} = {target:g}", header, rows, 2 if blocks else 1)


def _ranks(found: Comparison) -> WordTable:
    test = "" if found.friedman is None else f" (Friedman's test: p {p_value(found.friedman, '= ')})"
    rows = tuple((rank.strategy, f"{rank.mean:.2f}", str(rank.best)) for rank in found.ranks)
    return WordTable(f"Ranks over blocks{test}", ("strategy", "mean rank", "best in"), rows, 1)


def places(values: Iterable[float | None]) -> int:
    """Return the decimals of all numbers of a column: four for shares, fewer for large, more for tiny numbers."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    if largest == 0:
        return 4
    order = math.floor(math.log10(largest))
    return max(0, 4 - max(0, order)) if order >= -2 else min(2 - order, 12)


def number(value: float | None, decimals: int, nothing: str = "–", sign: str = "") -> str:
    """Return a number as text with this many decimals, with separators of thousands."""
    if value is None or not math.isfinite(value):
        return "∞" if value == math.inf else nothing
    return f"{value:{sign},.{decimals}f}".replace(",", "\N{NO-BREAK SPACE}")


def numbers(values: Sequence[float | None]) -> list[str]:
    """Return the numbers of a column as texts with equally many decimals."""
    decimals = places(values)
    return [number(value, decimals) for value in values]


def plus_minus(means: Sequence[tuple[float, float | None]]) -> list[str]:
    """Return means as text, each with the half-width of its interval, given by the upper end."""
    decimals = places([mean for mean, _ in means])
    halves = [0.0 if high is None else high - mean for mean, high in means]
    return [
        number(mean, decimals) + (f" ± {number(half, decimals)}" if half > 0 else "")
        for (mean, _), half in zip(means, halves, strict=True)
    ]


def sizes(pairs: Sequence[PairTest]) -> list[str]:
    """Return differences as text with their intervals in brackets."""
    decimals = places([pair.difference for pair in pairs])

    def size(pair: PairTest) -> str:
        difference, low, high = (number(v, decimals, sign="+") for v in (pair.difference, pair.low, pair.high))
        return difference if pair.low is None else f"{difference} [{low}, {high}]"

    return [size(pair) for pair in pairs]


def p_value(p: float, equals: str = "") -> str:
    """Return a p-value as text with three digits, never 0."""
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}"


def rendered(found: Comparison, more: Iterable[WordTable] = ()) -> Iterable[RenderableType]:
    """Return the sentence, the tables and the notes for the terminal."""
    from rich.table import Table as Box
    from rich.text import Text

    yield Text(sentence(found), "bold")
    yield from (Text(f"Not compared: {text}.", "bold") for text in found.left_out)
    for table in [*tables(found), *more]:
        box = Box(title=Text(table.title), title_justify="left", title_style="", show_edge=False, pad_edge=False)
        blocks = table.header[0] == BLOCK  # a line per block leaves more room than a column
        for place, name in list(enumerate(table.header))[blocks:]:
            number = place >= table.numbers
            box.add_column(Text(name), justify="right" if number else "left", overflow="fold", no_wrap=number)
        last = None
        for row in table.rows:
            if blocks and row[0] != last:
                box.add_section()
                box.add_row(Text(row[0], "bold"))
                last = row[0]
            box.add_row(*map(Text, row[blocks:]))
        yield Text()
        yield box
    yield Text()
    yield from (Text(note, "dim") for note in notes(found))
