"""DEPTHWISE_CONV_2D. Right answers: the definition (see `definitions`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from convolutions import Pair, multipliers, options
from definitions import depthwise, stored

from litedelegate.kernels.types import DType

from . import Case, T

_options = partial(options, depth_multiplier=0)  # redundant, and not to be believed


def _float(
    name: str,
    x: tuple[int, ...],
    kernel: Pair,
    multiplier: int = 1,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    relu: bool = False,
    const: bool = True,
    dtype: Any = np.float32,
) -> Case:
    rng = np.random.default_rng(len(name))
    units = x[3] * multiplier
    a = rng.standard_normal(x).astype(dtype)
    w = rng.standard_normal((1, *kernel, units)).astype(dtype)
    b = rng.standard_normal(units).astype(dtype)
    want = depthwise(a, w, stride, dilation, padding) + b
    return Case(
        "DEPTHWISE_CONV_2D",
        [a, T(w, const=const), T(b, const=const)],
        _options(stride, dilation, padding, "RELU" if relu else "NONE"),
        [(np.maximum(want, 0) if relu else want).astype(dtype)],
        version=2,
        name=name,
        tolerance=4e-3 if dtype == np.float16 else 1e-5,
    )


def _integer(
    name: str,
    x: tuple[int, ...],
    kernel: Pair,
    dtype: DType = DType.INT8,
    multiplier: int = 1,
    zeros: tuple[int, int, int] = (3, 0, -5),
    stride: Pair = (1, 1),
    padding: str = "SAME",
    weight_type: DType | None = None,
    const: bool = True,
    strong: bool = False,
) -> Case:
    """`strong`: some channels have small weights and are scaled up, by more than 1."""
    rng = np.random.default_rng(len(name))
    kind = weight_type or (DType.UINT8 if dtype is DType.UINT8 else DType.INT8)
    low, high = dtype.range()
    units = x[3] * multiplier
    a = rng.integers(low, high + 1, x).astype(dtype.numpy)
    w = rng.integers(kind.range()[0], kind.range()[1] + 1, (1, *kernel, units)).astype(kind.numpy)
    if strong:
        w[..., ::3] = np.sign(w[..., ::3])
    sums = depthwise(
        a.astype(np.int64) - zeros[0], w.astype(np.int64) - zeros[1], stride, padding=padding
    )
    bias_type = DType.INT64 if dtype is DType.INT16 else DType.INT32
    b = rng.integers(-500, 500, units).astype(bias_type.numpy)
    x_scale, y_scale = np.float32(0.02), np.float32(0.3)
    spread = (high - low) / 2 * y_scale / (x_scale * np.abs(sums).max())
    count = 1 if dtype is DType.UINT8 else units
    scales = (spread * rng.uniform(0.5, 1.0, count)).astype(np.float32)
    if strong:
        scales[::3] = 1.8 * y_scale / x_scale
    by = multipliers(x_scale, scales, y_scale, dtype, units)
    want = stored(sums + b, by, zeros[2], low, high, dtype is DType.INT16)
    return Case(
        "DEPTHWISE_CONV_2D",
        [
            T(a, scale=float(x_scale), zero_point=zeros[0]),
            T(w, kind, [float(s) for s in scales], zeros[1], axis=3, const=const),
            T(b, scale=float(x_scale * scales[0]), const=const),
        ],
        _options(stride, padding=padding),
        [T(want.astype(dtype.numpy), scale=float(y_scale), zero_point=zeros[2])],
        version=3,
        name=name,
    )


def _vectors() -> list[Case]:
    """Channels and widths about the edges of a CPU's vectors and tiles."""
    made: list[tuple[str, tuple[int, ...], tuple[int, int], dict[str, Any]]] = [
        ("", (1, 7, 8, 16), (3, 3), {}),
        ("", (2, 5, 11, 37), (3, 3), {"stride": (2, 2)}),
        ("VALID", (1, 9, 13, 20), (5, 5), {"padding": "VALID"}),
        ("", (1, 4, 3, 48), (5, 3), {}),
        ("", (1, 6, 9, 17), (2, 7), {"stride": (1, 3)}),
        ("", (1, 1, 1, 33), (3, 3), {}),
        ("", (1, 12, 3, 16), (4, 1), {"stride": (3, 1)}),
    ]
    kinds = ((DType.INT8, (3, 0, -5)), (DType.INT8, (7, 0, -128)), (DType.UINT8, (120, 101, 7)))
    return [
        _integer(f"{d.label}, {z[2]}, {x[3]} of {k} {n}", x, k, dtype=d, zeros=z, **more)
        for i, (n, x, k, more) in enumerate(made)
        # all kinds of the first shape, one of each other
        for d, z in (kinds if i == 0 else kinds[i % 3 : i % 3 + 1])
    ]


CASES = [
    *_vectors(),
    _float("3x3", (1, 7, 6, 3), (3, 3)),
    _float("3x3, VALID, two images, RELU", (2, 7, 6, 3), (3, 3), padding="VALID", relu=True),
    _float("5x4, stride 2, RELU", (2, 9, 10, 4), (5, 4), stride=(2, 2), relu=True),
    _float("stride 3, few channels", (1, 10, 13, 2), (3, 5), stride=(1, 3)),
    _float("stride above kernel", (1, 10, 12, 3), (3, 3), stride=(3, 4)),
    _float("stride far above kernel", (1, 10, 13, 3), (2, 1), stride=(3, 5)),
    _float("stride 2, many channels", (1, 7, 7, 200), (3, 3), stride=(2, 2)),
    _float("1x1, stride 2", (1, 7, 7, 3), (1, 1), stride=(2, 2)),
    _float("dilated", (1, 9, 10, 3), (3, 3), dilation=(2, 3)),
    _float("dilated and strided", (1, 9, 10, 3), (3, 3), stride=(2, 2), dilation=(2, 2)),
    _float("a multiplier", (1, 6, 5, 2), (3, 3), multiplier=3),
    _float("a multiplier and a stride", (2, 6, 5, 2), (3, 3), multiplier=3, stride=(2, 2)),
    _float("one channel to many", (1, 6, 5, 1), (3, 3), multiplier=5, padding="VALID"),
    _float("a kernel larger than the input", (1, 2, 3, 4), (5, 5)),
    _float("a width that is prime, in runs", (1, 4, 101, 100), (3, 3)),
    _float("a width in runs that fit", (1, 4, 96, 100), (3, 3)),
    _float("enough for threads", (1, 70, 90, 80), (3, 3)),
    _float("weights that change", (1, 6, 5, 2), (3, 3), const=False),
    _float("float64", (1, 6, 5, 2), (3, 3), dtype=np.float64),
    _float("float16", (1, 6, 5, 2), (3, 3), dtype=np.float16),
    _float("one channel, VALID", (1, 7, 6, 1), (3, 3), padding="VALID"),
    _float("one channel, dilated", (1, 9, 9, 1), (3, 3), dilation=(3, 3), padding="VALID"),
    _float("one channel, stride", (2, 7, 6, 1), (2, 3), stride=(1, 2), padding="VALID"),
    _float("one channel, a multiplier", (1, 7, 6, 1), (3, 3), multiplier=4, padding="VALID"),
    _integer("int8", (2, 6, 5, 3), (3, 3)),
    _integer("int8, stride 2", (1, 7, 8, 3), (3, 3), stride=(2, 2)),
    _integer("int8, scaled up", (1, 7, 8, 33), (3, 3), strong=True),
    _integer("int8, scaled up, from -128", (1, 7, 8, 16), (3, 3), zeros=(3, 0, -128), strong=True),
    _integer("int8, a multiplier, VALID", (1, 7, 8, 3), (3, 3), multiplier=2, padding="VALID"),
    _integer("int8, enough for a proof", (1, 40, 41, 12), (3, 3)),
    _integer("int8, weights that change", (1, 7, 8, 3), (3, 3), const=False),
    _integer("int4 weights", (1, 7, 8, 3), (3, 3), weight_type=DType.INT4),
    _integer("uint8", (1, 7, 8, 3), (3, 3), DType.UINT8, zeros=(120, 100, 90)),
    _integer("uint8, proof", (1, 40, 41, 12), (3, 3), DType.UINT8, zeros=(9, 130, 0)),
    _integer("int16", (1, 7, 8, 3), (3, 3), DType.INT16, zeros=(0, 0, 0)),
    Case(
        "DEPTHWISE_CONV_2D",
        [
            np.array([0.0, 2.55, 2.55, 0.0], np.float32).reshape(1, 1, 2, 2),
            T(np.array([2, -1], np.int8).reshape(1, 1, 1, 2), scale=[0.5, 0.25], axis=3),
            np.array([1.0, 0.0], np.float32),
        ],
        _options(),
        [np.array([1, -0.6375, 3.55, 0], np.float32).reshape(1, 1, 2, 2)],
        version=6,
        name="hybrid",
        tolerance=1e-6,
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        [np.zeros((1, 3, 3, 2), np.float32), np.zeros((1, 2, 2, 3), np.float32), None],
        _options(),
        refused="have 3 channels, no multiple of the 2 of the input",
        outputs=[T(0.0)],
        name="channels",
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        [np.zeros((1, 3, 3, 2), np.float32), np.zeros((2, 2, 2, 2), np.float32), None],
        _options(),
        refused="weights [1, height, width, channels]; got [1, 3, 3, 2] and [2, 2, 2, 2]",
        outputs=[T(0.0)],
        name="weights of another shape",
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        [
            np.zeros((1, 3, 3, 2), np.float32),
            np.zeros((1, 2, 2, 2), np.float32),
            np.zeros(3, np.float32),
        ],
        _options(),
        refused="bias 'input2' has shape [3]; one value is taken for each of the 2",
        outputs=[T(0.0)],
        name="bias",
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        [
            T([[[[1.0, 2.0], [3.0, -4.0]]]], DType.BFLOAT16),
            T([[[[0.5, 2.0]]]], DType.BFLOAT16, const=True),
            T([0.5, 1.0], DType.BFLOAT16, const=True),
        ],
        _options(),
        [T([[[[1.0, 5.0], [2.0, -7.0]]]], DType.BFLOAT16)],
        version=2,
        name="bfloat16",
        tolerance=1e-2,
    ),
]
