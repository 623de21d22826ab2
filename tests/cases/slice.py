"""STRIDED_SLICE, SLICE, DYNAMIC_UPDATE_SLICE and the StableHLO slices."""

from __future__ import annotations

from typing import Any

import numpy as np
from stored import STORED, moved

from . import Case, T

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
_LINE = np.arange(5, dtype=np.int32)


def _masks(**masks: Any) -> dict[str, Any]:
    return {
        "begin_mask": 0,
        "end_mask": 0,
        "ellipsis_mask": 0,
        "new_axis_mask": 0,
        "shrink_axis_mask": 0,
        "offset": False,
        **masks,
    }


def _strided(x: Any, begin: Any, end: Any, strides: Any, want: Any, **masks: Any) -> Case:
    return Case("STRIDED_SLICE", [x, begin, end, strides], _masks(**masks), [want])


def _refused(x: Any, begin: Any, end: Any, strides: Any, text: str, **masks: Any) -> Case:
    inputs = [x, begin, end, strides]
    return Case("STRIDED_SLICE", inputs, _masks(**masks), refused=text, outputs=[T(x)])


def _starts(*values: int) -> T:
    return T(np.array(values, np.int32))


CASES = [
    _strided(_X, [0, 1, 0], [2, 3, 4], [1, 1, 2], _X[:, 1:, ::2]),
    _strided(_X, [0, 1], [1, 3], [1, 1], _X[:1, 1:3]),
    _strided(_X, [0, 0, 0], [0, 0, 0], [1, 1, -1], _X[:, :, ::-1], begin_mask=7, end_mask=7),
    _strided(_LINE, [-2], [-5], [-1], _LINE[-2:-5:-1]),
    _strided(_LINE, [9], [-9], [-2], _LINE[::-2]),
    _strided(_LINE, [3], [1], [1], np.zeros(0, np.int32)),
    _strided(_LINE, [-9], [2], [1], _LINE[:2]),
    _strided(_LINE, [2], [3], [1], np.int32(2), shrink_axis_mask=1),
    # with a single index the end does not count
    _strided(_LINE, [-1], [0], [1], np.int32(4), shrink_axis_mask=1),
    _strided(_X, [1, 0, 2], [2, 1, 3], [1, 1, 1], _X[1, :1, 2], shrink_axis_mask=5),
    _strided(_X, [0, 1], [0, 2], [1, 1], _X[..., 1], ellipsis_mask=1, shrink_axis_mask=2),
    _strided(
        _X, [0, 0, 1], [0, 0, 3], [1, 1, 1], _X[:, :, None, 1:3], ellipsis_mask=1, new_axis_mask=2
    ),
    _strided(_LINE, [0, 1, 0], [0, 3, 0], [1, 1, 1], _LINE[None, 1:3, None], new_axis_mask=5),
    # an ellipsis may stand for no dimension
    _strided(_LINE, [0, 2], [0, 4], [1, 1], _LINE[2:4], ellipsis_mask=1),
    _strided(_X, [1, 0, 1], [1, 2, 3], [1, 1, 1], _X[1:, :2, 1:3], end_mask=1),
    # ends are lengths
    _strided(_LINE, [1], [3], [1], _LINE[1:4], offset=True),
    _strided(_LINE, [1], [4], [2], _LINE[1:5:2], offset=True),
    _strided(np.zeros((0, 3), np.float32), [0, 0], [0, 2], [1, 1], np.zeros((0, 2), np.float32)),
    *(_strided(x, [0, 1], [2, 2], [1, 1], moved(x, lambda v: v[:, 1:])) for x in STORED),
    _refused(_LINE, [0], [3], [0], "stride value has to be non-zero"),
    _refused(_LINE, [5], [6], [1], "index 5 in dimension 0", shrink_axis_mask=1),
    _refused(_LINE, [3], [4], [1], "runs past the end", offset=True),
    Case("SLICE", [_X, [0, 1, 2], [2, 2, 1]], {}, [_X[:, 1:3, 2:3]]),
    Case("SLICE", [_X, [1, 0, 4], [-1, 3, -1]], {}, [_X[1:, :, 4:]]),
    Case("SLICE", [np.float32(5), _starts(), _starts()], {}, [np.float32(5)]),
    Case("SLICE", [_X, np.array([1, 0, 2]), np.array([1, 2, 2])], {}, [_X[1:, :2, 2:]]),
    *(Case("SLICE", [x, [1, 0], [1, -1]], {}, [moved(x, lambda v: v[1:])]) for x in STORED),
    *(
        Case("SLICE", [_X, begin, size], {}, refused=text, outputs=[T(_X)])
        for begin, size, text in (
            ([0, 0, 2], [1, 1, 3], "Invalid begin and size."),
            ([-1, 0, 0], [1, 1, 1], "Invalid begin and size."),
            ([0, 0, 0], [1, -2, 1], "Invalid size."),
            ([0, 0], [1, 1], "a begin for each dimension"),
        )
    ),
    Case(
        "DYNAMIC_UPDATE_SLICE",
        [_LINE, np.array([7, 8], np.int32), _starts(1)],
        {},
        [[0, 7, 8, 3, 4]],
    ),
    # a start is moved so that the update fits
    Case(
        "DYNAMIC_UPDATE_SLICE",
        [_LINE, np.array([7, 8], np.int32), _starts(4)],
        {},
        [[0, 1, 2, 7, 8]],
    ),
    Case("DYNAMIC_UPDATE_SLICE", [_LINE, [9], T(np.array([-3]))], {}, [[9, 1, 2, 3, 4]]),
    Case("DYNAMIC_UPDATE_SLICE", [_LINE, np.zeros(0, np.int32), _starts(4)], {}, [_LINE]),
    Case(
        "DYNAMIC_UPDATE_SLICE",
        [_LINE, np.zeros(6, np.int32), _starts(0)],
        {},
        refused="does not fit",
        outputs=[T(_LINE)],
    ),
    *(
        Case(
            "DYNAMIC_UPDATE_SLICE",
            [x, moved(x, lambda v: v[:1, :1]), _starts(1, 1)],
            {},
            [moved(x, lambda v: np.where([[False, False], [False, True]], v[0, 0], v))],
        )
        for x in STORED
    ),
    Case(
        "STABLEHLO_SLICE",
        [_X],
        {"start_indices": (0, 1, 0), "limit_indices": (2, 3, 4), "strides": (1, 1, 3)},
        [_X[:, 1:, ::3]],
    ),
    Case(
        "STABLEHLO_SLICE",
        [_LINE],
        {"start_indices": (0,), "limit_indices": (6,), "strides": (1,)},
        refused="leaves the tensor",
        outputs=[T(_LINE)],
    ),
    Case(
        "STABLEHLO_DYNAMIC_SLICE",
        [_X, np.int32(1), np.int32(-4), np.int32(9)],
        {"slice_sizes": (1, 2, 2)},
        [_X[1:, :2, 2:]],
    ),
    Case(
        "STABLEHLO_DYNAMIC_UPDATE_SLICE",
        [_LINE, [9], np.int32(3)],
        {},
        [[0, 1, 2, 9, 4]],
    ),
]
