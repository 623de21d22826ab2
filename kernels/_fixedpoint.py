"""gemmlowp's fixed-point functions on arrays of raw int32 values, held as int64.

Q(m) below is a number of m integer bits: raw / 2^(31 - m). Source: gemmlowp's fixedpoint.h, as
described in "Building a quantized paradigm from the ground up"; exact to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._quant import rounding_divide_by_pot, saturating_rounding_doubling_high_mul
from .types import Array

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def multiply(a: Array, b: Array | int) -> Array:
    """Product of Q(m) and Q(n) as Q(m + n)."""
    return saturating_rounding_doubling_high_mul(a, b)


def times_pot(a: Array, exponent: Array | int) -> Array:
    """a * 2^exponent, saturating to the left and rounding to the right."""
    exponent = np.asarray(exponent, np.int64)
    left = np.clip(a << np.maximum(exponent, 0), INT32_MIN, INT32_MAX)
    return np.where(exponent >= 0, left, rounding_divide_by_pot(a, np.maximum(-exponent, 0)))


def leading_zeros(a: Array) -> Array:
    """Leading zero bits of positive 32-bit values; 32 for 0."""
    _, bits = np.frexp(np.asarray(a, np.float64))
    return np.asarray(32 - bits, np.int64)


def _exp_on_last_quarter(a: Array) -> Array:
    """exp of Q(0) in [-1/4, 0): the Taylor series around -1/8."""
    exp_minus_eighth, third = 1895147668, 715827883
    x = a + (1 << 28)
    x2 = multiply(x, x)
    x3 = multiply(x2, x)
    x4_over_4 = times_pot(multiply(x2, x2), -2)
    tail = times_pot(multiply(x4_over_4 + x3, third) + x2, -1)
    return exp_minus_eighth + multiply(x + tail, exp_minus_eighth)


# exp(-2^e) in 32-bit Q(0)
EXP_FACTORS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)


def exp_on_negative_values(a: Array, integer_bits: int) -> Array:
    """exp of Q(integer_bits) values a <= 0, in Q(0). `integer_bits` is at most 5."""
    fractional = 31 - integer_bits
    quarter = 1 << (fractional - 2)
    last = (a & (quarter - 1)) - quarter
    result = _exp_on_last_quarter(times_pot(last, integer_bits))
    remainder = last - a
    for exponent, factor in EXP_FACTORS:
        if integer_bits > exponent:
            bit = remainder & (1 << (fractional + exponent))
            result = np.where(bit != 0, multiply(result, factor), result)
    return np.where(a == 0, INT32_MAX, result)


def one_over_one_plus_x(a: Any) -> Any:
    """1 / (1 + x) in Q(0), for Q(0) values x in [0, 1): three Newton-Raphson steps.

    Of an array, or of an int: for one value Python's integers are ten times faster.
    """
    half_denominator = (a + (1 << 31)) >> 1
    x = 1515870810 + _product(half_denominator, -1010580540)
    for _ in range(3):
        error = (1 << 29) - _product(half_denominator, x)
        x = x + (_product(x, error) << 2)
    # only 1 / 1 reaches the end of the range
    return min(x << 1, INT32_MAX) if isinstance(x, int) else np.minimum(x << 1, INT32_MAX)


def _product(a: Any, b: Any) -> Any:
    """`multiply` where nothing saturates."""
    return (a * b + (1 << 30)) >> 31


def reciprocal(x: Any, integer_digits: int) -> tuple[Any, Any]:
    """(r, n) with 1/x = r * 2^-n: r in Q(0), for positive x (an array or an int) of that many
    integer digits."""
    if isinstance(x, int):
        headroom_plus_one: Any = 32 - x.bit_length()
        normal = x << headroom_plus_one if headroom_plus_one >= 0 else x >> -headroom_plus_one
    else:
        headroom_plus_one = leading_zeros(x)
        normal = x << np.maximum(headroom_plus_one, 0) >> np.maximum(-headroom_plus_one, 0)
    shifted = (normal & 0xFFFFFFFF) - (1 << 31)
    return one_over_one_plus_x(shifted), integer_digits - headroom_plus_one


def log_of_q12(x: Array) -> Array:
    """Natural logarithm, in Q(5), of Q(12) values x >= 1.

    Beyond the range of Q(12), where the reference overflows, it is taken in floating point.
    """
    beyond = x > INT32_MAX
    if np.any(beyond):
        real = np.log(np.asarray(x, np.float64) / (1 << 19)) * (1 << 26)
        return np.where(beyond, np.rint(real).astype(np.int64), _log(np.minimum(x, INT32_MAX)))
    return _log(x)


def _log(x: Array) -> Array:
    log_2, sqrt_half, sqrt_sqrt_half = 1488522236, 1518500250, 1805811301
    alpha_n, alpha_d, alpha_i, alpha_f = 117049297, 127690142, 1057819769, 638450708
    bits = 6  # integer bits of the accumulator: one more than the result has, for headroom
    quarter = 536870912 >> bits

    # x = r * 2^p, with r near sqrt(sqrt(1/2)): the better of two normalisations
    leading_a = leading_zeros(x)
    r_a = times_pot(multiply(times_pot(x, leading_a - 1), sqrt_half), 1)
    p_a = np.minimum(times_pot(12 - leading_a, 31 - bits) + quarter, INT32_MAX)
    headroom_b = leading_zeros(multiply(x, sqrt_half)) - 1
    r_b = times_pot(x, headroom_b)
    p_b = np.maximum(times_pot(12 - headroom_b, 31 - bits) - quarter, INT32_MIN)
    r, power = np.minimum(r_a, r_b), np.maximum(p_a, p_b)

    half_sum = (r + sqrt_sqrt_half + 1) >> 1
    q = 2 * (r - sqrt_sqrt_half)
    square = multiply(q, q)
    numerator = multiply(q, r) + multiply(multiply(q, square), alpha_n)
    denominator = multiply(half_sum, alpha_i + q + multiply(square, alpha_d)) + multiply(q, alpha_f)
    fraction = multiply(times_pot(numerator, -bits), one_over_one_plus_x(denominator))
    return times_pot(multiply(power, log_2) + fraction, 1)
