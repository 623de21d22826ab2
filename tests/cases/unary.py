"""Cases of the ops in kernels/unary.py. Quantised results are ai-edge-litert's reference's."""

from __future__ import annotations

import math

import numpy as np

from cases import Case, T
from litedelegate.kernels.types import DType

INF, NAN = math.inf, math.nan
X8 = [-128, -60, -1, 0, 5, 60, 127]


def int8(values: object, scale: float, zero: int) -> T:
    return T(values, DType.INT8, scale, zero)


CASES = [
    Case("ABS", [[-1.5, 0.0, 2.0, NAN]], {}, [[1.5, 0.0, 2.0, NAN]]),
    Case("ABS", [[-3, 4]], {}, [[3, 4]]),
    Case("ABS", [np.int16([-3, -32768])], {}, [np.int16([3, -32768])]),
    Case("ABS", [int8(X8, 0.05, 3)], {}, [int8([-6, -55, -97, -98, -99, -59, -11], 0.07, -100)]),
    Case("NEG", [[-1.5, 2.0]], {}, [[1.5, -2.0]]),
    Case("NEG", [np.int64([-3, 4])], {}, [np.int64([3, -4])]),
    Case("NEG", [T([1.0, -2.0], DType.BFLOAT16)], {}, [T([-1.0, 2.0], DType.BFLOAT16)]),
    Case("SQUARE", [[-1.5, 2.0]], {}, [[2.25, 4.0]]),
    Case("SIGN", [[-1.5, 0.0, 2.0, NAN]], {}, [[-1.0, 0.0, 1.0, NAN]]),
    Case("SIGN", [[-7, 0, 7]], {}, [[-1, 0, 1]]),
    Case("FLOOR", [[-1.5, 1.5]], {}, [[-2.0, 1.0]]),
    Case("CEIL", [[-1.5, 1.5]], {}, [[-1.0, 2.0]]),
    Case(
        "ROUND",
        [[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.6]],
        {},
        [[-2.0, -2.0, -0.0, 0.0, 2.0, 2.0, 3.0]],
        tolerance=0,
        name="half-to-even",
    ),
    Case("EXP", [[-1000.0, 0.0, 1.0, 1000.0]], {}, [[0.0, 1.0, math.e, INF]]),
    Case(
        "EXP", [int8(X8, 0.02, 3)], {}, [int8([-127, -123, -113, -112, -111, -76, 71], 0.06, -128)]
    ),
    Case(
        "EXP",
        [T([-32768, -8000, -1, 0, 300, 8000, 32767], DType.INT16, 0.0001)],
        {},
        [T([38, 449, 1000, 1000, 1030, 2226, 26486], DType.INT16, 0.001)],
    ),
    Case("EXP", [[1]], {}, refused="is int32; EXP takes float32", outputs=[T([1])]),
    Case("LOG", [[1.0, math.e, 0.0, -1.0]], {}, [[0.0, 1.0, -INF, NAN]]),
    Case("LOG", [int8(X8, 0.05, -20)], {}, [int8([-128, -128, -11, -10, -4, 25, 40], 0.04, -10)]),
    Case("SQRT", [[4.0, 0.0, -1.0]], {}, [[2.0, 0.0, NAN]]),
    Case(
        "SQRT", [int8(X8, 0.05, -128)], {}, [int8([-128, -67, -45, -44, -43, -26, -9], 0.03, -128)]
    ),
    Case(
        "SQRT",
        [int8([-5], 0.05, 0)],
        {},
        refused="Sqrt is only defined for non-negative values",
        outputs=[int8([0], 0.03, 0)],
    ),
    Case("RSQRT", [[4.0, 0.25, 0.0]], {}, [[0.5, 2.0, INF]]),
    Case(
        "RSQRT",
        [int8(X8, 0.05, -128)],
        {},
        [int8([127, -110, -115, -115, -115, -117, -119], 0.03, -128)],
    ),
    Case(
        "RSQRT",
        [int8([-5], 0.05, 0)],
        {},
        refused="Rsqrt is only defined for positive values",
        outputs=[int8([0], 0.03, 0)],
    ),
    Case("SIN", [[0.0, math.pi / 6]], {}, [[0.0, 0.5]]),
    Case("COS", [np.float16([0.0, math.pi])], {}, [np.float16([1.0, -1.0])]),
    Case("STABLEHLO_ABS", [np.int8([-3])], {}, [np.int8([3])]),
    Case("STABLEHLO_NEGATE", [np.complex64([1 + 2j])], {}, [np.complex64([-1 - 2j])]),
    Case("STABLEHLO_LOGISTIC", [[-200.0, 0.0, 200.0]], {}, [[0.0, 0.5, 1.0]]),
    Case("STABLEHLO_COSINE", [[0.0]], {}, [[1.0]]),
    Case("STABLEHLO_EXPONENTIAL", [[0.0]], {}, [[1.0]]),
    Case("STABLEHLO_FLOOR", [[-0.5]], {}, [[-1.0]]),
    Case("STABLEHLO_LOG", [[1.0]], {}, [[0.0]]),
    Case("STABLEHLO_RSQRT", [[4.0]], {}, [[0.5]]),
    Case("STABLEHLO_TANH", [[0.5]], {}, [[0.46211717]]),
    Case("STABLEHLO_CBRT", [[-8.0, 27.0]], {}, [[-2.0, 3.0]]),
    Case("NEG", [np.complex64([1 + 2j])], {}, [np.complex64([-1 - 2j])]),
    Case("SQUARE", [np.complex64([1 + 2j])], {}, [np.complex64([-3 + 4j])]),
    Case("SQUARE", [np.uint16([3, 256])], {}, [np.uint16([9, 0])]),
    Case("STABLEHLO_NEGATE", [np.uint8([1, 0])], {}, [np.uint8([255, 0])]),
    Case(
        "EXP",
        [np.int16([1])],
        {},
        refused="is int16 without a quantisation scale; EXP needs one",
        outputs=[T(np.int16([1]))],
    ),
]
