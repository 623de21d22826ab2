"""Where the sums of a convolution go, and what is done with them: one class for each kind of node.

`setup` are steps to be run first at each call. `block(images, rows)` gives, for a block of output
rows, the array [positions, units] that takes the sums and the steps that turn it into outputs.
Each thread needs an object of its own, for they hold working memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ._requantize import Arithmetic, Requantizer
from ._tiles import Tiler, activate
from .api import Run
from .types import Array

Scratch = Callable[..., Array]


class Outputs(Protocol):
    setup: list[Run]

    def block(self, images: slice, rows: slice) -> tuple[Array, Sequence[Run]]: ...


def _matrix(y: Array, images: slice, rows: slice) -> Array:
    return y[images, rows].reshape(-1, y.shape[-1])


class FloatOutputs:
    """Bias and activation on float outputs y [batch, height, width, units]."""

    def __init__(self, scratch: Scratch, y: Array, bias: Array | None, activation: str) -> None:
        self._y = y
        units = y.shape[-1]
        tiler = Tiler(scratch, y.size // units, units)
        self.setup = tiler.setup
        bias = None if bias is None else bias.reshape(-1)
        self._activate = activate(tiler, bias, activation, y.dtype)

    def block(self, images: slice, rows: slice) -> tuple[Array, Sequence[Run]]:
        y = _matrix(self._y, images, rows)
        return y, self._activate(y)


class HybridOutputs(FloatOutputs):
    """Sums of integers that stand for floats: scaled by image and by unit, then as floats."""

    def __init__(
        self,
        scratch: Scratch,
        y: Array,
        bias: Array | None,
        activation: str,
        image_scale: Array,
        unit_scale: Array,
    ) -> None:
        super().__init__(scratch, y, bias, activation)
        self._image_scale = image_scale.reshape(-1, 1, 1, 1)
        self._unit_scale = unit_scale

    def block(self, images: slice, rows: slice) -> tuple[Array, Sequence[Run]]:
        sums, after = super().block(images, rows)
        y, scale = self._y[images, rows], self._image_scale[images]
        return sums, [
            partial(np.multiply, y, scale, out=y),
            partial(np.multiply, y, self._unit_scale, out=y),
            *after,
        ]


class IntegerOutputs:
    """Requantisation of integer sums, held as floats of type `dtype`."""

    def __init__(
        self, scratch: Scratch, y: Array, arithmetic: Arithmetic, dtype: Any, most: int
    ) -> None:
        self._y = y
        self._requantizer = Requantizer(scratch, arithmetic)
        self.setup = self._requantizer.setup
        self._sums = scratch((most, y.shape[-1]), dtype)

    def block(self, images: slice, rows: slice) -> tuple[Array, Sequence[Run]]:
        y = _matrix(self._y, images, rows)
        sums = self._sums[: y.shape[0]]
        return sums, self._requantizer.steps(sums, y)
