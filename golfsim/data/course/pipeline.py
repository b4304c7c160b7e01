"""Compute feature vectors from raw events, on each node separately (Cyphers 2017, chapter 3).

A raw file → `Importer` → `EventTable` of events → `Instancer` → labelled examples → `Featurizer` → `FeatureMatrix`.
The curator sends the instancer and the featurizer; the events stay at their node::

    pipeline = Pipeline(CsvImporter(fields, entity="student", time="time"), instancer, featurizer)
    pipeline.run("my_clicks.csv")
"""

from __future__ import annotations

import csv
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, closest, nearest
from golfsim.core.files import write_whole
from golfsim.core.words import counted

if TYPE_CHECKING:
    import pandas as pd

Value = float | str | None
"""The value of a field of an event; None: no value."""

MEND = "correct it, or remove the event"
LONGEST = 40  # characters of a raw value that are shown
WHOLE = 2.0**53  # integers below are exact
LATEST = 253402300800.0  # the year 10000, which ISO 8601 cannot represent


# Fields and events


@dataclass(frozen=True)
class Field:
    """A typed value of events; an `optional` one may be missing.

    Times are seconds since 1970. They are read from ISO 8601; a time without a time zone is UTC. A category is stored
    as its index in `categories`.
    """

    name: str
    kind: Literal["number", "text", "time", "category"]
    categories: tuple[str, ...] = ()
    optional: bool = False

    def __post_init__(self) -> None:
        if (self.kind == "category") != bool(self.categories):
            hint = "a field has categories if and only if it is a category"
            raise UserError(f"field “{self.name}” is a {self.kind}", hint=hint)

    def read(self, raw: object) -> Any:
        """Return the stored form of a raw value; raise ValueError if it is not as `expected`."""
        if raw is not None and raw != "":
            return _READ[self.kind](self, raw)
        if not self.optional:
            raise ValueError(self.expected)
        return _MISSING[self.kind]

    def shown(self, kept: Any) -> Value:
        """Return a stored value as events show it."""
        if self.kind == "category":
            return self.categories[kept] if kept >= 0 else None
        if self.kind == "text":
            return str(kept) or None
        return None if math.isnan(kept) else float(kept)

    @property
    def expected(self) -> str:
        """The description of valid raw values."""
        if self.kind == "category":
            return "one of " + ", ".join(self.categories)
        return {
            "number": "a finite number",
            "text": "text",
            "time": "a time like 2013-02-04T19:30:00, or seconds since 1970",
        }[self.kind]


def _number(field: Field, raw: object) -> float:
    try:
        value = math.nan if isinstance(raw, bool) or "_" in str(raw) else float(raw)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(field.expected)
    return value + 0.0  # −0 becomes 0


def _time(field: Field, raw: object) -> float:
    try:
        moment = datetime.fromisoformat(raw) if isinstance(raw, str) and "-" in raw[1:] else None
    except ValueError:
        moment = None
    if moment is None:
        return _number(field, raw)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _text(field: Field, raw: object) -> str:
    if isinstance(raw, bool) or not isinstance(raw, str | int):
        raise ValueError(field.expected)
    str(raw).encode()  # half a surrogate pair, which JSON can express, cannot be written as UTF-8
    return str(raw)


def _category(field: Field, raw: object) -> int:
    if raw not in field.categories:
        raise ValueError(field.expected)
    return field.categories.index(str(raw))


_READ: dict[str, Callable[[Field, object], Any]] = {
    "number": _number,
    "time": _time,
    "text": _text,
    "category": _category,
}
_MISSING: dict[str, Any] = {"number": math.nan, "time": math.nan, "text": "", "category": -1}
_TYPES: dict[str, Any] = {"number": np.float64, "time": np.float64, "text": object, "category": np.int16}


@dataclass(frozen=True)
class Event:
    """A unit of measured data: its entity, its fields, and a time stamp unless it is a static property."""

    entity: str
    values: Mapping[str, Value]
    time: float | None = None


class EventTable:
    """Events of one or several entities, sorted by entity and then by time; static properties come first.

    `times` (NaN: no time stamp) and `events[name]` are arrays with one value per event.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        entities: tuple[str, ...],
        owner: NDArray[Any],
        times: NDArray[np.float64],
        columns: Mapping[str, NDArray[Any]],
    ) -> None:
        self.fields = tuple(fields)
        self.entities = entities  # also those without events
        self._owner = owner  # ascending indices into `entities`
        self.times = times
        self._columns = columns

    @classmethod
    def sorted(
        cls,
        fields: Sequence[Field],
        entities: Sequence[str],
        owner: Sequence[int] | NDArray[Any],
        times: Sequence[float] | NDArray[np.float64],
        columns: Mapping[str, Sequence[Any] | NDArray[Any]],
    ) -> EventTable:
        """Return a table of events given in any order; events of the same entity and time keep their order.

        Parameters
        ----------
        fields : sequence of Field
            The fields of the events.
        entities : sequence of str
            The names of the entities.
        owner : sequence of int, length (events)
            The index of each event's entity in `entities`.
        times : sequence of float, length (events)
            The times in seconds since 1970; NaN for static properties.
        columns : mapping of str to sequence, each of length (events)
            The stored values of each field, by name.
        """
        by_name = np.argsort(np.array(entities, dtype=object), kind="stable")
        rank = np.empty(len(by_name), np.int64)
        rank[by_name] = np.arange(len(by_name))
        whose, when = rank[np.asarray(owner, np.int64)], np.asarray(times, np.float64)
        order = np.lexsort((np.where(np.isnan(when), -np.inf, when), whose))
        kept = {f.name: np.asarray(columns[f.name], _TYPES[f.kind])[order] for f in fields}
        return cls(fields, tuple(entities[i] for i in by_name), whose[order], when[order], kept)

    @classmethod
    def of_events(cls, fields: Sequence[Field], events: Iterable[Event]) -> EventTable:
        """Return a table of events created by a program, after checking them."""
        table = _Table(fields, "entity", "time")
        for number, event in enumerate(events, 1):
            table.add({**event.values, "entity": event.entity, "time": event.time}, f"event {number}")
        return table.dataset()

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Event]:
        columns = [(field, self._columns[field.name]) for field in self.fields]
        for row, (whose, time) in enumerate(zip(self._owner.tolist(), self.times.tolist(), strict=True)):
            values = {field.name: field.shown(column[row]) for field, column in columns}
            yield Event(self.entities[whose], values, None if math.isnan(time) else time)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._columns:
            raise UserError(f"events have no field “{name}”", hint=nearest(name, self._columns))
        return self._columns[name]

    def field(self, name: str) -> Field:
        """Return a field by its name."""
        self[name]
        return next(field for field in self.fields if field.name == name)

    def of(self, entity: str) -> EventTable:
        """Return the events of one entity, which are all events that its node has."""
        if entity not in self.entities:
            raise UserError(f"there are no events of “{entity}”", hint=nearest(entity, self.entities))
        code = self.entities.index(entity)
        return self._part(code, *np.searchsorted(self._owner, (code, code + 1)))

    def each(self) -> Iterator[EventTable]:
        """Yield the events of each entity."""
        ends = np.searchsorted(self._owner, np.arange(len(self.entities) + 1)).tolist()
        for code in range(len(self.entities)):
            yield self._part(code, ends[code], ends[code + 1])

    def _part(self, code: int, start: int, end: int) -> EventTable:
        columns = {name: column[start:end] for name, column in self._columns.items()}
        owner = np.zeros(end - start, np.int64)
        return EventTable(self.fields, (self.entities[code],), owner, self.times[start:end], columns)

    def between(self, start: float = -math.inf, end: float = math.inf) -> EventTable:
        """Return the events with start ≤ time < end; static properties are always included."""
        return self._taken(~(self.times < start) & ~(self.times >= end))

    def where(self, name: str, value: float | str) -> EventTable:
        """Return the events whose field has a given value."""
        try:
            kept = self.field(name).read(value)
        except ValueError:
            what = f"“{value}” is not a value of “{name}”"
            raise UserError(what, hint=f"expected {self.field(name).expected}") from None
        return self._taken(self[name] == kept)

    def split(self, name: str) -> Iterator[tuple[str, EventTable]]:
        """Yield each value of a field with its events; events without a value are omitted."""
        field, column = self.field(name), self[name]
        for kept in np.unique(column).tolist():
            shown = field.shown(kept)
            if shown is not None:
                yield f"{shown:g}" if isinstance(shown, float) else shown, self._taken(column == kept)

    def _taken(self, rows: NDArray[np.bool_]) -> EventTable:
        columns = {name: column[rows] for name, column in self._columns.items()}
        return EventTable(self.fields, self.entities, self._owner[rows], self.times[rows], columns)

    def frame(self) -> pd.DataFrame:
        """Return the events as a DataFrame with one row per event."""
        import pandas as pd

        rows = [{"entity": event.entity, "time": event.time, **event.values} for event in self]
        return pd.DataFrame(rows, columns=["entity", "time", *(field.name for field in self.fields)])


class _Table:
    """Collect events and check each of them."""

    def __init__(self, fields: Sequence[Field], entity: str, time: str | None) -> None:
        self.fields = tuple(fields)
        names = [*(field.name for field in fields), entity, *([time] if time else [])]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"the name “{twice}” is used twice", hint="entity, time and fields need different names")
        self.entity, self.time = Field(entity, "text"), Field(time, "time", optional=True) if time else None
        self.codes: dict[str, int] = {}
        self.owner: list[int] = []
        self.times: list[float] = []
        self.columns: dict[str, list[Any]] = {field.name: [] for field in fields}

    def add(self, raw: Mapping[str, object], where: str) -> None:
        """Check and add one event."""
        self.owner.append(self.codes.setdefault(_read(self.entity, raw, where), len(self.codes)))
        self.times.append(_read(self.time, raw, where) if self.time else math.nan)
        for field in self.fields:
            self.columns[field.name].append(_read(field, raw, where))

    def dataset(self) -> EventTable:
        """Return a table of all added events."""
        return EventTable.sorted(self.fields, list(self.codes), self.owner, self.times, self.columns)


def _read(field: Field, raw: Mapping[str, object], where: str) -> Any:
    found = raw.get(field.name)
    try:
        return field.read(found)
    except ValueError:
        what = "is missing" if found is None or found == "" else f"is “{_short(found)}”"
        close = closest(str(found), field.categories)
        hint = f"expected {field.expected}: {f'did you mean “{close}”?' if close else MEND}"
        raise UserError(f"{where}: “{field.name}” {what}", hint=hint) from None


def _short(found: object) -> str:
    """Return a raw value as text, shortened to fit into a line."""
    text = str(found).encode(errors="replace").decode()
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


# Raw source → events


@dataclass(frozen=True)
class Importer(ABC):
    """Read one kind of raw source; a source may have more fields than those that are read.

    `entity` and `time` are the names of the fields with the entity and the time of an event.
    """

    fields: tuple[Field, ...]
    entity: str
    time: str | None = None

    def read(self, path: str | Path) -> EventTable:
        """Return all events of a file; an error names its line and field."""
        path = Path(path)
        table = _Table(self.fields, self.entity, self.time)
        with _telling(path):
            for line, raw in self.rows(path):
                table.add(raw, f"{path}, line {line}")
        return table.dataset()

    @abstractmethod
    def rows(self, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Yield the line number and the raw values of each event."""

    @property
    def names(self) -> list[str]:
        """The names of the required fields, entity and time first."""
        return [self.entity, *([self.time] if self.time else []), *(field.name for field in self.fields)]


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text", hint="save it as UTF-8") from None


class CsvImporter(Importer):
    """Read comma-separated values; the first line has the names, and an empty cell is a missing value."""

    def rows(self, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Yield the line number and the cells of each event; skip empty lines."""
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            try:
                header = next(reader, [])
                self._check(path, header)
                for cells in reader:
                    if cells:
                        if len(cells) != len(header):
                            what = f"{path}, line {reader.line_num}: {counted(len(cells), 'cell')}"
                            raise UserError(what, hint=f"expected {len(header)}, as in the first line: {MEND}")
                        yield reader.line_num, dict(zip(header, cells, strict=True))
            except csv.Error as error:
                raise UserError(f"{path}, line {reader.line_num}: not CSV: {error}", hint=MEND) from None

    def _check(self, path: Path, header: list[str]) -> None:
        for name in self.names:
            if header.count(name) != 1:
                what = "occurs more than once" if name in header else "is missing"
                hint = f"expected {', '.join(self.names)}" if name in header else nearest(name, header)
                raise UserError(f"{path}, line 1: the name “{name}” {what}", hint=hint)


class JsonLinesImporter(Importer):
    """Read one JSON object per line; a field that is absent or null is a missing value."""

    def rows(self, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Yield the line number and the members of each event; skip empty lines."""
        with path.open(encoding="utf-8-sig") as stream:
            for line, text in enumerate(stream, 1):
                if text.strip():
                    yield line, self._parsed(text, f"{path}, line {line}")

    def _parsed(self, text: str, where: str) -> Mapping[str, object]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = getattr(error, "msg", "nested too deeply, or a number too long")
            raise UserError(f"{where}: not JSON: {why}", hint=MEND) from None
        if not isinstance(found, dict):
            raise UserError(f"{where}: {_short(text.strip())}", hint='expected an object, e.g. {"student": "s1"}')
        return found


# Events → raw source


def write_csv(events: EventTable, path: str | Path, *, entity: str = "entity", time: str = "time") -> None:
    """Write events as a CSV file from which `CsvImporter` reads the same events."""

    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([entity, time, *(field.name for field in events.fields)])
            writer.writerows(row.values() for row in _raw_rows(events, entity, time))

    write_whole(Path(path), write)


def write_json_lines(events: EventTable, path: str | Path, *, entity: str = "entity", time: str = "time") -> None:
    """Write events as JSON lines from which `JsonLinesImporter` reads the same events."""

    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="\n") as stream:
            for row in _raw_rows(events, entity, time):
                there = {name: value for name, value in row.items() if value is not None}
                stream.write(json.dumps(there, ensure_ascii=False) + "\n")

    write_whole(Path(path), write)


def _raw_rows(events: EventTable, entity: str, time: str) -> Iterator[dict[str, object]]:
    times = {time, *(field.name for field in events.fields if field.kind == "time")}
    for event in events:
        row = {entity: event.entity, time: event.time, **event.values}
        yield {name: _iso(value) if name in times else _plain(value) for name, value in row.items()}


def _plain(value: Value) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < WHOLE else value


def _iso(time: Value) -> object:
    """Return a time of whole seconds in ISO 8601, and any other time as a number, without loss of precision."""
    if isinstance(time, float) and time.is_integer() and 0 <= time < LATEST:
        return datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat()
    return _plain(time)


# Events → examples → feature vectors


@dataclass(frozen=True)
class Example:
    """A training example: the events from which features are computed, and the label."""

    entity: str
    events: EventTable
    label: float


@dataclass(frozen=True)
class Instancer:
    """Define a prediction problem: the examples and their labels.

    `label` receives all events of an entity and returns None if the entity is not an example. Features are computed
    only from events before `until`. By default the owner of the events is the entity; alternatively, `entity` names a
    field (a ride, a pipe), each value of which is an entity.
    """

    label: Callable[[EventTable], float | None]
    until: float = math.inf
    entity: str | None = None

    def examples(self, events: EventTable) -> Iterator[Example]:
        """Yield the examples of all nodes, node by node."""
        for own in events.each():
            parts = own.split(self.entity) if self.entity else [(None, own)]
            for value, part in parts:
                label = self.label(part)
                if label is not None:
                    name = own.entities[0] if value is None else f"{own.entities[0]}/{value}"
                    yield Example(name, part.between(end=self.until), label)


Feature = Callable[[EventTable], float]


@dataclass(frozen=True)
class FeatureMatrix:
    """Feature vectors and labels, one row per example."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    features: tuple[str, ...]
    entities: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return the matrix as a DataFrame indexed by entity; the last column is the label."""
        import pandas as pd

        return pd.DataFrame(self.x, index=list(self.entities), columns=list(self.features)).assign(label=self.y)


@dataclass(frozen=True)
class Featurizer:
    """Named feature functions, each of which computes a number from the events of an example."""

    features: Mapping[str, Feature]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in the order of the columns."""
        return tuple(self.features)

    def vector(self, example: Example) -> list[float]:
        """Return the features of one example, followed by its label."""
        found = [float(feature(example.events)) for feature in self.features.values()]
        found.append(float(example.label))
        if not math.isfinite(sum(found)):
            self._complain(example, found)
        return found

    def _complain(self, example: Example, found: list[float]) -> None:
        for name, value in zip((*self.names, "label"), found, strict=True):
            if not math.isfinite(value):
                what = f"feature “{name}” of “{example.entity}” is {value}"
                raise UserError(what, hint="a feature must return a finite number for all events, also for no events")

    def matrix(self, examples: Iterable[Example]) -> FeatureMatrix:
        """Return the features of all examples."""
        entities, rows = [], []
        for example in examples:
            entities.append(example.entity)
            rows.append(self.vector(example))
        table = np.array(rows, np.float64).reshape(len(rows), len(self.features) + 1)
        return FeatureMatrix(table[:, :-1].copy(), table[:, -1].copy(), self.names, tuple(entities))


@dataclass(frozen=True)
class Pipeline:
    """Importer, instancer and featurizer: everything that a node needs to compute feature vectors from raw events."""

    importer: Importer
    instancer: Instancer
    featurizer: Featurizer

    def run(self, path: str | Path) -> FeatureMatrix:
        """Return the features and labels of a raw file, of one node or of all nodes."""
        return self.matrix(self.importer.read(path))

    def matrix(self, events: EventTable) -> FeatureMatrix:
        """Return the features and labels that all nodes compute, each from its own events."""
        return self.featurizer.matrix(self.instancer.examples(events))

    def of_node(self, events: EventTable, entity: str) -> FeatureMatrix:
        """Return the features and labels that one node computes from its own events."""
        return self.matrix(events.of(entity))
