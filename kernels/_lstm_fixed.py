"""The parts of an integer LSTM step: products, gates, peepholes, layer normalisation.

All numbers are integers held as float64, exact to the bit of the reference's fixed-point form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from ._fixedpoint16 import logistic_table, tanh_table
from ._inverse_sqrt import inverse_sqrt
from ._lstm_layout import Layout, Sizes
from ._matmul import exact_product, operand_type
from ._quant import multiply_by_quantized_multiplier, quantize_multiplier
from .api import Binding, Run, require
from .types import Array

Scratch = Callable[..., Array]
_HALF = np.float64(0.5)


@functools.cache
def gate_table(exponent: int) -> Array:
    """For z from -32768: sigmoid(z), then for the cell gate tanh(z) in units of the cell.

    Scaled by powers of two, so that the products with the cell need no shift before rounding.
    """
    sigmoid = np.roll(logistic_table(), 32768) * 2.0**-15
    return np.concatenate([sigmoid, np.roll(tanh_table(3), 32768) * 2.0 ** -(15 + exponent)])


@functools.cache
def cell_table(exponent: int) -> Array:
    """tanh of the cell, by bit patterns; times 2^15, which its product with a gate takes away."""
    return tanh_table(15 + exponent) * 2.0**15


def repeat(pairs: Sequence[tuple[int, int]], count: int) -> tuple[Array, Array]:
    q, shift = (np.repeat(np.array(v, np.int64), count) for v in zip(*pairs, strict=True))
    return q, shift


def round_in_place(v: Array, spare: Array) -> None:
    """To the nearest integer in place, halves away from zero; v has few enough bits for this."""
    np.copysign(_HALF, v, out=spare)
    np.add(v, spare, out=v)
    np.trunc(v, out=v)


class Product:
    """(x - zero) . weights + bias, times a multiplier for each unit; not saturated.

    x is read from `values`, [count, depth] floats that hold integers.
    """

    def __init__(
        self,
        scratch: Scratch,
        count: int,
        weights: Array,
        bias: Array,
        zero: int,
        q: Array,
        shift: Array,
    ) -> None:
        units, depth = weights.shape
        largest = 128 * 128
        kind = operand_type(depth, largest)
        self.values = scratch((count, depth), kind)
        self._total = scratch((count, units), kind)
        self._multiply = exact_product(
            self.values, weights.T.astype(kind), self._total, largest, scratch
        )
        self._offset = bias - zero * weights.sum(axis=1, dtype=np.int64)
        self.q, self.shift = q, shift
        bound = largest * depth + int(np.abs(self._offset).max(initial=0))
        left = int(shift.max(initial=0))
        self._exact = bound << max(left, 0) < 1 << 22
        self._spare = scratch((count, units), np.float64)

    def steps(self, y: Array) -> list[Run]:
        """Steps that set y, float64 [count, units], from the present `values`."""
        return [self._multiply, self._by_floats(y) if self._exact else self._by_integers(y)]

    def _by_integers(self, y: Array) -> Run:
        def scale() -> None:
            total = self._total.astype(np.int64) + self._offset
            np.copyto(y, multiply_by_quantized_multiplier(total, self.q, self.shift))

        return scale

    def _by_floats(self, y: Array) -> Run:
        """The same: with sums below 2^22 float64 holds every term to its last bit."""
        shape = y.shape
        left, right = np.maximum(self.shift, 0), np.maximum(-self.shift, 0)
        factor = np.ldexp(self.q.astype(np.float64), left - 31)
        first = np.broadcast_to(factor, shape).copy()
        constant = np.broadcast_to(factor * self._offset + 0.5, shape).copy()
        second = np.broadcast_to(np.ldexp(1.0, -right), shape).copy()
        total, spare = self._total, self._spare

        def scale() -> None:
            np.multiply(total, first, out=y)
            np.add(y, constant, out=y)
            np.floor(y, out=y)
            np.multiply(y, second, out=y)
            round_in_place(y, spare)

        return scale


class Peephole:
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
        self.weights = np.zeros((batch, len(inputs), s.cells), np.int64)
        for k, i in enumerate(inputs):
            flat = np.zeros(batch * s.cells, np.int64)
            flat[: batch * width] = np.tile(b.xi(i)[:width], batch)
            self.weights[:, k] = flat.reshape(batch, s.cells)
        pairs = [
            quantize_multiplier(float(np.float32(2.0**exponent * b.input(i).scale / float(scale))))
            for i, scale in zip(inputs, gate_scale, strict=False)
        ]
        self.q, self.shift = (np.array(v, np.int64)[:, None] for v in zip(*pairs, strict=True))

    def early(self, z3: Array, c: Array) -> None:
        self._add(z3[:, 1:-1], c, slice(1, None))

    def late(self, z3: Array, c: Array) -> None:
        self._add(z3[:, :1], c, slice(0, 1))

    def _add(self, z: Array, c: Array, which: slice) -> None:
        product = c[:, None].astype(np.int64) * self.weights[:, which]
        product = multiply_by_quantized_multiplier(product, self.q[which], self.shift[which])
        np.clip(z + product, -32768, 32767, out=z)


class Norm:
    """Layer normalisation of each gate, in fixed point."""

    def __init__(self, b: Binding, at: Layout, order: Sequence[int], cells: int) -> None:
        self.weights = np.stack([b.xi(at.norm[g]) for g in order]).astype(np.int64)
        self.bias = np.stack([b.xi(at.bias[g]) for g in order]).astype(np.int64)
        scales = [np.float32(b.input(at.norm[g]).scale) for g in order]
        self.q, shift = (
            v[:, None] for v in repeat([quantize_multiplier(float(v)) for v in scales], 1)
        )
        self.shift = shift + 12
        require(
            bool(max(scales) < 2**31 / 10000),
            f"layer normalisation weights have the scales {[float(v) for v in scales]}; "
            "taken: less than 214748",
        )
        # what stands for a variance below 1
        self.guard = np.array([max(1, int(np.float32(10000) * v)) for v in scales])[:, None]
        self._cells = cells

    def __call__(self, z3: Array, first: int, last: int) -> None:
        n = self._cells
        z = z3[:, first:last].astype(np.int64)
        which = slice(first, last)
        mean = _truncate(z.sum(axis=2, keepdims=True) * 1024, n)
        squares = np.square(z).sum(axis=2, keepdims=True)
        variance = _truncate(squares * ((1 << 20) // n) - mean * mean, 1 << 20)
        variance = np.where(variance < 1, self.guard[which], variance)
        normal = multiply_by_quantized_multiplier(1024 * z - mean, *inverse_sqrt(variance))
        weighted = (normal * self.weights[which] + self.bias[which]).astype(np.int32)
        weighted = weighted.astype(np.int64)
        weighted = _truncate(weighted + np.where(weighted > 0, 512, -512), 1024)
        result = multiply_by_quantized_multiplier(weighted, self.q[which], self.shift[which])
        np.clip(result, -32768, 32767, out=z3[:, which])


def _truncate(a: Array, d: int) -> Array:
    """C's division."""
    return np.asarray(np.sign(a) * (np.abs(a) // d))


def narrow(
    scratch: Scratch, multiplier: tuple[int, int], zero: int, y: Array
) -> Callable[[Array], None]:
    """A callable that sets y = v requantised to int8; the steps of `_quant`, in place."""
    q, shift = multiplier
    wide, sign = scratch(y.shape, np.int64), scratch(y.shape, np.int64)
    shape = y.shape
    factor, half_high = np.full(shape, q, np.int64), np.full(shape, 1 << 30, np.int64)
    by_31, right = np.full(shape, 31, np.int64), np.full(shape, max(-shift, 0), np.int64)
    half = np.full(shape, (1 << max(-shift, 0)) >> 1, np.int64)
    by_63 = np.full(shape, 63, np.int64)
    offset = np.full(shape, zero, np.int64)
    least, most = np.full(shape, -128, np.int64), np.full(shape, 127, np.int64)
    # an output gate times a tanh is at most 2^30, so only right shifts keep it within int8
    require(shift < 0, f"the intermediate scale of the hidden state is too small: {multiplier}")

    def run(v: Array) -> None:
        np.copyto(wide, v, casting="unsafe")
        np.multiply(wide, factor, out=wide)
        np.add(wide, half_high, out=wide)
        np.right_shift(wide, by_31, out=wide)
        np.right_shift(wide, by_63, out=sign)
        np.add(wide, sign, out=wide)
        np.add(wide, half, out=wide)
        np.right_shift(wide, right, out=wide)
        np.add(wide, offset, out=wide)
        np.maximum(wide, least, out=wide)
        np.minimum(wide, most, out=wide)
        np.copyto(y, wide, casting="unsafe")

    return run
