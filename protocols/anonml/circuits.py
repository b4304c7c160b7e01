"""Packets in circuits of relays, and what somebody who watches their timing learns (Cyphers 2017, section 5.1).

The observer is the aggregator: it sees in which cycle each peer sends and in which cycle each packet arrives, knows
how long packets take, and knows the partition that a packet is about. From that follows, for each packet that
arrives, how probable each peer of the partition is as its sender.
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
ADDRESS = 6  # bytes of the next address that each layer holds: IPv4 and port


def packet_bytes(bits: int, token: int, relays: int) -> int:
    """The size of every packet on every hop: padded to the longest string, and to the outermost layer."""
    question = 4
    return question + token + -(-bits // 8) + (relays + 1) * (SEALED_BOX + ADDRESS)


@dataclass(frozen=True)
class Timing:
    """All that decides when a packet arrives, but for chance; cycles count from the first of the send window."""

    shortest: int  # delay of a message
    lags: Law  # probability of that delay, one more, …
    relays: int
    stagger: int = 0  # cycles of the stagger window
    second: int | None = None  # when that window begins; None: it begins anew when a packet reaches the last relay
    every: int = 1  # cycles between two turns

    @property
    def slowest_hop(self) -> int:
        """The most cycles from one turn of a packet to the next."""
        return -(-(self.shortest + self.lags.size - 1) // self.every) * self.every

    def last(self, window: int) -> int:
        """The last cycle in which a packet may arrive."""
        before = self.next_turn(window - 1) + self.relays * self.slowest_hop
        if self.stagger:
            before = self.next_turn((before if self.second is None else self.second) + self.stagger - 1)
        return before + self.slowest_hop

    def next_turn(self, cycle: int) -> int:
        """The first turn at or after a cycle."""
        return -(-cycle // self.every) * self.every

    def unstaggered(self) -> Timing:
        """The same without a stagger window."""
        return replace(self, stagger=0, second=None)

    def arrival(self, sent: int, horizon: int) -> Law:
        """The probability of each cycle below the horizon to be that of arrival."""
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
        """What happens between turns happens in the next one."""
        if self.every == 1:
            return law
        turns = -(-np.arange(law.size) // self.every) * self.every
        return np.asarray(np.bincount(turns, law)[: law.size], np.float64)


@dataclass(frozen=True)
class Seen:
    """How well hidden each of some packets is: peers that may have sent it, and the entropy over them in bits."""

    peers: NDArray[np.int64]
    entropy: NDArray[np.float64]


def hidden_among(timing: Timing, peer: NDArray[np.int32], sent: Cycles, arrived: Cycles) -> Seen:
    """For packets of one partition: `peer` and `sent` of all that were sent, and the cycles in which some arrived.

    A peer's packets look alike from outside, so each of those it sent is as likely the one about a given subset.
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
    """Return the law of a cycle plus an independent lag, below the same horizon (np.convolve sums by BLAS)."""
    found = np.zeros_like(law)
    for lag in range(min(lags.size, law.size)):
        found[lag:] += lags[lag] * law[: law.size - lag]
    return found


def posterior(weight: Law, who: NDArray[np.int64], before: NDArray[np.bool_]) -> Law:
    """Weights of packets as probabilities of peers; where the observer's model excludes all, everyone who had sent."""
    of_peer = np.asarray(np.bincount(who, weight if weight.any() else before), np.float64)
    return np.asarray(of_peer / of_peer.sum(), np.float64)


def entropy(probability: Law) -> float:
    """In bits."""
    some = probability[probability > 0]
    return float(-(some * log_of(some)).sum() / math.log(2)) + 0.0


@dataclass(frozen=True)
class Circuits:
    """Members' packets: partition, sender, cycles (from the opening of the send window), relays [packets, h]."""

    part: NDArray[np.int32]
    peer: NDArray[np.int32]
    sent: Cycles  # below 0: not sent
    arrived: Cycles
    held: Cycles  # by the last relay
    there: NDArray[np.bool_]  # which have arrived
    relay: NDArray[np.int32]


def anonymity(packets: Circuits, timing: Timing, colludes: NDArray[np.bool_]) -> dict[str, float]:
    """What the aggregator learns of who sent what, as means over the packets that have arrived.

    As it is; as if nobody staggered; and with colluding relays. When the first and the last relay of a circuit
    collude, they recognise the packet, and its sender is known. When the last one does, staggering does not help.
    What colluders learn of other packets by leaving out those they know is neglected.
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
    """Whether the first (0) or last (−1) stop of each circuit tells the aggregator; without relays it sees all."""
    if packets.relay.shape[1] == 0:
        return np.ones(packets.peer.size, np.bool_)
    return colludes[packets.relay[:, place]]


def _entropies(packets: Circuits, timing: Timing, arrived: Cycles) -> Seen:
    """Of each packet that has arrived, in their order; without relays the sender is seen."""
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
