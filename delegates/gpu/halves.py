"""Half storage, where the user asks for it: what stays on the device in float32 is stored in 16
bits, and computed with in 32.

A kernel's body need not know of it, as long as it reaches a tensor by `LOAD0(i)` … and `STORE`: the
type that these convert is the tensor's. Tensors to which some body has a pointer stay as they are,
and so do inputs, outputs and what maps read of constants.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ...kernels.device import text
from ...kernels.types import Array, DType
from .fuse import Fused, Fuser
from .library import Library
from .texts import Bodied, Mapped, Operand


def halve(fuser: Fuser, crossing: Collection[int]) -> None:
    """Changes the operands of `fuser.kernels`, and constants, to halves where that can be."""
    keys = _reached_by_value(fuser.kernels) - set(crossing)
    for key in list(keys):
        constant = fuser.constants.get(key)
        if constant is None:
            continue
        small = _as_halves(constant)
        if small is None:
            keys.discard(key)
        else:
            fuser.constants[key] = small
    for kernel in fuser.kernels:
        kernel.first = _halved(kernel.first, keys)
        kernel.rest = [_halved_map(m, keys) for m in kernel.rest]


def _reached_by_value(kernels: Sequence[Fused]) -> set[int]:
    """Tensors of float32 that no text has a pointer to."""
    found: set[int] = set()
    barred: set[int] = set()
    for kernel in kernels:
        found |= {o.key for o in (kernel.output, *kernel.reads) if o.dtype is DType.FLOAT32}
        # the same memory may count as another type, too
        barred |= {o.key for o in (kernel.output, *kernel.reads) if o.dtype is not DType.FLOAT32}
        for part in (kernel.first, *kernel.rest):
            if isinstance(part, Mapped):
                barred |= {table.key for table in part.tables}
        if isinstance(kernel.first, Bodied):
            barred |= _pointed_at(kernel.first, not kernel.rest)
    return found - barred


def _pointed_at(kernel: Bodied, alone: bool) -> set[int]:
    step = kernel.step
    if isinstance(step, Library):
        return {kernel.output.key, *(o.key for o in kernel.reads)}
    words = set(re.findall(r"\w+", text(step.file)))
    for value in step.defines.values():
        words |= set(re.findall(r"\w+", str(value)))
    found = {o.key for k, o in enumerate(kernel.reads) if f"IN{k}" in words}
    if alone and "OUT" in words:
        found.add(kernel.output.key)
    return found


def _as_halves(constant: Array) -> Array | None:
    """None for what is no table of weights, or beyond the range of halves."""
    if constant.ndim < 2:  # one for each channel: nothing is won
        return None
    with np.errstate(over="ignore"):
        small: Array = constant.astype(np.float16)
    return small if np.array_equal(np.isfinite(small), np.isfinite(constant)) else None


def _halved(part: Mapped | Bodied, keys: Collection[int]) -> Mapped | Bodied:
    if isinstance(part, Mapped):
        return _halved_map(part, keys)
    reads = tuple(_half(o, keys) for o in part.reads)
    return replace(part, reads=reads, output=_half(part.output, keys))


def _halved_map(part: Mapped, keys: Collection[int]) -> Mapped:
    reads = tuple(None if o is None else _half(o, keys) for o in part.reads)
    return replace(part, reads=reads, output=_half(part.output, keys))


def _half(operand: Operand, keys: Collection[int]) -> Operand:
    return replace(operand, dtype=DType.FLOAT16) if operand.key in keys else operand
