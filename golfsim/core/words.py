"""Format numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, what: str) -> str:
    """Return a number with its noun in singular or plural: “1 run”, “2 runs”."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence: “a”, “a and b”, “a, b and c”."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""
