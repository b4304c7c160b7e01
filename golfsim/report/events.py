"""Events on the axis of cycles: crashes as lines, partitions, joins and limited churn as hatched spans."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from golfsim.report.style import GREY

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from golfsim.sim.events import Event

HATCHES = {"partition": "////", "joins": "\\\\\\\\", "churn": "...."}  # bands have no hatches
LINE: Any = {"color": GREY, "ls": (0, (1, 1)), "lw": 1.0}
SPAN: Any = {"facecolor": "none", "edgecolor": "0.85", "lw": 0}
ROOM = 0.25  # share of a logarithmic axis that must follow an event
MOST_CYCLES = 4  # cycles of crashes that a legend lists


def logarithmic(log: bool | None, events: list[Event], cycles: pd.Series[int]) -> bool:
    """Return whether the axis of cycles is logarithmic: as stated, or if there is room after each event."""
    if log is not None:
        return log
    first, last = max(1, int(cycles.min())), int(cycles.max())
    times = [time for event in events for time in (event["from"], event["until"]) if time and first < time < last]
    return all(math.log(last / time) >= ROOM * math.log(last / first) for time in times)


def mark(ax: Axes, events: list[Event], last: int) -> None:
    """Mark the events up to the last cycle, behind the curves; the limits of the axes stay."""
    limits = ax.get_xlim(), ax.get_ylim()
    for event in _until(events, last):
        if event["kind"] in HATCHES:
            end = last if event["until"] is None else min(event["until"], last)
            ax.axvspan(event["from"], end, hatch=HATCHES[event["kind"]], zorder=0.5, **SPAN)
        else:
            ax.axvline(event["from"], zorder=0.6, **LINE)
    ax.set(xlim=limits[0], ylim=limits[1])


def markers(events: list[Event], last: int) -> list[Any]:
    """Return the legend entries of the events, one per kind."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = _until(events, last)
    handles: list[Any] = []
    for kind in dict.fromkeys(str(event["kind"]) for event in shown):
        label = _words(kind, [event for event in shown if event["kind"] == kind])
        hatch = HATCHES.get(kind)
        handles.append(Patch(hatch=hatch, label=label, **SPAN) if hatch else Line2D([], [], label=label, **LINE))
    return handles


def _until(events: list[Event], last: int) -> list[Event]:
    return [event for event in events if event["from"] <= last]


def _words(kind: str, events: list[Event]) -> str:
    """Return the name of events with their cycles: “crash in cycle 30”, “partition, cycles 20–120”."""
    times = [str(event["from"]) if event["from"] == event["until"] else _span(event) for event in events]
    many = len(times) > 1 or "–" in times[0]
    listed = ", ".join(times[:MOST_CYCLES]) + (", …" if len(times) > MOST_CYCLES else "")
    return f"{kind}, {'cycles' if many else 'cycle'} {listed}"


def _span(event: Event) -> str:
    return f"{event['from']}–" if event["until"] is None else f"{event['from']}–{event['until']}"
