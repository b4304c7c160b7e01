"""Who is online in each cycle. Several models may act at once: a node is online when all of them have it up."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.core.maths import exp_of, log_of, power_of
from golfsim.core.settings import FileName, Settings, Share
from golfsim.core.state import Stateful

if TYPE_CHECKING:
    from golfsim.network.world import World

Nodes = NDArray[np.int32]
SHORTEST = 1e-3  # cycles: sessions are walked through one by one, also those between two cycles


class ChurnSettings(Settings):
    """What every churn model has: the cycles in which it acts, and what a node keeps while it is away."""

    start: int = Field(1, alias="from", ge=1, description="the first cycle in which the model acts")
    until: int | None = Field(None, ge=1, description="the last one; afterwards all that it took down are up again")
    back: Literal["keep", "afresh"] = Field(
        "keep",
        alias="return",
        description="a returning node keeps its model and view, or starts afresh (never its budget)",
    )

    @model_validator(mode="after")
    def _window(self) -> ChurnSettings:
        if self.until is not None and self.until < self.start:
            raise ValueError(f"“until” ({self.until}) lies before “from” ({self.start})")
        return self


class CrashConfig(ChurnSettings):
    """A share or a number of nodes dies at a cycle and never comes back."""

    kind: Literal["crash"]
    at: int = Field(ge=1, description="the cycle in which they die")
    share: Share | None = Field(None, description="the share of all nodes that dies")
    number: int | None = Field(None, ge=0, description="the number of nodes that die")

    @model_validator(mode="after")
    def _how_many(self) -> CrashConfig:
        if (self.share is None) == (self.number is None):
            raise ValueError("expected either “share” or “number”")
        if self.start != 1 or self.until is not None:
            raise ValueError("at: says when a crash happens; “from” and “until” do not belong here")
        return self


class RateConfig(ChurnSettings):
    """Nodes leave and come back independently, with fixed probabilities a cycle."""

    kind: Literal["rate"]
    leave: Share = Field(description="the probability that an online node leaves, a cycle")
    rejoin: Share = Field(description="the probability that an offline node comes back, a cycle")
    online: Share | None = Field(None, description="the share online at first; default: the stationary one")


class OscillatingConfig(ChurnSettings):
    """The network's size swings between two bounds like a cosine, from the upper one down."""

    kind: Literal["oscillating"]
    low: Share = Field(description="the lower bound, a share of all nodes")
    high: float = Field(1.0, ge=0, le=1, description="the upper bound")
    period: int = Field(ge=2, description="cycles from peak to peak")

    @model_validator(mode="after")
    def _bounds(self) -> OscillatingConfig:
        if self.low > self.high:
            raise ValueError(f"“low” ({self.low}) is above “high” ({self.high})")
        return self


class SessionConfig(ChurnSettings):
    """Online and offline sessions that take turns."""

    online: float = Field(gt=0, le=1, description="the share of the nodes that is online in the long run")

    def median(self) -> float:
        """The median length of an online session, in cycles."""
        raise NotImplementedError

    def stretch(self) -> float:
        """How much longer offline sessions are."""
        return (1 - self.online) / self.online

    @model_validator(mode="after")
    def _not_too_short(self) -> SessionConfig:
        shortest = self.median() * min(1.0, self.stretch() or 1.0)
        if shortest < SHORTEST:
            raise ValueError(
                f"half of the sessions are shorter than {shortest:.2g} cycles; expected at least {SHORTEST:g}"
            )
        return self


class LognormalConfig(SessionConfig):
    """Online sessions of log-normal length; offline ones too, as long as the share online asks for."""

    kind: Literal["lognormal"]
    mu: float = Field(le=50, ge=-50, description="mean of the logarithm of a session's length in cycles")
    sigma: float = Field(ge=0, le=10, description="standard deviation of that logarithm")

    def median(self) -> float:
        """The median length of an online session, in cycles."""
        return math.exp(self.mu)


class WeibullConfig(SessionConfig):
    """Online sessions of Weibull length; offline ones too, as long as the share online asks for."""

    kind: Literal["weibull"]
    shape: float = Field(ge=0.05, le=100, description="below 1: many short sessions and a few very long ones")
    scale: float = Field(gt=0, le=1e12, description="of a session's length, in cycles")

    def median(self) -> float:
        """The median length of an online session, in cycles."""
        return float(self.scale * math.log(2) ** (1 / self.shape))


class TraceConfig(ChurnSettings):
    """Who was online when is read from a file: CSV with columns node, from, until, an online interval a line."""

    kind: Literal["trace"]
    file: FileName = Field(
        description="the CSV file, relative to the scenario file; “until” is the first moment offline"
    )
    cycle_seconds: float | None = Field(
        None, gt=0, description="times are in seconds and a cycle lasts so many; default: times are cycles"
    )
    assign: Literal["exact", "repeat", "sample"] = Field(
        "exact",
        description="node n follows the n-th node of the trace (there must be enough), the trace's nodes are used "
        "again in turn, or each node follows a random one",
    )


class JoinConfig(ChurnSettings):
    """A share or a number of the nodes is not there from the start and joins later, evenly over the cycles given."""

    kind: Literal["join"]
    share: Share | None = Field(None, description="the share of all nodes that joins")
    number: int | None = Field(None, ge=0, description="the number of nodes that join")
    until: int = Field(ge=1, description="the cycle in which the last one joins")

    @model_validator(mode="after")
    def _how_many(self) -> JoinConfig:
        if (self.share is None) == (self.number is None):
            raise ValueError("expected either “share” or “number”")
        return self


ChurnConfig = Annotated[
    CrashConfig | RateConfig | OscillatingConfig | LognormalConfig | WeibullConfig | TraceConfig | JoinConfig,
    Field(discriminator="kind"),
]
F = TypeVar("F", bound=ChurnSettings)


class Churn(Stateful, Generic[F]):
    """One model of who is up; `up` is its state and its answer."""

    acts_outside: ClassVar[bool] = False  # whether the nodes it took down stay down outside its cycles

    def __init__(self, config: F, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        self._config = config
        self._key = key
        self._nodes = np.arange(world_nodes, dtype=np.int32)
        self._label = label
        self._folder = folder
        self.up = np.ones(world_nodes, np.bool_)

    @property
    def afresh(self) -> bool:
        """Whether nodes that come back start afresh."""
        return self._config.back == "afresh"

    def step(self, cycle: int) -> None:
        """Bring `up` to the new cycle."""
        config = self._config
        if config.start <= cycle and (config.until is None or cycle <= config.until or self.acts_outside):
            self.act(cycle, cycle == config.start)
        elif not self.acts_outside:
            self.up[:] = True

    def act(self, cycle: int, first: bool) -> None:
        """Decide who is up in a cycle in which the model acts; `first`: it is its first one."""
        raise NotImplementedError

    def _some(self, share: float | None, number: int | None, cycle: int = 0) -> Nodes:
        """A random share or number of all nodes."""
        count = round((share or 0) * self._nodes.size) if number is None else min(number, self._nodes.size)
        return rng.sample(self._key, cycle, self._nodes, count)


class Crash(Churn[CrashConfig]):
    """Some nodes die and never come back."""

    acts_outside = True

    def act(self, cycle: int, first: bool) -> None:
        """At its cycle, take the chosen nodes down."""
        if cycle == self._config.at:
            self.up[self._some(self._config.share, self._config.number)] = False


class Rate(Churn[RateConfig]):
    """Independent leaves and returns."""

    def act(self, cycle: int, first: bool) -> None:
        """Flip each node with its probability."""
        config = self._config
        u = rng.uniform(self._key, self._nodes, cycle)
        if first:
            both = config.leave + config.rejoin
            stationary = config.rejoin / both if both else 1.0
            self.up[:] = u < (stationary if config.online is None else config.online)
        else:
            self.up[:] = np.where(self.up, u >= config.leave, u < config.rejoin)


class Oscillating(Churn[OscillatingConfig]):
    """A size that swings; whoever leaves or comes back is drawn at random."""

    def act(self, cycle: int, first: bool) -> None:
        """Take random nodes down, or up, until the size is right."""
        config = self._config
        swing = (1 + math.cos(2 * math.pi * (cycle - config.start) / config.period)) / 2
        wanted = round((config.low + (config.high - config.low) * swing) * self._nodes.size)
        surplus = int(self.up.sum()) - wanted
        pool = self._nodes[self.up == (surplus > 0)]
        self.up[rng.sample(self._key, cycle, pool, abs(surplus))] = surplus < 0


S = TypeVar("S", bound=SessionConfig)


class Sessions(Churn[S]):
    """An alternating renewal process: independent lengths of online and offline sessions, looked at once a cycle.

    It is stationary from the first cycle on: a session under way is drawn by length, and cut at a uniform point.
    """

    def __init__(self, config: S, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        super().__init__(config, key, world_nodes, label, folder)
        self.end = np.full(world_nodes, np.inf)
        self.session = np.zeros(world_nodes, np.int32)

    def length(self, u: NDArray[np.float64], by_length: bool) -> NDArray[np.float64]:
        """Lengths of online sessions with probabilities u; `by_length`: of one that is met at a random moment."""
        raise NotImplementedError

    def _next(self, nodes: Nodes, by_length: bool = False) -> NDArray[np.float64]:
        """The length of the next session of each node; offline ones are as much longer as the share asks for."""
        u = rng.uniform(self._key, nodes, self.session[nodes], 2)
        stretch = np.where(self.up[nodes], 1.0, self._config.stretch())
        return self.length(u, by_length) * stretch

    def act(self, cycle: int, first: bool) -> None:
        """End the sessions that are over."""
        if self._config.online == 1:
            return
        if first:
            self.up[:] = rng.uniform(self._key, self._nodes, 0, 0) < self._config.online
            cut = rng.uniform(self._key, self._nodes, 0, 1)
            self.end[:] = cycle + self._next(self._nodes, by_length=True) * cut
            return
        over = self._nodes[self.end <= cycle]
        while over.size:
            self.up[over] = ~self.up[over]
            self.session[over] += 1
            self.end[over] += self._next(over)
            over = over[self.end[over] <= cycle]


class Lognormal(Sessions[LognormalConfig]):
    """Session lengths as the gossip-learning papers have them."""

    def length(self, u: NDArray[np.float64], by_length: bool) -> NDArray[np.float64]:
        """A log-normal drawn by length is log-normal with mu + sigma²."""
        from scipy.special import ndtri

        config = self._config
        mu = config.mu + config.sigma**2 * by_length
        return exp_of(mu + config.sigma * np.asarray(ndtri(u)))


class Weibull(Sessions[WeibullConfig]):
    """Session lengths with a power-law-like or a regular hazard."""

    def length(self, u: NDArray[np.float64], by_length: bool) -> NDArray[np.float64]:
        """Of a Weibull drawn by length, (length/scale)^shape has a Gamma(1 + 1/shape) distribution."""
        from scipy.special import gammaincinv

        config = self._config
        power = np.asarray(gammaincinv(1 + 1 / config.shape, u)) if by_length else -log_of(u)
        return np.asarray(config.scale * power_of(power, 1 / config.shape))


class Trace(Churn[TraceConfig]):
    """Sessions as somebody measured them."""

    def __init__(self, config: TraceConfig, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        super().__init__(config, key, world_nodes, label, folder)
        node, begin, end = read_trace(folder / config.file)
        if config.cycle_seconds is not None:
            begin, end = begin / config.cycle_seconds + 1, end / config.cycle_seconds + 1
        traced, place = np.unique(node, return_inverse=True)
        self._follows = self._assign(traced.size)
        self._place = np.concatenate([place, place])
        self._change = np.concatenate([np.ones(place.size, np.int32), np.full(place.size, -1, np.int32)])
        self._cycle = np.ceil(np.concatenate([begin, end]))
        self._sorted = np.argsort(self._cycle, kind="stable")
        self.open = np.zeros(traced.size, np.int32)  # intervals that contain the cycle, a traced node
        self.seen = 0  # changes taken in so far

    def _assign(self, traced: int) -> NDArray[np.int64]:
        assign, nodes = self._config.assign, self._nodes.size
        if assign == "sample":
            return rng.integers(self._key, self._nodes, traced)
        if assign == "exact" and traced < nodes:
            raise UserError(
                f"{self._config.file} has {traced} nodes, the network {nodes}",
                key="churn.assign",
                hint='say assign = "repeat" to use the trace\'s nodes again in turn, or "sample"',
            )
        return self._label.astype(np.int64) % traced

    def act(self, cycle: int, first: bool) -> None:
        """Take in the changes up to this cycle."""
        last = int(np.searchsorted(self._cycle[self._sorted], cycle, side="right"))
        now = self._sorted[self.seen : last]
        np.add.at(self.open, self._place[now], self._change[now])
        self.seen = last
        self.up[:] = (self.open > 0)[self._follows]


class Join(Churn[JoinConfig]):
    """Nodes that arrive later."""

    acts_outside = True

    def __init__(self, config: JoinConfig, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        super().__init__(config, key, world_nodes, label, folder)
        late = self._some(config.share, config.number)
        late = late[rng.permutation(key, 1, late.size)]
        window = config.until - config.start + 1
        self._joins = np.zeros(world_nodes, np.int64)
        self._joins[late] = config.start - 1 - (-np.arange(1, late.size + 1) * window) // max(late.size, 1)

    def step(self, cycle: int) -> None:
        """Those whose cycle has come are up."""
        self.up[:] = self._joins <= cycle


MODELS: dict[type, type[Churn[Any]]] = {
    CrashConfig: Crash,
    RateConfig: Rate,
    OscillatingConfig: Oscillating,
    LognormalConfig: Lognormal,
    WeibullConfig: Weibull,
    TraceConfig: Trace,
    JoinConfig: Join,
}


def build(configs: tuple[ChurnConfig, ...], seed: int, label: Nodes, folder: Path) -> list[Churn[Any]]:
    """The churn models of a scenario."""
    models = []
    for i, config in enumerate(configs):
        try:
            key = rng.key(seed, "churn", f"{i}.{config.kind}")
            models.append(MODELS[type(config)](config, key, label.size, label, folder))
        except UserError as error:
            error.key = f"churn.{i}.{(error.key or 'kind').rpartition('.')[2]}"
            raise
    return models


def all_up(models: list[Churn[Any]], nodes: int) -> NDArray[np.bool_]:
    """The nodes that every model has up."""
    up = np.ones(nodes, np.bool_)
    for model in models:
        up &= model.up
    return up


def read_trace(path: Path) -> tuple[NDArray[np.str_], NDArray[np.float64], NDArray[np.float64]]:
    """The nodes and bounds of the intervals of a trace file."""
    nodes, bounds = [], []
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines, skipinitialspace=True)
            if not {"node", "from", "until"} <= set(reader.fieldnames or ()):
                raise UserError(f"{path}: expected the columns node, from, until in the first line", key="file")
            for row in reader:
                bounds.append(_interval(row, path, reader.line_num))
                nodes.append(row["node"].strip())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", key="file") from None
    except (ValueError, csv.Error) as error:  # also a name that no file can have
        raise UserError(f"{path}: not a CSV text: {error}", key="file") from None
    if not nodes:
        raise UserError(f"{path}: no interval in it", key="file")
    begin, end = np.array(bounds).T
    return _natural(nodes), begin, end


def _natural(nodes: list[str]) -> NDArray[Any]:
    """Node names as numbers where all are, so that 10 comes after 9."""
    try:
        return np.array([int(node) for node in nodes])
    except ValueError:
        return np.array(nodes)


def _interval(row: dict[str, Any], path: Path, line: int) -> tuple[float, float]:
    try:
        begin, end = float(row["from"]), float(row["until"])
    except (TypeError, ValueError):
        raise UserError(f"{path}:{line}: expected node, from, until with numbers", key="file") from None
    if not (np.isfinite(begin) and np.isfinite(end) and begin <= end):
        raise UserError(f"{path}:{line}: expected from ≤ until, got {begin} and {end}", key="file")
    return begin, end


class Recorder:
    """Notes who is online in each cycle of a run, to write it as a trace."""

    def __init__(self) -> None:
        self._nodes = 0
        self._since: dict[int, int] = {}
        self._rows: list[tuple[int, int, int]] = []

    def note(self, world: World) -> None:
        """Take in the world's current cycle."""
        self._nodes = world.nodes
        online = set(world.label[world.online].tolist())
        for node in [n for n in self._since if n not in online]:
            self._rows.append((node, self._since.pop(node), world.cycle))
        for node in online - self._since.keys():
            self._since[node] = world.cycle

    def write(self, path: Path, last: int) -> None:
        """Write the sessions; those under way end after the cycle `last`, and who was never online has an empty one."""
        rows = self._rows + [(node, since, last + 1) for node, since in self._since.items()]
        seen = {node for node, _, _ in rows}
        rows += [(node, 1, 1) for node in range(self._nodes) if node not in seen]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["node", "from", "until"])
            writer.writerows(sorted(rows))
