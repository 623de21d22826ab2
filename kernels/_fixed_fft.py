"""Real FFTs on int16 and int32, with the rounding of KissFFT (BSD; Mark Borgerding).

The values are fractions of 2**15 or 2**31. Each stage of radix p divides by p, so a transform comes
out divided by its length. Sums wrap around; products are rounded to nearest, halves up. A real
transform of n values is a complex one of n / 2 and a last stage that takes the two halves apart.

Complex arrays hold real and imaginary parts in their first dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .types import Array


def _factors(n: int) -> list[int]:
    """Radices, the outermost first: fours, then twos, then odd numbers."""
    found: list[int] = []
    p, most = 4, math.isqrt(n)
    while True:
        while n % p:
            p = {4: 2, 2: 3}.get(p, p + 2)
            if p > most:
                p = n
        n //= p
        found.append(p)
        if n <= 1:
            return found


@dataclass(frozen=True)
class _Numbers:
    """Arithmetic on one type of integers."""

    dtype: np.dtype[Any]
    wide: np.dtype[Any]  # holds their products
    bits: int

    @property
    def most(self) -> int:
        return (1 << self.bits) - 1

    def times(self, x: Array, factor: int | Array) -> Array:
        return self._round(np.multiply(x, factor, dtype=self.wide))

    def divide(self, x: Array, by: int) -> Array:
        return self.times(x, self.most // by)

    def product(self, a: Array, b: Array) -> Array:
        """Complex. `b` is of the wide type."""
        wide = np.empty((2, *np.broadcast_shapes(a.shape[1:], b.shape[1:])), self.wide)
        np.subtract(a[0] * b[0], a[1] * b[1], out=wide[0])
        np.add(a[0] * b[1], a[1] * b[0], out=wide[1])
        return self._round(wide)

    def _round(self, product: Array) -> Array:
        product += 1 << (self.bits - 1)
        product >>= self.bits
        return product.astype(self.dtype)

    def half(self, x: Array, y: Array, combine: Callable[..., Array]) -> Array:
        """Half of x + y or x - y, rounded down. The sum of int16 is an int, as in C."""
        kind = np.dtype(np.int32)  # of both types
        found = combine(x, y, dtype=kind)
        found >>= 1
        return found.astype(self.dtype)

    def circle(self, phases: list[float]) -> Array:
        """cos and sin, by the C library's functions; wide."""
        parts = [[math.floor(0.5 + self.most * f(p)) for p in phases] for f in (math.cos, math.sin)]
        return np.array(parts, self.wide).reshape(2, -1)


_NUMBERS = {
    np.dtype(np.int16): _Numbers(np.dtype(np.int16), np.dtype(np.int32), 15),
    np.dtype(np.int32): _Numbers(np.dtype(np.int32), np.dtype(np.int64), 31),
}


class FixedFFT:
    """Transforms of `length` (even) real values of one integer type, forward or inverse.

    The bins 0 to length / 2 are [rows, length / 2 + 1, 2].
    """

    def __init__(self, length: int, dtype: np.dtype[Any], inverse: bool) -> None:
        n = length // 2
        sign = 1.0 if inverse else -1.0
        self.n, self.inverts = n, inverse
        self.numbers = _NUMBERS[np.dtype(dtype)]
        self.factors = _factors(n)
        self.circle = self.numbers.circle([sign * 2 * math.pi * i / n for i in range(n)])
        self.last = self.numbers.circle(
            [sign * math.pi * ((i + 1) / n + 0.5) for i in range(n // 2)]
        )
        # for each stage, the innermost first: its radix, the length of what it joins, and the
        # twiddles of all but the first
        self.stages: list[tuple[int, int, Array]] = []
        m = 1
        for p in reversed(self.factors):
            turns = np.outer(np.arange(1, p), np.arange(m)) * (n // (m * p))
            self.stages.append((p, m, self.circle[:, turns]))
            m *= p

    def forward(self, x: Array, y: Array) -> None:
        """[rows, length] to bins."""
        n, num = self.n, self.numbers
        z = self._transform(np.moveaxis(x.reshape(-1, n, 2), -1, 0))
        even, odd = num.divide(z[:, :, 0], 2)
        y[:, 0, 0], y[:, n, 0] = even + odd, even - odd
        y[:, 0, 1] = y[:, n, 1] = 0
        low, high = num.divide(z[:, :, 1 : n // 2 + 1], 2), num.divide(self._mirrored(z, n), 2)
        total, turned = low + high, num.product(low - high, self.last)
        out = np.moveaxis(y, -1, 0)
        out[:, :, 1 : n // 2 + 1] = num.half(total, turned, np.add)
        # of the middle, which both halves have, this counts
        out[0, :, n - 1 : (n - 1) // 2 : -1] = num.half(total[0], turned[0], np.subtract)
        out[1, :, n - 1 : (n - 1) // 2 : -1] = num.half(turned[1], total[1], np.subtract)

    def inverse(self, x: Array, y: Array) -> None:
        """Bins to [rows, length]."""
        n, num = self.n, self.numbers
        bins = np.moveaxis(x, -1, 0)
        z = np.empty((2, len(x), n), num.dtype)
        first, end = bins[0, :, 0], bins[0, :, n]
        z[0, :, 0], z[1, :, 0] = num.divide(first + end, 2), num.divide(first - end, 2)
        low = num.divide(bins[:, :, 1 : n // 2 + 1], 2)
        high = num.divide(self._mirrored(bins, n), 2)
        even, odd = low + high, num.product(low - high, self.last)
        z[:, :, 1 : n // 2 + 1] = even + odd
        z[0, :, n - 1 : (n - 1) // 2 : -1] = even[0] - odd[0]
        z[1, :, n - 1 : (n - 1) // 2 : -1] = odd[1] - even[1]
        np.moveaxis(y.reshape(-1, n, 2), -1, 0)[...] = self._transform(z)

    @staticmethod
    def _mirrored(z: Array, n: int) -> Array:
        """The conjugates of z[n - 1], z[n - 2] and so on, half of them."""
        found = z[:, :, n - 1 : (n - 1) // 2 : -1].copy()
        np.negative(found[1], out=found[1])
        return found

    def _transform(self, z: Array) -> Array:
        """The complex transform of [2, rows, n]."""
        rows, n = z.shape[1:]
        # value i0 + p0 (i1 + p1 (i2 + ...)) comes to place (.. (i0 p1 + i1) p2 + ..)
        count = len(self.factors)
        split = z.reshape(2, rows, *reversed(self.factors))
        z = split.transpose(0, 1, *range(count + 1, 1, -1))
        joins = {2: self._two, 3: self._three, 4: self._four, 5: self._five}
        for p, m, twiddles in self.stages:
            z = self.numbers.divide(z.reshape(2, rows, -1, p, m), p)
            out = np.empty_like(z)
            if p in joins:
                turned = self.numbers.product(z[..., 1:, :], twiddles[:, None, None])
                joins[p](z[..., 0, :], turned, out, n // p)
            else:
                self._any_radix(z, out)
            z = out
        return z.reshape(2, rows, n)

    # Each joins `a` and the others of a group, turned by their twiddles, into `out`; `part` is how
    # far along the circle a p-th of a turn lies.

    def _two(self, a: Array, z: Array, out: Array, part: int) -> None:
        np.add(a, z[..., 0, :], out=out[..., 0, :])
        np.subtract(a, z[..., 0, :], out=out[..., 1, :])

    def _three(self, a: Array, z: Array, out: Array, part: int) -> None:
        b, c = z[..., 0, :], z[..., 1, :]
        total, apart = b + c, self.numbers.times(b - c, self.circle[1, part])
        np.add(a, total, out=out[..., 0, :])
        middle = a - (total >> 1)
        self._across(middle, apart, out[..., 1, :], out[..., 2, :])

    def _four(self, a: Array, z: Array, out: Array, part: int) -> None:
        b, c, d = z[..., 0, :], z[..., 1, :], z[..., 2, :]
        even, odd = a + c, b + d
        np.add(even, odd, out=out[..., 0, :])
        np.subtract(even, odd, out=out[..., 2, :])
        one, three = (out[..., 1, :], out[..., 3, :])[:: 1 if self.inverts else -1]
        self._across(a - c, b - d, one, three)

    def _five(self, a: Array, z: Array, out: Array, part: int) -> None:
        times = self.numbers.times
        (one_cos, one_sin), (two_cos, two_sin) = self.circle[:, part], self.circle[:, 2 * part]
        b, c, d, e = (z[..., i, :] for i in range(4))
        outer, inner = b + e, c + d
        outer_apart, inner_apart = b - e, c - d
        np.add(a, outer + inner, out=out[..., 0, :])
        self._across(
            a + times(outer, one_cos) + times(inner, two_cos),
            times(outer_apart, one_sin) + times(inner_apart, two_sin),
            out[..., 1, :],
            out[..., 4, :],
        )
        self._across(
            a + times(outer, two_cos) + times(inner, one_cos),
            times(outer_apart, two_sin) - times(inner_apart, one_sin),
            out[..., 2, :],
            out[..., 3, :],
        )

    @staticmethod
    def _across(a: Array, b: Array, plus: Array, minus: Array) -> None:
        """a + ib and a - ib."""
        np.subtract(a[0], b[1], out=plus[0])
        np.add(a[1], b[0], out=plus[1])
        np.add(a[0], b[1], out=minus[0])
        np.subtract(a[1], b[0], out=minus[1])

    def _any_radix(self, z: Array, out: Array) -> None:
        blocks, p, m = z.shape[2:]
        k = np.arange(p * m).reshape(p, m)
        out[...] = z[..., :1, :]
        for q in range(1, p):
            turn = self.circle[:, blocks * k * q % self.n]
            out += self.numbers.product(z[..., q : q + 1, :], turn[:, None, None])
