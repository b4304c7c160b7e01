"""Find the class of a protocol by the name in a scenario: an installed one, or one in a file of the user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import metadata, util
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from golfsim.core.errors import UserError, nearest
from golfsim.core.kernels import USERS
from golfsim.core.paths import is_file
from golfsim.protocol.base import Protocol
from golfsim.protocol.checking import check_class

T = TypeVar("T")


@cache
def installed() -> dict[str, metadata.EntryPoint]:
    """Return the protocols that installed packages provide, by name."""
    found = sorted(metadata.entry_points(group="golfsim.protocols"), key=lambda point: point.name)
    return {point.name: point for point in found}


def find(use: str, folder: Path, allow_code: bool = False) -> type[Protocol[Any]]:
    """Return the class for a scenario's `use`: an installed protocol, or ``file.py:Class`` next to the scenario.

    Loading a file executes it. So only files in the folder of the scenario or below are loaded, unless `allow_code`.
    """
    if ":" in use:
        found = class_in_file(use, folder, allow_code, Protocol, "use")
        check_class(found)
        return found
    if use not in installed():
        raise UserError(
            f"there is no protocol “{use}”", key="use", hint=nearest(use, list(installed())) or "golfsim list protocols"
        )
    return installed()[use].load()  # type: ignore[no-any-return]


def code_file(use: str, folder: Path) -> Path | None:
    """Return the user's file that `use` names, with links resolved; None for an installed protocol."""
    return (folder / use.rpartition(":")[0]).resolve() if ":" in use else None


def class_in_file(
    use: str,
    folder: Path,
    allow_code: bool,
    base: type[T],
    key: str,
    also: Callable[[type[Any]], bool] = lambda cls: False,
) -> type[T]:
    """Return the class that ``file.py:Class`` names.

    Parameters
    ----------
    use : str
        The name.
    folder : Path
        The folder of the scenario, where the path of the file begins.
    allow_code : bool
        Whether a file outside the folder may be loaded.
    base : type
        What the class must be a subclass of.
    key : str
        The setting that names the class.
    also : function
        Whether a class that is no such subclass is accepted.
    """
    path, name = code_file(use, folder), use.rpartition(":")[2]
    assert path is not None
    if not (allow_code or path.is_relative_to(folder.resolve())):
        raise UserError(
            f"{path} is outside the folder of the scenario, and loading it executes it",
            key=key,
            hint="move it next to the scenario file or, if you trust it, use --allow-code (in Python: allow_code=True)",
        )
    if not is_file(path):
        raise UserError(f"there is no file {path}", key=key, hint="the path is relative to the scenario file")
    module = _module(path, _version(path), key)
    found = getattr(module, name, None)
    if not (isinstance(found, type) and (issubclass(found, base) or also(found))):
        classes = [n for n, v in vars(module).items() if isinstance(v, type) and (issubclass(v, base) or also(v))]
        kind = "protocol" if base is Protocol else "learner"
        raise UserError(f"{path.name} has no {kind} class “{name}”", key=key, hint=nearest(name, classes))
    return found


def _version(path: Path) -> tuple[Any, ...]:
    """Return a value that changes when a file or a Python file next to it changes while the process runs."""
    beside = [(file.name, file.stat()) for file in sorted(path.parent.glob("*.py"))]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in beside)


@cache
def _module(path: Path, version: tuple[Any, ...], key: str) -> ModuleType:
    name = f"{USERS}{path.stem}"
    if getattr(sys.modules.get(name), "__file__", None) == str(path):
        _forget_beside(path)
    spec = util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = _line_in(error, path)
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            hint = 'install it: pip install "golfsim[torch]"'
            raise UserError(f"{path.name}{line} needs PyTorch, which is not installed", key=key, hint=hint) from error
        raise UserError(f"{path.name}{line} fails when loaded: {type(error).__name__}: {error}", key=key) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _forget_beside(path: Path) -> None:
    """Let modules that a changed source imports from its own folder be imported again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and Path(file).parent == path.parent:
            del sys.modules[name]


def _line_in(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = []
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f", line {lines[-1]}" if lines else ""
