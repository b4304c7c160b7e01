"""The central ε of packets in circuits: they arrive without their senders, as in the shuffle model.

The aggregator sees which relay forwards a packet, and a sender is not its own relay. So packets are not shuffled
perfectly. `docs/privacy.md` derives the probability of a clone that remains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golfsim.privacy.shuffling import among_clones, composed

TAIL = 0.01  # the share of δ for an unusually large number of clones, which would leave few relays outside


@dataclass(frozen=True)
class Delivered:
    """The packets of members that were sent, and the nodes that collude with the aggregator."""

    question: NDArray[np.int64]
    peer: NDArray[np.int32]
    relay: NDArray[np.int32]  # [packets, relays]
    there: NDArray[np.bool_]  # which packets have arrived
    colludes: NDArray[np.bool_]  # per node

    @property
    def honest(self) -> NDArray[np.bool_]:
        """Which packets have an honest sender and only honest relays."""
        return np.asarray(~self.colludes[self.peer] & ~self.colludes[self.relay].any(axis=1))

    def reports(self, questions: int) -> NDArray[np.int64]:
        """Return the number of honest packets that have arrived for each question."""
        return np.bincount(self.question[self.there & self.honest], minlength=questions)

    def share(self) -> float:
        """Return the share of senders all of whose packets are honest."""
        senders, linked = np.unique(self.peer), np.unique(self.peer[~self.honest])
        return 1 - linked.size / senders.size


def epsilon_of(reports: int, relays: int, epsilon: float, delta: float) -> float:
    """Return the central ε of one packet among the reports to its question; at most its local ε.

    `relays` is the number of honest nodes that may be relays; the senders of the reports are among them.
    """
    from scipy.stats import binom

    if reports < 3 or relays < reports or not math.isfinite(epsilon):
        return epsilon
    member, spare = min(math.exp(-epsilon), 0.5), TAIL * delta
    most = 1 + int(binom.isf(spare, reports - 1, member))
    outside = ((1 - member) * (relays - reports) + max(reports - most, 0)) / (relays - 1)
    return among_clones(reports - 2, member * outside, epsilon, delta - spare)


def epsilon_of_record(
    reports: NDArray[np.int64], each: int, relays: int, epsilon: float, direct: float, delta: float
) -> float:
    """Return the central ε of all answers of a record, the largest over partitions.

    Parameters
    ----------
    reports : array of int64, shape (questions,)
        The number of reports to each question.
    each : int
        The number of questions per partition.
    relays : int
        The number of honest nodes that may be relays.
    epsilon : float
        The local ε of a packet.
    direct : float
        The local ε of all answers that go directly to the aggregator; they are not shuffled.
    delta : float
        The δ of the record, which its packets share equally.
    """
    found = {int(n): epsilon_of(int(n), relays, epsilon, delta / each) for n in np.unique(reports)}
    of_partitions = [[found[int(n)] for n in part] for part in reports.reshape(-1, each) if part.any()]
    return direct + max((composed(part, each * epsilon) for part in of_partitions), default=each * epsilon)
