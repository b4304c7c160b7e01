"""Provide vectors with a fixed number of lanes, and hints for the cache of the processor.

The order of a sum determines its last bits. A compiler that is free to choose the order uses as many lanes as the
registers of the processor have, so the bits would depend on the processor. Here the code fixes the number of lanes:
each lane adds its items in ascending order, and lanes are added in halves. A processor with shorter registers uses
several of them for a vector, with the same bits. Only `fused` rounds a product and a sum together.

Kernels use a vector like a number: `s = fused(load(a, i, f, 8), load(b, j, f, 8), s)`. Without compilation a vector is
a small numpy array, and the same lines give the same bits.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import intrinsic, models, register_model

from golfsim.core.kernels import inlined

LINE = 64  # bytes of a cache line


class Lanes(types.Type):
    """The type of a vector of numbers, for the compiler."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes({dtype}, {count})")

    @property
    def vector(self) -> Any:
        """The vector type of LLVM."""
        return ir.VectorType({types.float32: ir.FloatType(), types.float64: ir.DoubleType()}[self.dtype], self.count)


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """The data model of a vector: one LLVM value."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, lanes.vector)


def _pointer(context: Any, builder: Any, kinds: Any, arguments: Any, lanes: int = 0) -> Any:
    """Return the address of array[row, column], or of array[column] for a one-dimensional array.

    Kernels that check indices (`golfsim.core.bounds`) check those of the lanes that begin there.
    """
    kind = kinds[0]
    view = context.make_array(kind)(context, builder, arguments[0])
    place = [context.cast(builder, arguments[k], kinds[k], types.intp) for k in (1, 2)]
    place = place[-kind.ndim :]
    if lanes and context.enable_boundscheck:
        sizes = cgutils.unpack_tuple(builder, view.shape, kind.ndim)
        last = builder.add(place[-1], context.get_constant(types.intp, lanes - 1))
        for axis, index in [*enumerate(place), (kind.ndim - 1, last)]:
            cgutils.do_boundscheck(context, builder, index, sizes[axis], axis)
    return cgutils.get_item_pointer(context, builder, kind, view, place, wraparound=False)


@intrinsic(prefer_literal=True)
def _load(typingctx: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    """Return array[row, column : column + lanes] as a vector; `lanes` is a literal."""
    found = Lanes(array.dtype, lanes.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments, found.count)
        place = builder.bitcast(pointer, found.vector.as_pointer())
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return found(array, row, column, lanes), codegen


@intrinsic(prefer_literal=True)
def _load_as(typingctx: Any, like: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    """Return array[row, column : column + lanes] as a vector of the type of another array's numbers."""
    read, found = (Lanes(kind.dtype, lanes.literal_value) for kind in (array, like))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[1:], arguments[1:], read.count)
        place = builder.bitcast(pointer, read.vector.as_pointer())
        values = builder.load(place, align=array.dtype.bitwidth // 8)
        return values if read == found else builder.fpext(values, found.vector)

    return found(like, array, row, column, lanes), codegen


@intrinsic(prefer_literal=True)
def _zeros(typingctx: Any, array: Any, lanes: Any) -> Any:
    """Return a vector of zeros of the type of an array's numbers."""
    found = Lanes(array.dtype, lanes.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(found.vector, [0.0] * found.count)

    return found(array, lanes), codegen


@intrinsic
def _fused(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a·b + c, rounded once (IEEE 754's fusedMultiplyAdd), of numbers or vectors of one type."""
    vector = isinstance(a, Lanes)
    kind = a.dtype if vector else a

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name = f"v{a.count}f{kind.bitwidth}" if vector else f"f{kind.bitwidth}"
        shape = ir.FunctionType(arguments[0].type, [argument.type for argument in arguments])
        call = cgutils.get_or_insert_function(builder.module, shape, f"llvm.fma.{name}")
        return builder.call(call, arguments)

    return a(a, a, a), codegen


def _add_halves(builder: Any, vector: Any, count: int) -> Any:
    half = count // 2
    places = ir.VectorType(ir.IntType(32), half)
    lower, upper = (ir.Constant(places, list(range(first, first + half))) for first in (0, half))
    return builder.fadd(*(builder.shuffle_vector(vector, vector, part) for part in (lower, upper)))


@intrinsic
def _halved(typingctx: Any, lanes: Any) -> Any:
    """Add the second half of the lanes of a vector to the first half."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _add_halves(builder, arguments[0], lanes.count)

    return Lanes(lanes.dtype, lanes.count // 2)(lanes), codegen


@intrinsic
def _total(typingctx: Any, lanes: Any) -> Any:
    """Add the lanes of a vector in halves."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (rest,), count = arguments, lanes.count
        while count > 1:
            rest, count = _add_halves(builder, rest, count), count // 2
        return builder.extract_element(rest, ir.IntType(32)(0))

    return lanes.dtype(lanes), codegen


@intrinsic(prefer_literal=True)
def _spread(typingctx: Any, value: Any, lanes: Any) -> Any:
    """Return a vector with the same number in every lane."""
    found = Lanes(value, lanes.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(found.vector, ir.Undefined)
        first = builder.insert_element(nothing, arguments[0], ir.IntType(32)(0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), found.count), [0] * found.count)
        return builder.shuffle_vector(first, nothing, places)

    return found(value, lanes), codegen


@intrinsic
def _store(typingctx: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    """Write a vector to array[row, column : column + lanes]."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments, lanes.count)
        place = builder.bitcast(pointer, lanes.vector.as_pointer())
        builder.store(arguments[3], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, row, column, lanes), codegen


@intrinsic
def _prefetch(typingctx: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask the processor to load array[row, column] into its cache."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        whole = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [pointer.type, whole, whole, whole])
        call = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(call, [pointer, whole(0), whole(3), whole(1)])
        return context.get_dummy_value()

    return types.void(array, row, column), codegen


@intrinsic(prefer_literal=True)
def _equal(typingctx: Any, array: Any, row: Any, value: Any, lanes: Any) -> Any:
    """Set bit k of the result where number k of a row of 32-bit integers equals a value, for the first `lanes`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, zero = ir.IntType(32), context.get_constant(types.intp, 0)
        begin = [arguments[0], arguments[1], zero]
        pointer = _pointer(context, builder, (*signature.args[:2], types.intp), begin)
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

    def load(array: Any, row: int, column: int, lanes: int) -> Any:
        """Return array[row, column : column + lanes] as a vector."""
        return (array if array.ndim == 1 else array[row])[column : column + lanes]

    def load_as(like: Any, array: Any, row: int, column: int, lanes: int) -> Any:
        """Return array[row, column : column + lanes] as a vector of the type of another array's numbers."""
        return load(array, row, column, lanes).astype(like.dtype)

    def zeros(array: Any, lanes: int) -> Any:
        """Return a vector of zeros of the type of an array's numbers."""
        return np.zeros(lanes, array.dtype)

    def spread(value: Any, lanes: int) -> Any:
        """Return a vector with the same number in every lane."""
        return np.full(lanes, value)

    def store(array: Any, row: int, column: int, lanes: Any) -> None:
        """Write a vector to array[row, column : column + lanes]."""
        (array if array.ndim == 1 else array[row])[column : column + lanes.size] = lanes

    def fused(a: Any, b: Any, c: Any) -> Any:
        """Return a·b + c; only compiled code rounds it once."""
        return a * b + c

    def halved(lanes: Any) -> Any:
        """Add the second half of the lanes of a vector to the first half."""
        return lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]

    def total(lanes: Any) -> Any:
        """Add the lanes of a vector in halves."""
        while lanes.size > 1:
            lanes = halved(lanes)
        return lanes[0]

    def prefetch(array: Any, row: int) -> None:
        """Do nothing: without compilation, prefetching has no use."""

    prefetch_item = prefetch_start = prefetch

    def equal_32(array: Any, row: int, value: int) -> int:
        """Return a number whose bit k is set if number k of a row equals a value."""
        return sum(1 << k for k, number in enumerate(array[row].tolist()) if number == value)

    equal_64 = equal_32

    def lowest_bit(word: int) -> int:
        """Return the number of the lowest bit of a word that is set."""
        return (int(word) & -int(word)).bit_length() - 1

else:
    load, load_as, zeros, spread, store = _load, _load_as, _zeros, _spread, _store
    fused, halved, total = _fused, _halved, _total

    @inlined
    def prefetch(array, row):
        """Ask the processor to load a row into its cache; no value changes."""
        step = LINE // array.itemsize
        for column in range(0, array.shape[1], step):
            _prefetch(array, row, column)
        _prefetch(array, row, array.shape[1] - 1)

    @inlined
    def prefetch_item(array, item):
        """Ask the processor to load an item of a one-dimensional array into its cache."""
        _prefetch(array, 0, item)

    @inlined
    def prefetch_start(array, row):
        """Ask the processor to load the beginning of a row into its cache."""
        _prefetch(array, row, 0)

    @inlined
    def equal_32(array, row, value):
        """Return a number whose bit k is set if number k of a row of 32 numbers equals a value."""
        return _equal(array, row, value, 32)

    @inlined
    def equal_64(array, row, value):
        """Return a number whose bit k is set if number k of a row of 64 numbers equals a value."""
        return _equal(array, row, value, 64)

    @inlined
    def lowest_bit(word):
        """Return the number of the lowest bit of a word that is set."""
        return np.int64(trailing_zeros(word))


@inlined
def dot(a, i, b, j):
    """Return the scalar product of row i of a and row j of b."""
    return dot_between(a, i, b, j, 0, a.shape[1])


@inlined
def dot_between(a, i, b, j, lo, hi):
    """Return the scalar product of items lo … hi−1 of two rows, in the precision of a.

    The sum starts with sixteen lanes. When fewer items than lanes are left, the lanes are added in halves. After each
    halving, one more vector of items is added if enough items are left.

    Parameters
    ----------
    a : array of float32 or float64, one- or two-dimensional
        The first array; its type is that of the result.
    i : int
        The row of a; not used if a is one-dimensional.
    b : array of float32 or float64, one- or two-dimensional
        The second array, not more precise than a.
    j : int
        The row of b; not used if b is one-dimensional.
    lo, hi : int
        The range of items.
    """
    return dot_at(a, i, lo, b, j, lo, hi - lo)


@inlined
def dot_at(a, i, p, b, j, q, size):
    """Return the scalar product of `size` items of two rows, from place p and from place q on.

    Parameters
    ----------
    a : array of float32 or float64, one- or two-dimensional
        The first array; its type is that of the result.
    i, p : int
        The row of a, which is not used if a is one-dimensional, and the place of the first item.
    b : array of float32 or float64, one- or two-dimensional
        The second array, not more precise than a.
    j, q : int
        The row of b, which is not used if b is one-dimensional, and the place of the first item.
    size : int
        The number of items.
    """
    hi, shift = p + size, q - p
    sixteen, f = zeros(a, 16), p
    while f + 16 <= hi:
        sixteen = fused(load(a, i, f, 16), load_as(a, b, j, f + shift, 16), sixteen)
        f += 16
    eight = halved(sixteen)
    if f + 8 <= hi:
        eight = fused(load(a, i, f, 8), load_as(a, b, j, f + shift, 8), eight)
        f += 8
    four = halved(eight)
    if f + 4 <= hi:
        four = fused(load(a, i, f, 4), load_as(a, b, j, f + shift, 4), four)
        f += 4
    return finish(four, a, i, b, j, f, hi, shift)


@inlined
def finish(four, a, i, b, j, f, hi, shift):
    """Finish a scalar product: add the lanes of `four` and the remaining items f … hi−1, of which there are at most 3.

    Parameters
    ----------
    four : vector of four lanes
        The sum over the items before f.
    a, b : arrays of float32 or float64, one- or two-dimensional
        The arrays.
    i, j : int
        The rows of a and b.
    f, hi : int
        The range of the remaining items of a.
    shift : int
        The place of an item of b minus that of the item of a.
    """
    two = halved(four)
    if f + 2 <= hi:
        two = fused(load(a, i, f, 2), load_as(a, b, j, f + shift, 2), two)
        f += 2
    one = halved(two)
    if f < hi:
        one = fused(load(a, i, f, 1), load_as(a, b, j, f + shift, 1), one)
    return total(one)
