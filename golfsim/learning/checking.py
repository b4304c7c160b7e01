"""Find mistakes in a learner of the user's own when its class is loaded."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from numba import config as compiler

from golfsim.core.errors import UserError, closest
from golfsim.learning.online import GradientLearner, LinearLearner, OnlineLearner
from golfsim.protocol.checking import check_settings, of_user, where

ARGUMENTS = {
    "update": "s, w, i, t, rows, first, stop, room",
    "scores": "s, w, i, x, r, out, o, room",
    "merge": "s, a, i, b, j, share, room",
    "gradient": "s, w, i, x, r, label, out, work",
    "step": "s, margin, t",
    "decay": "s, t",
    "reach": "s, t",
}


def check_learner(cls: type[OnlineLearner[Any]]) -> None:
    """Refuse a class without a kernel that it needs, or with one that is misspelt or cannot be compiled."""
    check_settings(cls, "learner")
    for name in needed(cls):
        if getattr(cls, name) is None:
            what = f"{where(cls)}: class {cls.__name__} has no kernel “{name}”"
            raise UserError(what, key="learner", hint=f"write one, and add this line to the class: {name} = my_{name}")
    for name, value in _own(cls):
        if name in ARGUMENTS:
            _check_kernel(cls, name, value)
        elif callable(value) and not name.startswith("_"):
            _check_name(cls, name)


def needed(cls: type[OnlineLearner[Any]]) -> tuple[str, ...]:
    """Return the kernels that a learner must have."""
    if issubclass(cls, LinearLearner):
        return "step", "decay", "reach"
    return ("gradient", "scores") if issubclass(cls, GradientLearner) else ("update", "scores")


def _own(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for base in cls.__mro__ if of_user(base) for name, value in vars(base).items())


def _check_kernel(cls: type[Any], name: str, value: Any) -> None:
    function = getattr(value, "py_func", None)
    if function is None and not compiler.DISABLE_JIT:
        what = f"{where(cls, name)}: “{name}” of class {cls.__name__} is not a kernel"
        hint = f"write a function at the top of the file, with @leaf above it, and assign it in the class: {name} = …"
        raise UserError(what, key="learner", hint=hint)
    wanted, got = ARGUMENTS[name], inspect.signature(function or value).parameters
    if len(got) != len(wanted.split(", ")):
        taken = f"takes {len(got)} arguments ({', '.join(got)})"
        what = f"{where(cls)}: the kernel “{name}” of class {cls.__name__} {taken}"
        raise UserError(what, key="learner", hint=f"expected ({wanted})")


def _check_name(cls: type[Any], name: str) -> None:
    above = {other for base in cls.__mro__ if not of_user(base) for other in vars(base)} | {*ARGUMENTS}
    known = [other for other in above if not other.startswith("_")]
    meant = None if name in known else closest(name, known)
    if meant is not None and meant not in dict(_own(cls)):
        what = f"{where(cls, name)}: golfsim never calls “{name}”"
        raise UserError(what, key="learner", hint=f"did you mean “{meant}”? A helper's name should begin with “_”")
