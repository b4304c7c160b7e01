"""Format numbers in sentences."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """Return a number with its noun in singular or plural: “1 run”, “2 runs”."""
    return f"{number} {what}{'' if number == 1 else 's'}"
