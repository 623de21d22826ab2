"""Ops on 8-bit and 16-bit integers as tables: the arithmetic is done once for each value.

A table is indexed by the bit pattern of its input taken as unsigned. Source of the int16
interpolation and of the rounding of table entries: TensorFlow Lite's lookup tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .api import Run, TensorSpec
from .types import Array, DType

# below this many bytes a table of byte pairs does not pay
_PAIRS_FROM = 2048


def domain(dtype: DType) -> Array:
    """All values of an 8- or 16-bit type, in the order of their bit patterns, as int64."""
    bits = 8 * dtype.numpy.itemsize
    return np.arange(1 << bits).astype(f"uint{bits}").view(dtype.numpy).astype(np.int64)


def saturate(values: Array, dtype: DType) -> Array:
    """`values` clamped to the range of `dtype`, and of that type."""
    if dtype is DType.BOOL:
        return values.astype(np.bool_)
    low, high = dtype.range()
    return np.asarray(np.clip(values, low, high), dtype.numpy)


def map_values(x: Array, y: Array, table: Array) -> Run:
    """y[i] = table[x[i]]; `x` and `y` are contiguous and may be the same memory."""
    source, target = _unsigned(x), y.reshape(-1)
    if y.itemsize == 1 and source.itemsize == 1 and source.size >= _PAIRS_FROM:
        return _map_pairs(source, _unsigned(y), table.view(np.uint8))
    take = table.take

    def run() -> None:
        # "wrap" is the fastest mode, and no index is out of range
        take(source, out=target, mode="wrap")

    return run


def _map_pairs(source: Array, target: Array, table: Array) -> Run:
    """Two bytes at a time: half the lookups."""
    even = source.size // 2 * 2
    wide = table.astype(np.uint16)
    pairs = (wide[:, None] << 8 | wide[None, :]).reshape(-1)
    take, pairs_in, pairs_out = pairs.take, source[:even].view("u2"), target[:even].view("u2")
    if even == source.size:

        def run() -> None:
            take(pairs_in, out=pairs_out, mode="wrap")

        return run
    last_in, last_out = source[even:], target[even:]

    def run_odd() -> None:
        take(pairs_in, out=pairs_out, mode="wrap")
        table.take(last_in, out=last_out, mode="wrap")

    return run_odd


def map_pairs_of_values(x0: Array, x1: Array, y: Array, index: Array, table: Array) -> Run:
    """y = table[x0, x1] for 8-bit inputs that broadcast to y; `index` is uint16 scratch like y."""
    high, low = x0.view(np.uint8), x1.view(np.uint8)
    take, flat_index, flat_y = table.reshape(-1).take, index.reshape(-1), y.reshape(-1)
    eight = np.array(8, np.uint16)

    def run() -> None:
        np.left_shift(high, eight, out=index, dtype=np.uint16)
        np.bitwise_or(index, low, out=index)
        take(flat_index, out=flat_y, mode="wrap")

    return run


def _unsigned(x: Array) -> Array:
    return x.reshape(-1).view(f"u{x.itemsize}")


def table_of(function: Callable[[Array], Array], x: TensorSpec, y: TensorSpec) -> Array:
    """Table of a real function between quantised tensors of one 8- or 16-bit type.

    `function` takes and returns float32. 8-bit tables hold it at every value; 16-bit ones are
    interpolated between 513 points, as the reference does.
    """
    with np.errstate(all="ignore"):
        return _table_of(function, x, y)


def _table_of(function: Callable[[Array], Array], x: TensorSpec, y: TensorSpec) -> Array:
    if x.dtype in (DType.INT16, DType.UINT16):
        points = interpolation_points(
            function, np.float32(x.scale), x.zero_point, np.float32(y.scale), y.zero_point
        )
        return interpolate(points)
    real = np.float32(x.scale) * (domain(x.dtype) - x.zero_point).astype(np.float32)
    inverse = np.float32(1) / np.float32(y.scale)
    rounded = round_half_away(function(real) * inverse)
    low, high = -(2.0**31), 2.0**31 - 1  # C's conversion to int32 is undefined beyond
    stored = np.clip((rounded + np.float32(y.zero_point)).astype(np.float64), low, high)
    return saturate(np.trunc(stored).astype(np.int64), y.dtype)


def round_half_away(values: Array) -> Array:
    """C's round: halves away from zero."""
    whole = np.trunc(values)
    return np.asarray(whole + (np.abs(values - whole) >= 0.5) * np.sign(values), values.dtype)


def interpolation_points(
    function: Callable[[Array], Array],
    x_scale: np.floating,
    x_zero: int,
    y_scale: np.floating,
    y_zero: int,
) -> Array:
    """The 513 points of an int16 table, each less half the error in the middle of its step."""
    real = type(x_scale)
    steps = 512
    low, high = x_scale * real(-32768 - x_zero), x_scale * real(32767 - x_zero)
    step = (high - low) / real(steps)
    half = step / real(2)
    inverse = real(65536) / (y_scale * real(32767 - y_zero) - y_scale * real(-32768 - y_zero))
    i = np.arange(steps).astype(real)
    value = function(low + i * step)
    middle = function(low + i * step + half)
    following = function(low + (i + real(1)) * step)
    sample = round_half_away(value * inverse)
    interpolated = round_half_away((following * inverse + sample) / real(2))
    bias = round_half_away((interpolated - round_half_away(middle * inverse)) / real(2))
    last = round_half_away(function(np.array([high], real)) * inverse)
    points = np.concatenate([sample - bias, last])
    return np.asarray(np.clip(points, -32768, 32767), np.int16)


def interpolate(points: Array) -> Array:
    """The whole int16 table (65,536 entries) of 513 points."""
    x = domain(DType.INT16)
    index = 256 + (x >> 7)
    base = points.astype(np.int64)
    slope = (base[index + 1] - base[index]).astype(np.int16).astype(np.int64)
    return np.asarray(base[index] + ((slope * (x & 0x7F) + 64) >> 7), np.int16)


def exactly(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A float32 function computed in float64 and rounded once, as a good C library's is."""

    return lambda x: np.asarray(function(x.astype(np.float64)), x.dtype)
