"""Circuits of relays, and what an observer of their timing learns about senders (Cyphers 2017, section 5.1).

The observer is the aggregator. It sees in which cycle each peer sends and in which cycle each packet arrives. It knows
the distribution of delays and the partition of each packet. This determines, for each packet that arrives, the
probability of each peer of the partition to be its sender.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from golfsim.core.maths import log_of

Law = NDArray[np.float64]  # probabilities of cycles
Cycles = NDArray[np.int32]

SEALED_BOX = 48  # bytes that a layer of encryption adds: a public key and an authentication tag, as in NaCl
ADDRESS = 6  # bytes of the next address in each layer: IPv4 and port


def packet_bytes(bits: int, token: int, relays: int) -> int:
    """Return the size of a packet in bytes, the same on all hops: padded to the longest string and all layers."""
    question = 4
    return question + token + -(-bits // 8) + (relays + 1) * (SEALED_BOX + ADDRESS)


@dataclass(frozen=True)
class Timing:
    """The distribution of the arrival time of a packet; cycles count from the start of the send window."""

    shortest: int  # the shortest delay of a message
    lags: Law  # the probabilities of this delay, of one cycle more, …
    relays: int
    stagger: int = 0  # the length of the stagger window in cycles
    second: int | None = None  # when this window begins; None: for each packet when it reaches its last relay
    every: int = 1  # the number of cycles between two turns

    @property
    def slowest_hop(self) -> int:
        """The largest number of cycles of one hop, up to the next turn."""
        return -(-(self.shortest + self.lags.size - 1) // self.every) * self.every

    def last(self, window: int) -> int:
        """Return the last cycle in which a packet may arrive."""
        before = self.next_turn(window - 1) + self.relays * self.slowest_hop
        if self.stagger:
            before = self.next_turn((before if self.second is None else self.second) + self.stagger - 1)
        return before + self.slowest_hop

    def next_turn(self, cycle: int) -> int:
        """Return the first turn in or after a cycle."""
        return -(-cycle // self.every) * self.every

    def unstaggered(self) -> Timing:
        """Return the same timing without a stagger window."""
        return replace(self, stagger=0, second=None)

    def arrival(self, sent: int, horizon: int) -> Law:
        """Return the probability of arrival in each cycle below the horizon."""
        law = np.zeros(horizon)
        law[sent] = 1.0
        for _ in range(self.relays):
            law = self._hop(law)
        return self._hop(self._held(law))

    def _hop(self, law: Law) -> Law:
        return self._in_turns(later(law, np.r_[np.zeros(self.shortest), self.lags]))

    def _held(self, law: Law) -> Law:
        if not self.stagger:
            return law
        window = np.full(self.stagger, 1 / self.stagger)
        if self.second is None:
            return self._in_turns(later(law, window))
        out = np.zeros_like(law)
        out[self.second : self.second + self.stagger] = window[: max(law.size - self.second, 0)] * law.sum()
        return self._in_turns(out)

    def _in_turns(self, law: Law) -> Law:
        """Move the probability of cycles between two turns to the next turn."""
        if self.every == 1:
            return law
        turns = -(-np.arange(law.size) // self.every) * self.every
        return np.asarray(np.bincount(turns, law)[: law.size], np.float64)


@dataclass(frozen=True)
class Seen:
    """The anonymity of packets: the number of peers that may have sent each, and the entropy over them in bits."""

    peers: NDArray[np.int64]
    entropy: NDArray[np.float64]


def hidden_among(timing: Timing, peer: NDArray[np.int32], sent: Cycles, arrived: Cycles) -> Seen:
    """Return the anonymity of packets of one partition.

    `peer` and `sent` are the sender and the cycle of all packets that were sent, `arrived` the cycles in which packets
    arrived. The packets of a peer cannot be distinguished, so each of them is equally likely to be about a given
    subset.
    """
    cycles, which = np.unique(arrived, return_inverse=True)
    horizon = int(max(sent.max(initial=0), arrived.max(initial=0))) + 1
    first, place = np.unique(sent, return_inverse=True)
    laws = np.array([timing.arrival(int(s), horizon) for s in first]).reshape(first.size, horizon)
    _, who = np.unique(peer, return_inverse=True)
    share = 1 / np.bincount(who)[who]
    found = [posterior(laws[place, t] * share, who, sent <= t) for t in cycles]
    return Seen(np.array([np.count_nonzero(p) for p in found])[which], np.array([entropy(p) for p in found])[which])


def later(law: Law, lags: Law) -> Law:
    """Return the distribution of a cycle plus an independent lag, below the same horizon.

    This does not use np.convolve, which sums by BLAS.
    """
    found = np.zeros_like(law)
    for lag in range(min(lags.size, law.size)):
        found[lag:] += lags[lag] * law[: law.size - lag]
    return found


def posterior(weight: Law, who: NDArray[np.int64], before: NDArray[np.bool_]) -> Law:
    """Return the probability of each peer from weights of packets; if all weights are 0, of all peers that had sent."""
    of_peer = np.asarray(np.bincount(who, weight if weight.any() else before), np.float64)
    return np.asarray(of_peer / of_peer.sum(), np.float64)


def entropy(probability: Law) -> float:
    """Return the entropy in bits."""
    some = probability[probability > 0]
    return float(-(some * log_of(some)).sum() / math.log(2)) + 0.0


@dataclass(frozen=True)
class Circuits:
    """The packets of members: partition, sender, cycles (from the start of the send window), relays [packets, h]."""

    part: NDArray[np.int32]
    peer: NDArray[np.int32]
    sent: Cycles  # below 0: not sent
    arrived: Cycles
    held: Cycles  # the number of cycles that the last relay has held the packet
    there: NDArray[np.bool_]  # which packets have arrived
    relay: NDArray[np.int32]


def anonymity(packets: Circuits, timing: Timing, colludes: NDArray[np.bool_]) -> dict[str, float]:
    """Return what the aggregator learns about senders, as means over the packets that have arrived.

    There are three cases: as simulated, without staggering, and with colluding relays. If the first and the last relay
    of a circuit collude, they recognise the packet, and its sender is known. If only the last relay colludes,
    staggering has no effect. What colluding relays learn about other packets by exclusion is neglected.
    """
    plain, staggered = timing.unstaggered(), _entropies(packets, timing, packets.arrived)
    unstaggered = _entropies(packets, plain, packets.arrived - packets.held) if timing.stagger else staggered
    first, last = (_tells(packets, place, colludes)[packets.there] for place in (0, -1))
    told = np.where(first & last, 0.0, np.where(last, unstaggered.entropy, staggered.entropy))
    return {
        "anonymity.peers.mean": float(staggered.peers.mean()),
        "anonymity.entropy.mean": float(staggered.entropy.mean()),
        "anonymity.entropy.least": float(staggered.entropy.min()),
        "anonymity.unstaggered.peers.mean": float(unstaggered.peers.mean()),
        "anonymity.unstaggered.entropy.mean": float(unstaggered.entropy.mean()),
        "anonymity.colluding.entropy.mean": float(told.mean()),
        "anonymity.linked.mean": float((first & last).mean()),
    }


def _tells(packets: Circuits, place: int, colludes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether the first (0) or last (−1) relay of each circuit colludes; without relays the sender is known."""
    if packets.relay.shape[1] == 0:
        return np.ones(packets.peer.size, np.bool_)
    return colludes[packets.relay[:, place]]


def _entropies(packets: Circuits, timing: Timing, arrived: Cycles) -> Seen:
    """Return the anonymity of each packet that has arrived, in their order; without relays the sender is known."""
    number = int(packets.there.sum())
    out = Seen(np.ones(number, np.int64), np.zeros(number))
    if timing.relays == 0:
        return out
    part, sent = packets.part[packets.there], packets.sent >= 0
    for p in np.unique(part):
        mine, all_sent = packets.there & (packets.part == p), sent & (packets.part == p)
        seen = hidden_among(timing, packets.peer[all_sent], packets.sent[all_sent], arrived[mine])
        out.peers[part == p], out.entropy[part == p] = seen.peers, seen.entropy
    return out
