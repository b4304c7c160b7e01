"""Reduce a log to what figures and comparisons show: one model per strategy, and layers by their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

NOT_POINT = ("cycle", "layer", "metric", "value", "judged", "label")


def judged(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the log in which only the judged layer of a run has the metric, if a layer is judged and has it.

    `metric` is a name without “.mean”: its mean and its quantiles belong to it. Other metrics stay as they are.
    """
    if "judged" not in frame or not len(frame):
        return frame
    names = frame["metric"].cat.categories if hasattr(frame["metric"], "cat") else frame["metric"].unique()
    asked = frame["metric"].isin([name for name in names if str(name) == metric or str(name).startswith(f"{metric}.")])
    own = frame["layer"].astype(object) == frame["judged"].astype(object)
    point = frame.groupby([c for c in frame.columns if c not in NOT_POINT], observed=True, dropna=False).ngroup()
    has_own = np.isin(point, point[asked & own].unique())
    return _same_attrs(frame[~(asked & ~own & has_own)], frame)


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the log with the labels of layers in place of their names."""
    if "label" not in frame:
        return frame
    layers = frame["label"].astype(object).where(frame["label"].notna(), frame["layer"].astype(object))
    return _same_attrs(frame.assign(layer=layers.astype("category")).drop(columns="label"), frame)


def _same_attrs(new: pd.DataFrame, old: pd.DataFrame) -> pd.DataFrame:
    new.attrs = dict(old.attrs)
    return new
