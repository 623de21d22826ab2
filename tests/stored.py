"""One tensor [2, 2] of every type that an op which only moves elements takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import T

from litedelegate.kernels.types import DType

STORED = [
    *(
        T(np.array([[1, 2], [3, 4]]).astype(d.numpy), d)
        for d in DType
        if d.is_integer and d.bits >= 8
    ),
    T(np.array([[-8, 7], [-1, 0]], np.int8), DType.INT4),
    T(np.array([[-2, 1], [-1, 0]], np.int8), DType.INT2),
    T(np.array([[1.5, np.nan], [-np.inf, -0.0]], np.float32)),
    T(np.array([[1.5, np.nan], [-np.inf, -0.0]], np.float16)),
    T(np.array([[1.5, 2.0], [-3.0, 0.0]], np.float64)),
    T(np.array([[1.5, 2.0], [-3.0, 0.0]], np.float32), DType.BFLOAT16),
    T(np.array([[True, False], [False, True]])),
    T(np.array([[1 + 2j, 0], [3, -1j]], np.complex64)),
    T(np.array([[b"one", b""], [b"two", b"\xff\x00"]], object)),
]


def moved(x: T, move: Any) -> T:
    """`move(value)` as a tensor of the same type."""
    return T(move(np.asarray(x.value)), x.dtype)
