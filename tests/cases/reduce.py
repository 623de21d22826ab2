"""MEAN, SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY and REDUCE_ALL."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T

_X = (np.arange(1, 25, dtype=np.float32) / 8).reshape(2, 3, 4)
_IMAGE = np.random.default_rng(0).normal(size=(2, 7, 7, 40)).astype(np.float32)
_BYTES = np.random.default_rng(0).integers(-128, 128, (1, 20, 20, 16)).astype(np.int8)
_NONE = T(np.zeros(0, np.int32))
_GREATEST = float(np.finfo(np.float32).max)
_NAN = float("nan")


def _case(op: str, x: Any, axis: Any, want: Any, keep: bool = False, **more: Any) -> Case:
    return Case(op, [x, axis], {"keep_dims": keep}, [want], **more)


def _refused(op: str, x: Any, axis: Any, text: str, y: Any = None) -> Case:
    output = T(x if y is None else y) if not isinstance(y, T) else y
    return Case(op, [x, axis], {"keep_dims": False}, refused=text, outputs=[output])


def _floats(op: str, reduce: Any) -> list[Case]:
    return [
        _case(op, _X, [0], reduce(_X, axis=0)),
        _case(op, _X, [-1], reduce(_X, axis=2)),
        _case(op, _X, [1, 1, -2], reduce(_X, axis=1)),
        _case(op, _X, [2, 0], reduce(_X, axis=(0, 2), keepdims=True), keep=True),
        _case(op, _X, [0, 1, 2], reduce(_X, axis=(0, 1, 2))),
        _case(op, _X, np.array([1, 2]), reduce(_X, axis=(1, 2))),
        _case(op, _X, np.int32(1), reduce(_X, axis=1)),
        _case(op, _X, _NONE, _X),
        _case(op, np.float32(3), _NONE, np.float32(3)),
        # a scalar has nothing to reduce, whatever the axis
        _case(op, np.float32(3), [0], np.float32(3)),
        _case(op, _IMAGE, [1, 2], reduce(_IMAGE, axis=(1, 2)), tolerance=1e-4),
        _case(op, _IMAGE, [0, 3], reduce(_IMAGE, axis=(0, 3)), tolerance=1e-4),
        _case(op, _IMAGE, [3], reduce(_IMAGE, axis=3), tolerance=1e-4),
        _refused(op, _X, [3], "taken: -3 to 2"),
        _refused(op, _X, [0], "float32 and int32", np.zeros(1, np.int32)),
        _refused(op, _X, [0.0], "takes int32, int64"),
    ]


CASES = [
    *_floats("MEAN", np.mean),
    *_floats("SUM", np.sum),
    *_floats("REDUCE_PROD", np.prod),
    *_floats("REDUCE_MAX", np.max),
    *_floats("REDUCE_MIN", np.min),
    # half types are summed in float32
    _case("SUM", np.array([60000, 60000, -60000], np.float16), [0], np.float16(60000)),
    _case("MEAN", np.full(70000, 2, np.float16), [0], np.float16(2)),
    _case("SUM", T(np.full(1000, 1.0), DType.BFLOAT16), [0], T(1000.0, DType.BFLOAT16)),
    _case("REDUCE_MAX", T([1.0, -2.0], DType.BFLOAT16), [0], T(1.0, DType.BFLOAT16)),
    # integers wrap
    _case("SUM", [2**31 - 1, 1], [0], np.int32(-(2**31))),
    _case("REDUCE_PROD", [2**31 - 1, 2], [0], np.int32(-2)),
    _case("SUM", np.array([1, 2]), [0], np.int64(3)),
    # and are divided towards zero
    _case("MEAN", [[-7, 2], [7, 1]], [1], [-2, 4]),
    _case("MEAN", np.array([-3, 2]), [0], np.int64(0)),
    # quantised: the multiplier is divided by the count
    _case(
        "MEAN",
        T([[-128, 127, 0, 3]], DType.INT8, 0.5, 4),
        [1],
        T([-3], DType.INT8, 0.25, 4),
    ),
    _case(
        "MEAN",
        T([[1, 2], [255, 254]], DType.UINT8, 0.5, 3),
        [0],
        T([128, 128], DType.UINT8, 0.5, 3),
    ),
    _case("MEAN", T([[1, 2], [-30, 7]], DType.INT16, 0.5), [1], T([3, -23], DType.INT16, 0.25)),
    _case("SUM", T([[1, 2], [-3, 7]], DType.INT8, 0.5, 1), [1], T([1, 2], DType.INT8, 0.5, 0)),
    _case("SUM", T([[200, 100]], DType.UINT8, 0.5, 0), [1], T([255], DType.UINT8, 0.5, 0)),
    # read as what it is, signed
    _case("SUM", T([[-100, -20]], DType.INT8, 0.5, 0), [1], T([-60], DType.INT8, 1.0, 0)),
    _case(
        "SUM",
        T(_BYTES, DType.INT8, 1.0, 0),
        [1, 2],
        T(np.clip(_BYTES.sum((1, 2), dtype=int), -128, 127), DType.INT8, 1.0, 0),
    ),
    _case("REDUCE_PROD", T([2, 3], DType.INT8, 1.0, 0), [0], T(6, DType.INT8, 1.0, 0)),
    _case("REDUCE_PROD", T([3, 5], DType.INT8, 0.5, 1), [0], T(4, DType.INT8, 0.5, 0)),
    _case("REDUCE_PROD", [True, False], [0], np.bool_(False)),
    # a NaN never wins ...
    _case("REDUCE_MAX", [[_NAN, 1.0], [2, _NAN]], [1], [1.0, 2]),
    _case("REDUCE_MIN", [[_NAN, 1.0], [2, _NAN]], [0], [2.0, 1]),
    _case("REDUCE_MAX", [[_NAN, _NAN], [1.0, 2]], [1], [-_GREATEST, 2]),
    _case("REDUCE_MAX", [1.0, _NAN, 2], [0], np.float32(2)),
    # ... unless all is reduced and it comes first
    _case("REDUCE_MAX", [_NAN, 1.0], [0], np.float32(_NAN)),
    _case("REDUCE_MAX", T([3, -4], DType.INT8, 0.5, 1), [0], T(3, DType.INT8, 0.5, 1)),
    _case("REDUCE_MIN", [True, False], [0], np.bool_(False)),
    _case("REDUCE_ANY", [[True, False], [False, False]], [1], [True, False]),
    _case("REDUCE_ALL", [[True, False], [True, True]], [1], [[False], [True]], keep=True),
    # nothing to reduce: the value one starts with
    _case("SUM", np.zeros((2, 0), np.float32), [1], [0.0, 0]),
    _case("MEAN", np.zeros((2, 0), np.float32), [1], [_NAN, _NAN]),
    _case("MEAN", np.zeros((2, 0), np.int32), [1], [0, 0]),
    _case("REDUCE_PROD", np.zeros((2, 0), np.int32), [1], [1, 1]),
    _case("REDUCE_MAX", np.zeros((0,), np.int32), [0], np.int32(-(2**31))),
    _case("REDUCE_MIN", np.zeros((1, 0), np.float32), [1], [_GREATEST]),
    _case("REDUCE_ANY", np.zeros((0, 2), np.bool_), [0], [False, False]),
    _case("REDUCE_ALL", np.zeros((0, 2), np.bool_), [0], [True, True]),
    _refused("REDUCE_ANY", [1.0], [0], "takes bool"),
    _refused("MEAN", [b"x"], [0], "is string"),
    _refused(
        "REDUCE_MAX", T([1], DType.INT8, 0.5), [0], "does not rescale", T([1], DType.INT8, 0.25)
    ),
    _refused("MEAN", T([1], DType.INT16, 0.5, 3), [0], "zero point 0", T([1], DType.INT16, 0.5)),
    _case("REDUCE_MAX", T([_NAN, 1.0], DType.BFLOAT16), [0], T(_NAN, DType.BFLOAT16)),
    _case("REDUCE_MAX", T([1.0, _NAN, 2.0], DType.BFLOAT16), [0], T(2.0, DType.BFLOAT16)),
    _case("REDUCE_MAX", np.float32([-np.inf, -np.inf]), [0], np.float32(-np.inf)),
    _case("SUM", np.complex128([1, 2j]), [0], np.complex128(1 + 2j)),
    _case("REDUCE_PROD", np.complex64([1 + 1j, 2j]), [0], np.complex64(-2 + 2j)),
]
