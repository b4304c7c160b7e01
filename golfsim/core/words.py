"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """Return a number of things in words: “1 run”, “2 runs”."""
    return f"{number} {what}{'' if number == 1 else 's'}"
