"""Draw published numbers and the new means over a numeric key, next to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from golfsim.report.numbers import label_of
from golfsim.report.small_plots import Mark
from golfsim.report.style import look, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from golfsim.report.published import Value

FEWEST = 3  # points of a curve
WIDE = 50  # the ratio of the largest and the smallest value of the key from which its axis is logarithmic
Pair = tuple["Value", Mark]


def curves(pairs: Sequence[Pair]) -> Axes | None:
    """Draw the published numbers (diamonds, dashed) and the new means (dots); None if they form no curve."""
    key = _key(pairs)
    if key is None:
        return None
    import matplotlib.pyplot as plt

    groups: dict[str, list[Pair]] = {}
    for value, mark in sorted((pair for pair in pairs if key in pair[0].where), key=lambda pair: pair[0].where[key]):
        groups.setdefault(_name(value, key), []).append((value, mark))
    with styled():
        figure, ax = plt.subplots(figsize=(5.0, 3.6), layout="constrained")
        for number, (name, own) in enumerate(groups.items()):
            _draw(ax, key, name, own, look(number).colour)
        xs = [value.where[key] for value, _ in pairs if key in value.where]
        if min(xs) > 0 and max(xs) / min(xs) > WIDE:
            ax.set_xscale("log")
        ax.set(xlabel=key, ylabel=label_of(pairs[0][0].metric.removesuffix(".mean")))
        figure.legend(loc="outside lower left")
    return ax


def _draw(ax: Axes, key: str, name: str, own: list[Pair], colour: str) -> None:
    xs = [value.where[key] for value, _ in own]
    marks = [mark for _, mark in own]
    how: dict[str, Any] = {"color": colour, "capsize": 2}
    published: dict[str, Any] = {"ls": "--", "marker": "D", "mfc": "white", "label": f"{name}, published"}
    ax.errorbar(xs, [m.published for m in marks], [m.published_error for m in marks], **how, **published)
    ax.errorbar(xs, [m.new for m in marks], [m.new_error for m in marks], **how, marker="o", label=f"{name}, new")


def _key(pairs: Sequence[Pair]) -> str | None:
    """Return the numeric key with the most values, if there are enough for a curve."""
    values: dict[str, set[float]] = {}
    for value, _ in pairs:
        for key, at in value.where.items():
            if isinstance(at, int | float) and not isinstance(at, bool):
                values.setdefault(key, set()).add(at)
    most = max(values, key=lambda key: len(values[key]), default=None)
    return most if most is not None and len(values[most]) >= FEWEST else None


def _name(value: Value, key: str) -> str:
    rest = ", ".join(f"{name} = {at}" for name, at in value.where.items() if name != key)
    return f"{value.layer} {value.metric}{', ' + rest if rest else ''}"
