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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ._lines import Lines, find_lines
from ._quant import (
    float_activation_range,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
)
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
        if vector.size and (vector == vector.flat[0]).all():
            return self.constant(vector.flat[0], vector.dtype.name)
        if self.rows == 1:
            return vector
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


def _head(operand: Array, size: int) -> Array:
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

    def without_fixed(self, bound: Array) -> Scaling:
        """The same, but for channels of nothing but bias (bound 0), whose multiplier may be any:
        here it is 1."""
        fixed = bound == 0
        if not fixed.any():
            return self
        value = self.apply(np.zeros(bound.shape, np.int64)) - self.zero
        rounded = None if self.rounded is None else np.where(fixed, 1.0, self.rounded)
        # the 64-bit form cuts q to 16 bits: 2^14 there is 2^30 here
        return replace(
            self,
            q=np.where(fixed, 1 << 30, self.q),
            shift=np.where(fixed, 1, self.shift),
            offset=np.where(fixed, value, self.offset),
            rounded=rounded,
        )

    def factors(self) -> tuple[Array, Array]:
        """Real multipliers, and by how much the first rounding can move a product; float64."""
        if self.wide:
            reduced = np.where(self.q < 0x7FFF0000, (self.q + (1 << 15)) >> 16, 0x7FFF)
            return np.ldexp(reduced.astype(np.float64), self.shift - 15), np.zeros(self.q.shape)
        multiplier = np.ldexp(self.q.astype(np.float64), self.shift - 31)
        right = np.maximum(-self.shift, 0)
        return multiplier, np.where(right > 0, np.ldexp(0.5, -right), 0.0)

    def exact(self, bound: Array, folded: bool) -> Array:
        """For which channels float64 computes the result without rounding where not clamped.

        |accumulators| are <= bound [channels]. `folded`: the offset is multiplied by itself and
        added after the accumulator, so that larger numbers occur.
        """
        multiplier, _ = self.factors()
        precision = 15 if self.wide else 31
        fraction = precision - np.minimum(self.shift, 0)
        largest = (bound + np.abs(self.offset)).astype(np.float64)
        top = np.full(multiplier.shape, 2.0 * max(-self.low, self.high) + 4)
        if folded:
            top = np.maximum(top, largest * multiplier)
        # a product has the bits of both factors; a sum reaches from its highest bit to its lowest
        factor = np.minimum(np.log2(np.maximum(top / np.maximum(multiplier, 1e-300), 1)), 53)
        fits = (largest <= 2.0**52) & (factor + precision <= 53)
        return np.asarray(fits & (np.log2(top) + 1 + fraction <= 53))


# trunc(x + copysign(this, x)) rounds every float64 half away from zero
_BELOW_HALF = np.nextafter(0.5, 0.0)


class Requantizer:
    """Steps from accumulators [rows, channels], integers held as floats, to stored values.

    `bound` [channels]: the largest absolute accumulators, without the offset. `dtype`: their type.
    The steps may change the accumulators.
    """

    def __init__(
        self,
        scratch: Callable[..., Array],
        rows: int,
        scaling: Scaling,
        bound: Array,
        dtype: Any = np.float32,
    ) -> None:
        self.setup: list[Run] = []
        self._scaling = scaling = scaling.without_fixed(bound)
        self._tiler = tiler = Tiler(scratch, rows, scaling.offset.size)
        self._form: Form | None = None
        right = np.ones(scaling.offset.shape, np.bool_)  # the channels that the form is right for
        lines = None
        if dtype == np.float32 and _worth_proof(rows, scaling):
            lines = find_lines(scaling, bound)
        if scaling.rounded is not None:
            self._form = _Rounded(tiler, scratch, scaling, scaling.rounded)
        elif lines is not None and _mostly(lines.proved):
            self._form, right = _Float32(tiler, scratch, scaling, lines), lines.proved
        elif _mostly(exact := scaling.exact(bound, folded=False)):
            self._form, right = _Float64(tiler, scratch, scaling, bound), exact
        self._patch: _Patch | None = None
        if not right.all():
            self._patch = _Patch(scratch, rows, scaling, bound, np.nonzero(~right)[0])
        self.setup += [*tiler.setup, *(self._patch.setup if self._patch else ())]

    def steps(self, accumulators: Array, y: Array) -> list[Run]:
        """Steps from `accumulators` to `y`, both [rows, channels] and contiguous."""
        steps: list[Run] = []
        if self._patch is not None:
            steps += self._patch.before(accumulators)
        for a, part in self._tiler.cut(accumulators, y):
            if self._form is None:
                steps.append(partial(self._by_integers, a, part))
            else:
                steps += self._form.block(a, part)
        if self._patch is not None:
            steps += self._patch.after(y)
        return steps

    def _by_integers(self, accumulators: Array, y: Array) -> None:
        y[...] = self._scaling.apply(accumulators.reshape(-1, self._tiler.channels)).reshape(-1)


def _mostly(right: Array) -> bool:
    """Whether the other channels are few enough to be worked out apart."""
    return bool(8 * np.count_nonzero(~right) <= right.size)


def _worth_proof(rows: int, scaling: Scaling) -> bool:
    """Whether the search for float32 constants, some microseconds for each multiplier, pays."""
    if rows * scaling.q.size < 1 << 14:
        return False
    uniform = (scaling.q == scaling.q[0]).all() and (scaling.shift == scaling.shift[0]).all()
    return rows >= 128 or bool(uniform)


class Form(Protocol):
    """A way to requantise a flat block."""

    def block(self, accumulators: Array, y: Array) -> list[Run]: ...


class _Patch:
    """A few channels that are requantised apart from the others."""

    def __init__(
        self,
        scratch: Callable[..., Array],
        rows: int,
        scaling: Scaling,
        bound: Array,
        channels: Array,
    ) -> None:
        own = replace(
            scaling,
            q=scaling.q[channels],
            shift=scaling.shift[channels],
            offset=scaling.offset[channels],
        )
        self._channels = channels
        self._scratch, self._rows = scratch, rows
        self._requantizer = Requantizer(scratch, min(rows, BLOCK), own, bound[channels])
        self.setup = self._requantizer.setup
        self._arrays: tuple[Array, Array] | None = None

    def before(self, accumulators: Array) -> list[Run]:
        rows = accumulators.shape[0]
        if self._arrays is None:  # the first block is the largest
            shape = (rows, self._channels.size)
            self._arrays = self._scratch(shape, accumulators.dtype), self._scratch(shape, np.uint8)
        own, stored = (a[:rows] for a in self._arrays)
        take = partial(np.take, accumulators, self._channels, axis=1, out=own, mode="clip")
        return [take, *self._requantizer.steps(own, stored)]

    def after(self, y: Array) -> list[Run]:
        assert self._arrays is not None
        stored = self._arrays[1][: y.shape[0]]
        bytes_ = y.view(np.uint8)
        return [
            partial(np.copyto, bytes_[:, c], stored[:, i]) for i, c in enumerate(self._channels)
        ]


class _Float32:
    """See `_lines`."""

    def __init__(
        self, tiler: Tiler, scratch: Callable[..., Array], scaling: Scaling, lines: Lines
    ) -> None:
        tile, size = tiler.tile, tiler.size
        self._terms = [
            (np.add, tiler.operand(lines.offset)),
            (np.multiply, tiler.operand(lines.multiplier)),
        ]
        self._signed = lines.signed
        if lines.signed:
            self._minus, self._plus = tile(-lines.constant), tile(lines.constant)
            self._sign = scratch((size,), np.float32)
        else:
            self._terms.append((np.add, tiler.operand(lines.constant)))
        self._store = _Store(tiler, scratch, scaling, lines.base, "float32")

    def block(self, accumulators: Array, y: Array) -> list[Run]:
        n, v = y.size, accumulators
        steps: list[Run] = [partial(f, v, _head(o, n), out=v) for f, o in self._terms]
        if self._signed:
            steps += _add_clipped(v, self._minus[:n], self._plus[:n], self._sign[:n])
            steps.append(partial(np.rint, v, out=v))
        return steps + self._store.block(v, y)


def _add_clipped(v: Array, low: Array, high: Array, clipped: Array) -> list[Run]:
    """v + clip(v, low, high), by way of `clipped`."""
    return [
        partial(np.maximum, v, low, out=clipped),
        partial(np.minimum, clipped, high, out=clipped),
        partial(np.add, v, clipped, out=v),
    ]


class _Store:
    """From real results, `base` larger than what is to be stored, to stored integers."""

    def __init__(
        self,
        tiler: Tiler,
        scratch: Callable[..., Array],
        scaling: Scaling,
        base: int,
        dtype: str,
    ) -> None:
        self._low = tiler.constant(scaling.low + base, dtype)
        self._high = tiler.constant(scaling.high + base, dtype)
        self._bytes = scaling.high - scaling.low <= 255
        # negative numbers reach a byte by way of int16
        self._between: Array | None = None
        if self._bytes and scaling.low + base < 0:
            self._between = scratch((tiler.size,), np.int16)
        self._base = base

    def block(self, v: Array, y: Array) -> list[Run]:
        """Steps that clamp v, truncate it and take `base` off."""
        n = y.size
        steps: list[Run] = [
            partial(np.maximum, v, self._low[:n], out=v),
            partial(np.minimum, v, self._high[:n], out=v),
        ]
        if self._between is not None:
            steps.append(partial(np.copyto, self._between[:n], v, casting="unsafe"))
            v = self._between[:n]
        if not self._bytes:
            return [
                *steps,
                partial(np.trunc, v, out=v),
                partial(np.subtract, v, v.dtype.type(self._base), out=v),
                partial(np.copyto, y, v, casting="unsafe"),
            ]
        stored, off = y.view(np.uint8), np.uint8(-self._base % 256)
        steps.append(partial(np.copyto, stored, v, casting="unsafe"))
        if off:
            steps.append(partial(np.add, stored, off, out=stored))
        return steps


class _Float64:
    """The formula at the head of this file, all of its terms exact."""

    def __init__(
        self, tiler: Tiler, scratch: Callable[..., Array], scaling: Scaling, bound: Array
    ) -> None:
        low, zero = scaling.low, scaling.zero
        multiplier, nudge = scaling.factors()
        # stored values from 0 on, so that truncation is floor
        base = max(-low, 0)
        middle = 0.5 + zero + base
        # where no result below `zero` counts, every product that does is positive
        self._signed = low < zero and bool(nudge.any())
        size, tile = tiler.size, tiler.tile
        if self._signed:
            # x + middle +- nudge, as x + half + clip(x + half, half - nudge, half + nudge)
            middle /= 2
            self._sign = scratch((size,), np.float64)
            self._sign_low, self._sign_high = tile(middle - nudge), tile(middle + nudge)
            nudge = np.zeros(1)
        folded = scaling.exact(bound, folded=True).all()
        constant = middle + nudge + (multiplier * scaling.offset if folded else 0.0)
        terms: list[tuple[Callable[..., Any], Array]] = [
            (np.multiply, multiplier),
            (np.add, np.broadcast_to(constant, multiplier.shape)),
        ]
        if not folded:
            terms.insert(0, (np.add, scaling.offset.astype(np.float64)))
        self._terms = [(f, tiler.operand(v)) for f, v in terms]
        self._real = scratch((size,), np.float64)
        self._store = _Store(tiler, scratch, scaling, base, "float64")

    def block(self, accumulators: Array, y: Array) -> list[Run]:
        n = y.size
        d = self._real[:n]
        steps: list[Run] = [partial(np.copyto, d, accumulators)]
        steps += [partial(f, d, _head(o, n), out=d) for f, o in self._terms]
        if self._signed:
            steps += _add_clipped(d, self._sign_low[:n], self._sign_high[:n], self._sign[:n])
        return steps + self._store.block(d, y)


class _Rounded:
    """Products of real multipliers, rounded once: halves away from zero."""

    def __init__(
        self, tiler: Tiler, scratch: Callable[..., Array], scaling: Scaling, multiplier: Array
    ) -> None:
        self._terms = [
            (np.add, tiler.operand(scaling.offset.astype(np.float64))),
            (np.multiply, tiler.operand(multiplier)),
        ]
        self._half = tiler.constant(_BELOW_HALF, "float64")
        self._minus = tiler.constant(-_BELOW_HALF, "float64")
        self._real, self._clipped = (scratch((tiler.size,), np.float64) for _ in range(2))
        self._store = _Store(tiler, scratch, scaling, -scaling.zero, "float64")

    def block(self, accumulators: Array, y: Array) -> list[Run]:
        n = y.size
        d = self._real[:n]
        steps: list[Run] = [partial(np.copyto, d, accumulators)]
        steps += [partial(f, d, _head(o, n), out=d) for f, o in self._terms]
        # the cast that follows cuts off fractions
        steps += _add_clipped(d, self._minus[:n], self._half[:n], self._clipped[:n])
        return steps + self._store.block(d, y)
