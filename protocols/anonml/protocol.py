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
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Audited, Layer, LayerConfig
from golfsim.protocol.learner import Learner
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import RawRecords
from protocols.anonml import circuits, histograms, tokens
from protocols.anonml.circuits import Timing
from protocols.anonml.coding import coder_of
from protocols.anonml.cuts import CutSearch
from protocols.anonml.histograms import Perturbation, Reports, perturbation
from protocols.anonml.metrics import METRICS
from protocols.anonml.packets import ARRIVED, UNDER_WAY, WAITING, Numbers, Packets, Rules, draw_circuits
from protocols.anonml.questions import Costs, Questions, rms_errors
from protocols.anonml.votes import Training, train, votes

if TYPE_CHECKING:
    from golfsim.network.world import World

HONEST, REPEATED, OUTSIDE, FORGED = range(4)  # kinds of packets, as their senders mean them
UNREAD = -1  # in place of a verdict


class AnonMLConfig(LayerConfig):
    """What is asked of whom, how answers are perturbed and sent, and how the aggregator learns from them."""

    peers: Layer[Overlay[Any]] = Field(description="the overlay that relays are drawn from")
    records: Layer[RawRecords] = Field("raw", validate_default=True, description="the records that are asked about")
    aggregator: int | None = Field(
        None, ge=0, description="the number of the node that asks; default: drawn of those online in the first turn"
    )
    # What is asked
    epsilon: float = Field(
        ge=1e-6, allow_inf_nan=True, description="the budget of each record for all its answers; inf: no noise"
    )
    accounting: Literal["sum", "attribute-maximum"] = Field(
        "sum",
        description="what epsilon is: the sum over a record's answers; or, as published (equation 7.4), the largest "
        "cost of the label or any one feature, which is less than what a record pays",
    )
    cut_share: float | None = Field(
        None, gt=0, lt=1, description="the share of ε for cuts; default: each costs what a histogram costs (ε_e = ε_h)"
    )
    partitions: int = Field(5, ge=1, description="groups of peers that are asked for different features (k_p)")
    subsets: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        2, description="how many subsets of features each peer answers (k_h); “all”: as many as fit without overlap"
    )
    subset_size: int = Field(1, ge=1, description="features of a subset (k_s)")
    bins: int = Field(2, ge=2, le=64, description="values that a number is cut into")
    cuts: Literal["private", "exact"] = Field(
        "private", description="where numbers are cut: at privately searched quantiles; “exact” ones are not private"
    )
    groups: int = Field(10, ge=1, description="groups of peers that a search for a cut asks one after the other")
    grouping: Literal["card", "none"] = Field(
        "card", description="columns and groups of categories as the data card says; or all columns, ungrouped"
    )
    categories: dict[str, tuple[tuple[str, ...], ...]] = Field(
        {}, description="groups of categories by column, in place of the card's; all unnamed ones are one more group"
    )
    perturbation: Literal["best", "random-response", "rappor", "pq"] = Field(
        "best", description="how strings are perturbed; “best”: with the least expected error"
    )
    rule: Literal["corrected", "as-published"] = Field(
        "corrected", description="the corrected or the published formulas of random response and of the cuts' search"
    )
    projection: Literal["simplex", "clip"] = Field(
        "simplex", description="how estimates lose their negative cells: nearest histogram, or cut off and rescaled"
    )
    # How the aggregator learns
    learner: Literal["logistic", "tree"] = Field("logistic", description="the classifier of each histogram")
    training: Literal["weighted", "synthetic"] = Field(
        "weighted", description="it learns from cells as weighted records, or (as published) from records drawn of them"
    )
    score: Literal["f1", "auc", "accuracy"] = Field("f1", description="what weighs a classifier's vote")
    folds: int = Field(5, ge=2, description="of the cross-validation that finds this score")
    lam: float = Field(1e-3, gt=0, alias="lambda", description="logistic: the regularisation λ")
    depth: int | None = Field(None, ge=1, description="the greatest depth of a tree; default: no limit")
    balanced: bool = Field(True, description="both classes weigh the same in training")
    vote: Literal["soft", "hard"] = Field(
        "soft", description="members vote with their probability of class 1, or (as published) with 0 or 1"
    )
    # How packets travel
    relays: int = Field(
        0, ge=0, le=100, description="relays of a circuit (h); 0: packets go straight to the aggregator"
    )
    window: int = Field(1, ge=1, le=100_000, description="cycles in which peers send, each packet in a random one")
    stagger: int = Field(
        0, ge=0, le=100_000, description="cycles of the second window, in a random one of which the last relay sends on"
    )
    staggering: Literal["window", "delay"] = Field(
        "window",
        description="the second window begins for all packets when the first is over (as published); or for each "
        "packet when it comes to its last relay",
    )
    deadline: int | None = Field(
        None, ge=1, description="cycles after which the aggregator stops waiting; default: the last possible arrival"
    )
    colluding: Share = Field(0.0, description="the share of nodes that tell the aggregator what they relay")
    repeats: Share = Field(0.0, description="the share of packets that are sent twice")
    outsiders: Share = Field(0.0, description="packets of somebody who is no member, for each packet of a member")
    forgeries: Share = Field(0.0, description="packets with a member's token and other content, for each packet")

    @model_validator(mode="after")
    def _belongs(self) -> AnonMLConfig:
        if self.cut_share is not None and (self.accounting, self.cuts) != ("sum", "private"):
            raise ValueError('cut_share belongs to accounting = "sum" and cuts = "private"')
        if self.stagger and not self.relays:
            raise ValueError("stagger: the last relay staggers, so it needs relays of at least 1")
        return self

    def trained(self) -> Training:
        """How members are trained."""
        return Training(
            learner=self.learner, records=self.training, metric=self.score, folds=self.folds, lam=self.lam,
            depth=self.depth, balanced=self.balanced,
        )  # fmt: skip


class AnonML(Learner[AnonMLConfig]):
    """An aggregator collects locally private histograms of its peers' records and learns one classifier from them.

    The aggregator itself answers nothing. A node with several records answers with one of them, drawn at random.
    """

    Config = AnonMLConfig
    accepts = frozenset({"loss", "delay", "partition"})
    secret = frozenset({"noise", "cuts"})
    metrics = METRICS

    # What is fixed beforehand: questions, budget, packets

    def setup(self, world: World) -> None:
        """Fix what the committed seed decides: partitions, subsets, and how each answer is perturbed."""
        self._seed_key, self._token_key = self.key("partitions"), self.key("tokens")
        self._refuse_unfit()
        try:
            self._plan_questions(world)
            self._plan_perturbation(world)
        except UserError as error:
            raise UserError(error.what, key=f"{self.name}.{error.key}", hint=error.hint) from None
        self._plan_packets(world)
        self.aggregator = -1
        self.commitment = np.uint64(0)  # a hash of the seed that fixes partitions and subsets; 0: nothing proposed yet
        self.asked = self.asked_at = self.opened = self.turn = 0
        self.record = np.full(world.nodes, -1, np.int32)  # the one each node answers with
        self.answer_due = np.zeros(world.nodes, np.int32)  # when each node's answer about cuts arrives
        self.table = np.zeros(int(self._plan.first[-1]) // 2)
        self.weight = np.zeros(len(self._questions.subsets))
        self.used = 0  # packets that the model is made of; 0: there is none yet
        self.rms = np.zeros(3)  # expected, measured, and after projection

    def _refuse_unfit(self) -> None:
        records = self.config.records
        if records.classes != 2:
            what = f"AnonML tells two classes apart, and there are {records.classes}"
            raise UserError(what, key="data.set", hint="take a data set of two classes")
        if records.about.span is None:
            raise UserError(
                "nobody knows the range of the features without looking at the records",
                key="data.scale",
                hint='cuts are searched in a public range: scale = ["minmax"], without feature skew',
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
        """Packet e is a kind of packet, about one of a peer's subsets, of peer e mod nodes."""
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
        self.value = np.zeros(every_packet.size, np.int32)  # the cell that a packet's string is about
        self.verdict = np.full(every_packet.size, UNREAD, np.int8)
        self.seen = tokens.room_for(every_packet.size)

    def _timing_of(self, world: World) -> Timing:
        config = self.config
        plain = Timing(*world.transport.delays, relays=config.relays, every=config.every)
        if not config.stagger:
            return plain
        over = plain.last(config.window) - plain.slowest_hop + 1  # all that was sent has reached its last relay
        return replace(plain, stagger=config.stagger, second=over if config.staggering == "window" else None)

    # The course of a collection

    def step(self, world: World) -> None:
        """Deliver what is due; propose, search for cuts, collect packets, and in the end learn."""
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
        """The aggregator commits to a seed and begins, in its first turn online; returns whether it has."""
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
            hint = f"they are numbered from 0 to {world.nodes - 1}"
            raise UserError(f"there is no node {wanted}", key=f"{self.name}.aggregator", hint=hint)
        return int(np.flatnonzero(world.label == wanted)[0])

    # Cuts

    def _search(self, world: World) -> None:
        """Ask the next group once all answers of the one before can have come; after the last, packets are wanted."""
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
        """Peers that are online and have budget answer, one message for all features; spend first, send after."""
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
        """Which of these peers are online and have a record with budget left; they choose one if they have none."""
        rows = self.config.records.rows
        able = world.online[nodes] & (nodes != self.aggregator) & (rows.stop[nodes] > rows.first[nodes])
        kept = (self.record[nodes] >= rows.first[nodes]) & (self.record[nodes] < rows.stop[nodes])
        new = nodes[able & ~kept]
        place = rng.uniform(self.key("record"), new) * (rows.stop[new] - rows.first[new])
        self.record[new] = rows.first[new] + place.astype(np.int64)
        return np.asarray(able & ledger.left(self.record[nodes]))

    def _read_answers(self, world: World) -> None:
        """Answers that are due arrive, unless the aggregator is offline or behind a cut."""
        nodes = np.flatnonzero((self.answer_due > self.turn) & (self.answer_due <= world.cycle)).astype(np.int32)
        there = world.transport.deliver(self, nodes, np.full(nodes.size, self.aggregator, np.int32))
        self.search.count(nodes[there], self.config.records.rows.x, self.record)

    # Packets

    def _send_packets(self, world: World) -> None:
        """Peers send what it is time for: members' packets first, then what attackers add to them."""
        age = world.cycle - self.opened
        if age > self._timing.next_turn(self.config.window - 1):
            return
        due = self._exists & (self._offset <= age) & (self.packets.status == WAITING)
        due &= world.online[self._sender] & (self._sender != self.aggregator)
        for first in range(0, due.size, world.nodes):
            self._send_row(world, np.flatnonzero(due[first : first + world.nodes]) + first)

    def _send_row(self, world: World, row: Numbers) -> None:
        """Packets of one kind and number, at most one a peer: who has relays, and something to send, sends."""
        if not row.size:
            return
        number, relays, key = int(row[0]) // world.nodes, self.config.relays, self.key("relay")
        peers = self.config.peers
        relay, ready = draw_circuits(world, peers, key, number, self._sender[row], relays, self.aggregator)
        row, relay = row[ready], relay[ready]
        ready = self._fill(world, row)
        self.packets.depart(world, row[ready], relay[ready], self.aggregator, self.opened)

    def _fill(self, world: World, row: Numbers) -> NDArray[np.bool_]:
        """Put something into packets of one kind; which of them can be sent. Spend first, send after."""
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
        """The aggregator looks at the tokens of what has come, unless it has learnt already."""
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
        """A number for the string that each packet carries: the same for the same string."""
        parts = (self._sender[packets], self._number[packets], self.value[packets])
        peer, number, value = (part.astype(np.uint64) for part in parts)
        return np.asarray((peer << np.uint64(40)) ^ (number << np.uint64(32)) ^ value, np.uint64)

    # Learning

    def _learn(self, world: World) -> None:
        """Once nothing more can come, or the deadline is over: estimate, project, train."""
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
        """The record that each node answers with; the others are by packet or by question."""
        return {"record": self.record}

    def under_way(self) -> int:
        """Packets between two stops, and answers about cuts."""
        return int((self.packets.status == UNDER_WAY).sum() + (self.answer_due > self.turn).sum())

    def _reports(self, packets: Numbers) -> Reports:
        """What these packets carry, before it is perturbed."""
        question = self._question[packets].astype(np.int32)
        return Reports(self._sender[packets], self._number[packets], question, self.value[packets])

    def holders(self, world: World) -> NDArray[np.int32]:
        """The aggregator, once it has a model."""
        return np.array([self.aggregator] if self.used else [], np.int32)

    def scores(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The weighted vote on each record; all that are asked have the aggregator's model."""
        codes = self._questions.coder.codes(x, self.search.cuts)
        ensemble = self._questions.ensemble(self.table, self.weight)
        vote = votes(ensemble, codes, soft=self.config.vote == "soft").astype(np.float32)
        return np.repeat(vote[:, None, None], nodes.size, axis=1)

    def ages(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Packets that the model is made of."""
        return np.full(nodes.size, self.used, np.int32)

    # What it costs, and what is seen

    def released(self) -> NDArray[np.float64]:
        """The answers about cuts, and every bit of the strings that members have sent."""
        sent = np.flatnonzero((self._kind == HONEST) & (self.packets.sent > 0))
        longest = int(np.diff(self._plan.first).max())
        bits = np.zeros((self._kind.size, longest))
        words = histograms.words_of(self.key("noise"), 0, self._reports(sent), self._plan)
        bits[sent] = histograms.bits_of(words, longest)
        return np.concatenate([self.search.greater.ravel(), bits.ravel()])

    def audited(self) -> Audited:
        """One peer whose packets go straight to the aggregator, about numbers: all others' answers are their own."""
        number = 2 if self.config.subsets == "all" else self.config.subsets
        changes: dict[str, Any] = {"aggregator": 0, "partitions": 1, "groups": 1, "grouping": "none", "categories": {}}
        changes |= {"relays": 0, "window": 1, "stagger": 0, "colluding": 0.0, "repeats": 0.0, "outsiders": 0.0}
        return Audited(features=number * self.config.subset_size, changes=changes | {"forgeries": 0.0})

    def guarantee(self) -> Guarantee:
        """ε per record: the sum over all its answers, whatever the file calls ε."""
        config, whole = self.config, self._costs.of_record
        if config.cuts == "exact" and self._questions.coder.numbers.size:
            what = f"ε = {whole:g} per record but for exact cuts, which are not accounted for"
            return Guarantee(None, "record", what)
        if config.accounting == "sum":
            return config.records.guarantee_of(config.epsilon, "record")
        found = config.records.guarantee_of(whole, "record")
        note = f"as published, ε = {config.epsilon:g} of the label or a single feature; true ε = {whole:g}"
        return replace(found, note=f"{note}; {found.note}" if found.note else note)

    def observe(self, world: World) -> dict[str, float]:
        """Packets and how well they are hidden, the error of the histograms, and what was spent."""
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
        """Of members' packets that have arrived; see `protocols.anonml.circuits`."""
        packets, members = self.packets, np.flatnonzero(self._kind == HONEST)
        there = packets.status[members] == ARRIVED
        if not there.any():
            return {}
        colluders = rng.uniform(self.key("colluding"), np.arange(world.nodes, dtype=np.int32))
        circuit = circuits.Circuits(
            part=self._questions.part[self._sender[members]], peer=self._sender[members],
            sent=packets.sent[members] - self.opened, arrived=packets.arrived[members] - self.opened,
            held=packets.held[members], there=there, relay=packets.relay[members],
        )  # fmt: skip
        return circuits.anonymity(circuit, self._timing, colluders < self.config.colluding)
