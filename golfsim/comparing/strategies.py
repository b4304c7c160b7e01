"""Extract the curves of strategies from a tidy log: by strategy, block and seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.core.columns import ABOUT_LAYERS, COLUMNS
from golfsim.core.errors import UserError, nearest
from golfsim.runs.judged import judged, labelled
from golfsim.runs.results import DATA, RESULTS

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["higher", "lower"]
Numbers = NDArray[np.float64]

FEW = 5  # seeds and blocks that are listed
SENT = ("messages.sent", "bytes.sent")
WORDS: dict[Better, set[str]] = {
    "lower": {"error", "loss", "risk", "messages", "bytes", "spent", "advantage", "lost", "label", "dead", "stale"}
    | {"rmse", "mae"},
    "higher": {"accuracy", "auc", "f1", "nmi"},
}  # for metrics that declare no direction, such as those of a user's own protocol


@dataclass(frozen=True)
class Curve:
    """The metric of one run over cycles, and the messages and bytes that the layer had sent by then."""

    cycles: Numbers
    values: Numbers
    messages: Numbers
    bytes: Numbers


Key = tuple[str, str]  # strategy and block
Curves = dict[Key, dict[int, Curve]]  # … then by seed


def direction(metric: str) -> Better:
    """Return whether a metric is better when it is higher or lower."""
    found = better_of(metric)
    if found is None:
        raise UserError(f"it is unknown whether higher or lower “{metric}” is better", hint="state it with --better")
    return found


def better_of(metric: str) -> Better | None:
    """Return whether a metric is better when it is higher or lower: as it declares, or by the words of its name."""
    from golfsim.sim import metric_catalogue

    declared = metric_catalogue.find(metric)
    if declared is not None and declared.better:
        return "higher" if declared.better == "up" else "lower"
    words = {part for word in metric.split(".") for part in (*word.split("_"), word)}
    return next((better for better, known in WORDS.items() if words & known), None)


def shown(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the log with one judged model per run, layers by their labels, and keys of the same meaning as one."""
    return merged(labelled(judged(frame, metric.removesuffix(".mean"))))


def rows_of(frame: pd.DataFrame, metric: str, layers: Sequence[str] = ()) -> tuple[pd.DataFrame, str]:
    """Return the rows of a metric, and its complete name: `accuracy` means `accuracy.mean`, the mean over nodes."""
    known = [str(name) for name in frame["metric"].unique()]
    name = metric if metric in known else f"{metric}.mean"
    if name not in known:
        short = sorted({word.removesuffix(".mean") for word in known})
        raise UserError(f"no layer has the metric “{metric}”", hint=nearest(metric, short))
    rows = frame[(frame["metric"] == name) & np.isfinite(frame["value"])]
    there = [str(word) for word in rows["layer"].unique()]
    for layer in layers:
        if layer not in there:
            raise UserError(f"no layer “{layer}” has the metric “{metric}”", hint=nearest(layer, there))
    return (rows[rows["layer"].isin(layers)] if layers else rows), name


def merged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the log with keys such as `published.epsilon` and `learning.epsilon` as one key, `epsilon`.

    Folders of results may state the same quantity in different layers. Keys are one if their last words are equal and
    no run has both.
    """
    import pandas as pd

    keys: dict[str, list[str]] = {}
    for key in varied(frame):
        keys.setdefault(key.rpartition(".")[2], []).append(key)
    for word, several in keys.items():
        taken = word in frame and word not in several
        if len(several) < 2 or taken or (frame[several].notna().sum(axis=1) > 1).any():
            continue
        values = frame[several].astype(object).bfill(axis=1).iloc[:, 0]
        about = frame.attrs
        frame = frame.drop(columns=several).assign(**{word: pd.Categorical(values)})
        frame.attrs = about
    return frame


def varied(frame: pd.DataFrame) -> list[str]:
    """Return the columns by which runs differ; of columns that vary together only the first."""
    extra = [key for key in frame.columns if key not in (*COLUMNS, *ABOUT_LAYERS, "path")]
    extra = [key for key in extra if frame[key].nunique(dropna=False) > 1]
    points = frame[extra].drop_duplicates()
    kept: list[str] = []
    for key in extra:
        if not any(_same(points, key, other) for other in kept):
            kept.append(key)
    return kept


def _same(points: pd.DataFrame, one: str, other: str) -> bool:
    """Return whether the values of two keys correspond one to one."""
    both = len(points[[one, other]].drop_duplicates())
    return both == points[one].nunique(dropna=False) == points[other].nunique(dropna=False)


def default_by(rows: pd.DataFrame) -> str:
    """Return the key that distinguishes strategies by default: folders, cases, the only key that varies, layers."""
    keys = varied(rows)
    for key in (RESULTS, "case"):
        if key in rows and rows[key].nunique(dropna=False) > 1:
            return key
    keys = [key for key in keys if key not in DATA]
    if len(keys) > 1:
        what = "several keys vary, and any of them may distinguish strategies"
        raise UserError(what, hint=f"choose one: --by {' or --by '.join(keys)}")
    if not keys and rows["layer"].nunique() < 2:
        raise UserError("there is only one strategy", hint="give several folders of results, or a key with --by")
    return keys[0] if keys else "layer"


def block_keys(rows: pd.DataFrame, by: str) -> list[str]:
    """Return the other keys that vary, which form blocks.

    A key that is constant within each strategy is part of the strategy, unless it states the training data.
    """
    keys = [key for key in varied(rows) if key != by and not _same(rows, key, by)]
    point = [key for key in rows.columns if key not in ("metric", "value", "cycle", "layer")]
    keys += ["layer"] if by != "layer" and _several_layers(rows, point) else []
    inside = [
        key for key in keys if (rows.groupby(by, observed=True, dropna=False)[key].nunique(dropna=False) > 1).any()
    ]
    data = [key for key in DATA if key in rows and key != by and rows[key].nunique(dropna=False) > 1]
    return list(dict.fromkeys([*data, *inside]))


def _several_layers(rows: pd.DataFrame, point: list[str]) -> bool:
    """Return whether a run has the metric in several layers."""
    return bool((rows.groupby(point, observed=True, dropna=False)["layer"].nunique() > 1).any())


def every_curve(frame: pd.DataFrame, rows: pd.DataFrame, name: str, by: str) -> Curves:
    """Return the curve of each run that has the metric.

    A strategy without a key that forms blocks, e.g. one without ε, does not depend on it and is in all of its blocks.
    """
    if by not in rows:
        raise UserError(f"the results have no key “{by}”", hint=nearest(by, [*varied(rows), "layer"]))
    keys = block_keys(rows, by)
    points = [key for key in rows.columns if key not in ("metric", "value", "cycle")]
    both = frame[frame["metric"].isin([name, *SENT]) & frame["layer"].isin(rows["layer"].unique())]
    free, blocks = _without(rows, by, keys), _blocks(rows, keys)
    found: Curves = {}
    for _, part in both.groupby(points, observed=True, dropna=False, sort=False):
        if not np.isfinite(part.loc[part["metric"] == name, "value"]).any():
            continue
        first = part.iloc[0]
        strategy, seed, curve = label(by, first[by]), int(first["seed"]), _curve(part, name)
        own = {key: label(key, first[key]) for key in keys}
        fixed = {key: text for key, text in own.items() if key not in free.get(strategy, ())}
        for block in blocks if fixed.keys() != own.keys() else [own]:
            if fixed.items() <= block.items():
                _add(found, strategy, ", ".join(block.values()), seed, curve)
    return found


def _add(found: Curves, strategy: str, block: str, seed: int, curve: Curve) -> None:
    runs = found.setdefault((strategy, block), {})
    if seed in runs:
        what = f"“{strategy}” has several runs with seed {seed}{' at ' + block if block else ''}"
        raise UserError(what, hint="choose with --by or --layer")
    runs[seed] = curve


def _without(rows: pd.DataFrame, by: str, keys: list[str]) -> dict[str, set[str]]:
    """Return for each strategy the keys of blocks that no run of it has. Training data are never without."""
    found = {}
    for value, part in rows.groupby(by, observed=True, dropna=False, sort=False):
        found[label(by, value)] = {key for key in keys if key not in DATA and part[key].isna().all()}
    return found


def _blocks(rows: pd.DataFrame, keys: list[str]) -> list[dict[str, str]]:
    """Return all blocks in which every key has a value; if there is none, all combinations of values."""
    points = rows[keys].drop_duplicates()
    there = points.dropna(subset=[key for key in keys if key not in DATA])
    if len(there):
        return [{key: label(key, row[key]) for key in keys} for _, row in there.iterrows()]
    values = [[label(key, value) for value in points[key].dropna().unique()] for key in keys]
    return [dict(zip(keys, combination, strict=True)) for combination in itertools.product(*values)]


def _curve(part: pd.DataFrame, name: str) -> Curve:
    wide = part.pivot(index="cycle", columns="metric", values="value").reindex(columns=[name, *SENT])
    wide = wide[np.isfinite(wide[name])].sort_index()
    columns = (wide[column].to_numpy(np.float64) for column in wide)
    return Curve(wide.index.to_numpy(np.float64), *columns)


def label(key: str, value: Any) -> str:
    """Return a value of a key as text: “key = value”, but only the value for a case, a folder, a layer or data."""
    word = f"{value:g}".replace("inf", "∞") if isinstance(value, float) and value == value else str(value)
    word = "–" if value is None or value != value else word
    return word if key in ("case", RESULTS, "layer", *DATA) else f"{'ε' if key == 'epsilon' else key} = {word}"


@dataclass(frozen=True)
class Shared:
    """The curves that can be compared, and as text what is not: complete strategies, equal blocks, single runs."""

    curves: Curves
    left_out: list[str]
    missing: list[str]


def shared(curves: Curves, baseline: str | None = None) -> Shared:
    """Remove blocks that only one strategy has, and blocks that are equal to another one."""
    strategies = list(dict.fromkeys(strategy for strategy, _ in curves))
    blocks = list(dict.fromkeys(block for _, block in curves))
    if baseline is not None and baseline not in strategies:
        raise UserError(f"there is no strategy “{baseline}”", hint=nearest(baseline, strategies))
    if len(strategies) < 2:
        what = f"there is only one strategy: “{strategies[0]}”"
        raise UserError(what, hint="give several folders of results, or another key with --by")
    there = {block: [s for s in strategies if (s, block) in curves] for block in blocks}
    kept = {key: runs for key, runs in curves.items() if len(there[key[1]]) > 1}
    if not kept:
        where = "; ".join(f"“{s}” has {_some([b for t, b in curves if t == s])}" for s in strategies[:3])
        raise UserError(f"the strategies have nothing in common: {where}", hint="compare runs on the same data")
    remaining = {strategy for strategy, _ in kept}
    left_out = [_why_left_out(s, curves, kept) for s in strategies if s not in remaining]
    told = [
        f"no runs of “{s}” at {b}"
        for b in blocks
        for s in strategies
        if s in remaining and s not in there[b] and remaining & set(there[b])
    ]
    kept, equal = _different(kept)
    return Shared(kept, left_out, equal + told + _lonely(kept))


def _why_left_out(strategy: str, curves: Curves, kept: Curves) -> str:
    own = [block for s, block in curves if s == strategy]
    others = list(dict.fromkeys(block for _, block in kept))
    return f"“{strategy}” has {_some(own)}, and the other strategies have {_some(others)}"


def _different(curves: Curves) -> tuple[Curves, list[str]]:
    """Return the curves without blocks in which all runs are equal to those of an earlier block."""
    first: dict[Any, str] = {}
    told, kept = [], dict(curves)
    for block in dict.fromkeys(block for _, block in curves):
        runs = {(s, seed): curve for (s, b), found in curves.items() if b == block for seed, curve in found.items()}
        content = frozenset((*key, curve.values.tobytes(), curve.cycles.tobytes()) for key, curve in runs.items())
        if content in first:
            told.append(f"“{block}” has the same runs as “{first[content]}” and counts once")
            kept = {key: found for key, found in kept.items() if key[1] != block}
        first.setdefault(content, block)
    return kept, told


def _lonely(curves: Curves) -> list[str]:
    """Return as text the seeds that not all strategies of a block have."""
    found = []
    for block in dict.fromkeys(block for _, block in curves):
        everyone = set().union(*(runs for (_, b), runs in curves.items() if b == block))
        for (strategy, b), runs in curves.items():
            if b == block and (lacking := sorted(everyone - set(runs))):
                seeds = f"seed{'s' * (len(lacking) > 1)} {_some(lacking)}"
                found.append(f"“{strategy}”{' at ' + block if block else ''} lacks {seeds}")
    return found


def _some(things: Sequence[int] | Sequence[str]) -> str:
    return ", ".join(map(str, things[:FEW])) + (f" and {len(things) - FEW} more" if len(things) > FEW else "")


def last(curve: Curve) -> float:
    """Return the metric at the last observed cycle."""
    return float(curve.values[-1])


def _logs(cycles: Iterable[float]) -> NDArray[np.float64]:
    return np.array([math.log(cycle) for cycle in cycles])


def area(curve: Curve, low: float, high: float) -> float:
    """Return the mean of the metric over log cycles between two cycles, linearly interpolated in log cycles."""
    x = _logs(curve.cycles)
    ends = _logs([low, high])
    inside = x[(x > ends[0]) & (x < ends[1])]
    grid = np.concatenate([ends[:1], inside, ends[1:]])
    return float(np.trapezoid(np.interp(grid, x, curve.values), grid) / (ends[1] - ends[0]))


def reach(curve: Curve, target: float, better: Better) -> tuple[float, float, float]:
    """Return cycles, messages and bytes until the target is first reached; ∞ if it never is.

    Between two observed cycles the metric is interpolated linearly in log cycles, messages and bytes in cycles.
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
