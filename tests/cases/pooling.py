"""AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D. Right answers: the definition, window by window."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from definitions import same_padding

from litedelegate.kernels.types import Array, DType

from . import Case, T

Pair = tuple[int, int]


def _options(kernel: Pair, stride: Pair, padding: str, activation: str) -> dict[str, Any]:
    return {
        "padding": padding,
        "filter_height": kernel[0],
        "filter_width": kernel[1],
        "stride_h": stride[0],
        "stride_w": stride[1],
        "fused_activation_function": activation,
    }


def _pooled(op: str, values: list[float], integer: bool) -> float:
    """One output of the values that its window sees."""
    if op == "MAX_POOL_2D":
        return max(values)
    if op == "L2_POOL_2D":
        return math.sqrt(sum(v * v for v in values) / len(values))
    total = sum(values)
    if not integer:
        return total / len(values)
    return math.trunc((total + math.copysign(len(values) // 2, total)) / len(values))


def _windows(op: str, x: Array, kernel: Pair, stride: Pair, padding: str) -> Array:
    integer = x.dtype.kind in "iu"
    before, out = [], []
    for n, k, s in zip(x.shape[1:3], kernel, stride, strict=True):
        pad, count = same_padding(n, k, s) if padding == "SAME" else (0, (n - k) // s + 1)
        before.append(pad)
        out.append(count)
    y = np.zeros((len(x), *out, x.shape[3]))
    for n, r, c, d in np.ndindex(*y.shape):
        top, left = r * stride[0] - before[0], c * stride[1] - before[1]
        seen = x[n, max(top, 0) : top + kernel[0], max(left, 0) : left + kernel[1], d]
        y[n, r, c, d] = _pooled(op, [v.item() for v in seen.flat], integer)
    return y


def _case(
    name: str,
    op: str,
    x: tuple[int, ...],
    kernel: Pair,
    stride: Pair = (1, 1),
    padding: str = "SAME",
    dtype: DType = DType.FLOAT32,
    activation: str = "NONE",
) -> Case:
    rng = np.random.default_rng(len(name))
    scale, zero = (0.25, 7) if dtype.is_integer else (0.0, 0)
    if dtype.is_float:
        a = rng.standard_normal(x).astype(dtype.numpy)
    else:
        low, high = dtype.range()
        a = rng.integers(low, high + 1, x).astype(dtype.numpy)
    want = _windows(op, a, kernel, stride, padding)
    if activation == "RELU6":
        want = np.clip(want, zero, zero + 6 / scale if scale else 6)
    return Case(
        op,
        [T(a, scale=scale, zero_point=zero)],
        _options(kernel, stride, padding, activation),
        [T(want.astype(dtype.numpy), scale=scale, zero_point=zero)],
        version=1 if op == "L2_POOL_2D" else 2,
        name=name,
        tolerance=4e-3 if dtype is DType.FLOAT16 else 1e-5,
    )


_LOWEST = float(np.finfo(np.float32).min)
_ODD = np.array([np.nan, 1, -np.inf, -np.inf, np.nan, np.nan, 2, np.nan], np.float32)

CASES = [
    *(
        case
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D")
        for case in (
            _case("2x2, stride 2", op, (2, 6, 4, 3), (2, 2), (2, 2)),
            _case("3x2, SAME", op, (1, 5, 6, 3), (3, 2)),
            _case("3x3, stride 2, SAME", op, (1, 6, 7, 2), (3, 3), (2, 2)),
            _case("5x5, VALID", op, (1, 7, 6, 2), (5, 5), padding="VALID"),
            _case("whole", op, (2, 7, 6, 2), (7, 6), padding="VALID"),
            _case("stride above kernel", op, (1, 9, 10, 2), (2, 2), (3, 4)),
            _case("1x1", op, (1, 3, 3, 2), (1, 1)),
            _case("several blocks", op, (2, 100, 80, 24), (2, 3), (4, 8)),
            _case("RELU6", op, (1, 5, 6, 3), (3, 2), activation="RELU6"),
            _case("float64", op, (1, 5, 6, 3), (3, 2), dtype=DType.FLOAT64),
            _case("float16", op, (1, 5, 6, 3), (3, 2), dtype=DType.FLOAT16),
        )
    ),
    *(
        case
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
        for dtype in (DType.INT8, DType.UINT8, DType.INT16)
        for case in (
            _case(f"{dtype.label}, 3x3, SAME", op, (1, 7, 6, 3), (3, 3), dtype=dtype),
            _case(f"{dtype.label}, 16 channels", op, (2, 6, 5, 16), (3, 4), (1, 2), dtype=dtype),
            _case(f"{dtype.label}, 37", op, (1, 9, 7, 37), (2, 3), (2, 2), "VALID", dtype, "RELU6"),
            _case(f"{dtype.label}, whole", op, (1, 6, 7, 3), (6, 7), (1, 1), "VALID", dtype),
            _case(
                f"{dtype.label}, RELU6",
                op,
                (1, 6, 7, 3),
                (2, 2),
                (2, 2),
                dtype=dtype,
                activation="RELU6",
            ),
        )
    ),
    Case(
        "MAX_POOL_2D",
        [_ODD.reshape(1, 1, 8, 1)],
        _options((1, 2), (1, 2), "VALID", "NONE"),
        [np.array([1, _LOWEST, _LOWEST, 2], np.float32).reshape(1, 1, 4, 1)],
        name="NaN is never the largest, and nothing is less than the lowest number",
        tolerance=0,
    ),
    Case(
        "AVERAGE_POOL_2D",
        [T(np.array([1, 2, -1, -2, 0, -1], np.int8).reshape(1, 1, 6, 1), scale=1.0)],
        _options((1, 2), (1, 2), "VALID", "NONE"),
        [T(np.array([2, -2, -1], np.int8).reshape(1, 1, 3, 1), scale=1.0)],
        version=2,
        name="halves go away from zero",
    ),
    Case(
        "MAX_POOL_2D",
        [np.zeros((0, 4, 4, 2), np.float32)],
        _options((2, 2), (2, 2), "SAME", "NONE"),
        [np.zeros((0, 2, 2, 2), np.float32)],
        name="no image",
    ),
    Case(
        "L2_POOL_2D",
        [T(np.zeros((1, 4, 4, 2), np.int8), scale=1.0)],
        _options((2, 2), (2, 2), "SAME", "NONE"),
        refused="is int8; L2_POOL_2D takes float32",
        outputs=[T(np.zeros(1, np.int8), scale=1.0)],
        name="type",
    ),
    Case(
        "MAX_POOL_2D",
        [np.zeros((4, 4, 2), np.float32)],
        _options((2, 2), (2, 2), "SAME", "NONE"),
        refused="takes a 4-dimensional input; got [4, 4, 2]",
        outputs=[T(0.0)],
        name="rank",
    ),
    Case(
        "AVERAGE_POOL_2D",
        [np.zeros((1, 4, 4, 2), np.float32)],
        _options((2, 0), (2, 2), "SAME", "NONE"),
        refused="kernel 2x0",
        outputs=[T(0.0)],
        name="kernel",
    ),
    Case(
        "AVERAGE_POOL_2D",
        [np.zeros((1, 4, 4, 2), np.float32)],
        _options((5, 5), (2, 2), "VALID", "NONE"),
        [np.zeros((1, 0, 0, 2), np.float32)],
        name="a window that just does not fit gives nothing",
    ),
    Case(
        "MAX_POOL_2D",
        [T([[[[1.0], [2.0]], [[-1.0], [0.5]]]], DType.BFLOAT16)],
        _options((2, 2), (2, 2), "VALID", "NONE"),
        [T([[[[2.0]]]], DType.BFLOAT16)],
        version=1,
        name="bfloat16",
        tolerance=1e-2,
    ),
]
