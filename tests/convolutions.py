"""What cases of CONV_2D and DEPTHWISE_CONV_2D have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import Array, DType

Pair = tuple[int, int]


def options(
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    activation: str = "NONE",
    **more: Any,
) -> dict[str, Any]:
    return {
        "padding": padding,
        "stride_h": stride[0],
        "stride_w": stride[1],
        "dilation_h_factor": dilation[0],
        "dilation_w_factor": dilation[1],
        "fused_activation_function": activation,
        **more,
    }


def multipliers(x: np.float32, scales: Array, y: np.float32, dtype: DType, units: int) -> Array:
    """What sums of products are multiplied by for each of the channels: input and weights' scales
    over the output's.
    """
    if dtype is DType.UINT8:
        # TensorFlow Lite multiplies these two in float32
        products = (x * scales).astype(np.float64)
    else:
        products = np.float64(x) * scales.astype(np.float64)
    return np.broadcast_to(products / np.float64(y), units)
