"""Cases of the ops in kernels/comparison.py."""

from __future__ import annotations

import math

import numpy as np

from cases import Case, T
from litedelegate.kernels.types import DType

NAN = math.nan
A, B = [1.0, 2.0, 3.0, NAN], [2.0, 2.0, 2.0, NAN]
HLO = "STABLEHLO_COMPARISON_DIRECTION_"
TOTAL = "STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER"

CASES = [
    Case("LESS", [A, B], {}, [[True, False, False, False]]),
    Case("LESS_EQUAL", [A, B], {}, [[True, True, False, False]]),
    Case("GREATER", [A, B], {}, [[False, False, True, False]]),
    Case("GREATER_EQUAL", [A, B], {}, [[False, True, True, False]]),
    Case("EQUAL", [A, B], {}, [[False, True, False, False]]),
    Case("NOT_EQUAL", [A, B], {}, [[True, False, True, True]]),
    Case("LESS", [[[1], [3]], [2, 4]], {}, [[[True, True], [False, True]]]),
    Case("LESS", [np.int64([2**60]), np.int64([2**60 + 1])], {}, [[True]]),
    Case("LESS", [np.float16([1]), np.float16([2])], {}, [[True]]),
    Case("LESS", [T([1.0], DType.BFLOAT16), T([2.0], DType.BFLOAT16)], {}, [[True]]),
    Case("EQUAL", [[True, False], [True, True]], {}, [[True, False]]),
    Case("EQUAL", [[b"ab", b"c"], [b"ab", b"d"]], {}, [[True, False]]),
    Case("NOT_EQUAL", [[b"ab", b"c"], [b"c"]], {}, [[True, False]]),
    Case("EQUAL", [np.zeros((0, 2), np.int32), [1, 2]], {}, [np.zeros((0, 2), np.bool_)]),
    Case("EQUAL", [3, 3], {}, [True], name="rank0"),
    # 0.05 * (q - 3) against 1.0; the reference rounds both to 1/256
    Case(
        "EQUAL",
        [T([23, 24, 25, 3], DType.INT8, 0.05, 3), T([10], DType.INT8, 0.1)],
        {},
        [[True, False, False, False]],
        name="int8",
    ),
    Case(
        "GREATER",
        [T([23, 24, 25, 3], DType.UINT8, 0.05, 3), T([10], DType.UINT8, 0.1, const=True)],
        {},
        [[False, True, True, False]],
        name="uint8",
    ),
    Case("LESS", [np.int8([-1]), np.int8([1])], {}, [[True]], name="plain-int8"),
    Case("LESS", [[b"a"], [b"b"]], {}, refused="is string; LESS takes", outputs=[T([True])]),
    Case("EQUAL", [[1.0], [1]], {}, refused="inputs of one type", outputs=[T([True])]),
    Case("EQUAL", [[1.0], [1.0]], {}, refused="EQUAL gives bool", outputs=[T([1.0])]),
    Case("LOGICAL_AND", [[True, True, False], [True, False, False]], {}, [[True, False, False]]),
    Case(
        "LOGICAL_OR",
        [[True, True, False], [[True], [False]]],
        {},
        [[[True] * 3, [True, True, False]]],
    ),
    Case("LOGICAL_NOT", [[True, False]], {}, [[False, True]]),
    Case("LOGICAL_NOT", [[1]], {}, refused="LOGICAL_NOT takes bool", outputs=[T([True])]),
    Case("STABLEHLO_AND", [[6], [3]], {}, [[2]]),
    Case("STABLEHLO_AND", [[True], [False]], {}, [[False]]),
    Case("STABLEHLO_OR", [[6], [3]], {}, [[7]]),
    *(
        Case(
            "STABLEHLO_COMPARE",
            [[1, 2, 3], [2, 2, 2]],
            {
                "comparison_direction": HLO + name,
                "compare_type": "STABLEHLO_COMPARISON_TYPE_SIGNED",
            },
            [want],
        )
        for name, want in {
            "EQ": [False, True, False],
            "NE": [True, False, True],
            "GE": [False, True, True],
            "GT": [False, False, True],
            "LE": [True, True, False],
            "LT": [True, False, False],
        }.items()
    ),
    Case(
        "STABLEHLO_COMPARE",
        [[-0.0, NAN, 1.0], [0.0, 1.0, -1.0]],
        {"comparison_direction": HLO + "LT", "compare_type": TOTAL},
        [[True, False, False]],
        name="total-order",
    ),
]
