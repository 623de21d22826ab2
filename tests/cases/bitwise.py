"""Cases of the ops in kernels/bitwise.py."""

from __future__ import annotations

import numpy as np

from cases import Case, T

CASES = [
    Case("BITWISE_XOR", [[6, 3], [3, 3]], {}, [[5, 0]]),
    Case(
        "BITWISE_XOR",
        [np.uint8([[255], [1]]), np.uint8([1, 2])],
        {},
        [np.uint8([[254, 253], [0, 3]])],
    ),
    Case("BITWISE_XOR", [[True], [True]], {}, [[False]]),
    Case("BITWISE_XOR", [[1.0], [1.0]], {}, refused="BITWISE_XOR takes int8", outputs=[T([1.0])]),
    Case("RIGHT_SHIFT", [[-8, 8, -8, 8], [1, 1, -1, 40]], {}, [[-4, 4, -8, 0]]),
    Case("RIGHT_SHIFT", [[-8], [[40], [1]]], {}, [[[-1], [-4]]]),
    Case("RIGHT_SHIFT", [np.uint8([255]), np.uint8([200])], {}, [np.uint8([1])]),
    Case(
        "RIGHT_SHIFT",
        [np.uint32([2**32 - 1, 2**31]), np.uint32([31, 99])],
        {},
        [np.uint32([1, 1])],
    ),
    Case("RIGHT_SHIFT", [np.int64([-(2**62)]), np.int64([60])], {}, [np.int64([-4])]),
    Case(
        "RIGHT_SHIFT", [np.int8([[-128]]), np.int8([[7, 100, -3]])], {}, [np.int8([[-1, -1, -128]])]
    ),
    Case("STABLEHLO_SHIFT_LEFT", [[1, 3, 1], [4, 31, 32]], {}, [[16, -(2**31), 0]]),
    Case("STABLEHLO_SHIFT_LEFT", [[1, 3], [-1, -32]], {}, [[0, 0]]),
    Case("STABLEHLO_SHIFT_LEFT", [np.uint64([3]), np.uint64([63])], {}, [np.uint64([2**63])]),
    Case("STABLEHLO_SHIFT_LEFT", [np.int8([3, 3]), np.int8([6, 8])], {}, [np.int8([-64, 0])]),
]
