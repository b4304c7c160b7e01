"""The metrics of AnonML: perturbation and its error, budget, packets, and the anonymity of their senders."""

from __future__ import annotations

from golfsim.core.metrics import Metric
from golfsim.privacy.ledger import BUDGET_METRICS

_PERTURBATION = (
    Metric("p.mean", "The mean probability that a set bit of a string is sent as set.", "probability"),
    Metric("q.mean", "The mean probability that an unset bit of a string is sent as set.", "probability"),
    Metric("cells.mean", "The mean number of cells of a histogram.", "cells"),
    Metric("weight.mean", "The mean weight of the vote of a classifier."),
    Metric(
        "rms.expected.mean",
        "The expected error of a histogram of shares: the root mean square over histograms of its L2 norm.",
        "share of answers",
        "down",
    ),
    Metric(
        "rms.measured.mean", "The error `rms.expected.mean` as measured on the estimates.", "share of answers", "down"
    ),
    Metric(
        "rms.projected.mean", "The error `rms.expected.mean` as measured after projection.", "share of answers", "down"
    ),
)
_BUDGET = (
    Metric("epsilon.sum", "The ε of all answers of a record.", "ε", "down"),
    Metric("epsilon.attribute", "The largest ε of the label or a single feature.", "ε", "down"),
    Metric("epsilon.string", "The ε of one string.", "ε", "down"),
    *BUDGET_METRICS,
)
_PACKETS = (
    Metric("packets.sent", "The number of packets that have been sent since the start of the run.", "packets"),
    Metric("packets.delivered", "The number of packets that have reached the aggregator.", "packets", "up"),
    Metric("packets.lost", "The number of packets that have been lost.", "packets", "down"),
    Metric("packets.bytes", "The size of a packet.", "bytes", "down"),
    Metric("packets.refused.late", "The number of packets that arrived after the deadline.", "packets"),
    Metric("packets.refused.repeat", "The number of packets with a token that was used before.", "packets"),
    Metric("packets.refused.outsider", "The number of packets without a proof of membership.", "packets"),
    Metric("packets.refused.forged", "The number of packets whose content does not fit the token.", "packets"),
    Metric("onion.layers", "The number of layers of encryption of all packets that have been sent.", "layers", "down"),
    Metric("delivery.mean", "The share of sent packets that have arrived.", "share of packets", "up"),
    Metric("hops.mean", "The number of messages that carry a packet to the aggregator.", "messages", "down"),
    Metric("latency.mean", "The mean time between the sending and the arrival of a packet.", "cycles", "down"),
    Metric(
        "latency.q{percent}",
        "The 5 %, 50 % or 95 % quantile of the time between sending and arrival.",
        "cycles",
        "down",
    ),
)
_ANONYMITY = (
    Metric("anonymity.peers.mean", "The mean number of peers that may have sent a packet.", "peers", "up"),
    Metric("anonymity.entropy.mean", "The mean entropy over the peers that may have sent a packet.", "bits", "up"),
    Metric("anonymity.entropy.least", "The smallest entropy over the peers that may have sent a packet.", "bits", "up"),
    Metric("anonymity.unstaggered.peers.mean", "`anonymity.peers.mean` if the last relay did not wait.", "peers", "up"),
    Metric(
        "anonymity.unstaggered.entropy.mean", "`anonymity.entropy.mean` if the last relay did not wait.", "bits", "up"
    ),
    Metric(
        "anonymity.colluding.entropy.mean", "`anonymity.entropy.mean` against colluding relays as well.", "bits", "up"
    ),
    Metric(
        "anonymity.linked.mean",
        "The share of packets whose sender is known because the first and the last relay collude.",
        "share of packets",
        "down",
    ),
)
METRICS = (*_PERTURBATION, *_BUDGET, *_PACKETS, *_ANONYMITY)
