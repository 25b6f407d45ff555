"""Eight floats at a time: what kernels need of the processor's vector instructions.

numba leaves it to LLVM to find loops that fit vector instructions, which comes out at a third of
the speed for the loops here. These functions say it outright. On processors with shorter vectors
LLVM splits them.

Arrays must be contiguous; an index counts elements from the array's first, whatever its shape, and
is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

WIDTH = 8
"""Floats in a vector."""

_FLOATS = ir.VectorType(ir.FloatType(), WIDTH)
_INTS = ir.VectorType(ir.IntType(32), WIDTH)
_HALVES = ir.VectorType(ir.IntType(16), WIDTH)
_BYTES = ir.VectorType(ir.IntType(8), WIDTH)
_INDEX = ir.IntType(32)

_LOG2_E = np.float32(1.4426950408889634)
_LEAST_EXPONENT = np.float32(-126.0)
# 2 ** x on [-0.5, 0.5]: Taylor's series, whose error is below 2e-7 there.
_C1, _C2, _C3, _C4, _C5, _C6 = (
    np.float32(0.6931471805599453),
    np.float32(0.2402265069591007),
    np.float32(0.0555041086648216),
    np.float32(0.0096181291076285),
    np.float32(0.0013333558146428),
    np.float32(0.0001540353039338),
)


class _Vector(types.Type):  # type: ignore[misc]
    """The type of a vector inside compiled functions."""


_floats = _Vector("floats8")


class _Ints(types.Type):  # type: ignore[misc]
    """The type of a vector of integers inside compiled functions."""


_ints = _Ints("ints8")


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _FLOATS)


@register_model(_Ints)
class _IntsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _INTS)


@intrinsic
def at(_: Any, array: Any, index: Any) -> Any:
    """Return one element."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature, args))

    return array.dtype(array, index), build


@intrinsic
def put(_: Any, array: Any, index: Any, value: Any) -> Any:
    """Set one element."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = context.cast(builder, args[2], signature.args[2], signature.args[0].dtype)
        builder.store(element, _address(context, builder, signature, args))
        return context.get_dummy_value()

    return types.void(array, index, value), build


@intrinsic
def load(_: Any, array: Any, index: Any) -> Any:
    """Return eight floats from an index on; those of a uint16 array are bfloat16's bits."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature, args)
        if array.dtype != types.uint16:
            return builder.load(builder.bitcast(address, _FLOATS.as_pointer()), align=4)
        halves = builder.load(builder.bitcast(address, _HALVES.as_pointer()), align=2)
        bits = builder.shl(builder.zext(halves, _INTS), ir.Constant(_INTS, [16] * WIDTH))
        return builder.bitcast(bits, _FLOATS)

    return _floats(array, index), build


@intrinsic
def store(_: Any, array: Any, index: Any, value: Any) -> Any:
    """Write eight floats from an index on."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature, args)
        builder.store(args[2], builder.bitcast(address, _FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, index, value), build


@intrinsic
def load_bytes(_: Any, array: Any, index: Any) -> Any:
    """Return eight bytes from an index on, as integers."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature, args)
        loaded = builder.load(builder.bitcast(address, _BYTES.as_pointer()), align=1)
        return builder.zext(loaded, _INTS)

    return _ints(array, index), build


@intrinsic
def bits_of(_: Any, integers: Any, shift: Any, mask: Any) -> Any:
    """Return some bits of each integer as floats: shifted right, then masked."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shift, mask = (
            _spread(builder, context.cast(builder, arg, kind, types.int32), _INTS)
            for arg, kind in zip(args[1:], signature.args[1:], strict=True)
        )
        return builder.sitofp(builder.and_(builder.lshr(args[0], shift), mask), _FLOATS)

    return _floats(integers, shift, mask), build


@intrinsic
def splat(_: Any, value: Any) -> Any:
    """Return eight times the same float."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(
            builder, context.cast(builder, args[0], signature.args[0], types.float32), _FLOATS
        )

    return _floats(value), build


@intrinsic
def fma(_: Any, left: Any, right: Any, addend: Any) -> Any:
    """Return ``left * right + addend``."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return _call(builder, "llvm.fmuladd.v8f32", args)

    return _floats(left, right, addend), build


@intrinsic
def add(_: Any, left: Any, right: Any) -> Any:
    """Return the sum."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.fadd(*args)

    return _floats(left, right), build


@intrinsic
def sub(_: Any, left: Any, right: Any) -> Any:
    """Return the difference."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.fsub(*args)

    return _floats(left, right), build


@intrinsic
def mul(_: Any, left: Any, right: Any) -> Any:
    """Return the product."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.fmul(*args)

    return _floats(left, right), build


@intrinsic
def larger(_: Any, left: Any, right: Any) -> Any:
    """Return the larger of each two."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return _larger(builder, *args)

    return _floats(left, right), build


@intrinsic
def total(_: Any, vector: Any) -> Any:
    """Return the sum of the eight."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return _folded(builder, args[0], builder.fadd)

    return types.float32(vector), build


@intrinsic
def largest(_: Any, vector: Any) -> Any:
    """Return the largest of the eight."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return _folded(builder, args[0], lambda left, right: _larger(builder, left, right))

    return types.float32(vector), build


@intrinsic
def _rounded(_: Any, vector: Any) -> Any:
    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return _call(builder, "llvm.nearbyint.v8f32", args)

    return _floats(vector), build


@intrinsic
def _power_of_two(_: Any, exponents: Any) -> Any:
    """Return ``2 ** x`` for whole numbers from -126 to 127."""

    def build(_: Any, builder: Any, __: Any, args: Any) -> Any:
        biased = builder.add(builder.fptosi(args[0], _INTS), ir.Constant(_INTS, [127] * WIDTH))
        shifted = builder.shl(biased, ir.Constant(_INTS, [23] * WIDTH))
        return builder.bitcast(shifted, _FLOATS)

    return _floats(exponents), build


@njit(cache=True)
def exponential(vector: Any) -> Any:
    """Return ``e ** x`` for numbers of at most 88; what would be below 2 ** -126 is that."""
    exponent = larger(mul(vector, splat(_LOG2_E)), splat(_LEAST_EXPONENT))
    whole = _rounded(exponent)
    part = sub(exponent, whole)
    series = fma(splat(_C6), part, splat(_C5))
    series = fma(series, part, splat(_C4))
    series = fma(series, part, splat(_C3))
    series = fma(series, part, splat(_C2))
    series = fma(series, part, splat(_C1))
    series = fma(series, part, splat(np.float32(1.0)))
    return mul(series, _power_of_two(whole))


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    index = context.cast(builder, args[1], signature.args[1], types.intp)
    return builder.gep(array.data, [index])


def _larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _folded(builder: Any, vector: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine the halves of a vector until one number is left."""
    width = WIDTH
    while width > 1:
        width //= 2
        low, high = (
            builder.shuffle_vector(vector, vector, _places(range(first, first + width)))
            for first in (0, width)
        )
        vector = combine(low, high)
    return builder.extract_element(vector, ir.Constant(_INDEX, 0))


def _spread(builder: Any, value: Any, vector: ir.VectorType) -> Any:
    empty = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(empty, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(single, empty, _places([0] * WIDTH))


def _places(numbers: Iterable[int]) -> Any:
    places = list(numbers)
    return ir.Constant(ir.VectorType(_INDEX, len(places)), places)


def _call(builder: Any, name: str, args: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)
