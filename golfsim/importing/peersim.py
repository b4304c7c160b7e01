"""Translate a configuration of PeerSim, or of its gossip-learning framework GoLF, into a scenario.

Every property of the file ends in one of three ways: it is translated, golfsim needs no setting for it, or it is left
out, with the reason and what to do instead. `known` has the classes and keys, with the sources in which they were read.
Settings that some versions of golfsim do not have are written only where the classes of the layers have them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from golfsim.importing import known
from golfsim.importing.failures import Failures
from golfsim.importing.inputs import Inputs
from golfsim.importing.learning import Learning
from golfsim.importing.outcomes import CLASSES, LEFT_OUT, NEEDLESS, TRANSLATED, Note, Outcome
from golfsim.importing.properties import ConfigError, Properties
from golfsim.importing.written import document


@dataclass(frozen=True)
class Translation:
    """A scenario as the text of its file, the notes about lines, and the number of lines by outcome."""

    text: str
    notes: list[Note]
    counts: dict[Outcome, int]

    def summary(self) -> str:
        """Return the number of lines by outcome in one line."""
        return ", ".join(f"{self.counts[outcome]} {outcome}" for outcome in (TRANSLATED, NEEDLESS, LEFT_OUT))


def translate(
    text: str,
    file: str = "the configuration",
    define: Mapping[str, str] | None = None,
    place: Callable[[str], str | None] = lambda name: name,
) -> Translation:
    """Return the scenario of a configuration.

    Parameters
    ----------
    text : str
        The content of the configuration file.
    file : str
        Its name, for messages.
    define : Mapping of str to str
        The values of placeholders such as ${NAME}, and properties that replace those of the file.
    place : function
        Returns the path of a data file as the scenario has to write it; None if there is no such file.
    """
    return _Translator(Properties(text, file, define), place).translation()


class _Translator(Learning, Failures, Inputs):
    """All parts together."""

    def translation(self) -> Translation:
        self._time()
        self._network()
        self._needless_keys()
        for name in self._in_order():
            self._protocol(name)
        self._transport()
        for name in self.names["init"]:
            self._initialiser(name)
        for name in self.names["control"]:
            self._control(name)
        self._values()
        if "file" not in self.data.settings and any(table.settings["use"] == "golf" for table in self.layers):
            self.data.put("file", "records.csv", "no initialiser that is known loads records")
            self.note("init", "no initialiser that is known loads records", "put the name of a file in [data]")
        self._rest()
        tables = [self.top, self.data, self.nodes, *self.layers, *self.churn, self.transport, self.observe, self.stop]
        notes = sorted(self.notes, key=lambda note: (note.line, note.key))
        counts: dict[Outcome, int] = dict.fromkeys((TRANSLATED, NEEDLESS, LEFT_OUT), 0)
        for entry in self.p.entries:
            counts[self.outcome[entry.key] if self.p.by_key[entry.key] is entry else LEFT_OUT] += 1
        done = Translation("", notes, counts)
        head = [
            f"Translated from {self.stem} by golfsim import peersim. Lines with a property: {done.summary()}.",
            *(["What is left out, and what means something slightly different:"] if notes else []),
            *map(str, notes),
        ]
        return Translation(document(head, tables), notes, counts)

    def _time(self) -> None:
        """Find the length of a cycle, and the number of cycles."""
        self.cycle_driven = "simulation.cycles" in self.p
        self.unit = 1.0
        if self.cycle_driven:
            end, origin = "simulation.cycles", self.origin("simulation.cycles")
        elif "simulation.endtime" in self.p:
            end = "simulation.endtime"
            self.unit, origin = self._unit()
        else:
            line = self.p.entries[-1].line if self.p.entries else 1
            what = "neither simulation.cycles nor simulation.endtime is set"
            raise ConfigError(
                f"{self.p.file}:{line}: {what}", hint="expected one of them: the length of the simulation"
            )
        cycles = math.ceil(self.number(end) / self.unit)
        if not 1 <= cycles < 2**31:
            self.p.fail(end, f"expected 1 to {2**31 - 1} cycles; got {cycles}")
        self.cycles = cycles
        self.top.put("name", f"From {self.stem}")
        self.top.put("seed", self._seed(), self.origin("random.seed"))
        self.top.put("cycles", cycles, origin)
        if "simulation.experiments" in self.p:
            key = "simulation.experiments"
            self.top.put("runs", self.integer(key), self.origin(key))
            self.note(key, "run r has the seed of the first run plus r − 1, not the next number of a generator")

    def _unit(self) -> tuple[float, str]:
        """Return the length of a cycle in an event-driven configuration: the period of the uppermost protocol."""
        protocols = self.names["protocol"][::-1]
        learners = [f"{name}.delayMean" for name in protocols if self.classes[name] in known.LEARNING]
        steps = [f"{name}.step" for name in protocols]
        views = [f"{name}.baseFreq" for name in protocols]
        for key in (*learners, *steps, "simulation.logtime", *views):
            if key in self.p:
                unit = self.number(key)
                if unit <= 0:
                    self.p.fail(key, f"expected a period above 0; got {unit:g}")
                end = "simulation.endtime"
                self.note(end, f"times are counted in cycles of {unit:g}, the value of {key}")
                return unit, f"{self.origin(end)}, in cycles of {key}"
        hint = "expected delayMean or step of a protocol, or simulation.logtime: the length of a cycle"
        self.p.fail("simulation.endtime", "the length of a cycle is not known", hint)

    def _seed(self) -> int:
        if "random.seed" not in self.p:
            self.note("random.seed", "missing: PeerSim takes the time, golfsim needs a seed; it is 1 now")
            return 1
        seed = self.integer("random.seed")
        if not 0 <= seed < 2**53:
            self.note("random.seed", f"{seed} is no seed of golfsim; it is {seed % 2**53} now")
        return seed % 2**53

    def _network(self) -> None:
        key = "overlay.size" if "network.size" not in self.p and "overlay.size" in self.p else "network.size"
        self.size = self.integer(key)
        if not 1 <= self.size < 2**31:
            self.p.fail(key, f"expected 1 to {2**31 - 1} nodes; got {self.size}")
        self.nodes.put("number", self.size, self.origin(key))

    def _needless_keys(self) -> None:
        for key in known.GLOBALS:
            self.needless(key)
        for how in ("include", "order"):
            for kind in CLASSES:
                if f"{how}.{kind}" in self.p:
                    self.translated(f"{how}.{kind}")

    def _in_order(self) -> list[str]:
        """Return the protocols, overlays first: a layer of golfsim names layers before it."""
        return sorted(self.names["protocol"], key=lambda name: self.classes[name] not in known.OVERLAYS)

    def _protocol(self, name: str) -> None:
        kind = self.classes[name]
        if kind in known.OVERLAYS:
            self._overlay(name, kind)
        elif kind in known.AVERAGES:
            self._averages(name, kind)
        elif kind in known.LEARNING:
            self._learning(name, kind)
        elif kind in known.EXTRACTORS:
            self._extractor(name)

    def _control(self, name: str) -> None:
        kind = self.classes[name]
        if kind in known.ORDERS:
            self._shuffle(name)
        elif kind in known.CHURN:
            getattr(self, f"_{kind.lower()}")(name)
        elif kind in known.OBSERVERS:
            self._observer(name, kind)
        if kind in known.CONTROLS:
            self._finish(name, known.CONTROLS[kind])

    def _shuffle(self, name: str) -> None:
        self.translated(name)
        first, last, every = self._window(name)
        if (first, last, every) != (1, None, 1):
            self.note(name, "the order changes in every cycle in golfsim")
        self.top.put("order", "shuffled", self.origin(name))

    def _rest(self) -> None:
        """Decide about every property that nothing has decided about."""
        for kind, classes in CLASSES.items():
            for name in self.names[kind]:
                if self.classes[name] not in classes:
                    self._unknown(kind, name)
        self._constants()
        for entry in self.p.entries:
            if self.p.by_key[entry.key] is not entry:
                later = self.p.by_key[entry.key].line
                what = f"line {later} defines it again" if later else "it was given with the command"
                self.notes.append(Note(entry.line, entry.key, what))
            elif entry.key not in self.outcome:
                self._undecided(entry.key)

    def _constants(self) -> None:
        """Decide about the properties without a component by the properties that use them."""
        words = {key: set(re.findall(r"[A-Za-z_]\w*", entry.value)) for key, entry in self.p.by_key.items()}
        for key in self.p.by_key:
            if "." in key or key in self.outcome:
                continue
            if key in self.p.asked:
                self.translated(key)
            elif any(key in words[other] for other, found in self.outcome.items() if found == NEEDLESS):
                self.needless(key)
            else:
                self.left_out(key, "nothing that is translated uses it")

    def _unknown(self, kind: str, name: str) -> None:
        todo = {
            "protocol": "write a protocol of yours (golfsim new protocol; golfsim help protocols)",
            "init": "what a layer starts with is `start` of its protocol (golfsim help protocols)",
            "control": "what is measured is `observe` of a protocol (golfsim help protocols)",
        }[kind]
        self.left_out(name, f"the class {self.p.text(name)} is not known", todo)
        for key in self._below(name):
            self.outcome.setdefault(key, LEFT_OUT)

    def _undecided(self, key: str) -> None:
        parts = key.split(".")
        component = ".".join(parts[:2])
        if parts[0] in CLASSES and component in self.p and component not in self.names[parts[0]]:
            self.outcome[key] = NEEDLESS
            if key == component:
                self.note(key, f"include.{parts[0]} leaves it out in PeerSim, too")
        elif self.outcome.get(component) == LEFT_OUT:
            self.outcome[key] = LEFT_OUT
        elif parts[0] == "range":
            todo = 'write [sweep] "layer.key" = [values] for what the variable is used for'
            self.left_out(key, "golfsim sweeps settings, not variables", todo)
        elif parts[0] == "control_communication":
            self.outcome[key] = NEEDLESS
        elif parts[0] in CLASSES and component in self.classes:
            self.left_out(key, "golfsim has no such setting")
        else:
            self.left_out(key, "golfsim and PeerSim have no such key, as far as is known")
