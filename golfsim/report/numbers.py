"""The numbers of figures: from a tidy log to what is drawn, without drawing anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from golfsim.core.columns import ABOUT_LAYERS, COLUMNS
from golfsim.core.errors import UserError, listed, nearest
from golfsim.runs.judged import judged, labelled

if TYPE_CHECKING:
    import pandas as pd

LABELS = {
    "error": "0-1 error on the test set",
    "voted_error": "0-1 error of the vote",
    "age": "updates per model",
    "auc": "area under the ROC curve",
    "f1": "F1",
    "nmi": "normalised mutual information",
    "rmse": "root mean squared error on the test set",
    "mae": "mean absolute error on the test set",
    "rms.expected": "expected error of a histogram (rms)",
    "rms.measured": "error of a histogram (rms)",
    "rms.projected": "error of a projected histogram (rms)",
    "label.linear": "share of labels recovered",
    "membership.advantage": "advantage of the membership attack",
    "attribute.correct": "share of sensitive values guessed",
    "inversion.cosine": "cosine similarity of reconstructed records",
    "links.dead": "share of dead links",
    "online": "nodes online",
    "indegree": "in-degree",
}
OTHER_COLUMNS = ("path", "node", "online", "error", "source", "target", "degree", "spent", "count", "by_node")
SPREAD = re.compile(r"\.(std|q\d+)$|^(confusion|roc)\.")  # metrics that no figure draws alone
BOUNDED = re.compile(r"share of |difference of shares|probability|.* from 0 to 1")  # units of metrics between 0 and 1
TELLING = ("case", "layer", "results", "measure", "data.set", "data.file")  # keys whose values need no explanation
CONFIDENCE = 0.95
LEAST = 3  # runs that an interval needs


def label_of(metric: str) -> str:
    """Return the axis label of a metric."""
    name = bare(metric)
    return LABELS.get(name, name.replace("_", " "))


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


def logged(frame: pd.DataFrame, metric: str) -> str:
    """Return the complete name of a metric in the log: of its mean over nodes, or of its one number per layer.

    `.mean` at the end of the given name may be there or not. An unknown metric is an error.
    """
    known = {str(name) for name in frame["metric"].unique()}
    found = next((name for name in (f"{metric}.mean", metric, bare(metric)) if name in known), None)
    if found is None:
        raise UserError(f"no layer has the metric “{metric}”", hint=listed(metric, drawable(frame)))
    return found


def over_nodes(frame: pd.DataFrame, metric: str) -> bool:
    """Return whether the log has a metric as mean over the measured nodes, and not as one number per layer."""
    return bool((frame["metric"] == f"{bare(metric)}.std").any())


def drawable(frame: pd.DataFrame) -> list[str]:
    """Return the metrics that figures can draw, without `.mean`, sorted."""
    return sorted({bare(name) for name in map(str, frame["metric"].unique()) if not SPREAD.search(name)})


def own_metrics(frame: pd.DataFrame) -> list[str]:
    """Return the metrics that layers measure themselves and that change over cycles, in the order of the log."""
    from golfsim.network import transport
    from golfsim.sim import metric_catalogue, observers

    kinds = (found for _, found in metric_catalogue.KINDS.values())
    usual = [metric for found in (observers.WORLD_METRICS, transport.METRICS, *kinds) for metric in found]
    names = [name for name in map(str, frame["metric"].unique()) if not SPREAD.search(name)]
    own = [name for name in names if not name.startswith("spent.") and not any(one.matches(name) for one in usual)]
    return [bare(name) for name in own if _changes(frame[frame["metric"] == name])]


def _changes(rows: pd.DataFrame) -> bool:
    """Return whether any run has several values."""
    groups = rows.groupby([*varied(rows), "layer", "run"], observed=True, dropna=False)
    return bool(groups["value"].nunique().max() > 1)


def strategies(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the log with this metric of one judged model per run, if one is judged, and layers by their labels."""
    return labelled(judged(frame, bare(metric)))


def rows_of(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of a metric: means over nodes, or one number per layer; an unknown metric is an error."""
    frame = strategies(frame, metric)
    rows = frame[frame["metric"] == logged(frame, metric)]
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


def curves(frame: pd.DataFrame, metric: str = "error", keys: list[str] | None = None) -> pd.DataFrame:
    """Return the curves of a metric, by cycle, per point and layer that has it; `keys` distinguish the curves.

    `mean` is the mean over runs of the mean over nodes. `low` and `high` bound it with 95 % confidence (Student's t
    over `runs` runs; NaN with fewer than three; within 0 and 1 for shares). `q05` and `q95` are quantiles over the
    nodes of a run, averaged over runs, if the log has them.
    """
    import pandas as pd

    frame = strategies(frame, metric)
    keys = _telling(rows_of(frame, metric), keys)
    found, name = means(per_curve(frame, metric, keys)), bare(logged(frame, metric))
    where = pd.MultiIndex.from_frame(found[["curve", "cycle"]])
    for part in ("q05", "q95"):
        spread = frame[frame["metric"] == f"{name}.{part}"]
        if len(spread):
            named_ = spread.assign(curve=_names(spread, keys))
            found[part] = named_.groupby(["curve", "cycle"], observed=True)["value"].mean().reindex(where).to_numpy()
    return found


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over runs by curve and cycle, with its interval, of rows with the name of their curve."""
    found = bounded(interval(rows, ["curve", "cycle"]), str(rows["metric"].iloc[0]))
    order = {curve: place for place, curve in enumerate(dict.fromkeys(rows["curve"]))}
    by = lambda column: column.map(order) if column.name == "curve" else column  # noqa: E731 - the order of the log
    return found.sort_values(["curve", "cycle"], key=by, ignore_index=True)


def per_curve(frame: pd.DataFrame, metric: str, keys: list[str] | None = None) -> pd.DataFrame:
    """Return the rows of a metric, one per run and cycle, with the name of the curve in the column `curve`."""
    rows = rows_of(frame, metric).dropna(subset="value")
    return rows.assign(curve=_names(rows, _telling(rows, keys)))


def _telling(rows: pd.DataFrame, keys: list[str] | None) -> list[str]:
    """Return the keys that distinguish curves: the given ones, or those that differ; the layer if there are none."""
    return (keys_of(rows) if keys is None else keys) or ["layer"]


def _names(rows: pd.DataFrame, keys: list[str]) -> pd.Series[str]:
    """Return the name of the curve of each row."""
    groups = rows.groupby(keys, observed=True, sort=False, dropna=False)
    return groups.ngroup().map({place: named(keys, values) for place, (values, _) in enumerate(groups)})


def bounded(found: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return intervals of a metric without values that it cannot have: those of shares end at 0 and 1."""
    if not is_share(metric):
        return found
    low, high = found["low"].clip(lower=0), found["high"].clip(upper=1)
    return found.assign(low=low.clip(upper=found["mean"]), high=high.clip(lower=found["mean"]))


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


def halves(found: pd.DataFrame) -> list[pd.Series[float]]:
    """Return how far intervals extend below and above the mean; 0 where there is no interval."""
    return [(found["mean"] - found["low"]).fillna(0), (found["high"] - found["mean"]).fillna(0)]


def student(values: pd.Series[float], share: bool = False) -> tuple[float, float]:
    """Return the 95 % interval of the mean of some runs, as `interval` does; within 0 and 1 for a share."""
    from scipy.special import stdtrit

    if len(values) < LEAST:
        return float("nan"), float("nan")
    mean, error = float(values.mean()), float(values.std()) / len(values) ** 0.5
    half = error * float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    low, high = (max(0.0, mean - half), min(1.0, mean + half)) if share else (mean - half, mean + half)
    return min(low, mean), max(high, mean)


def last(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of a metric (by its complete name) at the last cycle in which each run has it."""
    frame = strategies(frame, metric)
    rows = frame[(frame["metric"] == metric) & frame["value"].notna()]
    groups = [*varied(rows), "layer", "run"]
    return rows[rows["cycle"] == rows.groupby(groups, observed=True, dropna=False)["cycle"].transform("max")]


def last_means(frame: pd.DataFrame, metric: str, keys: list[str]) -> pd.DataFrame:
    """Return the metric at the last cycle, by the given keys: mean over runs, standard error, 95 % interval, runs."""
    refuse_unknown(frame, keys)
    name = str(rows_of(frame, metric)["metric"].iloc[0])
    return bounded(interval(last(frame, name), keys), metric)


def refuse_unknown(frame: pd.DataFrame, keys: list[str]) -> None:
    """Raise an error about a key that the log does not have."""
    unknown = [key for key in keys if key not in frame]
    if unknown:
        raise UserError(f"the sweep does not vary “{unknown[0]}”", hint=nearest(unknown[0], varied(frame)))


def facets(frame: pd.DataFrame, metric: str, used: list[str]) -> list[tuple[str, pd.DataFrame]]:
    """Return the parts of the log for the panels of a figure: one per combination of the unused keys and layers."""
    frame = strategies(frame, metric)
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
    name, logged_ = bare(metric), part["metric"].astype(str)
    others = (part["layer"] != layer) & ((logged_ == name) | logged_.str.startswith(f"{name}."))
    return part if layer is None else part[~others]


def rates(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the increase of a counter per cycle, since the previous measured cycle or the beginning, per curve."""
    rows = frame[frame["metric"] == metric].copy()
    groups = rows.groupby([*varied(rows), "layer", "run"], observed=True, dropna=False)
    added = rows["value"] - groups["value"].shift(fill_value=0.0)
    rows["value"] = added / (rows["cycle"] - groups["cycle"].shift(fill_value=0))
    return per_curve(rows, metric)


def over_sent(frame: pd.DataFrame, metric: str, unit: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `per_curve` and `curves` of a metric with what the layer has sent by then in place of the cycle.

    `unit` is “messages” or “bytes”. In the column `cycle` is the total of all nodes of the layer that has the metric,
    as mean over runs.
    """
    rows, found = per_curve(frame, metric), curves(frame, metric)
    counted = strategies(frame, metric)
    counted = counted[counted["metric"] == f"{unit}.sent"]
    keys = [*varied(counted), "layer", "run", "cycle"]
    joined = rows.merge(counted[[*keys, "value"]].rename(columns={"value": "sent"}), on=keys, how="left")
    silent = joined.groupby("curve", observed=True, sort=False)["sent"].max().fillna(0) == 0
    if silent.any():
        raise UserError(
            f"the layer of “{silent.index[silent][0]}” sends no messages", hint="draw this figure over cycles"
        )
    sent = joined.groupby(["curve", "cycle"], observed=True, sort=False)["sent"].mean()
    where = lambda part: sent.reindex(list(zip(part["curve"], part["cycle"], strict=True))).to_numpy()  # noqa: E731
    return rows.assign(cycle=where(rows)), found.assign(cycle=where(found))


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
        {"curve": named(keys, values), "threshold": threshold}
        | _reached(part, threshold, bare(metric).endswith("error"))
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
