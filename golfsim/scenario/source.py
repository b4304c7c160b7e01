"""Hold the origin of a scenario: its file, the changes made to it, and the places that messages name."""

from __future__ import annotations

import copy
import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError, nearest
from golfsim.core.paths import is_file, shipped_scenarios, unreadable
from golfsim.core.words import counted
from golfsim.scenario import variables
from golfsim.scenario.messages import Problem, ScenarioError, lists, shown, tuples, written
from golfsim.scenario.pages import page_for
from golfsim.scenario.toml_lines import KeyPath, key_lines, leaves, line_of

Changes = Mapping[str, Any] | Iterable[str]

BARE = re.compile(r"[\w-]+")
TIME = "a date or time of TOML"
MOST_LISTED = 20  # problems of a scenario that are listed
TWICE = ("Cannot overwrite a value", "this key occurs twice in its table")


@dataclass(frozen=True)
class Source:
    """The origin of a scenario: its tree, and for each key the line of the file or the change that set it."""

    file: str
    folder: Path
    tree: dict[str, Any]
    lines: dict[KeyPath, int]
    top_level: tuple[str, ...]
    origin: dict[KeyPath, str] = field(default_factory=dict)
    allow_code: bool = False  # also execute protocol files outside the folder
    options: tuple[str, ...] = ()  # the changes with which it was read, as values of --set

    @classmethod
    def read(cls, path: Path, top_level: Iterable[str], allow_code: bool = False, changes: Changes = ()) -> Source:
        """Read the tree and the lines of a file and note the changes to make; raise an error if it is not TOML."""
        text = _text_of(path)
        tree, lines, options = _parse(path, text), key_lines(text), _options(changes)
        return cls(str(path), path.parent.absolute(), tree, lines, tuple(top_level), {}, allow_code, options)

    @property
    def command(self) -> str | None:
        """The command that runs the scenario, for a shell; None if it was not read from a file."""
        if not self.lines:
            return None
        words = [word for text in self.options for word in ("--set", text)]
        return shlex.join(["golfsim", "run", self.file, *words, *["--allow-code"] * self.allow_code])

    def packed(self) -> str:
        """Return the content as JSON, for another process."""
        parts = vars(self) | {key: list(getattr(self, key).items()) for key in ("lines", "origin")}
        return json.dumps(parts | {"folder": str(self.folder)}, default=_packed_time)

    @classmethod
    def unpacked(cls, text: str) -> Source:
        """Return the source that `packed` wrote."""
        parts = json.loads(text, object_hook=_unpacked_time)
        for key in ("lines", "origin"):
            parts[key] = {tuple(path): value for path, value in parts[key]}
        sequences = {key: tuple(parts[key]) for key in ("top_level", "options")}
        return cls(**parts | sequences | {"folder": Path(parts["folder"])})

    def changed(self, changes: Changes, where: str | None = None) -> Source:
        """Return a copy with other values at some paths; `where` names the place of the changes in messages."""
        new = replace(self, tree=copy.deepcopy(self.tree), origin=dict(self.origin))
        wrong = []
        for text, key, value in _assignments(changes):
            place = f"{where}: {text}" if where else text
            try:
                new._change(key, value, place)
            except UserError as error:
                wrong.append(f"{place}: {error}")
        if wrong:
            raise ScenarioError(wrong)
        return replace(new, lines=_outside(new.lines, set(new.origin)))

    def _change(self, key: str, value: Any, text: str) -> None:
        first, *rest = key.split(".")
        valid = [*self.layer_names(), *self.top_level]
        places = [] if first in valid else self.case_layers().get(first, [])
        if first not in valid and not places:
            raise UserError(
                f"there is no layer and no top-level key “{first}”", hint=nearest(first, [*valid, *self.case_layers()])
            )
        for path in [(*place, *_steps(rest)) for place in places] or [self.resolve(key)]:
            self.origin[_set(self.tree, path, lists(value))] = text

    def in_case(self, number: int) -> Source:
        """Return the source of a case before its changes: its layers are on top of the layers of the file."""
        own, common = self.tree["case"][number].get("layers", []), self.tree.get("protocol", [])
        if not isinstance(own, list) or not all(isinstance(table, dict) for table in own):
            hint = "write each layer of the case as a table: [[case.layers]]"
            raise UserError("expected a list of layers", key=f"case.{number}.layers", hint=hint)
        inside = ("case", number, "layers")
        lines = {p: line for p, line in self.lines.items() if p[:1] != ("case",)}
        for path, line in self.lines.items():
            if path[:3] == inside and len(path) > 3:
                lines["protocol", len(common) + int(path[3]), *path[4:]] = line
        tree = {key: value for key, value in self.tree.items() if key not in ("case", "sweep")}
        origin = {path: text for path, text in self.origin.items() if path[:1] not in (("case",), ("sweep",))}
        for path, text in self.origin.items():
            if path[:3] == inside and len(path) > 3:
                origin["protocol", len(common) + int(path[3]), *path[4:]] = text
        return replace(self, tree=tree | {"protocol": [*common, *own]}, lines=lines, origin=origin)

    def case_layers(self) -> dict[str, list[KeyPath]]:
        """Return where the layers of cases are, by name."""
        cases = self.tree.get("case")
        found: dict[str, list[KeyPath]] = {}
        for number, case in enumerate(cases if isinstance(cases, list) else ()):
            own = case.get("layers") if isinstance(case, dict) else None
            for place, table in enumerate(own if isinstance(own, list) else ()):
                if isinstance(table, dict) and isinstance(table.get("name"), str):
                    found.setdefault(table["name"], []).append(("case", number, "layers", place))
        return found

    def as_checked(self) -> dict[str, Any]:
        """Return the tree as the models expect it: tuples for lists, and a single churn table as a list of one."""
        tree = self._resolved()
        churn = tree.get("churn")
        checked: dict[str, Any] = tuples(tree | ({"churn": [churn]} if isinstance(churn, dict) else {}))
        return checked

    def _resolved(self, wrong: list[Problem] | None = None) -> dict[str, Any]:
        """Return the tree with the values of variables; add references to unknown variables to `wrong`."""
        found = [] if wrong is None else wrong
        return variables.resolved(self.tree, lambda path, e: found.append(Problem(path, e.what, e.hint or "")))

    def wrong_references(self) -> list[Problem]:
        """Return a problem for each reference to a variable that does not exist."""
        found: list[Problem] = []
        self._resolved(found)
        return found

    def layer_tables(self) -> dict[int, dict[str, Any]]:
        """Return the tables of the stack by their place; omit entries that are not tables."""
        tables = self._resolved().get("protocol")
        places = enumerate(tables) if isinstance(tables, list) else ()
        return {place: tuples(table) for place, table in places if isinstance(table, dict)}

    def layer_names(self) -> dict[str, int]:
        """Return the place of each layer that has a name."""
        named = ((table.get("name"), place) for place, table in self.layer_tables().items())
        return {name: place for name, place in named if isinstance(name, str)}

    def resolve(self, key: str) -> KeyPath:
        """Turn a path as users write it, starting with a layer's name or a top-level key, into a path of the tree."""
        first, *rest = key.split(".")
        if first == "sweep" and rest:  # its keys are paths themselves
            return (first, ".".join(rest))
        layers = self.layer_names()
        start: KeyPath = ("protocol", layers[first]) if first in layers else (first,)
        return self._in_tree((*start, *_steps(rest)))

    def _in_tree(self, path: KeyPath) -> KeyPath:
        """Return the same path without the index 0 where churn is one table instead of a list."""
        single = isinstance(self.tree.get("churn"), dict) and path[:2] == ("churn", 0)
        return path[:1] + path[2:] if single else path

    def oversized(self) -> list[Problem]:
        """Return a problem for each integer beyond the 64 bits of TOML."""
        return [
            Problem(path, "expected an integer of at most 64 bits")
            for path, value in leaves(self.tree)
            if isinstance(value, int) and not -(2**63) <= value < 2**63
        ]

    def complain(self, found: list[Problem], docs: str | None = None) -> ScenarioError:
        """Return an error with one message per problem, in the order of the file; `docs` is the page of the manual."""
        placed = [Problem(self._in_tree(problem.path), problem.what, problem.hint) for problem in found]
        ordered = sorted(dict.fromkeys(placed), key=lambda problem: line_of(self.lines, problem.path) or 0)
        messages = [self._message(problem) for problem in ordered[:MOST_LISTED]]
        more = len(ordered) - len(messages)
        messages += [f"{self.file}: and {more:,} more problem{'' if more == 1 else 's'}"] if more else []
        return ScenarioError(messages, docs or page_for(ordered[0].path))

    def _message(self, problem: Problem) -> str:
        changes = [text for path, text in self.origin.items() if problem.path[: len(path)] == path]
        line = line_of(self.lines, problem.path)
        place = changes[-1] if changes else f"{self.file}:{line}" if line else self.file
        return f"{place}: {UserError(problem.what, key=self._as_written(problem.path), hint=problem.hint)}"

    def _as_written(self, path: KeyPath) -> str:
        if path[:1] == ("protocol",) and len(path) > 1:
            name = self.layer_tables().get(int(path[1]), {}).get("name")
            path = (name, *path[2:]) if isinstance(name, str) and BARE.fullmatch(name) else path
        return ".".join(str(word) if BARE.fullmatch(str(word)) else shown(str(word)) for word in path)


def _steps(words: Iterable[str]) -> KeyPath:
    return tuple(int(word) if word.isdecimal() else word for word in words)


def _outside(lines: dict[KeyPath, int], replaced: set[KeyPath]) -> dict[KeyPath, int]:
    """Return the lines of keys that are not inside a replaced value; a sweep may have thousands of values."""
    return {p: line for p, line in lines.items() if not any(p[:length] in replaced for length in range(len(p)))}


def _packed_time(value: Any) -> dict[str, str]:
    """Return dates and times, which JSON does not have, as a table."""
    return {TIME: value.isoformat()}


def _unpacked_time(table: dict[str, Any]) -> Any:
    return tomllib.loads(f"time = {table[TIME]}")["time"] if table.keys() == {TIME} else table


def _text_of(path: Path) -> str:
    why = unreadable(path)
    if why:
        own = [f"{path.name}.toml"] if path.name and is_file(path.with_name(f"{path.name}.toml")) else []
        hint = "" if path.suffix or not path.name else nearest(path.name, own or shipped_scenarios())
        raise ScenarioError([f"{path}: {UserError(why, hint=hint)}"])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ScenarioError([f"{path}: {error.strerror or error}"]) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ScenarioError([f"{path}:{line}: not UTF-8 text: {error.reason}"]) from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        place = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
        where, column = (f"{path}:{place[1]}", f" (column {place[2]})") if place else (path, "")
        what = str(error).replace(place[0] if place else "", "").replace(*TWICE)
        raise ScenarioError([f"{where}: not TOML: {what}{column}"]) from None


def _assignments(changes: Changes) -> list[tuple[str, str, Any]]:
    """Return changes as (the user's text, path, value)."""
    if isinstance(changes, Mapping):
        return [(f"{key} = {shown(value)}", key, value) for key, value in changes.items()]
    return [(f"--set {text}", *_assignment(text)) for text in changes]


def _options(changes: Changes) -> tuple[str, ...]:
    """Return changes as values of the option --set."""
    if isinstance(changes, Mapping):
        return tuple(f"{key}={written(value)}" for key, value in changes.items())
    return tuple(changes)


def _assignment(text: str) -> tuple[str, Any]:
    """Parse ``path=value`` from the command line; the value is TOML or a bare word."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ScenarioError([f"--set {text}: not UTF-8 text"]) from None
    key, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not key:
        raise ScenarioError([f"--set {text}: expected path=value, e.g. --set cycles=50"])
    try:
        tree = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key, value
    return key, tree["value"] if len(tree) == 1 else value


def _set(tree: Any, path: KeyPath, value: Any) -> KeyPath:
    """Set a value in a tree, create missing tables on its path, and return the path of the part that is new."""
    new = path
    for depth, step in enumerate(path):
        here = ".".join(map(str, path[:depth]))
        if isinstance(tree, list) and step not in range(len(tree)):
            raise UserError(f"“{here}” has {counted(len(tree), 'element')}, numbered from 0: there is no “{step}”")
        if not isinstance(tree, list | dict):
            raise UserError(f"“{here}” is not a table and has no key “{step}”")
        place: Any = step if isinstance(tree, list) else str(step)
        if depth == len(path) - 1:
            tree[place] = value
        elif isinstance(tree, dict) and place not in tree:
            new = min(new, path[: depth + 1], key=len)
            tree[place] = {}
        tree = tree[place]
    return new
