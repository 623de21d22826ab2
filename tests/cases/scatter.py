"""SCATTER_ND. The StableHLO scatter runs a subgraph: see test_bodies.py."""

from __future__ import annotations

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T


def _refused(indices: object, shape: object, text: str) -> Case:
    return Case("SCATTER_ND", [indices, [1, 2], shape], {}, refused=text, outputs=[T([0])])


CASES = [
    Case("SCATTER_ND", [[[1], [3]], [7, 8], [5]], {}, [[0, 7, 0, 8, 0]]),
    # what meets in one place is added, and wraps
    Case("SCATTER_ND", [[[1], [1], [0]], [7, 8, 9], [2]], {}, [[9, 15]]),
    Case(
        "SCATTER_ND",
        [[[0], [0]], np.array([100, 100], np.int8), [1]],
        {},
        [np.array([-56], np.int8)],
    ),
    Case("SCATTER_ND", [[[0], [0]], [True, True], [2]], {}, [[True, False]]),
    Case("SCATTER_ND", [[[1], [0]], [[1.0, 2], [3, 4]], [3, 2]], {}, [[[3.0, 4], [1, 2], [0, 0]]]),
    Case("SCATTER_ND", [[[[0, 1]], [[1, 0]]], [[5], [6]], [2, 2]], {}, [[[0, 5], [6, 0]]]),
    Case("SCATTER_ND", [np.array([1]), np.float32(2), np.array([2])], {}, [[0.0, 2]]),
    Case(
        "SCATTER_ND",
        [np.zeros((2, 0), np.int32), [[1, 2], [3, 4]], [2]],
        {},
        [[4, 6]],
    ),
    Case(
        "SCATTER_ND",
        [[[0], [1]], np.zeros((2, 0), np.float32), [3, 0]],
        {},
        [np.zeros((3, 0), np.float32)],
        name="rows of nothing",
    ),
    _refused([[0], [2]], [2], "scatter_nd index out of bounds: [2] in the shape [2]"),
    _refused([[0], [-1]], [2], "scatter_nd index out of bounds: [-1]"),
    _refused([[0], [1]], [2, 2], "do not fit the shape [2, 2]"),
    # halves are added in float32 and rounded once: 2049 is no float16
    Case(
        "SCATTER_ND",
        [[[0], [0], [0]], np.float16([2048, 1, 1]), [1]],
        {},
        [np.float16([2050])],
        tolerance=0,
    ),
    Case(
        "SCATTER_ND",
        [[[1], [1]], T([1.5, 2.0], DType.BFLOAT16), [2]],
        {},
        [T([0.0, 3.5], DType.BFLOAT16)],
    ),
    Case("SCATTER_ND", [[[1], [1]], np.complex64([1, 2j]), [2]], {}, [np.complex64([0, 1 + 2j])]),
    Case(
        "SCATTER_ND",
        [[[0]], T([1], DType.INT4), [1]],
        {},
        refused="is int4; SCATTER_ND takes float32",
        outputs=[T([0], DType.INT4)],
    ),
]
