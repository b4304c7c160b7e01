"""Decide whether a message arrives: one rule for all layers, in Python and inside kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import inlined, kernel
from golfsim.core.rng import draw, unit

SENT, DELIVERED, LOST, BYTES = range(4)


class Wire(NamedTuple):
    """The delivery rule for one kind of message of a layer in this cycle, and the counters of these messages.

    Get one from `world.transport.wire`, and pass it to a kernel. It is valid for one cycle.
    """

    key: np.uint64  # of the draws that decide about loss
    cycle: int
    loss: float  # the probability that a message is lost
    online: NDArray[np.bool_]  # no entries: all receivers are online, or the message arrives in a later cycle
    side: NDArray[np.int8]  # the side of the cut that each node is on; no entries: there is no cut
    at_once: bool  # messages arrive in the cycle in which they are sent
    size: int  # bytes per message
    counts: NDArray[np.int64]  # of the layer: sent, delivered, lost, bytes


@inlined
def reaches(wire, src, dst):
    """Return whether src can reach dst now: dst is online, and no cut separates the two."""
    return (wire.online.size == 0 or wire.online[dst]) and (wire.side.size == 0 or wire.side[src] == wire.side[dst])


@inlined
def passes(wire, src, dst, node, k):
    """Return whether a message from src to dst arrives; draw k of a node decides whether it is lost by chance.

    This is the rule. It does not count the message.
    """
    lost = wire.loss > 0 and unit(draw(wire.key, wire.cycle, node, k)) < wire.loss
    return not lost and reaches(wire, src, dst)


@inlined
def count(wire, passed):
    """Count one message that was sent."""
    wire.counts[SENT] += 1
    wire.counts[BYTES] += wire.size
    if not passed:
        wire.counts[LOST] += 1
    elif wire.at_once:
        wire.counts[DELIVERED] += 1
    return passed


@inlined
def arrives(wire, src, dst, k):
    """Send message k of this cycle from src to dst and return whether it arrives. The message is counted.

    A node that sends several messages of one kind in a cycle uses a different k for each.
    """
    return count(wire, passes(wire, src, dst, src, 2 * k))


@inlined
def answer_arrives(wire, src, dst, k):
    """Send an answer from src back to dst and return whether it arrives. The answer is counted.

    A node may answer many requests in a cycle, but it sends few requests. So k is the number of the request, among
    those that dst sends.
    """
    return count(wire, passes(wire, src, dst, dst, 2 * k))


@kernel
def reach_all(wire, src, dst, out):
    """Write for each pair of nodes whether src can reach dst now."""
    for e in range(dst.size):
        out[e] = reaches(wire, src[e], dst[e])


@kernel
def send_all(wire, k, src, dst, nodes, out):
    """Send one message from each src to its dst (−1: no message); write which arrive.

    Returns the first receiver that does not exist, or −1.

    Parameters
    ----------
    wire : Wire
        The rule for this kind of message, with the counters of the layer.
    k : array of int64, shape (1,) or (messages,)
        The number of each message among those that its sender sends in this cycle, or one number for all.
    src, dst : array of int32, shape (messages,)
        The sender and the receiver of each message.
    nodes : int
        The number of nodes of the network.
    out : array of bool, shape (messages,)
        Which messages arrive.
    """
    sent = passed = 0
    for e in range(dst.size):
        there = dst[e] >= 0
        if dst[e] >= nodes:
            return np.int64(dst[e])
        sent += there
        there = there and passes(wire, src[e], dst[e], src[e], 2 * k[e if k.size > 1 else 0])
        out[e] = there
        passed += there
    wire.counts[SENT] += sent
    wire.counts[BYTES] += sent * wire.size
    wire.counts[LOST] += sent - passed
    if wire.at_once:
        wire.counts[DELIVERED] += passed
    return np.int64(-1)


def with_server(wire: Wire, nodes: int) -> Wire:
    """Return the rule for messages between a server and a node, which is both sender and receiver in a call.

    The server is always online, and on the larger side of every cut. A message needs a node that is online and on this
    side, in both directions.
    """
    if not wire.side.size:
        return wire
    online = wire.online if wire.online.size else np.ones(nodes, np.bool_)
    return wire._replace(online=online & (wire.side == 0), side=wire.side[:0])
