"""The sections of a page as texts and tables: guarantees, final values, differences, provenance, failures."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.comparing.paired import student
from golfsim.comparing.strategies import label
from golfsim.comparing.verdict import WordTable, number, plus_minus
from golfsim.core.errors import UserError
from golfsim.core.paths import INDEX, text_of
from golfsim.core.words import counted
from golfsim.runs.results import RESULTS, Results, Run
from golfsim.sim.log import SCENARIO

if TYPE_CHECKING:
    import pandas as pd

FIRST = (
    "accuracy.mean", "error.mean", "auc.mean", "f1.mean", "label.linear", "membership.advantage", "spent.max",
    "messages.sent", "bytes.sent",
)  # fmt: skip
# Left out of tables: metrics of spread, and metrics with many values.
LEFT_OUT = re.compile(r"\.(std|q\d+|min|max)$|^(confusion|roc|messages|bytes)\.|^online$")
MOST_METRICS = 10
NOTHING = "–"


@dataclass(frozen=True)
class Promise:
    """The guarantee of one layer of a strategy, and at which points it holds, if not at all."""

    strategy: str
    layer: str
    guarantee: str
    where: str

    @property
    def kind(self) -> str:
        """The class of its colour: private, open or other."""
        if self.guarantee.startswith("not private"):
            return "open"
        return "private" if "proven" in self.guarantee else "other"


def factors(results: Results) -> list[str]:
    """Return the keys by which points differ: cases, folders, and the keys that a sweep varies."""
    points = [run.point for run in results.points]
    keys = dict.fromkeys(key for point in points for key in point)
    return [key for key in keys if len({str(point.get(key)) for point in points}) > 1]


def usual(keys: list[str]) -> str | None:
    """Return the key that distinguishes strategies if they cannot be compared: folders or cases, if these differ."""
    return next((key for key in (RESULTS, "case") if key in keys), None)


def guarantees(results: Results, by: str | None) -> list[Promise]:
    """Return the guarantees per layer and strategy: one row if all points of the strategy have the same."""
    rest = [key for key in factors(results) if key != by]
    strategies: dict[str, list[Run]] = {}
    for run in results.points:
        strategies.setdefault(label(by, run.point[by]) if by in run.point else "all", []).append(run)
    return [promise for name, runs in strategies.items() for promise in _promises(name, runs, rest)]


def _promises(strategy: str, runs: list[Run], rest: list[str]) -> Iterable[Promise]:
    for layer in dict.fromkeys(layer for run in runs for layer in run.about.get("guarantees", {})):
        having = [run for run in runs if layer in run.about.get("guarantees", {})]
        texts = [str(run.about["guarantees"][layer]) for run in having]
        key = _deciding(having, texts, rest)
        where: dict[str, list[str]] = {}
        for run, text in zip(having, texts, strict=True):
            where.setdefault(text, []).append(label(key, run.point.get(key)) if key else _name(run, rest))
        for text, places in where.items():
            yield Promise(strategy, layer, text, "; ".join(dict.fromkeys(places)) if len(where) > 1 else "")


def _deciding(runs: list[Run], texts: list[str], keys: list[str]) -> str | None:
    """Return the key whose value alone determines the text, if there is one."""
    for key in keys:
        pairs = {(str(run.point.get(key)), text) for run, text in zip(runs, texts, strict=True)}
        if len(pairs) == len({value for value, _ in pairs}):
            return key
    return None


def _name(run: Run, keys: list[str]) -> str:
    return ", ".join(label(key, run.point.get(key)) for key in keys)


# --- Final values


def finals(frame: pd.DataFrame, keys: list[str]) -> WordTable:
    """Return the metrics per point and layer at the last observed cycle: mean ± half of the 95 % interval over runs."""
    rows = frame[frame["metric"].isin(_chosen(frame))]
    runs = [*keys, "run", "path", "layer", "metric"]
    last = rows.loc[rows.groupby(runs, observed=True, dropna=False)["cycle"].idxmax()]
    metrics = [metric for metric in _chosen(frame) if (last["metric"] == metric).any()]
    parts = last.groupby([*keys, "layer"], observed=True, dropna=False, sort=False)
    points = [(_named(keys, values), part) for values, part in parts]
    columns = [_column([part for _, part in points], metric) for metric in metrics]
    made = tuple(
        (*name, str(part["cycle"].max()), str(part["path"].nunique()), *cells)
        for (name, part), *cells in zip(points, *columns, strict=True)
    )
    header = (*keys, "layer", "cycle", "runs", *(metric.removesuffix(".mean") for metric in metrics))
    return WordTable("Last values", header, made, len(keys) + 1)


def _named(keys: list[str], values: Any) -> list[str]:
    *point, layer = values
    return [*(label(key, value).removeprefix(f"{key} = ") for key, value in zip(keys, point, strict=True)), str(layer)]


def _column(parts: list[pd.DataFrame], metric: str) -> list[str]:
    """Return the mean of a metric at each point with half of its interval, all with equally many decimals."""
    found = [part.loc[part["metric"] == metric, "value"].dropna().to_numpy(float) for part in parts]
    spans = [student(values) if values.size else None for values in found]
    means = [(float(values.mean()), span and span[1]) for values, span in zip(found, spans, strict=True) if values.size]
    cells = iter(plus_minus(means))
    return [next(cells) if values.size else NOTHING for values in found]


def _chosen(frame: pd.DataFrame) -> list[str]:
    """Return the metrics that a table shows: those of learning, otherwise all without metrics of spread."""
    known = [str(name) for name in frame["metric"].unique()]
    first = [name for name in FIRST if name in known]
    others = [name for name in known if name not in first and not LEFT_OUT.search(name)]
    return first if "accuracy.mean" in first else (others + first)[:MOST_METRICS]


# --- The scenario


def common(results: Results) -> str:
    """Return the keys that are equal at all points, as TOML."""
    import tomlkit

    points = results.points
    same = {key for key, value in points[0].keys.items() if all(run.keys.get(key) == value for run in points)}
    file = points[0].piece.file.parent / SCENARIO
    try:
        tree = tomllib.loads(text_of(file))
    except (OSError, tomllib.TOMLDecodeError):
        return ""
    return tomlkit.dumps(_kept(tree, same))


def _kept(tree: dict[str, Any], keep: set[str], prefix: str = "") -> dict[str, Any]:
    """Return the part of nested tables with the given paths; see `results.flat` for paths."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(v, dict) and "name" in v for v in value):
            inner = [{"name": v["name"]} | _kept(v, keep, f"{prefix}{v['name']}.") for v in value]
            found |= {key: [table for table in inner if len(table) > 1]}
        elif isinstance(value, dict) and value:
            found |= {key: part} if (part := _kept(value, keep, f"{prefix}{key}.")) else {}
        elif f"{prefix}{key}" in keep:
            found[key] = value
    return found


def differing(results: Results) -> list[WordTable]:
    """Return what differs between points: keys that a sweep varies, and per case (or folder) what it changes."""
    points, keys = results.points, factors(results)
    everything = dict.fromkeys(key for run in points for key in run.keys)
    rest = [key for key in everything if len({repr(run.keys.get(key)) for run in points}) > 1 and key not in keys]
    swept = [(key, ", ".join(dict.fromkeys(_shown(run.point.get(key)) for run in points))) for key in keys]
    tables = [WordTable("What varies", ("key", "values"), tuple(swept), 2)] if swept else []
    by_factor: dict[str | None, list[str]] = {}
    for key in rest:
        by_factor.setdefault(_deciding(points, [repr(run.keys.get(key)) for run in points], keys), []).append(key)
    return tables + [_matrix(points, factor, keys, rows) for factor, rows in by_factor.items()]


def _matrix(points: list[Run], factor: str | None, keys: list[str], rows: list[str]) -> WordTable:
    """Return a table with one row per key, and one column per value of the factor (or per point without a factor)."""
    columns = {(_shown(run.point.get(factor)) if factor else _name(run, keys)): run for run in reversed(points)}
    ordered = dict(reversed(columns.items()))
    cells = tuple((key, *(_shown(run.keys.get(key)) for run in ordered.values())) for key in rows)
    return WordTable(f"By {factor}" if factor else "By point", ("key", *ordered), cells, len(ordered) + 1)


def _shown(value: Any) -> str:
    return NOTHING if value is None else label("case", value)


# --- Where it comes from


def provenance(results: Results, command: str) -> list[tuple[str, list[str]]]:
    """Return versions, machine, seeds, data, times and commands; several values if runs differ."""
    about = [run.about for run in results.runs]
    seeds = sorted({int(run.piece.values["seed"]) for run in results.runs if "seed" in run.piece.values})
    times = [sum(v for k, v in a.get("times", {}).items() if k in ("setup_s", "cycles_s")) for a in about]
    written = sorted(str(a["written"]) for a in about if "written" in a)
    rows = [
        ("versions", each(about, "versions")),
        ("machine", each(about, "machine")),
        ("code", counts_of(str(a["code"]) for a in about if "code" in a)),
        ("seeds", [_ranges(seeds)] if seeds else []),
        ("data (SHA-256)", _hashes(results)),
        ("time", [f"{sum(times):,.0f} s in total, {max(times):,.1f} s for the longest run"] if any(times) else []),
        ("written", [" to ".join(dict.fromkeys([written[0], written[-1]]))] if written else []),
        ("command of the runs", _commands(results)),
        ("command of this page", [command]),
    ]
    return [(name, values) for name, values in rows if values]


def _commands(results: Results) -> list[str]:
    """Return the commands that executed the runs, each with the folder of its results."""
    found = [(run.about.get("command"), _store(run.piece.file)) for run in results.runs]
    return counts_of(
        command + (f" --out {shlex.quote(str(folder))}" if folder else "") for command, folder in found if command
    )


def _store(log: Path) -> Path | None:
    """Return the folder of results that a log belongs to: the next one above it that has an index."""
    return next((folder for folder in log.parents if (folder / INDEX).is_file()), None)


def each(about: list[dict[str, Any]], key: str) -> list[str]:
    """Return a table of `run.json` as texts, each once."""
    return counts_of(", ".join(f"{k} {v}" for k, v in a[key].items()) for a in about if isinstance(a.get(key), dict))


def counts_of(texts: Iterable[str]) -> list[str]:
    """Return each text once; with the number of its runs if there are several texts."""
    counts = Counter(texts)
    return [f"{text} ({counted(n, 'run')})" if len(counts) > 1 else text for text, n in counts.items()]


def _hashes(results: Results) -> list[str]:
    found: dict[str, None] = {}
    for run in results.runs:
        if digest := run.about.get("data_sha256"):
            found[f"{run.keys.get('data.set') or run.keys.get('data.file') or ''} {digest}".strip()] = None
    return list(found)


def _ranges(numbers: list[int]) -> str:
    """Return numbers as text with ranges of consecutive ones: “1–5, 9”."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(f"{part[0]}–{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def troubles(paths: Iterable[Path]) -> tuple[dict[str, int], list[str]]:
    """Return the number of runs by state (complete, failed, …) from the index, and each failure with its place."""
    from golfsim.runs import status

    counts: Counter[str] = Counter()
    failures = []
    for path in paths:
        try:
            found = status.of(path)
        except UserError:
            continue
        counts.update(found["runs"])
        failures += [
            ", ".join(filter(None, [f["point"], f"run {f['run']}"])) + f": {f['error']}" for f in found["failures"]
        ]
    return {state: n for state, n in counts.items() if n}, failures


def summary(results: Results, keys: list[str], states: dict[str, int]) -> str:
    """Return a sentence about the runs: their number, their points, cycles and nodes."""
    runs, points = len(results.runs), len(results.points)
    grid = _grid([[str(run.point.get(key)) for run in results.points] for key in keys], keys)
    what = counted(runs, "run") + (f" at {points} points ({grid})" if points > 1 else "")
    sizes = [_span(results, "cycles"), _span(results, "nodes")]
    lacking = ", ".join(f"{n} {state}" for state, n in states.items() if state != "complete")
    text = f"{what}; {', '.join(filter(None, sizes))}." if any(sizes) else f"{what}."
    return text + (f" Not included: {lacking}." if lacking else "")


def _grid(values: list[list[str]], keys: list[str]) -> str:
    """Return the number of values of each key; keys that vary together, as in a zip group, are counted once."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for key, own in zip(keys, values, strict=True):
        places = {value: place for place, value in enumerate(dict.fromkeys(own))}
        groups.setdefault(tuple(places[value] for value in own), []).append(key)
    sizes = [len(set(pattern)) for pattern in groups]
    complete = math.prod(sizes) == len(values[0]) if values else True
    parts = [f"{size} of {' with '.join(names)}" for size, names in zip(sizes, groups.values(), strict=True)]
    return (" × " if complete else ", ").join(parts)


def _span(results: Results, key: str) -> str:
    values = sorted({int(run.about[key]) for run in results.runs if key in run.about})
    ends = dict.fromkeys(number(v, 0) for v in (values[0], values[-1])) if values else {}
    return f"{' to '.join(ends)} {key[:-1] if values[-1] == 1 else key}" if ends else ""
