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
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golfsim
from golfsim.kernels import ROOTS, digest_of
from golfsim.log import ABOUT, LOG, Piece

if TYPE_CHECKING:
    from golfsim.scenario import Scenario
    from golfsim.sweep import Point

INDEX = "index.sqlite"
WHOLE = ("finished", "stopped")  # the states of a run that need not run again
SHORT = 8  # digits of a hash in a folder's name
ONLY_SHOWN = (  # sources that no row depends on
    "cli.py", "progress.py", "explain.py", "bench.py", "report", "results.py", "compare.py", "comparing",
)  # fmt: skip

TABLES = """
create table if not exists runs (hash text primary key, folder text, status text, error text, cycles int, seconds real);
create table if not exists plan (file text, place int, hash text, point text, run int, seed int,
                                 primary key (file, place));
"""


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
            seed = point.scenario.seed + run - 1
            folds = point.scenario.data is not None and point.scenario.data.folds
            number = run if folds else 0  # which fold a run holds out depends on its number, and not on its seed alone
            found.append(Planned(point, run, seed, _sha256(f"{content}\n{seed}\n{number}")))
    return found


def content_of(scenario: Scenario) -> str:
    """A hash of all that the rows of a run depend on, but its seed."""
    from golfsim.datasets import digest

    essence = scenario.essence()
    parts = [essence, code_version(), _inputs(essence, scenario.folder)]
    if scenario.data is not None:
        parts.append(digest(scenario.data, scenario.folder))
    return _sha256(json.dumps(parts, sort_keys=True))


@cache
def code_version() -> str:
    """Our version and a hash of those of our sources that a row can depend on."""
    sources = [path for root in ROOTS for path in sorted(root.rglob("*.py"))]
    return f"{golfsim.__version__} {digest_of(path for path in sources if not set(ONLY_SHOWN) & set(path.parts))}"


def _inputs(essence: Any, folder: Path) -> dict[str, str]:
    """The hash of each file that a scenario names: traces, graphs, and the sources of a user's own protocols."""
    found = {}
    for text in _texts(essence):
        file, _, _ = text.rpartition(":")
        if file.endswith(".py"):
            found[text] = digest_of(sorted((folder / file).parent.glob("*.py")))
        elif _is_file(folder / text):
            found[text] = digest_of([folder / text])
    return found


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _texts(value)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


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
        known = self.entries()
        rows = self._rows("select hash, point, run, seed from plan order by file, place")
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
        try:
            with closing(sqlite3.connect(f"{self.index.resolve().as_uri()}?mode=ro", uri=True, timeout=60)) as index:
                return index.execute(query).fetchall()
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise OSError(f"{self.index}: {error}") from error
            return []

    def ask_for(self, file: str, runs: list[Planned]) -> dict[str, Entry]:
        """Note what a scenario file asks for now; returns those runs that are whole, by hash."""
        rows = [(file, n, r.hash, json.dumps(r.point.values), r.run, r.seed) for n, r in enumerate(runs)]
        with self._writing() as index:
            index.execute("delete from plan where file = ?", (file,))
            index.executemany("insert into plan values (?, ?, ?, ?, ?, ?)", rows)
        there, known = self.whole(runs), self.entries()
        self.record([entry for hash_, entry in there.items() if known.get(hash_) != entry])
        return there

    def whole(self, runs: list[Planned]) -> dict[str, Entry]:
        """Those of the runs that are whole and there, by hash, also where the index has not heard of them."""
        known, found = self.entries(), {}
        for planned in runs:
            entry = known.get(planned.hash)
            if entry is None or not (entry.status in WHOLE and (self.folder / entry.folder / LOG).is_file()):
                entry = self._from_file(planned.folder)
            if entry and entry.hash == planned.hash and entry.status in WHOLE:
                found[planned.hash] = entry
        return found

    def _from_file(self, folder: str) -> Entry | None:
        """What `run.json` says of a run that the index does not know."""
        try:
            about = json.loads((self.folder / folder / ABOUT).read_text(encoding="utf-8"))
            (self.folder / folder / LOG).stat()
            return Entry(about["hash"], folder, about["status"], about.get("error", ""), about["cycles"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def record(self, entries: list[Entry]) -> None:
        """Note runs that are over."""
        rows = [tuple(asdict(entry).values()) for entry in entries]
        if rows:
            with self._writing() as index:
                index.executemany("insert or replace into runs values (?, ?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction; an index that is damaged is put aside and begun anew."""
        try:
            self._prepared().close()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise OSError(f"{self.index}: {error}") from error
            os.replace(self.index, self.index.with_suffix(".damaged"))
        index = self._prepared()
        try:
            with index:
                yield index
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.index}: {error}") from error
        finally:
            index.close()

    def _prepared(self) -> sqlite3.Connection:
        index = sqlite3.connect(self.index, timeout=60)
        try:
            index.executescript(TABLES)
        except sqlite3.DatabaseError:
            index.close()
            raise
        return index
