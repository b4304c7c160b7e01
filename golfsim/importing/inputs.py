"""Translate initialisers and observers: what an experiment starts with, and what it measures."""

from __future__ import annotations

from golfsim.data.config import DataConfig
from golfsim.importing import known, supported
from golfsim.importing.outcomes import LEFT_OUT, Outcomes
from golfsim.importing.written import Table


class Inputs(Outcomes):
    """The part of a translation that is about records, first values and measurements."""

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
        if "file" in self.data.settings and supported.accepts(DataConfig, "format", "svmlight"):
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
        elif suffix not in ("svmlight", "libsvm", "svm") and not supported.accepts(DataConfig, "format", "svmlight"):
            self.note(key, f"golfsim does not know the extension .{suffix}", "rename the file to .svmlight")

    def _scaled(self, key: str) -> None:
        steps = {0: "", 1: "minmax", 2: "standard"}
        kind = self.integer(key, 0)
        if kind not in steps:
            self.p.fail(key, f"expected 0 (none), 1 (to [0, 1]) or 2 (standardised); got {kind}")
        if kind and supported.accepts(DataConfig, "scale", (steps[kind],)):
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
