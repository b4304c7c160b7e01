"""Decide when a node sends: in each turn, in answer to a message, or both under a token account.

Danner & Jelasity 2018: a node earns a token in each of its turns in which it does not send, and spends a token for each
message with which it answers a received one. So the number of messages per turn is limited to one in the long run, and
the answers carry a useful message on without waiting for the next turn. The text of the paper was not at hand: the
formulae are those of the authors' program (GoLF, TokenLearningProtocol).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from golfsim.core.kernels import inlined, kernel
from golfsim.core.metrics import Metric
from golfsim.core.rng import draw, unit
from golfsim.core.settings import Settings
from golfsim.core.state import Stateful


class Keyed(Protocol):
    """A layer, of which only the keys of draws are needed."""

    def key(self, purpose: str) -> np.uint64:
        """Return the key for the draws of one purpose."""


PROACTIVE, REACTIVE, SIMPLE, GENERALISED, RANDOMISED = range(5)
METRICS = (
    Metric("tokens.mean", "The mean number of tokens of an online node, all parts of the model together; with `flow`."),
    Metric("tokens.max", "The largest number of tokens of an online node; with `flow`."),
)
Capacity = Annotated[int, Field(ge=1, le=10_000)]


class ProactiveConfig(Settings):
    """Send one message in each turn, and never answer."""

    kind: Literal["proactive"]


class ReactiveConfig(Settings):
    """Send one message in the first turn; then only answer useful messages. Lost messages are not replaced."""

    kind: Literal["reactive"]


class SimpleConfig(Settings):
    """Answer each message while there are tokens; send in a turn if the account is full."""

    kind: Literal["simple"]
    capacity: Capacity = Field(description="C, the number of tokens from which on a node sends in each of its turns")


class _SpendingConfig(SimpleConfig):
    kind: str  # type: ignore[assignment]  # subclasses name it
    spend: Capacity = Field(
        description="A, at most C: a node with a tokens answers a useful message by about a / A messages"
    )

    @model_validator(mode="after")
    def _possible(self) -> _SpendingConfig:
        if self.spend > self.capacity:
            raise ValueError(f"spend ({self.spend}) is larger than capacity ({self.capacity})")
        return self


class GeneralisedConfig(_SpendingConfig):
    """Answer a useful message by ⌊(A − 1 + a)/A⌋ messages, and others by half of that; in a turn as “simple”."""

    kind: Literal["generalised"]


class RandomisedConfig(_SpendingConfig):
    """Answer a useful message by a/A messages, rounded at random; send in a turn with a rising probability.

    The probability is 0 below A − 1 tokens and rises linearly to 1 with C tokens.
    """

    kind: Literal["randomised"]


FlowConfig = Annotated[
    ProactiveConfig | ReactiveConfig | SimpleConfig | GeneralisedConfig | RandomisedConfig, Field(discriminator="kind")
]
KINDS = {
    "proactive": PROACTIVE, "reactive": REACTIVE, "simple": SIMPLE, "generalised": GENERALISED,
    "randomised": RANDOMISED,
}  # fmt: skip


class Accounts(NamedTuple):
    """The token accounts of all nodes, for kernels: one per node and part of the model."""

    kind: int
    capacity: int
    spend: int
    parts: int
    tokens: NDArray[np.int32]  # [nodes · parts]


@inlined
def chance(accounts, tokens):
    """Return the probability that a node sends in its turn."""
    if accounts.kind == PROACTIVE:
        return 1.0
    if accounts.kind == REACTIVE:
        return 1.0 if tokens > 0 else 0.0
    if accounts.kind == RANDOMISED:
        free = accounts.capacity - accounts.spend + 1
        return min(max((tokens - accounts.spend + 1) / free, 0.0), 1.0)
    return 1.0 if tokens >= accounts.capacity else 0.0


@inlined
def reaction(accounts, tokens, useful):
    """Return the expected number of messages by which a node answers a message."""
    if accounts.kind == REACTIVE:
        return 1.0 if useful else 0.0
    if accounts.kind == SIMPLE:
        return 1.0 if tokens > 0 else 0.0
    if accounts.kind == GENERALISED:
        return np.float64((accounts.spend - 1 + tokens) // (accounts.spend if useful else 2 * accounts.spend))
    if accounts.kind == RANDOMISED:
        return tokens / accounts.spend if useful else 0.0
    return 0.0


@kernel
def take_turns(accounts, nodes, part, cycle, key, sends):
    """Let nodes send in their turn or earn a token.

    Parameters
    ----------
    accounts : Accounts
        The token accounts; changed in place.
    nodes : array of int32
        The nodes whose turn it is.
    part : array of int32, shape (nodes,)
        The part of the model that each of them would send.
    cycle, key
        Of the draws.
    sends : array of bool, shape (nodes,)
        Which nodes send; filled here.
    """
    for e in range(nodes.size):
        account = np.int64(nodes[e]) * accounts.parts + part[e]
        p = chance(accounts, accounts.tokens[account])
        sends[e] = p >= 1 or (p > 0 and unit(draw(key, cycle, nodes[e], 0)) < p)
        if accounts.kind == REACTIVE:
            accounts.tokens[account] -= sends[e]
        elif accounts.kind != PROACTIVE:
            accounts.tokens[account] += not sends[e]


@kernel
def react(accounts, nodes, part, useful, cycle, key, received, answers):
    """Let nodes answer the messages that they have received, one message after the other.

    Parameters
    ----------
    accounts : Accounts
        The token accounts; changed in place.
    nodes : array of int32, shape (messages,)
        The receiver of each message.
    part : array of int32, shape (messages,)
        The part of the model that each message carries.
    useful : array of bool, shape (messages,)
        Which messages have changed the model of their receiver.
    cycle, key
        Of the draws.
    received : array of int64, shape (nodes of the network,)
        The number of messages that each node has received in this cycle; changed in place.
    answers : array of int64, shape (messages,)
        The number of messages that answer each message; filled here.
    """
    for e in range(nodes.size):
        account = np.int64(nodes[e]) * accounts.parts + part[e]
        wanted = reaction(accounts, accounts.tokens[account], useful[e])
        number = np.int64(wanted)
        if wanted > number:
            number += unit(draw(key, cycle, nodes[e], received[nodes[e]])) < wanted - number
        received[nodes[e]] += 1
        if accounts.kind != REACTIVE:
            accounts.tokens[account] -= number
        answers[e] = number


@kernel
def count_up(nodes, sent, number):
    """Number the messages of each node in this cycle.

    `sent` has the number of messages that each node has sent so far, and `number` is filled.
    """
    for e in range(nodes.size):
        number[e] = sent[nodes[e]]
        sent[nodes[e]] += 1


class Flow(Stateful):
    """The token accounts of the nodes of a layer: one per node, or one per node and part of what it sends.

    A layer makes one in `setup`, gives `start` its own nodes, asks `sends` which nodes send in their turn, `numbers`
    how to number messages, and `answers` by how many messages each received one is answered.
    """

    def __init__(
        self,
        config: ProactiveConfig | ReactiveConfig | SimpleConfig | GeneralisedConfig | RandomisedConfig,
        layer: Keyed,
        nodes: int,
        parts: int = 1,
    ) -> None:
        self.tokens = np.zeros(nodes * parts, np.int32)
        self._kind = KINDS[config.kind]
        self._capacity, self._spend = int(getattr(config, "capacity", 0)), int(getattr(config, "spend", 1))
        self._parts = parts
        self._turn_key, self._answer_key = layer.key("turn"), layer.key("answer")
        self._cycle = -1  # of the numbers of messages
        self._sent, self._received = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)

    def start(self, nodes: NDArray[Any]) -> None:
        """Empty the accounts of these nodes. A reactive node has one token, for its first message."""
        self.tokens.reshape(-1, self._parts)[nodes] = self._kind == REACTIVE

    def _accounts(self) -> Accounts:
        return Accounts(self._kind, self._capacity, self._spend, self._parts, self.tokens)

    def sends(self, cycle: int, nodes: NDArray[np.int32], part: NDArray[np.int32] | None = None) -> NDArray[np.bool_]:
        """Return which of these nodes, whose turn it is, send a message; the others earn a token.

        `part` has the part that each node would send; default: nothing is divided.
        """
        sends = np.empty(nodes.size, np.bool_)
        take_turns(self._accounts(), nodes, self._part(nodes, part), cycle, self._turn_key, sends)
        return sends

    def answers(
        self,
        cycle: int,
        nodes: NDArray[np.int32],
        useful: NDArray[np.bool_],
        part: NDArray[np.int32] | None = None,
    ) -> NDArray[np.int64]:
        """Return the number of messages by which each received message is answered; they are paid for.

        Parameters
        ----------
        cycle : int
            The current cycle.
        nodes : array of int32, shape (messages,)
            The receiver of each message.
        useful : array of bool, shape (messages,)
            Which messages have changed the state of their receiver.
        part : array of int32, shape (messages,), optional
            The part that each message carries.
        """
        self._begin(cycle)
        number = np.zeros(nodes.size, np.int64)
        key, part = self._answer_key, self._part(nodes, part)
        react(self._accounts(), nodes, part, useful, cycle, key, self._received, number)
        return number

    def numbers(self, cycle: int, nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Number the messages that these nodes send now, among those that each of them sends in this cycle."""
        self._begin(cycle)
        number = np.empty(nodes.size, np.int64)
        count_up(nodes, self._sent, number)
        return number

    def _begin(self, cycle: int) -> None:
        if cycle != self._cycle:
            self._cycle = cycle
            self._sent[:] = 0
            self._received[:] = 0

    def _part(self, nodes: NDArray[np.int32], part: NDArray[np.int32] | None) -> NDArray[np.int32]:
        return np.zeros(nodes.size, np.int32) if part is None else part

    @staticmethod
    def each(config: FlowConfig | None, longest: int, parts: int = 1) -> int:
        """Return how many messages per node and cycle of the longest delay a mailbox must have room for.

        A node sends one message per turn in the long run, and at most all of its tokens in addition. A reactive node
        sends one message per message that it receives. So there are never more messages than nodes have been started.
        """
        if config is None or config.kind == "proactive" or not longest:
            return 1
        if config.kind == "reactive":
            return 2
        return 1 - (-parts * config.capacity // longest)

    def metrics(self, online: NDArray[np.bool_]) -> dict[str, float]:
        """Return the mean and the largest number of tokens of an online node."""
        tokens = self.tokens.reshape(-1, self._parts)[online].sum(axis=1)
        return {"tokens.mean": float(tokens.mean()), "tokens.max": float(tokens.max())}
