"""What a user did wrong, told without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake of the user's: what it is, which key it stands at, and what to do about it.

    `key` is the path of the scenario key at fault (``data.file``, ``learning.peers``); whoever knows the file adds
    its name and line.
    """

    def __init__(self, what: str, *, key: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.key = key
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.key}: " if self.key else ""
        todo = f"\n    {self.hint}" if self.hint else ""
        return f"{where}{self.what}{todo}"


def nearest(word: str, valid: list[str]) -> str:
    """A hint that names the valid word nearest to `word`, and all of them where there are few."""
    import difflib

    close = difflib.get_close_matches(word, valid, n=1, cutoff=0.5)
    if close:
        return f"did you mean “{close[0]}”?"
    return "valid: " + ", ".join(valid) if len(valid) <= 20 else ""
