"""Read measured sessions of nodes from files in the formats in which people have them.

All readers return intervals in which a node is online, in the time of the file, and the length of the trace of each
node. Files are read as text. A pickle is refused, because it can run any program when it is read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.errors import UserError
from golfsim.core.paths import unreadable
from golfsim.core.settings import Settings

TraceFormat = Literal["golfsim", "peersim", "fedscale", "csv"]
COLUMNS = ("node", "from", "until")
MILLISECONDS = 1000.0
HEAD = 65536  # bytes that decide about the format
PICKLE = (b"\x80", b"(dp", b"}q", b"cc")
CONVERT = (
    "convert it once, where you trust it: json.dump(pickle.load(open('trace.pkl', 'rb')), open('trace.json', 'w'))"
)


class ColumnsConfig(Settings):
    """The names of the columns of a CSV file of sessions."""

    node: str = Field("node", description="the column with the name of the node")
    begin: str = Field("from", alias="from", description="the column with the beginning of a session")
    until: str | None = Field(None, description="the column with the end of a session")
    length: str | None = Field(None, description="the column with the length of a session, in place of `until`")

    @model_validator(mode="after")
    def _one_end(self) -> ColumnsConfig:
        if (self.until is None) == (self.length is None):
            raise ValueError("expected either “until” or “length”")
        return self


class Intervals(NamedTuple):
    """The sessions of a trace."""

    node: NDArray[Any]  # the name of the node of each session
    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    length: Mapping[Any, float]  # of the trace of a node; of all others it ends with the last session of the file
    seconds: bool = False  # whether times are seconds from 0 on; otherwise the setting says what they are
    repeats: bool = False  # whether a trace begins again after its end


def read_sessions(path: Path, form: TraceFormat | None = None, columns: ColumnsConfig | None = None) -> Intervals:
    """Return the sessions in a trace file; without a format its content decides."""
    if why := unreadable(path):
        raise UserError(f"{path}: {why}", key="file")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
        form = form or ("csv" if columns else _form_of(head))
        if head.startswith(PICKLE) or path.suffix in (".pkl", ".pickle"):
            raise UserError(f"{path}: a pickle can run any program when it is read", key="file", hint=CONVERT)
        found = _READERS[form](path, columns)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", key="file") from None
    except (ValueError, csv.Error, RecursionError) as error:  # also a name that no file can have
        raise UserError(f"{path}: not a {_NAMES[form or 'golfsim']} file: {error}", key="file") from None
    if not found.node.size:
        raise UserError(f"{path}: contains no interval", key="file")
    return found


def _form_of(head: bytes) -> TraceFormat:
    """Return the format of a file that begins like this."""
    start = head.lstrip()
    if start.startswith(b"{"):
        return "fedscale"
    words = start.split(b"\n", 1)[0].split()
    session = len(words) > 3 and words[1] in (b"0", b"1") and words[2].isdigit() and b"," not in words[0]
    return "peersim" if session else "golfsim"


def _golfsim(path: Path, columns: ColumnsConfig | None) -> Intervals:
    """Read our own format: CSV with the columns node, from, until."""
    with path.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines, skipinitialspace=True)
        if not set(COLUMNS) <= set(reader.fieldnames or ()):
            what = f"{path}: expected the columns node, from, until in the first line"
            hint = 'name the columns of another file: format = "csv", columns = { node = "…", from = "…", until = "…" }'
            raise UserError(what, key="file", hint=hint)
        return _of_rows(_rows(path, reader, ColumnsConfig(until="until")))


def _csv(path: Path, columns: ColumnsConfig | None) -> Intervals:
    """Read any CSV file whose columns are named; times are numbers, or dates as in ISO 8601."""
    columns = columns or ColumnsConfig(until="until")
    with path.open(newline="", encoding="utf-8-sig") as lines:
        first = lines.readline()
        delimiter = max(",;\t|", key=first.count)
        reader = _again(lines, delimiter)
        wanted = [columns.node, columns.begin, columns.until or columns.length]
        missing = [name for name in wanted if name not in (reader.fieldnames or ())]
        if missing:
            what = f"{path}: there is no column “{missing[0]}”"
            raise UserError(what, key="columns", hint=f"the file has {', '.join(map(str, reader.fieldnames or ()))}")
        first_row = next(reader, None)
        if first_row is None or _is_number(first_row[columns.begin]):
            return _of_rows(_rows(path, _again(lines, delimiter), columns))
        found = _of_rows(_rows(path, _again(lines, delimiter), columns, _seconds))
        start = found.begin.min()
        return found._replace(begin=found.begin - start, end=found.end - start, seconds=True)


def _again(lines: TextIO, delimiter: str) -> csv.DictReader[str]:
    """Return a reader of a CSV file from its beginning."""
    lines.seek(0)
    return csv.DictReader(lines, skipinitialspace=True, delimiter=delimiter)


def _rows(
    path: Path, reader: csv.DictReader[str], columns: ColumnsConfig, read: Callable[[str], float] = float
) -> Iterator[tuple[str, float, float]]:
    for row in reader:
        place = f"{path}:{reader.line_num}"
        end = columns.until or columns.length or ""
        try:
            begin = read(row[columns.begin])
            until = read(row[end]) if columns.until else begin + float(row[end])
        except (TypeError, ValueError):
            kind = "numbers" if read is float else "dates"
            what = f"{place}: expected {kind} in the columns {columns.begin} and {end}"
            raise UserError(what, key="file") from None
        if not (np.isfinite(begin) and np.isfinite(until) and begin <= until):
            _refuse(f"{place}: expected {columns.begin} ≤ {end}; got {begin} and {until}")
        yield row[columns.node].strip(), begin, until


def _seconds(text: str) -> float:
    """Return the seconds from 1970 to a date; without a time zone it is in UTC."""
    date = datetime.fromisoformat(text.strip())
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _is_number(text: str | None) -> bool:
    try:
        float(text or "")
    except ValueError:
        return False
    return True


def _of_rows(rows: Iterator[tuple[str, float, float]]) -> Intervals:
    nodes, bounds = [], []
    for node, begin, end in rows:
        nodes.append(node)
        bounds.append((begin, end))
    edges = np.array(bounds, np.float64).reshape(-1, 2)
    return Intervals(natural(nodes), edges[:, 0], edges[:, 1], {})


def _peersim(path: Path, columns: ColumnsConfig | None) -> Intervals:
    """Read the session files of GoLF: per line a user, whether it is online first, a date, a time zone, and lengths.

    Online and offline sessions alternate; their lengths are in milliseconds. Each line is a trace of its own, also if
    several lines are of the same user. Date and time zone are not used, as in GoLF's TraceChurn.
    """
    nodes, begin, end, length = [], [], [], {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words:
                continue
            if len(words) < 4 or words[1] not in ("0", "1"):
                _refuse(f"{path}:{number}: expected a name, 0 or 1, a date, a time zone, and lengths of sessions")
            try:
                lengths = np.array(words[4:], np.int64)
            except (ValueError, OverflowError):
                _refuse(f"{path}:{number}: expected lengths of sessions as integers (milliseconds)")
            if (lengths < 0).any():
                _refuse(f"{path}:{number}: expected lengths of sessions of at least 0")
            edges = np.concatenate([[0], np.cumsum(lengths)]) / MILLISECONDS
            first = 0 if words[1] == "1" else 1
            start, stop = edges[first:-1:2], edges[first + 1 :: 2]
            if not start.size:
                start, stop = edges[:1], edges[:1]  # a node that is never online
            nodes += [number] * start.size
            begin.append(start)
            end.append(stop)
            length[number] = float(edges[-1])
    return Intervals(np.array(nodes), _joined(begin), _joined(end), length, seconds=True)


def _fedscale(path: Path, columns: ColumnsConfig | None) -> Intervals:
    """Read the availability of clients as in FedScale, as JSON: active and inactive times in seconds, per client.

    FedScale repeats the trace of a client after its `finish_time`.
    """
    with path.open(encoding="utf-8") as file:
        clients = json.load(file)
    if not isinstance(clients, dict):
        _refuse(f"{path}: expected a table of clients")
    names, begin, end, length = natural([str(name) for name in clients]), [], [], {}
    nodes: list[Any] = []
    for name, (key, client) in zip(names.tolist(), clients.items(), strict=True):
        try:
            active = np.array(client["active"], np.float64).reshape(-1)
            inactive = np.array(client["inactive"], np.float64).reshape(-1)
            length[name] = float(client["finish_time"])
        except (KeyError, TypeError, ValueError):
            _refuse(f"{path}: client {key}: expected lists “active” and “inactive” and a number “finish_time”")
        inactive = np.append(inactive, length[name])[: active.size]  # still active at the end
        good = inactive.size == active.size and np.isfinite(length[name]) and bool(np.isfinite(active).all())
        if not (good and bool((active <= inactive).all())):
            _refuse(f"{path}: client {key}: expected an inactive time after each active time")
        if not active.size:
            active = inactive = np.zeros(1)
        nodes += [name] * active.size
        begin.append(active)
        end.append(inactive)
    return Intervals(np.array(nodes), _joined(begin), _joined(end), length, seconds=True, repeats=True)


def _joined(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.empty(0)


def _refuse(what: str) -> NoReturn:
    raise UserError(what, key="file")


def natural(nodes: list[str]) -> NDArray[Any]:
    """Return the names of nodes as numbers if all are numbers, so that 10 comes after 9."""
    try:
        return np.array([int(node) for node in nodes])
    except (ValueError, OverflowError):
        return np.array(nodes)


_READERS: dict[str, Callable[[Path, ColumnsConfig | None], Intervals]] = {
    "golfsim": _golfsim, "peersim": _peersim, "fedscale": _fedscale, "csv": _csv,
}  # fmt: skip
_NAMES = {"golfsim": "CSV", "peersim": "session", "fedscale": "JSON", "csv": "CSV"}
