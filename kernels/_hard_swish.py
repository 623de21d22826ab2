"""HARD_SWISH on 8 bits, in the 16-bit fixed-point arithmetic of TensorFlow Lite's reference."""

from __future__ import annotations

import numpy as np

from ._lut import domain, saturate
from ._quant import quantize_multiplier, rounding_divide_by_pot
from .api import OpError, TensorSpec
from .types import Array

_MIN, _MAX = -(1 << 15), (1 << 15) - 1


def check_hard_swish_scales(x: TensorSpec, y: TensorSpec) -> None:
    """OpError where the arithmetic would have to shift left."""
    if _multiplier(np.float32(1 / 128) * np.float32(x.scale) / np.float32(y.scale))[1] > 0:
        raise OpError(
            f"scales {x.scale} of {x.name!r} and {y.scale} of {y.name!r}; HARD_SWISH takes an "
            "input scale below 128 times the output's"
        )


def hard_swish_table(x: TensorSpec, y: TensorSpec) -> Array:
    """Outputs x * min(6, max(0, x + 3)) / 6 for all stored inputs."""
    fine_scale = np.float32(1 / 128) * np.float32(x.scale)
    output, output_exponent = _multiplier(fine_scale / np.float32(y.scale))
    relu, relu_exponent = _multiplier(fine_scale / np.float32(3 / 32768))

    fine = _wrap((domain(x.dtype) - x.zero_point) << 7)
    on_output_scale = _rounding_high_product(fine, output)

    gate = fine
    if relu_exponent > 0:
        gate = np.clip(gate << (relu_exponent - 1), _MIN, _MAX)
    gate = _rounding_high_product(gate, relu)
    if relu_exponent > 0:
        gate = np.clip(gate << 1, _MIN, _MAX)
    elif relu_exponent < 0:
        gate = rounding_divide_by_pot(gate, -relu_exponent)
    gate = (gate + (1 << 15)) >> 1

    product = gate * on_output_scale
    high = np.where(product >= 0, product >> 15, -(-product >> 15))
    return saturate(rounding_divide_by_pot(high, -output_exponent) + y.zero_point, y.dtype)


def _multiplier(m: np.float32) -> tuple[int, int]:
    """`quantize_multiplier`, with 16 bits."""
    q, shift = quantize_multiplier(float(m))
    return min((q + (1 << 15)) >> 16, _MAX), shift


def _rounding_high_product(a: Array, b: int) -> Array:
    """round(a * b / 2^15), saturated to int16."""
    return np.asarray(np.minimum((a * b + (1 << 14)) >> 15, _MAX))


def _wrap(a: Array) -> Array:
    return a.astype(np.int16).astype(np.int64)
