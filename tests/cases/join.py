"""CONCATENATION, PACK, UNPACK, SPLIT, SPLIT_V and the StableHLO concatenation."""

from __future__ import annotations

from typing import Any

import numpy as np
from stored import STORED, moved

from litedelegate.kernels.types import DType

from . import Case, T

_A = np.arange(6, dtype=np.float32).reshape(2, 3)
_B = -np.arange(4, dtype=np.float32).reshape(2, 2)
_U8 = DType.UINT8


def _concatenation(xs: list[Any], axis: int, want: Any) -> Case:
    return Case("CONCATENATION", xs, _axis(axis), [want])


def _axis(axis: int, activation: str = "NONE") -> dict[str, Any]:
    return {"axis": axis, "fused_activation_function": activation}


def _twice(x: T, axis: int) -> T:
    return moved(x, lambda v: np.concatenate([v, v], axis))


CASES = [
    _concatenation([_A, _B], 1, np.concatenate([_A, _B], 1)),
    _concatenation([_A, _A, _A], -2, np.concatenate([_A, _A, _A])),
    _concatenation([_A], 0, _A),
    _concatenation([_A, np.zeros((0, 3), np.float32)], 0, _A),
    _concatenation([np.int32(1), np.int32(2)], 0, [1, 2]),
    *(_concatenation([x, x], 1, _twice(x, 1)) for x in STORED),
    # round(v * 0.5 / 0.25 + bias), halves away from zero, clamped
    _concatenation(
        [T([[0, 10, 100, 200]], _U8, 0.5, 10), T([[7]], _U8, 0.25, 3)],
        1,
        T([[0, 3, 183, 255, 7]], _U8, 0.25, 3),
    ),
    _concatenation(
        [T([0, 1, 2, 3], _U8, 0.5, 0), T([4], _U8, 1.0, 1)], 0, T([0, 1, 1, 2, 3], _U8, 1.0, 0)
    ),
    Case(
        "CONCATENATION",
        [T([1], DType.INT8, 0.5), T([1], DType.INT8, 0.25)],
        _axis(0),
        refused="does not rescale",
        outputs=[T([1, 1], DType.INT8, 0.5)],
    ),
    Case(
        "CONCATENATION",
        [_A, _B],
        _axis(0),
        refused="they may differ in dimension 0 only",
        outputs=[T(_A)],
    ),
    Case("CONCATENATION", [_A], _axis(2), refused="taken: -2 to 1", outputs=[T(_A)]),
    Case("CONCATENATION", [_A], _axis(0, "RELU"), refused="taken: NONE", outputs=[T(_A)]),
    Case("STABLEHLO_CONCATENATE", [_A, _B], {"dimension": 1}, [np.concatenate([_A, _B], 1)]),
    Case("PACK", [_A, -_A], {"axis": 0, "values_count": 2}, [np.stack([_A, -_A])]),
    Case("PACK", [_A, -_A], {"axis": -1, "values_count": 2}, [np.stack([_A, -_A], -1)]),
    Case("PACK", [np.int64(3)], {"axis": 0, "values_count": 1}, [np.array([3])]),
    *(
        Case(
            "PACK",
            [x, x],
            {"axis": 1, "values_count": 2},
            [moved(x, lambda v: np.stack([v, v], 1))],
        )
        for x in STORED
    ),
    Case(
        "PACK",
        [_A, _B],
        {"axis": 0, "values_count": 2},
        refused="PACK takes one shape",
        outputs=[T(_A)],
    ),
    Case("UNPACK", [_A], {"axis": 1, "num": 3}, [_A[:, 0], _A[:, 1], _A[:, 2]]),
    Case("UNPACK", [_A], {"axis": -2, "num": 2}, [_A[0], _A[1]]),
    Case("UNPACK", [[1, 2]], {"axis": 0, "num": 2}, [np.int32(1), np.int32(2)]),
    *(
        Case(
            "UNPACK",
            [x],
            {"axis": 0, "num": 2},
            [moved(x, lambda v: v[0]), moved(x, lambda v: v[1])],
        )
        for x in STORED
    ),
    Case(
        "UNPACK",
        [_A],
        {"axis": 0, "num": 3},
        refused="these numbers must agree",
        outputs=[T([0.0])] * 3,
    ),
    Case("SPLIT", [np.int32(1), _A], {"num_splits": 3}, [_A[:, :1], _A[:, 1:2], _A[:, 2:]]),
    Case("SPLIT", [[-2], _A], {"num_splits": 2}, [_A[:1], _A[1:]]),
    Case(
        "SPLIT",
        [np.int32(1), _A],
        {"num_splits": 2},
        refused="Not an even split: dimension 1",
        outputs=[T(_A), T(_A)],
    ),
    *(
        Case("SPLIT_V", [_A, sizes, np.int32(1)], {"num_splits": 2}, [_A[:, :1], _A[:, 1:]])
        for sizes in ([1, 2], [1, -1], [-1, 2], np.array([1, 2]))
    ),
    Case(
        "SPLIT_V",
        [_A, [0, 3], np.int32(-1)],
        {"num_splits": 2},
        [np.zeros((2, 0), np.float32), _A],
    ),
    *(
        Case(
            "SPLIT_V",
            [_A, sizes, np.int32(1)],
            {"num_splits": 2},
            refused=text,
            outputs=[T(_A), T(_A)],
        )
        for sizes, text in (
            ([1, 1], "must sum to the dimension of value along axis"),
            ([-1, -1], "more than one -1"),
            ([4, -1], "must be less than the dimension of value"),
        )
    ),
]
