"""FULLY_CONNECTED. Right answers: the definition; it rounds once, halves away from zero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from definitions import stored

from litedelegate.kernels.types import DType

from . import Case, T


def _options(
    activation: str = "NONE",
    keep: bool = False,
    asymmetric: bool = False,
    bias_type: DType = DType.FLOAT32,
    format_: str = "DEFAULT",
) -> dict[str, Any]:
    return {
        "fused_activation_function": activation,
        "keep_num_dims": keep,
        "asymmetric_quantize_inputs": asymmetric,
        "quantized_bias_type": bias_type,
        "weights_format": format_,
    }


def _floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _float(
    name: str,
    x: tuple[int, ...],
    units: int,
    depth: int,
    keep: bool = False,
    activation: str = "NONE",
    bias: bool = True,
    const: bool = True,
    dtype: Any = np.float32,
) -> Case:
    a, w = _floats(*x).astype(dtype), _floats(units, depth, seed=1).astype(dtype)
    b = _floats(units, seed=2).astype(dtype)
    want = a.reshape(-1, depth).astype(np.float64) @ w.T.astype(np.float64) + (b if bias else 0)
    if activation == "RELU6":
        want = np.clip(want, 0, 6)
    shape = (*x[:-1], units) if keep else want.shape
    return Case(
        "FULLY_CONNECTED",
        [a, T(w, const=const), T(b, const=const) if bias else None],
        _options(activation, keep),
        [want.reshape(shape).astype(dtype)],
        name=name,
        tolerance=4e-3 if dtype == np.float16 else 1e-5,
    )


def _integer(
    name: str,
    dtype: DType = DType.INT8,
    zeros: tuple[int, int, int] = (3, 0, -5),
    x: tuple[int, ...] = (3, 7),
    units: int = 4,
    per_channel: bool = False,
    weight_type: DType | None = None,
    bias: DType | None = DType.INT32,
    keep: bool = False,
    const: bool = True,
    out: DType | None = None,
) -> Case:
    rng = np.random.default_rng(len(name))
    kind = weight_type or (DType.UINT8 if dtype is DType.UINT8 else DType.INT8)
    out = out or dtype
    low, high = out.range()
    a = rng.integers(dtype.range()[0], dtype.range()[1] + 1, x).astype(dtype.numpy)
    w = rng.integers(kind.range()[0], kind.range()[1] + 1, (units, x[-1])).astype(kind.numpy)
    sums = (a.astype(np.int64) - zeros[0]).reshape(-1, x[-1]) @ (w.astype(np.int64) - zeros[1]).T
    b = None
    if bias is not None:
        b = rng.integers(-300, 300, units).astype(bias.numpy)
        sums = sums + b
    x_scale, y_scale = np.float32(0.02), np.float32(0.3)
    spread = (high - low) / 2 * y_scale / (x_scale * np.abs(sums).max())
    scales = (spread * rng.uniform(0.5, 1, units if per_channel else 1)).astype(np.float32)
    products = np.float64(x_scale) * scales.astype(np.float64)
    multipliers = np.broadcast_to(products / np.float64(y_scale), units)
    if kind is DType.INT16:
        if not per_channel:
            multipliers = np.broadcast_to(
                (x_scale * scales).astype(np.float64) / np.float64(y_scale), units
            )
        want = stored(sums, multipliers, zeros[2], low, high, wide=True)
    else:
        real = sums * multipliers
        whole = [math.copysign(math.floor(abs(r) + 0.5), r) for r in real.flat]
        want = np.clip(np.array(whole).reshape(real.shape) + zeros[2], low, high)
    shape = (*x[:-1], units) if keep else want.shape
    return Case(
        "FULLY_CONNECTED",
        [
            T(a, scale=float(x_scale), zero_point=zeros[0]),
            T(w, kind, scale=[float(s) for s in scales], zero_point=zeros[1], const=const),
            None if b is None else T(b, scale=float(x_scale * scales[0]), const=const),
        ],
        _options(keep=keep),
        [T(want.reshape(shape).astype(out.numpy), scale=float(y_scale), zero_point=zeros[2])],
        version=9,
        name=name,
    )


def _shuffled(name: str, rows: int) -> Case:
    """Weights in blocks of 4 units by 16 of depth, all sign bits flipped; zero points are 128."""
    rng = np.random.default_rng(rows)
    x = rng.integers(0, 256, (rows, 32), np.uint8)
    w = rng.integers(0, 256, (8, 32), np.uint8)
    b = rng.integers(-300, 300, 8).astype(np.int32)
    sums = (x.astype(np.int64) - 128) @ (w.astype(np.int64) - 128).T + b
    x_scale, w_scale, y_scale = np.float32(0.02), np.float32(0.25), np.float32(0.05)
    multipliers = np.full(8, np.float64(x_scale * w_scale) / np.float64(y_scale))
    want = stored(sums, multipliers, 0, -32768, 32767).astype(np.int16)
    kept = (w ^ 0x80).reshape(2, 4, 2, 16).swapaxes(1, 2).reshape(8, 32)
    workspace = (x ^ 0x80).reshape(rows, 2, 16).swapaxes(0, 1).reshape(rows, 32)
    return Case(
        "FULLY_CONNECTED",
        [
            T(x, scale=float(x_scale), zero_point=128),
            T(kept, scale=float(w_scale), zero_point=128, const=True),
            T(b, const=True),
        ],
        _options(format_="SHUFFLED4x16INT8"),
        [T(want, scale=float(y_scale)), workspace],
        version=2,
        name=name,
    )


_HYBRID_X = np.array([[1.27, -0.64], [0.0, 0.0], [0.0, 2.54]], np.float32)
_HYBRID_W = np.array([[2, 1], [-3, 4]], np.int8)

CASES = [
    _float("matrix", (3, 5), 4, 5),
    _float("one row, RELU6", (1, 5), 4, 5, activation="RELU6"),
    _float("rank 3, flattened", (2, 3, 5), 4, 5),
    _float("rank 3, kept", (2, 3, 5), 4, 5, keep=True),
    _float("rank 1", (5,), 4, 5),
    _float("rows of another length than the last dimension", (2, 3, 5), 4, 10),
    _float("no bias", (3, 5), 4, 5, bias=False),
    _float("weights that change", (3, 5), 4, 5, const=False),
    _float("float64", (3, 5), 4, 5, dtype=np.float64),
    _float("float16", (3, 5), 4, 5, dtype=np.float16),
    _float("many rows", (300, 40), 70, 40, activation="RELU6"),
    Case(
        "FULLY_CONNECTED",
        [np.zeros((2, 0), np.float32), np.zeros((3, 0), np.float32), np.ones(3, np.float32)],
        _options(),
        [np.zeros((2, 3), np.float32)],
        name="depth 0 gives zeros, whatever the bias",
    ),
    Case(
        "FULLY_CONNECTED",
        [np.zeros((0, 5), np.float32), np.zeros((3, 5), np.float32), None],
        _options(),
        [np.zeros((0, 3), np.float32)],
        name="no rows",
    ),
    _integer("int8"),
    _integer("int8, weights with a zero point", zeros=(3, 11, -5)),
    _integer("int8, per channel", per_channel=True),
    _integer("int8, no bias, rank 3 kept", x=(2, 3, 7), bias=None, keep=True),
    _integer("int8, weights that change", const=False),
    _integer("int8, deep", x=(2, 3000)),
    _integer("int8, 40 units of 33", x=(5, 33), units=40, per_channel=True),
    _integer("int8, 1001 units, a row", x=(1, 64), units=1001, zeros=(3, 0, -128)),
    _integer("uint8, 40 units of 33", DType.UINT8, (120, 100, 90), x=(31, 33), units=40),
    _integer("int4 weights", weight_type=DType.INT4),
    _integer("int2 weights", weight_type=DType.INT2, per_channel=True),
    _integer("uint8", DType.UINT8, (120, 100, 90)),
    _integer("uint8, deep", DType.UINT8, (120, 100, 90), x=(2, 900)),
    _integer("uint8 to int16", DType.UINT8, (120, 100, 0), out=DType.INT16),
    _integer("int16, rank 3", DType.INT16, (0, 0, 0), x=(2, 3, 7), bias=DType.INT64),
    _integer("int16, rank 3, no bias", DType.INT16, (0, 0, 0), x=(2, 3, 7), bias=None, keep=True),
    _integer("int16, deep", DType.INT16, (0, 0, 0), x=(2, 3000), per_channel=True),
    _integer("int16 by int16", DType.INT16, (0, 0, 0), weight_type=DType.INT16, bias=DType.INT64),
    _integer(
        "int16 by int16, per channel",
        DType.INT16,
        (0, 0, 0),
        weight_type=DType.INT16,
        per_channel=True,
    ),
    _shuffled("shuffled weights, one row", 1),
    _shuffled("shuffled weights, four rows", 4),
    Case(
        "FULLY_CONNECTED",
        [
            T(np.array([[71]], np.int8), scale=0.05296124517917633, zero_point=-124),
            T(np.array([[3]], np.int8), scale=0.024093778803944588, const=True),
            T(np.zeros(1, np.int32), scale=0.001276, const=True),
        ],
        _options(),
        [T(np.array([[-119]], np.int8), scale=0.11484327912330627, zero_point=-126)],
        version=4,
        name="a product near a half",
    ),
    Case(
        "FULLY_CONNECTED",
        [_HYBRID_X, T(_HYBRID_W, scale=0.5, const=True), np.array([1.0, 0.0], np.float32)],
        _options("RELU"),
        [np.array([[1.95, 0], [1, 0], [2.27, 5.08]], np.float32)],
        version=3,
        name="hybrid: each row has its scale, a row of zeros too",
        tolerance=1e-6,
    ),
    Case(
        "FULLY_CONNECTED",
        [
            np.array([[0.0, 2.55]], np.float32),
            T(_HYBRID_W, scale=[0.5, 0.25], const=True),
            None,
        ],
        _options("TANH", asymmetric=True),
        [np.tanh(np.array([[1.275, 2.55]])).astype(np.float32)],
        version=9,
        name="hybrid, asymmetric, per channel, TANH",
        tolerance=1e-6,
    ),
    Case(
        "FULLY_CONNECTED",
        [
            np.array([[0.0, 2.55, 2.55, 0.0]], np.float32),
            T(
                np.array([[1, 2, 3, 4]], np.int8),
                DType.INT4,
                scale=[[0.5, 0.25]],
                block_size=2,
                const=True,
            ),
            None,
        ],
        _options(),
        [np.array([[2.55 * (2 * 0.5 + 3 * 0.25)]], np.float32)],
        version=13,
        name="hybrid, a scale for each block",
        tolerance=1e-6,
    ),
    Case(
        "FULLY_CONNECTED",
        [np.zeros((3, 5), np.float32), np.zeros((4, 7), np.float32), None],
        _options(),
        refused="has 15 elements, no multiple of the depth 7",
        outputs=[T(0.0)],
        name="depth",
    ),
    Case(
        "FULLY_CONNECTED",
        [np.zeros((2, 10), np.float32), np.zeros((4, 5), np.float32), None],
        _options(keep=True),
        refused="the last dimension of the input must be 5",
        outputs=[T(0.0)],
        name="depth, dimensions kept",
    ),
    Case(
        "FULLY_CONNECTED",
        [np.zeros((2, 5), np.float32), np.zeros((4, 5), np.float32), None],
        _options("TANH"),
        refused="fused activation TANH",
        outputs=[T(0.0)],
        name="activation",
    ),
    Case(
        "FULLY_CONNECTED",
        [np.zeros((2, 5), np.int32), np.zeros((4, 5), np.float32), None],
        _options(),
        refused="is int32; FULLY_CONNECTED takes float32",
        outputs=[T(0.0)],
        name="type",
    ),
    Case(
        "FULLY_CONNECTED",
        [
            T(np.zeros((2, 5), np.int8)),
            T(np.zeros((4, 5), np.int8), scale=0.5),
            None,
        ],
        _options(),
        refused="has no scale; FULLY_CONNECTED on integers takes quantised tensors",
        outputs=[T(np.zeros(1, np.int8), scale=0.5)],
        name="no scale",
    ),
    Case(
        "FULLY_CONNECTED",
        [
            T([[1.0, 2.0]], DType.BFLOAT16),
            T([[0.5, 2.0], [1.0, -1.0]], DType.BFLOAT16, const=True),
            T([0.5, 1.0], DType.BFLOAT16, const=True),
        ],
        _options("RELU"),
        [T([[5.0, 0.0]], DType.BFLOAT16)],
        version=1,
        name="bfloat16",
        tolerance=1e-2,
    ),
]
