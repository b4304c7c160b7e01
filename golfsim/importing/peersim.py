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
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from golfsim.data.config import DataConfig
from golfsim.importing import known
from golfsim.importing.known import SCHEDULE, Known
from golfsim.importing.properties import NUMBER, ConfigError, Properties
from golfsim.importing.written import Table, document
from golfsim.learning.loading import installed
from golfsim.network.churn import TraceConfig
from golfsim.protocol.loading import find
from golfsim.scenario.model import Scenario

Outcome = Literal["translated", "needs no setting", "left out"]
TRANSLATED: Outcome = "translated"
NEEDLESS: Outcome = "needs no setting"
LEFT_OUT: Outcome = "left out"
LONGEST_ORIGIN = 60  # characters of a value that a comment repeats
MOST_CHANGES = 100_000  # of the size of the network, by one control
MOST_NEIGHBOURS = 10_000  # of a ring
MOST_CRASHES = 100  # tables of churn for one control
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


class _Translator:
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
        self.voting = False

    # What happens to a property

    def translated(self, key: str) -> None:
        if key in self.p:
            self.outcome[key] = TRANSLATED

    def needless(self, key: str) -> None:
        if key in self.p:
            self.outcome[key] = NEEDLESS

    def left_out(self, key: str, what: str, todo: str = "") -> None:
        self.outcome[key] = LEFT_OUT
        self.note(key, what, todo)

    def note(self, key: str, what: str, todo: str = "") -> None:
        entry = self.p.by_key.get(key)
        self.notes.append(Note(entry.line if entry else 0, key, what, todo))

    def origin(self, key: str) -> str:
        entry = self.p.by_key.get(key)
        if entry is None or not entry.line:
            return key
        return f"line {entry.line}: {key} {shorten(entry.value, LONGEST_ORIGIN, placeholder='…')}".rstrip()

    def number(self, key: str, default: float | None = None) -> float:
        self.translated(key)
        try:
            return float(self.p.number(key, default))
        except OverflowError:
            self.p.fail(key, f"{NUMBER}; the value is too large")

    def integer(self, key: str, default: int | None = None) -> int:
        self.translated(key)
        return self.p.integer(key, default)

    def text(self, key: str, default: str = "") -> str:
        self.translated(key)
        return self.p.text(key, default)

    # The parts of the scenario

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

    # Protocols

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

    def _below(self, name: str) -> list[str]:
        return [key for key in self.p.by_key if key.startswith(name + ".")]

    def _schedule(self, name: str, table: Table) -> None:
        """Translate step, from and until of a protocol."""
        first, last, every = self._window(name)
        if every > 1:
            table.put("every", every, self.origin(f"{name}.step"))
        if first > 1:
            table.put("first", first, self.origin(f"{name}.from"))
        if last is not None and last < self.cycles:
            table.put("until", max(last, first), self.origin(f"{name}.until"))
        self.needless(f"{name}.FINAL")

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

    def _overlay(self, name: str, kind: str) -> None:
        if kind == "IdleProtocol":
            self._static(name)
            return
        table = self._layer(name, "newscast")
        table.put("view", self.integer(f"{name}.cache"), self.origin(f"{name}.cache"))
        if kind != "SimpleNewscast":
            table.put("liveness", "none", "a message to an offline node is lost, as in EdNewscast")
        period = f"{name}.baseFreq"
        if period in self.p:
            self._turns(table, period, self.unit / max(self.number(period), 1e-9))
        else:
            self._schedule(name, table)
        if kind == "ChurnableNewscast" and any(one in known.CHURN for one in self.classes.values()):
            now = "keeps its view"
            size = table.settings["view"]
            if _has("newscast", "on_return_state", "afresh"):
                table.put(
                    "on_return_state", "afresh", "the view of a returning node is filled with random online nodes"
                )
                now = "gives it one contact"
            if _has("newscast", "contacts", size):
                table.put("contacts", size)
            else:
                self.note(name, f"GoLF fills the view of a returning node with random online nodes; golfsim {now}")
        self._carried_by(name)
        self._finish(name, known.OVERLAYS[kind])

    def _turns(self, table: Table, key: str, turns: float) -> None:
        """Give a layer several turns per cycle, or one in several cycles."""
        times, every = max(1, round(turns)), max(1, round(1 / turns))
        if every > 1:
            table.put("every", every, self.origin(key))
        elif times > 1 and _has(table.settings["use"], "times", times):
            table.put("times", times, self.origin(key))
        elif times > 1:
            self.left_out(key, f"it acts {times} times per cycle in GoLF, and once in golfsim")

    def _static(self, name: str) -> None:
        short = name.partition(".")[2]
        wires = [init for init in self.names["init"] if self.p.text(f"{init}.protocol") == short]
        wired = [init for init in wires if self.classes[init] in known.WIRING]
        table = self._layer(name, "static_overlay")
        if wired:
            self._wire(wired[0], table)
            for more in wired[1:]:
                self.left_out(more, "golfsim has one graph per layer", "give a file with all edges")
        else:
            table.put("use", "uniform")
            what = "no initialiser that golfsim knows gives it links; every node knows all others now"
            self.note(name, what, 'use = "static_overlay" with the graph that you need')
        self._finish(name, known.OVERLAYS["IdleProtocol"])

    def _wire(self, init: str, table: Table) -> None:
        """Translate the initialiser of a static graph."""
        kind = self.classes[init]
        both = any(f"{init}.{word}" in self.p for word in ("undir", "undirected"))
        for word in ("protocol", "undir", "undirected"):
            self.translated(f"{init}.{word}")
        self.needless(f"{init}.pack")
        self.translated(init)
        origin = self.origin(init)
        if kind == "WireFromFile":
            table.put("file", self.text(f"{init}.file"), self.origin(f"{init}.file"))
            table.put("directed", not both)
            todo = "write one edge per line, as two numbers"
            self.note(f"{init}.file", "PeerSim's file has a node and all its neighbours per line", todo)
            if f"{init}.k" in self.p:
                self.left_out(f"{init}.k", "golfsim reads all edges of a file")
        elif kind == "WireKOut":
            table.put("neighbours", min(self.integer(f"{init}.k"), max(self.size - 1, 1)), origin)
            if both:
                self.note(init, "links go one way in golfsim: each node knows k others, and may not be known by them")
        else:
            generator, arguments = self._generator(init, kind)
            table.put("generator", generator, origin)
            table.put("arguments", arguments)
            if not both and kind not in ("WireRingLattice", "KRegular"):
                self.note(init, "links go both ways in golfsim, and one way in PeerSim without “undir”")

    def _generator(self, init: str, kind: str) -> tuple[str, dict[str, Any]]:
        """Return the generator of networkx that makes the graph of an initialiser."""
        if kind == "WireStar":
            return "full_rary_tree", {"r": max(self.size - 1, 1)}
        k = self.integer(f"{init}.k")
        if kind == "WireRegRootedTree":
            return "full_rary_tree", {"r": k}
        if kind == "WireScaleFreeBA":
            return "barabasi_albert_graph", {"m": k}
        if kind == "WireWS":
            return "watts_strogatz_graph", {"k": k, "p": self.number(f"{init}.beta")}
        if not 1 <= k <= MOST_NEIGHBOURS:
            self.p.fail(f"{init}.k", f"expected 1 to {MOST_NEIGHBOURS}; got {k}")
        if k % 2:
            odd = "the link to the opposite node" if kind == "KRegular" else "one more successor"
            self.note(init, f"for an odd k PeerSim adds {odd} to a ring of {k - 1} neighbours")
        offsets = list(range(1, max(k // 2, 1) + 1))
        if kind == "KRegular" and k % 2:
            offsets.append(self.size // 2)
        return "circulant_graph", {"offsets": offsets}

    def _peers(self, name: str) -> str:
        """Return the layer of the overlay of a protocol; one of all nodes if that is not translated."""
        key = f"{name}.linkable"
        linked = [word for word in re.split(r"\W+", self.p.text(key)) if word]
        found = self.layer_of.get(linked[0]) if linked else None
        if found is not None:
            self.translated(key)
            if len(linked) > 1:
                self.note(key, f"only the first, “{linked[0]}”, is used")
            return found
        what = f"“{linked[0]}” is not translated" if linked else f"{self.classes[name]} needs an overlay"
        if key in self.p:
            self.left_out(key, f"{what}; every node knows all others now", "name an overlay in `peers`")
        else:
            self.note(name, f"{what}; every node knows all others now", "name an overlay in `peers`")
        here = self.layers.pop() if self.layers and "peers" not in self.layers[-1].settings else None
        table = self._layer(f"protocol.{(linked or ['all'])[0]}_nodes", "uniform")
        table.origins["name"] = ""
        if here is not None:
            self.layers.append(here)
        return str(table.settings["name"])

    def _carried_by(self, name: str) -> None:
        key = f"{name}.transport"
        if key in self.p:
            self.carriers.append(key)

    def _averages(self, name: str, kind: str) -> None:
        table = self._layer(name, "averaging")
        table.put("peers", self._peers(name), self.origin(f"{name}.linkable"))
        self._schedule(name, table)
        self._carried_by(name)
        self._finish(name, known.AVERAGES[kind])

    def _extractor(self, name: str) -> None:
        key = f"{name}.modelName"
        if self.p.text(key).rpartition(".")[2] == "DummyExtractor":
            self.needless(name)
            self.needless(key)
        else:
            self.left_out(name, "golfsim learns no features", "compute them beforehand")
            self.outcome[key] = LEFT_OUT
        self._finish(name, known.EXTRACTORS["ExtractionProtocol"])

    # Learning

    def _learning(self, name: str, kind: str) -> None:
        models = self._models(name, kind)
        translated = 0
        for key, words, prefix in models:
            translated += self._learner(name, kind, key, words, prefix)
        if not translated:
            self.left_out(name, "none of its learners is translated", "see the notes on its learners")
            for key in ("linkable", "transport", "delayMean"):
                self.outcome.setdefault(f"{name}.{key}", LEFT_OUT)
            return
        self.translated(name)
        self._carried_by(name)
        self._conventions(name, kind)
        self._finish(name, known.LEARNING[kind])

    def _models(self, name: str, kind: str) -> list[tuple[str, str, str]]:
        """Return the key, the class and the prefix of the settings of each model that a protocol trains."""
        if kind in ("PegasosMU", "PegasosUM", "P2Pegasos"):
            return [(name, kind, name)]
        learners = self.p.names(f"{name}.learner")
        if learners:
            return [(key, self.p.text(key), key) for key in learners]
        key = f"{name}.modelNames"
        classes = [word.strip() for word in self.p.text(key).split(",") if word.strip()]
        self.translated(key)
        return [(key, one, f"{name}.{one.rpartition('.')[2]}") for one in classes]

    def _learner(self, name: str, kind: str, key: str, full: str, prefix: str) -> bool:
        """Write the layer of a model; return whether golfsim has it."""
        short = full.rpartition(".")[2]
        base, one_vs_all = short, known.ONE_VS_ALL.get(short)
        if one_vs_all is not None:
            base = self.p.text(f"{prefix}.model").rpartition(".")[2]
        found = known.LEARNERS.get(base)
        if kind in ("PegasosMU", "PegasosUM"):
            found = known.LEARNERS["P2Pegasos"]
        if found is None or found.learner not in installed():
            why = known.UNLIKE.get(base, f"golfsim has no learner that is known to be {base}")
            todo = "write a learner of yours (golfsim new learner), or use another one (golfsim list learners)"
            self.left_out(key, why if key == prefix else f"{base}: {why}", todo)
            self.outcome |= dict.fromkeys(self._below(prefix), LEFT_OUT) if prefix != name else {}
            return False
        table = self._layer(
            name, "golf", key.rpartition(".")[2] if ".learner." in key else short if key != name else ""
        )
        self.translated(key)
        self.translated(f"{prefix}.model")
        table.put("peers", self._peers(name), self.origin(f"{name}.linkable"))
        table.put("records", "raw")
        self._rule(name, key, prefix, found.learner, table)
        variant = {"PegasosMU": "mu", "PegasosUM": "um"}.get(kind, one_vs_all or found.variant)
        if kind in ("LearningProtocolSlim", "TokenLearningProtocol") and variant == known.MERGED:
            variant = "own"
        table.put("variant", variant, self.origin(key))
        if variant in ("mu", "own") and ".learner." in key:
            table.put("average", "age")
        self._size(prefix, base)
        self._details(name, kind, table)
        return True

    def _rule(self, name: str, model: str, prefix: str, learner: str, table: Table) -> None:
        """Translate the step size of a learner: 1/(λt), or η or η/t."""
        if learner == "kmeans":
            window = 2 * self.number(f"{prefix}.wsize")  # GoLF moves a centroid by 1/wsize, golfsim by 2/window
            table.put("learner", {"use": learner, "clusters": self.integer(f"{prefix}.K"), "window": window})
            return
        key = next((k for k in (f"{prefix}.lambda", f"{name}.lambda") if k in self.p), f"{prefix}.lambda")
        lam = self.number(key, 1e-4)
        if lam <= 0:
            self.p.fail(key, f"expected λ above 0; got {lam:g}")
        eta, timed = self.number(f"{prefix}.eta", 1 / lam), self.number(f"{prefix}.is_time", 1) == 1
        if learner == "softmax":
            table.put("learner", {"use": learner, "rate": eta, "fade": 1.0 if timed else 0.0})
        else:
            table.put("learner", learner)
            if not timed or not math.isclose(eta, 1 / lam, rel_tol=1e-6):
                step = f"{eta:g}/t" if timed else f"{eta:g}"
                told = next(k for k in (f"{prefix}.eta", f"{prefix}.is_time", key) if k in self.p)
                self.left_out(told, f"the step would be {step}; that of golfsim's {learner} is 1/(λt)")
            if learner == "logistic":
                self.note(model, f"{table.settings['name']}: GoLF's has a bias", 'add "bias" to `scale` in [data]')
        table.put("lambda", lam, self.origin(key) if key in self.p else "not found in the configuration")
        if key not in self.p:
            self.note(model, f"{table.settings['name']}: no lambda was found; it is {lam:g}, a default of GoLF")

    def _size(self, prefix: str, base: str) -> None:
        key = f"{prefix}.size"
        if key in self.p and base.startswith("Slim"):
            size = self.p.integer(key)
            how = "at random" if size < 0 else "by the size of their last gradients"
            todo = "set message = { sample = … } to the share of the numbers that a message carries"
            self.left_out(key, f"a message has {abs(size)} of the numbers of a model, chosen {how}", todo)

    def _details(self, name: str, kind: str, table: Table) -> None:
        """Translate the settings of the protocol that golfsim has in each layer."""
        period = f"{name}.delayMean"
        if period in self.p:
            every = max(1, round(self.number(period) / self.unit))
            if every > 1:
                table.put("every", every, self.origin(period))
        batch = f"{name}.batch"
        if known.LEARNING[kind].keys.count("batch") == 0 or (batch not in self.p or self.p.integer(batch) == 1):
            table.put("batch", "one-by-one", self.origin(batch) if batch in self.p else "GoLF updates by each record")
            self.translated(batch)
        elif self.p.integer(batch) == 0:
            self.translated(batch)
        for key in ("capacity", "memory"):
            if f"{name}.{key}" in self.p and (size := self.integer(f"{name}.{key}")) > 1:
                table.put("cache", size, self.origin(f"{name}.{key}"))
        if _has("golf", "tie", "first"):
            table.put("tie", "first", "a zero score means the first class in GoLF")
        if kind in ("PegasosMU", "PegasosUM", "P2Pegasos") and _has("golf", "initial_update", True):
            table.put("initial_update", True, "a node updates its model before it sends it for the first time")
        if kind == "TokenLearningProtocol":
            self._flow(name, table)
            return
        self._clock(name, table)

    def _clock(self, name: str, table: Table) -> None:
        """Translate when a node acts, as far as golfsim has settings for it."""
        mean, spread = f"{name}.delayMean", f"{name}.delayVar"
        if mean in self.p and spread in self.p:
            jitter = round(self.p.number(spread) / max(self.p.number(mean), 1e-9), 9)
            if jitter > 0 and _has("golf", "jitter", jitter):
                self.translated(spread)
                table.put("jitter", jitter, self.origin(spread))
        if "ChurnControl" in self.classes.values() and _has("golf", "on_return", "send"):
            table.put("on_return", "send", "a node of GoLF sends when its session begins")

    def _flow(self, name: str, table: Table) -> None:
        """Translate a token account; PeerSim adds the token before it decides, golfsim if it does not send."""
        kinds = {
            "proactive": "proactive",
            "traditional": "simple",
            "generalized": "generalised",
            "randomized": "randomised",
        }
        strategy = self.text(f"{name}.strategy")
        if strategy not in kinds:
            self.p.fail(f"{name}.strategy", f"expected one of {', '.join(kinds)}; got “{strategy:.60}”")
        flow: dict[str, Any] = {"kind": kinds[strategy]}
        if strategy != "proactive":
            flow["capacity"] = self.integer(f"{name}.B")
        if strategy in ("generalized", "randomized"):
            flow["spend"] = self.integer(f"{name}.A")
        for key in ("A", "B"):
            if f"{name}.{key}" in self.p:
                self.outcome.setdefault(f"{name}.{key}", NEEDLESS)
        table.put("flow", flow, self.origin(f"{name}.strategy"))
        if self.p.number(f"{name}.permutation", 0) != 0:
            self.left_out(f"{name}.permutation", "golfsim chooses each receiver independently")
        else:
            self.needless(f"{name}.permutation")
        if self.p.number(f"{name}.warmupTime", 0) > 0:
            self.left_out(f"{name}.warmupTime", "golfsim learns from the first cycle on")
        else:
            self.needless(f"{name}.warmupTime")

    def _conventions(self, name: str, kind: str) -> None:
        """State what a protocol of GoLF does that golfsim does otherwise."""
        variance = f"{name}.delayVar"
        if variance in self.p:
            spread = self.p.number(variance) / self.unit
            if variance not in self.outcome:
                what = f"a period varies by {spread:g} cycles; each node of golfsim acts once in a cycle"
                self.left_out(variance, what)
            if spread > 0 and not self.cycle_driven:
                self.top.put("order", "shuffled", self.origin(variance))
        newer = "modelHolderCapacity" in known.LEARNING[kind].keys and kind not in (
            "LearningProtocolSlim", "TokenLearningProtocol",
        )  # fmt: skip
        waits, capacity = f"{name}.numOfWaitingPeriods", f"{name}.modelHolderCapacity"
        if newer:
            what = "GoLF sends, in its turn, one model for each that it has received since the last turn"
            if waits in self.p:
                more = (
                    f"{what}, and one after {self.p.number(waits):g} turns without any; golfsim sends one in each turn"
                )
                self.left_out(waits, more)
            if capacity in self.p and self.p.integer(capacity) > 1:
                self.left_out(capacity, f"{what}, at most {self.p.integer(capacity)}; golfsim sends one in each turn")
        for key in (waits, capacity):
            if key in self.p:
                self.outcome.setdefault(key, NEEDLESS)
        self._must_be(f"{name}.epoch", 1, "golfsim uses each record once per update")
        self._must_be(f"{name}.initModelProbability", 1, "all nodes of golfsim send in the first cycle")
        batch = f"{name}.batch"
        if batch in self.p and batch not in self.outcome:
            size = self.p.integer(batch)
            todo = 'batch = "one-by-one" makes one update per record'
            self.left_out(batch, f"a mini-batch has {size} records; golfsim's has all records of a node", todo)
        self._evaluated(name)

    def _must_be(self, key: str, value: float, why: str) -> None:
        if key in self.p:
            if self.p.number(key) == value:
                self.needless(key)
            else:
                self.left_out(key, why)

    def _evaluated(self, name: str) -> None:
        """Translate the evaluation of nodes by a protocol of GoLF."""
        key = f"{name}.evalNames"
        if key in self.p:
            unknown = [one.rpartition(".")[2] for one in self.p.text(key).split(",")]
            unknown = [one for one in unknown if one not in ("ZeroOneError", "MatrixBasedEvaluator")]
            if "MatrixBasedEvaluator" in self.p.text(key):
                self.observe.put("metrics", ["confusion"], self.origin(key))
            if unknown:
                self.left_out(key, f"golfsim does not log {', '.join(unknown)} of classes")
            else:
                self.translated(key)
        key = f"{name}.evalProbability"
        share = self.number(key, 1.0)
        nodes = "all" if share >= 1 else max(1, round(share * self.size))
        self.observe.put("nodes", nodes, self.origin(key) if key in self.p else "GoLF evaluates all nodes")

    # Transport

    def _transport(self) -> None:
        """Translate the transport of the uppermost layer that has one."""
        chains = {key: self._chain(key) for key in self.carriers}
        used = list(chains.values())[-1] if chains else []
        for key, chain in chains.items():
            if chain == used:
                self.translated(key)
            else:
                self.left_out(key, "golfsim has one transport for all layers: that of the uppermost layer")
        refused = {fault for table in self.layers for fault in ("loss", "delay") if not _carries(table, fault)}
        for name in used:
            kind, full = self.classes[name], known.TRANSPORTS[self.classes[name]]
            self.translated(name)
            self.translated(f"{name}.transport")
            if kind == "UnreliableTransport":
                self._loss(f"{name}.drop", refused)
            elif kind == "UniformRandomTransport":
                self._delay(name, refused)
            else:
                self.needless(name)
            self._finish(name, full)
        for name in self.names["protocol"]:
            if self.classes[name] in known.TRANSPORTS and name not in self.outcome:
                self.left_out(name, "no layer that is translated sends through it")
                self.outcome |= dict.fromkeys(self._below(name), LEFT_OUT)

    def _chain(self, key: str) -> list[str]:
        """Return a transport and those below it, as far as they are known."""
        found: list[str] = []
        while key in self.p:
            name = f"protocol.{self.p.text(key)}"
            if name not in self.classes:
                self.p.fail(key, f"there is no “{name}”", "expected the name of a transport")
            if name in found or self.classes[name] not in known.TRANSPORTS:
                break
            found.append(name)
            key = f"{name}.transport"
        return found

    def _loss(self, key: str, refused: set[str]) -> None:
        loss = self.number(key)
        if not 0 <= loss <= 1:
            self.p.fail(key, f"expected a probability from 0 to 1; got {loss:g}")
        if loss > 0 and "loss" in refused:
            self.left_out(key, "a layer of golfsim above cannot lose messages")
        elif loss > 0:
            self.transport.put(
                "loss", 1 - (1 - loss) * (1 - self.transport.settings.get("loss", 0.0)), self.origin(key)
            )

    def _delay(self, name: str, refused: set[str]) -> None:
        keys = f"{name}.mindelay", f"{name}.maxdelay"
        low = self.number(keys[0]) / self.unit
        high = self.number(keys[1], self.p.number(keys[0])) / self.unit
        if not 0 <= low <= high:
            self.p.fail(keys[0], f"expected 0 ≤ mindelay ≤ maxdelay; got {low * self.unit:g}, {high * self.unit:g}")
        first, last = math.floor(low + 0.5), math.floor(high + 0.5)
        if last and "delay" in refused:
            self.left_out(keys[0], "a layer of golfsim above has no delays; messages arrive in the same cycle")
            self.outcome |= {keys[1]: LEFT_OUT} if keys[1] in self.p else {}
            return
        if last:
            first = max(first, 1)
            self.transport.put("delay", first if first == last else [first, last], self.origin(keys[0]))
        if (low, high) != (first, last):
            shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            now = f"{first}" if first == last or not last else f"{first} to {last}"
            self.note(keys[0], f"a delay of {shown} cycles is {now} now: a delay is a number of cycles")

    # Initialisers

    def _initialiser(self, name: str) -> None:
        kind = self.classes[name]
        if kind in known.WIRING:
            self._wired(name)
        elif kind in known.LOADERS:
            self._loader(name)
        elif kind in known.STARTERS:
            self.needless(name)
        if kind in known.INITIALISERS:
            self._finish(name, known.INITIALISERS[kind])

    def _wired(self, name: str) -> None:
        """State what happens to a wiring that no static graph has used."""
        if name in self.outcome:
            return
        protocol = f"protocol.{self.p.text(f'{name}.protocol')}"
        views = self.classes.get(protocol) in known.OVERLAYS
        for key in (name, *self._below(name)):
            if views:
                self.needless(key)
        if views and self.classes[name] != "WireKOut":
            self.note(name, "views of golfsim's Newscast start with random entries")
        elif not views:
            self.left_out(name, f"“{protocol}” is not translated, so its links are not either")
            self.outcome |= dict.fromkeys(self._below(name), LEFT_OUT)

    def _loader(self, name: str) -> None:
        self.translated(name)
        if not any(table.settings["use"] == "golf" for table in self.layers):
            self.left_out(name, "no learner is translated, so no data are loaded")
            self.outcome |= dict.fromkeys(self._below(name), LEFT_OUT)
            return
        readers = {"", "DataBaseReader"}
        key = f"{name}.readerClass"
        if self.p.text(key).rpartition(".")[2] in readers:
            self.translated(key)
        else:
            self.left_out(key, "golfsim reads svmlight, CSV, Parquet and npz files", "convert the files")
        for word, setting in (("trainingFile", "file"), ("evaluationFile", "test_file"), ("file", "file")):
            if f"{name}.{word}" in self.p:
                self._data_file(f"{name}.{word}", setting)
        if "file" in self.data.settings and _accepts(DataConfig, "format", "svmlight"):
            self.data.put("format", "svmlight", "what GoLF's DataBaseReader reads")
        self._scaled(f"{name}.normalization")
        self._placed(name)

    def _data_file(self, key: str, setting: str) -> None:
        given = self.text(key)
        found = self.place(given)
        self.data.put(setting, found or given, self.origin(key))
        if found is None:
            todo = f"put it there, or change `{setting}` in [data]; golfsim list datasets has the sets that are bundled"
            self.note(key, f"there is no file {given}", todo)
        suffix = given.rpartition(".")[2].lower()
        if suffix == "arff":
            self.note(key, "golfsim reads no ARFF files", "convert it to CSV")
        elif suffix not in ("svmlight", "libsvm", "svm") and not _accepts(DataConfig, "format", "svmlight"):
            self.note(key, f"golfsim does not know the extension .{suffix}", "rename the file to .svmlight")

    def _scaled(self, key: str) -> None:
        steps = {0: "", 1: "minmax", 2: "standard"}
        kind = self.integer(key, 0)
        if kind not in steps:
            self.p.fail(key, f"expected 0 (none), 1 (to [0, 1]) or 2 (standardised); got {kind}")
        if kind and _accepts(DataConfig, "scale", (steps[kind],)):
            self.data.put("scale", [steps[kind]], self.origin(key))
            if kind == 1:
                self.data.put("bounds", "train", "as in GoLF: the bounds of the training records")
        elif kind:
            self.left_out(key, "golfsim does not standardise features", "standardise them in the file")

    def _placed(self, name: str) -> None:
        """Translate how many records each node has, and of which classes."""
        classes = f"{name}.cLabels"
        if f"{name}.samplesPerNode" in self.p:
            key = f"{name}.samplesPerNode"
            self.nodes.put("records", self.integer(key), self.origin(key))
            self.nodes.put("repeat", True, "as GoLF: the records are used in turn")
            self.nodes.put("leave_out", True)
        elif self.integer(classes, 0) == 0:
            self.nodes.put(
                "records", {"kind": "uniform", "min": 1, "max": 1}, "as GoLF: all records, equally many each"
            )
        if self.integer(classes, 0) > 0:
            split = {"kind": "classes-per-node", "classes": self.integer(classes)}
            self.nodes.put("split", split, self.origin(classes))
        self.note(name, "GoLF gives records to nodes in the order of the file, golfsim at random")

    def _values(self) -> None:
        """Translate the values that averaging starts with: those of the last initialiser."""
        inits = [name for name in self.names["init"] if self.classes[name] in known.VALUES]
        last = {self.p.text(f"{name}.protocol"): name for name in inits}
        averages = {key: table for key, word in self.layer_of.items() for table in self.layers
                    if table.settings["name"] == word and table.settings["use"] == "averaging"}  # fmt: skip
        for name in inits:
            target = self.p.text(f"{name}.protocol")
            for key in self._below(name):
                self.translated(key)
            if target not in averages:
                self.left_out(name, f"“{target}” is not translated as averaging")
                self.outcome |= dict.fromkeys(self._below(name), LEFT_OUT)
            elif last[target] != name:
                self.left_out(name, f"{last[target]} sets the values again")
                self.outcome |= dict.fromkeys(self._below(name), LEFT_OUT)
            else:
                self._initial(name, averages[target])

    def _initial(self, name: str, table: Table) -> None:
        self.translated(name)
        peak = self.classes[name].startswith("Peak")
        table.put("initial", "peak" if peak else "uniform", self.origin(name))
        factor = "factors of convergence do not depend on it"
        if not peak:
            low = self.p.number(f"{name}.min", -self.p.number(f"{name}.max"))
            exact = self.classes[name] == "UniformDistribution" and (low, self.p.number(f"{name}.max")) == (0, 1)
            if not exact:
                self.note(name, f"the values are random numbers from 0 to 1 now; {factor}")
        elif self.p.number(f"{name}.peaks", 1) != 1 or self.p.number(f"{name}.background", 0) != 0:
            self.note(name, "golfsim has one peak, and 0 elsewhere")
        elif self.p.number(f"{name}.value") != self.size:
            self.note(name, f"the peak is the number of nodes now, so that the mean is 1; {factor}")

    # Controls

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

    def _cycles_of(self, name: str) -> range:
        """Return the cycles in which a control runs."""
        first, last, every = self._window(name)
        return range(first, min(self.cycles, self.cycles if last is None else last) + 1, every)

    def _table(self, kind: str, name: str) -> Table:
        table = Table("[churn]")
        table.put("kind", kind, self.origin(name))
        self.churn.append(table)
        self.translated(name)
        for key in self._below(name):
            if key.startswith(f"{name}.init"):
                self.outcome[key] = NEEDLESS
        return table

    def _replaced(self, name: str, share: float, rejoin: float) -> None:
        """Write churn of nodes that leave with a probability, and may be replaced by new ones."""
        first, last, every = self._window(name)
        table = self._table("rate", name)
        table.put("leave", min(1.0, share / every))
        table.put("rejoin", rejoin)
        table.put("online", 1.0)
        if first > 1:
            table.put("from", first)
        if last is not None and last < self.cycles:
            self.note(name, f"after cycle {last} the model ends, and all nodes are online again")
            table.put("until", max(first, last))
        if rejoin:
            table.put("return", "afresh")
            self.note(name, "a node leaves by chance, and returns one cycle later as a new one")
        else:
            self.note(name, "the number of nodes that leave is random, with the mean of PeerSim")

    def _exponentialuptime(self, name: str) -> None:
        self._replaced(name, self.number(f"{name}.p"), 1.0 if self._flag(f"{name}.substitute") else 0.0)
        self._limit(f"{name}.minsize")

    def _flag(self, key: str) -> bool:
        self.translated(key)
        return key in self.p

    def _limit(self, key: str) -> None:
        if key in self.p and key not in self.outcome:
            self.left_out(key, "golfsim's model has no such limit")

    def _dynamicnetwork(self, name: str) -> None:
        add = self.number(f"{name}.add")
        if self._flag(f"{name}.substitute"):
            self._replaced(name, abs(add) if abs(add) < 1 else abs(add) / self.size, 1.0)
            self._limit(f"{name}.minsize")
            self._limit(f"{name}.maxsize")
            return
        changes, size = [], self.size
        cycles = self._cycles_of(name)
        if len(cycles) > MOST_CHANGES:
            self.p.fail(
                name, f"it runs {len(cycles)} times", f"expected at most {MOST_CHANGES} times: set its step or until"
            )
        low, high = self.integer(f"{name}.minsize", 0), self.integer(f"{name}.maxsize", 2**31 - 1)
        for cycle in cycles:
            change = round(add * size) if abs(add) < 1 else round(add)
            change = max(change, min(low - size, 0)) if change < 0 else min(change, max(high - size, 0))
            size += change
            if change:
                changes.append((cycle, abs(change)))
        if not changes:
            self.left_out(name, "it changes nothing")
            self.outcome |= dict.fromkeys(self._below(name), LEFT_OUT)
        elif add > 0:
            self._joins(name, changes)
        elif len(changes) > MOST_CRASHES:
            self._replaced(name, abs(add) if abs(add) < 1 else abs(add) / self.size, 0.0)
        else:
            for cycle, number in changes:
                table = self._table("crash", name)
                table.put("at", cycle)
                table.put("number", number)

    def _joins(self, name: str, changes: list[tuple[int, int]]) -> None:
        total = sum(number for _, number in changes)
        table = self._table("join", name)
        table.put("number", total, self.origin(f"{name}.add"))
        table.put("from", changes[0][0])
        table.put("until", changes[-1][0])
        self.nodes.put("number", self.nodes.settings["number"] + total, "including the nodes that join")
        if len(changes) > 1 and (changes[-1][0] - changes[0][0] + 1 != len(changes) or len(set(changes)) == 1):
            self.note(name, "the nodes join evenly over these cycles")

    def _oscillatingnetwork(self, name: str) -> None:
        most = self.integer(f"{name}.maxsize", 0) or self.size
        least, period = self.integer(f"{name}.minsize", 0), 2 * self.number(f"{name}.period") / self.unit
        if not 0 <= least <= most or period < 2:
            self.p.fail(name, "expected 0 ≤ minsize ≤ maxsize, and a period of at least one cycle")
        table = self._table("oscillating", name)
        table.put("low", least / most, self.origin(f"{name}.minsize"))
        table.put("period", round(period), self.origin(f"{name}.period"))
        table.put("return", "afresh")
        self.nodes.put("number", most, self.origin(f"{name}.maxsize"))
        self.note(name, "the size begins at maxsize in golfsim, and half way between minsize and maxsize in PeerSim")

    def _churncontrol(self, name: str) -> None:
        first, _, every = self._window(name)
        online = self.integer(f"{name}.size") / self.size
        if not 0 < online <= 1:
            self.p.fail(f"{name}.size", f"expected 1 to {self.size} online nodes; got {online * self.size:g}")
        table = self._table("lognormal", name)
        table.put("online", online, self.origin(f"{name}.size"))
        table.put("mu", self.number(f"{name}.mu") + math.log(every), self.origin(f"{name}.mu"))
        table.put("sigma", self.number(f"{name}.sigma"), self.origin(f"{name}.sigma"))
        if first > 1:
            table.put("from", first)
        what = "GoLF keeps the number of online nodes fixed, with sessions of whole cycles; here it is so on average"
        self.note(name, what)
        if not _has("golf", "on_return", "send"):
            self.note(name, "a node of GoLF sends once more when its session begins")

    def _tracechurn(self, name: str) -> None:
        key = f"{name}.traceFile"
        if not _accepts(TraceConfig, "format", "peersim"):
            self.left_out(name, "golfsim reads traces as CSV", "convert it to the columns node, from, until")
            self.outcome[key] = LEFT_OUT
            return
        table = self._table("trace", name)
        given = self.text(key)
        table.put("file", self.place(given) or given, self.origin(key))
        table.put("format", "peersim")
        table.put("assign", "sample")
        table.put("cycle_seconds", self.unit / 1000, "times in GoLF's trace are milliseconds")

    def _observer(self, name: str, kind: str) -> None:
        first, _, every = self._window(name)
        self.translated(name)
        self.needless(f"{name}.FINAL")
        key = "overlay" if kind in known.OVERLAY_OBSERVERS else "every"
        if f"{name}.at" in self.p:
            self.left_out(f"{name}.at", "golfsim measures at regular cycles")
        else:
            before = self.observe.settings.get(key, every)
            self.observe.put(key, min(every, before), self.origin(name))
            if before != every:
                self.note(name, f"everything is measured every {min(every, before)} cycles")
        if first > every:
            self.left_out(f"{name}.from", "golfsim measures from the beginning")
        if kind == "GraphStats":
            counts = [self.integer(f"{name}.{word}", 0) for word in ("nc", "nl")]
            self.observe.put("overlay_nodes", self.size if min(counts) < 0 else max(1, *counts), self.origin(name))
        self._accuracy(name, kind)
        self._errors(name)
        if f"{name}.eval" in self.p:
            self._data_file(f"{name}.eval", "test_file")

    def _accuracy(self, name: str, kind: str) -> None:
        key = f"{name}.accuracy"
        if key not in self.p:
            return
        layer = self.layer_of.get(self.p.text(f"{name}.protocol"))
        if kind == "SingleValueObserver" and layer and self.p.number(key) > 0:
            self.stop.put("when", f"{layer}.value.variance < {self.number(key) ** 2!r}", self.origin(key))
            self.note(key, "PeerSim's limit is for the values of its own initialiser")
        else:
            self.left_out(key, "it ends the run", f'set [stop] when = "{layer or "averaging"}.value.variance < …"')

    def _errors(self, name: str) -> None:
        key = f"{name}.errorComputatorClass"
        if key in self.p:
            voted = "Voted" in self.p.text(key) and not any("cache" in table.settings for table in self.layers)
            if voted and any(other.endswith((".capacity", ".memory")) for other in self.p.by_key):
                self.needless(key)  # a vote of one model
            elif voted:
                self.left_out(key, "no layer stores models to vote", "set `cache`")
            else:
                self.translated(key)
        key = f"{name}.errorFunctionClass"
        if key in self.p:
            if self.p.text(key).endswith(".ZeroOneError"):
                self.translated(key)
            else:
                self.left_out(key, "golfsim logs the share of wrong classes")

    # The rest

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


def _accepts(table: type[BaseModel], key: str, value: Any) -> bool:
    """Return whether a table of settings has a key that may have a value."""
    for name, field in table.model_fields.items():
        if (field.alias or name) == key:
            try:
                TypeAdapter(_whole_type(field)).validate_python(value)
            except ValidationError:
                return False
            return True
    return False


def _whole_type(field: FieldInfo) -> Any:
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


@cache
def _has(use: str, key: str, value: Any) -> bool:
    """Return whether an installed protocol has a setting that may have a value."""
    protocol = find(use, Path())
    several = key != "times" or getattr(protocol, "repeats", False)
    return several and _accepts(protocol.Config, key, value)


def _carries(table: Table, fault: str) -> bool:
    """Return whether the messages of a layer may have a fault."""
    return fault in find(str(table.settings["use"]), Path()).accepts
