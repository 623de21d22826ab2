"""TRANSPOSE_CONV. Right answers: the definition (see `definitions`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from definitions import same_padding, stored, transposed

from litedelegate.kernels.types import Array, DType

from . import Case, T

Pair = tuple[int, int]


def _options(stride: Pair, padding: str, activation: str = "NONE") -> dict[str, Any]:
    return {
        "padding": padding,
        "stride_h": stride[0],
        "stride_w": stride[1],
        "fused_activation_function": activation,
        "quantized_bias_type": DType.FLOAT32,
    }


def _sums(x: Array, w: Array, size: Pair, stride: Pair, padding: str) -> Array:
    before = (0, 0)
    if padding == "SAME":
        pads = [
            same_padding(n, k, s)[0] for n, k, s in zip(size, w.shape[1:3], stride, strict=True)
        ]
        before = (pads[0], pads[1])
    return transposed(x, w, size, stride, before)


def _float(
    name: str,
    x: tuple[int, ...],
    weights: tuple[int, ...],
    size: Pair,
    stride: Pair = (2, 2),
    padding: str = "SAME",
    bias: bool = True,
    const: bool = True,
) -> Case:
    rng = np.random.default_rng(len(name))
    a = rng.standard_normal(x).astype(np.float32)
    w = rng.standard_normal(weights).astype(np.float32)
    b = rng.standard_normal(weights[0]).astype(np.float32)
    want = _sums(a, w, size, stride, padding) + (b if bias else 0)
    shape = np.array([x[0], *size, weights[0]], np.int32)
    return Case(
        "TRANSPOSE_CONV",
        [T(shape, const=const), T(w, const=const), a, T(b, const=const) if bias else None],
        _options(stride, padding, "RELU"),
        [np.maximum(want, 0).astype(np.float32)],
        version=4,
        name=name,
    )


def _integer(
    name: str, dtype: DType, zeros: tuple[int, int, int], bias_type: DType, per_channel: bool
) -> Case:
    rng = np.random.default_rng(len(name))
    kind = DType.UINT8 if dtype is DType.UINT8 else DType.INT8
    low, high = dtype.range()
    a = rng.integers(low, high + 1, (2, 3, 4, 3)).astype(dtype.numpy)
    w = rng.integers(kind.range()[0], kind.range()[1] + 1, (4, 3, 3, 3)).astype(kind.numpy)
    b = rng.integers(-500, 500, 4).astype(bias_type.numpy)
    sums = _sums(
        a.astype(np.int64) - zeros[0], w.astype(np.int64) - zeros[1], (6, 8), (2, 2), "SAME"
    )
    x_scale, y_scale = np.float32(0.02), np.float32(0.3)
    spread = (high - low) / 2 * y_scale / (x_scale * np.abs(sums).max())
    scales = (spread * rng.uniform(0.5, 1, 4 if per_channel else 1)).astype(np.float32)
    if dtype is DType.UINT8:
        products = (x_scale * scales).astype(np.float64)
    else:
        products = np.float64(x_scale) * scales.astype(np.float64)
    multipliers = np.broadcast_to(products / np.float64(y_scale), 4)
    want = stored(sums + b, multipliers, zeros[2], low, high, dtype is DType.INT16)
    return Case(
        "TRANSPOSE_CONV",
        [
            T(np.array([2, 6, 8, 4], np.int32), const=True),
            T(w, scale=[float(s) for s in scales], zero_point=zeros[1], const=True),
            T(a, scale=float(x_scale), zero_point=zeros[0]),
            T(b, scale=float(x_scale * scales[0]), const=True),
        ],
        _options((2, 2), "SAME"),
        [T(want.astype(dtype.numpy), scale=float(y_scale), zero_point=zeros[2])],
        version=4,
        name=name,
    )


CASES = [
    _float("2x2, stride 2", (1, 3, 4, 3), (2, 2, 2, 3), (6, 8)),
    _float("3x3, stride 2", (2, 3, 4, 3), (2, 3, 3, 3), (6, 8)),
    _float("3x3, stride 2, odd size", (1, 3, 4, 3), (2, 3, 3, 3), (5, 7)),
    _float("4x3, stride 2x1, VALID", (1, 3, 4, 3), (2, 4, 3, 3), (8, 6), (2, 1), "VALID"),
    _float("stride above kernel", (1, 3, 4, 3), (2, 2, 1, 3), (8, 10), (3, 3), "VALID"),
    _float("no bias, 5x5, stride 1", (1, 5, 4, 2), (3, 5, 5, 2), (5, 4), (1, 1), bias=False),
    _float("a shape known at the call", (1, 3, 4, 3), (2, 2, 2, 3), (6, 8), const=False),
    _float("one unit", (2, 5, 4, 3), (1, 3, 2, 3), (10, 8)),
    _float("units that fill no vector", (1, 5, 4, 3), (35, 3, 2, 3), (10, 8)),
    _float("several blocks", (1, 70, 64, 8), (16, 3, 3, 8), (140, 128)),
    _integer("int8", DType.INT8, (3, 0, -5), DType.INT32, False),
    _integer("int8, per channel", DType.INT8, (3, 0, -5), DType.INT32, True),
    _integer("uint8", DType.UINT8, (120, 100, 90), DType.INT32, False),
    _integer("int16, int64 bias", DType.INT16, (0, 0, 0), DType.INT64, True),
    Case(
        "TRANSPOSE_CONV",
        [
            T(np.array([1, 1, 2, 1], np.int32), const=True),
            T(np.array([2, -1], np.int8).reshape(1, 1, 2, 1), scale=0.5, const=True),
            np.full((1, 1, 1, 1), 2.55, np.float32),
        ],
        _options((1, 2), "VALID"),
        [np.array([2.55, -1.275], np.float32).reshape(1, 1, 2, 1)],
        version=3,
        name="hybrid",
        tolerance=1e-6,
    ),
    Case(
        "TRANSPOSE_CONV",
        [
            T(np.array([1, 6, 8, 3], np.int32), const=True),
            np.zeros((2, 2, 2, 3), np.float32),
            np.zeros((1, 3, 4, 3), np.float32),
        ],
        _options((2, 2), "SAME"),
        refused="output shape [1, 6, 8, 3] does not go with input [1, 3, 4, 3] and 2 output",
        outputs=[T(0.0)],
        name="channels of the output",
    ),
    Case(
        "TRANSPOSE_CONV",
        [
            T(np.array([1, 6, 8, 2], np.int32), const=True),
            np.zeros((2, 2, 2, 5), np.float32),
            np.zeros((1, 3, 4, 3), np.float32),
        ],
        _options((2, 2), "SAME"),
        refused="the last dimensions must be equal",
        outputs=[T(0.0)],
        name="channels of the input",
    ),
    Case(
        "TRANSPOSE_CONV",
        [
            T(np.array([1, 1, 2, 1], np.int32), const=True),
            T([[[[0.5], [2.0]]]], DType.BFLOAT16, const=True),
            T([[[[3.0]]]], DType.BFLOAT16),
        ],
        _options((1, 2), "VALID"),
        [T([[[[1.5], [6.0]]]], DType.BFLOAT16)],
        version=3,
        name="bfloat16",
        tolerance=1e-2,
    ),
]
