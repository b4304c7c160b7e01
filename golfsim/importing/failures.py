"""Translate transports and churn."""

from __future__ import annotations

import math

from golfsim.importing import known, supported
from golfsim.importing.outcomes import LEFT_OUT, NEEDLESS, Outcomes
from golfsim.importing.written import Table
from golfsim.network.churn import TraceConfig

MOST_CHANGES = 100_000  # of the size of the network, by one control
MOST_CRASHES = 100  # tables of churn for one control


class Failures(Outcomes):
    """The part of a translation that is about messages and nodes that fail."""

    def _transport(self) -> None:
        """Translate the transport of the uppermost layer that has one."""
        chains = {key: self._chain(key) for key in self.carriers}
        used = list(chains.values())[-1] if chains else []
        for key, chain in chains.items():
            if chain == used:
                self.translated(key)
            else:
                self.left_out(key, "golfsim has one transport for all layers: that of the uppermost layer")
        refused = {fault for table in self.layers for fault in ("loss", "delay") if not supported.carries(table, fault)}
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

    def _flag(self, key: str) -> bool:
        self.translated(key)
        return key in self.p

    def _limit(self, key: str) -> None:
        if key in self.p and key not in self.outcome:
            self.left_out(key, "golfsim's model has no such limit")

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
        table = self._table("replacement", name)
        table.put("online", online, self.origin(f"{name}.size"))
        table.put("mu", self.number(f"{name}.mu") + math.log(every), self.origin(f"{name}.mu"))
        table.put("sigma", self.number(f"{name}.sigma"), self.origin(f"{name}.sigma"))
        if first > 1:
            table.put("from", first)
        if not supported.has("golf", "on_return", "send"):
            self.note(name, "a node of GoLF sends once more when its session begins")

    def _tracechurn(self, name: str) -> None:
        key = f"{name}.traceFile"
        if not supported.accepts(TraceConfig, "format", "peersim"):
            self.left_out(name, "golfsim reads traces as CSV", "convert it to the columns node, from, until")
            self.outcome[key] = LEFT_OUT
            return
        table = self._table("trace", name)
        given = self.text(key)
        table.put("file", self.place(given) or given, self.origin(key))
        table.put("format", "peersim")
        table.put("assign", "sample")
        table.put("cycle_seconds", self.unit / 1000, "times in GoLF's trace are milliseconds")
