"""How integer accumulators become stored values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ._quant import multiply_by_quantized_multiplier, multiply_by_quantized_multiplier_64
from .types import Array

# trunc(x + copysign(this, x)) rounds every float64 half away from zero
BELOW_HALF = np.nextafter(0.5, 0.0)


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
            scaled = np.trunc(real + np.copysign(BELOW_HALF, real))
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


def mantissas(real: Array) -> tuple[Array, Array]:
    """Multipliers as q / 2^shift: int64 of 53 bits, int32; for devices without float64.

    ValueError where one is negative or not finite.
    """
    if not (np.isfinite(real) & (real >= 0)).all():
        raise ValueError("got multipliers that are negative or not finite")
    fraction, exponent = np.frexp(np.asarray(real, np.float64))
    return np.ldexp(fraction, 53).astype(np.int64), (53 - exponent).astype(np.int32)
