"""Who is online in each cycle. Several models may act at once: a node is online when all of them have it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim import rng
from golfsim.kernels import kernel
from golfsim.rng import draw, unit
from golfsim.settings import ChurnConfig, CrashConfig, LognormalConfig, RateConfig
from golfsim.state import Stateful

if TYPE_CHECKING:
    from golfsim.world import World


class Churn(Stateful):
    """One model of who is up; `up` is its state and its answer."""

    def __init__(self, config: Any, key: np.uint64, nodes: int) -> None:
        self._config = config
        self._key = key
        self.up = np.ones(nodes, np.bool_)

    def step(self, world: World) -> None:
        """Bring `up` to the world's new cycle."""
        raise NotImplementedError


class Crash(Churn):
    """Some nodes die and never come back."""

    def step(self, world: World) -> None:
        """At its cycle, take the chosen nodes down."""
        if world.cycle == self._config.at:
            everyone = np.arange(world.nodes, dtype=np.int32)
            share, number = self._config.share, self._config.number
            count = round(share * world.nodes) if number is None else min(number, world.nodes)
            self.up[rng.sample(self._key, world.cycle, everyone, count)] = False


class Rate(Churn):
    """Independent leaves and returns."""

    def step(self, world: World) -> None:
        """Flip each node with its probability."""
        config = self._config
        u = rng.uniform(self._key, np.arange(world.nodes, dtype=np.int32), world.cycle)
        if world.cycle == 1:
            both = config.leave + config.come_back
            stationary = config.come_back / both if both else 1.0
            self.up[:] = u < (stationary if config.online is None else config.online)
        else:
            self.up[:] = np.where(self.up, u >= config.leave, u < config.come_back)


@kernel
def lognormal_sessions(key, cycle, mu_up, mu_down, sigma, up, until):
    """Nodes whose session ends in this cycle change sides and draw the length of the next one."""
    for i in range(up.size):
        if until[i] <= cycle:
            up[i] = not up[i]
            mu = mu_up if up[i] else mu_down
            until[i] += max(exp_normal(key, cycle, i, mu, sigma), 1.0)


@kernel
def exp_normal(key, cycle, node, mu, sigma):
    """A log-normal draw (Box–Muller)."""
    radius = np.sqrt(-2 * np.log(unit(draw(key, cycle, node, 0))))
    return np.exp(mu + sigma * radius * np.cos(2 * np.pi * unit(draw(key, cycle, node, 1))))


@kernel
def lognormal_start(key, online, mu_up, mu_down, sigma, up, until):
    """The stationary state: a share is up, and a running session is length-biased and cut at a uniform point."""
    for i in range(up.size):
        up[i] = unit(draw(key, 0, i, 2)) < online
        mu = mu_up if up[i] else mu_down
        length = exp_normal(key, 0, i, mu + sigma * sigma, sigma)
        until[i] = 1 + length * unit(draw(key, 0, i, 3))


class Lognormal(Churn):
    """Session lengths as measured in peer-to-peer networks (Stutzbach & Rejaie 2006)."""

    def __init__(self, config: LognormalConfig, key: np.uint64, nodes: int) -> None:
        super().__init__(config, key, nodes)
        self.until = np.full(nodes, np.inf)

    def step(self, world: World) -> None:
        """End the sessions that are over."""
        config = self._config
        if config.online == 1:
            return
        mu_down = config.mu + float(np.log((1 - config.online) / config.online))
        if world.cycle == 1:
            lognormal_start(self._key, config.online, config.mu, mu_down, config.sigma, self.up, self.until)
        else:
            lognormal_sessions(self._key, world.cycle, config.mu, mu_down, config.sigma, self.up, self.until)


MODELS: dict[type, type[Churn]] = {CrashConfig: Crash, RateConfig: Rate, LognormalConfig: Lognormal}


def build(configs: tuple[ChurnConfig, ...], seed: int, nodes: int) -> list[Churn]:
    """The churn models of a scenario."""
    return [MODELS[type(c)](c, rng.key(seed, "churn", f"{i}.{c.kind}"), nodes) for i, c in enumerate(configs)]


def all_up(models: list[Churn], nodes: int) -> NDArray[np.bool_]:
    """The nodes that every model has up."""
    up = np.ones(nodes, np.bool_)
    for model in models:
        up &= model.up
    return up
