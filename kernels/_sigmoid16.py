"""LOGISTIC and TANH on int16: tables of all inputs, by the reference's interpolation of sigmoid.

Source: TensorFlow Lite's int16 kernels. They interpolate sigmoid(i / 24), i = 0 … 255, in 16 bits;
each point is raised by half of what a chord there falls short of the curve.
"""

from __future__ import annotations

import math

import numpy as np

from ._lut import domain
from .api import OpError
from .types import Array, DType


def _points() -> Array:
    curve = 65536 / (1 + np.exp(-np.arange(-1, 257) / 24))
    bend = curve[2:] - 2 * curve[1:-1] + curve[:-2]
    points = np.floor(curve[1:-1] - bend / 16 + 0.5).astype(np.int64)
    points[255] = 65535
    return points


def _rescaled(scale: float, shifts: tuple[int, ...]) -> Array:
    """Every int16 value in units of 1 / (3 * 4096); `shifts`: powers of two that scale exactly."""
    log = math.log2(scale)
    whole = math.floor(log + 0.5)
    shift = 12 + whole
    if abs(log - whole) < 1e-3 and shift in shifts:
        return domain(DType.INT16) * (3 << shift)
    multiplier, shift = scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        shift += 1
        multiplier *= 2.0
    if multiplier >= 1 << 31:
        raise OpError(f"the scale {scale} of an int16 input is too great; is it damaged?")
    nudge = 1 << (shift - 1) if shift else 0
    return (domain(DType.INT16) * int(multiplier) + nudge) >> shift


def logistic_table(scale: float) -> Array:
    """Outputs for all int16 inputs of that scale; output scale 1 / 32768."""
    x = _rescaled(scale, (0,))
    size, points = np.abs(x), _points()
    i = np.minimum(size >> 9, 254)
    between = (points[i] << 9) + (size & 0x1FF) * (points[i + 1] - points[i])
    result = np.where(size >> 9 >= 255, 0x7FFF << 10, between)
    positive, negative = result + (1 << 9), (1 << 25) - result + (1 << 9) - 1
    return np.asarray(np.where(x >= 0, positive, negative) >> 10, np.int16)


def tanh_table(scale: float) -> Array:
    """Outputs for all int16 inputs of that scale; output scale 1 / 32768."""
    x = _rescaled(scale, (0, 1))
    size, points = np.abs(x), _points()
    i = np.minimum(size >> 8, 254)
    between = (points[i] << 8) + (size & 0xFF) * (points[i + 1] - points[i])
    result = np.where(size >> 8 >= 255, 0xFFFF << 8, between)
    positive, negative = result - (1 << 23) + (1 << 7), -result + (1 << 23) + (1 << 7) - 1
    return np.asarray(np.where(x >= 0, positive, negative) >> 8, np.int16)
