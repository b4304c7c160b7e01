"""The settings of Golf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from golfsim.learning.linear import DescentConfig
from golfsim.learning.packing import (
    ALL,
    MessageConfig,
)
from golfsim.learning.updates import (
    SHARING,
    Sharing,
)
from golfsim.network.clock import Clock
from golfsim.network.flow import FlowConfig
from golfsim.privacy.choice import NoiseConfig, or_target
from golfsim.privacy.ledger import Schedule, UniformSchedule

if TYPE_CHECKING:
    pass


class GolfConfig(DescentConfig, NoiseConfig):
    """The settings of Golf."""

    variant: Literal["algorithm1", "rw", "mu", "um", "own"] = Field(
        "algorithm1",
        description="what a node does with a received model: update it and average it with the current one "
        "(“algorithm1”, Hegedűs & Jelasity 2017); only update it (“rw”); merge it with the last received model, then "
        "update (“mu”); update both, then merge (“um”); merge it with the current one, then update (“own”, Hegedűs, "
        "Danner & Jelasity 2021)",
    )
    limit: int | None = Field(
        None,
        ge=0,
        description="with variant = “own”: the largest difference of ages of two models that are merged; if they "
        "differ more, the older model replaces the other one (Danner, Hegedűs & Jelasity 2023); default: no limit",
    )
    accept: Literal["all", "older"] = Field(
        "all",
        description="“older”: ignore a received model with fewer updates than the node's own, as in the random walks "
        "of Danner & Jelasity 2018",
    )
    flow: FlowConfig | None = Field(
        None,
        description="when nodes send: with token accounts a node also answers received models; default: one message "
        "per turn",
    )
    message: MessageConfig | None = Field(
        None, description="what a message carries of a model, and how it is encoded; default: all numbers in 32 bits"
    )
    on_return: Literal["wait", "send"] = Field(
        "wait",
        description="what a node does when it returns: wait for its next turn, or send at once and count its next "
        "interval from then (“send”, as GoLF does)",
    )
    period: float = Field(1.0, ge=0.1, le=1e6, description="the mean number of cycles between two turns of a node")
    phase: Literal["same", "random"] = Field(
        "same", description="when a node takes its first turn: at once, or at a random time of its first period"
    )
    jitter: float = Field(
        0.0,
        ge=0,
        le=1,
        description="the standard deviation of the normally distributed intervals between turns, as a share of the "
        "period; an interval is at least half a period",
    )
    jitter_of: Literal["turn", "node"] = Field(
        "turn",
        description="with jitter: each interval varies (“turn”, as in GoLF), or each node has one interval for all its "
        "turns (“node”, as in gossipy)",
    )
    receive: Literal["at-once", "next-turn"] = Field(
        "at-once",
        description="when a node uses a received model: at once, as GoLF and gossipy do, or at its next turn, before "
        "it sends (“next-turn”); of several models that wait, it uses the last one",
    )
    initial_update: bool = Field(
        False,
        description="whether a node updates the first model with its own records before its first turn, as gossipy "
        "does",
    )
    average: Literal["plain", "age"] = Field(
        "plain", description="weigh two models equally in a mean, or in proportion to their ages"
    )
    cache: int = Field(
        0, ge=0, description="the number of recent models that a node stores, for voted prediction or a robust merge"
    )
    merge: Literal["mean", "median", "trimmed-mean"] = Field(
        "mean",
        description="a defence against adversarial nodes: in place of the mean of two models use the coordinate-wise "
        "median of the updated models in the cache, or their mean without the smallest and largest quarter (needs "
        "algorithm1 and a cache of 3 or more)",
    )
    epsilon: float | None = Field(
        None,
        ge=1e-6,
        allow_inf_nan=True,
        description="the budget ε of each record (or node), for noise in each gradient; default: no noise; “target”: "
        "the one for the target of `[privacy]`",
        json_schema_extra=or_target,
    )
    rule: Sharing = Field("shared", description=f"with epsilon: {SHARING}")
    schedule: Schedule = Field(
        UniformSchedule(kind="uniform", visits=1),
        description="with epsilon: how the budget is divided over the visits of a record",
    )
    norm: Literal["l1", "l2"] = Field(
        "l1",
        description="with epsilon: “l1” adds Laplace noise, for records of L1 length ≤ 1; “l2” adds Gamma-norm noise, "
        "for L2 length ≤ 1",
    )
    unit: Literal["record", "node"] = Field(
        "record", description="with epsilon: what ε protects, one record or all records of a node"
    )
    clip: float | None = Field(
        None, gt=0, description="a defence against adversarial nodes: the largest L2 length of received models"
    )

    @model_validator(mode="after")
    def _robust(self) -> GolfConfig:
        if self.merge != "mean" and (self.variant != "algorithm1" or self.cache < 3):
            raise ValueError(f'merge = "{self.merge}" needs variant = "algorithm1" and a cache of 3 or more')
        if self.epsilon is not None and self.batch != "mini-batch":
            raise ValueError('epsilon needs batch = "mini-batch": one noisy update with all records of a node')
        if self.epsilon is None and self.gaussian:
            raise ValueError("noise: requires epsilon, the budget of each record")
        return self

    @model_validator(mode="after")
    def _turns(self) -> GolfConfig:
        if self.receive == "next-turn" and (self.flow is not None or self.message is not None):
            raise ValueError("receive: “next-turn” is not possible with flow or message")
        if self.flow is not None and self.own_clock and self.most_turns > 1:
            raise ValueError("flow: a token is earned once per cycle; a node may have several turns per cycle here")
        if self.jitter_of == "node" and not self.jitter:
            raise ValueError("jitter_of: requires jitter")
        return self

    @property
    def own_clock(self) -> bool:
        """Whether nodes take turns at times of their own, and not once per turn of the layer."""
        return (self.on_return, self.period, self.phase, self.jitter) != ("wait", 1.0, "same", 0.0)

    @property
    def most_turns(self) -> int:
        """The largest number of turns of a node in a turn of the layer."""
        return Clock.most(self.period, self.jitter, self.on_return == "send") if self.own_clock else 1

    @model_validator(mode="after")
    def _merged_with_own(self) -> GolfConfig:
        if self.variant != "own":
            if self.limit is not None:
                raise ValueError('limit needs variant = "own", which merges a received model with the current one')
            if self._partial:
                raise ValueError(
                    'message: a part of a model needs variant = "own", which merges it with the current one'
                )
        elif self._partial and self.clip is not None:
            raise ValueError("clip: the length of a part of a model is not that of the model")
        return self

    @property
    def _partial(self) -> bool:
        return self.message is not None and self.message.select != ALL
