"""ARG_MAX, ARG_MIN, TOPK_V2 and CUMSUM."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T

_NAN, _INF = float("nan"), float("inf")
_X = np.array([[3, 1, 3], [0, 2, 2]], np.int32)
_LONG = np.random.default_rng(1).integers(-50, 50, (3, 1000)).astype(np.float32)


def _arg(kind: str, x: Any, axis: int, want: Any, dtype: type = np.int32) -> Case:
    value = np.asarray(want, dtype)
    output = DType.INT64 if dtype is np.int64 else DType.INT32
    return Case(f"ARG_{kind}", [x, np.int32(axis)], {"output_type": output}, [value])


def _top(x: Any, k: Any, values: Any, places: Any) -> Case:
    return Case("TOPK_V2", [x, k], {}, [values, places], version=2)


def _sum(x: Any, axis: int, want: Any, exclusive: bool = False, reverse: bool = False) -> Case:
    options = {"exclusive": exclusive, "reverse": reverse}
    return Case("CUMSUM", [x, np.int32(axis)], options, [want])


_BEST = np.argsort(-_LONG, axis=1, kind="stable")[:, :5]
_GAPS = np.where(_LONG > 0, np.float32(_NAN), _LONG)
_LEFT = np.argsort(-_GAPS, axis=1, kind="stable")[:, :5]

CASES = [
    # of equals the first
    _arg("MAX", _X, 1, [0, 1]),
    _arg("MAX", _X, 0, [0, 1, 0]),
    _arg("MIN", _X, -1, [1, 0], np.int64),
    _arg("MAX", np.array([False, True, True]), 0, 1),
    _arg("MIN", np.array([200, 3, 3], np.uint8), 0, 1),
    _arg("MAX", T([1.0, 3.0, 2.0], DType.BFLOAT16), 0, 1),
    _arg("MAX", _LONG, 1, np.argmax(_LONG, 1)),
    _arg("MAX", np.zeros((0, 3), np.float32), 1, np.zeros(0)),
    _arg("MAX", [_NAN, 1.0, 2, 3], 0, 0),
    _arg("MAX", [1.0, 2, 3, _NAN], 0, 2),
    _arg("MIN", [_NAN, 1.0, 2, 3], 0, 0),
    _arg("MIN", [3.0, _NAN, 2], 0, 2),
    _arg("MAX", [_NAN, -_INF, 1.0], 0, 2),
    _arg("MAX", [_NAN, _NAN], 0, 0),
    # a lane of four that has one number is sound
    _arg("MAX", [_NAN, 1.0, 2, 3, 9, 1, 1, 1], 0, 4),
    _arg("MAX", [[_NAN, 1.0], [2, _NAN], [_NAN, _NAN], [1, 0]], 0, [1, 0]),
    Case(
        "ARG_MAX",
        [np.zeros((2, 0), np.float32), np.int32(1)],
        {"output_type": DType.INT32},
        refused="over an empty axis",
        outputs=[T([0])],
    ),
    Case(
        "ARG_MAX",
        [_X, np.int32(2)],
        {"output_type": DType.INT32},
        refused="taken: -2 to 1",
        outputs=[T([0])],
    ),
    Case(
        "ARG_MAX",
        [[b"x"], np.int32(0)],
        {"output_type": DType.INT32},
        refused="is string",
        outputs=[T([0])],
    ),
    _top([_NAN, 1.0, 2, 3], np.int32(3), [3.0, 2, 1], [3, 2, 1]),
    _top([1.0, 2, 3, _NAN], [3], [3.0, 2, 1], [2, 1, 0]),
    _top([1.0, _NAN], np.int32(2), [1.0, _NAN], [0, 1]),
    # of equals the lower index first
    _top(_X, np.int32(2), [[3, 3], [2, 2]], [[0, 2], [1, 2]]),
    _top(
        np.array([-128, 127, 0], np.int8), np.int32(3), np.array([127, 0, -128], np.int8), [1, 2, 0]
    ),
    _top(
        np.array([0, 255], np.uint8),
        np.int16(1),
        np.array([255], np.uint8),
        np.array([1], np.int16),
    ),
    _top(_X, np.int32(0), np.zeros((2, 0), np.int32), np.zeros((2, 0), np.int32)),
    _top(_LONG, np.int32(5), np.take_along_axis(_LONG, _BEST, 1), _BEST.astype(np.int32)),
    _top(_GAPS, np.int32(5), np.take_along_axis(_GAPS, _LEFT, 1), _LEFT.astype(np.int32)),
    Case(
        "TOPK_V2",
        [_X, np.int32(4)],
        {},
        refused="TopK k is higher than the internal dimension",
        outputs=[T(_X), T(_X)],
    ),
    Case(
        "TOPK_V2",
        [np.int32(3), np.int32(1)],
        {},
        refused="must have 1 or more dimensions",
        outputs=[T(_X), T(_X)],
    ),
    _sum(_X, 1, [[3, 4, 7], [0, 2, 4]]),
    _sum(_X, 0, [[3, 1, 3], [3, 3, 5]]),
    _sum(_X, -1, [[0, 3, 4], [0, 0, 2]], exclusive=True),
    _sum(_X, 1, [[7, 4, 3], [4, 4, 2]], reverse=True),
    _sum(_X, 1, [[4, 3, 0], [4, 2, 0]], exclusive=True, reverse=True),
    _sum([[1.5], [2]], 1, [[0.0], [0]], exclusive=True),
    _sum(np.array([2**31 - 1, 1], np.int32), 0, [2**31 - 1, -(2**31)]),
    _sum(np.zeros((2, 0), np.float32), 1, np.zeros((2, 0), np.float32)),
    # halves are added in float32
    _sum(np.float16([2048, 1, 1]), 0, np.float16([2048, 2048, 2050])),
    _sum(T([1.0, 2.5], DType.BFLOAT16), 0, T([1.0, 3.5], DType.BFLOAT16)),
    _sum(np.int8([100, 100]), 0, np.int8([100, -56])),
    _sum(np.complex64([1, 2j]), 0, np.complex64([1, 1 + 2j])),
]
