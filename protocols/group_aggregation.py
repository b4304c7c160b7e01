"""Groups of nodes publish the noisy mean of their models; nodes vote with what they receive (Asplund & Frøystad 2015).

An aggregation takes three turns: a group forms; its members send their models to the curator, which costs them budget;
the curator publishes the mean of what has arrived, if enough has. Whoever leaves in between is missing from the mean,
and a group whose curator leaves, or that falls below the quorum, ends without a result: its members are free again, but
what they have sent counts as spent.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim import ensemble, rng, secure_sum
from golfsim.adversary import HONEST, forge
from golfsim.errors import UserError
from golfsim.kernels import kernel
from golfsim.learner import Learner, classify, score
from golfsim.ledger import Ledger, UniformSchedule
from golfsim.mechanisms import ROUNDING, Guarantee, add_gamma_norm, add_laplace, add_share_of_gamma_norm
from golfsim.memory import available, readable
from golfsim.overlay import Overlay
from golfsim.protocol import Layer, LayerConfig
from golfsim.records import longest, refuse_unfit
from golfsim.rng import below, draw, unit
from protocols.regularised_erm import RegularisedErm

if TYPE_CHECKING:
    from golfsim.world import World

NOBODY = -1
FREE, FORMED, SENT = range(3)
GAMMA, LAPLACE, SHARE = range(3)
Nodes = NDArray[np.int32]


@kernel
def join_over_views(order, start, neighbour, pool, able, online, side, group, size, key, cycle, loss, group_of):
    """Nodes in acting order propose themselves as curators to those they know; returns messages sent and lost.

    A proposal goes to random members of the view, one after the other, until enough have joined. Whoever is able and in
    no group joins. A proposal or an answer that is lost brings nobody. Those of a group that stays too small are free.
    """
    sent = lost = 0
    joined = np.empty(size, np.int32)
    for i in order:
        if not able[i] or group_of[i] >= 0:
            continue
        known = pool.size if start.size == 0 else start[i + 1] - start[i]
        view = pool.copy() if start.size == 0 else neighbour[start[i] : start[i + 1]].copy()
        joined[0] = i
        members = 1
        for place in range(known):
            if members == size:
                break
            other = place + below(draw(key, cycle, i, 3 * place), known - place)
            view[place], view[other] = view[other], view[place]
            j = view[place]
            if j == i:
                continue
            sent += 1
            cut = side.size > 0 and side[i] != side[j]
            if cut or not online[j] or unit(draw(key, cycle, i, 3 * place + 1)) < loss:
                lost += 1
                continue
            sent += 1
            if unit(draw(key, cycle, i, 3 * place + 2)) < loss:
                lost += 1
            elif able[j] and group_of[j] < 0:
                joined[members] = j
                members += 1
        if members >= group:
            for e in range(members):
                group_of[joined[e]] = i
    return sent, lost


@kernel
def as_members_send(nodes, forgery, cycle, w, out):
    """The model that each of the nodes sends: its own, or what a bad peer sends in place of it."""
    for e in range(nodes.size):
        i = nodes[e]
        start = np.int64(i) * out.shape[1]
        if forgery.kind.size > 0 and forgery.kind[i] != HONEST:
            forge(forgery, i, cycle, w, start, w, out[e])
        else:
            out[e] = w[start : start + out.shape[1]]


@kernel
def perturb(nodes, cycle, kind, scale, honest, key, w):
    """Add noise to the models w [nodes, models, features]: functions of the node and the cycle."""
    features = w.shape[2]
    for e in range(nodes.size):
        for m in range(w.shape[1] if scale[e] > 0 else 0):
            k = m * (64 + 3 * features)
            if kind == LAPLACE:
                add_laplace(key, cycle, nodes[e], k, scale[e], w[e], m)
            elif kind == SHARE:
                add_share_of_gamma_norm(key, cycle, nodes[e], k, scale[e], honest, w[e], m)
            else:
                add_gamma_norm(key, cycle, nodes[e], k, scale[e], w[e], m)


class GroupAggregationConfig(LayerConfig):
    """How groups form, what they publish, and how it is protected."""

    local: Layer[RegularisedErm] = Field(description="the layer of the nodes' own models, without noise")
    peers: Layer[Overlay[Any]] | None = Field(None, description="the overlay that groups form and models spread over")
    group: int = Field(ge=1, description="nodes of a group, g")
    quorum: int | None = Field(None, ge=1, description="members whose models must arrive; default: all of the group")
    formation: Literal["central", "overlay"] = Field(
        "central", description="a central agent draws groups at random, or nodes propose themselves to their views"
    )
    epsilon: float = Field(
        ge=1e-6,
        allow_inf_nan=True,
        description="the budget of each record (or node) over all aggregations; inf: no noise",
    )
    aggregation_epsilon: float | None = Field(
        None, ge=1e-6, description="what an aggregation costs, ε_A; default: the whole budget"
    )
    unit: Literal["record", "node"] = Field("record", description="what ε protects: one record, or all of a node")
    trust: Literal["none", "honest", "curator", "as-published"] = Field(
        "none",
        description="whom members trust: nobody, each adds all the noise itself; that `honest` members each add their "
        "share; the curator, which adds it; or as in the source, with the true ε told",
    )
    honest: int | None = Field(None, ge=1, description="trust = “honest”: how many members are sure to add their share")
    sum: Literal["masked", "plain"] = Field(
        "masked", description="whether masks hide a member's model from the curator, or it sees it as in the source"
    )
    publish: Literal["party", "all", "gossip"] = Field(
        "party", description="who gets the mean: the group, all that are online, or whom gossip reaches"
    )
    hops: int = Field(10, ge=1, description="gossip: how far a model is passed on")
    fanout: int = Field(1, ge=1, description="gossip: to how many neighbours a node passes a model that is new to it")
    predict: Literal["ensemble", "aggregated"] = Field(
        "ensemble", description="the vote of the local and all received models, or of the received ones alone"
    )
    tie: Literal["first", "last", "random", "score"] = Field(
        "first", description="what a tied vote means: the first class, the last, any, or what scores say"
    )
    local_weight: float = Field(1.0, ge=0, description="votes of the local model; a received one has one")
    cap: int | None = Field(None, ge=1, description="received models that a node keeps; default: all")
    prune: Literal["oldest", "score"] = Field(
        "oldest", description="which model goes when the cap is reached: the oldest, or the worst on the own records"
    )
    min_records: int = Field(1, ge=1, description="nodes with fewer records take no part")

    @model_validator(mode="after")
    def _fits(self) -> GroupAggregationConfig:
        if self.quorum is not None and self.quorum > self.group:
            raise ValueError(f"quorum: expected at most {self.group}, as “group” says; got {self.quorum}")
        if (self.trust == "honest") != (self.honest is not None):
            raise ValueError("honest: belongs to trust = “honest”, which needs it")
        if self.honest is not None and self.honest > self.needed:
            raise ValueError(f"honest: expected at most {self.needed}, the quorum; got {self.honest}")
        if self.peers is None and (self.formation == "overlay" or self.publish == "gossip"):
            raise ValueError("peers: groups over views and gossip need an overlay")
        if self.cost > self.epsilon:
            raise ValueError(f"aggregation_epsilon: expected at most {self.epsilon:g}, the budget; got {self.cost:g}")
        return self

    @property
    def needed(self) -> int:
        """The quorum."""
        return self.quorum or self.group

    @property
    def cost(self) -> float:
        """ε_A."""
        return self.aggregation_epsilon or self.epsilon

    @property
    def times(self) -> int:
        """In how many aggregations a node can take part."""
        return 1 if math.isinf(self.epsilon) else int(self.epsilon / self.cost * (1 + 1e-9))


class GroupAggregation(Learner[GroupAggregationConfig]):
    """Published means of groups, and at every node the ensemble of its own model and those it has received."""

    Config = GroupAggregationConfig
    accepts = frozenset({"loss", "partition"})

    def setup(self, world: World) -> None:
        """Everybody free, nothing published."""
        config, local = self.config, self.config.local
        if local.config.noise != "none":
            hint = 'noise = "none" in that layer: the mean is what is published, and gets noise of its own'
            raise UserError(f"“{local.name}” has noisy models already", key=f"{self.name}.local", hint=hint)
        records = local.config.records
        self._shape = (records.models, records.features)
        self._noisy = not math.isinf(config.epsilon)
        loose = config.trust == "as-published"  # then the true ε tells what records longer than 1 cost
        if self._noisy and not loose:
            refuse_unfit(records, "l2", self.name, "epsilon")
        self._length = longest(records, "l2") if loose else 1.0
        self._most = world.nodes * config.times // config.needed
        room = min(config.cap or self._most, self._most)
        self._check_memory(world.nodes, room)
        self.group_of = np.full(world.nodes, NOBODY, np.int32)  # the curator of each node's group
        self.phase = np.zeros(world.nodes, np.int8)  # of the group of each curator
        self.begun = np.zeros(world.nodes, np.int32)  # the cycle in which it formed
        self.arrived = np.zeros(world.nodes, np.bool_)  # whose model the curator has
        kind = np.uint64 if config.sum == "masked" else np.float64
        self.upload = np.zeros((world.nodes, int(np.prod(self._shape))), kind)
        self.published = np.zeros((self._most, *self._shape), np.float32)
        self.number = 0  # of models published so far
        self.held = np.full((world.nodes, room), NOBODY, np.int32)  # received models, newest first
        self.distance = np.full((world.nodes, room), NOBODY, np.int16)  # hops behind a model still to be passed on
        self.worst = 0.0  # the ε that an aggregation has truly cost
        self.counts = np.zeros(5, np.int64)  # groups formed, published, given up; rounds; members lost on the way
        self.ledger = Ledger(
            UniformSchedule(kind="uniform", visits=config.times), config.times * config.cost, world.nodes
        )
        self._seconds = 0.0
        self._keys = self.key("mask.own"), self.key("mask.pair")

    def _check_memory(self, nodes: int, room: int) -> None:
        need = nodes * room * 6 + (self._most * 4 + nodes * 8) * int(np.prod(self._shape))
        if need > available():
            what = f"up to {room} received models at {nodes} nodes need {readable(need)} of memory"
            raise UserError(f"{what}; {readable(available())} are available", key=f"{self.name}.cap", hint="set a cap")

    def start(self, world: World, nodes: Nodes) -> None:
        """A node that is back afresh has lost what it received; what it spent stays spent."""
        self.held[nodes] = self.distance[nodes] = NOBODY

    def step(self, world: World) -> None:
        """Publish what has arrived, send what groups have agreed on, form new groups, pass models on."""
        self._leave(world)
        if self.config.publish == "gossip":
            self._pass_on(world)
        self._publish(world)
        self._send(world)
        self._form(world)

    def _leave(self, world: World) -> None:
        """Groups whose curator is gone end."""
        members = np.flatnonzero(self.group_of != NOBODY)
        orphaned = members[~world.online[self.group_of[members]]]
        curators = np.unique(self.group_of[orphaned])
        self.phase[curators] = FREE
        self.counts[2] += curators.size
        self._free(orphaned)

    def _free(self, nodes: NDArray[Any]) -> None:
        self.group_of[nodes] = NOBODY
        self.arrived[nodes] = False

    # Forming groups

    def able(self, world: World) -> NDArray[np.bool_]:
        """Who can take part: online, with a model of enough records, enough budget, and in no group."""
        return np.asarray(self._may_ever() & world.online & (self.group_of == NOBODY))

    def _may_ever(self) -> NDArray[np.bool_]:
        local = self.config.local
        enough = local.stop - local.first >= self.config.min_records
        return np.asarray((local.lam > 0) & enough & (self.ledger.visits < self.config.times))

    def _form(self, world: World) -> None:
        able = self.able(world)
        before = self.group_of != NOBODY
        if able.sum() >= self.config.group:
            (self._draw_groups if self.config.formation == "central" else self._gather)(world, able)
        members = np.flatnonzero((self.group_of != NOBODY) & ~before).astype(np.int32)
        if members.size and self.config.sum == "masked":
            self._agree_on_keys(world, members)
            members = members[self.group_of[members] != NOBODY]
        for curator in np.unique(self.group_of[members]):
            self.phase[curator] = FORMED
            self.begun[curator] = world.cycle
            self.counts[0] += 1

    def _draw_groups(self, world: World, able: NDArray[np.bool_]) -> None:
        """The central agent's way: a random order, cut into groups; each group's first is its curator."""
        nodes = np.flatnonzero(able).astype(np.int32)
        nodes = nodes[rng.permutation(self.key("group"), world.cycle, nodes.size)]
        whole = nodes[: nodes.size // self.config.group * self.config.group].reshape(-1, self.config.group)
        curators = np.repeat(whole[:, 0], self.config.group)
        members = whole.ravel()
        self._told(world, "invitation", curators, members, 16)
        self._keep(members, curators, members == curators)
        self._dissolve(whole[:, 0])

    def _keep(self, members: Nodes, curators: Nodes, sure: NDArray[np.bool_]) -> None:
        heard = sure | self._heard
        self.group_of[members[heard]] = curators[heard]

    def _told(self, world: World, kind: str, src: Nodes, dst: Nodes, size: int) -> NDArray[np.bool_]:
        """Which messages between members and their curators arrive; a node needs none to itself."""
        apart = src != dst
        self._heard = np.ones(src.size, np.bool_)
        k = np.arange(int(apart.sum()), dtype=np.int64)
        self._heard[apart], _ = world.transport.send(self, kind, src[apart], dst[apart], size, k)
        return self._heard

    def _gather(self, world: World, able: NDArray[np.bool_]) -> None:
        """From views: whoever acts first proposes first."""
        assert self.config.peers is not None
        links = self.config.peers.links(world)
        nothing = np.empty(0, np.int32)
        start, neighbour = (nothing, nothing) if links is None else (links.indptr, links.indices)
        pool = np.flatnonzero(world.online).astype(np.int32)
        transport, size = world.transport, self.config.group
        sent, lost = join_over_views(
            world.order, start, neighbour, pool, able, world.online, transport.side(), size, size, self.key("group"),
            world.cycle, transport.loss, self.group_of,
        )  # fmt: skip
        transport.count(self, sent=sent, delivered=sent - lost, lost=lost, size=16)

    def _agree_on_keys(self, world: World, members: Nodes) -> None:
        """Keys and shares of secrets go to the curator and back; who misses one of the four messages is out."""
        curators = self.group_of[members]
        each = self.config.group - 1
        sizes = (secure_sum.KEY_BYTES, each * secure_sum.KEY_BYTES, each * secure_sum.SHARE_BYTES)
        there = np.ones(members.size, np.bool_)
        for kind, size in zip(("key", "keys", "share", "shares"), (*sizes, sizes[2]), strict=True):
            up = kind in ("key", "share")
            src, dst = (members, curators) if up else (curators, members)
            there[there] = self._told(world, kind, src[there], dst[there], size)
        self.counts[3] += 2
        self.group_of[members[~there]] = NOBODY
        self._dissolve(np.unique(curators))

    def _dissolve(self, curators: NDArray[Any]) -> None:
        """Groups that have fallen below the quorum, or lost their curator, end before anything is sent."""
        for curator in curators:
            members = np.flatnonzero(self.group_of == curator)
            if members.size < self.config.needed or curator not in members:
                self._free(members)
                self.counts[2] += members.size > 0

    # Sending models

    def _send(self, world: World) -> None:
        """Members of groups that have formed spend, and send what the curator may see of their model."""
        for curator in np.flatnonzero(self.phase == FORMED):
            self.phase[curator] = SENT
            members = np.flatnonzero(self.group_of == curator).astype(np.int32)
            there = world.online[members] & (self.config.local.lam[members] > 0)
            senders = members[there]
            self.ledger.visits[senders] += 1
            self.upload[senders] = self._words(
                members, there, self._models_of(world, senders), int(self.begun[curator])
            )
            size = self.upload.shape[1] * 8
            self.arrived[senders] = self._told(world, "model", senders, np.full_like(senders, curator), size)
            self.counts[3] += 1
            self.counts[4] += int((~self.arrived[members]).sum())

    def _words(self, members: Nodes, there: NDArray[np.bool_], w: NDArray[np.float64], begun: int) -> NDArray[Any]:
        """What those of the members who are there send: their models, or integers with the masks of all members."""
        flat = w.reshape(len(w), self.upload.shape[1])
        if self.config.sum == "plain":
            return flat
        started = time.perf_counter()
        words = np.zeros((members.size, flat.shape[1]), np.uint64)
        words[there] = secure_sum.to_words(flat, self.config.group, self.name)
        sent = secure_sum.masked(members, words, self._keys, begun)[there]
        self._seconds += time.perf_counter() - started
        return sent

    def _models_of(self, world: World, members: Nodes) -> NDArray[np.float64]:
        """What members put into the sum: their models, forged or not, with the noise that is theirs to add."""
        w = np.empty((members.size, *self._shape))
        flat = self.config.local.w.reshape(-1, self._shape[1])
        as_members_send(members, world.tampering.forgery(world.cycle), world.cycle, flat, w)
        if self.config.trust in ("none", "honest") and self._noisy:
            moves = self._moves(members)
            if self.config.trust == "honest":
                moves = np.full(members.size, moves.max())
            kind = GAMMA if self.config.trust == "none" else SHARE
            scale = moves * self._shape[0] * (1 + ROUNDING) / self.config.cost
            perturb(members, world.cycle, kind, scale, self.config.honest or 1, self.key("noise"), w)
            self.worst = self.config.cost
        return w

    def _moves(self, members: Nodes) -> NDArray[np.float64]:
        """How far one record (or all of a node) can move each model: 2/(nλ) (or 2/λ), and what τ leaves open."""
        local = self.config.local
        n = (local.stop - local.first)[members].astype(float)
        changed = 1 / n if self.config.unit == "record" else np.ones(n.size)
        return np.asarray(2 * (self._length * changed + local.config.tolerance) / local.lam[members])

    # Publishing

    def _publish(self, world: World) -> None:
        for curator in np.flatnonzero(self.phase == SENT):
            members = np.flatnonzero(self.group_of == curator).astype(np.int32)
            mean = self._mean(world, members, int(curator))
            if mean is None:
                self.counts[2] += 1
            else:
                self._spread(world, members, np.int32(curator), mean)
            self.phase[curator] = FREE
            self._free(members)

    def _mean(self, world: World, members: Nodes, curator: int) -> NDArray[np.float64] | None:
        """The mean of the models that have arrived, with the curator's noise if that is trusted; None if too few."""
        arrived = self.arrived[members]
        if arrived.sum() < self.config.needed:
            return None
        if self.config.sum == "plain":
            summed: NDArray[Any] = self.upload[members[arrived]].sum(axis=0)
        else:
            if self._answers(world, members[arrived], curator) < self.config.needed:
                return None
            begun = time.perf_counter()
            sent: Any = self.upload[members]
            words = secure_sum.total(members, arrived, sent, self._keys, int(self.begun[curator]))
            summed = secure_sum.to_numbers(words)
            self._seconds += time.perf_counter() - begun
        mean = (summed / arrived.sum()).reshape(1, *self._shape)
        if self.config.trust in ("curator", "as-published") and self._noisy:
            self._add_noise(world, members[arrived], np.array([curator], np.int32), mean)
        return np.asarray(mean[0])

    def _answers(self, world: World, members: Nodes, curator: int) -> int:
        """How many members reveal to the curator what takes the masks off."""
        online = members[world.online[members]]
        curators = np.full_like(online, curator)
        asked = self._told(world, "unmask", curators, online, self.config.group * 4).copy()
        answer = self._told(
            world, "secrets", online[asked], curators[asked], self.config.group * secure_sum.SECRET_BYTES
        )
        self.counts[3] += 1
        return int(answer.sum())

    def _add_noise(self, world: World, members: Nodes, curator: Nodes, mean: NDArray[np.float64]) -> None:
        """The curator's noise: for the quorum, or as published for the smallest member alone and on each coordinate."""
        config, models = self.config, self._shape[0]
        moves = float(self._moves(members).max())
        if config.trust == "curator":
            scale, kind = moves / config.needed * models * (1 + ROUNDING) / config.cost, GAMMA
            self.worst = config.cost
        else:
            local = config.local
            n = (local.stop - local.first)[members].astype(float)
            lam = local.lam[members]
            given = local.config.as_sum(lam, n) if local.config.lambda_form == "sum" else lam
            scale, kind = 2 * models / (n.min() * config.cost * float(given.min())), LAPLACE
            moved = math.sqrt(self._shape[1]) * moves * (1 + ROUNDING) / members.size
            self.worst = max(self.worst, models * moved / scale)
        perturb(curator, world.cycle, kind, np.array([scale]), 1, self.key("noise"), mean)

    def _spread(self, world: World, members: Nodes, curator: np.int32, mean: NDArray[np.float64]) -> None:
        """Publish a model to the group, to all, or to the curator's neighbours and theirs."""
        model, config = self.number, self.config
        self.published[model] = mean
        self.number += 1
        self.counts[1] += 1
        everyone = world.order if config.publish == "all" else members[world.online[members]]
        receivers = np.array([curator], np.int32) if config.publish == "gossip" else everyone
        src = np.full_like(receivers, curator)
        heard = self._told(world, "published", src, receivers, int(np.prod(self._shape)) * 8)
        self._receive(receivers[heard], np.full(int(heard.sum()), model), np.zeros(int(heard.sum()), np.int16))

    def _pass_on(self, world: World) -> None:
        """Every node passes each model that is new to it to some neighbours, once, as far as hops allow."""
        assert self.config.peers is not None
        node, place = np.nonzero((self.distance >= 0) & world.online[:, None])
        model, distance = self.held[node, place], self.distance[node, place]
        self.distance[node, place] = NOBODY
        on = distance < self.config.hops
        holders, model, distance = node[on].astype(np.int32), model[on], distance[on]
        size = int(np.prod(self._shape)) * 8
        for k in range(self.config.fanout):
            peer = self.config.peers.choose(world, holders, self.key("gossip"), k)
            number = np.arange(holders.size, dtype=np.int64) * self.config.fanout + k
            arrives, _ = world.transport.send(self, "gossip", holders, peer, size, number)
            self._receive(peer[arrives], model[arrives], (distance[arrives] + 1).astype(np.int16))

    def _receive(self, nodes: Nodes, models: NDArray[Any], distance: NDArray[np.int16]) -> None:
        """Give each node a model it has not; one more than the cap costs it another."""
        for node, model, hops in zip(nodes, models, distance, strict=True):
            if model in self.held[node]:
                continue
            full = self.held[node, -1] != NOBODY
            leaves = self._worst_of(int(node)) if full and self.config.prune == "score" else self.held.shape[1] - 1
            self.held[node, 1 : leaves + 1] = self.held[node, :leaves].copy()
            self.distance[node, 1 : leaves + 1] = self.distance[node, :leaves].copy()
            self.held[node, 0], self.distance[node, 0] = model, hops

    def _worst_of(self, node: int) -> int:
        """The place of the received model that is wrong most often on the node's own records."""
        rows = self.config.local.config.records.rows
        own = slice(rows.first[node], rows.stop[node])
        predicted = classify(score(self.published[self.held[node]], rows.x[own]))
        return int((predicted != rows.label[own, None]).sum(axis=0).argmax())

    # What nodes predict

    def holders(self, world: World) -> Nodes:
        """Online nodes that follow the protocol and have a model to predict with."""
        nodes = super().holders(world)
        there = self.held[nodes, 0] != NOBODY
        if self.config.predict == "ensemble" and self.config.local_weight > 0:
            there |= self.config.local.lam[nodes] > 0
        return np.asarray(nodes[there], np.int32)

    def scores(self, nodes: Nodes, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Votes of each node's models."""
        return self._votes(nodes, x, self.config.local_weight if self.config.predict == "ensemble" else 0.0)

    def others(self, nodes: Nodes, x: NDArray[np.float32]) -> dict[str, NDArray[np.int32]]:
        """Side by side: the class by the local model alone, and by the received ones alone (−1: there are none)."""
        local = classify(self.config.local.scores(nodes, x))
        received = classify(self._votes(nodes, x, 0.0))
        local[:, self.config.local.lam[nodes] == 0] = NOBODY
        received[:, self.held[nodes, 0] == NOBODY] = NOBODY
        return {"local": local, "aggregated": received}

    def _votes(self, nodes: Nodes, x: NDArray[np.float32], local_weight: float) -> NDArray[Any]:
        used = np.unique(self.held[nodes])
        used = used[used != NOBODY]
        own = self.config.local.w[nodes].astype(np.float32)
        weight = np.zeros((nodes.size, nodes.size + used.size))
        weight[np.arange(nodes.size), np.arange(nodes.size)] = local_weight * (self.config.local.lam[nodes] > 0)
        row, place = np.nonzero(self.held[nodes] != NOBODY)
        weight[row, nodes.size + np.searchsorted(used, self.held[nodes][row, place])] = 1
        models = np.concatenate([own, self.published[used]])
        return ensemble.vote(models, weight, x, self.config.tie, self.key("tie"))

    def ages(self, nodes: Nodes) -> NDArray[np.int32]:
        """How many models each node has received and kept."""
        return np.asarray((self.held[nodes] != NOBODY).sum(axis=1), np.int32)

    # What is said of it

    @property
    def touches_private_data(self) -> bool:
        """Through the local models, which nobody else publishes."""
        return True

    def guarantee(self) -> Guarantee:
        """ε over all aggregations that a node can take part in."""
        config, local = self.config, self.config.local.config
        if not self._noisy:
            return Guarantee(None, config.unit)
        asked = config.times * config.cost
        for holds, why in (
            (local.penalty == "lasso", "Lasso’s minimum has no bounded sensitivity"),
            (local.solver != "exact", "a descent that stops early has no bounded sensitivity"),
            (isinstance(local.lam, str), "λ was chosen on the records themselves, unaccounted"),
        ):
            if holds:
                return Guarantee(None, config.unit, f"{why} (ε = {asked:g} was asked for)")
        epsilon = asked if config.trust != "as-published" else self.worst * config.times
        found = local.records.guarantee_of(epsilon, config.unit)
        return Guarantee(
            found.epsilon, found.unit, "; ".join(note for note in (found.note, self._trusted(asked)) if note)
        )

    def _trusted(self, asked: float) -> str:
        """What the guarantee rests on."""
        config = self.config
        sees = "curator trusted" + ("" if config.sum == "masked" else ", who sees every model")
        return {
            "none": "",
            "honest": f"if {config.honest} members of a group add their share of the noise",
            "curator": sees,
            "as-published": f"as published, where ε = {asked:g} was asked for; {sees}",
        }[config.trust]

    def times(self) -> dict[str, float]:
        """Seconds spent on masks."""
        return {"masks_s": self._seconds}

    def observe(self, world: World) -> dict[str, float]:
        """Groups, rounds, what was spent, and whether anything more can happen."""
        formed, published, given_up, rounds, lost = self.counts.tolist()
        under_way = bool((self.phase != FREE).any())
        over = self._may_ever().sum() < self.config.group and not under_way
        found = {"groups.formed": formed, "groups.published": published, "groups.given_up": given_up}
        found |= {"rounds": rounds, "members.missed": lost, "models.held": (self.held != NOBODY).sum(axis=1).mean()}
        return {key: float(value) for key, value in found.items()} | {"finished": float(over)} | self.ledger.metrics()
