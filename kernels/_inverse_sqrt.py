"""1 / sqrt(x) as a fixed-point multiplier, bit for bit as TensorFlow Lite computes it."""

from __future__ import annotations

import numpy as np

from ._fixedpoint import INT32_MAX, leading_zeros, multiply, times_pot
from .types import Array


def inverse_sqrt(x: Array) -> tuple[Array, Array]:
    """(q, shift) with 1/sqrt(x) = q / 2^31 * 2^shift, for int32 values x; int64. 0 counts as 1."""
    x = np.asarray(x, np.int64)
    # powers of four out of x, powers of two into the result
    down = np.maximum((31 - leading_zeros(x)) - 28 + 1, 0) >> 1
    reduced = np.maximum(x >> (2 * down), 1)
    up = np.maximum(((leading_zeros(reduced) - 1) >> 1) - 1, 0)
    right = 11 + down - up
    half_input = times_pot((reduced << (2 * up)) >> 1, -1)
    root = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = times_pot(multiply(multiply(root, root), root), 6)
        root = times_pot(multiply(root, 3 << 27) - multiply(half_input, cube), 3)
    root = multiply(root, 1518500250)
    q = root << np.maximum(-right, 0)
    one = x <= 1
    return np.where(one, INT32_MAX, q), np.where(one, 0, -np.maximum(right, 0))
