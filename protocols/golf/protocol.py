"""Golf: gossip learning with linear models on random walks (Ormándi, Hegedűs & Jelasity 2013)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.metrics import Metric
from golfsim.core.threads import as_if_one_by_one
from golfsim.learning.linear import Descent, linear
from golfsim.learning.many import Together
from golfsim.learning.packing import (
    CODECS,
    PIVOT,
    TOP,
    Memory,
    MessageConfig,
    find_links,
    nothing_remembered,
    pack_rows,
    packing_of,
)
from golfsim.learning.updates import (
    Noise,
    guarantee_of_gradients,
    spent_on_all,
)
from golfsim.network.adversaries import Forgery, as_sent, forge_rows
from golfsim.network.clock import Clock
from golfsim.network.flow import METRICS as FLOW_METRICS
from golfsim.network.flow import Flow, count_up
from golfsim.network.mailbox import Mailbox
from golfsim.privacy.ledger import BUDGET_METRICS, Ledger, visits_of
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Audited, Disclosure
from golfsim.protocol.learner import largest
from golfsim.protocol.records import refuse_unfit
from protocols.golf.exchange import Exchange
from protocols.golf.receiving import (
    MERGES,
    VARIANTS,
    FewMessages,
    FewModels,
    Merging,
    Messages,
    Models,
    Reception,
    receive,
    receive_plainly,
    update_first,
)
from protocols.golf.settings import GolfConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from golfsim.learning.exposure import Exposure
    from golfsim.learning.kinds import Rule
    from golfsim.learning.watching import Arrivals
    from golfsim.network.world import World

TURN = 20  # bytes per node: receivers, what arrives, and the order of deliveries
LARGE = 4096  # bytes of a model
NOBODY = np.empty(0, np.int32)
NO_NUMBERS = np.empty(0, np.int64)
NO_PARTS = np.empty((0, 1), np.int32)
UNUSED = np.empty(0, np.bool_)


class Golf(Descent[GolfConfig]):
    """Gossip learning: each cycle every node sends its model to a peer, which updates it with its own records."""

    Config = GolfConfig
    repeats = True
    batches = True
    seen_in_part = True
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (
        *Descent.metrics,
        Metric(
            "voted_error",
            "The share of test records that the vote of a node's stored models classifies incorrectly; with `cache`.",
            "share of test records",
            "down",
            True,
        ),
        *BUDGET_METRICS,
        *FLOW_METRICS,
    )

    def setup(self, world: World) -> None:
        """Give all nodes the first model."""
        config = self.config
        self.allocate(world, world.nodes)
        shape = self.w.shape[1:]
        self._set_up_messages(world)
        remembers_last = config.variant in ("mu", "um")
        self.last = np.repeat(self._initial[None], world.nodes if remembers_last else 0, axis=0)
        self.last_age = np.zeros(world.nodes if remembers_last else 0, np.int32)
        self.cache = np.zeros((world.nodes, config.cache, *shape), np.float32)
        self.cached = np.zeros(world.nodes if config.cache else 0, np.int32)
        if world.transport.longest:
            beside = {"part_age": self._part_age, "part": self._no_part} if self._parts > 1 else {}
            self.mail = Mailbox(self, world, each=self._each(world), w=self.w, age=self.age, **beside)
        if config.receive == "next-turn":
            self.waiting = np.zeros_like(self.w)
            self.waiting_age, self.waiting_from = np.zeros_like(self.age), np.zeros_like(self.age)
            self.waits = np.zeros(world.nodes, np.bool_)
        self.old = np.zeros((world.tampering.keeps_old().size, *shape), np.float32)
        self.old_kept = np.zeros(len(self.old), np.bool_)
        self._merging = Merging(
            shape[0], config.cache, VARIANTS[config.variant], config.average == "age", MERGES[config.merge],
            config.clip or 0.0, -1 if config.limit is None else config.limit, config.accept == "older", config._partial,
        )  # fmt: skip
        private = config.epsilon is not None
        if private:
            self.refuse_unbounded()
            refuse_unfit(config.records, config.norm, self.name, any_length=config.learner.clips)
        units = config.records.rows.label.size if config.unit == "record" else world.nodes
        spent = spent_on_all(config.epsilon or 0.0, config.rule, config.records.models)
        self.ledger = Ledger(config.schedule, spent, units if private else 0, config.delta or 0.0)
        noise = Noise(private, config.noise_kind, config.unit == "record", self.key("noise"))
        self._noise = self.watched(noise, world, visits_of(config.schedule) if private else 1)
        if self._arrivals is not None and config.message is not None:
            what = "the audit does not see what a node receives if messages are packed"
            raise UserError(what, key=f"{self.name}.message", hint="use --view everybody", docs="privacy")
        self._peer_key, self._part_key = self.key("peer"), self.key("part")
        usual = config.variant == "algorithm1" and not config.cache and config.clip is None and config.epsilon is None
        usual = usual and config.learner.linear and config.message is None
        usual = usual and config.flow is None and config.accept == "all" and self._canaries is None
        self._exchange_seen: Exchange | None = None
        self._plain = usual and int(config.records.capacity().max(initial=0)) <= 1

    def _set_up_messages(self, world: World) -> None:
        """Allocate the token accounts, the ages of parts, and what codecs remember."""
        config, (rows, numbers) = self.config, self.w.shape[1:]
        message = config.message or MessageConfig()
        self._parts = message.parts or 1
        if self._parts > numbers:
            what = f"a model has {numbers} numbers per row; they cannot be divided into {self._parts} parts"
            raise UserError(what, key=f"{self.name}.message.parts", hint=f"use at most {numbers} parts")
        if config._partial and config.learner.merge is not None:
            what = f"“{config.learner.config.use}” merges complete models only"
            raise UserError(what, key=f"{self.name}.message", hint="leave parts, sample and top out")
        self._part_age, self._no_part = NO_PARTS, np.zeros(world.nodes, np.int32)
        if self._parts > 1:
            self._part_age = self.part_age = np.zeros((world.nodes, self._parts), np.int32)
        if config.flow is not None:
            if config.flow.kind == "reactive" and not world.transport.longest:
                what = "without delay a message and all answers to it arrive in the same turn, which never ends"
                raise UserError(what, key=f"{self.name}.flow.kind", hint="set delay in [transport], or another kind")
            self.flow = Flow(config.flow, self, world.nodes, self._parts)
        if config.own_clock:
            self.clock = Clock(
                world.nodes, period=config.period, random_phase=config.phase == "random", jitter=config.jitter,
                fixed=config.jitter_of == "node", at_return=config.on_return == "send", key=self.key("clock"),
            )  # fmt: skip
        if config.message is not None:
            self._message_bytes = message.size(rows, numbers)
        self._part_bytes = np.array([message.size(rows, numbers, part) for part in range(self._parts)])
        memory = nothing_remembered(numbers)
        if message.select == TOP:
            self.reference = np.zeros((world.nodes, rows, numbers), np.float32)
            memory = memory._replace(reference=linear(self.reference))
        if CODECS[message.codec] == PIVOT:
            links = self._fixed_links(world)
            self.estimate = np.zeros((links, rows, numbers), np.float32)
            self.link_step, self.moved = np.ones_like(self.estimate), np.zeros(self.estimate.shape, np.bool_)
            moved = self.moved.reshape(-1, numbers)
            memory = Memory(memory.reference, linear(self.estimate), linear(self.link_step), moved)
        self._packing = packing_of(config.message, self.key("message"), numbers, memory)

    def _fixed_links(self, world: World) -> int:
        """Return the number of links of the overlay; refuse an overlay whose links change, and delays."""
        peers, key = self.config.peers, f"{self.name}.message.codec"
        if not peers.fixed:
            what = f"“pivot” needs links that stay; those of “{peers.name}” change"
            raise UserError(what, key=key, hint="use a static_overlay as peers, or another codec")
        if world.transport.longest:
            what = "“pivot” needs both ends of a link to agree on the last message, so messages may have no delay"
            raise UserError(what, key=key, hint="remove delay from [transport], or use another codec")
        links = peers.links(world)
        assert links is not None
        self._start_of, self._neighbour = links.indptr.astype(np.int64), links.indices.astype(np.int32)
        self._source = np.repeat(np.arange(world.nodes, dtype=np.int32), np.diff(self._start_of))
        return int(self._neighbour.size)

    def memory(self, world: World) -> int:
        """Return the bytes of the models: current, last received, cached and in transit."""
        config, one, nodes = self.config, self.size_of_models(1), world.nodes
        stored = nodes * (1 + (config.variant in ("mu", "um")) + config.cache) + world.tampering.keeps_old().size
        units = int(config.records.capacity().sum()) if config.unit == "record" else nodes
        budget = 4 * units if config.epsilon is not None else 0
        return stored * one + self._mailbox(world) + nodes * TURN + budget + self._beside(world)

    def _mailbox(self, world: World) -> int:
        """Return the bytes of the mailbox: models in transit, with the ages of their parts."""
        parts = (self.config.message or MessageConfig()).parts
        return Mailbox.memory(world, self.size_of_models(1) + (4 * parts + 4 if parts else 0), self._each(world))

    def _each(self, world: World) -> int:
        """Return how many messages per node and cycle of the longest delay the mailbox has room for."""
        message, turns = self.config.message or MessageConfig(), self.config.most_turns * self.config.times
        return turns * Flow.each(self.config.flow, world.transport.longest, message.parts or 1)

    def _beside(self, world: World) -> int:
        """Return the bytes of accounts, ages of parts, and what codecs remember."""
        message, one = self.config.message or MessageConfig(), self.size_of_models(1)
        parts = message.parts or 1
        accounts = world.nodes * (4 * parts + 24) if self.config.flow is not None else 0
        accounts += 4 * world.nodes * parts if message.parts else 0
        accounts += 12 * world.nodes * self.config.own_clock
        accounts += (one + 5) * world.nodes * (self.config.receive == "next-turn")
        stored = world.nodes * one if message.select == TOP else 0
        if CODECS[message.codec] == PIVOT:
            stored += 3 * self.config.peers.most_links(world) * one
        return accounts + stored

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give these nodes the first model, also as the last received one; empty the cache."""
        self.w[nodes] = self._initial
        if len(self.last):
            self.last[nodes] = self._initial
        kept = [self.kept] if hasattr(self, "kept") else []
        for array in (self.age, self.last_age, self.cache, self._part_age, self._packing.memory.reference, *kept):
            if len(array):
                array[nodes] = 0
        if self.config.flow is not None:
            self.flow.start(nodes)
        if self.config.receive == "next-turn":
            self.waits[nodes] = False
        if self._exchange_seen is not None:
            self._exchange_seen.restart(nodes)
        if self.config.initial_update:
            self._update_first(nodes)
        if self._packing.codec == PIVOT:
            self._forget(world, nodes)
        if self.cached.size:
            self.cached[nodes] = 1
            if self.config.initial_update:
                self.cache[nodes, 0] = self.w[nodes]

    def _update_first(self, nodes: NDArray[np.int32]) -> None:
        """Update the first model of these nodes with their own records."""
        how = Reception(self.rule(), self._merging, self._noise, self.ledger.budget, self._packing)
        update_first(nodes, self._models(), self.config.records.rows, how)
        if self._parts > 1:
            self.part_age[nodes] = self.age[nodes, None]

    def senders(self, world: World) -> NDArray[np.int32]:
        """Return the nodes whose turn it is, by their own clocks if they have them; then a node may occur twice."""
        return self.clock.senders(world) if self.config.own_clock else world.order

    def _forget(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Let both ends of the links of these nodes forget the messages that they have exchanged."""
        new = np.zeros(world.nodes, np.bool_)
        new[nodes] = True
        links = new[self._source] | new[self._neighbour]
        self.estimate[links], self.link_step[links], self.moved[links] = 0, 1, False

    def step(self, world: World) -> None:
        """Receive the messages that are due, then let every node send its model."""
        forgery = self._forgery(world)
        if self.config.receive == "next-turn":
            self._by_turns(world, forgery)
            return
        if self.config.flow is not None or self.config.message is not None or self.config.own_clock:
            self._exchange(world, forgery)
            return
        if world.transport.longest:
            self._receive(world.cycle, world.threads, self._due(world), as_sent(forgery))
        nodes = self.senders(world)
        peer = self.config.peers.choose(world, nodes, self._peer_key)
        arrives, lag = world.transport.send(self, "model", nodes, peer, self._message_bytes)
        if lag is not None:
            slots = self.mail.put(world, lag, nodes, peer, arrives, w=self.w, age=self.age)
            forge_rows(
                forgery, self.mail.src[slots], world.cycle, slots, linear(self.mail.w), linear(self.old), len(self.w[0])
            )
        else:
            self._deliver(world, nodes, peer, arrives, forgery)

    def _by_turns(self, world: World, forgery: Forgery) -> None:
        """Let the nodes whose turn it is use the model that waits for them, then send; what arrives waits."""
        if world.transport.longest:
            slots, receivers = self.mail.due(world)
            self._let_wait(self.mail.w, self.mail.age, slots, self.mail.src[slots], receivers)
        nodes = self.senders(world)
        ready = np.unique(nodes[self.waits[nodes]])
        waiting = Messages(
            ready, self.waiting_from[ready], ready, self.waiting, self.waiting_age, NO_PARTS, NOBODY, NO_NUMBERS,
            NO_NUMBERS, UNUSED,
        )  # fmt: skip
        self._receive(world.cycle, world.threads, waiting, as_sent(forgery))
        self.waits[ready] = False
        number = np.empty(nodes.size, np.int64)
        count_up(nodes, np.zeros(world.nodes, np.int64), number)
        peer = self.config.peers.choose(world, nodes, self._peer_key, number)
        arrives, lag = world.transport.send(self, "model", nodes, peer, self._message_bytes, number)
        if lag is not None:
            place = self.mail.put(world, lag, nodes, peer, arrives, w=self.w, age=self.age)
            senders, target = self.mail.src[place], self.mail.w
        else:
            senders, place = self._let_wait(self.w, self.age, nodes[arrives], nodes[arrives], peer[arrives])
            target = self.waiting
        forge_rows(forgery, senders, world.cycle, place, linear(target), linear(self.old), len(self.w[0]))

    def _let_wait(
        self, w: NDArray[np.float32], age: NDArray[np.int32], row: NDArray[np.int32], src: NDArray[np.int32],
        dst: NDArray[np.int32],
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
        """Let received models wait, the last one of each receiver; return the senders and receivers of these."""
        last = dst.size - 1 - np.unique(dst[::-1], return_index=True)[1]
        row, src, dst = row[last], src[last], dst[last]
        self.waiting[dst], self.waiting_age[dst] = w[row], age[row]
        self.waiting_from[dst], self.waits[dst] = src, True
        return src, dst

    def _due(self, world: World) -> Messages:
        """Return the messages that are due."""
        slots, receivers = self.mail.due(world)
        part_age, part = (self.mail.part_age, self.mail.part[slots]) if self._parts > 1 else (NO_PARTS, NOBODY)
        return Messages(
            slots, self.mail.src[slots], receivers, self.mail.w, self.mail.age, part_age, part, NO_NUMBERS, NO_NUMBERS,
            UNUSED,
        )  # fmt: skip

    def _exchange(self, world: World, forgery: Forgery) -> None:
        """Receive and send where nodes have token accounts, or where messages are packed.

        With delays, nodes first receive the messages that are due, and answer them. Without, the answers to the
        messages of a turn are sent after all of these have arrived, then the answers to the answers, until no node
        answers.
        """
        if world.transport.longest:
            answers = self._received(world, self._due(world), as_sent(forgery), live=False)
            turns = self._turns(world)
            self._send(world, np.concatenate([answers[0], turns[0]]), np.concatenate([answers[1], turns[1]]), forgery)
            return
        nodes, part = self._turns(world)
        while nodes.size:
            nodes, part = self._received(world, self._send(world, nodes, part, forgery), forgery, live=True)

    def _turns(self, world: World) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the nodes that send in their turn, and the part that each of them sends."""
        nodes = self.senders(world)
        part = self._drawn_parts(world, nodes)
        if self.config.flow is None:
            return nodes, part
        sends = self.flow.sends(world.cycle, nodes, part)
        return nodes[sends], part[sends]

    def _drawn_parts(self, world: World, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return a random part of the model for each of these nodes, which may occur several times."""
        number, part = self._counted(world, nodes), np.zeros(nodes.size, np.int32)
        for k in range(int(number.max(initial=0)) + 1):
            now = number == k
            part[now] = rng.integers(self._part_key, nodes[now], self._parts, world.cycle, k)
        return part

    def _counted(self, world: World, nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the number of each entry among those of the same node."""
        number = np.zeros(nodes.size, np.int64)
        if self.config.own_clock:
            count_up(nodes, np.zeros(world.nodes, np.int64), number)
        return number

    def _send(self, world: World, nodes: NDArray[np.int32], part: NDArray[np.int32], forgery: Forgery) -> Messages:
        """Send a message from each of these nodes, which may occur several times; return those that arrive at once."""
        number = self._counted(world, nodes) if self.config.flow is None else self.flow.numbers(world.cycle, nodes)
        k = number if number.any() else 0  # one number for all needs no search for repetitions
        peer = self.config.peers.choose(world, nodes, self._peer_key, k)
        sizes = self._message_bytes if self._parts == 1 else self._part_bytes[part]
        arrives, lag = world.transport.send(self, "model", nodes, peer, sizes, k)
        link = np.full(nodes.size, -1, np.int64)
        if self._packing.codec == PIVOT:
            find_links(self._start_of, self._neighbour, nodes, peer, link)
        nodes, peer, part = nodes[arrives], peer[arrives], part[arrives]
        number, link = number[arrives], link[arrives]
        if lag is None:
            return Messages(nodes, nodes, peer, self.w, self.age, self._part_age, part, number, link, UNUSED)
        beside = {"part_age": self._part_age} if self._parts > 1 else {}
        slots = self.mail.put(
            world, lag[arrives], nodes, peer, np.ones(nodes.size, np.bool_), w=self.w, age=self.age, **beside
        )
        if self._parts > 1:
            self.mail.part[slots] = part
        w, rows = linear(self.mail.w), len(self.w[0])
        forge_rows(forgery, nodes, world.cycle, slots, w, linear(self.old), rows)
        if self._packing.on:
            pack_rows(self._packing, w, slots, rows, world.cycle, nodes, number, part, link)
        return Messages(slots, nodes, peer, self.w, self.age, self._part_age, part, number, link, UNUSED)

    def _received(
        self, world: World, messages: Messages, forgery: Forgery, live: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Receive messages, and return the nodes that answer, once per answer, with the part that they answer with."""
        if self.config.flow is not None:
            messages = messages._replace(used=np.empty(messages.dst.size, np.bool_))
        if self._parts == 1:
            messages = messages._replace(part=np.zeros(messages.dst.size, np.int32))
        alone = self._packing.select == TOP and self.config.flow is not None  # a node may send twice in a row
        self._receive(world.cycle, 1 if alone else world.threads, messages, forgery, live)
        if self.config.flow is None:
            return NOBODY, NOBODY
        answers = self.flow.answers(world.cycle, messages.dst, messages.used, messages.part)
        return np.repeat(messages.dst, answers), np.repeat(messages.part, answers)

    def _deliver(
        self,
        world: World,
        nodes: NDArray[np.int32],
        peer: NDArray[np.int32],
        arrives: NDArray[np.bool_],
        forgery: Forgery,
    ) -> None:
        """Let messages arrive in this cycle, in parallel with the next layer unless models are large."""
        batched = self.config.learner.batched  # several threads of its own
        cycle, alone = world.cycle, self.w[0].nbytes > LARGE or batched or not world.pipeline.active
        alone = alone or self._exchange_seen is not None
        threads = world.threads if alone else max(1, world.threads - 1)

        def receive() -> None:
            senders = nodes[arrives]
            messages = Messages(
                senders, senders, peer[arrives], self.w, self.age, NO_PARTS, NOBODY, NO_NUMBERS, NO_NUMBERS, UNUSED
            )
            self._receive(cycle, threads, messages, forgery, live=True)

        if alone:
            receive()
        else:
            world.pipeline.later(receive)

    def _forgery(self, world: World) -> Forgery:
        if not len(self.old):
            return world.tampering.forgery(world.cycle, world.turn)
        begins = ~self.old_kept & (world.tampering.since_old() <= world.cycle)
        self.old[begins] = self.w[world.tampering.keeps_old()[begins]]
        self.old_kept |= begins
        return world.tampering.forgery(world.cycle, world.turn)

    def _models(self) -> Models:
        return Models(
            linear(self.w), self.age, linear(self.last), self.last_age, linear(self.cache), self.cached, self._part_age
        )

    def _receive(self, cycle: int, threads: int, messages: Messages, forgery: Forgery, live: bool = False) -> None:
        """Receive messages; `live`: a message carries its sender's model at the time when it is processed."""
        rows = self.config.records.rows
        if self._plain and not forgery.kind.size and self._exchange_seen is None:
            few = FewMessages(messages.row, messages.dst, linear(messages.w), messages.age)
            own, rule = FewModels(linear(self.w), self.age), self.rule()

            def run_plainly(events: NDArray[np.int32], lo: int, hi: int) -> None:
                receive_plainly(events, lo, hi, few, own, rows, rule, self._merging)

            as_if_one_by_one(threads, run_plainly, len(self.w), messages.row if live else None, messages.dst)
            return
        models = self._models()
        messages = messages._replace(w=linear(messages.w))
        packing = self._packing._replace(on=self._packing.on and live)  # others were packed when they were sent
        how = Reception(self.rule(), self._merging, self._noise, self.ledger.budget, packing)
        if self.config.learner.batched:
            from protocols.golf.batches import receive_in_batches

            together = Together(self.config.learner, self._seen, rows, how.rule, how.noise, how.budget, threads)
            alone = packing.select == TOP and self.config.flow is not None  # a node may send twice in a row
            receive_in_batches(together, how, messages, models, forgery, linear(self.old), cycle, live, alone)
            return

        def run(events: NDArray[np.int32], lo: int, hi: int) -> None:
            receive(events, lo, hi, messages, models, rows, how, forgery, linear(self.old), cycle)

        if self._exchange_seen is not None:
            self._follow(self._exchange_seen, run, messages, how.rule)
        elif self._arrivals is not None:
            self._receive_in_view(self._arrivals, run, messages)
        else:
            as_if_one_by_one(threads, run, len(self.w), messages.row if live else None, messages.dst)

    def _receive_in_view(
        self, arrivals: Arrivals, run: Callable[[NDArray[np.int32], int, int], None], messages: Messages
    ) -> None:
        """Receive messages one after the other, and note those that arrive at an observer of an audit."""
        events, rows = np.arange(messages.dst.size, dtype=np.int32), self.w.shape[1]
        begin = 0
        for event in np.flatnonzero(arrivals.observes[messages.dst]):
            run(events, begin, int(event))
            begin, row, node = int(event), int(messages.row[event]), int(messages.dst[event])
            sent = messages.w[row * rows : (row + 1) * rows].astype(np.float64)
            own = self.w[node].astype(np.float64)
            arrivals.receive(int(messages.sender[event]), int(messages.age[row]), sent, int(self.age[node]), own)
        run(events, begin, events.size)

    def expose(self, exposure: Exposure, world: World) -> bool:
        """Add what attackers see of records from now on: models that they send, and those that come back."""
        config = self.config
        obstacles = {
            f'learner = "{config.learner.config.use}", which is not linear': not config.learner.linear,
            "messages with a delay": world.transport.longest > 0,
            "message": config.message is not None,
            'receive = "next-turn"': config.receive == "next-turn",
            'accept = "older"': config.accept == "older",
            "clip": config.clip is not None,
            "merge": config.merge != "mean",
        }
        found = [name for name, there in obstacles.items() if there]
        if found:
            what = f"the attack “inversion” on “{self.name}” is not defined with {found[0]}"
            raise UserError(what, key="observe.attacks", hint="remove “inversion”, or change that", docs="privacy")
        self._exchange_seen = Exchange(exposure, self._initial, self._merging, config.initial_update)
        return True

    def _follow(
        self, seen: Exchange, run: Callable[[NDArray[np.int32], int, int], None], messages: Messages, rule: Rule
    ) -> None:
        """Receive messages one after the other, and let attackers note those that they send or receive."""
        rows, models, start = self.config.records.rows, self.w.shape[1], 0
        events = np.arange(messages.dst.size, dtype=np.int32)
        updates = 2 if self.config.variant == "um" else 1
        for e in [*seen.involved(messages.sender, messages.dst).tolist(), messages.dst.size]:
            run(events, start, e)
            seen.of_others(messages.dst[start:e])
            if e == messages.dst.size:
                return
            row, dst = int(messages.row[e]), int(messages.dst[e])
            w, age, before = (
                messages.w[row * models : (row + 1) * models].copy(),
                int(messages.age[row]),
                self._visits(dst),
            )
            run(events, e, e + 1)
            learned = rows.stop[dst] > rows.first[dst] and (
                self.config.epsilon is None or self._visits(dst) == before + updates
            )
            seen.message(int(messages.sender[e]), dst, w, age, bool(learned), rule, rows)
            start = e + 1

    def _visits(self, node: int) -> int:
        """Return how often the first record of a node, or the node itself, was charged."""
        unit = int(self.config.records.rows.first[node]) if self.config.unit == "record" else node
        return int(self.ledger.visits[unit]) if unit < self.ledger.visits.size else 0

    def value_width(self, second: bool) -> int:
        """Return the number of numbers of a model."""
        return int(np.prod(self.config.learner.shape(self._shape_of_records())))

    def values(self, world: World, nodes: NDArray[np.int32], second: bool) -> NDArray[np.float64]:
        """Return the models of these nodes."""
        return self.w[nodes].reshape(nodes.size, self.value_width(second)).astype(np.float64)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the records, or that of the noise in the gradients."""
        config = self.config
        if config.epsilon is None:
            return super().guarantee()
        return guarantee_of_gradients(config.records, config.epsilon, config.rule, config.unit, config.delta or 0.0)

    def disclosure(self) -> Disclosure:
        """Return that models are released, with noise in each gradient if there is an ε."""
        noisy = Disclosure("models with noise in each gradient", "nobody")
        return super().disclosure() if self.config.epsilon is None else noisy

    def audited(self) -> Audited:
        """Return an audit of two nodes that exchange complete models until the budget is spent, and once more."""
        changes = dict.fromkeys(("flow", "message", "period", "phase", "jitter", "jitter_of", "on_return", "receive"))
        return Audited(cycles=visits_of(self.config.schedule) + 1, changes=changes)

    def observe(self, world: World) -> dict[str, float]:
        """Return the metrics, with the spent budget if gradients are perturbed, and tokens if there are accounts."""
        found = super().observe(world) | self.ledger.metrics()
        return found if self.config.flow is None else found | self.flow.metrics(world.online)

    def others(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> dict[str, NDArray[np.int32]]:
        """Return the classes by the vote of the cached models, if there is a cache."""
        return {"voted": self._voted(nodes, x)} if self.config.cache else {}

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of a copy of the models, and of the votes of cached models."""
        votes = 18 * max(self.config.records.models, 2) if self.config.cache else 0
        return super().memory_of_scores(nodes, records) + votes * records * nodes

    def answers(self) -> int:
        """Return one score per linear model, and a vote."""
        return super().answers() + (self.config.cache > 0)

    def _voted(self, nodes: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the majority class. `tie` decides ties; by default class 1 of two, otherwise the lowest class."""
        models = self.config.records.models
        total = np.zeros((len(x), nodes.size, max(models, 2)), np.int32)
        sums = np.zeros((len(x), nodes.size, models))
        for place in range(self.config.cache):
            scores = self.scores_by(self.cache[nodes, place], x, nodes)
            there = self.cached[nodes] > place
            total += (self.classes(scores, nodes, x)[..., None] == np.arange(max(models, 2))) & there[:, None]
            if self.tie == "by-score":
                sums += np.where(there[:, None], scores, 0)
        if models == 1:
            sums = np.concatenate([-sums, sums], axis=-1)
        tie = self.tie or ("last" if models == 1 else "first")
        return largest(total, tie, sums if tie == "by-score" else self.toss(nodes, x, total.shape[-1]))
