"""Write a comparison for papers and spreadsheets: as CSV, and as a table for LaTeX."""

from __future__ import annotations

import csv
import io
import math

from golfsim.comparing.comparison import Comparison, Final, PairTest
from golfsim.comparing.paired import LEVEL
from golfsim.comparing.verdict import number, places

COLUMNS = (
    "block", "strategy", "runs", "mean", "low", "high", "area", "reference", "difference", "difference_low",
    "difference_high", "effect", "p", "p_holm",
)  # fmt: skip
SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "ε": r"$\varepsilon$",
    "λ": r"$\lambda$", "α": r"$\alpha$", "σ": r"$\sigma$", "−": "$-$", "∞": r"$\infty$", "–": "--", "±": r"$\pm$",
}  # fmt: skip
PLAIN = "&%$#_{}"


def reference_of(found: Comparison) -> str:
    """Return the strategy that the others are compared with: the baseline, or else the best one."""
    return found.baseline if found.baseline is not None else found.ranks[0].strategy


def as_csv(found: Comparison) -> str:
    """Return one line per block and strategy: its mean, and its difference to the reference, in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for final in found.finals:
        pair = _pair(found, final)
        own = (final.block, final.strategy, final.runs, final.mean, final.low, final.high, final.area)
        tested = ("",) * 6
        if pair is not None:
            tested = (pair.difference, pair.low, pair.high, pair.effect, pair.p, pair.p_holm)  # type: ignore[assignment]
        writer.writerow(["" if value is None else value for value in (*own, reference_of(found), *tested)])
    return text.getvalue()


def _pair(found: Comparison, final: Final) -> PairTest | None:
    """Return the test of a strategy against the reference in a block, as strategy − reference."""
    other = reference_of(found)
    for pair in found.pairs:
        if pair.block == final.block and {pair.one, pair.other} == {final.strategy, other}:
            return pair if pair.one == final.strategy else _turned(pair)
    return None


def _turned(pair: PairTest) -> PairTest:
    low, high = (None if end is None else -end for end in (pair.high, pair.low))
    ends = (pair.pairs, pair.zeros, -pair.difference, low, high, -pair.effect, pair.p, pair.p_holm)
    return PairTest(pair.other, pair.one, pair.block, *ends)


def as_latex(found: Comparison) -> str:
    """Return a table for the package booktabs: strategies in rows, blocks in columns, the best mean of a block bold."""
    blocks = list(found.blocks)
    decimals = places([final.mean for final in found.finals])
    cells = {(final.strategy, final.block): final for final in found.finals}
    heads = [_escaped(block) if block else _escaped(found.metric.removesuffix(".mean")) for block in blocks]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(blocks)}}}",
        r"\toprule",
        " & ".join(["strategy", *heads]) + r" \\",
        r"\midrule",
    ]
    for strategy in found.strategies:
        if strategy == found.baseline and len(found.strategies) > 1:
            lines.append(r"\midrule")
        row = [_cell(found, cells.get((strategy, block)), decimals) for block in blocks]
        lines.append(" & ".join([_escaped(strategy), *row]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*_comments(found), *lines, ""])


def _cell(found: Comparison, final: Final | None, decimals: int) -> str:
    if final is None:
        return "--"
    mean = number(final.mean, decimals).replace("\N{NO-BREAK SPACE}", r"\,").replace("-", "$-$")
    best = f"\\textbf{{{mean}}}" if _best(found, final) else mean
    half = "" if final.high is None else rf" $\pm$ {number(final.high - final.mean, decimals)}"
    pair = _pair(found, final)
    return best + half + (r"\rlap{$^{*}$}" if pair is not None and pair.significant else "")


def _best(found: Comparison, final: Final) -> bool:
    """Return whether no other strategy has a better mean in the block; the baseline does not take part."""
    if final.strategy == found.baseline:
        return False
    sign = 1.0 if found.better == "higher" else -1.0
    rivals = [f.mean for f in found.finals if f.block == final.block and f.strategy != found.baseline]
    return math.isclose(sign * final.mean, max(sign * mean for mean in rivals), rel_tol=1e-12)


def _comments(found: Comparison) -> list[str]:
    """Return what the caption of the table has to say, as comments."""
    return [
        f"% {found.metric} at the last observed cycle: mean over runs, and half of its 95 % interval (Student's t).",
        f"% Bold: the best mean of a column. Star: differs from {reference_of(found)} with p < {LEVEL:g} (Wilcoxon's",
        f"% signed-rank test over seeds, corrected by Holm for {len(found.pairs)} comparisons).",
        *(f"% Not compared: {text}." for text in found.left_out),
    ]


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, f"\\{letter}" if letter in PLAIN else letter) for letter in text)
