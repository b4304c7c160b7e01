"""Models that walk over the network and are updated at every node they visit: sequential gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel, leaf
from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.core.rng import below, draw
from golfsim.learning.exposure import NOBODY, Note
from golfsim.learning.kinds import with_room
from golfsim.learning.linear import Descent, DescentConfig, linear
from golfsim.learning.many import Together, learn_many
from golfsim.learning.updates import Noise, decay_of, learn_in_place, reach_of
from golfsim.network.delivery import Wire, count, passes, reaches
from golfsim.privacy.ledger import Budget
from golfsim.protocol.base import Audited
from golfsim.protocol.records import Rows
from golfsim.protocol.symbols import prefetch

if TYPE_CHECKING:
    from golfsim.learning.exposure import Exposure
    from golfsim.learning.kinds import Rule
    from golfsim.network.world import World

LOST = -1


@leaf
def next_node(start, neighbour, pool, online, here, row, h):
    """Return a random online neighbour in a row of the graph, or −1 if there is none.

    Parameters
    ----------
    start, neighbour : array of int32
        The graph: row i has neighbour[start[i]] … neighbour[start[i+1]−1]. Empty: all nodes know the pool.
    pool : array of int32
        The online nodes.
    online : array of bool, shape (nodes,)
        Which nodes are online.
    here : int
        The node that has the token.
    row : int
        The row of the graph.
    h : uint64
        Random bits.
    """
    if start.size == 0:
        if pool.size < 2:
            return np.int64(-1)
        place = below(h, pool.size - 1)
        return np.int64(pool[place] if pool[place] < here else pool[place + 1])
    alive = 0
    for place in range(start[row], start[row + 1]):
        alive += online[neighbour[place]]
    if alive == 0:
        return np.int64(-1)
    left = below(h, alive)
    for place in range(start[row], start[row + 1]):
        left -= online[neighbour[place]]
        if left < 0:
            return np.int64(neighbour[place])
    return np.int64(-1)


@kernel
def hop(start, neighbour, pool, online, wire, at, held, path):
    """Move each token from node to node; a token that waits or is lost stops.

    Parameters
    ----------
    start, neighbour : array of int32
        The graph: one row per node or, for a single hop, one row per walker: that of the node it is at. Empty: all
        nodes know the pool.
    pool : array of int32
        The online nodes.
    online : array of bool, shape (nodes,)
        Which nodes are online.
    wire : Wire
        The rule that decides which tokens arrive, and counts them; its key is also used to draw the next node.
    at, held : array of int32, shape (walkers,)
        The node that has each token, or −1; and the node that sent a token that was lost. Changed in place.
    path : array of int32, shape (walkers, hops)
        The nodes that each token visits, −1 after it stops; filled here.
    """
    path[:] = -1
    for walker in range(at.size):
        for step in range(path.shape[1]):
            here = at[walker]
            if here < 0 or not online[here]:
                break
            row = walker if path.shape[1] == 1 else here
            there = next_node(start, neighbour, pool, online, here, row, draw(wire.key, wire.cycle, walker, 2 * step))
            if there < 0:
                break
            if not count(wire, passes(wire, here, there, walker, 2 * step + 1)):
                held[walker] = here
                at[walker] = LOST
                break
            at[walker] = there
            path[walker, step] = there


@kernel
def arrive(wire, at, to, due, held, path):
    """Deliver the tokens that are due, and return the numbers of delivered and lost tokens.

    Parameters
    ----------
    wire : Wire
        The rule that decides which tokens reach their receivers.
    at, to, due, held : array of int32, shape (walkers,)
        The node that has each token; the receiver of a token in transit; the cycle in which it is due; its sender.
        −1: none. Changed in place.
    path : array of int32, shape (walkers, 1)
        The node that each token visits, or −1; filled here.
    """
    came = lost = 0
    path[:] = -1
    for walker in range(at.size):
        if to[walker] >= 0 and due[walker] <= wire.cycle:
            there = to[walker]
            to[walker] = LOST
            if reaches(wire, held[walker], there):
                at[walker] = there
                path[walker, 0] = there
                came += 1
            else:
                lost += 1
    return came, lost


@kernel
def depart(start, neighbour, pool, online, wire, at, to, held):
    """Send the tokens of online nodes to neighbours.

    Parameters
    ----------
    start, neighbour : array of int32
        The graph, one row per walker: that of the node it is at. Empty: all nodes know the pool.
    pool : array of int32
        The online nodes.
    online : array of bool, shape (nodes,)
        Which nodes are online.
    wire : Wire
        The rule that decides which tokens are lost, and counts them; its key is also used to draw the next node.
    at, to, held : array of int32, shape (walkers,)
        The node that has each token; the receiver of a token in transit; its sender. −1: none. Changed in place.
    """
    for walker in range(at.size):
        here = at[walker]
        if here >= 0 and online[here]:
            there = next_node(start, neighbour, pool, online, here, walker, draw(wire.key, wire.cycle, walker, 0))
            if there >= 0:
                held[walker] = here
                at[walker] = LOST
                if count(wire, passes(wire, here, there, walker, 1)):
                    to[walker] = there


class Tail(NamedTuple):
    """Sums of the latest models of each walker, to average them; no rows: models are not averaged.

    `recent` begins at each visit whose number is a power of two, and `earlier` is what it was then. So both together
    are the sum over more than half of the visits, up to the last one.
    """

    visits: NDArray[np.int64]  # that are averaged, of each walker
    recent: NDArray[np.float64]  # [walkers · models, features]
    earlier: NDArray[np.float64]


@leaf
def include(tail, walker, models, w):
    """Add the current model of a walker to its sums."""
    tail.visits[walker] += 1
    number = tail.visits[walker]
    for row in range(walker * models, (walker + 1) * models):
        if number & (number - 1) == 0:
            for f in range(w.shape[1]):
                tail.earlier[row, f] = tail.recent[row, f]
                tail.recent[row, f] = 0
        for f in range(w.shape[1]):
            tail.recent[row, f] += w[row, f]


@kernel
def visit(path, w, age, models, rows, rule, noise, budget, counts, tail):
    """Update the model of each walker at each node of its path, hop by hop.

    Parameters
    ----------
    path : array of int32, shape (walkers, hops)
        The nodes that each walker visits; −1: none.
    w : array of float32, shape (walkers · models, features)
        The models, one row per linear model; changed in place.
    age : array of int32, shape (walkers,)
        The number of updates of each model; changed in place.
    models : int
        The number of linear models per walker.
    rows : Rows
        The records of the nodes.
    rule : Rule
        The update rule.
    noise : Noise
        The noise that is added to gradients.
    budget : Budget
        The budget that visits are charged to.
    counts : array of int64, shape (2,)
        The numbers of visits with and without an update; changed in place.
    tail : Tail
        The sums of the latest models, if they are averaged; changed in place.
    """
    fresh = np.empty((models, w.shape[1]), np.float32)
    rule = with_room(rule)
    for step in range(path.shape[1]):
        for walker in range(path.shape[0]):
            if step + 1 < path.shape[1] and path[walker, step + 1] >= 0:
                first = rows.first[path[walker, step + 1]]
                prefetch(rows.x, first * models if rows.folded else first)
            if path[walker, step] >= 0:
                node, start = path[walker, step], walker * models
                new_age = learn_in_place(w, start, age[walker], rows, node, rule, noise, budget, fresh)
                counts[1 if new_age == age[walker] else 0] += 1
                if tail.visits.size > 0 and new_age != age[walker]:
                    include(tail, walker, models, w)
                age[walker] = new_age


PUBLIC = -2  # the node before the first visit of a walk: everyone knows the first model


def follow(
    exposure: Exposure,
    nodes: NDArray[np.int32],
    w: NDArray[np.float32],
    age: NDArray[np.int32],
    rule: Rule,
    rows: Rows,
) -> None:
    """Let attackers note the tokens that reach them, and compare each with the one that they have sent.

    A token has a number. So attackers who held it before and after a node's visit know both models. They see from the
    age of the model that the visit has updated it.

    Parameters
    ----------
    exposure : Exposure
        What attackers know; changed here.
    nodes : array of int32, shape (walkers,)
        The node that each token reaches, or −1.
    w : array of float32, shape (walkers, models, features)
        The models before the visits.
    age : array of int32, shape (walkers,)
        Their ages.
    rule : Rule
        The update rule.
    rows : Rows
        The records of the nodes.
    """
    trail, group = exposure.notes("trail"), exposure.group
    for walker in np.flatnonzero(nodes >= 0).tolist():
        here, model, now = int(nodes[walker]), w[walker].astype(np.float64), int(age[walker])
        note, before = trail.get((walker, 0)), PUBLIC
        if note is not None and now >= note.numbers[0] and now > 0:
            old, visited, sender = (int(number) for number in note.numbers)
            before, mine = visited, int(group[here])
            knows = mine != NOBODY and mine != group[visited] and (sender == PUBLIC or mine == group[sender])
            if knows and now == old + 1:
                difference = model - float(decay_of(rule, now)) * note.w
                largest = max(float(np.abs(model).max()), float(np.abs(note.w).max()))
                exposure.add(mine, visited, difference, float(reach_of(rule, now)), largest, rows)
        trail[walker, 0] = Note(model, (float(now), float(here), float(before)))


class WalkConfig(DescentConfig):
    """The settings of random walks."""

    walkers: int = Field(1, ge=1, description="the number of models that walk")
    hops: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        1, description="the number of nodes that a walker visits per cycle; “all”: the number of nodes in the network"
    )
    path: Literal["walk", "tour"] = Field(
        "walk",
        description="“walk”: from neighbour to neighbour; “tour”: all online nodes once in random order, repeatedly",
    )
    restart: Literal["never", "afresh", "resend"] = Field(
        "never",
        description="what happens if a token is lost: the walk ends (`never`); a random node starts a new walk with "
        "the zero model (`afresh`); or the last holder notices the loss and sends the token again in the next cycle "
        "(`resend`)",
    )
    average: Literal["none", "second-half"] = Field(
        "none",
        description="the model that predicts: that of the last update, or the average of the models since more than "
        "half of the updates, which varies less; the token then carries two sums as well",
    )


C = TypeVar("C", bound=WalkConfig)


class Walk(Descent[C]):
    """The base class of all walks."""

    accepts = frozenset({"loss", "delay", "partition"})
    at_nodes = False
    batches = True
    seen_in_part = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        *Descent.metrics,
        Metric("walkers", "The number of walkers that are not lost.", "walkers"),
        Metric("visits.made", "The number of visits that updated a model, since the start of the run.", "visits"),
        Metric(
            "visits.passed_over",
            "The number of visits that did not update a model: the node had no records, or no budget left.",
            "visits",
        ),
    )

    def setup(self, world: World) -> None:
        """Set all models to zero; no walker has started yet."""
        walkers = self.config.walkers
        if self.config.path == "tour" and world.transport.faults:
            what = f"a tour does not support {' and '.join(sorted(world.transport.faults))} of messages"
            raise UserError(what, key=f"{self.name}.path", hint='use path = "walk"')
        if world.transport.longest and self.config.hops != 1:
            what = "with delays a token visits one node per cycle"
            raise UserError(what, key=f"{self.name}.hops", hint="use hops = 1")
        self.allocate(world, walkers)
        self.at = np.full(walkers, LOST, np.int32)
        self.held = np.full(walkers, LOST, np.int32)  # the last sender of the token
        self.to = np.full(walkers, LOST, np.int32)  # the receiver of a token in transit
        self.due = np.zeros(walkers, np.int32)
        self.begun = np.zeros(walkers, np.bool_)
        self.toured = np.zeros(walkers, np.int64)
        self.visits = np.zeros(2, np.int64)  # with and without an update
        averaged = walkers if self.config.average == "second-half" else 0
        self.averaged = np.zeros(averaged, np.int64)  # visits of each walker
        self.recent, self.earlier = (np.zeros((averaged, *self.w.shape[1:])) for _ in range(2))
        if averaged:
            self._message_bytes += 2 * self.recent[0].nbytes + self.averaged.itemsize
        self._hops = world.nodes if self.config.hops == "all" else self.config.hops
        self._hop_key, self._start_key, self._tour_key = self.key("hop"), self.key("start"), self.key("tour")
        self._no_budget = Budget(0, 0, 0.0, np.zeros(0, np.int32))
        self._exposure: Exposure | None = None
        self._no_noise = self.watched(Noise(False, 0, False, np.uint64(0)), world)

    def memory(self, world: World) -> int:
        """Return the bytes of the models, the tokens and their paths."""
        walkers, hops = self.config.walkers, world.nodes if self.config.hops == "all" else self.config.hops
        paths = size_of((40, walkers), (np.int32, walkers, hops), (np.int32, 4, world.nodes))
        sums = 4 if self.config.average == "second-half" else 0  # two of double precision
        return (1 + sums) * self.size_of_models(walkers) + paths

    def _privacy(self) -> tuple[Noise, Budget]:
        """Return no noise and an empty budget."""
        return self._no_noise, self._no_budget

    def step(self, world: World) -> None:
        """Start walks, move every walker, and update its model at the nodes it visits."""
        if world.order.size == 0:
            return
        self._begin(world)
        path = self._tours(world) if self.config.path == "tour" else self._walks(world)
        rows, models = self.config.records.rows, self.w.shape[1]
        tail = Tail(self.averaged, linear(self.recent), linear(self.earlier))
        if self.config.learner.batched:
            self._visit_together(path, rows, tail, world.threads)
        else:
            for hops in np.split(path, path.shape[1], axis=1) if self._followed else (path,):
                hops = np.ascontiguousarray(hops)
                self._before(hops[:, 0])
                visit(hops, linear(self.w), self.age, models, rows, self.rule(), *self._privacy(), self.visits, tail)
                self._after(hops[:, 0])
        if self.config.restart == "resend":
            np.copyto(self.at, self.held, where=self._gone())

    def expose(self, exposure: Exposure, world: World) -> bool:
        """Add what attackers see of records from now on: the models before and after the visit of another node."""
        if not self.config.learner.linear:
            what = f"the models of “{self.config.learner.config.use}” are not linear, so they cannot be inverted"
            hint = "remove “inversion”, or use a linear learner"
            raise UserError(what, key="observe.attacks", hint=hint, docs="privacy")
        self._exposure = exposure
        return True

    @property
    def _followed(self) -> bool:
        """Whether `_before` and `_after` must see every hop."""
        return self._exposure is not None or self._arrivals is not None

    def _before(self, path: NDArray[np.int32]) -> None:
        """Let attackers, and the observers of an audit, see the tokens at nodes before their updates."""
        if self._exposure is not None:
            follow(self._exposure, path, self.w, self.age, self.rule(), self.config.records.rows)
        if self._arrivals is not None:
            for walker in np.flatnonzero(path >= 0):
                if self._arrivals.observes[path[walker]]:
                    self._arrivals.arrive(int(walker), int(self.age[walker]), self.w[walker])

    def _after(self, path: NDArray[np.int32]) -> None:
        """Note for the observers of an audit where tokens were updated."""
        if self._arrivals is not None:
            for walker in np.flatnonzero(path >= 0):
                self._arrivals.visit(int(walker), int(path[walker]))

    def _visit_together(self, path: NDArray[np.int32], rows: Rows, tail: Tail, threads: int) -> None:
        """Visit nodes as the kernel `visit` does, with a learner that updates many models at once."""
        how = Together(self.config.learner, self._seen, rows, self.rule(), *self._privacy(), threads)
        w = linear(self.w)
        for step in range(path.shape[1]):
            walkers = np.flatnonzero(path[:, step] >= 0)
            models, age = w[walkers], self.age[walkers]
            learn_many(how, models, age, path[walkers, step])
            changed = age != self.age[walkers]
            w[walkers], self.age[walkers] = models, age
            self.visits += (int(changed.sum()), int((~changed).sum()))
            for walker in walkers[changed] if tail.visits.size else ():
                include(tail, walker, 1, w)

    def _gone(self) -> NDArray[np.bool_]:
        """Return the walkers whose token is neither at a node nor in transit."""
        return np.asarray((self.at == LOST) & (self.to == LOST))

    def _begin(self, world: World) -> None:
        """Start new walkers, and lost ones that may restart, at random online nodes."""
        new = ~self.begun
        if self.config.restart == "afresh":
            new |= self._gone()
        if not new.any():
            return
        walkers = np.flatnonzero(new).astype(np.int32)
        pool = np.flatnonzero(world.online).astype(np.int32)
        self.at[walkers] = pool[rng.integers(self._start_key, walkers, pool.size, world.cycle)]
        self.begun[walkers] = True
        self.w[walkers] = self._initial
        self.age[walkers] = 0
        if self.averaged.size:
            self.averaged[walkers] = self.recent[walkers] = self.earlier[walkers] = 0

    def _walks(self, world: World) -> NDArray[np.int32]:
        path = np.empty((self.at.size, self._hops), np.int32)
        if world.transport.longest:
            self._walk_slowly(world, path)
        else:
            hop(*self._graph(world), self._wire(world), self.at, self.held, path)
        return path

    def _graph(self, world: World) -> tuple[NDArray[Any], ...]:
        """Return the graph and the online nodes; for a single hop only the rows of nodes with a walker."""
        peers = self.config.peers
        links = peers.links(world) if self._hops > 1 else peers.links_of(world, np.maximum(self.at, 0))
        nothing = np.empty(0, np.int32)
        start, neighbour = (nothing, nothing) if links is None else (links.indptr, links.indices)
        pool = np.flatnonzero(world.online).astype(np.int32)
        return start, neighbour, pool, world.online

    def _wire(self, world: World) -> Wire:
        """Return the delivery rule; it draws per walker, not per node, so it has a separate key."""
        return world.transport.wire(self, "token", self._message_bytes)._replace(key=self._hop_key)

    def _walk_slowly(self, world: World, path: NDArray[np.int32]) -> None:
        """Move tokens with delays: deliver those that are due, and send all tokens that are at a node."""
        transport = world.transport
        came, lost = arrive(transport.reach(), self.at, self.to, self.due, self.held, path)
        before = self.to.copy()
        depart(*self._graph(world), self._wire(world), self.at, self.to, self.held)
        new = np.flatnonzero((self.to != LOST) & (before == LOST)).astype(np.int32)
        self.due[new] = world.cycle + transport.lags(self, "token", new)
        transport.count(self, sent=0, delivered=came, lost=lost)

    def _tours(self, world: World) -> NDArray[np.int32]:
        """Return the next nodes of each walker's tour over all nodes; offline nodes are left out."""
        path = np.full((self.at.size, self._hops), -1, np.int32)
        for walker in range(self.at.size):
            filled = 0
            while filled < self._hops:
                lap, place = divmod(int(self.toured[walker]), world.nodes)
                order = rng.permutation(self._tour_key, walker * 2**20 + lap, world.nodes)
                part = order[place : place + self._hops - filled]
                path[walker, filled : filled + part.size] = np.where(world.online[part], part, -1)
                self.toured[walker] += part.size
                filled += part.size
        sent = int((path >= 0).sum())
        world.transport.count(self, sent=sent, delivered=sent, lost=0, size=self._message_bytes)
        return path

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return no arrays: models belong to walkers, even if there are as many walkers as nodes."""
        return {}

    def under_way(self) -> int:
        """Return the number of tokens in transit."""
        return int((self.to != LOST).sum())

    def holders(self, world: World) -> NDArray[np.int32]:
        """Return the walkers that are not lost."""
        alive = self.begun if self.config.path == "tour" else ~self._gone()
        return np.flatnonzero(alive).astype(np.int32)

    def models(self, holders: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the models that predict: the current ones, or averages."""
        if not self.averaged.size:
            return super().models(holders)
        visits = self.averaged[holders]
        begun = np.array([1 << int(number).bit_length() >> 1 for number in visits], np.int64)  # a power of two
        number = np.maximum(visits - begun + 1 + begun // 2, 1)
        sums = self.recent[holders] + self.earlier[holders]
        return np.asarray(sums / number[:, None, None], np.float32)

    def audited(self) -> Audited:
        """Return an audit with one hop per cycle, so that every model is visible.

        It is long enough to spend the budgets of two nodes and to visit both once more.
        """
        return Audited(cycles=2 * (self._visits_allowed() + 1), changes={"hops": 1})

    def _visits_allowed(self) -> int:
        return 1

    def observe(self, world: World) -> dict[str, float]:
        """Return the numbers of walkers and of their visits."""
        made, passed = self.visits.tolist()
        return super().observe(world) | {
            "walkers": float(self.holders(world).size),
            "visits.made": float(made),
            "visits.passed_over": float(passed),
        }


class RandomWalk(Walk[WalkConfig]):
    """Sequential gradient descent without noise: models walk from node to node and learn from the records there."""

    Config = WalkConfig
