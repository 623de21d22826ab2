"""Two quantised operands: the integer arithmetic of ADD, SUB, MUL, DIV and SQUARED_DIFFERENCE.

Each `quantized_*` settles the multipliers and gives the exact function of two arrays of stored
values (int64) that broadcast. On 8 bits it is evaluated once, on all 65,536 pairs, and is a table
from then on. Source of the formulas: TensorFlow Lite's reference kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ._broadcast import collapse, operands
from ._elementwise import in_blocks, in_parts, spread
from ._fixedpoint import leading_zeros, reciprocal
from ._lower import refuse, through_pairs, through_table
from ._lut import domain, map_pairs_of_values, map_values, saturate
from ._pair_vectors import Ends, Rescaling, in_integers, product_in_floats, sum_in_floats
from ._quant import (
    activation_range,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from .api import Binding, NodeSpec, OpError, Run, TensorSpec
from .device import Capability, Fault, Lowered, Map, Read
from .types import Array, DType

Pair = Callable[[Array, Array], Array]
Function = Callable[[Any], Pair]  # of a `Binding` or a `NodeSpec`


@dataclass(frozen=True)
class Rescaled:
    """clamp(zero point + requantised accumulator), the accumulator being `combine` of what
    `operands` make of each stored value."""

    b: Binding | NodeSpec
    operands: tuple[Rescaling, Rescaling]
    combine: Callable[..., Array]
    q: int
    shift: int

    def __call__(self, v0: Array, v1: Array) -> Array:
        total = self.combine(self.operands[0](v0), self.operands[1](v1))
        if self.shift > 0:
            return _clamped(multiply_by_quantized_multiplier(total, self.q, self.shift), self.b)
        self.finish(total, np.empty_like(total))
        return total

    def finish(self, total: Array, sign: Array) -> None:
        """Accumulators to stored values, in place and without a left shift; `sign` is scratch."""
        spec, right = self.b.outputs[0], -self.shift
        np.multiply(total, self.q, out=total)
        np.add(total, 1 << 30, out=total)
        np.right_shift(total, 31, out=total)
        if right:
            np.right_shift(total, 63, out=sign)
            np.add(total, sign, out=total)
            np.add(total, 1 << (right - 1), out=total)
            np.right_shift(total, right, out=total)
        if spec.zero_point:
            np.add(total, spec.zero_point, out=total)
        total.clip(*self.limits, total)

    @property
    def sign(self) -> str:
        signs: dict[Any, str] = {np.add: "+", np.subtract: "-", np.multiply: "*"}
        return signs[self.combine]

    @property
    def ends(self) -> Ends:
        low, high = (int(v) for v in self.limits)
        return Ends(self.b.outputs[0].zero_point, low, high)

    def vector(self) -> str:
        """As text on vectors of i32; "" where there is none. Uses "int8_cpu"."""
        return in_integers(self.operands, self.sign, self.q, self.shift, self.ends)

    def of_bytes(self, node: NodeSpec, pairs: Array) -> str:
        """The same in floats, where these give `pairs` for all pairs of bytes."""
        x0, x1, y = node.input(0), node.input(1), node.outputs[0]
        if self.sign == "*":
            factor = float(np.ldexp(float(self.q), self.shift - 31))
            return product_in_floats(self.operands, (x0.dtype, x1.dtype), factor, pairs, self.ends)
        return sum_in_floats(x0, x1, y, 1 if self.sign == "+" else -1, pairs, self.ends)

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        low, high = activation_range(_activation(self.b), self.b.outputs[0])
        return np.array(low), np.array(high)


def bind_quantized(b: Binding, function: Pair) -> Run:
    """The callable that applies `function` to both inputs, element by element with broadcasting."""
    x0, x1, y = b.input(0), b.input(1), b.outputs[0]
    if x0.dtype.bits == 8 and x1.dtype.bits == 8:
        return _bind_table(b, function)
    if isinstance(function, Rescaled) and function.shift <= 0:
        return _bind_wide(b, function)
    views, flat = collapse(b.y[0].shape, b.xi(0), b.xi(1))
    target = b.y[0].reshape(flat)

    def part(a0: Array, a1: Array, out: Array) -> Run:
        def run() -> None:
            out[...] = saturate(function(a0.astype(np.int64), a1.astype(np.int64)), y.dtype)

        return run

    return in_parts(b, views, target, part)  # so that the temporaries stay small


def _bind_wide(b: Binding, function: Rescaled) -> Run:
    """int16: each operand through a table, the rest in place."""

    def make() -> list[Array]:
        values = domain(DType.INT16)
        return [part(values).astype(np.int32) for part in function.operands]

    block = partial(_wide_block, function, b.once("tables", make))
    scratch = (np.int32, np.int32, np.int64, np.int64)
    if b.xi(0).shape == b.xi(1).shape:
        return in_blocks(b, (b.xi(0), b.xi(1), b.y[0]), block, scratch, block=1 << 14)
    (a0, a1), flat = collapse(b.y[0].shape, b.xi(0), b.xi(1))
    places = zip(scratch, (0, 1, 2, 2), strict=True)
    return in_parts(b, (a0, a1), b.y[0].reshape(flat), block, [*places], block=1 << 16)


def _wide_block(
    function: Rescaled,
    tables: list[Array],
    x0: Array,
    x1: Array,
    y: Array,
    w0: Array,
    w1: Array,
    total: Array,
    sign: Array,
) -> Run:
    take0, take1 = (t.take for t in tables)
    bits0, bits1 = x0.view(np.uint16), x1.view(np.uint16)

    def run() -> None:
        take0(bits0, out=w0, mode="wrap")
        take1(bits1, out=w1, mode="wrap")
        function.combine(w0, w1, out=total, dtype=np.int64)
        function.finish(total, sign)
        np.copyto(y, total, casting="unsafe")

    return run


def _bind_table(b: Binding, function: Pair) -> Run:
    x0, x1, y = b.input(0), b.input(1), b.outputs[0]

    def unary(values: Array, i: int) -> Array:
        pair = (values, domain(x1.dtype)) if i == 0 else (domain(x0.dtype), values)
        return saturate(function(*pair), y.dtype)

    for i, other in ((0, 1), (1, 0)):
        const = b.input(i).const
        if const is not None and const.size == 1 and b.xi(other).size == b.y[0].size:
            # the other input alone decides
            single = const.reshape(-1).astype(np.int64)
            values = unary(single, i)
            return spread(b, (b.xi(other), b.y[0]), partial(map_values, table=values))

    def make() -> Array:
        pairs = function(domain(x0.dtype)[:, None], domain(x1.dtype)[None, :])
        return saturate(pairs, y.dtype)

    table = b.once("table", make)
    if b.xi(0).shape == b.xi(1).shape:
        blocks = partial(map_pairs_of_values, table=table)
        return in_blocks(b, (b.xi(0), b.xi(1), b.y[0]), blocks, (np.uint16,), block=1 << 15)
    constant = [b.input(i).const is not None for i in (0, 1)]
    (a0, a1), view = operands(b.y[0].shape, [b.xi(0), b.xi(1)], constant, b.y[0])
    blocks = partial(map_pairs_of_values, table=table)
    return in_parts(b, (a0, a1), view, blocks, [(np.uint16, 2)])


def lower_quantized(
    node: NodeSpec, capability: Capability, function: Pair, *faults: Fault
) -> Lowered:
    """The device form of `bind_quantized`: tables, made here, and on CPUs arithmetic on vectors."""
    x0, x1, y = node.input(0), node.input(1), node.outputs[0]
    if x0.dtype.bits == 8 and x1.dtype.bits == 8:
        for i, const in enumerate((x0.const, x1.const)):
            other = node.input(1 - i)
            if const is not None and const.size == 1 and other.size == y.size and not faults:
                values = [domain(x0.dtype), domain(x1.dtype)]
                values[i] = const.reshape(-1).astype(np.int64)
                return through_table(saturate(function(*values), y.dtype), read=1 - i)
        pairs = saturate(function(domain(x0.dtype)[:, None], domain(x1.dtype)[None, :]), y.dtype)
        lowered = through_pairs(pairs, *faults)
        if capability.kind == "gpu" or not isinstance(function, Rescaled):
            return lowered
        (step,) = lowered.steps
        assert isinstance(step, Map)
        vector = function.of_bytes(node, pairs) or function.vector()
        return Lowered([replace(step, vector=vector, uses=("int8_cpu",))])
    if not isinstance(function, Rescaled):
        refuse("QUANT", f"{node.op} on {x0.dtype.label} with these scales", "8 bits")
    sign, stored_values = function.sign, domain(DType.INT16)
    tables = tuple(part(stored_values).astype(np.int32) for part in function.operands)
    total = f"(i64)@0[(u16)$0] {sign} (i64)@1[(u16)$1]"
    low, high = (int(v) for v in function.limits)
    stored = f"rescale({total}, {function.q}, {function.shift}) + {y.zero_point}"
    text = f"clamp_to({stored}, {low}, {high})"
    vector = function.vector() if capability.kind == "cpu" else ""
    uses = ("fixed", "int8_cpu") if vector else ("fixed",)
    return Lowered([Map(text, (Read(0), Read(1)), tables, uses, faults, vector=vector)])


def _clamped(values: Array, b: Binding | NodeSpec) -> Array:
    y = b.outputs[0]
    low, high = activation_range(_activation(b), y)
    return np.asarray(np.clip(values + y.zero_point, low, high))


def _activation(b: Binding | NodeSpec) -> str:
    name: str = b.options.get("fused_activation_function", "NONE")
    return name


def quantized_add(b: Binding | NodeSpec) -> Pair:
    return _sum(b, 1)


def quantized_sub(b: Binding | NodeSpec) -> Pair:
    return _sum(b, -1)


def _sum(b: Binding | NodeSpec, sign: int) -> Pair:
    x0, x1, y = b.input(0), b.input(1), b.outputs[0]
    if y.dtype is DType.INT16 and b.options.get("pot_scale_int16", False):
        logs = [_log2(s) for s in (x0, x1, y)]
        if None not in logs:
            return _sum_of_powers(b, sign, [log for log in logs if log is not None])
    left = 15 if y.dtype is DType.INT16 else 20
    twice = 2 * max(x0.scale, x1.scale)
    rescaled = (_rescaled(x0, left, twice), _rescaled(x1, left, twice))
    q, shift = quantize_multiplier(twice / ((1 << left) * y.scale))

    return Rescaled(b, rescaled, np.add if sign > 0 else np.subtract, q, shift)


def _rescaled(x: TensorSpec, left: int, twice: float) -> Rescaling:
    """An operand on the common scale of both, with `left` more bits."""
    return Rescaling(x.zero_point, left, *quantize_multiplier(x.scale / twice))


def _log2(x: TensorSpec) -> int | None:
    """Exponent of a scale that is a power of two; None where it is none."""
    log = math.log2(x.scale)
    whole = math.floor(log + 0.5)
    return whole if abs(log - whole) < 1e-3 else None


def _sum_of_powers(b: Binding | NodeSpec, sign: int, logs: list[int]) -> Pair:
    """int16 on power-of-two scales: one operand is shifted to the scale of the other."""
    shift0, shift1 = logs[2] - logs[0], logs[2] - logs[1]
    if (shift0 and shift1) or shift0 < 0 or shift1 < 0:
        raise OpError(
            f"scales 2^{logs[0]} and 2^{logs[1]} to 2^{logs[2]}; with pot_scale_int16 one input "
            "must have the output's scale and the other no greater one"
        )

    def run(v0: Array, v1: Array) -> Array:
        total = rounding_divide_by_pot(v0, shift0) + sign * rounding_divide_by_pot(v1, shift1)
        return _clamped(total, b)

    return run


def quantized_mul(b: Binding | NodeSpec) -> Pair:
    x0, x1, y = b.input(0), b.input(1), b.outputs[0]
    if x0.dtype is DType.INT16 and y.dtype is not DType.INT16:
        return _fractions(b)
    product = np.float32(x0.scale) * np.float32(x1.scale) / np.float32(y.scale)
    q, shift = quantize_multiplier(float(product))

    real = (Rescaling(x0.zero_point), Rescaling(x1.zero_point))
    return Rescaled(b, real, np.multiply, q, shift)


def _fractions(b: Binding | NodeSpec) -> Pair:
    """int16 fractions of 1 to 8 bits: the high half of the product, less 8 bits."""

    def run(v0: Array, v1: Array) -> Array:
        high = np.minimum((v0 * v1 + (1 << 14)) >> 15, 32767)
        return _clamped(rounding_divide_by_pot(high, 8), b)

    return run


def quantized_div(b: Binding | NodeSpec) -> Pair:
    """x0 times the fixed-point reciprocal of x1; where x1 is its zero point, nothing of meaning.

    Quotients so small that they would be shifted by more than 31 bits are 0. The reference's shift
    is undefined there: on x86 it gives 1 for 0 / x, and now and then the greatest output.
    """
    x0, x1, y = b.input(0), b.input(1), b.outputs[0]
    ratio = np.float32(x0.scale) / (np.float32(x1.scale) * np.float32(y.scale))
    q, shift = quantize_multiplier(float(ratio))

    def run(v0: Array, v1: Array) -> Array:
        numerator, denominator = v0 - x0.zero_point, v1 - x1.zero_point
        numerator = np.where(denominator < 0, -numerator, numerator)
        inverse, over_unit = reciprocal(np.maximum(np.abs(denominator), 1), 31)
        headroom = leading_zeros(np.where(numerator < 0, ~numerator, numerator)) - 1
        quotient = saturating_rounding_doubling_high_mul(numerator << headroom, inverse)
        scaled_down = saturating_rounding_doubling_high_mul(quotient, q)
        right = np.maximum(over_unit + headroom - shift, 0)
        return _clamped(rounding_divide_by_pot(scaled_down, np.minimum(right, 62)), b)

    return run


def quantized_squared_difference(b: Binding | NodeSpec) -> Pair:
    x0, x1, y = b.input(0), b.input(1), b.outputs[0]
    left = 7
    twice = 2 * max(x0.scale, x1.scale)
    rescaled = [_rescaled(s, left, twice) for s in (x0, x1)]
    q, shift = quantize_multiplier(twice * twice / ((1 << 2 * left) * y.scale))

    def run(v0: Array, v1: Array) -> Array:
        square = (rescaled[0](v0) - rescaled[1](v1)) ** 2
        return _clamped(multiply_by_quantized_multiplier(square, q, shift), b)

    return run
