"""The same values, or the same bytes, as another type: CAST, BITCAST, DENSIFY."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ._cast import bind_cast
from ._check import COMPLEX, NUMBERS, PACKED, arity, gives
from ._lower import check, f32, plain, stored_element
from ._sparse import densify
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, op, take
from .device import Capability, Lowered, Map
from .types import DType

_BIT_TYPES = (*NUMBERS, DType.BOOL, *COMPLEX)
_CASTABLE = (*_BIT_TYPES, *PACKED)


def _infer_cast(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    take(node, "input 0", node.input(0), *_CASTABLE)
    gives(node, *_CASTABLE)
    return [node.input(0).shape]


def _lower_cast(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    x, y = node.input(0).dtype, node.outputs[0].dtype
    if y is DType.BOOL:
        return plain("$0 != 0")
    if not (x.is_float and y.is_integer):
        return plain({DType.INT64: "(i64)$0", DType.UINT64: "(u64)$0"}.get(y, "$0"))
    low, high = y.range()
    nan = 0 if node.op == "STABLEHLO_CONVERT" else high
    c_type = {DType.INT64: "i64", DType.UINT64: "u64", DType.UINT32: "u32"}.get(y, "i32")
    least = {-(1 << 63): "(-9223372036854775807L - 1)", -(1 << 31): "(-2147483647 - 1)"}
    ends = [least.get(v, f"{v}{'u' if c_type[0] == 'u' else ''}") for v in (low, high, nan)]
    bottom, end = f32(low), f32(high + 1)  # powers of two, or 0
    inside = f"$0 < {end} ? ($0 < {bottom} ? ({c_type}){ends[0]} : ({c_type})$0)"
    return plain(f"$0 != $0 ? ({c_type}){ends[2]} : {inside} : ({c_type}){ends[1]}")


def _infer_bitcast(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x, y = node.input(0), node.outputs[0]
    take(node, "input 0", x, *_BIT_TYPES)
    gives(node, *_BIT_TYPES)
    before, after = x.dtype.numpy.itemsize, y.dtype.numpy.itemsize
    if before > after:
        return [(*x.shape, before // after)]
    if before == after:
        return [x.shape]
    if not x.shape or x.shape[-1] != after // before:
        raise OpError(
            f"BITCAST of {x} to {y.dtype.label}: the last dimension must be {after // before}"
        )
    return [x.shape[:-1]]


def _bind_bitcast(b: Binding) -> Run | None:
    x, y = b.xi(0), b.y[0]
    if np.shares_memory(x, y):
        return None
    source = x.reshape(-1).view(np.uint8)
    return partial(np.copyto, y.reshape(-1).view(np.uint8), source)


def _lower_bitcast(node: NodeSpec, capability: Capability) -> Lowered:
    """Each element of the output from the same bytes."""
    check(node, capability)
    return Lowered([Map(stored_element(node.outputs[0].dtype, "@0", "#"), (), (0,))])


def _infer_densify(node: NodeSpec) -> list[Shape]:
    arity(node, 1)
    x = node.input(0)
    if x.const is None or x.sparsity is None:
        raise OpError(f"{x.name!r} is no sparse constant; DENSIFY takes nothing else")
    gives(node, x.dtype)
    return [x.shape]


def _bind_densify(b: Binding) -> Run | None:
    return partial(np.copyto, b.y[0], b.once("dense", lambda: densify(b.input(0))))


OPS: Mapping[str, Registration] = {
    r.name: r
    for r in (
        op("CAST", _infer_cast, bind_cast, versions=(1, 9), lower=_lower_cast),
        op("STABLEHLO_CONVERT", _infer_cast, bind_cast, lower=_lower_cast),
        op("BITCAST", _infer_bitcast, _bind_bitcast, inplace=(0,), lower=_lower_bitcast),
        op("DENSIFY", _infer_densify, _bind_densify),
    )
}
