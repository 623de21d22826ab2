"""MATRIX_DIAG and MATRIX_SET_DIAG."""

from __future__ import annotations

import numpy as np

from . import Case, T

_X = np.arange(12, dtype=np.float32).reshape(2, 2, 3)

CASES = [
    Case("MATRIX_DIAG", [[1, 2]], {}, [[[1, 0], [0, 2]]]),
    Case("MATRIX_DIAG", [[[1.0, 2], [3, 4]]], {}, [[[[1.0, 0], [0, 2]], [[3, 0], [0, 4]]]]),
    Case("MATRIX_DIAG", [np.zeros((2, 0), np.int8)], {}, [np.zeros((2, 0, 0), np.int8)]),
    Case("MATRIX_DIAG", [[True]], {}, [[[True]]]),
    Case("MATRIX_DIAG", [np.float32(1)], {}, refused="takes rank 1 or more", outputs=[T(_X)]),
    Case(
        "MATRIX_SET_DIAG",
        [_X, [[-1.0, -2], [-3, -4]]],
        {},
        [[[[-1.0, 1, 2], [3, -2, 5]], [[-3, 7, 8], [9, -4, 11]]]],
    ),
    Case("MATRIX_SET_DIAG", [[[1], [2], [3]], [9]], {}, [[[9], [2], [3]]]),
    Case(
        "MATRIX_SET_DIAG",
        [_X, [[1.0, 2, 3]]],
        {},
        refused="matrices and their diagonals",
        outputs=[T(_X)],
    ),
]
