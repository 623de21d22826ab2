"""Real FFTs on int16 and int32, with the rounding of KissFFT (BSD; Mark Borgerding).

The values are fractions of 2**15 or 2**31. Each stage of radix p divides by p, so a transform comes
out divided by its length. Sums wrap around; products are rounded to nearest, halves up. A real
transform of n values is a complex one of n / 2 and a last stage that takes the two halves apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    """Arithmetic on one type of integers; complex numbers are pairs of arrays."""

    dtype: np.dtype[np.signedinteger]
    wide: np.dtype[np.signedinteger]
    bits: int

    def round(self, product: Array) -> Array:
        product += 1 << (self.bits - 1)
        product >>= self.bits
        return product.astype(self.dtype)

    def times(self, x: Array, factor: int | Array) -> Array:
        return self.round(np.multiply(x, factor, dtype=self.wide))

    def divide(self, x: Array, by: int) -> Array:
        return self.times(x, int(np.iinfo(self.dtype).max) // by)

    def product(self, ar: Array, ai: Array, b: tuple[Array, Array]) -> tuple[Array, Array]:
        def mul(x: Array, y: Array) -> Array:
            return np.multiply(x, y, dtype=self.wide)

        return self.round(mul(ar, b[0]) - mul(ai, b[1])), self.round(mul(ar, b[1]) + mul(ai, b[0]))

    def half(self, x: Array, y: Array) -> Array:
        """(x + y) / 2, rounded down; int16 are added without overflow, as in C."""
        if self.dtype == np.int16:
            return ((x.astype(np.int32) + y) >> 1).astype(np.int16)
        return (x + y) >> 1

    def circle(self, phases: list[float]) -> tuple[Array, Array]:
        """cos and sin, by the C library's functions."""
        most = int(np.iinfo(self.dtype).max)
        parts = ([math.floor(0.5 + most * f(p)) for p in phases] for f in (math.cos, math.sin))
        real, imag = (np.array(part, self.dtype) for part in parts)
        return real, imag


_NUMBERS = {
    np.dtype(np.int16): _Numbers(np.dtype(np.int16), np.dtype(np.int32), 15),
    np.dtype(np.int32): _Numbers(np.dtype(np.int32), np.dtype(np.int64), 31),
}


class FixedFFT:
    """Transforms of `length` (even) real values of one integer type, in both directions.

    `forward` gives the bins 0 to length / 2 as [rows, length / 2 + 1, 2]; `inverse` takes them.
    """

    def __init__(self, length: int, dtype: np.dtype[np.signedinteger], inverse: bool) -> None:
        n = length // 2
        sign = 1.0 if inverse else -1.0
        self.n, self.inverse_ = n, inverse
        self.numbers = _NUMBERS[np.dtype(dtype)]
        self.factors = _factors(n)
        self.twiddles = self.numbers.circle([sign * 2 * math.pi * i / n for i in range(n)])
        self.last = self.numbers.circle(
            [sign * math.pi * ((i + 1) / n + 0.5) for i in range(n // 2)]
        )

    def forward(self, x: Array, y: Array) -> None:
        """[rows, length] to [rows, length / 2 + 1, 2]."""
        n, num = self.n, self.numbers
        pairs = x.reshape(-1, n, 2)
        real, imag = self._transform(pairs[..., 0], pairs[..., 1])
        even, odd = num.divide(real[:, 0], 2), num.divide(imag[:, 0], 2)
        y[:, 0, 0], y[:, n, 0] = even + odd, even - odd
        y[:, 0, 1] = y[:, n, 1] = 0
        k = np.arange(1, n // 2 + 1)
        kr, ki = num.divide(real[:, k], 2), num.divide(imag[:, k], 2)
        nr, ni = num.divide(real[:, n - k], 2), num.divide(-imag[:, n - k], 2)
        sr, si = kr + nr, ki + ni
        tr, ti = num.product(kr - nr, ki - ni, self.last)
        y[:, k, 0], y[:, k, 1] = num.half(sr, tr), num.half(si, ti)
        # where k is n - k these count
        y[:, n - k, 0], y[:, n - k, 1] = self._half_less(sr, tr), self._half_less(ti, si)

    def inverse(self, x: Array, y: Array) -> None:
        """[rows, length / 2 + 1, 2] to [rows, length]."""
        n, num = self.n, self.numbers
        xr, xi = x[..., 0], x[..., 1]
        real, imag = (np.empty((len(x), n), num.dtype) for _ in range(2))
        real[:, 0] = num.divide(xr[:, 0] + xr[:, n], 2)
        imag[:, 0] = num.divide(xr[:, 0] - xr[:, n], 2)
        k = np.arange(1, n // 2 + 1)
        kr, ki = num.divide(xr[:, k], 2), num.divide(xi[:, k], 2)
        nr, ni = num.divide(xr[:, n - k], 2), num.divide(-xi[:, n - k], 2)
        er, ei = kr + nr, ki + ni
        odd_r, odd_i = num.product(kr - nr, ki - ni, self.last)
        real[:, k], imag[:, k] = er + odd_r, ei + odd_i
        real[:, n - k], imag[:, n - k] = er - odd_r, odd_i - ei
        real, imag = self._transform(real, imag)
        pairs = y.reshape(-1, n, 2)
        pairs[..., 0], pairs[..., 1] = real, imag

    def _half_less(self, x: Array, y: Array) -> Array:
        """(x - y) / 2."""
        if self.numbers.dtype == np.int16:
            return ((x.astype(np.int32) - y) >> 1).astype(np.int16)
        return (x - y) >> 1

    def _transform(self, real: Array, imag: Array) -> tuple[Array, Array]:
        """The complex transform of [rows, n]."""
        rows, n = real.shape
        # value i0 + p0 (i1 + p1 (i2 + ...)) comes to place (.. (i0 p1 + i1) p2 + ..)
        split = (rows, *reversed(self.factors))
        order = (0, *range(len(self.factors), 0, -1))
        re, im = (a.reshape(split).transpose(order).copy() for a in (real, imag))
        m = 1
        for p in reversed(self.factors):
            blocks = n // (m * p)
            shape = (rows, blocks, p, m)
            parts = [(re.reshape(shape)[:, :, q], im.reshape(shape)[:, :, q]) for q in range(p)]
            joined = self._stage(parts, blocks, m)
            re = np.stack([a for a, _ in joined], axis=2)
            im = np.stack([b for _, b in joined], axis=2)
            m *= p
        return re.reshape(rows, n), im.reshape(rows, n)

    def _stage(
        self, x: list[tuple[Array, Array]], stride: int, m: int
    ) -> list[tuple[Array, Array]]:
        """Joins p transforms of length m, [rows, blocks, m] each, to one of length p m."""
        num, p = self.numbers, len(x)
        x = [(num.divide(r, p), num.divide(i, p)) for r, i in x]
        if p not in (2, 3, 4, 5):
            return self._any_radix(x, stride, m)
        k = np.arange(m) * stride
        z = [x[0]] + [num.product(*x[q], self._twiddle(q * k)) for q in range(1, p)]
        return {2: self._two, 3: self._three, 4: self._four, 5: self._five}[p](z, stride * m)

    def _twiddle(self, i: Array | int) -> tuple[Array, Array]:
        return self.twiddles[0][i], self.twiddles[1][i]

    def _two(self, z: list[tuple[Array, Array]], _: int) -> list[tuple[Array, Array]]:
        (ar, ai), (br, bi) = z
        return [(ar + br, ai + bi), (ar - br, ai - bi)]

    def _three(self, z: list[tuple[Array, Array]], third: int) -> list[tuple[Array, Array]]:
        (ar, ai), (br, bi), (cr, ci) = z
        sine = self._twiddle(third)[1]
        sr, si = br + cr, bi + ci
        dr, di = (self.numbers.times(d, sine) for d in (br - cr, bi - ci))
        mr, mi = ar - (sr >> 1), ai - (si >> 1)
        return [(ar + sr, ai + si), (mr - di, mi + dr), (mr + di, mi - dr)]

    def _four(self, z: list[tuple[Array, Array]], _: int) -> list[tuple[Array, Array]]:
        (ar, ai), (br, bi), (cr, ci), (dr, di) = z
        sr, si, tr, ti = ar + cr, ai + ci, ar - cr, ai - ci
        ur, ui, vr, vi = br + dr, bi + di, br - dr, bi - di
        one, three = (tr + vi, ti - vr), (tr - vi, ti + vr)
        if self.inverse_:
            one, three = three, one
        return [(sr + ur, si + ui), one, (sr - ur, si - ui), three]

    def _five(self, z: list[tuple[Array, Array]], fifth: int) -> list[tuple[Array, Array]]:
        times = self.numbers.times
        (ar, ai), (br, bi), (cr, ci), (dr, di), (er, ei) = z
        (yar, yai), (ybr, ybi) = self._twiddle(fifth), self._twiddle(2 * fifth)
        s7r, s7i, s10r, s10i = br + er, bi + ei, br - er, bi - ei
        s8r, s8i, s9r, s9i = cr + dr, ci + di, cr - dr, ci - di
        s5 = ar + times(s7r, yar) + times(s8r, ybr), ai + times(s7i, yar) + times(s8i, ybr)
        s6 = times(s10i, yai) + times(s9i, ybi), -times(s10r, yai) - times(s9r, ybi)
        s11 = ar + times(s7r, ybr) + times(s8r, yar), ai + times(s7i, ybr) + times(s8i, yar)
        s12 = times(s9i, yai) - times(s10i, ybi), times(s10r, ybi) - times(s9r, yai)
        return [
            (ar + s7r + s8r, ai + s7i + s8i),
            (s5[0] - s6[0], s5[1] - s6[1]),
            (s11[0] + s12[0], s11[1] + s12[1]),
            (s11[0] - s12[0], s11[1] - s12[1]),
            (s5[0] + s6[0], s5[1] + s6[1]),
        ]

    def _any_radix(
        self, x: list[tuple[Array, Array]], stride: int, m: int
    ) -> list[tuple[Array, Array]]:
        p, found = len(x), []
        for q1 in range(p):
            k = np.arange(m) + q1 * m
            re, im = x[0][0].copy(), x[0][1].copy()
            for q in range(1, p):
                tr, ti = self.numbers.product(*x[q], self._twiddle(stride * k * q % self.n))
                re += tr
                im += ti
            found.append((re, im))
        return found
