"""Report errors of the user without a traceback."""

from __future__ import annotations

from collections.abc import Iterable

FEW = 20  # largest number of names that a hint lists


class UserError(Exception):
    """An error of the user: what is wrong, at which key, and a hint how to correct it.

    `key` is the path of the scenario key (``data.file``, ``learning.peers``). Code that knows the file adds its name
    and line to the message and sets `placed`. `docs` is the page of the manual that explains the key (`golfsim help`).
    """

    placed = False

    def __init__(self, what: str, *, key: str | None = None, hint: str | None = None, docs: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.key = key
        self.hint = hint
        self.docs = docs

    def __str__(self) -> str:
        where = f"{self.key}: " if self.key else ""
        todo = f"\n    {self.hint}" if self.hint else ""
        return f"{where}{self.what}{todo}"


class IndexOutOfRange(IndexError):
    """An index of a kernel that lies outside its array: the place in the source, the index, and the size."""

    def __str__(self) -> str:
        place, index, size = self.args
        return f"{place}: index {index} is out of range: this axis has size {size}"


def closest(word: str, valid: Iterable[str]) -> str | None:
    """Return the valid word that is most similar to `word`, or None if none is similar."""
    import difflib

    by_lower = {name.lower(): name for name in valid}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return a hint with the valid word most similar to `word`, or with all valid words if there are few."""
    valid = list(valid)
    close = closest(word, valid)
    if close is not None:
        return f"did you mean “{close}”?"
    return "valid: " + ", ".join(valid) if 0 < len(valid) <= FEW else ""


def listed(word: str, valid: Iterable[str]) -> str:
    """Return a hint with all valid words, after the one most similar to `word` if there is one."""
    valid = list(valid)
    close = closest(word, valid)
    every = "valid: " + ", ".join(valid) if valid else ""
    return f"did you mean “{close}”? {every}" if close is not None else every
