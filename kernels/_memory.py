"""Memory that devices can use in place: aligned to what the widest vector takes."""

from __future__ import annotations

import numpy as np

from .types import Array

ALIGNMENT = 64


def aligned(nbytes: int) -> Array:
    """`nbytes` of memory, not set, that begins at a multiple of 64."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT
    return raw[skip : skip + nbytes]


def aligned_copy(values: Array) -> Array:
    """In one piece."""
    if values.dtype.hasobject:
        return values.copy()
    made = aligned(values.nbytes).view(values.dtype).reshape(values.shape)
    np.copyto(made, values)
    return made
