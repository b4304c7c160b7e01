"""From a tidy log to the curves of strategies: by strategy, block and seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.runs.results import DATA, RESULTS
from golfsim.sim.log import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["higher", "lower"]
Numbers = NDArray[np.float64]

FEW = 5  # seeds and blocks that are named
SENT = ("messages.sent", "bytes.sent")
WORDS: dict[Better, set[str]] = {
    "lower": {"error", "loss", "risk", "messages", "bytes", "spent", "advantage", "lost", "label", "dead", "stale"},
    "higher": {"accuracy", "auc", "f1"},
}  # for metrics that declare no direction, such as those of a user's own protocol


@dataclass(frozen=True)
class Curve:
    """The metric of one run over cycles, and what the layer had sent by then."""

    cycles: Numbers
    values: Numbers
    messages: Numbers
    bytes: Numbers


Key = tuple[str, str]  # strategy and block
Curves = dict[Key, dict[int, Curve]]  # … then by seed


def direction(metric: str) -> Better:
    """Return whether a metric is better when it is higher or lower; an error where that is not known."""
    found = better_of(metric)
    if found is None:
        raise UserError(f"whether more or less of “{metric}” is better is not known", hint="say it with --better")
    return found


def better_of(metric: str) -> Better | None:
    """Return whether a metric is better when it is higher or lower: as it declares, or by the words of its name."""
    from golfsim.sim import metric_catalogue

    declared = metric_catalogue.find(metric)
    if declared is not None and declared.better:
        return "higher" if declared.better == "up" else "lower"
    words = {part for word in metric.split(".") for part in (*word.split("_"), word)}
    return next((better for better, known in WORDS.items() if words & known), None)


def rows_of(frame: pd.DataFrame, metric: str, layer: str | None) -> tuple[pd.DataFrame, str]:
    """The rows of a metric, and its whole name: `accuracy` stands for its mean over nodes."""
    known = [str(name) for name in frame["metric"].unique()]
    name = metric if metric in known else f"{metric}.mean"
    if name not in known:
        short = sorted({word.removesuffix(".mean") for word in known})
        raise UserError(f"no layer has the metric “{metric}”", hint=nearest(metric, short))
    rows = frame[(frame["metric"] == name) & np.isfinite(frame["value"])]
    layers = [str(word) for word in rows["layer"].unique()]
    if layer is not None and layer not in layers:
        raise UserError(f"no layer “{layer}” has the metric “{metric}”", hint=nearest(layer, layers))
    return (rows if layer is None else rows[rows["layer"] == layer]), name


def varied(frame: pd.DataFrame) -> list[str]:
    """The columns by which runs differ, of those that vary together only the first."""
    extra = [key for key in frame.columns if key not in (*COLUMNS, "path")]
    extra = [key for key in extra if frame[key].nunique(dropna=False) > 1]
    points = frame[extra].drop_duplicates()
    kept: list[str] = []
    for key in extra:
        if not any(_same(points, key, other) for other in kept):
            kept.append(key)
    return kept


def _same(points: pd.DataFrame, one: str, other: str) -> bool:
    """Whether each value of one key goes with one value of the other, both ways."""
    both = len(points[[one, other]].drop_duplicates())
    return both == points[one].nunique(dropna=False) == points[other].nunique(dropna=False)


def default_by(rows: pd.DataFrame) -> str:
    """What tells strategies apart where the user does not say it: folders, cases, the only key that varies, layers."""
    keys = varied(rows)
    for key in (RESULTS, "case"):
        if key in rows and rows[key].nunique(dropna=False) > 1:
            return key
    keys = [key for key in keys if key not in DATA]
    if len(keys) > 1:
        raise UserError("several keys vary: which one tells strategies apart?", hint=f"--by {' or --by '.join(keys)}")
    if not keys and rows["layer"].nunique() < 2:
        raise UserError("there is only one strategy here", hint="name several folders of results, or --by a key")
    return keys[0] if keys else "layer"


def block_keys(rows: pd.DataFrame, by: str) -> list[str]:
    """What else varies. A key that a strategy holds fast is part of the strategy, unless it is what it learns from."""
    keys = [key for key in varied(rows) if key != by and not _same(rows, key, by)]
    point = [key for key in rows.columns if key not in ("metric", "value", "cycle", "layer")]
    keys += ["layer"] if by != "layer" and _several_layers(rows, point) else []
    inside = [
        key for key in keys if (rows.groupby(by, observed=True, dropna=False)[key].nunique(dropna=False) > 1).any()
    ]
    data = [key for key in DATA if key in rows and key != by and rows[key].nunique(dropna=False) > 1]
    return list(dict.fromkeys([*data, *inside]))


def _several_layers(rows: pd.DataFrame, point: list[str]) -> bool:
    """Whether a run has the metric in several layers."""
    return bool((rows.groupby(point, observed=True, dropna=False)["layer"].nunique() > 1).any())


def curves_of(frame: pd.DataFrame, rows: pd.DataFrame, name: str, by: str) -> tuple[Curves, list[str]]:
    """The curves of all strategies that can be compared, and what cannot be, in words."""
    return _shared(every_curve(frame, rows, name, by))


def every_curve(frame: pd.DataFrame, rows: pd.DataFrame, name: str, by: str) -> Curves:
    """The curve of each run that has the metric."""
    if by not in rows:
        raise UserError(f"nothing varies by “{by}”", hint=nearest(by, [*varied(rows), "layer"]))
    blocks = block_keys(rows, by)
    points = [key for key in rows.columns if key not in ("metric", "value", "cycle")]
    both = frame[frame["metric"].isin([name, *SENT]) & frame["layer"].isin(rows["layer"].unique())]
    found: Curves = {}
    for _, part in both.groupby(points, observed=True, dropna=False, sort=False):
        if not np.isfinite(part.loc[part["metric"] == name, "value"]).any():
            continue
        first = part.iloc[0]
        block = ", ".join(label(key, first[key]) for key in blocks)
        runs, seed = found.setdefault((label(by, first[by]), block), {}), int(first["seed"])
        if seed in runs:
            what = f"“{label(by, first[by])}” has several runs with seed {seed}{' at ' + block if block else ''}"
            raise UserError(what, hint="choose with --by or --layer")
        runs[seed] = _curve(part, name)
    return found


def _curve(part: pd.DataFrame, name: str) -> Curve:
    wide = part.pivot(index="cycle", columns="metric", values="value").reindex(columns=[name, *SENT])
    wide = wide[np.isfinite(wide[name])].sort_index()
    columns = (wide[column].to_numpy(np.float64) for column in wide)
    return Curve(wide.index.to_numpy(np.float64), *columns)


def label(key: str, value: Any) -> str:
    """A value of a key in words; that of a case, a folder or a layer speaks for itself."""
    word = f"{value:g}".replace("inf", "∞") if isinstance(value, float) and value == value else str(value)
    word = "–" if value is None or value != value else word
    return word if key in ("case", RESULTS, "layer", *DATA) else f"{key} = {word}"


def _shared(curves: Curves) -> tuple[Curves, list[str]]:
    """Without what has no counterpart: blocks of one strategy alone; and what that was, in words."""
    strategies = list(dict.fromkeys(strategy for strategy, _ in curves))
    blocks = list(dict.fromkeys(block for _, block in curves))
    if len(strategies) < 2:
        raise UserError(f"only one strategy is left: “{strategies[0]}”", hint="name several, or choose another --by")
    there = {block: [s for s in strategies if (s, block) in curves] for block in blocks}
    kept = {key: runs for key, runs in curves.items() if len(there[key[1]]) > 1}
    if not kept:
        where = "; ".join(f"“{s}” has {_some([b for t, b in curves if t == s])}" for s in strategies[:3])
        raise UserError(f"the strategies have nothing in common: {where}", hint="compare runs on the same data")
    told = [f"no runs of “{s}” at {b}" for b in blocks for s in strategies if s not in there[b]]
    return kept, told + _lonely(kept)


def _lonely(curves: Curves) -> list[str]:
    """Seeds that not all strategies of a block have, in words."""
    found = []
    for block in dict.fromkeys(block for _, block in curves):
        everyone = set().union(*(runs for (_, b), runs in curves.items() if b == block))
        for (strategy, b), runs in curves.items():
            if b == block and (lacking := sorted(everyone - set(runs))):
                found.append(f"“{strategy}”{' at ' + block if block else ''} lacks seed {_some(lacking)}")
    return found


def _some(things: Sequence[int] | Sequence[str]) -> str:
    return ", ".join(map(str, things[:FEW])) + (f" and {len(things) - FEW} more" if len(things) > FEW else "")


def last(curve: Curve) -> float:
    """The metric at the last observed cycle."""
    return float(curve.values[-1])


def _logs(cycles: Iterable[float]) -> NDArray[np.float64]:
    return np.array([math.log(cycle) for cycle in cycles])


def area(curve: Curve, low: float, high: float) -> float:
    """The mean of the metric over log cycles between two cycles; straight lines in log cycles between observations."""
    x = _logs(curve.cycles)
    ends = _logs([low, high])
    inside = x[(x > ends[0]) & (x < ends[1])]
    grid = np.concatenate([ends[:1], inside, ends[1:]])
    return float(np.trapezoid(np.interp(grid, x, curve.values), grid) / (ends[1] - ends[0]))


def reach(curve: Curve, target: float, better: Better) -> tuple[float, float, float]:
    """Cycles, messages and bytes until the target is reached first; ∞ where it never is.

    Between two observed cycles the metric is taken as a straight line in log cycles, what was sent as one in cycles.
    """
    sign = 1.0 if better == "higher" else -1.0
    good = np.flatnonzero(sign * curve.values >= sign * target)
    if not good.size:
        return math.inf, math.inf, math.inf
    cycle = float(curve.cycles[good[0]])
    if good[0] > 0:
        around = slice(good[0] - 1, good[0] + 1)
        values, cycles = sign * curve.values[around], _logs(curve.cycles[around])
        cycle = math.exp(np.interp(sign * target, values, cycles))
    sent = [float(np.interp(cycle, curve.cycles, totals)) for totals in (curve.messages, curve.bytes)]
    return cycle, sent[0], sent[1]
