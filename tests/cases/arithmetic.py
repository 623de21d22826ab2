"""Cases of the ops in kernels/arithmetic.py."""

from __future__ import annotations

import numpy as np

from cases import Case, T
from litedelegate.kernels.types import DType

NONE = {"fused_activation_function": "NONE"}
ADD = {**NONE, "pot_scale_int16": False}
INF, NAN = np.inf, np.nan


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 3


CASES = [
    Case("ADD", [[1.0, -2.0], [0.5, 8.0]], ADD, [[1.5, 6.0]], name="float"),
    Case(
        "ADD",
        [[-4.0, 2.0, 9.0], [0.0, 0.0, 0.0]],
        {**ADD, "fused_activation_function": "RELU6"},
        [[0.0, 2.0, 6.0]],
    ),
    Case("ADD", [[-4, 9], [1, 1]], {**ADD, "fused_activation_function": "RELU"}, [[0, 10]]),
    Case("ADD", [np.float16([1, 2]), np.float16([0.5, 3])], ADD, [np.float16([1.5, 5])]),
    Case(
        "ADD",
        [T([1.0, 2.0], DType.BFLOAT16), T([0.5, NAN], DType.BFLOAT16)],
        ADD,
        [T([1.5, NAN], DType.BFLOAT16)],
    ),
    Case("ADD", [np.float64([1]), np.float64([1e-12])], ADD, [np.float64([1 + 1e-12])]),
    Case("ADD", [np.int16([32767]), np.int16([1])], ADD, [np.int16([-32768])], name="wraps"),
    Case("ADD", [np.complex64([1 + 2j]), np.complex64([1j])], ADD, [np.complex64([1 + 3j])]),
    Case("ADD", [2.0, 3.0], ADD, [5.0], name="rank0"),
    Case("ADD", [np.zeros((0, 3), np.float32), ramp(3)], ADD, [np.zeros((0, 3), np.float32)]),
    Case(
        "ADD",
        [ramp(20, 128, 128), ramp(1, 1, 128, 128)],
        ADD,
        [(ramp(20, 128, 128) + ramp(1, 1, 128, 128)).astype(np.float32)],
        name="mixed-rank",
    ),
    Case("MUL", [ramp(1, 1600, 1), ramp(384)], NONE, [ramp(1, 1600, 1) * ramp(384)]),
    Case(
        "MUL",
        [ramp(2, 1, 2, 1, 3, 1, 2, 1), ramp(1, 2, 1, 2, 1, 2, 1, 2)],
        NONE,
        [ramp(2, 1, 2, 1, 3, 1, 2, 1) * ramp(1, 2, 1, 2, 1, 2, 1, 2)],
        name="rank8",
    ),
    Case(
        "SUB",
        [T(ramp(5, 7, 3)), T(ramp(3), const=True)],
        ADD,
        [ramp(5, 7, 3) - ramp(3)],
        name="constant-vector",
    ),
    Case(
        "ADD",
        [ramp(2, 3), ramp(4)],
        ADD,
        refused="Given shapes, [2, 3] and [4], are not broadcastable",
        outputs=[T([0.0])],
    ),
    Case("ADD", [[1.0], [1]], ADD, refused="takes inputs of one type", outputs=[T([0.0])]),
    Case(
        "ADD",
        [[True], [True]],
        ADD,
        refused="input 0 'input0' is bool; ADD takes float32",
        outputs=[T([True])],
    ),
    Case(
        "ADD",
        [[1.0], [1.0]],
        {**ADD, "fused_activation_function": "TANH"},
        refused="fused activation TANH",
        outputs=[T([0.0])],
    ),
    Case(
        "ADD",
        [np.int8([1]), np.int8([1])],
        ADD,
        refused="without a quantisation scale",
        outputs=[T(np.int8([0]))],
    ),
    # 0.1 * (q - 3) + 0.2 * q on the scale 0.25: 1.7 + 2.0 = 3.7 -> 14.8; 12.4 + -25.6 -> -52.8
    Case(
        "ADD",
        [
            T([20, 127], DType.INT8, 0.1, 3),
            T([10, -128], DType.INT8, 0.2, 0),
        ],
        ADD,
        [T([15, -53], DType.INT8, 0.25, 0)],
        name="int8",
    ),
    Case(
        "ADD",
        [T([20, 255], DType.UINT8, 0.1, 3), T(10, DType.UINT8, 0.2, 0, const=True)],
        ADD,
        [T([15, 109], DType.UINT8, 0.25, 0)],
        name="uint8-scalar",
    ),
    Case(  # it wraps before the activation
        "SUB",
        [np.array([1, 7, 65535], np.uint16), np.array([3, 5, 1], np.uint16)],
        {"fused_activation_function": "RELU6"},
        [np.array([6, 2, 6], np.uint16)],
        name="uint16, RELU6",
    ),
    Case(
        "SUB",
        [
            T([[1000, -2000]], DType.INT16, 0.5),
            T([[100], [32767]], DType.INT16, 0.25),
        ],
        ADD,
        [T([[475, -1025], [-7692, -9192]], DType.INT16, 1.0)],
        name="int16-broadcast",
    ),
    # power-of-two scales: the first is shifted right by one bit, halves away from zero
    Case(
        "ADD",
        [T([3, -3, 32767], DType.INT16, 0.5), T([0, 0, 32767], DType.INT16, 1.0)],
        {**NONE, "pot_scale_int16": True},
        [T([2, -2, 32767], DType.INT16, 1.0)],
        name="int16-pot",
    ),
    Case(
        "ADD",
        [T([1], DType.INT16, 0.5, 4), T([1], DType.INT16, 0.5)],
        ADD,
        refused="zero point 4",
        outputs=[T([1], DType.INT16, 0.5)],
    ),
    Case(
        "MUL",
        [T([-128, 127], DType.INT8, 0.5, -1), T([3, 100], DType.INT8, 0.5, 1)],
        {"fused_activation_function": "RELU"},
        [T([-3, 127], DType.INT8, 1.0, -3)],
    ),
    Case(
        "MUL",
        [np.complex64([1j]), np.complex64([1j])],
        {"fused_activation_function": "RELU"},
        refused="Activation is not allowed",
        outputs=[T(np.complex64([0]))],
    ),
    # fractions of one: 0.5 * 0.5 = 0.25 of 128
    Case(
        "MUL",
        [T([16384, -32768], DType.INT16, 1 / 32768), T([16384, -32768], DType.INT16, 1 / 32768)],
        NONE,
        [T([32, 127], DType.INT8, 1 / 128)],
        name="int16-to-int8",
    ),
    Case("DIV", [[7, -7, 7], [2, 2, -2]], NONE, [[3, -3, -3]], name="towards-zero"),
    Case("DIV", [np.int64([-7, 7]), np.int64([2, -2])], NONE, [np.int64([-3, -3])]),
    Case("DIV", [[1], [0]], NONE, refused="Division by 0", outputs=[T([0])]),
    Case(
        "DIV",
        [T([1, 2], DType.INT8, 0.5), T([3, 2], DType.INT8, 0.5, 2)],
        NONE,
        refused="Division by 0",
        outputs=[T([0, 0], DType.INT8, 0.5)],
    ),
    Case(
        "DIV",
        [[1.0, -1.0, 6.0], [0.0, 0.0, 4.0]],
        NONE,
        [np.float32([3.4028235e38, -3.4028235e38, 1.5])],
        name="by-zero",
    ),
    Case(
        "DIV",
        [T([-100, 100, 7], DType.INT8, 0.5), T([-4, 3, 2], DType.INT8, 0.25, -1)],
        NONE,
        [T([67, 50, 5], DType.INT8, 1.0)],
        name="int8",
    ),
    Case("FLOOR_DIV", [[-7, 7, -7, 7], [2, -2, -2, 2]], {}, [[-4, -4, 3, 3]]),
    Case("FLOOR_DIV", [[7], [0]], {}, refused="Division by 0", outputs=[T([0])]),
    Case("FLOOR_DIV", [[7.0], [0.0]], {}, refused="Division by 0", outputs=[T([0.0])]),
    Case("FLOOR_DIV", [[-7.5, 7.5], [2.0, 2.0]], {}, [[-4.0, 3.0]]),
    Case("FLOOR_DIV", [np.int8([-7]), np.int8([2])], {}, [np.int8([-4])]),
    Case("FLOOR_MOD", [[-7, 7, -7, 7], [2, -2, -3, 3]], {}, [[1, -1, -1, 1]]),
    Case("FLOOR_MOD", [[-7.5, 7.5, 1.0], [2.0, -2.0, 0.0]], {}, [[0.5, -0.5, NAN]]),
    Case("FLOOR_MOD", [[7], [0]], {}, refused="Division by 0", outputs=[T([0])]),
    Case("MAXIMUM", [[NAN, 1.0, 2.0], [1.0, NAN, 3.0]], {}, [[1.0, NAN, 3.0]]),
    Case("MINIMUM", [[NAN, 1.0, 2.0], [1.0, NAN, 3.0]], {}, [[1.0, NAN, 2.0]]),
    Case("MAXIMUM", [[NAN, -1.0, 2.0], T(0.0, const=True)], {}, [[0.0, 0.0, 2.0]]),
    Case("MAXIMUM", [T(0.0, const=True), [NAN, -1.0, 2.0]], {}, [[NAN, 0.0, 2.0]]),
    Case("MINIMUM", [np.int8([[1, -3]]), np.int8([[0], [-9]])], {}, [np.int8([[0, -3], [-9, -9]])]),
    Case("POW", [[2.0, 3.0, 4.0], [3.0, 2.0, 0.5]], {}, [[8.0, 9.0, 2.0]]),
    Case("POW", [[-2.0, 3.0], T(2.0, const=True)], {}, [[4.0, 9.0]]),
    Case("POW", [[2, -3, 10], [3, 3, 10]], {}, [[8, -27, -2147483648]], name="overflow"),
    Case("POW", [[2], [-1]], {}, refused="POW does not support negative", outputs=[T([0])]),
    Case("SQUARED_DIFFERENCE", [[1.0, -2.0], [3.0, 2.0]], {}, [[4.0, 16.0]]),
    Case("SQUARED_DIFFERENCE", [[1, -2], [3]], {}, [[4, 25]]),
    Case(
        "SQUARED_DIFFERENCE",
        [T([10, -20], DType.INT8, 0.5), T([4, 0], DType.INT8, 0.5)],
        {},
        [T([9, 100], DType.INT8, 1.0)],
    ),
    Case("ADD_N", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], {}, [[9.0, 12.0]]),
    Case("ADD_N", [[1, 2]], {}, [[1, 2]]),
    Case("ADD_N", [[1.0, 2.0], [3.0]], {}, refused="inputs of one shape", outputs=[T([0.0])]),
    Case("ATAN2", [[1.0, -1.0, 0.0], [1.0, -1.0, -1.0]], {}, [[np.pi / 4, -3 * np.pi / 4, np.pi]]),
    Case("ATAN2", [[1.0], [[1.0]]], {}, refused="ATAN2 takes one shape", outputs=[T([0.0])]),
    Case("STABLEHLO_ADD", [np.int8([127]), np.int8([1])], {}, [np.int8([-128])]),
    Case("STABLEHLO_SUBTRACT", [[3.0], [1.0]], {}, [[2.0]]),
    Case("STABLEHLO_MULTIPLY", [[3], [5]], {}, [[15]]),
    Case("STABLEHLO_DIVIDE", [[-7], [2]], {}, [[-3]]),
    Case("STABLEHLO_DIVIDE", [np.int8([-7]), np.int8([2])], {}, [np.int8([-3])]),
    Case("STABLEHLO_ADD", [[True, False], [True, False]], {}, [[True, False]]),
    Case("STABLEHLO_MULTIPLY", [[True, True], [True, False]], {}, [[True, False]]),
    Case("STABLEHLO_MINIMUM", [[True, True], [True, False]], {}, [[True, False]]),
    Case("STABLEHLO_MAXIMUM", [[3], [5]], {}, [[5]]),
    Case("STABLEHLO_MAXIMUM", [[NAN, 1.0, 2.0], [1.0, NAN, 3.0]], {}, [[NAN, 1.0, 3.0]]),
    Case("STABLEHLO_MINIMUM", [[NAN, 1.0, 2.0], [1.0, NAN, 3.0]], {}, [[NAN, 1.0, 2.0]]),
    Case("STABLEHLO_DIVIDE", [[1.0, -1.0], [0.0, 0.0]], {}, [[INF, -INF]]),
    Case("STABLEHLO_MINIMUM", [[3.0], [5.0]], {}, [[3.0]]),
    Case("STABLEHLO_POWER", [[3.0], [2.0]], {}, [[9.0]]),
    Case(
        "STABLEHLO_POWER",
        [[2, 2, 1, -1, -1, 0, 10], [5, -1, -3, -3, -2, 0, 10]],
        {},
        [[32, 0, 1, -1, 1, 1, 1410065408]],
    ),
    Case("STABLEHLO_POWER", [np.int8([2, -3]), np.int8([7, 3])], {}, [np.int8([-128, -27])]),
    Case("STABLEHLO_REMAINDER", [[-7, 7], [2, -2]], {}, [[-1, 1]]),
    Case(
        "ADD",
        [np.complex64([1]), np.complex64([2j])],
        {"fused_activation_function": "RELU", "pot_scale_int16": True},
        refused="Activation is not allowed for complex64 input: got RELU; ADD takes NONE",
        outputs=[T(np.complex64([0]))],
    ),
]
