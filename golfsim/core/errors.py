"""What a user did wrong, told without a traceback."""

from __future__ import annotations

from collections.abc import Iterable

FEW = 20  # names that a hint lists


class UserError(Exception):
    """A mistake of the user's: what it is, which key it stands at, and what to do about it.

    `key` is the path of the scenario key at fault (``data.file``, ``learning.peers``); whoever knows the file adds
    its name and line, and sets `placed`. `docs` is the page of the manual that explains it (`golfsim help`).
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


def closest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that looks most like `word`, if one does."""
    import difflib

    by_lower = {name.lower(): name for name in valid}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def nearest(word: str, valid: Iterable[str]) -> str:
    """A hint that names the valid word nearest to `word`, or all of them where there are few."""
    valid = list(valid)
    close = closest(word, valid)
    if close is not None:
        return f"did you mean “{close}”?"
    return "valid: " + ", ".join(valid) if 0 < len(valid) <= FEW else ""
