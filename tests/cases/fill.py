"""FILL, ZEROS_LIKE, SHAPE, RANK, RANGE, ONE_HOT, SPARSE_TO_DENSE and the StableHLO iota."""

from __future__ import annotations

from typing import Any

import numpy as np
from stored import STORED, moved

from litedelegate.kernels.types import DType

from . import Case, T

_X = np.zeros((2, 3, 4), np.float32)
_I, _F = np.int32, np.float32
# each element is the one before plus delta, in float32
_TENTHS = np.add.accumulate(np.full(10, 0.1, np.float32), dtype=np.float32)


def _range(start: Any, limit: Any, delta: Any, want: Any) -> Case:
    return Case("RANGE", [start, limit, delta], {}, [want], tolerance=0)


def _one_hot(indices: Any, depth: int, axis: int, want: Any) -> Case:
    return Case("ONE_HOT", [indices, _I(depth), _F(2), _F(-1)], {"axis": axis}, [want])


def _sparse(indices: Any, shape: Any, values: Any, want: Any) -> Case:
    options = {"validate_indices": False}
    return Case("SPARSE_TO_DENSE", [indices, shape, values, _I(9)], options, [want])


CASES = [
    Case("FILL", [[2, 2], _F(3)], {}, [[[3.0, 3], [3, 3]]]),
    Case("FILL", [T(np.zeros(0, np.int32)), _I(3)], {}, [_I(3)]),
    Case("FILL", [np.array([0, 2]), _I(3)], {}, [np.zeros((0, 2), np.int32)]),
    *(
        Case(
            "FILL",
            [[2, 1], moved(x, lambda v: v[0, 0])],
            {},
            [moved(x, lambda v: np.full((2, 1), v[0, 0], v.dtype))],
        )
        for x in STORED
    ),
    Case("FILL", [[2, -1], _I(3)], {}, refused="dimensions must be >= 0", outputs=[T([0])]),
    *(
        Case("ZEROS_LIKE", [x], {}, [moved(x, np.zeros_like)])
        for x in STORED
        if x.type is not DType.STRING
    ),
    Case("SHAPE", [_X], {"out_type": DType.INT32}, [[2, 3, 4]]),
    Case("SHAPE", [_X], {"out_type": DType.INT64}, [np.array([2, 3, 4])]),
    Case("SHAPE", [_F(1)], {"out_type": DType.INT32}, [np.zeros(0, np.int32)]),
    Case("RANK", [_X], {}, [_I(3)]),
    Case("RANK", [_F(1)], {}, [_I(0)]),
    _range(_I(1), _I(7), _I(2), [1, 3, 5]),
    _range(_I(1), _I(8), _I(2), [1, 3, 5, 7]),
    _range(_I(5), _I(-1), _I(-3), [5, 2]),
    _range(_I(3), _I(3), _I(1), np.zeros(0, np.int32)),
    _range(np.int64(0), np.int64(2), np.int64(1), np.array([0, 1])),
    _range(_F(0.1), _F(1.05), _F(0.1), _TENTHS),
    *(
        Case("RANGE", list(given), {}, refused="does not end", outputs=[T([0])])
        for given in ((_I(0), _I(3), _I(0)), (_I(0), _I(3), _I(-1)))
    ),
    _one_hot([0, 2, -1, 3], 3, -1, [[2.0, -1, -1], [-1, -1, 2], [-1] * 3, [-1] * 3]),
    _one_hot([0, 1], 3, 0, [[2.0, -1], [-1, 2], [-1, -1]]),
    _one_hot(_I(1), 2, -1, [-1.0, 2]),
    _one_hot(np.array([[0], [1]]), 2, 1, [[[2.0], [-1]], [[-1], [2]]]),
    _one_hot([1], 0, -1, np.zeros((1, 0), np.float32)),
    Case("ONE_HOT", [[0], _I(2), np.bool_(True), np.bool_(False)], {"axis": -1}, [[[True, False]]]),
    Case(
        "ONE_HOT",
        [[0], _I(-1), _I(1), _I(0)],
        {"axis": -1},
        refused="a depth of 0 or more",
        outputs=[T([0])],
    ),
    _sparse(_I(2), [4], _I(1), [9, 9, 1, 9]),
    _sparse([0, 3], [4], [1, 2], [1, 9, 9, 2]),
    _sparse([[0, 1], [1, 0]], [2, 2], _I(5), [[9, 5], [5, 9]]),
    # of equal indices the last one counts
    _sparse(np.array([1, 1]), [2], [7, 8], [9, 8]),
    *(
        Case(
            "SPARSE_TO_DENSE",
            [indices, [2, 2], _I(1), _I(0)],
            {"validate_indices": False},
            refused=text,
            outputs=[T([0])],
        )
        for indices, text in (
            ([[0, 2]], "index [0, 2] is outside of the shape [2, 2]"),
            ([[-1, 0]], "index [-1, 0] is outside of the shape [2, 2]"),
            ([0, 1], "indices of 1 numbers into a shape of 2"),
        )
    ),
    Case("STABLEHLO_IOTA", [], {"iota_dimension": 1}, [[[0, 1, 2], [0, 1, 2]]]),
    Case("STABLEHLO_IOTA", [], {"iota_dimension": 0}, [T([[0.0], [1], [2]], DType.BFLOAT16)]),
    Case("STABLEHLO_IOTA", [], {"iota_dimension": 0}, [np.complex64([0, 1])]),
    Case(
        "STABLEHLO_IOTA",
        [],
        {"iota_dimension": 0},
        refused="output 0 'output0' is string; STABLEHLO_IOTA gives float32",
        outputs=[T([b""])],
    ),
]
