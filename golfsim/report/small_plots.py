"""Small plots inside tables, as SVG: published and new values on one line, and short curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from golfsim.report.style import look

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT, EDGE = 170, 44, 8
PUBLISHED, NEW = look(1).colour, look(0).colour


@dataclass(frozen=True)
class Mark:
    """A published number and the new mean, each with the half length of its error bar (0: none)."""

    published: float
    published_error: float
    new: float
    new_error: float
    metric: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number that is drawn."""
        pairs = ((self.published, self.published_error), (self.new, self.new_error))
        return min(value - error for value, error in pairs), max(value + error for value, error in pairs)


def marks(mark: Mark, low: float, high: float, text: str) -> Markup:
    """Return the published number (diamond) above the new one (dot), on an axis from `low` to `high`."""
    from markupsafe import Markup

    def place(value: float) -> float:
        return EDGE + (WIDTH - 2 * EDGE) * (value - low) / (high - low) if high > low else WIDTH / 2

    parts = [_line(EDGE, 22, WIDTH - EDGE, 22, "#d5dae0", 1)]
    for value, error, y, colour in (
        (mark.published, mark.published_error, 13, PUBLISHED), (mark.new, mark.new_error, 31, NEW),
    ):  # fmt: skip
        if error > 0:
            parts.append(_line(place(value - error), y, place(value + error), y, colour, 1.5))
    x = place(mark.published)
    corners = f"{x:.1f},7 {x + 6:.1f},13 {x:.1f},19 {x - 6:.1f},13"
    parts.append(Markup('<polygon points="{}" fill="#fff" stroke="{}" stroke-width="2"/>').format(corners, PUBLISHED))
    parts.append(_dot(place(mark.new), 31, NEW, 4.5))
    return _svg(parts, text)


def curves(sides: Sequence[Sequence[float]], text: str) -> Markup:
    """Return curves over the values of a key in even steps, each with its own colour and its last point marked."""
    from markupsafe import Markup

    numbers = [value for side in sides for value in side]
    low, high = min(numbers), max(numbers)
    longest = max(len(side) for side in sides)

    def place(at: int, value: float) -> tuple[float, float]:
        x = EDGE + (WIDTH - 2 * EDGE) * at / max(longest - 1, 1)
        y = EDGE + (HEIGHT - 2 * EDGE) * (high - value) / (high - low) if high > low else HEIGHT / 2
        return x, y

    parts = []
    for number, side in enumerate(sides):
        colour, points = look(number).colour, [place(at, value) for at, value in enumerate(side)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="1.5"/>').format(path, colour))
        parts += [_dot(x, y, colour, 2.5) for x, y in points]
    return _svg(parts, text)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> Markup:
    from markupsafe import Markup

    form = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}"/>')
    return form.format(x1, y1, x2, y2, colour, width)


def _dot(x: float, y: float, colour: str, radius: float) -> Markup:
    from markupsafe import Markup

    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}" fill="{}"/>').format(x, y, radius, colour)


def _svg(parts: Sequence[Markup], text: str) -> Markup:
    """Return a picture whose text, for readers who do not see it and as tooltip, is escaped."""
    from markupsafe import Markup

    head = Markup(
        '<svg class="small" role="img" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}"><title>{}</title>'
    )
    return head.format(text, WIDTH, HEIGHT, WIDTH, HEIGHT, text) + Markup("").join(parts) + Markup("</svg>")
