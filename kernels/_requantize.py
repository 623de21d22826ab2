"""From the accumulators of a product to the stored output: bias, activation, requantisation.

Work is cut into blocks that stay in cache, and all of it is done in place.

Integer results equal TensorFlow Lite's fixed-point arithmetic to the bit, and are computed in
float64. With m = q * 2^(shift - 31), s = max(-shift, 0) and x an accumulator, its two roundings are

    floor(m * x + 1/2 + zero + sign(x) * 2^-(s + 1))        (without the last term where s = 0)

since the first rounding moves m * x by at most half of 2^-s, and away from zero where it decides
the second one. All terms are binary fractions; `Scaling.exact` tells when float64 holds every one
of them without rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ._quant import (
    float_activation_range,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
)
from .api import Run
from .types import Array

BLOCK = 1 << 14  # elements that go through all steps together


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
        if vector.size and (vector == vector.flat[0]).all():
            return self.constant(vector.flat[0], vector.dtype.name)
        if self.rows == 1:
            return vector
        tile = self._scratch((self.rows, self.channels), vector.dtype)
        self.setup.append(partial(np.copyto, tile, vector))
        return tile.reshape(-1)

    def constant(self, value: float, dtype: str) -> Array:
        block = constant_block(value, dtype)
        return block[: self.size] if self.size <= BLOCK else np.full(self.size, value, dtype)

    def cut(self, *arrays: Array) -> list[tuple[Array, ...]]:
        """The arrays, all [rows, channels] and contiguous, as flat blocks."""
        flat = [a.reshape(-1) for a in arrays]
        total = flat[0].size
        return [tuple(a[i : i + self.size] for a in flat) for i in range(0, total, self.size)]


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


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """How accumulators become stored values.

    stored = clamp(zero + fixed-point product of (accumulator + offset) and q * 2^(shift - 31)).
    `q`, `shift`, `offset`: int64 [channels]. `wide`: the arithmetic of 64-bit accumulators.
    `rounded`: real multipliers (float64 [channels]) in place of q and shift: one rounding, halves
    away from zero.
    """

    q: Array
    shift: Array
    offset: Array
    zero: int
    low: int
    high: int
    wide: bool = False
    rounded: Array | None = None

    def apply(self, accumulators: Array) -> Array:
        """Stored values of accumulators [..., channels], by integer arithmetic; int64."""
        x = accumulators.astype(np.int64) + self.offset
        if self.rounded is not None:
            real = x * self.rounded
            scaled = np.trunc(real + np.copysign(_BELOW_HALF, real))
        elif self.wide:
            scaled = multiply_by_quantized_multiplier_64(x, self.q, self.shift)
        else:
            scaled = multiply_by_quantized_multiplier(x, self.q, self.shift)
        return np.asarray(np.clip(scaled + self.zero, self.low, self.high), np.int64)

    def factors(self) -> tuple[Array, Array]:
        """Real multipliers, and by how much the first rounding can move a product; float64."""
        if self.wide:
            reduced = np.where(self.q < 0x7FFF0000, (self.q + (1 << 15)) >> 16, 0x7FFF)
            return np.ldexp(reduced.astype(np.float64), self.shift - 15), np.zeros(self.q.shape)
        multiplier = np.ldexp(self.q.astype(np.float64), self.shift - 31)
        right = np.maximum(-self.shift, 0)
        return multiplier, np.where(right > 0, np.ldexp(0.5, -right), 0.0)

    def exact(self, bound: int, folded: bool) -> bool:
        """Whether float64 computes the result without rounding where it is not clamped.

        |accumulators| are <= bound. `folded`: the offset is multiplied by itself and added after
        the accumulator, so that larger numbers occur.
        """
        if self.rounded is not None:
            return False
        multiplier, _ = self.factors()
        precision = 15 if self.wide else 31
        fraction = precision - np.minimum(self.shift, 0)
        largest = float(bound + np.abs(self.offset).max(initial=0))
        top = np.full(multiplier.shape, 2.0 * max(-self.low, self.high) + 4)
        if folded:
            top = np.maximum(top, largest * multiplier)
        # a product has the bits of both factors; a sum reaches from its highest bit to its lowest
        factor = np.minimum(np.log2(np.maximum(top / np.maximum(multiplier, 1e-300), 1)), 53)
        if largest > 2.0**52 or not (factor + precision <= 53).all():
            return False
        return bool((np.log2(top) + 1 + fraction <= 53).all())


# trunc(x + copysign(this, x)) rounds every float64 half away from zero
_BELOW_HALF = np.nextafter(0.5, 0.0)


class Requantizer:
    """Steps from accumulators [rows, channels], integers held as floats, to stored values.

    `bound`: the largest absolute accumulator, without the offset.
    """

    def __init__(
        self, scratch: Callable[..., Array], rows: int, scaling: Scaling, bound: int
    ) -> None:
        self.tiler = tiler = Tiler(scratch, rows, scaling.offset.size)
        self.setup = tiler.setup
        self._scaling = scaling
        folded = scaling.exact(bound, folded=True)
        self._exact = folded or scaling.exact(bound, folded=False)
        if not self._exact:
            return
        self._real = scratch((tiler.size,), np.float64)
        low, high, zero = scaling.low, scaling.high, scaling.zero
        multiplier, nudge = scaling.factors()
        most = bound + float(np.abs(scaling.offset).max(initial=0))
        # 8-bit outputs: through int16, whose min and max are fast, in the range 0 to 255
        self._short = max(-low, high) <= 255 and most * multiplier.max(initial=0) < (1 << 15) - 512
        self._lift = 128 if self._short and low < 0 else 0
        middle = 0.5 + zero + self._lift
        # where no result below `zero` counts, every product that does is positive
        self._signed = low < zero and bool(nudge.any())
        if self._signed:
            # x + middle +- nudge, as x + half + clip(x + half, half - nudge, half + nudge)
            middle, nudge = middle / 2, np.zeros(1)
            _, size = scaling.factors()
            self._sign = scratch((tiler.size,), np.float64)
            self._sign_low = tiler.tile(middle - size)
            self._sign_high = tiler.tile(middle + size)
        constant = middle + nudge + (multiplier * scaling.offset if folded else 0.0)
        terms: list[tuple[Callable[..., Any], Array]] = [
            (np.multiply, multiplier),
            (np.add, np.broadcast_to(constant, multiplier.shape)),
        ]
        self._offset: Array | None = None
        if not folded:
            if most <= 1 << 24:
                self._offset = tiler.tile(scaling.offset.astype(np.float32))
            else:
                terms.insert(0, (np.add, scaling.offset.astype(np.float64)))
        self._terms = [(f, tiler.tile(v)) for f, v in terms]
        if self._short:
            self._stored = scratch((tiler.size,), np.int16)
            self._low = tiler.constant(low + self._lift, "int16")
            self._high = tiler.constant(high + self._lift, "int16")
        else:
            self._low = tiler.constant(low, "float64")
            self._high = tiler.constant(high, "float64")

    def steps(self, accumulators: Array, y: Array) -> list[Run]:
        """Steps from `accumulators` to `y`, both [rows, channels] and contiguous."""
        steps: list[Run] = []
        for a, part in self.tiler.cut(accumulators, y):
            steps += self._block(a, part) if self._exact else [partial(self._by_integers, a, part)]
        return steps

    def _by_integers(self, accumulators: Array, y: Array) -> None:
        y[...] = self._scaling.apply(accumulators.reshape(-1, self.tiler.channels)).reshape(-1)

    def _block(self, accumulators: Array, y: Array) -> list[Run]:
        n = y.size
        d = self._real[:n]
        steps: list[Run] = []
        if self._offset is not None:
            offset = self._offset[:n]
            steps.append(partial(np.add, accumulators, offset, out=accumulators))
        steps.append(partial(np.copyto, d, accumulators))
        steps += [partial(f, d, v[:n], out=d) for f, v in self._terms]
        if self._signed:
            sign = self._sign[:n]
            steps += [
                partial(np.maximum, d, self._sign_low[:n], out=sign),
                partial(np.minimum, sign, self._sign_high[:n], out=sign),
                partial(np.add, d, sign, out=d),
            ]
        low, high = self._low[:n], self._high[:n]
        if not self._short:
            steps += [
                partial(np.floor, d, out=d),
                partial(np.maximum, d, low, out=d),
                partial(np.minimum, d, high, out=d),
                partial(np.copyto, y, d, casting="unsafe"),
            ]
            return steps
        s = self._stored[:n]
        # truncation is floor for what is not clamped to 0
        steps += [
            partial(np.copyto, s, d, casting="unsafe"),
            partial(np.maximum, s, low, out=s),
            partial(np.minimum, s, high, out=s),
            partial(np.copyto, y.view(np.uint8), s, casting="unsafe"),
        ]
        if self._lift:
            bits = y.view(np.uint8)
            steps.append(partial(np.bitwise_xor, bits, np.uint8(128), out=bits))
        return steps
