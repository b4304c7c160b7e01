"""Muffliato: noise at each node, then averages with all neighbours (Cyffers, Even, Bellet & Massoulié 2022)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.rng import sample
from golfsim.core.threads import over_ranges
from golfsim.privacy.mechanisms import Gaussian, Guarantee, Pairwise, Unit
from golfsim.privacy.noise import add_gaussian
from golfsim.privacy.pairwise import METRICS as PAIRWISE_METRICS
from golfsim.privacy.pairwise import Mixing, epsilons, shares
from golfsim.protocol.averages import METRICS, NUMBER, Averages, AveragesConfig, Floats, Nodes, mean_of
from golfsim.protocol.base import Audited, Disclosure
from golfsim.protocol.mixing import DEGREE, Neighbours, memory_of_links, most_messages
from golfsim.protocol.moments import Precision
from golfsim.protocol.records import RawRecords, refuse_unfit

if TYPE_CHECKING:
    from golfsim.network.world import World

MESSAGE = 12  # bytes of a kept message: its sender and its weight
PAIR = 57  # bytes per observer and node while its ε is computed
MOMENTS = math.sqrt(6)  # the largest change of the first moments of a node by one record
SECOND_MOMENTS = math.sqrt(8)  # the same of first and second moments


@kernel
def perturb(key, nodes, scale, rows):
    """Add Gaussian noise to the row of each node: the same noise whenever the node asks for it.

    Parameters
    ----------
    key : uint64
        The key of the noise.
    nodes : array of int32, shape (rows,)
        The nodes.
    scale : array of float64, shape (all nodes,)
        The standard deviation of the noise of each node.
    rows : array of float64, shape (rows, numbers)
        Their numbers; changed in place.
    """
    for e in range(nodes.size):
        if scale[nodes[e]] > 0:
            add_gaussian(key, 0, nodes[e], 0, scale[nodes[e]], rows, e)


@kernel
def mix_rows(nodes, first, src, weight, sent, value, lo, hi):
    """Let nodes take the weighted mean of their own numbers and those that they have received.

    Parameters
    ----------
    nodes : array of int32
        The nodes.
    first : array of int64, shape (nodes + 1,)
        The messages to nodes[e] are first[e] … first[e+1]−1.
    src : array of int32, shape (messages,)
        Their senders.
    weight : array of float64, shape (messages,)
        The entries of the mixing matrix; a node keeps the weights of messages that did not arrive.
    sent : array of float64, shape (all nodes, numbers)
        The numbers as they are sent.
    value : array of float64, shape (all nodes, numbers)
        The numbers; changed in place.
    lo, hi : int
        The range of nodes.
    """
    for e in range(lo, hi):
        i, own = nodes[e], 1.0
        for m in range(first[e], first[e + 1]):
            own -= weight[m]
        for f in range(value.shape[1]):
            value[i, f] = own * sent[i, f]
        for m in range(first[e], first[e + 1]):
            for f in range(value.shape[1]):
                value[i, f] += weight[m] * sent[src[m], f]


class MuffliatoConfig(AveragesConfig):
    """The settings of Muffliato."""

    epsilon: float = Field(gt=0, description="the local ε of each record (or node), also if all messages are seen")
    delta: float = Field(ge=1e-10, lt=1, description="the δ at which ε holds")
    unit: Unit = Field("record", description="what ε protects: one record, or all records of a node")
    steps: int | None = Field(None, ge=1, description="the number of turns with messages; default: all turns")
    account: Literal["none", "pairwise"] | int = Field(
        "none",
        description="“pairwise”: compute what each node reveals to each other node; or a number: to this many nodes "
        "that are drawn; needs `steps`",
    )

    @model_validator(mode="after")
    def _complete(self) -> MuffliatoConfig:
        if self.epoch is not None:
            raise ValueError("epoch: not allowed; each new start would spend ε again")
        if self.initial != "uniform":
            raise ValueError("initial: expected “uniform”: the noise is for values between 0 and 1")
        if self.account != "none" and self.steps is None:
            raise ValueError("account: needs steps, the number of turns with messages")
        if isinstance(self.account, int) and self.account < 1:
            raise ValueError(f"account: expected “none”, “pairwise” or a number of nodes ≥ 1, got {self.account}")
        return self


class Muffliato(Averages[MuffliatoConfig]):
    """Every node adds Gaussian noise to its numbers once; then all nodes send to all neighbours, and take means.

    All nodes act at the same time. A node releases its numbers with noise once: when it returns with a reset state, it
    starts again from the same numbers with the same noise. A node keeps the weight of a message that does not arrive.
    Without losses, and if a link exists in both directions, the mean of all numbers does not change.
    """

    Config = MuffliatoConfig
    accepts = frozenset({"loss", "partition"})
    metrics = (*METRICS, *PAIRWISE_METRICS)

    def setup(self, world: World) -> None:
        """Allocate the numbers with noise, and the messages that count for the pairwise ε."""
        self._refuse_unknown()
        super().setup(world)
        config = self.config
        self._neighbours = Neighbours(config.peers, f"{self.name}.peers")
        self._sent = np.zeros_like(self.value)
        self.own = np.zeros_like(self.value)  # the numbers with noise, as they are sent first
        self.drawn = np.zeros(world.nodes, np.bool_)  # the nodes that have them
        self.scale = np.zeros(world.nodes)
        self.done = 0  # turns with messages
        self.resets = 0  # nodes that have started again
        kept = (config.steps or 0) if config.account != "none" else 0
        most = most_messages(config.peers, world) if kept else 0
        self.message_start = np.zeros((kept, world.nodes + 1), np.int64)
        self.message_src = np.zeros((kept, most), np.int32)
        self.message_weight = np.zeros((kept, most))
        self._found: tuple[tuple[int, int], Pairwise] | None = None

    def _refuse_unknown(self) -> None:
        of = self.config.of
        if of is None:
            return
        if not isinstance(of, RawRecords):
            raise UserError(
                f"how much one record changes the numbers of “{of.name}” is not known",
                key=f"{self.name}.of",
                hint='name "raw"; use averaging or push_sum for what is already published',
                docs="privacy",
            )
        if not of.classes:
            raise UserError(
                "the labels are numbers, which have no moments per class",
                key=f"{self.name}.of",
                hint="use data with classes",
            )
        refuse_unfit(of, "l2", self.name, "of")

    def memory(self, world: World) -> int:
        """Return the bytes of the numbers, with and without noise, of the links, and of the messages that are kept."""
        config, of = self.config, self.config.of
        width = 1 if of is None else of.value_width(config.moments == 2)
        links = most_messages(config.peers, world)
        kept = (config.steps or 0) if config.account != "none" else 0
        more = (2 * NUMBER * width + 9) * world.nodes + memory_of_links(config.peers, world)
        found = PAIR * world.nodes * self._most_observers(world.nodes)
        return super().memory(world) + more + found + kept * (MESSAGE * links + NUMBER * (world.nodes + 1))

    def _most_observers(self, nodes: int) -> int:
        account = self.config.account
        return 0 if account == "none" else nodes if account == "pairwise" else min(int(account), nodes)

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return the values and the numbers with noise of the nodes."""
        return {name: getattr(self, name) for name in ("value", "own", "drawn", "scale")}

    # Numbers with noise

    def start(self, world: World, nodes: Nodes) -> None:
        """Give nodes their numbers with noise: a node that starts again gets the same numbers."""
        self.resets += int(np.count_nonzero(self.drawn[nodes]))
        super().start(world, nodes)

    def take(self, world: World, nodes: Nodes, restart: bool = False) -> None:
        """Give nodes their own numbers with noise, which is drawn once per node."""
        new = nodes[~self.drawn[nodes]]
        super().take(world, new, restart)
        numbers, exact = self.value[new], 0
        of: Any = self.config.of
        self.scale[new] = self._mechanism().scale
        if of is not None:
            exact = 1  # the number of records of a node is public
            if self.config.unit == "node":
                self.scale[new] *= numbers[:, 0]
        noisy = np.ascontiguousarray(numbers[:, exact:])
        perturb(self.key("noise"), new, self.scale, noisy)
        if of is not None:  # the squared lengths of blocks are those of blocks with noise
            noisy[:, of.classes : 2 * of.classes] += (of.features * self.scale[new] ** 2)[:, None]
        numbers[:, exact:] = noisy
        self.own[new] = numbers
        self.drawn[new] = True
        self.value[nodes] = self.own[nodes]

    def _mechanism(self) -> Gaussian:
        config = self.config
        sensitivity = 1.0
        if config.of is not None:
            sensitivity = SECOND_MOMENTS if config.moments == 2 else MOMENTS
        return Gaussian(epsilon=config.epsilon, delta=config.delta, sensitivity=sensitivity)

    def precision(self) -> Precision:
        """Return the noise of the numbers per record, for learners."""
        records = max(mean_of(self.own[:, 0]) * len(self.own), 1.0)
        error = math.sqrt(mean_of(self.scale * self.scale) * self.scale.size / records)
        return Precision(counted=True, indicator=error, spread=error)

    # Gossip

    def step(self, world: World) -> None:
        """Let all online nodes send their numbers to their neighbours, and take means."""
        self.begin_turn(world)
        config = self.config
        if config.steps is None or self.done < config.steps:
            src, dst, weight = self._neighbours.weighted(world)
            arrives, _ = world.transport.send(
                self, "numbers", src, dst, self.message_bytes() + DEGREE, dst.astype(np.int64)
            )
            self._mix(world, src[arrives], dst[arrives], weight[arrives])
            self.done += 1
        self.end_turn(world)

    def _mix(self, world: World, src: Nodes, dst: Nodes, weight: Floats) -> None:
        """Take means of the messages that have arrived, which are sorted by receiver."""
        nodes = np.flatnonzero(world.online).astype(np.int32)
        first = np.append(np.searchsorted(dst, nodes), dst.size).astype(np.int64)
        self._sent[:] = self.value

        def run(lo: int, hi: int) -> None:
            mix_rows(nodes, first, src, weight, self._sent, self.value, lo, hi)

        over_ranges(world.threads, run, 0, nodes.size)
        if self.config.account != "none":
            self.message_start[self.done] = np.searchsorted(dst, np.arange(world.nodes + 1))
            self.message_src[self.done, : src.size] = src
            self.message_weight[self.done, : src.size] = weight

    # Privacy

    def mixing(self) -> Mixing:
        """Return the messages that have arrived, for `golfsim.privacy.pairwise`; `account` must not be “none”."""
        parts = [
            (start, src[: start[-1]], weight[: start[-1]])
            for start, src, weight in zip(
                self.message_start[: self.done], self.message_src, self.message_weight, strict=False
            )
        ]
        same = all(np.array_equal(a, b) for part in parts[1:] for a, b in zip(part, parts[0], strict=True))
        kept = parts[:1] if same else parts
        own = np.ones((len(kept), len(self.value)))
        for row, (start, _, weight) in zip(own, kept, strict=True):
            np.subtract.at(row, np.repeat(np.arange(row.size), np.diff(start)), weight)
        offset = np.cumsum([0, *(src.size for _, src, _ in kept)])
        starts = np.stack([start + more for (start, _, _), more in zip(kept, offset, strict=False)])
        src, weight = (np.concatenate([part[k] for part in kept]) for k in (1, 2))
        found = Mixing(starts, src, weight, own)
        return found.repeated(self.done) if same else found

    def observers(self) -> NDArray[np.int32]:
        """Return the nodes for which the pairwise ε is computed."""
        account, everyone = self.config.account, np.arange(len(self.value), dtype=np.int32)
        if account == "none":
            return everyone[:0]
        if account == "pairwise" or account >= everyone.size:
            return everyone
        return np.asarray(np.sort(sample(self.key("observers"), 0, everyone, int(account))), np.int32)

    def losses(self, threads: int = 1) -> Floats:
        """Return the share of the square of μ [observers, nodes] that each observer has got of each node."""
        # A node without records, or that has never been online, has no noise and sends nothing of its own.
        scale = np.where(self.scale > 0, self.scale, self.scale.max(initial=1.0))
        return shares(self.mixing(), self.observers(), scale, threads)

    def pairwise(self, threads: int = 1) -> Pairwise | None:
        """Return the ε from node to node of all messages so far; None if it is not asked for, or not proven."""
        config, proven = self.config, self.guarantee().epsilon
        of: Any = config.of
        if config.account == "none" or not self.done or self.resets or proven is None or math.isinf(proven):
            return None
        if of is not None and config.unit == "record" and of.copies > 1:
            return None
        now = self.done, int(np.count_nonzero(self.drawn))
        if self._found is None or self._found[0] != now:
            observers = self.observers()
            found = epsilons(self.losses(threads), self._mechanism().mu, config.delta)
            pair = np.broadcast_to(self.drawn, found.shape).copy()
            pair[np.arange(observers.size), observers] = False
            these = found[pair]
            if not these.size:
                return None
            largest, mean = float(these.max()), mean_of(these)
            self._found = now, Pairwise(mean, largest, config.delta, self.guarantee().unit, observers.size)
        return self._found[1]

    def observe(self, world: World) -> dict[str, float]:
        """Return the metrics of averages, and the ε from node to node."""
        found = self.pairwise(world.threads)
        more = {} if found is None else {"pairwise.epsilon.mean": found.mean, "pairwise.epsilon.max": found.largest}
        return super().observe(world) | more

    def guarantee(self) -> Guarantee:
        """Return the local guarantee, also if all messages are seen: each node releases its numbers once."""
        config = self.config
        if config.of is None:
            return Guarantee(config.epsilon, "node", "for values between 0 and 1", delta=config.delta)
        assert isinstance(config.of, RawRecords)
        return config.of.guarantee_of(config.epsilon, config.unit, config.delta)

    def disclosure(self) -> Disclosure:
        """Return that sums over the records of each node are sent with noise."""
        what = "values" if self.config.of is None else "sums over the records of each node"
        return Disclosure(f"{what} with noise", "nobody")

    def audited(self) -> Audited:
        """Return an audit of two nodes that send to each other."""
        return Audited(norm="l2", changes={"account": None})

    def released(self) -> Floats:
        """Return the numbers as nodes have sent them in this cycle, if they are of private records."""
        return self._sent.ravel() if self.touches_private_data else np.empty(0)
