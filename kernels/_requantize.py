"""From the accumulators of a product to stored integers: bias, activation, requantisation.

Work is cut into blocks that stay in cache, and all of it is done in place.

Results equal TensorFlow Lite's fixed-point arithmetic to the bit, and are computed in floats. With
m = q * 2^(shift - 31), s = max(-shift, 0) and x an accumulator, its two roundings amount to

    floor(m * x + 1/2 + zero + sign(x) * 2^-(s + 1))        (without the last term where s = 0)

since the first rounding moves m * x by at most half of 2^-s, and away from zero where it decides
the second one. All terms are binary fractions; `Scaling.exact` tells when float64 holds every one
of them without rounding, `_lines` when float32 comes to the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ._lines import Lines, find_lines
from ._scaling import BELOW_HALF, Scaling
from ._tiles import BLOCK, Tiler, head
from .api import Run
from .types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic:
    """What a requantisation is computed in; several threads can share it.

    `bound` [channels]: the largest absolute accumulators, without the offset. `right`: for which
    channels the chosen form is exact; the others are worked out apart.
    """

    scaling: Scaling
    bound: Array
    rows: int
    form: str  # "float32", "float64", "rounded", "integers"
    right: Array
    lines: Lines | None = None


def choose(scaling: Scaling, bound: Array, rows: int, dtype: Any = np.float32) -> Arithmetic:
    """The fastest form that is exact, for accumulators of this type."""
    scaling = scaling.without_fixed(bound)
    all_right = np.ones(scaling.offset.shape, np.bool_)
    if scaling.rounded is not None:
        return Arithmetic(scaling, bound, rows, "rounded", all_right)
    if dtype == np.float32 and _worth_proof(rows, scaling):
        lines = find_lines(scaling, bound)
        if lines is not None and _mostly(lines.proved):
            return Arithmetic(scaling, bound, rows, "float32", lines.proved, lines)
    exact = scaling.exact(bound, folded=False)
    if _mostly(exact):
        return Arithmetic(scaling, bound, rows, "float64", exact)
    return Arithmetic(scaling, bound, rows, "integers", all_right)


def _mostly(right: Array) -> bool:
    """Whether the other channels are few enough to be worked out apart."""
    return bool(8 * np.count_nonzero(~right) <= right.size)


def _worth_proof(rows: int, scaling: Scaling) -> bool:
    """Whether the search for float32 constants, some microseconds for each multiplier, pays."""
    if rows * scaling.q.size < 1 << 14:
        return False
    uniform = (scaling.q == scaling.q[0]).all() and (scaling.shift == scaling.shift[0]).all()
    return rows >= 128 or bool(uniform)


class Requantizer:
    """Steps from accumulators [rows, channels], integers held as floats, to stored values.

    The steps may change the accumulators.
    """

    def __init__(self, scratch: Callable[..., Array], arithmetic: Arithmetic) -> None:
        self._scaling = scaling = arithmetic.scaling
        self._tiler = tiler = Tiler(scratch, arithmetic.rows, scaling.offset.size)
        self._form: Form | None = None
        if arithmetic.lines is not None:
            self._form = _Float32(tiler, scratch, scaling, arithmetic.lines)
        elif scaling.rounded is not None:
            self._form = _Rounded(tiler, scratch, scaling, scaling.rounded)
        elif arithmetic.form == "float64":
            self._form = _Float64(tiler, scratch, scaling, arithmetic.bound)
        self._patch = None if arithmetic.right.all() else _Patch(scratch, arithmetic)
        self.setup = [*tiler.setup, *(self._patch.setup if self._patch else ())]

    def steps(self, accumulators: Array, y: Array) -> list[Run]:
        """Steps from `accumulators` to `y`, both [rows, channels] and contiguous."""
        steps: list[Run] = []
        if self._patch is not None:
            steps += self._patch.before(accumulators, y.dtype)
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


class Form(Protocol):
    """A way to requantise a flat block."""

    def block(self, accumulators: Array, y: Array) -> list[Run]: ...


class _Patch:
    """A few channels that are requantised apart from the others."""

    def __init__(self, scratch: Callable[..., Array], arithmetic: Arithmetic) -> None:
        self._channels = channels = np.nonzero(~arithmetic.right)[0]
        scaling = arithmetic.scaling
        own = replace(
            scaling,
            q=scaling.q[channels],
            shift=scaling.shift[channels],
            offset=scaling.offset[channels],
        )
        rows = min(arithmetic.rows, BLOCK)
        self._requantizer = Requantizer(
            scratch, choose(own, arithmetic.bound[channels], rows, None)
        )
        self.setup: list[Run] = self._requantizer.setup
        self._scratch = scratch
        self._arrays: tuple[Array, Array] | None = None

    def before(self, accumulators: Array, stored: np.dtype[Any]) -> list[Run]:
        rows = accumulators.shape[0]
        if self._arrays is None or len(self._arrays[0]) < rows:
            shape = (rows, self._channels.size)
            own = accumulators.dtype
            self._arrays = self._scratch(shape, own), self._scratch(shape, stored)
        taken, results = (a[:rows] for a in self._arrays)
        take = partial(np.take, accumulators, self._channels, axis=1, out=taken, mode="clip")
        return [take, *self._requantizer.steps(taken, results)]

    def after(self, y: Array) -> list[Run]:
        assert self._arrays is not None
        results = self._arrays[1][: y.shape[0]]
        return [partial(np.copyto, y[:, c], results[:, i]) for i, c in enumerate(self._channels)]


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
        self._zero = np.float32(scaling.zero)
        self._store = _Store(tiler, scaling, lines.base, "float32")

    def block(self, accumulators: Array, y: Array) -> list[Run]:
        n, v = y.size, accumulators
        steps: list[Run] = [partial(f, v, head(o, n), out=v) for f, o in self._terms]
        if self._signed:
            steps += _add_clipped(v, self._minus[:n], self._plus[:n], self._sign[:n])
            steps += [partial(np.rint, v, out=v), partial(np.add, v, self._zero, out=v)]
        return steps + self._store.block(v, y)


def _add_clipped(v: Array, low: Array, high: Array, clipped: Array) -> list[Run]:
    """v + clip(v, low, high), by way of `clipped`."""
    return [
        partial(np.maximum, v, low, out=clipped),
        partial(np.minimum, clipped, high, out=clipped),
        partial(np.add, v, clipped, out=v),
    ]


class _Store:
    """From real results, `base` larger than what is to be stored, to stored integers.

    Where `base` is not 0 no result that is stored is negative, so that truncation is floor.
    """

    def __init__(self, tiler: Tiler, scaling: Scaling, base: int, dtype: str) -> None:
        self._low = tiler.constant(scaling.low + base, dtype)
        self._high = tiler.constant(scaling.high + base, dtype)
        self._base = base

    def block(self, v: Array, y: Array) -> list[Run]:
        """Steps that clamp v, truncate it and take `base` off."""
        n = y.size
        steps: list[Run] = [
            partial(np.maximum, v, self._low[:n], out=v),
            partial(np.minimum, v, self._high[:n], out=v),
        ]
        if not self._base:
            return [*steps, partial(np.copyto, y, v, casting="unsafe")]
        if y.itemsize == 1:
            stored, off = y.view(np.uint8), np.uint8(-self._base % 256)
            return [
                *steps,
                partial(np.copyto, stored, v, casting="unsafe"),
                partial(np.add, stored, off, out=stored),  # modulo 256
            ]
        return [
            *steps,
            partial(np.trunc, v, out=v),
            partial(np.subtract, v, v.dtype.type(self._base), out=v),
            partial(np.copyto, y, v, casting="unsafe"),
        ]


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
        self._store = _Store(tiler, scaling, base, "float64")

    def block(self, accumulators: Array, y: Array) -> list[Run]:
        n = y.size
        d = self._real[:n]
        steps: list[Run] = [partial(np.copyto, d, accumulators)]
        steps += [partial(f, d, head(o, n), out=d) for f, o in self._terms]
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
        self._half = tiler.constant(BELOW_HALF, "float64")
        self._minus = tiler.constant(-BELOW_HALF, "float64")
        self._real, self._clipped = (scratch((tiler.size,), np.float64) for _ in range(2))
        self._zero = float(scaling.zero)
        self._store = _Store(tiler, scaling, 0, "float64")

    def block(self, accumulators: Array, y: Array) -> list[Run]:
        n = y.size
        d = self._real[:n]
        steps: list[Run] = [partial(np.copyto, d, accumulators)]
        steps += [partial(f, d, head(o, n), out=d) for f, o in self._terms]
        steps += _add_clipped(d, self._minus[:n], self._half[:n], self._clipped[:n])
        steps += [partial(np.trunc, d, out=d), partial(np.add, d, self._zero, out=d)]
        return steps + self._store.block(d, y)
