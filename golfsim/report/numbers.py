"""The numbers of figures: from a tidy log to what is drawn, without drawing anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from golfsim.core.columns import ABOUT_LAYERS, COLUMNS
from golfsim.core.errors import UserError, nearest

if TYPE_CHECKING:
    import pandas as pd

LABELS = {
    "error": "0-1 error on the test set",
    "voted_error": "0-1 error of the vote",
    "age": "updates per model",
    "auc": "area under the ROC curve",
    "f1": "F1",
    "rms.expected": "expected error of a histogram (rms)",
    "rms.measured": "error of a histogram (rms)",
    "rms.projected": "error of a projected histogram (rms)",
}
BOUNDED = re.compile(r"share of |difference of shares|probability|.* from 0 to 1")  # units of metrics between 0 and 1
OTHER_COLUMNS = ("path", "node", "online", "error", "source", "target", "degree", "spent", "count", "by_node")
TELLING = ("case", "layer", "results", "measure", "data.set", "data.file")  # keys whose values need no explanation
CONFIDENCE = 0.95
LEAST = 3  # runs that an interval needs


def label_of(metric: str) -> str:
    """Return the axis label of a metric."""
    return LABELS.get(metric, metric.replace("_", " "))


def bare(metric: str) -> str:
    """Return the name of a metric without `.mean`."""
    return metric.removesuffix(".mean") or metric


@cache
def is_share(metric: str) -> bool:
    """Return whether a metric is declared as one between 0 and 1."""
    from golfsim.sim import metric_catalogue

    found = metric_catalogue.find(f"{bare(metric)}.mean") or metric_catalogue.find(metric)
    return found is not None and BOUNDED.match(found.unit) is not None


def varied(frame: pd.DataFrame) -> list[str]:
    """Return the columns by which the points of a sweep differ."""
    known = {*COLUMNS, *ABOUT_LAYERS, *OTHER_COLUMNS}
    extra = [name for name in frame.columns if name not in known]
    return [name for name in extra if frame[name].nunique(dropna=False) > 1]


def has(frame: pd.DataFrame, metric: str) -> bool:
    """Return whether any layer has the metric with a numeric value."""
    return bool(frame.loc[frame["metric"] == metric, "value"].notna().any())


def rows_of(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of a metric that is a mean over nodes; an unknown metric is an error."""
    rows = frame[frame["metric"] == f"{metric}.mean"]
    if rows.empty:
        known = {str(name).removesuffix(".mean") for name in frame["metric"].unique() if str(name).endswith(".mean")}
        raise UserError(f"no layer has the metric “{metric}”", hint=nearest(metric, sorted(known)))
    if rows["value"].isna().all():
        raise UserError(f"the metric “{metric}” has no numeric value")
    return rows


def keys_of(rows: pd.DataFrame) -> list[str]:
    """Return the keys that distinguish curves: those of the sweep, and the layer if several layers have the metric."""
    points = distinct(rows, varied(rows))
    if not points:
        return ["layer"] if rows["layer"].nunique() > 1 else []
    several = rows.groupby(points, observed=True, dropna=False)["layer"].nunique().max() > 1
    return ["layer", *points] if several else points


def distinct(frame: pd.DataFrame, keys: list[str]) -> list[str]:
    """Return the keys without those that vary together with an earlier one, as in a zipped group."""
    import pandas as pd

    codes = {key: tuple(pd.factorize(frame[key], use_na_sentinel=False)[0].tolist()) for key in keys}
    return list({codes[key]: key for key in reversed(keys)}.values())[::-1]


def named(keys: Sequence[str], values: Sequence[Any]) -> str:
    """Return the name of a curve: the values that distinguish it; numbers are preceded by their key."""
    return ", ".join(value_of(key, value) for key, value in zip(keys, values, strict=True))


def titled(keys: Sequence[str], values: Sequence[Any]) -> str:
    """Return the title of a panel, in which texts are preceded by their key: “trust: none”, but “spambase”."""
    words = [(key, value_of(key, value), isinstance(value, str)) for key, value in zip(keys, values, strict=True)]
    return ", ".join(
        f"{key.rpartition('.')[2]}: {word}" if text and key not in TELLING else word for key, word, text in words
    )


def value_of(key: str, value: Any) -> str:
    """Return the value of a key as text: “ε = 5”, but “spambase”."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    word = key.rpartition(".")[2]
    return f"{'ε' if word == 'epsilon' else word} = {value:g}".replace("inf", "∞")


def curves(frame: pd.DataFrame, metric: str = "error") -> pd.DataFrame:
    """Return the convergence curves, by cycle, per point and layer that has the metric.

    `mean` is the mean over runs of the mean over nodes. `low` and `high` bound it with 95 % confidence (Student's t
    over `runs` runs; NaN with fewer than three). `q05` and `q95` are quantiles over the nodes of a run, averaged over
    runs.
    """
    import pandas as pd

    rows = rows_of(frame, metric)
    keys = keys_of(rows) or ["layer"]
    found = []
    for values, part in rows.groupby(keys, observed=True, sort=False, dropna=False):
        curve = interval(part.dropna(subset="value"), ["cycle"]).sort_values("cycle", ignore_index=True)
        where = _same(frame, keys, values)
        for name in ("q05", "q95"):
            quantile = where[where["metric"] == f"{metric}.{name}"].groupby("cycle", observed=True)["value"].mean()
            curve[name] = curve["cycle"].map(quantile)
        found.append(curve.assign(curve=named(keys, values)))
    return pd.concat(found, ignore_index=True)


def bounded(found: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return intervals of a metric without values that it cannot have: those of shares end at 0 and 1."""
    return found.assign(low=found["low"].clip(0, 1), high=found["high"].clip(0, 1)) if is_share(metric) else found


def _same(frame: pd.DataFrame, keys: list[str], values: Sequence[Any]) -> pd.DataFrame:
    """Return the rows with these values; NaN equals NaN."""
    for key, value in zip(keys, values, strict=True):
        frame = frame[frame[key].isna() if value != value else frame[key] == value]
    return frame


def interval(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the mean of `value` over runs by some columns, with its 95 % interval by Student's t.

    With fewer than three runs there is no interval: for two, it would be twelve standard errors wide and not useful.
    """
    from scipy.special import stdtrit  # quantiles of Student's t; scipy.stats takes half a second to import

    groups = rows.groupby(by, observed=True, sort=False, dropna=False)["value"]
    found = groups.agg(["mean", "sem", "count"]).reset_index().rename(columns={"count": "runs"})
    quantile = stdtrit((found["runs"] - 1).clip(lower=1), (1 + CONFIDENCE) / 2)
    half = (found["sem"] * quantile).where(found["runs"] >= LEAST)
    return found.assign(low=found["mean"] - half, high=found["mean"] + half)


def last(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of a metric (by its complete name) at the last cycle in which each run has it."""
    rows = frame[(frame["metric"] == metric) & frame["value"].notna()]
    groups = [*varied(rows), "layer", "run"]
    return rows[rows["cycle"] == rows.groupby(groups, observed=True, dropna=False)["cycle"].transform("max")]


def last_means(frame: pd.DataFrame, metric: str, keys: list[str]) -> pd.DataFrame:
    """Return the metric at the last cycle, by the given keys: mean over runs, standard error, 95 % interval, runs."""
    refuse_unknown(frame, keys)
    rows_of(frame, metric)
    return bounded(interval(last(frame, f"{metric}.mean"), keys), metric)


def refuse_unknown(frame: pd.DataFrame, keys: list[str]) -> None:
    """Raise an error about a key that the log does not have."""
    unknown = [key for key in keys if key not in frame]
    if unknown:
        raise UserError(f"the sweep does not vary “{unknown[0]}”", hint=nearest(unknown[0], varied(frame)))


def facets(frame: pd.DataFrame, metric: str, used: list[str]) -> list[tuple[str, pd.DataFrame]]:
    """Return the parts of the log for the panels of a figure: one per combination of the unused keys and layers."""
    rows = rows_of(frame, metric)
    keys = keys_of(rows)
    rest: list[str] = []
    for key in distinct(rows, [*used, *keys]):
        if key not in used and not _goes_with(rows, [*used, *rest], key):
            rest.append(key)
    if not rest:
        return [("", frame)]
    parts = rows.groupby(rest, observed=True, sort=False, dropna=False)
    return [(titled(rest, values), _part(frame, metric, dict(zip(rest, values, strict=True)))) for values, _ in parts]


def _goes_with(rows: pd.DataFrame, shown: list[str], key: str) -> bool:
    """Return whether the shown keys determine the value of a key, as ε determines λ in a zipped group."""
    known = [name for name in shown if name in rows]
    points = rows[[*known, key]].drop_duplicates()
    return bool(known) and len(points) == len(points[known].drop_duplicates())


def _part(frame: pd.DataFrame, metric: str, where: dict[str, Any]) -> pd.DataFrame:
    """Return the rows of a point; with a layer, without this metric of other layers, whose other metrics stay."""
    layer = where.pop("layer", None)
    part = _same(frame, list(where), list(where.values()))
    others = (part["layer"] != layer) & part["metric"].astype(str).str.startswith(f"{metric}.")
    return part if layer is None else part[~others]


def plain_metric(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a metric with one number per layer, by curve and cycle: mean over runs with its interval."""
    rows = frame[(frame["metric"] == metric) & frame["value"].notna()]
    if rows.empty:
        raise UserError(f"no layer has the metric “{metric}”", hint=nearest(metric, _metrics(frame)))
    keys = keys_of(rows) or ["layer"]
    found = interval(rows, [*keys, "cycle"]).sort_values("cycle", kind="stable", ignore_index=True)
    return found.assign(curve=[named(keys, values) for values in found[keys].itertuples(index=False)])


def _metrics(frame: pd.DataFrame) -> list[str]:
    return sorted(map(str, frame["metric"].unique()))


def rates(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the increase of a counter per cycle, since the previous measured cycle or since the beginning."""
    rows = frame[frame["metric"] == metric].copy()
    groups = rows.groupby([*varied(rows), "layer", "run"], observed=True, dropna=False)
    added = rows["value"] - groups["value"].shift(fill_value=0.0)
    rows["value"] = added / (rows["cycle"] - groups["cycle"].shift(fill_value=0))
    return plain_metric(rows.assign(metric=metric), metric)


def time_to(
    frame: pd.DataFrame, thresholds: Sequence[float] = (0.8, 0.85, 0.9), metric: str = "accuracy"
) -> pd.DataFrame:
    """Return the cycle in which each curve first reaches each threshold: one row per curve and threshold.

    For a run it is the first measured cycle in which the mean over nodes is at least the threshold (at most, for
    metrics that end in “error”). `cycle` is the median over all `runs` runs, infinite if half of them never reach the
    threshold; `first` and `slowest` are the extremes of the `reached` runs.
    """
    import pandas as pd

    rows = rows_of(frame, metric)
    keys = keys_of(rows) or ["layer"]
    found = [
        {"curve": named(keys, values), "threshold": threshold} | _reached(part, threshold, metric.endswith("error"))
        for values, part in rows.groupby(keys, observed=True, sort=False, dropna=False)
        for threshold in thresholds
    ]
    return pd.DataFrame(found)


def _reached(part: pd.DataFrame, threshold: float, falling: bool) -> dict[str, float]:
    there = part["value"] <= threshold if falling else part["value"] >= threshold
    runs = part["run"].unique()
    first = part[there].groupby("run")["cycle"].min().reindex(runs)
    return {
        "cycle": float(first.fillna(float("inf")).median()),
        "first": float(first.min()),
        "slowest": float(first.max()),
        "reached": int(first.notna().sum()),
        "runs": int(runs.size),
    }
