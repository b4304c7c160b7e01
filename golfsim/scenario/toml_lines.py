"""Find the line of each key in a TOML text.

The parser of the standard library reads the values and rejects invalid TOML, but it stores no positions. This scanner
reads a text that is known to be valid and records the line of every key, so that an error can name it.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect
from collections.abc import Iterator
from typing import Any

KeyPath = tuple[str | int, ...]

_KEY = re.compile(r"""[A-Za-z0-9_-]+ | "(?:[^"\\\n]|\\.)*" | '[^'\n]*'""", re.VERBOSE)
_STRING = re.compile(
    r"""\"""(?:[^\\]|\\.)*?\"{3,5} | '''.*?'{3,5} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*'""", re.VERBOSE | re.DOTALL
)
_PLAIN = re.compile(r"""[^\s,\]}#"'\[{]+(?:[ ]\d\d:[^\s,\]}#]*)?""")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of each key and each array element of a valid TOML text."""
    return _Scanner(text).lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line_ends = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}
        self.arrays: dict[KeyPath, int] = {}  # arrays of tables: index of the current table
        self.table: KeyPath = ()
        self._skip(_SPACE)
        while self.at < len(text):
            self._header() if text[self.at] == "[" else self._pair(self.table)
            self._skip(_SPACE)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match
        self.at = match.end()
        return match.group()

    def _note(self, path: KeyPath) -> None:
        self.lines.setdefault(path, bisect(self.line_ends, self.at - 1) + 1)

    def _dotted(self) -> list[str]:
        parts = []
        while True:
            self._skip(_BLANK)
            word = self._skip(_KEY)
            parts.append(next(iter(tomllib.loads(f"{word} = 0"))))
            self._skip(_BLANK)
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _header(self) -> None:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        start = self.at
        path: KeyPath = ()
        parts = self._dotted()
        end, self.at = self.at, start
        for depth, part in enumerate(parts):
            path = (*path, part)
            self._note(path)
            if array and depth == len(parts) - 1:
                self.arrays[path] = self.arrays.get(path, -1) + 1
            if path in self.arrays:
                path = (*path, self.arrays[path])
                self._note(path)
        self.at = end + (2 if array else 1)
        self.table = path

    def _pair(self, table: KeyPath) -> None:
        start = self.at
        parts = self._dotted()
        end, self.at = self.at, start
        for depth in range(len(parts)):
            self._note((*table, *parts[: depth + 1]))
        self.at = end + 1
        self._value((*table, *parts))

    def _value(self, path: KeyPath) -> None:
        self._skip(_BLANK)
        opening = self.text[self.at]
        if opening == "[":
            self._list(path)
        elif opening == "{":
            self._inline(path)
        else:
            self._skip(_STRING if opening in "\"'" else _PLAIN)

    def _list(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while True:
            self._skip(_SPACE)
            if self.text[self.at] == "]":
                break
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._note((*path, index))
            self._value((*path, index))
            index += 1
        self.at += 1

    def _inline(self, path: KeyPath) -> None:
        self.at += 1
        while True:
            self._skip(_SPACE)
            if self.text[self.at] == "}":
                break
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._pair(path)
        self.at += 1


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of a key, or of the nearest key that encloses it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def leaves(tree: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value of a parsed text that is neither a table nor a list, with its path."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if inner is None:
        yield path, tree
    else:
        for step, value in inner:
            yield from leaves(value, (*path, step))
