"""DEPTH_TO_SPACE, SPACE_TO_DEPTH, SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND."""

from __future__ import annotations

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T

_DEEP = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 1, 12)
_FLAT = _DEEP.reshape(1, 2, 2, 3)
_GRID = np.arange(1, 17, dtype=np.int32).reshape(1, 4, 4, 1)
_FOUR = np.array([[1, 3, 9, 11], [2, 4, 10, 12], [5, 7, 13, 15], [6, 8, 14, 16]], np.int32)
_FOUR = _FOUR.reshape(4, 2, 2, 1)
_LINE = np.arange(1, 6, dtype=np.float32).reshape(1, 5, 1)
_ZERO = T(np.zeros((2, 2), np.int32))

CASES = [
    Case("DEPTH_TO_SPACE", [_DEEP], {"block_size": 2}, [_FLAT]),
    Case("SPACE_TO_DEPTH", [_FLAT], {"block_size": 2}, [_DEEP]),
    Case(
        "SPACE_TO_DEPTH",
        [_GRID],
        {"block_size": 2},
        [[[[[1, 2, 5, 6], [3, 4, 7, 8]], [[9, 10, 13, 14], [11, 12, 15, 16]]]]],
    ),
    Case("DEPTH_TO_SPACE", [_DEEP], {"block_size": 5}, refused="no multiple", outputs=[T(_DEEP)]),
    Case("SPACE_TO_DEPTH", [_FLAT], {"block_size": 3}, refused="no multiple", outputs=[T(_DEEP)]),
    Case("SPACE_TO_BATCH_ND", [_GRID, [2, 2], _ZERO], {}, [_FOUR]),
    Case("BATCH_TO_SPACE_ND", [_FOUR, [2, 2], _ZERO], {}, [_GRID]),
    # one dimension of space; padded in front and behind
    Case("SPACE_TO_BATCH_ND", [_LINE, [2], [[1, 0]]], {}, [[[[0.0], [2], [4]], [[1], [3], [5]]]]),
    Case("SPACE_TO_BATCH_ND", [_LINE, [3], [[0, 1]]], {}, [[[[1.0], [4]], [[2], [5]], [[3], [0]]]]),
    Case(
        "SPACE_TO_BATCH_ND",
        [_LINE, [3], [[4, 0]]],
        {},
        [[[[0.0], [0], [3]], [[0], [1], [4]], [[0], [2], [5]]]],
    ),
    Case(
        "SPACE_TO_BATCH_ND",
        [T([[[1], [2], [3]]], DType.INT8, 0.5, -4), [2], [[1, 0]]],
        {},
        [T([[[-4], [2]], [[1], [3]]], DType.INT8, 0.5, -4)],
    ),
    Case("BATCH_TO_SPACE_ND", [[[[1.0], [2]], [[3], [4]]], [2], [[1, 1]]], {}, [[[[3.0], [2]]]]),
    Case("BATCH_TO_SPACE_ND", [[[[1.0], [2]], [[3], [4]]], [2], [[0, 3]]], {}, [[[[1.0]]]]),
    Case(
        "SPACE_TO_BATCH_ND",
        [_LINE, [2], [[0, 0]]],
        {},
        refused="no multiple of the block size 2",
        outputs=[T(_LINE)],
    ),
    Case(
        "BATCH_TO_SPACE_ND",
        [_LINE, [2], [[0, 0]]],
        {},
        refused="batch 1 is no multiple",
        outputs=[T(_LINE)],
    ),
    Case(
        "BATCH_TO_SPACE_ND",
        [_FOUR, [2, 2], [[0, 0]]],
        {},
        refused="got shapes [2] and [1, 2]",
        outputs=[T(_GRID)],
    ),
]
