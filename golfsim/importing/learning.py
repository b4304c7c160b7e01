"""Translate the protocols and models of GoLF."""

from __future__ import annotations

import math
from typing import Any

from golfsim.importing import known, supported
from golfsim.importing.layers import Layers
from golfsim.importing.outcomes import LEFT_OUT, NEEDLESS
from golfsim.importing.written import Table


class Learning(Layers):
    """The part of a translation that is about layers with models."""

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
        if found is None or found.learner not in supported.learners():
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
        if supported.has("golf", "tie", "first"):
            table.put("tie", "first", "a zero score means the first class in GoLF")
        if kind in ("PegasosMU", "PegasosUM", "P2Pegasos") and supported.has("golf", "initial_update", True):
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
            if jitter > 0 and supported.has("golf", "jitter", jitter):
                self.translated(spread)
                table.put("jitter", jitter, self.origin(spread))
        if "ChurnControl" in self.classes.values() and supported.has("golf", "on_return", "send"):
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
