"""Let a layer take several turns per cycle, each with random numbers of its own.

A layer draws by keys, and a key belongs to a purpose. In a further turn of the same cycle each key that the layer has
asked for is replaced by the key of the same purpose and this turn. The keys of the first turn are those of a layer with
one turn per cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from golfsim.core.chacha import SecretKey
from golfsim.core.state import Stateful
from golfsim.protocol.base import Protocol

if TYPE_CHECKING:
    from golfsim.network.world import World


@contextmanager
def further_turn(layer: Protocol[Any], world: World, number: int) -> Iterator[None]:
    """Use the keys of a further turn within the block: turn 1 is the second one of the cycle."""
    world.turn = number
    new = layer.keys_of_turn(number)
    replaced = list(_replace(layer, new))
    try:
        yield
    finally:
        for owner, name, value in replaced:
            setattr(owner, name, value)
        layer.keys_of_turn(0)
        world.turn = 0


def _replace(owner: Stateful, new: dict[Any, Any]) -> Iterator[tuple[Stateful, str, Any]]:
    """Replace the keys among the attributes of an object and its parts; yield where each was, with its old value."""
    for name, value in list(vars(owner).items()):
        if isinstance(value, Stateful) and not isinstance(value, Protocol):
            yield from _replace(value, new)
            continue
        changed = _changed(value, new)
        if changed is not value:
            yield owner, name, value
            setattr(owner, name, changed)


def _changed(value: Any, new: dict[Any, Any]) -> Any:
    """Return a value with new keys: a key, or a named tuple that has some; all other values as they are."""
    if isinstance(value, np.uint64 | SecretKey):
        return new.get(value, value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = [_changed(part, new) for part in value]
        if any(one is not other for one, other in zip(parts, value, strict=True)):
            return type(value)(*parts)
    return value
