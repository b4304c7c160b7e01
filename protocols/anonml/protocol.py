"""AnonML: histograms of perturbed answers, sent in anonymous packets, and a classifier from them (Cyphers 2017)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.settings import Share
from golfsim.privacy.ledger import Ledger, UniformSchedule
from golfsim.privacy.mechanisms import Central, Guarantee
from golfsim.protocol.base import Audited, Disclosure, Layer, LayerConfig
from golfsim.protocol.learner import Learner
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import RawRecords
from protocols.anonml import circuits, histograms, shuffle, tokens
from protocols.anonml.circuits import Timing
from protocols.anonml.coding import coder_of
from protocols.anonml.cuts import CutSearch
from protocols.anonml.histograms import Perturbation, Reports, perturbation
from protocols.anonml.metrics import METRICS
from protocols.anonml.packets import ARRIVED, UNDER_WAY, WAITING, Numbers, Packets, Rules, draw_circuits
from protocols.anonml.questions import Costs, Questions, rms_errors
from protocols.anonml.votes import Training, train, votes
from protocols.uniform import Uniform

if TYPE_CHECKING:
    from golfsim.network.world import World

HONEST, REPEATED, OUTSIDE, FORGED = range(4)  # kinds of packets by the intention of their senders
UNREAD = -1  # in place of a verdict


PACKET = 90  # bytes per packet: its state, numbers while it is sent, and its token


class AnonMLConfig(LayerConfig):
    """The settings of AnonML: questions, perturbation, transport and learning."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay from which relays are drawn")
    records: Layer[RawRecords] = Field("raw", validate_default=True, description="the records that answers are about")
    aggregator: int | None = Field(
        None,
        ge=0,
        description="the number of the node that is the aggregator; default: a random online node in the first turn",
    )
    # Questions
    epsilon: float = Field(
        ge=1e-6, allow_inf_nan=True, description="the budget ε of each record for all its answers; inf: no noise"
    )
    accounting: Literal["sum", "attribute-maximum"] = Field(
        "sum",
        description="the meaning of epsilon: the sum over all answers of a record; or, as published (equation 7.4), "
        "the largest cost of the label or a single feature, which is less than the true ε of a record",
    )
    delta: float = Field(
        1e-6,
        gt=0,
        lt=1,
        description="the δ of the central guarantee, which is stated in addition to ε if packets hide their senders",
    )
    cut_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="the share of ε for cuts; default: an answer about a cut costs the same as a histogram (ε_e = ε_h)",
    )
    partitions: int = Field(
        5, ge=1, description="the number of groups of peers that are asked about different features (k_p)"
    )
    subsets: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        2,
        description="the number of subsets of features that each peer answers (k_h); “all”: as many as fit without "
        "overlap",
    )
    subset_size: int = Field(1, ge=1, description="the number of features per subset (k_s)")
    bins: int = Field(2, ge=2, le=64, description="the number of bins of a numeric feature")
    cuts: Literal["private", "exact"] = Field(
        "private",
        description="the cuts between bins: quantiles that are searched privately, or exact quantiles, which are not "
        "private",
    )
    groups: int = Field(10, ge=1, description="the number of groups of peers that the search for a cut asks in turn")
    grouping: Literal["card", "none"] = Field(
        "card", description="use the columns and groups of categories of the data card, or all columns without groups"
    )
    categories: dict[str, tuple[tuple[str, ...], ...]] = Field(
        {},
        description="groups of categories by column, in place of those of the card; all other categories form one more "
        "group",
    )
    perturbation: Literal["best", "random-response", "rappor", "pq"] = Field(
        "best", description="the perturbation of strings; “best”: the one with the smallest expected error"
    )
    rule: Literal["corrected", "as-published"] = Field(
        "corrected", description="use the corrected or the published formulas of random response and of the cut search"
    )
    projection: Literal["simplex", "clip"] = Field(
        "simplex",
        description="how negative cells of estimates are removed: by projection to the nearest histogram, or by "
        "clipping and rescaling",
    )
    # Learning
    learner: Literal["logistic", "tree"] = Field("logistic", description="the classifier of each histogram")
    training: Literal["weighted", "synthetic"] = Field(
        "weighted",
        description="learn from the cells as weighted records, or (as published) from records sampled from the cells",
    )
    score: Literal["f1", "auc", "accuracy"] = Field("f1", description="the score that weights the vote of a classifier")
    folds: int = Field(5, ge=2, description="the number of folds of the cross-validation that computes this score")
    lam: float = Field(1e-3, gt=0, alias="lambda", description="logistic: the regularisation λ")
    depth: int | None = Field(None, ge=1, description="the largest depth of a tree; default: no limit")
    balanced: bool = Field(True, description="give both classes equal weight in training")
    vote: Literal["soft", "hard"] = Field(
        "soft", description="classifiers vote with their probability of class 1, or (as published) with 0 or 1"
    )
    # Transport
    relays: int = Field(
        0, ge=0, le=100, description="the number of relays per circuit (h); 0: packets go directly to the aggregator"
    )
    window: int = Field(
        1,
        ge=1,
        le=100_000,
        description="the length of the send window in cycles; each packet is sent in a random cycle of it",
    )
    stagger: int = Field(
        0,
        ge=0,
        le=100_000,
        description="the length of the stagger window in cycles; the last relay forwards each packet in a random cycle "
        "of it",
    )
    staggering: Literal["window", "delay"] = Field(
        "window",
        description="the stagger window begins for all packets when the send window is over (as published), or for "
        "each packet when it reaches its last relay",
    )
    deadline: int | None = Field(
        None,
        ge=1,
        description="the number of cycles that the aggregator waits for packets; default: until all can have arrived",
    )
    colluding: Share = Field(0.0, description="the share of nodes that report to the aggregator what they relay")
    repeats: Share = Field(0.0, description="the share of packets that are sent twice")
    outsiders: Share = Field(0.0, description="the number of packets of non-members per packet of a member")
    forgeries: Share = Field(
        0.0, description="the number of packets with a member's token and other content, per packet of a member"
    )

    @model_validator(mode="after")
    def _belongs(self) -> AnonMLConfig:
        if self.cut_share is not None and (self.accounting, self.cuts) != ("sum", "private"):
            raise ValueError('cut_share requires accounting = "sum" and cuts = "private"')
        if self.stagger and not self.relays:
            raise ValueError("stagger: the last relay staggers, so it needs relays of at least 1")
        return self

    def trained(self) -> Training:
        """Return the settings of the training."""
        return Training(
            learner=self.learner, records=self.training, metric=self.score, folds=self.folds, lam=self.lam,
            depth=self.depth, balanced=self.balanced,
        )  # fmt: skip


class AnonML(Learner[AnonMLConfig]):
    """An aggregator collects locally private histograms of its peers' records and learns one classifier from them.

    The aggregator does not answer. A node with several records answers with one of them, drawn at random.
    """

    Config = AnonMLConfig
    accepts = frozenset({"loss", "delay", "partition"})
    secret = frozenset({"noise", "cuts"})
    metrics = METRICS

    # Preparation: questions, budget, packets

    def setup(self, world: World) -> None:
        """Draw partitions and subsets from the committed seed, and plan the perturbation and the packets."""
        self._seed_key, self._token_key = self.key("partitions"), self.key("tokens")
        self._refuse_unfit()
        try:
            self._plan_questions(world)
            self._plan_perturbation(world)
        except UserError as error:
            raise UserError(error.what, key=f"{self.name}.{error.key}", hint=error.hint) from None
        self._plan_packets(world)
        self._hidden = self._hides_senders(world)
        drawn = rng.uniform(self.key("colluding"), np.arange(world.nodes, dtype=np.int32))
        self._colludes = drawn < self.config.colluding
        self.aggregator = -1
        self.commitment = np.uint64(0)  # a hash of the seed of partitions and subsets; 0: nothing proposed yet
        self.asked = self.asked_at = self.opened = self.turn = 0
        self.record = np.full(world.nodes, -1, np.int32)  # the record that each node answers with
        self.answer_due = np.zeros(world.nodes, np.int32)  # when each node's answer about cuts arrives
        self.table = np.zeros(int(self._plan.first[-1]) // 2)
        self.weight = np.zeros(len(self._questions.subsets))
        self.used = 0  # the number of packets that the model is learned from; 0: there is no model yet
        self.rms = np.zeros(3)  # expected, measured, and after projection

    def memory(self, world: World) -> int | None:
        """Return the bytes of all packets, with their circuits, and of the ledgers."""
        config = self.config
        kinds = 1 + (config.repeats > 0) + (config.outsiders > 0) + (config.forgeries > 0)
        grouping = config.records.about.grouping if config.grouping == "card" else None
        columns = len(coder_of(config.records.about.features, config.bins, grouping, config.categories).names)
        number = None if config.subsets == "all" else config.subsets
        each = len(histograms.draw_subsets(np.uint64(0), 0, 1, columns, config.subset_size, number)[0])
        return (PACKET + 4 * config.relays) * kinds * each * world.nodes + 8 * int(config.records.capacity().sum())

    def _refuse_unfit(self) -> None:
        records = self.config.records
        if records.classes != 2:
            what = f"AnonML needs data with two classes, and these data have {records.classes}"
            raise UserError(what, key="data.set", hint="use a data set with two classes")
        if records.about.span is None:
            raise UserError(
                "the range of the features is not public",
                key="data.scale",
                hint='cuts are searched in a public range: use scale = ["minmax"], without feature skew',
            )

    def _plan_questions(self, world: World) -> None:
        config, about = self.config, self.config.records.about
        grouping = about.grouping if config.grouping == "card" else None
        coder = coder_of(about.features, config.bins, grouping, config.categories)
        number = None if config.subsets == "all" else config.subsets
        self._questions = Questions.draw(
            self._seed_key, world.nodes, coder, config.partitions, config.subset_size, number
        )
        cuts = coder.numbers.size if config.cuts == "private" else 0
        each = self._questions.each
        self._costs = Costs.split(config.epsilon, cuts, each, config.accounting, config.cut_share)
        records = config.records.rows.label.size
        once, often = (UniformSchedule(kind="uniform", visits=visits) for visits in (1, each))
        self.cut_ledger = Ledger(once, cuts * self._costs.of_cut if cuts else 0.0, records)
        self.ledger = Ledger(often, each * self._costs.of_string, records)

    def _plan_perturbation(self, world: World) -> None:
        config, costs = self.config, self._costs
        self._perturbations = [
            self._perturbed(config.perturbation, costs.of_string, size) for size in self._questions.sizes
        ]
        self._plan = histograms.plan_of(self._perturbations)
        span = config.records.about.span
        assert span is not None
        self.search = CutSearch(
            world.nodes, self._questions.coder.numbers, config.bins, config.groups, span,
            self._perturbed("random-response", costs.of_cut, 2) if costs.cuts else self._perturbations[0],
            config.rule == "as-published", (self.key("groups"), self.key("cuts")),
        )  # fmt: skip

    def _perturbed(self, name: str, epsilon: float, values: int) -> Perturbation:
        return perturbation(name, epsilon=epsilon, values=values, as_published=self.config.rule == "as-published")

    def _plan_packets(self, world: World) -> None:
        """Number all packets by kind, subset and peer; packet e is sent by peer e mod nodes."""
        config, each = self.config, self._questions.each
        rates = np.array([1.0, config.repeats, config.outsiders, config.forgeries])
        kinds = np.flatnonzero(rates)
        self._kind = np.repeat(kinds, each * world.nodes)
        self._sender = np.tile(np.arange(world.nodes, dtype=np.int32), kinds.size * each)
        self._number = np.tile(np.repeat(np.arange(each, dtype=np.int32), world.nodes), kinds.size)
        self._question = (self._questions.part[self._sender] * each + self._number).astype(np.int64)
        every_packet = np.arange(self._sender.size, dtype=np.int32)
        self._offset = rng.integers(self.key("window"), every_packet, config.window)
        self._exists = rng.uniform(self.key("attack"), every_packet) < rates[self._kind]
        size = circuits.packet_bytes(int(np.diff(self._plan.first).max()), tokens.BYTES, config.relays)
        self._timing = self._timing_of(world)
        second = self._timing.second
        rules = Rules(config.relays, size, config.stagger, second is not None, second or 0)
        self.packets = Packets(self, world, every_packet.size, rules)
        self.value = np.zeros(every_packet.size, np.int32)  # the true cell of the string of a packet
        self.verdict = np.full(every_packet.size, UNREAD, np.int8)
        self.seen = tokens.room_for(every_packet.size)

    def _hides_senders(self, world: World) -> bool:
        """Return whether neither the time nor the last relay of a packet depends on its sender.

        The only exception is that a sender is not its own relay, which `shuffle` accounts for.
        """
        config = self.config
        equal_times = config.window == 1 or (config.stagger > 0 and config.staggering == "window")
        equal_relays = config.relays > 0 and type(config.peers) is Uniform
        undisturbed = not (world.churn or world.tampering.members or "partition" in world.transport.faults)
        return equal_times and equal_relays and undisturbed and not config.repeats and not config.forgeries

    def _timing_of(self, world: World) -> Timing:
        config = self.config
        plain = Timing(*world.transport.delays, relays=config.relays, every=config.every)
        if not config.stagger:
            return plain
        over = plain.last(config.window) - plain.slowest_hop + 1  # all packets have reached their last relay
        return replace(plain, stagger=config.stagger, second=over if config.staggering == "window" else None)

    # The phases of a collection

    def step(self, world: World) -> None:
        """Deliver what is due; propose, search for cuts, collect packets, and finally learn."""
        if not self._propose(world):
            return
        self._read_answers(world)
        self.packets.move(world, self.aggregator, self.opened)
        if not self.opened:
            self._search(world)
        if self.opened:
            self._send_packets(world)
            self._read_packets()
            self._learn(world)
        self.turn = world.cycle

    def _propose(self, world: World) -> bool:
        """Let the aggregator commit to a seed in its first turn online; return whether it has done so."""
        if self.commitment:
            return True
        if self.aggregator < 0 and world.order.size:
            self.aggregator = self._choose_aggregator(world)
        if self.aggregator < 0 or not world.online[self.aggregator]:
            return False
        self.commitment = rng.key(int(self._seed_key), self.name, "commitment")
        if self.config.cuts == "exact":
            self.search.exact(self.config.records.rows.x)
        return True

    def _choose_aggregator(self, world: World) -> int:
        wanted = self.config.aggregator
        if wanted is None:
            online = np.sort(world.order)
            return int(online[rng.integers(self.key("aggregator"), np.zeros(1, np.int32), online.size)[0]])
        if wanted >= world.nodes:
            hint = f"nodes have the numbers 0 … {world.nodes - 1}"
            raise UserError(f"there is no node {wanted}", key=f"{self.name}.aggregator", hint=hint)
        return int(np.flatnonzero(world.label == wanted)[0])

    # Cuts

    def _search(self, world: World) -> None:
        """Ask the next group when all answers of the previous one are due; after the last, open the send window."""
        waits = self.asked and world.cycle < self.asked_at + max(1, world.transport.longest)
        if waits or not world.online[self.aggregator]:
            return
        if self.asked:
            self.search.move()
        if not self._costs.cuts or self.asked == self.config.groups:
            self.opened = world.cycle
            return
        self._ask(world, self.search.group(self.asked))
        self.asked += 1
        self.asked_at = world.cycle

    def _ask(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Let online peers with budget answer, in one message for all features; charge them before they send."""
        nodes = nodes[self._may_answer(world, nodes, self.cut_ledger)]
        self.cut_ledger.charge(self.record[nodes])
        end = np.full(nodes.size, self.aggregator, np.int32)
        size = circuits.packet_bytes(self._costs.cuts, tokens.BYTES, 0)
        arrives, lag = world.transport.send(self, "answer", nodes, end, size)
        if lag is None:
            self.search.count(nodes[arrives], self.config.records.rows.x, self.record)
        else:
            self.answer_due[nodes[arrives]] = world.cycle + lag[arrives]

    def _may_answer(self, world: World, nodes: NDArray[np.int32], ledger: Ledger) -> NDArray[np.bool_]:
        """Return which of these peers are online and have a record with budget left; let new ones choose a record."""
        rows = self.config.records.rows
        able = world.online[nodes] & (nodes != self.aggregator) & (rows.stop[nodes] > rows.first[nodes])
        kept = (self.record[nodes] >= rows.first[nodes]) & (self.record[nodes] < rows.stop[nodes])
        new = nodes[able & ~kept]
        place = rng.uniform(self.key("record"), new) * (rows.stop[new] - rows.first[new])
        self.record[new] = rows.first[new] + place.astype(np.int64)
        return np.asarray(able & ledger.left(self.record[nodes]))

    def _read_answers(self, world: World) -> None:
        """Deliver the answers that are due, unless the aggregator is offline or behind a cut."""
        nodes = np.flatnonzero((self.answer_due > self.turn) & (self.answer_due <= world.cycle)).astype(np.int32)
        there = world.transport.deliver(self, nodes, np.full(nodes.size, self.aggregator, np.int32))
        self.search.count(nodes[there], self.config.records.rows.x, self.record)

    # Packets

    def _send_packets(self, world: World) -> None:
        """Send the packets that are due: those of members first, then those of attackers."""
        age = world.cycle - self.opened
        if age > self._timing.next_turn(self.config.window - 1):
            return
        due = self._exists & (self._offset <= age) & (self.packets.status == WAITING)
        due &= world.online[self._sender] & (self._sender != self.aggregator)
        for first in range(0, due.size, world.nodes):
            self._send_row(world, np.flatnonzero(due[first : first + world.nodes]) + first)

    def _send_row(self, world: World, row: Numbers) -> None:
        """Send packets of one kind and number, at most one per peer, if the peer has relays and an answer."""
        if not row.size:
            return
        number, relays, key = int(row[0]) // world.nodes, self.config.relays, self.key("relay")
        peers = self.config.peers
        relay, ready = draw_circuits(world, peers, key, number, self._sender[row], relays, self.aggregator)
        row, relay = row[ready], relay[ready]
        ready = self._fill(world, row)
        self.packets.depart(world, row[ready], relay[ready], self.aggregator, self.opened)

    def _fill(self, world: World, row: Numbers) -> NDArray[np.bool_]:
        """Fill packets of one kind and return which can be sent; members are charged before they send."""
        if not row.size:
            return np.zeros(0, np.bool_)
        kind = self._kind[row[0]]
        original = row - np.searchsorted(self._kind, kind)
        if kind == HONEST:
            ready = self._may_answer(world, self._sender[row], self.ledger)
            record = self.record[self._sender[row[ready]]].astype(np.int64)
            self.ledger.charge(record)
            rows, question = self.config.records.rows, self._question[row[ready]]
            self.value[row[ready]] = self._questions.cells(rows, record, question, self.search.cuts)
            return ready
        if kind == REPEATED:
            self.value[row] = self.value[original]
            return np.asarray(self.packets.sent[original] > 0)
        cells = np.diff(self._plan.first)[self._question[row]]
        self.value[row] = (rng.uniform(self.key("invented"), row.astype(np.int32)) * cells).astype(np.int32)
        return np.ones(row.size, np.bool_)

    def _read_packets(self) -> None:
        """Let the aggregator check the tokens of new packets, unless it already has a model."""
        new = np.flatnonzero((self.packets.status == ARRIVED) & (self.verdict == UNREAD))
        if self.used or not new.size:
            return
        kind, question, sender, content = self._kind[new], self._question[new], self._sender[new], self._content(new)
        token = tokens.issue(self._token_key, question, sender, np.where(kind == FORGED, ~content, content))
        if self.config.outsiders:
            other = tokens.issue(self.key("another group"), question, sender, content)
            token = tokens.Tokens(*(np.where(kind == OUTSIDE, b, a) for a, b in zip(token, other, strict=True)))
        self.verdict[new] = tokens.check(self._token_key, question, content, token, self.seen)

    def _content(self, packets: Numbers) -> NDArray[np.uint64]:
        """Return a number that identifies the string of each packet."""
        parts = (self._sender[packets], self._number[packets], self.value[packets])
        peer, number, value = (part.astype(np.uint64) for part in parts)
        return np.asarray((peer << np.uint64(40)) ^ (number << np.uint64(32)) ^ value, np.uint64)

    # Learning

    def _learn(self, world: World) -> None:
        """Estimate, project and train, once no more packets can arrive or the deadline is over."""
        last, deadline = self._timing.last(self.config.window), self.config.deadline
        early = world.cycle - self.opened < (last if deadline is None else min(last, deadline))
        accepted = self.verdict == tokens.ACCEPTED
        if self.used or early or not world.online[self.aggregator] or not accepted.any():
            return
        reports = self._reports(np.arange(self._sender.size))
        counts, arrived = histograms.collect(self.key("noise"), 0, reports, accepted, self._plan, world.threads)
        estimates = histograms.estimate(counts, arrived, self._plan)
        project = histograms.project if self.config.projection == "simplex" else histograms.clip
        projected = [project(e, float(n)) for e, n in zip(estimates, arrived, strict=True)]
        cell = self._plan.first[self._question[accepted]] + self.value[accepted]
        self.rms[:] = rms_errors(self._perturbations, self._plan, cell, arrived, estimates, projected)
        subsets, alphabets = self._questions.subsets, self._questions.coder.alphabets
        found = train(projected, subsets, alphabets, self.config.trained(), self.key("training"), threads=world.threads)
        self.table[:], self.weight[:], self.used = found.table, found.score, int(accepted.sum())

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return the record that each node answers with; all other arrays are per packet or per question."""
        return {"record": self.record}

    def under_way(self) -> int:
        """Return the number of packets and of answers about cuts in transit."""
        return int((self.packets.status == UNDER_WAY).sum() + (self.answer_due > self.turn).sum())

    def _reports(self, packets: Numbers) -> Reports:
        """Return the content of these packets before the perturbation."""
        question = self._question[packets].astype(np.int32)
        return Reports(self._sender[packets], self._number[packets], question, self.value[packets])

    def holders(self, world: World) -> NDArray[np.int32]:
        """Return the aggregator, if it has a model."""
        return np.array([self.aggregator] if self.used else [], np.int32)

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weighted vote on each record; all nodes use the model of the aggregator."""
        codes = self._questions.coder.codes(x, self.search.cuts)
        ensemble = self._questions.ensemble(self.table, self.weight)
        vote = votes(ensemble, codes, soft=self.config.vote == "soft").astype(np.float32)
        return np.repeat(vote[:, None, None], nodes.size, axis=1)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of packets that the model is learned from."""
        return np.full(nodes.size, self.used, np.int32)

    # Guarantee and metrics

    def released(self) -> NDArray[np.float64]:
        """Return the answers about cuts, and every bit of the strings that members have sent."""
        sent = np.flatnonzero((self._kind == HONEST) & (self.packets.sent > 0))
        longest = int(np.diff(self._plan.first).max())
        bits = np.zeros((self._kind.size, longest))
        words = histograms.words_of(self.key("noise"), 0, self._reports(sent), self._plan)
        bits[sent] = histograms.bits_of(words, longest)
        return np.concatenate([self.search.greater.ravel(), bits.ravel()])

    def evidence(self) -> NDArray[np.float64] | None:
        """Return in how many strings the bit of the first content is set more often than that of the second one.

        Answers about cuts are not used: they have a small part of ε only.
        """
        canaries, nodes = self._canaries, self.record.size
        if canaries is None or not self.opened:
            return None
        sent = np.flatnonzero((self._kind == HONEST) & (self.packets.sent > 0) & (self.record[self._sender] >= 0))
        bits = histograms.bits_of(
            histograms.words_of(self.key("noise"), 0, self._reports(sent), self._plan),
            int(np.diff(self._plan.first).max()),
        )
        record, difference = self.record[self._sender[sent]].astype(np.int64), np.zeros(sent.size)
        for rows, sign in zip(canaries.candidates(self.config.records.rows), (1, -1), strict=True):
            cell = self._questions.cells(rows, record, self._question[sent], self.search.cuts)
            difference += sign * bits[np.arange(sent.size), cell]
        return np.asarray(np.bincount(self._sender[sent], difference, nodes)[canaries.node][:, None], np.float64)

    def audited(self) -> Audited:
        """Return an audit of one peer with numeric features that sends its packets directly to the aggregator.

        Answers of other peers do not depend on its records.
        """
        number = 2 if self.config.subsets == "all" else self.config.subsets
        changes: dict[str, Any] = {"aggregator": 0, "partitions": 1, "groups": 1, "grouping": "none", "categories": {}}
        changes |= {"relays": 0, "window": 1, "stagger": 0, "colluding": 0.0, "repeats": 0.0, "outsiders": 0.0}
        return Audited(features=number * self.config.subset_size, changes=changes | {"forgeries": 0.0})

    def guarantee(self) -> Guarantee:
        """Return ε per record: the sum over all its answers, also with `attribute-maximum`."""
        config, whole = self.config, self._costs.of_record
        if config.cuts == "exact" and self._questions.coder.numbers.size:
            what = f"ε = {whole:g} per record except for exact cuts, which are not accounted for"
            return Guarantee(None, "record", what)
        if config.accounting == "sum":
            return config.records.guarantee_of(config.epsilon, "record")
        found = config.records.guarantee_of(whole, "record")
        note = f"as published, ε = {config.epsilon:g} of the label or a single feature; true ε = {whole:g}"
        return replace(found, note=f"{note}; {found.note}" if found.note else note)

    def central(self) -> Central | None:
        """Return the central (ε, δ) of the answers so far; None if senders are not hidden or it is not below ε."""
        config, costs, local = self.config, self._costs, self.guarantee().epsilon
        sent = np.flatnonzero((self._kind == HONEST) & (self.packets.sent > 0))
        if not self._hidden or local is None or config.records.copies > 1 or not sent.size:
            return None
        packets = shuffle.Delivered(
            self._question[sent], self._sender[sent], self.packets.relay[sent], self.packets.status[sent] == ARRIVED,
            self._colludes,
        )  # fmt: skip
        reports, share = packets.reports(len(self._questions.subsets)), packets.share()
        relays = int((~np.delete(self._colludes, self.aggregator)).sum())
        direct = costs.cuts * costs.of_cut
        found = shuffle.epsilon_of_record(reports, costs.strings, relays, costs.of_string, direct, config.delta)
        if not found < local or not share:
            return None
        note = f"for the aggregator, which sees no senders; at least {reports[reports > 0].min()} reports per question"
        if share < 1:
            note += f"; for the {100 * share:.3g} % of the records whose packets pass no colluding node"
        return Central(found, config.delta, "record", note)

    def disclosure(self) -> Disclosure:
        """Return that perturbed answers are released."""
        return Disclosure("perturbed answers about one record per node", "nobody")

    def observe(self, world: World) -> dict[str, float]:
        """Return metrics of packets and their anonymity, the error of the histograms, and the spent budget."""
        numeric = self._questions.coder.numeric
        found = {
            "p.mean": float(self._plan.p.mean()),
            "q.mean": float(self._plan.q.mean()),
            "cells.mean": float(np.diff(self._plan.first).mean()),
            "epsilon.sum": self._costs.of_record,
            "epsilon.attribute": max(self._costs.of_attribute(s, numeric) for s in self._questions.of_partitions()),
            "epsilon.string": self._costs.of_string,
            "spent.mean": float((self.cut_ledger.spent() + self.ledger.spent()).mean()),
            "spent.max": float((self.cut_ledger.spent() + self.ledger.spent()).max()),
            "spent.exhausted": float((self.ledger.visits >= self._questions.each).mean()),
            "packets.refused.late": float(((self.packets.status == ARRIVED) & (self.verdict == UNREAD)).sum()),
        }
        found |= {f"packets.refused.{name}": float((self.verdict == v).sum()) for v, name in tokens.REFUSED.items()}
        if self.used:
            names = ("rms.expected.mean", "rms.measured.mean", "rms.projected.mean")
            found |= dict(zip(names, self.rms.tolist(), strict=True)) | {"weight.mean": float(self.weight.mean())}
        finite = {name: value for name, value in found.items() if np.isfinite(value)}
        return finite | self.packets.metrics() | self._anonymity(world)

    def _anonymity(self, world: World) -> dict[str, float]:
        """Return the anonymity of members' packets that have arrived; see `protocols.anonml.circuits`."""
        packets, members = self.packets, np.flatnonzero(self._kind == HONEST)
        there = packets.status[members] == ARRIVED
        if not there.any():
            return {}
        circuit = circuits.Circuits(
            part=self._questions.part[self._sender[members]], peer=self._sender[members],
            sent=packets.sent[members] - self.opened, arrived=packets.arrived[members] - self.opened,
            held=packets.held[members], there=there, relay=packets.relay[members],
        )  # fmt: skip
        return circuits.anonymity(circuit, self._timing, self._colludes)
