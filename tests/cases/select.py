"""Cases of the ops in kernels/select.py."""

from __future__ import annotations

import math

import numpy as np

from cases import Case, T
from litedelegate.kernels.types import DType

NAN = math.nan
YES = [[True, False], [False, True]]
A, B = [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]
UNIQUE = {"idx_out_type": DType.INT32}

CASES = [
    Case("SELECT", [YES, A, B], {}, [[[1.0, 6.0], [7.0, 4.0]]]),
    Case("SELECT", [[True, False], A, B], {}, [[[1.0, 2.0], [7.0, 8.0]]], name="rows"),
    Case("SELECT", [False, A, B], {}, [B], name="scalar"),
    Case(
        "SELECT", [YES, [[b"a", b"b"]] * 2, [[b"c", b"d"]] * 2], {}, [[[b"a", b"d"], [b"c", b"b"]]]
    ),
    Case(
        "SELECT",
        [[True, False, True], A, B],
        {},
        refused="SELECT takes two inputs of one shape",
        outputs=[T(A)],
    ),
    Case("SELECT", [[1], [1.0], [1.0]], {}, refused="SELECT takes bool", outputs=[T([1.0])]),
    Case("SELECT_V2", [[True, False], A, 9.0], {}, [[[1.0, 9.0], [3.0, 9.0]]]),
    Case("SELECT_V2", [[[True], [False]], A, [0.0, 1.0]], {}, [[[1.0, 2.0], [0.0, 1.0]]]),
    Case("SELECT_V2", [True, T(np.int8([1])), T(np.int8([2]))], {}, [np.int8([1])]),
    Case(
        "SELECT_V2",
        [[True] * 3, [1.0] * 2, [1.0]],
        {},
        refused="are not broadcastable",
        outputs=[T([1.0])],
    ),
    Case("WHERE", [YES], {}, [np.int64([[0, 0], [1, 1]])]),
    Case("WHERE", [[0.0, -1.0, NAN]], {}, [np.int64([[1], [2]])]),
    Case("WHERE", [[False, False]], {}, [np.zeros((0, 1), np.int64)]),
    Case(
        "WHERE",
        [True],
        {},
        refused="Where op requires condition w/ rank > 0",
        outputs=[T(np.int64([0]))],
    ),
    Case("UNIQUE", [[3, 1, 3, 2, 1]], UNIQUE, [[3, 1, 2], [0, 1, 0, 2, 1]]),
    Case("UNIQUE", [[0.5, 0.5]], {"idx_out_type": DType.INT64}, [[0.5], np.int64([0, 0])]),
    Case("UNIQUE", [np.zeros(0, np.int32)], UNIQUE, [np.zeros(0, np.int32), np.zeros(0, np.int32)]),
    Case("UNIQUE", [[[1]]], UNIQUE, refused="UNIQUE takes one dimension", outputs=[T([1]), T([1])]),
    Case(
        "BUCKETIZE",
        [[-1.0, 0.0, 0.5, 10.0, NAN]],
        {"boundaries": (0.0, 1.0, 10.0)},
        [[0, 1, 1, 3, 3]],
    ),
    Case("BUCKETIZE", [[[-1, 5]]], {"boundaries": (0.0, 1.0, 10.0)}, [[[0, 2]]]),
    Case(
        "BUCKETIZE",
        [[1.0]],
        {"boundaries": (1.0, 0.0)},
        refused="Expected sorted boundaries",
        outputs=[T([1])],
    ),
    Case("STABLEHLO_CLAMP", [0.0, [-1.0, 0.5, 3.0], 1.0], {}, [[0.0, 0.5, 1.0]]),
    Case("STABLEHLO_CLAMP", [[0, 1], [5, 0], [3, 3]], {}, [[3, 1]]),
    Case(
        "STABLEHLO_CLAMP",
        [[0.0], [1.0, 2.0], 1.0],
        {},
        refused="takes a scalar or that shape",
        outputs=[T([1.0])],
    ),
    Case("STABLEHLO_SELECT", [[True, False], [1, 2], [3, 4]], {}, [[1, 4]]),
    Case("STABLEHLO_SELECT", [True, [1, 2], [3, 4]], {}, [[1, 2]]),
]
