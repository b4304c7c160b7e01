"""HyParView: an overlay with a small active and a larger passive view (Leitão, Pereira & Rodrigues 2007)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.memory import size_of
from golfsim.core.rng import below, draw
from golfsim.network.delivery import Wire, count, passes, reach_all, reaches
from golfsim.protocol import ViewConfig, ViewOverlay, World, inlined, kernel, leaf, random_contacts
from golfsim.protocol.views import NONE, known

SEEKS = -2  # the contact of a node that has to join and knows nobody
QUEUE = 64  # nodes that repair their views at once, at most; others do it in their turns
JOINED = 2**20  # the numbers of draws and messages after a node has joined begin here
NUMBER = 8  # bytes of a node's number


class Wires(NamedTuple):
    """The delivery rules for the messages of the protocol."""

    join: Wire
    forward: Wire
    neighbour: Wire
    answer: Wire
    disconnect: Wire
    shuffle: Wire
    reply: Wire


class Net(NamedTuple):
    """What all steps of the protocol use.

    `active` and `passive` have the views, `used` the numbers of draws and of messages in the turn of a node, and how
    many of the peers that a node has sent away it has replaced. `sent` and `replied` are scratch memory for a shuffle,
    `near` for the neighbours of a contact. `left` is a queue of nodes that have lost a link to make room for another:
    the last two numbers of `used` are its ends.
    """

    active: NDArray[np.int64]
    passive: NDArray[np.int64]
    wires: Wires
    key: np.uint64
    used: NDArray[np.int64]
    sent: NDArray[np.int64]
    replied: NDArray[np.int64]
    near: NDArray[np.int64]
    left: NDArray[np.int64]


@inlined
def pick(net, by, n):
    """Draw a number from 0 to n−1 in the turn of a node."""
    net.used[0] += 1
    return below(draw(net.key, net.wires.join.cycle, by, net.used[0] - 1), n)


@inlined
def send(net, wire, by, src, dst):
    """Send a message in the turn of a node, and return whether it arrives."""
    net.used[1] += 1
    return count(wire, passes(wire, src, dst, by, 2 * (net.used[1] - 1)))


@inlined
def place_of(rows, i, peer):
    """Return the place of a peer in row i, or −1."""
    for place in range(rows.shape[1]):
        if rows[i, place] == peer:
            return place
    return -1


@inlined
def remove(rows, i, peer):
    """Remove a peer from row i if it is there; the last peer takes its place."""
    place = place_of(rows, i, peer)
    if place >= 0:
        last = known(rows, i) - 1
        rows[i, place] = rows[i, last]
        rows[i, last] = NONE


@inlined
def bring_forward(net, by, rows, i, most):
    """Bring random peers to the first places of row i, and return how many: at most `most`."""
    size = known(rows, i)
    wanted = min(most, size)
    for place in range(wanted):
        other = place + pick(net, by, size - place)
        rows[i, place], rows[i, other] = rows[i, other], rows[i, place]
    return wanted


@leaf
def add_passive(net, by, i, peer, gone, first, last):
    """Put a peer into the passive view of i, if it is new: in a full view in place of one that i has sent away.

    Parameters
    ----------
    net : Net
        The network.
    by : int
        The node whose turn it is.
    i, peer : int
        The node and the peer.
    gone : array of int64
        The peers gone[first] … gone[last−1] were sent away: they are replaced first, and then random ones.
    first, last : int
        The range.
    """
    if peer == i or place_of(net.active, i, peer) >= 0 or place_of(net.passive, i, peer) >= 0:
        return
    size = known(net.passive, i)
    if size < net.passive.shape[1]:
        net.passive[i, size] = peer
        return
    while first + net.used[2] < last:
        place = place_of(net.passive, i, gone[first + net.used[2]])
        net.used[2] += 1
        if place >= 0:
            net.passive[i, place] = peer
            return
    net.passive[i, pick(net, by, size)] = peer


@leaf
def make_room(net, by, i):
    """Let node i end the link to a random peer if its active view is full; the two keep each other as passive peers."""
    size = known(net.active, i)
    if size < net.active.shape[1]:
        return
    other = net.active[i, pick(net, by, size)]
    remove(net.active, i, other)
    add_passive(net, by, i, other, net.near, 0, 0)
    if count(net.wires.disconnect, reaches(net.wires.disconnect, i, other)):
        remove(net.active, other, i)
        add_passive(net, by, other, i, net.near, 0, 0)
        if net.used[4] < net.left.size:
            net.left[net.used[4]] = other
            net.used[4] += 1


@leaf
def link(net, by, i, j):
    """Make two nodes active peers of each other."""
    if i == j or place_of(net.active, i, j) >= 0:
        return
    make_room(net, by, i)
    make_room(net, by, j)
    remove(net.passive, i, j)
    remove(net.passive, j, i)
    net.active[i, known(net.active, i)] = j
    net.active[j, known(net.active, j)] = i


@inlined
def next_on_walk(net, by, node, sender):
    """Return a random active peer of a node other than the one from which the walk came."""
    size = known(net.active, node)
    place = place_of(net.active, node, sender)
    chosen = pick(net, by, size - (place >= 0))
    return net.active[node, chosen + (place >= 0 and chosen >= place)]


@leaf
def forward_join(net, new, contact, first, active_walk, passive_walk):
    """Send a node that joins on a random walk, at whose end it gets an active peer (section 4.2 of the paper).

    Parameters
    ----------
    net : Net
        The network.
    new : int
        The node that joins.
    contact, first : int
        Where the walk begins, and the first node that it visits.
    active_walk : int
        The length of the walk.
    passive_walk : int
        The node that the walk visits with this many hops left keeps the new node as a passive peer.
    """
    sender, node, left = contact, first, active_walk
    while send(net, net.wires.forward, new, sender, node):
        if left == 0 or known(net.active, node) <= 1:
            link(net, new, node, new)
            return
        if left == passive_walk:
            add_passive(net, new, node, new, net.near, 0, 0)
        sender, node = node, next_on_walk(net, new, node, sender)
        left -= 1


@leaf
def join(net, i, contact, active_walk, passive_walk):
    """Let a node join through a contact, and return whether the contact got the message.

    Parameters
    ----------
    net : Net
        The network.
    i, contact : int
        The node and its contact.
    active_walk, passive_walk : int
        See `forward_join`.
    """
    if not send(net, net.wires.join, i, i, contact):
        return False
    link(net, i, contact, i)
    n = 0
    for place in range(known(net.active, contact)):
        if net.active[contact, place] != i:
            net.near[n] = net.active[contact, place]
            n += 1
    for place in range(n):
        forward_join(net, i, contact, net.near[place], active_walk, passive_walk)
    return True


@leaf
def repair(net, by, i):
    """Let a node ask passive peers, in random order, until its active view is full (section 4.3 of the paper).

    A peer with a full active view refuses, unless the node has no active peer: then its request has high priority. A
    peer that does not answer leaves the passive view.
    """
    tried = 0
    while tried < known(net.passive, i) and known(net.active, i) < net.active.shape[1]:
        place = tried + pick(net, by, known(net.passive, i) - tried)
        peer = net.passive[i, place]
        net.passive[i, place], net.passive[i, tried] = net.passive[i, tried], peer
        accepts = known(net.active, i) == 0 or known(net.active, peer) < net.active.shape[1]
        if not send(net, net.wires.neighbour, by, i, peer):
            remove(net.passive, i, peer)
        elif send(net, net.wires.answer, by, peer, i) and accepts:
            link(net, by, i, peer)
        else:
            tried += 1


@leaf
def settle(net, by):
    """Let the nodes repair their active views that have lost a link to make room for another, one after the other."""
    while net.used[3] < net.used[4]:
        net.used[3] += 1
        repair(net, by, net.left[net.used[3] - 1])


@leaf
def shuffle(net, i, active, passive, walk):
    """Let a node exchange peers with the node at the end of a random walk, for the passive views of both (section 4.4).

    Parameters
    ----------
    net : Net
        The network.
    i : int
        The node.
    active, passive : int
        The number of active and of passive peers that it sends.
    walk : int
        The length of the walk.
    """
    size = known(net.active, i)
    if size == 0:
        return
    sender, node = i, net.active[i, pick(net, i, size)]
    net.sent[0] = i
    near = 1 + bring_forward(net, i, net.active, i, active)
    for place in range(1, near):
        net.sent[place] = net.active[i, place - 1]
    total = near + bring_forward(net, i, net.passive, i, passive)
    for place in range(near, total):
        net.sent[place] = net.passive[i, place - near]
    left = walk
    while True:
        if not send(net, net.wires.shuffle, i, sender, node):
            return
        left -= 1
        if left <= 0 or known(net.active, node) <= 1:
            break
        sender, node = node, next_on_walk(net, i, node, sender)
    if node == i:
        return
    returned = bring_forward(net, i, net.passive, node, total)
    for place in range(returned):
        net.replied[place] = net.passive[node, place]
    net.used[2] = 0
    for place in range(total):
        add_passive(net, i, node, net.sent[place], net.replied, 0, returned)
    if send(net, net.wires.reply, i, node, i):
        net.used[2] = 0
        for place in range(returned):
            add_passive(net, i, i, net.replied[place], net.sent, near, total)


@kernel
def drop_broken(active, order, wire):
    """Let each node notice which of its links are broken: the peer cannot be reached, or has ended the link."""
    for i in order:
        for place in range(known(active, i) - 1, -1, -1):
            peer = active[i, place]
            if not reaches(wire, i, peer) or place_of(active, peer, i) < 0:
                remove(active, i, peer)


@kernel
def join_all(net, nodes, contact, active_walk, passive_walk):
    """Let nodes join, one after the other.

    Parameters
    ----------
    net : Net
        The network.
    nodes : array of int32
        The nodes that have a contact.
    contact : array of int32, shape (nodes of the network,)
        The contact of each node that has to join; changed in place.
    active_walk, passive_walk : int
        ARWL and PRWL of the paper.
    """
    for i in nodes:
        net.used[:] = 0
        if join(net, i, contact[i], active_walk, passive_walk):
            contact[i] = NONE
        settle(net, i)


@kernel
def act(net, order, walk, active, passive):
    """Let each node in turn repair its active view and shuffle its passive view.

    Parameters
    ----------
    net : Net
        The network.
    order : array of int32
        The online nodes, in acting order.
    walk : int
        ARWL of the paper.
    active, passive : int
        The number of active and of passive peers that a node sends in a shuffle.
    """
    for i in order:
        net.used[:] = 0
        net.used[0] = net.used[1] = JOINED
        repair(net, i, i)
        settle(net, i)
        shuffle(net, i, active, passive, walk)


@kernel
def chain(nodes, key, cycle, contact):
    """Give each node but the first one a random contact among the nodes before it."""
    for e in range(1, nodes.size):
        contact[nodes[e]] = nodes[below(draw(key, cycle, nodes[e], 0), e)]


class HyParViewConfig(ViewConfig):
    """HyParView settings. The lengths of views and walks are those of HashiCorp's program, which follows the paper."""

    view: int = Field(5, ge=1, le=1000, description="the length of the active view")
    passive: int = Field(30, ge=1, le=1000, description="the length of the passive view")
    active_walk: int = Field(6, ge=1, description="ARWL of the paper: the length of random walks")
    passive_walk: int = Field(
        3, ge=0, description="PRWL of the paper: with this many hops left, a joining node enters a passive view"
    )
    shuffle_active: int = Field(
        3, ge=0, description="k_a of the paper: the number of active peers in a shuffle message"
    )
    shuffle_passive: int = Field(
        4, ge=0, description="k_p of the paper: the number of passive peers in a shuffle message"
    )
    rejoin: bool = Field(
        True, description="whether a node that has lost all peers joins again, through a random online node"
    )


class HyParView(ViewOverlay[HyParViewConfig]):
    """Links between active peers go both ways; passive peers replace those that fail.

    In a turn each node first notices which links are broken, as TCP does. Then new nodes join through a contact and
    random walks. Then each node asks passive peers until its active view is full, and shuffles its passive view with
    that of a node at the end of a random walk. A node that loses a link because a peer needs the place asks at once.
    Other layers choose among the active peers.
    """

    Config = HyParViewConfig
    accepts = frozenset({"loss", "partition"})

    def setup(self, world: World) -> None:
        """Allocate empty views."""
        super().setup(world)
        config = self.config
        self.passive = np.full((world.nodes, config.passive), NONE, np.int64)
        self.contact = np.full(world.nodes, NONE, np.int32)
        carried = 1 + config.shuffle_active + config.shuffle_passive
        self._bytes = NUMBER * carried
        self._scratch = [np.empty(size, np.int64) for size in (5, carried, carried, config.view, QUEUE)]

    def memory(self, world: World) -> int:
        """Return the bytes of the views and of the contacts."""
        return super().memory(world) + size_of((np.int64, world.nodes, self.config.passive), (np.int32, 3, world.nodes))

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Let the nodes join in their next turns: the first nodes one after the other, later nodes through any node."""
        newcomer = np.zeros(world.nodes, np.bool_)
        newcomer[nodes] = True
        settled = world.online & ~newcomer
        self.views[nodes] = self.passive[nodes] = NONE
        if settled.any():
            found = random_contacts(world, nodes, settled, self._start_key)
            self.contact[nodes] = np.where(found < 0, SEEKS, found)
        else:
            self.contact[nodes] = NONE
            chain(nodes, self._start_key, world.cycle, self.contact)

    def step(self, world: World) -> None:
        """Let nodes notice broken links and find contacts; then let all act."""
        drop_broken(self.views, world.order, world.transport.reach())
        self._find_contacts(world)
        self._exchange(world)

    def _find_contacts(self, world: World) -> None:
        """Give a random contact to each node that has to join and cannot reach the one that it has, if any."""
        nodes = np.sort(world.order)
        if self.config.rejoin:
            alone = (self.views[nodes, 0] < 0) & (self.passive[nodes, 0] < 0) & (self.contact[nodes] == NONE)
            self.contact[nodes[alone]] = SEEKS
        joining = nodes[self.contact[nodes] != NONE]
        there = np.zeros(joining.size, np.bool_)
        reach_all(world.transport.reach(), joining, np.maximum(self.contact[joining], 0), there)
        seeking = joining[~there | (self.contact[joining] < 0)]
        found = random_contacts(world, seeking, world.online, self._start_key, 1)
        self.contact[seeking] = np.where(found < 0, SEEKS, found)

    def _exchange(self, world: World) -> None:
        config = self.config
        sizes = {"shuffle": self._bytes, "reply": self._bytes}
        wires = Wires(*(world.transport.wire(self, kind, sizes.get(kind, NUMBER)) for kind in Wires._fields))
        net = Net(self.views, self.passive, wires, self._exchange_key, *self._scratch)
        nodes = np.sort(world.order)
        joining = nodes[self.contact[nodes] >= 0]
        join_all(net, joining, self.contact, config.active_walk, config.passive_walk)
        act(net, world.order, config.active_walk, config.shuffle_active, config.shuffle_passive)
