"""Activations as nodes of their own: LOGISTIC, TANH, RELU and its kin, PRELU, ELU, GELU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ._broadcast import broadcast_shape, operands
from ._check import BYTES, arity, elementwise, gives, scaled, symmetric
from ._elementwise import between, in_blocks, spread
from ._erf import erfc_exact, erfc_of_positive
from ._hard_swish import check_hard_swish_scales, hard_swish_table
from ._logistic import bind_logistic
from ._lower import Forms, check, f32, plain, through_table
from ._lut import domain, exactly, map_values, saturate, table_of
from ._quant import multiply_by_quantized_multiplier, quantize_multiplier, round_away
from ._quantized_binary import Pair, bind_quantized, lower_quantized
from ._sigmoid16 import logistic_table, tanh_table
from ._widen import FLOATS, in_float32
from .api import Bind, Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Lowered
from .types import Array, DType

_QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
Table = Callable[[Any], Array]  # of a `Binding` or a `NodeSpec`
Expression = Callable[[NodeSpec], str]


def _row(
    name: str,
    versions: tuple[int, int],
    make: Callable[[Binding], Run | None],
    table: Table,
    device: str | Expression,
    scales: Callable[[NodeSpec], None] | None = None,
    quantized: tuple[DType, ...] = _QUANTIZED,
) -> Registration:
    """An op of one input: `make` binds floats, `table` gives the outputs for all stored inputs,
    `device` is the function of `$0` for floats on a device."""

    def infer(node: NodeSpec) -> list[Shape]:
        shape = elementwise(node, *FLOATS, *quantized)
        if node.input(0).dtype in quantized:
            scaled(node, node.input(0), node.outputs[0])
            if scales is not None:
                scales(node)
        return [shape]

    def bind(b: Binding) -> Run | None:
        if b.input(0).dtype in quantized:
            values = b.once("table", lambda: table(b))
            return spread(b, (b.xi(0), b.y[0]), partial(map_values, table=values))
        return make(b)

    def lower(node: NodeSpec, capability: Capability) -> Lowered:
        check(node, capability)
        if node.input(0).dtype in quantized:
            return through_table(table(node))
        text = device if isinstance(device, str) else device(node)
        return plain(
            Forms(text, narrow="f(" in text or "_f32" in text).of(node.input(0)), "arithmetic"
        )

    return op(name, infer, in_float32(bind), versions=versions, inplace=(0,), lower=lower)


def _symmetric16(node: NodeSpec) -> None:
    if node.input(0).dtype is DType.INT16:
        symmetric(node, node.input(0), node.outputs[0])


def _fraction16(node: NodeSpec) -> None:
    """int16 outputs of LOGISTIC and TANH are fractions of 32768."""
    _symmetric16(node)
    y = node.outputs[0]
    if y.dtype is DType.INT16 and abs(y.scale * 32768 - 1) > 1e-3:
        raise OpError(
            f"output {y.name!r} has the scale {y.scale}; {node.op} on int16 gives 1/32768"
        )


# -- RELU and other ranges


def _range(low: float, high: float) -> tuple[Callable[[Binding], Run | None], Table, str]:
    def make(b: Binding) -> Run | None:
        return between(b.xi(0), b.y[0], low, high)

    def table(b: Binding | NodeSpec) -> Array:
        x, y = b.input(0), b.outputs[0]
        q, shift = quantize_multiplier(float(np.float32(x.scale) / np.float32(y.scale)))
        values = multiply_by_quantized_multiplier(domain(x.dtype) - x.zero_point, q, shift)
        least, most = y.dtype.range()
        least = max(least, y.zero_point + _stored(low, y.scale))
        if not math.isinf(high):
            most = min(most, y.zero_point + _stored(high, y.scale))
        clamped = np.minimum(np.maximum(values + y.zero_point, least), most)
        return saturate(clamped, y.dtype)

    return make, table, f"clamp_f32($0, {f32(low)}, {f32(high)})"


def _stored(real: float, scale: float) -> int:
    """A bound over a scale, in float32, halves away from zero."""
    with np.errstate(all="ignore"):
        return round_away(float(np.float32(real) / np.float32(scale)))


# -- LOGISTIC and TANH


def _sigmoid(x: Array) -> Array:
    one = np.float32(1)
    return one / (one + exactly(np.exp)(-x))


def _table_logistic(b: Binding | NodeSpec) -> Array:
    if b.input(0).dtype is DType.INT16:
        return logistic_table(b.input(0).scale)
    return table_of(_sigmoid, b.input(0), b.outputs[0])


def _make_tanh(b: Binding) -> Run | None:
    return spread(b, (b.xi(0), b.y[0]), lambda x, y: partial(np.tanh, x, out=y))


def _table_tanh(b: Binding | NodeSpec) -> Array:
    if b.input(0).dtype is DType.INT16:
        return tanh_table(b.input(0).scale)
    return table_of(exactly(np.tanh), b.input(0), b.outputs[0])


# -- LEAKY_RELU, PRELU, ELU


def _make_leaky(b: Binding) -> Run | None:
    alpha = float(b.options.alpha)
    x, y = b.xi(0), b.y[0]
    if alpha == 0:
        return between(x, y, 0.0, math.inf)
    factor = np.array(alpha, y.dtype)
    return in_blocks(b, (x, y), partial(_make_slopes, factor, alpha <= 1), (y.dtype,))


def _make_slopes(factor: Array, greater: bool, x: Array, y: Array, work: Array) -> Run:
    """y = x above zero, factor * x below. `greater`: that is the greater of the two everywhere."""
    if greater:

        def choose() -> None:
            np.multiply(x, factor, out=work)
            np.maximum(x, work, out=y)

        return choose
    zero, top, bottom = (np.array(v, y.dtype) for v in (0, np.inf, -np.inf))
    clip = x.clip

    def run() -> None:
        clip(bottom, zero, work)
        np.multiply(work, factor, out=work)
        clip(zero, top, y)
        np.add(y, work, out=y)

    return run


def _leaky(node: NodeSpec) -> str:
    alpha = float(node.options.alpha)
    if alpha == 0:
        return f"clamp_f32($0, 0.0f, {f32(math.inf)})"
    return f"$0 > 0 ? $0 : $0 * {f32(alpha)}"


def _table_leaky(b: Binding | NodeSpec) -> Array:
    x, y = b.input(0), b.outputs[0]
    ratio = np.float32(x.scale) * np.float32(b.options.alpha) / np.float32(y.scale)
    below = quantize_multiplier(abs(float(ratio)))
    above = quantize_multiplier(float(np.float32(x.scale) / np.float32(y.scale)))
    values = domain(x.dtype) - x.zero_point
    negative = multiply_by_quantized_multiplier(values, *below) * (-1 if ratio < 0 else 1)
    positive = multiply_by_quantized_multiplier(values, *above)
    return saturate(np.where(values >= 0, positive, negative) + y.zero_point, y.dtype)


def _make_elu(b: Binding) -> Run | None:
    zero, top, bottom = (np.array(v, b.y[0].dtype) for v in (0, np.inf, -np.inf))

    def make(x: Array, y: Array, work: Array) -> Run:
        clip = x.clip

        def run() -> None:
            clip(bottom, zero, work)
            np.expm1(work, out=work)
            clip(zero, top, y)
            np.add(y, work, out=y)

        return run

    return in_blocks(b, (b.xi(0), b.y[0]), make, (b.y[0].dtype,))


def _table_elu(b: Binding | NodeSpec) -> Array:
    def elu(x: Array) -> Array:
        return np.where(x < 0, exactly(np.expm1)(x), x)

    return table_of(elu, b.input(0), b.outputs[0])


def _infer_prelu(node: NodeSpec) -> list[Shape]:
    arity(node, 2)
    x, alpha, y = node.input(0), node.input(1), node.outputs[0]
    take(node, "input 0", x, *FLOATS, *_QUANTIZED)
    gives(node, x.dtype)
    if x.dtype in FLOATS:
        take(node, "alpha", alpha, x.dtype)
    else:
        take(node, "alpha", alpha, *((DType.INT8,) if x.dtype is DType.INT16 else BYTES))
        scaled(node, x, alpha, y)
    if broadcast_shape(node, x, alpha) != x.shape:
        raise OpError(
            f"alpha {alpha.name!r} has shape {list(alpha.shape)} and the input {list(x.shape)}; "
            "PRELU takes an alpha that broadcasts to the input"
        )
    return [x.shape]


def _bind_prelu(b: Binding) -> Run | None:
    if b.input(0).dtype not in FLOATS:
        return bind_quantized(b, _quantized_prelu(b))
    constant = [b.input(i).const is not None for i in (0, 1)]
    (x, alpha), y = operands(b.y[0].shape, [b.xi(0), b.xi(1)], constant, b.y[0])
    work = b.scratch(y.shape, y.dtype)
    # a slope of 0 would make NaN of an infinite x
    greater = constant[1] and bool(((alpha <= 1) & (alpha != 0)).all())
    return _make_slopes(alpha, greater, x, y, work)


def _lower_prelu(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    if node.input(0).dtype not in FLOATS:
        return lower_quantized(node, capability, _quantized_prelu(node))
    return plain("$0 > 0 ? $0 : $0 * $1", reads=2)


def _quantized_prelu(b: Binding | NodeSpec) -> Pair:
    x, alpha, y = b.input(0), b.input(1), b.outputs[0]
    above = np.float32(x.scale) / np.float32(y.scale)
    below = np.float32(x.scale) * np.float32(alpha.scale) / np.float32(y.scale)
    by_one, by_alpha = quantize_multiplier(float(above)), quantize_multiplier(float(below))

    def run(v: Array, a: Array) -> Array:
        real = v - x.zero_point
        positive = multiply_by_quantized_multiplier(real, *by_one)
        negative = multiply_by_quantized_multiplier(real * (a - alpha.zero_point), *by_alpha)
        return np.where(real >= 0, positive, negative) + y.zero_point

    return run


# -- HARD_SWISH and GELU


def _make_hard_swish(b: Binding) -> Run | None:
    zero, three, six, sixth = (np.array(v, b.y[0].dtype) for v in (0, 3, 6, 1 / 6))

    def make(x: Array, y: Array, work: Array) -> Run:
        clip = work.clip

        def run() -> None:
            np.add(x, three, out=work)
            clip(zero, six, work)
            np.multiply(work, x, out=work)
            np.multiply(work, sixth, out=y)

        return run

    return in_blocks(b, (b.xi(0), b.y[0]), make, (b.y[0].dtype,))


def _table_hard_swish(b: Binding | NodeSpec) -> Array:
    return hard_swish_table(b.input(0), b.outputs[0])


def _check_hard_swish(node: NodeSpec) -> None:
    check_hard_swish_scales(node.input(0), node.outputs[0])


_SQRT_2_OVER_PI = np.float32(math.sqrt(2 / math.pi))


def _make_gelu(b: Binding) -> Run | None:
    dtype = b.y[0].dtype
    if not b.options.approximate:
        return in_blocks(b, (b.xi(0), b.y[0]), _make_gelu_block, (dtype, dtype, dtype, np.bool_))
    cubic, linear, one, half = (
        np.array(v, dtype) for v in (0.044715 * _SQRT_2_OVER_PI, _SQRT_2_OVER_PI, 1, 0.5)
    )

    def make(x: Array, y: Array, work: Array) -> Run:
        def run() -> None:
            np.multiply(x, x, out=work)
            np.multiply(work, cubic, out=work)
            np.add(work, linear, out=work)
            np.multiply(work, x, out=work)
            np.tanh(work, out=work)
            np.add(work, one, out=work)
            np.multiply(work, x, out=work)
            np.multiply(work, half, out=y)

        return run

    return in_blocks(b, (b.xi(0), b.y[0]), make, (dtype,))


def _make_gelu_block(x: Array, y: Array, z: Array, t: Array, c: Array, positive: Array) -> Run:
    """x / 2 * erfc(-x / sqrt 2), which unlike 1 + erf keeps its digits at negative x."""
    zero, half, two, root = (np.array(v, y.dtype) for v in (0, 0.5, 2, math.sqrt(0.5)))

    def run() -> None:
        np.abs(x, out=z)
        np.multiply(z, root, out=z)
        erfc_of_positive(z, t, c)
        np.greater(x, zero, out=positive)
        np.subtract(two, c, out=c, where=positive)
        np.multiply(c, x, out=c)
        np.multiply(c, half, out=y)

    return run


def _gelu(node: NodeSpec) -> str:
    if not node.options.approximate:
        return f"0.5f * $0 * F_ERFC($0 * {f32(-math.sqrt(0.5))})"
    root = float(_SQRT_2_OVER_PI)
    inner = f"$0 * ({f32(root)} + {f32(0.044715 * root)} * $0 * $0)"
    return f"0.5f * $0 * (1.0f + F_TANH({inner}))"


def _table_gelu(b: Binding | NodeSpec) -> Array:
    half, one = np.float32(0.5), np.float32(1)

    def exact(x: Array) -> Array:
        return half * x * exactly(erfc_exact)(x * np.float32(-math.sqrt(0.5)))

    def approximate(x: Array) -> Array:
        inner = _SQRT_2_OVER_PI * (x + np.float32(0.044715) * x * x * x)
        return half * x * (one + exactly(np.tanh)(inner))

    return table_of(approximate if b.options.approximate else exact, b.input(0), b.outputs[0])


_prelu: Bind = in_float32(_bind_prelu)

OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        _row(
            "LOGISTIC", (1, 3), bind_logistic, _table_logistic, "1 / (1 + F_EXP(-$0))", _fraction16
        ),
        _row("TANH", (1, 3), _make_tanh, _table_tanh, "F_TANH($0)", _fraction16),
        _row("RELU", (1, 3), *_range(0.0, math.inf), _symmetric16),
        _row("RELU6", (1, 3), *_range(0.0, 6.0), _symmetric16),
        _row("RELU_N1_TO_1", (1, 1), *_range(-1.0, 1.0), _symmetric16),
        _row("RELU_0_TO_1", (1, 1), *_range(0.0, 1.0), _symmetric16),
        _row("LEAKY_RELU", (1, 2), _make_leaky, _table_leaky, _leaky, _symmetric16),
        _row("ELU", (1, 1), _make_elu, _table_elu, "$0 < 0 ? F_EXPM1($0) : $0"),
        _row(
            "HARD_SWISH",
            (1, 1),
            _make_hard_swish,
            _table_hard_swish,
            f"$0 * clamp_f32($0 + 3.0f, 0.0f, 6.0f) * {f32(1 / 6)}",
            _check_hard_swish,
            BYTES,
        ),
        _row("GELU", (1, 3), _make_gelu, _table_gelu, _gelu),
        op("PRELU", _infer_prelu, _prelu, inplace=(0,), lower=_lower_prelu),
    )
}
