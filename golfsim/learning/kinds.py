"""What a kernel knows of a learner: which one it is, and its numbers.

A kernel is compiled once for each learner, with the learner's own kernels inside it. The compiler knows the learner by
the type of `Rule.kind`, an empty tuple type of its own for each learner. The name of this type contains a hash of a
user's source files. So code that was compiled for an earlier version of a user's learner is never used again.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

PREFIX = "Kind_"
_LEARNERS: dict[str, Any] = {}  # the class of each learner, by the name of its kind


class Rule(NamedTuple):
    """How a model is updated."""

    kind: Any  # selects the learner
    one_by_one: bool  # one update per record; else all records of a node form one mini-batch
    numbers: tuple[Any, ...]  # of the learner
    steps: Any = ()  # how a gradient changes a model; of learners with a gradient
    room: Any = ()  # working memory and what nodes keep; of learners that are not linear


class Room(NamedTuple):
    """Working memory of an update; each thread has its own, except for `own`."""

    own: NDArray[np.float32]  # [nodes, width]: what each node keeps and never sends
    gradient: NDArray[np.float32]  # [1, parameters]
    one: NDArray[np.float32]  # [1, parameters]: the gradient of one record
    work: NDArray[np.float32]  # [1, numbers]


@cache
def _type_of(name: str) -> Any:
    kind: Any = namedtuple(name, ["number"])  # type: ignore[misc]  # the name is known at run time
    kind.__module__, kind.__qualname__ = __name__, name
    return kind


def __getattr__(name: str) -> Any:
    """Return the type of a kind, also one that only another process has used: stored code refers to it by name."""
    if name.startswith(PREFIX):
        return _type_of(name)
    raise AttributeError(name)


def kind_of(learner: Any, name: str) -> Any:
    """Return what `Rule.kind` is for the class of a learner; the name identifies the class and its source."""
    _LEARNERS[PREFIX + name] = learner
    return _type_of(PREFIX + name)(0)


def learner_of(rule: Any) -> Any:
    """Return the class of the learner of a rule, or of the type of a rule in compiled code."""
    kind = type(rule.kind) if isinstance(rule, Rule) else rule.types[0].instance_class
    return _LEARNERS[kind.__name__]


def with_room(rule: Rule) -> Rule:
    """Return a rule with working memory of its own, for one thread."""
    return rule if rule.room == () else rule._replace(room=_fresh(rule.room))


def _fresh(room: Room) -> Room:
    return Room(room.own, np.empty_like(room.gradient), np.empty_like(room.one), np.empty_like(room.work))


@overload(with_room)
def _compiled_with_room(rule: Any) -> Any:
    def same(rule: Any) -> Any:
        return rule

    def fresh(rule: Any) -> Any:
        room = rule.room
        new = Room(room.own, np.empty_like(room.gradient), np.empty_like(room.one), np.empty_like(room.work))
        return Rule(rule.kind, rule.one_by_one, rule.numbers, rule.steps, new)

    return same if learner_of(rule).linear else fresh  # numba requires the annotations of all three to be equal
