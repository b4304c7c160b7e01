"""Compile kernels, and choose the folder for compiled code."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numba.core.registry
from numba import types
from numba.core.errors import TypingError

from golfsim.core.errors import UserError
from golfsim.core.files import forget_unused
from golfsim.core.paths import cannot_cache, private, user_cache
from golfsim.core.provenance import ROOTS, WITH_KERNELS, digest_of, sources

CPU = "GOLFSIM_CPU"  # “native”: compile for this processor
DEBUG = "GOLFSIM_DEBUG"  # “1”: kernels check every index
CHECKED = os.environ.get(DEBUG) == "1"
BASELINES = {"x86_64": "x86-64-v3", "AMD64": "x86-64-v3"}  # by machine; other machines use LLVM's “generic”
NEEDED = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")  # what x86-64-v3 adds to x86-64-v2
_warn: Callable[[str], None] = warnings.warn
USERS = "golfsim_user_"  # prefix of the names of modules that a scenario loads from a user's file


def _fix_target() -> str:
    """Compile for the same processor on every machine, and return its LLVM name.

    numba has one compiler per process, which it creates when it compiles the first function. If a program has compiled
    functions before it imports golfsim, the existing compiler remains, which compiles for the processor of the machine.
    """
    wanted, machine = os.environ.get(CPU, ""), platform.machine()
    if wanted not in ("", "native"):
        hint = "set it to “native” to compile for this processor, or unset it"
        raise UserError(f"{CPU} is “{wanted}”, which is not a valid value", hint=hint)
    begun = "_toplevel_target_context" in vars(numba.core.registry.cpu_target)
    there = llvm.get_host_cpu_features()
    old = machine in BASELINES and not all(there.get(feature) for feature in NEEDED)
    if wanted == "native" or begun or old:
        return f"native: {numba.config.CPU_NAME or llvm.get_host_cpu_name()}"
    numba.config.CPU_NAME, numba.config.CPU_FEATURES = BASELINES.get(machine, "generic"), ""
    return str(numba.config.CPU_NAME)


TARGET = _fix_target()  # recorded in run.json
if CHECKED:
    from golfsim.core import bounds

    bounds.install()


# For `numba.extending.overload`: as `inlined`. A function that checks its indices cannot be called without references.
OVERLOADED: dict[str, Any] = {"boundscheck": True} if CHECKED else {"_nrt": False, "forceinline": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a module-level function over arrays and scalars: without GIL, cached on disk, with numpy's division.

    Sums and products are evaluated in the order of the code (see `golfsim.core.simd` for sums in several lanes). So
    results have the same bits on every processor, in every version of the compiler, and wherever a function is inlined.
    """
    return _compiled(function)


def leaf(function: Callable[..., Any]) -> Any:
    """Compile a kernel that allocates no memory and creates no slices, for use inside other kernels.

    It has no reference counts: their atomic operations would prevent overlapping memory accesses of successive events,
    which costs more time than the arithmetic.
    """
    return _compiled(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a leaf that is inlined at each call: for small functions that are called for every event.

    A call passes each array as seven numbers, which costs more than the work on a short row.
    """
    return _compiled(function, _nrt=False, forceinline=True)


@contextmanager
def when_compiling(tell: Callable[[], None], warn: Callable[[str], None] = warnings.warn) -> Iterator[None]:
    """Call `tell` once if a kernel is compiled in this block and not loaded from the disk.

    Call `warn` with a message, once per process, if compiled code cannot be stored on the disk.
    """
    global _warn
    from numba.core import event

    class FirstTime(event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, happened: Any) -> None:
            if not self.told:
                self.told = True
                tell()

        def on_end(self, happened: Any) -> None: ...

    before, _warn = _warn, warn
    try:
        with event.install_listener("numba:compile", FirstTime()):
            yield
    finally:
        _warn = before


def _compiled(function: Callable[..., Any], **more: Any) -> Any:
    users = function.__module__.startswith(USERS)
    folder = cache_folder(Path(function.__code__.co_filename), users)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"} | more
    if CHECKED:
        options = {"nogil": True, "error_model": "numpy", "boundscheck": True}  # an error needs reference counts
    if folder is None:
        return _once_for_all_constants(numba.njit(**options)(function))
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        compiled = numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    _store_if_possible(compiled)
    return _once_for_all_constants(compiled)


def _once_for_all_constants(compiled: Any) -> Any:
    """Let kernels call a function with constants as with any numbers, and return it.

    numba compiles a function that is called with the constant 0 for this constant alone, and once more for numbers. A
    function that needs the constant, e.g. as the place in a tuple of different types, still gets it.
    """
    template = getattr(compiled, "get_call_template", None)  # plain Python, without the compiler, has none
    if template is None:
        return compiled

    def for_any_number(args: Any, keywords: Any) -> Any:
        numbers = tuple(map(types.unliteral, args)), {name: types.unliteral(of) for name, of in keywords.items()}
        try:
            return template(*numbers)
        except TypingError:
            if numbers == (tuple(args), dict(keywords)):
                raise
            return template(args, keywords)

    compiled.get_call_template = for_any_number
    return compiled


def _store_if_possible(compiled: Any) -> None:
    """Let a compiled function be used also if its code cannot be stored, e.g. since the disk is full."""
    stored = getattr(compiled, "_cache", None)  # plain Python, without the compiler, has none
    if stored is None:
        return
    save = stored.save_overload

    def save_overload(*content: Any) -> None:
        try:
            save(*content)
        except OSError as error:
            _warn_once(str(cannot_cache(error)).replace("\n    ", "; "))

    stored.save_overload = save_overload


@cache
def _warn_once(message: str) -> None:
    _warn(f"compiled code is not stored: {message}")


def cache_folder(source: Path, users: bool = False) -> Path | None:
    """Return the folder for the compiled code of a source file, private to the user; None if it cannot be written.

    numba checks only the file that contains a function, but a kernel also contains the kernels that it calls from other
    files. So the name of the folder is a hash of all golfsim sources and, for a user's file, of the Python files in the
    same folder. A golfsim file that is loaded as a user's file is treated as a user's file, since compiled code depends
    on the name of its module.
    """
    ours = not users and any(root in source.parents for root in ROOTS)
    return _folder_for("" if ours else digest_of(sorted(source.parent.glob("*.py"))))


@cache
def _folder_for(beside: str) -> Path | None:
    name = digest_of(sources(WITH_KERNELS)) + beside + ("-checked" if CHECKED else "")
    try:
        new = not (user_cache() / "kernels" / name).is_dir()
        folder = private("kernels", name)  # numba stores and loads pickles there
        if new:
            forget_unused(folder.parent)
        os.utime(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
