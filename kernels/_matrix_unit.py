"""When the matrix units of GPUs multiply floats."""

from __future__ import annotations

import numpy as np

from .device import Capability
from .types import Array


def halves_do(capability: Capability, constant: Array | None = None) -> bool:
    """Whether factors of floats may be rounded to halves, for a matrix unit that adds in float32.

    Only where the user asked for halves, and not where a constant factor is beyond their range.
    """
    if not (capability.half and capability.mma):
        return False
    if constant is None:
        return True
    with np.errstate(over="ignore"):
        small = constant.astype(np.float16)
    return bool(np.array_equal(np.isfinite(small), np.isfinite(constant)))
