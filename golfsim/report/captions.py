"""Captions of figures: what is shown, and over how many runs and nodes, in full sentences."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from golfsim.report import numbers
from golfsim.sim.log import note_of

if TYPE_CHECKING:
    import pandas as pd


def who(frame: pd.DataFrame, of_nodes: bool = False, mean: bool = True) -> str:
    """Return the sentence that states over how many nodes and runs values are means, as far as the log has it."""
    measured = span(frame, "measured")
    nodes = f"over {measured} measured node{'s' * (measured != '1')}" if measured else "over the measured nodes"
    runs = int(frame["run"].nunique())
    many = "one run" if runs == 1 else f"{runs} runs"
    point = " of each point of the sweep" if numbers.varied(frame) else ""
    online = span(frame, "online")
    who = f", with {online} node{'s' * (online != '1')} online" if online else ""
    if not mean or (runs == 1 and not of_nodes):
        return f"There {'is' if runs == 1 else 'are'} {many}{point}{who}."
    over = " and ".join([nodes] * of_nodes + [f"over {many}"] * (runs > 1))
    return f"Values are means {over}{point}{who}." if runs > 1 else f"Values are means {over}, {many}{point}{who}."


def span(frame: pd.DataFrame, metric: str) -> str:
    """Return the smallest and the largest value of a metric as text; an empty text if no layer has it."""
    values = frame.loc[frame["metric"] == metric, "value"].dropna()
    if values.empty:
        return ""
    low, high = values.min(), values.max()
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def bands(found: pd.DataFrame, shown: Collection[str]) -> str:
    """Return the explanation of the bands that a figure of these curves shows, if there are any."""
    averaged = ", averaged over runs" if found["runs"].max() > 1 else ""
    texts = {
        "runs": "Dark bands are 95 % confidence intervals of the mean over runs (Student's t).",
        "bars": "Bars at some cycles are 95 % confidence intervals of the mean over runs (Student's t).",
        "nodes": f"Light bands contain 90 % of the nodes of a run (5 % to 95 % quantile{averaged}).",
    }
    return " ".join(text for band, text in texts.items() if band in shown)


def bars(found: pd.DataFrame) -> str:
    """Return the explanation of the error bars of means, if there are any."""
    sure = (found["high"] > found["low"]).any()
    return "Error bars are 95 % confidence intervals of the mean over runs (Student's t)." if sure else ""


def caption(frame: pd.DataFrame, *sentences: str) -> str:
    """Join the sentences that are not empty, and the note of the frame."""
    note = note_of(frame)
    return " ".join(sentence for sentence in (*sentences, f"{note}." if note else "") if sentence)


def capital(text: str) -> str:
    """Return the text with a capital letter, as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
