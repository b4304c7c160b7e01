"""From raw events to feature vectors, on each node by itself (Cyphers 2017, chapter 3).

A raw file → `Importer` → `EventTable` of events → `Instancer` → labelled examples → `Featurizer` → `FeatureMatrix`.
Whoever asks sends the instancer and the featurizer; the events stay with their node::

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

if TYPE_CHECKING:
    import pandas as pd

Value = float | str | None
"""What a field of an event holds; None: nothing."""

MEND = "mend it, or leave the event out"
LONGEST = 40  # letters of a raw value that are shown
WHOLE = 2.0**53  # whole numbers below are exact
LATEST = 253402300800.0  # the year 10000, which ISO 8601 has no room for


# Fields and events


@dataclass(frozen=True)
class Field:
    """A typed value that events have; an `optional` one may be missing.

    Times are seconds since 1970 and are read from ISO 8601, without a time zone as UTC. A category is kept as its place
    in `categories`.
    """

    name: str
    kind: Literal["number", "text", "time", "category"]
    categories: tuple[str, ...] = ()
    optional: bool = False

    def __post_init__(self) -> None:
        if (self.kind == "category") != bool(self.categories):
            raise UserError(f"field “{self.name}” is a {self.kind}", hint="a category, and it alone, has categories")

    def read(self, raw: object) -> Any:
        """What is kept for a raw value; ValueError if it is not what is `expected`."""
        if raw is not None and raw != "":
            return _READ[self.kind](self, raw)
        if not self.optional:
            raise ValueError(self.expected)
        return _MISSING[self.kind]

    def shown(self, kept: Any) -> Value:
        """A kept value as an event shows it."""
        if self.kind == "category":
            return self.categories[kept] if kept >= 0 else None
        if self.kind == "text":
            return str(kept) or None
        return None if math.isnan(kept) else float(kept)

    @property
    def expected(self) -> str:
        """What a raw value has to be."""
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
    return value + 0.0  # −0 becomes 0: the two look alike in a file


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
    str(raw).encode()  # half a surrogate pair, which JSON can spell, could never be written again
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
    """A unit of measured data: whose it is, its fields, and a time stamp unless it is a static property."""

    entity: str
    values: Mapping[str, Value]
    time: float | None = None


class EventTable:
    """Events of one entity or of many, by entity and then by time; static properties come first.

    `times` (NaN: no time stamp) and `events[name]` are arrays with a value for each event.
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
        self.entities = entities  # also those of which no event is left
        self._owner = owner  # ascending indexes into `entities`
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
        """Events in any order, event i belonging to `entities[owner[i]]`; at the same time they keep their order."""
        by_name = np.argsort(np.array(entities, dtype=object), kind="stable")
        rank = np.empty(len(by_name), np.int64)
        rank[by_name] = np.arange(len(by_name))
        whose, when = rank[np.asarray(owner, np.int64)], np.asarray(times, np.float64)
        order = np.lexsort((np.where(np.isnan(when), -np.inf, when), whose))
        kept = {f.name: np.asarray(columns[f.name], _TYPES[f.kind])[order] for f in fields}
        return cls(fields, tuple(entities[i] for i in by_name), whose[order], when[order], kept)

    @classmethod
    def of_events(cls, fields: Sequence[Field], events: Iterable[Event]) -> EventTable:
        """Events made by a program, checked."""
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
        """The field of that name."""
        self[name]
        return next(field for field in self.fields if field.name == name)

    def of(self, entity: str) -> EventTable:
        """The events of one entity: all that its node knows."""
        if entity not in self.entities:
            raise UserError(f"there are no events of “{entity}”", hint=nearest(entity, self.entities))
        code = self.entities.index(entity)
        return self._part(code, *np.searchsorted(self._owner, (code, code + 1)))

    def each(self) -> Iterator[EventTable]:
        """The events of each entity."""
        ends = np.searchsorted(self._owner, np.arange(len(self.entities) + 1)).tolist()
        for code in range(len(self.entities)):
            yield self._part(code, ends[code], ends[code + 1])

    def _part(self, code: int, start: int, end: int) -> EventTable:
        columns = {name: column[start:end] for name, column in self._columns.items()}
        owner = np.zeros(end - start, np.int64)
        return EventTable(self.fields, (self.entities[code],), owner, self.times[start:end], columns)

    def between(self, start: float = -math.inf, end: float = math.inf) -> EventTable:
        """The events from `start` until before `end`; static properties hold at all times."""
        return self._taken(~(self.times < start) & ~(self.times >= end))

    def where(self, name: str, value: float | str) -> EventTable:
        """The events whose field has that value."""
        try:
            kept = self.field(name).read(value)
        except ValueError:
            raise UserError(f"“{name}” is never “{value}”", hint=f"expected {self.field(name).expected}") from None
        return self._taken(self[name] == kept)

    def split(self, name: str) -> Iterator[tuple[str, EventTable]]:
        """The events for each value of a field; those without a value belong to none."""
        field, column = self.field(name), self[name]
        for kept in np.unique(column).tolist():
            shown = field.shown(kept)
            if shown is not None:
                yield f"{shown:g}" if isinstance(shown, float) else shown, self._taken(column == kept)

    def _taken(self, rows: NDArray[np.bool_]) -> EventTable:
        columns = {name: column[rows] for name, column in self._columns.items()}
        return EventTable(self.fields, self.entities, self._owner[rows], self.times[rows], columns)

    def frame(self) -> pd.DataFrame:
        """The events as a table, one row each."""
        import pandas as pd

        rows = [{"entity": event.entity, "time": event.time, **event.values} for event in self]
        return pd.DataFrame(rows, columns=["entity", "time", *(field.name for field in self.fields)])


class _Table:
    """Events as they come in, checked one after the other."""

    def __init__(self, fields: Sequence[Field], entity: str, time: str | None) -> None:
        self.fields = tuple(fields)
        names = [*(field.name for field in fields), entity, *([time] if time else [])]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"“{twice}” stands for two things", hint="entity, time and fields need names of their own")
        self.entity, self.time = Field(entity, "text"), Field(time, "time", optional=True) if time else None
        self.codes: dict[str, int] = {}
        self.owner: list[int] = []
        self.times: list[float] = []
        self.columns: dict[str, list[Any]] = {field.name: [] for field in fields}

    def add(self, raw: Mapping[str, object], where: str) -> None:
        """Take one event."""
        self.owner.append(self.codes.setdefault(_read(self.entity, raw, where), len(self.codes)))
        self.times.append(_read(self.time, raw, where) if self.time else math.nan)
        for field in self.fields:
            self.columns[field.name].append(_read(field, raw, where))

    def dataset(self) -> EventTable:
        """All events that were taken."""
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
    """A raw value as far as it can be shown in a line."""
    text = str(found).encode(errors="replace").decode()
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


# Raw source → events


@dataclass(frozen=True)
class Importer(ABC):
    """Reads one kind of raw source; a source may hold more fields than are wanted.

    `entity` and `time` name the fields that say whose an event is and when it was.
    """

    fields: tuple[Field, ...]
    entity: str
    time: str | None = None

    def read(self, path: str | Path) -> EventTable:
        """All events of a file; whatever is wrong is told with its line and field."""
        path = Path(path)
        table = _Table(self.fields, self.entity, self.time)
        with _telling(path):
            for line, raw in self.rows(path):
                table.add(raw, f"{path}, line {line}")
        return table.dataset()

    @abstractmethod
    def rows(self, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Line number and raw values of each event."""

    @property
    def names(self) -> list[str]:
        """The names that the source has to have, entity and time first."""
        return [self.entity, *([self.time] if self.time else []), *(field.name for field in self.fields)]


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not text in UTF-8", hint="save it as UTF-8") from None


class CsvImporter(Importer):
    """Comma-separated values under a line of names; an empty cell holds nothing."""

    def rows(self, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Line number and cells of each event, empty lines left out."""
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            try:
                header = next(reader, [])
                self._check(path, header)
                for cells in reader:
                    if cells:
                        if len(cells) != len(header):
                            what = f"{path}, line {reader.line_num}: {len(cells)} cells"
                            raise UserError(what, hint=f"expected {len(header)}, as the first line has: {MEND}")
                        yield reader.line_num, dict(zip(header, cells, strict=True))
            except csv.Error as error:
                raise UserError(f"{path}, line {reader.line_num}: not CSV: {error}", hint=MEND) from None

    def _check(self, path: Path, header: list[str]) -> None:
        for name in self.names:
            if header.count(name) != 1:
                what = "twice" if name in header else "not"
                hint = f"expected {', '.join(self.names)}" if name in header else nearest(name, header)
                raise UserError(f"{path}, line 1: “{name}” is {what} among the names", hint=hint)


class JsonLinesImporter(Importer):
    """One JSON object a line; a field that is absent or null holds nothing."""

    def rows(self, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Line number and members of each event, empty lines left out."""
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
    """Write events so that `CsvImporter` reads the same ones."""

    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([entity, time, *(field.name for field in events.fields)])
            writer.writerows(row.values() for row in _raw_rows(events, entity, time))

    write_whole(Path(path), write)


def write_json_lines(events: EventTable, path: str | Path, *, entity: str = "entity", time: str = "time") -> None:
    """Write events so that `JsonLinesImporter` reads the same ones."""

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
    """A whole second in ISO 8601; other times as the number they are, which loses nothing."""
    if isinstance(time, float) and time.is_integer() and 0 <= time < LATEST:
        return datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat()
    return _plain(time)


# Events → examples → feature vectors


@dataclass(frozen=True)
class Example:
    """A training example: the events from which features may be computed, and the label."""

    entity: str
    events: EventTable
    label: float


@dataclass(frozen=True)
class Instancer:
    """Defines a prediction problem: what an example is, and its label.

    `label` sees all events of an entity and answers None where there is no example. Features see the events before
    `until` alone. By default the one whose events they are is the entity; or else `entity` names a field (a ride, a
    pipe) whose values are.
    """

    label: Callable[[EventTable], float | None]
    until: float = math.inf
    entity: str | None = None

    def examples(self, events: EventTable) -> Iterator[Example]:
        """The examples of one node after the other."""
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
    """Feature vectors and labels, a row for each example."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    features: tuple[str, ...]
    entities: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """The matrix as a table by entity, the label last."""
        import pandas as pd

        return pd.DataFrame(self.x, index=list(self.entities), columns=list(self.features)).assign(label=self.y)


@dataclass(frozen=True)
class Featurizer:
    """Named feature functions, each from an example's events to a number."""

    features: Mapping[str, Feature]

    @property
    def names(self) -> tuple[str, ...]:
        """The features in the order of the columns."""
        return tuple(self.features)

    def vector(self, example: Example) -> list[float]:
        """The features of one example, then its label."""
        found = [float(feature(example.events)) for feature in self.features.values()]
        found.append(float(example.label))
        if not math.isfinite(sum(found)):
            self._complain(example, found)
        return found

    def _complain(self, example: Example, found: list[float]) -> None:
        for name, value in zip((*self.names, "label"), found, strict=True):
            if not math.isfinite(value):
                what = f"feature “{name}” of “{example.entity}” is {value}"
                raise UserError(what, hint="a feature needs a finite number for any events, also for none")

    def matrix(self, examples: Iterable[Example]) -> FeatureMatrix:
        """The features of all examples."""
        entities, rows = [], []
        for example in examples:
            entities.append(example.entity)
            rows.append(self.vector(example))
        table = np.array(rows, np.float64).reshape(len(rows), len(self.features) + 1)
        return FeatureMatrix(table[:, :-1].copy(), table[:, -1].copy(), self.names, tuple(entities))


@dataclass(frozen=True)
class Pipeline:
    """Importer, instancer and featurizer: what a node needs to turn its raw events into feature vectors."""

    importer: Importer
    instancer: Instancer
    featurizer: Featurizer

    def run(self, path: str | Path) -> FeatureMatrix:
        """From a raw file, a node's own or everybody's."""
        return self.matrix(self.importer.read(path))

    def matrix(self, events: EventTable) -> FeatureMatrix:
        """What all nodes compute, each from its own events."""
        return self.featurizer.matrix(self.instancer.examples(events))

    def of_node(self, events: EventTable, entity: str) -> FeatureMatrix:
        """What one node computes, which has no events but its own."""
        return self.matrix(events.of(entity))
