"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

from typing import Any

import numpy as np
from stored import STORED

from litedelegate.kernels.types import DType

from . import Case, T

_X = np.array([[5.0, 1], [1, 5]], np.float32).reshape(1, 2, 2, 1)
_WEIGHT = {
    "plain": np.array([0, 0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1]),
    "align": np.arange(10) / 9,
    "half": np.clip((np.arange(10) + 0.5) / 5 - 0.5, 0, 1),
}


def _from_two(weight: Any) -> Any:
    """Both rows and columns of _X mixed by `weight`, that of the second one."""
    mix = np.stack([1 - weight, weight], 1)
    return (mix @ _X[0, :, :, 0] @ mix.T)[None, :, :, None].astype(np.float32)


def _bilinear(x: Any, size: Any, want: Any, align: bool = False, half: bool = False) -> Case:
    options = {"align_corners": align, "half_pixel_centers": half}
    return Case("RESIZE_BILINEAR", [x, size], options, [want], version=3)


def _nearest(x: Any, size: Any, want: Any, align: bool = False, half: bool = False) -> Case:
    options = {"align_corners": align, "half_pixel_centers": half}
    return Case("RESIZE_NEAREST_NEIGHBOR", [x, size], options, [want], version=3)


def _row(*values: float, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype).reshape(1, 1, -1, 1)


def _stored(dtype: DType, *values: int) -> T:
    return T(_row(*values, dtype=dtype.numpy), dtype, 0.5)


_INF = float("inf")
_TALL = np.random.default_rng(2).normal(size=(2, 90, 5, 3)).astype(np.float32)
_HALVED = (_TALL[:, ::2] + _TALL[:, 1::2]) / 2

CASES = [
    _bilinear(_X, [10, 10], _from_two(_WEIGHT["plain"])),
    _bilinear(_X, [10, 10], _from_two(_WEIGHT["align"]), align=True),
    _bilinear(_X, [10, 10], _from_two(_WEIGHT["half"]), half=True),
    _bilinear(_row(1, 2, 3, 4), [1, 2], _row(1, 3)),
    _bilinear(_row(1, 2, 3, 4), [1, 2], _row(1.5, 3.5), half=True),
    _bilinear(_row(1, 2, 3, 4), [1, 2], _row(1, 4), align=True),
    _bilinear(_row(1, 2), [1, 1], _row(1), align=True),
    _bilinear(_row(1, 2), [3, 2], np.repeat(_row(1, 2), 3, 1)),
    _bilinear(_TALL, [45, 5], _HALVED, half=True),
    # an infinite pixel spoils itself (infinity times the weight 0), no other
    _bilinear(_row(1, _INF, 0, 0, 2), [1, 5], _row(1, np.nan, 0, 0, 2)),
    _bilinear(_row(1, 2, dtype=np.float16), [1, 4], _row(1, 1.5, 2, 2, dtype=np.float16)),
    # 8 bits: halves up for uint8, away from zero for int8
    _bilinear(_stored(DType.UINT8, 0, 255), [1, 4], _stored(DType.UINT8, 0, 128, 255, 255)),
    _bilinear(_stored(DType.INT8, 0, -3), [1, 4], _stored(DType.INT8, 0, -2, -3, -3)),
    _bilinear(_stored(DType.INT8, 0, 3), [1, 4], _stored(DType.INT8, 0, 2, 3, 3)),
    _bilinear(
        _stored(DType.INT16, -32768, 32767), [1, 4], _stored(DType.INT16, -32768, -1, 32767, 32767)
    ),
    Case(
        "RESIZE_BILINEAR",
        [_X, [4, 4]],
        {"align_corners": True, "half_pixel_centers": True},
        refused="If half_pixel_centers is True, align_corners must be False.",
        outputs=[T(_X)],
        version=3,
    ),
    *(
        Case(
            "RESIZE_BILINEAR",
            [x, size],
            {"align_corners": False, "half_pixel_centers": False},
            refused=text,
            outputs=[T(x)],
        )
        for x, size, text in (
            (_X, [0, 4], "both take 1 pixel or more"),
            (_X[0], [4, 4], "takes rank 4"),
            (_X, [4], "takes size [height, width]"),
            (_X.astype(np.int32), [4, 4], "is int32"),
        )
    ),
    _nearest(_X, [4, 4], _X.repeat(2, 1).repeat(2, 2)),
    _nearest(_row(1, 2, 3), [1, 5], _row(1, 1, 2, 2, 3)),
    _nearest(_row(1, 2, 3), [2, 5], np.repeat(_row(1, 2, 2, 3, 3), 2, 1), align=True),
    _nearest(_row(1, 2, 3), [1, 5], _row(1, 1, 2, 3, 3), half=True),
    _nearest(_row(1, 2, 3, 4), [1, 2], _row(1, 3)),
    _nearest(_row(1, 2, 3, 4), [1, 2], _row(2, 4), half=True),
    *(
        _nearest(
            T(np.asarray(x.value).reshape(1, 2, 2, 1), x.dtype),
            [2, 4],
            T(np.asarray(x.value).reshape(1, 2, 2, 1).repeat(2, 2), x.dtype),
        )
        for x in STORED
    ),
    Case(
        "RESIZE_BILINEAR",
        [T(np.asarray(_X), DType.BFLOAT16), [1, 1]],
        {"align_corners": False, "half_pixel_centers": True},
        [T([[[[3.0]]]], DType.BFLOAT16)],
    ),
    *(
        _bilinear(
            np.repeat(_X, c, 3), [10, 10], np.repeat(_from_two(_WEIGHT["half"]), c, 3), half=True
        )
        for c in (4, 8, 48)
    ),
]
