"""Fixed-point arithmetic of TensorFlow Lite's integer kernels, exact to the bit, on arrays.

A real multiplier m is held as (q, shift) with m = q / 2^31 * 2^shift, q in [2^30, 2^31). Source of
the formulas: the gemmlowp paper (Jacob et al. 2017, section 2.3) and TensorFlow Lite's
double-rounding requantisation.
"""

from __future__ import annotations

import math

import numpy as np

from .api import OpError, TensorSpec
from .types import Array


def quantize_multiplier(m: float) -> tuple[int, int]:
    """(q, shift) of a real multiplier m >= 0 (float64)."""
    if m == 0.0:
        return 0, 0
    if not math.isfinite(m):
        raise OpError(f"the scales give a factor of {m}; they must be finite and not so far apart")
    fraction, shift = math.frexp(m)
    # C's round: halves away from zero; the product is exact in float64 up to 2^53
    q = math.floor(fraction * (1 << 31) + 0.5)
    if q == 1 << 31:
        q //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    if shift > 30:
        # C leaves such a left shift undefined; the reference does what x86 does with it
        shift &= 31
    return q, shift


def quantize_multipliers(m: Array) -> tuple[Array, Array]:
    """`quantize_multiplier` of each element: (q int64, shift int64)."""
    pairs = [quantize_multiplier(float(v)) for v in np.asarray(m, np.float64).reshape(-1)]
    q, shift = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(q, np.int64), np.array(shift, np.int64)


def saturating_rounding_doubling_high_mul(a: Array, b: Array | int) -> Array:
    """round(a * b / 2^31) for int32 values held as int64, as gemmlowp rounds them.

    Its nudge by the sign and its division towards zero come to the same as halves upwards.
    """
    ab = a.astype(np.int64) * b
    return np.asarray(np.minimum((ab + (1 << 30)) >> 31, (1 << 31) - 1))


def rounding_divide_by_pot(a: Array, exponent: Array | int) -> Array:
    """a / 2^exponent, rounded to nearest, halves away from zero; int64 in, int64 out."""
    e = np.asarray(exponent, np.int64)
    half = (np.int64(1) << e) >> 1
    return np.asarray((a + half + (a >> 63) * (e > 0)) >> e)


def multiply_by_quantized_multiplier(a: Array, q: Array | int, shift: Array | int) -> Array:
    """a * q / 2^31 * 2^shift on int32 accumulators, with both roundings; int64 out.

    `q` and `shift` broadcast against `a` (per channel: along the last dimension).
    """
    shift = np.asarray(shift, np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    # the left shift wraps as int32, as it does there
    shifted = (a.astype(np.int64) << left).astype(np.int32)
    return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(shifted, q), right)


def multiply_by_quantized_multiplier_64(a: Array, q: Array | int, shift: Array | int) -> Array:
    """The form for 48-bit accumulators (16x8 kernels): q has 16 bits, one rounding; int64."""
    q64 = np.asarray(q, np.int64)
    reduced = np.where(q64 < 0x7FFF0000, (q64 + (1 << 15)) >> 16, np.int64(0x7FFF))
    total = 15 - np.asarray(shift, np.int64)
    return (a.astype(np.int64) * reduced + (np.int64(1) << (total - 1))) >> total


def round_away(value: float) -> int:
    """To the nearest integer, halves away from zero, as C's round; OpError where none is near."""
    if not math.isfinite(value):
        raise OpError(f"a scale maps a bound to {value}, which no integer holds; is it damaged?")
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def activation_range(activation: str, output: TensorSpec) -> tuple[int, int]:
    """Least and greatest stored value of a quantised output under a fused activation."""
    low, high = output.dtype.range()
    scale, zero = np.float32(output.scale), output.zero_point

    def stored(real: float) -> int:
        with np.errstate(all="ignore"):
            return zero + round_away(float(np.float32(real) / scale))

    if activation == "NONE":
        return low, high
    if activation == "RELU":
        return max(low, stored(0.0)), high
    if activation == "RELU6":
        return max(low, stored(0.0)), min(high, stored(6.0))
    if activation == "RELU_N1_TO_1":
        return max(low, stored(-1.0)), min(high, stored(1.0))
    raise OpError(
        f"fused activation {activation} on {output.dtype.label}; "
        "taken: NONE, RELU, RELU6, RELU_N1_TO_1"
    )


def float_activation_range(activation: str) -> tuple[float, float]:
    """Bounds of a fused activation on floats; infinite where it has none."""
    try:
        return _FLOAT_RANGES[activation]
    except KeyError:
        taken = ", ".join(_FLOAT_RANGES)
        raise OpError(f"fused activation {activation}; taken: {taken}") from None


_FLOAT_RANGES = {
    "NONE": (-math.inf, math.inf),
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
