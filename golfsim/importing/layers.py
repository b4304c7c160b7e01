"""Translate overlays and averages."""

from __future__ import annotations

import re
from typing import Any

from golfsim.importing import known, supported
from golfsim.importing.outcomes import LEFT_OUT, Outcomes
from golfsim.importing.written import Table

MOST_NEIGHBOURS = 10_000  # of a ring


class Layers(Outcomes):
    """The part of a translation that is about layers without models."""

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
            if supported.has("newscast", "on_return_state", "afresh"):
                table.put(
                    "on_return_state", "afresh", "the view of a returning node is filled with random online nodes"
                )
                now = "gives it one contact"
            if supported.has("newscast", "contacts", size):
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
        elif times > 1 and supported.has(table.settings["use"], "times", times):
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

    def _averages(self, name: str, kind: str) -> None:
        table = self._layer(name, "averaging")
        table.put("peers", self._peers(name), self.origin(f"{name}.linkable"))
        self._schedule(name, table)
        self._carried_by(name)
        self._finish(name, known.AVERAGES[kind])

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

    def _extractor(self, name: str) -> None:
        key = f"{name}.modelName"
        if self.p.text(key).rpartition(".")[2] == "DummyExtractor":
            self.needless(name)
            self.needless(key)
        else:
            self.left_out(name, "golfsim learns no features", "compute them beforehand")
            self.outcome[key] = LEFT_OUT
        self._finish(name, known.EXTRACTORS["ExtractionProtocol"])
