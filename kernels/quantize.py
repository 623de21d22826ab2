"""Real numbers and their quantised forms: QUANTIZE, DEQUANTIZE, FAKE_QUANT."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ._check import PACKED, arity, gives, scaled
from ._elementwise import in_blocks, sequence, spread
from ._lower import HALVES, check, f32, plain, refuse, through_table
from ._lut import domain, map_values, saturate
from ._quant import multiply_by_quantized_multiplier, quantize_multiplier
from ._widen import in_float32
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered, Map, Read
from .types import Array, DType

_SMALL = (DType.INT8, DType.UINT8, DType.INT16)

# -- QUANTIZE

_REQUANTIZED = {
    DType.INT8: _SMALL,
    DType.UINT8: _SMALL,
    DType.INT16: (DType.INT8, DType.UINT8, DType.INT16, DType.INT32),
    DType.INT32: _SMALL,
}


def _infer_quantize(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x, y = node.input(0), node.outputs[0]
    take(node, "input 0", x, DType.FLOAT32, *HALVES, *_REQUANTIZED)
    if y.quant is None:
        raise OpError(f"output {y.name!r} has no quantisation; QUANTIZE needs its scale")
    if x.dtype.is_float:
        gives(node, *_SMALL, *PACKED)
        _check_axis(y, x.shape)
    else:
        gives(node, *_REQUANTIZED[x.dtype])
        scaled(node, x, y)
    return [x.shape]


def _check_axis(spec: TensorSpec, shape: Shape) -> None:
    """Per-axis scales are as many as the dimension is long, blockwise ones as there are blocks."""
    q = spec.quant
    if q is None:
        return
    if q.block_size:
        if not shape or spec.size != q.scale.size * q.block_size or shape[-1] % q.block_size:
            raise OpError(
                f"{spec.name!r} has {q.scale.size} scales for blocks of {q.block_size} along the "
                f"last dimension of {list(shape)}"
            )
        return
    if not q.per_axis:
        return
    if not 0 <= q.axis < len(shape) or q.scale.size != shape[q.axis]:
        raise OpError(
            f"{spec.name!r} has {q.scale.size} scales along dimension {q.axis} of {list(shape)}"
        )


def _bind_quantize(b: Binding) -> Run | None:
    x, y = b.input(0), b.outputs[0]
    if x.dtype is DType.FLOAT32:
        return _bind_affine(b)
    if x.dtype is DType.INT32:
        return in_blocks(b, (b.xi(0), b.y[0]), partial(_requantize_block, x, y))
    table = b.once("table", lambda: _requantized(domain(x.dtype), x, y))
    return spread(b, (b.xi(0), b.y[0]), partial(map_values, table=table))


def _requantized(values: Array, x: TensorSpec, y: TensorSpec) -> Array:
    q, shift = quantize_multiplier(x.scale / y.scale)
    stored = multiply_by_quantized_multiplier(values - x.zero_point, q, shift)
    return saturate(stored + y.zero_point, y.dtype)


def _requantize_block(x: TensorSpec, y: TensorSpec, source: Array, target: Array) -> Run:
    return lambda: np.copyto(target, _requantized(source.astype(np.int64), x, y))


def _bind_affine(b: Binding) -> Run | None:
    """round(x / scale) + zero point, halves away from zero, saturated; NaN gives the zero point."""
    spec = b.outputs[0]
    low, high = (np.array(v, np.float32) for v in spec.dtype.range())
    if spec.quant is not None and spec.quant.per_axis:
        scale, zero = (_along_axis(a, spec) for a in (spec.quant.scale, spec.quant.zero_point))
        shape = b.y[0].shape
        work = [b.scratch(shape, t) for t in (np.float32, np.float32, np.int32)]
        return _quantize_block(scale, zero, low, high, b.xi(0), b.y[0], *work)
    scale, zero = (np.array(v, np.float32) for v in (spec.scale, spec.zero_point))
    make = partial(_quantize_block, scale, zero, low, high)
    # an 8-bit result less its zero point fits 16 bits, whose arithmetic is the fastest
    whole = np.int32 if spec.dtype is DType.INT16 else np.int16
    return in_blocks(b, (b.xi(0), b.y[0]), make, (np.float32, np.float32, whole))


def _along_axis(values: Array, spec: TensorSpec) -> Array:
    assert spec.quant is not None
    shape = [1] * spec.rank
    shape[spec.quant.axis] = values.size
    return values.astype(np.float32).reshape(shape)


def _quantize_block(
    scale: Array,
    zero: Array,
    low: Array,
    high: Array,
    x: Array,
    y: Array,
    work: Array,
    nudge: Array,
    whole: Array,
) -> Run:
    sign = np.array(0x80000000, np.uint32)
    # the greatest float below one half: with it, adding and cutting off rounds every float32
    half = np.nextafter(np.float32(0.5), np.float32(0)).reshape(1).view(np.uint32)[0]
    bits, nudge_bits, half_bits = work.view(np.uint32), nudge.view(np.uint32), np.array(half)
    clip, shifted, shift = work.clip, bool(zero.any()), zero.astype(whole.dtype)
    bottom, top = low - zero, high - zero

    def run() -> None:
        np.divide(x, scale, out=work)
        np.bitwise_and(bits, sign, out=nudge_bits)
        np.bitwise_or(nudge_bits, half_bits, out=nudge_bits)
        np.add(work, nudge, out=work)
        clip(bottom, top, work)
        if not shifted:
            np.copyto(y, work, casting="unsafe")
            return
        np.copyto(whole, work, casting="unsafe")
        np.add(whole, shift, out=whole)
        np.copyto(y, whole, casting="unsafe")

    return run


def _lower_quantize(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0), node.outputs[0]
    low, high = y.dtype.range()
    if x.dtype.is_float:
        # a float64 quotient, rounded to float32, is the one that IEEE 754 asks for
        wide = "(f32)((f64)$0 / (f64)$1)" if capability.fp64 else "$0 / $1"
        reads = (Read(0), *_scales(y))
        return Lowered([Map(f"quantize({wide}, $2, {low}, {high})", reads, uses=("fixed",))])
    if x.dtype is not DType.INT32:
        return through_table(_requantized(domain(x.dtype), x, y))
    q, shift = quantize_multiplier(x.scale / y.scale)
    real = f"(i32)((u32)$0 - {x.zero_point & 0xFFFFFFFF}u)"
    stored = f"(i64)multiply_quantized({real}, {q}, {shift}) + {y.zero_point}"
    return plain(f"clamp_to({stored}, {low}, {high})", "fixed")


def _scales(spec: TensorSpec) -> tuple[Read, Read]:
    """Scale (float32) and zero point (int32) as constants that broadcast to the tensor."""
    assert spec.quant is not None
    if spec.quant.block_size:
        refuse("QUANT", f"{spec.name!r} with scales for blocks", "one scale, or one for each index")
    shape = [1] * spec.rank
    if spec.quant.per_axis:
        shape[spec.quant.axis] = spec.quant.scale.size
    scale, zero = spec.quant.scale, spec.quant.zero_point
    return (
        Read(scale.astype(np.float32).reshape(shape)),
        Read(zero.astype(np.int32).reshape(shape)),
    )


def _lower_dequantize(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x = node.input(0)
    if x.dtype in HALVES:
        return plain("$0")
    return Lowered([Map("(f32)($0 - $2) * $1", (Read(0), *_scales(x)))])


def _lower_fake_quant(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    scale, bottom, top = _nudged(node)
    nudged = f"(clamp_f32($0, {f32(bottom)}, {f32(top)}) - {f32(bottom)})"
    inverse = f32(float(np.float32(1) / scale))
    # steps from zero, times the scale: a product and a sum that were joined would not give 0
    zero = f32(float(round(-bottom / float(scale))))
    text = f"(F_FLOOR({nudged} * {inverse} + 0.5f) - {zero}) * {f32(float(scale))}"
    return plain(text, "arithmetic")


# -- DEQUANTIZE and FAKE_QUANT


def _infer_dequantize(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x = node.input(0)
    take(node, "input 0", x, *_SMALL, *PACKED, *HALVES)
    gives(node, DType.FLOAT32, *HALVES)
    if x.dtype not in HALVES:
        if x.quant is None:
            raise OpError(f"{x.name!r} is {x.dtype.label} without a scale; DEQUANTIZE needs one")
        _check_axis(x, x.shape)
    return [x.shape]


def _bind_dequantize(b: Binding) -> Run | None:
    spec, x, y = b.input(0), b.xi(0), b.y[0]
    if spec.dtype is DType.FLOAT32:  # was a 16-bit float
        return partial(np.copyto, y, x)
    q = spec.quant
    if q is None:
        raise OpError(f"{spec.name!r} has no scale")
    if q.block_size:
        return _blockwise(x, y, spec)
    scale, zero = np.array(spec.scale, np.float32), np.array(spec.zero_point, np.float32)
    if q.per_axis:
        scale, zero = _along_axis(q.scale, spec), _along_axis(q.zero_point, spec)
    if not zero.any():
        return partial(np.multiply, x, scale, out=y, dtype=np.float32)
    return sequence(
        partial(np.subtract, x, zero, out=y, dtype=np.float32),
        partial(np.multiply, y, scale, out=y),
    )


def _blockwise(x: Array, y: Array, spec: TensorSpec) -> Run:
    """One scale for each block along the last dimension."""
    assert spec.quant is not None
    blocks = (*spec.shape[:-1], -1, spec.quant.block_size)
    scale = spec.quant.scale.reshape(*spec.shape[:-1], -1, 1)
    zero = np.zeros_like(scale)
    if spec.quant.zero_point.size == scale.size:
        zero = spec.quant.zero_point.astype(np.float32).reshape(scale.shape)
    source, target = x.reshape(blocks), y.reshape(blocks)

    def run() -> None:
        np.subtract(source, zero, out=target, dtype=np.float32)
        np.multiply(target, scale, out=target)

    return run


def _infer_fake_quant(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x = node.input(0)
    take(node, "input 0", x, DType.FLOAT32, *HALVES)
    gives(node, x.dtype)
    bits = int(node.options.num_bits)
    if not (2 <= bits <= 16 and node.options.min < node.options.max):
        raise OpError(
            f"FAKE_QUANT to {bits} bits from {node.options.min} to {node.options.max}; "
            "it takes 2 to 16 bits and min below max"
        )
    return [x.shape]


def _nudged(node: NodeSpec | Binding) -> tuple[Any, float, float]:
    """The step (float32) and both ends, moved so that zero is one of the steps."""
    low, high = np.float32(node.options.min), np.float32(node.options.max)
    steps = np.float32((1 << int(node.options.num_bits)) - 1)
    scale = (high - low) / steps
    zero = np.float32(math.floor(float(min(max(-low / scale, np.float32(0)), steps)) + 0.5))
    return scale, float(-zero * scale), float((steps - zero) * scale)


def _bind_fake_quant(b: Binding) -> Run | None:
    """Quantises and dequantises; the range is moved so that zero is exact."""
    scale, least, most = _nudged(b)
    bottom, top = np.array(least, np.float32), np.array(most, np.float32)
    inverse, half = np.array(np.float32(1) / scale), np.array(0.5, np.float32)

    def make(x: Array, y: Array) -> Run:
        clip = x.clip

        def run() -> None:
            clip(bottom, top, y)
            np.subtract(y, bottom, out=y)
            np.multiply(y, inverse, out=y)
            np.add(y, half, out=y)  # y >= 0: rounds halves away from zero
            np.floor(y, out=y)
            np.multiply(y, scale, out=y)
            np.add(y, bottom, out=y)

        return run

    return in_blocks(b, (b.xi(0), b.y[0]), make)


OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        op(
            "QUANTIZE",
            _infer_quantize,
            in_float32(_bind_quantize),
            versions=(1, 6),
            lower=_lower_quantize,
        ),
        op(
            "DEQUANTIZE",
            _infer_dequantize,
            in_float32(_bind_dequantize),
            versions=(1, 9),
            lower=_lower_dequantize,
        ),
        op(
            "FAKE_QUANT",
            _infer_fake_quant,
            in_float32(_bind_fake_quant),
            versions=(1, 2),
            inplace=(0,),
            lower=_lower_fake_quant,
        ),
    )
}
