"""Groups of nodes publish the noisy mean of their models; nodes vote with what they receive (Asplund & Frøystad 2015).

An aggregation takes three cycles. First a group forms. Then its members send their models to the curator, which costs
them budget. Last, the curator publishes the mean of the models that have arrived, if these reach the quorum. Members
that are offline when they should send are missing in the mean. A group ends without a result if its curator leaves or
if it falls below the quorum. Its members are free again, but the budget of the models they have sent stays spent.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.memory import available, readable
from golfsim.core.metrics import Metric
from golfsim.learning import ensemble
from golfsim.privacy import gaussian, secure_sum
from golfsim.privacy.choice import DeltaConfig
from golfsim.privacy.ledger import BUDGET_METRICS, Ledger, UniformSchedule
from golfsim.privacy.mechanisms import ROUNDING, Guarantee
from golfsim.privacy.noise import GAMMA_NORM, GAUSSIAN, LAPLACE
from golfsim.protocol.base import Audited, Disclosure, Layer, LayerConfig
from golfsim.protocol.canaries import closer
from golfsim.protocol.learner import Learner, classify
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Published, longest, refuse_unfit
from protocols.group_aggregation.groups import (  # fmt: skip
    NOBODY,
    SHARE,
    Groups,
    Nodes,
    as_members_send,
    edges_of,
    join_over_views,
    perturb_models,
    plain_sums,
    receive,
)
from protocols.regularised_erm import CROWD, RegularisedErm

if TYPE_CHECKING:
    from golfsim.network.world import World

FREE, FORMED, SENT = range(3)


class GroupAggregationConfig(LayerConfig, DeltaConfig):
    """The settings of group aggregation: groups, noise, publication and prediction."""

    local: Layer[RegularisedErm] = Field(description="the layer of the nodes' own models, without noise")
    peers: Layer[Overlay[Any]] | None = Field(
        None, description="the overlay for formation = “overlay” and for gossip; required there"
    )
    group: int = Field(ge=1, description="the number of nodes per group, g")
    quorum: int | None = Field(
        None, ge=1, description="the number of members whose models must arrive; default: all members of the group"
    )
    formation: Literal["central", "overlay"] = Field(
        "central",
        description="“central”: a central agent draws groups at random; “overlay”: nodes propose groups to their views",
    )
    epsilon: float = Field(
        ge=1e-6,
        allow_inf_nan=True,
        description="the budget ε of each record (or node) over all aggregations; inf: no noise",
    )
    noise: Literal["pure", "gaussian"] = Field(
        "pure",
        description="“pure”: noise with pure ε; “gaussian”: Gaussian noise, with which epsilon and aggregation_epsilon "
        "hold at `delta`",
    )
    aggregation_epsilon: float | None = Field(
        None,
        ge=1e-6,
        description="the cost ε_A of an aggregation; default: the complete budget; with Gaussian noise the costs at "
        "`delta` do not add up, but the squares of their μ do, so more aggregations are possible",
    )
    unit: Literal["record", "node"] = Field(
        "record", description="what ε protects: one record, or all records of a node"
    )
    trust: Literal["none", "honest", "curator", "as-published"] = Field(
        "none",
        description="whom members trust: nobody, so each member adds the complete noise (“none”); a number of `honest` "
        "members, which add their shares of the noise; the curator, which adds the noise; or the curator with the "
        "noise of the source (“as-published”), for which golfsim reports the true ε",
    )
    honest: int | None = Field(
        None, ge=1, description="trust = “honest”: the number of members that certainly add their share of the noise"
    )
    sum: Literal["masked", "plain"] = Field(
        "masked", description="hide the models of members from the curator by masks, or show them, as in the source"
    )
    publish: Literal["party", "all", "gossip"] = Field(
        "party",
        description="who receives the mean: the members that sent a model, all online nodes, or the nodes that gossip "
        "reaches",
    )
    hops: int = Field(10, ge=1, le=10_000, description="gossip: the largest number of hops of a model")
    fanout: int = Field(1, ge=1, description="gossip: the number of neighbours to which a node forwards a new model")
    predict: Literal["ensemble", "aggregated"] = Field(
        "ensemble",
        description="predict by the vote of the local and all received models, or of the received models alone",
    )
    tie: Literal["first", "last", "random", "score"] = Field(
        "first",
        description="the class of a tied vote: the first class, the last class, a random one, or that of the scores",
    )
    local_weight: float = Field(
        1.0, ge=0, description="the number of votes of the local model; a received model has one vote"
    )
    cap: int | None = Field(
        None, ge=1, description="the largest number of received models that a node stores; default: no limit"
    )
    prune: Literal["oldest", "score"] = Field(
        "oldest",
        description="the model that is deleted when the cap is reached: the oldest one, or the one with the most "
        "mistakes on the node's own records",
    )
    min_records: int = Field(
        1, ge=1, description="the smallest number of records of a node that takes part in aggregations"
    )

    @model_validator(mode="after")
    def _fits(self) -> GroupAggregationConfig:
        if self.quorum is not None and self.quorum > self.group:
            raise ValueError(f"quorum: expected at most {self.group}, the value of “group”; got {self.quorum}")
        if (self.trust == "honest") != (self.honest is not None):
            raise ValueError("honest: required with trust = “honest”, and not allowed otherwise")
        if self.honest is not None and self.honest > self.needed:
            raise ValueError(f"honest: expected at most {self.needed}, the quorum; got {self.honest}")
        if self.peers is None and (self.formation == "overlay" or self.publish == "gossip"):
            raise ValueError("peers: groups over views and gossip need an overlay")
        if self.cost > self.epsilon:
            raise ValueError(f"aggregation_epsilon: expected at most {self.epsilon:g}, the budget; got {self.cost:g}")
        if self.aggregation_epsilon is not None and math.isinf(self.epsilon):
            raise ValueError("aggregation_epsilon: epsilon = inf has no noise, so an aggregation has no cost")
        if self.gaussian and self.trust == "as-published":
            raise ValueError("trust: the source adds no Gaussian noise; use “none”, “honest” or “curator”")
        return self

    @model_validator(mode="after")
    def _keeps_secrets(self) -> GroupAggregationConfig:
        if self.honest is not None and self.sum == "masked" and self.honest + self.needed <= self.group:
            most = self.group - self.honest
            raise ValueError(f"quorum: expected more than {most}: {most} dishonest members could remove all masks")
        if self.publish == "gossip" and self.prune == "score":
            raise ValueError("prune: with gossip, “score” would reveal which models fit a node's records; use “oldest”")
        return self

    @property
    def needed(self) -> int:
        """The quorum; by default all members."""
        return self.quorum or self.group

    @property
    def noise_kind(self) -> int:
        """The kind of noise, for kernels."""
        return GAUSSIAN if self.gaussian else GAMMA_NORM

    @property
    def cost(self) -> float:
        """The cost ε_A of an aggregation."""
        return self.aggregation_epsilon or self.epsilon

    @property
    def most_aggregations(self) -> int:
        """The number of aggregations in which a node can take part."""
        if math.isinf(self.epsilon):
            return 1
        times = self.epsilon / self.cost
        if self.delta is not None:
            ratio = gaussian.mu_of(self.epsilon, self.delta) / gaussian.mu_of(self.cost, self.delta)
            times = ratio * ratio
        return int(times * (1 + 1e-9))

    @property
    def mu(self) -> float:
        """The μ of an aggregation with Gaussian noise; 0 with other noise."""
        if self.delta is None:
            return 0.0
        share = gaussian.mu_of(self.epsilon, self.delta) / math.sqrt(self.most_aggregations)
        return min(gaussian.mu_of(self.cost, self.delta), share)

    @property
    def total_mu(self) -> float:
        """The μ of all aggregations of a node together: squares add up."""
        return self.mu * math.sqrt(self.most_aggregations)

    @property
    def total(self) -> float:
        """The ε of all aggregations of a node together, at the δ if noise is Gaussian."""
        if self.delta is None or math.isinf(self.epsilon):
            return self.most_aggregations * self.cost
        if self.total_mu >= gaussian.mu_of(self.epsilon, self.delta) * (1 - 1e-9):
            return self.epsilon
        return min(self.epsilon, gaussian.epsilon_of(self.total_mu, self.delta))


class GroupAggregation(Learner[GroupAggregationConfig]):
    """Groups publish noisy means of their models; a node predicts with its own model and the means it has received."""

    Config = GroupAggregationConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (
        Metric("groups.formed", "The number of groups that have formed since the start of the run.", "groups"),
        Metric("groups.published", "The number of groups that have published a model.", "groups", "up"),
        Metric("groups.given_up", "The number of groups that ended without a model.", "groups", "down"),
        Metric("rounds", "The number of message rounds between members and curators so far.", "rounds", "down"),
        Metric("members.missed", "The number of models that did not reach the curator of a group.", "models", "down"),
        Metric("models.held", "The mean number of received models that a node stores.", "models"),
        Metric("finished", "1 when no more groups can form and no model is still spreading, else 0."),
        Metric(
            "local_error",
            "The share of test records that a node's local model alone classifies incorrectly.",
            "share of test records",
            "down",
            True,
        ),
        Metric(
            "aggregated_error",
            "The share of test records that a node's received models alone classify incorrectly.",
            "share of test records",
            "down",
            True,
        ),
        *BUDGET_METRICS,
    )

    def setup(self, world: World) -> None:
        """Allocate the state: no groups and no published models yet."""
        config, local = self.config, self.config.local
        if local.config.noise != "none":
            hint = 'use noise = "none" in that layer: only the mean is published, and noise is added to it'
            raise UserError(f"“{local.name}” already has noisy models", key=f"{self.name}.local", hint=hint)
        self._refuse_what_cannot_be(world.nodes)
        records = local.config.records
        self._noisy = not math.isinf(config.epsilon)
        loose = config.trust == "as-published"  # the true ε accounts for records longer than 1
        if self._noisy and not loose:
            refuse_unfit(records, "l2", self.name, "epsilon")
        self._length = longest(records, "l2") if loose else 1.0
        self._measure(world.nodes)
        self._check_memory(world.nodes, self._room)
        self._allocate(world, self._room)
        self._seconds = 0.0
        self._keys = self.key("mask.own"), self.key("mask.pair")
        self._set_up_audit(world)

    def _measure(self, nodes: int) -> None:
        """Compute the shape of a model, the largest number of published models, and the room for them at a node."""
        config, records = self.config, self.config.local.config.records
        self._shape = (records.models, records.features)
        self._most = nodes * config.most_aggregations // config.needed
        most_held = min(config.most_aggregations, self._most) if config.publish == "party" else self._most
        self._room = min(config.cap or most_held, most_held)

    def _refuse_what_cannot_be(self, nodes: int) -> None:
        config, records = self.config, self.config.local.config.records
        if config.group > nodes:
            raise UserError(f"a group of {config.group} cannot form among {nodes} nodes", key=f"{self.name}.group")
        if config.prune == "score" and records.rows.folded:
            what = f"“{records.name}” has no labels, which “score” needs to count mistakes"
            raise UserError(what, key=f"{self.name}.prune", hint='use prune = "oldest"')

    def _check_memory(self, nodes: int, room: int) -> None:
        need = self._size(nodes, room)
        if need > available():
            what = (
                f"{self._most} published models, up to {room} at each of {nodes} nodes, need {readable(need)} of memory"
            )
            hint = "set a cap, or increase aggregation_epsilon, so that nodes take part less often"
            raise UserError(f"{what}; {readable(available())} are available", key=f"{self.name}.cap", hint=hint)

    def _size(self, nodes: int, room: int) -> int:
        """Return the bytes of the state of nodes, and of the published models."""
        return nodes * (room * 6 + self._bytes_heard + 44) + (self._most * 4 + nodes * 8) * math.prod(self._shape)

    def memory(self, world: World) -> int:
        """Return the bytes of the state, and of the models that members send in one cycle."""
        self._measure(world.nodes)
        return self._size(world.nodes, self._room) + world.nodes * (8 * math.prod(self._shape) + 16)

    def answers(self) -> int:
        """Return one score per linear model, and the classes by the local model and by the received models."""
        return self.config.local.config.records.models + 2

    def memory_of_scores(self, nodes: int, records: int) -> int:
        """Return the bytes of the votes of all models that these nodes have, received and their own."""
        models = math.prod(self._shape[:-1])
        voters = nodes + min(self._most, nodes * self._room)
        weights = nodes * (1 + self._room) * 60
        return weights + voters * math.prod(self._shape) * 8 + records * models * (voters * 8 + nodes * 14)

    @property
    def _bytes_heard(self) -> int:
        """The bytes per node for one bit per published model, so that gossip delivers every model at most once."""
        return -(-self._most // 8) if self.config.publish == "gossip" else 0

    def _allocate(self, world: World, room: int) -> None:
        nodes, config = world.nodes, self.config
        self.group_of = np.full(nodes, NOBODY, np.int32)  # the curator of each node's group
        self.phase = np.zeros(nodes, np.int8)  # of the group of each curator
        self.begun = np.zeros(nodes, np.int32)  # the cycle in which a node's group formed
        self.ready = np.zeros(nodes, np.bool_)  # nodes that still have the keys they agreed on
        self.sent = np.zeros(nodes, np.bool_)  # nodes that have sent their model to the curator
        self.arrived = np.zeros(nodes, np.bool_)  # nodes whose model the curator has received
        kind = np.uint64 if config.sum == "masked" else np.float64
        self.upload = np.zeros((nodes, int(np.prod(self._shape))), kind)
        self.sent_records, self.sent_lam = np.zeros(nodes), np.zeros(nodes)  # n and λ of the model that was sent
        self.old = np.zeros((world.tampering.keeps_old().size, *self._shape))
        self.old_kept = np.zeros(len(self.old), np.bool_)
        self.published = np.zeros((self._most, *self._shape), np.float32)
        self.number = 0  # of models published so far
        self.held = np.full((nodes, room), NOBODY, np.int32)  # received models
        self.distance = np.full((nodes, room), NOBODY, np.int16)  # hops so far of a model that is to be forwarded
        self.received = np.zeros(nodes, np.int32)  # number of models put into `held` so far
        self.heard = np.zeros((nodes, self._bytes_heard), np.uint8)  # one bit per model that a node has received
        self.worst = 0.0  # the largest true ε of an aggregation as published
        self.counts = np.zeros(4, np.int64)  # groups formed; groups published; rounds; models that did not arrive
        self.ledger = Ledger(
            UniformSchedule(kind="uniform", visits=config.most_aggregations),
            config.total,
            nodes,
            config.delta or 0.0,
            mu=config.total_mu,
        )

    def start(self, world: World, nodes: Nodes) -> None:
        """Reset these nodes: they lose their keys and the models they received. The spent budget stays."""
        self.held[nodes] = self.distance[nodes] = NOBODY
        self.received[nodes] = self.heard[nodes] = 0
        self.ready[nodes] = False

    def step(self, world: World) -> None:
        """Forward models, publish means, send models to curators, and form new groups."""
        self._leave(world)
        self._keep_old(world)
        if self.config.publish == "gossip":
            self._pass_on(world)
        self._publish(world)
        self._send(world)
        self._form(world)

    # Membership in groups

    def _lasts(self, world: World) -> NDArray[np.bool_]:
        """Return the nodes whose group is active: its curator has been online since it formed, and has not ended it.

        The state of an offline node does not change, so it may still refer to a group that has ended.
        """
        curator = self.group_of
        there = world.online[curator] & (world.since[curator] <= self.begun) & (self.begun[curator] == self.begun)
        return np.asarray(there & (curator != NOBODY) & (self.phase[curator] != FREE))

    def _leave(self, world: World) -> None:
        """Free the online nodes whose group has ended."""
        self._free(np.flatnonzero(world.online & (self.group_of != NOBODY) & ~self._lasts(world)))

    def _free(self, nodes: NDArray[Any]) -> None:
        self.group_of[nodes] = NOBODY
        self.sent[nodes] = self.arrived[nodes] = False
        self.phase[nodes] = FREE

    def _groups(self, world: World, phase: int) -> Groups:
        """Return the groups in a phase, with all members since they formed, online or not."""
        members = np.flatnonzero(self._lasts(world)).astype(np.int32)
        members = members[self.phase[self.group_of[members]] == phase]
        members = members[np.argsort(self.group_of[members], kind="stable")]
        curators, sizes = np.unique(self.group_of[members], return_counts=True)
        return Groups(curators, members, edges_of(sizes))

    # Forming groups

    def able(self, world: World) -> NDArray[np.bool_]:
        """Return the nodes that can join a group: online, in no group, with enough records and budget."""
        left = self.ledger.visits < self.config.most_aggregations
        return np.asarray(left & self._fit() & world.online & (self.group_of == NOBODY))

    def _fit(self) -> NDArray[np.bool_]:
        """Return the nodes that have a model of enough records."""
        local = self.config.local
        return np.asarray((local.lam > 0) & (local.stop - local.first >= self.config.min_records))

    def _may_ever(self) -> NDArray[np.bool_]:
        """Return the nodes that have budget left, and have or will have enough records."""
        local = self.config.local.config
        enough = local.records.capacity() >= max(self.config.min_records, local.min_records)
        return np.asarray(enough & (self.ledger.visits < self.config.most_aggregations))

    def _form(self, world: World) -> None:
        """Form groups, and keep those in which enough members have received all messages they need."""
        able = self.able(world)
        if able.sum() < self.config.group:
            return
        members = (self._drawn if self.config.formation == "central" else self._gathered)(world, able)
        curators = self.group_of[members]
        self.counts[0] += np.unique(curators).size
        self.begun[members] = world.cycle
        self.ready[members] = True
        there = np.ones(members.size, np.bool_)
        if self.config.formation == "central":
            there = self._told(world, "invitation", curators, members, 16)
        if self.config.sum == "masked":
            self._agree_on_keys(world, members, curators, there)
        self._free(members[~there])
        curators, sizes = np.unique(curators[there], return_counts=True)
        self.phase[curators[sizes >= self.config.needed]] = FORMED
        self._leave(world)

    def _drawn(self, world: World, able: NDArray[np.bool_]) -> Nodes:
        """Divide the nodes, in random order, into groups; the first node of a group is its curator."""
        nodes, size = np.flatnonzero(able).astype(np.int32), self.config.group
        nodes = nodes[rng.permutation(self.key("group"), world.cycle, nodes.size)]
        members = nodes[: nodes.size // size * size]
        self.group_of[members] = np.repeat(members[::size], size)
        return members

    def _gathered(self, world: World, able: NDArray[np.bool_]) -> Nodes:
        """Form groups from views; nodes propose in acting order."""
        assert self.config.peers is not None
        links, before = self.config.peers.links(world), self.group_of != NOBODY
        nothing = np.empty(0, np.int64)
        start, neighbour = (nothing, nothing) if links is None else (links.indptr, links.indices)
        graph = start.astype(np.int64), neighbour.astype(np.int64), np.flatnonzero(world.online)
        wire = world.transport.wire(self, "proposal", 16)._replace(key=self.key("group"))
        join_over_views(world.order, *graph, able, wire, self.config.group, self.group_of)
        return np.flatnonzero((self.group_of != NOBODY) & ~before).astype(np.int32)

    def _told(self, world: World, kind: str, src: Nodes, dst: Nodes, size: int) -> NDArray[np.bool_]:
        """Send messages between members and curators and return which arrive.

        A node needs no message to itself.
        """
        apart = src != dst
        heard = np.ones(src.size, np.bool_)
        k = np.arange(max(1, int(apart.sum())), dtype=np.int64)
        heard[apart], _ = world.transport.send(self, kind, src[apart], dst[apart], size, k)
        return heard

    def _agree_on_keys(self, world: World, members: Nodes, curators: Nodes, there: NDArray[np.bool_]) -> None:
        """Exchange keys and shares of secrets through the curator; a node that misses one of four messages leaves."""
        each = self.config.group - 1
        sizes = (secure_sum.KEY_BYTES, each * secure_sum.KEY_BYTES, each * secure_sum.SHARE_BYTES)
        for kind, size in zip(("key", "keys", "share", "shares"), (*sizes, sizes[2]), strict=True):
            src, dst = (members, curators) if kind in ("key", "share") else (curators, members)
            there[there] = self._told(world, kind, src[there], dst[there], size)
        self.counts[2] += 2 * np.unique(curators).size

    # Sending models

    def _send(self, world: World) -> None:
        """Let members of formed groups spend budget and send their (noisy or masked) models to the curator."""
        groups, local = self._groups(world, FORMED), self.config.local
        members = groups.members
        there = world.online[members] & self.ready[members] & self._fit()[members]
        senders = members[there]
        charged = self.ledger.charge(senders)
        assert charged.all()  # members of a group have budget left
        self.sent[senders] = True
        self.sent_records[senders], self.sent_lam[senders] = (local.stop - local.first)[senders], local.lam[senders]
        self.upload[senders] = self._words(groups, there, self._models_of(world, groups, there))
        curators = groups.each(groups.curators)[there]
        self.arrived[senders] = self._told(world, "model", senders, curators, self.upload.shape[1] * 8)
        self.phase[groups.curators] = SENT
        self.counts[2] += groups.curators.size
        self.counts[3] += members.size - int(self.arrived[senders].sum())

    def _words(self, groups: Groups, there: NDArray[np.bool_], w: NDArray[np.float64]) -> NDArray[Any]:
        """Return what the members that are `there` send: their models, or integers with masks."""
        flat = w.reshape(len(w), self.upload.shape[1])
        if self.config.sum == "plain":
            return flat
        started = time.perf_counter()
        words = np.zeros((groups.members.size, flat.shape[1]), np.uint64)
        words[there] = secure_sum.to_words(flat, self.config.group, self.name)
        sent = secure_sum.masked(groups.members, groups.edges, words, self._keys, self.begun[groups.curators])
        self._seconds += time.perf_counter() - started
        return sent[there]

    def _keep_old(self, world: World) -> None:
        """Store the models that adversarial nodes will send: the first one they have from their start cycle on."""
        nodes = world.tampering.keeps_old()
        begins = ~self.old_kept & (world.tampering.since_old() <= world.cycle) & (self.config.local.lam[nodes] > 0)
        self.old[begins] = self.config.local.w[nodes[begins]]
        self.old_kept |= begins

    def _models_of(self, world: World, groups: Groups, there: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return what the members that are `there` add to the sum: models, possibly forged, with their noise."""
        senders, config = groups.members[there], self.config
        w = np.empty((senders.size, *self._shape))
        flat, old = (a.reshape(-1, self._shape[1]) for a in (config.local.w, self.old))
        as_members_send(senders, world.tampering.forgery(world.cycle), world.cycle, flat, old, w)
        if config.trust in ("none", "honest") and self._noisy:
            moves = self._moves(senders)
            if config.trust == "honest":
                moves = groups.less(there).each(self._largest(groups.less(there), moves))
            kind, scale, honest = config.noise_kind, self._scale(moves), config.honest or 1
            if kind == GAUSSIAN:
                scale /= math.sqrt(honest)
            elif config.trust == "honest":
                kind = SHARE
            perturb_models(senders, world.cycle, kind, scale, honest, self.key("noise"), w)
        if config.trust == "none":
            self._show(senders, w, [senders[:0]] * senders.size)
        return w

    def _moves(self, nodes: Nodes) -> NDArray[np.float64]:
        """Return the sensitivity of each sent model to one record (or to all records of a node).

        It is 2/(nλ), or 2/λ for all records, plus 2τ/λ for the tolerance of the solver, and the rounding error of
        fixed-point numbers.
        """
        n, lam = self.sent_records[nodes], self.sent_lam[nodes]
        changed = 1 / n if self.config.unit == "record" else np.ones(n.size)
        rounded = math.sqrt(self._shape[1]) * 2.0**-secure_sum.FRACTION
        return np.asarray(2 * (self._length * changed + self.config.local.config.tolerance) / lam + rounded)

    def _scale(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scale of the noise for these sensitivities; all models of a node together cost ε_A.

        They share ε_A or, with Gaussian noise, the square of its μ.
        """
        models, config = self._shape[0], self.config
        each = math.sqrt(models) / config.mu if config.gaussian else models / config.cost
        return np.asarray(moves * each * (1 + ROUNDING))

    @staticmethod
    def _largest(groups: Groups, of_member: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest value in each group; 0 for groups without members."""
        found = np.zeros(groups.curators.size)
        np.maximum.at(found, groups.each(np.arange(groups.curators.size)), of_member)
        return found

    # Publishing

    def _publish(self, world: World) -> None:
        """Publish the means of groups with a quorum, and end all groups whose members have sent."""
        groups = self._groups(world, SENT)
        enough = groups.number(self.arrived[groups.members]) >= self.config.needed
        if self.config.sum == "masked":
            enough[enough] = self._answers(world, groups.only(enough)) >= self.config.needed
        publishing = groups.only(enough)
        self._spread(world, publishing, self._means(world, publishing))
        self._free(groups.members[world.online[groups.members]])

    def _means(self, world: World, groups: Groups) -> NDArray[np.float64]:
        """Return the mean of the models that have arrived in each group, with the curator's noise if it is trusted."""
        arrived = self.arrived[groups.members]
        sums = self._sums(groups, arrived)
        mean = (sums / groups.number(arrived)[:, None]).reshape(-1, *self._shape)
        if self.config.trust in ("curator", "as-published") and self._noisy:
            self._add_noise(world, groups.less(arrived), mean)
        if self.config.trust != "none":
            self._show_means(groups.less(arrived), mean)
        return mean

    def _show_means(self, groups: Groups, mean: NDArray[np.float64]) -> None:
        for number, (first, stop) in enumerate(pairwise(groups.edges)):
            members = groups.members[first:stop]
            self._show(members, np.broadcast_to(mean[number], (members.size, *self._shape)), [members] * members.size)

    def _sums(self, groups: Groups, arrived: NDArray[np.bool_]) -> NDArray[np.float64]:
        if self.config.sum == "plain":
            sums = np.zeros((groups.curators.size, self.upload.shape[1]))
            plain_sums(groups.members, groups.edges, arrived, self.upload, sums)
            return sums
        started = time.perf_counter()
        sent: Any = self.upload[groups.members]
        cycles = self.begun[groups.curators]
        words = secure_sum.totals(groups.members, groups.edges, arrived, sent, self._keys, cycles)
        self._seconds += time.perf_counter() - started
        return secure_sum.to_numbers(words)

    def _answers(self, world: World, groups: Groups) -> NDArray[np.int64]:
        """Return the number of members of each group that send the curator the secrets to remove the masks."""
        size, arrived = self.config.group, self.arrived[groups.members]
        members, curators = groups.members[arrived], groups.each(groups.curators)[arrived]
        asked = self._told(world, "unmask", curators, members, size * 4) & self.ready[members]
        bytes_each = size * secure_sum.SECRET_BYTES
        asked[asked] = self._told(world, "secrets", members[asked], curators[asked], bytes_each)
        self.counts[2] += groups.curators.size
        return groups.less(arrived).number(asked)

    def _add_noise(self, world: World, groups: Groups, mean: NDArray[np.float64]) -> None:
        """Add the curators' noise: for the quorum, or as published (per coordinate, for the smallest member)."""
        moves = self._largest(groups, self._moves(groups.members))
        if self.config.trust == "curator":
            scale, kind = self._scale(moves / self.config.needed), self.config.noise_kind
        else:
            scale, kind = self._scale_as_published(groups), LAPLACE
            moved = math.sqrt(self._shape[1]) * moves * (1 + ROUNDING) / np.diff(groups.edges)
            self.worst = max(self.worst, float((self._shape[0] * moved / scale).max(initial=0.0)))
        perturb_models(groups.curators, world.cycle, kind, scale, 1, self.key("noise"), mean)

    def _scale_as_published(self, groups: Groups) -> NDArray[np.float64]:
        """Return the published scale 2/(n_min ε_A λ) of each group, with λ in the form of the scenario."""
        local, n, lam = self.config.local.config, self.sent_records[groups.members], self.sent_lam[groups.members]
        given = local.as_sum(lam, n) if local.lambda_form == "sum" else lam
        few, weak = self._largest(groups, 1 / n), self._largest(groups, 1 / given)
        return np.asarray(2 * self._shape[0] * few * weak / self.config.cost)

    def _spread(self, world: World, groups: Groups, mean: NDArray[np.float64]) -> None:
        """Publish the model of each group: to the members that sent a model, to all nodes, or by gossip."""
        models = self.number + np.arange(groups.curators.size)
        with np.errstate(over="ignore"):  # an infinite model ends the run with an error that names the layer
            self.published[models] = mean
        self.number += models.size
        self.counts[1] += models.size
        if self.config.publish == "all":
            for curator, model in zip(groups.curators, models, strict=True):
                everyone = world.order
                self._tell(world, np.full_like(everyone, curator), everyone, np.full(everyone.size, model))
        elif self.config.publish == "gossip":
            self._tell(world, groups.curators, groups.curators, models)
        else:
            party = groups.less(self.sent[groups.members])
            self._tell(world, party.each(party.curators), party.members, party.each(models))

    def _tell(self, world: World, src: Nodes, dst: Nodes, models: NDArray[Any]) -> None:
        heard = self._told(world, "published", src, dst, self._model_bytes)
        hops = 0 if self.config.publish == "gossip" else NOBODY
        self._receive(dst[heard], models[heard], np.full(int(heard.sum()), hops, np.int16))

    @property
    def _model_bytes(self) -> int:
        """The size of a published model in bytes, in single precision."""
        return int(np.prod(self._shape)) * 4

    def _pass_on(self, world: World) -> None:
        """Let every node forward each new model once to some neighbours, up to the largest number of hops."""
        assert self.config.peers is not None
        node, place = np.nonzero((self.distance >= 0) & world.online[:, None])
        model, distance = self.held[node, place], self.distance[node, place]
        self.distance[node, place] = NOBODY
        on = distance < self.config.hops
        holders, model, distance = node[on].astype(np.int32), model[on].astype(np.int64), distance[on]
        nth = np.arange(holders.size) - np.searchsorted(
            holders, holders
        )  # number among the models that a node forwards
        for k in range(self.config.fanout):
            peer = self.config.peers.choose(world, holders, self.key("gossip"), nth * self.config.fanout + k)
            number = np.arange(max(1, holders.size), dtype=np.int64) * self.config.fanout + k
            arrives, _ = world.transport.send(self, "gossip", holders, peer, self._model_bytes, number)
            self._receive(peer[arrives], model[arrives], (distance[arrives] + 1).astype(np.int16))

    def _receive(self, nodes: Nodes, models: NDArray[Any], hops: NDArray[np.int16]) -> None:
        """Let each node store a model that is new to it; at the cap another model is deleted."""
        rows, by_score = self.config.local.config.records.rows, self.config.prune == "score"
        state = self.heard, self.held, self.distance, self.received
        receive(nodes, models, hops, by_score, self.published, rows, *state)

    # Prediction

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return all arrays except the published models, even if there are as many models as nodes."""
        return {name: array for name, array in super().of_nodes(world).items() if name != "published"}

    def holders(self, world: World) -> Nodes:
        """Return the online nodes that follow the protocol and have a model to predict with."""
        nodes = super().holders(world)
        there = self.held[nodes, 0] != NOBODY
        if self.config.predict == "ensemble" and self.config.local_weight > 0:
            there |= self.config.local.lam[nodes] > 0
        return np.asarray(nodes[there], np.int32)

    def scores(self, nodes: Nodes, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the votes of the models of each node."""
        return self._votes(nodes, x, self.config.local_weight if self.config.predict == "ensemble" else 0.0)

    def others(self, nodes: Nodes, x: NDArray[np.float32]) -> dict[str, NDArray[np.int32]]:
        """Return the classes by the local model alone and by the received models alone (−1: no such model)."""
        local = classify(self.config.local.scores(nodes, x))
        received = classify(self._votes(nodes, x, 0.0))
        local[:, self.config.local.lam[nodes] == 0] = NOBODY
        received[:, self.held[nodes, 0] == NOBODY] = NOBODY
        return {"local": local, "aggregated": received}

    def _votes(self, nodes: Nodes, x: NDArray[np.float32], local_weight: float) -> NDArray[Any]:
        """Return the votes of the local model, with its weight, and of the received models."""
        from scipy.sparse import coo_array

        local, held = self.config.local, self.held[nodes]
        row, place = np.nonzero(held != NOBODY)
        used, column = np.unique(held[row, place], return_inverse=True)
        own = np.flatnonzero((local.lam[nodes] > 0) & (local_weight > 0))
        votes = np.concatenate([np.full(own.size, local_weight), np.ones(row.size)])
        places = np.concatenate([own, row]), np.concatenate([np.arange(own.size), own.size + column])
        weight = coo_array((votes, places), shape=(nodes.size, own.size + used.size)).tocsr()
        models = np.concatenate([local.w[nodes[own]].astype(np.float32), self.published[used]])
        return ensemble.vote(models, weight, nodes, x, self.config.tie, self.key("tie"))

    def ages(self, nodes: Nodes) -> NDArray[np.int32]:
        """Return the number of received models that each node stores."""
        return np.asarray((self.held[nodes] != NOBODY).sum(axis=1), np.int32)

    # Guarantee and metrics

    @property
    def touches_private_data(self) -> bool:
        """Whether the local models are fitted to records that are not published."""
        return not isinstance(self.config.local.config.records, Published)

    def released(self) -> NDArray[np.float64]:
        """Return the published means, or, if nobody is trusted, what each member sends.

        All other members together could compute the latter.
        """
        if self.config.trust == "none":
            return self.upload.ravel().astype(np.float64)
        return self.published.ravel().astype(np.float64)

    def evidence(self) -> NDArray[np.float64] | None:
        """Return how much closer the first model or mean with a canary is to a fit with its first content.

        If nobody is trusted, it is what the member sends: all other members together could compute it. Otherwise it is
        the mean of its group without the models of the others, where other canaries count half with either content.
        """
        canaries = self._canaries
        if canaries is None or not self._shown.any():
            return None
        inside, outside = self.config.local.candidates(canaries)
        found = self._shown_models.copy()
        if self.config.trust != "none":
            middle = self.config.local.w.copy()
            middle[canaries.node] = (inside + outside) / 2
            others = [middle[group].sum(axis=0) - middle[node] if group.size else 0 * middle[node]
                      for node, group in zip(canaries.node, self._shown_with, strict=True)]  # fmt: skip
            found = found * np.array([max(group.size, 1) for group in self._shown_with])[:, None, None] - others
        kind = LAPLACE if self.config.trust == "as-published" else self.config.noise_kind
        return np.asarray(np.where(self._shown, closer(found, inside, outside, kind), 0.0)[:, None])

    def _show(self, nodes: Nodes, w: NDArray[np.float64], groups: list[Nodes]) -> None:
        """Keep the first model that the audit sees of each canary, with the members that it is the mean of."""
        if self._canaries is None:
            return
        for node, model, group in zip(nodes, w, groups, strict=True):
            place = int(self._place[node])
            if place >= 0 and not self._shown[place]:
                self._shown[place], self._shown_models[place], self._shown_with[place] = True, model, group

    def _set_up_audit(self, world: World) -> None:
        """Allocate what the audit keeps of canaries."""
        if self._canaries is None:
            return
        number = self._canaries.node.size
        self._place = np.full(world.nodes, -1, np.int32)
        self._place[self._canaries.node] = np.arange(number)
        self._shown, self._shown_models = np.zeros(number, np.bool_), np.zeros((number, *self._shape))
        self._shown_with: list[Nodes] = [np.empty(0, np.int32)] * number

    def audited(self) -> Audited:
        """Return an audit of one group, only of members that certainly add their share of the noise.

        It has a few aggregations, and one more than the budget allows if that is possible.
        """
        config = self.config
        members = config.honest or config.group
        cycles = 2 * min(config.most_aggregations + 1, 4) + 1
        changes: dict[str, Any] = {"group": members, "quorum": min(config.needed, members), "min_records": 1}
        if config.trust == "none":
            changes["sum"] = "plain"  # masks hide models from the curator, but not from members that collude with it
        return Audited(nodes=members, records=CROWD, cycles=cycles, norm="l2", changes=changes)

    def guarantee(self) -> Guarantee:
        """Return ε over all aggregations in which a node can take part."""
        config, local = self.config, self.config.local.config
        if not self._noisy:
            return Guarantee(None, config.unit) if self.touches_private_data else config.local.guarantee()
        asked = config.total
        for holds, why in (
            (local.penalty == "lasso", "Lasso’s minimum has no bounded sensitivity"),
            (local.solver != "exact", "a descent that stops early has no bounded sensitivity"),
            (isinstance(local.lam, str), "λ was chosen on the records without accounting"),
        ):
            if holds:
                return Guarantee(None, config.unit, f"{why} (ε = {asked:g}{config.at_delta} was requested)")
        epsilon = asked if config.trust != "as-published" else self.worst * config.most_aggregations
        found = local.records.guarantee_of(epsilon, config.unit, config.delta or 0.0)
        return replace(found, note="; ".join(note for note in (found.note, self._trusted(asked)) if note))

    def disclosure(self) -> Disclosure:
        """Return what members send, or the mean that is published, and whom members trust."""
        config = self.config
        if not self._noisy:
            return Disclosure("means of models without noise", "all nodes")
        sees = "the sum" if config.sum == "masked" else "every model"
        curator = f"the curator, who sees {sees}"
        few = f"{config.honest} members of each group"
        return {
            "none": Disclosure("the model of each member with noise", "nobody"),
            "honest": Disclosure(
                "the sum of models with noise", few if config.sum == "masked" else f"{few}, and {curator}"
            ),
            "curator": Disclosure("the mean of each group with noise", curator),
            "as-published": Disclosure("the mean of each group with noise", curator),
        }[config.trust]

    def _trusted(self, asked: float) -> str:
        """Return the assumptions of the guarantee."""
        config = self.config
        sees = "curator trusted" + ("" if config.sum == "masked" else ", who sees every model")
        shares = f"if {config.honest} of the members in each mean add their share of the noise"
        rounding = "the rounding of shares is not covered by the proof"
        return {
            "none": "",
            "honest": f"{shares}; {rounding}" if config.sum == "masked" else f"{shares}; {sees}",
            "curator": sees,
            "as-published": f"as published, for a requested ε = {asked:g}; {sees}",
        }[config.trust]

    def times(self) -> dict[str, float]:
        """Return the seconds spent on masks."""
        return {"masks_s": self._seconds}

    def observe(self, world: World) -> dict[str, float]:
        """Return the numbers of groups and rounds, the spent budget, and whether the protocol has finished."""
        formed, published, rounds, missed = self.counts.tolist()
        under_way = np.unique(self.group_of[self._lasts(world)]).size
        passing = bool((self.distance[world.online] >= 0).any())
        over = self._may_ever().sum() < self.config.group and not under_way and not passing
        found = {"groups.formed": formed, "groups.published": published}
        found |= {"groups.given_up": formed - published - under_way, "rounds": rounds, "members.missed": missed}
        found |= {"models.held": (self.held != NOBODY).sum(axis=1).mean(), "finished": over}
        return {key: float(value) for key, value in found.items()} | self.ledger.metrics()
