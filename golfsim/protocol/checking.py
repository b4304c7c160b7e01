"""Find mistakes in a protocol of the user's own when its class is loaded and in its first cycle.

Each message names the file and the line, so that a mistake is not found after the last cycle, or never.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from golfsim.core.errors import UserError, closest
from golfsim.core.settings import Settings
from golfsim.protocol.base import LayerConfig, Protocol

if TYPE_CHECKING:
    from golfsim.network.world import World

OURS = {"golfsim", "protocols", "builtins", "typing"}
RANDOM = {"np.random", "numpy.random", "random"}  # whose numbers are not a function of the seed


def check_class(cls: type[Protocol[Any]]) -> None:
    """Refuse a class with a misspelt method, a method with other arguments, or without its settings."""
    check_settings(cls, "protocol")
    for name, function in vars(cls).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            _check_method(cls, name)


def random_uses(path: Path) -> list[str]:
    """Return a warning for each place of a file that draws random numbers which the seed does not determine."""
    advice = "use golfsim.protocol.uniform(self.key(…), nodes), or draw(key, …) in kernels"
    return [
        f"{path}:{line}: warning: {name} gives other numbers in every run; {advice}" for line, name in _random(path)
    ]


def check_layer(layer: Protocol[Any], world: World) -> None:
    """Check what the first cycle has made of a layer of the user's own, before the run continues."""
    if of_user(type(layer)):
        check_state(layer)
        if world.order.size:
            check_observed(layer, layer.observe(world))


def check_state(layer: Protocol[Any]) -> None:
    """Refuse a public attribute that is no state: only arrays, numbers and mailboxes can be saved and resumed."""
    try:
        layer.state()
    except TypeError as error:
        name = str(error).split(" ", 1)[0].rpartition(".")[2]
        raise UserError(f"{where(type(layer), attribute=name)}: {error}", key=layer.name) from None


def check_observed(layer: Protocol[Any], found: Any) -> None:
    """Refuse metrics that are not numbers by name."""
    if isinstance(found, Mapping) and all(isinstance(name, str) for name in found):
        wrong = [(name, value) for name, value in found.items() if not isinstance(value, Real)]
        if not wrong:
            return
        name, value = wrong[0]
        what = f"“{name}” is a {type(value).__name__}, not a number"
    else:
        what = f"it returned {type(found).__name__}" + ("" if found is None else f" {found!r:.60}")
    raise UserError(
        f"{where(type(layer), 'observe')}: observe: expected a dictionary of numbers by name; {what}",
        key=layer.name,
        hint='for example: return {"mean": float(self.value.mean())}',
    )


def check_settings(cls: type[Any], kind: str) -> None:
    """Refuse a class that names its settings in brackets, or has them in its file, and does not assign them."""
    base = Settings if kind == "learner" else LayerConfig
    own = [one for one in cls.__mro__ if of_user(one)]
    if any("Config" in vars(one) for one in own):
        return
    named = [one for owner in own for generic in getattr(owner, "__orig_bases__", ()) for one in get_args(generic)]
    named = [one for one in named if isinstance(one, type) and one is not cls.Config]
    beside = [
        value
        for value in vars(sys.modules[cls.__module__]).values()
        if isinstance(value, type) and issubclass(value, base) and of_user(value)
    ]
    if named or beside:
        config = (named or beside)[0].__name__
        what = f"{where(cls)}: class {cls.__name__} has no Config, so it does not know the settings of {config}"
        raise UserError(
            what, key="use" if kind == "protocol" else kind, hint=f"add this line to the class: Config = {config}"
        )


def _check_method(cls: type[Protocol[Any]], name: str) -> None:
    above = next((base for base in cls.__mro__[1:] if name in vars(base)), None)
    if above is None:
        meant = closest(name, _hooks(cls))
        if meant is not None and not _overridden(cls, meant):
            what = f"{where(cls, name)}: golfsim never calls “{name}”"
            raise UserError(what, key="use", hint=f"did you mean “{meant}”? A helper's name should begin with “_”")
        return
    wanted, got = (len(inspect.signature(getattr(owner, name)).parameters) for owner in (above, cls))
    if inspect.isfunction(vars(above)[name]) and got < wanted and not _any_number(getattr(cls, name)):
        arguments = ", ".join(inspect.signature(getattr(above, name)).parameters)
        what = f"{where(cls, name)}: {name} takes too few arguments"
        raise UserError(what, key="use", hint=f"expected {name}({arguments})")


def _hooks(cls: type[Protocol[Any]]) -> list[str]:
    """Return the methods that golfsim calls and that a class may override."""
    names = {name for base in cls.__mro__ if not of_user(base) for name in vars(base)}
    return [name for name in names if not name.startswith("_") and callable(getattr(cls, name))]


def _overridden(cls: type[Protocol[Any]], name: str) -> bool:
    return any(name in vars(base) for base in cls.__mro__ if of_user(base))


def _any_number(function: Any) -> bool:
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds


def of_user(cls: type[Any]) -> bool:
    """Return whether a class is the user's: that of a protocol file, of a module next to it, or of another package."""
    return cls.__module__.partition(".")[0] not in OURS


def where(cls: type[Any], method: str = "", attribute: str = "") -> str:
    """Return file and line of a class, of a method, or of the first assignment to an attribute."""
    file = Path(inspect.getfile(cls))
    line = next(_lines(file, cls.__name__, method, attribute), None)
    return f"{file}:{line}" if line else str(file)


def _lines(file: Path, name: str, method: str, attribute: str) -> Iterator[int]:
    for found in ast.walk(_tree(file)):
        if isinstance(found, ast.ClassDef) and found.name == name:
            for node in ast.walk(found):
                if method and isinstance(node, ast.FunctionDef) and node.name == method:
                    yield node.lineno
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == attribute:
                    yield node.lineno
            yield found.lineno


def _random(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import) and any(alias.name in RANDOM for alias in node.names):
            yield node.lineno, "the module random"
        if isinstance(node, ast.ImportFrom) and node.module in RANDOM:
            yield node.lineno, node.module or ""
        if isinstance(node, ast.Attribute) and ast.unparse(node) in RANDOM:
            yield node.lineno, ast.unparse(node)


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _tree(file: Path) -> ast.Module:
    try:
        return _parsed(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ast.Module([], [])
