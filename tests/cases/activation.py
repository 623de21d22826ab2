"""Cases of the ops in kernels/activation.py. Quantised results are ai-edge-litert's reference's."""

from __future__ import annotations

import math

import numpy as np

from cases import Case, T
from litedelegate.kernels.types import DType

X8 = [-128, -60, -1, 0, 5, 60, 127]
X16 = [-32768, -8000, -1, 0, 300, 8000, 32767]
F = [-100.0, -3.5, -1.0, 0.0, 0.5, 2.0, 7.0]
INF, NAN = math.inf, math.nan
LONG = np.resize(np.int8(X8), 3001)


def int8(values: object, scale: float, zero: int) -> T:
    return T(values, DType.INT8, scale, zero)


def int16(values: object, scale: float) -> T:
    return T(values, DType.INT16, scale)


def gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


CASES = [
    Case("RELU", [F], {}, [[0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 7.0]], tolerance=0),
    Case("RELU", [[NAN, INF, -INF]], {}, [[NAN, INF, 0.0]]),
    Case("RELU6", [F], {}, [[0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 6.0]], tolerance=0),
    Case("RELU_N1_TO_1", [F], {}, [[-1.0, -1.0, -1.0, 0.0, 0.5, 1.0, 1.0]], tolerance=0),
    Case("RELU_0_TO_1", [F], {}, [[0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0]], tolerance=0),
    Case("RELU6", [np.float16(F)], {}, [np.float16([0, 0, 0, 0, 0.5, 2, 6])]),
    Case("RELU6", [T(F, DType.BFLOAT16)], {}, [T([0, 0, 0, 0, 0.5, 2, 6], DType.BFLOAT16)]),
    Case("RELU", [np.zeros((2, 0), np.float32)], {}, [np.zeros((2, 0), np.float32)]),
    Case("RELU", [-3.0], {}, [0.0], name="rank0"),
    Case(
        "RELU6",
        [int8(X8, 0.1, 3)],
        {},
        [int8([-128, -128, -128, -128, -124, -14, -8], 0.05, -128)],
        name="int8",
    ),
    Case(
        "RELU",
        [int8(X8, 0.1, 3)],
        {},
        refused="without a quantisation scale",
        outputs=[T(np.int8([0]))],
    ),
    Case(
        "RELU",
        [T([1], DType.INT16, 0.1, 5)],
        {},
        refused="zero point 5",
        outputs=[int16([1], 0.1)],
    ),
    Case("RELU", [[True]], {}, refused="is bool; RELU takes float32", outputs=[T([True])]),
    Case("RELU", [[1.0]], {}, refused="RELU gives float32 here", outputs=[T([1])]),
    Case(
        "LOGISTIC",
        [[-100.0, -20.0, -1.0, 0.0, 1.0, 100.0, -INF, INF, NAN]],
        {},
        [[0.0, 2.0611537e-09, 0.26894143, 0.5, 0.7310586, 1.0, 0.0, 1.0, NAN]],
    ),
    Case("LOGISTIC", [[-20.0]], {}, [[2.0611537e-09]], name="small"),
    Case("LOGISTIC", [np.full(40000, 1.0, np.float32)], {}, [np.full(40000, 0.7310586, "f4")]),
    Case(
        "LOGISTIC",
        [np.float64([0.5])],
        {},
        [np.float64([1 / (1 + math.exp(-0.5))])],
        tolerance=1e-15,
    ),
    Case(
        "LOGISTIC",
        [int8(X8, 0.05, 3)],
        {},
        [int8([-128, -117, -13, -10, 6, 114, 127], 1 / 256, -128)],
        name="int8",
    ),
    Case(
        "LOGISTIC",
        [int16(X16, 0.001)],
        {},
        [int16([1, 11, 16376, 16384, 18823, 32757, 32767], 1 / 32768)],
        name="int16",
    ),
    Case(
        "LOGISTIC",
        [int16(X16, 2**-12)],
        {},
        [int16([11, 4070, 16382, 16384, 16984, 28698, 32757], 1 / 32768)],
        name="int16-pot",
    ),
    Case(
        "LOGISTIC",
        [int16([0], 0.001)],
        {},
        refused="LOGISTIC on int16 gives 1/32768",
        outputs=[int16([0], 0.001)],
    ),
    Case("TANH", [[-20.0, -0.5, 0.0, 0.5, NAN]], {}, [[-1.0, -0.46211717, 0.0, 0.46211717, NAN]]),
    Case(
        "TANH",
        [int8(X8, 0.03, 3)],
        {},
        [int8([-128, -122, -15, -11, 8, 120, 127], 1 / 128, 0)],
        name="int8",
    ),
    Case(
        "TANH",
        [int16(X16, 2**-11)],
        {},
        [int16([-32767, -32742, -16, 0, 4766, 32742, 32767], 1 / 32768)],
        name="int16",
    ),
    Case("ELU", [F], {}, [[math.expm1(v) if v < 0 else v for v in F]]),
    Case("HARD_SWISH", [F], {}, [[v * min(6, max(0, v + 3)) / 6 for v in F]]),
    Case(
        "HARD_SWISH",
        [int8(X8, 0.05, 3)],
        {},
        [int8([-10, -10, -12, -12, -9, 59, 127], 0.04, -10)],
        name="int8",
    ),
    Case(
        "HARD_SWISH",
        [int8(X8, 0.5, 3)],
        {},
        refused="input scale below 128 times",
        outputs=[int8(X8, 0.001, 0)],
    ),
    Case("LEAKY_RELU", [F], {"alpha": 0.1}, [[v if v > 0 else 0.1 * v for v in F]]),
    Case("LEAKY_RELU", [F], {"alpha": 1.5}, [[v if v > 0 else 1.5 * v for v in F]]),
    Case("LEAKY_RELU", [F], {"alpha": -0.3}, [[v if v > 0 else -0.3 * v for v in F]]),
    Case("LEAKY_RELU", [[-1.0, INF]], {"alpha": 0.0}, [[0.0, INF]]),
    Case(
        "LEAKY_RELU",
        [int8(X8, 0.05, 3)],
        {"alpha": 0.3},
        [int8([-59, -34, -12, -11, -7, 61, 127], 0.04, -10)],
        name="int8",
    ),
    Case(
        "LEAKY_RELU",
        [int8(LONG, 0.05, 3)],
        {"alpha": 0.3},
        [int8(np.resize([-59, -34, -12, -11, -7, 61, 127], 3001), 0.04, -10)],
        name="int8-odd-length",
    ),
    Case(
        "LEAKY_RELU",
        [int16(X16, 0.001)],
        {"alpha": 0.3},
        [int16([-14044, -3429, -1, 0, 429, 11429, 32767], 0.0007)],
        name="int16",
    ),
    Case("GELU", [F], {"approximate": False}, [[gelu(v) for v in F]]),
    Case("GELU", [[-5.0, -4.0]], {"approximate": False}, [[gelu(-5.0), gelu(-4.0)]], name="tail"),
    Case(
        "GELU",
        [F],
        {"approximate": True},
        [[0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in F]],
    ),
    Case(
        "GELU",
        [int8(X8, 0.05, 3)],
        {"approximate": False},
        [int8([-10, -10, -12, -12, -9, 61, 127], 0.04, -10)],
        name="int8",
    ),
    Case(
        "GELU",
        [int16(X16, 0.0002)],
        {"approximate": True},
        [int16([0, -439, -1, -1, 157, 7560, 32766], 0.0002)],
        name="int16",
    ),
    Case("PRELU", [[[-2.0, -2.0], [3.0, -1.0]], [0.5, 2.0]], {}, [[[-1.0, -4.0], [3.0, -2.0]]]),
    Case(
        "PRELU",
        [np.full((9, 700, 3), -2, np.float32), T(np.float32([0.5, 1, 0.25]), const=True)],
        {},
        [np.resize(np.float32([-1, -2, -0.5]), (9, 700, 3))],
    ),
    Case(
        "PRELU",
        [int8([[X8]], 0.05, 3), T([[X8]], DType.INT8, 0.01, 2, const=True)],
        {},
        [int8([[[127, 39, -10, -10, -7, 61, 127]]], 0.04, -10)],
        name="int8",
    ),
    Case(
        "PRELU",
        [
            int8(np.zeros((4, 0), np.int8), 0.05, 3),
            T(np.zeros(0, np.int8), DType.INT8, 0.01, 2, const=True),
        ],
        {},
        [int8(np.zeros((4, 0), np.int8), 0.04, -10)],
        name="nothing",
    ),
    Case(
        "PRELU",
        [[1.0], [[0.5], [0.5]]],
        {},
        refused="an alpha that broadcasts to the input",
        outputs=[T([1.0])],
    ),
]
