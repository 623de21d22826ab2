"""Users' arrays on a device as inputs and outputs: what both backends ask of them."""

from __future__ import annotations

from typing import Any

from ...kernels.api import TensorSpec


def misfits(array: Any, spec: TensorSpec) -> list[str]:
    """What keeps an array, CuPy's or PyOpenCL's, from being the tensor: parts of a sentence."""
    wanted = spec.dtype.numpy
    found = []
    if array.dtype != wanted:
        found.append(f"is {array.dtype}; takes {wanted} ({spec.dtype.label})")
    if tuple(array.shape) != spec.shape:
        found.append(f"has the shape {tuple(array.shape)}; takes {spec.shape}")
    if not array.flags.c_contiguous:
        found.append("is not in row-major order: make it contiguous first")
    return found
