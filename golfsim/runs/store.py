"""The results folder: runs by their content, and an index that tells which of them a scenario asks for now.

A run is known by a hash of all that its rows depend on: the scenario without what only names or draws it, the seed, our
sources, the data and every file that the scenario names. So a run that is there need not run again, and a changed key
runs only what it changes. The index is SQLite, safe with several processes; what it knows of a run also stands in the
run's own `run.json`, so a lost or damaged index costs nothing but its own rebuilding.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.paths import INDEX, is_file
from golfsim.core.provenance import ROOTS, code_version, digest_of
from golfsim.runs.logs import Piece, about
from golfsim.sim.log import LOG

if TYPE_CHECKING:
    from golfsim.scenario.model import Scenario
    from golfsim.scenario.sweep import Point

WHOLE = ("finished", "stopped")  # the states of a run that need not run again
SHORT = 8  # digits of a hash in a folder's name
TABLES = """
create table if not exists runs (hash text primary key, folder text, status text, error text, cycles int, seconds real);
create table if not exists plan (file text, place int, hash text, point text, run int, seed int,
                                 primary key (file, place));
"""
COLUMNS = {"runs": "hash folder status error cycles seconds", "plan": "file place hash point run seed"}


@dataclass(frozen=True)
class Entry:
    """What the index knows of one run."""

    hash: str
    folder: str  # below the results folder
    status: str
    error: str = ""
    cycles: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Planned:
    """One run that a scenario asks for."""

    point: Point
    run: int
    seed: int
    hash: str

    @property
    def values(self) -> dict[str, Any]:
        """What tells it from the others: its point's values, its number and its seed."""
        return self.point.values | {"run": self.run, "seed": self.seed}

    @property
    def folder(self) -> str:
        """Where its results go, below the results folder: readable, and never shared with another content."""
        number = f"{self.run:0{len(str(self.point.scenario.runs))}}"
        return str(Path(self.point.folder) / f"run-{number}-{self.hash[:SHORT]}")


def plan(points: Iterable[Point]) -> list[Planned]:
    """All runs of all points, each with the hash of its content."""
    found = []
    for point in points:
        content = content_of(point.scenario)
        for run in range(1, point.scenario.runs + 1):
            found.append(Planned(point, run, point.scenario.seed + run - 1, _hash(content, point.scenario, run)))
    return found


def hash_of(scenario: Scenario, run: int) -> str:
    """The hash of the content of one run, as it is now and here."""
    return _hash(content_of(scenario), scenario, run)


def _hash(content: str, scenario: Scenario, run: int) -> str:
    folded = scenario.data is not None and scenario.data.folds
    number = run if folded else 0  # which fold is held out depends on the number, not on the seed alone
    return _sha256(f"{content}\n{scenario.seed + run - 1}\n{number}")


def content_of(scenario: Scenario) -> str:
    """A hash of all that the rows of a run depend on, but its seed."""
    from golfsim.data.loading import digest

    essence = scenario.essence()
    parts = [essence, code_version(), _inputs(essence, scenario.folder), _plugins(essence, scenario.folder)]
    if scenario.data is not None:
        parts.append(digest(scenario.data, scenario.folder))
    return _sha256(json.dumps(parts, sort_keys=True))


def _inputs(essence: Any, folder: Path) -> dict[str, str]:
    """The hash of each file that a scenario names: traces, graphs, and the sources of a user's own protocols."""
    found = {}
    for text in _texts(essence):
        file, _, _ = text.rpartition(":")
        if file.endswith(".py"):
            found[text] = digest_of(sorted((folder / file).parent.glob("*.py")))
        elif is_file(folder / text):
            found[text] = digest_of([folder / text])
    return found


def _plugins(essence: Any, folder: Path) -> dict[str, str]:
    """The hash of the sources of each protocol that another installed package offers."""
    from golfsim.protocol.base import find

    found = {}
    for use in {layer["use"] for layer in essence["protocol"] if ":" not in layer["use"]}:
        source = Path(sys.modules[find(use, folder).__module__].__file__ or "")
        if not any(root in source.parents for root in ROOTS):
            found[use] = digest_of(sorted(source.parent.glob("*.py")))
    return found


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _texts(value)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """A results folder and its index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def index(self) -> Path:
        """The file of the index."""
        return self.folder / INDEX

    def entries(self) -> dict[str, Entry]:
        """All runs the index knows, by hash."""
        rows = self._rows("select hash, folder, status, error, cycles, seconds from runs")
        return {row[0]: Entry(*row) for row in rows}

    def planned(self) -> list[tuple[str, dict[str, Any], Entry | None]]:
        """What all scenario files that wrote here asked for last: hash; point, run and seed; the run if it is there."""
        rows = self._rows("select hash, point, run, seed from plan order by file, place")
        known = self._known({row[0] for row in rows})
        return [
            (hash_, json.loads(point) | {"run": run, "seed": seed}, known.get(hash_))
            for hash_, point, run, seed in dict.fromkeys(rows)
        ]

    def pieces(self, below: Path, unfinished: bool = False) -> list[Piece]:
        """The logs of what was asked for last, as far as it is there."""
        found = [self.piece(entry, values, below, unfinished) for _, values, entry in self.planned()]
        return [piece for piece in found if piece is not None]

    def piece(
        self, entry: Entry | None, values: dict[str, Any], below: Path | None = None, unfinished: bool = False
    ) -> Piece | None:
        """The log of a run, if it is there and whole; its path is told as seen from a folder above."""
        if entry is None or not (unfinished or entry.status in WHOLE):
            return None
        file = self.folder / entry.folder / LOG
        path = {"path": str(file.parent.relative_to(below or self.folder))}
        return Piece(file, path | values) if file.is_file() else None

    def _rows(self, query: str) -> list[Any]:
        """What a query finds; nothing where there is no index that can be read."""
        if not self.index.is_file():
            return []
        for mode in ("ro", "rw"):  # what a killed process has left half done can only be undone by writing
            place = f"{self.index.resolve().as_uri()}?mode={mode}"
            try:
                with closing(sqlite3.connect(place, uri=True, timeout=60)) as index:
                    return index.execute(query).fetchall()
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise OSError(f"{self.index}: {error}") from error
        return []

    def ask_for(self, file: str, runs: list[Planned]) -> dict[str, Entry]:
        """Note what a scenario file asks for now; returns those runs that are whole, by hash."""
        rows = [(file, n, r.hash, json.dumps(r.point.values), r.run, r.seed) for n, r in enumerate(runs)]
        self._write(
            ("delete from plan where file = ?", [(file,)]), ("insert into plan values (?, ?, ?, ?, ?, ?)", rows)
        )
        there, known = self.whole(runs), self.entries()
        self.record([entry for hash_, entry in there.items() if known.get(hash_) != entry])
        return there

    def whole(self, runs: list[Planned]) -> dict[str, Entry]:
        """Those of the runs that are whole and there, by hash, also where the index has not heard of them."""
        return {hash_: entry for hash_, entry in self._known({r.hash for r in runs}).items() if entry.status in WHOLE}

    def _known(self, hashes: set[str]) -> dict[str, Entry]:
        """What is known of these runs: by the index, or by their own files where it has not heard of their end."""
        known = {hash_: entry for hash_, entry in self.entries().items() if hash_ in hashes}
        whole = {h: e for h, e in known.items() if e.status in WHOLE and (self.folder / e.folder / LOG).is_file()}
        known = {h: e for h, e in known.items() if e.status not in WHOLE} | whole
        unclear = hashes - whole.keys()
        short = {hash_[:SHORT] for hash_ in unclear}
        for folder in self.folder.rglob("run-*-*") if unclear else ():
            entry = self._from_file(folder) if folder.name[-SHORT:] in short else None
            if entry and entry.hash in unclear and (entry.status in WHOLE or entry.hash not in known):
                known[entry.hash] = entry
        return known

    def _from_file(self, folder: Path) -> Entry | None:
        """What `run.json` says of the run in a folder."""
        told = about_run(folder)
        if not {"hash", "status", "cycles"} <= told.keys():
            return None
        name = str(folder.relative_to(self.folder))
        return Entry(told["hash"], name, told["status"], told.get("error", ""), told["cycles"])

    def record(self, entries: list[Entry]) -> None:
        """Note runs that are over; one that is whole stays so, whatever becomes of it when it is made once more."""
        rows = [tuple(asdict(self._better(entry)).values()) for entry in entries]
        if rows:
            self._write(("insert or replace into runs values (?, ?, ?, ?, ?, ?)", rows))

    def _better(self, entry: Entry) -> Entry:
        there = None if entry.status in WHOLE else self._from_file(self.folder / entry.folder)
        return there if there and there.hash == entry.hash and there.status in WHOLE else entry

    def _write(self, *statements: tuple[str, list[Any]]) -> None:
        """All statements or none; an index that is damaged, or of another version, is put aside and begun anew."""
        try:
            try:
                self._transaction(statements)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                os.replace(self.index, self.index.with_suffix(".damaged"))
                self._transaction(statements)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.index}: {error}") from error

    def _transaction(self, statements: Iterable[tuple[str, list[Any]]]) -> None:
        with closing(sqlite3.connect(self.index, timeout=60)) as index:
            index.executescript(TABLES)
            for table, columns in COLUMNS.items():
                if [row[1] for row in index.execute(f"pragma table_info({table})")] != columns.split():
                    raise sqlite3.DatabaseError("of another version")
            with index:
                for statement, rows in statements:
                    index.executemany(statement, rows)


def about_run(folder: Path) -> dict[str, Any]:
    """What `run.json` says of a run whose log is there; nothing where there is none."""
    return about(folder) if (folder / LOG).is_file() else {}
