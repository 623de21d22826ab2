"""GATHER, GATHER_ND and the StableHLO gather."""

from __future__ import annotations

from typing import Any

import numpy as np
from stored import STORED, moved

from . import Case, T

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
_PAIRS = np.array([[0.0, 1], [2, 3], [4, 5]], np.float32)


def _gather(x: Any, positions: Any, want: Any, axis: int = 0, batch_dims: int = 0) -> Case:
    return Case("GATHER", [x, positions], {"axis": axis, "batch_dims": batch_dims}, [want])


def _refused(op: str, x: Any, positions: Any, text: str, axis: int = 0, batch: int = 0) -> Case:
    options = {"axis": axis, "batch_dims": batch} if op == "GATHER" else {}
    return Case(op, [x, positions], options, refused=text, outputs=[T(x)])


_SLICES = {
    "offset_dims": (1, 2),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0, 2),
    "index_vector_dim": 1,
    "slice_sizes": (1, 2, 2),
    "indices_are_sorted": False,
}

CASES = [
    _gather(_PAIRS, [2, 0], _PAIRS[[2, 0]]),
    _gather(_PAIRS, [[1], [0]], _PAIRS[[[1], [0]]]),
    _gather(_PAIRS, np.int32(1), _PAIRS[1]),
    _gather(_X, np.array([0, 3, 3]), _X[..., [0, 3, 3]], axis=-1),
    _gather(_X, np.array([2, 1], np.int16), _X[:, [2, 1]], axis=1),
    _gather(_X, np.zeros((0,), np.int32), np.zeros((0, 3, 4), np.float32)),
    _gather(_X, [[2, 0], [1, 1]], np.stack([_X[0, [2, 0]], _X[1, [1, 1]]]), 1, 1),
    _gather(_X, [[3], [0]], np.stack([_X[0][:, [3]], _X[1][:, [0]]]), 2, 1),
    _gather(_X, [2, 0], np.stack([_X[0, 2], _X[1, 0]]), 1, 1),
    _gather(_X, [[2], [0]], np.stack([_X[0, [2]], _X[1, [0]]]), 1, -1),
    *(_gather(x, [1, 0], moved(x, lambda v: v[:, ::-1]), 1) for x in STORED),
    *(
        Case(
            "GATHER",
            [np.zeros(shape, np.float32), np.zeros((shape[0], 3), np.int32)],
            {"axis": 1, "batch_dims": 1},
            [np.zeros((shape[0], 3, shape[2]), np.float32)],
            name=name,
        )
        for name, shape in (("no batches", (0, 4, 2)), ("rows of nothing", (2, 4, 0)))
    ),
    _refused("GATHER", _PAIRS, [0, 3], "index out of bounds: 3 for dimension 0"),
    _refused("GATHER", _PAIRS, [0, -1], "index out of bounds: -1"),
    _refused("GATHER", _PAIRS, T(np.array([5], np.int32), const=True), "taken: 0 to 2"),
    _refused("GATHER", _PAIRS, [0], "Invalid axis", axis=2),
    _refused("GATHER", _X, [0, 0, 0], "the batch dimensions must agree", axis=1, batch=1),
    _refused("GATHER", _PAIRS, [0.0], "takes int32, int64, int16"),
    Case("GATHER_ND", [_X, [[1, 2], [0, 0]]], {}, [np.stack([_X[1, 2], _X[0, 0]])]),
    Case("GATHER_ND", [_X, [[[1, 2, 3]]]], {}, [[[23.0]]]),
    Case("GATHER_ND", [_X, [1]], {}, [_X[1]]),
    Case("GATHER_ND", [_X, np.array([[1], [1]], np.int16)], {}, [_X[[1, 1]]]),
    Case("GATHER_ND", [_PAIRS, np.zeros((2, 0), np.int32)], {}, [np.stack([_PAIRS, _PAIRS])]),
    *(
        Case("GATHER_ND", [x, np.array([[1], [0]])], {}, [moved(x, lambda v: v[::-1])])
        for x in STORED
    ),
    _refused("GATHER_ND", _X, [[0, 3]], "gather_nd index out of bounds: [0, 3]"),
    _refused("GATHER_ND", _X, [[-1]], "gather_nd index out of bounds: [-1]"),
    _refused("GATHER_ND", _PAIRS, [[0, 0, 0]], "must be in [0, params rank]"),
    _refused("GATHER_ND", _PAIRS, np.int32(0), "at least a vector"),
    Case(
        "STABLEHLO_GATHER",
        [_X, [[1, 2], [0, 0]]],
        _SLICES,
        [np.stack([_X[1, :2, 2:], _X[0, :2, :2]])],
    ),
    # a start is moved so that the slice fits
    Case("STABLEHLO_GATHER", [_X, [[5, -4]]], _SLICES, [_X[1:, :2, :2]]),
    Case(
        "STABLEHLO_GATHER",
        [_X, np.array([1, 0])],
        {**_SLICES, "start_index_map": (0,), "offset_dims": (0, 1), "slice_sizes": (1, 3, 1)},
        [np.stack([_X[1, :, :1], _X[0, :, :1]], 2)],
    ),
    Case(
        "STABLEHLO_GATHER",
        [_X, [[1, 2]]],
        {**_SLICES, "slice_sizes": (2, 2, 2)},
        refused="collapsed dimensions",
        outputs=[T(_X)],
    ),
]
