"""All nodes learn the mean of their numbers with Gaussian noise, once, at the same (ε, δ) in several trust settings.

Noise that cancels in pairs is that of Sabater, Bellet & Ramon 2022 (“GOPA”, for means) and of Allouah, Koloskova, El
Firdoussi, Jaggi & Guerraoui 2024 (“DECOR”, for gradients). `golfsim.privacy.correlated` computes what it protects.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.memory import size_of
from golfsim.core.metrics import Metric
from golfsim.core.rng import draw, sample
from golfsim.core.settings import Share
from golfsim.core.threads import over_ranges
from golfsim.network.delivery import send_all, with_server
from golfsim.privacy import correlated, gaussian
from golfsim.privacy.ledger import BUDGET_METRICS, Ledger, UniformSchedule
from golfsim.privacy.mechanisms import ROUNDING, Gaussian, Guarantee
from golfsim.privacy.noise import add_gaussian, normal
from golfsim.privacy.secure_sum import KEY_BYTES
from golfsim.protocol.base import Audited, Disclosure, Layer, LayerConfig
from golfsim.protocol.means import Means
from golfsim.protocol.moments import Noise, Precision, add_rows, mean_of, moments, width
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Records, ranges, refuse_unfit

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from golfsim.network.world import World

NUMBER = 8  # bytes
MOST_LINKED = 1000  # nodes that may all be neighbours of each other
NOTHING, AGREED, SENT = range(3)  # what has happened
LARGEST_RATIO = 1000.0  # of matrices that are inverted
Floats = NDArray[np.float64]
Nodes = NDArray[np.int32]


@kernel
def add_pair_noise(start, neighbour, sends, key, scale, value):
    """Add normal numbers that both nodes of a pair know to the row of one, and subtract them from that of the other.

    Parameters
    ----------
    start : array of int64, shape (nodes + 1,)
        The neighbours of node i are neighbour[start[i]] … neighbour[start[i+1]−1].
    neighbour : array of int32
        The neighbours of all nodes; each pair occurs in both directions.
    sends : array of bool, shape (nodes,)
        The nodes whose rows are needed.
    key : uint64
        The key of the draws; numbers of a pair use (lower node, higher node).
    scale : float
        The standard deviation of a number.
    value : array of float64, shape (nodes, numbers)
        The rows; changed in place.
    """
    for i in range(value.shape[0]):
        for place in range(start[i], start[i + 1]):
            j = np.int64(neighbour[place])
            if j <= i or not (sends[i] or sends[j]):
                continue
            for f in range(value.shape[1]):
                noise = scale * normal(draw(key, i, j, 2 * f), draw(key, i, j, 2 * f + 1))
                if sends[i]:
                    value[i, f] += noise
                if sends[j]:
                    value[j, f] -= noise


@kernel
def add_own_noise(nodes, lo, hi, key, scale, value):
    """Add to the row of each node Gaussian noise of its own, and round the row to the grid of this noise.

    Parameters
    ----------
    nodes : array of int32
        The nodes.
    lo, hi : int
        The range of `nodes`.
    key : uint64
        The key of the draws.
    scale : array of float64, shape (all nodes,)
        The standard deviation of the noise of each node; 0: no noise.
    value : array of float64, shape (all nodes, numbers)
        The rows; changed in place.
    """
    for place in range(lo, hi):
        if scale[nodes[place]] > 0:
            add_gaussian(key, 0, nodes[place], 0, scale[nodes[place]], value, nodes[place])


@kernel
def open_pairs(start, neighbour, arrived):
    """Return the number of pairs of which the row of one node has arrived, and that of the other one has not."""
    found = 0
    for i in range(arrived.size):
        for place in range(start[i], start[i + 1]):
            found += arrived[i] and not arrived[neighbour[place]]
    return found


@kernel
def squares_of(blocks, counts, variance, out):
    """Compute per class the squared length of a block that has this noise and nothing else: d·v + ‖b‖²/n."""
    for m in range(blocks.shape[0]):
        length = 0.0
        for f in range(blocks.shape[1]):
            length += blocks[m, f] * blocks[m, f]
        out[m] = blocks.shape[1] * variance + (length / counts[m] if counts[m] > 0 else 0.0)


def _rows(pairs: csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return a graph as kernels take it."""
    return pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32)


class NoisyMeanConfig(LayerConfig):
    """The numbers, their budget, and who is trusted with what."""

    of: Layer[Records[Any]] = Field(
        "raw", validate_default=True, description="the records, of L2 length ≤ 1, whose moments are averaged"
    )
    moments: Literal[1, 2] = Field(
        1, description="2: the second moments as well, which the learner “lda” needs; this takes 1.22 times the noise"
    )
    epsilon: float = Field(
        ge=1e-6, allow_inf_nan=True, description="the budget ε of each record (or node); inf: no noise"
    )
    delta: float = Field(1e-5, ge=1e-10, lt=1, description="the δ at which the budget ε holds")
    unit: Literal["record", "node"] = Field(
        "record", description="what ε protects: one record, or all records of a node"
    )
    trust: Literal["curator", "honest", "correlated", "local"] = Field(
        "local",
        description="who adds noise: a trusted curator, once (“curator”); every node a share, `honest` of which are "
        "the complete noise of a secure sum (“honest”); every node a little noise of its own, and with each neighbour "
        "noise that cancels in the sum (“correlated”); or every node the complete noise (“local”)",
    )
    honest: int | None = Field(
        None,
        ge=1,
        description="honest: the number of nodes that certainly add their share; correlated: the number of nodes that "
        "do not collude and that pairs connect with each other, the protected node included",
    )
    peers: Layer[Overlay[Any]] | None = Field(
        None,
        description="correlated: the fixed graph whose neighbours share noise; with “uniform” all nodes are "
        "neighbours, at most 1000",
    )
    colluding: Share | None = Field(
        None,
        description="correlated, in the place of `honest`: the share of nodes, drawn at random, that tell their "
        "secrets; the noise is calibrated exactly for these nodes and this graph, of at most 5000 nodes",
    )
    ratio: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None,
        description="correlated: the standard deviation of the noise of a pair, in that of a node's own noise; "
        "default: 10 times `honest`; with `colluding` 10 times the root of the number of connected nodes",
    )

    @model_validator(mode="after")
    def _complete(self) -> NoisyMeanConfig:
        pairs = self.trust == "correlated"
        if pairs != (self.peers is not None):
            raise ValueError("peers: required with trust = “correlated”, and not allowed otherwise")
        if not pairs and (self.colluding is not None or self.ratio is not None):
            raise ValueError("colluding and ratio require trust = “correlated”")
        if pairs and (self.honest is None) == (self.colluding is None):
            raise ValueError("honest: trust = “correlated” needs either honest or colluding")
        if not pairs and (self.trust == "honest") != (self.honest is not None):
            raise ValueError("honest: required with trust = “honest”, and not allowed with “curator” and “local”")
        if self.colluding is not None and (self.ratio or 0) > LARGEST_RATIO:
            raise ValueError(f"ratio: expected at most {LARGEST_RATIO:g} with colluding; got {self.ratio:g}")
        return self

    @property
    def sensitivity(self) -> float:
        """The L2 distance by which the numbers of one record move, at most; see the page “Privacy”."""
        return 2.0 if self.moments == 1 else math.sqrt(6) * (1 + ROUNDING)


class NoisyMean(Means[NoisyMeanConfig]):
    """Nodes send their numbers to a server, once; it adds them up and sends the noisy mean to all nodes.

    The server is no node, and always online. It is trusted as `trust` says: with “correlated” and “local” everyone may
    see what nodes send. A secure sum is an ideal one: its messages are those of the numbers, and only the sum is seen.
    With “correlated” nodes exchange keys in the first turn, and send their numbers in the second one. A node that comes
    later gets the mean in its next turn.
    """

    Config = NoisyMeanConfig
    accepts = frozenset({"loss"})
    secret = frozenset({"noise", "pair"})
    metrics = (
        Metric("counted", "The number of nodes whose numbers are in the mean.", "nodes", "up"),
        Metric(
            "noise", "The root of the mean squared deviation of the mean from that of the same nodes.", better="down"
        ),
        Metric("pairs.open", "The number of pairs whose noise has not cancelled.", "pairs", "down"),
        *BUDGET_METRICS,
    )

    def setup(self, world: World) -> None:
        """Check the records, and allocate what nodes send and know."""
        config, records = self.config, self.config.of
        if records.classes == 0 or records.rows.folded:
            raise UserError(f"“{records.name}” has no classes", key=f"{self.name}.of", hint="name records with classes")
        refuse_unfit(records, "l2", self.name, "of")
        if config.honest is not None and config.honest > world.nodes:
            what = f"expected at most {world.nodes}, the number of nodes; got {config.honest}"
            raise UserError(what, key=f"{self.name}.honest")
        each = 1 if config.unit == "record" else max(1, int(records.capacity().max(initial=1)))
        wanted = Gaussian(epsilon=config.epsilon, delta=config.delta, sensitivity=config.sensitivity * each)
        self._sigma = wanted.scale  # of the complete noise
        self._columns = self._released_columns()
        published = world.nodes if config.trust in ("correlated", "local") else 0
        self.value = np.zeros((published, self._columns.size))  # what nodes have sent
        self.agreed = np.zeros(world.nodes, np.bool_)  # nodes that have exchanged keys
        self.got = np.zeros(world.nodes, np.bool_)  # nodes that have the mean
        self.phase, self.begun = NOTHING, 0
        self.mean = np.zeros(self._width())
        self.counted, self.open = 0, 0
        self.variance = 0.0  # of the noise of a number of the sum
        self.noise = 0.0
        units = records.rows.label.size if config.unit == "record" else world.nodes
        once = UniformSchedule(kind="uniform", visits=1)
        self.ledger = Ledger(once, config.epsilon, units, config.delta)
        self._keys = self.key("noise"), self.key("pair")

    def _released_columns(self) -> NDArray[np.int64]:
        """Return the numbers that get noise: neither the number of records, which is public, nor squared lengths."""
        classes = self.config.of.classes
        return np.concatenate([np.arange(1, 1 + classes), np.arange(1 + 2 * classes, self._width())])

    def _width(self) -> int:
        """Return how many numbers the moments of a node have."""
        return width(self.config.of.classes, self.config.of.features, self.config.moments == 2)

    def memory(self, world: World) -> int:
        """Return the bytes of the numbers, with a copy while they are sent, and of the ledger."""
        records = self.config.of
        units = int(records.capacity().sum()) if self.config.unit == "record" else world.nodes
        connected = 0  # nodes whose matrix is inverted
        if self.config.colluding is not None:
            connected = min(math.ceil(world.nodes * (1 - self.config.colluding)), correlated.MOST)
        matrix = (np.float64, 3, connected, connected)
        return size_of((np.float64, 4, world.nodes, self._width()), (12, world.nodes), (np.int32, units), matrix)

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return what each node has sent, agreed on, and received."""
        return {"agreed": self.agreed, "got": self.got} | ({"value": self.value} if len(self.value) else {})

    def start(self, world: World, nodes: Nodes) -> None:
        """Let these nodes forget the mean; that they have lost their keys follows from when they came online."""
        self.got[nodes] = False

    def step(self, world: World) -> None:
        """Exchange keys, or send the numbers, and give the mean to nodes that do not have it."""
        if self.config.trust == "correlated" and self.phase == NOTHING:
            self._agree(world)
            return
        if self.phase != SENT:
            self._send(world)
        if self.counted:
            missing = np.sort(world.order[~self.got[world.order]])
            self.got[missing] = self._with_server(world, "mean", missing, NUMBER * self._columns.size)

    def _with_server(self, world: World, kind: str, nodes: Nodes, size: int) -> NDArray[np.bool_]:
        """Send a message between the server and each node; return which arrive."""
        wire = with_server(world.transport.wire(self, kind, size), world.nodes)
        arrives = np.empty(nodes.size, np.bool_)
        send_all(wire, np.zeros(1, np.int64), nodes, nodes, world.nodes, arrives)
        return arrives

    # Pairs

    def _agree(self, world: World) -> None:
        """Let online nodes exchange keys through the server; both messages must arrive."""
        nodes = np.sort(world.order)
        nodes = nodes[self._with_server(world, "key", nodes, KEY_BYTES)]
        links = self._links(world)
        degree = int(np.diff(links.indptr).max(initial=0))
        self.agreed[nodes] = self._with_server(world, "keys", nodes, KEY_BYTES * degree)
        if self.agreed.any():
            self.phase, self.begun = AGREED, world.cycle

    def _links(self, world: World) -> csr_array:
        """Return who is a neighbour of whom, in both directions."""
        from scipy.sparse import csr_array

        assert self.config.peers is not None
        links = self.config.peers.links(world)
        if links is None:
            if world.nodes > MOST_LINKED:
                raise UserError(
                    f"“{self.config.peers.name}” makes {world.nodes} nodes neighbours of each other; at most "
                    f"{MOST_LINKED} may be",
                    key=f"{self.name}.peers",
                    hint="use a “static_overlay”, for example with neighbours = 10",
                )
            return csr_array(np.ones((world.nodes, world.nodes), np.int8) - np.eye(world.nodes, dtype=np.int8))
        if not self.config.peers.fixed:
            raise UserError(
                f"the links of “{self.config.peers.name}” change; secrets are shared along a fixed graph",
                key=f"{self.name}.peers",
                hint="use a “static_overlay”, for example with neighbours = 10",
            )
        return csr_array((links + links.T) > 0)

    def _pairs(self, world: World) -> csr_array:
        """Return the pairs of nodes that share secrets."""
        from scipy.sparse import csr_array

        links = self._links(world).tocoo()
        both = self.agreed[links.row] & self.agreed[links.col]
        ends = links.row[both], links.col[both]
        pairs = csr_array((np.ones(ends[0].size, np.int8), ends), shape=(world.nodes, world.nodes))
        pairs.sort_indices()
        return pairs

    def _scales(self, nodes: int, pairs: csr_array | None) -> tuple[Floats, float]:
        """Return the standard deviation of the own noise of each node, and that of the noise of a pair."""
        config = self.config
        if pairs is None:
            shares = {"curator": math.inf, "honest": config.honest or 1, "local": 1}[config.trust]
            return np.full(nodes, self._sigma / math.sqrt(shares)), 0.0
        if config.honest is not None:
            ratio = self._ratio(config.honest)
            own = self._sigma / math.sqrt(correlated.conductance(config.honest, ratio))
            covered = correlated.sizes(pairs) >= config.honest
            return np.where(covered, own, self._sigma), ratio * own
        return self._exact_scales(nodes, pairs)

    def _exact_scales(self, nodes: int, pairs: csr_array) -> tuple[Floats, float]:
        """Return the same for the nodes that collude: the largest part of the others shares noise."""
        colluders = self._colluders(nodes)
        others = np.flatnonzero(np.isin(np.arange(nodes), colluders, invert=True) & self.agreed)
        among = pairs[others][:, others]
        component = correlated.components(among)
        known = component >= 0
        largest = np.flatnonzero(component == np.bincount(component[known]).argmax()) if known.any() else others[:0]
        if largest.size > correlated.MOST:
            raise UserError(
                f"{largest.size} nodes are connected; the exact calculation is for at most {correlated.MOST}",
                key=f"{self.name}.colluding",
                hint="state honest instead, which holds for any nodes that collude",
            )
        ratio = self._ratio(largest.size)
        exposed = correlated.exposures(among[largest][:, largest], ratio).max(initial=0.0) if largest.size else 1.0
        own = self._sigma * math.sqrt(exposed)
        scale = np.full(nodes, self._sigma)
        scale[others[largest]] = own
        scale[colluders] = own
        return scale, ratio * own

    def _ratio(self, connected: int) -> float:
        if self.config.ratio is not None:
            return self.config.ratio
        return 10.0 * connected if self.config.honest is not None else min(10 * math.sqrt(connected), LARGEST_RATIO)

    def _colluders(self, nodes: int) -> Nodes:
        """Return the nodes that tell their secrets."""
        everyone = np.arange(nodes, dtype=np.int32)
        return sample(self.key("colluding"), 0, everyone, round((self.config.colluding or 0.0) * nodes))

    # The mean

    def _send(self, world: World) -> None:
        """Let online nodes send their numbers, and the server compute the mean of those that arrive."""
        config, records = self.config, self.config.of
        nodes = np.sort(world.order)
        if config.trust == "correlated":
            nodes = nodes[self.agreed[nodes] & (world.since[nodes] <= self.begun)]
        if config.trust != "correlated" and nodes.size < (config.honest or 1):
            return
        rows = records.rows
        units = ranges(rows.first[nodes], rows.stop[nodes]) if config.unit == "record" else nodes
        assert self.ledger.charge(units).all()  # the layer sends once
        value = np.zeros((world.nodes, self._columns.size))
        value[nodes] = exact = self._exact(world, nodes)
        pairs = self._pairs(world) if config.trust == "correlated" else None
        scale, pair_scale = self._scales(world.nodes, pairs)
        if pairs is not None and pair_scale > 0:
            sends = np.zeros(world.nodes, np.bool_)
            sends[nodes] = True
            add_pair_noise(*_rows(pairs), sends, self._keys[1], pair_scale, value)
        noise = self._keys[0]
        over_ranges(world.threads, lambda lo, hi: add_own_noise(nodes, lo, hi, noise, scale, value), 0, nodes.size)
        if len(self.value):
            self.value[nodes] = value[nodes]
        self.phase = SENT
        arrived = self._with_server(world, "numbers", nodes, NUMBER * (1 + self._columns.size))
        if int(arrived.sum()) < (config.honest or 1) and config.trust == "honest":
            return
        self._publish(nodes[arrived], value, exact[arrived], (scale, pair_scale, pairs))

    def _exact(self, world: World, nodes: Nodes) -> Floats:
        """Return the numbers of some nodes without noise."""
        rows, second = self.config.of.rows, self.config.moments == 2
        exact = Noise(np.ones(rows.label.size), np.zeros(rows.label.size))
        found = moments(rows, nodes, self.config.of.classes, exact, second, world.threads)
        return np.ascontiguousarray(found[:, self._columns])

    def _publish(self, nodes: Nodes, value: Floats, exact: Floats, how: tuple[Floats, float, csr_array | None]) -> None:
        """Compute the mean of what has arrived, and what is known about its noise."""
        scale, pair_scale, pairs = how
        if not nodes.size:
            return
        total, true = np.zeros((1, value.shape[1])), np.zeros(value.shape[1])
        add_rows(value[nodes], 0, total.size, total[0])
        add_rows(exact, 0, true.size, true)
        self.counted = nodes.size
        if self.config.trust == "curator":
            curator = np.array([self._sigma])
            add_own_noise(np.zeros(1, np.int32), 0, 1, self._keys[0], curator, total)
            self.variance = self._sigma**2
        else:
            self.variance = math.fsum((scale[nodes] ** 2).tolist())
        if pairs is not None:
            arrived = np.zeros(scale.size, np.bool_)
            arrived[nodes] = True
            self.open = int(open_pairs(*_rows(pairs), arrived))
            self.variance += self.open * pair_scale**2
        rows = self.config.of.rows
        self._complete(total[0], float((rows.stop - rows.first)[nodes].sum()))
        self.noise = math.sqrt(mean_of((total[0] - true) ** 2)) / nodes.size

    def _complete(self, total: Floats, number: float) -> None:
        """Write the mean of the numbers, with the number of records and the squared lengths that the noise explains."""
        classes, features = self.config.of.classes, self.config.of.features
        self.mean[0] = number
        self.mean[self._columns] = total
        blocks = total[classes : classes * (1 + features)].reshape(classes, features)
        squares = np.zeros(classes)
        squares_of(blocks, total[:classes], self.variance, squares)
        self.mean[1 + classes : 1 + 2 * classes] = squares
        self.mean /= self.counted

    def estimates(self, nodes: Nodes) -> Floats:
        """Return the mean, once per node."""
        return np.repeat(self.mean[None], nodes.size, axis=0)

    def participants(self, nodes: Nodes) -> Nodes:
        """Return the number of nodes whose numbers are in the mean."""
        return np.full(nodes.size, self.counted, np.int32)

    def known(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return which of these nodes have the mean."""
        return np.asarray(self.got[nodes])

    def precision(self) -> Precision:
        """Return how noisy the numbers are, per record; noise and missing pairs are public, so all nodes know it."""
        number = self.mean[0] * self.counted
        each = math.sqrt(self.variance / number) if number > 0 else 0.0
        return Precision(True, each, each)

    # Privacy

    def guarantee(self) -> Guarantee:
        """Return ε and δ per record or node; a record at several nodes moves the mean several times as much."""
        config = self.config
        if math.isinf(config.epsilon):
            return Guarantee(None, config.unit)
        found = config.of.guarantee_of(config.epsilon, config.unit, config.delta)
        if found.epsilon is None:
            return found
        return replace(found, note="; ".join(filter(None, (found.note, self._assumption()))))

    def _mu(self) -> float:
        return gaussian.mu_of(self.config.epsilon, self.config.delta)

    def _assumption(self) -> str:
        config = self.config
        if config.trust == "curator":
            return "if the curator is trusted"
        if config.trust == "honest":
            return f"if {config.honest} nodes that do not collude add their shares, and only the sum is seen"
        if config.trust == "local":
            return ""
        if config.honest is None:
            return (
                f"against an observer who knows the secrets of the share {config.colluding:g} of nodes that was drawn, "
                "and of no others"
            )
        alone = self._mu() * math.sqrt(correlated.conductance(config.honest, self._ratio(config.honest)))
        return (
            f"for a node that pairs connect with {config.honest - 1} or more others, all of which do not collude; "
            f"a node alone has ε = {gaussian.epsilon_of(alone, config.delta):.4g}"
        )

    def disclosure(self) -> Disclosure:
        """Return what is released, and who is trusted."""
        trusted = {
            "curator": ("the noisy mean", "the curator"),
            "honest": ("the noisy mean", f"{self.config.honest} nodes, and the secure sum"),
            "correlated": ("numbers with noise that cancels in pairs", "nodes that do not collude"),
            "local": ("numbers with noise", "nobody"),
        }
        return Disclosure(*trusted[self.config.trust])

    def released(self) -> Floats:
        """Return what nodes send if everyone sees it, else the noisy mean."""
        return self.value.ravel().copy() if len(self.value) else self.mean[self._columns]

    def audited(self) -> Audited:
        """Return an audit of few nodes; it has as many as the guarantee needs, and at most three of them."""
        honest = None if self.config.honest is None else min(self.config.honest, 3)
        ratio = None if self.config.honest is None else self.config.ratio
        return Audited(nodes=max(honest or 2, 2), norm="l2", changes={"honest": honest, "ratio": ratio})

    def observe(self, world: World) -> dict[str, float]:
        """Return how many nodes are in the mean, its noise, and the spent budget."""
        found = self.ledger.metrics()
        if self.counted:
            found |= {"counted": float(self.counted), "noise": self.noise}
            found |= {"pairs.open": float(self.open)} if self.config.trust == "correlated" else {}
        return found
