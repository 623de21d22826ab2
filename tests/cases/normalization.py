"""Cases of the ops in kernels/normalization.py. 8-bit results are ai-edge-litert's reference's."""

from __future__ import annotations

import numpy as np

from cases import Case, T
from litedelegate.kernels.types import DType

NONE = {"fused_activation_function": "NONE"}
LOCAL = {"radius": 2, "bias": 9.0, "alpha": 4.0, "beta": 0.5}

CASES = [
    Case("L2_NORMALIZATION", [[[3.0, 4.0], [0.0, 0.0]]], NONE, [[[0.6, 0.8], [0.0, 0.0]]]),
    Case("L2_NORMALIZATION", [np.float16([3, 4])], NONE, [np.float16([0.6, 0.8])], tolerance=1e-3),
    Case(
        "L2_NORMALIZATION",
        [T([[-128, -60, -1, 0, 5, 60, 127]], DType.INT8, 0.04, 5)],
        NONE,
        [T([[-85, -42, -4, -3, 0, 35, 78]], DType.INT8, 1 / 128)],
    ),
    Case(
        "L2_NORMALIZATION",
        [T([[0, 60, 127, 128, 133, 200, 255]], DType.UINT8, 0.04, 5)],
        NONE,
        [T([[126, 146, 168, 169, 170, 192, 211]], DType.UINT8, 1 / 128, 128)],
    ),
    Case(
        "L2_NORMALIZATION",
        [T([[1]], DType.INT8, 0.04)],
        NONE,
        refused="L2_NORMALIZATION gives int8 with 0.0078125 and 0",
        outputs=[T([[1]], DType.INT8, 0.04)],
    ),
    Case(
        "L2_NORMALIZATION",
        [[1.0]],
        {"fused_activation_function": "RELU"},
        refused="one dimension or more and NONE",
        outputs=[T([1.0])],
    ),
    Case(
        "LOCAL_RESPONSE_NORMALIZATION",
        [[[[[-1.1, 0.6, 0.7, 1.2, -0.7, 0.1]]]]],
        LOCAL,
        [[[[[-0.28140447, 0.14450492, 0.14596008, 0.2675268, -0.16178755, 0.0244266]]]]],
    ),
    Case(
        "LOCAL_RESPONSE_NORMALIZATION",
        [[1.0]],
        LOCAL,
        refused="four dimensions",
        outputs=[T([1.0])],
    ),
]
