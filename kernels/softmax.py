"""SOFTMAX and LOG_SOFTMAX along the last dimension.

All that an integer contributes is a function of how far it lies below its row's greatest value, so
the fixed-point exponentials are tables: of 256 entries for 8 bits, of 65,536 for int16.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ._check import BYTES, arity, gives, scaled, symmetric
from ._elementwise import BLOCK, in_blocks
from ._fixedpoint import exp_on_negative_values, leading_zeros, log_of_q12, reciprocal, times_pot
from ._lower import check, f32, refuse
from ._lut import interpolate, interpolation_points
from ._quant import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from ._register_tiles import lanes_of, shares
from ._rows import row_maxima, row_sums
from ._widen import FLOATS, in_float32
from .api import Bind, Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Kernel, Lowered
from .types import Array, DType

# integer bits of the argument of exp
_BITS = 5


def _infer(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x = node.input(0)
    int16 = () if node.op == "LOG_SOFTMAX" else (DType.INT16,)
    take(node, "input 0", x, *FLOATS, *BYTES, *int16)
    if not x.shape:
        raise OpError(f"{x.name!r} is a scalar; {node.op} takes one dimension or more")
    if x.dtype in FLOATS or x.dtype is DType.INT16 or node.op == "LOG_SOFTMAX":
        gives(node, x.dtype)
    else:
        gives(node, x.dtype, DType.INT16)
    if x.dtype not in FLOATS:
        _check_scales(node)
    return [x.shape]


_LOG_OUTPUTS = {DType.INT8: (16 / 256, 127), DType.UINT8: (16 / 256, 255)}
_OUTPUTS = {
    DType.INT8: (1 / 256, -128),
    DType.UINT8: (1 / 256, 0),
    DType.INT16: (1 / 32768, 0),
}


def _check_scales(node: NodeSpec) -> None:
    x, y = node.input(0), node.outputs[0]
    scaled(node, x)
    if x.dtype is DType.INT16:
        symmetric(node, x, y)
    scale, zero = (_LOG_OUTPUTS if node.op == "LOG_SOFTMAX" else _OUTPUTS)[y.dtype]
    # the output's quantisation is built in; the reference never checked uint8, and 8 to 16 bits
    loose = node.op == "SOFTMAX" and (y.dtype is DType.UINT8 or y.dtype is not x.dtype)
    if not loose and (abs(y.scale / scale - 1) > 1e-3 or y.zero_point != zero):
        raise OpError(
            f"output {y.name!r} has scale {y.scale} and zero point {y.zero_point}; "
            f"{node.op} gives {y.dtype.label} with {scale} and {zero}"
        )


def _in_rows(b: Binding, make: partial[Run], scratch: tuple[type, ...]) -> Run:
    """`make(x, y, *scratch)` for blocks of whole rows, as flat arrays."""
    depth = b.input(0).shape[-1]
    rows = max(1, BLOCK // max(1, depth))
    return in_blocks(b, (b.xi(0), b.y[0]), make, scratch, block=rows * max(1, depth))


# -- floats


def _bind_float(b: Binding) -> Run | None:
    dtype = b.y[0].dtype.type
    rows = partial(_float_rows, b.input(0).shape[-1], float(b.options.beta))
    return _in_rows(b, rows, (dtype, dtype))


def _float_rows(depth: int, beta: float, x: Array, y: Array, work: Array, turned: Array) -> Run:
    source, target = x.reshape(-1, depth), y.reshape(-1, depth)
    row = work[: source.shape[0]]
    column = row.reshape(-1, 1)
    maxima, sums = row_maxima(source, turned, row), row_sums(target, row)
    factor = np.array(beta, y.dtype)

    def run() -> None:
        maxima()
        np.subtract(source, column, out=target)
        if beta != 1:
            np.multiply(y, factor, out=y)
        np.exp(y, out=y)
        sums()
        np.divide(target, column, out=target)

    return run


def _bind_log_float(b: Binding) -> Run | None:
    dtype = b.y[0].dtype.type
    return _in_rows(b, partial(_log_float_rows, b.input(0).shape[-1]), (dtype, dtype))


def _log_float_rows(depth: int, x: Array, y: Array, work: Array, powers: Array) -> Run:
    source, target = x.reshape(-1, depth), y.reshape(-1, depth)
    row = work[: source.shape[0]]
    column = row.reshape(-1, 1)
    maxima, sums = row_maxima(source, powers, row), row_sums(powers.reshape(-1, depth), row)

    def run() -> None:
        maxima()
        np.subtract(source, column, out=target)
        np.exp(y, out=powers)
        sums()
        np.log(row, out=row)
        np.subtract(target, column, out=target)

    return run


# -- 8 bits


def _scaled_differences(scale: float, beta: float) -> tuple[Array, int, int, int]:
    """How far below the row's maximum, 0 to 255, in Q(5); how many of them count; q and shift."""
    real = min(beta * scale * (1 << (31 - _BITS)), (1 << 31) - 1.0)
    q, shift = quantize_multiplier(real)
    if shift < 0 or (q == 0 and beta > 0):
        raise OpError(f"input scale {scale} times beta {beta} is below 2^-26; SOFTMAX takes more")
    radius = ((1 << _BITS) - 1) * (1 << (31 - _BITS)) // (1 << shift)
    below = -np.arange(256, dtype=np.int64)
    counted = np.where(below >= -radius, below, 0)
    return saturating_rounding_doubling_high_mul(counted << shift, q), min(radius, 255), q, shift


def _powers(scale: float, beta: float) -> tuple[Array, Array]:
    """Of all distances below the row's maximum: the exponential, and what is summed (float64)."""
    scaled_down, radius, _, _ = _scaled_differences(scale, beta)
    powers = exp_on_negative_values(scaled_down, _BITS)
    powers[radius + 1 :] = 0
    return powers, times_pot(powers, -12).astype(np.float64)


def _bind_bytes(b: Binding) -> Run | None:
    def make() -> tuple[Array, Array]:
        return _powers(b.input(0).scale, float(b.options.beta))

    powers, summands = b.once("tables", make)
    rows = partial(_byte_rows, b.input(0).shape[-1], powers, summands, b.outputs[0].dtype)
    return _in_rows(b, rows, (np.uint8, np.int64, np.uint8))


class _Rows:
    """What integer rows have in common: how far each element lies below its row's maximum."""

    def __init__(self, depth: int, x: Array, below: Array, work: Array, turned: Array) -> None:
        source = x.reshape(-1, depth)
        unsigned = f"u{x.itemsize}"
        self.most = np.empty(source.shape[0], x.dtype)
        self._maxima = row_maxima(source, turned.view(x.dtype), self.most)
        # the difference always fits the unsigned type, whatever the signs
        self._bits = source.view(unsigned)
        self._most = self.most.reshape(-1, 1).view(unsigned)
        self._index = below.reshape(-1, depth)
        self._below = below
        self._work = work
        self.matrix = work.reshape(-1, depth)
        self._powers = work.view(np.float64)
        self._total = np.empty(source.shape[0], np.float64)
        self._sums = row_sums(self._powers.reshape(-1, depth), self._total)
        self.single = source.shape[0] == 1

    def totals(self, summands: Array) -> Any:
        """Row sums of `summands` (integers in float64) at the distances: [rows, 1], or an int."""
        self._maxima()
        np.subtract(self._most, self._bits, out=self._index)
        summands.take(self._below, out=self._powers, mode="wrap")
        self._sums()
        return int(self._total[0]) if self.single else self._total.astype(np.int64).reshape(-1, 1)

    def look_up(self, table: Array) -> None:
        """Into `matrix`: `table` at the distances."""
        table.take(self._below, out=self._work, mode="wrap")


def _byte_rows(
    depth: int,
    powers: Array,
    summands: Array,
    dtype: DType,
    x: Array,
    y: Array,
    below: Array,
    work: Array,
    turned: Array,
) -> Run:
    rows = _Rows(depth, x, below, work, turned)
    target, stored = rows.matrix, y.view(f"u{y.itemsize}")
    bottom, top, one = np.array(0), np.array((1 << dtype.bits) - 1), np.int64(1)
    sign = None if dtype is DType.UINT8 else np.array(1 << (dtype.bits - 1), stored.dtype)

    def run() -> None:
        inverse, over_unit = reciprocal(rows.totals(summands), 12)
        # sums too great for any result above 0 would shift too far
        exponent = np.minimum(over_unit + 31 - dtype.bits, 32)
        rows.look_up(powers)
        # two roundings in one, as floor((floor(u) + n) / m) = floor((u + n) / m)
        np.multiply(target, inverse, out=target)
        np.add(target, (1 << 30) + (one << (exponent + 30)), out=target)
        np.right_shift(target, exponent + 31, out=target)
        work.clip(bottom, top, work)
        np.copyto(stored, work, casting="unsafe")
        if sign is not None:
            np.bitwise_xor(stored, sign, out=stored)

    return run


def _bind_log_bytes(b: Binding) -> Run | None:
    def make() -> tuple[Array, Array, int, int, int]:
        scaled_down, radius, q, shift = _scaled_differences(b.input(0).scale, 1.0)
        summands = times_pot(exp_on_negative_values(scaled_down, _BITS), -12)
        summands[radius + 1 :] = 0
        # all 256 differences this time: the second threshold is another one
        differences = multiply_by_quantized_multiplier(-np.arange(256), q, shift)
        back = quantize_multiplier((1 << (31 - shift)) / q)
        return summands.astype(np.float64), differences, radius, *back

    rows = partial(_log_byte_rows, b.input(0).shape[-1], b.once("tables", make), b.outputs[0].dtype)
    return _in_rows(b, rows, (np.uint8, np.int64, np.uint8))


def _log_byte_rows(
    depth: int,
    tables: tuple[Array, Array, int, int, int],
    dtype: DType,
    x: Array,
    y: Array,
    below: Array,
    work: Array,
    turned: Array,
) -> Run:
    summands, differences, radius, q, shift = tables
    rows = _Rows(depth, x, below, work, turned)
    target, index, stored = rows.matrix, below.reshape(-1, depth), y.reshape(-1, depth)
    low, high = dtype.range()

    def run() -> None:
        log_sum = log_of_q12(np.asarray(rows.totals(summands)))
        least = multiply_by_quantized_multiplier(log_sum - (1 << 31), q, shift)
        threshold = np.maximum(-radius - 1, least)
        rows.look_up(differences)
        result = rounding_divide_by_pot(target - log_sum, 31 - _BITS - 4) + high
        np.clip(result, low, high, out=result)
        np.copyto(result, low, where=index >= -threshold)
        np.copyto(stored, result, casting="unsafe")

    return run


# -- int16


def _bind_int16(b: Binding) -> Run | None:
    def make() -> tuple[Array, Array, Array]:
        span = np.float64(65535)
        ratio = float(np.float32(b.input(0).scale) * np.float32(b.options.beta)) / (10.0 / 65535.0)
        exponential = interpolate(interpolation_points(np.exp, 10 / span, 32767, 2 / span, 0))
        below = -np.arange(65536, dtype=np.int64)
        at = multiply_by_quantized_multiplier(below, *quantize_multiplier(ratio)) + 32767
        powers = exponential[np.clip(at, -32768, 32767).astype(np.int16).view(np.uint16)]
        inverse = interpolate(
            interpolation_points(lambda v: 1 / (1 + v), 1 / span, -32768, 2 / span, 0)
        )
        return powers.astype(np.int64), powers.astype(np.float64), inverse.astype(np.int64)

    rows = partial(_int16_rows, b.input(0).shape[-1], b.once("tables", make))
    return _in_rows(b, rows, (np.uint16, np.int64, np.uint16))


def _int16_rows(
    depth: int,
    tables: tuple[Array, Array, Array],
    x: Array,
    y: Array,
    below: Array,
    work: Array,
    turned: Array,
) -> Run:
    powers, summands, inverses = tables
    rows = _Rows(depth, x, below, work, turned)
    target = rows.matrix

    def run() -> None:
        total = np.asarray(rows.totals(summands))
        leading = leading_zeros(total)
        normal = ((total << (leading - 1)) + (1 << 13)) >> 14
        at = np.clip(normal - (3 << 15), -32768, 32767).astype(np.int16)
        right = 31 - leading
        rows.look_up(powers)
        np.multiply(target, inverses[at.view(np.uint16)], out=target)
        np.add(target, (1 << right) >> 1, out=target)
        np.right_shift(target, right, out=target)
        np.clip(work, 0, 32767, out=work)
        np.copyto(y, work, casting="unsafe")

    return run


def _bind(b: Binding) -> Run | None:
    if b.input(0).dtype is DType.INT16:
        return _bind_int16(b)
    return _bind_bytes(b) if b.input(0).dtype in BYTES else _bind_float(b)


def _bind_log(b: Binding) -> Run | None:
    return _bind_log_bytes(b) if b.input(0).dtype in BYTES else _bind_log_float(b)


_softmax: Bind = in_float32(_bind)
_log_softmax: Bind = in_float32(_bind_log)


# values in a row that a work-item of a CPU keeps at hand, and in all rows of its share
_LONGEST, _ON_CPU = 8192, 1 << 14


def _lower(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    depth = x.shape[-1]
    rows = x.size // max(depth, 1)
    logarithm = node.op == "LOG_SOFTMAX"
    defines: dict[str, object] = {"ROWS": rows, "DEPTH": depth}
    if x.dtype in FLOATS:
        if x.dtype is DType.FLOAT64:
            refuse("DTYPE", f"{x.name!r} of float64", "other floats")
        beta = 1.0 if logarithm else float(node.options.beta)
        defines.update(BETA=f32(beta), LOGARITHM=int(logarithm))
        if capability.kind == "gpu" or x.dtype is not DType.FLOAT32 or not 4 <= depth <= _LONGEST:
            return Lowered([Kernel("softmax", (0,), (rows,), defines)])
        block = -(-rows // (4 * capability.compute_units))
        block = max(1, min(block, _ON_CPU // depth), min(rows, 256 // depth))
        lanes = next(n for n in (16, 8, 4) if n <= min(depth, lanes_of(capability)) or n == 4)
        defines.update(BLOCK=block, VW=lanes)
        return Lowered([Kernel("softmax_cpu", (0,), (-(-rows // block),), defines)])
    if logarithm or x.dtype is DType.INT16:
        refuse("DTYPE", f"{node.op} of {x.dtype.label}", "SOFTMAX of 8 bits, and floats")
    powers, summands = _powers(x.scale, float(node.options.beta))
    sign = 0 if y.dtype is DType.UINT8 else 1 << (y.dtype.bits - 1)
    defines.update(BITS=y.dtype.bits, TOP=(1 << y.dtype.bits) - 1, SIGN=sign)
    reads = (0, powers.astype(np.int32), summands.astype(np.int32))
    # about 10 cycles for a value, and 100 for a row
    wanted = shares(capability, rows * (10 * depth + 100)) if capability.kind == "cpu" else rows
    each = defines["EACH"] = -(-max(rows, 1) // max(wanted, 1))
    grid = (-(-rows // each),)
    return Lowered([Kernel("softmax_fixed", reads, grid, defines, uses=("reciprocal",))])


OPS: Mapping[str, Registration] = {
    "SOFTMAX": op("SOFTMAX", _infer, _softmax, versions=(1, 4), inplace=(0,), lower=_lower),
    "LOG_SOFTMAX": op(
        "LOG_SOFTMAX", _infer, _log_softmax, versions=(1, 2), inplace=(0,), lower=_lower
    ),
}
