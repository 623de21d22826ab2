"""gemmlowp's logistic and tanh on 16-bit fixed point: the gates of the integer LSTM, as tables.

Q(m) below is a number of m integer bits: raw / 2^(15 - m). The steps are those of the 32-bit forms
with every constant rounded to 16 bits. Source: gemmlowp's fixedpoint.h; exact to the bit.
"""

from __future__ import annotations

import functools

import numpy as np

from ._fixedpoint import EXP_FACTORS
from ._lut import domain
from .types import Array, DType

_MIN, _MAX = -(1 << 15), (1 << 15) - 1


def _constant(raw: int) -> int:
    """A 32-bit constant in 16 bits."""
    return min((raw + (1 << 15)) >> 16, _MAX)


def multiply(a: Array, b: Array | int) -> Array:
    """Product of Q(m) and Q(n) as Q(m + n): doubled, rounded, halves away from zero."""
    ab = a * np.int64(b) if isinstance(b, int) else a * b
    total = ab + np.where(ab >= 0, 1 << 14, 1 - (1 << 14))
    high = np.where(total >= 0, total >> 15, -(-total >> 15))
    return np.where(ab == 1 << 30, _MAX, high)


def times_pot(a: Array, exponent: int) -> Array:
    """a * 2^exponent, saturating to the left; to the right rounded, halves away from zero."""
    if exponent >= 0:
        return np.asarray(np.clip(a << exponent, _MIN, _MAX))
    mask = (1 << -exponent) - 1
    return np.asarray((a >> -exponent) + ((a & mask) > (mask >> 1) + (a < 0)))


def _exp_on_negative_values(a: Array, integer_bits: int) -> Array:
    """exp of Q(integer_bits) values a <= 0, in Q(0)."""
    fractional = 15 - integer_bits
    quarter = 1 << fractional >> 2
    last = (a & (quarter - 1)) - quarter
    x = times_pot(last, integer_bits) + (1 << 12)
    x2 = multiply(x, x)
    x3, x4 = multiply(x2, x), multiply(x2, x2)
    third, eighth = _constant(715827883), _constant(1895147668)
    tail = times_pot(multiply(times_pot(x4, -2) + x3, third) + x2, -1)
    result = np.minimum(eighth + multiply(x + tail, eighth), _MAX)
    remainder = last - a
    for exponent, factor in EXP_FACTORS:
        if integer_bits > exponent:
            bit = remainder & (1 << (fractional + exponent))
            result = np.where(bit != 0, multiply(result, _constant(factor)), result)
    if integer_bits > 5:
        result = np.where(a < -(32 << fractional), 0, result)
    return np.where(a == 0, _MAX, result)


def _reciprocal_of_half(denominator: Array) -> Array:
    """1 / d in Q(2), for Q(0) values d in [1/2, 1]: three Newton-Raphson steps."""
    x = _constant(1515870810) + multiply(denominator, _constant(-1010580540))
    for _ in range(3):
        error = (1 << 13) - multiply(denominator, x)
        x = x + times_pot(multiply(x, error), 2)
    return x


@functools.cache
def logistic_table() -> Array:
    """Q(0) values for all Q(3) inputs, by their bit patterns; int16."""
    a = domain(DType.INT16)
    exp = _exp_on_negative_values(-np.abs(a), 3)
    positive = times_pot(_reciprocal_of_half((exp + _MAX + 1) >> 1), 1)
    result = np.where(a > 0, positive, _MAX - positive)
    return np.where(a == 0, 1 << 14, result).astype(np.int16)


@functools.cache
def tanh_table(integer_bits: int) -> Array:
    """Q(0) values for all Q(integer_bits) inputs, by their bit patterns; int16."""
    a = domain(DType.INT16)
    exp = _exp_on_negative_values(-np.abs(a), integer_bits + 1)
    size = times_pot(_reciprocal_of_half((exp + _MAX + 1) >> 1) - (1 << 13), 2)
    return np.where(a == 0, 0, np.where(a < 0, -size, size)).astype(np.int16)
