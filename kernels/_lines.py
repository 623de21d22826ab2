"""Requantisation to 8 bits in float32, proved exact for each node when it is bound.

The stored value of an accumulator is a step function of at most 255 steps. `find_lines` looks, for
each channel, for float32 constants whose few roundings put every step where the fixed-point
arithmetic has it; being monotone, the float32 form then is right for all accumulators. See
`_requantize` for the formula; x is an accumulator plus its offset:

    unsigned (nothing below the zero point is stored):  trunc((x - x0) * m + b)
    signed:  rint(v + clip(v, -e, e)) + zero,  v = x * m
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ._scaling import Scaling
from .types import Array

# numbers this large have a float32 of their own
_EXACT = 1 << 24
# nudges that are tried: of the multiplier, in units in the last place, and of the constant, in
# parts of a 600th of an accumulator step (255 steps leave it about a 255th to lie in)
_TRIED = np.array(
    sorted(itertools.product(range(-2, 3), range(-4, 5)), key=lambda t: abs(t[0]) * 2 + abs(t[1]))
)
# multipliers that are looked at together, so that all about them stays in cache
_TOGETHER = 32
# most channels are done after a few nudges
_ROUNDS = ((0, 1), (1, 9), (9, len(_TRIED)))


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Float32 constants, each [channels]; `proved` tells for which channels they are exact.

    `constant` is b or e. `base`: how much larger the result is than what is to be stored.
    """

    signed: bool
    offset: Array
    multiplier: Array
    constant: Array
    proved: Array
    base: int


def find_lines(scaling: Scaling, bound: Array) -> Lines | None:
    """Lines for accumulators that are <= bound [channels] in absolute value; None for other than
    8-bit outputs."""
    if scaling.wide or scaling.rounded is not None or scaling.high - scaling.low > 255:
        return None
    multiplier, nudge = scaling.factors()
    signed = scaling.low < scaling.zero and bool(nudge.any())
    lift = 128 if scaling.low < 0 else 0
    base = 0 if signed else lift
    # the middle of the range at 0, where float32 is finest
    middle = 0 if signed else (scaling.low + scaling.high) // 2 - scaling.zero
    center = np.rint(middle / np.maximum(multiplier, 2.0**-20)).astype(np.int64)
    offset = scaling.offset - center
    ideal = nudge if signed else multiplier * center + nudge + scaling.zero + lift + 0.5
    kinds, first, which = np.unique(
        np.stack([scaling.q, scaling.shift]), axis=1, return_index=True, return_inverse=True
    )
    which = which.reshape(-1)
    # all x that any channel of a kind can have
    least, most = np.full(first.size, 1 << 40), np.full(first.size, -(1 << 40))
    np.minimum.at(least, which, scaling.offset - bound)
    np.maximum.at(most, which, scaling.offset + bound)
    found = []
    for some in np.array_split(np.arange(first.size), -(-first.size // _TOGETHER)):
        steps = _steps(scaling, *kinds[:, some])
        counts = (steps > least[some]) & (steps <= most[some])
        search = _Search(steps, counts, center[first[some]], scaling, base, signed)
        found.append(search.run(multiplier[first[some]], ideal[first[some]]))
    m, c, proved = (np.concatenate(parts)[which] for parts in zip(*found, strict=True))
    proved &= bound + np.abs(offset) <= _EXACT
    return Lines(signed, offset.astype(np.float32), m, c, proved, base)


def _steps(scaling: Scaling, q: Array, shift: Array) -> Array:
    """[values, kinds]: the least x that is stored as low + 1, low + 2, ... high, or more."""
    result = np.arange(scaling.low + 1, scaling.high + 1)[:, None] - scaling.zero
    right, left = np.maximum(-shift, 0), np.maximum(shift, 0)
    # the second rounding sends halves away from zero
    half = np.int64(1) << np.maximum(right - 1, 0)
    first = np.where(right > 0, (2 * result - 1) * half + (result <= 0), result)
    first = np.clip(first, -(1 << 27), 1 << 27)  # beyond all accumulators
    # the first one sends them up: x * q + 2^30 >= first * 2^31
    least, q = (first << 31) - (1 << 30), np.maximum(q, 1) << left
    # float64 divides much faster than integers do, and is off by one at most
    x = np.ceil(least / q).astype(np.int64)
    over = x * q - least
    return np.asarray(x + (over < 0) - (over >= q))


class _Search:
    def __init__(
        self,
        steps: Array,
        counts: Array,
        center: Array,
        scaling: Scaling,
        base: int,
        signed: bool,
    ) -> None:
        self._steps, self._counts, self._signed = steps - center, counts, signed
        less = -scaling.zero if signed else base
        self._values = np.arange(scaling.low + 1, scaling.high + 1)[:, None] + less

    def run(self, multiplier: Array, ideal: Array) -> tuple[Array, Array, Array]:
        """Multiplier and constant of each kind (float32), and whether they are proved."""
        m, c = multiplier.astype(np.float32), ideal.astype(np.float32)
        proved = np.zeros(m.size, np.bool_)
        left = np.arange(m.size)
        for start, stop in _ROUNDS:
            tried = self._try(left, multiplier[left], ideal[left], _TRIED[start:stop])
            good, tried_m, tried_c = tried
            m[left[good]], c[left[good]] = tried_m[good], tried_c[good]
            proved[left[good]] = True
            left = left[~good]
            if not left.size:
                break
        return m, c, proved

    def _try(
        self, kinds: Array, multiplier: Array, ideal: Array, nudges: Array
    ) -> tuple[Array, Array, Array]:
        """Which kinds some nudge suits, and the multipliers and constants of the first such."""
        ulps, parts = nudges.T[:, :, None, None]
        m = (multiplier.astype(np.float32).view(np.int32) + ulps.astype(np.int32)).view(np.float32)
        c = (ideal + parts / 600 * multiplier).astype(np.float32)
        steps = self._steps[:, kinds]
        right = self._evaluate(steps.astype(np.float32), m, c) >= self._values
        right &= self._evaluate((steps - 1).astype(np.float32), m, c) < self._values
        good: Array = np.all(right | ~self._counts[:, kinds], axis=1)
        first, column = good.argmax(axis=0), np.arange(kinds.size)
        return good[first, column], m[first, 0, column], c[first, 0, column]

    def _evaluate(self, x: Array, m: Array, c: Array) -> Array:
        """Results [nudges, steps, kinds]."""
        v = x * m
        if not self._signed:
            v += c
            return np.asarray(np.trunc(v, out=v))
        v += np.minimum(np.maximum(v, -c), c)
        return np.asarray(np.rint(v, out=v))
