"""CAST between any two element types.

Floats to integers: towards zero, saturated; NaN gives the greatest integer with CAST, 0 with
STABLEHLO_CONVERT, as in XLA. Integers to integers wrap. Complex numbers lose their imaginary part.
Anything but zero is true.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ._elementwise import in_blocks, sequence
from ._widen import in_float32
from .api import Binding, Run
from .types import Array, DType


@in_float32
def bind_cast(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    source, target = b.input(0).dtype, b.outputs[0].dtype
    if x.dtype.kind == "c" and y.dtype.kind != "c":
        x, source = x.real, DType.FLOAT32 if source is DType.COMPLEX64 else DType.FLOAT64
    if target is DType.BOOL:
        return partial(np.not_equal, x, np.array(0, x.dtype), out=y)
    if source.is_float and target.is_integer:
        nan = 0 if b.op == "STABLEHLO_CONVERT" else target.range()[1]
        if x.flags.c_contiguous:
            return in_blocks(b, (x, y), partial(_saturate, target, nan), (x.dtype, np.bool_))
        work, inside = b.scratch(x.shape, x.dtype), b.scratch(x.shape, np.bool_)
        return _saturate(target, nan, x, y, work, inside)
    if target.bits < 8:
        return sequence(partial(np.copyto, y, x, casting="unsafe"), partial(_wrap, y, target))
    return partial(np.copyto, y, x, casting="unsafe")


def _saturate(target: DType, nan: int, x: Array, y: Array, work: Array, inside: Array) -> Run:
    low, high = target.range()
    end = np.array(float(high) + 1, x.dtype)
    # the greatest float below the end, which the integer type holds
    top = np.nextafter(end, np.array(0, x.dtype))
    bottom, greatest, clip = np.array(low, x.dtype), np.array(high, y.dtype), x.clip

    def run() -> None:
        clip(bottom, top, work)
        np.copyto(y, work, casting="unsafe")
        np.less(x, end, out=inside)  # not so for NaN
        if not inside.all():
            np.copyto(y, greatest, where=np.logical_not(inside, out=inside))
            if nan != high:
                np.copyto(y, nan, where=np.isnan(x, out=inside))

    return run


def _wrap(y: Array, target: DType) -> None:
    """Cuts values down to a type of fewer bits than its storage."""
    low, high = target.range()
    y &= high - low
    if low < 0:
        y[y > high] -= high - low + 1
