"""Cases of SOFTMAX and LOG_SOFTMAX. Integer results are ai-edge-litert's reference's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cases import Case, T
from litedelegate.kernels.types import DType

ONE = {"beta": 1.0}
X8 = [[-128, -60, -1, 0, 5, 60, 127]]
U8 = [[0, 60, 127, 128, 133, 200, 255]]
X16 = [[-32768, -8000, -1, 0, 300, 8000, 32767]]


def softmax(x: Any, beta: float = 1.0) -> np.ndarray:
    real = np.asarray(x, np.float64) * beta
    power = np.exp(real - real.max(-1, keepdims=True))
    return (power / power.sum(-1, keepdims=True)).astype(np.float32)


ROWS = np.sin(np.arange(3 * 4 * 5)).reshape(3, 4, 5).astype(np.float32)
WIDE = np.sin(np.arange(2 * 20000)).reshape(2, 20000).astype(np.float32)

CASES = [
    Case("SOFTMAX", [[1.0, 2.0, 3.0]], ONE, [softmax([1, 2, 3])], tolerance=1e-6),
    Case("SOFTMAX", [ROWS], {"beta": 0.5}, [softmax(ROWS, 0.5)], tolerance=1e-6),
    Case("SOFTMAX", [WIDE], ONE, [softmax(WIDE)], tolerance=1e-5, name="wide"),
    Case(
        "SOFTMAX", [np.float16([1, 2])], ONE, [softmax([1, 2]).astype(np.float16)], tolerance=1e-3
    ),
    Case("SOFTMAX", [[1000.0, -1000.0, -math.inf]], ONE, [[1.0, 0.0, 0.0]]),
    Case("SOFTMAX", [np.zeros((0, 3), np.float32)], ONE, [np.zeros((0, 3), np.float32)]),
    Case(
        "SOFTMAX",
        [T(X8, DType.INT8, 0.04)],
        ONE,
        [T([[-128, -128, -127, -127, -126, -112, 107]], DType.INT8, 1 / 256, -128)],
    ),
    Case(
        "SOFTMAX",
        [T(U8, DType.UINT8, 0.04)],
        ONE,
        [T([[0, 0, 1, 1, 2, 25, 226]], DType.UINT8, 1 / 256)],
    ),
    Case(
        "SOFTMAX",
        [T(X8, DType.INT8, 0.04)],
        ONE,
        [T([[-32766, -32734, -32408, -32394, -32311, -28642, 27414]], DType.INT16, 1 / 32768)],
    ),
    Case(
        "SOFTMAX",
        [T(X16, DType.INT16, 0.0005)],
        ONE,
        [T([[2, 2, 2, 2, 2, 2, 32755]], DType.INT16, 1 / 32768)],
    ),
    # more equal elements than the reference's sums hold
    Case(
        "SOFTMAX",
        [T(np.zeros((3, 10_000)), DType.INT8, 0.04)],
        ONE,
        [T(np.full((3, 10_000), 7 - 32768), DType.INT16, 1 / 32768)],
        name="many-rows",
    ),
    Case(
        "SOFTMAX",
        [T(np.zeros((1, 10_000)), DType.INT8, 0.04)],
        ONE,
        [T(np.full((1, 10_000), 7 - 32768), DType.INT16, 1 / 32768)],
        name="many",
    ),
    Case(
        "LOG_SOFTMAX",
        [T(np.zeros((2, 10_000)), DType.UINT8, 0.04)],
        {},
        [T(np.full((2, 10_000), 255 - 147), DType.UINT8, 16 / 256, 255)],
        name="many",
    ),
    Case("SOFTMAX", [1.0], ONE, refused="takes one dimension or more", outputs=[T(1.0)]),
    Case(
        "SOFTMAX",
        [T(X8, DType.INT8, 0.04)],
        ONE,
        refused="SOFTMAX gives int8 with 0.00390625 and -128",
        outputs=[T(X8, DType.INT8, 1 / 256, 0)],
    ),
    Case(
        "LOG_SOFTMAX",
        [ROWS],
        {},
        [np.log(softmax(ROWS).astype(np.float64)).astype(np.float32)],
        tolerance=1e-6,
    ),
    Case(
        "LOG_SOFTMAX",
        [T(X8, DType.INT8, 0.04)],
        {},
        [T([[-38, 6, 44, 44, 48, 83, 126]], DType.INT8, 16 / 256, 127)],
    ),
    Case(
        "LOG_SOFTMAX",
        [T(U8, DType.UINT8, 0.04)],
        {},
        [T([[90, 128, 171, 172, 175, 218, 253]], DType.UINT8, 16 / 256, 255)],
    ),
    Case(
        "LOG_SOFTMAX",
        [T(X8, DType.INT8, 0.04)],
        {},
        refused="LOG_SOFTMAX gives int8 with 0.0625 and 127",
        outputs=[T(X8, DType.INT8, 1 / 256, 127)],
    ),
    *(
        Case("SOFTMAX", [WIDE[:, :n]], ONE, [softmax(WIDE[:, :n])], tolerance=1e-6, name=f"of-{n}")
        for n in (6, 8, 12, 16, 37, 500)
    ),
    Case(
        "SOFTMAX",
        [T(np.zeros((0, 10)), DType.INT8, 0.04)],
        ONE,
        [T(np.zeros((0, 10)), DType.INT8, 1 / 256, -128)],
        name="rows of nothing",
    ),
]
