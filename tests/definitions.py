"""Convolutions and fixed-point rounding straight from their definitions, slow and plain."""

from __future__ import annotations

import math

import numpy as np

from litedelegate.kernels.types import Array


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Padding in front, and output size, of SAME along one dimension."""
    out = math.ceil(size / stride)
    total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, out


def output_size(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: str,
) -> tuple[list[int], list[int]]:
    """Padding in front, and output size, of height and width."""
    before, out = [], []
    for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        pad, count = same_padding(n, k, s, d)
        before.append(pad if padding == "SAME" else 0)
        out.append(count if padding == "SAME" else (n - (k - 1) * d - 1) // s + 1)
    return before, out


def convolution(
    x: Array,
    weights: Array,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: str = "SAME",
) -> Array:
    """Sums of x [n, h, w, groups * c] with weights [units, kh, kw, c]; int64 or float64."""
    kind = np.int64 if x.dtype.kind in "iu" else np.float64
    x, weights = x.astype(kind), weights.astype(kind)
    size, kernel = x.shape[1:3], weights.shape[1:3]
    units, channels = weights.shape[0], weights.shape[3]
    groups = x.shape[3] // channels
    before, out = output_size(size, kernel, stride, dilation, padding)
    sums = np.zeros((len(x), *out, units), kind)
    for tap in np.ndindex(*kernel):
        places, sources = [], []
        for i in (0, 1):
            source = np.arange(out[i]) * stride[i] - before[i] + tap[i] * dilation[i]
            inside = (source >= 0) & (source < size[i])
            places.append(np.nonzero(inside)[0])
            sources.append(source[inside])
        seen = x[:, sources[0][:, None], sources[1]]
        for g in range(groups):
            mine = np.arange(g * units // groups, (g + 1) * units // groups)
            term = seen[..., g * channels : (g + 1) * channels] @ weights[mine, tap[0], tap[1]].T
            at = np.ix_(np.arange(len(x)), places[0], places[1], mine)
            sums[at] += term
    return sums


def depthwise(
    x: Array,
    weights: Array,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: str = "SAME",
) -> Array:
    """Sums of x [n, h, w, c] with weights [1, kh, kw, c * m]; int64 or float64."""
    units, channels = weights.shape[3], x.shape[3]
    # as a convolution of as many groups as channels
    grouped = weights[0].transpose(2, 0, 1)[..., None]
    assert units % channels == 0
    return convolution(x, grouped, stride, dilation, padding)


def transposed(
    x: Array,
    weights: Array,
    size: tuple[int, int],
    stride: tuple[int, int],
    before: tuple[int, int],
) -> Array:
    """Sums [n, *size, units] of x [n, h, w, c] spread by weights [units, kh, kw, c]."""
    kind = np.int64 if x.dtype.kind in "iu" else np.float64
    x, weights = x.astype(kind), weights.astype(kind)
    sums = np.zeros((len(x), *size, len(weights)), kind)
    for iy, ix, ky, kx in np.ndindex(*x.shape[1:3], *weights.shape[1:3]):
        y, c = iy * stride[0] - before[0] + ky, ix * stride[1] - before[1] + kx
        if 0 <= y < size[0] and 0 <= c < size[1]:
            sums[:, y, c] += x[:, iy, ix] @ weights[:, ky, kx].T
    return sums


def fixed_point(value: int, multiplier: float) -> int:
    """value * multiplier as TensorFlow Lite's 32-bit arithmetic rounds it, twice."""
    q, shift = quantized_multiplier(multiplier)
    high = (value << max(shift, 0)) * q
    first = (high + (1 << 30)) >> 31  # halves go up
    right = max(-shift, 0)
    if not right:
        return first
    second = (abs(first) + (1 << (right - 1))) >> right  # halves go away from zero
    return second if first >= 0 else -second


def fixed_point_wide(value: int, multiplier: float) -> int:
    """The same of its arithmetic for 64-bit accumulators, which rounds once, halves up."""
    q, shift = quantized_multiplier(multiplier)
    reduced = (q + (1 << 15)) >> 16 if q < 0x7FFF0000 else 0x7FFF
    total = 15 - shift
    return (value * reduced + (1 << (total - 1))) >> total


def quantized_multiplier(multiplier: float) -> tuple[int, int]:
    fraction, shift = math.frexp(multiplier)
    q = math.floor(fraction * 2**31 + 0.5)
    return (q // 2, shift + 1) if q == 2**31 else (q, shift)


def stored(
    sums: Array,
    multipliers: Array,
    zero: int,
    low: int,
    high: int,
    wide: bool = False,
) -> Array:
    """Stored values of sums [..., units] under multipliers [units] (float64)."""
    scale = fixed_point_wide if wide else fixed_point
    out = np.empty(sums.shape, np.int64)
    for index in np.ndindex(*sums.shape):
        out[index] = scale(int(sums[index]), float(multipliers[index[-1]])) + zero
    return np.clip(out, low, high)
