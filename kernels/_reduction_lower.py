"""The device form of reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ._lower import lanes_for, refuse
from .api import NodeSpec
from .device import Capability, Kernel, Lowered
from .types import DType

_C_TYPES = {
    DType.FLOAT64: "f64",
    DType.INT64: "i64",
    DType.UINT64: "u64",
    DType.UINT32: "u32",
}


def sum_type(dtype: DType) -> str:
    """C type in which values of `dtype` are combined."""
    return "f32" if dtype.is_float and dtype is not DType.FLOAT64 else _C_TYPES.get(dtype, "i32")


def lower_reduction(
    node: NodeSpec,
    capability: Capability,
    axes: Sequence[int],
    start: str,
    combine: str,
    finish: str = "(v)",
    acc: str = "",
) -> Lowered:
    """`combine` of `a`, what is folded so far, and `v`; `finish` of `v`; all of type `acc`."""
    x = node.input(0)
    if x.size == 0:
        refuse("SHAPE", f"{x}, of no elements", "one or more")
    strides = [math.prod(x.shape[i + 1 :]) for i in range(x.rank)]
    kept = [(d, s) for i, (d, s) in enumerate(zip(x.shape, strides, strict=True)) if i not in axes]
    folded = [(x.shape[i], strides[i]) for i in axes]
    size, count = (math.prod(d for d, _ in dims) for dims in (kept, folded))
    beside = bool(kept) and kept[-1][1] == 1
    lanes = lanes_for(capability, kept[-1][0]) if beside else 1
    defines = {
        "ACC": acc or sum_type(x.dtype),
        "START": start,
        "COMBINE(a, v)": f"({combine})",
        "FINISH(v)": f"({finish})",
        "BASE(i)": place_of(kept, "i"),
        "STEP(k)": place_of(folded, "k"),
        "SIZE": size,
        "COUNT": count,
        "LANES": lanes,
    }
    return Lowered([Kernel("reduce", (0,), (size // lanes,), defines, uses=("fixed",))])


def place_of(dims: Sequence[tuple[int, int]], i: str) -> str:
    """Where flat index `i` over these (size, stride) lies."""
    terms, below = [], 1
    for size, stride in reversed(dims):
        terms.append(f"({i}) / {below} % {size} * {stride}")
        below *= size
    return f"({' + '.join(terms) or '0'})"
