"""Blocks of rows that stay in cache, and per-channel vectors repeated to go with them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._quant import float_activation_range
from .api import Run
from .types import Array

BLOCK = 1 << 15  # elements that go through all steps together
_ROW = 1 << 10


@functools.lru_cache(maxsize=64)
def constant_block(value: float, dtype: str) -> Array:
    """A block of one value, never written to. numpy's min and max are slow on scalars."""
    return np.full(BLOCK, value, dtype)


class Tiler:
    """Rows of `channels` elements in blocks, and per-channel vectors repeated to fill a block."""

    def __init__(self, scratch: Callable[..., Array], rows: int, channels: int) -> None:
        self.channels = channels
        self.rows = max(1, min(rows, BLOCK // max(channels, 1)))
        self.size = self.rows * channels
        self.setup: list[Run] = []  # to be run first at each invoke: scratch is shared
        self._scratch = scratch

    def tile(self, vector: Array) -> Array:
        """`vector` [channels] repeated, in scratch that `setup` fills."""
        if self.rows == 1:
            return vector
        if vector.size and (vector == vector.flat[0]).all():
            tile = self._scratch((self.size,), vector.dtype)
            self.setup.append(partial(tile.fill, vector.flat[0]))
            return tile
        # by way of a longer row, since short ones are slow to copy
        times = min(self.rows, max(1, _ROW // self.channels))
        tile = self._scratch((-(-self.rows // times), times * self.channels), vector.dtype)
        self.setup.append(partial(np.copyto, tile, np.tile(vector, times)))
        return tile.reshape(-1)[: self.size]

    def operand(self, vector: Array) -> Array:
        """`tile`, or a number where all elements are equal: as fast in sums and products."""
        same = vector.size and (vector == vector.flat[0]).all()
        return np.array(vector.flat[0]) if same else self.tile(vector)

    def constant(self, value: float, dtype: str) -> Array:
        block = constant_block(value, dtype)
        return block[: self.size] if self.size <= BLOCK else np.full(self.size, value, dtype)

    def cut(self, *arrays: Array) -> list[tuple[Array, ...]]:
        """The arrays, all [rows, channels] and contiguous, as flat blocks."""
        flat = [a.reshape(-1) for a in arrays]
        total = flat[0].size
        return [tuple(a[i : i + self.size] for a in flat) for i in range(0, total, self.size)]


def head(operand: Array, size: int) -> Array:
    return operand[:size] if operand.ndim else operand


def activate(
    tiler: Tiler, bias: Array | None, activation: str, dtype: Any
) -> Callable[[Array], list[Run]]:
    """A function that gives, for float rows [rows, channels], the steps that add `bias` [channels]
    and apply a fused activation, in place."""
    name = np.dtype(dtype).name
    tanh = activation == "TANH"
    low, high = float_activation_range("NONE" if tanh else activation)
    operations: list[tuple[Callable[..., Any], Array]] = []
    if bias is not None:
        operations.append((np.add, tiler.tile(bias)))
    if low > -math.inf:
        operations.append((np.maximum, tiler.constant(low, name)))
    if high < math.inf:
        operations.append((np.minimum, tiler.constant(high, name)))

    def steps(y: Array) -> list[Run]:
        made: list[Run] = [
            partial(function, part, other[: part.size], out=part)
            for (part,) in tiler.cut(y)
            for function, other in operations
        ]
        return [*made, partial(np.tanh, y, out=y)] if tanh else made

    return steps
