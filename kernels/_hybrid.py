"""Products of float activations with integer weights ("hybrid").

Activations are quantised row by row at each call. The integers stand in float32 arrays, so that
BLAS multiplies them; sums up to 2^24 are exact, and beyond that the error stays far below the
quantisation step. Source of the formulas: TensorFlow Lite's dynamic range quantisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .types import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Scratch = Callable[[Sequence[int], "DTypeLike"], Array]

# with this in place of 0.5, trunc(x + copysign(half, x)) rounds every float32 half away from zero
_HALF = np.nextafter(np.float32(0.5), np.float32(0))


class RowQuantizer:
    """Quantises each row of a float32 matrix to int8, with its own scale and zero point.

    After `quantizer(x)`: x[r] ~ scale[r] * (values[r] - zero[r]). `values` [rows, depth], `scale`
    and `zero` [rows, 1] are float32 arrays that stay where they are. `zero` is None in the
    symmetric form.
    """

    def __init__(self, scratch: Scratch, rows: int, depth: int, asymmetric: bool) -> None:
        self.values = scratch((rows, depth), np.float32)
        self.scale = scratch((rows, 1), np.float32)
        self.zero = scratch((rows, 1), np.float32) if asymmetric else None
        self._low = scratch((rows, 1), np.float32)
        self._high = scratch((rows, 1), np.float32)
        self._half = scratch((rows, depth), np.float32)

    def __call__(self, x: Array) -> None:
        np.min(x, axis=1, keepdims=True, out=self._low, initial=0.0)
        np.max(x, axis=1, keepdims=True, out=self._high, initial=0.0)
        if self.zero is None:
            self._symmetric(x)
        else:
            self._asymmetric(x, self.zero)

    def _symmetric(self, x: Array) -> None:
        top, inverse = self._high, self._low
        np.maximum(top, np.negative(self._low, out=self._low), out=top)
        top[top == 0] = 127  # an all-zero row has scale 1
        np.divide(top, np.float32(127), out=self.scale)
        np.divide(np.float32(127), top, out=inverse)
        np.multiply(x, inverse, out=self.values)
        self._round()

    def _asymmetric(self, x: Array, zero: Array) -> None:
        low, high = self._low.astype(np.float64), self._high.astype(np.float64)
        scale = (high - low) / 255
        scale[scale == 0] = 1
        from_low, from_high = -128 - low / scale, 127 - high / scale
        nearer_low = 128 + np.abs(low / scale) < 127 + np.abs(high / scale)
        point = np.clip(np.where(nearer_low, from_low, from_high), -128, 127)
        zero[...] = np.trunc(point + np.copysign(0.5, point))
        # TensorFlow Lite gives an all-zero row the zero point 0
        zero[low == high] = 0
        self.scale[...] = scale
        np.multiply(x, np.divide(np.float32(1), self.scale, out=self._low), out=self.values)
        np.add(self.values, zero, out=self.values)
        self._round()
        np.clip(self.values, -128, 127, out=self.values)

    def _round(self) -> None:
        np.copysign(_HALF, self.values, out=self._half)
        np.add(self.values, self._half, out=self.values)
        np.trunc(self.values, out=self.values)


class HybridWeights:
    """Integer weights [units, depth], ready for products with the rows of a `RowQuantizer`.

    `scale` broadcasts to [units]. Matrices with the same input can be stacked, and their scales.
    """

    def __init__(self, weights: Array, scale: Array | float) -> None:
        self.matrix = np.ascontiguousarray(weights.T, np.float32)
        self.sums = weights.sum(axis=1, dtype=np.int64).astype(np.float32)
        self.scale = np.broadcast_to(np.asarray(scale, np.float32), self.sums.shape).copy()

    def multiply(self, rows: RowQuantizer, out: Array, scratch: Array) -> None:
        """out[r, u] = x[r] . weights[u]; `scratch` [rows, units] must not overlap `out`."""
        np.matmul(rows.values, self.matrix, out=out)
        if rows.zero is not None:
            np.subtract(out, np.multiply(rows.zero, self.sums, out=scratch), out=out)
        np.multiply(rows.scale, self.scale, out=scratch)
        np.multiply(out, scratch, out=out)
