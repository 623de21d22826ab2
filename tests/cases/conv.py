"""CONV_2D. Right answers: the definition (see `definitions`), worked out number by number."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from convolutions import Pair, multipliers, options
from definitions import convolution, stored

from litedelegate.kernels.types import DType

from . import Case, T

_options = partial(options, quantized_bias_type=DType.FLOAT32)


def _float(
    name: str,
    x: tuple[int, ...],
    weights: tuple[int, ...],
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    activation: str = "NONE",
    bias: bool = True,
    const: bool = True,
    dtype: Any = np.float32,
) -> Case:
    rng = np.random.default_rng(len(name))
    a = rng.standard_normal(x).astype(dtype)
    w = rng.standard_normal(weights).astype(dtype)
    b = rng.standard_normal(weights[0]).astype(dtype)
    want = convolution(a, w, stride, dilation, padding) + (b if bias else 0)
    low, high = {"RELU": (0, np.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}.get(
        activation, (-np.inf, np.inf)
    )
    return Case(
        "CONV_2D",
        [a, T(w, const=const), T(b, const=const) if bias else None],
        _options(stride, dilation, padding, activation),
        [np.clip(want, low, high).astype(dtype)],
        name=name,
        tolerance=4e-3 if dtype == np.float16 else 1e-5,
    )


def _integer(
    name: str,
    x: tuple[int, ...],
    weights: tuple[int, ...],
    dtype: DType = DType.INT8,
    per_channel: bool = False,
    zeros: tuple[int, int, int] = (3, 0, -5),
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    activation: str = "NONE",
    bias: DType | None = DType.INT32,
    weight_type: DType | None = None,
    const: bool = True,
    spread: float = 1.0,
) -> Case:
    """`spread`: how far the results reach, as a part of the output's range."""
    rng = np.random.default_rng(len(name))
    low, high = dtype.range()
    kind = weight_type or (DType.UINT8 if dtype is DType.UINT8 else DType.INT8)
    w_low, w_high = kind.range()
    a = rng.integers(low, high + 1, x).astype(dtype.numpy)
    w = rng.integers(w_low, w_high + 1, weights).astype(kind.numpy)
    units = weights[0]
    sums = convolution(
        a.astype(np.int64) - zeros[0], w.astype(np.int64) - zeros[1], stride, dilation, padding
    )
    b = None
    if bias is not None:
        size = int(np.abs(sums).max()) // 4 + 1
        b = rng.integers(-size, size, units).astype(bias.numpy)
        sums = sums + b
    x_scale, y_scale = np.float32(0.02), np.float32(0.3)
    wanted = spread * (high - low) / 2 * y_scale / (x_scale * np.abs(sums).max())
    count = units if per_channel else 1
    scales = (wanted * rng.uniform(0.5, 1.0, count)).astype(np.float32)
    reach = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
    ends = [low, high]
    if activation != "NONE":
        for i, end in enumerate(reach[activation]):
            if np.isfinite(end):
                at = zeros[2] + int(np.floor(float(np.float32(end) / y_scale) + 0.5))
                ends[i] = min(max(at, low), high)
    wide = dtype is DType.INT16 and bias is not DType.INT32
    by = multipliers(x_scale, scales, y_scale, dtype, units)
    want = stored(sums, by, zeros[2], ends[0], ends[1], wide).astype(dtype.numpy)
    bias_tensor = None
    if b is not None:
        bias_scale = float(x_scale * scales[0])
        bias_tensor = T(b, scale=bias_scale, const=const)
    return Case(
        "CONV_2D",
        [
            T(a, scale=float(x_scale), zero_point=zeros[0]),
            T(w, kind, scale=[float(s) for s in scales], zero_point=zeros[1], const=const),
            bias_tensor,
        ],
        _options(
            stride,
            dilation,
            padding,
            activation,
            quantized_bias_type=bias if dtype is DType.INT16 and bias else DType.FLOAT32,
        ),
        [T(want, scale=float(y_scale), zero_point=zeros[2])],
        version=8 if dtype is DType.INT16 else 3,
        name=name,
    )


def _blocks() -> list[Case]:
    """Shapes about the edges of a CPU's vectors and tiles, both signs, all forms of rounding."""
    made: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ("", (1, 9, 7, 5), (35, 3, 3, 5), {}),
        ("in place", (2, 6, 5, 16), (16, 1, 1, 16), {"activation": "RELU"}),
        ("stride 2", (1, 7, 7, 20), (24, 1, 1, 20), {"stride": (2, 2), "padding": "VALID"}),
        ("dilated", (1, 9, 9, 4), (17, 3, 3, 4), {"dilation": (2, 3), "activation": "RELU6"}),
        ("wide, saturating", (1, 3, 3, 70), (100, 1, 1, 70), {"spread": 8.0}),
        ("one channel", (1, 5, 5, 1), (33, 1, 1, 1), {"activation": "RELU_N1_TO_1"}),
        ("one channel, rows", (1, 4, 50, 1), (16, 3, 3, 1), {"spread": 0.2}),
        ("larger than its sums", (1, 4, 5, 2), (18, 1, 1, 2), {"spread": 400.0}),
        ("small kernel, large stride", (1, 10, 12, 3), (40, 3, 3, 3), {"stride": (3, 4)}),
        ("deep", (1, 2, 2, 600), (20, 2, 2, 600), {"padding": "VALID"}),
    ]
    kinds = (
        (DType.INT8, False, (3, 0, -128)),
        (DType.INT8, True, (3, 0, -5)),
        (DType.UINT8, False, (120, 101, 7)),
    )
    cases = []
    for i, (name, x, weights, more) in enumerate(made):
        # all kinds of the first shape, one of each other
        for dtype, per_channel, zeros in kinds if i == 0 else kinds[i % 3 : i % 3 + 1]:
            form = "a scale for each" if per_channel else "one scale"
            label = f"{dtype.label}, {weights[0]} of {weights[1:]} {name}, {form}"
            cases.append(_integer(label, x, weights, dtype, per_channel, zeros, **more))
    return cases


def _tiles() -> list[Case]:
    """Shapes about the edges of a GPU's tiles: 32 and 64 pixels and channels, 16 words."""
    symmetric = (120, 128, 7)  # weights of uint8 that are signed bytes less their zero point
    return [
        _float("tiles", (1, 9, 9, 20), (70, 3, 3, 20), activation="RELU6"),
        _float("tiles, pointwise, two images", (2, 20, 21, 8), (100, 1, 1, 8)),
        _float("tiles, groups", (1, 9, 9, 24), (48, 3, 3, 12), (2, 2)),
        _float("tiles, one pixel too many", (1, 5, 13, 16), (33, 1, 1, 16)),
        _integer("int8, tiles, groups", (1, 9, 9, 24), (40, 3, 3, 12), per_channel=True),
        _integer("int8, tiles, words cut", (1, 12, 11, 6), (66, 3, 3, 6), dilation=(2, 1)),
        _integer("int8, tiles, groups, cut", (2, 8, 9, 20), (72, 2, 3, 10), stride=(1, 2)),
        _integer("uint8, tiles", (2, 9, 7, 8), (65, 3, 3, 8), DType.UINT8, zeros=symmetric),
        _integer("uint8, tiles, cut", (1, 12, 11, 5), (34, 3, 3, 5), DType.UINT8, zeros=symmetric),
    ]


_SYMMETRIC = (0, 0, 0)
_POSITIVE = np.arange(360, dtype=np.float32).reshape(1, 10, 12, 3)

CASES = [
    *_blocks(),
    *_tiles(),
    _float("3x3, SAME", (1, 7, 6, 3), (4, 3, 3, 3)),
    _float("3x3, VALID, two images", (2, 7, 6, 3), (4, 3, 3, 3), padding="VALID"),
    _float("pointwise", (2, 5, 4, 6), (3, 1, 1, 6), activation="RELU"),
    _float("pointwise, stride 2", (1, 5, 6, 4), (3, 1, 1, 4), stride=(2, 2)),
    _float("strides differ, RELU6", (1, 9, 8, 2), (5, 3, 2, 2), (2, 3), activation="RELU6"),
    _float("stride above kernel", (1, 10, 12, 3), (2, 3, 3, 3), (3, 4)),
    _float("stride above kernel, pointwise, SAME", (1, 10, 12, 3), (2, 1, 1, 3), (3, 4)),
    _float("dilated", (1, 9, 9, 2), (3, 3, 3, 2), dilation=(2, 3), activation="RELU_N1_TO_1"),
    _float("dilated, VALID", (1, 9, 9, 2), (3, 3, 3, 2), dilation=(2, 3), padding="VALID"),
    _float("dilated far apart, many channels", (1, 9, 20, 160), (4, 3, 3, 160), dilation=(11, 9)),
    _float("groups", (1, 5, 5, 6), (4, 3, 3, 3)),
    _float("a group for each channel", (2, 5, 5, 4), (8, 3, 3, 1)),
    _float("a kernel as large as the input", (3, 4, 5, 2), (3, 4, 5, 2), padding="VALID"),
    _float("a kernel larger than the input", (1, 2, 3, 2), (3, 5, 5, 2)),
    _float("one position of a larger input", (1, 5, 5, 2), (3, 3, 3, 2), (4, 4), padding="VALID"),
    _float("no bias", (1, 5, 5, 2), (3, 3, 3, 2), bias=False),
    _float("weights and bias that change", (1, 5, 5, 2), (3, 3, 3, 2), const=False),
    _float("enough rows for several blocks", (2, 96, 90, 8), (32, 3, 3, 8), activation="RELU"),
    _float("one long row", (2, 1, 70000, 4), (3, 1, 5, 4), (1, 2), activation="RELU"),
    _float("float64", (1, 5, 5, 2), (3, 3, 3, 2), dtype=np.float64),
    _float("float16", (1, 5, 5, 2), (3, 3, 3, 2), dtype=np.float16),
    Case(
        "CONV_2D",
        [_POSITIVE, T(np.ones((1, 3, 3, 3), np.float32), const=True), np.zeros(1, np.float32)],
        _options((3, 4)),
        [convolution(_POSITIVE, np.ones((1, 3, 3, 3)), (3, 4)).astype(np.float32)],
        name="SAME clamps at 0 where the stride is above the kernel",
    ),
    _integer("int8", (2, 6, 5, 3), (4, 3, 3, 3)),
    _integer("int8, per channel", (2, 6, 5, 3), (4, 3, 3, 3), per_channel=True),
    _integer("int8, pointwise, RELU", (1, 6, 5, 8), (4, 1, 1, 8), activation="RELU"),
    _integer("int8, RELU6", (1, 6, 5, 8), (4, 3, 3, 8), activation="RELU6", stride=(2, 2)),
    _integer("int8, RELU_N1_TO_1", (1, 6, 5, 2), (4, 3, 3, 2), activation="RELU_N1_TO_1"),
    _integer("int8, dilated", (1, 9, 9, 2), (3, 3, 3, 2), dilation=(2, 3), per_channel=True),
    _integer(
        "uint8, groups of few", (1, 6, 5, 8), (16, 3, 1, 2), DType.UINT8, zeros=(120, 175, 100)
    ),
    _integer("int8, groups", (1, 5, 5, 6), (4, 3, 3, 3), per_channel=True),
    _integer("int8, no bias", (1, 5, 5, 6), (4, 3, 3, 6), bias=None),
    _integer("int8, weights that change", (1, 5, 5, 3), (4, 3, 3, 3), const=False),
    _integer("int8, saturating", (1, 5, 5, 3), (4, 3, 3, 3), spread=8.0),
    _integer("int8, small steps", (1, 5, 5, 3), (4, 3, 3, 3), spread=0.1, per_channel=True),
    _integer("int8, enough for a proof", (1, 40, 40, 3), (16, 3, 3, 3), per_channel=True),
    _integer(
        "int8, enough for a proof, one sign", (1, 40, 40, 3), (16, 3, 3, 3), zeros=(3, 0, -128)
    ),
    _integer("int8, depth beyond float32", (1, 2, 2, 1100), (2, 2, 2, 1100), padding="VALID"),
    _integer("int4 weights", (1, 5, 5, 3), (4, 3, 3, 3), weight_type=DType.INT4),
    _integer("int2 weights", (1, 5, 5, 3), (4, 3, 3, 3), weight_type=DType.INT2),
    _integer("uint8", (2, 6, 5, 3), (4, 3, 3, 3), DType.UINT8, zeros=(120, 130, 100)),
    _integer("uint8, RELU", (1, 6, 5, 8), (4, 1, 1, 8), DType.UINT8, zeros=(0, 128, 0)),
    _integer(
        "uint8, enough for a proof", (1, 40, 40, 3), (16, 3, 3, 3), DType.UINT8, zeros=(9, 130, 0)
    ),
    _integer("uint8, deep", (1, 2, 2, 500), (2, 2, 2, 500), DType.UINT8, zeros=(120, 130, 100)),
    _integer("int16", (1, 6, 5, 3), (4, 3, 3, 3), DType.INT16, True, _SYMMETRIC, bias=DType.INT64),
    _integer("int16, int32", (1, 6, 5, 3), (4, 3, 3, 3), DType.INT16, True, _SYMMETRIC),
    _integer(
        "int16, no bias", (1, 6, 5, 3), (4, 1, 1, 3), DType.INT16, True, _SYMMETRIC, bias=None
    ),
    # so few pixels that GPUs take a row for each, which skip some of the input's
    _float("one pixel in two, few of them", (1, 12, 1, 17), (17, 1, 1, 17), stride=(2, 2)),
    _integer("one pixel in two, few int8", (1, 12, 1, 17), (17, 1, 1, 17), stride=(2, 2)),
    *(  # results of 16 bits, of which an activation leaves a few
        _integer(
            f"int16, {name}",
            (1, 6, 5, 3),
            (4, 3, 3, 3),
            DType.INT16,
            True,
            _SYMMETRIC,
            bias=DType.INT64,
            activation=activation,
            spread=spread,
        )
        for name, activation, spread in (
            ("-1 to 1", "RELU_N1_TO_1", 1.0),
            ("-1 to 1, some scales above 1", "RELU_N1_TO_1", 8e2),
            ("0 to 6, some scales above 1", "RELU6", 8e2),
        )
    ),
    Case(
        "CONV_2D",
        [
            T(np.full((1, 1, 1, 1), 71, np.int8), scale=0.05296124517917633, zero_point=-124),
            T(np.full((1, 1, 1, 1), 3, np.int8), scale=0.024093778803944588, const=True),
            T(np.zeros(1, np.int32), scale=0.001276, const=True),
        ],
        _options(),
        [T(np.full((1, 1, 1, 1), -119, np.int8), scale=0.11484327912330627, zero_point=-126)],
        version=3,
        name="a product near a half",
    ),
    Case(
        "CONV_2D",
        [
            np.array([[-1.27, 0.64], [1.27, 0.0]], np.float32).reshape(1, 2, 2, 1),
            T(np.array([2, -1], np.int8).reshape(2, 1, 1, 1), scale=0.5, const=True),
            np.array([1.0, 2.0], np.float32),
        ],
        _options(),
        # quantised to -127, 64, 127, 0 in steps of 0.01
        [np.array([-0.27, 2.635, 1.64, 1.68, 2.27, 1.365, 1, 2], np.float32).reshape(1, 2, 2, 2)],
        version=2,
        name="hybrid, one scale",
        tolerance=1e-6,
    ),
    Case(
        "CONV_2D",
        [
            np.array([0.0, 2.55], np.float32).reshape(1, 1, 2, 1),
            T(np.array([2, -1], np.int8).reshape(2, 1, 1, 1), scale=[0.5, 0.25], const=True),
            None,
        ],
        _options(),
        [np.array([0, 0, 2.55, -0.6375], np.float32).reshape(1, 1, 2, 2)],
        version=5,
        name="hybrid, a scale for each channel",
        tolerance=1e-6,
    ),
    Case(
        "CONV_2D",
        [np.zeros((0, 3, 3, 2), np.float32), np.zeros((4, 2, 2, 2), np.float32), None],
        _options(),
        [np.zeros((0, 3, 3, 4), np.float32)],
        name="no image",
    ),
    Case(
        "CONV_2D",
        [np.zeros((1, 3, 3, 4), np.float32), np.zeros((4, 2, 2, 3), np.float32), None],
        _options(),
        refused="input [1, 3, 3, 4] has 4 channels and weights [4, 2, 2, 3] 3",
        outputs=[T(0.0)],
        name="channels do not divide",
    ),
    Case(
        "CONV_2D",
        [np.zeros((1, 3, 3, 2), np.float32), np.zeros((4, 5, 5, 2), np.float32), None],
        _options(padding="VALID"),
        refused="a window of 5x5 with dilation 1x1 does not fit into 3x3",
        outputs=[T(0.0)],
        name="a window that does not fit",
    ),
    Case(
        "CONV_2D",
        [np.zeros((1, 3, 3, 2), np.float32), np.zeros((4, 1, 1, 2), np.float32), None],
        _options((0, 1)),
        refused="stride 0x1",
        outputs=[T(0.0)],
        name="no stride",
    ),
    Case(
        "CONV_2D",
        [np.zeros((1, 3, 3, 2), np.int32), np.zeros((4, 1, 1, 2), np.float32), None],
        _options(),
        refused="is int32; CONV_2D takes float32",
        outputs=[T(0.0)],
        name="type",
    ),
    Case(
        "CONV_2D",
        [
            T(np.zeros((1, 3, 3, 2), np.int8), scale=0.1),
            T(np.zeros((4, 1, 1, 2), np.int8), scale=[0.1, 0.2]),
            None,
        ],
        _options(),
        refused="have 2 scales; one, or one for each of the 4 output channels",
        outputs=[T(np.zeros(1, np.int8), scale=0.1)],
        name="number of scales",
    ),
    Case(
        "CONV_2D",
        [
            T(np.zeros((1, 3, 3, 2), np.int8), scale=0.1),
            T(np.zeros((4, 1, 1, 2), np.int8), scale=0.1, zero_point=1),
            None,
        ],
        _options(),
        refused="not 0; CONV_2D takes symmetric ones",
        outputs=[T(np.zeros(1, np.int8), scale=0.1)],
        name="int8 weights with a zero point",
    ),
    Case(
        "CONV_2D",
        [
            T(np.array([2, 6], np.int8).reshape(1, 1, 2, 1), scale=0.5),
            T(
                np.array([2, 2, 2], np.int8).reshape(3, 1, 1, 1),
                scale=[np.nan, np.inf, 0.5],
                const=True,
            ),
            T(np.array([9, 9, 0], np.int32), const=True),
        ],
        _options(),
        # channels whose scale is no number hold the zero point, as in the reference
        [T(np.array([3, 3, 7, 3, 3, 15], np.int8).reshape(1, 1, 2, 3), scale=0.25, zero_point=3)],
        name="damaged scales",
    ),
    Case(
        "CONV_2D",
        [
            T(np.zeros((1, 3, 3, 2), np.uint8), scale=0.5),
            T(np.zeros((4, 1, 1, 2), np.uint8), scale=-0.5),
            T(np.zeros(4, np.int32), scale=-0.25),
        ],
        _options(),
        refused="the product is to be finite and at least 0 for uint8",
        outputs=[T(np.zeros(1, np.uint8), scale=0.5)],
        name="uint8 weights with a negative scale",
    ),
    Case(
        "CONV_2D",
        [np.zeros((1, 3, 3, 2), np.float32), np.zeros((4, 1, 1, 2), np.float32), None],
        _options(activation="TANH"),
        refused="fused activation TANH",
        outputs=[T(0.0)],
        name="activation",
    ),
    Case(
        "CONV_2D",
        [
            T([[[[1.0, 2.0], [3.0, -4.0]]]], DType.BFLOAT16),
            T([[[[0.5, 2.0]]], [[[1.0, -1.0]]]], DType.BFLOAT16, const=True),
            T([0.5, 1.0], DType.BFLOAT16, const=True),
        ],
        _options(),
        [T([[[[5.0, 0.0], [-6.0, 8.0]]]], DType.BFLOAT16)],
        version=2,
        name="bfloat16",
        tolerance=1e-2,
    ),
]
