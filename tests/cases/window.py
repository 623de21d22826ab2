"""REDUCE_WINDOW. The StableHLO reductions run subgraphs: see test_bodies.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T

_X = np.arange(12, dtype=np.int32).reshape(3, 4)


def _window(
    function: str, x: Any, init: Any, window: Any, strides: Any, dilations: Any, want: Any
) -> Case:
    shapes = [np.array(v, np.int64) for v in (window, strides, dilations)]
    return Case("REDUCE_WINDOW", [x, init, *shapes], {"reduce_function": function}, [want])


_I = np.int32

CASES = [
    _window("ADD", _X, _I(0), [2, 2], [1, 1], [1, 1], [[10, 14, 18], [26, 30, 34]]),
    _window("ADD", _X, _I(100), [2, 2], [1, 2], [1, 1], [[110, 118], [126, 134]]),
    _window("MAXIMUM", _X, [5], [1, 2], [2, 1], [1, 2], [[5, 5], [10, 11]]),
    _window("MINIMUM", _X, _I(99), [3, 1], [1, 1], [1, 1], [[0, 1, 2, 3]]),
    _window("MUL", [1.5, 2, 4], np.float32(1), [2], [1], [1], [3.0, 8]),
    _window("ALL", [True, False, True], np.bool_(True), [2], [1], [1], [False, False]),
    _window("ANY", [True, False, False], np.bool_(False), [2], [1], [1], [True, False]),
    _window(
        "ADD", np.array([100, 100], np.int8), np.int8(0), [2], [1], [1], np.array([-56], np.int8)
    ),
    _window("ADD", [1, 2], _I(0), [3], [1], [1], np.zeros(0, np.int32)),
    *(
        Case(
            "REDUCE_WINDOW",
            [_X, _I(0), np.array(window), np.array([1, 1]), np.array([1, 1])],
            {"reduce_function": function},
            refused=text,
            outputs=[T(_X)],
        )
        for window, function, text in (
            ([0, 1], "ADD", "of 1 or more"),
            ([1], "ADD", "1 window shape for"),
            ([1, 1], "UNSUPPORTED", "with function UNSUPPORTED; taken: ADD"),
        )
    ),
    _window("ADD", np.float16([2048, 1, 1]), np.float16(0), [3], [1], [1], np.float16([2050])),
    _window(
        "MAXIMUM",
        T([1.0, 3.0, 2.0], DType.BFLOAT16),
        T(0.0, DType.BFLOAT16),
        [2],
        [1],
        [1],
        T([3.0, 3.0], DType.BFLOAT16),
    ),
    *(
        Case(
            "REDUCE_WINDOW",
            [T([1], dtype), T(0, dtype), np.array([1]), np.array([1]), np.array([1])],
            {"reduce_function": "ADD"},
            refused=f"is {dtype.label}; REDUCE_WINDOW takes float32",
            outputs=[T([0], dtype)],
        )
        for dtype in (DType.INT4, DType.FLOAT8_E5M2, DType.COMPLEX64)
    ),
]
