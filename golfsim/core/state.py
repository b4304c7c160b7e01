"""Define the state of a layer, a churn model or a mailbox: its public arrays, numbers and mailboxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

P = TypeVar("P")


class Stateful:
    """An object whose public attributes are its state: arrays, numbers, or parts that are also Stateful.

    Attributes whose names begin with ``_`` are not saved; `setup` rebuilds them.
    """

    _not_state: frozenset[str] = frozenset()

    def state(self) -> dict[str, Any]:
        """Return the state as arrays by name; the arrays of a part have names ``part/name``."""
        arrays: dict[str, Any] = {}
        for name, value in self._public().items():
            if isinstance(value, Stateful):
                arrays |= {f"{name}/{inner}": array for inner, array in value.state().items()}
            else:
                arrays[name] = np.asarray(value)
        return arrays

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore the state from the arrays that `state` returned; arrays are changed in place."""
        for name, value in self._public().items():
            if isinstance(value, Stateful):
                prefix = f"{name}/"
                value.restore({key[len(prefix) :]: a for key, a in arrays.items() if key.startswith(prefix)})
            elif isinstance(value, np.ndarray):
                value[...] = _matching(type(self).__name__, name, value, arrays)
            else:
                setattr(self, name, type(value)(_matching(type(self).__name__, name, np.asarray(value), arrays)[()]))

    def parts(self, kind: type[P]) -> Iterator[tuple[str, P]]:
        """Yield the parts of one kind with their names, including the parts of parts."""
        for name, value in self._public().items():
            if isinstance(value, kind):
                yield name, value
            elif isinstance(value, Stateful):
                yield from ((f"{name}/{inner}", part) for inner, part in value.parts(kind))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the public arrays of this object by name, without those of its parts."""
        return {n: v for n, v in vars(self).items() if isinstance(v, np.ndarray) and not n.startswith("_")}

    def _public(self) -> dict[str, Any]:
        public = {n: v for n, v in vars(self).items() if not n.startswith("_") and n not in self._not_state}
        for name, value in public.items():
            if not isinstance(value, np.ndarray | np.generic | int | float | bool | Stateful):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a {type(value).__name__}: public attributes are state and must "
                    f"be arrays, numbers or mailboxes; begin the name with “_” if `setup` rebuilds it"
                )
        return public


def _matching(owner: str, name: str, have: Any, arrays: dict[str, Any]) -> Any:
    saved = arrays.get(name)
    if saved is None or saved.shape != have.shape or saved.dtype != have.dtype:
        found = "nothing" if saved is None else f"{saved.dtype}{list(saved.shape)}"
        raise ValueError(f"{owner}.{name}: expected {have.dtype}{list(have.shape)}, found {found}")
    return saved
