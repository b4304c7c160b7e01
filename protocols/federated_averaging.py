"""Federated averaging: a server averages the models that some clients learn (McMahan et al. 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.kernels import kernel
from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.core.settings import Share
from golfsim.core.threads import over_ranges
from golfsim.learning.kinds import with_room
from golfsim.learning.linear import LearningConfig, linear
from golfsim.learning.many import pass_many, without_noise
from golfsim.learning.merging import merge_in
from golfsim.learning.minibatches import Batch, room_for_batches, size_of_batch, take_all
from golfsim.learning.packing import ALL, MessageConfig, nothing_remembered, pack_rows, packing_of
from golfsim.learning.shared import SharedModel
from golfsim.network.adversaries import forge_rows
from golfsim.network.delivery import send_all, with_server
from golfsim.network.mailbox import SLOT, Mailbox
from golfsim.protocol.base import Disclosure

if TYPE_CHECKING:
    from golfsim.network.world import World

NOBODY = -1
WEIGHT = 4  # bytes: the number of records of a client
FEW = 4  # clients: a thread for fewer costs more than it saves
BOTH_WAYS = 2  # messages of a client that may be in transit per cycle of delay, if rounds end early


@kernel
def train(client, sent, age, trained, trained_age, models, rows, rule, epochs, size, fresh, span, lo, hi):
    """Let clients train the model that they have got.

    Parameters
    ----------
    client : array of int32, shape (clients,)
        The node of each client, or −1.
    sent : array of float32, shape (models, numbers)
        The model.
    age : int
        The number of its updates.
    trained : array of float32, shape (clients · models, numbers)
        The models after training; filled here.
    trained_age : array of int32, shape (clients,)
        Their ages; filled here.
    models : int
        The number of rows of a model.
    rows : Rows
        The records.
    rule : Rule
        The update rule.
    epochs : int
        The number of passes of each client over its records.
    size : int
        The number of records of a batch; WHOLE: all.
    fresh, span : arrays
        Working memory, of this thread.
    lo, hi : int
        The range of clients.
    """
    rule = with_room(rule)
    for place in range(lo, hi):
        if client[place] >= 0:
            start, own = np.int64(place) * models, age
            for m in range(models):
                for f in range(sent.shape[1]):
                    trained[start + m, f] = sent[m, f]
            for _ in range(epochs):
                own = take_all(trained, start, own, rows, client[place], rule, size, fresh, span)
            trained_age[place] = own


@kernel
def average(trained, trained_age, weight, came, models, rule, w, age):
    """Replace a model by the weighted mean of trained models; its age is the largest of theirs.

    Parameters
    ----------
    trained : array of float32, shape (clients · models, numbers)
        The trained models.
    trained_age : array of int32, shape (clients,)
        Their ages.
    weight : array of int64, shape (clients,)
        The number of records of each client.
    came : array of bool, shape (clients,)
        Whose models the server has received.
    models : int
        The number of rows of a model.
    rule : Rule
        The update rule, which has the learner.
    w : array of float32, shape (models, numbers)
        The model; changed in place.
    age : array of int32, shape (1,)
        Its age; changed in place.
    """
    rule = with_room(rule)
    total = np.int64(0)
    for place in range(came.size):
        if came[place] and weight[place] > 0:
            total += weight[place]
            share = np.float32(weight[place] / total)
            merge_in(rule, trained, np.int64(place) * models, w, 0, share, models)
            age[0] = max(age[0], trained_age[place])


class FederatedAveragingConfig(LearningConfig):
    """The settings of federated averaging."""

    share: Share = Field(0.1, description="the share of the online nodes that are clients in a round, at least one")
    clients: int | None = Field(
        None, ge=1, description="the number of clients per round, in place of a share; at most all online nodes"
    )
    epochs: int = Field(1, ge=1, le=1_000_000, description="the number of passes of a client over its records")
    batch: Batch = Field(
        "all",
        description="the records of an update: “all” records of the client, or this many; an epoch has one update per "
        "batch",
    )
    deadline: int | None = Field(
        None,
        ge=1,
        description="with delays: the number of cycles after which the server ends a round without the models that "
        "have not arrived, and clients stop to answer; default: when no message of the round is in transit",
    )
    message: MessageConfig | None = Field(
        None, description="how models are encoded, in both directions; default: 32 bits per number"
    )

    @model_validator(mode="after")
    def _complete(self) -> FederatedAveragingConfig:
        if self.clients is not None and "share" in self.model_fields_set:
            raise ValueError("expected at most one of “share” and “clients”")
        if self.message is not None and self.message.select != ALL:
            raise ValueError("message: clients get and send complete models; remove “parts”, “sample” and “top”")
        if self.message is not None and self.message.codec == "pivot":
            raise ValueError("message: “pivot” needs links that stay; use “float16” or “quantised”")
        return self


class FederatedAveraging(SharedModel[FederatedAveragingConfig]):
    """A server sends its model to some online nodes, which train it; it takes the mean of what they send back.

    The server is no node: it is always online and on the larger side of every cut. Without delays a round takes one
    cycle.
    """

    Config = FederatedAveragingConfig
    accepts = frozenset({"loss", "delay", "partition"})
    metrics = (
        *SharedModel.metrics,
        Metric("rounds", "The number of rounds that have ended.", "rounds"),
        Metric("clients", "The number of clients whose models the server used in the last round.", "nodes"),
    )

    def setup(self, world: World) -> None:
        """Allocate the model of the server, and those of the clients of a round."""
        super().setup(world)
        self.rounds = 0
        self.used = 0  # clients of the last round
        self.begun = 0  # the cycle in which the current round began; 0: there is none
        most, shape = self._most(world.nodes), self.w.shape[1:]
        self.client = np.full(most, NOBODY, np.int32)  # of the current round
        self.came = np.zeros(most, np.bool_)
        self.weight = np.zeros(most, np.int64)
        self.trained = np.zeros((most, *shape), np.float32)
        self.trained_age = np.zeros(most, np.int32)
        self.sent = self.w.copy()  # as clients get it
        message = self.config.message or MessageConfig()
        model = message.size(*shape) if self.config.message else self._message_bytes
        self._bytes = {"download": model, "upload": model + WEIGHT}
        self._packing = packing_of(self.config.message, self.key("message"), shape[1], nothing_remembered(shape[1]))
        if world.transport.longest:
            each = 1 if self.config.deadline is None else BOTH_WAYS
            number = np.zeros(1, np.int32)
            self.mail = Mailbox(self, world, each=each, up=np.zeros(1, np.bool_), of_round=number, place=number)
        self.old = np.zeros((world.tampering.keeps_old().size, *shape), np.float32)
        self.old_kept = np.zeros(len(self.old), np.bool_)

    def _most(self, online: int) -> int:
        """Return the number of clients of a round, given the number of online nodes."""
        wanted = round(self.config.share * online) if self.config.clients is None else self.config.clients
        return min(max(wanted, 1), online)

    def memory(self, world: World) -> int:
        """Return the bytes of the models, and of messages in transit."""
        mail = world.nodes * world.transport.longest * (1 if self.config.deadline is None else BOTH_WAYS)
        stored = 2 + self._most(world.nodes) + world.tampering.keeps_old().size
        return stored * self.size_of_models(1) + size_of((SLOT + 9, mail), (32, world.nodes))

    def step(self, world: World) -> None:
        """Receive what is due, end a round that is complete, and begin the next one."""
        self._keep_old(world)
        if world.transport.longest:
            self._receive(world)
            if self.begun and self._is_over(world):
                self._end()
        if not self.begun:
            self._begin(world)

    # A round

    def _begin(self, world: World) -> None:
        """Draw clients and send them the model. Without delays, the round also ends here."""
        pool = np.flatnonzero(world.online).astype(np.int32)
        if not pool.size:
            return
        chosen = rng.sample(self.key("clients"), world.cycle, pool, self._most(pool.size))
        self.client[:], self.came[:] = NOBODY, False
        self.client[: chosen.size] = chosen
        self.sent[:] = self.w
        self._encode(world, self.sent, np.array([world.nodes], np.int32), np.zeros(1, np.int32))
        self.begun = world.cycle
        places = np.arange(chosen.size, dtype=np.int32)
        got = self._send(world, "download", chosen, places)
        if not world.transport.longest:
            self._train(world, places[got])
            self.came[places[got]] = self._send(world, "upload", chosen[got], places[got])
            self._end()

    def _train(self, world: World, places: NDArray[np.int32]) -> None:
        """Let some clients of the round train the model, and encode what they send."""
        config, rows, models = self.config, self.config.records.rows, self.w.shape[1]
        rule, size = self.rule(), size_of_batch(config.batch)
        client = np.full(self.client.size, NOBODY, np.int32)
        client[places] = self.client[places]
        trained, sent, age = linear(self.trained), linear(self.sent), int(self.age[0])

        nodes = self.client[places]

        def run(lo: int, hi: int) -> None:
            room = room_for_batches(models, sent.shape[1])
            train(client, sent, age, trained, self.trained_age, models, rows, rule, config.epochs, size, *room, lo, hi)

        if config.learner.batched:
            trained[places], self.trained_age[places] = sent, age
            how = without_noise(config.learner, self._seen, rows, rule, world.threads)
            pass_many(how, trained, self.trained_age, places, nodes, (size or None, config.epochs))
        else:
            over_ranges(world.threads, run, 0, client.size, FEW)
        self.weight[places] = rows.stop[nodes] - rows.first[nodes]
        forgery = world.tampering.forgery(world.cycle)
        forge_rows(forgery, nodes, world.cycle, places, trained, linear(self.old), models)
        self._encode(world, self.trained, nodes, places)

    def _encode(self, world: World, w: NDArray[np.float32], senders: NDArray[np.int32], rows: NDArray[Any]) -> None:
        """Replace models by what their receivers get of them."""
        if self._packing.on:
            nothing = np.zeros(rows.size, np.int64)
            pack_rows(self._packing, linear(w), rows, w.shape[1], world.cycle, senders, nothing, nothing, nothing)

    def _end(self) -> None:
        """Take the mean of the models that have arrived."""
        counted = self.came & (self.weight > 0)
        average(
            linear(self.trained), self.trained_age, self.weight, self.came, self.w.shape[1], self.rule(),
            linear(self.w), self.age,
        )  # fmt: skip
        self.used = int(counted.sum())
        self.rounds += 1
        self.begun = 0

    def _keep_old(self, world: World) -> None:
        """Store the model that adversaries will send again."""
        if len(self.old):
            begins = ~self.old_kept & (world.tampering.since_old() <= world.cycle)
            self.old[begins] = self.w[0]
            self.old_kept |= begins

    # Messages

    def _send(self, world: World, kind: str, nodes: NDArray[np.int32], places: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Send a message between the server and each of these nodes; return which arrive, or will unless cut off."""
        wire = with_server(world.transport.wire(self, kind, self._bytes[kind]), world.nodes)
        arrives = np.empty(nodes.size, np.bool_)
        send_all(wire, np.zeros(1, np.int64), nodes, nodes, world.nodes, arrives)
        if world.transport.longest:
            lag = world.transport.lags(self, kind, nodes)
            slots = self.mail.put(world, lag, nodes, nodes, arrives)
            self.mail.up[slots] = kind == "upload"
            self.mail.of_round[slots] = self.rounds
            self.mail.place[slots] = places[arrives]
        return arrives

    def _receive(self, world: World) -> None:
        """Receive the messages that are due: clients train and answer, the server stores what they send."""
        slots, nodes = self.mail.due(world, with_server(world.transport.reach(), world.nodes))
        up, place = self.mail.up[slots], self.mail.place[slots]
        current = (self.mail.of_round[slots] == self.rounds) & (self.begun > 0)
        self.came[place[up & current]] = True
        asked = nodes[~up & current], place[~up & current]
        if asked[0].size:
            self._train(world, asked[1])
            self._send(world, "upload", *asked)

    def _is_over(self, world: World) -> bool:
        """Return whether all models of the round have arrived or are lost, or the deadline is over."""
        if self.config.deadline is not None and world.cycle - self.begun >= self.config.deadline:
            return True
        moving = np.ones(self.mail.dst.size, np.bool_)
        moving[self.mail.free[: self.mail.free_count]] = False
        return not (moving & (self.mail.of_round == self.rounds)).any()

    def disclosure(self) -> Disclosure:
        """Return that clients send models as they are."""
        return Disclosure("models without noise", "the server and all nodes")

    def released(self) -> NDArray[np.float64]:
        """Return the models of the server and of its clients, if the layer uses private data."""
        if not self.touches_private_data:
            return np.empty(0)
        return np.concatenate([self.w.ravel(), self.trained.ravel()]).astype(np.float64)

    def observe(self, world: World) -> dict[str, float]:
        """Return the number of rounds, and of clients in the last one."""
        return super().observe(world) | {"rounds": float(self.rounds), "clients": float(self.used)}
