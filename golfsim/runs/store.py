"""The results folder: runs identified by their content, and an index of the runs that each scenario needs.

A run is identified by a hash of everything that its rows depend on: the scenario without names and plot settings, the
seed, the sources of golfsim, the data and every file that the scenario names. So a complete run is never repeated, and
a changed key repeats only the runs that it affects. The index is an SQLite file that several processes may use. Its
content is also in the `run.json` of each run, so a lost or damaged index can be rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.paths import INDEX, is_file
from golfsim.core.provenance import ROOTS, code_version, digest_of
from golfsim.runs.logs import Piece, about, damage
from golfsim.sim.log import LOG

if TYPE_CHECKING:
    from golfsim.scenario.model import Scenario
    from golfsim.scenario.sweep import Point

WHOLE = ("finished", "stopped")  # the states of a complete run
SHORT = 8  # digits of a hash in the name of a folder
TABLES = """
create table if not exists runs (hash text primary key, folder text, status text, error text, cycles int, seconds real);
create table if not exists plan (file text, place int, hash text, point text, run int, seed int,
                                 primary key (file, place));
"""
ENTRY = (str, str, str, str, int, (int, float))  # the types of a row of `runs`
PLAN = (str, str, int, int)
RUNS = "select hash, folder, status, error, cycles, seconds from runs"
PLANNED = "select hash, point, run, seed from plan"
COLUMNS = {"runs": "hash folder status error cycles seconds", "plan": "file place hash point run seed"}


@dataclass(frozen=True)
class Entry:
    """The entry of one run in the index."""

    hash: str
    folder: str  # below the results folder
    status: str
    error: str = ""
    cycles: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Planned:
    """One run of a scenario."""

    point: Point
    run: int
    seed: int
    hash: str

    @property
    def values(self) -> dict[str, Any]:
        """The values of the columns of its rows: those of its point, its number and its seed."""
        return self.point.columns | {"run": self.run, "seed": self.seed}

    @property
    def folder(self) -> str:
        """The folder of its results, below the results folder: readable, and unique to its content."""
        number = f"{self.run:0{len(str(self.point.scenario.runs))}}"
        return str(Path(self.point.folder) / f"run-{number}-{self.hash[:SHORT]}")


def plan(points: Iterable[Point]) -> list[Planned]:
    """Return all runs of all points, each with the hash of its content."""
    found = []
    for point in points:
        content = content_of(point.scenario)
        for run in range(1, point.scenario.runs + 1):
            found.append(Planned(point, run, point.scenario.seed + run - 1, _hash(content, point.scenario, run)))
    return found


def hash_of(scenario: Scenario, run: int) -> str:
    """Return the hash of the current content of one run."""
    return _hash(content_of(scenario), scenario, run)


def _hash(content: str, scenario: Scenario, run: int) -> str:
    folded = scenario.data is not None and scenario.data.folds
    number = run if folded else 0  # which fold is held out depends on the number, not only on the seed
    return _sha256(f"{content}\n{scenario.seed + run - 1}\n{number}")


def content_of(scenario: Scenario) -> str:
    """Return a hash of everything that the rows of a run depend on, except its seed."""
    from golfsim.data.loading import digest

    essence = scenario.essence()
    parts = [essence, code_version(), _inputs(scenario), _plugins(essence, scenario.folder)]
    if scenario.data is not None:
        parts.append(digest(scenario.data, scenario.folder))
    return _sha256(json.dumps(parts, sort_keys=True))


def _inputs(scenario: Scenario) -> dict[str, str]:
    """Return the hash of each file that a scenario names: traces, graphs, and the sources of users' protocols."""
    found = {}
    for name in scenario.files():
        if is_file(scenario.folder / name):
            found[name] = digest_of([scenario.folder / name])
    for file in scenario.code_files():
        found[file.name] = digest_of(sorted(file.parent.glob("*.py")))
    return found


def _plugins(essence: Any, folder: Path) -> dict[str, str]:
    """Return the hash of the sources of each protocol that another installed package provides."""
    from golfsim.protocol.loading import find

    found = {}
    for use in {layer["use"] for layer in essence["protocol"] if ":" not in layer["use"]}:
        source = Path(sys.modules[find(use, folder).__module__].__file__ or "")
        if not any(root in source.parents for root in ROOTS):
            found[use] = digest_of(sorted(source.parent.glob("*.py")))
    return found


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
        """Return all runs in the index, by hash."""
        rows = self._rows(RUNS)
        return {row[0]: Entry(*row) for row in rows if _fits(row, ENTRY)}

    def planned(self, verify: bool = False) -> list[tuple[str, dict[str, Any], Entry | None]]:
        """Return the runs of the last version of each scenario file that wrote here.

        Each has its hash, its values (point, run and seed), and its entry if it exists.
        """
        rows = self._rows(f"{PLANNED} order by file, place")
        if not all(_fits(row, PLAN) and _table(row[1]) is not None for row in rows):
            return []  # the index is damaged, and the next `golfsim run` rebuilds it
        known = self._known({row[0] for row in rows}, verify)
        return [
            (hash_, (_table(point) or {}) | {"run": run, "seed": seed}, known.get(hash_))
            for hash_, point, run, seed in dict.fromkeys(rows)
        ]

    def pieces(self, below: Path, unfinished: bool = False) -> list[Piece]:
        """Return the existing logs of the last version of each scenario file."""
        found = [self.piece(entry, values, below, unfinished) for _, values, entry in self.planned()]
        return [piece for piece in found if piece is not None]

    def piece(
        self, entry: Entry | None, values: dict[str, Any], below: Path | None = None, unfinished: bool = False
    ) -> Piece | None:
        """Return the log of a run if it exists and is complete; its path is relative to a folder above."""
        if entry is None or not (unfinished or entry.status in WHOLE):
            return None
        file = self.folder / entry.folder / LOG
        path = {"path": str(file.parent.relative_to(below or self.folder))}
        return Piece(file, path | values) if file.is_file() else None

    def _rows(self, query: str) -> list[Any]:
        """Return the result of a query; nothing if there is no readable index."""
        if not self.index.is_file():
            return []
        for mode in ("ro", "rw"):  # an unfinished transaction of a killed process can only be undone by writing
            place = f"{self.index.resolve().as_uri()}?mode={mode}"
            try:
                with closing(sqlite3.connect(place, uri=True, timeout=60)) as index:
                    index.text_factory = _text
                    return index.execute(query).fetchall()
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise OSError(f"{self.index}: {error}") from error
        return []

    def ask_for(self, file: str, runs: list[Planned]) -> dict[str, Entry]:
        """Record the runs of a scenario file. Return those that are complete, by hash."""
        rows = [(file, n, r.hash, json.dumps(r.point.columns), r.run, r.seed) for n, r in enumerate(runs)]
        if not self._sound():
            os.replace(self.index, self.index.with_suffix(".damaged"))
        self._write(
            ("delete from plan where file = ?", [(file,)]), ("insert into plan values (?, ?, ?, ?, ?, ?)", rows)
        )
        there, known = self.whole(runs), self.entries()
        self.record([entry for hash_, entry in there.items() if known.get(hash_) != entry])
        return there

    def whole(self, runs: list[Planned]) -> dict[str, Entry]:
        """Return the complete runs by hash, including those that are not in the index."""
        known = self._known({r.hash for r in runs}, verify=True)
        return {hash_: entry for hash_, entry in known.items() if entry.status in WHOLE}

    def _known(self, hashes: set[str], verify: bool = False) -> dict[str, Entry]:
        """Return the entries of these runs: from the index, or from their own files if the index lacks their end.

        With `verify`, a run whose files do not have their checksums counts as missing.
        """
        known = {hash_: entry for hash_, entry in self.entries().items() if hash_ in hashes}
        whole = {h: e for h, e in known.items() if e.status in WHOLE and self._there(e.folder, verify)}
        known = {h: e for h, e in known.items() if e.status not in WHOLE} | whole
        unclear = hashes - whole.keys()
        short = {hash_[:SHORT] for hash_ in unclear}
        for folder in self.folder.rglob("run-*-*") if unclear else ():
            entry = self._from_file(folder) if folder.name[-SHORT:] in short else None
            if entry and entry.status in WHOLE and not self._there(entry.folder, verify):
                continue
            if entry and entry.hash in unclear and (entry.status in WHOLE or entry.hash not in known):
                known[entry.hash] = entry
        return known

    def _sound(self) -> bool:
        """Return whether all rows of the index have the types that golfsim writes."""
        plans = self._rows(PLANNED)
        tables = all(_fits(row, PLAN) and _table(row[1]) is not None for row in plans)
        return tables and all(_fits(row, ENTRY) for row in self._rows(RUNS))

    def _there(self, name: str, verify: bool) -> bool:
        """Return whether the log of a run exists and, with `verify`, whether its files have their checksums."""
        folder = self.folder / name
        return is_file(folder / LOG) and not (verify and damage(folder))

    def _from_file(self, folder: Path) -> Entry | None:
        """Return the entry of the run in a folder, from its `run.json`."""
        told = about_run(folder)
        if not {"hash", "status", "cycles"} <= told.keys():
            return None
        name = str(folder.relative_to(self.folder))
        return Entry(told["hash"], name, told["status"], told.get("error", ""), told["cycles"])

    def record(self, entries: list[Entry]) -> None:
        """Record runs that have ended. A complete run stays complete, even if its repetition fails."""
        rows = [tuple(asdict(self._better(entry)).values()) for entry in entries]
        if rows:
            self._write(("insert or replace into runs values (?, ?, ?, ?, ?, ?)", rows))

    def _better(self, entry: Entry) -> Entry:
        there = None if entry.status in WHOLE else self._from_file(self.folder / entry.folder)
        return there if there and there.hash == entry.hash and there.status in WHOLE else entry

    def _write(self, *statements: tuple[str, list[Any]]) -> None:
        """Execute all statements or none. An index that is damaged or of another version is renamed and recreated."""
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


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _fits(row: tuple[Any, ...], kinds: tuple[Any, ...]) -> bool:
    """Return whether the values of a row have the types that golfsim writes."""
    return all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True))


def _table(text: str) -> dict[str, Any] | None:
    """Return a table that is stored as JSON, or None if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def about_run(folder: Path) -> dict[str, Any]:
    """Return the `run.json` of a run whose log exists; an empty table otherwise."""
    return about(folder) if (folder / LOG).is_file() else {}
