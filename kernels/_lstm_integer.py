"""LSTM layers on int8 with 16-bit gates and cell ("8x8_16"), exact to the bit.

Gates are Q(3) int16 values side by side in one row: output, input, forget, cell. Every sum that
makes them saturates on its own, as in the reference. Source: TensorFlow Lite's integer LSTM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ._lstm_fixed import (
    Norm,
    Peephole,
    Product,
    Scratch,
    cell_table,
    gate_table,
    narrow,
    repeat,
    round_in_place,
)
from ._lstm_layout import Layout, Sizes, all_constant
from ._quant import quantize_multiplier
from ._recurrent import by_steps, rows, stored
from .api import Binding, NodeSpec, Run, require
from .types import Array


def cell_exponent(node: NodeSpec | Binding, at: Layout) -> int:
    """The scale of the cell state as a power of two."""
    scale = node.input(at.cell_state).scale
    exponent = round(math.log2(scale)) if 0 < scale < math.inf else 0
    require(
        scale > 0 and abs(math.log2(scale) - exponent) < 1e-3 and -15 <= exponent <= -9,
        f"input {at.cell_state}, the cell state, has the scale {scale}; "
        "taken: a power of two from 2^-15 to 2^-9",
    )
    return exponent


def layer(b: Binding, at: Layout, s: Sizes, x: Array, out: Array) -> Run:
    """A callable that runs all steps; x is [steps, batch, depth], out [steps, batch, outputs]."""
    if all_constant(b, at):
        return _build(b, at, s, x, out, b.scratch)

    def run() -> None:
        _build(b, at, s, x, out, np.empty)()

    return run


def gate_order(s: Sizes) -> tuple[int, ...]:
    return (3, 1, 2) if s.cifg else (3, 0, 1, 2)


def _build(b: Binding, at: Layout, s: Sizes, x: Array, out: Array, scratch: Scratch) -> Run:
    steps, batch, _ = x.shape
    n, order = s.cells, gate_order(s)
    wide = len(order) * n
    f32 = np.float32
    gate_scale = [f32(b.intermediates[g].scale) if s.norm else f32(2**-12) for g in order]
    hidden, state = b.intermediates[4], b.input(at.output_state)
    h = b.xi(at.output_state).reshape(-1).view(np.int8)[: batch * s.outputs]
    h = h.reshape(batch, s.outputs)
    c = b.xi(at.cell_state).reshape(batch, n)
    exponent = cell_exponent(b, at)

    def stacked(inputs: Sequence[int]) -> Array:
        return np.concatenate([stored(b, inputs[g]) for g in order])

    def gates(inputs: Sequence[int], source: float) -> tuple[Array, Array]:
        """(q, shift) for each gate and cell."""
        pairs = [
            quantize_multiplier(float(f32(b.input(inputs[g]).scale) * f32(source) / scale))
            for g, scale in zip(order, gate_scale, strict=True)
        ]
        return repeat(pairs, n)

    bias = np.zeros(wide, np.int64)
    if not s.norm:
        bias += np.concatenate([b.xi(at.bias[g]) for g in order])
    early = scratch((steps * batch, wide), np.float64)
    each = by_steps(early, x)
    x_rows = rows(x)
    from_input = Product(
        scratch,
        len(x_rows),
        stacked(at.inputs),
        bias,
        b.input(0).zero_point,
        *gates(at.inputs, b.input(0).scale),
    )
    input_steps = from_input.steps(early)
    z = scratch((batch, wide), np.float64)
    from_state = Product(
        scratch,
        batch,
        stacked(at.recurrent),
        np.zeros(wide, np.int64),
        state.zero_point,
        *gates(at.recurrent, state.scale),
    )
    state_steps = from_state.steps(z)

    # the states as floats, for the time of a run
    output_state, cell = from_state.values, scratch((batch, n), np.float64)
    peephole = Peephole(b, at, s, exponent, gate_scale) if s.peephole else None
    norm = Norm(b, at, order, n) if s.norm else None
    z3 = z.reshape(batch, len(order), n)
    table, squash = gate_table(exponent), cell_table(exponent)
    # the last gate is looked up in the second half of the table
    lift = np.full(wide, 32768.0)
    lift[-n:] += 65536
    index, open_gates = scratch((batch, wide), np.intp), scratch((batch, wide), np.float64)
    o, f, g = (open_gates[:, k * n : (k + 1) * n] for k in (0, len(order) - 2, len(order) - 1))
    i = scratch((batch, n), np.float64) if s.cifg else open_gates[:, n : 2 * n]
    parts, spare = scratch((2, batch, n), np.float64), scratch((2, batch, n), np.float64)
    kept, added = parts
    at_cell, squashed = scratch((batch, n), np.intp), scratch((batch, n), np.float64)
    bottom, top = np.full((batch, wide), -32768.0), np.full((batch, wide), 32767.0)
    clip = quantized_clip(b.options.cell_clip, b.input(at.cell_state).scale, 32767)
    least = np.full((batch, n), -32768.0 if clip == 0 else -clip)
    most = np.full((batch, n), 32767.0 if clip == 0 else clip)
    output = _output(b, at, s, scratch, output_state, hidden.scale, hidden.zero_point)
    almost_one = np.float64(32767 / 32768)

    def look_up(first: int, last: int) -> None:
        np.add(z[:, first:last], lift[first:last], out=z[:, first:last])
        np.copyto(index[:, first:last], z[:, first:last], casting="unsafe")
        open_gates[:, first:last] = table.take(index[:, first:last], mode="clip")

    def look_up_all() -> None:
        np.add(z, lift, out=z)
        np.copyto(index, z, casting="unsafe")
        table.take(index, out=open_gates, mode="clip")

    def run() -> None:
        np.copyto(from_input.values, x_rows)
        for step in input_steps:
            step()
        np.clip(early, -32768, 32767, out=early)
        np.copyto(output_state, h)
        np.copyto(cell, c)
        for t in range(steps):
            for step in state_steps:
                step()
            np.add(z, each[t], out=z)
            np.maximum(z, bottom, out=z)
            np.minimum(z, top, out=z)
            if peephole is not None:
                peephole.early(z3, cell)
            if norm is not None:
                norm(z3, 1 if s.peephole else 0, len(order))
            if s.peephole:
                look_up(n, wide)
            else:
                look_up_all()
            if s.cifg:
                np.subtract(almost_one, f, out=i)
            np.multiply(f, cell, out=kept)
            np.multiply(i, g, out=added)
            round_in_place(parts, spare)
            np.add(kept, added, out=cell)
            np.maximum(cell, least, out=cell)
            np.minimum(cell, most, out=cell)
            if peephole is not None:
                peephole.late(z3, cell)
                if norm is not None:
                    norm(z3, 0, 1)
                look_up(0, n)
            np.copyto(at_cell, cell, casting="unsafe")
            # negative numbers count from the end, where the table has them
            squash.take(at_cell, out=squashed, mode="wrap")
            np.multiply(o, squashed, out=squashed)
            output(squashed)
            np.copyto(out[t], output_state, casting="unsafe")
        np.copyto(h, output_state, casting="unsafe")
        np.copyto(c, cell, casting="unsafe")

    return run


def quantized_clip(clip: float, scale: float, most: int) -> int:
    return int(min(float(np.float32(clip) / np.float32(scale)), most))


def _output(
    b: Binding, at: Layout, s: Sizes, scratch: Scratch, h: Array, scale: float, zero: int
) -> Callable[[Array], None]:
    """A callable that sets the output state h from output gate times tanh of the cell."""
    f32 = np.float32
    hidden = quantize_multiplier(float(f32(2.0**-15 / float(f32(scale)) * 2.0**-15)))
    if not s.projection:
        return narrow(scratch, hidden, zero, h)
    state = b.input(at.output_state)
    bias = np.zeros(s.outputs, np.int64)
    if b.optional(at.projection_bias) is not None:
        bias += b.xi(at.projection_bias)
    real = f32(b.input(at.projection).scale) * f32(scale) / f32(state.scale)
    pair = repeat([quantize_multiplier(float(real))], s.outputs)
    total = scratch(h.shape, np.float64)
    # the reference takes the zero point away twice, in effect: it is stored negated
    product = Product(scratch, h.shape[0], stored(b, at.projection), bias, -zero, *pair)
    narrowed = narrow(scratch, hidden, -zero, product.values)
    product_steps = product.steps(total)
    clip = quantized_clip(b.options.proj_clip, b.outputs[0].scale, 127)
    least, most = (-clip, clip) if clip > 0 else (-128, 127)

    def project(v: Array) -> None:
        narrowed(v)
        for step in product_steps:
            step()
        np.clip(total + state.zero_point, -128, 127, out=total)
        np.clip(total, least, most, out=h, casting="unsafe")

    return project
