"""The LSTM with 8-bit gate sums ("8x8_8"): no input gate, layer normalisation, a projection.

Products are requantised to 8 bits each, added to 16-bit gates, normalised and squashed in float32.
Source: TensorFlow Lite's integer LSTM with twelve intermediate tensors. It reads the multiplier of
the output gate's recurrent part from behind its array, where a small shift stands, so that part
comes to nothing; models are calibrated with that, and so it is here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ._fixedpoint16 import times_pot
from ._lstm_layout import Layout, Sizes
from ._lut import domain
from ._matmul import exact_product, operand_type
from ._quant import (
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    quantize_multiplier,
)
from ._recurrent import stored
from .api import Binding, NodeSpec, Run, require
from .types import Array, DType

# of the gates forget, cell, output: the intermediates of the input's part, the state's, the sum
_INNER = {1: (4, 5, 3), 2: (7, 8, 6), 3: (10, 11, 9)}
_LAYER_NORM_TINY = np.float32(1e-8)


@functools.cache
def _sigmoid_table() -> Array:
    """By bit patterns of gates in units of 2^-12; rounded towards zero, as in the reference."""
    x = domain(DType.INT16) * 2.0**-12
    value = (1 / (1 + np.exp(-x))).astype(np.float32)
    return np.asarray(np.minimum(np.trunc(value * np.float32(32768)), 32767), np.int64)


@functools.cache
def _tanh_table(exponent: int) -> Array:
    value = np.tanh(domain(DType.INT16) * 2.0**exponent).astype(np.float32)
    return np.asarray(np.clip(np.trunc(value * np.float32(32768)), -32768, 32767), np.int64)


def check(node: NodeSpec, at: Layout, s: Sizes) -> None:
    """What this form needs beyond what all of them do."""
    require(
        s.cifg and s.norm and s.projection and not s.peephole,
        "12 intermediate tensors (8-bit gate sums) go with no input gate, no peephole, layer "
        "normalisation and a projection",
    )
    node.input(at.projection_bias)
    scale = node.input(at.cell_state).scale
    require(scale == 2.0**-15, f"the cell state has the scale {scale}; taken: 2^-15")


def layer(b: Binding, at: Layout, s: Sizes, x: Array, out: Array) -> Run:
    """A callable that runs all steps; x is [steps, batch, depth], out [steps, batch, outputs]."""
    steps, batch, _ = x.shape
    h = b.xi(at.output_state).reshape(-1).view(np.int8)[: batch * s.outputs]
    h = h.reshape(batch, s.outputs)
    c = b.xi(at.cell_state).reshape(batch, s.cells)
    clip = _clip(b.options.cell_clip, b.input(at.cell_state).scale, 32767)
    if b.options.cell_clip >= 1:
        clip = 0

    def run() -> None:
        # weights may be inputs of the graph: what is made of them is small, and made anew
        gates = {g: _gate(b, at, g) for g in (1, 2, 3)}
        project = _projection(b, at)
        for t in range(steps):
            forget = _sigmoid_table().take(gates[1](x[t], h), mode="wrap")
            update = _tanh_table(-12).take(gates[2](x[t], h), mode="wrap")
            cell = times_pot(forget * c, -15) + times_pot((32767 - forget) * update, -15)
            cell = np.clip(cell, -32768, 32767)
            if clip > 0:
                cell = np.clip(cell, -clip, clip)
            np.copyto(c, cell, casting="unsafe")
            opened = _sigmoid_table().take(gates[3](x[t], h), mode="wrap")
            hidden = times_pot(opened * _tanh_table(-15).take(cell, mode="wrap"), -15)
            np.copyto(h, project(hidden), casting="unsafe")
            np.copyto(out[t], h)

    return run


def _clip(value: float, scale: float, most: int) -> int:
    return int(min(float(np.float32(value) / np.float32(scale)), most))


def _product(weights: Array, zero: int) -> Callable[[Array], Array]:
    """x -> (x - zero) . weights, int64."""
    largest = 32768 * 128
    kind = operand_type(weights.shape[1], largest)
    matrix = weights.T.astype(kind)

    def multiply(x: Array) -> Array:
        total = np.empty((len(x), len(weights)), np.int64)
        values = x.astype(kind) - kind.type(zero)
        exact_product(values, matrix, total, largest, np.empty)()
        return total

    return multiply


def _gate(b: Binding, at: Layout, g: int) -> Callable[[Array, Array], Array]:
    """A gate before its table, from the input and the output state; int64 in units of 2^-12."""
    f32 = np.float32
    of_input, of_state, of_sum = (b.intermediates[i] for i in _INNER[g])
    state = b.input(at.output_state)
    parts = [(at.inputs[g], b.input(0), of_input)]
    if g != 3:
        parts.append((at.recurrent[g], state, of_state))
    ready = []
    for i, source, inner in parts:
        scale = f32(b.input(i).scale) * f32(source.scale) / f32(inner.scale)
        ready.append(
            (
                _product(stored(b, i), source.zero_point),
                quantize_multiplier(float(scale)),
                inner.zero_point,
                quantize_multiplier(float(f32(inner.scale) / f32(of_sum.scale))),
            )
        )
    normalize = _norm(b, at, g)

    def gate(x: Array, h: Array) -> Array:
        total = np.zeros((len(x), len(b.xi(at.bias[g]))), np.int64)
        for source, (product, first, zero, second) in zip((x, h), ready, strict=False):
            small = multiply_by_quantized_multiplier(product(source), *first) + zero
            small = np.clip(small, -128, 127) - zero
            total += multiply_by_quantized_multiplier(small, *second)
        return normalize(np.clip(total, -32768, 32767))

    return gate


def _norm(b: Binding, at: Layout, g: int) -> Callable[[Array], Array]:
    """Layer normalisation in float32, summed one after the other."""
    f32 = np.float32
    q, shift = quantize_multiplier(float(f32(b.input(at.norm[g]).scale)))
    scale = f32(q * 2.0 ** (shift - 31))
    bias_scale = f32(2.0**-10) * scale
    weights, bias = b.xi(at.norm[g]), b.xi(at.bias[g])

    def normalize(v: Array) -> Array:
        value = v.astype(f32)
        n = f32(value.shape[1])
        mean = np.cumsum(value, axis=1, dtype=f32)[:, -1:] / n
        squares = np.cumsum(value * value, axis=1, dtype=f32)[:, -1:] / n
        variance = squares - mean * mean
        spread = f32(1) / np.sqrt(np.where(variance == 0, _LAYER_NORM_TINY, variance))
        weighted = (value - mean) * spread * weights.astype(f32) * scale
        weighted = (weighted + bias.astype(f32) * bias_scale) * f32(4096)
        rounded = np.trunc(weighted + np.copysign(np.float64(0.5), weighted))
        return np.asarray(np.clip(rounded, -32768, 32767), np.int64)

    return normalize


def _projection(b: Binding, at: Layout) -> Callable[[Array], Array]:
    f32 = np.float32
    state = b.input(at.output_state)
    scale = f32(float(f32(b.input(at.projection).scale)) * 2.0**-15 / float(f32(state.scale)))
    multiplier = quantize_multiplier(float(scale))
    product, bias = _product(stored(b, at.projection), 0), b.xi(at.projection_bias)
    clip = _clip(b.options.proj_clip, b.outputs[0].scale, 127)

    def project(hidden: Array) -> Array:
        total = product(hidden) + bias
        y = multiply_by_quantized_multiplier_64(total, *multiplier) + state.zero_point
        y = np.clip(y, -128, 127)
        return np.asarray(np.clip(y, -clip, clip) if clip > 0 else y)

    return project
