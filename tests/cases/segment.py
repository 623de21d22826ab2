"""SEGMENT_SUM and the unsorted segment reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T

_X = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
_GREATEST = float(np.finfo(np.float32).max)


def _unsorted(kind: str, x: Any, ids: Any, count: int, want: Any) -> Case:
    return Case(f"UNSORTED_SEGMENT_{kind}", [x, ids, np.int32(count)], {}, [want])


CASES = [
    Case("SEGMENT_SUM", [_X, [0, 0, 1, 2]], {}, [[[4.0, 6], [5, 6], [7, 8]]]),
    Case("SEGMENT_SUM", [[1, 2, 3], [0, 0, 0]], {}, [[6]]),
    Case(
        "SEGMENT_SUM",
        [np.zeros((0, 2), np.float32), T(np.zeros(0, np.int32))],
        {},
        [np.zeros((0, 2), np.float32)],
    ),
    Case(
        "UNSORTED_SEGMENT_SUM",
        [np.zeros((3, 0), np.float32), [0, 0, 1], 2],
        {},
        [np.zeros((2, 0), np.float32)],
        name="rows of nothing",
    ),
    *(
        Case("SEGMENT_SUM", [_X, ids], {}, refused=text, outputs=[T(_X)])
        for ids, text in (
            ([1, 1, 2, 2], "ids that start at 0 and grow by 0 or 1"),
            ([0, 2, 2, 2], "ids that start at 0 and grow by 0 or 1"),
            ([0, 1, 0, 1], "ids that start at 0 and grow by 0 or 1"),
            ([0, 1], "an id for each row"),
        )
    ),
    _unsorted("SUM", _X, [1, 0, 1, -1], 3, [[3.0, 4], [6, 8], [0, 0]]),
    _unsorted("PROD", [1, 2, 3, 4], [1, 0, 1, 0], 3, [8, 3, 1]),
    _unsorted("MAX", _X, [1, 0, 1, -1], 3, [[3.0, 4], [5, 6], [-_GREATEST, -_GREATEST]]),
    _unsorted("MIN", [5, 4, 3], [0, 0, 0], 2, [3, 2**31 - 1]),
    _unsorted("MAX", [5, 4, 3], [0, 0, 0], 2, [5, -(2**31)]),
    # ids of any rank that is a prefix of the data's
    _unsorted("SUM", _X, [[0, 1], [1, 0], [0, 0], [-1, 1]], 2, [16.0, 13]),
    Case(
        "UNSORTED_SEGMENT_SUM",
        [_X, [0, 1, 2, 3], np.int32(3)],
        {},
        refused="segment id 3 in 'input1'; there are 3 segments",
        outputs=[T(_X)],
    ),
    Case(
        "UNSORTED_SEGMENT_SUM",
        [_X, [0, 1], np.int32(3)],
        {},
        refused="as the first dimensions of",
        outputs=[T(_X)],
    ),
    Case("SEGMENT_SUM", [np.float16([2048, 1, 1]), [0, 0, 0]], {}, [np.float16([2050])]),
    Case(
        "SEGMENT_SUM",
        [T([1.5, 2.0, 4.0], DType.BFLOAT16), [0, 0, 1]],
        {},
        [T([3.5, 4.0], DType.BFLOAT16)],
    ),
    _unsorted("SUM", np.uint32([1, 2, 3]), [1, 0, 1], 2, np.uint32([2, 4])),
    _unsorted("MIN", np.uint16([7, 2]), [0, 0], 2, np.uint16([2, 65535])),
    _unsorted("MAX", np.float16([7, 2]), [0, 0], 2, np.float16([7, np.finfo(np.float16).min])),
    _unsorted(
        "MAX",
        T([7.0, 2.0], DType.BFLOAT16),
        [1, 1],
        2,
        T([-3.3895313892515355e38, 7.0], DType.BFLOAT16),
    ),
    Case(
        "SEGMENT_SUM",
        [[True], [0]],
        {},
        refused="is bool; SEGMENT_SUM takes float32",
        outputs=[T([True])],
    ),
]
