"""Ops whose output is made rather than moved: constants, counts, shapes, one-hot rows."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ._check import COMPLEX, INTEGERS, gives
from ._lower import Lower, check, checked
from ._rows_lower import coordinates, scattered, strides_of
from ._shape import (
    INDEX,
    copy,
    in_range,
    known,
    like,
    one,
    rank_is,
    same_quantization,
)
from ._widen import FLOATS
from .api import Binding, NodeSpec, OpError, Registration, Run, Shape, TensorSpec, op, take
from .device import Capability, Lowered, Map, Read
from .types import Array, DType, float32_to_bfloat16


def _dims(node: NodeSpec, what: str, spec: TensorSpec) -> Shape | None:
    """A shape that is given as a tensor."""
    take(node, what, spec, *INDEX)
    rank_is(node, what, spec, 1)
    values = known(spec)
    if values is not None and min(values, default=0) < 0:
        raise OpError(f"{node.op}: dimensions must be >= 0; {what} {spec.name!r} is {list(values)}")
    return values


def _fill(node: NodeSpec) -> list[Shape | None]:
    value = node.input(1)
    like(node, value, node.outputs[0])
    one(node, "value", value)
    same_quantization(node, value, node.outputs[0])
    return [_dims(node, "dims", node.input(0))]


def _bind_fill(b: Binding) -> Run | None:
    return copy(b.y[0], b.xi(1).reshape(()))


def _zeros_like(node: NodeSpec) -> list[Shape | None]:
    x = node.input(0)
    like(node, x, node.outputs[0])
    return [x.shape]


def _bind_zeros_like(b: Binding) -> Run | None:
    return partial(b.y[0].fill, b"" if b.outputs[0].dtype is DType.STRING else 0)


def _shape(node: NodeSpec) -> list[Shape | None]:
    take(node, "output", node.outputs[0], *INDEX)
    return [(node.input(0).rank,)]


def _bind_shape(b: Binding) -> Run | None:
    return copy(b.y[0], np.array(b.input(0).shape, b.y[0].dtype))


def _rank(node: NodeSpec) -> list[Shape | None]:
    node.input(0)
    take(node, "output", node.outputs[0], DType.INT32)
    return [()]


def _bind_rank(b: Binding) -> Run | None:
    return partial(b.y[0].fill, b.input(0).rank)


def _range(node: NodeSpec) -> list[Shape | None]:
    specs = [node.input(i) for i in range(3)]
    for what, spec in zip(("start", "limit", "delta"), specs, strict=True):
        take(node, what, spec, DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64)
        rank_is(node, what, spec, 0)
    like(node, specs[0], *specs[1:], node.outputs[0])
    if any(s.const is None for s in specs):
        return [None]
    start: Any
    limit: Any
    delta: Any
    start, limit, delta = (s.const[()] for s in specs if s.const is not None)
    if not specs[0].dtype.is_float:
        start, limit, delta = int(start), int(limit), int(delta)
    arrives = (delta > 0 and start <= limit) or (delta < 0 and start >= limit)
    if not arrives or not math.isfinite(limit - start):
        raise OpError(f"RANGE from {start} to {limit} in steps of {delta} does not end")
    if specs[0].dtype.is_float:
        # in the type of the operands, as TensorFlow Lite computes it
        with np.errstate(all="ignore"):
            quotient = float(abs((limit - start) / delta))
        count = math.ceil(quotient) if math.isfinite(quotient) else quotient
    else:
        count = -(-abs(limit - start) // abs(delta))
    if count >= 1 << 31:
        raise OpError(
            f"RANGE from {start} to {limit} in steps of {delta} has {count} elements; a dimension "
            f"is at most {(1 << 31) - 1}"
        )
    return [(int(count),)]


def _bind_range(b: Binding) -> Run | None:
    start, delta, y = b.xi(0), b.xi(2), b.y[0]

    def run() -> None:
        # each element is the one before plus delta, rounded each time
        y.fill(delta[()])
        y[:1] = start
        np.add.accumulate(y, out=y)

    return run


def _one_hot_axis(node: NodeSpec | Binding) -> int:
    rank, axis = node.inputs[0].rank if node.inputs[0] else 0, node.options.axis
    if not -1 <= axis <= rank:
        raise OpError(f"ONE_HOT takes axis -1 to {rank}; got {axis}")
    return rank if axis == -1 else int(axis)


def _one_hot(node: NodeSpec) -> list[Shape | None]:
    indices, depth, on, off = (node.input(i) for i in range(4))
    take(node, "indices", indices, *INDEX, DType.UINT8, DType.INT8)
    take(node, "depth", depth, *INDEX)
    for what, spec in (("depth", depth), ("on value", on), ("off value", off)):
        one(node, what, spec)
    like(node, on, off, node.outputs[0])
    axis, values = _one_hot_axis(node), known(depth)
    if values is None:
        return [None]
    if values[0] < 0:
        raise OpError(f"ONE_HOT takes a depth of 0 or more; got {values[0]}")
    return [(*indices.shape[:axis], values[0], *indices.shape[axis:])]


def _bind_one_hot(b: Binding) -> Run | None:
    y, axis = b.y[0], _one_hot_axis(b)
    on, off = b.xi(2).reshape(()), b.xi(3).reshape(())
    indices = np.expand_dims(b.xi(0), axis)
    places = np.arange(y.shape[axis], dtype=np.int64)
    places = places.reshape((-1,) + (1,) * (y.ndim - axis - 1))
    hot = b.scratch(y.shape, np.bool_)

    def run() -> None:
        np.equal(indices, places, out=hot)
        y[...] = off
        np.copyto(y, on, where=hot)

    return run


def _sparse_to_dense(node: NodeSpec) -> list[Shape | None]:
    indices, shape, values, default = (node.input(i) for i in range(4))
    take(node, "indices", indices, *INDEX)
    rank_is(node, "indices", indices, 0, 1, 2)
    rank_is(node, "values", values, 0, 1)
    one(node, "default value", default)
    like(node, values, default, node.outputs[0])
    count, rank = indices.shape if indices.rank == 2 else (indices.size, 1)
    if rank != shape.size:
        raise OpError(f"SPARSE_TO_DENSE: indices of {rank} numbers into a shape of {shape.size}")
    if values.rank and values.size != count:
        raise OpError(f"SPARSE_TO_DENSE: {count} indices, {values.size} values")
    return [_dims(node, "output_shape", shape)]


def _bind_sparse_to_dense(b: Binding) -> Run | None:
    y, indices, values, default = b.y[0], b.xi(0), b.xi(2), b.xi(3).reshape(())
    limits = np.array(y.shape, np.int64)
    count = indices.shape[0] if indices.ndim == 2 else indices.size
    rows = indices.reshape(count, y.ndim)
    wide, flag = b.scratch(rows.shape, np.int64), b.scratch(rows.shape, np.bool_)

    def run() -> None:
        y[...] = default
        wide[...] = rows
        if not in_range(wide, limits, flag):
            bad = rows[flag.any(axis=1)][0].tolist()
            raise OpError(f"SPARSE_TO_DENSE: index {bad} is outside of the shape {list(y.shape)}")
        # of equal indices the last one counts
        y[tuple(wide.T)] = values

    return run


def _iota(node: NodeSpec) -> list[Shape | None]:
    y = node.outputs[0]
    gives(node, *FLOATS, *INTEGERS, *COMPLEX)
    if not 0 <= node.options.iota_dimension < y.rank:
        raise OpError(f"STABLEHLO_IOTA: dimension {node.options.iota_dimension} of {y}")
    return [y.shape]


def _bind_iota(b: Binding) -> Run | None:
    y, axis = b.y[0], b.options.iota_dimension
    count: Array = np.arange(y.shape[axis])
    if b.outputs[0].dtype is DType.BFLOAT16:
        count = float32_to_bfloat16(count.astype(np.float32))
    return copy(y, count.astype(y.dtype).reshape((-1,) + (1,) * (y.ndim - axis - 1)))


# -- devices


def _lower_fill(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    return Lowered([Map("$0", (Read(1),))])


def _lower_one_hot(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    y, axis = node.outputs[0], _one_hot_axis(node)
    strides = [0] * y.rank
    step = 1
    for d in reversed(range(y.rank)):
        if d != axis:
            strides[d] = step
            step *= y.shape[d]
    index = Read(0, strides=tuple(strides))
    place = coordinates("#", y.shape)[axis]
    return Lowered([Map(f"$0 == {place} ? $1 : $2", (index, Read(2), Read(3)))])


def _lower_sparse_to_dense(node: NodeSpec, capability: Capability) -> Lowered:
    check(node, capability)
    y, points, values = node.outputs[0], node.input(0), node.input(2)
    count = points.shape[0] if points.rank == 2 else points.size
    lines = []
    for d, (size, stride) in enumerate(zip(y.shape, strides_of(y.shape), strict=True)):
        lines.append(
            f"const i64 at{d} = LOAD1(r * {y.rank} + {d}); to += (i32)at{d} * {stride}; "
            f"if (at{d} < 0 || at{d} >= {size}) {{ FAULT0; continue; }}"
        )
    fault = f"SPARSE_TO_DENSE: index in {points.name!r} is outside of the shape {list(y.shape)}"
    # of equal indices the last one counts
    put = scattered(
        capability,
        count,
        1,
        y.size,
        " ".join(lines),
        "STORE(at, v)",
        (2, 0),
        [fault],
        "LOAD0(r)" if values.rank else "LOAD0(0)",
    )
    return Lowered([Map("$0", (Read(3),)), put])


_zero: Lower = checked(lambda node, capability: Lowered([Map("0", ())]))

OPS: dict[str, Registration] = {
    "FILL": op("FILL", _fill, _bind_fill, versions=(1, 5), lower=_lower_fill),
    "ZEROS_LIKE": op("ZEROS_LIKE", _zeros_like, _bind_zeros_like, lower=_zero),
    "SHAPE": op("SHAPE", _shape, _bind_shape, shape_only=True),
    "RANK": op("RANK", _rank, _bind_rank, shape_only=True),
    "RANGE": op("RANGE", _range, _bind_range, versions=(1, 2)),
    "ONE_HOT": op("ONE_HOT", _one_hot, _bind_one_hot, lower=_lower_one_hot),
    "SPARSE_TO_DENSE": op(
        "SPARSE_TO_DENSE",
        _sparse_to_dense,
        _bind_sparse_to_dense,
        versions=(1, 3),
        lower=_lower_sparse_to_dense,
    ),
    "STABLEHLO_IOTA": op("STABLEHLO_IOTA", _iota, _bind_iota),
}
