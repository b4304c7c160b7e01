"""The one decorator that compiles a kernel, and where compiled code is kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from golfsim.places import private, user_cache

PACKAGE = Path(__file__).parent
ROOTS = (PACKAGE, PACKAGE.parent / "protocols")
UNUSED_DAYS = 30
USERS = "golfsim_user_"  # how the names of modules begin that a scenario names by their file

# A sum may be reordered to fill vector registers; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "nsz", "contract"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a module-level function over arrays and scalars: no GIL, cached on disk, division as in numpy."""
    return _compiled(function)


def leaf(function: Callable[..., Any]) -> Any:
    """Compile a kernel that allocates nothing and makes no slices, for use inside other kernels.

    It does without reference counts: their atomic operations keep the memory accesses of successive events from
    overlapping, which costs more than the arithmetic.
    """
    return _compiled(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a leaf that is put into the place of each call: for what is small and called for every event.

    A call passes each array as seven numbers, which for a short row costs more than the row.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def exact(function: Callable[..., Any]) -> Any:
    """The same, with every sum and product taken as it is written, so that it gives the same bits wherever it is put.

    Where sums may be reordered each copy of a formula may be compiled otherwise; and of the copies that a process has
    loaded the linker takes the first, which is another one when code comes from the disk.
    """
    return _compiled(function, _nrt=False, forceinline=True, fastmath=False)


def _compiled(function: Callable[..., Any], **more: Any) -> Any:
    users = function.__module__.startswith(USERS)
    folder = cache_folder(Path(function.__code__.co_filename), users)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH} | more
    if folder is None:
        return numba.njit(**options)(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before


def cache_folder(source: Path, users: bool = False) -> Path | None:
    """The folder for the compiled code of a source file, private to the user; None where none can be written.

    numba looks only at the file a function stands in, but a kernel also contains the kernels it calls from other
    files. So the folder's name is a hash of all our sources and, for a user's file, of the Python files beside it. A
    file of ours that is loaded as a user's counts as one: what is compiled remembers the name of its module.
    """
    ours = not users and any(root in source.parents for root in ROOTS)
    return _folder_for("" if ours else digest_of(sorted(source.parent.glob("*.py"))))


@cache
def _folder_for(beside: str) -> Path | None:
    sources = [path for root in ROOTS for path in sorted(root.rglob("*.py"))]
    name = digest_of(sources) + beside
    new = not (user_cache() / "kernels" / name).is_dir()
    try:
        folder = private("kernels", name)  # numba keeps pickles there, and loads them
        if new:
            _forget_unused(folder.parent)
        os.utime(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def digest_of(files: Iterable[Path]) -> str:
    """A hash of names and contents of files."""
    digest = hashlib.blake2b(digest_size=12)
    for path in files:
        digest.update(path.name.encode() + b"\0")
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _forget_unused(folder: Path) -> None:
    for old in folder.iterdir():
        if time.time() - old.stat().st_mtime > UNUSED_DAYS * 86400:
            shutil.rmtree(old, ignore_errors=True)


LINE = 64  # bytes of a cache line


@intrinsic
def _prefetch(typingctx: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask the processor to bring array[row, column] into its cache."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        place = [
            context.cast(builder, a, t, types.intp) for a, t in zip(arguments[1:], signature.args[1:], strict=True)
        ]
        pointer = cgutils.get_item_pointer(context, builder, kind, view, place[: kind.ndim], wraparound=False)
        whole = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [pointer.type, whole, whole, whole])
        call = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(call, [pointer, whole(0), whole(3), whole(1)])
        return context.get_dummy_value()

    return types.void(array, row, column), codegen


@intrinsic(prefer_literal=True)
def _equal(typingctx: Any, array: Any, row: Any, value: Any, lanes: Any) -> Any:
    """Which of the first `lanes` numbers of a row of 32-bit integers equal a value, as bits; `lanes` is a literal."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, number = signature.args[0], ir.IntType(32)
        view = context.make_array(kind)(context, builder, arguments[0])
        begin = [
            context.cast(builder, arguments[1], signature.args[1], types.intp),
            context.get_constant(types.intp, 0),
        ]
        pointer = cgutils.get_item_pointer(context, builder, kind, view, begin, wraparound=False)
        vector = ir.VectorType(number, lanes.literal_value)
        found = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)
        nothing = ir.Constant(vector, ir.Undefined)
        wanted = context.cast(builder, arguments[2], signature.args[2], types.int32)
        first = builder.insert_element(nothing, wanted, number(0))
        everywhere = builder.shuffle_vector(first, nothing, ir.Constant(vector, [0] * vector.count))
        bits = builder.bitcast(builder.icmp_signed("==", found, everywhere), ir.IntType(vector.count))
        return bits if vector.count == 64 else builder.zext(bits, ir.IntType(64))

    return types.uint64(array, row, value, lanes), codegen


if numba.config.DISABLE_JIT:

    def prefetch(array: Any, row: int) -> None:
        """Nothing: there is no cache to speak of."""

    prefetch_item = prefetch

    def equal_32(array: Any, row: int, value: int) -> int:
        """Which numbers of a row equal a value, as bits."""
        return sum(1 << k for k, number in enumerate(array[row].tolist()) if number == value)

    equal_64 = equal_32

else:

    @inlined
    def prefetch(array, row):
        """Ask the processor to bring a row into its cache; it changes no value."""
        step = LINE // array.itemsize
        for column in range(0, array.shape[1], step):
            _prefetch(array, row, column)
        _prefetch(array, row, array.shape[1] - 1)

    @inlined
    def prefetch_item(array, item):
        """The same for an item of a one-dimensional array, or the beginning of a row."""
        _prefetch(array, item, 0)

    @inlined
    def equal_32(array, row, value):
        """Which of the 32 numbers of a row equal a value, as bits."""
        return _equal(array, row, value, 32)

    @inlined
    def equal_64(array, row, value):
        """Which of the 64 numbers of a row equal a value, as bits."""
        return _equal(array, row, value, 64)
