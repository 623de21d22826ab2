"""Cases of the ops in kernels/quantize.py and kernels/cast.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cases import Case, T
from litedelegate.kernels.api import Options
from litedelegate.kernels.types import DType

INF, NAN = math.inf, math.nan
CAST = {"in_data_type": DType.FLOAT32, "out_data_type": DType.FLOAT32}


def int8(values: Any, scale: Any, zero: Any = 0, **more: Any) -> T:
    return T(values, DType.INT8, scale, zero, **more)


def cast(x: Any, y: Any) -> Case:
    return Case("CAST", [x], CAST, [y])


CASES = [
    # halves go away from zero, whatever the zero point
    Case(
        "QUANTIZE",
        [[-1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 0.2499999]],
        {},
        [int8([-3, -2, -1, 1, 2, 3, 0], 0.5)],
    ),
    Case("QUANTIZE", [[-1.25, 0.25, 1.25]], {}, [int8([-13, -9, -7], 0.5, -10)]),
    Case("QUANTIZE", [[-1e30, 1e30, -INF, INF]], {}, [int8([-128, 127, -128, 127], 0.5, -10)]),
    Case("QUANTIZE", [[NAN, 0.5]], {}, [int8([-10, -9], 0.5, -10)]),
    Case("QUANTIZE", [[0.0, 1.0, 300.0]], {}, [T([128, 130, 255], DType.UINT8, 0.5, 128)]),
    Case("QUANTIZE", [[0.25, -7e4]], {}, [T([1, -32768], DType.INT16, 0.5)]),
    Case("QUANTIZE", [[0.25, -70.0]], {}, [T([1, -8], DType.INT4, 0.5)]),
    Case("QUANTIZE", [np.float16([0.25, 1.0])], {}, [int8([1, 2], 0.5)]),
    Case(
        "QUANTIZE",
        [[[1.0, 1.0], [3.0, 3.0]]],
        {},
        [int8([[2, 5], [6, 13]], [0.5, 0.25], [0, 1], axis=1)],
        name="per-axis",
    ),
    Case(
        "QUANTIZE",
        [int8([-128, -60, -1, 0, 5, 60, 127], 0.05, 3)],
        {},
        [T([0, 49, 123, 124, 131, 199, 255], DType.UINT8, 0.04, 128)],
        name="int8-to-uint8",
    ),
    Case(
        "QUANTIZE",
        [T([-32768, -8000, -1, 0, 300, 8000, 32767], DType.INT16, 0.001)],
        {},
        [int8([-128, -128, -10, -10, -2, 127, 127], 0.04, -10)],
        name="int16-to-int8",
    ),
    Case("QUANTIZE", [T([1000, -3], DType.INT32, 0.01)], {}, [int8([20, 0], 0.5)]),
    Case("QUANTIZE", [[1.0]], {}, refused="QUANTIZE needs its scale", outputs=[T(np.int8([0]))]),
    Case(
        "QUANTIZE",
        [[[1.0, 1.0, 1.0]]],
        {},
        refused="2 scales along dimension 1 of [1, 3]",
        outputs=[int8([[0]], [0.5, 0.25], axis=1)],
    ),
    Case(
        "DEQUANTIZE",
        [int8([-128, 3, 127], 0.1, 3)],
        {},
        [np.float32([-131, 0, 124]) * np.float32(0.1)],
        tolerance=0,
    ),
    Case("DEQUANTIZE", [T([0, 255], DType.UINT8, 0.5, 128)], {}, [[-64.0, 63.5]]),
    Case("DEQUANTIZE", [T([-8, 7], DType.INT4, 0.5, 1)], {}, [[-4.5, 3.0]]),
    Case("DEQUANTIZE", [T([-2, 1], DType.INT2, 0.5)], {}, [[-1.0, 0.5]]),
    Case("DEQUANTIZE", [T([-32768], DType.INT16, 0.5)], {}, [[-16384.0]]),
    Case("DEQUANTIZE", [np.float16([1.5, -2])], {}, [[1.5, -2.0]]),
    Case("DEQUANTIZE", [T([1.5, -2], DType.BFLOAT16)], {}, [[1.5, -2.0]]),
    Case(
        "DEQUANTIZE",
        [int8([[1, 2], [3, 4]], [0.5, 2.0], [0, 1])],
        {},
        [[[0.5, 1.0], [4.0, 6.0]]],
        name="per-axis",
    ),
    Case(
        "DEQUANTIZE",
        [int8([[1, 2, 3, 4]], [[0.5, 2.0]], block_size=2)],
        {},
        [[[0.5, 1.0, 6.0, 8.0]]],
        name="blockwise",
    ),
    Case("DEQUANTIZE", [T(np.int8([1]))], {}, refused="DEQUANTIZE needs one", outputs=[T([1.0])]),
    Case(
        "FAKE_QUANT",
        [[-2.0, -0.5, 0.05, 0.49, 3.0]],
        {"min": -1.0, "max": 1.0, "num_bits": 4, "narrow_range": False},
        [[-0.9333334, -0.53333336, 0.0, 0.5333333, 1.0666667]],
    ),
    Case(
        "FAKE_QUANT",
        [[0.0, -0.0, 0.001]],
        {"min": -1.0, "max": 1.0, "num_bits": 8, "narrow_range": False},
        [[0.0, 0.0, 0.0]],
        tolerance=0,
        name="zero is exact",
    ),
    Case(
        "FAKE_QUANT",
        [[1.0]],
        {"min": 1.0, "max": 1.0, "num_bits": 8, "narrow_range": False},
        refused="min below max",
        outputs=[T([1.0])],
    ),
    cast(
        [-1.9, 1.9, 3e9, -3e9, INF, -INF, NAN],
        [-1, 1, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2**31 - 1],
    ),
    cast([-1.9, 127.9, 128.0, -129.0, NAN], np.int8([-1, 127, 127, -128, 127])),
    cast([-1.0, 255.9, 256.0], np.uint8([0, 255, 255])),
    cast(np.float64([2.0**62, 1e30]), np.int64([2**62, 2**63 - 1])),
    cast(np.float16([1.9, INF]), np.int16([1, 32767])),
    cast([300, -1], np.uint8([44, 255])),
    cast(np.int64([2**40 + 5]), np.int32([5])),
    cast([0.0, -0.0, 0.1, NAN], [False, False, True, True]),
    cast([True, False], [1.0, 0.0]),
    cast(np.complex64([1.9 + 2j]), [1.9]),
    cast(np.complex64([1.9 + 2j]), [1]),
    cast([1.5], np.complex64([1.5])),
    cast([1.0 + 2**-9], T([1.0], DType.BFLOAT16)),
    cast(T([1.5], DType.BFLOAT16), np.float16([1.5])),
    cast([-9.0, 7.9, 100.0], T([-8, 7, 7], DType.INT4)),
    cast(T([-8, 7], DType.INT4), [-8.0, 7.0]),
    cast(2.5, 2),
    Case("CAST", [[b"a"]], CAST, refused="is string; CAST takes", outputs=[T([1.0])]),
    Case("STABLEHLO_CONVERT", [[1.5, NAN, 3e9]], {}, [[1, 0, 2**31 - 1]]),
    Case("BITCAST", [[1.0]], {}, [np.int32([0x3F800000])]),
    Case("BITCAST", [np.uint8([[0, 0, 128, 63]])], {}, [[1.0]]),
    Case("BITCAST", [np.int16([0x0102])], {}, [np.int8([[2, 1]])]),
    Case(
        "BITCAST",
        [np.uint8([[1, 2]])],
        {},
        refused="the last dimension must be 4",
        outputs=[T([1.0])],
    ),
    Case(
        "DENSIFY",
        [
            T(
                np.float32([1, 2, 3]),
                const=True,
                shape=(3, 2),
                sparsity=Options(
                    traversal_order=(0, 1),
                    block_map=None,
                    dim_metadata=(
                        Options(format="DENSE", dense_size=3),
                        Options(
                            format="SPARSE_CSR",
                            dense_size=0,
                            array_segments=np.array([0, 1, 1, 3]),
                            array_indices=np.array([1, 0, 1]),
                        ),
                    ),
                ),
            )
        ],
        {},
        [[[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]],
    ),
    # 2 x 2 blocks of a 2 x 4 matrix: the second one is stored
    Case(
        "DENSIFY",
        [
            T(
                np.int8([1, 2, 3, 4]),
                const=True,
                shape=(2, 4),
                sparsity=Options(
                    traversal_order=(0, 1, 2, 3),
                    block_map=(0, 1),
                    dim_metadata=(
                        Options(format="DENSE", dense_size=1),
                        Options(
                            format="SPARSE_CSR",
                            dense_size=0,
                            array_segments=np.array([0, 1]),
                            array_indices=np.array([1]),
                        ),
                        Options(format="DENSE", dense_size=2),
                        Options(format="DENSE", dense_size=2),
                    ),
                ),
            )
        ],
        {},
        [np.int8([[0, 0, 1, 2], [0, 0, 3, 4]])],
        name="blocks",
    ),
    Case("DENSIFY", [[1.0]], {}, refused="is no sparse constant", outputs=[T([1.0])]),
]
