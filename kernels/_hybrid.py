"""Products of float activations with integer weights ("hybrid").

Activations are quantised row by row at each call. The integers stand in float32 arrays, so that
BLAS multiplies them; sums up to 2^24 are exact, and beyond that the error stays far below the
quantisation step. Source of the formulas: TensorFlow Lite's dynamic range quantisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .api import Shape
from .types import Array

# with this in place of 0.5, trunc(x + copysign(half, x)) rounds every float32 half away from zero
_HALF = np.nextafter(np.float32(0.5), np.float32(0))

# 127 over this is still a float32
_TINY = np.float32(1e-36)


class RowQuantizer:
    """Quantises each row (last dimension) of a float32 array to int8, with a scale of its own.

    After `quantizer(x)`: x ~ scale * values. `values` has the shape of x; it holds the integers,
    less the row's zero point in the asymmetric form. `scale` has 1 as its last dimension. Both are
    float32 and stay where they are.
    """

    def __init__(self, scratch: Callable[..., Array], shape: Shape, asymmetric: bool) -> None:
        rows = (*shape[:-1], 1)
        self.values = scratch(shape, np.float32)
        self.scale = scratch(rows, np.float32)
        self._low = scratch(rows, np.float32)
        self._high = scratch(rows, np.float32)
        self._half = scratch(shape, np.float32)
        self._quantize = self._asymmetric if asymmetric else self._symmetric

    def __call__(self, x: Array) -> None:
        self._quantize(x)

    def _symmetric(self, x: Array) -> None:
        top, inverse = self._high, self._low
        np.abs(x, out=self.values)
        np.maximum.reduce(self.values, axis=-1, keepdims=True, out=top, initial=0.0)
        np.maximum(top, _TINY, out=top)  # whatever the scale of an all-zero row, its values are 0
        np.divide(top, np.float32(127), out=self.scale)
        np.divide(np.float32(127), top, out=inverse)
        np.multiply(x, inverse, out=self.values)
        self._round()

    def _asymmetric(self, x: Array) -> None:
        np.minimum.reduce(x, axis=-1, keepdims=True, out=self._low, initial=0.0)
        np.maximum.reduce(x, axis=-1, keepdims=True, out=self._high, initial=0.0)
        low, high = self._low.astype(np.float64), self._high.astype(np.float64)
        scale = np.subtract(self._high, self._low).astype(np.float64) / 255
        scale[scale == 0] = 1
        from_low, from_high = -128 - low / scale, 127 - high / scale
        nearer_low = 128 + np.abs(low / scale) < 127 + np.abs(high / scale)
        point = np.clip(np.where(nearer_low, from_low, from_high), -128, 127)
        zero = np.trunc(point + np.copysign(0.5, point)).astype(np.float32)
        zero[low == high] = 0
        self.scale[...] = scale
        np.multiply(x, np.divide(np.float32(1), self.scale, out=self._low), out=self.values)
        # rounded before the zero point is added, which halves notice
        self._round()
        np.clip(self.values, -128 - zero, 127 - zero, out=self.values)

    def _round(self) -> None:
        np.copysign(_HALF, self.values, out=self._half)
        np.add(self.values, self._half, out=self.values)
        np.trunc(self.values, out=self.values)


class HybridWeights:
    """Integer weights [..., units, depth], ready for products with the rows of a `RowQuantizer`.

    `scale`: one, or one for each unit. Matrices of the same input can be stacked along the units,
    and their scales.
    """

    def __init__(self, weights: Array, scale: Array | float) -> None:
        self._stored = np.empty_like(weights, np.float32)
        self.matrix = self._stored.swapaxes(-1, -2)
        self.scale = np.asarray(scale, np.float32).reshape(-1)
        self.load(weights)

    def load(self, weights: Array) -> None:
        """Takes other values of the same shape."""
        np.copyto(self._stored, weights)

    def multiply(self, rows: RowQuantizer, out: Array) -> None:
        """out[..., r, u] = x[..., r, :] . weights[..., u, :], both sides broadcast."""
        np.matmul(rows.values, self.matrix, out=out)
        if self.scale.size == 1:
            np.multiply(out, rows.scale * self.scale, out=out)
        else:
            np.multiply(out, rows.scale, out=out)
            np.multiply(out, self.scale, out=out)
