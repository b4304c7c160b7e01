"""Churn: which nodes are online in each cycle. With several models a node is online if it is up in all of them."""

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
from golfsim.core.maths import cos_of_turns, exp_of, log_of, power_of
from golfsim.core.settings import FileName, Settings, Share
from golfsim.core.state import Stateful
from golfsim.core.words import counted
from golfsim.network.traces import ColumnsConfig, TraceFormat, read_sessions

if TYPE_CHECKING:
    from golfsim.network.world import World

Nodes = NDArray[np.int32]
NOBODY = np.empty(0, np.int32)
MOST_DRAWS = 10_000  # of the length of a session that is rounded to 0
LONGEST = 1e15  # cycles
SHORTEST = 1e-3  # cycles; every session is simulated, including those that begin and end between two cycles


class ChurnSettings(Settings):
    """The settings of every churn model: the cycles in which it acts, and the state of nodes that return."""

    start: int = Field(1, alias="from", ge=1, description="the first cycle in which the model acts")
    until: int | None = Field(
        None, ge=1, description="the last cycle in which the model acts; afterwards all its nodes are up again"
    )
    back: Literal["keep", "afresh"] = Field(
        "keep",
        alias="return",
        description="whether a returning node keeps its model and view, or is reset; its spent budget always stays",
    )

    @model_validator(mode="after")
    def _window(self) -> ChurnSettings:
        if self.until is not None and self.until < self.start:
            raise ValueError(f"“until” ({self.until}) lies before “from” ({self.start})")
        return self


class CrashConfig(ChurnSettings):
    """A share or a number of nodes fails in one cycle and never returns."""

    kind: Literal["crash"]
    at: int = Field(ge=1, description="the cycle in which the nodes fail")
    share: Share | None = Field(None, description="the share of all nodes that fails")
    number: int | None = Field(None, ge=0, description="the number of nodes that fail")

    @model_validator(mode="after")
    def _how_many(self) -> CrashConfig:
        if (self.share is None) == (self.number is None):
            raise ValueError("expected either “share” or “number”")
        if self.start != 1 or self.until is not None:
            raise ValueError("at: a crash happens in this cycle only; “from” and “until” are not allowed")
        return self


class RateConfig(ChurnSettings):
    """Nodes leave and return independently, with fixed probabilities per cycle."""

    kind: Literal["rate"]
    leave: Share = Field(description="the probability per cycle that an online node leaves")
    rejoin: Share = Field(description="the probability per cycle that an offline node returns")
    online: Share | None = Field(
        None, description="the share of nodes online in the first cycle; default: the stationary share"
    )


class OscillatingConfig(ChurnSettings):
    """The number of online nodes follows a cosine between two bounds, starting at the upper one."""

    kind: Literal["oscillating"]
    low: Share = Field(description="the lower bound, as a share of all nodes")
    high: float = Field(1.0, ge=0, le=1, description="the upper bound, as a share of all nodes")
    period: int = Field(ge=2, description="the number of cycles from peak to peak")

    @model_validator(mode="after")
    def _bounds(self) -> OscillatingConfig:
        if self.low > self.high:
            raise ValueError(f"“low” ({self.low}) is above “high” ({self.high})")
        return self


class ReplacementConfig(ChurnSettings):
    """A constant number of nodes is online: random offline nodes replace those whose session has ended, as in GoLF."""

    kind: Literal["replacement"]
    online: Share = Field(description="the share of nodes that is online in each cycle")
    mu: float = Field(le=50, ge=-50, description="the mean of the logarithm of the length of a session (cycles)")
    sigma: float = Field(
        ge=0,
        le=10,
        description="the standard deviation of this logarithm; lengths are rounded to cycles, and those that become 0 "
        "are drawn again",
    )

    @model_validator(mode="after")
    def _not_too_short(self) -> ReplacementConfig:
        if math.exp(self.mu + 3 * self.sigma) < 1:
            raise ValueError("mu: almost all sessions are shorter than a cycle")
        return self


class SessionConfig(ChurnSettings):
    """Alternating online and offline sessions."""

    online: float = Field(gt=0, le=1, description="the long-run share of nodes that are online")

    def median(self) -> float:
        """Return the median length of an online session, in cycles."""
        raise NotImplementedError

    def stretch(self) -> float:
        """Return the ratio of the lengths of offline and online sessions."""
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
    """Online and offline sessions have log-normal lengths; `online` sets the ratio of their scales."""

    kind: Literal["lognormal"]
    mu: float = Field(
        le=50, ge=-50, description="the mean of the logarithm of the length of an online session (cycles)"
    )
    sigma: float = Field(ge=0, le=10, description="the standard deviation of this logarithm")

    def median(self) -> float:
        """Return the median length of an online session, in cycles."""
        return math.exp(self.mu)


class WeibullConfig(SessionConfig):
    """Online and offline sessions have Weibull lengths; `online` sets the ratio of their scales."""

    kind: Literal["weibull"]
    shape: float = Field(
        ge=0.05, le=100, description="the shape parameter; below 1 there are many short and a few very long sessions"
    )
    scale: float = Field(gt=0, le=1e12, description="the scale parameter of the length of an online session, in cycles")

    def median(self) -> float:
        """Return the median length of an online session, in cycles."""
        return float(self.scale * math.log(2) ** (1 / self.shape))


class TraceConfig(ChurnSettings):
    """Online intervals are read from a file of measured sessions."""

    kind: Literal["trace"]
    file: FileName = Field(
        description="the file; the path is relative to the scenario file; a node is online before the end of a session"
    )
    format: TraceFormat | None = Field(
        None,
        description="“golfsim”: a CSV file with the columns node, from, until and one session per line; “csv”: a CSV "
        "file with other columns; “peersim”: a session file of GoLF, with one node per line; “fedscale”: the "
        "availability of FedScale, converted to JSON; default: the content decides",
    )
    columns: ColumnsConfig | None = Field(None, description="the names of the columns of a file of the format “csv”")
    after: Literal["end", "repeat"] | None = Field(
        None,
        description="what happens at the end of a node's trace: it stays offline (“end”), or its trace begins again "
        "(“repeat”); default: “repeat” for FedScale, as there, otherwise “end”",
    )
    cycle_seconds: float | None = Field(
        None, gt=0, description="the seconds per cycle, if the file has times in seconds; default: times are cycles"
    )
    assign: Literal["exact", "repeat", "sample"] = Field(
        "exact",
        description="“exact”: node n follows the n-th node of the trace, which must have enough nodes; “repeat”: the "
        "nodes of the trace are reused in turn; “sample”: each node follows a random node of the trace",
    )

    @model_validator(mode="after")
    def _fits_format(self) -> TraceConfig:
        if self.columns is not None and self.format not in (None, "csv"):
            raise ValueError('columns: requires format = "csv"')
        if self.format in ("peersim", "fedscale") and self.cycle_seconds is None:
            raise ValueError(f"cycle_seconds: required, since “{self.format}” has times in seconds")
        return self


class DiurnalConfig(ChurnSettings):
    """The probability of being online follows a cosine over the day, for one or several time zones."""

    kind: Literal["diurnal"]
    online: float = Field(gt=0, lt=1, description="the mean probability over a day that a node is online")
    amplitude: float = Field(
        gt=0, le=0.5, description="the largest difference from this mean; the mean ± amplitude lies between 0 and 1"
    )
    period: int = Field(ge=2, description="the number of cycles per day")
    session: float = Field(
        ge=1,
        description="the mean number of cycles for which an online node stays online while the probability does not "
        "change; where it falls or rises faster than that, more nodes leave or return",
    )
    zones: int = Field(1, ge=1, le=1000, description="the number of time zones; each node is in a random one")
    spread: Share = Field(
        1.0, description="the share of a day over which the time zones are spread evenly; 1: around the globe"
    )

    @model_validator(mode="after")
    def _probabilities(self) -> DiurnalConfig:
        if not self.amplitude <= min(self.online, 1 - self.online):
            raise ValueError(
                f"amplitude: expected at most {min(self.online, 1 - self.online):g}; got {self.amplitude:g}"
            )
        if self.session < 1:
            raise ValueError(f"session: expected at least 1 cycle; got {self.session:g}")
        return self


class JoinConfig(ChurnSettings):
    """A share or a number of nodes joins later, evenly spread over the cycles from `from` to `until`."""

    kind: Literal["join"]
    share: Share | None = Field(None, description="the share of all nodes that joins")
    number: int | None = Field(None, ge=0, description="the number of nodes that join")
    until: int = Field(ge=1, description="the cycle in which the last node joins")

    @model_validator(mode="after")
    def _how_many(self) -> JoinConfig:
        if (self.share is None) == (self.number is None):
            raise ValueError("expected either “share” or “number”")
        return self


ChurnConfig = Annotated[
    CrashConfig
    | RateConfig
    | OscillatingConfig
    | DiurnalConfig
    | ReplacementConfig
    | LognormalConfig
    | WeibullConfig
    | TraceConfig
    | JoinConfig,
    Field(discriminator="kind"),
]
F = TypeVar("F", bound=ChurnSettings)


class Churn(Stateful, Generic[F]):
    """A churn model; `up` states which nodes are up in it."""

    acts_outside: ClassVar[bool] = False  # whether nodes that the model took down stay down outside its cycles

    def __init__(self, config: F, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        self._config = config
        self._key = key
        self._nodes = np.arange(world_nodes, dtype=np.int32)
        self._label = label
        self._folder = folder
        self.up = np.ones(world_nodes, np.bool_)
        self._renewed = NOBODY  # nodes whose session ended when this cycle began, and who began another one at once

    @property
    def renewed(self) -> Nodes:
        """The nodes that left and returned at the beginning of this cycle."""
        return self._renewed

    @property
    def afresh(self) -> bool:
        """Whether nodes that return are reset."""
        return self._config.back == "afresh"

    def step(self, cycle: int) -> None:
        """Update `up` for the new cycle."""
        config, self._renewed = self._config, NOBODY
        if config.start <= cycle and (config.until is None or cycle <= config.until or self.acts_outside):
            self.act(cycle, cycle == config.start)
        elif not self.acts_outside:
            self.up[:] = True

    def act(self, cycle: int, first: bool) -> None:
        """Decide which nodes are up in a cycle in which the model acts; `first`: this is the first such cycle."""
        raise NotImplementedError

    def _some(self, share: float | None, number: int | None, cycle: int = 0) -> Nodes:
        """Return a random share or number of all nodes."""
        count = round((share or 0) * self._nodes.size) if number is None else min(number, self._nodes.size)
        return rng.sample(self._key, cycle, self._nodes, count)


class Crash(Churn[CrashConfig]):
    """Some nodes fail and never return."""

    acts_outside = True

    def act(self, cycle: int, first: bool) -> None:
        """Take the chosen nodes down in the cycle `at`."""
        if cycle == self._config.at:
            self.up[self._some(self._config.share, self._config.number)] = False


class Rate(Churn[RateConfig]):
    """Independent leaves and returns."""

    def act(self, cycle: int, first: bool) -> None:
        """Let each node leave or return with its probability."""
        config = self._config
        u = rng.uniform(self._key, self._nodes, cycle)
        if first:
            both = config.leave + config.rejoin
            stationary = config.rejoin / both if both else 1.0
            self.up[:] = u < (stationary if config.online is None else config.online)
        else:
            self.up[:] = np.where(self.up, u >= config.leave, u < config.rejoin)


class Oscillating(Churn[OscillatingConfig]):
    """An oscillating number of online nodes; the nodes that leave or return are drawn at random."""

    def act(self, cycle: int, first: bool) -> None:
        """Take random nodes down, or up, until the number of online nodes is right."""
        config = self._config
        swing = (1 + math.cos(2 * math.pi * (cycle - config.start) / config.period)) / 2
        wanted = round((config.low + (config.high - config.low) * swing) * self._nodes.size)
        surplus = int(self.up.sum()) - wanted
        pool = self._nodes[self.up == (surplus > 0)]
        self.up[rng.sample(self._key, cycle, pool, abs(surplus))] = surplus < 0


class Diurnal(Churn[DiurnalConfig]):
    """A daily rhythm: each node is online with a probability that follows a cosine in its time zone.

    Nodes leave with the probability 1/session per cycle, and return with the probability that keeps the share of online
    nodes at the cosine. Where no such probability exists, because the share changes too fast, only leaving or only
    returning happens, as often as the change needs. So the expected share is exact in every cycle.
    """

    def act(self, cycle: int, first: bool) -> None:
        """Let each node leave or return with the probability of its time zone."""
        zone = rng.integers(self._key, self._nodes, self._config.zones, k=1)
        u = rng.uniform(self._key, self._nodes, cycle)
        now = self.probability(cycle)
        if first:
            self.up[:] = u < now[zone]
            return
        leave, rejoin = turnover(self.probability(cycle - 1), now, 1 / self._config.session)
        self.up[:] = np.where(self.up, u >= leave[zone], u < rejoin[zone])

    def probability(self, cycle: int) -> NDArray[np.float64]:
        """Return the probability of being online in each time zone."""
        config = self._config
        shift = config.spread * np.arange(config.zones) / config.zones
        turns = ((cycle - config.start) / config.period - shift) % 1.0
        return config.online + config.amplitude * np.array([float(cos_of_turns(turn)) for turn in turns])


def turnover(
    before: NDArray[np.float64], now: NDArray[np.float64], leave: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probabilities of leaving and returning that change the probability of being online as wanted.

    The probability of leaving is `leave` where that is possible.
    """
    rest = np.maximum(1 - before, 1e-300)
    rejoin = np.clip((now - before * (1 - leave)) / rest, 0, 1)
    left = np.clip((before + rest * rejoin - now) / np.maximum(before, 1e-300), 0, 1)
    return left, rejoin


class Replacement(Churn[ReplacementConfig]):
    """The rule of GoLF's ChurnControl: a constant number of online nodes with log-normal sessions of full cycles.

    At the beginning of a cycle the sessions that are over end. Then random offline nodes begin sessions until the
    number is right. A node whose session has just ended may be among them.
    """

    def __init__(self, config: ReplacementConfig, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        super().__init__(config, key, world_nodes, label, folder)
        self.end = np.zeros(world_nodes, np.int64)  # the first cycle after the session of each node

    def act(self, cycle: int, first: bool) -> None:
        """End the sessions that are over, and begin others."""
        before = np.zeros_like(self.up) if first else self.up.copy()
        self.up[:] = before & (self.end > cycle)
        wanted = round(self._config.online * self._nodes.size) - int(self.up.sum())
        begin = rng.sample(self._key, cycle, self._nodes[~self.up], max(wanted, 0))
        self.up[begin] = True
        self.end[begin] = cycle + self._lengths(begin, cycle)
        self._renewed = begin[before[begin]]

    def _lengths(self, nodes: Nodes, cycle: int) -> NDArray[np.int64]:
        """Return the length of a new session of each node, in full cycles."""
        from scipy.special import ndtri

        found, left, k = np.zeros(nodes.size, np.int64), np.arange(nodes.size), 1
        while left.size and k < MOST_DRAWS:
            normal = np.asarray(ndtri(rng.uniform(self._key, nodes[left], cycle, k)))
            lengths = exp_of(self._config.mu + self._config.sigma * normal)
            found[left] = np.floor(np.minimum(lengths, LONGEST) + 0.5).astype(np.int64)
            left, k = left[found[left] == 0], k + 1
        return np.maximum(found, 1)


S = TypeVar("S", bound=SessionConfig)


class Sessions(Churn[S]):
    """An alternating renewal process with independent online and offline sessions, sampled once per cycle.

    The process is stationary from the first cycle on: the lengths of the first sessions are drawn length-biased, and
    each of these sessions is cut at a uniform point.
    """

    def __init__(self, config: S, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        super().__init__(config, key, world_nodes, label, folder)
        self.end = np.full(world_nodes, np.inf)
        self.session = np.zeros(world_nodes, np.int32)

    def length(self, u: NDArray[np.float64], by_length: bool) -> NDArray[np.float64]:
        """Return the quantiles u of the length of an online session; `by_length`: of the length-biased distribution."""
        raise NotImplementedError

    def _next(self, nodes: Nodes, by_length: bool = False) -> NDArray[np.float64]:
        """Return the length of the next session of each node; `stretch` scales the offline sessions."""
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
    """Log-normal session lengths, as in the papers on gossip learning."""

    def length(self, u: NDArray[np.float64], by_length: bool) -> NDArray[np.float64]:
        """Return quantiles of the length; a length-biased log-normal distribution is log-normal with mu + sigma²."""
        from scipy.special import ndtri

        config = self._config
        mu = config.mu + config.sigma**2 * by_length
        return exp_of(mu + config.sigma * np.asarray(ndtri(u)))


class Weibull(Sessions[WeibullConfig]):
    """Weibull session lengths, with a falling, constant or rising hazard rate."""

    def length(self, u: NDArray[np.float64], by_length: bool) -> NDArray[np.float64]:
        """Return quantiles of the length.

        If the length has a length-biased Weibull distribution, (length/scale)^shape has a Gamma(1 + 1/shape)
        distribution.
        """
        from scipy.special import gammaincinv

        config = self._config
        power = np.asarray(gammaincinv(1 + 1 / config.shape, u)) if by_length else -log_of(u)
        return np.asarray(config.scale * power_of(power, 1 / config.shape))


class Trace(Churn[TraceConfig]):
    """Measured sessions from a file."""

    def __init__(self, config: TraceConfig, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        super().__init__(config, key, world_nodes, label, folder)
        found = read_sessions(folder / config.file, config.format, config.columns)
        if found.seconds and config.cycle_seconds is None:
            what = f"{config.file} has times in seconds"
            raise UserError(what, key="churn.cycle_seconds", hint="say how many a cycle has, e.g. cycle_seconds = 60")
        begin, end, unit = found.begin, found.end, config.cycle_seconds or 1.0
        if config.cycle_seconds is not None:
            begin, end = begin / unit + 1, end / unit + 1
        traced, place = np.unique(found.node, return_inverse=True)
        self._follows = self._assign(traced.size)
        self._place = np.concatenate([place, place])
        self._change = np.concatenate([np.ones(place.size, np.int32), np.full(place.size, -1, np.int32)])
        self._cycle = np.ceil(np.concatenate([begin, end]))
        self._sorted = np.argsort(self._cycle, kind="stable")
        self.open = np.zeros(traced.size, np.int32)  # the intervals that contain the cycle, per node of the trace
        self.seen = 0  # changes applied so far
        self._repeats = found.repeats if config.after is None else config.after == "repeat"
        self._begin, self._end, self._node = begin, end, place
        lengths = [found.length[name] / unit if found.length else end.max() - 1 for name in traced.tolist()]
        self._length = np.maximum(lengths, 1e-9)

    def _assign(self, traced: int) -> NDArray[np.int64]:
        assign, nodes = self._config.assign, self._nodes.size
        if assign == "sample":
            return rng.integers(self._key, self._nodes, traced)
        if assign == "exact" and traced < nodes:
            raise UserError(
                f"{self._config.file} has {counted(traced, 'node')}, the network has {nodes}",
                key="churn.assign",
                hint='use assign = "repeat" to reuse the nodes of the trace in turn, or "sample" to draw them',
            )
        return self._label.astype(np.int64) % traced

    def act(self, cycle: int, first: bool) -> None:
        """Apply the changes up to this cycle."""
        if self._repeats:
            self._repeat(cycle)
            return
        last = int(np.searchsorted(self._cycle[self._sorted], cycle, side="right"))
        now = self._sorted[self.seen : last]
        np.add.at(self.open, self._place[now], self._change[now])
        self.seen = last
        self.up[:] = (self.open > 0)[self._follows]

    def _repeat(self, cycle: int) -> None:
        """Find the sessions that contain this cycle, where each trace begins again after its end."""
        time = np.fmod(cycle - 1.0, self._length)[self._node] + 1
        self.open[:] = 0
        np.add.at(self.open, self._node[(self._begin <= time) & (time < self._end)], 1)
        self.up[:] = (self.open > 0)[self._follows]


class Join(Churn[JoinConfig]):
    """Nodes that join later."""

    acts_outside = True

    def __init__(self, config: JoinConfig, key: np.uint64, world_nodes: int, label: Nodes, folder: Path) -> None:
        super().__init__(config, key, world_nodes, label, folder)
        late = self._some(config.share, config.number)
        late = late[rng.permutation(key, 1, late.size)]
        window = config.until - config.start + 1
        self._joins = np.zeros(world_nodes, np.int64)
        self._joins[late] = config.start - 1 - (-np.arange(1, late.size + 1) * window) // max(late.size, 1)

    def step(self, cycle: int) -> None:
        """Take all nodes up whose cycle to join has come."""
        self.up[:] = self._joins <= cycle


MODELS: dict[type, type[Churn[Any]]] = {
    CrashConfig: Crash,
    RateConfig: Rate,
    OscillatingConfig: Oscillating,
    DiurnalConfig: Diurnal,
    ReplacementConfig: Replacement,
    LognormalConfig: Lognormal,
    WeibullConfig: Weibull,
    TraceConfig: Trace,
    JoinConfig: Join,
}


def build(configs: tuple[ChurnConfig, ...], seed: int, label: Nodes, folder: Path) -> list[Churn[Any]]:
    """Return the churn models of a scenario."""
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
    """Return which nodes are up in every model."""
    up = np.ones(nodes, np.bool_)
    for model in models:
        up &= model.up
    return up


class Recorder:
    """Record which nodes are online in each cycle of a run, to write a trace file."""

    def __init__(self) -> None:
        self._nodes = 0
        self._since: dict[int, int] = {}
        self._rows: list[tuple[int, int, int]] = []

    def note(self, world: World) -> None:
        """Record the current cycle of the world."""
        self._nodes = world.nodes
        online = set(world.label[world.online].tolist())
        for node in [n for n in self._since if n not in online]:
            self._rows.append((node, self._since.pop(node), world.cycle))
        for node in online - self._since.keys():
            self._since[node] = world.cycle

    def write(self, path: Path, last: int) -> None:
        """Write the sessions. Open ones end after the cycle `last`; nodes that were never online have an empty one."""
        rows = self._rows + [(node, since, last + 1) for node, since in self._since.items()]
        seen = {node for node, _, _ in rows}
        rows += [(node, 1, 1) for node in range(self._nodes) if node not in seen]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["node", "from", "until"])
            writer.writerows(sorted(rows))
