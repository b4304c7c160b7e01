"""What happens to each property of a configuration, and the tables of the scenario that is being written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from textwrap import shorten
from typing import Literal, NamedTuple

from golfsim.importing import known
from golfsim.importing.known import SCHEDULE, Known
from golfsim.importing.properties import NUMBER, Properties
from golfsim.importing.written import Table
from golfsim.scenario.model import Scenario

Outcome = Literal["translated", "needs no setting", "left out"]
TRANSLATED: Outcome = "translated"
NEEDLESS: Outcome = "needs no setting"
LEFT_OUT: Outcome = "left out"
LONGEST_ORIGIN = 60  # characters of a value that a comment repeats
CLASSES = {"protocol": known.PROTOCOLS, "init": known.INITIALISERS, "control": known.CONTROLS}


class Note(NamedTuple):
    """What happened to a line, if it is left out or means something slightly different now."""

    line: int
    key: str
    what: str
    todo: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.key}: {self.what}" + (f"; {self.todo}" if self.todo else "")


class Outcomes:
    """The state of a translation, and what all of its parts share."""

    def __init__(self, properties: Properties, place: Callable[[str], str | None]) -> None:
        self.p = properties
        self.place = place
        self.stem = re.split(r"[\\/]", properties.file)[-1]
        self.outcome: dict[str, Outcome] = {}
        self.notes: list[Note] = []
        self.names = {kind: self.p.names(kind) for kind in CLASSES}
        self.classes = {name: self.p.text(name).rpartition(".")[2] for names in self.names.values() for name in names}
        self.top, self.nodes, self.data = Table(""), Table("nodes"), Table("data")
        self.observe, self.transport, self.stop = Table("observe"), Table("transport"), Table("stop")
        self.layers: list[Table] = []
        self.churn: list[Table] = []
        self.layer_of: dict[str, str] = {}  # by the name of the protocol
        self.carriers: list[str] = []  # the transports that translated layers use
        self.unit = 1.0  # the length of a cycle in the time of the configuration
        self.cycles = self.size = 1
        self.cycle_driven = True

    def translated(self, key: str) -> None:
        """State that a property is translated."""
        if key in self.p:
            self.outcome[key] = TRANSLATED

    def needless(self, key: str) -> None:
        """State that golfsim needs no setting for a property."""
        if key in self.p:
            self.outcome[key] = NEEDLESS

    def left_out(self, key: str, what: str, todo: str = "") -> None:
        """State that a property is left out, with the reason and what to do instead."""
        self.outcome[key] = LEFT_OUT
        self.note(key, what, todo)

    def note(self, key: str, what: str, todo: str = "") -> None:
        """Add a note about a property, with what to do."""
        entry = self.p.by_key.get(key)
        self.notes.append(Note(entry.line if entry else 0, key, what, todo))

    def origin(self, key: str) -> str:
        """Return the line and the property for a comment."""
        entry = self.p.by_key.get(key)
        if entry is None or not entry.line:
            return key
        return f"line {entry.line}: {key} {shorten(entry.value, LONGEST_ORIGIN, placeholder='…')}".rstrip()

    def number(self, key: str, default: float | None = None) -> float:
        """Return the value of a property that is translated."""
        self.translated(key)
        try:
            return float(self.p.number(key, default))
        except OverflowError:
            self.p.fail(key, f"{NUMBER}; the value is too large")

    def integer(self, key: str, default: int | None = None) -> int:
        """Return the value of a property that is translated, as an integer."""
        self.translated(key)
        return self.p.integer(key, default)

    def text(self, key: str, default: str = "") -> str:
        """Return the text of a property that is translated."""
        self.translated(key)
        return self.p.text(key, default)

    def _below(self, name: str) -> list[str]:
        return [key for key in self.p.by_key if key.startswith(name + ".")]

    def _finish(self, name: str, kind: Known) -> None:
        """State what happens to the keys of a component that are not translated yet."""
        for key in kind.needless:
            self.needless(f"{name}.{key}")
        for key in self._below(name):
            word = key[len(name) + 1 :].partition(".")[0]
            if key not in self.outcome and word not in kind.keys and word not in SCHEDULE:
                rest = key[len(name) + 1 :]
                if "modelNames" in kind.keys and "." in rest:
                    self.left_out(key, f"no model that is translated is called “{word}”")
                else:
                    self.left_out(key, f"{self.classes[name]} has no key “{rest}”, so PeerSim ignores it")

    def _window(self, name: str) -> tuple[int, int | None, int]:
        """Return the first and the last cycle of a component, numbered from 1, and the cycles between its turns."""
        if f"{name}.at" in self.p:
            at = math.floor(self.number(f"{name}.at") / self.unit) + 1
            return at, at, 1
        step = max(1, round(self.number(f"{name}.step", self.unit) / self.unit))
        first = math.floor(self.number(f"{name}.from", 0) / self.unit) + 1
        until = f"{name}.until"
        last = math.ceil(self.number(until) / self.unit) if until in self.p else None
        return max(first, 1), last, step

    def _layer(self, name: str, use: str, wanted: str = "") -> Table:
        """Begin a layer with the name of a protocol, changed where golfsim does not allow it."""
        word = re.sub(r"[^\w-]", "_", wanted or name.partition(".")[2], flags=re.ASCII) or "layer"
        if not re.match(r"[A-Za-z_]", word):
            word = f"layer_{word}"
        taken = {table.settings["name"] for table in self.layers} | {*Scenario.model_fields, "raw", "world"}
        while word in taken:
            word += "_layer" if word in Scenario.model_fields else "_"
        table = Table("[protocol]")
        table.put("name", word, self.origin(name))
        table.put("use", use)
        self.layers.append(table)
        self.layer_of.setdefault(name.partition(".")[2], word)
        self.translated(name)
        return table
