"""LSTM layers on int8 with 16-bit gates and cell ("8x8_16"), exact to the bit.

Gates are Q(3) int16 values side by side in one row: output, input, forget, cell. Every sum that
makes them saturates on its own, as in the reference. Source: TensorFlow Lite's integer LSTM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ._fixedpoint16 import logistic_table, tanh_table
from ._inverse_sqrt import inverse_sqrt
from ._lstm_layout import Layout, Sizes, all_constant
from ._matmul import exact_product, operand_type
from ._quant import multiply_by_quantized_multiplier, quantize_multiplier
from ._recurrent import by_steps, rows
from ._requantize import Requantizer, Scaling
from .api import Binding, NodeSpec, Run, require
from .types import Array

Scratch = Callable[..., Array]
_WIDE = (1 << 31) - 1


def cell_exponent(node: NodeSpec | Binding, at: Layout) -> int:
    """The scale of the cell state as a power of two."""
    scale = node.input(at.cell_state).scale
    exponent = round(math.log2(scale)) if scale > 0 else 0
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


def _order(s: Sizes) -> tuple[int, ...]:
    return (3, 1, 2) if s.cifg else (3, 0, 1, 2)


def _build(b: Binding, at: Layout, s: Sizes, x: Array, out: Array, scratch: Scratch) -> Run:
    steps, batch, _ = x.shape
    n, order = s.cells, _order(s)
    wide = len(order) * n
    f32 = np.float32
    gate_scale = [f32(b.intermediates[g].scale) if s.norm else f32(2**-12) for g in order]
    hidden = b.intermediates[4]
    state = b.input(at.output_state)
    h = b.xi(at.output_state).reshape(-1).view(np.int8)[: batch * s.outputs]
    h = h.reshape(batch, s.outputs)
    c = b.xi(at.cell_state).reshape(batch, n)
    exponent = cell_exponent(b, at)

    def stacked(inputs: Sequence[int]) -> Array:
        return np.concatenate([b.xi(inputs[g]) for g in order])

    def gates(inputs: Sequence[int], source: float) -> tuple[Array, Array]:
        """(q, shift) for each gate and cell."""
        pairs = [
            quantize_multiplier(float(f32(b.input(inputs[g]).scale) * f32(source) / scale))
            for g, scale in zip(order, gate_scale, strict=True)
        ]
        return _repeat(pairs, n)

    bias = np.zeros(wide, np.int64)
    if not s.norm:
        bias += np.concatenate([b.xi(at.bias[g]) for g in order])
    x_zero = b.input(0).zero_point
    early = scratch((steps * batch, wide), np.int32)
    each = by_steps(early, x)
    from_input = _Product(
        scratch, rows(x), stacked(at.inputs), bias, x_zero, *gates(at.inputs, b.input(0).scale)
    )
    input_steps = from_input.steps(early)
    z = scratch((batch, wide), np.int32)
    from_state = _Product(
        scratch,
        h,
        stacked(at.recurrent),
        np.zeros(wide, np.int64),
        state.zero_point,
        *gates(at.recurrent, state.scale),
    )
    state_steps = from_state.steps(z)

    z3 = z.reshape(batch, len(order), n)
    peephole = _Peephole(b, at, s, exponent, gate_scale) if s.peephole else None
    norm = _Norm(b, at, order, n) if s.norm else None
    open_gates = scratch((batch, len(order), n), np.int16)
    o, f, g = open_gates[:, 0], open_gates[:, -2], open_gates[:, -1]
    start = 1 if s.peephole else 0
    logistic, tanh_gate, tanh_cell = logistic_table(), tanh_table(3), tanh_table(15 + exponent)
    output = _output(b, at, s, scratch, h, hidden.scale, hidden.zero_point)
    cell_clip = _quantized(b.options.cell_clip, b.input(at.cell_state).scale, 32767)
    kept, added = scratch((batch, n), np.int32), scratch((batch, n), np.int32)
    spare = scratch((batch, n), np.int32)

    def run() -> None:
        for step in input_steps:
            step()
        np.clip(early, -32768, 32767, out=early)
        for t in range(steps):
            for step in state_steps:
                step()
            np.add(z, each[t], out=z)
            np.clip(z, -32768, 32767, out=z)
            if peephole is not None:
                peephole.early(z3, c)
            if norm is not None:
                norm(z3, start, len(order))
            open_gates[:, start:-1] = logistic.take(z3[:, start:-1], mode="wrap")
            open_gates[:, -1] = tanh_gate.take(z3[:, -1], mode="wrap")
            np.multiply(f, c, out=kept, dtype=np.int32)
            _shift_down(kept, 15, spare)
            i = np.subtract(np.int16(32767), f) if s.cifg else open_gates[:, 1]
            np.multiply(i, g, out=added, dtype=np.int32)
            _shift_down(added, 30 + exponent, spare)
            np.add(kept, added, out=kept)
            np.clip(kept, -32768, 32767, out=kept)
            if cell_clip > 0:
                np.clip(kept, -cell_clip, cell_clip, out=kept)
            np.copyto(c, kept, casting="unsafe")
            if peephole is not None:
                peephole.late(z3, c)
                if norm is not None:
                    norm(z3, 0, 1)
                open_gates[:, 0] = logistic.take(z3[:, 0], mode="wrap")
            np.multiply(o, tanh_cell.take(c, mode="wrap"), out=kept, dtype=np.int32)
            output(kept)
            np.copyto(out[t], h)

    return run


def _quantized(clip: float, scale: float, most: int) -> int:
    return min(int(np.float32(clip) / np.float32(scale)), most)


def _repeat(pairs: Sequence[tuple[int, int]], count: int) -> tuple[Array, Array]:
    q, shift = (np.repeat(np.array(v, np.int64), count) for v in zip(*pairs, strict=True))
    return q, shift


def _shift_down(v: Array, shift: int, spare: Array) -> None:
    """v / 2^shift in place, rounded to nearest, halves away from zero."""
    np.right_shift(v, 31, out=spare)
    np.add(v, spare, out=v)
    np.add(v, np.int32(1 << (shift - 1)), out=v)
    np.right_shift(v, shift, out=v)


class _Product:
    """(x - zero) . weights + bias, times a multiplier for each unit; not saturated."""

    def __init__(
        self,
        scratch: Scratch,
        x: Array,
        weights: Array,
        bias: Array,
        zero: int,
        q: Array,
        shift: Array,
    ) -> None:
        count, depth = x.shape
        largest = 128 * 128
        kind = operand_type(depth, largest)
        self._scratch, self._x = scratch, x
        self._values = scratch((count, depth), kind)
        self._weights = weights.T.astype(kind)
        self._total = scratch((count, len(weights)), kind)
        self._largest = largest
        offset = bias - zero * weights.sum(axis=1, dtype=np.int64)
        scaling = Scaling(q, shift, offset, 0, -_WIDE, _WIDE)
        self._requantizer = Requantizer(scratch, count, scaling, largest * depth)

    def steps(self, y: Array) -> list[Run]:
        def load() -> None:
            np.copyto(self._values, self._x)

        multiply = exact_product(
            self._values, self._weights, self._total, self._largest, self._scratch
        )
        scale = self._requantizer.steps(self._total, y)
        return [load, multiply, *self._requantizer.setup, *scale]


class _Peephole:
    """What the cell adds to the gates: input and forget before its update, output after.

    With a projection the reference steps through the cells by the number of outputs: element k of
    the whole batch has weight k modulo that number, and the last elements have none. Models are
    calibrated with it, so it is done here too.
    """

    def __init__(
        self, b: Binding, at: Layout, s: Sizes, exponent: int, gate_scale: Sequence[np.float32]
    ) -> None:
        batch = b.input(at.cell_state).size // max(s.cells, 1)
        width = min(s.outputs, s.cells)
        inputs = [at.peephole[2], at.peephole[1]]
        if not s.cifg:
            inputs.insert(1, at.peephole[0])
        self._weights = np.zeros((batch, len(inputs), s.cells), np.int64)
        for k, i in enumerate(inputs):
            flat = np.zeros(batch * s.cells, np.int64)
            flat[: batch * width] = np.tile(b.xi(i)[:width], batch)
            self._weights[:, k] = flat.reshape(batch, s.cells)
        pairs = [
            quantize_multiplier(float(np.float32(2.0**exponent * b.input(i).scale / float(scale))))
            for i, scale in zip(inputs, gate_scale, strict=False)
        ]
        self._q, self._shift = (np.array(v, np.int64)[:, None] for v in zip(*pairs, strict=True))

    def early(self, z3: Array, c: Array) -> None:
        self._add(z3[:, 1:-1], c, slice(1, None))

    def late(self, z3: Array, c: Array) -> None:
        self._add(z3[:, :1], c, slice(0, 1))

    def _add(self, z: Array, c: Array, which: slice) -> None:
        product = c[:, None].astype(np.int64) * self._weights[:, which]
        product = multiply_by_quantized_multiplier(product, self._q[which], self._shift[which])
        np.clip(z + product, -32768, 32767, out=z, casting="unsafe")


class _Norm:
    """Layer normalisation of each gate, in fixed point."""

    def __init__(self, b: Binding, at: Layout, order: Sequence[int], cells: int) -> None:
        self._weights = np.stack([b.xi(at.norm[g]) for g in order]).astype(np.int64)
        self._bias = np.stack([b.xi(at.bias[g]) for g in order]).astype(np.int64)
        scales = [np.float32(b.input(at.norm[g]).scale) for g in order]
        self._q, shift = (
            v[:, None] for v in _repeat([quantize_multiplier(float(v)) for v in scales], 1)
        )
        self._shift = shift + 12
        # what stands for a variance below 1
        self._guard = np.array([max(1, int(np.float32(10000) * v)) for v in scales])[:, None]
        self._cells = cells

    def __call__(self, z3: Array, first: int, last: int) -> None:
        n = self._cells
        z = z3[:, first:last].astype(np.int64)
        which = slice(first, last)
        mean = _truncate(z.sum(axis=2, keepdims=True) * 1024, n)
        squares = np.square(z).sum(axis=2, keepdims=True)
        variance = _truncate(squares * ((1 << 20) // n) - mean * mean, 1 << 20)
        variance = np.where(variance < 1, self._guard[which], variance)
        normal = multiply_by_quantized_multiplier(1024 * z - mean, *inverse_sqrt(variance))
        weighted = (normal * self._weights[which] + self._bias[which]).astype(np.int32)
        weighted = weighted.astype(np.int64)
        weighted = _truncate(weighted + np.where(weighted > 0, 512, -512), 1024)
        result = multiply_by_quantized_multiplier(weighted, self._q[which], self._shift[which])
        np.clip(result, -32768, 32767, out=z3[:, which], casting="unsafe")


def _truncate(a: Array, d: int) -> Array:
    """C's division."""
    return np.asarray(np.sign(a) * (np.abs(a) // d))


def _output(
    b: Binding, at: Layout, s: Sizes, scratch: Scratch, h: Array, scale: float, zero: int
) -> Callable[[Array], None]:
    """A callable that sets the output state from output gate times tanh of the cell."""
    f32 = np.float32
    q, shift = quantize_multiplier(float(f32(2.0**-15 / float(f32(scale)) * 2.0**-15)))

    def narrow(v: Array, offset: int, y: Array) -> None:
        scaled = multiply_by_quantized_multiplier(v, q, shift)
        np.clip(scaled + offset, -128, 127, out=y, casting="unsafe")

    if not s.projection:
        return lambda v: narrow(v, zero, h)
    state = b.input(at.output_state)
    weights = b.xi(at.projection)
    bias = np.zeros(s.outputs, np.int64)
    if b.optional(at.projection_bias) is not None:
        bias += b.xi(at.projection_bias)
    real = f32(b.input(at.projection).scale) * f32(scale) / f32(state.scale)
    pair = _repeat([quantize_multiplier(float(real))], s.outputs)
    small = scratch((h.shape[0], s.cells), np.int8)
    total = scratch(h.shape, np.int32)
    # the reference takes the zero point away twice, in effect: it is stored negated
    product = _Product(scratch, small, weights, bias, -zero, *pair)
    product_steps = product.steps(total)
    clip = _quantized(b.options.proj_clip, b.outputs[0].scale, 127)

    def project(v: Array) -> None:
        narrow(v, -zero, small)
        for step in product_steps:
            step()
        np.clip(total + state.zero_point, -128, 127, out=h, casting="unsafe")
        if clip > 0:
            np.clip(h, -clip, clip, out=h)

    return project
